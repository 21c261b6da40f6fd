//! Entries of a journal, and their encoding in words.
//!
//! The first word of an entry has its kind in the low seven bits. The value is above them, rotated,
//! because ids of tasks have 56 bits, or bit 63 and few others.

/// An entry of a journal; see the header of `journal`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JournalEntry {
    /// A turn of this task begins, at this count of operations.
    Turn(u64, u64),
    /// The running task has spawned this one.
    Spawn(u64),
    /// The next task comes from the queue of another worker or of all, at this time.
    Took(u64),
    /// The operation with this count found that the last one on its object was another worker's, at
    /// this time.
    Change(u64, u64),
    /// A deadline of the running task has passed, after so many operations, at this time.
    TimedOut(u64, u64),
    /// The running task has read this time.
    Time(u64),
    /// The running task has drawn this number.
    Number(u64),
}

const TURN: u64 = 1;
const SPAWN: u64 = 2;
const TOOK: u64 = 3;
const CHANGE: u64 = 4;
const TIMED_OUT: u64 = 5;
const TIME: u64 = 6;
const NUMBER: u64 = 7;

const KIND: u64 = 0x7f;

#[inline(always)]
const fn word(kind: u64, value: u64) -> u64 {
    value.rotate_left(8) & !KIND | kind
}

/// The first word of a turn; the count of operations follows.
#[inline(always)]
pub(super) const fn turn(task: u64) -> u64 {
    word(TURN, task)
}

/// The word of a spawn.
#[inline(always)]
pub(super) const fn spawn(task: u64) -> u64 {
    word(SPAWN, task)
}

impl JournalEntry {
    /// Its words, and how many they are.
    pub(super) fn words(self) -> ([u64; 2], usize) {
        match self {
            JournalEntry::Turn(task, count) => ([turn(task), count], 2),
            JournalEntry::Spawn(task) => ([spawn(task), 0], 1),
            JournalEntry::Took(at) => ([word(TOOK, at), 0], 1),
            JournalEntry::Change(count, at) => ([word(CHANGE, at), count], 2),
            JournalEntry::TimedOut(count, at) => ([word(TIMED_OUT, at), count], 2),
            JournalEntry::Time(at) => ([TIME, at], 2),
            JournalEntry::Number(number) => ([NUMBER, number], 2),
        }
    }
}

/// The entries of these words; an error, with its place, for a word that is none.
pub(crate) fn decode(words: &[u64]) -> Result<Vec<JournalEntry>, usize> {
    let mut entries = Vec::with_capacity(words.len());
    let mut at = 0;
    while let Some(&first) = words.get(at) {
        let value = (first & !KIND).rotate_right(8);
        let next = words.get(at + 1).copied();
        let (entry, used) = match (first & KIND, next) {
            (TURN, Some(count)) => (JournalEntry::Turn(value, count), 2),
            (SPAWN, _) => (JournalEntry::Spawn(value), 1),
            (TOOK, _) => (JournalEntry::Took(value), 1),
            (CHANGE, Some(count)) => (JournalEntry::Change(count, value), 2),
            (TIMED_OUT, Some(count)) => (JournalEntry::TimedOut(count, value), 2),
            (TIME, Some(next)) => (JournalEntry::Time(next), 2),
            (NUMBER, Some(next)) => (JournalEntry::Number(next), 2),
            _ => return Err(at),
        };
        entries.push(entry);
        at += used;
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_what_they_were() {
        let entries = [
            JournalEntry::Turn(1 << 63 | 5, 0),
            JournalEntry::Spawn((1 << 40) + 7),
            JournalEntry::Took((1 << 55) + 1),
            JournalEntry::Change(u64::MAX, 9),
            JournalEntry::TimedOut(2, 8),
            JournalEntry::Time(u64::MAX),
            JournalEntry::Number(0),
        ];
        let words: Vec<u64> = entries
            .iter()
            .flat_map(|entry| {
                let (words, count) = entry.words();
                words.into_iter().take(count)
            })
            .collect();
        assert_eq!(decode(&words).unwrap(), entries);
        let half = words.len() - 1; // of the number
        assert_eq!(decode(&words[..half]), Err(half - 1));
        assert_eq!(decode(&[spawn(1), 0]), Err(1));
    }
}
