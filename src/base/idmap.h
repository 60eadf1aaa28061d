/* idmap.h - uint32 values by node id, 0 where none was set: a paged table, so its cost follows the ids used, not the
 * length of the graph. A zeroed struct is empty. */
#ifndef AN_BASE_IDMAP_H
#define AN_BASE_IDMAP_H

#include "base/base.h"

enum { AN_IDMAP_PAGE_BITS = 10, AN_IDMAP_PAGE = 1 << AN_IDMAP_PAGE_BITS };

typedef struct an_idmap {
    uint32_t **pages;
    size_t npages;
} an_idmap;

static inline uint32_t an_idmap_get(const an_idmap *m, uint32_t id)
{
    const size_t page = id >> AN_IDMAP_PAGE_BITS;
    if (page >= m->npages || !m->pages[page]) return 0;
    return m->pages[page][id & (AN_IDMAP_PAGE - 1)];
}

/* False when memory is out; the context has the sentence. */
bool an_idmap_set(an_idmap *m, an_ctx *ctx, uint32_t id, uint32_t value);
void an_idmap_fini(an_idmap *m, an_ctx *ctx);

#endif
