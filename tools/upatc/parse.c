/* parse.c - the text of a .upat file to rules (docs/UPAT.md has the language).
 *
 * One token of lookahead. After an error the parser skips to the next line that begins with a keyword, so that one run
 * shows the errors of every rule. Nesting is limited: this is the one place that recurses, and over text a person wrote. */
#include "upatc.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 64 };

typedef enum tok_kind { TOK_END, TOK_NAME, TOK_INT, TOK_FLOAT, TOK_STRING, TOK_PUNCT, TOK_BAD } tok_kind;
typedef struct tok {
    tok_kind kind;
    up_pos pos;
    const char *text; /* name, punctuation, the inside of a string */
    double number;
    int64_t integer;
    bool follows; /* directly, without a space */
    bool starts_line;
    size_t start, end; /* offsets in the file */
} tok;

typedef struct parser {
    up_file *f;
    size_t at;
    unsigned line, col;
    tok tok;
    size_t last_end; /* of the token before tok */
    int depth;
    bool failed; /* in this rule */
} parser;

static bool is_name_char(char c, bool first)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (!first && c >= '0' && c <= '9');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static char peek(const parser *p, size_t ahead)
{
    return p->at + ahead < p->f->len ? p->f->text[p->at + ahead] : '\0';
}

static void skip_space(parser *p)
{
    while (p->at < p->f->len) {
        const char c = p->f->text[p->at];
        if (c == '#') {
            while (p->at < p->f->len && p->f->text[p->at] != '\n') p->at++;
        } else if (c == '\n') {
            p->at++;
            p->line++;
            p->col = 1;
        } else if (c == ' ' || c == '\t' || c == '\r') {
            p->at++;
            p->col++;
        } else {
            return;
        }
    }
}

/* One error a rule: what follows it would only confuse. */
UP_PRINTF(3, 4)
static void fail(parser *p, up_pos at, const char *fmt, ...)
{
    if (p->failed) return;
    p->failed = true;
    up_out text = {0};
    va_list args;
    va_start(args, fmt);
    up_out_vprintf(&text, fmt, args);
    va_end(args);
    up_error(p->f, at, "%s", text.data);
    up_out_fini(&text);
}

/* How many characters the number at p->at takes, and whether it has a point or an exponent. */
static size_t number_len(const parser *p, bool *is_float)
{
    size_t n = 0;
    *is_float = false;
    while (is_digit(peek(p, n))) n++;
    if (peek(p, n) == '.' && is_digit(peek(p, n + 1))) {
        *is_float = true;
        n++;
        while (is_digit(peek(p, n))) n++;
    }
    if (peek(p, n) == 'e' || peek(p, n) == 'E') {
        size_t e = n + 1;
        if (peek(p, e) == '-' || peek(p, e) == '+') e++;
        if (is_digit(peek(p, e))) {
            *is_float = true;
            while (is_digit(peek(p, e))) e++;
            n = e;
        }
    }
    return n;
}

static void next(parser *p)
{
    static const char *const puncts[] = {"...", "=>", "==", "!=", "<=", ">=", "(", ")", "{", "}", ":", ",", "@",
                                         "<",   ">",  "+",  "-",  "*",  "/",  "%"};
    const size_t before = p->at;
    const unsigned line = p->line;
    p->last_end = p->tok.end;
    skip_space(p);
    tok t = {.kind = TOK_END, .pos = {p->line, p->col, 1}, .start = p->at, .follows = p->at == before};
    t.starts_line = p->line != line || before == 0;
    size_t n = 0;
    const char c = peek(p, 0);
    if (p->at >= p->f->len) {
        t.text = "the end of the file";
    } else if (is_name_char(c, true)) {
        while (is_name_char(peek(p, n), false)) n++;
        t.kind = TOK_NAME;
        t.text = up_strndup(p->f, p->f->text + p->at, n);
    } else if (is_digit(c)) {
        bool is_float = false;
        n = number_len(p, &is_float);
        t.text = up_strndup(p->f, p->f->text + p->at, n);
        t.kind = is_float ? TOK_FLOAT : TOK_INT;
        t.number = strtod(t.text, NULL);
        errno = 0;
        t.integer = is_float ? 0 : strtoll(t.text, NULL, 10);
        if (!is_float && errno) t.kind = TOK_BAD;
    } else if (c == '"') {
        n = 1;
        while (p->at + n < p->f->len && peek(p, n) != '"' && peek(p, n) != '\n') n++;
        t.kind = peek(p, n) == '"' ? TOK_STRING : TOK_BAD;
        t.text = up_strndup(p->f, p->f->text + p->at + 1, n - 1);
        if (t.kind == TOK_STRING) n++;
    } else {
        t.kind = TOK_BAD;
        t.text = up_strndup(p->f, &c, 1);
        n = 1;
        for (size_t i = 0; i < sizeof puncts / sizeof *puncts; i++) {
            const size_t len = strlen(puncts[i]);
            if (p->f->len - p->at < len || memcmp(p->f->text + p->at, puncts[i], len) != 0) continue;
            t.kind = TOK_PUNCT;
            t.text = puncts[i];
            n = len;
            break;
        }
    }
    t.pos.len = n ? (unsigned)n : 1;
    p->at += n;
    p->col += (unsigned)n;
    t.end = p->at;
    p->tok = t;
}

static bool is(const parser *p, const char *punct)
{
    return p->tok.kind == TOK_PUNCT && strcmp(p->tok.text, punct) == 0;
}

static bool is_word(const parser *p, const char *word)
{
    return p->tok.kind == TOK_NAME && strcmp(p->tok.text, word) == 0;
}

static bool take(parser *p, const char *punct)
{
    if (!is(p, punct)) return false;
    next(p);
    return true;
}

static bool is_keyword(const char *name)
{
    static const char *const words[] = {"rule", "grad", "jvp", "include", "when", "and", "or", "not", "true", "false", "inf"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i], name) == 0) return true;
    return false;
}

/* Words that say what a node is; they cannot name one. */
static bool constraint(up_term *t, const char *word)
{
    uint32_t mask = 0;
    if (strcmp(word, "const") == 0) {
        t->is_const = true;
        return true;
    }
    if (!up_dtypes_parse(word, &mask)) return false;
    t->dtypes &= mask;
    return true;
}

static bool can_be_name(parser *p, const tok *t)
{
    up_term probe = {.dtypes = UP_ANY_DTYPE};
    if (is_keyword(t->text))
        fail(p, t->pos, "'%s' is a word of the language and cannot be a name", t->text);
    else if (constraint(&probe, t->text))
        fail(p, t->pos, "'%s' is a dtype or kind: write x:%s to demand it of x", t->text, t->text);
    return !p->failed;
}

static up_term *new_term(parser *p, up_kind kind)
{
    up_term *t = up_alloc(p->f, sizeof *t);
    t->kind = kind;
    t->pos = p->tok.pos;
    t->dtypes = UP_ANY_DTYPE;
    return t;
}

/* A literal, with its sign; NULL if there is none here. */
static up_term *literal(parser *p)
{
    const bool minus = is(p, "-");
    const tok sign = p->tok;
    if (!minus && p->tok.kind != TOK_INT && p->tok.kind != TOK_FLOAT && !is_word(p, "true") && !is_word(p, "false") &&
        !is_word(p, "inf"))
        return NULL;
    up_term *t = new_term(p, UP_LIT);
    if (minus) next(p);
    if (p->tok.kind == TOK_INT || p->tok.kind == TOK_FLOAT) {
        t->lit = minus ? -p->tok.number : p->tok.number;
        t->lit_is_int = p->tok.kind == TOK_INT;
        if (t->lit_is_int && fabs(t->lit) > 9007199254740992.0)
            fail(p, p->tok.pos, "%s is too large for a literal (2^53 is the largest)", p->tok.text);
        if (t->lit_is_int && p->tok.integer == 0) t->lit = 0.0; /* -0 is the integer 0; -0.0 is not */
    } else if (is_word(p, "inf")) {
        t->lit = minus ? -HUGE_VAL : HUGE_VAL;
    } else if (!minus && (is_word(p, "true") || is_word(p, "false"))) {
        t->lit_is_bool = true;
        t->lit = is_word(p, "true") ? 1.0 : 0.0;
    } else {
        fail(p, sign.pos, "'%s' must be followed by a number here", sign.text);
        return t;
    }
    t->pos.len = p->tok.pos.line == t->pos.line ? p->tok.pos.col + p->tok.pos.len - t->pos.col : 1;
    next(p);
    return t;
}

static bool is_shorthand(const char *text)
{
    return strcmp(text, "neg") == 0 || strcmp(text, "sub") == 0 || strcmp(text, "not") == 0;
}

/* ---- patterns ----------------------------------------------------------------------------------- */

static up_term *pattern(parser *p);

/* "(op:marks src ...", after the bracket. */
static void pattern_op(parser *p, up_term *t)
{
    t->kind = UP_OP;
    if (p->tok.kind != TOK_NAME) {
        fail(p, p->tok.pos, "an op is wanted after '(', not '%s'", p->tok.text);
        return;
    }
    t->op_text = p->tok.text;
    t->pos = p->tok.pos;
    const int op = up_op_parse(t->op_text);
    if (op)
        t->ops = (uint64_t)1 << op;
    else if (is_shorthand(t->op_text))
        fail(p, p->tok.pos, "'%s' is a shorthand of results; in patterns write (mul x -1), (add x (mul y -1)), (xor x true)",
             t->op_text);
    else if (!up_class_parse(t->op_text, &t->ops))
        fail(p, p->tok.pos, "there is no op and no class of ops called '%s'", t->op_text);
    next(p);
    while (!p->failed && take(p, ":")) {
        if (p->tok.kind != TOK_NAME) {
            fail(p, p->tok.pos, "a name or a dtype is wanted after ':', not '%s'", p->tok.text);
        } else if (!constraint(t, p->tok.text)) {
            if (t->name)
                fail(p, p->tok.pos, "'%s': this node has a name already", p->tok.text);
            else if (can_be_name(p, &p->tok))
                t->name = p->tok.text;
        }
        next(p);
    }
    while (!p->failed && !is(p, ")")) {
        if (p->tok.kind == TOK_END) {
            fail(p, t->pos, "the '(' of '%s' is never closed", t->op_text);
            return;
        }
        if (t->rest) {
            fail(p, p->tok.pos, "'...' must be the last: '%s' is too late", p->tok.text);
            return;
        }
        if (is(p, "...")) {
            t->rest = new_term(p, UP_VAR);
            t->rest->name = "_";
            next(p);
            continue;
        }
        up_term *src = pattern(p);
        if (!p->failed && is(p, "...") && p->tok.follows) {
            up_term probe = {.dtypes = UP_ANY_DTYPE};
            if (src->kind == UP_VAR && src->dtypes == UP_ANY_DTYPE && !src->is_const && constraint(&probe, src->name)) {
                src->dtypes = probe.dtypes;
                src->is_const = probe.is_const;
                src->name = "_";
                t->rest = src;
                next(p);
                continue;
            }
            fail(p, p->tok.pos, "'...' stands alone, or after 'const' or a dtype");
        } else if (!p->failed && src->kind == UP_VAR && strcmp(src->name, "_") != 0) {
            const tok at = {.text = src->name, .pos = src->pos};
            can_be_name(p, &at);
        }
        up_push(p->f, &t->src, &t->nsrc, src);
    }
    take(p, ")");
}

static up_term *pattern(parser *p)
{
    up_term *t = literal(p);
    if (t) return t;
    t = new_term(p, UP_VAR);
    if (++p->depth > DEPTH_MAX) {
        fail(p, p->tok.pos, "nested too deeply at '%s'", p->tok.text);
    } else if (take(p, "(")) {
        pattern_op(p, t);
    } else if (p->tok.kind == TOK_NAME) {
        t->name = p->tok.text;
        if (is_keyword(t->name)) fail(p, p->tok.pos, "'%s' is a word of the language and cannot be a name", t->name);
        next(p);
        while (!p->failed && t->kind == UP_VAR && take(p, ":")) {
            if (take(p, "(")) {
                const char *name = t->name;
                const up_pos pos = t->pos;
                const tok at = {.text = name, .pos = pos};
                can_be_name(p, &at);
                pattern_op(p, t);
                if (!p->failed && t->name) fail(p, t->pos, "'%s': this node has a name already", t->name);
                t->name = strcmp(name, "_") == 0 ? NULL : name;
            } else if (p->tok.kind != TOK_NAME || !constraint(t, p->tok.text)) {
                fail(p, p->tok.pos, "'%s' is no dtype, kind, 'const' or pattern in brackets", p->tok.text);
            } else {
                next(p);
            }
        }
    } else {
        fail(p, p->tok.pos, "a pattern is wanted, not '%s'", p->tok.text);
    }
    p->depth--;
    return t;
}

/* ---- expressions -------------------------------------------------------------------------------- */

static up_expr *expr_or(parser *p);

static up_expr *new_expr(parser *p, up_expr_kind kind, up_pos pos, const char *name, up_expr *a, up_expr *b)
{
    up_expr *e = up_alloc(p->f, sizeof *e);
    e->kind = kind;
    e->pos = pos;
    e->name = name;
    if (a) up_push(p->f, &e->arg, &e->narg, a);
    if (b) up_push(p->f, &e->arg, &e->narg, b);
    return e;
}

static up_expr *call(parser *p, const tok *name)
{
    up_expr *e = new_expr(p, UP_CALL, name->pos, name->text, NULL, NULL);
    next(p); /* ( */
    while (!p->failed && !is(p, ")")) {
        up_expr *arg = expr_or(p);
        up_push(p->f, &e->arg, &e->narg, arg);
        if (!is(p, ")") && !take(p, ",")) fail(p, p->tok.pos, "',' or ')' is wanted, not '%s'", p->tok.text);
    }
    take(p, ")");
    return e;
}

static up_expr *expr_atom(parser *p)
{
    const tok t = p->tok;
    up_expr *e = NULL;
    if (++p->depth > DEPTH_MAX) {
        fail(p, t.pos, "nested too deeply at '%s'", t.text);
    } else if (t.kind == TOK_INT) {
        e = new_expr(p, UP_NUM, t.pos, NULL, NULL, NULL);
        e->num = t.integer;
        next(p);
    } else if (take(p, "-")) {
        up_expr *zero = new_expr(p, UP_NUM, t.pos, NULL, NULL, NULL);
        up_expr *x = expr_atom(p);
        e = new_expr(p, UP_ARITH, t.pos, "-", zero, x);
    } else if (take(p, "(")) {
        e = expr_or(p);
        if (!take(p, ")")) fail(p, p->tok.pos, "')' is wanted, not '%s'", p->tok.text);
    } else if (t.kind == TOK_NAME && !is_keyword(t.text)) {
        next(p);
        e = is(p, "(") && p->tok.follows ? call(p, &t) : new_expr(p, UP_NAME, t.pos, t.text, NULL, NULL);
    } else {
        fail(p, t.pos, "an integer, a name or a call is wanted, not '%s'", t.text);
    }
    p->depth--;
    return e ? e : new_expr(p, UP_NUM, t.pos, NULL, NULL, NULL);
}

/* One level of binary operators, left to right. */
static up_expr *expr_product(parser *p)
{
    up_expr *e = expr_atom(p);
    while (!p->failed && (is(p, "*") || is(p, "/") || is(p, "%"))) {
        const tok op = p->tok;
        next(p);
        up_expr *right = expr_atom(p);
        e = new_expr(p, UP_ARITH, op.pos, op.text, e, right);
    }
    return e;
}

static up_expr *expr_sum(parser *p)
{
    up_expr *e = expr_product(p);
    while (!p->failed && (is(p, "+") || is(p, "-"))) {
        const tok op = p->tok;
        next(p);
        up_expr *right = expr_product(p);
        e = new_expr(p, UP_ARITH, op.pos, op.text, e, right);
    }
    return e;
}

static up_expr *expr_compare(parser *p)
{
    static const char *const ops[] = {"==", "!=", "<", "<=", ">", ">="};
    up_expr *e = expr_sum(p);
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        if (!is(p, ops[i])) continue;
        const tok op = p->tok;
        next(p);
        up_expr *right = expr_sum(p);
        return new_expr(p, UP_COMPARE, op.pos, op.text, e, right);
    }
    return e;
}

static up_expr *expr_not(parser *p)
{
    unsigned nots = 0;
    const up_pos pos = p->tok.pos;
    for (; is_word(p, "not"); nots++) next(p);
    up_expr *e = expr_compare(p);
    return nots % 2 ? new_expr(p, UP_NOT, pos, NULL, e, NULL) : e;
}

static up_expr *expr_and(parser *p)
{
    up_expr *e = expr_not(p);
    while (!p->failed && is_word(p, "and")) {
        const up_pos pos = p->tok.pos;
        next(p);
        up_expr *right = expr_not(p);
        e = new_expr(p, UP_AND, pos, NULL, e, right);
    }
    return e;
}

static up_expr *expr_or(parser *p)
{
    up_expr *e = expr_and(p);
    while (!p->failed && is_word(p, "or")) {
        const up_pos pos = p->tok.pos;
        next(p);
        up_expr *right = expr_and(p);
        e = new_expr(p, UP_OR, pos, NULL, e, right);
    }
    return e;
}

/* ---- results ------------------------------------------------------------------------------------ */

static up_term *result(parser *p);

static up_term *new_op(parser *p, const char *text, up_pos pos)
{
    up_term *t = new_term(p, UP_OP);
    t->op_text = text;
    t->pos = pos;
    t->ops = (uint64_t)1 << up_op_parse(text);
    return t;
}

static up_term *new_literal(parser *p, double v, bool is_bool)
{
    up_term *t = new_term(p, UP_LIT);
    t->lit = v;
    t->lit_is_int = !is_bool;
    t->lit_is_bool = is_bool;
    return t;
}

static up_term *result_call(parser *p, up_kind kind, const char *name, up_pos pos)
{
    up_term *t = new_term(p, kind);
    t->name = name;
    t->pos = pos;
    while (!p->failed && !is(p, ")")) {
        up_term *arg = result(p);
        up_push(p->f, &t->src, &t->nsrc, arg);
        if (!is(p, ")") && !take(p, ",")) fail(p, p->tok.pos, "',' or ')' is wanted, not '%s'", p->tok.text);
    }
    take(p, ")");
    return t;
}

/* The three shorthands, or NULL: there is no neg, sub or not among the ops. */
static up_term *shorthand(parser *p, const char *text, up_pos pos, up_term *args)
{
    up_term *x = args->nsrc ? args->src[0] : NULL;
    if (strcmp(text, "neg") == 0 && args->nsrc == 1) {
        up_term *t = new_op(p, "mul", pos);
        up_push(p->f, &t->src, &t->nsrc, x);
        up_push(p->f, &t->src, &t->nsrc, new_literal(p, -1.0, false));
        return t;
    }
    if (strcmp(text, "not") == 0 && args->nsrc == 1) {
        up_term *t = new_op(p, "xor", pos);
        up_push(p->f, &t->src, &t->nsrc, x);
        up_push(p->f, &t->src, &t->nsrc, new_literal(p, 1.0, true));
        return t;
    }
    if (strcmp(text, "sub") == 0 && args->nsrc == 2) {
        up_term *neg = new_op(p, "mul", pos), *t = new_op(p, "add", pos);
        up_push(p->f, &neg->src, &neg->nsrc, args->src[1]);
        up_push(p->f, &neg->src, &neg->nsrc, new_literal(p, -1.0, false));
        up_push(p->f, &t->src, &t->nsrc, x);
        up_push(p->f, &t->src, &t->nsrc, neg);
        return t;
    }
    return NULL;
}

/* "(op:dtype-or-name src ...", after the bracket. */
static up_term *result_op(parser *p)
{
    up_term *t = new_term(p, UP_OP);
    if (p->tok.kind != TOK_NAME) {
        fail(p, p->tok.pos, "an op is wanted after '(', not '%s'", p->tok.text);
        return t;
    }
    const char *text = p->tok.text;
    t->op_text = text;
    const int op = up_op_parse(text);
    if (op)
        t->ops = (uint64_t)1 << op;
    else if (!up_class_parse(text, &t->ops) && !is_shorthand(text))
        fail(p, p->tok.pos, "there is no op and no class of ops called '%s'", text);
    next(p);
    if (!p->failed && take(p, ":")) {
        up_term probe = {.dtypes = UP_ANY_DTYPE};
        if (p->tok.kind != TOK_NAME)
            fail(p, p->tok.pos, "a dtype or a name is wanted after ':', not '%s'", p->tok.text);
        else if (constraint(&probe, p->tok.text) && !up_dtype_of_mask(probe.dtypes))
            fail(p, p->tok.pos, "'%s' is not one dtype", p->tok.text);
        else if (probe.dtypes != UP_ANY_DTYPE)
            t->dtype = up_dtype_of_mask(probe.dtypes);
        else
            t->like = p->tok.text;
        if (!p->failed && is_shorthand(text)) fail(p, t->pos, "'%s' takes its dtype from what it is given", text);
        next(p);
    }
    while (!p->failed && !is(p, ")")) {
        if (p->tok.kind == TOK_END) {
            fail(p, t->pos, "the '(' of '%s' is never closed", text);
            return t;
        }
        up_term *src = result(p);
        up_push(p->f, &t->src, &t->nsrc, src);
    }
    take(p, ")");
    if (!p->failed && is_shorthand(text)) {
        up_term *s = shorthand(p, text, t->pos, t);
        if (!s) fail(p, t->pos, "'%s' has another number of operands", text);
        return s ? s : t;
    }
    return t;
}

static up_term *result(parser *p)
{
    up_term *t = literal(p);
    if (t) return t;
    const tok at = p->tok;
    if (++p->depth > DEPTH_MAX) {
        fail(p, at.pos, "nested too deeply at '%s'", at.text);
    } else if (take(p, "(")) {
        t = result_op(p);
    } else if (take(p, "{")) {
        t = new_term(p, UP_INT);
        t->pos = at.pos;
        t->expr = expr_or(p);
        if (!take(p, "}")) fail(p, p->tok.pos, "'}' is wanted, not '%s'", p->tok.text);
    } else if (take(p, "@")) {
        const tok name = p->tok;
        if (name.kind != TOK_NAME) fail(p, name.pos, "the name of a helper is wanted after '@', not '%s'", name.text);
        next(p);
        if (!take(p, "(")) fail(p, p->tok.pos, "'(' is wanted, not '%s'", p->tok.text);
        t = result_call(p, UP_HELPER, name.text, name.pos);
    } else if (at.kind == TOK_NAME && !is_keyword(at.text)) {
        next(p);
        if (is(p, "(") && p->tok.follows) {
            t = new_term(p, UP_INT);
            t->pos = at.pos;
            t->expr = call(p, &at);
        } else {
            t = new_term(p, UP_VAR);
            t->pos = at.pos;
            t->name = at.text;
        }
    } else {
        fail(p, at.pos, "a result is wanted, not '%s'", at.text);
    }
    p->depth--;
    return t ? t : new_term(p, UP_NOTHING);
}

static up_term *grad_result(parser *p)
{
    const tok at = p->tok;
    if (is_word(p, "_")) {
        up_term *t = new_term(p, UP_NOTHING);
        next(p);
        return t;
    }
    const bool all = is_word(p, "all");
    if (all) next(p);
    up_term *t = result(p);
    if (all && !p->failed && t->kind != UP_HELPER)
        fail(p, at.pos, "'all' is followed by a helper: all @name(n, g)");
    t->all = all;
    return t;
}

/* ---- rules -------------------------------------------------------------------------------------- */

static bool begins_rule(const parser *p)
{
    return is_word(p, "rule") || is_word(p, "grad") || is_word(p, "jvp");
}

/* From start to the last token taken, blanks squeezed, comments dropped. */
static const char *one_line(parser *p, size_t start)
{
    char *out = up_alloc(p->f, p->last_end - start + 1);
    size_t n = 0;
    bool comment = false, space = false;
    for (size_t i = start; i < p->last_end; i++) {
        const char c = p->f->text[i];
        if (c == '#') comment = true;
        if (c == '\n') comment = false;
        if (comment || c == ' ' || c == '\t' || c == '\n' || c == '\r') {
            space = true;
            continue;
        }
        if (space && n) out[n++] = ' ';
        space = false;
        out[n++] = c;
    }
    return out;
}

static void rule(parser *p)
{
    up_rule *r = up_alloc(p->f, sizeof *r);
    const size_t start = p->tok.start;
    r->is_jvp = is_word(p, "jvp");
    r->is_grad = is_word(p, "grad") || r->is_jvp;
    const up_pos keyword = p->tok.pos;
    next(p);
    r->pos = p->tok.pos;
    if (p->tok.kind != TOK_NAME || is_keyword(p->tok.text)) {
        fail(p, p->tok.pos, "the name of the rule is wanted, not '%s'", p->tok.text);
        return;
    }
    r->name = p->tok.text;
    next(p);
    r->pattern = pattern(p);
    if (!p->failed && is_word(p, "when")) {
        next(p);
        r->cond = expr_or(p);
    }
    if (!p->failed && !take(p, "=>")) fail(p, p->tok.pos, "'=>' is wanted, not '%s'", p->tok.text);
    do {
        if (p->failed) return;
        up_term *t = r->is_grad ? grad_result(p) : result(p);
        up_push(p->f, &r->result, &r->nresult, t);
    } while (r->is_grad && take(p, ","));
    if (!p->failed && p->tok.kind != TOK_END && !begins_rule(p) && !is_word(p, "include"))
        fail(p, p->tok.pos, "the rule is complete, '%s' is too much", p->tok.text);
    if (p->failed) return;
    r->text = one_line(p, start);
    if (p->f->nrules && (p->f->is_grad != r->is_grad || p->f->is_jvp != r->is_jvp))
        fail(p, keyword, "a file holds rules, gradient rules or jvp rules, not two of them ('%s')", r->name);
    p->f->is_grad = r->is_grad;
    p->f->is_jvp = r->is_jvp;
    up_push(p->f, &p->f->rules, &p->f->nrules, r);
}

static void include(parser *p)
{
    next(p);
    if (p->tok.kind != TOK_STRING)
        fail(p, p->tok.pos, "the header in quotes is wanted, not '%s'", p->tok.text);
    else
        up_push(p->f, &p->f->includes, &p->f->nincludes, p->tok.text);
    next(p);
}

bool up_parse(up_file *f)
{
    parser p = {.f = f, .line = 1, .col = 1};
    next(&p);
    while (p.tok.kind != TOK_END) {
        p.failed = false;
        p.depth = 0;
        if (begins_rule(&p))
            rule(&p);
        else if (is_word(&p, "include"))
            include(&p);
        else
            fail(&p, p.tok.pos, "'rule', 'grad', 'jvp' or 'include' is wanted, not '%s'", p.tok.text);
        if (!p.failed) continue;
        if (p.tok.kind != TOK_END && !p.tok.starts_line) next(&p);
        while (p.tok.kind != TOK_END &&
               !(p.tok.starts_line && (begins_rule(&p) || is_word(&p, "include"))))
            next(&p);
    }
    return f->nerrors == 0;
}
