/* pack.c - PACK: what a reduction reads again and again, copied to scratch in the order in which it is read.
 *
 *   for jo                                    for jo
 *     for i                                     for k, ji: L[k, ji] = B[k, jo * 16 + ji]
 *       sum over k of A[i, k] * B[k, j]  --PACK i-->   for i
 *                                                 sum over k of A[i, k] * L[k, ji]
 *
 * What is loaded inside a reduction and does not vary with range i (and what is computed of nothing else: a conversion, a mask) is
 * copied for all values of the ranges inside i that it does vary with. The ranges outside i are those of the LOCAL: each of their iterations has
 * scratch of its own. */
#include "codegen/opt.h"
#include "codegen/pass.h"

enum { RANGES_MAX = AN_OPT_LOOPS_MAX };

typedef struct copy {
    size_t ranges[RANGES_MAX]; /* what the load varies with inside i, in the order of scratch; indices into dag.ranges */
    uint32_t n;
    int64_t nelem;
} copy;

static an_range_kind kind_at(const an_dag *d, size_t r)
{
    return an_range_kind_of(an_uop_arg(d->g, d->ranges.data[r]));
}

static bool is_bound(const an_dag *d, size_t r)
{
    for (size_t i = 0; i < d->order.len; i++)
        for (uint32_t s = 1; an_uop_op(d->g, d->order.data[i]) == AN_OP_REDUCE && s < an_uop_nsrc(d->g, d->order.data[i]); s++)
            if (an_uop_eq(an_uop_src(d->g, d->order.data[i], s), d->ranges.data[r])) return true;
    return false;
}

static bool is_written(const an_dag *d, an_uop ptr)
{
    for (size_t i = 0; i < d->order.len; i++)
        if (an_uop_op(d->g, d->order.data[i]) == AN_OP_STORE && an_uop_eq(an_uop_src(d->g, d->order.data[i], 0), ptr)) return true;
    return false;
}

/* Place in the order of scratch: tiles one after another, in each the steps of the reduction, in each its copies, then lanes. */
static int rank_of(const an_dag *d, size_t r)
{
    if (is_bound(d, r)) return 1;
    switch (kind_at(d, r)) {
    case AN_RANGE_UPCAST: return 2;
    case AN_RANGE_VECTOR: return 3;
    default: return 0;
    }
}

/* Can what is at position i be copied before the loop over r? */
static bool plan(const an_dag *d, size_t i, size_t r, copy *c)
{
    const an_rangeset *deps = &d->deps[i];
    *c = (copy){.nelem = 1};
    for (size_t k = 0; k < d->ranges.len; k++) {
        if (!an_rangeset_has(deps, k)) continue;
        if (k < r) {
            if (is_bound(d, k)) return false;
            continue;
        }
        const int64_t n = an_range_bound(d->g, d->ranges.data[k]);
        if (n < 1 || c->n == RANGES_MAX || __builtin_mul_overflow(c->nelem, n, &c->nelem)) return false;
        uint32_t at = c->n++;
        for (; at > 0 && rank_of(d, c->ranges[at - 1]) > rank_of(d, k); at--) c->ranges[at] = c->ranges[at - 1];
        c->ranges[at] = k;
    }
    return c->nelem <= UINT32_MAX;
}

/* Marks what to copy: the largest expressions over loads, elementwise, that do not vary with r and are used by what a
 * reduction binds and does. flags[i] is for position i. */
enum { PURE = 1, HAS_LOAD = 2, WANTED = 4 };

static void mark(const an_dag *d, size_t r, uint8_t *flags)
{
    const an_graph *g = d->g;
    an_rangeset bound = {0};
    for (size_t k = 0; k < d->ranges.len; k++)
        if (is_bound(d, k)) an_rangeset_add(&bound, k);
    for (size_t i = 0; i < d->order.len; i++) {
        const an_uop u = d->order.data[i];
        const an_op op = an_uop_op(g, u);
        const bool varies = an_rangeset_has(&d->deps[i], r), load = op == AN_OP_LOAD;
        uint8_t below = PURE;
        for (uint32_t s = 0; s < an_uop_nsrc(g, u); s++) {
            const uint8_t f = flags[an_dag_pos(d, an_uop_src(g, u, s))];
            below = (uint8_t)((below & f & PURE) | ((below | f) & HAS_LOAD));
        }
        const bool leaf = op == AN_OP_CONST || op == AN_OP_VAR || op == AN_OP_RANGE || op == AN_OP_PARAM;
        const bool readable = !load || (an_uop_op(g, an_uop_src(g, u, 0)) == AN_OP_PARAM && !is_written(d, an_uop_src(g, u, 0)));
        flags[i] = 0;
        if (!varies && (leaf || an_op_has(op, AN_TRAIT_ELEM) || load) && readable) flags[i] = below;
        if (load && (flags[i] & PURE) && an_rangeset_meets(&d->deps[i], &bound)) flags[i] |= HAS_LOAD;
        if (!varies || !an_rangeset_meets(&d->deps[i], &bound)) continue;
        for (uint32_t s = 0; s < an_uop_nsrc(g, u); s++) {
            const an_uop x = an_uop_src(g, u, s);
            uint8_t *f = &flags[an_dag_pos(d, x)];
            const an_dtype dtype = an_uop_dtype(g, x);
            if ((*f & PURE) && (*f & HAS_LOAD) && dtype != AN_INDEX && dtype != AN_BOOL) *f |= WANTED;
        }
    }
}

/* Which nodes below each store are met: by position. */
static bool reaches(const an_dag *d, an_uop store, size_t target, bool *seen)
{
    memset(seen, 0, d->order.len * sizeof *seen);
    seen[target] = true;
    for (size_t i = target + 1; i < d->order.len; i++)
        for (uint32_t s = 0; s < an_uop_nsrc(d->g, d->order.data[i]) && !seen[i]; s++)
            seen[i] = seen[an_dag_pos(d, an_uop_src(d->g, d->order.data[i], s))];
    return seen[an_dag_pos(d, store)];
}

bool an_opt_outer_loops(const an_dag *d, an_uop sink, size_t i, size_t r, bool *seen, an_uop *out, uint32_t *n)
{
    an_rangeset want = {0};
    bool any = false;
    for (uint32_t s = 0; s < an_uop_nsrc(d->g, sink); s++) {
        const an_uop store = an_uop_src(d->g, sink, s);
        an_rangeset outer = {0};
        if (!reaches(d, store, i, seen)) continue;
        for (size_t k = 0; k < r; k++)
            if (an_rangeset_has(an_dag_deps(d, store), k)) an_rangeset_add(&outer, k);
        if (any && memcmp(&outer, &want, sizeof want) != 0) return false;
        want = outer;
        any = true;
    }
    *n = 0;
    for (size_t k = 0; k < r; k++) {
        if (!an_rangeset_has(&want, k)) continue;
        if ((kind_at(d, k) != AN_RANGE_LOOP && kind_at(d, k) != AN_RANGE_THREAD) || *n == RANGES_MAX) return false;
        out[(*n)++] = d->ranges.data[k];
    }
    return any;
}

/* The store that fills the scratch, and the load from it. */
static an_status make_copy(const an_dag *d, an_uop what, const copy *c, an_uop local, uint32_t first_id, an_uop *fill, an_uop *read)
{
    an_graph *g = d->g;
    an_range_sub subs[RANGES_MAX];
    an_uop from = an_index(g, 0), value = what;
    uint32_t steps = 0, nsteps = 0, others = 0;
    for (uint32_t k = 0; k < c->n; k++) nsteps += rank_of(d, c->ranges[k]) == 1;
    for (uint32_t k = 0; k < c->n; k++) {
        const an_uop range = d->ranges.data[c->ranges[k]], bound = an_uop_src(g, range, 0);
        /* The copy walks steps outermost: so rows of the operand are read whole. */
        const uint32_t place = rank_of(d, c->ranges[k]) == 1 ? steps++ : nsteps + others++;
        const an_uop own = an_range(g, bound, first_id + place * AN_RANGE_ID_STEP, AN_RANGE_LOOP);
        from = an_idx_add(g, an_idx_mul(g, from, bound), range);
        subs[k] = (an_range_sub){range, own, {own}, 1};
        if (an_uop_is_none(own) || an_uop_is_none(from)) return AN_ERR_NOMEM;
    }
    an_uop to = from;
    an_status st = an_replace_ranges(g, &to, 1, subs, c->n);
    if (!st) st = an_replace_ranges(g, &value, 1, subs, c->n);
    if (st) return st;
    *fill = an_store(g, local, to, value, AN_UOP_NONE);
    *read = an_load(g, local, from, AN_UOP_NONE);
    return an_uop_is_none(*fill) || an_uop_is_none(*read) ? AN_ERR_NOMEM : AN_OK;
}

void an_opt_scratch_now(const an_dag *d, int64_t *nbytes, uint32_t *number)
{
    *nbytes = 0;
    *number = 0;
    for (size_t i = 0; i < d->order.len; i++) {
        const an_uop u = d->order.data[i];
        if (an_uop_op(d->g, u) != AN_OP_LOCAL) continue;
        *nbytes += (int64_t)(uint32_t)an_uop_arg(d->g, u) * (int64_t)an_dtype_nbytes(an_uop_dtype(d->g, u));
        if (an_uop_arg(d->g, u) >> 32 >= *number) *number = (uint32_t)(an_uop_arg(d->g, u) >> 32) + 1;
    }
}

an_status an_opt_pack(an_dag *d, an_uop *sink, size_t r, int64_t nbytes_max, const char **why)
{
    an_graph *g = d->g;
    an_ctx *ctx = an_graph_ctx(g);
    an_nodemap map = {0};
    an_uop_vec scratch = {0}, stores = {0};
    int64_t nbytes = 0;
    uint32_t number = 0;
    uint32_t id = an_range_id(an_uop_arg(g, d->ranges.data[d->ranges.len - 1])) + AN_RANGE_ID_STEP;
    an_status st = AN_ERR_NOMEM;
    bool *seen = an_mem_alloc(ctx, d->order.len * sizeof *seen);
    uint8_t *flags = an_mem_zalloc(ctx, d->order.len);
    bool copied = false, too_large = false;
    if (!seen || !flags) goto done;
    mark(d, r, flags);
    an_opt_scratch_now(d, &nbytes, &number);
    for (size_t i = 0; i < d->order.len; i++) {
        const an_uop u = d->order.data[i];
        an_uop v = an_nodemap_rebuild(&map, g, u, &scratch);
        an_uop outer[RANGES_MAX];
        uint32_t nouter = 0;
        copy c;
        if (an_uop_is_none(v)) goto done;
        if ((flags[i] & WANTED) && plan(d, i, r, &c) && an_opt_outer_loops(d, *sink, i, r, seen, outer, &nouter)) {
            const an_dtype dtype = an_uop_dtype(g, u);
            const int64_t room = (nbytes_max - nbytes) / (int64_t)an_dtype_nbytes(dtype);
            if (c.nelem > room || number == AN_LOCALS_MAX) {
                too_large = true;
                continue;
            }
            const an_uop local = an_local(g, dtype, (uint32_t)c.nelem, number++, outer, nouter);
            an_uop fill = AN_UOP_NONE;
            if (an_uop_is_none(local)) goto done;
            st = make_copy(d, u, &c, local, id, &fill, &v);
            if (st) goto done;
            st = AN_ERR_NOMEM;
            id += c.n * AN_RANGE_ID_STEP;
            nbytes += c.nelem * (int64_t)an_dtype_nbytes(dtype);
            if (!an_vec_push(ctx, &stores, fill)) goto done;
            copied = true;
        }
        if (an_uop_op(g, u) == AN_OP_SINK) {
            for (uint32_t s = 0; s < an_uop_nsrc(g, v); s++)
                if (!an_vec_push(ctx, &stores, an_uop_src(g, v, s))) goto done;
            v = an_sink(g, stores.data, (uint32_t)stores.len);
        }
        if (an_uop_is_none(v) || !an_nodemap_set(&map, ctx, u, v)) goto done;
    }
    *why = copied      ? NULL
           : too_large ? "the copies would be larger than that"
                       : "no reduction reads anything again in each of its iterations";
    if (copied) *sink = an_nodemap_get(&map, *sink);
    st = AN_OK;
done:
    an_nodemap_fini(&map, ctx);
    an_vec_fini(ctx, &scratch);
    an_vec_fini(ctx, &stores);
    an_mem_free(ctx, seen, d->order.len * sizeof *seen);
    an_mem_free(ctx, flags, d->order.len);
    return st;
}
