/* Panels: products whose operands do not stay in the caches. Which get copies, and that no value changes by a bit. */
#include "an_test.h"
#include <anneal/device.h>
#include <anneal/plan.h>
#include <anneal/settings.h>
#include <anneal/tensor.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static float value_at(size_t i, size_t n)
{
    return (float)((i * 7919 + n) % 1013) / 506.5f - 1.0f;
}

static an_tensor *some(an_graph *g, const int64_t *dims, uint32_t rank)
{
    size_t n = 1;
    for (uint32_t i = 0; i < rank; i++) n *= (size_t)dims[i];
    float *data = malloc(n * sizeof *data);
    if (!data) return NULL;
    for (size_t i = 0; i < n; i++) data[i] = value_at(i, n);
    an_tensor *t = an_tensor_from_host(g, AN_F32, dims, rank, data);
    free(data);
    return t;
}

/* m x k by k x n. */
typedef struct shape {
    int64_t m, n, k;
    const char *layout;
    bool padded, biased;
    size_t copies; /* expected kernels that copy operands */
} shape;

static an_tensor *build(an_graph *g, const shape *s)
{
    const int64_t rows = s->padded ? s->k - 3 : s->k;
    an_tensor *a = s->layout[0] == 'n' ? some(g, AN_DIMS(s->m, s->k)) : an_transpose(some(g, AN_DIMS(s->k, s->m)), 0, 1);
    an_tensor *b = s->layout[1] == 'n' ? some(g, AN_DIMS(rows, s->n)) : an_transpose(some(g, AN_DIMS(s->n, rows)), 0, 1);
    if (s->padded) b = an_pad(b, (const int64_t[]){1, 0}, (const int64_t[]){2, 0}, 2, 0);
    an_tensor *y = an_matmul(a, b);
    return s->biased ? an_relu(an_add(y, some(g, AN_DIMS(s->n)))) : y;
}

/* The product on the cpu, and how many kernels copy an operand for it. */
static float *product(an_test *t, const shape *s, an_settings settings, size_t *copies)
{
    const size_t nbytes = (size_t)(s->m * s->n) * sizeof(float);
    float *out = malloc(nbytes);
    an_graph *g = NULL;
    an_plan *plan = NULL;
    CHECK(t, out != NULL);
    CHECK_OK(t, an_ctx_set_settings(t->ctx, settings));
    CHECK_OK(t, an_graph_create(t->ctx, &g));
    CHECK_OK(t, an_graph_set_device(g, "cpu"));
    an_tensor *y = build(g, s);
    CHECK_OK(t, an_plan_create(g, &y, 1, NULL, &plan));
    *copies = 0;
    for (size_t i = 0; i < an_plan_kernel_count(plan); i++)
        *copies += strstr(an_plan_kernel(plan, i).reason, "an operand of a product") != NULL;
    CHECK_OK(t, an_plan_run(plan));
    CHECK_OK(t, an_tensor_read(y, out, nbytes));
    an_plan_destroy(plan);
    an_graph_destroy(g);
    return out;
}

static bool has_wide_cpu(an_test *t)
{
    an_device *dev = NULL;
    size_t n = 0;
    const an_backend *const *all = an_test_backends(&n);
    for (size_t i = 0; i < n; i++)
        if (strcmp(all[i]->name, "cpu") == 0) {
            CHECK_OK(t, an_device_get(t->ctx, "cpu", &dev));
            return ((const an_device_base *)dev)->vector_nbytes >= 32;
        }
    puts("skipped: this build has no cpu backend");
    return false;
}

static const shape shapes[] = {
    {96, 512, 640, "nn", false, false, 0},  /* what fits scratch is copied there, by the product itself */
    {101, 521, 643, "nn", false, true, 0},  /* nothing divides; what comes after the sum stays in its kernel */
    {96, 512, 640, "nn", true, false, 0},   /* a load with a gate */
    {320, 521, 643, "nt", false, false, 0}, /* a copy that transposes */
    {523, 521, 543, "tn", false, false, 0}, /* both operands */
    {96, 256, 17000, "nn", false, false, 1},  /* whole panels, rows that fill tiles */
    {320, 129, 17003, "nt", false, true, 1},
    {99, 144, 17000, "tn", true, false, 2},
    {32, 512, 640, "nn", false, false, 0},  /* too few rows to pay for a copy */
    {256, 128, 128, "nn", false, false, 0}, /* stays in the cache as it is */
    {1, 4099, 300, "nt", false, false, 0},  /* a stream */
};

/* Element (i, j), summed in the order of k, one rounding a term. */
static float expected(const shape *s, int64_t i, int64_t j)
{
    const int64_t rows = s->padded ? s->k - 3 : s->k, first = s->padded ? 1 : 0;
    float sum = 0;
    for (int64_t k = 0; k < s->k; k++) {
        const size_t at_a = (size_t)(s->layout[0] == 'n' ? i * s->k + k : k * s->m + i);
        const int64_t r = k - first;
        const size_t at_b = (size_t)(s->layout[1] == 'n' ? r * s->n + j : j * rows + r);
        const float b = r < 0 || r >= rows ? 0 : value_at(at_b, (size_t)(rows * s->n));
        sum = fmaf(value_at(at_a, (size_t)(s->m * s->k)), b, sum);
    }
    if (!s->biased) return sum;
    sum += value_at((size_t)j, (size_t)s->n);
    return sum > 0 ? sum : 0;
}

static void check_rows(an_test *t, const shape *s, const float *got)
{
    (void)t;
    const int64_t rows[] = {0, 7, s->m / 2, s->m - 2, s->m - 1}; /* tiles and tails */
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++)
        for (int64_t j = 0; j < s->n; j++) {
            const float want = expected(s, rows[r], j);
            if (memcmp(&got[rows[r] * s->n + j], &want, sizeof want) != 0)
                an_test_fail(__FILE__, __LINE__, "(%lld x %lld x %lld %s) element %lld, %lld is %.9g, not %.9g", (long long)s->m, (long long)s->n,
                             (long long)s->k, s->layout, (long long)rows[r], (long long)j, (double)got[rows[r] * s->n + j], (double)want);
        }
}

static void products_in_panels_are_the_same_to_the_bit(an_test *t)
{
    if (!has_wide_cpu(t)) return;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const shape *s = &shapes[i];
        for (int plain = 0; plain < 2; plain++) {
            size_t copies = 0;
            float *got = product(t, s, (an_settings){.no_opt = plain == 1}, &copies);
            if (copies != s->copies) an_test_fail(__FILE__, __LINE__, "product %zu: %zu copies, not %zu", i, copies, s->copies);
            if (s->m > 1) check_rows(t, s, got);
            free(got);
        }
    }
}

static void with_fusion_off_nothing_is_copied(an_test *t)
{
    if (!has_wide_cpu(t)) return;
    size_t copies = 1;
    free(product(t, &shapes[0], (an_settings){.no_fuse = true}, &copies));
    CHECK_EQ(t, copies, 0);
}

AN_TEST_MAIN(AN_CASE(products_in_panels_are_the_same_to_the_bit), AN_CASE(with_fusion_off_nothing_is_copied))
