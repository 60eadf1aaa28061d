/* test_matcher.c - the C that upatc writes against a matcher that interprets the same rules: slow, obvious, written from
 * docs/UPAT.md. Each order of each commutative op is tried as one more pattern; conditions are walked as trees. */
#include "an_test.h"
#include "random.h"

#include "rewrite/rules.h"

#include <math.h>

#define FAIL(...) an_test_fail(__FILE__, __LINE__, __VA_ARGS__)

/* ---- the functions of conditions, by name ------------------------------------------------------------ */

typedef struct arg {
    an_uop u;
    int64_t i;
} arg;

#define NODE(name)                                                                                                         \
    static int64_t call_##name(an_rewriter *rw, const arg *a)                                                              \
    {                                                                                                                      \
        return an_rule_##name(rw, a[0].u);                                                                                 \
    }
#define NODE_NODE(name)                                                                                                    \
    static int64_t call_##name(an_rewriter *rw, const arg *a)                                                              \
    {                                                                                                                      \
        return an_rule_##name(rw, a[0].u, a[1].u);                                                                         \
    }
#define NODE_INT(name)                                                                                                     \
    static int64_t call_##name(an_rewriter *rw, const arg *a)                                                              \
    {                                                                                                                      \
        return an_rule_##name(rw, a[0].u, a[1].i);                                                                         \
    }
#define INT(name)                                                                                                          \
    static int64_t call_##name(an_rewriter *rw, const arg *a)                                                              \
    {                                                                                                                      \
        return an_rule_##name(rw, a[0].i);                                                                                 \
    }
#define FUNCTIONS                                                                                                          \
    NODE(min) NODE(max) NODE(is_int) NODE(is_float) NODE(is_bool) NODE(is_index) NODE(bits) NODE(is_sum) NODE(commutes)    \
    NODE(no_wrap) NODE(never_minus_zero) NODE(factor) NODE_NODE(same) NODE_NODE(less) NODE_NODE(same_dtype) NODE_NODE(is_lossless)         \
    NODE_NODE(fits) NODE_INT(holds) INT(is_pow2) INT(log2) INT(abs)
FUNCTIONS

static const struct {
    const char *name;
    int64_t (*call)(an_rewriter *rw, const arg *a);
} functions[] = {
#undef NODE
#undef NODE_NODE
#undef NODE_INT
#undef INT
#define NODE(name) {#name, call_##name},
#define NODE_NODE(name) {#name, call_##name},
#define NODE_INT(name) {#name, call_##name},
#define INT(name) {#name, call_##name},
    FUNCTIONS
};

/* ---- matching ---------------------------------------------------------------------------------------- */

enum { NAMES = 16 };
typedef struct state {
    an_rewriter *rw;
    an_graph *g;
    const char *name[NAMES];
    an_uop to[NAMES];
    size_t n;
    unsigned flips, comm; /* bit k: the k-th commutative op, counted from the outside, has its operands exchanged */
} state;

static an_uop *lookup(state *s, const char *name)
{
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->name[i], name) == 0) return &s->to[i];
    return NULL;
}

static bool has_facts(state *s, const up_term *t, an_uop u)
{
    return (t->dtypes >> an_uop_dtype(s->g, u) & 1u) && (!t->is_const || an_rule_is_const(s->g, u));
}

static bool match(state *s, const up_term *t, an_uop u)
{
    if (t->kind == UP_LIT)
        return an_rule_is_number(s->g, u, t->lit) && (!t->lit_is_bool || an_uop_dtype(s->g, u) == AN_BOOL);
    if (t->name && strcmp(t->name, "_") != 0) {
        const an_uop *bound = lookup(s, t->name);
        if (bound) return an_uop_eq(*bound, u);
        s->name[s->n] = t->name;
        s->to[s->n++] = u;
    }
    if (!has_facts(s, t, u)) return false;
    if (t->kind == UP_VAR) return true;
    const uint32_t n = an_uop_nsrc(s->g, u);
    if (!(t->ops >> an_uop_op(s->g, u) & 1u) || (t->rest ? n < t->nsrc : n != t->nsrc)) return false;
    bool flip = false;
    if (!t->rest && t->nsrc == 2 && up_ops_have(t->ops, UP_COMM)) flip = s->flips >> s->comm++ & 1u;
    for (uint32_t i = 0; i < t->nsrc; i++)
        if (!match(s, t->src[i], an_uop_src(s->g, u, flip ? 1 - i : i))) return false;
    for (uint32_t i = (uint32_t)t->nsrc; t->rest && i < n; i++)
        if (!has_facts(s, t->rest, an_uop_src(s->g, u, i))) return false;
    return true;
}

static unsigned count_comm(const up_term *t)
{
    unsigned n = t->kind == UP_OP && !t->rest && t->nsrc == 2 && up_ops_have(t->ops, UP_COMM);
    for (size_t i = 0; i < t->nsrc; i++) n += count_comm(t->src[i]);
    return n;
}

/* ---- conditions --------------------------------------------------------------------------------------- */

static int64_t eval(state *s, const up_expr *e, bool *ok)
{
    switch (e->kind) {
    case UP_NUM: return e->num;
    case UP_NAME: {
        int64_t v = 0;
        if (!an_rule_int(s->g, *lookup(s, e->name), &v)) *ok = false;
        return v;
    }
    case UP_NOT: return !eval(s, e->arg[0], ok);
    case UP_AND: return eval(s, e->arg[0], ok) && *ok && eval(s, e->arg[1], ok);
    case UP_OR: return eval(s, e->arg[0], ok) || eval(s, e->arg[1], ok);
    case UP_COMPARE: {
        const int64_t a = eval(s, e->arg[0], ok), b = eval(s, e->arg[1], ok);
        if (strcmp(e->name, "==") == 0) return a == b;
        if (strcmp(e->name, "!=") == 0) return a != b;
        if (strcmp(e->name, "<=") == 0) return a <= b;
        if (strcmp(e->name, ">=") == 0) return a >= b;
        return e->name[0] == '<' ? a < b : a > b;
    }
    case UP_ARITH: {
        const int64_t a = eval(s, e->arg[0], ok), b = eval(s, e->arg[1], ok);
        switch (e->name[0]) {
        case '+': return an_rule_add(a, b, ok);
        case '-': return an_rule_sub(a, b, ok);
        case '*': return an_rule_mul(a, b, ok);
        case '/': return an_rule_div(a, b, ok);
        default: return an_rule_mod(a, b, ok);
        }
    }
    case UP_CALL: {
        arg a[4] = {{AN_UOP_NONE, 0}};
        const char *kinds = up_function_args(e->name);
        for (size_t i = 0; i < e->narg && i < 4; i++) {
            const bool node = kinds ? kinds[i] == 'n' : e->arg[i]->kind == UP_NAME;
            if (node)
                a[i].u = *lookup(s, e->arg[i]->name);
            else
                a[i].i = eval(s, e->arg[i], ok);
        }
        for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
            if (strcmp(functions[i].name, e->name) == 0) return functions[i].call(s->rw, a);
        FAIL("this test does not know the function '%s': add it", e->name);
        return 0;
    }
    }
    return 0;
}

/* ---- results ------------------------------------------------------------------------------------------- */

static bool has_helper(const up_term *t)
{
    if (t->kind == UP_HELPER) return true;
    for (size_t i = 0; i < t->nsrc; i++)
        if (has_helper(t->src[i])) return true;
    return false;
}

static an_uop build(state *s, const up_term *t, an_uop like, bool *ok);

static an_uop literal(state *s, const up_term *t, an_uop like, bool *ok)
{
    if (t->kind == UP_LIT) return an_const_like(s->g, like, t->lit);
    const int64_t v = eval(s, t->expr, ok);
    return *ok ? an_rule_int_like(s->rw, like, v) : AN_UOP_NONE;
}

static an_uop build_op(state *s, const up_term *t, an_uop like, bool *ok)
{
    an_uop src[4], typed = AN_UOP_NONE;
    const an_op op = an_op_parse(t->op_text);
    const bool where = op == AN_OP_WHERE;
    for (uint32_t i = 0; i < t->nsrc; i++) {
        if (t->src[i]->kind == UP_LIT || t->src[i]->kind == UP_INT) continue;
        src[i] = build(s, t->src[i], like, ok);
        if (!*ok) return AN_UOP_NONE;
        if (an_uop_is_none(typed) && !(where && i == 0)) typed = src[i];
    }
    for (uint32_t i = 0; i < t->nsrc; i++) {
        if (t->src[i]->kind != UP_LIT && t->src[i]->kind != UP_INT) continue;
        src[i] = where && i == 0 ? an_const_int(s->g, AN_BOOL, t->src[i]->lit != 0.0)
                                 : literal(s, t->src[i], an_uop_is_none(typed) ? like : typed, ok);
        if (!*ok) return AN_UOP_NONE;
    }
    const an_uop from = t->like ? *lookup(s, t->like) : AN_UOP_NONE;
    const an_dtype dtype = t->dtype ? (an_dtype)t->dtype : AN_DTYPE_NONE;
    return an_rule_build(s->rw, op ? op : an_uop_op(s->g, from), dtype, from, src, (uint32_t)t->nsrc);
}

static an_uop build(state *s, const up_term *t, an_uop like, bool *ok)
{
    if (t->kind == UP_VAR) return *lookup(s, t->name);
    if (t->kind == UP_OP) return build_op(s, t, like, ok);
    return literal(s, t, like, ok);
}

typedef enum verdict { NO, YES, MAYBE } verdict;

/* Does the rule match u; and to what, where no helper has a say. */
static verdict interpret(an_rewriter *rw, const up_rule *r, an_uop u, an_uop *out)
{
    const unsigned n = count_comm(r->pattern);
    const bool helper = has_helper(r->result[0]);
    *out = AN_UOP_NONE;
    for (unsigned k = 0; k < 1u << n; k++) {
        state s = {.rw = rw, .g = rw->graph};
        for (unsigned b = 0; b < n; b++) s.flips |= (k >> (n - 1 - b) & 1u) << b; /* the outermost changes last */
        bool ok = true;
        if (!match(&s, r->pattern, u)) continue;
        if (r->cond && (!eval(&s, r->cond, &ok) || !ok)) continue;
        if (helper) return MAYBE;
        an_uop x = build(&s, r->result[0], u, &ok);
        if (!ok || an_uop_is_none(x)) continue;
        x = an_rule_done(rw, &an_rules_symbolic.rules[0], 0, u, x);
        if (an_uop_is_none(x)) continue;
        *out = x;
        return YES;
    }
    return NO;
}

/* ---- cases ----------------------------------------------------------------------------------------------- */

static void compare(an_rewriter *rw, const up_file *f, const an_ruleset *set, an_uop u, unsigned *fired)
{
    const an_rule_info *first = NULL;
    for (uint32_t i = 0; i < set->nrules; i++) {
        an_uop want = AN_UOP_NONE;
        const an_uop got = set->rules[i].apply(rw, u);
        const verdict v = interpret(rw, f->rules[i], u, &want);
        if (!an_uop_is_none(got)) {
            fired[i]++;
            if (!first) first = &set->rules[i];
        }
        if (v == MAYBE || (v == NO && an_uop_is_none(got)) || (v == YES && an_uop_eq(want, got))) continue;
        an_str s;
        an_str_init(&s, an_graph_ctx(rw->graph));
        an_uop_print(&s, rw->graph, u, 12);
        an_str_put(&s, " gives ");
        an_uop_print(&s, rw->graph, got, 12);
        an_str_put(&s, ", and by the book ");
        an_uop_print(&s, rw->graph, want, 12);
        FAIL("%s: %s", set->rules[i].text, an_str_cstr(&s));
    }
    rw->fired = NULL;
    const an_uop r = set->match(rw, u);
    if ((first != NULL) != !an_uop_is_none(r) || (first && rw->fired != first))
        FAIL("the set applies '%s', the first rule that matches is '%s'", rw->fired ? rw->fired->name : "nothing",
             first ? first->name : "none");
}

static void parse_set(up_file *f, an_str *text, an_ctx *ctx, const an_ruleset *set)
{
    an_str_init(text, ctx);
    for (uint32_t i = 0; i < set->nrules; i++) an_str_printf(text, "%s\n", set->rules[i].text);
    up_file_init(f, set->name, an_str_cstr(text), text->len);
    if (!up_parse(f) || !up_check(f) || f->nrules != set->nrules) FAIL("the texts of %s do not parse: %s", set->name, f->messages);
}

static void check_set(an_test *t, const an_ruleset *set)
{
    up_file f;
    an_str text;
    unsigned fired[AN_RULES_PER_SET] = {0}, some = 0;
    rng r = rng_seeded(17);
    parse_set(&f, &text, t->ctx, set);
    for (int i = 0; i < 250; i++) {
        an_graph *g = NULL;
        an_rewriter rw;
        an_uop_vec order = {0};
        CHECK_OK(t, an_graph_create(t->ctx, &g));
        an_rewriter_init(&rw, g, NULL, NULL);
        rw.sets = &set;
        rw.nsets = 1;
        an_uop roots[6];
        uint32_t n = 0;
        roots[n++] = random_expr(g, &r, random_dtype(&r), 5);
        while (n < 6) { /* and what rules are looking for */
            roots[n] = random_instance(g, &r, f.rules[rng_below(&r, (uint32_t)f.nrules)]);
            if (!an_uop_is_none(roots[n])) n++;
        }
        CHECK_OK(t, an_toposort(g, roots, n, &order));
        for (size_t k = 0; k < order.len; k++) compare(&rw, &f, set, order.data[k], fired);
        an_vec_fini(t->ctx, &order);
        an_rewriter_fini(&rw);
        an_graph_destroy(g);
    }
    for (uint32_t i = 0; i < set->nrules; i++) some += fired[i] > 0;
    CHECK(t, some > set->nrules / 2);
    up_file_fini(&f);
    an_str_fini(&text);
}

static void generated_and_interpreted_matching_agree(an_test *t)
{
#define AN_RULESET(name) check_set(t, &an_rules_##name);
#define AN_GRAD_RULESET(name)
#include "rewrite/rulesets.def"
#undef AN_RULESET
#undef AN_GRAD_RULESET
}

AN_TEST_MAIN(AN_CASE(generated_and_interpreted_matching_agree))
