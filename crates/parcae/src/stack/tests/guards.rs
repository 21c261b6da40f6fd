//! Guards below stacks.

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
    let pool = StackPool::on(StackOpts::new(), sys, |guards| guards.limit_mprotect(limit)).unwrap();
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
    let more: Vec<Stack> = (0..3_000).map(|_| second.acquire(StackSize::MIN).unwrap()).collect();
    drop((held, more));
}

#[test]
fn that_are_only_preferred_may_be_missing() {
    let _alone = alone();
    let plan = Arc::new(Plan::default());
    plan.no_page_table_guards.store(true, Ordering::Relaxed);
    let opts = StackOpts::new().guard(GuardPolicy::Preferred);
    let sys = Box::new(Faulty(Arc::clone(&plan)));
    let pool = StackPool::on(opts, sys, |guards: &mut Guards| guards.limit_mprotect(0)).unwrap();
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
