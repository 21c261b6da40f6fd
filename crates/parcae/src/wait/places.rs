//! Those who wait at one end of a channel, in the order in which they came.
//!
//! A list with places. Whoever waits takes a place and gets a [`Ticket`] for it; whoever serves it
//! unlinks the place, moves the value, and takes the waiter out to wake it. Only the
//! holder of the ticket frees the place, so a ticket never speaks of somebody else's.
//!
//! ```text
//!          join            serve / ring / close         poll, withdraw
//! Free ───────────► Waiting ───────────► Done, Closed ───────────────► Free
//!           or  Watching  │   claim lost                                ▲
//!                         ├──────────────► Lost ──── withdraw ──────────┤
//!                         └─────────────────────── withdraw ────────────┘
//! ```
//!
//! A *watcher* waits until an operation is possible and does not take part in it: it is passed over by
//! those who serve, and all watchers are *rung* once there is something that nobody in the list was served with.
//!
//! | stage | in the list | value of a sender | value of a receiver |
//! |---|---|---|---|
//! | Waiting | yes | at its address | – |
//! | Watching | yes | – | – |
//! | Done | no | moved away | at its address, unless it was a watcher |
//! | Closed, Lost | no | at its address | – |
//!
//! Values do not lie here but at an address that belongs to whoever waits: it leaves that memory alone while it
//! has the place, and is told the stage when it gives the place up. In every stage the value is in one place, and the
//! holder of the ticket finds out which. Everything happens under the lock of the channel. Nothing here runs code
//! of the program: values are moved, not dropped.

use super::wake::{Wake, Wakes};
use crate::wait::claim::Claim;
use std::ptr::NonNull;
use std::sync::Arc;

/// No place.
const NONE: usize = usize::MAX;

/// Those who wait at one end.
pub(crate) struct Places<T, W> {
    entries: Vec<Entry<T, W>>,
    /// The first free place; the others follow by `next`.
    free: usize,
    /// The first and the last who wait.
    head: usize,
    tail: usize,
}

// SAFETY: addresses of values that whoever has the lock may move, between threads if they are `Send`.
unsafe impl<T: Send, W: Send> Send for Places<T, W> {}

struct Entry<T, W> {
    stage: Stage,
    /// Until somebody takes it out to wake it.
    waiter: Option<W>,
    claim: Option<(Arc<Claim>, usize)>,
    /// As the table above says.
    value: Option<NonNull<T>>,
    prev: usize,
    next: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Free,
    Waiting,
    Watching,
    Done,
    Closed,
    Lost,
}

/// Somebody who waits.
pub(crate) struct Waiting<T, W> {
    pub(crate) waiter: W,
    /// Of a select: what has to be claimed, and for which case.
    pub(crate) claim: Option<(Arc<Claim>, usize)>,
    /// Where the value of a sender is, or that of a receiver is to be put. Without an address nothing is handed over, and
    /// it only waits to be told.
    pub(crate) value: Option<NonNull<T>>,
}

/// The right to a place. Not to be copied: it is given up with the place.
#[derive(Debug)]
#[must_use = "the place is lost with its ticket"]
pub(crate) struct Ticket(usize);

/// The stage in which a place was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlaceEnd {
    /// It happened: the value of a sender is gone, that of a receiver is where it was to be put.
    Done,
    /// The channel was closed. A sender has its value.
    Closed,
    /// It did not happen, and will not. A sender has its value.
    Withdrawn,
}

impl<T, W> Places<T, W> {
    pub(crate) fn new() -> Places<T, W> {
        Places { entries: Vec::new(), free: NONE, head: NONE, tail: NONE }
    }

    /// Whether nobody is in the list.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head == NONE
    }

    /// Takes a place behind all others.
    pub(crate) fn join(&mut self, waiting: Waiting<T, W>) -> Ticket {
        self.enter(waiting, Stage::Waiting)
    }

    /// Takes a place of a watcher.
    pub(crate) fn watch(&mut self, waiter: W, claim: (Arc<Claim>, usize)) -> Ticket {
        self.enter(Waiting { waiter, claim: Some(claim), value: None }, Stage::Watching)
    }

    #[inline(always)]
    fn enter(&mut self, Waiting { waiter, claim, value }: Waiting<T, W>, stage: Stage) -> Ticket {
        let entry =
            Entry { stage, waiter: Some(waiter), claim, value, prev: self.tail, next: NONE };
        let at = self.free;
        let at = if at == NONE {
            self.entries.push(entry);
            self.entries.len() - 1
        } else {
            let place = &mut self.entries[at];
            self.free = place.next;
            // Nothing is left in a free place: there is nothing to drop.
            std::mem::forget(std::mem::replace(place, entry));
            at
        };
        match self.tail {
            NONE => self.head = at,
            tail => self.entries[tail].next = at,
        }
        self.tail = at;
        Ticket(at)
    }

    fn unlink(&mut self, at: usize) {
        let Entry { prev, next, .. } = self.entries[at];
        match prev {
            NONE => self.head = next,
            prev => self.entries[prev].next = next,
        }
        match next {
            NONE => self.tail = prev,
            next => self.entries[next].prev = prev,
        }
    }

    /// Whether somebody could be served, other than the select with this claim.
    pub(crate) fn any_beside(&self, own: Option<&Arc<Claim>>) -> bool {
        let mut at = self.head;
        while at != NONE {
            let entry = &self.entries[at];
            let own = |claim| own.is_some_and(|own| Arc::ptr_eq(claim, own));
            match &entry.claim {
                _ if entry.stage == Stage::Watching => {}
                Some((claim, _)) if own(claim) || !claim.is_open() => {}
                _ => return true,
            }
            at = entry.next;
        }
        false
    }

    /// What became of a place; the ticket again if nothing has happened yet.
    #[inline]
    pub(crate) fn poll(&mut self, ticket: Ticket) -> Result<PlaceEnd, Ticket> {
        if self.entries[ticket.0].stage == Stage::Waiting {
            return Err(ticket);
        }
        Ok(self.withdraw(ticket))
    }

    /// Gives a place up: what has happened has happened, otherwise it will not.
    #[inline]
    pub(crate) fn withdraw(&mut self, ticket: Ticket) -> PlaceEnd {
        self.remove(ticket).0
    }

    /// The same; and gives the waiter back if nobody has taken it out, for whom dropping it is not to
    /// happen under the lock.
    #[inline]
    pub(crate) fn remove(&mut self, Ticket(at): Ticket) -> (PlaceEnd, Option<W>) {
        if matches!(self.entries[at].stage, Stage::Waiting | Stage::Watching) {
            self.unlink(at);
        }
        let entry = &mut self.entries[at];
        let stage = std::mem::replace(&mut entry.stage, Stage::Free);
        let waiter = entry.waiter.take();
        entry.claim = None;
        entry.value = None;
        entry.next = self.free;
        self.free = at;
        let gone = match stage {
            Stage::Done => PlaceEnd::Done,
            Stage::Closed => PlaceEnd::Closed,
            Stage::Waiting | Stage::Watching | Stage::Lost => PlaceEnd::Withdrawn,
            Stage::Free => unreachable!("a ticket for a place that is free"),
        };
        (gone, waiter)
    }

    /// How many wait.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        std::iter::successors(Some(self.head), |&at| self.entries.get(at).map(|entry| entry.next))
            .take_while(|&at| at != NONE)
            .count()
    }
}

impl<T, W: Wake> Places<T, W> {
    /// Takes a place out of the list, and says whom to wake; nobody if that is a select which is decided already.
    #[inline]
    fn call(&mut self, at: usize, stage: Stage) -> Option<W> {
        self.unlink(at);
        let entry = &mut self.entries[at];
        if entry.claim.as_ref().is_none_or(|(claim, case)| claim.fire(*case)) {
            let Some(mut waiter) = entry.waiter.take() else { unreachable!("not waiting") };
            waiter.keep();
            entry.stage = stage;
            return Some(waiter);
        }
        entry.stage = Stage::Lost;
        None
    }

    /// Serves the first who can still be served: its address, and whom to wake. The caller moves the value, from there
    /// or to there, before it gives the lock back.
    #[inline]
    pub(crate) fn serve(&mut self) -> Option<(NonNull<T>, W)> {
        let mut at = self.head;
        while at != NONE {
            let Entry { next, stage, value, .. } = self.entries[at];
            if stage == Stage::Waiting
                && let Some(waiter) = self.call(at, Stage::Done)
            {
                let Some(value) = value else { unreachable!("nothing to hand over") };
                return Some((value, waiter));
            }
            at = next;
        }
        None
    }

    /// Takes all watchers out, except those of the select with this claim. There is something that nobody else in
    /// the list was served with.
    #[inline]
    pub(crate) fn ring(&mut self, own: Option<&Arc<Claim>>) -> Wakes<W> {
        if self.is_empty() { Wakes::Nobody } else { self.ring_all(own) }
    }

    #[cold]
    fn ring_all(&mut self, own: Option<&Arc<Claim>>) -> Wakes<W> {
        let mut wake = Vec::new();
        let mut at = self.head;
        while at != NONE {
            let Entry { next, stage, ref claim, .. } = self.entries[at];
            let is_own =
                claim.as_ref().zip(own).is_some_and(|((claim, _), o)| Arc::ptr_eq(claim, o));
            if stage == Stage::Watching && !is_own {
                wake.extend(self.call(at, Stage::Done));
            }
            at = next;
        }
        Wakes::All(wake)
    }

    /// Tells all of them that the channel is closed; adds whom to wake.
    pub(crate) fn close(&mut self, wake: &mut Vec<W>) {
        while self.head != NONE {
            wake.extend(self.call(self.head, Stage::Closed));
        }
    }
}
