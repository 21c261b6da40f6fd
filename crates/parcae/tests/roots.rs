//! Root tasks with options, tokens of nurseries, what is known to be spent.

mod both;

use both::{asleep, everywhere, forever, kind_of, ops, with_runtimes, work};
use parcae::CancelReason;
use parcae::prelude::*;
use std::time::Duration;

#[test]
fn a_root_task_with_a_budget_gets_it_from_the_runtime_and_gives_the_rest_back() {
    for seed in 0..both::SEEDS {
        let rt = Runtime::builder().budget(Budget::SERVICE).deterministic(seed).build().unwrap();
        let own = Budget::ZERO.with_ops(3_000).with_memory(1 << 10);
        let opts = SpawnOpts::new().name("import").budget(own);
        let held = rt.run_with(opts.clone(), |cx| {
            assert_eq!((cx.budget(), cx.info().name()), (own, Some("import")));
            work(cx, 100)?;
            Ok(())
        });
        held.unwrap();
        let standing = rt.budget();
        assert_eq!((standing.held, standing.spent.ops), (Budget::ZERO, 101)); // one for its spawn
        // More than there is, and nothing is lost by asking.
        let much = SpawnOpts::new().budget(Budget::SERVICE.with_ops(100_000));
        let error = kind_of(rt.run_with(much, |_| Ok(())));
        assert!(matches!(error, ErrorKind::BudgetExceeded(_)), "{error:?}");
        assert_eq!(rt.budget(), standing);
        // It binds, though the runtime has more.
        assert!(matches!(kind_of(rt.run_with(opts, forever)), ErrorKind::BudgetExceeded(_)));
        let standing = rt.budget();
        assert_eq!((standing.held, standing.spent.ops), (Budget::ZERO, 101 + 3_001));
        assert_eq!(standing.left.memory, Budget::SERVICE.memory);
    }
}

#[test]
fn handles_start_root_tasks_with_options() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    let opts = SpawnOpts::new().name("beat").priority(Priority::High).budget(ops(1 << 20));
    let task = rt.handle().spawn_with(opts.clone(), |cx| {
        work(cx, 5_000)?;
        Ok(cx.info().to_string())
    });
    assert!(task.unwrap().join().unwrap().starts_with("task `beat`, spawned at "));
    let small = opts.stack_size(parcae::stack::StackSize::CORE);
    let left = rt.handle().run_with(small, |cx| Ok(cx.stack_left())).unwrap();
    assert!(left <= 64 << 10, "{left}");
}

#[test]
fn a_nursery_is_cancelled_by_the_tokens_that_it_was_given() {
    everywhere(|cx| {
        let (mine, other) = (CancelToken::new(), CancelToken::new());
        let opts = || NurseryOpts::new().token(&other).token(&mine);
        let outcome = cx.nursery_with(opts(), |n| {
            n.spawn(asleep)?;
            n.spawn(forever)?;
            mine.cancel_because(CancelReason::Timeout);
            cx.park()
        });
        assert!(matches!(kind_of(outcome), ErrorKind::Cancelled(CancelReason::Timeout)));
        // One that is cancelled already.
        let outcome = cx.nursery_with(opts(), |n| n.spawn(forever)?.join());
        assert!(outcome.unwrap_err().is_cancelled());
        // The task itself goes on; and after its end a nursery is nobody's.
        cx.checkpoint()?;
        cx.nursery_with(NurseryOpts::new().token(&other), |n| n.spawn(|_| Ok(()))?.join())?;
        other.cancel();
        cx.checkpoint()
    });
}

#[test]
fn a_token_from_another_thread_ends_a_nursery_at_any_time() {
    for _ in 0..200 {
        let rt = Runtime::builder().workers(2).build().unwrap();
        let token = CancelToken::new();
        let remote = {
            let token = token.clone();
            std::thread::spawn(move || token.cancel())
        };
        let outcome = rt.run(|cx| {
            cx.nursery_with(NurseryOpts::new().token(&token), |n| {
                n.spawn(asleep)?;
                n.spawn(forever)?;
                Ok(())
            })
        });
        assert!(outcome.unwrap_err().is_cancelled());
        remote.join().unwrap();
    }
}

#[test]
fn a_running_task_shows_what_it_has_spent_whenever_it_takes_more() {
    everywhere(|cx| {
        let grant = Budget::ZERO.with_ops(1_000);
        let opts = NurseryOpts::new().budget(ops(100_000)).slice(grant);
        cx.nursery_with(opts, |n| {
            let task = n.spawn(|cx| {
                work(cx, 4_500)?;
                cx.park()
            })?;
            while n.budget().spent.ops < 4_000 {
                cx.yield_now()?;
            }
            let standing = n.budget();
            assert!(standing.held.ops <= 1_000, "{standing:?}");
            let sum = standing.left.ops + standing.held.ops + standing.spent.ops;
            assert_eq!(sum, standing.granted.ops);
            task.cancel();
            n.wind_down();
            Ok(())
        })
    });
}

#[test]
fn the_seed_of_a_runtime_can_be_asked_for() {
    let rt = Runtime::builder().deterministic(77).build().unwrap();
    assert_eq!(rt.seed(), 77);
    assert_eq!(Runtime::builder().seed(5).build().unwrap().seed(), 5);
}

#[test]
fn after_its_token_a_runtime_runs_nothing_any_more() {
    with_runtimes(|rt| {
        let outcome = rt.run(|cx| {
            rt.token().cancel();
            cx.checkpoint()
        });
        assert!(outcome.unwrap_err().is_cancelled());
        assert!(rt.run(|_| Ok(())).unwrap_err().is_cancelled());
        let refused = kind_of(rt.handle().spawn(|_| Ok(())));
        assert!(matches!(refused, ErrorKind::ShuttingDown));
    });
}

#[test]
fn what_is_paid_ahead_is_there_for_others_when_the_owner_waits() {
    everywhere(|cx| {
        // A budget for many children, of which the one that is spawned may use all.
        let little = Budget::ZERO.with_ops(100);
        let opts = NurseryOpts::new().budget(ops(50_000)).slice(little);
        let mut spent = 0;
        let (tx, rx) = parcae::channel::channel(1);
        let outcome = cx.nursery_with(opts, |n| {
            let child = n.spawn(move |cx| {
                rx.recv()?; // until the owner has waited: while it runs it keeps what it has paid
                forever(cx)
            })?;
            cx.sleep(Duration::from_millis(50))?;
            tx.send(())?;
            let outcome = child.join();
            spent = n.budget().spent.ops;
            outcome
        });
        assert!(matches!(kind_of(outcome), ErrorKind::BudgetExceeded(_)));
        assert_eq!(spent, 50_000);
        Ok(())
    });
}

#[test]
fn who_holds_a_capability_recharges_itself_up_to_its_limit() {
    for seed in 0..both::SEEDS {
        let rt = Runtime::builder().budget(Budget::SERVICE).deterministic(seed).build().unwrap();
        let total = Budget::ZERO.with_ops(5_000);
        let cap = rt.cap_budget(BudgetLimits::total(total), Delegation::Forbidden);
        let mut rounds = 0;
        let outcome = rt.run(|cx| {
            let tenant =
                NurseryOpts::new().budget(Budget::SERVICE.with_ops(1_001).with_spawn_count(9));
            cx.nursery_with(tenant, |n| {
                let (cap, rounds) = (&cap, &mut rounds);
                let child = n.spawn(move |cx| {
                    loop {
                        while cx.checkpoint().is_ok() {
                            *rounds += 1;
                        }
                        cx.account().recharge(cap, Budget::ZERO.with_ops(2_000))?;
                    }
                });
                let outcome: parcae::Result<()> = child?.join();
                outcome
            })
        });
        let error = kind_of(outcome);
        assert!(matches!(error, ErrorKind::Capability(CapError::BudgetLimitExceeded { .. })));
        assert_eq!(rounds, 1_000 + 5_000); // and one op for the spawn
    }
}

/// Whoever builds a runtime mints what it likes there, and that is worth nothing elsewhere.
#[test]
fn a_capability_of_another_runtime_recharges_nobody() {
    let [ours, theirs] = [1, 2].map(|seed| {
        Runtime::builder().budget(Budget::SERVICE).deterministic(seed).build().unwrap()
    });
    let amount = Budget::ZERO.with_ops(5_000);
    let mint = |rt: &Runtime| rt.cap_budget(BudgetLimits::total(amount), Delegation::Forbidden);
    let (right, wrong) = (mint(&ours), mint(&theirs));
    let outcome = ours.run(|cx| {
        cx.nursery_with(NurseryOpts::new().budget(ops(1_000)), |n| {
            let before = n.budget();
            let error = kind_of(n.account().recharge(&wrong, amount));
            assert!(matches!(error, ErrorKind::Capability(CapError::Foreign { .. })), "{error:?}");
            assert_eq!((n.budget(), wrong.left()), (before, amount)); // nothing has moved
            n.account().recharge(&right, amount)
        })
    });
    assert_eq!(outcome.unwrap(), amount);
}

#[test]
fn cancelling_a_task_cancels_the_nurseries_that_it_owns() {
    everywhere(|cx| {
        cx.nursery(|n| {
            let owner = n.spawn(|cx| {
                cx.nursery(|outer| {
                    outer.spawn(asleep)?;
                    outer.spawn(forever)?;
                    cx.nursery(|inner| {
                        inner.spawn(asleep)?;
                        inner.spawn(forever)?;
                        Ok(()) // waits for them
                    })
                })
            })?;
            let sibling = n.spawn(|cx| (0..50).try_for_each(|_| cx.yield_now()))?;
            cx.yield_now()?;
            owner.cancel();
            assert!(owner.join().unwrap_err().is_cancelled());
            sibling.join() // nobody asked it to end
        })
    });
}
