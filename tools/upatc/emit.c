/* emit.c - C from checked rules. The shape of what comes out, for one rule:
 *
 *   static an_uop rule_NAME(an_rewriter *rw, an_uop n)
 *   {
 *       tests of the op, its sources from left to right; a mismatch is `return` or, inside a commutative op that is tried
 *       in both orders (a for loop of two), `continue`
 *       tests of the condition
 *       the result, built from the inside out, every node remembering the rule
 *   }
 *
 * then the table of rules, then a switch over the op that tries the rules which can match it, in file order. */
#include "upatc.h"

#include <math.h>
#include <string.h>

typedef struct emitter {
    up_file *f;
    up_out *o;
    const up_rule *r;
    size_t index;
    unsigned nloops, ntemps, indent;
    const char *c_name[UP_VARS_MAX]; /* of the names of r, by index; NULL for not bound yet */
    bool as_int[UP_VARS_MAX];        /* an int64_t i_NAME exists */
    char flip[16];          /* the loop variable of the root, or "" */
} emitter;

UP_PRINTF(2, 3)
static void line(emitter *e, const char *fmt, ...)
{
    va_list args;
    up_out_printf(e->o, "%*s", (int)(4 * e->indent), "");
    va_start(args, fmt);
    up_out_vprintf(e->o, fmt, args);
    va_end(args);
    up_out_printf(e->o, "\n");
}

UP_PRINTF(2, 3)
static const char *text(emitter *e, const char *fmt, ...)
{
    up_out o = {0};
    va_list args;
    va_start(args, fmt);
    up_out_vprintf(&o, fmt, args);
    va_end(args);
    const char *s = up_strndup(e->f, o.data, o.len);
    up_out_fini(&o);
    return s;
}

static size_t var_index(const emitter *e, const char *name)
{
    size_t i = 0;
    while (i < e->r->nvars && strcmp(e->r->vars[i].name, name) != 0) i++;
    return i;
}

static const char *miss(const emitter *e)
{
    if (e->nloops) return "continue";
    return e->r->is_grad ? "return false" : "return AN_UOP_NONE";
}

static const char *c_double(emitter *e, double v)
{
    if (v == HUGE_VAL || v == -HUGE_VAL) return v < 0 ? "-HUGE_VAL" : "HUGE_VAL";
    const char *s = text(e, "%.17g", v);
    return s[strcspn(s, ".e")] ? s : text(e, "%s.0", s);
}

/* ---- matching ----------------------------------------------------------------------------------- */

static void match_facts(emitter *e, const up_term *t, const char *v)
{
    const int dtype = up_dtype_of_mask(t->dtypes);
    if (t->is_const) line(e, "if (!an_at_is_const(g, %s)) %s;", v, miss(e));
    if (dtype)
        line(e, "if (an_at_dtype(g, %s) != AN_%s) %s;", v, up_dtype_id(dtype), miss(e));
    else if (t->dtypes != UP_ANY_DTYPE)
        line(e, "if (!an_rule_is_dtype(g, %s, 0x%xu)) %s;", v, (unsigned)t->dtypes, miss(e));
}

/* Matches anything, and nobody asks what. */
static bool is_plain(const emitter *e, const up_term *t)
{
    if (t->kind != UP_VAR || t->is_const || t->dtypes != UP_ANY_DTYPE) return false;
    const size_t k = var_index(e, t->name);
    return k == e->r->nvars || e->r->vars[k].uses == 0;
}

static bool has_other_order(const emitter *e, const up_term *t)
{
    return t->nsrc == 2 && !t->rest && up_ops_have(t->ops, UP_COMM) &&
           !(is_plain(e, t->src[0]) && is_plain(e, t->src[1]));
}

static void match(emitter *e, const up_term *t, const char *v, bool is_root);

/* Fetches source i of v into a C variable and matches it. */
static void match_source(emitter *e, const up_term *t, const char *v, const char *i)
{
    if (is_plain(e, t)) return;
    const char *name = NULL;
    const size_t k = t->name ? var_index(e, t->name) : e->r->nvars;
    if (t->kind != UP_LIT && k < e->r->nvars && !e->c_name[k])
        name = text(e, "v_%s", t->name);
    else
        name = text(e, "s%u", e->ntemps++);
    line(e, "const an_uop %s = an_at_src(g, %s, %s);", name, v, i);
    match(e, t, name, false);
}

static void match_op(emitter *e, const up_term *t, const char *v, bool is_root)
{
    const bool any_arity = up_op_parse(t->op_text) ? up_ops[up_op_parse(t->op_text)].arity < 0 : true;
    if (up_op_parse(t->op_text))
        line(e, "if (an_at_op(g, %s) != AN_OP_%s) %s;", v, up_ops[up_op_parse(t->op_text)].id, miss(e));
    else
        line(e, "if (!an_rule_is_op(g, %s, UINT64_C(0x%llx))) %s; /* %s */", v, (unsigned long long)t->ops, miss(e),
             t->op_text);
    match_facts(e, t, v);
    if (any_arity && !t->rest) line(e, "if (an_at_nsrc(g, %s) != %zu) %s;", v, t->nsrc, miss(e));
    if (any_arity && t->rest && t->nsrc) line(e, "if (an_at_nsrc(g, %s) < %zu) %s;", v, t->nsrc, miss(e));
    if (has_other_order(e, t)) {
        const char *f = text(e, "f%u", e->nloops);
        line(e, "for (uint32_t %s = 0; %s < 2; %s++) {", f, f, f);
        e->nloops++;
        e->indent++;
        if (is_root && strlen(f) < sizeof e->flip) memcpy(e->flip, f, strlen(f) + 1);
        match_source(e, t->src[0], v, f);
        match_source(e, t->src[1], v, text(e, "1 - %s", f));
    } else {
        for (size_t i = 0; i < t->nsrc; i++) match_source(e, t->src[i], v, text(e, "%zu", i));
    }
    if (t->rest && (t->rest->is_const || t->rest->dtypes != UP_ANY_DTYPE))
        line(e, "if (!an_rule_is_rest(g, %s, %zu, %s, 0x%xu)) %s;", v, t->nsrc, t->rest->is_const ? "true" : "false",
             (unsigned)t->rest->dtypes, miss(e));
}

static void match(emitter *e, const up_term *t, const char *v, bool is_root)
{
    if (t->kind == UP_LIT) {
        if (t->lit_is_bool) line(e, "if (an_at_dtype(g, %s) != AN_BOOL) %s;", v, miss(e));
        line(e, "if (!an_at_is_number(g, %s, %s)) %s;", v, c_double(e, t->lit), miss(e));
        return;
    }
    const size_t k = t->name && strcmp(t->name, "_") != 0 ? var_index(e, t->name) : e->r->nvars;
    if (k < e->r->nvars) {
        if (e->c_name[k]) {
            line(e, "if (!an_uop_eq(%s, %s)) %s;", v, e->c_name[k], miss(e));
            return;
        }
        e->c_name[k] = v;
    }
    if (t->kind == UP_OP)
        match_op(e, t, v, is_root);
    else
        match_facts(e, t, v);
}

/* ---- integers and conditions -------------------------------------------------------------------- */

/* The int64_t of every name that expr uses as one, before the expression itself. */
static void need_ints(emitter *e, const up_expr *x, bool node)
{
    if (x->kind == UP_NAME && !node) {
        const size_t k = var_index(e, x->name);
        if (e->as_int[k]) return;
        e->as_int[k] = true;
        line(e, "int64_t i_%s = 0;", x->name);
        line(e, "if (!an_rule_int(g, %s, &i_%s)) %s;", e->c_name[k], x->name, miss(e));
        return;
    }
    const char *args = x->kind == UP_CALL ? up_function_args(x->name) : NULL;
    for (size_t i = 0; i < x->narg; i++) {
        const bool is_node = x->kind == UP_CALL && (args ? args[i] == 'n' : x->arg[i]->kind == UP_NAME);
        need_ints(e, x->arg[i], is_node);
    }
}

static bool can_fail(const up_expr *x)
{
    if (x->kind == UP_ARITH) return true;
    for (size_t i = 0; i < x->narg; i++)
        if (can_fail(x->arg[i])) return true;
    return false;
}

static const char *c_expr(emitter *e, const up_expr *x)
{
    switch (x->kind) {
    case UP_NUM: return text(e, "INT64_C(%lld)", (long long)x->num);
    case UP_NAME: return text(e, "i_%s", x->name);
    case UP_NOT: return text(e, x->arg[0]->kind == UP_CALL ? "!%s" : "!(%s)", c_expr(e, x->arg[0]));
    case UP_AND: return text(e, "(%s && %s)", c_expr(e, x->arg[0]), c_expr(e, x->arg[1]));
    case UP_OR: return text(e, "(%s || %s)", c_expr(e, x->arg[0]), c_expr(e, x->arg[1]));
    case UP_COMPARE: return text(e, "%s %s %s", c_expr(e, x->arg[0]), x->name, c_expr(e, x->arg[1]));
    case UP_ARITH: {
        const char *fn = x->name[0] == '+' ? "add" : x->name[0] == '-' ? "sub" : x->name[0] == '*' ? "mul" : x->name[0] == '/' ? "div" : "mod";
        return text(e, "an_rule_%s(%s, %s, &ok)", fn, c_expr(e, x->arg[0]), c_expr(e, x->arg[1]));
    }
    case UP_CALL: {
        up_out o = {0};
        const char *args = up_function_args(x->name);
        up_out_printf(&o, "an_rule_%s(rw", x->name);
        for (size_t i = 0; i < x->narg; i++) {
            const bool node = args ? args[i] == 'n' : x->arg[i]->kind == UP_NAME;
            up_out_printf(&o, ", %s", node ? e->c_name[var_index(e, x->arg[i]->name)] : c_expr(e, x->arg[i]));
        }
        up_out_printf(&o, ")");
        const char *s = up_strndup(e->f, o.data, o.len);
        up_out_fini(&o);
        return s;
    }
    }
    return "0";
}

static void condition(emitter *e, const up_expr *x)
{
    /* The terms of an outermost `and` become tests of their own: cheap ones can end the match early. */
    if (x->kind == UP_AND) {
        condition(e, x->arg[0]);
        condition(e, x->arg[1]);
        return;
    }
    need_ints(e, x, false);
    if (can_fail(x)) {
        line(e, "ok = true;");
        line(e, "if (!(%s) || !ok) %s;", c_expr(e, x), miss(e));
    } else {
        line(e, x->kind == UP_CALL ? "if (!%s) %s;" : "if (!(%s)) %s;", c_expr(e, x), miss(e));
    }
}

/* ---- results ------------------------------------------------------------------------------------ */

/* Integers that results contain, worked out before anything is built, since they may fail. */
static void result_ints(emitter *e, up_term *t)
{
    if (t->kind == UP_INT) {
        need_ints(e, t->expr, false);
        if (can_fail(t->expr)) line(e, "ok = true;");
        t->name = text(e, "k%u", e->ntemps++);
        line(e, "const int64_t %s = %s;", t->name, c_expr(e, t->expr));
        if (can_fail(t->expr)) line(e, "if (!ok) %s;", miss(e));
    }
    for (size_t i = 0; i < t->nsrc; i++) result_ints(e, t->src[i]);
}

static const char *build(emitter *e, const up_term *t, const char *like);

static const char *c_literal(emitter *e, const up_term *t, const char *like)
{
    if (t->kind == UP_INT) return text(e, "an_rule_int_like(rw, %s, %s)", like, t->name);
    return text(e, "an_const_like(g, %s, %s)", like, c_double(e, t->lit));
}

static const char *build_helper(emitter *e, const up_term *t, const char *like)
{
    const char *arg[UP_ARGS_MAX] = {0};
    for (size_t i = 0; i < t->nsrc && i < UP_ARGS_MAX; i++) {
        const up_term *a = t->src[i];
        if (a->kind == UP_INT)
            arg[i] = a->name;
        else if (a->kind == UP_LIT && a->lit_is_int)
            arg[i] = text(e, "INT64_C(%lld)", (long long)a->lit);
        else
            arg[i] = build(e, a, like);
    }
    up_out o = {0};
    up_out_printf(&o, "an_rule_%s(rw", t->name);
    for (size_t i = 0; i < t->nsrc && i < UP_ARGS_MAX; i++) up_out_printf(&o, ", %s", arg[i]);
    if (t->all) up_out_printf(&o, ", out");
    up_out_printf(&o, ")");
    const char *s = up_strndup(e->f, o.data, o.len);
    up_out_fini(&o);
    return s;
}

static const char *build_op(emitter *e, const up_term *t, const char *like)
{
    const char *src[UP_SRCS_MAX] = {0};
    const bool is_where = t->ops == (uint64_t)1 << UP_OP_WHERE, is_cmp = up_ops_have(t->ops, UP_CMP);
    const int op = up_op_parse(t->op_text);
    const char *sibling = NULL, *any = NULL;
    if (is_cmp) like = NULL; /* its operands have a dtype of their own */
    for (size_t i = 0; i < t->nsrc && i < UP_SRCS_MAX; i++) {
        const bool gate = is_where && i == 0;
        if (t->src[i]->kind == UP_LIT || t->src[i]->kind == UP_INT) continue;
        src[i] = build(e, t->src[i], gate || (op && up_ops[op].result == UP_RESULT_ARG) ? NULL : like);
        if (!sibling && !gate) sibling = src[i];
        if (!any) any = src[i];
    }
    if (!sibling) sibling = like;
    for (size_t i = 0; i < t->nsrc && i < UP_SRCS_MAX; i++) {
        const bool gate = is_where && i == 0;
        if (src[i]) continue;
        const char *lit = gate ? text(e, "an_const_int(g, AN_BOOL, %d)", t->src[i]->lit != 0.0)
                               : c_literal(e, t->src[i], sibling ? sibling : any ? any : "n");
        src[i] = text(e, "t%u", e->ntemps++);
        line(e, "const an_uop %s = %s;", src[i], lit);
    }
    const char *out = text(e, "t%u", e->ntemps++);
    const char *c_op = op ? text(e, "AN_OP_%s", up_ops[op].id) : text(e, "an_at_op(g, %s)", e->c_name[var_index(e, t->like)]);
    const bool simple = op && !t->like && !t->dtype && up_ops[op].traits & UP_ELEM;
    if (simple && t->nsrc == 1) {
        line(e, "const an_uop %s = an_unary(g, %s, %s);", out, c_op, src[0]);
    } else if (simple && t->nsrc == 2) {
        line(e, "const an_uop %s = an_binary(g, %s, %s, %s);", out, c_op, src[0], src[1]);
    } else if (simple && is_where) {
        line(e, "const an_uop %s = an_select(g, %s, %s, %s);", out, src[0], src[1], src[2]);
    } else {
        up_out o = {0};
        for (size_t i = 0; i < t->nsrc && i < UP_SRCS_MAX; i++) up_out_printf(&o, "%s%s", i ? ", " : "", src[i]);
        line(e, "const an_uop %s_src[%zu] = {%s};", out, t->nsrc ? t->nsrc : 1, t->nsrc ? o.data : "{0}");
        up_out_fini(&o);
        line(e, "const an_uop %s = an_rule_build(rw, %s, %s, %s, %s_src, %zu);", out, c_op,
             t->dtype ? text(e, "AN_%s", up_dtype_id(t->dtype)) : "AN_DTYPE_NONE",
             t->like ? e->c_name[var_index(e, t->like)] : "AN_UOP_NONE", out, t->nsrc);
    }
    return out;
}

/* The C name of the node t stands for, made by lines before. like: whose dtype a literal takes; NULL: the root's. */
static const char *build(emitter *e, const up_term *t, const char *like)
{
    switch (t->kind) {
    case UP_VAR: return e->c_name[var_index(e, t->name)];
    case UP_LIT:
    case UP_INT: {
        const char *lit = c_literal(e, t, like ? like : "n");
        const char *out = text(e, "t%u", e->ntemps++);
        line(e, "const an_uop %s = %s;", out, lit);
        return out;
    }
    case UP_HELPER: {
        const char *call = build_helper(e, t, like);
        const char *out = text(e, "t%u", e->ntemps++);
        line(e, "const an_uop %s = %s;", out, call);
        return out;
    }
    case UP_OP: return build_op(e, t, like);
    case UP_NOTHING: return "AN_UOP_NONE";
    }
    return "AN_UOP_NONE";
}

static void result_rewrite(emitter *e)
{
    line(e, "const uint32_t saved = an_graph_set_rule(g, FIRST_ID + %zu);", e->index);
    const char *r = build(e, e->r->result[0], "n");
    if (!e->nloops) {
        line(e, "return an_rule_done(rw, &rules[%zu], saved, n, %s);", e->index, r);
        return;
    }
    line(e, "const an_uop done = an_rule_done(rw, &rules[%zu], saved, n, %s);", e->index, r);
    line(e, "if (!an_uop_is_none(done)) return done;");
}

/* Each source that has a tangent adds its expression, built only then: a tangent that is zero costs nothing. */
static void result_jvp(emitter *e)
{
    up_out all = {0};
    line(e, "const uint32_t saved = an_graph_set_rule(g, FIRST_ID + %zu);", e->index);
    line(e, "for (uint32_t i = 0; i < an_at_nsrc(g, n); i++) out[i] = AN_UOP_NONE;");
    for (size_t i = 0; i < e->r->nresult; i++) {
        if (e->r->result[i]->kind == UP_NOTHING) continue;
        const char *slot = e->flip[0] ? text(e, i ? "1 - %s" : "%s", e->flip) : text(e, "%zu", i);
        line(e, "if (!an_uop_is_none(in[%s])) {", slot);
        e->indent++;
        line(e, "const an_uop v_d = in[%s];", slot);
        const char *r = build(e, e->r->result[i], "n");
        line(e, "(void)v_d;");
        line(e, "out[%s] = %s;", slot, r);
        e->indent--;
        line(e, "}");
        up_out_printf(&all, " && an_uop_is_none(out[%s]) == an_uop_is_none(in[%s])", slot, slot);
    }
    line(e, "if (an_rule_jvp_done(rw, &rules[%zu], saved, n, out)%s) return true;", e->index, all.data ? all.data : "");
    up_out_fini(&all);
    if (!e->nloops) line(e, "return false;");
}

static void result_grad(emitter *e)
{
    line(e, "const uint32_t saved = an_graph_set_rule(g, FIRST_ID + %zu);", e->index);
    line(e, "for (uint32_t i = 0; i < an_at_nsrc(g, n); i++) out[i] = AN_UOP_NONE;");
    if (e->r->result[0]->all) {
        const char *call = build_helper(e, e->r->result[0], "n");
        line(e, "const bool ok_all = %s;", call);
        line(e, "if (an_rule_grad_done(rw, &rules[%zu], saved, n, v_g, out) && ok_all) return true;", e->index);
    } else {
        up_out all = {0};
        for (size_t i = 0; i < e->r->nresult; i++) {
            if (e->r->result[i]->kind == UP_NOTHING) continue;
            const char *slot = e->flip[0] ? text(e, i ? "1 - %s" : "%s", e->flip) : text(e, "%zu", i);
            const char *like = text(e, "like%zu", i);
            line(e, "const an_uop %s = an_at_src(g, n, %s);", like, slot);
            const char *r = build(e, e->r->result[i], like);
            line(e, "(void)%s;", like);
            line(e, "out[%s] = %s;", slot, r);
            up_out_printf(&all, " && !an_uop_is_none(out[%s])", slot);
        }
        line(e, "if (an_rule_grad_done(rw, &rules[%zu], saved, n, v_g, out)%s) return true;", e->index,
             all.data ? all.data : "");
        up_out_fini(&all);
    }
    if (!e->nloops) line(e, "return false;");
}

static bool rule_can_fail(const up_rule *r, const up_term *t)
{
    if (t->kind == UP_INT && can_fail(t->expr)) return true;
    for (size_t i = 0; i < t->nsrc; i++)
        if (rule_can_fail(r, t->src[i])) return true;
    return false;
}

static void emit_rule(emitter *e)
{
    const up_rule *r = e->r;
    bool ok = r->cond && can_fail(r->cond);
    for (size_t i = 0; i < r->nresult; i++) ok = ok || rule_can_fail(r, r->result[i]);
    up_out_printf(e->o, "/* %s:%u  %s */\n", e->f->path, r->pos.line, r->text);
    if (r->is_grad)
        up_out_printf(e->o, "static bool rule_%s(an_rewriter *rw, an_uop n, const an_uop *in, an_uop *out)\n{\n", r->name);
    else
        up_out_printf(e->o, "static an_uop rule_%s(an_rewriter *rw, an_uop n)\n{\n", r->name);
    e->indent = 1;
    line(e, "an_graph *const g = rw->graph;");
    if (ok) line(e, "bool ok = true;");
    if (r->is_jvp)
        e->c_name[var_index(e, "d")] = "v_d";
    else if (r->is_grad)
        e->c_name[var_index(e, "g")] = "v_g";
    if (r->is_grad && !r->is_jvp) line(e, "const an_uop v_g = in[0];");
    match(e, r->pattern, "n", true);
    if (r->cond) condition(e, r->cond);
    for (size_t i = 0; i < r->nresult; i++) result_ints(e, r->result[i]);
    if (r->is_jvp)
        result_jvp(e);
    else if (r->is_grad)
        result_grad(e);
    else
        result_rewrite(e);
    while (e->indent > 1) {
        e->indent--;
        line(e, "}");
    }
    if (e->nloops) line(e, r->is_grad ? "return false;" : "return AN_UOP_NONE;");
    up_out_printf(e->o, "}\n\n");
}

/* ---- tables ------------------------------------------------------------------------------------- */

static void collect_ops(const up_term *t, uint8_t *seen, uint8_t *order, size_t *n)
{
    const int op = t->kind == UP_OP ? up_op_parse(t->op_text) : 0;
    if (op && !seen[op]) {
        seen[op] = 1;
        order[(*n)++] = (uint8_t)op;
    }
    for (size_t i = 0; i < t->nsrc; i++) collect_ops(t->src[i], seen, order, n);
}

static void put_c_string(up_out *o, const char *s)
{
    up_out_printf(o, "\"");
    for (; *s; s++) {
        if (*s == '"' || *s == '\\') up_out_printf(o, "\\");
        up_out_printf(o, "%c", *s);
    }
    up_out_printf(o, "\"");
}

static void emit_tables(up_file *f, const up_emit_options *opt, up_out *o)
{
    for (size_t i = 0; i < f->nrules; i++) {
        uint8_t seen[UP_OP_COUNT] = {0}, order[UP_OP_COUNT] = {0};
        size_t n = 0;
        collect_ops(f->rules[i]->pattern, seen, order, &n);
        for (size_t k = 0; k < f->rules[i]->nresult; k++) collect_ops(f->rules[i]->result[k], seen, order, &n);
        up_out_printf(o, "static const uint8_t ops_%s[] = {", f->rules[i]->name);
        for (size_t k = 0; k < n; k++) up_out_printf(o, "AN_OP_%s, ", up_ops[order[k]].id);
        up_out_printf(o, "0};\n");
    }
    up_out_printf(o, "\nstatic const an_rule_info rules[%zu] = {\n", f->nrules);
    for (size_t i = 0; i < f->nrules; i++) {
        const up_rule *r = f->rules[i];
        up_out_printf(o, "    {.name = \"%s\", .file = ", r->name);
        put_c_string(o, f->path);
        up_out_printf(o, ", .line = %u,\n     .text = ", r->pos.line);
        put_c_string(o, r->text);
        up_out_printf(o, ",\n     .ops = ops_%s, .nops = sizeof ops_%s - 1, .%s = rule_%s},\n", r->name, r->name,
                      r->is_grad ? "grad" : "apply", r->name);
    }
    up_out_printf(o, "};\n\n");
    if (f->is_grad)
        up_out_printf(o, "static bool match(an_rewriter *rw, an_uop n, const an_uop *in, an_uop *out)\n{\n"
                         "    switch (an_at_op(rw->graph, n)) {\n");
    else
        up_out_printf(o, "static an_uop match(an_rewriter *rw, an_uop n)\n{\n    an_uop r = AN_UOP_NONE;\n"
                         "    switch (an_at_op(rw->graph, n)) {\n");
    for (int op = 1; op < UP_OP_COUNT; op++) {
        bool any = false;
        for (size_t i = 0; i < f->nrules; i++) {
            if (!(f->rules[i]->pattern->ops >> op & 1u)) continue;
            if (!any) up_out_printf(o, "    case AN_OP_%s:\n", up_ops[op].id);
            any = true;
            if (f->is_grad)
                up_out_printf(o, "        if (rule_%s(rw, n, in, out)) return true;\n", f->rules[i]->name);
            else
                up_out_printf(o, "        if (!an_uop_is_none(r = rule_%s(rw, n))) return r;\n", f->rules[i]->name);
        }
        if (any) up_out_printf(o, "        break;\n");
    }
    up_out_printf(o, "    default: break;\n    }\n    return %s;\n}\n\n", f->is_grad ? "false" : "r");
    up_out_printf(o, "const %s %s = {.name = \"%s\", .rules = rules, .nrules = %zu, .first_id = FIRST_ID, .match = match%s};\n",
                  f->is_grad ? "an_grad_ruleset" : "an_ruleset", opt->symbol, opt->set, f->nrules,
                  f->is_jvp ? ", .is_forward = true" : "");
}

void up_emit(up_file *f, const up_emit_options *opt, up_out *o)
{
    up_out_printf(o, "/* Made by upatc from %s: change that. */\n", f->path);
    up_out_printf(o, "#include \"rewrite/match.h\"\n#include \"rewrite/rules.h\"\n");
    for (size_t i = 0; i < f->nincludes; i++) up_out_printf(o, "#include \"%s\"\n", f->includes[i]);
    up_out_printf(o, "#include <math.h>\n\n");
    if (opt->number >= 0)
        up_out_printf(o, "enum { FIRST_ID = %ld * AN_RULES_PER_SET };\n", opt->number);
    else
        up_out_printf(o, "enum { FIRST_ID = AN_RULESET_NUMBER_%s * AN_RULES_PER_SET };\n", opt->set);
    up_out_printf(o, "_Static_assert(%zu <= AN_RULES_PER_SET, \"too many rules for one set\");\n", f->nrules);
    up_out_printf(o, "static const an_rule_info rules[%zu];\n\n", f->nrules);
    for (size_t i = 0; i < f->nrules; i++) {
        emitter e = {.f = f, .o = o, .r = f->rules[i], .index = i};
        emit_rule(&e);
    }
    emit_tables(f, opt, o);
}
