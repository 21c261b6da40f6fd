//! The user lane of a mailbox: messages, in a bounded channel or on ordered shelves.
//!
//! The actor takes a message with [`UserLane::take`], which never waits. It waits at the bell of
//! its [slot](crate::slot), which every message and every event of the system rings.

use crate::letters::LetterReason;
use parcae::channel::{Reason, Receiver, Sender, channel};
use parcae::sync::Semaphore;
use parcae::{Error, ErrorKind, Result};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// A message waits this long behind those of higher levels; then it goes first once.
const AGEING: u32 = 16;

/// Bound and order of an actor's mailbox. The default holds 64 messages, and a sender waits while
/// it is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mailbox {
    pub(crate) capacity: usize,
    pub(crate) kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Block,
    Refuse,
    DropOldest,
    DropNewest,
    LatestByKey,
    Priority { levels: usize },
}

impl Mailbox {
    /// A mailbox for so many messages, at least one. A sender waits while it is full.
    pub fn bounded(capacity: usize) -> Mailbox {
        Mailbox { capacity: capacity.max(1), kind: Kind::Block }
    }

    /// A full mailbox refuses a message: [`TellError`](crate::TellError) returns it.
    pub fn refuse(self) -> Mailbox {
        Mailbox { kind: Kind::Refuse, ..self }
    }

    /// A full mailbox drops its oldest message, which becomes a dead letter.
    pub fn drop_oldest(self) -> Mailbox {
        Mailbox { kind: Kind::DropOldest, ..self }
    }

    /// A full mailbox drops the new message, which becomes a dead letter. The sender does not hear
    /// of it.
    pub fn drop_newest(self) -> Mailbox {
        Mailbox { kind: Kind::DropNewest, ..self }
    }

    /// A message replaces one of the same [key](crate::Actor::key), in its place. A sender of
    /// another key waits while the mailbox is full.
    pub fn latest_by_key(self) -> Mailbox {
        Mailbox { kind: Kind::LatestByKey, ..self }
    }

    /// Messages of a higher [level](crate::Actor::level) are taken first, in the order of arrival
    /// within a level; one that was passed over 16 times goes first. A sender waits while the
    /// mailbox is full. There are at least one and at most 16 levels.
    pub fn priority(self, levels: usize) -> Mailbox {
        Mailbox { kind: Kind::Priority { levels: levels.clamp(1, 16) }, ..self }
    }
}

impl Default for Mailbox {
    fn default() -> Mailbox {
        Mailbox::bounded(64)
    }
}

/// A message on its way.
pub(crate) struct Envelope<M> {
    pub(crate) msg: M,
    /// Of a call: then the caller has given up.
    pub(crate) deadline: Option<Instant>,
}

/// How long a sender waits for room.
#[derive(Clone, Copy)]
pub(crate) enum Patience {
    Forever,
    Until(Instant),
    None,
}

/// Why a message was not put into the mailbox.
pub(crate) enum Undelivered {
    Full,
    Expired,
    Closed,
    Interrupted(Error),
}

/// The fate of a message: it is in the mailbox, and may have taken the place of another one; or it
/// comes back.
pub(crate) type Put<M> = Result<Option<(Envelope<M>, LetterReason)>, (Envelope<M>, Undelivered)>;

/// Functions of the actor type that order its messages.
pub(crate) struct Order<M> {
    pub(crate) key: fn(&M) -> u64,
    pub(crate) level: fn(&M) -> usize,
}

/// The user lane. The slot and the supervisor share it; it survives restarts.
pub(crate) struct UserLane<M> {
    mailbox: Mailbox,
    order: Order<M>,
    place: Place<M>,
}

enum Place<M> {
    Channel(Sender<Envelope<M>>, Receiver<Envelope<M>>),
    Shelves(Shelves<M>),
}

struct Shelves<M> {
    /// A permit for each message that has room; [`Kind::DropOldest`] counts messages instead.
    room: Semaphore,
    levels: Mutex<Levels<M>>,
}

struct Levels<M> {
    queues: Vec<VecDeque<Envelope<M>>>,
    /// How often the first message of a level was passed over.
    passed: Vec<u32>,
    is_closed: bool,
}

impl<M> UserLane<M> {
    pub(crate) fn new(mailbox: Mailbox, order: Order<M>) -> UserLane<M> {
        let levels = match mailbox.kind {
            Kind::Block | Kind::Refuse | Kind::DropNewest => {
                let (sender, receiver) = channel(mailbox.capacity);
                return UserLane { mailbox, order, place: Place::Channel(sender, receiver) };
            }
            Kind::DropOldest | Kind::LatestByKey => 1,
            Kind::Priority { levels } => levels,
        };
        let levels = Levels {
            queues: (0..levels).map(|_| VecDeque::new()).collect(),
            passed: vec![0; levels],
            is_closed: false,
        };
        let shelves =
            Shelves { room: Semaphore::new(mailbox.capacity), levels: Mutex::new(levels) };
        UserLane { mailbox, order, place: Place::Shelves(shelves) }
    }

    /// Puts a message in. Returns messages that were dropped for it, with the reason.
    pub(crate) fn put(&self, envelope: Envelope<M>, patience: Patience) -> Put<M> {
        match &self.place {
            Place::Channel(sender, _) => self.send(sender, envelope, patience),
            Place::Shelves(shelves) => self.shelve(shelves, envelope, patience),
        }
    }

    fn send(
        &self,
        sender: &Sender<Envelope<M>>,
        envelope: Envelope<M>,
        patience: Patience,
    ) -> Put<M> {
        let sent = match (self.mailbox.kind, patience) {
            (Kind::Block, Patience::Forever) => sender.send(envelope),
            (Kind::Block, Patience::Until(at)) => sender.send_deadline(envelope, at),
            _ => sender.try_send(envelope),
        };
        let Err(error) = sent else { return Ok(None) };
        let (envelope, reason) = error.into_parts();
        match reason {
            Reason::WouldWait if self.mailbox.kind == Kind::DropNewest => {
                Ok(Some((envelope, LetterReason::Overflow)))
            }
            Reason::WouldWait => Err((envelope, Undelivered::Full)),
            Reason::TimedOut => Err((envelope, Undelivered::Expired)),
            Reason::Interrupted(error) => Err((envelope, Undelivered::Interrupted(error))),
            _ => Err((envelope, Undelivered::Closed)),
        }
    }

    fn shelve(&self, shelves: &Shelves<M>, envelope: Envelope<M>, patience: Patience) -> Put<M> {
        if let Err(error) = parcae::checkpoint() {
            return Err((envelope, Undelivered::Interrupted(error)));
        }
        if self.mailbox.kind == Kind::LatestByKey {
            let key = (self.order.key)(&envelope.msg);
            let mut levels = shelves.lock();
            let same = |queued: &&mut Envelope<M>| (self.order.key)(&queued.msg) == key;
            if let Some(queued) = levels.queues[0].iter_mut().find(same) {
                let older = std::mem::replace(queued, envelope);
                return Ok(Some((older, LetterReason::Replaced)));
            }
        }
        if self.mailbox.kind == Kind::DropOldest {
            return Ok(shelves.push_and_drop(envelope, self.mailbox.capacity));
        }
        let permit = match patience {
            Patience::Forever => shelves.room.acquire(),
            Patience::Until(at) => shelves.room.acquire_deadline(1, at),
            Patience::None => match shelves.room.try_acquire(1) {
                Some(permit) => Ok(permit),
                None => return Err((envelope, Undelivered::Full)),
            },
        };
        match permit {
            Ok(permit) => permit.forget(),
            Err(error) => {
                let why = match error.kind() {
                    ErrorKind::TimedOut => Undelivered::Expired,
                    ErrorKind::SemaphoreClosed => Undelivered::Closed,
                    _ => Undelivered::Interrupted(error),
                };
                return Err((envelope, why));
            }
        }
        let mut levels = shelves.lock();
        if levels.is_closed {
            return Err((envelope, Undelivered::Closed));
        }
        let most = levels.queues.len() - 1;
        let level = if most == 0 { 0 } else { (self.order.level)(&envelope.msg).min(most) };
        levels.queues[level].push_back(envelope);
        Ok(None)
    }

    /// The next message, if there is one. A checkpoint.
    pub(crate) fn take(&self) -> Result<Option<Envelope<M>>> {
        match &self.place {
            Place::Channel(_, receiver) => match receiver.try_recv() {
                Ok(envelope) => Ok(Some(envelope)),
                Err(error) if matches!(error.reason(), Reason::WouldWait) => Ok(None),
                Err(error) => Err(error.into()),
            },
            Place::Shelves(shelves) => {
                parcae::checkpoint()?;
                let envelope = shelves.lock().take();
                if envelope.is_some() && self.mailbox.kind != Kind::DropOldest {
                    shelves.room.add(1);
                }
                Ok(envelope)
            }
        }
    }

    /// Takes no more messages, and returns those that are left.
    pub(crate) fn close(&self) -> Vec<Envelope<M>> {
        match &self.place {
            Place::Channel(_, receiver) => {
                receiver.close();
                let mut left = Vec::new();
                while let Ok(envelope) = receiver.try_recv() {
                    left.push(envelope);
                }
                left
            }
            Place::Shelves(shelves) => {
                shelves.room.close();
                let mut levels = shelves.lock();
                levels.is_closed = true;
                levels.queues.iter_mut().flat_map(std::mem::take).collect()
            }
        }
    }

    /// Number of messages that wait.
    pub(crate) fn len(&self) -> usize {
        match &self.place {
            Place::Channel(sender, _) => sender.len(),
            Place::Shelves(shelves) => shelves.lock().queues.iter().map(VecDeque::len).sum(),
        }
    }
}

impl<M> Shelves<M> {
    fn lock(&self) -> MutexGuard<'_, Levels<M>> {
        // A panic of the actor's `key` or `level` leaves the queues as they were.
        self.levels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a message in, and takes the oldest out if there are more than `most`.
    fn push_and_drop(
        &self,
        envelope: Envelope<M>,
        most: usize,
    ) -> Option<(Envelope<M>, LetterReason)> {
        let mut levels = self.lock();
        if levels.is_closed {
            return Some((envelope, LetterReason::Gone));
        }
        let queue = &mut levels.queues[0];
        queue.push_back(envelope);
        if queue.len() <= most {
            return None;
        }
        queue.pop_front().map(|oldest| (oldest, LetterReason::Overflow))
    }
}

impl<M> Levels<M> {
    fn take(&mut self) -> Option<Envelope<M>> {
        let filled = |level: &usize| !self.queues[*level].is_empty();
        let aged =
            (0..self.queues.len()).find(|&level| self.passed[level] >= AGEING && filled(&level));
        let level = aged.or_else(|| (0..self.queues.len()).rev().find(filled))?;
        self.passed[level] = 0;
        for lower in 0..level {
            if !self.queues[lower].is_empty() {
                self.passed[lower] += 1;
            }
        }
        self.queues[level].pop_front()
    }
}
