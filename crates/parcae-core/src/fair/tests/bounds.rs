//! The guarantees of the theory, in real service and exact arithmetic: lag stays within its bound,
//! shares follow weights, no entity waits forever, picking is O(log n).

use super::*;

/// Whether turns end where their requests do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turns {
    /// At or before the end of the request.
    Within,
    /// Up to so much, whatever was asked for.
    UpTo(u64),
}

/// Runs a set that does not change, and checks every entity after every turn.
///
/// Times here are real: what an entity had, against `w T / W`. Multiplied by W both are
/// integers, so nothing is rounded. The bound is that of the module's header.
fn lag_stays_within_its_bound(seed: u64, entities: usize, turns: usize, how: Turns) {
    let mut rng = Rng(seed);
    let mut queue = queue(entities);
    let mut weights = std::vec![0_i128; entities];
    let mut r_max = 0;
    for _ in 0..entities {
        let bits = 1 + rng.below(20);
        let weight = Weight::new(1 + rng.below(1 << bits) as u32).unwrap();
        let slice = LIMITS.min_slice + rng.below(LIMITS.max_slice - LIMITS.min_slice);
        r_max = r_max.max(i128::from(slice));
        let id = awake(&mut queue, Params { weight, latency: Latency::Slice(slice) });
        weights[id.index()] = i128::from(weight.get());
    }
    let all: i128 = weights.iter().sum();
    let mut had = std::vec![0_i128; entities];
    let mut since = std::vec![0_i128; entities]; // when it last stopped running
    let mut beyond = std::vec![0_i128; entities]; // its worst overrun
    let (mut time, mut q) = (0_i128, 0_i128);
    for _ in 0..turns {
        let id = queue.pick().unwrap();
        let (e, view) = (id.index(), queue.view(id).unwrap());
        let left = i128::from(view.deadline.wrapping_sub(view.eligible_at)) * weights[e];
        let left = (left >> 20) + 1;
        let used = match how {
            Turns::Within if rng.below(3) == 0 => left,
            Turns::Within => i128::from(LIMITS.min_charge + rng.below(5_000)).min(left),
            Turns::UpTo(most) => i128::from(LIMITS.min_charge + rng.below(most)),
        };
        let used = used.max(i128::from(LIMITS.min_charge));
        let _ = queue.charge(id, used as u64).unwrap();
        q = q.max(used);
        beyond[e] = beyond[e].max(used - left);
        time += used;
        had[e] += used;
        let overruns: i128 = beyond.iter().sum();
        for e in 0..entities {
            let lag = weights[e] * time - had[e] * all;
            assert!(-q * all <= lag, "{e} has a debt of {} at {time}", -lag / all);
            let upper = r_max.max(q) * all + weights[e] * (overruns - beyond[e]);
            assert!(lag < upper + all, "{e} is owed {} of {} at {time}", lag / all, upper / all);
            let waited = (time - since[e]) * weights[e];
            assert!(waited <= q * all + upper + all, "{e} waits since {}", since[e]);
        }
        since[e] = time;
    }
    assert_eq!(i128::from(queue.longest_run()), q);
}

#[test]
fn lag_is_bounded_and_nobody_starves() {
    for seed in 0..12 {
        let entities = [2, 3, 7, 20][seed as usize % 4];
        lag_stays_within_its_bound(seed, entities, 4_000, Turns::Within);
    }
}

#[test]
fn overruns_are_paid_for_and_bounded() {
    for seed in 0..12 {
        let entities = [2, 3, 7, 20][seed as usize % 4];
        let most = [900, 12_000, 60_000][seed as usize % 3];
        lag_stays_within_its_bound(seed, entities, 4_000, Turns::UpTo(most));
    }
}

/// A hundred million in a release build, where it takes a minute.
// rule: S3-EEVDF-1
#[test]
fn lag_is_bounded_in_a_hundred_million_turns() {
    for seed in 0..100 {
        let entities = [2, 4, 9, 18, 30][seed as usize % 5];
        let how = match seed % 3 {
            0 => Turns::UpTo(60_000),
            _ => Turns::Within,
        };
        let turns = if cfg!(debug_assertions) { 1_000 } else { 1_000_000 };
        lag_stays_within_its_bound(seed, entities, turns, how);
    }
}

// rule: S3-GOAL-4
#[test]
fn weights_1_2_4_share_as_1_2_4() {
    let mut queue = queue(3);
    let ids = [1, 2, 4].map(|w| awake(&mut queue, weight(w * 1024)));
    let had = run(&mut queue, 70_000, |_| 1_000);
    let had = ids.map(|id| had[id.index()]);
    for (had, share) in had.into_iter().zip([1, 2, 4]) {
        assert!(had.abs_diff(share * 10_000_000) <= 1_000, "{had} instead of {share} parts");
    }
}

/// Slices buy a sooner turn, not a larger share.
// rule: S3-EEVDF-4
#[test]
fn short_slices_have_the_same_share_and_wait_less() {
    let mut queue = queue(8);
    let long: Vec<_> = (0..4).map(|_| awake(&mut queue, slice(4_000))).collect();
    let short = awake(&mut queue, slice(200));
    let (mut time, mut since, mut longest_wait) = (0, 0, 0);
    let had = run(&mut queue, 20_000, |id| {
        let used = if id == short { 200 } else { 4_000 };
        if id == short {
            longest_wait = longest_wait.max(time - since);
            since = time + used;
        }
        time += used;
        used
    });
    assert!(had[short.index()].abs_diff(time / 5) <= 4_000);
    assert!(long.iter().all(|id| had[id.index()].abs_diff(time / 5) <= 4_000));
    // A round of the others takes 16 000; a long slice would have waited for that.
    assert!(longest_wait <= 8_000, "{longest_wait}");
}

/// Leaving and joining in a storm: each moves V by what it is owed over the weight of the
/// others, and by nothing else, and comes back with just the lag that it left with.
#[test]
fn coming_and_going_moves_v_by_the_lag_and_no_more() {
    let mut queue = queue(30);
    let mut rng = Rng(11);
    let mut ids: Vec<_> =
        (0..30).map(|_| awake(&mut queue, weight(1 + rng.below(9_000) as u32))).collect();
    for _ in 0..20_000 {
        let runs = queue.pick().unwrap();
        let _ = queue.charge(runs, rng.below(2_000)).unwrap();
        let at = rng.below(30) as usize;
        if ids[at] == runs {
            continue;
        }
        let all: u32 = ids.iter().map(|&id| queue.view(id).unwrap().weight.get()).sum();
        let others = i64::from(all - queue.view(ids[at]).unwrap().weight.get());
        let before = queue.virtual_time(GroupId::ROOT).unwrap();
        let departure = queue.leave(ids[at]).unwrap();
        let lag = departure.lag();
        let moved = queue.virtual_time(GroupId::ROOT).unwrap().wrapping_sub(before).cast_signed();
        let expected = (lag << 20) / others;
        assert!((moved - expected).abs() <= (1 << 20) / others + 2, "{moved}, not {expected}");
        ids[at] = queue.join(GroupId::ROOT, departure).unwrap().0;
        assert!(queue.view(ids[at]).unwrap().lag.abs_diff(lag) <= 1);
        let moved = queue.virtual_time(GroupId::ROOT).unwrap().wrapping_sub(before).cast_signed();
        assert!(moved.abs() <= 2, "and back: {moved}");
    }
}

/// S3's gate: all entities hog.
// rule: S3-EEVDF-3, S3-GATE-5
#[test]
fn cpu_hogs_share_by_weight() {
    let mut queue = queue(20);
    let ids: Vec<_> = (1..=20).map(|w| awake(&mut queue, weight(w * 50))).collect();
    let had = run(&mut queue, 210_000, |_| 1_000);
    for (id, w) in ids.iter().zip(1..) {
        assert!(had[id.index()].abs_diff(w * 1_000_000) <= 2_000, "{} of {w}", had[id.index()]);
    }
}

/// Counted at the queue: a turn is one way down to pick, one to put back.
#[test]
fn a_turn_takes_a_logarithmic_number_of_comparisons() {
    for n in [8, 16, 17, 64, 1_000, 20_000_usize] {
        let mut queue = queue(n);
        let mut rng = Rng(n as u64);
        for _ in 0..n {
            awake(&mut queue, weight(1 + rng.below(5_000) as u32));
        }
        let (mut most, mut sum) = (0, 0);
        let turns = 3 * n.max(100);
        for _ in 0..turns {
            let (id, count) = comparisons(|| queue.pick().unwrap());
            let _ = queue.charge(id, 100 + rng.below(3_000)).unwrap();
            most = most.max(count);
            sum += count;
        }
        // Sixteen looks at most per level, eight ways or more at each, for each of: finding,
        // taking out, putting in.
        let levels = ((n as f64).log2() / 3.0).max(1.0).ceil();
        assert!(most as f64 <= 3.0 * 16.0 * levels, "{most} comparisons among {n}");
        let mean = sum as f64 / turns as f64;
        assert!(mean <= 16.0 * levels, "{mean} comparisons on average among {n}");
    }
}
