/* norm.c - normalisation over groups of channels and over the batch. */
#include <anneal/nn.h>

typedef struct norm {
    an_tensor *weight, *bias, *mean, *var, *count; /* the last three of BatchNorm */
    double eps, momentum;
    int64_t groups, channels;
} norm;

/* (channels) as (1, channels, 1, ..) against x. */
static an_tensor *by_channel(an_tensor *v, an_tensor *x)
{
    int64_t dims[12] = {1, an_tensor_dim(v, 0), 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    return an_reshape(v, dims, an_tensor_rank(x));
}

static an_tensor *scaled(const norm *n, an_tensor *x)
{
    return x ? an_add(an_mul(x, by_channel(n->weight, x)), by_channel(n->bias, x)) : NULL;
}

static bool check_channels(const norm *n, const char *call, an_tensor *x)
{
    if (an_tensor_rank(x) >= 2 && an_tensor_rank(x) <= 12 && an_tensor_dim(x, 1) == n->channels) return true;
    an_fail(an_graph_ctx(an_tensor_graph(x)), AN_ERR_SHAPE, "%s: it takes (batch, %lld, ...), and axis 1 of what it got is %lld", call,
            (long long)n->channels, (long long)an_tensor_dim(x, 1));
    return false;
}

/* Statistics, and what is computed with them, are at least f32; what comes of it is as wide as x was. */
static an_tensor *widened(an_tensor *x)
{
    const an_dtype dtype = an_tensor_dtype(x);
    return an_dtype_nbytes(dtype) < an_dtype_nbytes(AN_F32) ? an_cast(x, AN_F32) : x;
}

/* (x - mean) / sqrt(var + eps) over axes. */
static an_tensor *normalised(an_tensor *x, an_tensor *mean, an_tensor *var, double eps)
{
    return an_mul(an_sub(x, mean), an_rsqrt(an_add_scalar(var, eps)));
}

static an_tensor *group_norm_forward(an_module *m, an_tensor *x)
{
    const norm *n = an_module_data(m);
    int64_t dims[12] = {0};
    if (!check_channels(n, "an_nn_group_norm", x)) return NULL;
    for (uint32_t i = 0; i < an_tensor_rank(x); i++) dims[i] = an_tensor_dim(x, (int)i);
    an_tensor *g = widened(an_reshape(x, AN_DIMS(dims[0], n->groups, -1)));
    g = normalised(g, an_mean(g, AN_DIMS(-1), true), an_var(g, AN_DIMS(-1), 0, true), n->eps);
    return an_cast(scaled(n, an_reshape(g, dims, an_tensor_rank(x))), an_tensor_dtype(x));
}

/* The module with weight 1 and bias 0. */
static an_module *create(an_init *init, const char *kind, an_forward forward, const norm *fields)
{
    if (!init || !init->graph) return NULL;
    an_graph *g = init->graph;
    norm *n = an_graph_alloc(g, sizeof *n);
    if (!n) return NULL;
    *n = *fields;
    if (n->eps == 0.0) n->eps = 1e-5;
    if (n->channels < 1 || n->groups < 1 || n->channels % n->groups != 0) {
        an_fail(an_graph_ctx(g), AN_ERR_ARG, "an_nn_%s: %lld groups do not divide %lld channels", kind, (long long)n->groups,
                (long long)n->channels);
        return NULL;
    }
    an_module *m = an_module_create(g, kind, forward, n);
    n->weight = an_module_add_parameter(m, "weight", an_init_constant(init, AN_DIMS(n->channels), 1.0));
    n->bias = an_module_add_parameter(m, "bias", an_init_constant(init, AN_DIMS(n->channels), 0.0));
    return n->weight && n->bias ? m : NULL;
}

an_module *an_nn_group_norm(an_init *init, int64_t groups, int64_t channels, double eps)
{
    return create(init, "group_norm", group_norm_forward, &(norm){.eps = eps, .groups = groups, .channels = channels});
}

/* target = (1 - momentum) target + momentum value. */
static an_status move(const norm *n, an_tensor *target, an_tensor *value)
{
    value = an_cast(an_detach(value), an_tensor_dtype(target));
    return an_assign(target, an_add(an_mul_scalar(target, 1.0 - n->momentum), an_mul_scalar(value, n->momentum)));
}

static an_tensor *batch_norm_forward(an_module *m, an_tensor *x)
{
    norm *n = an_module_data(m);
    int64_t axes[12] = {0};
    uint32_t naxes = 0;
    if (!check_channels(n, "an_nn_batch_norm", x)) return NULL;
    const an_dtype dtype = an_tensor_dtype(x);
    x = widened(x);
    if (!an_module_is_training(m)) return an_cast(scaled(n, normalised(x, by_channel(n->mean, x), by_channel(n->var, x), n->eps)), dtype);
    int64_t count = 1;
    for (uint32_t i = 0; i < an_tensor_rank(x); i++) {
        if (i == 1) continue;
        axes[naxes++] = i;
        count *= an_tensor_dim(x, (int)i);
    }
    an_tensor *mean = an_mean(x, axes, naxes, true), *var = an_var(x, axes, naxes, 0, true);
    an_tensor *flat = an_reshape(mean, AN_DIMS(n->channels)), *unbiased = an_reshape(var, AN_DIMS(n->channels));
    if (count > 1) unbiased = an_mul_scalar(unbiased, (double)count / (double)(count - 1));
    if (move(n, n->mean, flat) || move(n, n->var, unbiased) || an_assign(n->count, an_add_scalar(n->count, 1.0))) return NULL;
    return an_cast(scaled(n, normalised(x, mean, var, n->eps)), dtype);
}

an_module *an_nn_batch_norm(an_init *init, int64_t channels, double eps, double momentum)
{
    const norm fields = {.eps = eps, .momentum = momentum != 0.0 ? momentum : 0.1, .groups = 1, .channels = channels};
    an_module *m = create(init, "batch_norm", batch_norm_forward, &fields);
    if (!m) return NULL;
    norm *n = an_module_data(m);
    n->mean = an_module_add_buffer(m, "running_mean", an_init_constant(init, AN_DIMS(channels), 0.0));
    n->var = an_module_add_buffer(m, "running_var", an_init_constant(init, AN_DIMS(channels), 1.0));
    n->count = an_module_add_buffer(m, "num_batches_tracked", an_tensor_from_host(init->graph, AN_I64, AN_SCALAR, NULL));
    return n->mean && n->var && n->count ? m : NULL;
}
