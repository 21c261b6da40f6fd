//! Pools of stacks: sizes, reuse, limits, and every system call failing in turn.

mod faults;
mod faulty;
mod guards;
mod limits;
mod memory;
mod reuse;
mod sizes;

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
