/* threefry.h - the Threefry-2x32 counter generator with 20 rounds, on the host (Salmon et al., "Parallel random numbers: as
 * easy as 1, 2, 3", SC 2011). src/tensor computes the same function as graph. */
#ifndef AN_BASE_THREEFRY_H
#define AN_BASE_THREEFRY_H

#include <stdint.h>

/* out may be ctr. */
static inline void an_threefry(const uint32_t key[2], const uint32_t ctr[2], uint32_t out[2])
{
    static const unsigned rotations[8] = {13, 15, 26, 6, 17, 29, 16, 24};
    const uint32_t ks[3] = {key[0], key[1], 0x1bd11bdau ^ key[0] ^ key[1]};
    uint32_t x = ctr[0] + ks[0], y = ctr[1] + ks[1];
    for (unsigned round = 0; round < 20; round++) {
        const unsigned by = rotations[round % 8];
        x += y;
        y = (y << by | y >> (32 - by)) ^ x;
        if (round % 4 == 3) {
            const uint32_t i = round / 4 + 1;
            x += ks[i % 3];
            y += ks[(i + 1) % 3] + i;
        }
    }
    out[0] = x;
    out[1] = y;
}

#endif
