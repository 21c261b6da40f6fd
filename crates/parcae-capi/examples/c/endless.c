/* C that knows nothing of yield checks: the compiler inserts them.
 *
 *   cc -c parcae_trace_pc.c
 *   cc -fsanitize-coverage=trace-pc endless.c parcae_trace_pc.o -lparcae
 */
#include <parcae.h>
#include <stdio.h>
#include <string.h>

static volatile uint64_t found;

static int64_t endless(void *arg)
{
    (void)arg;
    for (uint64_t n = 1; n != 0; n++) /* takes some centuries */
        if (n % 1000 == 0)
            found++;
    return 0;
}

static int64_t polite(void *arg)
{
    (void)arg;
    for (int turn = 1; turn <= 3; turn++) {
        printf("turn %d\n", turn);
        parcae_yield();
    }
    return 0;
}

int main(void)
{
    janus_runtime_config one_worker = {1, 0};
    janus_rt_init(one_worker);
    janus_budget budget = {1000000, 1 << 20, 10, 0, 0};
    parcae_nursery_opts opts;
    memset(&opts, 0, sizeof opts);
    opts.size = sizeof opts;
    opts.budget = &budget;
    opts.on_failure = PARCAE_ISOLATE;

    parcae_nursery_open(&opts);
    janus_nursery_spawn(polite, NULL);
    janus_nursery_spawn(endless, NULL); /* the other has its turns on the same worker */
    long result = janus_nursery_await_all();
    printf("await: %ld (PARCAE_BUDGET is %d), found something: %s\n", result, PARCAE_BUDGET,
           found > 0 ? "yes" : "no");
    janus_rt_shutdown();
    return 0;
}
