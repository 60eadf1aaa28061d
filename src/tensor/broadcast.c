/* broadcast.c - how operands meet: common shape, common dtype, weak scalars.
 *
 *     a (2, 1, 4)   EXPAND ------------\
 *                                       op (2, 3, 4)
 *     b    (3, 1)   RESHAPE, EXPAND ---/
 *     7             stays a rank-0 CONST: the IR broadcasts it */
#include "tensor/tensor.h"

#include <math.h>

void an_dims_to_uops(an_graph *g, const int64_t *dims, uint32_t rank, an_uop *out)
{
    for (uint32_t i = 0; i < rank; i++) out[i] = an_index(g, dims[i]);
}

/* --- shapes ------------------------------------------------------------------------------------------------------ */

bool an_broadcast_shape(const char *call, an_tensor *const *xs, uint32_t n, an_uop dims[AN_RANK_MAX], uint32_t *rank)
{
    an_graph *g = xs[0]->graph;
    *rank = 0;
    for (uint32_t k = 0; k < n; k++)
        if (an_tensor_rank(xs[k]) > *rank) *rank = an_tensor_rank(xs[k]);
    for (uint32_t i = 0; i < *rank; i++) dims[i] = an_index(g, 1);
    for (uint32_t k = 0; k < n; k++) {
        const an_shape s = an_tensor_shape(xs[k]);
        for (uint32_t i = 0; i < s.rank; i++) {
            an_uop *d = &dims[*rank - s.rank + i];
            if (an_uop_is_none(*d) || an_uop_is_int(g, s.dims[i], 1) || an_uop_eq(s.dims[i], *d)) continue;
            if (an_uop_is_int(g, *d, 1)) {
                *d = s.dims[i];
                continue;
            }
            if (n == 2)
                an_tensor_fail(g, AN_ERR_SHAPE,
                               "%s: shapes %s and %s do not broadcast; counted from the last, each axis must be equal or 1",
                               call, an_text_shape(xs[0]).s, an_text_shape(xs[1]).s);
            else
                an_tensor_fail(g, AN_ERR_SHAPE,
                               "%s: shapes %s, %s and %s do not broadcast; counted from the last, each axis must be equal "
                               "or 1",
                               call, an_text_shape(xs[0]).s, an_text_shape(xs[1]).s, an_text_shape(xs[2]).s);
            return false;
        }
    }
    return true;
}

an_uop an_expand_to(an_graph *g, an_uop u, const an_uop *dims, uint32_t rank)
{
    if (an_uop_is_none(u)) return u;
    const an_shape s = an_uop_shape(g, u);
    if (an_shape_eq(s, (an_shape){rank, dims})) return u;
    if (s.rank != rank) {
        an_uop padded[AN_RANK_MAX];
        for (uint32_t i = 0; i < rank; i++)
            padded[i] = i < rank - s.rank ? an_index(g, 1) : s.dims[i - (rank - s.rank)];
        u = an_reshape_node(g, u, padded, rank);
        if (an_uop_is_none(u) || an_shape_eq(an_uop_shape(g, u), (an_shape){rank, dims})) return u;
    }
    return an_expand_node(g, u, dims, rank);
}

an_uop an_broadcast_node(an_graph *g, an_uop u, const an_uop *dims, uint32_t rank)
{
    if (an_uop_is_none(u) || an_uop_is_const(g, u)) return u;
    return an_expand_to(g, u, dims, rank);
}

/* --- operators --------------------------------------------------------------------------------------------------- */

an_tensor *an_tensor_binary(const char *call, an_op op, an_dtype dtype, an_tensor *a, an_tensor *b)
{
    if (!a || !b || !an_check_graph(call, a, b)) return NULL;
    an_graph *g = a->graph;
    an_tensor *operands[2] = {a, b};
    an_uop dims[AN_RANK_MAX];
    uint32_t rank = 0;
    if (!an_broadcast_shape(call, operands, 2, dims, &rank)) return NULL;
    an_uop x[2];
    for (int i = 0; i < 2; i++) {
        const an_uop u = an_cast_to(g, dtype, an_tensor_node(operands[i]));
        x[i] = an_broadcast_node(g, u, dims, rank);
    }
    return an_tensor_wrap(g, an_binary(g, op, x[0], x[1]), operands, 2);
}

an_tensor *an_tensor_unary(an_op op, an_tensor *x)
{
    if (!x) return NULL;
    return an_tensor_wrap1(x, an_unary(x->graph, op, an_tensor_node(x)));
}

/* --- dtypes ------------------------------------------------------------------------------------------------------ */

an_dtype an_dtype_accumulate(an_dtype d)
{
    return an_is_float(d) && d != AN_F64 ? AN_F32 : d;
}

an_tensor *an_to_float(an_tensor *x)
{
    return !x || an_is_float(an_tensor_dtype(x)) ? x : an_cast(x, AN_F32);
}

an_tensor *an_in_wide(an_tensor *(*f)(an_tensor *x), an_tensor *x)
{
    x = an_to_float(x);
    if (!x) return NULL;
    const an_dtype d = an_tensor_dtype(x);
    return an_cast(f(an_cast(x, an_dtype_accumulate(d))), d);
}

double an_dtype_least(an_dtype dtype)
{
    switch (an_dtype_kind_of(dtype)) {
    case AN_KIND_INT:
        return -ldexp(1.0, (int)an_dtype_nbytes(dtype) * 8 - 1);
    case AN_KIND_FLOAT:
        return dtype == AN_F8E4M3 ? -448.0 : -(double)INFINITY; /* e4m3 has no infinity */
    default:
        return 0.0;
    }
}

double an_dtype_greatest(an_dtype dtype)
{
    const int bits = (int)an_dtype_nbytes(dtype) * 8;
    switch (an_dtype_kind_of(dtype)) {
    case AN_KIND_INT:
        return ldexp(1.0, bits - 1) - 1;
    case AN_KIND_UINT:
        return ldexp(1.0, bits) - 1;
    case AN_KIND_FLOAT:
        return dtype == AN_F8E4M3 ? 448.0 : (double)INFINITY;
    default:
        return 1.0;
    }
}

bool an_dtype_holds(an_dtype dtype, double value)
{
    if (an_is_float(dtype)) return true;
    if (value != trunc(value) || isinf(value)) return false; /* NaN differs from itself */
    /* 2^63 and 2^64 are what the greatest 64-bit integers round to: they do not fit. */
    const bool wide = an_dtype_nbytes(dtype) == 8;
    const double top = an_dtype_greatest(dtype);
    return value >= an_dtype_least(dtype) && (wide ? value < top : value <= top);
}

static an_uop const_node(an_graph *g, an_dtype dtype, double value)
{
    if (an_is_float(dtype)) return an_const_float(g, dtype, value);
    if (dtype == AN_U64) return an_const(g, dtype, (an_scalar){.u = (uint64_t)value});
    return an_const_int(g, dtype, (int64_t)value);
}

an_tensor *an_const_of(an_tensor *x, double value)
{
    if (!x) return NULL;
    return an_tensor_wrap(x->graph, const_node(x->graph, an_tensor_dtype(x), value), NULL, 0);
}

an_tensor *an_weak_scalar(const char *call, an_tensor *x, double s, an_tensor **out)
{
    *out = NULL;
    if (!x) return NULL;
    an_dtype d = an_tensor_dtype(x);
    const bool whole = s == trunc(s) && !isinf(s);
    if (!an_is_float(d)) {
        if (!whole)
            d = AN_F32;
        else if (d == AN_BOOL)
            d = AN_I32;
        if (!an_dtype_holds(d, s))
            return an_tensor_fail(x->graph, AN_ERR_DTYPE,
                                  "%s: %.17g does not fit %s; an_cast the tensor to a wider dtype first", call, s,
                                  an_dtype_name(d));
    }
    x = an_cast(x, d);
    *out = an_const_of(x, s);
    return *out ? x : NULL;
}

/* --- iota -------------------------------------------------------------------------------------------------------- */

an_uop an_iota_node(an_graph *g, an_dtype dtype, an_uop n)
{
    return an_uop_new(g, AN_OP_IOTA, dtype, &n, 1, 0);
}

an_tensor *an_iota_along(an_tensor *x, an_dtype dtype, uint32_t axis)
{
    an_graph *g = x->graph;
    const an_shape s = an_tensor_shape(x);
    an_uop dims[AN_RANK_MAX];
    for (uint32_t i = 0; i < s.rank; i++) dims[i] = i == axis ? s.dims[i] : an_index(g, 1);
    const an_uop u = an_iota_node(g, dtype, s.dims[axis]);
    if (an_uop_is_none(u) || s.rank == 1) return an_tensor_wrap(g, u, NULL, 0);
    return an_tensor_wrap(g, an_reshape_node(g, u, dims, s.rank), NULL, 0);
}
