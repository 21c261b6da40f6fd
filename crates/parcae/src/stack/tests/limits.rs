//! Limits of pools.

use super::*;

// rule: S4-LIFE-7
#[test]
fn of_the_pool_are_an_error_that_names_them() {
    let pool = StackPool::with(StackOpts::new().max_stacks(3)).unwrap();
    let stacks: Vec<Stack> = (0..3).map(|_| pool.acquire(StackSize::MIN).unwrap()).collect();
    let error = pool.acquire(StackSize::MIN).unwrap_err();
    assert_eq!(error, StackError::PoolLimit { max_stacks: 3 });
    assert!(error.to_string().contains("StackOpts::max_stacks"));
    drop(stacks);
    // Idle stacks of another size do not count.
    assert!((0..3).map(|_| pool.acquire(StackSize::CORE)).collect::<Result<Vec<_>, _>>().is_ok());
}

#[test]
fn are_not_blamed_while_idle_stacks_are_trimmed() {
    let plan = Arc::new(Plan::default());
    let pool = faulty(StackOpts::new(), &plan).unwrap();
    let stacks: Vec<Stack> = (0..9).map(|_| pool.acquire(StackSize::MAX).unwrap()).collect();
    drop(stacks);
    // From now on every call fails, except those that return memory.
    plan.no_reserve.store(true, Ordering::Relaxed);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                pool.trim();
            }
        });
        for _ in 0..200 {
            let stack = pool.acquire(StackSize::MAX);
            assert!(stack.is_ok(), "9 of 9 are idle: {stack:?}");
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn are_told_apart() {
    let other = |errno| Limit::diagnose(errno, 4096);
    assert_eq!(other(libc::EPERM), Limit::Other { errno: libc::EPERM });
    let huge = Limit::diagnose(libc::ENOMEM, usize::MAX);
    assert!(
        matches!(huge, Limit::AddressSpace { .. } | Limit::Other { .. }),
        "{huge:?}: no limit on address space means that none is blamed"
    );
    for (limit, hint) in [
        (Limit::AddressSpace { limit: 1 << 30, used: 1 << 29 }, "ulimit -v"),
        (Limit::MapCount { limit: 65_530, used: 65_529 }, "vm.max_map_count=262120"),
        (Limit::LockedMemory { limit: 1 << 20 }, "ulimit -l"),
        (Limit::Data { limit: 1 << 20 }, "ulimit -d"),
        (Limit::Overcommit, "vm.overcommit_memory=0"),
        (Limit::MemoryLocked, "mlockall"),
        (Limit::Other { errno: libc::EPERM }, "not permitted"),
    ] {
        let error = StackError::Reserve { bytes: 1 << 20, limit };
        assert!(error.to_string().contains(hint), "{error}");
    }
    let error = StackError::SignalStack { errno: libc::ENOMEM };
    assert!(error.to_string().contains("OnOverflow::Fault"), "{error}");
    assert!(StackError::Heap { bytes: 9 }.to_string().contains("out of memory"));
}

#[test]
fn smaller_arenas_are_tried_before_giving_up() {
    let plan = Arc::new(Plan::default());
    let pool = faulty(StackOpts::new(), &plan).unwrap();
    plan.fail_next();
    let stack = pool.acquire(StackSize::CORE).expect("half the arena is enough");
    touch(&stack);
    let log = plan.log.lock().unwrap();
    assert_eq!(log.iter().filter(|&&call| call == "reserve").count(), 3, "{log:?}");
}
