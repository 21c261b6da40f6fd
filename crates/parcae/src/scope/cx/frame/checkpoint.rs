//! Checkpoints, and the turns that they end. The header of `frame.rs` has the quantities.

use super::{Frame, Preempt, TurnLength};
use crate::base::error::Result;
use crate::base::shim::atomic::Ordering;
use crate::sched::lab::{self, CheckpointFault};
use crate::sched::run_queue::LookUp;
use crate::sched::worker::{self, Worker};
use crate::scope::budget::{Budget, Resource, Shortfall, UNLIMITED};

impl Frame {
    /// Charges one op. Returns false, without a charge, if the task has to take the [slow
    /// path](Frame::checkpoint_slow).
    #[inline(always)]
    pub(crate) fn tick(&self) -> bool {
        let slice = self.slice.get();
        // Relaxed, both: `checkpoint_slow` reads the requests again. SAFETY: the node is kept by
        // the nursery, or it is `NEVER`.
        let limit = unsafe { self.limit.get().as_ref() }.load(Ordering::Relaxed);
        let signal = u64::from(self.signal.get());
        let go_on = slice > (limit | signal);
        if go_on {
            self.slice.set(slice - 1);
        }
        go_on
    }

    /// Slow path of a checkpoint: cancellation, memory debt, end of the turn, refill. Then charges
    /// one op.
    #[cold]
    pub(crate) fn checkpoint_slow(&self) -> Result<()> {
        if self.goes_on() {
            return Ok(());
        }
        self.checkpoint_slower()
    }

    /// The end of a turn that is nothing else, and at which no other task is ready: begins the next
    /// turn and charges one op. False if there is more to do; then nothing has happened.
    ///
    /// A request that comes during this is found by the next checkpoint, as by those of the fast
    /// path. While the task is away, and in a shield with a request, `is_asked_to_end` is true.
    #[inline(always)]
    fn goes_on(&self) -> bool {
        let (settings, mut account) = (self.settings(), self.account.get());
        let turn = settings.interval;
        let is_end = self.slice.get() | self.turn.get() == 0 && self.signal.get() == 0;
        let is_plain = settings.turns == TurnLength::Whole && settings.tally.is_none();
        if !(is_end && is_plain && (1..=account.ops).contains(&turn))
            || self.is_asked_to_end()
            || self.overdraft() != 0
            || self.bound.get().is_some()
            || !worker::turn::goes_on()
        {
            return false;
        }
        if account.ops != UNLIMITED {
            account.ops -= turn;
            self.account.set(account);
        }
        self.slice.set(turn - 1);
        true
    }

    #[inline(never)]
    fn checkpoint_slower(&self) -> Result<()> {
        if self.is_away() {
            return Err(self.refuse_away());
        }
        self.record().signal.take();
        self.stay_on_the_slow_path();
        match worker::turn::look_up(self.ops_left()) {
            LookUp::GoOn => {}
            LookUp::Cut(ops) => self.shorten_turn(ops),
            LookUp::Yield => self.yield_to_others(),
        }
        self.try_checkpoint_slow().inspect_err(|_| self.yield_to_others())
    }

    /// In the lab every checkpoint takes the slow path, on which the points of operations on
    /// channels are: so these cost nothing elsewhere. The signal stays raised from the beginning
    /// of a task on.
    #[cold]
    pub(super) fn stay_on_the_slow_path(&self) {
        if self.settings().shared.lab.is_some() {
            self.record().signal.hint();
        }
    }

    /// Yields after a failed checkpoint, so that a task that ignores its errors does not keep its
    /// worker.
    #[cold]
    pub(super) fn yield_to_others(&self) {
        worker::yield_now();
    }

    pub(super) fn try_checkpoint_slow(&self) -> Result<()> {
        self.check_cancelled()?;
        self.pay_for_memory()?;
        while self.slice.get() == 0 {
            if self.turn.get() == 0 {
                self.ensure_bound(1)?;
                if self.slice.get() | self.turn.get() == 0 {
                    self.end_turn()?;
                }
            } else {
                self.refill(Budget::OP)?;
                self.cut_slice();
            }
        }
        if lab::is_any_alive() {
            self.meet_faults()?;
        }
        self.slice.set(self.slice.get() - 1);
        Ok(())
    }

    /// Yields, and starts the next turn.
    pub(super) fn end_turn(&self) -> Result<()> {
        self.let_others_run();
        self.flush_times();
        self.check_cancelled()?;
        self.start_turn();
        Ok(())
    }

    /// A yield; in a bare schedule of the lab, where a turn has one op, a point.
    #[inline]
    pub(super) fn let_others_run(&self) {
        if !(lab::is_any_alive() && worker::checkpoint_in_lab()) {
            worker::yield_now();
        }
    }

    /// In the lab: a checkpoint in a schedule with workers is a point; and faults.
    #[cold]
    fn meet_faults(&self) -> Result<()> {
        match worker::lab_fault_at_checkpoint() {
            None => Ok(()),
            Some(CheckpointFault::Exhausted) => {
                let short = Shortfall { resource: Resource::Ops, needed: 1, left: 0 };
                Err(self.exhausted(short))
            }
            Some(CheckpointFault::Recharged) => self.race_with_recharge(),
        }
    }

    /// A new turn. A task gets one here and in `goes_on`.
    #[inline]
    pub(super) fn start_turn(&self) {
        let interval = self.allowed_turn(self.settings().interval);
        self.turn.set(match self.settings().turns {
            TurnLength::Whole => interval,
            TurnLength::Cut => self.cut_turn(interval),
        });
        self.turn_began(self.turn.get());
        self.cut_slice();
    }

    /// The length of a turn that may be shorter than the interval.
    #[cold]
    fn cut_turn(&self, interval: u64) -> u64 {
        worker::turn::begin(match self.settings().preempt {
            Preempt::Never => interval,
            Preempt::Randomly => random_turn(interval),
        })
    }

    /// Begins a new turn, although the last one is not over. The caller sees to it that the task
    /// leaves soon.
    #[cold]
    pub(crate) fn renew_turn(&self) {
        if self.bound.get().is_some() {
            return;
        }
        let balance = self.balance();
        self.slice.set(0);
        self.account.set(balance.with_memory(self.account.get().memory));
        self.start_turn();
    }

    /// Ends the turn after at most so many ops.
    #[cold]
    fn shorten_turn(&self, ops: u64) {
        if self.shorten_bounded(ops) {
            return;
        }
        let balance = self.balance();
        self.turn.set((self.turn.get() + self.slice.take()).min(ops));
        self.account.set(balance.with_memory(self.account.get().memory));
        self.cut_slice();
    }

    /// Yields to other tasks. A cancel point.
    #[inline(never)]
    pub(crate) fn yield_now(&self) -> Result<()> {
        self.check_cancelled()?;
        if let Err(error) = self.pay_for_memory() {
            self.yield_to_others();
            return Err(error);
        }
        // SAFETY: the frame is that of the running task. This function is never inlined, and uses
        // no thread-local variable below.
        unsafe { worker::yield_inlined(self.record) };
        self.check_cancelled()
    }

    /// Yields to other tasks. Not a cancel point.
    pub(crate) fn let_go(&self) {
        self.yield_to_others();
    }

    /// Charges up to `steps` ops at once, as many as the slice has; at least one.
    #[inline]
    pub(in crate::scope::cx) fn chunk(&self, steps: usize) -> Result<usize> {
        if !self.tick() {
            self.checkpoint_slow()?;
        }
        let more = self.slice.get().min(steps as u64 - 1);
        self.slice.set(self.slice.get() - more);
        Ok(1 + more as usize)
    }

    /// A checkpoint with a cost. It counts for at least one op of the turn, so that a loop of
    /// charges yields whatever it charges.
    pub(crate) fn checkpoint_for(&self, cost: Budget) -> Result<()> {
        self.check_cancelled()?;
        // First: nothing is charged if the task turns out to be cancelled.
        if self.slice.get() == 0 && self.turn.get() == 0 {
            self.ensure_bound(cost.ops.max(1))?;
            if self.slice.get() | self.turn.get() == 0 {
                self.end_turn()?;
            }
        }
        if lab::is_any_alive() {
            self.meet_faults()?;
        }
        self.charge(cost).inspect_err(|_| self.yield_to_others())?;
        if cost.ops == 0 {
            self.set_balance_after(self.balance(), 1);
        }
        Ok(())
    }
}

/// Random length of a turn, at most `longest` ops. Mostly short: most races lie between two
/// checkpoints that are close to each other. Sometimes long, so that one task gets far ahead of the
/// others.
#[cold]
pub(super) fn random_turn(longest: u64) -> u64 {
    let random = |worker: &Worker| {
        let most = [1, 4, 64, longest][worker.rng.below(4)].min(longest);
        1 + worker.rng.below(most as usize) as u64
    };
    if longest == 0 { 0 } else { worker::with_current(random).unwrap_or(longest) }
}
