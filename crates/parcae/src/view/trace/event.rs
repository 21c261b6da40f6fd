//! Events as programs read them: decoded from the words that the scheduler has written
//! (`sched::events`).

use crate::base::reason::CancelReason;
use crate::sched::events::kind::{A_TASK, WAIT_REASONS, WORDS, cancel_reason, unpack};
use crate::sched::events::names::NameTable;
use crate::sched::events::{EventKind, Words};
use crate::scope::budget::Resource;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

fn reason(extra: u64, table: &NameTable) -> Arc<str> {
    let word = extra.checked_sub(WORDS).and_then(|word| table.name(word as u32));
    let fixed = || WAIT_REASONS.get(extra as usize).copied().unwrap_or(WAIT_REASONS[0]).into();
    word.unwrap_or_else(fixed)
}

/// Something that happened, with everything that is known about it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TraceEvent {
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
    pub(super) fn of(words: &Words, table: &NameTable) -> Option<(Option<usize>, What)> {
        let (kind, worker, extra) = unpack(words)?;
        let detail = words[3];
        let what = match kind {
            EventKind::Spawn => What::Spawned { by: detail },
            EventKind::Start => {
                let (place, name) = (detail as u32, (detail >> 32) as u32);
                What::Started { name: table.name(name), spawned_at: table.place(place) }
            }
            EventKind::Resume => What::Resumed,
            EventKind::Yield => What::Yielded,
            EventKind::Alone => What::YieldedToNobody,
            EventKind::Park => What::Parked {
                reason: reason(extra, table),
                of: (extra == A_TASK).then_some(detail),
            },
            EventKind::Latched => What::WokenEarly,
            EventKind::Wake => What::Woken { by: detail, to: extra as usize },
            EventKind::Steal => What::Stolen { from: detail as usize },
            EventKind::Exhausted => What::Exhausted { resource: resource(detail)? },
            EventKind::Recharged => What::Recharged { resource: resource(detail)? },
            EventKind::Cancel => What::Cancelled { reason: cancel_reason(detail)? },
            EventKind::Finish => What::Finished,
            EventKind::Timer => What::TimerFired,
            EventKind::Sleep => What::Slept,
            EventKind::Awake => What::Awoke,
        };
        Some((worker, what))
    }
}

fn resource(code: u64) -> Option<Resource> {
    Resource::ALL.into_iter().find(|resource| *resource as u64 == code)
}
