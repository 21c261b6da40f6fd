//! Dead letters: messages that no handler saw.

use parcae::sync::Notify;
use parcae::{Result, time};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Why a message became a dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum LetterReason {
    /// A full mailbox dropped it.
    Overflow,
    /// A later message with the same key replaced it.
    Replaced,
    /// Its caller had given up before the actor took it.
    Expired,
    /// The actor has ended.
    Gone,
    /// The handler failed or panicked while it handled the message.
    Failed,
    /// As many incarnations failed on it as [may](crate::ActorOpts::redeliver).
    Poison,
}

/// A message that no handler saw to its end. The message itself was dropped.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DeadLetter {
    /// The reason.
    pub reason: LetterReason,
    /// Name of the actor that it was for.
    pub to: Arc<str>,
    /// Type of the message.
    pub message: &'static str,
    /// When it happened, by the clock of the runtime.
    pub at: Instant,
}

/// The dead letters of a system: the newest ones, and how many there were of each kind.
#[derive(Debug)]
pub struct DeadLetters {
    most: usize,
    kept: Mutex<Kept>,
    /// Rings for a letter that is kept.
    bell: Notify,
}

#[derive(Debug, Default)]
struct Kept {
    newest: VecDeque<DeadLetter>,
    counts: BTreeMap<LetterReason, u64>,
}

impl DeadLetters {
    pub(crate) fn new(most: usize) -> DeadLetters {
        DeadLetters { most, kept: Mutex::default(), bell: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add<M>(&self, reason: LetterReason, to: &Arc<str>) {
        let message = std::any::type_name::<M>();
        let letter = DeadLetter { reason, to: Arc::clone(to), message, at: time::now() };
        let mut kept = self.lock();
        *kept.counts.entry(reason).or_default() += 1;
        if self.most == 0 {
            return;
        }
        if kept.newest.len() == self.most {
            kept.newest.pop_front();
        }
        kept.newest.push_back(letter);
        drop(kept);
        self.bell.notify_one();
    }

    /// Waits for a letter, and takes it: the oldest that is kept. Of several tasks that wait, one
    /// gets it. A cancel point.
    ///
    /// # Errors
    ///
    /// If the task is cancelled, or out of budget.
    pub fn next(&self) -> Result<DeadLetter> {
        loop {
            let mut kept = self.lock();
            if let Some(letter) = kept.newest.pop_front() {
                let is_last = kept.newest.is_empty();
                drop(kept);
                if !is_last {
                    self.bell.notify_one(); // the bell keeps one ring, for any number of letters
                }
                return Ok(letter);
            }
            drop(kept);
            self.bell.wait()?;
        }
    }

    /// How many there were for this reason since the system was opened.
    pub fn count(&self, reason: LetterReason) -> u64 {
        self.lock().counts.get(&reason).copied().unwrap_or(0)
    }

    /// Takes those that are kept, the oldest first.
    pub fn take(&self) -> Vec<DeadLetter> {
        self.lock().newest.drain(..).collect()
    }
}

impl fmt::Display for LetterReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LetterReason::Overflow => "the mailbox was full",
            LetterReason::Replaced => "a later message replaced it",
            LetterReason::Expired => "its caller had given up",
            LetterReason::Gone => "the actor has ended",
            LetterReason::Failed => "the handler failed",
            LetterReason::Poison => "incarnation after incarnation failed on it",
        })
    }
}

impl fmt::Display for DeadLetter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to `{}`: {}", self.message, self.to, self.reason)
    }
}
