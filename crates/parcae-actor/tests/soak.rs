//! Many actors of which some crash all the time: nothing grows, and nothing is lost.
//!
//! A test of its own process, since it measures that. By default it is small; for a million actors
//! (some gigabytes):
//!
//! ```sh
//! export PARCAE_SOAK_ACTORS=1000000 PARCAE_SOAK_ROUNDS=60
//! cargo test --release -p parcae-actor --test soak -- --nocapture
//! ```

use parcae::prelude::*;
use parcae::profile::Cluster;
use parcae_actor::{
    Actor, ActorCx, ActorOpts, Actors, ActorsOpts, Address, LetterReason, Next, Reply, Supervise,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicIsize, Ordering};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(600);

/// Enough for actors that were asked to sleep again.
const REST: Duration = Duration::from_millis(100);

/// Of so many actors one crashes in each round.
const ONE_IN: usize = 100;

struct Subject(u64);

enum Msg {
    Add(u64),
    Crash,
    Sum(Reply<u64>),
}

impl Actor for Subject {
    type Msg = Msg;

    fn handle(&mut self, _: &mut ActorCx<'_, Msg>, msg: Msg) -> parcae::Result<Next> {
        match msg {
            Msg::Add(n) => self.0 += n,
            Msg::Crash => return Err(parcae::Error::msg("on request")),
            Msg::Sum(reply) => reply.send(self.0),
        }
        Ok(Next::Hibernate)
    }
}

fn setting(name: &str, usual: usize) -> usize {
    std::env::var(name).map_or(usual, |value| value.parse().expect("a number"))
}

/// The system's allocator, with a count of the bytes that are in use.
struct Counting;

// Relaxed, all accesses: a count, which is compared between two moments of rest.
static IN_USE: AtomicIsize = AtomicIsize::new(0);

// SAFETY: all calls go to the system's allocator, with the arguments of the caller.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: as the caller says.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: as the caller says.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Bytes in use.
fn in_use() -> isize {
    IN_USE.load(Ordering::Relaxed)
}

#[test]
fn actors_that_crash_do_not_grow() {
    let (actors, rounds) =
        (setting("PARCAE_SOAK_ACTORS", 2_000), setting("PARCAE_SOAK_ROUNDS", 30));
    let rt = Runtime::builder().workers(2).profile::<Cluster>().build().unwrap();
    let root = Supervise::one_for_one();
    let opts = ActorsOpts::new().restarts(u64::MAX).supervise(root).name("soak");
    rt.run(|cx| {
        cx.actors(opts, |system| {
            let spec = Supervise::one_for_one().restarts(u32::MAX, LONG).shards(8);
            let many = system.dynamic("many", spec)?;
            let start = |_| many.start(ActorOpts::new(""), |_| Ok(Subject(0)));
            let addresses: Vec<Address<Msg>> =
                (0..actors).map(start).collect::<parcae::Result<_>>()?;
            let (mut crashes, mut early) = (0, 0);
            for round in 0..rounds {
                for (number, address) in addresses.iter().enumerate() {
                    if number % ONE_IN == round % ONE_IN {
                        address.tell(Msg::Crash)?;
                        crashes += 1;
                    } else if number % ONE_IN == (round + 1) % ONE_IN {
                        address.tell(Msg::Add(1))?;
                    }
                }
                // All of the round are handled when the last of them is, and the others are asked.
                for address in addresses.iter().skip((round + 1) % ONE_IN).step_by(ONE_IN) {
                    assert_eq!(address.call(LONG, Msg::Sum)?, 1, "round {round}");
                }
                if round == rounds / 3 {
                    cx.sleep(REST)?;
                    early = in_use();
                }
            }
            for address in &addresses {
                address.call(LONG, Msg::Sum)?; // all crashes are behind it
            }
            cx.sleep(REST)?;
            let late = in_use();
            println!("{actors} actors, {crashes} crashes: {early} bytes early, {late} late");
            assert!(late < early + early / 20, "grew from {early} to {late} bytes");
            assert!(rt.live_tasks() < 50, "{} tasks, though all sleep", rt.live_tasks());
            assert_eq!(system.dead_letters().count(LetterReason::Failed), crashes);
            let tree = rt.dump().parts.remove(0);
            assert!(tree.figures.contains(&("actors", actors as u64)), "{:?}", tree.figures);
            cx.checkpoint()
        })
    })
    .unwrap();
}
