//! The fair queue, accounts, dispatch and policy do not allocate after set-up.

mod watch;

use parcae_core::account::{CpuAccount, Stop};
use parcae_core::dispatch::{Band, Class, Dispatcher, Floor, RealtimeQueue, RealtimeSlot, Who};
use parcae_core::fair::{
    FairQueue, GroupId, GroupSlot, Latency, Limits, Node, Params, Slot, Weight,
};
use parcae_core::policy::{Bounds, Decision, Hint, Policy};
use watch::without_allocating;

#[test]
fn no_path_allocates() {
    let mut slots = vec![Slot::EMPTY; 300];
    let mut nodes = vec![Node::EMPTY; Node::needed(300)];
    let mut other_nodes = nodes.clone();
    let mut groups = vec![GroupSlot::EMPTY; 4];
    let mut other = vec![Slot::EMPTY; 300];
    let mut realtime_slots = vec![RealtimeSlot::EMPTY; 8];
    let turns = without_allocating(|| {
        let mut fair =
            FairQueue::with_groups(&mut slots[..], &mut nodes[..], &mut groups[..], Limits::OPS)
                .unwrap();
        let mut idle = FairQueue::new(&mut other[..], &mut other_nodes[..], Limits::OPS).unwrap();
        let mut realtime = RealtimeQueue::new(&mut realtime_slots[..]);
        let mut dispatcher = Dispatcher::new(Floor::NANOS, 0);
        let mut policy = Policy::new(Bounds::NANOS, 100, 100);
        let mut account = CpuAccount::new(Weight::NORMAL);
        policy.submit(Decision { epoch: 1, ..Decision::BUILT_IN }, 0).unwrap();

        let tenant = fair.add_group(GroupId::ROOT, Params::default()).unwrap();
        let mut ids = [None; 200];
        for (n, id) in ids.iter_mut().enumerate() {
            let group = if n % 2 == 0 { GroupId::ROOT } else { tenant };
            let weight = policy.in_force(10).params(Hint::Batch).weight;
            let new = fair.add(group, Params { weight, latency: Latency::Normal }).unwrap();
            let _ = fair.wake(new).unwrap();
            *id = Some(new);
        }
        let mut turns = 0;
        let mut now = 0;
        for n in 0..5_000_u64 {
            if n % 7 == 0 {
                let id = realtime.insert(n, Band::new(1), now + 50).unwrap();
                realtime.set_deadline(id, now + 40).unwrap();
                assert_eq!(
                    dispatcher.pick(now, &realtime, &mut fair, &mut idle).who,
                    Who::Realtime(n)
                );
                realtime.remove(id).unwrap();
            }
            let next = dispatcher.pick(now, &realtime, &mut fair, &mut idle);
            let Who::Fair(id) = next.who else { panic!("nobody fair at {n}") };
            account.start(now);
            now += 100 + n % 900;
            let used = account.stop(now, Stop::Blocked);
            let _ = fair.charge(id, used).unwrap();
            dispatcher.charge(Class::Fair, used);
            match n % 5 {
                0 => {
                    fair.sleep(id).unwrap();
                    let _ = fair.wake(id).unwrap();
                }
                1 => fair.yield_now(id).unwrap(),
                2 => {
                    let departure = fair.leave(id).unwrap();
                    let (there, _) = idle.join(GroupId::ROOT, departure).unwrap();
                    let departure = idle.leave(there).unwrap();
                    let _ = fair.join(tenant, departure).unwrap();
                }
                3 => {
                    fair.reweight(id, Weight::new(1 + n as u32 % 3_000).unwrap()).unwrap();
                    fair.pick_preferring(id).unwrap();
                }
                _ => {
                    fair.remove(id).unwrap();
                    // Debtors may hold their slots for a while: that is an error, no panic.
                    if let Ok(new) = fair.add(tenant, Params::default()) {
                        let _ = fair.wake(new).unwrap();
                    }
                }
            }
            turns += 1;
        }
        assert!(
            fair.add(tenant, Params { latency: Latency::Slice(1), ..Params::default() }).is_err()
        );
        turns
    });
    assert_eq!(turns, 5_000);
}
