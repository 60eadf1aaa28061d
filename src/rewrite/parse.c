/* parse.c - an_expr_parse: expressions as text, for `anneal explain`, golden files and tests. A stack of open brackets, no
 * recursion. */
#include <anneal/inspect.h>

#include "ir/uop.h"

#include <stdlib.h>

enum { DEPTH_MAX = 64, ITEMS_MAX = 8, WORD_MAX = 64 };

typedef struct item {
    an_uop u;      /* none: a number that waits for its dtype */
    double number;
    bool is_bool, is_float;
} item;

typedef struct bracket {
    an_op op;
    an_dtype dtype;
    unsigned col;
    uint32_t n;
    item items[ITEMS_MAX];
} bracket;

typedef struct binding {
    char name[WORD_MAX];
    an_uop u;
} binding;

typedef struct parser {
    an_graph *g;
    an_ctx *ctx;
    const char *line, *at, *end; /* the line, where in it, its end */
    unsigned number;
    AN_VEC(binding) names;
    uint32_t nranges, nparams;
    bracket stack[DEPTH_MAX];
    uint32_t depth;
    an_status st;
} parser;

AN_PRINTF(3, 4)
static bool fail(parser *p, const char *at, const char *fmt, ...)
{
    an_str s;
    va_list args;
    if (p->st) return false;
    an_str_init(&s, p->ctx);
    va_start(args, fmt);
    an_str_vprintf(&s, fmt, args);
    va_end(args);
    p->st = an_fail(p->ctx, AN_ERR_FORMAT, "line %u, column %u: %s", p->number, (unsigned)(at - p->line) + 1, an_str_cstr(&s));
    an_str_fini(&s);
    return false;
}

/* Memory ran out under a constructor, and the context has said so. */
static bool check(parser *p, an_uop u)
{
    if (!an_uop_is_none(u)) return true;
    if (!p->st) p->st = an_ctx_status(p->ctx) ? an_ctx_status(p->ctx) : AN_ERR_NOMEM;
    return false;
}

static void skip_space(parser *p)
{
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\t' || *p->at == '\r')) p->at++;
}

static bool is_word_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-' ||
           c == '+';
}

/* The next word, cut off at ".."; false at the end or at punctuation. */
static bool word(parser *p, char *out)
{
    size_t n = 0;
    skip_space(p);
    while (p->at + n < p->end && is_word_char(p->at[n])) {
        if (n > 0 && p->at + n + 1 < p->end && p->at[n] == '.' && p->at[n + 1] == '.') break;
        n++;
    }
    if (n == 0) return false;
    if (n >= WORD_MAX) return fail(p, p->at, "'%.*s...' is too long for a name", 16, p->at);
    memcpy(out, p->at, n);
    out[n] = '\0';
    p->at += n;
    return true;
}

static bool number(const char *w, item *out)
{
    char *end = NULL;
    *out = (item){.u = AN_UOP_NONE};
    if (strcmp(w, "true") == 0 || strcmp(w, "false") == 0) {
        out->is_bool = true;
        out->number = w[0] == 't';
        return true;
    }
    out->number = strtod(w, &end);
    out->is_float = strpbrk(w, ".eEin") != NULL;
    return *end == '\0' && end != w;
}

/* ---- ops ------------------------------------------------------------------------------------------ */

/* The dtype that the i-th operand's neighbours give it; AN_DTYPE_NONE where none does. */
static an_dtype neighbour(const parser *p, const bracket *b, uint32_t i)
{
    if (b->op == AN_OP_WHERE && i == 0) return AN_BOOL;
    if (b->op == AN_OP_LOAD || b->op == AN_OP_STORE) {
        if (i == 1) return AN_INDEX;
        if (i == b->n - 1 && (b->op == AN_OP_LOAD || b->n == 4)) return AN_BOOL;
        return an_uop_is_none(b->items[0].u) ? AN_DTYPE_NONE : an_uop_dtype(p->g, b->items[0].u);
    }
    for (uint32_t k = 0; k < b->n; k++) {
        if (k == i || (b->op == AN_OP_WHERE && k == 0) || an_uop_is_none(b->items[k].u)) continue;
        return an_uop_dtype(p->g, b->items[k].u);
    }
    return AN_DTYPE_NONE;
}

static an_uop literal(parser *p, const item *it, an_dtype dtype)
{
    if (dtype == AN_DTYPE_NONE) dtype = it->is_bool ? AN_BOOL : it->is_float ? AN_F32 : AN_INDEX;
    return an_const_float(p->g, dtype, it->number);
}

/* Do the operands have the kind that the op is defined for? */
static bool check_kinds(parser *p, const bracket *b, const char *at)
{
    const an_op op = b->op;
    const char *name = an_op_info_of(op)->text;
    const uint32_t first = op == AN_OP_WHERE ? 1 : 0;
    const an_dtype dtype = an_uop_dtype(p->g, b->items[first].u);
    const an_dtype_kind kind = an_dtype_kind_of(dtype);
    const bool is_int = kind == AN_KIND_INT || kind == AN_KIND_UINT || kind == AN_KIND_INDEX;
    for (uint32_t i = first + 1; i < b->n; i++) {
        const an_dtype other = an_uop_dtype(p->g, b->items[i].u);
        if (other != dtype)
            return fail(p, at, "'%s' of %s and %s: operands have one dtype, use cast", name, an_dtype_name(dtype),
                        an_dtype_name(other));
    }
    if (first && an_uop_dtype(p->g, b->items[0].u) != AN_BOOL)
        return fail(p, at, "'where' chooses by a bool, not by %s", an_dtype_name(an_uop_dtype(p->g, b->items[0].u)));
    switch (op) {
    case AN_OP_SQRT:
    case AN_OP_EXP2:
    case AN_OP_LOG2:
    case AN_OP_SIN:
    case AN_OP_ERF:
    case AN_OP_TRUNC:
    case AN_OP_DIV:
        if (kind != AN_KIND_FLOAT) return fail(p, at, "'%s' is for floats, not for %s", name, an_dtype_name(dtype));
        return true;
    case AN_OP_IDIV:
    case AN_OP_IMOD:
    case AN_OP_FLOORDIV:
    case AN_OP_FLOORMOD:
        if (!is_int) return fail(p, at, "'%s' is for integers, not for %s", name, an_dtype_name(dtype));
        return true;
    case AN_OP_SHL:
    case AN_OP_SHR:
        if (!is_int || kind == AN_KIND_INDEX)
            return fail(p, at, "'%s' is for int and uint, not for %s", name, an_dtype_name(dtype));
        return true;
    case AN_OP_AND:
    case AN_OP_OR:
    case AN_OP_XOR:
        if (!is_int && kind != AN_KIND_BOOL)
            return fail(p, at, "'%s' is for integers and bool, not for %s", name, an_dtype_name(dtype));
        return true;
    default:
        if (kind == AN_KIND_NONE) return fail(p, at, "'%s' of something without a value", name);
        return true;
    }
}

/* A bracket is complete: its node. */
static bool close_bracket(parser *p, const bracket *b, an_uop *out)
{
    an_uop src[ITEMS_MAX];
    bracket full = *b;
    const char *at = p->line + b->col;
    const an_op_info *info = an_op_info_of(b->op);
    const bool memory = b->op == AN_OP_LOAD || b->op == AN_OP_STORE;
    const uint32_t least = b->op == AN_OP_STORE ? 3 : b->op == AN_OP_LOAD ? 2 : (uint32_t)info->arity;
    if (b->n < least || b->n > least + memory)
        return fail(p, at, "'%s' takes %u operand%s, here it has %u", info->text, least, least == 1 ? "" : "s", b->n);
    for (uint32_t i = 0; i < b->n; i++) {
        if (an_uop_is_none(full.items[i].u)) full.items[i].u = literal(p, &b->items[i], neighbour(p, b, i));
        if (!check(p, full.items[i].u)) return false;
        src[i] = full.items[i].u;
    }
    if (memory) {
        const an_uop gate = b->n > least ? src[least] : AN_UOP_NONE;
        if (an_uop_op(p->g, src[0]) != AN_OP_PARAM) return fail(p, at, "'%s' wants a param first", info->text);
        *out = b->op == AN_OP_LOAD ? an_load(p->g, src[0], src[1], gate) : an_store(p->g, src[0], src[1], src[2], gate);
        return check(p, *out);
    }
    if (b->op == AN_OP_CAST || b->op == AN_OP_BITCAST) {
        if (b->dtype == AN_DTYPE_NONE) return fail(p, at, "say to what: (%s:f32 x)", info->text);
        *out = an_uop_new(p->g, b->op, b->dtype, src, 1, 0);
        return check(p, *out);
    }
    if (!check_kinds(p, &full, at)) return false;
    const an_dtype dtype = info->result == AN_RESULT_BOOL ? AN_BOOL : an_uop_dtype(p->g, src[b->n - 1]);
    *out = an_uop_new(p->g, b->op, dtype, src, b->n, 0);
    return check(p, *out);
}

static bool open_bracket(parser *p, const char *at, const char *w)
{
    if (p->depth == DEPTH_MAX) return fail(p, at, "more than %d brackets inside each other", DEPTH_MAX);
    bracket *b = &p->stack[p->depth];
    *b = (bracket){.op = an_op_parse(w), .col = (unsigned)(at - p->line)};
    if (b->op == AN_OP_NONE) return fail(p, at, "there is no op called '%s'", w);
    if (!an_op_has(b->op, AN_TRAIT_ELEM) && b->op != AN_OP_LOAD && b->op != AN_OP_STORE)
        return fail(p, at, "'%s' cannot be written here: elementwise ops, load and store can", w);
    if (p->at < p->end && *p->at == ':') {
        char dtype[WORD_MAX];
        p->at++;
        if (!word(p, dtype) || (b->dtype = an_dtype_parse(dtype)) == AN_DTYPE_NONE)
            return fail(p, p->at, "a dtype is wanted after ':'");
    }
    p->depth++;
    return true;
}

/* A name or a number. */
static bool atom(parser *p, const char *at, const char *w, item *out)
{
    for (size_t i = p->names.len; i-- > 0;)
        if (strcmp(p->names.data[i].name, w) == 0) {
            *out = (item){.u = p->names.data[i].u};
            return true;
        }
    return number(w, out) || fail(p, at, "'%s' is neither a number nor a name bound in a line above", w);
}

/* The rest of the line as an expression. bare: an op without brackets may begin it. */
static bool expression(parser *p, an_uop *out)
{
    char w[WORD_MAX];
    bool bare = false, done = false;
    item result = {.u = AN_UOP_NONE};
    p->depth = 0;
    skip_space(p);
    const char *first = p->at;
    if (word(p, w)) {
        item it;
        bool bound = number(w, &it);
        for (size_t i = 0; i < p->names.len; i++) bound = bound || strcmp(p->names.data[i].name, w) == 0;
        bare = !bound && an_op_parse(w) != AN_OP_NONE;
        if (bare) {
            if (!open_bracket(p, first, w)) return false;
        } else if (atom(p, first, w, &result)) {
            done = true;
        } else {
            return false;
        }
    }
    while (!p->st) {
        skip_space(p);
        const char *at = p->at;
        const bool at_end = at >= p->end;
        if (at_end && bare && p->depth == 1) {
            if (!close_bracket(p, &p->stack[--p->depth], &result.u)) return false;
            bare = false;
            done = true;
            continue;
        }
        if (at_end) {
            if (p->depth) return fail(p, p->line + p->stack[p->depth - 1].col, "this bracket is never closed");
            if (!done) return fail(p, at, "an expression is wanted");
            break;
        }
        if (done) return fail(p, at, "the expression is complete, this is too much");
        item it = {.u = AN_UOP_NONE};
        if (*at == '(') {
            p->at++;
            if (!word(p, w)) return fail(p, p->at, "an op is wanted after '('");
            if (!open_bracket(p, at + 1, w)) return false;
            continue;
        }
        if (*at == ')') {
            if (p->depth == (bare ? 1u : 0u)) return fail(p, at, "there is no bracket to close");
            p->at++;
            if (!close_bracket(p, &p->stack[--p->depth], &it.u)) return false;
        } else if (!word(p, w) || !atom(p, at, w, &it)) {
            return fail(p, at, "'%c' is not understood", *at);
        }
        if (p->depth == 0) {
            result = it;
            done = true;
        } else {
            bracket *b = &p->stack[p->depth - 1];
            if (b->n == ITEMS_MAX) return fail(p, at, "too many operands");
            b->items[b->n++] = it;
        }
    }
    if (p->st) return false;
    *out = an_uop_is_none(result.u) ? literal(p, &result, AN_DTYPE_NONE) : result.u;
    return check(p, *out);
}

/* ---- lines ----------------------------------------------------------------------------------------- */

/* "lo..hi" if it is there. */
static bool bounds(parser *p, int64_t *lo, int64_t *hi, bool must)
{
    char a[WORD_MAX], b[WORD_MAX];
    item x, y;
    skip_space(p);
    const char *at = p->at;
    if (at >= p->end && !must) return true;
    const bool ok = word(p, a) && p->at + 1 < p->end && p->at[0] == '.' && p->at[1] == '.' && (p->at += 2, word(p, b)) &&
                    number(a, &x) && number(b, &y);
    if (!ok || x.is_float || y.is_float || x.is_bool || y.is_bool) return fail(p, at, "bounds are wanted: 0..1023");
    *lo = strtoll(a, NULL, 10);
    *hi = strtoll(b, NULL, 10);
    if (*lo > *hi) return fail(p, at, "the bounds are empty");
    return true;
}

/* An unknown of a dtype: a VAR node of that dtype, which nothing but text makes. */
static bool unknown(parser *p, const char *name, an_dtype dtype, bool must, an_uop *out)
{
    int64_t lo = 0, hi = 0;
    switch (an_dtype_kind_of(dtype)) {
    case AN_KIND_BOOL: hi = 1; break;
    case AN_KIND_FLOAT:
    case AN_KIND_NONE: break;
    default:
        lo = an_reduce_identity(AN_OP_MAX, dtype).i;
        hi = an_reduce_identity(AN_OP_MIN, dtype).i;
        if (dtype == AN_U64) hi = INT64_MAX;
    }
    if (!bounds(p, &lo, &hi, must)) return false;
    const an_uop var = an_uop_var(p->g, name, lo, hi);
    if (!check(p, var)) return false;
    const an_uop src[2] = {an_uop_src(p->g, var, 0), an_uop_src(p->g, var, 1)};
    *out = an_uop_new(p->g, AN_OP_VAR, dtype, src, 2, an_uop_arg(p->g, var));
    return check(p, *out);
}

/* What stands after "name =". */
static bool definition(parser *p, const char *name, an_uop *out)
{
    char w[WORD_MAX];
    skip_space(p);
    const char *start = p->at;
    if (word(p, w)) {
        const an_dtype dtype = an_dtype_parse(w);
        if (strcmp(w, "var") == 0) return unknown(p, name, AN_INDEX, true, out);
        if (dtype != AN_DTYPE_NONE) return unknown(p, name, dtype, false, out);
        if (strcmp(w, "param") == 0) {
            const char *at = p->at;
            if (!word(p, w) || an_dtype_parse(w) == AN_DTYPE_NONE) return fail(p, at, "a dtype is wanted after 'param'");
            *out = an_param(p->g, an_dtype_parse(w), p->nparams++);
            return check(p, *out);
        }
        if (strcmp(w, "range") == 0) {
            item n;
            const char *at = p->at;
            if (!word(p, w) || !number(w, &n) || n.is_float || n.number < 1)
                return fail(p, at, "the number of steps is wanted after 'range'");
            *out = an_range(p->g, an_index(p->g, strtoll(w, NULL, 10)), p->nranges++, AN_RANGE_LOOP);
            return check(p, *out);
        }
    }
    p->at = start;
    return expression(p, out);
}

/* The line, without its comment. False on failure, or where there is nothing in it. */
static bool one_line(parser *p, an_uop *out)
{
    const char *hash = memchr(p->line, '#', (size_t)(p->end - p->line));
    char name[WORD_MAX];
    if (hash) p->end = hash;
    p->at = p->line;
    skip_space(p);
    if (p->at == p->end) return false;
    const char *start = p->at;
    if (word(p, name)) {
        skip_space(p);
        if (p->at < p->end && *p->at == '=') {
            binding b;
            item probe;
            if (number(name, &probe)) return fail(p, start, "'%s' is a number, not a name", name);
            p->at++;
            if (!definition(p, name, &b.u)) return false;
            memcpy(b.name, name, sizeof name);
            skip_space(p);
            if (p->at < p->end) return fail(p, p->at, "the line is complete, this is too much");
            *out = b.u;
            if (!an_vec_push(p->ctx, &p->names, b)) p->st = AN_ERR_NOMEM;
            return !p->st;
        }
    }
    p->at = start;
    return expression(p, out);
}

an_status an_expr_parse(an_graph *g, const char *text, an_uop *out)
{
    an_uop last = AN_UOP_NONE;
    an_ctx *ctx = an_graph_ctx(g);
    parser *p = an_mem_zalloc(ctx, sizeof *p);
    if (!p) return AN_ERR_NOMEM;
    p->g = g;
    p->ctx = ctx;
    for (const char *line = text; !p->st && *line;) {
        const char *end = line + strcspn(line, "\n");
        p->line = line;
        p->end = end;
        p->number++;
        one_line(p, &last);
        line = *end ? end + 1 : end;
    }
    if (!p->st && an_uop_is_none(last)) p->st = an_fail(ctx, AN_ERR_FORMAT, "line 1, column 1: there is no expression");
    const an_status st = p->st;
    if (!st) *out = last;
    an_vec_fini(ctx, &p->names);
    an_mem_free(ctx, p, sizeof *p);
    return st;
}
