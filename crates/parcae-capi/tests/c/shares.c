/* Shares: tenants get time by weight, refusals have texts, weights change, figures are exact. */
#include "check.h"

/* Virtual time passes by a microsecond for each run of a task. */
enum { STEPS = 5000 };

static int over;

/* Computes until it is over, and counts. */
static int64_t hog(void *arg)
{
    uint64_t *count = arg;
    parcae_meter *meter = parcae_meter_get();
    while (!over) {
        parcae_status status = parcae_yield_check(meter);
        if (status != PARCAE_OK)
            return status;
        ++*count;
    }
    return 0;
}

static parcae_nursery_opts tenant_opts(const char *name, uint32_t share)
{
    parcae_nursery_opts opts = nursery_opts();
    opts.name = name;
    opts.share = share;
    opts.latency = PARCAE_LATENCY_SLICE;
    opts.latency_slice = 512; /* ops: few of them make many turns */
    return opts;
}

static parcae_tenant tenant(const char *name)
{
    parcae_tenant figures;
    memset(&figures, 0, sizeof figures);
    figures.size = sizeof figures;
    CHECK(parcae_tenant_get(name, &figures) == 0);
    return figures;
}

static void ratio(uint64_t few, uint64_t many, double expected)
{
    double found = (double)many / (double)few;
    if (found < expected * 0.95 || found > expected * 1.05) {
        fprintf(stderr, "%g, not %g: %llu, %llu\n", found, expected, (unsigned long long)few,
                (unsigned long long)many);
        _Exit(1);
    }
}

static uint64_t light, heavy;

/* Two tenants side by side; after a while the lighter one becomes the heavier one. */
static int64_t plays(void *arg)
{
    (void)arg;
    parcae_nursery_opts light_opts = tenant_opts("light", 1024);
    parcae_nursery_opts heavy_opts = tenant_opts("heavy", 3072);
    void *first = parcae_nursery_open(&light_opts);
    CHECK(first != NULL && janus_nursery_spawn(hog, &light) == 0);
    void *second = parcae_nursery_open(&heavy_opts);
    CHECK(second != NULL && janus_nursery_spawn(hog, &heavy) == 0);

    CHECK(parcae_sleep_ns(STEPS * 1000) == PARCAE_OK);
    CHECK(tenant("heavy").weight == 3072 && tenant("heavy").open == 1);
    CHECK(tenant("light").turns > 10);
    ratio(light, heavy, 3.0);
    CHECK(tenant("heavy").wanted > 2.9 * tenant("light").wanted);

    CHECK(parcae_nursery_set_share(first, 2 * 3072) == 0);
    CHECK(tenant("light").weight == 2 * 3072);
    uint64_t light_before = light, heavy_before = heavy;
    CHECK(parcae_sleep_ns(2 * STEPS * 1000) == PARCAE_OK);
    ratio(heavy - heavy_before, light - light_before, 2.0);

    over = 1;
    CHECK(janus_nursery_await_all() == 0);
    CHECK(janus_nursery_await_all() == 0);
    CHECK(tenant("heavy").open == 0);
    return 0;
}

static int64_t refusals(void *arg)
{
    (void)arg;
    parcae_nursery_opts opts = tenant_opts("refused", (1 << 20) + 1);
    CHECK_FAILS(parcae_nursery_open(&opts) == NULL, PARCAE_E_ARGUMENT);
    opts = tenant_opts("refused", 1);
    opts.latency_slice = 1;
    CHECK_FAILS(parcae_nursery_open(&opts) == NULL, PARCAE_E_SHARE);
    CHECK(strstr(parcae_last_error(), "256") != NULL);
    opts.latency = PARCAE_LATENCY_BATCH; /* and a slice */
    CHECK_FAILS(parcae_nursery_open(&opts) == NULL, PARCAE_E_ARGUMENT);
    opts.latency = 77;
    CHECK_FAILS(parcae_nursery_open(&opts) == NULL, PARCAE_E_ARGUMENT);

    CHECK_FAILS(parcae_nursery_set_share(NULL, 1) == -1, PARCAE_E_NO_NURSERY);
    CHECK(janus_nursery_create() != NULL);
    CHECK_FAILS(parcae_nursery_set_share(NULL, 1) == -1, PARCAE_E_SHARE);
    CHECK(strstr(parcae_last_error(), "parcae_nursery_opts.share") != NULL);
    CHECK_FAILS(parcae_nursery_set_share(NULL, 0) == -1, PARCAE_E_ARGUMENT);
    CHECK(janus_nursery_await_all() == 0);

    /* A latency alone makes a tenant, of the normal weight. */
    opts = nursery_opts();
    opts.name = "prompt";
    opts.latency = PARCAE_LATENCY_SENSITIVE;
    CHECK(parcae_nursery_open(&opts) != NULL && tenant("prompt").weight == 1024);
    CHECK(janus_nursery_await_all() == 0);

    CHECK_FAILS(parcae_tenant_get("nobody", NULL) == -1, PARCAE_E_NULL);
    parcae_tenant figures;
    figures.size = sizeof figures;
    CHECK_FAILS(parcae_tenant_get("nobody", &figures) == -1, PARCAE_E_ARGUMENT);
    figures.size = 8;
    CHECK_FAILS(parcae_tenant_get("prompt", &figures) == -1, PARCAE_E_ARGUMENT);
    CHECK(tenant(NULL).weight == 1024); /* tasks without a tenant */
    return 0;
}

static void run(int64_t (*task)(void *))
{
    CHECK(janus_nursery_create() != NULL);
    CHECK(janus_nursery_spawn(task, NULL) == 0);
    CHECK(janus_nursery_await_all() == 0);
}

int main(void)
{
    RuntimeConfig config = {1, 42};
    janus_rt_init(config);
    run(plays);
    run(refusals);
    /* A structure of an older library, which ends before the share. */
    parcae_nursery_opts old = tenant_opts("old", 1);
    old.size = offsetof(parcae_nursery_opts, share);
    CHECK(parcae_nursery_open(&old) != NULL);
    CHECK_FAILS(parcae_nursery_set_share(NULL, 1) == -1, PARCAE_E_SHARE);
    CHECK(janus_nursery_await_all() == 0);
    janus_rt_shutdown();

    start(PARCAE_SOVEREIGN, 1);
    parcae_nursery_opts opts = nursery_opts();
    opts.share = 1024;
    CHECK_FAILS(parcae_nursery_open(&opts) == NULL, PARCAE_E_CAPABILITY);
    janus_rt_shutdown();
    return 0;
}
