//! `hyper::rt` on nurseries: HTTP/2, and everything else that hyper does.
//!
//! A connection of hyper is a future; it runs as a child
//! ([`spawn_future`](parcae::Nursery::spawn_future)), and so do the streams of an HTTP/2
//! connection, which hyper spawns through [`NurseryExecutor`]. All of them end with the nursery,
//! and a request handler may use channels and `block`-style calls of this library.
//!
//! hyper's time limits (header timeout, keep-alive pings) need [`RuntimeTimer`]: without a timer
//! hyper does not apply them.
//!
//! `examples/hyper_h2.rs` is a server and a client.

use super::{Async, PolledStream};
use hyper::rt::{Executor, Read, ReadBufCursor, Sleep, Timer, Write};
use parcae::Nursery;
use parcae::profile::SpawnsFreely;
use parcae::time::{SleepFuture, sleep_async, sleep_until_async};
use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

/// The most bytes that are read at once: they are copied from a buffer on the stack.
const READ: usize = 16 << 10;

impl<S: PolledStream + Unpin> Read for Async<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        // hyper's buffer may be uninitialised, and is only writable by a copy in safe code.
        let mut bytes = [0; READ];
        let room = buffer.remaining().min(READ);
        let taken = ready!(self.poll_input(context, &mut bytes[..room]))?;
        buffer.put_slice(&bytes[..taken]);
        Poll::Ready(Ok(()))
    }
}

impl<S: PolledStream + Unpin> Write for Async<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_output(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_output(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_sent(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_end(context)
    }
}

/// Spawns hyper's futures as children of a nursery.
///
/// hyper has no way to be told that a spawn has failed. If the nursery is cancelled or has no
/// budget for another child, the future is dropped, and hyper resets the stream that it was for.
pub struct NurseryExecutor<'scope, 'env, P: SpawnsFreely> {
    nursery: &'scope Nursery<'scope, 'env, P>,
}

impl<'scope, 'env, P: SpawnsFreely> NurseryExecutor<'scope, 'env, P> {
    /// The executor that spawns in this nursery.
    pub fn new(nursery: &'scope Nursery<'scope, 'env, P>) -> Self {
        NurseryExecutor { nursery }
    }
}

impl<P: SpawnsFreely> Clone for NurseryExecutor<'_, '_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: SpawnsFreely> Copy for NurseryExecutor<'_, '_, P> {}

impl<P: SpawnsFreely> fmt::Debug for NurseryExecutor<'_, '_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NurseryExecutor").field(self.nursery).finish()
    }
}

impl<'scope, P: SpawnsFreely, F> Executor<F> for NurseryExecutor<'scope, '_, P>
where
    F: Future<Output = ()> + Send + 'scope,
{
    fn execute(&self, future: F) {
        let child = async move {
            future.await;
            Ok(())
        };
        drop(self.nursery.spawn_future(child)); // see the type's documentation
    }
}

/// The clock of the runtime, which is virtual under the deterministic executor. For tasks.
#[derive(Debug, Clone, Copy, Default)]
pub struct RuntimeTimer;

impl Timer for RuntimeTimer {
    fn sleep(&self, time: Duration) -> Pin<Box<dyn Sleep>> {
        Box::pin(TimerSleep(sleep_async(time)))
    }

    fn sleep_until(&self, at: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(TimerSleep(sleep_until_async(at)))
    }

    fn now(&self) -> Instant {
        parcae::time::now()
    }
}

/// A sleep whose error is the end of the task: it never becomes ready then.
struct TimerSleep(SleepFuture);

impl Future for TimerSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        match Pin::new(&mut self.0).poll(context) {
            Poll::Ready(Ok(())) => Poll::Ready(()),
            Poll::Ready(Err(_)) | Poll::Pending => Poll::Pending,
        }
    }
}

impl Sleep for TimerSleep {}
