//! The faults that a hunt injects: their settings. The lab of the scheduler decides where each of
//! them happens (`sched::lab::faults`).

use crate::sched::lab::FaultRates;

/// Faults that the lab injects, from the same stream as its choices: a token repeats them.
///
/// ```
/// use parcae::lab::{Explore, Faults};
///
/// // Waits may end early: a loop around the condition is needed.
/// Explore::new().faults(Faults::none().spurious_wakes()).schedules(50).run(|rt| {
///     rt.run(|cx| cx.nursery(|n| n.spawn(|_| Ok(()))?.join()))
/// })?;
/// # Ok::<(), parcae::lab::Failure>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[must_use]
pub struct Faults {
    rates: FaultRates,
    cancel: bool,
    budget: bool,
    recharge: bool,
}

impl Faults {
    /// No faults.
    pub fn none() -> Faults {
        Faults::default()
    }

    /// Some waits end early, without their condition.
    pub fn spurious_wakes(mut self) -> Faults {
        self.rates.spurious = 8;
        self
    }

    /// Some timers come late.
    pub fn late_timers(mut self) -> Faults {
        self.rates.late = 4;
        self
    }

    /// Some spawns are refused, as if there were no memory.
    pub fn refused_spawns(mut self) -> Faults {
        self.rates.spawn = 8;
        self
    }

    /// Some tasks get no stack, and fail before they start.
    pub fn out_of_stacks(mut self) -> Faults {
        self.rates.stacks = 8;
        self
    }

    /// Some channels are closed before a send or a receive, as if the task at the other end had
    /// died.
    pub fn closed_peers(mut self) -> Faults {
        self.rates.close = 8;
        self
    }

    /// Time passes while tasks are ready, as if their worker did not get a processor: a timer may
    /// come before a task that could have run. Without this fault, time passes only when all tasks
    /// wait.
    pub fn stalled_workers(mut self) -> Faults {
        self.rates.stall = 8;
        self
    }

    /// In each schedule, the budget of one task ends at one of its checkpoints: in schedule i at
    /// the checkpoint with number i of the schedule, as long as there are so many.
    pub fn budget_cut_at_each_checkpoint(mut self) -> Faults {
        self.budget = true;
        self
    }

    /// In each schedule, a task uses up its budget at one of its checkpoints, and is recharged at
    /// the same moment: in schedule i at the checkpoint with number i. It is listed as suspended,
    /// and the nursery's hook is called; then it is recharged from elsewhere, before or after the
    /// program reacts. Only tasks that [wait for a recharge](crate::OnExhausted::Suspend) can have
    /// this fault.
    ///
    /// ```
    /// use parcae::lab::{Explore, Faults};
    /// use parcae::prelude::*;
    ///
    /// // A task that is suspended may have been recharged when one looks again.
    /// let hunt = Explore::new().faults(Faults::none().recharge_race_at_each_checkpoint());
    /// let found = hunt.run(|rt| {
    ///     let opts = NurseryOpts::new().budget(Budget { ops: 100, ..Budget::UNLIMITED });
    ///     rt.run(|cx| {
    ///         cx.nursery_with(opts.on_exhausted(OnExhausted::Suspend), |n| {
    ///             let child = n.spawn(|cx| (0..3).try_for_each(|_| cx.checkpoint()))?;
    ///             while !child.is_finished() {
    ///                 if n.budget().suspended > 0 {
    ///                     cx.yield_now()?;
    ///                     assert_eq!(n.suspended().len(), 1);
    ///                 }
    ///                 cx.yield_now()?;
    ///             }
    ///             Ok(())
    ///         })
    ///     })
    /// });
    /// let found = found.unwrap_err();
    /// assert!(found.to_string().contains("assertion `left == right` failed"), "{found}");
    /// ```
    pub fn recharge_race_at_each_checkpoint(mut self) -> Faults {
        self.recharge = true;
        self
    }

    /// In each schedule, one task is cancelled at one of its waits: in schedule i at the wait with
    /// number i of the schedule, as long as there are so many.
    pub fn cancel_at_each_wait(mut self) -> Faults {
        self.cancel = true;
        self
    }

    /// The faults of this schedule of a hunt.
    pub(super) fn of_schedule(&self, schedule: u64) -> FaultRates {
        let mut rates = self.rates;
        let at = |is_wanted: bool| is_wanted.then_some(schedule);
        rates.cancel_at = at(self.cancel);
        rates.budget_at = at(self.budget);
        rates.recharge_at = at(self.recharge);
        rates
    }
}
