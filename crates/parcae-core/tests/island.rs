//! Islands: all or nothing, with evidence, and closed when they fail.

use parcae_core::WorkerSet;
use parcae_core::admission::{Capacity, Test};
use parcae_core::context::{
    self, ContextSlot, Contexts, Endpoint, EventKind, Overrun, Params, PartySlot, Stop,
};
use parcae_core::island::{
    Claim, Farewell, Host, IslandSlot, Islands, MemberSlot, NotAdmitted, Plan, Response, Status,
};
use parcae_core::lease::{self, Cause, Chores, LeaseSlot, Leases, Mode, Owner, Proof, Terms};

type Table = Contexts<[ContextSlot; 3], [PartySlot; 3]>;
type Site = Host<[Table; 2], [LeaseSlot; 2]>;
type All = Islands<[IslandSlot; 2], [MemberSlot; 8]>;

const MEMORY: u64 = 1000;
const LOUD: Params = Params { overrun: Overrun::Notify, ..Params::new(20, 100) };

/// Two of three workers have tables; the third keeps house.
fn site() -> Site {
    let table = |worker| Contexts::new(worker, [ContextSlot::EMPTY; 3], [PartySlot::EMPTY; 3]);
    Host {
        tables: [table(0), table(1)],
        leases: Leases::new(WorkerSet::first(3), [LeaseSlot::EMPTY; 2]),
        capacity: Capacity::default(),
    }
}

fn islands() -> All {
    Islands::new(MEMORY, [IslandSlot::EMPTY; 2], [MemberSlot::EMPTY; 8])
}

/// A lease of a worker, charged to what will be that worker's first context.
fn terms(worker: u8) -> Terms {
    let mut table: Table = Contexts::new(worker, [ContextSlot::EMPTY; 3], [PartySlot::EMPTY; 3]);
    Terms {
        owner: Owner { service: 1, session: 1 },
        workers: WorkerSet::of(worker),
        mode: Mode::Exclusive,
        excludes: Chores::ALL,
        account: table.create(LOUD, 0).unwrap(),
        max_latency: 50,
        revoked: Endpoint { port: 1, badge: 2 },
    }
}

const PLAN: Plan<'static> = Plan {
    contexts: &[(0, LOUD), (1, LOUD)],
    memory: 400,
    claims: &[Claim::Device(1), Claim::Interrupt(5)],
    leases: &[],
    response: Response::Stop,
};

/// The resources that an island could have taken.
fn taken(islands: &All, site: &Site) -> (u64, usize, usize, WorkerSet) {
    let [first, second] = &site.tables;
    (islands.memory_free(), first.vacant(), second.vacant(), site.leases.housekeeping())
}

// rule: S3-ISLAND-1, S3-ISLAND-2, S3-ISLAND-3
#[test]
fn an_island_is_admitted_with_evidence() {
    let (mut site, mut islands) = (site(), islands());
    let leases = [terms(1)];
    let island = islands.admit(&Plan { leases: &leases, ..PLAN }, &mut site, 70).unwrap();
    let evidence = islands.evidence(island).unwrap();
    assert_eq!((evidence.at, evidence.memory), (70, 400));
    assert_eq!((evidence.contexts, evidence.leases, evidence.claims), (2, 1, 2));
    assert_eq!((evidence.tightest.test, evidence.tightest.load), (Test::Density, 200_000));
    assert_eq!(islands.memory_free(), 600);
    let (worker, context) = islands.context(island, 1).unwrap();
    assert_eq!((worker, site.tables[1].params(context)), (1, Some(&LOUD)));
    // The lease can be activated, charged to the island's own context.
    let proof = Proof { pinned: Chores::NONE, consumers: 0, latency: 9, host: lease::Host::Absent };
    let lease = islands.lease(island, 0).unwrap();
    site.leases.activate(lease, proof, &site.tables[1]).unwrap();
    assert_eq!(islands.status(island), Some(Status::Admitted));
}

/// Every part that can be missing, and nothing is taken for any of them.
// rule: S3-ISLAND-4
#[test]
fn what_does_not_fit_takes_nothing() {
    let (mut site, mut islands) = (site(), islands());
    islands.admit(&PLAN, &mut site, 0).unwrap();
    let free = taken(&islands, &site);
    let other = Plan { claims: &[Claim::Device(2)], ..PLAN };
    let heavy = Params { overrun: Overrun::Notify, ..Params::new(80, 100) };
    let bad = Params { overrun: Overrun::Notify, ..Params::new(0, 100) };
    let (good_lease, bad_lease) = ([terms(0)], [terms(0), terms(0)]);
    let good = Plan { leases: &good_lease, ..other };
    let three = [(0, LOUD), (0, LOUD), (0, LOUD)];
    let many = [Claim::Ring(1), Claim::Ring(2), Claim::Ring(3)];
    let cases: [(Plan<'_>, &str); 11] = [
        (Plan { memory: 601, ..good }, "1 bytes"),
        (Plan { claims: &[Claim::Device(9), Claim::Interrupt(5)], leases: &[], ..good }, "claim 1"),
        (Plan { claims: &[Claim::Ring(9), Claim::Ring(9)], leases: &[], ..good }, "claim 1"),
        (Plan { contexts: &[(0, LOUD), (1, heavy)], ..good }, "worker 1: "),
        (Plan { contexts: &[(0, LOUD), (1, bad)], ..good }, "context 1: a budget"),
        (Plan { contexts: &[(0, LOUD), (7, LOUD)], ..good }, "context 1: no such worker"),
        (Plan { contexts: &[(0, Params::new(1, 100))], ..good }, "does not report overruns"),
        (Plan { contexts: &three, claims: &[], leases: &[], ..good }, "no slot"),
        (Plan { claims: &many, ..good }, "no slot"),
        (Plan { contexts: &[], ..good }, "no context"),
        (Plan { leases: &bad_lease, claims: &[], contexts: &[(0, LOUD)], ..good }, "leased"),
    ];
    for (plan, hint) in cases {
        let why = islands.admit(&plan, &mut site, 1).unwrap_err();
        assert!(why.to_string().contains(hint), "{why} lacks {hint}");
        assert_eq!(taken(&islands, &site), free, "{why}");
    }
    let why = islands.admit(&Plan { contexts: &[(1, heavy)], ..good }, &mut site, 1).unwrap_err();
    let NotAdmitted::Worker { worker: 1, why } = why else { panic!("{why}") };
    assert_eq!((why.test, why.missing()), (Test::Utilisation, 50_000), "says by how much");
    islands.admit(&good, &mut site, 1).unwrap();
}

#[test]
fn a_worker_on_lease_takes_no_foreign_island() {
    let (mut site, mut islands) = (site(), islands());
    let account = site.tables[1].create(LOUD, 0).unwrap();
    let lease = site.leases.grant(Terms { account, ..terms(1) }).unwrap();
    let proof = Proof { pinned: Chores::NONE, consumers: 0, latency: 9, host: lease::Host::Absent };
    site.leases.activate(lease, proof, &site.tables[1]).unwrap();
    let why = islands.admit(&PLAN, &mut site, 0).unwrap_err();
    assert_eq!(why, NotAdmitted::NoWorker { nth: 1 });
}

/// An overrun of one context halts all of them.
// rule: S3-GATE-19
#[test]
fn an_overrun_closes_the_island() {
    let (mut site, mut islands) = (site(), islands());
    let island = islands.admit(&PLAN, &mut site, 0).unwrap();
    let mut parties = Vec::new();
    for nth in 0..2 {
        let (worker, context) = islands.context(island, nth).unwrap();
        let table = &mut site.tables[worker as usize];
        let party = table.register(None).unwrap();
        table.bind(context, party).unwrap();
        table.wake(party, 0).unwrap();
        parties.push(party);
    }
    site.tables[0].start(parties[0], 0).unwrap();
    let _ = site.tables[0].stop(25, Stop::Preempted).unwrap();
    let mut stopped = None;
    while let Some(event) = site.tables[0].take_event() {
        stopped = stopped.or(islands.report(0, &event, &mut site.tables));
    }
    assert_eq!(stopped, Some(island));
    assert_eq!(islands.status(island), Some(Status::Stopped));
    let telemetry = islands.telemetry(island).unwrap();
    assert_eq!((telemetry.overruns, telemetry.worst_overrun), (1, 5));
    let halted = Err(context::Refused::Halted);
    assert_eq!(site.tables[0].start(parties[0], 500), halted);
    assert_eq!(site.tables[1].start(parties[1], 500), halted, "the other one, too");
}

// rule: S3-GATE-18
#[test]
fn missed_deadlines_are_counted_and_events_of_others_are_not() {
    let (mut site, mut islands) = (site(), islands());
    let plan = Plan { response: Response::Report, ..PLAN };
    let island = islands.admit(&plan, &mut site, 0).unwrap();
    let (_, context) = islands.context(island, 0).unwrap();
    let table = &mut site.tables[0];
    let foreign = table.create(LOUD, 0).unwrap();
    for context in [context, foreign] {
        let party = table.register(None).unwrap();
        table.bind(context, party).unwrap();
        table.wake(party, 0).unwrap();
        table.start(party, 130).unwrap();
        let _ = table.stop(140, Stop::Preempted).unwrap();
    }
    let mut kinds = Vec::new();
    while let Some(event) = site.tables[0].take_event() {
        kinds.push(event.kind);
        assert_eq!(islands.report(0, &event, &mut site.tables), None);
    }
    assert_eq!(kinds, [EventKind::Missed; 2]);
    let telemetry = islands.telemetry(island).unwrap();
    assert!(telemetry.missed >= 1 && telemetry.worst_miss == 40, "{telemetry:?}");
    assert_eq!(islands.status(island), Some(Status::Admitted));
}

#[test]
fn dissolving_gives_everything_back() {
    let (mut site, mut islands) = (site(), islands());
    let before = taken(&islands, &site);
    let leases = [terms(1)];
    let island = islands.admit(&Plan { leases: &leases, ..PLAN }, &mut site, 0).unwrap();
    let (_, context) = islands.context(island, 0).unwrap();
    let party = site.tables[0].register(None).unwrap();
    site.tables[0].bind(context, party).unwrap();
    site.tables[0].wake(party, 0).unwrap();
    site.tables[0].start(party, 0).unwrap();

    let mut told = Vec::new();
    islands.dissolve(island, &mut site, 5, |farewell| told.push(farewell)).unwrap();
    assert!(told.contains(&Farewell::Interrupted { worker: 0, party }));
    let revoked = |f: &Farewell| matches!(f, Farewell::Revoked(n) if n.cause == Cause::Policy);
    assert_eq!(told.iter().filter(|f| revoked(f)).count(), 1);
    assert_eq!(taken(&islands, &site), before);
    let again = islands.dissolve(island, &mut site, 6, |_| {});
    assert_eq!(again, Err(NotAdmitted::Stale));
    assert_eq!((islands.evidence(island), islands.context(island, 0)), (None, None));
    islands.admit(&PLAN, &mut site, 7).unwrap();
}
