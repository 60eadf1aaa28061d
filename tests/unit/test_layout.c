/* test_layout.c - what windows slide along lies outside in temporaries of a GPU: which do, and that values stay, by tiles for matrix units
 * too. Values are small whole numbers, so that sums are the same in any order. */
#include "an_test.h"
#include "run_schedule.h"

#include <anneal/grad.h>
#include <anneal/tensor.h>

#include <stdio.h>
#include <string.h>

enum { NUMEL_MAX = 1 << 17 };

static const an_conv_desc same = {.pad_before = {1, 1}, .pad_after = {1, 1}};

static float data[4][NUMEL_MAX];

/* -1, 0 and 1. */
static void fill(void)
{
    for (int p = 0; p < 4; p++)
        for (int i = 0; i < NUMEL_MAX; i++) data[p][i] = (float)((i * 37 + i / 13 + p * 11) % 3 - 1);
}

static an_tensor *input_of(an_graph *g, const int64_t *dims, uint32_t rank)
{
    return an_tensor_from_host(g, AN_F32, dims, rank, NULL);
}

static an_tensor *halves(an_tensor *x)
{
    return an_contiguous(an_cast(x, AN_F16));
}

static bool has_kernel(const an_schedule *s, const char *name)
{
    for (size_t i = 0; i < s->calls.len; i++)
        if (strcmp(s->calls.data[i].name, name) == 0) return true;
    return false;
}

/* What out is for the device's cost model, by tiles, is what it is by plain loops; is there a kernel of that name? */
static void check_same(an_test *t, an_graph *g, const an_test_input *in, uint32_t nin, an_tensor *out, const char *kernel)
{
    static float want[NUMEL_MAX], got[NUMEL_MAX];
    const an_cost plain = an_cost_for(NULL), gpu = an_cost_for(&(an_backend){.name = "webgpu"});
    const an_codegen_opts opts[] = {{.no_opt = true}, {.vector_nbytes = 16, .gpu = {256, 32768, 16, true, false}}, {.vector_nbytes = 16, .gpu = {1024, 49152, 128, false, true}}};
    const size_t n = an_tensor_nbytes(out) / sizeof *got;
    CHECK(t, n <= NUMEL_MAX);
    an_schedule s = {0};
    an_test_run_schedule(t, g, &plain, opts[0], in, nin, out, want, &s);
    CHECK(t, !has_kernel(&s, kernel));
    an_schedule_fini(g, &s);
    for (size_t w = 0; w < sizeof opts / sizeof opts[0]; w++) {
        memset(got, 0xff, sizeof got);
        s = (an_schedule){0};
        an_test_run_schedule(t, g, &gpu, opts[w], in, nin, out, got, &s);
        if (!has_kernel(&s, kernel)) {
            for (size_t i = 0; i < s.calls.len; i++) fprintf(stderr, "%s\n", s.calls.data[i].name);
            an_test_fail(__FILE__, __LINE__, "no kernel %s", kernel);
        }
        an_schedule_fini(g, &s);
        for (size_t i = 0; i < n; i++)
            if (got[i] != want[i]) an_test_fail(__FILE__, __LINE__, "%s, way %zu: element %zu is %g, not %g", kernel, w, i, (double)got[i], (double)want[i]);
    }
}

/* Two convolutions: between them pictures lie as (y, x, picture, channel). */
static void convolutions_read_rows_of_channels(an_test *t)
{
    an_graph *g = an_test_graph(t);
    fill();
    an_tensor *x = input_of(g, AN_DIMS(32, 16, 4, 4)), *v = input_of(g, AN_DIMS(32, 16, 3, 3)), *w = input_of(g, AN_DIMS(16, 32, 3, 3));
    const an_test_input in[3] = {{x, data[0]}, {v, data[1]}, {w, data[2]}};
    an_tensor *y = an_contiguous(an_conv2d(halves(x), halves(v), NULL, &same));
    an_tensor *z = an_conv2d(an_contiguous(an_clamp(y, -2, 2)), halves(w), NULL, &same);
    check_same(t, g, in, 3, an_cast(z, AN_F32), "reduce_4x4x32x32_r16x3x3");
}

/* Gradients by the weights are sums over pictures too. */
static void gradients_do_too(an_test *t)
{
    an_graph *g = an_test_graph(t);
    fill();
    an_tensor *x = input_of(g, AN_DIMS(32, 16, 4, 4)), *w = input_of(g, AN_DIMS(32, 16, 3, 3)), *c = input_of(g, AN_DIMS(32, 32, 4, 4));
    const an_test_input in[3] = {{x, data[0]}, {w, data[1]}, {c, data[2]}};
    an_tensor *u = an_contiguous(an_clamp(halves(x), -1, 1)), *y = an_conv2d(u, halves(w), NULL, &same);
    an_tensor *loss = an_sum(an_mul(an_cast(y, AN_F32), c), AN_ALL, false), *wrt[2] = {w, x}, *grads[2] = {NULL, NULL};
    CHECK_OK(t, an_backward(loss, wrt, 2, grads));
    check_same(t, g, in, 3, grads[0], "reduce_4x32x16x3x3_r32x4");
    check_same(t, g, in, 3, grads[1], "reduce_2x32x16x4x4_r3x3x16");
}

/* Of three channels and nine taps none is long enough for a fragment; together they are, as what is summed over and as rows of a tile. */
static void a_few_channels_are_summed_over_together(an_test *t)
{
    an_graph *g = an_test_graph(t);
    fill();
    an_tensor *x = input_of(g, AN_DIMS(64, 3, 4, 4)), *w = input_of(g, AN_DIMS(64, 3, 3, 3)), *c = input_of(g, AN_DIMS(64, 64, 4, 4));
    const an_test_input in[3] = {{x, data[0]}, {w, data[1]}, {c, data[2]}};
    an_tensor *y = an_contiguous(an_conv2d(halves(x), halves(w), NULL, &same));
    check_same(t, g, in, 2, an_cast(an_sum(an_cast(an_clamp(y, -3, 3), AN_F32), AN_DIMS(1), false), AN_F32), "reduce_4x4x64x64_r3x3x3");
    an_tensor *loss = an_sum(an_mul(an_cast(y, AN_F32), c), AN_ALL, false), *wrt[1] = {w}, *grads[1] = {NULL};
    CHECK_OK(t, an_backward(loss, wrt, 1, grads));
    check_same(t, g, in, 3, grads[0], "reduce_4x2x64x3x3x3_r64x2");
}

AN_TEST_MAIN(AN_CASE(convolutions_read_rows_of_channels), AN_CASE(gradients_do_too), AN_CASE(a_few_channels_are_summed_over_together))
