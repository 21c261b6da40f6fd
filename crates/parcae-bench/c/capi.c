/* The C side of the `capi` workload: each function measures once and returns nanoseconds per operation, or less than 0
 * if the work was not done. */
#define _POSIX_C_SOURCE 200809L
#include <parcae.h>
#include <pthread.h>
#include <time.h>

#include "capi.h"

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

struct job {
    int rounds, size;
    double nanoseconds;
};

/* Runs a function as a task, alone on one worker. */
static double on_task(janus_task_fn task, int rounds, int size)
{
    struct job job = {rounds, size, -1};
    janus_runtime_config one_worker = {1, 0};
    janus_rt_init(one_worker);
    if (janus_nursery_create() == NULL || janus_nursery_spawn(task, &job) != 0 ||
        janus_nursery_await_all() != 0)
        job.nanoseconds = -1;
    janus_rt_shutdown();
    return job.nanoseconds;
}

/* ----- spawn and await ---------------------------------------------------------------------------- */

static int64_t ran;

static int64_t count(void *arg)
{
    (void)arg;
    ran++; /* one worker */
    return 0;
}

static int64_t spawn_round(int size)
{
    if (janus_nursery_create() == NULL)
        return -1;
    for (int i = 0; i < size; i++)
        if (janus_nursery_spawn(count, NULL) != 0)
            return -1;
    return janus_nursery_await_all();
}

static int64_t spawn_await(void *arg)
{
    struct job *job = arg;
    ran = 0;
    if (spawn_round(job->size) != 0)
        return -1;
    double start = now();
    for (int round = 0; round < job->rounds; round++)
        if (spawn_round(job->size) != 0)
            return -1;
    job->nanoseconds = (now() - start) / job->rounds / job->size;
    return ran == (int64_t)(job->rounds + 1) * job->size ? 0 : -1;
}

double bench_spawn_await(int rounds, int size)
{
    return on_task(spawn_await, rounds, size);
}

double bench_spawn_await_outside(int rounds, int size)
{
    struct job job = {rounds, size, -1};
    janus_runtime_config one_worker = {1, 0};
    janus_rt_init(one_worker);
    if (spawn_await(&job) != 0)
        job.nanoseconds = -1;
    janus_rt_shutdown();
    return job.nanoseconds;
}

static void *thread_main(void *arg)
{
    __atomic_add_fetch((int64_t *)arg, 1, __ATOMIC_RELAXED);
    return NULL;
}

double bench_pthreads(int rounds, int size)
{
    enum { MOST = 100 };
    pthread_t threads[MOST];
    int64_t done = 0;
    if (size > MOST)
        return -1;
    double start = now();
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < size; i++)
            if (pthread_create(&threads[i], NULL, thread_main, &done) != 0)
                return -1;
        for (int i = 0; i < size; i++)
            pthread_join(threads[i], NULL);
    }
    return done == (int64_t)rounds * size ? (now() - start) / rounds / size : -1;
}

/* ----- yield checks ------------------------------------------------------------------------------- */

static int64_t yield_checks(void *arg)
{
    struct job *job = arg;
    parcae_meter *meter = parcae_meter_get();
    double best[2] = {1e18, 1e18};
    for (int round = 0; round < job->rounds; round++) {
        double start = now();
        for (int i = 0; i < job->size; i++)
            __asm__ volatile("" : : "r"(i));
        double plain = now() - start;
        start = now();
        for (int i = 0; i < job->size; i++) {
            if (parcae_yield_check(meter) != PARCAE_OK)
                return -1;
            __asm__ volatile("" : : "r"(i));
        }
        double checked = now() - start;
        best[0] = plain < best[0] ? plain : best[0];
        best[1] = checked < best[1] ? checked : best[1];
    }
    job->nanoseconds = (best[1] - best[0]) / job->size;
    return 0;
}

double bench_yield_check(int rounds, int size)
{
    return on_task(yield_checks, rounds, size);
}

static int64_t traced_checks(void *arg)
{
    struct job *job = arg;
    static unsigned char bytes[1 << 15];
    double best[2] = {1e18, 1e18};
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 31 >> 3);
    for (int round = 0; round < job->rounds; round++) {
        double start = now();
        uint64_t plain = bench_hash_plain(bytes, sizeof bytes);
        double middle = now();
        uint64_t traced = bench_hash_traced(bytes, sizeof bytes);
        double end = now();
        if (plain != traced)
            return -1;
        best[0] = middle - start < best[0] ? middle - start : best[0];
        best[1] = end - middle < best[1] ? end - middle : best[1];
    }
    job->nanoseconds = best[1] / best[0];
    return 0;
}

double bench_trace_pc(int rounds)
{
    return on_task(traced_checks, rounds, 1);
}

/* ----- channels ------------------------------------------------------------------------------------- */

static void *channel;

static int64_t produce(void *arg)
{
    int values = *(int *)arg;
    for (int i = 0; i < values; i++)
        if (janus_channel_send_i64(channel, i) != 0)
            return -1;
    return 0;
}

static int64_t consume(void *arg)
{
    int values = *(int *)arg;
    int64_t sum = 0;
    for (int i = 0; i < values; i++)
        sum += janus_channel_recv_i64(channel, NULL);
    return sum == (int64_t)values * (values - 1) / 2 ? 0 : -1;
}

static int64_t channels(void *arg)
{
    struct job *job = arg;
    channel = janus_channel_create_i64(1024);
    double start = now();
    if (janus_nursery_create() == NULL || janus_nursery_spawn(produce, &job->size) != 0 ||
        janus_nursery_spawn(consume, &job->size) != 0 || janus_nursery_await_all() != 0)
        return -1;
    job->nanoseconds = (now() - start) / job->size;
    janus_channel_destroy_i64(channel);
    return 0;
}

double bench_channel(int values)
{
    return on_task(channels, 1, values);
}
