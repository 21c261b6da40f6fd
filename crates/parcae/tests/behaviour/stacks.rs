//! Stacks of tasks: their sizes, too few of them, and recursion with destructors.

use crate::support::*;
use parcae::prelude::*;
use parcae::profile::{Cluster, Core, Profile, Service, Sovereign};
use parcae::stack::StackSize;
use parcae::{Error, Result};
use std::hint::black_box;

/// The stack of the running task, about.
fn stack<P: Profile>(cx: &Cx<P>) -> usize {
    (cx.stack_left() + (48 << 10)).next_power_of_two() / 2
}

// rule: S1-MODULE-1, S2-NSIZE-1, S2-NSIZE-2, S2-OPTS-1, S2-OPTS-2, S2-OPTS-3, S2-OPTS-4, S2-STACK-1
// rule: S2-STACK-2, S2-STACK-3
#[test]
fn stacks_are_as_large_as_profile_nursery_or_spawn_say() {
    fn of<P: Profile>() -> usize {
        let rt = Runtime::builder().workers(1).profile::<P>().build().unwrap();
        rt.run(|cx| Ok(stack(cx))).unwrap()
    }
    assert_eq!(
        (of::<Core>(), of::<Service>(), of::<Cluster>(), of::<Sovereign>()),
        (64 << 10, 256 << 10, 256 << 10, 512 << 10)
    );
    everywhere(|cx| {
        cx.nursery(|n| {
            assert_eq!(n.spawn(|cx| Ok(stack(cx)))?.join()?, 256 << 10);
            let large = SpawnOpts::new().stack_size(StackSize::new(512 << 10)?);
            assert_eq!(n.spawn_with(large, |cx| Ok(stack(cx)))?.join()?, 512 << 10);
            Ok(())
        })?;
        let small = NurseryOpts::new().stack_size(StackSize::new(64 << 10)?);
        cx.nursery_with(small, |n| {
            assert_eq!(n.spawn(|cx| Ok(stack(cx)))?.join()?, 64 << 10);
            assert_eq!(n.spawn_with(SpawnOpts::new(), |cx| Ok(stack(cx)))?.join()?, 64 << 10);
            let large = SpawnOpts::new().stack_size(StackSize::new(1 << 20)?);
            assert_eq!(n.spawn_with(large, |cx| Ok(stack(cx)))?.join()?, 1 << 20);
            Ok(())
        })
    });
}

#[budgeted]
fn clean_up() {
    for _ in 0..3 {
        black_box(0);
    }
}

/// Cleans up with budgeted code.
struct Cleans;

impl Drop for Cleans {
    fn drop(&mut self) {
        clean_up();
    }
}

#[budgeted]
#[allow(unconditional_recursion)]
fn dive(depth: u64) -> u64 {
    let _cleans = Cleans;
    let frame = [depth; 64];
    dive(depth + 1) + black_box(frame)[3]
}

#[test]
fn endless_recursion_whose_frames_clean_up_fails_the_task_only() {
    let e = runtime(1).run(|_| Ok(dive(0))).unwrap_err();
    assert!(matches!(e.kind(), ErrorKind::StackOverflow { .. }), "{e}");
}

/// Yields, parks in some cases until a child wakes it, and returns its number.
fn numbered(cx: &Cx, number: usize) -> Result<usize> {
    for _ in 0..number % 4 {
        cx.yield_now()?;
    }
    if number.is_multiple_of(3) {
        let waker = cx.waker();
        cx.nursery(|n| {
            n.spawn(move |_| {
                waker.wake();
                Ok(())
            })?;
            cx.park()
        })?;
    }
    Ok(number)
}

fn no_stack(e: &Error) -> bool {
    matches!(e.kind(), ErrorKind::NoStack(_))
}

/// Many children at once on stacks of all sizes. None is refused if there are stacks for all.
fn many(cx: &Cx, round: usize, enough: bool) -> Result<()> {
    let sizes = [64, 128, 256, 512, 1024].map(|kib| StackSize::new(kib * 1024).unwrap());
    cx.nursery_with(NurseryOpts::new().on_failure(OnFailure::Collect), |n| {
        let mut children = Vec::new();
        for i in 0..60 {
            let opts = SpawnOpts::new().stack_size(sizes[(i * 7 + round) % sizes.len()]);
            children.push(n.spawn_with(opts, move |cx| numbered(cx, i))?);
        }
        let mut refused = 0;
        for (i, child) in children.into_iter().enumerate() {
            match child.join() {
                Ok(number) => assert_eq!(number, i),
                Err(e) if no_stack(&e) => refused += 1,
                Err(e) => panic!("{e:?}"),
            }
        }
        assert!(refused == 0 || !enough, "{refused} refused");
        Ok(())
    })
}

#[test]
fn with_few_stacks_of_odd_sizes_every_task_ends_or_is_refused() {
    must_end(|| {
        for max in [usize::MAX, 40, 12, 6] {
            for seed in 0..6_u64 {
                let builder = Runtime::builder().workers(2).max_stacks(max);
                let builder = if seed > 0 { builder.deterministic(seed) } else { builder };
                let outcome = builder.build().unwrap().run(|cx| {
                    for round in 0..4 {
                        many(cx, round, max == usize::MAX)?;
                    }
                    Ok(())
                });
                if let Err(e) = outcome {
                    assert!(no_stack(&e) || matches!(e.kind(), ErrorKind::Several(_)), "{e:?}");
                }
            }
        }
    });
}

#[test]
fn a_child_refused_for_want_of_a_stack_is_counted_for_its_own_nursery() {
    must_end(|| {
        for max in 3..6 {
            let rt = Runtime::builder().workers(1).max_stacks(max).build().unwrap();
            let odd = SpawnOpts::new().stack_size(StackSize::new(1 << 20).unwrap());
            let _ = rt.run(|cx| {
                cx.nursery(|outer| {
                    let child = outer.spawn_with(odd.clone(), |_| Ok(()))?;
                    cx.shield(|| {
                        cx.nursery(|inner| {
                            inner.spawn(|_| Ok(()))?;
                            Ok(())
                        })
                    })?;
                    cx.shield(|| child.join())
                })
            });
            let stats = rt.stats();
            assert_eq!(stats.counters().restarts, 0, "max {max}: {stats:?}");
        }
    });
}
