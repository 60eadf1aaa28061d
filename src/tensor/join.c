/* join.c - joining, splitting and repeating. */
#include "tensor/tensor.h"

/* --- joining ----------------------------------------------------------------------------------------------------- */

/* Are all axes but the given one (or all, for rank) equal? */
static bool equal_but(const an_tensor *a, const an_tensor *b, uint32_t axis)
{
    const an_shape s = an_tensor_shape(a), t = an_tensor_shape(b);
    if (s.rank != t.rank) return false;
    for (uint32_t i = 0; i < s.rank; i++)
        if (i != axis && !an_uop_eq(s.dims[i], t.dims[i])) return false;
    return true;
}

static bool any_null(an_tensor *const *xs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!xs[i]) return true;
    return n == 0;
}

/* Each part padded to the whole, chosen where a mask padded the same way is true. Not a sum: that would turn -0 into 0. */
static an_tensor *join(an_tensor *const *xs, size_t n, uint32_t axis, an_dtype dtype, an_uop total)
{
    an_graph *g = xs[0]->graph;
    an_uop before[AN_RANK_MAX], after[AN_RANK_MAX], at = total;
    const uint32_t rank = an_tensor_rank(xs[0]);
    an_tensor *result = NULL;
    for (uint32_t i = 0; i < rank; i++) before[i] = after[i] = an_index(g, 0);
    for (size_t k = n; k-- > 0;) {
        const an_uop size = an_tensor_shape(xs[k]).dims[axis];
        if (an_uop_is_int(g, size, 0) && (result || k > 0)) continue;
        after[axis] = an_dim_sub(g, total, at);
        at = an_dim_sub(g, at, size);
        before[axis] = at;
        an_tensor *x = an_cast(xs[k], dtype);
        an_tensor *part = an_pad_uop(x, before, after, rank, 0);
        if (result) {
            an_tensor *mask = an_pad_uop(an_ones_like(an_cast(x, AN_BOOL)), before, after, rank, 0);
            part = an_where(mask, part, result);
        }
        if (!part) return NULL;
        result = part;
    }
    return result;
}

an_tensor *an_cat(an_tensor *const *xs, size_t n, int axis)
{
    if (any_null(xs, n)) return NULL;
    uint32_t at = 0;
    an_tensor *first = xs[0];
    an_graph *g = first->graph;
    if (!an_check_axis(first, __func__, axis, &at)) return NULL;
    an_dtype dtype = an_tensor_dtype(first);
    an_uop total = an_index(g, 0);
    for (size_t k = 0; k < n; k++) {
        if (!an_check_graph(__func__, first, xs[k])) return NULL;
        if (!equal_but(first, xs[k], at))
            return an_tensor_fail(g, AN_ERR_SHAPE, "%s: shapes %s and %s (number %zu) differ in more than axis %u", __func__,
                                  an_text_shape(first).s, an_text_shape(xs[k]).s, k, at);
        total = an_dim_add(g, total, an_tensor_shape(xs[k]).dims[at]);
        if (an_uop_is_none(total)) return NULL;
        if (an_dims_most(g, total) > INT64_MAX / 4 || an_dims_most(g, total) < 0)
            return an_tensor_fail(g, AN_ERR_LIMIT, "%s: axis %u would have too many elements", __func__, at);
        dtype = an_dtype_promote(dtype, an_tensor_dtype(xs[k]));
    }
    return join(xs, n, at, dtype, total);
}

an_tensor *an_stack(an_tensor *const *xs, size_t n, int axis)
{
    if (any_null(xs, n)) return NULL;
    an_graph *g = xs[0]->graph;
    an_ctx *ctx = an_graph_ctx(g);
    an_tensor *result = NULL, **rows = an_mem_zalloc(ctx, n * sizeof *rows);
    if (!rows) return NULL;
    for (size_t k = 0; k < n; k++) {
        if (!an_check_graph(__func__, xs[0], xs[k])) goto done;
        if (!equal_but(xs[0], xs[k], AN_RANK_MAX)) {
            an_tensor_fail(g, AN_ERR_SHAPE, "%s: shapes %s and %s (number %zu) differ", __func__, an_text_shape(xs[0]).s,
                           an_text_shape(xs[k]).s, k);
            goto done;
        }
        rows[k] = an_unsqueeze(xs[k], axis);
        if (!rows[k]) goto done;
    }
    /* A negative axis counts in the result, as unsqueeze does. */
    result = an_cat(rows, n, axis);
done:
    an_mem_free(ctx, rows, n * sizeof *rows);
    return result;
}

/* --- splitting --------------------------------------------------------------------------------------------------- */

/* The size of an axis that must be a number. */
static bool axis_size(an_tensor *x, const char *call, int axis, uint32_t *at, int64_t *n)
{
    if (!an_check_axis(x, call, axis, at)) return false;
    if (an_uop_int(x->graph, an_tensor_shape(x).dims[*at], n)) return true;
    an_tensor_fail(x->graph, AN_ERR_UNSUPPORTED, "%s: axis %d of shape %s is symbolic", call, axis, an_text_shape(x).s);
    return false;
}

static an_status status_of(const an_tensor *x)
{
    return x ? an_ctx_status(an_graph_ctx(x->graph)) : AN_ERR_ARG;
}

/* Cuts x into n parts of size(k) = k-th size, the last ones shorter. Writes out when all are made. */
static an_status cut_up(an_tensor *x, const int64_t *sizes, int64_t size, uint32_t n, uint32_t axis, int64_t dim,
                        an_tensor **out)
{
    an_ctx *ctx = an_graph_ctx(x->graph);
    an_tensor **parts = an_mem_zalloc(ctx, n * sizeof *parts);
    if (!parts) return AN_ERR_NOMEM;
    an_status st = AN_OK;
    int64_t at = 0;
    for (uint32_t k = 0; k < n && !st; k++) {
        const int64_t want = sizes ? sizes[k] : size, end = want < dim - at ? at + want : dim;
        parts[k] = an_slice(x, (int)axis, at, end, 1);
        if (!parts[k]) st = status_of(x);
        at = end;
    }
    if (!st && n) memcpy(out, parts, n * sizeof *parts);
    an_mem_free(ctx, parts, n * sizeof *parts);
    return st;
}

an_status an_split(an_tensor *x, const int64_t *sizes, uint32_t n, int axis, an_tensor **out)
{
    uint32_t at = 0;
    int64_t dim = 0, left = 0;
    if (!x) return AN_ERR_ARG;
    if (!axis_size(x, __func__, axis, &at, &dim)) return status_of(x);
    left = dim;
    for (uint32_t k = 0; k < n && left >= 0; k++) left = sizes[k] < 0 || sizes[k] > left ? -1 : left - sizes[k];
    if (left != 0) {
        an_tensor_fail(x->graph, AN_ERR_SHAPE, "%s: sizes %s do not add up to axis %d of shape %s", __func__,
                       an_text_dims(sizes, n).s, axis, an_text_shape(x).s);
        return AN_ERR_SHAPE;
    }
    return cut_up(x, sizes, 0, n, at, dim, out);
}

an_status an_chunk(an_tensor *x, uint32_t n, int axis, an_tensor **out)
{
    uint32_t at = 0;
    int64_t dim = 0;
    if (!x) return AN_ERR_ARG;
    if (!axis_size(x, __func__, axis, &at, &dim)) return status_of(x);
    if (n == 0) {
        an_tensor_fail(x->graph, AN_ERR_ARG, "%s: into 0 parts: at least 1 is needed", __func__);
        return AN_ERR_ARG;
    }
    return cut_up(x, NULL, (dim + n - 1) / n, n, at, dim, out);
}

/* --- repeating --------------------------------------------------------------------------------------------------- */

/* Each axis d becomes (t, d) stretched from (1, d), or (d, t) from (d, 1); then one axis again. Axes with t = 1 stay whole,
 * so that the rank in between is small. */
static an_tensor *repeat(an_tensor *x, const char *call, const int64_t *times, bool inner)
{
    an_graph *g = x->graph;
    const an_shape s = an_tensor_shape(x);
    an_uop from[2 * AN_RANK_MAX], to[2 * AN_RANK_MAX], out[AN_RANK_MAX];
    uint32_t n = 0;
    for (uint32_t i = 0; i < s.rank; i++) {
        const an_uop t = an_index(g, times[i]);
        out[i] = an_dim_mul(g, s.dims[i], t);
        if (times[i] == 1) {
            from[n] = to[n] = s.dims[i];
            n++;
            continue;
        }
        from[n + inner] = an_index(g, 1);
        to[n + inner] = t;
        from[n + !inner] = to[n + !inner] = s.dims[i];
        n += 2;
    }
    if (n > AN_RANK_MAX)
        return an_tensor_fail(g, AN_ERR_LIMIT, "%s: of shape %s: it takes %u axes on the way, and at most %d are supported",
                              call, an_text_shape(x).s, n, AN_RANK_MAX);
    an_uop u = an_tensor_node(x);
    if (n == s.rank) return an_tensor_wrap1(x, u);
    u = an_reshape_node(g, u, from, n);
    u = an_expand_node(g, u, to, n);
    return an_tensor_wrap1(x, an_reshape_node(g, u, out, s.rank));
}

/* Sizes after repeating must be legal; symbolic axes are vouched for. */
static bool check_times(an_tensor *x, const char *call, const int64_t *times)
{
    int64_t dims[AN_RANK_MAX];
    const an_shape s = an_tensor_shape(x);
    for (uint32_t i = 0; i < s.rank; i++) {
        if (times[i] < 0) {
            an_tensor_fail(x->graph, AN_ERR_ARG, "%s: %lld times: it must be 0 or more", call, (long long)times[i]);
            return false;
        }
        if (!an_uop_int(x->graph, s.dims[i], &dims[i])) dims[i] = 1;
        if (dims[i] && times[i] > INT64_MAX / dims[i]) {
            an_tensor_fail(x->graph, AN_ERR_LIMIT, "%s: axis %u would have too many elements", call, i);
            return false;
        }
        dims[i] *= times[i];
    }
    return an_check_dims(x->graph, call, an_tensor_dtype(x), dims, s.rank);
}

an_tensor *an_repeat(an_tensor *x, const int64_t *times, uint32_t n)
{
    if (!x) return NULL;
    const uint32_t rank = an_tensor_rank(x);
    if (n < rank || n > AN_RANK_MAX)
        return an_tensor_fail(x->graph, AN_ERR_ARG, "%s: %u numbers for shape %s: give one for each axis; more are new "
                              "axes in front, up to %d", __func__, n, an_text_shape(x).s, AN_RANK_MAX);
    for (uint32_t i = rank; i < n && x; i++) x = an_unsqueeze(x, 0);
    if (!x || !check_times(x, __func__, times)) return NULL;
    return repeat(x, __func__, times, false);
}

an_tensor *an_repeat_interleave(an_tensor *x, int64_t times, int axis)
{
    uint32_t at = 0;
    int64_t all[AN_RANK_MAX];
    if (!x || !an_check_axis(x, __func__, axis, &at)) return NULL;
    for (uint32_t i = 0; i < AN_RANK_MAX; i++) all[i] = i == at ? times : 1;
    return check_times(x, __func__, all) ? repeat(x, __func__, all, true) : NULL;
}

an_tensor *an_roll(an_tensor *x, int64_t shift, int axis)
{
    uint32_t at = 0;
    int64_t n = 0, twice[AN_RANK_MAX];
    if (!x || !an_check_axis(x, __func__, axis, &at)) return NULL;
    an_graph *g = x->graph;
    const an_shape s = an_tensor_shape(x);
    const an_uop dim = s.dims[at];
    an_uop begin = AN_UOP_NONE, b[AN_RANK_MAX], e[AN_RANK_MAX];
    if (an_uop_int(g, dim, &n)) {
        begin = an_index(g, n ? ((-(shift % n)) % n + n) % n : 0);
    } else {
        if (an_dims_le(g, an_index(g, 1), dim) != AN_YES || shift < -INT32_MAX || shift > INT32_MAX)
            return an_tensor_fail(g, AN_ERR_UNSUPPORTED, "%s: by %lld along axis %d of shape %s: a symbolic axis must have at least 1 "
                                  "element, and the shift fit 32 bits", __func__, (long long)shift, axis, an_text_shape(x).s);
        begin = shift ? an_binary(g, AN_OP_FLOORMOD, an_index(g, -shift), dim) : an_index(g, 0);
    }
    if (an_uop_is_int(g, begin, 0)) return an_tensor_same(x);
    for (uint32_t i = 0; i < AN_RANK_MAX; i++) twice[i] = i == at ? 2 : 1;
    if (!check_times(x, __func__, twice)) return NULL;
    /* A window into two copies end to end. */
    x = repeat(x, __func__, twice, false);
    for (uint32_t i = 0; i < s.rank; i++) {
        b[i] = i == at ? begin : an_index(g, 0);
        e[i] = i == at ? an_dim_add(g, begin, dim) : s.dims[i];
    }
    return an_shrink_uop(x, b, e, s.rank);
}

an_tensor *an_diagonal(an_tensor *x)
{
    if (!x) return NULL;
    an_graph *g = x->graph;
    const uint32_t rank = an_tensor_rank(x);
    const an_uop n = an_tensor_dim_uop(x, -1);
    if (rank < 2 || !an_uop_eq(an_tensor_dim_uop(x, -2), n))
        return an_tensor_fail(g, AN_ERR_SHAPE, "%s: shape %s: the last two axes must be equal", __func__, an_text_shape(x).s);
    /* In rows of n + 1 the diagonal is the first column. */
    an_uop zero[AN_RANK_MAX], after[AN_RANK_MAX], dims[AN_RANK_MAX];
    for (uint32_t i = 0; i < rank; i++) zero[i] = after[i] = an_index(g, 0);
    x = an_flatten(x, -2, -1);
    after[rank - 2] = n;
    x = an_pad_uop(x, zero, after, rank - 1, 0);
    if (!x) return NULL;
    const an_shape s = an_tensor_shape(x);
    for (uint32_t i = 0; i + 1 < s.rank; i++) dims[i] = s.dims[i];
    dims[rank - 2] = n;
    dims[rank - 1] = an_dim_add(g, n, an_index(g, 1));
    x = an_reshape_uop(x, dims, rank);
    return an_pick(x, -1, 0);
}
