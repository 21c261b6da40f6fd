//! The monitor: one thread per scheduler that watches the workers.
//!
//! Workers are cooperative: one that a task does not give back runs nothing else. The monitor is what
//! notices. It is advisory: no rule of the scheduler needs it, and everything that it does is bounded.
//!
//! # What it does, at every look
//!
//! 1. *Heartbeats.* A worker counts its steps anyway; the monitor compares the counts. A worker that does
//!    not rest and whose count has not moved is *still* ([`watch`]).
//! 2. *Stalls.* A worker that has been still for `stall_after` is reported: which task, for how long, where
//!    ([`probe`]), and whether it computes or blocks ([`mod@thread_state`]). Once per stall, and at most once in
//!    [`REPORT_INTERVAL`] ([`report`]).
//! 3. *Temporary workers.* If work waits that anybody could take, nobody rests, and fewer workers move than
//!    there should be, another one is started (`executor::crew`).
//! 4. *Deadlocks.* Tasks that wait in vain are looked for ([`patrol`]).
//! 5. *Safety nets.* Work that waits while somebody rests at two looks in a row is announced again;
//!    deadlines that are overdue are acted on. Neither should ever be needed.
//!
//! # What it costs
//!
//! Nothing where work is done: the counts are there for statistics. A worker that goes to rest and back stores a
//! flag of its own, with a fence on the way back. The monitor looks every [`TICK`], which reads a few words for each worker. When all workers have
//! rested, and no task has made a step, for [`QUIET`] it sleeps until there is a deadline, if there is one, so an idle process is not woken; the first worker that goes back to
//! work rings for it ([`bell`]): a system call, at most once in `QUIET`. The thread is started with the first
//! task that comes from outside.
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

pub(crate) mod bell;
mod patrol;
mod probe;
mod report;
mod thread_state;
pub(crate) mod watch;

pub use report::{Pinned, StallKind, StallReport};

use crate::sched::Shared;
use crate::sched::executor::crew::Crew;
use patrol::Patrol;
pub(crate) use report::Hook;
use report::Reporter;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use watch::{Verdict, Watch};

/// How often the monitor looks.
const TICK: Duration = Duration::from_millis(10);
/// How often it looks while work waits behind a worker that is held up.
const URGENT: Duration = Duration::from_millis(1);
/// How long a worker may compute before it counts as held up; one that sleeps in the kernel does earlier.
const HELD_UP: Duration = Duration::from_millis(20);
/// At most one temporary worker is started in this time.
const SCALE_INTERVAL: Duration = Duration::from_millis(1);
/// When all have rested for so long the monitor sleeps too.
const QUIET: Duration = Duration::from_millis(100);
/// At most one stall is reported in this time.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// How the monitor is set up.
#[derive(Debug, Clone)]
#[cfg_attr(not(feature = "internals"), allow(unreachable_pub, reason = "public with that feature"))]
pub struct MonitorOpts {
    /// The most temporary workers at a time.
    pub temporary: usize,
    /// How long a temporary worker waits for work before it retires.
    pub temporary_idle: Duration,
    /// How long a worker may be still before that is reported; none if it is not.
    pub stall_after: Option<Duration>,
    /// The signal by which a worker is asked where it is; none if it is not asked.
    pub signal: Option<i32>,
    pub(crate) hook: Hook,
}

impl Default for MonitorOpts {
    fn default() -> MonitorOpts {
        MonitorOpts {
            temporary: 8,
            temporary_idle: Duration::from_secs(1),
            stall_after: Some(Duration::from_secs(1)),
            signal: Some(usual_signal()),
            hook: Hook::default(),
        }
    }
}

/// A realtime signal that nobody is known to use.
fn usual_signal() -> i32 {
    libc::SIGRTMIN() + 9
}

pub(crate) use probe::{Seen, admit_signal, ask, is_realtime};
pub(crate) use thread_state::{ThreadState, on_cpu, state as thread_state};

/// Starts the thread.
pub(crate) fn start(crew: &Arc<Crew>) -> std::io::Result<JoinHandle<()>> {
    let mut monitor = Monitor::new(Arc::clone(crew));
    std::thread::Builder::new().name("parcae-sysmon".into()).spawn(move || monitor.run())
}

/// The state of the thread.
struct Monitor {
    crew: Arc<Crew>,
    watches: Vec<Watch>,
    reporter: Reporter,
    patrol: Patrol,
    last_start: Option<Instant>,
    /// How many steps tasks had made at the last look.
    steps: u64,
    /// Since when all have rested.
    quiet_since: Option<Instant>,
    /// At the last look work waited although somebody rested.
    overlooked: bool,
}

/// When to look again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    After(Duration),
    /// When somebody rings.
    Rung,
}

impl Monitor {
    fn new(crew: Arc<Crew>) -> Monitor {
        let now = Instant::now();
        let shared = crew.shared();
        let watches = shared.remotes.iter().map(|_| Watch::new(now)).collect();
        let reporter = Reporter::new(&shared.config.monitor);
        let patrol = Patrol::new(shared.config.on_deadlock, now);
        Monitor {
            crew,
            watches,
            reporter,
            patrol,
            last_start: None,
            steps: 0,
            quiet_since: None,
            overlooked: false,
        }
    }

    fn run(&mut self) {
        let crew = Arc::clone(&self.crew);
        let bell = &crew.shared().bell;
        while !bell.is_stopping() {
            match self.look(Instant::now()) {
                Next::After(time) => bell.wait(Some(time)),
                Next::Rung if bell.doze(|| self.all_still_rest()) => {
                    // Until somebody rings; or until a deadline that may wake nobody, but then nobody waits for time any more.
                    bell.wait(crew.shared().until_next_deadline());
                    self.patrol.wake();
                }
                Next::Rung => {}
            }
        }
    }

    fn look(&mut self, now: Instant) -> Next {
        let crew = Arc::clone(&self.crew);
        let shared = crew.shared();
        fire_overdue(shared);
        let (mut working, mut held_up) = (0, 0);
        for slot in 0..shared.span() {
            match self.look_at(slot, now) {
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
        let rests = working < shared.span() && shared.idle.anybody();
        if waits && rests {
            if std::mem::replace(&mut self.overlooked, true) {
                shared.notify_any();
            }
        } else {
            self.overlooked = false;
            if waits && held_up > 0 && working - held_up < shared.config.workers {
                self.start_another(now);
            }
        }
        if working > 0 || waits {
            self.quiet_since = None;
            self.patrol.work(shared, now);
            return Next::After(if waits && held_up > 0 { URGENT } else { TICK });
        }
        // After the looks at who rests: what a worker did before it went to rest is counted.
        let steps = steps(shared);
        if std::mem::replace(&mut self.steps, steps) != steps {
            self.quiet_since = None;
            self.patrol.wake();
        }
        let since = *self.quiet_since.get_or_insert(now);
        let seen = self.patrol.rest(shared, now);
        if now.duration_since(since) < QUIET || !seen {
            Next::After(TICK)
        } else {
            self.quiet_since = None;
            Next::Rung
        }
    }

    /// Whether every worker rests, and has done nothing since the last look. One that has not begun yet does not rest.
    fn all_still_rest(&self) -> bool {
        let shared = self.crew.shared();
        let workers = &shared.remotes[..shared.span()];
        workers.iter().all(|remote| remote.presence.rests()) && steps(shared) == self.steps
    }

    /// What a worker does; none if there is none in this slot.
    fn look_at(&mut self, slot: usize, now: Instant) -> Option<Verdict> {
        let remote = &self.crew.shared().remotes[slot];
        let watch = &mut self.watches[slot];
        if !remote.presence.is_present() {
            watch.forget(now);
            return None;
        }
        let verdict = watch.look(now, remote.stats.pulse(), remote.presence.rests());
        if let Verdict::Still(_) = verdict
            && watch.on_cpu.is_none()
        {
            watch.on_cpu = self.crew.on_cpu(slot);
        }
        Some(verdict)
    }

    /// Whether a worker that has been still for so long gets nowhere, and it is not for lack of a processor: then
    /// another thread would not help.
    fn is_held_up(&mut self, slot: usize, age: Duration) -> bool {
        let watch = &mut self.watches[slot];
        if self.crew.is_blocked(slot) {
            // Twice, for anybody may have to wait for a page.
            return std::mem::replace(&mut watch.blocked, true);
        }
        watch.blocked = false;
        let used = watch.on_cpu.zip(self.crew.on_cpu(slot));
        let computes = used.is_none_or(|(before, now)| now.saturating_sub(before) >= HELD_UP / 2);
        age >= HELD_UP && computes
    }

    fn report(&mut self, slot: usize, age: Duration, now: Instant) {
        let watch = &mut self.watches[slot];
        if watch.reported || !self.reporter.wants(age, now) {
            return;
        }
        watch.reported = true;
        let started_with = watch.on_cpu;
        if let Some(report) = self.crew.examine(slot, watch.pulse(), age, started_with) {
            self.reporter.report(&report, now);
        }
    }

    fn start_another(&mut self, now: Instant) {
        if self.last_start.is_some_and(|last| now.duration_since(last) < SCALE_INTERVAL) {
            return;
        }
        self.last_start = Some(now);
        // No thread to be had: the work waits, as it would without a monitor.
        let _ = Crew::start_temporary(&self.crew);
    }
}

/// How many steps tasks have made.
fn steps(shared: &Shared) -> u64 {
    shared.remotes.iter().map(|remote| remote.stats.executed.get()).sum()
}

/// The safety net below the timers.
fn fire_overdue(shared: &Shared) {
    shared.fire_overdue(shared.now());
}

#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod tests;
