/* dim.c - arithmetic of dims: integers and expressions over symbols, in one form for each value, so that equal dims are one
 * node: n*4/4 is n, (pos + 1) - pos is 1, 2*(n + 1) is n*2 + 2.
 *
 * A dim is a sum of terms c * x * y ..., c a constant and x, y atoms: VARs, and what is no sum or product (a floordiv, say).
 * Atoms of a term and terms of the sum are in canonical order, the constant last, as the rule `sum` has them. Where a sum has
 * more than TERMS terms, or a number overflows, the plain node is made: right, but equal only to itself. */
#include "ir/graph.h"

#include <stdio.h>

enum { TERMS = 24, ATOMS = 6 };

typedef struct term {
    int64_t c;
    uint32_t n;
    an_uop x[ATOMS];
} term;
typedef struct sum {
    uint32_t n;
    term t[TERMS];
} sum;

static int cmp_atoms(const an_graph *g, const term *a, const term *b)
{
    if (a->n == 0 || b->n == 0) return (a->n == 0) - (b->n == 0); /* the constant goes last */
    for (uint32_t i = 0; i < a->n && i < b->n; i++) {
        const int c = an_uop_cmp(g, a->x[i], b->x[i]);
        if (c) return c;
    }
    return (a->n > b->n) - (a->n < b->n);
}

static bool add_term(const an_graph *g, sum *s, const term *t)
{
    uint32_t i = 0;
    if (t->c == 0) return true;
    while (i < s->n && cmp_atoms(g, &s->t[i], t) < 0) i++;
    if (i < s->n && cmp_atoms(g, &s->t[i], t) == 0) {
        if (__builtin_add_overflow(s->t[i].c, t->c, &s->t[i].c)) return false;
        if (s->t[i].c == 0) {
            memmove(&s->t[i], &s->t[i + 1], (s->n - i - 1) * sizeof *s->t);
            s->n--;
        }
        return true;
    }
    if (s->n == TERMS) return false;
    memmove(&s->t[i + 1], &s->t[i], (s->n - i) * sizeof *s->t);
    s->t[i] = *t;
    s->n++;
    return true;
}

static bool mul_atom(const an_graph *g, term *t, an_uop x)
{
    uint32_t i = t->n;
    if (t->n == ATOMS) return false;
    for (; i > 0 && an_uop_cmp(g, t->x[i - 1], x) > 0; i--) t->x[i] = t->x[i - 1];
    t->x[i] = x;
    t->n++;
    return true;
}

static bool mul_terms(const an_graph *g, const term *a, const term *b, term *out)
{
    *out = *a;
    if (__builtin_mul_overflow(a->c, b->c, &out->c)) return false;
    for (uint32_t i = 0; i < b->n; i++)
        if (!mul_atom(g, out, b->x[i])) return false;
    return true;
}

/* s += scale * (the product u). */
static bool add_product(const an_graph *g, sum *s, an_uop u, int64_t scale)
{
    an_uop stack[ATOMS + 2];
    uint32_t top = 0;
    term t = {.c = scale};
    stack[top++] = u;
    while (top) {
        const an_uop x = stack[--top];
        int64_t v = 0;
        if (an_uop_int(g, x, &v)) {
            if (__builtin_mul_overflow(t.c, v, &t.c)) return false;
        } else if (an_uop_op(g, x) == AN_OP_MUL) {
            if (top + 2 > ATOMS + 2) return false;
            stack[top++] = an_uop_src(g, x, 0);
            stack[top++] = an_uop_src(g, x, 1);
        } else if (!mul_atom(g, &t, x)) {
            return false;
        }
    }
    return add_term(g, s, &t);
}

/* s += scale * u. */
static bool add_to(const an_graph *g, sum *s, an_uop u, int64_t scale)
{
    an_uop stack[TERMS];
    uint32_t top = 0;
    stack[top++] = u;
    while (top) {
        const an_uop x = stack[--top];
        if (an_uop_op(g, x) != AN_OP_ADD) {
            if (!add_product(g, s, x, scale)) return false;
            continue;
        }
        if (top + 2 > TERMS) return false;
        stack[top++] = an_uop_src(g, x, 0);
        stack[top++] = an_uop_src(g, x, 1);
    }
    return true;
}

static an_uop build(an_graph *g, const sum *s)
{
    an_uop all = AN_UOP_NONE;
    for (uint32_t i = 0; i < s->n; i++) {
        const term *t = &s->t[i];
        an_uop x = an_index(g, t->c);
        if (t->n) {
            x = t->x[0];
            for (uint32_t k = 1; k < t->n; k++) x = an_idx_mul(g, x, t->x[k]);
            x = an_idx_mul(g, x, an_index(g, t->c));
        }
        if (an_uop_is_none(x)) return x;
        const an_uop src[2] = {all, x};
        const an_node add = {.op = AN_OP_ADD, .dtype = AN_INDEX, .lanes = 1, .nsrc = 2};
        all = i == 0 ? x : an_graph_intern(g, &add, src);
        if (an_uop_is_none(all)) return all;
    }
    return s->n ? all : an_index(g, 0);
}

static bool both_ints(const an_graph *g, an_uop a, an_uop b)
{
    return an_uop_is_const(g, a) && an_uop_is_const(g, b);
}

an_uop an_dim_add(an_graph *g, an_uop a, an_uop b)
{
    sum s = {0};
    if (an_uop_is_none(a) || an_uop_is_none(b)) return AN_UOP_NONE;
    if (both_ints(g, a, b) || !add_to(g, &s, a, 1) || !add_to(g, &s, b, 1)) return an_idx_add(g, a, b);
    return build(g, &s);
}

an_uop an_dim_sub(an_graph *g, an_uop a, an_uop b)
{
    sum s = {0};
    if (an_uop_is_none(a) || an_uop_is_none(b)) return AN_UOP_NONE;
    if (both_ints(g, a, b) || !add_to(g, &s, a, 1) || !add_to(g, &s, b, -1)) return an_idx_sub(g, a, b);
    return build(g, &s);
}

static bool mul_sums(const an_graph *g, const sum *x, const sum *y, sum *out)
{
    term t;
    for (uint32_t i = 0; i < x->n; i++)
        for (uint32_t k = 0; k < y->n; k++)
            if (!mul_terms(g, &x->t[i], &y->t[k], &t) || !add_term(g, out, &t)) return false;
    return true;
}

an_uop an_dim_mul(an_graph *g, an_uop a, an_uop b)
{
    sum x = {0}, y = {0}, s = {0};
    if (an_uop_is_none(a) || an_uop_is_none(b)) return AN_UOP_NONE;
    if (both_ints(g, a, b) || !add_to(g, &x, a, 1) || !add_to(g, &y, b, 1) || !mul_sums(g, &x, &y, &s)) return an_idx_mul(g, a, b);
    return build(g, &s);
}

/* a / b where that is a term; false otherwise. */
static bool div_terms(const term *a, const term *b, term *out)
{
    if (b->c == 0 || a->c % b->c != 0 || (a->c == INT64_MIN && b->c == -1)) return false;
    *out = *a;
    out->c = a->c / b->c;
    for (uint32_t i = 0; i < b->n; i++) {
        uint32_t k = 0;
        while (k < out->n && !an_uop_eq(out->x[k], b->x[i])) k++;
        if (k == out->n) return false;
        memmove(&out->x[k], &out->x[k + 1], (out->n - k - 1) * sizeof *out->x);
        out->n--;
    }
    return true;
}

bool an_dim_divides(an_graph *g, an_uop a, an_uop b, an_uop *out)
{
    sum x = {0}, y = {0}, q = {0};
    if (an_uop_is_none(a) || an_uop_is_none(b) || !add_to(g, &x, a, 1) || !add_to(g, &y, b, 1) || y.n == 0) return false;
    for (uint32_t tries = 0; x.n; tries++) { /* each step takes a term off x, or does not help */
        term t;
        sum less = {0};
        uint32_t i = 0;
        while (i < x.n && !div_terms(&x.t[i], &y.t[0], &t)) i++;
        if (i == x.n || tries == TERMS || !add_term(g, &q, &t)) return false;
        for (uint32_t k = 0; k < y.n; k++) {
            term part;
            if (!mul_terms(g, &t, &y.t[k], &part) || part.c == INT64_MIN || !add_term(g, &less, &part)) return false;
        }
        for (uint32_t k = 0; k < less.n; k++) {
            less.t[k].c = -less.t[k].c;
            if (!add_term(g, &x, &less.t[k])) return false;
        }
    }
    *out = build(g, &q);
    return !an_uop_is_none(*out);
}

static void print_dim(const an_graph *g, an_uop u, char *text, size_t size)
{
    an_str s;
    an_str_init(&s, g->ctx);
    an_dim_print(&s, g, u);
    (void)snprintf(text, size, "%s", s.failed ? "..." : an_str_cstr(&s));
    an_str_fini(&s);
}

an_uop an_dim_div(an_graph *g, an_uop a, an_uop b)
{
    an_uop q = AN_UOP_NONE;
    char x[128], y[128];
    if (an_uop_is_none(a) || an_uop_is_none(b)) return AN_UOP_NONE;
    if (an_dim_divides(g, a, b, &q)) return q;
    print_dim(g, a, x, sizeof x);
    print_dim(g, b, y, sizeof y);
    an_fail(g->ctx, AN_ERR_SHAPE, "an_dim_div: %s may not divide %s", y, x);
    return AN_UOP_NONE;
}

/* As one writes it: n*4 + m*2 - 1. */
void an_dim_print(an_str *out, const an_graph *g, an_uop u)
{
    sum s = {0};
    int64_t v = 0;
    if (an_uop_int(g, u, &v)) {
        an_str_printf(out, "%lld", (long long)v);
        return;
    }
    if (!add_to(g, &s, u, 1) || s.n == 0) {
        an_uop_print(out, g, u, 4);
        return;
    }
    uint32_t put = 0;
    for (uint32_t k = 0; k < 2 * s.n; k++) { /* what is added, then what is taken off */
        const term *t = &s.t[k % s.n];
        const bool less = t->c < 0 && t->c != INT64_MIN;
        const int64_t c = less ? -t->c : t->c;
        if (less != (k >= s.n)) continue;
        an_str_put(out, put++ == 0 ? (less ? "-" : "") : less ? " - " : " + ");
        for (uint32_t i = 0; i < t->n; i++) {
            if (i) an_str_putc(out, '*');
            an_uop_print(out, g, t->x[i], 4);
        }
        if (c == 1 && t->n) continue;
        an_str_printf(out, t->n ? "*%lld" : "%lld", (long long)c);
    }
}
