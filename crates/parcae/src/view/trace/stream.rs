//! Recording into a file while the program runs.
//!
//! A thread reads the rings every few milliseconds and writes the new events. No task waits for it:
//! when events come faster than it can write, the oldest ones of a ring are overwritten and
//! counted. Its memory is bounded: the contents of the rings, and a few words for each live task.
//!
//! Events of one worker come in order, but an event of one worker may be read before an earlier one
//! of another worker. So events that are younger than the start of the reading are kept for the
//! next round, and sorted in. That needs the time of each event, so stamps are exact.

use super::TraceOpts;
use super::chrome::Chrome;
use super::recording::{EventBatch, EventReader, TraceError, decode};
use crate::sched::Shared;
use crate::sched::events::{Rate, Stamps};
use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Pause of the thread, with few and with many events.
const CALM: Duration = Duration::from_millis(20);
const BUSY: Duration = Duration::from_millis(1);

/// A running recording into a file; see [`Runtime::trace_to`](crate::Runtime::trace_to). Dropping
/// it ends it, and ignores errors.
pub struct Streaming {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<io::Result<Streamed>>>,
}

/// Summary of a recording into a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Streamed {
    /// Number of events that were read.
    pub events: u64,
    /// Number of events that were overwritten before they could be read; more fit with
    /// [`TraceOpts::events`].
    pub lost: u64,
    /// Number of entries that were not written because the file was full; see
    /// [`TraceOpts::max_bytes`].
    pub left_out: u64,
    /// Size of the file.
    pub bytes: u64,
}

/// Starts a recording into a file.
pub(crate) fn start(
    shared: Arc<Shared>,
    path: &Path,
    opts: &TraceOpts,
) -> Result<Streaming, TraceError> {
    let rate = shared.rate();
    let source = EventReader::open(Arc::clone(&shared), opts, Stamps::Exact)?;
    let file = BufWriter::new(File::create(path).map_err(TraceError::Io)?);
    let chrome =
        Chrome::new(file, shared.config.workers, opts.max_bytes, Arc::clone(&source.known))
            .map_err(TraceError::Io)?;
    let stop = Arc::new(AtomicBool::new(false));
    let (told, busy) = (Arc::clone(&stop), opts.events / 8);
    let run = move || Writer { source, chrome, rate, held: EventBatch::default() }.run(&told, busy);
    let thread = std::thread::Builder::new().name("parcae-trace".into()).spawn(run);
    Ok(Streaming { stop, thread: Some(thread.map_err(TraceError::Io)?) })
}

/// State of the thread.
struct Writer {
    source: EventReader,
    chrome: Chrome<BufWriter<File>>,
    rate: Rate,
    /// Events that were too young in the last round.
    held: EventBatch,
}

impl Writer {
    fn run(mut self, stop: &AtomicBool, busy: usize) -> io::Result<Streamed> {
        let (mut events, mut lost) = (0, 0);
        loop {
            // Before reading: events before the stop are then read in this round.
            let last = stop.load(Ordering::Acquire); // pairs with the Release in `tell`
            let (new, gone) = self.read(last)?;
            (events, lost) = (events + new as u64, lost + gone);
            if last {
                break;
            }
            std::thread::park_timeout(if new > busy { BUSY } else { CALM });
        }
        let Writer { source, chrome, .. } = self;
        drop(source);
        let (_, bytes, left_out) = chrome.finish(lost)?;
        Ok(Streamed { events, lost, left_out, bytes })
    }

    /// Writes the new events that are old enough, or all of them. Returns the numbers of events
    /// read and lost.
    fn read(&mut self, everything: bool) -> io::Result<(usize, u64)> {
        let young = if everything { u64::MAX } else { self.source.shared.ticks() };
        let mut batch = self.source.read(|_| usize::MAX);
        let new = batch.events.len();
        let lost: u64 = batch.lost.iter().map(|lost| lost.1).sum();
        if lost > 0 {
            self.chrome.gap();
        }
        // Held events come first where times are equal: they were written first.
        let mut events = std::mem::take(&mut self.held.events);
        events.append(&mut batch.events);
        batch.events = events;
        if self.source.shared.log.is_none() {
            batch.sort();
            let ripe = batch.events.partition_point(|words| words[0] < young);
            self.held.events = batch.events.split_off(ripe);
        }
        let table = self.source.shared.tracer.names();
        for words in &batch.events {
            if let Some(event) = decode(words, table, self.rate) {
                self.chrome.event(&event)?;
            }
        }
        Ok((new, lost))
    }
}

impl Streaming {
    /// Ends the recording, after writing all events to the file.
    ///
    /// # Errors
    ///
    /// The file could not be written.
    pub fn stop(mut self) -> io::Result<Streamed> {
        self.tell();
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(streamed)) => streamed,
            Some(Err(_)) | None => Err(io::Error::other("the thread that writes has panicked")),
        }
    }

    fn tell(&self) {
        self.stop.store(true, Ordering::Release); // pairs with the Acquire in `run`
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }
}

impl Drop for Streaming {
    fn drop(&mut self) {
        self.tell();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Streaming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Streaming")
    }
}
