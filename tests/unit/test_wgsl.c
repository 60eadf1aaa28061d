/* Lists for GPUs give what plain ones give; shaders are as they were when last looked at; what a device cannot do is said. */
#include "backend/webgpu/wgsl/wgsl.h"
#include "codegen_run.h"

#include <stdio.h>
#include <string.h>

static an_codegen_opts gpu_opts(bool small_code)
{
    return (an_codegen_opts){.vector_nbytes = 16, .gpu = {256, 32768, 16, small_code}};
}

/* How many ranges of a kind the kernel's list has. */
static size_t count_kind(an_test *t, an_graph *g, const kernel *k, an_codegen_opts opts, an_range_kind kind)
{
    an_uop_vec list = {0};
    size_t n = 0;
    CHECK_OK(t, an_codegen(g, k->sink, &opts, NULL, &list));
    for (size_t i = 0; i < list.len; i++)
        n += an_uop_op(g, list.data[i]) == AN_OP_RANGE && an_range_kind_of(an_uop_arg(g, list.data[i])) == kind;
    an_vec_fini(t->ctx, &list);
    return n;
}

static void check_same(an_test *t, an_graph *g, const char *name, kernel k)
{
    size_t n = 0, m = 0;
    double *want = run(t, g, &k, plain, &n);
    for (int small = 0; small < 2; small++) {
        double *got = run(t, g, &k, gpu_opts(small == 1), &m);
        CHECK_EQ(t, m, n);
        for (size_t i = 0; i < n; i++) {
            const double d = fabs(got[i] - want[i]), most = tolerance_of(&k) * fmax(1, fabs(want[i]));
            if (!(d <= most) && !(isnan(got[i]) && isnan(want[i])))
                an_test_fail(__FILE__, __LINE__, "%s: element %zu is %.9g, plain %.9g", name, i, got[i], want[i]);
        }
        free(got);
    }
    free(want);
}

static void products_in_tiles_agree_with_their_plain_form(an_test *t)
{
    static const int64_t sizes[][3] = {{64, 64, 64}, {32, 96, 40}, {67, 101, 77}, {128, 64, 48}};
    an_graph *g = an_test_graph(t);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int layout = 0; layout < 4; layout++) {
            const kernel k = kernel_matmul(g, AN_F32, sizes[i][0], sizes[i][1], sizes[i][2], layout & 1, layout & 2, true);
            CHECK(t, count_kind(t, g, &k, gpu_opts(false), AN_RANGE_STAGE) > 0); /* it has tiles */
            CHECK(t, count_kind(t, g, &k, gpu_opts(false), AN_RANGE_LOCAL) > 0);
            CHECK_EQ(t, count_kind(t, g, &k, plain, AN_RANGE_STAGE), 0);
            check_same(t, g, "matmul", k);
        }
    check_same(t, g, "matmul f16", kernel_matmul(g, AN_F16, 64, 64, 64, false, true, false));
    check_same(t, g, "small matmul", kernel_matmul(g, AN_F32, 5, 6, 7, false, false, true));
}

static void rows_and_elements_agree_with_their_plain_form(an_test *t)
{
    an_graph *g = an_test_graph(t);
    const kernel softmax = kernel_softmax(g, 5, 1000);
    CHECK(t, count_kind(t, g, &softmax, gpu_opts(false), AN_RANGE_GROUP) >= 3);
    check_same(t, g, "softmax", softmax);
    check_same(t, g, "layernorm", kernel_layernorm(g, 5, 512));
    check_same(t, g, "rows", kernel_reduce(g, AN_OP_MAX, AN_F32, 7, 777, false));
    check_same(t, g, "columns", kernel_reduce(g, AN_OP_ADD, AN_F32, 100, 300, true));
    check_same(t, g, "argmax", kernel_argmax(g, 6, 200));
    check_same(t, g, "nested", kernel_nested(g, 6, 80));
    check_same(t, g, "prefix", kernel_prefix(g, 6, 200));
    check_same(t, g, "symbolic", kernel_symbolic(g, 7, 100));
    check_same(t, g, "elements", kernel_elementwise(g, AN_U8, 1003));
    check_same(t, g, "conv", kernel_conv(g, 100));
}

static void random_kernels_agree_with_their_plain_form(an_test *t)
{
    uint64_t state = 7;
    for (int i = 0; i < 60; i++) {
        an_graph *g = an_test_graph(t);
        check_same(t, g, "random", random_kernel(g, &state));
    }
}

static an_kernel kernel_of(an_test *t, an_graph *g, const kernel *k, an_codegen_opts opts, an_uop_vec *list)
{
    CHECK_OK(t, an_codegen(g, k->sink, &opts, NULL, list));
    an_kernel d = {.name = "test", .graph = g, .sink = k->sink, .linear = list->data, .nlinear = list->len, .nparams = k->nparams};
    for (uint32_t s = 0; s < k->nparams; s++) d.params[s] = (an_kernel_param){k->dtype[s], true, k->is_out[s]};
    if (!an_uop_is_none(k->var)) d.vars[d.nvars++] = k->var;
    return d;
}

/* GOLDEN_UPDATE=1 in the environment writes the files anew. */
static void check_golden(an_test *t, an_graph *g, const char *name, kernel k)
{
    const an_wgsl_caps caps = an_wgsl_caps_default();
    an_uop_vec list = {0};
    an_wgsl w = {0};
    char path[128];
    const an_kernel d = kernel_of(t, g, &k, gpu_opts(true), &list);
    CHECK_OK(t, an_wgsl_render(t->ctx, &d, &caps, &w));
    (void)snprintf(path, sizeof path, "tests/golden/wgsl_%s.txt", name);
    if (getenv("GOLDEN_UPDATE")) {
        FILE *f = fopen(path, "w");
        CHECK(t, f);
        fputs(w.text, f);
        fclose(f);
    }
    FILE *f = fopen(path, "r");
    CHECK(t, f);
    char *text = calloc(1, 65536);
    CHECK(t, text);
    CHECK(t, fread(text, 1, 65535, f) > 0);
    fclose(f);
    CHECK_STR(t, w.text, text);
    free(text);
    an_wgsl_fini(&w);
    an_vec_fini(t->ctx, &list);
}

static void shaders_are_as_they_were(an_test *t)
{
    an_graph *g = an_test_graph(t);
    check_golden(t, g, "elementwise", kernel_elementwise(g, AN_F32, 1003));
    check_golden(t, g, "packed", kernel_elementwise(g, AN_F16, 1003));
    check_golden(t, g, "rows", kernel_reduce(g, AN_OP_ADD, AN_F32, 7, 1000, false));
    check_golden(t, g, "matmul", kernel_matmul(g, AN_F32, 32, 32, 32, false, false, false));
    check_golden(t, g, "symbolic", kernel_symbolic(g, 7, 100));
}

static void what_a_device_cannot_do_is_said(an_test *t)
{
    an_graph *g = an_test_graph(t);
    an_wgsl_caps caps = an_wgsl_caps_default();
    an_uop_vec list = {0}, two = {0};
    an_wgsl w = {0};
    const kernel wide = kernel_elementwise(g, AN_F64, 10), many = kernel_elementwise(g, AN_F32, 10);
    const an_kernel a = kernel_of(t, g, &wide, gpu_opts(false), &list), b = kernel_of(t, g, &many, gpu_opts(false), &two);
    CHECK_FAILS(t, an_wgsl_render(t->ctx, &a, &caps, &w), AN_ERR_UNSUPPORTED, "WGSL has no f64");
    an_wgsl_fini(&w);
    caps.max_buffers = 2;
    CHECK_FAILS(t, an_wgsl_render(t->ctx, &b, &caps, &w), AN_ERR_LIMIT, "the device binds 2 at most");
    an_wgsl_fini(&w);
    an_vec_fini(t->ctx, &list);
    an_vec_fini(t->ctx, &two);
}

/* A loop that stays a loop around those that are workgroups: they are counted all the same. */
static void a_loop_around_workgroups_leaves_them_theirs(an_test *t)
{
    an_graph *g = an_test_graph(t);
    const an_wgsl_caps caps = an_wgsl_caps_default();
    kernel k = {0};
    const an_uop out = kernel_param(g, &k, AN_F32, 6 * 1000, true), x = kernel_param(g, &k, AN_F32, 6 * 1000, false), i = loop(g, 6, 0),
                 j = an_range(g, an_index(g, 1000), 1, AN_RANGE_GLOBAL);
    k = one_store(g, k, out, at2(g, i, 1000, j), load(g, x, at2(g, i, 1000, j)));
    an_uop_vec list = {0};
    an_wgsl w = {0};
    uint32_t groups[3];
    const an_kernel d = kernel_of(t, g, &k, plain, &list);
    CHECK_OK(t, an_wgsl_render(t->ctx, &d, &caps, &w));
    CHECK(t, strstr(w.text, "for (") && strstr(w.text, "if (tid < 1000u)"));
    CHECK(t, an_wgsl_dispatch(&w, &caps, NULL, groups));
    CHECK_EQ(t, (groups[0] * groups[1] * groups[2]), (1000 + w.size[0] - 1) / w.size[0]);
    an_wgsl_fini(&w);
    an_vec_fini(t->ctx, &list);
}

static void dispatches_stay_within_each_dimension(an_test *t)
{
    const an_wgsl_caps caps = an_wgsl_caps_default();
    static const int64_t totals[] = {0, 1, 65535, 65536, 70000, 5000000000};
    for (size_t i = 0; i < sizeof totals / sizeof totals[0]; i++) {
        const an_wgsl w = {.groups = {{AN_OP_VAR, 0}, {AN_OP_CONST, 1}, {AN_OP_MUL, 0}}, .ngroups_code = 3};
        uint32_t out[3];
        CHECK(t, an_wgsl_dispatch(&w, &caps, &totals[i], out));
        CHECK(t, (int64_t)out[0] * out[1] * out[2] >= totals[i]);
        CHECK(t, out[0] <= caps.max_groups && out[1] <= caps.max_groups && out[2] <= caps.max_groups);
        if (totals[i] <= 65535) CHECK_EQ(t, out[0], totals[i]);
    }
}

AN_TEST_MAIN(AN_CASE(products_in_tiles_agree_with_their_plain_form), AN_CASE(rows_and_elements_agree_with_their_plain_form),
             AN_CASE(random_kernels_agree_with_their_plain_form), AN_CASE(shaders_are_as_they_were), AN_CASE(what_a_device_cannot_do_is_said),
             AN_CASE(a_loop_around_workgroups_leaves_them_theirs), AN_CASE(dispatches_stay_within_each_dimension))
