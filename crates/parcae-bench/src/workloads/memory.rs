//! `memory`: the memory of a live stack whose first page was touched.
//!
//! Three separate costs: memory of the process, page tables in the kernel (which the resident set
//! does not include), and mappings, of which a process may have 65530 by default.
//!
//! Each figure is the growth from before the first stack to after the last, over their
//! number; the handles are part of it. Freed heap that was still resident from an earlier
//! round can hide up to the size of the handles, some 50 bytes per stack. The figures do
//! not vary otherwise, so few rounds do, and `--quick` does not shrink the counts.

use super::stack::{Mapped, Pooled, Source, touch};
use crate::case::{Better, Failure, Peer, Rounds, Scale, Side, Variant, Workload};
use crate::machine;

pub(super) static MEMORY: Workload = Workload {
    name: "memory",
    rounds: Rounds { full: 3, quick: 1 },
    variants: &[
        Variant {
            name: "rss_per_stack_1k",
            about: "resident memory of 1000 stacks, one byte at the top of each written",
            unit: "B/stack",
            better: Better::Lower,
            sides: &[
                Side::new(Peer::Parcae, resident::<Pooled, 1000>),
                Side::new(Peer::Corosensei, resident::<Mapped, 1000>),
            ],
        },
        Variant {
            name: "rss_per_stack_20k",
            about: "resident memory of 20000 such stacks",
            unit: "B/stack",
            better: Better::Lower,
            sides: &[
                Side::new(Peer::Parcae, resident::<Pooled, 20_000>),
                Side::new(Peer::Corosensei, resident::<Mapped, 20_000>),
            ],
        },
        Variant {
            name: "page_tables_per_stack_1k",
            about: "kernel memory for the page tables of 1000 such stacks",
            unit: "B/stack",
            better: Better::Lower,
            sides: &[
                Side::new(Peer::Parcae, page_tables::<Pooled, 1000>),
                Side::new(Peer::Corosensei, page_tables::<Mapped, 1000>),
            ],
        },
        Variant {
            name: "page_tables_per_stack_20k",
            about: "kernel memory for the page tables of 20000 such stacks",
            unit: "B/stack",
            better: Better::Lower,
            sides: &[
                Side::new(Peer::Parcae, page_tables::<Pooled, 20_000>),
                Side::new(Peer::Corosensei, page_tables::<Mapped, 20_000>),
            ],
        },
        Variant {
            name: "maps_per_stack_1k",
            about: "lines in /proc/self/maps for 1000 such stacks; the default limit is 65530",
            unit: "maps/stack",
            better: Better::Lower,
            sides: &[
                Side::new(Peer::Parcae, maps::<Pooled, 1000>),
                Side::new(Peer::Corosensei, maps::<Mapped, 1000>),
            ],
        },
        Variant {
            name: "maps_per_stack_20k",
            about: "lines in /proc/self/maps for 20000 such stacks",
            unit: "maps/stack",
            better: Better::Lower,
            sides: &[
                Side::new(Peer::Parcae, maps::<Pooled, 20_000>),
                Side::new(Peer::Corosensei, maps::<Mapped, 20_000>),
            ],
        },
    ],
};

fn resident<S: Source, const COUNT: usize>(_: &Scale) -> Result<f64, Failure> {
    growth_per_stack::<S>(COUNT, machine::resident_bytes)
}

fn page_tables<S: Source, const COUNT: usize>(_: &Scale) -> Result<f64, Failure> {
    growth_per_stack::<S>(COUNT, machine::page_table_bytes)
}

fn maps<S: Source, const COUNT: usize>(_: &Scale) -> Result<f64, Failure> {
    growth_per_stack::<S>(COUNT, machine::mappings)
}

/// By how much `reading` grows per stack while `count` touched ones are held.
fn growth_per_stack<S: Source>(
    count: usize,
    reading: fn() -> Result<u64, Failure>,
) -> Result<f64, Failure> {
    let before = reading()?;
    let source = S::open()?;
    let mut stacks = Vec::with_capacity(count);
    for _ in 0..count {
        let stack = source.acquire()?;
        touch::<S>(&stack);
        stacks.push(stack);
    }
    let after = reading()?;
    Ok(after.saturating_sub(before) as f64 / count as f64)
}
