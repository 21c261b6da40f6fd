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

/// An event of a task or a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TraceEvent {
    /// Time since the runtime was built. Virtual under the deterministic executor.
    pub at: Duration,
    /// The worker; `None` for other threads.
    pub worker: Option<usize>,
    /// Id of the task; 0 for an event of the worker itself.
    pub task: u64,
    /// The event itself.
    pub what: What,
}

/// Kind of a [`TraceEvent`], with its details.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum What {
    /// The task was spawned.
    Spawned {
        /// The spawning task; 0 for other threads.
        by: u64,
    },
    /// It runs for the first time.
    Started {
        /// Its name.
        name: Option<Arc<str>>,
        /// Where it was spawned.
        spawned_at: Option<&'static Location<'static>>,
    },
    /// It runs again.
    Resumed,
    /// It yields.
    Yielded,
    /// It yields, but no other task is ready.
    YieldedToNobody,
    /// It waits.
    Parked {
        /// Reason of the wait: "receive", "mutex", "its children".
        reason: Arc<str>,
        /// The task whose end it waits for.
        of: Option<u64>,
    },
    /// It was woken before its wait took effect, and is ready again.
    WokenEarly,
    /// It was woken, and is ready.
    Woken {
        /// The waking task, also if its worker did it on its behalf; 0 for other threads.
        by: u64,
        /// The worker that it is queued on.
        to: usize,
    },
    /// Tasks were stolen; this is the first of them.
    Stolen {
        /// The victim.
        from: usize,
    },
    /// It has used up its budget.
    Exhausted {
        /// The resource.
        resource: Resource,
    },
    /// It got more budget.
    Recharged {
        /// The resource.
        resource: Resource,
    },
    /// It has learned that it is cancelled.
    Cancelled {
        /// The reason.
        reason: CancelReason,
    },
    /// It has ended.
    Finished,
    /// A deadline of its wait has passed.
    TimerFired,
    /// The worker falls asleep for lack of work.
    Slept,
    /// The worker was woken.
    Awoke,
}

impl What {
    /// Decodes an event; `None` if the words are no event.
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
