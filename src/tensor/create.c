/* create.c - tensors from the host, constants, number sequences and triangles. */
#include "tensor/tensor.h"
#include "runtime/runtime.h"

#include <math.h>

an_tensor *an_tensor_place(an_graph *g, an_dtype dtype, const int64_t *dims, uint32_t rank, const void *data)
{
    return an_tensor_wrap(g, an_runtime_from_host(g, dtype, dims, rank, data), NULL, 0);
}

an_tensor *an_tensor_from_host(an_graph *g, an_dtype dtype, const int64_t *dims, uint32_t rank, const void *data)
{
    if (!an_check_dtype(g, __func__, dtype) || !an_check_dims(g, __func__, dtype, dims, rank)) return NULL;
    if (an_runtime_capture(g))
        return an_tensor_fail(g, AN_ERR_ARG, "%s: a function is being captured, and its replays would see the data of now; make the tensor "
                              "before, or an argument", __func__);
    return an_tensor_place(g, dtype, dims, rank, data);
}

/* c, a rank-0 constant, stretched to dims. */
static an_tensor *full(an_graph *g, const char *call, an_dtype dtype, const int64_t *dims, uint32_t rank, an_scalar v)
{
    an_uop d[AN_RANK_MAX];
    if (!an_check_dims(g, call, dtype, dims, rank)) return NULL;
    an_dims_to_uops(g, dims, rank, d);
    return an_tensor_wrap(g, an_expand_to(g, an_const(g, dtype, v), d, rank), NULL, 0);
}

static bool check_holds(an_graph *g, const char *call, an_dtype dtype, double value)
{
    if (!an_check_dtype(g, call, dtype)) return false;
    if (an_dtype_holds(dtype, value)) return true;
    an_tensor_fail(g, AN_ERR_DTYPE, "%s: %.17g is no value of %s", call, value, an_dtype_name(dtype));
    return false;
}

static an_scalar to_scalar(an_dtype dtype, double value)
{
    if (an_is_float(dtype)) return (an_scalar){.f = value};
    if (dtype == AN_U64) return (an_scalar){.u = (uint64_t)value};
    return (an_scalar){.i = (int64_t)value};
}

an_tensor *an_full(an_graph *g, an_dtype dtype, const int64_t *dims, uint32_t rank, double value)
{
    if (!check_holds(g, __func__, dtype, value)) return NULL;
    return full(g, __func__, dtype, dims, rank, to_scalar(dtype, value));
}

an_tensor *an_full_i64(an_graph *g, an_dtype dtype, const int64_t *dims, uint32_t rank, int64_t value)
{
    if (!an_check_dtype(g, __func__, dtype)) return NULL;
    an_scalar v = {.i = value};
    if (an_is_float(dtype)) {
        v.f = (double)value;
    } else if (dtype == AN_U64 ? value < 0 : dtype != AN_I64 && !an_dtype_holds(dtype, (double)value)) {
        return an_tensor_fail(g, AN_ERR_DTYPE, "%s: %lld is no value of %s", __func__, (long long)value,
                              an_dtype_name(dtype));
    }
    return full(g, __func__, dtype, dims, rank, v);
}

an_tensor *an_zeros(an_graph *g, an_dtype dtype, const int64_t *dims, uint32_t rank)
{
    if (!an_check_dtype(g, __func__, dtype)) return NULL;
    return full(g, __func__, dtype, dims, rank, to_scalar(dtype, 0.0));
}

an_tensor *an_ones(an_graph *g, an_dtype dtype, const int64_t *dims, uint32_t rank)
{
    if (!an_check_dtype(g, __func__, dtype)) return NULL;
    return full(g, __func__, dtype, dims, rank, to_scalar(dtype, 1.0));
}

an_tensor *an_full_like(an_tensor *x, double value)
{
    if (!x || !check_holds(x->graph, __func__, an_tensor_dtype(x), value)) return NULL;
    const an_shape s = an_tensor_shape(x);
    an_tensor *c = an_const_of(x, value);
    return c ? an_tensor_wrap(x->graph, an_expand_to(x->graph, c->uop, s.dims, s.rank), NULL, 0) : NULL;
}

an_tensor *an_zeros_like(an_tensor *x)
{
    return an_full_like(x, 0.0);
}

an_tensor *an_ones_like(an_tensor *x)
{
    return an_full_like(x, 1.0);
}

an_tensor *an_scalar_f64(an_graph *g, an_dtype dtype, double value)
{
    if (!check_holds(g, __func__, dtype, value)) return NULL;
    return full(g, __func__, dtype, AN_SCALAR, to_scalar(dtype, value));
}

an_tensor *an_scalar_i64(an_graph *g, an_dtype dtype, int64_t value)
{
    return an_full_i64(g, dtype, AN_SCALAR, value);
}

/* --- sequences --------------------------------------------------------------------------------------------------- */

/* 0..n-1 in the dtype that products with it are taken in. */
static an_tensor *counting(an_graph *g, an_dtype dtype, int64_t n)
{
    const an_dtype count = n <= INT32_MAX ? AN_I32 : AN_I64;
    if (!an_check_dims(g, "an_arange", dtype, &n, 1)) return NULL;
    an_tensor *i = an_tensor_wrap(g, an_iota_node(g, an_is_float(dtype) ? count : dtype, an_index(g, n)), NULL, 0);
    return an_cast(i, an_dtype_accumulate(dtype));
}

an_tensor *an_arange(an_graph *g, an_dtype dtype, double start, double stop, double step)
{
    if (!an_check_dtype(g, __func__, dtype)) return NULL;
    if (dtype == AN_BOOL) return an_tensor_fail(g, AN_ERR_DTYPE, "%s: dtype bool has no numbers to count in", __func__);
    if (!(isfinite(start) && isfinite(stop) && isfinite(step)) || step == 0)
        return an_tensor_fail(g, AN_ERR_ARG, "%s: from %g to %g by %g: they must be finite, and the step not 0",
                              __func__, start, stop, step);
    const double count = ceil((stop - start) / step);
    const int64_t n = count <= 0 ? 0 : count < 9e18 ? (int64_t)count : INT64_MAX;
    const double last = n ? start + (double)(n - 1) * step : start;
    if (!an_dtype_holds(dtype, start) || !an_dtype_holds(dtype, last) || !an_dtype_holds(AN_I64, an_is_float(dtype) ? 1 : step))
        return an_tensor_fail(g, AN_ERR_DTYPE, "%s: from %g to %g by %g does not fit %s", __func__, start, stop, step,
                              an_dtype_name(dtype));
    an_tensor *i = counting(g, dtype, n);
    if (!i) return NULL;
    /* In unsigned dtypes a falling step wraps around to the right numbers. */
    const an_dtype d = an_tensor_dtype(i);
    const an_scalar by = an_is_float(d) ? (an_scalar){.f = step} : (an_scalar){.i = (int64_t)step};
    an_tensor *k = an_tensor_wrap(g, an_const(g, d, by), NULL, 0);
    if (step != 1) i = an_mul(i, k);
    if (start != 0) i = an_add(i, an_const_of(i, start));
    return an_cast(i, dtype);
}

an_tensor *an_linspace(an_graph *g, an_dtype dtype, double start, double stop, int64_t n)
{
    if (!an_check_float(g, __func__, dtype)) return NULL;
    an_tensor *i = counting(g, dtype, n);
    if (!i || n < 2) return an_cast(an_full_like(i, start), dtype);
    /* The last one is stop itself, whatever the steps round to. */
    an_tensor *x = an_add_scalar(an_mul_scalar(i, (stop - start) / (double)(n - 1)), start);
    x = an_where(an_lt_scalar(i, (double)(n - 1)), x, an_const_of(x, stop));
    return an_cast(x, dtype);
}

an_tensor *an_arange_uop(an_graph *g, an_dtype dtype, an_uop n)
{
    if (!an_check_dtype(g, __func__, dtype) || an_uop_is_none(n)) return NULL;
    if (dtype == AN_BOOL) return an_tensor_fail(g, AN_ERR_DTYPE, "%s: dtype bool has no numbers to count in", __func__);
    if (!an_check_dims_uop(g, __func__, dtype, &n, 1)) return NULL;
    const int64_t most = an_dims_most(g, n);
    if (most == INT64_MAX) return NULL;
    if (most > 0 && !an_dtype_holds(dtype, (double)(most - 1)))
        return an_tensor_fail(g, AN_ERR_DTYPE, "%s: 0 to %s, which may be %lld, does not fit %s", __func__, an_text_dim(g, n).s,
                              (long long)most, an_dtype_name(dtype));
    const an_dtype count = an_is_float(dtype) ? (most <= INT32_MAX ? AN_I32 : AN_I64) : dtype;
    return an_cast(an_tensor_wrap(g, an_iota_node(g, count, n), NULL, 0), dtype);
}

an_tensor *an_full_uop(an_graph *g, an_dtype dtype, const an_uop *dims, uint32_t rank, double value)
{
    if (!check_holds(g, __func__, dtype, value) || !an_check_dims_uop(g, __func__, dtype, dims, rank)) return NULL;
    return an_tensor_wrap(g, an_expand_to(g, an_const(g, dtype, to_scalar(dtype, value)), dims, rank), NULL, 0);
}

an_tensor *an_tensor_alloc_uop(an_graph *g, an_dtype dtype, const an_uop *dims, uint32_t rank)
{
    if (!an_check_dtype(g, __func__, dtype) || !an_check_dims_uop(g, __func__, dtype, dims, rank)) return NULL;
    return an_tensor_wrap(g, an_runtime_alloc(g, dtype, dims, rank), NULL, 0);
}

an_tensor *an_tensor_from_host_uop(an_graph *g, an_dtype dtype, const an_uop *dims, uint32_t rank, const void *data)
{
    if (!an_check_dtype(g, __func__, dtype) || !an_check_dims_uop(g, __func__, dtype, dims, rank)) return NULL;
    return an_tensor_wrap(g, an_runtime_from_host_uop(g, dtype, dims, rank, data), NULL, 0);
}

/* --- triangles --------------------------------------------------------------------------------------------------- */

/* Row and column numbers of the last two axes, in numbers that do not wrap. */
static bool rows_and_columns(an_tensor *x, const char *call, an_tensor **row, an_tensor **col)
{
    const uint32_t rank = an_tensor_rank(x);
    if (rank < 2) {
        an_tensor_fail(x->graph, AN_ERR_SHAPE, "%s: shape %s: a matrix needs two axes", call, an_text_shape(x).s);
        return false;
    }
    *row = an_iota_along(x, AN_I32, rank - 2);
    *col = an_iota_along(x, AN_I32, rank - 1);
    return *row && *col;
}

static double clip_diagonal(int64_t k)
{
    return k > 1000000000 ? 1e9 : k < -1000000000 ? -1e9 : (double)k;
}

an_tensor *an_eye(an_graph *g, an_dtype dtype, int64_t rows, int64_t cols, int64_t k)
{
    an_tensor *row = NULL, *col = NULL, *x = an_zeros(g, dtype, AN_DIMS(rows, cols));
    if (!x || !rows_and_columns(x, __func__, &row, &col)) return NULL;
    return an_cast(an_eq(col, an_add_scalar(row, clip_diagonal(k))), dtype);
}

an_tensor *an_tril(an_tensor *x, int64_t k)
{
    an_tensor *row = NULL, *col = NULL;
    if (!x || !rows_and_columns(x, __func__, &row, &col)) return NULL;
    return an_where(an_le(col, an_add_scalar(row, clip_diagonal(k))), x, an_const_of(x, 0));
}

an_tensor *an_triu(an_tensor *x, int64_t k)
{
    an_tensor *row = NULL, *col = NULL;
    if (!x || !rows_and_columns(x, __func__, &row, &col)) return NULL;
    return an_where(an_ge(col, an_add_scalar(row, clip_diagonal(k))), x, an_const_of(x, 0));
}

/* --- symbols ----------------------------------------------------------------------------------------------------- */

an_uop an_symbol(an_graph *g, const char *name, int64_t min, int64_t max)
{
    if (!name || !*name) {
        an_tensor_fail(g, AN_ERR_ARG, "%s: a symbol needs a name", __func__);
        return AN_UOP_NONE;
    }
    if (name[0] == '#') {
        an_tensor_fail(g, AN_ERR_ARG, "%s: a name that begins with # is the library's own", __func__);
        return AN_UOP_NONE;
    }
    if (min < 0 || max < min || max > INT32_MAX) {
        an_tensor_fail(g, AN_ERR_ARG, "%s: %s from %lld to %lld: a dimension is 0 or more, max at least min, and at most 2147483647",
                       __func__, name, (long long)min, (long long)max);
        return AN_UOP_NONE;
    }
    const an_uop known = an_graph_var(g, name), u = an_uop_var(g, name, min, max);
    if (an_uop_is_none(known) || an_uop_is_none(u) || an_uop_eq(known, u)) return u;
    int64_t lo = 0, hi = 0;
    (void)an_uop_int(g, an_uop_src(g, known, 0), &lo);
    (void)an_uop_int(g, an_uop_src(g, known, 1), &hi);
    an_tensor_fail(g, AN_ERR_ARG, "%s: %s goes from %lld to %lld already, not from %lld to %lld; the same name is the same symbol",
                   __func__, name, (long long)lo, (long long)hi, (long long)min, (long long)max);
    return AN_UOP_NONE;
}

an_uop an_dim(an_graph *g, int64_t value)
{
    return an_index(g, value);
}
