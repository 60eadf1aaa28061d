/* grad_prod.c - the derivative of a product along axes: for each element the product of the others, taken from a running
 * product from the left and one from the right. Nothing is divided, so elements that are 0 are right, and so are second
 * derivatives. The running products take log2(length) steps, each with a buffer of its own: recomputed, they would double
 * at each step. */
#include "autodiff/grad_rules.h"

/* v moved k places along its last axis (of length len) to higher indices, 1 where nothing came from. */
static an_uop shift(an_graph *g, an_uop v, int64_t k, int64_t len)
{
    if (an_uop_is_none(v)) return v;
    const an_shape s = an_uop_shape(g, v);
    an_uop first[AN_RANK_MAX], second[AN_RANK_MAX], ones_dims[AN_RANK_MAX];
    const an_uop zero = an_index(g, 0), one = an_const_like(g, v, 1.0);
    for (uint32_t i = 0; i < s.rank; i++) {
        first[i] = zero;
        second[i] = s.dims[i];
        ones_dims[i] = an_index(g, 1);
    }
    if (k >= len)
        return an_expand_node(g, an_reshape_node(g, one, ones_dims, s.rank), s.dims, s.rank);
    second[s.rank - 1] = an_index(g, len - k);
    const an_uop kept = an_shrink_node(g, v, first, second);
    for (uint32_t i = 0; i < s.rank; i++) second[i] = zero;
    first[s.rank - 1] = an_index(g, k);
    const an_uop padded = an_pad_node(g, kept, first, second);

    const an_uop length = an_index(g, len);
    ones_dims[s.rank - 1] = length;
    const an_uop at = an_reshape_node(g, an_uop_new(g, AN_OP_IOTA, AN_I32, &length, 1, 0), ones_dims, s.rank);
    const an_uop empty = an_binary(g, AN_OP_CMPLT, at, an_const_int(g, AN_I32, k));
    return an_select(g, an_expand_node(g, empty, s.dims, s.rank), one, padded);
}

/* For each element the product of those before it on the last axis. */
static an_uop products_before(an_graph *g, an_uop v, int64_t len)
{
    an_uop p = shift(g, v, 1, len);
    for (int64_t k = 1; k < len - 1; k *= 2)
        p = an_unary(g, AN_OP_CONTIGUOUS, an_binary(g, AN_OP_MUL, p, shift(g, p, k, len)));
    return p;
}

an_uop an_rule_grad_others(an_rewriter *rw, an_uop n)
{
    an_graph *g = rw->graph;
    const an_uop x = an_uop_src(g, n, 0);
    const an_shape s = an_uop_shape(g, x);
    const uint32_t mask = an_reduce_mask(an_uop_arg(g, n));

    /* Reduced axes go last and become one: (kept..., len). */
    uint32_t axes[AN_RANK_MAX] = {0}, inverse[AN_RANK_MAX] = {0}, kept = 0;
    an_uop flat[AN_RANK_MAX], moved[AN_RANK_MAX];
    an_uop length = an_index(g, 1);
    for (uint32_t i = 0; i < s.rank; i++)
        if (!(mask >> i & 1u)) axes[kept++] = i;
    for (uint32_t i = 0, at = kept; i < s.rank; i++) {
        if (!(mask >> i & 1u)) continue;
        axes[at++] = i;
        length = an_idx_mul(g, length, s.dims[i]);
    }
    if (kept == s.rank) return an_const_like(g, x, 1.0);
    for (uint32_t i = 0; i < s.rank; i++) {
        inverse[axes[i]] = i;
        moved[i] = s.dims[axes[i]];
        if (i < kept) flat[i] = moved[i];
    }
    int64_t len = 0;
    if (an_uop_is_none(length)) return length;
    if (!an_uop_int(g, length, &len)) {
        an_fail(an_graph_ctx(g), AN_ERR_UNSUPPORTED,
                "the gradient of a product along an axis of symbolic length: give the axis a fixed length");
        return AN_UOP_NONE;
    }
    flat[kept] = length;
    const an_uop row = an_reshape_node(g, an_permute_node(g, x, axes, s.rank), flat, kept + 1);
    if (an_uop_is_none(row)) return AN_UOP_NONE;

    const uint32_t last = 1u << kept;
    const an_uop left = products_before(g, row, len);
    const an_uop right = an_flip_node(g, products_before(g, an_flip_node(g, row, last), len), last);
    if (an_uop_is_none(left) || an_uop_is_none(right)) return AN_UOP_NONE;
    const an_uop others = an_binary(g, AN_OP_MUL, left, right);
    return an_permute_node(g, an_reshape_node(g, others, moved, s.rank), inverse, s.rank);
}
