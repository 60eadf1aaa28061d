/* pairmap.c - an open-addressing table with pairs as keys. */
#include "base/pairmap.h"

static size_t slot_of(const an_pairmap *m, uint32_t a, uint32_t b)
{
    size_t i = an_mix64(a, b) & (m->cap - 1);
    while (m->entries[i].value && (m->entries[i].a != a || m->entries[i].b != b)) i = (i + 1) & (m->cap - 1);
    return i;
}

uint32_t an_pairmap_get(const an_pairmap *m, uint32_t a, uint32_t b)
{
    return m->cap ? m->entries[slot_of(m, a, b)].value : 0;
}

bool an_pairmap_set(an_pairmap *m, an_ctx *ctx, uint32_t a, uint32_t b, uint32_t value)
{
    if ((m->len + 1) * 4 > m->cap * 3) {
        an_pairmap grown = {.cap = m->cap ? m->cap * 2 : 64};
        grown.entries = an_mem_zalloc(ctx, grown.cap * sizeof *grown.entries);
        if (!grown.entries) return false;
        for (size_t i = 0; i < m->cap; i++)
            if (m->entries[i].value) grown.entries[slot_of(&grown, m->entries[i].a, m->entries[i].b)] = m->entries[i];
        grown.len = m->len;
        an_pairmap_fini(m, ctx);
        *m = grown;
    }
    const size_t i = slot_of(m, a, b);
    if (!m->entries[i].value) m->len++;
    m->entries[i] = (an_pairmap_entry){a, b, value};
    return true;
}

void an_pairmap_clear(an_pairmap *m)
{
    if (m->len) memset(m->entries, 0, m->cap * sizeof *m->entries);
    m->len = 0;
}

void an_pairmap_fini(an_pairmap *m, an_ctx *ctx)
{
    an_mem_free(ctx, m->entries, m->cap * sizeof *m->entries);
    *m = (an_pairmap){0};
}
