/* less.c - comparisons that hold whatever the symbols are: i*4 + j < n*4 for i below n and j below 4. The greatest value of a sum is
 * taken as an expression over symbols, and only that by its interval:
 *     i*4 + j  <=  (n - 1)*4 + 3  =  n*4 - 1 */
#include "rewrite/lin.h"

enum { LOOK_MAX = 32 };

/* An expression over symbols and constants alone. */
static bool is_symbolic(const an_graph *g, an_uop u)
{
    an_uop stack[LOOK_MAX];
    uint32_t top = 0, seen = 0;
    stack[top++] = u;
    while (top) {
        const an_uop x = stack[--top];
        const an_op op = an_uop_op(g, x);
        if (op == AN_OP_CONST || op == AN_OP_VAR) continue;
        if (!an_op_has(op, AN_TRAIT_ELEM) || an_uop_dtype(g, x) != AN_INDEX || an_uop_lanes(g, x) != 1) return false;
        if (++seen > LOOK_MAX || top + an_uop_nsrc(g, x) > LOOK_MAX) return false;
        for (uint32_t i = 0; i < an_uop_nsrc(g, x); i++) stack[top++] = an_uop_src(g, x, i);
    }
    return true;
}

/* A range times, perhaps, an expression over symbols that is not negative: its greatest value. */
static bool most_of_product(an_rewriter *rw, an_uop u, an_uop *most)
{
    an_graph *g = rw->graph;
    const bool product = an_uop_op(g, u) == AN_OP_MUL;
    for (uint32_t i = 0; i < (product ? 2u : 1u); i++) {
        const an_uop range = product ? an_uop_src(g, u, i) : u, by = product ? an_uop_src(g, u, 1 - i) : an_index(g, 1);
        if (an_uop_op(g, range) != AN_OP_RANGE || !is_symbolic(g, an_uop_src(g, range, 0))) continue;
        if (!is_symbolic(g, by) || an_bounds_get(&rw->bounds, by).lo < 0) continue;
        *most = an_dim_mul(g, an_dim_sub(g, an_uop_src(g, range, 0), an_index(g, 1)), by);
        return !an_uop_is_none(*most);
    }
    return false;
}

/* Is there a symbol in the sum to reason about? */
static bool has_symbols(const an_graph *g, const an_lin *a)
{
    for (uint32_t i = 0; i < a->n; i++) {
        const an_uop x = a->term[i].x;
        const an_op op = an_uop_op(g, x);
        if (op == AN_OP_VAR || op == AN_OP_MUL || (op == AN_OP_RANGE && !an_uop_is_const(g, an_uop_src(g, x, 0)))) return true;
        if (op != AN_OP_RANGE && is_symbolic(g, x)) return true;
    }
    return false;
}

int64_t an_lin_most(an_rewriter *rw, const an_lin *a)
{
    an_graph *g = rw->graph;
    if (an_uop_dtype(g, a->like) != AN_INDEX || an_uop_lanes(g, a->like) != 1 || !has_symbols(g, a)) return an_lin_bounds(rw, a).hi;
    an_uop sum = an_index(g, a->c);
    for (uint32_t i = 0; i < a->n; i++) {
        const an_lin_term t = a->term[i];
        an_uop most = AN_UOP_NONE;
        if (is_symbolic(g, t.x)) {
            sum = an_dim_add(g, sum, an_dim_mul(g, t.x, an_index(g, t.c)));
        } else if (most_of_product(rw, t.x, &most)) {
            if (t.c > 0) sum = an_dim_add(g, sum, an_dim_mul(g, most, an_index(g, t.c)));
        } else {
            const int64_t hi = an_term_bounds(rw, t).hi;
            if (hi == INT64_MAX || hi == INT64_MIN) return INT64_MAX;
            sum = an_dim_add(g, sum, an_index(g, hi));
        }
        if (an_uop_is_none(sum)) return INT64_MAX;
    }
    const int64_t plain = an_lin_bounds(rw, a).hi, hi = an_bounds_get(&rw->bounds, sum).hi;
    return hi < plain ? hi : plain;
}

int64_t an_lin_least(an_rewriter *rw, const an_lin *a)
{
    an_lin b = *a;
    if (b.c == INT64_MIN) return INT64_MIN;
    b.c = -b.c;
    for (uint32_t i = 0; i < b.n; i++) {
        if (b.term[i].c == INT64_MIN) return INT64_MIN;
        b.term[i].c = -b.term[i].c;
    }
    const int64_t most = an_lin_most(rw, &b);
    return most == INT64_MAX ? INT64_MIN : -most;
}

bool an_rule_less(an_rewriter *rw, an_uop x, an_uop y)
{
    an_lin s, t;
    const an_interval a = an_bounds_get(&rw->bounds, x), b = an_bounds_get(&rw->bounds, y);
    if (a.hi != INT64_MAX && a.hi < b.lo) return true;
    if (an_uop_dtype(rw->graph, x) != AN_INDEX || an_rule_is_const(rw->graph, y)) return false;
    if (!an_lin_of(rw, x, AN_LIN_EXACT, &s) || !an_lin_of(rw, y, AN_LIN_EXACT, &t) || !an_lin_add(rw, &s, &t, -1)) return false;
    return an_lin_most(rw, &s) < 0;
}
