/* matmul.c - products: an expanded multiplication and a sum, which the scheduler makes one kernel.
 *
 *     a (..., M, K) -> (..., M, 1, K) --\
 *                                        mul (..., M, N, K) -> sum over K
 *     b (..., K, N) -> (..., 1, N, K) --/ */
#include "tensor/tensor.h"

/* Products and their sum in the dtype that sums are taken in; bool multiplies by and, adds by or. */
static an_tensor *sum_of_products(an_tensor *a, an_tensor *b, an_dtype d)
{
    const an_dtype wide = an_dtype_accumulate(d);
    an_tensor *p = an_mul(an_cast(a, wide), an_cast(b, wide));
    if (!p) return NULL;
    const uint32_t last = an_tensor_rank(p) - 1;
    if (d == AN_BOOL) return an_any(p, AN_DIMS(last), false);
    if (an_tensor_dim(p, (int)last) == 0) return an_cast(an_sum(p, AN_DIMS(last), false), d);
    /* Not an_sum: integers stay in their dtype. */
    an_graph *g = p->graph;
    const an_uop u = an_uop_is_int(g, an_tensor_shape(p).dims[last], 1)
                         ? an_tensor_node(p)
                         : an_reduce_axis(g, AN_OP_ADD, an_tensor_node(p), 1u << last);
    return an_cast(an_squeeze(an_tensor_wrap1(p, u), -1), d);
}

an_tensor *an_matmul(an_tensor *a, an_tensor *b)
{
    if (!a || !b || !an_check_graph(__func__, a, b)) return NULL;
    const uint32_t ra = an_tensor_rank(a), rb = an_tensor_rank(b);
    if (ra == 0 || rb == 0)
        return an_tensor_fail(a->graph, AN_ERR_SHAPE, "%s: shapes %s and %s: each needs an axis to sum over; an_mul scales",
                              __func__, an_text_shape(a).s, an_text_shape(b).s);
    if (ra == AN_RANK_MAX || rb == AN_RANK_MAX)
        return an_tensor_fail(a->graph, AN_ERR_LIMIT, "%s: shapes %s and %s: at most %d axes are supported here", __func__,
                              an_text_shape(a).s, an_text_shape(b).s, AN_RANK_MAX - 1);
    const an_uop ka = an_tensor_dim_uop(a, -1), kb = an_tensor_dim_uop(b, rb == 1 ? -1 : -2);
    if (!an_uop_eq(ka, kb))
        return an_tensor_fail(a->graph, AN_ERR_SHAPE,
                              "%s: shapes %s and %s: the last axis of the first and the %s of the second must be equal",
                              __func__, an_text_shape(a).s, an_text_shape(b).s, rb == 1 ? "only one" : "last but one");
    an_tensor *left = ra == 1 ? an_unsqueeze(a, 0) : a;                            /* (..., M, K) */
    an_tensor *right = rb == 1 ? an_unsqueeze(b, 0) : an_transpose(b, -1, -2);     /* (..., N, K) */
    if (!left || !right) return NULL;
    /* The leading axes must agree before the two matrix axes come between them. */
    for (uint32_t i = 3; i <= an_tensor_rank(left) && i <= an_tensor_rank(right); i++) {
        const an_uop p = an_tensor_dim_uop(left, -(int)i), q = an_tensor_dim_uop(right, -(int)i);
        if (!an_uop_eq(p, q) && !an_uop_is_int(a->graph, p, 1) && !an_uop_is_int(a->graph, q, 1))
            return an_tensor_fail(a->graph, AN_ERR_SHAPE,
                                  "%s: shapes %s and %s: the axes before the last two do not broadcast", __func__,
                                  an_text_shape(a).s, an_text_shape(b).s);
    }
    const an_dtype d = an_dtype_promote(an_tensor_dtype(a), an_tensor_dtype(b));
    an_tensor *y = sum_of_products(an_unsqueeze(left, -2), an_unsqueeze(right, -3), d);
    if (rb == 1) y = an_squeeze(y, -1);
    if (ra == 1) y = an_squeeze(y, rb == 1 ? -1 : -2);
    return y;
}

static bool check_vectors(const char *call, an_tensor *a, an_tensor *b)
{
    if (an_tensor_rank(a) == 1 && an_tensor_rank(b) == 1) return true;
    an_tensor_fail(a->graph, AN_ERR_SHAPE, "%s: shapes %s and %s: both must be vectors", call, an_text_shape(a).s,
                   an_text_shape(b).s);
    return false;
}

an_tensor *an_dot(an_tensor *a, an_tensor *b)
{
    if (!a || !b || !check_vectors(__func__, a, b)) return NULL;
    return an_matmul(a, b);
}

an_tensor *an_outer(an_tensor *a, an_tensor *b)
{
    if (!a || !b || !check_vectors(__func__, a, b)) return NULL;
    return an_mul(an_unsqueeze(a, 1), b);
}

an_tensor *an_linear(an_tensor *x, an_tensor *weight, an_tensor *bias)
{
    if (!x || !weight) return NULL;
    if (an_tensor_rank(weight) != 2 || (bias && an_tensor_rank(bias) != 1) || an_tensor_rank(x) == 0 ||
        !an_uop_eq(an_tensor_dim_uop(x, -1), an_tensor_dim_uop(weight, 1)) ||
        (bias && !an_uop_eq(an_tensor_dim_uop(bias, 0), an_tensor_dim_uop(weight, 0))))
        return an_tensor_fail(x->graph, AN_ERR_SHAPE,
                              "%s: x %s, weight %s, bias %s: they must be (..., in), (out, in) and (out,)", __func__,
                              an_text_shape(x).s, an_text_shape(weight).s, bias ? an_text_shape(bias).s : "none");
    an_tensor *y = an_matmul(x, an_transpose(weight, 0, 1));
    return bias ? an_add(y, bias) : y;
}
