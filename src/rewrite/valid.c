/* valid.c - expressions under a gate. Where a gate `a and b and ...` holds, its comparisons bound what they compare; with
 * these bounds the symbolic rules say more of the gated expression than they could without. No solver: each comparison
 * narrows its sum, and each term of it once, given the bounds of the other terms, in two rounds. */
#include "rewrite/lin.h"

enum { CLAUSES_MAX = 32, ROUNDS = 2 };

typedef struct clauses {
    an_uop list[CLAUSES_MAX];
    uint32_t n;
} clauses;

/* The conjuncts of gate; false when there are too many. */
static bool clauses_of(const an_graph *g, an_uop gate, clauses *out)
{
    an_uop stack[CLAUSES_MAX];
    uint32_t top = 0;
    out->n = 0;
    stack[top++] = gate;
    while (top) {
        const an_uop u = stack[--top];
        if (an_uop_op(g, u) == AN_OP_AND && an_uop_dtype(g, u) == AN_BOOL) {
            if (top + 2 > CLAUSES_MAX) return false;
            stack[top++] = an_uop_src(g, u, 1);
            stack[top++] = an_uop_src(g, u, 0);
        } else {
            if (out->n == CLAUSES_MAX) return false;
            out->list[out->n++] = u;
        }
    }
    return true;
}

/* ---- narrowing ------------------------------------------------------------------------------------ */

/* x lies in v, and so, where it is a floordiv or floormod, does what is inside. */
static bool narrow_node(an_rewriter *rw, an_uop x, an_interval v)
{
    const an_graph *g = rw->graph;
    for (int depth = 0; depth < 8; depth++) {
        int64_t d = 0;
        if (an_rule_is_const(g, x)) return true;
        if (!an_bounds_narrow(&rw->bounds, x, v)) return false;
        if (an_uop_op(g, x) != AN_OP_FLOORDIV || !an_rule_int(g, an_uop_src(g, x, 1), &d) || d <= 0) return true;
        v.lo = an_inf_mul(v.lo, d);
        v.hi = an_inf_add(an_inf_mul(v.hi, d), v.hi == INT64_MAX ? 0 : d - 1);
        x = an_uop_src(g, x, 0);
    }
    return true;
}

/* The sum s is at most 0: each term is at most what the least of the others leaves. */
static bool narrow_terms(an_rewriter *rw, const an_lin *s)
{
    for (uint32_t i = 0; i < s->n; i++) {
        an_lin rest = *s;
        an_lin_remove(&rest, i);
        const an_interval others = an_lin_bounds(rw, &rest);
        const int64_t c = s->term[i].c;
        if (others.lo == INT64_MIN || others.lo == INT64_MAX || c == INT64_MIN) continue;
        an_interval v = {INT64_MIN, INT64_MAX};
        if (c > 0)
            v.hi = an_int_floor_div(-others.lo, c);
        else
            v.lo = -an_int_floor_div(-others.lo, -c);
        if (!narrow_node(rw, s->term[i].x, v)) return false;
    }
    return true;
}

/* x - y + c is at most 0. */
static bool narrow_below(an_rewriter *rw, an_uop x, an_uop y, int64_t c)
{
    an_lin s, t;
    if (!an_rule_is_int(rw, x)) return true;
    const an_interval bx = an_bounds_get(&rw->bounds, x), by = an_bounds_get(&rw->bounds, y);
    if (!narrow_node(rw, x, (an_interval){INT64_MIN, an_inf_add(by.hi, -c)})) return false;
    if (!narrow_node(rw, y, (an_interval){an_inf_add(bx.lo, c), INT64_MAX})) return false;
    if (!an_lin_of(rw, x, AN_LIN_EXACT, &s) || !an_lin_of(rw, y, AN_LIN_EXACT, &t) || !an_lin_add(rw, &s, &t, -1)) return true;
    if (__builtin_add_overflow(s.c, c, &s.c)) return true;
    return an_lin_narrow(rw, &s) && narrow_terms(rw, &s);
}

/* The clause is true (or, negated, false). */
static bool narrow_by(an_rewriter *rw, an_uop clause, bool value)
{
    const an_graph *g = rw->graph;
    while (an_uop_op(g, clause) == AN_OP_XOR && an_uop_dtype(g, clause) == AN_BOOL &&
           an_rule_is_number(g, an_uop_src(g, clause, 1), 1.0)) {
        if (!an_bounds_narrow(&rw->bounds, clause, (an_interval){value, value})) return false;
        clause = an_uop_src(g, clause, 0);
        value = !value;
    }
    if (!an_rule_is_const(g, clause) && !an_bounds_narrow(&rw->bounds, clause, (an_interval){value, value})) return false;
    const an_op op = an_uop_op(g, clause);
    if (!an_op_has(op, AN_TRAIT_CMP)) return true;
    const an_uop x = an_uop_src(g, clause, 0), y = an_uop_src(g, clause, 1);
    if (op == AN_OP_CMPLT) return value ? narrow_below(rw, x, y, 1) : narrow_below(rw, y, x, 0);
    if ((op == AN_OP_CMPEQ) != value) return true; /* one value less says little of an interval */
    return narrow_below(rw, x, y, 0) && narrow_below(rw, y, x, 0);
}

/* A rewriter that knows the clauses, less the skip-th, to hold. False when they cannot, or memory is out. */
static bool under(an_rewriter *outer, const clauses *c, uint32_t skip, bool value, an_rewriter *rw)
{
    static const an_ruleset *const symbolic[] = {&an_rules_symbolic};
    an_rewriter_init(rw, outer->graph, NULL, NULL);
    rw->sets = symbolic;
    rw->nsets = 1;
    rw->nested = true;
    bool ok = true;
    for (int round = 0; round < ROUNDS && ok; round++) {
        for (uint32_t i = 0; i < c->n && ok; i++)
            if (i != skip) ok = narrow_by(rw, c->list[i], value);
        /* What was worked out on the way came from wider bounds: keep what the clauses say, the rest follows again. */
        ok = ok && !rw->bounds.impossible && an_bounds_restart(&rw->bounds);
    }
    return ok;
}

static an_uop simplify_under(an_rewriter *outer, const clauses *c, uint32_t skip, bool value, an_uop expr)
{
    an_rewriter rw;
    an_uop u = expr;
    if (!under(outer, c, skip, value, &rw) || an_rewrite_with(&rw, &u)) u = expr;
    an_rewriter_fini(&rw);
    return u;
}

/* ---- rules ----------------------------------------------------------------------------------------- */

/* src with the i-th replaced by what it is under gate, or AN_UOP_NONE if that is no other. */
static an_uop with_valid(an_rewriter *rw, an_uop n, uint32_t i, an_uop gate, bool value)
{
    enum { SRCS = 4 };
    an_graph *g = rw->graph;
    an_uop src[SRCS];
    const uint32_t nsrc = an_uop_nsrc(g, n);
    clauses c = {.n = 0};
    if (rw->nested || nsrc > SRCS) return AN_UOP_NONE;
    for (uint32_t k = 0; k < nsrc; k++) src[k] = an_uop_src(g, n, k);
    if (value ? !clauses_of(g, gate, &c) : false) return AN_UOP_NONE;
    if (!value) c = (clauses){.list = {gate}, .n = 1};
    const an_uop better = simplify_under(rw, &c, CLAUSES_MAX, value, src[i]);
    if (an_uop_eq(better, src[i])) return AN_UOP_NONE;
    src[i] = better;
    return an_uop_with_srcs(g, n, src);
}

an_uop an_rule_valid_load(an_rewriter *rw, an_uop n)
{
    return with_valid(rw, n, 1, an_uop_src(rw->graph, n, 2), true);
}

an_uop an_rule_valid_store(an_rewriter *rw, an_uop n)
{
    return with_valid(rw, n, 1, an_uop_src(rw->graph, n, 3), true);
}

an_uop an_rule_valid_where(an_rewriter *rw, an_uop n)
{
    const an_uop gate = an_uop_src(rw->graph, n, 0);
    const an_uop r = with_valid(rw, n, 1, gate, true);
    return an_uop_is_none(r) ? with_valid(rw, n, 2, gate, false) : r;
}

an_uop an_rule_valid_and(an_rewriter *rw, an_uop n)
{
    an_graph *g = rw->graph;
    clauses c;
    if (rw->nested || an_uop_dtype(g, n) != AN_BOOL || !clauses_of(g, n, &c)) return AN_UOP_NONE;
    for (uint32_t i = c.n; i-- > 0;) { /* the later of two that imply each other goes */
        const an_uop u = simplify_under(rw, &c, i, true, c.list[i]);
        if (!an_rule_is_const(g, u)) continue;
        if (an_rule_is_number(g, u, 0.0)) return an_const_int(g, AN_BOOL, 0);
        an_uop all = AN_UOP_NONE;
        for (uint32_t k = 0; k < c.n; k++)
            if (k != i) all = an_uop_is_none(all) ? c.list[k] : an_binary(g, AN_OP_AND, all, c.list[k]);
        return all;
    }
    return AN_UOP_NONE;
}

/* ---- outside of rules ------------------------------------------------------------------------------ */

an_uop an_simplify(an_graph *g, an_uop u)
{
    static const an_ruleset *const symbolic[] = {&an_rules_symbolic};
    return an_rewrite(g, symbolic, 1, &u, 1, NULL, NULL, "simplify") ? AN_UOP_NONE : u;
}

an_uop an_simplify_valid(an_graph *g, an_uop gate, an_uop expr)
{
    an_rewriter rw;
    clauses c;
    if (an_uop_is_none(gate) || an_uop_is_none(expr)) return AN_UOP_NONE;
    expr = an_simplify(g, expr);
    if (an_uop_is_none(expr) || !clauses_of(g, gate, &c)) return expr;
    an_rewriter_init(&rw, g, NULL, NULL);
    const an_uop u = simplify_under(&rw, &c, CLAUSES_MAX, true, expr);
    an_rewriter_fini(&rw);
    return u;
}
