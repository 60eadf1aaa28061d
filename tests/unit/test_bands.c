/* test_bands.c - what is large between kernels, a band of rows at a time: the same values as its twin that keeps all of it, in memory
 * that grows with the length of a sequence and not with its square. */
#include "an_test.h"

#include <anneal/device.h>
#include <anneal/grad.h>
#include <anneal/jit.h>
#include <anneal/nn.h>
#include <anneal/plan.h>
#include <anneal/settings.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* An attention and the gradients of what comes after it. */
typedef struct shape {
    int64_t batch, heads, groups, n, dim;
    bool causal, is_forward; /* is_forward: without gradients */
    bool goes_on;            /* something mixes the heads after it, so that forward and backward are apart */
    an_dtype dtype;          /* 0: f32 */
} shape;

typedef struct outcome {
    float *v[4];  /* out, or the loss' gradient by q, k, v */
    size_t n[4], nbytes, nkernels;
    uint32_t count;
} outcome;

static double now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

static float *noise(size_t n, uint32_t seed)
{
    float *v = malloc(n * sizeof *v);
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        v[i] = (float)(seed >> 8) / 8388608.0f - 1.0f;
    }
    return v;
}

static an_tensor *filled(an_graph *g, an_dtype dtype, const int64_t *dims, uint32_t rank, uint32_t seed)
{
    size_t n = 1;
    for (uint32_t i = 0; i < rank; i++) n *= (size_t)dims[i];
    float *v = noise(n, seed);
    an_tensor *x = an_tensor_from_host(g, AN_F32, dims, rank, v);
    free(v);
    if (!dtype || dtype == AN_F32) return x;
    x = an_cast(x, dtype);
    return an_realize(&x, 1) ? NULL : x;
}

static uint32_t build(an_graph *g, const shape *s, an_tensor **outs)
{
    an_tensor *q = filled(g, s->dtype, AN_DIMS(s->batch, s->heads, s->n, s->dim), 1), *k = filled(g, s->dtype, AN_DIMS(s->batch, s->groups, s->n, s->dim), 2),
              *v = filled(g, s->dtype, AN_DIMS(s->batch, s->groups, s->n, s->dim), 3);
    an_tensor *y = an_attention(q, k, v, &(an_attention_desc){.causal = s->causal}), *wrt[3] = {q, k, v};
    if (s->is_forward) {
        outs[0] = y;
        return 1;
    }
    if (s->goes_on) {
        const int64_t width = s->heads * s->dim;
        an_tensor *w = filled(g, s->dtype, AN_DIMS(width, width), 4);
        y = an_matmul(an_reshape(an_transpose(y, 1, 2), AN_DIMS(s->batch * s->n, width)), w);
    }
    outs[0] = an_sum(an_mul(y, an_sin(y)), AN_ALL, false);
    return an_backward(outs[0], wrt, 3, outs + 1) ? 0 : 4;
}

static void run(an_test *t, const char *device, const shape *s, an_settings settings, bool runs, outcome *out)
{
    an_graph *g = NULL;
    an_plan *plan = NULL;
    an_tensor *outs[4];
    *out = (outcome){0};
    CHECK_OK(t, an_ctx_set_settings(t->ctx, settings));
    CHECK_OK(t, an_graph_create(t->ctx, &g));
    CHECK_OK(t, an_graph_set_device(g, device));
    out->count = build(g, s, outs);
    CHECK(t, out->count);
    CHECK_OK(t, an_plan_create(g, outs, out->count, NULL, &plan));
    out->nbytes = an_plan_nbytes(plan);
    out->nkernels = an_plan_kernel_count(plan);
    for (int i = 0; i < 2 && runs; i++) CHECK_OK(t, an_plan_run(plan)); /* again: bands start anew */
    for (uint32_t i = 0; i < out->count && runs; i++) {
        out->n[i] = (size_t)an_tensor_numel(outs[i]);
        out->v[i] = malloc(out->n[i] * sizeof(float));
        an_tensor *x = an_tensor_dtype(outs[i]) == AN_F32 ? outs[i] : an_cast(outs[i], AN_F32);
        CHECK_OK(t, an_tensor_read(x, out->v[i], out->n[i] * sizeof(float)));
    }
    if (runs && getenv("TIME")) {
        double best = 1e9;
        for (int i = 0; i < 5; i++) {
            const double t0 = now();
            CHECK_OK(t, an_plan_run(plan));
            float one;
            CHECK_OK(t, an_tensor_read(an_reshape(an_slice(an_reshape(outs[0], AN_DIMS(-1)),0,0,1,1), AN_SCALAR), &one, sizeof one));
            if (now() - t0 < best) best = now() - t0;
        }
        printf("    %.1f ms, %zu kernels, %zu bytes, schedule %.0f ms\n", best * 1e3, out->nkernels, out->nbytes, an_plan_time(plan).schedule * 1e3);
    }
    an_plan_destroy(plan);
    an_graph_destroy(g);
}

static void outcome_fini(outcome *o)
{
    for (uint32_t i = 0; i < o->count; i++) free(o->v[i]);
}

/* The largest difference, relative to the largest value where that is over 1. */
static double distance(const outcome *a, const outcome *b)
{
    double worst = 0;
    for (uint32_t i = 0; i < a->count; i++) {
        double most = 1, off = 0;
        for (size_t k = 0; k < a->n[i]; k++) most = fmax(most, fabs((double)a->v[i][k]));
        for (size_t k = 0; k < a->n[i]; k++) {
            const double d = fabs((double)a->v[i][k] - (double)b->v[i][k]);
            off = d <= off ? off : d; /* nan counts */
        }
        worst = off / most <= worst ? worst : off / most;
    }
    return worst;
}

static void look(an_test *t)
{
    const int64_t n = getenv("T") ? atoi(getenv("T")) : 1024, d = getenv("D") ? atoi(getenv("D")) : 32;
    const shape s = {getenv("B") ? atoi(getenv("B")) : 1, 4, 4, n, d, !getenv("FULL"), getenv("FWD") != NULL, getenv("ON") != NULL, 0};
    outcome a, b;
    run(t, "cpu", &s, (an_settings){.no_bands = true}, true, &b);
    run(t, "cpu", &s, (an_settings){.band_nbytes=getenv("NB")?(size_t)atol(getenv("NB")):0}, true, &a);
    printf("    off by %g\n", distance(&a, &b));
    outcome_fini(&a);
    outcome_fini(&b);
}

AN_TEST_MAIN(AN_CASE(look))
