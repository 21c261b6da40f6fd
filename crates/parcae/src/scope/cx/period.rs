//! Periodic work: the jobs of a task that runs on a scheduling context.

use super::{Cx, Frame, parking};
use crate::base::error::{ContextRefused, Error, ErrorKind, Result};
use crate::sched::worker;
use crate::scope::profile::Profile;
use std::time::{Duration, Instant};

/// One job of a periodic task; see [`Cx::next_period`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Job {
    /// The number of its period, from 0. A gap means that an earlier job ran through whole periods.
    pub number: u64,
    /// When it could begin.
    pub release: Instant,
    /// When it is to have ended.
    pub deadline: Instant,
    /// How long after its release it has begun.
    pub late: Duration,
}

impl<P: Profile> Cx<P> {
    /// Ends the present job of the task's [context](crate::NurseryOpts::context), and waits for the
    /// release of the next one. The first call returns the first job, which was released when the
    /// context last became ready.
    ///
    /// Releases are a period of the context apart, however late a job begins or ends. A job that
    /// runs beyond the next release is followed by the next one at once; one that runs through
    /// whole periods is not made up for. The figures of the context count jobs that ended after
    /// their deadline: [`CapContext::stats`](crate::cap::CapContext::stats).
    ///
    /// One task of a context calls this; jobs of several would be counted as one sequence. See
    /// [`CapContext`](crate::cap::CapContext) for a program. A checkpoint.
    ///
    /// # Errors
    ///
    /// [`ContextRefused::NoContext`] if the task runs on none; as for
    /// [`checkpoint`](Cx::checkpoint) otherwise, also if the context was revoked.
    #[track_caller]
    pub fn next_period(&self) -> Result<Job> {
        self.frame().next_period()
    }
}

impl Frame {
    #[track_caller]
    fn next_period(&self) -> Result<Job> {
        let no_context = || Error::new(ErrorKind::ContextRefused(ContextRefused::NoContext));
        let context = self.settings().context.ok_or_else(no_context)?;
        self.check_cancelled()?;
        let Some(plan) = worker::turn::next_job(context, self.ops_left()) else {
            self.check_cancelled()?; // the reason, if it has arrived
            return Err(Error::new(ErrorKind::ContextRefused(ContextRefused::Revoked)));
        };
        let shared = &self.settings().shared;
        if plan.number > 0 {
            if shared.now() < plan.release {
                self.sleep_until(plan.release)?;
            } else {
                parking::pass(self)?;
            }
            self.check_cancelled()?;
        }
        Ok(Job {
            number: plan.number,
            release: shared.instant(plan.release),
            deadline: shared.instant(plan.deadline),
            late: Duration::from_nanos(shared.now().saturating_sub(plan.release)),
        })
    }
}
