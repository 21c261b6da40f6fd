// C++: destructors run when a task ends itself or is ended; exceptions stay inside of a task.
#include "check.h"
#include <stdexcept>
#include <vector>

static int destroyed;

struct Guard {
    ~Guard() { __atomic_add_fetch(&destroyed, 1, __ATOMIC_RELAXED); }
};

extern "C" {

static int64_t exits(void *)
{
    Guard guard;
    parcae_task_exit(4);
}

static int64_t panics(void *)
{
    Guard guard;
    parcae_task_panic("on purpose");
}

static int64_t catches(void *arg)
{
    Guard guard;
    try {
        if (parcae_yield() == PARCAE_OK)
            throw std::runtime_error("inside");
    } catch (const std::exception &) {
        return *static_cast<int64_t *>(arg);
    }
    return -1;
}

static int64_t throws(void *)
{
    throw std::runtime_error("out of a task");
}
}

int main(int argc, char **)
{
    start(PARCAE_SERVICE, 2);
    CHECK(janus_nursery_create() != nullptr);
    int64_t value = 0, five = 5;
    parcae_task *task = parcae_spawn(nullptr, exits, nullptr, nullptr);
    CHECK(parcae_task_join(task, &value) == PARCAE_OK && value == 4 && destroyed == 1);
    std::vector<parcae_task *> tasks;
    for (int i = 0; i < 10; i++)
        tasks.push_back(parcae_spawn(nullptr, catches, &five, nullptr));
    for (parcae_task *each : tasks)
        CHECK(parcae_task_join(each, &value) == PARCAE_OK && value == 5);
    CHECK(destroyed == 11);
    CHECK(janus_nursery_await_all() == 0);
    CHECK(janus_nursery_create() != nullptr);
    CHECK(janus_nursery_spawn(panics, nullptr) == 0);
    CHECK(janus_nursery_await_all() == PARCAE_PANIC && destroyed == 12);
    if (argc > 1) {
        CHECK(janus_nursery_create() != nullptr);
        CHECK(janus_nursery_spawn(throws, nullptr) == 0);
        janus_nursery_await_all();
        return 9; // not reached
    }
    janus_rt_shutdown();
    return 0;
}
