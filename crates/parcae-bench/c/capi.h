/* What capi.c offers to Rust, and hash.c to capi.c. */
#ifndef CAPI_H
#define CAPI_H

#include <stddef.h>
#include <stdint.h>

double bench_spawn_await(int rounds, int size);
double bench_spawn_await_outside(int rounds, int size);
double bench_pthreads(int rounds, int size);
double bench_yield_check(int rounds, int size);
double bench_trace_pc(int rounds); /* how many times as long */
double bench_channel(int values);

uint64_t bench_hash_plain(const unsigned char *bytes, size_t length);
uint64_t bench_hash_traced(const unsigned char *bytes, size_t length);

#endif
