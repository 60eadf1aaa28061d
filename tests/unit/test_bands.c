/* test_bands.c - what is large between kernels, a band of rows at a time: the same values as its twin that keeps all of it, in memory
 * that grows with the length of a sequence and not with its square. */
#include "an_test.h"

#include <anneal/device.h>
#include <anneal/grad.h>
#include <anneal/jit.h>
#include <anneal/nn.h>
#include <anneal/plan.h>
#include <anneal/settings.h>

#include "schedule/schedule.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* The default device: with the cpu backend that, else the interpreter. */
static const char *usual(void)
{
    size_t n = 0;
    return an_test_backends(&n)[0]->name;
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

static uint32_t random_build(an_graph *g, uint32_t seed, an_tensor **outs);

/* Of a shape, or of a random program. */
static void run_built(an_test *t, const char *device, const shape *s, uint32_t seed, an_settings settings, bool runs, outcome *out)
{
    an_graph *g = NULL;
    an_plan *plan = NULL;
    an_tensor *outs[4];
    *out = (outcome){0};
    CHECK_OK(t, an_ctx_set_settings(t->ctx, settings));
    CHECK_OK(t, an_graph_create(t->ctx, &g));
    CHECK_OK(t, an_graph_set_device(g, device));
    out->count = s ? build(g, s, outs) : random_build(g, seed, outs);
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
    an_plan_destroy(plan);
    an_graph_destroy(g);
}

static void run(an_test *t, const char *device, const shape *s, an_settings settings, bool runs, outcome *out)
{
    run_built(t, device, s, 0, settings, runs, out);
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

/* Which of the two is wrong, output by output, by what the interpreter makes of it all at once. */
static void tell(an_test *t, const shape *s, an_settings settings, const outcome *whole, const outcome *bands)
{
    outcome right;
    settings.no_bands = true;
    run(t, "interp", s, settings, true, &right);
    for (uint32_t i = 0; i < right.count; i++) {
        const outcome want = {.v = {right.v[i]}, .n = {right.n[i]}, .count = 1}, all = {.v = {whole->v[i]}, .n = {right.n[i]}, .count = 1},
                      band = {.v = {bands->v[i]}, .n = {right.n[i]}, .count = 1};
        printf("      output %u: all at once %.1e from the interpreter, in bands %.1e\n", i, distance(&want, &all), distance(&want, &band));
    }
    outcome_fini(&right);
}

static void compare(an_test *t, const char *device, const shape *s, an_settings in_bands, double tolerance)
{
    outcome whole, bands;
    an_settings twin = in_bands;
    twin.no_bands = true;
    run(t, device, s, twin, true, &whole);
    run(t, device, s, in_bands, true, &bands);
    const double off = distance(&whole, &bands);
    printf("    %s (%lld, %lld/%lld, %lld, %lld)%s%s%s: %zu kernels in %zu bytes, %zu in %zu; apart by %.1e\n", device, (long long)s->batch, (long long)s->heads,
           (long long)s->groups, (long long)s->n, (long long)s->dim, s->causal ? " causal" : "", s->is_forward ? " forward" : "", s->goes_on ? " goes on" : "",
           whole.nkernels, whole.nbytes, bands.nkernels, bands.nbytes, off);
    if (!(off <= tolerance)) tell(t, s, in_bands, &whole, &bands);
    CHECK(t, bands.nkernels > whole.nkernels && bands.nbytes < whole.nbytes);
    CHECK(t, off <= tolerance);
    outcome_fini(&whole);
    outcome_fini(&bands);
}

/* --- values ---------------------------------------------------------------------------------------------------------- */

static const shape shapes[] = {
    {1, 2, 2, 96, 8, true, true, false, 0},   {1, 2, 2, 96, 8, false, true, false, 0},  {1, 2, 2, 97, 8, true, false, false, 0}, /* 97 = 6 * 16 + 1 */
    {1, 2, 2, 96, 8, true, false, true, 0},   {1, 2, 2, 107, 8, false, false, true, 0}, {1, 4, 2, 96, 8, true, false, true, 0},
    {2, 4, 1, 103, 8, true, false, true, 0},  {1, 1, 1, 160, 12, true, false, true, 0}, {3, 2, 2, 96, 8, true, false, true, 0},
};
enum { NSHAPES = sizeof shapes / sizeof *shapes };

static void a_band_at_a_time_gives_what_all_at_once_does(an_test *t)
{
    size_t n = 0;
    const an_backend *const *all = an_test_backends(&n);
    for (size_t b = 0; b < n; b++)
        for (int i = 0; i < NSHAPES; i += strcmp(all[b]->name, "webgpu") == 0 ? 3 : 1) { /* drivers in software compile for seconds */
            compare(t, all[b]->name, &shapes[i], (an_settings){.band_nbytes = 4096}, 1e-5);
            if (i == 4) compare(t, all[b]->name, &shapes[i], (an_settings){.band_nbytes = 4096, .no_reuse = true}, 1e-5);
        }
}

static void without_opts_too(an_test *t)
{
    for (int i = 2; i < 6; i++) compare(t, "interp", &shapes[i], (an_settings){.band_nbytes = 4096, .no_opt = true}, 1e-5);
}

/* Sums over rows go on in f32 from band to band: they are rounded to the narrow dtype once. */
static void narrow_floats_are_summed_in_f32(an_test *t)
{
    compare(t, usual(), &(shape){1, 2, 2, 96, 8, true, false, true, AN_F16}, (an_settings){.band_nbytes = 4096}, 2e-3);
    compare(t, usual(), &(shape){1, 2, 2, 96, 8, true, false, true, AN_F64}, (an_settings){.band_nbytes = 4096}, 1e-6);
}

/* By the batch, where a band of it fits: then no sum goes from band to band, and no bit changes. */
static void by_the_batch_no_bit_changes(an_test *t)
{
    compare(t, "interp", &(shape){8, 2, 2, 64, 4, true, false, true, 0}, (an_settings){.band_nbytes = 64 << 10, .no_opt = true}, 0.0);
}

/* --- at random ------------------------------------------------------------------------------------------------------- */

static uint32_t draw(uint32_t *state, uint32_t n)
{
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 16) % n;
}

/* A product of all by all, some of what may be done with it, and what is left of it when it is summed up, with the gradients: in f64, where all that
 * differs is what is wrong. */
static uint32_t random_build(an_graph *g, uint32_t seed, an_tensor **outs)
{
    uint32_t r = seed * 2654435761u + 12345u;
    const int64_t batch = 1 + draw(&r, 3), n = 33 + draw(&r, 50), m = draw(&r, 3) ? n : 33 + draw(&r, 50), d = 1 + draw(&r, 5);
    an_tensor *x = filled(g, AN_F64, AN_DIMS(batch, n, d), r), *y = filled(g, AN_F64, AN_DIMS(batch, m, d), r + 1), *z = filled(g, AN_F64, AN_DIMS(batch, m, d), r + 2);
    an_tensor *wrt[3] = {x, y, z}, *s = an_matmul(x, an_transpose(y, -2, -1)), *first = s; /* (batch, n, m) */
    const uint32_t nops = 1 + draw(&r, 5);
    for (uint32_t i = 0; i < nops; i++)
        switch (draw(&r, 11)) {
        case 0: s = an_softmax(s, -1); break;
        case 1: s = an_softmax(s, -2); break;
        case 2: s = an_mul_scalar(an_tanh(s), 0.5); break;
        case 3: s = an_where(an_ge(an_unsqueeze(an_arange(g, AN_I32, 0, (double)n, 1), -1), an_arange(g, AN_I32, 0, (double)m, 1)), s, an_mul_scalar(s, 0.1)); break;
        case 4: s = an_sub(s, an_mean(s, AN_DIMS(-1), true)); break;
        case 5: s = an_add(s, an_sum(x, AN_DIMS(-1), true)); break; /* by rows */
        case 6: s = an_add(s, an_transpose(an_sum(y, AN_DIMS(-1), true), -2, -1)); break; /* by columns */
        case 7: s = an_mul(s, an_mul_scalar(first, 0.1)); break;
        case 8: s = an_mul(s, an_mul_scalar(an_matmul(x, an_transpose(z, -2, -1)), 0.1)); break;
        case 9: s = m == n ? an_add(s, an_transpose(s, -2, -1)) : s; break; /* rows are columns: whole */
        default: s = an_add(s, an_mul_scalar(an_slice(an_pad(s, (const int64_t[]){0, 1, 0}, (const int64_t[]){0, 0, 0}, 3, 0.0), 1, 0, n, 1), 0.5)); break; /* the row before */
        }
    const uint32_t end = draw(&r, 3);
    an_tensor *o = end == 0 ? an_matmul(s, z) : end == 1 ? an_matmul(an_transpose(s, -2, -1), x) : an_sum(s, AN_DIMS(-1), true);
    if (draw(&r, 2)) o = an_matmul(o, an_ones(g, AN_F64, AN_DIMS(end == 2 ? 1 : d, 3)));
    outs[0] = an_sum(an_mul(o, an_sin(o)), AN_ALL, false);
    return an_backward(outs[0], wrt, 2, outs + 1) ? 0 : 3;
}

static void random_programs_agree_with_their_twins(an_test *t)
{
    const char *many = getenv("AN_TEST_BANDS");
    const uint32_t count = many ? (uint32_t)atoi(many) : 60;
    uint32_t nbands = 0;
    for (uint32_t seed = 1; seed <= count; seed++) {
        outcome whole, bands;
        run_built(t, "interp", NULL, seed, (an_settings){.no_bands = true, .no_cache = true}, true, &whole);
        run_built(t, "interp", NULL, seed, (an_settings){.band_nbytes = 2048, .no_cache = true}, true, &bands);
        const double off = distance(&whole, &bands);
        if (!(off <= 1e-6)) an_test_fail(__FILE__, __LINE__, "program %u: apart by %g; %zu kernels, %zu in bands", seed, off, whole.nkernels, bands.nkernels);
        nbands += bands.nkernels > whole.nkernels;
        outcome_fini(&whole);
        outcome_fini(&bands);
    }
    printf("    %u of %u programs in bands\n", nbands, count);
    CHECK(t, nbands * 2 > count);
}

/* --- memory ---------------------------------------------------------------------------------------------------------- */

static void memory_grows_with_the_length_not_its_square(an_test *t)
{
    for (int forward = 0; forward < 2; forward++) {
        size_t before = 0;
        for (int64_t len = 256; len <= 4096; len *= 2) {
            const shape s = {1, 8, 8, len, 32, true, forward, true, 0};
            outcome bands;
            run(t, usual(), &s, (an_settings){0}, false, &bands);
            const size_t scores = (size_t)(8 * len * len) * sizeof(float);
            const bool in_bands = bands.nkernels > 20;
            printf("    %s %lld: %zu bytes, scores of %zu, %zu launches\n", forward ? "forward" : "a step", (long long)len, bands.nbytes,
                   scores, bands.nkernels);
            CHECK(t, in_bands ? bands.nbytes < scores : bands.nbytes >= scores);
            CHECK(t, !before || (in_bands && (double)bands.nbytes <= 2.1 * (double)before));
            CHECK(t, len > 512 || !in_bands);
            CHECK(t, len < 4096 || (in_bands && bands.nbytes < scores / 4));
            before = in_bands ? bands.nbytes : 0;
        }
    }
}

/* What the scheduler makes of a step for a GPU, without one: bytes between kernels. */
static size_t planned_for_gpu(an_test *t, const shape *s, bool no_bands, size_t *nlaunches)
{
    an_graph *g = NULL;
    an_tensor *outs[4];
    an_uop roots[4];
    an_schedule sched = {0};
    an_uop_vec temps = {0};
    an_cost cost = an_cost_for(&(an_backend){.name = "webgpu"});
    size_t nbytes = 0, sum = 0;
    if (no_bands) cost.band_nbytes = 0;
    CHECK_OK(t, an_graph_create(t->ctx, &g));
    const uint32_t n = build(g, s, outs);
    for (uint32_t i = 0; i < n; i++) roots[i] = an_tensor_uop(outs[i]);
    const uint32_t before = an_graph_len(g);
    CHECK_OK(t, an_schedule_make(g, roots, n, &cost, NULL, &sched));
    for (size_t c = 0; c < sched.calls.len; c++)
        for (uint32_t b = 0; b < sched.calls.data[c].nbuffers; b++) {
            const an_uop buffer = sched.calls.data[c].buffers[b];
            if (buffer.id < before || an_vec_has(&sched.outputs, buffer) || an_vec_has(&temps, buffer)) continue;
            CHECK(t, an_vec_push(t->ctx, &temps, buffer));
        }
    size_t *offsets = calloc(temps.len, sizeof *offsets);
    CHECK_OK(t, an_plan_memory(g, &sched.calls, temps.data, temps.len, 256, false, offsets, &nbytes, &sum));
    *nlaunches = sched.calls.len;
    free(offsets);
    an_vec_fini(t->ctx, &temps);
    an_schedule_fini(g, &sched);
    an_graph_destroy(g);
    return nbytes;
}

static void on_gpus_too(an_test *t)
{
    size_t before = 0, few = 0, many = 0;
    for (int64_t len = 256; len <= 4096; len *= 2) {
        const shape s = {1, 8, 8, len, 32, true, false, true, 0};
        const size_t whole = planned_for_gpu(t, &s, true, &few), bands = planned_for_gpu(t, &s, false, &many);
        printf("    webgpu a step %lld: %zu bytes, %zu whole; %zu launches, %zu whole\n", (long long)len, bands, whole, many, few);
        CHECK(t, !before || (many > few && (double)bands <= 2.1 * (double)before));
        CHECK(t, len > 512 || many == few);
        CHECK(t, len < 4096 || (many > few && bands * 4 < whole));
        before = many > few ? bands : 0;
    }
}

/* The twin keeps scores, and what is made of them, and in a step their gradients. */
static void the_twin_keeps_all_of_it(an_test *t)
{
    for (int forward = 0; forward < 2; forward++) {
        const shape s = {1, 8, 8, 1024, 32, true, forward, true, 0};
        outcome whole, bands;
        run(t, usual(), &s, (an_settings){.no_bands = true}, false, &whole);
        run(t, usual(), &s, (an_settings){0}, false, &bands);
        CHECK(t, whole.nbytes >= 2 * 8 * 1024 * 1024 * sizeof(float) && whole.nkernels < 20);
        CHECK(t, bands.nbytes * 2 < whole.nbytes);
    }
}

/* A band more is that many launches more (docs/ARCHITECTURE.md has the numbers). */
static void launches_of_a_band(an_test *t)
{
    const an_settings settings = {.band_nbytes = 9600}; /* 16 rows of 96, and of 80, of one head */
    for (int forward = 0; forward < 2; forward++) {
        const shape six = {1, 2, 2, 96, 8, true, forward, true, 0}, five = {1, 2, 2, 80, 8, true, forward, true, 0};
        outcome a, b;
        run(t, "interp", &six, settings, false, &a);
        run(t, "interp", &five, settings, false, &b);
        CHECK_EQ(t, a.nkernels - b.nkernels, 2 * (forward ? 3 : 11)); /* a band of each head */
    }
}

static void a_symbol_cannot_be_named_as_bands_are(an_test *t)
{
    an_graph *g = an_test_graph(t);
    CHECK_EQ(t, an_symbol(g, "#band", 1, 4).id, 0);
    CHECK_STR(t, an_ctx_error(t->ctx), "an_symbol: a name that begins with # is the library's own");
    an_ctx_clear_error(t->ctx);
}

/* --- what stays as it was -------------------------------------------------------------------------------------------- */

static void short_sequences_are_not_cut(an_test *t)
{
    const shape s = {12, 4, 4, 64, 32, true, false, true, 0};
    outcome whole, bands;
    run(t, usual(), &s, (an_settings){.no_bands = true}, false, &whole);
    run(t, usual(), &s, (an_settings){0}, false, &bands);
    CHECK_EQ(t, whole.nkernels, bands.nkernels);
    CHECK_EQ(t, whole.nbytes, bands.nbytes);
}

/* --- without memory -------------------------------------------------------------------------------------------------- */

static an_status compute(an_ctx *ctx, void *arg)
{
    (void)arg;
    an_graph *g = NULL;
    an_tensor *outs[4];
    an_status st = an_ctx_set_settings(ctx, (an_settings){.band_nbytes = 1024, .no_cache = true});
    if (!st) st = an_graph_create(ctx, &g);
    if (!st) st = an_graph_set_device(g, "interp");
    if (!st && !build(g, &(shape){1, 1, 1, 37, 2, true, false, true, 0}, outs)) st = an_ctx_status(ctx);
    if (!st) st = an_realize(outs, 4);
    an_graph_destroy(g);
    return st;
}

static void memory_that_runs_out_is_a_sentence(an_test *t)
{
    an_test_every_alloc_failure(t, compute, NULL);
}

/* --- replay ---------------------------------------------------------------------------------------------------------- */

typedef struct args {
    an_tensor *q, *k, *v;
} args;
typedef struct results {
    an_tensor *loss, *dq, *dk, *dv;
} results;

static const an_jit_slot in[] = {AN_JIT_SLOT(args, q), AN_JIT_SLOT(args, k), AN_JIT_SLOT(args, v)};
static const an_jit_slot out[] = {AN_JIT_SLOT(results, loss), AN_JIT_SLOT(results, dq), AN_JIT_SLOT(results, dk), AN_JIT_SLOT(results, dv)};

static an_status gradients(void *user, an_graph *g, const void *from, void *to)
{
    (void)user, (void)g;
    const args *a = from;
    results *r = to;
    an_tensor *y = an_attention(a->q, a->k, a->v, &(an_attention_desc){.causal = true}), *wrt[3] = {a->q, a->k, a->v};
    r->loss = an_sum(an_square(y), AN_ALL, false);
    return an_backward(r->loss, wrt, 3, &r->dq);
}

static void replay_binds_anew_and_bands_begin_anew(an_test *t)
{
    enum { N = 97, D = 8, CALLS = 3, SIZE = 2 * N * D };
    static float got[2][CALLS][3][SIZE];
    for (int w = 0; w < 2; w++) {
        an_graph *g = NULL;
        an_jit *j = NULL;
        CHECK_OK(t, an_ctx_set_settings(t->ctx, (an_settings){.no_bands = w == 0, .band_nbytes = 4096}));
        CHECK_OK(t, an_graph_create(t->ctx, &g));
        CHECK_OK(t, an_jit_create(g, &(an_jit_desc){.fn = gradients, .args = AN_JIT_SLOTS(args, in), .results = AN_JIT_SLOTS(results, out)}, &j));
        results r = {0};
        for (int c = 0; c < CALLS; c++) {
            args a = {filled(g, 0, AN_DIMS(1, 2, N, D), (uint32_t)c), filled(g, 0, AN_DIMS(1, 2, N, D), 7 + (uint32_t)c), filled(g, 0, AN_DIMS(1, 2, N, D), 9)};
            CHECK_OK(t, an_jit_call(j, &a, &r));
            an_tensor *grads[3] = {r.dq, r.dk, r.dv};
            for (int i = 0; i < 3; i++) CHECK_OK(t, an_tensor_read(grads[i], got[w][c][i], sizeof got[w][c][i]));
        }
        CHECK(t, w == 0 || an_plan_kernel_count(an_jit_plan(j)) > 40);
        an_jit_destroy(j);
        an_graph_destroy(g);
    }
    for (int c = 0; c < CALLS; c++)
        for (int i = 0; i < 3; i++)
            for (int k = 0; k < SIZE; k++) CHECK(t, fabs((double)got[0][c][i][k] - (double)got[1][c][i][k]) <= 1e-5);
}

AN_TEST_MAIN(AN_CASE(a_band_at_a_time_gives_what_all_at_once_does), AN_CASE(without_opts_too), AN_CASE(narrow_floats_are_summed_in_f32),
             AN_CASE(by_the_batch_no_bit_changes),
             AN_CASE(random_programs_agree_with_their_twins), AN_CASE(memory_grows_with_the_length_not_its_square), AN_CASE(on_gpus_too), AN_CASE(the_twin_keeps_all_of_it), AN_CASE(launches_of_a_band),
             AN_CASE(a_symbol_cannot_be_named_as_bands_are), AN_CASE(short_sequences_are_not_cut),
             AN_CASE(memory_that_runs_out_is_a_sentence), AN_CASE(replay_binds_anew_and_bands_begin_anew))
