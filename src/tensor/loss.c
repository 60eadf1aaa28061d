/* loss.c - normalisation and losses, in f32 where the operands are narrower. */
#include "tensor/tensor.h"

/* --- normalisation ----------------------------------------------------------------------------------------------- */

/* weight and bias have the shape of the last naxes axes of x. */
static bool check_norm(an_tensor *x, const char *call, uint32_t naxes, an_tensor *weight, an_tensor *bias)
{
    const an_shape s = an_tensor_shape(x);
    if (naxes < 1 || naxes > s.rank) {
        an_tensor_fail(x->graph, AN_ERR_ARG, "%s: over %u axes of shape %s: at least 1, and no more than it has", call,
                       naxes, an_text_shape(x).s);
        return false;
    }
    an_tensor *const extra[2] = {weight, bias};
    const an_shape want = {naxes, s.dims + (s.rank - naxes)};
    for (int i = 0; i < 2; i++) {
        if (!extra[i]) continue;
        if (!an_check_graph(call, x, extra[i])) return false;
        if (an_shape_eq(an_tensor_shape(extra[i]), want)) continue;
        an_tensor_fail(x->graph, AN_ERR_SHAPE, "%s: %s %s: it must have the last %u axes of shape %s", call,
                       i ? "bias" : "weight", an_text_shape(extra[i]).s, naxes, an_text_shape(x).s);
        return false;
    }
    return true;
}

static void last_axes(uint32_t n, int64_t axes[AN_RANK_MAX])
{
    for (uint32_t i = 0; i < n; i++) axes[i] = -1 - (int64_t)i;
}

an_tensor *an_layer_norm(an_tensor *x, uint32_t naxes, an_tensor *weight, an_tensor *bias, double eps)
{
    int64_t axes[AN_RANK_MAX];
    x = an_to_float(x);
    if (!x || !check_norm(x, __func__, naxes, weight, bias)) return NULL;
    const an_dtype d = an_tensor_dtype(x), wide = an_dtype_accumulate(d);
    last_axes(naxes, axes);
    x = an_cast(x, wide);
    an_tensor *centred = an_sub(x, an_mean(x, axes, naxes, true));
    an_tensor *var = an_mean(an_mul(centred, centred), axes, naxes, true);
    an_tensor *y = an_mul(centred, an_rsqrt(an_add_scalar(var, eps)));
    if (weight) y = an_mul(y, an_cast(weight, wide));
    if (bias) y = an_add(y, an_cast(bias, wide));
    return an_cast(y, d);
}

an_tensor *an_rms_norm(an_tensor *x, uint32_t naxes, an_tensor *weight, double eps)
{
    int64_t axes[AN_RANK_MAX];
    x = an_to_float(x);
    if (!x || !check_norm(x, __func__, naxes, weight, NULL)) return NULL;
    const an_dtype d = an_tensor_dtype(x), wide = an_dtype_accumulate(d);
    last_axes(naxes, axes);
    x = an_cast(x, wide);
    an_tensor *y = an_mul(x, an_rsqrt(an_add_scalar(an_mean(an_mul(x, x), axes, naxes, true), eps)));
    if (weight) y = an_mul(y, an_cast(weight, wide));
    return an_cast(y, d);
}

/* --- losses of two tensors --------------------------------------------------------------------------------------- */

static bool check_reduction(an_tensor *x, const char *call, an_reduction reduction)
{
    if (reduction == AN_REDUCE_MEAN || reduction == AN_REDUCE_SUM || reduction == AN_REDUCE_NONE) return true;
    an_tensor_fail(x->graph, AN_ERR_ARG, "%s: reduction %d: it is AN_REDUCE_MEAN, _SUM or _NONE", call, (int)reduction);
    return false;
}

static an_tensor *reduced(an_tensor *x, an_reduction reduction)
{
    if (reduction == AN_REDUCE_NONE) return x;
    return reduction == AN_REDUCE_SUM ? an_sum(x, AN_ALL, false) : an_mean(x, AN_ALL, false);
}

/* Both as floats of one dtype at least f32, which is what losses come out in; false for a NULL or what does not fit. */
static bool meet(const char *call, an_tensor **x, an_tensor **target, an_reduction reduction)
{
    an_uop dims[AN_RANK_MAX];
    uint32_t rank = 0;
    if (!*x || !*target || !an_check_graph(call, *x, *target) || !check_reduction(*x, call, reduction)) return false;
    if (!an_broadcast_shape(call, (an_tensor *[]){*x, *target}, 2, dims, &rank)) return false;
    const an_dtype d = an_dtype_promote(an_dtype_promote(an_tensor_dtype(*x), an_tensor_dtype(*target)), AN_F32);
    *x = an_cast(*x, d);
    *target = an_cast(*target, d);
    return *x && *target;
}

an_tensor *an_mse_loss(an_tensor *x, an_tensor *target, an_reduction reduction)
{
    if (!meet(__func__, &x, &target, reduction)) return NULL;
    return reduced(an_square(an_sub(x, target)), reduction);
}

an_tensor *an_l1_loss(an_tensor *x, an_tensor *target, an_reduction reduction)
{
    if (!meet(__func__, &x, &target, reduction)) return NULL;
    return reduced(an_abs(an_sub(x, target)), reduction);
}

an_tensor *an_huber_loss(an_tensor *x, an_tensor *target, double delta, an_reduction reduction)
{
    if (!meet(__func__, &x, &target, reduction)) return NULL;
    if (!(delta > 0))
        return an_tensor_fail(x->graph, AN_ERR_ARG, "%s: delta %g: it must be positive", __func__, delta);
    an_tensor *d = an_sub(x, target), *size = an_abs(d);
    an_tensor *inside = an_mul_scalar(an_mul(d, d), 0.5);
    an_tensor *outside = an_mul_scalar(an_sub_scalar(size, 0.5 * delta), delta);
    return reduced(an_where(an_le_scalar(size, delta), inside, outside), reduction);
}

/* -(t log s(x) + (1 - t) log(1 - s(x))) is softplus(x) - t x. */
an_tensor *an_bce_with_logits(an_tensor *x, an_tensor *target, an_reduction reduction)
{
    if (!meet(__func__, &x, &target, reduction)) return NULL;
    return reduced(an_sub(an_softplus(x), an_mul(target, x)), reduction);
}

/* --- classification ---------------------------------------------------------------------------------------------- */

static bool check_classes(an_tensor *x, an_tensor *target, const an_cross_entropy_desc *desc, const char *call)
{
    if (!an_check_graph(call, x, target) || !check_reduction(x, call, desc->reduction)) return false;
    if (!an_is_float(an_tensor_dtype(x))) {
        an_tensor_fail(x->graph, AN_ERR_DTYPE, "%s: the first operand has dtype %s: it must be a float", call,
                       an_dtype_name(an_tensor_dtype(x)));
        return false;
    }
    if (!an_check_integer(target, call, "target")) return false;
    if (!(desc->label_smoothing >= 0 && desc->label_smoothing <= 1)) {
        an_tensor_fail(x->graph, AN_ERR_ARG, "%s: label_smoothing %g: it must be between 0 and 1", call,
                       desc->label_smoothing);
        return false;
    }
    const an_shape s = an_tensor_shape(x), t = an_tensor_shape(target);
    bool ok = s.rank > 0 && t.rank + 1 == s.rank;
    for (uint32_t i = 0; ok && i < t.rank; i++) ok = an_uop_eq(t.dims[i], s.dims[i == 0 ? 0 : i + 1]);
    if (ok) return true;
    an_tensor_fail(x->graph, AN_ERR_SHAPE,
                   "%s: shapes %s and %s: they must be (C,) and (), or (N, C, ...) and (N, ...) with C classes", call,
                   an_text_shape(x).s, an_text_shape(target).s);
    return false;
}

/* From log-probabilities (N, C, ...), wide. */
static an_tensor *nll(an_tensor *logp, an_tensor *target, const an_cross_entropy_desc *desc)
{
    if (!logp) return NULL;
    an_graph *g = logp->graph;
    const uint32_t axis = an_tensor_rank(logp) == 1 ? 0 : 1;
    const double smoothing = desc->label_smoothing;
    const int64_t axes[1] = {axis};
    an_tensor *classes = an_iota_along(logp, an_tensor_dtype(target), axis);
    const int64_t c = an_tensor_dim(logp, (int)axis);
    if (c > 0 && !an_dtype_holds(an_tensor_dtype(target), (double)(c - 1))) {
        target = an_cast(target, AN_I32); /* more classes than it has numbers */
        classes = an_iota_along(logp, AN_I32, axis);
    }
    an_tensor *hit = an_eq(an_unsqueeze(target, (int)axis), classes);
    an_tensor *loss = an_neg(an_sum(an_where(hit, logp, an_const_of(logp, 0)), axes, 1, false));
    if (smoothing > 0) {
        an_tensor *even = an_neg(an_mean(logp, axes, 1, false));
        loss = an_add(an_mul_scalar(loss, 1 - smoothing), an_mul_scalar(even, smoothing));
    }
    if (!loss) return NULL;
    if (!desc->has_ignore_index || !an_dtype_holds(an_tensor_dtype(target), (double)desc->ignore_index))
        return reduced(loss, desc->reduction);
    an_tensor *ignored = an_tensor_wrap(g, an_const_int(g, an_tensor_dtype(target), desc->ignore_index), NULL, 0);
    an_tensor *counts = an_ne(target, ignored);
    loss = an_where(counts, loss, an_const_of(loss, 0));
    if (desc->reduction != AN_REDUCE_MEAN || !loss) return reduced(loss, desc->reduction);
    return an_div(an_sum(loss, AN_ALL, false), an_sum(an_cast(counts, an_tensor_dtype(loss)), AN_ALL, false));
}

static const an_cross_entropy_desc plain = {AN_REDUCE_MEAN, false, 0, 0.0};

an_tensor *an_nll_loss(an_tensor *logp, an_tensor *target, const an_cross_entropy_desc *desc)
{
    if (!desc) desc = &plain;
    if (!logp || !target || !check_classes(logp, target, desc, __func__)) return NULL;
    return nll(an_cast(logp, an_dtype_accumulate(an_tensor_dtype(logp))), target, desc);
}

an_tensor *an_cross_entropy(an_tensor *logits, an_tensor *target, const an_cross_entropy_desc *desc)
{
    if (!desc) desc = &plain;
    if (!logits || !target || !check_classes(logits, target, desc, __func__)) return NULL;
    an_tensor *x = an_cast(logits, an_dtype_accumulate(an_tensor_dtype(logits)));
    if (!x) return NULL;
    return nll(an_log_softmax(x, an_tensor_rank(x) == 1 ? 0 : 1), target, desc);
}
