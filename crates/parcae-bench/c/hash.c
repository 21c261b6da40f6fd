/* A loop with one branch, compiled twice: as it is, and with calls that the compiler inserts. */
#include "capi.h"

#ifdef TRACED
#define bench_hash bench_hash_traced
#else
#define bench_hash bench_hash_plain
#endif

uint64_t bench_hash(const unsigned char *bytes, size_t length)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001B3);
    return hash;
}
