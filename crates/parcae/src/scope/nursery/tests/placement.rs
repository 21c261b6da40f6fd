//! The worker that a child starts on, as its `Placement` says.

use super::*;
use crate::sched::worker::{self, Worker};
use crate::task::Placement;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Index of the worker that the caller runs on.
fn here() -> usize {
    worker::with_current(|worker: &Worker| worker.index).expect("on a task")
}

/// Spawns children with these options, which say where they started; every second one waits
/// first. The spawner lets them start in one of three ways.
fn starts(cx: &Cx, opts: &SpawnOpts, count: usize) -> Result<Vec<usize>> {
    cx.nursery(|n| {
        let child = |cx: &Cx, number: usize| {
            let started = here();
            if number.is_multiple_of(2) {
                cx.yield_now()?;
                assert_eq!(here(), started, "a started task stays");
            }
            Ok(started)
        };
        let mut children = Vec::new();
        for number in 0..count {
            children.push(n.spawn_with(opts.clone(), move |cx| child(cx, number))?);
            if number.is_multiple_of(3) {
                cx.yield_now()?;
            }
        }
        children.into_iter().map(TaskHandle::join).collect()
    })
}

#[test]
fn near_children_start_on_the_worker_of_their_spawner_and_others_start_anywhere() {
    let elsewhere = AtomicUsize::new(0);
    everywhere(|cx| {
        let priorities = [Priority::Normal, Priority::High, Priority::Low];
        for priority in priorities {
            let near = SpawnOpts::new().placement(Placement::Near).priority(priority);
            assert_eq!(starts(cx, &near, 20)?, [here(); 20], "{priority:?}");
        }
        let any = starts(cx, &SpawnOpts::new(), 20)?;
        elsewhere.fetch_add(any.iter().filter(|&&at| at != here()).count(), Ordering::Relaxed);
        Ok(())
    });
    assert_ne!(elsewhere.into_inner(), 0, "no schedule has started a child elsewhere");
}

/// A child near a guest that was lent the nursery starts on the worker of the guest.
#[test]
fn a_sibling_is_near_the_task_that_spawns_it() {
    everywhere(|cx| {
        cx.nursery(|n| {
            for _ in 0..5 {
                n.spawn(|_| {
                    let near = SpawnOpts::new().placement(Placement::Near);
                    let home = here();
                    assert_eq!(n.spawn_with(near, |_| Ok(here()))?.join()?, home);
                    Ok(())
                })?;
            }
            Ok(())
        })
    });
}

#[test]
fn a_near_child_that_needs_another_stack_starts_there_too() {
    everywhere(|cx| {
        let large = crate::stack::StackSize::new(512 << 10)?;
        let near = SpawnOpts::new().placement(Placement::Near).stack_size(large);
        assert_eq!(starts(cx, &near, 10)?, [here(); 10]);
        Ok(())
    });
}

/// The global queue shows a child at once to workers that are idle. The others leave it there while
/// they have tasks of their own.
#[test]
fn a_child_to_be_spread_waits_where_all_workers_look() {
    schedules(&[1], SEEDS, REPEATS, |schedule| {
        let rt = watched(schedule.builder().temporary_workers(0));
        let shared = rt.engine().shared();
        run(&rt, |cx| {
            let (spread, own) = (AtomicUsize::new(0), AtomicUsize::new(0));
            cx.nursery(|n| {
                let queues = || (shared.queues.global_len(), shared.queues.stealable(0));
                assert_eq!(queues(), (0, 0));
                n.spawn_with(SpawnOpts::new().placement(Placement::Spread), |_| {
                    spread.store(1 + own.load(Ordering::Relaxed), Ordering::Relaxed);
                    Ok(())
                })?;
                assert_eq!(queues(), (1, 0), "in the queue of all workers");
                for _ in 0..3 {
                    n.spawn(|_| Ok(own.fetch_add(1, Ordering::Relaxed)))?;
                }
                assert_eq!(queues(), (1, 3));
                Ok(())
            })?;
            assert_eq!(own.into_inner(), 3);
            assert_ne!(spread.into_inner(), 0, "it has run");
            Ok(())
        });
    });
}

/// A spawner that computes until its child has run needs another worker for it.
#[test]
fn a_child_to_be_spread_runs_beside_a_spawner_that_computes() {
    schedules(&[2, 4], 0, 20, |schedule| {
        run(&watched(schedule.builder()), |cx| {
            let started = AtomicUsize::new(usize::MAX);
            cx.nursery(|n| {
                n.spawn_with(SpawnOpts::new().placement(Placement::Spread), |_| {
                    started.store(here(), Ordering::Release);
                    Ok(())
                })?;
                while started.load(Ordering::Acquire) == usize::MAX {
                    std::hint::spin_loop();
                }
                assert_ne!(started.load(Ordering::Acquire), here());
                Ok(())
            })
        });
    });
}

/// Children of all placements end with a nursery that is cancelled before, while and after they
/// start.
#[test]
fn children_of_every_placement_end_with_their_nursery() {
    everywhere_seeded(|cx, seed| {
        let cancelled = cx.nursery(|n| {
            for number in 0..12 {
                let placement = [Placement::Any, Placement::Near, Placement::Spread][number % 3];
                let opts = SpawnOpts::new().placement(placement);
                n.spawn_with(opts, |cx| cx.forever(|| Ok(())))?;
                if seed % 12 == number as u64 {
                    cx.yield_now()?;
                }
            }
            (0..seed % 5).try_for_each(|_| cx.yield_now())?;
            n.cancel();
            Ok(())
        });
        assert!(cancelled.unwrap_err().is_cancelled());
        Ok(())
    });
}
