//! The locks under loom, with threads of loom's as waiters. A cancellation is a waiter that parks no more, and
//! withdraws. Run: `.ci/run loom`.
//!
//! What loom finds by itself: a deadlock, which is a lost wake-up; and two who are in the cell of data at
//! once.

use super::Waited;
use super::line::{Node, Wake};
use super::notify::RawNotify;
use super::permits::Permits;
use super::raw::RawMutex;
use crate::shim::cell::UnsafeCell;
use crate::shim::explore;
use loom::sync::Arc;
use loom::thread::{self, Thread};

impl Wake for Thread {
    fn wake(self) {
        self.unpark();
    }
}

/// Waits as tasks do, without end.
fn attend(object: &impl Waited<Thread>, wants: usize) {
    let node = Node::new(wants);
    // SAFETY: the node stays here until `step` has said true.
    while !unsafe { object.step(&node, thread::current) } {
        thread::park();
    }
}

/// Joins the line and gives up; true if it has got it at once, or has got it after all.
fn give_up(object: &impl Waited<Thread>, wants: usize) -> bool {
    let node = Node::new(wants);
    // SAFETY: the node stays here until it is out of the line.
    unsafe { object.step(&node, thread::current) || object.withdraw(&node) }
}

struct World {
    mutex: RawMutex<Thread>,
    data: UnsafeCell<usize>,
}

// SAFETY: what the model is to show.
unsafe impl Sync for World {}
// SAFETY: as above.
unsafe impl Send for World {}

impl World {
    fn new() -> Arc<World> {
        Arc::new(World { mutex: RawMutex::new(), data: UnsafeCell::new(0) })
    }

    fn lock(&self) {
        if !self.mutex.try_lock() {
            attend(&self.mutex, 0);
        }
    }

    /// What is done under the lock.
    fn work(&self) {
        // SAFETY: under the lock; loom checks it.
        self.data.with_mut(|data| unsafe { *data += 1 });
    }

    fn round(&self) {
        self.lock();
        self.work();
        self.mutex.unlock();
    }
}

/// Two who lock and unlock: they exclude each other, and none sleeps for ever.
#[test]
fn mutex_excludes() {
    explore("sync::mutex_excludes", None, || {
        let world = World::new();
        let other = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.round())
        };
        world.round();
        other.join().unwrap();
        assert!(world.mutex.try_lock());
        // SAFETY: checked by loom.
        world.data.with(|data| assert_eq!(unsafe { *data }, 2));
    });
}

/// One who takes the lock twice in a row, past one who waits: barging and the hand-over that ends it.
#[test]
fn mutex_hands_over_to_one_who_was_overtaken() {
    explore("sync::mutex_hands_over_to_one_who_was_overtaken", None, || {
        let world = World::new();
        let other = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                world.round();
                world.round();
            })
        };
        world.round();
        other.join().unwrap();
        assert!(world.mutex.try_lock());
    });
}

/// One who waits and one who gives up, against an unlock: the lock is not lost with the one who goes.
#[test]
fn mutex_hand_over_against_cancel() {
    explore("sync::mutex_hand_over_against_cancel", None, || {
        let world = World::new();
        world.lock();
        let waiter = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.round())
        };
        let quitter = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                if give_up(&world.mutex, 0) {
                    world.work();
                    world.mutex.unlock();
                }
            })
        };
        world.work();
        world.mutex.unlock();
        waiter.join().unwrap();
        quitter.join().unwrap();
        assert!(world.mutex.try_lock());
    });
}

/// A release against one who waits for the permit and one who gives up.
#[test]
fn semaphore_release_against_cancel() {
    explore("sync::semaphore_release_against_cancel", None, || {
        let permits = Arc::new(Permits::<Thread>::new(0));
        let waiter = {
            let permits = Arc::clone(&permits);
            thread::spawn(move || attend(&*permits, 1))
        };
        let quitter = {
            let permits = Arc::clone(&permits);
            thread::spawn(move || {
                if give_up(&*permits, 1) {
                    permits.give(1);
                }
            })
        };
        permits.give(1);
        waiter.join().unwrap();
        quitter.join().unwrap();
        assert_eq!(permits.free(), 0);
    });
}

/// One who wants two permits gives up in front of one who wants one.
#[test]
fn semaphore_first_gives_up() {
    explore("sync::semaphore_first_gives_up", None, || {
        let permits = Arc::new(Permits::<Thread>::new(1));
        let quitter = {
            let permits = Arc::clone(&permits);
            thread::spawn(move || assert!(!give_up(&*permits, 2)))
        };
        attend(&*permits, 1);
        quitter.join().unwrap();
        assert_eq!(permits.free(), 0);
    });
}

/// A signal against a wait: kept or delivered.
#[test]
fn notify_against_wait() {
    explore("sync::notify_against_wait", None, || {
        let notify = Arc::new(RawNotify::<Thread>::new());
        let waiter = {
            let notify = Arc::clone(&notify);
            thread::spawn(move || attend(&*notify, 0))
        };
        notify.notify_one();
        waiter.join().unwrap();
    });
}

/// A signal against one who waits and one who gives up.
#[test]
fn notify_against_cancel() {
    explore("sync::notify_against_cancel", None, || {
        let notify = Arc::new(RawNotify::<Thread>::new());
        let waiter = {
            let notify = Arc::clone(&notify);
            thread::spawn(move || attend(&*notify, 0))
        };
        let quitter = {
            let notify = Arc::clone(&notify);
            thread::spawn(move || {
                if give_up(&*notify, 0) {
                    notify.notify_one();
                }
            })
        };
        notify.notify_one();
        waiter.join().unwrap();
        quitter.join().unwrap();
    });
}

/// One who was overtaken and has asked for the lock to be handed over gives up in the moment that it is.
#[test]
fn mutex_granted_to_one_who_gives_up() {
    explore("sync::mutex_granted_to_one_who_gives_up", None, || {
        let world = World::new();
        world.lock();
        let quitter = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let node = Node::new(0);
                // SAFETY: the node stays here until it is out of the line.
                let got = unsafe {
                    world.mutex.step(&node, thread::current)
                        || world.mutex.step(&node, thread::current)
                        || world.mutex.withdraw(&node)
                };
                if got {
                    world.work();
                    world.mutex.unlock();
                }
            })
        };
        world.work();
        world.mutex.unlock();
        if world.mutex.try_lock() {
            world.work();
            world.mutex.unlock();
        }
        quitter.join().unwrap();
        assert!(world.mutex.try_lock(), "the lock is lost");
    });
}
