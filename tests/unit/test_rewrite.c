/* test_rewrite.c - the driver (fixpoint, depth, size, circles), substitution, bounds, the trace, and what rules leave on the
 * nodes they make. */
#include "an_test.h"

#include "rewrite/rules.h"

#include <stdio.h>
#include <time.h>

static const an_ruleset *const symbolic[] = {&an_rules_symbolic};

static an_status simplify(an_graph *g, an_uop *roots, size_t n, an_trace *trace)
{
    return an_rewrite(g, symbolic, 1, roots, n, trace, NULL, "simplify");
}

/* ---- sets written by hand ------------------------------------------------------------------------------ */

static an_uop rule_done(an_rewriter *rw, const an_rule_info *rule, an_uop n, an_uop r)
{
    return an_rule_done(rw, rule, an_graph_set_rule(rw->graph, 0), n, r);
}

static const an_rule_info ping_pong_rules[] = {{.name = "ping", .file = "test", .line = 1, .text = ""},
                                               {.name = "pong", .file = "test", .line = 2, .text = ""}};

/* exp2 and sin, back and forth */
static an_uop ping_pong(an_rewriter *rw, an_uop n)
{
    const an_op op = an_uop_op(rw->graph, n);
    if (op == AN_OP_EXP2) return rule_done(rw, &ping_pong_rules[0], n, an_unary(rw->graph, AN_OP_SIN, an_uop_src(rw->graph, n, 0)));
    if (op == AN_OP_SIN) return rule_done(rw, &ping_pong_rules[1], n, an_unary(rw->graph, AN_OP_EXP2, an_uop_src(rw->graph, n, 0)));
    return AN_UOP_NONE;
}

/* exp2(x) is exp2(x + 1), forever */
static an_uop grow(an_rewriter *rw, an_uop n)
{
    if (an_uop_op(rw->graph, n) != AN_OP_EXP2) return AN_UOP_NONE;
    const an_uop x = an_uop_src(rw->graph, n, 0), one = an_const_like(rw->graph, x, 1.0);
    return rule_done(rw, &ping_pong_rules[0], n, an_unary(rw->graph, AN_OP_EXP2, an_binary(rw->graph, AN_OP_ADD, x, one)));
}

/* sin(x) is sin(x) * 1: it holds what it replaces */
static an_uop wrap(an_rewriter *rw, an_uop n)
{
    if (an_uop_op(rw->graph, n) != AN_OP_SIN) return AN_UOP_NONE;
    return rule_done(rw, &ping_pong_rules[1], n, an_binary(rw->graph, AN_OP_MUL, n, an_const_like(rw->graph, n, 1.0)));
}

static const an_ruleset ping_pong_set = {.name = "ping_pong", .rules = ping_pong_rules, .nrules = 2, .match = ping_pong};
static const an_ruleset grow_set = {.name = "grow", .rules = ping_pong_rules, .nrules = 2, .match = grow};
static const an_ruleset wrap_set = {.name = "wrap", .rules = ping_pong_rules, .nrules = 2, .match = wrap};

/* ---- helpers ------------------------------------------------------------------------------------------- */

static an_uop parse(an_test *t, const char *text)
{
    an_uop u = AN_UOP_NONE;
    CHECK_OK(t, an_expr_parse(an_test_graph(t), text, &u));
    return u;
}

/* Of this process: the machine may have other work. */
static double cpu_seconds(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

/* ---- the driver ---------------------------------------------------------------------------------------- */

static void rules_that_undo_each_other_are_named(an_test *t)
{
    const an_ruleset *set = &ping_pong_set;
    an_uop u = parse(t, "x = f32\n(add (exp2 x) 1.0)");
    const an_uop before = u;
    CHECK_FAILS(t, an_rewrite(t->graph, &set, 1, &u, 1, NULL, NULL, "test"), AN_ERR_INTERNAL, "ping (test:1), pong (test:2)");
    CHECK_SAME(t, u, before);
}

static void a_rule_that_grows_for_ever_is_named(an_test *t)
{
    const an_ruleset *set = &grow_set;
    an_uop u = parse(t, "x = f32\n(exp2 x)");
    CHECK_FAILS(t, an_rewrite(t->graph, &set, 1, &u, 1, NULL, NULL, "test"), AN_ERR_INTERNAL, "does not end");
}

static void a_result_that_holds_its_node_is_a_circle(an_test *t)
{
    const an_ruleset *set = &wrap_set;
    an_uop u = parse(t, "x = f32\n(sin x)");
    CHECK_FAILS(t, an_rewrite(t->graph, &set, 1, &u, 1, NULL, NULL, "test"), AN_ERR_INTERNAL, "circle through the rules pong");
}

static void a_graph_100000_deep_is_rewritten(an_test *t)
{
    an_graph *g = an_test_graph(t);
    const an_uop x = parse(t, "x = f32");
    an_uop u = x;
    for (int i = 0; i < 100000; i++) {
        u = an_unary(g, i % 2 ? AN_OP_SIN : AN_OP_EXP2, u);
        u = an_binary(g, AN_OP_MUL, u, an_const_like(g, u, 1.0));
    }
    CHECK_OK(t, simplify(g, &u, 1, NULL));
    uint32_t depth = 0;
    for (; !an_uop_eq(u, x); depth++) {
        CHECK_EQ(t, an_uop_nsrc(g, u), 1);
        u = an_uop_src(g, u, 0);
    }
    CHECK_EQ(t, depth, 100000);
}

static void a_deep_sum_of_index_is_rewritten(an_test *t)
{
    an_graph *g = an_test_graph(t);
    an_uop u = an_index(g, 0);
    for (int i = 0; i < 100000; i++) u = an_binary(g, AN_OP_ADD, an_binary(g, AN_OP_FLOORDIV, u, an_index(g, 2)), an_uop_var(g, i % 2 ? "a" : "b", 0, 9));
    int64_t lo = 0, hi = 0;
    CHECK_OK(t, simplify(g, &u, 1, NULL));
    an_bounds(g, u, &lo, &hi);
    CHECK_EQ(t, lo, 0);
    CHECK_EQ(t, hi, 17); /* 9 + (17 // 2) */
}

static void a_million_nodes_take_less_than_two_seconds(an_test *t)
{
    an_graph *g = an_test_graph(t);
    enum { NODES = 1000000, WIDTH = 64 };
    an_uop row[WIDTH];
    for (uint32_t i = 0; i < WIDTH; i++) row[i] = an_load(g, an_param(g, AN_F32, i), an_index(g, 0), AN_UOP_NONE);
    uint32_t x = 1;
    while (an_graph_len(g) < NODES) {
        x = x * 1664525u + 1013904223u;
        an_uop *to = &row[x >> 8 & 63u];
        const an_uop a = row[x >> 14 & 63u], b = row[x >> 20 & 63u];
        switch (x >> 28) {
        case 0: *to = an_binary(g, AN_OP_MUL, a, an_const_float(g, AN_F32, 1.0)); break;
        case 1: *to = an_unary(g, AN_OP_EXP2, a); break;
        case 2: *to = an_select(g, an_binary(g, AN_OP_CMPLT, a, b), a, b); break;
        case 3: *to = an_binary(g, AN_OP_DIV, a, an_const_float(g, AN_F32, 4.0)); break;
        default: *to = an_binary(g, x >> 28 & 1u ? AN_OP_ADD : AN_OP_MUL, b, a);
        }
    }
    const double start = cpu_seconds();
    CHECK_OK(t, simplify(g, row, WIDTH, NULL));
    const double took = cpu_seconds() - start;
    printf("    %u nodes (%u with the new ones) in %.2f s\n", (unsigned)NODES, an_graph_len(g), took);
    if (AN_TEST_TIMES) CHECK(t, took < 2.0);
}

static void shared_nodes_are_rewritten_once(an_test *t)
{
    an_graph *g = an_test_graph(t);
    an_trace *trace = an_trace_create(t->ctx);
    an_uop u = an_binary(g, AN_OP_MUL, parse(t, "x = f32"), an_const_float(g, AN_F32, 1.0));
    u = an_unary(g, AN_OP_SIN, u);
    for (int i = 0; i < 60; i++) u = an_binary(g, AN_OP_MUL, u, u); /* 2^60 paths */
    CHECK_OK(t, simplify(g, &u, 1, trace));
    CHECK_EQ(t, an_trace_get_pass(trace, 0).nfired, 1);
    an_trace_destroy(trace);
}

static void roots_keep_their_places_and_none_stays_none(an_test *t)
{
    an_graph *g = an_test_graph(t);
    const an_uop x = parse(t, "x = f32"), one = an_const_float(g, AN_F32, 1.0);
    an_uop roots[3] = {an_binary(g, AN_OP_MUL, x, one), AN_UOP_NONE, an_binary(g, AN_OP_DIV, x, one)};
    CHECK_OK(t, simplify(g, roots, 3, NULL));
    CHECK_SAME(t, roots[0], x);
    CHECK_SAME(t, roots[1], AN_UOP_NONE);
    CHECK_SAME(t, roots[2], x);
}

/* ---- what rules leave on nodes ------------------------------------------------------------------------- */

static void a_node_remembers_the_rule_that_made_it_and_its_phase(an_test *t)
{
    an_graph *g = an_test_graph(t);
    an_graph_set_phase(g, AN_PHASE_BACKWARD);
    an_uop u = parse(t, "x = var 0..100\n(idiv x 7)");
    an_graph_set_phase(g, AN_PHASE_FORWARD);
    const char *set = NULL;
    CHECK_OK(t, simplify(g, &u, 1, NULL));
    const an_rule_info *rule = an_rule_find(an_node_of(g, u)->rule, &set);
    CHECK(t, rule != NULL);
    CHECK_STR(t, rule->name, "idiv_floor");
    CHECK_STR(t, set, "symbolic");
    CHECK_EQ(t, an_node_of(g, u)->phase, AN_PHASE_BACKWARD);
    CHECK(t, an_rule_find(0, NULL) == NULL);
    CHECK(t, an_rule_find(UINT32_MAX, NULL) == NULL);
}

static void every_rule_has_its_own_id_and_name(an_test *t)
{
    for (size_t i = 0; i < an_rule_count(); i++) {
        const an_rule_view r = an_rule_get(i);
        CHECK(t, r.name[0] && r.text[0] && r.file[0] && r.line > 0);
        for (size_t k = 0; k < i; k++) {
            const an_rule_view o = an_rule_get(k);
            CHECK(t, strcmp(o.set, r.set) != 0 || strcmp(o.name, r.name) != 0);
        }
    }
    CHECK(t, an_rule_mentions(0, "add") || an_rule_count() > 100);
    CHECK(t, !an_rule_mentions(0, "nonsense"));
}

static void a_literal_takes_the_shape_of_what_it_replaces(an_test *t)
{
    an_graph *g = an_test_graph(t);
    const an_uop dims[2] = {an_index(g, 3), an_index(g, 4)};
    const an_uop x = an_buffer_node(g, AN_I32, dims, 2);
    an_uop u = an_binary(g, AN_OP_MUL, x, an_const_int(g, AN_I32, 0));
    const an_shape want = an_uop_shape(g, u);
    CHECK_OK(t, simplify(g, &u, 1, NULL));
    CHECK_EQ(t, an_uop_op(g, u), AN_OP_EXPAND);
    CHECK(t, an_shape_eq(an_uop_shape(g, u), want));
    CHECK(t, an_rule_is_number(g, u, 0.0));
}

static void a_constant_is_seen_through_expand_and_broadcast(an_test *t)
{
    an_graph *g = an_test_graph(t);
    const an_uop dims[1] = {an_index(g, 8)}, one = an_const_float(g, AN_F32, 1.0), ones[1] = {an_index(g, 1)};
    const an_uop x = an_buffer_node(g, AN_F32, dims, 1);
    an_uop u = an_binary(g, AN_OP_MUL, an_expand_node(g, an_reshape_node(g, one, ones, 1), dims, 1), x);
    CHECK_OK(t, simplify(g, &u, 1, NULL));
    CHECK_SAME(t, u, x);
    const an_uop i = parse(t, "i = var 0..7");
    const an_uop ramp = an_uop_new_full(g, AN_OP_RAMP, AN_INDEX, 8, &i, 1, 0, 0);
    const an_uop v = an_load(g, an_param(g, AN_F32, 0), ramp, AN_UOP_NONE);
    u = an_binary(g, AN_OP_MUL, v, an_const_like(g, v, 1.0));
    CHECK_OK(t, simplify(g, &u, 1, NULL));
    CHECK_SAME(t, u, v);
}

/* ---- substitution -------------------------------------------------------------------------------------- */

static void substitution_is_simultaneous(an_test *t)
{
    an_graph *g = an_test_graph(t);
    const an_uop x = parse(t, "x = f32"), y = parse(t, "y = f32");
    const an_uop sx = an_unary(g, AN_OP_SIN, x), sy = an_unary(g, AN_OP_SIN, y);
    const an_uop u = an_binary(g, AN_OP_DIV, sx, sy);
    const an_uop from[2] = {x, y}, to[2] = {y, x};
    CHECK_SAME(t, an_substitute(g, u, from, to, 2), an_binary(g, AN_OP_DIV, sy, sx));
    const an_uop twice = an_unary(g, AN_OP_SIN, sx);
    CHECK_SAME(t, an_substitute(g, sx, &x, &sx, 1), twice); /* to holds from: not looked into again */
    CHECK_SAME(t, an_substitute(g, y, &x, &sx, 1), y);
}

static void substitution_goes_100000_deep(an_test *t)
{
    an_graph *g = an_test_graph(t);
    const an_uop x = parse(t, "x = f32"), y = parse(t, "y = f32");
    an_uop u = x, want = y;
    for (int i = 0; i < 100000; i++) {
        u = an_unary(g, AN_OP_SIN, u);
        want = an_unary(g, AN_OP_SIN, want);
    }
    CHECK_SAME(t, an_substitute(g, u, &x, &y, 1), want);
}

/* ---- bounds --------------------------------------------------------------------------------------------- */

static void check_bounds(an_test *t, const char *text, int64_t lo, int64_t hi)
{
    int64_t l = 0, h = 0;
    an_bounds(an_test_graph(t), parse(t, text), &l, &h);
    if (l != lo || h != hi)
        an_test_fail(__FILE__, __LINE__, "%s: bounds %lld..%lld, wanted %lld..%lld", text, (long long)l, (long long)h,
                     (long long)lo, (long long)hi);
}

static void bounds_are_those_of_interval_arithmetic(an_test *t)
{
    check_bounds(t, "x = var 0..9\n(add (mul x 3) 1)", 1, 28);
    check_bounds(t, "x = var 0..9\n(mul x -2)", -18, 0);
    check_bounds(t, "x = var -7..9\n(floordiv x 4)", -2, 2);
    check_bounds(t, "x = var -7..9\n(idiv x 4)", -1, 2);
    check_bounds(t, "x = var -7..9\n(floormod x 4)", 0, 3);
    check_bounds(t, "x = var -7..9\n(imod x 4)", -3, 3);
    check_bounds(t, "x = var 17..18\n(floormod x 8)", 1, 2);
    check_bounds(t, "x = var 0..3\n(floormod x 8)", 0, 3);
    check_bounds(t, "x = i8\n(add x 1)", -128, 127);         /* may wrap */
    check_bounds(t, "x = i8 0..100\n(add x 1)", 1, 101);
    check_bounds(t, "x = u8 0..200\n(and x 15)", 0, 15);
    check_bounds(t, "x = i32 0..5\ny = i32 0..9\n(or x y)", 0, 15);
    check_bounds(t, "x = i32 -8..8\n(shr x 1)", -4, 4);
    check_bounds(t, "x = var 0..9\n(cmplt x 10)", 1, 1);
    check_bounds(t, "x = var 0..9\ny = var 10..12\n(cmpeq x y)", 0, 0);
    check_bounds(t, "x = var 0..9\nc = bool\n(where c x 20)", 0, 20);
    check_bounds(t, "x = f32\n(cast:i8 x)", -128, 127);
    check_bounds(t, "x = f32\n(cmplt x x)", 0, 1);
    check_bounds(t, "x = f32\n(add x 1.0)", INT64_MIN, INT64_MAX);
    check_bounds(t, "x = u64\n(add x 1)", 0, INT64_MAX);
    check_bounds(t, "x = i64\n(add x 1)", INT64_MIN, INT64_MAX);
    check_bounds(t, "r = range 64\n(add r 1)", 1, 64);
    check_bounds(t, "x = var 0..9\ny = var 0..4\n(max x (mul y 4))", 0, 16);
    check_bounds(t, "x = var 0..9\ny = var -1..1\n(floordiv x y)", INT64_MIN, INT64_MAX); /* by 0, perhaps */
}

static void a_memo_can_be_narrowed(an_test *t)
{
    an_graph *g = an_test_graph(t);
    an_bounds_memo m;
    const an_uop x = parse(t, "x = var 0..99"), y = an_binary(g, AN_OP_MUL, x, an_index(g, 2));
    an_bounds_memo_init(&m, g);
    CHECK_EQ(t, an_bounds_get(&m, y).hi, 198);
    CHECK(t, an_bounds_narrow(&m, x, (an_interval){10, 20}));
    CHECK(t, an_bounds_restart(&m));
    CHECK_EQ(t, an_bounds_get(&m, x).lo, 10);
    CHECK_EQ(t, an_bounds_get(&m, y).hi, 40);
    CHECK(t, an_bounds_narrow(&m, x, (an_interval){50, 60}));
    CHECK(t, m.impossible);
    CHECK_EQ(t, an_bounds_get(&m, x).hi, 20);
    an_bounds_memo_fini(&m);
}

/* ---- the trace ------------------------------------------------------------------------------------------ */

static void a_trace_says_what_fired_where(an_test *t)
{
    an_graph *g = an_test_graph(t);
    an_trace *trace = an_trace_create(t->ctx);
    an_uop u = parse(t, "x = var 0..9\n(mul (add x 0) 1)");
    an_trace_pass_begin(trace, "outer", g);
    an_trace_note(trace, "kept %d apart", 2);
    CHECK_OK(t, simplify(g, &u, 1, trace));
    an_trace_pass_end(trace);
    CHECK_EQ(t, an_trace_npasses(trace), 2);
    const an_trace_pass outer = an_trace_get_pass(trace, 0), inner = an_trace_get_pass(trace, 1);
    CHECK_STR(t, outer.name, "outer");
    CHECK_STR(t, an_trace_get_note(trace, 0, 0), "kept 2 apart");
    CHECK_EQ(t, outer.nfired, 0);
    CHECK_STR(t, inner.name, "simplify");
    CHECK_EQ(t, inner.depth, 1);
    CHECK_EQ(t, inner.nfired, 2);
    CHECK_EQ(t, inner.nodes_in, 6); /* x, its bounds 0 and 9, 1, add, mul */
    CHECK_EQ(t, inner.nodes_out, 3);
    CHECK(t, inner.seconds >= 0.0);
    CHECK_STR(t, an_trace_get_fired(trace, 1, 0).rule, "add_zero");
    CHECK_STR(t, an_trace_get_fired(trace, 1, 1).rule, "mul_one");
    CHECK_SAME(t, an_trace_get_fired(trace, 1, 1).after, u);
    CHECK(t, an_trace_is_whole(trace));
    an_trace_destroy(trace);
}

static void no_trace_is_no_trouble(an_test *t)
{
    an_trace_pass_begin(NULL, "x", an_test_graph(t));
    an_trace_note(NULL, "%d", 1);
    an_trace_fire(NULL, NULL, AN_UOP_NONE, AN_UOP_NONE);
    an_trace_pass_nodes(NULL, 1, 2);
    an_trace_pass_end(NULL);
    an_trace_destroy(NULL);
}

/* ---- expressions ---------------------------------------------------------------------------------------- */

static void check_print(an_test *t, const char *text, const char *want)
{
    an_str s;
    an_str_init(&s, t->ctx);
    an_uop_print(&s, an_test_graph(t), parse(t, text), 32);
    CHECK_STR(t, an_str_cstr(&s), want);
    an_str_fini(&s);
}

static void expressions_are_read_as_they_are_printed(an_test *t)
{
    check_print(t, "x = var 0..9\n(add (mul x 3) 1)", "(add (mul x 3) 1)");
    check_print(t, "x = var 0..9\ny = add x 1 # a comment\n\n y", "(add x 1)");
    check_print(t, "x = f32\n(where (cmplt x 0.5) x -1)", "(where (cmplt x 0.5) x -1.0)");
    check_print(t, "x = i32 -5..5\n(cast:f32 (floordiv 7 x))", "(cast:f32 (floordiv 7 x))");
    check_print(t, "p = param f16\nr = range 8\nload p (add r 1) (cmplt r 7)", "(load:f16 p0 (add i0 1) (cmplt i0 7))");
    check_print(t, "(add 1 2)", "(add 1 2)");
    check_print(t, "true", "true");
}

static void bad_expressions_say_where(an_test *t)
{
    static const struct {
        const char *text, *part;
    } bad[] = {
        {"", "there is no expression"},
        {"(add 1", "line 1, column 2: this bracket is never closed"},
        {"(add 1 2))", "line 1, column 10: the expression is complete"},
        {"x = var 0..9\n(frob x 1)", "line 2, column 2: there is no op called 'frob'"},
        {"(add 1)", "'add' takes 2 operands, here it has 1"},
        {"(add x 1)", "line 1, column 6: 'x' is neither a number nor a name"},
        {"x = f32\n(floordiv x 2)", "'floordiv' is for integers, not for f32"},
        {"x = f32\ny = i32\n(add x y)", "'add' of f32 and i32"},
        {"x = var 9..0", "the bounds are empty"},
        {"x = var", "bounds are wanted"},
        {"(cast 1)", "say to what"},
        {"(cast:f99 1)", "a dtype is wanted"},
        {"(reshape 1)", "cannot be written here"},
        {"(load 1 2)", "wants a param first"},
        {"x = param q", "a dtype is wanted after 'param'"},
        {"x = range 0", "the number of steps"},
        {"(", "an op is wanted after '('"},
        {"(add 1 \x01)", "is not understood"},
        {"x = i32 1..2 3", "the line is complete"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        an_uop u = AN_UOP_NONE;
        CHECK_FAILS(t, an_expr_parse(an_test_graph(t), bad[i].text, &u), AN_ERR_FORMAT, bad[i].part);
    }
    an_uop u = parse(t, "(add 1 2)");
    CHECK_FAILS(t, an_expr_rewrite(t->graph, "nonsense", &u, NULL), AN_ERR_ARG, "nonsense");
}

/* ---- memory ---------------------------------------------------------------------------------------------- */

static an_status everything(an_ctx *ctx, void *arg)
{
    an_graph *g = NULL;
    an_trace *trace = NULL;
    an_uop u = AN_UOP_NONE;
    (void)arg;
    an_status st = an_graph_create(ctx, &g);
    if (st) return st;
    trace = an_trace_create(ctx);
    if (!trace) {
        st = AN_ERR_NOMEM;
        goto done;
    }
    st = an_expr_parse(g, "x = var 0..63\ny = var 0..7\np = param f32\ng = and (cmplt x 8) (cmplt (add x y) 10)\n"
                          "z = load p (floormod (add x (mul y 8)) 8) g\n(mul (add z 1.0) 1.0)", &u);
    if (!st) st = an_expr_rewrite(g, "symbolic", &u, trace);
    if (!st && !an_trace_is_whole(trace)) st = an_ctx_status(ctx);
    if (!st) {
        const an_uop x = an_uop_var(g, "x", 0, 63), y = an_uop_var(g, "y", 0, 7);
        st = an_uop_is_none(an_substitute(g, u, &x, &y, 1)) ? an_ctx_status(ctx) : AN_OK;
    }
done:
    an_trace_destroy(trace);
    an_graph_destroy(g);
    return st;
}

static void running_out_of_memory_is_an_error_and_no_leak(an_test *t)
{
    an_test_every_alloc_failure(t, everything, NULL);
}

AN_TEST_MAIN(AN_CASE(rules_that_undo_each_other_are_named), AN_CASE(a_rule_that_grows_for_ever_is_named),
             AN_CASE(a_result_that_holds_its_node_is_a_circle), AN_CASE(a_graph_100000_deep_is_rewritten),
             AN_CASE(a_deep_sum_of_index_is_rewritten), AN_CASE(a_million_nodes_take_less_than_two_seconds),
             AN_CASE(shared_nodes_are_rewritten_once), AN_CASE(roots_keep_their_places_and_none_stays_none),
             AN_CASE(a_node_remembers_the_rule_that_made_it_and_its_phase), AN_CASE(every_rule_has_its_own_id_and_name),
             AN_CASE(a_literal_takes_the_shape_of_what_it_replaces), AN_CASE(a_constant_is_seen_through_expand_and_broadcast),
             AN_CASE(substitution_is_simultaneous), AN_CASE(substitution_goes_100000_deep),
             AN_CASE(bounds_are_those_of_interval_arithmetic), AN_CASE(a_memo_can_be_narrowed),
             AN_CASE(a_trace_says_what_fired_where), AN_CASE(no_trace_is_no_trouble),
             AN_CASE(expressions_are_read_as_they_are_printed), AN_CASE(bad_expressions_say_where),
             AN_CASE(running_out_of_memory_is_an_error_and_no_leak))
