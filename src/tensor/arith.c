/* arith.c - elementwise arithmetic. There is no subtraction in the IR: x - y is x + y * -1, the same bits. */
#include "tensor/tensor.h"

#include <math.h>

/* The dtype of a and b together; NONE if one is missing. */
static an_dtype meet(an_tensor *a, an_tensor *b)
{
    return a && b ? an_dtype_promote(an_tensor_dtype(a), an_tensor_dtype(b)) : AN_DTYPE_NONE;
}

/* Those of integers: bool counts in i32. */
static an_dtype meet_number(an_tensor *a, an_tensor *b)
{
    const an_dtype d = meet(a, b);
    return d == AN_BOOL ? AN_I32 : d;
}

static an_tensor *times_minus_one(an_tensor *x)
{
    an_graph *g = x->graph;
    return an_tensor_wrap1(x, an_binary(g, AN_OP_MUL, an_tensor_node(x), an_const_int(g, an_tensor_dtype(x), -1)));
}

an_tensor *an_add(an_tensor *a, an_tensor *b)
{
    const an_dtype d = meet(a, b);
    return an_tensor_binary(__func__, d == AN_BOOL ? AN_OP_OR : AN_OP_ADD, d, a, b);
}

an_tensor *an_mul(an_tensor *a, an_tensor *b)
{
    const an_dtype d = meet(a, b);
    return an_tensor_binary(__func__, d == AN_BOOL ? AN_OP_AND : AN_OP_MUL, d, a, b);
}

an_tensor *an_sub(an_tensor *a, an_tensor *b)
{
    if (!a || !b) return NULL;
    const an_dtype d = meet(a, b);
    if (d == AN_BOOL)
        return an_tensor_fail(a->graph, AN_ERR_DTYPE, "%s: of two bools: use an_ne, or an_cast to numbers", __func__);
    b = an_cast(b, d);
    return b ? an_tensor_binary(__func__, AN_OP_ADD, d, a, times_minus_one(b)) : NULL;
}

an_tensor *an_neg(an_tensor *x)
{
    if (!x) return NULL;
    if (an_tensor_dtype(x) == AN_BOOL)
        return an_tensor_fail(x->graph, AN_ERR_DTYPE, "%s: of a bool: use an_logical_not, or an_cast to numbers",
                              __func__);
    return times_minus_one(x);
}

an_tensor *an_div(an_tensor *a, an_tensor *b)
{
    const an_dtype d = meet(a, b);
    return an_tensor_binary(__func__, AN_OP_DIV, a && b && !an_is_float(d) ? AN_F32 : d, a, b);
}

/* --- division with remainder ------------------------------------------------------------------------------------- */

/* a - trunc(a / b) * b for floats, with one rounding. Where the quotient rounded up to a whole number, the remainder
 * has come out with the wrong sign, one b too small. */
static an_tensor *float_fmod(an_tensor *a, an_tensor *b)
{
    an_tensor *q = an_trunc(an_div(a, b));
    an_tensor *minus_q = an_neg(q);
    if (!minus_q) return NULL;
    an_graph *g = a->graph;
    an_tensor *xs[3] = {minus_q, b, a};
    an_uop dims[AN_RANK_MAX], u[3];
    uint32_t rank = 0;
    if (!an_broadcast_shape("an_fmod", xs, 3, dims, &rank)) return NULL;
    for (int i = 0; i < 3; i++) u[i] = an_broadcast_node(g, an_tensor_node(xs[i]), dims, rank);
    an_tensor *r = an_tensor_wrap(g, an_uop_new(g, AN_OP_MULACC, an_tensor_dtype(a), u, 3, 0), xs, 3);
    r = an_where(an_eq_scalar(q, 0), a, r); /* also where b is infinite */
    an_tensor *crossed = an_logical_and(an_ne_scalar(r, 0), an_ne(an_lt_scalar(r, 0), an_lt_scalar(a, 0)));
    return an_where(crossed, an_add(r, an_where(an_eq(an_lt_scalar(r, 0), an_lt_scalar(b, 0)), an_neg(b), b)), r);
}

/* A remainder r that is not 0 and has not the sign of b. */
static an_tensor *other_sign(an_tensor *r, an_tensor *b)
{
    return an_logical_and(an_ne_scalar(r, 0), an_ne(an_lt_scalar(r, 0), an_lt_scalar(b, 0)));
}

static an_tensor *float_mod(an_tensor *a, an_tensor *b)
{
    an_tensor *r = float_fmod(a, b);
    return an_where(other_sign(r, b), an_add(r, b), r);
}

an_tensor *an_trunc_div(an_tensor *a, an_tensor *b)
{
    const an_dtype d = meet_number(a, b);
    return an_is_float(d) ? an_trunc(an_div(a, b)) : an_tensor_binary(__func__, AN_OP_IDIV, d, a, b);
}

an_tensor *an_fmod(an_tensor *a, an_tensor *b)
{
    const an_dtype d = meet_number(a, b);
    if (!an_is_float(d)) return an_tensor_binary(__func__, AN_OP_IMOD, d, a, b);
    return float_fmod(an_cast(a, d), an_cast(b, d));
}

an_tensor *an_mod(an_tensor *a, an_tensor *b)
{
    const an_dtype d = meet_number(a, b);
    if (!an_is_float(d)) return an_tensor_binary(__func__, AN_OP_FLOORMOD, d, a, b);
    return float_mod(an_cast(a, d), an_cast(b, d));
}

an_tensor *an_floor_div(an_tensor *a, an_tensor *b)
{
    const an_dtype d = meet_number(a, b);
    if (!an_is_float(d)) return an_tensor_binary(__func__, AN_OP_FLOORDIV, d, a, b);
    a = an_cast(a, d);
    b = an_cast(b, d);
    /* (a - fmod) / b is whole but for rounding, towards zero; one less where the remainder has the other sign. a / 0 keeps its
     * infinity or NaN. */
    an_tensor *r = float_fmod(a, b);
    an_tensor *q = an_round(an_div(an_sub(a, r), b));
    q = an_where(other_sign(r, b), an_sub_scalar(q, 1), q);
    return an_where(an_eq_scalar(b, 0), an_div(a, b), q);
}

/* --- powers ------------------------------------------------------------------------------------------------------ */

/* Base to a whole exponent known now, not 0, by squaring. */
static an_tensor *power(an_tensor *x, uint64_t n)
{
    for (; !(n & 1); n >>= 1) x = an_mul(x, x);
    an_tensor *result = x;
    while (n >>= 1) {
        x = an_mul(x, x);
        if (n & 1) result = an_mul(result, x);
    }
    return result;
}

/* Integers: squaring for every bit of the exponent. Exponents below 0 leave 1 / a^n cut to a whole number. */
static an_tensor *integer_pow(an_tensor *a, an_tensor *b)
{
    const bool is_signed = an_dtype_kind_of(an_tensor_dtype(a)) == AN_KIND_INT;
    const int bits = (int)an_dtype_nbytes(an_tensor_dtype(a)) * 8 - (is_signed ? 1 : 0);
    an_tensor *one = an_const_of(a, 1), *zero = an_const_of(a, 0);
    an_tensor *result = one, *square = a;
    for (int i = 0; i < bits; i++) {
        if (i > 0) square = an_mul(square, square);
        an_tensor *bit = an_ne(an_bit_and(an_shr(b, an_const_of(b, i)), one), zero);
        result = an_where(bit, an_mul(result, square), result);
    }
    if (!is_signed) return result;
    an_tensor *odd = an_ne(an_bit_and(b, one), zero);
    an_tensor *of_minus_one = an_where(odd, an_const_of(a, -1), one);
    an_tensor *below = an_where(an_eq(a, one), one, an_where(an_eq(a, an_const_of(a, -1)), of_minus_one, zero));
    return an_where(an_lt(b, zero), below, result);
}

an_tensor *an_pow(an_tensor *a, an_tensor *b)
{
    const an_dtype d = meet_number(a, b);
    a = an_cast(a, d);
    b = an_cast(b, d);
    if (!a || !b) return NULL;
    an_uop dims[AN_RANK_MAX];
    uint32_t rank = 0;
    if (!an_check_graph(__func__, a, b) || !an_broadcast_shape(__func__, (an_tensor *[]){a, b}, 2, dims, &rank))
        return NULL;
    if (!an_is_float(d)) return integer_pow(a, b);

    an_tensor *size = an_abs(a);
    an_tensor *one = an_const_of(a, 1), *nan = an_const_of(a, (double)NAN), *b_nan = an_isnan(b);
    an_tensor *log = an_mul(b, an_log2(size));
    /* 1 to an infinite power is 1. */
    log = an_where(an_logical_and(an_eq(size, one), an_logical_not(b_nan)), an_const_of(a, 0), log);
    an_tensor *m = an_exp2(log);
    an_tensor *whole = an_eq(an_trunc(b), b), *half = an_mul_scalar(b, 0.5);
    an_tensor *odd = an_logical_and(whole, an_ne(an_trunc(half), half));
    an_tensor *negative = an_lt_scalar(a, 0);
    an_tensor *undefined = an_logical_and(an_logical_and(negative, an_logical_not(whole)), an_isfinite(a));
    m = an_where(an_logical_and(negative, odd), an_neg(m), m);
    m = an_where(undefined, nan, m);
    an_tensor *is_one = an_logical_or(an_eq_scalar(b, 0), an_logical_and(an_eq(a, one), b_nan));
    return an_where(is_one, one, m);
}

an_tensor *an_pow_scalar(an_tensor *x, double s)
{
    an_tensor *c = NULL;
    x = an_weak_scalar(__func__, x, s, &c);
    if (!x) return NULL;
    const bool is_float = an_is_float(an_tensor_dtype(x)), whole = s == trunc(s) && !isinf(s);
    if (!is_float && s < 0)
        return an_tensor_fail(x->graph, AN_ERR_ARG,
                              "%s: %s to the power of %g is no integer: an_cast to a float first", __func__,
                              an_dtype_name(an_tensor_dtype(x)), s);
    if (s == 0) return an_ones_like(x);
    if (s == 0.5) return an_sqrt(x);
    if (s == -0.5) return an_rsqrt(x);
    if (!is_float) return power(x, (uint64_t)s);
    if (!whole || fabs(s) > 64) return an_pow(x, c);
    an_tensor *p = power(x, (uint64_t)fabs(s));
    return s < 0 ? an_reciprocal(p) : p;
}

an_tensor *an_rpow_scalar(an_tensor *x, double s)
{
    if (!x) return NULL;
    if (!(s > 0) || isinf(s))
        return an_tensor_fail(x->graph, AN_ERR_ARG, "%s: base %g: it must be positive and finite; an_pow takes others",
                              __func__, s);
    return an_exp2(an_mul_scalar(an_to_float(x), log2(s)));
}

/* --- maximum, sign, bounds --------------------------------------------------------------------------------------- */

an_tensor *an_maximum(an_tensor *a, an_tensor *b)
{
    return an_tensor_binary(__func__, AN_OP_MAX, meet(a, b), a, b);
}

an_tensor *an_minimum(an_tensor *a, an_tensor *b)
{
    return an_tensor_binary(__func__, AN_OP_MIN, meet(a, b), a, b);
}

an_tensor *an_abs(an_tensor *x)
{
    if (!x || an_dtype_kind_of(an_tensor_dtype(x)) == AN_KIND_UINT || an_tensor_dtype(x) == AN_BOOL) return an_tensor_same(x);
    an_tensor *m = an_maximum(x, an_neg(x)); /* the tie at 0 gives it the gradient 0 */
    return an_is_float(an_tensor_dtype(x)) ? an_add(m, an_const_of(m, 0)) : m; /* -0 becomes 0 */
}

an_tensor *an_sign(an_tensor *x)
{
    if (!x || an_tensor_dtype(x) == AN_BOOL) return an_tensor_same(x);
    x = an_detach(x);
    an_tensor *zero = an_const_of(x, 0), *one = an_const_of(x, 1);
    if (an_dtype_kind_of(an_tensor_dtype(x)) == AN_KIND_UINT) return an_where(an_eq(x, zero), zero, one);
    an_tensor *rest = an_is_float(an_tensor_dtype(x)) ? an_add(x, zero) : zero; /* 0 or NaN */
    return an_where(an_lt(x, zero), an_const_of(x, -1), an_where(an_lt(zero, x), one, rest));
}

an_tensor *an_square(an_tensor *x)
{
    return an_mul(x, x);
}

an_tensor *an_clamp(an_tensor *x, double min, double max)
{
    if (!x) return NULL;
    if (!(min <= max))
        return an_tensor_fail(x->graph, AN_ERR_ARG, "%s: bounds %g and %g: min must not be above max", __func__, min,
                              max);
    /* By where, not max: at a bound the gradient still flows, as in PyTorch. */
    an_tensor *lo = NULL, *hi = NULL;
    const bool below = !isinf(min) || min > 0, above = !isinf(max) || max < 0;
    if (below) x = an_weak_scalar(__func__, x, min, &lo);
    if (above) x = an_weak_scalar(__func__, x, max, &hi);
    if (below) x = an_where(an_lt(x, lo), lo, x);
    if (above) x = an_where(an_lt(hi, x), hi, x);
    return below || above ? x : an_tensor_same(x);
}

/* --- with scalars ------------------------------------------------------------------------------------------------ */

an_tensor *an_add_scalar(an_tensor *x, double s)
{
    an_tensor *c = NULL;
    x = an_weak_scalar(__func__, x, s, &c);
    return an_add(x, c);
}

an_tensor *an_sub_scalar(an_tensor *x, double s)
{
    an_tensor *c = NULL;
    x = an_weak_scalar(__func__, x, s, &c);
    return an_sub(x, c);
}

an_tensor *an_rsub_scalar(an_tensor *x, double s)
{
    an_tensor *c = NULL;
    x = an_weak_scalar(__func__, x, s, &c);
    return an_sub(c, x);
}

an_tensor *an_mul_scalar(an_tensor *x, double s)
{
    an_tensor *c = NULL;
    x = an_weak_scalar(__func__, x, s, &c);
    return an_mul(x, c);
}

an_tensor *an_div_scalar(an_tensor *x, double s)
{
    x = an_to_float(x);
    return x ? an_div(x, an_const_of(x, s)) : NULL;
}

an_tensor *an_rdiv_scalar(an_tensor *x, double s)
{
    x = an_to_float(x);
    return x ? an_div(an_const_of(x, s), x) : NULL;
}

an_tensor *an_floor_div_scalar(an_tensor *x, double s)
{
    an_tensor *c = NULL;
    x = an_weak_scalar(__func__, x, s, &c);
    return an_floor_div(x, c);
}

an_tensor *an_mod_scalar(an_tensor *x, double s)
{
    an_tensor *c = NULL;
    x = an_weak_scalar(__func__, x, s, &c);
    return an_mod(x, c);
}

an_tensor *an_maximum_scalar(an_tensor *x, double s)
{
    an_tensor *c = NULL;
    x = an_weak_scalar(__func__, x, s, &c);
    return an_maximum(x, c);
}

an_tensor *an_minimum_scalar(an_tensor *x, double s)
{
    an_tensor *c = NULL;
    x = an_weak_scalar(__func__, x, s, &c);
    return an_minimum(x, c);
}
