//! Guards for a part of the data of a lock.
//!
//! Such a guard is made of the lock without its data (`Held`, `Shared`, `Exclusive`), which unlocks
//! when it is dropped, and a pointer to the part. The part was borrowed from the guard of the
//! whole, by a closure that cannot keep it longer than that, and the lock stays taken from there to
//! the end of this guard: so the pointer is good, and exclusive where the lock is. The data itself
//! is not named any more, so whether the guard may go to another thread depends on the part alone:
//! nothing else is reached through it, and unlocking has no thread of its own.

use super::mutex::Held;
use super::rwlock::{Exclusive, Shared};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// A guard type: its name, the lock that it holds, and whether it can change the part.
macro_rules! guard {
    ($(#[$attribute:meta])* $name:ident, $lock:ident, $borrow:ty) => {
        $(#[$attribute])*
        #[must_use = "dropping it unlocks"]
        pub struct $name<'l, U: ?Sized> {
            _lock: $lock<'l>,
            part: NonNull<U>,
            _borrow: PhantomData<$borrow>,
        }

        impl<'l, U: ?Sized> $name<'l, U> {
            /// # Safety
            ///
            /// The part belongs to the data of this lock, and was borrowed under it, as the guard
            /// lends it out.
            pub(super) unsafe fn new(lock: $lock<'l>, part: NonNull<U>) -> $name<'l, U> {
                $name { _lock: lock, part, _borrow: PhantomData }
            }
        }

        // SAFETY: as good as `&U`.
        unsafe impl<U: ?Sized + Sync> Sync for $name<'_, U> {}

        impl<U: ?Sized> Deref for $name<'_, U> {
            type Target = U;

            fn deref(&self) -> &U {
                // SAFETY: the guard has the lock.
                unsafe { self.part.as_ref() }
            }
        }

        impl<U: ?Sized + fmt::Debug> fmt::Debug for $name<'_, U> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                (**self).fmt(f)
            }
        }
    };
}

guard! {
    /// A part of the data of a [`Mutex`](super::Mutex); see
    /// [`MutexGuard::map`](super::MutexGuard::map). Dropping it unlocks.
    MappedMutexGuard, Held, &'l mut U
}

guard! {
    /// A part of the data of a [`RwLock`](super::RwLock), for reading; see
    /// [`ReadGuard::map`](super::ReadGuard::map).
    MappedReadGuard, Shared, &'l U
}

guard! {
    /// A part of the data of a [`RwLock`](super::RwLock), for changing; see
    /// [`WriteGuard::map`](super::WriteGuard::map).
    MappedWriteGuard, Exclusive, &'l mut U
}

// SAFETY: as good as `&mut U`.
unsafe impl<U: ?Sized + Send> Send for MappedMutexGuard<'_, U> {}
// SAFETY: as good as `&U`.
unsafe impl<U: ?Sized + Sync> Send for MappedReadGuard<'_, U> {}
// SAFETY: as good as `&mut U`.
unsafe impl<U: ?Sized + Send> Send for MappedWriteGuard<'_, U> {}

impl<U: ?Sized> DerefMut for MappedMutexGuard<'_, U> {
    fn deref_mut(&mut self) -> &mut U {
        // SAFETY: the guard has the lock, alone, and is borrowed alone.
        unsafe { self.part.as_mut() }
    }
}

impl<U: ?Sized> DerefMut for MappedWriteGuard<'_, U> {
    fn deref_mut(&mut self) -> &mut U {
        // SAFETY: as above.
        unsafe { self.part.as_mut() }
    }
}
