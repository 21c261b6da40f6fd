//! The well-behaved neighbour: answers requests, and records how long each one waited.

use parcae::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// The pause between an answer and the next request.
const PAUSE: Duration = Duration::from_micros(200);

/// The latencies of the service, sorted.
pub(crate) struct Latencies(Vec<Duration>);

impl Latencies {
    /// A percentile.
    pub(crate) fn percentile(&self, percent: usize) -> Duration {
        self.0[(self.0.len() * percent / 100).min(self.0.len() - 1)]
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }
}

/// Serves a client on another thread until `enough` returns true for the number of answers.
pub(crate) fn serve(cx: &Cx, enough: impl Fn(usize) -> bool) -> parcae::Result<Latencies> {
    // When the open request was sent, in nanoseconds since `start`; 0 if there is none.
    let (start, request) = (Instant::now(), Arc::new(AtomicU64::new(0)));
    client(start, Arc::downgrade(&request), cx.waker())?;
    let mut late = Vec::new();
    while late.is_empty() || !enough(late.len()) {
        let sent = request.load(Ordering::Acquire);
        if sent == 0 {
            cx.park()?;
            continue;
        }
        late.push(start.elapsed() - Duration::from_nanos(sent));
        request.store(0, Ordering::Release);
    }
    late.sort_unstable();
    Ok(Latencies(late))
}

/// Sends requests until the service is gone.
fn client(
    start: Instant,
    request: Weak<AtomicU64>,
    waker: parcae::task::Waker,
) -> parcae::Result<()> {
    thread::Builder::new().name("client".into()).spawn(move || {
        while let Some(request) = request.upgrade() {
            if request.load(Ordering::Acquire) == 0 {
                request.store(start.elapsed().as_nanos() as u64, Ordering::Release);
                waker.wake();
            }
            drop(request);
            thread::sleep(PAUSE);
        }
    })?;
    Ok(())
}
