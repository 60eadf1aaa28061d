/* grad_rules.c - what grad.upat and jvp.upat call: masked products, shapes, movement undone and done again. The product
 * rule is in grad_prod.c. */
#include "autodiff/grad_rules.h"

void an_grad_memo_fini(an_grad_memo *memo, an_ctx *ctx)
{
    an_idmap_fini(&memo->facts, ctx);
    an_vec_fini(ctx, &memo->stack);
}

bool an_grad_is_float(const an_graph *g, an_uop u)
{
    return an_dtype_kind_of(an_uop_dtype(g, u)) == AN_KIND_FLOAT;
}

an_uop an_grad_full_like(an_graph *g, an_uop like, double v)
{
    const an_shape s = an_uop_shape(g, like);
    an_uop ones[AN_RANK_MAX];
    const an_uop c = an_const_float(g, an_uop_dtype(g, like), v);
    if (s.rank == 0) return c;
    for (uint32_t i = 0; i < s.rank; i++) ones[i] = an_index(g, 1);
    return an_expand_node(g, an_reshape_node(g, c, ones, s.rank), s.dims, s.rank);
}

an_uop an_grad_fit(an_graph *g, an_uop c, an_uop like)
{
    const an_shape from = an_uop_shape(g, c), to = an_uop_shape(g, like);
    if (from.rank == to.rank) return c;
    if (to.rank == 0)
        return an_reshape_node(g, an_reduce_axis(g, AN_OP_ADD, c, (1u << from.rank) - 1), NULL, 0);
    an_uop ones[AN_RANK_MAX];
    for (uint32_t i = 0; i < to.rank; i++) ones[i] = an_index(g, 1);
    return an_expand_node(g, an_reshape_node(g, c, ones, to.rank), to.dims, to.rank);
}

/* --- what a reduction reduces by --------------------------------------------------------------- */

static an_op reduce_op(const an_rewriter *rw, an_uop n)
{
    return an_reduce_op(an_uop_arg(rw->graph, n));
}

bool an_rule_grad_reduces_add(an_rewriter *rw, an_uop n)
{
    return reduce_op(rw, n) == AN_OP_ADD;
}

bool an_rule_grad_reduces_extreme(an_rewriter *rw, an_uop n)
{
    return reduce_op(rw, n) == AN_OP_MAX || reduce_op(rw, n) == AN_OP_MIN;
}

bool an_rule_grad_reduces_mul(an_rewriter *rw, an_uop n)
{
    return reduce_op(rw, n) == AN_OP_MUL;
}

/* --- a zero cotangent wins over an infinite derivative ------------------------------------------- */

/* x is repeated along some axis, whatever moved it then. */
static bool is_repeated(const an_graph *g, an_uop x)
{
    for (; an_op_has(an_uop_op(g, x), AN_TRAIT_MOVE); x = an_uop_src(g, x, 0))
        if (an_uop_op(g, x) == AN_OP_EXPAND) return true;
    return false;
}

/* x, which is 0 or NaN where g is 0: 0 there. (x is not left out where g is 0, or a second derivative would be lost.) */
static an_uop unless_zero(an_graph *gr, an_uop g, an_uop x)
{
    const an_uop zero = an_const_like(gr, g, 0.0);
    return an_select(gr, an_binary(gr, AN_OP_AND, an_binary(gr, AN_OP_CMPEQ, g, zero), an_binary(gr, AN_OP_CMPNE, x, x)), zero, x);
}

an_uop an_rule_grad_times(an_rewriter *rw, an_uop g, an_uop d, an_uop other)
{
    an_graph *gr = rw->graph;
    const an_uop product = an_binary(gr, AN_OP_MUL, g, d);
    if (an_uop_is_none(product) || an_uop_is_none(other)) return AN_UOP_NONE;
    bool ok = true;
    if (is_repeated(gr, d) && is_repeated(gr, other)) return product;
    if (!an_grad_is_wild(rw, d, &ok)) return ok ? product : AN_UOP_NONE;
    return unless_zero(gr, g, product);
}

an_uop an_rule_grad_over(an_rewriter *rw, an_uop g, an_uop y)
{
    an_graph *gr = rw->graph;
    const an_uop quotient = an_binary(gr, AN_OP_DIV, g, y);
    bool ok = true;
    if (an_uop_is_none(quotient) || an_grad_is_away(rw, y, &ok)) return quotient;
    return ok ? unless_zero(gr, g, quotient) : AN_UOP_NONE;
}

/* --- shapes ------------------------------------------------------------------------------------ */

an_uop an_rule_grad_reshape(an_rewriter *rw, an_uop x, an_uop g)
{
    const an_shape s = an_uop_shape(rw->graph, x);
    if (an_uop_is_none(g) || an_shape_eq(s, an_uop_shape(rw->graph, g))) return g;
    return an_reshape_node(rw->graph, g, s.dims, s.rank);
}

an_uop an_rule_grad_sum_to(an_rewriter *rw, an_uop x, an_uop g)
{
    if (an_uop_is_none(g)) return g;
    const an_shape to = an_uop_shape(rw->graph, x), from = an_uop_shape(rw->graph, g);
    uint32_t mask = 0;
    for (uint32_t i = 0; i < from.rank && i < to.rank; i++)
        if (!an_uop_eq(to.dims[i], from.dims[i])) mask |= 1u << i;
    return mask ? an_reduce_axis(rw->graph, AN_OP_ADD, g, mask) : g;
}

an_uop an_rule_grad_expand_to(an_rewriter *rw, an_uop x, an_uop g)
{
    const an_shape s = an_uop_shape(rw->graph, x);
    if (an_uop_is_none(g) || an_shape_eq(s, an_uop_shape(rw->graph, g))) return g;
    return an_expand_node(rw->graph, g, s.dims, s.rank);
}

/* --- movement undone ----------------------------------------------------------------------------- */

an_uop an_rule_grad_unpermute(an_rewriter *rw, an_uop n, an_uop g)
{
    const uint64_t arg = an_uop_arg(rw->graph, n);
    const uint32_t rank = an_uop_shape(rw->graph, n).rank;
    uint32_t inverse[AN_RANK_MAX] = {0};
    for (uint32_t i = 0; i < rank; i++) inverse[an_permute_axis(arg, i)] = i;
    return an_permute_node(rw->graph, g, inverse, rank);
}

an_uop an_rule_grad_unpad(an_rewriter *rw, an_uop n, an_uop g)
{
    an_graph *gr = rw->graph;
    const an_shape x = an_uop_shape(gr, an_uop_src(gr, n, 0));
    an_uop begin[AN_RANK_MAX], end[AN_RANK_MAX];
    for (uint32_t i = 0; i < x.rank; i++) {
        begin[i] = an_uop_src(gr, n, 1 + 2 * i);
        end[i] = an_dim_add(gr, begin[i], x.dims[i]);
    }
    return an_shrink_node(gr, g, begin, end);
}

an_uop an_rule_grad_unshrink(an_rewriter *rw, an_uop n, an_uop g)
{
    an_graph *gr = rw->graph;
    const an_shape x = an_uop_shape(gr, an_uop_src(gr, n, 0));
    an_uop before[AN_RANK_MAX], after[AN_RANK_MAX];
    for (uint32_t i = 0; i < x.rank; i++) {
        before[i] = an_uop_src(gr, n, 1 + 2 * i);
        after[i] = an_dim_sub(gr, x.dims[i], an_uop_src(gr, n, 2 + 2 * i));
    }
    return an_pad_node(gr, g, before, after);
}

an_uop an_rule_grad_flip(an_rewriter *rw, an_uop n, an_uop g)
{
    return an_flip_node(rw->graph, g, (uint32_t)an_uop_arg(rw->graph, n));
}

an_uop an_rule_jvp_move(an_rewriter *rw, an_uop n, an_uop d)
{
    an_graph *gr = rw->graph;
    an_uop src[2 * AN_RANK_MAX + 1];
    const uint32_t nsrc = an_uop_nsrc(gr, n);
    for (uint32_t i = 1; i < nsrc; i++) src[i] = an_uop_src(gr, n, i);
    src[0] = d;
    return an_uop_new(gr, an_uop_op(gr, n), an_uop_dtype(gr, d), src, nsrc, an_uop_arg(gr, n));
}

/* --- reductions ---------------------------------------------------------------------------------- */

an_uop an_rule_grad_share(an_rewriter *rw, an_uop n, an_uop g)
{
    an_graph *gr = rw->graph;
    const an_uop x = an_uop_src(gr, n, 0);
    const uint32_t mask = an_reduce_mask(an_uop_arg(gr, n));
    const an_uop tied = an_binary(gr, AN_OP_CMPEQ, x, an_rule_grad_expand_to(rw, x, n));
    const an_uop ones = an_cast_to(gr, an_uop_dtype(gr, x), tied);
    if (an_uop_is_none(ones)) return ones;
    return an_rule_grad_over(rw, g, an_reduce_axis(gr, AN_OP_ADD, ones, mask));
}

an_uop an_rule_jvp_sum(an_rewriter *rw, an_uop n, an_uop d)
{
    return an_reduce_axis(rw->graph, AN_OP_ADD, d, an_reduce_mask(an_uop_arg(rw->graph, n)));
}
