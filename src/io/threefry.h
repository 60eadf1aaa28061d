/* threefry.h - the Threefry-2x32 counter generator on the host (Salmon et al., "Parallel random numbers: as easy as 1, 2,
 * 3", SC 2011). The tensor library computes the same function as graph. */
#ifndef AN_IO_THREEFRY_H
#define AN_IO_THREEFRY_H

#include <stdint.h>

/* 20 rounds; out may be ctr. */
void an_threefry2x32(const uint32_t key[2], const uint32_t ctr[2], uint32_t out[2]);

#endif
