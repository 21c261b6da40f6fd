//! Groups: many actors under one name.
//!
//! A group has no member that has ended. The end of an actor takes it out of its groups before and
//! after the actor's phase says that it has ended; a join puts it in, then looks at the phase. So a
//! join whose look comes too early for it to see the end comes before the second removal. The first
//! one is for those that hear of the end: none of them finds the actor.

use crate::address::Address;
use crate::shim::{Mutex, MutexGuard};
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};

/// A group of actors that take the same messages. An actor that has ended is not in it any more.
pub struct Group<M>(Arc<Members<M>>);

struct Members<M> {
    name: Arc<str>,
    members: Mutex<BTreeMap<u64, Address<M>>>,
    turn: AtomicUsize,
}

impl<M: Send + 'static> Group<M> {
    fn members_of(&self) -> MutexGuard<'_, BTreeMap<u64, Address<M>>> {
        self.0.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an actor. An actor that is in the group stays in it.
    pub fn join(&self, member: &Address<M>) {
        let earlier = self.members_of().insert(member.core().id, member.clone());
        drop(earlier); // with the lock free
        if member.is_gone() {
            self.leave(member); // it may have ended before it was in the list
        }
    }

    /// Removes an actor. False if it is not in the group.
    pub fn leave(&self, member: &Address<M>) -> bool {
        let removed = self.members_of().remove(&member.core().id);
        removed.is_some() // dropped with the lock free
    }

    /// The members, in the order in which they were started.
    pub fn members(&self) -> Vec<Address<M>> {
        self.members_of().values().cloned().collect()
    }

    /// The next member, in turn.
    pub fn one(&self) -> Option<Address<M>> {
        let members = self.members_of();
        let turn = self.0.turn.fetch_add(1, Ordering::Relaxed); // a count, which guards nothing
        let at = turn % members.len().max(1);
        members.values().nth(at).cloned()
    }

    /// The member with the fewest messages in its mailbox.
    pub fn least_busy(&self) -> Option<Address<M>> {
        self.members_of().values().min_by_key(|member| member.queued()).cloned()
    }

    /// Sends a copy of a message to all members that have room. Returns how many took it.
    pub fn tell_all(&self, msg: &M) -> usize
    where
        M: Clone,
    {
        let members = self.members();
        members.iter().filter(|member| member.try_tell(msg.clone()).is_ok()).count()
    }
}

impl<M> Clone for Group<M> {
    fn clone(&self) -> Group<M> {
        Group(Arc::clone(&self.0))
    }
}

impl<M> fmt::Debug for Group<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Group").field(&self.0.name).finish()
    }
}

/// The groups of a system, by name and type of message.
#[derive(Default)]
pub(crate) struct Groups(Mutex<BTreeMap<Arc<str>, SameName>>);

/// Groups of one name, each for another type of message.
type SameName = Vec<Box<dyn AnyGroup>>;

trait AnyGroup: Send {
    fn as_any(&self) -> &dyn Any;
    fn forget(&self, id: u64);
}

impl<M: Send + 'static> AnyGroup for Group<M> {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn forget(&self, id: u64) {
        let member = self.members_of().remove(&id);
        drop(member); // with the lock free
    }
}

impl Groups {
    pub(crate) fn group<M: Send + 'static>(&self, name: Arc<str>) -> Group<M> {
        let mut groups = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let same_name = groups.entry(Arc::clone(&name)).or_default();
        let found = same_name.iter().find_map(|group| group.as_any().downcast_ref::<Group<M>>());
        if let Some(group) = found {
            return group.clone();
        }
        let members = Members { name, members: Mutex::default(), turn: AtomicUsize::new(0) };
        let group = Group(Arc::new(members));
        same_name.push(Box::new(group.clone()));
        group
    }

    pub(crate) fn forget(&self, id: u64) {
        let groups = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        groups.values().flatten().for_each(|group| group.forget(id));
    }
}
