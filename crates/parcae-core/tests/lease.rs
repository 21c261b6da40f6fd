//! Leases: what they promise, how they end, and what is always left.

use parcae_core::WorkerSet;
use parcae_core::context::{ContextId, ContextSlot, Contexts, Endpoint, Params, PartySlot};
use parcae_core::lease::{
    Cause, Chores, Host, LeaseId, LeaseSlot, Leases, Mode, Notice, Owner, Proof, Refused,
    Revocations, RingConsumer, Status, Terms, Whose,
};
use proptest::prelude::*;

type Table = Contexts<[ContextSlot; 2], [PartySlot; 2]>;
type All = Leases<[LeaseSlot; 4]>;

const PROOF: Proof =
    Proof { pinned: Chores::NONE, consumers: 0, latency: 50, host: Host::Verified };

/// Contexts of worker 1, and one to charge.
fn table() -> (Table, ContextId) {
    let mut table = Contexts::new(1, [ContextSlot::EMPTY; 2], [PartySlot::EMPTY; 2]);
    let account = table.create(Params::new(9, 10), 0).unwrap();
    (table, account)
}

fn leases() -> All {
    Leases::new(WorkerSet::first(4), [LeaseSlot::EMPTY; 4])
}

fn terms(account: ContextId, worker: u8) -> Terms {
    Terms {
        owner: Owner { service: u64::from(worker), session: 9 },
        workers: WorkerSet::of(worker),
        mode: Mode::Exclusive,
        excludes: Chores::ALL,
        account,
        max_latency: 100,
        revoked: Endpoint { port: 3, badge: 4 },
    }
}

/// An active lease of worker 1 that polls ring 7.
fn polling() -> (All, Table, LeaseId, RingConsumer) {
    let (table, account) = table();
    let mut leases = leases();
    let terms = Terms { mode: Mode::Polling { ring: 7 }, ..terms(account, 1) };
    let lease = leases.grant(terms).unwrap();
    let consumer = leases.activate(lease, PROOF, &table).unwrap().unwrap();
    (leases, table, lease, consumer)
}

// rule: S3-GOAL-6, S3-LEASE-1
#[test]
fn a_lease_grants_a_place_and_no_time() {
    let (table, account) = table();
    let mut leases = leases();
    let lease = leases.grant(terms(account, 1)).unwrap();
    assert_eq!(leases.owner_of(1), None, "reserved, not exclusive yet");
    leases.activate(lease, PROOF, &table).unwrap();
    assert_eq!(leases.status(lease), Some(Status::Active(PROOF)));
    assert_eq!(leases.owner_of(1), Some(Owner { service: 1, session: 9 }));
    assert_eq!(leases.owner_of(0), None);
    assert_eq!(table.left(account, 0), Some(9), "what there was, and not more");
}

// rule: S3-LEASE-3
#[test]
fn a_housekeeping_worker_must_remain() {
    let (_, account) = table();
    let mut leases = leases();
    for worker in 0..3 {
        leases.grant(terms(account, worker)).unwrap();
    }
    assert_eq!(leases.grant(terms(account, 3)), Err(Refused::NoHousekeeping));
    assert_eq!(leases.housekeeping(), WorkerSet::of(3));
    let all = Terms { workers: WorkerSet::first(4), ..terms(account, 0) };
    assert_eq!(self::leases().grant(all), Err(Refused::NoHousekeeping));
    let both = [terms(account, 0), terms(account, 1)];
    let mut two = Leases::new(WorkerSet::first(2), [LeaseSlot::EMPTY; 4]);
    assert_eq!(two.check(&both), Err(Refused::NoHousekeeping), "together, not one by one");
    two.grant(both[0]).unwrap();
}

// rule: S3-LEASE-5
#[test]
fn workers_and_rings_belong_to_one_lease() {
    let (mut leases, _table, _, _consumer) = polling();
    let (_, account) = table();
    assert_eq!(leases.grant(terms(account, 1)), Err(Refused::Leased));
    assert_eq!(leases.grant(terms(account, 9)), Err(Refused::Offline));
    let nowhere = Terms { workers: WorkerSet::NONE, ..terms(account, 0) };
    assert_eq!(leases.grant(nowhere), Err(Refused::Offline));
    let same_ring = Terms { mode: Mode::Polling { ring: 7 }, ..terms(account, 2) };
    assert_eq!(leases.grant(same_ring), Err(Refused::RingTaken));
    let other = Terms { mode: Mode::Polling { ring: 8 }, ..terms(account, 2) };
    assert_eq!(
        leases.check(&[other, Terms { workers: WorkerSet::of(3), ..other }]),
        Err(Refused::RingTaken),
        "twice in one request"
    );
    assert!(leases.check(&[other]).is_ok());
}

// rule: S3-LEASE-4, S3-LEASE-6, S3-LEASE-7
#[test]
fn activation_needs_every_part_of_the_proof() {
    let (table, account) = table();
    let mut leases = leases();
    let polling = Terms { mode: Mode::Polling { ring: 7 }, ..terms(account, 1) };
    let lease = leases.grant(polling).unwrap();
    let lacking = [
        (Proof { pinned: Chores::TIMERS, ..PROOF }, Refused::Pinned),
        (Proof { consumers: 1, ..PROOF }, Refused::RingTaken),
        (Proof { latency: 101, ..PROOF }, Refused::TooSlow { latency: 101, allowed: 100 }),
    ];
    for (proof, why) in lacking {
        assert_eq!(leases.activate(lease, proof, &table), Err(why));
        assert_eq!((leases.status(lease), leases.owner_of(1)), (Some(Status::Granted), None));
    }
    let elsewhere: Table = Contexts::new(2, [ContextSlot::EMPTY; 2], [PartySlot::EMPTY; 2]);
    assert_eq!(leases.activate(lease, PROOF, &elsewhere), Err(Refused::NoAccount));
    let (mut gone, account) = self::table();
    gone.destroy(account, 0).unwrap();
    assert_eq!(leases.activate(lease, PROOF, &gone), Err(Refused::NoAccount));
    assert!(leases.activate(lease, PROOF, &table).unwrap().is_some());
    assert_eq!(leases.activate(lease, PROOF, &table), Err(Refused::NotGranted));

    // Chores that it does not exclude may stay.
    let tolerant = Terms { excludes: Chores::TIMERS, ..terms(account, 2) };
    let mut there: Table = Contexts::new(2, [ContextSlot::EMPTY; 2], [PartySlot::EMPTY; 2]);
    there.create(Params::new(1, 2), 0).unwrap();
    let lease = leases.grant(tolerant).unwrap();
    let busy = Proof { pinned: Chores::CLEANUP.with(Chores::WATCHDOG), ..PROOF };
    assert_eq!(leases.activate(lease, busy, &there), Ok(None));
}

/// Gate: revocation of a lease.
// rule: S3-GATE-14, S3-LEASE-2
#[test]
fn revocation_is_bounded_and_measured() {
    let (mut leases, _table, lease, consumer) = polling();
    let notice = leases.revoke(lease, 1_000, Cause::Policy).unwrap();
    let expected = Notice {
        lease,
        endpoint: Endpoint { port: 3, badge: 4 },
        due: 1_100,
        cause: Cause::Policy,
    };
    assert_eq!(notice, expected);
    assert_eq!(leases.revoke(lease, 1_050, Cause::OwnerExit), Ok(expected), "no second chance");
    assert_eq!(leases.owner_of(1).unwrap().service, 1, "exclusive until it is left");
    assert_eq!(leases.overdue(1_099).count(), 0);
    assert_eq!(leases.force(lease, 1_099), Err(Refused::NotDue { due: 1_100 }));
    assert_eq!(leases.release(lease, 1_060, None), Err(Refused::ConsumerMissing));
    assert_eq!(leases.release(lease, 1_060, Some(consumer)), Ok(60));
    assert_eq!((leases.status(lease), leases.owner_of(1)), (None, None));
    let expected = Revocations { ended: 1, forced: 0, worst_latency: 60 };
    assert_eq!(leases.revocations(), expected);
}

#[test]
fn who_does_not_leave_in_time_is_forced_out() {
    let (mut leases, _table, lease, consumer) = polling();
    assert_eq!(leases.force(lease, 0), Err(Refused::NotRevoked));
    leases.revoke(lease, 1_000, Cause::Policy).unwrap();
    assert_eq!(leases.overdue(1_100).collect::<Vec<_>>(), [lease]);
    assert_eq!(leases.force(lease, 1_130), Ok(130));
    assert!(!leases.consumes(&consumer), "its right to the ring is void");
    assert_eq!(consumer.ring(), 7);
    assert_eq!(leases.release(lease, 1_140, Some(consumer)), Err(Refused::Stale));
    let expected = Revocations { ended: 1, forced: 1, worst_latency: 130 };
    assert_eq!(leases.revocations(), expected);
    let (_, account) = table();
    assert!(leases.grant(terms(account, 1)).is_ok(), "the worker is free");
}

#[test]
fn the_right_to_one_ring_does_not_release_another_lease() {
    let (mut leases, table, lease, consumer) = polling();
    let (_, account) = self::table();
    leases.revoke(lease, 0, Cause::Policy).unwrap();
    leases.force(lease, 100).unwrap();
    let again = Terms { mode: Mode::Polling { ring: 7 }, ..terms(account, 1) };
    let lease = leases.grant(again).unwrap();
    let _new = leases.activate(lease, PROOF, &table).unwrap();
    assert_eq!(leases.release(lease, 200, Some(consumer)), Err(Refused::ConsumerMissing));
}

// rule: S3-GATE-15
#[test]
fn leases_end_with_their_owner_and_with_its_session() {
    let (table, account) = table();
    for (whose, cause, expected) in [
        (Whose::Service(1), Cause::OwnerExit, 1),
        (Whose::Session(9), Cause::SessionClosed, 3),
        (Whose::Session(8), Cause::SessionClosed, 0),
    ] {
        let mut leases = leases();
        let active = leases.grant(terms(account, 1)).unwrap();
        leases.activate(active, PROOF, &table).unwrap();
        let granted = leases.grant(terms(account, 2)).unwrap();
        leases.grant(terms(account, 0)).unwrap();
        let mut told = Vec::new();
        leases.revoke_all(whose, 500, |notice| told.push(notice));
        assert_eq!(told.len(), expected);
        assert!(told.iter().all(|notice| notice.cause == cause));
        if expected > 0 {
            assert_eq!(leases.status(active), Some(Status::Revoking { due: 600 }));
        }
        if expected == 3 {
            assert_eq!(leases.status(granted), None, "what was not active is free at once");
        }
    }
}

// rule: S3-GATE-16
#[test]
fn housekeeping_falls_back_to_leased_workers_when_the_others_are_lost() {
    let (table, account) = table();
    let mut leases = leases();
    let lease = leases.grant(terms(account, 1)).unwrap();
    leases.activate(lease, PROOF, &table).unwrap();
    let reserved = leases.grant(terms(account, 2)).unwrap();
    let mut told = Vec::new();
    leases.set_online(WorkerSet::of(1), 700, |notice| told.push((notice.lease, notice.cause)));
    assert_eq!(told, [(reserved, Cause::WorkerLost), (lease, Cause::Housekeeping)]);
    assert_eq!(leases.housekeeping(), WorkerSet::of(1), "while it is being left, too");
    leases.release(lease, 750, None).unwrap();
    assert_eq!(leases.housekeeping(), WorkerSet::of(1));
    leases.set_online(WorkerSet::NONE, 800, |_| panic!("there is none to revoke"));
    assert!(leases.housekeeping().is_empty());
}

#[test]
fn a_latency_at_the_end_of_time_does_not_overflow() {
    let (table, account) = table();
    let mut leases = leases();
    let endless = Terms { max_latency: u64::MAX, ..terms(account, 1) };
    let lease = leases.grant(endless).unwrap();
    leases.activate(lease, PROOF, &table).unwrap();
    assert_eq!(leases.revoke(lease, u64::MAX - 1, Cause::Policy).unwrap().due, u64::MAX);
    assert_eq!(leases.force(lease, u64::MAX), Ok(1));
}

#[derive(Debug, Clone, Copy)]
enum Try {
    Grant(u8, u64),
    Activate(usize),
    Revoke(usize),
    Release(usize),
    Force(usize),
    Online(u8),
    Exit(u64),
}

fn tries() -> impl Strategy<Value = Try> {
    let n = 0..4_usize;
    prop_oneof![
        6 => (1..16_u8, 0..4_u64).prop_map(|(set, ring)| Try::Grant(set, ring)),
        4 => n.clone().prop_map(Try::Activate),
        2 => n.clone().prop_map(Try::Revoke),
        2 => n.clone().prop_map(Try::Release),
        1 => n.prop_map(Try::Force),
        1 => (1..16_u8).prop_map(Try::Online),
        1 => (0..3_u64).prop_map(Try::Exit),
    ]
}

fn set(bits: u8) -> WorkerSet {
    (0..4)
        .filter(|bit| bits & 1 << bit != 0)
        .fold(WorkerSet::NONE, |set, worker| set.with(WorkerSet::of(worker)))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is tried: one owner per worker, one consumer per ring, and as long as a
    /// worker is online there is one for housekeeping, now or when a revocation ends.
    #[test]
    fn someone_always_keeps_house(steps in prop::collection::vec((tries(), 0..80_u64), 1..80)) {
        let mut leases = leases();
        let tables: Vec<Table> = (0..4)
            .map(|worker| Contexts::new(worker, [ContextSlot::EMPTY; 2], [PartySlot::EMPTY; 2]))
            .map(|mut table: Table| {
                table.create(Params::new(1, 2), 0).unwrap();
                table
            })
            .collect();
        let (_, account) = table();
        let mut held: Vec<(LeaseId, Terms, Option<RingConsumer>)> = Vec::new();
        let (mut now, mut online) = (0, WorkerSet::first(4));
        for (what, pause) in steps {
            now += pause;
            match what {
                Try::Grant(bits, ring) => {
                    let mode = if ring == 0 { Mode::Exclusive } else { Mode::Polling { ring } };
                    let owner = Owner { service: ring, session: 0 };
                    let workers = set(bits);
                    let terms = Terms { workers, mode, owner, ..terms(account, 0) };
                    if let Ok(lease) = leases.grant(terms) {
                        held.push((lease, terms, None));
                    }
                }
                Try::Activate(n) => {
                    if let Some((lease, terms, consumer)) = held.get_mut(n) {
                        let worker = terms.workers.iter().next().unwrap();
                        if let Ok(new) = leases.activate(*lease, PROOF, &tables[worker as usize]) {
                            *consumer = new;
                        }
                    }
                }
                Try::Revoke(n) => {
                    let _ = held.get(n).map(|held| leases.revoke(held.0, now, Cause::Policy));
                }
                Try::Release(n) => {
                    if n < held.len() {
                        let (lease, _, consumer) = held.swap_remove(n);
                        let live = leases.status(lease).is_some();
                        prop_assert_eq!(leases.release(lease, now, consumer).is_ok(), live);
                    }
                }
                Try::Force(n) => {
                    let _ = held.get(n).map(|held| leases.force(held.0, now));
                }
                Try::Online(bits) => {
                    online = set(bits);
                    leases.set_online(online, now, |_| {});
                }
                Try::Exit(service) => leases.revoke_all(Whose::Service(service), now, |_| {}),
            }
            held.retain(|(lease, ..)| leases.status(*lease).is_some());
            let mut seen = WorkerSet::NONE;
            for (_, terms, _) in &held {
                prop_assert!(seen.common(terms.workers).is_empty());
                seen = seen.with(terms.workers);
            }
            let rights = held.iter().filter_map(|(_, _, consumer)| consumer.as_ref());
            let mut rings: Vec<u64> = rights.map(RingConsumer::ring).collect();
            rings.sort_unstable();
            prop_assert!(rings.windows(2).all(|pair| pair[0] != pair[1]));
            prop_assert!(!leases.housekeeping().is_empty(), "{online:?}");
            prop_assert!(leases.housekeeping().without(online).is_empty());
        }
    }
}
