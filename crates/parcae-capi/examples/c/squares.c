#include <parcae.h>
#include <stdio.h>

struct slot {
    int64_t number, square;
};

static int64_t square(void *arg)
{
    struct slot *slot = arg;
    slot->square = slot->number * slot->number;
    return 0; /* less than 0 would be a failure */
}

int main(void)
{
    struct slot slots[3];

    janus_nursery_create(); /* the first nursery starts the runtime */
    for (int i = 0; i < 3; i++) {
        slots[i].number = i + 1;
        janus_nursery_spawn(square, &slots[i]);
    }
    long result = janus_nursery_await_all(); /* all have ended: the slots can be read */
    for (int i = 0; i < 3; i++)
        printf("%lld\n", (long long)slots[i].square);

    janus_rt_shutdown();
    return result == 0 ? 0 : 1;
}
