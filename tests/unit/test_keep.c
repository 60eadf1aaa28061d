/* What a kernel computes or reads again: functions are computed once (keep.c), rows are fetched ahead (prefetch.c). */
#include "codegen_run.h"

#include <math.h>

enum { ROWS = 5 };

static int count(const an_graph *g, const an_uop_vec *list, an_op op)
{
    int n = 0;
    for (size_t i = 0; i < list->len; i++) n += an_uop_op(g, list->data[i]) == op;
    return n;
}

static void check_values(an_test *t, an_graph *g, const kernel *k, an_codegen_opts opts)
{
    size_t n = 0, m = 0;
    double *want = run(t, g, k, plain, &n), *got = run(t, g, k, opts, &m);
    CHECK_EQ(t, m, n);
    for (size_t e = 0; e < n; e++) CHECK(t, fabs(got[e] - want[e]) <= tolerance_of(k) * fmax(1, fabs(want[e])));
    free(want);
    free(got);
}

static void what_is_dear_is_computed_once(an_test *t)
{
    static const int64_t columns[] = {64, 1024};
    an_graph *g = an_test_graph(t);
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        const kernel k = kernel_softmax(g, ROWS, columns[i]);
        const an_codegen_opts twice = {.vector_nbytes = 32}, once = {.vector_nbytes = 32, .scratch_nbytes = 1 << 16};
        an_uop_vec before = {0}, after = {0};
        CHECK_OK(t, an_codegen(g, k.sink, &twice, NULL, &before));
        CHECK_OK(t, an_codegen(g, k.sink, &once, NULL, &after));
        CHECK_EQ(t, count(g, &before, AN_OP_EXP2), 2);
        CHECK_EQ(t, count(g, &after, AN_OP_EXP2), 1);
        check_values(t, g, &k, once);
        an_vec_fini(t->ctx, &before);
        an_vec_fini(t->ctx, &after);
    }
}

/* Scratch that does not fit is not made. */
static void what_is_too_large_to_keep_is_computed_again(an_test *t)
{
    an_graph *g = an_test_graph(t);
    const kernel k = kernel_softmax(g, ROWS, 1024);
    const an_codegen_opts opts = {.vector_nbytes = 32, .scratch_nbytes = 4095};
    an_uop_vec list = {0};
    CHECK_OK(t, an_codegen(g, k.sink, &opts, NULL, &list));
    CHECK_EQ(t, count(g, &list, AN_OP_EXP2), 2);
    an_vec_fini(t->ctx, &list);
}

/* A reduction that is not softmax's: the exponent differs by a factor from the one of the outputs. */
static void what_differs_is_not_taken_for_the_same(an_test *t)
{
    an_graph *g = an_test_graph(t);
    kernel k = {0};
    const int64_t n = 64;
    const an_uop out = kernel_param(g, &k, AN_F32, ROWS * n, true), x = kernel_param(g, &k, AN_F32, ROWS * n, false), i = loop(g, ROWS, 0),
                 j = loop(g, n, 1), r = reduce_range(g, n, 2), half = an_const_float(g, AN_F32, 0.5);
    const an_uop sum = reduce(g, AN_OP_ADD, an_unary(g, AN_OP_EXP2, mul(g, load(g, x, at2(g, i, n, r)), half)), r);
    k = one_store(g, k, out, at2(g, i, n, j), mul(g, an_unary(g, AN_OP_EXP2, load(g, x, at2(g, i, n, j))), sum));
    const an_codegen_opts opts = {.vector_nbytes = 32, .scratch_nbytes = 1 << 16};
    an_uop_vec list = {0};
    CHECK_OK(t, an_codegen(g, k.sink, &opts, NULL, &list));
    CHECK_EQ(t, count(g, &list, AN_OP_EXP2), 2);
    check_values(t, g, &k, opts);
    an_vec_fini(t->ctx, &list);
}

static void rows_of_pages_are_fetched_ahead_and_short_ones_are_not(an_test *t)
{
    an_graph *g = an_test_graph(t);
    const struct {
        kernel k;
        bool fetched;
    } cases[] = {{kernel_softmax(g, ROWS, 1024), true},
                 {kernel_layernorm(g, ROWS, 1024), true},
                 {kernel_softmax(g, ROWS, 64), false},
                 {kernel_update(g, 4096), false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const an_codegen_opts opts = {.vector_nbytes = 32, .scratch_nbytes = 1 << 16};
        an_uop_vec list = {0};
        CHECK_OK(t, an_codegen(g, cases[i].k.sink, &opts, NULL, &list));
        size_t read = 0, written = 0;
        for (size_t k = 0; k < list.len; k++) {
            if (an_uop_op(g, list.data[k]) != AN_OP_PREFETCH) continue;
            *(an_uop_arg(g, list.data[k]) ? &written : &read) += 1;
        }
        CHECK_EQ(t, read > 0, cases[i].fetched);
        CHECK_EQ(t, written > 0, cases[i].fetched);
        check_values(t, g, &cases[i].k, opts);
        an_vec_fini(t->ctx, &list);
    }
}

/* Is some prefetch in as many loops as that? */
static bool asks_in(const an_graph *g, const an_uop_vec *list, int depth)
{
    int now = 0;
    bool any = false;
    for (size_t i = 0; i < list->len; i++) {
        const an_op op = an_uop_op(g, list->data[i]);
        now += op == AN_OP_RANGE ? 1 : op == AN_OP_END ? -1 : 0;
        any = any || (op == AN_OP_PREFETCH && now == depth);
    }
    return any;
}

/* A product of few rows, in passes: columns, rows, steps of the sum. While a tile is computed the next columns to be copied are asked
 * for; without scratch nothing is copied, and columns that are walked in long steps are asked for in the innermost loop. */
static void the_next_copy_is_fetched_while_one_is_used(an_test *t)
{
    an_graph *g = an_test_graph(t);
    const kernel k = kernel_matmul(g, AN_F32, 64, 1056, 768, false, false, false);
    const an_codegen_opts copies = {.vector_nbytes = 32, .scratch_nbytes = 1 << 20, .threads = 1}, none = {.vector_nbytes = 32, .threads = 1};
    an_uop_vec with = {0}, without = {0};
    CHECK_OK(t, an_codegen(g, k.sink, &copies, NULL, &with));
    CHECK_OK(t, an_codegen(g, k.sink, &none, NULL, &without));
    CHECK(t, asks_in(g, &with, 4)); /* passes, tiles of columns, tiles of rows, steps */
    CHECK_EQ(t, count(g, &without, AN_OP_LOCAL), 0);
    CHECK(t, count(g, &without, AN_OP_PREFETCH) > 0);
    an_vec_fini(t->ctx, &with);
    an_vec_fini(t->ctx, &without);
}

AN_TEST_MAIN(AN_CASE(what_is_dear_is_computed_once), AN_CASE(what_is_too_large_to_keep_is_computed_again),
             AN_CASE(what_differs_is_not_taken_for_the_same), AN_CASE(rows_of_pages_are_fetched_ahead_and_short_ones_are_not),
             AN_CASE(the_next_copy_is_fetched_while_one_is_used))
