/* activation.c - the nonlinearities of neural networks. Each is written so that its gradient, which the rules take of
 * this very formula, is finite and right wherever the function is: where, not max or abs, at 0; exponentials of negative
 * numbers only. */
#include "tensor/tensor.h"

#include <math.h>

#define SQRT1_2 0.70710678118654752440

/* -|x|, with the gradient -1 at 0. */
static an_tensor *minus_abs(an_tensor *x)
{
    return an_where(an_lt_scalar(x, 0), x, an_neg(x));
}

an_tensor *an_relu(an_tensor *x)
{
    if (!x) return NULL;
    if (an_tensor_dtype(x) == AN_BOOL)
        return an_tensor_fail(x->graph, AN_ERR_DTYPE, "%s: of a bool: an_cast to numbers first", __func__);
    if (an_dtype_kind_of(an_tensor_dtype(x)) == AN_KIND_UINT) return an_tensor_same(x);
    an_tensor *zero = an_const_of(x, 0);
    return an_where(an_le(x, zero), zero, x); /* an_where, so that NaN stays */
}

an_tensor *an_relu6(an_tensor *x)
{
    an_tensor *y = an_relu(x);
    return y ? an_where(an_ge_scalar(y, 6), an_const_of(y, 6), y) : NULL;
}

an_tensor *an_leaky_relu(an_tensor *x, double slope)
{
    x = an_to_float(x);
    return an_where(an_gt_scalar(x, 0), x, an_mul_scalar(x, slope));
}

an_tensor *an_elu(an_tensor *x, double alpha)
{
    x = an_to_float(x);
    if (!x) return NULL;
    an_tensor *positive = an_gt_scalar(x, 0);
    an_tensor *below = an_where(positive, an_const_of(x, 0), x); /* no overflow in what is not chosen */
    return an_where(positive, x, an_mul_scalar(an_expm1(below), alpha));
}

an_tensor *an_selu(an_tensor *x)
{
    /* Klambauer et al., Self-Normalizing Neural Networks, 2017. */
    return an_mul_scalar(an_elu(x, 1.6732632423543772848), 1.0507009873554804934);
}

static an_tensor *sigmoid_of(an_tensor *x)
{
    an_tensor *z = an_exp(minus_abs(x));
    an_tensor *r = an_reciprocal(an_add_scalar(z, 1));
    return an_where(an_lt_scalar(x, 0), an_mul(z, r), r);
}

an_tensor *an_sigmoid(an_tensor *x)
{
    return an_in_wide(sigmoid_of, x);
}

static an_tensor *softplus_of(an_tensor *x)
{
    /* max(x, 0) with the gradient 1 at 0, where minus_abs has -1: together 1 - 1/2. */
    an_tensor *positive = an_where(an_lt_scalar(x, 0), an_const_of(x, 0), x);
    return an_add(positive, an_log1p(an_exp(minus_abs(x))));
}

an_tensor *an_softplus(an_tensor *x)
{
    return an_in_wide(softplus_of, x);
}

static an_tensor *log_sigmoid_of(an_tensor *x)
{
    return an_neg(an_softplus(an_neg(x)));
}

an_tensor *an_log_sigmoid(an_tensor *x)
{
    return an_in_wide(log_sigmoid_of, x);
}

static an_tensor *hard_sigmoid_of(an_tensor *x)
{
    return an_clamp(an_add_scalar(an_div_scalar(x, 6), 0.5), 0, 1);
}

an_tensor *an_hard_sigmoid(an_tensor *x)
{
    return an_in_wide(hard_sigmoid_of, x);
}

static an_tensor *silu_of(an_tensor *x)
{
    return an_mul(x, an_sigmoid(x));
}

an_tensor *an_silu(an_tensor *x)
{
    return an_in_wide(silu_of, x);
}

static an_tensor *hard_swish_of(an_tensor *x)
{
    return an_mul(x, an_hard_sigmoid(x));
}

an_tensor *an_hard_swish(an_tensor *x)
{
    return an_in_wide(hard_swish_of, x);
}

static an_tensor *gelu_of(an_tensor *x)
{
    return an_mul(an_mul_scalar(x, 0.5), an_add_scalar(an_erf(an_mul_scalar(x, SQRT1_2)), 1));
}

an_tensor *an_gelu(an_tensor *x)
{
    return an_in_wide(gelu_of, x);
}

/* x/2 * (1 + tanh(u)) is x * sigmoid(2u), with one exponential; u = sqrt(2/pi) * (x + 0.044715 x^3). */
static an_tensor *gelu_tanh_of(an_tensor *x)
{
    an_tensor *cubic = an_add_scalar(an_mul_scalar(an_mul(x, x), 0.044715), 1);
    return an_mul(x, an_sigmoid(an_mul_scalar(an_mul(x, cubic), 2 * 0.79788456080286535588)));
}

an_tensor *an_gelu_tanh(an_tensor *x)
{
    return an_in_wide(gelu_tanh_of, x);
}

static an_tensor *softsign_of(an_tensor *x)
{
    an_tensor *m = minus_abs(x);
    return an_div(x, an_rsub_scalar(m, 1));
}

an_tensor *an_softsign(an_tensor *x)
{
    return an_in_wide(softsign_of, x);
}

static an_tensor *mish_of(an_tensor *x)
{
    return an_mul(x, an_tanh(an_softplus(x)));
}

an_tensor *an_mish(an_tensor *x)
{
    return an_in_wide(mish_of, x);
}
