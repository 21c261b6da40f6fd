//! The workloads, a file each. To add one: write its file and put it into [`WORKLOADS`].

mod actor;
mod allocator;
mod ask;
mod blocking;
mod cancel;
#[cfg(parcae_bench_c)]
mod capi;
mod channel;
mod checkpoint;
mod context;
mod deque;
mod fair;
mod herd;
mod interactive;
mod io;
mod latency;
mod memory;
mod mutex;
mod nursery;
mod outside;
mod par;
mod parked;
mod policy;
mod realtime;
mod runtimes;
mod scale;
mod select;
mod serve;
mod shares;
mod skynet;
mod spawn_join;
mod stack;
mod steal;
mod switch;
mod timers;
mod trace;
mod wake;
mod woken;
mod yielding;

pub(crate) use io::echo_rounds;
pub(crate) use serve::{http_rounds, simulated_echoes};

use crate::case::Workload;
use parcae::stack::StackSize;
use std::time::Instant;

/// All workloads, in the order in which they run.
pub static WORKLOADS: &[&Workload] = &[
    &switch::SWITCH,
    &stack::STACK,
    &memory::MEMORY,
    &yielding::YIELD,
    &spawn_join::SPAWN_JOIN,
    &nursery::NURSERY,
    &outside::OUTSIDE,
    &skynet::SKYNET,
    &par::PAR,
    &checkpoint::CHECKPOINT,
    &allocator::ALLOCATOR,
    &cancel::CANCEL,
    &wake::WAKE,
    &steal::STEAL,
    &deque::DEQUE,
    &mutex::MUTEX,
    &context::CONTEXT,
    &channel::PINGPONG,
    &channel::CHANNEL,
    &ask::ASK,
    &actor::ACTOR,
    &io::IO,
    &serve::SERVE,
    #[cfg(parcae_bench_c)]
    &capi::CAPI,
    &select::SELECT,
    &herd::HERD,
    &blocking::BLOCKING,
    &scale::SCALE,
    &parked::PARKED,
    &parked::MILLION,
    &woken::WOKEN,
    &woken::MILLION_WOKEN,
    &fair::FAIR,
    &shares::SHARES,
    &interactive::INTERACTIVE,
    &policy::POLICY,
    &realtime::REALTIME,
    &timers::TIMERS,
    &timers::MANY,
    &trace::TRACE,
];

/// The size of every stack, of every peer but may, which has its own default: parcae's default, 256
/// KiB of addresses.
const STACK_SIZE: StackSize = StackSize::SERVICE;

/// Nanoseconds since `start`, per one of `count`.
fn nanos_per(start: Instant, count: usize) -> f64 {
    start.elapsed().as_nanos() as f64 / count as f64
}
