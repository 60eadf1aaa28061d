/* vector.c - VECTOR ranges become lanes.
 *
 * What depends on a VECTOR range of n elements gets n lanes; its other operands are BROADCAST. An index that grows by one
 * with the range is a RAMP from its value at 0: consecutive elements. Other indices are vectors of indices (a gather).
 * Loads in steps of a constant that lie side by side are made of consecutive ones (coalesce.c).
 * A comparison of such an index with one that all lanes share, both in whole vectors, is one for all lanes.
 * A REDUCE over the range keeps its lanes apart to the end: REDUCE(v, r, k) is HREDUCE(REDUCE(v, r)). */
#include "codegen/dag.h"
#include "codegen/pass.h"

typedef struct vec {
    an_graph *g;
    an_ctx *ctx;
    an_dag dag;
    an_nodemap map;   /* what a node became */
    an_nodemap first; /* index sums that vary with a VECTOR range: their value in lane 0 */
    an_rangeset vectors;
    int64_t *whole; /* by position: what an index is a multiple of, whatever its ranges; VECTOR ranges count as 0 */
    int64_t *coefs[AN_RANGES_MAX]; /* by range, for VECTOR ranges: an_dag_coefs */
    an_uop_vec scratch;
    an_strided_vec strided; /* loads in steps: coalesce.c */
} vec;

static an_uop broadcast(an_graph *g, an_uop x, uint32_t lanes)
{
    if (an_uop_is_none(x) || an_uop_lanes(g, x) == lanes) return x;
    return an_uop_new_full(g, AN_OP_BROADCAST, an_uop_dtype(g, x), lanes, &x, 1, 0, 0);
}

/* The VECTOR range that the node at position i varies with, or AN_RANGES_MAX. */
static an_status vector_range(const vec *v, size_t i, size_t *out)
{
    *out = AN_RANGES_MAX;
    for (size_t r = 0; r < v->dag.ranges.len; r++) {
        if (!an_rangeset_has(&v->vectors, r) || !an_rangeset_has(&v->dag.deps[i], r)) continue;
        if (*out != AN_RANGES_MAX && an_uop_op(v->g, v->dag.order.data[i]) != AN_OP_SINK)
            return an_fail(v->ctx, AN_ERR_INTERNAL, "codegen: two VECTOR ranges, %u and %u, meet in one value",
                           an_range_id(an_uop_arg(v->g, v->dag.ranges.data[*out])),
                           an_range_id(an_uop_arg(v->g, v->dag.ranges.data[r])));
        *out = r;
    }
    return AN_OK;
}

/* The index u, affine in range r, where r is 0. */
static an_uop at_first(const vec *v, an_uop u, const int64_t *coef)
{
    return coef[an_dag_pos(&v->dag, u)] == 0 ? an_nodemap_get(&v->map, u) : an_nodemap_get(&v->first, u);
}

static bool note_first(vec *v, an_uop u, const int64_t *coef)
{
    an_uop x = AN_UOP_NONE;
    if (an_uop_op(v->g, u) == AN_OP_RANGE) {
        x = an_index(v->g, 0);
    } else {
        const an_uop a = at_first(v, an_uop_src(v->g, u, 0), coef), b = at_first(v, an_uop_src(v->g, u, 1), coef);
        x = an_uop_op(v->g, u) == AN_OP_ADD ? an_idx_add(v->g, a, b) : an_idx_mul(v->g, a, b);
    }
    return !an_uop_is_none(x) && an_nodemap_set(&v->first, v->ctx, u, x);
}

/* u with every source at this many lanes, but for pointers. */
static an_uop widen(vec *v, an_uop u, uint32_t lanes)
{
    const an_op op = an_uop_op(v->g, u);
    const uint32_t nsrc = an_uop_nsrc(v->g, u);
    v->scratch.len = 0;
    for (uint32_t s = 0; s < nsrc; s++) {
        an_uop x = an_nodemap_get(&v->map, an_uop_src(v->g, u, s));
        const bool scalar = (s == 0 && (op == AN_OP_LOAD || op == AN_OP_STORE)) || (s > 0 && op == AN_OP_REDUCE) || (s < 2 && op == AN_OP_MATRIX);
        if (!scalar) x = broadcast(v->g, x, lanes);
        if (an_uop_is_none(x) || !an_vec_push(v->ctx, &v->scratch, x)) return AN_UOP_NONE;
    }
    return an_uop_new_full(v->g, op, an_uop_dtype(v->g, u), op == AN_OP_STORE ? 1 : lanes, v->scratch.data, nsrc,
                           an_uop_arg(v->g, u), an_uop_tag(v->g, u));
}

static uint32_t lanes_of(const vec *v, size_t range)
{
    return (uint32_t)an_range_bound(v->g, v->dag.ranges.data[range]);
}

/* A REDUCE that binds a VECTOR range. */
static an_uop reduce_lanes(vec *v, an_uop u, size_t range)
{
    const an_op op = an_reduce_op(an_uop_arg(v->g, u));
    an_uop value = an_nodemap_get(&v->map, an_uop_src(v->g, u, 0));
    if (op != AN_OP_BARRIER) value = broadcast(v->g, value, lanes_of(v, range));
    v->scratch.len = 0;
    for (uint32_t s = 1; s < an_uop_nsrc(v->g, u); s++) {
        const an_uop r = an_uop_src(v->g, u, s);
        if (!an_uop_eq(r, v->dag.ranges.data[range]) && !an_vec_push(v->ctx, &v->scratch, an_nodemap_get(&v->map, r)))
            return AN_UOP_NONE;
    }
    const an_uop all = an_cg_reduce(v->g, op, value, v->scratch.data, (uint32_t)v->scratch.len);
    if (an_uop_is_none(all) || op == AN_OP_BARRIER) return all;
    return an_uop_new_full(v->g, AN_OP_HREDUCE, an_uop_dtype(v->g, all), 1, &all, 1, op, 0);
}

/* The load u, now x, if its lanes are in steps of a constant and have no gate. */
static bool note_strided(vec *v, an_uop u, an_uop x, size_t range)
{
    const an_uop index = an_uop_src(v->g, u, 1);
    const int64_t step = v->coefs[range][an_dag_pos(&v->dag, index)];
    if (step == AN_COEF_NONE || step == 0 || step == 1 || an_uop_nsrc(v->g, u) > 2) return true;
    const an_strided s = {x, an_nodemap_get(&v->first, index), step};
    return an_vec_push(v->ctx, &v->strided, s);
}

static int64_t gcd(int64_t a, int64_t b)
{
    while (b) {
        const int64_t r = a % b;
        a = b;
        b = r;
    }
    return a < 0 ? -a : a;
}

static void find_multiples(vec *v)
{
    const an_graph *g = v->g;
    for (size_t i = 0; i < v->dag.order.len; i++) {
        const an_uop u = v->dag.order.data[i];
        const an_op op = an_uop_op(g, u);
        int64_t c = 0;
        v->whole[i] = 1;
        if (an_uop_dtype(g, u) != AN_INDEX) continue;
        if (op == AN_OP_RANGE) v->whole[i] = an_rangeset_has(&v->vectors, an_dag_range_at(&v->dag, u)) ? 0 : 1;
        if (an_uop_int(g, u, &c)) v->whole[i] = c == INT64_MIN ? 1 : gcd(c, 0);
        if (op != AN_OP_ADD && op != AN_OP_MUL && op != AN_OP_MIN && op != AN_OP_MAX) continue;
        const int64_t a = v->whole[an_dag_pos(&v->dag, an_uop_src(g, u, 0))], b = v->whole[an_dag_pos(&v->dag, an_uop_src(g, u, 1))];
        if (op != AN_OP_MUL)
            v->whole[i] = gcd(a, b);
        else if (!__builtin_mul_overflow(a, b, &c))
            v->whole[i] = c;
    }
}

/* x + lane < y where x and y are multiples of the number of lanes: so it is in all of them or in none. */
static bool is_one_for_all(const vec *v, an_uop u, size_t range)
{
    if (an_uop_op(v->g, u) != AN_OP_CMPLT || an_uop_dtype(v->g, an_uop_src(v->g, u, 0)) != AN_INDEX) return false;
    const size_t x = an_dag_pos(&v->dag, an_uop_src(v->g, u, 0)), y = an_dag_pos(&v->dag, an_uop_src(v->g, u, 1));
    const int64_t lanes = lanes_of(v, range);
    return v->coefs[range][x] == 1 && v->coefs[range][y] == 0 && v->whole[x] % lanes == 0 && v->whole[y] % lanes == 0;
}

static an_uop compare_first(const vec *v, an_uop u, uint32_t lanes)
{
    const an_uop src[2] = {an_nodemap_get(&v->first, an_uop_src(v->g, u, 0)), an_nodemap_get(&v->map, an_uop_src(v->g, u, 1))};
    return broadcast(v->g, an_uop_new(v->g, AN_OP_CMPLT, AN_BOOL, src, 2, 0), lanes);
}

static an_status convert(vec *v, size_t i)
{
    const an_uop u = v->dag.order.data[i];
    const an_op op = an_uop_op(v->g, u);
    size_t range = AN_RANGES_MAX, own = AN_RANGES_MAX;
    an_status st = vector_range(v, i, &range);
    if (st) return st;
    for (uint32_t s = 1; op == AN_OP_REDUCE && s < an_uop_nsrc(v->g, u); s++) {
        const size_t r = an_dag_range_at(&v->dag, an_uop_src(v->g, u, s));
        if (!an_rangeset_has(&v->vectors, r)) continue;
        if (own != AN_RANGES_MAX || range != AN_RANGES_MAX)
            return an_fail(v->ctx, AN_ERR_INTERNAL, "codegen: two VECTOR ranges meet in one reduction");
        own = r;
    }
    an_uop x = AN_UOP_NONE;
    if (own != AN_RANGES_MAX) {
        x = reduce_lanes(v, u, own);
    } else if (range == AN_RANGES_MAX || op == AN_OP_SINK) {
        x = an_nodemap_rebuild(&v->map, v->g, u, &v->scratch);
    } else {
        const uint32_t lanes = lanes_of(v, range);
        const int64_t coef = v->coefs[range][i];
        if (coef != AN_COEF_NONE && !note_first(v, u, v->coefs[range])) return an_cg_failed(v->g);
        if (coef == 1) {
            const an_uop base = an_nodemap_get(&v->first, u);
            x = an_uop_new_full(v->g, AN_OP_RAMP, AN_INDEX, lanes, &base, 1, 0, 0);
        } else {
            x = is_one_for_all(v, u, range) ? compare_first(v, u, lanes) : widen(v, u, lanes);
        }
        if (op == AN_OP_LOAD && !an_uop_is_none(x) && !note_strided(v, u, x, range)) return AN_ERR_NOMEM;
    }
    if (an_uop_is_none(x) || !an_nodemap_set(&v->map, v->ctx, u, x)) return an_cg_failed(v->g);
    return AN_OK;
}

an_status an_pass_vector(an_graph *g, an_uop *sink)
{
    vec v = {.g = g, .ctx = an_graph_ctx(g)};
    an_status st = an_dag_init(&v.dag, g, sink, 1);
    const size_t n = v.dag.order.len;
    for (size_t r = 0; r < v.dag.ranges.len && !st; r++) {
        const an_uop range = v.dag.ranges.data[r];
        if (an_range_kind_of(an_uop_arg(g, range)) != AN_RANGE_VECTOR) continue;
        const int64_t bound = an_range_bound(g, range);
        if (bound < 2 || bound > AN_LANES_MAX) {
            st = an_fail(v.ctx, AN_ERR_INTERNAL, "codegen: VECTOR range %u has no number of lanes",
                         an_range_id(an_uop_arg(g, range)));
            break;
        }
        an_rangeset_add(&v.vectors, r);
        v.coefs[r] = an_mem_alloc(v.ctx, n * sizeof *v.coefs[r]);
        if (v.coefs[r])
            an_dag_coefs(&v.dag, r, v.coefs[r]);
        else
            st = AN_ERR_NOMEM;
    }
    const bool any = !an_rangeset_is_empty(&v.vectors);
    if (any && !st) v.whole = an_mem_alloc(v.ctx, n * sizeof *v.whole);
    if (any && !st && !v.whole) st = AN_ERR_NOMEM;
    if (v.whole) find_multiples(&v);
    for (size_t i = 0; i < n && any && !st; i++) st = convert(&v, i);
    an_uop now = an_nodemap_get(&v.map, *sink);
    if (!st && v.strided.len) st = an_coalesce(g, &now, v.strided.data, v.strided.len);
    if (!st) *sink = now;
    an_vec_fini(v.ctx, &v.strided);
    an_mem_free(v.ctx, v.whole, n * sizeof *v.whole);
    for (size_t r = 0; r < AN_RANGES_MAX; r++) an_mem_free(v.ctx, v.coefs[r], n * sizeof *v.coefs[r]);
    an_nodemap_fini(&v.map, v.ctx);
    an_nodemap_fini(&v.first, v.ctx);
    an_vec_fini(v.ctx, &v.scratch);
    an_dag_fini(&v.dag);
    return st;
}
