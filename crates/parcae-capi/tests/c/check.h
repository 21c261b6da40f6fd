/* What all test programs use. A program that ends with 0 has passed. */
#ifndef CHECK_H
#define CHECK_H

#include <parcae.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                          \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            fprintf(stderr, "%s:%d: not so: %s (last error: %s)\n", __FILE__, __LINE__,           \
                    #condition, parcae_last_error());                                             \
            _Exit(1);                                                                             \
        }                                                                                         \
    } while (0)

/* The call has failed, and this is the kind of its error. */
#define CHECK_FAILS(call, error_kind)                                                             \
    do {                                                                                          \
        parcae_clear_error();                                                                     \
        CHECK(call);                                                                              \
        CHECK(parcae_last_error_kind() == (error_kind));                                          \
        CHECK(strlen(parcae_last_error()) > 0);                                                   \
    } while (0)

static inline janus_budget nothing(void)
{
    janus_budget budget = {0, 0, 0, 0, 0};
    return budget;
}

static inline janus_budget unlimited(void)
{
    janus_budget budget = {PARCAE_UNLIMITED, PARCAE_UNLIMITED, PARCAE_UNLIMITED, PARCAE_UNLIMITED,
                           PARCAE_UNLIMITED};
    return budget;
}

static inline janus_budget only_ops(uint64_t ops)
{
    janus_budget budget = unlimited();
    budget.ops = ops;
    return budget;
}

static inline parcae_nursery_opts nursery_opts(void)
{
    parcae_nursery_opts opts;
    memset(&opts, 0, sizeof opts);
    opts.size = sizeof opts;
    return opts;
}

static inline parcae_spawn_opts spawn_opts(void)
{
    parcae_spawn_opts opts;
    memset(&opts, 0, sizeof opts);
    opts.size = sizeof opts;
    return opts;
}

static inline void start(int32_t profile, uint32_t workers)
{
    parcae_config config;
    CHECK(parcae_config_init(&config) == 0);
    config.profile = profile;
    config.workers = workers;
    CHECK(parcae_rt_init(&config) == 0);
}

/* Tasks that end when they are cancelled: one that lets others run, and one that only computes. */
static inline int64_t until_cancelled(void *arg)
{
    (void)arg;
    while (parcae_yield() == PARCAE_OK) {
    }
    return PARCAE_CANCELLED;
}

static inline int64_t compute_for_ever(void *arg)
{
    (void)arg;
    parcae_meter *meter = parcae_meter_get();
    parcae_status status;
    while ((status = parcae_yield_check(meter)) == PARCAE_OK) {
    }
    return status;
}

#endif
