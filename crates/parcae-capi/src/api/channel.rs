//! Channels of numbers and of pointers, by the same generic code.

use crate::decl::{Int, Status, c_api};
use crate::fault::Fault;
use crate::global::{ROOT, waiting};
use crate::objects::{Channel, Pointer, Thing, ThingKind, find};
use crate::types::*;
use crate::{caller, global};
use parcae::Error;
use parcae::cap::CapChannel;
use parcae::channel::{RecvError, SendError, channel};
use parcae::profile::Feature;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long to wait for a channel.
#[derive(Clone, Copy)]
enum WaitLimit {
    Forever,
    Within(Duration),
}

fn create<T>(capacity: i32, cap: Option<&CapChannel>) -> Result<Arc<Channel<T>>, Fault> {
    let global = global::get()?;
    global.check(Feature::Channel)?;
    if cap.is_none() && global.profile.needs_capability() {
        let text = "the sovereign profile makes channels with a capability: call \
                    parcae_channel_create_i64 or _ptr with one";
        return Err(Fault::new(E_CAPABILITY, text));
    }
    let capacity = capacity.max(0) as usize;
    let permit = match cap {
        Some(cap) => Some(cap.admit(capacity).map_err(Error::from)?),
        None => None,
    };
    let (sender, receiver) = channel(capacity);
    Ok(Arc::new(Channel { sender, receiver, permit: Mutex::new(permit) }))
}

fn capability(cap: *mut Cap) -> Result<Arc<CapChannel>, Fault> {
    Ok(find!(cap, CapChannel))
}

/// Does something with a channel that the caller may have used before.
macro_rules! with {
    ($handle:expr, $kind:ident, $use_it:expr) => {
        caller::with_object($handle, ThingKind::$kind, |thing| match thing {
            Thing::$kind(channel) => $use_it(channel),
            _ => unreachable!("the table compares kinds"),
        })
    };
}

fn send<T: Send>(channel: &Arc<Channel<T>>, value: T, limit: WaitLimit) -> Result<(), Fault> {
    let sent = waiting(move || match limit {
        WaitLimit::Forever => channel.sender.send(value),
        WaitLimit::Within(time) => channel.sender.send_timeout(value, time),
    })?;
    sent.map_err(|error: SendError<T>| Error::from(error).into())
}

fn recv<T: Send>(channel: &Arc<Channel<T>>, limit: WaitLimit) -> Result<T, Fault> {
    let received = waiting(move || match limit {
        WaitLimit::Forever => channel.receiver.recv(),
        WaitLimit::Within(time) => channel.receiver.recv_timeout(time),
    })?;
    received.map_err(|error: RecvError| Error::from(error).into())
}

/// 1 if it was done, 0 if it would have had to wait.
fn at_once<R>(done: Result<R, Error>) -> Result<Option<R>, Fault> {
    match done {
        Ok(value) => Ok(Some(value)),
        Err(error) => match Fault::from(error) {
            Fault { kind: E_WOULD_WAIT, .. } => Ok(None),
            fault => Err(fault),
        },
    }
}

fn try_send<T>(channel: &Arc<Channel<T>>, value: T) -> Result<Int, Fault> {
    Ok(Int(at_once(channel.sender.try_send(value).map_err(Error::from))?.is_some().into()))
}

fn try_recv<T>(channel: &Arc<Channel<T>>) -> Result<Option<T>, Fault> {
    at_once(channel.receiver.try_recv().map_err(Error::from))
}

/// Closes a channel, which wakes its waiters, and removes its handle.
fn destroy<T>(channel: Option<Arc<Channel<T>>>) {
    if let Some(channel) = channel {
        channel.sender.close();
        drop(channel.permit.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

fn set<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: the caller's.
        unsafe { to.write(value) };
    }
}

/// `int64_t`.
pub mod numbers {
    use super::*;

    c_api! {
        /// Creates a channel of int64_t. A capacity of 0 or less is a rendezvous: a send waits for
        /// its receive. NULL on failure.
        fn janus_channel_create_i64(capacity: i32) -> *mut c_void {
            ROOT.objects.insert(Thing::Numbers(create(capacity, None)?))
        }

        /// The same, by the authority of a capability.
        fn parcae_channel_create_i64(capacity: i32, cap: *mut Cap) -> *mut c_void {
            ROOT.objects.insert(Thing::Numbers(create(capacity, Some(&*capability(cap)?))?))
        }

        /// Closes a channel and ends its handle. Its waiters are woken.
        fn janus_channel_destroy_i64(channel: *mut c_void) -> () {
            destroy(match ROOT.objects.remove(channel, ThingKind::Numbers)? {
                Thing::Numbers(channel) => Some(channel),
                _ => None,
            });
            Ok(())
        }

        /// Sends; waits while the channel is full. 0, or -1 if the channel is closed or the task
        /// was cancelled.
        fn janus_channel_send_i64(channel: *mut c_void, value: i64) -> Int {
            with!(channel, Numbers, |channel| send(channel, value, WaitLimit::Forever))?;
            Ok(Int(0))
        }

        /// Receives; waits for a value. On failure *error is -1 and the result INT64_MIN; otherwise
        /// *error is 0. error may be NULL.
        fn janus_channel_recv_i64(channel: *mut c_void, error: *mut i32) -> i64 {
            set(error, -1);
            let value = with!(channel, Numbers, |channel| recv(channel, WaitLimit::Forever))?;
            set(error, 0);
            Ok(value)
        }

        /// Sends without waiting: 1; 0 if it would have to wait; -1 on failure.
        fn janus_channel_try_send_i64(channel: *mut c_void, value: i64) -> Int {
            with!(channel, Numbers, |channel| try_send(channel, value))
        }

        /// Receives without waiting: 1; 0 if it would have to wait; -1 on failure.
        fn janus_channel_try_recv_i64(channel: *mut c_void, value: *mut i64) -> Int {
            let received = with!(channel, Numbers, try_recv)?;
            received.map_or(Ok(Int(0)), |received| {
                set(value, received);
                Ok(Int(1))
            })
        }

        /// Sends; waits no longer than the given time.
        fn parcae_channel_send_timeout_i64(channel: *mut c_void, value: i64, nanoseconds: u64) -> Status {
            send(&find!(channel, Numbers), value, WaitLimit::Within(Duration::from_nanos(nanoseconds)))?;
            Ok(Status(OK))
        }

        /// Receives; waits no longer than the given time.
        fn parcae_channel_recv_timeout_i64(
            channel: *mut c_void,
            value: *mut i64,
            nanoseconds: u64,
        ) -> Status {
            let limit = WaitLimit::Within(Duration::from_nanos(nanoseconds));
            set(value, recv(&find!(channel, Numbers), limit)?);
            Ok(Status(OK))
        }

        /// Closes the channel: values in it can still be received, no more can be sent. Closing it
        /// again has no effect.
        fn janus_channel_close_i64(channel: *mut c_void) -> () {
            find!(channel, Numbers).sender.close();
            Ok(())
        }

        /// Whether the channel is closed: 1 or 0. An invalid handle counts as closed.
        fn janus_channel_is_closed_i64(channel: *mut c_void) -> i32 {
            match ROOT.objects.get(channel, ThingKind::Numbers) {
                Ok(Thing::Numbers(channel)) => Ok(channel.sender.is_closed().into()),
                _ => Ok(1),
            }
        }

        /// How many values are in the channel; -1 on failure.
        fn janus_channel_len_i64(channel: *mut c_void) -> i32 {
            Ok(find!(channel, Numbers).receiver.len().try_into().unwrap_or(i32::MAX))
        }
    }
}

/// Pointers.
pub mod pointers {
    use super::*;

    c_api! {
        /// Creates a channel of pointers, which are never dereferenced. Pointers that are in it
        /// when it is destroyed are not freed.
        fn janus_channel_create_ptr(capacity: i32) -> *mut c_void {
            ROOT.objects.insert(Thing::Pointers(create(capacity, None)?))
        }

        /// The same, by the authority of a capability.
        fn parcae_channel_create_ptr(capacity: i32, cap: *mut Cap) -> *mut c_void {
            ROOT.objects.insert(Thing::Pointers(create(capacity, Some(&*capability(cap)?))?))
        }

        /// As janus_channel_destroy_i64.
        fn janus_channel_destroy_ptr(channel: *mut c_void) -> () {
            destroy(match ROOT.objects.remove(channel, ThingKind::Pointers)? {
                Thing::Pointers(channel) => Some(channel),
                _ => None,
            });
            Ok(())
        }

        /// As janus_channel_send_i64.
        fn janus_channel_send_ptr(channel: *mut c_void, value: *mut c_void) -> Int {
            with!(channel, Pointers, |channel| send(channel, Pointer(value), WaitLimit::Forever))?;
            Ok(Int(0))
        }

        /// As janus_channel_recv_i64; NULL on failure.
        fn janus_channel_recv_ptr(channel: *mut c_void, error: *mut i32) -> *mut c_void {
            set(error, -1);
            let value = with!(channel, Pointers, |channel| recv(channel, WaitLimit::Forever))?;
            set(error, 0);
            Ok(value.0)
        }

        /// As janus_channel_try_send_i64.
        fn janus_channel_try_send_ptr(channel: *mut c_void, value: *mut c_void) -> Int {
            with!(channel, Pointers, |channel| try_send(channel, Pointer(value)))
        }

        /// As janus_channel_try_recv_i64.
        fn janus_channel_try_recv_ptr(channel: *mut c_void, value: *mut *mut c_void) -> Int {
            let received = with!(channel, Pointers, try_recv)?;
            received.map_or(Ok(Int(0)), |received| {
                set(value, received.0);
                Ok(Int(1))
            })
        }

        /// As janus_channel_close_i64.
        fn janus_channel_close_ptr(channel: *mut c_void) -> () {
            find!(channel, Pointers).sender.close();
            Ok(())
        }

        /// As janus_channel_is_closed_i64.
        fn janus_channel_is_closed_ptr(channel: *mut c_void) -> i32 {
            match ROOT.objects.get(channel, ThingKind::Pointers) {
                Ok(Thing::Pointers(channel)) => Ok(channel.sender.is_closed().into()),
                _ => Ok(1),
            }
        }

        /// As janus_channel_len_i64.
        fn janus_channel_len_ptr(channel: *mut c_void) -> i32 {
            Ok(find!(channel, Pointers).receiver.len().try_into().unwrap_or(i32::MAX))
        }
    }
}
