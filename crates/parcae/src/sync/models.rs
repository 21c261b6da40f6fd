//! The locks under loom, with threads of loom's as waiters. A cancellation is a waiter that parks
//! no more, and withdraws. Run: `.ci/run loom`.
//!
//! Loom itself reports a deadlock, which is a lost wake-up, and two threads in the data cell at
//! once.

use super::barrier::RawBarrier;
use super::condvar::RawCondvar;
use super::notify::RawNotify;
use super::once::OnceSlot;
use super::permits::Permits;
use super::primitive::{Primitive, PrimitiveQueue, WaitOutcome, begin};
use super::raw::RawMutex;
use crate::base::shim::cell::UnsafeCell;
use crate::base::shim::explore;
use crate::wait::{Grant, WaitNode, WaitStanding, Waitable};
use loom::sync::Arc;
use loom::thread::{self, Thread};

/// Waits for a node that is in the queue, as `wait_in_queue` does, without end.
fn wait_on<P: Primitive<Thread>>(primitive: &P, node: &WaitNode<Thread, P::Key>) -> Grant {
    loop {
        thread::park();
        match node.standing() {
            WaitStanding::Granted(grant) => return grant,
            WaitStanding::Called => {
                // SAFETY: the node stays where it is until it was granted.
                if let Some(grant) =
                    unsafe { PrimitiveQueue(primitive).retry(node, thread::current) }
                {
                    return grant;
                }
            }
            _ => {}
        }
    }
}

/// Waits as tasks do, without end.
fn wait<P: Primitive<Thread>>(primitive: &P, key: P::Key) -> Grant {
    let node = WaitNode::new(key);
    // SAFETY: the node stays here until it was granted.
    match unsafe { begin(primitive, &node, key, thread::current) } {
        Some(grant) => grant,
        None => wait_on(primitive, &node),
    }
}

/// Joins the queue and gives up, as a cancelled waiter does. The grant if it has got one all the
/// same.
fn give_up<P: Primitive<Thread>>(primitive: &P, key: P::Key) -> Option<Grant> {
    let node = WaitNode::new(key);
    // SAFETY: the node stays here until it was withdrawn.
    unsafe {
        begin(primitive, &node, key, thread::current)
            .or_else(|| PrimitiveQueue(primitive).withdraw(&node))
    }
}

struct World {
    mutex: RawMutex<Thread>,
    data: UnsafeCell<usize>,
}

// SAFETY: accesses are exclusive, which the model is to show.
unsafe impl Sync for World {}
// SAFETY: as above.
unsafe impl Send for World {}

impl World {
    fn new() -> Arc<World> {
        Arc::new(World { mutex: RawMutex::new(), data: UnsafeCell::new(0) })
    }

    fn lock(&self) {
        if !self.mutex.try_lock() {
            wait(&self.mutex, 0);
        }
    }

    /// The critical section.
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

/// A thread takes the lock twice in a row, past a waiter: barging, and the hand-over that ends it.
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

/// A waiter and one that gives up, against an unlock: the lock is not lost with the latter.
// rule: S4-CHAN-3
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
                if give_up(&world.mutex, 0).is_some() {
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

/// A release against a waiter for the permit and one that gives up.
#[test]
fn semaphore_release_against_cancel() {
    explore("sync::semaphore_release_against_cancel", None, || {
        let permits = Arc::new(Permits::<Thread>::new(0));
        let waiter = {
            let permits = Arc::clone(&permits);
            thread::spawn(move || assert_eq!(wait(&*permits, 1), Grant::Own))
        };
        let quitter = {
            let permits = Arc::clone(&permits);
            thread::spawn(move || {
                if give_up(&*permits, 1).is_some() {
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

/// A waiter for two permits gives up in front of a waiter for one.
#[test]
fn semaphore_first_gives_up() {
    explore("sync::semaphore_first_gives_up", None, || {
        let permits = Arc::new(Permits::<Thread>::new(1));
        let quitter = {
            let permits = Arc::clone(&permits);
            thread::spawn(move || assert_eq!(give_up(&*permits, 2), None))
        };
        wait(&*permits, 1);
        quitter.join().unwrap();
        assert_eq!(permits.free(), 0);
    });
}

/// One waits, one gives a permit, one closes: the waiter has got the permit or was refused, and the
/// permit is where that says.
#[test]
fn semaphore_close_against_release() {
    explore("semaphore: close against a wait and a release", Some(3), || {
        let permits = Arc::new(Permits::new(0));
        let giver = {
            let permits = Arc::clone(&permits);
            thread::spawn(move || permits.give(1))
        };
        let waiter = {
            let permits = Arc::clone(&permits);
            thread::spawn(move || wait(&*permits, 1) == Grant::Closed)
        };
        permits.close();
        giver.join().unwrap();
        assert_eq!(permits.free(), usize::from(waiter.join().unwrap()));
    });
}

/// The same, with a waiter that gives up.
#[test]
fn semaphore_close_against_cancel() {
    explore("semaphore: close against a cancel and a release", Some(3), || {
        let permits = Arc::new(Permits::new(0));
        let giver = {
            let permits = Arc::clone(&permits);
            thread::spawn(move || permits.give(1))
        };
        let waiter = {
            let permits = Arc::clone(&permits);
            thread::spawn(move || give_up(&*permits, 1) == Some(Grant::Own))
        };
        permits.close();
        giver.join().unwrap();
        let got = waiter.join().unwrap();
        assert_eq!(permits.free(), usize::from(!got));
        assert!(!permits.try_take(0), "closed");
    });
}

/// A signal against a wait: kept or delivered.
#[test]
fn notify_against_wait() {
    explore("sync::notify_against_wait", None, || {
        let notify = Arc::new(RawNotify::<Thread>::new());
        let waiter = {
            let notify = Arc::clone(&notify);
            thread::spawn(move || wait(&*notify, ()))
        };
        notify.notify_one();
        waiter.join().unwrap();
    });
}

/// A signal against a waiter and one that gives up.
#[test]
fn notify_against_cancel() {
    explore("sync::notify_against_cancel", None, || {
        let notify = Arc::new(RawNotify::<Thread>::new());
        let waiter = {
            let notify = Arc::clone(&notify);
            thread::spawn(move || wait(&*notify, ()))
        };
        let quitter = {
            let notify = Arc::clone(&notify);
            thread::spawn(move || {
                if give_up(&*notify, ()).is_some() {
                    notify.notify_one();
                }
            })
        };
        notify.notify_one();
        waiter.join().unwrap();
        quitter.join().unwrap();
    });
}

/// A waiter that was overtaken and has asked for a hand-over gives up just as the lock is handed to
/// it.
#[test]
fn mutex_granted_to_one_who_gives_up() {
    explore("sync::mutex_granted_to_one_who_gives_up", None, || {
        let world = World::new();
        world.lock();
        let quitter = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let node = WaitNode::new(0);
                // SAFETY: the node stays here until it is out of the queue.
                let mut got = unsafe { begin(&world.mutex, &node, 0, thread::current) };
                if got.is_none() {
                    // Woken once, and cancelled then.
                    // SAFETY: as above.
                    got = unsafe {
                        match node.standing() {
                            WaitStanding::Called => {
                                PrimitiveQueue(&world.mutex).retry(&node, thread::current)
                            }
                            _ => None,
                        }
                    };
                    // SAFETY: as above.
                    got = got.or_else(|| unsafe { PrimitiveQueue(&world.mutex).withdraw(&node) });
                }
                if got.is_some() {
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

/// A mutex with a condition variable.
struct Gate {
    world: Arc<World>,
    opened: RawCondvar<Thread>,
}

impl Gate {
    fn new() -> Arc<Gate> {
        Arc::new(Gate { world: World::new(), opened: RawCondvar::new() })
    }

    fn is_open(&self) -> bool {
        // SAFETY: under the lock; loom checks it.
        self.world.data.with(|data| unsafe { *data > 0 })
    }

    /// Opens it, and says so afterwards, without the lock.
    fn open(&self, notify: impl FnOnce(&RawCondvar<Thread>)) {
        self.world.round();
        notify(&self.opened);
    }

    /// Waits as `Condvar::wait_while` does: joins the line before it unlocks.
    fn pass(&self) {
        self.world.lock();
        while !self.is_open() {
            let node = WaitNode::new(());
            // SAFETY: the node stays here until it was granted.
            let granted = unsafe { begin(&self.opened, &node, (), thread::current) };
            assert_eq!(granted, None, "a condvar keeps no signal");
            self.world.mutex.unlock();
            wait_on(&self.opened, &node);
            self.world.lock();
        }
        self.world.mutex.unlock();
    }
}

/// A change under the mutex, signalled after it, against a thread that looks and waits.
#[test]
fn condvar_signal_against_wait() {
    explore("sync::condvar_signal_against_wait", None, || {
        let gate = Gate::new();
        let waiter = {
            let gate = Arc::clone(&gate);
            thread::spawn(move || gate.pass())
        };
        gate.open(RawCondvar::notify_one);
        waiter.join().unwrap();
    });
}

#[test]
fn condvar_signal_for_all() {
    explore("sync::condvar_signal_for_all", Some(2), || {
        let gate = Gate::new();
        let waiters = [(); 2].map(|()| {
            let gate = Arc::clone(&gate);
            thread::spawn(move || gate.pass())
        });
        gate.open(RawCondvar::notify_all);
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    });
}

/// Starts a waiter behind those that are in the queue already, and returns when it is queued.
fn queue_behind(condvar: &Arc<RawCondvar<Thread>>) -> thread::JoinHandle<Grant> {
    let joined = Arc::new(loom::sync::atomic::AtomicBool::new(false));
    let (condvar, seen) = (Arc::clone(condvar), Arc::clone(&joined));
    let waiter = thread::spawn(move || {
        let node = WaitNode::new(());
        // SAFETY: the node stays here until it was granted.
        assert_eq!(unsafe { begin(&*condvar, &node, (), thread::current) }, None);
        joined.store(true, loom::sync::atomic::Ordering::Release);
        wait_on(&*condvar, &node)
    });
    while !seen.load(loom::sync::atomic::Ordering::Acquire) {
        thread::yield_now();
    }
    waiter
}

/// A signal for one of two waiters, of which the first gives up: the second gets it.
#[test]
fn condvar_signal_against_cancel() {
    explore("sync::condvar_signal_against_cancel", None, || {
        let condvar = Arc::new(RawCondvar::<Thread>::new());
        let quits = WaitNode::new(());
        // SAFETY: the node stays here until it was withdrawn.
        assert_eq!(unsafe { begin(&*condvar, &quits, (), thread::current) }, None);
        let stays = queue_behind(&condvar);
        let signals = {
            let condvar = Arc::clone(&condvar);
            thread::spawn(move || condvar.notify_one())
        };
        // Granted or not: its signal goes to the waiter behind it.
        // SAFETY: as above.
        unsafe { PrimitiveQueue(&*condvar).withdraw(&quits) };
        signals.join().unwrap();
        stays.join().unwrap();
    });
}

/// A signal for one of two waiters. The first gets it and is cancelled while it locks the mutex
/// again: the second gets the signal.
#[test]
fn condvar_signal_against_cancel_while_locking_again() {
    explore("sync::condvar_signal_against_cancel_while_locking_again", Some(3), || {
        let (world, condvar) = (World::new(), Arc::new(RawCondvar::<Thread>::new()));
        let quits = WaitNode::new(());
        // SAFETY: the node stays here until it was granted.
        assert_eq!(unsafe { begin(&*condvar, &quits, (), thread::current) }, None);
        let stays = queue_behind(&condvar);
        let signals = {
            let (world, condvar) = (Arc::clone(&world), Arc::clone(&condvar));
            thread::spawn(move || {
                world.lock();
                condvar.notify_one();
                world.mutex.unlock();
            })
        };
        let outcome = WaitOutcome::Waited(wait_on(&*condvar, &quits));
        // A task that is cancelled if it has to wait for the mutex.
        let locked = condvar.lock_again(outcome, || give_up(&world.mutex, 0).ok_or(()));
        if locked.is_ok() {
            world.mutex.unlock();
            condvar.notify_one(); // has used the signal, and gives one of its own
        }
        signals.join().unwrap();
        stays.join().unwrap();
        assert!(world.mutex.try_lock(), "the mutex is lost");
    });
}

/// Two rounds of two: no party passes before its partner has arrived, and none sleeps forever.
#[test]
fn barrier_rounds() {
    explore("sync::barrier_rounds", Some(3), || {
        let barrier = Arc::new(RawBarrier::<Thread>::new(2));
        let come = Arc::new(loom::sync::atomic::AtomicUsize::new(0));
        let rounds = |barrier: &RawBarrier<Thread>, come: &loom::sync::atomic::AtomicUsize| {
            for round in 1..=2 {
                come.fetch_add(1, loom::sync::atomic::Ordering::Relaxed);
                wait(barrier, ());
                // Ordered by the small lock of the barrier.
                let come = come.load(loom::sync::atomic::Ordering::Relaxed);
                assert!(come >= 2 * round, "passed alone");
            }
        };
        let other = {
            let (barrier, come) = (Arc::clone(&barrier), Arc::clone(&come));
            thread::spawn(move || rounds(&barrier, &come))
        };
        rounds(&barrier, &come);
        other.join().unwrap();
    });
}

/// A party that gives up has not arrived, or has passed together with its partner.
#[test]
fn barrier_against_cancel() {
    explore("sync::barrier_against_cancel", None, || {
        let barrier = Arc::new(RawBarrier::<Thread>::new(2));
        let quitter = {
            let barrier = Arc::clone(&barrier);
            thread::spawn(move || give_up(&*barrier, ()).is_some())
        };
        let partner = {
            let barrier = Arc::clone(&barrier);
            thread::spawn(move || wait(&*barrier, ()))
        };
        if !quitter.join().unwrap() {
            wait(&*barrier, ()); // the partner still waits for a party
        }
        partner.join().unwrap();
        assert_eq!(give_up(&*barrier, ()), None, "a new round has begun");
    });
}

/// Two who need the value: one makes it, and both read it as it was made.
#[test]
fn once_is_made_once() {
    explore("sync::once_is_made_once", None, || {
        struct Cell {
            slot: OnceSlot<u32>,
            making: RawMutex<Thread>,
            made: UnsafeCell<usize>,
        }
        // SAFETY: accesses are exclusive, which the model is to show.
        unsafe impl Sync for Cell {}
        // SAFETY: as above.
        unsafe impl Send for Cell {}
        /// As `OnceCell::get_or_init`.
        fn get(cell: &Cell) -> u32 {
            if let Some(value) = cell.slot.get() {
                return *value;
            }
            if !cell.making.try_lock() {
                wait(&cell.making, 0);
            }
            if cell.slot.get().is_none() {
                // SAFETY: under the lock; loom checks it.
                cell.made.with_mut(|made| unsafe { *made += 1 });
                // SAFETY: as above, and it is not ready.
                unsafe { cell.slot.put(7) };
            }
            cell.making.unlock();
            *cell.slot.get().expect("it is ready")
        }
        let cell = Arc::new(Cell {
            slot: OnceSlot::new(),
            making: RawMutex::new(),
            made: UnsafeCell::new(0),
        });
        let other = {
            let cell = Arc::clone(&cell);
            thread::spawn(move || get(&cell))
        };
        assert_eq!((get(&cell), other.join().unwrap()), (7, 7));
        // SAFETY: the other has ended.
        cell.made.with(|made| assert_eq!(unsafe { *made }, 1, "made twice"));
    });
}

/// A flag for all: later callers do not wait, and waiters are woken.
#[test]
fn event_against_wait() {
    explore("sync::event_against_wait", Some(3), || {
        let event = Arc::new(RawNotify::<Thread>::new());
        let waiters = [(); 2].map(|()| {
            let event = Arc::clone(&event);
            thread::spawn(move || wait(&*event, ()))
        });
        event.set();
        waiters.into_iter().for_each(|waiter| drop(waiter.join().unwrap()));
        wait(&*event, ());
    });
}
