//! Task-local storage: [`task_local!`](crate::task_local!).
//!
//! The frame has the table of values and the argument why references stay valid
//! (`cx/frame/locals.rs`). A key is a static; its address is its name.
//!
//! Values are made, used and dropped on their task. So they need not be `Send`: a task stays on the
//! thread that has started it. A *migratable* task
//! (`SpawnOpts::migratable`) does not, and its contract covers local values as
//! everything else that it keeps over a wait.

use crate::base::error::{Error, Result};
use crate::scope::cx::{Cx, FoundLocal, Here};
use crate::scope::profile::Profile;
use std::cell::{Cell, RefCell};
use std::fmt;

/// A value that each task has for itself. Declared by [`task_local!`](crate::task_local!).
pub struct TaskLocal<T: 'static> {
    init: fn() -> T,
}

/// Declares values that each task has for itself.
///
/// A task makes its value when it first uses it, and drops it when it ends: after the task's
/// closure has returned, failed or panicked, and before a `join` returns. The destructor runs on
/// the task and may wait, as any other one. The value made last is dropped first. A panic of a
/// destructor is not the result of the task.
///
/// ```
/// use parcae::prelude::*;
/// use std::cell::Cell;
///
/// parcae::task_local! {
///     /// The request that a task works for.
///     static REQUEST: Cell<u64> = Cell::new(0);
/// }
///
/// fn log(text: &str) -> String {
///     format!("[request {}] {text}", REQUEST.get())
/// }
///
/// let rt = Runtime::builder().workers(2).build()?;
/// rt.run(|cx| {
///     REQUEST.set(7);
///     assert_eq!(log("begin"), "[request 7] begin");
///     cx.nursery(|n| {
///         let fresh = n.spawn(|_| Ok(log("a child has a value of its own")))?;
///         let same = n.spawn(REQUEST.inherit(|_| Ok(log("passed on"))))?;
///         assert!(fresh.join()?.starts_with("[request 0]"));
///         assert!(same.join()?.starts_with("[request 7]"));
///         Ok(())
///     })
/// })?;
/// # Ok::<(), parcae::Error>(())
/// ```
///
/// Values are not inherited; [`TaskLocal::inherit`] passes a copy on. They need not be `Send`. A
/// task that uses none pays nothing for them. Outside of tasks there are none:
/// [`TaskLocal::try_with`] returns an error there.
///
/// Prefer an argument or a captured reference where there is one: children borrow.
#[macro_export]
macro_rules! task_local {
    ($($(#[$meta:meta])* $vis:vis static $name:ident: $t:ty = $init:expr);* $(;)?) => {
        $(
            $(#[$meta])*
            $vis static $name: $crate::task::TaskLocal<$t> =
                $crate::task::TaskLocal::__new(|| $init);
        )*
    };
    ($($(#[$meta:meta])* $vis:vis static $name:ident: $t:ty);* $(;)?) => {
        ::core::compile_error!(
            "a task-local value has an initialiser, which each task calls when it first uses the value: \
             `static NAME: Type = value;`; for a value that is set later use `Cell<Option<Type>>`"
        );
    };
}

impl<T: 'static> TaskLocal<T> {
    /// Code that the macro expands to. Not public API.
    #[doc(hidden)]
    pub const fn __new(init: fn() -> T) -> TaskLocal<T> {
        TaskLocal { init }
    }

    fn key(&'static self) -> usize {
        (&raw const *self).addr()
    }

    /// Calls `with` with the value of the running task, which is made if there is none.
    ///
    /// # Panics
    ///
    /// Outside of tasks, and if the task is ending and its value was dropped; see
    /// [`try_with`](TaskLocal::try_with).
    #[track_caller]
    pub fn with<R>(&'static self, with: impl FnOnce(&T) -> R) -> R {
        match self.try_with(with) {
            Ok(result) => result,
            Err(error) => panic!("{error}"),
        }
    }

    /// Like [`with`](TaskLocal::with), for code that may run outside of tasks.
    ///
    /// ```
    /// use std::cell::Cell;
    ///
    /// parcae::task_local! {
    ///     static REQUEST: Cell<u64> = Cell::new(0);
    /// }
    ///
    /// let request = REQUEST.try_with(Cell::get).ok();
    /// assert_eq!(request, None); // no task runs here
    /// ```
    ///
    /// # Errors
    ///
    /// If the caller is no task, or its value was dropped because the task is ending.
    pub fn try_with<R>(&'static self, with: impl FnOnce(&T) -> R) -> Result<R> {
        let here = Here::new();
        let Some(frame) = here.frame() else {
            return Err(Error::msg(
                "a task-local value was used outside of a task; `try_with` finds out",
            ));
        };
        for _ in 0..2 {
            match frame.find_local::<T>(self.key()) {
                FoundLocal::There(value) => return Ok(with(value)),
                FoundLocal::Missing => frame.put_local(self.key(), (self.init)()),
                FoundLocal::Gone => break,
            }
        }
        Err(Error::msg("a task-local value was used after its task had dropped it"))
    }

    /// A child that starts with a copy of the caller's value, instead of one of its own. The copy
    /// is made now. Outside of tasks there is no value to pass on. A closure that uses its context
    /// names the type: `|cx: &Cx| …`.
    ///
    /// ```
    /// use parcae::prelude::*;
    ///
    /// parcae::task_local! {
    ///     static USER: String = String::from("guest");
    /// }
    ///
    /// let rt = Runtime::builder().build()?;
    /// rt.run(|cx| {
    ///     cx.nursery(|n| {
    ///         n.spawn(USER.inherit(|cx: &Cx| {
    ///             cx.yield_now()?;
    ///             Ok(USER.with(String::len))
    ///         }))?.join()
    ///     })
    /// })?;
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn inherit<P, R, F>(&'static self, child: F) -> impl FnOnce(&Cx<P>) -> R + Send
    where
        T: Clone + Send,
        P: Profile,
        F: FnOnce(&Cx<P>) -> R + Send,
    {
        let value = self.try_with(T::clone).ok();
        move |cx: &Cx<P>| {
            let here = Here::new();
            if let (Some(value), Some(frame)) = (value, here.frame())
                && let FoundLocal::Missing = frame.find_local::<T>(self.key())
            {
                frame.put_local(self.key(), value);
            }
            child(cx)
        }
    }
}

impl<T: 'static> TaskLocal<Cell<T>> {
    /// A copy of the value.
    ///
    /// # Panics
    ///
    /// As for [`with`](TaskLocal::with).
    #[track_caller]
    pub fn get(&'static self) -> T
    where
        T: Copy,
    {
        self.with(Cell::get)
    }

    /// Sets the value.
    ///
    /// # Panics
    ///
    /// As for [`with`](TaskLocal::with).
    #[track_caller]
    pub fn set(&'static self, value: T) {
        self.with(|cell| cell.set(value));
    }

    /// Sets the value, and returns the one before.
    ///
    /// # Panics
    ///
    /// As for [`with`](TaskLocal::with).
    #[track_caller]
    pub fn replace(&'static self, value: T) -> T {
        self.with(|cell| cell.replace(value))
    }

    /// Takes the value, and leaves the default.
    ///
    /// # Panics
    ///
    /// As for [`with`](TaskLocal::with).
    #[track_caller]
    pub fn take(&'static self) -> T
    where
        T: Default,
    {
        self.with(Cell::take)
    }
}

impl<T: 'static> TaskLocal<RefCell<T>> {
    /// Calls `with` with the value.
    ///
    /// # Panics
    ///
    /// If the value is borrowed mutably, and as for [`with`](TaskLocal::with).
    #[track_caller]
    pub fn with_borrow<R>(&'static self, with: impl FnOnce(&T) -> R) -> R {
        self.with(|cell| with(&cell.borrow()))
    }

    /// Calls `with` with the value, borrowed mutably.
    ///
    /// # Panics
    ///
    /// If the value is borrowed, and as for [`with`](TaskLocal::with).
    #[track_caller]
    pub fn with_borrow_mut<R>(&'static self, with: impl FnOnce(&mut T) -> R) -> R {
        self.with(|cell| with(&mut cell.borrow_mut()))
    }
}

impl<T> fmt::Debug for TaskLocal<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TaskLocal")
    }
}
