//! The queues with real threads, and against plain models.

use super::lanes::Lanes;
use super::link::{Chain, Link, Linked};
use super::{Inbox, Inject};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How many tasks each producer pushes in the stress tests; few where each step is slow.
const MANY: usize = if cfg!(miri) { 200 } else { 100_000 };

/// A test that is still waiting after this time waits for something that was lost.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Lets others run; fails where nothing came for too long after `start`.
fn wait_since(start: Instant) {
    assert!(start.elapsed() < TIMEOUT, "tasks were lost");
    thread::yield_now();
}

struct Task {
    id: usize,
    link: Link<Task>,
    /// How often it came out.
    seen: AtomicU8,
}

// SAFETY: the link is a field of its own, touched by the queues only.
unsafe impl Linked for Task {
    unsafe fn link(this: NonNull<Task>) -> NonNull<Link<Task>> {
        // SAFETY: the caller says that the task is live.
        unsafe { NonNull::from(&this.as_ref().link) }
    }
}

fn tasks(count: usize) -> Vec<Task> {
    (0..count).map(|id| Task { id, link: Link::new(), seen: AtomicU8::new(0) }).collect()
}

/// The id of a task that was taken, which is noted.
fn taken(task: NonNull<Task>) -> usize {
    // SAFETY: every test keeps its tasks until its threads are done.
    let task = unsafe { task.as_ref() };
    task.seen.fetch_add(1, Ordering::Relaxed); // read after the join
    task.id
}

fn ids(mut chain: Chain<Task>) -> Vec<usize> {
    (&mut chain).map(taken).collect()
}

fn chain(tasks: &[Task]) -> Chain<Task> {
    let mut chain = Chain::new();
    for task in tasks {
        // SAFETY: each test puts a task into one queue at a time and keeps it alive.
        unsafe { chain.push_back(NonNull::from(task)) };
    }
    chain
}

fn push(queue: &Inject<Task>, task: &Task) {
    // SAFETY: as in `chain`.
    unsafe { queue.push(NonNull::from(task)) }
}

fn post(inbox: &Inbox<Task>, task: &Task) -> bool {
    // SAFETY: as in `chain`.
    unsafe { inbox.push(NonNull::from(task)) }
}

fn each_exactly_once(tasks: &[Task]) {
    for task in tasks {
        assert_eq!(task.seen.load(Ordering::Relaxed), 1, "task {}", task.id);
    }
}

#[test]
fn chain_is_first_in_first_out() {
    let tasks = tasks(7);
    let mut a = chain(&tasks[1..4]);
    // SAFETY: as in `chain`.
    unsafe { a.push_front(NonNull::from(&tasks[0])) };
    assert_eq!((a.len(), a.front()), (4, Some(NonNull::from(&tasks[0]))));
    assert_eq!(ids(a), [0, 1, 2, 3]);
    // An emptied chain starts over.
    let mut a = chain(&tasks[4..5]);
    assert_eq!(a.pop_front(), Some(NonNull::from(&tasks[4])));
    assert!(a.is_empty() && a.pop_front().is_none() && a.front().is_none());
    // SAFETY: as in `chain`.
    unsafe { a.push_back(NonNull::from(&tasks[5])) };
    assert_eq!(ids(a.reversed()), [5]);
    assert_eq!(ids(chain(&tasks).reversed()), [6, 5, 4, 3, 2, 1, 0]);
}

#[test]
fn lanes_are_first_in_first_out() {
    // Lengths around the number of lanes, taken in steps that are not multiples of it.
    for len in 0..40 {
        let tasks = tasks(len);
        for step in 1..12 {
            let mut lanes = Lanes::new();
            let split = len / 3;
            lanes.append(chain(&tasks[split..]));
            let mut first = Chain::new();
            lanes.take(step, &mut first);
            let taken = first.len();
            assert_eq!(taken, step.min(len - split));
            lanes.prepend(first);
            lanes.prepend(chain(&tasks[..split]));
            assert_eq!(lanes.len(), len);
            let mut all = Chain::new();
            while lanes.len() > 0 {
                lanes.take(step, &mut all);
            }
            assert_eq!(ids(all), (0..len).collect::<Vec<_>>(), "length {len}, step {step}");
        }
    }
}

#[cfg(debug_assertions)]
#[test]
#[should_panic(expected = "while it was in one")]
fn a_task_in_two_queues_is_reported() {
    let tasks = tasks(1);
    let inbox = Inbox::new();
    let _ = post(&inbox, &tasks[0]);
    let _ = post(&inbox, &tasks[0]);
}

#[cfg(debug_assertions)]
#[test]
#[should_panic(expected = "dropped with 2 tasks")]
fn a_chain_that_loses_tasks_is_reported() {
    let tasks = tasks(2);
    drop(chain(&tasks));
}

#[test]
fn inbox_keeps_order_and_tells_the_first() {
    let tasks = tasks(5);
    let inbox = Inbox::new();
    for round in 0..2 {
        assert!(inbox.is_empty() && inbox.drain().is_empty(), "round {round}");
        let first: Vec<_> = tasks.iter().map(|task| post(&inbox, task)).collect();
        assert_eq!(first, [true, false, false, false, false]);
        assert!(!inbox.is_empty());
        let all = inbox.drain();
        assert_eq!(all.len(), 5);
        assert_eq!(ids(all), [0, 1, 2, 3, 4]);
    }
}

// rule: S4-INJECT-2, S4-INJECT-4
#[test]
fn inject_goes_from_ring_to_list_and_back() {
    let tasks = tasks(12);
    let queue = Inject::with_capacity(4);
    for _ in 0..5 {
        assert!(queue.is_empty() && queue.pop().is_none() && queue.pop_batch(3).is_empty());
        tasks[..4].iter().for_each(|task| push(&queue, task));
        assert!(!queue.has_spilled(), "the ring has room again");
        tasks[4..].iter().for_each(|task| push(&queue, task));
        assert!(queue.has_spilled());
        assert_eq!(queue.len_hint(), 12);
        let got: Vec<_> = std::iter::from_fn(|| queue.pop()).map(taken).collect();
        assert_eq!(got, (0..12).collect::<Vec<_>>());
        assert_eq!(queue.len_hint(), 0);
    }
}

// rule: S4-INJECT-5
#[test]
fn inject_with_tasks_in_the_list_only_is_not_empty() {
    let tasks = tasks(6);
    let queue = Inject::with_capacity(4);
    tasks.iter().for_each(|task| push(&queue, task));
    assert_eq!(ids(queue.pop_batch(4)), [0, 1, 2, 3]);
    assert!(!queue.is_empty());
    assert_eq!(queue.len_hint(), 2);
    assert_eq!(ids(queue.pop_batch(4)), [4, 5]);
    assert!(queue.is_empty());
}

/// The list does not starve while pushes go on: they queue behind it.
#[test]
fn inject_serves_the_list_while_pushes_go_on() {
    let tasks = tasks(200);
    let queue = Inject::with_capacity(4);
    tasks[..8].iter().for_each(|task| push(&queue, task));
    for (i, task) in tasks[8..].iter().enumerate() {
        assert_eq!(queue.pop().map(taken), Some(i));
        push(&queue, task);
    }
    let rest: Vec<_> = std::iter::from_fn(|| queue.pop()).map(taken).collect();
    assert_eq!(rest, (192..200).collect::<Vec<_>>());
}

// rule: S4-INJECT-6
#[test]
fn inject_survives_a_burst_in_order() {
    burst(Inject::new());
    burst(Inject::with_capacity(4)); // does not take all that come from the list at once
}

fn burst(queue: Inject<Task>) {
    let tasks = tasks(MANY);
    let (single, batch) = tasks.split_at(MANY / 2);
    single.iter().for_each(|task| push(&queue, task));
    queue.push_chain(chain(batch));
    assert_eq!(queue.len_hint(), MANY);
    let mut got = Vec::new();
    while !queue.is_empty() {
        got.extend(queue.pop().map(taken));
        got.extend(ids(queue.pop_batch(100)));
    }
    assert_eq!(got, (0..MANY).collect::<Vec<_>>());
}

/// One producer overruns the ring; each of several consumers sees its tasks in order.
#[test]
fn inject_keeps_the_order_of_one_producer_for_each_consumer() {
    let tasks = tasks(MANY);
    let queue = Inject::with_capacity(64);
    let (left, start) = (AtomicUsize::new(MANY), Barrier::new(4));
    thread::scope(|s| {
        s.spawn(|| {
            start.wait();
            tasks.iter().for_each(|task| push(&queue, task));
        });
        for limit in [1, 1, 50] {
            let (queue, left, start) = (&queue, &left, &start);
            s.spawn(move || {
                start.wait();
                let begin = Instant::now();
                let mut last = None;
                while left.load(Ordering::Relaxed) > 0 {
                    let got = ids(queue.pop_batch(limit));
                    for &id in &got {
                        assert!(last < Some(id), "{id} after {last:?}");
                        last = Some(id);
                    }
                    left.fetch_sub(got.len(), Ordering::Relaxed);
                    if got.is_empty() {
                        wait_since(begin);
                    }
                }
            });
        }
    });
    each_exactly_once(&tasks);
}

/// Four producers, four consumers: each task exactly once. Small rings live in the list,
/// the large one mostly does not.
// rule: S4-INJECT-1
#[test]
fn inject_loses_and_doubles_nothing() {
    for capacity in [2, 64, 4096] {
        let tasks = tasks(4 * MANY);
        let queue = Inject::with_capacity(capacity);
        let (left, start) = (AtomicUsize::new(tasks.len()), Barrier::new(8));
        thread::scope(|s| {
            for (producer, part) in tasks.chunks(MANY).enumerate() {
                let (queue, start) = (&queue, &start);
                s.spawn(move || {
                    start.wait();
                    if producer == 0 {
                        part.chunks(7).for_each(|some| queue.push_chain(chain(some)));
                    } else {
                        part.iter().for_each(|task| push(queue, task));
                    }
                });
            }
            for consumer in 0..4 {
                let (queue, left, start) = (&queue, &left, &start);
                s.spawn(move || {
                    start.wait();
                    let begin = Instant::now();
                    while left.load(Ordering::Relaxed) > 0 {
                        let count = match consumer {
                            0 => ids(queue.pop_batch(5)).len(),
                            _ => usize::from(queue.pop().map(taken).is_some()),
                        };
                        left.fetch_sub(count, Ordering::Relaxed);
                        if count == 0 {
                            wait_since(begin);
                        }
                    }
                });
            }
        });
        each_exactly_once(&tasks);
        assert!(queue.is_empty());
    }
}

/// Producers push while the owner drains and a thief rescues; each taker sees each
/// producer's tasks in order.
#[test]
fn inbox_loses_and_doubles_nothing() {
    let tasks = tasks(3 * MANY);
    let inbox = Inbox::new();
    let (left, start) = (AtomicUsize::new(tasks.len()), Barrier::new(5));
    thread::scope(|s| {
        for part in tasks.chunks(MANY) {
            let (inbox, start) = (&inbox, &start);
            s.spawn(move || {
                start.wait();
                for task in part {
                    let _ = post(inbox, task);
                }
            });
        }
        for thief in [false, true] {
            let (inbox, left, start) = (&inbox, &left, &start);
            s.spawn(move || {
                start.wait();
                let begin = Instant::now();
                let mut last = [None; 3];
                while left.load(Ordering::Relaxed) > 0 {
                    let got = ids(if thief { inbox.rescue() } else { inbox.drain() });
                    for &id in &got {
                        assert!(last[id / MANY] < Some(id));
                        last[id / MANY] = Some(id);
                    }
                    left.fetch_sub(got.len(), Ordering::Relaxed);
                    wait_since(begin);
                }
            });
        }
    });
    each_exactly_once(&tasks);
    assert!(inbox.is_empty());
}

/// The sleep protocol with real threads that really sleep: the pusher that found the inbox empty
/// wakes the owner, and the owner gets everything.
#[test]
fn inbox_owner_that_sleeps_is_woken() {
    use std::sync::atomic::fence;
    let tasks = tasks(2 * (MANY / 4));
    let (inbox, sleeping) = (Inbox::new(), AtomicBool::new(false));
    let owner = thread::current();
    thread::scope(|s| {
        for part in tasks.chunks(MANY / 4) {
            let (inbox, sleeping, owner) = (&inbox, &sleeping, &owner);
            s.spawn(move || {
                for task in part {
                    if post(inbox, task) {
                        fence(Ordering::SeqCst); // pairs with the owner's
                        if sleeping.load(Ordering::Relaxed) {
                            owner.unpark();
                        }
                    }
                }
            });
        }
        let mut got = 0;
        while got < tasks.len() {
            sleeping.store(true, Ordering::Relaxed);
            fence(Ordering::SeqCst); // pairs with the producers'
            if inbox.is_empty() {
                let begin = Instant::now();
                thread::park_timeout(TIMEOUT);
                assert!(begin.elapsed() < TIMEOUT, "a wake-up was lost");
            }
            sleeping.store(false, Ordering::Relaxed);
            got += ids(inbox.drain()).len();
        }
    });
    each_exactly_once(&tasks);
}

#[derive(Debug, Clone)]
enum Op {
    Push(usize),
    Front,
    Pop,
    Batch(usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => Just(Op::Push(1)),
        1 => (0..12usize).prop_map(Op::Push),
        1 => Just(Op::Front),
        3 => Just(Op::Pop),
        1 => (0..12usize).prop_map(Op::Batch),
    ]
}

proptest! {
    /// On one thread all queues are plain queues: same answers as a `VecDeque`.
    #[test]
    fn queues_behave_like_a_deque(ops in prop::collection::vec(op(), 0..120)) {
        let tasks = tasks(120 * 12);
        let mut fresh = 0;
        let (inject, inbox) = (Inject::with_capacity(8), Inbox::new());
        let (mut local, mut model) = (Chain::new(), VecDeque::new());
        // Inject and its model; the inbox feeds the local queue, whose model is `own`.
        let mut own = VecDeque::new();
        for op in ops {
            let mut take = |count| {
                let some = &tasks[fresh..fresh + count];
                fresh += count;
                some
            };
            match op {
                Op::Push(count) if count % 2 == 1 => for task in take(count) {
                    push(&inject, task);
                    model.push_back(task.id);
                },
                Op::Push(count) => {
                    let some = take(count);
                    inject.push_chain(chain(&some[..count / 2]));
                    model.extend(some[..count / 2].iter().map(|task| task.id));
                    for task in &some[count / 2..] {
                        let _ = post(&inbox, task);
                        own.push_back(task.id);
                    }
                    let mut posted = inbox.drain();
                    while let Some(task) = posted.pop_front() {
                        // SAFETY: as in `chain`.
                        unsafe { local.push_back(task) };
                    }
                }
                Op::Front => {
                    let task = &take(1)[0];
                    // SAFETY: as in `chain`.
                    unsafe { local.push_front(NonNull::from(task)) };
                    own.push_front(task.id);
                }
                Op::Pop => {
                    prop_assert_eq!(inject.pop().map(taken), model.pop_front());
                    prop_assert_eq!(local.pop_front().map(taken), own.pop_front());
                }
                Op::Batch(limit) => {
                    let got = ids(inject.pop_batch(limit));
                    prop_assert!(got.len() <= limit);
                    prop_assert!(limit == 0 || model.is_empty() || !got.is_empty());
                    let want: Vec<_> = model.drain(..got.len()).collect();
                    prop_assert_eq!(got, want);
                    if let Some(task) = local.pop_front() {
                        // SAFETY: as in `chain`.
                        unsafe { local.push_back(task) };
                        own.rotate_left(1);
                    }
                }
            }
            prop_assert_eq!(inject.is_empty(), model.is_empty());
            prop_assert_eq!(inject.len_hint(), model.len());
            prop_assert_eq!((local.len(), local.is_empty()), (own.len(), own.is_empty()));
        }
        let rest: Vec<_> = std::iter::from_fn(|| inject.pop()).map(taken).collect();
        prop_assert_eq!(rest, Vec::from(model));
        prop_assert_eq!(ids(local), Vec::from(own));
    }
}
