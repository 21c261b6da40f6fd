//! `allocator`: the overhead of [`parcae::Allocator`] for an allocation and its release, on a task.
//!
//! Both sides call an allocator directly, on a task of parcae; the peer is the system's, which the
//! wrapper calls too. In `counted` the task has a memory budget, in `unlimited` it has none.

use super::{nanos_per, runtimes};
use crate::case::{Better, Failure, Peer, Rounds, Scale, Side, Variant, Workload};
use parcae::prelude::*;
use parcae::profile::Service;
use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::time::Instant;

pub(super) static ALLOCATOR: Workload = Workload {
    name: "allocator",
    rounds: Rounds { full: 11, quick: 3 },
    variants: &[
        variant("unlimited_64", "64 bytes, on a task without a budget", &sides::<64, false>()),
        variant("counted_64", "64 bytes, on a task with a budget", &sides::<64, true>()),
        variant("unlimited_4k", "4 KiB, on a task without a budget", &sides::<4096, false>()),
        variant("counted_4k", "4 KiB, on a task with a budget", &sides::<4096, true>()),
    ],
};

const fn variant(name: &'static str, about: &'static str, sides: &'static [Side]) -> Variant {
    Variant { name, about, unit: "ns/pair", better: Better::Lower, sides }
}

static WRAPPED: parcae::Allocator = parcae::Allocator::system();

const fn sides<const SIZE: usize, const COUNTED: bool>() -> [Side; 2] {
    [
        Side::new(Peer::Parcae, |scale| pairs::<SIZE, COUNTED>(scale, &WRAPPED)),
        Side::new(Peer::Std, |scale| pairs::<SIZE, COUNTED>(scale, &System)),
    ]
}

#[inline(always)]
fn pairs<const SIZE: usize, const COUNTED: bool>(
    scale: &Scale,
    allocator: &(impl GlobalAlloc + Sync),
) -> Result<f64, Failure> {
    let count = scale.of(5_000_000);
    let layout = Layout::from_size_align(SIZE, 16)?;
    let memory = if COUNTED { 1 << 30 } else { Budget::UNLIMITED.memory };
    let opts = NurseryOpts::new().budget(Budget { memory, ..Budget::UNLIMITED });
    let rt = runtimes::runtime::<Service>(1)?;
    let time = rt.run(|cx| {
        cx.nursery_with(opts, |n| {
            n.spawn(|_| {
                let start = Instant::now();
                for _ in 0..count {
                    // SAFETY: the layout is not empty, and the freed memory was allocated with it.
                    unsafe {
                        let place = black_box(allocator.alloc(layout));
                        if place.is_null() {
                            return Err(parcae::Error::msg("no memory"));
                        }
                        allocator.dealloc(place, layout);
                    }
                }
                Ok(nanos_per(start, count))
            })?
            .join()
        })
    });
    Ok(time?)
}
