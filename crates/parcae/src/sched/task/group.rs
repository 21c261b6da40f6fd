//! Groups: a task that waits until all tasks that it spawned have ended.
//!
//! The counter is *biased*. Only the owner spawns, so it counts children in a plain cell; each
//! child that ends subtracts one from an atomic, which starts at a number larger than any count.
//! When the owner has spawned its last child it subtracts the difference, so that zero means "all
//! ended":
//!
//! ```text
//! remaining:  BIAS ──── ended children take 1 each ────►  BIAS − ended
//! close:      − (BIAS − spawned)                      ►  spawned − ended
//! ```
//!
//! So spawning costs the owner no atomic operation. Other tasks and threads that spawn into the
//! group add one to the atomic instead ([`Group::add_shared`]). They are children that are not
//! counted as ended, or run before the owner has closed the group; in both cases the counter cannot
//! reach 0 before they have added to it.
//!
//! A worker that runs several children of one group in a row counts them together when it turns to
//! other work (see `worker`): while it runs a child the group is not complete anyway.
//!
//! # Why no wake-up is lost, and no thread touches a group that is gone
//!
//! The owner parks until it reads 0. The worker that brings the counter to 0 unparks the owner
//! after that; the state word latches an unpark that comes early. The owner may read 0 and continue
//! (and free the group, which is on its stack) before the last child calls unpark. A child
//! therefore copies the owner's handle *before* it counts down, and does not touch the group
//! afterwards.

use super::{TaskRef, TenantIndex};
use crate::base::shim::atomic::{AtomicUsize, Ordering};
use crate::base::shim::{Mutex, PoisonError};
use std::any::Any;

/// More than any number of children.
const BIAS: usize = 1 << (usize::BITS - 2);

/// Children and the task that waits for them.
pub(crate) struct Group {
    remaining: AtomicUsize,
    /// Number of children that the owner has spawned. Written by the owner alone, without a
    /// read-modify-write; other threads read it for statistics.
    spawned: AtomicUsize,
    owner: TaskRef,
    /// The tenant that its children belong to.
    pub(crate) tenant: TenantIndex,
    /// The first panic of a child.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

impl Group {
    pub(crate) fn new(owner: TaskRef) -> Group {
        Group::of_tenant(owner, TenantIndex::DEFAULT)
    }

    /// As [`new`](Group::new), of a tenant.
    pub(crate) fn of_tenant(owner: TaskRef, tenant: TenantIndex) -> Group {
        Group {
            remaining: AtomicUsize::new(BIAS),
            spawned: AtomicUsize::new(0),
            owner,
            tenant,
            panic: Mutex::new(None),
        }
    }

    /// The task that waits for the children.
    #[inline]
    pub(crate) fn owner(&self) -> TaskRef {
        self.owner
    }

    /// Counts a child. Called by the owner.
    #[inline]
    pub(crate) fn add(&self) {
        // Relaxed, both: only the owner writes it.
        self.spawned.store(self.spawned.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Counts a child that a task or thread other than the owner spawns. The caller keeps the group
    /// from completing, see the header, and calls this before the child can end.
    pub(crate) fn add_shared(&self) {
        // Relaxed: the count of the caller, or the owner, keeps the counter above 0.
        self.remaining.fetch_add(1, Ordering::Relaxed);
    }

    /// Reverts [`add_shared`](Group::add_shared), if the child was not spawned.
    pub(crate) fn sub_shared(&self) {
        self.remaining.fetch_sub(1, Ordering::Relaxed); // as above
    }

    /// Number of children that are not counted as ended.
    pub(crate) fn live(&self) -> usize {
        // Relaxed: statistics.
        let remaining = self.remaining.load(Ordering::Relaxed);
        let closed = remaining < BIAS / 2;
        let spawned = self.spawned.load(Ordering::Relaxed); // statistics
        if closed { remaining } else { (spawned + remaining).saturating_sub(BIAS) }
    }

    /// Declares that there will be no more children. Called once, by the owner.
    pub(crate) fn close(&self) {
        // Relaxed: `is_empty` below acquires the writes of the children.
        let spawned = self.spawned.load(Ordering::Relaxed); // the owner's own
        self.remaining.fetch_sub(BIAS - spawned, Ordering::Relaxed);
    }

    /// Whether all children have ended, after `close`.
    pub(crate) fn is_empty(&self) -> bool {
        // Acquire: pairs with the Release of `complete`: the owner sees the writes of the children.
        self.remaining.load(Ordering::Acquire) == 0
    }

    /// Counts children that have ended; returns the owner if it has to be woken.
    ///
    /// # Safety
    ///
    /// Each child is counted once, when it can no longer use borrows from the owner. The group may
    /// be gone when this returns.
    pub(crate) unsafe fn complete(group: *const Group, children: usize) -> Option<TaskRef> {
        // SAFETY: the owner does not leave before these children are counted.
        unsafe {
            let owner = (*group).owner;
            // AcqRel. Release: pairs with the Acquire of `is_empty`. Acquire: the last one
            // orders the others before its wake.
            let before = (*group).remaining.fetch_sub(children, Ordering::AcqRel);
            (before == children).then_some(owner)
        }
    }

    /// Keeps the first panic. Returns any other, to be dropped outside of the lock.
    pub(crate) fn panicked(&self, payload: Box<dyn Any + Send>) -> Option<Box<dyn Any + Send>> {
        let mut first = self.panic.lock().unwrap_or_else(PoisonError::into_inner);
        if first.is_some() {
            return Some(payload);
        }
        *first = Some(payload);
        None
    }

    /// The first panic of a child, when all have ended.
    pub(crate) fn take_panic(&self) -> Option<Box<dyn Any + Send>> {
        self.panic.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[cfg(all(test, loom))]
mod models {
    //! Completion against join, with the state word that the owner really parks on.

    use super::*;
    use crate::base::shim::cell::UnsafeCell;
    use crate::base::shim::explore;
    use crate::sched::task::Task;
    use crate::sched::task::state::{Mobility, Parking, RecordHandle, Woken};
    use loom::sync::Arc;
    use loom::thread;
    use std::ptr::NonNull;

    struct World {
        /// Represents the owner's stack, where the group lies: written when the owner leaves.
        stack: UnsafeCell<bool>,
        /// The work of a child, for the owner to see.
        work: [UnsafeCell<bool>; 2],
        group: Group,
        owner: TaskRef,
    }

    // SAFETY: the model is about just that.
    unsafe impl Send for World {}
    // SAFETY: as above.
    unsafe impl Sync for World {}

    impl World {
        /// Children `from..to` end and are counted together.
        fn end(&self, from: usize, to: usize) {
            for work in &self.work[from..to] {
                // SAFETY: checked by loom.
                work.with_mut(|work| unsafe { *work = true });
            }
            // SAFETY: each child once; loom checks that the owner has not left.
            let owner = unsafe {
                self.stack.with(|left| assert!(!*left, "the owner has left"));
                Group::complete(&raw const self.group, to - from)
            };
            if let Some(owner) = owner {
                // SAFETY: the record outlives the model.
                let state = unsafe { &owner.task.as_ref().state };
                if let Woken::Enqueue { .. } = state.unpark(owner.generation) {
                    state.claim(0); // the owner's worker takes it out of its queue
                }
            }
        }

        /// The owner waits for two children, and leaves.
        fn join(&self) {
            // SAFETY: the record outlives the model.
            let state = unsafe { &self.owner.task.as_ref().state };
            self.group.close();
            while !self.group.is_empty() {
                if state.park(Mobility::Movable) == Parking::Parked {
                    while state.is_parked() {
                        thread::yield_now();
                    }
                }
            }
            for work in &self.work {
                // SAFETY: checked by loom.
                work.with(|work| assert!(unsafe { *work }, "counted before it was done"));
            }
            // SAFETY: checked by loom: the group is not touched any more.
            self.stack.with_mut(|left| unsafe { *left = true });
        }
    }

    fn world() -> Arc<World> {
        let record = NonNull::from(Box::leak(Box::new(Task::free())));
        // SAFETY: just made.
        let state = unsafe { &record.as_ref().state };
        let generation = state.spawn(RecordHandle::None);
        state.claim(0);
        let owner = TaskRef { task: record, generation };
        let group = Group::new(owner);
        group.add();
        group.add();
        Arc::new(World {
            stack: UnsafeCell::new(false),
            work: [UnsafeCell::new(false), UnsafeCell::new(false)],
            group,
            owner,
        })
    }

    /// Two children on two workers end while the owner begins to wait.
    // rule: S1-AWAIT-3, S1-AWAIT-4, S1-NOTIFY-3, S1-NOTIFY-4
    #[test]
    fn group_complete_against_join() {
        explore("group_complete_against_join", None, || {
            let world = world();
            let children: Vec<_> = (0..2)
                .map(|child| {
                    let world = Arc::clone(&world);
                    thread::spawn(move || world.end(child, child + 1))
                })
                .collect();
            world.join();
            children.into_iter().for_each(|child| child.join().unwrap());
        });
    }

    /// The owner is a task that has not started and represents a thread (`foreign::nursery`): it is
    /// parked from the beginning, and waking it runs it. It runs once, and the thread continues
    /// only when both children are counted.
    #[test]
    fn group_complete_against_a_thread() {
        explore("group_complete_against_a_thread", None, || {
            let world = world();
            let runs = Arc::new(AtomicUsize::new(0));
            // SAFETY: the record outlives the model.
            let state = unsafe { &world.owner.task.as_ref().state };
            assert_eq!(state.park(Mobility::Movable), Parking::Parked);
            let unpark = |owner: TaskRef, runs: &AtomicUsize| {
                // SAFETY: the record outlives the model.
                let state = unsafe { &owner.task.as_ref().state };
                if let Woken::Enqueue { .. } = state.unpark(owner.generation) {
                    runs.fetch_add(1, Ordering::Release); // stands for the event, once it has run
                }
            };
            let children: Vec<_> = (0..2)
                .map(|child| {
                    let (world, runs) = (Arc::clone(&world), Arc::clone(&runs));
                    thread::spawn(move || {
                        // SAFETY: checked by loom.
                        world.work[child].with_mut(|work| unsafe { *work = true });
                        // SAFETY: each child once; loom checks that the owner has not left.
                        let owner = unsafe {
                            world.stack.with(|left| assert!(!*left, "the thread has left"));
                            Group::complete(&raw const world.group, 1)
                        };
                        if let Some(owner) = owner {
                            unpark(owner, &runs);
                        }
                    })
                })
                .collect();
            world.group.close();
            if world.group.is_empty() {
                unpark(world.owner, &runs);
            } else {
                while runs.load(Ordering::Acquire) == 0 {
                    thread::yield_now();
                }
                assert!(world.group.is_empty(), "woken too early");
            }
            for work in &world.work {
                // SAFETY: checked by loom.
                work.with(|work| assert!(unsafe { *work }, "counted before it was done"));
            }
            // SAFETY: checked by loom: the group is not touched any more.
            world.stack.with_mut(|left| unsafe { *left = true });
            children.into_iter().for_each(|child| child.join().unwrap());
            assert_eq!(runs.load(Ordering::Acquire), 1, "the proxy runs once");
        });
    }

    /// Both children are counted at once, by one worker.
    // rule: S1-AWAIT-3, S1-AWAIT-4, S1-NOTIFY-3, S1-NOTIFY-4
    #[test]
    fn group_complete_two_at_once() {
        explore("group_complete_two_at_once", None, || {
            let world = world();
            let children = {
                let world = Arc::clone(&world);
                thread::spawn(move || world.end(0, 2))
            };
            world.join();
            children.join().unwrap();
        });
    }
}
