//! The monitor: one thread per scheduler that watches its workers.
//!
//! Workers are cooperative: a worker whose task does not return to the scheduler runs nothing else.
//! The monitor notices that. It is advisory: no rule of the scheduler needs it, and its work is
//! bounded.
//!
//! # Each check
//!
//! 1. *Heartbeats.* A worker counts its steps anyway; the monitor compares the counts. A worker
//!    that does not rest and whose count has not changed is *still* ([`heartbeat`]).
//! 2. *Stalls.* A worker that has been still for `stall_after` is reported: its task, for how long,
//!    its backtrace ([`probe`]), and whether it computes or blocks ([`mod@thread_state`]). Once per
//!    stall, and at most once in [`REPORT_INTERVAL`] ([`report`]).
//! 3. *Temporary workers.* If there is work that any worker could take, no worker rests, and fewer
//!    workers make progress than configured, another one is started (`executor::thread_set`).
//! 4. *Deadlocks.* Tasks are scanned for deadlocks ([`patrol`]).
//! 5. *Idle stacks.* A part of those above the watermark gives its memory back
//!    (`stack::Trimmer`), so that the tasks that left them need not wait for that.
//! 6. *Policy.* If there is a policy, its watchdog looks whether its service is alive
//!    (`view::policy`).
//! 7. *Safety nets.* Work that waits while a worker rests, at two checks in a row, is announced
//!    again; overdue deadlines are fired. Neither should ever be needed.
//!
//! A leased worker (`run_queue::realtime::lease`) is not looked at.
//!
//! # Cost
//!
//! None for busy workers: the counts exist for statistics. A worker that goes to rest and back
//! stores a flag of its own, with a fence on the way back. The monitor checks every [`TICK`], which
//! reads a few words per worker. When all workers have rested and no task has made a step for
//! [`QUIET`], it sleeps until the next deadline, if there is one, so an idle process is not woken.
//! The first worker that goes back to work wakes it (`sched::monitor`): a system call, at most once
//! in `QUIET`. The thread is started with the first task that is spawned from outside.
//!
//! # Numbers
//!
//! | here | S4 (and its later versions) | why |
//! |---|---|---|
//! | [`TICK`] 10 ms | 250 µs, later 20 ms | deadlines do not depend on it here, so it need not be short |
//! | [`URGENT`] 1 ms | – | while work waits behind a worker that is held up |
//! | [`HELD_UP`] 20 ms | 0.25 ms, later 1 ms, then 20 ms | half of it on a processor; a thread that sleeps in the kernel at two looks counts at once |
//! | [`SCALE_INTERVAL`] 1 ms | 0.08 ms | the one started before has had time to take something |
//! | temporary workers 8 | 8 | `Builder::temporary_workers` |
//! | retirement after 1 s | 1 s | |
//! | `stall_after` 1 s | 5 s, later 2 s | `Builder::stall_after` |

mod examine;
mod heartbeat;
mod patrol;
mod probe;
mod report;
mod system_call;
mod thread_state;

pub use report::{Pinned, StallKind, StallReport};
pub use system_call::{BlockedIn, BlockedOn};

use crate::base::cpu;
use crate::base::time::own_time;
use crate::sched::Shared;
use crate::sched::executor::thread_set::ThreadSet;
use crate::sched::run_queue::UpkeepKind;
use crate::stack::{Pace, Trimmer};
use crate::view::inspect::OnDeadlock;
use crate::view::policy::PolicyPart;
use examine::{cpu_time, examine, is_blocked};
use heartbeat::{Heartbeat, Verdict};
use patrol::Patrol;
use report::Reporter;
pub(crate) use report::StallHook;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Interval of checks.
const TICK: Duration = Duration::from_millis(10);
/// Interval of checks while work waits behind a worker that is held up.
const URGENT: Duration = Duration::from_millis(1);
/// Time after which a computing worker counts as held up; a worker that sleeps in the kernel does
/// earlier.
const HELD_UP: Duration = Duration::from_millis(20);
/// Least time between two starts of temporary workers.
const SCALE_INTERVAL: Duration = Duration::from_millis(1);
/// The monitor sleeps when all workers have rested for this long.
const QUIET: Duration = Duration::from_millis(100);
/// Least time between two stall reports.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// Options of the monitor.
#[derive(Debug, Clone)]
#[cfg_attr(not(feature = "internals"), allow(unreachable_pub, reason = "public with that feature"))]
pub struct MonitorOpts {
    /// Limit of temporary workers at a time.
    pub temporary: usize,
    /// Time without work after which a temporary worker retires.
    pub temporary_idle: Duration,
    /// Time after which a still worker is reported; `None` for no reports.
    pub stall_after: Option<Duration>,
    /// The signal by which a worker is probed; `None` for no probes.
    pub signal: Option<i32>,
    pub(crate) hook: StallHook,
}

impl Default for MonitorOpts {
    fn default() -> MonitorOpts {
        MonitorOpts {
            temporary: 8,
            temporary_idle: Duration::from_secs(1),
            stall_after: Some(Duration::from_secs(1)),
            signal: Some(usual_signal()),
            hook: StallHook::default(),
        }
    }
}

/// A realtime signal that no known library uses.
fn usual_signal() -> i32 {
    libc::SIGRTMIN() + 9
}

pub(crate) use examine::probe_running;
pub(crate) use probe::is_realtime;

/// Starts the thread.
pub(crate) fn start(
    threads: &Arc<ThreadSet>,
    opts: &MonitorOpts,
    on_deadlock: OnDeadlock,
) -> std::io::Result<JoinHandle<()>> {
    let mut monitor = Monitor::new(Arc::clone(threads), opts, on_deadlock);
    std::thread::Builder::new().name("parcae-sysmon".into()).spawn(move || monitor.run())
}

/// The state of the thread.
struct Monitor {
    threads: Arc<ThreadSet>,
    heartbeats: Vec<Heartbeat>,
    reporter: Reporter,
    patrol: Patrol,
    trimmer: Trimmer,
    last_start: Option<Instant>,
    /// Number of steps of all tasks at the last check.
    steps: u64,
    /// Since when all workers have rested.
    quiet_since: Option<Instant>,
    /// At the last check, work waited although a worker rested.
    overlooked: bool,
    /// Processor time of the thread that is charged.
    charged: Duration,
}

/// Time of the next check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NextCheck {
    After(Duration),
    /// When a worker goes back to work.
    WhenWoken,
}

impl Monitor {
    fn new(threads: Arc<ThreadSet>, opts: &MonitorOpts, on_deadlock: OnDeadlock) -> Monitor {
        let now = Instant::now();
        let heartbeats = threads.shared().remotes.iter().map(|_| Heartbeat::new(now)).collect();
        let reporter = Reporter::new(opts);
        let patrol = Patrol::new(on_deadlock, now);
        let trimmer = threads.shared().stacks.trimmer();
        Monitor {
            threads,
            heartbeats,
            reporter,
            patrol,
            trimmer,
            last_start: None,
            steps: 0,
            quiet_since: None,
            overlooked: false,
            charged: Duration::ZERO,
        }
    }

    fn run(&mut self) {
        let _listed = cpu::enter();
        let threads = Arc::clone(&self.threads);
        let parker = &threads.shared().monitor;
        while !parker.is_stopping() {
            let next = self.check(Instant::now());
            self.charge();
            match next {
                NextCheck::After(time) => parker.park(Some(time)),
                NextCheck::WhenWoken if parker.try_sleep(|| self.all_still_rest()) => {
                    // Until a worker goes back to work. Or until a deadline: it may wake no task,
                    // but then no task waits for time any more, and may be deadlocked.
                    parker.park(threads.shared().until_next_deadline());
                    self.wake(Instant::now());
                }
                NextCheck::WhenWoken => {}
            }
        }
    }

    /// Charges the processor time since the last call to the monitor's account.
    fn charge(&mut self) {
        let queues = &self.threads.shared().queues;
        if queues.has_tenants() {
            let (now, before) = (own_time(), self.charged);
            self.charged = now;
            let took = now.saturating_sub(before).as_nanos() as u64;
            queues.charge_upkeep(UpkeepKind::Monitor, took);
        }
    }

    /// Goes back to regular checks. All workers rested until now: none has been still since the
    /// last check.
    fn wake(&mut self, now: Instant) {
        self.patrol.wake();
        self.heartbeats.iter_mut().for_each(|heartbeat| heartbeat.forget(now));
    }

    fn check(&mut self, now: Instant) -> NextCheck {
        let threads = Arc::clone(&self.threads);
        let shared = threads.shared();
        fire_overdue(shared);
        if let Some(policy) = shared.part::<PolicyPart>() {
            policy.tick(shared);
        }
        let (mut working, mut held_up) = (0, 0);
        // A leased worker is left alone: no task of others depends on its progress.
        let open = shared.active_slots() - shared.queues.closed();
        for slot in 0..shared.active_slots() {
            if shared.queues.is_closed(slot) {
                self.heartbeats[slot].forget(now);
                continue;
            }
            match self.check_worker(slot, now) {
                None | Some(Verdict::Resting) => {}
                Some(Verdict::Moving) => working += 1,
                Some(Verdict::Still(age)) => {
                    working += 1;
                    held_up += usize::from(self.is_held_up(slot, age));
                    self.report(slot, age, now);
                }
            }
        }
        let waits = shared.queues.has_work();
        let rests = working < open && shared.idle.anybody();
        if waits && rests {
            if std::mem::replace(&mut self.overlooked, true) {
                shared.notify_any();
            }
        } else {
            self.overlooked = false;
            let wanted = shared.config.workers - shared.queues.closed();
            if waits && held_up > 0 && working - held_up < wanted {
                self.start_another(now);
            }
        }
        if working > 0 || waits {
            self.quiet_since = None;
            self.patrol.work(shared, now);
            self.trimmer.tick(Pace::AtWork);
            return NextCheck::After(if waits && held_up > 0 { URGENT } else { TICK });
        }
        // Read after the resting flags: steps that a worker made before it went to rest are
        // counted.
        let steps = steps(shared);
        if std::mem::replace(&mut self.steps, steps) != steps {
            self.quiet_since = None;
            self.patrol.wake();
        }
        let since = *self.quiet_since.get_or_insert(now);
        let seen = self.patrol.rest(shared, now);
        let surplus = self.trimmer.tick(Pace::AtRest);
        if now.duration_since(since) < QUIET || !seen || surplus > 0 {
            NextCheck::After(TICK)
        } else {
            self.quiet_since = None;
            NextCheck::WhenWoken
        }
    }

    /// Whether every worker rests, and no task has made a step since the last check. A worker that
    /// has not started yet does not rest.
    fn all_still_rest(&self) -> bool {
        let shared = self.threads.shared();
        let workers = &shared.remotes[..shared.active_slots()];
        workers.iter().all(|remote| remote.thread.rests()) && steps(shared) == self.steps
    }

    /// State of the worker in this slot; `None` if there is none.
    fn check_worker(&mut self, slot: usize, now: Instant) -> Option<Verdict> {
        let remote = &self.threads.shared().remotes[slot];
        let heartbeat = &mut self.heartbeats[slot];
        if !remote.thread.exists() {
            heartbeat.forget(now);
            return None;
        }
        let verdict = heartbeat.check(now, remote.stats.pulse(), remote.thread.rests());
        if let Verdict::Still(_) = verdict
            && heartbeat.on_cpu.is_none()
        {
            heartbeat.on_cpu = cpu_time(&self.threads, slot);
        }
        Some(verdict)
    }

    /// Whether a worker that has been still for so long is held up, and not for lack of a
    /// processor: then another thread would not help.
    fn is_held_up(&mut self, slot: usize, age: Duration) -> bool {
        let heartbeat = &mut self.heartbeats[slot];
        if is_blocked(&self.threads, slot) {
            // At two checks: any thread may have to wait for a page.
            return std::mem::replace(&mut heartbeat.blocked, true);
        }
        heartbeat.blocked = false;
        let used = heartbeat.on_cpu.zip(cpu_time(&self.threads, slot));
        let computes = used.is_none_or(|(before, now)| now.saturating_sub(before) >= HELD_UP / 2);
        age >= HELD_UP && computes
    }

    fn report(&mut self, slot: usize, age: Duration, now: Instant) {
        let heartbeat = &mut self.heartbeats[slot];
        if heartbeat.reported || !self.reporter.wants(age, now) {
            return;
        }
        heartbeat.reported = true;
        let (pulse, before) = (heartbeat.pulse(), heartbeat.on_cpu);
        if let Some(report) = examine(&self.threads, slot, pulse, age, before) {
            self.reporter.report(&report, now);
        }
    }

    fn start_another(&mut self, now: Instant) {
        if self.last_start.is_some_and(|last| now.duration_since(last) < SCALE_INTERVAL) {
            return;
        }
        self.last_start = Some(now);
        // If no thread can be started, the work waits, as it would without a monitor.
        let _ = ThreadSet::start_temporary(&self.threads);
    }
}

/// Number of steps of all tasks.
fn steps(shared: &Shared) -> u64 {
    shared.remotes.iter().map(|remote| remote.stats.executed.get()).sum()
}

/// The safety net below the timers.
fn fire_overdue(shared: &Shared) {
    shared.fire_overdue(shared.now());
}

#[cfg(all(test, not(loom)))]
mod tests;
