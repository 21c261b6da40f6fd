/* Fan out: a nursery with a hundred tasks, each with a slot of its own for its result. */
#include <parcae.h>
#include <stdio.h>

struct slot {
    int64_t number, square;
};

static int64_t square(void *arg)
{
    struct slot *slot = arg;
    slot->square = slot->number * slot->number;
    return 0;
}

static int64_t refuse(void *arg)
{
    (void)arg;
    return -7;
}

int main(void)
{
    struct slot slots[100];
    int64_t sum = 0;

    janus_nursery_create();
    for (int i = 0; i < 100; i++) {
        slots[i].number = i;
        janus_nursery_spawn(square, &slots[i]);
    }
    long result = janus_nursery_await_all(); /* all have ended: the slots can be read */
    for (int i = 0; i < 100; i++)
        sum += slots[i].square;
    printf("await: %ld, sum of squares: %lld\n", result, (long long)sum);

    janus_nursery_create();
    janus_nursery_spawn(square, &slots[1]);
    janus_nursery_spawn(refuse, NULL); /* one failure ends the others, and is the result */
    printf("await: %ld\n", janus_nursery_await_all());

    janus_rt_shutdown();
    return 0;
}
