/* index.c - reading and writing by index. There is no gather in the IR: an index is compared with 0..n-1, and the one
 * element that matches is summed out. The scheduler knows the form
 *     reduce_axis add (where (cmpeq index iota) x 0)
 * and turns it into a load at the index. An index outside 0..n-1 matches nothing and reads 0. */
#include "tensor/tensor.h"

/* The dtype in which an index is compared with 0..n-1: its own if they fit it, so that no number wraps around to a match. */
static an_dtype number_dtype(const an_tensor *index, an_uop n)
{
    int64_t size = INT32_MAX; /* symbolic sizes are not larger */
    an_uop_int(index->graph, n, &size);
    if (size == 0 || an_dtype_holds(an_tensor_dtype(index), (double)(size - 1))) return an_tensor_dtype(index);
    return size <= INT32_MAX ? AN_I32 : AN_I64;
}

/* Where index, with a last axis of 1, equals the number on that axis, now 0..n-1. */
static an_tensor *matches(an_tensor *index, an_uop n)
{
    if (!index) return NULL;
    const an_dtype d = number_dtype(index, n);
    an_tensor *number = an_tensor_wrap(index->graph, an_iota_node(index->graph, d, n), NULL, 0);
    return an_eq(an_cast(index, d), number);
}

/* The sum over the last axis of x where hit, else 0; the dtype stays (one element matches, so nothing overflows). */
static an_tensor *pick_last(an_tensor *hit, an_tensor *x)
{
    if (!x) return NULL;
    an_tensor *y = an_where(hit, x, an_const_of(x, 0));
    if (!y) return NULL;
    const an_dtype d = an_tensor_dtype(y);
    return an_cast(d == AN_BOOL ? an_any(y, AN_DIMS(-1), false) : an_sum(y, AN_DIMS(-1), false), d);
}

an_tensor *an_gather(an_tensor *x, int axis, an_tensor *index)
{
    uint32_t at = 0;
    if (!x || !index || !an_check_graph(__func__, x, index) || !an_check_axis(x, __func__, axis, &at)) return NULL;
    if (!an_check_integer(index, __func__, "index")) return NULL;
    an_graph *g = x->graph;
    const an_shape s = an_tensor_shape(x), t = an_tensor_shape(index);
    bool ok = s.rank == t.rank && s.rank < AN_RANK_MAX;
    an_uop begin[AN_RANK_MAX], end[AN_RANK_MAX];
    for (uint32_t i = 0; ok && i < s.rank; i++) {
        int64_t a = 0, b = 0;
        begin[i] = an_index(g, 0);
        end[i] = i == at ? s.dims[i] : t.dims[i];
        ok = i == at || an_uop_eq(s.dims[i], t.dims[i]) ||
             (an_uop_int(g, s.dims[i], &a) && an_uop_int(g, t.dims[i], &b) && b <= a);
    }
    if (!ok)
        return an_tensor_fail(g, AN_ERR_SHAPE,
                              "%s: x %s, index %s, axis %d: both need the same number of axes, and off that axis index must "
                              "not be larger",
                              __func__, an_text_shape(x).s, an_text_shape(index).s, axis);
    x = an_shrink_uop(x, begin, end, s.rank);
    x = an_transpose(an_unsqueeze(x, -1), (int)at, -1); /* (.., 1, .., n) */
    return pick_last(matches(an_unsqueeze(index, -1), s.dims[at]), x);
}

an_tensor *an_take(an_tensor *x, an_tensor *index, int axis)
{
    uint32_t at = 0;
    if (!x || !index || !an_check_graph(__func__, x, index) || !an_check_axis(x, __func__, axis, &at)) return NULL;
    if (!an_check_integer(index, __func__, "index")) return NULL;
    an_graph *g = x->graph;
    const an_shape s = an_tensor_shape(x), t = an_tensor_shape(index);
    const uint32_t rank = s.rank - 1 + t.rank;
    if (rank + 1 > AN_RANK_MAX)
        return an_tensor_fail(g, AN_ERR_LIMIT, "%s: x %s by index %s has %u axes, and one more is needed of %d", __func__,
                              an_text_shape(x).s, an_text_shape(index).s, rank, AN_RANK_MAX);
    /* x      (A.., n, B..) -> (A.., 1.., B.., n)
     * index  (I..)         ->      (I.., 1.., 1)   against it from the right */
    int64_t order[AN_RANK_MAX];
    an_uop dims[AN_RANK_MAX];
    for (uint32_t i = 0; i < s.rank; i++) order[i] = i < at ? i : i + 1 < s.rank ? i + 1 : at;
    an_tensor *rows = an_permute(x, order, s.rank);
    for (uint32_t i = 0; i < t.rank && rows; i++) rows = an_unsqueeze(rows, (int)at);
    for (uint32_t i = 0; i < t.rank; i++) dims[i] = t.dims[i];
    for (uint32_t i = t.rank; i < t.rank + s.rank - at; i++) dims[i] = an_index(g, 1);
    an_tensor *by = an_reshape_uop(index, dims, t.rank + s.rank - at);
    return rows && by ? pick_last(matches(by, s.dims[at]), rows) : NULL;
}

an_tensor *an_index_select(an_tensor *x, int axis, an_tensor *index)
{
    if (!x || !index) return NULL;
    if (an_tensor_rank(index) != 1)
        return an_tensor_fail(x->graph, AN_ERR_SHAPE, "%s: index %s: it must be a vector; an_take takes others", __func__,
                              an_text_shape(index).s);
    return an_take(x, index, axis);
}

an_tensor *an_embedding(an_tensor *table, an_tensor *index)
{
    if (!table || !index) return NULL;
    if (an_tensor_rank(table) != 2)
        return an_tensor_fail(table->graph, AN_ERR_SHAPE, "%s: table %s: it must be (rows, dim)", __func__,
                              an_text_shape(table).s);
    return an_take(table, index, 0);
}

an_tensor *an_scatter_add(an_tensor *x, int axis, an_tensor *index, an_tensor *src)
{
    uint32_t at = 0;
    if (!x || !index || !src) return NULL;
    if (!an_check_graph(__func__, x, index) || !an_check_graph(__func__, x, src)) return NULL;
    if (!an_check_axis(x, __func__, axis, &at) || !an_check_integer(index, __func__, "index")) return NULL;
    an_graph *g = x->graph;
    const an_shape s = an_tensor_shape(x), t = an_tensor_shape(index);
    int64_t zero[AN_RANK_MAX] = {0}, after[AN_RANK_MAX] = {0};
    bool ok = s.rank == t.rank && s.rank < AN_RANK_MAX && an_shape_eq(t, an_tensor_shape(src));
    for (uint32_t i = 0; ok && i < s.rank; i++) {
        int64_t a = 0, b = 0;
        if (i == at || an_uop_eq(s.dims[i], t.dims[i])) continue;
        ok = an_uop_int(g, s.dims[i], &a) && an_uop_int(g, t.dims[i], &b) && b <= a;
        after[i] = a - b;
    }
    if (!ok)
        return an_tensor_fail(g, AN_ERR_SHAPE,
                              "%s: x %s, index %s, src %s, axis %d: index and src must be equal, have as many axes as x, and "
                              "off that axis not be larger",
                              __func__, an_text_shape(x).s, an_text_shape(index).s, an_text_shape(src).s, axis);
    const an_dtype d = an_tensor_dtype(x);
    if (an_dtype_promote(d, an_tensor_dtype(src)) != d)
        return an_tensor_fail(g, AN_ERR_DTYPE, "%s: src is %s and x %s: an_cast one of them", __func__,
                              an_dtype_name(an_tensor_dtype(src)), an_dtype_name(d));
    /* hit (.., n, .., m): target row against source row. */
    const an_dtype wide = an_dtype_accumulate(d);
    an_tensor *from = an_transpose(an_unsqueeze(an_cast(src, wide), -1), (int)at, -1);
    an_tensor *to = an_transpose(an_unsqueeze(index, -1), (int)at, -1);
    if (!from || !to) return NULL;
    an_uop dims[AN_RANK_MAX];
    for (uint32_t i = 0; i < s.rank; i++) dims[i] = i == at ? s.dims[i] : an_index(g, 1);
    dims[s.rank] = an_index(g, 1);
    const an_dtype number = number_dtype(index, s.dims[at]);
    an_tensor *row = an_tensor_wrap(g, an_reshape_node(g, an_iota_node(g, number, s.dims[at]), dims, s.rank + 1), NULL, 0);
    an_tensor *part = an_where(an_eq(an_cast(to, number), row), from, from ? an_const_of(from, 0) : NULL);
    an_tensor *sum = d == AN_BOOL ? an_any(part, AN_DIMS(-1), false) : an_cast(an_sum(part, AN_DIMS(-1), false), wide);
    sum = an_pad(sum, zero, after, s.rank, 0);
    return an_cast(an_add(an_cast(x, wide), sum), d);
}

an_tensor *an_one_hot(an_tensor *index, int64_t n, an_dtype dtype)
{
    if (!index || !an_check_integer(index, __func__, "index")) return NULL;
    if (n < 0)
        return an_tensor_fail(index->graph, AN_ERR_ARG, "%s: %lld classes: it must be 0 or more", __func__, (long long)n);
    an_tensor *last = an_unsqueeze(index, -1);
    return last ? an_cast(matches(last, an_index(index->graph, n)), dtype) : NULL;
}
