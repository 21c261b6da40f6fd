//! Addresses of actors: messages, calls, answers, monitors.

use crate::actors::{AddressRef, Body, Letter, WatchRef, destroy};
use crate::caller;
use crate::decl::{Int, Status, c_api};
use crate::fault::Fault;
use crate::global::{ROOT, waiting};
use crate::objects::{Thing, ThingKind, find};
use crate::types::*;
use parcae_actor::{self as actor, CallError, TellError};
use std::sync::Arc;
use std::time::Duration;

/// Uses an address that the caller may have used before.
fn with<R>(
    address: *mut Address,
    use_it: impl FnOnce(&actor::Address<Letter>) -> Result<R, Fault>,
) -> Result<R, Fault> {
    caller::with_object(address, ThingKind::Address, |thing| match thing {
        Thing::Address(address) => use_it(&address.address),
        _ => unreachable!("the table compares kinds"),
    })
}

/// Sends a message, which stays the caller's if that fails.
///
/// # Safety
///
/// As for [`Body::take`].
unsafe fn tell(
    address: *mut Address,
    message: *const Message,
    send: impl FnOnce(&actor::Address<Letter>, Letter) -> Result<(), TellError<Letter>> + Send,
) -> Result<Status, Fault> {
    // SAFETY: the caller's.
    let body = unsafe { Body::take(message)? };
    let mut body = Some(body); // until it is sent
    let sent = with(address, |address| {
        waiting(|| match body.take() {
            Some(body) => send(address, Letter { body, reply: None }),
            None => Ok(()),
        })
    });
    if let Some(body) = body {
        body.give_back();
    }
    match sent? {
        Ok(()) => Ok(Status(OK)),
        Err(unsent) => {
            let fault = unsent.error().clone().into();
            unsent.into_inner().body.give_back();
            Err(fault)
        }
    }
}

/// Hands an answer to the program, or destroys it.
///
/// # Safety
///
/// NULL, or a place for a message.
pub(super) unsafe fn answered(
    answer: Result<Body, CallError>,
    to: *mut Message,
) -> Result<Status, Fault> {
    let body = answer?;
    if !to.is_null() {
        // SAFETY: the caller's.
        unsafe { to.write(body.hand_over()) };
    }
    Ok(Status(OK))
}

/// The deadline of a call.
pub(super) fn deadline(within_ns: u64) -> Result<Duration, Fault> {
    if within_ns == 0 {
        return Err(Fault::argument("a call needs a deadline: within_ns is 0"));
    }
    Ok(Duration::from_nanos(within_ns))
}

/// A weaker form of an address. Made where the clock is that of the runtime.
fn weaker(
    address: *mut Address,
    make: impl FnOnce(&actor::Address<Letter>) -> actor::Address<Letter> + Send,
) -> Result<*mut Address, Fault> {
    AddressRef::put(with(address, |address| waiting(|| make(address)))?)
}

c_api! {
    /// Sends a message; waits while the mailbox is full, unless its kind says otherwise. A message
    /// that was not sent stays the caller's.
    fn parcae_tell(address: *mut Address, message: *const Message) -> Status {
        // SAFETY: the caller's.
        unsafe { tell(address, message, |address, letter| address.tell(letter)) }
    }

    /// The same, and waits no longer than the given time: PARCAE_E_EXPIRED.
    fn parcae_tell_within(
        address: *mut Address,
        message: *const Message,
        nanoseconds: u64,
    ) -> Status {
        let time = Duration::from_nanos(nanoseconds);
        // SAFETY: the caller's.
        unsafe { tell(address, message, move |address, letter| address.tell_within(time, letter)) }
    }

    /// The same, and does not wait: PARCAE_E_FULL.
    fn parcae_try_tell(address: *mut Address, message: *const Message) -> Status {
        // SAFETY: the caller's.
        unsafe { tell(address, message, |address, letter| address.try_tell(letter)) }
    }

    /// Sends a request, and waits for the answer no longer than the given time, which has to be
    /// more than 0. The deadline travels with the request. The request belongs to the actor, also
    /// if the call fails. answer may be NULL; destroy it with parcae_message_free.
    fn parcae_call(
        address: *mut Address,
        request: *const Message,
        within_ns: u64,
        answer: *mut Message,
    ) -> Status {
        let within = deadline(within_ns)?;
        // SAFETY: the caller's.
        let body = unsafe { Body::take(request)? };
        let outcome = with(address, |address| waiting(move || {
            address.call(within, |reply| Letter { body, reply: Some(reply) })
        }))?;
        // SAFETY: the caller's.
        unsafe { answered(outcome, answer) }
    }

    /// Answers a call, and ends the handle. The message belongs to the caller of the call, or is
    /// destroyed if that has given up. 0 or -1.
    fn parcae_reply_send(reply: *mut Replying, answer: *const Message) -> Int {
        let known = find!(reply, Reply);
        // SAFETY: the caller's.
        let body = unsafe { Body::take(answer)? };
        drop(ROOT.objects.remove(reply, ThingKind::Reply));
        match known.take() {
            Some(reply) => reply.send(body),
            None => {
                body.give_back();
                return Err(Fault::argument("the call was answered already"));
            }
        }
        Ok(Int(0))
    }

    /// Keeps the handle for an answer after the handler has returned, by any task or thread. Only
    /// in that handler. 0 or -1.
    fn parcae_reply_keep(reply: *mut Replying) -> Int {
        find!(reply, Reply).keep();
        Ok(Int(0))
    }

    /// Ends the handle without an answer: the call fails with PARCAE_E_NO_REPLY. 0 or -1.
    fn parcae_reply_drop(reply: *mut Replying) -> Int {
        let known = find!(reply, Reply);
        drop(ROOT.objects.remove(reply, ThingKind::Reply));
        drop(known.take());
        Ok(Int(0))
    }

    /// Destroys the data of a message that the caller owns, and empties the message. NULL is fine.
    fn parcae_message_free(message: *mut Message) -> () {
        // SAFETY: the caller's.
        if let Some(message) = unsafe { message.as_mut() } {
            destroy(message);
        }
        Ok(())
    }

    /// Asks an actor to stop after the message that it handles.
    fn parcae_actor_stop(address: *mut Address) -> Status {
        with(address, |address| Ok(address.stop()?))?;
        Ok(Status(OK))
    }

    /// Asks an actor to stop when it has handled all messages in its mailbox.
    fn parcae_actor_drain(address: *mut Address) -> Status {
        with(address, |address| Ok(address.drain()?))?;
        Ok(Status(OK))
    }

    /// Cancels an actor: its handler ends at its next wait or yield check.
    fn parcae_actor_kill(address: *mut Address) -> Status {
        with(address, |address| Ok(address.kill()?))?;
        Ok(Status(OK))
    }

    /// How many messages are in the mailbox; SIZE_MAX for an invalid handle.
    fn parcae_actor_queued(address: *mut Address) -> usize {
        Ok(ROOT.objects.get(address, ThingKind::Address).map_or(usize::MAX, |thing| match thing {
            Thing::Address(address) => address.address.queued(),
            _ => usize::MAX,
        }))
    }

    /// Whether the actor has ended for good: 1 or 0; -1 for an invalid handle.
    fn parcae_actor_is_gone(address: *mut Address) -> Int {
        with(address, |address| Ok(Int(address.is_gone().into())))
    }

    /// A weaker address: it only sends messages. NULL on failure, as for those below.
    fn parcae_address_tell_only(address: *mut Address) -> *mut Address {
        weaker(address, |address| address.tell_only())
    }

    /// A weaker address, for so many messages and calls.
    fn parcae_address_at_most(address: *mut Address, messages: u64) -> *mut Address {
        weaker(address, |address| address.at_most(messages))
    }

    /// A weaker address, for so many messages and calls in each period.
    fn parcae_address_at_rate(
        address: *mut Address,
        messages: u64,
        period_ns: u64,
    ) -> *mut Address {
        if period_ns == 0 {
            return Err(Fault::argument("a rate needs a period"));
        }
        weaker(address, |address| address.at_rate(messages, Duration::from_nanos(period_ns)))
    }

    /// A weaker address, which is valid for this time.
    fn parcae_address_for(address: *mut Address, nanoseconds: u64) -> *mut Address {
        let time = Duration::from_nanos(nanoseconds);
        weaker(address, |address| address.until(parcae::time::now() + time))
    }

    /// An address of the incarnation that runs now, and of no later one.
    fn parcae_address_this_life(address: *mut Address) -> *mut Address {
        weaker(address, |address| address.this_life())
    }

    /// A weaker address that parcae_address_revoke takes back, with all that were made from it.
    fn parcae_address_revocable(address: *mut Address) -> *mut Address {
        let (address, revoke) = with(address, |address| Ok(address.revocable()))?;
        let address = AddressRef { address, revoke: Some(Box::new(revoke)) };
        Ok(ROOT.objects.insert(Thing::Address(Arc::new(address)))?.cast())
    }

    /// Takes an address of parcae_address_revocable back. 0 or -1.
    fn parcae_address_revoke(address: *mut Address) -> Int {
        match &find!(address, Address).revoke {
            Some(revoke) => revoke(),
            None => {
                let text = "the address was not made by parcae_address_revocable";
                return Err(Fault::argument(text));
            }
        }
        Ok(Int(0))
    }

    /// Ends the handle of an address; the actor is unaffected. 0 or -1.
    fn parcae_address_free(address: *mut Address) -> Int {
        drop(ROOT.objects.remove(address, ThingKind::Address)?);
        Ok(Int(0))
    }

    /// Monitors the incarnation of an actor that runs now. If none runs, it has ended already. NULL
    /// on failure.
    fn parcae_actor_watch(address: *mut Address) -> *mut Watch {
        let watch = with(address, |address| Ok(address.watch()))?;
        Ok(ROOT.objects.insert(Thing::Watch(Arc::new(WatchRef::new(watch))))?.cast())
    }

    /// Waits until that incarnation has ended, no longer than the given time (PARCAE_E_TIMED_OUT);
    /// 0: without a limit. exit may be NULL.
    fn parcae_watch_wait(watch: *mut Watch, nanoseconds: u64, exit: *mut Exit) -> Status {
        let watch = find!(watch, Watch);
        let ended = waiting(|| match nanoseconds {
            0 => watch.watch.wait(),
            time => watch.watch.wait_timeout(Duration::from_nanos(time)),
        })??;
        if !exit.is_null() {
            // SAFETY: the caller's.
            unsafe { exit.write(watch.told(&ended)) };
        }
        Ok(Status(OK))
    }

    /// PARCAE_PENDING while that incarnation runs, PARCAE_OK when it has ended. Does not wait. exit
    /// may be NULL.
    fn parcae_watch_poll(watch: *mut Watch, exit: *mut Exit) -> Status {
        let watch = find!(watch, Watch);
        let Some(ended) = watch.watch.exit() else { return Ok(Status(PENDING)) };
        if !exit.is_null() {
            // SAFETY: the caller's.
            unsafe { exit.write(watch.told(&ended)) };
        }
        Ok(Status(OK))
    }

    /// Ends a monitor. 0 or -1.
    fn parcae_watch_free(watch: *mut Watch) -> Int {
        drop(ROOT.objects.remove(watch, ThingKind::Watch)?);
        Ok(Int(0))
    }
}
