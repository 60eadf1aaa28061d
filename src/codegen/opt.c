/* opt.c - see opt.h. All but SPLIT cut a range of n into outer * amount + inner, the inner part of another kind:
 *
 *   r: LOOP 0..63   --UPCAST 4-->   r: LOOP 0..15, r': UPCAST 0..3; r is r * 4 + r' wherever it was used
 *
 * expand.c and vector.c then do away with the inner part, but for a CUT. */
#include "codegen/opt.h"

const char *an_opt_name(an_opt_kind kind)
{
    switch (kind) {
    case AN_OPT_UPCAST: return "UPCAST";
    case AN_OPT_UNROLL: return "UNROLL";
    case AN_OPT_VECTOR: return "VECTOR";
    case AN_OPT_CUT: return "CUT";
    case AN_OPT_SPLIT: return "SPLIT";
    }
    return "";
}

/* The first id after that of range which no range has: inner parts and tails nest as the range did. */
static uint32_t free_id(const an_dag *d, size_t range)
{
    uint32_t id = an_range_id(an_uop_arg(d->g, d->ranges.data[range])) + 1;
    for (size_t r = range + 1; r < d->ranges.len && an_range_id(an_uop_arg(d->g, d->ranges.data[r])) == id; r++) id++;
    return id;
}

/* A range of n elements, or index 0 where n is 1. */
static an_uop range_or_zero(an_graph *g, int64_t n, uint32_t id, an_range_kind kind)
{
    return n == 1 ? an_index(g, 0) : an_range(g, an_index(g, n), id, kind);
}

static an_range_sub sub_of(an_uop from, an_uop to, an_uop a, an_uop b)
{
    return (an_range_sub){from, to, {a, b}, an_uop_is_none(b) ? 1 : 2};
}

/* A value that varies with two VECTOR ranges would need lanes of two kinds. */
static bool meets_vector(const an_dag *d, size_t range)
{
    an_rangeset vectors = {0};
    for (size_t r = 0; r < d->ranges.len; r++)
        if (an_range_kind_of(an_uop_arg(d->g, d->ranges.data[r])) == AN_RANGE_VECTOR) an_rangeset_add(&vectors, r);
    for (size_t i = 0; i < d->order.len; i++) {
        const an_uop u = d->order.data[i];
        an_rangeset all = d->deps[i];
        if (an_uop_op(d->g, u) == AN_OP_SINK) continue;
        for (uint32_t s = 1; an_uop_op(d->g, u) == AN_OP_REDUCE && s < an_uop_nsrc(d->g, u); s++)
            an_rangeset_add(&all, an_dag_range_at(d, an_uop_src(d->g, u, s)));
        if (an_rangeset_has(&all, range) && an_rangeset_meets(&all, &vectors)) return true;
    }
    return false;
}

static an_status split_inner(an_dag *d, an_uop *sink, size_t r, int64_t n, int64_t amount, an_range_kind kind)
{
    an_graph *g = d->g;
    const an_uop range = d->ranges.data[r];
    const uint64_t arg = an_uop_arg(g, range);
    const an_uop inner = an_range(g, an_index(g, amount), free_id(d, r), kind);
    an_range_sub sub = sub_of(range, inner, inner, AN_UOP_NONE);
    if (n > amount) {
        const an_uop outer = an_range(g, an_index(g, n / amount), an_range_id(arg), an_range_kind_of(arg));
        sub = sub_of(range, an_idx_add(g, an_idx_mul(g, outer, an_index(g, amount)), inner), outer, inner);
        if (an_uop_is_none(outer)) return AN_ERR_NOMEM;
    }
    if (an_uop_is_none(inner) || an_uop_is_none(sub.to)) return AN_ERR_NOMEM;
    return an_replace_ranges(g, sink, 1, &sub, 1);
}

/* Main part and tail of everything that depends on range: two stores for one, or two REDUCEs, joined. */
static an_status split_tail(an_dag *d, an_uop *sink, size_t r, int64_t n, int64_t amount)
{
    an_graph *g = d->g;
    an_ctx *ctx = an_graph_ctx(g);
    const an_uop range = d->ranges.data[r];
    const uint64_t arg = an_uop_arg(g, range);
    const an_range_kind kind = an_range_kind_of(arg);
    const an_uop head = range_or_zero(g, amount, an_range_id(arg), kind);
    const an_uop tail = range_or_zero(g, n - amount, free_id(d, r), kind);
    const an_uop at_tail = an_idx_add(g, tail, an_index(g, amount));
    const an_range_sub subs[2] = {sub_of(range, head, head, AN_UOP_NONE), sub_of(range, at_tail, tail, AN_UOP_NONE)};
    an_uop_vec scratch = {0};
    an_nodemap map = {0};
    an_status st = AN_ERR_NOMEM;
    if (an_uop_is_none(head) || an_uop_is_none(at_tail)) goto done;
    for (size_t i = 0; i < d->order.len; i++) {
        const an_uop u = d->order.data[i];
        const an_op op = an_uop_op(g, u);
        an_uop v = an_nodemap_rebuild(&map, g, u, &scratch);
        if (an_uop_is_none(v)) goto done;
        bool binds = false;
        for (uint32_t s = 1; op == AN_OP_REDUCE && s < an_uop_nsrc(g, u); s++)
            binds = binds || an_uop_eq(an_uop_src(g, u, s), range);
        if (binds) {
            an_uop part[2] = {v, v};
            for (int k = 0; k < 2; k++) {
                st = an_replace_ranges(g, &part[k], 1, &subs[k], 1);
                if (st) goto done;
            }
            st = AN_ERR_NOMEM;
            v = an_binary(g, an_reduce_op(an_uop_arg(g, u)), part[0], part[1]);
        } else if (op == AN_OP_SINK && kind == AN_RANGE_LOOP) {
            an_uop_vec stores = {0};
            for (uint32_t s = 0; s < an_uop_nsrc(g, v); s++) {
                an_uop part[2] = {an_uop_src(g, v, s), an_uop_src(g, v, s)};
                const bool varies = an_rangeset_has(an_dag_deps(d, part[0]), r);
                for (int k = 0; k < (varies ? 2 : 1); k++)
                    if ((varies && an_replace_ranges(g, &part[k], 1, &subs[k], 1)) ||
                        !an_vec_push(ctx, &stores, part[k])) {
                        an_vec_fini(ctx, &stores);
                        goto done;
                    }
            }
            v = an_sink(g, stores.data, (uint32_t)stores.len);
            an_vec_fini(ctx, &stores);
        }
        if (an_uop_is_none(v) || !an_nodemap_set(&map, ctx, u, v)) goto done;
    }
    *sink = an_nodemap_get(&map, *sink);
    st = AN_OK;
done:
    if (st && an_ctx_status(ctx)) st = an_ctx_status(ctx);
    an_nodemap_fini(&map, ctx);
    an_vec_fini(ctx, &scratch);
    return st;
}

static const char *refusal(const an_dag *d, size_t r, an_opt opt, int64_t n)
{
    if (r == AN_RANGES_MAX) return "there is no such range";
    const an_range_kind kind = an_range_kind_of(an_uop_arg(d->g, d->ranges.data[r]));
    const bool loop = kind == AN_RANGE_LOOP, reduce = kind == AN_RANGE_REDUCE;
    if (n < 0) return "its bound is no constant";
    if (opt.amount < (opt.kind == AN_OPT_SPLIT ? 1 : 2)) return "there is nothing to cut";
    if (opt.kind == AN_OPT_UPCAST && !loop) return "only a loop over outputs can be upcast";
    if (opt.kind == AN_OPT_UNROLL && !reduce) return "only a reduction can be unrolled";
    if (!loop && !reduce) return "it is the inner part of an opt already";
    if (opt.kind == AN_OPT_SPLIT) return opt.amount < n ? NULL : "there is no tail";
    if (n == 0 || n % opt.amount) return "its bound is not divisible";
    if (opt.kind == AN_OPT_VECTOR && opt.amount > AN_LANES_MAX) return "that is more lanes than a vector may have";
    if (opt.kind == AN_OPT_VECTOR && meets_vector(d, r)) return "a value that depends on it is a vector already";
    return NULL;
}

an_status an_opt_apply(an_graph *g, an_uop *sink, an_opt opt, const char **why)
{
    an_dag d = {0};
    size_t r = 0;
    an_status st = an_dag_init(&d, g, sink, 1);
    if (st) goto done;
    while (r < d.ranges.len && an_range_id(an_uop_arg(g, d.ranges.data[r])) != opt.range) r++;
    if (r == d.ranges.len) r = AN_RANGES_MAX;
    const int64_t n = r == AN_RANGES_MAX ? -1 : an_range_bound(g, d.ranges.data[r]);
    *why = refusal(&d, r, opt, n);
    if (*why) goto done;
    switch (opt.kind) {
    case AN_OPT_UPCAST: st = split_inner(&d, sink, r, n, opt.amount, AN_RANGE_UPCAST); break;
    case AN_OPT_UNROLL: st = split_inner(&d, sink, r, n, opt.amount, AN_RANGE_UNROLL); break;
    case AN_OPT_VECTOR: st = split_inner(&d, sink, r, n, opt.amount, AN_RANGE_VECTOR); break;
    case AN_OPT_CUT: st = split_inner(&d, sink, r, n, opt.amount, an_range_kind_of(an_uop_arg(g, d.ranges.data[r]))); break;
    case AN_OPT_SPLIT: st = split_tail(&d, sink, r, n, opt.amount); break;
    }
done:
    an_dag_fini(&d);
    return st;
}
