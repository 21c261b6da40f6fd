/* A runtime that starts by itself, again and again: after a shutdown, during one, and from many
 * threads. */
#include "check.h"
#include <pthread.h>
#include <unistd.h>

#ifndef ROUNDS
#define ROUNDS 200
#endif

static int64_t add(void *arg)
{
    __atomic_add_fetch((int64_t *)arg, 1, __ATOMIC_RELAXED);
    return 0;
}

/* ----- after a shutdown: the frozen functions alone ----- */

static void after_a_shutdown(void)
{
    int64_t sum = 0;
    for (int round = 1; round <= 20; round++) {
        CHECK(janus_nursery_create() != NULL); /* starts it */
        CHECK(janus_nursery_spawn(add, &sum) == 0);
        CHECK(janus_nursery_await_all() == 0 && sum == round);
        CHECK(parcae_rt_profile() == PARCAE_SERVICE);
        janus_rt_shutdown();
        CHECK(janus_rt_is_running() == 0);
    }
    /* So does everything else that needs a runtime. */
    void *channel = janus_channel_create_i64(1);
    CHECK(channel != NULL && janus_rt_is_running() == 1);
    janus_channel_destroy_i64(channel);
    janus_rt_shutdown();
    CHECK(janus_rt_get() != NULL && janus_rt_is_running() == 1);
    janus_rt_shutdown();
    parcae_cap *cap = parcae_cap_budget(nothing(), PARCAE_NOT_DELEGABLE);
    CHECK(cap != NULL && parcae_cap_release(cap) == 0 && janus_rt_is_running() == 1);
    janus_rt_shutdown();
    /* With all defaults: what the last runtime was told is gone with it. */
    start(PARCAE_CLUSTER, 1);
    janus_rt_shutdown();
    CHECK(janus_nursery_create() != NULL && parcae_rt_profile() == PARCAE_SERVICE);
    CHECK(janus_nursery_await_all() == 0);
    janus_rt_shutdown();
}

/* ----- during one ----- */

enum { NOT_YET, OPENED, ENDING, ABOUT_TO, CREATED };
static int stage; /* of the thread that creates */
static int ended; /* the shutdown has returned, or is about to */

static int reached(int what)
{
    return __atomic_load_n(&stage, __ATOMIC_ACQUIRE) >= what;
}

static void reach(int what)
{
    __atomic_store_n(&stage, what, __ATOMIC_RELEASE);
}

static void *creates_meanwhile(void *arg)
{
    int64_t *sum = arg;
    while (!reached(ENDING))
        usleep(100);
    reach(ABOUT_TO);
    CHECK(janus_nursery_create() != NULL);
    CHECK(__atomic_load_n(&ended, __ATOMIC_ACQUIRE) == 1);
    reach(CREATED);
    CHECK(janus_nursery_spawn(add, sum) == 0 && janus_nursery_await_all() == 0);
    return NULL;
}

/* Called by the shutdown, on the thread that shuts down: the runtime is ending for as long as
 * this takes. */
static void on_cancel(void *arg, int32_t reason)
{
    (void)arg;
    CHECK(reason == PARCAE_SHUTDOWN || reason == PARCAE_PARENT);
    /* This is waited for, so it cannot wait for the end. */
    CHECK_FAILS(janus_nursery_create() == NULL, PARCAE_E_NOT_RUNNING);
    CHECK_FAILS(janus_rt_init_default() == -1, PARCAE_E_NOT_RUNNING);
    CHECK_FAILS((janus_rt_shutdown(), 1), PARCAE_E_ARGUMENT);
    CHECK(janus_rt_is_running() == 0);
    reach(ENDING);
    while (!reached(ABOUT_TO))
        usleep(100);
    for (int i = 0; i < 100; i++) {
        CHECK(!reached(CREATED)); /* there is one runtime at most */
        usleep(500);
    }
    __atomic_store_n(&ended, 1, __ATOMIC_RELEASE);
}

static int created_by_a_task = -1;

/* A task does not wait for the end of its runtime, nor does it start the next one. */
static int64_t goes_on(void *arg)
{
    (void)arg;
    reach(OPENED);
    while (parcae_yield() == PARCAE_OK) {
    }
    while (!reached(CREATED)) /* outlives its runtime: the nursery is still open */
        usleep(100);
    created_by_a_task = janus_nursery_create() != NULL;
    CHECK(parcae_last_error_kind() == PARCAE_E_NOT_RUNNING);
    return PARCAE_CANCELLED;
}

static void *stays_open(void *arg)
{
    (void)arg;
    CHECK(janus_nursery_create() != NULL);
    janus_cancel_token *token = janus_nursery_get_token();
    CHECK(token != NULL && parcae_cancel_token_on_cancel(token, on_cancel, NULL) == 0);
    CHECK(janus_nursery_spawn(goes_on, NULL) == 0);
    CHECK(janus_nursery_await_all() == PARCAE_CANCELLED);
    janus_cancel_token_destroy(token);
    return NULL;
}

static void during_a_shutdown(void)
{
    int64_t sum = 0;
    pthread_t open, create;
    start(PARCAE_SERVICE, 1);
    CHECK(pthread_create(&open, NULL, stays_open, NULL) == 0);
    while (!reached(OPENED))
        usleep(100);
    CHECK(pthread_create(&create, NULL, creates_meanwhile, &sum) == 0);
    janus_rt_shutdown();
    CHECK(pthread_join(create, NULL) == 0 && sum == 1);
    CHECK(pthread_join(open, NULL) == 0 && created_by_a_task == 0);
    janus_rt_shutdown();
}

/* ----- from many threads at once ----- */

enum { USERS = 6, STARTERS = 2, ENDERS = 2 };
static int64_t ran, spawned, users_left = USERS, refused;

static void *uses(void *arg)
{
    (void)arg;
    for (int round = 0; round < ROUNDS; round++) {
        CHECK(janus_nursery_create() != NULL); /* never refused, whatever others do */
        int64_t mine = 0;
        for (int i = 0; i < 3; i++) {
            if (janus_nursery_spawn(add, &ran) == 0)
                mine++;
            else
                CHECK(parcae_last_error_kind() == PARCAE_E_CANCELLED);
        }
        long result = janus_nursery_await_all();
        CHECK(result == 0 || result == PARCAE_CANCELLED);
        if (result == 0)
            __atomic_add_fetch(&spawned, mine, __ATOMIC_RELAXED);
    }
    __atomic_sub_fetch(&users_left, 1, __ATOMIC_ACQ_REL);
    return NULL;
}

static int going_on(void)
{
    return __atomic_load_n(&users_left, __ATOMIC_ACQUIRE) > 0;
}

static void *starts(void *arg)
{
    (void)arg;
    while (going_on()) {
        parcae_config config;
        CHECK(parcae_config_init(&config) == 0);
        config.workers = 1 + (uint32_t)(refused % 2);
        if (parcae_rt_init(&config) != 0) {
            CHECK(parcae_last_error_kind() == PARCAE_E_RUNNING);
            __atomic_add_fetch(&refused, 1, __ATOMIC_RELAXED);
            usleep(200);
        }
    }
    return NULL;
}

static void *ends(void *arg)
{
    (void)arg;
    while (going_on()) {
        if (arg != NULL) {
            /* By its handle: a stale one does not end the next runtime. */
            parcae_clear_error();
            janus_scheduler_shutdown(janus_rt_get());
            int kind = parcae_last_error_kind();
            CHECK(kind == PARCAE_E_NONE || kind == PARCAE_E_STALE);
        } else {
            janus_rt_shutdown();
        }
        usleep(500);
    }
    return NULL;
}

static void from_many_threads(void)
{
    pthread_t threads[USERS + STARTERS + ENDERS];
    int n = 0;
    for (int i = 0; i < USERS; i++)
        CHECK(pthread_create(&threads[n++], NULL, uses, NULL) == 0);
    for (int i = 0; i < STARTERS; i++)
        CHECK(pthread_create(&threads[n++], NULL, starts, NULL) == 0);
    for (int i = 0; i < ENDERS; i++)
        CHECK(pthread_create(&threads[n++], NULL, ends, i == 0 ? NULL : threads) == 0);
    while (n > 0)
        CHECK(pthread_join(threads[--n], NULL) == 0);
    CHECK(ran >= spawned);
    janus_rt_shutdown();
    CHECK(janus_rt_is_running() == 0);
}

int main(void)
{
    after_a_shutdown();
    during_a_shutdown();
    from_many_threads();
    return 0;
}
