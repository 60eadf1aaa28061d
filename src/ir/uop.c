/* uop.c - reading nodes, and the constructors. */
#include "ir/graph.h"

/* --- reading ----------------------------------------------------------------------------------- */

const an_node *an_node_of(const an_graph *g, an_uop u)
{
    return an_graph_node(g, u.id);
}

an_op an_uop_op(const an_graph *g, an_uop u)
{
    return (an_op)an_graph_node(g, u.id)->op;
}

an_dtype an_uop_dtype(const an_graph *g, an_uop u)
{
    return (an_dtype)an_graph_node(g, u.id)->dtype;
}

uint32_t an_uop_lanes(const an_graph *g, an_uop u)
{
    return an_graph_node(g, u.id)->lanes;
}

uint32_t an_uop_nsrc(const an_graph *g, an_uop u)
{
    return an_graph_node(g, u.id)->nsrc;
}

an_uop an_uop_src(const an_graph *g, an_uop u, uint32_t i)
{
    return g->srcs.data[an_graph_node(g, u.id)->src + i];
}

const an_uop *an_uop_srcs(const an_graph *g, an_uop u)
{
    return g->srcs.data ? g->srcs.data + an_graph_node(g, u.id)->src : NULL;
}

uint64_t an_uop_arg(const an_graph *g, an_uop u)
{
    return an_graph_node(g, u.id)->arg;
}

uint32_t an_uop_tag(const an_graph *g, an_uop u)
{
    return an_graph_node(g, u.id)->tag;
}

an_shape an_uop_shape(const an_graph *g, an_uop u)
{
    return g->shapes.data[an_graph_node(g, u.id)->shape];
}

bool an_uop_is_const(const an_graph *g, an_uop u)
{
    return an_uop_op(g, u) == AN_OP_CONST;
}

an_scalar an_uop_const_value(const an_graph *g, an_uop u)
{
    return (an_scalar){.u = an_uop_arg(g, u)};
}

static bool is_float(an_dtype dtype)
{
    return an_dtype_kind_of(dtype) == AN_KIND_FLOAT;
}

bool an_uop_int(const an_graph *g, an_uop u, int64_t *out)
{
    if (!an_uop_is_const(g, u) || is_float(an_uop_dtype(g, u))) return false;
    *out = an_uop_const_value(g, u).i;
    return true;
}

bool an_uop_is_int(const an_graph *g, an_uop u, int64_t v)
{
    int64_t x = 0;
    return an_uop_int(g, u, &x) && x == v;
}

bool an_uop_widens_half(const an_graph *g, an_uop u)
{
    if (an_uop_op(g, u) != AN_OP_CAST || an_uop_dtype(g, u) != AN_F32) return false;
    const an_dtype from = an_uop_dtype(g, an_uop_src(g, u, 0));
    return is_float(from) && an_dtype_nbytes(from) == 2;
}

bool an_uop_is_number(const an_graph *g, an_uop u, double v)
{
    if (!an_uop_is_const(g, u)) return false;
    const an_scalar x = an_uop_const_value(g, u);
    const an_dtype dtype = an_uop_dtype(g, u);
    if (is_float(dtype)) {
        const an_scalar want = {.f = v};
        return x.u == want.u;
    }
    if (!(v >= -9223372036854775808.0 && v < 9223372036854775808.0) || (double)(int64_t)v != v) return false;
    if (an_dtype_kind_of(dtype) == AN_KIND_UINT && v < 0) return false;
    return x.i == (int64_t)v;
}

const char *an_uop_name(const an_graph *g, an_uop u)
{
    return g->names.data[an_uop_arg(g, u)];
}

/* --- building ---------------------------------------------------------------------------------- */

an_uop an_uop_new_full(an_graph *g, an_op op, an_dtype dtype, uint32_t lanes, const an_uop *src,
                       uint32_t nsrc, uint64_t arg, uint32_t tag)
{
    for (uint32_t i = 0; i < nsrc; i++)
        if (an_uop_is_none(src[i])) return AN_UOP_NONE;
    if (nsrc > UINT16_MAX) {
        an_fail(g->ctx, AN_ERR_LIMIT, "%s with %u sources: one node takes at most %d", an_op_info_of(op)->text,
                nsrc, UINT16_MAX);
        return AN_UOP_NONE;
    }
    an_node n = {.op = (uint8_t)op,
                 .dtype = (uint8_t)dtype,
                 .lanes = (uint8_t)lanes,
                 .nsrc = (uint16_t)nsrc,
                 .tag = (uint16_t)tag,
                 .arg = arg};
    an_uop copy[2 * AN_RANK_MAX + 1]; /* inferring a shape may move the sources */
    if (nsrc <= sizeof copy / sizeof *copy && nsrc > 0) {
        memcpy(copy, src, nsrc * sizeof *src);
        src = copy;
    }
    if (!an_shape_infer(g, op, src, nsrc, arg, &n.shape)) return AN_UOP_NONE;
    return an_graph_intern(g, &n, src);
}

an_uop an_uop_new(an_graph *g, an_op op, an_dtype dtype, const an_uop *src, uint32_t nsrc, uint64_t arg)
{
    return an_uop_new_full(g, op, dtype, 1, src, nsrc, arg, 0);
}

an_uop an_uop_with_srcs(an_graph *g, an_uop u, const an_uop *src)
{
    const an_node n = *an_graph_node(g, u.id);
    return an_uop_new_full(g, (an_op)n.op, (an_dtype)n.dtype, n.lanes, src, n.nsrc, n.arg, n.tag);
}

an_uop an_const(an_graph *g, an_dtype dtype, an_scalar v)
{
    return an_uop_new(g, AN_OP_CONST, dtype, NULL, 0, an_scalar_round(dtype, v).u);
}

an_uop an_const_int(an_graph *g, an_dtype dtype, int64_t v)
{
    if (is_float(dtype)) return an_const_float(g, dtype, (double)v);
    return an_const(g, dtype, (an_scalar){.i = v});
}

an_uop an_const_float(an_graph *g, an_dtype dtype, double v)
{
    if (!is_float(dtype)) return an_const(g, dtype, an_scalar_cast(AN_F64, dtype, (an_scalar){.f = v}));
    return an_const(g, dtype, (an_scalar){.f = v});
}

an_uop an_const_like(an_graph *g, an_uop u, double v)
{
    if (an_uop_is_none(u)) return AN_UOP_NONE;
    const an_dtype dtype = an_uop_dtype(g, u);
    const uint32_t lanes = an_uop_lanes(g, u);
    const an_uop c = an_const_float(g, dtype, v);
    if (lanes == 1) return c;
    return an_uop_new_full(g, AN_OP_BROADCAST, dtype, lanes, &c, 1, 0, 0);
}

an_uop an_index(an_graph *g, int64_t v)
{
    const an_node n = {.op = AN_OP_CONST, .dtype = AN_INDEX, .lanes = 1, .arg = (uint64_t)v};
    return an_graph_intern(g, &n, NULL);
}

/* The name's number, the same text always the same; UINT32_MAX when memory is out. */
static uint32_t intern_name(an_graph *g, const char *name)
{
    for (size_t i = 0; i < g->names.len; i++)
        if (strcmp(g->names.data[i], name) == 0) return (uint32_t)i;
    const size_t n = strlen(name);
    char *copy = an_graph_alloc(g, n + 1);
    if (!copy) return UINT32_MAX;
    memcpy(copy, name, n);
    if (!an_vec_reserve(g->ctx, &g->vars, 1) || !an_vec_push(g->ctx, &g->names, copy)) return UINT32_MAX;
    g->vars.data[g->vars.len++] = AN_UOP_NONE;
    return (uint32_t)(g->names.len - 1);
}

an_uop an_uop_var(an_graph *g, const char *name, int64_t min, int64_t max)
{
    const uint32_t id = intern_name(g, name);
    if (id == UINT32_MAX) return AN_UOP_NONE;
    const an_uop src[2] = {an_index(g, min), an_index(g, max)};
    const an_uop u = an_uop_new(g, AN_OP_VAR, AN_INDEX, src, 2, id);
    if (an_uop_is_none(g->vars.data[id])) g->vars.data[id] = u;
    return u;
}

bool an_graph_has_vars(const an_graph *g)
{
    return g->vars.len > 0;
}

an_uop an_graph_var(const an_graph *g, const char *name)
{
    for (size_t i = 0; i < g->names.len; i++)
        if (strcmp(g->names.data[i], name) == 0) return g->vars.data[i];
    return AN_UOP_NONE;
}

static an_uop elementwise(an_graph *g, an_op op, const an_uop *src, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (an_uop_is_none(src[i])) return AN_UOP_NONE;
    an_dtype dtype = an_uop_dtype(g, src[0]);
    if (an_op_info_of(op)->result == AN_RESULT_BOOL) dtype = AN_BOOL;
    if (an_op_info_of(op)->result == AN_RESULT_LAST) dtype = an_uop_dtype(g, src[n - 1]);
    return an_uop_new_full(g, op, dtype, an_uop_lanes(g, src[0]), src, n, 0, 0);
}

an_uop an_unary(an_graph *g, an_op op, an_uop x)
{
    return elementwise(g, op, &x, 1);
}

an_uop an_binary(an_graph *g, an_op op, an_uop x, an_uop y)
{
    const an_uop src[2] = {x, y};
    return elementwise(g, op, src, 2);
}

an_uop an_select(an_graph *g, an_uop c, an_uop x, an_uop y)
{
    const an_uop src[3] = {c, x, y};
    return elementwise(g, AN_OP_WHERE, src, 3);
}

an_uop an_cast_to(an_graph *g, an_dtype dtype, an_uop x)
{
    if (an_uop_is_none(x) || an_uop_dtype(g, x) == dtype) return x;
    return an_uop_new_full(g, AN_OP_CAST, dtype, an_uop_lanes(g, x), &x, 1, 0, 0);
}

an_uop an_uop_neg(an_graph *g, an_uop x)
{
    if (an_uop_is_none(x)) return x;
    /* As an integer: of an unsigned dtype -1 wraps to all ones, where a float would saturate to 0. */
    const an_dtype dtype = an_uop_dtype(g, x);
    const uint32_t lanes = an_uop_lanes(g, x);
    an_uop minus = an_const_int(g, dtype, -1);
    if (lanes > 1) minus = an_uop_new_full(g, AN_OP_BROADCAST, dtype, lanes, &minus, 1, 0, 0);
    return an_binary(g, AN_OP_MUL, x, minus);
}

an_uop an_uop_sub(an_graph *g, an_uop x, an_uop y)
{
    return an_binary(g, AN_OP_ADD, x, an_uop_neg(g, y));
}

an_uop an_not(an_graph *g, an_uop x)
{
    return an_binary(g, AN_OP_XOR, x, an_const_like(g, x, 1.0));
}

/* Index arithmetic goes straight to interning: scalars, no shape to infer. */
static an_uop index_binary(an_graph *g, an_op op, an_uop a, an_uop b)
{
    an_uop src[2] = {a, b};
    if (an_uop_cmp(g, a, b) > 0) { /* add and mul only: canonical order */
        src[0] = b;
        src[1] = a;
    }
    const an_node n = {.op = (uint8_t)op, .dtype = AN_INDEX, .lanes = 1, .nsrc = 2};
    return an_graph_intern(g, &n, src);
}

an_uop an_idx_add(an_graph *g, an_uop a, an_uop b)
{
    int64_t x = 0, y = 0;
    if (an_uop_is_none(a) || an_uop_is_none(b)) return AN_UOP_NONE;
    const bool cx = an_uop_int(g, a, &x), cy = an_uop_int(g, b, &y);
    if (cx && cy) return an_index(g, (int64_t)((uint64_t)x + (uint64_t)y));
    if (cx && x == 0) return b;
    if (cy && y == 0) return a;
    return index_binary(g, AN_OP_ADD, a, b);
}

an_uop an_idx_mul(an_graph *g, an_uop a, an_uop b)
{
    int64_t x = 0, y = 0;
    if (an_uop_is_none(a) || an_uop_is_none(b)) return AN_UOP_NONE;
    const bool cx = an_uop_int(g, a, &x), cy = an_uop_int(g, b, &y);
    if (cx && cy) return an_index(g, (int64_t)((uint64_t)x * (uint64_t)y));
    if ((cx && x == 0) || (cy && y == 0)) return an_index(g, 0);
    if (cx && x == 1) return b;
    if (cy && y == 1) return a;
    return index_binary(g, AN_OP_MUL, a, b);
}

an_uop an_idx_sub(an_graph *g, an_uop a, an_uop b)
{
    if (!an_uop_is_none(a) && an_uop_eq(a, b)) return an_index(g, 0);
    return an_idx_add(g, a, an_idx_mul(g, b, an_index(g, -1)));
}

/* --- nodes with identity ----------------------------------------------------------------------- */

an_uop an_buffer_node(an_graph *g, an_dtype dtype, const an_uop *dims, uint32_t rank)
{
    return an_uop_new(g, AN_OP_BUFFER, dtype, dims, rank, ++g->unique);
}

an_uop an_leaf(an_graph *g, an_uop x)
{
    if (an_uop_is_none(x)) return x;
    return an_uop_new(g, AN_OP_LEAF, an_uop_dtype(g, x), &x, 1, ++g->unique);
}

an_uop an_assign_node(an_graph *g, an_uop target, an_uop value, an_uop view)
{
    const an_uop src[3] = {target, value, view};
    if (an_uop_is_none(target) || an_uop_is_none(value)) return AN_UOP_NONE;
    return an_uop_new(g, AN_OP_ASSIGN, an_uop_dtype(g, target), src, an_uop_is_none(view) ? 2 : 3, ++g->unique);
}

an_uop an_acc(an_graph *g, an_uop init)
{
    if (an_uop_is_none(init)) return init;
    return an_uop_new_full(g, AN_OP_ACC, an_uop_dtype(g, init), an_uop_lanes(g, init), &init, 1, ++g->unique, 0);
}

/* --- tensor-level structure -------------------------------------------------------------------- */

/* op over x and n more sources. */
static an_uop with_more(an_graph *g, an_op op, an_uop x, const an_uop *more, uint32_t n)
{
    an_uop src[2 * AN_RANK_MAX + 1] = {x};
    if (an_uop_is_none(x)) return x;
    if (n > 2 * AN_RANK_MAX) {
        an_fail(g->ctx, AN_ERR_LIMIT, "%s to rank %u: at most %d axes are supported", an_op_info_of(op)->text, n,
                AN_RANK_MAX);
        return AN_UOP_NONE;
    }
    if (n) memcpy(src + 1, more, n * sizeof *more);
    return an_uop_new(g, op, an_uop_dtype(g, x), src, n + 1, 0);
}

an_uop an_reshape_node(an_graph *g, an_uop x, const an_uop *dims, uint32_t rank)
{
    return with_more(g, AN_OP_RESHAPE, x, dims, rank);
}

an_uop an_uop_same(an_graph *g, an_uop x)
{
    if (an_uop_is_none(x)) return x;
    const an_shape s = an_uop_shape(g, x);
    return an_reshape_node(g, x, s.dims, s.rank);
}

an_uop an_expand_node(an_graph *g, an_uop x, const an_uop *dims, uint32_t rank)
{
    return with_more(g, AN_OP_EXPAND, x, dims, rank);
}

an_uop an_permute_node(an_graph *g, an_uop x, const uint32_t *axes, uint32_t rank)
{
    uint64_t arg = 0;
    if (an_uop_is_none(x)) return x;
    for (uint32_t i = 0; i < rank; i++) arg |= (uint64_t)axes[i] << (4 * i);
    return an_uop_new(g, AN_OP_PERMUTE, an_uop_dtype(g, x), &x, 1, arg);
}

/* The two lists interleaved: first0, second0, first1, ... */
static an_uop with_pairs(an_graph *g, an_op op, an_uop x, const an_uop *first, const an_uop *second)
{
    an_uop pairs[2 * AN_RANK_MAX];
    if (an_uop_is_none(x)) return x;
    const uint32_t rank = an_uop_shape(g, x).rank;
    for (uint32_t i = 0; i < rank; i++) {
        pairs[2 * i] = first[i];
        pairs[2 * i + 1] = second[i];
    }
    return with_more(g, op, x, pairs, 2 * rank);
}

an_uop an_pad_node(an_graph *g, an_uop x, const an_uop *before, const an_uop *after)
{
    return with_pairs(g, AN_OP_PAD, x, before, after);
}

an_uop an_shrink_node(an_graph *g, an_uop x, const an_uop *begin, const an_uop *end)
{
    return with_pairs(g, AN_OP_SHRINK, x, begin, end);
}

an_uop an_flip_node(an_graph *g, an_uop x, uint32_t mask)
{
    if (an_uop_is_none(x) || mask == 0) return x;
    return an_uop_new(g, AN_OP_FLIP, an_uop_dtype(g, x), &x, 1, mask);
}

an_uop an_reduce_axis(an_graph *g, an_op op, an_uop x, uint32_t mask)
{
    if (an_uop_is_none(x) || mask == 0) return x;
    return an_uop_new(g, AN_OP_REDUCE_AXIS, an_uop_dtype(g, x), &x, 1, (uint64_t)op | (uint64_t)mask << 8);
}

/* --- inside a kernel --------------------------------------------------------------------------- */

an_uop an_range(an_graph *g, an_uop bound, uint32_t id, an_range_kind kind)
{
    return an_uop_new(g, AN_OP_RANGE, AN_INDEX, &bound, 1, (uint64_t)id | (uint64_t)kind << 32);
}

an_uop an_param(an_graph *g, an_dtype dtype, uint32_t slot)
{
    return an_uop_new(g, AN_OP_PARAM, dtype, NULL, 0, slot);
}

an_uop an_local(an_graph *g, an_dtype dtype, uint32_t nelem, uint32_t number, const an_uop *ranges, uint32_t n)
{
    return an_uop_new(g, AN_OP_LOCAL, dtype, ranges, n, (uint64_t)number << 32 | nelem);
}

an_uop an_load(an_graph *g, an_uop ptr, an_uop index, an_uop gate)
{
    const an_uop src[3] = {ptr, index, gate};
    if (an_uop_is_none(ptr) || an_uop_is_none(index)) return AN_UOP_NONE;
    return an_uop_new_full(g, AN_OP_LOAD, an_uop_dtype(g, ptr), an_uop_lanes(g, index), src,
                           an_uop_is_none(gate) ? 2 : 3, 0, 0);
}

an_uop an_store(an_graph *g, an_uop ptr, an_uop index, an_uop value, an_uop gate)
{
    const an_uop src[4] = {ptr, index, value, gate};
    return an_uop_new(g, AN_OP_STORE, AN_DTYPE_NONE, src, an_uop_is_none(gate) ? 3 : 4, 0);
}

an_uop an_sink(an_graph *g, const an_uop *stores, uint32_t n)
{
    return an_uop_new(g, AN_OP_SINK, AN_DTYPE_NONE, stores, n, 0);
}
