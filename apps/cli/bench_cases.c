/* bench_cases.c - what is timed. */
#include "bench.h"

#include <anneal/settings.h>

#include <stdlib.h>

float *bench_data(size_t n)
{
    float *data = malloc((n ? n : 1) * sizeof *data);
    for (size_t i = 0; data && i < n; i++) data[i] = (float)(i * 2654435761u % 2003) / 1001.5f - 1.0f;
    return data;
}

/* Numbers in a buffer of that dtype. */
static an_tensor *input_of(an_graph *g, an_dtype dtype, const int64_t *dims, uint32_t rank)
{
    size_t n = 1;
    for (uint32_t i = 0; i < rank; i++) n *= (size_t)dims[i];
    float *data = bench_data(n);
    an_tensor *t = data ? an_tensor_from_host(g, AN_F32, dims, rank, data) : NULL;
    free(data);
    if (dtype == AN_DTYPE_NONE || dtype == AN_F32) return t;
    t = an_cast(t, dtype);
    return an_realize(&t, 1) ? NULL : t;
}

static an_tensor *input(an_graph *g, const int64_t *dims, uint32_t rank)
{
    return input_of(g, AN_F32, dims, rank);
}

static double nbytes_of(const bench_size *s, double elements)
{
    return elements * (double)an_dtype_nbytes(s->dtype == AN_DTYPE_NONE ? AN_F32 : s->dtype);
}

/* (b, rows, cols), or (rows, cols) if there is one; stored the other way round if it says t. */
static an_tensor *matrix(an_graph *g, const bench_size *s, int64_t rows, int64_t cols, bool t)
{
    const int64_t dims[3] = {s->b, t ? cols : rows, t ? rows : cols};
    an_tensor *x = input_of(g, s->dtype, s->b > 1 ? dims : dims + 1, s->b > 1 ? 3 : 2);
    return t ? an_transpose(x, -1, -2) : x;
}

static bool matmul(an_graph *g, const bench_size *s, an_tensor **out, size_t *nout, double *flops, double *nbytes)
{
    an_tensor *a = matrix(g, s, s->m, s->k, s->layout[0] == 't'), *b = matrix(g, s, s->k, s->n, s->layout[1] == 't');
    const double m = (double)s->m, n = (double)s->n, k = (double)s->k, batch = (double)s->b;
    out[0] = an_matmul(a, b);
    *nout = 1;
    *flops = 2.0 * batch * m * n * k;
    *nbytes = nbytes_of(s, batch * (m * k + k * n + m * n));
    return out[0] != NULL;
}

static bool elementwise(an_graph *g, const bench_size *s, an_tensor **out, size_t *nout, double *flops, double *nbytes)
{
    an_tensor *x = input_of(g, s->dtype, AN_DIMS(s->m, s->n)), *y = input_of(g, s->dtype, AN_DIMS(s->m, s->n));
    out[0] = an_relu(an_add(an_mul(an_add_scalar(x, 0.5), y), x));
    *nout = 1;
    *flops = 4.0 * (double)s->m * (double)s->n;
    *nbytes = nbytes_of(s, 3.0 * (double)s->m * (double)s->n);
    return out[0] != NULL;
}

static bool softmax(an_graph *g, const bench_size *s, an_tensor **out, size_t *nout, double *flops, double *nbytes)
{
    out[0] = an_softmax(input_of(g, s->dtype, AN_DIMS(s->m, s->n)), -1);
    *nout = 1;
    *flops = 5.0 * (double)s->m * (double)s->n;
    *nbytes = nbytes_of(s, 2.0 * (double)s->m * (double)s->n);
    return out[0] != NULL;
}

static bool layernorm(an_graph *g, const bench_size *s, an_tensor **out, size_t *nout, double *flops, double *nbytes)
{
    out[0] = an_layer_norm(input_of(g, s->dtype, AN_DIMS(s->m, s->n)), 1, input_of(g, s->dtype, AN_DIMS(s->n)), input_of(g, s->dtype, AN_DIMS(s->n)), 1e-5);
    *nout = 1;
    *flops = 8.0 * (double)s->m * (double)s->n;
    *nbytes = nbytes_of(s, 2.0 * (double)s->m * (double)s->n);
    return out[0] != NULL;
}

static bool reduce(an_graph *g, const bench_size *s, an_tensor **out, size_t *nout, double *flops, double *nbytes)
{
    out[0] = an_sum(input_of(g, s->dtype, AN_DIMS(s->m, s->n)), AN_DIMS(0), false);
    *nout = 1;
    *flops = (double)s->m * (double)s->n;
    *nbytes = nbytes_of(s, (double)s->m * (double)s->n);
    return out[0] != NULL;
}

/* 3 x 3, padding of 1, k channels in and out, m images of n x n: forward, or the gradient by one of its operands. */
static bool conv_or_gradient(an_graph *g, const bench_size *s, int64_t stride, int wrt, an_tensor **out, size_t *nout, double *flops, double *nbytes)
{
    const an_conv_desc desc = {.stride = {stride, stride}, .pad_before = {1, 1, 1}, .pad_after = {1, 1, 1}};
    const int64_t side = (s->n - 1) / stride + 1;
    an_tensor *operands[2] = {input(g, AN_DIMS(s->m, s->k, s->n, s->n)), input(g, AN_DIMS(s->k, s->k, 3, 3))};
    out[0] = an_conv2d(operands[0], operands[1], NULL, &desc);
    *nout = 1;
    const double before = (double)s->m * (double)s->n * (double)s->n, after = (double)s->m * (double)side * (double)side;
    *flops = 2.0 * after * (double)s->k * (double)s->k * 9;
    *nbytes = 4.0 * (before + after) * (double)s->k;
    if (wrt < 0 || !out[0]) return out[0] != NULL;
    an_tensor *cotangent = input(g, AN_DIMS(s->m, s->k, side, side));
    return an_backward_from(out[0], cotangent, &operands[wrt], 1, out) == AN_OK;
}

static bool conv(an_graph *g, const bench_size *s, an_tensor **out, size_t *nout, double *flops, double *nbytes)
{
    return conv_or_gradient(g, s, 1, -1, out, nout, flops, nbytes);
}

static bool conv_input(an_graph *g, const bench_size *s, an_tensor **out, size_t *nout, double *flops, double *nbytes)
{
    return conv_or_gradient(g, s, 1, 0, out, nout, flops, nbytes);
}

static bool conv_input_strided(an_graph *g, const bench_size *s, an_tensor **out, size_t *nout, double *flops, double *nbytes)
{
    return conv_or_gradient(g, s, 2, 0, out, nout, flops, nbytes);
}

static bool conv_weight(an_graph *g, const bench_size *s, an_tensor **out, size_t *nout, double *flops, double *nbytes)
{
    return conv_or_gradient(g, s, 1, 1, out, nout, flops, nbytes);
}

/* m heads of n positions of k. */
static bool attention(an_graph *g, const bench_size *s, an_tensor **out, size_t *nout, double *flops, double *nbytes)
{
    an_tensor *q = input(g, AN_DIMS(s->m, s->n, s->k)), *k = input(g, AN_DIMS(s->m, s->n, s->k));
    an_tensor *v = input(g, AN_DIMS(s->m, s->n, s->k));
    out[0] = an_matmul(an_softmax(an_mul_scalar(an_matmul(q, an_transpose(k, 1, 2)), 0.125), -1), v);
    *nout = 1;
    *flops = 4.0 * (double)s->m * (double)s->n * (double)s->n * (double)s->k;
    *nbytes = 16.0 * (double)s->m * (double)s->n * (double)s->k;
    return out[0] != NULL;
}

/* m rows of k floats out of a table of n. */
static bool gather(an_graph *g, const bench_size *s, an_tensor **out, size_t *nout, double *flops, double *nbytes)
{
    int32_t *at = malloc((size_t)s->m * sizeof *at);
    if (!at) return false;
    for (int64_t i = 0; i < s->m; i++) at[i] = (int32_t)((uint64_t)i * 2654435761u % (uint64_t)s->n);
    out[0] = an_embedding(input_of(g, s->dtype, AN_DIMS(s->n, s->k)), an_tensor_from_host(g, AN_I32, AN_DIMS(s->m), at));
    free(at);
    *nout = 1;
    *flops = 0;
    *nbytes = nbytes_of(s, 2.0 * (double)s->m * (double)s->k) + 4.0 * (double)s->m;
    return out[0] != NULL;
}

/* n additions to m floats, each a kernel of its own: built with fusion off. */
static bool launch(an_graph *g, const bench_size *s, an_tensor **out, size_t *nout, double *flops, double *nbytes)
{
    an_settings settings = an_ctx_settings(an_graph_ctx(g));
    settings.no_fuse = true;
    if (an_ctx_set_settings(an_graph_ctx(g), settings)) return false;
    an_tensor *x = input(g, AN_DIMS(s->m)), *y = input(g, AN_DIMS(s->m));
    for (int64_t i = 0; i < s->n; i++) x = an_add(x, y);
    out[0] = x;
    *nout = 1;
    *flops = (double)s->n * (double)s->m;
    *nbytes = 12.0 * (double)s->n * (double)s->m;
    return x != NULL;
}

/* A training step of n-k-10 with ReLU on m rows, by SGD. */
static bool mlp(an_graph *g, const bench_size *s, an_tensor **out, size_t *nout, double *flops, double *nbytes)
{
    an_init init = {.graph = g, .seed = 0};
    an_module *net = an_nn_sequential(g, AN_MODULES(an_nn_linear(&init, s->n, s->k, NULL), an_nn_function(g, "relu", an_relu),
                                                    an_nn_linear(&init, s->k, 10, NULL)));
    an_optim *opt = an_optim_sgd(an_module_parameters(net), &(an_sgd_desc){.lr = 0.01});
    int32_t *y = calloc((size_t)s->m, sizeof *y);
    if (!y) return false;
    for (int64_t i = 0; i < s->m; i++) y[i] = (int32_t)(i % 10);
    an_tensor *target = an_tensor_from_host(g, AN_I32, AN_DIMS(s->m), y);
    free(y);
    out[0] = an_cross_entropy(an_module_forward(net, input(g, AN_DIMS(s->m, s->n))), target, NULL);
    if (an_optim_minimize(opt, out[0])) return false;
    const an_params writes = an_optim_writes(opt);
    *nout = 1;
    for (size_t i = 0; i < writes.n && *nout < BENCH_OUTS; i++) out[(*nout)++] = writes.items[i].tensor;
    const double weights = (double)s->k * ((double)s->n + 10);
    *flops = 2.0 * (double)s->m * (2 * (double)s->n * (double)s->k + 3 * (double)s->k * 10);
    *nbytes = 4.0 * (3 * weights + (double)s->m * (double)s->n);
    return true;
}

static const bench_case cases[] = {
    {"matmul", "(m, k) @ (k, n), b of them", {1024, 1024, 1024, 1, "nn", AN_DTYPE_NONE}, 0, 0, false, matmul},
    {"elementwise", "relu((x + 0.5) * y + x) over (m, n)", {4096, 1024, 1, 1, "nn", AN_DTYPE_NONE}, 0, 0, false, elementwise},
    {"softmax", "over the rows of (m, n)", {4096, 1024, 1, 1, "nn", AN_DTYPE_NONE}, 0, 0, false, softmax},
    {"layernorm", "over the rows of (m, n)", {4096, 1024, 1, 1, "nn", AN_DTYPE_NONE}, 0, 0, false, layernorm},
    {"reduce", "(m, n) summed over m", {4096, 1024, 1, 1, "nn", AN_DTYPE_NONE}, 0, 0, false, reduce},
    {"conv", "3x3, k channels in and out, m images of n x n", {16, 32, 64, 1, "nn", AN_DTYPE_NONE}, 0, 0, false, conv},
    {"conv-input", "the gradient of conv by its input", {16, 32, 64, 1, "nn", AN_DTYPE_NONE}, 0, 0, false, conv_input},
    {"conv-input-strided", "the gradient of conv with strides of 2 by its input", {16, 32, 64, 1, "nn", AN_DTYPE_NONE}, 0, 0, false, conv_input_strided},
    {"conv-weight", "the gradient of conv by its weight", {16, 32, 64, 1, "nn", AN_DTYPE_NONE}, 0, 0, false, conv_weight},
    {"attention", "m heads, n positions, k features", {8, 256, 64, 1, "nn", AN_DTYPE_NONE}, 0, 0, false, attention},
    {"gather", "m rows of k out of a table of n", {16384, 32768, 256, 1, "nn", AN_DTYPE_NONE}, 0, 0, false, gather},
    {"mlp", "a step of n-k-10, batch m, SGD", {64, 784, 128, 1, "nn", AN_DTYPE_NONE}, 4, 0, false, mlp},
    {"gpt", "a step of 4 layers of width k, m sequences of n positions, AdamW", {12, 64, 128, 1, "nn", AN_DTYPE_NONE}, 1, 8, false, bench_gpt},
    {"launch", "n kernels, one after the other, of m floats", {64, 64, 1, 1, "nn", AN_DTYPE_NONE}, 0, 0, true, launch},
};

size_t bench_count(void)
{
    return CLI_COUNT(cases);
}

const bench_case *bench_get(size_t i)
{
    return &cases[i];
}
