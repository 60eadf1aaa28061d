/* Lists for GPUs give what plain ones give; shaders are as they were when last looked at; what a device cannot do is said. */
#include "backend/webgpu/wgsl/wgsl.h"
#include "codegen/opt.h"
#include "codegen_run.h"

#include <stdio.h>
#include <string.h>

static an_codegen_opts gpu_opts(bool small_code)
{
    return (an_codegen_opts){.vector_nbytes = 16, .gpu = {256, 32768, 1, small_code, false}};
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

static void check_same_with(an_test *t, an_graph *g, const char *name, kernel k, an_codegen_opts opts)
{
    size_t n = 0, m = 0;
    double *want = run(t, g, &k, plain, &n), *got = run(t, g, &k, opts, &m);
    CHECK_EQ(t, m, n);
    for (size_t i = 0; i < n; i++) {
        const double d = fabs(got[i] - want[i]), most = tolerance_of(&k) * fmax(1, fabs(want[i]));
        if (!(d <= most) && !(isnan(got[i]) && isnan(want[i])))
            an_test_fail(__FILE__, __LINE__, "%s: element %zu is %.9g, plain %.9g", name, i, got[i], want[i]);
    }
    free(got);
    free(want);
}

static void check_same(an_test *t, an_graph *g, const char *name, kernel k)
{
    for (int small = 0; small < 2; small++) check_same_with(t, g, name, k, gpu_opts(small == 1));
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

/* Threads of a workgroup of a product on a large GPU. */
static int64_t threads_of(an_test *t, an_graph *g, const kernel *k)
{
    const an_codegen_opts opts = {.vector_nbytes = 16, .gpu = {1024, 49152, 128, false, false}};
    an_uop_vec list = {0};
    int64_t n = 1, bound = 0;
    CHECK_OK(t, an_codegen(g, k->sink, &opts, NULL, &list));
    for (size_t i = 0; i < list.len; i++)
        if (an_uop_op(g, list.data[i]) == AN_OP_RANGE && an_range_kind_of(an_uop_arg(g, list.data[i])) == AN_RANGE_LOCAL &&
            an_uop_int(g, an_uop_src(g, list.data[i], 0), &bound))
            n *= bound;
    an_vec_fini(t->ctx, &list);
    return n;
}

/* Where units hold all tiles at once they are as large as can be; else those of half the size end more evenly, if they are filled as fast. */
static void tiles_are_halved_where_they_come_in_waves(an_test *t)
{
    an_graph *g = an_test_graph(t);
    const kernel few = kernel_matmul(g, AN_F32, 2048, 2048, 64, false, false, false), many = kernel_matmul(g, AN_F32, 4096, 4096, 64, false, false, false);
    const kernel across = kernel_matmul(g, AN_F32, 4096, 4096, 64, false, true, false), filled = kernel_matmul(g, AN_F32, 4096, 4096, 63, true, false, false);
    CHECK_EQ(t, threads_of(t, g, &few), 256);
    CHECK_EQ(t, threads_of(t, g, &many), 128);
    CHECK_EQ(t, threads_of(t, g, &across), 256);
    CHECK_EQ(t, threads_of(t, g, &filled), 256);
}

/* A workgroup or thread reads nothing that another one overwrites: rows are apart, elements of a row are not. */
static void kernels_in_place_stay_apart(an_test *t)
{
    an_graph *g = an_test_graph(t);
    const kernel short_rows = kernel_normalize_in_place(g, 5, 17), long_rows = kernel_normalize_in_place(g, 5, 400), own = kernel_update(g, 60);
    const an_codegen_opts no_opt = {.no_opt = true, .gpu = {256, 32768, 16, true, false}};
    CHECK_EQ(t, count_kind(t, g, &short_rows, gpu_opts(true), AN_RANGE_GLOBAL), 1);
    CHECK_EQ(t, count_kind(t, g, &short_rows, no_opt, AN_RANGE_GLOBAL), 1);
    CHECK_EQ(t, count_kind(t, g, &long_rows, gpu_opts(true), AN_RANGE_GLOBAL), 1);
    CHECK_EQ(t, count_kind(t, g, &long_rows, gpu_opts(true), AN_RANGE_GROUP), 2); /* the sum and what is stored */
    CHECK_EQ(t, count_kind(t, g, &own, gpu_opts(true), AN_RANGE_GLOBAL), 1);
    check_same(t, g, "short rows in place", short_rows);
    check_same(t, g, "long rows in place", long_rows);
}

/* Every other list that a search would try keeps the meaning, and some are other kernels. */
static void other_ways_agree_with_their_plain_form(an_test *t)
{
    an_graph *g = an_test_graph(t);
    const kernel ks[] = {kernel_matmul(g, AN_F32, 128, 96, 64, false, true, true), kernel_matmul(g, AN_F32, 70, 64, 50, false, false, false),
                         kernel_softmax(g, 6, 512)};
    for (size_t k = 0; k < sizeof ks / sizeof *ks; k++) {
        an_codegen_opts opts = gpu_opts(true);
        size_t n = 0, m = 0, with_tiles = 0, lists = 0;
        double *want = run(t, g, &ks[k], plain, &n);
        an_uop sink = ks[k].sink;
        CHECK_OK(t, an_codegen_shape(g, &sink, &opts, NULL));
        bool more = true;
        for (uint32_t i = 0; more; i++) {
            an_opt_vec list = {0};
            CHECK_OK(t, an_opt_choose_other(g, sink, &opts, i, &list, &more));
            for (size_t o = 0; o < list.len; o++) with_tiles += list.data[o].kind == AN_OPT_TILE;
            an_codegen_opts by_hand = opts;
            by_hand.by_hand = true;
            by_hand.list = list.data;
            by_hand.nlist = list.len;
            lists += list.len > 0;
            double *got = run(t, g, &ks[k], by_hand, &m);
            CHECK_EQ(t, m, n);
            for (size_t e = 0; e < n; e++)
                if (!(fabs(got[e] - want[e]) <= tolerance_of(&ks[k]) * fmax(1, fabs(want[e]))))
                    an_test_fail(__FILE__, __LINE__, "kernel %zu, way %u: element %zu is %.9g, plain %.9g", k, i, e, got[e], want[e]);
            free(got);
            an_vec_fini(t->ctx, &list);
        }
        CHECK(t, k == 2 ? with_tiles == 0 && lists >= 1 : with_tiles >= 3);
        free(want);
    }
}

static size_t count_op(an_test *t, an_graph *g, const kernel *k, an_codegen_opts opts, an_op op)
{
    an_uop_vec list = {0};
    size_t n = 0;
    CHECK_OK(t, an_codegen(g, k->sink, &opts, NULL, &list));
    for (size_t i = 0; i < list.len; i++) n += an_uop_op(g, list.data[i]) == op;
    an_vec_fini(t->ctx, &list);
    return n;
}

/* Products of f16 are for matrix units where there are some, and give what plain ones give; sizes that do not divide as well. */
static void products_of_halves_are_for_matrix_units(an_test *t)
{
    static const int64_t sizes[][3] = {{64, 64, 64}, {32, 48, 32}, {67, 101, 77}, {128, 128, 64}, {130, 64, 48}};
    an_codegen_opts opts = {.vector_nbytes = 16, .gpu = {256, 49152, 1, false, true}};
    an_graph *g = an_test_graph(t);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int layout = 0; layout < 4; layout++) {
            const kernel k = kernel_matmul(g, AN_F16, sizes[i][0], sizes[i][1], sizes[i][2], layout & 1, layout & 2, layout == 3);
            char name[64];
            (void)snprintf(name, sizeof name, "size %zu, layout %d", i, layout);
            CHECK(t, count_op(t, g, &k, opts, AN_OP_MATRIX) > 0);
            check_same_with(t, g, name, k, opts);
        }
    const kernel wide = kernel_matmul(g, AN_F32, 64, 64, 128, false, false, false);
    CHECK_EQ(t, count_op(t, g, &wide, opts, AN_OP_MATRIX), 0);
}

/* So are convolutions, whose columns are pixels: of a row, of several rows, of several pictures; but for rows of four pixels out of wider ones, which do not
 * lie side by side, and of two, which are no vectors. */
static void convolutions_of_halves_are_for_matrix_units(an_test *t)
{
    static const struct {
        int64_t batch, h, w;
        bool matrix;
    } cases[] = {{1, 2, 32, true}, {1, 4, 16, true}, {2, 8, 8, true}, {4, 4, 4, false}, {8, 4, 2, false}, {2, 3, 16, true}};
    an_codegen_opts opts = {.vector_nbytes = 16, .gpu = {256, 49152, 1, false, true}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        an_graph *g = NULL;
        CHECK_OK(t, an_graph_create(t->ctx, &g));
        const kernel k = kernel_pictures(g, cases[i].batch, 32, 32, cases[i].h, cases[i].w);
        char name[64];
        (void)snprintf(name, sizeof name, "pictures, case %zu", i);
        CHECK_EQ(t, count_op(t, g, &k, opts, AN_OP_MATRIX) > 0, cases[i].matrix);
        check_same_with(t, g, name, k, opts);
        an_graph_destroy(g);
    }
}

static an_uop sum_over(an_graph *g, an_uop value, const an_uop *ranges, uint32_t n)
{
    an_uop src[5] = {value};
    for (uint32_t i = 0; i < n; i++) src[i + 1] = ranges[i];
    return an_uop_new(g, AN_OP_REDUCE, an_uop_dtype(g, value), src, n + 1, (uint64_t)AN_OP_ADD);
}

/* ((a * na + b) * nb + c) * nc + d */
static an_uop at4(an_graph *g, an_uop a, int64_t na, an_uop b, int64_t nb, an_uop c, int64_t nc, an_uop d)
{
    return at2(g, at2(g, at2(g, a, na, b), nb, c), nc, d);
}

/* 3 x 3, c channels in and out, n pictures of side x side, zeros around; or what the weights' gradient is. */
static kernel conv(an_graph *g, int64_t n, int64_t c, int64_t side, bool gradient)
{
    kernel k = {0};
    const an_range_kind outer = gradient ? AN_RANGE_REDUCE : AN_RANGE_LOOP, inner = gradient ? AN_RANGE_LOOP : AN_RANGE_REDUCE;
    const uint32_t first = gradient ? 4 : 0, last = gradient ? 0 : 4;
    const an_uop out = kernel_param(g, &k, AN_F32, gradient ? c * c * 9 : n * c * side * side, true), x = kernel_param(g, &k, AN_F32, n * c * side * side, false);
    const an_uop other = kernel_param(g, &k, AN_F32, gradient ? n * c * side * side : c * c * 9, false);
    const an_uop image = an_range(g, an_index(g, n), first, outer), h = an_range(g, an_index(g, side), first + 2, outer);
    const an_uop w = an_range(g, an_index(g, side), first + 3, outer), co = loop(g, c, gradient ? 0 : 1), ci = an_range(g, an_index(g, c), last + 1, inner);
    const an_uop dh = an_range(g, an_index(g, 3), last + 2, inner), dw = an_range(g, an_index(g, 3), last + 3, inner);
    const an_uop y = an_idx_add(g, an_idx_add(g, h, dh), an_index(g, -1)), z = an_idx_add(g, an_idx_add(g, w, dw), an_index(g, -1));
    const an_uop in_h = an_binary(g, AN_OP_AND, an_binary(g, AN_OP_CMPLT, y, an_index(g, side)), an_binary(g, AN_OP_CMPLT, an_index(g, -1), y));
    const an_uop in_w = an_binary(g, AN_OP_AND, an_binary(g, AN_OP_CMPLT, z, an_index(g, side)), an_binary(g, AN_OP_CMPLT, an_index(g, -1), z));
    const an_uop seen = an_load(g, x, at4(g, image, c, ci, side, y, side, z), an_binary(g, AN_OP_AND, in_h, in_w));
    const an_uop pixel = at4(g, image, c, co, side, h, side, w), weight = at4(g, co, c, ci, 3, dh, 3, dw);
    const an_uop forward[3] = {ci, dh, dw}, backward[3] = {image, h, w};
    const an_uop value = sum_over(g, mul(g, seen, load(g, other, gradient ? pixel : weight)), gradient ? backward : forward, 3);
    const an_uop st = an_store(g, out, gradient ? weight : pixel, value, AN_UOP_NONE);
    k.sink = an_sink(g, &st, 1);
    return k;
}

static void convolutions_are_products_in_tiles(an_test *t)
{
    static const int64_t sizes[][3] = {{1, 32, 8}, {2, 32, 4}}; /* pictures, channels, side: rows of 4 are summed over two dimensions as one */
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int gradient = 0; gradient < 2; gradient++) {
            an_graph *g = an_test_graph(t);
            const kernel k = conv(g, sizes[i][0], sizes[i][1], sizes[i][2], gradient == 1);
            CHECK(t, count_kind(t, g, &k, gpu_opts(true), AN_RANGE_STAGE) > 0);
            CHECK_EQ(t, count_kind(t, g, &k, gpu_opts(false), AN_RANGE_REDUCE), 1); /* one loop around the tiles */
            check_same(t, g, gradient ? "gradient of conv" : "conv", k);
        }
}

/* Elements that a store of the kernel writes at once. */
static uint32_t lanes_of(an_test *t, an_graph *g, const kernel *k)
{
    an_uop_vec list = {0};
    uint32_t most = 0;
    const an_codegen_opts opts = gpu_opts(false);
    CHECK_OK(t, an_codegen(g, k->sink, &opts, NULL, &list));
    for (size_t i = 0; i < list.len; i++)
        if (an_uop_op(g, list.data[i]) == AN_OP_STORE && an_uop_lanes(g, an_uop_src(g, list.data[i], 2)) > most) most = an_uop_lanes(g, an_uop_src(g, list.data[i], 2));
    an_vec_fini(t->ctx, &list);
    return most;
}

/* Sums down short columns: lanes only where all threads still have some, and no rest that one thread would be left with. */
static void lanes_leave_threads_their_work(an_test *t)
{
    an_graph *g = an_test_graph(t);
    const kernel few = kernel_reduce(g, AN_OP_ADD, AN_F32, 64, 7, true), many = kernel_reduce(g, AN_OP_ADD, AN_F32, 4096, 7, true),
                 odd = kernel_reduce(g, AN_OP_ADD, AN_F32, 4097, 7, true);
    CHECK_EQ(t, lanes_of(t, g, &few), 1);
    CHECK_EQ(t, lanes_of(t, g, &many), 4);
    CHECK_EQ(t, lanes_of(t, g, &odd), 1);
    CHECK_EQ(t, count_kind(t, g, &odd, gpu_opts(false), AN_RANGE_GLOBAL), 1);
    check_same(t, g, "columns of 7", odd);
}

/* exp2(a) is computed once for each element of a tile, not by every thread that reads it. */
static void tiles_hold_what_is_computed(an_test *t)
{
    an_graph *g = an_test_graph(t);
    kernel k = {0};
    const an_uop out = kernel_param(g, &k, AN_F32, 64 * 64, true), a = kernel_param(g, &k, AN_F32, 64 * 32, false), b = kernel_param(g, &k, AN_F32, 32 * 64, false);
    const an_uop i = loop(g, 64, 0), j = loop(g, 64, 1), r = reduce_range(g, 32, 2);
    const an_uop x = an_unary(g, AN_OP_EXP2, load(g, a, at2(g, i, 32, r)));
    const an_uop st = an_store(g, out, at2(g, i, 64, j), reduce(g, AN_OP_ADD, mul(g, x, load(g, b, at2(g, r, 64, j))), r), AN_UOP_NONE);
    k.sink = an_sink(g, &st, 1);
    CHECK_EQ(t, count_op(t, g, &k, gpu_opts(false), AN_OP_EXP2), 1);
    check_same(t, g, "exp2 of an operand", k);
}

/* A product that is taken from what is in the place of its result, which another store writes too. */
static kernel in_place(an_graph *g, int64_t n)
{
    kernel k = {0};
    const an_uop p = kernel_param(g, &k, AN_F32, n * n, true), m = kernel_param(g, &k, AN_F32, n * n, true);
    const an_uop a = kernel_param(g, &k, AN_F32, n * 32, false), b = kernel_param(g, &k, AN_F32, 32 * n, false);
    const an_uop i = loop(g, n, 0), j = loop(g, n, 1), r = reduce_range(g, 32, 2), at = at2(g, i, n, j);
    const an_uop sum = reduce(g, AN_OP_ADD, mul(g, load(g, a, at2(g, i, 32, r)), load(g, b, at2(g, r, n, j))), r);
    const an_uop st[2] = {an_store(g, m, at, sum, AN_UOP_NONE), an_store(g, p, at, add(g, load(g, p, at), sum), AN_UOP_NONE)};
    k.sink = an_sink(g, st, 2);
    return k;
}

static void products_in_place_have_tiles_that_do_not_overlap(an_test *t)
{
    an_graph *g = an_test_graph(t);
    const kernel even = in_place(g, 64), odd = in_place(g, 50);
    CHECK(t, count_kind(t, g, &even, gpu_opts(false), AN_RANGE_STAGE) > 0);
    CHECK_EQ(t, count_kind(t, g, &odd, gpu_opts(false), AN_RANGE_STAGE), 0);
    check_same(t, g, "in place", even);
    check_same(t, g, "in place, odd", odd);
}

/* Sums of channels: pictures and pixels are one range, whose iterations are dealt. */
static void short_ranges_are_joined(an_test *t)
{
    an_graph *g = an_test_graph(t);
    kernel k = {0};
    const an_uop out = kernel_param(g, &k, AN_F32, 3, true), x = kernel_param(g, &k, AN_F32, 12 * 3 * 40, false);
    const an_uop c = loop(g, 3, 0), r[2] = {reduce_range(g, 12, 1), reduce_range(g, 40, 2)};
    const an_uop st = an_store(g, out, c, sum_over(g, load(g, x, at2(g, at2(g, r[0], 3, c), 40, r[1])), r, 2), AN_UOP_NONE);
    k.sink = an_sink(g, &st, 1);
    CHECK_EQ(t, count_kind(t, g, &k, gpu_opts(false), AN_RANGE_GROUP), 1);
    CHECK_EQ(t, count_kind(t, g, &k, gpu_opts(false), AN_RANGE_REDUCE), 0);
    check_same(t, g, "channels", k);
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
static void check_golden_with(an_test *t, an_graph *g, const char *name, kernel k, an_codegen_opts opts, an_wgsl_caps caps)
{
    an_uop_vec list = {0};
    an_wgsl w = {0};
    char path[128];
    const an_kernel d = kernel_of(t, g, &k, opts, &list);
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

static void check_golden(an_test *t, an_graph *g, const char *name, kernel k)
{
    check_golden_with(t, g, name, k, gpu_opts(true), an_wgsl_caps_default());
}

/* A half that is compared is held as f32, and so is what a choice makes of it; one that is only chosen stays an f16. */
static void a_chosen_half_is_held_as_what_it_chooses_is(an_test *t)
{
    an_wgsl_caps caps = an_wgsl_caps_default();
    caps.has_f16 = caps.exact_f16 = true;
    for (int compared = 0; compared < 2; compared++) {
        an_graph *g = NULL;
        CHECK_OK(t, an_graph_create(t->ctx, &g));
        const an_uop i = loop(g, 64, 1), x = load(g, an_param(g, AN_F16, 1), i), mask = load(g, an_param(g, AN_F16, 2), i);
        const an_uop c = an_binary(g, AN_OP_CMPLT, an_const(g, AN_F16, (an_scalar){.f = 0}), compared ? x : mask);
        const an_uop store = an_store(g, an_param(g, AN_F16, 0), i, an_select(g, c, x, an_const(g, AN_F16, (an_scalar){.f = 0})), AN_UOP_NONE);
        kernel k = {.sink = an_sink(g, &store, 1), .nparams = 3, .is_out = {true}, .var = AN_UOP_NONE};
        for (int p = 0; p < 3; p++) k.dtype[p] = AN_F16;
        an_uop_vec list = {0};
        an_wgsl w = {0};
        const an_kernel d = kernel_of(t, g, &k, gpu_opts(true), &list);
        CHECK_OK(t, an_wgsl_render(t->ctx, &d, &caps, &w));
        CHECK_EQ(t, strstr(w.text, "select(f16()") == NULL, compared);
        an_wgsl_fini(&w);
        an_vec_fini(t->ctx, &list);
        an_graph_destroy(g);
    }
}

static void shaders_are_as_they_were(an_test *t)
{
    an_graph *g = an_test_graph(t);
    check_golden(t, g, "elementwise", kernel_elementwise(g, AN_F32, 1003));
    check_golden(t, g, "packed", kernel_elementwise(g, AN_F16, 1003));
    check_golden(t, g, "rows", kernel_reduce(g, AN_OP_ADD, AN_F32, 7, 1000, false));
    check_golden(t, g, "matmul", kernel_matmul(g, AN_F32, 32, 32, 32, false, false, false));
    check_golden(t, g, "symbolic", kernel_symbolic(g, 7, 100));
    an_wgsl_caps caps = an_wgsl_caps_default();
    caps.max_local_nbytes = 49152;
    caps.subgroup_nlanes = 32;
    caps.names_subgroups = caps.has_f16 = caps.has_matrix = true;
    check_golden_with(t, g, "matrix", kernel_matmul(g, AN_F16, 32, 32, 64, false, true, false), (an_codegen_opts){.vector_nbytes = 16, .gpu = {256, 49152, 1, false, true}}, caps);
}

/* Where fma is made by hand it is a page of code, which compilers for processors put in place of each call: lanes go through a loop. */
static void lanes_of_fma_by_hand_are_a_loop(an_test *t)
{
    an_graph *g = an_test_graph(t);
    an_wgsl_caps caps = an_wgsl_caps_default();
    const kernel k = kernel_matmul(g, AN_F32, 64, 64, 64, false, false, false);
    an_uop_vec list = {0};
    const an_kernel d = kernel_of(t, g, &k, gpu_opts(true), &list);
    for (int by_hand = 0; by_hand < 2; by_hand++) {
        an_wgsl w = {0};
        caps.inexact_fma = by_hand == 1;
        CHECK_OK(t, an_wgsl_render(t->ctx, &d, &caps, &w));
        CHECK_EQ(t, strstr(w.text, " = an_fma(v") != NULL, by_hand == 0);
        CHECK_EQ(t, strstr(w.text, " = an_fma4(4, vec4<f32>(v") != NULL, by_hand == 1);
        an_wgsl_fini(&w);
    }
    an_vec_fini(t->ctx, &list);
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

AN_TEST_MAIN(AN_CASE(products_in_tiles_agree_with_their_plain_form), AN_CASE(tiles_are_halved_where_they_come_in_waves), AN_CASE(kernels_in_place_stay_apart), AN_CASE(other_ways_agree_with_their_plain_form), AN_CASE(products_of_halves_are_for_matrix_units), AN_CASE(convolutions_of_halves_are_for_matrix_units),
             AN_CASE(rows_and_elements_agree_with_their_plain_form), AN_CASE(convolutions_are_products_in_tiles), AN_CASE(tiles_hold_what_is_computed),
             AN_CASE(lanes_leave_threads_their_work),
             AN_CASE(products_in_place_have_tiles_that_do_not_overlap), AN_CASE(short_ranges_are_joined),
             AN_CASE(random_kernels_agree_with_their_plain_form), AN_CASE(a_chosen_half_is_held_as_what_it_chooses_is), AN_CASE(shaders_are_as_they_were), AN_CASE(lanes_of_fma_by_hand_are_a_loop), AN_CASE(what_a_device_cannot_do_is_said),
             AN_CASE(a_loop_around_workgroups_leaves_them_theirs), AN_CASE(dispatches_stay_within_each_dimension))
