//! An operation of async code on a simulated stream: the steps of `drive`, where a wait ends the
//! poll.

use super::drive::{Stop, WaitList};
use super::pipe::{Pipe, SimStream, Taking};
use crate::error::not_simulated;
use crate::source::ready::Direction;
use crate::source::{Charge, Operation};
use parcae::io::IoPlace;
use parcae::time::{SleepFuture, sleep_until_async};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// The place of a future in the list of a pipe, and the time at which it tries again. It leaves
/// both when this is dropped.
#[derive(Debug)]
pub(crate) struct SimWait {
    pipe: Arc<Pipe>,
    direction: Direction,
    ticket: u64,
    timer: Option<SleepFuture>,
}

impl Drop for SimWait {
    fn drop(&mut self) {
        list(&self.pipe, self.direction).leave(self.ticket);
    }
}

fn list(pipe: &Pipe, direction: Direction) -> &WaitList {
    match direction {
        Direction::Read => &pipe.readable,
        Direction::Write => &pipe.writable,
    }
}

/// Does an operation, or registers the waker.
fn poll_operate<T>(
    operation: Operation<'_>,
    pipe: &Arc<Pipe>,
    waiting: &mut Option<Box<SimWait>>,
    context: &mut Context<'_>,
    mut attempt: impl FnMut() -> Result<T, Stop>,
) -> Poll<io::Result<T>> {
    let Operation { what, object, direction, .. } = operation;
    if parcae::io::place() != IoPlace::Simulated {
        return Poll::Ready(Err(not_simulated(what, object)));
    }
    let charge = Charge::new(operation.cost)?;
    loop {
        *waiting = None;
        let due = match attempt() {
            Ok(value) => {
                charge.keep();
                return Poll::Ready(Ok(value));
            }
            // As the kernel's callers do.
            Err(Stop::Failed(error)) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(Stop::Failed(error)) => {
                charge.keep();
                return Poll::Ready(Err(error));
            }
            Err(Stop::Wait(due)) => due,
        };
        let ticket = list(pipe, direction).enter_waker(context.waker());
        let timer = due.map(sleep_until_async);
        let wait = SimWait { pipe: Arc::clone(pipe), direction, ticket, timer };
        let wait = waiting.insert(Box::new(wait));
        let Some(timer) = &mut wait.timer else { return Poll::Pending };
        match Pin::new(timer).poll(context) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Ok(())) => {} // its time has come: again
            Poll::Ready(Err(error)) => return Poll::Ready(Err(crate::error::from_task(error))),
        }
    }
}

impl SimStream {
    pub(crate) fn poll_read(
        &self,
        operation: Operation<'_>,
        waiting: &mut Option<Box<SimWait>>,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let polled = poll_operate(operation, &self.incoming, waiting, context, || {
            self.try_read(buffer, Taking::Consume)
        });
        if let Poll::Ready(Ok(_)) = polled {
            self.incoming.writable.wake(); // there is room
        }
        polled
    }

    pub(crate) fn poll_write(
        &self,
        operation: Operation<'_>,
        waiting: &mut Option<Box<SimWait>>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let attempt = || self.try_write(bytes);
        let polled = poll_operate(operation, &self.outgoing, waiting, context, attempt);
        polled.map_ok(|written| self.outgoing.announce(written))
    }
}
