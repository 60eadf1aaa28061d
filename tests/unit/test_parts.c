/* test_parts.c - reductions that get kernels of their own: few results in parts, products apart from what slows them, and the part of a
 * value that is asked for. Schedules for the devices' cost models, without a device; values where they are small. */
#include "an_test.h"

#include <anneal/device.h>
#include <anneal/plan.h>
#include <anneal/settings.h>

#include "schedule/schedule.h"

#include <stdio.h>
#include <string.h>

static an_tensor *some(an_graph *g, const int64_t *dims, uint32_t rank)
{
    return an_tensor_from_host(g, AN_F32, dims, rank, NULL);
}

/* What is made of outs for a device: kernels, how many reasons have the word, and the elements of the largest buffer written. */
typedef struct made {
    size_t nkernels, nreasons;
    int64_t largest;
} made;

static made make(an_test *t, an_graph *g, const char *device, an_tensor *const *outs, uint32_t n, const char *word)
{
    const an_cost cost = an_cost_for(&(an_backend){.name = device});
    an_schedule s = {0};
    an_uop roots[4];
    made m = {0};
    for (uint32_t i = 0; i < n; i++) roots[i] = an_tensor_uop(outs[i]);
    CHECK_OK(t, an_schedule_make(g, roots, n, &cost, NULL, &s));
    m.nkernels = s.calls.len;
    for (size_t c = 0; c < s.calls.len; c++) {
        const an_call *call = &s.calls.data[c];
        m.nreasons += strstr(call->reason, word) != NULL;
        for (uint32_t b = 0; b < call->nbuffers; b++) {
            int64_t numel = 0;
            if (call->is_written[b] && an_uop_int(g, an_shape_numel(g, an_uop_shape(g, call->buffers[b])), &numel) && numel > m.largest) m.largest = numel;
        }
    }
    an_schedule_fini(g, &s);
    return m;
}

/* A product over a sum of others: one kernel of two reductions would have no tiles. */
static void a_product_beside_another_reduction_is_apart(an_test *t)
{
    an_graph *g = an_test_graph(t);
    an_tensor *a = some(g, AN_DIMS(256, 256)), *b = some(g, AN_DIMS(256, 256)), *w = some(g, AN_DIMS(256, 256, 4));
    an_tensor *both = an_div(an_matmul(a, b), an_sum(w, AN_DIMS(-1), false)), *alone = an_relu(an_matmul(a, b));
    CHECK_EQ(t, make(t, g, "cpu", &both, 1, "apart").nreasons, 1);
    CHECK_EQ(t, make(t, g, "cpu", &alone, 1, "apart").nreasons, 0);
    an_tensor *small = an_div(an_matmul(some(g, AN_DIMS(256, 8)), some(g, AN_DIMS(8, 256))), an_sum(w, AN_DIMS(-1), false));
    CHECK_EQ(t, make(t, g, "cpu", &small, 1, "apart").nreasons, 0);
}

static void its_values_are_those_of_one_kernel(an_test *t)
{
    float got[2][48 * 48];
    for (int plain = 0; plain < 2; plain++) {
        an_graph *g = an_test_graph(t);
        CHECK_OK(t, an_graph_set_device(g, "interp"));
        CHECK_OK(t, an_ctx_set_settings(t->ctx, (an_settings){.no_fuse = plain == 1, .no_cache = true}));
        an_tensor *i = an_mul_scalar(an_arange(g, AN_F32, 0, 48 * 48, 1), 1e-3), *a = an_reshape(an_sin(i), AN_DIMS(48, 48)), *b = an_reshape(an_cos(i), AN_DIMS(48, 48));
        an_tensor *w = an_reshape(an_exp(an_sin(an_arange(g, AN_F32, 0, 48 * 48 * 4, 1))), AN_DIMS(48, 48, 4));
        an_tensor *out = an_div(an_matmul(an_contiguous(a), an_contiguous(b)), an_sum(an_contiguous(w), AN_DIMS(-1), false));
        CHECK_OK(t, an_tensor_read(out, got[plain], sizeof got[plain]));
    }
    for (int i = 0; i < 48 * 48; i++) CHECK_NEAR(t, got[0][i], got[1][i], 1e-5);
}

/* Much computed of each result: threads that sum would keep registers for it. Where products are small a launch costs more. */
static void what_crowds_a_product_on_a_gpu_follows_it(an_test *t)
{
    an_graph *g = an_test_graph(t);
    for (int64_t n = 64; n <= 4096; n *= 64) {
        an_tensor *y = an_matmul(some(g, AN_DIMS(n, n)), some(g, AN_DIMS(n, n)));
        an_tensor *light = an_relu(y), *heavy = y;
        for (int i = 0; i < 6; i++) heavy = an_add(an_erf(heavy), y);
        CHECK_EQ(t, make(t, g, "webgpu", &heavy, 1, "apart").nreasons, n == 4096);
        CHECK_EQ(t, make(t, g, "webgpu", &light, 1, "apart").nreasons, 0);
        CHECK_EQ(t, make(t, g, "cpu", &heavy, 1, "apart").nreasons, 0);
    }
}

/* The activation of a product that is kept too: with erf apart, what is light in its kernel. */
static void an_activation_rides_with_a_product_if_it_is_light(an_test *t)
{
    an_graph *g = an_test_graph(t);
    an_tensor *y = an_matmul(some(g, AN_DIMS(16384, 384)), some(g, AN_DIMS(384, 1536)));
    an_tensor *light[2] = {y, an_relu(y)}, *heavy[2] = {y, an_gelu(y)};
    CHECK_EQ(t, make(t, g, "webgpu", light, 2, "").nkernels, 1);
    CHECK_EQ(t, make(t, g, "webgpu", heavy, 2, "").nkernels, 2);
}

/* Extremes and sums of rows that are kept, and what is computed of them: rows are read once. */
static void a_softmax_whose_parts_are_kept_is_one_kernel(an_test *t)
{
    an_graph *g = an_test_graph(t);
    an_tensor *x = some(g, AN_DIMS(98304, 256)), *most = an_max(x, AN_DIMS(-1), true), *e = an_exp(an_sub(x, most)), *sum = an_sum(e, AN_DIMS(-1), true);
    an_tensor *outs[3] = {most, sum, an_div(e, sum)};
    CHECK_EQ(t, make(t, g, "webgpu", outs, 3, "").nkernels, 1);
}

/* Few results of much are taken in parts on a GPU, also where something else is run a band of rows at a time. */
static void bands_leave_other_reductions_their_parts(an_test *t)
{
    an_graph *g = an_test_graph(t);
    an_tensor *q = some(g, AN_DIMS(8, 4096, 32)), *k = some(g, AN_DIMS(8, 4096, 32)), *v = some(g, AN_DIMS(8, 4096, 32));
    an_tensor *outs[2] = {an_matmul(an_softmax(an_matmul(q, an_transpose(k, -2, -1)), -1), v), an_sum(some(g, AN_DIMS(1 << 22)), AN_ALL, false)};
    CHECK(t, make(t, g, "webgpu", outs, 2, "in bands of").nreasons + make(t, g, "webgpu", outs, 2, " bands of ").nreasons > 0);
    CHECK_EQ(t, make(t, g, "webgpu", outs, 2, "parts that run side by side").nreasons, 1);
    CHECK_EQ(t, make(t, g, "cpu", outs, 2, "parts that run side by side").nreasons, 0);
}

/* Products are cut so that units end together: 36 tiles in 16 parts, 1024 tiles in none. */
static void products_are_cut_for_the_units_to_end_together(an_test *t)
{
    an_graph *g = an_test_graph(t);
    an_tensor *few = an_matmul(some(g, AN_DIMS(384, 16384)), some(g, AN_DIMS(16384, 1536))), *many = an_matmul(some(g, AN_DIMS(4096, 4096)), some(g, AN_DIMS(4096, 4096)));
    CHECK_EQ(t, make(t, g, "webgpu", &few, 1, "in 16 parts").nreasons, 1);
    CHECK_EQ(t, make(t, g, "webgpu", &many, 1, "parts").nreasons, 0);
}

/* Of a sum that is read without its margin, again and again, what is read is stored. */
static void the_part_of_a_value_is_stored_not_all_of_it(an_test *t)
{
    an_graph *g = an_test_graph(t);
    an_tensor *all = an_sum(some(g, AN_DIMS(66, 66, 32)), AN_DIMS(-1), false), *part = an_slice(an_slice(all, 0, 1, 65, 1), 1, 1, 65, 1);
    an_tensor *out = an_matmul(part, some(g, AN_DIMS(64, 32)));
    const made m = make(t, g, "cpu", &out, 1, "");
    CHECK_EQ(t, m.nkernels, 2);
    CHECK_EQ(t, m.largest, 64 * 64);
}

AN_TEST_MAIN(AN_CASE(a_product_beside_another_reduction_is_apart), AN_CASE(its_values_are_those_of_one_kernel), AN_CASE(what_crowds_a_product_on_a_gpu_follows_it),
             AN_CASE(an_activation_rides_with_a_product_if_it_is_light), AN_CASE(a_softmax_whose_parts_are_kept_is_one_kernel),
             AN_CASE(bands_leave_other_reductions_their_parts), AN_CASE(products_are_cut_for_the_units_to_end_together),
             AN_CASE(the_part_of_a_value_is_stored_not_all_of_it))
