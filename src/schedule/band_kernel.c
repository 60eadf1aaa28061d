/* band_kernel.c - a kernel over a band of rows: one of its ranges, cut to a part of its length.
 *
 *   rows q of 0..n    become    base + r, r of 0..size
 *
 * Buffers that hold all rows are read and written at base + r; of a buffer of which one band is held at a time only that is there, so
 * there it is row r, and blocks of n rows are blocks of size rows. A sum over the rows is begun by the first band, and
 * later ones add to what is there, in their order. */
#include "schedule/sched.h"

static an_uop with(an_sched *s, an_uop u, an_uop range, an_uop value)
{
    return an_substitute(s->g, u, &range, &value, 1);
}

/* index = block * n * step + row * step + rest, rest below step: gives the block and the rest. */
static bool parts_of(an_sched *s, an_uop index, an_uop range, int64_t n, int64_t step, an_uop *block, an_uop *rest)
{
    an_graph *g = s->g;
    const an_uop zero = with(s, index, range, an_index(g, 0)), by = an_index(g, n * step);
    if (an_uop_is_none(zero)) return false;
    *block = an_simplify(g, an_binary(g, AN_OP_FLOORDIV, zero, by));
    *rest = an_simplify(g, an_binary(g, AN_OP_FLOORMOD, zero, by));
    return !an_uop_is_none(*block) && !an_uop_is_none(*rest);
}

bool an_index_has_rows(an_sched *s, an_uop index, an_uop range, int64_t n, int64_t step)
{
    an_uop block = AN_UOP_NONE, rest = AN_UOP_NONE;
    int64_t by = 0;
    if (step < 1 || n > INT64_MAX / step) return false;
    if (!an_index_step(s->g, index, range, &by) || by != step || !parts_of(s, index, range, n, step, &block, &rest)) return false;
    const an_interval r = an_bounds_get(&s->bounds, rest), b = an_bounds_get(&s->bounds, block);
    return r.lo >= 0 && r.hi < step && b.lo >= 0;
}

/* The same place in the buffer that holds a band of size rows, of which it is row r. */
static an_uop index_in_band(an_sched *s, an_uop index, const an_band *band, int64_t step, an_uop row)
{
    an_graph *g = s->g;
    an_uop block = AN_UOP_NONE, rest = AN_UOP_NONE;
    if (!parts_of(s, index, band->range, band->n, step, &block, &rest)) return AN_UOP_NONE;
    const an_uop start = an_idx_mul(g, block, an_index(g, band->size * step));
    return an_idx_add(g, an_idx_add(g, start, an_idx_mul(g, row, an_index(g, step))), rest);
}

static const an_rows *rows_of(const an_band *band, an_uop buffer)
{
    for (size_t i = 0; i < band->nheld; i++)
        if (an_uop_eq(band->held[i].whole, buffer)) return &band->held[i];
    return NULL;
}

static bool binds(const an_graph *g, an_uop reduce, an_uop range)
{
    for (uint32_t i = 1; i < an_uop_nsrc(g, reduce); i++)
        if (an_uop_eq(an_uop_src(g, reduce, i), range)) return true;
    return false;
}

an_uop an_store_sum(an_sched *s, an_uop store, an_uop range)
{
    an_graph *g = s->g;
    enum { VARIES = 1, HAS_SUM = 2 }; /* with range, freely; through the sum */
    an_uop_vec order = {0};
    an_idmap flags = {0};
    an_uop found = AN_UOP_NONE;
    bool ok = an_toposort(g, &store, 1, &order) == AN_OK;
    for (size_t i = 0; ok && i < order.len; i++) {
        const an_uop u = order.data[i];
        const an_op op = an_uop_op(g, u);
        uint32_t mine = an_uop_eq(u, range) ? VARIES : 0;
        for (uint32_t k = 0; k < an_uop_nsrc(g, u); k++) mine |= an_idmap_get(&flags, an_uop_src(g, u, k).id);
        if (op == AN_OP_REDUCE && binds(g, u, range)) {
            ok = an_uop_is_none(found) && an_reduce_op(an_uop_arg(g, u)) == AN_OP_ADD && !(mine & HAS_SUM);
            found = u;
            mine = HAS_SUM;
        } else if (op == AN_OP_REDUCE) {
            ok = !(mine & HAS_SUM); /* a sum inside another */
        }
        ok = ok && an_idmap_set(&flags, s->ctx, u.id, mine);
    }
    if (ok && an_idmap_get(&flags, store.id) != HAS_SUM) found = AN_UOP_NONE;
    an_vec_fini(s->ctx, &order);
    an_idmap_fini(&flags, s->ctx);
    return ok ? found : AN_UOP_NONE;
}

bool an_loops_below(an_sched *s, const an_kern *k, an_uop u, an_uop_vec *out)
{
    an_uop_vec all = {0};
    bool ok = an_ranges_below(s, u, &all);
    for (size_t i = 0; ok && i < k->loops.len; i++)
        if (an_vec_has(&all, k->loops.data[i])) ok = an_vec_push(s->ctx, out, k->loops.data[i]);
    an_vec_fini(s->ctx, &all);
    return ok;
}

/* Row-major position among those loops. */
static an_uop flat_of(an_sched *s, const an_uop_vec *loops)
{
    an_uop flat = an_index(s->g, 0);
    for (size_t i = 0; i < loops->len; i++)
        flat = an_idx_add(s->g, an_idx_mul(s->g, flat, an_uop_src(s->g, loops->data[i], 0)), loops->data[i]);
    return flat;
}

static an_uop gate_of(const an_graph *g, an_uop u)
{
    const uint32_t at = an_uop_op(g, u) == AN_OP_STORE ? 3 : 2;
    return an_uop_nsrc(g, u) > at ? an_uop_src(g, u, at) : AN_UOP_NONE;
}

typedef struct change { /* what stands for what: the range, loads from held buffers */
    an_uop_vec from, to;
} change;

static void change_fini(an_sched *s, change *c)
{
    an_vec_fini(s->ctx, &c->from);
    an_vec_fini(s->ctx, &c->to);
}

static bool change_add(an_sched *s, change *c, an_uop from, an_uop to)
{
    return !an_uop_is_none(to) && an_vec_push(s->ctx, &c->from, from) && an_vec_push(s->ctx, &c->to, to);
}

static an_uop changed(an_sched *s, const change *c, an_uop u)
{
    return an_uop_is_none(u) ? u : an_substitute(s->g, u, c->from.data, c->to.data, c->from.len);
}

/* The range, and loads from what is held; row is the row in the band. */
static bool find_changes(an_sched *s, const an_uop_vec *stores, const an_band *band, an_uop row, change *c)
{
    an_graph *g = s->g;
    an_uop_vec order = {0};
    const an_uop at = an_idx_add(g, band->base, row);
    bool ok = change_add(s, c, band->range, at) && an_toposort(g, stores->data, (uint32_t)stores->len, &order) == AN_OK;
    for (size_t i = 0; ok && i < order.len; i++) {
        const an_uop u = order.data[i], gate = an_uop_op(g, u) == AN_OP_LOAD ? gate_of(g, u) : AN_UOP_NONE;
        const an_rows *rows = an_uop_op(g, u) == AN_OP_LOAD ? rows_of(band, an_ptr_base(g, an_uop_src(g, u, 0))) : NULL;
        if (!rows) continue;
        const an_uop index = index_in_band(s, an_uop_src(g, u, 1), band, rows->step, row);
        const an_uop moved = an_uop_is_none(gate) ? gate : with(s, gate, band->range, at);
        ok = !an_uop_is_none(index) && an_uop_is_none(gate) == an_uop_is_none(moved) && change_add(s, c, u, an_load(g, rows->band, index, moved));
    }
    an_vec_fini(s->ctx, &order);
    return ok;
}

/* Narrow floats are summed in f32, as codegen does within a kernel. */
static an_dtype sum_dtype(an_dtype t)
{
    return t == AN_F16 || t == AN_BF16 ? AN_F32 : t;
}

/* The sum over the band's rows alone. */
static an_uop sum_of_band(an_sched *s, an_uop sum, const an_band *band, an_uop row, const change *c)
{
    an_graph *g = s->g;
    an_uop args[AN_RANK_MAX + 1];
    uint32_t n = 1;
    if (an_uop_nsrc(g, sum) > AN_RANK_MAX) return AN_UOP_NONE;
    const an_dtype t = sum_dtype(an_uop_dtype(g, sum));
    args[0] = changed(s, c, an_uop_src(g, sum, 0));
    if (an_uop_is_none(args[0])) return AN_UOP_NONE;
    args[0] = an_cast_to(g, t, args[0]);
    for (uint32_t i = 1; i < an_uop_nsrc(g, sum); i++) {
        const an_uop r = an_uop_eq(an_uop_src(g, sum, i), band->range) ? row : an_uop_src(g, sum, i);
        if (an_uop_op(g, r) == AN_OP_RANGE) args[n++] = r;
    }
    return n == 1 ? args[0] : an_uop_new(g, AN_OP_REDUCE, t, args, n, an_uop_arg(g, sum));
}

/* A store of kernel k over the band. sums: where its sum goes, none for where the store went. */
static an_uop store_in_band(an_sched *s, const an_kern *k, size_t i, const an_band *band, an_uop row, const change *c)
{
    an_graph *g = s->g;
    const an_uop st = k->stores.data[i], ptr = an_uop_src(g, st, 0);
    if (!band->sums) {
        const an_rows *rows = rows_of(band, an_ptr_base(g, ptr));
        const an_uop index = rows ? index_in_band(s, an_uop_src(g, st, 1), band, rows->step, row) : changed(s, c, an_uop_src(g, st, 1));
        const an_uop gate = gate_of(g, st), value = changed(s, c, an_uop_src(g, st, 2)), moved = changed(s, c, gate);
        if (an_uop_is_none(index) || an_uop_is_none(value) || an_uop_is_none(gate) != an_uop_is_none(moved)) return AN_UOP_NONE;
        return an_store(g, rows ? rows->band : ptr, index, value, moved);
    }
    const an_uop sum = an_store_sum(s, st, band->range), into = band->sums[i];
    an_uop value = sum_of_band(s, sum, band, row, c), index = an_uop_src(g, st, 1);
    if (!an_uop_is_none(into)) {
        an_uop_vec loops = {0};
        index = an_loops_below(s, k, sum, &loops) ? flat_of(s, &loops) : AN_UOP_NONE;
        an_vec_fini(s->ctx, &loops);
    }
    const an_uop to = an_uop_is_none(into) ? ptr : into;
    if (an_uop_is_none(value) || an_uop_is_none(index)) return AN_UOP_NONE;
    if (!band->is_first) value = an_binary(g, AN_OP_ADD, an_load(g, to, index, AN_UOP_NONE), value);
    return an_store(g, to, index, value, AN_UOP_NONE);
}

/* Loops that no store of k depends on go, and what it reads and writes is noted. */
static an_status finish(an_sched *s, an_kern *k)
{
    an_uop_vec loops = {0};
    bool ok = true;
    for (size_t i = 0; ok && i < k->stores.len; i++) ok = an_loops_below(s, k, k->stores.data[i], &loops);
    size_t kept = 0;
    for (size_t i = 0; ok && i < k->loops.len; i++)
        if (an_vec_has(&loops, k->loops.data[i])) k->loops.data[kept++] = k->loops.data[i];
    k->loops.len = ok ? kept : k->loops.len;
    an_vec_fini(s->ctx, &loops);
    return ok && an_kern_refresh(s, k) ? AN_OK : AN_ERR_NOMEM;
}

/* A kernel beside k, of the same node, without loops and stores yet. */
static an_status kernel_beside(an_sched *s, uint32_t k, const char *reason, uint32_t *out)
{
    const an_kern fresh = {.node = s->kernels.data[k].node, .tuple = s->kernels.data[k].tuple, .reason = reason};
    *out = (uint32_t)s->kernels.len;
    return an_vec_push(s->ctx, &s->kernels, fresh) ? AN_OK : AN_ERR_NOMEM;
}

an_status an_band_kernel(an_sched *s, uint32_t k, const an_band *band, uint32_t *out)
{
    an_graph *g = s->g;
    change c = {{0}, {0}};
    const an_uop owner = band->sums ? s->range_owner.data[an_range_id(an_uop_arg(g, band->range))] : AN_UOP_NONE;
    an_status st = kernel_beside(s, k, band->reason, out);
    if (st) return st;
    const an_uop row = an_sched_range(s, an_index(g, band->size), owner, *out);
    const an_kern *old = &s->kernels.data[k];
    an_kern *fresh = &s->kernels.data[*out];
    st = AN_ERR_NOMEM;
    if (an_uop_is_none(row) || !find_changes(s, &old->stores, band, row, &c)) goto done;
    for (size_t i = 0; i < old->loops.len; i++) {
        const an_uop loop = an_uop_eq(old->loops.data[i], band->range) ? row : old->loops.data[i];
        if (an_uop_op(g, loop) == AN_OP_RANGE && !an_vec_push(s->ctx, &fresh->loops, loop)) goto done;
    }
    for (size_t i = 0; i < old->stores.len; i++) {
        if (band->only_held && !rows_of(band, an_ptr_base(g, an_uop_src(g, old->stores.data[i], 0)))) continue;
        const an_uop made = store_in_band(s, old, i, band, row, &c);
        if (an_uop_is_none(made) || !an_vec_push(s->ctx, &fresh->stores, made)) goto done;
    }
    st = finish(s, fresh);
done:
    change_fini(s, &c);
    return st;
}

an_status an_band_end(an_sched *s, uint32_t k, an_uop range, const an_uop *sums, const char *reason, uint32_t *out)
{
    an_graph *g = s->g;
    an_status st = kernel_beside(s, k, reason, out);
    if (st) return st;
    const an_kern *old = &s->kernels.data[k];
    an_kern *fresh = &s->kernels.data[*out];
    for (size_t i = 0; i < old->loops.len; i++)
        if (!an_vec_push(s->ctx, &fresh->loops, old->loops.data[i])) return AN_ERR_NOMEM;
    for (size_t i = 0; i < old->stores.len; i++) {
        const an_uop store = old->stores.data[i];
        an_uop_vec loops = {0};
        if (an_uop_is_none(sums[i])) continue;
        const an_uop sum = an_store_sum(s, store, range);
        const an_uop index = an_loops_below(s, old, sum, &loops) ? flat_of(s, &loops) : AN_UOP_NONE;
        an_vec_fini(s->ctx, &loops);
        if (an_uop_is_none(index)) return AN_ERR_NOMEM;
        const an_uop made = with(s, store, sum, an_cast_to(g, an_uop_dtype(g, sum), an_load(g, sums[i], index, AN_UOP_NONE)));
        if (an_uop_is_none(made) || !an_vec_push(s->ctx, &fresh->stores, made)) return AN_ERR_NOMEM;
    }
    return finish(s, fresh);
}
