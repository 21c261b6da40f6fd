//! Turns by the clock, and rules that change while a worker runs.

use super::*;
use crate::sched::run_queue::tenants::TenantRequest;
use crate::sched::run_queue::tenants::rules::{DecidedBy, TenantRule, TenantRules, TenantWish};
use crate::sched::task::TenantIndex;
use parcae_core::policy::Decision;
use std::cell::Cell;

/// Picks in a turn until the clock has ended it, while all tasks use no ops.
fn picks_of(charging: Charging) -> (u32, u32) {
    let table = TenantTable::new(ChargeUnit::Nanos, charging, 1, 1).expect("memory");
    let mut fair = FairWorker::new(0, ChargeUnit::Nanos, charging, 1).expect("memory");
    fair.begin_unpicked(&table, DEFAULT, 1_000);
    let (asked, end) = (Cell::new(0), 1_000 + fair.turn.rest);
    let mut picks = 0;
    loop {
        picks += 1;
        // The request is over after the third pick.
        let now = if picks >= 3 { end } else { 1_001 };
        let on = fair.goes_on(|| {
            asked.set(asked.get() + 1);
            now
        });
        if on.is_none() {
            return (picks, asked.get());
        }
    }
}

#[test]
fn an_exact_turn_asks_the_clock_at_every_pick() {
    assert_eq!(picks_of(Charging::Exact), (3, 3));
    assert_eq!(picks_of(Charging::Hybrid), (CLOCK_INTERVAL, 1));
}

/// The second turn of a tenant is as long as its request, whatever an op takes.
#[test]
fn a_turn_has_as_many_ops_as_fit_into_its_request() {
    for nanos in [1, 2, 30, 1_000, 15_000] {
        let charging = Charging::Hybrid;
        let table = TenantTable::new(ChargeUnit::Nanos, charging, 1, 1).expect("memory");
        let mut fair = FairWorker::new(0, ChargeUnit::Nanos, charging, 1).expect("memory");
        fair.begin_unpicked(&table, DEFAULT, 1_000);
        fair.turn.used = 20;
        fair.end_turn(&table, 1_000 + 20 * nanos);
        fair.begin_unpicked(&table, DEFAULT, 1_000 + 20 * nanos);
        assert_eq!(fair.turn.ops, fair.turn.rest / nanos, "{nanos} ns an op");
    }
}

fn table_of(tenants: usize) -> (TenantTable, FairWorker) {
    let unit = ChargeUnit::Ops;
    let table = TenantTable::new(unit, Charging::Hybrid, tenants, 1).expect("memory");
    let fair = FairWorker::new(0, unit, Charging::Hybrid, tenants).expect("memory");
    (table, fair)
}

fn open(table: &TenantTable, fair: &mut FairWorker, name: &str) -> usize {
    let wish = TenantWish { weight: Some(Weight::NORMAL), ..TenantWish::default() };
    let parent = TenantIndex::DEFAULT;
    let request = TenantRequest { name: Some(name.into()), parent, wish };
    let slot = table.open(request).expect("a slot").get();
    fair.meet(table, slot);
    slot
}

fn weights(fair: &FairWorker, slots: &[usize]) -> Vec<u32> {
    let entity = |slot: &usize| fair.fair.entity_of(fair.members[*slot].group).expect("met");
    slots.iter().map(|slot| fair.fair.view(entity(slot)).expect("met").weight.get()).collect()
}

fn rules(weights: &[(&str, u32)]) -> TenantRules {
    let rule = |&(path, weight): &(&str, u32)| TenantRule {
        path: path.into(),
        weight: Weight::new(weight),
        latency: None,
    };
    TenantRules {
        profiles: Decision::BUILT_IN.params,
        operator: Vec::new(),
        service: weights.iter().map(rule).collect(),
        weights: (Weight::MIN, Weight::MAX),
        floor: None,
    }
}

/// Rules that change in the middle of a turn wait for its end.
// rule: S3-ARCH-6
#[test]
fn rules_hold_from_the_next_turn_on() {
    let (table, mut fair) = table_of(2);
    let slots = [open(&table, &mut fair, "a"), open(&table, &mut fair, "b")];
    fair.look(&table, |_| false);
    fair.begin_unpicked(&table, slots[0], 0);
    table.set_rules(Some(rules(&[("a", 2_000), ("b", 3_000)])));
    assert!(fair.goes_on(|| 0).is_some());
    fair.look_at_queues(&table);
    assert_eq!(weights(&fair, &slots), [1_024, 1_024], "in the middle of a turn");
    fair.end_turn(&table, 0);
    fair.look(&table, |_| false);
    assert_eq!(weights(&fair, &slots), [2_000, 3_000]);
}

/// A worker whose turn ends while rules are being replaced goes on under the old ones.
#[test]
fn no_worker_sees_half_of_the_rules() {
    let (table, mut fair) = table_of(2);
    let slots = [open(&table, &mut fair, "a"), open(&table, &mut fair, "b")];
    fair.look(&table, |_| false);
    {
        let _change = table.registry.lock();
        table.slots[slots[0]].weight.store(2_000, Ordering::Relaxed); // one thread
        table.changed();
        fair.look(&table, |_| false);
        assert_eq!(weights(&fair, &slots), [1_024, 1_024]);
        table.slots[slots[1]].weight.store(3_000, Ordering::Relaxed); // as above
    }
    fair.look(&table, |_| false);
    assert_eq!(weights(&fair, &slots), [2_000, 3_000]);
}

/// The operator's tenant keeps its part beside any weights, also of tenants opened later.
// rule: S3-POLICY-9
#[test]
fn the_floor_holds_beside_any_weights() {
    let (table, mut fair) = table_of(4);
    let names = ["a", "b", "operator", "late"];
    let mut hostile = rules(&[("a", 1 << 20), ("b", 1 << 20), ("late", 1 << 20), ("operator", 1)]);
    hostile.floor = Some(("operator".into(), 10));
    table.set_rules(Some(hostile));
    let slots = names.map(|name| open(&table, &mut fair, name));
    fair.look(&table, |_| false);
    let weights = weights(&fair, &slots);
    let all: u64 = 1_024 + weights.iter().map(|&weight| u64::from(weight)).sum::<u64>();
    assert!(u64::from(weights[2]) * 1_000 >= all * 10, "{weights:?}");
    assert!(u64::from(weights[2]) * 1_000 < all * 11, "{weights:?}");
    assert_eq!(table.registry.lock().expect("it").entries[slots[2]].by, DecidedBy::Floor);
    assert_eq!(fair.slice_of(slots[2]), 256, "the shortest slices");
}

/// A pass of timers in a turn is not charged to the tenant.
#[test]
fn time_spent_outside_is_no_part_of_a_turn() {
    let unit = ChargeUnit::Nanos;
    let table = TenantTable::new(unit, Charging::Hybrid, 1, 1).expect("memory");
    let mut fair = FairWorker::new(0, unit, Charging::Hybrid, 1).expect("memory");
    fair.begin_unpicked(&table, DEFAULT, 1_000);
    fair.spend_outside(400_000);
    fair.end_turn(&table, 1_000_000);
    let charged = &table.slots[DEFAULT].account.charged;
    assert_eq!(charged.load(Ordering::Relaxed), 599_000); // one thread
}
