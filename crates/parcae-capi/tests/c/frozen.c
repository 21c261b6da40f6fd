/* The frozen functions, as the specification has them. */
#include "check.h"

static int64_t square(void *arg)
{
    int64_t *slot = arg;
    *slot *= *slot;
    return 0;
}

static int64_t nested(void *arg)
{
    int64_t slots[4] = {1, 2, 3, 4}, *sum = arg;
    CHECK(janus_nursery_create() != NULL);
    for (int i = 0; i < 4; i++)
        CHECK(janus_nursery_spawn(square, &slots[i]) == 0);
    CHECK(janus_nursery_await_all() == 0);
    for (int i = 0; i < 4; i++)
        *sum += slots[i];
    return 0;
}

int main(void)
{
    /* With the short names, and without anybody having started a runtime. */
    TaskFn task = square;
    int64_t slots[100];
    CHECK(janus_rt_is_running() == 0);
    void *nursery = janus_nursery_create();
    CHECK(nursery != NULL && janus_rt_is_running() == 1);
    for (int i = 0; i < 100; i++) {
        slots[i] = i;
        int spawned = janus_nursery_spawn(task, &slots[i]);
        CHECK(spawned == 0);
    }
    long result = janus_nursery_await_all();
    CHECK(result == 0);
    for (int i = 0; i < 100; i++)
        CHECK(slots[i] == (int64_t)i * i);

    /* Nurseries of this thread nest; those of tasks are theirs. */
    int64_t sum = 0;
    CHECK(janus_nursery_create() != NULL && janus_nursery_create() != NULL);
    CHECK(parcae_nursery_depth() == 2);
    CHECK(janus_nursery_spawn(nested, &sum) == 0);
    CHECK(janus_nursery_await_all() == 0 && sum == 30);
    CHECK(janus_nursery_spawn(nested, &sum) == 0);
    CHECK(janus_nursery_await_all() == 0 && sum == 60);

    Runtime *runtime = janus_rt_get();
    CHECK(runtime != NULL && runtime == janus_rt_get());
    janus_rt_shutdown();
    CHECK(janus_rt_is_running() == 0);

    RuntimeConfig config = {2, 0};
    janus_rt_init(config);
    CHECK(janus_rt_get() != NULL && janus_rt_get() != runtime && parcae_rt_workers() == 2);
    janus_rt_shutdown();

    /* The names that generated code uses. */
    SchedulerConfig scheduler_config = {1, 0};
    void *scheduler = janus_scheduler_create(scheduler_config);
    CHECK(scheduler != NULL);
    CHECK_FAILS(janus_scheduler_create(scheduler_config) == NULL, PARCAE_E_RUNNING);
    int64_t slot = 9;
    janus_nursery_create();
    union {
        janus_task_fn function;
        void *pointer;
    } as = {square};
    CHECK(janus_scheduler_spawn(as.pointer, &slot) == 0);
    CHECK(janus_scheduler_yield() == 0);
    CHECK(janus_nursery_await_all() == 0 && slot == 81);
    CHECK(janus_scheduler_stats() > 0);
    CHECK(janus_budget_get_current().ops == PARCAE_UNLIMITED);
    janus_scheduler_shutdown(scheduler);
    CHECK(janus_rt_is_running() == 0);
    CHECK(parcae_version() == PARCAE_VERSION && strcmp(parcae_version_text(), "0.1.0") == 0);
    return 0;
}
