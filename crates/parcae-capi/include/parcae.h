/* Parcae: tasks that run on budgets, in nurseries. The manual is docs/c.md.
 *
 * Printed by `cargo run -p parcae-capi --bin parcae-header`: change the Rust sources, not this file.
 *
 * Handles look like pointers and are numbers: they are looked up, never dereferenced. An object may be
 * used only by the task or thread that created it, unless its documentation says otherwise. Functions of
 * type parcae_status return PARCAE_OK or a negative code; others return -1, NULL or as documented.
 * parcae_last_error has a text for each failure.
 */
#ifndef PARCAE_H
#define PARCAE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A compile-time assertion, in C99 and in C++. */
#define PARCAE_ASSERT(name, condition) typedef char parcae_assert_##name[(condition) ? 1 : -1]

#if defined(__GNUC__)
#define PARCAE_NORETURN __attribute__((noreturn))
#else
#define PARCAE_NORETURN
#endif

/* The version of this header: 0.1.0. */
#define PARCAE_VERSION 100

/* Codes of parcae_status and of janus_nursery_await_all. The first five are frozen. */
enum {
    PARCAE_OK = 0,
    PARCAE_CANCELLED = -1,
    PARCAE_PANIC = -2,
    PARCAE_BUDGET = -3,
    PARCAE_PENDING = -4,
    PARCAE_ERROR = -5,
};

/* Values of parcae_result.kind. */
enum {
    PARCAE_SUCCESS = 0,
    PARCAE_WAS_CANCELLED = 1,
    PARCAE_CHILD_FAILED = 2,
    PARCAE_PANICKED = 3,
    PARCAE_BUDGET_EXCEEDED = 4,
    PARCAE_STILL_PENDING = 5,
};

/* Values of parcae_last_error_kind. */
enum {
    PARCAE_E_NONE = 0,
    PARCAE_E_CANCELLED = 1,
    PARCAE_E_BUDGET = 2,
    PARCAE_E_PANIC = 3,
    PARCAE_E_CLOSED = 4,
    PARCAE_E_WOULD_WAIT = 5,
    PARCAE_E_TIMED_OUT = 6,
    PARCAE_E_NULL = 7,
    PARCAE_E_HANDLE = 8,
    PARCAE_E_STALE = 9,
    PARCAE_E_NOT_YOURS = 10,
    PARCAE_E_NO_NURSERY = 11,
    PARCAE_E_PROFILE = 12,
    PARCAE_E_CAPABILITY = 13,
    PARCAE_E_NOT_RUNNING = 14,
    PARCAE_E_RUNNING = 15,
    PARCAE_E_FORKED = 16,
    PARCAE_E_ARGUMENT = 17,
    PARCAE_E_OUT_OF_MEMORY = 18,
    PARCAE_E_NO_STACK = 19,
    PARCAE_E_CHILD = 20,
    PARCAE_E_OTHER = 21,
    PARCAE_E_SHARE = 22,
    PARCAE_E_FULL = 23,
    PARCAE_E_EXPIRED = 24,
    PARCAE_E_RESTARTING = 25,
    PARCAE_E_GONE = 26,
    PARCAE_E_REFUSED = 27,
    PARCAE_E_CYCLE = 28,
    PARCAE_E_NO_REPLY = 29,
    PARCAE_E_FAILED = 30,
};

/* Reasons of a cancellation. */
enum {
    PARCAE_NOT_CANCELLED = 0,
    PARCAE_EXPLICIT = 1,
    PARCAE_TIMEOUT = 2,
    PARCAE_PARENT = 3,
    PARCAE_FAILURE = 4,
    PARCAE_SHUTDOWN = 5,
};

/* Profiles. */
enum {
    PARCAE_CORE = 0,
    PARCAE_SERVICE = 1,
    PARCAE_CLUSTER = 2,
    PARCAE_SOVEREIGN = 3,
};

/* Executors. */
enum {
    PARCAE_THREADS = 0,
    PARCAE_DETERMINISTIC = 1,
};

/* Policies for the failure of a child. */
enum {
    PARCAE_FAIL_FAST = 0,
    PARCAE_ISOLATE = 1,
    PARCAE_COLLECT = 2,
};

/* Policies for a child that has exhausted its budget. */
enum {
    PARCAE_INHERIT = 0,
    PARCAE_REFILL = 1,
    PARCAE_SUSPEND = 2,
    PARCAE_FAIL = 3,
};

/* Priorities of a child. */
enum {
    PARCAE_NORMAL = 0,
    PARCAE_LOW = 1,
    PARCAE_HIGH = 2,
};

/* How soon tasks of a tenant want to run: parcae_nursery_opts.latency. */
enum {
    PARCAE_LATENCY_NORMAL = 0,
    PARCAE_LATENCY_SENSITIVE = 1,
    PARCAE_LATENCY_BATCH = 2,
    PARCAE_LATENCY_SLICE = 3,
};

/* Kinds of stalls: parcae_stall.kind. */
enum {
    PARCAE_STALL_UNKNOWN = 0,
    PARCAE_STALL_COMPUTING = 1,
    PARCAE_STALL_BLOCKED = 2,
    PARCAE_STALL_STARVED = 3,
};

/* The step of an actor after a message: results of its functions. */
enum {
    PARCAE_NEXT_CONTINUE = 0,
    PARCAE_NEXT_HIBERNATE = 1,
    PARCAE_NEXT_STOP = 2,
};

/* Mailboxes, by the fate of a message that finds them full. */
enum {
    PARCAE_MAILBOX_BLOCK = 0,
    PARCAE_MAILBOX_REFUSE = 1,
    PARCAE_MAILBOX_DROP_OLDEST = 2,
    PARCAE_MAILBOX_DROP_NEWEST = 3,
    PARCAE_MAILBOX_LATEST = 4,
    PARCAE_MAILBOX_RENDEZVOUS = 5,
};

/* When a supervisor starts an actor again: after a failure, after every end, never. */
enum {
    PARCAE_TRANSIENT = 0,
    PARCAE_PERMANENT = 1,
    PARCAE_TEMPORARY = 2,
};

/* Children that a supervisor restarts together with one that failed. */
enum {
    PARCAE_ONE_FOR_ONE = 0,
    PARCAE_ONE_FOR_ALL = 1,
    PARCAE_REST_FOR_ONE = 2,
};

/* When the end of significant children ends their supervisor. */
enum {
    PARCAE_END_NEVER = 0,
    PARCAE_END_WITH_ANY = 1,
    PARCAE_END_WITH_ALL = 2,
};

/* Kinds of ends of an actor: parcae_exit.kind. */
enum {
    PARCAE_EXIT_FINISHED = 0,
    PARCAE_EXIT_STOPPED = 1,
    PARCAE_EXIT_FAILED = 2,
    PARCAE_EXIT_PANICKED = 3,
    PARCAE_EXIT_CANCELLED = 4,
    PARCAE_EXIT_EXHAUSTED = 5,
    PARCAE_EXIT_NOT_STARTED = 6,
};

/* Kinds of events: parcae_event.kind. */
enum {
    PARCAE_EVENT_DOWN = 0,
    PARCAE_EVENT_TIMER = 1,
};

/* Why no handler saw a message to its end. */
enum {
    PARCAE_LETTER_OVERFLOW = 0,
    PARCAE_LETTER_REPLACED = 1,
    PARCAE_LETTER_EXPIRED = 2,
    PARCAE_LETTER_GONE = 3,
    PARCAE_LETTER_FAILED = 4,
    PARCAE_LETTER_POISON = 5,
};

/* Whether weaker capabilities may be derived. */
enum {
    PARCAE_NOT_DELEGABLE = 0,
    PARCAE_DELEGABLE = 1,
};

/* The frozen table of results. */
PARCAE_ASSERT(code_ok, PARCAE_OK == 0);
PARCAE_ASSERT(code_cancelled, PARCAE_CANCELLED == -1);
PARCAE_ASSERT(code_panic, PARCAE_PANIC == -2);
PARCAE_ASSERT(code_budget, PARCAE_BUDGET == -3);
PARCAE_ASSERT(code_pending, PARCAE_PENDING == -4);

/* The function of a task: returns 0 or more for success, less for failure. */
typedef int64_t (*janus_task_fn)(void *arg);
typedef int64_t (*janus_noarg_task_fn)(void);
typedef int32_t (*parcae_task_fn_i32)(void *arg);
typedef int32_t (*parcae_noarg_task_fn_i32)(void);
/* The callback of a token, for its cancellation. */
typedef void (*parcae_cancel_fn)(void *arg, int32_t reason);
/* The callback for stall reports. */
struct parcae_stall;
typedef void (*parcae_stall_fn)(void *arg, const struct parcae_stall *stall);
/* The functions of an actor, and of a supervisor: see parcae_actor_opts. */
struct parcae_address;
struct parcae_birth;
struct parcae_children;
struct parcae_event;
struct parcae_exit;
struct parcae_message;
struct parcae_reply;
typedef int64_t (*parcae_actor_start_fn)(void *arg, const struct parcae_birth *birth, void **state);
typedef int64_t (*parcae_actor_handle_fn)(void *state, struct parcae_message *message,
                                          struct parcae_reply *reply);
typedef int64_t (*parcae_actor_event_fn)(void *state, const struct parcae_event *event);
typedef void (*parcae_actor_stop_fn)(void *state, const struct parcae_exit *exit);
typedef int64_t (*parcae_children_fn)(void *arg, struct parcae_children *children);
typedef void (*parcae_drop_fn)(void *data);
/* PARCAE_OK, PARCAE_CANCELLED and so on. */
typedef int32_t parcae_status;
/* A component of a budget that is not counted. */
#define PARCAE_UNLIMITED UINT64_MAX

typedef struct janus_runtime janus_runtime;
typedef struct parcae_task parcae_task;
typedef struct janus_cancel_token janus_cancel_token;
typedef struct parcae_cap parcae_cap;
typedef struct parcae_actors parcae_actors;
typedef struct parcae_address parcae_address;
typedef struct parcae_reply parcae_reply;
typedef struct parcae_watch parcae_watch;
typedef struct parcae_children parcae_children;

/* How much of each resource a task may use. PARCAE_UNLIMITED is not counted. */
typedef struct janus_budget {
    /* Loop iterations, calls, and one for each operation below. */
    uint64_t ops;
    /* Bytes of memory. */
    uint64_t memory;
    /* Children that may be spawned. */
    uint64_t spawn_count;
    /* Sends and receives on channels. */
    uint64_t channel_ops;
    /* File and network operations. */
    uint64_t syscalls;
} janus_budget;
PARCAE_ASSERT(janus_budget, sizeof(janus_budget) == 40);
PARCAE_ASSERT(janus_budget_ops, offsetof(janus_budget, ops) == 0);
PARCAE_ASSERT(janus_budget_memory, offsetof(janus_budget, memory) == 8);
PARCAE_ASSERT(janus_budget_spawn_count, offsetof(janus_budget, spawn_count) == 16);
PARCAE_ASSERT(janus_budget_channel_ops, offsetof(janus_budget, channel_ops) == 24);
PARCAE_ASSERT(janus_budget_syscalls, offsetof(janus_budget, syscalls) == 32);

/* Configuration of the runtime, in the frozen form. */
typedef struct janus_runtime_config {
    /* How many workers run tasks; 0: as many as the machine runs in parallel. */
    uint32_t worker_count;
    /* 0: threads. Otherwise all workers run in turn on the thread that starts the runtime, in
     * an order determined by this seed. */
    uint64_t deterministic_seed;
} janus_runtime_config;
PARCAE_ASSERT(janus_runtime_config, sizeof(janus_runtime_config) == 16);
PARCAE_ASSERT(janus_runtime_config_worker_count, offsetof(janus_runtime_config, worker_count) == 0);
PARCAE_ASSERT(janus_runtime_config_deterministic_seed, offsetof(janus_runtime_config, deterministic_seed) == 8);

/* The same, for janus_scheduler_create. */
typedef struct janus_scheduler_config {
    /* As in janus_runtime_config. */
    uint32_t worker_count;
    /* As in janus_runtime_config. */
    uint64_t deterministic_seed;
} janus_scheduler_config;
PARCAE_ASSERT(janus_scheduler_config, sizeof(janus_scheduler_config) == 16);
PARCAE_ASSERT(janus_scheduler_config_worker_count, offsetof(janus_scheduler_config, worker_count) == 0);
PARCAE_ASSERT(janus_scheduler_config_deterministic_seed, offsetof(janus_scheduler_config, deterministic_seed) == 8);

/* Configuration of the runtime, in full. Fill it with parcae_config_init first. */
typedef struct parcae_config {
    /* sizeof(parcae_config): tells versions of this structure apart. */
    size_t size;
    /* PARCAE_CORE, _SERVICE, _CLUSTER or _SOVEREIGN. */
    int32_t profile;
    /* How many workers run tasks; 0: as many as the machine runs in parallel. */
    uint32_t workers;
    /* PARCAE_THREADS or PARCAE_DETERMINISTIC. */
    int32_t executor;
    /* How many ops a task runs before it yields; 0: the profile's default. */
    uint32_t yield_interval;
    /* The seed of random choices. */
    uint64_t seed;
    /* Stack size of a task, in bytes; 0: the profile's default. */
    size_t stack_size;
    /* The most stacks at a time; 0: no limit. */
    size_t max_stacks;
    /* The budget of all tasks together. */
    janus_budget budget;
} parcae_config;
PARCAE_ASSERT(parcae_config, sizeof(parcae_config) == 88);
PARCAE_ASSERT(parcae_config_size, offsetof(parcae_config, size) == 0);
PARCAE_ASSERT(parcae_config_profile, offsetof(parcae_config, profile) == 8);
PARCAE_ASSERT(parcae_config_workers, offsetof(parcae_config, workers) == 12);
PARCAE_ASSERT(parcae_config_executor, offsetof(parcae_config, executor) == 16);
PARCAE_ASSERT(parcae_config_yield_interval, offsetof(parcae_config, yield_interval) == 20);
PARCAE_ASSERT(parcae_config_seed, offsetof(parcae_config, seed) == 24);
PARCAE_ASSERT(parcae_config_stack_size, offsetof(parcae_config, stack_size) == 32);
PARCAE_ASSERT(parcae_config_max_stacks, offsetof(parcae_config, max_stacks) == 40);
PARCAE_ASSERT(parcae_config_budget, offsetof(parcae_config, budget) == 48);

/* Options of a nursery. Zeros, except for the size, are the defaults. */
typedef struct parcae_nursery_opts {
    /* sizeof(parcae_nursery_opts): tells versions of this structure apart. */
    size_t size;
    /* For errors and tools; may be NULL. */
    const char *name;
    /* The nursery's budget, moved out of its opener's; may be NULL. */
    const janus_budget *budget;
    /* The budget of each child, moved out of the nursery's; may be NULL. It is enforced even
     * where nothing else is counted. */
    const janus_budget *child_budget;
    /* PARCAE_FAIL_FAST, _ISOLATE or _COLLECT. */
    int32_t on_failure;
    /* PARCAE_INHERIT, _REFILL, _SUSPEND or _FAIL. */
    int32_t on_exhausted;
    /* Cancels the nursery after this time; 0: never. */
    uint64_t timeout_ns;
    /* Stack size of a child, in bytes; 0: the runtime's default. */
    size_t stack_size;
    /* How much a child draws at a time from a counted nursery; NULL: 10000 ops, 1 MiB,
     * 100 channel_ops, 10 syscalls, and less from a small nursery. */
    const janus_budget *slice;
    /* Makes the nursery a tenant with this weight, from 1 to 2^20; 1024 is normal. 0: no
     * share, unless there is a latency, which makes it a tenant with the normal weight. */
    uint32_t share;
    /* How soon tasks of the tenant want to run: PARCAE_LATENCY_NORMAL, _SENSITIVE, _BATCH or
     * _SLICE. */
    int32_t latency;
    /* The length of its slices, for PARCAE_LATENCY_SLICE: nanoseconds, or ops under the
     * deterministic executor. */
    uint64_t latency_slice;
} parcae_nursery_opts;
PARCAE_ASSERT(parcae_nursery_opts, sizeof(parcae_nursery_opts) == 80);
PARCAE_ASSERT(parcae_nursery_opts_size, offsetof(parcae_nursery_opts, size) == 0);
PARCAE_ASSERT(parcae_nursery_opts_name, offsetof(parcae_nursery_opts, name) == 8);
PARCAE_ASSERT(parcae_nursery_opts_budget, offsetof(parcae_nursery_opts, budget) == 16);
PARCAE_ASSERT(parcae_nursery_opts_child_budget, offsetof(parcae_nursery_opts, child_budget) == 24);
PARCAE_ASSERT(parcae_nursery_opts_on_failure, offsetof(parcae_nursery_opts, on_failure) == 32);
PARCAE_ASSERT(parcae_nursery_opts_on_exhausted, offsetof(parcae_nursery_opts, on_exhausted) == 36);
PARCAE_ASSERT(parcae_nursery_opts_timeout_ns, offsetof(parcae_nursery_opts, timeout_ns) == 40);
PARCAE_ASSERT(parcae_nursery_opts_stack_size, offsetof(parcae_nursery_opts, stack_size) == 48);
PARCAE_ASSERT(parcae_nursery_opts_slice, offsetof(parcae_nursery_opts, slice) == 56);
PARCAE_ASSERT(parcae_nursery_opts_share, offsetof(parcae_nursery_opts, share) == 64);
PARCAE_ASSERT(parcae_nursery_opts_latency, offsetof(parcae_nursery_opts, latency) == 68);
PARCAE_ASSERT(parcae_nursery_opts_latency_slice, offsetof(parcae_nursery_opts, latency_slice) == 72);

/* Options of a child. Zeros, except for the size, are the defaults. */
typedef struct parcae_spawn_opts {
    /* sizeof(parcae_spawn_opts). */
    size_t size;
    /* For errors and tools; may be NULL. */
    const char *name;
    /* The child's budget, moved out of its nursery's; may be NULL. */
    const janus_budget *budget;
    /* Stack size, in bytes; 0: the nursery's default. */
    size_t stack_size;
    /* PARCAE_NORMAL, _LOW or _HIGH. */
    int32_t priority;
} parcae_spawn_opts;
PARCAE_ASSERT(parcae_spawn_opts, sizeof(parcae_spawn_opts) == 40);
PARCAE_ASSERT(parcae_spawn_opts_size, offsetof(parcae_spawn_opts, size) == 0);
PARCAE_ASSERT(parcae_spawn_opts_name, offsetof(parcae_spawn_opts, name) == 8);
PARCAE_ASSERT(parcae_spawn_opts_budget, offsetof(parcae_spawn_opts, budget) == 16);
PARCAE_ASSERT(parcae_spawn_opts_stack_size, offsetof(parcae_spawn_opts, stack_size) == 24);
PARCAE_ASSERT(parcae_spawn_opts_priority, offsetof(parcae_spawn_opts, priority) == 32);

/* The full result of the last janus_nursery_await_all. */
typedef struct parcae_result {
    /* PARCAE_SUCCESS and so on: distinguishes a child's own code from those of the runtime. */
    int32_t kind;
    /* The reason of a cancellation: PARCAE_EXPLICIT and so on. */
    int32_t reason;
    /* The result of janus_nursery_await_all. */
    int64_t code;
    /* The child that failed; 0 if none did. */
    uint64_t task;
    /* How many other children failed after it. */
    uint64_t others;
} parcae_result;
PARCAE_ASSERT(parcae_result, sizeof(parcae_result) == 32);
PARCAE_ASSERT(parcae_result_kind, offsetof(parcae_result, kind) == 0);
PARCAE_ASSERT(parcae_result_reason, offsetof(parcae_result, reason) == 4);
PARCAE_ASSERT(parcae_result_code, offsetof(parcae_result, code) == 8);
PARCAE_ASSERT(parcae_result_task, offsetof(parcae_result, task) == 16);
PARCAE_ASSERT(parcae_result_others, offsetof(parcae_result, others) == 24);

/* The figures of a tenant. Shares are fractions of the time of all workers while they work. */
typedef struct parcae_tenant {
    /* sizeof(parcae_tenant): tells versions of this structure apart. */
    size_t size;
    /* Its weight. */
    uint32_t weight;
    /* Open nurseries. */
    uint32_t open;
    /* Time that its tasks ran; 0 under the deterministic executor, which counts ops. */
    uint64_t ran_ns;
    /* Ops that its tasks have used. */
    uint64_t ops;
    /* Turns in which its tasks ran. */
    uint64_t turns;
    /* Number of those that ended early, because a tenant with shorter slices was woken. */
    uint64_t preempted;
    /* Number of its tasks that wait for any worker. */
    uint64_t queued;
    /* The share that its weight stands for, among the tenants that are open. */
    double wanted;
    /* The share that it could have: no more than workers have ready tasks of it. */
    double feasible;
    /* The share that it got lately. */
    double got;
} parcae_tenant;
PARCAE_ASSERT(parcae_tenant, sizeof(parcae_tenant) == 80);
PARCAE_ASSERT(parcae_tenant_size, offsetof(parcae_tenant, size) == 0);
PARCAE_ASSERT(parcae_tenant_weight, offsetof(parcae_tenant, weight) == 8);
PARCAE_ASSERT(parcae_tenant_open, offsetof(parcae_tenant, open) == 12);
PARCAE_ASSERT(parcae_tenant_ran_ns, offsetof(parcae_tenant, ran_ns) == 16);
PARCAE_ASSERT(parcae_tenant_ops, offsetof(parcae_tenant, ops) == 24);
PARCAE_ASSERT(parcae_tenant_turns, offsetof(parcae_tenant, turns) == 32);
PARCAE_ASSERT(parcae_tenant_preempted, offsetof(parcae_tenant, preempted) == 40);
PARCAE_ASSERT(parcae_tenant_queued, offsetof(parcae_tenant, queued) == 48);
PARCAE_ASSERT(parcae_tenant_wanted, offsetof(parcae_tenant, wanted) == 56);
PARCAE_ASSERT(parcae_tenant_feasible, offsetof(parcae_tenant, feasible) == 64);
PARCAE_ASSERT(parcae_tenant_got, offsetof(parcae_tenant, got) == 72);

/* A stall report, for parcae_rt_on_stall: a worker does not return from a task. Valid during
 * the call. */
typedef struct parcae_stall {
    /* sizeof(parcae_stall) of the library. */
    size_t size;
    /* PARCAE_STALL_COMPUTING and so on. */
    int32_t kind;
    /* The number of the worker. Temporary workers have the numbers after the others. */
    uint32_t worker;
    /* The task that it runs; 0 if the worker did not answer. */
    uint64_t task;
    /* How long the worker has made no progress. */
    uint64_t still_for_ns;
    /* A line with the task and the remedy, then a backtrace. */
    const char *text;
} parcae_stall;
PARCAE_ASSERT(parcae_stall, sizeof(parcae_stall) == 40);
PARCAE_ASSERT(parcae_stall_size, offsetof(parcae_stall, size) == 0);
PARCAE_ASSERT(parcae_stall_kind, offsetof(parcae_stall, kind) == 8);
PARCAE_ASSERT(parcae_stall_worker, offsetof(parcae_stall, worker) == 12);
PARCAE_ASSERT(parcae_stall_task, offsetof(parcae_stall, task) == 16);
PARCAE_ASSERT(parcae_stall_still_for_ns, offsetof(parcae_stall, still_for_ns) == 24);
PARCAE_ASSERT(parcae_stall_text, offsetof(parcae_stall, text) == 32);

/* The words that a yield check reads. Belongs to one task, at the same address until the task
 * ends. */
typedef struct parcae_meter {
    /* Ops until the next slow path. */
    uint64_t slice;
    /* Raised when the task is cancelled. */
    const uint64_t *limit;
    /* Raised when the task has to take the slow path. */
    const uint32_t *signal;
} parcae_meter;
PARCAE_ASSERT(parcae_meter, sizeof(parcae_meter) == 24);
PARCAE_ASSERT(parcae_meter_slice, offsetof(parcae_meter, slice) == 0);
PARCAE_ASSERT(parcae_meter_limit, offsetof(parcae_meter, limit) == 8);
PARCAE_ASSERT(parcae_meter_signal, offsetof(parcae_meter, signal) == 16);

/* A message to an actor, or its answer. */
typedef struct parcae_message {
    /* The program's own number: the kind of the message, or all of it. */
    uint64_t tag;
    /* A pointer, which is not dereferenced; or the bytes, if there is a size. */
    void *data;
    /* How many bytes belong to the message. They are copied when it is sent. 0: data itself
     * is the message. */
    size_t size;
    /* Destroys data; may be NULL. Called once, when the message was handled or lost. Ignored
     * when bytes are sent. Must not wait. */
    parcae_drop_fn drop;
} parcae_message;
PARCAE_ASSERT(parcae_message, sizeof(parcae_message) == 32);
PARCAE_ASSERT(parcae_message_tag, offsetof(parcae_message, tag) == 0);
PARCAE_ASSERT(parcae_message_data, offsetof(parcae_message, data) == 8);
PARCAE_ASSERT(parcae_message_size, offsetof(parcae_message, size) == 16);
PARCAE_ASSERT(parcae_message_drop, offsetof(parcae_message, drop) == 24);

/* How an incarnation of an actor ended. */
typedef struct parcae_exit {
    /* PARCAE_EXIT_FINISHED and so on. */
    int32_t kind;
    /* The negative code that its function returned; 0 if it ended otherwise. */
    int64_t code;
    /* The number of the incarnation, from 1. */
    uint64_t incarnation;
    /* How many messages it handled. */
    uint64_t handled;
    /* The same in words. Valid during the callback, or as long as the parcae_watch. */
    const char *text;
} parcae_exit;
PARCAE_ASSERT(parcae_exit, sizeof(parcae_exit) == 40);
PARCAE_ASSERT(parcae_exit_kind, offsetof(parcae_exit, kind) == 0);
PARCAE_ASSERT(parcae_exit_code, offsetof(parcae_exit, code) == 8);
PARCAE_ASSERT(parcae_exit_incarnation, offsetof(parcae_exit, incarnation) == 16);
PARCAE_ASSERT(parcae_exit_handled, offsetof(parcae_exit, handled) == 24);
PARCAE_ASSERT(parcae_exit_text, offsetof(parcae_exit, text) == 32);

/* The circumstances of an incarnation. */
typedef struct parcae_birth {
    /* Its number, from 1. */
    uint64_t incarnation;
    /* The end of the one before; NULL for the first. */
    const parcae_exit *last;
} parcae_birth;
PARCAE_ASSERT(parcae_birth, sizeof(parcae_birth) == 16);
PARCAE_ASSERT(parcae_birth_incarnation, offsetof(parcae_birth, incarnation) == 0);
PARCAE_ASSERT(parcae_birth_last, offsetof(parcae_birth, last) == 8);

/* An event, which goes before all messages. */
typedef struct parcae_event {
    /* PARCAE_EVENT_DOWN: a monitored actor has ended; or PARCAE_EVENT_TIMER. */
    int32_t kind;
    /* The number of the monitor. */
    uint64_t monitor;
    /* The name of the actor that has ended, or the key of the timer. */
    const char *name;
    /* How that actor ended; NULL for a timer. */
    const parcae_exit *exit;
    /* Ticks of a periodic timer that were left out because the actor was busy. */
    uint64_t missed;
} parcae_event;
PARCAE_ASSERT(parcae_event, sizeof(parcae_event) == 40);
PARCAE_ASSERT(parcae_event_kind, offsetof(parcae_event, kind) == 0);
PARCAE_ASSERT(parcae_event_monitor, offsetof(parcae_event, monitor) == 8);
PARCAE_ASSERT(parcae_event_name, offsetof(parcae_event, name) == 16);
PARCAE_ASSERT(parcae_event_exit, offsetof(parcae_event, exit) == 24);
PARCAE_ASSERT(parcae_event_missed, offsetof(parcae_event, missed) == 32);

/* Options of a supervisor. Zeros, except for the size, are the defaults. */
typedef struct parcae_supervise_opts {
    /* sizeof(parcae_supervise_opts). */
    size_t size;
    /* Its name, which must be free in its system; NULL: none. */
    const char *name;
    /* PARCAE_ONE_FOR_ONE, _ONE_FOR_ALL or _REST_FOR_ONE. */
    int32_t strategy;
    /* The most restarts within a period; with one more it gives up. 0, and no period: 3 within
     * 30 seconds. */
    uint32_t restarts;
    /* That period. */
    uint64_t period_ns;
    /* The delay before the first restart of a child, which doubles with each further one, up
     * to the next field; 0: none. */
    uint64_t backoff_least_ns;
    /* The longest such delay. */
    uint64_t backoff_most_ns;
    /* Restarts that are moved out of the allowance of the supervisor above; 0: it is shared. */
    uint64_t allowance;
    /* PARCAE_END_NEVER, _WITH_ANY or _WITH_ALL of its significant children. */
    int32_t end;
    /* The most children at a time; 0: no limit. */
    size_t at_most;
    /* Supervisors among which the children of a dynamic one are divided; 0: one. */
    uint32_t shards;
    /* A capability to recharge: children that run out of budget are suspended and get a slice.
     * NULL: they fail. */
    parcae_cap *recharge;
    /* That slice. */
    const janus_budget *recharge_slice;
    /* The least time between two slices of one account; 0: none. */
    uint64_t recharge_period_ns;
} parcae_supervise_opts;
PARCAE_ASSERT(parcae_supervise_opts, sizeof(parcae_supervise_opts) == 104);
PARCAE_ASSERT(parcae_supervise_opts_size, offsetof(parcae_supervise_opts, size) == 0);
PARCAE_ASSERT(parcae_supervise_opts_name, offsetof(parcae_supervise_opts, name) == 8);
PARCAE_ASSERT(parcae_supervise_opts_strategy, offsetof(parcae_supervise_opts, strategy) == 16);
PARCAE_ASSERT(parcae_supervise_opts_restarts, offsetof(parcae_supervise_opts, restarts) == 20);
PARCAE_ASSERT(parcae_supervise_opts_period_ns, offsetof(parcae_supervise_opts, period_ns) == 24);
PARCAE_ASSERT(parcae_supervise_opts_backoff_least_ns, offsetof(parcae_supervise_opts, backoff_least_ns) == 32);
PARCAE_ASSERT(parcae_supervise_opts_backoff_most_ns, offsetof(parcae_supervise_opts, backoff_most_ns) == 40);
PARCAE_ASSERT(parcae_supervise_opts_allowance, offsetof(parcae_supervise_opts, allowance) == 48);
PARCAE_ASSERT(parcae_supervise_opts_end, offsetof(parcae_supervise_opts, end) == 56);
PARCAE_ASSERT(parcae_supervise_opts_at_most, offsetof(parcae_supervise_opts, at_most) == 64);
PARCAE_ASSERT(parcae_supervise_opts_shards, offsetof(parcae_supervise_opts, shards) == 72);
PARCAE_ASSERT(parcae_supervise_opts_recharge, offsetof(parcae_supervise_opts, recharge) == 80);
PARCAE_ASSERT(parcae_supervise_opts_recharge_slice, offsetof(parcae_supervise_opts, recharge_slice) == 88);
PARCAE_ASSERT(parcae_supervise_opts_recharge_period_ns, offsetof(parcae_supervise_opts, recharge_period_ns) == 96);

/* Options of a system of actors. Zeros, except for the size, are the defaults. */
typedef struct parcae_actors_opts {
    /* sizeof(parcae_actors_opts). */
    size_t size;
    /* For errors and tools; may be NULL. */
    const char *name;
    /* The budget that all actors share, moved out of the opener's; may be NULL. */
    const janus_budget *budget;
    /* Restarts that the whole tree may make; 0: 1000. */
    uint64_t restarts;
    /* How many dead letters are kept for tools; 0: 128. */
    size_t dead_letters;
    /* The supervisor of actors that parcae_actor_start starts in the system; may be NULL. */
    const parcae_supervise_opts *root;
} parcae_actors_opts;
PARCAE_ASSERT(parcae_actors_opts, sizeof(parcae_actors_opts) == 48);
PARCAE_ASSERT(parcae_actors_opts_size, offsetof(parcae_actors_opts, size) == 0);
PARCAE_ASSERT(parcae_actors_opts_name, offsetof(parcae_actors_opts, name) == 8);
PARCAE_ASSERT(parcae_actors_opts_budget, offsetof(parcae_actors_opts, budget) == 16);
PARCAE_ASSERT(parcae_actors_opts_restarts, offsetof(parcae_actors_opts, restarts) == 24);
PARCAE_ASSERT(parcae_actors_opts_dead_letters, offsetof(parcae_actors_opts, dead_letters) == 32);
PARCAE_ASSERT(parcae_actors_opts_root, offsetof(parcae_actors_opts, root) == 40);

/* An actor: its functions and options. Zeros, except for size and handle, are the defaults. */
typedef struct parcae_actor_opts {
    /* sizeof(parcae_actor_opts). */
    size_t size;
    /* Its name, which must be free in its system; NULL: none. */
    const char *name;
    /* Makes the state of an incarnation, and stores it to *state. A negative code is a failed
     * start. NULL: the state of all incarnations is arg. */
    parcae_actor_start_fn start;
    /* Handles a message. The data of the message is destroyed afterwards; a handler that keeps
     * it sets message->drop to NULL. reply is NULL for a message that was told. Returns
     * PARCAE_NEXT_CONTINUE, _HIBERNATE or _STOP; a negative code is a failure, as
     * parcae_task_panic is. */
    parcae_actor_handle_fn handle;
    /* Handles an event, with the same results; may be NULL. */
    parcae_actor_event_fn event;
    /* Runs at the end of every incarnation that has started; may be NULL. Shielded from
     * cancellation for stop_within_ns. */
    parcae_actor_stop_fn stop;
    /* Destroys a state that start has made; may be NULL. Called once for each. Must not wait. */
    parcae_drop_fn drop;
    /* The argument of start. It must live until the system has ended. */
    void *arg;
    /* PARCAE_MAILBOX_BLOCK, _REFUSE, _DROP_OLDEST, _DROP_NEWEST, _LATEST (by tag) or
     * _RENDEZVOUS. */
    int32_t mailbox;
    /* How many messages the mailbox holds; 0: 64. */
    uint32_t capacity;
    /* PARCAE_TRANSIENT, _PERMANENT or _TEMPORARY. */
    int32_t restart;
    /* Whether its end can end its supervisor: 1 or 0. */
    int32_t significant;
    /* Time that it has to stop before it is cancelled; 0: 5 seconds. */
    uint64_t stop_within_ns;
    /* Time that it has to start; 0: a minute. */
    uint64_t start_within_ns;
    /* A budget of its own for each incarnation, moved out of its supervisor's; may be NULL. */
    const janus_budget *budget;
    /* The ops that a handler may use for one message; one that uses more fails. 0: no limit. */
    uint64_t message_ops;
} parcae_actor_opts;
PARCAE_ASSERT(parcae_actor_opts, sizeof(parcae_actor_opts) == 112);
PARCAE_ASSERT(parcae_actor_opts_size, offsetof(parcae_actor_opts, size) == 0);
PARCAE_ASSERT(parcae_actor_opts_name, offsetof(parcae_actor_opts, name) == 8);
PARCAE_ASSERT(parcae_actor_opts_start, offsetof(parcae_actor_opts, start) == 16);
PARCAE_ASSERT(parcae_actor_opts_handle, offsetof(parcae_actor_opts, handle) == 24);
PARCAE_ASSERT(parcae_actor_opts_event, offsetof(parcae_actor_opts, event) == 32);
PARCAE_ASSERT(parcae_actor_opts_stop, offsetof(parcae_actor_opts, stop) == 40);
PARCAE_ASSERT(parcae_actor_opts_drop, offsetof(parcae_actor_opts, drop) == 48);
PARCAE_ASSERT(parcae_actor_opts_arg, offsetof(parcae_actor_opts, arg) == 56);
PARCAE_ASSERT(parcae_actor_opts_mailbox, offsetof(parcae_actor_opts, mailbox) == 64);
PARCAE_ASSERT(parcae_actor_opts_capacity, offsetof(parcae_actor_opts, capacity) == 68);
PARCAE_ASSERT(parcae_actor_opts_restart, offsetof(parcae_actor_opts, restart) == 72);
PARCAE_ASSERT(parcae_actor_opts_significant, offsetof(parcae_actor_opts, significant) == 76);
PARCAE_ASSERT(parcae_actor_opts_stop_within_ns, offsetof(parcae_actor_opts, stop_within_ns) == 80);
PARCAE_ASSERT(parcae_actor_opts_start_within_ns, offsetof(parcae_actor_opts, start_within_ns) == 88);
PARCAE_ASSERT(parcae_actor_opts_budget, offsetof(parcae_actor_opts, budget) == 96);
PARCAE_ASSERT(parcae_actor_opts_message_ops, offsetof(parcae_actor_opts, message_ops) == 104);

/* The short names of the specification. */
#ifndef PARCAE_NO_SHORT_NAMES
typedef janus_task_fn TaskFn;
typedef janus_noarg_task_fn NoArgTaskFn;
typedef janus_budget Budget;
typedef janus_runtime_config RuntimeConfig;
typedef janus_scheduler_config SchedulerConfig;
typedef janus_runtime Runtime;
typedef janus_cancel_token CancelToken;
#endif

/* ----- Frozen: runtime and nurseries ------------------------------------------------------------- */

/* These names, signatures and results do not change within a major version. */

/* Starts the runtime. Calls that need a runtime start one with default settings. On failure
 * the last error has the reason. During a shutdown it waits until the old runtime is gone. */
void janus_rt_init(janus_runtime_config config);

/* Ends the runtime: cancels the remaining tasks, waits for them, and ends the workers. Does
 * nothing if there is no runtime. The next call that needs a runtime starts another, with
 * default settings. Not allowed on a task or in a callback. */
void janus_rt_shutdown(void);

/* The runtime, which is started if there is none. NULL on failure. */
janus_runtime *janus_rt_get(void);

/* Opens a nursery, which is the caller's innermost until janus_nursery_await_all. Starts the
 * runtime with default settings if there is none, also after a shutdown; during a shutdown it
 * waits until the old runtime is gone. NULL on failure. */
void *janus_nursery_create(void);

/* Spawns a child of the innermost nursery that the caller has open. 0, or -1 on failure.
 * Neither waits nor starts a thread. The task may continue on another thread after each wait:
 * it must not keep thread-local data, or the address of such data (errno!), across a wait. */
int janus_nursery_spawn(janus_task_fn task, void *arg);

/* Closes the innermost nursery that the caller has open: waits for all its children. 0 if they
 * succeeded, PARCAE_CANCELLED, PARCAE_PANIC, PARCAE_BUDGET, or the negative code of the first
 * child that failed. Also -1 if there is no nursery; parcae_last_error_kind distinguishes the
 * two. It is the only wait of a task that is not a cancel point. */
long janus_nursery_await_all(void);

/* ----- Adapters for compilers -------------------------------------------------------------------- */

/* The scheduler under the names that generated code uses. It is the same runtime. */

/* Starts the runtime and returns it; NULL on failure. A process has one runtime for C: while
 * it runs, a second scheduler is refused with NULL and PARCAE_E_RUNNING. */
void *janus_scheduler_create(janus_scheduler_config config);

/* Ends the runtime that janus_scheduler_create, or janus_rt_get, has returned. */
void janus_scheduler_shutdown(void *scheduler);

/* As janus_nursery_spawn; task is a janus_task_fn. */
int janus_scheduler_spawn(void *task, void *arg);

/* Yields to other tasks. 0, or -1 if the task was cancelled. */
int janus_scheduler_yield(void);

/* How many turns tasks have run in total. */
uint64_t janus_scheduler_stats(void);

/* The remaining budget of the running task; unlimited outside of tasks. */
janus_budget janus_budget_get_current(void);

/* Adds to the budget that the running task draws from, by the authority of its capability in
 * use (parcae_cap_use). 0, or -1 if there is none or it does not allow the amount. */
int janus_budget_recharge(janus_budget amount);

/* ----- Runtime ----------------------------------------------------------------------------------- */

/* Starts the runtime with default settings. 0, or -1 on failure or if it runs already. */
int janus_rt_init_default(void);

/* Whether the runtime runs: 1 or 0. */
int janus_rt_is_running(void);

/* Fills a configuration with the defaults: the service profile, threads, nothing counted. */
int parcae_config_init(parcae_config *config);

/* Starts the runtime; NULL: with default settings. 0, or -1 on failure or if it runs
 * already. */
int parcae_rt_init(const parcae_config *config);

/* The profile of the runtime, or -1 if there is none. */
int parcae_rt_profile(void);

/* How many tasks have not ended. 0 if there is no runtime. */
uint64_t parcae_rt_live_tasks(void);

/* How many workers run tasks, or -1 if there is no runtime. */
int parcae_rt_workers(void);

/* Sets the function that is called when a worker of the current runtime is stuck: a task
 * computes without a yield check, or blocks its thread, for a second or more. It is called
 * once for each stall, on a thread of the runtime that runs no tasks, and must not wait
 * for long. NULL is the default: the report is written to standard error. When this call
 * has returned, the previous function is not running. The setting ends with the runtime.
 * 0, or -1 if there is no runtime. */
int parcae_rt_on_stall(parcae_stall_fn callback, void *arg);

/* The version of the library: major, minor and patch in two decimal digits each.
 * PARCAE_VERSION is that of the header. */
int parcae_version(void);

/* The same as a text. */
const char *parcae_version_text(void);

/* ----- Errors ------------------------------------------------------------------------------------ */

/* Each task and each thread has its own last error. */

/* The text of the last error; empty if there was none. The text stays valid until the same
 * caller has failed 16 more times, or has ended, so several texts can be arguments of one
 * printf. parcae_clear_error does not free it. */
const char *parcae_last_error(void);

/* Copies the text of the last error, as snprintf does: at most size bytes, including the 0 at
 * the end, which is always written if size is not 0. Returns the length of the text without
 * the 0. buffer may be NULL if size is 0. */
size_t parcae_last_error_copy(char *buffer, size_t size);

/* The kind of the last error: PARCAE_E_NONE and so on. */
int parcae_last_error_kind(void);

/* Clears the last error. */
void parcae_clear_error(void);

/* ----- Nurseries --------------------------------------------------------------------------------- */

/* Opens a nursery with options; NULL: as janus_nursery_create. */
void *parcae_nursery_open(const parcae_nursery_opts *opts);

/* As janus_nursery_await_all, for a nursery by its handle, which has to be the innermost. */
long parcae_nursery_close(void *nursery);

/* PARCAE_PENDING while the nursery has live children, PARCAE_OK when it has none. Does not
 * wait. */
parcae_status parcae_nursery_poll(void *nursery);

/* The full result of the caller's last await. 0, or -1 if result is NULL. */
int parcae_last_result(parcae_result *result);

/* Spawns a child without an argument. */
int janus_nursery_spawn_noarg(janus_noarg_task_fn task);

/* Spawns a child whose result is an int32_t; it is widened with its sign. */
int janus_nursery_spawn_i32(parcae_task_fn_i32 task, void *arg);

/* The same without an argument. */
int janus_nursery_spawn_noarg_i32(parcae_noarg_task_fn_i32 task);

/* How many children of the innermost nursery have not ended; -1 if there is no nursery. */
int janus_nursery_task_count(void);

/* Cancels the innermost nursery, its children, and their nurseries. */
void janus_nursery_cancel(void);

/* Cancels a nursery by its handle, from any task or thread. 0 or -1. */
int parcae_nursery_cancel(void *nursery);

/* Whether the innermost nursery was cancelled; without one, whether the task was. 1 or 0. */
int janus_nursery_is_cancelled(void);

/* The token of the innermost nursery; destroy it after use. NULL if there is no nursery. */
janus_cancel_token *janus_nursery_get_token(void);

/* How many nurseries the caller has open. */
int parcae_nursery_depth(void);

/* ----- Shares ------------------------------------------------------------------------------------ */

/* A nursery with a share is a tenant: its tasks get time by weight, beside other tenants. */

/* Changes the weight of a nursery that was opened with a share; NULL: of the caller's
 * innermost. It holds from the next turn of each worker on. 0 or -1. */
int parcae_nursery_set_share(void *nursery, uint32_t share);

/* The figures of the tenant with this name; NULL: of all tasks without a tenant. Set
 * figures->size first. 0, or -1 if no nursery of this name has ever had a share. */
int parcae_tenant_get(const char *name, parcae_tenant *figures);

/* ----- Tasks ------------------------------------------------------------------------------------- */

/* Spawns a child with options, which may be NULL, and returns a handle for joining it. nursery
 * is one that the caller has open; NULL is the innermost. The handle is valid until
 * parcae_task_join, parcae_task_release or the end of its nursery. */
parcae_task *parcae_spawn(void *nursery, janus_task_fn task, void *arg, const parcae_spawn_opts *opts);

/* Waits for one child. Returns PARCAE_OK and stores its value, if value is not NULL. If the
 * child returned a negative code, returns PARCAE_ERROR and stores that code. Ends the handle,
 * also if the caller was cancelled; the child then continues. */
parcae_status parcae_task_join(parcae_task *task, int64_t *value);

/* Whether a child has ended: 1 or 0; -1 for an invalid handle. */
int parcae_task_is_finished(parcae_task *task);

/* Cancels one child. 0 or -1. */
int parcae_task_cancel(parcae_task *task);

/* Ends the handle; the child continues, and its nursery waits for it. 0 or -1. */
int parcae_task_release(parcae_task *task);

/* The number of a task, unique in its runtime; 0 for an invalid handle. */
uint64_t parcae_task_id(parcae_task *task);

/* The number of the running task; 0 outside of tasks. */
uint64_t parcae_task_self(void);

/* How much stack the running task has left, in bytes; SIZE_MAX outside of tasks. */
size_t parcae_stack_left(void);

/* Yields to other tasks. A cancel point. */
parcae_status parcae_yield(void);

/* The meter of the running task, for parcae_yield_check. Outside of tasks, the thread's meter,
 * which never runs out. */
parcae_meter *parcae_meter_get(void);

/* The slow path of parcae_yield_check: yields, draws the next slice of the budget, waits for a
 * recharge, or returns why the task has to end. */
parcae_status parcae_yield_slow(void);

/* Ends the running task as if its function had returned code. Its stack is unwound:
 * C functions are skipped as by longjmp, C++ destructors run. Outside of a task it aborts the process. */
PARCAE_NORETURN void parcae_task_exit(int64_t code);

/* Fails the running task in the same way: the result of its nursery is PARCAE_PANIC, with this message. */
PARCAE_NORETURN void parcae_task_panic(const char *message);

/* ----- Budgets ----------------------------------------------------------------------------------- */

/* Charges the running task, all or nothing; waits for a recharge if its nursery's policy is
 * PARCAE_SUSPEND. Outside of tasks nothing is counted. PARCAE_BUDGET if the budget is too
 * small, PARCAE_CANCELLED if the task was cancelled. */
parcae_status parcae_charge(janus_budget cost);

/* Charges loop iterations or calls. */
parcae_status parcae_charge_ops(uint64_t ops);

/* Charges an allocation: its bytes, and one op. */
parcae_status parcae_charge_memory(uint64_t bytes);

/* Charges children, with one op each. */
parcae_status parcae_charge_spawns(uint64_t children);

/* Charges operations on channels, with one op each. */
parcae_status parcae_charge_channel_ops(uint64_t operations);

/* Charges file or network operations, with one op each. */
parcae_status parcae_charge_syscalls(uint64_t operations);

/* The number of a child of the caller that waits for a recharge; each call returns another
 * one, if there is one. 0 if there is none. */
uint64_t janus_supervisor_poll_exhausted(void);

/* Recharges a child of the caller that waits for a recharge, up to the limit of the
 * capability. Needs the cluster profile. 0 or -1. */
int janus_budget_recharge_child(uint64_t child_task_id, janus_budget amount, parcae_cap *cap);

/* ----- Time -------------------------------------------------------------------------------------- */

/* Sleeps. On a task the task is parked, and the sleep is a cancel point; elsewhere the thread
 * sleeps. */
parcae_status parcae_sleep_ns(uint64_t nanoseconds);

/* ----- Blocking calls and mutexes ---------------------------------------------------------------- */

/* Calls a blocking function on a thread for such calls: the calling task is parked until the
 * function has returned, and its worker runs other tasks. There are at most 128 such threads;
 * further calls wait. The function runs on no task: it must not end or yield one. Returns
 * PARCAE_OK and stores the function's result, if value is not NULL; PARCAE_CANCELLED if the
 * task was cancelled before the call began. Once the call has begun, the task waits for it
 * even if it is cancelled. Outside of tasks the function is called directly. */
parcae_status parcae_blocking(janus_task_fn function, void *arg, int64_t *value);

/* Creates a mutex for any task or thread. A task that waits for it is parked, and it may be
 * held across waits, unlike a pthread_mutex_t. */
void *parcae_mutex_create(void);

/* Waits until the mutex is free, and locks it. A cancel point if it has to wait. PARCAE_OK,
 * PARCAE_CANCELLED, or PARCAE_ERROR if the handle is invalid or the caller holds the mutex
 * already. */
parcae_status parcae_mutex_lock(void *mutex);

/* Locks the mutex if it is free: PARCAE_OK; otherwise PARCAE_PENDING. */
parcae_status parcae_mutex_try_lock(void *mutex);

/* Unlocks the mutex. 0, or -1 if the caller does not hold it. */
int parcae_mutex_unlock(void *mutex);

/* Destroys a mutex that is neither held nor waited for. 0 or -1. */
int parcae_mutex_destroy(void *mutex);

/* ----- Tokens ------------------------------------------------------------------------------------ */

/* Creates a token without a parent. */
janus_cancel_token *janus_cancel_token_create(void);

/* Creates a token that is cancelled with its parent. */
janus_cancel_token *janus_cancel_token_child(janus_cancel_token *parent);

/* Whether the token was cancelled: 1 or 0. An invalid handle counts as cancelled, so that no
 * loop waits for it. */
int janus_cancel_token_is_cancelled(janus_cancel_token *token);

/* The reason of the cancellation: PARCAE_NOT_CANCELLED, PARCAE_EXPLICIT and so on; -1 for an
 * invalid handle. */
int parcae_cancel_token_reason(janus_cancel_token *token);

/* Cancels the token and all tokens below it. */
void janus_cancel_token_cancel(janus_cancel_token *token);

/* Calls a function once when the token is cancelled, on the thread that cancels it;
 * immediately if it was cancelled before. Removed when the token is destroyed. The function
 * must not wait. 0 or -1. */
int parcae_cancel_token_on_cancel(janus_cancel_token *token, parcae_cancel_fn callback, void *arg);

/* Ends the handle. Cancellations stay in effect. */
void janus_cancel_token_destroy(janus_cancel_token *token);

/* ----- Channels ---------------------------------------------------------------------------------- */

/* Creates a channel of int64_t. A capacity of 0 or less is a rendezvous: a send waits for
 * its receive. NULL on failure. */
void *janus_channel_create_i64(int32_t capacity);

/* The same, by the authority of a capability. */
void *parcae_channel_create_i64(int32_t capacity, parcae_cap *cap);

/* Closes a channel and ends its handle. Its waiters are woken. */
void janus_channel_destroy_i64(void *channel);

/* Sends; waits while the channel is full. 0, or -1 if the channel is closed or the task
 * was cancelled. */
int janus_channel_send_i64(void *channel, int64_t value);

/* Receives; waits for a value. On failure *error is -1 and the result INT64_MIN; otherwise
 * *error is 0. error may be NULL. */
int64_t janus_channel_recv_i64(void *channel, int32_t *error);

/* Sends without waiting: 1; 0 if it would have to wait; -1 on failure. */
int janus_channel_try_send_i64(void *channel, int64_t value);

/* Receives without waiting: 1; 0 if it would have to wait; -1 on failure. */
int janus_channel_try_recv_i64(void *channel, int64_t *value);

/* Sends; waits no longer than the given time. */
parcae_status parcae_channel_send_timeout_i64(void *channel, int64_t value, uint64_t nanoseconds);

/* Receives; waits no longer than the given time. */
parcae_status parcae_channel_recv_timeout_i64(void *channel, int64_t *value, uint64_t nanoseconds);

/* Closes the channel: values in it can still be received, no more can be sent. Closing it
 * again has no effect. */
void janus_channel_close_i64(void *channel);

/* Whether the channel is closed: 1 or 0. An invalid handle counts as closed. */
int32_t janus_channel_is_closed_i64(void *channel);

/* How many values are in the channel; -1 on failure. */
int32_t janus_channel_len_i64(void *channel);

/* Creates a channel of pointers, which are never dereferenced. Pointers that are in it
 * when it is destroyed are not freed. */
void *janus_channel_create_ptr(int32_t capacity);

/* The same, by the authority of a capability. */
void *parcae_channel_create_ptr(int32_t capacity, parcae_cap *cap);

/* As janus_channel_destroy_i64. */
void janus_channel_destroy_ptr(void *channel);

/* As janus_channel_send_i64. */
int janus_channel_send_ptr(void *channel, void *value);

/* As janus_channel_recv_i64; NULL on failure. */
void *janus_channel_recv_ptr(void *channel, int32_t *error);

/* As janus_channel_try_send_i64. */
int janus_channel_try_send_ptr(void *channel, void *value);

/* As janus_channel_try_recv_i64. */
int janus_channel_try_recv_ptr(void *channel, void **value);

/* As janus_channel_close_i64. */
void janus_channel_close_ptr(void *channel);

/* As janus_channel_is_closed_i64. */
int32_t janus_channel_is_closed_ptr(void *channel);

/* As janus_channel_len_i64. */
int32_t janus_channel_len_ptr(void *channel);

/* ----- Select ------------------------------------------------------------------------------------ */

/* Creates a select without cases. It can be used for any number of waits, by one task or
 * thread at a time. */
void *janus_select_create(void);

/* Ends the handle. */
void janus_select_destroy(void *select);

/* Adds a case: receive from a channel of int64_t. Its index, or -1. */
int janus_select_add_recv(void *select, void *channel);

/* Adds a case: send to a channel of int64_t. */
int janus_select_add_send(void *select, void *channel, int64_t value);

/* Adds a case: receive from a channel of pointers. */
int janus_select_add_recv_ptr(void *select, void *channel);

/* Adds a case: send to a channel of pointers. */
int janus_select_add_send_ptr(void *select, void *channel, void *value);

/* Adds a case: the given time has passed. */
int janus_select_add_timeout(void *select, int64_t milliseconds);

/* Adds a case: a token was cancelled. */
int parcae_select_add_token(void *select, janus_cancel_token *token);

/* Adds a case that is taken if no other case is possible immediately. */
int janus_select_add_default(void *select);

/* Waits until one case has happened, and returns its index; -1 if the task was cancelled, or
 * there are no cases. Among several possible cases one is chosen at random. */
int janus_select_wait(void *select);

/* The value that the winning case has received; INT64_MIN if its channel is closed, or another
 * case won. */
int64_t janus_select_get_recv_value(void *select, int32_t case_index);

/* The same for a channel of pointers, with NULL for INT64_MIN. */
void *janus_select_get_recv_ptr(void *select, int32_t case_index);

/* Whether the case won because its channel is closed: 1 or 0; -1 if another case won. */
int parcae_select_is_closed(void *select, int32_t case_index);

/* ----- Capabilities ------------------------------------------------------------------------------ */

/* The owner of the runtime has all authority in it, and passes on parts of it as capabilities. */

/* Mints a capability to spawn: at most max_tasks at a time, each with at most task_budget. Not
 * allowed on a task. NULL on failure. */
parcae_cap *parcae_cap_spawn(uint32_t max_tasks, janus_budget task_budget, int32_t delegable);

/* Mints a capability to recharge, up to total. Not allowed on a task. */
parcae_cap *parcae_cap_budget(janus_budget total, int32_t delegable);

/* Mints a capability to create channels: at most max_channels at a time, each with a capacity
 * of at most max_buffer. Not allowed on a task. */
parcae_cap *parcae_cap_channel(uint32_t max_channels, size_t max_buffer, int32_t delegable);

/* Derives a weaker capability to spawn from a delegable one. NULL on failure. */
parcae_cap *parcae_cap_spawn_attenuate(parcae_cap *cap, uint32_t max_tasks, janus_budget task_budget);

/* Derives a weaker capability to recharge from a delegable one. */
parcae_cap *parcae_cap_budget_attenuate(parcae_cap *cap, janus_budget total);

/* Sets the capability in use for the calling task or thread: a spawn capability for
 * janus_nursery_spawn in the sovereign profile, a recharge capability for
 * janus_budget_recharge. Children do not inherit it. 0 or -1. */
int parcae_cap_use(parcae_cap *cap);

/* Revokes a capability and all capabilities derived from it, with immediate effect. 0 or -1. */
int parcae_cap_revoke(parcae_cap *cap);

/* Ends the handle. The capability is freed with its last use. 0 or -1. */
int parcae_cap_release(parcae_cap *cap);

/* ----- Actors: systems and supervisors ----------------------------------------------------------- */

/* Only in the cluster profile. A system, an address and the functions below may be used by any task or thread. */

/* Opens a system of actors, in a nursery of its own, which is the caller's innermost until
 * parcae_actors_close. opts may be NULL. NULL on failure. */
parcae_actors *parcae_actors_open(const parcae_actors_opts *opts);

/* Stops the actors of a system, in the reverse order of their start, and waits until all have
 * ended. The system has to be the caller's innermost nursery, which this closes; so does
 * janus_nursery_await_all. The result is that of a nursery: less than 0 if a supervisor has
 * given up. */
long parcae_actors_close(parcae_actors *actors);

/* Starts an actor in a system or under a dynamic supervisor, and waits until it has started.
 * The address is valid until parcae_address_free. NULL on failure. */
parcae_address *parcae_actor_start(parcae_actors *actors, const parcae_actor_opts *opts);

/* Starts a supervisor whose children are started while it runs, by parcae_actor_start. The
 * handle is valid until the system is closed. NULL on failure. */
parcae_actors *parcae_actors_dynamic(parcae_actors *actors, const parcae_supervise_opts *opts);

/* Starts a supervisor with children, and waits until all have started. The callback names
 * them, in the order of their start; it is called again when the supervisor is restarted, and
 * a negative code of it is a failed start. 0 or -1. */
int parcae_actors_supervise(parcae_actors *actors, const parcae_supervise_opts *opts, parcae_children_fn children, void *arg);

/* In the callback of parcae_actors_supervise: adds an actor. NULL on failure. */
parcae_address *parcae_children_actor(parcae_children *children, const parcae_actor_opts *opts);

/* In the same callback: adds a supervisor with children of its own. 0 or -1. */
int parcae_children_supervisor(parcae_children *children, const parcae_supervise_opts *opts, parcae_children_fn below, void *arg);

/* The actor with this name, with an address of its own for parcae_address_free. NULL if there
 * is none. */
parcae_address *parcae_actor_find(parcae_actors *actors, const char *name);

/* How many messages no handler has seen to its end, for this reason: PARCAE_LETTER_OVERFLOW
 * and so on. */
uint64_t parcae_actors_dead_letters(parcae_actors *actors, int32_t reason);

/* How many restarts the system has left. */
uint64_t parcae_actors_restarts_left(parcae_actors *actors);

/* ----- Actors: messages, calls, monitors --------------------------------------------------------- */

/* A call that is not answered says why by parcae_last_error_kind: PARCAE_E_FULL, _EXPIRED, _RESTARTING, _GONE,
 * _REFUSED, _CYCLE, _NO_REPLY or _FAILED. */

/* Sends a message; waits while the mailbox is full, unless its kind says otherwise. A message
 * that was not sent stays the caller's. */
parcae_status parcae_tell(parcae_address *address, const parcae_message *message);

/* The same, and waits no longer than the given time: PARCAE_E_EXPIRED. */
parcae_status parcae_tell_within(parcae_address *address, const parcae_message *message, uint64_t nanoseconds);

/* The same, and does not wait: PARCAE_E_FULL. */
parcae_status parcae_try_tell(parcae_address *address, const parcae_message *message);

/* Sends a request, and waits for the answer no longer than the given time, which has to be
 * more than 0. The deadline travels with the request. The request belongs to the actor, also
 * if the call fails. answer may be NULL; destroy it with parcae_message_free. */
parcae_status parcae_call(parcae_address *address, const parcae_message *request, uint64_t within_ns, parcae_message *answer);

/* Answers a call, and ends the handle. The message belongs to the caller of the call, or is
 * destroyed if that has given up. 0 or -1. */
int parcae_reply_send(parcae_reply *reply, const parcae_message *answer);

/* Keeps the handle for an answer after the handler has returned, by any task or thread. Only
 * in that handler. 0 or -1. */
int parcae_reply_keep(parcae_reply *reply);

/* Ends the handle without an answer: the call fails with PARCAE_E_NO_REPLY. 0 or -1. */
int parcae_reply_drop(parcae_reply *reply);

/* Destroys the data of a message that the caller owns, and empties the message. NULL is fine. */
void parcae_message_free(parcae_message *message);

/* Asks an actor to stop after the message that it handles. */
parcae_status parcae_actor_stop(parcae_address *address);

/* Asks an actor to stop when it has handled all messages in its mailbox. */
parcae_status parcae_actor_drain(parcae_address *address);

/* Cancels an actor: its handler ends at its next wait or yield check. */
parcae_status parcae_actor_kill(parcae_address *address);

/* How many messages are in the mailbox; SIZE_MAX for an invalid handle. */
size_t parcae_actor_queued(parcae_address *address);

/* Whether the actor has ended for good: 1 or 0; -1 for an invalid handle. */
int parcae_actor_is_gone(parcae_address *address);

/* A weaker address: it only sends messages. NULL on failure, as for those below. */
parcae_address *parcae_address_tell_only(parcae_address *address);

/* A weaker address, for so many messages and calls. */
parcae_address *parcae_address_at_most(parcae_address *address, uint64_t messages);

/* A weaker address, for so many messages and calls in each period. */
parcae_address *parcae_address_at_rate(parcae_address *address, uint64_t messages, uint64_t period_ns);

/* A weaker address, which is valid for this time. */
parcae_address *parcae_address_for(parcae_address *address, uint64_t nanoseconds);

/* An address of the incarnation that runs now, and of no later one. */
parcae_address *parcae_address_this_life(parcae_address *address);

/* A weaker address that parcae_address_revoke takes back, with all that were made from it. */
parcae_address *parcae_address_revocable(parcae_address *address);

/* Takes an address of parcae_address_revocable back. 0 or -1. */
int parcae_address_revoke(parcae_address *address);

/* Ends the handle of an address; the actor is unaffected. 0 or -1. */
int parcae_address_free(parcae_address *address);

/* Monitors the incarnation of an actor that runs now. If none runs, it has ended already. NULL
 * on failure. */
parcae_watch *parcae_actor_watch(parcae_address *address);

/* Waits until that incarnation has ended, no longer than the given time (PARCAE_E_TIMED_OUT);
 * 0: without a limit. exit may be NULL. */
parcae_status parcae_watch_wait(parcae_watch *watch, uint64_t nanoseconds, parcae_exit *exit);

/* PARCAE_PENDING while that incarnation runs, PARCAE_OK when it has ended. Does not wait. exit
 * may be NULL. */
parcae_status parcae_watch_poll(parcae_watch *watch, parcae_exit *exit);

/* Ends a monitor. 0 or -1. */
int parcae_watch_free(parcae_watch *watch);

/* ----- Actors: in a function of an actor --------------------------------------------------------- */

/* These fail elsewhere, in other tasks that the actor has spawned too. */

/* The actor's own address. The handle is valid until the incarnation ends: do not free it. */
parcae_address *parcae_actor_self(void);

/* Monitors an actor: PARCAE_EVENT_DOWN comes once, when the incarnation that runs now has
 * ended, or at once if there is none. Returns the number of the monitor; 0 on failure. */
uint64_t parcae_actor_monitor(parcae_address *address);

/* Ends a monitor of that actor. Its event does not come any more. 0 or -1. */
int parcae_actor_demonitor(parcae_address *address, uint64_t monitor);

/* Links this actor with another one: if one of them ends by a failure, the other fails too.
 * 0 or -1. */
int parcae_actor_link(parcae_address *address);

/* Sets a timer: PARCAE_EVENT_TIMER comes once, after this time. A timer of the same key is
 * replaced. 0 or -1. */
int parcae_actor_timer(const char *key, uint64_t nanoseconds);

/* Sets a periodic timer. Ticks for which the actor had no time are left out and counted. 0 or
 * -1. */
int parcae_actor_timer_every(const char *key, uint64_t period_ns);

/* Cancels a timer: 1, or 0 if there is none with this key; -1 on failure. */
int parcae_actor_timer_cancel(const char *key);

/* As parcae_call, and handles requests of that actor, and of those that it calls in turn,
 * while it waits: the handler is called again inside of this call, with the same state. */
parcae_status parcae_call_serving(parcae_address *address, const parcae_message *request, uint64_t within_ns, parcae_message *answer);

/* ----- Yield checks -----------------------------------------------------------------------------
 *
 * A yield check charges one op. meter is the result of parcae_meter_get(); call that once per task and keep it: it
 * stays valid when the task continues on another thread. Generated code may do the same without this function:
 * if slice > (*limit | *signal), subtract one from slice and continue; otherwise call parcae_yield_slow().
 * Read limit and signal anew each time. Returns PARCAE_OK, or why the task has to end.
 */
static inline parcae_status parcae_yield_check(parcae_meter *meter)
{
    uint64_t raised = *(const volatile uint64_t *)meter->limit | *(const volatile uint32_t *)meter->signal;
    if (meter->slice > raised) {
        meter->slice -= 1;
        return PARCAE_OK;
    }
    return parcae_yield_slow();
}

#ifdef __cplusplus
}
#endif

#endif
