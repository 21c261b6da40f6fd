//! Which tasks are stolen, and when.

use super::*;
use crate::sched::deque::deque;

/// A worker whose clock stands still.
#[derive(Default)]
struct AtTime(Cell<Nanos>);

impl PickHooks for AtTime {
    fn periodic(&self) {}
    fn took(&self, _: TaskSource) {}
    fn missed(&self) {}
    fn announce(&self) {}

    fn now(&self) -> Nanos {
        self.0.get()
    }

    fn random_below(&self, bound: usize) -> usize {
        bound - 1
    }

    fn has_tenants(&self) {}

    fn is_due(&self) -> bool {
        false
    }

    fn look_up_at(&self, _: Nanos) {}
    fn arm_release(&self, _: Nanos) {}
    fn expire_now(&self, _: Weak<dyn Expire>) {}
    fn wake(&self, _: TaskRef) {}
    fn pass(&self, _: u64) {}

    fn ops_until_deadline(&self) -> u64 {
        u64::MAX
    }

    fn strangers(&self) -> u32 {
        0
    }

    fn is_watching(&self) -> bool {
        false
    }

    fn becomes_stranger(&self) {}
    fn gets_context(&self) {}

    fn ops_left(&self, _: &Task) -> u64 {
        0
    }
}

/// A task that is never looked at.
fn task(number: usize) -> NonNull<Task> {
    NonNull::new(std::ptr::without_provenance_mut(number * align_of::<Task>())).unwrap()
}

/// Runs a test with two workers: the first one spawns, the second one steals.
fn with_two(test: impl Fn(&RunQueues, &RunQueue, &RunQueue, &AtTime)) {
    let (deques, stealers): (Vec<_>, Vec<_>) = (0..2).map(|_| deque()).unzip();
    let all = RunQueues::new(stealers, 2, Victims::Random);
    let queues: Vec<_> = deques
        .into_iter()
        .enumerate()
        // SAFETY: `all` outlives them, and each has the deque of its stealer.
        .map(|(worker, deque)| unsafe { RunQueue::new(worker, &all, deque) })
        .collect();
    test(&all, &queues[0], &queues[1], &AtTime::default());
}

fn spawn(queue: &RunQueue, number: usize) {
    // SAFETY: in no other queue. No test looks at the record.
    unsafe { queue.push_stealable(task(number)) };
}

#[test]
fn a_thief_leaves_few_tasks_alone_for_a_moment() {
    for tasks in 1..=FEW as usize {
        with_two(|all, owner, thief, clock| {
            (1..=tasks).for_each(|number| spawn(owner, number));
            for now in [7, 8, 7 + GRACE - 1] {
                clock.0.set(now);
                assert_eq!(thief.pick_anywhere(clock), None);
                assert!(all.has_work_for(1), "it must not sleep");
            }
            clock.0.set(7 + GRACE);
            assert_eq!(thief.pick_anywhere(clock), Some(task(1)));
        });
    }
}

#[test]
fn each_task_has_a_grace_of_its_own() {
    with_two(|_, owner, thief, clock| {
        spawn(owner, 1);
        assert_eq!(thief.pick_anywhere(clock), None);
        assert_eq!(owner.pick(clock), Some(task(1)));
        clock.0.set(GRACE);
        spawn(owner, 2);
        assert_eq!(thief.pick_anywhere(clock), None, "another task, seen for the first time");
        clock.0.set(2 * GRACE);
        assert_eq!(thief.pick_anywhere(clock), Some(task(2)));
    });
}

#[test]
fn many_tasks_are_taken_at_once() {
    with_two(|_, owner, thief, clock| {
        let tasks = FEW as usize + 1;
        (1..=tasks).for_each(|number| spawn(owner, number));
        assert_eq!(thief.pick_anywhere(clock), Some(task(1)));
        assert_eq!(owner.pick(clock), Some(task(tasks)), "the newest");
    });
}
