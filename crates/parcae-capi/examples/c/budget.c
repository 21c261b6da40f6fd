/* An endless task in a nursery with a budget. */
#include <parcae.h>
#include <stdio.h>
#include <string.h>

static int64_t search_for_ever(void *arg)
{
    uint64_t *steps = arg;
    parcae_meter *meter = parcae_meter_get();
    for (;; ++*steps) {
        parcae_status status = parcae_yield_check(meter); /* one op; inlined */
        if (status != PARCAE_OK)
            return status; /* passes the runtime's error on to the nursery */
    }
}

int main(void)
{
    uint64_t steps = 0;
    janus_budget budget = {100000, 1 << 20, 10, 0, 0};
    parcae_nursery_opts opts;
    memset(&opts, 0, sizeof opts);
    opts.size = sizeof opts;
    opts.name = "tenant";
    opts.budget = &budget;

    parcae_nursery_open(&opts);
    janus_nursery_spawn(search_for_ever, &steps);
    long result = janus_nursery_await_all();
    printf("await: %ld (PARCAE_BUDGET is %d)\n", result, PARCAE_BUDGET);
    printf("steps: %llu\n", (unsigned long long)steps);
    printf("why: %.*s\n", (int)strcspn(parcae_last_error(), ";"), parcae_last_error());
    janus_rt_shutdown();
    return 0;
}
