//! The capability to keep all others off a worker.
//!
//! A [`CpuLease`] is the outside of a lease (`run_queue::realtime::lease`). It grants a place and
//! no time: work on the worker runs on the contexts that the lease names, and is charged there.
//!
//! ```text
//!   Runtime::lease        activate                  revoke, session, account     release, or force
//!  ----------------> Granted ------> Active -------------------> Revoking ----------------> ended
//!                       |               |        due = now + max_latency                      ^
//!                       '--- any of ----)--- the account is gone, released, dropped ---------'
//! ```
//!
//! The lease table of the scheduler decides which step is valid; [`LeaseNode`] follows it, and ends
//! once: by the thread that takes the key out of its state. The lock of the state is held for that
//! alone. No token is cancelled, no worker opened and no context revoked under it, because these
//! call back.
//!
//! By force means: the contexts of the lease are revoked, so their tasks are cancelled and run to
//! their ends as tasks without a context, and the worker takes part in all work from its next pick
//! on. A task that comes to no checkpoint keeps the worker until it does; nothing can change that,
//! which is why the distance of checkpoints is part of the proof.

mod proof;

pub use proof::{Assurance, LeaseProof};

use super::{AuditEvent, ContextNode, Identity, Limits, Revocable, Revoker};
use crate::base::cpu::TakenCpu;
use crate::base::error::{Error, ErrorKind, LeaseFact, LeaseRefused, Result};
use crate::base::reason::CancelReason;
use crate::sched::Shared;
use crate::sched::run_queue::LeaseTerms;
use crate::sched::timers::{Due, Expire};
use crate::scope::cancel::{CancelToken, OnCancel};
use crate::scope::cap::CapContext;
use crate::scope::cx::Here;
use crate::scope::cx::parking::{Deadline, Ended, wait};
use crate::wait::Why;
use parcae_core::lease::{Cause, Host, LeaseId};
use proof::host_of;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// Time between two looks at a worker that is being emptied: the first one, and the longest.
const LOOKS: [Duration; 2] = [Duration::from_micros(50), Duration::from_millis(2)];

/// The terms of a lease: the contexts whose tasks run on the worker, and how long it may take to
/// get it back.
#[derive(Debug, Clone)]
#[must_use]
pub struct LeaseOpts {
    contexts: Vec<Arc<ContextNode>>,
    max_latency: Duration,
    latency: Option<Duration>,
    pin: Pin,
    priority: Option<i32>,
    required: Vec<LeaseFact>,
    session: Option<CancelToken>,
}

/// Which processor the thread of a leased worker has for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Pin {
    /// The last one that it may use and that is free.
    #[default]
    Any,
    /// The one with this number.
    To(usize),
    /// None: the system schedules it as before.
    No,
}

impl LeaseOpts {
    /// A lease of the worker of this context, which is also the account. A revocation may take
    /// 10 ms; the thread gets a processor for itself, if that is possible.
    pub fn new(account: &CapContext) -> LeaseOpts {
        LeaseOpts {
            contexts: vec![account.node()],
            max_latency: Duration::from_millis(10),
            latency: None,
            pin: Pin::Any,
            priority: None,
            required: Vec::new(),
            session: None,
        }
    }

    /// Tasks of this context run there too. It is on the same worker.
    pub fn with(mut self, context: &CapContext) -> LeaseOpts {
        self.contexts.push(context.node());
        self
    }

    /// How long a revocation may take before the worker is taken by force.
    pub fn max_latency(mut self, latency: Duration) -> LeaseOpts {
        self.max_latency = latency;
        self
    }

    /// How long the tasks of the contexts need at most to come to a checkpoint. The default is the
    /// longest [`check_distance`](super::ContextOpts::check_distance) of the contexts. A lease
    /// whose revocation could take longer than it may is not put into force.
    pub fn latency(mut self, latency: Duration) -> LeaseOpts {
        self.latency = Some(latency);
        self
    }

    /// The processor of the worker's thread.
    pub fn pin(mut self, pin: Pin) -> LeaseOpts {
        self.pin = pin;
        self
    }

    /// Has the worker's thread run before all threads of the usual policy (`SCHED_FIFO`, 1 to 99).
    /// Usually that takes a privilege. For a worker that sleeps between its jobs: one that computes
    /// for ever keeps threads of the kernel off its processor.
    pub fn priority(mut self, priority: i32) -> LeaseOpts {
        self.priority = Some(priority);
        self
    }

    /// Refuses to put the lease into force unless this is verified.
    pub fn require(mut self, fact: LeaseFact) -> LeaseOpts {
        self.required.push(fact);
        self
    }

    /// Revokes the lease when this token is cancelled: that of the session which it belongs to.
    pub fn session(mut self, token: &CancelToken) -> LeaseOpts {
        self.session = Some(token.clone());
        self
    }

    fn terms(&self, owner: u64) -> LeaseTerms {
        let declared = self.contexts.iter().map(|context| context.check_distance()).max();
        let latency = self.latency.or(declared).unwrap_or_default();
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let (max_latency, latency) = (nanos(self.max_latency), nanos(latency));
        LeaseTerms { owner, max_latency, latency, host: Host::Absent }
    }
}

/// Why a lease was revoked or released.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LeaseCause {
    /// The owner gave it back, or dropped it: also because it panicked or was cancelled.
    Released,
    /// The giver wanted it back.
    Policy,
    /// The token of its session was cancelled.
    SessionClosed,
    /// A context of the lease was revoked: work there can no longer be charged.
    AccountGone,
}

/// The end of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseEnd {
    /// Why.
    pub cause: LeaseCause,
    /// From the revocation to the end; 0 if there was none.
    pub latency: Duration,
    /// Whether the worker was taken by force, because the owner had not left in time: then the
    /// contexts of the lease were revoked too.
    pub forced: bool,
}

/// A worker without others. Granted by [`Runtime::lease`](crate::Runtime::lease).
///
/// ```
/// use parcae::policy::{ContextOpts, LeaseFact, LeaseOpts, Assurance};
/// use parcae::prelude::*;
/// use std::time::Duration;
///
/// let rt = Runtime::builder().deterministic(1).workers(2).build()?;
/// let ms = Duration::from_millis;
/// let control = rt.admit(ContextOpts::new(ms(2), ms(10)))?;
/// let lease = rt.lease(LeaseOpts::new(&control))?; // its worker takes no more work of others
/// rt.run(|cx| {
///     let proof = lease.activate(ms(100))?; // once tasks that began there have ended
///     assert_eq!(proof.assurance(LeaseFact::Tasks), Assurance::Verified);
///     assert_eq!(proof.assurance(LeaseFact::Affinity), Assurance::Absent); // a virtual worker
///     cx.nursery(|n| {
///         n.spawn(|cx| Ok(assert_ne!(cx.worker(), lease.worker())))?;
///         n.spawn_with(SpawnOpts::new().context(&control), |cx| {
///             Ok(assert_eq!(cx.worker(), lease.worker()))
///         })?;
///         Ok(())
///     })
/// })?;
/// let end = lease.release();
/// assert!(!end.forced);
/// # Ok::<(), parcae::Error>(())
/// ```
///
/// Dropping it releases the worker.
pub struct CpuLease {
    node: Arc<LeaseNode>,
}

/// The lease behind a capability.
pub(crate) struct LeaseNode {
    id: Identity,
    shared: Weak<Shared>,
    worker: usize,
    opts: LeaseOpts,
    /// Cancelled when the lease is revoked or has ended.
    token: CancelToken,
    state: Mutex<LeaseState>,
}

struct LeaseState {
    /// Taken out by the thread that ends the lease.
    lease: Option<LeaseId>,
    cpu: Option<TakenCpu>,
    proof: Option<LeaseProof>,
    /// Why it is being revoked, if it is.
    cause: Option<LeaseCause>,
    end: Option<LeaseEnd>,
    /// Callbacks of the session and of the contexts.
    follow: Vec<OnCancel>,
}

impl CpuLease {
    pub(super) fn grant(id: Identity, shared: &Arc<Shared>, opts: LeaseOpts) -> Result<CpuLease> {
        if opts.contexts.iter().any(|context| !context.is_of(&id.issuer)) {
            return Err(refused(LeaseRefused::Foreign));
        }
        let contexts: Vec<_> = opts.contexts.iter().map(|context| context.index()).collect();
        let granted = shared.queues.grant_lease(&contexts, opts.terms(id.serial));
        let (lease, worker) = granted.map_err(refused)?;
        shared.idle.set_away(worker, true);
        shared.notify(worker);
        id.record(AuditEvent::Minted(Limits::Lease { worker, max_latency: opts.max_latency }));
        let state = LeaseState {
            lease: Some(lease),
            cpu: None,
            proof: None,
            cause: None,
            end: None,
            follow: Vec::new(),
        };
        let node = Arc::new(LeaseNode {
            id,
            shared: Arc::downgrade(shared),
            worker,
            opts,
            token: CancelToken::new(),
            state: Mutex::new(state),
        });
        node.follow();
        Ok(CpuLease { node })
    }

    /// Puts the lease into force, once tasks of others that began on the worker have ended. Waits
    /// for that at most so long; may be called again.
    ///
    /// Called on a task or on any thread but not by a task that itself began on the worker: that
    /// one would wait for itself.
    ///
    /// # Errors
    ///
    /// [`LeaseRefused`](crate::ErrorKind::LeaseRefused) says what is missing. The lease stays
    /// granted, and its worker closed to new work of others.
    pub fn activate(&self, within: Duration) -> Result<LeaseProof> {
        let deadline = Deadline::after(within);
        let mut pause = LOOKS[0];
        let here = Here::new();
        loop {
            let why = match self.node.try_activate() {
                Ok(proof) => return Ok(proof),
                Err(why) => why,
            };
            let may_change = matches!(
                why,
                LeaseRefused::Busy { .. }
                    | LeaseRefused::Descriptors { .. }
                    | LeaseRefused::Unanswered { .. }
            );
            if !may_change || is_over(deadline) {
                return Err(refused(why));
            }
            let look = Deadline::after(pause);
            while wait(here.frame(), look, Why::Sleep(None))? != Ended::TimedOut {}
            pause = (2 * pause).min(LOOKS[1]);
        }
    }

    /// The proof on which the lease was put into force; `None` before that.
    pub fn proof(&self) -> Option<LeaseProof> {
        self.node.lock().proof.clone()
    }

    /// Which worker.
    pub fn worker(&self) -> usize {
        self.node.worker
    }

    /// Whether the lease is in force, and not being revoked.
    pub fn is_active(&self) -> bool {
        let state = self.node.lock();
        state.lease.is_some() && state.proof.is_some() && state.cause.is_none()
    }

    /// A token that is cancelled when the lease is revoked or ends. A nursery with this token
    /// leaves the worker in time.
    pub fn token(&self) -> CancelToken {
        self.node.token.clone()
    }

    /// Asks the owner to leave, from any thread: cancels the [token](CpuLease::token). If the lease
    /// has not been released when the time for that is over, it is taken by force: its contexts are
    /// revoked. A lease that is not in force ends at once.
    pub fn revoke(&self) {
        self.node.revoke(LeaseCause::Policy);
    }

    /// The right to revoke it, for its giver to keep.
    pub fn revoker(&self) -> Revoker {
        Revoker(Revocable::Lease(Arc::downgrade(&self.node), self.node.id.serial))
    }

    /// Gives the worker back. Its contexts stay admitted: their tasks go on there, beside others.
    pub fn release(self) -> LeaseEnd {
        self.node.release();
        self.end().unwrap_or(LeaseEnd {
            cause: LeaseCause::Released,
            latency: Duration::ZERO,
            forced: false,
        })
    }

    /// How it has ended; `None` if it has not.
    pub fn end(&self) -> Option<LeaseEnd> {
        self.node.lock().end
    }

    /// The number that identifies it in the audit log.
    pub fn serial(&self) -> u64 {
        self.node.id.serial
    }
}

impl Drop for CpuLease {
    fn drop(&mut self) {
        self.node.release();
    }
}

/// Whether this point in time has passed.
fn is_over(deadline: Deadline) -> bool {
    match deadline {
        Deadline::Task(at) => {
            Here::new().frame().is_none_or(|frame| frame.settings().shared.now() >= at)
        }
        Deadline::Thread(at) => std::time::Instant::now() >= at,
        Deadline::Never => false,
    }
}

impl LeaseNode {
    fn lock(&self) -> MutexGuard<'_, LeaseState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows the session and the contexts from now on.
    fn follow(self: &Arc<Self>) {
        let on = |token: &CancelToken, cause: LeaseCause| {
            let node = Arc::downgrade(self);
            token.on_cancel(move |_| {
                if let Some(node) = node.upgrade() {
                    node.revoke(cause);
                }
            })
        };
        let session = self.opts.session.iter().map(|token| on(token, LeaseCause::SessionClosed));
        let contexts = self.opts.contexts.iter();
        let contexts = contexts.map(|context| on(context.token(), LeaseCause::AccountGone));
        let follow = session.chain(contexts).collect(); // may end the lease at once
        self.lock().follow = follow;
    }

    fn try_activate(&self) -> Result<LeaseProof, LeaseRefused> {
        let shared = self.shared.upgrade().ok_or(LeaseRefused::Ended)?;
        let (lease, cause) = {
            let state = self.lock();
            if let Some(proof) = state.proof.clone().filter(|_| state.lease.is_some()) {
                return Ok(proof);
            }
            (state.lease.ok_or(LeaseRefused::Ended)?, state.cause)
        };
        if cause.is_some() {
            return Err(LeaseRefused::Ended);
        }
        let mut terms = self.opts.terms(self.id.serial);
        // Before anything is changed outside of the runtime.
        shared.queues.is_drained(self.worker)?;
        let (cpu, mut facts) = self.pin(&shared);
        terms.host = host_of(&facts);
        facts.splice(0..0, self.own_facts());
        let proof =
            LeaseProof { worker: self.worker, cpu: cpu.as_ref().map(TakenCpu::number), facts };
        for &fact in &self.opts.required {
            if proof.assurance(fact) != Assurance::Verified {
                return Err(LeaseRefused::Unproven(fact));
            }
        }
        let mut state = self.lock();
        if let Some(proof) = &state.proof {
            return Ok(proof.clone()); // another thread was faster
        }
        if state.lease != Some(lease) || state.cause.is_some() {
            return Err(LeaseRefused::Ended); // revoked meanwhile
        }
        shared.queues.activate_lease(lease, self.worker, terms)?;
        (state.cpu, state.proof) = (cpu, Some(proof.clone()));
        Ok(proof)
    }

    // ----- the end ----------------------------------------------------------------------

    /// Asks the owner to leave.
    pub(super) fn revoke(self: &Arc<Self>, cause: LeaseCause) {
        let Some(shared) = self.shared.upgrade() else { return };
        let (lease, is_active) = {
            let mut state = self.lock();
            let Some(lease) = state.lease else { return };
            if state.cause.is_some() && cause != LeaseCause::AccountGone {
                return; // it is being revoked already
            }
            state.cause.get_or_insert(cause);
            (lease, state.proof.is_some())
        };
        let core = match cause {
            LeaseCause::SessionClosed => Cause::SessionClosed,
            LeaseCause::AccountGone | LeaseCause::Released => Cause::OwnerExit,
            LeaseCause::Policy => Cause::Policy,
        };
        let Some(notice) = shared.queues.revoke_lease(lease, shared.now(), core) else { return };
        self.id.record(AuditEvent::Revoked);
        self.token.cancel_because(CancelReason::Explicit);
        if !is_active {
            self.finish(&shared, Duration::ZERO, false);
        } else if cause == LeaseCause::AccountGone {
            self.release(); // its tasks were cancelled
        } else {
            shared.at(notice.due, Due::expire(self)).leave_armed();
        }
    }

    /// The owner has left.
    fn release(&self) {
        let Some(shared) = self.shared.upgrade() else {
            self.lock().cpu = None;
            return;
        };
        let Some(lease) = self.lock().lease else { return };
        if let Some(latency) = shared.queues.release_lease(lease, shared.now()) {
            self.finish(&shared, Duration::from_nanos(latency), false);
        }
    }

    /// The lease has ended in the table: opens the worker.
    fn finish(&self, shared: &Shared, latency: Duration, forced: bool) {
        let (cpu, follow) = {
            let mut state = self.lock();
            if state.lease.take().is_none() {
                return;
            }
            let cause = state.cause.unwrap_or(LeaseCause::Released);
            state.end = Some(LeaseEnd { cause, latency, forced });
            (state.cpu.take(), std::mem::take(&mut state.follow))
        };
        drop((cpu, follow));
        shared.queues.open_worker(self.worker);
        shared.idle.set_away(self.worker, false);
        shared.notify(self.worker);
        shared.notify_any(); // for work that the worker might have done
        self.token.cancel_because(CancelReason::Explicit);
    }
}

impl Expire for LeaseNode {
    /// The time to leave is over.
    fn expire(self: Arc<Self>) {
        let Some(shared) = self.shared.upgrade() else { return };
        let Some(lease) = self.lock().lease else { return };
        if let Some(latency) = shared.queues.force_lease(lease, shared.now()) {
            self.finish(&shared, Duration::from_nanos(latency), true);
            self.opts.contexts.iter().for_each(|context| context.revoke());
        }
    }

    fn end_grace(self: Arc<Self>) {}
}

fn refused(why: LeaseRefused) -> Error {
    Error::new(ErrorKind::LeaseRefused(why))
}

impl fmt::Debug for CpuLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        super::debug(f, "CpuLease", &self.node.id, &self.node.worker)
    }
}
