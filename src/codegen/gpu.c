/* gpu.c - transforms for devices of workgroups and threads: ranges get the kinds GLOBAL, LOCAL and GROUP (uop.h), and TILE
 * stages what the threads of a workgroup read again and again in workgroup memory.
 *
 *   for io, jo (GLOBAL), il, jl (LOCAL)         for io, jo, il, jl
 *     sum over ko, ki of                          sum over ko of
 *       f(A[(io il) * K + ko ki]) * B[..]   -->     for s (STAGE): L[ki, il] = f(A[.. s ..])
 *                                                   sum over ki of L[ki, il] * M[ki, jl]
 *
 * The tile is a REDUCE by BARRIER: it binds the ranges of the copying loop, its value is a store to a LOCAL, and it is the
 * pointer to the LOCAL as it is after the loop. So it goes to the place of a reduction of its kind: inside ko, before ki. A list
 * that has it is right when run by one thread after the other, each of which fills the whole tile; threads that run side by
 * side share that work (backend/webgpu/wgsl/wgsl.h). */
#include "codegen/gpu.h"

#include "rewrite/bounds.h"
#include "rewrite/rewrite.h"

enum { PARTS_MAX = 24, DIMS_MAX = 8 };

static an_range_kind kind_at(const an_dag *d, size_t r)
{
    return an_range_kind_of(an_uop_arg(d->g, d->ranges.data[r]));
}

/* The store of where(c, what is there, x) as one of x where c does not hold: blocks that share elements (PADTO of a kernel in place) are
 * computed at the same time, and what was there before one of them must not come back after the other. */
static an_uop without_old(an_graph *g, an_uop store)
{
    const an_uop ptr = an_uop_src(g, store, 0), index = an_uop_src(g, store, 1), value = an_uop_src(g, store, 2);
    const an_uop old = an_uop_op(g, value) == AN_OP_WHERE ? an_uop_src(g, value, 1) : AN_UOP_NONE;
    if (an_uop_is_none(old) || an_uop_op(g, old) != AN_OP_LOAD) return store;
    if (!an_uop_eq(an_uop_src(g, old, 0), ptr) || !an_uop_eq(an_uop_src(g, old, 1), index)) return store;
    an_uop gate = an_not(g, an_uop_src(g, value, 0));
    if (an_uop_nsrc(g, store) > 3) gate = an_binary(g, AN_OP_AND, an_uop_src(g, store, 3), gate);
    return an_uop_is_none(gate) ? gate : an_store(g, ptr, index, an_uop_src(g, value, 2), gate);
}

static an_status stores_without_old(an_graph *g, an_uop *sink)
{
    an_uop_vec stores = {0};
    an_status st = AN_OK;
    for (uint32_t s = 0; s < an_uop_nsrc(g, *sink) && !st; s++) {
        const an_uop store = without_old(g, an_uop_src(g, *sink, s));
        if (an_uop_is_none(store) || !an_vec_push(an_graph_ctx(g), &stores, store)) st = AN_ERR_NOMEM;
    }
    const an_uop all = st ? AN_UOP_NONE : an_sink(g, stores.data, (uint32_t)stores.len);
    an_vec_fini(an_graph_ctx(g), &stores);
    if (an_uop_is_none(all)) return AN_ERR_NOMEM;
    *sink = all;
    return AN_OK;
}

an_status an_gpu_mark(an_graph *g, an_uop *sink, an_uop range, an_range_kind kind, uint32_t id)
{
    const an_uop to = an_range(g, an_uop_src(g, range, 0), id, kind);
    const an_range_sub sub = {range, to, {to, AN_UOP_NONE}, 1};
    if (an_uop_is_none(to)) return AN_ERR_NOMEM;
    const an_status st = stores_without_old(g, sink);
    return st || an_uop_eq(range, to) ? st : an_replace_ranges(g, sink, 1, &sub, 1);
}

/* --- tiles ------------------------------------------------------------------------------------- */

/* One range inside the tile: digit of a dimension. */
typedef struct part {
    size_t range;      /* index into dag.ranges */
    int64_t n, coef;   /* AN_COEF_NONE: not affine */
    int64_t unit;      /* of its dimension: how much that grows with it by one */
    uint32_t dim;
    an_uop digit;      /* of the copying loop's element */
} part;

typedef struct dim {
    int64_t n, coef, stride; /* stride in the LOCAL */
    bool reduced;
    an_uop digit;
} dim;

typedef struct tile {
    part parts[PARTS_MAX];
    dim dims[DIMS_MAX]; /* by falling coef: the last is walked fastest */
    uint32_t nparts, ndims;
    int64_t nelem, nlocal;
} tile;

/* Is range r one of those whose iterations a tile holds? Of what is summed over only the innermost range is, inner. */
static bool is_inside(const an_dag *d, size_t r, size_t inner)
{
    const an_range_kind kind = kind_at(d, r);
    return kind != AN_RANGE_GLOBAL && kind != AN_RANGE_LOOP && (kind != AN_RANGE_REDUCE || r == inner);
}

/* The dimensions of what the value at position i is for one iteration of the loops around inner, as the load at position main walks memory. */
static bool plan_tile(const an_dag *d, size_t i, size_t main, size_t inner, tile *t)
{
    const size_t index = an_dag_pos(d, an_uop_src(d->g, d->order.data[main], 1));
    int64_t *coef = an_mem_alloc(an_graph_ctx(d->g), d->order.len * sizeof *coef);
    dim rising[DIMS_MAX] = {{.n = 0}}; /* by rising coef */
    bool ok = coef != NULL;
    *t = (tile){.nelem = 1};
    for (size_t r = 0; r < d->ranges.len && ok; r++) {
        if (!an_rangeset_has(&d->deps[i], r) || !is_inside(d, r, inner)) continue;
        const int64_t n = an_range_bound(d->g, d->ranges.data[r]);
        ok = n >= 1 && t->nparts < PARTS_MAX;
        if (!ok) break;
        an_dag_coefs(d, r, coef);
        part p = {.range = r, .n = n, .coef = coef[index]};
        if (p.coef != AN_COEF_NONE && p.coef <= 0) p.coef = AN_COEF_NONE; /* 0: the value varies with more than that load */
        uint32_t at = t->nparts++;
        for (; at > 0 && t->parts[at - 1].coef != AN_COEF_NONE && (p.coef == AN_COEF_NONE || t->parts[at - 1].coef < p.coef); at--)
            t->parts[at] = t->parts[at - 1];
        t->parts[at] = p;
    }
    an_mem_free(an_graph_ctx(d->g), coef, d->order.len * sizeof *coef);
    /* Neighbours that walk memory as one are one dimension, from the fastest up. */
    for (uint32_t k = t->nparts; k-- > 0 && ok;) {
        part *p = &t->parts[k];
        dim *last = t->ndims ? &rising[t->ndims - 1] : NULL;
        const bool reduced = kind_at(d, p->range) == AN_RANGE_UNROLL || kind_at(d, p->range) == AN_RANGE_REDUCE;
        if (last && p->coef != AN_COEF_NONE && last->coef != AN_COEF_NONE && last->reduced == reduced && p->coef == last->coef * last->n) {
            p->unit = last->n;
            last->n *= p->n;
        } else {
            ok = t->ndims < DIMS_MAX;
            if (!ok) break;
            rising[t->ndims++] = (dim){.n = p->n, .coef = p->coef, .reduced = reduced};
            p->unit = 1;
        }
        p->dim = t->ndims - 1;
        ok = !__builtin_mul_overflow(t->nelem, p->n, &t->nelem) && t->nelem < 1 << 20;
    }
    for (uint32_t k = 0; k < t->ndims && k < DIMS_MAX; k++) t->dims[k] = rising[t->ndims - 1 - k];
    for (uint32_t k = 0; k < t->nparts && ok; k++) t->parts[k].dim = t->ndims - 1 - t->parts[k].dim;
    return ok && t->nparts > 0;
}

/* Strides in workgroup memory: outputs fastest, since a thread reads several of them side by side. A row that is written across
 * is padded, so that the threads that write it hit different banks. as_stored: the same as in memory; rows are padded by 16 bytes of f16. */
static void lay_out(tile *t, bool as_stored)
{
    int64_t stride = 1;
    if (as_stored) {
        for (uint32_t k = t->ndims; k-- > 0; stride *= t->dims[k].n, stride += k + 1 == t->ndims && k ? 8 : 0) t->dims[k].stride = stride;
        t->nlocal = (stride + 3) / 4 * 4;
        return;
    }
    const bool across = t->dims[t->ndims - 1].reduced;
    for (int reduced = 0; reduced < 2; reduced++) {
        for (uint32_t k = t->ndims; k-- > 0;) {
            if (t->dims[k].reduced != (reduced == 1)) continue;
            t->dims[k].stride = stride;
            stride *= t->dims[k].n;
        }
        if (reduced == 0 && across && stride > 1) stride += 4;
    }
    t->nlocal = (stride + 3) / 4 * 4;
}

/* Element s * lanes + v of the tile: its digits. */
static bool take_digits(an_graph *g, tile *t, an_uop s, an_uop v, int64_t lanes)
{
    an_uop rest = s;
    for (uint32_t k = t->ndims; k-- > 0;) {
        dim *m = &t->dims[k];
        const bool last = k + 1 == t->ndims, first = k == 0;
        const int64_t n = last ? m->n / lanes : m->n;
        an_uop digit = first ? rest : n == 1 ? an_index(g, 0) : an_binary(g, AN_OP_FLOORMOD, rest, an_index(g, n));
        if (!first && n > 1) rest = an_binary(g, AN_OP_FLOORDIV, rest, an_index(g, n));
        if (last && lanes > 1) digit = an_idx_add(g, an_idx_mul(g, digit, an_index(g, lanes)), v);
        m->digit = digit;
        if (an_uop_is_none(digit) || an_uop_is_none(rest)) return false;
    }
    return true;
}

/* What a part's range is for that element. */
static bool part_digits(an_graph *g, tile *t)
{
    for (uint32_t k = 0; k < t->nparts; k++) {
        part *p = &t->parts[k];
        an_uop x = t->dims[p->dim].digit;
        if (p->unit > 1) x = an_binary(g, AN_OP_FLOORDIV, x, an_index(g, p->unit));
        if (p->unit * p->n < t->dims[p->dim].n) x = an_binary(g, AN_OP_FLOORMOD, x, an_index(g, p->n));
        p->digit = x;
        if (an_uop_is_none(x)) return false;
    }
    return true;
}

/* The index of a load, of d, with the tile's ranges replaced by the digits: where it is affine in all of them, as a sum over
 * dimensions. to is what it is by plain substitution. */
static an_status index_at_digits(const an_dag *d, const tile *t, an_uop index, an_uop *to)
{
    an_graph *g = d->g;
    an_ctx *ctx = an_graph_ctx(g);
    const size_t nbytes = d->order.len * sizeof(int64_t), at = an_dag_pos(d, index);
    int64_t by_dim[DIMS_MAX] = {0};
    an_range_sub subs[PARTS_MAX];
    bool affine = true;
    int64_t *coef = an_mem_alloc(ctx, nbytes);
    if (!coef) return AN_ERR_NOMEM;
    for (uint32_t k = 0; k < t->nparts && affine; k++) { /* one step a dimension, whichever part grows */
        const part *p = &t->parts[k];
        an_dag_coefs(d, p->range, coef);
        affine = coef[at] != AN_COEF_NONE && coef[at] % p->unit == 0;
        if (affine && p->unit == 1) by_dim[p->dim] = coef[at];
        subs[k] = (an_range_sub){d->ranges.data[p->range], an_index(g, 0), {AN_UOP_NONE, AN_UOP_NONE}, 0};
    }
    for (uint32_t k = 0; k < t->nparts && affine; k++) {
        an_dag_coefs(d, t->parts[k].range, coef);
        affine = coef[at] == by_dim[t->parts[k].dim] * t->parts[k].unit;
    }
    an_mem_free(ctx, coef, nbytes);
    if (!affine) return AN_OK;
    an_uop u = index;
    const an_status st = an_replace_ranges(g, &u, 1, subs, t->nparts);
    for (uint32_t k = 0; k < t->ndims && !st; k++) u = an_idx_add(g, u, an_idx_mul(g, t->dims[k].digit, an_index(g, by_dim[k])));
    *to = u;
    return st ? st : an_uop_is_none(u) ? AN_ERR_NOMEM : AN_OK;
}

/* The value u, of d, as the tile's element has it. */
static an_status at_digits(const an_dag *d, const tile *t, an_uop *u)
{
    an_graph *g = d->g;
    an_ctx *ctx = an_graph_ctx(g);
    an_uop_vec order = {0}, scratch = {0};
    an_nodemap map = {0};
    an_status st = an_toposort(g, u, 1, &order);
    for (uint32_t k = 0; k < t->nparts && !st; k++)
        if (!an_nodemap_set(&map, ctx, d->ranges.data[t->parts[k].range], t->parts[k].digit)) st = AN_ERR_NOMEM;
    for (size_t i = 0; i < order.len && !st; i++) {
        const an_uop n = order.data[i];
        if (an_uop_op(g, n) == AN_OP_RANGE) continue;
        an_uop v = an_nodemap_rebuild(&map, g, n, &scratch);
        if (!an_uop_is_none(v) && an_uop_op(g, n) == AN_OP_LOAD) {
            an_uop index = an_uop_src(g, v, 1);
            st = index_at_digits(d, t, an_uop_src(g, n, 1), &index);
            v = st ? AN_UOP_NONE : an_load(g, an_uop_src(g, v, 0), index, an_uop_nsrc(g, v) > 2 ? an_uop_src(g, v, 2) : AN_UOP_NONE);
        }
        if (an_uop_is_none(v) || !an_nodemap_set(&map, ctx, n, v)) st = st ? st : AN_ERR_NOMEM;
    }
    if (!st) *u = an_nodemap_get(&map, *u);
    an_nodemap_fini(&map, ctx);
    an_vec_fini(ctx, &order);
    an_vec_fini(ctx, &scratch);
    return st;
}

/* Does the gate of a load in u vary along the last dimension of the tile? */
static bool has_gate_along(const an_dag *d, an_uop u, const tile *t)
{
    an_uop_vec order = {0};
    bool gated = an_toposort(d->g, &u, 1, &order) != AN_OK;
    for (size_t i = 0; i < order.len && !gated; i++) {
        if (an_uop_op(d->g, order.data[i]) != AN_OP_LOAD || an_uop_nsrc(d->g, order.data[i]) < 3) continue;
        const an_rangeset *deps = an_dag_deps(d, an_uop_src(d->g, order.data[i], 2));
        for (uint32_t k = 0; k < t->nparts && !gated; k++) gated = t->parts[k].dim + 1 == t->ndims && an_rangeset_has(deps, t->parts[k].range);
    }
    an_vec_fini(an_graph_ctx(d->g), &order);
    return gated;
}

/* The load from workgroup memory that stands for the value u. */
static an_uop stage(const an_dag *d, an_uop u, tile *t, bool as_stored, uint32_t number, uint32_t id)
{
    an_graph *g = d->g;
    const an_dtype dtype = an_uop_dtype(g, u);
    const dim *last = &t->dims[t->ndims - 1];
    const bool wide = last->coef == 1 && last->n % 4 == 0 && an_dtype_nbytes(dtype) <= 4 && !has_gate_along(d, u, t);
    const int64_t lanes = wide ? 4 : 1;
    const an_uop s = an_range(g, an_index(g, t->nelem / lanes), id, AN_RANGE_STAGE);
    const an_uop v = wide ? an_range(g, an_index(g, lanes), id + 1, AN_RANGE_VECTOR) : an_index(g, 0);
    lay_out(t, as_stored);
    if (an_uop_is_none(s) || an_uop_is_none(v) || !take_digits(g, t, s, v, lanes) || !part_digits(g, t)) return AN_UOP_NONE;
    an_uop value = u;
    if (at_digits(d, t, &value)) return AN_UOP_NONE;
    an_uop to = an_index(g, 0), from = an_index(g, 0);
    for (uint32_t k = 0; k < t->ndims; k++) to = an_idx_add(g, to, an_idx_mul(g, t->dims[k].digit, an_index(g, t->dims[k].stride)));
    for (uint32_t k = 0; k < t->nparts; k++) {
        const part *p = &t->parts[k];
        from = an_idx_add(g, from, an_idx_mul(g, d->ranges.data[p->range], an_index(g, p->unit * t->dims[p->dim].stride)));
    }
    const an_uop local = an_local(g, dtype, (uint32_t)t->nlocal, number, NULL, 0);
    const an_uop fill_src[3] = {local, to, value};
    for (int k = 0; k < 3; k++)
        if (an_uop_is_none(fill_src[k])) return AN_UOP_NONE;
    const an_uop fill = an_uop_new_full(g, AN_OP_STORE, dtype, 1, fill_src, 3, 0, 0);
    const an_uop bound[3] = {fill, s, v};
    const an_uop ptr = an_uop_new_full(g, AN_OP_REDUCE, dtype, 1, bound, wide ? 3 : 2, AN_OP_BARRIER, 0);
    return an_uop_is_none(ptr) || an_uop_is_none(from) ? AN_UOP_NONE : an_load(g, ptr, from, AN_UOP_NONE);
}

/* The LOCAL ranges that the load at i does not vary with: its value is the same for all threads along them. */
static bool is_shared(const an_dag *d, size_t i)
{
    for (size_t r = 0; r < d->ranges.len; r++)
        if (kind_at(d, r) == AN_RANGE_LOCAL && !an_rangeset_has(&d->deps[i], r)) return true;
    return false;
}

/* How many values there are of what varies with these ranges. */
static double iterations(const an_dag *d, size_t i)
{
    double n = 1;
    for (size_t r = 0; r < d->ranges.len; r++)
        if (an_rangeset_has(&d->deps[i], r)) n *= (double)an_range_bound(d->g, d->ranges.data[r]);
    return n;
}

static const uint32_t NOT_PURE = UINT32_MAX;

/* Of the value at position i: NOT_PURE if it is made of more than loads and elementwise ops; else 1 + the position of the load that
 * reads the most of those that vary with k, 0 if none does. */
static uint32_t main_load(const an_dag *d, size_t i, size_t k, const uint32_t *mains)
{
    const an_uop u = d->order.data[i];
    const an_op op = an_uop_op(d->g, u);
    uint32_t best = 0;
    if (op == AN_OP_LOAD) return an_uop_op(d->g, an_uop_src(d->g, u, 0)) != AN_OP_PARAM ? NOT_PURE : an_rangeset_has(&d->deps[i], k) ? (uint32_t)i + 1 : 0;
    if (op == AN_OP_CONST || op == AN_OP_RANGE || op == AN_OP_VAR) return 0;
    if (!an_op_has(op, AN_TRAIT_ELEM)) return NOT_PURE;
    for (uint32_t s = 0; s < an_uop_nsrc(d->g, u); s++) {
        const uint32_t m = mains[an_dag_pos(d, an_uop_src(d->g, u, s))];
        if (m == NOT_PURE) return NOT_PURE;
        if (m && (!best || iterations(d, m - 1) > iterations(d, best - 1))) best = m;
    }
    return best;
}

/* Values that vary with k, are the same for several threads, and are made of loads: the largest such ones go into tiles, so
 * that what is computed of an element is computed once. marks: 1 + the position of its main load. */
static an_status mark_staged(const an_dag *d, size_t k, bool as_stored, uint32_t *marks)
{
    an_ctx *ctx = an_graph_ctx(d->g);
    const size_t n = d->order.len;
    uint32_t *mains = an_mem_alloc(ctx, n * sizeof *mains);
    bool *may = an_mem_zalloc(ctx, n * sizeof *may);
    const an_status st = mains && may ? AN_OK : AN_ERR_NOMEM;
    for (size_t i = 0; i < n && !st; i++) {
        const an_uop u = d->order.data[i];
        const an_dtype dtype = an_uop_dtype(d->g, u);
        mains[i] = main_load(d, i, k, mains);
        may[i] = mains[i] && mains[i] != NOT_PURE && an_rangeset_has(&d->deps[i], k) && is_shared(d, i) && !(as_stored && an_uop_widens_half(d->g, u)) &&
                 (an_uop_op(d->g, u) == AN_OP_LOAD || (an_dtype_kind_of(dtype) == AN_KIND_FLOAT && an_dtype_nbytes(dtype) <= 4));
    }
    for (size_t i = 0; i < n && !st; i++)
        for (uint32_t s = 0; s < an_uop_nsrc(d->g, d->order.data[i]) && !may[i]; s++) {
            const size_t at = an_dag_pos(d, an_uop_src(d->g, d->order.data[i], s));
            if (may[at]) marks[at] = mains[at];
        }
    an_mem_free(ctx, mains, n * sizeof *mains);
    an_mem_free(ctx, may, n * sizeof *may);
    return st;
}

an_status an_gpu_tile(an_graph *g, an_uop *sink, uint32_t k_id, int64_t nbytes_max, bool as_stored, const char **why)
{
    an_ctx *ctx = an_graph_ctx(g);
    an_dag d = {0};
    an_nodemap map = {0};
    an_uop_vec scratch = {0};
    int64_t nbytes = 0;
    uint32_t number = 0, id = 0;
    size_t k = 0;
    uint32_t *marks = NULL;
    bool any = false;
    *why = NULL;
    an_status st = an_dag_init(&d, g, sink, 1);
    if (st) goto done;
    while (k < d.ranges.len && an_range_id(an_uop_arg(g, d.ranges.data[k])) != k_id) k++;
    if (k == d.ranges.len || (kind_at(&d, k) != AN_RANGE_REDUCE && kind_at(&d, k) != AN_RANGE_UNROLL)) {
        *why = "there is no such reduction";
        goto done;
    }
    id = an_range_id(an_uop_arg(g, d.ranges.data[d.ranges.len - 1])) + 1;
    marks = an_mem_zalloc(ctx, d.order.len * sizeof *marks);
    st = marks ? mark_staged(&d, k, as_stored, marks) : AN_ERR_NOMEM;
    if (st) goto done;
    st = AN_ERR_NOMEM;
    for (size_t i = 0; i < d.order.len; i++) {
        const an_uop u = d.order.data[i];
        an_uop v = an_nodemap_rebuild(&map, g, u, &scratch);
        tile t;
        if (an_uop_is_none(v)) goto done;
        if (marks[i] && number < AN_LOCALS_MAX && plan_tile(&d, i, marks[i] - 1, k, &t)) {
            v = stage(&d, u, &t, as_stored, number, id);
            if (an_uop_is_none(v)) goto done;
            const int64_t nbytes_each = (int64_t)an_dtype_nbytes(an_uop_dtype(g, u));
            nbytes += t.nlocal * (nbytes_each < 4 && !as_stored ? 4 : nbytes_each);
            number++;
            id += 2;
            any = true;
        }
        if (!an_nodemap_set(&map, ctx, u, v)) goto done;
    }
    st = AN_OK;
    if (!any)
        *why = "no thread reads there what another one reads";
    else if (nbytes > nbytes_max)
        *why = "the tiles would be larger than that";
    else
        *sink = an_nodemap_get(&map, *sink);
done:
    if (st && an_ctx_status(ctx)) st = an_ctx_status(ctx);
    an_mem_free(ctx, marks, d.order.len * sizeof *marks);
    an_nodemap_fini(&map, ctx);
    an_vec_fini(ctx, &scratch);
    an_dag_fini(&d);
    return st;
}

/* --- a reduction of no round number ------------------------------------------------------------- */

/* Is the value 0 wherever the loads that vary with range r are? A product of such loads is, padded or not. */
static bool vanishes(const an_dag *d, an_uop value, size_t r)
{
    an_graph *g = d->g;
    an_uop factor[2] = {value, AN_UOP_NONE};
    if (an_uop_op(g, value) == AN_OP_MUL) factor[0] = an_uop_src(g, value, 0), factor[1] = an_uop_src(g, value, 1);
    for (int i = 0; i < 2 && !an_uop_is_none(factor[i]); i++) {
        an_uop x = factor[i];
        if (an_uop_op(g, x) == AN_OP_CAST) x = an_uop_src(g, x, 0);
        if (an_uop_op(g, x) == AN_OP_WHERE && an_uop_is_number(g, an_uop_src(g, x, 2), 0.0)) x = an_uop_src(g, x, 1);
        if (an_uop_op(g, x) != AN_OP_LOAD || !an_rangeset_has(an_dag_deps(d, x), r)) return false;
    }
    return true;
}

an_status an_gpu_fill(an_graph *g, an_uop *sink, uint32_t k_id, int64_t amount, const char **why)
{
    an_ctx *ctx = an_graph_ctx(g);
    an_dag d = {0};
    an_nodemap map = {0};
    an_uop_vec scratch = {0};
    size_t k = 0;
    *why = NULL;
    an_status st = an_dag_init(&d, g, sink, 1);
    if (st) goto done;
    while (k < d.ranges.len && an_range_id(an_uop_arg(g, d.ranges.data[k])) != k_id) k++;
    const int64_t n = k < d.ranges.len ? an_range_bound(g, d.ranges.data[k]) : -1;
    if (n < 1 || kind_at(&d, k) != AN_RANGE_REDUCE || amount < 2) {
        *why = "there is no such reduction of a constant number of elements";
        goto done;
    }
    for (size_t i = 0; i < d.order.len && !*why; i++) {
        const an_uop u = d.order.data[i];
        bool binds = false;
        for (uint32_t s = 1; an_uop_op(g, u) == AN_OP_REDUCE && s < an_uop_nsrc(g, u); s++)
            binds = binds || an_uop_eq(an_uop_src(g, u, s), d.ranges.data[k]);
        if (binds && (an_reduce_op(an_uop_arg(g, u)) != AN_OP_ADD || !vanishes(&d, an_uop_src(g, u, 0), k)))
            *why = "only a sum of loads, or of products of two, can be filled up with zeros";
    }
    if (*why) goto done;
    const an_uop full = an_range(g, an_index(g, (n + amount - 1) / amount * amount), k_id, AN_RANGE_REDUCE);
    const an_uop valid = an_binary(g, AN_OP_CMPLT, full, an_index(g, n));
    st = AN_ERR_NOMEM;
    if (an_uop_is_none(full) || an_uop_is_none(valid)) goto done;
    const an_range_sub sub = {d.ranges.data[k], full, {full, AN_UOP_NONE}, 1};
    for (size_t i = 0; i < d.order.len; i++) {
        const an_uop u = d.order.data[i];
        an_uop v = an_nodemap_rebuild(&map, g, u, &scratch);
        if (!an_uop_is_none(v) && an_uop_op(g, u) == AN_OP_LOAD && an_rangeset_has(&d.deps[i], k)) {
            const bool gated = an_uop_nsrc(g, v) > 2;
            const an_uop gate = gated ? an_binary(g, AN_OP_AND, an_uop_src(g, v, 2), valid) : valid;
            v = an_uop_is_none(gate) ? gate : an_load(g, an_uop_src(g, v, 0), an_uop_src(g, v, 1), gate);
        }
        if (an_uop_is_none(v) || !an_nodemap_set(&map, ctx, u, v)) goto done;
    }
    an_uop now = an_nodemap_get(&map, *sink);
    st = an_replace_ranges(g, &now, 1, &sub, 1);
    if (!st) *sink = now;
done:
    if (st && an_ctx_status(ctx)) st = an_ctx_status(ctx);
    an_nodemap_fini(&map, ctx);
    an_vec_fini(ctx, &scratch);
    an_dag_fini(&d);
    return st;
}

/* --- two ranges as one --------------------------------------------------------------------------- */

an_status an_gpu_join(an_graph *g, an_uop *sink, an_uop outer, an_uop inner)
{
    const int64_t n = an_range_bound(g, inner);
    const an_uop one = an_range(g, an_index(g, an_range_bound(g, outer) * n), an_range_id(an_uop_arg(g, outer)), an_range_kind_of(an_uop_arg(g, outer)));
    const an_uop high = an_binary(g, AN_OP_FLOORDIV, one, an_index(g, n)), low = an_binary(g, AN_OP_FLOORMOD, one, an_index(g, n));
    if (an_uop_is_none(high) || an_uop_is_none(low)) return AN_ERR_NOMEM;
    const an_range_sub subs[2] = {{outer, high, {one, AN_UOP_NONE}, 1}, {inner, low, {AN_UOP_NONE, AN_UOP_NONE}, 0}};
    const an_ruleset *set = &an_rules_symbolic; /* what walked along both walks along one */
    const an_status st = an_replace_ranges(g, sink, 1, subs, 2);
    return st ? st : an_rewrite(g, &set, 1, sink, 1, NULL, NULL, "simplify");
}

/* --- in place ------------------------------------------------------------------------------------ */

/* Where an access lies for r and what is in same at 0, lanes counted; false: nobody knows. */
static bool extent(const an_dag *d, an_uop index, size_t r, const an_rangeset *same, int64_t *lo, int64_t *hi)
{
    an_graph *g = d->g;
    const int64_t lanes = an_uop_op(g, index) == AN_OP_RAMP ? an_uop_lanes(g, index) : 1;
    if (an_uop_op(g, index) == AN_OP_RAMP) index = an_uop_src(g, index, 0);
    const an_uop zero = an_index(g, 0);
    for (size_t k = 0; k < d->ranges.len && !an_uop_is_none(index); k++)
        if (k == r || an_rangeset_has(same, k)) index = an_substitute(g, index, &d->ranges.data[k], &zero, 1);
    if (an_uop_is_none(index)) return false;
    an_bounds(g, index, lo, hi);
    if (*hi > INT64_MAX - lanes) return false;
    *hi += lanes - 1;
    return true;
}

/* How much an access moves with r. */
static int64_t step_of(const an_dag *d, an_uop index, const int64_t *coef)
{
    if (an_uop_op(d->g, index) == AN_OP_RAMP) index = an_uop_src(d->g, index, 0);
    return coef[an_dag_pos(d, index)];
}

bool an_gpu_is_apart(const an_dag *d, an_uop sink, size_t r, const an_rangeset *same)
{
    an_graph *g = d->g;
    const size_t nbytes = d->order.len * sizeof(int64_t);
    int64_t *coef = NULL;
    bool apart = true;
    for (uint32_t s = 0; s < an_uop_nsrc(g, sink) && apart; s++) {
        const an_uop store = an_uop_src(g, sink, s), to = an_uop_src(g, store, 1);
        for (size_t i = 0; i < d->order.len && apart; i++) {
            const an_uop load = d->order.data[i];
            if (an_uop_op(g, load) != AN_OP_LOAD || !an_uop_eq(an_uop_src(g, load, 0), an_uop_src(g, store, 0))) continue;
            const an_uop from = an_uop_src(g, load, 1);
            int64_t lo[2], hi[2];
            if (an_uop_eq(from, to)) continue;
            if (!coef) {
                coef = an_mem_alloc(an_graph_ctx(g), nbytes);
                if (!coef) return false;
                an_dag_coefs(d, r, coef);
            }
            const int64_t step = step_of(d, to, coef);
            apart = step != AN_COEF_NONE && step > 0 && step_of(d, from, coef) == step && extent(d, to, r, same, &lo[0], &hi[0]) &&
                    extent(d, from, r, same, &lo[1], &hi[1]) && hi[0] - lo[1] < step && hi[1] - lo[0] < step && hi[0] - lo[0] < step;
        }
    }
    an_mem_free(an_graph_ctx(g), coef, coef ? nbytes : 0);
    return apart;
}

/* --- what is left -------------------------------------------------------------------------------- */

/* The LOOP ranges of a store, outer first. */
static uint32_t loops_of(const an_dag *d, an_uop store, size_t *out, uint32_t max)
{
    uint32_t n = 0;
    for (size_t r = 0; r < d->ranges.len; r++)
        if (an_rangeset_has(an_dag_deps(d, store), r) && kind_at(d, r) == AN_RANGE_LOOP && n < max) out[n++] = r;
    return n;
}

an_status an_pass_global(an_graph *g, an_uop *sink)
{
    enum { LOOPS_MAX = 12 };
    an_dag d = {0};
    an_rangeset global = {0};
    an_range_sub subs[AN_RANGES_MAX];
    size_t n = 0;
    an_status st = an_dag_init(&d, g, sink, 1);
    if (st) goto done;
    bool marked = false, reduces = false;
    for (size_t i = 0; i < d.order.len; i++) reduces = reduces || an_uop_op(g, d.order.data[i]) == AN_OP_REDUCE;
    for (size_t r = 0; r < d.ranges.len; r++) marked = marked || kind_at(&d, r) == AN_RANGE_GLOBAL;
    const uint32_t nstores = an_uop_nsrc(g, *sink);
    for (uint32_t a = 0; a < nstores && !marked; a++) {
        size_t mine[LOOPS_MAX], other[LOOPS_MAX];
        uint32_t len = loops_of(&d, an_uop_src(g, *sink, a), mine, LOOPS_MAX);
        if (len == 0 && reduces) { /* every thread would run a reduction that one of them stores */
            global = (an_rangeset){0};
            break;
        }
        for (uint32_t b = 0; b < nstores; b++) { /* what those that share the outermost loop share */
            const uint32_t m = loops_of(&d, an_uop_src(g, *sink, b), other, LOOPS_MAX);
            uint32_t same = 0;
            while (same < m && same < len && mine[same] == other[same]) same++;
            if (same && same < len) len = same;
        }
        for (uint32_t k = 0; k < len; k++)
            if (an_gpu_is_apart(&d, *sink, mine[k], &global)) an_rangeset_add(&global, mine[k]);
    }
    for (size_t r = 0; r < d.ranges.len && !st; r++) {
        if (!an_rangeset_has(&global, r)) continue;
        const an_uop from = d.ranges.data[r];
        const an_uop to = an_range(g, an_uop_src(g, from, 0), an_range_id(an_uop_arg(g, from)), AN_RANGE_GLOBAL);
        if (an_uop_is_none(to)) st = AN_ERR_NOMEM;
        subs[n++] = (an_range_sub){from, to, {to, AN_UOP_NONE}, 1};
    }
    if (!st && n) st = an_replace_ranges(g, sink, 1, subs, n);
done:
    an_dag_fini(&d);
    return st;
}
