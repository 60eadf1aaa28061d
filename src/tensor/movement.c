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

/* The same for a symbolic numel. */
static bool infer_dim_uop(an_graph *g, an_uop numel, const int64_t *dims, uint32_t rank, an_uop *out)
{
    uint32_t at = rank;
    an_uop known = an_index(g, 1);
    for (uint32_t i = 0; i < rank; i++) {
        out[i] = an_index(g, dims[i]);
        if (dims[i] < -1 || (dims[i] == -1 && at != rank)) return false;
        if (dims[i] == -1)
            at = i;
        else
            known = an_dim_mul(g, known, out[i]);
    }
    return at == rank || an_dim_divides(g, numel, known, &out[at]);
}

an_tensor *an_reshape(an_tensor *x, const int64_t *dims, uint32_t rank)
{
    int64_t out[AN_RANK_MAX];
    an_uop d[AN_RANK_MAX];
    if (!x) return NULL;
    an_graph *g = x->graph;
    if (rank > AN_RANK_MAX)
        return an_tensor_fail(g, AN_ERR_LIMIT, "%s: to %u axes: at most %d are supported", __func__, rank, AN_RANK_MAX);
    for (uint32_t i = 0; i < rank; i++) out[i] = dims[i];
    const int64_t numel = an_tensor_numel(x);
    if (numel < 0) {
        if (infer_dim_uop(g, an_shape_numel(g, an_tensor_shape(x)), dims, rank, d)) return an_reshape_uop(x, d, rank);
        return an_tensor_fail(g, AN_ERR_SHAPE, "%s: shape %s does not make shape %s whatever its symbols are; one dim may be -1, to "
                              "be inferred", __func__, an_text_shape(x).s, an_text_dims(dims, rank).s);
    }
    if (!infer_dim(numel, out, rank))
        return an_tensor_fail(g, AN_ERR_SHAPE,
                              "%s: %s has %lld elements, which do not make shape %s; one dim may be -1, to be inferred",
                              __func__, an_text_shape(x).s, (long long)numel, an_text_dims(dims, rank).s);
    an_dims_to_uops(g, out, rank, d);
    return reshape_to(x, d, rank);
}

an_tensor *an_reshape_uop(an_tensor *x, const an_uop *dims, uint32_t rank)
{
    if (!x) return NULL;
    an_graph *g = x->graph;
    if (rank > AN_RANK_MAX)
        return an_tensor_fail(g, AN_ERR_LIMIT, "%s: to %u axes: at most %d are supported", __func__, rank, AN_RANK_MAX);
    if (!an_check_dims_uop(g, __func__, an_tensor_dtype(x), dims, rank)) return NULL;
    const an_uop want = an_shape_numel(g, (an_shape){rank, dims}), have = an_shape_numel(g, an_tensor_shape(x));
    if (!an_uop_is_none(want) && !an_uop_is_none(have) && an_dims_equal(g, want, have) == AN_NO)
        return an_tensor_fail(g, AN_ERR_SHAPE, "%s: %s has %s elements, and shape %s has %s: they are never equal", __func__,
                              an_text_shape(x).s, an_text_dim(g, have).s, an_text_uops(g, dims, rank).s, an_text_dim(g, want).s);
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
            dims[n - 1] = an_dim_mul(x->graph, dims[n - 1], s.dims[i]);
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

/* before and after are 0 or more as far as is known. */
static an_tensor *pad(an_tensor *x, const char *call, const an_uop *before, const an_uop *after, uint32_t n, double value)
{
    an_graph *g = x->graph;
    const an_dtype d = an_tensor_dtype(x);
    const an_shape s = an_tensor_shape(x);
    an_uop size[AN_RANK_MAX];
    bool any = false;
    if (!an_dtype_holds(d, value))
        return an_tensor_fail(g, AN_ERR_DTYPE, "%s: %.17g is no value of %s", call, value, an_dtype_name(d));
    for (uint32_t i = 0; i < n; i++) {
        int64_t most = 0;
        if (an_uop_int(g, s.dims[i], &most) && most > INT64_MAX / 4)
            return an_tensor_fail(g, AN_ERR_LIMIT, "%s: axis %u would have too many elements", call, i);
        size[i] = an_dim_add(g, an_dim_add(g, s.dims[i], before[i]), after[i]);
        any = any || !an_uop_is_int(g, before[i], 0) || !an_uop_is_int(g, after[i], 0);
    }
    if (!an_check_dims_uop(g, call, d, size, n)) return NULL;
    const an_uop u = an_tensor_node(x);
    if (!any) return an_tensor_wrap1(x, u);
    an_uop padded = an_pad_node(g, u, before, after);
    /* Padding is zeros. Another value goes where a padded mask of ones has them; -0.0 is another value. */
    const an_tensor *c = an_const_of(x, value);
    if (!c) return NULL;
    if (an_uop_const_value(g, c->uop).u != 0) {
        const an_uop ones = an_expand_to(g, an_const_int(g, AN_BOOL, 1), s.dims, s.rank);
        padded = an_select(g, an_pad_node(g, ones, before, after), padded, c->uop);
    }
    return an_tensor_wrap1(x, padded);
}

an_tensor *an_pad(an_tensor *x, const int64_t *before, const int64_t *after, uint32_t n, double value)
{
    an_uop b[AN_RANK_MAX], a[AN_RANK_MAX];
    if (!x) return NULL;
    if (n != an_tensor_rank(x))
        return an_tensor_fail(x->graph, AN_ERR_ARG, "%s: %u sizes for shape %s: give one for each axis, 0 for none", __func__, n,
                              an_text_shape(x).s);
    for (uint32_t i = 0; i < n; i++) {
        if (before[i] < 0 || after[i] < 0)
            return an_tensor_fail(x->graph, AN_ERR_ARG,
                                  "%s: %lld before and %lld after axis %u: sizes are 0 or more; an_slice cuts", __func__,
                                  (long long)before[i], (long long)after[i], i);
        if (before[i] > INT64_MAX / 4 || after[i] > INT64_MAX / 4)
            return an_tensor_fail(x->graph, AN_ERR_LIMIT, "%s: axis %u would have too many elements", __func__, i);
    }
    an_dims_to_uops(x->graph, before, n, b);
    an_dims_to_uops(x->graph, after, n, a);
    return pad(x, __func__, b, a, n, value);
}

an_tensor *an_pad_uop(an_tensor *x, const an_uop *before, const an_uop *after, uint32_t n, double value)
{
    if (!x) return NULL;
    an_graph *g = x->graph;
    if (n != an_tensor_rank(x))
        return an_tensor_fail(g, AN_ERR_ARG, "%s: %u sizes for shape %s: give one for each axis, 0 for none", __func__, n,
                              an_text_shape(x).s);
    for (uint32_t i = 0; i < n; i++) {
        if (an_uop_is_none(before[i]) || an_uop_is_none(after[i])) return NULL;
        const int64_t most[2] = {an_dims_most(g, before[i]), an_dims_most(g, after[i])};
        if (most[0] < 0 || most[1] < 0 || most[0] == INT64_MAX || most[1] == INT64_MAX)
            return an_tensor_fail(g, AN_ERR_ARG, "%s: %s before and %s after axis %u: sizes are 0 or more; an_shrink_uop cuts", __func__,
                                  an_text_dim(g, before[i]).s, an_text_dim(g, after[i]).s, i);
    }
    return pad(x, __func__, before, after, n, value);
}

/* x[begin:end) on one axis. */
static an_tensor *cut_uop(an_tensor *x, uint32_t axis, an_uop begin, an_uop end)
{
    if (!x) return NULL;
    an_graph *g = x->graph;
    const an_shape s = an_tensor_shape(x);
    an_uop b[AN_RANK_MAX], e[AN_RANK_MAX];
    const an_uop u = an_tensor_node(x);
    if (an_uop_is_int(g, begin, 0) && an_uop_eq(s.dims[axis], end)) return an_tensor_wrap1(x, u);
    for (uint32_t i = 0; i < s.rank; i++) {
        b[i] = i == axis ? begin : an_index(g, 0);
        e[i] = i == axis ? end : s.dims[i];
    }
    return an_tensor_wrap1(x, an_shrink_node(g, u, b, e));
}

static an_tensor *cut(an_tensor *x, uint32_t axis, int64_t begin, int64_t end)
{
    return x ? cut_uop(x, axis, an_index(x->graph, begin), an_index(x->graph, end)) : NULL;
}

/* Every step-th element of an axis of n, from the first: pad to whole steps, split them off, keep the first of each. */
static an_tensor *stride_axis(an_tensor *x, uint32_t axis, an_uop n, int64_t step)
{
    int64_t most = 0;
    if (!x || step == 1 || (most = an_dims_most(x->graph, n)) <= 1) return x;
    if (most == INT64_MAX) return NULL;
    an_graph *g = x->graph;
    /* A step beyond the axis takes one element (or none, of none), however large it is. */
    if (step >= most) return cut_uop(x, axis, an_index(g, 0), an_dims_min(g, n, an_index(g, 1)));
    const an_shape s = an_tensor_shape(x);
    const an_uop count = an_dims_ceil_div(g, n, step), whole = an_dim_mul(g, count, an_index(g, step));
    if (s.rank == AN_RANK_MAX)
        return an_tensor_fail(g, AN_ERR_LIMIT, "an_slice: a step on shape %s, which has %d axes: one more is needed",
                              an_text_shape(x).s, AN_RANK_MAX);
    an_uop zero[AN_RANK_MAX], after[AN_RANK_MAX], dims[AN_RANK_MAX];
    for (uint32_t i = 0; i < s.rank; i++) {
        zero[i] = an_index(g, 0);
        after[i] = i == axis ? an_dim_sub(g, whole, n) : zero[i];
    }
    an_uop u = an_tensor_node(x);
    if (!an_uop_eq(whole, n)) u = an_pad_node(g, u, zero, after);
    for (uint32_t i = 0; i < s.rank; i++) dims[i < axis ? i : i + 1] = s.dims[i];
    dims[axis] = count;
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

/* The same where n is symbolic, of the element itself or the one behind it: clipped to 0..n. */
static an_uop adjust_uop(an_graph *g, int64_t bound, bool behind, an_uop n)
{
    if (bound >= 0) return an_dims_min(g, an_index(g, bound + behind), n);
    return an_dims_max(g, an_dim_add(g, n, an_index(g, bound + behind)), an_index(g, 0));
}

static an_tensor *slice_symbolic(an_tensor *x, uint32_t at, int64_t begin, int64_t end, int64_t step)
{
    an_graph *g = x->graph;
    const an_uop n = an_tensor_shape(x).dims[at];
    const bool down = step < 0; /* from begin to behind end: in rising order from behind end to behind begin */
    const int64_t first = down ? end : begin, last = down ? begin : end;
    const an_uop b = first == AN_NONE ? an_index(g, 0) : adjust_uop(g, first, down, n);
    const an_uop e = an_dims_max(g, b, last == AN_NONE ? n : adjust_uop(g, last, down, n));
    an_tensor *part = cut_uop(x, at, b, e);
    if (step < 0) part = an_flip(part, (int64_t[]){at}, 1);
    return stride_axis(part, at, an_dim_sub(g, e, b), step < 0 ? -step : step);
}

an_tensor *an_slice(an_tensor *x, int axis, int64_t begin, int64_t end, int64_t step)
{
    uint32_t at = 0;
    int64_t n = 0;
    if (!x || !an_check_axis(x, __func__, axis, &at)) return NULL;
    an_graph *g = x->graph;
    if (step == 0 || step == INT64_MIN)
        return an_tensor_fail(g, AN_ERR_ARG, "%s: step %lld: it must be a number other than 0", __func__, (long long)step);
    if (!an_uop_int(g, an_tensor_shape(x).dims[at], &n)) {
        const int64_t most = INT64_C(1) << 40; /* beyond every axis */
        if (begin != AN_NONE) begin = begin > most ? most : begin < -most ? -most : begin;
        if (end != AN_NONE) end = end > most ? most : end < -most ? -most : end;
        return slice_symbolic(x, at, begin, end, step);
    }
    if (step > 0) {
        begin = begin == AN_NONE ? 0 : adjust(begin, n, 0, n);
        end = end == AN_NONE ? n : adjust(end, n, 0, n);
        if (begin >= end) return cut(x, at, 0, 0);
        return stride_axis(cut(x, at, begin, end), at, an_index(g, end - begin), step);
    }
    begin = begin == AN_NONE ? n - 1 : adjust(begin, n, -1, n - 1);
    end = end == AN_NONE ? -1 : adjust(end, n, -1, n - 1);
    if (begin <= end) return cut(x, at, 0, 0);
    an_tensor *part = cut(x, at, end + 1, begin + 1);
    part = an_flip(part, (int64_t[]){at}, 1);
    return stride_axis(part, at, an_index(g, begin - end), -step);
}

an_tensor *an_shrink(an_tensor *x, const int64_t *begin, const int64_t *end, uint32_t n)
{
    int64_t dims[AN_RANK_MAX];
    an_uop b[AN_RANK_MAX], e[AN_RANK_MAX];
    if (!x) return NULL;
    if (an_shape_static(x->graph, an_tensor_shape(x), dims)) {
        bool ok = n == an_tensor_rank(x);
        for (uint32_t i = 0; ok && i < n; i++) ok = 0 <= begin[i] && begin[i] <= end[i] && end[i] <= dims[i];
        if (!ok)
            return an_tensor_fail(x->graph, AN_ERR_ARG, "%s: from %s to %s does not lie in shape %s", __func__,
                                  an_text_dims(begin, n).s, an_text_dims(end, n).s, an_text_shape(x).s);
    }
    if (n > AN_RANK_MAX) n = AN_RANK_MAX;
    an_dims_to_uops(x->graph, begin, n, b);
    an_dims_to_uops(x->graph, end, n, e);
    return an_shrink_uop(x, b, e, n);
}

an_tensor *an_shrink_uop(an_tensor *x, const an_uop *begin, const an_uop *end, uint32_t n)
{
    if (!x) return NULL;
    an_graph *g = x->graph;
    const an_shape s = an_tensor_shape(x);
    const an_uop zero = an_index(g, 0);
    if (n != s.rank)
        return an_tensor_fail(g, AN_ERR_ARG, "%s: %u bounds for shape %s: give one for each axis", __func__, n,
                              an_text_shape(x).s);
    bool all = true;
    for (uint32_t i = 0; i < n; i++) {
        if (an_uop_is_none(begin[i]) || an_uop_is_none(end[i])) return NULL;
        if (an_dims_le(g, zero, begin[i]) == AN_NO || an_dims_le(g, begin[i], end[i]) == AN_NO || an_dims_le(g, end[i], s.dims[i]) == AN_NO)
            return an_tensor_fail(g, AN_ERR_ARG, "%s: %s to %s does not lie in axis %u of shape %s", __func__,
                                  an_text_dim(g, begin[i]).s, an_text_dim(g, end[i]).s, i, an_text_shape(x).s);
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
    if (!known && index < 0 && index > -(INT64_C(1) << 40)) { /* from a symbolic end */
        an_graph *g = x->graph;
        const an_uop from = an_dim_add(g, an_tensor_shape(x).dims[at], an_index(g, index));
        if (an_dims_le(g, an_index(g, 0), from) != AN_NO) return an_squeeze(cut_uop(x, at, from, an_dim_add(g, from, an_index(g, 1))), (int)at);
    }
    if (i < 0 || (known && i >= n) || (!known && i >= an_dims_most(x->graph, an_tensor_shape(x).dims[at])))
        return an_tensor_fail(x->graph, AN_ERR_ARG, "%s: index %lld on axis %d of shape %s: there is no such element",
                              __func__, (long long)index, axis, an_text_shape(x).s);
    x = cut(x, at, i, i + 1);
    return an_squeeze(x, (int)at);
}
