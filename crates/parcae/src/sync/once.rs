//! What is made once.
//!
//! `ready` is set, with Release, when the value is in its place, and never taken back while the
//! cell is shared; whoever reads it with Acquire may read the value. Who has to make the value does
//! so under a [`Mutex`], which the others wait for; each of them looks at `ready` again when it has
//! got it. An attempt that fails, panics or is cancelled unlocks the mutex with `ready` unset, and
//! the next one tries.

use super::{Mutex, constructor};
use crate::base::error::Result;
use crate::base::shim::atomic::{AtomicUsize, Ordering};
use crate::base::shim::cell::UnsafeCell;
use std::fmt;

/// A place for a value that is made once, by whoever needs it first. Others wait meanwhile.
///
/// ```
/// use parcae::sync::OnceCell;
///
/// static WORDS: OnceCell<Vec<&str>> = OnceCell::new();
///
/// let words = WORDS.get_or_init(|| "spin measure cut".split(' ').collect())?;
/// assert_eq!(words.len(), 3);
/// assert_eq!(WORDS.get(), Some(words));
/// # Ok::<(), parcae::Error>(())
/// ```
pub struct OnceCell<T> {
    slot: Slot<T>,
    making: Mutex<()>,
}

/// The value, and whether it is there.
pub(super) struct Slot<T> {
    ready: AtomicUsize,
    value: UnsafeCell<Option<T>>,
}

// SAFETY: shared, `&T` is given out (`Sync`), and a value made on one thread is dropped on another
// (`Send`).
unsafe impl<T: Send + Sync> Sync for Slot<T> {}

impl<T> Slot<T> {
    constructor! {
        pub(super) fn new() -> Slot<T> {
            Slot::with(None)
        }
    }

    constructor! {
        fn with(value: Option<T>) -> Slot<T> {
            let ready = if value.is_some() { 1 } else { 0 };
            Slot { ready: AtomicUsize::new(ready), value: UnsafeCell::new(value) }
        }
    }

    /// The value, if it was made.
    pub(super) fn get(&self) -> Option<&T> {
        // Acquire: pairs with the Release in `put`.
        if self.ready.load(Ordering::Acquire) == 0 {
            return None;
        }
        // SAFETY: ready, so nobody writes any more.
        self.value.with(|value| unsafe { (*value).as_ref() })
    }

    /// Makes the value ready.
    ///
    /// # Safety
    ///
    /// The caller is the only one who may make the value, and has seen that it is not ready.
    pub(super) unsafe fn put(&self, value: T) {
        // SAFETY: as the caller says, and nobody reads what is not ready.
        self.value.with_mut(|place| unsafe { *place = Some(value) });
        self.ready.store(1, Ordering::Release); // pairs with the Acquire in `get`
    }
}

impl<T> OnceCell<T> {
    constructor! {
        /// Nothing yet.
        pub fn new() -> OnceCell<T> {
            OnceCell { slot: Slot::new(), making: Mutex::new(()) }
        }
    }

    constructor! {
        /// With this value, if there is one.
        ///
        /// ```
        /// use parcae::sync::OnceCell;
        ///
        /// static PORT: OnceCell<u16> = OnceCell::new_with(Some(8080));
        ///
        /// assert_eq!(*PORT.get_or_init(|| 80)?, 8080);
        /// assert_eq!(OnceCell::from("there").get(), Some(&"there"));
        /// # Ok::<(), parcae::Error>(())
        /// ```
        pub fn new_with(value: Option<T>) -> OnceCell<T> {
            OnceCell { slot: Slot::with(value), making: Mutex::new(()) }
        }
    }

    /// The value, if it was made. Not a checkpoint: a loop around it needs one.
    pub fn get(&self) -> Option<&T> {
        self.slot.get()
    }

    /// The value; makes it if that was not done yet. Waits while somebody else makes it, which is a
    /// cancel point.
    ///
    /// If it panics, the next one tries. To ask the same cell while making its value is waiting for
    /// oneself.
    ///
    /// # Errors
    ///
    /// If the task was cancelled while it waited, or has no budget left for the wait.
    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> Result<&T> {
        self.get_or_try_init(|| Ok(make()))
    }

    /// As [`get_or_init`](OnceCell::get_or_init); if making it fails, the next one tries.
    ///
    /// # Errors
    ///
    /// What making it failed with; or if the task was cancelled while it waited.
    pub fn get_or_try_init(&self, make: impl FnOnce() -> Result<T>) -> Result<&T> {
        if let Some(value) = self.get() {
            return Ok(value);
        }
        let _making = self.making.lock()?;
        if self.get().is_none() {
            let value = make()?;
            // SAFETY: we have `making`, and the value is not ready.
            unsafe { self.slot.put(value) };
        }
        Ok(self.get().expect("it is ready"))
    }

    /// Puts a value in. Waits while somebody makes one.
    ///
    /// # Errors
    ///
    /// If the task was cancelled while it waited. The inner one, with the value, if there is one
    /// already.
    pub fn set(&self, value: T) -> Result<Result<(), T>> {
        let _making = self.making.lock()?;
        if self.get().is_some() {
            return Ok(Err(value));
        }
        // SAFETY: we have `making`, and the value is not ready.
        unsafe { self.slot.put(value) };
        Ok(Ok(()))
    }

    /// The value, for who has the cell to itself.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        // SAFETY: borrowed alone.
        self.slot.value.with_mut(|value| unsafe { (*value).as_mut() })
    }

    /// Takes the value out, for who has the cell to itself.
    pub fn take(&mut self) -> Option<T> {
        std::mem::take(self).into_inner()
    }

    /// The value, if it was made.
    pub fn into_inner(self) -> Option<T> {
        self.slot.value.into_inner()
    }
}

impl<T> Default for OnceCell<T> {
    fn default() -> OnceCell<T> {
        OnceCell::new()
    }
}

impl<T> From<T> for OnceCell<T> {
    fn from(value: T) -> OnceCell<T> {
        OnceCell::new_with(Some(value))
    }
}

impl<T: fmt::Debug> fmt::Debug for OnceCell<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OnceCell").field(&self.get()).finish()
    }
}

/// Something that is done once.
///
/// ```
/// use parcae::sync::Once;
///
/// static START: Once = Once::new();
///
/// let mut calls = 0;
/// START.call_once(|| calls += 1)?;
/// START.call_once(|| calls += 1)?;
/// assert_eq!(calls, 1);
/// # Ok::<(), parcae::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Once {
    cell: OnceCell<()>,
}

impl Once {
    constructor! {
        /// Not done yet.
        pub fn new() -> Once {
            Once { cell: OnceCell::new() }
        }
    }

    /// Does it, unless it was done. When this returns without an error it is done. Waits while
    /// somebody else does it, which is a cancel point. If it panics, it was not done, and the next
    /// one tries.
    ///
    /// # Errors
    ///
    /// If the task was cancelled while it waited, or has no budget left for the wait.
    pub fn call_once(&self, act: impl FnOnce()) -> Result<()> {
        self.cell.get_or_init(act).copied()
    }

    /// Whether it was done. Not a checkpoint: a loop around it needs one.
    pub fn is_completed(&self) -> bool {
        self.cell.get().is_some()
    }
}

/// A value that is made when it is first asked for.
///
/// It does not dereference to the value: that could not tell of a cancelled wait.
///
/// ```
/// use parcae::sync::Lazy;
///
/// static TABLE: Lazy<Vec<u32>> = Lazy::new(|| (0..8).map(|i| i * i).collect());
///
/// assert_eq!(TABLE.get()?[3], 9);
/// # Ok::<(), parcae::Error>(())
/// ```
pub struct Lazy<T, F = fn() -> T> {
    cell: OnceCell<T>,
    make: F,
}

impl<T, F: Fn() -> T> Lazy<T, F> {
    constructor! {
        /// Not made yet. The function may be called more than once, if it panics.
        pub fn new(make: F) -> Lazy<T, F> {
            Lazy { cell: OnceCell::new(), make }
        }
    }

    /// The value. Waits while somebody else makes it, which is a cancel point.
    ///
    /// # Errors
    ///
    /// If the task was cancelled while it waited, or has no budget left for the wait.
    pub fn get(&self) -> Result<&T> {
        self.cell.get_or_init(&self.make)
    }
}

impl<T: fmt::Debug, F> fmt::Debug for Lazy<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lazy").field(&self.cell.get()).finish()
    }
}
