//! Groups: many owners, siblings, nesting, and groups that come and go.

use super::*;

/// S3's gate of load by many owners: what one's members are does not matter to the others.
// rule: S3-GATE-8
#[test]
fn tenants_share_by_their_weight_whatever_their_number_of_members() {
    let mut queue = queue(64);
    let mut member_of = std::vec![usize::MAX; 64];
    for (t, (w, members)) in [(1_000, 30), (2_000, 1), (4_000, 5)].into_iter().enumerate() {
        let tenant = queue.add_group(GroupId::ROOT, weight(w)).unwrap();
        for _ in 0..members {
            let id = queue.add(tenant, Params::default()).unwrap();
            let _ = queue.wake(id).unwrap();
            member_of[id.index()] = t;
        }
    }
    let had = run(&mut queue, 70_000, |_| 1_000);
    let mut tenants = [0_u64; 3];
    for (e, had) in had.iter().enumerate().filter(|(_, had)| **had > 0) {
        tenants[member_of[e]] += had;
    }
    for (had, share) in tenants.into_iter().zip([1, 2, 4]) {
        assert!(had.abs_diff(share * 10_000_000) <= 2_000, "{tenants:?}");
    }
}

/// S3's gate of sibling load: within an owner its members share by theirs.
#[test]
fn siblings_share_what_their_group_gets() {
    let mut queue = queue(8);
    let tenant = queue.add_group(GroupId::ROOT, Params::default()).unwrap();
    let hog = awake(&mut queue, Params::default());
    let siblings = [1, 2, 3].map(|w| {
        let id = queue.add(tenant, weight(w * 100)).unwrap();
        let _ = queue.wake(id).unwrap();
        id
    });
    let had = run(&mut queue, 24_000, |_| 1_000);
    assert!(had[hog.index()].abs_diff(12_000_000) <= 2_000);
    for (id, share) in siblings.iter().zip(1..) {
        assert!(had[id.index()].abs_diff(share * 2_000_000) <= 2_000, "{had:?}");
    }
}

#[test]
fn nested_groups_multiply_their_shares() {
    let mut queue = queue(16);
    // root ── half ── quarter ── eighth, each beside a hog of the same weight.
    let mut parent = GroupId::ROOT;
    let mut hogs = Vec::new();
    for _ in 0..4 {
        let hog = queue.add(parent, Params::default()).unwrap();
        let _ = queue.wake(hog).unwrap();
        hogs.push(hog);
        parent = queue.add_group(parent, Params::default()).unwrap();
    }
    let last = queue.add(parent, Params::default()).unwrap();
    let _ = queue.wake(last).unwrap();
    let had = run(&mut queue, 64_000, |_| 1_000);
    for (hog, part) in hogs.iter().zip([2, 4, 8, 16]) {
        assert!(had[hog.index()].abs_diff(64_000_000 / part) <= 4_000, "{had:?}");
    }
    assert!(had[last.index()].abs_diff(4_000_000) <= 4_000, "{had:?}");
}

/// A group sleeps when its last member does, and in debt it lingers as an entity would: a
/// tenant gains nothing by letting its members take turns at napping.
#[test]
fn a_group_of_nappers_gains_nothing() {
    let mut queue = queue(8);
    let hog = awake(&mut queue, Params::default());
    let tenant = queue.add_group(GroupId::ROOT, Params::default()).unwrap();
    let nappers = [(); 2].map(|()| queue.add(tenant, Params::default()).unwrap());
    let _ = queue.wake(nappers[0]).unwrap();
    let (mut hogged, mut napped) = (0, 0);
    for turn in 0..10_000 {
        let id = queue.pick().unwrap();
        let _ = queue.charge(id, 999).unwrap();
        if id == hog {
            hogged += 999;
        } else {
            napped += 999;
            queue.sleep(id).unwrap();
            assert_eq!(queue.runnable(tenant).unwrap(), 0, "turn {turn}");
            let other = if id == nappers[0] { nappers[1] } else { nappers[0] };
            let _ = queue.wake(other).unwrap();
        }
    }
    assert!(napped <= hogged + 1_000, "{napped} against {hogged}");
}

#[test]
fn a_group_is_runnable_while_a_member_is() {
    let mut queue = queue(8);
    let outer = queue.add_group(GroupId::ROOT, Params::default()).unwrap();
    let inner = queue.add_group(outer, Params::default()).unwrap();
    let id = queue.add(inner, Params::default()).unwrap();
    assert_eq!(queue.pick(), None);
    let _ = queue.wake(id).unwrap();
    for group in [GroupId::ROOT, outer, inner] {
        assert_eq!(queue.runnable(group).unwrap(), 1);
    }
    assert_eq!(queue.pick(), Some(id));
    let entity = queue.entity_of(outer).unwrap();
    assert_eq!(queue.view(entity).unwrap().state, State::Running);
    queue.sleep(id).unwrap();
    for group in [GroupId::ROOT, outer, inner] {
        assert_eq!(queue.runnable(group).unwrap(), 0);
    }
    assert_eq!(queue.pick(), None);
}

#[test]
fn a_group_can_be_weighed_while_it_runs() {
    let mut queue = queue(8);
    let hog = awake(&mut queue, weight(1_000));
    let tenant = queue.add_group(GroupId::ROOT, weight(1_000)).unwrap();
    let id = queue.add(tenant, Params::default()).unwrap();
    let _ = queue.wake(id).unwrap();
    assert_eq!(queue.pick_preferring(id).unwrap(), Some(id));
    queue.reweight(queue.entity_of(tenant).unwrap(), Weight::new(3_000).unwrap()).unwrap();
    let had = run(&mut queue, 40_000, |_| 100);
    assert!(had[hog.index()].abs_diff(1_000_000) <= 1_000, "{had:?}");
}

#[test]
fn groups_are_removed_when_they_have_no_members() {
    let mut queue = queue(8);
    let hog = awake(&mut queue, Params::default());
    assert_eq!(queue.remove_group(GroupId::ROOT), Err(FairError::InUse));
    for _ in 0..100 {
        let tenant = queue.add_group(GroupId::ROOT, Params::default()).unwrap();
        let id = queue.add(tenant, Params::default()).unwrap();
        let other = queue.add(tenant, Params::default()).unwrap();
        let _ = queue.wake(id).unwrap();
        let _ = queue.wake(other).unwrap();
        assert_eq!(queue.pick_preferring(id).unwrap(), Some(id));
        let _ = queue.charge(id, 5_000).unwrap();
        assert_eq!(queue.remove_group(tenant), Err(FairError::InUse));
        queue.remove(id).unwrap(); // in debt, twice: to its sibling, and its group to the hog
        queue.remove(other).unwrap();
        queue.remove_group(tenant).unwrap();
        assert_eq!(queue.remove_group(tenant), Err(FairError::Stale));
        assert_eq!(queue.add(tenant, Params::default()), Err(FairError::Stale));
        // The hog catches up, and then all slots are free again.
        for _ in 0..8 {
            assert_eq!(queue.pick(), Some(hog));
            let _ = queue.charge(hog, 1_000).unwrap();
        }
    }
    let free = (0..7).filter(|_| queue.add(GroupId::ROOT, Params::default()).is_ok()).count();
    assert_eq!(free, 7);
}

#[test]
fn groups_nest_to_a_limit() {
    let mut queue = queue_with(32, 32, LIMITS);
    let mut parent = GroupId::ROOT;
    for _ in 0..MAX_DEPTH {
        parent = queue.add_group(parent, Params::default()).unwrap();
    }
    assert_eq!(queue.add_group(parent, Params::default()), Err(FairError::TooDeep));
    let id = queue.add(parent, Params::default()).unwrap();
    let _ = queue.wake(id).unwrap();
    assert_eq!(queue.pick(), Some(id));
}
