//! Observing a runtime: metrics, traces, dumps, deadlocks. No worker has to cooperate for it.

use super::Runtime;
#[cfg(feature = "record")]
use crate::api::lab::Record;
use crate::base::error::Result;
use crate::sched::Shared;
use crate::scope::profile::Profile;
use crate::view::attach::{self, AttachOpts, Attached};
use crate::view::inspect::{self, Deadlock, Detector, Dump, DumpOnSignal, PAUSE};
use crate::view::stats::Snapshot;
use crate::view::trace::{self, Recording, Streaming, TraceError, TraceEvent, TraceOpts};
use std::io;
use std::path::Path;
use std::sync::{Arc, Weak};

impl<P: Profile> Runtime<P> {
    /// All metrics at once: counters of the workers, and times, nurseries and histograms if
    /// [`Builder::measure`](super::Builder::measure) asks for them. See [`stats`](crate::stats).
    pub fn stats(&self) -> Snapshot {
        self.inner().engine.with_shared(Snapshot::of)
    }

    /// Number of tasks that have not ended.
    pub fn live_tasks(&self) -> u64 {
        self.inner().engine.live()
    }

    /// Records events from now on. If there are more than the options have room for, the last ones
    /// are kept. See [`trace`](mod@crate::trace).
    ///
    /// # Errors
    ///
    /// If another recording has not been stopped.
    pub fn trace(&self, opts: TraceOpts) -> Result<Recording, TraceError> {
        trace::start(self.inner().engine.shared(), &opts)
    }

    /// Records events from now on into a file, for <https://ui.perfetto.dev>.
    ///
    /// ```
    /// use parcae::prelude::*;
    /// use parcae::trace::TraceOpts;
    ///
    /// let rt = Runtime::builder().workers(2).build()?;
    /// let path = std::env::temp_dir().join(format!("trace-{}.json", std::process::id()));
    /// let streaming = rt.trace_to(&path, TraceOpts::new().max_bytes(1 << 20))?;
    /// rt.run(|cx| cx.sleep(std::time::Duration::from_millis(1)))?;
    /// let streamed = streaming.stop()?;
    /// assert_eq!(streamed.bytes, std::fs::metadata(&path)?.len());
    /// assert_eq!(streamed.lost, 0);
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), parcae::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If another recording has not been stopped, or the file cannot be created.
    pub fn trace_to(
        &self,
        path: impl AsRef<Path>,
        opts: TraceOpts,
    ) -> Result<Streaming, TraceError> {
        trace::start_streaming(self.inner().engine.shared(), path.as_ref(), &opts)
    }

    /// The record of the run so far, for [`Explore::retrace`](crate::lab::Explore::retrace). `None`
    /// unless the builder was asked to [record](crate::runtime::Builder::record), and under the
    /// deterministic executor.
    ///
    /// While tasks run, the journals of the workers are read one after the other: a replay may come
    /// to the end of one before the others.
    #[cfg(feature = "record")]
    pub fn record(&self) -> Option<Record> {
        self.inner().engine.with_shared(Record::of)
    }

    /// The event log of the deterministic executor: the same bytes for the same seed, number of
    /// workers and program. Empty under threads.
    pub fn event_log(&self) -> Vec<u8> {
        self.inner().engine.log()
    }

    /// The event log, decoded.
    pub(crate) fn event_list(&self) -> Vec<TraceEvent> {
        self.inner().engine.with_shared(trace::logged)
    }

    /// All tasks: their waits, places and times. It works on a runtime that is stuck, too. See
    /// [`inspect`].
    pub fn dump(&self) -> Dump {
        self.inner().engine.with_shared(Dump::of)
    }

    /// Searches for tasks whose wait cannot end, [certainly or
    /// possibly](crate::inspect::Certainty): the holder of a lock or of a channel's end is a guess.
    /// Blocks the calling thread for a tenth of a second.
    pub fn find_deadlock(&self) -> Option<Deadlock> {
        self.inner().engine.with_shared(|shared| Detector::scan_twice(shared, PAUSE))
    }

    /// Opens a socket through which other processes of the same user can inspect this runtime. See
    /// [`attach`].
    ///
    /// # Errors
    ///
    /// The socket cannot be created: another program listens on the path, the path is a file that
    /// is no socket, or the directory is not writable. An existing socket is replaced only if it
    /// belongs to this user and no program listens on it.
    pub fn attach(&self, opts: AttachOpts) -> io::Result<Attached> {
        attach::open(self.shared(), opts)
    }

    /// Writes a [`Dump`] to standard error whenever the process receives this
    /// signal, for example `SIGQUIT`, which a terminal sends for `Ctrl-\`. It works even when all
    /// workers are stuck.
    ///
    /// ```
    /// use parcae::prelude::*;
    ///
    /// let rt = Runtime::builder().build()?;
    /// let _dumps = rt.dump_on_signal(libc::SIGQUIT)?;
    /// # Ok::<(), parcae::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The system refuses the signal handler, a descriptor or a thread; or 32 dumps on signals are
    /// active in the process.
    pub fn dump_on_signal(&self, signal: i32) -> io::Result<DumpOnSignal> {
        inspect::dump_on_signal(self.shared(), signal)
    }

    pub(crate) fn shared(&self) -> Weak<Shared> {
        Arc::downgrade(&self.inner().engine.shared())
    }

    /// The engine below, for tests of the scheduler through a runtime.
    #[cfg(test)]
    pub(crate) fn engine(&self) -> &crate::api::engine::Engine {
        &self.inner().engine
    }
}
