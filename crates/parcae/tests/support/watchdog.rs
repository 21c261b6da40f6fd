//! A test that hangs must fail, and show where its tasks wait.
//!
//! Every runtime that the harness builds is known here, weakly. When a test has taken longer than
//! [`LIMIT`], all runtimes that are alive are dumped to the standard error output. [`must_end`] has
//! its test on a thread of its own, so it can fail it and let the suite go on. A [`Watchdog`]
//! guards a test on the caller's thread, which cannot be stopped, so it ends the process.

use parcae::prelude::*;
use std::io::Write;
use std::panic::resume_unwind;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::Duration;

/// The longest that a test may take. Most take less than a second, and the longest some twenty on
/// two cores that are busy with other things: a test that is not done by then hangs.
pub const LIMIT: Duration = Duration::from_secs(600);

/// Runtimes to dump. Those that are gone are removed when the next one is built.
static RUNTIMES: Mutex<Vec<Weak<Runtime>>> = Mutex::new(Vec::new());

pub(super) fn watch(rt: &Arc<Runtime>) {
    let mut runtimes = RUNTIMES.lock().unwrap();
    runtimes.retain(|rt| rt.strong_count() > 0);
    runtimes.push(Arc::downgrade(rt));
}

/// Writes a dump of every runtime that is alive.
fn dump() {
    for rt in RUNTIMES.lock().unwrap().iter().filter_map(Weak::upgrade) {
        write(&format!("{}\n", rt.dump()));
        std::mem::forget(rt); // to drop the last owner would wait for its tasks
    }
}

/// Not by macro: shown even where output is captured.
fn write(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Ends the process, which has a test that hangs, with a report. Not by a panic: unwinding drops
/// the runtime, and that waits for its tasks.
pub fn stuck(report: &str) -> ! {
    write(&format!("{report}\n"));
    dump();
    std::process::abort();
}

/// Runs a test on a thread of its own. A hang is a failure.
pub fn must_end<T: Send + 'static>(test: impl FnOnce() -> T + Send + 'static) -> T {
    ends_within(LIMIT, test)
}

fn ends_within<T: Send + 'static>(limit: Duration, test: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, outcome) = mpsc::channel();
    let thread = thread::spawn(move || {
        let _ = done.send(test());
    });
    match outcome.recv_timeout(limit) {
        Ok(value) => value,
        Err(RecvTimeoutError::Timeout) => {
            dump();
            panic!("hangs");
        }
        Err(RecvTimeoutError::Disconnected) => match thread.join() {
            Err(payload) => resume_unwind(payload),
            Ok(()) => unreachable!("a test that returns sends its value"),
        },
    }
}

/// Ends the process if it is not dropped within [`LIMIT`].
pub struct Watchdog {
    _ended: mpsc::Sender<()>,
}

impl Watchdog {
    /// Begins to watch the test that runs on this thread.
    pub fn start() -> Watchdog {
        let (ended, end) = mpsc::channel::<()>();
        let test = thread::current().name().unwrap_or("a test").to_owned();
        thread::spawn(move || {
            if end.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout) {
                stuck(&format!("{test} hangs"));
            }
        });
        Watchdog { _ended: ended }
    }
}
