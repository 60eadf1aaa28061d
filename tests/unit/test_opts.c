/* Opts one by one and in lists: any of them in any order keeps the meaning of a kernel; what does not apply says why. */
#include "codegen_run.h"

#include "codegen/gpu.h"
#include "codegen/opt.h"
#include "codegen/pass.h"

#include <stdio.h>
#include <string.h>

static uint32_t random_id(uint64_t *state)
{
    return (uint32_t)((2 + pick(state, 7)) * AN_RANGE_ID_STEP / 2);
}

/* What a GPU with matrix units would do to a product of f16, applied one by one: random opts never get there. */
static void apply_for_matrix_units(an_test *t, an_graph *g, an_uop *sink, int *applied)
{
    const an_codegen_opts opts = {.vector_nbytes = 16, .gpu = {256, 49152, 1, false, true}};
    an_uop copy = *sink;
    an_opt_vec list = {0};
    CHECK_OK(t, an_gpu_choose(g, &copy, &opts, 0, NULL, &list));
    for (size_t o = 0; o < list.len; o++) {
        const char *why = NULL;
        CHECK_OK(t, an_opt_apply(g, sink, list.data[o], &why));
        applied[list.data[o].kind] += why == NULL;
    }
    an_vec_fini(t->ctx, &list);
}

/* Opts drawn at random, applied or refused, in any order. */
static void any_opts_in_any_order_keep_the_meaning(an_test *t)
{
    uint64_t state = 77;
    int applied[AN_OPT_COUNT] = {0};
    for (int i = 0; i < 2000; i++) {
        an_graph *g = NULL;
        CHECK_OK(t, an_graph_create(t->ctx, &g));
        const kernel k = i % 10 == 0   ? kernel_softmax(g, 6, 12)
                         : i % 10 == 1 ? kernel_nested(g, 4, 12)
                         : i % 10 == 2 ? kernel_update(g, 24)
                         : i % 100 == 5 ? kernel_matmul(g, AN_F16, 32, 40, 48, pick(&state, 2), pick(&state, 2), true)
                         : i % 10 == 3 || i % 10 == 4 ? kernel_matmul(g, AN_F32, 8, 12, 6, pick(&state, 2), pick(&state, 2), true)
                                       : random_kernel(g, &state);
        an_uop sink = k.sink;
        CHECK_OK(t, an_pass_prepare(g, &sink));
        if (i % 100 == 5) apply_for_matrix_units(t, g, &sink, applied);
        for (int o = 0; o < 6 && i % 100 != 5; o++) {
            static const int64_t amounts[] = {2, 3, 4, 5, 8};
            an_opt opt = {(an_opt_kind)pick(&state, AN_OPT_COUNT), random_id(&state),
                                amounts[pick(&state, 5)]};
            const char *why = NULL;
            static const an_opt of_product[] = {{AN_OPT_CUT, 3 * AN_RANGE_ID_STEP, 2}, {AN_OPT_JOIN, 3 * AN_RANGE_ID_STEP, 0},
                                                {AN_OPT_LOCAL, AN_RANGE_ID_STEP, 0}, {AN_OPT_TILE, 3 * AN_RANGE_ID_STEP, 0}};
            if (i % 10 == 4 && o < 4) opt = of_product[o];
            if (opt.kind == AN_OPT_ORDER || opt.kind == AN_OPT_JOIN) opt.amount = random_id(&state);
            if (opt.kind == AN_OPT_GLOBAL) opt.amount = 1 + pick(&state, 4);
            if (opt.kind == AN_OPT_LOCAL) opt.amount = 32 + pick(&state, 4);
            if (opt.kind == AN_OPT_DEAL) opt.amount = opt.range;
            if (opt.kind == AN_OPT_TILE) opt.amount = 64 << pick(&state, 6);
            if (i % 10 == 0 && o < 3) opt.kind = AN_OPT_KEEP; /* of softmax: nothing else is computed twice */
            if (i % 10 == 3 && o == 0) opt.kind = AN_OPT_CARRY; /* of a product */
            if (opt.kind == AN_OPT_PACK || opt.kind == AN_OPT_KEEP) opt.amount = 100 << pick(&state, 6);
            CHECK_OK(t, an_opt_apply(g, &sink, opt, &why));
            applied[opt.kind] += why == NULL;
        }
        an_uop_vec list = {0};
        CHECK_OK(t, an_pass_expand(g, &sink));
        CHECK_OK(t, an_pass_vector(g, &sink));
        CHECK_OK(t, an_pass_linearize(g, sink, &list));
        CHECK_OK(t, an_linear_verify(g, list.data, list.len, "test"));
        size_t n = 0, m = 0;
        double *want = run(t, g, &k, plain, &n), *got = run_list(t, &an_backend_interp, g, &k, &list, &m);
        CHECK_EQ(t, m, n);
        for (size_t e = 0; e < n; e++)
            if (!(fabs(got[e] - want[e]) <= tolerance_of(&k) * fmax(1, fabs(want[e]))))
                an_test_fail(__FILE__, __LINE__, "kernel %d: element %zu is %.9g, plain %.9g", i, e, got[e], want[e]);
        free(got);
        free(want);
        an_vec_fini(t->ctx, &list);
        an_graph_destroy(g);
    }
    for (int kind = 0; kind < AN_OPT_COUNT; kind++)
        if (applied[kind] < 10) an_test_fail(__FILE__, __LINE__, "%s applied %d times", an_opt_name((an_opt_kind)kind), applied[kind]);
}

/* Loops as one, in any order of the two; not where what is read would have been overwritten. */
static void loops_are_one_where_their_order_is_free(an_test *t)
{
    const an_opt orders[] = {{AN_OPT_JOIN, AN_RANGE_ID_STEP, 2 * AN_RANGE_ID_STEP}, {AN_OPT_JOIN, 2 * AN_RANGE_ID_STEP, AN_RANGE_ID_STEP}};
    for (int i = 0; i < 6; i++) {
        an_graph *g = NULL;
        CHECK_OK(t, an_graph_create(t->ctx, &g));
        const kernel k = i / 2 == 0   ? kernel_transpose(g, 7, 5)
                         : i / 2 == 1 ? kernel_matmul(g, AN_F32, 8, 12, 6, false, false, true)
                                      : kernel_normalize_in_place(g, 5, 7);
        an_uop sink = k.sink;
        an_uop_vec list = {0};
        const char *why = NULL;
        CHECK_OK(t, an_pass_prepare(g, &sink));
        CHECK_OK(t, an_opt_apply(g, &sink, orders[i % 2], &why));
        if ((why != NULL) != (i / 2 == 2)) an_test_fail(__FILE__, __LINE__, "kernel %d: %s", i, why ? why : "applied");
        CHECK_OK(t, an_pass_expand(g, &sink));
        CHECK_OK(t, an_pass_vector(g, &sink));
        CHECK_OK(t, an_pass_linearize(g, sink, &list));
        size_t n = 0, m = 0;
        double *want = run(t, g, &k, plain, &n), *got = run_list(t, &an_backend_interp, g, &k, &list, &m);
        CHECK_EQ(t, m, n);
        for (size_t e = 0; e < n; e++)
            if (got[e] != want[e]) an_test_fail(__FILE__, __LINE__, "kernel %d: element %zu is %.9g, plain %.9g", i, e, got[e], want[e]);
        free(got);
        free(want);
        an_vec_fini(t->ctx, &list);
        an_graph_destroy(g);
    }
}

static void opts_refuse_with_a_sentence(an_test *t)
{
    an_graph *g = an_test_graph(t);
    const an_uop n = an_uop_var(g, "n", 1, 64), i = an_range(g, n, 3, AN_RANGE_LOOP), j = loop(g, 10, 7), r = reduce_range(g, 12, 9);
    const an_uop v = reduce(g, AN_OP_ADD, load(g, an_param(g, AN_F32, 1), at2(g, at2(g, i, 10, j), 12, r)), r);
    const an_uop store = an_store(g, an_param(g, AN_F32, 0), at2(g, i, 10, j), v, AN_UOP_NONE), sink = an_sink(g, &store, 1);
    const struct {
        an_opt opt;
        const char *why;
    } cases[] = {{{AN_OPT_VECTOR, 3, 4}, "its bound is no constant"},
                 {{AN_OPT_UPCAST, 7, 3}, "its bound is not divisible"},
                 {{AN_OPT_UPCAST, 9, 3}, "that is for loops over outputs only"},
                 {{AN_OPT_UNROLL, 7, 2}, "that is for reductions only"},
                 {{AN_OPT_SPLIT, 7, 10}, "there is no tail"},
                 {{AN_OPT_VECTOR, 5, 4}, "there is no such range"},
                 {{AN_OPT_VECTOR, 7, 1}, "there is nothing to cut"},
                 {{AN_OPT_GROUP, 7, 2}, "that is for reductions only"},
                 {{AN_OPT_GROUP, 9, 5}, "its bound is not divisible"},
                 {{AN_OPT_PADTO, 9, 8}, "that is for loops over outputs only"},
                 {{AN_OPT_PADTO, 7, 16}, "it has fewer elements"},
                 {{AN_OPT_ORDER, 7, 8}, "there is no such range to move it out of"},
                 {{AN_OPT_ORDER, 9, 7}, "that is for loops over outputs only"},
                 {{AN_OPT_CARRY, 7, 5}, "that is for reductions only"},
                 {{AN_OPT_CARRY, 9, 5}, "its bound is not divisible"},
                 {{AN_OPT_CARRY, 9, 12}, "there is nothing to cut"}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        an_uop s = sink;
        const char *why = NULL;
        CHECK_OK(t, an_opt_apply(g, &s, cases[c].opt, &why));
        CHECK_SAME(t, s, sink);
        CHECK_STR(t, why ? why : "", cases[c].why);
    }
    an_uop s = sink;
    const char *why = NULL;
    CHECK_OK(t, an_opt_apply(g, &s, (an_opt){AN_OPT_VECTOR, 9, 4}, &why));
    CHECK(t, !why);
    CHECK_OK(t, an_opt_apply(g, &s, (an_opt){AN_OPT_VECTOR, 7, 2}, &why));
    CHECK_STR(t, why ? why : "", "a value that depends on it is a vector already");
}

/* A sum in passes, in blocks that begin early: passes inside of blocks, outside, and in between; with an epilogue and without. */
static void passes_carry_the_sum(an_test *t)
{
    static const char *const lists[] = {"CARRY:3072:4 PADTO:1024:3 PADTO:2048:5", "CARRY:3072:4 PADTO:1024:3 ORDER:3072:1024 PADTO:2048:5",
                                        "CARRY:3072:6 PADTO:1024:3 PADTO:2048:5 ORDER:3072:2048 PACK:2048:4096",
                                        "PADTO:1024:5 PADTO:1024:2 PADTO:2048:5 CARRY:3072:2"};
    for (size_t l = 0; l < 2 * sizeof lists / sizeof *lists; l++) {
        an_graph *g = NULL;
        CHECK_OK(t, an_graph_create(t->ctx, &g));
        const kernel k = kernel_matmul(g, AN_F32, 8, 13, 12, l % 2, false, l % 2);
        an_opt_vec list = {0};
        size_t n = 0, m = 0;
        CHECK_OK(t, an_opt_parse(t->ctx, lists[l / 2], &list));
        double *want = run(t, g, &k, plain, &n), *got = run(t, g, &k, (an_codegen_opts){.vector_nbytes = 32, .by_hand = true, .list = list.data, .nlist = list.len}, &m);
        CHECK_EQ(t, m, n);
        for (size_t e = 0; e < n; e++)
            if (got[e] != want[e]) /* to the bit: terms are added in the same order */
                an_test_fail(__FILE__, __LINE__, "%s: element %zu is %.9g, plain %.9g", lists[l / 2], e, got[e], want[e]);
        free(want);
        free(got);
        an_vec_fini(t->ctx, &list);
        an_graph_destroy(g);
    }
}

/* Kernel number i gives what its plain form does. */
static void check_plain(an_test *t, an_graph *g, const kernel *k, an_codegen_opts opts, int i)
{
    size_t n = 0, m = 0;
    double *want = run(t, g, k, plain, &n), *got = run(t, g, k, opts, &m);
    CHECK_EQ(t, m, n);
    for (size_t e = 0; e < n; e++)
        if (!(fabs(got[e] - want[e]) <= tolerance_of(k) * fmax(1, fabs(want[e]))))
            an_test_fail(__FILE__, __LINE__, "kernel %d: element %zu is %.9g, plain %.9g", i, e, got[e], want[e]);
    free(want);
    free(got);
}

/* What the heuristics put in passes gives what it gave: a sum down the columns, and a product whose rows lie in long steps. */
static void the_heuristics_choose_passes(an_test *t)
{
    for (int i = 0; i < 2; i++) {
        an_graph *g = NULL;
        CHECK_OK(t, an_graph_create(t->ctx, &g));
        const kernel k = i == 0 ? kernel_reduce(g, AN_OP_ADD, AN_F32, 4096, 40, true) : kernel_matmul(g, AN_F32, 96, 96, 960, true, false, true);
        const an_codegen_opts opts = {.vector_nbytes = 32, .scratch_nbytes = 1 << 20, .threads = 2};
        an_opt_vec list = {0};
        an_uop sink = k.sink;
        size_t passes = 0;
        CHECK_OK(t, an_codegen_shape(g, &sink, &opts, NULL));
        CHECK_OK(t, an_opt_choose(g, &sink, &opts, NULL, &list));
        for (size_t o = 0; o < list.len; o++) passes += list.data[o].kind == AN_OPT_CARRY;
        if (passes != 1) an_test_fail(__FILE__, __LINE__, "kernel %d has %zu sums in passes", i, passes);
        check_plain(t, g, &k, opts, i);
        an_vec_fini(t->ctx, &list);
        an_graph_destroy(g);
    }
}

/* Rows whose lines share their places in the nearest cache are not more at a time than there are places. */
static void rows_a_power_of_two_apart_are_few_at_a_time(an_test *t)
{
    for (int i = 0; i < 2; i++) {
        an_graph *g = NULL;
        CHECK_OK(t, an_graph_create(t->ctx, &g));
        const kernel k = kernel_matmul(g, AN_F32, 112, 96, i ? 1040 : 1024, false, false, false);
        const an_codegen_opts opts = {
            .vector_nbytes = 64, .scratch_nbytes = 1 << 18, .threads = 1, .l1_nbytes = 32 << 10};
        an_opt_vec list = {0};
        an_uop sink = k.sink;
        bool few = true;
        CHECK_OK(t, an_codegen_shape(g, &sink, &opts, NULL));
        CHECK_OK(t, an_opt_choose(g, &sink, &opts, NULL, &list));
        for (size_t o = 0; o < list.len; o++)
            few = few && !(list.data[o].kind == AN_OPT_UPCAST && list.data[o].amount > 8);
        if (few != (i == 0))
            an_test_fail(__FILE__, __LINE__, "kernel %d has %s rows at a time", i, few ? "few" : "many");
        check_plain(t, g, &k, opts, i);
        an_vec_fini(t->ctx, &list);
        an_graph_destroy(g);
    }
}

/* A product written over what is added to it has tiles that divide its sizes, since none may begin early. */
static void a_product_in_place_has_tiles(an_test *t)
{
    an_graph *g = an_test_graph(t);
    const kernel k = kernel_product_in_place(g, 64, 48, 40);
    const an_codegen_opts opts = {.vector_nbytes = 32, .scratch_nbytes = 1 << 18, .threads = 1};
    an_opt_vec list = {0};
    an_uop sink = k.sink;
    size_t tiles = 0;
    CHECK_OK(t, an_codegen_shape(g, &sink, &opts, NULL));
    CHECK_OK(t, an_opt_choose(g, &sink, &opts, NULL, &list));
    for (size_t o = 0; o < list.len; o++) tiles += list.data[o].kind == AN_OPT_CUT;
    CHECK(t, tiles >= 2);
    check_plain(t, g, &k, opts, 0);
    an_vec_fini(t->ctx, &list);
}

/* On GPUs blocks are computed at the same time. Where the last one begins early, a kernel in place must not store again what it found there:
 * the block that shares those elements may have added to them since. */
static void blocks_that_share_elements_store_them_once(an_test *t)
{
    const an_codegen_opts opts = {.vector_nbytes = 16, .gpu = {1024, 49152, 128, false, false}};
    an_graph *g = an_test_graph(t);
    enum { COLUMNS = 103, ROWS = 64 };
    kernel k = {0};
    const an_uop x = kernel_param(g, &k, AN_F32, COLUMNS, true), a = kernel_param(g, &k, AN_F32, ROWS * COLUMNS, false), j = loop(g, COLUMNS, 0),
                 r = reduce_range(g, ROWS, 1);
    k = one_store(g, k, x, j, add(g, load(g, x, j), reduce(g, AN_OP_ADD, load(g, a, at2(g, r, COLUMNS, j)), r)));
    an_uop_vec linear = {0};
    size_t shared = 0, gated = 0;
    CHECK_OK(t, an_codegen(g, k.sink, &opts, NULL, &linear));
    for (size_t i = 0; i < linear.len; i++) {
        const an_uop u = linear.data[i];
        if (an_uop_op(g, u) == AN_OP_MIN) shared++;
        if (an_uop_op(g, u) == AN_OP_STORE) gated += an_uop_nsrc(g, u) > 3;
        if (an_uop_op(g, u) != AN_OP_STORE || an_uop_op(g, an_uop_src(g, u, 2)) != AN_OP_WHERE) continue;
        for (uint32_t s = 1; s < 3; s++) {
            const an_uop old = an_uop_src(g, an_uop_src(g, u, 2), s);
            CHECK(t, an_uop_op(g, old) != AN_OP_LOAD || !an_uop_eq(an_uop_src(g, old, 0), an_uop_src(g, u, 0)));
        }
    }
    CHECK(t, shared > 0 && gated > 0);
    check_plain(t, g, &k, opts, 0);
    an_vec_fini(t->ctx, &linear);
}

/* A product of one row by 4097 columns, stored as rows: blocks of some leave one over, which must not keep threads from the others. */
static void one_column_left_over_leaves_the_rest_to_threads(an_test *t)
{
    an_graph *g = an_test_graph(t);
    const kernel k = kernel_matmul(g, AN_F32, 1, 4097, 768, false, true, false);
    const an_codegen_opts opts = {.vector_nbytes = 32, .scratch_nbytes = 1 << 18, .threads = 2};
    an_uop_vec linear = {0};
    CHECK_OK(t, an_codegen(g, k.sink, &opts, NULL, &linear));
    bool threads = false;
    for (size_t i = 0; i < linear.len; i++)
        threads = threads || (an_uop_op(g, linear.data[i]) == AN_OP_RANGE && an_range_kind_of(an_uop_arg(g, linear.data[i])) == AN_RANGE_THREAD);
    CHECK(t, threads);
    check_plain(t, g, &k, opts, 0);
    an_vec_fini(t->ctx, &linear);
}

/* Elements in steps of a few, as windows beside one another have them, are lanes of whole vectors, and none outside is read; longer steps stay
 * single elements. */
static void windows_are_read_whole(an_test *t)
{
    static const int64_t cases[][3] = {{14, 2, 2}, {7, 2, 2}, {40, 2, 1}, {33, 2, 3}, {16, 3, 3}, {20, 3, 2}, {33, 4, 1}, {16, 4, 3}, {24, 2, 5}, {16, 5, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        an_graph *g = NULL;
        CHECK_OK(t, an_graph_create(t->ctx, &g));
        const kernel k = kernel_windows(g, 5, cases[i][0], cases[i][1], cases[i][2]);
        const an_codegen_opts opts = {.vector_nbytes = 32, .scratch_nbytes = 1 << 18, .threads = 1};
        an_uop_vec linear = {0};
        size_t whole = 0, others = 0;
        CHECK_OK(t, an_codegen(g, k.sink, &opts, NULL, &linear));
        for (size_t u = 0; u < linear.len; u++) {
            if (an_uop_op(g, linear.data[u]) != AN_OP_LOAD) continue;
            if (an_uop_op(g, an_uop_src(g, linear.data[u], 1)) == AN_OP_RAMP)
                whole++;
            else
                others++;
        }
        if ((whole > 0) != (cases[i][1] < 5) || (whole > 0) == (others > 0))
            an_test_fail(__FILE__, __LINE__, "windows %zu: %zu loads of vectors, %zu others", i, whole, others);
        check_plain(t, g, &k, opts, (int)i);
        an_vec_fini(t->ctx, &linear);
        an_graph_destroy(g);
    }
}

/* Of a sum of two products each is taken in by one instruction, and copies of two stores come in pairs, each done with before the next. */
static void products_in_a_sum_are_taken_in_one_by_one(an_test *t)
{
    an_graph *g = an_test_graph(t);
    const kernel k = kernel_sum_of_products(g, 64, 48, 40);
    const an_codegen_opts opts = {.vector_nbytes = 32, .scratch_nbytes = 1 << 18, .threads = 1};
    an_uop_vec linear = {0};
    size_t accs = 0, steps = 0, nstores = 0;
    an_uop last = AN_UOP_NONE;
    CHECK_OK(t, an_codegen(g, k.sink, &opts, NULL, &linear));
    for (size_t i = 0; i < linear.len; i++) {
        const an_uop u = linear.data[i];
        const an_op op = an_uop_op(g, u);
        accs += op == AN_OP_ACC;
        steps += op == AN_OP_MULACC;
        CHECK(t, op != AN_OP_ADD || an_uop_dtype(g, u) != AN_F32);
        if (op != AN_OP_STORE || an_uop_op(g, an_uop_src(g, u, 0)) != AN_OP_PARAM) continue;
        if (nstores++ % 2) CHECK(t, an_uop_eq(an_uop_src(g, u, 1), an_uop_src(g, last, 1)) && !an_uop_eq(an_uop_src(g, u, 0), an_uop_src(g, last, 0)));
        last = u;
    }
    CHECK_EQ(t, steps, 2 * accs);
    CHECK(t, accs >= 8 && nstores == 2 * accs);
    CHECK(t, accs < 12); /* of 16 registers: two operands have vectors there, too */
    check_plain(t, g, &k, opts, 0);
    an_vec_fini(t->ctx, &linear);
}

/* Two products that run in one loop have tiles that the registers hold together. */
static void two_products_share_the_registers(an_test *t)
{
    an_graph *g = an_test_graph(t);
    const kernel k = kernel_two_products(g, 64, 48, 40);
    const an_codegen_opts opts = {.vector_nbytes = 32, .scratch_nbytes = 1 << 18, .threads = 1};
    an_uop_vec linear = {0};
    size_t accs = 0;
    CHECK_OK(t, an_codegen(g, k.sink, &opts, NULL, &linear));
    for (size_t i = 0; i < linear.len; i++) accs += an_uop_op(g, linear.data[i]) == AN_OP_ACC;
    if (accs < 8 || accs >= 16) an_test_fail(__FILE__, __LINE__, "%zu accumulators, of 16 registers", accs);
    check_plain(t, g, &k, opts, 0);
    an_vec_fini(t->ctx, &linear);
}

static void check_list(an_test *t, an_graph *g, const kernel *k, an_codegen_opts opts)
{
    an_opt_vec list = {0}, again = {0};
    an_uop_vec chosen = {0}, by_hand = {0};
    an_uop sink = k->sink;
    an_str text;
    an_str_init(&text, t->ctx);
    CHECK_OK(t, an_codegen_shape(g, &sink, &opts, NULL));
    CHECK_OK(t, an_opt_choose(g, &sink, &opts, NULL, &list));
    CHECK(t, list.len > 0);
    CHECK_OK(t, an_opt_print(&text, list.data, list.len));
    CHECK_OK(t, an_opt_parse(t->ctx, an_str_cstr(&text), &again));
    CHECK_EQ(t, again.len, list.len);
    CHECK_OK(t, an_codegen(g, k->sink, &opts, NULL, &chosen));
    opts.by_hand = true;
    opts.list = again.data;
    opts.nlist = again.len;
    CHECK_OK(t, an_codegen(g, k->sink, &opts, NULL, &by_hand));
    an_str lists[2];
    for (int l = 0; l < 2; l++) {
        an_str_init(&lists[l], t->ctx);
        CHECK_OK(t, an_linear_print(&lists[l], g, l ? by_hand.data : chosen.data, l ? by_hand.len : chosen.len));
    }
    CHECK_STR(t, an_str_cstr(&lists[1]), an_str_cstr(&lists[0]));
    for (int l = 0; l < 2; l++) an_str_fini(&lists[l]);
    an_str_fini(&text);
    an_vec_fini(t->ctx, &list);
    an_vec_fini(t->ctx, &again);
    an_vec_fini(t->ctx, &chosen);
    an_vec_fini(t->ctx, &by_hand);
}

static void the_heuristics_make_a_list_that_gives_the_same_kernel(an_test *t)
{
    an_graph *g = an_test_graph(t);
    const kernel ks[] = {kernel_matmul(g, AN_F32, 50, 70, 30, false, true, true), kernel_softmax(g, 6, 100), kernel_conv(g, 100),
                         kernel_transpose(g, 40, 24), kernel_update(g, 100)};
    for (size_t i = 0; i < sizeof ks / sizeof *ks; i++) check_list(t, g, &ks[i], (an_codegen_opts){.vector_nbytes = 32});
}

static void the_same_on_gpus(an_test *t)
{
    an_graph *g = an_test_graph(t);
    const kernel ks[] = {kernel_matmul(g, AN_F32, 96, 128, 77, false, true, true), kernel_matmul(g, AN_F32, 67, 101, 64, true, false, false),
                         kernel_softmax(g, 6, 512), kernel_layernorm(g, 7, 300), kernel_reduce(g, AN_OP_ADD, AN_F32, 512, 100, true),
                         kernel_update(g, 8192)};
    for (size_t i = 0; i < sizeof ks / sizeof *ks; i++)
        for (int small = 0; small < 2; small++) check_list(t, g, &ks[i], (an_codegen_opts){.vector_nbytes = 16, .gpu = {256, 32768, 16, small == 1, false}});
}

/* Every opt that is listed as legal applies, and gives the values of the plain kernel. */
static void legal_opts_apply_and_keep_the_meaning(an_test *t)
{
    an_graph *g = an_test_graph(t);
    const kernel ks[] = {kernel_matmul(g, AN_F32, 12, 17, 16, false, true, true), kernel_softmax(g, 6, 24), kernel_update(g, 18),
                         kernel_transpose(g, 12, 9)};
    for (size_t i = 0; i < sizeof ks / sizeof *ks; i++) {
        an_codegen_opts opts = {.vector_nbytes = 32};
        an_opt_vec legal = {0};
        an_uop sink = ks[i].sink;
        size_t n = 0, m = 0;
        CHECK_OK(t, an_codegen_shape(g, &sink, &opts, NULL));
        CHECK_OK(t, an_opt_legal(g, sink, &opts, &legal));
        CHECK(t, legal.len > 3);
        double *want = run(t, g, &ks[i], plain, &n);
        opts.by_hand = true;
        for (size_t o = 0; o < legal.len; o++) {
            opts.list = &legal.data[o];
            opts.nlist = 1;
            double *got = run(t, g, &ks[i], opts, &m);
            CHECK_EQ(t, m, n);
            for (size_t e = 0; e < n; e++)
                if (!(fabs(got[e] - want[e]) <= tolerance_of(&ks[i]) * fmax(1, fabs(want[e]))))
                    an_test_fail(__FILE__, __LINE__, "kernel %zu, %s:%u:%lld: element %zu is %.9g, plain %.9g", i,
                                 an_opt_name(legal.data[o].kind), legal.data[o].range, (long long)legal.data[o].amount, e, got[e], want[e]);
            free(got);
        }
        free(want);
        an_vec_fini(t->ctx, &legal);
    }
}

static void an_opt_by_hand_that_does_not_apply_is_an_error(an_test *t)
{
    an_graph *g = an_test_graph(t);
    const kernel k = kernel_matmul(g, AN_F32, 12, 17, 16, false, true, false);
    an_opt_vec list = {0};
    an_uop_vec linear = {0};
    CHECK_OK(t, an_opt_parse(t->ctx, " UPCAST:1024:4, VECTOR:2048:8 ", &list));
    CHECK_EQ(t, list.len, 2);
    const an_codegen_opts opts = {.vector_nbytes = 32, .by_hand = true, .list = list.data, .nlist = list.len};
    CHECK_FAILS(t, an_codegen(g, k.sink, &opts, NULL, &linear), AN_ERR_ARG,
                "opt 2 of the list, VECTOR of range 2048 by 8, does not apply: its bound is not divisible");
    CHECK_EQ(t, linear.len, 0);
    an_vec_fini(t->ctx, &list);
}

static void a_list_that_is_none_is_refused(an_test *t)
{
    static const char *const bad[] = {"UPCAST", "UPCAST:1", "UPCAST:1:", "UPCAST:1:2x", "FOO:1:2", ":1:2", "UPCAST:-1:2", "UPCAST:1:-2",
                                      "UPCAST:99999999999:2", "UP:1:2"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        an_opt_vec list = {0};
        CHECK_FAILS(t, an_opt_parse(t->ctx, bad[i], &list), AN_ERR_ARG, "is no opt");
        an_vec_fini(t->ctx, &list);
    }
    an_opt_vec list = {0};
    char many[AN_OPTS_MAX * 16 + 32] = "";
    for (int i = 0; i <= AN_OPTS_MAX; i++) strcat(many, "CUT:1024:2 ");
    CHECK_FAILS(t, an_opt_parse(t->ctx, many, &list), AN_ERR_ARG, "more than 64");
    an_vec_fini(t->ctx, &list);
}

AN_TEST_MAIN(AN_CASE(any_opts_in_any_order_keep_the_meaning), AN_CASE(loops_are_one_where_their_order_is_free), AN_CASE(opts_refuse_with_a_sentence), AN_CASE(passes_carry_the_sum), AN_CASE(the_heuristics_choose_passes),
             AN_CASE(rows_a_power_of_two_apart_are_few_at_a_time), AN_CASE(a_product_in_place_has_tiles), AN_CASE(blocks_that_share_elements_store_them_once), AN_CASE(one_column_left_over_leaves_the_rest_to_threads), AN_CASE(windows_are_read_whole), AN_CASE(products_in_a_sum_are_taken_in_one_by_one), AN_CASE(two_products_share_the_registers), AN_CASE(the_same_on_gpus),
             AN_CASE(the_heuristics_make_a_list_that_gives_the_same_kernel), AN_CASE(legal_opts_apply_and_keep_the_meaning),
             AN_CASE(an_opt_by_hand_that_does_not_apply_is_an_error), AN_CASE(a_list_that_is_none_is_refused))
