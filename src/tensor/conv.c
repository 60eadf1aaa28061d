/* conv.c - convolution and pooling over windows (windows.c). */
#include "tensor/tensor.h"

/* 0 stands for 1. */
static int64_t or_one(int64_t v)
{
    return v == 0 ? 1 : v;
}

/* The last n axes padded by value. */
static an_tensor *pad_spatial(an_tensor *x, uint32_t n, const int64_t *before, const int64_t *after, double value)
{
    int64_t b[AN_RANK_MAX] = {0}, a[AN_RANK_MAX] = {0};
    if (!x) return NULL;
    const uint32_t rank = an_tensor_rank(x);
    for (uint32_t i = 0; i < n; i++) {
        b[rank - n + i] = before[i];
        a[rank - n + i] = after[i];
    }
    return an_pad(x, b, a, rank, value);
}

static bool check_not_negative(an_tensor *x, const char *call, const char *what, const int64_t *v, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (v[i] >= 0) continue;
        an_tensor_fail(x->graph, AN_ERR_ARG, "%s: %s %s: none may be negative", call, what, an_text_dims(v, n).s);
        return false;
    }
    return true;
}

/* --- convolution ------------------------------------------------------------------------------------------------- */

static bool check_conv(an_tensor *x, an_tensor *weight, an_tensor *bias, const an_conv_desc *desc, const char *call,
                       uint32_t n)
{
    if (!an_check_graph(call, x, weight) || (bias && !an_check_graph(call, x, bias))) return false;
    if (an_tensor_rank(x) != n + 2 || an_tensor_rank(weight) != n + 2) {
        an_tensor_fail(x->graph, AN_ERR_SHAPE, "%s: x %s and weight %s: both need %u axes, (N, C, ...) and (F, C / groups, "
                       "kernel...)", call, an_text_shape(x).s, an_text_shape(weight).s, n + 2);
        return false;
    }
    if (!check_not_negative(x, call, "stride", desc->stride, n) ||
        !check_not_negative(x, call, "dilation", desc->dilation, n) ||
        !check_not_negative(x, call, "pad_before", desc->pad_before, n) ||
        !check_not_negative(x, call, "pad_after", desc->pad_after, n) ||
        !check_not_negative(x, call, "groups", &desc->groups, 1))
        return false;
    const int64_t c = an_tensor_dim(x, 1), f = an_tensor_dim(weight, 0), groups = or_one(desc->groups);
    int64_t dims[AN_RANK_MAX];
    if (c < 0) {
        an_tensor_fail(x->graph, AN_ERR_UNSUPPORTED, "%s: the channels of x %s are symbolic", call, an_text_shape(x).s);
        return false;
    }
    if (!an_check_static(weight, call, dims)) return false;
    if (c % groups || f % groups || an_tensor_dim(weight, 1) != c / groups) {
        an_tensor_fail(x->graph, AN_ERR_SHAPE,
                       "%s: x %s, weight %s, %lld groups: groups must divide both channel counts, and axis 1 of weight be "
                       "axis 1 of x divided by groups",
                       call, an_text_shape(x).s, an_text_shape(weight).s, (long long)groups);
        return false;
    }
    if (bias && (an_tensor_rank(bias) != 1 || an_tensor_dim(bias, 0) != f)) {
        an_tensor_fail(x->graph, AN_ERR_SHAPE, "%s: bias %s: weight %s needs (%lld,)", call, an_text_shape(bias).s,
                       an_text_shape(weight).s, (long long)f);
        return false;
    }
    return true;
}

/* x       (N, C, in...)  -> windows (N, G, 1, out..., C/G, kernel...)
 * weight  (F, C/G, k...) ->         (G, F/G, 1..., C/G, kernel...)
 * product, summed over the last n + 1 axes: (N, G, F/G, out...) */
static an_tensor *conv(an_tensor *x, an_tensor *weight, an_tensor *bias, const an_conv_desc *desc, const char *call,
                       uint32_t n)
{
    static const an_conv_desc plain = {0};
    if (!desc) desc = &plain;
    if (!x || !weight || !check_conv(x, weight, bias, desc, call, n)) return NULL;
    an_graph *g = x->graph;
    int64_t stride[3], dilation[3], kernel[3], order[AN_RANK_MAX];
    an_uop dims[AN_RANK_MAX];
    const int64_t groups = or_one(desc->groups), c = an_tensor_dim(x, 1), f = an_tensor_dim(weight, 0);
    for (uint32_t i = 0; i < n; i++) {
        stride[i] = or_one(desc->stride[i]);
        dilation[i] = or_one(desc->dilation[i]);
        kernel[i] = an_tensor_dim(weight, (int)i + 2);
    }
    const an_dtype d = an_dtype_promote(an_tensor_dtype(x), an_tensor_dtype(weight));
    const an_dtype wide = an_dtype_accumulate(d);
    x = an_cast(x, wide);
    weight = an_cast(weight, wide);

    x = an_windows(pad_spatial(x, n, desc->pad_before, desc->pad_after, 0), n, kernel, stride, dilation);
    if (!x || !weight) return NULL; /* (N, C, out..., kernel...) */
    const an_shape s = an_tensor_shape(x);
    uint32_t rank = 0;
    dims[rank++] = s.dims[0];
    dims[rank++] = an_index(g, groups);
    dims[rank++] = an_index(g, 1);
    dims[rank++] = an_index(g, c / groups);
    for (uint32_t i = 2; i < s.rank; i++) dims[rank++] = s.dims[i];
    x = an_reshape_uop(x, dims, rank); /* (N, G, 1, C/G, out..., kernel...) */
    for (uint32_t i = 0; i < rank; i++) order[i] = i < 3 || i > 3 + n ? i : i == 3 + n ? 3 : i + 1;
    x = an_permute(x, order, rank);

    rank = 0;
    dims[rank++] = an_index(g, groups);
    dims[rank++] = an_index(g, f / groups);
    for (uint32_t i = 0; i < n; i++) dims[rank++] = an_index(g, 1);
    dims[rank++] = an_index(g, c / groups);
    for (uint32_t i = 0; i < n; i++) dims[rank++] = an_index(g, kernel[i]);
    weight = an_reshape_uop(weight, dims, rank);

    int64_t axes[4];
    for (uint32_t i = 0; i <= n; i++) axes[i] = -1 - (int64_t)i;
    an_tensor *y = an_flatten(an_sum(an_mul(x, weight), axes, n + 1, false), 1, 2);
    if (bias) {
        for (uint32_t i = 0; i < n; i++) bias = an_unsqueeze(bias, -1);
        y = an_add(y, an_cast(bias, wide));
    }
    return an_cast(y, d);
}

an_tensor *an_conv1d(an_tensor *x, an_tensor *weight, an_tensor *bias, const an_conv_desc *desc)
{
    return conv(x, weight, bias, desc, __func__, 1);
}

an_tensor *an_conv2d(an_tensor *x, an_tensor *weight, an_tensor *bias, const an_conv_desc *desc)
{
    return conv(x, weight, bias, desc, __func__, 2);
}

an_tensor *an_conv3d(an_tensor *x, an_tensor *weight, an_tensor *bias, const an_conv_desc *desc)
{
    return conv(x, weight, bias, desc, __func__, 3);
}

/* --- pooling ----------------------------------------------------------------------------------------------------- */

static bool check_pool(an_tensor *x, const an_pool_desc *desc, const char *call, uint32_t n)
{
    if (an_tensor_rank(x) < n) {
        an_tensor_fail(x->graph, AN_ERR_SHAPE, "%s: shape %s: it needs %u axes or more", call, an_text_shape(x).s, n);
        return false;
    }
    if (!desc) {
        an_tensor_fail(x->graph, AN_ERR_ARG, "%s: without a desc: its kernel sizes are needed", call);
        return false;
    }
    if (!check_not_negative(x, call, "stride", desc->stride, n) ||
        !check_not_negative(x, call, "dilation", desc->dilation, n) ||
        !check_not_negative(x, call, "pad_before", desc->pad_before, n) ||
        !check_not_negative(x, call, "pad_after", desc->pad_after, n))
        return false;
    for (uint32_t i = 0; i < n; i++) {
        if (desc->kernel[i] < 1) {
            an_tensor_fail(x->graph, AN_ERR_ARG, "%s: kernel %s: each size must be 1 or more", call,
                           an_text_dims(desc->kernel, n).s);
            return false;
        }
        if (desc->pad_before[i] > desc->kernel[i] / 2 || desc->pad_after[i] > desc->kernel[i] / 2) {
            an_tensor_fail(x->graph, AN_ERR_ARG,
                           "%s: %lld and %lld elements of padding for a kernel of %lld: at most half the kernel", call,
                           (long long)desc->pad_before[i], (long long)desc->pad_after[i], (long long)desc->kernel[i]);
            return false;
        }
    }
    return true;
}

/* The windows that desc asks for, of x padded with value. */
static an_tensor *pool_windows(an_tensor *x, const an_pool_desc *desc, uint32_t n, double value)
{
    int64_t stride[3], dilation[3];
    for (uint32_t i = 0; i < n; i++) {
        stride[i] = desc->stride[i] ? desc->stride[i] : desc->kernel[i];
        dilation[i] = or_one(desc->dilation[i]);
    }
    x = pad_spatial(x, n, desc->pad_before, desc->pad_after, value);
    return an_windows(x, n, desc->kernel, stride, dilation);
}

static const int64_t last_axes[3] = {-1, -2, -3};

static an_tensor *max_pool(an_tensor *x, const an_pool_desc *desc, const char *call, uint32_t n)
{
    if (!x || !check_pool(x, desc, call, n)) return NULL;
    return an_max(pool_windows(x, desc, n, an_dtype_least(an_tensor_dtype(x))), last_axes, n, false);
}

static an_tensor *avg_pool(an_tensor *x, const an_pool_desc *desc, const char *call, uint32_t n)
{
    x = an_to_float(x);
    if (!x || !check_pool(x, desc, call, n)) return NULL;
    const an_dtype d = an_tensor_dtype(x);
    x = an_cast(x, an_dtype_accumulate(d));
    an_tensor *w = pool_windows(x, desc, n, 0);
    if (!desc->exclude_pad) return an_cast(an_mean(w, last_axes, n, false), d);
    an_tensor *count = an_sum(pool_windows(an_ones_like(x), desc, n, 0), last_axes, n, false);
    return an_cast(an_div(an_sum(w, last_axes, n, false), count), d);
}

an_tensor *an_max_pool1d(an_tensor *x, const an_pool_desc *desc)
{
    return max_pool(x, desc, __func__, 1);
}

an_tensor *an_max_pool2d(an_tensor *x, const an_pool_desc *desc)
{
    return max_pool(x, desc, __func__, 2);
}

an_tensor *an_max_pool3d(an_tensor *x, const an_pool_desc *desc)
{
    return max_pool(x, desc, __func__, 3);
}

an_tensor *an_avg_pool1d(an_tensor *x, const an_pool_desc *desc)
{
    return avg_pool(x, desc, __func__, 1);
}

an_tensor *an_avg_pool2d(an_tensor *x, const an_pool_desc *desc)
{
    return avg_pool(x, desc, __func__, 2);
}

an_tensor *an_avg_pool3d(an_tensor *x, const an_pool_desc *desc)
{
    return avg_pool(x, desc, __func__, 3);
}
