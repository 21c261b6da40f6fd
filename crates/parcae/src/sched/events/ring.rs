//! The last events of one worker: a ring that overwrites.
//!
//! One thread writes, any thread reads, and the writer never waits: a slow reader loses the oldest
//! events, and learns how many. An event is four atomic words, so a reader that is overtaken reads
//! garbage without undefined behaviour; two counters tell it which events to discard.
//!
//! ```text
//!   write event n:  begun = n + 1                    read:  end = done (Acquire)
//!                   fence(Release)                          copy [max(cursor, end - N) .. end)
//!                   words of slot n mod N (Relaxed)         fence(Acquire)
//!                   done = n + 1 (Release)                  discard events below begun - N
//! ```
//!
//! *No event is read before it is written*: `end` pairs with the Release of `done`, so the words of
//! all events below it are visible.
//!
//! *No overwritten event is returned*: let a reader's word of event `n` come from event
//! `m = n + k·N`, k ≥ 1. That word was stored after the writer's fence, and the reader's fence
//! comes after its load. So the fences pair and the reader sees `begun ≥ m + 1 > n + N`: `n` is
//! below `begun - N` and discarded.
//!
//! The last event may be held back (`stage`): it is written, and published by `commit` or with the
//! next one. A worker writes the start of a task before the task's name and spawn location are
//! known (`amend`).

use crate::base::shim::atomic::{AtomicU64, Ordering, fence};

/// An encoded event; see `kind.rs`.
pub(crate) type Words = [u64; 4];

/// The last events of one writer.
#[derive(Debug)]
pub(crate) struct EventRing {
    slots: Box<[[AtomicU64; 4]]>,
    /// Number of events whose writing has begun, and that are complete. Written by the writer.
    begun: AtomicU64,
    done: AtomicU64,
}

impl EventRing {
    /// Room for the last `events`, a power of two.
    pub(crate) fn new(events: usize) -> EventRing {
        assert!(events.is_power_of_two(), "a ring has a power of two of slots");
        let slot = || std::array::from_fn(|_| AtomicU64::new(0));
        EventRing {
            slots: std::iter::repeat_with(slot).take(events).collect(),
            begun: AtomicU64::new(0),
            done: AtomicU64::new(0),
        }
    }

    pub(crate) fn capacity(&self) -> usize {
        self.slots.len()
    }

    #[inline]
    fn slot(&self, n: u64) -> &[AtomicU64; 4] {
        &self.slots[n as usize & (self.slots.len() - 1)]
    }

    /// Writes and publishes an event, and a staged one before it. Called by the writer.
    #[inline]
    pub(crate) fn push(&self, words: Words) {
        self.write(words);
        self.commit();
    }

    /// Writes an event without publishing it; publishes the one before. Called by the writer.
    #[inline]
    pub(crate) fn stage(&self, words: Words) {
        self.commit();
        self.write(words);
    }

    /// As two calls of [`push`](EventRing::push), in less time. Called by the writer.
    #[inline]
    pub(crate) fn push_two(&self, two: [Words; 2]) {
        self.write_all(two);
        self.commit();
    }

    #[inline]
    fn write(&self, words: Words) {
        self.write_all([words]);
    }

    /// Writes events that are begun together: the proof above holds for each of them, because
    /// `begun` is larger than its number before its words are stored.
    #[inline(always)]
    fn write_all<const N: usize>(&self, events: [Words; N]) {
        let n = self.begun.load(Ordering::Relaxed); // the writer's own
        self.begun.store(n + N as u64, Ordering::Relaxed); // ordered by the fence
        // Pairs with the fence in `read`: a reader that sees a word of these events sees that they
        // were begun.
        fence(Ordering::Release);
        for (n, words) in (n..).zip(events) {
            for (slot, word) in self.slot(n).iter().zip(words) {
                slot.store(word, Ordering::Relaxed); // published by `commit`; see also above
            }
        }
    }

    /// Publishes a staged event. Called by the writer.
    #[inline]
    pub(crate) fn commit(&self) {
        let n = self.begun.load(Ordering::Relaxed); // the writer's own
        self.done.store(n, Ordering::Release); // pairs with the Acquire in `read`
    }

    /// Changes the last word of a staged event, if it is the expected one. Called by the writer.
    #[inline]
    pub(crate) fn amend(&self, is_it: impl FnOnce(&Words) -> bool, last_word: u64) {
        let n = self.begun.load(Ordering::Relaxed); // the writer's own
        // Relaxed, here and below: the writer's own values.
        if n == 0 || self.done.load(Ordering::Relaxed) == n {
            return; // no event is staged
        }
        let slot = self.slot(n - 1);
        let words = std::array::from_fn(|i| slot[i].load(Ordering::Relaxed)); // as above
        if is_it(&words) {
            slot[3].store(last_word, Ordering::Relaxed); // published by `commit`
        }
    }

    /// Number of events that were published.
    pub(crate) fn done(&self) -> u64 {
        self.done.load(Ordering::Acquire) // pairs with the Release in `commit`
    }

    /// Appends the events from `cursor` on to `out`, and moves the cursor behind them. Returns the
    /// number of events that were overwritten before they could be read.
    pub(crate) fn read(&self, cursor: &mut u64, out: &mut Vec<Words>) -> u64 {
        let (size, from) = (self.slots.len() as u64, out.len());
        let end = self.done();
        let first = (*cursor).max(end.saturating_sub(size));
        for n in first..end {
            let slot = self.slot(n);
            // Relaxed: written before `done`; or overwritten, which is noticed below.
            out.push(std::array::from_fn(|i| slot[i].load(Ordering::Relaxed)));
        }
        // Pairs with the fence in `write`.
        fence(Ordering::Acquire);
        let begun = self.begun.load(Ordering::Relaxed); // ordered by the fence
        let good = begun.saturating_sub(size).clamp(first, end);
        out.drain(from..from + (good - first) as usize);
        let lost = good - *cursor;
        *cursor = end;
        lost
    }
}

#[cfg(all(test, loom))]
#[path = "models.rs"]
mod models;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn event(n: u64) -> Words {
        [n, n.wrapping_mul(3), n ^ 0xff, !n]
    }

    #[test]
    fn the_last_events_are_kept_and_the_rest_is_counted() {
        let ring = EventRing::new(8);
        let (mut cursor, mut out) = (0, Vec::new());
        (0..5).for_each(|n| ring.push(event(n)));
        assert_eq!(ring.read(&mut cursor, &mut out), 0);
        assert_eq!(out, (0..5).map(event).collect::<Vec<_>>());
        out.clear();
        (5..15).for_each(|n| ring.push(event(n)));
        (15..25).step_by(2).for_each(|n| ring.push_two([event(n), event(n + 1)]));
        assert_eq!(ring.read(&mut cursor, &mut out), 12);
        assert_eq!(out, (17..25).map(event).collect::<Vec<_>>());
        assert_eq!((cursor, ring.done()), (25, 25));
        assert_eq!(ring.read(&mut cursor, &mut out), 0);
    }

    #[test]
    fn what_is_staged_is_seen_when_it_is_committed() {
        let ring = EventRing::new(4);
        let (mut cursor, mut out) = (0, Vec::new());
        ring.push(event(1));
        ring.amend(|_| true, 7); // published: too late
        ring.stage(event(2));
        assert_eq!((ring.read(&mut cursor, &mut out), out.len()), (0, 1));
        assert_eq!(out[0], event(1));
        ring.amend(|words| words[0] == 1, 7); // another one
        ring.amend(|words| words[0] == 2, 8);
        ring.commit();
        assert_eq!((ring.read(&mut cursor, &mut out), out.len()), (0, 2));
        assert_eq!(out[1], [2, 6, 2 ^ 0xff, 8]);
        ring.stage(event(3));
        ring.push(event(4));
        assert_eq!((ring.read(&mut cursor, &mut out), out.len()), (0, 4));
    }

    #[test]
    fn a_reader_beside_a_writer_sees_whole_events_in_order() {
        let (ring, stop) = (EventRing::new(16), AtomicBool::new(false));
        std::thread::scope(|s| {
            let writer = s.spawn(|| {
                (0..200_000).for_each(|n| ring.push(event(n)));
                stop.store(true, Ordering::Release);
            });
            let (mut cursor, mut seen, mut lost) = (0, 0, 0);
            loop {
                let last = stop.load(Ordering::Acquire);
                let (mut out, before) = (Vec::new(), cursor);
                let gone = ring.read(&mut cursor, &mut out);
                for (at, words) in out.iter().enumerate() {
                    assert_eq!(*words, event(before + gone + at as u64));
                }
                (seen, lost) = (seen + out.len() as u64, lost + gone);
                if last {
                    break;
                }
            }
            writer.join().unwrap();
            assert_eq!(seen + lost, 200_000);
        });
    }
}
