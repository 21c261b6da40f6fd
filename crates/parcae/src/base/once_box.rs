//! A box that is filled once, on first use: one word, for values that most owners never have.
//!
//! The word is null, or a pointer from [`Box::into_raw`] that stays until the owner drops it or
//! takes it out. Two threads may fill it at the same time: the first to exchange the null wins, the
//! other drops its own value and uses the winner's. `OnceLock<Box<T>>` would take two words.

use crate::base::shim::atomic::{AtomicPtr, Ordering};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

/// A boxed value, or none yet.
pub(crate) struct OnceBox<T>(AtomicPtr<T>, PhantomData<Box<T>>);

impl<T> OnceBox<T> {
    #[inline]
    pub(crate) fn new() -> OnceBox<T> {
        OnceBox(AtomicPtr::new(ptr::null_mut()), PhantomData)
    }

    pub(crate) fn full(value: T) -> OnceBox<T> {
        OnceBox(AtomicPtr::new(Box::into_raw(Box::new(value))), PhantomData)
    }

    #[inline]
    pub(crate) fn get(&self) -> Option<&T> {
        // Acquire: pairs with the Release in `fill`.
        let value = self.0.load(Ordering::Acquire);
        // SAFETY: null, or the value, which stays for as long as this is borrowed.
        unsafe { value.as_ref() }
    }

    /// The value, which is made if there is none. `make` may be called although another thread's
    /// value is used.
    pub(crate) fn get_or_init(&self, make: impl FnOnce() -> T) -> &T
    where
        T: Send,
    {
        match self.get() {
            Some(value) => value,
            None => self.fill(Box::new(make())),
        }
    }

    /// The value that is there, or this one.
    #[cold]
    pub(crate) fn fill(&self, value: Box<T>) -> &T {
        let made = Box::into_raw(value);
        // Release: pairs with the Acquire in `get`, which then sees the value. Acquire: pairs with
        // the Release of the thread that was faster.
        let (before, made) = match self.0.compare_exchange(
            ptr::null_mut(),
            made,
            Ordering::AcqRel,
            Ordering::Acquire,
        ) {
            Ok(_) => (None, made),
            Err(theirs) => (Some(made), theirs),
        };
        // SAFETY: ours, and not published. The other is the value, as in `get`.
        unsafe {
            drop(before.map(|value| Box::from_raw(value)));
            &*made
        }
    }

    /// Takes the value out.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<Box<T>> {
        // Relaxed: borrowed mutably, so no other thread accesses it.
        let value = NonNull::new(self.0.load(Ordering::Relaxed))?;
        self.0.store(ptr::null_mut(), Ordering::Relaxed); // as above
        // SAFETY: made by `Box::into_raw`, and taken out once.
        Some(unsafe { Box::from_raw(value.as_ptr()) })
    }
}

impl<T> Drop for OnceBox<T> {
    #[inline]
    fn drop(&mut self) {
        drop(self.take());
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::base::shim::cell::UnsafeCell;
    use crate::base::shim::explore;
    use loom::sync::Arc;
    use loom::thread;

    #[test]
    fn two_threads_that_fill_it_have_the_same_value() {
        explore("once_box: two fill it, one looks", None, || {
            let once = Arc::new(OnceBox::new());
            let fill = |once: &OnceBox<UnsafeCell<u32>>, mine| {
                let value = once.get_or_init(|| {
                    let value = UnsafeCell::new(0);
                    // SAFETY: not published yet. Loom sees the write.
                    value.with_mut(|value| unsafe { *value = mine });
                    value
                });
                // SAFETY: not written after it was published.
                value.with(|value| unsafe { *value })
            };
            let theirs = {
                let once = Arc::clone(&once);
                thread::spawn(move || fill(&once, 1))
            };
            let looked = {
                let once = Arc::clone(&once);
                // SAFETY: as above.
                thread::spawn(move || once.get().map(|value| value.with(|value| unsafe { *value })))
            };
            let (mine, theirs, looked) =
                (fill(&once, 2), theirs.join().unwrap(), looked.join().unwrap());
            assert_eq!(mine, theirs);
            assert!(looked.is_none_or(|looked| looked == mine));
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn its_value_is_made_once_and_dropped_once() {
        let value = Arc::new(());
        let mut once = OnceBox::new();
        assert!(once.get().is_none());
        once.get_or_init(|| Arc::clone(&value));
        once.get_or_init(|| unreachable!());
        assert_eq!(Arc::strong_count(&value), 2);
        drop(once.take());
        assert_eq!((Arc::strong_count(&value), once.get()), (1, None));
        let full = OnceBox::full(Arc::clone(&value));
        assert_eq!(Arc::strong_count(&value), 2);
        drop(full);
        assert_eq!(Arc::strong_count(&value), 1);
    }
}
