//! Totals over all schedulers of this process that have ended, and recordings that begin together
//! with a scheduler. Only with the feature `internals`, for the benchmark: its workloads make their
//! schedulers themselves, so it cannot ask each of them.
//!
//! Nothing here is on a path of a task: schedulers look when they are made, and add to the totals
//! when they are dropped, after their workers have left.

use super::Shared;
use crate::sched::events::{Stamps, Tracer};
use crate::sched::worker::stats::WorkerStats;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Sums over the schedulers of this process that have ended.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// Number of schedulers.
    pub schedulers: u64,
    /// Counters of their workers.
    pub workers: WorkerStats,
    /// Bytes that their workers wrote into rings of events.
    pub event_bytes: u64,
}

/// The sums so far; none before the first scheduler has ended.
static ENDED: Mutex<Option<Totals>> = Mutex::new(None);
/// Whether new schedulers record. Relaxed: set before they are made, by the thread that makes them.
static RECORDS: AtomicBool = AtomicBool::new(false);

/// Events for which each ring has room: the default of a recording.
const EVENTS: usize = 1 << 14;

/// The sums so far.
pub fn totals() -> Totals {
    ended().unwrap_or_default()
}

/// Whether schedulers that are made from now on record events into their rings, from their start.
pub fn record(records: bool) {
    RECORDS.store(records, Ordering::Relaxed); // see `RECORDS`
}

fn ended() -> MutexGuard<'static, Option<Totals>> {
    ENDED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins to record, if asked to. Called before there are workers.
pub(super) fn begin(tracer: &Tracer) {
    // A deterministic scheduler keeps its log anyway, and needs no rings.
    if RECORDS.load(Ordering::Relaxed) && !tracer.keeps() {
        tracer.provide(EVENTS, &mut tracer.recording());
        tracer.start(Stamps::Shared);
    }
}

/// Adds the counters of a scheduler without workers.
pub(super) fn add(shared: &Shared) {
    let workers = 0..shared.remotes.len();
    let words = workers.filter_map(|worker| shared.tracer.ring(worker)).map(|ring| ring.position());
    let bytes = 8 * words.sum::<u64>();
    let mut ended = ended();
    let sum = ended.get_or_insert_default();
    sum.schedulers += 1;
    sum.workers = shared.worker_stats().into_iter().fold(sum.workers, |sum, worker| sum + worker);
    sum.event_bytes += bytes;
}
