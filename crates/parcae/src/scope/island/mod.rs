//! Realtime islands: periodic tasks that are admitted together, prepared before they start, and
//! kept from operations that take time without a bound.
//!
//! ```text
//! IslandPlan ──Runtime::admit_island──► Island ──run──► stages prepared ──► started ──► ended
//!              contexts, lease                 │   records, stacks, code     │
//!              or nothing                      '─ a failure: none starts ────┴─ a breach: all stop
//! ```
//!
//! # All or nothing
//!
//! Admission takes the contexts one by one, and the lease. If one is refused, those before it are
//! dropped, which gives their time back. [`Island::run`] spawns all stages, so that each has its
//! record and its stack; each one runs its own preparations, touches and locks its stack, and waits
//! at a gate ([`StageGate`]). The gate opens when all of them are there. If one fails before that,
//! the nursery cancels the others at the gate, and none has run a job.
//!
//! The contexts of a scheduler are in tables of their own for each worker, each under its lock.
//! `parcae_core::island` would need them all at once, so its order of checks is kept here and its
//! table is not used: admission has effects that others can see for a moment, and takes them back.
//!
//! # Sealed
//!
//! From its first job to its end the code of a stage is sealed (`scope::cx::frame::seal`): it may
//! not allocate, block, wait without a deadline, spawn, or open a nursery. Each of these fails with
//! [`IslandRefused`]. Allocations are seen if [`parcae::Allocator`](crate::Allocator) is installed;
//! without it nothing is known about them.
//!
//! # Fail closed
//!
//! Under [`Response::Stop`] the first missed deadline, overrun or refused operation ends the
//! context of its stage. The island follows the tokens of all contexts: its own token is cancelled,
//! and so are all stages. A stage that comes to no checkpoint goes on until it does, on no promised
//! time. Under [`Response::Report`] everything is counted, and refused operations fail alone.

mod gate;
mod pipe;
mod stage;
mod telemetry;

pub use pipe::{PipeReceiver, PipeSender, pipe};
pub use stage::Stage;
pub use telemetry::{IslandTelemetry, StageTelemetry};

use crate::base::error::{Error, ErrorKind, IslandRefused, Result};
use crate::sched::Shared;
use crate::scope::budget::Budget;
use crate::scope::cancel::{CancelToken, OnCancel};
use crate::scope::cap::{CapContext, ContextNode, ContextOpts, CpuLease, LeaseOpts, Mint};
use crate::scope::cx::Cx;
use crate::scope::nursery::{Nursery, NurseryOpts, SpawnOpts};
use crate::scope::profile::SpawnsFreely;
use crate::stack::StackSize;
use gate::StageGate;
use parcae_core::WorkerSet;
use parcae_core::island::Response;
use stage::StageRecord;
use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Whether the stacks of the stages are locked in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum LockMemory {
    /// They are touched, and may be paged out.
    #[default]
    No,
    /// If the system permits it; the telemetry says whether.
    IfPermitted,
    /// The island does not start otherwise.
    Required,
}

/// Makes the options of an island's lease.
type LeaseChoice = dyn Fn(LeaseOpts) -> LeaseOpts + Send + Sync;

/// The requirements of a realtime island: its stages, each with a budget in each period, and the
/// response to a breach.
///
/// ```
/// use parcae::island::IslandPlan;
/// use parcae::policy::{ContextOpts, Response};
/// use std::time::Duration;
///
/// let ms = Duration::from_millis;
/// let mut plan = IslandPlan::new("audio").response(Response::Stop);
/// let _source = plan.stage("source", ContextOpts::new(ms(1), ms(10)));
/// let _mixer = plan.stage("mixer", ContextOpts::new(ms(1), ms(10)).deadline(ms(8)));
/// ```
#[must_use]
pub struct IslandPlan {
    name: Arc<str>,
    stages: Vec<(Arc<str>, ContextOpts, Option<StackSize>)>,
    response: Response,
    lock: LockMemory,
    lease: Option<Box<LeaseChoice>>,
}

/// A stage of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StageId(usize);

impl IslandPlan {
    /// A plan without stages. A breach stops the island.
    pub fn new(name: impl Into<Arc<str>>) -> IslandPlan {
        IslandPlan {
            name: name.into(),
            stages: Vec::new(),
            response: Response::Stop,
            lock: LockMemory::No,
            lease: None,
        }
    }

    /// Adds a stage: one task, on a context with these terms. An overrun policy that says nothing
    /// about overruns is replaced: by one that ends the context if more than the distance of its
    /// checkpoints is used beyond the budget, or by one that reports, as the response says.
    pub fn stage(&mut self, name: impl Into<Arc<str>>, context: ContextOpts) -> StageId {
        self.stages.push((name.into(), context, None));
        StageId(self.stages.len() - 1)
    }

    /// The size of the stack of a stage. All of it is touched before the island starts.
    pub fn stack_size(&mut self, stage: StageId, size: StackSize) {
        self.stages[stage.0].2 = Some(size);
    }

    /// The response to missed deadlines, overruns and refused operations.
    pub fn response(mut self, response: Response) -> IslandPlan {
        self.response = response;
        self
    }

    /// Whether the stacks are locked in memory.
    pub fn lock_memory(mut self, lock: LockMemory) -> IslandPlan {
        self.lock = lock;
        self
    }

    /// All stages are on one worker, which is leased. The closure may change the options.
    pub fn lease(
        mut self,
        opts: impl Fn(LeaseOpts) -> LeaseOpts + Send + Sync + 'static,
    ) -> IslandPlan {
        self.lease = Some(Box::new(opts));
        self
    }

    /// The contexts of all stages, on workers of this set.
    fn admit_on(
        &self,
        mint: &Mint,
        shared: &Arc<Shared>,
        workers: Option<WorkerSet>,
    ) -> Result<Vec<CapContext>> {
        let admit = |(name, opts, _): &(Arc<str>, ContextOpts, _)| {
            let opts = opts.in_island(self.response == Response::Stop);
            let opts = workers.map_or(opts, |workers| opts.on(workers));
            let failed = |error: Error| {
                error.context(format!("admitting the stage `{name}` of the island `{}`", self.name))
            };
            mint.context(shared, opts).map_err(failed)
        };
        self.stages.iter().map(admit).collect() // those before a refusal are dropped
    }

    /// The contexts and the lease, on one of the workers.
    fn admit_leased(
        &self,
        mint: &Mint,
        shared: &Arc<Shared>,
        lease: &LeaseChoice,
    ) -> Result<(Vec<CapContext>, CpuLease)> {
        let mut refused = None;
        // The last ones first: programs and systems tend to use the first ones for other things.
        for worker in (0..shared.config.workers.min(256)).rev() {
            let on = Some(WorkerSet::of(worker as u8));
            let admitted = self.admit_on(mint, shared, on).and_then(|contexts| {
                let mut all = contexts.iter();
                let first =
                    all.next().ok_or(Error::new(ErrorKind::IslandRefused(IslandRefused::Empty)))?;
                let opts = all.fold(LeaseOpts::new(first), LeaseOpts::with);
                let lease = mint.lease(shared, lease(opts))?;
                Ok((contexts, lease))
            });
            match admitted {
                Ok(admitted) => return Ok(admitted),
                Err(error) => refused = Some(error),
            }
        }
        Err(refused.unwrap_or_else(|| unreachable!("there is a worker")))
    }
}

/// A realtime island that was admitted: its stages have their contexts, and its worker is reserved
/// if the plan has a lease. [`Runtime::admit_island`](crate::Runtime::admit_island) makes it.
///
/// ```
/// use parcae::island::{IslandPlan, pipe};
/// use parcae::policy::ContextOpts;
/// use parcae::prelude::*;
/// use std::time::Duration;
///
/// let rt = Runtime::builder().deterministic(1).build()?;
/// let ms = Duration::from_millis;
/// let mut plan = IslandPlan::new("audio");
/// let source = plan.stage("source", ContextOpts::new(ms(1), ms(10)));
/// let mixer = plan.stage("mixer", ContextOpts::new(ms(2), ms(10)));
/// let island = rt.admit_island(plan)?;
///
/// let (out, input) = pipe::<[f32; 64]>(4);
/// rt.run(|cx| {
///     island.run(cx, |stages| {
///         stages.stage(source, move |stage| {
///             let mut block = vec![0.5; 64]; // before the first period everything is allowed
///             for _ in 0..10 {
///                 stage.next_period()?; // from here on the code is sealed
///                 block[0] += 1.0;
///                 let _ = out.send(block[..].try_into()?); // never waits
///             }
///             Ok(())
///         })?;
///         stages.stage(mixer, move |stage| {
///             for _ in 0..10 {
///                 stage.next_period()?;
///                 let _sum: f32 = input.receive().iter().flatten().sum();
///             }
///             Ok(())
///         })
///     })
/// })?;
/// let telemetry = island.telemetry();
/// assert_eq!((telemetry.stages[0].jobs, telemetry.stages[0].missed), (10, 0));
/// # Ok::<(), parcae::Error>(())
/// ```
///
/// Dropping it gives everything back.
pub struct Island {
    name: Arc<str>,
    stages: Vec<Arc<StageRecord>>,
    /// Dropped before the contexts.
    lease: Option<CpuLease>,
    contexts: Vec<CapContext>,
    lock: LockMemory,
    response: Response,
    /// Cancelled when a context is revoked, and by `stop`.
    token: CancelToken,
    stopped: AtomicBool,
    running: AtomicBool,
    _follow: Vec<OnCancel>,
}

impl Island {
    pub(crate) fn admit(mint: &Mint, shared: &Arc<Shared>, plan: IslandPlan) -> Result<Island> {
        if plan.stages.is_empty() {
            return Err(refused(IslandRefused::Empty));
        }
        let (contexts, lease) = match &plan.lease {
            None => (plan.admit_on(mint, shared, None)?, None),
            Some(lease) => {
                let (contexts, lease) = plan.admit_leased(mint, shared, lease)?;
                (contexts, Some(lease))
            }
        };
        let token = CancelToken::new();
        let follow = |context: &CapContext| {
            let token = token.clone();
            context.node().token().on_cancel(move |_| token.cancel())
        };
        let stages = plan.stages.iter().zip(&contexts).map(|((name, _, stack), context)| {
            let index = context.node().index();
            if let Some(seal) = shared.queues.seal(index) {
                seal.reset(plan.response == Response::Stop);
            }
            Arc::new(StageRecord::new(Arc::clone(name), *stack))
        });
        Ok(Island {
            name: plan.name,
            stages: stages.collect(),
            lease,
            _follow: contexts.iter().map(follow).collect(),
            contexts,
            lock: plan.lock,
            response: plan.response,
            token,
            stopped: AtomicBool::new(false),
            running: AtomicBool::new(false),
        })
    }

    /// Runs the island: `body` gives each stage its code, then all stages are prepared, and then
    /// they start together. Returns when all of them have ended. Once only.
    ///
    /// A lease is put into force first; that may take as long as tasks of others run on its worker,
    /// but at most a second.
    ///
    /// # Errors
    ///
    /// [`IslandRefused`](crate::ErrorKind::IslandRefused): a stage got no code, a stack could not
    /// be locked, the island was stopped by a breach; or the first error of a stage. If the error
    /// came before the start, no stage has run a job.
    pub fn run<'env, P: SpawnsFreely, R>(
        &self,
        cx: &Cx<P>,
        body: impl for<'scope> FnOnce(&IslandStages<'scope, 'env, P>) -> Result<R>,
    ) -> Result<R> {
        if self.running.swap(true, Ordering::Relaxed) {
            return Err(refused(IslandRefused::Running)); // Relaxed: one of two gets it
        }
        if self.token.is_cancelled() {
            return Err(refused(IslandRefused::Stopped));
        }
        if let Some(lease) = &self.lease {
            lease.activate(Duration::from_secs(1))?;
        }
        let gate = Arc::new(StageGate::new(cx.frame().task_ref(), self.stages.len()));
        let opts = NurseryOpts::new().name(Arc::clone(&self.name)).token(&self.token);
        let mut kept = None;
        let given: Vec<Cell<bool>> = self.stages.iter().map(|_| Cell::new(false)).collect();
        let ended = cx.nursery_with(opts, |nursery| {
            let stages = IslandStages {
                nursery,
                contexts: self.contexts.iter().map(CapContext::node).collect(),
                records: self.stages.clone(),
                given,
                gate: Arc::clone(&gate),
                lock: self.lock,
                response: self.response,
            };
            let result = body(&stages)?;
            if let Some(stage) = stages.given.iter().position(|given| !given.get()) {
                return Err(refused(IslandRefused::Code { stage }));
            }
            while !gate.opens(cx) {
                cx.park()?;
            }
            kept = Some(result);
            Ok(())
        });
        match (ended, kept) {
            (Ok(()), Some(result)) => Ok(result),
            (Err(error), kept) if error.is_cancelled() => match (self.first_breach(), kept) {
                (Some((stage, what)), _) => {
                    let at = format!("stage `{stage}` of the island `{}`", self.name);
                    Err(refused(what).context(at))
                }
                // Relaxed: `stop` has cancelled the token after it, which was seen.
                (None, Some(result)) if self.stopped.load(Ordering::Relaxed) => Ok(result),
                _ => Err(error),
            },
            (Err(error), _) => Err(error),
            (Ok(()), None) => unreachable!("the body has returned"),
        }
    }

    /// Stops the island, from any thread: its stages are cancelled, and [`run`](Island::run)
    /// returns.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed); // see `run`
        self.token.cancel();
    }

    /// Whether it was stopped, by its owner or by a breach.
    pub fn is_stopped(&self) -> bool {
        self.token.is_cancelled()
    }

    /// The contexts of the stages, in the order of the plan.
    pub fn contexts(&self) -> &[CapContext] {
        &self.contexts
    }

    /// The lease of its worker, if the plan has one.
    pub fn lease(&self) -> Option<&CpuLease> {
        self.lease.as_ref()
    }

    /// How it fares, at any time and from any thread.
    pub fn telemetry(&self) -> IslandTelemetry {
        let stages = self.stages.iter().zip(&self.contexts);
        IslandTelemetry {
            name: Arc::clone(&self.name),
            stages: stages.map(|(record, context)| record.telemetry(context)).collect(),
            first_breach: self.first_breach(),
        }
    }

    /// The first breach of the first stage that has one.
    fn first_breach(&self) -> Option<(Arc<str>, IslandRefused)> {
        self.stages.iter().zip(&self.contexts).find_map(|(record, context)| {
            let overran = || context.is_revoked() && context.stats().overruns > 0;
            let what = context.seal().first;
            let what = what.or_else(|| overran().then_some(IslandRefused::Overrun))?;
            Some((Arc::clone(record.name()), what))
        })
    }
}

impl fmt::Debug for Island {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Island")
            .field("name", &self.name)
            .field("stages", &self.stages.len())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for IslandPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IslandPlan")
            .field("name", &self.name)
            .field("stages", &self.stages)
            .field("response", &self.response)
            .finish_non_exhaustive()
    }
}

/// The stages of an island that is about to run, to be given their code.
pub struct IslandStages<'scope, 'env, P: SpawnsFreely> {
    nursery: &'scope Nursery<'scope, 'env, P>,
    contexts: Vec<Arc<ContextNode>>,
    records: Vec<Arc<StageRecord>>,
    given: Vec<Cell<bool>>,
    gate: Arc<StageGate>,
    lock: LockMemory,
    response: Response,
}

impl<'scope, P: SpawnsFreely> IslandStages<'scope, '_, P> {
    /// Gives a stage its code. Up to its first call of [`Stage::next_period`] it prepares itself:
    /// there it waits until all stages have come so far. From then on it is sealed.
    ///
    /// # Errors
    ///
    /// If the stage has code already, or there is no memory for its task.
    pub fn stage<F>(&self, id: StageId, code: F) -> Result<()>
    where
        F: FnOnce(&mut Stage<'_, P>) -> Result<()> + Send + 'scope,
    {
        let StageId(number) = id;
        let twice = || refused(IslandRefused::Code { stage: number });
        if self.given.get(number).is_none_or(|given| given.replace(true)) {
            return Err(twice());
        }
        let record = Arc::clone(&self.records[number]);
        let (gate, lock, response) = (Arc::clone(&self.gate), self.lock, self.response);
        let mut opts = SpawnOpts::new()
            .name(Arc::clone(record.name()))
            .context_of(&self.contexts[number])
            // It has a pool of its own, and spawns nothing.
            .budget(Budget::UNLIMITED.with_spawn_count(0));
        if let Some(size) = record.stack() {
            opts = opts.stack_size(size);
        }
        self.nursery.spawn_with(opts, move |cx| {
            let mut stage = Stage::new(cx, record, gate, lock, response);
            code(&mut stage)?;
            stage.has_run()
        })?;
        Ok(())
    }
}

impl<P: SpawnsFreely> fmt::Debug for IslandStages<'_, '_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IslandStages").field("given", &self.given).finish_non_exhaustive()
    }
}

fn refused(why: IslandRefused) -> Error {
    Error::new(ErrorKind::IslandRefused(why))
}
