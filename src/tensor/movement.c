/* movement.c - other shapes of the same elements. Each call is one or a few movement nodes; the scheduler turns them
 * into index arithmetic. */
#include "tensor/tensor.h"

/* --- reshape ----------------------------------------------------------------------------------------------------- */

static an_tensor *reshape_to(an_tensor *x, const an_uop *dims, uint32_t rank)
{
    const an_uop u = an_tensor_node(x);
    if (an_shape_eq(an_uop_shape(x->graph, u), (an_shape){rank, dims})) return an_tensor_wrap1(x, u);
    return an_tensor_wrap1(x, an_reshape_node(x->graph, u, dims, rank));
}

/* Replaces the one -1 in dims by what is left of numel; false if there are two or it does not divide. */
static bool infer_dim(int64_t numel, int64_t *dims, uint32_t rank)
{
    uint32_t at = rank;
    int64_t known = 1;
    for (uint32_t i = 0; i < rank; i++) {
        if (dims[i] == -1 && at == rank)
            at = i;
        else if (dims[i] < 0)
            return false;
        else if (dims[i] != 0 && known > INT64_MAX / dims[i])
            return false;
        else
            known *= dims[i];
    }
    if (at == rank) return known == numel;
    if (known == 0 || numel % known != 0) return false; /* 0 / 0 could be anything */
    dims[at] = numel / known;
    return true;
}

an_tensor *an_reshape(an_tensor *x, const int64_t *dims, uint32_t rank)
{
    int64_t in[AN_RANK_MAX], out[AN_RANK_MAX];
    an_uop d[AN_RANK_MAX];
    if (!x || !an_check_static(x, __func__, in)) return NULL;
    if (rank > AN_RANK_MAX)
        return an_tensor_fail(x->graph, AN_ERR_LIMIT, "%s: to %u axes: at most %d are supported", __func__, rank,
                              AN_RANK_MAX);
    for (uint32_t i = 0; i < rank; i++) out[i] = dims[i];
    const int64_t numel = an_tensor_numel(x);
    if (!infer_dim(numel, out, rank))
        return an_tensor_fail(x->graph, AN_ERR_SHAPE,
                              "%s: %s has %lld elements, which do not make shape %s; one dim may be -1, to be inferred",
                              __func__, an_text_shape(x).s, (long long)numel, an_text_dims(dims, rank).s);
    an_dims_to_uops(x->graph, out, rank, d);
    return reshape_to(x, d, rank);
}

an_tensor *an_reshape_uop(an_tensor *x, const an_uop *dims, uint32_t rank)
{
    if (!x) return NULL;
    an_graph *g = x->graph;
    if (rank > AN_RANK_MAX)
        return an_tensor_fail(g, AN_ERR_LIMIT, "%s: to %u axes: at most %d are supported", __func__, rank, AN_RANK_MAX);
    for (uint32_t i = 0; i < rank; i++)
        if (an_uop_is_none(dims[i])) return NULL;
    const an_uop want = an_shape_numel(g, (an_shape){rank, dims}), have = an_shape_numel(g, an_tensor_shape(x));
    int64_t a = 0, b = 0;
    if (!an_uop_is_none(want) && an_uop_int(g, want, &a) && an_uop_int(g, have, &b) && a != b)
        return an_tensor_fail(g, AN_ERR_SHAPE, "%s: %s has %lld elements, not %lld", __func__, an_text_shape(x).s,
                              (long long)b, (long long)a);
    return reshape_to(x, dims, rank);
}

an_tensor *an_flatten(an_tensor *x, int first, int last)
{
    uint32_t a = 0, b = 0, n = 0;
    if (!x || !an_check_axis(x, __func__, first, &a) || !an_check_axis(x, __func__, last, &b)) return NULL;
    if (a > b)
        return an_tensor_fail(x->graph, AN_ERR_ARG, "%s: axes %d to %d of shape %s: the first comes after the last",
                              __func__, first, last, an_text_shape(x).s);
    const an_shape s = an_tensor_shape(x);
    an_uop dims[AN_RANK_MAX];
    for (uint32_t i = 0; i < s.rank; i++) {
        if (i > a && i <= b)
            dims[n - 1] = an_idx_mul(x->graph, dims[n - 1], s.dims[i]);
        else
            dims[n++] = s.dims[i];
    }
    return an_reshape_uop(x, dims, n);
}

an_tensor *an_squeeze(an_tensor *x, int axis)
{
    uint32_t at = 0, n = 0;
    if (!x || !an_check_axis(x, __func__, axis, &at)) return NULL;
    const an_shape s = an_tensor_shape(x);
    if (!an_uop_is_int(x->graph, s.dims[at], 1))
        return an_tensor_fail(x->graph, AN_ERR_SHAPE, "%s: axis %d of shape %s is not 1; an_pick takes one of its elements",
                              __func__, axis, an_text_shape(x).s);
    an_uop dims[AN_RANK_MAX];
    for (uint32_t i = 0; i < s.rank; i++)
        if (i != at) dims[n++] = s.dims[i];
    return reshape_to(x, dims, n);
}

an_tensor *an_squeeze_all(an_tensor *x)
{
    if (!x) return NULL;
    const an_shape s = an_tensor_shape(x);
    an_uop dims[AN_RANK_MAX];
    uint32_t n = 0;
    for (uint32_t i = 0; i < s.rank; i++)
        if (!an_uop_is_int(x->graph, s.dims[i], 1)) dims[n++] = s.dims[i];
    return reshape_to(x, dims, n);
}

an_tensor *an_unsqueeze(an_tensor *x, int axis)
{
    if (!x) return NULL;
    const an_shape s = an_tensor_shape(x);
    const int64_t at = axis < 0 ? (int64_t)axis + s.rank + 1 : axis;
    if (at < 0 || at > (int64_t)s.rank)
        return an_tensor_fail(x->graph, AN_ERR_ARG, "%s: axis %d of shape %s: the new axis goes to %lld to %u", __func__,
                              axis, an_text_shape(x).s, -(long long)s.rank - 1, s.rank);
    if (s.rank == AN_RANK_MAX)
        return an_tensor_fail(x->graph, AN_ERR_LIMIT, "%s: shape %s has %d axes, the most that are supported", __func__,
                              an_text_shape(x).s, AN_RANK_MAX);
    an_uop dims[AN_RANK_MAX];
    for (uint32_t i = 0; i <= s.rank; i++) {
        const uint32_t from = i > (uint32_t)at ? i - 1 : i;
        dims[i] = i == (uint32_t)at ? an_index(x->graph, 1) : s.dims[from];
    }
    return reshape_to(x, dims, s.rank + 1);
}

/* --- order of axes ----------------------------------------------------------------------------------------------- */

static an_tensor *permute_to(an_tensor *x, const uint32_t *axes, uint32_t rank)
{
    bool same = true;
    for (uint32_t i = 0; i < rank; i++) same = same && axes[i] == i;
    const an_uop u = an_tensor_node(x);
    return an_tensor_wrap1(x, same ? u : an_permute_node(x->graph, u, axes, rank));
}

an_tensor *an_permute(an_tensor *x, const int64_t *axes, uint32_t rank)
{
    uint32_t order[AN_RANK_MAX], mask = 0;
    if (!x) return NULL;
    if (rank != an_tensor_rank(x))
        return an_tensor_fail(x->graph, AN_ERR_ARG, "%s: %u axes given for shape %s: name each of its axes once", __func__,
                              rank, an_text_shape(x).s);
    if (rank && !an_check_axes(x, __func__, axes, rank, &mask)) return NULL;
    for (uint32_t i = 0; i < rank; i++) order[i] = (uint32_t)(axes[i] < 0 ? axes[i] + rank : axes[i]);
    return permute_to(x, order, rank);
}

an_tensor *an_transpose(an_tensor *x, int a, int b)
{
    uint32_t i = 0, j = 0, order[AN_RANK_MAX];
    if (!x || !an_check_axis(x, __func__, a, &i) || !an_check_axis(x, __func__, b, &j)) return NULL;
    const uint32_t rank = an_tensor_rank(x);
    for (uint32_t k = 0; k < rank; k++) order[k] = k;
    order[i] = j;
    order[j] = i;
    return permute_to(x, order, rank);
}

an_tensor *an_flip(an_tensor *x, const int64_t *axes, uint32_t naxes)
{
    uint32_t mask = 0;
    if (!x || !an_check_axes(x, __func__, axes, naxes, &mask)) return NULL;
    const an_shape s = an_tensor_shape(x);
    for (uint32_t i = 0; i < s.rank; i++)
        if (an_uop_is_int(x->graph, s.dims[i], 1) || an_uop_is_int(x->graph, s.dims[i], 0)) mask &= ~(1u << i);
    return an_tensor_wrap1(x, an_flip_node(x->graph, an_tensor_node(x), mask));
}

/* --- broadcast --------------------------------------------------------------------------------------------------- */

/* Can an axis of from become to? */
static bool stretches(const an_graph *g, an_uop from, an_uop to)
{
    return an_uop_eq(from, to) || an_uop_is_int(g, from, 1);
}

an_tensor *an_tensor_stretch(an_tensor *x, const char *call, const an_uop *dims, uint32_t rank)
{
    an_graph *g = x->graph;
    const an_shape s = an_tensor_shape(x);
    bool ok = rank >= s.rank;
    for (uint32_t i = 0; i < rank; i++)
        if (an_uop_is_none(dims[i])) return NULL;
    for (uint32_t i = 0; ok && i < s.rank; i++) ok = stretches(g, s.dims[i], dims[rank - s.rank + i]);
    if (!ok) {
        an_tensor *want = an_tensor_wrap(g, an_expand_to(g, an_const_int(g, AN_BOOL, 0), dims, rank), NULL, 0);
        return want ? an_tensor_fail(g, AN_ERR_SHAPE,
                                     "%s: shape %s does not broadcast to %s; counted from the last, each of its axes must be "
                                     "equal or 1",
                                     call, an_text_shape(x).s, an_text_shape(want).s)
                    : NULL;
    }
    return an_tensor_wrap1(x, an_expand_to(g, an_tensor_node(x), dims, rank));
}

an_tensor *an_broadcast_to(an_tensor *x, const int64_t *dims, uint32_t rank)
{
    an_uop d[AN_RANK_MAX];
    if (!x || !an_check_dims(x->graph, __func__, an_tensor_dtype(x), dims, rank)) return NULL;
    an_dims_to_uops(x->graph, dims, rank, d);
    return an_tensor_stretch(x, __func__, d, rank);
}

an_tensor *an_broadcast_to_uop(an_tensor *x, const an_uop *dims, uint32_t rank)
{
    if (!x) return NULL;
    if (rank > AN_RANK_MAX)
        return an_tensor_fail(x->graph, AN_ERR_LIMIT, "%s: to %u axes: at most %d are supported", __func__, rank,
                              AN_RANK_MAX);
    return an_tensor_stretch(x, __func__, dims, rank);
}

an_tensor *an_broadcast_like(an_tensor *x, an_tensor *y)
{
    if (!x || !y || !an_check_graph(__func__, x, y)) return NULL;
    const an_shape s = an_tensor_shape(y);
    return an_tensor_stretch(x, __func__, s.dims, s.rank);
}

an_tensor *an_expand(an_tensor *x, const int64_t *dims, uint32_t rank)
{
    int64_t full[AN_RANK_MAX];
    an_uop d[AN_RANK_MAX];
    if (!x) return NULL;
    const an_shape s = an_tensor_shape(x);
    if (rank < s.rank || rank > AN_RANK_MAX)
        return an_tensor_fail(x->graph, AN_ERR_SHAPE, "%s: shape %s to %s: that has %s axes", __func__,
                              an_text_shape(x).s, an_text_dims(dims, rank).s, rank < s.rank ? "fewer" : "too many");
    for (uint32_t i = 0; i < rank; i++) {
        const bool keep = dims[i] == -1 && i >= rank - s.rank;
        full[i] = keep ? 1 : dims[i];
        d[i] = keep ? s.dims[i - (rank - s.rank)] : an_index(x->graph, dims[i]);
    }
    if (!an_check_dims(x->graph, __func__, an_tensor_dtype(x), full, rank)) return NULL;
    return an_tensor_stretch(x, __func__, d, rank);
}

/* --- pad and cut ------------------------------------------------------------------------------------------------- */

an_tensor *an_pad(an_tensor *x, const int64_t *before, const int64_t *after, uint32_t n, double value)
{
    if (!x) return NULL;
    an_graph *g = x->graph;
    const an_dtype d = an_tensor_dtype(x);
    const an_shape s = an_tensor_shape(x);
    an_uop b[AN_RANK_MAX], a[AN_RANK_MAX];
    int64_t size[AN_RANK_MAX];
    bool any = false;
    if (n != s.rank)
        return an_tensor_fail(g, AN_ERR_ARG, "%s: %u sizes for shape %s: give one for each axis, 0 for none", __func__, n,
                              an_text_shape(x).s);
    if (!an_dtype_holds(d, value))
        return an_tensor_fail(g, AN_ERR_DTYPE, "%s: %.17g is no value of %s", __func__, value, an_dtype_name(d));
    for (uint32_t i = 0; i < n; i++) {
        if (before[i] < 0 || after[i] < 0)
            return an_tensor_fail(g, AN_ERR_ARG, "%s: %lld before and %lld after axis %u: sizes are 0 or more; an_slice cuts",
                                  __func__, (long long)before[i], (long long)after[i], i);
        if (!an_uop_int(g, s.dims[i], &size[i])) size[i] = 0;
        if (before[i] > INT64_MAX / 4 || after[i] > INT64_MAX / 4 || size[i] > INT64_MAX / 4)
            return an_tensor_fail(g, AN_ERR_LIMIT, "%s: axis %u would have too many elements", __func__, i);
        size[i] += before[i] + after[i];
        any = any || before[i] || after[i];
    }
    if (!an_check_dims(g, __func__, d, size, n)) return NULL;
    const an_uop u = an_tensor_node(x);
    if (!any) return an_tensor_wrap1(x, u);
    an_dims_to_uops(g, before, n, b);
    an_dims_to_uops(g, after, n, a);
    an_uop padded = an_pad_node(g, u, b, a);
    /* Padding is zeros. Another value goes where a padded mask of ones has them; -0.0 is another value. */
    const an_tensor *c = an_const_of(x, value);
    if (!c) return NULL;
    if (an_uop_const_value(g, c->uop).u != 0) {
        const an_uop ones = an_expand_to(g, an_const_int(g, AN_BOOL, 1), s.dims, s.rank);
        padded = an_select(g, an_pad_node(g, ones, b, a), padded, c->uop);
    }
    return an_tensor_wrap1(x, padded);
}

/* x[begin:end) on one axis. */
static an_tensor *cut(an_tensor *x, uint32_t axis, int64_t begin, int64_t end)
{
    if (!x) return NULL;
    an_graph *g = x->graph;
    const an_shape s = an_tensor_shape(x);
    an_uop b[AN_RANK_MAX], e[AN_RANK_MAX];
    const an_uop u = an_tensor_node(x);
    if (begin == 0 && an_uop_is_int(g, s.dims[axis], end)) return an_tensor_wrap1(x, u);
    for (uint32_t i = 0; i < s.rank; i++) {
        b[i] = an_index(g, i == axis ? begin : 0);
        e[i] = i == axis ? an_index(g, end) : s.dims[i];
    }
    return an_tensor_wrap1(x, an_shrink_node(g, u, b, e));
}

/* Every step-th element of an axis of n, from the first: pad to whole steps, split them off, keep the first of each. */
static an_tensor *stride_axis(an_tensor *x, uint32_t axis, int64_t n, int64_t step)
{
    if (!x || step == 1 || n <= 1) return x;
    an_graph *g = x->graph;
    const int64_t count = (n - 1) / step + 1;
    /* A step beyond the axis takes one element, however large it is. */
    if (count == 1) return cut(x, axis, 0, 1);
    const an_shape s = an_tensor_shape(x);
    if (s.rank == AN_RANK_MAX)
        return an_tensor_fail(g, AN_ERR_LIMIT, "an_slice: a step on shape %s, which has %d axes: one more is needed",
                              an_text_shape(x).s, AN_RANK_MAX);
    an_uop zero[AN_RANK_MAX], after[AN_RANK_MAX], dims[AN_RANK_MAX];
    for (uint32_t i = 0; i < s.rank; i++) {
        zero[i] = an_index(g, 0);
        after[i] = i == axis ? an_index(g, count * step - n) : zero[i];
    }
    an_uop u = an_tensor_node(x);
    if (count * step != n) u = an_pad_node(g, u, zero, after);
    for (uint32_t i = 0; i < s.rank; i++) dims[i < axis ? i : i + 1] = s.dims[i];
    dims[axis] = an_index(g, count);
    dims[axis + 1] = an_index(g, step);
    u = an_reshape_node(g, u, dims, s.rank + 1);
    x = cut(an_tensor_wrap1(x, u), axis + 1, 0, 1);
    return an_squeeze(x, (int)axis + 1);
}

/* Python's reading of a bound: PySlice_AdjustIndices. */
static int64_t adjust(int64_t bound, int64_t n, int64_t low, int64_t high)
{
    if (bound < 0) bound += n;
    return bound < low ? low : bound > high ? high : bound;
}

an_tensor *an_slice(an_tensor *x, int axis, int64_t begin, int64_t end, int64_t step)
{
    uint32_t at = 0;
    int64_t n = 0;
    if (!x || !an_check_axis(x, __func__, axis, &at)) return NULL;
    if (!an_uop_int(x->graph, an_tensor_shape(x).dims[at], &n))
        return an_tensor_fail(x->graph, AN_ERR_UNSUPPORTED, "%s: axis %d of shape %s is symbolic; use an_shrink_uop",
                              __func__, axis, an_text_shape(x).s);
    if (step == 0 || step == INT64_MIN)
        return an_tensor_fail(x->graph, AN_ERR_ARG, "%s: step %lld: it must be a number other than 0", __func__,
                              (long long)step);
    if (step > 0) {
        begin = begin == AN_NONE ? 0 : adjust(begin, n, 0, n);
        end = end == AN_NONE ? n : adjust(end, n, 0, n);
        if (begin >= end) return cut(x, at, 0, 0);
        return stride_axis(cut(x, at, begin, end), at, end - begin, step);
    }
    begin = begin == AN_NONE ? n - 1 : adjust(begin, n, -1, n - 1);
    end = end == AN_NONE ? -1 : adjust(end, n, -1, n - 1);
    if (begin <= end) return cut(x, at, 0, 0);
    an_tensor *part = cut(x, at, end + 1, begin + 1);
    part = an_flip(part, (int64_t[]){at}, 1);
    return stride_axis(part, at, begin - end, -step);
}

an_tensor *an_shrink(an_tensor *x, const int64_t *begin, const int64_t *end, uint32_t n)
{
    int64_t dims[AN_RANK_MAX];
    an_uop b[AN_RANK_MAX], e[AN_RANK_MAX];
    if (!x || !an_check_static(x, __func__, dims)) return NULL;
    bool ok = n == an_tensor_rank(x);
    for (uint32_t i = 0; ok && i < n; i++) ok = 0 <= begin[i] && begin[i] <= end[i] && end[i] <= dims[i];
    if (!ok)
        return an_tensor_fail(x->graph, AN_ERR_ARG, "%s: from %s to %s does not lie in shape %s", __func__,
                              an_text_dims(begin, n).s, an_text_dims(end, n).s, an_text_shape(x).s);
    an_dims_to_uops(x->graph, begin, n, b);
    an_dims_to_uops(x->graph, end, n, e);
    return an_shrink_uop(x, b, e, n);
}

an_tensor *an_shrink_uop(an_tensor *x, const an_uop *begin, const an_uop *end, uint32_t n)
{
    if (!x) return NULL;
    an_graph *g = x->graph;
    const an_shape s = an_tensor_shape(x);
    if (n != s.rank)
        return an_tensor_fail(g, AN_ERR_ARG, "%s: %u bounds for shape %s: give one for each axis", __func__, n,
                              an_text_shape(x).s);
    bool all = true;
    for (uint32_t i = 0; i < n; i++) {
        if (an_uop_is_none(begin[i]) || an_uop_is_none(end[i])) return NULL;
        int64_t b = 0, e = 0, d = INT64_MAX;
        an_uop_int(g, s.dims[i], &d);
        if (an_uop_int(g, begin[i], &b) && an_uop_int(g, end[i], &e) && (b < 0 || e < b || e > d))
            return an_tensor_fail(g, AN_ERR_ARG, "%s: %lld to %lld does not lie in axis %u of shape %s", __func__,
                                  (long long)b, (long long)e, i, an_text_shape(x).s);
        all = all && an_uop_is_int(g, begin[i], 0) && an_uop_eq(end[i], s.dims[i]);
    }
    const an_uop u = an_tensor_node(x);
    return an_tensor_wrap1(x, all ? u : an_shrink_node(g, u, begin, end));
}

an_tensor *an_pick(an_tensor *x, int axis, int64_t index)
{
    uint32_t at = 0;
    int64_t n = 0;
    if (!x || !an_check_axis(x, __func__, axis, &at)) return NULL;
    const bool known = an_uop_int(x->graph, an_tensor_shape(x).dims[at], &n);
    const int64_t i = known && index < 0 ? index + n : index;
    if (i < 0 || (known && i >= n))
        return an_tensor_fail(x->graph, AN_ERR_ARG, "%s: index %lld on axis %d of shape %s: there is no such element",
                              __func__, (long long)index, axis, an_text_shape(x).s);
    x = cut(x, at, i, i + 1);
    return an_squeeze(x, (int)at);
}
