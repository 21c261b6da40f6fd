//! Hooks between two steps of a task, for tests that need an event at exactly that point. Empty in
//! other builds.

#[cfg(any(not(test), loom))]
mod twin {
    /// Called before a task that is about to wait registers with its cancel node.
    #[inline(always)]
    pub(crate) fn before_registering() {}
}

#[cfg(all(test, not(loom)))]
mod twin {
    use std::cell::RefCell;

    thread_local! {
        static ACT: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
    }

    /// Calls `act` once, on this thread, when a task is about to register.
    pub(crate) fn at_registering(act: impl FnOnce() + 'static) {
        ACT.with(|slot| *slot.borrow_mut() = Some(Box::new(act)));
    }

    pub(crate) fn before_registering() {
        if let Some(act) = ACT.with(|slot| slot.borrow_mut().take()) {
            act();
        }
    }
}

pub(super) use twin::*;
