/* A pipeline of three tasks and two channels. Closing a channel ends the stage behind it. */
#include <parcae.h>
#include <stdio.h>

static void *numbers, *squares;

static int64_t count(void *arg)
{
    for (int64_t i = 1; i <= *(int64_t *)arg; i++)
        janus_channel_send_i64(numbers, i); /* waits while the next stage is busy */
    janus_channel_close_i64(numbers);
    return 0;
}

static int64_t square(void *arg)
{
    int32_t error;
    int64_t n;
    (void)arg;
    while (n = janus_channel_recv_i64(numbers, &error), error == 0)
        janus_channel_send_i64(squares, n * n);
    janus_channel_close_i64(squares);
    return 0;
}

static int64_t print(void *arg)
{
    int32_t error;
    int64_t n;
    (void)arg;
    while (n = janus_channel_recv_i64(squares, &error), error == 0)
        printf("%lld\n", (long long)n);
    return 0;
}

int main(void)
{
    int64_t five = 5;
    numbers = janus_channel_create_i64(0);
    squares = janus_channel_create_i64(2);
    janus_nursery_create();
    janus_nursery_spawn(count, &five);
    janus_nursery_spawn(square, NULL);
    janus_nursery_spawn(print, NULL);
    printf("await: %ld\n", janus_nursery_await_all());
    janus_channel_destroy_i64(numbers);
    janus_channel_destroy_i64(squares);
    janus_rt_shutdown();
    return 0;
}
