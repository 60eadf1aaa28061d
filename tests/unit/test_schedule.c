/* Kernels: how many, against the table in docs/ARCHITECTURE.md; fused against unfused values; order of in-place writes;
 * memory. Runs on the interpreter. */
#include "an_test.h"
#include <anneal/device.h>
#include <anneal/nn.h>
#include <anneal/settings.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A program: fills outs, returns how many. Values depend on nothing but the program. */
typedef size_t (*program)(an_graph *g, an_tensor **outs);

enum { OUTS_MAX = 16 };

static an_tensor *some(an_graph *g, const int64_t *dims, uint32_t rank)
{
    size_t n = 1;
    for (uint32_t i = 0; i < rank; i++) n *= (size_t)dims[i];
    float *data = malloc((n ? n : 1) * sizeof *data);
    if (!data) return NULL;
    for (size_t i = 0; i < n; i++) data[i] = (float)((i * 7919 + n) % 1013) / 506.5f - 1.0f;
    an_tensor *t = an_tensor_from_host(g, AN_F32, dims, rank, data);
    free(data);
    return t;
}

static an_tensor *labels(an_graph *g, int64_t n, int32_t classes)
{
    int32_t data[256];
    for (int64_t i = 0; i < n; i++) data[i] = (int32_t)(i * 7 % classes);
    return an_tensor_from_host(g, AN_I32, AN_DIMS(n), data);
}

static size_t elementwise_chain(an_graph *g, an_tensor **outs)
{
    an_tensor *x = some(g, AN_DIMS(33, 17)), *y = some(g, AN_DIMS(33, 17));
    for (int i = 0; i < 10; i++) x = an_add_scalar(an_mul(x, y), 0.25);
    outs[0] = x;
    return 1;
}

static size_t matmul_bias_relu(an_graph *g, an_tensor **outs)
{
    outs[0] = an_relu(an_linear(some(g, AN_DIMS(16, 40)), some(g, AN_DIMS(24, 40)), some(g, AN_DIMS(24))));
    return 1;
}

static size_t softmax_last(an_graph *g, an_tensor **outs)
{
    outs[0] = an_softmax(some(g, AN_DIMS(12, 50)), -1);
    return 1;
}

static size_t softmax_first(an_graph *g, an_tensor **outs)
{
    outs[0] = an_softmax(some(g, AN_DIMS(12, 50)), 0);
    return 1;
}

static size_t layernorm(an_graph *g, an_tensor **outs)
{
    outs[0] = an_layer_norm(some(g, AN_DIMS(12, 50)), 1, some(g, AN_DIMS(50)), some(g, AN_DIMS(50)), 1e-5);
    return 1;
}

static size_t rmsnorm(an_graph *g, an_tensor **outs)
{
    outs[0] = an_rms_norm(some(g, AN_DIMS(12, 50)), 1, some(g, AN_DIMS(50)), 1e-5);
    return 1;
}

static size_t log_softmax(an_graph *g, an_tensor **outs)
{
    outs[0] = an_log_softmax(some(g, AN_DIMS(12, 50)), -1);
    return 1;
}

static size_t cross_entropy(an_graph *g, an_tensor **outs)
{
    outs[0] = an_cross_entropy(some(g, AN_DIMS(64, 10)), labels(g, 64, 10), NULL);
    return 1;
}

static size_t embedding(an_graph *g, an_tensor **outs)
{
    outs[0] = an_embedding(some(g, AN_DIMS(11, 8)), labels(g, 30, 11));
    return 1;
}

static size_t matmul_softmax(an_graph *g, an_tensor **outs)
{
    outs[0] = an_softmax(an_matmul(some(g, AN_DIMS(64, 128)), some(g, AN_DIMS(128, 96))), -1);
    return 1;
}

static size_t mlp_step(an_graph *g, an_tensor **outs, bool adam)
{
    an_init init = {.graph = g, .seed = 0};
    an_module *net = an_nn_sequential(g, AN_MODULES(an_nn_linear(&init, 784, 128, NULL), an_nn_function(g, "relu", an_relu),
                                                    an_nn_linear(&init, 128, 10, NULL)));
    const an_params p = an_module_parameters(net);
    an_optim *opt = adam ? an_optim_adam(p, &(an_adam_desc){.lr = 1e-3}) : an_optim_sgd(p, &(an_sgd_desc){.lr = 0.05});
    an_tensor *x = some(g, AN_DIMS(64, 784));
    outs[0] = an_cross_entropy(an_module_forward(net, x), labels(g, 64, 10), NULL);
    if (an_optim_minimize(opt, outs[0])) return 0;
    const an_params w = an_optim_writes(opt);
    for (size_t i = 0; i < w.n && i + 1 < OUTS_MAX; i++) outs[i + 1] = w.items[i].tensor;
    return w.n + 1;
}

static size_t mlp_sgd(an_graph *g, an_tensor **outs)
{
    return mlp_step(g, outs, false);
}

static size_t mlp_adam(an_graph *g, an_tensor **outs)
{
    return mlp_step(g, outs, true);
}

static const struct {
    const char *name;
    program build;
} programs[] = {
    {"elementwise chain of 20 operations", elementwise_chain},
    {"matmul + bias + relu", matmul_bias_relu},
    {"softmax over the last axis", softmax_last},
    {"softmax over the first axis", softmax_first},
    {"layernorm with weight and bias", layernorm},
    {"rmsnorm", rmsnorm},
    {"log-softmax", log_softmax},
    {"cross-entropy, forward", cross_entropy},
    {"embedding", embedding},
    {"matmul, then softmax over its rows", matmul_softmax},
    {"MLP 784-128-10, forward + backward + SGD", mlp_sgd},
    {"MLP 784-128-10, forward + backward + Adam", mlp_adam},
};
enum { NPROGRAMS = sizeof programs / sizeof *programs };

/* The number in the docs' row of that name, or -1. */
static long documented(const char *name)
{
    char line[512];
    long n = -1;
    FILE *file = fopen("docs/ARCHITECTURE.md", "r");
    while (file && n < 0 && fgets(line, sizeof line, file)) {
        const size_t len = strlen(name);
        if (line[0] == '|' && line[1] == ' ' && strncmp(line + 2, name, len) == 0 && strncmp(line + 2 + len, " | ", 3) == 0)
            n = strtol(line + 2 + len + 3, NULL, 10);
    }
    if (file) fclose(file);
    return n;
}

/* Builds and runs the program in a graph of its own; the first output's values, and the number of kernels. */
static size_t run(an_test *t, program build, an_settings settings, double **values, size_t *nvalues)
{
    an_graph *g = NULL;
    an_tensor *outs[OUTS_MAX] = {NULL};
    an_plan *plan = NULL;
    CHECK_OK(t, an_ctx_set_settings(t->ctx, settings));
    CHECK_OK(t, an_graph_create(t->ctx, &g));
    CHECK_OK(t, an_graph_set_device(g, "interp"));
    const size_t n = build(g, outs);
    CHECK_STR(t, an_ctx_error(t->ctx), "");
    CHECK_OK(t, an_plan_create(g, outs, n, NULL, &plan));
    const size_t kernels = an_plan_kernel_count(plan);
    if (values) {
        CHECK_OK(t, an_plan_run(plan));
        *nvalues = 0;
        *values = NULL;
        for (size_t i = 0; i < n; i++) {
            const size_t nbytes = an_tensor_nbytes(outs[i]), count = nbytes / sizeof(float);
            float *data = malloc(nbytes ? nbytes : 1);
            *values = realloc(*values, (*nvalues + count + 1) * sizeof **values);
            CHECK(t, data && *values);
            CHECK_OK(t, an_tensor_read(outs[i], data, nbytes));
            for (size_t k = 0; k < count; k++) (*values)[(*nvalues)++] = (double)data[k];
            free(data);
        }
    }
    an_plan_destroy(plan);
    an_graph_destroy(g);
    return kernels;
}

static void kernels_are_as_many_as_the_docs_say(an_test *t)
{
    for (int i = 0; i < NPROGRAMS; i++) {
        const size_t n = run(t, programs[i].build, (an_settings){0}, NULL, NULL);
        if ((long)n != documented(programs[i].name)) printf("%s: %zu kernels\n", programs[i].name, n);
        CHECK_EQ(t, n, documented(programs[i].name));
    }
}

/* The unfused twin has more kernels, and the same values up to reassociated sums. */
static void fused_and_unfused_schedules_agree(an_test *t)
{
    for (int i = 0; i < NPROGRAMS - 2; i++) {
        double *fused = NULL, *unfused = NULL;
        size_t n = 0, m = 0;
        const size_t a = run(t, programs[i].build, (an_settings){0}, &fused, &n);
        const size_t b = run(t, programs[i].build, (an_settings){.no_fuse = true}, &unfused, &m);
        CHECK(t, a < b);
        CHECK_EQ(t, n, m);
        for (size_t k = 0; k < n; k++) CHECK_NEAR(t, fused[k], unfused[k], 2e-6);
        free(fused);
        free(unfused);
    }
}

static void nine_numbers(an_graph *g, an_tensor **x)
{
    float data[9];
    for (int i = 0; i < 9; i++) data[i] = (float)i;
    *x = an_tensor_from_host(g, AN_F32, AN_DIMS(9), data);
}

static void check_values(an_test *t, an_tensor *x, const double *want, size_t n)
{
    float got[16];
    CHECK_OK(t, an_tensor_read(x, got, n * sizeof *got));
    for (size_t i = 0; i < n; i++) CHECK_NEAR(t, got[i], want[i], 1e-6);
}

static an_graph *interp_graph(an_test *t)
{
    an_graph *g = an_test_graph(t);
    CHECK_OK(t, an_graph_set_device(g, "interp"));
    return g;
}

/* x = flip(x): the value reads elements other than the one written. */
static void an_update_that_reads_elsewhere_is_not_spoiled(an_test *t)
{
    an_tensor *x = NULL;
    nine_numbers(interp_graph(t), &x);
    CHECK_OK(t, an_assign(x, an_flip(x, AN_DIMS(0))));
    CHECK_OK(t, an_realize(&x, 1));
    check_values(t, x, (const double[]){8, 7, 6, 5, 4, 3, 2, 1, 0}, 9);
}

/* old was built before the write: it sees the old contents though both are computed at once. */
static void reads_built_before_a_write_see_the_old_contents(an_test *t)
{
    an_tensor *x = NULL;
    nine_numbers(interp_graph(t), &x);
    an_tensor *old = an_sum(x, AN_ALL, false);
    CHECK_OK(t, an_assign(x, an_add_scalar(x, 1)));
    an_tensor *new_sum = an_sum(x, AN_ALL, false);
    an_tensor *both = an_sub(new_sum, old);
    an_tensor *all[4] = {new_sum, old, x, both};
    CHECK_OK(t, an_realize(all, 4));
    check_values(t, old, (const double[]){36}, 1);
    check_values(t, new_sum, (const double[]){45}, 1);
    check_values(t, both, (const double[]){9}, 1);
    check_values(t, x, (const double[]){1, 2, 3, 4, 5, 6, 7, 8, 9}, 9);
}

/* One kernel wants the contents before and after the write: it gets a copy of what was there before. */
static void a_circle_through_a_write_is_broken_by_a_copy(an_test *t)
{
    an_tensor *x = NULL;
    nine_numbers(interp_graph(t), &x);
    an_tensor *before = an_flip(x, AN_DIMS(0));
    CHECK_OK(t, an_assign(x, an_mul_scalar(x, 10)));
    an_tensor *mixed = an_add(before, an_flip(x, AN_DIMS(0)));
    an_tensor *all[2] = {mixed, x};
    CHECK_OK(t, an_realize(all, 2));
    check_values(t, mixed, (const double[]){88, 77, 66, 55, 44, 33, 22, 11, 0}, 9);
    check_values(t, x, (const double[]){0, 10, 20, 30, 40, 50, 60, 70, 80}, 9);
}

static void writes_in_a_row_happen_in_order(an_test *t)
{
    an_tensor *x = NULL;
    nine_numbers(interp_graph(t), &x);
    CHECK_OK(t, an_assign(x, an_add_scalar(x, 1)));
    CHECK_OK(t, an_assign(x, an_mul(x, x)));
    an_tensor *mid = an_max(x, AN_ALL, false);
    CHECK_OK(t, an_assign(x, an_mul_scalar(x, -1)));
    an_tensor *all[2] = {x, mid};
    CHECK_OK(t, an_realize(all, 2));
    check_values(t, mid, (const double[]){81}, 1);
    check_values(t, x, (const double[]){-1, -4, -9, -16, -25, -36, -49, -64, -81}, 9);
}

static void a_read_of_what_was_overwritten_is_refused(an_test *t)
{
    an_tensor *x = NULL;
    nine_numbers(interp_graph(t), &x);
    an_tensor *stale = an_mul_scalar(x, 2);
    CHECK_OK(t, an_assign(x, an_add_scalar(x, 1)));
    CHECK_OK(t, an_realize(&x, 1));
    float out[9];
    CHECK_FAILS(t, an_tensor_read(stale, out, sizeof out), AN_ERR_STALE, "overwritten");
    an_tensor *fresh = an_mul_scalar(x, 2);
    check_values(t, fresh, (const double[]){2, 4, 6, 8, 10, 12, 14, 16, 18}, 9);
}

/* A new buffer, its first contents included, overwrites nothing: a loss built before the optimiser was made is current. */
static void making_buffers_does_not_make_lazy_tensors_stale(an_test *t)
{
    an_graph *g = interp_graph(t);
    an_plan *plan = NULL;
    an_init init = {.graph = g, .seed = 0};
    an_module *net = an_nn_linear(&init, 5, 3, NULL);
    an_tensor *loss = an_mean(an_module_forward(net, some(g, AN_DIMS(4, 5))), AN_ALL, false);
    an_module *later = an_nn_linear(&init, 3, 3, NULL);
    an_optim *opt = an_optim_adam(an_module_parameters(net), &(an_adam_desc){.lr = 1e-3});
    CHECK(t, later != NULL);
    CHECK_OK(t, an_optim_minimize(opt, loss));
    CHECK_OK(t, an_optim_plan(opt, &loss, 1, NULL, &plan));
    CHECK_OK(t, an_plan_run(plan));
    an_plan_destroy(plan);
}

/* An assignment that ran does not run again when something else built on it is computed. */
static void a_write_runs_once(an_test *t)
{
    an_tensor *x = NULL;
    nine_numbers(interp_graph(t), &x);
    CHECK_OK(t, an_assign(x, an_add_scalar(x, 1)));
    an_tensor *a = an_sum(x, AN_ALL, false), *b = an_max(x, AN_ALL, false);
    CHECK_OK(t, an_realize(&a, 1));
    CHECK_OK(t, an_realize(&b, 1));
    check_values(t, a, (const double[]){45}, 1);
    check_values(t, b, (const double[]){9}, 1);
    check_values(t, x, (const double[]){1, 2, 3, 4, 5, 6, 7, 8, 9}, 9);
}

static void a_plan_runs_again_on_new_input(an_test *t)
{
    an_graph *g = interp_graph(t);
    an_tensor *x = NULL;
    an_plan *plan = NULL;
    nine_numbers(g, &x);
    an_tensor *count = an_tensor_from_host(g, AN_F32, AN_SCALAR, NULL);
    CHECK_OK(t, an_assign(count, an_add_scalar(count, 1)));
    an_tensor *outs[2] = {an_sum(an_mul(x, count), AN_ALL, false), count};
    CHECK_OK(t, an_plan_create(g, outs, 2, NULL, &plan));
    for (int i = 1; i <= 3; i++) {
        float data[9];
        for (int k = 0; k < 9; k++) data[k] = (float)i;
        CHECK_OK(t, an_tensor_write(x, data, sizeof data));
        CHECK_OK(t, an_plan_run(plan));
        check_values(t, outs[0], (const double[]){9.0 * i * i}, 1);
        check_values(t, count, (const double[]){i}, 1);
    }
    an_plan_destroy(plan);
}

/* Temporaries that do not live at the same time share memory. */
static void dead_temporaries_share_memory(an_test *t)
{
    an_graph *g = interp_graph(t);
    an_plan *plan = NULL;
    an_tensor *x = some(g, AN_DIMS(64, 64));
    for (int i = 0; i < 6; i++) x = an_contiguous(an_matmul(x, x));
    CHECK_OK(t, an_plan_create(g, &x, 1, NULL, &plan));
    CHECK_EQ(t, an_plan_nbytes_unplanned(plan), 5 * 64 * 64 * 4);
    CHECK_EQ(t, an_plan_nbytes(plan), 2 * 64 * 64 * 4);
    an_plan_destroy(plan);
}

static void empty_and_scalar_tensors_work(an_test *t)
{
    an_graph *g = interp_graph(t);
    an_tensor *none = an_zeros(g, AN_F32, AN_DIMS(0, 3));
    an_tensor *sum = an_sum(none, AN_DIMS(0), false), *least = an_max(an_zeros(g, AN_F32, AN_DIMS(3, 0)), AN_DIMS(1), false);
    (void)least;
    an_tensor *all[3] = {none, sum, an_mul_scalar(an_scalar_f64(g, AN_F32, 3), 2)};
    CHECK_OK(t, an_realize(all, 3));
    check_values(t, sum, (const double[]){0, 0, 0}, 3);
    check_values(t, all[2], (const double[]){6}, 1);
    CHECK_OK(t, an_tensor_read(none, NULL, 0));
    an_ctx_clear_error(t->ctx);
}

static void equal_kernels_are_compiled_once(an_test *t)
{
    an_graph *g = interp_graph(t);
    an_plan *plan = NULL;
    an_tensor *outs[3];
    for (int i = 0; i < 3; i++) outs[i] = an_softmax(some(g, AN_DIMS(5, 7)), -1);
    CHECK_OK(t, an_plan_create(g, outs, 3, NULL, &plan));
    CHECK_EQ(t, an_plan_kernel_count(plan), 3);
    CHECK(t, !an_plan_kernel(plan, 0).reused);
    CHECK(t, an_plan_kernel(plan, 1).reused && an_plan_kernel(plan, 2).reused);
    CHECK_EQ(t, an_plan_kernel(plan, 0).key_lo, an_plan_kernel(plan, 2).key_lo);
    an_plan_destroy(plan);
}

static void collect_text(void *user, const char *text)
{
    char *all = user;
    strncat(all, text, 16383 - strlen(all));
}

/* What products read in their inner loops is computed once, and lies in the order they read it: three loops each. */
static void operands_of_products_are_stored_in_reading_order(an_test *t)
{
    an_graph *g = interp_graph(t);
    an_plan *plan = NULL;
    an_tensor *parts[3], *outs[2];
    for (int i = 0; i < 3; i++) parts[i] = some(g, AN_DIMS(4, 4, 64, 32)); /* batch, heads, length, features */
    an_tensor *heads = an_permute(an_stack(parts, 3, 0), AN_DIMS(1, 3, 0, 2, 4)); /* batch, length, which, heads, features */
    an_tensor *x = an_reshape(heads, AN_DIMS(256, 384)), *y = an_relu(some(g, AN_DIMS(256, 384)));
    for (int i = 0; i < 2; i++) {
        an_tensor *from = i == 0 ? x : y;
        outs[0] = an_matmul(from, some(g, AN_DIMS(384, 128)));
        outs[1] = an_matmul(an_transpose(from, 0, 1), some(g, AN_DIMS(256, 128)));
        for (int k = 0; k < 2; k++) outs[k] = an_softmax(outs[k], -1);
        CHECK_OK(t, an_plan_create(g, outs, 2, NULL, &plan));
        size_t products = 0;
        for (size_t k = 0; k < an_plan_kernel_count(plan); k++) {
            char text[16384] = "";
            size_t loops = 0;
            CHECK_OK(t, an_plan_kernel_print(plan, k, AN_KERNEL_LINEAR, collect_text, text));
            if (!strstr(text, "mulacc")) continue;
            products++;
            CHECK(t, !strstr(text, "where") && !strstr(text, "max"));
            for (const char *at = text; (at = strstr(at, "for ")); at++) loops++;
            CHECK_EQ(t, loops, 3);
        }
        CHECK_EQ(t, products, 2);
        an_plan_destroy(plan);
    }
}

static an_status step_under_pressure(an_ctx *ctx, void *arg)
{
    (void)arg;
    an_graph *g = NULL;
    an_plan *plan = NULL;
    an_status st = an_graph_create(ctx, &g);
    if (!st) st = an_graph_set_device(g, "interp");
    if (st) goto done;
    an_init init = {.graph = g, .seed = 0};
    an_module *net = an_nn_linear(&init, 5, 3, NULL);
    an_optim *opt = an_optim_adam(an_module_parameters(net), &(an_adam_desc){.lr = 1e-3});
    const float data[10] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    const int32_t y[2] = {0, 2};
    an_tensor *x = an_tensor_from_host(g, AN_F32, AN_DIMS(2, 5), data), *target = an_tensor_from_host(g, AN_I32, AN_DIMS(2), y);
    an_tensor *loss = an_cross_entropy(an_module_forward(net, x), target, NULL);
    st = an_optim_minimize(opt, loss);
    if (!st) st = an_optim_plan(opt, &loss, 1, NULL, &plan);
    if (!st) st = an_plan_run(plan);
done:
    if (st && st == AN_ERR_ARG) st = an_ctx_status(ctx); /* a NULL operand: the cause is in the context */
    an_plan_destroy(plan);
    an_graph_destroy(g);
    return st;
}

static void running_out_of_memory_in_a_step_is_clean(an_test *t)
{
    an_test_every_alloc_failure(t, step_under_pressure, NULL);
}

AN_TEST_MAIN(AN_CASE(kernels_are_as_many_as_the_docs_say), AN_CASE(fused_and_unfused_schedules_agree),
             AN_CASE(an_update_that_reads_elsewhere_is_not_spoiled), AN_CASE(reads_built_before_a_write_see_the_old_contents),
             AN_CASE(a_circle_through_a_write_is_broken_by_a_copy), AN_CASE(writes_in_a_row_happen_in_order),
             AN_CASE(a_read_of_what_was_overwritten_is_refused), AN_CASE(making_buffers_does_not_make_lazy_tensors_stale), AN_CASE(a_write_runs_once),
             AN_CASE(a_plan_runs_again_on_new_input), AN_CASE(dead_temporaries_share_memory),
             AN_CASE(empty_and_scalar_tensors_work), AN_CASE(equal_kernels_are_compiled_once),
             AN_CASE(operands_of_products_are_stored_in_reading_order),
             AN_CASE(running_out_of_memory_in_a_step_is_clean))
