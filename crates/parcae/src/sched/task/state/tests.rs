//! Every transition of the state word, one by one, and the illegal ones.

use super::*;

fn queued() -> (StateWord, Generation) {
    let word = StateWord::new();
    let generation = word.spawn(RecordHandle::None);
    (word, generation)
}

fn owned() -> (StateWord, Generation) {
    let (word, generation) = queued();
    word.claim(3);
    (word, generation)
}

// rule: S0-STATE-1, S0-STATE-2, S0-STATE-3, S0-STATE-5, S0-TASK-2, S1-MODULE-8, S4-CTRL-1
// rule: S4-CTRL-2, S4-CTRL-3, S4-CTRL-4, S4-CTRL-5, S4-CTRL-9, S4-HAND-4, S4-SPAWN-5
#[test]
fn a_task_is_spawned_runs_parks_wakes_and_ends() {
    let (word, generation) = owned();
    assert_eq!(word.park(Mobility::Movable), Parking::Parked);
    assert_eq!(word.unpark(generation), Woken::Enqueue { owner: 3 });
    word.claim(5);
    assert_eq!(word.park(Mobility::Movable), Parking::Parked);
    assert_eq!(word.unpark(generation), Woken::Enqueue { owner: 5 });
    word.claim(5);
    assert!(!word.is_done(generation));
    word.finish(|| ());
    assert!(word.is_done(generation));
    word.recycle();
    assert!(word.is_done(generation));
    assert_ne!(word.spawn(RecordHandle::None), generation);
}

// rule: S4-PARK-3, S4-PARK-7, S4-PARK-8, S4-PARK-12
#[test]
fn a_wake_before_the_park_aborts_it_once() {
    let (word, generation) = owned();
    assert_eq!(word.unpark(generation), Woken::Noted);
    assert_eq!(word.unpark(generation), Woken::Noted, "idempotent");
    assert_eq!(word.park(Mobility::Movable), Parking::Woken);
    assert_eq!(word.park(Mobility::Movable), Parking::Parked, "the latch is consumed");
}

// rule: S1-AWAIT-2
#[test]
fn a_wake_while_queued_does_not_abort_the_next_park() {
    let (word, generation) = queued();
    assert_eq!(word.unpark(generation), Woken::Noted);
    word.claim(0);
    assert_eq!(word.park(Mobility::Movable), Parking::Parked, "it has checked its condition since");
}

// rule: S3-OWN-3, S4-INV-3, S4-SPAWN-6, S4-TERM-5
#[test]
fn only_one_of_two_wakers_enqueues() {
    let (word, generation) = owned();
    word.park(Mobility::Movable);
    assert!(matches!(word.unpark(generation), Woken::Enqueue { .. }));
    assert_eq!(word.unpark(generation), Woken::Noted);
}

#[test]
fn a_yield_of_a_movable_task_keeps_its_bits() {
    let (word, generation) = owned();
    word.unpark(generation);
    word.cancel(generation);
    word.release();
    assert!(word.is_cancelled());
    word.claim(1);
    assert!(word.is_cancelled());
}

#[test]
fn a_private_task_is_claimed_again_without_a_change() {
    let (word, generation) = owned();
    word.unpark(generation);
    word.claim(3);
    assert_eq!(
        word.park(Mobility::Movable),
        Parking::Woken,
        "the wake of a task that yielded is kept"
    );
}

// rule: S1-MODULE-8
#[test]
fn cancel_is_a_request_that_wakes() {
    let (word, generation) = owned();
    assert!(!word.is_cancelled());
    word.park(Mobility::Movable);
    assert!(matches!(word.cancel(generation), Woken::Enqueue { .. }));
    assert!(word.is_cancelled());
    word.claim(0);
    word.finish(|| ());
    word.recycle();
    word.spawn(RecordHandle::None);
    assert!(!word.is_cancelled(), "the next life starts without it");
}

#[test]
fn a_stale_handle_does_nothing() {
    let (word, old) = owned();
    word.finish(|| ());
    assert_eq!(word.unpark(old), Woken::Stale);
    word.recycle();
    assert_eq!(word.unpark(old), Woken::Stale);
    let new = word.spawn(RecordHandle::None);
    assert_eq!(word.unpark(old), Woken::Stale);
    word.claim(0);
    assert_eq!(word.cancel(old), Woken::Stale);
    assert!(!word.is_cancelled());
    assert_eq!(word.park(Mobility::Movable), Parking::Parked);
    assert_eq!(word.unpark(old), Woken::Stale);
    assert!(matches!(word.unpark(new), Woken::Enqueue { .. }));
}

#[test]
fn generations_wrap_without_touching_other_bits() {
    let word = StateWord(AtomicU64::new(GENERATION | DONE));
    word.recycle();
    assert_eq!(word.0.load(Ordering::Relaxed), FREE);
}

#[cfg(debug_assertions)]
mod illegal {
    use super::*;

    // rule: S4-CTRL-8, S4-SPAWN-2
    #[test]
    #[should_panic(expected = "spawned a record that is in use")]
    fn spawning_twice() {
        queued().0.spawn(RecordHandle::None);
    }

    #[test]
    #[should_panic(expected = "parked a task that was not owned")]
    fn parking_a_queued_task() {
        queued().0.park(Mobility::Movable);
    }

    // rule: S4-CTRL-7, S4-HAND-6
    #[test]
    #[should_panic(expected = "recycled a task that has not ended")]
    fn recycling_a_running_task() {
        owned().0.recycle();
    }

    #[test]
    #[should_panic(expected = "a private task left its worker")]
    fn claiming_another_workers_task() {
        owned().0.claim(4);
    }

    // rule: S4-CTRL-6
    #[test]
    #[should_panic(expected = "finished a task that was not owned")]
    fn finishing_a_parked_task() {
        let (word, _) = owned();
        word.park(Mobility::Movable);
        word.finish(|| ());
    }
}

fn held() -> (StateWord, Generation) {
    let word = StateWord::new();
    let generation = word.spawn(RecordHandle::Held);
    word.claim(0);
    (word, generation)
}

#[test]
fn who_comes_second_frees_the_record() {
    let (word, generation) = held();
    assert!(word.is_held());
    assert_eq!(word.finish(|| 1), Finished::Held(None));
    assert!(word.is_done(generation));
    assert_eq!(word.let_go(), LetGo::Done);
    let (word, _) = held();
    assert_eq!(word.let_go(), LetGo::Running);
    assert!(!word.is_held());
    assert_eq!(word.finish(|| 1), Finished::Free);
}

#[test]
fn who_joins_is_told_unless_it_gave_up() {
    let (word, _) = held();
    assert!(word.join());
    assert_eq!(word.finish(|| 7), Finished::Held(Some(7)));
    assert!(!word.join());
    let (word, _) = held();
    assert!(word.join());
    assert_eq!(word.let_go(), LetGo::Running);
    assert_eq!(word.finish(|| 7), Finished::Free);
}

#[test]
fn parking_keeps_the_handle() {
    let (word, generation) = held();
    assert!(word.join());
    assert_eq!(word.park(Mobility::Movable), Parking::Parked);
    assert_eq!(word.unpark(generation), Woken::Enqueue { owner: 0 });
    word.claim(1);
    word.release();
    word.claim(0);
    assert_eq!(word.finish(|| 7), Finished::Held(Some(7)));
}

#[test]
fn a_wake_of_an_observed_task_is_carried_out_by_its_observer() {
    let word = StateWord::new();
    let generation = word.spawn(RecordHandle::None);
    assert!(!word.observe(generation), "not parked");
    word.claim(3);
    assert!(!word.observe(generation), "not parked");
    assert_eq!(word.park(Mobility::Movable), Parking::Parked);
    assert!(word.observe(generation));
    assert!(!word.observe(generation), "one at a time");
    assert_eq!(word.unobserve(), Woken::Noted);
    assert_eq!(word.look().phase, Phase::Parked(3));
    assert!(word.observe(generation));
    assert_eq!(word.unpark(generation), Woken::Noted);
    assert_eq!(word.cancel(generation), Woken::Noted);
    assert_eq!(word.unobserve(), Woken::Enqueue { owner: 3 });
    assert_eq!(word.look(), Look { generation, phase: Phase::Queued });
    assert_eq!(word.unpark(generation), Woken::Noted, "queued once");
    word.claim(1);
    assert_eq!(word.look().phase, Phase::Owned(1));
    assert!(word.is_cancelled());
}

#[test]
fn a_task_that_may_not_move_is_owned_at_once_when_its_worker_wakes_it() {
    let word = StateWord::new();
    let generation = word.spawn(RecordHandle::None);
    word.claim(3);
    assert_eq!(word.park(Mobility::Pinned), Parking::Parked);
    assert_eq!(word.unpark_on(2, generation), Woken::Enqueue { owner: 3 });
    assert_eq!(word.look().phase, Phase::Queued, "another worker puts it into an inbox");
    word.claim(3);
    assert_eq!(word.park(Mobility::Pinned), Parking::Parked);
    assert_eq!(word.unpark_on(3, generation), Woken::Enqueue { owner: 3 });
    assert_eq!(word.look().phase, Phase::Owned(3));
    word.claim(3);
    assert_eq!(word.unpark_on(3, generation), Woken::Noted);
    assert_eq!(word.park(Mobility::Pinned), Parking::Woken);
    // A task that may move goes through a queue in any case.
    let word = StateWord::new();
    let generation = word.spawn(RecordHandle::None);
    word.claim(3);
    assert_eq!(word.park(Mobility::Movable), Parking::Parked);
    assert_eq!(word.unpark_on(3, generation), Woken::Enqueue { owner: 3 });
    assert_eq!(word.look().phase, Phase::Queued);
}

#[test]
fn a_worker_wakes_only_its_own_parked_tasks_quickly() {
    let word = StateWord::new();
    let generation = word.spawn(RecordHandle::None);
    assert!(!word.unpark_own(OwnParked::of(3), generation), "queued");
    word.claim(3);
    assert!(!word.unpark_own(OwnParked::of(3), generation), "running");
    word.park(Mobility::Movable);
    assert!(!word.unpark_own(OwnParked::of(3), generation), "it may move");
    word.unpark(generation);
    word.claim(3);
    word.park(Mobility::Pinned);
    assert!(!word.unpark_own(OwnParked::of(2), generation), "the task of another worker");
    assert!(word.unpark_own(OwnParked::of(3), generation));
    assert_eq!(word.look().phase, Phase::Owned(3));
    assert!(!word.unpark_own(OwnParked::of(3), generation), "woken already");
    word.finish(|| ());
    word.recycle();
    let next = word.spawn(RecordHandle::None);
    word.claim(3);
    word.park(Mobility::Pinned);
    assert!(!word.unpark_own(OwnParked::of(3), generation), "the last task of the record");
    assert!(word.unpark_own(OwnParked::of(3), next));
}

#[test]
fn only_a_task_that_has_parked_before_and_was_not_woken_parks_quickly() {
    let word = StateWord::new();
    let generation = word.spawn(RecordHandle::None);
    word.claim(3);
    assert!(!word.park_again(), "it has not parked yet");
    assert_eq!(word.park(Mobility::Pinned), Parking::Parked);
    assert!(!word.park_again(), "parked already");
    assert!(word.unpark_own(OwnParked::of(3), generation));
    assert!(word.park_again());
    assert_eq!(word.look().phase, Phase::Parked(3));
    assert!(word.unpark_own(OwnParked::of(3), generation));
    word.unpark(generation);
    assert!(!word.park_again(), "it was woken");
    assert_eq!(word.park(Mobility::Pinned), Parking::Woken);
    word.cancel(generation);
    assert!(!word.park_again(), "a cancellation wakes it");
    assert_eq!(word.park(Mobility::Pinned), Parking::Woken);
    assert!(word.park_again(), "in a shield a cancelled task waits");
    assert!(word.is_cancelled());
}

#[test]
fn a_wake_that_comes_while_the_task_runs_is_taken_once() {
    let word = StateWord::new();
    let generation = word.spawn(RecordHandle::None);
    word.claim(3);
    assert!(!word.take_wake(), "there is none");
    word.unpark(generation);
    word.cancel(generation);
    assert!(word.take_wake());
    assert!(!word.take_wake(), "taken");
    assert!(word.is_cancelled(), "only the wake is taken");
    assert_eq!(word.look().phase, Phase::Owned(3));
    assert_eq!(word.park(Mobility::Pinned), Parking::Parked);
}
