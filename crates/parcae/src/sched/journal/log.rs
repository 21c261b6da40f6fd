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
    /// Entries that found no room.
    lost: AtomicU64,
}

impl JournalLog {
    pub(super) fn new(words: usize) -> JournalLog {
        JournalLog { words: zeroed(words), end: AtomicUsize::new(0), lost: AtomicU64::new(0) }
    }

    /// A turn of a task begins. Called by the worker, as all that write.
    #[inline(always)]
    pub(crate) fn turn(&self, task: u64) {
        self.append(entry::turn(task));
    }

    /// The running task spawns another one.
    #[inline(always)]
    pub(crate) fn spawn(&self, task: u64) {
        self.append(entry::spawn(task));
    }

    pub(crate) fn write(&self, entry: JournalEntry) {
        let (words, count) = entry.words();
        // All words of an entry, or none: the decoder knows no halves.
        if count == 2 && self.end.load(Ordering::Relaxed) + 2 > self.words.len() {
            return self.lose(); // `end`: the worker's own
        }
        words[..count].iter().for_each(|&word| self.append(word));
    }

    #[inline(always)]
    fn append(&self, word: u64) {
        let end = self.end.load(Ordering::Relaxed); // the worker's own
        // Once an entry was lost none is written, so that nothing is missing in between.
        match self.words.get(end) {
            Some(place) => {
                place.store(word, Ordering::Relaxed); // published by `end`
                self.end.store(end + 1, Ordering::Release); // pairs with the Acquire in `read`
            }
            None => self.lose(),
        }
    }

    #[cold]
    fn lose(&self) {
        let lost = self.lost.load(Ordering::Relaxed); // the worker's own
        self.lost.store(lost + 1, Ordering::Relaxed); // for a report
        if let Some(rest) = self.words.len().checked_sub(self.end.load(Ordering::Relaxed))
            && rest > 0
        {
            // No room for two words: the last one is filled, so that the log is full from now on.
            self.append(entry::turn(0));
        }
    }

    /// The words so far, and the number of entries that were lost.
    pub(crate) fn read(&self) -> (Vec<u64>, u64) {
        let end = self.end.load(Ordering::Acquire); // pairs with the Release in `append`
        // Relaxed, both: published by `end`; a count for a report.
        let words = self.words[..end].iter().map(|word| word.load(Ordering::Relaxed)).collect();
        (words, self.lost.load(Ordering::Relaxed))
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
        let log = JournalLog::new(4);
        log.turn(1);
        log.write(JournalEntry::Time(7));
        log.write(JournalEntry::Time(8)); // has no room
        log.spawn(2);
        let (words, lost) = log.read();
        assert_eq!(lost, 2);
        assert_eq!(
            decode(&words).unwrap(),
            [JournalEntry::Turn(1), JournalEntry::Time(7), JournalEntry::Turn(0)]
        );
    }

    #[test]
    fn a_reader_sees_whole_words_in_order() {
        let log = JournalLog::new(10_000);
        std::thread::scope(|s| {
            s.spawn(|| (1..=10_000).for_each(|task| log.turn(task)));
            loop {
                let (words, _) = log.read();
                let entries = decode(&words).unwrap();
                assert!(
                    entries.iter().zip(1..).all(|(&entry, task)| entry == JournalEntry::Turn(task))
                );
                if entries.len() == 10_000 {
                    break;
                }
            }
        });
    }
}
