/* divmod.c - sums, and floordiv, floormod and comparisons of sums by constants.
 *
 * All of it reasons about integers, so the sums are EXACT ones (lin.h). Where not said otherwise, d is a constant > 1 and
 *     S = d*Q + R        Q the terms whose coefficients d divides
 * so that floor(S/d) = Q + floor(R/d) and S mod d = R mod d. Then, in this order:
 *     bucket      floor(R/d) is the same k for both bounds of R: floor(S/d) = Q + k, S mod d = R - k*d
 *     congruence  the same after taking each coefficient modulo d, to either side of 0
 *     gcd         a common divisor g of R's coefficients and d is taken out: floor((g*A + r)/(g*e)) = floor((A + r//g)/e)
 *     nest        R = g*A + B with g dividing d = g*e, and B between k*g and k*g + g - 1:
 *                 floor(R/d) = floor((A + k)/e), and R mod d = g*((A + k) mod e) + B - k*g */
#include "rewrite/lin.h"

static bool is_finite(an_interval v)
{
    return v.lo != INT64_MIN && v.hi != INT64_MAX;
}

/* floor(v/d) where that is one number. */
static bool bucket(an_interval v, int64_t d, int64_t *k)
{
    if (!is_finite(v)) return false;
    *k = an_int_floor_div(v.lo, d);
    return *k == an_int_floor_div(v.hi, d);
}

/* c - k*d; false if that does not fit. */
static bool less_multiple(int64_t *c, int64_t k, int64_t d)
{
    int64_t kd = 0;
    return !__builtin_mul_overflow(k, d, &kd) && !__builtin_sub_overflow(*c, kd, c);
}

/* S into Q and R; R's constant is in 0..d-1. */
static void split(const an_lin *s, int64_t d, an_lin *q, an_lin *r)
{
    *q = (an_lin){.like = s->like, .c = an_int_floor_div(s->c, d)};
    *r = (an_lin){.like = s->like, .c = an_int_floor_mod(s->c, d)};
    for (uint32_t i = 0; i < s->n; i++) {
        const an_lin_term t = s->term[i];
        if (t.c % d == 0)
            q->term[q->n++] = (an_lin_term){t.x, t.c / d};
        else
            r->term[r->n++] = t;
    }
}

/* Each coefficient c of r to c mod d or c mod d - d, whichever is nearer to 0, the rest times d into q. */
static void reduce(an_rewriter *rw, an_lin *r, int64_t d, an_lin *q, bool *ok)
{
    for (uint32_t i = 0; i < r->n; i++) {
        int64_t m = an_int_floor_mod(r->term[i].c, d);
        if (m > d / 2) m -= d;
        int64_t whole = 0;
        *ok = *ok && !__builtin_sub_overflow(r->term[i].c, m, &whole) && an_lin_add_term(rw, q, r->term[i].x, whole / d);
        r->term[i].c = m;
    }
}

/* The terms of r that g divides, divided, into a; the others, with the constant, into b. */
static void take_out(const an_lin *r, int64_t g, an_lin *a, an_lin *b)
{
    *a = (an_lin){.like = r->like};
    *b = (an_lin){.like = r->like, .c = r->c};
    for (uint32_t i = 0; i < r->n; i++) {
        const an_lin_term t = r->term[i];
        if (t.c % g == 0)
            a->term[a->n++] = (an_lin_term){t.x, t.c / g};
        else
            b->term[b->n++] = t;
    }
}

/* The divisor g of d, the greatest first, for which `nest` holds, with A + k in a and B - k*g in b. */
static bool nest(an_rewriter *rw, const an_lin *r, int64_t d, int64_t *g, an_lin *a, an_lin *b)
{
    int64_t limit = d;
    for (uint32_t tries = 0; tries <= r->n; tries++) {
        *g = 1;
        for (uint32_t i = 0; i < r->n; i++) {
            const int64_t f = an_rule_gcd(rw, r->term[i].c, d);
            if (f < limit && f > *g) *g = f;
        }
        if (*g == 1) return false;
        limit = *g;
        int64_t k = 0;
        take_out(r, *g, a, b);
        if (!bucket(an_lin_bounds(rw, b), *g, &k)) continue;
        a->c = k;
        return less_multiple(&b->c, k, *g);
    }
    return false;
}

static an_uop floor_by(an_rewriter *rw, an_op op, an_uop x, int64_t d)
{
    if (an_uop_is_none(x)) return x;
    if (d == 1) return op == AN_OP_FLOORDIV ? x : an_rule_int_like(rw, x, 0);
    return an_binary(rw->graph, op, x, an_rule_int_like(rw, x, d));
}

/* q + x, as one sum. */
static an_uop add_quotient(an_rewriter *rw, an_lin *q, an_uop x)
{
    int64_t v = 0;
    if (an_uop_is_none(x)) return x;
    if (an_rule_int(rw->graph, x, &v)) {
        if (__builtin_add_overflow(q->c, v, &q->c)) return AN_UOP_NONE;
    } else if (!an_lin_add_term(rw, q, x, 1)) {
        return AN_UOP_NONE;
    }
    return an_lin_build(rw, q, AN_LIN_EXACT);
}

/* n = floordiv(S, d) or floormod(S, d): S and d. */
static bool operands(an_rewriter *rw, an_uop n, an_lin *s, int64_t *d)
{
    const an_graph *g = rw->graph;
    return an_rule_int(g, an_uop_src(g, n, 1), d) && *d > 1 && an_lin_of(rw, an_uop_src(g, n, 0), AN_LIN_EXACT, s);
}

an_uop an_rule_div_sum(an_rewriter *rw, an_uop n)
{
    an_lin s, q, r;
    int64_t d = 0, k = 0;
    if (!operands(rw, n, &s, &d)) return AN_UOP_NONE;
    split(&s, d, &q, &r);
    if (bucket(an_lin_bounds(rw, &r), d, &k)) {
        if (__builtin_add_overflow(q.c, k, &q.c)) return AN_UOP_NONE;
        return an_lin_build(rw, &q, AN_LIN_EXACT);
    }
    an_lin rr = r, qq = q;
    bool ok = true;
    reduce(rw, &rr, d, &qq, &ok);
    if (ok && bucket(an_lin_bounds(rw, &rr), d, &k) && !__builtin_add_overflow(qq.c, k, &qq.c))
        return an_lin_build(rw, &qq, AN_LIN_EXACT);
    const int64_t g = an_rule_gcd(rw, an_lin_gcd(rw, &r), d);
    if (g > 1) {
        for (uint32_t i = 0; i < r.n; i++) r.term[i].c /= g;
        r.c = an_int_floor_div(r.c, g);
        return add_quotient(rw, &q, floor_by(rw, AN_OP_FLOORDIV, an_lin_build(rw, &r, AN_LIN_EXACT), d / g));
    }
    an_lin a, b;
    int64_t f = 0;
    if (nest(rw, &r, d, &f, &a, &b))
        return add_quotient(rw, &q, floor_by(rw, AN_OP_FLOORDIV, an_lin_build(rw, &a, AN_LIN_EXACT), d / f));
    if (q.n == 0 && q.c == 0) return AN_UOP_NONE;
    return add_quotient(rw, &q, floor_by(rw, AN_OP_FLOORDIV, an_lin_build(rw, &r, AN_LIN_EXACT), d));
}

an_uop an_rule_mod_sum(an_rewriter *rw, an_uop n)
{
    an_lin s, q, r;
    int64_t d = 0, k = 0;
    if (!operands(rw, n, &s, &d)) return AN_UOP_NONE;
    split(&s, d, &q, &r);
    if (bucket(an_lin_bounds(rw, &r), d, &k)) {
        return less_multiple(&r.c, k, d) ? an_lin_build(rw, &r, AN_LIN_EXACT) : AN_UOP_NONE;
    }
    an_lin rr = r, qq = q;
    bool ok = true;
    reduce(rw, &rr, d, &qq, &ok);
    if (ok && bucket(an_lin_bounds(rw, &rr), d, &k)) {
        return less_multiple(&rr.c, k, d) ? an_lin_build(rw, &rr, AN_LIN_EXACT) : AN_UOP_NONE;
    }
    an_lin a, b;
    int64_t g = an_rule_gcd(rw, an_lin_gcd(rw, &r), d);
    if (g > 1) {
        take_out(&r, g, &a, &b);
        a.c = an_int_floor_div(b.c, g);
        b.c = an_int_floor_mod(b.c, g);
    } else if (!nest(rw, &r, d, &g, &a, &b)) {
        if (q.n == 0 && q.c == 0) return AN_UOP_NONE;
        return floor_by(rw, AN_OP_FLOORMOD, an_lin_build(rw, &r, AN_LIN_EXACT), d);
    }
    const an_uop inner = floor_by(rw, AN_OP_FLOORMOD, an_lin_build(rw, &a, AN_LIN_EXACT), d / g);
    if (an_uop_is_none(inner)) return inner;
    if (!an_rule_is_const(rw->graph, inner) && !an_lin_add_term(rw, &b, inner, g)) return AN_UOP_NONE;
    return an_lin_build(rw, &b, AN_LIN_EXACT);
}

/* ---- sums ----------------------------------------------------------------------------------------- */

/* x of floordiv(x, d) or floormod(x, d), d a constant > 0. */
static bool is_floor(const an_graph *g, an_op op, an_uop u, an_uop *x, int64_t *d)
{
    if (an_uop_op(g, u) != op || !an_rule_int(g, an_uop_src(g, u, 1), d) || *d <= 0) return false;
    *x = an_uop_src(g, u, 0);
    return true;
}

/* k*d*(x//d) + k*(x%d) is k*x, and k*d*(x//d%e) + k*(x%d) is k*(x%(d*e)). One pair at a time. */
static bool recombine(an_rewriter *rw, an_lin *a)
{
    const an_graph *g = rw->graph;
    for (uint32_t m = 0; m < a->n; m++) {
        an_uop x = AN_UOP_NONE, y = AN_UOP_NONE, z = AN_UOP_NONE;
        int64_t d = 0, e = 0, f = 0, c = 0, de = 0;
        if (!is_floor(g, AN_OP_FLOORMOD, a->term[m].x, &x, &d)) continue;
        const int64_t k = a->term[m].c;
        if (__builtin_mul_overflow(k, d, &c)) continue;
        for (uint32_t q = 0; q < a->n; q++) {
            an_uop whole = AN_UOP_NONE;
            if (q == m || a->term[q].c != c) continue;
            if (is_floor(g, AN_OP_FLOORDIV, a->term[q].x, &y, &e) && an_uop_eq(x, y) && e == d) {
                whole = x;
            } else if (is_floor(g, AN_OP_FLOORMOD, a->term[q].x, &y, &e) && is_floor(g, AN_OP_FLOORDIV, y, &z, &f) &&
                       an_uop_eq(z, x) && f == d && !__builtin_mul_overflow(d, e, &de) && an_rule_holds(rw, x, de)) {
                whole = floor_by(rw, AN_OP_FLOORMOD, x, de);
            }
            if (an_uop_is_none(whole)) continue;
            an_lin_remove(a, m > q ? m : q);
            an_lin_remove(a, m > q ? q : m);
            return an_lin_add_term(rw, a, whole, k);
        }
    }
    return false;
}

/* (x + c) + d of constants is x + (c + d), or none. */
static an_uop add_constants(an_rewriter *rw, an_uop n)
{
    an_graph *g = rw->graph;
    const an_uop x = an_uop_src(g, n, 0), d = an_uop_src(g, n, 1);
    int64_t v = 0, w = 0;
    if (!an_rule_int(g, d, &w) || an_uop_op(g, x) != AN_OP_ADD || !an_rule_int(g, an_uop_src(g, x, 1), &v)) return AN_UOP_NONE;
    return an_binary(g, AN_OP_ADD, an_uop_src(g, x, 0), an_binary(g, AN_OP_ADD, an_uop_src(g, x, 1), d));
}

an_uop an_rule_sum(an_rewriter *rw, an_uop n)
{
    enum { MIXED_MAX = 4 };
    an_lin a;
    if (!an_lin_of(rw, n, AN_LIN_WRAPPING, &a)) return AN_UOP_NONE;
    /* Generators of random numbers add to sums that they use: in an order of its own each would be computed anew. */
    if (an_dtype_kind_of(an_uop_dtype(rw->graph, n)) == AN_KIND_UINT && a.n > MIXED_MAX) return add_constants(rw, n);
    while (recombine(rw, &a)) {}
    return an_lin_build(rw, &a, AN_LIN_WRAPPING);
}

/* ---- comparisons ----------------------------------------------------------------------------------- */

/* P (op) N: the terms with positive coefficients on the left, the others on the right, the constant where there is nothing
 * else, or on the right. The sum is P - N + c. */
static an_uop compare(an_rewriter *rw, an_op op, const an_lin *sum)
{
    an_lin left = {.like = sum->like}, right = {.like = sum->like};
    if (sum->c == INT64_MIN) return AN_UOP_NONE;
    for (uint32_t i = 0; i < sum->n; i++) {
        const an_lin_term t = sum->term[i];
        if (t.c == INT64_MIN) return AN_UOP_NONE;
        if (t.c > 0)
            left.term[left.n++] = t;
        else
            right.term[right.n++] = (an_lin_term){t.x, -t.c};
    }
    if (left.n == 0)
        left.c = sum->c;
    else
        right.c = -sum->c;
    an_uop x = an_lin_build(rw, &left, AN_LIN_EXACT), y = an_lin_build(rw, &right, AN_LIN_EXACT);
    if (an_uop_is_none(x) || an_uop_is_none(y)) return AN_UOP_NONE;
    if (op != AN_OP_CMPLT && an_uop_cmp(rw->graph, x, y) > 0) return an_binary(rw->graph, op, y, x); /* as rule order */
    return an_binary(rw->graph, op, x, y);
}

/* S mod d < c, 0 < c < d, where S = d*Q + R with R between c - d and d - 1, each coefficient of R nearest to 0: of a negative R
 * the modulus is R + d, at least c. So it says that R is in 0..c-1, and under it floor(S/d) is Q. Rows of d elements that begin
 * each a little after a whole copy of an axis, which is how windows are cut, are the axis moved. */
an_uop an_rule_mod_below(an_rewriter *rw, an_uop n)
{
    an_graph *g = rw->graph;
    an_lin s, q, r;
    int64_t d = 0, c = 0;
    bool ok = true;
    if (!operands(rw, an_uop_src(g, n, 0), &s, &d) || !an_rule_int(g, an_uop_src(g, n, 1), &c)) return AN_UOP_NONE;
    split(&s, d, &q, &r);
    reduce(rw, &r, d, &q, &ok);
    const an_interval v = an_lin_bounds(rw, &r);
    if (!ok || !is_finite(v) || v.lo < c - d || v.hi >= d) return AN_UOP_NONE;
    const an_uop x = an_lin_build(rw, &r, AN_LIN_EXACT);
    if (an_uop_is_none(x)) return x;
    const an_uop low = an_binary(g, AN_OP_CMPLT, an_rule_int_like(rw, x, -1), x);
    return an_binary(g, AN_OP_AND, low, an_binary(g, AN_OP_CMPLT, x, an_rule_int_like(rw, x, c)));
}

static an_uop known(an_rewriter *rw, bool value)
{
    return an_const_int(rw->graph, AN_BOOL, value);
}

an_uop an_rule_cmp_sum(an_rewriter *rw, an_uop n)
{
    an_graph *g = rw->graph;
    an_lin s, t;
    const an_op op = an_uop_op(g, n);
    const an_uop x = an_uop_src(g, n, 0), y = an_uop_src(g, n, 1);
    if (!an_rule_is_int(rw, x) || !an_lin_of(rw, x, AN_LIN_EXACT, &s) || !an_lin_of(rw, y, AN_LIN_EXACT, &t) ||
        !an_lin_add(rw, &s, &t, -1))
        return AN_UOP_NONE;
    /* s compared with 0 */
    const int64_t d = an_lin_gcd(rw, &s);
    const an_interval v = an_lin_bounds(rw, &s);
    if (op == AN_OP_CMPLT) {
        if (v.hi < 0 && v.hi != INT64_MIN) return known(rw, true);
        if (v.lo >= 0 && v.lo != INT64_MAX) return known(rw, false);
        if (an_lin_most(rw, &s) < 0) return known(rw, true);
        if (an_lin_least(rw, &s) >= 0) return known(rw, false);
    } else if ((v.lo > 0 && v.lo != INT64_MAX) || (v.hi < 0 && v.hi != INT64_MIN) || an_lin_most(rw, &s) < 0 || an_lin_least(rw, &s) > 0) {
        return known(rw, op == AN_OP_CMPNE);
    }
    if (s.n == 0) return known(rw, op == AN_OP_CMPLT ? s.c < 0 : (s.c == 0) == (op == AN_OP_CMPEQ));
    if (op != AN_OP_CMPLT && s.c % d != 0) return known(rw, op == AN_OP_CMPNE);
    if (s.c == INT64_MIN) return AN_UOP_NONE;
    /* d*A + c < 0  <=>  A < ceil(-c/d)  <=>  A + floor(c/d) < 0 */
    for (uint32_t i = 0; i < s.n; i++) s.term[i].c /= d;
    s.c = an_int_floor_div(s.c, d);
    if (op == AN_OP_CMPLT) {
        /* f*A + B + c < 0, f dividing c, B in 0..f-1  <=>  A + c/f < 0 */
        an_lin a, b;
        for (uint32_t i = 0; i < s.n; i++) {
            const int64_t f = s.term[i].c < 0 ? -s.term[i].c : s.term[i].c;
            if (f <= 1) continue;
            take_out(&s, f, &a, &b);
            const int64_t c = b.c;
            b.c = an_int_floor_mod(c, f);
            const an_interval rest = an_lin_bounds(rw, &b);
            if (b.n == 0 || rest.lo < 0 || rest.hi >= f) continue;
            a.c = an_int_floor_div(c, f);
            return compare(rw, op, &a);
        }
    } else if (s.term[0].c < 0) { /* -A == c reads better as A == -c */
        for (uint32_t i = 0; i < s.n; i++) {
            if (s.term[i].c == INT64_MIN) return AN_UOP_NONE;
            s.term[i].c = -s.term[i].c;
        }
        s.c = -s.c;
    }
    return compare(rw, op, &s);
}
