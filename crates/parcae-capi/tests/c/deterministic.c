/* The deterministic executor: the same seed gives the same order, and time is virtual. */
#include "check.h"
#include <pthread.h>
#include <time.h>
#include <unistd.h>

enum { TASKS = 20 };

static int order[2][TASKS * 3], length;
static int *into;
static void *channel;

static int64_t notes(void *arg)
{
    for (int i = 0; i < 3; i++) {
        into[length++] = (int)(intptr_t)arg;
        CHECK(parcae_yield() == PARCAE_OK);
    }
    CHECK(janus_channel_send_i64(channel, 1) == 0);
    return 0;
}

static int64_t sleeps_an_hour(void *arg)
{
    (void)arg;
    return parcae_sleep_ns(3600 * UINT64_C(1000000000));
}

static void run(uint64_t seed, int *where)
{
    RuntimeConfig config = {4, seed};
    janus_rt_init(config);
    CHECK(parcae_rt_workers() == 4);
    into = where;
    length = 0;
    channel = janus_channel_create_i64(0);
    CHECK(janus_nursery_create() != NULL);
    for (intptr_t i = 0; i < TASKS; i++)
        CHECK(janus_nursery_spawn(notes, (void *)i) == 0);
    /* Whatever this thread waits for, it does the work meanwhile. */
    for (int i = 0; i < TASKS; i++)
        CHECK(janus_channel_recv_i64(channel, NULL) == 1);
    CHECK(janus_nursery_spawn(sleeps_an_hour, NULL) == 0);
    CHECK(janus_nursery_await_all() == 0 && length == TASKS * 3);
    CHECK(janus_nursery_create() != NULL);
    parcae_task *task = parcae_spawn(NULL, sleeps_an_hour, NULL, NULL);
    CHECK(parcae_task_join(task, NULL) == PARCAE_OK);
    CHECK(parcae_sleep_ns(UINT64_C(1000000000) * 60) == PARCAE_OK);
    void *select = janus_select_create();
    janus_select_add_recv(select, channel);
    janus_select_add_timeout(select, 100000);
    CHECK(janus_select_wait(select) == 1);
    janus_select_destroy(select);
    CHECK(janus_nursery_await_all() == 0);
    janus_channel_destroy_i64(channel);
    janus_rt_shutdown();
}

static int spawned;

static void *on_another_thread(void *arg)
{
    (void)arg;
    length = 0;
    CHECK(janus_nursery_create() != NULL);
    CHECK(janus_nursery_spawn(notes, NULL) == 0);
    __atomic_store_n(&spawned, 1, __ATOMIC_RELEASE);
    CHECK(janus_nursery_await_all() == 0 && length == 3);
    return NULL;
}

int main(void)
{
    time_t began = time(NULL);
    run(42, order[0]);
    run(42, order[1]);
    CHECK(memcmp(order[0], order[1], sizeof order[0]) == 0);
    int differs = 0;
    for (uint64_t seed = 1; seed < 5; seed++) {
        run(seed, order[1]);
        differs += memcmp(order[0], order[1], sizeof order[0]) != 0;
    }
    CHECK(differs > 0);
    CHECK(time(NULL) - began < 3600);
    RuntimeConfig config = {1, 7};
    janus_rt_init(config);
    /* Another thread waits, and this one does the work. */
    channel = janus_channel_create_i64(0);
    pthread_t thread;
    /* A wait that only another thread could end is a deadlock here: there is no clock for it. */
    CHECK_FAILS((janus_channel_recv_i64(channel, NULL), 1), PARCAE_E_OTHER);
    CHECK(strstr(parcae_last_error(), "deadlock") != NULL);
    CHECK(pthread_create(&thread, NULL, on_another_thread, NULL) == 0);
    while (!__atomic_load_n(&spawned, __ATOMIC_ACQUIRE))
        usleep(100);
    CHECK(janus_channel_recv_i64(channel, NULL) == 1);
    CHECK(janus_nursery_create() != NULL && janus_nursery_spawn(sleeps_an_hour, NULL) == 0);
    CHECK(janus_nursery_await_all() == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    janus_channel_destroy_i64(channel);
    janus_rt_shutdown();
    return 0;
}
