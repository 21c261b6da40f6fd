//! The workloads, a file each. To add one: write its file and put it into [`WORKLOADS`].

mod memory;
mod stack;
mod switch;

use crate::case::Workload;
use parcae::stack::StackSize;
use std::time::Instant;

/// All workloads, in the order in which they run.
pub static WORKLOADS: &[&Workload] = &[&switch::SWITCH, &stack::STACK, &memory::MEMORY];

/// The size of every stack, of every peer: parcae's default, 256 KiB of addresses.
const STACK_SIZE: StackSize = StackSize::SERVICE;

/// Nanoseconds since `start`, per one of `count`.
fn nanos_per(start: Instant, count: usize) -> f64 {
    start.elapsed().as_nanos() as f64 / count as f64
}
