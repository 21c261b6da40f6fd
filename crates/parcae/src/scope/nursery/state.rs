//! The state of a nursery, on the stack of its owner: payment, the wait for children, failures, the
//! result. The header of the module has the states and the ownership.

use super::failures::{FailureSum, Failures, Keep};
use super::tenant::OpenTenant;
use super::{Hook, NurseryEvent, NurseryOpts, NurseryState, OnFailure};
use crate::base::error::{Error, ErrorKind, Rank, Result};
use crate::base::lent::MaybeLent;
use crate::base::lock::Lock;
use crate::sched::Shared;
use crate::sched::lab::OpKind;
use crate::sched::task::group::Group;
use crate::sched::task::{Binding, Lane, Task, TaskRef, Traits};
use crate::sched::timers::ArmedTimer;
use crate::sched::worker::{self, Worker};
use crate::scope::budget::{Budget, Shortfall};
use crate::scope::cancel::{CancelReason, OnCancel};
use crate::scope::cap::ContextNode;
use crate::scope::cx::{Frame, Grace, Shares, TaskSettings};
use crate::wait::Why;
use std::mem::MaybeUninit;
use std::panic::Location;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// How a child with default options is paid for: the first decision of a spawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum ChildCost {
    /// It costs nothing.
    Free,
    /// From the pool.
    Pool,
    /// In the lab: the spawn is a point. Then as the pool says.
    Watched,
}

/// The payment for a child.
pub(super) enum Paid {
    /// The default of its nursery.
    Default,
    /// Something else.
    Other(Budget),
    /// Nothing yet: it gets a budget that is named.
    Named,
}

/// The state of a nursery, on its owner's stack.
#[repr(C)]
pub(crate) struct NurseryCore {
    /// First, because a child's record points to it.
    pub(crate) group: Group,
    pub(crate) settings: TaskSettings,
    /// The tenant that it has opened. Closed with the core.
    pub(super) tenant: Option<OpenTenant>,
    pub(super) on_failure: OnFailure,
    pub(crate) traits: Traits,
    /// Failures of children.
    pub(super) failures: Failures,
    /// Whether the body has returned. Written by the owner. Relaxed throughout: others read it for
    /// reports.
    pub(crate) closing: AtomicBool,
    /// Whether the children were cancelled and the body's value counts. Relaxed throughout: the
    /// owner reads it when all children have ended, which the group's counter orders.
    pub(super) winding_down: AtomicBool,
    /// Cancels the nursery at its deadline. Disarmed with the core.
    #[allow(dead_code)]
    pub(super) deadline: Option<ArmedTimer<Arc<Shared>>>,
    /// End of the grace period of the shield that it was opened in. Disarmed with the core.
    #[allow(dead_code)]
    pub(super) grace: Option<Grace>,
    /// Cancel the nursery when other tokens are cancelled. Disarmed with the core.
    #[allow(dead_code)]
    pub(super) tokens: Vec<OnCancel>,
    /// The total budget of each child, if the options name one.
    pub(super) child_budget: Option<Budget>,
    pub(super) child_cost: ChildCost,
    /// Called when a child fails, and at the end.
    pub(super) on_event: Option<Hook>,
    /// Children that were cancelled individually, and where: for error texts.
    pub(super) cancelled_at: Lock<Vec<(u64, &'static Location<'static>)>>,
    /// Reason of the cancellation, or `None`, at the end of the last child: reports and results
    /// after that do not change any more.
    pub(crate) ended: OnceLock<Option<CancelReason>>,
    /// The next nursery of the same owner, further out.
    pub(super) outer: Option<NonNull<NurseryCore>>,
    /// The context that its tasks are bound to, kept until they have ended.
    pub(super) _context: Option<Arc<ContextNode>>,
}

// SAFETY: `outer` points to a core further out on the owner's stack, and is read by the owner and
// by observers that hold the owner still. The rest is made for sharing.
unsafe impl Sync for NurseryCore {}

impl NurseryCore {
    /// The core that a child belongs to.
    ///
    /// # Safety
    ///
    /// The task was spawned by a nursery and is not counted as ended.
    #[inline]
    pub(super) unsafe fn of<'c>(task: NonNull<Task>) -> &'c NurseryCore {
        // SAFETY: as the caller says; the group is the core's first field, and the pointer was
        // made from the core.
        unsafe {
            match task.as_ref().group.get() {
                Some(group) => group.cast::<NurseryCore>().as_ref(),
                None => unreachable!("a child without a nursery"),
            }
        }
    }

    /// Makes the core of a nursery that the running task opens: with these options, or a usual one.
    ///
    /// # Safety
    ///
    /// Before the task leaves the scope that it is in now, the core is dropped, and nothing of it
    /// is used any more: the settings outside lend it theirs.
    pub(crate) unsafe fn open(
        place: &mut MaybeUninit<NurseryCore>,
        frame: &Frame,
        opts: Option<NurseryOpts>,
    ) -> Result<Shares> {
        if std::thread::panicking() {
            return Err(Error::new(ErrorKind::Unwinding));
        }
        frame.check_cancelled()?;
        // This task and no other, even if the `Cx` was smuggled to another task on the same thread.
        let running = worker::with_current(Worker::task).flatten();
        let Some(owner) = running.filter(|task| task.task == frame.task()) else {
            return Err(Error::new(ErrorKind::NurseryNotActive));
        };
        let outer = frame.settings();
        let usual = frame.pool().is_unlimited()
            && !frame.is_in_shield()
            && outer.tally.is_none()
            && outer.context.is_none();
        match opts {
            None if usual => {
                // SAFETY: as the caller says.
                unsafe { NurseryCore::init_usual(place, frame, owner) };
                Ok(Shares::All)
            }
            opts => {
                // SAFETY: as the caller says.
                let (core, shares) = unsafe { opts.unwrap_or_default().open(frame, owner)? };
                place.write(core);
                Ok(shares)
            }
        }
    }

    /// Makes the core of a nursery with default options in its place, where nothing is counted.
    /// The same as `NurseryOpts::core` does for all nurseries, which is many times as long. Each
    /// field is written by itself: a core that is returned by value is built elsewhere and copied.
    ///
    /// # Safety
    ///
    /// As for [`open`](NurseryCore::open). The pool of the frame is not limited, and the task is in
    /// no shield and on no scheduling context.
    #[inline(never)]
    unsafe fn init_usual(place: &mut MaybeUninit<NurseryCore>, frame: &Frame, owner: TaskRef) {
        /// Every field once: the pattern does not compile if one is missing.
        macro_rules! write {
            ($type:ident $([$done:ident])? at $place:expr; $($field:ident: $value:expr,)*) => {{
                let _all = |all: &$type| {
                    let $type { $($done: _,)? $($field: _,)* } = all;
                };
                let place: *mut $type = $place;
                // SAFETY: a field of memory for the type.
                $(unsafe { (&raw mut (*place).$field).write($value) };)*
            }};
        }
        let outer = frame.settings();
        // SAFETY: as the caller says: the nursery ends before the scope that the task is in.
        let (inherited, pool) = unsafe { (outer.lend(), MaybeLent::copy_of(frame.pool())) };
        let node = frame.token_node().child();
        let grant = outer.child_grant.under(outer.on_exhausted);
        let lane = if outer.tenant.is_tenant() { Lane::TenantNormal } else { Lane::Normal };
        let in_lab = outer.shared.lab.is_some();
        let core = place.as_mut_ptr();
        // SAFETY: a field of the memory.
        let settings = unsafe { &raw mut (*core).settings };
        write! { TaskSettings at settings;
            nursery: worker::with_current(Worker::fresh_id).unwrap_or(0),
            owner: frame.record().id(),
            shared: inherited.shared,
            node: node,
            pool: pool,
            grant: grant,
            default_grant: Budget::UNLIMITED,
            child_grant: grant,
            issuer: inherited.issuer,
            io: inherited.io,
            on_exhausted: outer.on_exhausted,
            on_exhausted_child: inherited.on_exhausted_child,
            interval: outer.interval,
            preempt: outer.preempt,
            turns: outer.turns,
            tenant: outer.tenant,
            context: None,
            reports: outer.reports,
            name: None,
            tally: None,
        }
        write! { NurseryCore [settings] at core;
            group: Group::of_tenant(owner, outer.tenant),
            tenant: None,
            on_failure: OnFailure::FailFast,
            traits: Traits {
                lane,
                binding: Binding::STAYS,
                stack: outer.shared.config.stack_size,
            },
            failures: Failures::new(),
            closing: AtomicBool::new(false),
            winding_down: AtomicBool::new(false),
            deadline: None,
            grace: None,
            tokens: Vec::new(),
            child_budget: None,
            child_cost: if in_lab { ChildCost::Watched } else { ChildCost::Free },
            on_event: None,
            cancelled_at: Lock::new(Vec::new()),
            ended: OnceLock::new(),
            outer: frame.seen().nursery.get(),
            _context: None,
        }
    }

    /// Closes the nursery and waits for its children. Called by the owner.
    pub(crate) fn wait_for_children(&self, frame: &Frame) {
        self.group.close();
        while !self.group.is_empty() {
            // Not a cancel point: children that are cancelled end, and are waited for. They have
            // not heard of a request that went to this task alone.
            if frame.was_asked_to_end() && !self.settings.node.is_cancelled() {
                self.cancel(CancelReason::Parent);
            }
            frame.leave_to_others(&Why::Children);
        }
        frame.seen().nursery.set(self.outer);
        let _ = self.ended.set(self.settings.node.reason());
        if self.on_event.is_some() {
            frame.run_hook(|| self.announce_end());
        }
    }

    /// Reports the final state to the hook. Called when no child is left.
    pub(crate) fn announce_end(&self) {
        if let Some(hook) = &self.on_event {
            hook.call(&NurseryEvent::Ended { state: self.state() });
        }
    }

    /// Pays for a child that is spawned at this place.
    #[inline]
    pub(super) fn pay(&self, at: &'static Location<'static>) -> Result<Paid> {
        match self.child_cost {
            ChildCost::Free => Ok(Paid::Default),
            ChildCost::Pool if self.settings.pool.take_prepaid() => Ok(Paid::Default),
            ChildCost::Pool => self.pay_pool(),
            ChildCost::Watched => self.pay_in_lab(at),
        }
    }

    /// As [`pay`](NurseryCore::pay), after the point of a spawn.
    #[cold]
    #[inline(never)]
    fn pay_in_lab(&self, at: &'static Location<'static>) -> Result<Paid> {
        self.point_of_spawn(at)?;
        let is_free = self.settings.pool.is_unlimited() && self.child_budget.is_none();
        if is_free || self.settings.pool.take_prepaid() {
            return Ok(Paid::Default);
        }
        self.pay_pool()
    }

    /// The point before a spawn, in the lab; elsewhere it does nothing. Other tasks may have run
    /// since the nursery was found open: this looks again.
    #[cold]
    #[inline(never)]
    pub(super) fn point_of_spawn(&self, at: &'static Location<'static>) -> Result<()> {
        worker::point_from(OpKind::Spawn, 0, at);
        if worker::lab_refuses_spawn() {
            return Err(Error::new(ErrorKind::OutOfMemory));
        }
        self.check_open()
    }

    /// Fails if the nursery is cancelled.
    #[inline]
    pub(super) fn check_open(&self) -> Result<()> {
        if self.settings.node.is_cancelled() { Err(self.not_open()) } else { Ok(()) }
    }

    #[cold]
    fn not_open(&self) -> Error {
        let reason = self.settings.node.reason();
        reason.map_or_else(|| Error::new(ErrorKind::NurseryNotActive), Error::cancelled)
    }

    #[inline(never)]
    pub(super) fn pay_pool(&self) -> Result<Paid> {
        if self.child_budget.is_some() {
            return Ok(Paid::Named);
        }
        let TaskSettings { pool, default_grant, grant, .. } = &self.settings;
        let account = self.or_ask_all(|| pool.spawn_default(*default_grant, *grant))?;
        Ok(if account == *default_grant { Paid::Default } else { Paid::Other(account) })
    }

    /// Tries to draw. If there is not enough, siblings that have ended may have left some with the
    /// worker that they ended on: asks for that and tries again.
    pub(super) fn or_ask_all<R>(&self, draw: impl Fn() -> Result<R, Shortfall>) -> Result<R> {
        let again = |_| {
            self.settings.shared.flush_deferred();
            draw()
        };
        draw().or_else(again).map_err(|short| self.short(short))
    }

    #[cold]
    pub(super) fn short(&self, short: Shortfall) -> Error {
        Error::short(short).bounded_by(self.settings.pool.bounded_by(short.resource))
    }

    /// The terms, for an observer of the owner.
    pub(crate) fn settings(&self) -> &TaskSettings {
        &self.settings
    }

    /// Children that have not ended, for an observer of the owner.
    pub(crate) fn live(&self) -> usize {
        self.group.live()
    }

    /// The next nursery of the same owner, further out.
    pub(crate) fn outer(&self) -> Option<NonNull<NurseryCore>> {
        self.outer
    }

    /// State of the nursery.
    pub(crate) fn state(&self) -> NurseryState {
        if let Some(reason) = self.ended.get() {
            let cancelled = reason.is_some();
            return if cancelled { NurseryState::Cancelled } else { NurseryState::Closed };
        }
        // Relaxed: a snapshot, for reports.
        let closing = self.closing.load(Ordering::Relaxed);
        let ended = closing && self.group.live() == 0;
        match (self.settings.node.is_cancelled(), closing) {
            (true, _) if ended => NurseryState::Cancelled,
            (true, _) => NurseryState::Cancelling,
            (false, true) if ended => NurseryState::Closed,
            (false, true) => NurseryState::Closing,
            (false, false) => NurseryState::Open,
        }
    }

    /// Which failures are kept.
    pub(super) fn keep(&self) -> Keep {
        if self.on_failure == OnFailure::Collect { Keep::All } else { Keep::First }
    }

    /// Notes the failure of a child whose handle is not there to report it.
    pub(super) fn failed(&self, error: Error) {
        self.failures.add(error, self.keep());
    }

    pub(crate) fn cancel(&self, reason: CancelReason) {
        self.settings.node.cancel(reason);
    }

    /// Why the nursery is being cancelled, if it is. One whose parent or token is cancelled is
    /// cancelled too, even if the pass that cancels has not come here yet: see `cancel`.
    pub(super) fn why_cancelled(&self) -> Option<CancelReason> {
        let node = &self.settings.node;
        if let Some(reason) = node.reason() {
            return Some(reason);
        }
        let tokens = || self.tokens.iter().find_map(OnCancel::reason_now);
        self.cancel(node.reason_now().or_else(tokens)?);
        node.reason()
    }

    /// An error with which a child or the body ends, signed: whether it came too late to be the
    /// cause of anything. `failures` has the rule.
    pub(super) fn is_late(&self, error: &Error, frame: &Frame) -> bool {
        match self.why_cancelled() {
            None => frame.was_told() && !frame.was_sentenced() && !error.is_panic(),
            Some(CancelReason::Failure) => frame.was_told(),
            Some(_) => true,
        }
    }

    /// Signs a child's error.
    #[cold]
    pub(super) fn sign(&self, error: Error, frame: &Frame) -> Error {
        let error = frame.sign(error);
        if self.is_late(&error, frame) { error.ranked(Rank::Late) } else { error }
    }

    /// Notes that the body has returned an error.
    pub(in crate::scope) fn body_failed(&self, error: Error, frame: &Frame) {
        let reason = self.why_cancelled();
        let asked = reason.is_none() && frame.was_asked_to_end() && !frame.was_sentenced();
        // Its own cancellation is known, and so is the error of a child that has failed.
        let known = (error.is_cancelled() && reason.is_some()) || self.failures.knows(&error);
        if !known {
            let error = frame.sign(error);
            let speaks = self.winds_down() || (error.rank() == Rank::Own && !frame.was_told());
            let late = match reason {
                Some(CancelReason::Explicit) => !speaks,
                _ => self.is_late(&error, frame),
            };
            if late && asked && !error.is_cancelled() {
                self.failed(Error::cancelled(CancelReason::Explicit).in_task(|| frame.info()));
            }
            let is_reason = asked && error.is_cancelled();
            self.failed(if late && !is_reason { error.ranked(Rank::Late) } else { error });
        }
        self.cancel(CancelReason::Failure);
    }

    pub(super) fn winds_down(&self) -> bool {
        // Relaxed: as at the field. A child reads it after the reason of the `cancel` that follows
        // the store.
        self.winding_down.load(Ordering::Relaxed)
    }

    /// The result of the nursery, when all has ended and the body has returned `value`.
    pub(crate) fn result<R>(&self, value: Option<R>) -> Result<R> {
        let FailureSum { failure, late } = self.failures.take(self.keep());
        if let Some(error) = failure {
            return Err(error);
        }
        let reason = self.ended.get().copied().unwrap_or_else(|| self.settings.node.reason());
        match (value, reason) {
            (Some(value), None) => Ok(value),
            (Some(value), Some(CancelReason::Explicit)) if self.winds_down() => Ok(value),
            (_, reason) => Err(self.cancelled(reason.unwrap_or(CancelReason::Failure), late)),
        }
    }

    #[cold]
    pub(super) fn cancelled(&self, reason: CancelReason, late: usize) -> Error {
        Error::cancelled(reason).detailed(self.settings.node.detail()).with_others(late)
    }
}
