/* shuffle.c - the order in which an epoch visits a data set, by counters alone: no state is carried from epoch to epoch, so
 * a run can be taken up at any epoch. */
#include <anneal/io.h>

#include "io/threefry.h"

static uint32_t rotl(uint32_t x, unsigned n)
{
    return x << n | x >> (32 - n);
}

void an_threefry2x32(const uint32_t key[2], const uint32_t ctr[2], uint32_t out[2])
{
    static const unsigned rotations[8] = {13, 15, 26, 6, 17, 29, 16, 24};
    const uint32_t ks[3] = {key[0], key[1], 0x1bd11bdau ^ key[0] ^ key[1]};
    uint32_t x = ctr[0] + ks[0], y = ctr[1] + ks[1];
    for (unsigned round = 0; round < 20; round++) {
        x += y;
        y = rotl(y, rotations[round % 8]) ^ x;
        if (round % 4 == 3) {
            const uint32_t i = round / 4 + 1;
            x += ks[i % 3];
            y += ks[(i + 1) % 3] + i;
        }
    }
    out[0] = x;
    out[1] = y;
}

void an_shuffle(uint64_t seed, uint32_t epoch, uint32_t n, uint32_t *out)
{
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    for (uint32_t i = 0; i < n; i++) out[i] = i;
    for (uint32_t i = n; i > 1; i--) {
        const uint32_t ctr[2] = {epoch, i};
        uint32_t r[2];
        an_threefry2x32(key, ctr, r);
        /* A 64-bit draw scaled to 0..i-1 by its high bits: the bias is below 2^-32. */
        const uint64_t low = ((uint64_t)r[1] * i) >> 32;
        const uint32_t j = (uint32_t)(((uint64_t)r[0] * i + low) >> 32);
        const uint32_t kept = out[i - 1];
        out[i - 1] = out[j];
        out[j] = kept;
    }
}
