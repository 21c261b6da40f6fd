//! Traces: what every task and worker did, and when.
//!
//! A recording keeps the last events of each worker in a ring that overwrites itself, like the flight recorder of an aeroplane: it can be on for
//! as long as the program runs, and shows what happened just before something went wrong.
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
//! | look at the last moments, now and then | [`Recording::snapshot`] |
//! | record everything into a file | [`Runtime::trace_to`](crate::Runtime::trace_to) |
//! | count and search | [`Trace::events`], [`Trace::counts`] |
//! | see it | [`Trace::write_chrome`], for Perfetto and Chrome |
//!
//! Off, it costs a comparison where something could be recorded. On, each switch of tasks costs one reading of the processor's clock and two
//! events of 32 bytes; the README has figures. Nobody ever waits for a reader.
//!
//! Under the deterministic executor everything is recorded anyway ([`Runtime::event_log`](crate::Runtime::event_log) has the bytes), with virtual
//! time. A recording there is a part of that log.

mod check;
mod chrome;
mod event;
mod recording;
mod stream;
#[cfg(all(test, not(loom)))]
mod tests;

pub use check::{EventCounts, Flaw};
pub use event::{TraceEvent, What};
pub use recording::{Recording, Trace, TraceError};
pub use stream::{Streamed, Streaming};

pub(crate) use recording::start;
pub(crate) use stream::start as start_streaming;

/// How a recording is set up.
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
}

impl Default for TraceOpts {
    fn default() -> TraceOpts {
        TraceOpts { events: 1 << 14, max_bytes: u64::MAX }
    }
}

impl TraceOpts {
    /// 16384 events of each worker, which is half a MiB; files of any size.
    pub fn new() -> TraceOpts {
        TraceOpts::default()
    }

    /// How many events of each worker are kept, of 32 bytes each: 64 to 16 million, rounded up to a power of two. A later recording of the
    /// same runtime has at least as many as the one before.
    pub fn events(mut self, events: usize) -> TraceOpts {
        self.events = events.clamp(64, 1 << 24).next_power_of_two();
        self
    }

    /// How large a file may become. What comes after that is counted and not written.
    pub fn max_bytes(mut self, bytes: u64) -> TraceOpts {
        self.max_bytes = bytes;
        self
    }
}
