//! A hard limit of memory: a task gets no more than a multiple of its budget, not even between two
//! checkpoints.

use parcae::prelude::*;

#[global_allocator]
static ALLOCATOR: parcae::Allocator = parcae::Allocator::system().hard(2);

const MIB: usize = 1 << 20;

#[test]
fn a_task_gets_no_more_than_twice_its_budget() {
    let rt = Runtime::builder().workers(1).build().unwrap();
    let budget = Budget { memory: MIB as u64, ..Budget::UNLIMITED };
    let tenant = NurseryOpts::new().budget(budget).slice(budget);
    let (refused, held) = rt
        .nursery(tenant, |n| {
            n.spawn(|_| {
                let mut hoard = Vec::new();
                let refused = loop {
                    let mut block = Vec::<u8>::new();
                    if block.try_reserve_exact(MIB / 8).is_err() {
                        break hoard.len();
                    }
                    hoard.push(block);
                    assert!(hoard.len() < 100, "nothing is refused");
                };
                drop(hoard);
                // Below the limit there is memory again.
                Ok((refused, Vec::<u8>::new().try_reserve_exact(MIB / 2).is_ok()))
            })?
            .join()
        })
        .unwrap();
    assert!((8..=16).contains(&refused), "refused after {refused} eighths");
    assert!(held);
    // No other code is bounded.
    assert!(Vec::<u8>::new().try_reserve_exact(100 * MIB).is_ok());
}
