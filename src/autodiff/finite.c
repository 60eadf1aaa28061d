/* finite.c - what is known of values where every buffer below them is finite: whether they are, and their sign. Gradients need no
 * mask where a derivative is finite: by a divisor away from zero, of an exponential of what is not positive. Overflow and
 * underflow of sums and products do not count. */
#include "autodiff/grad_rules.h"

#include <math.h>

enum {
    KNOWN = 1,
    WILD = 2,    /* may be infinite or NaN */
    NATURAL = 4, /* never below 0 */
    NEGATIVE = 8, /* never above 0 */
    AWAY = 16,   /* its size has a bound above 0 */
    LOW = 32     /* WILD, but only as -inf is */
};
enum { SIGNS = NATURAL | NEGATIVE };

static uint32_t of_const(double v)
{
    if (!isfinite(v)) return v < 0 ? WILD | LOW | NEGATIVE : WILD;
    return (v >= 0 ? NATURAL : 0u) | (v <= 0 ? NEGATIVE : 0u) | (v != 0 ? AWAY : 0u);
}

/* The sign of a product or quotient. */
static uint32_t sign_of_product(uint32_t a, uint32_t b)
{
    uint32_t f = 0;
    if ((a & b & NATURAL) || (a & b & NEGATIVE)) f |= NATURAL;
    if ((a & NATURAL && b & NEGATIVE) || (a & NEGATIVE && b & NATURAL)) f |= NEGATIVE;
    return f;
}

/* x is y, or y times a constant: the sign of that, else 0. */
static int multiple_of(const an_graph *g, an_uop x, an_uop y)
{
    if (an_uop_eq(x, y)) return 1;
    for (uint32_t i = 0; i < 2 && an_uop_op(g, x) == AN_OP_MUL; i++) {
        const an_uop by = an_uop_src(g, x, 1 - i);
        if (!an_uop_eq(an_uop_src(g, x, i), y) || !an_uop_is_const(g, by)) continue;
        const double v = an_uop_const_value(g, by).f;
        return (v > 0) - (v < 0);
    }
    return 0;
}

/* The signs of what `where` chooses by the sign of x: where(x < 0, x, -x) is never above 0. */
static uint32_t sign_of_choice(const an_graph *g, an_uop n)
{
    an_uop c = an_uop_src(g, n, 0);
    bool taken = true;
    while (an_uop_op(g, c) == AN_OP_XOR && an_uop_is_int(g, an_uop_src(g, c, 1), 1)) {
        c = an_uop_src(g, c, 0);
        taken = !taken;
    }
    uint32_t all = SIGNS;
    for (uint32_t i = 0; i < 2 && an_uop_op(g, c) == AN_OP_CMPLT; i++) {
        const an_uop x = an_uop_src(g, c, i);
        if (!an_uop_is_number(g, an_uop_src(g, c, 1 - i), 0.0) || an_uop_is_const(g, x)) continue;
        for (uint32_t k = 1; k < 3; k++) {
            const int sign = multiple_of(g, an_uop_src(g, n, k), x);
            const bool below = (i == 0) == ((k == 1) == taken); /* x is, here */
            all &= sign == 0 ? 0u : (sign > 0) == below ? NEGATIVE : NATURAL;
        }
        return all;
    }
    return 0;
}

/* n is x less the greatest x along some axes: those axes and which source x is, else 0. */
static uint32_t below_greatest(const an_graph *g, an_uop n, uint32_t *at)
{
    for (uint32_t i = 0; i < 2 && an_uop_op(g, n) == AN_OP_ADD; i++) {
        const an_uop x = an_uop_src(g, n, i);
        *at = i;
        an_uop m = an_uop_src(g, n, 1 - i);
        bool minus = false;
        for (;; m = an_uop_src(g, m, 0)) {
            const bool negated = an_uop_op(g, m) == AN_OP_MUL && an_uop_is_number(g, an_uop_src(g, m, 1), -1.0);
            if (!negated && an_uop_op(g, m) != AN_OP_EXPAND && an_uop_op(g, m) != AN_OP_DETACH) break;
            minus = minus != negated;
        }
        if (!minus) continue;
        if (an_uop_op(g, m) == AN_OP_REDUCE_AXIS && an_reduce_op(an_uop_arg(g, m)) == AN_OP_MAX && an_uop_eq(an_uop_src(g, m, 0), x))
            return an_reduce_mask(an_uop_arg(g, m));
    }
    return 0;
}

/* A sum of exponentials of which one is that of 0: those of x less the greatest x. */
static bool has_a_one(const an_graph *g, an_uop sum)
{
    const an_uop e = an_uop_src(g, sum, 0);
    if (an_uop_op(g, e) != AN_OP_EXP2) return false;
    an_uop x = an_uop_src(g, e, 0);
    if (an_uop_op(g, x) == AN_OP_MUL && an_uop_is_const(g, an_uop_src(g, x, 1))) x = an_uop_src(g, x, 0);
    uint32_t at = 0;
    const uint32_t axes = below_greatest(g, x, &at);
    return axes && axes == an_reduce_mask(an_uop_arg(g, sum));
}

/* Bounds of the integer u where its last axis is at 0. */
static an_interval at_first(an_rewriter *rw, an_uop u)
{
    const an_graph *g = rw->graph;
    while (an_op_has(an_uop_op(g, u), AN_TRAIT_MOVE)) {
        const an_uop x = an_uop_src(g, u, 0);
        const an_shape to = an_uop_shape(g, u), from = an_uop_shape(g, x);
        const bool moves = an_uop_op(g, u) != AN_OP_EXPAND && an_uop_op(g, u) != AN_OP_RESHAPE;
        if (moves || to.rank == 0 || from.rank == 0 || !an_uop_eq(to.dims[to.rank - 1], from.dims[from.rank - 1])) break;
        u = x;
    }
    return an_uop_op(g, u) == AN_OP_IOTA ? (an_interval){0, 0} : an_bounds_get(&rw->bounds, u);
}

/* Does `where` choose something finite where its last axis is at 0, whatever the others? So does that of a causal mask. */
static bool is_finite_first(an_rewriter *rw, an_uop n)
{
    const an_grad_memo *memo = rw->user;
    const an_graph *g = rw->graph;
    bool taken = true;
    if (an_uop_op(g, n) != AN_OP_WHERE) return false;
    an_uop c = an_uop_src(g, n, 0);
    for (;; c = an_uop_src(g, c, 0)) {
        const bool flips = an_uop_op(g, c) == AN_OP_XOR && an_uop_is_int(g, an_uop_src(g, c, 1), 1);
        if (flips) taken = !taken;
        if (flips) continue;
        const bool moves = an_uop_op(g, c) == AN_OP_EXPAND || an_uop_op(g, c) == AN_OP_RESHAPE;
        if (!moves) break;
        const an_shape to = an_uop_shape(g, c), from = an_uop_shape(g, an_uop_src(g, c, 0));
        if (to.rank == 0 || from.rank == 0 || !an_uop_eq(to.dims[to.rank - 1], from.dims[from.rank - 1])) return false;
    }
    if (an_uop_op(g, c) != AN_OP_CMPLT || an_dtype_kind_of(an_uop_dtype(g, an_uop_src(g, c, 0))) == AN_KIND_FLOAT) return false;
    const an_interval a = at_first(rw, an_uop_src(g, c, 0)), b = at_first(rw, an_uop_src(g, c, 1));
    if (taken ? a.hi >= b.lo : a.lo < b.hi) return false;
    return (an_idmap_get(&memo->facts, an_uop_src(g, n, 1).id) & WILD) == 0;
}

/* What is known of x less the greatest x: that it is no NaN where x is, in each row, finite somewhere and +inf nowhere. */
static uint32_t of_difference(an_rewriter *rw, an_uop n, const uint32_t *f)
{
    const an_graph *g = rw->graph;
    uint32_t at = 0;
    const uint32_t axes = below_greatest(g, n, &at);
    if (!axes) return 0;
    const an_uop x = an_uop_src(g, n, at);
    const bool last = axes == 1u << (an_uop_shape(g, x).rank - 1);
    return NEGATIVE | (f[at] & LOW && last && is_finite_first(rw, x) ? LOW : 0u);
}

/* Of a product with a constant above 0. */
static uint32_t low_of_product(const an_graph *g, an_uop n, const uint32_t *f)
{
    for (uint32_t i = 0; i < 2; i++) {
        const an_uop by = an_uop_src(g, n, 1 - i);
        if (f[i] & LOW && an_uop_is_const(g, by) && an_uop_const_value(g, by).f > 0 && isfinite(an_uop_const_value(g, by).f)) return LOW;
    }
    return 0;
}

/* What is known of n from what is known of its sources. */
static uint32_t facts_of(an_rewriter *rw, an_uop n, const uint32_t *f)
{
    const an_graph *g = rw->graph;
    const an_op op = an_uop_op(g, n);
    const uint32_t wild = op == AN_OP_WHERE ? (f[1] | f[2]) & WILD : (f[0] | f[1] | f[2]) & WILD;
    if (op == AN_OP_CONST) return of_const(an_uop_const_value(g, n).f);
    if (op == AN_OP_PAD) return wild | (f[0] & SIGNS);
    if (an_op_has(op, AN_TRAIT_MOVE)) return f[0];
    switch (op) {
    case AN_OP_DETACH:
    case AN_OP_CONTIGUOUS: return f[0];
    case AN_OP_CAST: {
        const an_uop x = an_uop_src(g, n, 0);
        const bool narrows = an_dtype_nbytes(an_uop_dtype(g, n)) < an_dtype_nbytes(an_uop_dtype(g, x));
        return narrows ? f[0] & ~(uint32_t)AWAY : f[0];
    }
    case AN_OP_SQRT: return (f[0] & NATURAL ? wild : WILD) | NATURAL | (f[0] & NATURAL ? f[0] & AWAY : 0u);
    case AN_OP_EXP2: return (!(f[0] & NEGATIVE) ? WILD : f[0] & LOW ? 0u : wild) | NATURAL;
    case AN_OP_LOG2: return (f[0] & NATURAL) && (f[0] & AWAY) ? wild : WILD;
    case AN_OP_DIV: return (f[1] & AWAY ? wild : WILD) | sign_of_product(f[0], f[1]);
    case AN_OP_MUL:
        if (an_uop_eq(an_uop_src(g, n, 0), an_uop_src(g, n, 1))) return wild | NATURAL | (f[0] & AWAY);
        return wild | sign_of_product(f[0], f[1]) | (f[0] & f[1] & AWAY) | low_of_product(g, n, f);
    case AN_OP_ADD: {
        const uint32_t same = f[0] & f[1] & SIGNS;
        return wild | same | (same ? (f[0] | f[1]) & AWAY : 0u) | of_difference(rw, n, f);
    }
    case AN_OP_MAX: {
        const uint32_t a = f[0] & NATURAL ? f[0] : 0u, b = f[1] & NATURAL ? f[1] : 0u;
        return wild | ((a | b) & (NATURAL | AWAY)) | (f[0] & f[1] & NEGATIVE);
    }
    case AN_OP_WHERE: {
        const bool low = wild && (f[1] & (WILD | LOW)) != WILD && (f[2] & (WILD | LOW)) != WILD;
        return wild | (f[1] & f[2] & (SIGNS | AWAY)) | sign_of_choice(g, n) | (low ? LOW : 0u);
    }
    case AN_OP_REDUCE_AXIS:
        if (an_reduce_op(an_uop_arg(g, n)) == AN_OP_MUL) return wild;
        if (an_reduce_op(an_uop_arg(g, n)) != AN_OP_ADD) return f[0];
        return wild | (f[0] & SIGNS) | (has_a_one(g, n) ? AWAY : 0u);
    default: return wild;
    }
}

/* What is known of root; WILD, and *ok false, when memory ran out. */
static uint32_t facts(an_rewriter *rw, an_uop root, bool *ok)
{
    an_grad_memo *memo = rw->user;
    const an_graph *g = rw->graph;
    an_ctx *ctx = an_graph_ctx(g);
    memo->stack.len = 0;
    *ok = an_vec_push(ctx, &memo->stack, root);
    while (*ok && memo->stack.len) {
        const an_uop u = memo->stack.data[memo->stack.len - 1];
        uint32_t f[3] = {0, 0, 0};
        bool waiting = false;
        if (an_idmap_get(&memo->facts, u.id)) {
            memo->stack.len--;
            continue;
        }
        for (uint32_t i = 0; an_grad_is_float(g, u) && i < an_uop_nsrc(g, u) && *ok; i++) {
            const an_uop src = an_uop_src(g, u, i);
            const uint32_t below = an_grad_is_float(g, src) ? an_idmap_get(&memo->facts, src.id) : KNOWN;
            if (i < 3) f[i] = below;
            if (below) continue;
            waiting = true;
            *ok = an_vec_push(ctx, &memo->stack, src);
        }
        if (waiting) continue;
        const uint32_t known = an_grad_is_float(g, u) ? facts_of(rw, u, f) : 0u;
        *ok = *ok && an_idmap_set(&memo->facts, ctx, u.id, KNOWN | known);
        memo->stack.len--;
    }
    return *ok ? an_idmap_get(&memo->facts, root.id) : WILD;
}

bool an_grad_is_wild(an_rewriter *rw, an_uop u, bool *ok)
{
    return (facts(rw, u, ok) & WILD) != 0;
}

bool an_grad_is_away(an_rewriter *rw, an_uop u, bool *ok)
{
    return (facts(rw, u, ok) & (AWAY | WILD)) == AWAY;
}
