/* Threads of the cpu: every part of a kernel runs once, and no result depends on how many threads there are. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L /* setenv */
#endif
#include "an_test.h"
#include <anneal/device.h>
#include <anneal/tensor.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef AN_HAVE_CPU
#include "backend/cpu/pool.h"

#include <stdatomic.h>
#include <time.h>

enum { PARTS = 37 };
typedef struct counts {
    atomic_int ran[PARTS];
    atomic_int wrong;
} counts;

static void count(void *const *params, const int64_t *vars, int64_t part, int64_t nparts, void *scratch)
{
    counts *c = params[0];
    memset(scratch, (int)part, CPU_SCRATCH_NBYTES); /* a thread's own: no other writes there */
    if (nparts != vars[0]) atomic_fetch_add(&c->wrong, 1);
    for (size_t i = 0; i < CPU_SCRATCH_NBYTES; i += 4096)
        if (((const unsigned char *)scratch)[i] != (unsigned char)part) atomic_fetch_add(&c->wrong, 1);
    atomic_fetch_add(&c->ran[part], 1);
}

static void every_part_runs_once(an_test *t)
{
    for (int threads = 2; threads <= 5; threads += 3) {
        cpu_pool *pool = NULL;
        CHECK_OK(t, cpu_pool_create(t->ctx, threads, &pool));
        for (int run = 0; run < 3000; run++) {
            counts c = {0};
            void *params[1] = {&c};
            const int64_t nparts = 2 + run % (PARTS - 1);
            cpu_pool_run(pool, count, params, &nparts, (uint32_t)nparts, run % 3 != 1);
            CHECK_EQ(t, atomic_load(&c.wrong), 0);
            for (int64_t i = 0; i < PARTS; i++) CHECK_EQ(t, atomic_load(&c.ran[i]), i < nparts);
        }
        cpu_pool_destroy(pool);
    }
}

/* Longer than threads watch: every run finds them asleep, or falling asleep. */
static void sleeping_threads_wake(an_test *t)
{
    cpu_pool *pool = NULL;
    CHECK_OK(t, cpu_pool_create(t->ctx, 4, &pool));
    for (int run = 0; run < 300; run++) {
        counts c = {0};
        void *params[1] = {&c};
        const int64_t nparts = PARTS;
        const struct timespec pause = {.tv_nsec = 30000 + 1000 * (run % 60)};
        (void)nanosleep(&pause, NULL);
        cpu_pool_run(pool, count, params, &nparts, PARTS, run % 2 == 0);
        for (int64_t i = 0; i < PARTS; i++) CHECK_EQ(t, atomic_load(&c.ran[i]), 1);
    }
    cpu_pool_destroy(pool);
}

static void take_a_millisecond(void *const *params, const int64_t *vars, int64_t part, int64_t nparts, void *scratch)
{
    const struct timespec pause = {.tv_nsec = part ? 1000000 : 1000};
    (void)nanosleep(&pause, NULL);
    count(params, vars, part, nparts, scratch);
}

/* The caller's own parts are short: it sleeps until the others' are done. */
static void the_caller_waits_for_long_parts(an_test *t)
{
    cpu_pool *pool = NULL;
    CHECK_OK(t, cpu_pool_create(t->ctx, 3, &pool));
    for (int run = 0; run < 50; run++) {
        counts c = {0};
        void *params[1] = {&c};
        const int64_t nparts = 3;
        cpu_pool_run(pool, take_a_millisecond, params, &nparts, 3, true);
        for (int64_t i = 0; i < 3; i++) CHECK_EQ(t, atomic_load(&c.ran[i]), 1);
    }
    cpu_pool_destroy(pool);
}

static void a_pool_of_one_thread_runs_all_at_once(an_test *t)
{
    cpu_pool *pool = NULL;
    counts c = {0};
    void *params[1] = {&c};
    const int64_t one = 1;
    CHECK_OK(t, cpu_pool_create(t->ctx, 1, &pool));
    cpu_pool_run(pool, count, params, &one, 8, true);
    CHECK_EQ(t, atomic_load(&c.wrong), 0);
    CHECK_EQ(t, atomic_load(&c.ran[0]), 1);
    cpu_pool_destroy(pool);
}

static an_tensor *some(an_graph *g, const int64_t *dims, uint32_t rank)
{
    size_t n = 1;
    for (uint32_t i = 0; i < rank; i++) n *= (size_t)dims[i];
    float *data = malloc(n * sizeof *data);
    if (!data) return NULL;
    for (size_t i = 0; i < n; i++) data[i] = (float)((i * 7919 + n) % 1013) / 506.5f - 1.0f;
    an_tensor *t = an_tensor_from_host(g, AN_F32, dims, rank, data);
    free(data);
    return t;
}

/* Kernels of several kinds, large enough to be split: products, with and without tails, as their operands may lie, some with
 * scratch that is filled before all loops, some in batches; reductions either way, elementwise. */
static const int64_t shapes[][3] = {{384, 48, 96}, {768, 32, 40}, {250, 24, 100}, {96, 200, 64}, {512, 64, 16}, {33, 129, 300},
                                   {192, 1024, 72}, {200, 1024, 67}}; /* the last two: sums in passes, where they lie in long steps */
enum { SHAPES = sizeof shapes / sizeof *shapes, OUTS = 8 + 3 * SHAPES };
static void build(an_graph *g, an_tensor **out)
{
    an_tensor *x = some(g, AN_DIMS(131, 643)), *w = some(g, AN_DIMS(643, 521)), *v = some(g, AN_DIMS(129, 131));
    *out++ = an_relu(an_matmul(x, w));
    *out++ = an_matmul(v, x);
    *out++ = an_softmax(x, -1);
    *out++ = an_sum(x, AN_DIMS(0), false);
    *out++ = an_sum(x, AN_DIMS(0, 1), false);
    *out++ = an_sum(some(g, AN_DIMS(136, 2064)), AN_DIMS(0), false);
    *out++ = an_exp(an_mul(w, an_add_scalar(w, 0.5)));
    *out++ = an_matmul(an_softmax(an_matmul(some(g, AN_DIMS(6, 64, 32)), some(g, AN_DIMS(6, 32, 64))), -1), some(g, AN_DIMS(6, 64, 32)));
    for (int i = 0; i < SHAPES; i++) {
        const int64_t m = shapes[i][0], k = shapes[i][1], n = shapes[i][2];
        *out++ = an_matmul(some(g, AN_DIMS(m, k)), some(g, AN_DIMS(k, n)));
        *out++ = an_add_scalar(an_linear(some(g, AN_DIMS(m, k)), some(g, AN_DIMS(n, k)), some(g, AN_DIMS(n))), 1.0);
        *out++ = an_matmul(an_transpose(some(g, AN_DIMS(k, m)), 0, 1), some(g, AN_DIMS(k, n)));
    }
}

static void results_do_not_depend_on_threads(an_test *t)
{
    static const char *const threads[] = {"1", "2", "7"};
    float *first[OUTS] = {NULL};
    const char *before = getenv("ANNEAL_THREADS");
    char *saved = before ? strdup(before) : NULL;
    for (size_t n = 0; n < sizeof threads / sizeof threads[0]; n++) {
        an_ctx *ctx = NULL;
        an_graph *g = NULL;
        an_tensor *out[OUTS];
        CHECK(t, setenv("ANNEAL_THREADS", threads[n], 1) == 0);
        CHECK_OK(t, an_ctx_create(NULL, &ctx));
        CHECK_OK(t, an_graph_create(ctx, &g));
        CHECK_OK(t, an_graph_set_device(g, "cpu"));
        CHECK_EQ(t, ((const an_device_base *)an_graph_device(g))->threads, atoi(threads[n]));
        build(g, out);
        CHECK_OK(t, an_realize(out, OUTS));
        for (size_t i = 0; i < OUTS; i++) {
            const size_t nbytes = an_tensor_nbytes(out[i]);
            float *data = malloc(nbytes);
            CHECK(t, data != NULL);
            CHECK_OK(t, an_tensor_read(out[i], data, nbytes));
            if (n == 0) {
                first[i] = data;
                continue;
            }
            CHECK(t, memcmp(first[i], data, nbytes) == 0);
            free(data);
        }
        an_graph_destroy(g);
        an_ctx_destroy(ctx);
    }
    for (size_t i = 0; i < OUTS; i++) free(first[i]);
    if (saved)
        (void)setenv("ANNEAL_THREADS", saved, 1);
    else
        (void)unsetenv("ANNEAL_THREADS");
    free(saved);
}

AN_TEST_MAIN(AN_CASE(every_part_runs_once), AN_CASE(sleeping_threads_wake), AN_CASE(the_caller_waits_for_long_parts),
             AN_CASE(a_pool_of_one_thread_runs_all_at_once), AN_CASE(results_do_not_depend_on_threads))
#else
static void there_are_none_without_the_cpu_backend(an_test *t)
{
    size_t n = 0;
    CHECK(t, an_test_backends(&n) != NULL && n > 0);
}

AN_TEST_MAIN(AN_CASE(there_are_none_without_the_cpu_backend))
#endif
