/* coalesce.c - a block read column by column is read row by row, and turned in registers.
 *
 *   x0 = lanes of p[b], p[b+s], p[b+2s], ...          w0 = p[b .. b+3]       x0 = w0[0], w1[0], w2[0], w3[0]
 *   x1 = lanes of p[b+1], p[b+1+s], ...         -->   w1 = p[b+s .. b+s+3]   x1 = w0[1], w1[1], ...
 *   x2, x3: from b+2, b+3                             w2, w3                 x2, x3
 *
 * What is read in steps of a few elements, like windows beside one another, is read whole, and dealt out:
 *
 *   x0 = lanes of p[b], p[b+2], ...         -->   w0 = p[b .. b+n-1]         x0 = w0[0], w0[2], ..., w1[0], w1[2], ...
 *   x1 = lanes of p[b+1], p[b+3], ...             w1 = p[b+n .. b+2n-1]      x1 = w0[1], w0[3], ..., w1[1], w1[3], ...
 *
 * Each x_i is a VECTOR of LANEs; backends that have better than lane by lane know a transpose, and what is of few vectors, by that form. */
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

/* The load of lanes elements from base + by. */
static an_uop neighbours(an_graph *g, const an_strided *s, int64_t by, uint32_t lanes)
{
    const an_strided one = {s->load, s->base, by};
    return row(g, &one, 1, lanes);
}

/* The entries at[o] of the list of len (len: there is none), o elements from the first, become lanes of whole vectors. The last of these ends
 * with the last element that is read, so nothing outside is. */
static an_status deal(an_graph *g, const an_strided *list, const size_t *at, size_t len, an_nodemap *map)
{
    const an_strided *first = &list[at[0]];
    const uint32_t lanes = an_uop_lanes(g, first->load);
    const an_dtype dtype = an_uop_dtype(g, first->load);
    const int64_t n = lanes, step = first->step;
    int64_t most = 0, starts[AN_STRIDE_MAX];
    an_uop whole[AN_STRIDE_MAX], picked[AN_LANES_MAX];
    for (int64_t o = 0; o < step; o++)
        if (at[o] < len) most = o;
    for (int64_t k = 0; k < step; k++) {
        starts[k] = k + 1 < step ? k * n : step * (n - 1) + most + 1 - n;
        whole[k] = neighbours(g, first, starts[k], lanes);
        if (an_uop_is_none(whole[k])) return AN_ERR_NOMEM;
    }
    for (int64_t o = 0; o <= most; o++) {
        if (at[o] == len) continue;
        for (int64_t l = 0; l < n; l++) {
            const int64_t e = o + l * step, k = e / n < step - 1 ? e / n : step - 1;
            picked[l] = an_uop_new_full(g, AN_OP_LANE, dtype, 1, &whole[k], 1, (uint64_t)(e - starts[k]), 0);
            if (an_uop_is_none(picked[l])) return AN_ERR_NOMEM;
        }
        const an_uop dealt = an_uop_new_full(g, AN_OP_VECTOR, dtype, lanes, picked, lanes, 0, 0);
        if (an_uop_is_none(dealt) || !an_nodemap_set(map, an_graph_ctx(g), list[at[o]].load, dealt)) return AN_ERR_NOMEM;
    }
    return AN_OK;
}

/* The entry before entry i whose offset is less than a step away, or n. */
static size_t before(const an_graph *g, const an_strided *list, const item *items, size_t n, size_t i)
{
    size_t k = n;
    for (int64_t o = 1; o < list[i].step && k == n; o++) k = beside(g, list, items, n, i, -o);
    return k;
}

static an_status deal_all(an_graph *g, const an_strided *list, item *items, size_t n, an_nodemap *map, bool *any)
{
    an_status st = AN_OK;
    for (size_t i = 0; i < n && !st; i++) {
        if (list[i].step < 2 || list[i].step > AN_STRIDE_MAX || an_uop_lanes(g, list[i].load) < list[i].step) continue;
        while (!items[i].done && !st) { /* from the first of those less than a step apart */
            size_t at[AN_STRIDE_MAX] = {i};
            for (size_t k = i; k < n; k = before(g, list, items, n, k)) at[0] = k;
            for (int64_t o = 1; o < list[i].step; o++) at[o] = beside(g, list, items, n, at[0], o);
            st = deal(g, list, at, n, map);
            for (int64_t o = 0; o < list[i].step; o++)
                if (at[o] < n) items[at[o]].done = true;
            *any = true;
        }
    }
    return st;
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
    if (!st) st = deal_all(g, list, items, n, &map, &any);
    if (!st && any) st = rebuild(g, sink, &map);
    an_nodemap_fini(&map, ctx);
    an_mem_free(ctx, items, n * sizeof *items);
    return st;
}
