//! The deque under loom: every interleaving, and every value that a weak memory may give.
//!
//! In each model the main thread owns the deque. A task holds a plain cell, written just before
//! the push and changed by its taker: loom reports a task that is seen too early or taken by
//! two, the count at the end one that got lost.
//!
//! ```sh
//! RUSTFLAGS="--cfg loom" cargo test --release -p parcae --lib deque::models -- \
//!     --nocapture --test-threads=1
//! ```
//!
//! # What loom cannot see here
//!
//! A load in loom never gives a value that is stored later in the same execution. Point 4 of
//! the module header (the thief's read of a slot comes before the store that reuses it) speaks
//! of just that, so weakening the owner's acquire reads of `top`, or the release half of the
//! CAS in `steal`, changes no model. And loom takes `SeqCst` accesses for `AcqRel`.

#![allow(clippy::print_stdout)] // the figures are for people

use super::{CAPACITY, DequeOwner, Steal, Stealer, deque};
use crate::base::shim::explore;
use loom::cell::UnsafeCell;
use loom::thread;
use std::ptr::NonNull;
use std::sync::Arc;

/// 0: not pushed, 1: pushed, 2: taken.
struct Task(UnsafeCell<u32>);

// SAFETY: that accesses to the cell do not race is what loom is here to find out.
unsafe impl Sync for Task {}
// SAFETY: as above.
unsafe impl Send for Task {}

#[derive(Clone)]
struct Tasks(Arc<Vec<Task>>);

impl Tasks {
    fn new(count: usize) -> Tasks {
        Tasks(Arc::new((0..count).map(|_| Task(UnsafeCell::new(0))).collect()))
    }

    /// Writes task `number` and pushes it.
    fn push(&self, number: usize, owner: &DequeOwner<Task>) -> Result<(), NonNull<Task>> {
        // SAFETY: the pointer is valid within `with_mut`, and loom checks that it is exclusive.
        self.0[number].0.with_mut(|state| unsafe { *state = 1 });
        owner.push(NonNull::from(&self.0[number]))
    }

    /// Runs a task. Its accesses must be exclusive.
    fn run(&self, task: NonNull<Task>) {
        // SAFETY: tasks come from `push`, and `self` keeps them.
        let task = unsafe { task.as_ref() };
        task.0.with_mut(|state| {
            // SAFETY: as in `push`.
            let state = unsafe { &mut *state };
            assert_eq!(*state, 1, "taken twice, or before it was pushed");
            *state = 2;
        });
    }

    fn run_stolen(&self, steal: Steal<Task>) -> bool {
        match steal {
            Steal::Task(task) => {
                self.run(task);
                true
            }
            Steal::Empty | Steal::Retry => false,
        }
    }

    /// A thread that tries to steal so many times.
    fn thief(&self, stealer: &Stealer<Task>, attempts: usize) -> thread::JoinHandle<()> {
        let (tasks, stealer) = (self.clone(), stealer.clone());
        thread::spawn(move || {
            for _ in 0..attempts {
                tasks.run_stolen(stealer.steal());
            }
        })
    }

    fn pop(&self, owner: &DequeOwner<Task>) -> bool {
        owner.pop().map(|task| self.run(task)).is_some()
    }

    /// After all threads were joined: runs the rest; then every task was run, once.
    fn finish(&self, owner: &DequeOwner<Task>) {
        while self.pop(owner) {}
        assert_eq!(owner.len(), 0);
        for task in self.0.iter() {
            // SAFETY: as in `push`.
            assert_eq!(task.0.with(|state| unsafe { *state }), 2, "a task was lost");
        }
    }
}

/// Purpose: the fences. A thief that steals twice runs into the owner's pops; the owner takes
/// the second task without a CAS just when the thief has taken the first.
// rule: S0-DEQUE-1, S0-DEQUE-4, S0-DEQUE-7, S1-MODULE-11, S4-QUEUE-1
#[test]
fn push_and_pop_against_one_thief() {
    explore("deque::push_and_pop_against_one_thief", None, || {
        let (owner, stealer) = deque();
        let tasks = Tasks::new(3);
        let thief = tasks.thief(&stealer, 2);
        tasks.push(0, &owner).expect("room");
        tasks.push(1, &owner).expect("room");
        tasks.pop(&owner);
        tasks.push(2, &owner).expect("room");
        tasks.pop(&owner);
        thief.join().expect("the thief");
        tasks.finish(&owner);
    });
}

/// Purpose: the claim of a single task, which the owner makes without touching `bottom`. The
/// owner and two thieves want it, one gets it.
// rule: S0-DEQUE-3, S0-DEQUE-4, S0-DEQUE-6, S0-DEQUE-7, S1-MODULE-11
#[test]
fn single_task_wanted_by_three() {
    explore("deque::single_task_wanted_by_three", None, || {
        let (owner, stealer) = deque();
        let tasks = Tasks::new(1);
        tasks.push(0, &owner).expect("room");
        let thieves = [tasks.thief(&stealer, 1), tasks.thief(&stealer, 1)];
        tasks.pop(&owner);
        thieves.into_iter().for_each(|thief| thief.join().expect("a thief"));
        tasks.finish(&owner);
    });
}

/// Purpose: the last task after a fenced pop. The owner believes in two tasks, thieves leave
/// one or none; `bottom` comes back up, and the next push lands where thieves look for it.
// rule: S0-DEQUE-1, S0-DEQUE-3, S0-DEQUE-6
#[test]
fn last_task_after_the_fence() {
    explore("deque::last_task_after_the_fence", None, || {
        let (owner, stealer) = deque();
        let tasks = Tasks::new(3);
        tasks.push(0, &owner).expect("room");
        tasks.push(1, &owner).expect("room");
        let thieves = [tasks.thief(&stealer, 1), tasks.thief(&stealer, 1)];
        tasks.pop(&owner);
        tasks.pop(&owner);
        tasks.push(2, &owner).expect("room");
        thieves.into_iter().for_each(|thief| thief.join().expect("a thief"));
        tasks.finish(&owner);
    });
}

/// Purpose: overflow. The deque is full, the owner takes half out while thieves take from the
/// same end, and then reuses a slot that they may have read.
#[test]
fn overflow_against_thieves() {
    explore("deque::overflow_against_thieves", None, || {
        let (owner, stealer) = deque();
        let tasks = Tasks::new(CAPACITY + 1);
        for number in 0..CAPACITY {
            tasks.push(number, &owner).expect("room");
        }
        let thieves = [tasks.thief(&stealer, 1), tasks.thief(&stealer, 1)];
        if let Err(task) = tasks.push(CAPACITY, &owner) {
            owner.take_half(|task| tasks.run(task));
            owner.push(task).expect("half of it was taken");
        }
        thieves.into_iter().for_each(|thief| thief.join().expect("a thief"));
        tasks.finish(&owner);
    });
}

/// Purpose: a batch moves several tasks while the owner pops from the other end; they meet in
/// the middle. The moved tasks are the thief's to pop, and the owner steals it back.
#[test]
fn steal_batch_against_pop() {
    explore("deque::steal_batch_against_pop", None, || {
        let (owner, stealer) = deque();
        let tasks = Tasks::new(CAPACITY - 1);
        for number in 0..CAPACITY - 1 {
            tasks.push(number, &owner).expect("room");
        }
        let others = tasks.clone();
        let (own, steal_back) = deque();
        let thief = thread::spawn(move || {
            let first = others.run_stolen(stealer.steal_batch(&own, usize::MAX));
            assert!(first || own.is_empty());
            while others.pop(&own) {}
        });
        tasks.pop(&owner);
        tasks.pop(&owner);
        tasks.run_stolen(steal_back.steal());
        thief.join().expect("the thief");
        tasks.finish(&owner);
    });
}

/// Purpose: publication by `push`. The owner's writes to the task are seen by the thief that
/// finds it, and the slot holds it.
// rule: S0-DEQUE-2, S0-DEQUE-5, S4-SPAWN-3
#[test]
fn push_publishes_the_task() {
    explore("deque::push_publishes_the_task", None, || {
        let (owner, stealer) = deque();
        let tasks = Tasks::new(2);
        let thief = tasks.thief(&stealer, 2);
        tasks.push(0, &owner).expect("room");
        tasks.push(1, &owner).expect("room");
        thief.join().expect("the thief");
        tasks.finish(&owner);
    });
}

/// Purpose: publication by `pop`. A thief that learns `bottom` from the owner's decrement takes
/// an older task, and sees the writes to that.
#[test]
fn pop_publishes_the_tasks_below() {
    explore("deque::pop_publishes_the_tasks_below", None, || {
        let (owner, stealer) = deque();
        let tasks = Tasks::new(2);
        let thief = tasks.thief(&stealer, 1);
        tasks.push(0, &owner).expect("room");
        tasks.push(1, &owner).expect("room");
        tasks.pop(&owner);
        thief.join().expect("the thief");
        tasks.finish(&owner);
    });
}
