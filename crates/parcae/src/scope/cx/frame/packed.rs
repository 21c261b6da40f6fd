//! The state of a task between two calls.
//!
//! A task that is a future (`nursery::future`) is called for each poll and has no stack between two
//! of them. Each call has a frame of its own, so that everything which code on a task uses is there
//! as on any other. Between two calls the little that must not be lost is packed:
//!
//! | kept | where | if |
//! |---|---|---|
//! | age, number of waits, facts about causes | [`PackedFrame`] | always |
//! | account | [`PackedAccount`] | its pool is limited |
//! | task-local values | [`PackedLocals`] | it has some |
//!
//! The used part of an account is booked in the pool when it is packed (`report_spent`): observers
//! that add up the accounts of parked tasks need not look at it. Times of waits are not measured.

use super::locals::LocalTable;
use super::{Frame, worker};
use crate::base::error::DeadlockReport;
use crate::sched::events::spans::Span;
use crate::sched::timers::Nanos;
use crate::scope::budget::Budget;
use std::ptr::NonNull;

/// The part that every such task keeps.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PackedFrame {
    /// Beginning of the task, and of the present wait; by the coarse clock.
    pub(crate) started: Nanos,
    pub(crate) since: Nanos,
    /// Number of waits so far.
    pub(crate) waits: u32,
    facts: u8,
}

/// An account on a limited pool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PackedAccount {
    pub(crate) balance: Budget,
    drawn: Budget,
    allocated: u64,
}

/// The task-local values of a task. They need not be `Send`: the task stays on its worker.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PackedLocals(NonNull<LocalTable>);

impl Frame {
    /// Announces the frame of a further call, as [`enter`](Frame::enter) does that of the first.
    /// The frame was made with the balance of the packed account.
    pub(crate) fn enter_again(
        &self,
        packed: PackedFrame,
        account: Option<&PackedAccount>,
        locals: Option<PackedLocals>,
        verdict: Option<DeadlockReport>,
        span: &Span,
    ) {
        let seen = self.seen();
        seen.started.set(packed.started);
        seen.since.set(packed.since);
        seen.waits.set(packed.waits);
        seen.verdict.set(verdict);
        self.set_facts(packed.facts);
        if let Some(account) = account {
            self.drawn.set(account.drawn);
            self.allocated.set(account.allocated);
        }
        self.locals.set(locals.map(|locals| locals.0));
        // SAFETY: called by the task itself, which has started.
        unsafe { self.record().set_frame((&raw const *self).cast()) };
        if let Some(name) = &self.origin.name {
            worker::label_stack(name);
        }
        self.span.resume(span);
        self.start_first_turn();
    }

    /// Packs the frame of a task that has no nursery open, and has paid for its memory. The task
    /// has no frame any more after this, and returns to its worker.
    pub(crate) fn pack(&self) -> (PackedFrame, Option<PackedAccount>, Option<PackedLocals>) {
        debug_assert!(self.node_is_own(), "a nursery is still open");
        self.end_call();
        let account = (!self.pool().is_unlimited()).then(|| {
            self.report_spent();
            PackedAccount {
                balance: self.balance(),
                drawn: self.drawn.get(),
                allocated: self.allocated.get(),
            }
        });
        let seen = self.seen();
        let packed = PackedFrame {
            started: seen.started.get(),
            since: seen.since.get(),
            waits: seen.waits.get(),
            facts: self.facts(),
        };
        let locals = self.locals.take().map(PackedLocals);
        self.span.exit();
        self.unsubscribe();
        // SAFETY: called by the task itself.
        unsafe { self.record().set_frame(std::ptr::null()) };
        if self.origin.name.is_some() {
            worker::label_stack("");
        }
        (packed, account, locals)
    }
}
