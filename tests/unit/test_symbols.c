/* test_symbols.c - symbolic shapes: each program is built once over symbols, and once for each of their values over numbers (its
 * static twin); both must give the same. And what is checked when symbols are bound, and how often anything is compiled. */
#include "an_test.h"

#include "runtime/state.h"
#include <anneal/device.h>
#include <anneal/grad.h>
#include <anneal/nn.h>
#include <anneal/plan.h>
#include <anneal/tensor.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INS_MAX = 8, OUTS_MAX = 14 };

/* A program under construction. n and m are symbols, or their values. */
typedef struct build {
    an_graph *g;
    an_uop n, m;
    an_tensor *in[INS_MAX], *out[OUTS_MAX];
    size_t nin, nout;
} build;

#define UOPS(...) (const an_uop[]){__VA_ARGS__}, (uint32_t)(sizeof((const an_uop[]){__VA_ARGS__}) / sizeof(an_uop))

static an_uop k(const build *b, int64_t v)
{
    return an_dim(b->g, v);
}

static an_tensor *input(build *b, const an_uop *dims, uint32_t rank)
{
    return b->in[b->nin++] = an_tensor_alloc_uop(b->g, AN_F32, dims, rank);
}

static an_tensor *input_i32(build *b, const an_uop *dims, uint32_t rank)
{
    return b->in[b->nin++] = an_tensor_alloc_uop(b->g, AN_I32, dims, rank);
}

static void out(build *b, an_tensor *x)
{
    b->out[b->nout++] = x;
}

/* The gradients of sum(y * weights) by the n inputs so far, all floats; weights that tell the elements apart. */
static void out_gradients(build *b, an_tensor *y, size_t n)
{
    an_tensor *grads[INS_MAX] = {NULL};
    an_tensor *flat = an_flatten(y, 0, -1);
    an_tensor *w = flat ? an_arange_uop(b->g, AN_F32, an_tensor_dim_uop(flat, 0)) : NULL;
    an_tensor *loss = an_sum(an_mul(flat, an_sin(an_add_scalar(w, 1))), AN_ALL, false);
    if (!loss || an_backward(loss, b->in, n, grads)) {
        b->out[b->nout++] = NULL;
        return;
    }
    for (size_t i = 0; i < n; i++) out(b, grads[i]);
}

/* --- the programs --------------------------------------------------------------------------------------------------- */

static void elementwise(build *b)
{
    an_tensor *x = input(b, UOPS(b->n, k(b, 3))), *row = input(b, UOPS(k(b, 3))), *col = input(b, UOPS(b->n, k(b, 1)));
    an_tensor *y = an_relu(an_add(an_mul(an_add(x, row), col), an_full_uop(b->g, AN_F32, UOPS(b->n, k(b, 3)), 0.5)));
    out(b, y);
    out(b, an_where(an_gt(x, col), x, row));
    out(b, an_cast(an_mul_scalar(col, 100), AN_I32));
    out_gradients(b, y, 3);
}

static void reductions(build *b)
{
    an_tensor *x = input(b, UOPS(b->n, k(b, 5)));
    for (int axis = 0; axis < 2; axis++) {
        out(b, an_sum(x, AN_DIMS(axis), false));
        out(b, an_mean(x, AN_DIMS(axis), true));
    }
    out(b, an_sum(x, AN_ALL, false));
    out(b, an_var(x, AN_ALL, 0, false));
    out_gradients(b, an_mul(an_mean(x, AN_DIMS(0), true), an_sum(x, AN_DIMS(1), true)), 1);
}

static void extremes(build *b)
{
    an_tensor *x = input(b, UOPS(b->n, k(b, 5)));
    for (int axis = 0; axis < 2; axis++) {
        out(b, an_max(x, AN_DIMS(axis), false));
        out(b, an_argmax(x, axis, false));
    }
    out(b, an_prod(x, AN_DIMS(0), false));
    out_gradients(b, an_max(x, AN_DIMS(0), false), 1);
}

static void products(build *b)
{
    an_tensor *x = input(b, UOPS(b->n, k(b, 6))), *w = input(b, UOPS(k(b, 6), k(b, 4))), *y = input(b, UOPS(k(b, 3), b->n));
    out(b, an_matmul(x, w));
    out(b, an_matmul(y, x));
    out(b, an_matmul(x, an_transpose(x, 0, 1)));
    out_gradients(b, an_matmul(y, an_matmul(x, w)), 3);
}

static void normalisations(build *b)
{
    an_tensor *x = input(b, UOPS(b->n, k(b, 6))), *w = input(b, UOPS(k(b, 6)));
    out(b, an_softmax(x, 0));
    out(b, an_log_softmax(x, 1));
    out(b, an_layer_norm(x, 1, w, NULL, 1e-5));
    out(b, an_rms_norm(an_transpose(x, 0, 1), 1, NULL, 1e-5));
    out_gradients(b, an_add(an_softmax(x, 0), an_layer_norm(x, 1, w, NULL, 1e-5)), 2);
}

static an_tensor *attend(an_tensor *q, an_tensor *key, an_tensor *v)
{
    an_tensor *score = an_mul_scalar(an_matmul(q, an_transpose(key, -1, -2)), 0.5);
    an_tensor *seen = an_tril(an_ones_like(an_cast(score, AN_BOOL)), 0);
    return an_matmul(an_softmax(an_where(seen, score, an_full_like(score, -1e30)), -1), v);
}

static void attention(build *b)
{
    an_tensor *q = input(b, UOPS(b->n, k(b, 4))), *key = input(b, UOPS(b->n, k(b, 4))), *v = input(b, UOPS(b->n, k(b, 4)));
    an_tensor *y = attend(q, key, v);
    out(b, y);
    out_gradients(b, y, 3);
}

static void batched_attention(build *b)
{
    an_tensor *q = input(b, UOPS(b->m, k(b, 2), b->n, k(b, 4))), *key = input(b, UOPS(b->m, k(b, 2), b->n, k(b, 4)));
    an_tensor *y = attend(q, key, key);
    out(b, y);
    out_gradients(b, y, 2);
}

static void reshapes(build *b)
{
    an_graph *g = b->g;
    an_tensor *x = input(b, UOPS(b->n, k(b, 4))), *flat = input(b, UOPS(an_dim_mul(g, b->n, k(b, 4))));
    an_tensor *a = an_mul_scalar(an_reshape(x, AN_DIMS(-1)), 2);
    out(b, an_add(a, flat));
    out(b, an_exp2(an_reshape(flat, AN_DIMS(-1, 4))));
    out(b, an_add(an_reshape_uop(flat, UOPS(an_dim_mul(g, b->n, k(b, 2)), k(b, 2))), an_reshape(x, AN_DIMS(-1, 2))));
    an_tensor *across = an_reshape_uop(an_transpose(x, 0, 1), UOPS(an_dim_mul(g, b->n, k(b, 2)), k(b, 2)));
    out(b, an_add_scalar(across, 1));
    out(b, an_sum(an_reshape_uop(x, UOPS(k(b, 4), b->n)), AN_DIMS(0), false));
    out(b, an_sum(an_reshape_uop(x, UOPS(k(b, 2), b->n, k(b, 2))), AN_DIMS(1), false));
    out_gradients(b, an_mul(across, across), 2);
}

static void two_axes(build *b)
{
    an_graph *g = b->g;
    an_tensor *x = input(b, UOPS(b->m, b->n)), *y = input(b, UOPS(b->n, b->m)), *w = input(b, UOPS(b->n, k(b, 3)));
    out(b, an_add(x, an_transpose(y, 0, 1)));
    out(b, an_softmax(x, 1));
    out(b, an_matmul(x, y));
    out(b, an_matmul(x, w));
    out(b, an_mean(an_reshape_uop(x, UOPS(an_dim_mul(g, b->m, b->n))), AN_ALL, false));
    out(b, an_mul_scalar(an_reshape_uop(an_transpose(x, 0, 1), UOPS(b->m, b->n)), 3));
    out(b, an_mul_scalar(an_reshape(an_add(an_unsqueeze(x, -1), an_arange(g, AN_F32, 0, 4, 1)), AN_DIMS(-1)), 3));
    out_gradients(b, an_matmul(an_softmax(x, 0), an_mul(w, an_mean(y, AN_DIMS(1), true))), 3);
}

static void slices(build *b)
{
    an_tensor *x = input(b, UOPS(b->n, k(b, 2)));
    static const int64_t cuts[][3] = {{1, AN_NONE, 1}, {AN_NONE, -1, 1}, {AN_NONE, AN_NONE, 2}, {AN_NONE, AN_NONE, -1},
                                      {-3, AN_NONE, 1}, {2, 5, 1},        {-2, 0, -2},            {1, 100, 3}};
    an_tensor *sum = NULL;
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        an_tensor *part = an_mul_scalar(an_slice(x, 0, cuts[i][0], cuts[i][1], cuts[i][2]), 2);
        out(b, part);
        part = an_sum(an_mul(part, part), AN_ALL, false);
        sum = sum ? an_add(sum, part) : part;
    }
    out_gradients(b, an_unsqueeze(sum, 0), 1);
}

/* Parts of one row or none: at some values their rows lie before the buffer, or behind it. */
static const int64_t thin[][3] = {{1, -1, 40}, {-3, AN_NONE, -3}, {-3, AN_NONE, 50}, {-40, -38, 1}, {39, AN_NONE, 1}, {5, 4, 1}};

static void thin_parts(build *b)
{
    an_tensor *x = input(b, UOPS(b->n, k(b, 2))), *sum = NULL;
    for (size_t i = 0; i < sizeof thin / sizeof *thin; i++) {
        an_tensor *part = an_mul_scalar(an_slice(x, 0, thin[i][0], thin[i][1], thin[i][2]), 2);
        out(b, part);
        part = an_sum(an_mul(part, part), AN_ALL, false);
        sum = sum ? an_add(sum, part) : part;
    }
    out(b, sum);
    out_gradients(b, an_unsqueeze(sum, 0), 1);
}

static void written_parts(build *b)
{
    an_tensor *value = input(b, UOPS(b->n, k(b, 2))), *squared = an_mul(value, value);
    for (size_t i = 0; i < sizeof thin / sizeof *thin; i++) {
        an_tensor *x = input(b, UOPS(b->n, k(b, 2)));
        an_tensor *part = an_slice(x, 0, thin[i][0], thin[i][1], thin[i][2]);
        out(b, an_assign(part, an_slice(squared, 0, thin[i][0], thin[i][1], thin[i][2])) ? NULL : x);
        out(b, an_sum(x, AN_DIMS(0), false)); /* of what it holds after that */
    }
}

static void pieces(build *b)
{
    an_graph *g = b->g;
    an_tensor *x = input(b, UOPS(b->n, k(b, 3))), *y = input(b, UOPS(b->m, k(b, 3))), *z = input(b, UOPS(k(b, 2), k(b, 3)));
    an_tensor *all = an_cat((an_tensor *[]){x, z, y}, 3, 0); /* (n + 2 + m, 3) */
    out(b, all);
    out(b, an_mul_scalar(an_pad_uop(z, (an_uop[]){b->n, k(b, 0)}, (an_uop[]){b->m, k(b, 1)}, 2, 0.5), 2));
    const an_uop zero = k(b, 0), three = k(b, 3), end = an_dim_add(g, b->n, b->m);
    an_tensor *middle = an_shrink_uop(all, (an_uop[]){b->n, zero}, (an_uop[]){an_dim_add(g, b->n, k(b, 2)), three}, 2);
    out(b, middle);
    out(b, an_shrink_uop(all, (an_uop[]){b->m, zero}, (an_uop[]){end, three}, 2));
    out(b, an_stack((an_tensor *[]){x, an_flip(x, AN_DIMS(0))}, 2, 1));
    out(b, an_repeat(x, AN_DIMS(2, 1)));
    out(b, an_repeat_interleave(y, 3, 0));
    out_gradients(b, an_mul(all, all), 3);
}

static void turned(build *b)
{
    an_graph *g = b->g;
    an_tensor *x = input(b, UOPS(b->n, k(b, 3)));
    out(b, an_roll(x, 2, 0));
    out(b, an_roll(x, -1, 0));
    out(b, an_pick(x, 0, -1));
    out(b, an_diagonal(an_matmul(x, an_transpose(x, 0, 1))));
    out(b, an_mul(an_arange_uop(g, AN_F32, b->n), an_pick(x, 1, 1)));
    out(b, an_triu(an_matmul(x, an_transpose(x, 0, 1)), 1));
    out_gradients(b, an_mul(an_roll(x, 2, 0), x), 1);
}

static void by_index(build *b)
{
    an_tensor *table = input(b, UOPS(k(b, 7), k(b, 3))), *x = input(b, UOPS(b->n, k(b, 3)));
    an_tensor *i = input_i32(b, UOPS(b->n)), *j = input_i32(b, UOPS(b->m));
    an_tensor *rows = an_embedding(table, i), *of_x = an_take(x, j, 0);
    out(b, rows);
    out(b, of_x);
    out(b, an_gather(table, 0, an_expand(an_unsqueeze(i, 1), AN_DIMS(-1, 3))));
    out(b, an_scatter_add(x, 0, an_expand(an_unsqueeze(i, 1), AN_DIMS(-1, 3)), x));
    out(b, an_one_hot(i, 7, AN_F32));
    out_gradients(b, an_add(an_sum(an_mul(rows, rows), AN_DIMS(0), false), an_sum(an_mul(of_x, of_x), AN_DIMS(0), false)), 2);
}

static void running_sums(build *b)
{
    an_tensor *x = input(b, UOPS(b->n)), *y = input(b, UOPS(k(b, 3), b->m));
    out(b, an_cumsum(x, 0));
    out(b, an_cumsum(y, 1));
    out(b, an_cumsum(y, 0));
    out_gradients(b, an_mul(an_cumsum(x, 0), x), 1);
}

static void convolution(build *b)
{
    an_tensor *x = input(b, UOPS(b->n, k(b, 2), k(b, 5), k(b, 5))), *w = input(b, UOPS(k(b, 3), k(b, 2), k(b, 3), k(b, 3)));
    const an_conv_desc desc = {.pad_before = {1, 1}, .pad_after = {1, 1}};
    an_tensor *y = an_conv2d(x, an_reshape(w, AN_DIMS(3, 2, 3, 3)), NULL, &desc);
    out(b, y);
    out(b, an_max_pool2d(y, &(an_pool_desc){.kernel = {2, 2}}));
    out_gradients(b, an_max_pool2d(y, &(an_pool_desc){.kernel = {2, 2}}), 2);
}

static void classification(build *b)
{
    an_tensor *x = input(b, UOPS(b->n, k(b, 5))), *w = input(b, UOPS(k(b, 5), k(b, 3)));
    an_tensor *labels = input_i32(b, UOPS(b->n));
    an_tensor *loss = an_cross_entropy(an_matmul(an_relu(x), w), labels, NULL), *grads[2] = {NULL};
    out(b, loss);
    if (!loss || an_backward(loss, b->in, 2, grads)) return;
    out(b, grads[0]);
    out(b, grads[1]);
}

/* min: what n and m may be at least. exact: so many outputs first are equal to the bit; the other floats within tolerance, relative
 * to 1 or the number: they are sums over a symbolic axis, in another order. */
typedef struct program {
    const char *name;
    void (*make)(build *b);
    int64_t min;
    double tolerance;
    size_t exact;
} program;

static const program programs[] = {
    {"elementwise", elementwise, 0, 2e-6, 3},
    {"reductions", reductions, 0, 2e-6, 0},
    {"extremes", extremes, 1, 2e-6, 0},
    {"products", products, 0, 2e-6, 0},
    {"normalisations", normalisations, 1, 4e-6, 0},
    {"attention", attention, 1, 4e-6, 0},
    {"batched_attention", batched_attention, 1, 4e-6, 0},
    {"reshapes", reshapes, 0, 2e-6, 4},
    {"two_axes", two_axes, 1, 4e-6, 0},
    {"slices", slices, 0, 2e-6, 8},
    {"thin_parts", thin_parts, 0, 2e-6, 6},
    {"written_parts", written_parts, 0, 2e-6, 0},
    {"pieces", pieces, 0, 2e-6, 7},
    {"turned", turned, 1, 2e-6, 3},
    {"by_index", by_index, 1, 2e-6, 3},
    {"running_sums", running_sums, 0, 4e-6, 0},
    {"convolution", convolution, 0, 4e-6, 0},
    {"classification", classification, 1, 4e-6, 0},
};

/* --- running both ways ---------------------------------------------------------------------------------------------- */

/* Deterministic data by input and position, of the sizes that the static twin has. */
static void fill(an_test *t, const build *b, const build *twin, int64_t n, int64_t m)
{
    for (size_t i = 0; i < b->nin; i++) {
        const size_t nbytes = an_tensor_nbytes(twin->in[i]);
        float *data = malloc(nbytes + 4);
        CHECK(t, data != NULL);
        for (size_t e = 0; e < nbytes / 4; e++) {
            const size_t h = (e * 7919 + i * 104729 + (size_t)n * 31 + (size_t)m) % 1013;
            if (an_tensor_dtype(b->in[i]) == AN_I32)
                ((int32_t *)(void *)data)[e] = (int32_t)(h % 3);
            else
                data[e] = (float)h / 506.5f - 1.0f;
        }
        CHECK_OK(t, an_tensor_write(b->in[i], data, nbytes));
        free(data);
    }
}

static void check_made(an_test *t, const program *p, const build *b)
{
    for (size_t i = 0; i < b->nin; i++)
        if (!b->in[i]) an_test_fail(__FILE__, __LINE__, "%s: input %zu: %s", p->name, i, an_ctx_error(t->ctx));
    for (size_t i = 0; i < b->nout; i++)
        if (!b->out[i]) an_test_fail(__FILE__, __LINE__, "%s: output %zu: %s", p->name, i, an_ctx_error(t->ctx));
}

static void check_equal(an_test *t, const program *p, an_tensor *x, an_tensor *y, size_t at, int64_t n, int64_t m)
{
    const size_t nbytes = an_tensor_nbytes(x), want = an_tensor_nbytes(y), each = an_dtype_nbytes(an_tensor_dtype(x));
    char what[100];
    (void)snprintf(what, sizeof what, "%s, n = %lld, m = %lld, output %zu", p->name, (long long)n, (long long)m, at);
    if (nbytes != want) an_test_fail(__FILE__, __LINE__, "%s: %zu bytes, its static twin has %zu", what, nbytes, want);
    unsigned char *a = malloc(nbytes + 8), *b = malloc(nbytes + 8);
    CHECK(t, a && b);
    CHECK_OK(t, an_tensor_read(x, a, nbytes));
    CHECK_OK(t, an_tensor_read(y, b, nbytes));
    for (size_t e = 0; e < nbytes / each; e++) {
        if (memcmp(a + e * each, b + e * each, each) == 0) continue;
        const double v = an_scalar_cast(an_tensor_dtype(x), AN_F64, an_scalar_load(an_tensor_dtype(x), a + e * each)).f;
        const double w = an_scalar_cast(an_tensor_dtype(y), AN_F64, an_scalar_load(an_tensor_dtype(y), b + e * each)).f;
        const double size = w < 0 ? -w : w, apart = v < w ? w - v : v - w;
        const bool floats = an_tensor_dtype(x) == AN_F32;
        if ((v != v && w != w) || (floats && at >= p->exact && apart <= p->tolerance * (size > 1 ? size : 1))) continue;
        an_test_fail(__FILE__, __LINE__, "%s, element %zu: %.9g, its static twin %.9g", what, e, v, w);
    }
    free(a);
    free(b);
}

static void compare(an_test *t, const program *p, const char *device, const int64_t (*values)[2], size_t nvalues)
{
    build b = {0};
    an_plan *plan = NULL;
    CHECK_OK(t, an_graph_create(t->ctx, &b.g));
    CHECK_OK(t, an_graph_set_device(b.g, device));
    b.n = an_symbol(b.g, "n", p->min, 40);
    b.m = an_symbol(b.g, "m", p->min, 70);
    CHECK_OK(t, an_graph_bind(b.g, "n", p->min));
    CHECK_OK(t, an_graph_bind(b.g, "m", p->min));
    p->make(&b);
    check_made(t, p, &b);
    if (an_plan_create(b.g, b.out, b.nout, NULL, &plan)) an_test_fail(__FILE__, __LINE__, "%s: %s", p->name, an_ctx_error(t->ctx));
    const size_t compiled = an_programs_count(t->ctx);
    for (size_t i = 0; i < nvalues; i++) {
        const int64_t n = values[i][0], m = values[i][1];
        if (n < p->min || m < p->min) continue;
        CHECK_OK(t, an_graph_bind(b.g, "n", n));
        CHECK_OK(t, an_graph_bind(b.g, "m", m));
        build twin = {0};
        an_ctx *ctx = NULL; /* of its own: its kernels are not those counted */
        CHECK_OK(t, an_ctx_create(NULL, &ctx));
        CHECK_OK(t, an_graph_create(ctx, &twin.g));
        CHECK_OK(t, an_graph_set_device(twin.g, device));
        twin.n = an_dim(twin.g, n);
        twin.m = an_dim(twin.g, m);
        p->make(&twin);
        check_made(t, p, &twin);
        an_plan *twin_plan = NULL;
        CHECK_OK(t, an_plan_create(twin.g, twin.out, twin.nout, NULL, &twin_plan));
        fill(t, &b, &twin, n, m);
        if (an_plan_run(plan)) an_test_fail(__FILE__, __LINE__, "%s: %s", p->name, an_ctx_error(t->ctx));
        CHECK_EQ(t, an_programs_count(t->ctx), compiled);
        fill(t, &twin, &twin, n, m);
        CHECK_OK(t, an_plan_run(twin_plan));
        for (size_t k_ = 0; k_ < b.nout; k_++) check_equal(t, p, b.out[k_], twin.out[k_], k_, n, m);
        an_plan_destroy(twin_plan);
        an_graph_destroy(twin.g);
        an_ctx_destroy(ctx);
    }
    an_plan_destroy(plan);
    an_graph_destroy(b.g);
}

static void every_program_equals_its_static_twin_on_the_interpreter(an_test *t)
{
    static const int64_t values[][2] = {{0, 3}, {1, 1}, {2, 0}, {5, 4}, {8, 65}, {17, 2}, {3, 3}, {38, 1}, {40, 70}};
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        compare(t, &programs[i], "interp", values, sizeof values / sizeof *values);
}

static void every_program_equals_its_static_twin_on_the_cpu(an_test *t)
{
    static const int64_t values[][2] = {{1, 3}, {37, 66}, {2, 2}};
    size_t n = 0;
    const an_backend *const *backends = an_test_backends(&n);
    for (size_t d = 0; d < n; d++)
        for (size_t i = 0; strcmp(backends[d]->name, "interp") != 0 && i < sizeof programs / sizeof *programs; i++)
            compare(t, &programs[i], backends[d]->name, values, sizeof values / sizeof *values);
}

/* --- one compilation for every length -------------------------------------------------------------------------------- */

/* Causal attention over 1..129 positions, with its gradients, compiled once; each length against its static twin on the interpreter. */
static void attend_over_every_length(an_test *t, const char *device)
{
    enum { MOST = 129, WIDTH = 4 };
    static float data[3][MOST * WIDTH], got[MOST * WIDTH], want[MOST * WIDTH];
    for (int i = 0; i < 3; i++)
        for (int e = 0; e < MOST * WIDTH; e++) data[i][e] = (float)((e * 7919 + i * 977) % 1013) / 506.5f - 1.0f;
    build b = {.nin = 0};
    an_plan *plan = NULL;
    CHECK_OK(t, an_graph_create(t->ctx, &b.g));
    CHECK_OK(t, an_graph_set_device(b.g, device));
    b.n = an_symbol(b.g, "n", 1, MOST);
    an_tensor *q = input(&b, UOPS(b.n, k(&b, WIDTH))), *key = input(&b, UOPS(b.n, k(&b, WIDTH))), *v = input(&b, UOPS(b.n, k(&b, WIDTH)));
    an_tensor *y = attend(q, key, v);
    out(&b, y);
    out_gradients(&b, y, 3);
    CHECK_OK(t, an_plan_create(b.g, b.out, b.nout, NULL, &plan));
    const size_t compiled = an_programs_count(t->ctx);
    for (int64_t n = 1; n <= MOST; n++) {
        const size_t nbytes = (size_t)n * WIDTH * sizeof(float);
        for (int i = 0; i < 3; i++) CHECK_OK(t, an_tensor_write(b.in[i], data[i], nbytes));
        CHECK_OK(t, an_plan_bind(plan, "n", n));
        CHECK_OK(t, an_plan_run(plan));
        CHECK_EQ(t, an_programs_count(t->ctx), compiled);
        an_ctx *ctx = NULL;
        build twin = {.nin = 0};
        CHECK_OK(t, an_ctx_create(NULL, &ctx));
        CHECK_OK(t, an_graph_create(ctx, &twin.g));
        CHECK_OK(t, an_graph_set_device(twin.g, "interp"));
        for (int i = 0; i < 3; i++) twin.in[twin.nin++] = an_tensor_from_host(twin.g, AN_F32, AN_DIMS(n, WIDTH), data[i]);
        y = attend(twin.in[0], twin.in[1], twin.in[2]);
        out(&twin, y);
        out_gradients(&twin, y, 3);
        CHECK_OK(t, an_realize(twin.out, twin.nout));
        for (size_t i = 0; i < b.nout; i++) {
            CHECK_OK(t, an_tensor_read(b.out[i], got, nbytes));
            CHECK_OK(t, an_tensor_read(twin.out[i], want, nbytes));
            for (int64_t e = 0; e < n * WIDTH; e++) CHECK_NEAR(t, got[e], want[e], i ? 4e-6 : 1e-6); /* sums in another order */
        }
        an_graph_destroy(twin.g);
        an_ctx_destroy(ctx);
    }
    an_plan_destroy(plan);
    an_graph_destroy(b.g);
}

static bool is_here(const char *device)
{
    size_t n = 0;
    const an_backend *const *backends = an_test_backends(&n);
    for (size_t d = 0; d < n; d++)
        if (strcmp(backends[d]->name, device) == 0) return true;
    return false;
}

static void attention_over_every_length_is_compiled_once(an_test *t)
{
    attend_over_every_length(t, "interp");
    if (is_here("cpu")) attend_over_every_length(t, "cpu");
}

/* --- dynmlp: a training step over any batch -------------------------------------------------------------------------- */

enum { FEATURES = 12, HIDDEN = 8, CLASSES = 4, BATCH_MAX = 257 };

/* A step of a perceptron: the loss, and the parameters, which it updates. b.n is the batch. */
typedef struct step {
    an_graph *g;
    an_tensor *x, *labels, *outs[5]; /* the loss; w1, b1, w2, b2 */
    an_plan *plan;
} step;

static void make_step(an_test *t, an_ctx *ctx, const char *device, int64_t batch, step *s)
{
    static const int64_t sizes[4][2] = {{FEATURES, HIDDEN}, {1, HIDDEN}, {HIDDEN, CLASSES}, {1, CLASSES}};
    an_tensor *grads[4] = {NULL};
    CHECK_OK(t, an_graph_create(ctx, &s->g));
    CHECK_OK(t, an_graph_set_device(s->g, device));
    const an_uop n = batch ? an_dim(s->g, batch) : an_symbol(s->g, "batch", 1, BATCH_MAX);
    for (int i = 0; i < 4; i++) {
        float data[FEATURES * HIDDEN];
        for (int64_t e = 0; e < sizes[i][0] * sizes[i][1]; e++) data[e] = (float)((e * 7919 + i * 31) % 101) / 101.0f - 0.5f;
        s->outs[1 + i] = an_tensor_from_host(s->g, AN_F32, sizes[i], 2, data);
    }
    s->x = an_tensor_alloc_uop(s->g, AN_F32, UOPS(n, an_dim(s->g, FEATURES)));
    s->labels = an_tensor_alloc_uop(s->g, AN_I32, UOPS(n));
    an_tensor *const *p = s->outs + 1;
    an_tensor *h = an_relu(an_add(an_matmul(s->x, p[0]), p[1]));
    s->outs[0] = an_cross_entropy(an_add(an_matmul(h, p[2]), p[3]), s->labels, NULL);
    if (!s->outs[0] || an_backward(s->outs[0], p, 4, grads)) an_test_fail(__FILE__, __LINE__, "%s", an_ctx_error(ctx));
    for (int i = 0; i < 4; i++) CHECK_OK(t, an_assign(p[i], an_sub(p[i], an_mul_scalar(grads[i], 0.1))));
    if (an_plan_create(s->g, s->outs, 5, NULL, &s->plan)) an_test_fail(__FILE__, __LINE__, "%s", an_ctx_error(ctx));
}

static void run_step(an_test *t, step *s, int64_t n, float values[5][FEATURES * HIDDEN])
{
    static float data[BATCH_MAX * FEATURES];
    static int32_t labels[BATCH_MAX];
    for (int64_t e = 0; e < n * FEATURES; e++) data[e] = (float)((e * 104729 + n) % 997) / 498.5f - 1.0f;
    for (int64_t e = 0; e < n; e++) labels[e] = (int32_t)((e * 7 + n) % CLASSES);
    CHECK_OK(t, an_tensor_write(s->x, data, (size_t)n * FEATURES * sizeof(float)));
    CHECK_OK(t, an_tensor_write(s->labels, labels, (size_t)n * sizeof(int32_t)));
    CHECK_OK(t, an_plan_run(s->plan));
    for (int i = 0; i < 5; i++) CHECK_OK(t, an_tensor_read(s->outs[i], values[i], an_tensor_nbytes(s->outs[i])));
}

static void end_step(step *s)
{
    an_plan_destroy(s->plan);
    an_graph_destroy(s->g);
}

/* The parameters before the step, given to the twin. */
static void copy_parameters(an_test *t, const step *from, const step *to)
{
    float data[FEATURES * HIDDEN];
    for (int i = 1; i < 5; i++) {
        CHECK_OK(t, an_tensor_read(from->outs[i], data, an_tensor_nbytes(from->outs[i])));
        CHECK_OK(t, an_tensor_write(to->outs[i], data, an_tensor_nbytes(from->outs[i])));
    }
}

/* The twins are on the interpreter, which compiles nothing. */
static void train_over_every_batch(an_test *t, const char *device)
{
    static float got[5][FEATURES * HIDDEN], want[5][FEATURES * HIDDEN];
    step s = {0};
    make_step(t, t->ctx, device, 0, &s);
    CHECK_EQ(t, an_plan_symbol_count(s.plan), 1);
    CHECK_STR(t, an_plan_symbol_get(s.plan, 0).name, "batch");
    CHECK_EQ(t, an_plan_symbol_get(s.plan, 0).max, BATCH_MAX);
    CHECK(t, an_plan_symbol_get(s.plan, 1).name == NULL);
    const size_t compiled = an_programs_count(t->ctx);
    for (int64_t n = 1; n <= BATCH_MAX; n++) { /* the batch changes with each step of one training */
        an_ctx *ctx = NULL;
        step twin = {0};
        CHECK_OK(t, an_ctx_create(NULL, &ctx));
        make_step(t, ctx, "interp", n, &twin);
        copy_parameters(t, &s, &twin);
        CHECK_OK(t, an_plan_bind(s.plan, "batch", n));
        run_step(t, &s, n, got);
        run_step(t, &twin, n, want);
        CHECK_EQ(t, an_programs_count(t->ctx), compiled);
        for (int i = 0; i < 5; i++)
            for (size_t e = 0; e < an_tensor_nbytes(s.outs[i]) / sizeof(float); e++) CHECK_NEAR(t, got[i][e], want[i][e], 2e-6);
        end_step(&twin);
        an_ctx_destroy(ctx);
    }
    CHECK_FAILS(t, an_plan_bind(s.plan, "batch", BATCH_MAX + 1), AN_ERR_ARG, "batch = 258 is outside its bounds 1..257");
    end_step(&s);
}

static void training_over_every_batch_is_compiled_once(an_test *t)
{
    train_over_every_batch(t, "interp");
    if (is_here("cpu")) train_over_every_batch(t, "cpu");
}

/* --- what is checked, and when ---------------------------------------------------------------------------------------- */

static void dims_are_equal_when_their_values_are(an_test *t)
{
    an_graph *g = an_test_graph(t);
    const an_uop n = an_symbol(g, "n", 0, 9), m = an_symbol(g, "m", 1, 9), four = an_dim(g, 4), one = an_dim(g, 1);
    CHECK_SAME(t, an_dim_div(g, an_dim_mul(g, n, four), four), n);
    CHECK_SAME(t, an_dim_div(g, an_dim_mul(g, n, four), n), four);
    CHECK_SAME(t, an_dim_sub(g, an_dim_add(g, n, one), n), one);
    CHECK_SAME(t, an_dim_add(g, n, an_dim(g, 0)), n);
    CHECK_SAME(t, an_dim_mul(g, an_dim_add(g, n, one), m), an_dim_add(g, m, an_dim_mul(g, m, n)));
    CHECK_SAME(t, an_dim_div(g, an_dim_add(g, an_dim_mul(g, m, n), m), an_dim_add(g, n, one)), m);
    CHECK_SAME(t, an_dim_sub(g, an_dim_mul(g, n, m), an_dim_mul(g, m, n)), an_dim(g, 0));
    CHECK_SAME(t, an_dim_add(g, an_dim(g, 3), four), an_dim(g, 7));
    CHECK(t, an_uop_is_none(an_dim_div(g, an_dim_add(g, n, one), four)));
    CHECK_FAILS(t, an_ctx_status(t->ctx), AN_ERR_SHAPE, "an_dim_div: 4 may not divide n + 1");
    CHECK(t, an_uop_is_none(an_dim_div(g, n, an_dim(g, 0))));
    CHECK_FAILS(t, an_ctx_status(t->ctx), AN_ERR_SHAPE, "an_dim_div: 0 may not divide n");
    CHECK(t, an_uop_is_none(an_symbol(g, "n", 0, 10)));
    CHECK_FAILS(t, an_ctx_status(t->ctx), AN_ERR_ARG, "an_symbol: n goes from 0 to 9 already, not from 0 to 10");
    CHECK(t, an_uop_is_none(an_symbol(g, "large", 0, INT64_C(1) << 31)));
    CHECK_FAILS(t, an_ctx_status(t->ctx), AN_ERR_ARG, "an_symbol: large from 0 to 2147483648");
    CHECK(t, an_uop_is_none(an_symbol(g, "", 0, 1)));
    CHECK_FAILS(t, an_ctx_status(t->ctx), AN_ERR_ARG, "an_symbol: a symbol needs a name");
}

static void what_can_never_fit_is_refused_at_once(an_test *t)
{
    an_graph *g = an_test_graph(t);
    const an_uop n = an_symbol(g, "n", 2, 9), m = an_symbol(g, "m", 2, 9), zero = an_dim(g, 0), one = an_dim(g, 1);
    CHECK_OK(t, an_graph_set_device(g, "interp"));
    an_tensor *x = an_tensor_alloc_uop(g, AN_F32, UOPS(n, an_dim(g, 3))), *v = an_tensor_alloc_uop(g, AN_F32, UOPS(n));
    CHECK(t, !an_add(x, an_tensor_alloc_uop(g, AN_F32, UOPS(m, an_dim(g, 3)))));
    CHECK_FAILS(t, an_ctx_status(t->ctx), AN_ERR_SHAPE, "an_add: shapes (n, 3) and (m, 3) do not broadcast");
    CHECK(t, !an_matmul(v, an_tensor_alloc_uop(g, AN_F32, UOPS(m))));
    CHECK_FAILS(t, an_ctx_status(t->ctx), AN_ERR_SHAPE, "an_matmul: shapes (n,) and (m,)");
    CHECK(t, !an_reshape_uop(x, UOPS(an_dim_add(g, an_dim_mul(g, n, an_dim(g, 3)), one))));
    CHECK_FAILS(t, an_ctx_status(t->ctx), AN_ERR_SHAPE, "(n, 3) has n*3 elements, and shape (n*3 + 1,) has n*3 + 1: they are never equal");
    CHECK(t, !an_shrink_uop(v, &one, (an_uop[]){an_dim_add(g, n, one)}, 1));
    CHECK_FAILS(t, an_ctx_status(t->ctx), AN_ERR_ARG, "an_shrink_uop: 1 to n + 1 does not lie in axis 0 of shape (n,)");
    CHECK(t, !an_pad_uop(v, (an_uop[]){an_dim_sub(g, one, n)}, &zero, 1, 0));
    CHECK_FAILS(t, an_ctx_status(t->ctx), AN_ERR_ARG, "an_pad_uop: 1 - n before and 0 after axis 0");
    CHECK(t, !an_pick(v, 0, 9));
    CHECK_FAILS(t, an_ctx_status(t->ctx), AN_ERR_ARG, "an_pick: index 9 on axis 0 of shape (n,): there is no such element");
    CHECK(t, !an_tensor_alloc_uop(g, AN_F32, UOPS(an_dim_sub(g, one, n))));
    CHECK_FAILS(t, an_ctx_status(t->ctx), AN_ERR_SHAPE, "an_tensor_alloc_uop: dim 1 - n in shape (1 - n,): sizes are 0 or more");
    CHECK(t, !an_arange_uop(g, AN_I8, an_symbol(g, "many", 0, 1000)));
    CHECK_FAILS(t, an_ctx_status(t->ctx), AN_ERR_DTYPE, "an_arange_uop: 0 to many, which may be 1000, does not fit i8");
}

static void what_depends_on_values_is_checked_when_they_are_known(an_test *t)
{
    an_graph *g = an_test_graph(t);
    const an_uop n = an_symbol(g, "n", 0, 9), m = an_symbol(g, "m", 0, 9), zero = an_dim(g, 0);
    CHECK_OK(t, an_graph_set_device(g, "interp"));
    an_tensor *x = an_tensor_alloc_uop(g, AN_F32, UOPS(n)), *parts[3];
    parts[0] = an_mul_scalar(an_shrink_uop(x, &zero, &m, 1), 2);
    parts[1] = an_mul_scalar(an_reshape_uop(x, UOPS(m, an_dim(g, 2))), 2);
    parts[2] = an_pad_uop(x, (an_uop[]){an_dim_sub(g, n, m)}, &zero, 1, 1);
    an_plan *plan[3] = {NULL};
    for (int i = 0; i < 3; i++) CHECK_OK(t, an_plan_create(g, &parts[i], 1, NULL, &plan[i]));
    CHECK_FAILS(t, an_plan_run(plan[0]), AN_ERR_ARG, "the symbolic dimension 'n' has no value; bind it with an_graph_bind, or with an_plan_bind");
    CHECK_FAILS(t, an_plan_bind(plan[0], "k", 1), AN_ERR_ARG, "the plan has no symbolic dimension 'k'");
    CHECK_FAILS(t, an_plan_bind(plan[0], "n", 10), AN_ERR_ARG, "n = 10 is outside its bounds 0..9");
    CHECK_FAILS(t, an_graph_bind(g, "k", 1), AN_ERR_ARG, "the graph has no symbolic dimension 'k'");
    CHECK_FAILS(t, an_graph_bind(g, "n", -1), AN_ERR_ARG, "n = -1 is outside its bounds 0..9");
    CHECK_OK(t, an_graph_bind(g, "n", 4));
    CHECK_OK(t, an_graph_bind(g, "m", 5));
    float data[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, got[9] = {0};
    CHECK_FAILS(t, an_tensor_write(x, data, 20), AN_ERR_ARG, "20 bytes were given, and the tensor has 16 at the bound values");
    CHECK_OK(t, an_tensor_write(x, data, 16));
    CHECK_FAILS(t, an_plan_run(plan[0]), AN_ERR_SHAPE, "n = 4, m = 5 the shrink of shape (n,) to (m,) (axis 0: 0 to m) would not have an end within the axis");
    CHECK_FAILS(t, an_plan_run(plan[1]), AN_ERR_SHAPE, "the reshape of shape (n,) to (m, 2) would not have as many elements");
    CHECK_FAILS(t, an_plan_run(plan[2]), AN_ERR_SHAPE, "the pad of shape (n,) to (n*2 - m,) (axis 0: n - m and 0) would pad by less than 0");
    CHECK_OK(t, an_graph_bind(g, "m", 2));
    for (int i = 0; i < 3; i++) CHECK_OK(t, an_plan_run(plan[i]));
    CHECK_EQ(t, an_tensor_nbytes(parts[0]), 8);
    CHECK_EQ(t, an_tensor_nbytes(parts[2]), 24);
    CHECK_OK(t, an_tensor_read(parts[1], got, 16));
    CHECK_NEAR(t, got[3], 8, 0);
    CHECK_OK(t, an_tensor_read(parts[2], got, 24));
    CHECK_NEAR(t, got[1], 1, 0);
    CHECK_NEAR(t, got[2], 1, 0);
    CHECK_NEAR(t, got[5], 4, 0);
    CHECK_FAILS(t, an_tensor_read(parts[2], got, 20), AN_ERR_ARG, "room for 20 bytes");
    /* A plan's own value goes before the graph's; the input is still that of n = 4. */
    CHECK_OK(t, an_plan_bind(plan[0], "n", 6));
    CHECK_FAILS(t, an_plan_run(plan[0]), AN_ERR_ARG, "a buffer of shape (n,) was last written with 16 bytes, but has 24 with n = 6, m = 2; write it again");
    for (int i = 0; i < 3; i++) an_plan_destroy(plan[i]);
    const an_uop less = an_dim_sub(g, n, m);
    an_tensor *ones = an_full_uop(g, AN_F32, &less, 1, 1);
    CHECK_OK(t, an_graph_bind(g, "m", 5));
    CHECK_FAILS(t, an_realize(&ones, 1), AN_ERR_SHAPE, "the expand of shape (1,) to (n - m,) would not have a size of 0 or more");
}

static void tensors_are_realized_at_the_bound_values(an_test *t)
{
    an_graph *g = an_test_graph(t);
    CHECK_OK(t, an_graph_set_device(g, "interp"));
    const an_uop n = an_symbol(g, "n", 0, 9);
    float got[9] = {0};
    for (int64_t v = 9; v >= 0; v -= 3) {
        CHECK_OK(t, an_graph_bind(g, "n", v));
        an_tensor *x = an_mul_scalar(an_arange_uop(g, AN_F32, n), 3), *sum = an_sum(x, AN_ALL, false);
        double s = 0;
        CHECK_EQ(t, an_tensor_nbytes(x), 4 * v);
        CHECK_OK(t, an_item_f64(sum, &s)); /* the same nodes at each value: computed anew */
        CHECK_NEAR(t, s, 3 * (double)(v * (v - 1) / 2), 0);
        CHECK_OK(t, an_tensor_read(x, got, (size_t)v * 4));
        for (int64_t i = 0; i < v; i++) CHECK_NEAR(t, got[i], 3 * (float)i, 0);
    }
    an_tensor *lost = an_add_scalar(an_arange_uop(g, AN_F32, an_symbol(g, "unbound", 0, 9)), 1);
    CHECK_FAILS(t, an_realize(&lost, 1), AN_ERR_ARG, "the symbolic dimension 'unbound' has no value");
    CHECK_FAILS(t, an_tensor_read(lost, got, 4), AN_ERR_ARG, "the symbolic dimension 'unbound' has no value");
    CHECK_EQ(t, an_tensor_nbytes(lost), 0);
    CHECK_EQ(t, an_tensor_numel(lost), -1);
}

/* The first draw over a symbol is that over its value. */
static void dropout_over_a_symbol_draws_what_it_draws_over_numbers(an_test *t)
{
    enum { N = 37 };
    float got[2][N];
    for (int k_ = 0; k_ < 2; k_++) {
        an_graph *g = NULL;
        CHECK_OK(t, an_graph_create(t->ctx, &g));
        CHECK_OK(t, an_graph_set_device(g, "interp"));
        const an_uop n = k_ ? an_symbol(g, "n", 0, 100) : an_dim(g, N);
        if (k_) CHECK_OK(t, an_graph_bind(g, "n", N));
        an_tensor *y = an_dropout(an_rng_from_seed(g, 7), an_full_uop(g, AN_F32, &n, 1, 1), 0.25);
        CHECK_OK(t, an_tensor_read(y, got[k_], sizeof got[k_]));
        an_graph_destroy(g);
    }
    CHECK(t, memcmp(got[0], got[1], sizeof got[0]) == 0);
    size_t zeros = 0;
    for (int i = 0; i < N; i++) zeros += got[1][i] == 0;
    CHECK(t, zeros > 2 && zeros < 20);
}

/* A write that was refused did not happen: it runs later, where it can. */
static void a_write_that_did_not_run_is_still_to_come(an_test *t)
{
    an_graph *g = an_test_graph(t);
    CHECK_OK(t, an_graph_set_device(g, "interp"));
    const an_uop at = an_symbol(g, "at", 0, 5), one = an_dim(g, 1);
    an_tensor *x = an_tensor_from_host(g, AN_F32, AN_DIMS(3), (const float[]){1, 2, 3});
    float got[3];
    CHECK_OK(t, an_assign(an_shrink_uop(x, &at, (an_uop[]){an_dim_add(g, at, one)}, 1), an_full(g, AN_F32, AN_SCALAR, 7)));
    CHECK_FAILS(t, an_tensor_read(x, got, sizeof got), AN_ERR_ARG, "'at' has no value");
    CHECK_OK(t, an_graph_bind(g, "at", 3));
    CHECK_FAILS(t, an_tensor_read(x, got, sizeof got), AN_ERR_SHAPE, "would not have an end within the axis");
    CHECK_OK(t, an_graph_bind(g, "at", 1));
    CHECK_OK(t, an_tensor_read(x, got, sizeof got));
    CHECK_NEAR(t, got[1], 7, 0);
    CHECK_NEAR(t, got[2], 3, 0);
}

static void keep_text(void *user, const char *text)
{
    an_str_put(user, text);
}

/* The kernel of a program over symbols, as a list. */
static void list_of(an_test *t, void (*make)(build *b), an_str *text)
{
    build b = {0};
    an_plan *plan = NULL;
    CHECK_OK(t, an_graph_create(t->ctx, &b.g));
    b.n = an_symbol(b.g, "n", 1, 300);
    b.m = an_symbol(b.g, "m", 1, 300);
    make(&b);
    CHECK_OK(t, an_plan_create(b.g, b.out, b.nout, NULL, &plan));
    CHECK_EQ(t, an_plan_kernel_count(plan), 1);
    CHECK_OK(t, an_plan_kernel_print(plan, 0, AN_KERNEL_LINEAR, keep_text, text));
    an_plan_destroy(plan);
    an_graph_destroy(b.g);
}

static void make_row(build *b)
{
    an_tensor *x = input(b, UOPS(b->n));
    out(b, an_add(x, an_exp(x)));
}

static void make_product(build *b)
{
    out(b, an_matmul(input(b, UOPS(b->n, k(b, 64))), input(b, UOPS(k(b, 64), k(b, 64)))));
}

static size_t count(const char *text, const char *part)
{
    size_t n = 0;
    for (; (text = strstr(text, part)) != NULL; text++) n++;
    return n;
}

/* On the CPU a symbolic range goes through lanes and register tiles, as a constant one does. */
static void symbolic_ranges_have_lanes_and_tiles(an_test *t)
{
    size_t n = 0;
    const an_backend *const *backends = an_test_backends(&n);
    if (strcmp(backends[0]->name, "interp") == 0 && n == 1) return; /* built without LLVM */
    an_str row, product;
    an_str_init(&row, t->ctx);
    an_str_init(&product, t->ctx);
    list_of(t, make_row, &row);
    list_of(t, make_product, &product);
    if (strstr(an_str_cstr(&product), "f32x")) { /* a machine with vectors */
        CHECK_CONTAINS(t, an_str_cstr(&row), "load f32x");
        CHECK(t, count(an_str_cstr(&product), "mulacc f32x") >= 6);
    }
    an_str_fini(&row);
    an_str_fini(&product);
}

/* The kernels' keys, of a graph that made other things first, or its symbols in another order. */
static void keys_of(an_test *t, bool turned, uint64_t keys[16][2], size_t *n)
{
    build b = {0};
    an_plan *plan = NULL;
    CHECK_OK(t, an_graph_create(t->ctx, &b.g));
    CHECK_OK(t, an_graph_set_device(b.g, "interp"));
    if (turned) {
        CHECK(t, an_gelu(an_arange(b.g, AN_F32, 0, 77, 1)) != NULL);
        b.m = an_symbol(b.g, "m", 1, 20);
        CHECK(t, !an_uop_is_none(an_symbol(b.g, "other", 0, 3)));
    }
    b.n = an_symbol(b.g, "n", 1, 20);
    b.m = an_symbol(b.g, "m", 1, 20);
    two_axes(&b);
    CHECK_OK(t, an_plan_create(b.g, b.out, b.nout, NULL, &plan));
    *n = an_plan_kernel_count(plan);
    for (size_t i = 0; i < *n && i < 16; i++) {
        keys[i][0] = an_plan_kernel(plan, i).key_lo;
        keys[i][1] = an_plan_kernel(plan, i).key_hi;
    }
    an_plan_destroy(plan);
    an_graph_destroy(b.g);
}

static void keys_depend_on_no_arena_and_no_order_of_symbols(an_test *t)
{
    uint64_t a[16][2], b[16][2];
    size_t na = 0, nb = 0;
    keys_of(t, false, a, &na);
    const size_t compiled = an_programs_count(t->ctx);
    keys_of(t, true, b, &nb);
    CHECK_EQ(t, na, nb);
    CHECK_EQ(t, an_programs_count(t->ctx), compiled);
    for (size_t i = 0; i < na && i < 16; i++) CHECK(t, a[i][0] == b[i][0] && a[i][1] == b[i][1]);
}

static an_status build_much(an_ctx *ctx, void *arg)
{
    (void)arg;
    build b = {0};
    an_status st = an_graph_create(ctx, &b.g);
    if (st) return st;
    st = an_graph_set_device(b.g, "interp");
    if (!st) {
        b.n = an_symbol(b.g, "n", 1, 9);
        b.m = an_symbol(b.g, "m", 1, 9);
        an_tensor *x = input(&b, UOPS(b.n, k(&b, 3)));
        an_tensor *y = an_cat((an_tensor *[]){an_slice(x, 0, 1, AN_NONE, 2), an_reshape(an_softmax(x, 0), AN_DIMS(-1, 3))}, 2, 0);
        y = an_sum(an_add(an_cumsum(y, 0), an_roll(y, 1, 0)), AN_DIMS(0), false);
        if (an_graph_bind(b.g, "n", 4) || an_graph_bind(b.g, "m", 2) || !y) st = an_ctx_status(ctx);
        if (!st) st = an_realize(&y, 1);
        if (!st) st = an_ctx_status(ctx); /* what only looks for something simpler goes on without, and leaves the sentence */
    }
    an_graph_destroy(b.g);
    return st;
}

/* The symbol's axis lies innermost, with lanes and a tail: what is computed once is stored in the tail's own loops, in their order. */
static void tails_read_what_was_computed_for_them(an_test *t)
{
    an_graph *g = an_test_graph(t);
    float data[7 * 3 * 4], sums[7 * 3], floors[7 * 3];
    for (int i = 0; i < 7 * 3 * 4; i++) data[i] = (float)(i * 37 % 50) / 20 - 1;
    const an_uop s = an_symbol(g, "s", 1, 15);
    CHECK_OK(t, an_graph_bind(g, "s", 7));
    an_tensor *x = an_tensor_from_host_uop(g, AN_F32, UOPS(s, an_dim(g, 3), an_dim(g, 4)), data);
    an_tensor *y = an_sum(an_softmax(an_cumsum(x, 0), 2), AN_DIMS(2), false), *outs[2] = {y, an_floor(an_add_scalar(y, 0.5))};
    CHECK_OK(t, an_realize(outs, 2));
    CHECK_OK(t, an_tensor_read(outs[0], sums, sizeof sums));
    CHECK_OK(t, an_tensor_read(outs[1], floors, sizeof floors));
    for (int i = 0; i < 7 * 3; i++)
        if (!(sums[i] > 0.9999F && sums[i] < 1.0001F && floors[i] == 1)) an_test_fail(__FILE__, __LINE__, "sum %d is %g, rounded %g", i, (double)sums[i], (double)floors[i]);
}

static void every_failing_allocation_is_an_error(an_test *t)
{
    an_test_every_alloc_failure(t, build_much, NULL);
}

AN_TEST_MAIN(AN_CASE(every_program_equals_its_static_twin_on_the_interpreter),
             AN_CASE(every_program_equals_its_static_twin_on_the_cpu), AN_CASE(attention_over_every_length_is_compiled_once),
             AN_CASE(training_over_every_batch_is_compiled_once),
             AN_CASE(dims_are_equal_when_their_values_are), AN_CASE(what_can_never_fit_is_refused_at_once),
             AN_CASE(what_depends_on_values_is_checked_when_they_are_known), AN_CASE(tensors_are_realized_at_the_bound_values),
             AN_CASE(dropout_over_a_symbol_draws_what_it_draws_over_numbers), AN_CASE(a_write_that_did_not_run_is_still_to_come), AN_CASE(keys_depend_on_no_arena_and_no_order_of_symbols), AN_CASE(symbolic_ranges_have_lanes_and_tiles), AN_CASE(tails_read_what_was_computed_for_them),
             AN_CASE(every_failing_allocation_is_an_error))
