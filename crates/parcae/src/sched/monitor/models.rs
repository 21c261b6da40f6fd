//! The monitor under loom: no worker goes unmonitored, and no work is stranded by a worker that
//! retires. Run: `.ci/run loom`.

use super::parker::{MonitorParker, Resting};
use crate::base::shim::explore;
use crate::sched::idle::Idle;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

/// Two workers wake up while the monitor falls asleep: it stays awake, or exactly one of them
/// unparks it.
// rule: S4-SYSMON-1
#[test]
fn coming_back_against_dozing() {
    explore("monitor::coming_back_against_dozing", None, || {
        let world = Arc::new((MonitorParker::new(), [Resting::new(), Resting::new()]));
        world.1.iter().for_each(Resting::begin);
        let workers: Vec<_> = (0..2)
            .map(|worker| {
                let world = Arc::clone(&world);
                thread::spawn(move || world.0.must_wake(&world.1[worker]))
            })
            .collect();
        let sleeps = world.0.try_sleep(|| world.1.iter().all(Resting::get));
        let woken = workers.into_iter().map(|worker| worker.join().unwrap());
        let woken = woken.filter(|woken| *woken).count();
        assert!(woken <= 1, "unparked twice for one sleep");
        assert!(!sleeps || woken == 1, "the monitor sleeps while workers work");
    });
}

/// A worker wakes up, works and rests again while the monitor falls asleep: it stays awake, or is
/// unparked. Otherwise a task that parked in between would never be scanned.
#[test]
fn working_shortly_against_dozing() {
    explore("monitor::working_shortly_against_dozing", None, || {
        let world = Arc::new((MonitorParker::new(), Resting::new(), AtomicUsize::new(0)));
        world.1.begin();
        let worker = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let (parker, resting, steps) = &*world;
                let wakes = parker.must_wake(resting);
                steps.store(1, Ordering::Relaxed); // as `Counter` does
                resting.begin();
                wakes
            })
        };
        let (parker, resting, steps) = &*world;
        let sleeps = parker.try_sleep(|| resting.get() && steps.load(Ordering::Relaxed) == 0);
        assert!(!sleeps || worker.join().unwrap(), "the monitor sleeps and has missed a step");
    });
}

/// A queue that any worker may take from; see `idle::models`.
struct World {
    idle: Idle,
    queue: AtomicUsize,
}

impl World {
    fn take(&self) -> bool {
        self.queue.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| n.checked_sub(1)).is_ok()
    }

    fn submit(&self) -> Option<usize> {
        self.queue.fetch_add(1, Ordering::Release);
        self.idle.notify_any()
    }

    /// Worker 0 takes all work and falls asleep. Returns the worker that it has woken.
    fn work_and_sleep(&self, mut searching: bool) -> Option<usize> {
        let mut woken = None;
        loop {
            if self.take() {
                if searching && self.idle.stop_searching() && woken.is_none() {
                    woken = self.idle.notify_any();
                }
                searching = false;
                continue;
            }
            self.idle.fall_asleep(0, searching);
            if self.queue.load(Ordering::Acquire) == 0 {
                return woken;
            }
            self.idle.stay_awake(0);
            searching = true;
        }
    }
}

/// A temporary worker retires while others submit and the worker falls asleep: all work is taken,
/// or a present worker was woken for it.
fn retire(name: &str, submitters: usize, bound: Option<usize>) {
    explore(name, bound, move || {
        let world = Arc::new(World { idle: Idle::new(1, 1), queue: AtomicUsize::new(0) });
        // Worker 1 is temporary, sleeps, and has checked all queues.
        world.idle.fall_asleep(1, false);
        let temporary = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.idle.retire(1))
        };
        let others: Vec<_> = (1..submitters)
            .map(|_| {
                let world = Arc::clone(&world);
                thread::spawn(move || world.submit())
            })
            .collect();
        let worker = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.work_and_sleep(false))
        };
        let mut woken: Vec<usize> = world.submit().into_iter().collect();
        for other in others {
            woken.extend(other.join().unwrap());
        }
        woken.extend(worker.join().unwrap());
        let retired = temporary.join().unwrap();
        // It stays if and only if it was chosen.
        assert_eq!(retired, !woken.contains(&1), "a worker was chosen that has retired");
        while let Some(worker) = woken.pop() {
            if worker == 0 {
                woken.extend(world.work_and_sleep(true));
            } else {
                // A searcher: it takes all work, and sleeps.
                while world.take() {}
                world.idle.fall_asleep(1, true);
            }
        }
        assert_eq!(world.queue.load(Ordering::Acquire), 0, "work is stranded");
    });
}

/// Two submitters choose the same sleeper, which retires: the counts come out right.
#[test]
fn retire_counts() {
    explore("monitor::retire_counts", Some(3), || {
        let idle = Arc::new(Idle::new(1, 1));
        idle.fall_asleep(1, false);
        let choosers: Vec<_> = (0..2)
            .map(|_| {
                let idle = Arc::clone(&idle);
                thread::spawn(move || idle.notify_any().is_some())
            })
            .collect();
        let retired = idle.retire(1);
        let chosen = choosers.into_iter().map(|chooser| chooser.join().unwrap());
        let chosen = chosen.filter(|chosen| *chosen).count();
        assert_eq!(usize::from(retired) + chosen, 1, "its bit was taken once");
        // No worker is left but the chosen one, which searches.
        assert_eq!(idle.anybody(), !retired, "the counts are off");
    });
}

// rule: S4-SYSMON-9
#[test]
fn retire_against_submit() {
    retire("monitor::retire_against_submit", 1, Some(2));
}

/// With a second submitter, which may count the first as a searcher while that fails to choose.
// rule: S4-SYSMON-9
#[test]
fn retire_against_two_submits() {
    retire("monitor::retire_against_two_submits", 2, Some(2));
}
