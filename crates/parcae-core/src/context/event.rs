//! Events of contexts, kept in the contexts themselves until they are taken.
//!
//! Each context has one place per kind. An event whose place is taken is joined with the one that
//! waits there: the count grows, the newest time and the worst amount stay. So raising an event
//! needs no memory, only detail is lost, and one failing context cannot crowd out the events of the
//! others. Contexts with events form a list through themselves, in the order in which they got
//! their first.

use super::params::Endpoint;
use super::table::{ContextId, PartyId};

/// Kinds of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// Its budget is used up. The amount is its total use.
    Depleted,
    /// Its holder is runnable and must wait for budget. Delivered to the holder's endpoint, or else
    /// to the context's; without either there is no event. The amount is the use since
    /// [`take_consumed`](super::Contexts::take_consumed).
    Timeout,
    /// It used more than its budget. The amount is the largest overrun.
    Overrun,
    /// Budget that should have been used by a deadline was used later, or not yet. The
    /// amount is by how much it was late.
    Missed,
}

impl EventKind {
    const ALL: [EventKind; 4] =
        [EventKind::Depleted, EventKind::Timeout, EventKind::Overrun, EventKind::Missed];
}

/// An event, or several of a kind and a context since it was last asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Whose.
    pub context: ContextId,
    /// What.
    pub kind: EventKind,
    /// The party that ran on it, along the call chain.
    pub holder: Option<PartyId>,
    /// Where to deliver it.
    pub endpoint: Option<Endpoint>,
    /// When, of the last one.
    pub at: u64,
    /// How much; see the kinds.
    pub amount: u64,
    /// How many since the last event was taken.
    pub count: u32,
}

/// The part of an event that waits in a context.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pending {
    pub(super) holder: Option<PartyId>,
    pub(super) endpoint: Option<Endpoint>,
    pub(super) at: u64,
    pub(super) amount: u64,
    pub(super) count: u32,
}

/// A context's places for events, and its place in the list of those that have some.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Places {
    pending: [Option<Pending>; EventKind::ALL.len()],
    /// Neighbours in the list.
    pub(super) before: Option<u32>,
    pub(super) after: Option<u32>,
}

impl Places {
    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.pending.iter().all(Option::is_none)
    }

    /// Stores `new`, or merges it with the pending event.
    pub(super) fn put(&mut self, kind: EventKind, new: Pending) {
        let place = &mut self.pending[kind as usize];
        *place = Some(match *place {
            None => new,
            Some(old) => Pending {
                amount: new.amount.max(old.amount),
                count: old.count.saturating_add(new.count),
                ..new
            },
        });
    }

    /// The holders' handles mean nothing where the context goes.
    pub(super) fn forget_holders(&mut self) {
        self.pending.iter_mut().flatten().for_each(|pending| pending.holder = None);
    }

    /// The first that waits.
    pub(super) fn take(&mut self) -> Option<(EventKind, Pending)> {
        EventKind::ALL
            .into_iter()
            .find_map(|kind| self.pending[kind as usize].take().map(|pending| (kind, pending)))
    }
}

/// The ends of the list of contexts with events.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Ends {
    pub(super) first: Option<u32>,
    pub(super) last: Option<u32>,
}
