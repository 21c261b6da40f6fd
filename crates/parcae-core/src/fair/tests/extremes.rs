//! The ends of all ranges. Tests are built with overflow checks, so a sum that does not
//! fit fails them.

use super::super::average::Average;
use super::*;

const WIDE: Limits =
    Limits { min_slice: 1, slice: 1_000, max_slice: u32::MAX as u64, min_charge: 1 };

#[test]
fn the_lightest_and_the_heaviest_share_a_queue() {
    let mut queue = queue_with(4, 1, WIDE);
    let light = awake(&mut queue, Params::weight(Weight::MIN));
    let heavy = awake(&mut queue, Params::weight(Weight::MAX));
    let had = run(&mut queue, 3_000_000, |_| 1_000);
    // One turn in 2²⁰ and one.
    assert!((2_000..=4_000).contains(&had[light.index()]), "{had:?}");
    assert!(had[heavy.index()] > 2_990_000_000);
}

#[test]
fn the_longest_slices_at_the_lightest_weight_fit() {
    let mut queue = queue_with(64, 1, WIDE);
    let batch = Params { weight: Weight::MIN, latency: Latency::Batch };
    let ids: Vec<_> = (0..64).map(|_| awake(&mut queue, batch)).collect();
    let had = run(&mut queue, 6_400, |_| u64::from(u32::MAX));
    for id in ids {
        assert_eq!(had[id.index()], 100 * u64::from(u32::MAX));
    }
}

#[test]
fn virtual_time_wraps_without_notice() {
    let mut expected = None;
    for origin in [0, u64::MAX - 3_000, u64::MAX, i64::MAX as u64 - 100, 1 << 63] {
        let mut queue = queue(40);
        queue.groups[0].average = Average::starting_at(origin);
        let ids: Vec<_> = (1..=40).map(|w| awake(&mut queue, weight(w * 37))).collect();
        let mut order = Vec::new();
        for _ in 0..5_000 {
            let id = queue.pick().unwrap();
            let _ = queue.charge(id, 777).unwrap();
            order.push(id);
        }
        assert_eq!(order.len(), 5_000);
        assert_eq!(expected.get_or_insert_with(|| order.clone()), &order, "from {origin}");
        assert_eq!(ids.len(), 40);
    }
}

/// All the way round, a few times, with a tree of more than one level: no key is left behind.
#[test]
fn virtual_time_goes_round_and_round() {
    let mut queue = queue_with(200, 1, WIDE);
    let ids: Vec<_> = (0..200).map(|_| awake(&mut queue, Params::weight(Weight::MIN))).collect();
    let turns = 400_000; // of 2⁴⁸ virtual units of V each: six times round
    let had = run(&mut queue, turns, |_| 1 << 36);
    for id in ids {
        assert_eq!(had[id.index()], (turns as u64 / 200) << 36);
    }
}

/// Runs for longer than is charged, at any weight and in any company: others are behind by
/// as much as they can ever be, and are served.
#[test]
fn turns_without_end_are_charged_up_to_a_limit() {
    for w in [Weight::MIN, Weight::NORMAL, Weight::MAX] {
        for others in [Weight::MIN, Weight::MAX] {
            let mut queue = queue_with(3, 1, WIDE);
            let stuck = awake(&mut queue, Params::weight(w));
            let waits = [(); 2].map(|()| awake(&mut queue, Params::weight(others)));
            assert_eq!(queue.pick_preferring(stuck).unwrap(), Some(stuck));
            for used in [MAX_RUN, 5, u64::MAX, u64::MAX] {
                let _ = queue.charge(stuck, used).unwrap();
            }
            assert_eq!(queue.longest_run(), 0, "not over yet");
            assert_eq!(queue.forgiven(), u64::MAX);
            for _ in 0..1_000 {
                let id = queue.pick().unwrap();
                assert!(waits.contains(&id));
                let _ = queue.charge(id, 1_000).unwrap();
            }
            assert_eq!(queue.longest_run(), MAX_RUN);
            // The others may take as long, and then it is its turn again.
            let turns = (0..).take_while(|_| {
                let id = queue.pick().unwrap();
                let _ = queue.charge(id, MAX_RUN).unwrap();
                id != stuck
            });
            assert!(turns.take(1 << 22).count() < 1 << 22);
        }
    }
}

/// Away for 2⁴⁰ units, and for all that virtual time wrapped around: it comes back with
/// what it left with.
#[test]
fn a_long_sleep_changes_nothing() {
    let mut queue = queue(3);
    let hog = awake(&mut queue, weight(1));
    let sleeper = awake(&mut queue, weight(7));
    run(&mut queue, 9, |_| 900);
    if queue.current() == Some(sleeper) {
        queue.sleep(sleeper).unwrap();
    } else {
        let _ = queue.sleep(sleeper);
    }
    let lag = queue.view(sleeper).unwrap().lag;
    for _ in 0..40 {
        assert_eq!(queue.pick(), Some(hog));
        let _ = queue.charge(hog, MAX_RUN).unwrap(); // 2⁶⁰ virtual units each: wraps
    }
    let lag = if queue.view(sleeper).unwrap().state == State::Asleep && lag < 0 { 0 } else { lag };
    let _ = queue.wake(sleeper).unwrap();
    let now = queue.view(sleeper).unwrap().lag;
    assert!(now.abs_diff(lag) <= 1, "{now} after {lag}");
}

#[test]
fn a_hundred_thousand_entities() {
    let n = 100_000;
    let mut queue = queue_with(n, 1, WIDE);
    let mut rng = Rng(5);
    for _ in 0..n {
        awake(&mut queue, weight(1 + rng.below(1 << 20) as u32));
    }
    let mut served = std::vec![0_u32; n];
    for _ in 0..2 * n {
        let id = queue.pick().unwrap();
        let _ = queue.charge(id, rng.below(3_000)).unwrap();
        served[id.index()] += 1;
    }
    let waiting = queue.groups[0].ready.audit(&queue.nodes);
    assert_eq!(waiting.len(), n);
    assert!(served.iter().filter(|&&times| times > 0).count() > n / 2);
}

#[test]
fn every_weight_step_keeps_lag() {
    let mut queue = queue_with(3, 1, WIDE);
    let ids = [1, 1 << 10, 1 << 20].map(|w| awake(&mut queue, weight(w)));
    run(&mut queue, 17, |_| 12_345);
    let _ = queue.pick();
    let others: i64 = ids[1..].iter().map(|&id| queue.view(id).unwrap().lag).sum();
    let lag = queue.view(ids[0]).unwrap().lag;
    let before = queue.virtual_time(GroupId::ROOT).unwrap();
    for w in [1 << 20, 1, 1 << 19, 3, 999_983, 7, 1] {
        queue.reweight(ids[0], Weight::new(w).unwrap()).unwrap();
        assert!(queue.view(ids[0]).unwrap().lag.abs_diff(lag) <= 1, "at weight {w}");
        let now = queue.virtual_time(GroupId::ROOT).unwrap();
        assert!(now.wrapping_sub(before).cast_signed().abs() <= 8, "V moved to {now}");
    }
    let after: i64 = ids[1..].iter().map(|&id| queue.view(id).unwrap().lag).sum();
    assert!(after.abs_diff(others) <= 8);
}
