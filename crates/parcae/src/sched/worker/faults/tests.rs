//! A panic of the runtime at every step: each task runs once, and to its end.

use super::*;
use crate::RootTask;
use crate::prelude::*;
use crate::stack::StackSize;
use crate::sync::channel::channel;
use crate::task::Placement;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Children, and as many root tasks.
const TASKS: usize = 40;

/// How often each task has begun and ended.
struct Tickets {
    begun: Vec<AtomicU32>,
    ended: Vec<AtomicU32>,
}

impl Tickets {
    fn new() -> Tickets {
        let zeros = || (0..2 * TASKS).map(|_| AtomicU32::new(0)).collect();
        Tickets { begun: zeros(), ended: zeros() }
    }

    /// A task's life, with every kind of wait in it.
    fn live(&self, cx: &Cx, number: usize, faults: &dyn Fn()) -> crate::Result<()> {
        self.begun[number].fetch_add(1, Ordering::Relaxed);
        if number.is_multiple_of(5) {
            faults();
        }
        cx.yield_now()?;
        cx.waker().wake(); // before it parks
        cx.park()?;
        if number.is_multiple_of(3) {
            cx.sleep(Duration::from_micros(number as u64 * 20))?;
        }
        // Woken by its own child, which may run on another worker.
        let (tx, rx) = channel::<usize>(0);
        let echo = cx.nursery(|n| {
            let child = n.spawn(move |_| Ok(tx.send(number)?))?;
            let echo = rx.recv()?;
            child.join()?;
            Ok(echo)
        })?;
        assert_eq!(echo, number);
        if number.is_multiple_of(7) {
            faults();
        }
        cx.yield_now()?;
        self.ended[number].fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn check(&self, what: &str) {
        for number in 0..2 * TASKS {
            let count = |all: &[AtomicU32]| all[number].load(Ordering::Relaxed);
            assert_eq!((count(&self.begun), count(&self.ended)), (1, 1), "{what}: task {number}");
        }
    }
}

fn opts(number: usize) -> SpawnOpts {
    let opts = SpawnOpts::new();
    match number % 8 {
        0 => opts.stack_size(StackSize::new(512 << 10).unwrap()),
        1 => opts.priority(Priority::High),
        2 => opts.priority(Priority::Low),
        // SAFETY: numbers and shared references on its stack, and no thread-local data.
        3 => unsafe { opts.migratable() },
        4 => opts.placement(Placement::Near),
        5 => opts.placement(Placement::Spread),
        6 => opts.placement(Placement::Near).priority(Priority::High),
        _ => opts,
    }
}

/// All kinds of tasks at once: unstarted, stolen, woken by others, movable, with stacks of another
/// size, roots from outside and inside. Workers panic at the step again and again.
fn storm(rt: &Runtime, step: FaultPoint, what: &str) {
    let shared = rt.engine().shared();
    let arm = move || shared.faults.arm(step, 1);
    let tickets = Arc::new(Tickets::new());
    arm();
    let roots: Vec<_> = (0..TASKS)
        .map(|number| {
            let (tickets, arm) = (Arc::clone(&tickets), arm.clone());
            let task = move |cx: &Cx| tickets.live(cx, TASKS + number, &arm);
            rt.handle().spawn_with(opts(number), task).unwrap()
        })
        .collect();
    let outcome = rt.run(|cx| {
        cx.nursery(|n| {
            let mut handles = Vec::new();
            for number in 0..TASKS {
                let (tickets, arm) = (&tickets, &arm);
                let child = n.spawn_with(opts(number), move |cx| tickets.live(cx, number, arm))?;
                if number.is_multiple_of(2) {
                    handles.push(child);
                }
            }
            handles.into_iter().try_for_each(|child| child.join())
        })?;
        roots.into_iter().try_for_each(RootTask::join)
    });
    if let Err(error) = outcome {
        panic!("{what}: {error:#}");
    }
    tickets.check(what);
}

/// Hangs end the process: a runtime on threads waits for its tasks when it is dropped.
fn watched(test: impl FnOnce(&Mutex<String>) + Send) {
    let (at, done) = (Mutex::new(String::new()), AtomicBool::new(false));
    std::thread::scope(|s| {
        s.spawn(|| {
            let mut last = (String::new(), 0);
            while !done.load(Ordering::Acquire) {
                std::thread::sleep(Duration::from_millis(100));
                let now = at.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
                last = if now == last.0 { (now, last.1 + 1) } else { (now, 0) };
                if last.1 > 3_000 {
                    let line = format!("stuck at {}\n", last.0);
                    let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
                    std::process::abort();
                }
            }
        });
        struct Done<'d>(&'d AtomicBool);
        impl Drop for Done<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Release);
            }
        }
        let _done = Done(&done);
        test(&at);
    });
}

/// Steps that one of the executors does not have.
const THREADS_ONLY: [FaultPoint; 5] = [
    FaultPoint::Timers,
    FaultPoint::LeavePicked,
    FaultPoint::LeaveClaimed,
    FaultPoint::Look,
    FaultPoint::Awake,
];
const DETERMINISTIC_ONLY: [FaultPoint; 1] = [FaultPoint::StoppedSearching];

// rule: S0-ERR-5
#[test]
fn a_panic_at_any_step_costs_no_task_on_threads() {
    watched(|at| {
        for &step in FaultPoint::ALL.iter().filter(|step| !DETERMINISTIC_ONLY.contains(step)) {
            let mut had = 0;
            // A busy machine may not come to a step, such as a steal, in the first rounds.
            for round in 0..50 {
                if round >= 2 && had > 0 {
                    break;
                }
                for workers in [1, 2, 4] {
                    let what = format!("{step:?}, {workers} workers, round {round}");
                    (*at.lock().unwrap()).clone_from(&what);
                    let builder = Runtime::builder().workers(workers).stall_after(Duration::MAX);
                    let rt = builder.build().unwrap();
                    storm(&rt, step, &what);
                    had += rt.engine().shared().faults.had(step);
                    assert!(rt.shutdown(Duration::from_secs(600)).is_complete(), "{what}");
                }
            }
            assert!(had > 0, "{step:?} was never come to");
        }
    });
}

// rule: S0-ERR-5
#[test]
fn a_panic_at_any_step_costs_no_task_under_any_seed() {
    watched(|at| {
        for &step in FaultPoint::ALL.iter().filter(|step| !THREADS_ONLY.contains(step)) {
            let had = AtomicUsize::new(0);
            for workers in [1, 2, 5] {
                for seed in 0..4 {
                    let what = format!("{step:?}, {workers} workers, seed {seed}");
                    (*at.lock().unwrap()).clone_from(&what);
                    let builder = Runtime::builder().workers(workers).deterministic(seed);
                    let rt = builder.build().unwrap();
                    storm(&rt, step, &what);
                    had.fetch_add(rt.engine().shared().faults.had(step), Ordering::Relaxed);
                    assert_eq!(rt.live_tasks(), 0, "{what}");
                }
            }
            assert!(had.into_inner() > 0, "{step:?} was never come to");
        }
    });
}

/// A worker that fails again and again, at any step, gets on.
#[test]
fn panics_at_all_steps_at_once_cost_no_task() {
    watched(|at| {
        for seed in 0..40 {
            (*at.lock().unwrap()).clone_from(&format!("all, seed {seed}"));
            let builder = Runtime::builder().workers(1 + seed as usize % 4);
            let builder = match seed {
                0..10 => builder.stall_after(Duration::MAX),
                _ => builder.deterministic(seed),
            };
            let rt = builder.build().unwrap();
            // Not more than `settle` tries again.
            FaultPoint::ALL.iter().for_each(|&step| rt.engine().shared().faults.arm(step, 2));
            storm(&rt, FaultPoint::Picked, "all");
        }
    });
}
