/* Parcae: tasks that run on budgets, in nurseries. The manual is docs/c.md.
 *
 * Printed by `cargo run -p parcae-capi --bin parcae-header`: change the Rust sources, not this file.
 *
 * Handles look like pointers and are numbers: they are looked up, never followed. What is not said
 * to be for any task or thread is for the one that made it. Functions that return parcae_status give PARCAE_OK or
 * a negative code; others give -1, NULL or what they say. parcae_last_error tells more.
 */
#ifndef PARCAE_H
#define PARCAE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Checked when this is compiled, in C99 and in C++. */
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

/* What parcae_result.kind says. */
enum {
    PARCAE_SUCCESS = 0,
    PARCAE_WAS_CANCELLED = 1,
    PARCAE_CHILD_FAILED = 2,
    PARCAE_PANICKED = 3,
    PARCAE_BUDGET_EXCEEDED = 4,
    PARCAE_STILL_PENDING = 5,
};

/* What parcae_last_error_kind says. */
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
};

/* Why something was cancelled. */
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

/* What a child's failure means for the others. */
enum {
    PARCAE_FAIL_FAST = 0,
    PARCAE_ISOLATE = 1,
    PARCAE_COLLECT = 2,
};

/* What happens to a child that has used up its budget. */
enum {
    PARCAE_INHERIT = 0,
    PARCAE_REFILL = 1,
    PARCAE_SUSPEND = 2,
    PARCAE_FAIL = 3,
};

/* How urgent a child is. */
enum {
    PARCAE_NORMAL = 0,
    PARCAE_LOW = 1,
    PARCAE_HIGH = 2,
};

/* What a worker does that is stuck: parcae_stall.kind. */
enum {
    PARCAE_STALL_UNKNOWN = 0,
    PARCAE_STALL_COMPUTING = 1,
    PARCAE_STALL_BLOCKED = 2,
    PARCAE_STALL_STARVED = 3,
};

/* Whether capabilities may be derived from one. */
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

/* What a task runs: 0 or more for success, less for failure. */
typedef int64_t (*janus_task_fn)(void *arg);
typedef int64_t (*janus_noarg_task_fn)(void);
typedef int32_t (*parcae_task_fn_i32)(void *arg);
typedef int32_t (*parcae_noarg_task_fn_i32)(void);
/* What a token calls when it is cancelled. */
typedef void (*parcae_cancel_fn)(void *arg, int32_t reason);
/* What is called when a worker is stuck. */
struct parcae_stall;
typedef void (*parcae_stall_fn)(void *arg, const struct parcae_stall *stall);
/* PARCAE_OK, PARCAE_CANCELLED and so on. */
typedef int32_t parcae_status;
/* A component of a budget that is not counted. */
#define PARCAE_UNLIMITED UINT64_MAX

typedef struct janus_runtime janus_runtime;
typedef struct parcae_task parcae_task;
typedef struct janus_cancel_token janus_cancel_token;
typedef struct parcae_cap parcae_cap;

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

/* How the runtime is set up, in the frozen form. */
typedef struct janus_runtime_config {
    /* How many workers run tasks; 0: as many as the machine runs in parallel. */
    uint32_t worker_count;
    /* 0: threads. Otherwise all workers run in turn on the thread that starts the runtime, in an order
     * that follows from this number. */
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

/* How the runtime is set up, in full. Fill it with parcae_config_init first. */
typedef struct parcae_config {
    /* sizeof(parcae_config): tells versions of this structure apart. */
    size_t size;
    /* PARCAE_CORE, _SERVICE, _CLUSTER or _SOVEREIGN. */
    int32_t profile;
    /* How many workers run tasks; 0: as many as the machine runs in parallel. */
    uint32_t workers;
    /* PARCAE_THREADS or PARCAE_DETERMINISTIC. */
    int32_t executor;
    /* How many ops a task does before it lets others run; 0: as the profile says. */
    uint32_t yield_interval;
    /* What random choices start from. */
    uint64_t seed;
    /* How much stack a task gets, in bytes; 0: as the profile says. */
    size_t stack_size;
    /* The most stacks at a time; 0: no limit of its own. */
    size_t max_stacks;
    /* What all tasks together may use. */
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

/* How a nursery is set up. All zeros but for the size: nothing special. */
typedef struct parcae_nursery_opts {
    /* sizeof(parcae_nursery_opts): tells versions of this structure apart. */
    size_t size;
    /* For errors and tools; may be NULL. */
    const char *name;
    /* A budget of its own, moved out of that of its opener; may be NULL. */
    const janus_budget *budget;
    /* What each child may use in all, moved out of the nursery's budget; may be NULL. Binds,
     * also where nothing else is counted. */
    const janus_budget *child_budget;
    /* PARCAE_FAIL_FAST, _ISOLATE or _COLLECT. */
    int32_t on_failure;
    /* PARCAE_INHERIT, _REFILL, _SUSPEND or _FAIL. */
    int32_t on_exhausted;
    /* Cancels the nursery after this time; 0: never. */
    uint64_t timeout_ns;
    /* How much stack a child gets, in bytes; 0: as the runtime says. */
    size_t stack_size;
    /* What a child draws at a time from a nursery that counts; NULL: 10000 ops, 1 MiB,
     * 100 channel_ops, 10 syscalls. The first child of a nursery with less gets all of it. */
    const janus_budget *slice;
} parcae_nursery_opts;
PARCAE_ASSERT(parcae_nursery_opts, sizeof(parcae_nursery_opts) == 64);
PARCAE_ASSERT(parcae_nursery_opts_size, offsetof(parcae_nursery_opts, size) == 0);
PARCAE_ASSERT(parcae_nursery_opts_name, offsetof(parcae_nursery_opts, name) == 8);
PARCAE_ASSERT(parcae_nursery_opts_budget, offsetof(parcae_nursery_opts, budget) == 16);
PARCAE_ASSERT(parcae_nursery_opts_child_budget, offsetof(parcae_nursery_opts, child_budget) == 24);
PARCAE_ASSERT(parcae_nursery_opts_on_failure, offsetof(parcae_nursery_opts, on_failure) == 32);
PARCAE_ASSERT(parcae_nursery_opts_on_exhausted, offsetof(parcae_nursery_opts, on_exhausted) == 36);
PARCAE_ASSERT(parcae_nursery_opts_timeout_ns, offsetof(parcae_nursery_opts, timeout_ns) == 40);
PARCAE_ASSERT(parcae_nursery_opts_stack_size, offsetof(parcae_nursery_opts, stack_size) == 48);
PARCAE_ASSERT(parcae_nursery_opts_slice, offsetof(parcae_nursery_opts, slice) == 56);

/* How a child is set up. All zeros but for the size: nothing special. */
typedef struct parcae_spawn_opts {
    /* sizeof(parcae_spawn_opts). */
    size_t size;
    /* For errors and tools; may be NULL. */
    const char *name;
    /* A budget of its own, moved out of its nursery's; may be NULL. */
    const janus_budget *budget;
    /* How much stack it gets, in bytes; 0: as its nursery says. */
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
    /* PARCAE_SUCCESS and so on: tells a child's own code from those of the runtime. */
    int32_t kind;
    /* Why it was cancelled, if it was: PARCAE_EXPLICIT and so on. */
    int32_t reason;
    /* What janus_nursery_await_all returned. */
    int64_t code;
    /* The child that failed; 0 if none did. */
    uint64_t task;
    /* How many others failed after it. */
    uint64_t others;
} parcae_result;
PARCAE_ASSERT(parcae_result, sizeof(parcae_result) == 32);
PARCAE_ASSERT(parcae_result_kind, offsetof(parcae_result, kind) == 0);
PARCAE_ASSERT(parcae_result_reason, offsetof(parcae_result, reason) == 4);
PARCAE_ASSERT(parcae_result_code, offsetof(parcae_result, code) == 8);
PARCAE_ASSERT(parcae_result_task, offsetof(parcae_result, task) == 16);
PARCAE_ASSERT(parcae_result_others, offsetof(parcae_result, others) == 24);

/* A worker that does not come back from a task, for parcae_rt_on_stall. Valid during the call. */
typedef struct parcae_stall {
    /* sizeof(parcae_stall), as the library has it. */
    size_t size;
    /* PARCAE_STALL_COMPUTING and so on. */
    int32_t kind;
    /* Which worker. Temporary ones have the numbers after those of the others. */
    uint32_t worker;
    /* The task that it runs; 0 if the worker could not be asked. */
    uint64_t task;
    /* How long it has been seen without a step. */
    uint64_t still_for_ns;
    /* A line that names task and remedy, and where the worker is, line by line. */
    const char *text;
} parcae_stall;
PARCAE_ASSERT(parcae_stall, sizeof(parcae_stall) == 40);
PARCAE_ASSERT(parcae_stall_size, offsetof(parcae_stall, size) == 0);
PARCAE_ASSERT(parcae_stall_kind, offsetof(parcae_stall, kind) == 8);
PARCAE_ASSERT(parcae_stall_worker, offsetof(parcae_stall, worker) == 12);
PARCAE_ASSERT(parcae_stall_task, offsetof(parcae_stall, task) == 16);
PARCAE_ASSERT(parcae_stall_still_for_ns, offsetof(parcae_stall, still_for_ns) == 24);
PARCAE_ASSERT(parcae_stall_text, offsetof(parcae_stall, text) == 32);

/* What a yield check looks at. At one address for as long as the task lives; the task's own. */
typedef struct parcae_meter {
    /* Ops until the next turn of others. */
    uint64_t slice;
    /* Raised when the task is cancelled. */
    const uint64_t *limit;
    /* Raised when the task has to look around. */
    const uint32_t *signal;
} parcae_meter;
PARCAE_ASSERT(parcae_meter, sizeof(parcae_meter) == 24);
PARCAE_ASSERT(parcae_meter_slice, offsetof(parcae_meter, slice) == 0);
PARCAE_ASSERT(parcae_meter_limit, offsetof(parcae_meter, limit) == 8);
PARCAE_ASSERT(parcae_meter_signal, offsetof(parcae_meter, signal) == 16);

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

/* Starts the runtime. Calls that need one start one with all defaults. If it fails the last
 * error says why. A shutdown that is just going on is waited for. */
void janus_rt_init(janus_runtime_config config);

/* Ends the runtime: cancels what is left, waits for it, and ends the workers. Does nothing if
 * there is none. The next call that needs a runtime starts another, with all defaults. Not
 * from a task or a callback. */
void janus_rt_shutdown(void);

/* The runtime, which is started if there is none. NULL on failure. */
janus_runtime *janus_rt_get(void);

/* Opens a nursery, which is the caller's innermost until janus_nursery_await_all. Starts the
 * runtime, with all defaults, if there is none: also after a shutdown; one that is just going
 * on is waited for. NULL on failure. */
void *janus_nursery_create(void);

/* Spawns a child of the innermost nursery that the caller has open. 0, or -1 on failure. Neither waits nor starts a
 * thread. The task may go on on another thread after each wait: it must not keep thread-local data, or
 * its address (errno!), over one. */
int janus_nursery_spawn(janus_task_fn task, void *arg);

/* Closes the innermost nursery that the caller has open: waits for all its children. 0 if they succeeded,
 * PARCAE_CANCELLED, PARCAE_PANIC, PARCAE_BUDGET, or the negative code that the first child to fail has returned.
 * -1 as well if there is no nursery; parcae_last_error_kind tells them apart. It is a task's only wait that is no cancel point. */
long janus_nursery_await_all(void);

/* ----- Adapters for compilers -------------------------------------------------------------------- */

/* The scheduler by the names that generated code uses. There is one runtime, and it is this one. */

/* Starts the runtime and returns it; NULL if it failed. A process has one runtime for C: while
 * it runs, a second scheduler is refused with NULL and PARCAE_E_RUNNING. */
void *janus_scheduler_create(janus_scheduler_config config);

/* Ends the runtime that janus_scheduler_create, or janus_rt_get, has returned. */
void janus_scheduler_shutdown(void *scheduler);

/* As janus_nursery_spawn; task is a janus_task_fn. */
int janus_scheduler_spawn(void *task, void *arg);

/* Lets others run. 0, or -1 if the task was cancelled. */
int janus_scheduler_yield(void);

/* How many times tasks were run, in all. */
uint64_t janus_scheduler_stats(void);

/* What the running task has left; unlimited outside of tasks. */
janus_budget janus_budget_get_current(void);

/* Adds to the budget that the running task draws on, by the authority of the capability that the task has
 * put to use with parcae_cap_use. 0, or -1 without one, or if it does not allow it. */
int janus_budget_recharge(janus_budget amount);

/* ----- Runtime ----------------------------------------------------------------------------------- */

/* Starts the runtime with all defaults. 0, or -1 if it failed or runs already. */
int janus_rt_init_default(void);

/* Whether the runtime runs: 1 or 0. */
int janus_rt_is_running(void);

/* Fills a configuration with the defaults: the service profile, threads, nothing counted. */
int parcae_config_init(parcae_config *config);

/* Starts the runtime; NULL: with all defaults. 0, or -1 if it failed or runs already. */
int parcae_rt_init(const parcae_config *config);

/* The profile of the runtime, or -1 if there is none. */
int parcae_rt_profile(void);

/* How many tasks have not ended. 0 if there is no runtime. */
uint64_t parcae_rt_live_tasks(void);

/* How many workers run tasks, or -1 if there is no runtime. */
int parcae_rt_workers(void);

/* Calls a function when a worker of the runtime that runs now is stuck: a task computes
 * without a yield check, or blocks its thread, for a second or more. Once for each stall,
 * on a thread of the runtime that runs no tasks; it must not wait for long. NULL, and what
 * holds without this: the report is written to the standard error. When this has returned
 * the function before is not running any more. Goes with the runtime. 0, or -1 if there is
 * none. */
int parcae_rt_on_stall(parcae_stall_fn callback, void *arg);

/* The version of the library: major, minor and patch in two decimal digits each. PARCAE_VERSION is that of
 * the header. */
int parcae_version(void);

/* The same as a text. */
const char *parcae_version_text(void);

/* ----- Errors ------------------------------------------------------------------------------------ */

/* The last error is the calling task's, or thread's, own. */

/* What the last call that failed had to say; empty if none has. The text stays valid until the
 * same caller has failed 16 more times, or has ended: two of them fit into one printf.
 * parcae_clear_error does not free it. */
const char *parcae_last_error(void);

/* Copies that text, as snprintf does: at most size bytes with the 0 at the end, which is
 * always there if size is not 0. Returns how long the text is, without the 0. buffer may be
 * NULL if size is 0. */
size_t parcae_last_error_copy(char *buffer, size_t size);

/* The kind of the last error: PARCAE_E_NONE and so on. */
int parcae_last_error_kind(void);

/* Forgets the last error. */
void parcae_clear_error(void);

/* ----- Nurseries --------------------------------------------------------------------------------- */

/* Opens a nursery with options; NULL: as janus_nursery_create. */
void *parcae_nursery_open(const parcae_nursery_opts *opts);

/* As janus_nursery_await_all, for a nursery by its handle. It has to be the innermost. */
long parcae_nursery_close(void *nursery);

/* PARCAE_PENDING while the nursery has children that run, PARCAE_OK when it has none. Does not wait. */
parcae_status parcae_nursery_poll(void *nursery);

/* What the caller's last await came to, in full. 0, or -1 if result is NULL. */
int parcae_last_result(parcae_result *result);

/* Spawns a child without an argument. */
int janus_nursery_spawn_noarg(janus_noarg_task_fn task);

/* Spawns a child whose result is an int32_t; it is widened with its sign. */
int janus_nursery_spawn_i32(parcae_task_fn_i32 task, void *arg);

/* The same without an argument. */
int janus_nursery_spawn_noarg_i32(parcae_noarg_task_fn_i32 task);

/* How many children of the innermost nursery have not ended; -1 if there is no nursery. */
int janus_nursery_task_count(void);

/* Cancels the innermost nursery: its children and their children are asked to end. */
void janus_nursery_cancel(void);

/* Cancels a nursery by its handle, from any task or thread. 0 or -1. */
int parcae_nursery_cancel(void *nursery);

/* Whether the innermost nursery was cancelled; without one, whether the task was. 1 or 0. */
int janus_nursery_is_cancelled(void);

/* The token of the innermost nursery, to be destroyed; NULL without one. */
janus_cancel_token *janus_nursery_get_token(void);

/* How many nurseries the caller has open. */
int parcae_nursery_depth(void);

/* ----- Tasks ------------------------------------------------------------------------------------- */

/* Spawns a child with options, which may be NULL, and returns a handle to join it with. nursery is one that
 * the caller has open; NULL is the innermost. The handle ends with parcae_task_join, parcae_task_release or its nursery. */
parcae_task *parcae_spawn(void *nursery, janus_task_fn task, void *arg, const parcae_spawn_opts *opts);

/* Waits for one child. PARCAE_OK and its value, if value is not NULL; or how it failed: a child's own negative code
 * comes as PARCAE_ERROR, with the code as the value. Ends the handle, also if the caller was cancelled: then the child goes on. */
parcae_status parcae_task_join(parcae_task *task, int64_t *value);

/* Whether a child has ended: 1 or 0; -1 for a handle that is none. */
int parcae_task_is_finished(parcae_task *task);

/* Asks one child to end, without the others. 0 or -1. */
int parcae_task_cancel(parcae_task *task);

/* Lets the child run on without a handle; its nursery waits for it. 0 or -1. */
int parcae_task_release(parcae_task *task);

/* The number of a task, unique in its runtime; 0 for a handle that is none. */
uint64_t parcae_task_id(parcae_task *task);

/* The number of the running task; 0 outside of tasks. */
uint64_t parcae_task_self(void);

/* How much stack the running task has left, in bytes; SIZE_MAX outside of tasks. */
size_t parcae_stack_left(void);

/* Lets others run. A cancel point. */
parcae_status parcae_yield(void);

/* The meter of the running task, for parcae_yield_check; outside of tasks that of the thread, which never runs out. */
parcae_meter *parcae_meter_get(void);

/* What parcae_yield_check does that cannot simply go on: lets others run, takes the next slice of the budget, waits
 * for a recharge, or says that the task is to end. */
parcae_status parcae_yield_slow(void);

/* Ends the running task as if its function had returned code. Its stack is unwound: functions of C are
 * left as if by longjmp, destructors of C++ run. Outside of a task it aborts the process. */
PARCAE_NORETURN void parcae_task_exit(int64_t code);

/* Fails the running task, in the same way: its nursery comes to PARCAE_PANIC, with this message. */
PARCAE_NORETURN void parcae_task_panic(const char *message);

/* ----- Budgets ----------------------------------------------------------------------------------- */

/* Charges the running task, all or nothing; waits for a recharge where its nursery says so. Nothing is counted outside of
 * tasks. PARCAE_BUDGET if there is not enough, PARCAE_CANCELLED if the task was. */
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

/* A child of the caller that waits for a recharge, by its number; another one at each call, as long as there are others. 0
 * if there is none. */
uint64_t janus_supervisor_poll_exhausted(void);

/* Recharges a child of the caller that waits for it, as far as the capability goes. Needs the cluster profile. 0
 * or -1. */
int janus_budget_recharge_child(uint64_t child_task_id, janus_budget amount, parcae_cap *cap);

/* ----- Time -------------------------------------------------------------------------------------- */

/* Waits. On a task the task is parked, and it is a cancel point; elsewhere the thread sleeps. */
parcae_status parcae_sleep_ns(uint64_t nanoseconds);

/* ----- Blocking calls and mutexes ---------------------------------------------------------------- */

/* Calls a function that blocks its thread, on a thread for such calls: the calling task is
 * parked until it has returned, and its worker runs others. There are 128 such threads at
 * most; more calls wait. The function is no task: it must not end or yield one. PARCAE_OK and
 * what it returned, if value is not NULL; PARCAE_CANCELLED if the task was cancelled before
 * the call began. A call that has begun is waited for. Outside of tasks it is called at once. */
parcae_status parcae_blocking(janus_task_fn function, void *arg, int64_t *value);

/* A mutex: for any task or thread. A task that waits for it is parked, and it may be held over
 * waits, unlike a pthread_mutex_t. */
void *parcae_mutex_create(void);

/* Waits until the mutex is free, and takes it. A cancel point if it has to wait. PARCAE_OK,
 * PARCAE_CANCELLED, or PARCAE_ERROR: the handle is none, or the caller has the mutex already. */
parcae_status parcae_mutex_lock(void *mutex);

/* Takes the mutex if it is free: PARCAE_OK; PARCAE_PENDING if it is not. */
parcae_status parcae_mutex_try_lock(void *mutex);

/* Gives the mutex back. 0, or -1 if the caller does not have it. */
int parcae_mutex_unlock(void *mutex);

/* Ends the handle of a mutex that nobody has or waits for. 0 or -1. */
int parcae_mutex_destroy(void *mutex);

/* ----- Tokens ------------------------------------------------------------------------------------ */

/* A token of its own. */
janus_cancel_token *janus_cancel_token_create(void);

/* A token that is cancelled with another. */
janus_cancel_token *janus_cancel_token_child(janus_cancel_token *parent);

/* Whether it was cancelled: 1 or 0. What is no token counts as cancelled, so that nobody waits for it. */
int janus_cancel_token_is_cancelled(janus_cancel_token *token);

/* Why it was cancelled: PARCAE_NOT_CANCELLED, PARCAE_EXPLICIT and so on; -1 for a handle that is none. */
int parcae_cancel_token_reason(janus_cancel_token *token);

/* Cancels it, and all that are derived from it. */
void janus_cancel_token_cancel(janus_cancel_token *token);

/* Calls a function once when the token is cancelled, on the thread that does it; at once if it is already. Taken
 * back when the token is destroyed. It must not wait. 0 or -1. */
int parcae_cancel_token_on_cancel(janus_cancel_token *token, parcae_cancel_fn callback, void *arg);

/* Ends the handle. What was cancelled stays so. */
void janus_cancel_token_destroy(janus_cancel_token *token);

/* ----- Channels ---------------------------------------------------------------------------------- */

/* A channel of int64_t. 0 or less: a send waits for its receive. NULL on failure. */
void *janus_channel_create_i64(int32_t capacity);

/* The same, by the authority of a capability. */
void *parcae_channel_create_i64(int32_t capacity, parcae_cap *cap);

/* Closes a channel and ends its handle. Who waits for it is woken. */
void janus_channel_destroy_i64(void *channel);

/* Sends; waits for room. 0, or -1 if the channel is closed or the task was cancelled. */
int janus_channel_send_i64(void *channel, int64_t value);

/* Receives; waits for a value. If it cannot, *error is -1, and the result INT64_MIN; otherwise 0. error may be NULL. */
int64_t janus_channel_recv_i64(void *channel, int32_t *error);

/* Sends if it need not wait: 1, or 0 if it would have to, or -1. */
int janus_channel_try_send_i64(void *channel, int64_t value);

/* Receives if it need not wait: 1, or 0 if it would have to, or -1. */
int janus_channel_try_recv_i64(void *channel, int64_t *value);

/* Sends, and waits no longer than this. */
parcae_status parcae_channel_send_timeout_i64(void *channel, int64_t value, uint64_t nanoseconds);

/* Receives, and waits no longer than this. */
parcae_status parcae_channel_recv_timeout_i64(void *channel, int64_t *value, uint64_t nanoseconds);

/* Closes: what is in it can still be received, nothing can be sent. Again: nothing happens. */
void janus_channel_close_i64(void *channel);

/* Whether it is closed: 1 or 0. What is no channel counts as closed. */
int32_t janus_channel_is_closed_i64(void *channel);

/* How many values are in it, or -1. */
int32_t janus_channel_len_i64(void *channel);

/* A channel of pointers, which are carried and not looked at. What is in it when it is destroyed is not freed. */
void *janus_channel_create_ptr(int32_t capacity);

/* The same, by the authority of a capability. */
void *parcae_channel_create_ptr(int32_t capacity, parcae_cap *cap);

/* As janus_channel_destroy_i64. */
void janus_channel_destroy_ptr(void *channel);

/* As janus_channel_send_i64. */
int janus_channel_send_ptr(void *channel, void *value);

/* As janus_channel_recv_i64; NULL if it cannot. */
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

/* A select without cases. It can be waited with again and again; by one task or thread at a time. */
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

/* Adds a case: so much time has passed. */
int janus_select_add_timeout(void *select, int64_t milliseconds);

/* Adds a case: a token was cancelled. */
int parcae_select_add_token(void *select, janus_cancel_token *token);

/* Adds a case: nothing else can happen at once. */
int janus_select_add_default(void *select);

/* Waits until one case has happened, and returns its index; -1 if the task was cancelled, or there are no cases. Of several
 * that can happen, one is chosen fairly. */
int janus_select_wait(void *select);

/* What the case that won has received; INT64_MIN if its channel is closed, or another won. */
int64_t janus_select_get_recv_value(void *select, int32_t case_index);

/* The same for a channel of pointers; NULL. */
void *janus_select_get_recv_ptr(void *select, int32_t case_index);

/* Whether the case won because its channel is closed: 1 or 0; -1 if another won. */
int parcae_select_is_closed(void *select, int32_t case_index);

/* ----- Capabilities ------------------------------------------------------------------------------ */

/* Whoever has the runtime has all authority in it, and gives parts of it away with these. */

/* Mints a capability to spawn: so many tasks at a time, each with so much. Not from a task. NULL on failure. */
parcae_cap *parcae_cap_spawn(uint32_t max_tasks, janus_budget task_budget, int32_t delegable);

/* Mints a capability to recharge, so much in all. Not from a task. */
parcae_cap *parcae_cap_budget(janus_budget total, int32_t delegable);

/* Mints a capability to make channels: so many at a time, each with so much room. Not from a task. */
parcae_cap *parcae_cap_channel(uint32_t max_channels, size_t max_buffer, int32_t delegable);

/* Derives a weaker capability to spawn from one that is delegable. NULL on failure. */
parcae_cap *parcae_cap_spawn_attenuate(parcae_cap *cap, uint32_t max_tasks, janus_budget task_budget);

/* Derives a weaker capability to recharge from one that is delegable. */
parcae_cap *parcae_cap_budget_attenuate(parcae_cap *cap, janus_budget total);

/* Puts a capability to use for the calling task or thread: one to spawn for janus_nursery_spawn in the sovereign
 * profile, one to recharge for janus_budget_recharge. Children do not inherit it. 0 or -1. */
int parcae_cap_use(parcae_cap *cap);

/* Revokes a capability and all that were derived from it, at once. 0 or -1. */
int parcae_cap_revoke(parcae_cap *cap);

/* Ends the handle. The capability is gone when nobody uses it any more. 0 or -1. */
int parcae_cap_release(parcae_cap *cap);

/* ----- Yield checks -----------------------------------------------------------------------------
 *
 * A yield check is one op. meter is parcae_meter_get(), asked for once and kept for as long as the task lives: it
 * stays where it is when the task goes on on another thread. Generated code may do the same without this
 * function: go on if slice > (*limit | *signal), and take one off slice; call parcae_yield_slow() otherwise.
 * limit and signal are read anew each time. PARCAE_OK, or why the task is to end.
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
