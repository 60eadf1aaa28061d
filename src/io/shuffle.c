/* shuffle.c - the order in which an epoch visits a data set, by counters alone: no state is carried from epoch to epoch, so
 * a run can be taken up at any epoch. */
#include <anneal/io.h>

#include "base/threefry.h"

void an_shuffle(uint64_t seed, uint32_t epoch, uint32_t n, uint32_t *out)
{
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    for (uint32_t i = 0; i < n; i++) out[i] = i;
    for (uint32_t i = n; i > 1; i--) {
        const uint32_t ctr[2] = {epoch, i};
        uint32_t r[2];
        an_threefry(key, ctr, r);
        /* A 64-bit draw scaled to 0..i-1 by its high bits: the bias is below 2^-32. */
        const uint64_t low = ((uint64_t)r[1] * i) >> 32;
        const uint32_t j = (uint32_t)(((uint64_t)r[0] * i + low) >> 32);
        const uint32_t kept = out[i - 1];
        out[i - 1] = out[j];
        out[j] = kept;
    }
}

uint32_t an_sample(uint64_t seed, uint64_t step, uint32_t row, uint32_t n)
{
    /* "draw" apart from the keys of an_shuffle; steps beyond 2^32 have keys of their own */
    const uint32_t key[2] = {(uint32_t)seed ^ 0x64726177u, (uint32_t)(seed >> 32) + (uint32_t)(step >> 32)};
    const uint32_t ctr[2] = {(uint32_t)step, row};
    uint32_t r[2];
    an_threefry(key, ctr, r);
    const uint64_t low = ((uint64_t)r[1] * n) >> 32;
    return (uint32_t)(((uint64_t)r[0] * n + low) >> 32);
}
