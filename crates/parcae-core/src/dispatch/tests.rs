//! Order of the realtime queue against a sorted list; the floor over recorded traces.

use super::*;
use crate::fair::{Limits, Params};
use proptest::prelude::*;
use std::string::ToString;
use std::vec::Vec;

const LIMITS: Limits = Limits { min_slice: 1, slice: 10, max_slice: 1_000, min_charge: 1 };

proptest! {
    #[test]
    fn the_first_is_the_most_critical_and_earliest_and_longest_there(
        steps in prop::collection::vec((0..4_u8, 0..3_u8, 0..20_u64, any::<usize>()), 0..200),
    ) {
        let mut queue = RealtimeQueue::new([RealtimeSlot::EMPTY; 12]);
        let mut model: Vec<(Band, u64, usize, RealtimeId)> = Vec::new();
        let mut stale = Vec::new();
        for (n, (what, band, deadline, which)) in steps.into_iter().enumerate() {
            let which = which % model.len().max(1);
            match what {
                0 | 1 => match queue.insert(n, Band::new(band), deadline) {
                    Ok(id) => model.push((Band::new(band), deadline, n, id)),
                    Err(error) => {
                        prop_assert_eq!((error, model.len()), (RealtimeError::Full, 12));
                    }
                },
                2 if !model.is_empty() => {
                    let (_, _, n, id) = model.remove(which);
                    prop_assert_eq!(queue.remove(id), Ok(n));
                    stale.push(id);
                }
                3 if !model.is_empty() => {
                    let (band, _, n, id) = model.remove(which);
                    queue.set_deadline(id, deadline).unwrap();
                    model.push((band, deadline, n, id));
                }
                _ => {}
            }
            // The list is in order of arrival, and sorting is stable.
            let mut order = model.clone();
            order.sort_by_key(|&(band, deadline, ..)| (core::cmp::Reverse(band), deadline));
            prop_assert_eq!(queue.first(), order.first().map(|work| work.2));
            prop_assert_eq!(queue.len(), model.len());
            for &id in &stale {
                prop_assert_eq!(queue.remove(id), Err(RealtimeError::Stale));
                prop_assert_eq!(queue.set_deadline(id, 0), Err(RealtimeError::Stale));
            }
        }
    }
}

/// Runs a worker over these queues until `end`, turns cut at `until`, and returns how much
/// the fair class had in each window.
fn fair_time_per_window(
    floor: Floor,
    end: u64,
    realtime_turn: u64,
    overrun: u64,
    mut realtime_ready: impl FnMut(u64) -> u32,
) -> Vec<u64> {
    let mut fair = FairQueue::new([Slot::EMPTY; 2], [], LIMITS).unwrap();
    let mut idle = FairQueue::new([Slot::EMPTY; 2], [], LIMITS).unwrap();
    for queue in [&mut fair, &mut idle] {
        let id = queue.add(GroupId::ROOT, Params::default()).unwrap();
        let _ = queue.wake(id).unwrap();
    }
    let mut dispatcher = Dispatcher::new(floor, 0);
    let windows = end.div_ceil(floor.window()) as usize;
    let mut had = std::vec![0; windows + 1];
    let mut now = 0;
    while now < end {
        let mut realtime = RealtimeQueue::new([RealtimeSlot::EMPTY; 1]);
        if realtime_ready(now) > 0 {
            realtime.insert((), Band::new(0), now + 5).unwrap();
        }
        let next = dispatcher.pick(now, &realtime, &mut fair, &mut idle);
        let (class, used) = match next.who {
            Who::Realtime(()) => {
                let until = next.until.expect("somebody fair waits");
                assert!(until > now, "or it would be the fair class's turn");
                (Class::Realtime, realtime_turn.min(until - now) + overrun)
            }
            Who::Fair(id) => {
                let _ = fair.charge(id, 3).unwrap();
                (Class::Fair, 3)
            }
            Who::Idle(_) | Who::Nobody => panic!("somebody else is runnable"),
        };
        dispatcher.charge(class, used);
        for t in now..now + used {
            if class == Class::Fair {
                had[(t / floor.window()) as usize] += 1;
            }
        }
        now += used;
    }
    had.truncate(windows);
    had
}

// rule: S3-ARCH-2, S3-POLICY-9
#[test]
fn best_effort_has_its_floor_in_every_window() {
    let floor = Floor::new(1_000, 50).unwrap();
    for turn in [1, 7, 90, 1_000] {
        // Realtime work without end.
        let had = fair_time_per_window(floor, 20_000, turn, 0, |_| 1);
        assert!(had.iter().all(|&had| (50..=52).contains(&had)), "turns of {turn}: {had:?}");
        // And with turns that do not stop when they should.
        let had = fair_time_per_window(floor, 20_000, turn, 20, |_| 1);
        assert!(had.iter().all(|&had| had >= 29), "turns of {turn}: {had:?}");
    }
}

/// Earlier service counts: realtime work gets all the rest.
#[test]
fn the_floor_is_a_floor_and_not_a_bonus() {
    let floor = Floor::new(1_000, 50).unwrap();
    let had = fair_time_per_window(floor, 20_000, 10, 0, |now| u32::from(now % 1_000 >= 200));
    assert!(had.iter().all(|&had| (190..=203).contains(&had)), "{had:?}");
}

#[test]
fn without_best_effort_realtime_has_everything() {
    let mut fair = FairQueue::new([Slot::EMPTY; 1], [], LIMITS).unwrap();
    let mut idle = FairQueue::new([Slot::EMPTY; 1], [], LIMITS).unwrap();
    let id = idle.add(GroupId::ROOT, Params::default()).unwrap();
    let _ = idle.wake(id).unwrap();
    let mut realtime = RealtimeQueue::new([RealtimeSlot::EMPTY; 1]);
    let work = realtime.insert('a', Band::new(0), 9).unwrap();
    let mut dispatcher = Dispatcher::new(Floor::new(100, 50).unwrap(), 0);
    for now in 0..500 {
        let next = dispatcher.pick(now, &realtime, &mut fair, &mut idle);
        assert_eq!(next, Next { who: Who::Realtime('a'), until: None }, "at {now}");
    }
    realtime.remove(work).unwrap();
    assert_eq!(dispatcher.pick(500, &realtime, &mut fair, &mut idle).who, Who::Idle(id));
    idle.sleep(id).unwrap();
    assert_eq!(dispatcher.pick(501, &realtime, &mut fair, &mut idle).who, Who::Nobody);
    assert_eq!(dispatcher.rescued(), 0);
}

#[test]
fn clocks_may_jump() {
    let mut fair = FairQueue::new([Slot::EMPTY; 1], [], LIMITS).unwrap();
    let mut idle = FairQueue::new([Slot::EMPTY; 1], [], LIMITS).unwrap();
    let id = fair.add(GroupId::ROOT, Params::default()).unwrap();
    let _ = fair.wake(id).unwrap();
    let mut realtime = RealtimeQueue::new([RealtimeSlot::EMPTY; 1]);
    realtime.insert((), Band::new(0), 9).unwrap();
    let mut dispatcher = Dispatcher::new(Floor::new(100, 10).unwrap(), 1_000);
    let mut at = |now| dispatcher.pick(now, &realtime, &mut fair, &mut idle);
    assert_eq!(at(3).until, Some(1_090), "backwards: still the first window");
    assert_eq!(at(1_090).who, Who::Fair(id));
    assert_eq!(at(u64::MAX - 50).who, Who::Realtime(()), "far ahead: another window");
    assert_eq!(at(u64::MAX).who, Who::Fair(id), "at the end of time its reserve has begun");
}

#[test]
fn another_floor_holds_at_once() {
    let mut fair = FairQueue::new([Slot::EMPTY; 1], [], LIMITS).unwrap();
    let mut idle = FairQueue::new([Slot::EMPTY; 1], [], LIMITS).unwrap();
    let id = fair.add(GroupId::ROOT, Params::default()).unwrap();
    let _ = fair.wake(id).unwrap();
    let mut realtime = RealtimeQueue::new([RealtimeSlot::EMPTY; 1]);
    realtime.insert((), Band::new(0), 9).unwrap();
    let mut dispatcher = Dispatcher::new(Floor::new(100, 10).unwrap(), 0);
    dispatcher.charge(Class::Fair, 10);
    dispatcher.set_floor(Floor::new(50, 40).unwrap(), 20);
    let next = dispatcher.pick(20, &realtime, &mut fair, &mut idle);
    assert_eq!(next.until, Some(30));
    assert_eq!(dispatcher.pick(30, &realtime, &mut fair, &mut idle).who, Who::Fair(id));
    assert_eq!(dispatcher.rescued(), 1);
}

#[test]
fn errors_say_what_is_right() {
    let error = Floor::new(10, 0).unwrap_err();
    assert!(error.to_string().contains("from 1 to the length of its window, not 0 of 10"));
    assert!(RealtimeError::Full.to_string().contains("as many slots as"));
    assert!(RealtimeError::Stale.to_string().contains("insert it again"));
}
