/* Actors whose functions are in C: messages, calls, errors, monitors, supervisors, on threads and
 * under the deterministic executor (with an argument: the seed). */
#include "check.h"

enum { ADD = 1, GET, FAIL, PANIC, HOLD, KEEP, ASK, WATCH, IGNORE, REST, TICK, BYTES, STOP_NOW };

#define SECOND UINT64_C(1000000000)
#define LONG (60 * SECOND) /* never reached, also on a slow machine */

struct counter {
    int64_t sum;
    parcae_reply *kept;
    uint64_t incarnation;
    uint64_t monitor;
    int downs, ticks;
};

static int made, destroyed, stopped, data_destroyed;
static parcae_address *other; /* the one to ask */

static void destroy_data(void *data)
{
    CHECK(data != NULL);
    __atomic_add_fetch(&data_destroyed, 1, __ATOMIC_RELAXED);
}

static parcae_message number(uint64_t tag, uint64_t value)
{
    parcae_message message = {tag, (void *)(uintptr_t)value, 0, NULL};
    return message;
}

static parcae_message owned(uint64_t tag, void *data)
{
    parcae_message message = {tag, data, 0, destroy_data};
    return message;
}

static int64_t begin(void *arg, const parcae_birth *birth, void **state)
{
    CHECK(arg == &made && (birth->last == NULL) == (birth->incarnation == 1));
    CHECK(parcae_actor_self() != NULL);
    struct counter *counter = calloc(1, sizeof *counter);
    counter->incarnation = birth->incarnation;
    *state = counter;
    __atomic_add_fetch(&made, 1, __ATOMIC_RELAXED);
    return 0;
}

static void end(void *state, const parcae_exit *exit)
{
    struct counter *counter = state;
    CHECK(exit->incarnation == 0 || exit->incarnation == counter->incarnation);
    CHECK(strlen(exit->text) > 0);
    __atomic_add_fetch(&stopped, 1, __ATOMIC_RELAXED);
}

static void destroy(void *state)
{
    __atomic_add_fetch(&destroyed, 1, __ATOMIC_RELAXED);
    free(state);
}

static int64_t answer(parcae_reply *reply, uint64_t value)
{
    parcae_message message = number(GET, value);
    CHECK(reply != NULL && parcae_reply_send(reply, &message) == 0);
    CHECK_FAILS(parcae_reply_send(reply, &message) == -1, PARCAE_E_STALE);
    return PARCAE_NEXT_CONTINUE;
}

static int64_t handle(void *state, parcae_message *message, parcae_reply *reply)
{
    struct counter *counter = state;
    parcae_message request = number(GET, 0), got;
    switch (message->tag) {
    case ADD:
        CHECK(reply == NULL);
        counter->sum += (int64_t)(uintptr_t)message->data;
        return PARCAE_NEXT_CONTINUE;
    case BYTES:
        CHECK(message->size == 6 && strcmp(message->data, "hello") == 0);
        return answer(reply, (uint64_t)counter->sum);
    case GET:
        return answer(reply, (uint64_t)counter->sum);
    case REST:
        answer(reply, counter->incarnation);
        return PARCAE_NEXT_HIBERNATE;
    case FAIL:
        return -77;
    case PANIC:
        parcae_task_panic("as asked");
    case HOLD: /* busy until it is cancelled */
        parcae_sleep_ns(100 * LONG);
        return PARCAE_CANCELLED;
    case IGNORE:
        return PARCAE_NEXT_CONTINUE;
    case KEEP: /* answers later; the second one answers the first */
        if (counter->kept != NULL)
            answer(counter->kept, 41);
        counter->kept = reply;
        CHECK(parcae_reply_keep(reply) == 0);
        return PARCAE_NEXT_CONTINUE;
    case ASK: { /* asks the other, which asks back */
        parcae_status asked = message->data != NULL
                                  ? parcae_call_serving(other, &request, LONG, &got)
                                  : parcae_call(other, &request, LONG, &got);
        return answer(reply, asked == PARCAE_OK ? got.tag : (uint64_t)parcae_last_error_kind());
    }
    case WATCH:
        counter->monitor = parcae_actor_monitor(message->data);
        CHECK(counter->monitor != 0);
        return answer(reply, 0);
    case TICK:
        CHECK(parcae_actor_timer("once", 1000) == 0);
        CHECK(parcae_actor_timer_every("often", 1000) == 0);
        CHECK(parcae_actor_timer("never", LONG) == 0 && parcae_actor_timer_cancel("never") == 1);
        CHECK(parcae_actor_timer_cancel("never") == 0);
        counter->kept = reply;
        return parcae_reply_keep(reply) == 0 ? PARCAE_NEXT_CONTINUE : -1;
    case STOP_NOW:
        return PARCAE_NEXT_STOP;
    default:
        return 99;
    }
}

static int64_t event(void *state, const parcae_event *event)
{
    struct counter *counter = state;
    if (event->kind == PARCAE_EVENT_DOWN) {
        CHECK(event->monitor == counter->monitor && strcmp(event->name, "victim") == 0);
        CHECK(event->exit->kind == PARCAE_EXIT_FAILED && event->exit->code == -77);
        counter->sum += 1000;
        return PARCAE_NEXT_CONTINUE;
    }
    CHECK(event->kind == PARCAE_EVENT_TIMER && event->exit == NULL);
    counter->downs += strcmp(event->name, "once") == 0;
    counter->ticks += strcmp(event->name, "often") == 0;
    if (counter->downs == 1 && counter->ticks >= 3 && counter->kept != NULL) {
        CHECK(parcae_actor_timer_cancel("often") == 1);
        answer(counter->kept, 3);
        counter->kept = NULL;
    }
    return PARCAE_NEXT_CONTINUE;
}

static parcae_actor_opts actor(const char *name)
{
    parcae_actor_opts opts;
    memset(&opts, 0, sizeof opts);
    opts.size = sizeof opts;
    opts.name = name;
    opts.start = begin;
    opts.handle = handle;
    opts.event = event;
    opts.stop = end;
    opts.drop = destroy;
    opts.arg = &made;
    return opts;
}

static parcae_supervise_opts supervisor(const char *name)
{
    parcae_supervise_opts opts;
    memset(&opts, 0, sizeof opts);
    opts.size = sizeof opts;
    opts.name = name;
    return opts;
}

static uint64_t call(parcae_address *address, uint64_t tag, void *data)
{
    parcae_message request = number(tag, (uintptr_t)data), got;
    CHECK(parcae_call(address, &request, LONG, &got) == PARCAE_OK);
    uint64_t value = (uintptr_t)got.data;
    parcae_message_free(&got);
    return value;
}

static int call_fails(parcae_address *address, uint64_t tag, uint64_t within)
{
    parcae_message request = number(tag, 0);
    parcae_clear_error();
    if (parcae_call(address, &request, within, NULL) == PARCAE_OK)
        return PARCAE_E_NONE;
    CHECK(strlen(parcae_last_error()) > 0);
    return parcae_last_error_kind();
}

static void tell(parcae_address *address, uint64_t tag, uint64_t value)
{
    parcae_message message = number(tag, value);
    CHECK(parcae_tell(address, &message) == PARCAE_OK);
}

/* Messages: numbers, bytes, data with a destructor. */
static void messages(parcae_actors *actors)
{
    parcae_actor_opts opts = actor("messages");
    parcae_address *one = parcae_actor_start(actors, &opts);
    CHECK(one != NULL && parcae_actor_is_gone(one) == 0);
    CHECK_FAILS(parcae_actor_start(actors, &opts) == NULL, PARCAE_E_OTHER); /* the name is taken */
    for (uint64_t i = 1; i <= 100; i++)
        tell(one, ADD, i);
    CHECK(call(one, GET, NULL) == 5050);
    char hello[] = "hello";
    parcae_message bytes = {BYTES, hello, sizeof hello, NULL}, got;
    CHECK(parcae_call(one, &bytes, LONG, &got) == PARCAE_OK && (uintptr_t)got.data == 5050);

    int before = data_destroyed, place;
    parcae_message message = owned(ADD, &place);
    message.tag = IGNORE;
    CHECK(parcae_tell(one, &message) == PARCAE_OK);
    CHECK(parcae_tell_within(one, &message, LONG) == PARCAE_OK);
    CHECK(parcae_try_tell(one, &message) == PARCAE_OK);
    call(one, GET, NULL);
    CHECK(data_destroyed == before + 3);

    parcae_address *found = parcae_actor_find(actors, "messages");
    CHECK(found != NULL && found != one && call(found, GET, NULL) == 5050);
    CHECK(parcae_address_free(found) == 0);
    CHECK_FAILS(parcae_address_free(found) == -1, PARCAE_E_STALE);
    CHECK_FAILS(parcae_actor_find(actors, "nobody") == NULL, PARCAE_E_ARGUMENT);

    CHECK(call(one, REST, NULL) == 1 && call(one, REST, NULL) == 1 && call(one, GET, NULL) == 5050);
    CHECK(call(one, TICK, NULL) == 3);

    /* An actor that has ended gives messages back. */
    parcae_watch *watch = parcae_actor_watch(one);
    parcae_exit exit;
    CHECK(parcae_watch_poll(watch, &exit) == PARCAE_PENDING);
    CHECK_FAILS(parcae_watch_wait(watch, 1000000, &exit) == PARCAE_ERROR, PARCAE_E_TIMED_OUT);
    tell(one, STOP_NOW, 0);
    CHECK(parcae_watch_wait(watch, 0, &exit) == PARCAE_OK && exit.kind == PARCAE_EXIT_FINISHED);
    CHECK(exit.code == 0 && exit.handled > 100 && strcmp(exit.text, "finished") == 0);
    CHECK(parcae_watch_poll(watch, NULL) == PARCAE_OK && parcae_watch_free(watch) == 0);
    before = data_destroyed;
    CHECK_FAILS(parcae_tell(one, &message) == PARCAE_ERROR, PARCAE_E_GONE);
    CHECK(data_destroyed == before);
    parcae_message_free(&message);
    CHECK(data_destroyed == before + 1 && message.drop == NULL);
    CHECK(call_fails(one, GET, LONG) == PARCAE_E_GONE && parcae_actor_is_gone(one) == 1);
    CHECK(parcae_address_free(one) == 0);
}

/* Each reason why a call fails has a number of its own. */
static void errors(parcae_actors *actors)
{
    parcae_actor_opts opts = actor("errors");
    opts.mailbox = PARCAE_MAILBOX_REFUSE;
    opts.capacity = 1;
    opts.restart = PARCAE_TEMPORARY;
    parcae_address *one = parcae_actor_start(actors, &opts);
    CHECK(call_fails(one, GET, 0) == PARCAE_E_ARGUMENT); /* there is no call without a deadline */
    CHECK(call_fails(one, IGNORE, LONG) == PARCAE_E_NO_REPLY);

    tell(one, HOLD, 0);
    while (parcae_actor_queued(one) > 0)
        parcae_sleep_ns(1000);
    CHECK(call_fails(one, GET, 1000000) == PARCAE_E_EXPIRED); /* and is in the mailbox */
    int before = data_destroyed, place;
    parcae_message message = owned(ADD, &place);
    CHECK_FAILS(parcae_try_tell(one, &message) == PARCAE_ERROR, PARCAE_E_FULL);
    CHECK(data_destroyed == before); /* it is still ours */
    CHECK(parcae_call(one, &message, LONG, NULL) == PARCAE_ERROR); /* now it is not */
    CHECK(parcae_last_error_kind() == PARCAE_E_FULL && data_destroyed == before + 1);
    parcae_watch *watch = parcae_actor_watch(one);
    parcae_exit exit;
    CHECK(parcae_actor_kill(one) == PARCAE_OK);
    CHECK(parcae_watch_wait(watch, 0, &exit) == PARCAE_OK && exit.kind == PARCAE_EXIT_CANCELLED);
    CHECK(parcae_actors_dead_letters(actors, PARCAE_LETTER_GONE) > 0);
    parcae_watch_free(watch);
    parcae_address_free(one);

    /* Weaker addresses. */
    opts = actor("weaker");
    one = parcae_actor_start(actors, &opts);
    parcae_address *tells = parcae_address_tell_only(one), *two = parcae_address_at_most(one, 2);
    parcae_address *taken = parcae_address_revocable(one), *life = parcae_address_this_life(one);
    parcae_address *rate = parcae_address_at_rate(one, 1, LONG);
    parcae_address *brief = parcae_address_for(one, 0);
    tell(tells, ADD, 1);
    CHECK(call_fails(tells, GET, LONG) == PARCAE_E_REFUSED);
    CHECK_FAILS(parcae_actor_stop(tells) == PARCAE_ERROR, PARCAE_E_REFUSED);
    CHECK(call(two, GET, NULL) == 1 && call(two, GET, NULL) == 1);
    CHECK(call_fails(two, GET, LONG) == PARCAE_E_REFUSED);
    CHECK(call(rate, GET, NULL) == 1 && call_fails(rate, GET, LONG) == PARCAE_E_REFUSED);
    CHECK(call_fails(brief, GET, LONG) == PARCAE_E_REFUSED);
    CHECK(call(taken, GET, NULL) == 1 && parcae_address_revoke(taken) == 0);
    CHECK(call_fails(taken, GET, LONG) == PARCAE_E_REFUSED);
    CHECK_FAILS(parcae_address_revoke(one) == -1, PARCAE_E_ARGUMENT);
    CHECK(call(life, REST, NULL) == 1);
    watch = parcae_actor_watch(one);
    tell(one, PANIC, 0);
    CHECK(parcae_watch_wait(watch, 0, &exit) == PARCAE_OK && exit.kind == PARCAE_EXIT_PANICKED);
    CHECK(strstr(exit.text, "as asked") != NULL);
    CHECK(call(one, REST, NULL) == 2 && call_fails(life, GET, LONG) == PARCAE_E_GONE);
    CHECK(call(one, GET, NULL) == 0); /* a new state */
    parcae_watch_free(watch);
    parcae_address *all[] = {one, tells, two, taken, life, rate, brief};
    parcae_actor_stop(one);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        CHECK(parcae_address_free(all[i]) == 0);

    /* The handler has the request and panics; or the actor is started again later. */
    opts = actor("fragile");
    one = parcae_actor_start(actors, &opts);
    int kind = call_fails(one, PANIC, LONG);
    CHECK(kind == PARCAE_E_FAILED || kind == PARCAE_E_RESTARTING);
    parcae_actor_stop(one);
    parcae_address_free(one);
    parcae_supervise_opts slow = supervisor("slow");
    slow.backoff_least_ns = slow.backoff_most_ns = LONG;
    parcae_actors *dynamic = parcae_actors_dynamic(actors, &slow);
    opts = actor("late");
    one = parcae_actor_start(dynamic, &opts);
    watch = parcae_actor_watch(one);
    tell(one, FAIL, 0);
    CHECK(parcae_watch_wait(watch, 0, &exit) == PARCAE_OK && exit.code == -77);
    CHECK(call_fails(one, GET, 1000000) == PARCAE_E_RESTARTING);
    CHECK_FAILS(parcae_actors_dynamic(dynamic, &slow) == NULL, PARCAE_E_ARGUMENT);
    parcae_watch_free(watch);
    parcae_address_free(one);

    /* What only an actor can do. */
    CHECK_FAILS(parcae_actor_self() == NULL, PARCAE_E_ARGUMENT);
    CHECK_FAILS(parcae_actor_monitor(NULL) == 0, PARCAE_E_NULL);
    CHECK_FAILS(parcae_actor_timer("key", 1) == -1, PARCAE_E_ARGUMENT);
    opts.handle = NULL;
    CHECK_FAILS(parcae_actor_start(actors, &opts) == NULL, PARCAE_E_NULL);
    CHECK_FAILS(parcae_actor_start(actors, NULL) == NULL, PARCAE_E_NULL);
    CHECK_FAILS(parcae_tell(NULL, &message) == PARCAE_ERROR, PARCAE_E_NULL);
}

static int64_t asks_back(void *state, parcae_message *message, parcae_reply *reply)
{
    (void)message;
    parcae_message request = number(GET, 0), got;
    parcae_status asked = parcae_call(state, &request, LONG, &got);
    parcae_message said = number(asked == PARCAE_OK ? (uint64_t)(uintptr_t)got.data
                                                    : (uint64_t)parcae_last_error_kind(), 0);
    return parcae_reply_send(reply, &said);
}

/* A cycle of calls fails at once, unless the first one serves while it waits. */
static void cycles(parcae_actors *actors)
{
    parcae_actor_opts opts = actor("asker"), back = actor("asked");
    parcae_address *one = parcae_actor_start(actors, &opts);
    tell(one, ADD, 5);
    back.start = NULL;
    back.handle = asks_back;
    back.event = NULL;
    back.stop = NULL;
    back.drop = NULL;
    back.arg = one;
    other = parcae_actor_start(actors, &back);
    CHECK(call(one, ASK, NULL) == PARCAE_E_CYCLE); /* as the other heard it */
    CHECK(call(one, ASK, &other) == 5);
    parcae_message request = number(KEEP, 0), got;
    CHECK(parcae_call(one, &request, 1000000, &got) == PARCAE_ERROR); /* kept, and answered late */
    CHECK(parcae_last_error_kind() == PARCAE_E_EXPIRED);
    tell(one, ADD, 1);
    CHECK(call_fails(one, KEEP, 1000000) == PARCAE_E_EXPIRED);
    CHECK(call(one, GET, NULL) == 6);

    /* A monitor of an actor. */
    parcae_actor_opts victim = actor("victim");
    victim.restart = PARCAE_TEMPORARY;
    parcae_address *dies = parcae_actor_start(actors, &victim);
    parcae_watch *watch = parcae_actor_watch(dies);
    call(one, WATCH, dies);
    tell(dies, FAIL, 0);
    CHECK(parcae_watch_wait(watch, 0, NULL) == PARCAE_OK);
    while (call(one, GET, NULL) != 1006)
        parcae_yield();
    parcae_watch_free(watch);
    parcae_address_free(dies);
    parcae_actor_drain(one);
    parcae_address_free(one);
    parcae_address_free(other);
}

static int named;

static int64_t below(void *arg, parcae_children *children)
{
    (void)arg;
    parcae_actor_opts third = actor("third");
    parcae_address *address = parcae_children_actor(children, &third);
    CHECK(address != NULL && parcae_address_free(address) == 0);
    return 0;
}

static int64_t family(void *arg, parcae_children *children)
{
    CHECK(arg == &named);
    named++;
    parcae_actor_opts first = actor("first"), second = actor("second");
    first.restart = PARCAE_PERMANENT;
    parcae_address *address = parcae_children_actor(children, &first);
    CHECK(address != NULL && parcae_address_free(address) == 0);
    CHECK_FAILS(parcae_children_actor(children, &first) == NULL, PARCAE_E_OTHER);
    address = parcae_children_actor(children, &second);
    CHECK(address != NULL && parcae_address_free(address) == 0);
    parcae_supervise_opts more = supervisor("more");
    CHECK(parcae_children_supervisor(children, &more, below, NULL) == 0);
    return 0;
}

static int64_t no_family(void *arg, parcae_children *children)
{
    *(parcae_children **)arg = children;
    return -12;
}

static void supervision(parcae_actors *actors)
{
    parcae_supervise_opts opts = supervisor("family");
    opts.strategy = PARCAE_ONE_FOR_ALL;
    named = 0;
    CHECK(parcae_actors_supervise(actors, &opts, family, &named) == 0 && named == 1);
    parcae_address *first = parcae_actor_find(actors, "first");
    parcae_address *second = parcae_actor_find(actors, "second");
    parcae_address *third = parcae_actor_find(actors, "third");
    CHECK(call(first, REST, NULL) == 1 && call(second, REST, NULL) == 1);
    uint64_t left = parcae_actors_restarts_left(actors);
    parcae_watch *watch = parcae_actor_watch(second);
    tell(first, FAIL, 0);
    CHECK(parcae_watch_wait(watch, 0, NULL) == PARCAE_OK); /* with its sibling */
    CHECK(call(first, REST, NULL) == 2 && call(second, REST, NULL) == 2);
    CHECK(parcae_actors_restarts_left(actors) == left - 1);
    parcae_watch_free(watch);
    parcae_address_free(first);
    parcae_address_free(second);
    parcae_address_free(third);

    parcae_children *children = NULL;
    opts.name = "none";
    CHECK_FAILS(parcae_actors_supervise(actors, &opts, no_family, &children) == -1, PARCAE_E_CHILD);
    CHECK(strstr(parcae_last_error(), "-12") != NULL);
    parcae_actor_opts late = actor("too late");
    CHECK_FAILS(parcae_children_actor(children, &late) == NULL, PARCAE_E_STALE);
    opts.strategy = 7;
    CHECK_FAILS(parcae_actors_supervise(actors, &opts, family, &named) == -1, PARCAE_E_ARGUMENT);
}

/* From a task, and from several at a time. */
static int64_t client(void *address)
{
    for (int i = 0; i < 50; i++) {
        tell(address, ADD, 1);
        call(address, GET, NULL);
    }
    return 0;
}

static int64_t everything(void *arg)
{
    (void)arg;
    parcae_actors *actors = parcae_actors_open(NULL);
    CHECK(actors != NULL);
    messages(actors);
    errors(actors);
    cycles(actors);
    supervision(actors);
    parcae_actor_opts opts = actor("shared");
    parcae_address *one = parcae_actor_start(actors, &opts);
    CHECK(janus_nursery_create() != NULL);
    for (int i = 0; i < 4; i++)
        CHECK(janus_nursery_spawn(client, one) == 0);
    CHECK(janus_nursery_await_all() == 0);
    CHECK(call(one, GET, NULL) == 200);
    CHECK(parcae_actors_close(actors) == 0);
    CHECK_FAILS(parcae_actors_close(actors) == -1, PARCAE_E_STALE);
    CHECK(call_fails(one, GET, LONG) == PARCAE_E_GONE && parcae_address_free(one) == 0);
    CHECK(made == destroyed && stopped <= made && made > 10);
    return 0;
}

int main(int argc, char **argv)
{
    /* Only in its profile. */
    start(PARCAE_SERVICE, 1);
    CHECK_FAILS(parcae_actors_open(NULL) == NULL, PARCAE_E_PROFILE);
    janus_rt_shutdown();

    parcae_config config;
    CHECK(parcae_config_init(&config) == 0);
    config.profile = PARCAE_CLUSTER;
    config.workers = 2;
    if (argc > 1) {
        config.executor = PARCAE_DETERMINISTIC;
        config.seed = strtoull(argv[1], NULL, 10);
    }
    CHECK(parcae_rt_init(&config) == 0);
    everything(NULL); /* on a thread */
    janus_nursery_create();
    CHECK(janus_nursery_spawn(everything, NULL) == 0); /* on a task */
    CHECK(janus_nursery_await_all() == 0);

    /* A supervisor that gives up is the result; and an await closes a system as well. */
    parcae_supervise_opts root = supervisor(NULL);
    root.restarts = 1;
    root.period_ns = LONG;
    parcae_actors_opts opts;
    memset(&opts, 0, sizeof opts);
    opts.size = sizeof opts;
    opts.name = "fails";
    opts.root = &root;
    parcae_actors *actors = parcae_actors_open(&opts);
    parcae_actor_opts fails = actor("fails");
    parcae_address *one = parcae_actor_start(actors, &fails);
    tell(one, FAIL, 0);
    tell(one, FAIL, 0);
    while (parcae_actor_is_gone(one) == 0)
        parcae_sleep_ns(1000);
    CHECK(parcae_actors_close(actors) < 0 && strlen(parcae_last_error()) > 0);
    parcae_address_free(one);
    actors = parcae_actors_open(NULL);
    one = parcae_actor_start(actors, &fails);
    CHECK(janus_nursery_await_all() == 0 && parcae_actor_is_gone(one) == 1);
    CHECK_FAILS(parcae_actor_start(actors, &fails) == NULL, PARCAE_E_STALE);
    parcae_address_free(one);

    /* The end of the runtime ends a system that is open. */
    actors = parcae_actors_open(NULL);
    one = parcae_actor_start(actors, &fails);
    tell(one, HOLD, 0);
    janus_rt_shutdown();
    CHECK(parcae_actor_is_gone(one) == 1 && parcae_address_free(one) == 0);
    CHECK(made == destroyed);
    return 0;
}
