/* rules.c - what compiled rules call: the functions of rules.h that are not helpers of one file, and the rewriter's life. */
#include "rewrite/rules.h"

/* ---- the rewriter -------------------------------------------------------------------------------- */

void an_rewriter_init(an_rewriter *rw, an_graph *g, an_trace *trace, void *user)
{
    *rw = (an_rewriter){.graph = g, .trace = trace, .user = user};
    an_bounds_memo_init(&rw->bounds, g);
}

void an_rewriter_fini(an_rewriter *rw)
{
    an_bounds_memo_fini(&rw->bounds);
    *rw = (an_rewriter){0};
}

/* x, a scalar, in the shape and lanes of like; x itself if it has them; AN_UOP_NONE if it cannot. */
static an_uop shaped_like(an_graph *g, an_uop x, an_uop like)
{
    if (an_node_of(g, x)->shape == an_node_of(g, like)->shape && an_uop_lanes(g, x) == an_uop_lanes(g, like)) return x;
    const an_shape have = an_uop_shape(g, x), want = an_uop_shape(g, like);
    const uint32_t lanes = an_uop_lanes(g, like);
    if (lanes > 1 && an_uop_lanes(g, x) == 1)
        return an_uop_new_full(g, AN_OP_BROADCAST, an_uop_dtype(g, x), lanes, &x, 1, 0, 0);
    if (have.rank != 0 || an_uop_lanes(g, x) != lanes) return AN_UOP_NONE;
    an_uop ones[AN_RANK_MAX], dims[AN_RANK_MAX];
    for (uint32_t i = 0; i < want.rank; i++) {
        ones[i] = an_index(g, 1);
        dims[i] = want.dims[i];
    }
    return an_expand_node(g, an_reshape_node(g, x, ones, want.rank), dims, want.rank);
}

an_uop an_rule_done(an_rewriter *rw, const an_rule_info *rule, uint32_t saved, an_uop n, an_uop result)
{
    an_graph *g = rw->graph;
    if (!an_uop_is_none(result)) {
        if (an_uop_dtype(g, result) != an_uop_dtype(g, n)) {
            an_fail(an_graph_ctx(g), AN_ERR_INTERNAL, "rule '%s' (%s:%u) turns %s into %s", rule->name, rule->file,
                    rule->line, an_dtype_name(an_uop_dtype(g, n)), an_dtype_name(an_uop_dtype(g, result)));
            result = AN_UOP_NONE;
        } else {
            result = shaped_like(g, result, n);
        }
    }
    an_graph_set_rule(g, saved);
    if (an_uop_is_none(result) || an_uop_eq(result, n)) return AN_UOP_NONE;
    rw->fired = rule;
    return result;
}

/* Scalars among out take the shape of like, or with none that of the source they are for. */
static bool per_source_done(an_rewriter *rw, const an_rule_info *rule, uint32_t saved, an_uop n, an_uop like, an_uop *out)
{
    an_graph *g = rw->graph;
    bool ok = true;
    for (uint32_t i = 0; i < an_uop_nsrc(g, n) && ok; i++) {
        if (an_uop_is_none(out[i])) continue;
        const an_uop to = an_uop_is_none(like) ? an_uop_src(g, n, i) : like;
        if (an_uop_shape(g, out[i]).rank == 0 && an_uop_shape(g, to).rank > 0) {
            out[i] = shaped_like(g, out[i], to);
            ok = !an_uop_is_none(out[i]);
        }
    }
    an_graph_set_rule(g, saved);
    if (ok) rw->fired = rule;
    return ok;
}

bool an_rule_grad_done(an_rewriter *rw, const an_rule_info *rule, uint32_t saved, an_uop n, an_uop cotangent, an_uop *out)
{
    if (!per_source_done(rw, rule, saved, n, AN_UOP_NONE, out)) return false;
    an_trace_fire(rw->trace, rule, n, cotangent);
    return true;
}

bool an_rule_jvp_done(an_rewriter *rw, const an_rule_info *rule, uint32_t saved, an_uop n, an_uop *out)
{
    if (!per_source_done(rw, rule, saved, n, n, out)) return false;
    an_trace_fire(rw->trace, rule, n, n);
    return true;
}

/* ---- tests --------------------------------------------------------------------------------------- */

an_uop an_rule_const_of(const an_graph *g, an_uop u)
{
    for (;;) {
        switch (an_uop_op(g, u)) {
        case AN_OP_CONST: return u;
        case AN_OP_BROADCAST:
        case AN_OP_RESHAPE:
        case AN_OP_EXPAND:
        case AN_OP_PERMUTE:
        case AN_OP_SHRINK:
        case AN_OP_FLIP: u = an_uop_src(g, u, 0); break;
        default: return AN_UOP_NONE;
        }
    }
}

bool an_rule_is_const(const an_graph *g, an_uop u)
{
    return !an_uop_is_none(an_rule_const_of(g, u));
}

bool an_rule_is_number(const an_graph *g, an_uop u, double v)
{
    const an_uop c = an_rule_const_of(g, u);
    return !an_uop_is_none(c) && an_uop_is_number(g, c, v);
}

bool an_rule_int(const an_graph *g, an_uop u, int64_t *out)
{
    const an_uop c = an_rule_const_of(g, u);
    if (an_uop_is_none(c) || !an_uop_int(g, c, out)) return false;
    return an_uop_dtype(g, c) != AN_U64 || *out >= 0;
}

bool an_rule_is_rest(const an_graph *g, an_uop u, uint32_t first, bool is_const, uint32_t dtypes)
{
    for (uint32_t i = first; i < an_uop_nsrc(g, u); i++) {
        const an_uop src = an_uop_src(g, u, i);
        if (is_const && !an_rule_is_const(g, src)) return false;
        if (!(dtypes >> an_uop_dtype(g, src) & 1u)) return false;
    }
    return true;
}

/* ---- checked arithmetic --------------------------------------------------------------------------- */

int64_t an_rule_add(int64_t a, int64_t b, bool *ok)
{
    int64_t r = 0;
    if (__builtin_add_overflow(a, b, &r)) *ok = false;
    return r;
}

int64_t an_rule_sub(int64_t a, int64_t b, bool *ok)
{
    int64_t r = 0;
    if (__builtin_sub_overflow(a, b, &r)) *ok = false;
    return r;
}

int64_t an_rule_mul(int64_t a, int64_t b, bool *ok)
{
    int64_t r = 0;
    if (__builtin_mul_overflow(a, b, &r)) *ok = false;
    return r;
}

int64_t an_rule_div(int64_t a, int64_t b, bool *ok)
{
    if (b == 0 || (a == INT64_MIN && b == -1)) {
        *ok = false;
        return 0;
    }
    const int64_t q = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

int64_t an_rule_mod(int64_t a, int64_t b, bool *ok)
{
    if (b == 0 || b == -1) {
        if (b == 0) *ok = false;
        return 0;
    }
    const int64_t r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

/* ---- building ------------------------------------------------------------------------------------- */

an_uop an_rule_int_like(an_rewriter *rw, an_uop like, int64_t v)
{
    if (an_uop_is_none(like)) return like;
    const an_dtype dtype = an_uop_dtype(rw->graph, like);
    const uint32_t lanes = an_uop_lanes(rw->graph, like);
    const an_uop c = an_const_int(rw->graph, dtype, v);
    return lanes == 1 ? c : an_uop_new_full(rw->graph, AN_OP_BROADCAST, dtype, lanes, &c, 1, 0, 0);
}

an_uop an_rule_build(an_rewriter *rw, an_op op, an_dtype dtype, an_uop like, const an_uop *src, uint32_t nsrc)
{
    an_graph *g = rw->graph;
    for (uint32_t i = 0; i < nsrc; i++)
        if (an_uop_is_none(src[i])) return AN_UOP_NONE;
    const bool same_op = !an_uop_is_none(like) && an_uop_op(g, like) == op;
    const uint64_t arg = same_op ? an_uop_arg(g, like) : 0;
    const uint32_t tag = same_op ? an_uop_tag(g, like) : 0;
    uint32_t lanes = nsrc ? an_uop_lanes(g, src[nsrc - 1]) : 1;
    const an_result result = an_op_info_of(op)->result;
    if (op == AN_OP_LOAD) lanes = an_uop_lanes(g, src[1]);
    if (!an_op_has(op, AN_TRAIT_ELEM) && same_op) lanes = an_uop_lanes(g, like);
    if (dtype == AN_DTYPE_NONE) {
        if (result == AN_RESULT_BOOL) dtype = AN_BOOL;
        if (result == AN_RESULT_SAME && nsrc) dtype = an_uop_dtype(g, src[0]);
        if (result == AN_RESULT_LAST && nsrc) dtype = an_uop_dtype(g, src[nsrc - 1]);
        if (result == AN_RESULT_ARG && !an_uop_is_none(like)) dtype = an_uop_dtype(g, like);
    }
    return an_uop_new_full(g, op, dtype, lanes, src, nsrc, arg, tag);
}

/* ---- functions of conditions ----------------------------------------------------------------------- */

int64_t an_rule_min(an_rewriter *rw, an_uop x)
{
    return an_bounds_get(&rw->bounds, x).lo;
}

int64_t an_rule_max(an_rewriter *rw, an_uop x)
{
    return an_bounds_get(&rw->bounds, x).hi;
}

bool an_rule_is_int(an_rewriter *rw, an_uop x)
{
    const an_dtype_kind kind = an_dtype_kind_of(an_uop_dtype(rw->graph, x));
    return kind == AN_KIND_INT || kind == AN_KIND_UINT || kind == AN_KIND_INDEX;
}

bool an_rule_is_float(an_rewriter *rw, an_uop x)
{
    return an_dtype_kind_of(an_uop_dtype(rw->graph, x)) == AN_KIND_FLOAT;
}

bool an_rule_is_bool(an_rewriter *rw, an_uop x)
{
    return an_uop_dtype(rw->graph, x) == AN_BOOL;
}

bool an_rule_is_index(an_rewriter *rw, an_uop x)
{
    return an_uop_dtype(rw->graph, x) == AN_INDEX;
}

bool an_rule_same(an_rewriter *rw, an_uop x, an_uop y)
{
    (void)rw;
    return an_uop_eq(x, y);
}

bool an_rule_is_pow2(an_rewriter *rw, int64_t c)
{
    (void)rw;
    return c > 0 && (c & (c - 1)) == 0;
}

int64_t an_rule_log2(an_rewriter *rw, int64_t c)
{
    (void)rw;
    int64_t n = 0;
    while (c > 1) {
        c >>= 1;
        n++;
    }
    return n;
}

int64_t an_rule_abs(an_rewriter *rw, int64_t c)
{
    (void)rw;
    if (c == INT64_MIN) return INT64_MAX;
    return c < 0 ? -c : c;
}

int64_t an_rule_gcd(an_rewriter *rw, int64_t a, int64_t b)
{
    a = an_rule_abs(rw, a);
    b = an_rule_abs(rw, b);
    while (b) {
        const int64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

bool an_rule_same_dtype(an_rewriter *rw, an_uop x, an_uop y)
{
    return an_uop_dtype(rw->graph, x) == an_uop_dtype(rw->graph, y);
}

int64_t an_rule_bits(an_rewriter *rw, an_uop x)
{
    return 8 * (int64_t)an_dtype_nbytes(an_uop_dtype(rw->graph, x));
}

bool an_rule_is_sum(an_rewriter *rw, an_uop n)
{
    return an_uop_op(rw->graph, n) == AN_OP_ADD && an_rule_is_int(rw, n);
}

bool an_rule_commutes(an_rewriter *rw, an_uop n)
{
    const an_op op = an_uop_op(rw->graph, n);
    if (an_uop_tag(rw->graph, n) != 0) return false; /* the steps of a sum that is written out stay as they come */
    return !((op == AN_OP_MAX || op == AN_OP_MIN) && an_rule_is_float(rw, n));
}

bool an_rule_holds(an_rewriter *rw, an_uop x, int64_t v)
{
    const an_dtype dtype = an_uop_dtype(rw->graph, x);
    const an_dtype_kind kind = an_dtype_kind_of(dtype);
    if (kind == AN_KIND_FLOAT || kind == AN_KIND_NONE) return false;
    if (kind == AN_KIND_UINT && v < 0) return false;
    if (kind == AN_KIND_BOOL) return v == 0 || v == 1;
    return an_scalar_round(dtype, (an_scalar){.i = v}).i == v;
}

bool an_rule_before(an_rewriter *rw, an_uop x, an_uop y)
{
    return an_uop_cmp(rw->graph, x, y) < 0;
}

/* Every value of from is one of to. */
static bool dtype_within(an_dtype from, an_dtype to)
{
    const an_dtype_kind f = an_dtype_kind_of(from), t = an_dtype_kind_of(to);
    const size_t fb = 8 * an_dtype_nbytes(from), tb = 8 * an_dtype_nbytes(to);
    static const struct {
        an_dtype dtype;
        size_t bits; /* integers of that many bits, sign apart, are exact */
    } mantissa[] = {{AN_F16, 11}, {AN_BF16, 8}, {AN_F32, 24}, {AN_F64, 53}};
    if (from == to || f == AN_KIND_BOOL) return true;
    if (t == AN_KIND_BOOL || f == AN_KIND_NONE || t == AN_KIND_NONE) return false;
    if (t == AN_KIND_INDEX) return f != AN_KIND_FLOAT && !(f == AN_KIND_UINT && fb == 64);
    if (f == AN_KIND_INDEX) return to == AN_I64;
    if (f == AN_KIND_FLOAT) {
        if (t != AN_KIND_FLOAT) return false;
        if (to == AN_F64) return true;
        if (to == AN_F32) return from != AN_F64;
        return (to == AN_F16 || to == AN_BF16) && fb == 8;
    }
    if (t == AN_KIND_FLOAT) {
        for (size_t i = 0; i < sizeof mantissa / sizeof *mantissa; i++)
            if (mantissa[i].dtype == to) return fb - (f == AN_KIND_INT) <= mantissa[i].bits;
        return false;
    }
    if (f == t) return fb <= tb;
    return f == AN_KIND_UINT && fb < tb;
}

bool an_rule_is_lossless(an_rewriter *rw, an_uop x, an_uop n)
{
    return dtype_within(an_uop_dtype(rw->graph, x), an_uop_dtype(rw->graph, n));
}

bool an_rule_fits(an_rewriter *rw, an_uop x, an_uop n)
{
    const an_interval v = an_bounds_get(&rw->bounds, x);
    if (v.lo == INT64_MIN || v.hi == INT64_MAX) return false;
    return an_rule_holds(rw, n, v.lo) && an_rule_holds(rw, n, v.hi);
}

bool an_rule_never_minus_zero(an_rewriter *rw, an_uop x)
{
    an_graph *g = rw->graph;
    for (int depth = 0; depth < 8; depth++) {
        const an_op op = an_uop_op(g, x);
        if (op == AN_OP_EXP2) return true;
        if (op == AN_OP_CONST) return !an_uop_is_number(g, x, -0.0);
        if (op == AN_OP_CAST) {
            const an_uop from = an_uop_src(g, x, 0);
            if (!an_rule_is_float(rw, from)) return true;
            if (!an_rule_is_lossless(rw, from, x)) return false; /* rounding small numbers gives -0.0 */
            x = from;
            continue;
        }
        if (op == AN_OP_MUL) return an_uop_eq(an_uop_src(g, x, 0), an_uop_src(g, x, 1));
        if (op != AN_OP_ADD) return false;
        /* a sum is -0.0 only if both sides are; canonical order puts a constant last */
        const an_uop last = an_rule_const_of(g, an_uop_src(g, x, 1));
        if (!an_uop_is_none(last)) return !an_uop_is_number(g, last, -0.0);
        x = an_uop_src(g, x, 0);
    }
    return false;
}
