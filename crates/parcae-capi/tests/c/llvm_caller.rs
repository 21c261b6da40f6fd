//! A caller that LLVM has compiled: `rustc` lowers `extern "C"` as clang does, on every machine
//! that builds this. The declarations are written by hand, from the specification, as a compiler
//! would emit them.

use std::ffi::{c_int, c_long, c_void};

#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
struct Budget {
    ops: u64,
    memory: u64,
    spawn_count: u64,
    channel_ops: u64,
    syscalls: u64,
}

#[repr(C)]
struct SchedulerConfig {
    worker_count: u32,
    deterministic_seed: u64,
}

#[repr(C)]
struct NurseryOpts {
    size: usize,
    name: *const u8,
    budget: *const Budget,
    child_budget: *const Budget,
    on_failure: i32,
    on_exhausted: i32,
    timeout_ns: u64,
    stack_size: usize,
}

unsafe extern "C" {
    fn janus_scheduler_create(config: SchedulerConfig) -> *mut c_void;
    fn janus_scheduler_shutdown(scheduler: *mut c_void);
    fn janus_scheduler_spawn(func: *mut c_void, arg: *mut c_void) -> c_int;
    fn janus_scheduler_yield() -> c_int;
    fn janus_budget_get_current() -> Budget;
    fn janus_budget_recharge(amount: Budget) -> c_int;
    fn janus_nursery_create() -> *mut c_void;
    fn janus_nursery_await_all() -> c_long;
    fn parcae_nursery_open(opts: *const NurseryOpts) -> *mut c_void;
    fn parcae_cap_budget(total: Budget, delegable: i32) -> *mut c_void;
    fn parcae_cap_use(cap: *mut c_void) -> c_int;
    fn parcae_charge(cost: Budget) -> i32;
}

const POOL: Budget =
    Budget { ops: 100_000, memory: 200_000, spawn_count: 3_000, channel_ops: 40_000, syscalls: 5_000 };
const EACH: Budget =
    Budget { ops: 10_000, memory: 20_000, spawn_count: 300, channel_ops: 4_000, syscalls: 500 };
/// A different number in each place: an exchanged pair would show.
const COST: Budget = Budget { ops: 11, memory: 22, spawn_count: 33, channel_ops: 44, syscalls: 55 };

unsafe extern "C" fn task(cap: *mut c_void) -> i64 {
    // SAFETY: as the header says.
    unsafe {
        let before = janus_budget_get_current();
        assert_eq!(parcae_charge(COST), 0);
        let after = janus_budget_get_current();
        assert_eq!(before.ops - after.ops, 11);
        assert_eq!(before.memory - after.memory, 22);
        assert_eq!(before.spawn_count - after.spawn_count, 33);
        assert_eq!(before.channel_ops - after.channel_ops, 44);
        assert_eq!(before.syscalls - after.syscalls, 55);
        assert_eq!(janus_budget_recharge(COST), -1, "no capability is in use");
        assert_eq!(parcae_cap_use(cap), 0);
        assert_eq!(janus_budget_recharge(COST), 0);
        assert_eq!(janus_scheduler_yield(), 0);
    }
    0
}

fn main() {
    // SAFETY: as the header says.
    unsafe {
        let scheduler = janus_scheduler_create(SchedulerConfig { worker_count: 2, deterministic_seed: 0 });
        assert!(!scheduler.is_null());
        let unlimited = janus_budget_get_current(); // outside of tasks
        assert_eq!(unlimited, Budget { ops: u64::MAX, memory: u64::MAX, spawn_count: u64::MAX, channel_ops: u64::MAX, syscalls: u64::MAX });
        let cap = parcae_cap_budget(POOL, 0);
        assert!(!cap.is_null() && !janus_nursery_create().is_null());
        let opts = NurseryOpts {
            size: size_of::<NurseryOpts>(),
            name: std::ptr::null(),
            budget: &POOL,
            child_budget: &EACH,
            on_failure: 0,
            on_exhausted: 3,
            timeout_ns: 0,
            stack_size: 0,
        };
        assert!(!parcae_nursery_open(&opts).is_null());
        assert_eq!(janus_scheduler_spawn(task as *mut c_void, cap), 0);
        assert_eq!(janus_nursery_await_all(), 0);
        assert_eq!(janus_nursery_await_all(), 0);
        janus_scheduler_shutdown(scheduler);
    }
    println!("as declared");
}
