/* jvp_cost.c - what forward mode costs on every model: the time of what its test graph computes together with its derivative along one
 * direction, over the time of the first alone. Two directions: of the first layer's first parameter, which reaches every other layer
 * through its input, as one of the model's input does (each product has one tangent, so 2 is the least); and of all parameters (each
 * product has two, so 3 is the least where products are all there is). Medians of plans run in turn; NAME... restricts it, and --kernels
 * lists what the kernels of the first two take, each the least of some runs. */
#define _POSIX_C_SOURCE 200809L
#include "autodiff/autodiff.h"
#include "model.h"
#include <anneal/profile.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Of tensor/tensor.h, which has an an_text of its own. */
an_tensor *an_tensor_wrap(an_graph *g, an_uop u, an_tensor *const *operands, size_t n);

enum { REPEATS = 15, PARAMS_MAX = 1024, FORWARD = 0, FIRST, ALL, PLANS };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Runs them in turn, so that a busy machine hurts all. */
static an_status measure(an_plan *plans[PLANS], an_tensor *outs[PLANS], double medians[PLANS])
{
    double s[PLANS][REPEATS], value[1 << 14];
    for (int r = -1; r < REPEATS; r++)
        for (int i = 0; i < PLANS; i++) {
            const double start = now();
            an_status st = an_plan_run(plans[i]);
            const size_t nbytes = an_tensor_nbytes(outs[i]);
            if (!st && nbytes <= sizeof value) st = an_tensor_read(outs[i], value, nbytes);
            if (st) return st;
            if (r >= 0) s[i][r] = now() - start;
        }
    for (int i = 0; i < PLANS; i++) {
        qsort(s[i], REPEATS, sizeof(double), by_size);
        medians[i] = s[i][REPEATS / 2];
    }
    return AN_OK;
}

static an_status print_kernels(an_ctx *ctx, an_plan *plan)
{
    const size_t n = an_plan_kernel_count(plan);
    double *least = calloc(n + 1, sizeof *least);
    an_profile *p = an_profile_start(ctx);
    an_status st = least && p ? AN_OK : AN_ERR_NOMEM;
    for (int r = 0; r < REPEATS && !st; r++) {
        const size_t before = an_profile_count(p);
        st = an_plan_run(plan);
        for (size_t i = 0; i < n && !st; i++) {
            const double seconds = an_profile_get(p, before + i).seconds;
            if (r == 0 || seconds < least[i]) least[i] = seconds;
        }
    }
    for (size_t i = 0; i < n && !st; i++) {
        const an_kernel_info k = an_plan_kernel(plan, i);
        printf("%4zu  %8.3f ms  %7.1f GF/s  %6.1f GB/s  %-8s  %s\n", i, 1e3 * least[i], 1e-9 * k.flops / least[i],
               1e-9 * (k.nbytes_read + k.nbytes_written) / least[i], k.phase, k.name);
    }
    printf("\n");
    an_profile_destroy(p);
    free(least);
    return st;
}

static an_status run(an_ctx *ctx, const model *m, bool list)
{
    model_options o;
    model_graphs graphs = {0};
    an_graph *g = NULL;
    an_plan *plans[PLANS] = {NULL};
    double t[PLANS] = {0};
    static an_tensor *d[PARAMS_MAX];
    static an_uop in[PARAMS_MAX], along[PARAMS_MAX];
    an_tensor *outs[PLANS] = {NULL};
    model_defaults(m, NULL, &o);
    o.eval_batch = m->data == MODEL_IMAGES && m->features == 3072 ? 16 : 64;
    o.vocab = 65;
    if (o.values[MODEL_STEPS] == 0) o.values[MODEL_STEPS] = 1;
    an_status st = an_graph_create(ctx, &g);
    if (!st) st = model_build(m, g, &o, &graphs);
    if (st) goto done;
    const an_params params = an_module_parameters(graphs.net);
    an_rng *rng = an_rng_from_seed(g, 9);
    const an_uop y = an_tensor_uop(graphs.eval);
    size_t n = 0;
    for (size_t i = 0; i < params.n && n < PARAMS_MAX; i++, n++) {
        int64_t dims[12];
        const uint32_t rank = an_tensor_rank(params.items[i].tensor);
        for (uint32_t k = 0; k < rank; k++) dims[k] = an_tensor_dim(params.items[i].tensor, (int)k);
        d[n] = an_normal(rng, AN_F32, dims, rank, 0, 1);
        /* The handle stands for the parameter after the update; the test graph is built on the buffer. */
        in[n] = an_tensor_uop(params.items[i].tensor);
        while (an_uop_op(g, in[n]) == AN_OP_ASSIGN) in[n] = an_uop_src(g, in[n], 0);
    }
    st = an_realize(d, n);
    for (size_t i = 0; i < n; i++) along[i] = an_tensor_uop(d[i]);
    if (!st) outs[FORWARD] = an_tensor_wrap(g, y, NULL, 0);
    if (!st) st = an_plan_create(g, &outs[FORWARD], 1, NULL, &plans[FORWARD]);
    for (int i = FIRST; i < PLANS && !st; i++) {
        an_uop tangent = AN_UOP_NONE;
        st = an_jvp_uops(g, &(an_jvp_request){&y, 1, in, along, i == FIRST ? 1 : n}, &tangent);
        if (st) break;
        outs[i] = an_tensor_wrap(g, tangent, NULL, 0);
        an_tensor *both[2] = {an_tensor_wrap(g, y, NULL, 0), outs[i]};
        st = an_plan_create(g, both, 2, NULL, &plans[i]);
    }
    if (!st) st = measure(plans, outs, t);
    if (!st)
        printf("%-10s  %8.3f ms  with its tangent along %-24s %8.3f ms  ratio %.2f  along all parameters %8.3f ms  ratio %.2f  kernels %zu, %zu, %zu\n",
               m->name, 1e3 * t[FORWARD], params.items[0].name, 1e3 * t[FIRST], t[FIRST] / t[FORWARD], 1e3 * t[ALL], t[ALL] / t[FORWARD],
               an_plan_kernel_count(plans[FORWARD]), an_plan_kernel_count(plans[FIRST]), an_plan_kernel_count(plans[ALL]));
    for (int i = 0; i < ALL && list && !st; i++) st = print_kernels(ctx, plans[i]);
done:
    if (st) printf("%-10s  %s\n", m->name, an_ctx_error(ctx));
    an_ctx_clear_error(ctx);
    for (int i = 0; i < PLANS; i++) an_plan_destroy(plans[i]);
    an_graph_destroy(g);
    return st;
}

int main(int argc, char **argv)
{
    an_ctx *ctx = NULL;
    int failed = 0;
    const bool list = argc > 1 && strcmp(argv[1], "--kernels") == 0;
    argc -= list;
    argv += list;
    if (an_ctx_create(NULL, &ctx)) return 1;
    for (size_t i = 0; i < model_count(); i++) {
        bool asked = argc < 2;
        for (int k = 1; k < argc; k++) asked = asked || strcmp(argv[k], model_get(i)->name) == 0;
        if (asked && run(ctx, model_get(i), list)) failed = 1;
        fflush(stdout);
    }
    an_ctx_destroy(ctx);
    return failed;
}
