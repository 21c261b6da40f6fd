//! Guards for a part of a lock's data.
//!
//! A mapped guard is the lock without its data (`Held`, `SharedHold`, `ExclusiveHold`), which
//! unlocks on drop, and a pointer to the part. A closure has borrowed the part from the original
//! guard and cannot keep it any longer. The lock stays held from there to the end of the mapped
//! guard, so the pointer is valid, and exclusive if the lock is. The type no longer names the data,
//! so `Send` and `Sync` depend on the part alone: nothing else is reachable through the guard, and
//! any thread may unlock.

use super::mutex::Held;
use super::rwlock::{ExclusiveHold, SharedHold};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Defines a guard type: its name, the lock that it holds, and the borrow of the part.
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
            /// `part` belongs to the data of this lock, and was borrowed from its guard in the same
            /// mode.
            pub(super) unsafe fn new(lock: $lock<'l>, part: NonNull<U>) -> $name<'l, U> {
                $name { _lock: lock, part, _borrow: PhantomData }
            }
        }

        // SAFETY: equivalent to `&U`.
        unsafe impl<U: ?Sized + Sync> Sync for $name<'_, U> {}

        impl<U: ?Sized> Deref for $name<'_, U> {
            type Target = U;

            fn deref(&self) -> &U {
                // SAFETY: the guard holds the lock.
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
    /// Access to a part of a [`Mutex`](super::Mutex)'s data, made by
    /// [`MutexGuard::map`](super::MutexGuard::map). Dropping the guard unlocks.
    MappedMutexGuard, Held, &'l mut U
}

guard! {
    /// Shared access to a part of a [`RwLock`](super::RwLock)'s data, made by
    /// [`ReadGuard::map`](super::ReadGuard::map). Dropping the guard unlocks.
    MappedReadGuard, SharedHold, &'l U
}

guard! {
    /// Exclusive access to a part of a [`RwLock`](super::RwLock)'s data, made by
    /// [`WriteGuard::map`](super::WriteGuard::map). Dropping the guard unlocks.
    MappedWriteGuard, ExclusiveHold, &'l mut U
}

// SAFETY: equivalent to `&mut U`.
unsafe impl<U: ?Sized + Send> Send for MappedMutexGuard<'_, U> {}
// SAFETY: equivalent to `&U`.
unsafe impl<U: ?Sized + Sync> Send for MappedReadGuard<'_, U> {}
// SAFETY: equivalent to `&mut U`.
unsafe impl<U: ?Sized + Send> Send for MappedWriteGuard<'_, U> {}

impl<U: ?Sized> DerefMut for MappedMutexGuard<'_, U> {
    fn deref_mut(&mut self) -> &mut U {
        // SAFETY: the guard holds the lock exclusively, and is borrowed exclusively.
        unsafe { self.part.as_mut() }
    }
}

impl<U: ?Sized> DerefMut for MappedWriteGuard<'_, U> {
    fn deref_mut(&mut self) -> &mut U {
        // SAFETY: as above.
        unsafe { self.part.as_mut() }
    }
}
