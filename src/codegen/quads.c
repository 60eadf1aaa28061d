/* quads.c - four scalar loads of neighbours, the first of them at a multiple of four, become one load of four lanes: GPUs move
 * 16 bytes as fast as 4. */
#include "codegen/gpu.h"

typedef struct item {
    an_uop load, ptr, root; /* its index is root + offset; no root: a constant */
    int64_t offset;
    bool aligned, done;
} item;
typedef AN_VEC(item) item_vec;

/* By position: an index is a multiple of 2 to this. */
static uint32_t shift_at(const an_dag *d, const uint32_t *shift, size_t i)
{
    enum { ALL = 62 };
    const an_graph *g = d->g;
    const an_uop u = d->order.data[i];
    int64_t v = 0;
    if (an_uop_dtype(g, u) != AN_INDEX || an_uop_lanes(g, u) != 1) return 0;
    if (an_uop_int(g, u, &v)) return v == 0 ? ALL : (uint32_t)__builtin_ctzll((uint64_t)v);
    const an_op op = an_uop_op(g, u);
    if (op != AN_OP_ADD && op != AN_OP_MUL && op != AN_OP_SHL) return 0;
    const uint32_t a = shift[an_dag_pos(d, an_uop_src(g, u, 0))], b = shift[an_dag_pos(d, an_uop_src(g, u, 1))];
    if (op == AN_OP_ADD) return a < b ? a : b;
    if (op == AN_OP_SHL) return an_uop_int(g, an_uop_src(g, u, 1), &v) && v >= 0 && v < ALL && a + v < ALL ? a + (uint32_t)v : a;
    return a + b < ALL ? a + b : ALL;
}

static item item_of(const an_dag *d, an_uop load, const uint32_t *shift)
{
    const an_graph *g = d->g;
    const an_uop index = an_uop_src(g, load, 1);
    item it = {.load = load, .ptr = an_uop_src(g, load, 0), .root = index};
    if (an_uop_int(g, index, &it.offset))
        it.root = AN_UOP_NONE;
    else if (an_uop_op(g, index) == AN_OP_ADD && an_uop_int(g, an_uop_src(g, index, 1), &it.offset))
        it.root = an_uop_src(g, index, 0);
    else if (an_uop_op(g, index) == AN_OP_ADD && an_uop_int(g, an_uop_src(g, index, 0), &it.offset))
        it.root = an_uop_src(g, index, 1);
    it.aligned = an_uop_is_none(it.root) || shift[an_dag_pos(d, it.root)] >= 2;
    return it;
}

static bool is_written(const an_dag *d, an_uop ptr)
{
    for (size_t i = 0; i < d->order.len; i++)
        if (an_uop_op(d->g, d->order.data[i]) == AN_OP_STORE && an_uop_eq(an_uop_src(d->g, d->order.data[i], 0), ptr)) return true;
    return false;
}

/* The item c elements after items[i], or NULL. */
static item *after(item_vec *v, size_t i, int64_t c)
{
    for (size_t k = 0; k < v->len; k++)
        if (!v->data[k].done && v->data[k].root.id == v->data[i].root.id && an_uop_eq(v->data[k].ptr, v->data[i].ptr) &&
            v->data[k].offset == v->data[i].offset + c)
            return &v->data[k];
    return NULL;
}

static an_status join(an_graph *g, item_vec *v, size_t i, an_nodemap *map)
{
    item *four[4];
    for (int64_t c = 0; c < 4; c++) {
        four[c] = after(v, i, c);
        if (!four[c]) return AN_OK;
    }
    const an_dtype dtype = an_uop_dtype(g, four[0]->load);
    const an_uop base = an_uop_src(g, four[0]->load, 1);
    const an_uop src[2] = {four[0]->ptr, an_uop_new_full(g, AN_OP_RAMP, AN_INDEX, 4, &base, 1, 0, 0)};
    if (an_uop_is_none(src[1])) return AN_ERR_NOMEM;
    const an_uop wide = an_uop_new_full(g, AN_OP_LOAD, dtype, 4, src, 2, 0, 0);
    if (an_uop_is_none(wide)) return AN_ERR_NOMEM;
    for (uint32_t c = 0; c < 4; c++) {
        const an_uop lane = an_uop_new_full(g, AN_OP_LANE, dtype, 1, &wide, 1, c, 0);
        if (an_uop_is_none(lane) || !an_nodemap_set(map, an_graph_ctx(g), four[c]->load, lane)) return AN_ERR_NOMEM;
        four[c]->done = true;
    }
    return AN_OK;
}

an_status an_pass_quads(an_graph *g, an_uop *sink)
{
    an_ctx *ctx = an_graph_ctx(g);
    an_dag d = {0};
    item_vec items = {0};
    an_nodemap map = {0};
    an_uop_vec scratch = {0};
    uint32_t *shift = NULL;
    an_status st = an_dag_init(&d, g, sink, 1);
    const size_t n = d.order.len;
    if (st) goto done;
    st = AN_ERR_NOMEM;
    shift = an_mem_alloc(ctx, n * sizeof *shift);
    if (!shift) goto done;
    for (size_t i = 0; i < n; i++) {
        const an_uop u = d.order.data[i];
        shift[i] = shift_at(&d, shift, i);
        if (an_uop_op(g, u) != AN_OP_LOAD || an_uop_lanes(g, u) != 1 || an_uop_nsrc(g, u) != 2) continue;
        if (an_dtype_nbytes(an_uop_dtype(g, u)) != 4 || is_written(&d, an_uop_src(g, u, 0))) continue;
        const item it = item_of(&d, u, shift);
        if (!an_vec_push(ctx, &items, it)) goto done;
    }
    st = AN_OK;
    for (size_t i = 0; i < items.len && !st; i++)
        if (!items.data[i].done && items.data[i].aligned && items.data[i].offset % 4 == 0) st = join(g, &items, i, &map);
    for (size_t i = 0; i < n && !st; i++) {
        const an_uop u = d.order.data[i];
        if (!an_uop_eq(an_nodemap_get(&map, u), u)) { /* what it reads through may have changed, too */
            an_uop lane = an_nodemap_get(&map, u), wide = an_nodemap_rebuild(&map, g, an_uop_src(g, lane, 0), &scratch);
            if (!an_uop_is_none(wide)) lane = an_uop_with_srcs(g, lane, &wide);
            if (an_uop_is_none(wide) || an_uop_is_none(lane) || !an_nodemap_set(&map, ctx, u, lane)) st = AN_ERR_NOMEM;
            continue;
        }
        const an_uop v = an_nodemap_rebuild(&map, g, u, &scratch);
        if (an_uop_is_none(v) || !an_nodemap_set(&map, ctx, u, v)) st = AN_ERR_NOMEM;
    }
    if (!st) *sink = an_nodemap_get(&map, *sink);
done:
    an_mem_free(ctx, shift, n * sizeof *shift);
    an_vec_fini(ctx, &items);
    an_vec_fini(ctx, &scratch);
    an_nodemap_fini(&map, ctx);
    an_dag_fini(&d);
    return st;
}
