/* Many foreign threads use everything at once. */
#include "check.h"
#include <pthread.h>

#ifndef ROUNDS
#define ROUNDS 60
#endif
enum { THREADS = 12 };

static int64_t ran;

static int64_t leaf(void *arg)
{
    void *channel = arg;
    if (parcae_yield() != PARCAE_OK)
        return PARCAE_CANCELLED;
    __atomic_add_fetch(&ran, 1, __ATOMIC_RELAXED);
    return janus_channel_send_i64(channel, 1) == 0 ? 0 : -20;
}

static int64_t branch(void *arg)
{
    if (janus_nursery_create() == NULL)
        return -21;
    for (int i = 0; i < 4; i++)
        if (janus_nursery_spawn(leaf, arg) != 0)
            return -22;
    return janus_nursery_await_all();
}

static void *thread_main(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)arg;
    for (int round = 0; round < ROUNDS; round++) {
        void *channel = janus_channel_create_i64(3);
        CHECK(channel != NULL && janus_nursery_create() != NULL);
        for (int i = 0; i < 3; i++)
            CHECK(janus_nursery_spawn(branch, channel) == 0);
        int64_t got = 0;
        for (int i = 0; i < 12; i++)
            got += janus_channel_recv_i64(channel, NULL);
        CHECK(got == 12 && janus_nursery_await_all() == 0);
        janus_channel_destroy_i64(channel);

        CHECK(janus_nursery_create() != NULL);
        parcae_task *task = parcae_spawn(NULL, compute_for_ever, NULL, NULL);
        CHECK(task != NULL);
        switch (rand_r(&seed) % 3) {
        case 0:
            CHECK(parcae_task_cancel(task) == 0 && parcae_task_join(task, NULL) == PARCAE_CANCELLED);
            CHECK(janus_nursery_await_all() == 0);
            break;
        case 1:
            janus_nursery_cancel();
            CHECK(janus_nursery_await_all() == PARCAE_CANCELLED);
            break;
        default:
            CHECK(parcae_task_cancel(task) == 0 && parcae_task_release(task) == 0);
            CHECK(janus_nursery_await_all() == 0);
        }
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, thread_main, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(ran == (int64_t)THREADS * ROUNDS * 12);
    janus_rt_shutdown();
    return 0;
}
