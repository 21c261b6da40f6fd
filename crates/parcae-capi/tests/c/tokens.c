/* Tokens. */
#include "check.h"

static int called, reason;

static void on_cancel(void *arg, int32_t why)
{
    called += *(int *)arg;
    reason = why;
}

static int64_t until_the_token(void *arg)
{
    while (!janus_cancel_token_is_cancelled(arg)) {
        parcae_status status = parcae_yield();
        if (status != PARCAE_OK)
            return status;
    }
    return 5;
}

int main(void)
{
    int one = 1;
    CancelToken *parent = janus_cancel_token_create(), *child = janus_cancel_token_child(parent);
    CHECK(parent != NULL && child != NULL);
    CHECK(janus_cancel_token_is_cancelled(child) == 0);
    CHECK(parcae_cancel_token_reason(child) == PARCAE_NOT_CANCELLED);
    for (int i = 0; i < 20; i++)
        CHECK(parcae_cancel_token_on_cancel(child, on_cancel, &one) == 0);
    janus_cancel_token_cancel(parent);
    janus_cancel_token_cancel(parent);
    CHECK(janus_cancel_token_is_cancelled(child) == 1 && called == 20 && reason == PARCAE_PARENT);
    CHECK(parcae_cancel_token_reason(parent) == PARCAE_EXPLICIT);
    CHECK(parcae_cancel_token_on_cancel(parent, on_cancel, &one) == 0 && called == 21);
    CHECK_FAILS(parcae_cancel_token_on_cancel(parent, NULL, NULL) == -1, PARCAE_E_NULL);
    janus_cancel_token_destroy(parent);
    janus_cancel_token_destroy(child);

    /* A callback goes with its token. */
    CancelToken *above = janus_cancel_token_create(), *below = janus_cancel_token_child(above);
    CHECK(parcae_cancel_token_on_cancel(below, on_cancel, &one) == 0);
    janus_cancel_token_destroy(below);
    janus_cancel_token_cancel(above);
    CHECK(called == 21);
    janus_cancel_token_destroy(above);

    /* The token of a nursery cancels it, from anywhere. */
    CancelToken *stop = janus_cancel_token_create();
    CHECK(janus_nursery_create() != NULL);
    CancelToken *nursery = janus_nursery_get_token();
    parcae_task *task = parcae_spawn(NULL, until_the_token, stop, NULL);
    janus_cancel_token_cancel(stop);
    int64_t value = 0;
    CHECK(parcae_task_join(task, &value) == PARCAE_OK && value == 5);
    CHECK(janus_nursery_spawn(until_the_token, nursery) == 0);
    janus_cancel_token_cancel(nursery);
    CHECK(janus_nursery_is_cancelled() == 1);
    CHECK(janus_nursery_await_all() == PARCAE_CANCELLED);
    CHECK(janus_cancel_token_is_cancelled(nursery) == 1); /* it outlives the nursery */
    janus_cancel_token_destroy(nursery);
    janus_cancel_token_destroy(stop);
    janus_rt_shutdown();
    return 0;
}
