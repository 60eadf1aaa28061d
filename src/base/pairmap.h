/* pairmap.h - uint32 values by a pair of uint32 keys; 0 where none was set. A zeroed struct is empty. */
#ifndef AN_BASE_PAIRMAP_H
#define AN_BASE_PAIRMAP_H

#include "base/base.h"

typedef struct an_pairmap_entry {
    uint32_t a, b, value;
} an_pairmap_entry;

typedef struct an_pairmap {
    an_pairmap_entry *entries; /* open addressing; value 0 is an empty slot */
    size_t len, cap;
} an_pairmap;

uint32_t an_pairmap_get(const an_pairmap *m, uint32_t a, uint32_t b);
/* value is not 0. False when memory is out; the context has the sentence. */
bool an_pairmap_set(an_pairmap *m, an_ctx *ctx, uint32_t a, uint32_t b, uint32_t value);
void an_pairmap_clear(an_pairmap *m); /* keeps its memory */
void an_pairmap_fini(an_pairmap *m, an_ctx *ctx);

#endif
