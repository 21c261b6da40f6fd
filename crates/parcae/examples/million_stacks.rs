//! The memory of many live stacks, guarded, each touched as by a parked fiber.
//!
//! `cargo run --release -p parcae --example million_stacks [COUNT…]`, by default 1 000,
//! 100 000 and 1 000 000 stacks. A million needs about 4.5 GiB of memory.

use parcae::stack::{Stack, StackPool, StackSize};
use std::error::Error;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let mut counts = Vec::new();
    for argument in std::env::args().skip(1) {
        let count = argument.parse::<usize>();
        counts.push(count.map_err(|e| format!("{argument:?} is not a number of stacks: {e}"))?);
    }
    if counts.is_empty() {
        counts = vec![1_000, 100_000, 1_000_000];
    }
    println!("per stack of {}:", StackSize::SERVICE);
    println!("    stacks   virtual  resident  page tables  bookkeeping  mappings  guard, touch");
    for count in counts {
        measure(count)?;
    }
    Ok(())
}

fn measure(count: usize) -> Result<(), Box<dyn Error>> {
    // Allocate the handles first, so that they are not counted as memory of stacks.
    let mut stacks: Vec<Stack> = Vec::with_capacity(count);
    let before = Memory::now()?;
    let pool = StackPool::new()?;
    let start = Instant::now();
    for n in 0..count {
        let stack = pool.acquire(StackSize::SERVICE).map_err(|e| format!("stack {n}: {e}"))?;
        // SAFETY: the first page of a stack that is not in use.
        unsafe { stack.top().sub(64).write_volatile(1) };
        stacks.push(stack);
    }
    let took = start.elapsed();
    let after = Memory::now()?;
    let stack_memory = pool.resident()?;
    let handles = count * size_of::<Stack>();
    let all = (after.resident - before.resident) * 1024;
    let per = |bytes: usize| bytes / count;
    println!(
        "{count:10} {:7} KiB {:5} B {:10} B {:10} B {:9} {:8} ns",
        per(pool.stats().reserved) / 1024,
        per(stack_memory),
        per((after.page_tables - before.page_tables) * 1024),
        per(all.saturating_sub(stack_memory + handles)),
        after.mappings.saturating_sub(before.mappings),
        took.as_nanos() / count as u128,
    );
    Ok(())
}

/// Memory of this process by the kernel's figures, in KiB.
struct Memory {
    resident: usize,
    page_tables: usize,
    mappings: usize,
}

impl Memory {
    fn now() -> Result<Memory, Box<dyn Error>> {
        let status = std::fs::read_to_string("/proc/self/status")?;
        let field = |name: &str| -> Result<usize, Box<dyn Error>> {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let number = line.and_then(|rest| rest.split_whitespace().next());
            Ok(number.ok_or_else(|| format!("no {name} in /proc/self/status"))?.parse()?)
        };
        Ok(Memory {
            resident: field("VmRSS:")?,
            page_tables: field("VmPTE:")?,
            mappings: std::fs::read_to_string("/proc/self/maps")?.lines().count(),
        })
    }
}
