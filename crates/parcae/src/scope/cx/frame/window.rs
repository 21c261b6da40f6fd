//! Moments between two steps of a task, in which tests let others act. Elsewhere nothing happens
//! there.

#[cfg(any(not(test), loom))]
mod twin {
    /// Before a task that is about to wait registers with the node that cancels it.
    #[inline(always)]
    pub(crate) fn before_registering() {}
}

#[cfg(all(test, not(loom)))]
mod twin {
    use std::cell::RefCell;

    thread_local! {
        static ACT: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
    }

    /// Has `act` called once, on this thread, when a task is about to register.
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
