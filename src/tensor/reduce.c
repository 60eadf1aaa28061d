/* reduce.c - reductions, running sums and softmax. Floats narrower than f32 are cast to f32, reduced, and rounded once at
 * the end. */
#include "tensor/tensor.h"

#include <math.h>

/* --- the one reduction ------------------------------------------------------------------------------------------- */

/* How many elements are reduced: false where it is symbolic. */
static bool reduced_count(an_tensor *x, uint32_t mask, int64_t *count)
{
    const an_shape s = an_tensor_shape(x);
    *count = 1;
    for (uint32_t i = 0; i < s.rank; i++) {
        int64_t d = 0;
        if (!(mask >> i & 1u)) continue;
        if (!an_uop_int(x->graph, s.dims[i], &d)) return false;
        *count *= d;
    }
    return true;
}

/* The shape without the reduced axes, or with 1 in their place. */
static an_tensor *drop_axes(an_tensor *x, uint32_t mask)
{
    if (!x) return NULL;
    const an_shape s = an_tensor_shape(x);
    an_uop dims[AN_RANK_MAX];
    uint32_t n = 0;
    for (uint32_t i = 0; i < s.rank; i++)
        if (!(mask >> i & 1u)) dims[n++] = s.dims[i];
    return an_reshape_uop(x, dims, n);
}

static an_tensor *reduce(an_op op, an_tensor *x, uint32_t mask, bool keepdim)
{
    if (!x) return NULL;
    an_graph *g = x->graph;
    const an_shape s = an_tensor_shape(x);
    an_uop dims[AN_RANK_MAX];
    uint32_t real = 0; /* axes of 1 are reduced already */
    int64_t count = 1;
    for (uint32_t i = 0; i < s.rank; i++) {
        dims[i] = mask >> i & 1u ? an_index(g, 1) : s.dims[i];
        if (mask >> i & 1u && !an_uop_is_int(g, s.dims[i], 1)) real |= 1u << i;
    }
    an_uop u = an_tensor_node(x);
    if (reduced_count(x, mask, &count) && count == 0) {
        const an_uop c = an_const(g, an_tensor_dtype(x), an_reduce_identity(op, an_tensor_dtype(x)));
        u = an_expand_to(g, c, dims, s.rank);
    } else {
        u = an_reduce_axis(g, op, u, real);
    }
    an_tensor *y = an_tensor_wrap1(x, u);
    return keepdim ? y : drop_axes(y, mask);
}

/* The dtype that sums and products of d come out in. */
static an_dtype sum_dtype(an_dtype d)
{
    if (d == AN_BOOL || d == AN_I8 || d == AN_I16) return AN_I32;
    if (d == AN_U8 || d == AN_U16) return AN_U32;
    return d;
}

static an_tensor *accumulate(const char *call, an_op op, an_tensor *x, const int64_t *axes, uint32_t naxes, bool keepdim)
{
    uint32_t mask = 0;
    if (!x || !an_check_axes(x, call, axes, naxes, &mask)) return NULL;
    const an_dtype d = sum_dtype(an_tensor_dtype(x));
    return an_cast(reduce(op, an_cast(x, an_dtype_accumulate(d)), mask, keepdim), d);
}

an_tensor *an_sum(an_tensor *x, const int64_t *axes, uint32_t naxes, bool keepdim)
{
    return accumulate(__func__, AN_OP_ADD, x, axes, naxes, keepdim);
}

an_tensor *an_prod(an_tensor *x, const int64_t *axes, uint32_t naxes, bool keepdim)
{
    return accumulate(__func__, AN_OP_MUL, x, axes, naxes, keepdim);
}

/* --- extremes ---------------------------------------------------------------------------------------------------- */

/* False, with a sentence, if there is nothing to choose from. */
static bool check_not_empty(an_tensor *x, const char *call, uint32_t mask)
{
    int64_t count = 0;
    if (!reduced_count(x, mask, &count) || count != 0) return true;
    an_tensor_fail(x->graph, AN_ERR_SHAPE, "%s: over no elements of shape %s: there is none to choose", call,
                   an_text_shape(x).s);
    return false;
}

static an_tensor *extreme(const char *call, an_op op, an_tensor *x, const int64_t *axes, uint32_t naxes, bool keepdim)
{
    uint32_t mask = 0;
    if (!x || !an_check_axes(x, call, axes, naxes, &mask) || !check_not_empty(x, call, mask)) return NULL;
    return reduce(op, x, mask, keepdim);
}

an_tensor *an_max(an_tensor *x, const int64_t *axes, uint32_t naxes, bool keepdim)
{
    return extreme(__func__, AN_OP_MAX, x, axes, naxes, keepdim);
}

an_tensor *an_min(an_tensor *x, const int64_t *axes, uint32_t naxes, bool keepdim)
{
    return extreme(__func__, AN_OP_MIN, x, axes, naxes, keepdim);
}

an_tensor *an_any(an_tensor *x, const int64_t *axes, uint32_t naxes, bool keepdim)
{
    uint32_t mask = 0;
    if (!x || !an_check_axes(x, __func__, axes, naxes, &mask)) return NULL;
    return reduce(AN_OP_MAX, an_cast(x, AN_BOOL), mask, keepdim);
}

an_tensor *an_all(an_tensor *x, const int64_t *axes, uint32_t naxes, bool keepdim)
{
    uint32_t mask = 0;
    if (!x || !an_check_axes(x, __func__, axes, naxes, &mask)) return NULL;
    return reduce(AN_OP_MIN, an_cast(x, AN_BOOL), mask, keepdim);
}

/* The least number of an element that equals the extreme, or is NaN: the extreme is NaN only if one is. */
static an_tensor *arg_extreme(const char *call, an_op op, an_tensor *x, int axis, bool keepdim)
{
    uint32_t at = 0;
    if (!x || !an_check_axis(x, call, axis, &at) || !check_not_empty(x, call, 1u << at)) return NULL;
    an_tensor *best = reduce(op, x, 1u << at, true), *hit = an_eq(x, best);
    if (an_is_float(an_tensor_dtype(x))) hit = an_logical_or(hit, an_isnan(x));
    an_tensor *i = an_iota_along(x, AN_I32, at);
    if (!i) return NULL;
    return reduce(AN_OP_MIN, an_where(hit, i, an_const_of(i, INT32_MAX)), 1u << at, keepdim);
}

an_tensor *an_argmax(an_tensor *x, int axis, bool keepdim)
{
    return arg_extreme(__func__, AN_OP_MAX, x, axis, keepdim);
}

an_tensor *an_argmin(an_tensor *x, int axis, bool keepdim)
{
    return arg_extreme(__func__, AN_OP_MIN, x, axis, keepdim);
}

/* --- averages ---------------------------------------------------------------------------------------------------- */

/* The number of reduced elements less a correction, as a constant (or an expression over symbols) of x's dtype. */
static an_tensor *count_of(an_tensor *x, uint32_t mask, int64_t correction)
{
    an_graph *g = x->graph;
    const an_shape s = an_tensor_shape(x);
    int64_t n = 0;
    if (reduced_count(x, mask, &n)) return an_const_of(x, n > correction ? (double)(n - correction) : 0.0);
    an_uop count = an_index(g, 1);
    for (uint32_t i = 0; i < s.rank; i++)
        if (mask >> i & 1u) count = an_dim_mul(g, count, s.dims[i]);
    count = an_dims_max(g, an_dim_sub(g, count, an_index(g, correction)), an_index(g, 0));
    return an_tensor_wrap(g, an_cast_to(g, an_tensor_dtype(x), count), NULL, 0);
}

/* Mean of a float as wide as sums are taken in. */
static an_tensor *wide_mean(an_tensor *x, uint32_t mask, bool keepdim)
{
    return x ? an_div(reduce(AN_OP_ADD, x, mask, keepdim), count_of(x, mask, 0)) : NULL;
}

an_tensor *an_mean(an_tensor *x, const int64_t *axes, uint32_t naxes, bool keepdim)
{
    uint32_t mask = 0;
    x = an_to_float(x);
    if (!x || !an_check_axes(x, __func__, axes, naxes, &mask)) return NULL;
    const an_dtype d = an_tensor_dtype(x);
    return an_cast(wide_mean(an_cast(x, an_dtype_accumulate(d)), mask, keepdim), d);
}

static an_tensor *wide_var(an_tensor *x, uint32_t mask, int64_t correction, bool keepdim)
{
    an_tensor *d = an_sub(x, wide_mean(x, mask, true));
    an_tensor *sum = reduce(AN_OP_ADD, an_mul(d, d), mask, keepdim);
    return sum ? an_div(sum, count_of(x, mask, correction)) : NULL;
}

an_tensor *an_var(an_tensor *x, const int64_t *axes, uint32_t naxes, int64_t correction, bool keepdim)
{
    uint32_t mask = 0;
    x = an_to_float(x);
    if (!x || !an_check_axes(x, __func__, axes, naxes, &mask)) return NULL;
    const an_dtype d = an_tensor_dtype(x);
    return an_cast(wide_var(an_cast(x, an_dtype_accumulate(d)), mask, correction, keepdim), d);
}

an_tensor *an_std(an_tensor *x, const int64_t *axes, uint32_t naxes, int64_t correction, bool keepdim)
{
    uint32_t mask = 0;
    x = an_to_float(x);
    if (!x || !an_check_axes(x, __func__, axes, naxes, &mask)) return NULL;
    const an_dtype d = an_tensor_dtype(x);
    return an_cast(an_sqrt(wide_var(an_cast(x, an_dtype_accumulate(d)), mask, correction, keepdim)), d);
}

an_tensor *an_norm(an_tensor *x, const int64_t *axes, uint32_t naxes, bool keepdim)
{
    uint32_t mask = 0;
    x = an_to_float(x);
    if (!x || !an_check_axes(x, __func__, axes, naxes, &mask)) return NULL;
    const an_dtype d = an_tensor_dtype(x);
    x = an_cast(x, an_dtype_accumulate(d));
    return an_cast(an_sqrt(reduce(AN_OP_ADD, an_mul(x, x), mask, keepdim)), d);
}

/* --- exponentials ------------------------------------------------------------------------------------------------ */

/* What is taken off before exponentiating: the greatest element. It cancels out, so no gradient flows through it. */
static an_tensor *greatest(an_tensor *x, uint32_t mask)
{
    return an_detach(reduce(AN_OP_MAX, x, mask, true));
}

an_tensor *an_logsumexp(an_tensor *x, const int64_t *axes, uint32_t naxes, bool keepdim)
{
    uint32_t mask = 0;
    x = an_to_float(x);
    if (!x || !an_check_axes(x, __func__, axes, naxes, &mask) || !check_not_empty(x, __func__, mask)) return NULL;
    const an_dtype d = an_tensor_dtype(x);
    x = an_cast(x, an_dtype_accumulate(d));
    an_tensor *m = greatest(x, mask);
    if (!m) return NULL;
    m = an_where(an_isinf(m), an_const_of(m, 0), m); /* inf - inf would be NaN */
    an_tensor *y = an_add(an_log(reduce(AN_OP_ADD, an_exp(an_sub(x, m)), mask, true)), m);
    return an_cast(keepdim ? y : drop_axes(y, mask), d);
}

an_tensor *an_softmax(an_tensor *x, int axis)
{
    uint32_t at = 0;
    x = an_to_float(x);
    if (!x || !an_check_axis(x, __func__, axis, &at)) return NULL;
    const an_dtype d = an_tensor_dtype(x);
    x = an_cast(x, an_dtype_accumulate(d));
    an_tensor *e = an_exp(an_sub(x, greatest(x, 1u << at)));
    return an_cast(an_mul(e, an_reciprocal(reduce(AN_OP_ADD, e, 1u << at, true))), d); /* the sum is at least 1 */
}

an_tensor *an_log_softmax(an_tensor *x, int axis)
{
    uint32_t at = 0;
    x = an_to_float(x);
    if (!x || !an_check_axis(x, __func__, axis, &at)) return NULL;
    const an_dtype d = an_tensor_dtype(x);
    x = an_cast(x, an_dtype_accumulate(d));
    an_tensor *z = an_sub(x, greatest(x, 1u << at));
    return an_cast(an_sub(z, an_log(reduce(AN_OP_ADD, an_exp(z), 1u << at, true))), d);
}

/* --- running sums ------------------------------------------------------------------------------------------------ */

enum { CUMSUM_PLAIN = 64, CUMSUM_BLOCK = 32 };

/* Running sum along the last axis of n: a masked sum of all for each. exclusive leaves the element itself out. */
static an_tensor *plain_cumsum(an_tensor *x, bool exclusive)
{
    an_tensor *row = an_unsqueeze(x, -2); /* (..., 1, from) */
    if (!row) return NULL;
    const uint32_t rank = an_tensor_rank(row);
    an_tensor *from = an_iota_along(row, AN_I32, rank - 1);
    an_tensor *to = an_transpose(from, -1, -2);
    an_tensor *before = exclusive ? an_lt(from, to) : an_le(from, to);
    return an_squeeze(reduce(AN_OP_ADD, an_where(before, row, an_const_of(row, 0)), 1u << (rank - 1), true), -1);
}

/* x[begin:end) of the last axis, or with so many zeros before and after it. */
static an_tensor *last_axis(an_tensor *x, bool pads, an_uop first, an_uop second)
{
    an_uop a[AN_RANK_MAX], b[AN_RANK_MAX];
    if (!x) return NULL;
    const an_shape s = an_tensor_shape(x);
    for (uint32_t i = 0; i + 1 < s.rank; i++) {
        a[i] = an_index(x->graph, 0);
        b[i] = pads ? a[i] : s.dims[i];
    }
    a[s.rank - 1] = first;
    b[s.rank - 1] = second;
    return pads ? an_pad_uop(x, a, b, s.rank, 0) : an_shrink_uop(x, a, b, s.rank);
}

/* (..., n) to (..., blocks, CUMSUM_BLOCK), zeros at the end. */
static an_tensor *in_blocks(an_tensor *x, an_uop n)
{
    if (!x) return NULL;
    an_graph *g = x->graph;
    const uint32_t rank = an_tensor_rank(x);
    const an_uop blocks = an_dims_ceil_div(g, n, CUMSUM_BLOCK), block = an_index(g, CUMSUM_BLOCK);
    x = last_axis(x, true, an_index(g, 0), an_dim_sub(g, an_dim_mul(g, blocks, block), n));
    if (!x) return NULL;
    an_uop dims[AN_RANK_MAX + 1];
    const an_shape s = an_tensor_shape(x);
    for (uint32_t i = 0; i + 1 < rank; i++) dims[i] = s.dims[i];
    dims[rank - 1] = blocks;
    dims[rank] = block;
    return an_reshape_uop(x, dims, rank + 1);
}

/* Running sums within blocks, then the running sum of the blocks' totals added to each: level by level, until the
 * totals are few. levels[k] holds the sums within blocks of level k, sizes[k] its length. */
static an_tensor *blocked_cumsum(an_tensor *x, an_uop n)
{
    enum { LEVELS = 16 }; /* 32^16 elements are more than there can be */
    an_tensor *levels[LEVELS];
    an_uop sizes[LEVELS];
    an_graph *g = x->graph;
    int depth = 0;
    for (; an_dims_most(g, n) > CUMSUM_PLAIN && depth < LEVELS; depth++) {
        an_tensor *inside = plain_cumsum(in_blocks(x, n), false);
        if (!inside) return NULL;
        levels[depth] = inside;
        sizes[depth] = n;
        x = an_contiguous(an_pick(inside, -1, -1)); /* each block's total */
        n = an_dims_ceil_div(g, n, CUMSUM_BLOCK);
    }
    x = plain_cumsum(x, true);
    while (depth-- > 0 && x) {
        an_tensor *sum = an_flatten(an_add(levels[depth], an_unsqueeze(x, -1)), -2, -1);
        sum = last_axis(sum, false, an_index(g, 0), sizes[depth]);
        /* The level above needs it exclusive: moved by one, 0 in front. */
        if (depth > 0 && sum) sum = last_axis(last_axis(sum, true, an_index(g, 1), an_index(g, 0)), false, an_index(g, 0), sizes[depth]);
        x = sum;
    }
    return x;
}

an_tensor *an_cumsum(an_tensor *x, int axis)
{
    uint32_t at = 0;
    if (!x || !an_check_axis(x, __func__, axis, &at)) return NULL;
    if (an_tensor_rank(x) == AN_RANK_MAX)
        return an_tensor_fail(x->graph, AN_ERR_LIMIT, "%s: shape %s has %d axes, and one more is needed", __func__,
                              an_text_shape(x).s, AN_RANK_MAX);
    const an_uop n = an_tensor_shape(x).dims[at];
    const an_dtype d = sum_dtype(an_tensor_dtype(x));
    x = an_cast(x, an_dtype_accumulate(d));
    x = an_transpose(x, (int)at, -1);
    if (!x || an_dims_most(x->graph, n) == INT64_MAX) return NULL;
    x = an_dims_most(x->graph, n) > CUMSUM_PLAIN ? blocked_cumsum(x, n) : plain_cumsum(x, false);
    return an_cast(an_transpose(x, (int)at, -1), d);
}
