/* Workers that are stuck are reported: to a callback, or on the standard error. The argument
 * says which. */
#include "check.h"
#include <unistd.h>

static uint64_t task, reports, wrong;
static char text[4096];

static void on_stall(void *arg, const parcae_stall *stall)
{
    /* The monitor's thread: what would wait for it is refused. */
    parcae_clear_error();
    janus_rt_shutdown();
    wrong += parcae_last_error_kind() != PARCAE_E_ARGUMENT;
    wrong += parcae_rt_on_stall(NULL, NULL) != -1 || arg != &reports;
    wrong += stall->size != sizeof *stall || stall->worker > 64;
    wrong += stall->still_for_ns < 1000000000 || stall->kind > PARCAE_STALL_STARVED;
    snprintf(text, sizeof text, "%s", stall->text);
    __atomic_store_n(&task, stall->task, __ATOMIC_RELAXED);
    __atomic_add_fetch(&reports, 1, __ATOMIC_RELEASE);
}

static uint64_t reported(void)
{
    return __atomic_load_n(&reports, __ATOMIC_ACQUIRE);
}

/* Blocks its worker until somebody has noticed. */
static int64_t blocks(void *arg)
{
    (void)arg;
    while (reported() == 0)
        usleep(1000);
    return 0;
}

static int said[2]; /* a pipe in place of the standard error */

/* Blocks its worker until there is something on the standard error. */
static int64_t blocks_until_said(void *arg)
{
    (void)arg;
    size_t length = 0;
    while (strchr(text, '\n') == NULL) {
        ssize_t got = read(said[0], text + length, sizeof text - 1 - length);
        CHECK(got > 0);
        length += (size_t)got;
    }
    return 0;
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    CHECK_FAILS(parcae_rt_on_stall(on_stall, NULL) == -1, PARCAE_E_NOT_RUNNING);
    CHECK(janus_nursery_create() != NULL); /* nothing else was ever started */
    parcae_spawn_opts named = spawn_opts();
    named.name = "culprit";
    if (strcmp(argv[1], "callback") == 0) {
        CHECK(parcae_rt_on_stall(on_stall, &reports) == 0);
        parcae_task *child = parcae_spawn(NULL, blocks, NULL, &named);
        uint64_t id = parcae_task_id(child);
        CHECK(parcae_task_join(child, NULL) == PARCAE_OK);
        CHECK(parcae_rt_on_stall(NULL, NULL) == 0); /* it is not running any more */
        CHECK(wrong == 0 && strstr(text, "stuck for") != NULL);
        /* A worker that gets no processor cannot be asked which task it runs. */
        CHECK(task == 0 || (task == id && strstr(text, "culprit") != NULL));
    } else {
        CHECK(pipe(said) == 0 && dup2(said[1], 2) == 2);
        CHECK(parcae_spawn(NULL, blocks_until_said, NULL, &named) != NULL);
    }
    CHECK(janus_nursery_await_all() == 0);
    printf("%.*s\n", (int)strcspn(text, "\n"), text);
    janus_rt_shutdown();
    return 0;
}
