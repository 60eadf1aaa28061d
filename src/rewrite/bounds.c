/* bounds.c - interval arithmetic, op by op. INT64_MIN and INT64_MAX act as infinities: sums and products with them keep
 * them. */
#include "rewrite/bounds.h"

static const an_interval everything = {INT64_MIN, INT64_MAX};

/* ---- extended integers -------------------------------------------------------------------------- */

static bool is_inf(int64_t a)
{
    return a == INT64_MIN || a == INT64_MAX;
}

static int64_t ext_add(int64_t a, int64_t b)
{
    int64_t r = 0;
    if (is_inf(a)) return a;
    if (is_inf(b)) return b;
    if (__builtin_add_overflow(a, b, &r)) return a > 0 ? INT64_MAX : INT64_MIN;
    return r;
}

static int64_t ext_mul(int64_t a, int64_t b)
{
    int64_t r = 0;
    if (a == 0 || b == 0) return 0;
    if (is_inf(a) || is_inf(b) || __builtin_mul_overflow(a, b, &r)) return (a > 0) == (b > 0) ? INT64_MAX : INT64_MIN;
    return r;
}

/* b is not 0. */
static int64_t ext_floordiv(int64_t a, int64_t b)
{
    if (is_inf(a)) return (a > 0) == (b > 0) ? INT64_MAX : INT64_MIN;
    if (is_inf(b)) return a == 0 || (a > 0) == (b > 0) ? 0 : -1;
    const int64_t q = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

static int64_t ext_truncdiv(int64_t a, int64_t b)
{
    if (is_inf(a)) return (a > 0) == (b > 0) ? INT64_MAX : INT64_MIN;
    if (is_inf(b)) return 0;
    return a / b;
}

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The extremes of f over the corners of x by y. */
static an_interval corners(int64_t (*f)(int64_t, int64_t), an_interval x, an_interval y)
{
    const int64_t a = f(x.lo, y.lo), b = f(x.lo, y.hi), c = f(x.hi, y.lo), d = f(x.hi, y.hi);
    return (an_interval){min64(min64(a, b), min64(c, d)), max64(max64(a, b), max64(c, d))};
}

static an_interval unite(an_interval x, an_interval y)
{
    return (an_interval){min64(x.lo, y.lo), max64(x.hi, y.hi)};
}

/* ---- what dtypes can hold ------------------------------------------------------------------------ */

static an_interval dtype_range(an_dtype dtype)
{
    const unsigned bits = 8u * (unsigned)an_dtype_nbytes(dtype);
    switch (an_dtype_kind_of(dtype)) {
    case AN_KIND_BOOL: return (an_interval){0, 1};
    case AN_KIND_INT:
        if (bits == 64) return everything;
        return (an_interval){-(INT64_C(1) << (bits - 1)), (INT64_C(1) << (bits - 1)) - 1};
    case AN_KIND_UINT: return (an_interval){0, bits == 64 ? INT64_MAX : (INT64_C(1) << bits) - 1};
    case AN_KIND_NONE:
    case AN_KIND_FLOAT:
    case AN_KIND_INDEX: break;
    }
    return everything;
}

/* v as a value of dtype: exact if it fits, else it may have wrapped to anything. Index does not wrap. */
static an_interval fit(an_dtype dtype, an_interval v)
{
    const an_interval range = dtype_range(dtype);
    if (dtype == AN_INDEX) return v;
    if (v.lo < range.lo || v.hi > range.hi) return range;
    if (an_dtype_nbytes(dtype) == 8 && (is_inf(v.hi) || (v.lo == INT64_MIN))) return range;
    return v;
}

/* ---- ops ------------------------------------------------------------------------------------------ */

static an_interval of_floormod(an_interval x, an_interval y)
{
    if (y.hi < 0) return (an_interval){ext_add(y.lo, 1), 0};
    if (y.lo <= 0) return everything;
    an_interval r = {0, is_inf(y.hi) ? INT64_MAX : y.hi - 1};
    if (x.lo >= 0) r.hi = min64(r.hi, x.hi);
    if (y.lo != y.hi || is_inf(x.lo) || is_inf(x.hi)) return r;
    const int64_t q = ext_floordiv(x.lo, y.lo);
    int64_t start = 0; /* of the period that x lies in, if it is one */
    if (q != ext_floordiv(x.hi, y.lo) || __builtin_mul_overflow(q, y.lo, &start)) return r;
    return (an_interval){x.lo - start, x.hi - start};
}

static an_interval of_imod(an_interval x, an_interval y)
{
    if (y.lo <= 0 && y.hi >= 0) return everything;
    if (is_inf(y.lo) || is_inf(y.hi)) return (an_interval){min64(x.lo, 0), max64(x.hi, 0)};
    const int64_t most = max64(y.lo < 0 ? -(y.lo + 1) : y.lo - 1, y.hi < 0 ? -(y.hi + 1) : y.hi - 1);
    return (an_interval){x.lo < 0 ? max64(x.lo, -most) : 0, x.hi > 0 ? min64(x.hi, most) : 0};
}

/* The least 2^k - 1 that is at least v. v >= 0. */
static int64_t mask_of(int64_t v)
{
    uint64_t m = (uint64_t)v;
    for (unsigned s = 1; s < 64; s *= 2) m |= m >> s;
    return (int64_t)m;
}

static an_interval of_bits(an_op op, an_interval x, an_interval y)
{
    if (op == AN_OP_AND) {
        if (x.lo >= 0 && y.lo >= 0) return (an_interval){0, min64(x.hi, y.hi)};
        if (x.lo >= 0) return (an_interval){0, x.hi};
        if (y.lo >= 0) return (an_interval){0, y.hi};
        return everything;
    }
    if (x.lo < 0 || y.lo < 0) return everything;
    const int64_t most = max64(mask_of(x.hi), mask_of(y.hi));
    return (an_interval){op == AN_OP_OR ? max64(x.lo, y.lo) : 0, most};
}

static int64_t shift_right(int64_t x, int64_t n)
{
    if (is_inf(x)) return x;
    if (n > 63) return x < 0 ? -1 : 0;
    return x < 0 ? -((-(x + 1)) >> n) - 1 : x >> n;
}

static an_interval of_shift(an_op op, an_dtype dtype, an_interval x, an_interval y)
{
    const int64_t bits = 8 * (int64_t)an_dtype_nbytes(dtype);
    if (y.lo < 0) return everything;
    if (op == AN_OP_SHR) {
        an_interval r = corners(shift_right, x, y);
        if (y.hi >= bits) r = unite(r, (an_interval){x.lo < 0 ? -1 : 0, x.hi < 0 ? -1 : 0});
        return r;
    }
    if (y.hi >= bits || y.hi > 62) return everything;
    const an_interval scale = {INT64_C(1) << y.lo, INT64_C(1) << y.hi};
    return corners(ext_mul, x, scale);
}

static an_interval of_compare(an_op op, an_interval x, an_interval y)
{
    const an_interval unknown = {0, 1}, yes = {1, 1}, no = {0, 0};
    const bool below = x.hi < y.lo, above = x.lo > y.hi;
    const bool same = x.lo == x.hi && y.lo == y.hi && x.lo == y.lo && !is_inf(x.lo);
    switch (op) {
    case AN_OP_CMPLT:
        if (below) return yes;
        return x.lo >= y.hi && !is_inf(x.lo) && !is_inf(y.hi) ? no : unknown;
    case AN_OP_CMPEQ: return below || above ? no : same ? yes : unknown;
    default: return below || above ? yes : same ? no : unknown;
    }
}

static bool is_counted(an_dtype dtype)
{
    const an_dtype_kind kind = an_dtype_kind_of(dtype);
    return kind != AN_KIND_NONE && kind != AN_KIND_FLOAT;
}

/* Bounds that follow from no source; false when sources are wanted. */
static bool without_sources(const an_graph *g, an_uop u, an_interval *out)
{
    const an_dtype dtype = an_uop_dtype(g, u);
    *out = dtype_range(dtype);
    if (!is_counted(dtype)) return true;
    switch (an_uop_op(g, u)) {
    case AN_OP_CONST: {
        const int64_t v = an_uop_const_value(g, u).i;
        if (dtype != AN_U64 || v >= 0) *out = (an_interval){v, v};
        return true;
    }
    case AN_OP_VAR: {
        int64_t lo = 0, hi = 0;
        if (an_uop_int(g, an_uop_src(g, u, 0), &lo) && an_uop_int(g, an_uop_src(g, u, 1), &hi)) *out = (an_interval){lo, hi};
        return true;
    }
    case AN_OP_RESHAPE:
    case AN_OP_EXPAND:
    case AN_OP_PERMUTE:
    case AN_OP_PAD:
    case AN_OP_SHRINK:
    case AN_OP_FLIP:
    case AN_OP_LEAF:
    case AN_OP_DETACH:
    case AN_OP_CONTIGUOUS:
    case AN_OP_VECTOR:
    case AN_OP_LANE:
    case AN_OP_RAMP:
    case AN_OP_BROADCAST:
    case AN_OP_IOTA:
    case AN_OP_RANGE:
    case AN_OP_SPECIAL: return false;
    default: return !an_op_has(an_uop_op(g, u), AN_TRAIT_ELEM);
    }
}

/* From the bounds of the sources, which are in the memo. */
static an_interval of_sources(const an_graph *g, an_uop u, const an_interval *s, uint32_t n)
{
    const an_op op = an_uop_op(g, u);
    const an_dtype dtype = an_uop_dtype(g, u);
    const bool definite = n > 1 && (s[1].lo > 0 || s[1].hi < 0); /* the divisor is not 0 */
    switch (op) {
    case AN_OP_RANGE:
    case AN_OP_SPECIAL:
    case AN_OP_IOTA:
        /* A loop of one iteration or none: no constant, or what lost the range to it would be done in any case. */
        if (op == AN_OP_RANGE && s[0].lo <= 0 && s[0].hi == 1) return (an_interval){0, 1};
        return fit(dtype, (an_interval){0, is_inf(s[0].hi) ? s[0].hi : max64(0, s[0].hi - 1)});
    case AN_OP_PAD: return unite(s[0], (an_interval){0, 0});
    case AN_OP_VECTOR: {
        an_interval r = s[0];
        for (uint32_t i = 1; i < n; i++) r = unite(r, s[i]);
        return r;
    }
    case AN_OP_RAMP: return fit(dtype, (an_interval){s[0].lo, ext_add(s[0].hi, (int64_t)an_uop_lanes(g, u) - 1)});
    case AN_OP_CAST:
        if (!is_counted(an_uop_dtype(g, an_uop_src(g, u, 0)))) return dtype_range(dtype);
        if (dtype == AN_BOOL)
            return (an_interval){s[0].lo > 0 || s[0].hi < 0, !(s[0].lo == 0 && s[0].hi == 0)};
        if (an_uop_dtype(g, an_uop_src(g, u, 0)) == AN_U64 && is_inf(s[0].hi)) return dtype_range(dtype); /* wraps */
        return fit(dtype, s[0]);
    case AN_OP_BITCAST: return dtype_range(dtype);
    case AN_OP_ADD: return fit(dtype, (an_interval){ext_add(s[0].lo, s[1].lo), ext_add(s[0].hi, s[1].hi)});
    case AN_OP_MUL: return fit(dtype, corners(ext_mul, s[0], s[1]));
    case AN_OP_MULACC: {
        const an_interval m = corners(ext_mul, s[0], s[1]);
        return fit(dtype, (an_interval){ext_add(m.lo, s[2].lo), ext_add(m.hi, s[2].hi)});
    }
    case AN_OP_FLOORDIV: return definite ? fit(dtype, corners(ext_floordiv, s[0], s[1])) : dtype_range(dtype);
    case AN_OP_IDIV: return definite ? fit(dtype, corners(ext_truncdiv, s[0], s[1])) : dtype_range(dtype);
    case AN_OP_FLOORMOD: return definite ? fit(dtype, of_floormod(s[0], s[1])) : dtype_range(dtype);
    case AN_OP_IMOD: return definite ? fit(dtype, of_imod(s[0], s[1])) : dtype_range(dtype);
    case AN_OP_MAX: return (an_interval){max64(s[0].lo, s[1].lo), max64(s[0].hi, s[1].hi)};
    case AN_OP_MIN: return (an_interval){min64(s[0].lo, s[1].lo), min64(s[0].hi, s[1].hi)};
    case AN_OP_AND:
    case AN_OP_OR:
    case AN_OP_XOR: return fit(dtype, of_bits(op, s[0], s[1]));
    case AN_OP_SHL:
    case AN_OP_SHR: return fit(dtype, of_shift(op, dtype, s[0], s[1]));
    case AN_OP_CMPLT:
    case AN_OP_CMPEQ:
    case AN_OP_CMPNE:
        if (!is_counted(an_uop_dtype(g, an_uop_src(g, u, 0)))) return (an_interval){0, 1};
        return of_compare(op, s[0], s[1]);
    case AN_OP_WHERE:
        if (s[0].lo == 1) return s[1];
        if (s[0].hi == 0) return s[2];
        return unite(s[1], s[2]);
    case AN_OP_RESHAPE:
    case AN_OP_EXPAND:
    case AN_OP_PERMUTE:
    case AN_OP_SHRINK:
    case AN_OP_FLIP:
    case AN_OP_LEAF:
    case AN_OP_DETACH:
    case AN_OP_CONTIGUOUS:
    case AN_OP_LANE:
    case AN_OP_BROADCAST: return s[0];
    default: return dtype_range(dtype); /* float ops have no bool or integer result */
    }
}

/* ---- the memo -------------------------------------------------------------------------------------- */

void an_bounds_memo_init(an_bounds_memo *m, an_graph *g)
{
    *m = (an_bounds_memo){.graph = g};
}

void an_bounds_memo_fini(an_bounds_memo *m)
{
    if (!m->graph) return;
    an_ctx *ctx = an_graph_ctx(m->graph);
    an_idmap_fini(&m->index, ctx);
    an_vec_fini(ctx, &m->intervals);
    an_vec_fini(ctx, &m->stack);
    an_vec_fini(ctx, &m->narrowed);
    *m = (an_bounds_memo){0};
}

static bool remember(an_bounds_memo *m, an_uop u, an_interval v)
{
    an_ctx *ctx = an_graph_ctx(m->graph);
    const uint32_t at = an_idmap_get(&m->index, u.id);
    if (at) {
        m->intervals.data[at - 1] = v;
        return true;
    }
    return an_vec_push(ctx, &m->intervals, v) && an_idmap_set(&m->index, ctx, u.id, (uint32_t)m->intervals.len);
}

/* How many sources say something about the bounds: the dims of movement ops, for one, do not. */
static uint32_t sources_wanted(const an_graph *g, an_uop u)
{
    const an_op op = an_uop_op(g, u);
    return an_op_has(op, AN_TRAIT_MOVE) ? 1 : an_uop_nsrc(g, u);
}

an_interval an_bounds_get(an_bounds_memo *m, an_uop u)
{
    const an_graph *g = m->graph;
    an_ctx *ctx = an_graph_ctx(g);
    uint32_t at = an_idmap_get(&m->index, u.id);
    if (at) return m->intervals.data[at - 1];
    an_interval v;
    if (without_sources(g, u, &v)) return v;
    const size_t bottom = m->stack.len;
    if (!an_vec_push(ctx, &m->stack, u)) return everything;
    while (m->stack.len > bottom) {
        const an_uop top = m->stack.data[m->stack.len - 1];
        if (an_idmap_get(&m->index, top.id)) {
            m->stack.len--;
            continue;
        }
        if (!without_sources(g, top, &v)) {
            an_interval s[AN_LANES_MAX];
            const uint32_t n = sources_wanted(g, top);
            const size_t before = m->stack.len;
            for (uint32_t i = 0; i < n && i < AN_LANES_MAX; i++) {
                const an_uop src = an_uop_src(g, top, i);
                const uint32_t known = an_idmap_get(&m->index, src.id);
                if (known)
                    s[i] = m->intervals.data[known - 1];
                else if (!without_sources(g, src, &s[i]) && !an_vec_push(ctx, &m->stack, src))
                    goto fail;
            }
            if (m->stack.len > before) continue;
            v = n <= AN_LANES_MAX ? of_sources(g, top, s, n) : dtype_range(an_uop_dtype(g, top));
        }
        if (!remember(m, top, v)) goto fail;
        m->stack.len--;
    }
    at = an_idmap_get(&m->index, u.id);
    return m->intervals.data[at - 1];
fail:
    m->stack.len = bottom;
    return everything;
}

bool an_bounds_narrow(an_bounds_memo *m, an_uop u, an_interval v)
{
    const an_interval known = an_bounds_get(m, u);
    if (v.lo <= known.lo && v.hi >= known.hi) return true;
    if (v.lo > known.hi || v.hi < known.lo) {
        m->impossible = true;
        return true;
    }
    return an_vec_push(an_graph_ctx(m->graph), &m->narrowed, u) &&
           remember(m, u, (an_interval){max64(known.lo, v.lo), min64(known.hi, v.hi)});
}

bool an_bounds_restart(an_bounds_memo *m)
{
    an_ctx *ctx = an_graph_ctx(m->graph);
    an_bounds_memo fresh;
    bool ok = true;
    an_bounds_memo_init(&fresh, m->graph);
    fresh.impossible = m->impossible;
    for (size_t i = 0; i < m->narrowed.len && ok; i++) {
        const an_uop u = m->narrowed.data[i];
        const an_interval v = m->intervals.data[an_idmap_get(&m->index, u.id) - 1];
        if (an_idmap_get(&fresh.index, u.id)) continue;
        ok = an_vec_push(ctx, &fresh.narrowed, u) && remember(&fresh, u, v);
    }
    an_bounds_memo_fini(m);
    *m = fresh;
    return ok;
}

void an_bounds(an_graph *g, an_uop u, int64_t *lo, int64_t *hi)
{
    an_bounds_memo m;
    an_bounds_memo_init(&m, g);
    const an_interval v = an_bounds_get(&m, u);
    an_bounds_memo_fini(&m);
    *lo = v.lo;
    *hi = v.hi;
}
