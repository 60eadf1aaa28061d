/* matrix.c - MATRIX: sums of products of f16 go through matrix units, which the threads of a subgroup use together.
 *
 *   sum over ko, k of f32(L[i, k]) * f32(M[k, j])   -->   sum over ko, kq of matrix(L[i..., 16 kq...], M[16 kq..., j...])
 *
 * The operands are in tiles (gpu.c). A thread keeps the elements that it had: those of its row, one of the two innermost LOCAL
 * ranges, and of its columns, the innermost one and a VECTOR range. How a subgroup holds a fragment is its own affair, so the sum
 * is handed over through workgroup memory at its end (backend/webgpu/wgsl/matrix.c). */
#include "codegen/gpu.h"

enum { ROWS = 16, COLUMNS = 8, DEPTH = 16, LANES = 4, STEP_MAX = 1 << 20 };

typedef struct side {
    an_uop ptr, index; /* of the load from the tile */
    int64_t along_k, along; /* what the index grows by */
} side;

typedef struct plan {
    an_dag d;
    size_t k, row, column, lanes; /* indices of ranges */
    an_uop reduce;
    side a, b;
} plan;

static an_range_kind kind_at(const an_dag *d, size_t r)
{
    return an_range_kind_of(an_uop_arg(d->g, d->ranges.data[r]));
}

/* The only reduction that binds range k, if it sums, and over another range besides. */
static const char *find_sum(plan *p)
{
    an_graph *g = p->d.g;
    p->reduce = AN_UOP_NONE;
    for (size_t i = 0; i < p->d.order.len; i++) {
        const an_uop u = p->d.order.data[i];
        bool binds = false, goes_on = false;
        for (uint32_t s = 1; an_uop_op(g, u) == AN_OP_REDUCE && s < an_uop_nsrc(g, u); s++) {
            const size_t r = an_dag_range_at(&p->d, an_uop_src(g, u, s));
            binds = binds || r == p->k;
            goes_on = goes_on || (r != p->k && kind_at(&p->d, r) == AN_RANGE_REDUCE);
        }
        if (!binds) continue;
        if (!an_uop_is_none(p->reduce)) return "several reductions go over it";
        if (an_reduce_op(an_uop_arg(g, u)) != AN_OP_ADD) return "that is for sums only";
        if (!goes_on) return "the sum does not go on outside of it";
        p->reduce = u;
    }
    return an_uop_is_none(p->reduce) ? "there is no such reduction" : NULL;
}

/* f32(load of f16 from a tile) */
static bool is_operand(const an_graph *g, an_uop u, side *s)
{
    if (an_uop_op(g, u) != AN_OP_CAST || an_uop_dtype(g, u) != AN_F32) return false;
    const an_uop load = an_uop_src(g, u, 0);
    if (an_uop_op(g, load) != AN_OP_LOAD || an_uop_dtype(g, load) != AN_F16 || an_uop_nsrc(g, load) != 2) return false;
    *s = (side){.ptr = an_uop_src(g, load, 0), .index = an_uop_src(g, load, 1)};
    return an_uop_op(g, s->ptr) == AN_OP_REDUCE && an_reduce_op(an_uop_arg(g, s->ptr)) == AN_OP_BARRIER;
}

/* The ranges whose iterations are the lanes of a subgroup, rows outside of columns, and a vector's. */
static bool find_lanes(plan *p)
{
    p->row = p->column = p->lanes = AN_RANGES_MAX;
    for (size_t r = 0; r < p->d.ranges.len; r++) {
        if (kind_at(&p->d, r) == AN_RANGE_LOCAL) {
            p->row = p->column;
            p->column = r;
        }
        if (kind_at(&p->d, r) == AN_RANGE_VECTOR && an_rangeset_has(an_dag_deps(&p->d, p->reduce), r)) p->lanes = r;
    }
    return p->row < AN_RANGES_MAX && p->lanes < AN_RANGES_MAX && an_range_bound(p->d.g, p->d.ranges.data[p->row]) == ROWS &&
           an_range_bound(p->d.g, p->d.ranges.data[p->column]) == COLUMNS / LANES && an_range_bound(p->d.g, p->d.ranges.data[p->lanes]) == LANES;
}

/* What the index of a side grows by with range r. */
static int64_t coef_at(const plan *p, const side *s, int64_t *coef, size_t r)
{
    an_dag_coefs(&p->d, r, coef);
    return coef[an_dag_pos(&p->d, s->index)];
}

static bool is_step(int64_t a, int64_t b)
{
    return a > 0 && b > 0 && a < STEP_MAX && b < STEP_MAX && (a == 1 || b == 1);
}

/* Do the sides walk their tiles as fragments do: a along rows, b along columns, and neither along those of the other? */
static bool find_steps(plan *p, int64_t *coef)
{
    const int64_t n = an_range_bound(p->d.g, p->d.ranges.data[p->lanes]);
    side *const a = &p->a, *const b = &p->b;
    a->along_k = coef_at(p, a, coef, p->k);
    b->along_k = coef_at(p, b, coef, p->k);
    a->along = coef_at(p, a, coef, p->row);
    b->along = coef_at(p, b, coef, p->lanes);
    return is_step(a->along_k, a->along) && is_step(b->along_k, b->along) && coef_at(p, b, coef, p->column) == n * b->along &&
           coef_at(p, b, coef, p->row) == 0 && coef_at(p, a, coef, p->column) == 0 && coef_at(p, a, coef, p->lanes) == 0;
}

static const char *make_plan(plan *p, int64_t *coef)
{
    an_graph *g = p->d.g;
    const char *why = find_sum(p);
    if (why) return why;
    const an_uop value = an_uop_src(g, p->reduce, 0);
    if (an_uop_op(g, value) != AN_OP_MUL || !is_operand(g, an_uop_src(g, value, 0), &p->a) || !is_operand(g, an_uop_src(g, value, 1), &p->b))
        return "what is summed is no product of f16 from two tiles";
    if (!find_lanes(p)) return "no two LOCAL ranges and a VECTOR range are the elements of a fragment";
    if (find_steps(p, coef)) return NULL;
    const side other = p->a;
    p->a = p->b;
    p->b = other;
    return find_steps(p, coef) ? NULL : "the innermost LOCAL ranges are not the rows of one tile and the columns of the other";
}

/* The fragment of a side at the first element of its subgroup; kq stands for k. */
static an_uop fragment(const plan *p, const side *s, an_uop kq, bool left)
{
    an_graph *g = p->d.g;
    const an_uop zero = an_index(g, 0), at = an_idx_mul(g, kq, an_index(g, DEPTH));
    const size_t inner[3] = {left ? p->row : p->column, left ? p->row : p->lanes, p->k};
    an_range_sub subs[3];
    an_uop src[2] = {s->ptr, s->index};
    if (an_uop_is_none(zero) || an_uop_is_none(at)) return AN_UOP_NONE;
    for (int i = 0; i < 3; i++) subs[i] = (an_range_sub){p->d.ranges.data[inner[i]], i < 2 ? zero : at, {AN_UOP_NONE, AN_UOP_NONE}, 0};
    if (an_replace_ranges(g, &src[1], 1, left ? subs + 1 : subs, left ? 2 : 3)) return AN_UOP_NONE;
    const uint32_t along = (uint32_t)s->along, along_k = (uint32_t)s->along_k;
    const an_fragment f = left ? (an_fragment){ROWS, DEPTH, along, along_k} : (an_fragment){DEPTH, COLUMNS, along_k, along};
    return an_uop_new_full(g, AN_OP_FRAGMENT, AN_F16, 1, src, 2, an_fragment_arg(f), 0);
}

/* The sum, of products of fragments. */
static an_uop sum_of_fragments(const plan *p)
{
    an_graph *g = p->d.g;
    const an_uop k = p->d.ranges.data[p->k], column = p->d.ranges.data[p->column], lanes = p->d.ranges.data[p->lanes];
    const int64_t n = an_range_bound(g, k) / DEPTH;
    const an_uop kq = n == 1 ? an_index(g, 0) : an_range(g, an_index(g, n), an_range_id(an_uop_arg(g, k)), kind_at(&p->d, p->k));
    const an_uop first = an_idx_mul(g, column, an_index(g, an_range_bound(g, lanes)));
    const an_uop src[4] = {fragment(p, &p->a, kq, true), fragment(p, &p->b, kq, false), p->d.ranges.data[p->row],
                           an_uop_is_none(first) ? first : an_idx_add(g, first, lanes)};
    an_uop ranges[2 * AN_RANK_MAX + 4];
    uint32_t nranges = 0;
    for (int i = 0; i < 4; i++)
        if (an_uop_is_none(src[i])) return AN_UOP_NONE;
    const an_uop product = an_uop_new_full(g, AN_OP_MATRIX, AN_F32, 1, src, 4, 0, 0);
    for (uint32_t s = 1; s < an_uop_nsrc(g, p->reduce) && nranges < sizeof ranges / sizeof ranges[0]; s++) {
        const an_uop r = an_uop_src(g, p->reduce, s);
        if (!an_uop_eq(r, k)) ranges[nranges++] = r;
        else if (n > 1) ranges[nranges++] = kq;
    }
    return an_uop_is_none(product) ? product : an_cg_reduce(g, AN_OP_ADD, product, ranges, nranges);
}

an_status an_gpu_matrix(an_graph *g, an_uop *sink, uint32_t k_id, int64_t nbytes_max, const char **why)
{
    an_ctx *ctx = an_graph_ctx(g);
    an_uop tiled = *sink;
    plan p = {.k = 0};
    an_nodemap map = {0};
    an_uop_vec scratch = {0};
    int64_t *coef = NULL;
    an_status st = an_gpu_tile(g, &tiled, k_id, nbytes_max, true, why);
    if (!st && !*why) st = an_dag_init(&p.d, g, &tiled, 1);
    if (st || *why) goto done;
    while (p.k < p.d.ranges.len && an_range_id(an_uop_arg(g, p.d.ranges.data[p.k])) != k_id) p.k++;
    const int64_t n = p.k < p.d.ranges.len ? an_range_bound(g, p.d.ranges.data[p.k]) : -1;
    if (n < 1 || n % DEPTH) {
        *why = "its bound is not divisible";
        goto done;
    }
    st = AN_ERR_NOMEM;
    coef = an_mem_alloc(ctx, p.d.order.len * sizeof *coef);
    if (!coef) goto done;
    *why = make_plan(&p, coef);
    if (!*why) {
        const an_uop sum = sum_of_fragments(&p);
        if (an_uop_is_none(sum)) goto done;
        for (size_t i = 0; i < p.d.order.len; i++) {
            const an_uop u = p.d.order.data[i];
            const an_uop v = an_uop_eq(u, p.reduce) ? sum : an_nodemap_rebuild(&map, g, u, &scratch);
            if (an_uop_is_none(v) || !an_nodemap_set(&map, ctx, u, v)) goto done;
        }
        *sink = an_nodemap_get(&map, tiled);
    }
    st = AN_OK;
done:
    if (st && an_ctx_status(ctx)) st = an_ctx_status(ctx);
    an_mem_free(ctx, coef, p.d.order.len * sizeof *coef);
    an_nodemap_fini(&map, ctx);
    an_vec_fini(ctx, &scratch);
    an_dag_fini(&p.d);
    return st;
}
