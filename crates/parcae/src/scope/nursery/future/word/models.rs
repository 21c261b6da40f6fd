//! The word of a future together with the state word of its task, under loom.
//!
//! The future is a cell that loom watches: two polls at a time, or a poll that does not see the
//! writes of the last one, is an error that loom finds. Run: `.ci/run loom`.

use super::*;
use crate::base::shim::explore;
use crate::sched::task::state::{Generation, Mobility, Parking, RecordHandle, StateWord, Woken};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::AtomicBool;
use loom::thread;

/// Maximum number of preemptions in a schedule: enough to find every listed mutation.
const BOUND: Option<usize> = Some(3);

/// Whether the poll waits like any task, and so consumes a wake of the state word.
#[derive(Clone, Copy, PartialEq)]
enum Inside {
    Waits,
    Nothing,
}

struct World {
    word: FutureWord,
    state: StateWord,
    generation: Generation,
    polls: UnsafeCell<u32>,
    /// The conditions of the future. Relaxed throughout: the words order it.
    conditions: [AtomicBool; 2],
    inside: Inside,
}

impl World {
    fn new(inside: Inside) -> Arc<World> {
        let state = StateWord::new();
        let generation = state.spawn(RecordHandle::None);
        let conditions = [AtomicBool::new(false), AtomicBool::new(false)];
        let (word, polls) = (FutureWord::new(), UnsafeCell::new(0));
        Arc::new(World { word, state, generation, polls, conditions, inside })
    }

    /// Whether the first `wanted` conditions hold; as a poll finds it.
    fn poll(&self, wanted: usize) -> bool {
        self.polls.with_mut(|polls| {
            // SAFETY: the model's claim, which loom checks.
            unsafe { *polls += 1 };
        });
        let holds = |condition: &AtomicBool| condition.load(Ordering::Relaxed);
        let ready = self.conditions[..wanted].iter().all(holds);
        if !ready && self.inside == Inside::Waits {
            self.state.take_wake(); // a wait that is over, whatever it was for
        }
        ready
    }

    /// Calls of the task by one worker until it has ended (true), or is parked.
    fn call(&self, worker: usize, mut first: bool, wanted: usize) -> bool {
        loop {
            self.state.claim(worker);
            if std::mem::take(&mut first) || self.word.is_notified() {
                self.word.begin_poll();
                if self.poll(wanted) {
                    self.word.end();
                    self.state.finish(|| ());
                    return true;
                }
            }
            if self.word.is_notified() {
                self.state.unpark(self.generation);
            }
            match self.state.park(Mobility::Movable) {
                Parking::Parked => return false,
                Parking::Woken => self.state.release(),
            }
        }
    }

    /// Makes a condition true and wakes; runs the task if it has to enqueue it.
    fn wake(&self, condition: usize, wanted: usize) -> bool {
        self.conditions[condition].store(true, Ordering::Relaxed);
        if self.word.notify() == Notice::First
            && let Woken::Enqueue { .. } = self.state.unpark(self.generation)
        {
            return self.call(1 + condition, false, wanted);
        }
        false
    }
}

fn one_waker(name: &str, inside: Inside) {
    explore(name, BOUND, move || {
        let world = World::new(inside);
        let waker = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.wake(0, 1))
        };
        let ended = world.call(0, true, 1);
        let ended = u32::from(ended) + u32::from(waker.join().unwrap());
        assert_eq!(ended, 1, "a wake was lost, or the future ended twice");
    });
}

/// A poll against a wake.
#[test]
fn poll_against_wake() {
    one_waker("future::poll_against_wake", Inside::Nothing);
}

/// The same, with a poll that consumes wakes of the state word.
#[test]
fn poll_that_waits_against_wake() {
    one_waker("future::poll_that_waits_against_wake", Inside::Waits);
}

/// Two wakers, each with a condition of its own: the second one may leave the unpark to the first.
#[test]
fn poll_against_two_wakes() {
    explore("future::poll_against_two_wakes", BOUND, || {
        let world = World::new(Inside::Waits);
        let wakers = [0, 1].map(|condition| {
            let world = Arc::clone(&world);
            thread::spawn(move || world.wake(condition, 2))
        });
        let ended = u32::from(world.call(0, true, 2));
        let ended = wakers.into_iter().fold(ended, |sum, w| sum + u32::from(w.join().unwrap()));
        assert_eq!(ended, 1, "a wake was lost, or the future ended twice");
    });
}

/// The task and two wakers let go of the cell: one of them frees it, after all have used it.
#[test]
fn the_last_reference_frees() {
    explore("future::the_last_reference_frees", BOUND, || {
        let cell = Arc::new((FutureWord::new(), UnsafeCell::new(0_u32)));
        cell.0.add();
        cell.0.add();
        let go = |cell: &(FutureWord, UnsafeCell<u32>)| {
            cell.1.with(|content| {
                // SAFETY: as above: loom checks it.
                unsafe { *content }
            });
            let last = cell.0.remove();
            if last {
                // SAFETY: as above.
                cell.1.with_mut(|content| unsafe { *content = 1 });
            }
            u32::from(last)
        };
        let wakers = [(), ()].map(|()| {
            let cell = Arc::clone(&cell);
            thread::spawn(move || go(&cell))
        });
        let freed = wakers.into_iter().fold(go(&cell), |sum, w| sum + w.join().unwrap());
        assert_eq!(freed, 1);
    });
}
