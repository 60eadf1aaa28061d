/* residue.c - sums that take only what a remainder lets through.
 *
 *     sum over r < n of where((a r + e) % m == 0, x(r), 0)  =  sum over t < n / m, rounded up, of where(r < n, x(r), 0),
 *     r = m t + (-e / a) % m          a and m without common divisor, e free of r, 1 / a the inverse modulo m
 *
 * The gradient of windows in steps of m is such a sum: of the windows around an element, an m-th begins where one can begin. */
#include "schedule/sched.h"

/* How much u, a sum of multiples, grows with range, and what is left of it at 0; false if it is no such sum. */
static bool affine(an_sched *s, an_uop u, an_uop range, int64_t *coef, an_uop *rest)
{
    an_graph *g = s->g;
    struct {
        an_uop u;
        int64_t by;
    } stack[32];
    uint32_t n = 0;
    const an_uop zero = an_index(g, 0);
    *coef = 0;
    stack[n].u = u;
    stack[n++].by = 1;
    while (n) {
        const an_uop top = stack[--n].u;
        const int64_t by = stack[n].by;
        int64_t c = 0;
        if (an_uop_eq(top, range)) {
            *coef += by;
        } else if (an_uop_op(g, top) == AN_OP_ADD && n + 2 <= 32) {
            for (uint32_t i = 0; i < 2; i++) {
                stack[n].u = an_uop_src(g, top, i);
                stack[n++].by = by;
            }
        } else if (an_uop_op(g, top) == AN_OP_MUL && an_uop_int(g, an_uop_src(g, top, 1), &c) && c > -4096 && c < 4096 && by > -4096 && by < 4096) {
            stack[n].u = an_uop_src(g, top, 0);
            stack[n++].by = by * c;
        } else {
            an_uop_vec below = {0};
            const bool free = an_ranges_below(s, top, &below) && !an_vec_has(&below, range);
            an_vec_fini(s->ctx, &below);
            if (!free) return false;
        }
    }
    *rest = *coef ? an_simplify(g, an_substitute(g, u, &range, &zero, 1)) : u;
    return *coef != 0 && !an_uop_is_none(*rest);
}

/* The x for which a x % m is 1, from 1 to m - 1; 0: there is none. */
static int64_t inverse(int64_t a, int64_t m)
{
    for (int64_t x = 1; x < m; x++)
        if (((a % m + m) % m * x) % m == 1) return x;
    return 0;
}

bool an_residue_of(an_sched *s, an_uop condition, an_uop range, an_residue *out)
{
    enum { MOST = 4096 };
    const an_graph *g = s->g;
    const an_op op = an_uop_op(g, condition);
    if (an_uop_op(g, range) != AN_OP_RANGE || (op != AN_OP_CMPLT && op != AN_OP_CMPEQ)) return false;
    const an_uop mod = an_uop_src(g, condition, 0);
    if (!an_uop_is_int(g, an_uop_src(g, condition, 1), op == AN_OP_CMPLT ? 1 : 0) || an_uop_op(g, mod) != AN_OP_FLOORMOD) return false;
    if (an_uop_dtype(g, mod) != AN_INDEX || !an_uop_int(g, an_uop_src(g, mod, 1), &out->m) || out->m < 2 || out->m > MOST) return false;
    out->sum = an_uop_src(g, mod, 0);
    if (!affine(s, out->sum, range, &out->a, &out->e)) return false;
    out->inverse = inverse(out->a, out->m);
    return out->inverse != 0;
}

uint32_t an_conjuncts(const an_graph *g, an_uop c, an_uop *out, uint32_t most)
{
    an_uop pending[AN_CONJUNCTS_MAX];
    uint32_t n = 0, found = 0;
    pending[n++] = c;
    while (n && found < most) {
        const an_uop u = pending[--n];
        if (an_uop_op(g, u) == AN_OP_AND && an_uop_dtype(g, u) == AN_BOOL && n + 2 <= AN_CONJUNCTS_MAX) {
            pending[n++] = an_uop_src(g, u, 0);
            pending[n++] = an_uop_src(g, u, 1);
        } else {
            out[found++] = u;
        }
    }
    return n ? 0 : found;
}

double an_residue_share(an_sched *s, an_uop valid, const an_uop_vec *ranges)
{
    an_uop part[AN_CONJUNCTS_MAX];
    an_residue r;
    double share = 1;
    if (an_uop_is_const(s->g, valid)) return 1;
    const uint32_t n = an_conjuncts(s->g, valid, part, AN_CONJUNCTS_MAX);
    for (size_t i = 0; i < ranges->len; i++) {
        if (an_range_kind_of(an_uop_arg(s->g, ranges->data[i])) != AN_RANGE_REDUCE) continue;
        for (uint32_t k = 0; k < n; k++) {
            if (!an_residue_of(s, part[k], ranges->data[i], &r)) continue;
            share /= (double)r.m;
            break;
        }
    }
    return share;
}

static int64_t bound_of(const an_graph *g, an_uop range)
{
    int64_t n = 0;
    return an_uop_int(g, an_uop_src(g, range, 0), &n) ? n : 0;
}

/* Is u computed without a reduction? Its ranges might be those of one that it goes into. */
static bool is_plain(an_sched *s, an_uop u)
{
    an_uop_vec order = {0};
    bool plain = !an_toposort(s->g, &u, 1, &order);
    for (size_t i = 0; i < order.len; i++) plain = plain && an_uop_op(s->g, order.data[i]) != AN_OP_REDUCE;
    an_vec_fini(s->ctx, &order);
    return plain;
}

/* The index that a sum over the remainder's range takes at t, and what sum // m is there. None when memory is out. */
static an_uop at_step(an_sched *s, const an_residue *r, an_uop t, an_uop *quotient)
{
    an_graph *g = s->g;
    const an_uop m = an_index(g, r->m), left = an_binary(g, AN_OP_FLOORMOD, r->e, m);
    const an_uop first = an_simplify(g, an_binary(g, AN_OP_FLOORMOD, an_idx_mul(g, r->e, an_index(g, r->m - r->inverse)), m));
    if (an_uop_is_none(first)) return first;
    const an_uop more = an_binary(g, AN_OP_FLOORDIV, an_idx_add(g, an_idx_mul(g, first, an_index(g, r->a)), left), m);
    const an_uop q = an_idx_add(g, an_idx_mul(g, t, an_index(g, r->a)), an_idx_add(g, an_binary(g, AN_OP_FLOORDIV, r->e, m), more));
    *quotient = an_simplify(g, q);
    return an_idx_add(g, an_idx_mul(g, t, m), first);
}

/* x, which does not matter where the condition does not hold, with no gate on loads that need none and whose gate it implies. False
 * when memory is out. */
static bool drop_gates(an_sched *s, an_uop condition, an_uop *x)
{
    an_graph *g = s->g;
    an_uop_vec order = {0}, from = {0}, to = {0};
    bool ok = !an_toposort(g, x, 1, &order);
    for (size_t i = 0; i < order.len && ok; i++) {
        const an_uop load = order.data[i];
        if (an_uop_op(g, load) != AN_OP_LOAD || an_uop_nsrc(g, load) < 3 || an_needs_gate(s, load)) continue;
        if (!an_uop_is_int(g, an_simplify_valid(g, condition, an_uop_src(g, load, 2)), 1)) continue;
        const an_uop open = an_load(g, an_uop_src(g, load, 0), an_uop_src(g, load, 1), AN_UOP_NONE);
        ok = an_vec_push(s->ctx, &from, load) && an_vec_push(s->ctx, &to, open);
    }
    ok = ok && !an_substitute_many(g, x, 1, from.data, to.data, from.len);
    an_vec_fini(s->ctx, &order);
    an_vec_fini(s->ctx, &from);
    an_vec_fini(s->ctx, &to);
    return ok;
}

/* The sum over the range of a remainder, in steps: x where all of the n conditions hold, but for the one at index at. */
static an_uop in_steps(an_sched *s, an_uop reduce, uint32_t which, const an_residue *r, const an_uop *conditions, uint32_t n, uint32_t at, an_uop x)
{
    an_graph *g = s->g;
    const an_uop range = an_uop_src(g, reduce, which), quotient_node = an_binary(g, AN_OP_FLOORDIV, r->sum, an_index(g, r->m));
    const int64_t bound = bound_of(g, range);
    const an_uop t = an_sched_range(s, an_index(g, (bound + r->m - 1) / r->m), s->range_owner.data[an_range_id(an_uop_arg(g, range))], 0);
    an_uop quotient = AN_UOP_NONE, all = an_const_int(g, AN_BOOL, 1);
    const an_uop element = an_uop_is_none(t) ? t : at_step(s, r, t, &quotient);
    if (an_uop_is_none(element) || an_uop_is_none(quotient)) return AN_UOP_NONE;
    for (uint32_t k = 0; k < n; k++)
        if (k != at) all = an_uop_is_int(g, all, 1) ? conditions[k] : an_binary(g, AN_OP_AND, all, conditions[k]);
    if (an_uop_is_none(all) || !drop_gates(s, an_binary(g, AN_OP_AND, all, conditions[at]), &x)) return AN_UOP_NONE;
    const an_uop ok = bound % r->m ? an_binary(g, AN_OP_CMPLT, element, an_uop_src(g, range, 0)) : an_const_int(g, AN_BOOL, 1);
    an_uop parts[2] = {x, all};
    const an_uop from[2] = {quotient_node, conditions[at]}, to[2] = {quotient, an_const_int(g, AN_BOOL, 1)};
    for (int k = 0; k < 2; k++) parts[k] = an_at_element_with(s, parts[k], range, element, ok, from, to, 2);
    if (an_uop_is_none(parts[0]) || an_uop_is_none(parts[1])) return AN_UOP_NONE;
    const an_uop condition = an_simplify(g, an_binary(g, AN_OP_AND, parts[1], ok));
    const an_uop value = an_select(g, condition, parts[0], an_const_like(g, parts[0], 0));
    an_uop src[AN_RANK_MAX + 1] = {value};
    uint32_t nsrc = 1;
    for (uint32_t k = 1; k < an_uop_nsrc(g, reduce); k++)
        if (k != which || an_uop_op(g, t) == AN_OP_RANGE) src[nsrc++] = k == which ? t : an_uop_src(g, reduce, k);
    if (an_uop_is_none(value) || nsrc == 1) return value;
    return an_uop_new(g, AN_OP_REDUCE, an_uop_dtype(g, reduce), src, nsrc, an_uop_arg(g, reduce));
}

an_uop an_residue_steps(an_sched *s, an_uop reduce)
{
    an_graph *g = s->g;
    an_uop conditions[AN_CONJUNCTS_MAX], x = an_uop_src(g, reduce, 0);
    uint32_t n = 0;
    an_residue r;
    if (an_reduce_op(an_uop_arg(g, reduce)) != AN_OP_ADD) return AN_UOP_NONE;
    for (; an_uop_op(g, x) == AN_OP_WHERE && an_uop_is_number(g, an_uop_src(g, x, 2), 0.0); x = an_uop_src(g, x, 1)) {
        const uint32_t more = an_conjuncts(g, an_uop_src(g, x, 0), conditions + n, AN_CONJUNCTS_MAX - n);
        if (more == 0) return AN_UOP_NONE;
        n += more;
    }
    for (uint32_t i = 1; i < an_uop_nsrc(g, reduce); i++) {
        const an_uop range = an_uop_src(g, reduce, i);
        if (bound_of(g, range) < 2) continue;
        for (uint32_t k = 0; k < n; k++)
            if (an_residue_of(s, conditions[k], range, &r) && is_plain(s, r.e)) return in_steps(s, reduce, i, &r, conditions, n, k, x);
    }
    return AN_UOP_NONE;
}
