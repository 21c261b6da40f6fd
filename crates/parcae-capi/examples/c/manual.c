/* The scheduler's manual page in C: four workers, a nursery with a budget, tasks with result slots,
 * a larger stack for one of them or for all, a failure that cancels its siblings, a token, nurseries
 * inside of a task. */
#include <parcae.h>
#include <stdio.h>
#include <string.h>

struct slot {
    int64_t input, result;
};

/* An entry: an opaque argument; 0 or more is success, less is an error code. */
static int64_t square(void *arg)
{
    struct slot *slot = arg;
    slot->result = slot->input * slot->input;
    return 0;
}

static int64_t heavy(void *arg)
{
    *(int *)arg = parcae_stack_left() > 400 * 1024;
    return 0;
}

static int64_t fail(void *arg)
{
    (void)arg;
    return -7;
}

static int64_t serve(void *arg)
{
    (void)arg;
    while (!janus_nursery_is_cancelled()) /* no nursery of its own: was the task cancelled? */
        parcae_sleep_ns(1000000); /* stands for work; a cancel point */
    return -1;
}

/* A nursery below the one that this task runs in. */
static int64_t agent(void *arg)
{
    struct slot *slots = arg;
    janus_nursery_create();
    janus_nursery_spawn(square, &slots[0]);
    janus_nursery_spawn(square, &slots[1]);
    return janus_nursery_await_all();
}

int main(void)
{
    janus_runtime_config four_workers = {4, 0};
    janus_rt_init(four_workers);

    janus_budget service = {100000, 10 << 20, 100, 1000, 100};
    parcae_nursery_opts opts;
    memset(&opts, 0, sizeof opts);
    opts.size = sizeof opts;
    opts.budget = &service;

    struct slot slots[2] = {{6, 0}, {7, 0}};
    parcae_nursery_open(&opts);
    janus_nursery_spawn(square, &slots[0]);
    janus_nursery_spawn(square, &slots[1]);
    long result = janus_nursery_await_all(); /* the barrier: the slots can be read */
    printf("await: %ld, results: %lld %lld\n", result, (long long)slots[0].result,
           (long long)slots[1].result);

    int enough = 0;
    parcae_spawn_opts large;
    memset(&large, 0, sizeof large);
    large.size = sizeof large;
    large.stack_size = 512 * 1024;
    large.priority = PARCAE_HIGH; /* a hint */
    janus_nursery_create();
    parcae_spawn(NULL, heavy, &enough, &large);
    result = janus_nursery_await_all();
    printf("await: %ld, a stack of 512 KB: %s\n", result, enough ? "yes" : "no");

    opts.stack_size = 512 * 1024; /* for all children, as in the sovereign profile */
    parcae_nursery_open(&opts);
    enough = 0;
    janus_nursery_spawn(heavy, &enough);
    result = janus_nursery_await_all();
    printf("await: %ld, a stack of 512 KB: %s\n", result, enough ? "yes" : "no");

    janus_nursery_create();
    janus_nursery_spawn(serve, NULL); /* ends because its sibling fails */
    janus_nursery_spawn(fail, NULL);
    printf("await: %ld\n", janus_nursery_await_all());

    janus_nursery_create();
    janus_cancel_token *token = janus_nursery_get_token();
    janus_nursery_spawn(serve, NULL);
    janus_nursery_cancel();
    int seen = janus_cancel_token_is_cancelled(token);
    janus_cancel_token_destroy(token);
    printf("await: %ld, the token is cancelled: %s\n", janus_nursery_await_all(), seen ? "yes" : "no");

    janus_nursery_create();
    janus_nursery_spawn(agent, slots);
    printf("await: %ld\n", janus_nursery_await_all());

    janus_rt_shutdown();
    return 0;
}
