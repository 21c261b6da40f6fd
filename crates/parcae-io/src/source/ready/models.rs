//! The readiness protocol under loom: no event is lost, none of an earlier life is taken.
//!
//! The kernel is a counter of bytes, with relaxed accesses: an attempt that follows an event must
//! see its bytes because of the protocol. A task that parks is a thread that gives up; at the end
//! it must have been woken if there is anything to take. Run: `.ci/run loom`.

use super::*;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64 as LoomU64, AtomicUsize};
use loom::thread;

/// A waiter that counts its wake-ups.
#[derive(Clone)]
struct Flag(Arc<AtomicUsize>);

impl Flag {
    fn new() -> Flag {
        Flag(Arc::new(AtomicUsize::new(0)))
    }

    fn woken(&self) -> usize {
        self.0.load(Ordering::Acquire) // pairs with the Release in `wake`
    }
}

impl Wakes for Flag {
    fn taken(self) -> Flag {
        self
    }

    fn wake(self) {
        self.0.fetch_add(1, Ordering::Release); // pairs with the Acquire in `woken`
    }
}

fn explore(name: &str, model: impl Fn() + Send + Sync + 'static) {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    let executions = std::sync::Arc::new(AtomicUsize::new(0));
    let counter = std::sync::Arc::clone(&executions);
    loom::model(move || {
        counter.fetch_add(1, Relaxed); // a count
        model();
    });
    println!("model {name}: {} executions", executions.load(Relaxed)); // as above
}

struct World {
    ready: Readiness<Flag, u32>,
    /// Bytes in the kernel's buffer.
    bytes: LoomU64,
}

impl World {
    fn new() -> Arc<World> {
        Arc::new(World { ready: Readiness::new(), bytes: LoomU64::new(0) })
    }

    /// The kernel gets a byte, and the poller delivers the event.
    fn arrive(&self) {
        self.bytes.fetch_add(1, Ordering::Relaxed); // ordered by the protocol alone
        self.ready.deliver(0, READ);
    }

    /// A user: attempts and waits, as `Source::operate`. False if it has parked.
    fn read(&self, flag: &Flag) -> bool {
        loop {
            let seen = self.ready.word();
            if seen & READ != 0 {
                // Relaxed: ordered by the protocol alone.
                let taken = self.bytes.load(Ordering::Relaxed);
                if taken > 0 {
                    self.bytes.fetch_sub(1, Ordering::Relaxed); // as above
                    return true;
                }
                self.ready.drained(Direction::Read, seen);
            }
            let published = self.ready.publish(Direction::Read, |_| Ok(()), || flag.clone());
            if published.unwrap().is_some() {
                return false;
            }
        }
    }
}

#[test]
fn an_event_meets_a_user_that_is_about_to_wait() {
    explore("ready::event_against_wait", || {
        let (world, flag) = (World::new(), Flag::new());
        let poller = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.arrive())
        };
        let user = {
            let (world, flag) = (Arc::clone(&world), flag.clone());
            thread::spawn(move || world.read(&flag))
        };
        let got = user.join().unwrap();
        poller.join().unwrap();
        assert!(got || flag.woken() == 1, "parked, and no one wakes it");
    });
}

/// The user clears the bit of an event without bytes, while another event comes.
#[test]
fn an_event_meets_a_user_that_clears_the_bit() {
    explore("ready::event_against_drained", || {
        let (world, flag) = (World::new(), Flag::new());
        world.ready.deliver(0, READ);
        let poller = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.arrive())
        };
        let got = world.read(&flag);
        poller.join().unwrap();
        assert!(got || flag.woken() == 1, "parked, and no one wakes it");
    });
}

/// A waiter that may be used only until it has withdrawn, or has been taken under the lock.
struct Borrowed {
    of: Arc<UnsafeCell<u64>>,
    independent: Option<Flag>,
}

impl Wakes for Borrowed {
    fn taken(mut self) -> Borrowed {
        // SAFETY: loom reports an access that is not ordered before the owner's.
        self.of.with(|owner| unsafe { std::ptr::read_volatile(owner) });
        self.independent = Some(Flag::new());
        self
    }

    fn wake(self) {
        assert!(self.independent.is_some(), "woken without the lock's permission");
    }
}

/// A waiter gives up while an event comes; afterwards its task uses its stack for something else.
#[test]
fn an_event_meets_a_waiter_that_gives_up() {
    explore("ready::event_against_withdrawal", || {
        let ready: Arc<Readiness<Borrowed, u32>> = Arc::new(Readiness::new());
        let stack = Arc::new(UnsafeCell::new(0));
        let of = Arc::clone(&stack);
        let published =
            ready.publish(Direction::Read, |_| Ok(()), || Borrowed { of, independent: None });
        let ticket = published.unwrap().unwrap();
        let poller = {
            let ready = Arc::clone(&ready);
            thread::spawn(move || ready.deliver(0, READ))
        };
        ready.withdraw(Direction::Read, ticket);
        // SAFETY: as in `taken`.
        stack.with_mut(|stack| unsafe { *stack = 1 });
        poller.join().unwrap();
    });
}

/// The descriptor is closed and its place used again, while an event of the old one is on its way.
#[test]
fn an_event_of_an_earlier_life_comes_late() {
    explore("ready::event_of_an_earlier_life", || {
        let (world, flag) = (World::new(), Flag::new());
        let poller = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.ready.deliver(0, READ))
        };
        world.ready.end();
        world.ready.begin();
        let published = world.ready.publish(Direction::Read, |_| Ok(()), || flag.clone());
        assert!(published.unwrap().is_some(), "ready by an event of another descriptor");
        poller.join().unwrap();
        assert_eq!((world.ready.word(), flag.woken()), (0, 0));
    });
}

/// The worker of the home ends while a user decides to stay there.
#[test]
fn a_home_ends_while_a_user_settles() {
    explore("ready::home_against_settling", || {
        let (world, flag) = (World::new(), Flag::new());
        world.ready.lock().home = Some(1);
        let worker = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.ready.leave_home(|home| *home == 1))
        };
        let settle = |state: &mut State<Flag, u32>| {
            state.home.get_or_insert(2);
            Ok(())
        };
        let published = world.ready.publish(Direction::Write, settle, || flag.clone());
        assert!(published.unwrap().is_some());
        worker.join().unwrap();
        let home = world.ready.lock().home;
        assert!(home == Some(2) || flag.woken() == 1, "no home, and no one wakes it");
    });
}
