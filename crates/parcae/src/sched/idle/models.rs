//! The idle protocol under loom: work that was submitted is found by a worker.
//!
//! A queue is modelled as a counter, a sleeping worker as a thread that gives up; a worker
//! that is chosen looks once more. At the end nothing may be left in the queue unless
//! a worker is awake to take it. Run: `.ci/run loom`.

use super::*;
use crate::base::shim::explore;
use loom::sync::atomic::{AtomicBool, AtomicUsize};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use std::time::Duration;

struct World {
    idle: Idle,
    /// Units of work that any worker can take.
    queue: AtomicUsize,
    /// Workers that found by themselves that they were chosen: their token is spent.
    noticed: [AtomicBool; 2],
}

impl World {
    fn new(workers: usize) -> Arc<World> {
        let noticed = [AtomicBool::new(false), AtomicBool::new(false)];
        Arc::new(World { idle: Idle::new(workers, 0), queue: AtomicUsize::new(0), noticed })
    }

    fn take(&self) -> bool {
        self.queue.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| n.checked_sub(1)).is_ok()
    }

    /// Publishes a unit; returns the worker to run in its place, if one was woken.
    fn submit(&self) -> Option<usize> {
        self.queue.fetch_add(1, Ordering::Release);
        self.idle.notify_any()
    }

    /// A worker without work: searches, and falls asleep. Returns how much it took before.
    fn search_and_sleep(&self, worker: usize, mut searching: bool) -> (usize, Option<usize>) {
        let mut taken = 0;
        let mut woken = None;
        loop {
            if !searching {
                searching = self.idle.try_search();
            }
            if self.take() {
                taken += 1;
                if searching && self.idle.stop_searching() && woken.is_none() {
                    woken = self.idle.notify_any();
                }
                searching = false;
                continue;
            }
            self.idle.fall_asleep(worker, searching);
            if self.queue.load(Ordering::Acquire) == 0 {
                return (taken, woken); // asleep
            }
            // Work after all: a searcher, by its own choice or a publisher's.
            if !self.idle.stay_awake(worker) {
                self.noticed[worker].store(true, Ordering::Release);
            }
            searching = true;
        }
    }
}

/// A submit against a worker that falls asleep: the work is taken, or a worker was woken.
// rule: S0-WLOOP-5, S3-GOAL-2, S3-OWN-5, S4-MEM-9
#[test]
fn submit_against_sleep() {
    explore("idle::submit_against_sleep", None, || {
        let world = World::new(1);
        let worker = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.search_and_sleep(0, false))
        };
        let woken = world.submit();
        let (taken, _) = worker.join().unwrap();
        assert!(taken == 1 || woken == Some(0), "work is stranded");
    });
}

/// Work for one worker only, against that worker falling asleep.
#[test]
fn inbox_against_sleep() {
    explore("idle::inbox_against_sleep", None, || {
        let world = World::new(2);
        let worker = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.search_and_sleep(0, false))
        };
        world.queue.fetch_add(1, Ordering::Release);
        let woken = world.idle.notify(0) == Notified::Chosen;
        let (taken, _) = worker.join().unwrap();
        assert!(taken == 1 || woken, "work is stranded");
    });
}

/// Two submits against two workers: everything is taken or a worker is woken to take it.
// rule: S4-MEM-9
#[test]
fn two_submits_against_two_workers() {
    explore("idle::two_submits_against_two_workers", Some(2), || {
        let world = World::new(2);
        let workers: Vec<_> = (0..2)
            .map(|worker| {
                let world = Arc::clone(&world);
                thread::spawn(move || world.search_and_sleep(worker, false))
            })
            .collect();
        let mut woken: Vec<usize> =
            [world.submit(), world.submit()].into_iter().flatten().collect();
        for worker in workers {
            woken.extend(worker.join().unwrap().1);
        }
        // Woken workers run now; each is a searcher.
        while let Some(worker) = woken.pop() {
            woken.extend(world.search_and_sleep(worker, true).1);
        }
        assert_eq!(world.queue.load(Ordering::Acquire), 0, "work is stranded");
    });
}

/// The last searcher takes one unit while another is submitted: it wakes a worker for it.
// rule: S0-STEAL-6
#[test]
fn last_searcher_passes_the_wake_on() {
    explore("idle::last_searcher_passes_the_wake_on", Some(3), || {
        let world = World::new(2);
        // Worker 1 sleeps; worker 0 searches.
        world.idle.fall_asleep(1, false);
        world.queue.fetch_add(1, Ordering::Release);
        let searcher = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                // Perhaps worker 1 was chosen already, and searches.
                let searching = world.idle.try_search();
                // Takes one unit and is busy with it for ever.
                if world.take() {
                    let last = searching && world.idle.stop_searching();
                    return if last { world.idle.notify_any() } else { None };
                }
                world.search_and_sleep(0, searching).1
            })
        };
        let mut woken: Vec<usize> = world.submit().into_iter().collect();
        woken.extend(searcher.join().unwrap());
        while let Some(worker) = woken.pop() {
            woken.extend(world.search_and_sleep(worker, true).1);
        }
        assert_eq!(world.queue.load(Ordering::Acquire), 0, "work is stranded");
    });
}

/// Two publishers choose sleepers at once, while one of them is about to stay awake: the
/// counts come out right, and nothing is left.
#[test]
fn two_publishers_against_two_workers() {
    explore("idle::two_publishers_against_two_workers", Some(2), || {
        let world = World::new(2);
        world.idle.fall_asleep(1, false);
        let publishers: Vec<_> = (0..2)
            .map(|_| {
                let world = Arc::clone(&world);
                thread::spawn(move || world.submit())
            })
            .collect();
        let (_, chosen) = world.search_and_sleep(0, false);
        let mut woken: Vec<usize> = chosen.into_iter().collect();
        for publisher in publishers {
            woken.extend(publisher.join().unwrap());
        }
        // Woken workers run now, unless they noticed by themselves.
        while let Some(worker) = woken.pop() {
            if !world.noticed[worker].swap(false, Ordering::AcqRel) {
                woken.extend(world.search_and_sleep(worker, true).1);
            }
        }
        assert_eq!(world.queue.load(Ordering::Acquire), 0, "work is stranded");
        // All sleep again: two sleepers, no searcher.
        assert_eq!(world.idle.counts.load(Ordering::Acquire), 2 * SLEEPING);
    });
}

/// A worker that the kernel wakes for tasks of its own is no searcher, whatever a publisher does at
/// the same moment: the publisher's work is taken, or a worker is woken for it.
#[test]
fn event_against_submit() {
    explore("idle::event_against_submit", Some(3), || {
        let world = World::new(2);
        let worker = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let (taken, _) = world.search_and_sleep(0, false);
                // An event: it works for itself, and searches only if it was chosen.
                let chosen = !world.idle.retire(0);
                if chosen {
                    world.noticed[0].store(true, Ordering::Release);
                    return (taken, world.search_and_sleep(0, true));
                }
                (taken, (0, None))
            })
        };
        world.idle.fall_asleep(1, false);
        let mut woken: Vec<usize> = world.submit().into_iter().collect();
        let (_, (_, more)) = worker.join().unwrap();
        woken.extend(more);
        while let Some(worker) = woken.pop() {
            if !world.noticed[worker].swap(false, Ordering::AcqRel) {
                woken.extend(world.search_and_sleep(worker, true).1);
            }
        }
        assert_eq!(world.queue.load(Ordering::Acquire), 0, "work is stranded");
    });
}

/// An epoll instance with an eventfd: a bell that keeps its ring, and events of descriptors.
struct Bell {
    rings: Mutex<(usize, usize)>,
    changed: Condvar,
}

impl Bell {
    fn event(&self) {
        self.rings.lock().unwrap().1 += 1;
        self.changed.notify_one();
    }
}

impl KernelEvents for Bell {
    /// Never times out: a wake that is lost is a deadlock of the model.
    fn poll(&self, timeout: Option<Duration>) -> usize {
        let mut rings = self.rings.lock().unwrap();
        while timeout.is_none() && *rings == (0, 0) {
            rings = self.changed.wait(rings).unwrap();
        }
        std::mem::take(&mut *rings).1
    }

    fn ring(&self) {
        self.rings.lock().unwrap().0 += 1;
        self.changed.notify_one();
    }

    fn is_watching(&self) -> bool {
        true
    }

    fn close(&self) {}
}

/// A poller with events, and a flag that its wakers set first.
struct PollerWorld {
    poller: Poller,
    bell: std::sync::Arc<Bell>,
    told: AtomicUsize,
}

impl PollerWorld {
    fn new() -> Arc<PollerWorld> {
        let bell = Bell { rings: Mutex::new((0, 0)), changed: Condvar::new() };
        let (poller, bell) = (Poller::default(), std::sync::Arc::new(bell));
        poller.install(std::sync::Arc::clone(&bell) as _);
        Arc::new(PollerWorld { poller, bell, told: AtomicUsize::new(0) })
    }

    fn tell(&self) {
        self.told.fetch_add(1, Ordering::Relaxed); // ordered by the token
        self.poller.wake();
    }

    /// Sleeps until it was told so often.
    fn sleep_until_told(&self, times: usize) {
        while self.told.load(Ordering::Relaxed) < times {
            self.poller.sleep(None);
        }
    }
}

/// A wake against a worker that goes to sleep in the kernel's events: it is not lost.
#[test]
fn wake_against_sleep_in_the_poller() {
    explore("idle::wake_against_sleep_in_the_poller", None, || {
        let world = PollerWorld::new();
        let waker = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.tell())
        };
        world.sleep_until_told(1);
        waker.join().unwrap();
    });
}

/// Two wakers and an event against a worker that sleeps, works and sleeps again: every wake ends a
/// sleep that begins after it, and what came before a wake is seen.
#[test]
fn two_wakes_and_an_event_against_the_poller() {
    explore("idle::two_wakes_and_an_event_against_the_poller", Some(3), || {
        let world = PollerWorld::new();
        let wakers: Vec<_> = (0..2)
            .map(|waker| {
                let world = Arc::clone(&world);
                thread::spawn(move || {
                    if waker == 0 {
                        world.bell.event();
                    }
                    world.tell();
                })
            })
            .collect();
        world.sleep_until_told(1);
        world.poller.look();
        world.sleep_until_told(2);
        for waker in wakers {
            waker.join().unwrap();
        }
    });
}
