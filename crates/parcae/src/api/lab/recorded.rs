//! Records of runs on threads: options, the file, its errors.
//!
//! A record is the journals of all workers (`sched::journal`). Its file is
//!
//! | bytes | content |
//! |---|---|
//! | 8 | `pcrec2\r\n` |
//! | 8 | number of workers |
//! | for each worker 8, 8, 8, 8n | entries that were lost, operations, number n of words, words |
//! | 8 | hash of all bytes before |
//!
//! with numbers of 64 bits in little-endian order.

use crate::base::rng::mix;
use crate::sched::Shared;
use crate::sched::journal::{JournalEntry, LogContent, WORDS, decode};
use crate::sched::lab::WorkerEntries;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Options of [`Builder::record`](crate::runtime::Builder::record).
///
/// ```
/// use parcae::lab::RecordOpts;
///
/// let opts = RecordOpts::new().words(1 << 16).file("target/last-failure.pcrec");
/// assert!(format!("{opts:?}").contains("last-failure"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct RecordOpts {
    words: usize,
    file: Option<PathBuf>,
}

impl Default for RecordOpts {
    fn default() -> RecordOpts {
        RecordOpts { words: 1 << 20, file: None }
    }
}

impl RecordOpts {
    /// A million entries of each worker, in at most 8 MiB; no file.
    pub fn new() -> RecordOpts {
        RecordOpts::default()
    }

    /// The most words that are kept of each worker: 1024 to 2³⁰, eight bytes each. An entry has one
    /// or two. The kernel provides the memory as it is used. The *first* entries are kept, since a
    /// replay begins at the beginning; the others are counted ([`Record::lost`]).
    pub fn words(mut self, words: usize) -> RecordOpts {
        self.words = words.clamp(*WORDS.start(), *WORDS.end());
        self
    }

    /// Writes the record into this file whenever a root task fails, by an error or a panic, and
    /// when the runtime is dropped by a thread that panics. A file that is there is replaced.
    /// Failures to write are reported on standard error.
    pub fn file(mut self, file: impl Into<PathBuf>) -> RecordOpts {
        self.file = Some(file.into());
        self
    }

    pub(crate) fn most_words(&self) -> usize {
        self.words
    }

    /// Writes the record of a run that has failed, if a file was asked for.
    #[allow(clippy::print_stderr, reason = "the test has failed, and its output is shown")]
    pub(crate) fn run_failed(&self, shared: &Shared) {
        let Some((file, record)) = self.file.as_ref().zip(Record::of(shared)) else { return };
        match record.save(file) {
            Ok(()) => eprintln!("parcae: the record of the run is in {}", file.display()),
            Err(error) => eprintln!("parcae: the record of the run was not kept: {error}"),
        }
    }
}

/// The record of a run on threads: enough to repeat it in the lab.
///
/// [`Builder::record`](crate::runtime::Builder::record) keeps one,
/// [`Runtime::record`](crate::Runtime::record) returns it, and
/// [`Explore::retrace`](super::Explore::retrace) repeats the run.
#[derive(Clone, PartialEq, Eq)]
pub struct Record {
    workers: Vec<LogContent>,
}

impl Record {
    pub(crate) fn of(shared: &Shared) -> Option<Record> {
        let journal = shared.journal.as_ref()?;
        Some(Record { workers: journal.logs().iter().map(|log| log.read()).collect() })
    }

    /// Number of entries of all workers.
    pub fn len(&self) -> usize {
        self.journals()
            .map_or(0, |journals| journals.iter().map(|(entries, _)| entries.len()).sum())
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.workers.iter().all(|log| log.words.is_empty())
    }

    /// Number of operations on an object of which the last one before was another worker's. Only
    /// there the order had to be written down.
    pub fn changes(&self) -> usize {
        let journals = self.journals().unwrap_or_default();
        let entries = journals.iter().flat_map(|(entries, _)| entries);
        entries.filter(|entry| matches!(entry, JournalEntry::Change(..))).count()
    }

    /// Number of entries for which there was no room. A replay goes on without them, in an order of
    /// its own.
    pub fn lost(&self) -> u64 {
        self.workers.iter().map(|log| log.lost).sum()
    }

    /// The entries of each worker, and its operations.
    pub(super) fn journals(&self) -> Result<Vec<WorkerEntries>, RecordError> {
        let damaged = |_| RecordError::Damaged("an entry is of no kind that this version knows");
        let entries = |log: &LogContent| Ok((decode(&log.words).map_err(damaged)?, log.count));
        self.workers.iter().map(entries).collect()
    }

    /// Writes the record into a file.
    ///
    /// # Errors
    ///
    /// If the file cannot be written. One that was there is then as it was.
    pub fn save(&self, file: impl AsRef<Path>) -> Result<(), RecordError> {
        let file = file.as_ref();
        let failed = |error| RecordError::Io(file.to_owned(), error);
        // Written beside it, then renamed: a reader never finds half a record.
        let mut beside = file.as_os_str().to_owned();
        beside.push(format!(".{}", std::process::id()));
        fs::write(&beside, self.bytes()).and_then(|()| fs::rename(&beside, file)).map_err(failed)
    }

    /// Reads a record from a file.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or has no record of this version, or not a whole one.
    ///
    /// ```
    /// use parcae::lab::{Record, RecordError};
    ///
    /// let error = Record::load("no/such/file").unwrap_err();
    /// assert!(matches!(error, RecordError::Io(..)));
    /// ```
    pub fn load(file: impl AsRef<Path>) -> Result<Record, RecordError> {
        let file = file.as_ref();
        let bytes = fs::read(file).map_err(|error| RecordError::Io(file.to_owned(), error))?;
        Record::of_bytes(&bytes)
    }

    fn bytes(&self) -> Vec<u8> {
        let words: usize = self.workers.iter().map(|log| log.words.len() + 3).sum();
        let mut bytes = Vec::with_capacity(MAGIC.len() + 8 * (words + 2));
        bytes.extend_from_slice(MAGIC);
        let mut put = |number: u64| bytes.extend_from_slice(&number.to_le_bytes());
        put(self.workers.len() as u64);
        for LogContent { words, count, lost } in &self.workers {
            put(*lost);
            put(*count);
            put(words.len() as u64);
            words.iter().copied().for_each(&mut put);
        }
        let hash = hash_of(&bytes);
        bytes.extend_from_slice(&hash.to_le_bytes());
        bytes
    }

    fn of_bytes(bytes: &[u8]) -> Result<Record, RecordError> {
        const SHORT: RecordError = RecordError::Truncated;
        if !bytes.starts_with(MAGIC) {
            let is_beginning = !bytes.is_empty() && MAGIC.starts_with(bytes);
            return Err(if is_beginning { SHORT } else { RecordError::NotARecord });
        }
        let mut at = MAGIC.len();
        let mut next = || {
            let number = bytes.get(at..at + 8)?;
            at += 8;
            Some(u64::from_le_bytes(number.try_into().ok()?))
        };
        let workers = next().ok_or(SHORT)?;
        if workers > 4096 {
            return Err(RecordError::Damaged("it has more workers than a runtime may have"));
        }
        let mut record = Record { workers: Vec::new() };
        for _ in 0..workers {
            let (lost, count) = next().zip(next()).ok_or(SHORT)?;
            let length = next().ok_or(SHORT)?;
            if length > bytes.len() as u64 / 8 {
                return Err(SHORT);
            }
            let words: Option<Vec<u64>> = (0..length).map(|_| next()).collect();
            record.workers.push(LogContent { words: words.ok_or(SHORT)?, count, lost });
        }
        let hash = next().ok_or(SHORT)?;
        if at != bytes.len() {
            return Err(RecordError::Damaged("something follows its end"));
        }
        if hash != hash_of(&bytes[..at - 8]) {
            return Err(RecordError::Damaged("its hash differs"));
        }
        record.journals()?;
        Ok(record)
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record")
            .field("workers", &self.workers.len())
            .field("entries", &self.len())
            .field("lost", &self.lost())
            .finish()
    }
}

/// The first bytes of a file, with its version.
const MAGIC: &[u8] = b"pcrec2\r\n";

fn hash_of(bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(bytes.len() as u64, |hash, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        mix(hash.rotate_left(5) ^ u64::from_le_bytes(word))
    })
}

/// A file that is no record, or cannot be read or written.
#[derive(Debug)]
#[non_exhaustive]
pub enum RecordError {
    /// The file cannot be read or written.
    Io(PathBuf, io::Error),
    /// The file does not begin like a record of this version.
    NotARecord,
    /// The file ends before the record does.
    Truncated,
    /// The contents are not as they were written.
    Damaged(&'static str),
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordError::Io(file, error) => write!(f, "the record {}: {error}", file.display()),
            RecordError::NotARecord => f.write_str(
                "the file is no record of this version; `Record::save` and `RecordOpts::file` \
                 write them",
            ),
            RecordError::Truncated => f.write_str(
                "the record ends in the middle: the file was cut off; record the run again",
            ),
            RecordError::Damaged(how) => {
                write!(f, "the record is damaged: {how}; record the run again")
            }
        }
    }
}

impl std::error::Error for RecordError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            RecordError::Io(_, error) => Some(error),
            _ => None,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn record() -> Record {
        // A turn, a spawn and a number; and nothing.
        let log = LogContent { words: vec![0x101, 4, 0x202, 7, 9], count: 5, lost: 0 };
        Record { workers: vec![log, LogContent { lost: 3, ..LogContent::default() }] }
    }

    #[test]
    fn bytes_are_the_record_again() {
        let again = Record::of_bytes(&record().bytes()).unwrap();
        assert_eq!(again, record());
        assert_eq!((again.len(), again.lost(), again.is_empty()), (3, 3, false));
    }

    #[test]
    fn every_cut_and_every_changed_byte_is_noticed() {
        let bytes = record().bytes();
        assert!(matches!(Record::of_bytes(&[]), Err(RecordError::NotARecord)));
        for end in 1..bytes.len() {
            let error = Record::of_bytes(&bytes[..end]).unwrap_err();
            assert!(matches!(error, RecordError::Truncated), "{end}: {error}");
        }
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x40;
            let error = Record::of_bytes(&changed).unwrap_err();
            assert_eq!(matches!(error, RecordError::NotARecord), at < MAGIC.len(), "{at}: {error}");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert!(matches!(Record::of_bytes(&longer), Err(RecordError::Damaged(_))));
    }
}
