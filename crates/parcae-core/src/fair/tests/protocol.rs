//! Refused operations, and that a refusal changes nothing.

use super::*;
use std::string::ToString;

#[test]
fn stale_handles_are_refused_everywhere() {
    let mut queue = queue(2);
    let hog = awake(&mut queue, Params::default());
    let gone = awake(&mut queue, Params::default());
    queue.remove(gone).unwrap();
    let tenant = awake(&mut queue, Params::default());
    assert_eq!(tenant.index(), gone.index(), "the slot has a new tenant");
    let before = queue.view(tenant);
    for _ in 0..2 {
        assert_eq!(queue.wake(gone), Err(FairError::Stale));
        assert_eq!(queue.sleep(gone), Err(FairError::Stale));
        assert_eq!(queue.remove(gone), Err(FairError::Stale));
        assert_eq!(queue.leave(gone), Err(FairError::Stale));
        assert_eq!(queue.charge(gone, 1), Err(FairError::Stale));
        assert_eq!(queue.yield_now(gone), Err(FairError::Stale));
        assert_eq!(queue.reweight(gone, Weight::MIN), Err(FairError::Stale));
        assert_eq!(queue.set_latency(gone, Latency::Batch), Err(FairError::Stale));
        assert_eq!(queue.view(gone), Err(FairError::Stale));
        assert_eq!(queue.pick_preferring(gone), Err(FairError::Stale));
    }
    assert_eq!(queue.view(tenant), before);
    let elsewhere = EntityId { index: 99, generation: 1 };
    assert_eq!(queue.view(elsewhere), Err(FairError::Stale));
    assert_eq!(queue.pick(), Some(hog));
}

#[test]
fn memory_that_is_used_again_knows_no_old_handles() {
    let mut slots = [Slot::EMPTY; 2];
    let mut first = FairQueue::new(&mut slots[..], [], LIMITS).unwrap();
    let old = first.add(GroupId::ROOT, Params::default()).unwrap();
    let mut second = FairQueue::new(&mut slots[..], [], LIMITS).unwrap();
    assert_eq!(second.view(old), Err(FairError::Stale));
    let new = second.add(GroupId::ROOT, Params::default()).unwrap();
    assert_eq!(second.view(old), Err(FairError::Stale));
    assert!(second.view(new).is_ok());
}

#[test]
fn only_the_one_that_runs_is_charged() {
    let mut queue = queue(3);
    let a = awake(&mut queue, Params::default());
    let b = awake(&mut queue, Params::default());
    assert_eq!(queue.charge(a, 1), Err(FairError::NotRunning));
    assert_eq!(queue.pick(), Some(a));
    assert_eq!(queue.charge(b, 1), Err(FairError::NotRunning));
    assert_eq!(queue.yield_now(b), Err(FairError::NotRunning));
    assert_eq!(queue.charge(a, 999), Ok(Charged::GoOn));
    assert_eq!(queue.charge(a, 1), Ok(Charged::Served));
    queue.sleep(a).unwrap();
    assert_eq!(queue.charge(a, 1), Err(FairError::NotRunning));
    assert_eq!(queue.sleep(a), Err(FairError::Asleep));
    let _ = queue.wake(a).unwrap();
    assert_eq!(queue.wake(a), Err(FairError::Awake));
}

#[test]
fn groups_do_what_their_members_do() {
    let mut queue = queue(3);
    let tenant = queue.add_group(GroupId::ROOT, Params::default()).unwrap();
    let entity = queue.entity_of(tenant).unwrap();
    assert_eq!(queue.wake(entity), Err(FairError::IsGroup));
    assert_eq!(queue.sleep(entity), Err(FairError::IsGroup));
    assert_eq!(queue.remove(entity), Err(FairError::IsGroup));
    assert_eq!(queue.leave(entity), Err(FairError::IsGroup));
    assert_eq!(queue.entity_of(GroupId::ROOT), Err(FairError::InUse));
    assert_eq!(queue.view(entity).unwrap().state, State::Asleep);
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut queue = queue_with(2, 2, LIMITS);
    for slice in [0, 99, 10_001, u64::MAX] {
        let params = Params { latency: Latency::Slice(slice), ..Params::default() };
        let refused = FairError::Slice { min: 100, max: 10_000 };
        assert_eq!(queue.add(GroupId::ROOT, params), Err(refused));
        assert_eq!(queue.add_group(GroupId::ROOT, params), Err(refused));
    }
    let id = queue.add(GroupId::ROOT, Params::default()).unwrap();
    let wrong = queue.set_latency(id, Latency::Slice(1));
    assert!(wrong.unwrap_err().to_string().contains("from 100 to 10000"));
    let tenant = queue.add_group(GroupId::ROOT, Params::default()).unwrap();
    assert_eq!(queue.add(tenant, Params::default()), Err(FairError::Full));
    queue.remove(id).unwrap();
    assert_eq!(queue.add_group(tenant, Params::default()), Err(FairError::GroupsFull));
    assert!(FairQueue::new([Slot::EMPTY; 0], [], LIMITS).is_err());
    let few = FairQueue::new([Slot::EMPTY; 100], [Node::EMPTY; 32], LIMITS);
    assert_eq!(few.unwrap_err(), FairError::Memory { needed: 33 });
    let groups: [GroupSlot; 0] = [];
    assert!(FairQueue::with_groups([Slot::EMPTY; 1], [], groups, LIMITS).is_err());
}

#[test]
fn limits_that_contradict_each_other_are_refused() {
    for wrong in [
        Limits { min_charge: 0, ..LIMITS },
        Limits { min_charge: 101, ..LIMITS },
        Limits { slice: 99, ..LIMITS },
        Limits { max_slice: 999, ..LIMITS },
        Limits { max_slice: 1 << 32, ..LIMITS },
    ] {
        let error = FairQueue::new([Slot::EMPTY; 1], [], wrong).unwrap_err();
        assert_eq!(error, FairError::Limits(wrong));
    }
    assert!(Limits::NANOS.hold() && Limits::OPS.hold());
}

/// An entity that cannot join is returned, with its lag.
#[test]
fn a_refused_departure_is_returned() {
    let mut from = queue(2);
    let hog = awake(&mut from, Params::default());
    let mover = awake(&mut from, slice(10_000));
    assert_eq!(from.pick_preferring(hog).unwrap(), Some(hog));
    let _ = from.charge(hog, 2_000).unwrap();
    let departure = from.leave(mover).unwrap();
    assert_eq!(departure.lag(), 1_000);
    assert_eq!(from.view(mover), Err(FairError::Stale));

    let mut full = queue_with(1, 1, LIMITS);
    awake(&mut full, Params::default());
    let (error, departure) = full.join(GroupId::ROOT, departure).unwrap_err();
    assert_eq!(error, FairError::Full);
    let mut narrow = queue_with(1, 1, Limits { max_slice: 9_999, ..LIMITS });
    let (error, departure) = narrow.join(GroupId::ROOT, departure).unwrap_err();
    assert!(matches!(error, FairError::Slice { .. }));
    let (mover, _) = from.join(GroupId::ROOT, departure).unwrap();
    let view = from.view(mover).unwrap();
    assert!(view.lag.abs_diff(1_000) <= 1);
    let left = view.deadline.wrapping_sub(view.eligible_at);
    assert_eq!(left, 10_000 * 1024, "and is due as far ahead as it was");
}

/// A request that is half used moves as half a request.
#[test]
fn what_is_left_of_a_request_moves_along() {
    let mut here = queue(2);
    let mut there = queue(2);
    awake(&mut here, Params::default());
    awake(&mut there, weight(77));
    let mover = awake(&mut here, weight(2_048));
    assert_eq!(here.pick_preferring(mover).unwrap(), Some(mover));
    let _ = here.charge(mover, 400).unwrap();
    let departure = here.leave(mover).unwrap();
    let (mover, _) = there.join(GroupId::ROOT, departure).unwrap();
    let view = there.view(mover).unwrap();
    assert_eq!(view.deadline.wrapping_sub(view.eligible_at), 600 * 512);
}

#[test]
fn an_empty_queue_picks_nobody_and_remembers_its_time() {
    let mut queue = queue(1);
    assert_eq!((queue.pick(), queue.current()), (None, None));
    let id = awake(&mut queue, Params::default());
    assert_eq!(queue.pick(), Some(id));
    let _ = queue.charge(id, 5_000).unwrap();
    let then = queue.virtual_time(GroupId::ROOT).unwrap();
    queue.sleep(id).unwrap();
    assert_eq!(queue.virtual_time(GroupId::ROOT).unwrap(), then);
    assert_eq!(queue.pick(), None);
    let _ = queue.wake(id).unwrap();
    assert_eq!(queue.virtual_time(GroupId::ROOT).unwrap(), then);
    assert_eq!(queue.pick(), Some(id), "and it runs again");
    queue.remove(id).unwrap();
    assert_eq!((queue.pick(), queue.current()), (None, None));
}

#[test]
fn errors_say_what_to_do() {
    let all = [
        (FairError::Stale, "drop the handle"),
        (FairError::Full, "more slots"),
        (FairError::GroupsFull, "remove an empty group"),
        (FairError::TooDeep, "higher up"),
        (FairError::NotRunning, "`pick` returned last"),
        (FairError::Awake, "put it to sleep"),
        (FairError::Asleep, "wake it first"),
        (FairError::IsGroup, "members instead"),
        (FairError::InUse, "remove its members first"),
        (FairError::Limits(LIMITS), "min_charge ≤ min_slice"),
        (FairError::Memory { needed: 7 }, "at least 7 nodes"),
    ];
    for (error, advice) in all {
        assert!(error.to_string().contains(advice), "{error}");
    }
}

#[test]
fn a_miss_costs_nothing() {
    let mut queue = queue(2);
    let (one, two) = (awake(&mut queue, Params::default()), awake(&mut queue, Params::default()));
    let picked = queue.pick().unwrap();
    let other = if picked == one { two } else { one };
    assert_eq!(queue.miss(other), Err(FairError::NotRunning));
    queue.miss(picked).unwrap();
    let view = queue.view(picked).unwrap();
    assert_eq!((view.state, view.lag), (State::Asleep, 0));
    assert_eq!(queue.view(other).unwrap().lag, 0);
    assert_eq!(queue.pick(), Some(other));
    // After a charge it is a sleep like any other.
    let _ = queue.wake(picked).unwrap();
    let _ = queue.charge(other, 500).unwrap();
    queue.miss(other).unwrap();
    assert_eq!(queue.view(other).unwrap().state, State::Lingering);
}

#[test]
fn the_rest_is_that_of_the_shortest_request_around() {
    let mut queue = queue(4);
    assert_eq!(queue.rest(), 0);
    let group = queue.add_group(GroupId::ROOT, slice(400)).unwrap();
    let leaf = queue.add(group, slice(900)).unwrap();
    let _ = queue.wake(leaf).unwrap();
    assert_eq!(queue.pick(), Some(leaf));
    assert_eq!(queue.rest(), 400);
    assert_eq!(queue.charge(leaf, 150), Ok(Charged::GoOn));
    assert_eq!(queue.rest(), 250);
    assert_eq!(queue.charge(leaf, 250), Ok(Charged::Served));
    assert_eq!(queue.rest(), 0);
}

#[test]
fn removed_debtors_can_be_forgiven() {
    let mut queue = queue(2);
    let stays = awake(&mut queue, Params::default());
    let debtor = awake(&mut queue, Params::default());
    while queue.pick() != Some(debtor) {
        let _ = queue.charge(stays, 1_000).unwrap();
    }
    let _ = queue.charge(debtor, 5_000).unwrap();
    queue.remove(debtor).unwrap();
    assert_eq!(queue.add(GroupId::ROOT, Params::default()), Err(FairError::Full));
    queue.forgive_removed();
    assert_eq!(queue.view(stays).unwrap().lag, 0, "nobody owes it anything");
    let next = awake(&mut queue, Params::default());
    let had = run(&mut queue, 2_000, |_| 1_000);
    assert_eq!(had[next.index()], had[stays.index()]);
}
