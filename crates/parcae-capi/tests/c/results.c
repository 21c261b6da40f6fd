/* Every line of the frozen table of results, produced by what it stands for. */
#include "check.h"

static int64_t succeed(void *arg)
{
    (void)arg;
    return 42; /* a value, not a failure */
}

static int64_t fail(void *arg)
{
    return *(int64_t *)arg;
}

static int64_t wait_for_ever(void *arg)
{
    (void)arg;
    for (;;) {
        parcae_status status = parcae_sleep_ns(1000000000);
        if (status != PARCAE_OK)
            return status;
    }
}

static int64_t panic(void *arg)
{
    parcae_task_panic(arg);
}

static int32_t minus_one(void)
{
    return -1;
}

static long await(int32_t kind)
{
    long code = janus_nursery_await_all();
    parcae_result result;
    CHECK(parcae_last_result(&result) == 0);
    CHECK(result.kind == kind && result.code == code);
    CHECK((result.task != 0) == (kind == PARCAE_CHILD_FAILED || kind == PARCAE_PANICKED ||
                                 kind == PARCAE_BUDGET_EXCEEDED));
    return code;
}

static void table(void)
{
    /* success: 0 */
    janus_nursery_create();
    CHECK(janus_nursery_spawn(succeed, NULL) == 0);
    CHECK(await(PARCAE_SUCCESS) == 0);

    /* cancelled: -1 */
    janus_nursery_create();
    CHECK(janus_nursery_spawn(wait_for_ever, NULL) == 0);
    CHECK(janus_nursery_spawn(compute_for_ever, NULL) == 0);
    CHECK(janus_nursery_is_cancelled() == 0);
    janus_nursery_cancel();
    CHECK(janus_nursery_is_cancelled() == 1);
    CHECK_FAILS(janus_nursery_spawn(succeed, NULL) == -1, PARCAE_E_CANCELLED);
    CHECK(await(PARCAE_WAS_CANCELLED) == -1);

    /* child failed: its code, also one that is in the table */
    static const int64_t codes[] = {-7, -1, -2, -3, -4, INT64_MIN};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        janus_nursery_create();
        CHECK(janus_nursery_spawn(wait_for_ever, NULL) == 0);
        CHECK(janus_nursery_spawn(fail, (void *)&codes[i]) == 0);
        CHECK(await(PARCAE_CHILD_FAILED) == codes[i]);
        CHECK(parcae_last_error_kind() == PARCAE_E_CHILD);
    }

    /* panic: -2 */
    janus_nursery_create();
    CHECK(janus_nursery_spawn(panic, "index out of bounds") == 0);
    CHECK(await(PARCAE_PANICKED) == -2);
    CHECK(strstr(parcae_last_error(), "index out of bounds") != NULL);

    /* budget exceeded: -3 */
    janus_budget small = only_ops(5000);
    parcae_nursery_opts opts = nursery_opts();
    opts.budget = &small;
    opts.on_exhausted = PARCAE_FAIL;
    CHECK(parcae_nursery_open(&opts) != NULL);
    CHECK(janus_nursery_spawn(compute_for_ever, NULL) == 0);
    CHECK(await(PARCAE_BUDGET_EXCEEDED) == -3);
    CHECK(strstr(parcae_last_error(), "ops") != NULL);

    /* pending: -4, never from an await */
    void *nursery = janus_nursery_create();
    CHECK(parcae_nursery_poll(nursery) == 0);
    CHECK(janus_nursery_spawn(wait_for_ever, NULL) == 0);
    CHECK(parcae_nursery_poll(nursery) == -4 && janus_nursery_task_count() == 1);
    CHECK(parcae_nursery_cancel(nursery) == 0);
    CHECK(await(PARCAE_WAS_CANCELLED) == -1);

    /* int32_t results keep their sign. */
    janus_nursery_create();
    CHECK(janus_nursery_spawn_noarg_i32(minus_one) == 0);
    CHECK(await(PARCAE_CHILD_FAILED) == -1);

    /* A failure comes before a cancellation. */
    int64_t code = -9;
    janus_nursery_create();
    CHECK(janus_nursery_spawn(fail, &code) == 0);
    while (parcae_nursery_poll(NULL) == PARCAE_PENDING)
        parcae_sleep_ns(100000);
    janus_nursery_cancel();
    CHECK(await(PARCAE_CHILD_FAILED) == -9);

    /* A nursery that isolates goes on, and tells of the first; one that collects, of all. */
    for (int32_t policy = PARCAE_ISOLATE; policy <= PARCAE_COLLECT; policy++) {
        parcae_nursery_opts patient = nursery_opts();
        patient.on_failure = policy;
        CHECK(parcae_nursery_open(&patient) != NULL);
        for (int i = 0; i < 3; i++)
            CHECK(janus_nursery_spawn(fail, &code) == 0);
        CHECK(await(PARCAE_CHILD_FAILED) == -9);
        parcae_result result;
        parcae_last_result(&result);
        CHECK(result.others == 2);
    }

    /* A deadline. */
    parcae_nursery_opts hasty = nursery_opts();
    hasty.timeout_ns = 1000000;
    CHECK(parcae_nursery_open(&hasty) != NULL);
    if (janus_nursery_spawn(wait_for_ever, NULL) != 0)
        CHECK(parcae_last_error_kind() == PARCAE_E_CANCELLED); /* the deadline was faster */
    CHECK(await(PARCAE_WAS_CANCELLED) == -1);
    parcae_result result;
    parcae_last_result(&result);
    CHECK(result.reason == PARCAE_TIMEOUT);
}

static int64_t on_a_task(void *arg)
{
    (void)arg;
    table();
    return 0;
}

int main(void)
{
    table(); /* on a thread */
    janus_nursery_create();
    CHECK(janus_nursery_spawn(on_a_task, NULL) == 0);
    CHECK(await(PARCAE_SUCCESS) == 0);
    janus_rt_shutdown();
    return 0;
}
