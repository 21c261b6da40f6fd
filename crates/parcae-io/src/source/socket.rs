//! Operations on sockets that either backend can do: by readiness and a call that does not wait, or
//! by the ring of the worker (`poller::ring`), in a runtime that has chosen it.
//!
//! By the ring an operation needs no slot: the kernel waits, and the task for the completion. Where
//! the ring is full, or the kernel says that the operation would have to wait instead of waiting
//! (as `accept` does for a listener that is non-blocking), the operation goes on by readiness. So
//! results, charges and cancel points are the same on both.

use super::{Attempt, Charge, Limit, Operation, Source};
use crate::error::{self, from_task};
use crate::poller::ring::{self, Entry, Flown, Yields};
use parcae::io::IoPlace;
use parcae::runtime::SocketBackend;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// An operation in both forms.
///
/// # Safety
///
/// The memory that [`entry`](SocketOp::entry) points to is borrowed by this value, or lies in it.
pub(crate) unsafe trait SocketOp {
    /// Its result.
    type Output;
    /// The meaning of the ring's result.
    const YIELDS: Yields = Yields::Bytes;

    /// A call that does not wait.
    fn attempt(&mut self, fd: BorrowedFd<'_>) -> io::Result<Attempt<Self::Output>>;

    /// The entry for the ring.
    fn entry(&mut self, fd: BorrowedFd<'_>) -> Entry;

    /// The result of an entry that has succeeded.
    fn landed(&mut self, result: i32) -> Self::Output;
}

impl<S: AsFd> Source<S> {
    /// As [`operate`](Source::operate), by the backend of the runtime.
    #[inline]
    pub(crate) fn operate_socket<O: SocketOp>(
        &self,
        operation: Operation<'_>,
        mut op: O,
    ) -> io::Result<O::Output> {
        match parcae::io::socket_place() {
            (IoPlace::Task, SocketBackend::Ring) => self.operate_by_ring(operation, &mut op),
            (IoPlace::Task, _) => self.operate_in_task(operation, |io| op.attempt(io.as_fd())),
            (IoPlace::Thread, _) => self.operate_on_thread(operation, |io| op.attempt(io.as_fd())),
            (IoPlace::Simulated, _) => Err(error::not_replayable(operation.what, operation.object)),
        }
    }

    #[inline(never)]
    fn operate_by_ring<O: SocketOp>(
        &self,
        operation: Operation<'_>,
        op: &mut O,
    ) -> io::Result<O::Output> {
        let charge = Charge::new(operation.cost)?;
        let until = operation.limit.at();
        let Operation { what, object, .. } = operation;
        loop {
            let entry = op.entry(self.fd());
            // SAFETY: `op` is borrowed until the call returns, and so is the descriptor.
            let flown = unsafe { ring::operate_socket(&entry, O::YIELDS, until, what, object) };
            let Some(flown) = flown else { break };
            match flown {
                Flown::Landed(result) if result >= 0 => {
                    charge.keep();
                    return Ok(op.landed(result));
                }
                Flown::Landed(result) => match -result {
                    // The last two: a connect that goes on by itself.
                    libc::EAGAIN | libc::EINPROGRESS | libc::EALREADY => break,
                    // Not by a cancel of ours, which `Flown` tells.
                    libc::EINTR | libc::ECANCELED => {}
                    code => {
                        charge.keep(); // it has happened, and failed
                        return Err(io::Error::from_raw_os_error(code));
                    }
                },
                Flown::Cancelled(cancelled) => return Err(from_task(cancelled)),
                Flown::TimedOut => return Err(error::timed_out(what, object)),
            }
        }
        drop(charge); // charged again
        let operation = Operation { limit: Limit::until(until), ..operation };
        self.operate_in_task(operation, |io| op.attempt(io.as_fd()))
    }
}
