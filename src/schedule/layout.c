/* layout.c - the order in which temporaries lie in memory, on devices that load vectors of four: what windows slide along goes outside.
 *
 *   for n, f, y, x: sum over c, u, v of X[n, c, y + u, x + v] * W[f, c, u, v]
 *
 * reads X and W element by element, X behind gates that differ from one to the next, where memory runs along x. With X as (y, x, n, c)
 * and W as (u, v, f, c) it is a sum over u and v of products of plain matrices, (n, c) by (f, c), whose rows are whole vectors, behind
 * gates that do not vary with them. Its gradients likewise: sums over f, and over n.
 *
 * An axis is outside where a window slides along it, and where a kernel walks it by a range that walks such an axis of another
 * buffer: so all that is computed of a picture lies as it does. Only what the schedule stores for itself has another order than its axes
 * say, sizes are constants, and the inner axes end in whole vectors. Loops follow what their kernel stores. */
#include "schedule/sched.h"

enum {
    LANES = 4,
    WIDE = 2,     /* bytes of what is read by vectors when products are for matrix units */
    AXES_MAX = 8, /* whose order is kept in a word */
    AXIS_BITS = 4
};

typedef struct layouts {
    an_sched *s;
    AN_VEC(uint32_t) nodes; /* that may have another order */
    AN_VEC(uint32_t) outside; /* their axes outside, bits */
} layouts;

/* Elements of an axis that an affine index over ranges from 0 touches, and how often it touches one; false where it is no such index. */
static bool walk_of(an_sched *s, an_uop index, an_uop_vec *below, double *span, double *visits)
{
    *span = *visits = 1;
    below->len = 0;
    if (!an_ranges_below(s, index, below)) return false;
    for (size_t i = 0; i < below->len; i++) {
        int64_t n = 0, step = 0;
        if (!an_uop_int(s->g, an_uop_src(s->g, below->data[i], 0), &n) || !an_index_step(s->g, index, below->data[i], &step)) return false;
        *span += (double)(n - 1) * (double)(step < 0 ? -step : step);
        *visits *= (double)n;
    }
    return true;
}

static bool may_be_laid_out(const an_sched *s, an_uop n)
{
    const an_shape shape = an_uop_shape(s->g, n);
    int64_t size = 0;
    if (!s->info[n.id].kernel || s->kernels.data[s->info[n.id].kernel - 1].dead || an_uop_op(s->g, n) == AN_OP_ASSIGN) return false;
    if (shape.rank < 2 || shape.rank > AXES_MAX) return false;
    for (uint32_t i = 0; i < shape.rank; i++)
        if (!an_uop_int(s->g, shape.dims[i], &size)) return false;
    return !an_vec_has(&s->outputs, (an_uop){an_idmap_get(&s->buffer_of, n.id)});
}

/* The axes along which windows slide that overlap, in sums. */
static uint32_t windows_of(an_sched *s, an_uop n, an_uop_vec *below)
{
    const an_info *info = &s->info[n.id];
    uint32_t axes = 0;
    if (an_dtype_nbytes(an_uop_dtype(s->g, n)) != WIDE) return 0;
    for (size_t c = 0; c < info->contexts.len; c++) {
        const an_uop tuple = info->contexts.data[c].tuple;
        if (!an_sched_in_reduce(s, tuple)) continue;
        for (uint32_t a = 0; a + 1 < an_uop_nsrc(s->g, tuple); a++) {
            double span = 0, visits = 0;
            if (walk_of(s, an_uop_src(s->g, tuple, a), below, &span, &visits) && below->len > 1 && visits > span) axes |= 1u << a;
        }
    }
    return axes;
}

/* The ranges of the tuple that walk axes outside are noted, and the axes that such ranges walk are outside. */
static bool spread(layouts *l, an_uop tuple, uint32_t *axes, an_uop_vec *below, bool *changed)
{
    an_sched *s = l->s;
    for (uint32_t a = 0; a + 1 < an_uop_nsrc(s->g, tuple); a++) {
        const an_uop index = an_uop_src(s->g, tuple, a);
        const bool is_range = an_uop_op(s->g, index) == AN_OP_RANGE;
        double span = 0, visits = 0;
        if (is_range && !(*axes >> a & 1u) && an_idmap_get(&s->outside, index.id)) {
            *axes |= 1u << a;
            *changed = true;
        }
        if (!(*axes >> a & 1u) || !walk_of(s, index, below, &span, &visits)) continue;
        for (size_t i = 0; i < below->len; i++) {
            if (an_idmap_get(&s->outside, below->data[i].id)) continue;
            if (!an_idmap_set(&s->outside, s->ctx, below->data[i].id, 1)) return false;
            *changed = true;
        }
    }
    return true;
}

static an_status find_outside(layouts *l, an_uop_vec *below)
{
    an_sched *s = l->s;
    bool changed = false, ok = true;
    for (size_t i = 0; i < s->order.len && ok; i++) {
        const an_uop n = s->order.data[i];
        if (!may_be_laid_out(s, n)) continue;
        const uint32_t axes = windows_of(s, n, below);
        changed = changed || axes;
        ok = an_vec_push(s->ctx, &l->nodes, n.id) && an_vec_push(s->ctx, &l->outside, axes);
    }
    while (changed && ok) {
        changed = false;
        for (size_t i = 0; i < l->nodes.len && ok; i++) {
            const an_info *info = &s->info[l->nodes.data[i]];
            ok = spread(l, s->kernels.data[info->kernel - 1].tuple, &l->outside.data[i], below, &changed);
            for (size_t c = 0; c < info->contexts.len && ok; c++) ok = spread(l, info->contexts.data[c].tuple, &l->outside.data[i], below, &changed);
        }
    }
    return ok ? AN_OK : AN_ERR_NOMEM;
}

/* Axes outside first, then the others, one of whole vectors last; false where there is none. */
static bool order_of(const an_sched *s, an_uop n, uint32_t outside, uint32_t *order)
{
    const an_shape shape = an_uop_shape(s->g, n);
    uint32_t at = 0, last = UINT32_MAX;
    int64_t size = 0;
    for (uint32_t a = 0; a < shape.rank; a++)
        if (!(outside >> a & 1u) && an_uop_int(s->g, shape.dims[a], &size) && size > 1 && size % LANES == 0) last = a;
    if (last == UINT32_MAX) return false;
    for (uint32_t a = 0; a < shape.rank; a++)
        if (outside >> a & 1u) order[at++] = a;
    for (uint32_t a = 0; a < shape.rank; a++)
        if (!(outside >> a & 1u) && a != last) order[at++] = a;
    order[at] = last;
    return true;
}

/* The loops of the kernel that stores n, in that order. */
static void order_loops(an_sched *s, an_uop n, const uint32_t *order)
{
    an_kern *k = &s->kernels.data[s->info[n.id].kernel - 1];
    uint32_t at = 0;
    for (uint32_t i = 0; i + 1 < an_uop_nsrc(s->g, k->tuple); i++) {
        const an_uop r = an_uop_src(s->g, k->tuple, order[i]);
        if (an_uop_op(s->g, r) == AN_OP_RANGE) k->loops.data[at++] = r;
    }
}

an_status an_sched_layout(an_sched *s)
{
    layouts l = {.s = s};
    an_uop_vec below = {0};
    if (s->cost->threads == 0 || s->cost->no_fuse) return AN_OK;
    an_status st = find_outside(&l, &below);
    for (size_t i = 0; i < l.nodes.len && !st; i++) {
        const an_uop n = {l.nodes.data[i]};
        uint32_t order[AN_RANK_MAX];
        if (!l.outside.data[i] || !order_of(s, n, l.outside.data[i], order)) continue;
        const uint32_t rank = an_uop_shape(s->g, n).rank;
        uint32_t packed = 0;
        for (uint32_t a = 0; a < rank; a++) packed |= order[a] << (AXIS_BITS * a);
        if (!an_idmap_set(&s->layout, s->ctx, n.id, packed)) st = AN_ERR_NOMEM;
        order_loops(s, n, order);
    }
    an_vec_fini(s->ctx, &below);
    an_vec_fini(s->ctx, &l.nodes);
    an_vec_fini(s->ctx, &l.outside);
    return st;
}

an_uop an_stored_flat(an_sched *s, an_uop n, an_uop tuple)
{
    const an_shape shape = an_uop_shape(s->g, n);
    const uint32_t packed = an_idmap_get(&s->layout, n.id);
    if (!packed) return an_tuple_flat(s, tuple, shape);
    an_uop flat = an_index(s->g, 0);
    for (uint32_t k = 0; k < shape.rank; k++) {
        const uint32_t axis = packed >> (AXIS_BITS * k) & ((1u << AXIS_BITS) - 1);
        flat = an_idx_add(s->g, an_idx_mul(s->g, flat, shape.dims[axis]), an_uop_src(s->g, tuple, axis));
    }
    return flat;
}
