//! A case of a select. Hidden: made by the macro, by [`Select`](super::Select) and by
//! [`Cases`](super::Cases).
//!
//! The order of calls:
//!
//! ```text
//! attempt, or is_possible ──► finish
//!     │ no
//!     ▼
//! register ──► unregister, in any case ──► if it has won: conclude ──► finish
//! ```
//!
//! A case owns the node with which it registers, and the value that it receives or sends, unless
//! that is borrowed from the caller. While the case is registered, both belong to the object that
//! it waits for. The case is neither moved nor dropped during that time: the select that registers
//! it borrows it exclusively, and unregisters it before the borrow ends (`Registered`, in the
//! module above).

use crate::base::error::Result;
use crate::scope::cx::parking::borrowed_waiter;
use crate::scope::cx::{Frame, Here};
use crate::sync::channel::prepare;
use crate::wait::{CaseClaim, Claim, Waiter};
use std::time::{Duration, Instant};

/// The task that is charged for the case that happens, if the caller is a task.
pub struct Payer<'h>(pub(super) Option<&'h Frame>);

impl<'h> Payer<'h> {
    pub(super) fn prepare(here: &'h Here) -> Result<Payer<'h>> {
        Ok(Payer(prepare(here)?))
    }
}

/// The parameters of a registration.
pub struct Round<'r> {
    /// On the select's stack, valid until all cases are unregistered.
    pub(super) claim: &'r Claim,
    /// The caller's, if it is a task.
    pub(super) frame: Option<&'r Frame>,
    pub(super) case: usize,
    pub(super) goal: Goal,
}

impl Round<'_> {
    /// The waiter of a case.
    ///
    /// # Safety
    ///
    /// It is queued only while the case is registered; see [`Case::unregister`].
    pub(super) unsafe fn waiter(&self) -> Waiter {
        // SAFETY: the caller upholds the contract; the frame is that of the select.
        unsafe { borrowed_waiter(self.frame) }
    }

    /// The claim of the select for this case.
    ///
    /// # Safety
    ///
    /// As for [`waiter`](Round::waiter).
    pub(super) unsafe fn claim(&self) -> CaseClaim {
        // SAFETY: a select unregisters all cases before its claim is dropped.
        unsafe { CaseClaim::new(self.claim, self.case) }
    }
}

/// The purpose of a select.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Goal {
    /// The case is to happen.
    Happen,
    /// The case is only to be found.
    Watch,
}

/// An operation that a select can wait for. The default methods suit cases without the feature.
pub trait Case {
    /// Performs the operation if that is possible at once. Never called while registered.
    fn attempt(&mut self, payer: &Payer<'_>) -> bool;

    /// Whether the operation is possible at once.
    fn is_possible(&mut self) -> bool;

    /// Registers. Returns false, with nothing registered, if the operation has become possible.
    fn register(&mut self, round: &Round<'_>) -> bool;

    /// Withdraws the registration, if there is one.
    fn unregister(&mut self);

    /// Completes the winning case, after all cases are unregistered. Returns false if the operation
    /// has not happened after all, and the select has to start over.
    fn conclude(&mut self, payer: &Payer<'_>) -> bool;

    /// Whether other tasks can make the operation impossible again.
    fn is_fleeting(&self) -> bool {
        false
    }

    /// Whether the outcome is a closed channel.
    fn is_closed(&self) -> bool {
        false
    }

    /// The timeout after which the case happens by itself.
    fn timeout(&self) -> Option<Duration> {
        None
    }

    /// The point in time at which the case becomes possible by itself.
    fn due(&self) -> Option<Instant> {
        None
    }

    /// Whether the case happens if no other one is possible at once.
    fn is_default(&self) -> bool {
        false
    }
}

/// A case with a result for its closure or arm.
pub trait Finish: Case {
    /// The result.
    type Given;

    /// The result of the winning case. The case can be waited for again afterwards.
    fn finish(&mut self) -> Self::Given;
}

/// A closure that is called once or many times.
pub trait Call<A> {
    /// Its return type.
    type Output;

    /// Calls the closure.
    fn call(&mut self, given: A) -> Self::Output;
}

/// A closure that is called once.
pub struct CallOnce<F>(Option<F>);

/// A closure that is called many times.
pub(super) struct CallMany<F>(pub(super) F);

impl<F> CallOnce<F> {
    pub(super) fn new(call: F) -> CallOnce<F> {
        CallOnce(Some(call))
    }
}

impl<A, R, F: FnOnce(A) -> R> Call<A> for CallOnce<F> {
    type Output = R;

    fn call(&mut self, given: A) -> R {
        self.0.take().expect("called once")(given)
    }
}

impl<A, R, F: FnMut(A) -> R> Call<A> for CallMany<F> {
    type Output = R;

    fn call(&mut self, given: A) -> R {
        (self.0)(given)
    }
}

/// Implements `Debug` for types that are public but hidden.
macro_rules! opaque {
    ($($name:ident $(<$($param:tt),*>)?),*) => {
        $(impl $(<$($param),*>)? std::fmt::Debug for $name $(<$($param),*>)? {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(stringify!($name))
            }
        })*
    };
}
pub(super) use opaque;

opaque!(Payer<'h>, Round<'r>, CallOnce<F>, CallMany<F>);
