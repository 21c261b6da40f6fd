//! The state word under loom.
//!
//! The stack of the task is modelled as a cell that loom watches: whoever runs the task
//! writes to it, so two workers on one stack, or a worker that does not see what the last
//! one left, is an error that loom finds. Run: `.ci/run loom`.

use super::*;
use crate::shim::explore;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::AtomicBool;
use loom::thread;

/// Preemptions that a schedule may have: enough for every bug that was put in on purpose.
const BOUND: Option<usize> = Some(4);

/// A task: its word, its stack, and what it waits for.
struct Modelled {
    word: StateWord,
    stack: UnsafeCell<u32>,
    condition: AtomicBool,
}

fn modelled() -> (Arc<Modelled>, Generation) {
    let task = Modelled {
        word: StateWord::new(),
        stack: UnsafeCell::new(0),
        condition: AtomicBool::new(false),
    };
    let generation = task.word.spawn(Handle::None);
    (Arc::new(task), generation)
}

/// What a worker does with a task that it dequeued: run it until its condition holds.
/// Returns whether the task ended; otherwise it is parked and somebody else's.
fn run(task: &Modelled, worker: usize) -> bool {
    task.word.claim(worker);
    loop {
        task.stack.with_mut(|stack| {
            // SAFETY: the model's claim, which loom checks.
            unsafe { *stack += 1 };
        });
        // Relaxed: the word orders it.
        if task.condition.load(std::sync::atomic::Ordering::Relaxed) {
            task.word.finish(|| ());
            return true;
        }
        match task.word.park() {
            Parking::Parked => return false,
            Parking::Woken => {}
        }
    }
}

/// A waker: condition first, then the wake; runs the task itself if it has to enqueue it.
fn wake(task: &Modelled, generation: Generation, worker: usize) -> bool {
    task.condition.store(true, std::sync::atomic::Ordering::Relaxed);
    match task.word.unpark(generation) {
        Woken::Enqueue { .. } => run(task, worker),
        Woken::Noted | Woken::Stale => false,
    }
}

/// A park against an unpark: the task ends exactly once, whoever ends it.
#[test]
fn park_against_unpark() {
    explore("state::park_against_unpark", BOUND, || {
        let (task, generation) = modelled();
        let waker = {
            let task = Arc::clone(&task);
            thread::spawn(move || wake(&task, generation, 1))
        };
        let here = run(&task, 0);
        let there = waker.join().unwrap();
        assert!(here != there, "ended {}", if here { "twice" } else { "never" });
    });
}

/// Two unparkers: one enqueues at most, and the task ends exactly once.
#[test]
fn two_unparkers() {
    explore("state::two_unparkers", BOUND, || {
        let (task, generation) = modelled();
        let wakers: Vec<_> = (1..=2)
            .map(|worker| {
                let task = Arc::clone(&task);
                thread::spawn(move || wake(&task, generation, worker))
            })
            .collect();
        let mut ends = usize::from(run(&task, 0));
        for waker in wakers {
            ends += usize::from(waker.join().unwrap());
        }
        assert_eq!(ends, 1);
    });
}

/// A cancel against a park: the request is seen, and the task does not sleep through it.
#[test]
fn cancel_against_park() {
    explore("state::cancel_against_park", BOUND, || {
        let (task, generation) = modelled();
        let canceller = {
            let task = Arc::clone(&task);
            thread::spawn(move || match task.word.cancel(generation) {
                Woken::Enqueue { .. } => {
                    task.word.claim(1);
                    assert!(task.word.is_cancelled());
                    true
                }
                _ => false,
            })
        };
        task.word.claim(0);
        let mut saw = false;
        loop {
            if task.word.is_cancelled() {
                saw = true;
                break;
            }
            if task.word.park() == Parking::Parked {
                break;
            }
        }
        let woke = canceller.join().unwrap();
        assert!(saw != woke, "the request was seen {}", if saw { "twice" } else { "never" });
    });
}

/// A task that yields and may move: the next worker sees its stack.
#[test]
fn yield_moves_the_stack() {
    explore("state::yield_moves_the_stack", BOUND, || {
        let (task, _) = modelled();
        task.word.claim(0);
        let next = {
            let task = Arc::clone(&task);
            thread::spawn(move || {
                // Takes the task out of a queue as soon as it is in one.
                let word = task.word.0.load(Ordering::Acquire);
                if word & PHASE == QUEUED {
                    return run(&task, 1);
                }
                false
            })
        };
        // SAFETY: owned by this worker.
        task.stack.with_mut(|stack| unsafe { *stack += 1 });
        task.condition.store(true, std::sync::atomic::Ordering::Relaxed);
        task.word.release();
        next.join().unwrap();
    });
}

/// A stale waker against the end, recycling and next life of a record: it never wakes the
/// next life, or if it is that early, its wake is the last life's.
#[test]
fn a_recycled_record_is_not_woken() {
    explore("state::a_recycled_record_is_not_woken", BOUND, || {
        let (task, old) = modelled();
        task.word.claim(0);
        let stale = {
            let task = Arc::clone(&task);
            thread::spawn(move || task.word.unpark(old))
        };
        task.word.finish(|| ());
        task.word.recycle();
        task.word.spawn(Handle::None);
        task.word.claim(0);
        assert_eq!(task.word.park(), Parking::Parked, "woken by a handle to the last life");
        assert!(!matches!(stale.join().unwrap(), Woken::Enqueue { .. }));
    });
}
