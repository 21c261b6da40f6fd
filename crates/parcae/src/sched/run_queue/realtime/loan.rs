//! Loans: the scheduling context of a caller, lent to the task that answers it.
//!
//! A task on a context calls a server, a task without one, and waits for the reply. On its own the
//! server would wait behind all best-effort work: the promise to the caller would end where the
//! call begins. So the caller lends its context for the time of the call.
//!
//! # A borrower is one more task of the context
//!
//! The unit that holds a context is the chain of its ready tasks ([`RealtimeWorker`]), not a single
//! task: a context may be bound to a nursery. A loan adds one more task to that set. The traits of
//! the borrower are replaced, so that it is queued, picked, charged and throttled as a task of the
//! context; the lender waits and uses nothing. So all use is charged once, to the same context, and
//! its depletion, overruns and misses are events to its owner as always.
//!
//! # The life of a loan
//!
//! ```text
//!              wake of the server by the lender,
//!              or the server takes the request
//!   offered ───────────────────────────────────► in force ──► over
//!      │                                                       ▲
//!      '── the server is elsewhere, busy, has a context ───────'
//! ```
//!
//! A loan is over when the server gives it back (it has replied, or its handler has ended, also by
//! a panic), when the offer ends (the lender has its answer, has given up, was cancelled, unwinds),
//! and when the loan by which the lender itself got the context is over ([`ContextLoan::is_over`]
//! asks the whole chain). It never begins again.
//!
//! | event | effect |
//! |---|---|
//! | A lends to B, B to C | two loans of one context; the second one has the first as its parent |
//! | C replies | C is as before; B goes on, on the context |
//! | B gives up, or fails | C is as before, B goes on; or B too, when its reply is dropped |
//! | A gives up | both loans are over at once: B and C go on without the context |
//! | the context is revoked | borrowers are released as bound tasks are, each to its own traits |
//!
//! # Who does what, and where
//!
//! A context and its tasks stay on one worker, and a borrower is a task that stays on this worker
//! too. So loans are made, returned and revoked on the thread of that worker alone, in its
//! [`RealtimeWorker`], and need no protocol between threads. The one word that other threads write
//! is `over`, when a reply is sent by a task that is not the borrower: a hint, since the lender
//! ends the loan anyway when it goes on.
//!
//! The traits of a task are written by its owner. The borrower is
//!
//! | | owned by | its traits are restored |
//! |---|---|---|
//! | running | itself | when it gives the context back |
//! | in the chain of the context | the worker | by [`RunQueue::end_loans`], which takes it out |
//! | in an inbox, or on its way | the queue | when it is sorted into a chain (`sort_realtime`) |
//! | parked | its record | when it was woken, by the same |
//!
//! In the last two cases the loan is over while the record still names the context. A wake on
//! another thread then sends the task to the worker of that context, which is its own. The entry
//! keeps the node of the context until then, so its index is not given to another one.
//!
//! A borrower that has ended has been picked, so it was sorted before. Its entry goes when the
//! offer ends; a record that is used again has another generation.
//!
//! # A lender goes first
//!
//! A lender that is ready although its loan is in force does not wait any more: its deadline has
//! passed, or it was cancelled. It has the same context as its borrower, so no urgency would tell
//! them apart. It is put before all others of the context, and a borrower that runs makes way at
//! its next checkpoint ([`RealtimeWorker::add`]).
//!
//! # After the return
//!
//! A server that has replied mostly waits for its next request at once. If it had to leave its
//! stack before, it would come to that wait only behind all best-effort work, and the next call
//! would find it busy. So its run goes on as that of the context, for [`AFTER_REPLY`] at most: the
//! price of a call includes the way to the next wait. A server that does something else then leaves
//! at a checkpoint ([`RealtimeWorker::look_up`]), is queued behind the others of its kind, and the
//! lender runs.
//!
//! # What was rejected
//!
//! - `Contexts::donate` of parcae-core, which moves a context from one party to another: a nursery
//!   that is bound to a context could not use it while one of its tasks has lent it.
//! - Sending the context to the worker of the server (`depart`, `arrive`): the promise was admitted
//!   for one worker, and another one cannot keep it. A server elsewhere answers on its own time.
//! - Letting a busy server inherit the context for the requests before: those would be paid for by
//!   the caller. A server that is busy gets the context when it takes the request.

use super::table::ContextTable;
use super::{RealtimeTable, RealtimeWorker};
use crate::base::time::Nanos;
use crate::sched::queue::Chain;
use crate::sched::run_queue::{ChainGuard, PickHooks, RunQueue};
use crate::sched::task::{Binding, ContextIndex, Lane, Task, TaskRef, Traits};
use crate::sched::timers::Expire;
use parcae_core::context::{Params, Refill};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The most loans of a worker that are in force. A call beyond that is made without one.
const MOST: usize = 64;
/// How long a server may go on after its reply, at the cost of the context. Ten times as long as an
/// actor needs to its next wait, and short beside a period.
const AFTER_REPLY: Nanos = 20_000;

/// A loan of a context.
pub(crate) struct ContextLoan {
    context: ContextIndex,
    /// The task that has offered it, and waits.
    lender: TaskRef,
    /// The loan by which the lender has it.
    parent: Option<Arc<ContextLoan>>,
    /// It is over, or its lender has ended the offer. Relaxed: written and read by the thread of
    /// the worker, except for a hint, see the header.
    over: AtomicBool,
    /// The node of the context, whose index is not given to another one meanwhile.
    node: Arc<dyn Expire>,
}

impl ContextLoan {
    /// Whether it is over, or one before it in the chain.
    pub(crate) fn is_over(&self) -> bool {
        let mut loan = Some(self);
        while let Some(this) = loan {
            // Relaxed: see the field.
            if this.over.load(Ordering::Relaxed) {
                return true;
            }
            loan = this.parent.as_deref();
        }
        false
    }

    /// It does not begin any more. By a task that has no context by it.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Relaxed); // see the field
    }
}

/// A borrower, with the traits that it had before.
pub(super) struct Borrower {
    task: TaskRef,
    own: Traits,
    loan: Arc<ContextLoan>,
}

impl Borrower {
    fn is(&self, task: NonNull<Task>) -> bool {
        is_now(self.task, task)
    }
}

/// Whether this record has this task now.
fn is_now(named: TaskRef, task: NonNull<Task>) -> bool {
    // SAFETY: records live as long as the scheduler.
    named.task == task && named.generation == unsafe { task.as_ref() }.state.generation()
}

/// The outcome of an offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotLent {
    /// The task runs on no context, or on one that was revoked.
    NoContext,
    /// Less budget is left than is needed.
    BelowMinimum { left: Nanos },
}

impl RealtimeWorker {
    /// The entry of a task that runs on a loan.
    fn borrower(&self, task: NonNull<Task>) -> Option<usize> {
        self.borrowers.iter().position(|entry| entry.is(task))
    }

    /// Whether a task that is ready has a loan in force: it does not wait for the answer any more.
    pub(super) fn is_lender(&self, task: NonNull<Task>) -> bool {
        let has_lent = |entry: &Borrower| is_now(entry.loan.lender, task) && !entry.loan.is_over();
        self.borrowers.iter().any(has_lent)
    }

    /// Takes the entry of a task whose loan is over; of any borrower, if the context has `ended`.
    fn take_borrower(&mut self, task: NonNull<Task>, ended: bool) -> Option<Borrower> {
        let at = self.borrower(task)?;
        let goes = ended || self.borrowers[at].loan.is_over();
        goes.then(|| self.borrowers.swap_remove(at))
    }

    /// Whether a task that has run without the context until now would go on with it: it has
    /// budget, and the job has not ended because its task waits.
    fn goes_on_with(&self, table: &ContextTable, slot: usize, now: Nanos) -> bool {
        let Some((context, _)) = table.live(slot) else { return false };
        let contexts = &table.contexts;
        let by_job = |params: &Params| params.refill == Refill::PerJob;
        let has_ended = contexts.params(context).is_some_and(by_job) && !self.has_ready(slot);
        !has_ended && contexts.ready_at(context).is_some_and(|ready| ready <= now)
    }

    /// Takes the tasks out of the chains whose loans are over.
    fn take_released(&mut self) -> Chain<Task> {
        let mut released = Chain::new();
        for slot in self.slots() {
            for _ in 0..self.len(slot) {
                let Some(task) = self.pop(slot) else { break };
                let at = self.borrower(task);
                let goes = at.is_some_and(|at| self.borrowers[at].loan.is_over());
                // SAFETY: popped, hence ours.
                unsafe { if goes { released.push_back(task) } else { self.put_back(slot, task) } }
            }
        }
        released
    }
}

impl RunQueue {
    /// Offers the context of the running task, which has so many ops left in its turn.
    pub(crate) fn offer_context(
        &self,
        task: TaskRef,
        minimum: Nanos,
        left: u64,
        hooks: &impl PickHooks,
    ) -> Result<ContextLoan, NotLent> {
        let table = self.all().realtime().ok_or(NotLent::NoContext)?;
        // SAFETY: the running task.
        let traits = unsafe { task.task.as_ref() }.traits.get();
        let context = traits.binding.context().ok_or(NotLent::NoContext)?;
        hooks.pass(self.with_realtime(table, |local| local.pass(left)));
        let left = table.budget_left(context, hooks.now()).ok_or(NotLent::NoContext)?;
        if left < minimum {
            return Err(NotLent::BelowMinimum { left });
        }
        let parent = self.with_realtime(table, |local| {
            local.borrower(task.task).map(|at| Arc::clone(&local.borrowers[at].loan))
        });
        let node = table.context_end(context).and_then(|end| end.upgrade());
        let node = node.ok_or(NotLent::NoContext)?;
        Ok(ContextLoan { context, lender: task, parent, over: AtomicBool::new(false), node })
    }

    /// Lends the context to a task that was woken, or that runs. True if it has it now.
    ///
    /// # Safety
    ///
    /// The caller owns the task, which last ran on this worker.
    pub(crate) unsafe fn lend(
        &self,
        task: TaskRef,
        loan: &Arc<ContextLoan>,
        runs: bool,
        hooks: &impl PickHooks,
    ) -> bool {
        // SAFETY: as the caller says.
        let this = unsafe { task.task.as_ref() };
        let Some(table) = self.all().realtime() else { return false };
        let (worker, slot) = table.home(loan.context);
        if worker != self.worker || loan.is_over() || !this.may_borrow() {
            return false;
        }
        let lent = self.with_realtime(table, |local| {
            let mut contexts = table.of(worker);
            let is_wise = !runs || local.goes_on_with(&contexts, slot, hooks.now());
            let lent =
                is_wise && local.borrowers.len() < MOST && contexts.count_loan(slot, &loan.node);
            if lent {
                let own = this.traits.get();
                local.borrowers.push(Borrower { task, own, loan: Arc::clone(loan) });
                let (lane, binding) = (Lane::Realtime, Binding::to(loan.context));
                this.traits.set(Traits { lane, binding, ..own });
            }
            lent
        });
        if lent && this.is_pinned() {
            hooks.gets_context();
        }
        lent
    }

    /// The running task, which has so many ops left in its turn, gives a context back. True if it
    /// had it by this loan.
    pub(crate) fn give_back(
        &self,
        task: NonNull<Task>,
        loan: &ContextLoan,
        left: u64,
        hooks: &impl PickHooks,
    ) -> bool {
        loan.end();
        let Some(table) = self.all().realtime() else { return false };
        let entry = self.with_realtime(table, |local| local.take_borrower(task, false));
        let Some(entry) = entry else { return false };
        hooks.pass(self.with_realtime(table, |local| local.pass(left)));
        let by = hooks.now().saturating_add(AFTER_REPLY);
        self.with_realtime(table, |local| local.run_leaves(by));
        self.with_realtime(table, |local| local.run_begins(0)); // its turn ends here
        // SAFETY: the running task.
        unsafe { restore(task, entry.own, hooks) };
        true
    }

    /// Loans are over: borrowers that wait for the worker go back to the queues of their own kind.
    /// Others follow when they are sorted.
    pub(crate) fn end_loans(&self, loan: &ContextLoan, hooks: &impl PickHooks) {
        loan.end();
        let Some(table) = self.all().realtime() else { return };
        if self.with_realtime(table, |local| local.borrowers.is_empty()) {
            return;
        }
        self.sort_realtime(table, hooks);
        let (chain, ended) = self.with_realtime(table, |local| {
            // SAFETY: records live as long as the scheduler.
            let has_ended = |entry: &mut Borrower| !entry.is(entry.task.task);
            let ended: Vec<Borrower> = local.borrowers.extract_if(.., has_ended).collect();
            (local.take_released(), ended)
        });
        drop(ended); // which may free the slot of a context
        let mut released = ChainGuard::new(self, chain);
        while let Some(task) = released.chain.pop_front() {
            // SAFETY: out of a chain, hence ours.
            unsafe { self.release_borrower(table, task, false, hooks) };
        }
    }

    /// A task without a right to its context any more waits with the tasks of its own kind. False
    /// if it is no such borrower; `ended`: the context was revoked.
    ///
    /// # Safety
    ///
    /// As for [`push_pinned`](RunQueue::push_pinned), if the result is true.
    pub(super) unsafe fn release_borrower(
        &self,
        table: &RealtimeTable,
        task: NonNull<Task>,
        ended: bool,
        hooks: &impl PickHooks,
    ) -> bool {
        let entry = self.with_realtime(table, |local| {
            if local.borrowers.is_empty() { None } else { local.take_borrower(task, ended) }
        });
        let Some(entry) = entry else { return false };
        // SAFETY: as the caller says.
        unsafe {
            restore(task, entry.own, hooks);
            self.push_woken_behind(task);
        }
        true
    }
}

/// The traits of a borrower are its own again.
///
/// # Safety
///
/// The caller owns the task.
unsafe fn restore(task: NonNull<Task>, own: Traits, hooks: &impl PickHooks) {
    // SAFETY: as the caller says.
    let this = unsafe { task.as_ref() };
    if this.is_pinned() {
        hooks.becomes_stranger();
    }
    this.traits.set(own);
}
