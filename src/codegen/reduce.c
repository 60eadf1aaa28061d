/* reduce.c - reductions: prepared before opts, lowered to accumulators after the loop tree is known. */
#include "codegen/loops.h"
#include "codegen/pass.h"

/* --- before opts ------------------------------------------------------------------------------- */

/* Narrow floats are summed in f32: each step would lose bits else, and 2049 f16 ones would sum to 2048. Max and min
 * lose none. */
static bool is_widened(an_op op, an_dtype dtype)
{
    return an_dtype_kind_of(dtype) == AN_KIND_FLOAT && an_dtype_nbytes(dtype) < 4 && (op == AN_OP_ADD || op == AN_OP_MUL);
}

/* Is t one of the terms of a sum of floats and itself a sum, with a product in it? Taken in by itself, that needs no addition of its own. */
static bool holds_a_product(const an_graph *g, an_op op, an_uop t)
{
    if (op != AN_OP_ADD || an_uop_op(g, t) != AN_OP_ADD || an_dtype_kind_of(an_uop_dtype(g, t)) != AN_KIND_FLOAT) return false;
    return an_uop_op(g, an_uop_src(g, t, 0)) == AN_OP_MUL || an_uop_op(g, an_uop_src(g, t, 1)) == AN_OP_MUL;
}

/* A term of a widened sum. A product is taken before it is rounded, as MULACC takes it: exact in f32, and two f16
 * that multiply to more than 65504 are no infinity. */
static an_uop widen_term(an_graph *g, an_uop t)
{
    if (an_uop_op(g, t) != AN_OP_MUL) return an_cast_to(g, AN_F32, t);
    const an_uop a = an_uop_src(g, t, 0), b = an_uop_src(g, t, 1);
    return an_binary(g, AN_OP_MUL, an_cast_to(g, AN_F32, a), an_cast_to(g, AN_F32, b));
}

static an_uop widen_value(an_graph *g, an_op op, an_uop value)
{
    if (op != AN_OP_ADD) return an_cast_to(g, AN_F32, value);
    if (!holds_a_product(g, op, value)) return widen_term(g, value);
    return an_binary(g, AN_OP_ADD, widen_term(g, an_uop_src(g, value, 0)), widen_term(g, an_uop_src(g, value, 1)));
}

/* The sink without the stores that no element of an empty range runs: rules may take an index over none to be 0. */
static an_uop drop_empty_stores(const an_dag *d, const an_nodemap *map, an_uop sink, an_uop_vec *stores)
{
    an_graph *g = d->g;
    an_rangeset empty = {0};
    for (size_t r = 0; r < d->ranges.len; r++)
        if (an_range_bound(g, d->ranges.data[r]) == 0) an_rangeset_add(&empty, r);
    stores->len = 0;
    for (uint32_t i = 0; i < an_uop_nsrc(g, sink); i++) {
        const an_uop store = an_uop_src(g, sink, i);
        if (an_rangeset_meets(an_dag_deps(d, store), &empty)) continue;
        if (!an_vec_push(an_graph_ctx(g), stores, an_nodemap_get(map, store))) return AN_UOP_NONE;
    }
    return an_sink(g, stores->data, (uint32_t)stores->len);
}

an_status an_pass_prepare(an_graph *g, an_uop *sink)
{
    an_ctx *ctx = an_graph_ctx(g);
    an_dag d = {0};
    an_uop_vec scratch = {0};
    an_nodemap map = {0};
    an_status st = an_dag_init(&d, g, sink, 1);
    if (st) goto done;
    for (size_t i = 0; i < d.order.len; i++) {
        const an_uop u = d.order.data[i];
        an_uop v = an_nodemap_rebuild(&map, g, u, &scratch);
        if (an_uop_is_none(v)) goto fail;
        if (an_uop_op(g, u) == AN_OP_SINK) {
            v = drop_empty_stores(&d, &map, u, &scratch);
        } else if (an_uop_op(g, u) == AN_OP_RANGE) { /* of u: a sum may have folded to a range already done */
            const uint64_t arg = an_uop_arg(g, v);
            v = an_range_bound(g, v) == 1 ? an_index(g, 0)
                                          : an_range(g, an_uop_src(g, v, 0), (an_range_id(arg) + 1) * AN_RANGE_ID_STEP,
                                                     an_range_kind_of(arg));
        } else if (an_uop_op(g, u) == AN_OP_REDUCE && an_uop_op(g, v) == AN_OP_REDUCE) {
            const an_op op = an_reduce_op(an_uop_arg(g, v));
            const an_dtype dtype = an_uop_dtype(g, v);
            scratch.len = 0;
            for (uint32_t s = 0; s < an_uop_nsrc(g, v); s++)
                if (!an_vec_push(ctx, &scratch, an_uop_src(g, v, s))) goto fail;
            if (is_widened(op, dtype)) {
                const an_uop wide = widen_value(g, op, scratch.data[0]);
                v = an_cast_to(g, dtype, an_cg_reduce(g, op, wide, scratch.data + 1, (uint32_t)scratch.len - 1));
            } else { /* again: its ranges may be gone or empty */
                v = an_cg_reduce(g, op, scratch.data[0], scratch.data + 1, (uint32_t)scratch.len - 1);
            }
        }
        if (an_uop_is_none(v) || !an_nodemap_set(&map, ctx, u, v)) goto fail;
    }
    *sink = an_nodemap_get(&map, *sink);
    goto done;
fail:
    st = an_cg_failed(g);
done:
    an_nodemap_fini(&map, ctx);
    an_dag_fini(&d);
    an_vec_fini(ctx, &scratch);
    return st;
}

/* --- after the loop tree ----------------------------------------------------------------------- */

/* acc with value taken in. A product goes in by MULACC: one rounding, one instruction. The list says so, so every
 * backend computes the same bits. A sum that unrolling made, or one of products, is taken in term by term. */
static an_uop take_in(an_graph *g, an_op op, an_uop acc, an_uop value, an_uop_vec *terms)
{
    an_ctx *ctx = an_graph_ctx(g);
    terms->len = 0;
    if (!an_vec_push(ctx, terms, value)) return AN_UOP_NONE;
    while (terms->len) {
        const an_uop t = terms->data[--terms->len];
        if (an_uop_op(g, t) == op && (an_uop_tag(g, t) == AN_TAG_UNROLLED || holds_a_product(g, op, t))) {
            if (!an_vec_reserve(ctx, terms, 2)) return AN_UOP_NONE;
            terms->data[terms->len++] = an_uop_src(g, t, 1);
            terms->data[terms->len++] = an_uop_src(g, t, 0);
        } else if (op == AN_OP_ADD && an_uop_op(g, t) == AN_OP_MUL &&
                   an_dtype_kind_of(an_uop_dtype(g, t)) == AN_KIND_FLOAT) {
            const an_uop src[3] = {an_uop_src(g, t, 0), an_uop_src(g, t, 1), acc};
            acc = an_uop_new_full(g, AN_OP_MULACC, an_uop_dtype(g, t), an_uop_lanes(g, t), src, 3, 0, 0);
        } else {
            acc = an_binary(g, op, acc, t);
        }
        if (an_uop_is_none(acc)) return acc;
    }
    return acc;
}

/* init: what to begin with, or none. */
static an_uop lower_one(an_graph *g, const an_loops *loops, an_uop reduce, an_uop init, an_uop_vec *sets, an_acc_places *places,
                        an_uop_vec *terms)
{
    an_ctx *ctx = an_graph_ctx(g);
    const an_op op = an_reduce_op(an_uop_arg(g, reduce));
    const an_dtype dtype = an_uop_dtype(g, reduce);
    const uint32_t lanes = an_uop_lanes(g, reduce), n = an_uop_nsrc(g, reduce) - 1;
    uint32_t inner = 0, outer = UINT32_MAX;
    for (uint32_t i = 1; i <= n; i++) {
        const uint32_t at = an_idmap_get(&loops->at, an_uop_src(g, reduce, i).id);
        if (inner == 0 || loops->list.data[at].depth > loops->list.data[inner].depth) inner = at;
        if (outer == UINT32_MAX || loops->list.data[at].depth < loops->list.data[outer].depth) outer = at;
    }
    if (op == AN_OP_BARRIER) { /* a tile (gpu.c): the store is to be run, and the pointer is good after the loop */
        const an_uop fill = an_uop_src(g, reduce, 0), range = loops->list.data[outer].range;
        const an_uop end = an_uop_new(g, AN_OP_END, AN_DTYPE_NONE, &range, 1, 0);
        if (an_uop_is_none(end) || !an_vec_push(ctx, sets, fill)) return AN_UOP_NONE;
        return an_uop_new(g, AN_OP_LOCAL, dtype, &end, 1, an_uop_arg(g, an_uop_src(g, fill, 0)));
    }
    if (an_uop_is_none(init)) {
        init = an_const(g, dtype, an_reduce_identity(op, dtype));
        if (lanes > 1) init = an_uop_new_full(g, AN_OP_BROADCAST, dtype, lanes, &init, 1, 0, 0);
    }
    const an_uop acc = an_acc(g, init);
    if (an_uop_is_none(acc)) return acc;
    const an_uop set_src[2] = {acc, take_in(g, op, acc, an_uop_src(g, reduce, 0), terms)};
    const an_uop set = an_uop_new_full(g, AN_OP_ACC_SET, dtype, lanes, set_src, 2, 0, 0);
    const an_uop range = loops->list.data[outer].range;
    const an_uop get_src[2] = {acc, an_uop_new(g, AN_OP_END, AN_DTYPE_NONE, &range, 1, 0)};
    const an_acc_place place = {acc, loops->list.data[outer].parent, inner};
    if (an_uop_is_none(set) || !an_vec_push(ctx, sets, set) || !an_vec_push(ctx, places, place)) return AN_UOP_NONE;
    return an_uop_new_full(g, AN_OP_ACC_GET, dtype, lanes, get_src, 2, 0, 0);
}

/* Is x known before the loops of a REDUCE: does it vary with none but loops around them, and hold no reduction? */
static an_status is_known_before(an_graph *g, const an_loops *loops, an_uop x, an_uop reduce, bool *known)
{
    an_uop_vec below = {0};
    an_status st = an_toposort(g, &x, 1, &below);
    *known = !st;
    for (uint32_t i = 1; i < an_uop_nsrc(g, reduce); i++) {
        const uint32_t around = loops->list.data[an_idmap_get(&loops->at, an_uop_src(g, reduce, i).id)].parent;
        for (size_t k = 0; k < below.len && *known; k++) {
            const uint32_t at = an_uop_op(g, below.data[k]) == AN_OP_RANGE ? an_idmap_get(&loops->at, below.data[k].id) : 0;
            *known = an_uop_op(g, below.data[k]) != AN_OP_REDUCE && an_loops_up(loops, around, loops->list.data[at].depth) == at;
        }
    }
    an_vec_fini(an_graph_ctx(g), &below);
    return st;
}

/* Sums that begin with what they are added to: by a REDUCE's id, that value; none of one that is used elsewhere, too. */
static an_status find_carried(an_graph *g, const an_loops *loops, const an_uop_vec *order, an_nodemap *begins)
{
    an_ctx *ctx = an_graph_ctx(g);
    an_idmap uses = {0};
    an_status st = AN_OK;
    for (size_t i = 0; i < order->len && !st; i++)
        for (uint32_t s = 0; s < an_uop_nsrc(g, order->data[i]) && !st; s++) {
            const an_uop x = an_uop_src(g, order->data[i], s);
            if (an_uop_op(g, x) == AN_OP_REDUCE && !an_idmap_set(&uses, ctx, x.id, an_idmap_get(&uses, x.id) + 1)) st = AN_ERR_NOMEM;
        }
    for (size_t i = 0; i < order->len && !st; i++) {
        const an_uop u = order->data[i];
        if (an_uop_op(g, u) != AN_OP_ADD || an_uop_tag(g, u) != AN_TAG_CARRIED) continue;
        const an_uop x = an_uop_src(g, u, 0), reduce = an_uop_src(g, u, 1);
        bool known = false;
        if (an_uop_op(g, reduce) != AN_OP_REDUCE || an_idmap_get(&uses, reduce.id) != 1) continue;
        st = is_known_before(g, loops, x, reduce, &known);
        if (!st && known && !an_nodemap_set(begins, ctx, reduce, x)) st = AN_ERR_NOMEM;
    }
    an_idmap_fini(&uses, ctx);
    return st;
}

an_status an_reduce_lower(an_graph *g, an_uop *sink, const an_loops *loops, an_uop_vec *sets, an_acc_places *places)
{
    an_ctx *ctx = an_graph_ctx(g);
    an_uop_vec order = {0}, scratch = {0};
    an_nodemap map = {0}, begins = {0};
    an_status st = an_toposort(g, sink, 1, &order);
    if (!st) st = find_carried(g, loops, &order, &begins);
    for (size_t i = 0; i < order.len && !st; i++) {
        const an_uop u = order.data[i];
        const bool carried = an_uop_op(g, u) == AN_OP_ADD && an_uop_tag(g, u) == AN_TAG_CARRIED && !an_uop_eq(an_nodemap_get(&begins, an_uop_src(g, u, 1)), an_uop_src(g, u, 1));
        an_uop v = carried ? an_nodemap_get(&map, an_uop_src(g, u, 1)) : an_nodemap_rebuild(&map, g, u, &scratch);
        if (!an_uop_is_none(v) && an_uop_op(g, u) == AN_OP_REDUCE) {
            const an_uop init = an_nodemap_get(&begins, u);
            v = lower_one(g, loops, v, an_uop_eq(init, u) ? AN_UOP_NONE : init, sets, places, &scratch);
        }
        if (an_uop_is_none(v) || !an_nodemap_set(&map, ctx, u, v)) st = an_cg_failed(g);
    }
    if (!st) *sink = an_nodemap_get(&map, *sink);
    an_nodemap_fini(&map, ctx);
    an_nodemap_fini(&begins, ctx);
    an_vec_fini(ctx, &order);
    an_vec_fini(ctx, &scratch);
    return st;
}
