/* The specification's declarations, literally, behind those of the header: a compiler refuses
 * what differs. Then they are called, so that what is passed and returned by value is what was
 * declared. */
#include "check.h"

void janus_rt_init(RuntimeConfig config);
void janus_rt_shutdown(void);
Runtime *janus_rt_get(void);

void *janus_nursery_create(void);
int janus_nursery_spawn(TaskFn fn, void *arg);
long janus_nursery_await_all(void);

void *janus_scheduler_create(SchedulerConfig config);
void janus_scheduler_shutdown(void *scheduler);
int janus_scheduler_spawn(void *func, void *arg);
int janus_scheduler_yield(void);
Budget janus_budget_get_current(void);
int janus_budget_recharge(Budget amount);

PARCAE_ASSERT(literal_cancelled, PARCAE_CANCELLED == -1);
PARCAE_ASSERT(literal_panic, PARCAE_PANIC == -2);
PARCAE_ASSERT(literal_budget, PARCAE_BUDGET == -3);
PARCAE_ASSERT(literal_pending, PARCAE_PENDING == -4);
PARCAE_ASSERT(literal_size, sizeof(Budget) == 40); /* too large for registers: goes through memory */

static Budget seen;

static int64_t looks(void *arg)
{
    Budget more = {1000, 2000, 30, 400, 50};
    CHECK(parcae_cap_use(arg) == 0);
    CHECK(janus_budget_recharge(more) == 0); /* five numbers by value, on the stack */
    seen = janus_budget_get_current();       /* and five come back, where the caller wants them */
    return 0;
}

int main(void)
{
    SchedulerConfig config = {3, 0};
    void *scheduler = janus_scheduler_create(config);
    CHECK(scheduler != NULL && parcae_rt_workers() == 3);
    CHECK(janus_scheduler_create(config) == NULL); /* one runtime in a process */
    parcae_cap *cap = parcae_cap_budget(unlimited(), PARCAE_NOT_DELEGABLE);

    /* Each component has its own place, and keeps it both ways. */
    Budget pool = {100000, 200000, 3000, 40000, 5000}, each = {10000, 20000, 300, 4000, 500};
    parcae_nursery_opts opts = nursery_opts();
    opts.budget = &pool;
    opts.child_budget = &each;
    opts.on_exhausted = PARCAE_FAIL;
    CHECK(parcae_nursery_open(&opts) != NULL);
    union {
        TaskFn function;
        void *pointer;
    } as = {looks};
    CHECK(janus_scheduler_spawn(as.pointer, cap) == 0);
    CHECK(janus_scheduler_yield() == 0 && janus_nursery_await_all() == 0);
    printf("ops %llu, memory %llu, spawn_count %llu, channel_ops %llu, syscalls %llu\n",
           (unsigned long long)seen.ops, (unsigned long long)seen.memory,
           (unsigned long long)seen.spawn_count, (unsigned long long)seen.channel_ops,
           (unsigned long long)seen.syscalls);
    /* What a child has left is near what it was given, whatever is charged on the way;
     * components are far apart. */
    CHECK(seen.ops > 9000 && seen.ops <= 101000);
    CHECK(seen.memory >= 19000 && seen.memory <= 202000 && seen.memory != seen.ops);
    CHECK(seen.spawn_count >= 290 && seen.spawn_count <= 3030);
    CHECK(seen.channel_ops >= 3900 && seen.channel_ops <= 40400);
    CHECK(seen.syscalls >= 490 && seen.syscalls <= 5050);
    janus_scheduler_shutdown(scheduler);

    RuntimeConfig seeded = {2, 42};
    janus_rt_init(seeded);
    CHECK(janus_rt_get() != NULL && parcae_rt_workers() == 2);
    janus_rt_shutdown();
    return 0;
}
