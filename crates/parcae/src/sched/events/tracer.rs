//! Tracing state of a scheduler: which recordings are on, the rings, the clock.

use super::clock::Clock;
use super::kind::OUTSIDE;
use super::names::NameTable;
use super::ring::EventRing;
use super::times::WorkerTimes;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The deterministic log is kept.
const LOG: u32 = 1;
/// A recording runs.
const TRACE: u32 = 2;
/// Times are measured.
const TIMES: u32 = 4;
/// The recording that runs has a reading of the clock in each event.
const EXACT: u32 = 8;
/// There is a journal, which is no recording: it takes spawns, turns and timers, and no other
/// event.
const JOURNAL: u32 = 16;

/// Precision of the times in a recording.
///
/// A reading of the clock takes as long as half a yield. So events of a worker that come within
/// about six microseconds share a reading, at most 256 of them. The trace spreads them evenly over
/// the time until the next reading. Their order is always exact, and so are the times of turns that
/// take more than about three microseconds and follow others of that length. A single long turn
/// among many short ones is the exception: the short ones before it may appear longer at its
/// expense.
///
/// ```
/// use parcae::prelude::*;
/// use parcae::trace::{Stamps, TraceOpts};
///
/// let rt = Runtime::builder().build()?;
/// let recording = rt.trace(TraceOpts::new().stamps(Stamps::Exact))?;
/// rt.run(|cx| cx.yield_now())?;
/// recording.stop().check().unwrap();
/// # Ok::<(), parcae::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Stamps {
    /// Short events that follow each other share a reading of the clock.
    #[default]
    Shared,
    /// The clock is read for each event.
    Exact,
}

/// Tracing state of a scheduler.
#[repr(C, align(64))]
pub(crate) struct Tracer {
    /// Relaxed throughout: an event at the very edge of a recording may be written or not.
    flags: AtomicU32,
    pub(crate) clock: Clock,
    /// Ring of each worker; null before the first recording. Written under the lock of `state`.
    rings: Box<[AtomicPtr<EventRing>]>,
    /// Times of each worker; empty unless times are measured.
    pub(crate) times: Box<[WorkerTimes]>,
    /// Written by other threads, hence on another cache line.
    cold: Box<ColdTracer>,
}

#[derive(Default)]
struct ColdTracer {
    names: Arc<NameTable>,
    outside: Mutex<Option<EventRing>>,
    recording: Mutex<RecordingState>,
}

/// Whether a scheduler keeps a log, and measures times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TracerOpts {
    pub(crate) log: bool,
    pub(crate) times: bool,
    #[cfg(feature = "record")]
    pub(crate) journal: bool,
}

/// Whether a recording runs, and rings that it does not use any more.
#[derive(Debug, Default)]
pub(crate) struct RecordingState {
    pub(crate) is_on: bool,
    /// Rings that were too small; a worker may still write to them.
    retired: Vec<RetiredRing>,
}

/// A ring that was replaced. Not a `Box`: a worker may still hold a reference.
#[derive(Debug)]
struct RetiredRing(NonNull<EventRing>);

// SAFETY: a ring is made to be shared between threads.
unsafe impl Send for RetiredRing {}

impl Drop for RetiredRing {
    fn drop(&mut self) {
        // SAFETY: made from a box by `Tracer::provide`. Dropped with the scheduler, after its
        // workers.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

impl RecordingState {
    /// Whether nothing was ever recorded.
    pub(crate) fn is_untouched(&self) -> bool {
        !self.is_on && self.retired.is_empty()
    }
}

impl Tracer {
    pub(crate) fn new(workers: usize, opts: TracerOpts) -> Tracer {
        let times = if opts.times { workers } else { 0 };
        let flag = |flag, is_on| if is_on { flag } else { 0 };
        let flags = flag(LOG, opts.log) | flag(TIMES, opts.times);
        #[cfg(feature = "record")]
        let flags = flags | flag(JOURNAL, opts.journal);
        Tracer {
            flags: AtomicU32::new(flags),
            clock: Clock::new(),
            rings: (0..workers).map(|_| AtomicPtr::default()).collect(),
            times: (0..times).map(|_| WorkerTimes::default()).collect(),
            cold: Box::default(),
        }
    }

    /// Whether anything is recorded or measured.
    #[inline(always)]
    pub(crate) fn is_on(&self) -> bool {
        self.flags.load(Ordering::Relaxed) != 0 // see `flags`
    }

    /// Whether events are written or measured: more is on than a journal.
    #[inline(always)]
    pub(crate) fn is_heard(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & !JOURNAL != 0 // see `flags`
    }

    /// Whether times are measured.
    #[inline(always)]
    pub(crate) fn measures(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & TIMES != 0 // see `flags`
    }

    /// Switches the writing of events on. The rings are there.
    pub(crate) fn start(&self, stamps: Stamps) {
        let exact = if stamps == Stamps::Exact { EXACT } else { 0 };
        self.flags.fetch_or(TRACE | exact, Ordering::Relaxed); // see `flags`
    }

    /// Switches the writing of events off.
    pub(crate) fn stop(&self) {
        self.flags.fetch_and(!(TRACE | EXACT), Ordering::Relaxed); // see `flags`
    }

    /// Whether each event needs a time of its own.
    #[inline]
    pub(crate) fn is_exact(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & (LOG | TIMES | EXACT) != 0 // see `flags`
    }

    /// Whether events are kept, in a ring or in the log.
    pub(crate) fn keeps(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & (LOG | TRACE) != 0 // see `flags`
    }

    /// Whether a recording runs.
    pub(crate) fn traces(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & TRACE != 0 // see `flags`
    }

    /// Whether a recording runs, and nothing else is on.
    #[inline]
    pub(crate) fn only_traces(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & !EXACT == TRACE // see `flags`
    }

    /// Locks the state of the recording.
    pub(crate) fn recording(&self) -> MutexGuard<'_, RecordingState> {
        self.cold.recording.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn names(&self) -> &Arc<NameTable> {
        &self.cold.names
    }

    /// The ring of a worker; `None` before the first recording.
    #[inline]
    pub(crate) fn ring(&self, worker: usize) -> Option<&EventRing> {
        // Acquire: pairs with the Release in `provide`, for the contents of the ring.
        let ring = self.rings[worker].load(Ordering::Acquire);
        // SAFETY: made by `provide`, and freed with this.
        unsafe { ring.as_ref() }
    }

    /// The ring of threads that are no workers.
    pub(crate) fn outside(&self) -> MutexGuard<'_, Option<EventRing>> {
        self.cold.outside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes sure that all rings have room for `events`. Old rings are retired into `state`.
    pub(crate) fn provide(&self, events: usize, state: &mut RecordingState) {
        let enough = |ring: Option<&EventRing>| ring.is_some_and(|ring| ring.capacity() >= events);
        for (worker, place) in self.rings.iter().enumerate() {
            if enough(self.ring(worker)) {
                continue;
            }
            let ring = Box::into_raw(Box::new(EventRing::new(worker, events)));
            let old = place.swap(ring, Ordering::Release); // pairs with the Acquire in `ring`
            if let Some(old) = NonNull::new(old) {
                // SAFETY: freed with this.
                unsafe { old.as_ref() }.restart(); // its worker looks for the new one
                state.retired.push(RetiredRing(old));
            }
        }
        let mut outside = self.outside();
        if !enough(outside.as_ref()) {
            *outside = Some(EventRing::new(OUTSIDE, events));
        }
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        for ring in &mut self.rings {
            if !ring.get_mut().is_null() {
                // SAFETY: made by `provide`; no worker is left to use it.
                drop(unsafe { Box::from_raw(*ring.get_mut()) });
            }
        }
    }
}
