//! One-time initialisation.
//!
//! `ready` is set with Release when the value is in place, and is not cleared while the cell is
//! shared; a thread that reads it with Acquire may read the value. The initializer runs under a
//! [`Mutex`]. Other callers wait for the mutex and check `ready` again when they hold it. An
//! initializer that fails, panics or is cancelled unlocks the mutex with `ready` unset, and the
//! next caller tries.

use super::{Mutex, constructor};
use crate::base::error::Result;
use crate::base::shim::atomic::{AtomicUsize, Ordering};
use crate::base::shim::cell::UnsafeCell;
use crate::sched::lab::OpKind;
use crate::sched::worker::ordered::hold_order_of;
use crate::sched::worker::point_at;
use std::fmt;

/// A cell that is initialised once, by the first caller. Other callers wait meanwhile.
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
    slot: OnceSlot<T>,
    making: Mutex<()>,
}

/// The value, and whether it is initialised.
pub(super) struct OnceSlot<T> {
    ready: AtomicUsize,
    value: UnsafeCell<Option<T>>,
}

// SAFETY: shared, the slot gives out `&T` (`Sync`), and a value made on one thread may be dropped
// on another (`Send`).
unsafe impl<T: Send + Sync> Sync for OnceSlot<T> {}

impl<T> OnceSlot<T> {
    constructor! {
        pub(super) fn new() -> OnceSlot<T> {
            OnceSlot::with(None)
        }
    }

    constructor! {
        fn with(value: Option<T>) -> OnceSlot<T> {
            let ready = if value.is_some() { 1 } else { 0 };
            OnceSlot { ready: AtomicUsize::new(ready), value: UnsafeCell::new(value) }
        }
    }

    /// The value, if it is initialised.
    pub(super) fn get(&self) -> Option<&T> {
        // Acquire: pairs with the Release in `put`.
        if self.ready.load(Ordering::Acquire) == 0 {
            return None;
        }
        // SAFETY: ready, so there are no more writes.
        self.value.with(|value| unsafe { (*value).as_ref() })
    }

    /// Stores the value and marks it as ready.
    ///
    /// # Safety
    ///
    /// The caller has the exclusive right to initialise, and has seen that the value is not ready.
    pub(super) unsafe fn put(&self, value: T) {
        // SAFETY: the caller upholds the contract, and a value that is not ready is not read.
        self.value.with_mut(|place| unsafe { *place = Some(value) });
        let _order = hold_order_of(self); // as `OnceCell::get`
        self.ready.store(1, Ordering::Release); // pairs with the Acquire in `get`
    }
}

impl<T> OnceCell<T> {
    constructor! {
        /// An uninitialised cell.
        pub fn new() -> OnceCell<T> {
            OnceCell { slot: OnceSlot::new(), making: Mutex::new(()) }
        }
    }

    constructor! {
        /// A cell with this value, or an uninitialised one.
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
            OnceCell { slot: OnceSlot::with(value), making: Mutex::new(()) }
        }
    }

    /// The value, if it is initialised. Not a checkpoint: a polling loop needs one of its own.
    #[track_caller]
    pub fn get(&self) -> Option<&T> {
        point_at(OpKind::Load, &self.slot);
        let _order = hold_order_of(&self.slot);
        self.slot.get()
    }

    /// The value; initialises it if necessary. A cancel point if it has to wait for another
    /// initializer.
    ///
    /// If `make` panics, the next caller tries. Calling this on the same cell from within `make`
    /// deadlocks until the task is cancelled.
    ///
    /// # Errors
    ///
    /// If the task is cancelled while it waits, or its budget is exhausted.
    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> Result<&T> {
        self.get_or_try_init(|| Ok(make()))
    }

    /// Like [`get_or_init`](OnceCell::get_or_init), with an initializer that may fail. After a
    /// failure the next caller tries.
    ///
    /// # Errors
    ///
    /// The error of `make`; or if the task is cancelled while it waits.
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

    /// Initialises the cell with this value. Waits while another caller initialises it.
    ///
    /// # Errors
    ///
    /// The outer error if the task is cancelled while it waits. The inner one, with the value, if
    /// the cell is already initialised.
    pub fn set(&self, value: T) -> Result<Result<(), T>> {
        let _making = self.making.lock()?;
        if self.get().is_some() {
            return Ok(Err(value));
        }
        // SAFETY: we have `making`, and the value is not ready.
        unsafe { self.slot.put(value) };
        Ok(Ok(()))
    }

    /// The value, without locking: the exclusive borrow proves that there is no other caller.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        // SAFETY: borrowed exclusively.
        self.slot.value.with_mut(|value| unsafe { (*value).as_mut() })
    }

    /// Takes the value, which leaves the cell uninitialised.
    pub fn take(&mut self) -> Option<T> {
        std::mem::take(self).into_inner()
    }

    /// Consumes the cell and returns the value, if it is initialised.
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

/// Runs a function once.
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
        /// A `Once` that has not run.
        pub fn new() -> Once {
            Once { cell: OnceCell::new() }
        }
    }

    /// Runs the function unless one has completed. When this returns without an error, one has. A
    /// cancel point if it has to wait for another caller. After a panic the next caller tries.
    ///
    /// # Errors
    ///
    /// If the task is cancelled while it waits, or its budget is exhausted.
    pub fn call_once(&self, act: impl FnOnce()) -> Result<()> {
        self.cell.get_or_init(act).copied()
    }

    /// Whether a function has completed. Not a checkpoint: a polling loop needs one of its own.
    pub fn is_completed(&self) -> bool {
        self.cell.get().is_some()
    }
}

/// A value that is initialised on first use.
///
/// It does not implement `Deref`, which could not report a cancelled wait.
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
        /// An uninitialised value. The function is called again if it panics.
        pub fn new(make: F) -> Lazy<T, F> {
            Lazy { cell: OnceCell::new(), make }
        }
    }

    /// The value; initialises it if necessary. A cancel point if it has to wait for another
    /// initializer.
    ///
    /// # Errors
    ///
    /// If the task is cancelled while it waits, or its budget is exhausted.
    pub fn get(&self) -> Result<&T> {
        self.cell.get_or_init(&self.make)
    }
}

impl<T: fmt::Debug, F> fmt::Debug for Lazy<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lazy").field(&self.cell.get()).finish()
    }
}
