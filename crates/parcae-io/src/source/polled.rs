//! An operation of async code: the steps of the [header](super), where a wait ends the poll.
//!
//! The waiter is the waker of the poll. Its place in the slot is kept with the stream from one poll
//! to the next ([`Published`]), and given up when the operation is tried again, or with the stream.
//! A future may be polled by another worker each time; the descriptor stays in the poller in which
//! it was registered first.

use super::slot::Published;
use super::{Attempt, Charge, Operation, STREAK, Source};
use crate::error;
use parcae::io::IoPlace;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

impl<S: AsFd> Source<S> {
    /// Does an operation, or registers the waker. `waiting` is the place of the direction.
    pub(crate) fn poll_operate<T>(
        &self,
        operation: Operation<'_>,
        waiting: &mut Option<Published>,
        context: &mut Context<'_>,
        mut attempt: impl FnMut(&S) -> io::Result<Attempt<T>>,
    ) -> Poll<io::Result<T>> {
        match parcae::io::place() {
            IoPlace::Task => {}
            IoPlace::Thread => return Poll::Ready(Err(outside(&operation))),
            IoPlace::Simulated => {
                let error = error::not_replayable(operation.what, operation.object);
                return Poll::Ready(Err(error));
            }
        }
        ready!(self.poll_turn(context));
        let charge = Charge::new(operation.cost)?;
        let direction = operation.direction;
        loop {
            *waiting = None;
            let seen = self.slot.get().map(|slot| (slot, slot.ready.word()));
            // Without a slot no one keeps a record: the kernel is asked.
            if seen.is_none_or(|(_, seen)| seen & direction.bit() != 0) {
                match attempt(&self.io) {
                    Ok(attempt) => {
                        charge.keep();
                        // Relaxed, both: a hint.
                        let streak = self.streak.load(Ordering::Relaxed) + 1;
                        self.streak.store(streak, Ordering::Relaxed);
                        let value = match attempt {
                            Attempt::Full(value) => value,
                            Attempt::Short(value) => {
                                if let Some((slot, seen)) = seen {
                                    slot.ready.came_short(direction, seen);
                                }
                                value
                            }
                        };
                        return Poll::Ready(Ok(value));
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        if let Some((slot, seen)) = seen {
                            slot.ready.drained(direction, seen);
                        }
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => {
                        charge.keep(); // it has happened, and failed
                        return Poll::Ready(Err(error));
                    }
                }
            }
            *waiting = self.slot()?.publish_waker(self.fd(), direction, context.waker())?;
            if waiting.is_some() {
                self.streak.store(0, Ordering::Relaxed); // a hint
                return Poll::Pending;
            }
        }
    }

    /// Lets other tasks run, if operations on this source have not waited for long.
    fn poll_turn(&self, context: &Context<'_>) -> Poll<()> {
        // Relaxed, both: a hint.
        if self.streak.load(Ordering::Relaxed) < STREAK {
            return Poll::Ready(());
        }
        self.streak.store(0, Ordering::Relaxed);
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

/// No worker delivers events to a thread.
#[cold]
fn outside(operation: &Operation<'_>) -> io::Error {
    let Operation { what, object, .. } = operation;
    io::Error::new(
        io::ErrorKind::Unsupported,
        format!(
            "{what} {object}: polled outside of a task, where no worker waits for events; poll it in \
             `Nursery::spawn_future`, or in `parcae::block_on` on a task"
        ),
    )
}
