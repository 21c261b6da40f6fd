//! The inbox of a supervisor: requests to start children, and the ends of their tasks.
//!
//! Both hand a seat over, with its ownership: a seat is with the supervisor, in the inbox, or with
//! the task of an incarnation. The task has it in an [`Errand`], which puts the seat back when the
//! task ends, when it could not be spawned, and when it was cancelled before its first step. So
//! there is an end for each start. After an entry the bell of the desk rings (`crate::desk`).
//!
//! The inbox of a supervisor that has ended is closed: it takes no request, and drops those that
//! are left, whose callers hear of it.

use super::BoxedSeat;
use crate::desk::Desk;
use crate::exit::{Exit, ExitKind};
use parcae::sync::Notify;
use parcae::{Error, Result};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A request to a supervisor.
pub(crate) struct StartRequest<'env> {
    pub(crate) seat: BoxedSeat<'env>,
    pub(crate) reply: StartReply,
}

/// The end of an incarnation; or of its task alone, if there is no exit.
pub(crate) struct Ended<'env> {
    pub(super) order: u64,
    pub(super) seat: BoxedSeat<'env>,
    pub(super) exit: Option<Exit>,
    /// Of a child that did not start.
    pub(super) reply: Option<StartReply>,
}

pub(crate) struct Inbox<'env> {
    pub(super) desk: Arc<Desk>,
    post: Mutex<Post<'env>>,
}

struct Post<'env> {
    starts: VecDeque<StartRequest<'env>>,
    ends: VecDeque<Ended<'env>>,
    is_closed: bool,
}

impl<'env> Inbox<'env> {
    pub(crate) fn new() -> Arc<Inbox<'env>> {
        let post = Post { starts: VecDeque::new(), ends: VecDeque::new(), is_closed: false };
        Arc::new(Inbox { desk: Arc::new(Desk::new()), post: Mutex::new(post) })
    }

    /// Where requests to stop ring.
    pub(crate) fn desk(&self) -> &Arc<Desk> {
        &self.desk
    }

    fn lock(&self) -> MutexGuard<'_, Post<'env>> {
        self.post.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the supervisor to start a child, and waits until it has started.
    pub(crate) fn start(&self, seat: BoxedSeat<'env>) -> Result<()> {
        let started = Arc::new(Started { outcome: Mutex::new(None), bell: Notify::new() });
        let request = StartRequest { seat, reply: StartReply(Arc::clone(&started)) };
        let mut post = self.lock();
        if post.is_closed {
            drop(post);
            drop(request); // with the lock free
            return Err(has_ended());
        }
        post.starts.push_back(request);
        drop(post);
        self.desk.ring();
        started.bell.wait()?;
        started.outcome().take().unwrap_or_else(|| Err(has_ended()))
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    pub(super) fn next_start(&self) -> Option<StartRequest<'env>> {
        self.lock().starts.pop_front()
    }

    pub(super) fn next_end(&self) -> Option<Ended<'env>> {
        self.lock().ends.pop_front()
    }

    fn end(&self, ended: Ended<'env>) {
        self.lock().ends.push_back(ended);
        self.desk.ring();
    }

    /// Forgets an earlier life of the supervisor, which has no child any more.
    pub(super) fn clear(&self) {
        let ends = std::mem::take(&mut self.lock().ends);
        drop(ends); // with the lock free
        self.desk.clear();
    }

    /// Takes no more requests.
    pub(crate) fn close(&self) {
        let mut post = self.lock();
        post.is_closed = true;
        let left = (std::mem::take(&mut post.starts), std::mem::take(&mut post.ends));
        drop(post);
        drop(left); // with the lock free
    }
}

/// The supervisor has ended, or never was there.
fn has_ended() -> Error {
    Error::msg("the supervisor has ended, or has given up")
}

struct Started {
    outcome: Mutex<Option<Result<()>>>,
    /// Rings once, and one task waits.
    bell: Notify,
}

impl Started {
    fn outcome(&self) -> MutexGuard<'_, Option<Result<()>>> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The answer to a request. Answering costs the task nothing: the child does it, which may be out
/// of budget. One that is dropped answers that the supervisor has ended.
pub(crate) struct StartReply(Arc<Started>);

impl StartReply {
    pub(super) fn send(self, outcome: Result<()>) {
        *self.0.outcome() = Some(outcome);
    }
}

impl Drop for StartReply {
    fn drop(&mut self) {
        self.0.bell.notify_one();
    }
}

/// A seat with the task that runs its incarnation.
pub(super) struct Errand<'env> {
    inbox: Arc<Inbox<'env>>,
    order: u64,
    seat: Option<BoxedSeat<'env>>,
    exit: Option<Exit>,
    reply: Option<StartReply>,
}

impl<'env> Errand<'env> {
    pub(super) fn new(
        inbox: &Arc<Inbox<'env>>,
        (order, incarnation): (u64, u64),
        seat: BoxedSeat<'env>,
        reply: Option<StartReply>,
    ) -> Errand<'env> {
        let exit = Exit::new(ExitKind::NotStarted, None).of_life(incarnation, 0);
        Errand { inbox: Arc::clone(inbox), order, seat: Some(seat), exit: Some(exit), reply }
    }

    /// Runs the incarnation to its end, or until it sleeps.
    pub(super) fn run(
        mut self,
        live: impl FnOnce(&mut BoxedSeat<'env>, &dyn Fn()) -> Option<Exit>,
    ) {
        let Some(seat) = &mut self.seat else { return };
        let reply = std::cell::Cell::new(self.reply.take());
        let desk = &self.inbox.desk;
        self.exit = live(seat, &|| match reply.take() {
            Some(reply) => reply.send(Ok(())),
            None => desk.ring(),
        });
        self.reply = reply.take();
    }
}

impl Drop for Errand<'_> {
    fn drop(&mut self) {
        if let Some(seat) = self.seat.take() {
            let (order, exit, reply) = (self.order, self.exit.take(), self.reply.take());
            self.inbox.end(Ended { order, seat, exit, reply });
        }
    }
}
