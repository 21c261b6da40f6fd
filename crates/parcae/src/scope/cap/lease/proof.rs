//! The proof of a lease: the properties of its worker, and how each of them is known.

use super::{LeaseNode, Pin};
use crate::base::cpu::{self, Facts, TakenCpu};
use crate::base::error::LeaseFact;
use crate::sched::Shared;
use parcae_core::lease::Host;
use std::fmt;
use std::time::Duration;

/// A property, how far it was established, and the reason.
type KnownFact = (LeaseFact, Assurance, String);

/// How far a property was established.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Assurance {
    /// It does not hold, or was not asked for.
    Absent,
    /// It was declared by the program, or cannot be looked at.
    Assumed,
    /// It was looked at, or follows from the structure of the runtime.
    Verified,
}

impl fmt::Display for Assurance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Assurance::Absent => "absent",
            Assurance::Assumed => "assumed",
            Assurance::Verified => "verified",
        })
    }
}

/// The known properties of a worker that was leased, when the lease was put into force. Prints a
/// line for each of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseProof {
    pub(super) worker: usize,
    pub(super) cpu: Option<usize>,
    pub(super) facts: Vec<KnownFact>,
}

impl LeaseProof {
    /// Which worker.
    pub fn worker(&self) -> usize {
        self.worker
    }

    /// The processor that its thread has for itself.
    pub fn cpu(&self) -> Option<usize> {
        self.cpu
    }

    /// How far a property was established.
    pub fn assurance(&self, fact: LeaseFact) -> Assurance {
        let found = self.facts.iter().find(|(known, ..)| *known == fact);
        found.map_or(Assurance::Absent, |(_, standing, _)| *standing)
    }

    /// All properties, each with its standing and the reason.
    pub fn facts(&self) -> impl Iterator<Item = (LeaseFact, Assurance, &str)> {
        self.facts.iter().map(|(fact, standing, why)| (*fact, *standing, &**why))
    }
}

impl fmt::Display for LeaseProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "worker {}", self.worker)?;
        match self.cpu {
            Some(cpu) => writeln!(f, " on processor {cpu}")?,
            None => writeln!(f, ", on no processor of its own")?,
        }
        for (fact, standing, why) in &self.facts {
            writeln!(f, "  {fact:<24}{standing:<10}{why}")?;
        }
        Ok(())
    }
}

impl LeaseNode {
    /// The properties that the runtime itself brings about.
    pub(super) fn own_facts(&self) -> Vec<KnownFact> {
        use Assurance::{Assumed, Verified};
        use LeaseFact::{Account, Housekeeping, Latency, Monitor, Network, Tasks, Timers};
        let verified = |fact, why: &str| (fact, Verified, why.to_owned());
        let latency = Duration::from_nanos(self.opts.terms(0).latency);
        let allowed = self.opts.max_latency;
        let declared = format!("declared: {latency:?} to a checkpoint, {allowed:?} are allowed");
        vec![
            verified(Tasks, "the worker has told that it has none, and takes none"),
            verified(Timers, "no worker acts on deadlines of others"),
            verified(Network, "the worker has told that none is registered"),
            verified(Monitor, "leased workers are passed over; stalls there are not reported"),
            verified(Housekeeping, "the lease table leaves a worker"),
            verified(Account, "the context was live when the lease was put into force"),
            (Latency, Assumed, declared),
        ]
    }

    /// Gives the thread its processor, and says what is known about that.
    pub(super) fn pin(&self, shared: &Shared) -> (Option<TakenCpu>, Vec<KnownFact>) {
        use Assurance::{Absent, Assumed, Verified};
        use LeaseFact::{Affinity, Core, Interrupts, Isolated, Priority, Tickless};
        let nothing = |why: &str| {
            let facts = [Affinity, Isolated, Tickless, Core, Interrupts, Priority];
            (None, facts.map(|fact| (fact, Absent, why.to_owned())).to_vec())
        };
        let wanted = match self.opts.pin {
            _ if shared.config.deterministic => return nothing("a virtual worker has no thread"),
            Pin::No => return nothing("not asked for"),
            Pin::Any => None,
            Pin::To(cpu) => Some(cpu),
        };
        let thread = shared.remotes[self.worker].thread.tid();
        let mut cpu = match cpu::take(thread, wanted) {
            Ok(cpu) => cpu,
            Err(error) => return nothing(&error.to_string()),
        };
        let known = |fact, holds: Option<bool>, silent: &str| match holds {
            Some(true) => (fact, Verified, "the kernel says so".to_owned()),
            Some(false) => (fact, Absent, "the kernel says that it is not".to_owned()),
            None => (fact, Assumed, silent.to_owned()),
        };
        let host = Facts::of(cpu.number());
        let confirmed = match cpu.is_confirmed() {
            true => (Verified, "the masks of all threads of the runtime were read back"),
            false => (Assumed, "a mask is not as it was set"),
        };
        let priority = match self.opts.priority.map(|priority| cpu.run_first(priority)) {
            None => (Absent, "not asked for".to_owned()),
            Some(Ok(())) => (Verified, "SCHED_FIFO".to_owned()),
            Some(Err(error)) => (Absent, error.to_string()),
        };
        let absent = |fact, why: &str| (fact, Absent, why.to_owned());
        let facts = vec![
            (Affinity, confirmed.0, confirmed.1.to_owned()),
            match host.isolated {
                None => absent(Isolated, "the kernel lists no isolated processors"),
                some => known(Isolated, some, ""),
            },
            match host.tickless {
                None => absent(Tickless, "the kernel lists no such processors"),
                some => known(Tickless, some, ""),
            },
            known(Core, host.alone_on_core, "the kernel does not tell"),
            (Interrupts, Assumed, "the masks of interrupts were not looked at".to_owned()),
            (Priority, priority.0, priority.1),
        ];
        (Some(cpu), facts)
    }
}

/// The isolation by the host, in the words of the lease table.
pub(super) fn host_of(facts: &[KnownFact]) -> Host {
    let of =
        |fact| facts.iter().find(|(known, ..)| *known == fact).map(|(_, standing, _)| *standing);
    match of(LeaseFact::Isolated).min(of(LeaseFact::Affinity)) {
        Some(Assurance::Verified) => Host::Verified,
        Some(Assurance::Assumed) => Host::Assumed,
        _ => Host::Absent,
    }
}
