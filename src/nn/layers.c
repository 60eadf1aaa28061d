/* layers.c - the layers that come with the library, written as a user would write them. */
#include <anneal/nn.h>

#include <math.h>
#include <stdio.h>

/* What a layer keeps beside its tensors, copied from its descriptor. */
typedef struct layer {
    an_tensor *weight, *bias; /* bias may be NULL */
    an_tensor *(*fn)(an_tensor *x);
    an_rng *rng;
    an_conv_desc conv;
    an_pool_desc pool;
    uint32_t naxes;
    double number; /* eps, p */
} layer;

static layer *layer_of(const an_module *m)
{
    return an_module_data(m);
}

static an_module *create(an_graph *g, const char *kind, an_forward forward, const layer *fields)
{
    if (!g) return NULL;
    layer *own = an_graph_alloc(g, sizeof *own);
    if (!own) return NULL;
    *own = *fields;
    return an_module_create(g, kind, forward, own);
}

/* The layer with its parameters in place, or NULL if one could not be made. */
static an_module *with_weights(an_module *m, an_tensor *weight, an_tensor *bias, bool has_bias)
{
    if (!an_module_add_parameter(m, "weight", weight)) return NULL;
    if (has_bias && !an_module_add_parameter(m, "bias", bias)) return NULL;
    layer_of(m)->weight = weight;
    layer_of(m)->bias = has_bias ? bias : NULL;
    return m;
}

static bool positive(const an_init *init, const char *call, int64_t a, int64_t b)
{
    if (!init || !init->graph) return false;
    if (a > 0 && b > 0) return true;
    an_fail(an_graph_ctx(init->graph), AN_ERR_ARG, "%s: sizes %lld and %lld must be at least 1", call, (long long)a,
            (long long)b);
    return false;
}

/* --- with weights -------------------------------------------------------------------------------- */

/* x in the dtype that m computes in. */
static an_tensor *computed(const an_module *m, an_tensor *x)
{
    const an_dtype d = an_module_compute(m);
    return x && d != AN_DTYPE_NONE ? an_cast(x, d) : x;
}

static an_tensor *linear_forward(an_module *m, an_tensor *x)
{
    const layer *l = layer_of(m);
    return an_linear(computed(m, x), computed(m, l->weight), computed(m, l->bias));
}

an_module *an_nn_linear(an_init *init, int64_t in, int64_t out, const an_nn_linear_desc *desc)
{
    if (!positive(init, "an_nn_linear", in, out)) return NULL;
    const bool has_bias = !desc || !desc->no_bias;
    const double b = 1.0 / sqrt((double)in);
    const bool normal = init->std > 0.0;
    an_tensor *weight = normal ? an_init_normal(init, AN_DIMS(out, in), 0.0, init->std) : an_init_uniform(init, AN_DIMS(out, in), -b, b);
    an_tensor *bias = !has_bias ? NULL : normal ? an_init_constant(init, AN_DIMS(out), 0.0) : an_init_uniform(init, AN_DIMS(out), -b, b);
    return with_weights(create(init->graph, "linear", linear_forward, &(layer){0}), weight, bias, has_bias);
}

/* x as it is to be computed with; what is cast for that, which a convolution reads many times, once and in a buffer of its own. */
static an_tensor *computed_once(const an_module *m, an_tensor *x)
{
    an_tensor *y = computed(m, x);
    return y && an_tensor_dtype(y) != an_tensor_dtype(x) ? an_contiguous(y) : y;
}

static an_tensor *conv2d_forward(an_module *m, an_tensor *x)
{
    const layer *l = layer_of(m);
    return an_conv2d(computed_once(m, x), computed_once(m, l->weight), computed(m, l->bias), &l->conv);
}

an_module *an_nn_conv2d(an_init *init, int64_t in, int64_t out, int64_t kernel_h, int64_t kernel_w,
                        const an_nn_conv_desc *desc)
{
    if (!positive(init, "an_nn_conv2d", in, out) || !positive(init, "an_nn_conv2d", kernel_h, kernel_w)) return NULL;
    layer fields = {0};
    if (desc) fields.conv = desc->conv;
    const int64_t groups = fields.conv.groups ? fields.conv.groups : 1;
    if (groups < 1 || in % groups || out % groups) {
        an_fail(an_graph_ctx(init->graph), AN_ERR_ARG, "an_nn_conv2d: %lld groups do not divide channels %lld and %lld",
                (long long)groups, (long long)in, (long long)out);
        return NULL;
    }
    const bool has_bias = !desc || !desc->no_bias;
    const double b = 1.0 / sqrt((double)(in / groups) * (double)kernel_h * (double)kernel_w);
    an_tensor *weight = an_init_uniform(init, AN_DIMS(out, in / groups, kernel_h, kernel_w), -b, b);
    an_tensor *bias = has_bias ? an_init_uniform(init, AN_DIMS(out), -b, b) : NULL;
    return with_weights(create(init->graph, "conv2d", conv2d_forward, &fields), weight, bias, has_bias);
}

static an_tensor *embedding_forward(an_module *m, an_tensor *x)
{
    return an_embedding(layer_of(m)->weight, x);
}

an_module *an_nn_embedding(an_init *init, int64_t n, int64_t dim)
{
    if (!positive(init, "an_nn_embedding", n, dim)) return NULL;
    an_tensor *weight = an_init_normal(init, AN_DIMS(n, dim), 0.0, init->std > 0.0 ? init->std : 1.0);
    return with_weights(create(init->graph, "embedding", embedding_forward, &(layer){0}), weight, NULL, false);
}

static an_tensor *layer_norm_forward(an_module *m, an_tensor *x)
{
    const layer *l = layer_of(m);
    return an_layer_norm(x, l->naxes, l->weight, l->bias, l->number);
}

static an_tensor *rms_norm_forward(an_module *m, an_tensor *x)
{
    const layer *l = layer_of(m);
    return an_rms_norm(x, l->naxes, l->weight, l->number);
}

an_module *an_nn_layer_norm(an_init *init, const int64_t *dims, uint32_t rank, const an_nn_layer_norm_desc *desc)
{
    if (!init) return NULL;
    const an_nn_layer_norm_desc d = desc ? *desc : (an_nn_layer_norm_desc){0};
    const layer fields = {.naxes = rank, .number = d.eps != 0.0 ? d.eps : 1e-5};
    an_tensor *weight = an_init_constant(init, dims, rank, 1.0), *bias = d.no_bias ? NULL : an_init_constant(init, dims, rank, 0.0);
    return with_weights(create(init->graph, "layer_norm", layer_norm_forward, &fields), weight, bias, !d.no_bias);
}

an_module *an_nn_rms_norm(an_init *init, const int64_t *dims, uint32_t rank, double eps)
{
    if (!init) return NULL;
    const layer fields = {.naxes = rank, .number = eps != 0.0 ? eps : 1e-5};
    an_tensor *weight = an_init_constant(init, dims, rank, 1.0);
    return with_weights(create(init->graph, "rms_norm", rms_norm_forward, &fields), weight, NULL, false);
}

/* --- without ------------------------------------------------------------------------------------- */

static an_tensor *dropout_forward(an_module *m, an_tensor *x)
{
    const layer *l = layer_of(m);
    return an_module_is_training(m) && l->number > 0.0 ? an_dropout(l->rng, x, l->number) : x;
}

an_module *an_nn_dropout(an_rng *rng, an_graph *g, double p)
{
    if (!rng || !g) return NULL;
    if (!(p >= 0.0 && p < 1.0)) {
        an_fail(an_graph_ctx(g), AN_ERR_ARG, "an_nn_dropout: probability %g must be at least 0 and below 1", p);
        return NULL;
    }
    return create(g, "dropout", dropout_forward, &(layer){.rng = rng, .number = p});
}

static an_tensor *function_forward(an_module *m, an_tensor *x)
{
    return layer_of(m)->fn(x);
}

an_module *an_nn_function(an_graph *g, const char *kind, an_tensor *(*fn)(an_tensor *x))
{
    return create(g, kind, function_forward, &(layer){.fn = fn});
}

static an_tensor *flatten_rest(an_tensor *x)
{
    return an_tensor_rank(x) < 2 ? x : an_flatten(x, 1, -1);
}

an_module *an_nn_flatten(an_graph *g)
{
    return an_nn_function(g, "flatten", flatten_rest);
}

static an_tensor *max_pool2d_forward(an_module *m, an_tensor *x)
{
    return an_max_pool2d(x, &layer_of(m)->pool);
}

static an_tensor *avg_pool2d_forward(an_module *m, an_tensor *x)
{
    return an_avg_pool2d(x, &layer_of(m)->pool);
}

an_module *an_nn_max_pool2d(an_graph *g, const an_pool_desc *desc)
{
    return desc ? create(g, "max_pool2d", max_pool2d_forward, &(layer){.pool = *desc}) : NULL;
}

an_module *an_nn_avg_pool2d(an_graph *g, const an_pool_desc *desc)
{
    return desc ? create(g, "avg_pool2d", avg_pool2d_forward, &(layer){.pool = *desc}) : NULL;
}

/* --- one after another --------------------------------------------------------------------------- */

typedef struct chain {
    size_t n;
    an_module *modules[];
} chain;

static an_tensor *sequential_forward(an_module *m, an_tensor *x)
{
    const chain *c = an_module_data(m);
    for (size_t i = 0; i < c->n; i++) x = an_module_forward(c->modules[i], x);
    return x;
}

an_module *an_nn_sequential(an_graph *g, an_module *const *modules, size_t n)
{
    if (!g || n > 1000000) return NULL;
    chain *c = an_graph_alloc(g, sizeof *c + n * sizeof *modules);
    an_module *m = c ? an_module_create(g, "sequential", sequential_forward, c) : NULL;
    for (size_t i = 0; i < n; i++) {
        char name[24];
        snprintf(name, sizeof name, "%zu", i);
        if (!an_module_add_child(m, name, modules[i])) return NULL;
        c->modules[c->n++] = modules[i];
    }
    return m;
}
