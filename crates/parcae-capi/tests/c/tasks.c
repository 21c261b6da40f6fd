/* Tasks by their handles: options, joins, cancels, and how a task ends itself. */
#include "check.h"

static int64_t twice(void *arg)
{
    return 2 * *(int64_t *)arg;
}

static int64_t fails(void *arg)
{
    (void)arg;
    return -11;
}

static int64_t sleeps_until_cancelled(void *arg)
{
    (void)arg;
    parcae_status status;
    do {
        status = parcae_sleep_ns(50000);
    } while (status == PARCAE_OK);
    CHECK(parcae_last_error_kind() == PARCAE_E_CANCELLED);
    return status;
}

static int64_t deep(int64_t n)
{
    volatile char room[1024];
    room[0] = (char)n;
    return n == 0 ? room[0] : deep(n - 1) + 1;
}

static int64_t uses_much_stack(void *arg)
{
    (void)arg;
    CHECK(parcae_stack_left() > ((size_t)3 << 20));
    return deep(2000);
}

static void exits(int64_t code)
{
    parcae_task_exit(code);
}

static int64_t exits_further_down(void *arg)
{
    exits(*(int64_t *)arg);
    return 1; /* not reached */
}

static int64_t exits_with_a_nursery_open(void *arg)
{
    janus_nursery_create();
    CHECK(janus_nursery_spawn(sleeps_until_cancelled, NULL) == 0);
    exits(*(int64_t *)arg);
    return 1;
}

static int64_t own_number;

static int64_t tells_its_number(void *arg)
{
    (void)arg;
    own_number = (int64_t)parcae_task_self();
    return 0;
}

static int64_t seventeen(void)
{
    return 17;
}

static int32_t minus_three(void *arg)
{
    (void)arg;
    return -3;
}

static void all(void)
{
    int64_t six = 6, value = 0;
    parcae_nursery_opts patient = nursery_opts();
    patient.on_failure = PARCAE_ISOLATE;
    patient.name = "patient";
    CHECK(parcae_nursery_open(&patient) != NULL);

    parcae_task *task = parcae_spawn(NULL, twice, &six, NULL);
    CHECK(task != NULL && parcae_task_join(task, &value) == PARCAE_OK && value == 12);
    task = parcae_spawn(NULL, twice, &six, NULL);
    CHECK(parcae_task_join(task, NULL) == PARCAE_OK);

    task = parcae_spawn(NULL, fails, NULL, NULL);
    CHECK_FAILS(parcae_task_join(task, &value) == PARCAE_ERROR && value == -11, PARCAE_E_CHILD);

    /* One is cancelled without the others. */
    task = parcae_spawn(NULL, sleeps_until_cancelled, NULL, NULL);
    CHECK(parcae_task_is_finished(task) == 0 && parcae_task_cancel(task) == 0);
    CHECK_FAILS(parcae_task_join(task, &value) == PARCAE_CANCELLED, PARCAE_E_CANCELLED);
    CHECK(janus_nursery_is_cancelled() == 0);

    /* Options: stack, priority, name, budget. */
    parcae_spawn_opts opts = spawn_opts();
    opts.stack_size = (size_t)4 << 20;
    opts.name = "digger";
    opts.priority = PARCAE_HIGH;
    task = parcae_spawn(NULL, uses_much_stack, NULL, &opts);
    CHECK(parcae_task_join(task, &value) == PARCAE_OK && value == 2000);
    opts.name = "plugin-7";
    opts.stack_size = 0;
    task = parcae_spawn(NULL, fails, NULL, &opts);
    CHECK(parcae_task_join(task, &value) == PARCAE_ERROR);
    CHECK(strstr(parcae_last_error(), "`plugin-7` of `patient`") != NULL);

    /* Ending from within. */
    static int64_t codes[] = {5, 0, -8};
    for (int i = 0; i < 3; i++) {
        janus_task_fn ways[] = {exits_further_down, exits_with_a_nursery_open};
        for (int way = 0; way < 2; way++) {
            if (way == 1 && codes[i] >= 0)
                continue; /* would wait for a child that does not end */
            task = parcae_spawn(NULL, ways[way], &codes[i], NULL);
            parcae_status status = parcae_task_join(task, &value);
            CHECK(status == (codes[i] < 0 ? PARCAE_ERROR : PARCAE_OK) && value == codes[i]);
        }
    }

    task = parcae_spawn(NULL, tells_its_number, NULL, NULL);
    uint64_t number = parcae_task_id(task);
    CHECK(number != 0 && parcae_task_join(task, NULL) == PARCAE_OK);
    CHECK((uint64_t)own_number == number);

    task = parcae_spawn(NULL, sleeps_until_cancelled, NULL, NULL);
    CHECK(parcae_task_cancel(task) == 0 && parcae_task_release(task) == 0);
    CHECK(janus_nursery_spawn_noarg(seventeen) == 0);
    CHECK(janus_nursery_spawn_i32(minus_three, NULL) == 0);
    CHECK(janus_nursery_await_all() == -3); /* what nobody joined */
}

static int64_t on_a_task(void *arg)
{
    (void)arg;
    CHECK(parcae_task_self() != 0 && parcae_stack_left() != SIZE_MAX);
    all();
    return 0;
}

int main(void)
{
    CHECK(parcae_task_self() == 0 && parcae_stack_left() == SIZE_MAX);
    all();
    janus_nursery_create();
    CHECK(janus_nursery_spawn(on_a_task, NULL) == 0);
    CHECK(janus_nursery_await_all() == 0);
    janus_rt_shutdown();
    return 0;
}
