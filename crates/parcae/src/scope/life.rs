//! The life of a task, from its first instruction to its last: once, for children and for root
//! tasks.
//!
//! ```text
//! enter the frame ─ cancelled, or no stack? ─ no ──► body ──► pay for memory ─┐
//!                            │ yes                                            ▼
//!                            └──────► drop the body, end with that error ──► classify ──► keep
//!                                                                                          │
//!                                          give the account back, leave the frame ◄────────┘
//! ```
//!
//! A panic of the body is an error like any other. A task pays for the memory that it has allocated
//! and not freed, its result included, before its result counts. `keep` is called while the task
//! still is one: it may wait there, for instance in the destructor of a result that is not taken.

use crate::base::error::{Error, ErrorKind, Result};
use crate::sched::task::{Start, Task};
use crate::scope::budget::Budget;
use crate::scope::cancel::OwnNode;
use crate::scope::cx::{Cx, Frame, Origin, PoolOwner, TaskSettings};
use crate::scope::profile::Profile;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;

/// Everything that a task starts with, except its body.
pub(crate) struct Birth<'t> {
    pub(crate) record: NonNull<Task>,
    pub(crate) start: Start,
    pub(crate) settings: &'t TaskSettings,
    /// Drawn from the pool of the settings.
    pub(crate) account: &'t Budget,
    pub(crate) pool_owner: PoolOwner,
    pub(crate) origin: Origin,
    /// The node of a root task.
    pub(crate) own_node: Option<&'t OwnNode>,
}

/// The way in which a task has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Well,
    /// Because it was cancelled.
    Cancelled,
    Failed,
}

/// A failure of the runtime while a task was leaving, to be resumed when its result is in place.
#[must_use]
pub(crate) struct Leaving(std::thread::Result<()>);

impl Leaving {
    /// Goes on, or resumes the panic.
    #[inline]
    pub(crate) fn finish(self) {
        if let Err(payload) = self.0 {
            resume_unwind(payload);
        }
    }
}

/// Runs a task from beginning to end. `sign` adds the task to an error. When this returns,
/// everything that the task owned is gone, except for the result that `keep` has stored.
///
/// # Safety
///
/// Called on the task's own stack, once. The terms outlive the call, and the account was drawn from
/// their pool.
#[cfg_attr(not(debug_assertions), inline(always))] // see `nursery::spawn::run`
pub(crate) unsafe fn live<P: Profile, T, K>(
    birth: Birth<'_>,
    body: impl FnOnce(&Cx<P>) -> Result<T>,
    sign: impl FnOnce(Error, &Frame) -> Error,
    keep: impl FnOnce(&Frame, Result<T>, Ending) -> K,
) -> (K, Leaving) {
    let Birth { record, start, settings, account, pool_owner, origin, own_node } = birth;
    let mut place = MaybeUninit::<Cx<P>>::uninit();
    // SAFETY: as the caller says.
    let cx = unsafe {
        Cx::made_in(&mut place, |frame| {
            Frame::init(frame, record, settings, account, pool_owner, origin, own_node);
        })
    };
    let frame = cx.frame();
    frame.enter();
    let refused = match start {
        Start::Run => frame.check_cancelled(), // before its first run it ends without one
        Start::Refused(error) => Err(Error::new(ErrorKind::NoStack(*error))),
    };
    let output = catch_unwind(AssertUnwindSafe(|| match refused {
        Ok(()) => body(&cx).and_then(|value| frame.pay_for_memory().map(|()| value)),
        Err(error) => {
            drop(body);
            Err(error)
        }
    }));
    // SAFETY: as the caller says.
    unsafe { conclude(frame, output, sign, keep) }
}

/// The end of a task, from the result of its body on: see [`live`].
///
/// # Safety
///
/// As for [`live`]: `frame` is that of the running task, which ends with this.
#[inline]
pub(crate) unsafe fn conclude<T, K>(
    frame: &Frame,
    output: std::thread::Result<Result<T>>,
    sign: impl FnOnce(Error, &Frame) -> Error,
    keep: impl FnOnce(&Frame, Result<T>, Ending) -> K,
) -> (K, Leaving) {
    let output = output.unwrap_or_else(|payload| Err(Error::from_panic(payload)));
    let (output, ending) = match output {
        Ok(value) => (Ok(value), Ending::Well),
        Err(error) => {
            let told = frame.cancel_reason().is_some();
            let error = sign(error, frame);
            let cancelled = told && error.is_cancelled();
            let error = error.ending(cancelled);
            (Err(error), if cancelled { Ending::Cancelled } else { Ending::Failed })
        }
    };
    frame.span().end(output.as_ref().err());
    if let Some(tally) = &frame.settings().tally {
        tally.ended(ending == Ending::Failed);
    }
    let kept = catch_unwind(AssertUnwindSafe(|| keep(frame, output, ending)));
    let left = catch_unwind(AssertUnwindSafe(|| frame.leave()));
    match kept {
        Ok(kept) => (kept, Leaving(left)),
        Err(payload) => resume_unwind(payload),
    }
}
