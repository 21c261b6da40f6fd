//! Scheduling contexts over time: depletion, refills, timeouts, overruns, and clocks at
//! their limits.

use parcae_core::context::{
    Band, ContextId, ContextSlot, Contexts, Endpoint, Event, EventKind, Gate, NEVER, Overrun,
    Params, PartyId, PartySlot, Refill, Refused, Stop, Urgency,
};

type Table = Contexts<[ContextSlot; 4], [PartySlot; 4]>;

const PORT: Endpoint = Endpoint { port: 7, badge: 42 };
const SLIDING: Refill = Refill::SlidingWindow { refills: 4 };

fn table() -> Table {
    Contexts::new(0, [ContextSlot::EMPTY; 4], [PartySlot::EMPTY; 4])
}

fn awake(table: &mut Table, params: Params, now: u64) -> (PartyId, ContextId) {
    let party = table.register(None).unwrap();
    let context = table.create(params, now).unwrap();
    table.bind(context, party).unwrap();
    table.wake(party, now).unwrap();
    (party, context)
}

/// Runs from `from` to `to`; what is left then.
fn run(table: &mut Table, party: PartyId, from: u64, to: u64, why: Stop) -> u64 {
    table.start(party, from).unwrap();
    table.stop(to, why).unwrap().left
}

fn refills(table: &Table, context: ContextId) -> Vec<(u64, u64)> {
    table.refills(context).map(|refill| (refill.time, refill.amount)).collect()
}

fn events(table: &mut Table) -> Vec<Event> {
    std::iter::from_fn(|| table.take_event()).collect()
}

/// Gate: depletion.
// rule: S3-GATE-10
#[test]
fn depletion_stops_the_party_until_the_refill() {
    for refill in [Refill::HardCbs, Refill::PerJob, SLIDING] {
        let mut table = table();
        let (party, context) = awake(&mut table, Params { refill, ..Params::new(30, 100) }, 0);
        table.start(party, 0).unwrap();
        assert_eq!(table.charge(29).unwrap().depleted, None);
        assert_eq!(table.stop(30, Stop::Preempted).unwrap().depleted, Some(100));
        for now in [30, 99] {
            assert_eq!(table.start(party, now), Err(Refused::Depleted { until: 100 }));
            assert_eq!(table.left(context, now), Some(0));
        }
        let usage = table.usage(context).unwrap();
        assert_eq!((usage.depletions, usage.overruns), (1, 0));
    }
}

/// Gate: replenishment.
// rule: S3-SC-2
#[test]
fn replenishment_is_a_period_after_and_of_the_whole_budget() {
    for refill in [Refill::HardCbs, Refill::PerJob, SLIDING] {
        let mut table = table();
        let (party, context) = awake(&mut table, Params { refill, ..Params::new(30, 100) }, 0);
        for round in 0..5 {
            let now = round * 100;
            let grant = table.start(party, now).unwrap();
            assert_eq!((grant.limit, grant.deadline), (30, now + 100));
            assert_eq!(table.stop(now + 30, Stop::Preempted).unwrap().depleted, Some(now + 100));
            assert_eq!(refills(&table, context), [(now + 100, 30)]);
        }
        assert_eq!(table.usage(context).unwrap().missed, 0);
    }
}

/// Gate: timeout notification.
// rule: S3-GATE-12, S3-SC-7
#[test]
fn a_timeout_is_told_once_per_refill_to_who_asked_for_it() {
    let mut table = table();
    let params = Params { timeout: Some(PORT), ..Params::new(30, 100) };
    let (party, context) = awake(&mut table, params, 0);
    assert_eq!(run(&mut table, party, 0, 30, Stop::Preempted), 0);
    let _ = table.start(party, 40).unwrap_err();
    let told = events(&mut table);
    assert_eq!(told.len(), 1);
    let Event { kind, endpoint, holder, at, amount, count, .. } = told[0];
    assert_eq!((kind, endpoint, holder), (EventKind::Timeout, Some(PORT), Some(party)));
    assert_eq!((at, amount, count), (30, 30, 1));
    let _ = table.start(party, 50).unwrap_err();
    assert_eq!(events(&mut table), [], "the same refill");
    assert_eq!(table.take_consumed(context), Some(30));
    assert_eq!(run(&mut table, party, 100, 130, Stop::Preempted), 0);
    assert_eq!(events(&mut table)[0].amount, 30, "since it was read");
}

#[test]
fn who_blocks_with_its_last_budget_has_no_timeout() {
    let mut table = table();
    let params = Params { timeout: Some(PORT), ..Params::new(30, 100) };
    let (party, _) = awake(&mut table, params, 0);
    assert_eq!(run(&mut table, party, 0, 30, Stop::Blocked), 0);
    assert_eq!(events(&mut table), []);
    assert_eq!(table.wake(party, 60), Ok(100), "still depleted");
    let _ = table.start(party, 60).unwrap_err();
    assert_eq!(events(&mut table).len(), 1, "now it wants to run");
}

/// The problem of a budget that ends inside a server: the server's own endpoint gets the event, and
/// its listener revokes the call.
#[test]
fn a_server_hears_of_its_callers_budget_and_the_call_is_aborted() {
    let own = Endpoint { port: 1, badge: 1 };
    let mut table = table();
    let params = Params { timeout: Some(PORT), ..Params::new(30, 100) };
    let (client, context) = awake(&mut table, params, 0);
    let server = table.register(Some(own)).unwrap();
    table.start(client, 0).unwrap();
    let call = table.donate(client, server, Gate::default(), 5).unwrap();
    let charge = table.stop(30, Stop::Preempted).unwrap();
    assert_eq!((charge.party, charge.depleted), (server, Some(100)));
    let told = events(&mut table);
    assert_eq!((told[0].endpoint, told[0].holder), (Some(own), Some(server)));
    assert_eq!(table.revoke(call, 31).unwrap().context, Some(context));
    let (next, _) = awake(&mut table, Params::new(10, 100), 31);
    table.start(next, 31).unwrap();
    assert!(table.donate(next, server, Gate::default(), 32).is_ok(), "free for the next");
}

#[test]
fn without_an_endpoint_nothing_is_told() {
    let mut table = table();
    let (party, _) = awake(&mut table, Params::new(30, 100), 0);
    run(&mut table, party, 0, 45, Stop::Preempted);
    let _ = table.start(party, 50).unwrap_err();
    assert_eq!(events(&mut table), []);
}

#[test]
fn overruns_are_charged_over_as_many_periods_as_it_takes() {
    for refill in [Refill::HardCbs, Refill::PerJob, SLIDING] {
        let params = Params { refill, overrun: Overrun::Notify, ..Params::new(10, 100) };
        for (used, until, left) in
            [(10, 100, 10), (11, 100, 9), (19, 100, 1), (20, 200, 10), (25, 200, 5), (995, 9900, 5)]
        {
            let mut table = table();
            let (party, context) = awake(&mut table, params, 0);
            table.start(party, 0).unwrap();
            let charge = table.stop(used, Stop::Preempted).unwrap();
            assert_eq!((charge.used, charge.overrun), (used, used - 10));
            // The sliding window dates what was used of a refill after the rest of it.
            let ready = charge.depleted.unwrap();
            assert!(ready == until || (refill == SLIDING && ready == until + 10 - left));
            assert_eq!(table.start(party, ready).unwrap().limit, left);
            let usage = table.usage(context).unwrap();
            assert_eq!((usage.total, usage.worst_overrun), (used, used - 10));
            let kinds: Vec<_> = events(&mut table).iter().map(|event| event.kind).collect();
            let overran = kinds.contains(&EventKind::Overrun);
            assert_eq!((kinds[0], overran), (EventKind::Depleted, used > 10));
        }
    }
}

#[test]
fn running_on_without_budget_is_one_overrun_and_admission_learns_of_it() {
    let mut table = table();
    let (party, context) = awake(&mut table, Params::new(10, 100), 0);
    table.start(party, 0).unwrap();
    assert_eq!(table.charge(10).unwrap().overrun, 0);
    assert_eq!(table.charge(12).unwrap().overrun, 2);
    assert_eq!(table.stop(15, Stop::Preempted).unwrap().overrun, 5);
    let usage = table.usage(context).unwrap();
    assert_eq!((usage.depletions, usage.overruns, usage.worst_overrun), (1, 1, 5));
    assert_eq!(table.demands().next().unwrap().check_distance, 5);
}

#[test]
fn an_overrun_beyond_its_tolerance_halts_the_context() {
    let mut table = table();
    let params = Params { overrun: Overrun::Halt { tolerance: 2 }, ..Params::new(10, 100) };
    let (party, context) = awake(&mut table, params, 0);
    run(&mut table, party, 0, 12, Stop::Preempted);
    table.start(party, 100).unwrap();
    let _ = table.stop(111, Stop::Preempted).unwrap(); // 8 were there
    assert_eq!(table.start(party, 500), Err(Refused::Halted), "fails closed");
    let told: Vec<_> = events(&mut table).iter().map(|e| (e.kind, e.amount, e.count)).collect();
    assert!(told.contains(&(EventKind::Overrun, 3, 2)), "the worst of two: {told:?}");
    table.resume(context).unwrap();
    assert!(table.start(party, 500).is_ok());
}

#[test]
fn events_of_one_context_do_not_crowd_out_the_others() {
    let mut table = table();
    let noisy = Params { overrun: Overrun::Notify, ..Params::new(10, 100) };
    let (first, loud) = awake(&mut table, noisy, 0);
    let (second, quiet) = awake(&mut table, noisy, 0);
    let (third, gone) = awake(&mut table, noisy, 0);
    for round in 0..50 {
        run(&mut table, first, round * 200, round * 200 + 15, Stop::Preempted);
    }
    for party in [third, second] {
        run(&mut table, party, 10_000, 10_011, Stop::Preempted);
    }
    table.destroy(gone, 10_020).unwrap();
    let told = events(&mut table);
    assert!(told.iter().all(|event| event.context != gone), "it went with its context");
    let of = |context| told.iter().filter(|event| event.context == context).count();
    assert_eq!((of(loud), of(quiet)), (3, 3), "depleted, overrun, missed");
    assert_eq!(told[0].context, loud, "in the order of the first");
    assert_eq!(told[1].context, quiet, "one each in turn");
    let overran = told.iter().find(|e| e.context == loud && e.kind == EventKind::Overrun);
    assert_eq!(overran.unwrap().count, 50, "none is lost");
}

// rule: S3-SC-7
#[test]
fn missed_deadlines_are_counted_once_each() {
    let mut table = table();
    let params = Params { deadline: 20, overrun: Overrun::Notify, ..Params::new(10, 100) };
    let (party, context) = awake(&mut table, params, 0);
    run(&mut table, party, 0, 5, Stop::Preempted);
    run(&mut table, party, 30, 33, Stop::Preempted); // the worker was elsewhere
    run(&mut table, party, 40, 42, Stop::Preempted);
    assert_eq!(table.usage(context).unwrap().missed, 1);
    let told = events(&mut table).into_iter().find(|e| e.kind == EventKind::Missed).unwrap();
    assert_eq!(told.amount, 22, "by how much it was late, at the end");
    run(&mut table, party, 100, 110, Stop::Preempted);
    assert_eq!(table.usage(context).unwrap().missed, 1);
}

#[test]
fn yielding_gives_up_the_rest_of_the_period() {
    for refill in [Refill::HardCbs, Refill::PerJob, SLIDING] {
        let mut table = table();
        let (party, context) = awake(&mut table, Params { refill, ..Params::new(30, 100) }, 0);
        table.start(party, 0).unwrap();
        let charge = table.stop(5, Stop::Yielded).unwrap();
        assert_eq!((charge.used, charge.left), (5, 0));
        let back = charge.depleted.unwrap();
        assert!((100..=105).contains(&back));
        assert!(table.start(party, 99).is_err());
        let sum: u64 = table.refills(context).map(|refill| refill.amount).sum();
        assert_eq!(sum, 30);
    }
}

/// However a party sleeps, wakes, is resumed, reconfigured or moved: no more than a budget.
#[test]
fn resuming_cannot_exceed_the_budget() {
    for refill in [Refill::HardCbs, Refill::PerJob, SLIDING] {
        let mut table = table();
        let params = Params { refill, ..Params::new(10, 100) };
        let (party, context) = awake(&mut table, params, 0);
        assert_eq!(run(&mut table, party, 0, 10, Stop::Blocked), 0);
        for now in [10, 20, 50, 99] {
            assert_eq!(table.wake(party, now), Ok(100));
            table.resume(context).unwrap();
            table.reconfigure(context, params, now).unwrap();
            assert_eq!(table.start(party, now), Err(Refused::Depleted { until: 100 }));
        }
    }
}

/// The bug of a thread both blocked and queued: a charge never makes anyone runnable.
#[test]
fn who_blocks_stays_blocked_when_the_refill_comes() {
    let mut table = table();
    let (party, _) = awake(&mut table, Params::new(10, 100), 0);
    run(&mut table, party, 0, 15, Stop::Blocked);
    assert_eq!(table.start(party, 100), Err(Refused::Asleep));
    table.wake(party, 150).unwrap();
    assert!(table.start(party, 150).is_ok());
}

/// The bug of signal ping-pong: a woken context is placed by its deadline.
// rule: S3-DECIDE-2
#[test]
fn waking_does_not_jump_ahead_of_equals() {
    let mut table = table();
    let (sleeper, woken) = awake(&mut table, Params::new(10, 100), 0);
    let (_, waiting) = awake(&mut table, Params::new(10, 100), 0);
    for round in 1..10 {
        let now = round * 4;
        run(&mut table, sleeper, now, now + 1, Stop::Blocked);
        table.wake(sleeper, now + 2).unwrap();
        assert!(table.urgency(woken) >= table.urgency(waiting));
    }
    assert!(Urgency::new(Band(2), 900) < Urgency::new(Band(1), 100), "bands go first");
}

#[test]
fn a_job_that_blocks_is_over() {
    let mut table = table();
    let params = Params { deadline: 60, refill: Refill::PerJob, ..Params::new(20, 100) };
    let (party, context) = awake(&mut table, params, 0);
    run(&mut table, party, 0, 2, Stop::Preempted);
    assert_eq!(run(&mut table, party, 5, 7, Stop::Blocked), 16);
    assert_eq!(table.wake(party, 8), Ok(100));
    assert_eq!(table.start(party, 100).unwrap().limit, 20);
    let _ = table.stop(120, Stop::Blocked).unwrap();
    // The next may arrive at 200; it arrives later, and its deadline counts from then.
    assert_eq!(table.wake(party, 230), Ok(230));
    assert_eq!(
        (table.urgency(context).unwrap().deadline(), table.left(context, 230)),
        (290, Some(20))
    );
}

/// The bug of a wake rule that is too generous when the deadline is before the period.
#[test]
fn an_early_wake_gets_no_more_than_its_density() {
    let mut table = table();
    let params = Params { deadline: 40, ..Params::new(20, 100) };
    let (party, context) = awake(&mut table, params, 0);
    assert_eq!(run(&mut table, party, 0, 2, Stop::Blocked), 18);
    table.wake(party, 3).unwrap();
    assert_eq!(table.left(context, 3), Some(18), "18/37 is within 20/40");
    run(&mut table, party, 3, 4, Stop::Blocked);
    table.wake(party, 30).unwrap();
    assert_eq!(table.left(context, 30), Some(5), "20/40 of the 10 until the deadline");
    assert_eq!(table.urgency(context).unwrap().deadline(), 40);
    run(&mut table, party, 30, 31, Stop::Blocked);
    assert_eq!(table.wake(party, 40), Ok(100), "nothing after the deadline");

    let mut table = self::table();
    let (party, context) = awake(&mut table, Params::new(20, 100), 0);
    run(&mut table, party, 0, 2, Stop::Blocked);
    table.wake(party, 10).unwrap();
    assert_eq!((table.left(context, 10), table.ready_at(context)), (Some(18), Some(0)));
    run(&mut table, party, 10, 11, Stop::Blocked);
    table.wake(party, 50).unwrap();
    assert_eq!((table.left(context, 50), table.ready_at(context)), (Some(20), Some(50)));
    assert_eq!(table.urgency(context).unwrap().deadline(), 150);
}

#[test]
fn one_and_two_periodic_parties_are_served_accurately_and_in_order() {
    let mut table = table();
    let (slow, slow_context) = awake(&mut table, Params::new(40, 100), 0);
    let (fast, fast_context) = awake(&mut table, Params::new(5, 10), 0);
    let mut order = Vec::new();
    for now in 0..1000 {
        // The more urgent of the ready ones runs for one tick.
        let mut parties = [(fast, fast_context), (slow, slow_context)];
        parties.sort_by_key(|&(_, context)| table.urgency(context));
        let ran = parties.iter().find(|&&(party, _)| table.start(party, now).is_ok());
        if let Some(&(party, _)) = ran {
            order.push(party);
            let _ = table.stop(now + 1, Stop::Preempted).unwrap();
        }
    }
    assert_eq!(table.usage(slow_context).unwrap().total, 400);
    assert_eq!(table.usage(fast_context).unwrap().total, 500);
    assert_eq!(&order[..6], [fast, fast, fast, fast, fast, slow]);
    for context in [slow_context, fast_context] {
        assert_eq!(table.usage(context).unwrap().missed, 0);
    }
}

#[test]
fn a_server_that_is_late_by_whole_jobs_does_not_catch_up() {
    let mut table = table();
    let (party, context) = awake(&mut table, Params::new(10, 100), 0);
    assert_eq!(run(&mut table, party, 10_000, 10_010, Stop::Preempted), 0);
    assert_eq!(table.ready_at(context), Some(10_100), "as if it had arrived when it could run");
    // Also when it overruns at the same time.
    run(&mut table, party, 20_000, 20_035, Stop::Preempted);
    assert_eq!(table.ready_at(context), Some(20_300));
    assert_eq!(table.usage(context).unwrap().missed, 2);
}

#[test]
fn slivers_below_the_minimum_wait_for_more() {
    for refill in [Refill::HardCbs, Refill::PerJob, SLIDING] {
        let mut table = table().with_min_slice(5);
        let (party, context) = awake(&mut table, Params { refill, ..Params::new(30, 100) }, 0);
        table.start(party, 0).unwrap();
        assert_eq!(table.charge(25).unwrap().left, 5);
        let charge = table.stop(26, Stop::Preempted).unwrap();
        assert_eq!((charge.left, charge.depleted), (0, Some(100)));
        assert_eq!(refills(&table, context), [(100, 30)]);
    }
}

#[test]
fn a_sliding_window_returns_each_piece_a_period_after_its_use() {
    let mut table = table();
    let (party, context) = awake(&mut table, Params { refill: SLIDING, ..Params::new(30, 100) }, 0);
    run(&mut table, party, 0, 10, Stop::Blocked);
    assert_eq!(refills(&table, context), [(10, 20), (100, 10)]);
    table.wake(party, 40).unwrap();
    run(&mut table, party, 50, 55, Stop::Blocked);
    assert_eq!(refills(&table, context), [(55, 15), (100, 10), (150, 5)]);
    // Charged in parts or at once, a use is one piece.
    table.wake(party, 60).unwrap();
    table.start(party, 60).unwrap();
    for now in 61..=70 {
        let _ = table.charge(now).unwrap();
    }
    let _ = table.stop(75, Stop::Blocked).unwrap();
    assert_eq!(refills(&table, context), [(100, 10), (150, 5), (160, 15)]);
    // A full ring delays: nothing comes early.
    for (at, expected) in [
        (100, vec![(101, 9), (150, 5), (160, 15), (200, 1)]),
        (110, vec![(111, 8), (150, 5), (160, 15), (210, 2)]),
    ] {
        table.wake(party, at).unwrap();
        run(&mut table, party, at, at + 1, Stop::Blocked);
        assert_eq!(refills(&table, context), expected);
    }
}

#[test]
fn after_a_long_sleep_the_pieces_are_one() {
    let mut table = table();
    let params = Params { refill: Refill::SlidingWindow { refills: 8 }, ..Params::new(30, 100) };
    let (party, context) = awake(&mut table, params, 0);
    for now in (0..50).step_by(10) {
        table.wake(party, now).unwrap();
        run(&mut table, party, now, now + 2, Stop::Blocked);
    }
    assert_eq!(refills(&table, context).len(), 6);
    table.wake(party, 125).unwrap();
    assert_eq!(refills(&table, context), [(120, 26), (130, 2), (140, 2)], "what was there by then");
    assert_eq!(table.start(party, 125).unwrap().limit, 26);
}

#[test]
fn a_clock_that_jumps_is_counted_and_charged_as_one_budget() {
    let mut table = table().with_clock_gap(1_000);
    let (party, context) = awake(&mut table, Params::new(10, 100), 0);
    table.start(party, 0).unwrap();
    let charge = table.stop(5_000_000, Stop::Preempted).unwrap();
    assert_eq!(charge.used, 10);
    assert_eq!(table.usage(context).unwrap().gaps, 1);
    // Backwards: nothing is charged, and nothing is given back.
    table.start(party, 5_000_000).unwrap();
    assert_eq!(table.charge(4_000_000).unwrap().used, 0);
    assert_eq!(table.stop(5_000_003, Stop::Preempted).unwrap().used, 3);
}

/// Times and charges at the limits of u64: no overflow, and what cannot be counted never
/// comes.
#[test]
fn extremes_of_time_fail_closed() {
    const FAR: u64 = NEVER - 10;
    for refill in [Refill::HardCbs, Refill::PerJob, SLIDING] {
        let params = Params { refill, ..Params::new(1 << 59, 1 << 60) };
        let mut table = table();
        let (party, context) = awake(&mut table, params, FAR);
        table.start(party, FAR).unwrap();
        assert_eq!(table.charge(NEVER - 1).unwrap().used, 9);
        let _ = table.stop(NEVER, Stop::Yielded).unwrap();
        assert_eq!(table.start(party, NEVER), Err(Refused::Depleted { until: NEVER }));
        let sum: u64 = table.refills(context).map(|refill| refill.amount).sum();
        assert_eq!(sum, 1 << 59);

        // A whole life in one charge, against the smallest budget: in constant time.
        let mut table = self::table();
        let (party, context) = awake(&mut table, Params { refill, ..Params::new(1, 1 << 60) }, 0);
        table.start(party, 0).unwrap();
        let charge = table.stop(NEVER, Stop::Preempted).unwrap();
        assert_eq!((charge.used, charge.overrun), (NEVER, NEVER - 1));
        assert_eq!(charge.depleted, Some(NEVER));
        assert_eq!(table.wake(party, NEVER), Ok(NEVER));
        assert!(table.start(party, NEVER).is_err());
        assert_eq!(table.usage(context).unwrap().total, NEVER);
    }
}

#[test]
fn a_budget_as_long_as_the_period_is_a_time_slice() {
    for refill in [Refill::HardCbs, Refill::PerJob, SLIDING] {
        let mut table = table();
        let (party, _) = awake(&mut table, Params { refill, ..Params::new(10, 10) }, 0);
        for now in (0..100).step_by(10) {
            table.start(party, now).unwrap();
            assert_eq!(table.stop(now + 10, Stop::Preempted).unwrap().depleted, None);
        }
    }
}
