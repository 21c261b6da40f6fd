//! Tenants in a snapshot: shares, and the time that each got.

use super::Snapshot;
use super::families::{Family, FamilyKind};
use crate::base::json::JsonObject;
use crate::sched::Shared;
use crate::sched::run_queue::{TenantReading, TenantShares, UpkeepReading};
use std::sync::Arc;
use std::time::Duration;

/// A tenant, in a [`Snapshot`].
///
/// Shares are fractions of the time of all workers while they work, and include those of tenants
/// inside of this one.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct TenantFigures {
    /// Its name; `None` for a tenant without a name, and for all tasks without a tenant.
    pub name: Option<Arc<str>>,
    /// Its number; 0 stands for all tasks without a tenant.
    pub number: usize,
    /// The number of the tenant that it was opened in; 0 if it was in none.
    pub parent: usize,
    /// Its weight.
    pub weight: u32,
    /// Open nurseries.
    pub open: u32,
    /// Number of its tasks that wait for any worker.
    pub queued: u32,
    /// Time that its own tasks ran. Zero under the deterministic executor, which counts ops.
    pub ran: Duration,
    /// Ops that its own tasks have used. On threads it leaves out tasks without a tenant that have
    /// ended in their first turn.
    pub ops: u64,
    /// Number of turns in which its tasks ran.
    pub turns: u64,
    /// Number of those that ended early, because a tenant with shorter slices was woken.
    pub preempted: u64,
    /// Number of blocking calls of its tasks that have ended. Under the deterministic executor,
    /// which makes them in place: that have begun.
    pub blocking_calls: u64,
    /// Time of these calls, on threads for them. It does not count for the share. Zero under the
    /// deterministic executor.
    pub blocked: Duration,
    /// The share that its weight stands for, among the tenants that are open.
    pub wanted: f64,
    /// The share that it could have: no more than workers have ready tasks of it.
    pub feasible: f64,
    /// The share that it got: of the last 100 ms of one worker, or 2²⁰ ops.
    pub got: f64,
}

impl TenantFigures {
    /// Its name, or its number.
    pub(in crate::view) fn label(&self) -> String {
        match (&self.name, self.number) {
            (Some(name), _) => name.to_string(),
            (None, 0) => "(no tenant)".into(),
            (None, number) => format!("#{number}"),
        }
    }

    fn of(tenant: TenantReading, in_nanos: bool) -> TenantFigures {
        TenantFigures {
            name: tenant.name,
            number: tenant.index,
            parent: tenant.parent,
            weight: tenant.weight,
            open: tenant.open,
            queued: tenant.waiting,
            ran: Duration::from_nanos(if in_nanos { tenant.charged } else { 0 }),
            ops: tenant.ops,
            turns: tenant.turns,
            preempted: tenant.preempted,
            blocking_calls: tenant.calls,
            blocked: Duration::from_nanos(tenant.blocked),
            wanted: tenant.wanted,
            feasible: tenant.feasible,
            got: tenant.got,
        }
    }
}

/// Work of the runtime itself while there are tenants, in a [`Snapshot`]: time that no tenant is
/// charged for. Under the deterministic executor it takes no time, and only polls are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Upkeep {
    /// Acting on deadlines: waking sleepers, expiring tokens with their callbacks.
    pub timers: UpkeepFigures,
    /// Looking for events of descriptors and for deadlines, between two tasks.
    pub polls: UpkeepFigures,
    /// Checks of the monitor; processor time.
    pub monitor: UpkeepFigures,
}

/// One account of [`Upkeep`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct UpkeepFigures {
    /// How often it was done.
    pub passes: u64,
    /// The time that it took.
    pub took: Duration,
}

impl Upkeep {
    fn of(read: [UpkeepReading; 3]) -> Upkeep {
        let [timers, polls, monitor] = read.map(|account| UpkeepFigures {
            passes: account.passes,
            took: Duration::from_nanos(account.nanos),
        });
        Upkeep { timers, polls, monitor }
    }

    /// The accounts by name.
    fn named(&self) -> [(&'static str, UpkeepFigures); 3] {
        [("timers", self.timers), ("polls", self.polls), ("monitor", self.monitor)]
    }
}

/// The tenants of a scheduler.
pub(in crate::view) fn of(shared: &Shared) -> Vec<TenantFigures> {
    of_all(shared).0
}

/// The tenants of a scheduler, and the upkeep.
pub(super) fn of_all(shared: &Shared) -> (Vec<TenantFigures>, Upkeep) {
    let read = shared.queues.read_tenants(shared.config.workers);
    let Some(TenantShares { in_nanos, tenants, upkeep }) = read else { return Default::default() };
    let figures = |tenant| TenantFigures::of(tenant, in_nanos);
    (tenants.into_iter().map(figures).collect(), Upkeep::of(upkeep))
}

/// Writes the upkeep as JSON.
pub(super) fn write_upkeep(all: &mut JsonObject<'_>, upkeep: &Upkeep) {
    let mut accounts = JsonObject::begin(all.field("upkeep"));
    for (name, figures) in upkeep.named() {
        let mut one = JsonObject::begin(accounts.field(name));
        one.plain("passes", figures.passes).plain("took", figures.took.as_nanos()).end();
    }
    accounts.end();
}

/// Writes the tenants as JSON.
pub(in crate::view) fn write(all: &mut JsonObject<'_>, tenants: &[TenantFigures]) {
    all.list("tenants", tenants, |out, tenant| {
        let mut one = JsonObject::begin(out);
        one.text("tenant", &tenant.label()).plain("number", tenant.number);
        one.plain("parent", tenant.parent).plain("weight", tenant.weight);
        one.plain("open", tenant.open).plain("queued", tenant.queued);
        one.plain("ran", tenant.ran.as_nanos()).plain("ops", tenant.ops);
        one.plain("turns", tenant.turns).plain("preempted", tenant.preempted);
        one.plain("blocking_calls", tenant.blocking_calls);
        one.plain("blocked", tenant.blocked.as_nanos());
        one.plain("wanted", tenant.wanted).plain("feasible", tenant.feasible);
        one.plain("got", tenant.got);
        one.end();
    });
}

/// The metrics of tenants. Those without a name have their number, of which there are as many as
/// the runtime has slots for tenants.
pub(super) fn families(snapshot: &Snapshot, families: &mut Vec<Family>) {
    if snapshot.tenants.is_empty() {
        return;
    }
    let mut add = |name: &str, help, kind, value: &dyn Fn(&TenantFigures) -> f64| {
        let sample = |tenant: &TenantFigures| {
            let labels = vec![("tenant", tenant.label()), ("parent", tenant.parent.to_string())];
            (labels, value(tenant))
        };
        let samples = snapshot.tenants.iter().map(sample).collect();
        families.push(Family { name: format!("parcae_tenant_{name}"), help, kind, samples });
    };
    let (counter, gauge) = (FamilyKind::Counter, FamilyKind::Gauge);
    add("weight", "Weight of a tenant.", gauge, &|t| t.weight.into());
    add("open", "Open nurseries of a tenant.", gauge, &|t| t.open.into());
    add("queued", "Tasks that wait for any worker.", gauge, &|t| t.queued.into());
    add("run_seconds_total", "Time that its tasks ran.", counter, &|t| t.ran.as_secs_f64());
    add("ops_total", "Ops that its tasks have used.", counter, &|t| t.ops as f64);
    add("turns_total", "Turns in which its tasks ran.", counter, &|t| t.turns as f64);
    let help = "Turns that a tenant with shorter slices has ended.";
    add("preempted_total", help, counter, &|t| t.preempted as f64);
    add("blocking_calls_total", "Blocking calls.", counter, &|t| t.blocking_calls as f64);
    let help = "Time of blocking calls, on threads for them.";
    add("blocked_seconds_total", help, counter, &|t| t.blocked.as_secs_f64());
    add("wanted_share", "The share that its weight stands for.", gauge, &|t| t.wanted);
    add("feasible_share", "The share that it could have.", gauge, &|t| t.feasible);
    add("got_share", "The share that it got lately.", gauge, &|t| t.got);
    let accounts = snapshot.upkeep.named();
    let sample = |(name, figures): (&str, UpkeepFigures)| {
        (vec![("account", name.to_owned())], figures.took.as_secs_f64())
    };
    families.push(Family {
        name: "parcae_upkeep_seconds_total".into(),
        help: "Time of the runtime itself, which no tenant is charged for.",
        kind: counter,
        samples: accounts.into_iter().map(sample).collect(),
    });
}
