//! `din_phil-5`, `-6`, `-7`: philosophers who take the fork on their left first.
//!
//! Order that shows it: each has the left fork before any has the right one. Kind: lock order.
//! Tasks: 5, 6, 7.

use parcae::sync::Mutex;
use parcae::{Result, Runtime};

fn dine(forks: &[Mutex<u32>], first: usize, second: usize) -> Result<()> {
    let mut one = forks[first].lock()?;
    let mut other = forks[second].lock()?;
    *one += 1;
    *other += 1;
    Ok(())
}

/// The forks of a philosopher, the first to be taken first.
type Order = fn(seat: usize, seats: usize) -> (usize, usize);

fn left_first(seat: usize, seats: usize) -> (usize, usize) {
    (seat, (seat + 1) % seats)
}

fn lower_first(seat: usize, seats: usize) -> (usize, usize) {
    let (left, right) = left_first(seat, seats);
    (left.min(right), left.max(right))
}

fn run(rt: &Runtime, seats: usize, order: Order) -> Result<()> {
    rt.run(|cx| {
        let forks: Vec<Mutex<u32>> = (0..seats).map(|_| Mutex::new(0)).collect();
        let forks = &forks[..];
        cx.nursery(|n| {
            for seat in 0..seats {
                let (first, second) = order(seat, seats);
                n.spawn(move |_| dine(forks, first, second))?;
            }
            Ok(())
        })?;
        for fork in forks {
            assert_eq!(*fork.lock()?, 2);
        }
        Ok(())
    })
}

/// With the bug.
pub fn buggy<const SEATS: usize>(rt: &Runtime) -> Result<()> {
    run(rt, SEATS, left_first)
}

/// Each takes the fork with the lower number first.
pub fn fixed<const SEATS: usize>(rt: &Runtime) -> Result<()> {
    run(rt, SEATS, lower_first)
}
