/* test_rules.c - every rule of every set, both sides on random values: the table of the set is the list, the text of the
 * rule says what it matches. And the proof that this can fail: each rule of wrong.upat is caught. */
#include "an_test.h"
#include "random.h"

#include "rewrite/rules.h"

#include <stdio.h>

extern const an_ruleset an_rules_wrong;

#define FAIL(...) an_test_fail(__FILE__, __LINE__, __VA_ARGS__)

enum { TRIES = 60000, ENOUGH = 60, ASSIGNMENTS = 12, GRAPH_MAX = 200000 };

typedef struct outcome {
    unsigned fired, compared;
    bool wrong;
} outcome;

static void report(an_graph *g, const an_rule_info *rule, an_uop before, an_uop after, value a, value b)
{
    an_str s;
    an_str_init(&s, an_graph_ctx(g));
    an_uop_print(&s, g, before, 16);
    an_str_put(&s, " is ");
    value_print(&s, an_uop_dtype(g, before), a);
    an_str_put(&s, "\n    but ");
    an_uop_print(&s, g, after, 16);
    an_str_put(&s, " is ");
    value_print(&s, an_uop_dtype(g, before), b);
    fprintf(stderr, "%s:%u: %s\n    %s\n", rule->file, rule->line, rule->text, an_str_cstr(&s));
    an_str_fini(&s);
}

/* Tries the rule on instances of its pattern until it has fired often enough, or been wrong. */
static outcome try_rule(an_ctx *ctx, const an_ruleset *set, const an_rule_info *info, bool loud)
{
    outcome o = {0};
    up_file f;
    rng r = rng_seeded(an_hash_bytes(1, info->name, strlen(info->name)));
    an_graph *g = NULL;
    an_rewriter rw = {0};
    up_file_init(&f, info->name, info->text, strlen(info->text));
    if (!up_parse(&f) || f.nrules != 1) FAIL("the text of '%s' does not parse: %s", info->name, f.messages);
    for (int i = 0; i < TRIES && o.fired < ENOUGH && !o.wrong; i++) {
        if (g && an_graph_len(g) > GRAPH_MAX) {
            an_rewriter_fini(&rw);
            an_graph_destroy(g);
            g = NULL;
        }
        if (!g) {
            if (an_graph_create(ctx, &g)) FAIL("%s", an_ctx_error(ctx));
            an_rewriter_init(&rw, g, NULL, NULL);
            rw.sets = &set;
            rw.nsets = 1;
        }
        const an_uop before = random_instance(g, &r, f.rules[0]);
        if (an_uop_is_none(before)) continue;
        const an_uop after = info->apply(&rw, before);
        if (an_uop_is_none(after)) continue;
        o.fired++;
        for (int k = 0; k < ASSIGNMENTS && !o.wrong; k++) {
            value a, b;
            const uint64_t seed = rng_next(&r);
            if (!value_of(g, before, seed, &a)) continue;
            if (!value_of(g, after, seed, &b)) continue;
            o.compared++;
            o.wrong = !value_same(an_uop_dtype(g, before), a, b);
            if (o.wrong && loud) report(g, info, before, after, a, b);
        }
    }
    an_rewriter_fini(&rw);
    an_graph_destroy(g);
    up_file_fini(&f);
    if (an_ctx_status(ctx)) FAIL("%s: %s", info->name, an_ctx_error(ctx));
    return o;
}

static void check_set(an_test *t, const an_ruleset *set)
{
    unsigned wrong = 0, untried = 0;
    for (uint32_t i = 0; i < set->nrules; i++) {
        const outcome o = try_rule(t->ctx, set, &set->rules[i], true);
        wrong += o.wrong;
        if (o.fired < ENOUGH / 10 || o.compared < ENOUGH / 10) {
            untried++;
            fprintf(stderr, "%s: rule '%s' fired %u times on random instances, %u were compared\n", set->name,
                        set->rules[i].name, o.fired, o.compared);
        }
    }
    CHECK_EQ(t, wrong, 0);
    CHECK_EQ(t, untried, 0);
}

static void both_sides_of_every_rule_agree(an_test *t)
{
#define AN_RULESET(name) check_set(t, &an_rules_##name);
#define AN_GRAD_RULESET(name)
#include "rewrite/rulesets.def"
#undef AN_RULESET
#undef AN_GRAD_RULESET
}

static void a_wrong_rule_is_caught(an_test *t)
{
    for (uint32_t i = 0; i < an_rules_wrong.nrules; i++) {
        const outcome o = try_rule(t->ctx, &an_rules_wrong, &an_rules_wrong.rules[i], false);
        if (!o.wrong) FAIL("nobody noticed that '%s' is wrong (it fired %u times)", an_rules_wrong.rules[i].name, o.fired);
    }
}

/* The whole set, to the end, on whole expressions: the value is that of the original. */
static void random_expressions_keep_their_value(an_test *t)
{
    rng r = rng_seeded(7);
    const an_ruleset *set = &an_rules_symbolic;
    unsigned compared = 0;
    for (int i = 0; i < 3000; i++) {
        an_graph *g = NULL;
        CHECK_OK(t, an_graph_create(t->ctx, &g));
        const an_uop before = random_expr(g, &r, random_dtype(&r), 5);
        an_uop after = before;
        CHECK_OK(t, an_rewrite(g, &set, 1, &after, 1, NULL, NULL, "test"));
        for (int k = 0; k < ASSIGNMENTS; k++) {
            value a, b;
            const uint64_t seed = rng_next(&r);
            if (!value_of(g, before, seed, &a) || !value_of(g, after, seed, &b)) continue;
            compared++;
            if (value_same(an_uop_dtype(g, before), a, b)) continue;
            report(g, &set->rules[0], before, after, a, b);
            FAIL("rewriting changed the value of expression %d", i);
        }
        /* what came out is a fixpoint */
        an_uop again = after;
        CHECK_OK(t, an_rewrite(g, &set, 1, &again, 1, NULL, NULL, "test"));
        CHECK_SAME(t, again, after);
        an_graph_destroy(g);
    }
    CHECK(t, compared > 10000);
}

/* Bounds hold for every value, of every node. */
static void bounds_hold(an_test *t)
{
    rng r = rng_seeded(11);
    unsigned tight = 0, compared = 0;
    for (int i = 0; i < 3000; i++) {
        an_graph *g = NULL;
        CHECK_OK(t, an_graph_create(t->ctx, &g));
        an_dtype dtype = random_dtype(&r);
        while (an_dtype_kind_of(dtype) == AN_KIND_FLOAT) dtype = random_dtype(&r);
        const an_uop u = random_expr(g, &r, dtype, 5);
        int64_t lo = 0, hi = 0;
        an_bounds(g, u, &lo, &hi);
        for (int k = 0; k < 2 * ASSIGNMENTS; k++) {
            value a;
            if (!value_of(g, u, rng_next(&r), &a)) continue;
            compared++;
            const bool above = dtype == AN_U64 && a.v.i < 0; /* more than an int64 says: hi must be open */
            if (above ? hi == INT64_MAX : a.v.i >= lo && a.v.i <= hi) {
                tight += a.v.i == lo || a.v.i == hi;
                continue;
            }
            an_str s;
            an_str_init(&s, t->ctx);
            an_uop_print(&s, g, u, 16);
            FAIL("%s is %lld, outside of %lld..%lld", an_str_cstr(&s), (long long)a.v.i, (long long)lo, (long long)hi);
        }
        an_graph_destroy(g);
    }
    CHECK(t, compared > 10000);
    CHECK(t, tight > compared / 10);
}

/* Under its gate, an expression keeps its value; elsewhere it may not. */
static void valid_expressions_keep_their_value_under_the_gate(an_test *t)
{
    rng r = rng_seeded(13);
    unsigned changed = 0, open = 0;
    for (int i = 0; i < 4000; i++) {
        an_graph *g = NULL;
        CHECK_OK(t, an_graph_create(t->ctx, &g));
        /* what the gate bounds is part of the expression */
        const an_uop x = random_expr(g, &r, AN_INDEX, 2), d = an_index(g, 1 + rng_below(&r, 16));
        const an_uop c = an_index(g, rng_below(&r, 24));
        an_uop gate = rng_chance(&r, 50) ? an_binary(g, AN_OP_CMPLT, x, c) : an_not(g, an_binary(g, AN_OP_CMPLT, c, x));
        for (uint32_t k = rng_below(&r, 3); k > 0; k--) gate = an_binary(g, AN_OP_AND, gate, random_expr(g, &r, AN_BOOL, 2));
        const an_uop sum = rng_chance(&r, 50) ? x : an_binary(g, AN_OP_ADD, x, random_expr(g, &r, AN_INDEX, 2));
        const an_uop expr = an_binary(g, rng_chance(&r, 50) ? AN_OP_FLOORDIV : AN_OP_FLOORMOD, sum, d);
        const an_uop plain = an_simplify(g, expr), valid = an_simplify_valid(g, gate, expr);
        CHECK(t, !an_uop_is_none(plain) && !an_uop_is_none(valid));
        changed += !an_uop_eq(plain, valid);
        for (int k = 0; k < ASSIGNMENTS; k++) {
            value a, b, holds;
            const uint64_t seed = rng_next(&r);
            if (!value_of(g, gate, seed, &holds) || !holds.v.i || !value_of(g, expr, seed, &a)) continue;
            if (!value_of(g, valid, seed, &b)) continue;
            open++;
            if (value_same(AN_INDEX, a, b)) continue;
            an_str s;
            an_str_init(&s, t->ctx);
            an_uop_print(&s, g, gate, 16);
            report(g, &an_rules_symbolic.rules[0], expr, valid, a, b);
            FAIL("wrong under the gate %s", an_str_cstr(&s));
        }
        an_graph_destroy(g);
    }
    CHECK(t, changed > 120);
    CHECK(t, open > 1000);
}

AN_TEST_MAIN(AN_CASE(both_sides_of_every_rule_agree), AN_CASE(a_wrong_rule_is_caught), AN_CASE(random_expressions_keep_their_value),
             AN_CASE(bounds_hold), AN_CASE(valid_expressions_keep_their_value_under_the_gate))
