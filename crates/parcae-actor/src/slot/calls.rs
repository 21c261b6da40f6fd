//! The calls of actors that wait for each other, and cycles of such calls.
//!
//! An actor notes the call for which it waits. One that serves requests meanwhile may make further
//! calls in the handlers of those requests: the innermost call is the one that is noted, and its
//! end restores the one around it. Only the actor's own task writes the note.

use super::Core;
use crate::shim::MutexGuard;
use crate::shim::atomic::{Ordering, fence};
use std::sync::{Arc, PoisonError};

/// A call for which an actor waits.
#[derive(Clone)]
pub(super) struct Calling {
    target: Arc<Core>,
    wait: Wait,
}

/// The way in which an actor waits for a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// It handles nothing.
    Idle,
    /// It serves requests of the actors that it waits for.
    Serves,
}

/// Ends a call that an actor has noted.
pub(crate) struct EndCall<'c> {
    core: &'c Core,
    /// The call around it.
    outer: Option<Calling>,
}

impl Drop for EndCall<'_> {
    fn drop(&mut self) {
        self.core.end_call(self.outer.take());
    }
}

impl Core {
    fn calling(&self) -> MutexGuard<'_, Option<Calling>> {
        self.calling.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that this actor calls another one and waits for it; or returns the cycle of calls that
    /// this would close. Each actor notes its call before it looks, so of several that close a
    /// cycle at the same time, the last one to note finds it.
    #[inline]
    pub(crate) fn begin_call<'c>(
        self: &'c Arc<Self>,
        target: &Arc<Core>,
        wait: Wait,
    ) -> Result<EndCall<'c>, Vec<Arc<str>>> {
        let call = Calling { target: Arc::clone(target), wait };
        let outer = self.calling().replace(call);
        let end = EndCall { core: self, outer };
        self.is_calling.store(true, Ordering::Release); // with the load of another caller
        fence(Ordering::SeqCst); // with the same fence of another caller: one sees the other's flag
        // Acquire: with the store of another caller, whose `calling` is read next.
        if Arc::ptr_eq(self, target) || target.is_calling.load(Ordering::Acquire) {
            self.follow(target, wait)?;
        }
        Ok(end)
    }

    /// Follows the calls from the target on. Returns the path of a cycle, unless the target serves
    /// the request while it waits.
    #[cold]
    fn follow(self: &Arc<Self>, target: &Arc<Core>, wait: Wait) -> Result<(), Vec<Arc<str>>> {
        let mut path = vec![Arc::clone(&self.name)];
        let mut at = Arc::clone(target);
        let mut of_target = Arc::ptr_eq(self, target).then_some(wait);
        // A chain may change while it is followed; it is followed no longer than it can be.
        for _ in 0..1000 {
            path.push(Arc::clone(&at.name));
            if Arc::ptr_eq(&at, self) {
                return if of_target == Some(Wait::Serves) { Ok(()) } else { Err(path) };
            }
            let next = at.calling().clone();
            let Some(Calling { target, wait }) = next else { break };
            of_target.get_or_insert(wait);
            at = target;
        }
        Ok(())
    }

    /// Whether this actor waits for another one, directly or by further calls.
    pub(crate) fn waits_for(&self, other: &Arc<Core>) -> bool {
        let mut at = self.calling().clone();
        for _ in 0..1000 {
            match at {
                None => return false,
                Some(call) if Arc::ptr_eq(&call.target, other) => return true,
                Some(call) => at = call.target.calling().clone(),
            }
        }
        false
    }

    pub(super) fn end_call(&self, outer: Option<Calling>) {
        // Release: with the load in `begin_call`.
        self.is_calling.store(outer.is_some(), Ordering::Release);
        let ended = std::mem::replace(&mut *self.calling(), outer);
        drop(ended); // with the lock free
    }
}
