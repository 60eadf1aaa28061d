/* dag.c - see dag.h. */
#include "codegen/dag.h"

/* Ascending by id; equal ids (not made by the scheduler) by the structural order. Few enough for insertion. */
static bool insert_range(an_dag *d, an_uop range)
{
    an_ctx *ctx = an_graph_ctx(d->g);
    if (!an_vec_push(ctx, &d->ranges, range)) return false;
    const uint32_t id = an_range_id(an_uop_arg(d->g, range));
    size_t i = d->ranges.len - 1;
    for (; i > 0; i--) {
        const an_uop before = d->ranges.data[i - 1];
        const uint32_t before_id = an_range_id(an_uop_arg(d->g, before));
        if (before_id < id || (before_id == id && an_uop_cmp(d->g, before, range) < 0)) break;
        d->ranges.data[i] = before;
    }
    d->ranges.data[i] = range;
    return true;
}

an_status an_dag_init(an_dag *d, an_graph *g, const an_uop *roots, uint32_t n)
{
    an_ctx *ctx = an_graph_ctx(g);
    *d = (an_dag){.g = g};
    an_status st = an_toposort(g, roots, n, &d->order);
    if (st) return st;
    for (size_t i = 0; i < d->order.len; i++) {
        const an_uop u = d->order.data[i];
        if (!an_idmap_set(&d->pos, ctx, u.id, (uint32_t)i + 1)) return AN_ERR_NOMEM;
        if (an_uop_op(g, u) == AN_OP_RANGE && !insert_range(d, u)) return AN_ERR_NOMEM;
    }
    if (d->ranges.len > AN_RANGES_MAX)
        return an_fail(ctx, AN_ERR_LIMIT, "a kernel over %zu ranges: at most %d are supported; realize parts of it first",
                       d->ranges.len, AN_RANGES_MAX);
    d->deps = an_mem_zalloc(ctx, d->order.len * sizeof *d->deps);
    if (!d->deps) return AN_ERR_NOMEM;
    for (size_t i = 0; i < d->order.len; i++) {
        const an_uop u = d->order.data[i];
        const uint32_t nsrc = an_uop_nsrc(g, u);
        const bool binds = an_uop_op(g, u) == AN_OP_REDUCE;
        an_rangeset *deps = &d->deps[i];
        for (uint32_t s = 0; s < nsrc; s++) an_rangeset_join(deps, an_dag_deps(d, an_uop_src(g, u, s)));
        for (uint32_t s = 1; binds && s < nsrc; s++) {
            const size_t r = an_dag_range_at(d, an_uop_src(g, u, s));
            if (r < AN_RANGES_MAX) an_rangeset_drop(deps, r);
        }
        if (an_uop_op(g, u) == AN_OP_RANGE) an_rangeset_add(deps, an_dag_range_at(d, u));
    }
    return AN_OK;
}

void an_dag_fini(an_dag *d)
{
    if (!d->g) return;
    an_ctx *ctx = an_graph_ctx(d->g);
    an_mem_free(ctx, d->deps, d->order.len * sizeof *d->deps);
    an_vec_fini(ctx, &d->order);
    an_vec_fini(ctx, &d->ranges);
    an_idmap_fini(&d->pos, ctx);
    *d = (an_dag){0};
}

size_t an_dag_range_at(const an_dag *d, an_uop range)
{
    for (size_t i = 0; i < d->ranges.len; i++)
        if (an_uop_eq(d->ranges.data[i], range)) return i;
    return AN_RANGES_MAX;
}

void an_dag_coefs(const an_dag *d, size_t range, int64_t *coef)
{
    const an_graph *g = d->g;
    for (size_t i = 0; i < d->order.len; i++) {
        const an_uop u = d->order.data[i];
        coef[i] = an_rangeset_has(&d->deps[i], range) ? AN_COEF_NONE : 0;
        if (coef[i] == 0 || an_uop_dtype(g, u) != AN_INDEX) continue;
        if (an_uop_eq(u, d->ranges.data[range])) {
            coef[i] = 1;
            continue;
        }
        const an_op op = an_uop_op(g, u);
        if (op != AN_OP_ADD && op != AN_OP_MUL) continue;
        const an_uop x = an_uop_src(g, u, 0), y = an_uop_src(g, u, 1);
        const int64_t a = coef[an_dag_pos(d, x)], b = coef[an_dag_pos(d, y)];
        if (a == AN_COEF_NONE || b == AN_COEF_NONE) continue;
        int64_t c = 0, by = 0;
        if (op == AN_OP_ADD) {
            if (!__builtin_add_overflow(a, b, &c)) coef[i] = c;
        } else if ((b == 0 && an_uop_int(g, y, &by) && !__builtin_mul_overflow(a, by, &c)) ||
                   (a == 0 && an_uop_int(g, x, &by) && !__builtin_mul_overflow(b, by, &c))) {
            coef[i] = c;
        }
    }
}

int64_t an_range_bound(const an_graph *g, an_uop range)
{
    int64_t n = 0;
    return an_uop_int(g, an_uop_src(g, range, 0), &n) ? n : -1;
}

/* --- rebuilding -------------------------------------------------------------------------------- */

an_uop an_cg_reduce(an_graph *g, an_op op, an_uop value, const an_uop *ranges, uint32_t n)
{
    enum { RANGES_MAX = 2 * AN_RANK_MAX + 4 };
    an_uop src[1 + RANGES_MAX];
    uint32_t nsrc = 1;
    if (an_uop_is_none(value)) return value;
    const uint32_t lanes = an_uop_lanes(g, value);
    const an_dtype dtype = an_uop_dtype(g, value);
    src[0] = value;
    for (uint32_t i = 0; i < n; i++) {
        if (an_uop_is_none(ranges[i])) return AN_UOP_NONE;
        if (an_uop_op(g, ranges[i]) != AN_OP_RANGE) continue;
        if (an_range_bound(g, ranges[i]) == 0) {
            const an_uop identity = an_const(g, dtype, an_reduce_identity(op, dtype));
            return lanes == 1 ? identity
                              : an_uop_new_full(g, AN_OP_BROADCAST, dtype, lanes, &identity, 1, 0, 0);
        }
        if (nsrc > RANGES_MAX) {
            an_fail(an_graph_ctx(g), AN_ERR_LIMIT, "a reduction over %u ranges: at most %d are supported", n,
                    RANGES_MAX);
            return AN_UOP_NONE;
        }
        src[nsrc++] = ranges[i];
    }
    if (nsrc == 1) return value;
    return an_uop_new_full(g, AN_OP_REDUCE, dtype, lanes, src, nsrc, op, 0);
}

an_uop an_cg_rebuild(an_graph *g, an_uop u, const an_uop *src, uint32_t nsrc)
{
    for (uint32_t i = 0; i < nsrc; i++)
        if (an_uop_is_none(src[i])) return AN_UOP_NONE;
    const an_op op = an_uop_op(g, u);
    if (op == AN_OP_REDUCE) return an_cg_reduce(g, an_reduce_op(an_uop_arg(g, u)), src[0], src + 1, nsrc - 1);
    if (an_uop_dtype(g, u) == AN_INDEX && an_uop_lanes(g, u) == 1) {
        if (op == AN_OP_ADD) return an_idx_add(g, src[0], src[1]);
        if (op == AN_OP_MUL) return an_idx_mul(g, src[0], src[1]);
    }
    return an_uop_with_srcs(g, u, src);
}

bool an_nodemap_set(an_nodemap *m, an_ctx *ctx, an_uop from, an_uop to)
{
    return an_uop_eq(from, to) || an_idmap_set(&m->ids, ctx, from.id, to.id);
}

void an_nodemap_fini(an_nodemap *m, an_ctx *ctx)
{
    an_idmap_fini(&m->ids, ctx);
}

an_uop an_nodemap_rebuild(const an_nodemap *m, an_graph *g, an_uop u, an_uop_vec *scratch)
{
    const uint32_t nsrc = an_uop_nsrc(g, u);
    bool same = true;
    scratch->len = 0;
    if (!an_vec_reserve(an_graph_ctx(g), scratch, nsrc)) return AN_UOP_NONE;
    for (uint32_t i = 0; i < nsrc; i++) {
        const an_uop s = an_uop_src(g, u, i), t = an_nodemap_get(m, s);
        same = same && an_uop_eq(s, t);
        scratch->data[scratch->len++] = t;
    }
    return same ? u : an_cg_rebuild(g, u, scratch->data, nsrc);
}

/* --- replacing ranges -------------------------------------------------------------------------- */

static const an_range_sub *find_sub(const an_range_sub *subs, size_t n, an_uop range)
{
    for (size_t i = 0; i < n; i++)
        if (an_uop_eq(subs[i].from, range)) return &subs[i];
    return NULL;
}

/* A REDUCE's sources after the substitution: its value, then the ranges that it binds from now on. */
static an_uop replace_in_reduce(an_graph *g, const an_nodemap *m, an_uop u, const an_range_sub *subs, size_t nsubs,
                                an_uop_vec *scratch)
{
    an_ctx *ctx = an_graph_ctx(g);
    scratch->len = 0;
    if (!an_vec_push(ctx, scratch, an_nodemap_get(m, an_uop_src(g, u, 0)))) return AN_UOP_NONE;
    for (uint32_t i = 1; i < an_uop_nsrc(g, u); i++) {
        const an_uop r = an_uop_src(g, u, i);
        const an_range_sub *sub = find_sub(subs, nsubs, r);
        if (!sub && !an_vec_push(ctx, scratch, an_nodemap_get(m, r))) return AN_UOP_NONE;
        for (uint32_t j = 0; sub && j < sub->nranges; j++)
            if (!an_vec_push(ctx, scratch, sub->ranges[j])) return AN_UOP_NONE;
    }
    return an_cg_rebuild(g, u, scratch->data, (uint32_t)scratch->len);
}

/* Does the REDUCE u bind every range that is to be replaced? */
static bool binds_all(const an_graph *g, an_uop u, const an_range_sub *subs, size_t nsubs)
{
    for (size_t i = 0; i < nsubs; i++) {
        bool bound = false;
        for (uint32_t s = 1; s < an_uop_nsrc(g, u); s++) bound = bound || an_uop_eq(an_uop_src(g, u, s), subs[i].from);
        if (!bound) return false;
    }
    return true;
}

static an_status replace(an_graph *g, an_uop *roots, size_t nroots, const an_range_sub *subs, size_t nsubs, bool free_only)
{
    an_ctx *ctx = an_graph_ctx(g);
    an_uop_vec order = {0}, scratch = {0};
    an_nodemap map = {0};
    an_status st = an_toposort(g, roots, (uint32_t)nroots, &order);
    if (st) goto done;
    st = AN_ERR_NOMEM;
    for (size_t i = 0; i < order.len; i++) {
        const an_uop u = order.data[i];
        const an_op op = an_uop_op(g, u);
        const an_range_sub *sub = op == AN_OP_RANGE ? find_sub(subs, nsubs, u) : NULL;
        const bool keep = free_only && op == AN_OP_REDUCE && binds_all(g, u, subs, nsubs);
        const an_uop v = keep                 ? u
                         : sub                ? sub->to
                         : op == AN_OP_REDUCE ? replace_in_reduce(g, &map, u, subs, nsubs, &scratch)
                                               : an_nodemap_rebuild(&map, g, u, &scratch);
        if (an_uop_is_none(v)) {
            if (an_ctx_status(ctx)) st = an_ctx_status(ctx);
            goto done;
        }
        if (!an_nodemap_set(&map, ctx, u, v)) goto done;
    }
    for (size_t i = 0; i < nroots; i++) roots[i] = an_nodemap_get(&map, roots[i]);
    st = AN_OK;
done:
    an_nodemap_fini(&map, ctx);
    an_vec_fini(ctx, &order);
    an_vec_fini(ctx, &scratch);
    return st;
}

an_status an_replace_ranges(an_graph *g, an_uop *roots, size_t nroots, const an_range_sub *subs, size_t nsubs)
{
    return replace(g, roots, nroots, subs, nsubs, false);
}

an_status an_replace_free_ranges(an_graph *g, an_uop *roots, size_t nroots, const an_range_sub *subs, size_t nsubs)
{
    return replace(g, roots, nroots, subs, nsubs, true);
}
