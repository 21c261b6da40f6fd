//! Tests of the deque with real threads and against plain models. The interleavings that
//! matter are explored in `models.rs`; here are order, limits, and load.

use super::{CAPACITY, DequeOwner, OVERFLOW, Steal, Stealer, deque};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

/// Tasks are told apart by their addresses; these are never followed.
fn task(number: usize) -> NonNull<u8> {
    NonNull::new(std::ptr::without_provenance_mut(number + 1)).expect("not zero")
}

fn number(task: NonNull<u8>) -> usize {
    task.addr().get() - 1
}

/// The stolen task, where no thread competes.
fn stolen(steal: Steal<u8>) -> Option<usize> {
    match steal {
        Steal::Empty => None,
        Steal::Task(task) => Some(number(task)),
        Steal::Retry => panic!("retry without competition"),
    }
}

fn filled(numbers: std::ops::Range<usize>) -> (DequeOwner<u8>, Stealer<u8>) {
    let (owner, stealer) = deque();
    numbers.for_each(|n| owner.push(task(n)).expect("room"));
    (owner, stealer)
}

fn half_of(owner: &DequeOwner<u8>) -> Vec<usize> {
    let mut taken = Vec::new();
    owner.take_half(|task| taken.push(number(task)));
    taken
}

fn drained(owner: &DequeOwner<u8>) -> Vec<usize> {
    std::iter::from_fn(|| owner.pop()).map(number).collect()
}

// rule: S0-DEQUE-2, S0-DEQUE-3, S0-TERM-5, S1-MODULE-9
#[test]
fn owner_pops_what_was_pushed_last() {
    let (owner, _stealer) = filled(0..5);
    assert_eq!(drained(&owner), [4, 3, 2, 1, 0]);
}

// rule: S0-DEQUE-4, S0-TERM-5, S1-MODULE-10
#[test]
fn thieves_take_what_was_pushed_first() {
    let (_owner, stealer) = filled(0..3);
    let other = stealer.clone();
    assert_eq!(stolen(stealer.steal()), Some(0));
    assert_eq!(stolen(other.steal()), Some(1));
    assert_eq!(stolen(stealer.steal()), Some(2));
    assert_eq!(stolen(other.steal()), None);
}

#[test]
fn empty_stays_empty() {
    let (owner, stealer) = filled(0..0);
    for round in 0..3 {
        assert!(owner.pop().is_none());
        assert_eq!(stolen(stealer.steal()), None);
        assert!(half_of(&owner).is_empty());
        assert!(owner.is_empty());
        assert_eq!((owner.len(), stealer.len_hint()), (0, 0));
        owner.push(task(round)).expect("room");
        assert!(!owner.is_empty());
        assert_eq!((owner.len(), stealer.len_hint()), (1, 1));
        assert_eq!(owner.pop().map(number), Some(round));
    }
}

#[test]
fn full_gives_the_task_back() {
    let (owner, stealer) = filled(0..CAPACITY);
    assert_eq!(owner.push(task(777)), Err(task(777)));
    assert_eq!((owner.len(), stealer.len_hint()), (CAPACITY, CAPACITY));
    assert_eq!(stolen(stealer.steal()), Some(0));
    assert_eq!(owner.push(task(CAPACITY)), Ok(()));
    assert_eq!(owner.push(task(777)), Err(task(777)));
    assert_eq!(drained(&owner), (1..=CAPACITY).rev().collect::<Vec<_>>());
}

#[test]
fn capacity_is_a_power_of_two() {
    assert!(CAPACITY.is_power_of_two());
    const { assert!(OVERFLOW <= CAPACITY / 2) };
}

#[test]
fn top_and_bottom_share_no_cache_line() {
    let (owner, _stealer) = filled(0..0);
    let addresses = [
        std::ptr::from_ref(&owner.deque.top).addr(),
        std::ptr::from_ref(&owner.deque.bottom).addr(),
        std::ptr::from_ref(&owner.deque.slots).addr(),
    ];
    for (i, a) in addresses.iter().enumerate() {
        addresses[i + 1..].iter().for_each(|b| assert!(a.abs_diff(*b) >= 128));
    }
}

#[test]
fn push_pop_and_steal_interleaved() {
    let (owner, stealer) = filled(0..3);
    assert_eq!(owner.pop().map(number), Some(2));
    assert_eq!(stolen(stealer.steal()), Some(0));
    owner.push(task(3)).expect("room");
    assert_eq!(stolen(stealer.steal()), Some(1));
    assert_eq!(owner.pop().map(number), Some(3));
    assert!(owner.pop().is_none());
    assert_eq!(stolen(stealer.steal()), None);
}

/// The owner believes in two tasks or more and finds fewer: `bottom` has to come back up.
#[test]
fn pop_after_thieves_took_all_or_all_but_one() {
    for left in [0, 1] {
        let (owner, stealer) = filled(0..4);
        (left..4).for_each(|_| assert!(stolen(stealer.steal()).is_some()));
        assert_eq!(owner.pop().map(number), (left == 1).then_some(3));
        assert!(owner.is_empty());
        owner.push(task(9)).expect("room");
        assert_eq!(owner.len(), 1);
        assert_eq!(stolen(stealer.steal()), Some(9));
        assert!(owner.pop().is_none());
        owner.push(task(10)).expect("room");
        assert_eq!(owner.pop().map(number), Some(10));
    }
}

#[test]
fn take_half_takes_the_oldest_rounded_up() {
    let (owner, stealer) = filled(0..CAPACITY);
    assert_eq!(half_of(&owner), (0..OVERFLOW).collect::<Vec<_>>());
    assert_eq!(owner.len(), CAPACITY - OVERFLOW);
    assert_eq!(stolen(stealer.steal()), Some(OVERFLOW));

    let (owner, _stealer) = filled(0..5);
    assert_eq!(half_of(&owner), [0, 1, 2]);
    assert_eq!(half_of(&owner), [3]);
    assert_eq!(half_of(&owner), [4]);
    assert!(half_of(&owner).is_empty());
}

#[test]
fn take_half_allows_pushes_from_its_callback() {
    let (owner, _stealer) = filled(0..CAPACITY);
    let mut taken = Vec::new();
    owner.take_half(|task| {
        owner.push(task).expect("room");
        taken.push(number(task));
    });
    assert_eq!(taken, (0..OVERFLOW).collect::<Vec<_>>());
    let mut all = drained(&owner);
    all.sort_unstable();
    assert_eq!(all, (0..CAPACITY).collect::<Vec<_>>());
}

#[test]
fn steal_batch_moves_up_to_half_the_limit_and_the_room() {
    // Of seven: one to run, three moved.
    let (victim, stealer) = filled(0..7);
    let (thief, _) = filled(0..0);
    assert_eq!(stolen(stealer.steal_batch(&thief, usize::MAX)), Some(0));
    assert_eq!(drained(&thief), [3, 2, 1]);
    assert_eq!(victim.len(), 3);

    let (_victim, stealer) = filled(0..7);
    assert_eq!(stolen(stealer.steal_batch(&thief, 2)), Some(0));
    assert_eq!(drained(&thief), [2, 1]);

    let (_victim, stealer) = filled(0..7);
    assert_eq!(stolen(stealer.steal_batch(&thief, 0)), Some(0));
    assert!(thief.is_empty());

    let (victim, stealer) = filled(0..7);
    let (thief, _) = filled(100..100 + CAPACITY - 1);
    assert_eq!(stolen(stealer.steal_batch(&thief, usize::MAX)), Some(0));
    assert_eq!((thief.len(), victim.len()), (CAPACITY, 5));
    assert_eq!(stolen(stealer.steal_batch(&thief, usize::MAX)), Some(2), "no room: one to run");
    assert_eq!((thief.len(), victim.len()), (CAPACITY, 4));
}

#[test]
fn halves_can_be_sent_but_the_owner_not_shared() {
    trait NotSync<A> {
        fn holds() {}
    }
    struct Yes;
    impl<T: ?Sized> NotSync<()> for T {}
    impl<T: ?Sized + Sync> NotSync<Yes> for T {}
    // Ambiguous, and thus an error, if `DequeOwner` were `Sync`. The next one: `Clone`.
    <DequeOwner<u8> as NotSync<_>>::holds();

    trait NotClone<A> {
        fn holds() {}
    }
    impl<T: ?Sized> NotClone<()> for T {}
    impl<T: Clone> NotClone<Yes> for T {}
    <DequeOwner<u8> as NotClone<_>>::holds();

    fn send<T: Send>() {}
    fn shared<T: Send + Sync + Clone>() {}
    send::<DequeOwner<u8>>();
    shared::<Stealer<u8>>();
}

/// One step of a random history. `A` is a victim, `B` a thief's own deque.
#[derive(Clone, Debug)]
enum Op {
    PushA(usize),
    PushB(usize),
    PopA,
    PopB,
    StealA,
    StealB,
    HalfA,
    BatchFromA(usize),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    // Bursts, because single pushes would never fill the deque.
    let op = prop_oneof![
        4 => (1..CAPACITY).prop_map(Op::PushA),
        2 => (1..CAPACITY).prop_map(Op::PushB),
        4 => Just(Op::PopA),
        2 => Just(Op::PopB),
        4 => Just(Op::StealA),
        2 => Just(Op::StealB),
        2 => Just(Op::HalfA),
        3 => (0..CAPACITY).prop_map(Op::BatchFromA),
    ];
    prop::collection::vec(op, 1..60)
}

fn push_both(owner: &DequeOwner<u8>, model: &mut VecDeque<usize>, numbers: std::ops::Range<usize>) {
    for n in numbers {
        if model.len() < CAPACITY {
            model.push_back(n);
            assert_eq!(owner.push(task(n)), Ok(()));
        } else {
            assert_eq!(owner.push(task(n)), Err(task(n)));
        }
    }
}

proptest! {
    #[test]
    fn behaves_like_a_plain_deque(ops in ops()) {
        let ((a, steal_a), (b, steal_b)) = (filled(0..0), filled(0..0));
        let (mut model_a, mut model_b) = (VecDeque::new(), VecDeque::new());
        let mut next = 0;
        for op in ops {
            match op {
                Op::PushA(n) => {
                    push_both(&a, &mut model_a, next..next + n);
                    next += n;
                }
                Op::PushB(n) => {
                    push_both(&b, &mut model_b, next..next + n);
                    next += n;
                }
                Op::PopA => prop_assert_eq!(a.pop().map(number), model_a.pop_back()),
                Op::PopB => prop_assert_eq!(b.pop().map(number), model_b.pop_back()),
                Op::StealA => prop_assert_eq!(stolen(steal_a.steal()), model_a.pop_front()),
                Op::StealB => prop_assert_eq!(stolen(steal_b.steal()), model_b.pop_front()),
                Op::HalfA => {
                    let half = model_a.len().div_ceil(2).min(OVERFLOW);
                    prop_assert_eq!(half_of(&a), model_a.drain(..half).collect::<Vec<_>>());
                }
                Op::BatchFromA(limit) => {
                    let half = model_a.len().div_ceil(2);
                    let first = model_a.pop_front();
                    let room = CAPACITY - model_b.len();
                    let more = half.saturating_sub(1).min(limit).min(room);
                    model_b.extend(model_a.drain(..more));
                    prop_assert_eq!(stolen(steal_a.steal_batch(&b, limit)), first);
                }
            }
            prop_assert_eq!(a.len(), model_a.len());
            prop_assert_eq!(b.len(), model_b.len());
            prop_assert_eq!(steal_a.len_hint(), model_a.len());
            prop_assert_eq!(a.is_empty(), model_a.is_empty());
        }
        prop_assert_eq!(drained(&a), model_a.into_iter().rev().collect::<Vec<_>>());
        prop_assert_eq!(drained(&b), model_b.into_iter().rev().collect::<Vec<_>>());
    }
}

/// Counters that tasks point to: how often each was taken.
struct Taken(Vec<AtomicU32>);

impl Taken {
    fn new(count: usize) -> Arc<Taken> {
        Arc::new(Taken((0..count).map(|_| AtomicU32::new(0)).collect()))
    }

    fn task(&self, number: usize) -> NonNull<AtomicU32> {
        NonNull::from(&self.0[number])
    }

    fn take(&self, task: NonNull<AtomicU32>) {
        // SAFETY: `task` comes from `Taken::task` of this value, by way of a deque; the
        // counters live as long as `self`.
        let before = unsafe { task.as_ref() }.fetch_add(1, Ordering::Relaxed);
        assert_eq!(before, 0, "a task was taken twice");
    }

    fn assert_all(&self) {
        let missing = self.0.iter().filter(|n| n.load(Ordering::Relaxed) != 1).count();
        assert_eq!(missing, 0, "tasks that were not taken exactly once");
    }
}

const TASKS: usize = if cfg!(miri) { 300 } else { 200_000 };
const ROUNDS: usize = if cfg!(miri) { 1 } else { 3 };

/// Bursts of every length up to `longest`, then as many pops: with 2 almost all the time at
/// the last task, with 400 in overflow.
fn stress(longest: usize) {
    let (owner, stealer) = deque();
    let taken = Taken::new(TASKS);
    let done = Arc::new(AtomicBool::new(false));
    let thieves: Vec<_> = (0..3)
        .map(|_| {
            let (stealer, taken, done) = (stealer.clone(), Arc::clone(&taken), Arc::clone(&done));
            thread::spawn(move || {
                let mut count = 0_usize;
                loop {
                    match stealer.steal() {
                        Steal::Task(task) => {
                            taken.take(task);
                            count += 1;
                        }
                        Steal::Retry => {}
                        Steal::Empty if done.load(Ordering::Acquire) => return count,
                        Steal::Empty => thread::yield_now(),
                    }
                }
            })
        })
        .collect();

    let mut popped = 0;
    let (mut next, mut burst) = (0, 0);
    while next < TASKS {
        burst = burst % longest + 1;
        for _ in 0..burst.min(TASKS - next) {
            let task = taken.task(next);
            if owner.push(task).is_err() {
                owner.take_half(|task| {
                    taken.take(task);
                    popped += 1;
                });
                owner.push(task).expect("half of it was taken");
            }
            next += 1;
        }
        for _ in 0..burst {
            let Some(task) = owner.pop() else { break };
            taken.take(task);
            popped += 1;
        }
    }
    while let Some(task) = owner.pop() {
        taken.take(task);
        popped += 1;
    }
    done.store(true, Ordering::Release);
    let counts = thieves.into_iter().map(|thief| thief.join().expect("a thief"));
    assert_eq!(popped + counts.sum::<usize>(), TASKS);
    taken.assert_all();
}

#[test]
fn stress_around_the_last_task() {
    (0..ROUNDS).for_each(|_| stress(3));
}

#[test]
fn stress_with_overflow() {
    (0..ROUNDS).for_each(|_| stress(400));
}

/// Each of two workers pushes its own tasks, runs what it has, and steals when it has nothing.
#[test]
fn two_owners_steal_from_one_another() {
    for _ in 0..ROUNDS {
        let taken = Taken::new(TASKS);
        let left = Arc::new(AtomicU32::new(TASKS as u32));
        let start = Arc::new(Barrier::new(2));
        let ((a, steal_a), (b, steal_b)) = (deque(), deque());
        let worker = |own: DequeOwner<AtomicU32>, victim: Stealer<AtomicU32>, first: usize| {
            let (taken, left, start) = (Arc::clone(&taken), Arc::clone(&left), Arc::clone(&start));
            thread::spawn(move || {
                let run = |task| {
                    taken.take(task);
                    left.fetch_sub(1, Ordering::Relaxed);
                };
                let mut mine = (first..TASKS).step_by(2).peekable();
                start.wait();
                while left.load(Ordering::Relaxed) > 0 {
                    while let Some(n) = mine.peek().copied() {
                        if own.push(taken.task(n)).is_err() {
                            break;
                        }
                        mine.next();
                        if n % 7 == first {
                            break;
                        }
                    }
                    match own.pop() {
                        Some(task) => run(task),
                        None => match victim.steal_batch(&own, 16) {
                            Steal::Task(task) => run(task),
                            Steal::Retry => {}
                            Steal::Empty => thread::yield_now(),
                        },
                    }
                    // Also while there is work, or they would hardly meet.
                    if let Steal::Task(task) = victim.steal_batch(&own, 3) {
                        run(task);
                    }
                }
            })
        };
        let workers = [worker(a, steal_b, 0), worker(b, steal_a, 1)];
        workers.into_iter().for_each(|worker| worker.join().expect("a worker"));
        taken.assert_all();
    }
}
