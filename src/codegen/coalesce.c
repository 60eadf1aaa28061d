/* coalesce.c - a block read column by column is read row by row, and turned in registers.
 *
 *   x0 = lanes of p[b], p[b+s], p[b+2s], ...          w0 = p[b .. b+3]       x0 = w0[0], w1[0], w2[0], w3[0]
 *   x1 = lanes of p[b+1], p[b+1+s], ...         -->   w1 = p[b+s .. b+s+3]   x1 = w0[1], w1[1], ...
 *   x2, x3: from b+2, b+3                             w2, w3                 x2, x3
 *
 * Each x_i is a VECTOR of LANEs; backends that have better than lane by lane know a transpose by that form. */
#include "codegen/pass.h"

enum { RUN_MIN = 4 };

typedef struct item {
    an_uop root; /* none: the base is a constant */
    int64_t offset;
    bool done;
} item;

static item item_of(const an_graph *g, an_uop base)
{
    item it = {.root = base};
    if (an_uop_int(g, base, &it.offset))
        it.root = AN_UOP_NONE;
    else if (an_uop_op(g, base) == AN_OP_ADD && an_uop_int(g, an_uop_src(g, base, 1), &it.offset))
        it.root = an_uop_src(g, base, 0);
    else if (an_uop_op(g, base) == AN_OP_ADD && an_uop_int(g, an_uop_src(g, base, 0), &it.offset))
        it.root = an_uop_src(g, base, 1);
    return it;
}

/* The entry beside entry i whose offset is by more, or n. */
static size_t beside(const an_graph *g, const an_strided *list, const item *items, size_t n, size_t i, int64_t by)
{
    for (size_t k = 0; k < n; k++)
        if (!items[k].done && items[k].root.id == items[i].root.id && items[k].offset == items[i].offset + by &&
            list[k].step == list[i].step && an_uop_lanes(g, list[k].load) == an_uop_lanes(g, list[i].load) &&
            an_uop_eq(an_uop_src(g, list[k].load, 0), an_uop_src(g, list[i].load, 0)))
            return k;
    return n;
}

/* Row l of the block: run neighbours from element base + l * step. */
static an_uop row(an_graph *g, const an_strided *s, uint32_t l, uint32_t run)
{
    const an_uop ptr = an_uop_src(g, s->load, 0), at = an_idx_add(g, s->base, an_index(g, (int64_t)l * s->step));
    if (an_uop_is_none(at)) return at;
    const an_uop index = an_uop_new_full(g, AN_OP_RAMP, AN_INDEX, run, &at, 1, 0, 0), src[2] = {ptr, index};
    return an_uop_is_none(index) ? index : an_uop_new_full(g, AN_OP_LOAD, an_uop_dtype(g, ptr), run, src, 2, 0, 0);
}

static an_status turn(an_graph *g, const an_strided *list, const size_t *block, uint32_t run, an_nodemap *map)
{
    const an_strided *first = &list[block[0]];
    const uint32_t lanes = an_uop_lanes(g, first->load);
    const an_dtype dtype = an_uop_dtype(g, first->load);
    an_uop rows[AN_LANES_MAX], picked[AN_LANES_MAX];
    for (uint32_t l = 0; l < lanes; l++) rows[l] = row(g, first, l, run);
    for (uint32_t c = 0; c < run; c++) {
        for (uint32_t l = 0; l < lanes; l++) {
            picked[l] = an_uop_is_none(rows[l]) ? rows[l] : an_uop_new_full(g, AN_OP_LANE, dtype, 1, &rows[l], 1, c, 0);
            if (an_uop_is_none(picked[l])) return AN_ERR_NOMEM;
        }
        const an_uop column = an_uop_new_full(g, AN_OP_VECTOR, dtype, lanes, picked, lanes, 0, 0);
        if (an_uop_is_none(column) || !an_nodemap_set(map, an_graph_ctx(g), list[block[c]].load, column)) return AN_ERR_NOMEM;
    }
    return AN_OK;
}

static an_status rebuild(an_graph *g, an_uop *sink, an_nodemap *map)
{
    an_ctx *ctx = an_graph_ctx(g);
    an_uop_vec order = {0}, scratch = {0};
    an_status st = an_toposort(g, sink, 1, &order);
    for (size_t i = 0; i < order.len && !st; i++) {
        const an_uop u = order.data[i];
        if (!an_uop_eq(an_nodemap_get(map, u), u)) continue;
        const an_uop v = an_nodemap_rebuild(map, g, u, &scratch);
        if (an_uop_is_none(v) || !an_nodemap_set(map, ctx, u, v)) st = AN_ERR_NOMEM;
    }
    if (!st) *sink = an_nodemap_get(map, *sink);
    an_vec_fini(ctx, &order);
    an_vec_fini(ctx, &scratch);
    return st;
}

an_status an_coalesce(an_graph *g, an_uop *sink, const an_strided *list, size_t n)
{
    an_ctx *ctx = an_graph_ctx(g);
    an_nodemap map = {0};
    bool any = false;
    an_status st = AN_OK;
    item *items = an_mem_alloc(ctx, n * sizeof *items);
    if (!items) return AN_ERR_NOMEM;
    for (size_t i = 0; i < n; i++) items[i] = item_of(g, list[i].base);
    for (size_t i = 0; i < n && !st; i++) {
        if (items[i].done || beside(g, list, items, n, i, -1) < n) continue; /* from the first of each row of neighbours */
        size_t at = i;
        while (at < n && !st) {
            size_t block[AN_LANES_MAX];
            const uint32_t lanes = an_uop_lanes(g, list[at].load);
            uint32_t len = 0, run = 1;
            for (size_t k = at; k < n && len < lanes; k = beside(g, list, items, n, at, (int64_t)len)) block[len++] = k;
            while (run * 2 <= len) run *= 2;
            if (run < RUN_MIN) break;
            st = turn(g, list, block, run, &map);
            any = true;
            const size_t next = beside(g, list, items, n, at, (int64_t)run);
            for (uint32_t k = 0; k < run; k++) items[block[k]].done = true;
            at = next;
        }
    }
    if (!st && any) st = rebuild(g, sink, &map);
    an_nodemap_fini(&map, ctx);
    an_mem_free(ctx, items, n * sizeof *items);
    return st;
}
