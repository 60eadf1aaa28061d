/* Kernels run as they come and with opts give the same numbers; lists are legal, and as they were when last looked at. */
#include "codegen_run.h"

#include "codegen/opt.h"
#include "codegen/pass.h"

#include <stdio.h>

static void check_same(an_test *t, an_graph *g, const char *name, kernel k)
{
    static const uint32_t widths[] = {64, 32, 16};
    size_t n = 0, m = 0;
    double *want = run(t, g, &k, plain, &n);
    for (size_t w = 0; w < 2 * sizeof widths / sizeof *widths; w++) {
        const uint32_t scratch = w % 2 ? 1 << 16 : 0;
        double *got = run(t, g, &k, (an_codegen_opts){.vector_nbytes = widths[w / 2], .scratch_nbytes = scratch}, &m);
        CHECK_EQ(t, m, n);
        for (size_t i = 0; i < n; i++) {
            const double d = fabs(got[i] - want[i]), most = tolerance_of(&k) * fmax(1, fabs(want[i]));
            if (!(d <= most) && !(isnan(got[i]) && isnan(want[i])))
                an_test_fail(__FILE__, __LINE__, "%s at %u bytes, scratch %u: element %zu is %.9g, plain %.9g", name, widths[w / 2], scratch, i,
                             got[i], want[i]);
        }
        free(got);
    }
    free(want);
}

/* --- kernels by hand ----------------------------------------------------------------------------- */

static const int64_t sizes[] = {0, 1, 3, 10, 16, 17, 64, 100, 1001};
enum { NSIZES = sizeof sizes / sizeof *sizes };

static void elementwise_kernels_agree_with_their_plain_form(an_test *t)
{
    an_graph *g = an_test_graph(t);
    static const an_dtype dtypes[] = {AN_F32, AN_F64, AN_F16, AN_BF16, AN_I32, AN_U8, AN_I64};
    for (size_t i = 0; i < NSIZES; i++) {
        for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
            check_same(t, g, "elementwise", kernel_elementwise(g, dtypes[d], sizes[i]));
        check_same(t, g, "transpose", kernel_transpose(g, sizes[i] % 90, 5));
        check_same(t, g, "update", kernel_update(g, sizes[i]));
        check_same(t, g, "gather", kernel_gather(g, sizes[i]));
        check_same(t, g, "conv", kernel_conv(g, sizes[i]));
        check_same(t, g, "flat", kernel_flat(g, 6, sizes[i] % 90));
        check_same(t, g, "planes", kernel_planes(g, 3, sizes[i] % 90, 5));
    }
}

static void reductions_agree_with_their_plain_form(an_test *t)
{
    an_graph *g = an_test_graph(t);
    for (size_t i = 0; i < NSIZES; i++) {
        for (size_t j = 0; j < NSIZES; j++) {
            const int64_t m = sizes[i] > 100 ? 33 : sizes[i], n = sizes[j];
            check_same(t, g, "row sum", kernel_reduce(g, AN_OP_ADD, AN_F32, m, n, false));
            check_same(t, g, "column sum", kernel_reduce(g, AN_OP_ADD, AN_F32, m, n, true));
            check_same(t, g, "row max", kernel_reduce(g, AN_OP_MAX, AN_I32, m, n, false));
            check_same(t, g, "f16 sum", kernel_reduce(g, AN_OP_ADD, AN_F16, m, n > 100 ? 100 : n, false));
        }
        check_same(t, g, "i8 product", kernel_reduce(g, AN_OP_MUL, AN_I8, 5, sizes[i], false));
    }
}

static void reductions_inside_rows_agree_with_their_plain_form(an_test *t)
{
    an_graph *g = an_test_graph(t);
    for (size_t i = 0; i < NSIZES; i++) {
        const int64_t n = sizes[i];
        check_same(t, g, "softmax", kernel_softmax(g, 5, n));
        check_same(t, g, "layernorm", kernel_layernorm(g, 3, n));
        check_same(t, g, "argmax", kernel_argmax(g, 7, n));
        check_same(t, g, "prefix", kernel_prefix(g, 4, n));
        check_same(t, g, "in place", kernel_normalize_in_place(g, 4, n));
        check_same(t, g, "nested", kernel_nested(g, n > 20 ? 6 : n, 16));
        check_same(t, g, "symbolic", kernel_symbolic(g, n > 64 ? 20 : n, 40));
        check_same(t, g, "symbolic", kernel_symbolic(g, 7, n > 100 ? 33 : n));
        check_same(t, g, "nested", kernel_nested(g, 5, n > 100 ? 33 : n));
    }
}

static void matrix_products_agree_with_their_plain_form(an_test *t)
{
    an_graph *g = an_test_graph(t);
    static const int64_t dims[][3] = {{64, 128, 784}, {64, 10, 128}, {64, 128, 10}, {10, 128, 64}, {128, 784, 64}, {1, 17, 33}, {17, 1, 5},
                                      {3, 3, 3}, {13, 37, 29}, {5, 66, 16}, {4, 4, 0}, {33, 18, 1}, {7, 48, 2}};
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++)
        for (int form = 0; form < 4; form++) {
            const int64_t m = dims[i][0] > 64 ? 24 : dims[i][0], n = dims[i][1] > 200 ? 112 : dims[i][1];
            const int64_t l = dims[i][2] > 200 ? 112 : dims[i][2];
            check_same(t, g, "matmul", kernel_matmul(g, AN_F32, m, n, l, form & 1, form >> 1 & 1, form == 2));
        }
    check_same(t, g, "f16 matmul", kernel_matmul(g, AN_F16, 5, 33, 40, false, true, true));
    check_same(t, g, "f64 matmul", kernel_matmul(g, AN_F64, 9, 24, 17, true, false, false));
    check_same(t, g, "i32 matmul", kernel_matmul(g, AN_I32, 9, 24, 17, false, false, false));
}

/* The plain form itself against C. */
static void a_matrix_product_is_what_c_says(an_test *t)
{
    an_graph *g = an_test_graph(t);
    enum { M = 5, N = 7, L = 9 };
    const kernel k = kernel_matmul(g, AN_F64, M, N, L, false, true, true);
    uint64_t state = 1;
    double skip[M * N], a[M * L], b[N * L], bias[N];
    for (int i = 0; i < M * N; i++) skip[i] = input_value(AN_F64, &state).f;
    for (int i = 0; i < M * L; i++) a[i] = input_value(AN_F64, &state).f;
    for (int i = 0; i < N * L; i++) b[i] = input_value(AN_F64, &state).f;
    for (int i = 0; i < N; i++) bias[i] = input_value(AN_F64, &state).f;
    size_t n = 0;
    double *got = run(t, g, &k, plain, &n);
    CHECK_EQ(t, n, M * N);
    CHECK(t, skip[0] > 0);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            double sum = 0;
            for (int r = 0; r < L; r++) sum = fma(a[i * L + r], b[j * L + r], sum);
            CHECK(t, got[i * N + j] == fmax(sum + bias[j], 0));
        }
    free(got);
}

static void f16_products_are_summed_in_f32(an_test *t)
{
    an_graph *g = an_test_graph(t);
    kernel k = {0};
    const an_uop out = kernel_param(g, &k, AN_F16, 1, true), x = kernel_param(g, &k, AN_F16, 4000, false), r = reduce_range(g, 4000, 0);
    const an_uop one = an_binary(g, AN_OP_DIV, load(g, x, r), load(g, x, r));
    k = one_store(g, k, out, an_index(g, 0), reduce(g, AN_OP_ADD, one, r));
    size_t n = 0;
    double *got = run(t, g, &k, plain, &n);
    CHECK(t, got[0] == 4000); /* in f16, 2048 + 1 is 2048 */
    free(got);
}

/* 300 * 300 - 300 * 299, twice: 600, though f16 has no 90000. */
static void products_of_f16_in_a_sum_are_taken_before_they_are_rounded(an_test *t)
{
    an_graph *g = an_test_graph(t);
    kernel k = {0};
    const an_uop out = kernel_param(g, &k, AN_F16, 1, true), x = kernel_param(g, &k, AN_F16, 2, false), r = reduce_range(g, 2, 0);
    const an_uop one = an_binary(g, AN_OP_DIV, load(g, x, r), load(g, x, r));
    const an_uop a = add(g, one, an_const_float(g, AN_F16, 299)), b = add(g, one, an_const_float(g, AN_F16, -300));
    k = one_store(g, k, out, an_index(g, 0), reduce(g, AN_OP_ADD, add(g, mul(g, a, a), mul(g, a, b)), r));
    size_t n = 0;
    double *got = run(t, g, &k, plain, &n);
    CHECK_NEAR(t, got[0], 600, 0);
    free(got);
}

/* A list says which products are fused and in which order lanes are summed, so all backends compute the same bits. */
static void the_cpu_gives_the_bits_of_the_interpreter(an_test *t)
{
#ifdef AN_HAVE_CPU
    an_graph *g = an_test_graph(t);
    const kernel ks[] = {kernel_elementwise(g, AN_F32, 1001),
                         kernel_update(g, 77),
                         kernel_conv(g, 100),
                         kernel_flat(g, 6, 40),
                         kernel_planes(g, 3, 7, 10),
                         kernel_sum_of_products(g, 20, 33, 40),
                         kernel_sum_of_products(g, 33, 32, 64),
                         kernel_windows(g, 3, 14, 2, 2),
                         kernel_windows(g, 3, 50, 2, 3),
                         kernel_windows(g, 3, 20, 3, 2),
                         kernel_windows(g, 3, 40, 3, 3),
                         kernel_windows(g, 2, 37, 4, 2),
                         kernel_windows(g, 2, 37, 4, 1),
                         kernel_prefix(g, 4, 100),
                         kernel_layernorm(g, 5, 70),
                         kernel_argmax(g, 7, 50),
                         kernel_symbolic(g, 9, 40),
                         kernel_reduce(g, AN_OP_ADD, AN_F32, 1, 1001, false),
                         kernel_reduce(g, AN_OP_ADD, AN_F16, 5, 100, false),
                         kernel_reduce(g, AN_OP_MAX, AN_F32, 33, 17, true),
                         kernel_matmul(g, AN_F32, 16, 48, 100, false, true, true),
                         kernel_matmul(g, AN_F32, 17, 33, 29, false, false, false),
                         kernel_matmul(g, AN_F32, 24, 112, 16, true, false, false),
                         kernel_matmul(g, AN_F32, 33, 18, 40, true, true, false),
                         kernel_matmul(g, AN_F32, 50, 70, 40, false, true, true),
                         kernel_matmul(g, AN_F32, 50, 70, 41, false, true, true),
                         kernel_matmul(g, AN_F32, 50, 70, 40, true, false, true),
                         kernel_matmul(g, AN_F32, 50, 70, 41, false, false, true),
                         kernel_matmul(g, AN_F32, 300, 16, 20, false, true, false),
                         kernel_matmul(g, AN_F32, 300, 17, 19, false, true, false),
                         kernel_matmul(g, AN_BF16, 9, 20, 64, false, true, false),
                         kernel_matmul(g, AN_BF16, 40, 40, 40, false, true, false)};
    for (size_t i = 0; i < sizeof ks / sizeof *ks; i++) {
        an_uop_vec list = {0};
        size_t n = 0, m = 0;
        CHECK_OK(t, an_codegen(g, ks[i].sink, &(an_codegen_opts){.vector_nbytes = i % 2 ? 32 : 64, .scratch_nbytes = 1 << 16}, NULL, &list));
        double *want = run_list(t, &an_backend_interp, g, &ks[i], &list, &n);
        double *got = run_list(t, &an_backend_cpu, g, &ks[i], &list, &m);
        CHECK_EQ(t, m, n);
        for (size_t e = 0; e < n; e++)
            if (memcmp(&got[e], &want[e], sizeof *got) != 0)
                an_test_fail(__FILE__, __LINE__, "kernel %zu: element %zu is %.17g, on the interpreter %.17g", i, e, got[e], want[e]);
        free(got);
        free(want);
        an_vec_fini(t->ctx, &list);
    }
#else
    (void)t;
#endif
}

/* --- random kernels ------------------------------------------------------------------------------ */

static void products_of_many_sizes_agree_with_their_plain_form(an_test *t)
{
    static const int64_t sizes_mnk[][3] = {{7, 33, 150}, {64, 48, 16}, {50, 70, 41}, {13, 130, 40}, {200, 16, 12}, {97, 24, 31}, {6, 512, 20}, {130, 17, 18}};
    uint64_t state = 5;
    for (size_t i = 0; i < sizeof sizes_mnk / sizeof *sizes_mnk; i++) {
        an_graph *g = NULL;
        const int64_t *n = sizes_mnk[i];
        CHECK_OK(t, an_graph_create(t->ctx, &g));
        for (int layout = 0; layout < 4; layout++)
            check_same(t, g, "product", kernel_matmul(g, AN_F32, n[0], n[1], n[2], layout & 1, layout & 2, pick(&state, 2)));
        check_same(t, g, "product of f16", kernel_matmul(g, AN_F16, n[0], n[1], n[2], false, i & 1, true));
        an_graph_destroy(g);
    }
}

static void random_kernels_agree_with_their_plain_form(an_test *t)
{
    uint64_t state = 20240611;
    for (int i = 0; i < 300; i++) {
        an_graph *g = NULL;
        char name[32];
        snprintf(name, sizeof name, "random kernel %d", i);
        CHECK_OK(t, an_graph_create(t->ctx, &g));
        check_same(t, g, name, random_kernel(g, &state));
        an_graph_destroy(g);
    }
}

/* --- the lists themselves ------------------------------------------------------------------------ */

static void opts_use_lanes_and_tiles(an_test *t)
{
    an_graph *g = an_test_graph(t);
    const kernel ks[] = {kernel_elementwise(g, AN_F32, 1001), kernel_matmul(g, AN_F32, 64, 128, 784, false, true, true),
                         kernel_matmul(g, AN_F32, 64, 128, 10, false, false, false), kernel_softmax(g, 64, 100),
                         kernel_reduce(g, AN_OP_ADD, AN_F32, 1, 1000, false)};
    for (size_t i = 0; i < sizeof ks / sizeof *ks; i++) {
        an_uop_vec list = {0};
        uint32_t widest = 1, accs = 0;
        CHECK_OK(t, an_codegen(g, ks[i].sink, &(an_codegen_opts){.vector_nbytes = 64}, NULL, &list));
        for (size_t n = 0; n < list.len; n++) {
            const uint32_t lanes = an_uop_lanes(g, list.data[n]);
            if (lanes > widest) widest = lanes;
            if (an_uop_op(g, list.data[n]) == AN_OP_ACC) accs++;
        }
        if (widest < 16) an_test_fail(__FILE__, __LINE__, "kernel %zu: %u lanes", i, widest);
        if (i == 1 || i == 2) CHECK(t, accs >= 12);
        an_vec_fini(t->ctx, &list);
    }
}

/* A flat range used in parts is cut, so that no division is left, and lanes are possible. */
static void opts_leave_no_division_that_a_cut_removes(an_test *t)
{
    an_graph *g = an_test_graph(t);
    const kernel k = kernel_flat(g, 6, 48);
    an_uop_vec list = {0};
    CHECK_OK(t, an_codegen(g, k.sink, &(an_codegen_opts){.vector_nbytes = 64}, NULL, &list));
    for (size_t n = 0; n < list.len; n++) {
        const an_op op = an_uop_op(g, list.data[n]);
        CHECK(t, op != AN_OP_IDIV && op != AN_OP_IMOD && op != AN_OP_AND && op != AN_OP_SHR);
    }
    an_vec_fini(t->ctx, &list);
}

static void lists_do_not_depend_on_what_else_the_graph_holds(an_test *t)
{
    an_graph *g = an_test_graph(t), *h = NULL;
    CHECK_OK(t, an_graph_create(t->ctx, &h));
    (void)kernel_argmax(h, 4, 9);
    (void)kernel_conv(h, 40);
    const an_codegen_opts opts = {.vector_nbytes = 64};
    for (int i = 0; i < 2; i++) {
        const kernel a = i ? kernel_layernorm(g, 5, 40) : kernel_matmul(g, AN_F32, 13, 37, 29, true, false, true);
        const kernel b = i ? kernel_layernorm(h, 5, 40) : kernel_matmul(h, AN_F32, 13, 37, 29, true, false, true);
        an_uop_vec la = {0}, lb = {0};
        an_str sa, sb;
        an_str_init(&sa, t->ctx);
        an_str_init(&sb, t->ctx);
        CHECK_OK(t, an_codegen(g, a.sink, &opts, NULL, &la));
        CHECK_OK(t, an_codegen(h, b.sink, &opts, NULL, &lb));
        CHECK_OK(t, an_linear_print(&sa, g, la.data, la.len));
        CHECK_OK(t, an_linear_print(&sb, h, lb.data, lb.len));
        CHECK_STR(t, an_str_cstr(&sa), an_str_cstr(&sb));
        an_str_fini(&sa);
        an_str_fini(&sb);
        an_vec_fini(t->ctx, &la);
        an_vec_fini(t->ctx, &lb);
    }
    an_graph_destroy(h);
}

/* GOLDEN_UPDATE=1 in the environment writes the files anew. */
static void check_golden(an_test *t, an_graph *g, const char *name, kernel k)
{
    an_str s;
    an_str_init(&s, t->ctx);
    for (int opt = 0; opt < 2; opt++) {
        an_uop_vec list = {0};
        const an_codegen_opts opts = {.vector_nbytes = 64, .no_opt = opt == 0};
        CHECK_OK(t, an_codegen(g, k.sink, &opts, NULL, &list));
        an_str_put(&s, opt ? "\nopts:\n" : "plain:\n");
        CHECK_OK(t, an_linear_print(&s, g, list.data, list.len));
        an_vec_fini(t->ctx, &list);
    }
    char path[128];
    snprintf(path, sizeof path, "tests/golden/codegen_%s.txt", name);
    if (getenv("GOLDEN_UPDATE")) {
        FILE *f = fopen(path, "w");
        CHECK(t, f);
        fputs(an_str_cstr(&s), f);
        fclose(f);
    }
    FILE *f = fopen(path, "r");
    CHECK(t, f);
    char *text = calloc(1, 65536);
    CHECK(t, text);
    const size_t n = fread(text, 1, 65535, f);
    CHECK(t, n > 0);
    fclose(f);
    CHECK_STR(t, an_str_cstr(&s), text);
    free(text);
    an_str_fini(&s);
}

static void lists_are_as_they_were(an_test *t)
{
    an_graph *g = an_test_graph(t);
    check_golden(t, g, "elementwise", kernel_elementwise(g, AN_F32, 1001));
    check_golden(t, g, "softmax", kernel_softmax(g, 64, 100));
    check_golden(t, g, "matmul", kernel_matmul(g, AN_F32, 4, 2, 48, false, true, true));
    check_golden(t, g, "prefix", kernel_prefix(g, 4, 17));
    check_golden(t, g, "nested", kernel_nested(g, 20, 32));
    check_golden(t, g, "update", kernel_update(g, 33));
    check_golden(t, g, "planes", kernel_planes(g, 4, 3, 10));
}

/* --- refusals, rules, memory --------------------------------------------------------------------- */

static void illegal_lists_are_told_from_legal_ones(an_test *t)
{
    an_graph *g = an_test_graph(t);
    const an_uop p = an_param(g, AN_F32, 0), ten = an_index(g, 10), i = an_range(g, ten, 0, AN_RANGE_LOOP);
    const an_uop x = load(g, p, i), end = an_uop_new(g, AN_OP_END, AN_DTYPE_NONE, &i, 1, 0);
    const an_uop store = an_store(g, p, i, x, AN_UOP_NONE), outside = an_store(g, p, ten, x, AN_UOP_NONE);
    const an_uop r = reduce(g, AN_OP_ADD, x, i), wide = an_uop_new_full(g, AN_OP_BROADCAST, AN_F32, 4, &x, 1, 0, 0);
    const an_uop bad[2] = {x, wide}, mixed = an_uop_new_full(g, AN_OP_ADD, AN_F32, 1, bad, 2, 0, 0);
    const an_uop legal[] = {p, ten, i, x, store, end};
    CHECK_OK(t, an_linear_verify(g, legal, 6, "test"));
    CHECK_FAILS(t, an_linear_verify(g, legal, 5, "test"), AN_ERR_INTERNAL, "its loop is never ended");
    const an_uop early[] = {p, ten, i, store, x, end};
    CHECK_FAILS(t, an_linear_verify(g, early, 6, "test"), AN_ERR_INTERNAL, "instruction 3");
    const an_uop late[] = {p, ten, i, x, end, outside};
    CHECK_FAILS(t, an_linear_verify(g, late, 6, "test"), AN_ERR_INTERNAL, "in a loop that has ended");
    const an_uop twice[] = {p, ten, ten};
    CHECK_FAILS(t, an_linear_verify(g, twice, 3, "test"), AN_ERR_INTERNAL, "there twice");
    const an_uop whole[] = {p, ten, i, x, r, end};
    CHECK_FAILS(t, an_linear_verify(g, whole, 6, "test"), AN_ERR_INTERNAL, "no kernel in a linear list has this op");
    const an_uop lanes[] = {p, ten, i, x, wide, mixed, end};
    CHECK_FAILS(t, an_linear_verify(g, lanes, 7, "test"), AN_ERR_INTERNAL, "its sources differ from it in lanes");
    const an_uop no_loop[] = {p, ten, end};
    CHECK_FAILS(t, an_linear_verify(g, no_loop, 3, "test"), AN_ERR_INTERNAL, "no loop is open");
}

static an_status generate(an_ctx *ctx, void *arg)
{
    const int which = *(const int *)arg;
    an_graph *g = NULL;
    an_uop_vec list = {0};
    an_str s;
    an_str_init(&s, ctx);
    an_status st = an_graph_create(ctx, &g);
    if (st) goto done;
    const kernel k = which == 0   ? kernel_matmul(g, AN_F16, 13, 37, 29, false, true, true)
                     : which == 1 ? kernel_softmax(g, 4, 33)
                     : which == 2 ? kernel_windows(g, 3, 20, 2, 3)
                                  : kernel_nested(g, 5, 17);
    st = AN_ERR_NOMEM;
    if (an_uop_is_none(k.sink)) goto done;
    st = an_codegen(g, k.sink, &(an_codegen_opts){.vector_nbytes = 64}, NULL, &list);
    if (!st) st = an_linear_print(&s, g, list.data, list.len);
done:
    an_str_fini(&s);
    an_vec_fini(ctx, &list);
    an_graph_destroy(g);
    return st;
}

static void every_failed_allocation_is_an_error(an_test *t)
{
    for (int which = 0; which < 4; which++) an_test_every_alloc_failure(t, generate, &which);
}

AN_TEST_MAIN(AN_CASE(elementwise_kernels_agree_with_their_plain_form), AN_CASE(reductions_agree_with_their_plain_form),
             AN_CASE(reductions_inside_rows_agree_with_their_plain_form), AN_CASE(matrix_products_agree_with_their_plain_form),
             AN_CASE(a_matrix_product_is_what_c_says), AN_CASE(f16_products_are_summed_in_f32), AN_CASE(products_of_f16_in_a_sum_are_taken_before_they_are_rounded),
             AN_CASE(the_cpu_gives_the_bits_of_the_interpreter),
             AN_CASE(products_of_many_sizes_agree_with_their_plain_form), AN_CASE(random_kernels_agree_with_their_plain_form), AN_CASE(opts_use_lanes_and_tiles), AN_CASE(opts_leave_no_division_that_a_cut_removes),
             AN_CASE(lists_do_not_depend_on_what_else_the_graph_holds), AN_CASE(lists_are_as_they_were),
             AN_CASE(illegal_lists_are_told_from_legal_ones),
             AN_CASE(every_failed_allocation_is_an_error))
