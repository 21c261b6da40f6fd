/* Budgets: charged, used up, recharged. */
#include "check.h"

static int64_t charges(void *arg)
{
    (void)arg;
    janus_budget before = janus_budget_get_current();
    CHECK(parcae_charge_ops(10) == PARCAE_OK);
    CHECK(parcae_charge_memory(100) == PARCAE_OK);
    CHECK(parcae_charge_spawns(1) == PARCAE_OK);
    CHECK(parcae_charge_channel_ops(3) == PARCAE_OK);
    CHECK(parcae_charge_syscalls(2) == PARCAE_OK);
    janus_budget cost = nothing();
    cost.memory = 50;
    CHECK(parcae_charge(cost) == PARCAE_OK);
    janus_budget after = janus_budget_get_current();
    CHECK(before.ops - after.ops == 10 + 1 + 1 + 3 + 2);
    CHECK(before.memory - after.memory == 150);
    CHECK(before.spawn_count - after.spawn_count == 1);
    CHECK(before.channel_ops - after.channel_ops == 3);
    CHECK(before.syscalls - after.syscalls == 2);
    /* All or nothing: what cannot be paid is not charged. */
    cost = nothing();
    cost.syscalls = 1000;
    cost.memory = 1;
    CHECK_FAILS(parcae_charge(cost) == PARCAE_BUDGET, PARCAE_E_BUDGET);
    CHECK(janus_budget_get_current().memory == after.memory);
    return 0;
}

static int64_t computes(void *arg)
{
    parcae_meter *meter = parcae_meter_get();
    for (uint64_t i = 0; i < *(uint64_t *)arg; i++) {
        parcae_status status = parcae_yield_check(meter);
        if (status != PARCAE_OK)
            return status;
    }
    return 0;
}

static int64_t spawns(void *arg)
{
    (void)arg;
    uint64_t none = 0;
    janus_budget little = nothing();
    little.ops = 10;
    parcae_nursery_opts opts = nursery_opts();
    opts.slice = &little;
    CHECK(parcae_nursery_open(&opts) != NULL);
    int spawned = 0;
    while (janus_nursery_spawn(computes, &none) == 0)
        spawned++;
    CHECK(parcae_last_error_kind() == PARCAE_E_BUDGET);
    CHECK(strstr(parcae_last_error(), "spawn_count") != NULL);
    CHECK(janus_nursery_await_all() == 0);
    return spawned;
}

static int64_t supervises(void *arg)
{
    parcae_cap *cap = arg;
    uint64_t much = 20000;
    janus_budget pool = only_ops(4000), own = only_ops(1000), share = only_ops(500);
    parcae_nursery_opts opts = nursery_opts();
    opts.budget = &pool;
    opts.slice = &share;
    opts.on_exhausted = PARCAE_SUSPEND;
    CHECK(parcae_nursery_open(&opts) != NULL);
    parcae_spawn_opts child = spawn_opts();
    child.budget = &own;
    parcae_task *task = parcae_spawn(NULL, computes, &much, &child);
    CHECK(task != NULL);
    CHECK(janus_nursery_spawn(computes, &much) == 0); /* on the nursery's budget */
    uint64_t recharged[2] = {0, 0};
    CHECK_FAILS(janus_budget_recharge_child(12345, only_ops(1), cap) == -1, PARCAE_E_ARGUMENT);
    while (janus_nursery_task_count() > 0) {
        uint64_t exhausted = janus_supervisor_poll_exhausted();
        if (exhausted == 0) {
            CHECK(parcae_yield() == PARCAE_OK);
            continue;
        }
        janus_budget more = nothing();
        more.ops = 3000;
        if (janus_budget_recharge_child(exhausted, more, cap) != 0) {
            /* What the other had left came first: it waits no more. */
            CHECK(parcae_last_error_kind() == PARCAE_E_ARGUMENT);
            continue;
        }
        recharged[exhausted == parcae_task_id(task)] += 1;
    }
    CHECK(recharged[0] >= 5 && recharged[1] >= 6);
    CHECK(parcae_task_join(task, NULL) == PARCAE_OK);
    CHECK(janus_nursery_await_all() == 0);
    return 0;
}

/* A budget for each child binds, whatever else is counted, and is recharged child by child. */
static int64_t bounds_each_child(void *arg)
{
    uint64_t much = 20000;
    janus_budget each = only_ops(1000);
    parcae_nursery_opts opts = nursery_opts();
    opts.child_budget = &each;
    opts.on_exhausted = PARCAE_FAIL;
    CHECK(parcae_nursery_open(&opts) != NULL);
    CHECK(janus_nursery_spawn(computes, &much) == 0);
    CHECK(janus_nursery_await_all() == -3);

    opts.on_exhausted = PARCAE_SUSPEND;
    CHECK(parcae_nursery_open(&opts) != NULL);
    for (int i = 0; i < 3; i++)
        CHECK(janus_nursery_spawn(computes, &much) == 0);
    uint64_t recharged = 0;
    while (janus_nursery_task_count() > 0) {
        uint64_t exhausted = janus_supervisor_poll_exhausted();
        janus_budget more = nothing();
        more.ops = 5000;
        if (exhausted != 0 && janus_budget_recharge_child(exhausted, more, arg) == 0)
            recharged++;
        CHECK(parcae_yield() == PARCAE_OK);
    }
    CHECK(recharged >= 3 * 4);
    CHECK(janus_nursery_await_all() == 0);
    return 0;
}

static int64_t recharges_itself(void *arg)
{
    uint64_t much = 5000;
    CHECK_FAILS(janus_budget_recharge(only_ops(10)) == -1, PARCAE_E_CAPABILITY);
    CHECK(parcae_cap_use(arg) == 0);
    janus_budget more = nothing();
    more.ops = 10000;
    CHECK(janus_budget_recharge(more) == 0);
    return computes(&much);
}

int main(void)
{
    start(PARCAE_CLUSTER, 2);
    CHECK(parcae_charge_ops(1000000) == PARCAE_OK); /* nothing is counted on a thread */
    CHECK(janus_supervisor_poll_exhausted() == 0);

    janus_budget each = {1000, 1000, 5, 10, 5}, pool = {5000, 5000, 20, 50, 5};
    parcae_nursery_opts opts = nursery_opts();
    opts.budget = &pool;
    opts.slice = &each;
    opts.on_exhausted = PARCAE_FAIL;
    CHECK(parcae_nursery_open(&opts) != NULL);
    CHECK(janus_nursery_spawn(charges, NULL) == 0);
    CHECK(janus_nursery_await_all() == 0);

    /* More than there is. */
    janus_budget huge = only_ops(1000000);
    parcae_spawn_opts greedy = spawn_opts();
    greedy.budget = &huge;
    CHECK(parcae_nursery_open(&opts) != NULL);
    uint64_t few = 10;
    CHECK_FAILS(parcae_spawn(NULL, computes, &few, &greedy) == NULL, PARCAE_E_BUDGET);
    parcae_task *task = parcae_spawn(NULL, spawns, NULL, NULL);
    int64_t spawned = 0;
    CHECK(parcae_task_join(task, &spawned) == PARCAE_OK && spawned == 5);
    CHECK(janus_nursery_await_all() == 0);

    parcae_cap *cap = parcae_cap_budget(unlimited(), PARCAE_DELEGABLE);
    janus_nursery_create();
    CHECK(janus_nursery_spawn(supervises, cap) == 0);
    CHECK(janus_nursery_await_all() == 0);
    janus_nursery_create();
    CHECK(janus_nursery_spawn(bounds_each_child, cap) == 0);
    CHECK(janus_nursery_await_all() == 0);

    /* A program that was compiled before there was a slice. */
    parcae_nursery_opts before = nursery_opts();
    before.size = offsetof(parcae_nursery_opts, slice);
    before.slice = (const janus_budget *)8; /* not looked at */
    CHECK(parcae_nursery_open(&before) != NULL && janus_nursery_await_all() == 0);
    before.size -= 1;
    CHECK_FAILS(parcae_nursery_open(&before) == NULL, PARCAE_E_ARGUMENT);
    before.size = sizeof before + 8; /* or by a newer header than this library's */
    CHECK_FAILS(parcae_nursery_open(&before) == NULL, PARCAE_E_ARGUMENT);

    /* A task that holds a capability recharges itself, as far as that goes. */
    janus_budget small = only_ops(100);
    parcae_nursery_opts patient = nursery_opts();
    patient.budget = &small;
    CHECK(parcae_nursery_open(&patient) != NULL);
    CHECK(janus_nursery_spawn(recharges_itself, cap) == 0);
    CHECK(janus_nursery_await_all() == 0);
    CHECK(parcae_nursery_open(&patient) != NULL);
    uint64_t much = 5000;
    CHECK(janus_nursery_spawn(computes, &much) == 0);
    CHECK(janus_nursery_await_all() == PARCAE_BUDGET);
    CHECK(parcae_cap_revoke(cap) == 0 && parcae_cap_release(cap) == 0);
    janus_rt_shutdown();

    /* The runtime itself can be bounded. */
    parcae_config config;
    parcae_config_init(&config);
    config.budget.spawn_count = 3;
    CHECK(parcae_rt_init(&config) == 0);
    janus_nursery_create();
    for (int i = 0; i < 3; i++)
        CHECK(janus_nursery_spawn(computes, &few) == 0);
    CHECK_FAILS(janus_nursery_spawn(computes, &few) == -1, PARCAE_E_BUDGET);
    CHECK(janus_nursery_await_all() == 0);
    janus_rt_shutdown();
    return 0;
}
