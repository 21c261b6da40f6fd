/* Profiles and capabilities at run time. */
#include "check.h"

static int64_t nothing_to_do(void *arg)
{
    (void)arg;
    return 0;
}

static int64_t may_not(void *arg)
{
    /* Children do not inherit what their parent has put to use, and do not mint. */
    CHECK_FAILS(parcae_cap_spawn(1, unlimited(), 0) == NULL, PARCAE_E_CAPABILITY);
    CHECK_FAILS(parcae_cap_budget(unlimited(), 0) == NULL, PARCAE_E_CAPABILITY);
    CHECK(janus_nursery_create() != NULL);
    CHECK_FAILS(janus_nursery_spawn(nothing_to_do, NULL) == -1, PARCAE_E_CAPABILITY);
    CHECK_FAILS(parcae_spawn(NULL, nothing_to_do, NULL, NULL) == NULL, PARCAE_E_CAPABILITY);
    CHECK(parcae_cap_use(arg) == 0); /* what they were given they may use */
    CHECK(janus_nursery_spawn(nothing_to_do, NULL) == 0);
    CHECK(janus_nursery_await_all() == 0);
    return 0;
}

int main(void)
{
    start(PARCAE_CORE, 1);
    CHECK(parcae_rt_profile() == PARCAE_CORE);
    CHECK_FAILS(janus_nursery_create() == NULL, PARCAE_E_PROFILE);
    CHECK(strstr(parcae_last_error(), "service profile or higher (current: core)") != NULL);
    CHECK_FAILS(janus_channel_create_i64(1) == NULL, PARCAE_E_PROFILE);
    janus_rt_shutdown();

    start(PARCAE_SERVICE, 1);
    CHECK(janus_nursery_create() != NULL && janus_nursery_spawn(nothing_to_do, NULL) == 0);
    parcae_cap *budget = parcae_cap_budget(unlimited(), 0);
    CHECK_FAILS(janus_budget_recharge_child(1, nothing(), budget) == -1, PARCAE_E_PROFILE);
    CHECK(janus_nursery_await_all() == 0);
    janus_rt_shutdown();
    CHECK(parcae_cap_release(budget) == 0);

    start(PARCAE_SOVEREIGN, 2);
    CHECK(janus_nursery_create() != NULL);
    CHECK_FAILS(janus_nursery_spawn(nothing_to_do, NULL) == -1, PARCAE_E_CAPABILITY);
    CHECK_FAILS(janus_channel_create_i64(1) == NULL, PARCAE_E_CAPABILITY);

    parcae_cap *spawn = parcae_cap_spawn(3, unlimited(), PARCAE_DELEGABLE);
    CHECK(spawn != NULL && parcae_cap_use(spawn) == 0);
    CHECK(janus_nursery_spawn(may_not, spawn) == 0);
    CHECK(janus_nursery_await_all() == 0);

    /* As many tasks as it says, each with as much as it says. */
    CHECK(janus_nursery_create() != NULL);
    for (int i = 0; i < 3; i++)
        CHECK(janus_nursery_spawn(until_cancelled, NULL) == 0);
    CHECK_FAILS(janus_nursery_spawn(until_cancelled, NULL) == -1, PARCAE_E_CAPABILITY);
    CHECK(strstr(parcae_last_error(), "3") != NULL);
    janus_nursery_cancel();
    CHECK(janus_nursery_await_all() == PARCAE_CANCELLED);
    parcae_cap *weak = parcae_cap_spawn_attenuate(spawn, 1, only_ops(2000));
    CHECK(weak != NULL && parcae_cap_use(weak) == 0);
    CHECK_FAILS(parcae_cap_spawn_attenuate(weak, 1, only_ops(1)) == NULL, PARCAE_E_CAPABILITY);
    CHECK_FAILS(parcae_cap_spawn_attenuate(spawn, 9, unlimited()) == NULL, PARCAE_E_CAPABILITY);
    CHECK(janus_nursery_create() != NULL && janus_nursery_spawn(compute_for_ever, NULL) == 0);
    CHECK(janus_nursery_await_all() == PARCAE_BUDGET);

    /* Revoked with all that was derived from it. */
    CHECK(parcae_cap_revoke(spawn) == 0);
    CHECK(janus_nursery_create() != NULL);
    CHECK_FAILS(janus_nursery_spawn(nothing_to_do, NULL) == -1, PARCAE_E_CAPABILITY);
    CHECK(strstr(parcae_last_error(), "revoked") != NULL);
    CHECK(janus_nursery_await_all() == 0);

    parcae_cap *channels = parcae_cap_channel(1, 8, 0);
    void *channel = parcae_channel_create_i64(8, channels);
    CHECK(channel != NULL);
    CHECK_FAILS(parcae_channel_create_ptr(1, channels) == NULL, PARCAE_E_CAPABILITY);
    janus_channel_destroy_i64(channel);
    CHECK_FAILS(parcae_channel_create_i64(9, channels) == NULL, PARCAE_E_CAPABILITY);
    channel = parcae_channel_create_ptr(1, channels);
    CHECK(channel != NULL);
    janus_channel_destroy_ptr(channel);
    CHECK_FAILS(parcae_cap_use(channels) == -1, PARCAE_E_ARGUMENT);
    CHECK_FAILS(parcae_channel_create_i64(1, spawn) == NULL, PARCAE_E_HANDLE);
    CHECK(parcae_cap_release(spawn) == 0 && parcae_cap_release(weak) == 0);
    CHECK(parcae_cap_release(channels) == 0);
    CHECK_FAILS(parcae_cap_use(spawn) == -1, PARCAE_E_STALE);
    CHECK_FAILS(parcae_cap_revoke(spawn) == -1, PARCAE_E_STALE);
    janus_rt_shutdown();
    return 0;
}
