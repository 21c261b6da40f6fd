//! What all attacks need: a runtime, and a watchdog.

use parcae::prelude::*;
use std::panic::resume_unwind;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// How long an attack may take. Most take less than a second, and the longest some twenty on two
/// cores that are busy with other things: what is not done after ten minutes hangs.
const LIMIT: Duration = Duration::from_secs(600);

/// Runs `body` on a thread of its own, and makes a failure of a hang.
pub(crate) fn in_time<R: Send + 'static>(body: impl FnOnce() -> R + Send + 'static) -> R {
    let (done, outcome) = mpsc::channel();
    let thread = thread::spawn(move || {
        let _ = done.send(body());
    });
    match outcome.recv_timeout(LIMIT) {
        Ok(value) => value,
        Err(RecvTimeoutError::Timeout) => panic!("hangs"),
        Err(RecvTimeoutError::Disconnected) => match thread.join() {
            Err(payload) => resume_unwind(payload),
            Ok(()) => unreachable!("a body that returns sends what it returns"),
        },
    }
}

pub(crate) fn runtime(workers: usize) -> Runtime {
    // One worker is one thread: nobody helps it.
    let temporary = if workers == 1 { 0 } else { 8 };
    Runtime::builder().workers(workers).temporary_workers(temporary).build().unwrap()
}

pub(crate) fn deterministic(seed: u64) -> Runtime {
    Runtime::builder().workers(1).deterministic(seed).build().unwrap()
}
