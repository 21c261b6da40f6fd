//! Memory of stacks: what is given back, and when.

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
    let stacks: Vec<Stack> = (0..64).map(|_| pool.acquire(StackSize::SERVICE).unwrap()).collect();
    let sets: HashSet<usize> =
        stacks.iter().map(|stack| stack.usable_top().addr() % 4096).collect();
    assert!(sets.len() >= 8, "{sets:?}");
    for stack in &stacks {
        let used = stack.top().addr() - stack.usable_top().addr();
        assert!(used < 1024 && stack.usable_top().addr().is_multiple_of(64));
    }
}
