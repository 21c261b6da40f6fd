//! Traces: the events of all tasks and workers, with timestamps.
//!
//! A recording keeps the last events of each worker in a ring, like a flight recorder: it can be on
//! for as long as the program runs, and shows the last moments before a failure.
//!
//! ```
//! use parcae::prelude::*;
//! use parcae::trace::TraceOpts;
//!
//! let rt = Runtime::builder().workers(2).build()?;
//! let recording = rt.trace(TraceOpts::new())?;
//! rt.run(|cx| {
//!     cx.nursery(|n| {
//!         let (tx, rx) = parcae::channel::channel(1);
//!         n.spawn_with(SpawnOpts::new().name("producer"), move |_| Ok(tx.send(6)?))?;
//!         n.spawn(move |_| Ok(rx.recv()?))?;
//!         Ok(())
//!     })
//! })?;
//! let trace = recording.stop();
//! trace.check().unwrap();
//! let mut file = Vec::new(); // or a file, to be opened in https://ui.perfetto.dev
//! trace.write_chrome(&mut file).unwrap();
//! assert!(String::from_utf8(file).unwrap().contains("producer"));
//! # Ok::<(), parcae::Error>(())
//! ```
//!
//! | to | use |
//! |---|---|
//! | read the last events while the recording goes on | [`Recording::snapshot`] |
//! | record all events into a file | [`Runtime::trace_to`](crate::Runtime::trace_to) |
//! | count and search | [`Trace::events`], [`Trace::counts`] |
//! | view it | [`Trace::write_chrome`], for Perfetto and Chrome |
//!
//! Off, it costs a comparison per event. On, frequent events take one word each, and share a
//! reading of the processor's clock where they come fast ([`Stamps`] says how precise times are).
//! No task ever waits for a reader.
//!
//! Under the deterministic executor all events are recorded anyway
//! ([`Runtime::event_log`](crate::Runtime::event_log) returns the bytes), with virtual time. A
//! recording there is a part of that log.

mod check;
mod chrome;
mod event;
mod recording;
mod spread;
mod stream;
#[cfg(all(test, not(loom)))]
mod tests;

pub use crate::sched::events::Stamps;
pub use check::{EventCounts, Flaw};
pub use event::{TraceEvent, What};
pub use recording::{Recording, Trace, TraceError};
pub use stream::{Streamed, Streaming};

pub(crate) use recording::{logged, start};
pub(crate) use stream::start as start_streaming;

/// Options of a recording.
///
/// ```
/// use parcae::trace::TraceOpts;
///
/// let short = TraceOpts::new().events(1024); // 32 KiB for each worker
/// let bounded = TraceOpts::new().max_bytes(64 << 20); // for `trace_to`
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct TraceOpts {
    events: usize,
    max_bytes: u64,
    stamps: Stamps,
}

impl Default for TraceOpts {
    fn default() -> TraceOpts {
        TraceOpts { events: 1 << 14, max_bytes: u64::MAX, stamps: Stamps::Shared }
    }
}

impl TraceOpts {
    /// 16384 events per worker, which is half a MiB; files of any size.
    pub fn new() -> TraceOpts {
        TraceOpts::default()
    }

    /// Number of events that are kept per worker, in about 32 bytes each: 64 to 16 million, rounded
    /// up to a power of two. A later recording of the same runtime keeps at least as many.
    pub fn events(mut self, events: usize) -> TraceOpts {
        self.events = events.clamp(64, 1 << 24).next_power_of_two();
        self
    }

    /// Precision of times. Recordings into a file are exact, whatever this says.
    pub fn stamps(mut self, stamps: Stamps) -> TraceOpts {
        self.stamps = stamps;
        self
    }

    /// Limit of the file's size. Further entries are counted and not written.
    pub fn max_bytes(mut self, bytes: u64) -> TraceOpts {
        self.max_bytes = bytes;
        self
    }
}
