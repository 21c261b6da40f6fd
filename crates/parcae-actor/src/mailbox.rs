//! The user lane of a mailbox: messages, in a channel, on ordered shelves, or handed over.
//!
//! The actor takes a message with [`UserLane::take`], which never waits. It waits at the bell of
//! its [slot](crate::slot), which every message and every event of the system rings.

mod handover;

use crate::letters::LetterReason;
use crate::slot::Core;
use handover::Handover;
use parcae::cap::CapChannel;
use parcae::channel::{ChannelOpts, Reason, Receiver, SendError, Sender, channel};
use parcae::policy::LentContext;
use parcae::sync::Semaphore;
use parcae::{Error, ErrorKind, Result};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// A message waits this long behind those of higher levels; then it goes first once.
const AGEING: u32 = 16;

/// The most messages that a mailbox holds which needs no capability.
const LARGEST: usize = 1 << 20;

/// Bound and order of an actor's mailbox. The default holds 64 messages, and a sender waits while
/// it is full.
#[derive(Debug, Clone)]
pub struct Mailbox {
    capacity: usize,
    kind: Kind,
    /// Allows a mailbox without a bound.
    cap: Option<Arc<CapChannel>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Block,
    Refuse,
    DropOldest,
    DropNewest,
    LatestByKey,
    Priority { levels: usize },
    Rendezvous,
    Unbounded,
}

impl Mailbox {
    /// A mailbox for so many messages, at least one and at most 2^20. A sender waits while it is
    /// full.
    pub fn bounded(capacity: usize) -> Mailbox {
        Mailbox { capacity: capacity.clamp(1, LARGEST), kind: Kind::Block, cap: None }
    }

    /// A mailbox without room: a sender waits until the actor has taken its message. A message
    /// whose sender gives up before is not handled. [`try_tell`](crate::Address::try_tell) succeeds
    /// if the actor waits for a message and none is there.
    pub fn rendezvous() -> Mailbox {
        Mailbox { capacity: 0, kind: Kind::Rendezvous, cap: None }
    }

    /// A mailbox without a bound. Each actor that is started with it is a channel under the
    /// capability, whose [`max_buffer`](parcae::cap::ChannelLimits::max_buffer) has to be
    /// [`usize::MAX`]; otherwise the actor is not started.
    ///
    /// ```
    /// use parcae::cap::{ChannelLimits, Delegation};
    /// use parcae::prelude::*;
    /// use parcae::profile::Cluster;
    /// use parcae_actor::{ActorOpts, Mailbox};
    /// use std::sync::Arc;
    ///
    /// let rt = Runtime::builder().profile::<Cluster>().build()?;
    /// let limits = ChannelLimits { max_channels: 1, max_buffer: usize::MAX };
    /// let cap = Arc::new(rt.cap_channel(limits, Delegation::Forbidden));
    /// let opts = ActorOpts::new("log").mailbox(Mailbox::unbounded(cap));
    /// # drop(opts);
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn unbounded(cap: Arc<CapChannel>) -> Mailbox {
        Mailbox { capacity: usize::MAX, kind: Kind::Unbounded, cap: Some(cap) }
    }

    /// The same with another kind. A mailbox without room or without a bound stays as it is: it is
    /// never full.
    fn with(self, kind: Kind) -> Mailbox {
        match self.kind {
            Kind::Rendezvous | Kind::Unbounded => self,
            _ => Mailbox { kind, ..self },
        }
    }

    /// A full mailbox refuses a message: [`TellError`](crate::TellError) returns it.
    pub fn refuse(self) -> Mailbox {
        self.with(Kind::Refuse)
    }

    /// A full mailbox drops its oldest message, which becomes a dead letter.
    pub fn drop_oldest(self) -> Mailbox {
        self.with(Kind::DropOldest)
    }

    /// A full mailbox drops the new message, which becomes a dead letter. The sender does not hear
    /// of it.
    pub fn drop_newest(self) -> Mailbox {
        self.with(Kind::DropNewest)
    }

    /// A message replaces one of the same [key](crate::Actor::key), in its place. A sender of
    /// another key waits while the mailbox is full.
    pub fn latest_by_key(self) -> Mailbox {
        self.with(Kind::LatestByKey)
    }

    /// Messages of a higher [level](crate::Actor::level) are taken first, in the order of arrival
    /// within a level; one that was passed over 16 times goes first. A sender waits while the
    /// mailbox is full. There are at least one and at most 16 levels.
    pub fn priority(self, levels: usize) -> Mailbox {
        self.with(Kind::Priority { levels: levels.clamp(1, 16) })
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
    /// Of a call by an actor.
    pub(crate) caller: Option<Arc<Core>>,
    /// Of a call by a task that runs on a scheduling context.
    pub(crate) loan: Option<LentContext>,
}

impl<M> Envelope<M> {
    /// A message without a caller.
    pub(crate) fn told(msg: M) -> Envelope<M> {
        Envelope { msg, deadline: None, caller: None, loan: None }
    }
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
    capacity: usize,
    kind: Kind,
    order: Order<M>,
    place: Place<M>,
}

enum Place<M> {
    Channel(Sender<Envelope<M>>, Receiver<Envelope<M>>),
    // In boxes: most mailboxes are channels.
    Shelves(Box<Shelves<M>>),
    Handover(Box<Handover<M>>),
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
    /// # Errors
    ///
    /// If the capability of the mailbox does not allow it.
    pub(crate) fn new(mailbox: &Mailbox, order: Order<M>) -> Result<UserLane<M>> {
        let &Mailbox { capacity, kind, ref cap } = mailbox;
        let place = match kind {
            Kind::Block | Kind::Refuse | Kind::DropNewest => {
                let (sender, receiver) = channel(capacity);
                Place::Channel(sender, receiver)
            }
            Kind::Unbounded => {
                let mut opts = ChannelOpts::unbounded();
                if let Some(cap) = cap {
                    opts = opts.under(cap)?;
                }
                let (sender, receiver) = opts.build();
                Place::Channel(sender, receiver)
            }
            Kind::Rendezvous => Place::Handover(Box::new(Handover::new())),
            Kind::DropOldest | Kind::LatestByKey => {
                Place::Shelves(Box::new(Shelves::new(capacity, 1)))
            }
            Kind::Priority { levels } => Place::Shelves(Box::new(Shelves::new(capacity, levels))),
        };
        Ok(UserLane { capacity, kind, order, place })
    }

    /// Puts a message in. Returns messages that were dropped for it, with the reason. A sender that
    /// waits with its message in the mailbox rings before that; all others ring afterwards.
    #[inline]
    pub(crate) fn put(&self, envelope: Envelope<M>, patience: Patience, ring: impl Fn()) -> Put<M> {
        match &self.place {
            Place::Channel(sender, _) => self.send(sender, envelope, patience),
            Place::Shelves(shelves) => self.shelve(shelves, envelope, patience),
            Place::Handover(handover) => handover.put(envelope, patience, ring),
        }
    }

    #[inline]
    fn send(
        &self,
        sender: &Sender<Envelope<M>>,
        envelope: Envelope<M>,
        patience: Patience,
    ) -> Put<M> {
        let sent = match (self.kind, patience) {
            (Kind::Block, Patience::Forever) => sender.send(envelope),
            (Kind::Block, Patience::Until(at)) => sender.send_deadline(envelope, at),
            _ => sender.try_send(envelope),
        };
        match sent {
            Ok(()) => Ok(None),
            Err(error) => self.not_sent(error),
        }
    }

    #[cold]
    fn not_sent(&self, error: SendError<Envelope<M>>) -> Put<M> {
        let (envelope, reason) = error.into_parts();
        match reason {
            Reason::WouldWait if self.kind == Kind::DropNewest => {
                Ok(Some((envelope, LetterReason::Overflow)))
            }
            Reason::WouldWait => Err((envelope, Undelivered::Full)),
            Reason::TimedOut => Err((envelope, Undelivered::Expired)),
            Reason::Interrupted(error) => Err((envelope, Undelivered::Interrupted(error))),
            _ => Err((envelope, Undelivered::Closed)),
        }
    }

    fn shelve(&self, shelves: &Shelves<M>, envelope: Envelope<M>, patience: Patience) -> Put<M> {
        let mut envelope = envelope;
        if let Err(error) = parcae::checkpoint() {
            return Err((envelope, Undelivered::Interrupted(error)));
        }
        if self.kind == Kind::LatestByKey {
            match self.replace(&mut shelves.lock(), envelope) {
                Ok(older) => return Ok(Some((older, LetterReason::Replaced))),
                Err(unplaced) => envelope = unplaced,
            }
        }
        if self.kind == Kind::DropOldest {
            return shelves.push_and_drop(envelope, self.capacity);
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
        if self.kind == Kind::LatestByKey {
            // One of the same key may have come while this sender waited for room.
            match self.replace(&mut levels, envelope) {
                Ok(older) => {
                    drop(levels);
                    shelves.room.add(1); // the older message's place is enough
                    return Ok(Some((older, LetterReason::Replaced)));
                }
                Err(unplaced) => envelope = unplaced,
            }
        }
        let most = levels.queues.len() - 1;
        let level = if most == 0 { 0 } else { (self.order.level)(&envelope.msg).min(most) };
        levels.queues[level].push_back(envelope);
        Ok(None)
    }

    /// Puts a message in the place of one of the same key, which is returned; or returns the
    /// message itself.
    fn replace(
        &self,
        levels: &mut Levels<M>,
        envelope: Envelope<M>,
    ) -> Result<Envelope<M>, Envelope<M>> {
        let key = (self.order.key)(&envelope.msg);
        let same = |queued: &&mut Envelope<M>| (self.order.key)(&queued.msg) == key;
        match levels.queues[0].iter_mut().find(same) {
            Some(queued) => Ok(std::mem::replace(queued, envelope)),
            None => Err(envelope),
        }
    }

    /// Whether there is certainly no message. Not a checkpoint: the actor is about to wait.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        match &self.place {
            Place::Channel(_, receiver) => receiver.is_empty(),
            // To look for a message has an effect there, or costs no less than to take it.
            Place::Shelves(_) | Place::Handover(_) => false,
        }
    }

    /// The next message, if there is one. A checkpoint.
    #[inline]
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
                if envelope.is_some() && self.kind != Kind::DropOldest {
                    shelves.room.add(1);
                }
                Ok(envelope)
            }
            Place::Handover(handover) => {
                parcae::checkpoint()?;
                Ok(handover.take())
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
            Place::Handover(handover) => handover.close(),
        }
    }

    /// Number of messages that wait, unless another thread has the lock: it may be in the code of
    /// the program, which orders messages.
    pub(crate) fn len_now(&self) -> Option<usize> {
        match &self.place {
            Place::Shelves(shelves) => {
                let levels = shelves.levels.try_lock().ok()?;
                Some(levels.queues.iter().map(VecDeque::len).sum())
            }
            Place::Channel(..) | Place::Handover(_) => Some(self.len()),
        }
    }

    /// Number of messages that wait.
    pub(crate) fn len(&self) -> usize {
        match &self.place {
            Place::Channel(sender, _) => sender.len(),
            Place::Shelves(shelves) => shelves.lock().queues.iter().map(VecDeque::len).sum(),
            Place::Handover(handover) => handover.len(),
        }
    }
}

impl<M> Shelves<M> {
    fn new(capacity: usize, levels: usize) -> Shelves<M> {
        let levels = Levels {
            queues: (0..levels).map(|_| VecDeque::new()).collect(),
            passed: vec![0; levels],
            is_closed: false,
        };
        Shelves { room: Semaphore::new(capacity), levels: Mutex::new(levels) }
    }

    fn lock(&self) -> MutexGuard<'_, Levels<M>> {
        // A panic of the actor's `key` or `level` leaves the queues as they were.
        self.levels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a message in, and takes the oldest out if there are more than `most`.
    fn push_and_drop(&self, envelope: Envelope<M>, most: usize) -> Put<M> {
        let mut levels = self.lock();
        if levels.is_closed {
            return Err((envelope, Undelivered::Closed));
        }
        let queue = &mut levels.queues[0];
        queue.push_back(envelope);
        if queue.len() <= most {
            return Ok(None);
        }
        Ok(queue.pop_front().map(|oldest| (oldest, LetterReason::Overflow)))
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
