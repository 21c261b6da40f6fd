/* The kernels in C, for comparison: argv[1] is the name. Prints the checksum and the CPU time in
   microseconds. The arrays hold 64-bit words, as those of the language. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Neither inlined nor hoisted out of the loop that calls it. */
#define KERNEL __attribute__((noipa))

static int64_t words[65536];

KERNEL static int64_t sum_kernel(int64_t *a) {
    int64_t sum = 0;
    for (int64_t i = 0; i < 4096; i++) sum += a[i];
    return sum;
}
static int64_t sum(void) {
    int64_t total = 0;
    for (int64_t i = 0; i < 4096; i++) words[i] = i * 7 % 13;
    for (int k = 0; k < 20000; k++) total += sum_kernel(words) % 1000;
    return total;
}

KERNEL static int64_t hash_kernel(int64_t *a, int64_t n) {
    int64_t h = 2166136261;
    for (int64_t i = 0; i < n; i++) h = ((h ^ a[i]) * 16777619) & 4294967295;
    return h;
}
static int64_t hash(void) {
    int64_t total = 0;
    for (int64_t i = 0; i < 4096; i++) words[i] = i % 251;
    for (int64_t k = 0; k < 10000; k++) {
        words[k % 4096] = k % 255;
        total ^= hash_kernel(words, 4096);
    }
    return total;
}

static double fa[9216], fb[9216], fc[9216];
KERNEL static void matmul_kernel(double *a, double *b, double *c, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t k = 0; k < n; k++) sum += a[i * n + k] * b[k * n + j];
            c[i * n + j] = sum;
        }
}
static int64_t matmul(void) {
    double total = 0;
    for (int i = 0; i < 9216; i++) {
        fa[i] = i % 17;
        fb[i] = i % 19;
    }
    for (int k = 0; k < 40; k++) matmul_kernel(fa, fb, fc, 96);
    for (int i = 0; i < 9216; i++) total += fc[i];
    return (int64_t)total;
}

KERNEL static int64_t sieve_kernel(int64_t *marks, int64_t n) {
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) marks[i] = 1;
    for (int64_t i = 2; i * i < n; i++)
        if (marks[i] == 1)
            for (int64_t k = i * i; k < n; k += i) marks[k] = 0;
    for (int64_t i = 2; i < n; i++)
        if (marks[i] == 1) count++;
    return count;
}
static int64_t sieve(void) {
    int64_t total = 0;
    for (int k = 0; k < 200; k++) total += sieve_kernel(words, 65536);
    return total;
}

KERNEL static int64_t collatz_kernel(int64_t n) {
    int64_t steps = 0;
    while (n != 1) {
        n = n & 1 ? 3 * n + 1 : n >> 1;
        steps++;
    }
    return steps;
}
static int64_t collatz(void) {
    int64_t total = 0;
    for (int64_t i = 1; i < 300000; i++) total += collatz_kernel(i);
    return total;
}

KERNEL static int64_t fib_kernel(int64_t n) { return n < 2 ? n : fib_kernel(n - 1) + fib_kernel(n - 2); }
static int64_t fib(void) { return fib_kernel(32); }

KERNEL static void advance(double *x, double *v, double *m, int64_t n, double dt) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = i + 1; j < n; j++) {
            double dx = x[3 * i] - x[3 * j], dy = x[3 * i + 1] - x[3 * j + 1];
            double dz = x[3 * i + 2] - x[3 * j + 2];
            double d2 = dx * dx + dy * dy + dz * dz, mag = dt / (d2 * sqrt(d2));
            v[3 * i] -= dx * m[j] * mag;
            v[3 * i + 1] -= dy * m[j] * mag;
            v[3 * i + 2] -= dz * m[j] * mag;
            v[3 * j] += dx * m[i] * mag;
            v[3 * j + 1] += dy * m[i] * mag;
            v[3 * j + 2] += dz * m[i] * mag;
        }
    for (int64_t i = 0; i < 3 * n; i++) x[i] += dt * v[i];
}
static int64_t nbody(void) {
    double x[15], v[15], m[5], total = 0;
    for (int i = 0; i < 15; i++) {
        x[i] = i * 7 % 11 + 0.5;
        v[i] = (i * 5 % 13) * 0.01;
    }
    for (int i = 0; i < 5; i++) m[i] = (i + 1) * 0.1;
    for (int k = 0; k < 300000; k++) advance(x, v, m, 5, 0.001);
    for (int i = 0; i < 15; i++) total += x[i];
    return (int64_t)(total * 1000000.0);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        int64_t (*run)(void);
    } all[] = {{"sum", sum},   {"hash", hash}, {"matmul", matmul}, {"sieve", sieve}, {"collatz", collatz},
               {"fib", fib},   {"nbody", nbody}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (argc > 1 && !strcmp(argv[1], all[i].name)) {
            clock_t start = clock();
            int64_t value = all[i].run();
            printf("%lld %ld\n", (long long)value, (long)((clock() - start) * 1000000 / CLOCKS_PER_SEC));
            return 0;
        }
    return 2;
}
