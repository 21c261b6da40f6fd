//! The primitives that protocols are written with, so that loom can swap them.
//!
//! Everything that threads share lock-free (deque, queues, state word, idle protocol) takes
//! its atomics from here. Under `--cfg loom` they are loom's, and the models beside each
//! protocol explore its interleavings. Code that no model covers (stacks, signal handlers)
//! uses `std` directly.

#[cfg(not(loom))]
pub(crate) use std::sync::{Mutex, MutexGuard, PoisonError};

#[cfg(not(loom))]
pub(crate) mod atomic {
    pub(crate) use std::sync::atomic::{
        AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
}

/// Memory that a protocol hands from thread to thread. Loom's twin reports an access that
/// is not ordered after the previous one; here it is `std`'s cell and costs nothing.
#[cfg(not(loom))]
pub(crate) mod cell {
    pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(crate) const fn new(value: T) -> UnsafeCell<T> {
            UnsafeCell(std::cell::UnsafeCell::new(value))
        }

        pub(crate) fn into_inner(self) -> T {
            self.0.into_inner()
        }

        #[inline]
        pub(crate) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
            read(self.0.get())
        }

        #[inline]
        pub(crate) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
            write(self.0.get())
        }
    }
}

#[cfg(loom)]
pub(crate) use loom::sync::{Mutex, MutexGuard};

#[cfg(loom)]
pub(crate) mod cell {
    pub(crate) use loom::cell::UnsafeCell;
}

#[cfg(loom)]
pub(crate) use std::sync::PoisonError;

#[cfg(loom)]
pub(crate) mod atomic {
    pub(crate) use loom::sync::atomic::{
        AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
}

/// Explores a model and prints the number of executions. `bound` limits the preemptions of one
/// schedule; without it the exploration is complete.
#[cfg(all(test, loom))]
pub(crate) fn explore(name: &str, bound: Option<usize>, model: impl Fn() + Send + Sync + 'static) {
    // Of `std`, not of loom: it lasts across executions.
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    let executions = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&executions);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = bound;
    builder.check(move || {
        counter.fetch_add(1, Ordering::Relaxed);
        model();
    });
    let line = format!("model {name}: {} executions\n", executions.load(Ordering::Relaxed));
    // Not by macro: a library does not print.
    let _ = std::io::Write::write_all(&mut std::io::stdout(), line.as_bytes());
}

/// A waiter in models: counts its wake-ups.
#[cfg(all(test, loom))]
#[derive(Clone)]
pub(crate) struct Flag(loom::sync::Arc<loom::sync::atomic::AtomicUsize>);

#[cfg(all(test, loom))]
impl Flag {
    pub(crate) fn new() -> Flag {
        Flag(loom::sync::Arc::new(loom::sync::atomic::AtomicUsize::new(0)))
    }

    /// How often it was woken.
    pub(crate) fn woken(&self) -> usize {
        // Acquire: pairs with the Release in `wake`, as a park does with an unpark.
        self.0.load(atomic::Ordering::Acquire)
    }
}

#[cfg(all(test, loom))]
impl crate::wait::Wake for Flag {
    fn wake(&self) {
        // Release: pairs with the Acquire in `woken`.
        self.0.fetch_add(1, atomic::Ordering::Release);
    }
}
