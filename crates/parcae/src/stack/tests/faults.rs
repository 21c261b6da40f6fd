//! System calls that fail, each in turn.

use super::*;

/// Growth, reuse, release, trim and the end of a pool; returns how many stacks were
/// acquired. Errors are allowed, panics and leaks are not.
fn scenario(pool: &StackPool) -> usize {
    let mut cache = pool.cache();
    let mut held = Vec::new();
    let mut got = 0;
    for round in 0..3 {
        for size in [StackSize::MIN, StackSize::CORE, StackSize::MAX] {
            match cache.acquire_for(size, pool.trust_domain()) {
                Ok(stack) => {
                    touch(&stack);
                    got += 1;
                    held.push(stack);
                }
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        }
        if round == 1 {
            held.drain(..).for_each(|stack| cache.release(stack));
        }
    }
    let _ = pool.resident();
    held.clear();
    pool.trim();
    got
}

fn run_all(prepare: impl Fn(&Plan), opts: &StackOpts) {
    let plan = Arc::new(Plan::default());
    prepare(&plan);
    let pool = faulty(opts.clone(), &plan).unwrap();
    let complete = scenario(&pool);
    drop(pool);
    let calls = plan.calls.load(Ordering::Relaxed);
    assert!(calls > 10, "{calls}");
    assert_eq!(plan.mapped.load(Ordering::Relaxed), 0);

    for from_then_on in [false, true] {
        for k in 1..=calls {
            let plan = Arc::new(Plan::default());
            prepare(&plan);
            plan.fail_at.store(k, Ordering::Relaxed);
            plan.from_then_on.store(from_then_on, Ordering::Relaxed);
            let Ok(pool) = faulty(opts.clone(), &plan) else {
                assert_eq!(plan.mapped.load(Ordering::Relaxed), 0, "call {k}");
                continue;
            };
            let got = scenario(&pool);
            assert!(got <= complete, "call {k}");
            // Whichever call failed, nothing is lost, and the pool works again as soon as the
            // system calls do.
            let stats = pool.stats();
            assert_eq!((stats.in_use, stats.cached), (0, 0), "call {k}: {stats:?}");
            plan.fail_at.store(0, Ordering::Relaxed);
            assert_eq!(scenario(&pool), complete, "call {k}");
            drop(pool);
            let failed = plan.log.lock().unwrap()[k - 1];
            let leaked = plan.mapped.load(Ordering::Relaxed);
            if failed != "unreserve" && !from_then_on {
                assert_eq!(leaked, 0, "call {k}, {failed}");
            }
        }
    }
}

#[test]
fn at_every_system_call_are_survived() {
    run_all(|_| {}, &StackOpts::new().keep_warm(1).zeroing(Zeroing::BetweenDomains));
}

#[test]
fn at_every_system_call_are_survived_with_mprotect() {
    let _alone = alone();
    let old = |plan: &Plan| plan.no_page_table_guards.store(true, Ordering::Relaxed);
    run_all(old, &StackOpts::new().keep_warm(0));
}

#[test]
fn of_a_guard_leave_the_stack_for_the_next_try() {
    let plan = Arc::new(Plan::default());
    let pool = faulty(StackOpts::new().max_stacks(2), &plan).unwrap();
    let first = pool.acquire(StackSize::CORE).unwrap(); // the arena exists
    plan.fail_next();
    let error = pool.acquire(StackSize::CORE).unwrap_err();
    assert!(matches!(error, StackError::Guard { .. }), "{error:?}");
    assert_eq!(pool.stats().in_use, 1);
    touch(&pool.acquire(StackSize::CORE).expect("within the limit of 2"));
    drop(first);
}
