/* carry.c - CARRY: a sum in passes over all elements, what it is so far carried in the output.
 *
 *   for i                                              for kb
 *     out[i] = f(sum over k of x[i, k])  --CARRY k-->    for i
 *                                                          s = kb > 0 ? out[i] : 0, then, one by one, + x[i, kb * 256 + k]
 *                                                          out[i] = kb is last ? f(s) : s
 *
 * so that terms are added in the order of the plain sum, and what a pass reads again and again stays in a cache, however long the sum is. The loop over passes is an output loop like others,
 * for ORDER to move, but stores do not vary their place with it: it must run in order. */
#include "codegen/opt.h"
#include "codegen/pass.h"

#include "rewrite/rewrite.h"

/* What is carried: the one reduction over the range, in the one store. */
typedef struct carried {
    an_uop reduce, store;
} carried;

static bool binds(const an_graph *g, an_uop u, an_uop range)
{
    for (uint32_t s = 1; an_uop_op(g, u) == AN_OP_REDUCE && s < an_uop_nsrc(g, u); s++)
        if (an_uop_eq(an_uop_src(g, u, s), range)) return true;
    return false;
}

/* Is some other reduction computed from that of position i? */
static bool is_reduced_again(const an_dag *d, size_t i, bool *above)
{
    memset(above, 0, d->order.len * sizeof *above);
    above[i] = true;
    for (size_t k = i + 1; k < d->order.len; k++) {
        for (uint32_t s = 0; s < an_uop_nsrc(d->g, d->order.data[k]); s++)
            above[k] = above[k] || above[an_dag_pos(d, an_uop_src(d->g, d->order.data[k], s))];
        if (above[k] && an_uop_op(d->g, d->order.data[k]) == AN_OP_REDUCE) return true;
    }
    return false;
}

/* Does the place of the store tell apart all that u varies with? */
static bool has_place_of_its_own(const an_dag *d, an_uop store, an_uop u)
{
    const an_rangeset *deps = an_dag_deps(d, u), *place = an_dag_deps(d, an_uop_src(d->g, store, 1));
    for (size_t r = 0; r < d->ranges.len; r++)
        if (an_rangeset_has(deps, r) && !an_rangeset_has(place, r)) return false;
    return true;
}

static const char *find(const an_dag *d, an_uop sink, size_t r, bool *above, carried *c)
{
    const an_graph *g = d->g;
    size_t at = 0, nreduces = 0;
    for (size_t i = 0; i < d->order.len; i++) {
        if (!binds(g, d->order.data[i], d->ranges.data[r])) continue;
        nreduces++;
        at = i;
    }
    c->reduce = d->order.data[at];
    c->store = an_uop_src(g, sink, 0);
    const an_uop ptr = an_uop_src(g, c->store, 0), value = an_uop_src(g, c->store, 2);
    if (nreduces != 1 || an_reduce_op(an_uop_arg(g, c->reduce)) != AN_OP_ADD || is_reduced_again(d, at, above)) return "it is not one sum that binds it";
    if (an_uop_nsrc(g, sink) != 1 || an_uop_nsrc(g, c->store) != 3) return "there is not one store, of every element";
    if (an_uop_dtype(g, ptr) != an_uop_dtype(g, c->reduce) || an_uop_dtype(g, value) != an_uop_dtype(g, c->reduce))
        return "the output is of another dtype than the sum";
    for (size_t i = 0; i < d->order.len; i++)
        if (an_uop_op(g, d->order.data[i]) == AN_OP_LOAD && an_uop_eq(an_uop_src(g, d->order.data[i], 0), ptr)) return "the kernel reads what it writes";
    return has_place_of_its_own(d, c->store, c->reduce) ? NULL : "the output has no place for each of the sums";
}

static an_status carry(an_dag *d, an_uop *sink, const carried *c, an_uop outer, an_uop inner, an_uop range, int64_t passes, int64_t amount)
{
    an_graph *g = d->g;
    const an_range_sub sub = {range, an_idx_add(g, an_idx_mul(g, outer, an_index(g, amount)), inner), {inner}, 1};
    an_uop now[2] = {c->reduce, an_uop_src(g, c->store, 2)};
    if (an_uop_is_none(outer) || an_uop_is_none(inner) || an_uop_is_none(sub.to)) return AN_ERR_NOMEM;
    const bool plain = an_uop_eq(now[0], now[1]);
    const an_status st = an_replace_ranges(g, now, 2, &sub, 1);
    if (st) return st;
    const an_uop ptr = an_uop_src(g, c->store, 0), index = an_uop_src(g, c->store, 1);
    const an_uop before = an_load(g, ptr, index, an_binary(g, AN_OP_CMPLT, an_index(g, 0), outer));
    const an_uop sum = an_uop_new_full(g, AN_OP_ADD, an_uop_dtype(g, now[0]), 1, (const an_uop[]){before, now[0]}, 2, 0, AN_TAG_CARRIED);
    an_uop value = sum;
    if (!plain) value = an_select(g, an_binary(g, AN_OP_CMPLT, outer, an_index(g, passes - 1)), sum, an_substitute(g, now[1], &now[0], &sum, 1));
    const an_uop store = an_store(g, ptr, index, value, AN_UOP_NONE);
    const an_uop all = an_sink(g, &store, 1);
    if (an_uop_is_none(all)) return an_cg_failed(g);
    *sink = all;
    return AN_OK;
}

an_status an_opt_carry(an_dag *d, an_uop *sink, size_t r, uint32_t inner_id, int64_t amount, const char **why)
{
    an_graph *g = d->g;
    an_ctx *ctx = an_graph_ctx(g);
    const an_uop range = d->ranges.data[r];
    const int64_t passes = an_range_bound(g, range) / amount;
    carried c = {0};
    bool *above = an_mem_alloc(ctx, d->order.len * sizeof *above);
    if (!above) return AN_ERR_NOMEM;
    *why = passes < 2 ? "there is nothing to cut" : find(d, *sink, r, above, &c);
    an_mem_free(ctx, above, d->order.len * sizeof *above);
    if (*why) return AN_OK;
    const an_uop outer = an_range(g, an_index(g, passes), an_range_id(an_uop_arg(g, range)), AN_RANGE_LOOP);
    const an_uop inner = an_range(g, an_index(g, amount), inner_id, AN_RANGE_REDUCE);
    return carry(d, sink, &c, outer, inner, range, passes, amount);
}

/* --- blocks that begin early --------------------------------------------------------------------------------------- */

static bool reads_own(const an_dag *d, an_uop store)
{
    for (size_t i = 0; i < d->order.len; i++) {
        const an_uop u = d->order.data[i];
        if (an_uop_op(d->g, u) == AN_OP_LOAD && an_uop_eq(an_uop_src(d->g, u, 0), an_uop_src(d->g, store, 0)) &&
            an_uop_eq(an_uop_src(d->g, u, 1), an_uop_src(d->g, store, 1)))
            return true;
    }
    return false;
}

bool an_opt_can_overlap(const an_dag *d, an_uop sink, size_t r)
{
    for (uint32_t s = 0; s < an_uop_nsrc(d->g, sink); s++) {
        const an_uop store = an_uop_src(d->g, sink, s);
        if (an_rangeset_has(an_dag_deps(d, store), r) && !reads_own(d, store)) return false;
    }
    return true;
}

/* Elements of a block that begins early were computed in the block before it: they keep the value they have by then, whatever the order
 * of the loops: where passes are outside of blocks, that of this pass; where they are inside, that of the last. */
an_status an_opt_overlap(an_dag *d, an_uop *sink, size_t r, an_uop first)
{
    an_graph *g = d->g;
    an_uop_vec stores = {0};
    an_status st = AN_OK;
    const an_uop again = an_binary(g, AN_OP_CMPLT, d->ranges.data[r], first);
    for (uint32_t s = 0; s < an_uop_nsrc(g, *sink) && !st; s++) {
        an_uop store = an_uop_src(g, *sink, s);
        if (an_rangeset_has(an_dag_deps(d, store), r)) {
            const an_uop ptr = an_uop_src(g, store, 0), index = an_uop_src(g, store, 1);
            const an_uop gate = an_uop_nsrc(g, store) > 3 ? an_uop_src(g, store, 3) : AN_UOP_NONE;
            store = an_store(g, ptr, index, an_select(g, again, an_load(g, ptr, index, gate), an_uop_src(g, store, 2)), gate);
        }
        st = an_uop_is_none(store) ? an_cg_failed(g) : an_vec_push(an_graph_ctx(g), &stores, store) ? AN_OK : AN_ERR_NOMEM;
    }
    const an_uop all = st ? AN_UOP_NONE : an_sink(g, stores.data, (uint32_t)stores.len);
    an_vec_fini(an_graph_ctx(g), &stores);
    if (st) return st;
    if (an_uop_is_none(all)) return an_cg_failed(g);
    *sink = all;
    return AN_OK;
}
