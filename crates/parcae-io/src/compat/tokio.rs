//! A helper runtime for crates that need tokio's reactor or its clock.
//!
//! Crates such as `reqwest` or `sqlx` open tokio's own sockets, which only work where a runtime of
//! tokio is entered. [`enter`] wraps a future so that each of its polls has one: a single
//! `current_thread` runtime of the process, on a thread of its own, made by the first call. The
//! future itself runs on the tasks of Parcae, as a child of its nursery, with its budget and its
//! cancellation. Its sockets and timers live on the helper thread, so that each of their wake-ups
//! crosses threads (some microseconds). Where a crate can be given a stream or a timer, the
//! adapters of [`compat`](super) are faster, and can be simulated.
//!
//! Under the deterministic executor both functions are refused: sockets, clock and order of tokio's
//! thread are not those of the simulated world, and a run could not be replayed.
//!
//! ```
//! use parcae::prelude::*;
//! use parcae_io::compat;
//! use std::time::Duration;
//!
//! let rt = Runtime::builder().build()?;
//! rt.run(|cx| {
//!     cx.nursery(|n| {
//!         let slept = compat::tokio::enter(async {
//!             tokio::time::sleep(Duration::from_millis(1)).await; // needs tokio's clock
//!             Ok(())
//!         })?;
//!         n.spawn_future(slept)?.join()
//!     })
//! })?;
//! # Ok::<(), parcae::Error>(())
//! ```

use parcae::io::IoPlace;
use parcae::{Error, Result};
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::OnceLock;
use tokio::runtime::{Builder, Handle};

/// The helper runtime, or why there is none.
static HELPER: OnceLock<std::result::Result<Handle, String>> = OnceLock::new();

/// The handle of the helper runtime, which the first call starts. It is never stopped: its thread
/// sleeps while nothing of tokio is used.
///
/// # Errors
///
/// Under the deterministic executor; or if its thread cannot be started.
pub fn handle() -> Result<Handle> {
    if parcae::io::place() == IoPlace::Simulated {
        return Err(Error::msg(
            "tokio's reactor under the deterministic executor: its sockets, its clock and the order \
             of its thread are outside of the simulated world, so the run could not be replayed; use \
             the adapters of `parcae_io::compat` with simulated streams, or run on threads",
        ));
    }
    match HELPER.get_or_init(|| start().map_err(|error| error.to_string())) {
        Ok(handle) => Ok(handle.clone()),
        Err(error) => Err(Error::msg(format!("the helper runtime of tokio: {error}"))),
    }
}

fn start() -> io::Result<Handle> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    let run = move || runtime.block_on(std::future::pending::<()>());
    std::thread::Builder::new().name("parcae-tokio".into()).spawn(run)?;
    Ok(handle)
}

/// A future whose polls find the reactor and the clock of tokio. It runs where it is polled.
///
/// # Errors
///
/// As for [`handle`].
pub fn enter<F: Future>(future: F) -> Result<impl Future<Output = F::Output> + use<F>> {
    let handle = handle()?;
    Ok(async move {
        let mut future = pin!(future);
        poll_fn(|context| {
            let _entered = handle.enter();
            future.as_mut().poll(context)
        })
        .await
    })
}

/// Runs a future on the thread of the helper runtime, for one that is not used to be polled
/// elsewhere. The result is a future of its output. If that is dropped, as it is when its task is
/// cancelled, the future is aborted.
///
/// # Errors
///
/// As for [`handle`]. The error of the future itself: it panicked.
pub fn spawn<T, F>(future: F) -> Result<impl Future<Output = Result<T>> + Send>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    struct Abort(tokio::task::AbortHandle);
    impl Drop for Abort {
        fn drop(&mut self) {
            self.0.abort(); // no effect on one that has ended
        }
    }
    let task = handle()?.spawn(future);
    let abort = Abort(task.abort_handle());
    Ok(async move {
        let ended = task.await;
        drop(abort);
        ended.map_err(|error| Error::msg(format!("a future on the helper runtime: {error}")))
    })
}
