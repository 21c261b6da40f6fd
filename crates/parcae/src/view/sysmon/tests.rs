//! The monitor and temporary workers, on threads: stuck workers are real here.

use super::*;
use crate::api::engine::{Engine, EngineOpts, park, scope, worker_index, yield_now};
use crate::prelude::*;
use crate::runtime::Victims;
use crate::sched::task::Task;
use crate::task::Waker;
use crate::view::inspect::OnDeadlock;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};

/// As long as a test waits for what must come.
const LONG: Duration = Duration::from_secs(60);

/// An engine whose temporary workers retire soon.
fn engine(workers: usize, temporary: usize) -> Engine {
    let monitor = MonitorOpts {
        temporary,
        temporary_idle: Duration::from_millis(5),
        stall_after: None,
        ..MonitorOpts::default()
    };
    Engine::new(EngineOpts { workers, monitor, ..EngineOpts::default() }).unwrap()
}

/// The reports of a runtime.
struct Stalls(Mutex<Receiver<StallReport>>);

impl Stalls {
    /// Blocks until there is one.
    fn next(&self) -> StallReport {
        self.0.lock().unwrap().recv_timeout(LONG).expect("a report")
    }

    /// After the end of the runtime: those that are left.
    fn rest(self) -> Vec<StallReport> {
        self.0.into_inner().unwrap().iter().collect()
    }
}

/// A runtime that reports stalls soon, and its reports.
fn reporting_as(
    builder: crate::runtime::Builder<crate::scope::profile::Service>,
) -> (Runtime, Stalls) {
    let (reports, stalls) = channel();
    let reports = Mutex::new(reports);
    let rt = builder
        .stall_after(Duration::from_millis(30))
        .on_stall(move |report| drop(reports.lock().unwrap().send(report.clone())))
        .build()
        .unwrap();
    (rt, Stalls(Mutex::new(stalls)))
}

/// A monitor that the test drives itself.
fn monitor_of(shared: &Shared) -> Monitor {
    Monitor::new(shared.thread_set().unwrap(), &MonitorOpts::default(), OnDeadlock::Report)
}

fn reporting(workers: usize) -> (Runtime, Stalls) {
    reporting_as(Runtime::builder().workers(workers))
}

fn eventually(mut so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !so() {
        assert!(started.elapsed() < LONG, "it did not come to that");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Blocks a worker until there is a report as it is asked for. There may be others before: a
/// machine that has no processor for a worker makes it look stuck anywhere, or not answer.
fn next_that(rt: &Runtime, stalls: &Stalls, good: fn(&StallReport) -> bool) -> StallReport {
    let report = rt.run(|cx| {
        loop {
            let report = stalls.next();
            if good(&report) {
                return Ok(report);
            }
            cx.yield_now()?;
        }
    });
    report.unwrap()
}

/// Runs `task` as a named child, again and again, and returns the first report that is as it is
/// asked for.
fn report_of(task: fn(&AtomicBool), good: fn(&StallReport) -> bool) -> StallReport {
    let (rt, stalls) = reporting(1);
    let started = Instant::now();
    loop {
        let report = report_of_one(&rt, &stalls, task);
        if good(&report) || started.elapsed() > LONG {
            return report;
        }
    }
}

fn report_of_one(rt: &Runtime, stalls: &Stalls, task: fn(&AtomicBool)) -> StallReport {
    let reported = AtomicBool::new(false);
    std::thread::scope(|s| {
        let waiting = s.spawn(|| {
            let report = stalls.next();
            reported.store(true, Ordering::Release);
            report
        });
        rt.run(|cx| {
            cx.nursery(|n| {
                let opts = SpawnOpts::new().name("culprit");
                n.spawn_with(opts, |_| {
                    task(&reported);
                    Ok(())
                })?
                .join()
            })
        })
        .unwrap();
        waiting.join().unwrap()
    })
}

/// The question interrupts calls that the system does not restart, so a task may go on, and its
/// worker rest, while the report is being made.
#[test]
fn a_stall_that_the_question_ends_is_reported_all_the_same() {
    use super::examine::StallEvidence::{InTask, NoAnswer, OutsideTask};
    for rests in [false, true] {
        // An answer inside of the task counts, whatever came after.
        assert!(InTask { pulse: 7 }.shows_stall(7, rests));
        // Another step was made before the answer: it is another task, or none.
        for sight in [InTask { pulse: 8 }, OutsideTask { pulse: 8 }, NoAnswer { pulse: 8 }] {
            assert!(!sight.shows_stall(7, rests), "{sight:?}");
        }
        for sight in [OutsideTask { pulse: 7 }, NoAnswer { pulse: 7 }] {
            assert_eq!(sight.shows_stall(7, rests), !rests, "{sight:?}");
        }
    }
}

#[inline(never)]
fn a_function_that_blocks(reported: &AtomicBool) {
    while !reported.load(Ordering::Acquire) {
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[inline(never)]
fn a_function_that_computes(reported: &AtomicBool) {
    while !reported.load(Ordering::Acquire) {
        std::hint::spin_loop();
    }
}

// rule: S4-STALL-1, S4-STALL-2
#[test]
fn a_task_that_blocks_its_worker_is_named_and_located() {
    let report = report_of(a_function_that_blocks, |report| {
        report.kind == StallKind::Blocked && report.task.is_some() && !report.frames.is_empty()
    });
    assert_eq!(report.kind, StallKind::Blocked);
    let task = report.task.as_ref().expect("the task");
    assert_eq!(task.name(), Some("culprit"));
    assert!(task.spawned_at().file().ends_with("sysmon/tests.rs"));
    let text = report.to_string();
    assert!(text.contains("parcae::blocking"), "{text}");
    if let Some(call) = &report.blocked_in {
        assert!(call.name.is_some() && text.contains(&format!("blocked in {call}")), "{text}");
    }
    assert!(text.contains("a_function_that_blocks"), "{text}");
    assert!(!text.contains("probe::handler"), "the handler's own frames are cut off: {text}");
}

// rule: S4-STALL-1
#[test]
fn a_task_that_computes_without_a_checkpoint_is_named_and_located() {
    let report = report_of(a_function_that_computes, |report| {
        report.task.as_ref().and_then(|task| task.name()) == Some("culprit")
            && report.to_string().contains("a_function_that_computes")
    });
    // On a machine that is busy with other things it may not get to compute.
    assert!(matches!(report.kind, StallKind::Computing | StallKind::Starved));
    assert_eq!(report.task.as_ref().and_then(|task| task.name()), Some("culprit"));
    assert!(report.still_for >= Duration::from_millis(30));
    let text = report.to_string();
    assert!(text.contains("a_function_that_computes"), "{text}");
}

// rule: S4-STALL-2
#[test]
fn without_the_signal_a_stall_is_reported_but_not_located() {
    let (rt, stalls) = reporting_as(Runtime::builder().workers(1).no_stall_signal());
    let report = next_that(&rt, &stalls, |report| report.kind == StallKind::Blocked);
    assert!(report.task.is_none() && report.frames.is_empty());
}

// rule: S4-SYSMON-1
#[test]
fn a_stall_is_reported_once() {
    let (rt, stalls) = reporting(1);
    rt.run(|cx| {
        while stalls.next().kind != StallKind::Blocked {
            cx.yield_now()?; // the machine has stopped it, and it had not blocked yet
        }
        std::thread::sleep(Duration::from_millis(400)); // the same stall
        Ok(())
    })
    .unwrap();
    drop(rt);
    assert!(stalls.rest().iter().all(|stall| stall.kind == StallKind::Starved));
}

#[test]
fn a_hook_that_panics_does_not_end_the_monitor() {
    let calls = std::sync::Arc::new(AtomicUsize::new(0));
    let counted = std::sync::Arc::clone(&calls);
    let rt = Runtime::builder()
        .workers(1)
        .stall_after(Duration::from_millis(20))
        .on_stall(move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
            panic!("a hook");
        })
        .build()
        .unwrap();
    for stalls in 1..=2 {
        rt.run(|_| {
            eventually(|| calls.load(Ordering::Relaxed) >= stalls);
            Ok(())
        })
        .unwrap();
    }
}

/// Waiting, sleeping, and yields without effect are no stalls; neither is a task that only spawns.
// rule: S4-BEAT-1
#[test]
fn tasks_that_wait_or_yield_are_not_reported() {
    let (rt, stalls) = reporting(2);
    rt.run(|cx| {
        cx.nursery(|n| {
            n.spawn(|cx| cx.sleep(Duration::from_millis(150)))?;
            let until = Instant::now() + Duration::from_millis(150);
            while Instant::now() < until {
                cx.checkpoint()?;
            }
            Ok(())
        })
    })
    .unwrap();
    drop(rt);
    // A machine that preempts a worker, or the holder of a lock that it needs, for that long is no
    // test of this.
    assert!(stalls.rest().iter().all(|stall| stall.kind != StallKind::Computing));
}

#[test]
fn a_signal_of_others_goes_to_the_handler_that_was_there() {
    static CAUGHT: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn count(_: libc::c_int) {
        CAUGHT.fetch_add(1, Ordering::Relaxed);
    }
    let signal = libc::SIGRTMIN() + 12;
    let handler = count as extern "C" fn(libc::c_int) as *const () as usize;
    // SAFETY: the handler does nothing but count.
    unsafe { libc::signal(signal, handler) };
    let (rt, stalls) = reporting_as(Runtime::builder().workers(1).stall_signal(signal));
    next_that(&rt, &stalls, |report| !report.frames.is_empty()); // asked by this signal
    // SAFETY: sends a signal that is handled.
    unsafe { libc::raise(signal) };
    assert_eq!(CAUGHT.load(Ordering::Relaxed), 1);
}

#[test]
fn a_signal_that_is_not_realtime_is_refused() {
    let refused = Runtime::builder().stall_signal(libc::SIGUSR1).build().unwrap_err();
    assert!(refused.to_string().contains("realtime"), "{refused}");
}

// rule: S4-SYSMON-1
#[test]
fn the_monitor_sleeps_when_all_rest_and_is_back_when_there_is_work() {
    let (rt, stalls) = reporting(2);
    rt.run(|_| Ok(())).unwrap();
    for _ in 0..3 {
        eventually(|| rt.engine().shared().monitor.is_asleep());
        // It is awake again: it notices a stall.
        rt.run(|_| Ok(stalls.next())).unwrap();
    }
}

/// Between two looks one task ends and another parks: for the monitor all have rested all the time,
/// and the two scans have seen different tasks. The other is looked at twice as well.
#[test]
fn a_task_that_parked_between_two_looks_is_found() {
    // Its own monitor does not look for deadlocks; the one that we drive does.
    let rt = Runtime::builder().workers(1).on_deadlock(OnDeadlock::Ignore).build().unwrap();
    let shared = rt.engine().shared();
    let mut monitor = monitor_of(&shared);
    monitor.patrol = Patrol::new(OnDeadlock::Fail, Instant::now());
    let until_it_waits = || {
        eventually(|| {
            let waits = rt.dump().tasks.iter().any(|task| task.wait.is_some());
            waits && shared.remotes[0].thread.rests()
        });
    };
    let gate = std::sync::Arc::new(crate::sync::Semaphore::new(0));
    let theirs = std::sync::Arc::clone(&gate);
    let first = rt.handle().spawn(move |_| theirs.acquire().map(drop)).unwrap();
    until_it_waits();
    // The patrol notes by the real clock when a scan has ended, and this may take any time.
    let later = |seconds| Instant::now() + Duration::from_secs(seconds);
    assert_eq!(monitor.check(later(1)), NextCheck::After(TICK));
    gate.add(1);
    first.join().unwrap();
    // The second one joins itself.
    let (give, given) = crate::sync::channel::channel::<crate::RootTask<()>>(1);
    let (tell, told) = std::sync::mpsc::channel();
    let second = rt.handle().spawn(move |_| {
        let joined = given.recv()?.join();
        tell.send(joined).unwrap();
        Ok(())
    });
    let second = second.unwrap();
    let token = second.token();
    give.send(second).unwrap();
    eventually(|| {
        rt.dump()
            .tasks
            .iter()
            .any(|task| task.wait.as_ref().is_some_and(|wait| wait.what == "for a task"))
    });
    until_it_waits();
    for look in 2..6 {
        if monitor.check(later(look)) == NextCheck::WhenWoken {
            break;
        }
    }
    token.cancel(); // so that it ends in any case
    let error = told.recv().unwrap().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Deadlock(_)), "{error:?}");
}

// ----- temporary workers ----------------------------------------------------------------

/// Blocks the worker of one task until `inside` has run on others.
fn while_one_is_stuck<R>(engine: &Engine, inside: impl FnOnce() -> R) -> R {
    let (done, wait) = channel();
    let (started, begins) = channel();
    engine.spawn(move || {
        started.send(()).unwrap();
        let _: Result<(), _> = wait.recv();
    });
    begins.recv_timeout(LONG).unwrap();
    let value = inside();
    drop(done);
    value
}

// rule: S4-SYSMON-3
#[test]
fn work_behind_a_stuck_worker_is_done_by_a_temporary_one() {
    let engine = engine(1, 2);
    let worker = while_one_is_stuck(&engine, || engine.run(worker_index));
    assert!(worker.is_some_and(|worker| worker >= 1), "ran on {worker:?}");
    assert!(engine.stats().len() >= 2, "temporary workers that ran are counted");
}

// rule: S4-BEAT-2, S4-SYSMON-4
#[test]
fn without_temporary_workers_work_waits() {
    let engine = engine(1, 0);
    let (ran, runs) = channel();
    while_one_is_stuck(&engine, || {
        engine.spawn(move || ran.send(()).unwrap());
        let early = runs.recv_timeout(Duration::from_millis(100));
        assert!(early.is_err(), "there is nobody to run it");
    });
    runs.recv_timeout(LONG).unwrap();
}

// rule: S4-SYSMON-1, S4-SYSMON-4
#[test]
fn there_are_no_more_temporary_workers_than_allowed() {
    let engine = engine(1, 3);
    let (open, barrier) = channel::<()>();
    let barrier = std::sync::Arc::new(Mutex::new(barrier));
    let blocked = std::sync::Arc::new(AtomicUsize::new(0));
    for _ in 0..8 {
        let (barrier, blocked) = (std::sync::Arc::clone(&barrier), std::sync::Arc::clone(&blocked));
        engine.spawn(move || {
            blocked.fetch_add(1, Ordering::Relaxed);
            let _ = barrier.lock().unwrap_or_else(|p| p.into_inner()).recv();
        });
    }
    eventually(|| blocked.load(Ordering::Relaxed) == 4);
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(blocked.load(Ordering::Relaxed), 4, "one worker and three temporary ones");
    drop(open);
    eventually(|| blocked.load(Ordering::Relaxed) == 8);
}

// rule: S4-SYSMON-5, S4-SYSMON-7
#[test]
fn at_most_one_temporary_worker_starts_in_an_interval() {
    let monitor = MonitorOpts { temporary_idle: LONG, ..MonitorOpts::default() };
    let engine = Engine::new(EngineOpts { workers: 1, monitor, ..EngineOpts::default() }).unwrap();
    // Nothing was spawned, so no other monitor runs.
    let mut monitor = monitor_of(&engine.shared());
    let now = Instant::now();
    monitor.start_another(now);
    monitor.start_another(now + SCALE_INTERVAL / 2);
    assert_eq!(engine.shared().active_slots(), 2);
    monitor.start_another(now + SCALE_INTERVAL);
    assert_eq!(engine.shared().active_slots(), 3);
}

/// Work for which no worker was woken, which must not happen: the monitor repairs it at the second
/// check.
// rule: S4-SYSMON-2
#[test]
fn work_that_was_overlooked_is_announced_again() {
    let engine = Engine::new(EngineOpts { workers: 1, ..EngineOpts::default() }).unwrap();
    let mut monitor = monitor_of(&engine.shared());
    let shared = engine.shared();
    eventually(|| shared.idle.is_asleep(0) && shared.remotes[0].stats.slept.get() > 0);
    let (ran, runs) = channel();
    let record = shared.slab.take().unwrap();
    let task = move |_, _| ran.send(()).unwrap();
    // SAFETY: the record was just taken; the closure owns what it uses; the task goes to one queue.
    unsafe {
        let (traits, held) = (shared.usual_traits(), crate::sched::task::state::RecordHandle::None);
        let task = Task::fill(record, None, traits, 0, held, task);
        shared.queues.push_global(Priority::Normal.into(), task.task);
    }
    let now = Instant::now();
    assert_eq!(monitor.check(now), NextCheck::After(TICK));
    assert!(runs.try_recv().is_err(), "perhaps somebody is on the way: not at once");
    monitor.check(now + TICK);
    runs.recv_timeout(LONG).unwrap();
}

// rule: S4-SYSMON-6, S4-SYSMON-8
#[test]
fn temporary_workers_retire_and_come_again() {
    let engine = engine(1, 2);
    for _ in 0..5 {
        while_one_is_stuck(&engine, || engine.run(yield_now));
        eventually(|| engine.shared().active_slots() == 1);
    }
    eventually(|| engine.live() == 0);
}

/// It parks on the temporary worker, and goes on there; that one must not retire before.
// rule: S4-AFF-2, S4-SYSMON-9
#[test]
fn a_temporary_worker_stays_for_a_task_that_may_not_move() {
    let engine = engine(1, 1);
    let (waker, wakers) = channel();
    let (result, results) = channel();
    while_one_is_stuck(&engine, || {
        engine.spawn(move || {
            let thread = std::thread::current().id();
            waker.send(Waker::current()).unwrap();
            let _ = park();
            result.send(thread == std::thread::current().id()).unwrap();
        });
        let waker: Waker = wakers.recv_timeout(LONG).unwrap();
        // Many times as long as it takes to retire.
        std::thread::sleep(Duration::from_millis(60));
        assert_eq!(engine.shared().active_slots(), 2, "it has retired");
        waker.wake();
        assert!(results.recv_timeout(LONG).unwrap(), "it has moved");
    });
    eventually(|| engine.shared().active_slots() == 1);
}

/// It parks on the temporary worker, which retires; it goes on elsewhere.
// rule: S4-AFF-2, S4-SYSMON-9
#[test]
fn a_movable_task_outlives_the_temporary_worker_that_it_parked_on() {
    let engine = engine(1, 1);
    let (waker, wakers) = channel();
    let (result, results) = channel();
    let held = std::sync::Arc::new(AtomicBool::new(false));
    let holding = std::sync::Arc::clone(&held);
    // The scope is open on the worker; while that is stuck its child runs on the temporary one.
    engine.spawn(move || {
        scope(|s| {
            // SAFETY: nothing on its stack is bound to a thread, and it uses no thread-local data.
            unsafe {
                s.spawn_migratable(move || {
                    waker.send(Waker::current()).unwrap();
                    let _ = park();
                    result.send(()).unwrap();
                });
            }
            while !held.load(Ordering::Acquire) {
                std::thread::sleep(Duration::from_millis(1)); // stuck
            }
        });
    });
    let waker: Waker = wakers.recv_timeout(LONG).unwrap();
    eventually(|| engine.shared().active_slots() == 1);
    waker.wake();
    holding.store(true, Ordering::Release);
    results.recv_timeout(LONG).unwrap();
}

/// Many rounds of stuck workers, with work that comes while temporary ones retire: all of it is
/// done.
// rule: S4-BEAT-2, S4-SYSMON-9
#[test]
fn no_work_is_lost_while_temporary_workers_come_and_go() {
    for victims in [Victims::Random, Victims::MostLoaded, Victims::Nobody] {
        let monitor = MonitorOpts {
            temporary_idle: Duration::from_micros(200),
            stall_after: None,
            ..MonitorOpts::default()
        };
        let opts = EngineOpts { workers: 2, victims, monitor, ..EngineOpts::default() };
        let engine = Engine::new(opts).unwrap();
        let ran = AtomicUsize::new(0);
        engine.run(|| {
            scope(|s| {
                for round in 0..600 {
                    s.spawn(|| {
                        yield_now();
                        ran.fetch_add(1, Ordering::Relaxed);
                    });
                    if round % 20 == 0 {
                        s.spawn(|| {
                            std::thread::sleep(Duration::from_millis(3));
                            ran.fetch_add(1, Ordering::Relaxed);
                        });
                    }
                }
            });
        });
        assert_eq!(ran.into_inner(), 630);
        eventually(|| engine.live() == 0);
    }
}

// rule: S4-BEAT-1
#[test]
fn a_watch_tells_rest_motion_and_standstill_apart() {
    let start = Instant::now();
    let after = |ms| start + Duration::from_millis(ms);
    let mut heartbeat = Heartbeat::new(start);
    assert_eq!(heartbeat.check(after(10), 1, false), Verdict::Moving);
    assert_eq!(heartbeat.check(after(20), 1, false), Verdict::Still(Duration::from_millis(10)));
    heartbeat.reported = true;
    assert_eq!(heartbeat.check(after(30), 1, false), Verdict::Still(Duration::from_millis(20)));
    assert_eq!(heartbeat.check(after(40), 1, true), Verdict::Resting);
    assert!(!heartbeat.reported, "another stall is another report");
    assert_eq!(heartbeat.check(after(50), 1, false), Verdict::Still(Duration::from_millis(10)));
    assert_eq!(heartbeat.check(after(60), 2, false), Verdict::Moving);
    heartbeat.forget(after(70));
    assert_eq!(heartbeat.check(after(90), 2, false), Verdict::Still(Duration::from_millis(20)));
}

/// The monitor sleeps while all workers rest. The first worker that goes back to work has not been
/// still meanwhile.
#[test]
fn a_rest_of_all_workers_is_no_stall_of_the_first_that_works() {
    let engine = engine(2, 0);
    let mut monitor = monitor_of(&engine.shared());
    let woken = Instant::now() + LONG;
    monitor.wake(woken);
    for heartbeat in &mut monitor.heartbeats {
        let pulse = heartbeat.pulse();
        assert_eq!(heartbeat.check(woken, pulse, false), Verdict::Still(Duration::ZERO));
    }
}
