//! The frame of a running task.
//!
//! A [`Frame`] lies on the task's own stack, at the base, from its first to its last instruction;
//! the task's record points to it. Only the task itself uses it, so its fields are cells. Other
//! threads reach the task through atomics elsewhere: the `limit` of the node that cancels it, and
//! the `signal` of its record.
//!
//! # Checkpoints
//!
//! ```text
//! slice > limit | signal   ⇒   slice -= 1, go on        (one comparison)
//! otherwise                ⇒   checkpoint_slow: cancelled? end of the turn? out of budget?
//! ```
//!
//! `limit` is 0 until the node is cancelled, then larger than any slice. Two quantities bound the
//! work of a task before its next slow checkpoint:
//!
//! - the **turn**: ops until the task lets others run, at most `YIELD_INTERVAL`. A new turn starts
//!   in [`Frame::checkpoint_slow`], after the task has yielded or has found that a yield would
//!   change nothing, and nowhere else;
//! - the **account**: ops that are paid for.
//!
//! `slice` is the part of both that checkpoints may use without a second look:
//!
//! ```text
//! ops left in the turn = slice + turn        ops left in the account = slice + account.ops
//! ```
//!
//! A charge, a refill or a recharge puts the slice back into both and cuts it anew
//! (`set_balance`), so none of them makes a turn longer. When the slice is used up, either the turn
//! is over (`turn` is 0) or the account is empty: then the pool is asked, as the policy of the
//! nursery says.
//!
//! | file | idea |
//! |---|---|
//! | `checkpoint` | checkpoints and turns |
//! | `account`, `refill`, `memory` | the balance and charges, a resource that is used up, bytes |
//! | `bound` | a bound on the ops of a part of the task |
//! | `nested` | budget for nurseries that the task opens |
//! | `waiting`, `watch` | cancellation, parks and shields |
//! | `away` | the task on another stack, which may overflow |
//! | `access` | reads by the scheduler and by observers |
//! | `packed` | the state of a task between two calls, of which each has a frame of its own |

mod access;
mod account;
mod away;
mod bound;
mod checkpoint;
mod locals;
mod memory;
mod nested;
mod packed;
mod refill;
mod seal;
mod settings;
#[cfg(all(test, not(loom)))]
mod tests;
mod waiting;
mod watch;
mod window;

pub(crate) use access::FrameReader;
pub(crate) use locals::FoundLocal;
pub(crate) use nested::{Outer, Shares};
pub(crate) use packed::{PackedAccount, PackedFrame, PackedLocals};
pub(crate) use seal::OuterMemory;
pub use settings::Preempt;
pub(crate) use settings::{Inherited, Origin, PoolOwner, TaskSettings, TurnLength};
pub(crate) use waiting::Seen;

use crate::base::error::{TaskId, TaskInfo};
use crate::base::shim::atomic::AtomicU64;
use crate::sched::Shared;
use crate::sched::events::spans::Span;
use crate::sched::task::signal::TaskSignal;
use crate::sched::task::waker::Waker;
use crate::sched::task::{Task, TaskRef};
use crate::sched::timers::{ArmedTimer, Due};
use crate::sched::worker;
use crate::scope::budget::{Budget, BudgetPool};
use crate::scope::cancel::{CancelNode, OwnNode};
use account::clamp;
use bound::OpsBound;
use checkpoint::random_turn;
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicPtr;
use watch::CancelWatch;

/// The state of a running task. A checkpoint reads the first three fields; adapters expose them to
/// code that inlines its checkpoints (`foreign::Meter` has the same layout).
#[repr(C)]
pub(crate) struct Frame {
    slice: Cell<u64>,
    limit: Cell<NonNull<AtomicU64>>,
    /// The signal of the task's record. Not really `'static`: the record outlives the frame.
    signal: &'static TaskSignal,
    record: NonNull<Task>,
    /// Ops until the task yields, beside those in the slice.
    turn: Cell<u64>,
    /// The rest of the account beside the slice, and the total drawn into it.
    account: Cell<Budget>,
    drawn: Cell<Budget>,
    /// Bytes that may still be allocated; negative if more were allocated than the budget allows.
    memory: Cell<i64>,
    /// Bytes that the task has allocated and not freed.
    allocated: Cell<u64>,
    /// Node and pool of the innermost open nursery, or of the nursery that the task belongs to.
    /// Their owner outlives the frame, or restores the outer ones before it ends.
    scope: Cell<ScopeRef>,
    /// Its subscription to the node of `scope`, and its shields.
    watch: CancelWatch,
    pool_owner: PoolOwner,
    /// The node of a root task, which is made on first use; it outlives the frame.
    own_node: Option<NonNull<OwnNode>>,
    settings: NonNull<TaskSettings>,
    origin: Origin,
    /// The lowest address that the task's stack may reach; 0 until it is first needed. Has another
    /// meaning while the task runs on another stack: see `away`.
    stack_end: Cell<usize>,
    /// State for observers while the task is parked.
    seen: Seen,
    /// Data that an adapter keeps for the task, at the base of its stack; null if there is none.
    local: AtomicPtr<()>,
    /// Values of `task_local!`; none until the task first uses one.
    locals: Cell<Option<NonNull<locals::LocalTable>>>,
    /// The bound on the ops of the part that it runs; on its stack.
    bound: Cell<Option<NonNull<OpsBound<'static>>>>,
    /// Its span in the `tracing` crate, with the feature of that name.
    span: Span,
}

const _: () = assert!(std::mem::offset_of!(Frame, slice) == 0);
const _: () = assert!(std::mem::offset_of!(Frame, limit) == 8);
const _: () = assert!(std::mem::offset_of!(Frame, signal) == 16);

/// The node that cancels a task at present, and the pool that it draws on.
#[derive(Clone, Copy)]
struct ScopeRef {
    node: NonNull<Arc<CancelNode>>,
    pool: NonNull<Arc<BudgetPool>>,
    /// Number of shields that were open when the task entered the scope: these do not hide the
    /// node.
    shields: u32,
}

/// The end of a shield's grace period, for a node that was made in the shield.
pub(crate) type Grace = ArmedTimer<Arc<Shared>>;

/// Stack that a `#[budgeted]` call requires at least: enough for a panic with a backtrace.
pub(crate) const RED_ZONE: usize = 16 * 1024;
/// The longest slice. It is below the value of a raised `signal`, so that the comparison in `tick`
/// fails.
pub(crate) const LONGEST_SLICE: u64 = u32::MAX as u64 - 1;

/// A limit that is never reached: for shields.
static NEVER: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

impl Frame {
    /// Makes the frame of the task that runs here at its final address; the caller then calls
    /// [`enter`](Frame::enter). Each field is written by itself: a frame that is returned by value
    /// is built elsewhere and copied, which takes longer than the rest.
    ///
    /// # Safety
    ///
    /// `place` is memory for a frame. `settings` and `own_node` outlive the frame. `account` was
    /// drawn from the pool of the settings.
    #[inline(always)]
    pub(crate) unsafe fn init(
        place: NonNull<Frame>,
        record: NonNull<Task>,
        settings: &TaskSettings,
        account: &Budget,
        pool_owner: PoolOwner,
        origin: Origin,
        own_node: Option<&OwnNode>,
    ) {
        /// Every field once: the pattern does not compile if one is missing.
        macro_rules! write {
            ($($field:ident: $value:expr,)*) => {{
                #[allow(unused_variables)]
                let all = |frame: &Frame| {
                    let Frame { $($field: _,)* } = frame;
                };
                let frame = place.as_ptr();
                // SAFETY: a field of memory for a frame.
                $(unsafe { (&raw mut (*frame).$field).write($value) };)*
            }};
        }
        let scope = ScopeRef {
            node: NonNull::from(&settings.node),
            pool: NonNull::from(&*settings.pool),
            shields: 0,
        };
        let now = settings.shared.coarse_now();
        let account = *account; // one read of memory for both copies
        // SAFETY: the record of the running task, which does not outlive it.
        let signal = unsafe { &(*record.as_ptr()).signal };
        write! {
            slice: Cell::new(0),
            limit: Cell::new(NonNull::from(settings.node.limit())),
            signal: signal,
            record: record,
            turn: Cell::new(0),
            account: Cell::new(account),
            drawn: Cell::new(account),
            memory: Cell::new(clamp(account.memory)),
            allocated: Cell::new(0),
            scope: Cell::new(scope),
            watch: CancelWatch::new(),
            pool_owner: pool_owner,
            own_node: own_node.map(NonNull::from),
            settings: NonNull::from(settings),
            origin: origin,
            stack_end: Cell::new(0),
            seen: Seen::new(now),
            local: AtomicPtr::new(std::ptr::null_mut()),
            locals: Cell::new(None),
            bound: Cell::new(None),
            span: Span::new(),
        }
    }

    /// Announces the frame of the running task, and takes its first slice.
    #[inline]
    pub(crate) fn enter(&self) {
        // SAFETY: called by the task itself, which has started.
        unsafe { self.record().set_frame((&raw const *self).cast()) };
        if self.origin.name.is_some() || self.settings().shared.tracer.is_heard() {
            self.publish_origin();
        }
        let (origin, nursery) = (&self.origin, self.settings().name.as_deref());
        self.span.begin(self.record().id(), origin.name.as_deref(), nursery, origin.spawned_at);
        self.start_first_turn();
    }

    /// A task without a turn yields at its first checkpoint.
    #[inline(always)]
    fn start_first_turn(&self) {
        if self.settings().preempt == Preempt::Never || random_turn(2) == 1 {
            self.start_turn();
        }
    }

    /// Labels the stack with the name of the task, and records its origin in the trace.
    #[cold]
    fn publish_origin(&self) {
        let Origin { name, spawned_at } = &self.origin;
        if let Some(name) = name {
            worker::label_stack(name);
        }
        // In the lab, too: it is told of events.
        if self.settings().shared.tracer.is_heard() {
            self.stay_on_the_slow_path();
            worker::with_current(|worker| {
                worker.note_origin(self.record().id(), spawned_at, name.as_ref());
            });
        }
    }

    /// Ends the frame: returns the rest of the account and unsubscribes.
    #[inline]
    pub(crate) fn leave(&self) {
        if let Some(locals) = self.locals.get() {
            self.end_locals(locals);
        }
        if self.settings().reports {
            self.report_end();
        }
        self.span.exit();
        // SAFETY: as in `enter`.
        unsafe { self.record().set_frame(std::ptr::null()) };
        if self.origin.name.is_some() {
            worker::label_stack("");
        }
        self.unsubscribe();
        if !self.pool().is_unlimited() {
            self.return_rest();
        }
    }

    /// Reports the ops of the task to its tenant, and its times, with those of its last turn.
    #[inline(never)]
    fn report_end(&self) {
        worker::turn::ended(self.ops_left());
        if self.settings().tally.is_some() {
            worker::with_current(|worker| self.seen.times.ran(worker.last_turn()));
            self.flush_times();
        }
    }

    #[inline]
    pub(crate) fn record(&self) -> &Task {
        // SAFETY: the record of the running task.
        unsafe { self.record.as_ref() }
    }

    #[inline]
    pub(crate) fn settings(&self) -> &TaskSettings {
        // SAFETY: as `new` demands.
        unsafe { self.settings.as_ref() }
    }

    #[inline]
    pub(super) fn node(&self) -> &Arc<CancelNode> {
        // SAFETY: as `new` demands, or of a nursery that has not ended.
        unsafe { self.scope.get().node.as_ref() }
    }

    pub(crate) fn pool(&self) -> &Arc<BudgetPool> {
        // SAFETY: as above.
        unsafe { self.scope.get().pool.as_ref() }
    }

    pub(crate) fn info(&self) -> TaskInfo {
        TaskInfo {
            id: TaskId(self.record().id()),
            name: self.origin.name.clone(),
            nursery: self.settings().name.clone(),
            spawned_at: self.origin.spawned_at,
        }
    }

    /// The span of the task in the `tracing` crate.
    pub(crate) fn span(&self) -> &Span {
        &self.span
    }

    pub(crate) fn origin(&self) -> &Origin {
        &self.origin
    }

    pub(crate) fn task(&self) -> NonNull<Task> {
        self.record
    }

    /// Data that an adapter keeps for the task. Only the task itself asks: relaxed.
    pub(crate) fn local(&self) -> *const () {
        self.local.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Sets what `local` says. By the task itself.
    pub(crate) fn set_local(&self, local: *const ()) {
        self.local.store(local.cast_mut(), std::sync::atomic::Ordering::Relaxed);
    }

    /// The node of the task's token: that of its innermost nursery, or of a root task its own.
    pub(crate) fn token_node(&self) -> &Arc<CancelNode> {
        match self.own_node() {
            Some(own) if self.node_is_own() => {
                let settings = self.settings();
                own.of(self.task_ref(), &settings.shared, &settings.node)
            }
            _ => self.node(),
        }
    }

    /// The place of a root task's node.
    fn own_node(&self) -> Option<&OwnNode> {
        // SAFETY: as `new` demands.
        self.own_node.map(|own| unsafe { own.as_ref() })
    }

    /// A node for a nursery or a token that this task makes. A node that is made inside a shield is
    /// not cancelled from outside of the shield, until its grace period is over.
    pub(crate) fn child_node(&self) -> (Arc<CancelNode>, Option<Grace>) {
        if !self.is_shielded() {
            return (self.token_node().child(), None);
        }
        let Some(until) = self.watch.grace() else { return (CancelNode::root(), None) };
        let node = self.token_node().shielded_child();
        let grace = self.settings().shared.at_for(until, Due::end_grace(&node));
        (node, Some(grace))
    }

    pub(crate) fn waker(&self) -> Waker {
        Waker::new(Arc::clone(&self.settings().shared), self.task_ref())
    }

    /// A reference to the task, with its generation: it is recognised as stale when the task has
    /// ended.
    #[inline]
    pub(crate) fn task_ref(&self) -> TaskRef {
        TaskRef { task: self.record, generation: self.record().state.generation() }
    }

    /// Whether the caller runs on the task's own stack, and not on that of a
    /// [`Fiber`](crate::fiber::Fiber) which the task has resumed.
    #[inline]
    pub(crate) fn is_here(&self) -> bool {
        // The frame is at the base of the task's stack, so an address on it lies between the
        // stack's end and the frame.
        let base = (&raw const *self).addr();
        let here = 0_u8;
        (&raw const here).addr() < base && self.stack_left() > 0
    }

    /// Bytes of stack left below the caller.
    #[inline]
    pub(crate) fn stack_left(&self) -> usize {
        let mut end = self.stack_end.get();
        if end == 0 {
            end = worker::stack_end();
            self.stack_end.set(end);
        }
        let here = 0_u8;
        (&raw const here).addr().saturating_sub(end)
    }
}

fn never() -> NonNull<AtomicU64> {
    #[cfg(not(loom))]
    return NonNull::from(&NEVER);
    #[cfg(loom)]
    unreachable!("no task runs in a model")
}
