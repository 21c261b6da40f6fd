//! The state word under loom.
//!
//! The stack of the task is modelled as a cell that loom watches: the worker that runs the task
//! writes to it, so two workers on one stack, or a worker that does not see the writes of the last
//! one, is an error that loom finds. The same goes for the result in the record of a task with a
//! handle. Run: `.ci/run loom`.

use super::*;
use crate::base::shim::explore;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::AtomicBool;
use loom::thread;

/// Maximum number of preemptions in a schedule: enough to find every listed mutation.
const BOUND: Option<usize> = Some(4);

/// A task: its word, its stack, and its condition.
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
    let generation = task.word.spawn(RecordHandle::None);
    (Arc::new(task), generation)
}

/// A worker with a task that it dequeued: runs it until its condition holds.
/// Returns whether the task ended; otherwise it is parked.
fn run(task: &Modelled, worker: usize) -> bool {
    run_as(task, worker, Mobility::Movable, || true, Waiting::Parks)
}

/// Whether a task that waits looks for a wake before it leaves its stack.
#[derive(PartialEq)]
enum Waiting {
    Lingers,
    Parks,
}

/// As [`run`], for a task that may move or not, and that has one more condition.
fn run_as(
    task: &Modelled,
    worker: usize,
    mobility: Mobility,
    more: impl Fn() -> bool,
    waiting: Waiting,
) -> bool {
    task.word.claim(worker);
    loop {
        task.stack.with_mut(|stack| {
            // SAFETY: the model's claim, which loom checks.
            unsafe { *stack += 1 };
        });
        // Relaxed: the word orders it.
        if task.condition.load(std::sync::atomic::Ordering::Relaxed) && more() {
            task.word.finish(|| ());
            return true;
        }
        if waiting == Waiting::Lingers && task.word.take_wake() {
            continue;
        }
        if mobility == Mobility::Pinned && task.word.park_again() {
            return false;
        }
        match task.word.park(mobility) {
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

/// A park against an unpark: the task ends exactly once.
// rule: S0-STATE-7, S0-WTLS-7, S4-INV-1, S4-MEM-2, S4-MEM-3, S4-MEM-4, S4-MEM-5, S4-MEM-6
// rule: S4-MEM-10, S4-PARK-3, S4-PARK-5, S4-PARK-7, S4-PARK-9, S4-PARK-10, S4-PARK-11, S4-PARK-14
// rule: S4-PARK-16, S4-TERM-4, S4-TERM-6, S4-UNPARK-1, S4-UNPARK-2, S4-UNPARK-3, S4-UNPARK-4
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

/// A task that looks for a wake before it leaves its stack, against an unpark: the task ends
/// exactly once, and a wake that it takes on its stack shows what the waker wrote before.
#[test]
fn linger_against_unpark() {
    explore("state::linger_against_unpark", BOUND, || {
        let (task, generation) = modelled();
        let waker = {
            let task = Arc::clone(&task);
            thread::spawn(move || wake(&task, generation, 1))
        };
        let here = run_as(&task, 0, Mobility::Movable, || true, Waiting::Lingers);
        let there = waker.join().unwrap();
        assert!(here != there, "ended {}", if here { "twice" } else { "never" });
    });
}

/// Two unparkers: one enqueues at most, and the task ends exactly once.
// rule: S3-OWN-3, S4-INV-1, S4-INV-3, S4-MEM-2, S4-MEM-3, S4-MEM-4, S4-MEM-5, S4-MEM-6, S4-MEM-10
// rule: S4-PARK-12, S4-PARK-13, S4-SPAWN-6, S4-TERM-4, S4-TERM-5, S4-UNPARK-1, S4-UNPARK-2
// rule: S4-UNPARK-3, S4-UNPARK-4
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

/// A task that may not move is woken by its own worker and by another thread at the same time. Both
/// wakes count, and the task ends exactly once, on its worker.
#[test]
fn a_local_wake_against_a_remote_one() {
    explore("state::a_local_wake_against_a_remote_one", BOUND, || {
        let (task, generation) = modelled();
        let local = std::cell::Cell::new(false);
        let remote = {
            let task = Arc::clone(&task);
            thread::spawn(move || {
                task.condition.store(true, std::sync::atomic::Ordering::Relaxed);
                matches!(task.word.unpark(generation), Woken::Enqueue { .. })
            })
        };
        let run = || run_as(&task, 0, Mobility::Pinned, || local.get(), Waiting::Parks);
        let mut ends = usize::from(run());
        assert_eq!(ends, 0, "one of its conditions does not hold");
        local.set(true);
        let own = task.word.unpark_own(OwnParked::of(0), generation);
        if own || matches!(task.word.unpark_on(0, generation), Woken::Enqueue { owner: 0 }) {
            ends += usize::from(run());
        }
        let in_the_inbox = remote.join().unwrap();
        if in_the_inbox {
            ends += usize::from(run());
        }
        assert_eq!(ends, 1);
    });
}

/// An observer: reads the stack of a parked task, writes to it, and carries out a wake that came
/// meanwhile. Returns whether the task ended there.
fn observe(task: &Modelled, generation: Generation, worker: usize) -> bool {
    if !task.word.observe(generation) {
        return false;
    }
    task.stack.with_mut(|stack| {
        // SAFETY: the model's claim, which loom checks.
        unsafe { *stack += 1 };
    });
    match task.word.unobserve() {
        Woken::Enqueue { .. } => run(task, worker),
        Woken::Noted | Woken::Stale => false,
    }
}

/// An observer reads a task that is parked and woken at the same time: the task ends exactly once,
/// and its stack has one owner at a time.
#[test]
fn observe_against_unpark() {
    explore("state::observe_against_unpark", BOUND, || {
        let (task, generation) = modelled();
        let waker = {
            let task = Arc::clone(&task);
            thread::spawn(move || wake(&task, generation, 1))
        };
        let observer = {
            let task = Arc::clone(&task);
            thread::spawn(move || observe(&task, generation, 2))
        };
        let mut ends = usize::from(run(&task, 0));
        ends += usize::from(waker.join().unwrap()) + usize::from(observer.join().unwrap());
        assert_eq!(ends, 1);
    });
}

/// Two observers of the same task: one after the other.
#[test]
fn two_observers() {
    explore("state::two_observers", BOUND, || {
        let (task, generation) = modelled();
        assert!(!run(&task, 0));
        let observers: Vec<_> = (1..=2)
            .map(|worker| {
                let task = Arc::clone(&task);
                thread::spawn(move || observe(&task, generation, worker))
            })
            .collect();
        let mut ends = usize::from(wake(&task, generation, 0));
        for observer in observers {
            ends += usize::from(observer.join().unwrap());
        }
        assert_eq!(ends, 1);
    });
}

/// A cancel against a park: the request is seen, and the task does not sleep through it.
// rule: S4-MEM-2, S4-MEM-3, S4-MEM-4, S4-MEM-5, S4-MEM-6, S4-MEM-10
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
            if task.word.park(Mobility::Movable) == Parking::Parked {
                break;
            }
        }
        let woke = canceller.join().unwrap();
        assert!(saw != woke, "the request was seen {}", if saw { "twice" } else { "never" });
    });
}

/// A task that yields and may move: the next worker sees its stack.
// rule: S4-HAND-3, S4-HAND-8, S4-SPAWN-5, S4-TERM-6
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

/// A stale waker against the end and the reuse of a record: its wake affects the generation that it
/// names, or none.
// rule: S4-CTRL-7
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
        task.word.spawn(RecordHandle::None);
        task.word.claim(0);
        assert_eq!(
            task.word.park(Mobility::Movable),
            Parking::Parked,
            "woken by a handle to the last life"
        );
        assert!(!matches!(stale.join().unwrap(), Woken::Enqueue { .. }));
    });
}

/// A record with a handle: the data that holder and worker share beside the word.
struct Held {
    word: StateWord,
    /// The result; none after it was taken.
    place: UnsafeCell<Option<u32>>,
    /// The joiner. Written in every life of the record; `None` if there is none in this one.
    joiner: UnsafeCell<Option<u32>>,
    /// Something that the holder may look at as long as it holds.
    id: UnsafeCell<u32>,
    generation: Generation,
    /// Set by the worker before it publishes the end.
    returned: AtomicBool,
    freed: AtomicBool,
}

const RESULT: u32 = 7;
const JOINER: u32 = 11;

fn held() -> Arc<Held> {
    let word = StateWord::new();
    let generation = word.spawn(RecordHandle::Held);
    word.claim(0);
    Arc::new(Held {
        word,
        place: UnsafeCell::new(None),
        joiner: UnsafeCell::new(None),
        id: UnsafeCell::new(1),
        generation,
        returned: AtomicBool::new(false),
        freed: AtomicBool::new(false),
    })
}

impl Held {
    /// The thread that owns the record takes the result and reuses the record for another task,
    /// which overwrites it: loom reports a thread that still reads it.
    fn free(&self) {
        let relaxed = std::sync::atomic::Ordering::Relaxed; // a figure for the end
        assert!(!self.freed.swap(true, relaxed), "freed twice");
        // SAFETY: the model's claim, which loom checks.
        unsafe {
            self.place.with_mut(|place| assert_eq!((*place).take(), Some(RESULT), "no result"));
            self.joiner.with_mut(|joiner| *joiner = None);
            self.id.with_mut(|id| *id += 1);
        }
        self.word.recycle();
    }

    /// The worker: the result, then the end. Returns the task to unpark.
    fn finish(&self) -> Option<u32> {
        // SAFETY: the model's claim, which loom checks.
        self.place.with_mut(|place| unsafe { *place = Some(RESULT) });
        let relaxed = std::sync::atomic::Ordering::Relaxed; // ordered by the word
        self.returned.store(true, relaxed);
        // SAFETY: as above.
        match self.word.finish(|| self.joiner.with(|joiner| unsafe { *joiner })) {
            Finished::Free => {
                self.free();
                None
            }
            Finished::Held(None) => None,
            Finished::Held(Some(joiner)) => {
                assert_eq!(joiner, Some(JOINER), "nobody had joined");
                joiner
            }
        }
    }

    /// The holder reads the task, and joins it; false if the task has ended.
    fn join(&self) -> bool {
        // SAFETY: the model's claim, which loom checks.
        unsafe {
            self.id.with(|id| assert_eq!(*id, 1, "another task's"));
            self.joiner.with_mut(|joiner| *joiner = Some(JOINER));
        }
        self.word.join()
    }

    fn let_go(&self) {
        if self.word.let_go() == LetGo::Done {
            self.free();
        }
    }

    /// A stale handle asks whether the task has ended: only after its closure has returned.
    fn check_end(&self) {
        if self.word.is_done(self.generation) {
            let relaxed = std::sync::atomic::Ordering::Relaxed; // ordered by the word
            assert!(self.returned.load(relaxed), "ended before its closure has returned");
        }
    }

    fn is_freed(&self) -> bool {
        self.freed.load(std::sync::atomic::Ordering::Relaxed)
    }
}

fn finish_in_thread(task: &Arc<Held>) -> thread::JoinHandle<Option<u32>> {
    let task = Arc::clone(task);
    thread::spawn(move || task.finish())
}

/// A task ends while its handle is dropped: one of the two frees the record, with its result.
#[test]
fn finish_against_let_go() {
    explore("state::finish_against_let_go", BOUND, || {
        let task = held();
        let worker = finish_in_thread(&task);
        // SAFETY: the model's claim, which loom checks.
        task.id.with(|id| assert_eq!(unsafe { *id }, 1, "another task's"));
        task.let_go();
        task.check_end();
        assert_eq!(worker.join().unwrap(), None);
        assert!(task.is_freed());
    });
}

/// A task ends while another joins it: the joiner is unparked, or sees the end, and has the result.
// rule: S4-ORD-3
#[test]
fn finish_against_join() {
    explore("state::finish_against_join", BOUND, || {
        let task = held();
        let worker = finish_in_thread(&task);
        let told = if task.join() {
            // Parked until it is told: here by the end of the thread, unless it looks first.
            let early = task.word.is_done(task.generation);
            if early {
                task.free();
            }
            let told = worker.join().unwrap();
            assert_eq!(told, Some(JOINER), "waits for ever");
            early
        } else {
            task.free();
            assert_eq!(worker.join().unwrap(), None, "told who does not wait");
            true
        };
        if !told {
            assert!(task.word.is_done(task.generation), "told too early");
            task.free();
        }
        assert!(task.is_freed());
    });
}

/// A task joins another and gives up, because it was cancelled, while that task ends: one of the
/// two frees the record, and JOIN's count goes to one of them. The worker may notify a joiner that
/// no longer waits.
#[test]
fn finish_against_join_and_give_up() {
    explore("state::finish_against_join_and_give_up", BOUND, || {
        let task = held();
        let worker = finish_in_thread(&task);
        let joined = task.join();
        let let_go = task.word.let_go();
        if let_go == LetGo::Done {
            task.free();
        }
        let told = worker.join().unwrap().is_some();
        assert_eq!(joined, (let_go == LetGo::Running) != told, "lost, or given to both");
        assert!(task.is_freed());
    });
}

/// The task is cancelled while it ends and its handle is dropped: neither bit gets into the next
/// generation of the record.
#[test]
fn finish_against_cancel_and_let_go() {
    explore("state::finish_against_cancel_and_let_go", Some(3), || {
        let task = held();
        let worker = finish_in_thread(&task);
        let canceller = {
            let task = Arc::clone(&task);
            thread::spawn(move || task.word.cancel(task.generation))
        };
        task.let_go();
        worker.join().unwrap();
        assert!(!matches!(canceller.join().unwrap(), Woken::Enqueue { .. }));
        assert!(task.is_freed());
        let word = task.word.0.load(Ordering::Relaxed);
        assert_eq!(word & !GENERATION, FREE, "a bit was left behind");
    });
}
