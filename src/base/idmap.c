/* idmap.c - see idmap.h. */
#include "base/idmap.h"

bool an_idmap_set(an_idmap *m, an_ctx *ctx, uint32_t id, uint32_t value)
{
    const size_t page = id >> AN_IDMAP_PAGE_BITS;
    if (page >= m->npages) {
        size_t n = m->npages ? m->npages : 16;
        while (n <= page) n *= 2;
        uint32_t **pages = an_mem_realloc(ctx, m->pages, m->npages * sizeof *pages, n * sizeof *pages);
        if (!pages) return false;
        memset(pages + m->npages, 0, (n - m->npages) * sizeof *pages);
        m->pages = pages;
        m->npages = n;
    }
    if (!m->pages[page]) {
        m->pages[page] = an_mem_zalloc(ctx, AN_IDMAP_PAGE * sizeof **m->pages);
        if (!m->pages[page]) return false;
    }
    m->pages[page][id & (AN_IDMAP_PAGE - 1)] = value;
    return true;
}

void an_idmap_fini(an_idmap *m, an_ctx *ctx)
{
    for (size_t i = 0; i < m->npages; i++) an_mem_free(ctx, m->pages[i], AN_IDMAP_PAGE * sizeof **m->pages);
    an_mem_free(ctx, m->pages, m->npages * sizeof *m->pages);
    *m = (an_idmap){0};
}
