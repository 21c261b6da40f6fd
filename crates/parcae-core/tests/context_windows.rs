//! The use of a context in a window of time, by brute force over recorded traces; and the
//! invariants of contexts and parties under random operations.

mod random;

use parcae_core::admission::{Demand, Shape};
use parcae_core::context::{
    CallId, ContextId, ContextSlot, Contexts, Gate, Params, PartyId, PartySlot, Refill, Stop,
};
use proptest::prelude::*;
use random::Random;

/// A stretch of running, for a job that was released and due at these times.
struct Stretch {
    start: u64,
    used: u64,
    release: u64,
    deadline: u64,
}

/// A holder that runs as much as it is let, up to `check` beyond a limit, and blocks, yields
/// and is kept waiting at random.
fn trace(params: Params, min_slice: u64, seed: u64, steps: usize) -> (Vec<Stretch>, u64) {
    let random = &mut Random(seed);
    let mut table =
        Contexts::new(0, [ContextSlot::EMPTY; 1], [PartySlot::EMPTY; 1]).with_min_slice(min_slice);
    let party = table.register(None).unwrap();
    let context = table.create(params, 0).unwrap();
    table.bind(context, party).unwrap();
    let greedy = random.one_in(2);
    let (mut now, mut release, mut asleep) = (random.below(5), 0, true);
    let mut stretches = Vec::new();
    for _ in 0..steps {
        let deadline = |table: &Contexts<_, _>| table.urgency(context).unwrap().deadline();
        if asleep {
            table.wake(party, now).unwrap();
            asleep = false;
            release = now.max(table.ready_at(context).unwrap());
        }
        let Ok(grant) = table.start(party, now) else {
            let ready = table.ready_at(context).unwrap();
            now = ready + if greedy { 0 } else { random.below(params.period / 2 + 1) };
            continue;
        };
        let job = grant.deadline - params.deadline;
        release = release.max(job);
        let beyond = random.within(0, params.check_distance);
        let wish = if greedy { grant.limit } else { random.within(1, grant.limit) };
        let used = wish + if wish == grant.limit { beyond } else { 0 };
        stretches.push(Stretch { start: now, used, release, deadline: grant.deadline });
        // Charged in one go, or in two.
        let part = random.within(0, used);
        let _ = table.charge(now + part).unwrap();
        now += used;
        let why = match random.below(if greedy { 40 } else { 4 }) {
            0 => Stop::Blocked,
            1 if random.one_in(8) => Stop::Yielded,
            _ => Stop::Preempted,
        };
        let _ = table.stop(now, why).unwrap();
        asleep = why == Stop::Blocked;
        if deadline(&table) != grant.deadline {
            release = deadline(&table) - params.deadline;
        }
        assert_eq!(table.refills(context).map(|refill| refill.amount).sum::<u64>(), params.budget);
        if asleep || random.one_in(3) {
            now += random.below(params.period / 2 + 2);
        }
    }
    (stretches, table.usage(context).unwrap().worst_overrun)
}

fn random_params(random: &mut Random, refill: Refill) -> Params {
    let period = random.within(4, 60);
    let budget = random.within(1, period * 2 / 3);
    let deadline = if random.one_in(2) { period } else { random.within(budget, period) };
    let check_distance = random.below(4);
    Params { deadline, refill, check_distance, ..Params::new(budget, period) }
}

/// The most use in any window of `length`, tick by tick.
fn worst_window(stretches: &[Stretch], length: u64) -> u64 {
    let end = stretches.last().map_or(0, |last| last.start + last.used) as usize;
    let mut busy = vec![0_u64; end + 1];
    for stretch in stretches {
        busy[stretch.start as usize..(stretch.start + stretch.used) as usize].fill(1);
    }
    let mut sum = 0;
    let mut worst = 0;
    for tick in 0..busy.len() {
        sum += busy[tick];
        sum -= tick.checked_sub(length as usize).map_or(0, |out| busy[out]);
        worst = worst.max(sum);
    }
    worst
}

const TRACES: u64 = if cfg!(debug_assertions) { 2_000 } else { 20_000 };

/// The promise of the sliding window, in every window of every trace.
// rule: S3-SC-3
#[test]
fn every_window_of_a_period_holds_at_most_the_budget_and_one_overrun() {
    let random = &mut Random(0x5eed);
    let mut tight = 0;
    for seed in 1..=TRACES {
        let refills = random.within(2, 8) as u8;
        let params = random_params(random, Refill::SlidingWindow { refills });
        let min_slice = if random.one_in(3) { random.within(1, params.budget) } else { 1 };
        let (stretches, overrun) = trace(params, min_slice, seed, 400);
        let worst = worst_window(&stretches, params.period);
        assert!(
            worst <= params.budget + overrun,
            "{params:?} min {min_slice} seed {seed}: {worst} with an overrun of {overrun}"
        );
        tight += u64::from(worst == params.budget + overrun);
    }
    // The bound is not just loose.
    assert!(tight > TRACES / 4, "{tight} of {TRACES} traces reach it");
}

/// Hard CBS may be hit twice at a border, and a third time by a holder that blocks to get a
/// new arrival; as long as it is not late, no window holds more.
#[test]
fn a_window_of_hard_cbs_holds_what_is_due_around_it() {
    let random = &mut Random(0xcb5);
    let mut doubled = 0;
    for seed in 1..=TRACES {
        let params = Params { check_distance: 0, ..random_params(random, Refill::HardCbs) };
        let (stretches, _) = trace(params, 1, seed, 200);
        let late = stretches.iter().any(|s| s.start + s.used > s.deadline);
        let worst = worst_window(&stretches, params.period);
        // Used in the window: released at most a deadline before it, due at most one after.
        let around = bound(&Demand::from(&params), params.period + 2 * params.deadline);
        assert!(late || worst <= around, "{params:?} seed {seed}: {worst}");
        doubled += u64::from(!late && worst > params.budget);
    }
    assert!(doubled > 0, "which is why there is the sliding window");
}

/// The demand of a context in admission is correct: the work released and due within a window is
/// within the demand function, plus one check distance.
#[test]
fn demand_in_every_window_is_what_admission_assumes() {
    let random = &mut Random(0xd3);
    for seed in 1..=TRACES / 4 {
        let refills = random.within(2, 8) as u8;
        let refill = match seed % 3 {
            0 => Refill::HardCbs,
            1 => Refill::PerJob,
            _ => Refill::SlidingWindow { refills },
        };
        let params = random_params(random, refill);
        let (stretches, _) = trace(params, 1, seed, 120);
        let demand = Demand::from(&params);
        for first in &stretches {
            for last in stretches.iter().filter(|last| last.deadline > first.release) {
                let inside =
                    |s: &&Stretch| s.release >= first.release && s.deadline <= last.deadline;
                let used: u64 = stretches.iter().filter(inside).map(|s| s.used).sum();
                let window = last.deadline - first.release;
                let bound = bound(&demand, window) + params.check_distance;
                assert!(
                    used <= bound,
                    "{params:?} seed {seed}: {used} > {bound} in {window} from {}",
                    first.release
                );
            }
        }
    }
}

/// The demand functions, written down once more.
fn bound(demand: &Demand, t: u64) -> u64 {
    let Demand { budget, period, deadline, .. } = *demand;
    match demand.shape {
        Shape::Step if t < deadline => 0,
        Shape::Step => ((t - deadline) / period + 1) * budget,
        Shape::Ramp => {
            let part = (t % period).min(deadline);
            t / period * budget + (budget * part).div_ceil(deadline)
        }
    }
}

type Table = Contexts<[ContextSlot; 3], [PartySlot; 5]>;

/// Whatever is tried, in whatever order and with whatever handles.
#[derive(Debug, Clone, Copy)]
enum Try {
    Create(u64),
    Destroy(usize),
    Register,
    Unregister(usize),
    Bind(usize, usize),
    Unbind(usize),
    Wake(usize),
    Start(usize),
    Charge,
    Stop(u8),
    Donate(usize, usize, u64),
    GiveBack(usize),
    Revoke(usize),
    Recall(usize),
    Reconfigure(usize, u64),
    Move(usize),
}

fn tries() -> impl Strategy<Value = Try> {
    let (c, p, n) = (0..4_usize, 0..6_usize, 0..6_usize);
    prop_oneof![
        2 => (1..20_u64).prop_map(Try::Create),
        1 => c.clone().prop_map(Try::Destroy),
        3 => Just(Try::Register),
        1 => p.clone().prop_map(Try::Unregister),
        4 => (c.clone(), p.clone()).prop_map(|(c, p)| Try::Bind(c, p)),
        1 => c.clone().prop_map(Try::Unbind),
        5 => p.clone().prop_map(Try::Wake),
        6 => p.clone().prop_map(Try::Start),
        2 => Just(Try::Charge),
        3 => (0..3_u8).prop_map(Try::Stop),
        10 => (p.clone(), p, 0..9_u64).prop_map(|(a, b, min)| Try::Donate(a, b, min)),
        4 => n.clone().prop_map(Try::GiveBack),
        3 => n.prop_map(Try::Revoke),
        1 => c.clone().prop_map(Try::Recall),
        1 => (c.clone(), 1..20_u64).prop_map(|(c, b)| Try::Reconfigure(c, b)),
        1 => c.prop_map(Try::Move),
    ]
}

/// The last handles of each kind, live and stale ones.
#[derive(Default)]
struct Handles {
    contexts: Vec<ContextId>,
    parties: Vec<PartyId>,
    calls: Vec<CallId>,
}

fn recent<T: Copy>(handles: &[T], nth: usize) -> Option<T> {
    handles.iter().rev().nth(nth).copied()
}

fn attempt(table: &mut Table, handles: &mut Handles, what: Try, now: u64) -> Option<()> {
    let context = |nth| recent(&handles.contexts, nth);
    let party = |nth| recent(&handles.parties, nth);
    let call = |nth| recent(&handles.calls, nth);
    match what {
        Try::Create(budget) => {
            let refill = match budget % 3 {
                0 => Refill::HardCbs,
                1 => Refill::PerJob,
                _ => Refill::SlidingWindow { refills: 3 },
            };
            let params = Params { refill, ..Params::new(budget, 40) };
            handles.contexts.push(table.create(params, now).ok()?);
        }
        Try::Destroy(c) => {
            let _ = table.destroy(context(c)?, now);
        }
        Try::Register => handles.parties.push(table.register(None).ok()?),
        Try::Unregister(p) => {
            let _ = table.unregister(party(p)?, now);
        }
        Try::Bind(c, p) => {
            let _ = table.bind(context(c)?, party(p)?);
        }
        Try::Unbind(c) => {
            let _ = table.unbind(context(c)?, now);
        }
        Try::Wake(p) => {
            let _ = table.wake(party(p)?, now);
        }
        Try::Start(p) => {
            let _ = table.start(party(p)?, now);
        }
        Try::Charge => {
            let _ = table.charge(now);
        }
        Try::Stop(why) => {
            let why = [Stop::Preempted, Stop::Blocked, Stop::Yielded][why as usize];
            let _ = table.stop(now, why);
        }
        Try::Donate(a, b, min_budget) => {
            let call = table.donate(party(a)?, party(b)?, Gate { min_budget }, now).ok()?;
            handles.calls.push(call);
        }
        Try::GiveBack(n) => {
            let _ = table.give_back(call(n)?, now);
        }
        Try::Revoke(n) => {
            let _ = table.revoke(call(n)?, now);
        }
        Try::Recall(c) => {
            let _ = table.recall(context(c)?, now);
        }
        Try::Reconfigure(c, budget) => {
            let _ = table.reconfigure(context(c)?, Params::new(budget, 40), now);
        }
        Try::Move(c) => {
            let traveller = table.depart(context(c)?, now).ok()?;
            handles.contexts.push(table.arrive(traveller).ok()?);
        }
    }
    Some(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(debug_assertions) { 400 } else { 5000 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// One holder per context, one context per party, budgets conserved, all time charged to
    /// exactly one context, nothing ever panics.
    // rule: S3-SC-5
    #[test]
    fn nothing_that_is_tried_breaks_the_bonds(
        steps in prop::collection::vec((tries(), 0..6_u64), 1..200),
    ) {
        let mut table = Table::new(0, [ContextSlot::EMPTY; 3], [PartySlot::EMPTY; 5]);
        let mut handles = Handles::default();
        let mut now = 0;
        for (what, pause) in steps {
            now += pause;
            let used = |table: &Table, handles: &Handles| -> Vec<u64> {
                let of = |&c: &ContextId| table.usage(c).map_or(0, |usage| usage.total);
                handles.contexts.iter().map(of).collect()
            };
            let before = used(&table, &handles);
            attempt(&mut table, &mut handles, what, now);
            let after = used(&table, &handles);
            let charged = before.iter().zip(&after).filter(|(before, after)| after > before);
            prop_assert!(charged.count() <= 1, "{what:?} charged two");
            for &context in &handles.contexts {
                let Some(params) = table.params(context) else { continue };
                let sum: u64 = table.refills(context).map(|refill| refill.amount).sum();
                prop_assert_eq!(sum, params.budget);
                if let Some(holder) = table.holder(context) {
                    prop_assert_eq!(table.held_by(holder), Some(context));
                }
            }
            for &party in &handles.parties {
                if let Some(context) = table.held_by(party) {
                    prop_assert_eq!(table.holder(context), Some(party));
                }
            }
        }
    }
}
