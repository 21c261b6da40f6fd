//! A task that yields goes behind the tasks that are ready, its own children among them: on one
//! worker each child that it has spawned has started when the yield returns.

use crate::support::*;
use parcae::Result;
use parcae::prelude::*;
use parcae::runtime::Builder;
use std::sync::atomic::{AtomicUsize, Ordering};

type Service = parcae::profile::Service;

/// Runs a test on one worker: under the deterministic executor with many seeds, and on a thread.
fn on_one_worker(runs: u64, test: impl Fn(&Cx, u64) -> Result<()> + Sync) {
    let one = || Runtime::builder().workers(1).temporary_workers(0);
    let run = |builder: Builder<Service>, number| {
        succeed(watched(builder).run(|cx| test(cx, number)));
    };
    for seed in seeds(runs) {
        naming_the_seed(1, seed, || run(one().deterministic(seed), seed));
    }
    (0..runs).for_each(|number| run(one(), number));
}

/// A small generator of numbers, of the test's own.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// More children than a deque holds, too: those that overflowed into the global queue are children
/// as well.
#[test]
fn a_yield_lets_all_children_start_first() {
    const COUNTS: [usize; 8] = [1, 2, 3, 40, 61, 500, 2_500, 5_000];
    on_one_worker(SEEDS, |cx, number| {
        // Each run begins at another pick of the worker.
        for _ in 0..number {
            cx.yield_now()?;
        }
        for count in COUNTS {
            let started = AtomicUsize::new(0);
            cx.nursery(|n| {
                for spawned in 1..=count {
                    n.spawn(|_| {
                        started.fetch_add(1, Ordering::Relaxed);
                        Ok(())
                    })?;
                    if spawned.is_multiple_of(1_000) {
                        cx.yield_now()?;
                        assert_eq!(started.load(Ordering::Relaxed), spawned);
                    }
                }
                cx.yield_now()?;
                assert_eq!(started.load(Ordering::Relaxed), count);
                Ok(())
            })?;
        }
        Ok(())
    });
}

/// The first child that starts spawns so many tasks that its siblings are pushed out of the deque,
/// into the global queue.
#[test]
fn siblings_that_are_pushed_out_of_the_deque_start_first_too() {
    const CHILDREN: usize = 50;
    on_one_worker(SEEDS, |cx, _| {
        let started = AtomicUsize::new(0);
        cx.nursery(|n| {
            for _ in 0..CHILDREN {
                n.spawn(|_| {
                    if started.fetch_add(1, Ordering::Relaxed) == 0 {
                        for _ in 0..3_000 {
                            n.spawn(|_| Ok(()))?;
                        }
                    }
                    Ok(())
                })?;
            }
            cx.yield_now()?;
            assert_eq!(started.load(Ordering::Relaxed), CHILDREN);
            Ok(())
        })
    });
}

/// Children that spawn, yield and wait themselves, beside others that only yield.
fn grow(cx: &Cx, numbers: &mut Numbers, depth: u32) -> Result<()> {
    let started = &AtomicUsize::new(0);
    cx.nursery(|n| {
        let (mut spawned, mut last) = (0, None);
        for _ in 0..numbers.below(8) {
            match numbers.below(if depth == 0 { 2 } else { 8 }) {
                0 | 1 => {
                    cx.yield_now()?;
                    assert_eq!(started.load(Ordering::Relaxed), spawned, "a child came later");
                }
                2 => {
                    if let Some(child) = last.take() {
                        TaskHandle::join(child)?;
                    }
                }
                _ => {
                    let mut numbers = Numbers(numbers.below(1 << 30));
                    spawned += 1;
                    last = Some(n.spawn(move |cx| {
                        started.fetch_add(1, Ordering::Relaxed);
                        grow(cx, &mut numbers, depth - 1)
                    })?);
                }
            }
        }
        Ok(())
    })
}

#[test]
fn children_of_children_change_nothing() {
    on_one_worker(300, |cx, number| {
        let yielding = AtomicUsize::new(0);
        cx.nursery(|n| {
            for _ in 0..number % 3 {
                n.spawn(|cx| {
                    while yielding.load(Ordering::Relaxed) == 0 {
                        cx.yield_now()?;
                    }
                    Ok(())
                })?;
            }
            grow(cx, &mut Numbers(number), 5)?;
            yielding.store(1, Ordering::Relaxed);
            Ok(())
        })
    });
}

#[test]
fn priorities_have_the_same_order() {
    for priority in [Priority::Low, Priority::High] {
        on_one_worker(SEEDS, |cx, number| {
            let opts = || SpawnOpts::new().priority(priority);
            let turns = AtomicUsize::new(0);
            cx.nursery(|n| {
                for _ in 0..number % 3 {
                    n.spawn_with(opts(), |cx| {
                        while turns.load(Ordering::Relaxed) == 0 {
                            cx.yield_now()?;
                        }
                        Ok(())
                    })?;
                }
                n.spawn_with(opts(), |cx| {
                    for _ in 0..70 {
                        let started = AtomicUsize::new(0);
                        cx.nursery(|n| {
                            for _ in 0..3 {
                                n.spawn_with(opts(), |_| {
                                    started.fetch_add(1, Ordering::Relaxed);
                                    Ok(())
                                })?;
                            }
                            cx.yield_now()?;
                            assert_eq!(started.load(Ordering::Relaxed), 3);
                            Ok(())
                        })?;
                    }
                    turns.store(1, Ordering::Relaxed);
                    Ok(())
                })?;
                Ok(())
            })
        });
    }
}

/// A chain of tasks, each of which spawns the next and yields: the tasks that yield beside it have
/// their turn meanwhile.
#[test]
fn spawning_and_yielding_starves_no_started_task() {
    const LINKS: usize = 300;
    fn link<'s>(n: &'s Nursery<'s, '_>, left: usize, done: &'s AtomicUsize) -> Result<()> {
        n.spawn(move |cx| {
            if left == 0 {
                done.store(1, Ordering::Relaxed);
                return Ok(());
            }
            link(n, left - 1, done)?;
            cx.yield_now()
        })?;
        Ok(())
    }
    on_one_worker(SEEDS, |cx, _| {
        let (done, turns) = (AtomicUsize::new(0), AtomicUsize::new(0));
        cx.nursery(|n| {
            n.spawn(|cx| {
                while done.load(Ordering::Relaxed) == 0 {
                    turns.fetch_add(1, Ordering::Relaxed);
                    cx.yield_now()?;
                }
                Ok(())
            })?;
            cx.yield_now()?;
            link(n, LINKS, &done)
        })?;
        let turns = turns.into_inner();
        assert!(turns >= LINKS / 4, "{turns} turns beside {LINKS} tasks");
        Ok(())
    });
}

/// A recursion beside a task that only yields: nodes are still entered depth first, so few of them
/// wait at the same time.
#[test]
fn a_task_that_only_yields_leaves_a_recursion_depth_first() {
    struct Tree {
        waiting: AtomicUsize,
        most: AtomicUsize,
        done: AtomicUsize,
    }
    fn node(cx: &Cx, tree: &Tree, depth: u32) -> Result<()> {
        if depth == 0 {
            return Ok(());
        }
        let waiting = tree.waiting.fetch_add(1, Ordering::Relaxed) + 1;
        tree.most.fetch_max(waiting, Ordering::Relaxed);
        cx.nursery(|n| {
            for _ in 0..4 {
                n.spawn(move |cx| node(cx, tree, depth - 1))?;
            }
            Ok(())
        })?;
        tree.waiting.fetch_sub(1, Ordering::Relaxed);
        Ok(())
    }
    on_one_worker(10, |cx, _| {
        let zero = || AtomicUsize::new(0);
        let tree = Tree { waiting: zero(), most: zero(), done: zero() };
        cx.nursery(|n| {
            n.spawn(|cx| {
                while tree.done.load(Ordering::Relaxed) == 0 {
                    cx.yield_now()?;
                }
                Ok(())
            })?;
            cx.yield_now()?;
            node(cx, &tree, 6)?;
            tree.done.store(1, Ordering::Relaxed);
            Ok(())
        })?;
        // 1365 nodes have children. The picks that begin with the oldest task enter a few early.
        let most = tree.most.into_inner();
        assert!(most < 200, "{most} nodes were waiting at the same time");
        Ok(())
    });
}
