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

/* Two numbers of four, under seed; "draw" apart from the keys of an_shuffle. */
static void draw(uint64_t seed, uint32_t high, uint32_t a, uint32_t b, uint32_t out[2])
{
    const uint32_t key[2] = {(uint32_t)seed ^ 0x64726177u, (uint32_t)(seed >> 32) + high};
    const uint32_t ctr[2] = {a, b};
    an_threefry(key, ctr, out);
}

uint32_t an_sample(uint64_t seed, uint64_t step, uint32_t row, uint32_t n)
{
    uint32_t r[2]; /* steps beyond 2^32 have keys of their own */
    draw(seed, (uint32_t)(step >> 32), (uint32_t)step, row, r);
    const uint64_t low = ((uint64_t)r[1] * n) >> 32;
    return (uint32_t)(((uint64_t)r[0] * n + low) >> 32);
}

static uint32_t word(uint64_t seed, uint64_t pass, uint32_t use, uint32_t x)
{
    uint32_t r[2]; /* passes beyond 2^29 have keys of their own */
    draw(seed, (uint32_t)(pass >> 29), (uint32_t)pass << 3 | use, x, r);
    return r[0];
}

/* Place i of a permutation of 0..n-1: a Feistel network over the next even number of bits, walked until it is below n (Black and
 * Rogaway 2002). Less than four tries on average. */
static uint32_t permuted(uint64_t seed, uint64_t pass, uint32_t i, uint32_t n)
{
    enum { ROUNDS = 6 };
    uint32_t half = 1;
    while (half < 16 && n > (uint32_t)1 << 2 * half) half++;
    const uint32_t mask = ((uint32_t)1 << half) - 1;
    do {
        uint32_t left = i >> half, right = i & mask;
        for (uint32_t k = 0; k < ROUNDS; k++) {
            const uint32_t next = left ^ (word(seed, pass, k, right) & mask);
            left = right;
            right = next;
        }
        i = left << half | right;
    } while (i >= n);
    return i;
}

uint32_t an_sequence_start(uint64_t seed, uint64_t number, uint32_t n, uint32_t stride)
{
    enum { OFFSET = 7 };
    const uint32_t each = stride < 1 ? 1 : stride < n ? stride : n, count = n / each;
    const uint64_t pass = number / count;
    const uint32_t offset = (uint32_t)((uint64_t)word(seed, pass, OFFSET, 0) * each >> 32);
    return offset + permuted(seed, pass, (uint32_t)(number % count), count) * each;
}
