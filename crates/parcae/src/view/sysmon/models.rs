//! The monitor under loom: no worker goes unwatched, and no work is stranded by a worker that retires.
//! Run: `.ci/run loom`.

use super::bell::{Bell, Resting};
use crate::base::shim::explore;
use crate::sched::idle::Idle;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

/// Two workers come back from their sleep while the monitor falls asleep: it stays awake, or exactly one rings.
#[test]
fn coming_back_against_dozing() {
    explore("sysmon::coming_back_against_dozing", None, || {
        let world = Arc::new((Bell::new(), [Resting::new(), Resting::new()]));
        world.1.iter().for_each(Resting::begin);
        let workers: Vec<_> = (0..2)
            .map(|worker| {
                let world = Arc::clone(&world);
                thread::spawn(move || world.0.must_ring(&world.1[worker]))
            })
            .collect();
        let sleeps = world.0.doze(|| world.1.iter().all(Resting::get));
        let rung = workers.into_iter().map(|worker| worker.join().unwrap());
        let rung = rung.filter(|rung| *rung).count();
        assert!(rung <= 1, "rung twice for one sleep");
        assert!(!sleeps || rung == 1, "the monitor sleeps while workers work");
    });
}

/// A worker comes back, works and rests again while the monitor falls asleep: it stays awake, or is rung for. What a task
/// waits for in the end would be seen by nobody otherwise.
#[test]
fn working_shortly_against_dozing() {
    explore("sysmon::working_shortly_against_dozing", None, || {
        let world = Arc::new((Bell::new(), Resting::new(), AtomicUsize::new(0)));
        world.1.begin();
        let worker = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let (bell, resting, steps) = &*world;
                let rings = bell.must_ring(resting);
                steps.store(1, Ordering::Relaxed); // as `Counter` does
                resting.begin();
                rings
            })
        };
        let (bell, resting, steps) = &*world;
        let sleeps = bell.doze(|| resting.get() && steps.load(Ordering::Relaxed) == 0);
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

    /// Worker 0 takes what there is and falls asleep. Says whom it has woken.
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

/// A temporary worker retires while others submit and the worker falls asleep: everything is taken, or somebody who
/// is there was woken for it.
fn retire(name: &str, submitters: usize, bound: Option<usize>) {
    explore(name, bound, move || {
        let world = Arc::new(World { idle: Idle::new(1, 1), queue: AtomicUsize::new(0) });
        // Worker 1 is temporary, sleeps, and has looked around.
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
        // It stays if and only if somebody has chosen it.
        assert_eq!(retired, !woken.contains(&1), "a worker was chosen that has retired");
        while let Some(worker) = woken.pop() {
            if worker == 0 {
                woken.extend(world.work_and_sleep(true));
            } else {
                // A searcher; it takes what is there, and sleeps.
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
    explore("sysmon::retire_counts", Some(3), || {
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
        // Nobody is left, but for the one that was chosen, who searches.
        assert_eq!(idle.anybody(), !retired, "the counts are off");
    });
}

#[test]
fn retire_against_submit() {
    retire("sysmon::retire_against_submit", 1, Some(2));
}

/// With a second one, who may take the first for a searcher while that chooses in vain.
#[test]
fn retire_against_two_submits() {
    retire("sysmon::retire_against_two_submits", 2, Some(2));
}
