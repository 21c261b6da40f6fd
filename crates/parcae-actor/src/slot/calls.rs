//! The calls of actors that wait for each other, and cycles of such calls.

use super::Core;
use crate::shim::MutexGuard;
use crate::shim::atomic::{Ordering, fence};
use std::sync::{Arc, PoisonError};

impl Core {
    fn calling(&self) -> MutexGuard<'_, Option<Arc<Core>>> {
        self.calling.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that this actor calls another one and waits for it; or returns the cycle of calls that
    /// this would close. Each actor notes its call before it looks, so of several that close a
    /// cycle at the same time, the last one to note finds it.
    #[inline]
    pub(crate) fn begin_call(self: &Arc<Self>, target: &Arc<Core>) -> Result<(), Vec<Arc<str>>> {
        *self.calling() = Some(Arc::clone(target));
        self.is_calling.store(true, Ordering::Release); // with the load of another caller
        fence(Ordering::SeqCst); // with the same fence of another caller: one sees the other's flag
        // Acquire: with the store of another caller, whose `calling` is read next.
        if Arc::ptr_eq(self, target) || target.is_calling.load(Ordering::Acquire) {
            return self.follow(target);
        }
        Ok(())
    }

    /// Follows the calls from the target on.
    #[cold]
    fn follow(self: &Arc<Self>, target: &Arc<Core>) -> Result<(), Vec<Arc<str>>> {
        let mut path = vec![Arc::clone(&self.name)];
        let mut at = Arc::clone(target);
        // A chain may change while it is followed; it is followed no longer than it can be.
        for _ in 0..1000 {
            path.push(Arc::clone(&at.name));
            if Arc::ptr_eq(&at, self) {
                // Acquire: with the store in `set_serves`, which comes before the call.
                if target.serves.load(Ordering::Acquire) {
                    return Ok(()); // it handles the request while it waits
                }
                self.end_call();
                return Err(path);
            }
            let next = at.calling().clone();
            match next {
                Some(next) => at = next,
                None => break,
            }
        }
        Ok(())
    }

    /// Whether the next call of this actor serves requests while it waits.
    pub(crate) fn set_serves(&self, serves: bool) {
        self.serves.store(serves, Ordering::Release); // with the load in `follow`
    }

    /// Whether this actor waits for another one, directly or by further calls.
    pub(crate) fn waits_for(&self, other: &Arc<Core>) -> bool {
        let mut at = self.calling().clone();
        for _ in 0..1000 {
            match at {
                None => return false,
                Some(next) if Arc::ptr_eq(&next, other) => return true,
                Some(next) => at = next.calling().clone(),
            }
        }
        false
    }

    pub(crate) fn end_call(&self) {
        self.is_calling.store(false, Ordering::Release); // with the load in `begin_call`
        let called = self.calling().take();
        drop(called); // with the lock free
    }
}
