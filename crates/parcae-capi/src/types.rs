//! Structures, constants and opaque types of the header.

mod actor;

pub use actor::*;

use crate::decl::{CType, Structure, c_struct, c_types};
use parcae::budget::UNLIMITED;
use std::ffi::{c_char, c_void};

/// The function of a task: returns 0 or more for success, less for failure.
pub type TaskFn = Option<unsafe extern "C-unwind" fn(*mut c_void) -> i64>;
/// The same without an argument.
pub type NoArgTaskFn = Option<unsafe extern "C-unwind" fn() -> i64>;
/// A task of code that computes with `int32_t`; its result is widened with its sign.
pub type TaskFn32 = Option<unsafe extern "C-unwind" fn(*mut c_void) -> i32>;
/// The same without an argument.
pub type NoArgTaskFn32 = Option<unsafe extern "C-unwind" fn() -> i32>;
/// The callback of a token, called with the reason when it is cancelled.
pub type CancelFn = Option<unsafe extern "C" fn(*mut c_void, i32)>;
/// The callback for stall reports.
pub type StallFn = Option<unsafe extern "C" fn(*mut c_void, *const StallInfo)>;

/// Types that C only has pointers to. The pointers are no addresses: see [`table`](crate::table).
macro_rules! opaque {
    ($($(#[$doc:meta])* $name:ident as $cname:literal;)*) => {
        $(
            $(#[$doc])*
            #[derive(Debug)]
            pub enum $name {}
            impl CType for *mut $name { const NAME: &'static str = concat!($cname, " *"); }
        )*
        /// Their names.
        pub const OPAQUE: &[&str] = &[$($cname),*];
    };
}

opaque! {
    /// The runtime.
    Runtime as "janus_runtime";
    /// A child of a nursery.
    Task as "parcae_task";
    /// A token.
    Token as "janus_cancel_token";
    /// A capability.
    Cap as "parcae_cap";
    /// A system of actors, or a dynamic supervisor in one.
    Actors as "parcae_actors";
    /// The address of an actor.
    Address as "parcae_address";
    /// The authority to answer a call.
    Replying as "parcae_reply";
    /// A monitor of an actor, for tasks and threads that are no actors.
    Watch as "parcae_watch";
    /// The children of a supervisor, while they are named.
    Children as "parcae_children";
}

c_types! {
    TaskFn => "janus_task_fn",
    NoArgTaskFn => "janus_noarg_task_fn",
    TaskFn32 => "parcae_task_fn_i32",
    NoArgTaskFn32 => "parcae_noarg_task_fn_i32",
    CancelFn => "parcae_cancel_fn",
    StallFn => "parcae_stall_fn",
}

c_struct! {
    /// How much of each resource a task may use. PARCAE_UNLIMITED is not counted.
    struct Budget as "janus_budget" {
        /// Loop iterations, calls, and one for each operation below.
        ops: u64,
        /// Bytes of memory.
        memory: u64,
        /// Children that may be spawned.
        spawn_count: u64,
        /// Sends and receives on channels.
        channel_ops: u64,
        /// File and network operations.
        syscalls: u64,
    }
}

c_struct! {
    /// Configuration of the runtime, in the frozen form.
    struct RuntimeConfig as "janus_runtime_config" {
        /// How many workers run tasks; 0: as many as the machine runs in parallel.
        worker_count: u32,
        /// 0: threads. Otherwise all workers run in turn on the thread that starts the runtime, in
        /// an order determined by this seed.
        deterministic_seed: u64,
    }
}

c_struct! {
    /// The same, for janus_scheduler_create.
    struct SchedulerConfig as "janus_scheduler_config" {
        /// As in janus_runtime_config.
        worker_count: u32,
        /// As in janus_runtime_config.
        deterministic_seed: u64,
    }
}

c_struct! {
    /// Configuration of the runtime, in full. Fill it with parcae_config_init first.
    struct Config as "parcae_config" {
        /// sizeof(parcae_config): tells versions of this structure apart.
        size: usize,
        /// PARCAE_CORE, _SERVICE, _CLUSTER or _SOVEREIGN.
        profile: i32,
        /// How many workers run tasks; 0: as many as the machine runs in parallel.
        workers: u32,
        /// PARCAE_THREADS or PARCAE_DETERMINISTIC.
        executor: i32,
        /// How many ops a task runs before it yields; 0: the profile's default.
        yield_interval: u32,
        /// The seed of random choices.
        seed: u64,
        /// Stack size of a task, in bytes; 0: the profile's default.
        stack_size: usize,
        /// The most stacks at a time; 0: no limit.
        max_stacks: usize,
        /// The budget of all tasks together.
        budget: Budget,
    }
}

c_struct! {
    /// Options of a nursery. Zeros, except for the size, are the defaults.
    struct NurseryOpts as "parcae_nursery_opts" {
        /// sizeof(parcae_nursery_opts): tells versions of this structure apart.
        size: usize,
        /// For errors and tools; may be NULL.
        name: *const c_char,
        /// The nursery's budget, moved out of its opener's; may be NULL.
        budget: *const Budget,
        /// The budget of each child, moved out of the nursery's; may be NULL. It is enforced even
        /// where nothing else is counted.
        child_budget: *const Budget,
        /// PARCAE_FAIL_FAST, _ISOLATE or _COLLECT.
        on_failure: i32,
        /// PARCAE_INHERIT, _REFILL, _SUSPEND or _FAIL.
        on_exhausted: i32,
        /// Cancels the nursery after this time; 0: never.
        timeout_ns: u64,
        /// Stack size of a child, in bytes; 0: the runtime's default.
        stack_size: usize,
        /// How much a child draws at a time from a counted nursery; NULL: 10000 ops, 1 MiB,
        /// 100 channel_ops, 10 syscalls, and less from a small nursery.
        slice: *const Budget,
        /// Makes the nursery a tenant with this weight, from 1 to 2^20; 1024 is normal. 0: no
        /// share, unless there is a latency, which makes it a tenant with the normal weight.
        share: u32,
        /// How soon tasks of the tenant want to run: PARCAE_LATENCY_NORMAL, _SENSITIVE, _BATCH or
        /// _SLICE.
        latency: i32,
        /// The length of its slices, for PARCAE_LATENCY_SLICE: nanoseconds, or ops under the
        /// deterministic executor.
        latency_slice: u64,
    }
}

c_struct! {
    /// Options of a child. Zeros, except for the size, are the defaults.
    struct SpawnOpts as "parcae_spawn_opts" {
        /// sizeof(parcae_spawn_opts).
        size: usize,
        /// For errors and tools; may be NULL.
        name: *const c_char,
        /// The child's budget, moved out of its nursery's; may be NULL.
        budget: *const Budget,
        /// Stack size, in bytes; 0: the nursery's default.
        stack_size: usize,
        /// PARCAE_NORMAL, _LOW or _HIGH.
        priority: i32,
    }
}

c_struct! {
    /// The full result of the last janus_nursery_await_all.
    struct NurseryResult as "parcae_result" {
        /// PARCAE_SUCCESS and so on: distinguishes a child's own code from those of the runtime.
        kind: i32,
        /// The reason of a cancellation: PARCAE_EXPLICIT and so on.
        reason: i32,
        /// The result of janus_nursery_await_all.
        code: i64,
        /// The child that failed; 0 if none did.
        task: u64,
        /// How many other children failed after it.
        others: u64,
    }
}

c_struct! {
    /// The figures of a tenant. Shares are fractions of the time of all workers while they work.
    struct TenantFigures as "parcae_tenant" {
        /// sizeof(parcae_tenant): tells versions of this structure apart.
        size: usize,
        /// Its weight.
        weight: u32,
        /// Open nurseries.
        open: u32,
        /// Time that its tasks ran; 0 under the deterministic executor, which counts ops.
        ran_ns: u64,
        /// Ops that its tasks have used.
        ops: u64,
        /// Turns in which its tasks ran.
        turns: u64,
        /// Number of those that ended early, because a tenant with shorter slices was woken.
        preempted: u64,
        /// Number of its tasks that wait for any worker.
        queued: u64,
        /// The share that its weight stands for, among the tenants that are open.
        wanted: f64,
        /// The share that it could have: no more than workers have ready tasks of it.
        feasible: f64,
        /// The share that it got lately.
        got: f64,
    }
}

c_struct! {
    /// A stall report, for parcae_rt_on_stall: a worker does not return from a task. Valid during
    /// the call.
    struct StallInfo as "parcae_stall" {
        /// sizeof(parcae_stall) of the library.
        size: usize,
        /// PARCAE_STALL_COMPUTING and so on.
        kind: i32,
        /// The number of the worker. Temporary workers have the numbers after the others.
        worker: u32,
        /// The task that it runs; 0 if the worker did not answer.
        task: u64,
        /// How long the worker has made no progress.
        still_for_ns: u64,
        /// A line with the task and the remedy, then a backtrace.
        text: *const c_char,
    }
}

c_struct! {
    /// The words that a yield check reads. Belongs to one task, at the same address until the task
    /// ends.
    struct MeterWords as "parcae_meter" {
        /// Ops until the next slow path.
        slice: u64,
        /// Raised when the task is cancelled.
        limit: *const u64,
        /// Raised when the task has to take the slow path.
        signal: *const u32,
    }
}

/// All structures, in the order of the header.
pub const STRUCTURES: &[Structure] = &[
    Budget::DECLARATION,
    RuntimeConfig::DECLARATION,
    SchedulerConfig::DECLARATION,
    Config::DECLARATION,
    NurseryOpts::DECLARATION,
    SpawnOpts::DECLARATION,
    NurseryResult::DECLARATION,
    TenantFigures::DECLARATION,
    StallInfo::DECLARATION,
    MeterWords::DECLARATION,
    ACTOR_STRUCTURES[0],
    ACTOR_STRUCTURES[1],
    ACTOR_STRUCTURES[2],
    ACTOR_STRUCTURES[3],
    ACTOR_STRUCTURES[4],
    ACTOR_STRUCTURES[5],
    ACTOR_STRUCTURES[6],
];

/// Constants of one kind: a comment, names and values.
pub type Constants = (&'static str, &'static [(&'static str, i64)]);

macro_rules! constants {
    ($($(#[doc = $doc:literal])* $group:ident { $($name:ident = $value:expr),* $(,)? })*) => {
        $($(
            #[allow(missing_docs, reason = "the group says what they are for")]
            pub const $name: i32 = $value;
        )*)*
        /// All constants, in the order of the header.
        pub const CONSTANTS: &[Constants] = &[
            $((concat!($($doc),*), &[$((concat!("PARCAE_", stringify!($name)), $value)),*])),*
        ];
    };
}

constants! {
    /// Codes of parcae_status and of janus_nursery_await_all. The first five are frozen.
    codes { OK = 0, CANCELLED = -1, PANIC = -2, BUDGET = -3, PENDING = -4, ERROR = -5 }
    /// Values of parcae_result.kind.
    kinds { SUCCESS = 0, WAS_CANCELLED = 1, CHILD_FAILED = 2, PANICKED = 3, BUDGET_EXCEEDED = 4, STILL_PENDING = 5 }
    /// Values of parcae_last_error_kind.
    errors {
        E_NONE = 0, E_CANCELLED = 1, E_BUDGET = 2, E_PANIC = 3, E_CLOSED = 4, E_WOULD_WAIT = 5,
        E_TIMED_OUT = 6, E_NULL = 7, E_HANDLE = 8, E_STALE = 9, E_NOT_YOURS = 10, E_NO_NURSERY = 11,
        E_PROFILE = 12, E_CAPABILITY = 13, E_NOT_RUNNING = 14, E_RUNNING = 15, E_FORKED = 16,
        E_ARGUMENT = 17, E_OUT_OF_MEMORY = 18, E_NO_STACK = 19, E_CHILD = 20, E_OTHER = 21,
        E_SHARE = 22, E_FULL = 23, E_EXPIRED = 24, E_RESTARTING = 25, E_GONE = 26, E_REFUSED = 27,
        E_CYCLE = 28, E_NO_REPLY = 29, E_FAILED = 30,
    }
    /// Reasons of a cancellation.
    reasons { NOT_CANCELLED = 0, EXPLICIT = 1, TIMEOUT = 2, PARENT = 3, FAILURE = 4, SHUTDOWN = 5 }
    /// Profiles.
    profiles { CORE = 0, SERVICE = 1, CLUSTER = 2, SOVEREIGN = 3 }
    /// Executors.
    executors { THREADS = 0, DETERMINISTIC = 1 }
    /// Policies for the failure of a child.
    failures { FAIL_FAST = 0, ISOLATE = 1, COLLECT = 2 }
    /// Policies for a child that has exhausted its budget.
    policies { INHERIT = 0, REFILL = 1, SUSPEND = 2, FAIL = 3 }
    /// Priorities of a child.
    priorities { NORMAL = 0, LOW = 1, HIGH = 2 }
    /// How soon tasks of a tenant want to run: parcae_nursery_opts.latency.
    latencies { LATENCY_NORMAL = 0, LATENCY_SENSITIVE = 1, LATENCY_BATCH = 2, LATENCY_SLICE = 3 }
    /// Kinds of stalls: parcae_stall.kind.
    stalls { STALL_UNKNOWN = 0, STALL_COMPUTING = 1, STALL_BLOCKED = 2, STALL_STARVED = 3 }
    /// The step of an actor after a message: results of its functions.
    nexts { NEXT_CONTINUE = 0, NEXT_HIBERNATE = 1, NEXT_STOP = 2 }
    /// Mailboxes, by the fate of a message that finds them full.
    mailboxes {
        MAILBOX_BLOCK = 0, MAILBOX_REFUSE = 1, MAILBOX_DROP_OLDEST = 2, MAILBOX_DROP_NEWEST = 3,
        MAILBOX_LATEST = 4, MAILBOX_RENDEZVOUS = 5,
    }
    /// When a supervisor starts an actor again: after a failure, after every end, never.
    restarts { TRANSIENT = 0, PERMANENT = 1, TEMPORARY = 2 }
    /// Children that a supervisor restarts together with one that failed.
    strategies { ONE_FOR_ONE = 0, ONE_FOR_ALL = 1, REST_FOR_ONE = 2 }
    /// When the end of significant children ends their supervisor.
    ends { END_NEVER = 0, END_WITH_ANY = 1, END_WITH_ALL = 2 }
    /// Kinds of ends of an actor: parcae_exit.kind.
    exits {
        EXIT_FINISHED = 0, EXIT_STOPPED = 1, EXIT_FAILED = 2, EXIT_PANICKED = 3,
        EXIT_CANCELLED = 4, EXIT_EXHAUSTED = 5, EXIT_NOT_STARTED = 6,
    }
    /// Kinds of events: parcae_event.kind.
    events { EVENT_DOWN = 0, EVENT_TIMER = 1 }
    /// Why no handler saw a message to its end.
    letters {
        LETTER_OVERFLOW = 0, LETTER_REPLACED = 1, LETTER_EXPIRED = 2, LETTER_GONE = 3,
        LETTER_FAILED = 4, LETTER_POISON = 5,
    }
    /// Whether weaker capabilities may be derived.
    delegation { NOT_DELEGABLE = 0, DELEGABLE = 1 }
}

impl From<parcae::Budget> for Budget {
    fn from(budget: parcae::Budget) -> Budget {
        let parcae::Budget { ops, memory, spawn_count, channel_ops, syscalls } = budget;
        Budget { ops, memory, spawn_count, channel_ops, syscalls }
    }
}

impl From<Budget> for parcae::Budget {
    fn from(budget: Budget) -> parcae::Budget {
        let Budget { ops, memory, spawn_count, channel_ops, syscalls } = budget;
        parcae::Budget { ops, memory, spawn_count, channel_ops, syscalls }
    }
}

// The value of PARCAE_UNLIMITED in the header, and the frozen layouts.
const _: () = {
    assert!(UNLIMITED == u64::MAX);
    assert!(size_of::<Budget>() == 40);
    assert!(size_of::<RuntimeConfig>() == 16 && size_of::<SchedulerConfig>() == 16);
    assert!(size_of::<MeterWords>() == size_of::<parcae::foreign::MeterWords>());
    assert!(OK == 0 && CANCELLED == -1 && PANIC == -2 && BUDGET == -3 && PENDING == -4);
};
