//! Entities that try to get more than their share. Every test names the defence that it proves
//! necessary; `mutations/fair.txt` switches these off, one by one.

use super::*;

/// S3's gate of short sleepers. Runs to just before the end of its slice, naps, and returns.
/// Defence: debt is kept across sleep.
// rule: S3-GATE-6
#[test]
fn a_micro_sleeper_gains_nothing() {
    let mut queue = queue(2);
    let hog = awake(&mut queue, Params::default());
    let napper = awake(&mut queue, Params::default());
    let mut had = [0; 2];
    for _ in 0..10_000 {
        let id = queue.pick().unwrap();
        let used = if id == napper { 999 } else { 1_000 };
        let _ = queue.charge(id, used).unwrap();
        had[id.index()] += used;
        if id == napper {
            queue.sleep(napper).unwrap();
            let _ = queue.wake(napper).unwrap();
        }
    }
    let (hog, napper) = (had[hog.index()], had[napper.index()]);
    assert!(napper <= hog + 1_000, "the napper had {napper}, the hog {hog}");
}

/// Sleeps in debt for one unit of others' time and again. Defence: a debtor cannot run
/// until it is eligible, and waking up does not place it anew.
#[test]
fn short_sleepers_with_debt_do_not_outrun_hogs() {
    for nap in [1, 50, 300, 700] {
        let mut queue = queue(4);
        let hogs = [(); 3].map(|()| awake(&mut queue, Params::default()));
        let napper = awake(&mut queue, Params::default());
        let (mut time, mut wake_at, mut had) = (0, None, [0; 4]);
        for _ in 0..12_000 {
            let id = queue.pick().unwrap();
            let _ = queue.charge(id, 500).unwrap();
            (time, had[id.index()]) = (time + 500, had[id.index()] + 500);
            if id == napper {
                queue.sleep(napper).unwrap();
                wake_at = Some(time + nap);
            }
            if wake_at.is_some_and(|at| at <= time) {
                let _ = queue.wake(napper).unwrap();
                wake_at = None;
            }
        }
        let least = hogs.map(|id| had[id.index()]).into_iter().min().unwrap();
        assert!(had[napper.index()] <= least + 1_000, "nap {nap}: {had:?}");
    }
}

/// An entity that sleeps in debt while others run has paid by waiting, and owes nothing when
/// it comes back. Defence against the opposite mistake: punishing forever.
#[test]
fn debt_is_paid_by_waiting() {
    let mut queue = queue(2);
    let hog = awake(&mut queue, Params::default());
    let sleeper = awake(&mut queue, Params::default());
    let id = queue.pick_preferring(sleeper).unwrap().unwrap();
    assert_eq!(id, sleeper);
    let _ = queue.charge(sleeper, 5_000).unwrap(); // five slices at once
    queue.sleep(sleeper).unwrap();
    assert_eq!(queue.view(sleeper).unwrap().state, State::Lingering);
    assert_eq!(queue.view(sleeper).unwrap().lag, -2_500);
    for _ in 0..9 {
        assert_eq!(queue.pick(), Some(hog));
        let _ = queue.charge(hog, 1_000).unwrap();
    }
    assert_eq!(queue.pick(), Some(hog));
    assert_eq!(queue.view(sleeper).unwrap().state, State::Asleep);
    assert_eq!(queue.view(sleeper).unwrap().lag, 0, "neither debt nor credit");
}

/// Does nothing and yields, again and again. Defence: a turn costs something.
#[test]
fn instant_yielders_starve_no_one() {
    let mut queue = queue(4);
    let hog = awake(&mut queue, Params::default());
    for _ in 0..3 {
        awake(&mut queue, Params::default());
    }
    let had = run(&mut queue, 100_000, |id| if id == hog { 1_000 } else { 0 });
    // For its 1000 the others get 1000 / 10 turns each.
    assert!(had[hog.index()] >= 300_000, "the hog had {}", had[hog.index()]);

    // Yielding by name costs the whole request.
    let mut turns = [0; 4];
    for _ in 0..4_000 {
        let id = queue.pick().unwrap();
        turns[id.index()] += 1;
        if id == hog {
            let _ = queue.charge(id, 1_000).unwrap();
        } else {
            queue.yield_now(id).unwrap();
        }
    }
    assert!(turns[hog.index()] >= 990, "{turns:?}");
}

/// Runs a short slice, is removed, and returns as a new entity, without lag and with the earliest
/// deadline. Defence: removed debtors linger without an owner, and push V ahead of the others.
#[test]
fn coming_back_as_somebody_else_does_not_starve_others() {
    let mut queue = queue(64);
    let hog = awake(&mut queue, Params::default());
    let mut other = awake(&mut queue, slice(500));
    let (mut hogged, mut others) = (0, 0);
    for _ in 0..10_000 {
        let id = queue.pick().unwrap();
        let _ = queue.charge(id, 500).unwrap();
        if id == hog {
            hogged += 500;
        } else {
            others += 500;
            queue.remove(other).unwrap();
            other = awake(&mut queue, slice(500));
        }
    }
    // Each of them counts while it lingers, so together they have more than one share: a
    // group would hold them to one. But no more than that.
    assert!(3 * hogged >= others, "{hogged} against {others}");
}

/// Two processors, a hog on each, and one that is always on the one where it is not in
/// debt. Defence: lag and what is left of the request move along.
// rule: S3-EEVDF-5
#[test]
fn migration_ping_pong_gains_nothing() {
    let mut queues = [queue(2), queue(2)];
    for queue in &mut queues {
        awake(queue, Params::default());
    }
    let mut mover = awake(&mut queues[0], Params::default());
    let (mut at, mut had, mut time) = (0, 0_u64, 0_u64);
    for _ in 0..20_000 {
        let mut here = false;
        for (q, queue) in queues.iter_mut().enumerate() {
            let id = queue.pick().unwrap();
            let _ = queue.charge(id, 900).unwrap();
            here |= q == at && id == mover;
        }
        time += 900;
        if here {
            had += 900;
            let departure = queues[at].leave(mover).unwrap();
            at = 1 - at;
            mover = queues[at].join(GroupId::ROOT, departure).unwrap().0;
        }
    }
    assert!(had <= time / 2 + 2_000, "{had} of {time}");
    assert!(had >= time / 2 - 20_000, "nor does it lose: {had} of {time}");
}

/// Moves between queues without running: rounding does not favour it.
#[test]
fn hopping_makes_no_credit() {
    let mut queues = [queue(3), queue(3)];
    for (queue, w) in queues.iter_mut().zip([777, 3]) {
        awake(queue, weight(w));
        let id = queue.pick().unwrap();
        let _ = queue.charge(id, 12_345).unwrap();
    }
    let mut mover = awake(&mut queues[0], weight(1_000_003));
    let start = queues[0].view(mover).unwrap().lag;
    for hop in 0..200_000 {
        let from = hop % 2;
        let departure = queues[from].leave(mover).unwrap();
        mover = queues[1 - from].join(GroupId::ROOT, departure).unwrap().0;
    }
    let end = queues[0].view(mover).unwrap().lag;
    assert!(end <= start + 1, "{end} from {start}");
}

/// Is heavy while it waits and light while it runs, or the other way round; its share is
/// what its weights came to over time. Defence: reweighting keeps lag.
#[test]
fn changing_weight_gains_nothing() {
    for heavy_while_running in [0, 1] {
        let mut queue = queue(2);
        awake(&mut queue, weight(1_000));
        let cheat = awake(&mut queue, weight(100));
        let [light, heavy] = [100, 10_000].map(|w| Weight::new(w).unwrap());
        let (mut ideal, mut had) = (0.0, 0.0);
        for _ in 0..20_000 {
            let id = queue.pick().unwrap();
            let now = if (id == cheat) == (heavy_while_running == 1) { heavy } else { light };
            queue.reweight(cheat, now).unwrap();
            let _ = queue.charge(id, 500).unwrap();
            ideal += 500.0 * f64::from(now.get()) / (f64::from(now.get()) + 1_000.0);
            had += if id == cheat { 500.0 } else { 0.0 };
        }
        assert!((had - ideal).abs() <= 2_000.0, "{had} instead of {ideal}");
    }
}

/// A running entity whose weight changes over and over stays as eligible as it is. Linux
/// placed it as if it was not counted already; others then had nothing for seconds.
#[test]
fn reweighting_whoever_runs_does_not_keep_it_running() {
    let mut queue = queue(3);
    let ids = [1_000, 2_000, 3_000].map(|w| awake(&mut queue, weight(w)));
    let mut had = [0_u32; 3];
    for step in 0..60_000 {
        let id = queue.pick().unwrap();
        if id == ids[0] {
            let w = [900, 1_100, 1_000][step % 3];
            queue.reweight(id, Weight::new(w).unwrap()).unwrap();
        }
        let _ = queue.charge(id, 100).unwrap();
        had[id.index()] += 1;
    }
    for (id, share) in ids.iter().zip([1, 2, 3]) {
        assert!(had[id.index()].abs_diff(10_000 * share) <= 200, "{had:?}");
    }
}

/// S3's gate of direct hand-off: two that hand the processor to each other all the time
/// have their two shares, not all of it; and one share if they are one group. Defence: the
/// preferred one must be eligible.
// rule: S3-GATE-7
#[test]
fn direct_hand_off_does_not_lock_others_out() {
    let mut apart = queue(4);
    let (hogged, pair, handed) = hand_off(&mut apart, GroupId::ROOT);
    assert!(hogged >= 999_000, "the hog had {hogged}, the pair {pair}");
    assert!(handed > 5_000, "and yet most calls are handed over directly: {handed}");

    let mut together = queue(4);
    let group = together.add_group(GroupId::ROOT, Params::default()).unwrap();
    let (hogged, pair, handed) = hand_off(&mut together, group);
    assert!(hogged >= 1_499_000, "the hog had {hogged}, the pair {pair}");
    assert!(handed > 5_000, "and yet most calls are handed over directly: {handed}");
}

/// A client and a server in `group` against a hog outside: what the hog had, what the pair
/// had, and how many calls were handed over directly.
fn hand_off(queue: &mut Queue, group: GroupId) -> (u64, u64, u32) {
    let hog = awake(queue, Params::default());
    let mut client = queue.add(group, Params::default()).unwrap();
    let mut server = queue.add(group, Params::default()).unwrap();
    let _ = queue.wake(client).unwrap();
    let (mut pair, mut handed, mut hogged) = (0, 0, 0);
    let mut next = queue.pick();
    for _ in 0..30_000 {
        let id = next.unwrap();
        let _ = queue.charge(id, 100).unwrap();
        if id == hog {
            hogged += 100;
            next = queue.pick();
            continue;
        }
        pair += 100;
        // Calls, and waits for the answer.
        let _ = queue.wake(server).unwrap();
        queue.sleep(client).unwrap();
        next = queue.pick_preferring(server).unwrap();
        handed += u32::from(next == Some(server));
        (client, server) = (server, client);
    }
    (hogged, pair, handed)
}

/// An entity that sleeps most of the time runs immediately when it wakes, even on a busy processor:
/// it has no debt, and a short request.
#[test]
fn sleepers_wait_for_one_turn_at_most() {
    let mut queue = queue(12);
    for _ in 0..10 {
        awake(&mut queue, Params::default());
    }
    let sleeper = queue.add(GroupId::ROOT, slice(100)).unwrap();
    for round in 0..500 {
        let running = queue.pick().unwrap();
        let _ = queue.charge(running, 300).unwrap();
        assert_eq!(queue.wake(sleeper).unwrap(), Woken::Preempts, "round {round}");
        assert_eq!(queue.pick(), Some(sleeper), "round {round}");
        let _ = queue.charge(sleeper, 50).unwrap();
        queue.sleep(sleeper).unwrap();
        run(&mut queue, 7, |_| 1_000);
    }
}

/// Credit is kept over sleep, but not more than the longest slice.
#[test]
fn credit_outlasts_sleep_up_to_the_longest_slice() {
    let mut queue = queue(2);
    let hog = awake(&mut queue, Params::default());
    let patient = awake(&mut queue, Params::default());
    assert_eq!(queue.pick_preferring(hog).unwrap(), Some(hog));
    let _ = queue.charge(hog, 8_000).unwrap();
    assert_eq!(queue.view(patient).unwrap().lag, 4_000);
    queue.sleep(patient).unwrap();
    assert_eq!(queue.view(patient).unwrap().lag, 4_000);
    let _ = queue.charge(hog, 1_000).unwrap();
    let _ = queue.wake(patient).unwrap();
    assert!(queue.view(patient).unwrap().lag.abs_diff(4_000) <= 1, "as it left");

    let _ = queue.charge(hog, 1 << 30).unwrap();
    queue.sleep(patient).unwrap();
    let _ = queue.wake(patient).unwrap();
    let kept = queue.view(patient).unwrap().lag;
    assert!(kept.abs_diff(LIMITS.max_slice as i64) <= 1, "{kept}");
}
