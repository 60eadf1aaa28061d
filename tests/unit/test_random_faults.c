/* test_random_faults.c - faults that random programs found (test_random_graphs.c), each as a program of its own. On every
 * device. */
#include "an_test.h"

#include <anneal/device.h>
#include <anneal/grad.h>
#include <anneal/plan.h>

/* Runs body on a fresh graph of each device. */
static void on_every_device(an_test *t, void (*body)(an_test *t, an_graph *g))
{
    size_t n = 0;
    const an_backend *const *backends = an_test_backends(&n);
    CHECK(t, n > 0);
    for (size_t i = 0; i < n; i++) {
        an_graph *g = NULL;
        CHECK_OK(t, an_graph_create(t->ctx, &g));
        CHECK_OK(t, an_graph_set_device(g, backends[i]->name));
        body(t, g);
        an_graph_destroy(g);
    }
}

/* The values of x, at most 8, as doubles. */
static void check_values(an_test *t, an_tensor *x, const double *want, size_t n)
{
    double got[8] = {0};
    CHECK_EQ(t, an_tensor_numel(x), n);
    CHECK_OK(t, an_tensor_read(an_cast(x, AN_F64), got, n * sizeof *got));
    for (size_t i = 0; i < n; i++) CHECK_NEAR(t, got[i], want[i], 0);
}
#define CHECK_VALUES(t, x, ...)                                                                                        \
    check_values(t, x, (const double[]){__VA_ARGS__}, sizeof((const double[]){__VA_ARGS__}) / sizeof(double))

static an_tensor *floats(an_graph *g, float a, float b)
{
    return an_tensor_from_host(g, AN_F32, AN_DIMS(2), (const float[]){a, b});
}

/* A call that has nothing to do gave a second handle to the buffer, which saw later writes. */
static void same_values(an_test *t, an_graph *g)
{
    an_tensor *x = floats(g, 1, 2);
    an_tensor *all[] = {an_squeeze_all(x), an_permute(x, AN_DIMS(0)), an_sum(an_unsqueeze(x, 0), AN_DIMS(0), false), an_cast(x, AN_F32), x};
    CHECK_OK(t, an_assign(x, floats(g, 7, 8)));
    CHECK_OK(t, an_realize(all, 5));
    for (int i = 0; i < 4; i++) CHECK_VALUES(t, all[i], 1, 2);
    CHECK_VALUES(t, x, 7, 8);
}

static void a_write_shows_in_no_other_handle(an_test *t)
{
    on_every_device(t, same_values);
}

/* Equal expressions are one node; two parameters that start as the same one shared a buffer. */
static void equal_starts(an_test *t, an_graph *g)
{
    an_tensor *p[4];
    for (int i = 0; i < 4; i++) p[i] = an_contiguous(an_zeros(g, AN_F32, AN_DIMS(2)));
    CHECK_OK(t, an_realize(p, 3));
    CHECK_OK(t, an_realize(p + 3, 1)); /* computed already, for the others */
    CHECK_OK(t, an_assign(p[0], floats(g, 1, 2)));
    CHECK_OK(t, an_assign(p[1], an_add_scalar(p[0], 1)));
    CHECK_OK(t, an_realize(p, 2));
    CHECK_VALUES(t, p[0], 1, 2);
    CHECK_VALUES(t, p[1], 2, 3);
    CHECK_VALUES(t, p[2], 0, 0);
    CHECK_VALUES(t, p[3], 0, 0);
}

static void parameters_that_start_equal_are_apart(an_test *t)
{
    on_every_device(t, equal_starts);
}

/* A kernel that reads a buffer as it was and as it is after a write gets a copy of the old contents; it was copied for ever. */
static void old_and_new(an_test *t, an_graph *g)
{
    an_tensor *x = an_tensor_from_host(g, AN_F32, AN_DIMS(1, 1), (const float[]){3});
    an_tensor *sum = an_sum(x, AN_DIMS(0), false);
    CHECK_OK(t, an_assign(x, sum));
    an_tensor *now = an_permute(x, AN_DIMS(0, 1));
    CHECK_OK(t, an_assign(x, x));
    an_tensor *all[] = {x, an_sub(now, sum)};
    CHECK_OK(t, an_realize(all, 2));
    CHECK_VALUES(t, all[0], 3);
    CHECK_VALUES(t, all[1], 0);
}

static void old_and_new_contents_in_one_kernel(an_test *t)
{
    on_every_device(t, old_and_new);
}

/* A plan whose temporaries have no elements had no memory for their slots. */
static void empty_temporary(an_test *t, an_graph *g)
{
    an_tensor *x = an_contiguous(an_tensor_from_host(g, AN_F32, AN_DIMS(0, 1), NULL));
    CHECK_VALUES(t, an_pad(x, (const int64_t[]){1, 0}, (const int64_t[]){0, 1}, 2, 0), 0, 0);
}

static void temporaries_may_be_empty(an_test *t)
{
    on_every_device(t, empty_temporary);
}

/* A tensor built before another was realized could not be combined with it: the first run of a plan counted as a write over
 * what had been there. */
static void early_and_late(an_test *t, an_graph *g)
{
    an_tensor *x = floats(g, 1, 2), *early = an_add_scalar(x, 1), *sum = an_sum(x, AN_DIMS(0), true);
    CHECK_OK(t, an_realize(&sum, 1));
    CHECK_VALUES(t, an_mul(early, sum), 6, 9);
    an_tensor *late = an_mul(early, sum);
    CHECK_OK(t, an_assign(sum, an_scalar_f64(g, AN_F32, 4)));
    CHECK_OK(t, an_realize(&sum, 1));
    CHECK_FAILS(t, an_realize(&late, 1), AN_ERR_STALE, "overwritten");
}

static void what_is_realized_goes_with_what_was_built_before(an_test *t)
{
    on_every_device(t, early_and_late);
}

/* A chain of values that many places use: one kernel read a buffer for each, more than a kernel can have. */
static void many_buffers(an_test *t, an_graph *g)
{
    an_tensor *x = an_tensor_from_host(g, AN_I64, AN_DIMS(2), (const int64_t[]){3, -1});
    CHECK_VALUES(t, an_argmax(an_pow(x, x), 0, false), 0);
    an_tensor *parts[70];
    for (int i = 0; i < 70; i++) {
        const int64_t value = i;
        parts[i] = an_tensor_from_host(g, AN_I64, AN_DIMS(1), &value);
    }
    CHECK_VALUES(t, an_sum(an_cat(parts, 70, 0), AN_ALL, false), 69 * 70 / 2);
}

static void kernels_stay_within_the_limit_of_buffers(an_test *t)
{
    on_every_device(t, many_buffers);
}

AN_TEST_MAIN(AN_CASE(kernels_stay_within_the_limit_of_buffers),
             AN_CASE(what_is_realized_goes_with_what_was_built_before),
             AN_CASE(temporaries_may_be_empty),
             AN_CASE(old_and_new_contents_in_one_kernel), AN_CASE(a_write_shows_in_no_other_handle), AN_CASE(parameters_that_start_equal_are_apart))
