//! Stacks: of odd sizes, too few of them, and run over.

use crate::help::{in_time, runtime};
use parcae::prelude::*;
use parcae::stack::StackSize;
use parcae::{Error, Result};
use std::hint::black_box;

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
    in_time(|| {
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
    in_time(|| {
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
            assert!(stats.iter().all(|worker| worker.restarts == 0), "max {max}: {stats:?}");
        }
    });
}
