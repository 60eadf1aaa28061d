/* test_tensor_random.c - random tensors: the published vectors, the same numbers everywhere, fresh ones in each run of a
 * plan, and distributions that are what they say. */
#include "an_test.h"

#include "eval_graph.h"
#include "base/threefry.h"
#include "rewrite/rewrite.h"
#include "tensor/tensor.h"
#include <anneal/device.h>
#include <anneal/plan.h>

#include <math.h>
#include <stdlib.h>

/* threefry2x32, 20 rounds, from kat_vectors of Random123 (D. E. Shaw Research): counter, key, result. */
static const uint32_t vectors[3][6] = {
    {0x00000000, 0x00000000, 0x00000000, 0x00000000, 0x6b200159, 0x99ba4efe},
    {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0x1cb996fc, 0xbb002be7},
    {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xc4923a9c, 0x483df7a0},
};

static an_graph *graph_on(an_test *t, const char *device)
{
    an_graph *g = NULL;
    CHECK_OK(t, an_graph_create(t->ctx, &g));
    CHECK_OK(t, an_graph_set_device(g, device));
    return g;
}

static void threefry_gives_the_published_vectors(an_test *t)
{
    size_t n = 0;
    const an_backend *const *backends = an_test_backends(&n);
    for (int v = 0; v < 3; v++) {
        uint32_t out[2];
        an_threefry(&vectors[v][2], &vectors[v][0], out);
        CHECK_EQ(t, out[0], vectors[v][4]);
        CHECK_EQ(t, out[1], vectors[v][5]);
    }
    for (size_t b = 0; b < n; b++) {
        an_graph *g = graph_on(t, backends[b]->name);
        for (int v = 0; v < 3; v++) {
            an_tensor *in[4];
            an_uop u[4], out[2];
            for (int i = 0; i < 4; i++) {
                in[i] = an_tensor_from_host(g, AN_U32, AN_SCALAR, &vectors[v][i]);
                u[i] = an_tensor_uop(in[i]);
            }
            an_threefry2x32_nodes(g, u + 2, u, out);
            for (int i = 0; i < 2; i++) {
                int64_t word = 0;
                CHECK_OK(t, an_item_i64(an_tensor_wrap(g, out[i], in, 4), &word));
                CHECK_EQ(t, word, vectors[v][4 + i]);
            }
        }
        an_graph_destroy(g);
    }
}

/* Simplified, a block is no more additions than it is written with: sums that are used again are not computed anew in each round. */
static void a_block_keeps_its_sums(an_test *t)
{
    enum { ADDITIONS = 2 + 20 + 3 * 5 };
    an_graph *g = an_test_graph(t);
    const an_uop words = an_param(g, AN_U32, 0), to = an_param(g, AN_U32, 1);
    an_uop in[4], out[2], stores[2];
    an_uop_vec order = {0};
    size_t n = 0;
    for (int i = 0; i < 4; i++) in[i] = an_load(g, words, an_index(g, i), AN_UOP_NONE);
    an_threefry2x32_nodes(g, in, in + 2, out);
    for (int i = 0; i < 2; i++) stores[i] = an_store(g, to, an_index(g, i), out[i], AN_UOP_NONE);
    const an_uop sink = an_simplify(g, an_sink(g, stores, 2));
    CHECK_OK(t, an_toposort(g, &sink, 1, &order));
    for (size_t i = 0; i < order.len; i++) n += an_uop_op(g, order.data[i]) == AN_OP_ADD;
    an_vec_fini(t->ctx, &order);
    CHECK(t, n > 20 && n <= ADDITIONS);
}

/* Element i of draw j is threefry(threefry(seed, j), {i, 1}), to the bit. */
static void a_draw_is_what_the_header_says(an_test *t)
{
    an_graph *g = graph_on(t, "interp");
    an_rng *rng = an_rng_from_seed(g, UINT64_C(0x123456789abcdef0));
    an_tensor *first = an_uniform(rng, AN_F32, AN_DIMS(3), 0, 1), *x = an_uniform(rng, AN_F32, AN_DIMS(2, 3), 0, 1);
    float got[6];
    CHECK(t, first);
    CHECK_OK(t, an_tensor_read(x, got, sizeof got));
    uint32_t key[2], out[2];
    an_threefry((const uint32_t[]){0x9abcdef0, 0x12345678}, (const uint32_t[]){1, 0}, key);
    for (uint32_t i = 0; i < 6; i++) {
        an_threefry(key, (const uint32_t[]){i, 1}, out);
        CHECK_NEAR(t, got[i], ldexp(out[0] >> 8, -24), 0);
    }
    an_graph_destroy(g);
}

/* Draws of each kind, into values. */
static void draw_all(an_test *t, an_graph *g, double *values)
{
    an_rng *rng = an_rng_from_seed(g, 42);
    an_tensor *all[6] = {an_uniform(rng, AN_F32, AN_DIMS(7), -2, 3), an_normal(rng, AN_F64, AN_DIMS(7), 1, 2),
                         an_cast(an_randint(rng, AN_I32, AN_DIMS(7), -5, 100), AN_F64),
                         an_cast(an_bernoulli(rng, AN_DIMS(7), 0.3), AN_F64), an_cast(an_permutation(rng, 7), AN_F64),
                         an_dropout(rng, an_ones(g, AN_F32, AN_DIMS(7)), 0.5)};
    for (int i = 0; i < 6; i++) CHECK_OK(t, an_tensor_read(an_cast(all[i], AN_F64), values + 7 * i, 56));
}

static void every_device_draws_the_same_numbers(an_test *t)
{
    size_t n = 0;
    const an_backend *const *backends = an_test_backends(&n);
    double first[42] = {0}, other[42] = {0};
    for (size_t b = 0; b < n; b++) {
        an_graph *g = graph_on(t, backends[b]->name);
        draw_all(t, g, b ? other : first);
        an_graph_destroy(g);
        for (int i = 0; b && i < 42; i++) CHECK_NEAR(t, other[i], first[i], i >= 7 && i < 14 ? 1e-12 : 0);
    }
    an_graph *g = graph_on(t, "interp");
    draw_all(t, g, other);
    an_graph_destroy(g);
    for (int i = 0; i < 42; i++) CHECK_NEAR(t, other[i], first[i], i >= 7 && i < 14 ? 1e-12 : 0);
}

/* What a checkpoint needs: the states written back, the draws are those that came after they were read. */
static void a_stream_goes_on_from_its_states(an_test *t)
{
    an_graph *g = graph_on(t, "interp");
    an_rng *rng = an_rng_from_seed(g, 7);
    CHECK_EQ(t, an_rng_count(rng), 0);
    CHECK_EQ(t, an_rng_count(NULL), 0);
    CHECK(t, an_rng_state(rng, 0) == NULL && an_rng_state(NULL, 0) == NULL);
    an_tensor *x = an_uniform(rng, AN_F32, AN_DIMS(5), 0, 1), *writes[2] = {x, an_rng_state(rng, 0)};
    CHECK_EQ(t, an_rng_count(rng), 1);
    CHECK(t, writes[1] != NULL && an_rng_state(rng, 1) == NULL);
    an_plan *plan = NULL;
    uint32_t state[3];
    float values[3][5];
    CHECK_OK(t, an_plan_create(g, writes, 2, NULL, &plan));
    for (int run = 0; run < 3; run++) {
        if (run == 1) CHECK_OK(t, an_tensor_read(an_rng_state(rng, 0), state, sizeof state));
        if (run == 2) CHECK_OK(t, an_tensor_write(an_rng_state(rng, 0), state, sizeof state));
        CHECK_OK(t, an_plan_run(plan));
        CHECK_OK(t, an_tensor_read(x, values[run], sizeof values[run]));
    }
    CHECK(t, memcmp(values[0], values[1], sizeof values[0]) != 0);
    CHECK(t, memcmp(values[1], values[2], sizeof values[0]) == 0);
    an_plan_destroy(plan);
    an_graph_destroy(g);
}

static void seeds_and_draws_differ(an_test *t)
{
    an_graph *g = graph_on(t, "interp");
    an_rng *a = an_rng_from_seed(g, 1), *b = an_rng_from_seed(g, 2);
    an_tensor *xs[3] = {an_uniform(a, AN_F32, AN_DIMS(64), 0, 1), an_uniform(a, AN_F32, AN_DIMS(64), 0, 1),
                        an_uniform(b, AN_F32, AN_DIMS(64), 0, 1)};
    float v[3][64];
    for (int i = 0; i < 3; i++) CHECK_OK(t, an_tensor_read(xs[i], v[i], sizeof v[i]));
    int same = 0;
    for (int i = 0; i < 64; i++) same += (v[0][i] == v[1][i]) + (v[0][i] == v[2][i]) + (v[1][i] == v[2][i]);
    CHECK_EQ(t, same, 0);
    an_graph_destroy(g);
}

/* In one plan a draw is fresh each run; what was computed once is not drawn again. */
static void a_plan_draws_fresh_numbers_and_a_draw_is_drawn_once(an_test *t)
{
    size_t n = 0;
    const an_backend *const *backends = an_test_backends(&n);
    for (size_t b = 0; b < n; b++) {
        an_graph *g = graph_on(t, backends[b]->name);
        an_rng *rng = an_rng_from_seed(g, 9);
        an_plan *plan = NULL;
        an_tensor *x = an_uniform(rng, AN_F32, AN_DIMS(50), 0, 1);
        an_tensor *twice = an_mul_scalar(x, 2), *kept = an_mul_scalar(x, 4), *sum = an_sum(x, AN_ALL, false);
        float u[50], v[50];
        double before = 0, total = 0;
        /* One mask in three computations, even when they are computed apart. */
        CHECK_OK(t, an_item_f64(sum, &before));
        CHECK_OK(t, an_tensor_read(twice, u, sizeof u));
        CHECK_OK(t, an_tensor_read(kept, v, sizeof v));
        for (int i = 0; i < 50; i++) {
            CHECK_NEAR(t, v[i], 2 * u[i], 0);
            total += (double)u[i] / 2;
        }
        CHECK_NEAR(t, total, before, 1e-5);

        an_tensor *y = an_uniform(rng, AN_F32, AN_DIMS(50), 0, 1);
        CHECK_OK(t, an_plan_create(g, &y, 1, NULL, &plan));
        CHECK_OK(t, an_plan_run(plan));
        CHECK_OK(t, an_tensor_read(y, u, sizeof u));
        CHECK_OK(t, an_plan_run(plan));
        CHECK_OK(t, an_tensor_read(y, v, sizeof v));
        int same = 0;
        for (int i = 0; i < 50; i++) same += u[i] == v[i];
        CHECK_EQ(t, same, 0);
        an_plan_destroy(plan);
        an_graph_destroy(g);
    }
}

/* --- distributions ----------------------------------------------------------------------------------------------- */

enum { N = 40000 };

/* Mean and variance lie within 5 standard errors of what they are for n such numbers with these moments. */
static void check_moments(an_test *t, const double *v, int n, double mean, double var, double fourth)
{
    double m = 0, s = 0;
    for (int i = 0; i < n; i++) m += v[i] / n;
    for (int i = 0; i < n; i++) s += (v[i] - m) * (v[i] - m) / (n - 1);
    CHECK_NEAR(t, (m - mean) / sqrt(var / n), 0, 5);
    CHECK_NEAR(t, (s - var) / sqrt((fourth - var * var) / n), 0, 5);
}

static double *read_f64(an_test *t, an_tensor *x, int n)
{
    double *v = malloc((size_t)n * sizeof *v);
    CHECK(t, v);
    CHECK_OK(t, an_tensor_read(an_cast(x, AN_F64), v, (size_t)n * sizeof *v));
    return v;
}

static void distributions_are_what_they_say(an_test *t)
{
    size_t nb = 0;
    an_graph *g = graph_on(t, an_test_backends(&nb)[0]->name);
    an_rng *rng = an_rng_from_seed(g, 7);
    static const an_dtype floats[4] = {AN_F32, AN_F64, AN_F16, AN_BF16};
    for (int d = 0; d < 4; d++) {
        double *v = read_f64(t, an_uniform(rng, floats[d], AN_DIMS(N), -1, 3), N);
        for (int i = 0; i < N; i++) CHECK(t, v[i] >= -1 && v[i] < 3);
        /* 8 bits leave out the last 1/256: half of that off the mean. */
        if (d < 2) check_moments(t, v, N, 1, 16.0 / 12, 256.0 / 80);
        free(v);
        v = read_f64(t, an_normal(rng, floats[d], AN_DIMS(N), 2, 3), N);
        int within = 0, within2 = 0;
        for (int i = 0; i < N; i++) {
            CHECK(t, isfinite(v[i]));
            within += fabs(v[i] - 2) < 3;
            within2 += fabs(v[i] - 2) < 6;
        }
        if (d < 2) check_moments(t, v, N, 2, 9, 3 * 81);
        CHECK_NEAR(t, within / (double)N, 0.6827, 0.015); /* bf16 rounds some across the bound */
        CHECK_NEAR(t, within2 / (double)N, 0.9545, 0.01);
        free(v);
    }
    double *v = read_f64(t, an_randint(rng, AN_I8, AN_DIMS(N), -100, 100), N);
    for (int i = 0; i < N; i++) CHECK(t, v[i] >= -100 && v[i] < 100 && v[i] == floor(v[i]));
    check_moments(t, v, N, -0.5, (200.0 * 200 - 1) / 12, (200.0 * 200 - 1) * (3 * 200.0 * 200 - 7) / 240);
    free(v);
    v = read_f64(t, an_randint(rng, AN_I64, AN_DIMS(N), -(INT64_C(1) << 31), INT64_C(1) << 31), N);
    const double r = 4294967296.0;
    check_moments(t, v, N, -0.5, r * r / 12, r * r * r * r / 80);
    free(v);
    v = read_f64(t, an_randint(rng, AN_U8, AN_DIMS(N), 3, 6), N);
    int counts[3] = {0};
    for (int i = 0; i < N; i++) counts[(int)v[i] - 3]++;
    for (int i = 0; i < 3; i++) CHECK_NEAR(t, (counts[i] - N / 3.0) / sqrt(N * 2 / 9.0), 0, 5);
    free(v);
    v = read_f64(t, an_bernoulli(rng, AN_DIMS(N), 0.3), N);
    check_moments(t, v, N, 0.3, 0.21, 0.3 * 0.7 * (0.7 * 0.7 * 0.7 + 0.3 * 0.3 * 0.3));
    free(v);
    v = read_f64(t, an_bernoulli(rng, AN_DIMS(100), 1), 100);
    for (int i = 0; i < 100; i++) CHECK_NEAR(t, v[i], 1, 0);
    free(v);
    v = read_f64(t, an_bernoulli(rng, AN_DIMS(100), 0), 100);
    for (int i = 0; i < 100; i++) CHECK_NEAR(t, v[i], 0, 0);
    free(v);
    v = read_f64(t, an_dropout(rng, an_full(g, AN_F32, AN_DIMS(N), 3), 0.25), N);
    int zeros = 0;
    for (int i = 0; i < N; i++) {
        zeros += v[i] == 0;
        CHECK(t, v[i] == 0 || v[i] == 4);
    }
    CHECK_NEAR(t, (zeros - N * 0.25) / sqrt(N * 0.25 * 0.75), 0, 5);
    free(v);
    an_graph_destroy(g);
}

static void a_permutation_has_every_number_once_and_any_order(an_test *t)
{
    an_graph *g = graph_on(t, "interp");
    an_rng *rng = an_rng_from_seed(g, 11);
    int32_t p[257];
    bool seen[257] = {false};
    CHECK_OK(t, an_tensor_read(an_permutation(rng, 257), p, sizeof p));
    int moved = 0;
    for (int i = 0; i < 257; i++) {
        CHECK(t, p[i] >= 0 && p[i] < 257 && !seen[p[i]]);
        seen[p[i]] = true;
        moved += p[i] != i;
    }
    CHECK(t, moved > 240);
    CHECK_OK(t, an_tensor_read(an_permutation(rng, 0), p, 0));
    CHECK_OK(t, an_tensor_read(an_permutation(rng, 1), p, 4));
    CHECK_EQ(t, p[0], 0);
    /* The six orders of three come equally often. */
    int orders[9] = {0};
    for (int i = 0; i < 300; i++) {
        CHECK_OK(t, an_tensor_read(an_permutation(rng, 3), p, 12));
        orders[3 * p[0] + p[1]]++;
    }
    for (int i = 0; i < 9; i++)
        if (i % 4 != 0) CHECK_NEAR(t, (orders[i] - 50.0) / sqrt(300 * 5 / 36.0), 0, 5);
    an_graph_destroy(g);
}

/* The graph of a draw, evaluated node by node, gives what the device gives. */
static void the_graph_of_a_draw_is_what_runs(an_test *t)
{
    an_graph *g = graph_on(t, "interp");
    an_rng *rng = an_rng_from_seed(g, 5);
    an_tensor *x = an_normal(rng, AN_F32, AN_DIMS(33), 0, 1);
    float want[33], got[33];
    CHECK_OK(t, an_test_eval(g, an_tensor_uop(x), want, sizeof want));
    CHECK_OK(t, an_tensor_read(x, got, sizeof got));
    for (int i = 0; i < 33; i++) CHECK_NEAR(t, got[i], want[i], 1e-6);
    an_graph_destroy(g);
}

AN_TEST_MAIN(AN_CASE(threefry_gives_the_published_vectors), AN_CASE(a_block_keeps_its_sums), AN_CASE(a_draw_is_what_the_header_says),
             AN_CASE(every_device_draws_the_same_numbers), AN_CASE(seeds_and_draws_differ), AN_CASE(a_stream_goes_on_from_its_states),
             AN_CASE(a_plan_draws_fresh_numbers_and_a_draw_is_drawn_once), AN_CASE(distributions_are_what_they_say),
             AN_CASE(a_permutation_has_every_number_once_and_any_order), AN_CASE(the_graph_of_a_draw_is_what_runs))
