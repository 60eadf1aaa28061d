/* math.c - casts and elementwise mathematics. The IR has sqrt, exp2, log2, sin, erf and trunc; the rest is made of them.
 *
 * Where a formula needs a correction to be accurate (log1p, expm1), the correction is detached: it is a factor of 1 but
 * for rounding, so the derivative of the rest is the derivative. */
#include "tensor/tensor.h"

#include <math.h>

#define LOG2E 1.44269504088896340736
#define LN2 0.69314718055994530942
#define LOG10_2 0.30102999566398119521

an_tensor *an_cast(an_tensor *x, an_dtype dtype)
{
    if (!x || an_tensor_dtype(x) == dtype) return an_tensor_same(x);
    if (!an_check_dtype(x->graph, __func__, dtype)) return NULL;
    const an_uop u = an_tensor_node(x);
    return an_tensor_wrap1(x, an_cast_to(x->graph, dtype, u));
}

an_tensor *an_bitcast(an_tensor *x, an_dtype dtype)
{
    if (!x || an_tensor_dtype(x) == dtype) return an_tensor_same(x);
    if (!an_check_dtype(x->graph, __func__, dtype)) return NULL;
    const an_dtype from = an_tensor_dtype(x);
    if (an_dtype_nbytes(from) != an_dtype_nbytes(dtype) || from == AN_BOOL || dtype == AN_BOOL)
        return an_tensor_fail(x->graph, AN_ERR_DTYPE, "%s: %s to %s: both need elements of one size, and neither is bool",
                              __func__, an_dtype_name(from), an_dtype_name(dtype));
    const an_uop u = an_tensor_node(x);
    return an_tensor_wrap1(x, an_uop_new(x->graph, AN_OP_BITCAST, dtype, &u, 1, 0));
}

/* --- exponentials and logarithms --------------------------------------------------------------------------------- */

an_tensor *an_exp2(an_tensor *x)
{
    return an_tensor_unary(AN_OP_EXP2, an_to_float(x));
}

an_tensor *an_log2(an_tensor *x)
{
    return an_tensor_unary(AN_OP_LOG2, an_to_float(x));
}

static an_tensor *exp_of(an_tensor *x)
{
    return an_exp2(an_mul_scalar(x, LOG2E));
}

an_tensor *an_exp(an_tensor *x)
{
    return an_in_wide(exp_of, x);
}

static an_tensor *log_of(an_tensor *x)
{
    return an_mul_scalar(an_log2(x), LN2);
}

an_tensor *an_log(an_tensor *x)
{
    return an_in_wide(log_of, x);
}

static an_tensor *log10_of(an_tensor *x)
{
    return an_mul_scalar(an_log2(x), LOG10_2);
}

an_tensor *an_log10(an_tensor *x)
{
    return an_in_wide(log10_of, x);
}

/* With u = 1 + x rounded to u', log(1 + x) is log(u') * x / (u' - 1) to the last bits (Higham, Accuracy and Stability of
 * Numerical Algorithms, 1.14.1). */
static an_tensor *log1p_of(an_tensor *x)
{
    an_tensor *u = an_add_scalar(x, 1);
    an_tensor *d = an_detach(an_sub_scalar(u, 1)), *fixed = an_detach(x);
    an_tensor *ratio = an_where(an_eq(d, fixed), an_const_of(x, 1), an_div(fixed, d)); /* infinity too */
    return an_where(an_eq_scalar(d, 0), x, an_mul(an_log(u), an_detach(ratio)));
}

an_tensor *an_log1p(an_tensor *x)
{
    return an_in_wide(log1p_of, x);
}

/* With u = exp(x) rounded to u', exp(x) - 1 is (u' - 1) * x / log(u') near 0 (the same source). */
static an_tensor *expm1_of(an_tensor *x)
{
    an_tensor *u = an_exp(x), *m = an_sub_scalar(u, 1);
    an_tensor *fixed = an_detach(u);
    an_tensor *near = an_mul(m, an_detach(an_div(an_detach(x), an_log(fixed))));
    an_tensor *small = an_lt_scalar(an_abs(an_detach(x)), 0.5);
    return an_where(an_eq_scalar(fixed, 1), x, an_where(small, near, m));
}

an_tensor *an_expm1(an_tensor *x)
{
    return an_in_wide(expm1_of, x);
}

/* --- roots ------------------------------------------------------------------------------------------------------- */

an_tensor *an_sqrt(an_tensor *x)
{
    return an_tensor_unary(AN_OP_SQRT, an_to_float(x));
}

static an_tensor *rsqrt_of(an_tensor *x)
{
    return an_rdiv_scalar(an_sqrt(x), 1);
}

an_tensor *an_rsqrt(an_tensor *x)
{
    return an_in_wide(rsqrt_of, x);
}

an_tensor *an_reciprocal(an_tensor *x)
{
    return an_rdiv_scalar(x, 1);
}

/* --- trigonometric and hyperbolic -------------------------------------------------------------------------------- */

an_tensor *an_sin(an_tensor *x)
{
    return an_tensor_unary(AN_OP_SIN, an_to_float(x));
}

/* 1 - 2 sin^2(x/2): halving is exact, where x + pi/2 would round. */
static an_tensor *cos_of(an_tensor *x)
{
    an_tensor *s = an_sin(an_mul_scalar(x, 0.5));
    return an_rsub_scalar(an_mul_scalar(an_mul(s, s), 2), 1);
}

an_tensor *an_cos(an_tensor *x)
{
    return an_in_wide(cos_of, x);
}

static an_tensor *tan_of(an_tensor *x)
{
    return an_div(an_sin(x), an_cos(x));
}

an_tensor *an_tan(an_tensor *x)
{
    return an_in_wide(tan_of, x);
}

/* (t + t / (t + 1)) / 2 with t = expm1(|x|), and the sign of x: exact near 0. Far out the quotient is 1 - 1 / (t + 1), which
 * an infinite t leaves at 1. */
static an_tensor *sinh_of(an_tensor *x)
{
    an_tensor *negative = an_lt_scalar(x, 0);
    an_tensor *t = an_expm1(an_where(negative, an_neg(x), x)), *small = an_lt_scalar(t, 1);
    an_tensor *near = an_where(small, t, an_const_of(t, 0));
    an_tensor *far = an_rsub_scalar(an_reciprocal(an_add_scalar(t, 1)), 1);
    an_tensor *quotient = an_where(small, an_div(near, an_add_scalar(near, 1)), far);
    an_tensor *y = an_mul_scalar(an_add(t, quotient), 0.5);
    return an_where(negative, an_neg(y), y);
}

an_tensor *an_sinh(an_tensor *x)
{
    return an_in_wide(sinh_of, x);
}

static an_tensor *cosh_of(an_tensor *x)
{
    return an_mul_scalar(an_add(an_exp(x), an_exp(an_neg(x))), 0.5);
}

an_tensor *an_cosh(an_tensor *x)
{
    return an_in_wide(cosh_of, x);
}

/* -t / (t + 2) with t = expm1(-2|x|), and the sign of x: exact near 0, no overflow, the right gradient at 0. */
static an_tensor *tanh_of(an_tensor *x)
{
    an_tensor *negative = an_lt_scalar(x, 0);
    an_tensor *t = an_expm1(an_mul_scalar(an_where(negative, x, an_neg(x)), 2));
    an_tensor *y = an_div(t, an_add_scalar(t, 2));
    return an_where(negative, y, an_neg(y));
}

an_tensor *an_tanh(an_tensor *x)
{
    return an_in_wide(tanh_of, x);
}

an_tensor *an_erf(an_tensor *x)
{
    return an_tensor_unary(AN_OP_ERF, an_to_float(x));
}

/* --- rounding ---------------------------------------------------------------------------------------------------- */

/* x as the roundings take it: NULL stays, *done is set for what is whole already. */
static an_tensor *whole_already(an_tensor *x, bool *done)
{
    *done = !x || !an_is_float(an_tensor_dtype(x));
    return *done ? an_tensor_same(x) : x;
}

an_tensor *an_trunc(an_tensor *x)
{
    bool done = false;
    x = whole_already(x, &done);
    return done ? x : an_tensor_unary(AN_OP_TRUNC, x);
}

an_tensor *an_floor(an_tensor *x)
{
    bool done = false;
    x = whole_already(x, &done);
    if (done) return x;
    an_tensor *t = an_trunc(x);
    return an_where(an_lt(x, t), an_sub_scalar(t, 1), t);
}

an_tensor *an_ceil(an_tensor *x)
{
    bool done = false;
    x = whole_already(x, &done);
    if (done) return x;
    an_tensor *t = an_trunc(x);
    return an_where(an_lt(t, x), an_add_scalar(t, 1), t);
}

an_tensor *an_round(an_tensor *x)
{
    bool done = false;
    x = whole_already(x, &done);
    if (done) return x;
    x = an_detach(x); /* steps: no slope */
    an_tensor *t = an_trunc(x), *rest = an_sub(x, t), *half = an_mul_scalar(t, 0.5);
    an_tensor *odd = an_ne(an_trunc(half), half);
    an_tensor *up = an_logical_or(an_gt_scalar(rest, 0.5), an_logical_and(an_eq_scalar(rest, 0.5), odd));
    an_tensor *down = an_logical_or(an_lt_scalar(rest, -0.5), an_logical_and(an_eq_scalar(rest, -0.5), odd));
    return an_where(up, an_add_scalar(t, 1), an_where(down, an_sub_scalar(t, 1), t));
}
