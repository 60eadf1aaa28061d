/* check.c - what the grammar cannot say: names bound and used, numbers of operands, types of expressions; and across rules,
 * those that can never be reached and those that never end.
 *
 * Both of the latter come from one question, "is every node that matches B also matched by A", asked of patterns: A with
 * holes, B with its names held fixed. It answers no when in doubt, so what it reports is so. */
#include "upatc.h"

#include <string.h>

/* ---- names -------------------------------------------------------------------------------------- */

static up_var *find_var(up_rule *r, const char *name)
{
    for (size_t i = 0; i < r->nvars; i++)
        if (strcmp(r->vars[i].name, name) == 0) return &r->vars[i];
    return NULL;
}

static void add_var(up_file *f, up_rule *r, const char *name, up_term *first, up_pos pos)
{
    if ((r->nvars & (r->nvars - 1)) == 0) {
        up_var *grown = up_alloc(f, (r->nvars ? 2 * r->nvars : 1) * sizeof *grown);
        if (r->nvars) memcpy(grown, r->vars, r->nvars * sizeof *grown);
        r->vars = grown;
    }
    r->vars[r->nvars++] = (up_var){.name = name, .first = first, .pos = pos};
}

static void bind(up_file *f, up_rule *r, up_term *t)
{
    if (!t->name || strcmp(t->name, "_") == 0) return;
    up_var *v = find_var(r, t->name);
    if (!v) {
        add_var(f, r, t->name, t, t->pos);
    } else if (!v->first) {
        up_error(f, t->pos,
                 r->is_jvp ? "'d' is the tangent in jvp rules: choose another name"
                           : "'g' is the cotangent in gradient rules: choose another name");
    } else if (t->kind == UP_OP) {
        up_error(f, t->pos, "'%s' is bound already: a node in brackets needs a new name", t->name);
    } else {
        v->uses++;
        if (t->dtypes != UP_ANY_DTYPE || t->is_const)
            up_error(f, t->pos, "say what '%s' must be where it is first named", t->name);
    }
}

/* The number of sources every op in the set has; -1 when it varies. */
static int arity_of(uint64_t ops)
{
    int arity = -2;
    for (int op = 1; op < UP_OP_COUNT; op++) {
        if (!(ops >> op & 1u)) continue;
        if (arity != -2 && arity != up_ops[op].arity) return -1;
        arity = up_ops[op].arity;
    }
    return arity < 0 ? -1 : arity;
}

static void check_pattern(up_file *f, up_rule *r, up_term *t)
{
    bind(f, r, t);
    if (t->dtypes == 0) up_error(f, t->pos, "no dtype is all of that at once");
    if (t->kind != UP_OP) return;
    const int arity = arity_of(t->ops);
    if (arity >= 0 && ((t->rest && t->nsrc > (size_t)arity) || (!t->rest && t->nsrc != (size_t)arity)))
        up_error(f, t->pos, "'%s' has %d source%s, this pattern %zu", t->op_text, arity, arity == 1 ? "" : "s", t->nsrc);
    for (size_t i = 0; i < t->nsrc; i++) check_pattern(f, r, t->src[i]);
}

static up_var *use(up_file *f, up_rule *r, const char *name, up_pos pos)
{
    up_var *v = find_var(r, name);
    if (!v)
        up_error(f, pos, "'%s' is not bound by the pattern", name);
    else
        v->uses++;
    return v;
}

/* ---- expressions -------------------------------------------------------------------------------- */

/* Functions whose arguments upatc knows: n a node, i an integer. In others a lone name is a node. */
static const struct {
    const char *name, *args;
} functions[] = {
    {"min", "n"},      {"max", "n"},      {"is_int", "n"}, {"is_float", "n"}, {"is_bool", "n"}, {"is_index", "n"},
    {"same", "nn"},    {"less", "nn"},    {"is_pow2", "i"},  {"log2", "i"},   {"abs", "i"},      {"gcd", "ii"},    {"factor", "n"},
};

const char *up_function_args(const char *name)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strcmp(functions[i].name, name) == 0) return functions[i].args;
    return NULL;
}

static bool is_truth(const up_expr *e)
{
    return e->kind == UP_NOT || e->kind == UP_AND || e->kind == UP_OR || e->kind == UP_COMPARE || e->kind == UP_CALL;
}

static void check_expr(up_file *f, up_rule *r, up_expr *e);

static void check_integer(up_file *f, up_rule *r, up_expr *e)
{
    if (e->kind == UP_NAME) {
        const up_var *v = use(f, r, e->name, e->pos);
        if (v && (!v->first || !v->first->is_const))
            up_error(f, e->pos, "'%s' is used as an integer, but is bound to any node: write %s:const in the pattern",
                     e->name, e->name);
        return;
    }
    if (is_truth(e) && e->kind != UP_CALL) up_error(f, e->pos, "an integer is wanted here, not a condition");
    check_expr(f, r, e);
}

static void check_truth(up_file *f, up_rule *r, up_expr *e)
{
    if (!is_truth(e)) {
        up_error(f, e->pos, "a condition is wanted here: a comparison or a call");
        return;
    }
    check_expr(f, r, e);
}

static void check_expr(up_file *f, up_rule *r, up_expr *e)
{
    switch (e->kind) {
    case UP_NUM: return;
    case UP_NAME: check_integer(f, r, e); return;
    case UP_CALL: {
        const char *args = up_function_args(e->name);
        if (args && strlen(args) != e->narg) {
            up_error(f, e->pos, "'%s' takes %zu argument%s, here it has %zu", e->name, strlen(args), args[1] ? "s" : "",
                     e->narg);
            return;
        }
        for (size_t i = 0; i < e->narg; i++) {
            const bool node = args ? args[i] == 'n' : e->arg[i]->kind == UP_NAME;
            if (!node)
                check_integer(f, r, e->arg[i]);
            else if (e->arg[i]->kind == UP_NAME)
                use(f, r, e->arg[i]->name, e->arg[i]->pos);
            else
                up_error(f, e->arg[i]->pos, "'%s' wants a name here", e->name);
        }
        return;
    }
    case UP_NOT:
    case UP_AND:
    case UP_OR:
        for (size_t i = 0; i < e->narg; i++) check_truth(f, r, e->arg[i]);
        return;
    case UP_COMPARE:
    case UP_ARITH:
        for (size_t i = 0; i < e->narg; i++) check_integer(f, r, e->arg[i]);
        return;
    }
}

/* ---- results ------------------------------------------------------------------------------------ */

static bool is_typed_by_others(const up_term *t)
{
    return t->kind == UP_LIT || t->kind == UP_INT;
}

static void check_result(up_file *f, up_rule *r, up_term *t);

static void check_built(up_file *f, up_rule *r, up_term *t)
{
    const int arity = arity_of(t->ops), op = up_op_parse(t->op_text);
    bool literals = false, typed = false;
    if (t->nsrc > UP_SRCS_MAX) up_error(f, t->pos, "'%s' is given more than %d sources", t->op_text, UP_SRCS_MAX);
    if (arity >= 0 && t->nsrc != (size_t)arity)
        up_error(f, t->pos, "'%s' has %d source%s, here it is given %zu", t->op_text, arity, arity == 1 ? "" : "s",
                 t->nsrc);
    if (t->like) {
        const up_var *v = use(f, r, t->like, t->pos);
        if (v && !op && (!v->first || v->first->kind != UP_OP || (v->first->ops & ~t->ops)))
            up_error(f, t->pos, "'%s' does not say which op: '%s' must name a node matched by that class", t->op_text,
                     t->like);
    } else if (!op) {
        up_error(f, t->pos, "'%s' is a class: say whose op to take, (%s:n ...)", t->op_text, t->op_text);
    } else if (!t->dtype && up_ops[op].result == UP_RESULT_ARG) {
        up_error(f, t->pos, "the dtype of '%s' follows from nothing: write (%s:f32 ...) or (%s:x ...) for that of x",
                 t->op_text, t->op_text, t->op_text);
    }
    for (size_t i = 0; i < t->nsrc; i++) {
        const bool gate = op == UP_OP_WHERE && i == 0; /* a bool, whatever the others are */
        check_result(f, r, t->src[i]);
        if (is_typed_by_others(t->src[i]))
            literals = literals || !gate;
        else
            typed = typed || !gate;
    }
    if (literals && (!up_ops_have(t->ops, UP_ELEM) || op == UP_OP_CAST || op == UP_OP_BITCAST))
        up_error(f, t->pos, "nothing gives the literals in '%s' a dtype: make them in a helper", t->op_text);
    if (literals && !typed && up_ops_have(t->ops, UP_CMP))
        up_error(f, t->pos, "nothing gives the literals of this comparison a dtype");
}

static void check_result(up_file *f, up_rule *r, up_term *t)
{
    switch (t->kind) {
    case UP_VAR:
        if (strcmp(t->name, "_") == 0)
            up_error(f, t->pos, "'_' has no value here");
        else
            use(f, r, t->name, t->pos);
        return;
    case UP_LIT:
    case UP_NOTHING: return;
    case UP_INT: check_integer(f, r, t->expr); return;
    case UP_HELPER:
        if (t->nsrc > UP_ARGS_MAX) up_error(f, t->pos, "'%s' is given more than %d arguments", t->name, UP_ARGS_MAX);
        for (size_t i = 0; i < t->nsrc; i++) check_result(f, r, t->src[i]);
        return;
    case UP_OP: check_built(f, r, t); return;
    }
}

/* ---- one pattern covers another ------------------------------------------------------------------ */

enum { BINDINGS_MAX = 32 };
typedef struct bindings {
    const char *name[BINDINGS_MAX];
    const up_term *to[BINDINGS_MAX];
    size_t n;
} bindings;

/* The dtypes and constness known of a name of rule r; a term's own where r is NULL. */
static const up_term *facts(up_rule *r, const up_term *t)
{
    if (r && t->kind == UP_VAR && strcmp(t->name, "_") != 0) {
        const up_var *v = find_var(r, t->name);
        if (v && v->first) return v->first;
    }
    return t;
}

static bool same_term(const up_term *a, const up_term *b)
{
    if (a->kind != b->kind) return false;
    switch (a->kind) {
    case UP_VAR: return strcmp(a->name, b->name) == 0 && strcmp(a->name, "_") != 0;
    case UP_LIT: return memcmp(&a->lit, &b->lit, sizeof a->lit) == 0 && a->lit_is_bool == b->lit_is_bool;
    case UP_OP:
        if (a->ops != b->ops || a->nsrc != b->nsrc || a->rest || b->rest || a->like || b->like || a->dtype != b->dtype ||
            (a->ops & (a->ops - 1)))
            return false;
        for (size_t i = 0; i < a->nsrc; i++)
            if (!same_term(a->src[i], b->src[i])) return false;
        return true;
    default: return false;
    }
}

static bool covers(const up_term *a, up_rule *ra, const up_term *b, up_rule *rb, bindings *s);

static bool covers_sources(const up_term *a, up_rule *ra, const up_term *b, up_rule *rb, bindings *s, bool flip)
{
    for (size_t i = 0; i < a->nsrc; i++) {
        const size_t j = flip ? a->nsrc - 1 - i : i;
        if (!covers(a->src[i], ra, b->src[j], rb, s)) return false;
    }
    return true;
}

/* Does a match everything that b can be? rb: whose names those of b are. s grows, and is as before on false. */
static bool covers(const up_term *a, up_rule *ra, const up_term *b, up_rule *rb, bindings *s)
{
    const bindings before = *s;
    const up_term *need = facts(ra, a), *have = facts(rb, b);
    if (a->kind == UP_VAR) {
        if (need->is_const && !(b->kind == UP_LIT || (b->kind == UP_VAR && have->is_const))) return false;
        if (need->dtypes != UP_ANY_DTYPE && !(b->kind != UP_LIT && (have->dtypes & ~need->dtypes) == 0)) return false;
        if (strcmp(a->name, "_") == 0) return true;
        for (size_t i = 0; i < s->n; i++)
            if (strcmp(s->name[i], a->name) == 0) return same_term(s->to[i], b);
        if (s->n == BINDINGS_MAX) return false;
        s->name[s->n] = a->name;
        s->to[s->n++] = b;
        return true;
    }
    if (a->kind == UP_LIT) return same_term(a, b);
    if (a->kind != UP_OP || b->kind != UP_OP || (b->ops & ~a->ops) || a->rest || b->rest || a->nsrc != b->nsrc ||
        (a->dtypes != UP_ANY_DTYPE && (b->dtypes & ~a->dtypes)))
        return false;
    if (a->name && s->n < BINDINGS_MAX) {
        s->name[s->n] = a->name;
        s->to[s->n++] = b;
    }
    const bindings here = *s;
    if (covers_sources(a, ra, b, rb, s, false)) return true;
    *s = here;
    if (a->nsrc == 2 && up_ops_have(a->ops, UP_COMM) && covers_sources(a, ra, b, rb, s, true)) return true;
    *s = before;
    return false;
}

/* ---- across rules -------------------------------------------------------------------------------- */

static void check_reachable(up_file *f)
{
    for (size_t b = 1; b < f->nrules; b++)
        for (size_t a = 0; a < b; a++) {
            up_rule *ra = f->rules[a], *rb = f->rules[b];
            bindings s = {.n = 0};
            bool helper = false; /* may decline, and then the later rule has its turn */
            for (size_t i = 0; i < ra->nresult; i++) helper = helper || ra->result[i]->kind == UP_HELPER;
            if (ra->cond || helper || !covers(ra->pattern, ra, rb->pattern, rb, &s)) continue;
            up_error(f, rb->pos, "'%s' is never reached: '%s' in line %u matches all that it does", rb->name, ra->name,
                     ra->pos.line);
            break;
        }
}

/* t with the names of s put in. */
static up_term *instance(up_file *f, const up_term *t, const bindings *s)
{
    up_term *copy = up_alloc(f, sizeof *copy);
    *copy = *t;
    if (t->kind == UP_VAR)
        for (size_t i = 0; i < s->n; i++)
            if (strcmp(s->name[i], t->name) == 0) *copy = *s->to[i];
    if (t->kind != UP_OP) return copy;
    copy->src = NULL;
    copy->nsrc = 0;
    for (size_t i = 0; i < t->nsrc; i++) up_push(f, &copy->src, &copy->nsrc, instance(f, t->src[i], s));
    return copy;
}

/* A node inside t, or t, that r matches whatever its names stand for; s says how. */
static const up_term *redex(const up_term *t, up_rule *owner, up_rule *r, bindings *s)
{
    *s = (bindings){.n = 0};
    if (covers(r->pattern, r, t, owner, s)) return t;
    if (t->kind != UP_OP) return NULL;
    for (size_t i = 0; i < t->nsrc; i++) {
        const up_term *found = redex(t->src[i], owner, r, s);
        if (found) return found;
    }
    return NULL;
}

static void check_ends(up_file *f)
{
    for (size_t a = 0; a < f->nrules; a++) {
        up_rule *ra = f->rules[a];
        bindings s;
        if (ra->cond || ra->is_grad) continue;
        if (redex(ra->result[0], ra, ra, &s)) {
            up_error(f, ra->pos, "'%s' never ends: it matches its own result", ra->name);
            continue;
        }
        for (size_t b = a + 1; b < f->nrules; b++) {
            up_rule *rb = f->rules[b];
            bindings back;
            if (rb->cond || !redex(ra->result[0], ra, rb, &s)) continue;
            if (redex(instance(f, rb->result[0], &s), ra, ra, &back))
                up_error(f, rb->pos, "'%s' and '%s' in line %u undo each other: they never end", rb->name, ra->name,
                         ra->pos.line);
        }
    }
}

static void check_rule(up_file *f, up_rule *r)
{
    const unsigned before = f->nerrors;
    if (r->is_grad) add_var(f, r, r->is_jvp ? "d" : "g", NULL, r->pos);
    check_pattern(f, r, r->pattern);
    if (r->pattern->kind != UP_OP) {
        up_error(f, r->pattern->pos, "a rule matches an op: write it in brackets");
        return;
    }
    if (r->cond) check_truth(f, r, r->cond);
    const int arity = arity_of(r->pattern->ops);
    if (r->is_grad && arity >= 0 && r->nresult > (size_t)arity)
        up_error(f, r->result[(size_t)arity]->pos, "'%s' has %d source%s: this expression is one too many",
                 r->pattern->op_text, arity, arity == 1 ? "" : "s");
    for (size_t i = 0; i < r->nresult; i++) {
        if (r->result[i]->all && r->is_jvp)
            up_error(f, r->result[i]->pos, "'all' is for gradient rules: a jvp rule has an expression for each source");
        else if (r->result[i]->all && r->nresult > 1)
            up_error(f, r->result[i]->pos, "'all' fills every cotangent: nothing can stand beside it");
        check_result(f, r, r->result[i]);
    }
    if (r->nvars > UP_VARS_MAX) up_error(f, r->pos, "'%s' binds more than %d names", r->name, UP_VARS_MAX);
    for (size_t i = 0; i < r->nvars; i++) {
        const up_var *v = &r->vars[i];
        if (f->nerrors == before && v->first && v->uses == 0 && v->name[0] != '_')
            up_error(f, v->pos, "'%s' is never used: write _ or _%s", v->name, v->name);
    }
}

bool up_check(up_file *f)
{
    for (size_t i = 0; i < f->nrules; i++) {
        for (size_t j = 0; j < i; j++)
            if (strcmp(f->rules[i]->name, f->rules[j]->name) == 0) {
                up_error(f, f->rules[i]->pos, "there is a rule '%s' already, in line %u", f->rules[i]->name,
                         f->rules[j]->pos.line);
                break;
            }
        check_rule(f, f->rules[i]);
    }
    if (f->nerrors == 0) {
        check_reachable(f);
        check_ends(f);
    }
    return f->nerrors == 0;
}
