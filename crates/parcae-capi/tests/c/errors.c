/* The last error: whose it is, and how long its text lives. */
#include "check.h"
#include <pthread.h>

/* A call that fails with a text of its own: the number is in it. */
static const char *failing(uintptr_t number)
{
    CHECK(janus_channel_try_send_i64((void *)number, 1) < 0);
    return parcae_last_error();
}

/* Two failures inside one printf, in whichever order the compiler evaluates them. */
static void two_in_one_statement(void)
{
    char line[1024];
    snprintf(line, sizeof line, "%s|%s", failing(0x1111), failing(0x2222));
    const char *bar = strchr(line, '|');
    CHECK(bar != NULL);
    CHECK(strstr(line, "0x1111") != NULL && strstr(line, "0x1111") < bar);
    CHECK(strstr(bar, "0x2222") != NULL);
}

/* A text stays as it is until 16 failures later. */
static void sixteen_more(void)
{
    char first[256];
    const char *text = failing(0x3333);
    CHECK(parcae_last_error_copy(first, sizeof first) == strlen(text));
    CHECK(strcmp(first, text) == 0);
    for (uintptr_t i = 0; i < 15; i++) {
        failing(0x4000 + i);
        parcae_clear_error();
        CHECK(strcmp(first, text) == 0);
    }
    CHECK(parcae_last_error()[0] == 0 && parcae_last_error_kind() == PARCAE_E_NONE);
    CHECK(parcae_last_error_copy(first, sizeof first) == 0 && first[0] == 0);
}

static void copies(void)
{
    const char *text = failing(0x5555);
    size_t length = strlen(text);
    char whole[256], part[8] = "1234567", untouched = 'x';
    CHECK(length > 8 && length < sizeof whole);
    CHECK(parcae_last_error_copy(NULL, 0) == length);
    CHECK(parcae_last_error_copy(NULL, 10) == length); /* nowhere to put it */
    CHECK(parcae_last_error_copy(&untouched, 0) == length && untouched == 'x');
    CHECK(parcae_last_error_copy(whole, length + 1) == length && strcmp(whole, text) == 0);
    CHECK(parcae_last_error_copy(whole, length) == length && strlen(whole) == length - 1);
    CHECK(parcae_last_error_copy(part, sizeof part) == length);
    CHECK(strlen(part) == 7 && strncmp(part, text, 7) == 0);
    CHECK(parcae_last_error_copy(part, 1) == length && part[0] == 0);
}

static int64_t on_a_task(void *arg)
{
    (void)arg;
    CHECK(parcae_last_error()[0] == 0); /* the task's own: it has had none */
    const char *mine = failing(0x6666);
    for (int i = 0; i < 50; i++) /* others have theirs meanwhile, and threads may change */
        CHECK(parcae_yield() == PARCAE_OK && strstr(mine, "0x6666") != NULL);
    CHECK(parcae_last_error() == mine);
    two_in_one_statement();
    sixteen_more();
    copies();
    return 0;
}

static void *on_a_thread(void *arg)
{
    on_a_task(arg);
    return NULL;
}

int main(void)
{
    pthread_t thread;
    on_a_task(NULL);
    const char *mine = failing(0x7777);
    CHECK(pthread_create(&thread, NULL, on_a_thread, NULL) == 0);
    start(PARCAE_SERVICE, 2);
    CHECK(janus_nursery_create() != NULL);
    for (int i = 0; i < 20; i++)
        CHECK(janus_nursery_spawn(on_a_task, NULL) == 0);
    CHECK(janus_nursery_await_all() == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(parcae_last_error() == mine && strstr(mine, "0x7777") != NULL);
    janus_rt_shutdown();
    return 0;
}
