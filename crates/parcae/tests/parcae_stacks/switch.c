/*
 * Drives src/arch/<architecture>.s from C, with no Rust in the process.
 *
 * It proves, for the architecture it is compiled for, that
 *   - a context has the documented layout, and a fiber starts from an initial
 *     context built by hand: with its argument, on an aligned stack, ending in
 *     its cleanup function;
 *   - a switch preserves what a callee must preserve, and the memory of every
 *     stack, over many switches in any order;
 *   - a signal handler can make a fiber that has overflowed its stack call the switch
 *     and so leave that stack for good;
 *   - unwinders see a running, a suspended and a new fiber as a call chain that
 *     ends at janus_fiber_entry, and see it right at every single instruction.
 *
 * One line per test: `ok name`, `FAILED name: reason` (and exit status 1), or
 * `skipped name: reason` where the system cannot do what the test needs. The last
 * line is `N passed, 0 failed`.
 *
 * Needs -fasynchronous-unwind-tables -fno-omit-frame-pointer. Driven by switch.rs.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

/* Backtraces are compared with the addresses of these functions, so the compiler
 * must neither inline nor clone them. */
#if defined(__has_attribute)
#if __has_attribute(noipa)
#define FRAME __attribute__((noipa))
#endif
#endif
#ifndef FRAME
#define FRAME __attribute__((noinline))
#endif
#define HIDDEN __attribute__((visibility("hidden")))

#define N(value) ((uintmax_t)(value)) /* for %ju and %#jx */

/* ---- The architectures: layout, initial context, two helpers in assembly ---- */

typedef void function(void *argument);

#if defined(__x86_64__)

struct context {
    uint64_t sp;
    uint64_t rbx, rbp, r12, r13, r14, r15;
};
_Static_assert(sizeof(struct context) == 56, "size");
_Static_assert(_Alignof(struct context) == 8, "alignment");
_Static_assert(offsetof(struct context, sp) == 0, "sp");
_Static_assert(offsetof(struct context, rbx) == 8, "rbx");
_Static_assert(offsetof(struct context, rbp) == 16, "rbp");
_Static_assert(offsetof(struct context, r12) == 24, "r12");
_Static_assert(offsetof(struct context, r13) == 32, "r13");
_Static_assert(offsetof(struct context, r14) == 40, "r14");
_Static_assert(offsetof(struct context, r15) == 48, "r15");

/* The registers a callee must preserve: offset in a context, DWARF number. */
static const struct { size_t offset; int dwarf; const char *name; } REGISTER[] = {
    {8, 3, "rbx"},   {16, 6, "rbp"},  {24, 12, "r12"},
    {32, 13, "r13"}, {40, 14, "r14"}, {48, 15, "r15"},
};
#define REGISTERS 6
#define ENTRY_NOP 1         /* the size of the nop before janus_fiber_entry */
#define LAST_RECORD 16      /* its frame record is so far below the top of the stack */
#define TRAP_SIGNAL SIGILL  /* of the instruction after a cleanup that returns */

#elif defined(__aarch64__)

struct context {
    uint64_t sp;
    uint64_t x19, x20, x21, x22, x23, x24, x25, x26, x27, x28, x29, x30;
    double d8, d9, d10, d11, d12, d13, d14, d15;
};
_Static_assert(sizeof(struct context) == 168, "size");
_Static_assert(_Alignof(struct context) == 8, "alignment");
_Static_assert(offsetof(struct context, sp) == 0, "sp");
_Static_assert(offsetof(struct context, x19) == 8, "x19");
_Static_assert(offsetof(struct context, x20) == 16, "x20");
_Static_assert(offsetof(struct context, x28) == 80, "x28");
_Static_assert(offsetof(struct context, x29) == 88, "x29");
_Static_assert(offsetof(struct context, x30) == 96, "x30");
_Static_assert(offsetof(struct context, d8) == 104, "d8");
_Static_assert(offsetof(struct context, d15) == 160, "d15");

static const struct { size_t offset; int dwarf; const char *name; } REGISTER[] = {
    {8, 19, "x19"},   {16, 20, "x20"},  {24, 21, "x21"},  {32, 22, "x22"},
    {40, 23, "x23"},  {48, 24, "x24"},  {56, 25, "x25"},  {64, 26, "x26"},
    {72, 27, "x27"},  {80, 28, "x28"},  {88, 29, "x29"},  {104, 72, "d8"},
    {112, 73, "d9"},  {120, 74, "d10"}, {128, 75, "d11"}, {136, 76, "d12"},
    {144, 77, "d13"}, {152, 78, "d14"}, {160, 79, "d15"},
};
#define REGISTERS 19
#define ENTRY_NOP 4
#define LAST_RECORD 32
#define TRAP_SIGNAL SIGTRAP

#else
#error "no context switch for this architecture"
#endif

_Static_assert(sizeof REGISTER / sizeof *REGISTER == REGISTERS, "one row each");

HIDDEN void janus_context_switch(struct context *from, const struct context *to);
HIDDEN void janus_fiber_entry(void);
HIDDEN void janus_context_observe(const struct context *of, function *visit, void *argument);

/* A call with chosen values in all callee-saved registers, and what they held
 * when it returned. Its offsets are used in the assembly below. */
struct call {
    void (*callee)(void); /* with arguments, in truth: */
    const void *argument[3];
    uint64_t before[REGISTERS], after[REGISTERS];
};
_Static_assert(offsetof(struct call, argument) == 8, "argument");
_Static_assert(offsetof(struct call, before) == 32, "before");
_Static_assert(offsetof(struct call, after) == 32 + 8 * REGISTERS, "after");

#define SWITCH ((void (*)(void))janus_context_switch)
#define OBSERVE ((void (*)(void))janus_context_observe)

HIDDEN void call_with_registers(struct call *call);

/* Notes the stack pointer of its call instruction, then becomes `probe_next`. */
HIDDEN void probe(void *argument);
HIDDEN extern uintptr_t probe_sp;
HIDDEN extern function *probe_next;
uintptr_t probe_sp;
function *probe_next;

#if defined(__x86_64__)

__asm__(".text\n"
        ".type call_with_registers, @function\n"
        "call_with_registers:\n"
        "    .cfi_startproc\n"
        "    pushq %rbp\n    .cfi_adjust_cfa_offset 8\n    .cfi_rel_offset %rbp, 0\n"
        "    pushq %rbx\n    .cfi_adjust_cfa_offset 8\n    .cfi_rel_offset %rbx, 0\n"
        "    pushq %r12\n    .cfi_adjust_cfa_offset 8\n    .cfi_rel_offset %r12, 0\n"
        "    pushq %r13\n    .cfi_adjust_cfa_offset 8\n    .cfi_rel_offset %r13, 0\n"
        "    pushq %r14\n    .cfi_adjust_cfa_offset 8\n    .cfi_rel_offset %r14, 0\n"
        "    pushq %r15\n    .cfi_adjust_cfa_offset 8\n    .cfi_rel_offset %r15, 0\n"
        "    pushq %rdi\n    .cfi_adjust_cfa_offset 8\n" /* also aligns the stack */
        "    movq 32(%rdi), %rbx\n"
        "    movq 40(%rdi), %rbp\n"
        "    movq 48(%rdi), %r12\n"
        "    movq 56(%rdi), %r13\n"
        "    movq 64(%rdi), %r14\n"
        "    movq 72(%rdi), %r15\n"
        "    movq 0(%rdi), %rax\n"
        "    movq 16(%rdi), %rsi\n"
        "    movq 24(%rdi), %rdx\n"
        "    movq 8(%rdi), %rdi\n"
        "    callq *%rax\n"
        "    popq %rdi\n     .cfi_adjust_cfa_offset -8\n"
        "    movq %rbx, 80(%rdi)\n"
        "    movq %rbp, 88(%rdi)\n"
        "    movq %r12, 96(%rdi)\n"
        "    movq %r13, 104(%rdi)\n"
        "    movq %r14, 112(%rdi)\n"
        "    movq %r15, 120(%rdi)\n"
        "    popq %r15\n     .cfi_adjust_cfa_offset -8\n    .cfi_same_value %r15\n"
        "    popq %r14\n     .cfi_adjust_cfa_offset -8\n    .cfi_same_value %r14\n"
        "    popq %r13\n     .cfi_adjust_cfa_offset -8\n    .cfi_same_value %r13\n"
        "    popq %r12\n     .cfi_adjust_cfa_offset -8\n    .cfi_same_value %r12\n"
        "    popq %rbx\n     .cfi_adjust_cfa_offset -8\n    .cfi_same_value %rbx\n"
        "    popq %rbp\n     .cfi_adjust_cfa_offset -8\n    .cfi_same_value %rbp\n"
        "    retq\n"
        "    .cfi_endproc\n"
        ".type probe, @function\n"
        "probe:\n"
        "    leaq 8(%rsp), %rax\n"
        "    movq %rax, probe_sp(%rip)\n"
        "    jmpq *probe_next(%rip)\n");

#elif defined(__aarch64__)

__asm__(".text\n"
        ".p2align 2\n"
        ".type call_with_registers, %function\n"
        "call_with_registers:\n"
        "    .cfi_startproc\n"
        "    hint #34\n"
        "    stp x29, x30, [sp, #-176]!\n"
        "    .cfi_def_cfa_offset 176\n"
        "    .cfi_rel_offset x29, 0\n      .cfi_rel_offset x30, 8\n"
        "    stp x19, x20, [sp, #16]\n"
        "    .cfi_rel_offset x19, 16\n     .cfi_rel_offset x20, 24\n"
        "    stp x21, x22, [sp, #32]\n"
        "    .cfi_rel_offset x21, 32\n     .cfi_rel_offset x22, 40\n"
        "    stp x23, x24, [sp, #48]\n"
        "    .cfi_rel_offset x23, 48\n     .cfi_rel_offset x24, 56\n"
        "    stp x25, x26, [sp, #64]\n"
        "    .cfi_rel_offset x25, 64\n     .cfi_rel_offset x26, 72\n"
        "    stp x27, x28, [sp, #80]\n"
        "    .cfi_rel_offset x27, 80\n     .cfi_rel_offset x28, 88\n"
        "    stp d8, d9, [sp, #96]\n"
        "    .cfi_rel_offset d8, 96\n      .cfi_rel_offset d9, 104\n"
        "    stp d10, d11, [sp, #112]\n"
        "    .cfi_rel_offset d10, 112\n    .cfi_rel_offset d11, 120\n"
        "    stp d12, d13, [sp, #128]\n"
        "    .cfi_rel_offset d12, 128\n    .cfi_rel_offset d13, 136\n"
        "    stp d14, d15, [sp, #144]\n"
        "    .cfi_rel_offset d14, 144\n    .cfi_rel_offset d15, 152\n"
        "    str x0, [sp, #160]\n"
        "    ldp x19, x20, [x0, #32]\n"
        "    ldp x21, x22, [x0, #48]\n"
        "    ldp x23, x24, [x0, #64]\n"
        "    ldp x25, x26, [x0, #80]\n"
        "    ldp x27, x28, [x0, #96]\n"
        "    ldr x29, [x0, #112]\n"
        "    ldp d8, d9, [x0, #120]\n"
        "    ldp d10, d11, [x0, #136]\n"
        "    ldp d12, d13, [x0, #152]\n"
        "    ldp d14, d15, [x0, #168]\n"
        "    ldp x1, x2, [x0, #16]\n"
        "    ldp x9, x0, [x0, #0]\n"
        "    blr x9\n"
        "    ldr x9, [sp, #160]\n"
        "    stp x19, x20, [x9, #184]\n"
        "    stp x21, x22, [x9, #200]\n"
        "    stp x23, x24, [x9, #216]\n"
        "    stp x25, x26, [x9, #232]\n"
        "    stp x27, x28, [x9, #248]\n"
        "    str x29, [x9, #264]\n"
        "    stp d8, d9, [x9, #272]\n"
        "    stp d10, d11, [x9, #288]\n"
        "    stp d12, d13, [x9, #304]\n"
        "    stp d14, d15, [x9, #320]\n"
        "    ldp x19, x20, [sp, #16]\n"
        "    ldp x21, x22, [sp, #32]\n"
        "    ldp x23, x24, [sp, #48]\n"
        "    ldp x25, x26, [sp, #64]\n"
        "    ldp x27, x28, [sp, #80]\n"
        "    ldp d8, d9, [sp, #96]\n"
        "    ldp d10, d11, [sp, #112]\n"
        "    ldp d12, d13, [sp, #128]\n"
        "    ldp d14, d15, [sp, #144]\n"
        "    ldp x29, x30, [sp], #176\n"
        "    ret\n" /* not unwindable from here, and nobody looks */
        "    .cfi_endproc\n"
        ".type probe, %function\n"
        "probe:\n"
        "    hint #34\n"
        "    mov x9, sp\n"
        "    adrp x10, probe_sp\n"
        "    str x9, [x10, #:lo12:probe_sp]\n"
        "    adrp x10, probe_next\n"
        "    ldr x16, [x10, #:lo12:probe_next]\n"
        "    br x16\n");

#endif

/* ---- Reporting ---- */

static const char *test_name = "start";
static const char *skip_reason;
static int passed;

__attribute__((noreturn, format(printf, 1, 2))) static void fail(const char *format, ...) {
    va_list arguments;
    printf("FAILED %s: ", test_name);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
    fflush(stdout);
    _exit(1);
}

#define CHECK(condition, ...)                                                              \
    do {                                                                                   \
        if (!(condition)) fail(__VA_ARGS__);                                               \
    } while (0)

/* A broken switch more often crashes or hangs than returns a wrong value. */
static void on_fatal_signal(int signal) {
    char text[] = "FAILED : signal 00\n";
    text[16] = (char)('0' + signal / 10);
    text[17] = (char)('0' + signal % 10);
    ssize_t ignored = write(STDOUT_FILENO, text, 7);
    ignored += write(STDOUT_FILENO, test_name, strlen(test_name));
    ignored += write(STDOUT_FILENO, text + 7, sizeof text - 8);
    (void)ignored;
    _exit(1);
}

static void make_fatal(int signal) {
    struct sigaction action = {.sa_flags = SA_ONSTACK, .sa_handler = on_fatal_signal};
    sigaction(signal, &action, NULL);
}

static uint64_t random_state = 1;

static uint64_t random_u64(void) { /* splitmix64: the same sequence everywhere */
    uint64_t z = random_state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

/* ---- Fibers ---- */

enum { STACK = 64 * 1024, GUARD = 64 * 1024 /* the largest page size */, ABOVE = 64 };

struct fiber {
    struct context own, resumer;
    uint8_t *low, *top; /* the usable stack; ABOVE bytes over it belong to nobody */
    bool finished;
    uint64_t input, output; /* for the tests */
};

static struct fiber *current;

static FRAME void resume(struct fiber *fiber) {
    struct fiber *previous = current;
    current = fiber;
    janus_context_switch(&fiber->resumer, &fiber->own);
    current = previous;
}

static FRAME void suspend(void) {
    struct fiber *fiber = current;
    janus_context_switch(&fiber->own, &fiber->resumer);
}

static FRAME void default_exit(void *argument) {
    struct fiber *fiber = argument;
    CHECK(fiber == current, "cleanup got %p, not its fiber", argument);
    fiber->finished = true;
    suspend();
    fail("a finished fiber was resumed");
}

/* What a new fiber finds: everything not promised to it is poison. */
static void initial_context(struct fiber *fiber, function *entry, void *argument,
                            function *cleanup) {
    uint64_t *sp = (uint64_t *)(void *)fiber->top;
    memset(&fiber->own, 0xa5, sizeof fiber->own);
#if defined(__x86_64__)
    *--sp = (uintptr_t)cleanup;
    *--sp = (uintptr_t)janus_fiber_entry;
    fiber->own.r12 = (uintptr_t)entry;
    fiber->own.r13 = (uintptr_t)argument;
    fiber->own.rbp = 0;
#elif defined(__aarch64__)
    *--sp = 0;
    *--sp = (uintptr_t)cleanup;
    fiber->own.x19 = (uintptr_t)entry;
    fiber->own.x20 = (uintptr_t)argument;
    fiber->own.x29 = 0;
    fiber->own.x30 = (uintptr_t)janus_fiber_entry;
#endif
    fiber->own.sp = (uintptr_t)sp;
    CHECK(fiber->own.sp % 16 == 0, "this harness misaligned a stack");
}

static void fiber_open(struct fiber *fiber, function *body) {
    uint8_t *memory = mmap(NULL, GUARD + STACK + ABOVE, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED, "no memory for a stack");
    CHECK(mprotect(memory, GUARD, PROT_NONE) == 0, "no guard below a stack");
    memset(fiber, 0, sizeof *fiber);
    fiber->low = memory + GUARD;
    fiber->top = fiber->low + STACK;
    memset(fiber->low, 0xa5, STACK + ABOVE);
    initial_context(fiber, body, fiber, default_exit);
}

static void fiber_close(struct fiber *fiber) {
    for (int i = 0; i < ABOVE; i++)
        CHECK(fiber->top[i] == 0xa5, "byte %d above the top of a stack was written", i);
    munmap(fiber->low - GUARD, GUARD + STACK + ABOVE);
}

static void run_to_end(struct fiber *fiber) {
    while (!fiber->finished) resume(fiber);
}

/* ---- Starting and ending ---- */

static void body_first_entry(void *argument) {
    struct fiber *fiber = argument;
    fiber->output = probe_sp;
    suspend();
}

/* rule: S0-FRAME-1, S0-FRAME-2, S0-FRAME-3, S0-FRAME-4, S0-FRAME-5, S0-TRAMP-1, S0-TRAMP-2 */
/* rule: S0-TRAMP-3, S1-CTX-5 */
static void first_entry_has_its_argument_and_an_aligned_stack(void) {
    struct fiber fiber;
    fiber_open(&fiber, probe);
    probe_next = body_first_entry;
    resume(&fiber);
    CHECK(fiber.output != 0, "the argument did not arrive");
    CHECK(fiber.output % 16 == 0, "sp is %#jx at the call of the entry function", N(fiber.output));
    CHECK(fiber.output > (uintptr_t)fiber.low && fiber.output < (uintptr_t)fiber.top,
          "the entry function is not on the fiber's stack");
    run_to_end(&fiber);
    fiber_close(&fiber);
}

static void body_square(void *argument) {
    struct fiber *fiber = argument;
    fiber->output = fiber->input * fiber->input;
}

static void a_result_is_passed_through_memory(void) {
    for (uint64_t i = 0; i < 100; i++) {
        struct fiber fiber;
        fiber_open(&fiber, body_square);
        fiber.input = i;
        resume(&fiber);
        CHECK(fiber.finished && fiber.output == i * i, "%ju squared is %ju", N(i), N(fiber.output));
        fiber_close(&fiber);
    }
}

static void body_returns_at_once(void *argument) {
    (void)argument;
}

static void exit_probed(void *argument) {
    ((struct fiber *)argument)->output = probe_sp;
    default_exit(argument);
}

/* rule: S0-TRAMP-4 */
static void returning_calls_cleanup_on_an_empty_aligned_stack(void) {
    struct fiber fiber;
    fiber_open(&fiber, body_returns_at_once);
    initial_context(&fiber, body_returns_at_once, &fiber, probe);
    probe_next = exit_probed;
    resume(&fiber);
    CHECK(fiber.finished, "cleanup was not called");
    CHECK(fiber.output % 16 == 0, "sp is %#jx at the call of cleanup", N(fiber.output));
    CHECK(fiber.output == (uintptr_t)fiber.top, "%td bytes left on the stack for cleanup",
          (ptrdiff_t)((uintptr_t)fiber.top - fiber.output));
    fiber_close(&fiber);
}

static void a_cleanup_that_returns_is_trapped(void) {
    fflush(stdout);
    pid_t child = fork();
    CHECK(child >= 0, "cannot fork");
    if (child == 0) {
        struct fiber fiber;
        signal(TRAP_SIGNAL, SIG_DFL);
        fiber_open(&fiber, body_returns_at_once);
        initial_context(&fiber, body_returns_at_once, &fiber, body_returns_at_once);
        resume(&fiber);
        _exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child, "lost the child process");
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == TRAP_SIGNAL,
          "the child ended with status %#x", status);
}

/* ---- Switching ---- */

enum { ROUNDS = 100000 };

static void body_ping_pong(void *argument) {
    struct fiber *fiber = argument;
    for (;;) {
        fiber->output = fiber->input + 1;
        suspend();
    }
}

static void ping_pong(void) {
    struct fiber fiber;
    fiber_open(&fiber, body_ping_pong);
    for (uint64_t i = 0; i < ROUNDS / 2; i++) { /* two switches each */
        fiber.input = i;
        resume(&fiber);
        CHECK(fiber.output == i + 1, "round %ju answered %ju", N(i), N(fiber.output));
    }
    fiber_close(&fiber);
}

static void same_registers(const uint64_t *expected, const uint64_t *found, const char *where) {
    for (int i = 0; i < REGISTERS; i++)
        CHECK(found[i] == expected[i], "%s is %#jx %s, not %#jx", REGISTER[i].name, N(found[i]),
              where, N(expected[i]));
}

/* Switches with random values in all callee-saved registers. They must be back
 * when this side goes on. Then the other side is away, and its values must be in
 * its context, each at its place. */
static const uint64_t *away;

static FRAME void switch_with_random_registers(struct context *from, const struct context *to) {
    struct call call = {SWITCH, {from, to, NULL}, {0}, {0}};
    for (int i = 0; i < REGISTERS; i++) call.before[i] = random_u64();
    away = call.before;
    call_with_registers(&call);
    same_registers(call.before, call.after, "after a switch");
    uint64_t in_context[REGISTERS];
    for (int i = 0; i < REGISTERS; i++)
        memcpy(&in_context[i], (const char *)to + REGISTER[i].offset, 8);
    same_registers(away, in_context, "in its context");
}

static void body_random_registers(void *argument) {
    struct fiber *fiber = argument;
    for (;;) switch_with_random_registers(&fiber->own, &fiber->resumer);
}

/* rule: S0-CTX-2, S0-CTX-3, S0-CTX-4, S0-CTX-5, S0-CTX-6, S0-CTX-7, S0-CTX-8, S0-CTX-9 */
/* rule: S0-CTX-10, S0-SWITCH-3, S0-SWITCH-4, S0-SWITCH-5, S0-SWITCH-6, S1-CTX-3 */
static void callee_saved_registers_survive(void) {
    struct fiber fiber[2];
    for (int i = 0; i < 2; i++) fiber_open(&fiber[i], body_random_registers);
    for (int i = 0; i < 10000; i++) {
        struct fiber *next = &fiber[random_u64() % 2];
        switch_with_random_registers(&next->resumer, &next->own);
    }
    for (int i = 0; i < 2; i++) fiber_close(&fiber[i]);
}

static struct fiber nested[3];
static char journal[32];

static void note(char event) {
    size_t length = strlen(journal);
    CHECK(length + 1 < sizeof journal, "more happened than expected: %s", journal);
    journal[length] = event;
}

static void body_nested(void *argument) {
    struct fiber *fiber = argument;
    int depth = (int)(fiber - nested);
    for (int round = 0; round < 2; round++) {
        note((char)('A' + depth));
        if (depth < 2) resume(&nested[depth + 1]);
        note((char)('a' + depth));
        suspend();
    }
}

static void nested_switches_return_in_order(void) {
    memset(journal, 0, sizeof journal);
    for (int i = 0; i < 3; i++) fiber_open(&nested[i], body_nested);
    resume(&nested[0]);
    note('.');
    resume(&nested[0]);
    CHECK(strcmp(journal, "ABCcba.ABCcba") == 0, "the order was %s", journal);
    for (int i = 2; i >= 0; i--) {
        run_to_end(&nested[i]);
        fiber_close(&nested[i]);
    }
}

enum { CROWD = 300, CROWD_SWITCHES = 60000 };

static uint64_t stir(uint64_t sum, uint64_t value) {
    sum ^= value;
    sum *= 0x100000001b3;
    return sum ^ (sum >> 29);
}

static void body_crowd(void *argument) {
    struct fiber *fiber = argument;
    uint64_t history[16] = {0}, sum = (uintptr_t)fiber; /* lives on the stack and in registers */
    for (uint64_t turn = 0;; turn++) {
        sum = stir(sum + history[turn % 16], fiber->input);
        history[turn % 16] = sum;
        fiber->output = sum;
        suspend();
    }
}

static void many_fibers_in_random_order(void) {
    static struct fiber fiber[CROWD];
    static uint64_t history[CROWD][16], sum[CROWD], turn[CROWD];
    for (int i = 0; i < CROWD; i++) {
        fiber_open(&fiber[i], body_crowd);
        sum[i] = (uintptr_t)&fiber[i];
    }
    for (int i = 0; i < CROWD_SWITCHES; i++) {
        int n = (int)(random_u64() % CROWD);
        fiber[n].input = random_u64();
        uint64_t *slot = &history[n][turn[n]++ % 16];
        *slot = sum[n] = stir(sum[n] + *slot, fiber[n].input);
        resume(&fiber[n]);
        CHECK(fiber[n].output == sum[n], "fiber %d has a wrong checksum in turn %ju", n,
              N(turn[n]));
    }
    for (int i = 0; i < CROWD; i++) fiber_close(&fiber[i]);
}

enum { DEPTH = 48 * 1024 };

static FRAME uint64_t descend(struct fiber *fiber, uint64_t level) {
    volatile uint64_t frame[64];
    for (uint64_t i = 0; i < 64; i++) frame[i] = level * 64 + i;
    uint64_t below = 0;
    if ((uintptr_t)fiber->top - (uintptr_t)frame < DEPTH) {
        below = descend(fiber, level + 1);
    } else {
        for (int i = 0; i < 1000; i++) suspend();
    }
    for (uint64_t i = 0; i < 64; i++)
        CHECK(frame[i] == level * 64 + i, "word %ju of level %ju changed", N(i), N(level));
    return below + 1;
}

static void body_deep(void *argument) {
    struct fiber *fiber = argument;
    fiber->output = descend(fiber, 0);
}

static void a_deep_stack_is_intact_after_switches_at_its_bottom(void) {
    struct fiber fiber;
    fiber_open(&fiber, body_deep);
    run_to_end(&fiber);
    CHECK(fiber.output > 10, "only %ju levels", N(fiber.output));
    fiber_close(&fiber);
}

/* Eight sums live across each call: on aarch64 in d8 to d15, which a callee preserves,
 * on x86_64, where no floating-point register is, on the stack. */
static FRAME double sums(double x, void (*between)(void)) {
    double a = x, b = x / 2, c = x / 3, d = x / 5, e = x / 7, f = x / 11, g = x / 13, h = x / 17;
    for (int i = 1; i <= 5000; i++) {
        a += b / i, b -= c * 0.5, c += d / (i + 1), d -= e * 0.25;
        e += f / (i + 2), f -= g * 0.125, g += h / (i + 3), h -= a * 0.0625;
        between();
    }
    return a + b + c + d + e + f + g + h;
}

static FRAME void no_switch(void) {
    __asm__ volatile("" ::: "memory");
}

static double double_result[2];

static void body_floats(void *argument) {
    struct fiber *fiber = argument;
    double_result[fiber->input] = sums((double)(fiber->input + 3) / 7, suspend);
}

static void floating_point_sums_survive(void) {
    struct fiber fiber[2];
    for (uint64_t i = 0; i < 2; i++) {
        fiber_open(&fiber[i], body_floats);
        fiber[i].input = i;
    }
    while (!fiber[0].finished || !fiber[1].finished)
        for (int i = 0; i < 2; i++)
            if (!fiber[i].finished) resume(&fiber[i]);
    for (int i = 0; i < 2; i++) {
        double expected = sums((double)(i + 3) / 7, no_switch);
        CHECK(expected - expected == 0, "the sum without switches is %g", expected);
        CHECK(memcmp(&expected, &double_result[i], sizeof expected) == 0, "%.17g instead of %.17g",
              double_result[i], expected);
        fiber_close(&fiber[i]);
    }
}

/* ---- Unwinding ---- */

enum { MOST_FRAMES = 48 };

struct trace {
    int frames;
    bool complete;                   /* the unwinder itself found the end */
    uintptr_t top;                   /* the outermost frame's CFA */
    uintptr_t function[MOST_FRAMES]; /* innermost first */
    bool has_registers;              /* of the innermost call_with_registers: */
    uint64_t registers[REGISTERS];
};

static uintptr_t entry_region(void) {
    return (uintptr_t)janus_fiber_entry - ENTRY_NOP;
}

/* The start of the unwind region with this instruction; 0 if there is none. */
static uintptr_t region(uintptr_t instruction) {
    /* + 1, because it looks up "return address - 1". */
    return (uintptr_t)_Unwind_FindEnclosingFunction((void *)(instruction + 1));
}

static _Unwind_Reason_Code on_frame(struct _Unwind_Context *frame, void *argument) {
    struct trace *trace = argument;
    int interrupted = 0;
    uintptr_t ip = _Unwind_GetIPInfo(frame, &interrupted);
    if (ip == 0) { /* libgcc shows the end as one more frame, whose stack begins there */
        trace->top = _Unwind_GetCFA(frame);
        return _URC_NO_REASON;
    }
    if (trace->frames == MOST_FRAMES) return _URC_NORMAL_STOP;
    uintptr_t function = region(ip - !interrupted);
    CHECK(function == 0 || function == _Unwind_GetRegionStart(frame),
          "two opinions on where %#jx belongs", N(ip));
    trace->function[trace->frames++] = function;
    if (function == (uintptr_t)call_with_registers && !trace->has_registers) {
        trace->has_registers = true;
        for (int i = 0; i < REGISTERS; i++)
            trace->registers[i] = _Unwind_GetGR(frame, REGISTER[i].dwarf);
    }
    return _URC_NO_REASON;
}

static FRAME void take_trace(struct trace *trace) {
    memset(trace, 0, sizeof *trace);
    trace->complete = _Unwind_Backtrace(on_frame, trace) == _URC_END_OF_STACK;
}

static bool contains(const struct trace *trace, const void *function) {
    for (int i = 0; i < trace->frames; i++)
        if (trace->function[i] == (uintptr_t)function) return true;
    return false;
}

static bool ends_at_entry(const struct trace *trace, const struct fiber *fiber) {
    int entries = 0;
    for (int i = 0; i < trace->frames; i++) entries += trace->function[i] == entry_region();
    return trace->complete && trace->top == (uintptr_t)fiber->top && entries == 1 &&
           trace->function[trace->frames - 1] == entry_region();
}

static struct trace trace_inside;
static uintptr_t *last_record; /* where the frame-pointer chain ends: { 0, return address } */
static uintptr_t last_return;

static FRAME void innermost(void) {
    take_trace(&trace_inside);
    uintptr_t *record = __builtin_frame_address(0);
    for (int i = 0; record[0] != 0; i++) {
        CHECK(i < MOST_FRAMES, "the frame-pointer chain does not end");
        CHECK(record[0] > (uintptr_t)record && record[0] < (uintptr_t)current->top,
              "the frame-pointer chain leaves the stack for %#jx", N(record[0]));
        record = (uintptr_t *)record[0];
    }
    last_record = record;
    last_return = record[1];
}

static FRAME void middle(void) {
    innermost();
    __asm__ volatile("" ::: "memory"); /* no tail call */
}

static FRAME void body_unwind(void *argument) {
    (void)argument;
    suspend(); /* so that it is not new when the trace is taken */
    middle();
    __asm__ volatile("" ::: "memory");
}

/* By unwind tables and by frame pointers. */
static FRAME void a_running_fiber_is_unwound_to_its_entry(void) {
    struct fiber fiber;
    fiber_open(&fiber, body_unwind);
    run_to_end(&fiber);
    CHECK(contains(&trace_inside, (void *)innermost) && contains(&trace_inside, (void *)middle) &&
              contains(&trace_inside, (void *)body_unwind),
          "not all functions of the fiber are in its trace of %d frames", trace_inside.frames);
    CHECK(ends_at_entry(&trace_inside, &fiber), "the trace of %d frames does not end at the entry",
          trace_inside.frames);
    CHECK(!contains(&trace_inside, (void *)a_running_fiber_is_unwound_to_its_entry),
          "the trace leaves the fiber");
    CHECK(fiber.top - (uint8_t *)last_record == LAST_RECORD,
          "the last frame record is %td bytes below the top", fiber.top - (uint8_t *)last_record);
#if defined(__aarch64__)
    CHECK(last_return == 0, "the last frame record returns to %#jx", N(last_return));
#elif defined(__x86_64__)
    CHECK(last_return == (uintptr_t)default_exit,
          "the last frame record returns to %#jx, not to cleanup", N(last_return));
#endif
    fiber_close(&fiber);
}

/* `main_values` and `fiber_values` are what the two sides hold in their registers
 * whenever they call into the assembly. */
static uint64_t main_values[REGISTERS], fiber_values[REGISTERS];

static FRAME void fiber_suspends(struct fiber *fiber) {
    struct call call = {SWITCH, {&fiber->own, &fiber->resumer, NULL}, {0}, {0}};
    memcpy(call.before, fiber_values, sizeof call.before);
    call_with_registers(&call);
}

static FRAME void body_suspends(void *argument) {
    fiber_suspends(argument);
    __asm__ volatile("" ::: "memory");
}

static FRAME void main_calls(void (*callee)(void), const void *a, const void *b, const void *c) {
    struct call call = {callee, {a, b, c}, {0}, {0}};
    memcpy(call.before, main_values, sizeof call.before);
    call_with_registers(&call);
    same_registers(main_values, call.after, "after a call");
}

static void main_resumes(struct fiber *fiber) {
    current = fiber;
    main_calls(SWITCH, &fiber->resumer, &fiber->own, NULL);
    current = NULL;
}

static void choose_values(void) {
    for (int i = 0; i < REGISTERS; i++) {
        main_values[i] = random_u64();
        fiber_values[i] = random_u64();
    }
}

static uintptr_t visit_sp;

static FRAME void visit(void *argument) {
    visit_sp = probe_sp;
    take_trace(argument);
    __asm__ volatile("" ::: "memory");
}

static void observe(struct fiber *fiber, struct trace *trace) {
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    probe_next = visit;
    main_calls(OBSERVE, &fiber->own, (void *)probe, trace);
    CHECK(visit_sp % 16 == 0, "sp is %#jx at the call of visit", N(visit_sp));
    CHECK(visit_sp < here && here - visit_sp < 4096,
          "visit was not called on the stack of its caller");
}

static FRAME void a_suspended_fiber_is_observed(void) {
    struct fiber fiber;
    struct trace trace;
    choose_values();
    fiber_open(&fiber, body_suspends);
    resume(&fiber);
    observe(&fiber, &trace);
    CHECK(contains(&trace, (void *)visit), "the trace does not begin in visit");
    CHECK(contains(&trace, (void *)fiber_suspends) && contains(&trace, (void *)body_suspends),
          "not all functions of the fiber are in its trace of %d frames", trace.frames);
    CHECK(ends_at_entry(&trace, &fiber), "the trace of %d frames does not end at the entry",
          trace.frames);
    CHECK(!contains(&trace, (void *)main_calls), "the observer's caller is in the trace");
    CHECK(trace.has_registers, "no frame with known registers");
    same_registers(fiber_values, trace.registers, "in the suspended frame");
    run_to_end(&fiber);
    CHECK(fiber.finished, "the observed fiber did not go on");
    fiber_close(&fiber);
}

static FRAME void a_new_fiber_is_observed(void) {
    struct fiber fiber;
    struct trace trace;
    choose_values();
    fiber_open(&fiber, body_suspends);
    observe(&fiber, &trace);
    CHECK(contains(&trace, (void *)visit), "the trace does not begin in visit");
    CHECK(ends_at_entry(&trace, &fiber), "the trace of %d frames does not end at the entry",
          trace.frames);
    CHECK(!contains(&trace, (void *)body_suspends), "a fiber that never ran is seen in its body");
    CHECK(!contains(&trace, (void *)main_calls), "the observer's caller is in the trace");
    run_to_end(&fiber);
    fiber_close(&fiber);
}

/* ---- Unwinding at every instruction ----
 *
 * SIGTRAP arrives before each instruction of the three functions, and its handler
 * looks at the interrupted call chain. `journal` collects what it found, repeated
 * letters left out:
 *   m   main's frame, with main's register values
 *   f   the fiber's frame, with the fiber's register values
 *   e   the outermost frame of the fiber, before or after its body
 */
static uintptr_t traced_test; /* the test function on main's stack */
static const struct fiber *traced_fiber;
static int instructions_seen;

static char who(const struct trace *trace) {
    bool main_side = contains(trace, (void *)traced_test);
    bool fiber_side = ends_at_entry(trace, traced_fiber);
    const uint64_t *values = fiber_side ? fiber_values : main_values;
    if (!trace->complete || main_side == fiber_side) return '?';
    if (!trace->has_registers) return fiber_side ? 'e' : '?';
    if (memcmp(trace->registers, values, sizeof trace->registers) != 0) return '!';
    return fiber_side ? 'f' : 'm';
}

static void look(uintptr_t pc) {
    struct trace trace;
    take_trace(&trace);
    char letter = who(&trace);
    size_t length = strlen(journal);
    CHECK(letter != '?', "wrong callers at +%ju of %#jx after \"%s\"", N(pc - region(pc)),
          N(region(pc)), journal);
    CHECK(letter != '!', "wrong registers at +%ju of %#jx after \"%s\"", N(pc - region(pc)),
          N(region(pc)), journal);
    if (length == 0 || journal[length - 1] != letter) note(letter);
    instructions_seen++;
}

/* The handler runs on whatever stack it interrupts, as in a program with signals. */
static void handle_trap(void (*handler)(int, siginfo_t *, void *)) {
    struct sigaction action = {.sa_flags = SA_SIGINFO, .sa_sigaction = handler};
    sigaction(SIGTRAP, &action, NULL);
}

#if defined(__x86_64__)

static bool is_ours(uintptr_t pc) {
    uintptr_t start = region(pc);
    return start == (uintptr_t)janus_context_switch || start == entry_region() ||
           start == (uintptr_t)janus_context_observe;
}

/* The trap flag: a SIGTRAP before every instruction of the process. */
static volatile sig_atomic_t stepping;

static void on_trap(int signal, siginfo_t *info, void *state) {
    greg_t *registers = ((ucontext_t *)state)->uc_mcontext.gregs;
    (void)signal, (void)info;
    if (!stepping) {
        registers[REG_EFL] &= ~(greg_t)0x100;
        return;
    }
    registers[REG_EFL] |= 0x100;
    uintptr_t pc = (uintptr_t)registers[REG_RIP];
    if (is_ours(pc)) look(pc);
}

static bool step_begin(void) {
    handle_trap(on_trap);
    stepping = 1;
    raise(SIGTRAP);
    return true;
}

static void step_end(void) {
    stepping = 0;
}

#elif defined(__aarch64__)

/* No single step without a debugger, but instructions of one size: each is
 * replaced by a breakpoint. A hit puts the original back until the next hit. */
enum { BREAKPOINT = 0xd4200000, MOST_INSTRUCTIONS = 128 };
static uint32_t *planted[MOST_INSTRUCTIONS], original[MOST_INSTRUCTIONS];
static int plants, bare;

static void patch(uint32_t *where, uint32_t instruction) {
    *(volatile uint32_t *)where = instruction;
    __builtin___clear_cache((char *)where, (char *)(where + 1));
}

static void on_trap(int signal, siginfo_t *info, void *state) {
    uintptr_t pc = ((ucontext_t *)state)->uc_mcontext.pc;
    (void)signal, (void)info;
    if (bare >= 0) patch(planted[bare], BREAKPOINT);
    for (bare = 0; bare < plants; bare++)
        if ((uintptr_t)planted[bare] == pc) break;
    CHECK(bare < plants, "an unexpected breakpoint at %#jx", N(pc));
    patch(planted[bare], original[bare]);
    look(pc);
}

static bool step_begin(void) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t start[] = {(uintptr_t)SWITCH, entry_region(), (uintptr_t)OBSERVE};
    plants = 0;
    bare = -1;
    for (int i = 0; i < 3; i++)
        for (uintptr_t pc = start[i]; region(pc) == start[i]; pc += 4) {
            CHECK(plants < MOST_INSTRUCTIONS, "too many instructions for this harness");
            void *in_page = (void *)(pc & ~(page - 1));
            if (mprotect(in_page, page, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) return false;
            planted[plants] = (uint32_t *)pc;
            original[plants++] = *(uint32_t *)pc;
        }
    handle_trap(on_trap);
    for (int i = 0; i < plants; i++) patch(planted[i], BREAKPOINT);
    return true;
}

static void step_end(void) {
    for (int i = 0; i < plants; i++) patch(planted[i], original[i]);
}

#endif

static FRAME void unwinding_is_right_at_every_instruction(void) {
    struct fiber fiber;
    struct trace trace;
    memset(journal, 0, sizeof journal);
    traced_test = (uintptr_t)unwinding_is_right_at_every_instruction;
    traced_fiber = &fiber;
    choose_values();
    fiber_open(&fiber, body_suspends);
    if (!step_begin()) {
        skip_reason = "code cannot be made writable for breakpoints";
        return;
    }
    main_resumes(&fiber);    /* m e f m: the fiber starts and suspends itself */
    observe(&fiber, &trace); /* m f m */
    main_resumes(&fiber);    /* m f e m: the fiber goes on and ends */
    step_end();
    make_fatal(SIGTRAP);
    CHECK(fiber.finished, "the fiber did not end");
    CHECK(strcmp(journal, "mefmfmfem") == 0, "the callers were %s", journal);
    CHECK(instructions_seen > 50, "only %d instructions seen", instructions_seen);
    fiber_close(&fiber);
}

/* ---- Branch target identification ---- */

#if defined(__aarch64__)

enum { PROT_GUARDED = 0x10 /* PROT_BTI */, HWCAP2_HAS_BTI = 1 << 17 };

/* With the pages of this program's code guarded, an indirect call must find `bti`
 * where it lands and a switch must come back to where there is none. No traces
 * here: the unwinder may share these pages and need not be compiled for it. */
static FRAME void switches_between_guarded_pages(void) {
#if defined(__ARM_FEATURE_BTI_DEFAULT)
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), low = UINTPTR_MAX, high = 0;
    const uintptr_t used[] = {(uintptr_t)janus_context_switch, (uintptr_t)janus_context_observe,
                              (uintptr_t)call_with_registers, (uintptr_t)probe, (uintptr_t)resume,
                              (uintptr_t)default_exit, (uintptr_t)switches_between_guarded_pages};
    struct fiber fiber;
    if (!(getauxval(AT_HWCAP2) & HWCAP2_HAS_BTI)) {
        skip_reason = "the processor has no branch target identification";
        return;
    }
    for (size_t i = 0; i < sizeof used / sizeof *used; i++) {
        low = used[i] < low ? used[i] : low;
        high = used[i] > high ? used[i] : high;
    }
    low &= ~(page - 1);
    high = (high + 512) | (page - 1);
    choose_values();
    fiber_open(&fiber, probe);
    CHECK(mprotect((void *)low, high + 1 - low, PROT_READ | PROT_EXEC | PROT_GUARDED) == 0,
          "cannot guard pages");
    probe_next = body_suspends;
    main_resumes(&fiber);
    probe_next = body_returns_at_once;
    main_calls(OBSERVE, &fiber.own, (void *)probe, NULL);
    main_resumes(&fiber);
    mprotect((void *)low, high + 1 - low, PROT_READ | PROT_EXEC);
    CHECK(fiber.finished, "the fiber did not end");
    fiber_close(&fiber);
#else
    skip_reason = "compiled without -mbranch-protection=bti";
#endif
}

#endif

/* ---- Leaving an overflowed stack from a signal handler ---- */

static FRAME uint64_t recurse_for_ever(uint64_t depth) {
    volatile uint64_t frame[16] = {depth};
    return frame[0] == UINT64_MAX ? 0 : recurse_for_ever(depth + 1) + frame[7];
}

static void body_overflows(void *argument) {
    struct fiber *fiber = argument;
    fiber->output = recurse_for_ever(fiber->input);
}

/* As `redirect` in src/stack/arch/<architecture>.rs. */
static void on_overflow(int signal, siginfo_t *info, void *state) {
    (void)signal;
    mcontext_t *machine = &((ucontext_t *)state)->uc_mcontext;
    uint8_t *at = info->si_addr;
    struct fiber *fiber = current;
    CHECK(fiber && at < fiber->low && at >= fiber->low - GUARD, "a fault elsewhere");
#if defined(__x86_64__)
    machine->gregs[REG_RIP] = (greg_t)janus_context_switch;
    machine->gregs[REG_RDI] = (greg_t)&fiber->own;
    machine->gregs[REG_RSI] = (greg_t)&fiber->resumer;
    machine->gregs[REG_EFL] &= ~(greg_t)0x400;
#else
    machine->pc = (uintptr_t)janus_context_switch;
    machine->regs[0] = (uintptr_t)&fiber->own;
    machine->regs[1] = (uintptr_t)&fiber->resumer;
    machine->pstate &= ~(uint64_t)0xc00;
#endif
}

/* Main's registers are back each time, and so is the mask: the next one is noticed too. */
static void an_overflowed_stack_is_left_by_a_signal_handler(void) {
    struct sigaction action = {.sa_flags = SA_ONSTACK | SA_SIGINFO};
    action.sa_sigaction = on_overflow;
    sigaction(SIGSEGV, &action, NULL);
    for (int i = 0; i < 20; i++) {
        struct fiber fiber;
        fiber_open(&fiber, body_overflows);
        fiber.input = random_u64() / 2;
        struct call call = {SWITCH, {&fiber.resumer, &fiber.own, NULL}, {0}, {0}};
        for (int r = 0; r < REGISTERS; r++) call.before[r] = random_u64();
        current = &fiber;
        call_with_registers(&call);
        current = NULL;
        same_registers(call.before, call.after, "after an overflow");
        CHECK(!fiber.finished, "the fiber came to its end");
        sigset_t blocked;
        sigprocmask(SIG_BLOCK, NULL, &blocked);
        CHECK(!sigismember(&blocked, SIGSEGV), "SIGSEGV is blocked afterwards");
        fiber_close(&fiber);
    }
    make_fatal(SIGSEGV);
}

/* ---- All of it ---- */

#define TEST(function) {#function, function}

static const struct { const char *name; void (*run)(void); } TESTS[] = {
    TEST(first_entry_has_its_argument_and_an_aligned_stack),
    TEST(a_result_is_passed_through_memory),
    TEST(returning_calls_cleanup_on_an_empty_aligned_stack),
    TEST(a_cleanup_that_returns_is_trapped),
    TEST(ping_pong),
    TEST(callee_saved_registers_survive),
    TEST(nested_switches_return_in_order),
    TEST(many_fibers_in_random_order),
    TEST(a_deep_stack_is_intact_after_switches_at_its_bottom),
    TEST(floating_point_sums_survive),
    TEST(a_running_fiber_is_unwound_to_its_entry),
    TEST(a_suspended_fiber_is_observed),
    TEST(a_new_fiber_is_observed),
    TEST(unwinding_is_right_at_every_instruction),
    TEST(an_overflowed_stack_is_left_by_a_signal_handler),
#if defined(__aarch64__)
    TEST(switches_between_guarded_pages),
#endif
};

int main(void) {
    static uint8_t signal_stack[64 * 1024];
    const int fatal[] = {SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGABRT, SIGALRM};
    sigaltstack(&(stack_t){.ss_sp = signal_stack, .ss_size = sizeof signal_stack}, NULL);
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++) make_fatal(fatal[i]);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0}); /* one test crashes a child on purpose */
    alarm(60);                                      /* seconds; an emulator needs one */

    for (size_t i = 0; i < sizeof TESTS / sizeof *TESTS; i++) {
        test_name = TESTS[i].name;
        skip_reason = NULL;
        TESTS[i].run();
        if (skip_reason) {
            printf("skipped %s: %s\n", test_name, skip_reason);
        } else {
            printf("ok %s\n", test_name);
            passed++;
        }
        fflush(stdout);
    }
    printf("%d passed, 0 failed\n", passed);
    return 0;
}
