/* merge.c - ranges as memory is walked.
 *
 * A range that is only used in parts, r // 10 and r % 10 (a reshape was stored flat), is cut into an outer and an inner
 * one, so that each index is affine again. Nested loops that walk memory as one become one: out[i * 10 + j] =
 * x[i * 10 + j] over 64 x 10 is a loop over 640, which vectors divide.
 *
 * Ranges a (outer, any bound) and b (of n elements) merge when each index that varies with either is affine in both and
 * grows n times as much with a as with b, and nothing but loads and stores uses such an index. Then a * n + b is all
 * that anyone sees: b becomes the merged range and a becomes 0. Values that vary with a alone do not allow it. Bounds may be
 * symbolic: then growth is compared as expressions. */
#include "codegen/opt.h"
#include "codegen/pass.h"

#include "rewrite/rewrite.h"

enum { SPLIT_MAX = 8 };

/* A range whose quotient or remainder by a divisor of its bound is used, or that of its sum with a constant. may_split: or by a small number
 * that does not divide it, and the rest is a tail. */
static bool find_cut(const an_dag *d, bool may_split, an_opt *opt)
{
    const an_graph *g = d->g;
    for (size_t i = 0; i < d->order.len; i++) {
        const an_uop u = d->order.data[i];
        const an_op op = an_uop_op(g, u);
        int64_t c = 0;
        if ((op != AN_OP_FLOORDIV && op != AN_OP_FLOORMOD) || !an_uop_int(g, an_uop_src(g, u, 1), &c)) continue;
        an_uop range = an_uop_src(g, u, 0);
        if (an_uop_op(g, range) == AN_OP_ADD && an_uop_is_const(g, an_uop_src(g, range, 1))) range = an_uop_src(g, range, 0);
        if (an_uop_op(g, range) != AN_OP_RANGE) continue;
        const int64_t n = an_range_bound(g, range);
        if (c < 2 || n <= c || (n % c && (!may_split || c > SPLIT_MAX))) continue;
        *opt = (an_opt){n % c ? AN_OPT_SPLIT : AN_OPT_CUT, an_range_id(an_uop_arg(g, range)), n % c ? n - n % c : c};
        return true;
    }
    return false;
}

/* Each cut removes a division, or is not made: a range has few divisors, so this ends. */
an_status an_pass_cut(an_graph *g, an_uop *sink, bool may_split, an_trace *trace)
{
    const an_ruleset *set = &an_rules_symbolic;
    an_uop now = *sink;
    an_status st = AN_OK;
    bool again = true;
    while (again && !st) {
        an_dag d = {0};
        an_opt opt = {0};
        const char *why = NULL;
        st = an_dag_init(&d, g, &now, 1);
        again = !st && find_cut(&d, may_split, &opt);
        an_dag_fini(&d);
        if (again) st = an_opt_apply(g, &now, opt, &why);
        again = again && !st && !why;
        if (again) st = an_rewrite(g, &set, 1, &now, 1, trace, NULL, "simplify");
    }
    if (!st) *sink = now;
    return st;
}

/* Does every REDUCE that binds one of two ranges bind the other? */
static bool bound_together(const an_dag *d, an_uop a, an_uop b)
{
    for (size_t i = 0; i < d->order.len; i++) {
        const an_uop u = d->order.data[i];
        int found = 0;
        for (uint32_t s = 1; an_uop_op(d->g, u) == AN_OP_REDUCE && s < an_uop_nsrc(d->g, u); s++)
            found += an_uop_eq(an_uop_src(d->g, u, s), a) || an_uop_eq(an_uop_src(d->g, u, s), b);
        if (found == 1) return false;
    }
    return true;
}

static bool same_kind(const an_dag *d, an_uop ra, an_uop rb)
{
    const an_range_kind kind = an_range_kind_of(an_uop_arg(d->g, ra));
    if (kind != an_range_kind_of(an_uop_arg(d->g, rb)) || (kind != AN_RANGE_LOOP && kind != AN_RANGE_REDUCE)) return false;
    return bound_together(d, ra, rb);
}

static bool may_merge(const an_dag *d, size_t a, size_t b, int64_t *ca, int64_t *cb)
{
    const an_graph *g = d->g;
    const an_uop ra = d->ranges.data[a], rb = d->ranges.data[b];
    const int64_t n = an_range_bound(g, rb), m = an_range_bound(g, ra); /* m < 0: symbolic */
    int64_t total = 0;
    if (n < 1 || m == 0 || __builtin_mul_overflow(n, m, &total) || !same_kind(d, ra, rb)) return false;
    an_dag_coefs(d, a, ca);
    an_dag_coefs(d, b, cb);
    for (size_t i = 0; i < d->order.len; i++) {
        const an_uop u = d->order.data[i];
        const an_op op = an_uop_op(g, u);
        const bool affine = (op == AN_OP_ADD || op == AN_OP_MUL) && ca[i] != AN_COEF_NONE && cb[i] != AN_COEF_NONE;
        const uint32_t nsrc = op == AN_OP_REDUCE ? 1 : an_uop_nsrc(g, u); /* what it binds it does not use */
        for (uint32_t s = 0; s < nsrc; s++) {
            const size_t x = an_dag_pos(d, an_uop_src(g, u, s));
            const bool varies = an_rangeset_has(&d->deps[x], a) || an_rangeset_has(&d->deps[x], b);
            if (!varies || an_uop_dtype(g, d->order.data[x]) != AN_INDEX) continue;
            if (ca[x] == AN_COEF_NONE || cb[x] == AN_COEF_NONE) return false;
            if (an_uop_dtype(g, u) == AN_INDEX && affine) continue; /* a part of the index that is checked where it is used */
            int64_t want = 0;
            if (s != 1 || (op != AN_OP_LOAD && op != AN_OP_STORE)) return false;
            if (__builtin_mul_overflow(cb[x], n, &want) || ca[x] != want) return false;
        }
    }
    return true;
}

/* How much each index grows when range does by one, as an expression over symbols; none where it is not one. */
static void symbolic_coefs(const an_dag *d, size_t range, an_uop *coef)
{
    an_graph *g = d->g;
    const an_uop zero = an_index(g, 0);
    for (size_t i = 0; i < d->order.len; i++) {
        const an_uop u = d->order.data[i];
        const an_op op = an_uop_op(g, u);
        coef[i] = an_rangeset_has(&d->deps[i], range) ? AN_UOP_NONE : zero;
        if (!an_uop_is_none(coef[i]) || an_uop_dtype(g, u) != AN_INDEX) continue;
        if (an_uop_eq(u, d->ranges.data[range])) {
            coef[i] = an_index(g, 1);
            continue;
        }
        if (op != AN_OP_ADD && op != AN_OP_MUL) continue;
        const size_t x = an_dag_pos(d, an_uop_src(g, u, 0)), y = an_dag_pos(d, an_uop_src(g, u, 1));
        if (an_uop_is_none(coef[x]) || an_uop_is_none(coef[y])) continue;
        if (op == AN_OP_ADD)
            coef[i] = an_dim_add(g, coef[x], coef[y]);
        else if (an_rangeset_is_empty(&d->deps[y]))
            coef[i] = an_dim_mul(g, coef[x], an_uop_src(g, u, 1));
        else if (an_rangeset_is_empty(&d->deps[x]))
            coef[i] = an_dim_mul(g, coef[y], an_uop_src(g, u, 0));
    }
}

/* The same for a range b of a symbolic number of elements. ca and cb have room for the order. */
static bool may_merge_symbolic(const an_dag *d, size_t a, size_t b, an_uop *ca, an_uop *cb)
{
    an_graph *g = d->g;
    const an_uop ra = d->ranges.data[a], rb = d->ranges.data[b], n = an_uop_src(g, rb, 0);
    if (an_range_bound(g, rb) >= 0 || an_range_bound(g, ra) == 0 || !same_kind(d, ra, rb)) return false;
    symbolic_coefs(d, a, ca);
    symbolic_coefs(d, b, cb);
    for (size_t i = 0; i < d->order.len; i++) {
        const an_uop u = d->order.data[i];
        const an_op op = an_uop_op(g, u);
        const bool affine = (op == AN_OP_ADD || op == AN_OP_MUL) && !an_uop_is_none(ca[i]) && !an_uop_is_none(cb[i]);
        const uint32_t nsrc = op == AN_OP_REDUCE ? 1 : an_uop_nsrc(g, u);
        for (uint32_t s = 0; s < nsrc; s++) {
            const size_t x = an_dag_pos(d, an_uop_src(g, u, s));
            const bool varies = an_rangeset_has(&d->deps[x], a) || an_rangeset_has(&d->deps[x], b);
            if (!varies || an_uop_dtype(g, d->order.data[x]) != AN_INDEX) continue;
            if (an_uop_is_none(ca[x]) || an_uop_is_none(cb[x])) return false;
            if (an_uop_dtype(g, u) == AN_INDEX && affine) continue;
            if (s != 1 || (op != AN_OP_LOAD && op != AN_OP_STORE) || !an_uop_eq(ca[x], an_dim_mul(g, cb[x], n))) return false;
        }
    }
    return true;
}

static an_status merge(const an_dag *d, size_t a, size_t b, an_uop *sink)
{
    an_graph *g = d->g;
    const an_uop ra = d->ranges.data[a], rb = d->ranges.data[b];
    const uint64_t arg = an_uop_arg(g, ra);
    const an_uop total = an_dim_mul(g, an_uop_src(g, ra, 0), an_uop_src(g, rb, 0));
    const an_uop all = an_range(g, total, an_range_id(arg), an_range_kind_of(arg));
    const an_range_sub subs[2] = {{ra, an_index(g, 0), {AN_UOP_NONE, AN_UOP_NONE}, 0}, {rb, all, {all, AN_UOP_NONE}, 1}};
    if (an_uop_is_none(all) || an_uop_is_none(subs[0].to)) return AN_ERR_NOMEM;
    return an_replace_ranges(g, sink, 1, subs, 2);
}

/* Has an opt cut the range, or off it? Its parts get ids between those that ranges begin with. */
static bool is_cut(const an_dag *d, size_t r)
{
    return an_range_id(an_uop_arg(d->g, d->ranges.data[r])) % AN_RANGE_ID_STEP != 0;
}

static an_status merge_all(an_graph *g, an_uop *sink, bool loops)
{
    an_ctx *ctx = an_graph_ctx(g);
    an_uop now = *sink;
    an_status st = AN_OK;
    bool again = true;
    while (again && !st) {
        an_dag d = {0};
        again = false;
        st = an_dag_init(&d, g, &now, 1);
        const size_t nbytes = d.order.len * sizeof(int64_t);
        int64_t *ca = st ? NULL : an_mem_alloc(ctx, nbytes), *cb = st ? NULL : an_mem_alloc(ctx, nbytes);
        an_uop *na = (an_uop *)(void *)ca, *nb = (an_uop *)(void *)cb; /* no larger, and never both in use */
        if (!st && (!ca || !cb)) st = AN_ERR_NOMEM;
        for (size_t b = d.ranges.len; b-- > 1 && !again && !st;)
            for (size_t a = b; a-- > 0 && !again && !st;) {
                const bool symbolic = an_range_bound(g, d.ranges.data[b]) < 0;
                if (!loops && (an_range_kind_of(an_uop_arg(g, d.ranges.data[a])) != AN_RANGE_REDUCE || is_cut(&d, a) || is_cut(&d, b))) continue;
                if (symbolic ? !may_merge_symbolic(&d, a, b, na, nb) : !may_merge(&d, a, b, ca, cb)) continue;
                st = merge(&d, a, b, &now);
                again = true;
            }
        an_mem_free(ctx, ca, nbytes);
        an_mem_free(ctx, cb, nbytes);
        an_dag_fini(&d);
    }
    if (!st) *sink = now;
    return st;
}

an_status an_pass_merge(an_graph *g, an_uop *sink)
{
    return merge_all(g, sink, true);
}

an_status an_pass_merge_reductions(an_graph *g, an_uop *sink)
{
    return merge_all(g, sink, false);
}
