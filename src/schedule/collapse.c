/* collapse.c - reductions in another form.
 *
 * A sum of sums is one sum, under a condition as without:
 *
 *     sum over r of where(c(r), sum over q of x(r, q), 0)  =  sum over r and q of where(c(r), x(r, q), 0)
 *
 * which is the gradient of windows: an element's sum over the windows it is in, of sums over channels. Where c is that of padding, and
 * x a product of which one factor is padded, that factor is zero where c does not hold, and the product is left without condition:
 * zero times infinity is NaN then, as it is where what is convolved is padded (docs/SEMANTICS.md).
 *
 * One-hot times table is a gather, which needs no loop:
 *
 *     sum over r of where(r == e, x(r), 0)  =  where(0 <= e < bound, x(e), 0)      e free of r
 *
 * exact for every dtype, since all other terms are zeros (a sum of one x and zeros is x; -0.0 becomes 0.0 either way, as
 * 0.0 + -0.0 is 0.0 and the term sits under a where that adds to it nothing else: codegen starts sums from 0). The
 * factor form, onehot * x, is left alone for floats: 0 * inf is nan. Loads that depended on r are gated by the bounds, since e
 * comes from data. */
#include "schedule/sched.h"

static bool depends_on(an_sched *s, an_uop u, an_uop range)
{
    an_uop_vec set = {0};
    const bool ok = an_ranges_below(s, u, &set);
    const bool found = !ok || an_vec_has(&set, range);
    an_vec_fini(s->ctx, &set);
    return found;
}

/* c says r == e, alone or as a part of an `and`: e, as an index, and what else c demands (true if nothing). */
static bool split_condition(an_sched *s, an_uop c, an_uop range, an_uop *e, an_uop *rest)
{
    an_graph *g = s->g;
    an_uop pending[16], others = an_const_int(g, AN_BOOL, 1);
    uint32_t n = 0;
    bool found = false;
    pending[n++] = c;
    while (n) {
        const an_uop u = pending[--n];
        if (an_uop_op(g, u) == AN_OP_AND && an_uop_dtype(g, u) == AN_BOOL && n + 2 <= 16) {
            pending[n++] = an_uop_src(g, u, 0);
            pending[n++] = an_uop_src(g, u, 1);
            continue;
        }
        bool is_it = false;
        for (uint32_t i = 0; i < 2 && !found && an_uop_op(g, u) == AN_OP_CMPEQ; i++) {
            an_uop side = an_uop_src(g, u, i);
            const an_uop other = an_uop_src(g, u, 1 - i);
            const an_dtype_kind kind = an_dtype_kind_of(an_uop_dtype(g, side));
            if (kind != AN_KIND_INT && kind != AN_KIND_UINT && kind != AN_KIND_INDEX) continue;
            if (an_uop_op(g, side) == AN_OP_CAST) { /* the range must survive the cast: its bound fits */
                int64_t lo = 0, hi = 0;
                const uint32_t bits = (uint32_t)(8 * an_dtype_nbytes(an_uop_dtype(g, side)));
                an_bounds(g, an_uop_src(g, side, 0), &lo, &hi);
                if (bits < 64 && hi >= (int64_t)1 << (bits - 1)) continue;
                side = an_uop_src(g, side, 0);
            }
            if (!an_uop_eq(side, range) || depends_on(s, other, range)) continue;
            *e = an_cast_to(g, AN_INDEX, other);
            found = is_it = true;
        }
        if (!is_it) others = an_uop_is_int(g, others, 1) ? u : an_binary(g, AN_OP_AND, others, u);
    }
    *rest = others;
    return found;
}

an_uop an_at_element_with(an_sched *s, an_uop x, an_uop range, an_uop e, an_uop ok, const an_uop *old, const an_uop *new, uint32_t n)
{
    an_graph *g = s->g;
    an_uop_vec order = {0}, from = {0}, to = {0};
    an_uop out = AN_UOP_NONE;
    for (uint32_t i = 0; i < n; i++)
        if (!an_vec_push(s->ctx, &from, old[i]) || !an_vec_push(s->ctx, &to, new[i])) goto done;
    if (an_toposort(g, &x, 1, &order)) goto done;
    for (size_t i = 0; i < order.len; i++) {
        const an_uop load = order.data[i];
        if (an_uop_op(g, load) != AN_OP_LOAD || !depends_on(s, load, range)) continue;
        an_uop src[3] = {an_uop_src(g, load, 1), AN_UOP_NONE, AN_UOP_NONE};
        if (an_uop_nsrc(g, load) > 2) src[1] = an_uop_src(g, load, 2);
        /* Inner loads first (order), so an index that loads is already gated. */
        if (an_substitute_many(g, src, an_uop_is_none(src[1]) ? 1 : 2, from.data, to.data, from.len)) goto done;
        if (an_substitute_many(g, src, an_uop_is_none(src[1]) ? 1 : 2, &range, &e, 1)) goto done;
        an_uop gate = src[1];
        if (!an_uop_is_int(g, ok, 1)) {
            gate = an_uop_is_none(gate) ? ok : an_binary(g, AN_OP_AND, gate, ok);
            if (an_uop_is_none(gate)) goto done;
        }
        const an_uop gated = an_load(g, an_uop_src(g, load, 0), src[0], gate);
        if (!an_vec_push(s->ctx, &from, load) || !an_vec_push(s->ctx, &to, gated)) goto done;
    }
    if (!an_vec_push(s->ctx, &from, range) || !an_vec_push(s->ctx, &to, e)) goto done;
    out = an_substitute(g, x, from.data, to.data, from.len);
done:
    an_vec_fini(s->ctx, &order);
    an_vec_fini(s->ctx, &from);
    an_vec_fini(s->ctx, &to);
    return out;
}

an_uop an_at_element(an_sched *s, an_uop x, an_uop range, an_uop e, an_uop ok)
{
    return an_at_element_with(s, x, range, e, ok, NULL, NULL, 0);
}

/* The ranges that REDUCEs below u bind. */
static bool bound_below(an_sched *s, an_uop u, an_uop_vec *out)
{
    an_uop_vec order = {0};
    bool ok = !an_toposort(s->g, &u, 1, &order);
    for (size_t i = 0; i < order.len && ok; i++)
        for (uint32_t k = 1; ok && an_uop_op(s->g, order.data[i]) == AN_OP_REDUCE && k < an_uop_nsrc(s->g, order.data[i]); k++) {
            const an_uop range = an_uop_src(s->g, order.data[i], k);
            ok = an_vec_has(out, range) || an_vec_push(s->ctx, out, range);
        }
    an_vec_fini(s->ctx, &order);
    return ok;
}

/* x with its reductions over ranges of their own where those of e are over the same: e is to go inside them, and a
 * reduction inside another must not share its ranges. None when memory is out. */
static an_uop apart_from(an_sched *s, an_uop x, an_uop e)
{
    an_uop_vec theirs = {0}, ours = {0}, from = {0}, to = {0};
    an_uop out = AN_UOP_NONE;
    if (!bound_below(s, e, &theirs) || !bound_below(s, x, &ours)) goto done;
    for (size_t i = 0; i < ours.len; i++) {
        const an_uop range = ours.data[i];
        if (!an_vec_has(&theirs, range)) continue;
        const an_uop owner = s->range_owner.data[an_range_id(an_uop_arg(s->g, range))];
        const an_uop fresh = an_sched_range(s, an_uop_src(s->g, range, 0), owner, 0);
        if (an_uop_is_none(fresh) || !an_vec_push(s->ctx, &from, range) || !an_vec_push(s->ctx, &to, fresh)) goto done;
    }
    out = from.len ? an_substitute(s->g, x, from.data, to.data, from.len) : x;
done:
    an_vec_fini(s->ctx, &theirs);
    an_vec_fini(s->ctx, &ours);
    an_vec_fini(s->ctx, &from);
    an_vec_fini(s->ctx, &to);
    return out;
}

/* The REDUCE without one of its ranges, or none where no range can go. */
static an_uop collapse_one(an_sched *s, an_uop reduce)
{
    an_graph *g = s->g;
    const an_uop value = an_uop_src(g, reduce, 0);
    if (an_reduce_op(an_uop_arg(g, reduce)) != AN_OP_ADD || an_uop_op(g, value) != AN_OP_WHERE) return AN_UOP_NONE;
    const an_uop c = an_uop_src(g, value, 0), x = an_uop_src(g, value, 1);
    if (!an_uop_is_number(g, an_uop_src(g, value, 2), 0.0)) return AN_UOP_NONE;
    for (uint32_t i = 1; i < an_uop_nsrc(g, reduce); i++) {
        const an_uop range = an_uop_src(g, reduce, i);
        an_uop e = AN_UOP_NONE, rest = AN_UOP_NONE;
        if (!split_condition(s, c, range, &e, &rest)) continue;
        const an_uop own = apart_from(s, x, e), own_rest = apart_from(s, rest, e);
        if (an_uop_is_none(own) || an_uop_is_none(own_rest)) return AN_UOP_NONE;
        const an_uop zero = an_index(g, 0);
        const an_uop low = an_not(g, an_binary(g, AN_OP_CMPLT, e, zero));
        const an_uop ok = an_binary(g, AN_OP_AND, low, an_binary(g, AN_OP_CMPLT, e, an_uop_src(g, range, 0)));
        an_uop cond = ok;
        if (!an_uop_is_int(g, rest, 1)) cond = an_binary(g, AN_OP_AND, ok, an_at_element(s, own_rest, range, e, ok));
        const an_uop picked = an_select(g, cond, an_at_element(s, own, range, e, ok), an_uop_src(g, value, 2));
        if (an_uop_is_none(picked)) return AN_UOP_NONE;
        an_uop src[AN_RANK_MAX + 1] = {picked};
        uint32_t n = 1;
        for (uint32_t k = 1; k < an_uop_nsrc(g, reduce); k++)
            if (k != i) src[n++] = an_uop_src(g, reduce, k);
        if (n == 1) return picked;
        return an_uop_new(g, AN_OP_REDUCE, an_uop_dtype(g, reduce), src, n, an_uop_arg(g, reduce));
    }
    return AN_UOP_NONE;
}

/* How many nodes of order have u as a source. */
static size_t users(an_sched *s, const an_uop_vec *order, an_uop u)
{
    size_t n = 0;
    for (size_t i = 0; i < order->len; i++)
        for (uint32_t k = 0; k < an_uop_nsrc(s->g, order->data[i]); k++) n += an_uop_eq(an_uop_src(s->g, order->data[i], k), u);
    return n;
}

bool an_needs_gate(an_sched *s, an_uop load)
{
    int64_t lo = 0, hi = 0;
    an_bounds(s->g, an_uop_src(s->g, load, 1), &lo, &hi);
    const double n = an_numel(s, an_uop_shape(s->g, an_ptr_base(s->g, an_uop_src(s->g, load, 0))));
    return lo < 0 || !((double)hi < n);
}

/* x is 0 where cond does not hold, since it is padded so: a load, of another dtype perhaps, that needs a gate which implies cond. */
static bool is_padded_by(an_sched *s, an_uop cond, an_uop x)
{
    an_graph *g = s->g;
    while (an_uop_op(g, x) == AN_OP_CAST) x = an_uop_src(g, x, 0);
    if (an_uop_op(g, x) != AN_OP_LOAD || an_uop_nsrc(g, x) < 3 || !an_needs_gate(s, x)) return false;
    const an_uop gate = an_uop_src(g, x, 2);
    return an_uop_is_int(g, an_simplify_valid(g, gate, cond), 1);
}

/* x, whose value does not matter where cond does not hold, without a gate that nothing else needs: a load, of another dtype perhaps. */
static an_uop ungated(an_sched *s, an_uop x)
{
    an_graph *g = s->g;
    an_uop casts[4];
    uint32_t n = 0;
    for (; an_uop_op(g, x) == AN_OP_CAST && n < 4; x = an_uop_src(g, x, 0)) casts[n++] = x;
    const bool gated = an_uop_op(g, x) == AN_OP_LOAD && an_uop_nsrc(g, x) > 2 && !an_needs_gate(s, x);
    if (gated) x = an_load(g, an_uop_src(g, x, 0), an_uop_src(g, x, 1), AN_UOP_NONE);
    while (n-- > 0 && !an_uop_is_none(x)) x = an_cast_to(g, an_uop_dtype(g, casts[n]), x);
    return x;
}

/* where(cond, x, 0). Of a product a factor that is padded is 0 already, and the other multiplies that zero. */
static an_uop under(an_sched *s, an_uop cond, an_uop x)
{
    an_graph *g = s->g;
    if (an_uop_is_none(cond) || an_uop_is_int(g, cond, 1)) return an_uop_is_none(cond) ? cond : x;
    for (uint32_t i = 0; i < 2 && an_uop_op(g, x) == AN_OP_MUL; i++)
        if (is_padded_by(s, cond, an_uop_src(g, x, i)))
            return an_binary(g, AN_OP_MUL, an_uop_src(g, x, i), ungated(s, an_uop_src(g, x, 1 - i)));
    return an_select(g, cond, x, an_const_like(g, x, 0));
}

/* May inner's ranges be bound outside of cond and next to those of outer? Not where one is met there already: an index that a
 * reduction computes may be over the same ones. */
static bool may_join(an_sched *s, an_uop outer, an_uop inner, an_uop cond)
{
    an_uop_vec met = {0};
    bool ok = an_ranges_below(s, cond, &met);
    for (uint32_t k = 1; ok && k < an_uop_nsrc(s->g, outer); k++) ok = an_vec_push(s->ctx, &met, an_uop_src(s->g, outer, k));
    for (uint32_t k = 1; ok && k < an_uop_nsrc(s->g, inner); k++) ok = !an_vec_has(&met, an_uop_src(s->g, inner, k));
    an_vec_fini(s->ctx, &met);
    return ok;
}

/* The REDUCE, a sum, with the sum that it sums up taken in, or none. */
static an_uop join_one(an_sched *s, const an_uop_vec *order, an_uop reduce)
{
    an_graph *g = s->g;
    if (an_reduce_op(an_uop_arg(g, reduce)) != AN_OP_ADD) return AN_UOP_NONE;
    an_uop inner = an_uop_src(g, reduce, 0), cond = an_const_int(g, AN_BOOL, 1);
    while (an_uop_op(g, inner) == AN_OP_WHERE && an_uop_is_number(g, an_uop_src(g, inner, 2), 0.0)) {
        const an_uop c = an_uop_src(g, inner, 0);
        cond = an_uop_is_int(g, cond, 1) ? c : an_binary(g, AN_OP_AND, cond, c);
        inner = an_uop_src(g, inner, 1);
        if (users(s, order, inner) != 1) return AN_UOP_NONE;
    }
    const uint32_t outer_n = an_uop_nsrc(g, reduce), inner_n = an_uop_nsrc(g, inner);
    if (an_uop_op(g, inner) != AN_OP_REDUCE || an_reduce_op(an_uop_arg(g, inner)) != AN_OP_ADD || users(s, order, inner) != 1 ||
        an_uop_dtype(g, inner) != an_uop_dtype(g, reduce) || outer_n + inner_n - 1 > AN_RANK_MAX + 1 ||
        !may_join(s, reduce, inner, cond))
        return AN_UOP_NONE;
    an_uop src[AN_RANK_MAX + 1] = {an_uop_src(g, inner, 0)};
    uint32_t n = 1;
    src[0] = under(s, an_simplify(g, cond), src[0]);
    for (uint32_t k = 1; k < outer_n; k++) src[n++] = an_uop_src(g, reduce, k);
    for (uint32_t k = 1; k < inner_n; k++) src[n++] = an_uop_src(g, inner, k);
    if (an_uop_is_none(src[0])) return src[0];
    return an_uop_new(g, AN_OP_REDUCE, an_uop_dtype(g, reduce), src, n, an_uop_arg(g, reduce));
}

an_status an_sched_collapse(an_sched *s)
{
    for (size_t k = 0; k < s->kernels.len; k++) {
        an_kern *kern = &s->kernels.data[k];
        if (s->cost->no_fuse) break;
        for (bool again = kern->has_reduce; again;) {
            an_uop_vec order = {0};
            an_status st = an_toposort(s->g, kern->stores.data, (uint32_t)kern->stores.len, &order);
            again = false;
            for (size_t i = 0; i < order.len && !st && !again; i++) {
                if (an_uop_op(s->g, order.data[i]) != AN_OP_REDUCE) continue;
                const char *what = "a sum takes what a remainder lets through, in steps";
                an_uop out = an_residue_steps(s, order.data[i]);
                if (an_uop_is_none(out)) {
                    what = "a sum of sums became one sum";
                    out = join_one(s, &order, order.data[i]);
                }
                if (an_uop_is_none(out)) {
                    what = "a one-hot sum became a gather";
                    out = collapse_one(s, order.data[i]);
                }
                if (an_uop_is_none(out)) continue;
                st = an_substitute_many(s->g, kern->stores.data, kern->stores.len, &order.data[i], &out, 1);
                again = true;
                an_trace_note(s->trace, "%s", what);
            }
            an_vec_fini(s->ctx, &order);
            if (!st && again && !an_kern_refresh(s, kern)) st = AN_ERR_NOMEM;
            if (st) return st;
        }
    }
    return AN_OK;
}
