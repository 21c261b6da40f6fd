/* Select: what can happen happens, once; of several the choice is fair. */
#include "check.h"

static void *first, *second, *pointers, *quit;

static int64_t feed(void *arg)
{
    for (int64_t i = 0; i < 100; i++)
        CHECK(janus_channel_send_i64(arg, i) == 0);
    return 0;
}

static int64_t merge(void *arg)
{
    (void)arg;
    void *select = janus_select_create();
    int from_first = janus_select_add_recv(select, first);
    int from_second = janus_select_add_recv(select, second);
    int stop = janus_select_add_recv(select, quit);
    CHECK(from_first == 0 && from_second == 1 && stop == 2);
    int64_t sum = 0;
    for (;;) {
        int won = janus_select_wait(select);
        CHECK(won >= 0);
        if (won == stop)
            break;
        sum += janus_select_get_recv_value(select, won);
        CHECK(parcae_select_is_closed(select, won) == 0);
        CHECK_FAILS(janus_select_get_recv_value(select, won == 0) == INT64_MIN, PARCAE_E_ARGUMENT);
    }
    janus_select_destroy(select);
    return sum;
}

static int64_t waits(void *arg)
{
    int won = janus_select_wait(arg);
    CHECK(won == -1 && parcae_last_error_kind() == PARCAE_E_CANCELLED);
    return PARCAE_CANCELLED;
}

static void all(void)
{
    /* Nothing can happen: the default, the timeout. */
    void *select = janus_select_create();
    CHECK_FAILS(janus_select_wait(select) == -1, PARCAE_E_ARGUMENT);
    CHECK(janus_select_add_recv(select, first) == 0);
    CHECK(janus_select_add_timeout(select, 2) == 1);
    CHECK(janus_select_wait(select) == 1);
    CHECK(janus_select_add_default(select) == 2);
    CHECK(janus_select_wait(select) == 2);
    /* A value is there. */
    CHECK(janus_channel_try_send_i64(first, 77) == 1);
    CHECK(janus_select_wait(select) == 0 && janus_select_get_recv_value(select, 0) == 77);
    janus_select_destroy(select);

    /* Sends, of numbers and of pointers. */
    int here = 0;
    select = janus_select_create();
    CHECK(janus_select_add_send(select, first, 5) == 0);
    CHECK(janus_select_wait(select) == 0 && janus_channel_recv_i64(first, NULL) == 5);
    janus_select_destroy(select);
    select = janus_select_create();
    CHECK(janus_select_add_send_ptr(select, pointers, &here) == 0);
    CHECK(janus_select_wait(select) == 0 && janus_channel_len_ptr(pointers) == 1);
    janus_select_destroy(select);
    select = janus_select_create();
    CHECK(janus_select_add_recv_ptr(select, pointers) == 0);
    CHECK(janus_select_wait(select) == 0 && janus_select_get_recv_ptr(select, 0) == &here);
    CHECK_FAILS(janus_select_get_recv_value(select, 0) == INT64_MIN, PARCAE_E_CLOSED);
    janus_select_destroy(select);

    /* A token. */
    janus_cancel_token *token = janus_cancel_token_create();
    select = janus_select_create();
    CHECK(janus_select_add_recv(select, first) == 0 && parcae_select_add_token(select, token) == 1);
    janus_cancel_token_cancel(token);
    CHECK(janus_select_wait(select) == 1);
    janus_select_destroy(select);
    janus_cancel_token_destroy(token);

    /* Fair: both are ready, both win now and then. */
    int wins[2] = {0, 0};
    select = janus_select_create();
    janus_select_add_recv(select, first);
    janus_select_add_recv(select, second);
    for (int i = 0; i < 200; i++) {
        janus_channel_try_send_i64(first, 1);
        janus_channel_try_send_i64(second, 1);
        int won = janus_select_wait(select);
        CHECK(won == 0 || won == 1);
        wins[won]++;
    }
    CHECK(wins[0] > 10 && wins[1] > 10);
    while (janus_channel_len_i64(first) + janus_channel_len_i64(second) > 0)
        CHECK(janus_select_wait(select) >= 0);
    janus_select_destroy(select);

    /* A closed channel wins, and says so. */
    void *closed = janus_channel_create_i64(1);
    select = janus_select_create();
    CHECK(janus_select_add_recv(select, closed) == 0);
    janus_channel_close_i64(closed);
    CHECK(janus_select_wait(select) == 0 && parcae_select_is_closed(select, 0) == 1);
    CHECK_FAILS(janus_select_get_recv_value(select, 0) == INT64_MIN, PARCAE_E_CLOSED);
    janus_select_destroy(select);
    janus_channel_destroy_i64(closed);
}

static int64_t on_a_task(void *arg)
{
    (void)arg;
    all();
    return 0;
}

int main(void)
{
    first = janus_channel_create_i64(1);
    second = janus_channel_create_i64(1);
    quit = janus_channel_create_i64(0);
    pointers = janus_channel_create_ptr(1);
    all();
    janus_nursery_create();
    CHECK(janus_nursery_spawn(on_a_task, NULL) == 0);
    CHECK(janus_nursery_await_all() == 0);

    janus_nursery_create();
    parcae_task *merged = parcae_spawn(NULL, merge, NULL, NULL);
    janus_nursery_create();
    CHECK(janus_nursery_spawn(feed, first) == 0 && janus_nursery_spawn(feed, second) == 0);
    CHECK(janus_nursery_await_all() == 0);
    while (janus_channel_len_i64(first) + janus_channel_len_i64(second) > 0)
        parcae_sleep_ns(100000);
    CHECK(janus_channel_send_i64(quit, 0) == 0);
    int64_t sum = 0;
    CHECK(parcae_task_join(merged, &sum) == PARCAE_OK && sum == 2 * 99 * 100 / 2);
    CHECK(janus_nursery_await_all() == 0);

    /* Waiting is a cancel point; one waits with a select at a time. */
    void *select = janus_select_create();
    janus_select_add_recv(select, first);
    janus_nursery_create();
    CHECK(janus_nursery_spawn(waits, select) == 0);
    while (janus_select_add_timeout(select, 1000000) >= 0)
        parcae_sleep_ns(100000);
    CHECK_FAILS(janus_select_wait(select) == -1, PARCAE_E_ARGUMENT);
    janus_nursery_cancel();
    CHECK(janus_nursery_await_all() == PARCAE_CANCELLED);
    janus_select_destroy(select);
    CHECK_FAILS(janus_select_wait(select) == -1, PARCAE_E_STALE);
    janus_rt_shutdown();
    return 0;
}
