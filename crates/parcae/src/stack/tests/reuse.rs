//! Reuse of stacks, and their order.

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
    let (a, b) = (pool.acquire(StackSize::MIN).unwrap(), cache.acquire(StackSize::CORE).unwrap());
    drop(pool);
    touch(&a);
    cache.release(b);
    drop(cache);
    touch(&a);
    assert!(plan.mapped.load(Ordering::Relaxed) > 0, "still mapped: a stack is out");
    drop(a);
    assert_eq!(plan.mapped.load(Ordering::Relaxed), 0, "the last one unmaps everything");
}
