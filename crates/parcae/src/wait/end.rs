//! The end of a task, for any number of others who wait for it: tasks of any runtime, threads, futures,
//! cases of selects.
//!
//! # States and protocol
//!
//! ```text
//!              register: a place           tell: all places are closed, their waiters woken
//!   running ────────────────────► running ─────────────────────────────────────────────────► ended
//!              register: none ◄─────────────────────────────────────────────────────────────── ended
//! ```
//!
//! One lock guards the mark and the places. [`tell`](End::tell) is called once, after the task's result can be had;
//! it sets the mark and takes all waiters out in one critical section, and wakes them after it. Whoever registers
//! finds the mark, or has a place in the same critical section, which `tell` finds: no wake-up is
//! lost. A place of a select carries its claim, which `tell` sets under the lock as a channel does; a
//! select that is decided is passed over.
//!
//! # Who owns what
//!
//! The end is counted. A [`TaskHandle`](crate::TaskHandle) has one count and puts one into the record of its task
//! (`task::joiner`), which whoever finishes the task takes out, so that it can tell after the record has gone to
//! somebody else. A place belongs to whoever has its ticket, and is given up before that returns. Wakers of
//! futures are code of the program: they are cloned, woken and dropped outside of the lock.
//!
//! # Rejected
//!
//! To replace the one waiter that a record has room for: the worker reads it before it publishes the end, and a
//! second waiter could come in between with the word of the task looking the same as before.

use super::{Claim, PlaceEnd, Places, Ticket, Waiting, Wake};
use super::{Deadline, Ended, Waiter, Why, checkpoint, wait};
use crate::base::error::{Result, discard};
use crate::base::lock::{Guard, Lock};
use crate::scope::cx;
use std::sync::Arc;

/// The end of a task.
pub(crate) struct End<W> {
    state: Lock<State<W>>,
}

struct State<W> {
    ended: bool,
    waiting: Places<(), W>,
}

impl<W> End<W> {
    pub(crate) fn new() -> End<W> {
        End { state: Lock::new(State { ended: false, waiting: Places::new() }) }
    }

    fn lock(&self) -> Guard<'_, State<W>> {
        // Nothing under the lock panics but running out of memory.
        self.state.lock()
    }

    /// How many wait.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn waiting(&self) -> usize {
        self.lock().waiting.len()
    }

    /// Whether it was told. The result can be had then.
    pub(crate) fn has_ended(&self) -> bool {
        self.lock().ended
    }

    /// Takes a place among those who wait; none if the task has ended. A select comes with its claim.
    pub(crate) fn register(&self, waiter: W, claim: Option<(Arc<Claim>, usize)>) -> Option<Ticket> {
        let mut state = self.lock();
        if state.ended {
            drop(state);
            drop(waiter); // outside of the lock
            return None;
        }
        Some(state.waiting.join(Waiting { waiter, claim, value: None }))
    }

    /// Gives a place up; true if it was told, and if it is a select's, has decided it.
    pub(crate) fn withdraw(&self, ticket: Ticket) -> bool {
        let (gone, waiter) = self.lock().waiting.remove(ticket);
        drop(waiter); // outside of the lock
        gone == PlaceEnd::Closed
    }
}

impl<W: Wake> End<W> {
    /// The task has ended. By whoever ended it, once.
    pub(crate) fn tell(&self) {
        let mut waiters = Vec::new();
        let mut state = self.lock();
        state.ended = true;
        state.waiting.close(&mut waiters);
        drop(state);
        waiters.iter().for_each(Wake::wake);
        discard(waiters); // wakers of the program, on a worker
    }
}

/// A place that is given up with this.
pub(crate) struct Place<'e> {
    end: &'e End<Waiter>,
    ticket: Option<Ticket>,
}

impl End<Waiter> {
    /// A place for the caller; none if the task has ended.
    pub(crate) fn place(&self) -> Option<Place<'_>> {
        let ticket = self.register(Waiter::current(), None)?;
        Some(Place { end: self, ticket: Some(ticket) })
    }

    /// Waits until the task has ended, or until the deadline. A cancel point if it has to wait.
    pub(crate) fn wait(&self, deadline: Deadline, why: Why<'_>) -> Result<Ended> {
        let Some(_place) = self.place() else { return Ok(Ended::Woken) };
        loop {
            let ended = wait(deadline, why);
            if self.has_ended() {
                return Ok(Ended::Woken);
            }
            if ended? == Ended::TimedOut {
                if let Some(frame) = cx::current() {
                    checkpoint(frame)?; // a loop around a wait for no time at all costs something
                }
                return Ok(Ended::TimedOut);
            }
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.end.withdraw(ticket);
        }
    }
}

/// The place of a future, whose waker may be another one at each poll.
#[derive(Debug, Default)]
pub(crate) struct Polled(Option<Ticket>);

impl Polled {
    /// Whether the task has ended; if not, this waker will be woken, and no earlier one.
    pub(crate) fn poll(&mut self, end: &End<Waiter>, waker: &std::task::Waker) -> bool {
        self.withdraw(end);
        self.0 = end.register(Waiter::Future(waker.clone()), None);
        self.0.is_none()
    }

    /// The future is ready, or gone.
    pub(crate) fn withdraw(&mut self, end: &End<Waiter>) {
        if let Some(ticket) = self.0.take() {
            end.withdraw(ticket);
        }
    }
}

/// A task whose end can be waited for: a [`TaskHandle`](crate::TaskHandle) or a [`RootTask`](crate::RootTask).
pub trait Ends {
    /// Whether it has ended.
    fn has_ended(&self) -> bool;

    /// Where to wait for that.
    #[doc(hidden)]
    fn end(&self) -> TaskEnd<'_>;
}

/// Where the end of a task is waited for.
pub struct TaskEnd<'t>(pub(crate) &'t End<Waiter>);

impl std::fmt::Debug for TaskEnd<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TaskEnd")
    }
}

#[cfg(all(test, loom))]
mod models {
    //! The end of a task against those who come to wait for it. Run: `.ci/run loom`.

    use super::*;
    use crate::base::shim::cell::UnsafeCell;
    use crate::base::shim::explore;
    use loom::sync::Arc as Shared;
    use loom::thread::{self, Thread};

    /// A task: its result, written before it is told.
    struct World {
        end: End<Thread>,
        result: UnsafeCell<u32>,
    }

    // SAFETY: what the models are to show.
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
                // SAFETY: checked by loom.
                world.result.with_mut(|result| unsafe { *result = 7 });
                world.end.tell();
            })
        }

        /// What whoever knows of the end may do.
        fn take(&self) {
            // SAFETY: checked by loom.
            self.result.with(|result| assert_eq!(unsafe { *result }, 7, "told too early"));
        }

        fn wait(&self) {
            if let Some(ticket) = self.end.register(thread::current(), None) {
                while !self.end.has_ended() {
                    thread::park();
                }
                assert!(self.end.withdraw(ticket), "ended, and not told");
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
            let mut place = None;
            loop {
                if let Some(ticket) = place.take() {
                    world.end.withdraw(ticket);
                }
                place = world.end.register(thread::current(), None);
                if place.is_none() {
                    break;
                }
                thread::park();
            }
            world.take();
            finisher.join().unwrap();
        });
    }

    #[test]
    fn all_who_wait_are_told() {
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

    /// A select of two tasks: it has one winner, which has ended; the other is told to nobody.
    // rule: S4-SELECT-1
    #[test]
    fn a_select_of_two_tasks_has_one_winner() {
        explore("end: a select", None, || {
            let worlds = [World::new(), World::new()];
            let finishers = [0, 1].map(|i| World::finish(&worlds[i]));
            let claim = Arc::new(Claim::new());
            let mut tickets = [None, None];
            for (i, world) in worlds.iter().enumerate() {
                tickets[i] = world.end.register(thread::current(), Some((Arc::clone(&claim), i)));
                if tickets[i].is_none() {
                    claim.fire(i);
                }
                if !claim.is_open() {
                    break;
                }
            }
            let winner = loop {
                match claim.winner() {
                    Some(winner) => break winner,
                    None => thread::park(),
                }
            };
            for (i, ticket) in tickets.into_iter().enumerate() {
                if let Some(ticket) = ticket {
                    assert_eq!(worlds[i].end.withdraw(ticket), i == winner, "told the wrong case");
                }
            }
            worlds[winner].take();
            finishers.into_iter().for_each(|finisher| finisher.join().unwrap());
        });
    }
}
