/* Starting and ending the runtime: by itself, twice, from the wrong place, while others use it. */
#include "check.h"
#include <pthread.h>

static int64_t tries_to_end_it(void *arg)
{
    (void)arg;
    CHECK_FAILS((janus_rt_shutdown(), 1), PARCAE_E_ARGUMENT);
    CHECK(janus_rt_is_running() == 1);
    return 0;
}

static int opened;

static void *waits(void *arg)
{
    (void)arg;
    CHECK(janus_nursery_create() != NULL);
    CHECK(janus_nursery_spawn(until_cancelled, NULL) == 0);
    __atomic_add_fetch(&opened, 1, __ATOMIC_RELEASE);
    CHECK(janus_nursery_await_all() == -1);
    parcae_result result;
    CHECK(parcae_last_result(&result) == 0);
    CHECK(result.kind == PARCAE_WAS_CANCELLED && result.reason == PARCAE_SHUTDOWN);
    return NULL;
}

/* A thread that ends with a nursery open: its children are cancelled and waited for. */
static void *leaves(void *arg)
{
    (void)arg;
    CHECK(janus_nursery_create() != NULL);
    CHECK(janus_nursery_spawn(until_cancelled, NULL) == 0);
    return NULL;
}

/* No runtime: questions about it fail and start none, and a shutdown does nothing. */
static void stopped(void)
{
    CHECK(janus_rt_is_running() == 0);
    CHECK_FAILS(parcae_rt_profile() == -1, PARCAE_E_NOT_RUNNING);
    CHECK_FAILS(parcae_rt_workers() == -1, PARCAE_E_NOT_RUNNING);
    CHECK_FAILS(janus_nursery_spawn(until_cancelled, NULL) == -1, PARCAE_E_NO_NURSERY);
    parcae_clear_error();
    janus_rt_shutdown();
    CHECK(parcae_last_error_kind() == PARCAE_E_NONE && janus_rt_is_running() == 0);
}

int main(void)
{
    janus_rt_shutdown(); /* of what never was: nothing happens */
    CHECK(parcae_last_error_kind() == PARCAE_E_NONE);
    CHECK(janus_rt_init_default() == 0);
    CHECK_FAILS(janus_rt_init_default() == -1, PARCAE_E_RUNNING);
    RuntimeConfig config = {1, 0};
    CHECK_FAILS((janus_rt_init(config), 1), PARCAE_E_RUNNING);
    CHECK(parcae_rt_profile() == PARCAE_SERVICE);

    janus_nursery_create();
    CHECK(janus_nursery_spawn(tries_to_end_it, NULL) == 0);
    CHECK(janus_nursery_await_all() == 0);

    pthread_t threads[4];
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, waits, NULL) == 0);
    CHECK(pthread_create(&threads[3], NULL, leaves, NULL) == 0);
    CHECK(pthread_join(threads[3], NULL) == 0);
    while (__atomic_load_n(&opened, __ATOMIC_ACQUIRE) < 3)
        parcae_sleep_ns(100000);
    /* This thread has one open, too. A channel outlives the runtime. */
    janus_nursery_create();
    CHECK(janus_nursery_spawn(until_cancelled, NULL) == 0);
    void *channel = janus_channel_create_i64(1);
    janus_rt_shutdown();
    CHECK(parcae_nursery_depth() == 0);
    for (int i = 0; i < 3; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(janus_channel_try_send_i64(channel, 5) == 1 && janus_channel_recv_i64(channel, NULL) == 5);
    janus_channel_destroy_i64(channel);
    stopped();

    /* Wrong configurations. */
    parcae_config wrong;
    CHECK(parcae_config_init(&wrong) == 0);
    wrong.workers = 100000;
    CHECK_FAILS(parcae_rt_init(&wrong) == -1, PARCAE_E_ARGUMENT);
    CHECK(strstr(parcae_last_error(), "1024") != NULL);
    parcae_config_init(&wrong);
    wrong.profile = 17;
    CHECK_FAILS(parcae_rt_init(&wrong) == -1, PARCAE_E_ARGUMENT);
    parcae_config_init(&wrong);
    wrong.executor = 17;
    CHECK_FAILS(parcae_rt_init(&wrong) == -1, PARCAE_E_ARGUMENT);
    parcae_config_init(&wrong);
    wrong.size = 1;
    CHECK_FAILS(parcae_rt_init(&wrong) == -1, PARCAE_E_ARGUMENT);
    CHECK_FAILS(parcae_config_init(NULL) == -1, PARCAE_E_NULL);
    stopped();

    for (int round = 0; round < 20; round++) {
        start(PARCAE_SERVICE, 2);
        janus_nursery_create();
        CHECK(janus_nursery_spawn(tries_to_end_it, NULL) == 0);
        CHECK(janus_nursery_await_all() == 0);
        janus_rt_shutdown();
    }
    return 0;
}
