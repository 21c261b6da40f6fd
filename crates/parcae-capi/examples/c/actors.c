/* An actor that is called, fails, and is started again by its supervisor. */
#include <parcae.h>
#include <stdio.h>
#include <string.h>

enum { DEPOSIT, BALANCE, BREAK };

static int64_t account(void *state, parcae_message *message, parcae_reply *reply)
{
    uint64_t *balance = state;
    parcae_message answer = {BALANCE, NULL, 0, NULL};
    switch (message->tag) {
    case DEPOSIT:
        *balance += *(uint64_t *)message->data;
        return PARCAE_NEXT_CONTINUE;
    case BALANCE:
        answer.tag = *balance;
        parcae_reply_send(reply, &answer);
        return PARCAE_NEXT_CONTINUE;
    default:
        return -7; /* ends this incarnation; the mailbox stays */
    }
}

int main(void)
{
    parcae_config config;
    parcae_config_init(&config);
    config.profile = PARCAE_CLUSTER;
    parcae_rt_init(&config);

    uint64_t balance = 0, amount = 40;
    parcae_actors *actors = parcae_actors_open(NULL);
    parcae_actor_opts opts;
    memset(&opts, 0, sizeof opts);
    opts.size = sizeof opts;
    opts.name = "account";
    opts.handle = account;
    opts.arg = &balance; /* without opts.start, the state of all incarnations */
    parcae_address *address = parcae_actor_start(actors, &opts);

    parcae_message deposit = {DEPOSIT, &amount, sizeof amount, NULL}; /* 8 bytes, which are copied */
    parcae_message fail = {BREAK, NULL, 0, NULL}, ask = {BALANCE, NULL, 0, NULL}, answer;
    parcae_watch *watch = parcae_actor_watch(address);
    parcae_exit exit;
    parcae_tell(address, &deposit);
    parcae_tell(address, &fail);
    parcae_tell(address, &deposit);
    parcae_watch_wait(watch, 0, &exit);
    printf("life %d: code %d after %d message\n", (int)exit.incarnation, (int)exit.code,
           (int)exit.handled);

    /* No call without a deadline: here a second. */
    if (parcae_call(address, &ask, 1000000000, &answer) == PARCAE_OK)
        printf("balance: %d\n", (int)answer.tag);
    parcae_actor_stop(address);
    if (parcae_call(address, &ask, 1000000000, &answer) != PARCAE_OK)
        printf("gone: %s\n", parcae_last_error_kind() == PARCAE_E_GONE ? "yes" : "no");

    parcae_watch_free(watch);
    parcae_address_free(address);
    parcae_actors_close(actors); /* all actors have ended */
    janus_rt_shutdown();
    return 0;
}
