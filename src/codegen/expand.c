/* expand.c - UNROLL and UPCAST ranges become copies.
 *
 * A range of n elements is replaced by the constants 0..n-1, in n copies of what depends on it: of the value inside a
 * REDUCE for an UNROLL range, of a store for an UPCAST range. What does not depend on it is one node in all copies, and
 * copies of a REDUCE keep its ranges, so they run in one loop: a 4x4 tile of a matrix product is 16 stores, 16
 * accumulators in one loop, and 8 loads. */
#include "codegen/dag.h"
#include "codegen/pass.h"

enum { EXPAND_RANGES_MAX = 16, COPIES_MAX = 4096 };

/* The ranges to be written out, as counters: the last one turns fastest. */
typedef struct copies {
    an_range_sub subs[EXPAND_RANGES_MAX];
    int64_t bounds[EXPAND_RANGES_MAX], at[EXPAND_RANGES_MAX];
    size_t n;
    int64_t total;
} copies;

static an_status copies_add(an_graph *g, copies *c, an_uop range)
{
    const int64_t bound = an_range_bound(g, range);
    if (bound < 1 || c->n == EXPAND_RANGES_MAX || c->total > COPIES_MAX / bound)
        return an_fail(an_graph_ctx(g), AN_ERR_INTERNAL, "codegen: range %u cannot be written out as copies",
                       an_range_id(an_uop_arg(g, range)));
    c->subs[c->n].from = range;
    c->bounds[c->n] = bound;
    c->at[c->n++] = 0;
    c->total *= bound;
    return AN_OK;
}

/* The next copy of u. */
static an_uop copies_next(an_graph *g, copies *c, an_uop u)
{
    for (size_t i = 0; i < c->n; i++) {
        c->subs[i].to = an_index(g, c->at[i]);
        if (an_uop_is_none(c->subs[i].to)) return AN_UOP_NONE;
    }
    for (size_t i = c->n; i > 0; i--) {
        if (++c->at[i - 1] < c->bounds[i - 1]) break;
        c->at[i - 1] = 0;
    }
    return an_replace_ranges(g, &u, 1, c->subs, c->n) ? AN_UOP_NONE : u;
}

static bool has_kind(const an_graph *g, an_uop range, an_range_kind kind)
{
    return an_uop_op(g, range) == AN_OP_RANGE && an_range_kind_of(an_uop_arg(g, range)) == kind;
}

/* A REDUCE with its UNROLL ranges written out inside it. */
static an_status unroll(an_graph *g, an_uop *reduce)
{
    an_uop rest[2 * AN_RANK_MAX + 4];
    uint32_t nrest = 0;
    copies c = {.total = 1};
    for (uint32_t i = 1; i < an_uop_nsrc(g, *reduce); i++) {
        const an_uop r = an_uop_src(g, *reduce, i);
        if (!has_kind(g, r, AN_RANGE_UNROLL)) {
            rest[nrest++] = r;
            continue;
        }
        const an_status st = copies_add(g, &c, r);
        if (st) return st;
    }
    if (c.n == 0) return AN_OK;
    const an_op op = an_reduce_op(an_uop_arg(g, *reduce));
    const an_uop value = an_uop_src(g, *reduce, 0);
    an_uop all = copies_next(g, &c, value);
    for (int64_t i = 1; i < c.total; i++) {
        const an_uop src[2] = {all, copies_next(g, &c, value)};
        if (an_uop_is_none(all)) break;
        all = an_uop_new_full(g, op, an_uop_dtype(g, value), 1, src, 2, 0, nrest ? AN_TAG_UNROLLED : 0);
    }
    all = an_cg_reduce(g, op, all, rest, nrest);
    if (an_uop_is_none(all)) return an_cg_failed(g);
    *reduce = all;
    return AN_OK;
}

static an_status unroll_all(an_graph *g, an_uop *sink)
{
    an_ctx *ctx = an_graph_ctx(g);
    an_uop_vec order = {0}, scratch = {0};
    an_nodemap map = {0};
    an_status st = an_toposort(g, sink, 1, &order);
    for (size_t i = 0; i < order.len && !st; i++) {
        an_uop v = an_nodemap_rebuild(&map, g, order.data[i], &scratch);
        if (an_uop_is_none(v)) {
            st = an_cg_failed(g);
            break;
        }
        if (an_uop_op(g, order.data[i]) == AN_OP_REDUCE && an_uop_op(g, v) == AN_OP_REDUCE) st = unroll(g, &v);
        if (!st && !an_nodemap_set(&map, ctx, order.data[i], v)) st = AN_ERR_NOMEM;
    }
    if (!st) *sink = an_nodemap_get(&map, *sink);
    an_nodemap_fini(&map, ctx);
    an_vec_fini(ctx, &order);
    an_vec_fini(ctx, &scratch);
    return st;
}

/* The UPCAST ranges that a store varies with. */
static an_status copies_of_store(an_graph *g, const an_dag *d, an_uop store, copies *c)
{
    const an_rangeset *deps = an_dag_deps(d, store);
    *c = (copies){.total = 1};
    an_status st = AN_OK;
    for (size_t r = 0; r < d->ranges.len && !st; r++)
        if (an_rangeset_has(deps, r) && has_kind(g, d->ranges.data[r], AN_RANGE_UPCAST)) st = copies_add(g, c, d->ranges.data[r]);
    return st;
}

/* Copies of stores in the same loops: the first of each, then the second of each. So what they share is used at once, and need not be kept
 * while other copies are computed. */
static an_status upcast_all(an_graph *g, an_uop *sink)
{
    an_ctx *ctx = an_graph_ctx(g);
    an_dag d = {0};
    an_uop_vec stores = {0};
    AN_VEC(copies) group = {0};
    an_uop_vec alike = {0};
    an_status st = an_dag_init(&d, g, sink, 1);
    const uint32_t n = an_uop_nsrc(g, *sink);
    for (uint32_t s = 0; !st && s < n; s++) {
        const an_uop store = an_uop_src(g, *sink, s);
        group.len = alike.len = 0;
        for (uint32_t k = 0; k < n && !st; k++) {
            const an_uop other = an_uop_src(g, *sink, k);
            copies c;
            if (!an_rangeset_eq(an_dag_deps(&d, other), an_dag_deps(&d, store))) continue;
            if (k < s) break; /* went with that one */
            st = copies_of_store(g, &d, other, &c);
            if (!st && (!an_vec_push(ctx, &group, c) || !an_vec_push(ctx, &alike, other))) st = AN_ERR_NOMEM;
        }
        for (int64_t i = 0; !st && group.len && i < group.data[0].total; i++)
            for (size_t k = 0; k < group.len && !st; k++) {
                const an_uop copy = copies_next(g, &group.data[k], alike.data[k]);
                if (an_uop_is_none(copy) || !an_vec_push(ctx, &stores, copy)) st = an_cg_failed(g);
            }
    }
    if (!st) {
        const an_uop all = an_sink(g, stores.data, (uint32_t)stores.len);
        if (an_uop_is_none(all))
            st = an_cg_failed(g);
        else
            *sink = all;
    }
    an_dag_fini(&d);
    an_vec_fini(ctx, &stores);
    an_vec_fini(ctx, &group);
    an_vec_fini(ctx, &alike);
    return st;
}

an_status an_pass_expand(an_graph *g, an_uop *sink)
{
    an_uop now = *sink;
    an_status st = unroll_all(g, &now);
    if (!st) st = upcast_all(g, &now);
    if (!st) *sink = now;
    return st;
}
