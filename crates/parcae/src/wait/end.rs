//! The end of a task, for any number of waiters: tasks of any runtime, threads, futures, cases of
//! selects.
//!
//! # States and protocol
//!
//! ```text
//!             register: queued                notify: all waiters granted, then woken
//!   running ────────────────────► running ──────────────────────────────────────────────► ended
//!             register: false ◄──────────────────────────────────────────────────────────── ended
//! ```
//!
//! One lock guards the mark and the queue. [`notify`](End::notify) is called once, when the task's
//! result is available. It sets the mark and grants all waiters in one critical section, and wakes
//! them after it. A caller that registers finds the mark, or joins the queue in the same critical
//! section, and `notify` finds it there: no wake-up is lost. The node of a select carries its
//! claim, which `notify` wins under the lock as a channel does; a decided select is skipped.
//!
//! # Ownership
//!
//! An `End` is reference-counted. A [`TaskHandle`](crate::TaskHandle) owns one count and puts
//! another into the record of its task (`task::joiner`). The worker that finishes the task takes
//! that count out, so that it can notify after the record was reused. A node belongs to its waiter,
//! which removes it before it returns. Wakers of futures are user code: they are cloned, woken and
//! dropped outside of the lock.
//!
//! # Rejected
//!
//! Replacing the one joiner that a record has room for: the worker reads it before it publishes the
//! end, and a second waiter could come in between while the task's state word is unchanged.

use super::queue::{CaseClaim, Grant, Queue, WaitNode};
use super::{Waitable, Waiter, Wake};
use crate::base::error::discard;
use crate::base::lock::{Guard, Lock};
use crate::sched::task::joiner::{JoinHook, Joiner};
use std::ptr::NonNull;
use std::sync::Arc;

/// The end of a task.
#[repr(C)]
pub(crate) struct End<W> {
    hook: JoinHook,
    state: Lock<EndState<W>>,
}

struct EndState<W> {
    ended: bool,
    waiters: Queue<W>,
}

impl<W: Wake> End<W> {
    pub(crate) fn new() -> End<W> {
        End {
            hook: JoinHook { tell: End::<W>::tell_joined },
            state: Lock::new(EndState { ended: false, waiters: Queue::new() }),
        }
    }

    /// This end as the joiner of a task. The count moves to JOIN.
    pub(crate) fn joiner(this: Arc<End<W>>) -> Joiner {
        // SAFETY: the pointer of an `Arc` is not null. The hook is the first field.
        Joiner::hook(unsafe { NonNull::new_unchecked(Arc::into_raw(this).cast_mut().cast()) })
    }

    /// The end, with JOIN's count. `None` if the joiner is a task.
    ///
    /// # Safety
    ///
    /// The joiner was made by [`joiner`](End::joiner) or is a task. The caller has taken JOIN out
    /// of the state word, or has not set it.
    pub(crate) unsafe fn of_joiner(joiner: Joiner) -> Option<Arc<End<W>>> {
        // SAFETY: the caller upholds the contract.
        joiner.as_hook().map(|hook| unsafe { Arc::from_raw(hook.as_ptr().cast::<End<W>>()) })
    }

    /// # Safety
    ///
    /// `hook` is that of an end, with a count for the callee.
    unsafe fn tell_joined(hook: NonNull<JoinHook>) {
        // SAFETY: the caller upholds the contract.
        unsafe { Arc::from_raw(hook.as_ptr().cast::<End<W>>()) }.notify();
    }
}

impl<W> End<W> {
    fn lock(&self) -> Guard<'_, EndState<W>> {
        self.state.lock()
    }

    /// Number of waiters.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn waiting(&self) -> usize {
        self.lock().waiters.len()
    }

    /// Whether the task has ended, so that its result is available.
    pub(crate) fn has_ended(&self) -> bool {
        self.lock().ended
    }

    /// Queues a node. Returns false if the task has ended. A select passes its claim.
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
        let mut state = self.lock();
        if state.ended {
            drop(state);
            drop(waiter); // outside of the lock
            return false;
        }
        // SAFETY: the caller upholds the contract.
        unsafe { state.waiters.push(node, waiter, claim) };
        true
    }
}

impl<W> Waitable<W> for End<W> {
    type Key = ();

    unsafe fn withdraw(&self, node: &WaitNode<W>) -> Option<Grant> {
        // SAFETY: the caller upholds the contract.
        let removed = unsafe { self.lock().waiters.remove(node) };
        removed.into_grant()
    }
}

impl<W: Wake> End<W> {
    /// Marks the task as ended and wakes all waiters. Called once.
    pub(crate) fn notify(&self) {
        let mut woken = Vec::new();
        let mut state = self.lock();
        state.ended = true;
        state.waiters.grant_all(Grant::All, None, |()| true, &mut woken);
        drop(state);
        woken.iter().for_each(Wake::wake);
        discard(woken); // user code, on a worker
    }
}

/// The node of a future, whose waker may change at each poll.
#[derive(Default)]
pub(crate) struct Polled(Option<Box<WaitNode<Waiter>>>);

impl Polled {
    /// Whether the task has ended. If not, this waker replaces the earlier one.
    pub(crate) fn poll(&mut self, end: &End<Waiter>, waker: &std::task::Waker) -> bool {
        self.withdraw(end);
        let node = self.0.insert(Box::new(WaitNode::new(())));
        // SAFETY: boxed, and withdrawn before the box is dropped.
        let queued = unsafe { end.register(node, Waiter::Future(waker.clone()), None) };
        if !queued {
            self.0 = None;
        }
        !queued
    }

    /// Removes the node, when the future is ready or dropped. Called before the box is dropped.
    pub(crate) fn withdraw(&mut self, end: &End<Waiter>) {
        if let Some(node) = self.0.take() {
            // SAFETY: the node is used with this end only.
            unsafe { end.withdraw(&node) };
        }
    }
}

impl Drop for Polled {
    fn drop(&mut self) {
        // Its handle has withdrawn the node. Otherwise the end would have a dangling pointer to it.
        debug_assert!(self.0.is_none(), "dropped in its queue");
        std::mem::forget(self.0.take());
    }
}

/// A task whose end can be waited for: a [`TaskHandle`](crate::TaskHandle) or a
/// [`RootTask`](crate::RootTask).
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no end to wait for",
    note = "wait for a `&TaskHandle` of a nursery or a `&RootTask` of a runtime"
)]
pub trait Ends {
    /// Whether the task has ended.
    fn has_ended(&self) -> bool;

    /// The end as an object to wait for.
    #[doc(hidden)]
    fn end(&self) -> TaskEnd<'_>;
}

/// The end of a task, as an object to wait for.
pub struct TaskEnd<'t>(pub(crate) &'t End<Waiter>);

impl std::fmt::Debug for TaskEnd<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TaskEnd")
    }
}

#[cfg(all(test, loom))]
mod models {
    //! The end of a task against waiters that come at the same time. Run: `.ci/run loom`.

    use super::*;
    use crate::base::shim::cell::UnsafeCell;
    use crate::base::shim::explore;
    use crate::wait::Claim;
    use crate::wait::WaitStanding;
    use loom::sync::Arc as Shared;
    use loom::thread::{self, Thread};

    /// A task whose result is written before its end is announced.
    struct World {
        end: End<Thread>,
        result: UnsafeCell<u32>,
    }

    // SAFETY: the models check it.
    unsafe impl Sync for World {}
    // SAFETY: as above.
    unsafe impl Send for World {}

    impl World {
        fn new() -> Shared<World> {
            Shared::new(World { end: End::new(), result: UnsafeCell::new(0) })
        }

        fn finish(world: &Shared<World>) -> thread::JoinHandle<()> {
            let world = Shared::clone(world);
            thread::spawn(move || {
                // SAFETY: loom checks it.
                world.result.with_mut(|result| unsafe { *result = 7 });
                world.end.notify();
            })
        }

        /// Reads the result, as a waiter that has seen the end may.
        fn take(&self) {
            // SAFETY: loom checks it.
            self.result.with(|result| assert_eq!(unsafe { *result }, 7, "announced too early"));
        }

        fn wait(&self) {
            let node = WaitNode::new(());
            // SAFETY: the node stays here until it is granted.
            if unsafe { self.end.register(&node, thread::current(), None) } {
                // Parked for each wake: an unpark that comes while a thread waits for a mutex or a
                // join confuses loom.
                loop {
                    thread::park();
                    if node.standing() != WaitStanding::Queued {
                        break;
                    }
                }
                assert_eq!(node.standing(), WaitStanding::Granted(Grant::All));
            }
            self.take();
        }
    }

    /// A future: registers at every poll, and is polled again whenever it is woken.
    // rule: S4-MEM-1
    #[test]
    fn finish_against_a_waker_that_is_registered() {
        explore("end: finish against a waker", None, || {
            let world = World::new();
            let finisher = World::finish(&world);
            let node = WaitNode::new(());
            // SAFETY: the node stays here until it is withdrawn.
            while unsafe { world.end.register(&node, thread::current(), None) } {
                thread::park();
                // SAFETY: as above.
                unsafe { world.end.withdraw(&node) };
            }
            world.take();
            finisher.join().unwrap();
        });
    }

    #[test]
    fn all_waiters_are_woken() {
        explore("end: two wait", Some(3), || {
            let world = World::new();
            let finisher = World::finish(&world);
            let other = {
                let world = Shared::clone(&world);
                thread::spawn(move || world.wait())
            };
            world.wait();
            other.join().unwrap();
            finisher.join().unwrap();
        });
    }

    /// A select of two tasks: it has one winner, which has ended. The other case is lost.
    // rule: S4-SELECT-1
    #[test]
    fn a_select_of_two_tasks_has_one_winner() {
        explore("end: a select", None, || {
            let worlds = [World::new(), World::new()];
            let finishers = [0, 1].map(|i| World::finish(&worlds[i]));
            let claim = Claim::new();
            let nodes = [WaitNode::new(()), WaitNode::new(())];
            let mut queued = [false; 2];
            for (i, world) in worlds.iter().enumerate() {
                // SAFETY: nodes and claim stay here until all nodes are withdrawn.
                queued[i] = unsafe {
                    let case = Some(CaseClaim::new(&claim, i));
                    world.end.register(&nodes[i], thread::current(), case)
                };
                if !queued[i] {
                    claim.fire(i);
                }
                if !claim.is_open() {
                    break;
                }
            }
            let winner = loop {
                if queued[0] && queued[1] {
                    thread::park(); // for each wake, as above
                }
                if let Some(winner) = claim.winner() {
                    break winner;
                }
            };
            for (i, node) in nodes.iter().enumerate() {
                // SAFETY: as above.
                let granted = unsafe { worlds[i].end.withdraw(node) }.is_some();
                assert_eq!(granted, queued[i] && i == winner, "granted to the wrong case");
            }
            worlds[winner].take();
            finishers.into_iter().for_each(|finisher| finisher.join().unwrap());
        });
    }
}
