/* shape.c - shapes: interned lists of dims, and how each op's shape follows from its sources. */
#include "ir/graph.h"

static uint64_t dims_hash(const an_uop *dims, uint32_t rank)
{
    uint64_t h = rank;
    for (uint32_t i = 0; i < rank; i++) h = an_mix64(h, dims[i].id);
    return h;
}

static bool shape_table_grow(an_graph *g)
{
    const size_t cap = g->shape_cap ? g->shape_cap * 2 : 64;
    uint32_t *table = an_mem_zalloc(g->ctx, cap * sizeof *table);
    if (!table) return false;
    for (uint32_t id = 1; id < g->shapes.len; id++) {
        size_t i = dims_hash(g->shapes.data[id].dims, g->shapes.data[id].rank) & (cap - 1);
        while (table[i]) i = (i + 1) & (cap - 1);
        table[i] = id;
    }
    an_mem_free(g->ctx, g->shape_table, g->shape_cap * sizeof *g->shape_table);
    g->shape_table = table;
    g->shape_cap = cap;
    return true;
}

bool an_shape_id(an_graph *g, const an_uop *dims, uint32_t rank, uint32_t *id)
{
    *id = 0;
    if (rank == 0) return true;
    if (rank > AN_RANK_MAX) {
        an_fail(g->ctx, AN_ERR_LIMIT, "a shape of rank %u: at most %d axes are supported", rank, AN_RANK_MAX);
        return false;
    }
    for (uint32_t i = 0; i < rank; i++)
        if (an_uop_is_none(dims[i])) return false;
    if ((g->shapes.len + 1) * 2 > g->shape_cap && !shape_table_grow(g)) return false;
    const size_t mask = g->shape_cap - 1;
    size_t i = dims_hash(dims, rank) & mask;
    const an_shape want = {rank, dims};
    for (; g->shape_table[i]; i = (i + 1) & mask) {
        *id = g->shape_table[i];
        if (an_shape_eq(g->shapes.data[*id], want)) return true;
    }
    an_uop *copy = an_graph_alloc(g, rank * sizeof *copy);
    if (!copy) return false;
    memcpy(copy, dims, rank * sizeof *copy);
    const an_shape shape = {rank, copy};
    if (!an_vec_push(g->ctx, &g->shapes, shape)) return false;
    *id = (uint32_t)(g->shapes.len - 1);
    g->shape_table[i] = *id;
    return true;
}

an_shape an_shape_intern(an_graph *g, const an_uop *dims, uint32_t rank)
{
    uint32_t id = 0;
    if (!an_shape_id(g, dims, rank, &id)) return (an_shape){rank, NULL};
    return g->shapes.data[id];
}

bool an_shape_eq(an_shape a, an_shape b)
{
    return a.rank == b.rank && (a.rank == 0 || memcmp(a.dims, b.dims, a.rank * sizeof *a.dims) == 0);
}

an_uop an_shape_numel(an_graph *g, an_shape s)
{
    an_uop n = an_index(g, 1);
    for (uint32_t i = 0; i < s.rank; i++) n = an_dim_mul(g, n, s.dims[i]);
    return n;
}

bool an_shape_static(const an_graph *g, an_shape s, int64_t *dims)
{
    for (uint32_t i = 0; i < s.rank; i++) {
        int64_t d = 0;
        if (!an_uop_int(g, s.dims[i], &d)) return false;
        if (dims) dims[i] = d;
    }
    return true;
}

bool an_shape_infer(an_graph *g, an_op op, const an_uop *src, uint32_t nsrc, uint64_t arg, uint32_t *shape)
{
    an_uop dims[AN_RANK_MAX];
    *shape = 0;
    if (nsrc == 0) return true;
    const an_shape x = an_uop_shape(g, src[0]);
    switch (op) {
    case AN_OP_BUFFER:
        return an_shape_id(g, src, nsrc, shape);
    case AN_OP_IOTA:
        return an_shape_id(g, src, 1, shape);
    case AN_OP_RESHAPE:
    case AN_OP_EXPAND:
        return an_shape_id(g, src + 1, nsrc - 1, shape);
    case AN_OP_PERMUTE:
        for (uint32_t i = 0; i < x.rank; i++) dims[i] = x.dims[an_permute_axis(arg, i)];
        return an_shape_id(g, dims, x.rank, shape);
    case AN_OP_PAD:
        for (uint32_t i = 0; i < x.rank; i++)
            dims[i] = an_dim_add(g, an_dim_add(g, x.dims[i], src[1 + 2 * i]), src[2 + 2 * i]);
        return an_shape_id(g, dims, x.rank, shape);
    case AN_OP_SHRINK:
        for (uint32_t i = 0; i < x.rank; i++) dims[i] = an_dim_sub(g, src[2 + 2 * i], src[1 + 2 * i]);
        return an_shape_id(g, dims, x.rank, shape);
    case AN_OP_REDUCE_AXIS:
        for (uint32_t i = 0; i < x.rank; i++)
            dims[i] = an_reduce_mask(arg) >> i & 1u ? an_index(g, 1) : x.dims[i];
        return an_shape_id(g, dims, x.rank, shape);
    case AN_OP_ASSIGN:
        *shape = an_graph_node(g, src[0].id)->shape;
        return true;
    case AN_OP_LOAD: /* an element, whatever the buffer's shape */
        return true;
    default:
        /* Elementwise: of the first operand that is not a scalar. What is inside a kernel has rank 0, so all
         * its users have. */
        for (uint32_t i = 0; i < nsrc && *shape == 0; i++) *shape = an_graph_node(g, src[i].id)->shape;
        return true;
    }
}

void an_shape_print(an_str *out, const an_graph *g, an_shape s)
{
    an_str_putc(out, '(');
    for (uint32_t i = 0; i < s.rank; i++) {
        if (i) an_str_put(out, ", ");
        an_dim_print(out, g, s.dims[i]);
    }
    an_str_put(out, s.rank == 1 ? ",)" : ")");
}
