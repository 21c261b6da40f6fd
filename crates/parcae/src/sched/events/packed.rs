//! Events as they lie in a ring: one word each where the reader knows the rest.
//!
//! A recorded event has four words (`kind.rs`), most of which follow from the events before it: a
//! task yields that the worker has resumed, it spawns children on its own behalf, and events that
//! come fast share a timestamp. So a ring keeps words whose low seven bits say how to complete
//! them:
//!
//! | tag | other bits | further words | stands for |
//! |---|---|---|---|
//! | `END` | – | | nothing: the rest of the block is unused |
//! | `TIME` | ticks since the block's stamp | | no event: the stamp of those that follow |
//! | `SWITCH` | task | | the current task yields, that one resumes |
//! | `ALONE`, `YIELD`, `FINISH` | – | | the same of the current task |
//! | `START` | task | | it starts; origin unknown |
//! | `START_AGAIN` | task | | it starts; origin of the start before |
//! | `START_AT` | task | origin | it starts |
//! | `RESUME` | task | | it resumes |
//! | `SPAWN` | task | | the current task spawns it |
//! | `WAKE` | task | | the current task wakes it, onto this worker |
//! | `PARK` | extra | | the current task parks |
//! | `PARK_FOR` | extra | detail | the same |
//! | `WHOLE` | kind and extra | task, detail | any event |
//!
//! The *current* task is the last one that has started or resumed. [`RingContext`] is all that a
//! reader has to know; a block begins with one (`ring.rs`), so a reader may begin at any block.
//!
//! A task id has 56 bits, or bit 63 and few others (tasks from outside). Rotated by eight bits it
//! leaves the low seven bits of a word to the tag. An id of another form makes its event `WHOLE`.

use super::kind::{EventKind, pack, unpack};
use super::ring::Words;

/// How to complete a word. The order of the table above.
pub(super) const END: u64 = 0;
pub(super) const TIME: u64 = 1;
pub(super) const SWITCH: u64 = 2;
pub(super) const ALONE: u64 = 3;
pub(super) const YIELD: u64 = 4;
pub(super) const FINISH: u64 = 5;
pub(super) const START: u64 = 6;
pub(super) const START_AGAIN: u64 = 7;
pub(super) const START_AT: u64 = 8;
pub(super) const RESUME: u64 = 9;
pub(super) const SPAWN: u64 = 10;
pub(super) const WAKE: u64 = 11;
pub(super) const PARK: u64 = 12;
pub(super) const PARK_FOR: u64 = 13;
pub(super) const WHOLE: u64 = 14;

/// Bits of the tag.
const TAG: u64 = 0x7f;
/// The most words of an event.
pub(super) const MOST: u64 = 3;

/// A word with this tag. The value [`fits`].
#[inline(always)]
pub(super) const fn word(tag: u64, value: u64) -> u64 {
    value.rotate_left(8) | tag
}

/// Whether a value leaves room for a tag.
#[inline(always)]
pub(super) const fn fits(value: u64) -> bool {
    value.rotate_left(8) & TAG == 0
}

/// The state in which a word is read or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct RingContext {
    /// Worker of the ring, or `OUTSIDE`.
    pub(super) worker: usize,
    /// Timestamp of the block, and of the next event.
    pub(super) base: u64,
    pub(super) stamp: u64,
    /// The task that started or resumed last; 0 if there was none.
    pub(super) current: u64,
    /// Origin of the last start in this block; 0 if there was none.
    pub(super) origin: u64,
}

/// Words of an event, and how many they are.
pub(super) type PackedEvent = ([u64; MOST as usize], u64);

impl RingContext {
    /// The words of an event, whose stamp is already that of the context. The context becomes that
    /// of the next event.
    pub(super) fn pack(&mut self, event: &Words) -> PackedEvent {
        let [_, _, task, detail] = *event;
        let one = |tag, value| ([word(tag, value), 0, 0], 1);
        let two = |tag, value, more| ([word(tag, value), more, 0], 2);
        let whole = ([word(WHOLE, event[1] & 0xff | event[1] >> 24 << 8), task, detail], MOST);
        let Some((kind, _, extra)) = unpack(event) else { return whole };
        let (mine, small) = (task == self.current, fits(task));
        if matches!(kind, EventKind::Start | EventKind::Resume) {
            self.current = task;
        }
        match kind {
            EventKind::Alone if mine && extra | detail == 0 => one(ALONE, 0),
            EventKind::Yield if mine && extra | detail == 0 => one(YIELD, 0),
            EventKind::Finish if mine && extra | detail == 0 => one(FINISH, 0),
            EventKind::Park if mine && detail == 0 => one(PARK, extra),
            EventKind::Park if mine => two(PARK_FOR, extra, detail),
            EventKind::Resume if small && extra | detail == 0 => one(RESUME, task),
            EventKind::Start if small && extra | detail == 0 => one(START, task),
            EventKind::Start if small && extra == 0 && detail == self.origin => {
                one(START_AGAIN, task)
            }
            EventKind::Start if small && extra == 0 => {
                self.origin = detail;
                two(START_AT, task, detail)
            }
            EventKind::Spawn if small && extra == 0 && detail == self.current => one(SPAWN, task),
            EventKind::Wake if small && extra == self.worker as u64 && detail == self.current => {
                one(WAKE, task)
            }
            _ => whole,
        }
    }

    /// Calls `event` with the events of the first word and those that belong to it. Returns how
    /// many words these were; `None` at the end of the block.
    pub(super) fn unpack(&mut self, words: &[u64], mut event: impl FnMut(Words)) -> Option<usize> {
        let (&first, rest) = words.split_first()?;
        let (tag, value) = (first & TAG, (first & !TAG).rotate_right(8));
        let more = |at: usize| rest.get(at).copied().unwrap_or(0);
        let (stamp, worker, current) = (self.stamp, self.worker, self.current);
        let mut give = |kind, extra, task, detail| {
            event(pack(stamp, kind, worker, extra, task, detail));
        };
        match tag {
            TIME => self.stamp = self.base + value,
            SWITCH => {
                give(EventKind::Yield, 0, current, 0);
                give(EventKind::Resume, 0, value, 0);
                self.current = value;
            }
            ALONE => give(EventKind::Alone, 0, current, 0),
            YIELD => give(EventKind::Yield, 0, current, 0),
            FINISH => give(EventKind::Finish, 0, current, 0),
            START | START_AGAIN | START_AT => {
                let origin = match tag {
                    START => 0,
                    START_AGAIN => self.origin,
                    _ => {
                        self.origin = more(0);
                        more(0)
                    }
                };
                give(EventKind::Start, 0, value, origin);
                self.current = value;
                return Some(if tag == START_AT { 2 } else { 1 });
            }
            RESUME => {
                give(EventKind::Resume, 0, value, 0);
                self.current = value;
            }
            SPAWN => give(EventKind::Spawn, 0, value, current),
            WAKE => give(EventKind::Wake, worker as u64, value, current),
            PARK => give(EventKind::Park, value, current, 0),
            PARK_FOR => {
                give(EventKind::Park, value, current, more(0));
                return Some(2);
            }
            WHOLE => {
                let head = value & 0xff | (worker as u64 & 0xffff) << 8 | value >> 8 << 24;
                let whole = [stamp, head, more(0), more(1)];
                if let Some((EventKind::Start | EventKind::Resume, ..)) = unpack(&whole) {
                    self.current = more(0);
                }
                event(whole);
                return Some(MOST as usize);
            }
            _ => return None,
        }
        Some(1)
    }
}
