//! Nothing here allocates: an allocator that panics while it is forbidden, around every
//! operation that a running system uses.

mod watch;

use parcae_core::WorkerSet;
use parcae_core::admission::{Capacity, examine, place};
use parcae_core::context::{
    ContextSlot, Contexts, Endpoint, Event, EventKind, Gate, Overrun, Params, PartySlot, Refill,
    Stop,
};
use parcae_core::island::{Claim, Host, IslandSlot, Islands, MemberSlot, Plan, Response};
use parcae_core::lease::{
    self, Cause, Chores, LeaseSlot, Leases, Mode, Owner, Proof, Terms, Whose,
};
use watch::without_allocating;

#[test]
#[should_panic = "allocated on a path that must not"]
fn the_watch_is_awake() {
    without_allocating(|| drop(Box::new(1)));
}

// rule: S3-SC-7
#[test]
fn contexts_do_not_allocate_not_even_in_trouble() {
    let mut told = [0; 4];
    without_allocating(|| {
        let mut table = Contexts::new(0, [ContextSlot::EMPTY; 4], [PartySlot::EMPTY; 4]);
        let timeout = Some(Endpoint { port: 1, badge: 2 });
        for refill in [Refill::HardCbs, Refill::SlidingWindow { refills: 8 }] {
            let params =
                Params { refill, timeout, overrun: Overrun::Notify, ..Params::new(10, 100) };
            let client = table.register(None).unwrap();
            let server = table.register(timeout).unwrap();
            let context = table.create(params, 0).unwrap();
            table.bind(context, client).unwrap();
            table.wake(client, 0).unwrap();
            for round in 0..200 {
                let now = round * 70;
                if table.start(client, now).is_err() {
                    continue;
                }
                let call = table.donate(client, server, Gate::default(), now + 1).unwrap();
                let _ = table.charge(now + 5).unwrap();
                if round % 3 == 0 {
                    table.revoke(call, now + 6).unwrap();
                    continue;
                }
                table.give_back(call, now + 6).unwrap();
                let stops = [Stop::Preempted, Stop::Blocked, Stop::Yielded];
                let _ = table.stop(now + 8 + round % 9, stops[(round % 3) as usize]).unwrap();
                table.wake(client, now + 20).unwrap();
            }
            let mut count = |event: Option<Event>| {
                event.inspect(|event| told[event.kind as usize] += 1).is_some()
            };
            while count(table.take_event()) {}
            table.reconfigure(context, params, 20_000).unwrap();
            let traveller = table.depart(context, 20_000).unwrap();
            let context = table.arrive(traveller).unwrap();
            table.destroy(context, 20_000).unwrap();
            table.unregister(client, 20_000).unwrap();
            table.unregister(server, 20_000).unwrap();
        }
        // Used after its deadline, as the worker was elsewhere.
        let params = Params { deadline: 20, overrun: Overrun::Notify, ..Params::new(10, 100) };
        let late = table.register(None).unwrap();
        let context = table.create(params, 0).unwrap();
        table.bind(context, late).unwrap();
        table.wake(late, 0).unwrap();
        for (from, to) in [(0, 5), (30, 33)] {
            table.start(late, from).unwrap();
            let _ = table.stop(to, Stop::Preempted).unwrap();
        }
        let missed = table.take_event().map(|event| event.kind);
        told[3] += usize::from(missed == Some(EventKind::Missed));
    });
    // Depleted, timed out, overran, missed: all of it has happened, and was told.
    assert!(told.iter().all(|&count| count > 0), "{told:?}");
}

// rule: S3-GATE-17
#[test]
fn admission_leases_and_islands_do_not_allocate() {
    without_allocating(|| {
        let table = |worker| Contexts::new(worker, [ContextSlot::EMPTY; 4], [PartySlot::EMPTY; 2]);
        let mut host = Host {
            tables: [table(0), table(1)],
            leases: Leases::new(WorkerSet::first(3), [LeaseSlot::EMPTY; 2]),
            capacity: Capacity::default(),
        };
        let params = Params { deadline: 40, overrun: Overrun::Notify, ..Params::new(30, 100) };
        let account = host.tables[1].create(Params::new(1, 1000), 0).unwrap();
        let terms = Terms {
            owner: Owner { service: 1, session: 1 },
            workers: WorkerSet::of(1),
            mode: Mode::Polling { ring: 1 },
            excludes: Chores::ALL,
            account,
            max_latency: 5,
            revoked: Endpoint { port: 0, badge: 0 },
        };
        let plan = Plan {
            contexts: &[(0, params), (1, params)],
            memory: 10,
            claims: &[Claim::Device(1)],
            leases: &[terms],
            response: Response::Stop,
        };
        let mut islands = Islands::new(100, [IslandSlot::EMPTY; 2], [MemberSlot::EMPTY; 8]);
        let island = islands.admit(&plan, &mut host, 0).unwrap();
        assert!(islands.admit(&plan, &mut host, 0).is_err());
        let demands = host.tables[0].demands();
        let demand = demands.clone().next().unwrap();
        assert!(examine(demands.clone().chain(demands.clone()), &host.capacity).is_err());
        let _ = place([(0, demands, host.capacity)], demand);

        let proof =
            Proof { pinned: Chores::NONE, consumers: 0, latency: 5, host: lease::Host::Absent };
        let lease = islands.lease(island, 0).unwrap();
        let consumer = host.leases.activate(lease, proof, &host.tables[1]).unwrap();

        let (_, context) = islands.context(island, 0).unwrap();
        let party = host.tables[0].register(None).unwrap();
        host.tables[0].bind(context, party).unwrap();
        host.tables[0].wake(party, 0).unwrap();
        host.tables[0].start(party, 0).unwrap();
        let _ = host.tables[0].stop(35, Stop::Preempted).unwrap();
        while let Some(event) = host.tables[0].take_event() {
            islands.report(0, &event, &mut host.tables);
        }
        host.leases.revoke_all(Whose::Service(1), 40, |_| {});
        host.leases.release(lease, 42, consumer).unwrap();
        assert!(host.leases.revoke(lease, 43, Cause::Policy).is_err());
        islands.dissolve(island, &mut host, 50, |_| {}).unwrap();
    });
}
