//! Functions for the functions of an actor.

use super::address::{answered, deadline};
use crate::actors::{Body, Handling, Letter};
use crate::boundary::text;
use crate::caller;
use crate::decl::{Int, Status, c_api};
use crate::fault::Fault;
use crate::objects::find;
use crate::types::*;
use parcae_actor::{ActorCx, MonitorId};
use std::ffi::c_char;
use std::time::Duration;

/// The actor whose function has called.
fn handling() -> Result<Handling, Fault> {
    caller::current(|caller| caller.handling.get())
        .ok_or_else(|| Fault::argument("not in a function of an actor, on the task that runs it"))
}

/// Uses the context of the actor whose function has called.
fn with_cx<R>(
    use_it: impl FnOnce(&mut ActorCx<'static, Letter>) -> Result<R, Fault>,
) -> Result<R, Fault> {
    let handling = handling()?;
    // SAFETY: of the callback that runs, which lends it; and no other reference is made before this
    // returns, because `use_it` calls no code of the program.
    use_it(unsafe { &mut *handling.cx })
}

fn key(given: *const c_char) -> Result<String, Fault> {
    // SAFETY: the caller's.
    unsafe { text(given) }.ok_or_else(|| Fault::new(E_NULL, "a timer has a key, not NULL"))
}

c_api! {
    /// The actor's own address. The handle is valid until the incarnation ends: do not free it.
    fn parcae_actor_self() -> *mut Address {
        let Handling { actor, cx } = handling()?;
        // SAFETY: as in `with_cx`.
        let (actor, cx) = unsafe { (&mut *actor, &*cx) };
        actor.own(cx.address())
    }

    /// Monitors an actor: PARCAE_EVENT_DOWN comes once, when the incarnation that runs now has
    /// ended, or at once if there is none. Returns the number of the monitor; 0 on failure.
    fn parcae_actor_monitor(address: *mut Address) -> u64 {
        let other = find!(address, Address);
        with_cx(|cx| Ok(cx.monitor(&other.address).as_u64()))
    }

    /// Ends a monitor of that actor. Its event does not come any more. 0 or -1.
    fn parcae_actor_demonitor(address: *mut Address, monitor: u64) -> Int {
        let other = find!(address, Address);
        with_cx(|cx| {
            cx.demonitor(&other.address, MonitorId::from_u64(monitor));
            Ok(Int(0))
        })
    }

    /// Links this actor with another one: if one of them ends by a failure, the other fails too.
    /// 0 or -1.
    fn parcae_actor_link(address: *mut Address) -> Int {
        let other = find!(address, Address);
        with_cx(|cx| {
            cx.link(&other.address);
            Ok(Int(0))
        })
    }

    /// Sets a timer: PARCAE_EVENT_TIMER comes once, after this time. A timer of the same key is
    /// replaced. 0 or -1.
    fn parcae_actor_timer(key: *const c_char, nanoseconds: u64) -> Int {
        let key = self::key(key)?;
        with_cx(|cx| {
            cx.timer(key, Duration::from_nanos(nanoseconds));
            Ok(Int(0))
        })
    }

    /// Sets a periodic timer. Ticks for which the actor had no time are left out and counted. 0 or
    /// -1.
    fn parcae_actor_timer_every(key: *const c_char, period_ns: u64) -> Int {
        let key = self::key(key)?;
        if period_ns == 0 {
            return Err(Fault::argument("a periodic timer needs a period"));
        }
        with_cx(|cx| {
            cx.timer_every(key, Duration::from_nanos(period_ns));
            Ok(Int(0))
        })
    }

    /// Cancels a timer: 1, or 0 if there is none with this key; -1 on failure.
    fn parcae_actor_timer_cancel(key: *const c_char) -> Int {
        let key = self::key(key)?;
        with_cx(|cx| Ok(Int(cx.cancel_timer(&key).into())))
    }

    /// As parcae_call, and handles requests of that actor, and of those that it calls in turn,
    /// while it waits: the handler is called again inside of this call, with the same state.
    fn parcae_call_serving(
        address: *mut Address,
        request: *const Message,
        within_ns: u64,
        answer: *mut Message,
    ) -> Status {
        let within = deadline(within_ns)?;
        let other = find!(address, Address);
        let Handling { actor, cx } = handling()?;
        // SAFETY: the caller's.
        let body = unsafe { Body::take(request)? };
        // SAFETY: of the callback that runs, which lends both for the time of this call. Handlers
        // that run meanwhile get them from here.
        let (actor, cx) = unsafe { (&mut *actor, &mut *cx) };
        let outcome = cx.call_serving(actor, &other.address, within, |reply| Letter {
            body,
            reply: Some(reply),
        });
        // SAFETY: the caller's.
        unsafe { answered(outcome, answer) }
    }
}
