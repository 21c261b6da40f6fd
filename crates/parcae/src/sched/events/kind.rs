//! Kinds of events, and their encoding in four words. Rings and the deterministic log use the same
//! encoding:
//!
//! | word | |
//! |---|---|
//! | 0 | timestamp, in ticks |
//! | 1 | kind (bits 0–7), worker (8–23, all ones for other threads), extra (24–63) |
//! | 2 | id of the task |
//! | 3 | detail |
//!
//! *Extra* and *detail* depend on the kind:
//!
//! | kind | extra | detail |
//! |---|---|---|
//! | spawn | – | the spawning task, 0 for other threads |
//! | start | – | spawn location (low half) and task name (high half), as numbers of the name table |
//! | park | wait reason: an index into [`WAIT_REASONS`], or [`WORDS`] + a number of the name table | the awaited task, or the resource |
//! | wake | the worker that the task is queued on | the waking task, 0 for other threads |
//! | steal | – | the victim |
//! | exhausted, recharged | – | the resource |
//! | cancel | – | the reason |

use super::ring::Words;
use crate::base::reason::CancelReason;

/// Kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum EventKind {
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
    /// A yield without effect: no other task was ready.
    Alone,
    /// A wake that came before the park took effect: the task is ready again.
    Latched,
    Exhausted,
    Recharged,
    Cancel,
    Timer,
}

const KINDS: [EventKind; 16] = [
    EventKind::Spawn,
    EventKind::Start,
    EventKind::Resume,
    EventKind::Yield,
    EventKind::Park,
    EventKind::Wake,
    EventKind::Steal,
    EventKind::Finish,
    EventKind::Sleep,
    EventKind::Awake,
    EventKind::Alone,
    EventKind::Latched,
    EventKind::Exhausted,
    EventKind::Recharged,
    EventKind::Cancel,
    EventKind::Timer,
];

/// Worker number of events that other threads write.
pub(crate) const OUTSIDE: usize = 0xffff;

#[inline]
pub(crate) fn pack(
    time: u64,
    kind: EventKind,
    worker: usize,
    extra: u64,
    task: u64,
    detail: u64,
) -> Words {
    debug_assert!(extra < 1 << 40, "extra has 40 bits");
    [time, kind as u64 | (worker as u64 & 0xffff) << 8 | extra << 24, task, detail]
}

/// Kind, worker and extra; `None` if the words are no event.
pub(crate) fn unpack(words: &Words) -> Option<(EventKind, Option<usize>, u64)> {
    let kind = *KINDS.get((words[1] as u8).wrapping_sub(1) as usize)?;
    let worker = (words[1] >> 8) as usize & 0xffff;
    Some((kind, (worker != OUTSIDE).then_some(worker), words[1] >> 24))
}

/// Whether this event is the start of this task.
pub(crate) fn is_start_of(words: &Words, task: u64) -> bool {
    words[1] as u8 == EventKind::Start as u8 && words[2] == task
}

/// Reason of a wait, as it is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitReason {
    /// An index into [`WAIT_REASONS`], and a detail.
    Fixed(u64, u64),
    /// A word of its own.
    Word(&'static str),
}

/// Texts of fixed wait reasons.
pub(crate) const WAIT_REASONS: [&str; 9] = [
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
/// Index of the reason whose detail is a task.
pub(crate) const A_TASK: u64 = 3;
/// Numbers of words in the name table are offset by this.
pub(crate) const WORDS: u64 = 16;

const CANCEL_REASONS: [CancelReason; 5] = [
    CancelReason::Explicit,
    CancelReason::Timeout,
    CancelReason::Parent,
    CancelReason::Failure,
    CancelReason::Shutdown,
];

/// The reason with this code.
pub(crate) fn cancel_reason(code: u64) -> Option<CancelReason> {
    CANCEL_REASONS.get(code as usize).copied()
}

/// The code of a reason.
pub(crate) fn cancel_code(reason: CancelReason) -> u64 {
    CANCEL_REASONS.iter().position(|one| *one == reason).unwrap_or(0) as u64
}
