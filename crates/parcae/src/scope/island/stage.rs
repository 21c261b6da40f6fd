//! A stage of a running island: its preparation, its periods, its figures.

use super::gate::StageGate;
use super::telemetry::StageTelemetry;
use super::{LockMemory, refused};
use crate::base::error::{IslandRefused, Result};
use crate::sched::worker;
use crate::scope::cap::CapContext;
use crate::scope::cx::{Cx, Job, OuterMemory};
use crate::scope::profile::SpawnsFreely;
use crate::stack::StackSize;
use parcae_core::island::Response;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// The distance of writes that touch every page.
const PAGE: usize = 4096;
/// The part of the stack below the running function that is left alone: the functions that it calls
/// have touched it.
const NEAR: usize = 1024;

/// A stage as long as its island exists. The counters are written by the stage alone; Relaxed, all
/// of them.
pub(super) struct StageRecord {
    name: Arc<str>,
    stack: Option<StackSize>,
    jobs: AtomicU64,
    missed: AtomicU64,
    worst_miss: AtomicU64,
    worst_delay: AtomicU64,
    all_delays: AtomicU64,
    touched: AtomicUsize,
    locked: AtomicBool,
}

impl StageRecord {
    pub(super) fn new(name: Arc<str>, stack: Option<StackSize>) -> StageRecord {
        StageRecord {
            name,
            stack,
            jobs: AtomicU64::new(0),
            missed: AtomicU64::new(0),
            worst_miss: AtomicU64::new(0),
            worst_delay: AtomicU64::new(0),
            all_delays: AtomicU64::new(0),
            touched: AtomicUsize::new(0),
            locked: AtomicBool::new(false),
        }
    }

    pub(super) fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub(super) fn stack(&self) -> Option<StackSize> {
        self.stack
    }

    /// A job begins, so long after its release.
    fn begins(&self, late: Duration) {
        let delay = nanos(late);
        self.jobs.fetch_add(1, Ordering::Relaxed); // see the type
        self.all_delays.fetch_add(delay, Ordering::Relaxed); // see the type
        self.worst_delay.fetch_max(delay, Ordering::Relaxed); // see the type
    }

    /// A job has ended so long after its deadline.
    fn missed(&self, by: Duration) {
        self.missed.fetch_add(1, Ordering::Relaxed); // see the type
        self.worst_miss.fetch_max(nanos(by), Ordering::Relaxed); // see the type
    }

    pub(super) fn telemetry(&self, context: &CapContext) -> StageTelemetry {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed); // see the type
        let time = |counter: &AtomicU64| Duration::from_nanos(read(counter));
        let (stats, seal) = (context.stats(), context.seal());
        let jobs = read(&self.jobs);
        StageTelemetry {
            name: Arc::clone(&self.name),
            worker: context.worker(),
            jobs,
            missed: read(&self.missed),
            worst_miss: time(&self.worst_miss),
            worst_delay: time(&self.worst_delay),
            mean_delay: Duration::from_nanos(read(&self.all_delays) / jobs.max(1)),
            used: stats.used,
            overruns: stats.overruns,
            worst_overrun: stats.worst_overrun,
            allocations: seal.allocations,
            refused: seal.refused,
            stack: self.touched.load(Ordering::Relaxed), // see the type
            locked: self.locked.load(Ordering::Relaxed), // see the type
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A running stage of an island, for its code.
pub struct Stage<'s, P: SpawnsFreely> {
    cx: &'s Cx<P>,
    record: Arc<StageRecord>,
    gate: Arc<StageGate>,
    lock: LockMemory,
    response: Response,
    sealed: Option<OuterMemory>,
    stack: Option<LockedStack>,
    job: Option<Job>,
}

impl<'s, P: SpawnsFreely> Stage<'s, P> {
    pub(super) fn new(
        cx: &'s Cx<P>,
        record: Arc<StageRecord>,
        gate: Arc<StageGate>,
        lock: LockMemory,
        response: Response,
    ) -> Stage<'s, P> {
        Stage { cx, record, gate, lock, response, sealed: None, stack: None, job: None }
    }

    /// The code has ended. One that never came to the gate keeps the others waiting there.
    pub(super) fn has_run(&self) -> Result<()> {
        match self.sealed {
            Some(_) => Ok(()),
            None => Err(refused(IslandRefused::Early)),
        }
    }

    /// The context of the task: for checkpoints, for operations with a deadline, and before the
    /// first period for everything. Sealed code gets
    /// [`IslandRefused`](crate::ErrorKind::IslandRefused) from operations that it may not use.
    pub fn cx(&self) -> &'s Cx<P> {
        self.cx
    }

    /// Ends the present job and waits for the next one, as [`Cx::next_period`]. The first call ends
    /// the preparations: the stack is touched, and locked if the plan says so, and the stage waits
    /// until all others have come so far. From then on its code is sealed.
    ///
    /// # Errors
    ///
    /// [`IslandRefused::Missed`](crate::policy::IslandRefused::Missed) if the job has ended after
    /// its deadline and that stops the island, `Allocation` if it has allocated; or as for
    /// [`Cx::next_period`].
    #[track_caller]
    pub fn next_period(&mut self) -> Result<Job> {
        let frame = self.cx.frame();
        if self.sealed.is_none() {
            self.prepare()?;
            self.gate.pass(self.cx)?;
            self.sealed = Some(frame.seal());
        }
        frame.check_seal()?;
        if let Some(job) = self.job.take() {
            let shared = &frame.settings().shared;
            let by = shared.instant(shared.now()).saturating_duration_since(job.deadline);
            if !by.is_zero() {
                self.record.missed(by);
                if self.response == Response::Stop {
                    return Err(frame.breach(IslandRefused::Missed { by }));
                }
            }
        }
        let job = frame.unsealed(|| self.cx.next_period())?;
        self.record.begins(job.late);
        self.job = Some(job);
        Ok(job)
    }

    /// Touches the stack, and locks it.
    fn prepare(&mut self) -> Result<()> {
        let (bottom, bytes) = touch_stack();
        self.record.touched.store(bytes, Ordering::Relaxed); // see the type
        if self.lock == LockMemory::No || bytes == 0 {
            return Ok(());
        }
        self.stack = None; // of a first call that has failed: its end would unlock this one
        match LockedStack::new(bottom, bytes) {
            Ok(stack) => {
                self.record.locked.store(true, Ordering::Relaxed); // see the type
                self.stack = Some(stack);
                Ok(())
            }
            Err(_) if self.lock == LockMemory::IfPermitted => Ok(()),
            Err(os_error) => Err(refused(IslandRefused::Unlocked { os_error })),
        }
    }
}

impl<P: SpawnsFreely> Drop for Stage<'_, P> {
    fn drop(&mut self) {
        if let Some(outer) = self.sealed.take() {
            self.cx.frame().lift_seal(outer);
        }
    }
}

impl<P: SpawnsFreely> fmt::Debug for Stage<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stage")
            .field("name", self.record.name())
            .field("job", &self.job)
            .finish_non_exhaustive()
    }
}

/// Writes to every page of the running task's stack below this function. Returns the lowest one and
/// the number of bytes up to here.
#[inline(never)]
fn touch_stack() -> (usize, usize) {
    let mut here = 0_u8;
    let top = (&raw mut here).addr().saturating_sub(NEAR);
    let bottom = worker::stack_end().next_multiple_of(PAGE);
    if bottom == 0 || bottom >= top {
        return (bottom, 0);
    }
    for page in (bottom..top).step_by(PAGE) {
        // SAFETY: memory of this task's own stack: above its end, and so far below this function
        // that no function in progress uses it.
        unsafe { std::ptr::with_exposed_provenance_mut::<u8>(page).write_volatile(0) };
    }
    (bottom, top - bottom)
}

/// A part of a stack that is locked in memory, until this is dropped.
struct LockedStack {
    bottom: usize,
    bytes: usize,
}

impl LockedStack {
    fn new(bottom: usize, bytes: usize) -> Result<LockedStack, i32> {
        let place = std::ptr::with_exposed_provenance(bottom);
        // SAFETY: a system call about memory of the task's own stack; it changes no content.
        match unsafe { libc::mlock(place, bytes) } {
            0 => Ok(LockedStack { bottom, bytes }),
            _ => Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(0)),
        }
    }
}

impl Drop for LockedStack {
    fn drop(&mut self) {
        // SAFETY: as in `new`.
        unsafe { libc::munlock(std::ptr::with_exposed_provenance(self.bottom), self.bytes) };
    }
}
