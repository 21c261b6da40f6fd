//! Events and times that the scheduler records about tasks and workers.
//!
//! The scheduler writes, `view` reads. Nothing here waits for a reader, and nothing here knows
//! the format of a trace file or of a metrics page.
//!
//! | file | owns |
//! |---|---|
//! | `kind` | kinds of events and their encoding in four words |
//! | `packed` | the same in one word, where the events before it tell the rest |
//! | `ring` | the last events of one worker, packed, overwritten when full |
//! | `log` | all events of a deterministic run |
//! | `names` | numbers for places, names and wait reasons, so that an event fits into four words |
//! | `clock` | timestamps: a cheap tick counter and its rate |
//! | `tracer` | which recordings are on; rings; clock |
//! | `writer` | per-worker state for writing events |
//! | `counter` | counters with one writer |
//! | `times` | per-worker and per-task times, where they are measured |
//! | `histogram` | log-linear counts of durations |
//! | `spans` | spans of the `tracing` crate, with the feature of that name |
//!
//! Writing itself is done by the methods `note_*` of `Worker` (`worker/events.rs`) and `Shared`
//! (`shared/events.rs`).
//!
//! # Cost
//!
//! Every `note_*` starts with [`Tracer::is_on`]: a load of a word that does not change, on a cache
//! line that is read anyway. A function is called only if a recording, the deterministic log or
//! the measurement of times is on. While a recording alone is on, the frequent events are one word
//! each, appended without a reading of the clock (`ring`).
//!
//! # Timestamps
//!
//! The event that ends a turn is stamped, and the event that begins the next turn reuses that stamp
//! if the next task came from this worker's own queues. A task from elsewhere was queued by another
//! worker, perhaps after that stamp, so the clock is read again
//! (`Worker::came_from_elsewhere`). Hence the stamps order a task's spawn before its start
//! and its wake before its resume. Stamps of one worker never decrease.
//!
//! Where events come fast, several share a reading ([`EventWriter::in_order`]): the later ones have
//! a stamp that is too low. That keeps the order above. An event that another worker depends on may
//! have a lower stamp than its time, never a higher one, and an event that depends on another
//! worker is stamped by a reading: the begin of a turn of a task from elsewhere, a steal, the wake
//! of a task that another worker has parked. All other events depend on this worker's own earlier
//! ones, which precede them in its ring. A reader spreads shared stamps (`view::trace::spread`).
//! Measured times and the deterministic log need each stamp, and share none.
//!
//! # Writers
//!
//! | writer | destination |
//! |---|---|
//! | a worker | its own ring, of which it is the only writer |
//! | any other thread | one ring for all of them, under a lock |
//! | any thread, under the deterministic executor | the log |
//!
//! The first recording creates the rings. A recording that asks for more room replaces them. A
//! worker may be about to write into the old ring, so it is kept until the scheduler is gone;
//! sizes are powers of two, so all old rings together are smaller than the last.

pub(crate) mod clock;
pub(crate) mod counter;
pub(crate) mod histogram;
pub(crate) mod kind;
pub(crate) mod log;
pub(crate) mod names;
mod packed;
pub(crate) mod ring;
pub(crate) mod spans;
pub(crate) mod times;
mod tracer;
mod writer;

pub(crate) use clock::Rate;
pub(crate) use kind::{EventKind, WaitReason, cancel_code};
pub(crate) use log::EventLog;
pub(crate) use ring::{EventRing, RingCursor, Words};
pub(crate) use times::TaskTimes;
pub use tracer::Stamps;
pub(crate) use tracer::{Tracer, TracerOpts};
pub(crate) use writer::EventWriter;
