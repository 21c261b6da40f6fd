//! Islands: a graph of contexts that is admitted as a whole, or not at all.
//!
//! A loop that must keep up (audio, control) is more than one priority: it is contexts on some
//! workers, memory, devices, interrupts and rings, perhaps leases. A [`Plan`] names them all.
//! [`admit`](Islands::admit) checks every part first, including the admission test of each worker
//! with its existing contexts. Only if all parts fit does it take anything, and then taking cannot
//! fail. The result of the check is kept as [`Evidence`].
//!
//! ```text
//!            admit                 report: overrun or miss, `Response::Stop`
//!  (nothing) -----> Admitted ------------------------------------------> Stopped
//!                      |                                                    |
//!                      '------------------- dissolve ----------------------'---> (nothing)
//! ```
//!
//! After admission nothing is allocated or waited for: all memory was given before. An
//! island that asked for it is stopped by its first overrun or missed deadline: *all* its
//! contexts are halted, not only the one that failed, until it is dissolved.
//!
//! Conserved: memory that is free + memory of islands = memory given at the start. A device,
//! an interrupt, a ring belongs to one island at most.
//!
//! ```
//! use parcae_core::WorkerSet;
//! use parcae_core::admission::Capacity;
//! use parcae_core::context::{ContextSlot, Contexts, Overrun, Params, PartySlot};
//! use parcae_core::island::*;
//! use parcae_core::lease::{LeaseSlot, Leases};
//!
//! let mut host = Host {
//!     tables: [Contexts::new(0, [ContextSlot::EMPTY; 4], [PartySlot::EMPTY; 4])],
//!     leases: Leases::new(WorkerSet::first(2), [LeaseSlot::EMPTY; 1]),
//!     capacity: Capacity::default(),
//! };
//! let mut islands = Islands::new(1 << 20, [IslandSlot::EMPTY; 2], [MemberSlot::EMPTY; 8]);
//! let loud = Params { overrun: Overrun::Notify, ..Params::new(20, 100) };
//! let plan = Plan {
//!     contexts: &[(0, loud), (0, loud)],
//!     memory: 4096,
//!     claims: &[Claim::Device(3)],
//!     leases: &[],
//!     response: Response::Stop,
//! };
//! let island = islands.admit(&plan, &mut host, 0)?;
//! assert_eq!(islands.evidence(island).unwrap().tightest.load, 400_000);
//!
//! // A second one of that kind finds the device taken, and nothing has changed.
//! assert_eq!(islands.admit(&plan, &mut host, 0), Err(NotAdmitted::Claimed { nth: 0 }));
//! assert_eq!(islands.memory_free(), (1 << 20) - 4096);
//! # Ok::<(), NotAdmitted>(())
//! ```

use crate::admission::{Admitted, Capacity, Demand, Rejected, examine};
use crate::context::{
    self, ContextId, ContextSlot, Contexts, Event, EventKind, Overrun, Params, PartyId, PartySlot,
};
use crate::lease::{self, Cause, LeaseId, LeaseSlot, Leases, Notice};
use crate::slab::{Key, Memory, Slab, Slot};
use core::fmt;

/// The requirements of an island.
#[derive(Debug, Clone, Copy)]
pub struct Plan<'a> {
    /// Its contexts, each with its worker.
    pub contexts: &'a [(u8, Params)],
    /// Its memory, in bytes.
    pub memory: u64,
    /// Resources that it needs exclusively.
    pub claims: &'a [Claim],
    /// The leases it needs.
    pub leases: &'a [lease::Terms],
    /// The response to an overrun or a missed deadline of one of its contexts.
    pub response: Response,
}

/// Something that belongs to one island at most. The numbers are the caller's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Claim {
    /// A device.
    Device(u64),
    /// An interrupt, or what stands for one.
    Interrupt(u64),
    /// A submission ring.
    Ring(u64),
    /// An endpoint or a notification.
    Endpoint(u64),
}

/// The response to overruns and missed deadlines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Response {
    /// They are counted.
    Report,
    /// The first stops the island.
    Stop,
}

/// The host of islands.
#[derive(Debug)]
pub struct Host<T, L> {
    /// The contexts of each worker.
    pub tables: T,
    /// The leases of all.
    pub leases: Leases<L>,
    /// The capacity of each worker.
    pub capacity: Capacity,
}

/// The evidence of an admission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Evidence {
    /// When.
    pub at: u64,
    /// How many contexts.
    pub contexts: u32,
    /// How many leases.
    pub leases: u32,
    /// How many claims.
    pub claims: u32,
    /// How much memory.
    pub memory: u64,
    /// The worker with the least slack.
    pub worker: u8,
    /// And its answer.
    pub tightest: Admitted,
}

/// How an island fares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Telemetry {
    /// Missed deadlines of its contexts.
    pub missed: u64,
    /// By how much at worst.
    pub worst_miss: u64,
    /// Overruns of its contexts.
    pub overruns: u64,
    /// By how much at worst.
    pub worst_overrun: u64,
}

/// In which state an island is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// It runs.
    Admitted,
    /// An overrun or a miss stopped it; its contexts are halted.
    Stopped,
}

/// An island, as a record in a table.
#[derive(Debug)]
pub struct Island {
    response: Response,
    evidence: Evidence,
    telemetry: Telemetry,
    status: Status,
}

/// Something that an island has, as a record in a table.
#[derive(Debug)]
pub struct Member {
    island: u32,
    /// Its place in the plan.
    nth: u32,
    what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Context(u8, ContextId),
    Lease(LeaseId),
    Claim(Claim),
}

/// Handle of an island.
pub type IslandId = Key<Island>;
/// Memory for one island.
pub type IslandSlot = Slot<Island>;
/// Memory for one context, lease or claim of an island.
pub type MemberSlot = Slot<Member>;

/// All islands of a runtime. See the [module](self).
#[derive(Debug)]
pub struct Islands<I, M> {
    islands: Slab<Island, I>,
    members: Slab<Member, M>,
    memory_free: u64,
}

impl<I: Memory<IslandSlot>, M: Memory<MemberSlot>> Islands<I, M> {
    /// No islands, with this much memory for them.
    pub fn new(memory_free: u64, islands: I, members: M) -> Islands<I, M> {
        Islands { islands: Slab::new(islands), members: Slab::new(members), memory_free }
    }

    /// How much memory islands can still get.
    pub fn memory_free(&self) -> u64 {
        self.memory_free
    }

    /// Takes all of the plan, or nothing.
    ///
    /// # Errors
    ///
    /// The first part that does not fit.
    pub fn admit<T, L, C, P>(
        &mut self,
        plan: &Plan<'_>,
        host: &mut Host<T, L>,
        now: u64,
    ) -> Result<IslandId, NotAdmitted>
    where
        T: Memory<Contexts<C, P>>,
        L: Memory<LeaseSlot>,
        C: Memory<ContextSlot>,
        P: Memory<PartySlot>,
    {
        let evidence = self.check(plan, host, now)?;
        let Plan { response, .. } = *plan;
        let (telemetry, status) = (Telemetry::default(), Status::Admitted);
        let island = Island { response, evidence, telemetry, status };
        let island = self.islands.insert(island).ok_or(NotAdmitted::Full)?;

        self.memory_free -= plan.memory;
        for (&(worker, params), nth) in plan.contexts.iter().zip(0..) {
            let table = find(host.tables.as_mut(), worker).expect("checked");
            let context = table.create(params, now).expect("checked");
            self.add(island, nth, What::Context(worker, context));
        }
        for (&terms, nth) in plan.leases.iter().zip(0..) {
            let lease = host.leases.grant(terms).expect("checked");
            self.add(island, nth, What::Lease(lease));
        }
        for (&claim, nth) in plan.claims.iter().zip(0..) {
            self.add(island, nth, What::Claim(claim));
        }
        Ok(island)
    }

    /// Everything that [`admit`](Islands::admit) relies on.
    fn check<T, L, C, P>(
        &self,
        plan: &Plan<'_>,
        host: &Host<T, L>,
        now: u64,
    ) -> Result<Evidence, NotAdmitted>
    where
        T: Memory<Contexts<C, P>>,
        L: Memory<LeaseSlot>,
        C: Memory<ContextSlot>,
        P: Memory<PartySlot>,
    {
        let members = plan.contexts.len() + plan.leases.len() + plan.claims.len();
        if self.islands.vacant() == 0 || self.members.vacant() < members {
            return Err(NotAdmitted::Full);
        }
        if plan.contexts.is_empty() {
            return Err(NotAdmitted::Empty);
        }
        if plan.memory > self.memory_free {
            let missing = plan.memory - self.memory_free;
            return Err(NotAdmitted::Memory { missing });
        }
        for (nth, claim) in plan.claims.iter().enumerate() {
            let taken = self.members.iter().any(|(_, member)| member.what == What::Claim(*claim));
            if taken || plan.claims[..nth].contains(claim) {
                return Err(NotAdmitted::Claimed { nth });
            }
        }
        host.leases.check(plan.leases).map_err(NotAdmitted::Lease)?;
        let mut tightest = None;
        for (nth, &(worker, params)) in plan.contexts.iter().enumerate() {
            let table = host.tables.as_ref().iter().find(|table| table.worker() == worker);
            let table = table.filter(|_| host.leases.owner_of(worker).is_none());
            let table = table.ok_or(NotAdmitted::NoWorker { nth })?;
            table.check_params(&params).map_err(|why| NotAdmitted::Context { nth, why })?;
            if params.overrun == Overrun::Throttle {
                return Err(NotAdmitted::Silent { nth });
            }
            let here = plan.contexts.iter().filter(|&&(other, _)| other == worker);
            if table.vacant() < here.clone().count() {
                return Err(NotAdmitted::Full);
            }
            let new = here.map(|(_, params)| Demand::from(params));
            let answer = examine(table.demands().chain(new), &host.capacity)
                .map_err(|why| NotAdmitted::Worker { worker, why })?;
            if tightest.is_none_or(|(_, least): (u8, Admitted)| answer.slack < least.slack) {
                tightest = Some((worker, answer));
            }
        }
        let (worker, tightest) = tightest.ok_or(NotAdmitted::Empty)?;
        let [contexts, leases, claims] =
            [plan.contexts.len(), plan.leases.len(), plan.claims.len()].map(|count| count as u32);
        let memory = plan.memory;
        Ok(Evidence { at: now, contexts, leases, claims, memory, worker, tightest })
    }

    /// An event of a context on `worker`. If that belongs to an island, it is counted there; and
    /// if it is an overrun or a miss and the island responds to such by stopping, all its
    /// contexts are halted. Returns the island if it is stopped now.
    pub fn report<C: Memory<ContextSlot>, P: Memory<PartySlot>>(
        &mut self,
        worker: u8,
        event: &Event,
        tables: &mut [Contexts<C, P>],
    ) -> Option<IslandId> {
        let context = What::Context(worker, event.context);
        let island = self.members.iter().find(|(_, member)| member.what == context)?.1.island;
        let record = self.islands.at_mut(island);
        let (count, amount) = (u64::from(event.count), event.amount);
        let telemetry = &mut record.telemetry;
        match event.kind {
            EventKind::Missed => {
                telemetry.missed += count;
                telemetry.worst_miss = telemetry.worst_miss.max(amount);
            }
            EventKind::Overrun => {
                telemetry.overruns += count;
                telemetry.worst_overrun = telemetry.worst_overrun.max(amount);
            }
            EventKind::Depleted | EventKind::Timeout => return None,
        }
        if record.response == Response::Report {
            return None;
        }
        record.status = Status::Stopped;
        for (_, member) in self.members.iter().filter(|(_, member)| member.island == island) {
            if let What::Context(worker, context) = member.what
                && let Some(table) = find(tables, worker)
            {
                // A context that was destroyed in the meantime needs no halt.
                let _ = table.halt(context);
            }
        }
        Some(self.islands.key(island))
    }

    /// Gives everything back: contexts are destroyed, leases revoked, memory and claims free.
    /// Returns the parties that were running and the leases that must be left.
    ///
    /// # Errors
    ///
    /// A stale handle.
    pub fn dissolve<T, L, C, P>(
        &mut self,
        island: IslandId,
        host: &mut Host<T, L>,
        now: u64,
        mut tell: impl FnMut(Farewell),
    ) -> Result<(), NotAdmitted>
    where
        T: Memory<Contexts<C, P>>,
        L: Memory<LeaseSlot>,
        C: Memory<ContextSlot>,
        P: Memory<PartySlot>,
    {
        let record = self.islands.remove(island).ok_or(NotAdmitted::Stale)?;
        self.memory_free += record.evidence.memory;
        while let Some((key, what)) = self.first(island) {
            self.members.remove(key);
            match what {
                What::Context(worker, context) => {
                    let table = find(host.tables.as_mut(), worker);
                    let destroyed = table.and_then(|table| table.destroy(context, now).ok());
                    if let Some(party) = destroyed.flatten() {
                        tell(Farewell::Interrupted { worker, party });
                    }
                }
                What::Lease(lease) => {
                    if let Ok(notice) = host.leases.revoke(lease, now, Cause::Policy) {
                        tell(Farewell::Revoked(notice));
                    }
                }
                What::Claim(_) => {}
            }
        }
        Ok(())
    }

    /// The context that came of the plan's `nth`, and its worker.
    pub fn context(&self, island: IslandId, nth: u32) -> Option<(u8, ContextId)> {
        self.find_member(island, nth, |what| match what {
            What::Context(worker, context) => Some((worker, context)),
            _ => None,
        })
    }

    /// The lease that came of the plan's `nth`.
    pub fn lease(&self, island: IslandId, nth: u32) -> Option<LeaseId> {
        self.find_member(island, nth, |what| match what {
            What::Lease(lease) => Some(lease),
            _ => None,
        })
    }

    /// The evidence of its admission.
    pub fn evidence(&self, island: IslandId) -> Option<Evidence> {
        self.islands.get(island).map(|island| island.evidence)
    }

    /// How it fares.
    pub fn telemetry(&self, island: IslandId) -> Option<Telemetry> {
        self.islands.get(island).map(|island| island.telemetry)
    }

    /// Whether it runs.
    pub fn status(&self, island: IslandId) -> Option<Status> {
        self.islands.get(island).map(|island| island.status)
    }

    fn add(&mut self, island: IslandId, nth: u32, what: What) {
        let member = Member { island: island.index(), nth, what };
        self.members.insert(member).expect("checked");
    }

    fn first(&self, island: IslandId) -> Option<(Key<Member>, What)> {
        let mut members = self.members.iter();
        let (key, member) = members.find(|(_, member)| member.island == island.index())?;
        Some((key, member.what))
    }

    fn find_member<R>(
        &self,
        island: IslandId,
        nth: u32,
        pick: impl Fn(What) -> Option<R>,
    ) -> Option<R> {
        self.islands.get(island)?;
        let own = |member: &Member| member.island == island.index() && member.nth == nth;
        let mut members = self.members.iter().map(|(_, member)| member).filter(|m| own(m));
        members.find_map(|member| pick(member.what))
    }
}

/// The effects of an island's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Farewell {
    /// The party was running on one of its contexts and must be taken off the worker.
    Interrupted {
        /// Which worker.
        worker: u8,
        /// Who.
        party: PartyId,
    },
    /// A lease must be left, or is free already.
    Revoked(Notice),
}

fn find<C, P>(tables: &mut [Contexts<C, P>], worker: u8) -> Option<&mut Contexts<C, P>>
where
    C: Memory<ContextSlot>,
    P: Memory<PartySlot>,
{
    tables.iter_mut().find(|table| table.worker() == worker)
}

/// Why an island was not admitted. Nothing was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotAdmitted {
    /// No slot is free: for the island, its members or its contexts.
    Full,
    /// The island was dissolved.
    Stale,
    /// The plan has no context.
    Empty,
    /// There is not enough memory.
    Memory {
        /// How much is missing.
        missing: u64,
    },
    /// A claim belongs to another island, or is in the plan twice.
    Claimed {
        /// Which one.
        nth: usize,
    },
    /// A lease cannot be granted.
    Lease(lease::Refused),
    /// There is no such worker, or it is leased.
    NoWorker {
        /// Of which context.
        nth: usize,
    },
    /// The terms of a context are no good.
    Context {
        /// Which one.
        nth: usize,
        /// Why.
        why: context::Refused,
    },
    /// A context does not report overruns and missed deadlines, which an island requires.
    Silent {
        /// Which one.
        nth: usize,
    },
    /// A worker cannot serve the contexts of the plan.
    Worker {
        /// Which one.
        worker: u8,
        /// The reason.
        why: Rejected,
    },
}

impl fmt::Display for NotAdmitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotAdmitted::Full => f.write_str("no slot is free; give the tables more memory"),
            NotAdmitted::Stale => f.write_str("the island was dissolved; admit another"),
            NotAdmitted::Empty => f.write_str("the plan has no context; name at least one"),
            NotAdmitted::Memory { missing } => {
                write!(f, "{missing} bytes of memory are missing; ask for less")
            }
            NotAdmitted::Claimed { nth } => {
                write!(f, "claim {nth} is taken; dissolve the island that has it")
            }
            NotAdmitted::Lease(why) => why.fmt(f),
            NotAdmitted::NoWorker { nth } => {
                write!(f, "context {nth}: no such worker, or it is leased; name another")
            }
            NotAdmitted::Context { nth, why } => write!(f, "context {nth}: {why}"),
            NotAdmitted::Silent { nth } => write!(
                f,
                "context {nth} does not report overruns; give it `Overrun::Notify` or `Halt`"
            ),
            NotAdmitted::Worker { worker, why } => write!(f, "worker {worker}: {why}"),
        }
    }
}

impl core::error::Error for NotAdmitted {}
