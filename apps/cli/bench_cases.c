/* bench_cases.c - what is timed. */
#include "bench.h"

#include <stdlib.h>

float *bench_data(size_t n)
{
    float *data = malloc((n ? n : 1) * sizeof *data);
    for (size_t i = 0; data && i < n; i++) data[i] = (float)(i * 2654435761u % 2003) / 1001.5f - 1.0f;
    return data;
}

static an_tensor *input(an_graph *g, const int64_t *dims, uint32_t rank)
{
    size_t n = 1;
    for (uint32_t i = 0; i < rank; i++) n *= (size_t)dims[i];
    float *data = bench_data(n);
    an_tensor *t = data ? an_tensor_from_host(g, AN_F32, dims, rank, data) : NULL;
    free(data);
    return t;
}

static bool matmul(an_graph *g, const bench_size *s, an_tensor **out, size_t *nout, double *flops, double *nbytes)
{
    const bool ta = s->layout[0] == 't', tb = s->layout[1] == 't';
    an_tensor *a = ta ? an_transpose(input(g, AN_DIMS(s->k, s->m)), 0, 1) : input(g, AN_DIMS(s->m, s->k));
    an_tensor *b = tb ? an_transpose(input(g, AN_DIMS(s->n, s->k)), 0, 1) : input(g, AN_DIMS(s->k, s->n));
    out[0] = an_matmul(a, b);
    *nout = 1;
    *flops = 2.0 * (double)s->m * (double)s->n * (double)s->k;
    *nbytes = 4.0 * ((double)s->m * (double)s->k + (double)s->k * (double)s->n + (double)s->m * (double)s->n);
    return out[0] != NULL;
}

static bool elementwise(an_graph *g, const bench_size *s, an_tensor **out, size_t *nout, double *flops, double *nbytes)
{
    an_tensor *x = input(g, AN_DIMS(s->m, s->n)), *y = input(g, AN_DIMS(s->m, s->n));
    out[0] = an_relu(an_add(an_mul(an_add_scalar(x, 0.5), y), x));
    *nout = 1;
    *flops = 4.0 * (double)s->m * (double)s->n;
    *nbytes = 12.0 * (double)s->m * (double)s->n;
    return out[0] != NULL;
}

static bool softmax(an_graph *g, const bench_size *s, an_tensor **out, size_t *nout, double *flops, double *nbytes)
{
    out[0] = an_softmax(input(g, AN_DIMS(s->m, s->n)), -1);
    *nout = 1;
    *flops = 5.0 * (double)s->m * (double)s->n;
    *nbytes = 8.0 * (double)s->m * (double)s->n;
    return out[0] != NULL;
}

static bool layernorm(an_graph *g, const bench_size *s, an_tensor **out, size_t *nout, double *flops, double *nbytes)
{
    out[0] = an_layer_norm(input(g, AN_DIMS(s->m, s->n)), 1, input(g, AN_DIMS(s->n)), input(g, AN_DIMS(s->n)), 1e-5);
    *nout = 1;
    *flops = 8.0 * (double)s->m * (double)s->n;
    *nbytes = 8.0 * (double)s->m * (double)s->n;
    return out[0] != NULL;
}

static bool reduce(an_graph *g, const bench_size *s, an_tensor **out, size_t *nout, double *flops, double *nbytes)
{
    out[0] = an_sum(input(g, AN_DIMS(s->m, s->n)), AN_DIMS(0), false);
    *nout = 1;
    *flops = (double)s->m * (double)s->n;
    *nbytes = 4.0 * (double)s->m * (double)s->n;
    return out[0] != NULL;
}

/* 3 x 3, same padding, k channels in and out, m images of n x n. */
static bool conv(an_graph *g, const bench_size *s, an_tensor **out, size_t *nout, double *flops, double *nbytes)
{
    const an_conv_desc desc = {.pad_before = {1, 1, 1}, .pad_after = {1, 1, 1}};
    out[0] = an_conv2d(input(g, AN_DIMS(s->m, s->k, s->n, s->n)), input(g, AN_DIMS(s->k, s->k, 3, 3)), NULL, &desc);
    *nout = 1;
    const double pixels = (double)s->m * (double)s->n * (double)s->n;
    *flops = 2.0 * pixels * (double)s->k * (double)s->k * 9;
    *nbytes = 8.0 * pixels * (double)s->k;
    return out[0] != NULL;
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
    {"matmul", "(m, k) @ (k, n)", {1024, 1024, 1024, "nn"}, matmul},
    {"elementwise", "relu((x + 0.5) * y + x) over (m, n)", {4096, 1024, 1, "nn"}, elementwise},
    {"softmax", "over the rows of (m, n)", {4096, 1024, 1, "nn"}, softmax},
    {"layernorm", "over the rows of (m, n)", {4096, 1024, 1, "nn"}, layernorm},
    {"reduce", "(m, n) summed over m", {4096, 1024, 1, "nn"}, reduce},
    {"conv", "3x3, k channels in and out, m images of n x n", {16, 32, 64, "nn"}, conv},
    {"attention", "m heads, n positions, k features", {8, 256, 64, "nn"}, attention},
    {"mlp", "a step of n-k-10, batch m, SGD", {64, 784, 128, "nn"}, mlp},
};

size_t bench_count(void)
{
    return CLI_COUNT(cases);
}

const bench_case *bench_get(size_t i)
{
    return &cases[i];
}
