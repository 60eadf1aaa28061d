/* How far the functions that the tensor API makes of exp2, log2 and sin are from the true value, on every backend that compiles, over
 * floats of every exponent. The C library's double stands for the true value. docs/SEMANTICS.md has the same table.
 *
 * AN_TEST_EVERY in the environment takes all 2^32 floats, which is a matter of hours for the interpreter and of minutes for others. */
#include "an_test.h"
#include <anneal/device.h>
#include <anneal/plan.h>
#include <anneal/tensor.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double sigmoid(double x)
{
    return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x));
}

static an_tensor *pow_third(an_tensor *x)
{
    return an_pow_scalar(x, 1.0 / 3);
}
static double third(double x)
{
    return x < 0 ? (double)NAN : pow(x, 1.0 / 3); /* the exponent as it is, though it is an f32 in the graph */
}

/* ulp: of the result, where |x| is at most `to`; absolute: what is allowed besides, for functions that pass through 0 away from 0. */
static const struct {
    const char *name;
    an_tensor *(*fn)(an_tensor *x);
    double (*truth)(double);
    double to, ulp, absolute;
} rows[] = {
    {"exp", an_exp, exp, 1, 2, 0},
    {"exp", an_exp, exp, 1e38, 90, 0},
    {"expm1", an_expm1, expm1, 1, 4, 0},
    {"log", an_log, log, 3e38, 2, 0},
    {"log1p", an_log1p, log1p, 1e30, 4, 0},
    {"cos", an_cos, cos, 3e38, 2, 2.5e-7},
    {"tanh", an_tanh, tanh, 3e38, 4, 0},
    {"sinh", an_sinh, sinh, 1, 4, 0},
    {"cosh", an_cosh, cosh, 1, 2, 0},
    {"sigmoid", an_sigmoid, sigmoid, 10, 9, 0},
    {"cube root", pow_third, third, 3e38, 90, 0},
};
enum { ROWS = sizeof rows / sizeof rows[0], CHUNK = 1 << 16, STRIDE = 16381 };

static double ulps(double got, double want)
{
    int e = 0;
    (void)frexp(want, &e);
    return ldexp(fabs(got - want), -(e - 24 < -149 ? -149 : e - 24));
}

typedef struct worst {
    double ulp;
    float at;
} worst;

static void check_one(const char *device, size_t row, float x, float y, worst *w)
{
    const double want = rows[row].truth((double)x), got = (double)y;
    const float nearest = (float)want;
    if (isnan(x) || isinf(x) || isnan(want)) {
        if (isnan(want) ? !isnan(y) : y != nearest)
            an_test_fail(__FILE__, __LINE__, "%s: %s of %a is %a, not %a", device, rows[row].name, (double)x, got, want);
        return;
    }
    if (fabs((double)x) > rows[row].to || (isinf(nearest) && isinf(y) && (nearest > 0) == (y > 0))) return;
    if (fabs(got - want) <= rows[row].absolute) return;
    const double u = isinf(y) || isnan(y) || isinf(nearest) ? (double)INFINITY : ulps(got, want);
    if (!(u <= w->ulp)) *w = (worst){u, x};
}

static void sweep(an_test *t, const char *device, size_t row, uint64_t stride)
{
    static float x[CHUNK], y[CHUNK];
    an_graph *g = NULL;
    an_plan *plan = NULL;
    worst w = {0};
    CHECK_OK(t, an_graph_create(t->ctx, &g));
    CHECK_OK(t, an_graph_set_device(g, device));
    memset(x, 0, sizeof x);
    an_tensor *in = an_tensor_from_host(g, AN_F32, AN_DIMS(CHUNK), x), *out = rows[row].fn(in);
    CHECK_OK(t, an_plan_create(g, &out, 1, NULL, &plan));
    for (uint64_t bits = 0; bits <= UINT32_MAX;) {
        for (size_t i = 0; i < CHUNK; i++, bits += stride) {
            const uint32_t b = bits <= UINT32_MAX ? (uint32_t)bits : 0;
            memcpy(&x[i], &b, sizeof b);
        }
        CHECK_OK(t, an_tensor_write(in, x, sizeof x));
        CHECK_OK(t, an_plan_run(plan));
        CHECK_OK(t, an_tensor_read(out, y, sizeof y));
        for (size_t i = 0; i < CHUNK; i++) check_one(device, row, x[i], y[i], &w);
    }
    printf("%s: %s up to %g: at most %.2f ulp (at %a), %.1f allowed\n", device, rows[row].name, rows[row].to, w.ulp, (double)w.at,
           rows[row].ulp);
    an_plan_destroy(plan);
    an_graph_destroy(g);
    CHECK(t, w.ulp <= rows[row].ulp);
}

static void errors_are_as_documented(an_test *t)
{
    size_t n = 0;
    const an_backend *const *backends = an_test_backends(&n);
    const uint64_t stride = getenv("AN_TEST_EVERY") ? 1 : STRIDE;
    for (size_t i = 0; i < n; i++) {
        an_device *dev = NULL;
        if (an_device_get(t->ctx, backends[i]->name, &dev)) { /* one that this machine has not */
            an_ctx_clear_error(t->ctx);
            continue;
        }
        if (strcmp(backends[i]->name, "interp") == 0 && n > 1) continue; /* the same formulas, slowly */
        for (size_t row = 0; row < ROWS; row++) sweep(t, backends[i]->name, row, stride);
    }
}

AN_TEST_MAIN(AN_CASE(errors_are_as_documented))
