/* What ends the process, or its child, and what is said then. The argument says which. */
#include "check.h"
#include <errno.h>
#include <setjmp.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int64_t enough = INT64_MAX;

static int64_t overflow_depth(int64_t n)
{
    volatile char room[512];
    room[0] = (char)n;
    return n == enough ? 0 : overflow_depth(n + 1) + room[0];
}

static int64_t overflows(void *arg)
{
    (void)arg;
    return overflow_depth(0);
}

/* A frame that is larger than the stack and its guard together, and touches its far end first.
 * With probes the guard is met on the way. */
static int64_t one_large_frame(void *arg)
{
    volatile char room[1 << 20];
    room[0] = (char)(intptr_t)arg;
    return room[0];
}

static jmp_buf elsewhere;
static int stays; /* the thread that `elsewhere` belongs to does nothing but stay there */

static int64_t jumps_out(void *arg)
{
    (void)arg;
    while (!__atomic_load_n(&stays, __ATOMIC_ACQUIRE))
        parcae_yield();
    longjmp(elsewhere, 1);
}

static int64_t exits_twice(void *arg)
{
    (void)arg;
    parcae_task_exit(3);
}

/* In the child of a fork every call fails, on a thread and on a task, and nothing waits. */
static void in_the_child(void *channel)
{
    CHECK_FAILS(janus_nursery_create() == NULL, PARCAE_E_FORKED);
    CHECK_FAILS(janus_nursery_spawn(overflows, NULL) == -1, PARCAE_E_FORKED);
    CHECK_FAILS(janus_nursery_await_all() == -1, PARCAE_E_FORKED);
    CHECK_FAILS(janus_channel_send_i64(channel, 1) == -1, PARCAE_E_FORKED);
    CHECK_FAILS((janus_rt_shutdown(), 1), PARCAE_E_FORKED);
    CHECK_FAILS(janus_rt_init_default() == -1, PARCAE_E_FORKED);
}

static void forks(void *channel)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        in_the_child(channel);
        exit(5); /* also runs what is left for the end of a thread */
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0)
        CHECK(errno == EINTR);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 5);
}

static int64_t forks_on_a_task(void *arg)
{
    janus_nursery_create();
    forks(arg);
    CHECK(janus_nursery_await_all() == 0);
    return 0;
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    start(PARCAE_SERVICE, 2);
    CHECK(janus_nursery_create() != NULL);
    parcae_spawn_opts named = spawn_opts();
    named.name = "culprit";
    if (strcmp(argv[1], "overflow") == 0) {
        CHECK(parcae_spawn(NULL, overflows, NULL, &named) != NULL);
    } else if (strcmp(argv[1], "large-frame") == 0) {
        CHECK(parcae_spawn(NULL, one_large_frame, NULL, &named) != NULL);
    } else if (strcmp(argv[1], "longjmp") == 0) {
        if (setjmp(elsewhere) != 0) {
            /* A worker is here now, on the stack of another thread. */
            parcae_yield();
            janus_nursery_await_all();
            _Exit(7);
        }
        CHECK(parcae_spawn(NULL, jumps_out, NULL, &named) != NULL);
        __atomic_store_n(&stays, 1, __ATOMIC_RELEASE);
        for (;;) {
            /* This frame stays, and uses nothing of the stack below it. */
        }
    } else if (strcmp(argv[1], "exit") == 0) {
        exits_twice(NULL); /* outside of a task */
    } else if (strcmp(argv[1], "fork") == 0) {
        void *channel = janus_channel_create_i64(1);
        CHECK(janus_nursery_spawn(until_cancelled, NULL) == 0);
        forks(channel);
        janus_nursery_cancel();
        CHECK(janus_nursery_await_all() == PARCAE_CANCELLED);
        CHECK(janus_nursery_create() != NULL && janus_nursery_spawn(forks_on_a_task, channel) == 0);
    } else {
        CHECK(!"known");
    }
    CHECK(janus_nursery_await_all() == 0);
    janus_rt_shutdown();
    return 0;
}
