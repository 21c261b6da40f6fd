//! The log of one worker: words that it appends until there is no room.

use super::entry::{self, JournalEntry};
use crate::base::shim::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A log. Its worker writes, any thread reads.
///
/// Words below `end` are written and never change; `end` grows, and is written by the worker alone.
#[repr(align(64))]
pub(crate) struct JournalLog {
    words: Box<[AtomicU64]>,
    end: AtomicUsize,
    /// Operations of tasks on this worker.
    count: AtomicU64,
    /// Entries that found no room.
    lost: AtomicU64,
    /// The worker, in the locks of objects. Not 0.
    tag: u32,
}

/// A log as it was read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct LogContent {
    pub(crate) words: Vec<u64>,
    /// Operations of tasks on this worker, at the end.
    pub(crate) count: u64,
    /// Entries that found no room.
    pub(crate) lost: u64,
}

impl JournalLog {
    pub(super) fn new(words: usize, tag: u32) -> JournalLog {
        let (end, count, lost) = (AtomicUsize::new(0), AtomicU64::new(0), AtomicU64::new(0));
        JournalLog { words: zeroed(words), end, count, lost, tag }
    }

    #[inline(always)]
    pub(crate) fn tag(&self) -> u32 {
        self.tag
    }

    /// The running task does an operation. Called by the worker, as all that write.
    #[inline(always)]
    pub(crate) fn counts(&self) {
        let count = self.count.load(Ordering::Relaxed); // the worker's own
        self.count.store(count + 1, Ordering::Relaxed); // a count; exact when the worker rests
    }

    /// Operations so far.
    #[inline(always)]
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed) // the worker's own
    }

    /// A turn of a task begins.
    #[inline(always)]
    pub(crate) fn turn(&self, task: u64) {
        self.append_two(entry::turn(task), self.count());
    }

    /// The running task spawns another one.
    #[inline(always)]
    pub(crate) fn spawn(&self, task: u64) {
        self.append_one(entry::spawn(task));
    }

    pub(crate) fn write(&self, entry: JournalEntry) {
        match entry.words() {
            (words, 2) => self.append_two(words[0], words[1]),
            (words, _) => self.append_one(words[0]),
        }
    }

    #[inline(always)]
    fn append_one(&self, word: u64) {
        let end = self.end.load(Ordering::Relaxed); // the worker's own
        // Where there is no room for two words there is none for one: once an entry was lost none
        // is written, so that nothing is missing in between.
        match self.words.get(end..).and_then(|rest| rest.first_chunk::<2>()) {
            Some([place, _]) => {
                place.store(word, Ordering::Relaxed); // published by `end`
                self.end.store(end + 1, Ordering::Release); // pairs with the Acquire in `read`
            }
            None => self.lose(),
        }
    }

    /// Both words, or none: the decoder knows no halves.
    #[inline(always)]
    fn append_two(&self, first: u64, second: u64) {
        let end = self.end.load(Ordering::Relaxed); // the worker's own
        match self.words.get(end..).and_then(|rest| rest.first_chunk::<2>()) {
            Some(places) => {
                places[0].store(first, Ordering::Relaxed); // published by `end`
                places[1].store(second, Ordering::Relaxed); // as well
                self.end.store(end + 2, Ordering::Release); // pairs with the Acquire in `read`
            }
            None => self.lose(),
        }
    }

    #[cold]
    fn lose(&self) {
        let lost = self.lost.load(Ordering::Relaxed); // the worker's own
        self.lost.store(lost + 1, Ordering::Relaxed); // for a report
    }

    /// The words so far, and the counts.
    pub(crate) fn read(&self) -> LogContent {
        let end = self.end.load(Ordering::Acquire); // pairs with the Release in `append_two`
        // Relaxed, all: published by `end`; counts that are exact when the worker rests.
        let words = self.words[..end].iter().map(|word| word.load(Ordering::Relaxed)).collect();
        let count = self.count.load(Ordering::Relaxed);
        LogContent { words, count, lost: self.lost.load(Ordering::Relaxed) }
    }
}

/// Words of memory that the kernel provides when they are first written.
#[cfg(not(loom))]
fn zeroed(words: usize) -> Box<[AtomicU64]> {
    let zeroed = Box::into_raw(vec![0_u64; words].into_boxed_slice());
    // SAFETY: an atomic has the size and the alignment of its number, on all platforms that have
    // 64-bit atomics, and the box is ours.
    unsafe { Box::from_raw(zeroed as *mut [AtomicU64]) }
}

#[cfg(loom)]
fn zeroed(words: usize) -> Box<[AtomicU64]> {
    (0..words).map(|_| AtomicU64::new(0)).collect()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::entry::decode;
    use super::*;

    #[test]
    fn a_full_log_keeps_its_beginning_and_counts_the_rest() {
        let log = JournalLog::new(5, 1);
        log.counts();
        log.turn(1);
        log.write(JournalEntry::Time(7));
        log.write(JournalEntry::Time(8)); // has no room
        log.spawn(2);
        let LogContent { words, count, lost } = log.read();
        assert_eq!((count, lost), (1, 2));
        assert_eq!(decode(&words).unwrap(), [JournalEntry::Turn(1, 1), JournalEntry::Time(7)]);
    }

    #[test]
    fn a_reader_sees_whole_entries_in_order() {
        let log = JournalLog::new(20_000, 1);
        std::thread::scope(|s| {
            s.spawn(|| (1..=10_000).for_each(|task| log.turn(task)));
            loop {
                let entries = decode(&log.read().words).unwrap();
                let is_next = |(&entry, task)| entry == JournalEntry::Turn(task, 0);
                assert!(entries.iter().zip(1..).all(is_next));
                if entries.len() == 10_000 {
                    break;
                }
            }
        });
    }
}
