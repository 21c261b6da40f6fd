/* Yield checks: counted like every op, and how a loop that never waits is stopped. */
#include "check.h"

static int64_t counts(void *arg)
{
    (void)arg;
    parcae_meter *meter = parcae_meter_get();
    CHECK(meter == parcae_meter_get());
    uint64_t before = janus_budget_get_current().ops;
    for (int i = 0; i < 5000; i++)
        CHECK(parcae_yield_check(meter) == PARCAE_OK);
    CHECK(before - janus_budget_get_current().ops == 5000);
    CHECK(meter == parcae_meter_get()); /* wherever the task is now */
    /* In a nursery of its own, and after it. */
    janus_nursery_create();
    CHECK(parcae_yield_check(meter) == PARCAE_OK);
    janus_nursery_cancel();
    CHECK_FAILS(parcae_yield_check(meter) == PARCAE_CANCELLED, PARCAE_E_CANCELLED);
    CHECK(janus_nursery_await_all() == PARCAE_CANCELLED);
    CHECK(parcae_yield_check(meter) == PARCAE_OK);
    return 0;
}

static int turns;

static int64_t takes_turns(void *arg)
{
    (void)arg;
    while (turns < 100) {
        turns++;
        CHECK(parcae_yield() == PARCAE_OK);
    }
    return 0;
}

int main(void)
{
    parcae_meter *meter = parcae_meter_get(); /* of a thread */
    for (int i = 0; i < 100000; i++)
        CHECK(parcae_yield_check(meter) == PARCAE_OK);

    start(PARCAE_SERVICE, 1);
    janus_budget budget = only_ops(100000);
    parcae_nursery_opts opts = nursery_opts();
    opts.budget = &budget;
    opts.slice = &budget;
    CHECK(parcae_nursery_open(&opts) != NULL);
    CHECK(janus_nursery_spawn(counts, NULL) == 0);
    CHECK(janus_nursery_await_all() == 0);

    /* One worker: others have their turn beside a task that only computes. */
    janus_nursery_create();
    parcae_task *spinner = parcae_spawn(NULL, compute_for_ever, NULL, NULL);
    parcae_task *other = parcae_spawn(NULL, takes_turns, NULL, NULL);
    CHECK(parcae_task_join(other, NULL) == PARCAE_OK && turns == 100);
    CHECK(parcae_task_cancel(spinner) == 0);
    CHECK_FAILS(parcae_task_join(spinner, NULL) == PARCAE_CANCELLED, PARCAE_E_CANCELLED);
    CHECK(janus_nursery_await_all() == 0);
    janus_rt_shutdown();
    return 0;
}
