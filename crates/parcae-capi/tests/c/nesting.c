/* The stack of nurseries is the task's: it goes where the task goes. Each task opens nurseries inside of each other and
 * lets others run at every step, so that tasks of the same thread are in the middle of theirs. */
#include "check.h"

enum { DEPTH = 4, TASKS = 64 };

static int64_t leaf(void *arg)
{
    CHECK(parcae_nursery_depth() == 0);
    CHECK_FAILS(janus_nursery_spawn(leaf, NULL) == -1, PARCAE_E_NO_NURSERY);
    int64_t *count = arg;
    parcae_yield();
    __atomic_add_fetch(count, 1, __ATOMIC_RELAXED);
    return 0;
}

static int64_t tree(void *arg)
{
    int64_t count[DEPTH] = {0};
    void *handle[DEPTH];
    for (int level = 0; level < DEPTH; level++) {
        handle[level] = janus_nursery_create();
        CHECK(handle[level] != NULL && parcae_nursery_depth() == level + 1);
        CHECK(parcae_yield() == PARCAE_OK);
        CHECK(janus_nursery_spawn(leaf, &count[level]) == 0);
    }
    /* An outer nursery by its handle, while inner ones are open. */
    CHECK(parcae_spawn(handle[0], leaf, &count[0], NULL) != NULL);
    CHECK_FAILS(parcae_nursery_close(handle[0]) == -1, PARCAE_E_ARGUMENT);
    for (int level = DEPTH; level-- > 0;) {
        CHECK(parcae_yield() == PARCAE_OK);
        CHECK(janus_nursery_spawn(leaf, &count[level]) == 0);
        CHECK(parcae_nursery_depth() == level + 1);
        if (level % 2)
            CHECK(janus_nursery_await_all() == 0);
        else
            CHECK(parcae_nursery_close(handle[level]) == 0);
        CHECK(count[level] == (level == 0 ? 3 : 2));
    }
    __atomic_add_fetch((int64_t *)arg, 1, __ATOMIC_RELAXED);
    return 0;
}

/* Returns with nurseries open: they are waited for. */
static int64_t careless(void *arg)
{
    janus_nursery_create();
    CHECK(janus_nursery_spawn(leaf, arg) == 0);
    janus_nursery_create();
    CHECK(janus_nursery_spawn(leaf, arg) == 0);
    return 0;
}

static int64_t broken(void *arg)
{
    (void)arg;
    return -5;
}

static int64_t careless_with_a_broken_child(void *arg)
{
    janus_nursery_create();
    CHECK(janus_nursery_spawn(broken, arg) == 0);
    return 0;
}

int main(void)
{
    start(PARCAE_SERVICE, 4);
    for (int round = 0; round < 5; round++) {
        int64_t done = 0;
        CHECK(janus_nursery_create() != NULL);
        for (int i = 0; i < TASKS; i++)
            CHECK(janus_nursery_spawn(tree, &done) == 0);
        CHECK(janus_nursery_await_all() == 0);
        CHECK(done == TASKS);
    }
    int64_t count = 0;
    janus_nursery_create();
    CHECK(janus_nursery_spawn(careless, &count) == 0);
    CHECK(janus_nursery_await_all() == 0 && count == 2);
    janus_nursery_create();
    CHECK(janus_nursery_spawn(careless_with_a_broken_child, NULL) == 0);
    CHECK(janus_nursery_await_all() == -5);
    janus_rt_shutdown();
    return 0;
}
