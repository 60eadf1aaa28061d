/* fold.c - constants: elementwise ops on them (by an_eval, the one definition of every op), bounds that meet, and the
 * canonical place of operands. */
#include "rewrite/rules.h"

#include "ir/eval.h"

#include <math.h>

an_uop an_rule_fold_alu(an_rewriter *rw, an_uop n)
{
    enum { SRCS = 3 };
    const an_graph *g = rw->graph;
    const an_op op = an_uop_op(g, n);
    const an_dtype dtype = an_uop_dtype(g, n);
    const uint32_t nsrc = an_uop_nsrc(g, n);
    an_scalar v[SRCS];
    an_dtype from = AN_DTYPE_NONE; /* of the operands; of the last two for where */
    if (nsrc == 0 || nsrc > SRCS) return AN_UOP_NONE;
    for (uint32_t i = 0; i < nsrc; i++) {
        const an_uop c = an_rule_const_of(g, an_uop_src(g, n, i));
        if (an_uop_is_none(c)) return AN_UOP_NONE;
        v[i] = an_uop_const_value(g, c);
        from = an_uop_dtype(g, c);
    }
    if (op == AN_OP_CAST) return an_const(rw->graph, dtype, an_scalar_cast(from, dtype, v[0]));
    if (op == AN_OP_BITCAST) return an_const(rw->graph, dtype, an_eval_bitcast(from, dtype, v[0]));
    return an_const(rw->graph, dtype, an_eval(op, from, v));
}

an_uop an_rule_to_bound(an_rewriter *rw, an_uop n)
{
    const an_interval v = an_bounds_get(&rw->bounds, n);
    if (v.lo != v.hi || v.lo == INT64_MIN || v.lo == INT64_MAX) return AN_UOP_NONE;
    return an_const_int(rw->graph, an_uop_dtype(rw->graph, n), v.lo);
}

an_uop an_rule_order(an_rewriter *rw, an_uop n)
{
    an_graph *g = rw->graph;
    const an_uop x = an_uop_src(g, n, 0), y = an_uop_src(g, n, 1);
    const bool cx = an_rule_is_const(g, x), cy = an_rule_is_const(g, y);
    if (cx != cy ? cy : an_uop_cmp(g, x, y) <= 0) return AN_UOP_NONE;
    const an_uop src[2] = {y, x};
    return an_uop_with_srcs(g, n, src);
}

an_uop an_rule_recip(an_rewriter *rw, an_uop c)
{
    an_graph *g = rw->graph;
    const an_uop k = an_rule_const_of(g, c);
    if (an_uop_is_none(k) || !an_rule_is_float(rw, k)) return AN_UOP_NONE;
    const double v = an_uop_const_value(g, k).f, r = 1.0 / v;
    int exponent = 0;
    if (!isfinite(v) || v == 0.0 || fabs(frexp(v, &exponent)) != 0.5) return AN_UOP_NONE;
    if (an_scalar_round(an_uop_dtype(g, k), (an_scalar){.f = r}).f != r || !isfinite(r)) return AN_UOP_NONE;
    return an_const_like(g, c, r);
}
