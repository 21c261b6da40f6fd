//! Sizes of stacks.

use super::*;

// rule: S4-STACK-5
#[test]
fn are_rounded_up_to_powers_of_two() {
    for (bytes, class) in [(1, 8 << 10), (8 << 10, 8 << 10), (8193, 16 << 10), (65_537, 128 << 10)]
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
