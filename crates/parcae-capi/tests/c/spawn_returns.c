/* A spawn returns whatever the workers do: all of them are stuck, and none comes back before all
 * children were spawned. A spawn that waited for a worker, a child or room would wait for ever. */
#include "check.h"
#include <unistd.h>

enum { CHILDREN = 3000 };
static int go_on;
static int64_t ended;

/* Blocks its worker, as each of its kind does: temporary workers that step in end up here as
 * well. */
static int64_t stuck(void *arg)
{
    (void)arg;
    while (!__atomic_load_n(&go_on, __ATOMIC_ACQUIRE))
        usleep(1000);
    __atomic_add_fetch(&ended, 1, __ATOMIC_RELAXED);
    return 0;
}

static int64_t spawns_from_a_task(void *arg)
{
    (void)arg;
    CHECK(janus_nursery_create() != NULL);
    for (int i = 0; i < CHILDREN; i++)
        CHECK(janus_nursery_spawn(stuck, NULL) == 0);
    CHECK(__atomic_load_n(&ended, __ATOMIC_RELAXED) == 0);
    __atomic_store_n(&go_on, 1, __ATOMIC_RELEASE);
    return janus_nursery_await_all();
}

static void quiet(void *arg, const parcae_stall *stall)
{
    (void)arg, (void)stall;
}

int main(void)
{
    start(PARCAE_SERVICE, 2);
    CHECK(parcae_rt_on_stall(quiet, NULL) == 0);
    CHECK(janus_nursery_create() != NULL);
    for (int i = 0; i < CHILDREN; i++)
        CHECK(janus_nursery_spawn(stuck, NULL) == 0);
    CHECK(__atomic_load_n(&ended, __ATOMIC_RELAXED) == 0);
    CHECK(janus_nursery_task_count() == CHILDREN);
    __atomic_store_n(&go_on, 1, __ATOMIC_RELEASE);
    CHECK(janus_nursery_await_all() == 0 && ended == CHILDREN);

    ended = go_on = 0;
    CHECK(janus_nursery_create() != NULL && janus_nursery_spawn(spawns_from_a_task, NULL) == 0);
    CHECK(janus_nursery_await_all() == 0 && ended == CHILDREN);
    janus_rt_shutdown();
    return 0;
}
