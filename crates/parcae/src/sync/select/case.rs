//! A case of a select. Hidden: made by the macro, by [`Select`](super::Select) and by
//! [`Cases`](super::Cases).
//!
//! The order of calls:
//!
//! ```text
//! attempt, or is_possible ──► finish
//!     │ no
//!     ▼
//! register, to do it or to watch ──► unregister, in any case ──► if it has won: conclude ──► finish
//! ```
//!
//! A case has the wait-queue node with which it registers, and the value that it receives or sends,
//! unless that is borrowed from the caller. While the case is registered, both belong to the object
//! that it waits for. The case is neither moved nor dropped then: the select that registers it has
//! it borrowed, and unregisters it before it gives it back (`Registered`, in the module above).

use crate::base::error::Result;
use crate::scope::cx::Frame;
use crate::scope::cx::parking::borrowed_waiter;
use crate::sync::channel::prepare;
use crate::wait::{CaseClaim, Claim, Waiter};
use std::time::{Duration, Instant};

/// The task that pays for the case that happens, if a task does.
pub struct Payer(pub(super) Option<&'static Frame>);

impl Payer {
    pub(super) fn prepare() -> Result<Payer> {
        Ok(Payer(prepare()?))
    }
}

/// What a case needs to register.
pub struct Round<'r> {
    /// On the select's stack, until all cases are unregistered.
    pub(super) claim: &'r Claim,
    /// That of the caller, if it is a task.
    pub(super) frame: Option<&'static Frame>,
    pub(super) case: usize,
    pub(super) goal: Goal,
}

impl Round<'_> {
    /// The waiter of a case.
    ///
    /// # Safety
    ///
    /// It is queued for the time of the registration only: see [`Case::unregister`].
    pub(super) unsafe fn waiter(&self) -> Waiter {
        // SAFETY: the caller upholds the contract; the frame is that of the select.
        unsafe { borrowed_waiter(self.frame) }
    }

    /// The claim of the select, for this case.
    ///
    /// # Safety
    ///
    /// As for [`waiter`](Round::waiter).
    pub(super) unsafe fn claim(&self) -> CaseClaim {
        // SAFETY: a select unregisters all cases before its claim goes.
        unsafe { CaseClaim::new(self.claim, self.case) }
    }
}

/// What a select is to do with the case that it has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Goal {
    /// Let it happen.
    Happen,
    /// Say which it is, and leave it alone.
    Watch,
}

/// Something that a select can wait for. Where a function is not defined the case has no use for
/// it.
pub trait Case {
    /// Does it if that is possible at once. Never called while registered.
    fn attempt(&mut self, payer: &Payer) -> bool;

    /// Whether it is possible at once.
    fn is_possible(&mut self) -> bool;

    /// Registers; false if it has become possible meanwhile, and nothing is registered.
    fn register(&mut self, round: &Round<'_>) -> bool;

    /// Takes the registration back, if there is one.
    fn unregister(&mut self);

    /// It has won, and nothing is registered any more: it has its outcome after this. False if it
    /// has not happened after all, and the select has to start over.
    fn conclude(&mut self, payer: &Payer) -> bool;

    /// Whether it can be possible now and not a moment later, because of others.
    fn is_fleeting(&self) -> bool {
        false
    }

    /// Whether its outcome is that something is closed.
    fn is_closed(&self) -> bool {
        false
    }

    /// After which time it happens by itself.
    fn timeout(&self) -> Option<Duration> {
        None
    }

    /// When it becomes possible by itself.
    fn due(&self) -> Option<Instant> {
        None
    }

    /// Whether it is what happens when nothing else is possible at once.
    fn is_default(&self) -> bool {
        false
    }
}

/// What a case gives to the code that belongs to it.
pub trait Finish: Case {
    /// That.
    type Given;

    /// What came of it, for the case that has won. It can be waited for again after that.
    fn finish(&mut self) -> Self::Given;
}

/// Something that is called once, or again and again.
pub trait Call<A> {
    /// What it returns.
    type Output;

    /// Calls it.
    fn call(&mut self, given: A) -> Self::Output;
}

/// Called once.
pub struct Once<F>(Option<F>);

/// Called again and again.
pub(super) struct Many<F>(pub(super) F);

impl<F> Once<F> {
    pub(super) fn new(call: F) -> Once<F> {
        Once(Some(call))
    }
}

impl<A, R, F: FnOnce(A) -> R> Call<A> for Once<F> {
    type Output = R;

    fn call(&mut self, given: A) -> R {
        self.0.take().expect("called once")(given)
    }
}

impl<A, R, F: FnMut(A) -> R> Call<A> for Many<F> {
    type Output = R;

    fn call(&mut self, given: A) -> R {
        (self.0)(given)
    }
}

/// Hidden, but public.
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

opaque!(Payer, Round<'r>, Once<F>, Many<F>);
