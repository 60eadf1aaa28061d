/* eval_error.c - how far from the oracle a right answer may be: running error analysis, node by node (Higham, "Accuracy and
 * Stability of Numerical Algorithms", 3.3).
 *
 * Where docs/SEMANTICS.md leaves nothing open the error is 0 and the answer must be the oracle's. Errors begin in two places:
 * sums and products of floats may be taken in any order, with multiplications inside a sum not rounded; exp2, log2, sin and
 * erf may be some units off. Everything else hands on what it gets, and rounds it once more. A comparison that the errors
 * leave open makes its answer, and what follows, open: infinite. */
#include "eval_graph.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

/* Units in the last place that two right answers may be apart: tests/conformance allows at most 1.2 from the truth. */
static const double MATH_ULPS = 3.0;

static const double OPEN = (double)INFINITY;

typedef struct format {
    double unit;  /* spacing of numbers from 1 to 2 */
    double least; /* spacing around 0 */
    double most;  /* the largest */
} format;

static format format_of(an_dtype d)
{
    switch (d) {
    case AN_F8E4M3: return (format){ldexp(1, -3), ldexp(1, -9), 448};
    case AN_F8E5M2: return (format){ldexp(1, -2), ldexp(1, -16), 57344};
    case AN_F16: return (format){ldexp(1, -10), ldexp(1, -24), 65504};
    case AN_BF16: return (format){ldexp(1, -7), ldexp(1, -133), 3.3895313892515355e38};
    case AN_F32: return (format){ldexp(1, -23), ldexp(1, -149), (double)FLT_MAX};
    default: return (format){ldexp(1, -52), ldexp(1, -1074), DBL_MAX};
    }
}

static bool is_float(an_dtype d)
{
    return an_dtype_kind_of(d) == AN_KIND_FLOAT;
}

/* An error of e before the last rounding of a result near v. */
static double rounded(an_dtype d, double v, double e)
{
    if (!(e > 0)) return e; /* NaN too: see settle */
    const format f = format_of(d);
    return e + f.unit * (fabs(v) + e) + f.least;
}

/* The last word on a float result: what is not finite, or may not be. */
static double settle(an_dtype d, double v, double e)
{
    if (e <= 0) return 0;
    if (isnan(e) || !isfinite(v) || fabs(v) + e > format_of(d).most) return OPEN;
    return e;
}

static double conversion(an_dtype from, an_dtype to, an_scalar x, an_scalar v, double e)
{
    if (e <= 0) return 0;
    if (!isfinite(e)) return OPEN;
    if (!is_float(from)) return OPEN;
    if (is_float(to)) return settle(to, v.f, rounded(to, v.f, e));
    const an_scalar low = an_scalar_cast(from, to, an_scalar_round(AN_F64, (an_scalar){.f = x.f - e}));
    const an_scalar high = an_scalar_cast(from, to, (an_scalar){.f = x.f + e});
    if (to == AN_BOOL) return fabs(x.f) <= e ? OPEN : 0;
    return low.i == high.i ? 0 : OPEN;
}

/* Float results of float operands, before rounding. */
static double spread(an_op op, const double *x, const double *e, double v)
{
    switch (op) {
    case AN_OP_ADD: return e[0] + e[1];
    case AN_OP_MUL: return fabs(x[0]) * e[1] + fabs(x[1]) * e[0] + e[0] * e[1];
    case AN_OP_DIV: return fabs(x[1]) > e[1] ? (e[0] + fabs(x[0] / x[1]) * e[1]) / (fabs(x[1]) - e[1]) : OPEN;
    case AN_OP_SQRT: return x[0] > e[0] ? e[0] / sqrt(x[0] - e[0]) : OPEN;
    case AN_OP_EXP2: return fabs(v) * expm1(e[0]);
    case AN_OP_LOG2: return x[0] > e[0] ? 1.45 * e[0] / (x[0] - e[0]) : OPEN;
    case AN_OP_SIN: return e[0];
    case AN_OP_ERF: return 1.13 * e[0];
    case AN_OP_TRUNC: return trunc(x[0] - e[0]) == trunc(x[0] + e[0]) ? 0 : 1 + 2 * e[0];
    case AN_OP_MAX:
    case AN_OP_MIN: return fmax(e[0], e[1]);
    case AN_OP_MULACC: return fabs(x[0]) * e[1] + fabs(x[1]) * e[0] + e[0] * e[1] + e[2];
    default: return OPEN;
    }
}

static double of_floats(an_op op, an_dtype d, const an_scalar *s, const double *e, uint32_t n, double v)
{
    double x[3] = {0}, sum = 0;
    bool nan = false;
    for (uint32_t i = 0; i < n; i++) {
        x[i] = s[i].f;
        sum += e[i];
        nan = nan || (isnan(x[i]) && e[i] <= 0);
    }
    const bool math = op == AN_OP_EXP2 || op == AN_OP_LOG2 || op == AN_OP_SIN || op == AN_OP_ERF;
    if (nan || (sum <= 0 && !math)) return 0;
    if (!isfinite(sum)) return OPEN;
    double out = sum > 0 ? rounded(d, v, spread(op, x, e, v)) : 0;
    if (math && isfinite(v)) {
        const format f = format_of(d);
        if (x[0] != 0 || op == AN_OP_LOG2) out += MATH_ULPS * (f.unit * fabs(v) + f.least);
        if (fabs(v) > f.most / 2 && sum > 0) return OPEN;
    }
    if (math && !isfinite(v) && sum <= 0) return 0;
    return settle(d, v, out);
}

/* Is the order of two numbers known? */
static bool apart(an_dtype d, const an_scalar *s, const double *e)
{
    if (e[0] <= 0 && e[1] <= 0) return true;
    if (!is_float(d)) return false;
    if (isnan(s[0].f) && e[0] <= 0) return true;
    if (isnan(s[1].f) && e[1] <= 0) return true;
    return fabs(s[0].f - s[1].f) > e[0] + e[1];
}

static double of_numbers(evaluation *ev, an_uop u, const an_scalar *s, const double *e, uint32_t n, an_scalar v)
{
    const an_op op = an_uop_op(ev->g, u);
    const an_dtype to = an_uop_dtype(ev->g, u), from = an_uop_dtype(ev->g, an_uop_src(ev->g, u, n - 1));
    switch (op) {
    case AN_OP_CAST: return conversion(from, to, s[0], v, e[0]);
    case AN_OP_BITCAST: return e[0] > 0 || (is_float(from) && isnan(s[0].f)) ? OPEN : 0; /* a NaN's bits are open */
    case AN_OP_CMPLT:
    case AN_OP_CMPEQ:
    case AN_OP_CMPNE: return apart(from, s, e) ? 0 : OPEN;
    case AN_OP_WHERE:
        if (e[0] <= 0) return s[0].i ? e[1] : e[2];
        if (is_float(to)) return settle(to, v.f, fabs(s[1].f - s[2].f) + fmax(e[1], e[2]));
        return s[1].i == s[2].i && e[1] <= 0 && e[2] <= 0 ? 0 : OPEN;
    case AN_OP_AND:
    case AN_OP_OR:
        if (to == AN_BOOL) { /* one side may decide */
            const int64_t decides = op == AN_OP_OR;
            for (int i = 0; i < 2; i++)
                if (e[i] <= 0 && s[i].i == decides) return 0;
        }
        break;
    default: break;
    }
    if (is_float(to)) return of_floats(op, to, s, e, n, v.f);
    for (uint32_t i = 0; i < n; i++)
        if (e[i] > 0) return OPEN;
    return 0;
}

static an_status elementwise(evaluation *ev, an_uop u, eval_value *v)
{
    const an_op op = an_uop_op(ev->g, u);
    const uint32_t n = an_uop_nsrc(ev->g, u);
    const an_dtype d = an_uop_dtype(ev->g, u);
    const bool product = op == AN_OP_MUL && is_float(d);
    const eval_value *x[3] = {NULL, NULL, NULL};
    bool slack = product;
    for (uint32_t i = 0; i < n; i++) {
        x[i] = &ev->values[an_uop_src(ev->g, u, i).id];
        slack = slack || (x[i]->slack && (op == AN_OP_CAST || op == AN_OP_WHERE) && is_float(d));
    }
    if (slack && !(v->slack = calloc(v->n + 1, sizeof *v->slack))) return AN_ERR_NOMEM;
    for (size_t i = 0; i < v->n; i++) {
        an_scalar s[3] = {{0}, {0}, {0}};
        double e[3] = {0};
        for (uint32_t k = 0; k < n; k++) {
            const size_t at = x[k]->rank == 0 ? 0 : i;
            s[k] = x[k]->data[at];
            e[k] = x[k]->error[at];
            if (slack && !product && x[k]->slack) v->slack[i] = fmax(v->slack[i], x[k]->slack[at]);
        }
        v->error[i] = of_numbers(ev, u, s, e, n, v->data[i]);
        if (product && isinf(v->data[i].f) && isfinite(s[0].f) && isfinite(s[1].f)) v->slack[i] = OPEN;
        if (product && isfinite(v->data[i].f) && v->data[i].f != fma(s[0].f, s[1].f, 0))
            v->slack[i] = format_of(d).unit * fabs(v->data[i].f) + format_of(d).least;
        if (product && d == AN_F64 && isfinite(v->data[i].f) && fma(s[0].f, s[1].f, -v->data[i].f) != 0)
            v->slack[i] = DBL_EPSILON * fabs(v->data[i].f) + format_of(d).least;
    }
    return AN_OK;
}

/* What is known of the elements of one sum, product, ... so far. */
typedef struct tally {
    double n, error, slack, sum, finite, quantum; /* finite: the part of sum that is */
    double above, below, factors, wide; /* products of the factors >= 1, those < 1, all, all with their errors */
    bool nan, plus, minus, open, decided, zero, negative;
} tally;

/* The largest power of two that x is a multiple of. */
static double quantum_of(double x)
{
    if (x == 0) return (double)INFINITY;
    int e = 0;
    double m = frexp(fabs(x), &e);
    int bits = 0;
    while (m != floor(m)) m *= 2, bits++;
    while (fmod(m, 2) == 0) m /= 2, bits--;
    return ldexp(1, e - bits);
}

static void count(tally *t, an_op op, an_dtype d, an_scalar s, double error, double slack)
{
    t->n++;
    if (!is_float(d)) {
        t->open = t->open || error > 0;
        if (d == AN_BOOL && error <= 0 && s.i == (op == AN_OP_MAX || op == AN_OP_OR || op == AN_OP_ADD)) t->decided = true;
        return;
    }
    const double x = s.f, size = fabs(x);
    t->nan = t->nan || (isnan(x) && error <= 0);
    t->plus = t->plus || (isinf(x) && x > 0);
    t->minus = t->minus || (isinf(x) && x < 0);
    t->open = t->open || !isfinite(error) || (op == AN_OP_ADD && !isfinite(slack));
    t->negative = t->negative || signbit(x);
    t->zero = t->zero || (x == 0 && error <= 0);
    if (op == AN_OP_ADD) {
        t->error += error;
        t->slack += slack;
        t->sum += size;
        if (isfinite(x)) t->quantum = fmin(t->quantum, quantum_of(x)), t->finite += size;
    } else if (op == AN_OP_MUL) {
        t->error = fmax(t->error, error);
        t->factors *= size;
        t->wide *= size + error;
        if (size + error >= 1)
            t->above *= size + error;
        else
            t->below *= size - error > 0 ? size - error : size > 0 ? 0 : 1;
    } else {
        t->error = fmax(t->error, error);
    }
}

static double judge(const tally *t, an_op op, an_dtype d, double v)
{
    if (!is_float(d)) return t->open && !t->decided ? OPEN : 0;
    const format f = format_of(d);
    if (t->nan) return 0;
    if (t->open) return OPEN;
    if (op == AN_OP_ADD) {
        if (t->plus && t->minus) return 0;
        if (t->plus || t->minus) return t->error > 0 || t->finite > f.most ? OPEN : 0; /* part of the sum may be the other infinity */
        if (t->sum > f.most) return OPEN;
        if (t->negative && t->sum <= 0) return f.least; /* of zeros, one of them -0: either zero */
        double e = t->error + (t->n > 1 ? t->slack : 0);
        const bool exact = e <= 0 && t->sum <= t->quantum * (1 / f.unit);
        if (!exact && t->n > 1) e += 2 * t->n * f.unit * (t->sum + e) + t->n * f.least;
        return settle(d, v, rounded(d, v, e));
    }
    if (op == AN_OP_MUL) {
        if (t->n <= 1) return settle(d, v, t->error);
        if (t->zero && t->error <= 0 && !t->plus && !t->minus && t->above <= f.most) return 0;
        if (t->plus || t->minus || t->above > f.most || t->below < f.least / f.unit) return OPEN;
        return settle(d, v, t->wide - t->factors + 2 * t->n * f.unit * t->wide + f.least);
    }
    if (t->error > 0 && (t->plus || t->minus)) return OPEN;
    return settle(d, v, t->error);
}

static an_status reduction(evaluation *ev, an_uop u, eval_value *v)
{
    const eval_value *x = &ev->values[an_uop_src(ev->g, u, 0).id];
    const an_dtype d = an_uop_dtype(ev->g, u);
    const an_op op = an_reduce_op(an_uop_arg(ev->g, u));
    const uint32_t mask = an_reduce_mask(an_uop_arg(ev->g, u));
    int64_t idx[AN_RANK_MAX] = {0};
    tally *all = calloc(v->n + 1, sizeof *all);
    if (!all) return AN_ERR_NOMEM;
    for (size_t i = 0; i < v->n; i++)
        all[i] = (tally){.quantum = (double)INFINITY, .above = 1, .below = 1, .factors = 1, .wide = 1};
    for (size_t i = 0; i < x->n; i++, eval_step(idx, x->dims, x->rank)) {
        int64_t pos = 0;
        for (uint32_t k = 0; k < x->rank; k++) pos = pos * v->dims[k] + (mask >> k & 1u ? 0 : idx[k]);
        count(&all[pos], op, d, x->data[i], x->error[i], x->slack ? x->slack[i] : 0);
    }
    for (size_t i = 0; i < v->n; i++) v->error[i] = judge(&all[i], op, d, v->data[i].f);
    free(all);
    return AN_OK;
}

an_status eval_error(evaluation *e, an_uop u, eval_value *v)
{
    const an_op op = an_uop_op(e->g, u);
    v->error = calloc(v->n + 1, sizeof *v->error);
    if (!v->error) return AN_ERR_NOMEM;
    if (op == AN_OP_CONST || op == AN_OP_IOTA || op == AN_OP_BUFFER) return AN_OK;
    if (an_op_has(op, AN_TRAIT_ELEM)) return elementwise(e, u, v);
    if (op == AN_OP_REDUCE_AXIS) return reduction(e, u, v);
    const bool part = op == AN_OP_ASSIGN && an_uop_nsrc(e->g, u) > 2;
    const eval_value *x = &e->values[an_uop_src(e->g, u, op == AN_OP_ASSIGN && !part ? 1 : 0).id];
    if (part) { /* what is kept, then what is written */
        const eval_value *w = &e->values[an_uop_src(e->g, u, 1).id];
        if ((x->slack || w->slack) && !(v->slack = calloc(v->n + 1, sizeof *v->slack))) return AN_ERR_NOMEM;
        for (size_t i = 0; i < v->n; i++) {
            v->error[i] = x->error[i];
            if (x->slack) v->slack[i] = x->slack[i];
        }
        for (size_t i = 0; i < e->values[an_uop_src(e->g, u, 2).id].n; i++) {
            const int64_t pos = eval_written(e, u, i);
            if (pos < 0) continue;
            v->error[pos] = w->error[w->rank ? i : 0];
            if (v->slack) v->slack[pos] = w->slack ? w->slack[w->rank ? i : 0] : 0;
        }
        return AN_OK;
    }
    if (x->slack && !(v->slack = calloc(v->n + 1, sizeof *v->slack))) return AN_ERR_NOMEM;
    const bool moves = an_op_has(op, AN_TRAIT_MOVE) && op != AN_OP_RESHAPE;
    int64_t idx[AN_RANK_MAX] = {0};
    for (size_t i = 0; i < v->n; i++) {
        const int64_t pos = moves ? eval_moved(e, u, idx) : x->rank == 0 ? 0 : (int64_t)i;
        eval_step(idx, v->dims, v->rank);
        if (pos < 0) continue;
        v->error[i] = x->error[pos];
        if (x->slack) v->slack[i] = x->slack[pos];
    }
    return AN_OK;
}
