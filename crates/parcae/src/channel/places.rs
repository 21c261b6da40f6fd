//! Those who wait at one end of a channel, in the order in which they came.
//!
//! A list with places. Whoever waits takes a place and gets a [`Ticket`] for it; whoever serves it
//! unlinks the place, leaves the outcome there, and takes the waiter out to wake it. Only the
//! holder of the ticket frees the place, so a ticket never speaks of somebody else's.
//!
//! ```text
//!          join            serve / close                poll, withdraw
//! Free ───────────► Waiting ───────────► Done, Closed ───────────────► Free
//!                      │   claim lost                                   ▲
//!                      ├───────────────► Lost ──── withdraw ────────────┤
//!                      └────────────────────────── withdraw ────────────┘
//! ```
//!
//! | stage | in the list | value of a sender | value of a receiver |
//! |---|---|---|---|
//! | Waiting | yes | here | – |
//! | Done | no | taken | here |
//! | Closed, Lost | no | here, goes back | – |
//!
//! In every stage the value is in one place, and the holder of the ticket finds out which.
//! Everything happens under the lock of the channel. Nothing here runs code of the program: values are
//! moved, not dropped.

use super::claim::Claim;
use super::state::Wake;
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

struct Entry<T, W> {
    stage: Stage,
    /// Until somebody takes it out to wake it.
    waiter: Option<W>,
    claim: Option<(Arc<Claim>, usize)>,
    /// As the table above says.
    value: Option<T>,
    prev: usize,
    next: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Free,
    Waiting,
    Done,
    Closed,
    Lost,
}

/// Somebody who waits.
pub(crate) struct Waiting<T, W> {
    pub(crate) waiter: W,
    /// Of a select: what has to be claimed, and for which case.
    pub(crate) claim: Option<(Arc<Claim>, usize)>,
    /// What a sender has to give.
    pub(crate) value: Option<T>,
}

/// The right to a place. Not to be copied: it is given up with the place.
#[derive(Debug)]
#[must_use = "the place is lost with its ticket"]
pub(crate) struct Ticket(usize);

/// What became of somebody who waited.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome<T> {
    /// It happened. A receiver finds its value here.
    Done(Option<T>),
    /// The channel was closed. A sender gets its value back.
    Closed(Option<T>),
    /// It did not happen, and will not. A sender gets its value back.
    Withdrawn(Option<T>),
}

impl<T, W> Places<T, W> {
    pub(crate) fn new() -> Places<T, W> {
        Places { entries: Vec::new(), free: NONE, head: NONE, tail: NONE }
    }

    /// Takes a place behind all others.
    pub(crate) fn join(&mut self, Waiting { waiter, claim, value }: Waiting<T, W>) -> Ticket {
        let (stage, waiter) = (Stage::Waiting, Some(waiter));
        let entry = Entry { stage, waiter, claim, value, prev: self.tail, next: NONE };
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
    pub(super) fn any_beside(&self, own: &Arc<Claim>) -> bool {
        let mut at = self.head;
        while at != NONE {
            let entry = &self.entries[at];
            match &entry.claim {
                Some((claim, _)) if Arc::ptr_eq(claim, own) || !claim.is_open() => {}
                _ => return true,
            }
            at = entry.next;
        }
        false
    }

    /// What became of a place; the ticket again if nothing has happened yet.
    #[inline]
    pub(super) fn poll(&mut self, ticket: Ticket) -> Result<Outcome<T>, Ticket> {
        if self.entries[ticket.0].stage == Stage::Waiting {
            return Err(ticket);
        }
        Ok(self.withdraw(ticket))
    }

    /// Gives a place up: what has happened has happened, otherwise it will not.
    #[inline]
    pub(crate) fn withdraw(&mut self, ticket: Ticket) -> Outcome<T> {
        self.remove(ticket).0
    }

    /// The same; and gives the waiter back if nobody has taken it out, for whom dropping it is not to
    /// happen under the lock.
    #[inline]
    pub(crate) fn remove(&mut self, Ticket(at): Ticket) -> (Outcome<T>, Option<W>) {
        if self.entries[at].stage == Stage::Waiting {
            self.unlink(at);
        }
        let entry = &mut self.entries[at];
        let stage = std::mem::replace(&mut entry.stage, Stage::Free);
        let (value, waiter) = (entry.value.take(), entry.waiter.take());
        entry.claim = None;
        entry.next = self.free;
        self.free = at;
        let outcome = match stage {
            Stage::Done => Outcome::Done(value),
            Stage::Closed => Outcome::Closed(value),
            Stage::Waiting | Stage::Lost => Outcome::Withdrawn(value),
            Stage::Free => unreachable!("a ticket for a place that is free"),
        };
        (outcome, waiter)
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
    /// Takes the first out of the list who can still be served: its place, and whom to wake. Selects that
    /// are decided already are passed over.
    fn first(&mut self) -> Option<(usize, W)> {
        while self.head != NONE {
            let at = self.head;
            self.unlink(at);
            let entry = &mut self.entries[at];
            if entry.claim.as_ref().is_none_or(|(claim, case)| claim.fire(*case)) {
                let Some(mut waiter) = entry.waiter.take() else { unreachable!("not waiting") };
                waiter.keep();
                return Some((at, waiter));
            }
            entry.stage = Stage::Lost;
        }
        None
    }

    /// Gives a value to the first receiver; returns whom to wake, or the value if nobody waits.
    #[inline(always)]
    pub(super) fn give(&mut self, value: T) -> Result<W, T> {
        if self.head == NONE {
            return Err(value);
        }
        let Some((at, waiter)) = self.first() else { return Err(value) };
        let entry = &mut self.entries[at];
        entry.stage = Stage::Done;
        entry.value = Some(value);
        Ok(waiter)
    }

    /// Takes the value of the first sender, and says whom to wake.
    #[inline(always)]
    pub(super) fn take(&mut self) -> Option<(T, W)> {
        if self.head == NONE {
            return None;
        }
        let (at, waiter) = self.first()?;
        let entry = &mut self.entries[at];
        entry.stage = Stage::Done;
        entry.value.take().map(|value| (value, waiter))
    }

    /// Tells all of them that the channel is closed; adds whom to wake.
    pub(crate) fn close(&mut self, wake: &mut Vec<W>) {
        while let Some((at, waiter)) = self.first() {
            self.entries[at].stage = Stage::Closed;
            wake.push(waiter);
        }
    }
}
