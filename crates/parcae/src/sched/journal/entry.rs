//! Entries of a journal, and their encoding in words.
//!
//! A word has its kind in the low seven bits. The value is above them, rotated, because ids of
//! tasks have 56 bits, or bit 63 and few others.

/// A queue from which a worker takes the tasks of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum TurnSource {
    /// Its inbox.
    Inbox,
    /// The global queue.
    Global,
    /// Another worker's queue: a steal, or a rescue out of its inbox.
    Stolen,
}

/// The place of an operation in the turn of its task: ops that are left in it, and points since it
/// began. Operations on channels cost an op each, and have no point on threads; the others have
/// points, and most of them cost nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TurnPosition {
    pub(crate) left: u32,
    pub(crate) points: u32,
}

impl TurnPosition {
    /// Whether an operation at `other` comes no earlier in the turn than one at this place.
    pub(crate) fn is_reached_at(self, other: TurnPosition) -> bool {
        other.left <= self.left && other.points >= self.points
    }
}

/// An entry of a journal; see the header of `journal`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JournalEntry {
    Turn(u64),
    Spawn(u64),
    Took(TurnSource, u64),
    Change(u64, TurnPosition),
    Timer(u64, u64),
    Time(u64),
    Number(u64),
    Waited,
    Again,
}

const TURN: u64 = 1;
const SPAWN: u64 = 2;
const CHANGE: u64 = 3;
/// The clock is the next word; and so is the value of the two kinds after it.
const TIMER: u64 = 4;
const TIME: u64 = 5;
const NUMBER: u64 = 6;
const TOOK_INBOX: u64 = 7;
const TOOK_GLOBAL: u64 = 8;
const TOOK_STOLEN: u64 = 9;

const WAITED: u64 = 10;
const AGAIN: u64 = 11;

const KIND: u64 = 0x7f;

#[inline(always)]
const fn word(kind: u64, value: u64) -> u64 {
    value.rotate_left(8) & !KIND | kind
}

/// The word of a task's turn.
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
            JournalEntry::Turn(task) => ([turn(task), 0], 1),
            JournalEntry::Spawn(task) => ([spawn(task), 0], 1),
            JournalEntry::Took(TurnSource::Inbox, at) => ([word(TOOK_INBOX, at), 0], 1),
            JournalEntry::Took(TurnSource::Global, at) => ([word(TOOK_GLOBAL, at), 0], 1),
            JournalEntry::Took(TurnSource::Stolen, at) => ([word(TOOK_STOLEN, at), 0], 1),
            JournalEntry::Change(at, position) => {
                let left = u64::from(position.left);
                ([word(CHANGE, at), left << 32 | u64::from(position.points)], 2)
            }
            JournalEntry::Timer(task, at) => ([word(TIMER, task), at], 2),
            JournalEntry::Waited => ([WAITED, 0], 1),
            JournalEntry::Again => ([AGAIN, 0], 1),
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
            (TURN, _) => (JournalEntry::Turn(value), 1),
            (SPAWN, _) => (JournalEntry::Spawn(value), 1),
            (CHANGE, Some(next)) => {
                let position = TurnPosition { left: (next >> 32) as u32, points: next as u32 };
                (JournalEntry::Change(value, position), 2)
            }
            (TIMER, Some(next)) => (JournalEntry::Timer(value, next), 2),
            (TOOK_INBOX, _) => (JournalEntry::Took(TurnSource::Inbox, value), 1),
            (TOOK_GLOBAL, _) => (JournalEntry::Took(TurnSource::Global, value), 1),
            (TOOK_STOLEN, _) => (JournalEntry::Took(TurnSource::Stolen, value), 1),
            (WAITED, _) => (JournalEntry::Waited, 1),
            (AGAIN, _) => (JournalEntry::Again, 1),
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
            JournalEntry::Turn(1 << 63 | 5),
            JournalEntry::Spawn((1 << 40) + 7),
            JournalEntry::Took(TurnSource::Inbox, 3),
            JournalEntry::Took(TurnSource::Global, 4),
            JournalEntry::Took(TurnSource::Stolen, (1 << 55) + 1),
            JournalEntry::Change(9, TurnPosition { left: u32::MAX, points: 7 }),
            JournalEntry::Timer(2, 8),
            JournalEntry::Time(u64::MAX),
            JournalEntry::Number(0),
            JournalEntry::Waited,
            JournalEntry::Again,
        ];
        let words: Vec<u64> = entries
            .iter()
            .flat_map(|entry| {
                let (words, count) = entry.words();
                words.into_iter().take(count)
            })
            .collect();
        assert_eq!(decode(&words).unwrap(), entries);
        let half = words.len() - 3; // of the number
        assert_eq!(decode(&words[..half]), Err(half - 1));
        assert_eq!(decode(&[turn(1), 0]), Err(1));
    }
}
