//! Recordings in memory, and the traces they produce.

use super::TraceOpts;
use super::event::{TraceEvent, What};
use crate::base::error::TaskId;
use crate::sched::Shared;
use crate::sched::events::names::NameTable;
use crate::sched::events::{EventRing, Rate, RingCursor, Stamps, Words};
use crate::view::inspect::Dump;
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

/// Failure to start a recording.
#[derive(Debug)]
#[non_exhaustive]
pub enum TraceError {
    /// Another recording of the same runtime has not been stopped.
    Busy,
    /// The file could not be created.
    Io(io::Error),
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TraceError::Busy => f.write_str(
                "another recording of this runtime has not been stopped: a runtime has one at a \
                 time",
            ),
            TraceError::Io(error) => write!(f, "cannot write the trace file: {error}"),
        }
    }
}

impl std::error::Error for TraceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            TraceError::Busy => None,
            TraceError::Io(error) => Some(error),
        }
    }
}

/// Reads the events of a scheduler, with a cursor per ring.
pub(super) struct EventReader {
    pub(super) shared: Arc<Shared>,
    /// Cursor of each worker's ring.
    workers: Vec<RingCursor>,
    outside: RingCursor,
    /// Under the deterministic executor: the cursor of the log.
    log: usize,
    /// Whether the recording began before the first task.
    from_the_start: bool,
    /// Otherwise, labels of the tasks that were there, as far as they could be read.
    pub(super) known: Arc<Known>,
}

/// Labels of tasks that were there before the first event.
pub(super) type Known = HashMap<u64, String>;

/// The label of a task in a trace.
pub(super) fn label(id: TaskId, name: Option<&str>, place: Option<&Location<'_>>) -> String {
    match (name, place) {
        (Some(name), _) => format!("{name} #{id}"),
        (None, Some(place)) => format!("{}:{} #{id}", place.file(), place.line()),
        (None, None) => format!("task #{id}"),
    }
}

/// Labels of the present tasks.
fn known(shared: &Shared) -> Known {
    let tasks = Dump::tasks_of(shared).into_iter();
    // A task of which neither name nor spawn location is known gets its label from its id.
    let told = tasks.filter(|task| task.name.is_some() || task.spawned_at.is_some());
    told.map(|task| (task.id.as_u64(), label(task.id, task.name.as_deref(), task.spawned_at)))
        .collect()
}

/// Events that were read together.
#[derive(Debug, Default)]
pub(super) struct EventBatch {
    /// In the order of time; events of one worker in the order in which it wrote them.
    pub(super) events: Vec<Words>,
    /// Number of overwritten events of each worker, and of other threads.
    pub(super) lost: Vec<(Option<usize>, u64)>,
}

impl EventReader {
    /// Switches recording on.
    pub(super) fn open(
        shared: Arc<Shared>,
        opts: &TraceOpts,
        stamps: Stamps,
    ) -> Result<EventReader, TraceError> {
        let tracer = &shared.tracer;
        let mut recording = tracer.recording();
        if recording.is_on {
            return Err(TraceError::Busy);
        }
        recording.is_on = true;
        let log = shared.log.as_ref().map_or(0, |log| log.len());
        if shared.log.is_none() {
            tracer.provide(opts.events, &mut recording);
        }
        let begin = |ring: &EventRing| {
            ring.restart();
            ring.end()
        };
        let ring = |worker| tracer.ring(worker).map(begin).unwrap_or_default();
        let workers = (0..shared.remotes.len()).map(ring).collect();
        let outside = tracer.outside().as_ref().map(begin).unwrap_or_default();
        let from_the_start = shared.live() == 0;
        let known = if from_the_start { Known::new() } else { known(&shared) };
        tracer.start(stamps);
        drop(recording);
        Ok(EventReader { known: Arc::new(known), shared, workers, outside, log, from_the_start })
    }

    /// Copies the events since the last call, at most the last `most` of each ring.
    pub(super) fn read(&mut self, most: impl Fn(&EventRing) -> usize) -> EventBatch {
        let mut batch = EventBatch::default();
        if let Some(log) = &self.shared.log {
            batch.events = log.since(self.log);
            self.log += batch.events.len();
            return batch;
        }
        let tracer = &self.shared.tracer;
        for (worker, cursor) in self.workers.iter_mut().enumerate() {
            if let Some(ring) = tracer.ring(worker) {
                batch.lost.push((Some(worker), ring.read(cursor, most(ring), &mut batch.events)));
            }
        }
        if let Some(ring) = &*tracer.outside() {
            batch.lost.push((None, ring.read(&mut self.outside, most(ring), &mut batch.events)));
        }
        batch.lost.retain(|lost| lost.1 > 0);
        batch.sort();
        batch
    }
}

impl EventBatch {
    /// Stable: events of one worker with the same stamp stay in order.
    pub(super) fn sort(&mut self) {
        self.events.sort_by_key(|words| words[0]);
    }
}

impl Drop for EventReader {
    fn drop(&mut self) {
        self.shared.tracer.stop();
        self.shared.tracer.recording().is_on = false;
    }
}

/// A running recording; see [`Runtime::trace`](crate::Runtime::trace). Dropping it ends it.
pub struct Recording {
    pub(super) source: EventReader,
    /// Where the recording began.
    began: (Vec<RingCursor>, RingCursor, usize),
}

/// Starts a recording.
pub(crate) fn start(shared: Arc<Shared>, opts: &TraceOpts) -> Result<Recording, TraceError> {
    let source = EventReader::open(shared, opts, opts.stamps)?;
    let began = (source.workers.clone(), source.outside, source.log);
    Ok(Recording { source, began })
}

impl Recording {
    /// The events so far, as far as there was room for them. The recording goes on.
    ///
    /// While tasks run on several threads, their rings are read one after the other: an event may
    /// be there without its cause, which another worker wrote a moment before.
    ///
    /// ```
    /// use parcae::prelude::*;
    /// use parcae::trace::TraceOpts;
    ///
    /// let rt = Runtime::builder().workers(1).build()?;
    /// let mut recorder = rt.trace(TraceOpts::new().events(64))?;
    /// rt.run(|cx| (0..1000).try_for_each(|_| cx.yield_now()))?;
    /// let last = recorder.snapshot(); // the last 64 events of the worker
    /// assert!(last.lost() > 900);
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn snapshot(&mut self) -> Trace {
        let causal = self.source.shared.log.is_some(); // one log, on one thread
        self.collect(causal)
    }

    fn collect(&mut self, causal: bool) -> Trace {
        let source = &mut self.source;
        (source.workers, source.outside, source.log) = self.began.clone();
        let mut batch = source.read(EventRing::capacity);
        if source.shared.log.is_none() {
            batch.spread();
        }
        Trace {
            complete: causal && source.from_the_start && batch.lost.is_empty(),
            causal,
            batch,
            rate: source.shared.rate(),
            table: Arc::clone(source.shared.tracer.names()),
            workers: source.shared.config.workers,
            known: Arc::clone(&source.known),
        }
    }

    /// Ends the recording.
    pub fn stop(mut self) -> Trace {
        self.source.shared.tracer.stop();
        self.collect(true)
    }
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Recording")
    }
}

/// The events of a runtime in some period.
///
/// ```
/// use parcae::prelude::*;
/// use parcae::trace::{TraceOpts, What};
///
/// let rt = Runtime::builder().deterministic(7).workers(2).build()?;
/// let recording = rt.trace(TraceOpts::new())?;
/// rt.run(|cx| cx.sleep(std::time::Duration::from_millis(3)))?;
/// let trace = recording.stop();
/// let waited = trace.events().find_map(|event| match event.what {
///     What::Parked { reason, .. } => Some(reason),
///     _ => None,
/// });
/// assert_eq!(waited.as_deref(), Some("time"));
/// # Ok::<(), parcae::Error>(())
/// ```
pub struct Trace {
    pub(super) batch: EventBatch,
    pub(super) rate: Rate,
    pub(super) table: Arc<NameTable>,
    pub(super) workers: usize,
    pub(super) known: Arc<Known>,
    /// The recording began before the first task, and no event was lost.
    pub(super) complete: bool,
    /// No event is there without the events that caused it, apart from lost ones.
    pub(super) causal: bool,
}

impl Trace {
    /// All events in the order of time.
    pub fn events(&self) -> impl Iterator<Item = TraceEvent> {
        self.batch.events.iter().filter_map(|words| decode(words, &self.table, self.rate))
    }

    /// Number of events.
    pub fn len(&self) -> usize {
        self.batch.events.len()
    }

    /// Whether there are no events.
    pub fn is_empty(&self) -> bool {
        self.batch.events.is_empty()
    }

    /// Number of events that were overwritten; more fit with [`TraceOpts::events`].
    pub fn lost(&self) -> u64 {
        self.batch.lost.iter().map(|lost| lost.1).sum()
    }

    /// Whether no event is missing: the recording began before the first task, was stopped, and no
    /// event was lost.
    pub fn is_complete(&self) -> bool {
        self.complete
    }
}

/// Decodes an event.
pub(super) fn decode(words: &Words, table: &NameTable, rate: Rate) -> Option<TraceEvent> {
    let (worker, what) = What::of(words, table)?;
    Some(TraceEvent {
        at: Duration::from_nanos(rate.nanos(words[0])),
        worker,
        task: words[2],
        what,
    })
}

/// All events that the deterministic executor has logged. Positions are those of the log: events
/// that cannot be decoded are none, because the executor writes no others.
pub(crate) fn logged(shared: &Shared) -> Vec<TraceEvent> {
    let (table, rate) = (Arc::clone(shared.tracer.names()), shared.rate());
    let events = shared.log.as_ref().map(|log| log.since(0)).unwrap_or_default();
    events.iter().filter_map(|words| decode(words, &table, rate)).collect()
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trace").field("events", &self.len()).field("lost", &self.lost()).finish()
    }
}
