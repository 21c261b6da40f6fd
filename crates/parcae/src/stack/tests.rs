//! Pools of stacks: sizes, reuse, limits, and every system call failing in turn.

mod faulty;

use super::guard::Guards;
use super::sys::page_size;
use super::*;
use faulty::{Faulty, Plan};
use proptest::prelude::*;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

fn faulty(opts: StackOpts, plan: &Arc<Plan>) -> Result<StackPool, StackError> {
    StackPool::on(opts, Box::new(Faulty(Arc::clone(plan))), |_| {})
}

/// Writes to the top page, as a fiber would.
fn touch(stack: &Stack) {
    // SAFETY: inside a stack that the test holds.
    unsafe { stack.top().sub(64).write_volatile(1) };
}

/// Mappings and mprotect guards are counted per process: tests that count them take turns.
fn alone() -> std::sync::MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn page_table_guards_work() -> bool {
    StackPool::new().unwrap().guard() == GuardKind::PageTable
}

mod sizes {
    use super::*;

    // rule: S4-STACK-5
    #[test]
    fn are_rounded_up_to_powers_of_two() {
        for (bytes, class) in
            [(1, 8 << 10), (8 << 10, 8 << 10), (8193, 16 << 10), (65_537, 128 << 10)]
        {
            assert_eq!(StackSize::new(bytes).unwrap().bytes(), class, "{bytes}");
        }
        assert_eq!(StackSize::new(64 << 20).unwrap(), StackSize::MAX);
        assert_eq!(StackSize::new(0), Err(StackError::Size { requested: 0 }));
        assert!(StackSize::new((64 << 20) + 1).is_err());
        assert!(StackSize::new(usize::MAX).is_err());
        assert_eq!(StackSize::all().count(), 14);
    }

    // rule: S0-STK-1, S2-STACK-4, S2-STACK-5, S2-STACK-6, S2-STACK-7, S2-STACK-11, S2-STACK-12
    // rule: S2-STACK-13, S2-STACK-14, S2-STACK-15
    #[test]
    fn of_the_profiles_are_as_documented() {
        assert_eq!(StackSize::CORE.bytes(), 64 << 10);
        assert_eq!(StackSize::SERVICE.bytes(), 256 << 10);
        assert_eq!(StackSize::SERVICE.bytes() * 32, 8 << 20, "a thread's usual stack");
        assert_eq!(StackSize::CLUSTER.bytes(), 256 << 10);
        assert_eq!(StackSize::SOVEREIGN.bytes(), 512 << 10);
        assert_eq!(StackSize::MIN.bytes(), 8 << 10);
        assert_eq!(StackSize::default(), StackSize::SERVICE);
    }

    // rule: S4-STACK-5
    #[test]
    fn of_every_class_can_be_acquired_and_written_whole() {
        let pool = StackPool::new().unwrap();
        for size in StackSize::all() {
            let stack = pool.acquire(size).unwrap();
            assert_eq!(stack.size(), size);
            assert_eq!(stack.top().addr() - stack.bottom().addr(), size.bytes());
            assert_eq!(stack.bottom().addr() % page_size(), 0);
            for offset in (0..size.bytes()).step_by(page_size()) {
                // SAFETY: inside the stack.
                unsafe { stack.bottom().add(offset).write_volatile(0xee) };
            }
        }
        assert_eq!(pool.trim(), 14);
    }
}

mod reuse {
    use super::*;

    #[test]
    fn is_last_in_first_out() {
        let pool = StackPool::new().unwrap();
        let mut cache = pool.cache();
        let stacks: Vec<Stack> = (0..3).map(|_| cache.acquire(StackSize::CORE).unwrap()).collect();
        let bottoms: Vec<_> = stacks.iter().map(Stack::bottom).collect();
        stacks.into_iter().for_each(|stack| cache.release(stack));
        let again: Vec<Stack> = (0..3).map(|_| cache.acquire(StackSize::CORE).unwrap()).collect();
        assert!(again.iter().map(Stack::bottom).eq(bottoms.into_iter().rev()));
    }

    #[test]
    fn makes_no_system_call_when_warm() {
        let plan = Arc::new(Plan::default());
        let pool = faulty(StackOpts::new(), &plan).unwrap();
        let mut cache = pool.cache();
        let first = cache.acquire(StackSize::SERVICE).unwrap();
        cache.release(first);
        let before = plan.calls.load(Ordering::Relaxed);
        for _ in 0..1000 {
            let stack = cache.acquire(StackSize::SERVICE).unwrap();
            cache.release(stack);
            drop(pool.acquire(StackSize::SERVICE).unwrap());
        }
        // One for the guard of the second stack, which the pool itself hands out.
        assert_eq!(plan.calls.load(Ordering::Relaxed), before + 1);
    }

    // rule: S0-SEC-3
    #[test]
    fn never_gives_one_stack_to_two() {
        let pool = StackPool::new().unwrap();
        let mut cache = pool.cache();
        let mut live: Vec<Stack> = Vec::new();
        let mut seen = HashSet::new();
        for round in 0..500 {
            let stack = if round % 2 == 0 {
                cache.acquire(StackSize::MIN).unwrap()
            } else {
                pool.acquire(StackSize::MIN).unwrap()
            };
            assert!(seen.insert(stack.bottom()), "round {round}");
            live.push(stack);
            if round % 3 == 0 {
                let stack = live.swap_remove(round % live.len());
                assert!(seen.remove(&stack.bottom()));
                cache.release(stack);
            }
        }
    }

    #[test]
    fn passes_stacks_between_caches_through_the_pool() {
        let pool = StackPool::new().unwrap();
        let (mut giver, mut taker) = (pool.cache(), pool.cache());
        // More than a cache keeps: half of them go to the shared pool.
        let stacks: Vec<Stack> = (0..65).map(|_| giver.acquire(StackSize::MIN).unwrap()).collect();
        stacks.into_iter().for_each(|stack| giver.release(stack));
        let stats = pool.stats();
        assert_eq!((stats.cached, stats.warm, stats.in_use), (32, 33, 0));
        let taken = taker.acquire(StackSize::MIN).unwrap();
        assert_eq!(pool.stats().created, 65, "nothing new was made");
        assert_eq!(pool.stats().in_use, 1);
        taker.release(taken);
        drop((giver, taker));
        let stats = pool.stats();
        assert_eq!((stats.cached, stats.warm, stats.in_use), (0, 65, 0));
    }

    #[test]
    fn a_stack_of_another_pool_goes_home() {
        let (ours, theirs) = (StackPool::new().unwrap(), StackPool::new().unwrap());
        let mut cache = ours.cache();
        cache.release(theirs.acquire(StackSize::MIN).unwrap());
        assert_eq!(ours.stats().cached, 0);
        assert_eq!(theirs.stats().warm, 1);
    }

    #[test]
    fn stacks_and_caches_may_outlive_the_pool_handle() {
        let plan = Arc::new(Plan::default());
        let pool = faulty(StackOpts::new(), &plan).unwrap();
        let mut cache = pool.cache();
        let (a, b) =
            (pool.acquire(StackSize::MIN).unwrap(), cache.acquire(StackSize::CORE).unwrap());
        drop(pool);
        touch(&a);
        cache.release(b);
        drop(cache);
        touch(&a);
        assert!(plan.mapped.load(Ordering::Relaxed) > 0, "still mapped: a stack is out");
        drop(a);
        assert_eq!(plan.mapped.load(Ordering::Relaxed), 0, "the last one unmaps everything");
    }
}

mod memory {
    use super::*;

    #[test]
    fn of_idle_stacks_above_the_watermark_is_given_back() {
        let pool = StackPool::with(StackOpts::new().keep_warm(4)).unwrap();
        let stacks: Vec<Stack> = (0..20).map(|_| pool.acquire(StackSize::CORE).unwrap()).collect();
        stacks.iter().for_each(touch);
        assert_eq!(pool.resident().unwrap(), 20 * page_size());
        drop(stacks);
        let stats = pool.stats();
        assert_eq!((stats.warm, stats.cold, stats.trims), (4, 16, 16));
        assert_eq!(pool.resident().unwrap(), 4 * page_size());
        assert_eq!(pool.trim(), 4);
        assert_eq!(pool.resident().unwrap(), 0);
        // Cold stacks are used again before new ones are made.
        let again: Vec<Stack> = (0..20).map(|_| pool.acquire(StackSize::CORE).unwrap()).collect();
        assert_eq!(pool.stats().created, 20);
        drop(again);
    }

    #[test]
    fn of_surplus_stacks_is_kept_for_the_trimmer() {
        let pool = StackPool::with(StackOpts::new().keep_warm(4)).unwrap();
        let trimmer = pool.trimmer();
        let take = |count| (0..count).map(|_| pool.acquire(StackSize::CORE).unwrap());
        let stacks: Vec<Stack> = take(1000).collect();
        stacks.iter().for_each(touch);
        drop(stacks);
        assert_eq!((pool.stats().warm, pool.stats().trims), (1000, 0), "no system call");
        assert_eq!(trimmer.tick(Pace::AtRest), 996, "they may be needed again");
        drop(take(500).collect::<Vec<_>>());
        // 496 were needed since: of the other 500 a quarter goes, or as many as fit in a call.
        assert_eq!(trimmer.tick(Pace::AtRest), 996 - 125);
        assert_eq!(trimmer.tick(Pace::AtWork), 996 - 125 - 64);
        let stats = pool.stats();
        assert_eq!((stats.warm, stats.cold, stats.trims), (811, 189, 189));
        assert_eq!(pool.resident().unwrap(), 811 * page_size());
        drop(trimmer);
        let stats = pool.stats();
        assert_eq!((stats.warm, stats.cold), (4, 996), "no surplus without a trimmer");
        assert_eq!(pool.resident().unwrap(), 4 * page_size());
        drop(take(8).collect::<Vec<_>>());
        assert_eq!(pool.stats().warm, 4);
    }

    /// Threads use stacks while a trimmer gives memory back: what is on a stack in use stays.
    #[test]
    fn of_stacks_in_use_is_not_given_back() {
        let pool = StackPool::with(StackOpts::new().keep_warm(0)).unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let trims = scope.spawn(|| {
                let trimmer = pool.trimmer();
                while !stop.load(Ordering::Relaxed) {
                    trimmer.tick(Pace::AtRest);
                }
            });
            let users = [1_u64, 2].map(|mark| {
                let pool = &pool;
                scope.spawn(move || {
                    for _ in 0..200 {
                        let take = |_| pool.acquire(StackSize::MIN).unwrap();
                        let stacks: Vec<Stack> = (0..40).map(take).collect();
                        // SAFETY: inside stacks that the test holds.
                        let word = |stack: &Stack| unsafe { stack.bottom().add(64).cast::<u64>() };
                        for stack in &stacks {
                            // SAFETY: as above.
                            unsafe { word(stack).write_volatile(mark) };
                        }
                        for stack in &stacks {
                            // SAFETY: as above.
                            assert_eq!(unsafe { word(stack).read_volatile() }, mark);
                        }
                    }
                })
            });
            users.into_iter().for_each(|user| user.join().unwrap());
            stop.store(true, Ordering::Relaxed);
            trims.join().unwrap();
        });
        let stats = pool.stats();
        assert_eq!((stats.warm, stats.in_use, stats.cold), (0, 0, stats.created));
    }

    /// Adjacent idle stacks, and idle stacks with a held one between them: a held stack keeps its
    /// contents, a trimmed one is empty, and all keep their guards.
    #[test]
    fn of_neighbours_is_given_back_together() {
        const STACKS: usize = 150;
        let pool = StackPool::with(StackOpts::new().keep_warm(0)).unwrap();
        let mut cache = pool.cache();
        let stacks: Vec<_> = (0..STACKS).map(|_| cache.acquire(StackSize::CORE).unwrap()).collect();
        let word = |stack: &Stack| {
            // SAFETY: inside a stack that the test holds.
            unsafe { stack.bottom().add(64).cast::<u64>() }
        };
        for stack in &stacks {
            // SAFETY: as above.
            unsafe { word(stack).write_volatile(7) };
        }
        let (mut held, mut back) = (Vec::new(), Vec::new());
        for (i, stack) in stacks.into_iter().enumerate() {
            if i % 50 == 20 || i % 50 == 21 { held.push(stack) } else { back.push(stack) }
        }
        back.into_iter().for_each(|stack| cache.release(stack));
        drop(cache);
        let stats = pool.stats();
        assert_eq!((stats.trims, stats.cold, stats.warm), (144, 144, 0));
        // SAFETY: as above.
        assert!(held.iter().all(|stack| unsafe { word(stack).read_volatile() } == 7));
        let again: Vec<_> = (0..144).map(|_| pool.acquire(StackSize::CORE).unwrap()).collect();
        // SAFETY: as above.
        assert!(again.iter().all(|stack| unsafe { word(stack).read_volatile() } == 0));
        // Valgrind reports a read that the kernel refuses as an error.
        if pool.guard() != GuardKind::Off && !cfg!(parcae_valgrind) {
            assert!(again.iter().chain(&held).all(|stack| faults(stack.bottom().wrapping_sub(8))));
        }
    }

    /// Whether an address is unreadable, found out without a fault.
    fn faults(place: *const u8) -> bool {
        let (_reader, writer) = std::io::pipe().unwrap();
        // SAFETY: the kernel reads, or refuses.
        unsafe { libc::write(std::os::fd::AsRawFd::as_raw_fd(&writer), place.cast(), 8) < 0 }
    }

    #[test]
    fn that_cannot_be_given_back_is_kept() {
        let plan = Arc::new(Plan::default());
        let pool = faulty(StackOpts::new().keep_warm(0), &plan).unwrap();
        let stack = pool.acquire(StackSize::CORE).unwrap();
        plan.no_discard.store(true, Ordering::Relaxed);
        drop(stack);
        let stats = pool.stats();
        assert_eq!((stats.warm, stats.cold, stats.trims), (1, 0, 0));
    }

    #[test]
    fn is_cleared_between_trust_domains_if_asked() {
        let secret = |stack: &Stack| {
            // SAFETY: inside a stack that the test holds.
            unsafe { stack.bottom().add(5000).cast::<[u8; 16]>() }
        };
        for discard_works in [true, false] {
            let plan = Arc::new(Plan::default());
            let opts = StackOpts::new().zeroing(Zeroing::BetweenDomains);
            let pool = faulty(opts, &plan).unwrap();
            plan.no_discard.store(!discard_works, Ordering::Relaxed);
            let mut cache = pool.cache();
            let (alice, bob) = (pool.trust_domain(), pool.trust_domain());
            assert_ne!(alice, bob);

            let stack = cache.acquire_for(StackSize::CORE, alice).unwrap();
            // SAFETY: see above.
            unsafe { secret(&stack).write_volatile(*b"alice's password") };
            cache.release(stack);
            let stack = cache.acquire_for(StackSize::CORE, alice).unwrap();
            // SAFETY: see above.
            unsafe { assert_eq!(secret(&stack).read_volatile(), *b"alice's password") };
            assert_eq!(pool.stats().wipes, 0, "the same domain: nothing to hide");
            cache.release(stack);
            let stack = cache.acquire_for(StackSize::CORE, bob).unwrap();
            // SAFETY: see above.
            unsafe { assert_eq!(secret(&stack).read_volatile(), [0; 16]) };
            assert_eq!(pool.stats().wipes, 1);
        }
    }

    #[test]
    fn is_not_cleared_otherwise() {
        let pool = StackPool::new().unwrap();
        let stack = pool.acquire(StackSize::CORE).unwrap();
        touch(&stack);
        drop(stack);
        let stack = pool.acquire_for(StackSize::CORE, pool.trust_domain()).unwrap();
        // SAFETY: inside the stack.
        unsafe { assert_eq!(stack.top().sub(64).read_volatile(), 1) };
        assert_eq!(pool.stats().wipes, 0);
    }

    #[test]
    fn high_water_is_the_deepest_page() {
        let pool = StackPool::new().unwrap();
        let stack = pool.acquire(StackSize::SERVICE).unwrap();
        assert_eq!(stack.high_water().unwrap(), 0);
        touch(&stack);
        assert_eq!(stack.high_water().unwrap(), page_size());
        // SAFETY: inside the stack.
        unsafe { stack.top().sub(100_000).write_volatile(1) };
        assert_eq!(stack.high_water().unwrap(), 100_000_usize.next_multiple_of(page_size()));
        drop(stack);
        pool.trim();
        assert_eq!(pool.acquire(StackSize::SERVICE).unwrap().high_water().unwrap(), 0);
    }

    // rule: S4-STACK-1, S4-STACK-2
    #[test]
    fn is_reserved_not_used() {
        let pool = StackPool::new().unwrap();
        let stacks: Vec<Stack> = (0..100).map(|_| pool.acquire(StackSize::MAX).unwrap()).collect();
        assert!(pool.stats().reserved >= 100 * StackSize::MAX.bytes());
        assert_eq!(pool.resident().unwrap(), 0);
        drop(stacks);
    }

    #[test]
    fn hot_ends_of_neighbours_are_spread_over_cache_sets() {
        let pool = StackPool::new().unwrap();
        let stacks: Vec<Stack> =
            (0..64).map(|_| pool.acquire(StackSize::SERVICE).unwrap()).collect();
        let sets: HashSet<usize> =
            stacks.iter().map(|stack| stack.usable_top().addr() % 4096).collect();
        assert!(sets.len() >= 8, "{sets:?}");
        for stack in &stacks {
            let used = stack.top().addr() - stack.usable_top().addr();
            assert!(used < 1024 && stack.usable_top().addr().is_multiple_of(64));
        }
    }
}

mod guards {
    use super::*;

    // rule: S4-STACK-3
    #[test]
    fn of_the_page_table_kind_are_not_mappings() {
        let _alone = alone();
        if !page_table_guards_work() {
            return; // an old kernel; the mprotect tests below are the ones that count
        }
        let pool = StackPool::new().unwrap();
        let first = pool.acquire(StackSize::CORE).unwrap();
        let before = error::map_count();
        let stacks: Vec<Stack> = (0..900).map(|_| pool.acquire(StackSize::CORE).unwrap()).collect();
        // Other tests of this process may map something meanwhile.
        assert!(error::map_count() < before + 300, "{before} → {}", error::map_count());
        assert!(stacks.iter().chain([&first]).all(|s| s.guard() == GuardKind::PageTable));
    }

    // rule: S4-STACK-3
    #[test]
    fn fall_back_to_mprotect_on_old_kernels() {
        let _alone = alone();
        let plan = Arc::new(Plan::default());
        plan.no_page_table_guards.store(true, Ordering::Relaxed);
        let pool = faulty(StackOpts::new(), &plan).unwrap();
        assert_eq!(pool.guard(), GuardKind::Mprotect);
        let stack = pool.acquire(StackSize::CORE).unwrap();
        assert_eq!(stack.guard(), GuardKind::Mprotect);
        touch(&stack);
    }

    #[test]
    fn by_mprotect_are_admitted_up_to_the_map_limit() {
        let _alone = alone();
        let plan = Arc::new(Plan::default());
        plan.no_page_table_guards.store(true, Ordering::Relaxed);
        let sys = Box::new(Faulty(Arc::clone(&plan)));
        // Generous, since other tests of this process count on the same limit.
        let limit = 600;
        let pool =
            StackPool::on(StackOpts::new(), sys, |guards| guards.limit_mprotect(limit)).unwrap();
        let mut stacks = Vec::new();
        let error = loop {
            match pool.acquire(StackSize::MIN) {
                Ok(stack) => stacks.push(stack),
                Err(error) => break error,
            }
        };
        assert!(stacks.len() <= 600 && stacks.len() >= 300, "{}", stacks.len());
        let text = error.to_string();
        assert!(text.contains("vm.max_map_count") && text.contains("sysctl -w"), "{text}");
        // Acquired stacks still work, and released stacks can be acquired again.
        stacks.iter().for_each(touch);
        stacks.pop();
        assert!(pool.acquire(StackSize::MIN).is_ok());
    }

    #[test]
    fn of_one_pool_are_not_counted_twice_for_the_next() {
        let _alone = alone();
        let plan = Arc::new(Plan::default());
        plan.no_page_table_guards.store(true, Ordering::Relaxed);
        // More than half of what the default limit admits would block the next pool if
        // they were counted both as mappings and as guards; a fifth must not matter.
        let first = faulty(StackOpts::new(), &plan).unwrap();
        let held: Vec<Stack> = (0..3_000).map(|_| first.acquire(StackSize::MIN).unwrap()).collect();
        let second = faulty(StackOpts::new(), &plan).unwrap();
        let more: Vec<Stack> =
            (0..3_000).map(|_| second.acquire(StackSize::MIN).unwrap()).collect();
        drop((held, more));
    }

    #[test]
    fn that_are_only_preferred_may_be_missing() {
        let _alone = alone();
        let plan = Arc::new(Plan::default());
        plan.no_page_table_guards.store(true, Ordering::Relaxed);
        let opts = StackOpts::new().guard(GuardPolicy::Preferred);
        let sys = Box::new(Faulty(Arc::clone(&plan)));
        let pool =
            StackPool::on(opts, sys, |guards: &mut Guards| guards.limit_mprotect(0)).unwrap();
        let stack = pool.acquire(StackSize::MIN).unwrap();
        assert_eq!(stack.guard(), GuardKind::Off);
        assert_eq!(pool.stats().unguarded, 1);
    }

    #[test]
    fn can_be_off() {
        let plan = Arc::new(Plan::default());
        let pool = faulty(StackOpts::new().guard(GuardPolicy::Off), &plan).unwrap();
        assert_eq!(pool.guard(), GuardKind::Off);
        let stack = pool.acquire(StackSize::MIN).unwrap();
        touch(&stack);
        assert_eq!(stack.guard(), GuardKind::Off);
        let log = plan.log.lock().unwrap();
        assert!(!log.iter().any(|call| call.ends_with("guard")), "{log:?}");
    }

    #[test]
    fn may_be_large_but_not_absurd() {
        let pool = StackPool::with(StackOpts::new().guard_size(64 << 10)).unwrap();
        touch(&pool.acquire(StackSize::MIN).unwrap());
        let error = StackPool::with(StackOpts::new().guard_size(usize::MAX)).unwrap_err();
        assert!(error.to_string().contains("64 KiB is enough"), "{error}");
    }
}

mod limits {
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
        assert!(
            (0..3).map(|_| pool.acquire(StackSize::CORE)).collect::<Result<Vec<_>, _>>().is_ok()
        );
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
}

mod faults {
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
}

/// A reference model of a pool's observable state.
#[derive(Debug, Clone)]
enum Op {
    Acquire { cache: usize, size: usize, domain: bool },
    Release { cache: usize, pick: usize },
    Drop { pick: usize },
    NewCache { cache: usize },
    Trim,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        6 => (0..3_usize, 0..4_usize, any::<bool>())
            .prop_map(|(cache, size, domain)| Op::Acquire { cache, size, domain }),
        4 => (0..3_usize, any::<usize>()).prop_map(|(cache, pick)| Op::Release { cache, pick }),
        2 => any::<usize>().prop_map(|pick| Op::Drop { pick }),
        1 => (0..3_usize).prop_map(|cache| Op::NewCache { cache }),
        1 => Just(Op::Trim),
    ];
    prop::collection::vec(op, 1..400)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() })]

    /// Any sequence of operations: no stack is handed out twice, the counters add up,
    /// contents belong to the holder, and everything is unmapped in the end.
    #[test]
    fn pools_keep_their_books(ops in ops()) {
        let plan = Arc::new(Plan::default());
        let opts = StackOpts::new().keep_warm(3).zeroing(Zeroing::BetweenDomains);
        let pool = faulty(opts, &plan).unwrap();
        let other = pool.trust_domain();
        let mut caches = [pool.cache(), pool.cache(), pool.cache()];
        let mut held: Vec<(Stack, u8)> = Vec::new();
        let mut mark = 0_u8;
        for op in ops {
            match op {
                Op::Acquire { cache, size, domain } => {
                    let size = StackSize::new(8192 << size).unwrap();
                    let domain = if domain { other } else { TrustDomain::DEFAULT };
                    let stack = caches[cache].acquire_for(size, domain).unwrap();
                    prop_assert!(held.iter().all(|(s, _)| s.bottom() != stack.bottom()));
                    mark = mark.wrapping_add(1);
                    // SAFETY: both ends of a stack that the test holds.
                    unsafe {
                        stack.bottom().write_volatile(mark);
                        stack.top().sub(1).write_volatile(mark);
                    }
                    held.push((stack, mark));
                }
                Op::Release { cache, pick } if !held.is_empty() => {
                    let (stack, mark) = held.swap_remove(pick % held.len());
                    // SAFETY: as above.
                    unsafe {
                        prop_assert_eq!(stack.bottom().read_volatile(), mark);
                        prop_assert_eq!(stack.top().sub(1).read_volatile(), mark);
                    }
                    caches[cache].release(stack);
                }
                Op::Drop { pick } if !held.is_empty() => {
                    drop(held.swap_remove(pick % held.len()));
                }
                Op::NewCache { cache } => caches[cache] = pool.cache(),
                Op::Trim => { pool.trim(); }
                Op::Release { .. } | Op::Drop { .. } => {}
            }
            let stats = pool.stats();
            prop_assert_eq!(stats.in_use, held.len());
            prop_assert_eq!(stats.created, stats.in_use + stats.cached + stats.warm + stats.cold);
        }
        drop((held, caches, pool));
        prop_assert_eq!(plan.mapped.load(Ordering::Relaxed), 0);
    }
}
