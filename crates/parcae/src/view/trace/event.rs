//! Events: what is recorded, and what others read.
//!
//! An event is four words, the same in the rings of the workers and in the log of the deterministic executor:
//!
//! | word | |
//! |---|---|
//! | 0 | when, in ticks |
//! | 1 | kind (bits 0–7), worker (8–23, all ones for the outside), extra (24–63) |
//! | 2 | the task's number |
//! | 3 | detail |
//!
//! What *extra* and *detail* mean depends on the kind:
//!
//! | kind | extra | detail |
//! |---|---|---|
//! | spawn | – | the task that spawned it, 0 for the outside |
//! | start | – | where it was spawned (low half) and what it is called (high half), as numbers of the side table |
//! | park | for what: the place in `REASONS`, or a word of the side table | the task that is waited for, or the resource |
//! | wake | the worker that it goes to | the task that woke it, 0 for the outside |
//! | steal | – | the worker that it was taken from |
//! | exhausted, recharged | – | the resource |
//! | cancel | – | the reason |

use super::names::Table;
use super::ring::Words;
use crate::base::reason::CancelReason;
use crate::scope::budget::Resource;
use crate::wait::Why;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

/// What happened, as it is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Spawn = 1,
    Start,
    Resume,
    Yield,
    Park,
    Wake,
    Steal,
    Finish,
    Sleep,
    Awake,
    /// Yielded, and goes on because there is nobody else.
    Alone,
    /// Was woken while it was about to wait: is ready again.
    Latched,
    Exhausted,
    Recharged,
    Cancel,
    Timer,
}

const KINDS: [Kind; 16] = [
    Kind::Spawn,
    Kind::Start,
    Kind::Resume,
    Kind::Yield,
    Kind::Park,
    Kind::Wake,
    Kind::Steal,
    Kind::Finish,
    Kind::Sleep,
    Kind::Awake,
    Kind::Alone,
    Kind::Latched,
    Kind::Exhausted,
    Kind::Recharged,
    Kind::Cancel,
    Kind::Timer,
];

/// What the outside is called where a worker has its number.
pub(crate) const OUTSIDE: usize = 0xffff;

#[inline]
pub(crate) fn pack(
    time: u64,
    kind: Kind,
    worker: usize,
    extra: u64,
    task: u64,
    detail: u64,
) -> Words {
    debug_assert!(extra < 1 << 40, "extra has 40 bits");
    [time, kind as u64 | (worker as u64 & 0xffff) << 8 | extra << 24, task, detail]
}

/// Kind, worker and extra; none if that is no event.
pub(crate) fn unpack(words: &Words) -> Option<(Kind, Option<usize>, u64)> {
    let kind = *KINDS.get((words[1] as u8).wrapping_sub(1) as usize)?;
    let worker = (words[1] >> 8) as usize & 0xffff;
    Some((kind, (worker != OUTSIDE).then_some(worker), words[1] >> 24))
}

/// What a wait is for, as it is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The place in [`REASONS`], and a detail.
    Fixed(u64, u64),
    /// A word of its own.
    Word(&'static str),
}

impl Reason {
    pub(crate) fn of(why: Option<Why<'_>>) -> Reason {
        match why {
            None | Some(Why::Wake) => Reason::Fixed(0, 0),
            Some(Why::Sleep) => Reason::Fixed(1, 0),
            Some(Why::Children) => Reason::Fixed(2, 0),
            Some(Why::Task(id)) => Reason::Fixed(A_TASK, id),
            Some(Why::Elsewhere) => Reason::Fixed(4, 0),
            Some(Why::Budget(resource)) => Reason::Fixed(5, resource as u64),
            Some(Why::Blocking) => Reason::Fixed(6, 0),
            Some(Why::Future) => Reason::Fixed(7, 0),
            Some(Why::Select(_)) => Reason::Fixed(8, 0),
            Some(Why::Lock(word, _) | Why::Signal(word, _) | Why::Channel(word, _)) => {
                Reason::Word(word)
            }
        }
    }
}

const REASONS: [&str; 9] = [
    "a wake-up",
    "time",
    "its children",
    "a task",
    "a root task",
    "a recharge",
    "a blocking call",
    "a future",
    "a select",
];
const A_TASK: u64 = 3;
/// Numbers of words begin here.
pub(crate) const WORDS: u64 = 16;

fn reason(extra: u64, table: &Table) -> Arc<str> {
    let word = extra.checked_sub(WORDS).and_then(|word| table.name(word as u32));
    word.unwrap_or_else(|| REASONS.get(extra as usize).copied().unwrap_or(REASONS[0]).into())
}

/// Something that happened, with everything that is known about it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// When: since the runtime was built. Virtual under the deterministic executor.
    pub at: Duration,
    /// On which worker; none for other threads.
    pub worker: Option<usize>,
    /// To which task: its number. 0 if it was the worker itself.
    pub task: u64,
    /// What.
    pub what: What,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum What {
    /// The task was spawned.
    Spawned {
        /// By which task; 0 for the outside.
        by: u64,
    },
    /// It runs for the first time.
    Started {
        /// What it is called.
        name: Option<Arc<str>>,
        /// Where it was spawned.
        spawned_at: Option<&'static Location<'static>>,
    },
    /// It runs again.
    Resumed,
    /// It lets others run.
    Yielded,
    /// It would have let others run, but there are none.
    YieldedToNobody,
    /// It waits.
    Parked {
        /// For what: "receive", "mutex", "its children".
        reason: Arc<str>,
        /// For the end of this task.
        of: Option<u64>,
    },
    /// It was woken while it was about to wait, and is ready again.
    WokenEarly,
    /// It was woken, and is ready.
    Woken {
        /// By which task, or what it left to its worker to do; 0 for the outside.
        by: u64,
        /// The worker that it goes to.
        to: usize,
    },
    /// Tasks were stolen, of which this is the first.
    Stolen {
        /// The worker that they were taken from.
        from: usize,
    },
    /// It has used up its budget.
    Exhausted {
        /// Of what.
        resource: Resource,
    },
    /// It has got more.
    Recharged {
        /// Of what.
        resource: Resource,
    },
    /// It was told that it is to end.
    Cancelled {
        /// Why.
        reason: CancelReason,
    },
    /// It has ended.
    Finished,
    /// A deadline has passed, for which it waits.
    TimerFired,
    /// The worker has nothing to do and sleeps.
    Slept,
    /// The worker was woken.
    Awoke,
}

impl What {
    /// What these words say; none if that is no event.
    pub(super) fn of(words: &Words, table: &Table) -> Option<(Option<usize>, What)> {
        let (kind, worker, extra) = unpack(words)?;
        let detail = words[3];
        let what = match kind {
            Kind::Spawn => What::Spawned { by: detail },
            Kind::Start => {
                let (place, name) = (detail as u32, (detail >> 32) as u32);
                What::Started { name: table.name(name), spawned_at: table.place(place) }
            }
            Kind::Resume => What::Resumed,
            Kind::Yield => What::Yielded,
            Kind::Alone => What::YieldedToNobody,
            Kind::Park => What::Parked {
                reason: reason(extra, table),
                of: (extra == A_TASK).then_some(detail),
            },
            Kind::Latched => What::WokenEarly,
            Kind::Wake => What::Woken { by: detail, to: extra as usize },
            Kind::Steal => What::Stolen { from: detail as usize },
            Kind::Exhausted => What::Exhausted { resource: resource(detail)? },
            Kind::Recharged => What::Recharged { resource: resource(detail)? },
            Kind::Cancel => What::Cancelled { reason: cancel_reason(detail)? },
            Kind::Finish => What::Finished,
            Kind::Timer => What::TimerFired,
            Kind::Sleep => What::Slept,
            Kind::Awake => What::Awoke,
        };
        Some((worker, what))
    }
}

fn resource(code: u64) -> Option<Resource> {
    Resource::ALL.into_iter().find(|resource| *resource as u64 == code)
}

const CANCEL_REASONS: [CancelReason; 5] = [
    CancelReason::Explicit,
    CancelReason::Timeout,
    CancelReason::Parent,
    CancelReason::Failure,
    CancelReason::Shutdown,
];

fn cancel_reason(code: u64) -> Option<CancelReason> {
    CANCEL_REASONS.get(code as usize).copied()
}

/// The reverse.
pub(crate) fn cancel_code(reason: CancelReason) -> u64 {
    CANCEL_REASONS.iter().position(|one| *one == reason).unwrap_or(0) as u64
}
