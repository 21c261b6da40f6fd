//! Nurseries without a body, for adapters to languages that have no closures.
//!
//! [`OpenNursery`] is opened by one call and closed by another, where
//! [`Cx::nursery`](crate::Cx::nursery) has a body in between. It is the same nursery with the same
//! core. The borrow checker proves the nesting for a body; here it is the caller's obligation: the
//! task or thread that opened a nursery closes it, innermost first.
//!
//! # Nurseries of threads
//!
//! A task waits for its children by parking; the end of the last child unparks it (`task::group`).
//! A thread that is not a worker has no task. Its nursery is owned by a *proxy*: a task that is
//! created parked and not started, so that waking it runs it. It only sets an event, for which the
//! thread waits.
//!
//! ```text
//!   thread:   open ── spawn … spawn ── close ── children left? ── no ──► unpark the proxy, go on
//!                                                    │ yes
//!                                                    ▼
//!                                              wait for the event
//!   last child: counts to 0 ── unpark the proxy ── it runs ── sets the event
//! ```
//!
//! Why no wake-up is lost: after `close` exactly one count-down ends at 0. If that is `close`
//! itself, the thread finds no children left and does not wait. Otherwise it is that of a child,
//! which unparks the owner as usual. The proxy has been PARKED since before the first child was
//! spawned, so it is queued, runs, and sets the event. The thread may also find no children left
//! although a child was last: then both unpark the proxy, and the second unpark finds it queued, or
//! its record reused, and does nothing. In both cases the proxy runs once, and the scheduler counts
//! it as ended. Modelled in `task::group::models`.
//!
//! The thread counts its children with `Group::add_shared`. A thread's nursery keeps the runtime
//! alive: the workers stay until it is closed.

use crate::api::runtime::{Handle, RuntimeInner};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::lent::MaybeLent;
use crate::budget::Account;
use crate::sched::task::state::{Mobility, Parking, RecordHandle};
use crate::sched::task::{Binding, TaskRef, Traits};
use crate::sched::worker;
use crate::scope::budget::{Budget, BudgetPool, ClosedPool, More, Resource, Standing, Suspended};
use crate::scope::cancel::{CancelReason, CancelToken};
use crate::scope::cap::CapSpawn;
use crate::scope::cx::{self, Cx, Outer, Shares, TaskSettings};
use crate::scope::nursery::{Nursery, NurseryCore, NurseryOpts, SpawnOpts, TaskHandle};
use crate::scope::profile::Service;
use crate::sync::Event;
use parcae_core::fair::Weight;
use std::fmt;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Arc;

/// A nursery between its opening and its closing. Its children are migratable.
///
/// Dropping it cancels the children and waits for them.
pub struct OpenNursery {
    /// From a box: children point to it.
    nursery: NonNull<Nursery<'static, 'static, Service>>,
    owner: Option<Owner>,
}

/// The owner that waits for the children, and the state that it restores at the end.
enum Owner {
    Task { shares: Shares, outer: Outer },
    Thread { runtime: Arc<RuntimeInner>, proxy: TaskRef, all_ended: Arc<Event>, drawn: Budget },
}

impl OpenNursery {
    /// Opens a nursery: on the running task, or, outside of the runtime's tasks, for this thread.
    ///
    /// # Errors
    ///
    /// As for [`Cx::nursery_with`](crate::Cx::nursery_with).
    ///
    /// # Safety
    ///
    /// The task or thread that opens the nursery is the only one to use it, and closes or drops it:
    /// after all nurseries that it opens later, and before the task ends. The code of its children
    /// obeys the contract of [`SpawnOpts::migratable`], and their data outlives them.
    pub unsafe fn open(runtime: &Handle<Service>, opts: NurseryOpts) -> Result<OpenNursery> {
        let shared = &runtime.inner().settings().shared;
        match cx::Here::new().frame().filter(|frame| Arc::ptr_eq(&frame.settings().shared, shared))
        {
            Some(frame) => {
                let mut core = MaybeUninit::uninit();
                // SAFETY: it is closed before the task ends and after all that it opens later, as
                // the caller says. There is no pointer to it before it is in its place.
                let (core, shares) = unsafe {
                    let shares = NurseryCore::open(&mut core, frame, Some(opts))?;
                    (core.assume_init(), shares)
                };
                let nursery = place(core, Some(NonNull::from(frame)));
                // SAFETY: just made.
                let settings = unsafe { &nursery.as_ref().core.settings };
                let outer = frame.enter_nursery(settings, shares);
                // SAFETY: as above.
                frame.seen().nursery.set(Some(NonNull::from(unsafe { &nursery.as_ref().core })));
                Ok(OpenNursery { nursery, owner: Some(Owner::Task { shares, outer }) })
            }
            None => OpenNursery::open_for_thread(runtime, opts),
        }
    }

    fn open_for_thread(runtime: &Handle<Service>, opts: NurseryOpts) -> Result<OpenNursery> {
        let runtime = Arc::clone(runtime.inner());
        let settings = runtime.settings();
        if let Some(reason) = settings.node.reason() {
            return Err(Error::cancelled(reason));
        }
        // Its children may be the first tasks of the runtime, and they are not spawned through the
        // engine, which would start the monitor.
        runtime.watch();
        opts.check_context(&settings.issuer)?;
        let tenant = opts.tenant(settings)?;
        let (pool, drawn) = fund(settings, opts.budget)?;
        let all_ended = Arc::new(Event::new());
        let proxy = match proxy(settings, Arc::clone(&all_ended)) {
            Ok(proxy) => proxy,
            Err(error) => {
                settings.pool.settle(drawn, drawn);
                return Err(error);
            }
        };
        let (node, pool) = (settings.node.child(), MaybeLent::own(pool));
        let core = opts.core(settings, settings.give(), node, pool, proxy, tenant);
        let owner = Owner::Thread { proxy, all_ended, drawn, runtime };
        Ok(OpenNursery { nursery: place(core, None), owner: Some(owner) })
    }

    fn nursery(&self) -> &'static Nursery<'static, 'static, Service> {
        // SAFETY: lives as long as this. `'static` claims more; handles are used before the nursery
        // is closed, as `spawn` demands.
        unsafe { self.nursery.as_ref() }
    }

    /// Spawns a child, by the authority of a capability if one is given.
    ///
    /// # Errors
    ///
    /// As for [`Nursery::spawn`].
    ///
    /// # Safety
    ///
    /// The handle is dropped before the nursery is closed.
    #[track_caller]
    #[inline]
    pub unsafe fn spawn<T: Send + 'static>(
        &self,
        cap: Option<&CapSpawn>,
        child: impl FnOnce(&Cx<Service>) -> Result<T> + Send + 'static,
    ) -> Result<TaskHandle<'static, T>> {
        match cap {
            None => self.nursery().start((), child),
            // SAFETY: as the caller says.
            Some(_) => unsafe { self.spawn_with(cap, SpawnOpts::new(), child) },
        }
    }

    /// As [`spawn`](OpenNursery::spawn), with options.
    ///
    /// # Errors
    ///
    /// As for [`Nursery::spawn_with`].
    ///
    /// # Safety
    ///
    /// As for [`spawn`](OpenNursery::spawn).
    #[track_caller]
    pub unsafe fn spawn_with<T: Send + 'static>(
        &self,
        cap: Option<&CapSpawn>,
        opts: SpawnOpts,
        child: impl FnOnce(&Cx<Service>) -> Result<T> + Send + 'static,
    ) -> Result<TaskHandle<'static, T>> {
        let cap = cap.map(|cap| self.nursery().authorize(cap)).transpose()?;
        // SAFETY: by the contract of `open`.
        self.nursery().start_with(unsafe { opts.migratable() }, cap, child)
    }

    /// Waits for all children and ends the nursery.
    ///
    /// # Errors
    ///
    /// The first failure of a child, or that the nursery was cancelled.
    pub fn close(mut self) -> Result<()> {
        self.finish();
        self.nursery().core.result(Some(()))
    }

    fn finish(&mut self) {
        let core = &self.nursery().core;
        let Some(owner) = self.owner.take() else { return };
        core.closing.store(true, std::sync::atomic::Ordering::Relaxed); // see the field
        match owner {
            Owner::Task { shares, outer } => {
                // By the contract this is the task that opened it.
                let here = cx::Here::new();
                let Some(frame) = here.frame() else { abort("closed outside of its task") };
                core.wait_for_children(frame);
                frame.leave_nursery(&core.settings, shares, outer);
            }
            Owner::Thread { runtime, proxy, all_ended, drawn } => {
                core.group.close();
                if core.group.is_empty() {
                    core.settings.shared.unpark(proxy); // to end it
                }
                while !core.group.is_empty() {
                    // On a task of another runtime a cancellation of that task ends the wait early;
                    // the children of this nursery must be awaited nevertheless.
                    if all_ended.wait().is_err() {
                        worker::yield_now();
                    }
                }
                let _ = core.ended.set(core.settings.node.reason());
                core.announce_end();
                let above = &runtime.settings().pool;
                if !Arc::ptr_eq(above, &core.settings.pool) {
                    let ClosedPool { left, topped_up } = core.settings.pool.close();
                    let mut drawn = drawn;
                    drawn.absorb(topped_up);
                    above.settle(drawn, left);
                }
            }
        }
    }

    /// Cancels the children and the owner.
    pub fn cancel(&self) {
        self.nursery().cancel();
    }

    /// A token that cancels the nursery, from anywhere.
    pub fn token(&self) -> CancelToken {
        self.nursery().token()
    }

    /// Number of children that have not ended.
    pub fn live(&self) -> usize {
        self.nursery().live()
    }

    /// As [`Nursery::set_share`].
    ///
    /// # Errors
    ///
    /// If the nursery was opened without a share.
    pub fn set_share(&self, weight: Weight) -> Result<()> {
        self.nursery().set_share(weight)
    }

    /// The account of the nursery, to be recharged by the authority of a capability.
    pub fn account(&self) -> Account {
        self.nursery().account()
    }

    /// The state of the nursery's budget.
    pub fn budget(&self) -> Standing {
        self.nursery().budget()
    }

    /// The children that wait for a recharge of the nursery's budget.
    pub fn suspended(&self) -> Vec<Suspended> {
        self.nursery().suspended()
    }
}

impl Drop for OpenNursery {
    fn drop(&mut self) {
        if self.owner.is_some() {
            self.nursery().core.cancel(CancelReason::Failure);
            self.finish();
        }
        // SAFETY: from a box; no child is left that points to it.
        drop(unsafe { Box::from_raw(self.nursery.as_ptr()) });
    }
}

impl fmt::Debug for OpenNursery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.nursery().fmt(f)
    }
}

/// Puts a nursery at its final address, to which its children point.
fn place(
    mut core: NurseryCore,
    owner: Option<NonNull<cx::Frame>>,
) -> NonNull<Nursery<'static, 'static, Service>> {
    core.traits.binding = core.traits.binding.moving(true);
    NonNull::from(Box::leak(Box::new(Nursery::of(core, owner))))
}

/// The pool of a nursery that no task pays for, and the amount drawn from the runtime's pool.
fn fund(settings: &TaskSettings, budget: Option<Budget>) -> Result<(Arc<BudgetPool>, Budget)> {
    let above = &settings.pool;
    if budget.is_none() && above.is_unlimited() {
        return Ok((Arc::clone(above), Budget::ZERO));
    }
    let wanted = budget.unwrap_or(settings.grant.most());
    let drawn = above.draw(wanted, Resource::Ops);
    let given = if budget.is_some() { drawn.min(wanted) } else { drawn };
    if let Some(budget) = budget
        && let Err(short) = { given }.charge(budget.counted())
    {
        above.settle(drawn, drawn);
        return Err(Error::short(short));
    }
    let more = || More { pool: Arc::clone(above), grant: settings.grant, ceiling: None };
    let pool = BudgetPool::new(given, budget.is_none().then(more)).filled_from(above);
    Ok((Arc::new(pool), drawn))
}

/// The proxy of a thread: see the header.
fn proxy(settings: &TaskSettings, all_ended: Arc<Event>) -> Result<TaskRef> {
    let shared = &settings.shared;
    let traits = Traits { binding: Binding::MOVES, ..shared.usual_traits() };
    // Until it is counted.
    let _entered = shared.gate.enter().ok_or(Error::new(ErrorKind::ShuttingDown))?;
    // SAFETY: owns what it uses.
    let made = unsafe {
        shared.make_outside(None, traits, RecordHandle::None, move |_, _| all_ended.set())
    };
    let proxy = made?;
    // SAFETY: records live as long as the scheduler.
    let state = unsafe { &proxy.task.as_ref().state };
    // No other thread has it yet. These are the transitions of a worker that takes a task and
    // leaves it before it starts.
    state.claim(0);
    let parked = state.park(Mobility::Movable);
    debug_assert_eq!(parked, Parking::Parked, "nobody could wake it");
    Ok(proxy)
}

/// Aborts: the contract of `open` was violated, and continuing would not be memory-safe.
fn abort(what: &str) -> ! {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "parcae: a foreign nursery was {what}");
    std::process::abort()
}
