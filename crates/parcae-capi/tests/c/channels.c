/* Channels of numbers and of pointers, between tasks and threads. */
#include "check.h"
#include <pthread.h>

enum { VALUES = 500 };

static void *numbers, *pointers;

static int64_t produce(void *arg)
{
    for (int64_t i = 1; i <= VALUES; i++) {
        CHECK(janus_channel_send_i64(numbers, i) == 0);
        CHECK(janus_channel_send_ptr(pointers, (char *)arg + i) == 0);
    }
    return 0;
}

static int64_t consume(void *arg)
{
    int64_t *sum = arg;
    for (;;) {
        int32_t error;
        int64_t value = janus_channel_recv_i64(numbers, &error);
        if (error != 0) {
            CHECK(value == INT64_MIN && parcae_last_error_kind() == PARCAE_E_CLOSED);
            return 0;
        }
        __atomic_add_fetch(sum, value, __ATOMIC_RELAXED);
    }
}

static int64_t consume_pointers(void *arg)
{
    int64_t *count = arg;
    int32_t error;
    for (;;) {
        void *value = janus_channel_recv_ptr(pointers, &error);
        if (error != 0)
            return 0;
        CHECK(value != NULL);
        __atomic_add_fetch(count, 1, __ATOMIC_RELAXED);
    }
}

static void *thread_main(void *arg)
{
    produce(arg);
    return NULL;
}

static void many(int32_t capacity)
{
    numbers = janus_channel_create_i64(capacity);
    pointers = janus_channel_create_ptr(capacity);
    CHECK(numbers != NULL && pointers != NULL);
    static char base[VALUES + 1];
    int64_t sum = 0, count = 0;
    janus_nursery_create(); /* consumers */
    for (int i = 0; i < 3; i++) {
        CHECK(janus_nursery_spawn(consume, &sum) == 0);
        CHECK(janus_nursery_spawn(consume_pointers, &count) == 0);
    }
    janus_nursery_create(); /* producers, and a thread */
    for (int i = 0; i < 3; i++)
        CHECK(janus_nursery_spawn(produce, base) == 0);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, thread_main, base) == 0);
    CHECK(janus_nursery_await_all() == 0 && pthread_join(thread, NULL) == 0);
    janus_channel_close_i64(numbers);
    janus_channel_close_i64(numbers);
    janus_channel_close_ptr(pointers);
    CHECK(janus_nursery_await_all() == 0);
    CHECK(sum == 4 * (int64_t)VALUES * (VALUES + 1) / 2 && count == 4 * VALUES);
    CHECK_FAILS(janus_channel_send_i64(numbers, 1) == -1, PARCAE_E_CLOSED);
    CHECK(janus_channel_is_closed_i64(numbers) == 1 && janus_channel_is_closed_ptr(pointers) == 1);
    janus_channel_destroy_i64(numbers);
    janus_channel_destroy_ptr(pointers);
}

static int64_t waits_for_nothing(void *arg)
{
    int32_t error = 0;
    janus_channel_recv_i64(arg, &error);
    CHECK(error == -1);
    return parcae_last_error_kind() == PARCAE_E_CANCELLED ? PARCAE_CANCELLED : 3;
}

static int64_t sends_for_ever(void *channel)
{
    for (;;) {
        int failed = janus_channel_send_i64(channel, 7);
        if (failed)
            return failed;
    }
}

static int64_t uses_up_its_operations(void *arg)
{
    int sent = 0;
    while (janus_channel_try_send_i64(arg, 1) == 1)
        sent++;
    CHECK(parcae_last_error_kind() == PARCAE_E_BUDGET);
    return sent;
}

int main(void)
{
    start(PARCAE_SERVICE, 2);
    many(0);
    many(1);
    many(64);

    /* Without waiting, and with a limit to it. */
    void *channel = janus_channel_create_i64(2);
    int64_t value = 0;
    CHECK(janus_channel_try_recv_i64(channel, &value) == 0);
    CHECK(janus_channel_try_send_i64(channel, 1) == 1 && janus_channel_try_send_i64(channel, 2) == 1);
    CHECK(janus_channel_try_send_i64(channel, 3) == 0 && janus_channel_len_i64(channel) == 2);
    CHECK_FAILS(parcae_channel_send_timeout_i64(channel, 3, 1000000) == PARCAE_ERROR, PARCAE_E_TIMED_OUT);
    janus_channel_close_i64(channel); /* what is in it is still there */
    CHECK(janus_channel_try_recv_i64(channel, &value) == 1 && value == 1);
    CHECK(parcae_channel_recv_timeout_i64(channel, &value, 1000000) == PARCAE_OK && value == 2);
    CHECK_FAILS(janus_channel_try_recv_i64(channel, &value) == -1, PARCAE_E_CLOSED);
    janus_channel_destroy_i64(channel);

    /* A rendezvous has no room: nothing is sent without a receiver. */
    channel = janus_channel_create_i64(0);
    CHECK(janus_channel_try_send_i64(channel, 1) == 0 && janus_channel_len_i64(channel) == 0);
    CHECK_FAILS(parcae_channel_recv_timeout_i64(channel, &value, 1000000) == PARCAE_ERROR,
                PARCAE_E_TIMED_OUT);

    /* Who waits is woken by a cancellation, and by the end of the channel. */
    janus_nursery_create();
    CHECK(janus_nursery_spawn(waits_for_nothing, channel) == 0);
    CHECK(parcae_nursery_poll(NULL) == PARCAE_PENDING);
    janus_nursery_cancel();
    CHECK(janus_nursery_await_all() == PARCAE_CANCELLED);
    janus_nursery_create();
    parcae_task *task = parcae_spawn(NULL, waits_for_nothing, channel, NULL);
    parcae_sleep_ns(1000000);
    janus_channel_destroy_i64(channel);
    CHECK(parcae_task_join(task, &value) == PARCAE_OK && value == 3);
    CHECK(janus_nursery_await_all() == 0);

    /* Operations are paid for. */
    janus_budget budget = unlimited();
    budget.channel_ops = 10;
    parcae_nursery_opts opts = nursery_opts();
    opts.budget = &budget;
    CHECK(parcae_nursery_open(&opts) != NULL);
    channel = janus_channel_create_i64(100);
    task = parcae_spawn(NULL, uses_up_its_operations, channel, NULL);
    CHECK(parcae_task_join(task, &value) == PARCAE_OK && value == 10);
    CHECK(janus_nursery_await_all() == 0);
    janus_channel_destroy_i64(channel);

    /* A task that hands on what a send has returned ends with what the send failed with. */
    CHECK(parcae_nursery_open(&opts) != NULL);
    channel = janus_channel_create_i64(100);
    CHECK(janus_nursery_spawn(sends_for_ever, channel) == 0);
    CHECK(janus_nursery_await_all() == PARCAE_BUDGET);
    janus_channel_destroy_i64(channel);
    janus_rt_shutdown();
    return 0;
}
