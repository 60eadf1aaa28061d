/* lin.c - see lin.h. */
#include "rewrite/lin.h"

int64_t an_int_floor_div(int64_t a, int64_t b)
{
    const int64_t q = a / b;
    return a % b < 0 ? q - 1 : q;
}

int64_t an_int_floor_mod(int64_t a, int64_t b)
{
    const int64_t r = a % b;
    return r < 0 ? r + b : r;
}

static bool is_inf(int64_t a)
{
    return a == INT64_MIN || a == INT64_MAX;
}

int64_t an_inf_add(int64_t a, int64_t b)
{
    int64_t r = 0;
    if (is_inf(a)) return a;
    if (is_inf(b)) return b;
    if (__builtin_add_overflow(a, b, &r)) return a > 0 ? INT64_MAX : INT64_MIN;
    return r;
}

int64_t an_inf_mul(int64_t a, int64_t b)
{
    int64_t r = 0;
    if (a == 0 || b == 0) return 0;
    if (is_inf(a) || is_inf(b) || __builtin_mul_overflow(a, b, &r)) return (a > 0) == (b > 0) ? INT64_MAX : INT64_MIN;
    return r;
}

/* ---- taking apart --------------------------------------------------------------------------------- */

/* The op of n on operands within their bounds stays within the dtype. */
bool an_rule_no_wrap(an_rewriter *rw, an_uop n)
{
    const an_graph *g = rw->graph;
    if (an_uop_dtype(g, n) == AN_INDEX) return true;
    const an_interval x = an_bounds_get(&rw->bounds, an_uop_src(g, n, 0)), y = an_bounds_get(&rw->bounds, an_uop_src(g, n, 1));
    const bool is_add = an_uop_op(g, n) == AN_OP_ADD;
    const int64_t v[4] = {is_add ? an_inf_add(x.lo, y.lo) : an_inf_mul(x.lo, y.lo),
                          is_add ? an_inf_add(x.hi, y.hi) : an_inf_mul(x.hi, y.hi),
                          is_add ? 0 : an_inf_mul(x.lo, y.hi), is_add ? 0 : an_inf_mul(x.hi, y.lo)};
    for (int i = 0; i < 4; i++)
        if (is_inf(v[i]) || !an_rule_holds(rw, n, v[i])) return false;
    return true;
}

static bool exact_add(int64_t a, int64_t b, bool wrap, int64_t *out)
{
    if (wrap) {
        *out = (int64_t)((uint64_t)a + (uint64_t)b);
        return true;
    }
    return !__builtin_add_overflow(a, b, out);
}

static bool exact_mul(int64_t a, int64_t b, bool wrap, int64_t *out)
{
    if (wrap) {
        *out = (int64_t)((uint64_t)a * (uint64_t)b);
        return true;
    }
    return !__builtin_mul_overflow(a, b, out);
}

/* Keeps terms sorted by an_uop_cmp of x. */
static bool insert(an_rewriter *rw, an_lin *a, an_uop x, int64_t c, bool wrap)
{
    uint32_t i = 0;
    if (wrap) c = an_scalar_round(an_uop_dtype(rw->graph, a->like), (an_scalar){.i = c}).i;
    if (c == 0) return true;
    while (i < a->n && an_uop_cmp(rw->graph, a->term[i].x, x) < 0) i++;
    if (i < a->n && an_uop_eq(a->term[i].x, x)) {
        if (!exact_add(a->term[i].c, c, wrap, &a->term[i].c)) return false;
        if (wrap) a->term[i].c = an_scalar_round(an_uop_dtype(rw->graph, a->like), (an_scalar){.i = a->term[i].c}).i;
        if (a->term[i].c == 0) an_lin_remove(a, i);
        return true;
    }
    if (a->n == AN_LIN_MAX) return false;
    memmove(&a->term[i + 1], &a->term[i], (a->n - i) * sizeof *a->term);
    a->term[i] = (an_lin_term){x, c};
    a->n++;
    return true;
}

void an_lin_remove(an_lin *a, uint32_t i)
{
    memmove(&a->term[i], &a->term[i + 1], (a->n - i - 1) * sizeof *a->term);
    a->n--;
}

bool an_lin_add_term(an_rewriter *rw, an_lin *a, an_uop x, int64_t c)
{
    return insert(rw, a, x, c, false);
}

bool an_lin_add(an_rewriter *rw, an_lin *a, const an_lin *b, int64_t scale)
{
    int64_t c = 0;
    for (uint32_t i = 0; i < b->n; i++)
        if (!exact_mul(b->term[i].c, scale, false, &c) || !insert(rw, a, b->term[i].x, c, false)) return false;
    return exact_mul(b->c, scale, false, &c) && exact_add(a->c, c, false, &a->c);
}

bool an_lin_of(an_rewriter *rw, an_uop u, an_lin_mode mode, an_lin *out)
{
    enum { STACK = 2 * AN_LIN_MAX };
    const an_graph *g = rw->graph;
    an_lin_term stack[STACK];
    uint32_t top = 0;
    const bool wrap = mode == AN_LIN_WRAPPING && an_uop_dtype(g, u) != AN_INDEX;
    *out = (an_lin){.like = u};
    stack[top++] = (an_lin_term){u, 1};
    while (top) {
        const an_lin_term t = stack[--top];
        const an_op op = an_uop_op(g, t.x);
        int64_t c = 0, v = 0;
        if (an_rule_int(g, t.x, &v)) {
            if (!exact_mul(t.c, v, wrap, &c) || !exact_add(out->c, c, wrap, &out->c)) return false;
        } else if (op == AN_OP_ADD && (wrap || an_rule_no_wrap(rw, t.x))) {
            if (top + 2 > STACK) return false;
            stack[top++] = (an_lin_term){an_uop_src(g, t.x, 1), t.c};
            stack[top++] = (an_lin_term){an_uop_src(g, t.x, 0), t.c};
        } else if (op == AN_OP_MUL && an_rule_int(g, an_uop_src(g, t.x, 1), &v) && (wrap || an_rule_no_wrap(rw, t.x))) {
            if (!exact_mul(t.c, v, wrap, &c)) return false;
            if (c) stack[top++] = (an_lin_term){an_uop_src(g, t.x, 0), c};
        } else if (!insert(rw, out, t.x, t.c, wrap)) {
            return false;
        }
    }
    return true;
}

/* The sum as nodes, whatever its bounds. */
static an_uop build(an_rewriter *rw, const an_lin *a)
{
    an_graph *g = rw->graph;
    an_uop sum = AN_UOP_NONE;
    for (uint32_t i = 0; i < a->n; i++) {
        const an_lin_term t = a->term[i];
        const an_uop x = t.c == 1 ? t.x : an_binary(g, AN_OP_MUL, t.x, an_rule_int_like(rw, a->like, t.c));
        if (an_uop_is_none(x)) return x;
        sum = i == 0 ? x : an_binary(g, AN_OP_ADD, sum, x);
    }
    const an_uop c = an_rule_int_like(rw, a->like, a->c);
    if (a->n == 0) return c;
    return an_rule_is_number(g, c, 0.0) ? sum : an_binary(g, AN_OP_ADD, sum, c);
}

/* ---- asking --------------------------------------------------------------------------------------- */

an_interval an_term_bounds(an_rewriter *rw, an_lin_term t)
{
    const an_interval x = an_bounds_get(&rw->bounds, t.x);
    const int64_t a = an_inf_mul(t.c, x.lo), b = an_inf_mul(t.c, x.hi);
    return t.c < 0 ? (an_interval){b, a} : (an_interval){a, b};
}

/* The sum less its constant as a node times *scale: what a gate says of it holds for its multiples. None where it is a single
 * term, or no index. */
static an_uop direction(an_rewriter *rw, const an_lin *a, int64_t *scale)
{
    if (a->n < 2 || an_uop_dtype(rw->graph, a->like) != AN_INDEX || an_uop_lanes(rw->graph, a->like) != 1) return AN_UOP_NONE;
    an_lin unit = *a;
    unit.c = 0;
    *scale = an_lin_gcd(rw, a);
    if (a->term[0].c < 0) *scale = -*scale;
    for (uint32_t i = 0; i < a->n; i++) {
        if (a->term[i].c == INT64_MIN) return AN_UOP_NONE;
        unit.term[i].c /= *scale;
    }
    return build(rw, &unit);
}

bool an_lin_narrow(an_rewriter *rw, const an_lin *a)
{
    int64_t scale = 1;
    const an_uop x = direction(rw, a, &scale);
    if (an_uop_is_none(x) || a->c == INT64_MIN) return true;
    an_interval v = {INT64_MIN, INT64_MAX};
    if (scale > 0)
        v.hi = an_int_floor_div(-a->c, scale);
    else
        v.lo = -an_int_floor_div(-a->c, -scale);
    return an_bounds_narrow(&rw->bounds, x, v);
}

an_interval an_lin_bounds(an_rewriter *rw, const an_lin *a)
{
    an_interval r = {a->c, a->c};
    for (uint32_t i = 0; i < a->n; i++) {
        const an_interval t = an_term_bounds(rw, a->term[i]);
        r.lo = an_inf_add(r.lo, t.lo);
        r.hi = an_inf_add(r.hi, t.hi);
    }
    int64_t scale = 1;
    const an_uop x = rw->bounds.narrowed.len ? direction(rw, a, &scale) : AN_UOP_NONE;
    if (an_uop_is_none(x)) return r;
    const an_interval t = an_term_bounds(rw, (an_lin_term){x, scale});
    const an_interval whole = {an_inf_add(t.lo, a->c), an_inf_add(t.hi, a->c)};
    return (an_interval){whole.lo > r.lo ? whole.lo : r.lo, whole.hi < r.hi ? whole.hi : r.hi};
}

int64_t an_lin_gcd(an_rewriter *rw, const an_lin *a)
{
    int64_t d = 0;
    for (uint32_t i = 0; i < a->n; i++) d = an_rule_gcd(rw, d, a->term[i].c);
    return d;
}

int64_t an_rule_factor(an_rewriter *rw, an_uop x)
{
    an_lin a;
    if (!an_rule_is_int(rw, x) || !an_lin_of(rw, x, AN_LIN_EXACT, &a)) return 1;
    return an_rule_gcd(rw, an_lin_gcd(rw, &a), a.c);
}

/* ---- putting together ------------------------------------------------------------------------------ */

an_uop an_lin_build(an_rewriter *rw, const an_lin *a, an_lin_mode mode)
{
    if (mode == AN_LIN_EXACT && an_uop_dtype(rw->graph, a->like) != AN_INDEX) {
        const an_interval v = an_lin_bounds(rw, a);
        if (is_inf(v.lo) || is_inf(v.hi) || !an_rule_holds(rw, a->like, v.lo) || !an_rule_holds(rw, a->like, v.hi))
            return AN_UOP_NONE;
    }
    return build(rw, a);
}
