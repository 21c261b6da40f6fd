//! The members of a set that have ended, in the order of their ends, for one waiter.
//!
//! # States and protocol
//!
//! ```text
//!              told: appended, the waiter is granted      take, by the set
//!   running ─────────────────────────────────────► listed ────────────────► taken
//!      │                                              │
//!      └──────────────► dropped ◄─────────────────────┘   the set was closed
//! ```
//!
//! One lock guards the list and the queue of the waiter. A task that ends *tells* its [`Member`],
//! which is appended to the list; in the same critical section the waiter is granted a look at the
//! list. A caller that registers finds the list empty and joins the queue in one critical section,
//! so a member that is told later finds the caller there: no wake-up is lost. A grant carries
//! nothing. A waiter that gives up leaves the list as it is, so no member is lost with it; one that
//! was granted and finds the list empty does not exist, because only the set itself takes members,
//! and it is borrowed exclusively while it waits.
//!
//! # Ownership
//!
//! A member is reference-counted: its set has one count, the task that it stands for has the other
//! (JOIN's, in `task::joiner`). A task that ends gives its count to the list, which is linked
//! through the members: telling allocates nothing, and the list is as long as the set at most.
//! Members know their set, and the list knows members, so the set is closed when it is dropped: the
//! list is emptied, and a member that is told afterwards is dropped at once.
//!
//! # Rejected
//!
//! A select over the handles: each wait would register with all of them, and `n` results would cost
//! `n²` registrations.

use super::queue::{CaseClaim, Grant, Queue, WaitNode};
use super::{Waitable, Wake};
use crate::base::lock::{Guard, Lock};
use crate::base::shim::cell::UnsafeCell;
use crate::sched::task::joiner::{JoinHook, Joiner};
use std::ptr::NonNull;
use std::sync::Arc;

/// The part of a set that the tasks in it know.
pub(crate) struct Completions<W> {
    state: Lock<List<W>>,
}

struct List<W> {
    first: Option<Arc<Member<W>>>,
    /// The last member of the list, if there is one.
    last: Option<NonNull<Member<W>>>,
    /// Set when the set is dropped.
    closed: bool,
    waiters: Queue<W>,
}

// SAFETY: `last` points into the list, which moves with it.
unsafe impl<W: Send> Send for List<W> {}

/// A task in a set.
#[repr(C)]
pub(crate) struct Member<W> {
    /// First, because a record points to it.
    hook: JoinHook,
    set: Arc<Completions<W>>,
    /// Its seat in the set.
    pub(crate) key: usize,
    /// The next member of the list. Accessed under the lock of the set.
    next: UnsafeCell<Option<Arc<Member<W>>>>,
}

// SAFETY: `next` is accessed under the lock of the set, the rest is shared anyway.
unsafe impl<W: Send> Send for Member<W> {}
// SAFETY: as above.
unsafe impl<W: Send> Sync for Member<W> {}

impl<W> Completions<W> {
    pub(crate) fn new() -> Arc<Completions<W>> {
        let list = List { first: None, last: None, closed: false, waiters: Queue::new() };
        Arc::new(Completions { state: Lock::new(list) })
    }

    fn lock(&self) -> Guard<'_, List<W>> {
        self.state.lock()
    }

    /// The seat of the first member that has ended, if there is one. By the owner of the set.
    pub(crate) fn take(&self) -> Option<usize> {
        let member = self.lock().pop();
        member.map(|member| member.key) // dropped outside of the lock
    }

    /// Whether a member has ended.
    pub(crate) fn any(&self) -> bool {
        self.lock().first.is_some()
    }

    /// Queues a node. Returns false if a member has ended. A select passes its claim.
    ///
    /// # Safety
    ///
    /// As for [`Queue::push`].
    pub(crate) unsafe fn register(
        &self,
        node: &WaitNode<W>,
        waiter: W,
        claim: Option<CaseClaim>,
    ) -> bool {
        let mut list = self.lock(); // the look and the queue in one critical section
        if list.first.is_some() {
            return false;
        }
        // SAFETY: the caller upholds the contract.
        unsafe { list.waiters.push(node, waiter, claim) };
        true
    }

    /// Empties the list for good. By the owner of the set, which ends.
    pub(crate) fn close(&self) {
        let mut list = self.lock();
        list.closed = true;
        list.last = None;
        let mut next = list.first.take();
        drop(list);
        // One by one: a long list is not dropped by recursion.
        while let Some(member) = next {
            // SAFETY: the list was detached under the lock, so this thread alone has it.
            next = member.next.with_mut(|next| unsafe { (*next).take() });
        }
    }
}

impl<W> List<W> {
    fn push(&mut self, member: Arc<Member<W>>) {
        let here = NonNull::from(&*member);
        let link = match self.last.replace(here) {
            // SAFETY: the last member of the list, under its lock.
            Some(last) => unsafe { last.as_ref() }.next.with_mut(|next| unsafe { &mut *next }),
            None => &mut self.first,
        };
        *link = Some(member);
    }

    fn pop(&mut self) -> Option<Arc<Member<W>>> {
        let member = self.first.take()?;
        // SAFETY: under the lock of the list.
        self.first = member.next.with_mut(|next| unsafe { (*next).take() });
        if self.first.is_none() {
            self.last = None;
        }
        Some(member)
    }
}

impl<W: Wake> Member<W> {
    pub(crate) fn new(set: &Arc<Completions<W>>, key: usize) -> Arc<Member<W>> {
        let hook = JoinHook { tell: Member::<W>::tell_joined };
        Arc::new(Member { hook, set: Arc::clone(set), key, next: UnsafeCell::new(None) })
    }

    /// This member as the joiner of a task. The count moves to JOIN.
    pub(crate) fn joiner(this: Arc<Member<W>>) -> Joiner {
        // SAFETY: the pointer of an `Arc` is not null. The hook is the first field.
        Joiner::hook(unsafe { NonNull::new_unchecked(Arc::into_raw(this).cast_mut().cast()) })
    }

    /// # Safety
    ///
    /// `hook` is that of a member, with a count for the callee.
    unsafe fn tell_joined(hook: NonNull<JoinHook>) {
        // SAFETY: the caller upholds the contract.
        Member::tell(unsafe { Arc::from_raw(hook.as_ptr().cast::<Member<W>>()) });
    }

    /// Appends the member to the list of those that have ended, and wakes the waiter of the set.
    /// Called once.
    pub(crate) fn tell(this: Arc<Member<W>>) {
        let set = Arc::clone(&this.set);
        let mut list = set.lock();
        if list.closed {
            drop(list);
            return; // drops the member outside of the lock
        }
        list.push(this);
        let waiter = list.waiters.grant(Grant::All);
        drop(list);
        if let Some(waiter) = waiter {
            waiter.wake();
        }
    }
}

/// A handle that had waiters before it came into the set tells its member by a waker.
impl<W: Wake + Send + 'static> std::task::Wake for Member<W> {
    fn wake(self: Arc<Self>) {
        Member::tell(self);
    }
}

impl<W> Waitable<W> for Completions<W> {
    type Key = ();

    unsafe fn withdraw(&self, node: &WaitNode<W>) -> Option<Grant> {
        // SAFETY: the caller upholds the contract.
        let removed = unsafe { self.lock().waiters.remove(node) };
        removed.into_grant()
    }
}

#[cfg(all(test, loom))]
mod models {
    //! Tasks that end against a set that waits, gives up or is dropped. Run: `.ci/run loom`.

    use super::*;
    use crate::base::shim::explore;
    use crate::wait::WaitStanding;
    use loom::thread::{self, Thread};

    type Set = Arc<Completions<Thread>>;

    /// Two members of a set, each told by a thread of its own.
    fn two() -> (Set, [thread::JoinHandle<()>; 2]) {
        let set = Completions::new();
        let tellers = [0, 1].map(|key| {
            let member = Member::new(&set, key);
            thread::spawn(move || Member::tell(member))
        });
        (set, tellers)
    }

    /// Waits once; the member that has ended.
    fn next(set: &Set) -> usize {
        let node = WaitNode::new(());
        // SAFETY: the node stays here until it is granted.
        if unsafe { set.register(&node, thread::current(), None) } {
            loop {
                thread::park();
                if node.standing() != WaitStanding::Queued {
                    break;
                }
            }
        }
        set.take().expect("granted without a member")
    }

    #[test]
    fn every_member_is_found_once() {
        explore("completions: two end", Some(3), || {
            let (set, tellers) = two();
            let mut found = [next(&set), next(&set)];
            found.sort_unstable();
            assert_eq!(found, [0, 1]);
            assert_eq!(set.take(), None);
            tellers.into_iter().for_each(|teller| teller.join().unwrap());
        });
    }

    /// A cancel or a deadline: the waiter withdraws, and the member is found by the next look.
    #[test]
    fn a_waiter_that_gives_up_loses_no_member() {
        explore("completions: a waiter gives up", None, || {
            let set: Set = Completions::new();
            let member = Member::new(&set, 7);
            let teller = thread::spawn(move || Member::tell(member));
            let node = WaitNode::new(());
            // SAFETY: the node stays here until it is withdrawn.
            let granted = unsafe {
                !set.register(&node, thread::current(), None) || set.withdraw(&node).is_some()
            };
            let found = set.take();
            assert!(!granted || found == Some(7), "granted, and lost");
            teller.join().unwrap();
            assert_eq!(found.or_else(|| set.take()), Some(7));
        });
    }

    /// A set that is dropped: members that end meanwhile or later are dropped too.
    #[test]
    fn a_closed_set_keeps_no_member() {
        explore("completions: the set is closed", None, || {
            let (set, tellers) = two();
            set.close();
            tellers.into_iter().for_each(|teller| teller.join().unwrap());
            assert_eq!(Arc::strong_count(&set), 1, "a member is still there");
        });
    }
}
