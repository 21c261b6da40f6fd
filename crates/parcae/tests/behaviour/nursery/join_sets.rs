//! Sets of children: results in the order in which the children end, each of them once.

use crate::support::*;
use parcae::channel::channel;
use parcae::nursery::JoinSet;
use parcae::prelude::*;
use parcae::{Error, Result};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(3_600);

#[test]
fn results_come_in_the_order_of_the_ends() {
    deterministic_seeded(300, |cx, seed| {
        let order = cx.nursery(|n| {
            let children = (0..20).map(|i| {
                let seconds = 1 + (i * 7 + seed) % 20;
                n.spawn(move |cx| cx.sleep(Duration::from_secs(seconds)).map(|()| seconds))
            });
            let set = children.collect::<Result<JoinSet<_>>>()?;
            assert_eq!(set.len(), 20);
            set.into_iter().collect::<Result<Vec<_>>>()
        })?;
        assert_eq!(order, (1..=20).collect::<Vec<_>>());
        Ok(())
    });
}

/// Every child is found once, whether it has ended before it is inserted, before the wait, or
/// during it, and whether its handle had waiters before or not.
#[test]
fn every_child_is_found_once() {
    everywhere_seeded(|cx, seed| {
        let mut found = cx.nursery(|n| {
            let (mut set, mut found) = (JoinSet::new(), Vec::new());
            for i in 0..30 {
                let child = n.spawn(move |cx| pause(cx, (seed + i) % 5).map(|()| i))?;
                pause(cx, (seed / 5 + i) % 3)?;
                let child = match i % 3 {
                    0 => child.join_timeout(Duration::ZERO), // has an end of its own after that
                    _ => Err(child),
                };
                match child {
                    Ok(result) => found.push(result?),
                    Err(child) => set.insert(child),
                }
                if i % 4 == 0
                    && let Some(result) = set.try_join_next()
                {
                    found.push(result?);
                }
            }
            while let Some(result) = set.join_next()? {
                found.push(result?);
            }
            assert!(set.is_empty() && set.join_next()?.is_none());
            Ok(found)
        })?;
        found.sort_unstable();
        assert_eq!(found, (0..30).collect::<Vec<_>>());
        Ok(())
    });
}

/// The waiter is cancelled after each number of turns: the results that it has not taken are in the
/// set, for the task that takes over.
#[test]
fn a_waiter_cancelled_at_any_point_loses_no_result() {
    deterministic_seeded(100, |cx, seed| {
        for turns in 0.. {
            let (mut taken, finished) = cx.nursery(|n| {
                let mut set = JoinSet::new();
                for i in 0..6 {
                    set.insert(n.spawn(move |cx| pause(cx, (seed + i * 2) % 9).map(|()| i))?);
                }
                let taken = parcae::channel::unbounded();
                let results = taken.0.clone();
                let waiter = n.spawn(move |_| {
                    let outcome = loop {
                        match set.join_next() {
                            Ok(Some(result)) => results.send(result?)?,
                            Ok(None) => break Ok(()),
                            Err(error) => break Err(error),
                        }
                    };
                    Ok((set, outcome))
                })?;
                pause(cx, turns)?;
                let finished = waiter.is_finished();
                waiter.cancel();
                let (mut set, outcome) = match waiter.join() {
                    Ok(left) => left,
                    Err(error) if error.is_cancelled() => return Ok((vec![], false)), // not started
                    Err(error) => return Err(error),
                };
                assert!(outcome.is_ok() || outcome.is_err_and(|error| error.is_cancelled()));
                let mut all = Vec::new();
                while let Some(result) = set.join_next()? {
                    all.push(result?);
                }
                while let Ok(early) = taken.1.try_recv() {
                    all.push(early);
                }
                Ok((all, finished))
            })?;
            taken.sort_unstable();
            assert!(taken.is_empty() || taken == [0, 1, 2, 3, 4, 5], "{taken:?}");
            if finished {
                break;
            }
            assert!(turns < 200, "it never ended by itself");
        }
        Ok(())
    });
}

/// A child fails: the nursery is cancelled, and the set reports the failure, not the cancellation.
#[test]
fn the_failure_of_a_child_comes_before_the_cancellation_that_it_causes() {
    everywhere(|cx| {
        let (mut seen, all_there) = (Vec::new(), parcae::sync::Event::new());
        let outcome = cx.nursery(|n| {
            let mut set = JoinSet::new();
            set.insert(n.spawn(asleep)?);
            set.insert(n.spawn(|_| all_there.wait().and(Err(Error::msg("broken"))))?);
            set.insert(n.spawn(asleep)?);
            all_there.set();
            while let Some(result) = set.join_next()? {
                seen.push(result.unwrap_err());
            }
            Ok(())
        });
        assert!(outcome.unwrap_err().to_string().starts_with("broken"));
        assert!(seen.iter().any(|error| error.to_string().starts_with("broken")), "{seen:?}");
        assert_eq!(seen.len(), 3, "all of them ended, and said how");
        Ok(())
    });
}

#[test]
fn isolated_children_fail_one_by_one() {
    everywhere(|cx| {
        let opts = NurseryOpts::new().on_failure(OnFailure::Isolate);
        let (good, bad) = cx.nursery_with(opts, |n| {
            let children = (0..10).map(|i| {
                n.spawn(move |_| if i % 3 == 0 { Err(Error::msg("odd one out")) } else { Ok(i) })
            });
            let mut set = children.collect::<Result<JoinSet<_>>>()?;
            let (mut good, mut bad) = (0, 0);
            while let Some(result) = set.join_next()? {
                *if result.is_ok() { &mut good } else { &mut bad } += 1;
            }
            Ok((good, bad))
        })?;
        assert_eq!((good, bad), (6, 4));
        Ok(())
    });
}

#[test]
fn a_select_takes_the_next_child_or_another_case() {
    everywhere_seeded(|cx, seed| {
        let (tx, rx) = channel(2);
        let (jobs, ends) = cx.nursery(|n| {
            let mut set = JoinSet::new();
            n.spawn(move |cx| {
                for i in 0..8 {
                    pause(cx, (seed + i) % 4)?;
                    tx.send(i)?;
                }
                Ok(())
            })?;
            let (mut jobs, mut ends) = (0, Vec::new());
            loop {
                // While the set is empty its case does not happen.
                let open = parcae::select! {
                    recv(rx) -> job => match job {
                        Ok(job) => {
                            jobs += 1;
                            set.insert(n.spawn(move |cx| pause(cx, job % 3).map(|()| job))?);
                            true
                        }
                        Err(_) => false,
                    },
                    join_next(set) -> result => {
                        ends.push(result?);
                        true
                    }
                }?;
                if !open {
                    break;
                }
            }
            for end in set {
                ends.push(end?);
            }
            ends.sort_unstable();
            Ok((jobs, ends))
        })?;
        assert_eq!((jobs, ends), (8, (0..8).collect()));
        Ok(())
    });
}

#[test]
fn a_list_of_cases_takes_a_set_and_leaves_it_whole_if_it_loses() {
    everywhere(|cx| {
        cx.nursery(|n| {
            let mut set = JoinSet::new();
            set.insert(n.spawn(|cx| pause(cx, 5).map(|()| 7))?);
            let (tx, rx) = channel(1);
            tx.send(1)?;
            let mut select = parcae::select::Select::new().biased();
            select.recv(&rx, |value| value.map_err(Error::from));
            select.join_next(&mut set, |result| result);
            let first = select.wait()??;
            assert_eq!((first, set.len()), (1, 1));
            let mut select = parcae::select::Select::new();
            select.join_next(&mut set, |result| result).timeout(LONG, |()| Ok(0));
            assert_eq!(select.wait()??, 7);
            assert!(set.is_empty());
            Ok(())
        })
    });
}

#[test]
fn timeouts_and_deadlines_leave_the_set_whole() {
    deterministic(|cx| {
        cx.nursery(|n| {
            let mut set = JoinSet::new();
            set.insert(n.spawn(|cx| cx.sleep(Duration::from_secs(60)).map(|()| 7))?);
            let late = set.join_next_timeout(Duration::from_secs(59)).unwrap_err();
            assert!(matches!(late.kind(), ErrorKind::TimedOut));
            let late = set.join_next_deadline(parcae::time::now()).unwrap_err();
            assert!(matches!(late.kind(), ErrorKind::TimedOut));
            assert_eq!(set.join_next_timeout(LONG)?.expect("one")?, 7);
            assert!(set.join_next_timeout(LONG)?.is_none());
            Ok(())
        })
    });
}

/// A wait charges its op: a task cannot poll a set for nothing.
#[test]
fn a_polling_waiter_runs_out_of_budget() {
    deterministic(|cx| {
        let opts = NurseryOpts::new().budget(ops(200)).on_exhausted(OnExhausted::Fail);
        let outcome = cx.nursery_with(opts, |n| {
            let mut set = JoinSet::new();
            set.insert(n.spawn(asleep)?);
            n.spawn(move |_| {
                loop {
                    match set.join_next_timeout(Duration::ZERO) {
                        Err(error) if matches!(error.kind(), ErrorKind::TimedOut) => {}
                        other => return other.map(drop),
                    }
                }
            })?
            .join()
        });
        assert!(matches!(kind_of(outcome), ErrorKind::BudgetExceeded(_)));
        Ok(())
    });
}

#[test]
fn a_set_is_waited_for_by_threads_and_by_children() {
    threads(|cx| {
        cx.nursery(|n| {
            let children = (0..50_u64).map(|i| n.spawn(move |cx| pause(cx, i % 4).map(|()| i)));
            let set = children.collect::<Result<JoinSet<_>>>()?;
            let sum = n.spawn(move |_| set.into_iter().sum::<Result<u64>>())?;
            assert_eq!(sum.join()?, 1_225);
            let children = (0..50_u64).map(|i| n.spawn(move |cx| pause(cx, i % 4).map(|()| i)));
            let set = children.collect::<Result<JoinSet<_>>>()?;
            let sum = parcae::blocking(|| {
                let blocked = |set: JoinSet<'_, u64>| set.into_iter().sum::<Result<u64>>();
                std::thread::scope(|s| s.spawn(|| blocked(set)).join().unwrap())
            })??;
            assert_eq!(sum, 1_225);
            Ok(())
        })
    });
}

#[test]
fn cancelling_a_set_spares_the_other_children() {
    everywhere(|cx| {
        cx.nursery(|n| {
            let other = n.spawn(|cx| pause(cx, 20).map(|()| "other"))?;
            let mut set = (0..5).map(|_| n.spawn(asleep)).collect::<Result<JoinSet<_>>>()?;
            set.cancel_all();
            while let Some(result) = set.join_next()? {
                let error = result.unwrap_err();
                assert!(error.is_cancelled());
                assert!(error.to_string().contains("join_sets.rs"), "names the place: {error}");
            }
            assert_eq!(other.join()?, "other");
            Ok(())
        })
    });
}

/// Places are reused: a set that a server uses for months does not grow.
#[test]
fn places_are_reused() {
    deterministic(|cx| {
        cx.nursery(|n| {
            let mut set = JoinSet::new();
            for i in 0..500_u64 {
                if set.len() == 4 {
                    set.join_next()?.expect("four")?;
                }
                set.insert(n.spawn(move |cx| pause(cx, i % 3))?);
                assert!(set.len() <= 4 && n.live() <= 5);
            }
            Ok(())
        })
    });
}
