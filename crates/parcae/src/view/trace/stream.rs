//! Recording into a file while the program runs.
//!
//! A thread reads the rings every few milliseconds and writes what is new. Nobody waits for it: when more happens than it can write, the oldest
//! events of a ring are overwritten and counted. Its memory is bounded: what the rings hold, and a few words for each live
//! task.
//!
//! Events of one worker come in order, but what one worker wrote may be read before what another wrote earlier. So what is younger than the
//! moment at which reading began is kept for the next time, and sorted in.

use super::TraceOpts;
use super::chrome::Chrome;
use super::recording::{EventBatch, EventReader, TraceError, decode};
use crate::sched::Shared;
use crate::sched::events::Rate;
use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long the thread sleeps, while little and while much happens.
const CALM: Duration = Duration::from_millis(20);
const BUSY: Duration = Duration::from_millis(1);

/// A recording into a file that goes on; see [`Runtime::trace_to`](crate::Runtime::trace_to). Dropping it ends it, and forgets what went
/// wrong.
pub struct Streaming {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<io::Result<Streamed>>>,
}

/// What was recorded into a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Streamed {
    /// How many events were read.
    pub events: u64,
    /// How many were overwritten before they could be read; more fit with [`TraceOpts::events`].
    pub lost: u64,
    /// Entries that were not written because the file was full; see [`TraceOpts::max_bytes`].
    pub left_out: u64,
    /// How large the file is.
    pub bytes: u64,
}

/// Starts a recording into a file.
pub(crate) fn start(
    shared: Arc<Shared>,
    path: &Path,
    opts: &TraceOpts,
) -> Result<Streaming, TraceError> {
    let rate = shared.rate();
    let source = EventReader::open(Arc::clone(&shared), opts)?;
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

/// What the thread has.
struct Writer {
    source: EventReader,
    chrome: Chrome<BufWriter<File>>,
    rate: Rate,
    /// Events that were too young the last time.
    held: EventBatch,
}

impl Writer {
    fn run(mut self, stop: &AtomicBool, busy: usize) -> io::Result<Streamed> {
        let (mut events, mut lost) = (0, 0);
        loop {
            // Before reading: whoever was told to stop has read everything after that.
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

    /// Writes what is new and old enough, or everything. Returns how much was read and how much lost.
    fn read(&mut self, everything: bool) -> io::Result<(usize, u64)> {
        let young = if everything { u64::MAX } else { self.source.shared.ticks() };
        let mut batch = self.source.read();
        let new = batch.events.len();
        let lost: u64 = batch.lost.iter().map(|lost| lost.1).sum();
        if lost > 0 {
            self.chrome.gap();
        }
        // Those that were held come first where times are equal: they were written first.
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
    /// Ends the recording, when everything is in the file.
    ///
    /// # Errors
    ///
    /// What went wrong with the file.
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
