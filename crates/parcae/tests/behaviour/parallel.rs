//! Parallel loops: the same results as a plain loop, failures and cancellation, budgets.

use crate::support::*;
use parcae::prelude::*;
use parcae::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

/// Lengths around the limits of pieces and batches.
const LENGTHS: [usize; 9] = [0, 1, 2, 7, 63, 64, 65, 1_000, 3_001];

#[test]
fn loops_give_the_results_of_plain_loops() {
    everywhere_seeded(|cx, seed| {
        let length = LENGTHS[(seed % 9) as usize];
        let numbers: Vec<u64> = (0..length as u64).map(|n| n.wrapping_mul(seed + 3) % 97).collect();
        for size in [1, 3, 64, 5_000] {
            let sums = cx.par_chunks(&numbers, size, |_, chunk| Ok(chunk.iter().sum::<u64>()))?;
            assert_eq!(
                sums,
                numbers.chunks(size).map(|chunk| chunk.iter().sum()).collect::<Vec<u64>>()
            );
            let mut doubled = numbers.clone();
            let lengths = cx.par_chunks_mut(&mut doubled, size, |cx, chunk| {
                cx.yield_now()?;
                chunk.iter_mut().for_each(|number| *number *= 2);
                Ok(chunk.len())
            })?;
            assert_eq!(lengths.iter().sum::<usize>(), length);
            assert!(doubled.iter().zip(&numbers).all(|(double, number)| *double == 2 * number));
        }
        let texts = cx.par_map(&numbers, |number| Ok(number.to_string()))?;
        assert!(texts.iter().zip(&numbers).all(|(text, number)| *text == number.to_string()));
        assert_eq!(texts.len(), length);
        assert_eq!(cx.par_map(&numbers, |_| Ok(()))?.len(), length, "results without a size");
        Ok(())
    });
}

/// A stable sort: elements with equal keys stay in order. Random, sorted, reversed and equal ones.
#[test]
fn sorting_is_stable() {
    everywhere_seeded(|cx, seed| {
        let length = [0, 1, 100, 2_049, 5_000, 20_000][(seed % 6) as usize];
        let key = |n: u64| match seed / 6 % 4 {
            0 => n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 57,
            1 => n,
            2 => length - n,
            _ => 0,
        };
        let unsorted: Vec<(u64, u64)> = (0..length).map(|n| (key(n), n)).collect();
        let (mut sorted, mut plain) = (unsorted.clone(), unsorted.clone());
        cx.par_sort_by_key(&mut sorted, |&(key, _)| key)?;
        plain.sort_by_key(|&(key, _)| key);
        assert_eq!(sorted, plain);
        let mut down = unsorted;
        cx.par_sort_by(&mut down, |a, b| b.cmp(a))?;
        assert!(down.is_sorted_by(|a, b| a >= b));
        Ok(())
    });
}

#[test]
fn joins_nest_and_borrow() {
    fn sum(cx: &Cx, numbers: &mut [u64]) -> Result<u64> {
        if let [only] = numbers {
            *only += 1;
            return Ok(*only);
        }
        let (left, right) = numbers.split_at_mut(numbers.len() / 2);
        let (left, right) = cx.join(|cx| sum(cx, left), |cx| sum(cx, right))?;
        Ok(left + right)
    }
    everywhere(|cx| {
        let mut numbers: Vec<u64> = (0..100).collect();
        assert_eq!(sum(cx, &mut numbers)?, 5_050);
        assert_eq!(numbers[99], 100);
        Ok(())
    });
}

/// The failure of a piece is the result; pieces that were not begun are left out; what was computed
/// is dropped once.
#[test]
fn a_failure_ends_the_loop_and_drops_the_rest() {
    everywhere_seeded(|cx, seed| {
        let (counted, called) = (Arc::new(()), AtomicUsize::new(0));
        let items: Vec<usize> = (0..2_000).collect();
        let bad = (seed as usize * 131) % 2_000;
        let failed = cx.par_map(&items, |&item| {
            called.fetch_add(1, SeqCst);
            if item == bad { Err(Error::msg("bad item")) } else { Ok(Arc::clone(&counted)) }
        });
        assert!(failed.unwrap_err().to_string().starts_with("bad item"));
        assert_eq!(Arc::strong_count(&counted), 1);
        let panicked = cx.nursery(|n| {
            let (items, counted) = (&items, &counted);
            n.spawn(move |cx| {
                cx.par_chunks(items, 10, |_, chunk| {
                    if chunk.contains(&bad) {
                        std::panic::resume_unwind(Box::new("bad chunk"));
                    }
                    Ok(Arc::clone(counted))
                })
            })?
            .join()
        });
        assert!(panicked.unwrap_err().is_panic());
        assert_eq!(Arc::strong_count(&counted), 1);
        let (one, other) = (cx.join(|_| Err::<(), _>(Error::msg("one")), asleep), "one");
        assert!(one.unwrap_err().to_string().starts_with(other));
        let two = cx.join(forever, |_| Err::<(), _>(Error::msg("two")));
        assert!(two.unwrap_err().to_string().starts_with("two"));
        Ok(())
    });
}

/// Cancelled after each number of turns until it ends by itself: the error is the cancellation, all
/// elements are still there, and no helper remains.
#[test]
fn a_loop_is_cancelled_at_any_point() {
    deterministic_seeded(60, |cx, seed| {
        for turns in 0.. {
            let mut numbers: Vec<u64> = (0..3_000).rev().collect();
            let finished = cx.nursery(|n| {
                let numbers = &mut numbers;
                let child = n.spawn(move |cx| {
                    cx.par_chunks_mut(numbers, 100, |cx, chunk| {
                        chunk.reverse();
                        pause(cx, seed % 3)
                    })?;
                    cx.par_sort(numbers)
                })?;
                pause(cx, turns)?;
                let finished = child.is_finished();
                child.cancel();
                match child.join() {
                    Ok(()) => {}
                    Err(error) => assert!(error.is_cancelled() && !finished, "{error}"),
                }
                Ok(finished)
            })?;
            numbers.sort_unstable();
            assert!(numbers.iter().copied().eq(0..3_000));
            if finished {
                break;
            }
            assert!(turns < 2_000, "it never ended by itself");
        }
        Ok(())
    });
}

/// A task that may not spawn computes alone; one without ops ends; each piece is charged.
#[test]
fn budgets_are_respected() {
    deterministic(|cx| {
        let numbers: Vec<u64> = (0..1_000).collect();
        let sum = |cx: &Cx| {
            let sums = cx.par_chunks(&numbers, 10, |_, chunk| Ok(chunk.iter().sum::<u64>()))?;
            Ok(sums.into_iter().sum::<u64>())
        };
        let sum = &sum;
        let alone = SpawnOpts::new().budget(Budget::UNLIMITED.with_spawn_count(0));
        cx.nursery(|n| {
            assert_eq!(n.spawn_with(alone, sum)?.join()?, 499_500);
            Ok(())
        })?;
        let opts = NurseryOpts::new().budget(ops(60)).on_exhausted(OnExhausted::Fail);
        let outcome = cx.nursery_with(opts, |n| n.spawn(sum)?.join());
        assert!(matches!(kind_of(outcome), ErrorKind::BudgetExceeded(_)));
        Ok(())
    });
}
