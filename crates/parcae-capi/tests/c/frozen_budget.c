/* A runtime with a budget of its own: then the frozen functions alone come to -3. */
#include "check.h"

static int64_t leaf(void *arg)
{
    __atomic_add_fetch((int64_t *)arg, 1, __ATOMIC_RELAXED);
    return 0;
}

/* Spawns until it cannot pay, and hands on what it was told. Frozen functions only. */
static int64_t spawns_for_ever(void *arg)
{
    if (janus_nursery_create() == NULL)
        return -50;
    int spawned;
    do
        spawned = janus_nursery_spawn(leaf, arg);
    while (spawned == 0);
    return spawned; /* -1; the nursery that is open is ended with the task */
}

/* Knows nothing of budgets: compiled with checks at its branches. */
static volatile uint64_t found;

static int64_t computes_for_ever(void *arg)
{
    (void)arg;
    for (uint64_t n = 1; n != 0; n++)
        if (n % 1000 == 0)
            found++;
    return 0;
}

static void bounded(Budget budget)
{
    parcae_config config;
    CHECK(parcae_config_init(&config) == 0);
    config.workers = 2;
    config.budget = budget;
    CHECK(parcae_rt_init(&config) == 0);
}

int main(void)
{
    int64_t ran = 0;
    Budget few = unlimited();
    few.spawn_count = 100;
    bounded(few);
    CHECK(janus_nursery_create() != NULL);
    /* A child gets no spawns where they are counted; one that has none is told so at once. */
    CHECK(janus_nursery_spawn(spawns_for_ever, &ran) == 0);
    CHECK(janus_nursery_await_all() == -3);
    CHECK(ran <= 100);
    janus_rt_shutdown();

    bounded(only_ops(200000));
    CHECK(janus_nursery_create() != NULL);
    CHECK(janus_nursery_spawn(computes_for_ever, NULL) == 0);
    CHECK(janus_nursery_await_all() == -3);
    CHECK(found > 0);
    janus_rt_shutdown();

    /* Without one, nothing is counted: the same children as before, in a runtime that starts by
     * itself. */
    CHECK(janus_nursery_create() != NULL);
    for (int i = 0; i < 200; i++)
        CHECK(janus_nursery_spawn(leaf, &ran) == 0);
    CHECK(janus_nursery_await_all() == 0 && ran >= 200);
    janus_rt_shutdown();
    return 0;
}
