//! Admission: its answers and explanations, against the definition, and against contexts that
//! really run.

mod random;

use parcae_core::admission::{
    Admitted, Capacity, Cause, Demand, Rejected, Shape, Test, examine, place,
};
use parcae_core::context::{
    Band, ContextId, ContextSlot, Contexts, Params, PartyId, PartySlot, Refill, Stop,
};
use random::Random;

/// All of a worker, at no cost.
const WHOLE: Capacity = Capacity { share: 1_000_000, delay: 0, dispatch: 0, max_steps: 10_000 };

fn demand(budget: u64, deadline: u64, period: u64) -> Demand {
    Demand { deadline, ..Demand::new(budget, period) }
}

fn ask(set: &[Demand], capacity: &Capacity) -> Result<Admitted, Rejected> {
    examine(set.iter().copied(), capacity)
}

mod answers {
    use super::*;

    /// Gate: rejected admission. Each test says what failed, where, and by how much.
    // rule: S3-GATE-9
    #[test]
    fn a_rejection_names_the_test_the_interval_and_what_is_missing() {
        let default = Capacity::default();
        let no = ask(&[Demand::new(6, 10), Demand::new(4, 10)], &default).unwrap_err();
        assert_eq!((no.test, no.needed, no.available), (Test::Utilisation, 1_000_000, 950_000));
        assert_eq!(no.missing(), 50_000);

        let no = ask(&[demand(2, 4, 10), demand(3, 4, 20)], &WHOLE).unwrap_err();
        assert_eq!((no.test, no.interval, no.needed, no.available), (Test::Demand, 4, 5, 4));
        assert_eq!(no.cause, Cause::TooMuch { band: Band(0) });
        let text = no.to_string();
        assert!(text.contains("interval of 4") && text.contains("1 too much"), "{text}");
        assert!(text.contains("lower a budget"), "{text}");
    }

    #[test]
    fn an_admission_names_the_test_and_the_slack() {
        let yes = ask(&[demand(2, 5, 10), demand(1, 10, 20)], &WHOLE).unwrap();
        assert_eq!((yes.test, yes.interval, yes.slack, yes.load), (Test::Density, 5, 2, 250_000));
        let yes = ask(&[demand(2, 3, 10), demand(3, 6, 12)], &WHOLE).unwrap();
        assert_eq!((yes.test, yes.interval, yes.slack), (Test::Demand, 6, 1));
        assert!(yes.steps > 0);
        assert!(ask(&[], &WHOLE).is_ok(), "nothing is always possible");
    }

    #[test]
    fn single_demands_are_checked_first() {
        let paid = Capacity { dispatch: 2, ..WHOLE };
        for (set, capacity, cause, hint) in [
            (demand(0, 5, 10), WHOLE, Cause::BudgetTooSmall, "raise"),
            (demand(3, 9, 10), paid, Cause::BudgetTooSmall, "raise"),
            (demand(3, 11, 10), WHOLE, Cause::DeadlineAfterPeriod, "lower"),
            (demand(6, 5, 10), WHOLE, Cause::BudgetAboveDeadline, "lower"),
            (demand(4, 7, 10), paid, Cause::BudgetAboveDeadline, "lower"),
            (demand(4, 7, u64::MAX), WHOLE, Cause::PeriodTooLong, "shorten"),
        ] {
            let no = ask(&[Demand::new(4, 100), set], &capacity).unwrap_err();
            assert_eq!((no.test, no.cause, no.interval), (Test::Terms, cause, 1));
            assert!(no.to_string().contains(hint), "{no}");
        }
    }

    #[test]
    fn the_edge_is_exact_where_binary_fractions_are_not() {
        assert!(ask(&[Demand::new(1, 3); 3], &WHOLE).is_ok());
        assert!(
            ask(&[Demand::new(1, 3), Demand::new(2, 3), Demand::new(1, 1000)], &WHOLE).is_err()
        );
        let half = [Demand::new(50, 100), Demand::new(45, 100)];
        assert!(ask(&half, &Capacity::default()).is_ok());
        // Full, with a deadline before the period: decided over a hyperperiod.
        let tight = [demand(1, 2, 3), Demand::new(1, 3), Demand::new(2, 6)];
        assert_eq!(ask(&tight, &WHOLE).unwrap().load, 1_000_000);
        let no = ask(&[demand(1, 1, 3), demand(1, 1, 3), Demand::new(1, 3)], &WHOLE).unwrap_err();
        assert_eq!(no.test, Test::Demand);
    }

    #[test]
    fn yield_checks_that_are_far_apart_block_the_urgent() {
        let lazy = |check_distance| Demand { check_distance, ..Demand::new(10, 100) };
        let urgent = demand(2, 8, 50);
        assert!(ask(&[urgent, lazy(6)], &WHOLE).is_ok());
        let no = ask(&[urgent, lazy(7)], &WHOLE).unwrap_err();
        assert_eq!((no.interval, no.missing()), (8, 1), "2 and a stretch of 7");
    }

    #[test]
    fn dispatches_and_a_delayed_supply_count() {
        let set = [demand(4, 8, 20), demand(4, 16, 20)];
        assert!(ask(&set, &Capacity { dispatch: 2, ..WHOLE }).is_ok());
        assert!(ask(&set, &Capacity { dispatch: 2, delay: 1, ..WHOLE }).is_err());
        assert!(ask(&set, &Capacity { delay: 4, ..WHOLE }).is_ok());
        assert!(ask(&set, &Capacity { delay: 5, ..WHOLE }).is_err());
        assert!(ask(&set, &Capacity { share: 0, ..WHOLE }).is_err());
        assert_eq!(
            ask(&set, &Capacity { share: u32::MAX, ..WHOLE }).is_ok(),
            ask(&set, &WHOLE).is_ok(),
            "there is no more than all of it"
        );
    }

    #[test]
    fn a_higher_band_comes_first_whatever_the_deadlines() {
        let critical = Demand { band: Band(1), ..demand(5, 20, 20) };
        let urgent = demand(2, 4, 20);
        assert!(ask(&[urgent, Demand { band: Band(0), ..critical }], &WHOLE).is_ok());
        let no = ask(&[urgent, critical], &WHOLE).unwrap_err();
        assert_eq!((no.cause, no.interval), (Cause::TooMuch { band: Band(0) }, 4));
        assert!(ask(&[demand(2, 8, 20), critical], &WHOLE).is_ok());
    }

    /// Fails closed: on steps, on range, and at the limits of u64.
    #[test]
    fn what_cannot_be_decided_is_rejected() {
        let set = [demand(20, 30, 100), demand(30, 80, 101), demand(30, 85, 103)];
        let steps = ask(&set, &WHOLE).unwrap().steps;
        assert!(steps > 1);
        let no = ask(&set, &Capacity { max_steps: steps - 1, ..WHOLE }).unwrap_err();
        assert_eq!((no.test, no.cause), (Test::Demand, Cause::OutOfSteps));
        assert!(no.to_string().contains("max_steps"));

        const LONG: u64 = 1 << 60;
        let huge = [demand(LONG / 2, LONG / 2, LONG - 1), demand(LONG / 2 - 1, LONG - 3, LONG - 3)];
        let _ = ask(&huge, &WHOLE); // an answer, not an overflow
        assert!(ask(&[Demand::new(LONG, LONG); 2], &WHOLE).is_err());
        let slow = Demand { check_distance: LONG, ..Demand::new(1, LONG) };
        assert!(ask(&[slow; 8], &WHOLE).is_err());
        let far = Capacity { delay: u64::MAX, dispatch: u64::MAX, ..WHOLE };
        assert!(ask(&[Demand::new(1, 2)], &far).is_err());
        assert!(ask(&[Demand::new(1, 2)], &Capacity { delay: u64::MAX, ..WHOLE }).is_err());
        // As full as can be, of periods without a common multiple in range.
        let odd = [Demand::new(LONG / 2 - 1, LONG - 1), Demand::new(LONG / 2, LONG - 3)];
        let _ = ask(&odd, &WHOLE);
    }

    #[test]
    fn placement_spreads_the_load_and_explains_the_nearest_miss() {
        let (a, b) = ([Demand::new(5, 10)], [Demand::new(3, 10)]);
        let workers = [(0, a.iter().copied(), WHOLE), (1, b.iter().copied(), WHOLE)];
        assert_eq!(place(workers.clone(), Demand::new(4, 10)).unwrap().0, 1);
        let no = place(workers, Demand::new(8, 10)).unwrap_err();
        assert_eq!(no.missing(), 100_000, "worker 1 lacks the least");
        let nowhere: [(u8, std::slice::Iter<'_, Demand>, Capacity); 0] = [];
        let nowhere = nowhere.map(|(worker, set, capacity)| (worker, set.copied(), capacity));
        assert_eq!(place(nowhere, Demand::new(8, 10)).unwrap_err().cause, Cause::NoWorker);
    }
}

/// All periods divide it.
const HYPERPERIOD: u64 = 240;
const PERIODS: [u64; 14] = [5, 6, 8, 10, 12, 15, 16, 20, 24, 30, 40, 60, 80, 120];

/// Random sets of contexts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Kind {
    name: &'static str,
    ramps: bool,
    checks: u64,
    bands: u64,
}

const KINDS: [Kind; 4] = [
    Kind { name: "jobs, yield checks everywhere", ramps: false, checks: 0, bands: 1 },
    Kind { name: "hard CBS, yield checks everywhere", ramps: true, checks: 0, bands: 1 },
    Kind { name: "hard CBS, checks up to 3 apart", ramps: true, checks: 3, bands: 1 },
    Kind { name: "both, checks up to 2 apart, two bands", ramps: true, checks: 2, bands: 2 },
];

fn random_set(random: &mut Random, kind: Kind) -> Vec<Demand> {
    let load = random.within(40, 105);
    let mut left = HYPERPERIOD * load / 100;
    let mut set = Vec::new();
    for _ in 0..random.within(1, 6) {
        let period = PERIODS[random.below(PERIODS.len() as u64) as usize];
        let most = (left * period / HYPERPERIOD).min(period * 3 / 4);
        if most == 0 {
            continue;
        }
        let budget = random.within(1, most);
        left -= budget * (HYPERPERIOD / period);
        let deadline = match random.below(3) {
            0 => period,
            _ => random.within(budget, period),
        };
        let check_distance = random.within(0, kind.checks);
        let band = Band(random.below(kind.bands) as u8);
        let shape = match kind.ramps && (kind.bands == 1 || random.one_in(2)) {
            true => Shape::Ramp,
            false => Shape::Step,
        };
        set.push(Demand { budget, period, deadline, check_distance, band, shape });
    }
    set
}

/// The definition, tick by tick: demand ≤ supply in every window. It repeats after a
/// hyperperiod. Ramps have fractions; `edge` is how close to the limit they may come.
fn fits_by_definition(set: &[Demand], edge: f64) -> bool {
    let mut bands: Vec<Band> = set.iter().map(|d| d.band).collect();
    bands.sort();
    bands.dedup();
    bands.into_iter().all(|band| {
        let own = || set.iter().filter(|d| d.band == band);
        let first = own().map(|d| d.deadline).min().unwrap();
        let high = || set.iter().filter(|d| d.band > band);
        (first..=2 * HYPERPERIOD).all(|t| {
            let mut need: u64 = high()
                .map(|d| {
                    let jobs = t / d.period + if d.shape == Shape::Ramp { 2 } else { 1 };
                    jobs * d.budget + d.check_distance
                })
                .sum();
            let mut fraction = 0.0;
            let mut blocking =
                set.iter().filter(|d| d.band < band).map(|d| d.check_distance).max().unwrap_or(0);
            for d in own() {
                match d.shape {
                    Shape::Step if d.deadline <= t => {
                        need += ((t - d.deadline) / d.period + 1) * d.budget + d.check_distance;
                    }
                    Shape::Step => blocking = blocking.max(d.check_distance),
                    Shape::Ramp => {
                        need += t / d.period * d.budget + d.check_distance;
                        let part = (t % d.period).min(d.deadline);
                        fraction += (d.budget * part) as f64 / d.deadline as f64;
                    }
                }
            }
            let edge = if fraction > 0.0 { edge } else { 0.0 };
            (need + blocking) as f64 + fraction <= t as f64 + edge
        })
    })
}

/// An ideal scheduler: preemption at any time, no overruns, no bands, no blocking.
fn is_feasible_at_all(set: &[Demand]) -> bool {
    (1..=2 * HYPERPERIOD).all(|t| {
        let due = |d: &Demand| match t.checked_sub(d.deadline) {
            Some(rest) => (rest / d.period + 1) * d.budget,
            None => 0,
        };
        set.iter().map(due).sum::<u64>() <= t
    })
}

/// The work on a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holder {
    /// Jobs as long as the budget, a period apart or a little more.
    Jobs { late: u64, release: u64, left: u64 },
    /// Never stops.
    Hog,
    /// Blocks and wakes as it likes.
    Blocker { until: u64 },
}

struct Runner {
    demand: Demand,
    context: ContextId,
    party: PartyId,
    holder: Holder,
    awake: bool,
}

/// Runs the set on real contexts: the most urgent first, looked at again only at yield
/// checks. Panics if a job or a hog's budget misses a deadline. Returns how many jobs ended.
fn simulate(set: &[Demand], random: &mut Random) -> u64 {
    let mut table = Contexts::new(0, [ContextSlot::EMPTY; 8], [PartySlot::EMPTY; 8]);
    let mut runners: Vec<Runner> = set
        .iter()
        .map(|&demand| {
            let Demand { budget, period, deadline, check_distance, band, shape } = demand;
            let holder = match random.below(4) {
                0 => Holder::Blocker { until: 0 },
                1 => Holder::Hog,
                _ => Holder::Jobs { late: random.below(3), release: 0, left: budget },
            };
            // A sliding window limits use, and does not promise jobs their deadlines.
            let sliding = !matches!(holder, Holder::Jobs { .. }) && random.one_in(2);
            let refill = match shape {
                Shape::Ramp => Refill::HardCbs,
                Shape::Step if sliding => {
                    Refill::SlidingWindow { refills: random.within(2, 8) as u8 }
                }
                Shape::Step => Refill::PerJob,
            };
            let terms = Params::new(budget, period);
            let terms = Params { deadline, check_distance, band, refill, ..terms };
            assert_eq!(Demand::from(&terms), demand, "what was admitted is what runs");
            let context = table.create(terms, 0).unwrap();
            let party = table.register(None).unwrap();
            table.bind(context, party).unwrap();
            Runner { demand, context, party, holder, awake: false }
        })
        .collect();
    let (mut now, mut jobs) = (0, 0);
    while now < 2 * HYPERPERIOD {
        for runner in &mut runners {
            let due = match runner.holder {
                Holder::Jobs { release, .. } => release <= now,
                Holder::Hog => true,
                Holder::Blocker { until } => until <= now,
            };
            if due && !runner.awake {
                // It became ready when its time came, though only now it is looked at.
                let at = match runner.holder {
                    Holder::Jobs { release, .. } => release,
                    Holder::Blocker { until } => until,
                    Holder::Hog => now,
                };
                table.wake(runner.party, at).unwrap();
                runner.awake = true;
            }
        }
        let ready =
            |runner: &&mut Runner| runner.awake && table.ready_at(runner.context).unwrap() <= now;
        let next = runners.iter_mut().filter(ready).min_by_key(|r| table.urgency(r.context));
        let Some(runner) = next else {
            now += 1;
            continue;
        };
        table.start(runner.party, now).unwrap();
        let stretch = random.within(1, runner.demand.check_distance.max(1));
        let (used, why) = match &mut runner.holder {
            Holder::Jobs { late, release, left } => {
                let used = stretch.min(*left);
                *left -= used;
                if *left == 0 {
                    let finish = now + used;
                    let due = *release + runner.demand.deadline;
                    assert!(finish <= due, "a job ends at {finish}, due at {due}: {set:#?}");
                    *release += runner.demand.period + random.within(0, *late);
                    *left = runner.demand.budget;
                    jobs += 1;
                    (used, Stop::Blocked)
                } else {
                    (used, Stop::Preempted)
                }
            }
            Holder::Hog => (stretch, Stop::Preempted),
            Holder::Blocker { until } => match random.below(4) {
                0 => {
                    *until = now + stretch + random.below(runner.demand.period);
                    (stretch, Stop::Blocked)
                }
                _ => (stretch, Stop::Preempted),
            },
        };
        now += used;
        let _ = table.stop(now, why).unwrap();
        runner.awake = why != Stop::Blocked;
    }
    for runner in runners.iter().filter(|r| !matches!(r.holder, Holder::Blocker { .. })) {
        let usage = table.usage(runner.context).unwrap();
        assert_eq!(usage.missed, 0, "{:?} on {:?} of {set:#?}", runner.holder, runner.demand);
    }
    jobs
}

/// 10⁵ sets of each kind with optimisation; a fortieth of them without, where each costs
/// thirty times as much.
const SETS: usize = if cfg!(debug_assertions) { 2_500 } else { 100_000 };

// rule: S3-SC-8
#[test]
fn admitted_sets_miss_no_deadline_and_pessimism_is_known() {
    let random = &mut Random(0xad317);
    let mut jobs = 0;
    for kind in KINDS {
        let (mut admitted, mut feasible) = (0_u64, 0_u64);
        for _ in 0..SETS {
            let set = random_set(random, kind);
            let answer = ask(&set, &WHOLE);
            let agrees = match answer {
                Ok(_) => fits_by_definition(&set, 1e-9),
                Err(_) => !fits_by_definition(&set, -1e-9),
            };
            assert!(agrees, "{answer:?} {set:#?}");
            let possible = is_feasible_at_all(&set);
            feasible += u64::from(possible);
            let Ok(_) = answer else { continue };
            assert!(possible, "{set:#?}");
            admitted += 1;
            jobs += simulate(&set, random);
            for without in 0..set.len() {
                let mut fewer = set.clone();
                fewer.remove(without);
                assert!(ask(&fewer, &WHOLE).is_ok(), "monotone: {without} of {set:#?}");
            }
        }
        let pessimism = 100.0 * (feasible - admitted) as f64 / feasible as f64;
        println!("{}: {admitted} admitted of {feasible}, {pessimism:.1} % too careful", kind.name);
        if kind == KINDS[0] {
            assert_eq!(admitted, feasible, "exact for jobs");
        }
    }
    println!("{jobs} jobs, none late");
}

/// Sets of any size and shape, with periods without common divisors: the demand test and the
/// plain walk over all deadlines agree.
#[test]
fn skipping_points_changes_no_answer() {
    let random = &mut Random(0x9ba);
    let mut decided = [0; 2];
    for _ in 0..SETS / 4 {
        let n = random.within(2, 12);
        let set: Vec<Demand> = (0..n)
            .map(|_| {
                let period = random.within(10, 3000);
                let budget = random.within(1, (2 * period / n).max(1)).min(period);
                let deadline = random.within(budget, period);
                demand(budget, deadline, period)
            })
            .collect();
        let capacity = Capacity { share: 950_000, delay: random.below(20), ..WHOLE };
        let answer = ask(&set, &capacity);
        let load: f64 = set.iter().map(|d| d.budget as f64 / d.period as f64).sum();
        if load > 0.9 {
            continue; // the walk would be long
        }
        let supply = |t: u64| t.saturating_sub(capacity.delay) * 19 / 20;
        let limit = 100_000;
        let walk = set.iter().all(|own| {
            (own.deadline..limit).step_by(own.period as usize).all(|t| {
                let due = |d: &Demand| match t.checked_sub(d.deadline) {
                    Some(rest) => (rest / d.period + 1) * d.budget,
                    None => 0,
                };
                set.iter().map(due).sum::<u64>() <= supply(t)
            })
        });
        assert_eq!(answer.is_ok(), walk, "{answer:?} {set:#?}");
        if let Err(no) = answer {
            // The explanation is true.
            let due = |d: &Demand| match no.interval.checked_sub(d.deadline) {
                Some(rest) => (rest / d.period + 1) * d.budget,
                None => 0,
            };
            assert_eq!(no.needed, set.iter().map(due).sum::<u64>());
            assert_eq!(no.available, supply(no.interval));
        }
        decided[usize::from(walk)] += 1;
    }
    assert!(decided.iter().all(|&count| count > SETS / 40), "{decided:?}");
}
