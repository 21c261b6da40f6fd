//! Draws `docs/img/fair-service.svg`: service over time for weights 1 : 2 : 4, in three
//! panels: all hog the processor; the heaviest sleeps now and then; the lightest yields all
//! the time. A fair queue draws straight lines whose slopes are the shares.
//!
//! ```sh
//! cargo run --release -p parcae-core --example fair_service > docs/img/fair-service.svg
//! ```

mod draw;

use draw::Lines;
use parcae_core::fair::{FairQueue, GroupId, Limits, Params, Slot, Weight};

/// Milliseconds that are drawn, in units of the queue (microseconds).
const END: u64 = draw::END;
const LIMITS: Limits = Limits { min_slice: 100, slice: 700, max_slice: 5_000, min_charge: 1 };
const WEIGHTS: [u32; 3] = draw::WEIGHTS;

/// How an entity behaves: how long it runs when picked, and how long it sleeps after that.
type Behaviour = fn(entity: usize, time: u64) -> (u64, Option<u64>);

fn hogs(_: usize, _: u64) -> (u64, Option<u64>) {
    (700, None)
}

/// The heaviest waits for 30 ms in every 60.
fn sleeper(entity: usize, time: u64) -> (u64, Option<u64>) {
    let awake = time % 60_000 < 30_000;
    (700, (entity == 2 && !awake).then(|| 60_000 - time % 60_000))
}

/// The lightest yields after every 20 µs.
fn yielder(entity: usize, _: u64) -> (u64, Option<u64>) {
    (if entity == 0 { 20 } else { 700 }, None)
}

/// The service of each entity, whenever it changed.
fn simulate(behaviour: Behaviour) -> Lines {
    let mut queue = FairQueue::new([Slot::EMPTY; 3], [], LIMITS).expect("the limits hold");
    let ids = WEIGHTS.map(|weight| {
        let weight = Weight::new(weight * 1024).expect("in range");
        let id = queue.add(GroupId::ROOT, Params::weight(weight)).expect("there is a slot");
        let _ = queue.wake(id).expect("it is asleep");
        id
    });
    let mut lines = [(); 3].map(|()| vec![(0, 0)]);
    let mut wake_at = [None; 3];
    let (mut time, mut had) = (0, [0; 3]);
    while time < END {
        for (entity, at) in wake_at.iter_mut().enumerate() {
            if at.is_some_and(|at| at <= time) {
                let _ = queue.wake(ids[entity]).expect("it is asleep");
                *at = None;
            }
        }
        let id = queue.pick().expect("two of them never sleep");
        let entity = ids.iter().position(|&other| other == id).expect("it is one of them");
        let (used, sleep) = behaviour(entity, time);
        let _ = queue.charge(id, used).expect("it runs");
        lines[entity].push((time, had[entity]));
        time += used;
        had[entity] += used;
        lines[entity].push((time, had[entity]));
        if let Some(sleep) = sleep {
            queue.sleep(id).expect("it runs");
            wake_at[entity] = Some(time + sleep);
        }
    }
    for (line, had) in lines.iter_mut().zip(had) {
        line.push((time, had));
    }
    lines
}

fn main() {
    let panels: [(&str, Behaviour); 3] = [
        ("all hog the processor", hogs),
        ("weight 4 sleeps 30 ms of every 60", sleeper),
        ("weight 1 yields every 20 µs", yielder),
    ];
    let panels = panels.map(|(title, behaviour)| (title, simulate(behaviour)));
    print!("{}", draw::svg("Service over time for weights 1 : 2 : 4", &panels));
}
