//! Limits of a part of a task's work: a deadline, a number of ops; and a sleep.

use super::{Cx, Frame, parking};
use crate::base::error::{Detail, Error, ErrorKind, Result};
use crate::sched::lab::OpKind;
use crate::sched::timers::{Due, Nanos};
use crate::sched::worker::ordered::{ordered_point, replayed_timeout, timed_out};
use crate::sched::worker::point;
use crate::scope::cancel::CancelReason;
use crate::scope::nursery::NurseryOpts;
use crate::scope::profile::{Profile, Spawns};
use crate::wait::Why;
use std::time::Duration;

impl<P: Spawns> Cx<P> {
    /// Runs a closure with a timeout. When the time is up, all cancel points in the closure fail,
    /// and the nurseries that it has opened are cancelled. A checkpoint.
    ///
    /// The timeout takes effect at cancel points only. A closure that completes nevertheless,
    /// because it reaches no cancel point or ignores the error, has its result returned, however
    /// late. A [`blocking`](crate::blocking()) call that has begun is waited for and may delay the
    /// return; the error says so. A [`blocking_static`](crate::blocking_static) call is left
    /// running when the time is up.
    ///
    /// ```
    /// use parcae::prelude::*;
    /// use std::time::Duration;
    ///
    /// let rt = Runtime::builder().build()?;
    /// let outcome = rt.run(|cx| {
    ///     cx.timeout(Duration::from_millis(2), || cx.forever(|| Ok(())))
    /// });
    /// assert!(outcome.unwrap_err().is_timed_out());
    /// # Ok::<(), parcae::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::TimedOut`] if the closure failed after the time was up, whatever its error: it
    /// may be a closed channel, for example, whose other end was cancelled by the same timeout.
    /// Otherwise the error of the closure.
    pub fn timeout<R>(&self, time: Duration, body: impl FnOnce() -> Result<R>) -> Result<R> {
        self.checkpoint()?;
        let (mut output, mut token) = (None, None);
        let opened = self.nursery_with(NurseryOpts::new().timeout(time), |n| {
            token = Some(n.token());
            let failed = match output.insert(body()) {
                Ok(_) => None,
                Err(error) => Some(error.clone()),
            };
            failed.map_or(Ok(()), Err)
        });
        let timed_out = token.and_then(|token| token.reason()) == Some(CancelReason::Timeout);
        match (output, opened) {
            (Some(Ok(value)), _) => Ok(value),
            // The nursery reports whether this deadline cancelled it, or an earlier cause.
            (Some(Err(inner)), Err(error)) if timed_out && error.is_cancelled() => {
                let detail = Some(Detail::After(Some(time)));
                let late = Error::new(ErrorKind::TimedOut).detailed(detail).noting(inner.note());
                Err(late.with_others(error.others()))
            }
            (Some(Err(error)), _) => Err(error),
            (None, opened) => {
                Err(opened.err().unwrap_or_else(|| Error::new(ErrorKind::NurseryNotActive)))
            }
        }
    }
}

impl<P: Profile> Cx<P> {
    /// Runs a closure that may use so many ops. When they are used up, `overrun` is called with the
    /// error, at the checkpoint that finds out: it returns how many more there are, or the error
    /// with which this checkpoint fails, and all later ones in the closure. It may wait, and its
    /// own ops are not counted.
    ///
    /// This is no budget: ops are paid for as always, and none are set aside. Ops of other tasks
    /// that the closure spawns do not count, but the budget that it gives to a nursery does.
    ///
    /// ```
    /// use parcae::prelude::*;
    ///
    /// let rt = Runtime::builder().build()?;
    /// rt.run(|cx| {
    ///     let count = |rounds: u32| (0..rounds).try_for_each(|_| cx.checkpoint());
    ///     assert!(cx.limit_ops(1_000, Err, || count(1_000)).is_ok());
    ///     let error = cx.limit_ops(1_000, Err, || count(1_001)).unwrap_err();
    ///     assert!(matches!(error.kind(), ErrorKind::BudgetExceeded(_)));
    ///
    ///     let mut extended = 0;
    ///     let extend = |error| {
    ///         extended += 1;
    ///         if extended < 3 { Ok(1_000) } else { Err(error) }
    ///     };
    ///     assert!(cx.limit_ops(1_000, extend, || count(2_500)).is_ok());
    ///     assert_eq!(extended, 2);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn limit_ops<R>(
        &self,
        ops: u64,
        mut overrun: impl FnMut(Error) -> Result<u64>,
        body: impl FnOnce() -> R,
    ) -> R {
        self.frame().bounded(ops, &mut overrun, body)
    }
}

impl Frame {
    /// Sleeps until a time of the scheduler. A checkpoint; other tasks run even if that time has
    /// passed.
    #[track_caller]
    pub(crate) fn sleep_until(&self, due: Nanos) -> Result<()> {
        point(OpKind::Timer, 0);
        ordered_point();
        if replayed_timeout() {
            return Ok(());
        }
        let shared = &self.settings().shared;
        if shared.now() >= due {
            parking::pass(self)?;
            timed_out();
            return Ok(());
        }
        parking::checkpoint(self)?;
        let timer = shared.at(due, Due::wake(self.task_ref()));
        loop {
            self.park(Why::Sleep(Some(due)))?;
            if timer.has_fired() || shared.now() >= due {
                timed_out();
                return Ok(());
            }
        }
    }
}
