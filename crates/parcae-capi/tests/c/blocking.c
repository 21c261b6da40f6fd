/* Calls that block, and mutexes. */
#include "check.h"
#include <pthread.h>
#include <unistd.h>

static int pipes[2];
static pthread_t here;

static int64_t reads(void *arg)
{
    char byte = 0;
    CHECK(parcae_task_self() == 0 && !pthread_equal(pthread_self(), here)); /* on no worker */
    CHECK(read(pipes[0], &byte, 1) == 1);
    *(char *)arg = byte;
    return -byte; /* a value like any other */
}

/* On one worker: while the other blocks in a read, this one gets its turn and ends it. */
static int64_t writes(void *arg)
{
    (void)arg;
    CHECK(write(pipes[1], "x", 1) == 1);
    return 0;
}

static int64_t offloads(void *arg)
{
    char byte = 0;
    int64_t value = 0;
    (void)arg;
    here = pthread_self();
    CHECK(parcae_blocking(reads, &byte, &value) == PARCAE_OK);
    CHECK(byte == 'x' && value == -'x');
    CHECK_FAILS(parcae_blocking(NULL, NULL, NULL) == PARCAE_ERROR, PARCAE_E_NULL);
    return 0;
}

static int64_t opens_and_forgets(void *arg)
{
    CHECK(parcae_nursery_depth() == 0 && parcae_last_error_kind() == PARCAE_E_NONE);
    CHECK(janus_nursery_create() != NULL && janus_nursery_spawn(until_cancelled, NULL) == 0);
    CHECK(janus_channel_try_send_i64(NULL, 1) < 0);
    return *(int64_t *)arg;
}

static int64_t leaves_no_trace(void *arg)
{
    (void)arg;
    for (int64_t i = 0; i < 8; i++) {
        int64_t value = -1;
        CHECK(parcae_blocking(opens_and_forgets, &i, &value) == PARCAE_OK && value == i);
    }
    return 0;
}

static int64_t is_cancelled_first(void *arg)
{
    (void)arg;
    while (parcae_yield() == PARCAE_OK) {
    }
    return parcae_blocking(reads, NULL, NULL);
}

/* ----- mutexes ----- */

static void *mutex;
static int64_t counter;

static int64_t counts(void *arg)
{
    (void)arg;
    for (int i = 0; i < 200; i++) {
        CHECK(parcae_mutex_lock(mutex) == PARCAE_OK);
        int64_t seen = counter;
        if (i % 10 == 0 && parcae_task_self() != 0)
            CHECK(parcae_yield() == PARCAE_OK); /* over a wait, and perhaps onto another thread */
        counter = seen + 1;
        CHECK(parcae_mutex_unlock(mutex) == 0);
    }
    return 0;
}

static void *counts_on_a_thread(void *arg)
{
    counts(arg);
    return NULL;
}

static int64_t waits_in_vain(void *arg)
{
    (void)arg;
    CHECK_FAILS(parcae_mutex_try_lock(mutex) == PARCAE_PENDING, PARCAE_E_WOULD_WAIT);
    CHECK_FAILS(parcae_mutex_unlock(mutex) == -1, PARCAE_E_NOT_YOURS);
    return parcae_mutex_lock(mutex); /* until it is cancelled */
}

static void mutexes(void)
{
    pthread_t threads[3];
    mutex = parcae_mutex_create();
    CHECK(mutex != NULL && janus_nursery_create() != NULL);
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, counts_on_a_thread, NULL) == 0);
    for (int i = 0; i < 10; i++)
        CHECK(janus_nursery_spawn(counts, NULL) == 0);
    CHECK(janus_nursery_await_all() == 0);
    for (int i = 0; i < 3; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(counter == 13 * 200);

    CHECK(parcae_mutex_try_lock(mutex) == PARCAE_OK);
    CHECK_FAILS(parcae_mutex_lock(mutex) == PARCAE_ERROR, PARCAE_E_ARGUMENT); /* has it */
    CHECK_FAILS(parcae_mutex_try_lock(mutex) == PARCAE_PENDING, PARCAE_E_WOULD_WAIT);
    CHECK(janus_nursery_create() != NULL);
    parcae_task *task = parcae_spawn(NULL, waits_in_vain, NULL, NULL);
    CHECK(task != NULL && parcae_task_cancel(task) == 0);
    CHECK(parcae_task_join(task, NULL) == PARCAE_CANCELLED);
    CHECK(janus_nursery_await_all() == 0);
    CHECK(parcae_mutex_unlock(mutex) == 0);
    CHECK_FAILS(parcae_mutex_unlock(mutex) == -1, PARCAE_E_NOT_YOURS);
    CHECK(parcae_mutex_destroy(mutex) == 0);
    CHECK_FAILS(parcae_mutex_destroy(mutex) == -1, PARCAE_E_STALE);
    CHECK_FAILS(parcae_mutex_lock(mutex) == PARCAE_ERROR, PARCAE_E_STALE);
    CHECK_FAILS(parcae_mutex_lock(NULL) == PARCAE_ERROR, PARCAE_E_NULL);
}

static int64_t squares(void *arg)
{
    int64_t n = *(int64_t *)arg;
    return n * n;
}

/* The deterministic executor makes the call on the task itself, which keeps what it has. */
static int64_t in_place(void *arg)
{
    int64_t value = 0;
    CHECK(janus_nursery_create() != NULL && parcae_mutex_lock(mutex) == PARCAE_OK);
    CHECK(parcae_blocking(squares, arg, &value) == PARCAE_OK && value == 81);
    CHECK(parcae_nursery_depth() == 1 && janus_nursery_await_all() == 0);
    CHECK(parcae_yield() == PARCAE_OK && parcae_mutex_unlock(mutex) == 0);
    return 0;
}

static void deterministic(void)
{
    int64_t nine = 9;
    RuntimeConfig seeded = {2, 7};
    janus_rt_init(seeded);
    mutex = parcae_mutex_create();
    CHECK(janus_nursery_create() != NULL);
    for (int i = 0; i < 5; i++)
        CHECK(janus_nursery_spawn(in_place, &nine) == 0);
    CHECK(parcae_sleep_ns(1) == PARCAE_OK);
    CHECK(parcae_mutex_lock(mutex) == PARCAE_OK && parcae_mutex_unlock(mutex) == 0);
    CHECK(janus_nursery_await_all() == 0);
    CHECK(parcae_mutex_destroy(mutex) == 0);
    janus_rt_shutdown();
}

int main(void)
{
    CHECK(pipe(pipes) == 0);
    start(PARCAE_SERVICE, 1);
    CHECK(janus_nursery_create() != NULL);
    CHECK(janus_nursery_spawn(offloads, NULL) == 0 && janus_nursery_spawn(writes, NULL) == 0);
    CHECK(janus_nursery_await_all() == 0);
    CHECK(janus_nursery_create() != NULL && janus_nursery_spawn(leaves_no_trace, NULL) == 0);
    CHECK(janus_nursery_await_all() == 0);
    janus_nursery_create();
    CHECK(janus_nursery_spawn(is_cancelled_first, NULL) == 0);
    janus_nursery_cancel();
    CHECK(janus_nursery_await_all() == PARCAE_CANCELLED);
    int64_t value = 0;
    janus_nursery_create(); /* a thread calls it at once, with what is its own */
    CHECK(parcae_blocking(writes, NULL, &value) == PARCAE_OK && value == 0);
    CHECK(parcae_nursery_depth() == 1 && janus_nursery_await_all() == 0);
    mutexes();
    janus_rt_shutdown();
    deterministic();
    return 0;
}
