/* Handles that are NULL, forged, stale, destroyed twice, of another kind, or another's. */
#include "check.h"
#include <pthread.h>

static int64_t nothing_to_do(void *arg)
{
    (void)arg;
    return 7;
}

static void *of_another_thread(void *arg)
{
    void **handles = arg;
    CHECK_FAILS(parcae_nursery_close(handles[0]) == -1, PARCAE_E_NO_NURSERY);
    janus_nursery_create();
    CHECK_FAILS(parcae_nursery_close(handles[0]) == -1, PARCAE_E_NOT_YOURS);
    CHECK_FAILS(parcae_spawn(handles[0], nothing_to_do, NULL, NULL) == NULL, PARCAE_E_NOT_YOURS);
    CHECK_FAILS(parcae_nursery_poll(handles[0]) == PARCAE_ERROR, PARCAE_E_NOT_YOURS);
    int64_t value;
    CHECK_FAILS(parcae_task_join(handles[1], &value) == PARCAE_ERROR, PARCAE_E_NOT_YOURS);
    CHECK_FAILS(parcae_task_release(handles[1]) == -1, PARCAE_E_NOT_YOURS);
    CHECK(janus_nursery_await_all() == 0);
    return NULL;
}

static void bad(void *handle, int kind)
{
    int64_t value;
    int32_t error = 0;
    CHECK_FAILS(janus_channel_send_i64(handle, 1) == -1, kind);
    CHECK_FAILS(janus_channel_recv_i64(handle, &error) == INT64_MIN && error == -1, kind);
    CHECK_FAILS(janus_channel_try_send_i64(handle, 1) == -1, kind);
    CHECK_FAILS(janus_channel_try_recv_i64(handle, &value) == -1, kind);
    CHECK_FAILS(janus_channel_len_i64(handle) == -1, kind);
    CHECK(janus_channel_is_closed_i64(handle) == 1);
    CHECK_FAILS((janus_channel_close_i64(handle), 1), kind);
    CHECK_FAILS((janus_channel_destroy_i64(handle), 1), kind);
    CHECK_FAILS(janus_select_wait(handle) == -1, kind == PARCAE_E_STALE ? PARCAE_E_HANDLE : kind);
}

static void forge(void *forged)
{
    CHECK(janus_cancel_token_is_cancelled(forged) == 1);
    int expected = forged == NULL ? PARCAE_E_NULL : PARCAE_E_HANDLE;
    CHECK_FAILS((janus_cancel_token_cancel(forged), 1), expected);
    CHECK_FAILS((janus_cancel_token_destroy(forged), 1), expected);
    CHECK_FAILS(parcae_task_id(forged) == 0, expected);
    CHECK_FAILS(parcae_cap_release(forged) == -1, expected);
    CHECK_FAILS(parcae_nursery_cancel(forged) == -1, expected);
    CHECK_FAILS((janus_scheduler_shutdown(forged), 1), expected);
    CHECK_FAILS(janus_channel_recv_ptr(forged, NULL) == NULL, expected);
    bad(forged, expected);
}

int main(void)
{
    int on_the_stack = 0;
    forge(NULL);
    forge(&on_the_stack);
    forge((void *)(uintptr_t)1);
    forge((void *)(uintptr_t)-1);
    CHECK_FAILS(parcae_nursery_close(NULL) == -1, PARCAE_E_NULL);

    /* Destroyed: stale from then on, also when the slot has another object. */
    void *channel = janus_channel_create_i64(1);
    CHECK(channel != NULL && janus_channel_send_i64(channel, 3) == 0);
    janus_channel_destroy_i64(channel);
    bad(channel, PARCAE_E_STALE);
    void *other = janus_channel_create_i64(1);
    CHECK(other != NULL && other != channel);
    bad(channel, PARCAE_E_STALE);
    CHECK_FAILS(janus_channel_recv_ptr(other, NULL) == NULL, PARCAE_E_HANDLE); /* of another kind */
    janus_channel_destroy_i64(other);

    CancelToken *token = janus_cancel_token_create();
    janus_cancel_token_destroy(token);
    CHECK_FAILS((janus_cancel_token_destroy(token), 1), PARCAE_E_STALE);

    /* Nurseries and tasks. */
    void *handles[2];
    handles[0] = janus_nursery_create();
    handles[1] = parcae_spawn(NULL, nothing_to_do, NULL, NULL);
    CHECK(handles[0] != NULL && handles[1] != NULL);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, of_another_thread, handles) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    int64_t value = 0;
    CHECK(parcae_task_join(handles[1], &value) == PARCAE_OK && value == 7);
    CHECK_FAILS(parcae_task_join(handles[1], &value) == PARCAE_ERROR, PARCAE_E_STALE);
    void *left = parcae_spawn(NULL, nothing_to_do, NULL, NULL);
    CHECK(left != NULL && janus_nursery_await_all() == 0);
    CHECK_FAILS(parcae_task_join(left, &value) == PARCAE_ERROR, PARCAE_E_STALE);
    CHECK_FAILS(parcae_nursery_close(handles[0]) == -1, PARCAE_E_NO_NURSERY);
    CHECK_FAILS(parcae_nursery_cancel(handles[0]) == -1, PARCAE_E_STALE);

    /* Outside of a nursery, and without a function. */
    CHECK_FAILS(janus_nursery_spawn(nothing_to_do, NULL) == -1, PARCAE_E_NO_NURSERY);
    CHECK_FAILS(janus_nursery_await_all() == -1, PARCAE_E_NO_NURSERY);
    CHECK_FAILS(janus_nursery_task_count() == -1, PARCAE_E_NO_NURSERY);
    CHECK_FAILS(janus_nursery_get_token() == NULL, PARCAE_E_NO_NURSERY);
    CHECK_FAILS((janus_nursery_cancel(), 1), PARCAE_E_NO_NURSERY);
    CHECK(janus_nursery_is_cancelled() == 0);
    janus_nursery_create();
    CHECK_FAILS(janus_nursery_spawn(NULL, NULL) == -1, PARCAE_E_NULL);
    CHECK_FAILS(janus_nursery_spawn_noarg(NULL) == -1, PARCAE_E_NULL);
    CHECK_FAILS(parcae_spawn(NULL, NULL, NULL, NULL) == NULL, PARCAE_E_NULL);
    parcae_spawn_opts opts = spawn_opts();
    opts.size = 3;
    CHECK_FAILS(parcae_spawn(NULL, nothing_to_do, NULL, &opts) == NULL, PARCAE_E_ARGUMENT);
    opts = spawn_opts();
    opts.priority = 99;
    CHECK_FAILS(parcae_spawn(NULL, nothing_to_do, NULL, &opts) == NULL, PARCAE_E_ARGUMENT);
    opts = spawn_opts();
    opts.stack_size = (size_t)1 << 40;
    CHECK_FAILS(parcae_spawn(NULL, nothing_to_do, NULL, &opts) == NULL, PARCAE_E_ARGUMENT);
    CHECK(janus_nursery_await_all() == 0);
    janus_rt_shutdown();
    return 0;
}
