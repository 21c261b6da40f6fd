//! Loom models of the queues: every interleaving, and every value that the memory model
//! allows a load to return. Each model says what it is for and how much it explored.
//!
//! Loom treats sequentially consistent accesses as acquire/release, which does not matter
//! here: the queues have none, and full fences are modelled. It never lets a load see a
//! store that has not run yet (a processor may delay the load past a later store of its own
//! thread). The cells in slots and tasks catch what that would hide: loom checks that their
//! accesses are ordered, not only what they return.

use super::link::{Chain, Link, Linked};
use super::{Inbox, Inject, TenantQueue};
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicBool, Ordering, fence};
use loom::thread;
use std::collections::BTreeSet;
use std::ptr::NonNull;
use std::sync::Arc;

/// A task that a model pushes around.
struct Task {
    id: usize,
    link: Link<Task>,
    /// Written before the push, read after the take: loom reports if that is not ordered.
    payload: UnsafeCell<usize>,
}

// SAFETY: the link is a field of its own, touched by the queues only.
unsafe impl Linked for Task {
    unsafe fn link(this: NonNull<Task>) -> NonNull<Link<Task>> {
        // SAFETY: the caller says that the task is live.
        unsafe { NonNull::from(&this.as_ref().link) }
    }
}

/// A queue and the tasks that go through it. Tasks live as long as the world.
struct World<Q> {
    queue: Q,
    tasks: Vec<Task>,
    /// The worker's announcement.
    sleeping: AtomicBool,
    /// A wake-up was sent.
    woken: AtomicBool,
}

// SAFETY: only the payloads are not `Sync`, and loom checks their accesses.
unsafe impl<Q: Sync> Sync for World<Q> {}
// SAFETY: as above.
unsafe impl<Q: Send> Send for World<Q> {}

impl<Q> World<Q> {
    fn new(queue: Q, tasks: usize) -> Arc<World<Q>> {
        let task = |id| Task { id, link: Link::new(), payload: UnsafeCell::new(0) };
        Arc::new(World {
            queue,
            tasks: (0..tasks).map(task).collect(),
            sleeping: AtomicBool::new(false),
            woken: AtomicBool::new(false),
        })
    }

    /// The task, with its payload written: ready to be pushed.
    fn task(&self, id: usize) -> NonNull<Task> {
        let task = &self.tasks[id];
        // SAFETY: the model pushes each task from one thread and touches it only before.
        task.payload.with_mut(|payload| unsafe { *payload = id + 100 });
        NonNull::from(task)
    }
}

/// The id of a task that was taken, after a look at its payload.
fn taken(task: NonNull<Task>) -> usize {
    // SAFETY: the world outlives the threads, and who took the task has it alone.
    let task = unsafe { task.as_ref() };
    // SAFETY: as above; loom reports if the queue did not order it after the write.
    task.payload.with(|payload| assert_eq!(unsafe { *payload }, task.id + 100));
    task.id
}

/// Pushes tasks; no worker sleeps yet.
fn fill<Q: Queue>(world: &World<Q>, tasks: std::ops::Range<usize>) {
    for id in tasks {
        let _ = world.queue.put(world.task(id));
    }
}

fn ids(mut chain: Chain<Task>) -> Vec<usize> {
    (&mut chain).map(taken).collect()
}

/// A queue, as the models use it.
trait Queue: Send + Sync + 'static {
    /// Adds a task; whether the caller has to look for a sleeper.
    fn put(&self, task: NonNull<Task>) -> bool;
    fn get(&self) -> Vec<usize>;
    fn empty(&self) -> bool;
}

impl Queue for Inbox<Task> {
    fn put(&self, task: NonNull<Task>) -> bool {
        // SAFETY: models push each task once, and tasks live as long as the world.
        unsafe { self.push(task) }
    }
    fn get(&self) -> Vec<usize> {
        ids(self.drain())
    }
    fn empty(&self) -> bool {
        self.is_empty()
    }
}

impl Queue for Inject<Task> {
    fn put(&self, task: NonNull<Task>) -> bool {
        // SAFETY: models push each task once, and tasks live as long as the world.
        unsafe { self.push(task) };
        true
    }
    fn get(&self) -> Vec<usize> {
        self.pop().map(taken).into_iter().collect()
    }
    fn empty(&self) -> bool {
        self.is_empty()
    }
}

/// Explores a model, says how much there was, and checks that it was enough: `model` gives
/// what its takers saw, and at least `outcomes` different answers have to occur.
///
/// That is not idle: loom 0.7 compares a write with the last access to that word only, so
/// that a thread's own load hides an earlier load by another thread, and the order "write,
/// then that other load" is never tried. Takers are therefore the threads that are started
/// last (loom's first execution runs threads in order), and never the main thread.
#[allow(clippy::print_stdout, reason = "the figures are what the run is for")]
fn explore<O: Ord + Send + 'static>(
    name: &str,
    preemptions: Option<usize>,
    outcomes: usize,
    model: impl Fn() -> O + Send + Sync + 'static,
) {
    // Of `std`, not of loom: it lasts across executions.
    let seen = Arc::new(std::sync::Mutex::new((0, BTreeSet::new())));
    let note = Arc::clone(&seen);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.check(move || {
        let outcome = model();
        let mut seen = note.lock().unwrap();
        seen.0 += 1;
        seen.1.insert(outcome);
    });
    let seen = seen.lock().unwrap();
    println!("model {name}: {} executions, {} outcomes", seen.0, seen.1.len());
    assert!(seen.1.len() >= outcomes, "the model has become blind");
}

/// Runs `body` on another thread of the model.
fn spawn<Q: Queue, R: 'static>(
    world: &Arc<World<Q>>,
    body: impl FnOnce(&World<Q>) -> R + 'static,
) -> thread::JoinHandle<R> {
    let world = Arc::clone(world);
    thread::spawn(move || body(&world))
}

impl Queue for TenantQueue<Task> {
    fn put(&self, task: NonNull<Task>) -> bool {
        // SAFETY: models push each task once, and tasks live as long as the world.
        unsafe { self.push(0, task) };
        true
    }
    fn get(&self) -> Vec<usize> {
        self.pop(0).map(taken).into_iter().collect()
    }
    fn empty(&self) -> bool {
        self.waiting() == 0
    }
}

/// A producer of the sleep protocol.
fn submit<Q: Queue>(world: &World<Q>, id: usize) {
    if world.queue.put(world.task(id)) {
        fence(Ordering::SeqCst); // producer's: pairs with the worker's in `work`
        // Relaxed: the fences order it.
        if world.sleeping.load(Ordering::Relaxed) {
            world.woken.store(true, Ordering::Relaxed); // read after the join
        }
    }
}

/// A worker of the sleep protocol, until it has `want` tasks or goes to sleep. Returns the tasks
/// that it took.
fn work<Q: Queue>(world: &World<Q>, want: usize) -> Vec<usize> {
    let mut got = Vec::new();
    while got.len() < want {
        let some = world.queue.get();
        if !some.is_empty() {
            got.extend(some);
            continue;
        }
        world.sleeping.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst); // worker's: pairs with the producers' in `submit`
        if world.queue.empty() {
            return got; // asleep
        }
        world.sleeping.store(false, Ordering::Relaxed);
        thread::yield_now(); // a push is in progress, or this was the moment before it
    }
    got
}

/// A worker that went to sleep was woken, or there is nothing to do. A real worker that
/// was woken would look again: so does this, and has to find everything.
fn nothing_left_behind<Q: Queue>(world: &World<Q>, mut got: Vec<usize>, want: usize) {
    if got.len() < want {
        let woken = world.woken.load(Ordering::Relaxed);
        assert!(woken, "asleep with {got:?} of {want} tasks, and nobody woke it");
        loop {
            let some = world.queue.get();
            if some.is_empty() {
                break;
            }
            got.extend(some);
        }
    }
    got.sort_unstable();
    assert_eq!(got, (0..want).collect::<Vec<_>>());
    assert!(world.queue.empty());
}

/// Two producers and a worker that may sleep, over a queue that holds `already` tasks.
/// Returns the tasks that the worker took before it slept, and whether it was woken.
fn sleep<Q: Queue>(queue: Q, already: usize) -> (Vec<usize>, bool) {
    let all = already + 2;
    let world = World::new(queue, all);
    fill(&world, 0..already);
    let producers = [already, already + 1].map(|id| spawn(&world, move |w| submit(w, id)));
    let worker = spawn(&world, move |w| work(w, all));
    producers.into_iter().for_each(|producer| producer.join().unwrap());
    let got = worker.join().unwrap();
    nothing_left_behind(&world, got.clone(), all);
    (got, world.woken.load(Ordering::Relaxed))
}

/// Three tasks have come out, all of them and each once, and the first two in their order.
fn check_three(mut all: Vec<usize>) {
    let place = |id| all.iter().position(|&other| other == id).unwrap();
    assert!(place(0) < place(1));
    all.sort_unstable();
    assert_eq!(all, [0, 1, 2]);
}

/// Two producers against a drain: each task once, complete, each producer's in its order; and
/// exactly one push finds the inbox empty for each time it was.
// rule: S4-QUEUE-2
#[test]
fn inbox_push_push_drain() {
    // Nothing, any prefix of the first producer's, with or without the second's anywhere.
    explore("inbox_push_push_drain", None, 9, || {
        let world = World::new(Inbox::new(), 3);
        let first = spawn(&world, |w| {
            let one = w.queue.put(w.task(0));
            let two = w.queue.put(w.task(1));
            usize::from(one) + usize::from(two)
        });
        let second = spawn(&world, |w| usize::from(w.queue.put(w.task(2))));
        let taker = spawn(&world, |w| w.queue.get());
        let first_in = first.join().unwrap() + second.join().unwrap();
        let got = taker.join().unwrap();
        let rest = world.queue.get();
        assert_eq!(first_in, usize::from(!got.is_empty()) + usize::from(!rest.is_empty()));
        check_three([got.clone(), rest].concat());
        got
    });
}

/// The owner drains, a thief rescues, a producer pushes: disjoint, complete, in order.
// rule: S4-QUEUE-5
#[test]
fn inbox_drain_rescue() {
    // One of them gets the first task, with 0 to 2 more; the other what came after, or not.
    explore("inbox_drain_rescue", Some(3), 12, || {
        let world = World::new(Inbox::new(), 3);
        fill(&world, 0..1);
        let producer = spawn(&world, |w| fill(w, 1..3));
        let thief = spawn(&world, |w| ids(w.queue.rescue()));
        let owner = spawn(&world, |w| w.queue.get());
        producer.join().unwrap();
        let (rescued, got) = (thief.join().unwrap(), owner.join().unwrap());
        assert!(rescued.is_sorted() && got.is_sorted());
        let mut all = [rescued.clone(), got.clone(), world.queue.get()].concat();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2]);
        (rescued, got)
    });
}

/// Writes to a task before its push are seen after the take, also for a task
/// that lies below another's push (the release sequence of `top`).
// rule: S4-MEM-7
#[test]
fn inbox_publishes() {
    explore("inbox_publishes", None, 5, || {
        let world = World::new(Inbox::new(), 2);
        let a = spawn(&world, |w| fill(w, 0..1));
        let b = spawn(&world, |w| fill(w, 1..2));
        let taker = spawn(&world, |w| w.queue.get()); // `taken` looks at the payloads
        let got = taker.join().unwrap();
        a.join().unwrap();
        b.join().unwrap();
        assert_eq!(got.len() + world.queue.get().len(), 2);
        got
    });
}

/// Inbox, sleep protocol: only the first one in looks for the sleeper.
// rule: S4-QUEUE-2
#[test]
fn inbox_sleep() {
    explore("inbox_sleep", Some(3), 7, || sleep(Inbox::new(), 0));
}

/// A ring of two, a lap behind it: two pushes against two takes, slots are reused. Each task
/// once, complete; loom checks that no slot is written while it is read.
// rule: S4-INJECT-1, S4-INJECT-3
#[test]
fn inject_wraps() {
    explore("inject_wraps", Some(3), 2, || {
        let world = World::new(Inject::with_capacity(2), 4);
        fill(&world, 0..2);
        let producer = spawn(&world, |w| fill(w, 2..4));
        let takers = [0, 1].map(|_| spawn(&world, |w| w.queue.get()));
        producer.join().unwrap();
        let first = takers.map(|taker| taker.join().unwrap());
        assert!(first.iter().all(|got| got.len() == 1), "two tasks were there: {first:?}");
        let rest: Vec<_> = (0..2).flat_map(|_| world.queue.get()).collect();
        let mut all = [first.concat(), rest.clone()].concat();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3]);
        assert!(world.queue.empty());
        (first, rest)
    });
}

/// The same with one taker: a slot is used again as soon as it is free, in order.
// rule: S4-INJECT-3
#[test]
fn inject_reuses_a_slot() {
    explore("inject_reuses_a_slot", None, 2, || {
        let world = World::new(Inject::with_capacity(2), 4);
        fill(&world, 0..2);
        let taker = spawn(&world, |w| (0..3).flat_map(|_| w.queue.get()).collect::<Vec<_>>());
        let producer = spawn(&world, |w| fill(w, 2..4));
        producer.join().unwrap();
        let got = taker.join().unwrap();
        let rest: Vec<_> = (0..2).flat_map(|_| world.queue.get()).collect();
        assert_eq!([got.clone(), rest].concat(), [0, 1, 2, 3]);
        got
    });
}

/// Two producers race for the positions of a ring of four while a batch is taken.
// rule: S4-INJECT-1, S4-INJECT-3, S4-MEM-7, S4-SPAWN-3
#[test]
fn inject_push_push_pop() {
    explore("inject_push_push_pop", Some(3), 5, || {
        let world = World::new(Inject::with_capacity(4), 3);
        let batch = spawn(&world, |w| {
            let mut chain = Chain::new();
            // SAFETY: the tasks are live as long as the world and in no queue.
            unsafe {
                chain.push_back(w.task(0));
                chain.push_back(w.task(1));
            }
            w.queue.push_chain(chain);
        });
        let single = spawn(&world, |w| fill(w, 2..3));
        let taker = spawn(&world, |w| ids(w.queue.pop_batch(2)));
        batch.join().unwrap();
        single.join().unwrap();
        let got = taker.join().unwrap();
        check_three([got.clone(), ids(world.queue.pop_batch(3))].concat());
        got
    });
}

/// The ring is full: pushes go to the list while takers make room. Nothing is lost, and the
/// producer's tasks come out in its order.
// rule: S4-INJECT-4, S4-QUEUE-3
#[test]
fn inject_overflows() {
    explore("inject_overflows", Some(3), 4, || {
        let world = World::new(Inject::with_capacity(2), 5);
        fill(&world, 0..2);
        let producer = spawn(&world, |w| fill(w, 2..5));
        let taker = spawn(&world, |w| (0..4).map(|_| w.queue.get()).collect::<Vec<_>>());
        producer.join().unwrap();
        let got = taker.join().unwrap();
        let rest: Vec<_> = (0..3).flat_map(|_| world.queue.get()).collect();
        assert_eq!([got.concat(), rest].concat(), [0, 1, 2, 3, 4]);
        assert!(world.queue.empty());
        got
    });
}

/// While another taker moves tasks from the list to the ring, `is_empty` does not miss the
/// one that is left, nor does `pop`.
// rule: S4-INJECT-5
#[test]
fn inject_refill_hides_nothing() {
    for ask in [false, true] {
        let name = if ask { "inject_refill_is_empty" } else { "inject_refill_pop" };
        explore(name, None, if ask { 1 } else { 4 }, move || {
            let world = World::new(Inject::with_capacity(2), 4);
            fill(&world, 0..4);
            let other = spawn(&world, |w| (0..3).flat_map(|_| w.queue.get()).collect::<Vec<_>>());
            let observer = spawn(&world, move |w| {
                if ask {
                    assert!(!w.queue.empty(), "one task is left, wherever it is");
                    return Vec::new();
                }
                let last = w.queue.get();
                assert_eq!(last.len(), 1, "the other one takes three of four");
                last
            });
            let other = other.join().unwrap();
            let last = observer.join().unwrap();
            let mut all = [other, last.clone(), world.queue.get()].concat();
            all.sort_unstable();
            assert_eq!(all, [0, 1, 2, 3]);
            last
        });
    }
}

/// Two takers that find the ring empty and the list full: each sees its tasks in order.
#[test]
fn inject_refill_keeps_order() {
    explore("inject_refill_keeps_order", None, 3, || {
        let world = World::new(Inject::with_capacity(2), 6);
        fill(&world, 0..6);
        assert_eq!(world.queue.get(), [0]);
        assert_eq!(world.queue.get(), [1]); // only the list is left
        let one = spawn(&world, |w| w.queue.get());
        let two = spawn(&world, |w| (0..2).flat_map(|_| w.queue.get()).collect::<Vec<_>>());
        let (one, two) = (one.join().unwrap(), two.join().unwrap());
        assert!(two.is_sorted(), "{two:?}");
        let mut all = [one, two.clone(), world.queue.get()].concat();
        all.sort_unstable();
        assert_eq!(all, [2, 3, 4, 5]);
        two
    });
}

/// Global queue, sleep protocol, tasks in the ring.
#[test]
fn inject_sleep_ring() {
    explore("inject_sleep_ring", Some(3), 7, || sleep(Inject::with_capacity(4), 0));
}

/// Global queue, sleep protocol, tasks in ring and list, and moved between them.
#[test]
fn inject_sleep_overflow() {
    explore("inject_sleep_overflow", Some(3), 7, || sleep(Inject::with_capacity(2), 1));
}

/// Global queue, sleep protocol, the ring full from the start: both pushes go to the list.
#[test]
fn inject_sleep_list() {
    explore("inject_sleep_list", Some(2), 7, || sleep(Inject::with_capacity(2), 2));
}

/// Queue of a tenant, sleep protocol: the counter is asked instead of the queue.
#[test]
fn tenant_sleep() {
    explore("tenant_sleep", Some(3), 7, || sleep(TenantQueue::new(), 0));
}

/// Two takers: while a task is left the counter shows it, whatever the other one has taken.
#[test]
fn tenant_counter_hides_nothing() {
    explore("tenant_counter_hides_nothing", None, 1, || {
        let world = World::new(TenantQueue::new(), 2);
        fill(&world, 0..2);
        let other = spawn(&world, |w| w.queue.get());
        let observer = spawn(&world, |w| assert!(!w.queue.empty(), "one task is left"));
        observer.join().unwrap();
        let got = other.join().unwrap();
        assert_eq!([got.clone(), world.queue.get()].concat(), [0, 1]);
        assert!(world.queue.empty());
        got
    });
}
