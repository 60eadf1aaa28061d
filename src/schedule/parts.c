/* parts.c - reductions in kernels of their own.
 *
 * Those with few results, where thousands of threads wait for work, in two kernels:
 *
 *   for i: sum over k of x[i, k]      -->   for p: for i: T[p, i] = sum over q of x[i, p * Q + q]
 *                                           for i: sum over p of T[p, i]
 *
 * The first kernel has an output loop more, so that a device of workgroups has that many more of them; what the reduction feeds stays in
 * the second. And a product beside which its kernel has another reduction (the ties of a max pool below the gradient of a
 * convolution), as only a kernel of one reduction is tiled, or computes so much that the product is slower by more than a buffer costs:
 *
 *   for i, j: f(sum over k of a[i, k] * b[k, j], g(i, j))   -->   for i, j: T[i, j] = sum over k of a[i, k] * b[k, j]
 *                                                                 for i, j: f(T[i, j], g(i, j))
 *
 * T is a new temporary. */
#include "schedule/sched.h"

#include <math.h>

enum {
    PART_MIN = 1024,   /* values that a part takes in, at least */
    ALL_MIN = 1 << 17, /* values of all results together: else one kernel is done sooner than two */
    STEPS_MIN = 128,   /* the same of a product, whose parts share tiles */
    TILE_SIDE = 128,   /* a product's results come in tiles of that side: their operands are used again */
    TILE_STEPS = 16,   /* of a sum, in a tile */
    RUN_MIN = 64,      /* steps that are left of a range along which tiles lie */
    UNIT_THREADS = 64, /* threads of the device that stand for a unit, which works on tiles */
    APART_MIN = 16     /* terms of a product that is worth a buffer between its kernel and what follows */
};
/* Units that are busy are enough; one that has a single tile to work on waits for memory at times. */
static const double BUSY = 0.85, SINGLE = 0.8;
/* So many times more parts, or busier units, make up for cutting a range further in, along which memory may run. */
static const double MORE_PARTS = 4, MORE_BUSY = 1.2;

enum { CUTS_MAX = 2 };
typedef struct cut {
    an_uop range;
    int64_t n, count; /* its size; in how many parts */
} cut;

typedef struct parted {
    an_uop reduce;
    cut cuts[CUTS_MAX]; /* none: set apart as it is */
    uint32_t ncuts;
    an_uop_vec loops; /* that the reduction varies with */
} parted;

static bool const_size(const an_sched *s, an_uop range, int64_t *n)
{
    return an_uop_int(s->g, an_uop_src(s->g, range, 0), n) && *n > 0;
}

static bool binds(const an_graph *g, an_uop reduce, an_uop range)
{
    for (uint32_t i = 1; i < an_uop_nsrc(g, reduce); i++)
        if (an_uop_eq(an_uop_src(g, reduce, i), range)) return true;
    return false;
}

/* Values that a reduction inside takes in, for each value of the one around: 1 where it does not vary with that one's ranges. */
static bool taken_in(an_sched *s, const parted *p, an_uop inside, double *n)
{
    an_uop_vec below = {0};
    bool ok = an_ranges_below(s, inside, &below), varies = false;
    for (uint32_t k = 1; k < an_uop_nsrc(s->g, p->reduce); k++) varies = varies || an_vec_has(&below, an_uop_src(s->g, p->reduce, k));
    for (uint32_t k = 1; k < an_uop_nsrc(s->g, inside) && ok && varies; k++) {
        int64_t size = 0;
        ok = const_size(s, an_uop_src(s->g, inside, k), &size);
        *n *= (double)size;
    }
    an_vec_fini(s->ctx, &below);
    return ok;
}

/* What the value of a reduction is made of.
 *   inner   values that reductions inside it take in, for each of its own
 *   reuse   every load leaves out one of the loops: a product, whose operands are used again */
static bool look_inside(an_sched *s, const parted *p, double *inner, bool *reuse)
{
    an_uop_vec order = {0}, below = {0};
    const an_uop value = an_uop_src(s->g, p->reduce, 0);
    bool ok = an_toposort(s->g, &value, 1, &order) == AN_OK;
    uint32_t nloads = 0;
    *inner = 1;
    *reuse = true;
    for (size_t i = 0; i < order.len && ok; i++) {
        const an_uop u = order.data[i];
        if (an_uop_op(s->g, u) == AN_OP_REDUCE) ok = taken_in(s, p, u, inner);
        if (an_uop_op(s->g, u) != AN_OP_LOAD || !ok) continue;
        below.len = 0;
        ok = an_ranges_below(s, u, &below);
        bool whole = true;
        for (size_t k = 0; k < p->loops.len; k++) whole = whole && an_vec_has(&below, p->loops.data[k]);
        *reuse = *reuse && !whole;
        nloads++;
    }
    *reuse = *reuse && nloads > 1;
    an_vec_fini(s->ctx, &order);
    an_vec_fini(s->ctx, &below);
    return ok;
}

/* The largest divisor of n up to most. */
static int64_t divisor(int64_t n, double most)
{
    for (int64_t d = most < (double)n ? (int64_t)most : n; d > 1; d--)
        if (n % d == 0) return d;
    return 1;
}

/* How busy the units of the device are with that many tiles. */
static double busy(const an_sched *s, double tiles)
{
    const double units = s->cost->threads / UNIT_THREADS, each = ceil(tiles / units);
    return tiles / (units * each) * (each > 1 ? 1 : SINGLE);
}

/* In how many parts a product of so many tiles is cut by a range of n, most at most: the fewest that keep the units busy, else those
 * that keep them busiest. Where it is the only range, whole tiles along it stay whole. */
static int64_t parts_of_product(const an_sched *s, int64_t n, double tiles, double most, bool only)
{
    const int64_t unit = only && n % TILE_STEPS == 0 ? TILE_STEPS : 1;
    int64_t best = 1;
    for (int64_t d = 1; d <= n && (double)d <= most && busy(s, tiles * (double)best) < BUSY; d++)
        if (n % (d * unit) == 0 && busy(s, tiles * (double)d) > busy(s, tiles * (double)best)) best = d;
    return best;
}

double an_parts_busy(const an_sched *s, int64_t n, double results)
{
    const double tiles = results / (TILE_SIDE * TILE_SIDE);
    return busy(s, tiles * (double)parts_of_product(s, n, tiles, (double)n / STEPS_MIN, true));
}

/* Does the kernel's product lose more to what else is computed of its results than a launch, and a buffer for them, cost? */
static bool is_crowded(an_sched *s, const an_kern *kern, double results)
{
    const double lost = an_sched_crowding(s, kern, 0) / s->cost->ops_per_ns;
    return lost > s->cost->launch_ns + 2 * sizeof(float) * results / s->cost->bytes_per_ns;
}

/* A product whose outer axes lie outside (layout.c): these ranges are cut first, and of one along which tiles lie enough is left. */
static void cut_outside(an_sched *s, parted *p, double tiles, double most)
{
    const an_uop reduce = p->reduce;
    double count = 1;
    for (int outside = 1; outside >= 0; outside--)
        for (uint32_t i = 1; i < an_uop_nsrc(s->g, reduce) && p->ncuts < CUTS_MAX && busy(s, tiles * count) < BUSY; i++) {
            cut c = {.range = an_uop_src(s->g, reduce, i)};
            if ((an_idmap_get(&s->outside, c.range.id) != 0) != (outside == 1)) continue;
            (void)const_size(s, c.range, &c.n);
            c.count = parts_of_product(s, c.n, tiles * count, outside ? most / count : fmin(most / count, (double)c.n / RUN_MIN), false);
            if (c.count == 1) continue;
            count *= (double)c.count;
            p->cuts[p->ncuts++] = c;
        }
}

static bool has_outside(const an_sched *s, an_uop reduce)
{
    bool has = false;
    for (uint32_t i = 1; i < an_uop_nsrc(s->g, reduce); i++) has = has || an_idmap_get(&s->outside, an_uop_src(s->g, reduce, i).id);
    return has;
}

/* Is the reduction, of kernel k, worth it? Then p says how; p->loops is the caller's to free. is_alone: the kernel has no other. */
static bool plan(an_sched *s, const an_kern *kern, an_uop reduce, bool is_alone, parted *p)
{
    an_graph *g = s->g;
    an_uop_vec below = {0};
    double results = 1, values = 1, inner = 1;
    bool reuse = false;
    *p = (parted){.reduce = reduce};
    bool ok = an_dtype_nbytes(an_uop_dtype(g, reduce)) >= 4 && an_ranges_below(s, reduce, &below); /* narrow ones are widened later */
    for (size_t i = 0; i < kern->loops.len && ok; i++) {
        int64_t n = 0;
        const an_uop r = kern->loops.data[i];
        if (!an_vec_has(&below, r)) continue;
        ok = const_size(s, r, &n) && an_vec_push(s->ctx, &p->loops, r);
        results *= (double)n;
    }
    for (uint32_t i = 1; i < an_uop_nsrc(g, reduce) && ok; i++) {
        int64_t n = 0;
        ok = const_size(s, an_uop_src(g, reduce, i), &n);
        values *= (double)n;
    }
    ok = ok && p->loops.len + CUTS_MAX <= AN_RANK_MAX && look_inside(s, p, &inner, &reuse);
    an_vec_fini(s->ctx, &below);
    if (!ok) return false;
    if (results * values * inner < ALL_MIN) return false;
    const bool apart = reuse && values * inner >= APART_MIN && (!is_alone || is_crowded(s, kern, results));
    if (s->cost->threads == 0) return apart;
    const double least = reuse ? STEPS_MIN : PART_MIN, tiles = results / (TILE_SIDE * TILE_SIDE);
    const double most = reuse ? values * inner / least : fmin(s->cost->threads / results, values * inner / least);
    if (reuse && has_outside(s, reduce)) {
        cut_outside(s, p, tiles, most);
        return p->ncuts || apart;
    }
    double gain = reuse ? busy(s, tiles) : 1;
    for (uint32_t i = 1; i < an_uop_nsrc(g, reduce); i++) {
        int64_t n = 0;
        (void)const_size(s, an_uop_src(g, reduce, i), &n);
        const int64_t count = reuse ? parts_of_product(s, n, tiles, most, an_uop_nsrc(g, reduce) == 2) : divisor(n, most);
        const double now = reuse ? busy(s, tiles * (double)count) : (double)count;
        if (count == 1 || now <= gain * (!p->ncuts ? 1 : reuse ? MORE_BUSY : MORE_PARTS)) continue;
        p->cuts[0] = (cut){an_uop_src(g, reduce, i), n, count};
        p->ncuts = 1;
        gain = now;
    }
    return p->ncuts || apart;
}

/* Does u vary with a range that is neither one of the loops nor bound by a reduction in it? */
static bool is_inside(an_sched *s, const an_kern *kern, an_uop u, bool *ok)
{
    an_uop_vec order = {0}, below = {0};
    bool inside = false;
    *ok = an_ranges_below(s, u, &below) && an_toposort(s->g, &u, 1, &order) == AN_OK;
    for (size_t k = 0; k < below.len && *ok; k++) {
        bool mine = an_vec_has(&kern->loops, below.data[k]);
        for (size_t i = 0; i < order.len && !mine; i++) mine = an_uop_op(s->g, order.data[i]) == AN_OP_REDUCE && binds(s->g, order.data[i], below.data[k]);
        inside = inside || !mine;
    }
    an_vec_fini(s->ctx, &order);
    an_vec_fini(s->ctx, &below);
    return inside;
}

/* The reductions of a kernel that no other one is around. */
static an_status outermost(an_sched *s, const an_kern *kern, an_uop_vec *out)
{
    an_uop_vec order = {0};
    an_status st = an_toposort(s->g, kern->stores.data, (uint32_t)kern->stores.len, &order);
    for (size_t i = 0; i < order.len && !st; i++) {
        bool ok = true;
        if (an_uop_op(s->g, order.data[i]) != AN_OP_REDUCE) continue;
        const bool inside = is_inside(s, kern, order.data[i], &ok);
        if (!ok || (!inside && !an_vec_push(s->ctx, out, order.data[i]))) st = AN_ERR_NOMEM;
    }
    an_vec_fini(s->ctx, &order);
    return st;
}

static const char *reason_of(an_sched *s, const parted *p)
{
    an_str text;
    int64_t count = 1;
    if (!p->ncuts) return "a product, apart from what else its kernel computes";
    for (uint32_t c = 0; c < p->ncuts; c++) count *= p->cuts[c].count;
    an_str_init(&text, s->ctx);
    an_str_printf(&text, "a reduction with few results, in %lld parts that run side by side", (long long)count);
    char *copy = text.failed ? NULL : an_graph_alloc(s->g, text.len + 1);
    if (copy) memcpy(copy, an_str_cstr(&text), text.len + 1);
    an_str_fini(&text);
    return copy ? copy : "a reduction with few results, in parts";
}

/* REDUCE of value over the ranges of p->reduce, those of `rest` in place of the ones that are cut. */
static an_uop reduce_over(an_sched *s, const parted *p, an_uop value, const an_uop *rest)
{
    an_graph *g = s->g;
    an_uop src[AN_RANK_MAX + 1] = {value};
    uint32_t n = 1;
    for (uint32_t i = 1; i < an_uop_nsrc(g, p->reduce); i++) {
        an_uop r = an_uop_src(g, p->reduce, i);
        for (uint32_t c = 0; c < p->ncuts; c++)
            if (an_uop_eq(an_uop_src(g, p->reduce, i), p->cuts[c].range)) r = rest[c];
        if (an_uop_op(g, r) == AN_OP_RANGE) src[n++] = r;
    }
    return n == 1 ? value : an_uop_new(g, AN_OP_REDUCE, an_uop_dtype(g, p->reduce), src, n, an_uop_arg(g, p->reduce));
}

/* The kernel of the parts, and what the reduction becomes. */
static an_status take_in_parts(an_sched *s, const parted *p, an_uop *becomes)
{
    an_graph *g = s->g;
    an_uop dims[AN_RANK_MAX], from[AN_RANK_MAX], to[AN_RANK_MAX], at[AN_RANK_MAX], rest[CUTS_MAX], src[CUTS_MAX + 1];
    const uint32_t first = p->ncuts, rank = (uint32_t)p->loops.len + first; /* of T: parts, then loops */
    for (uint32_t i = 0; i < rank; i++) dims[i] = i < first ? an_index(g, p->cuts[i].count) : an_uop_src(g, p->loops.data[i - first], 0);
    const an_uop temp = an_buffer_node(g, an_uop_dtype(g, p->reduce), dims, rank);
    if (an_uop_is_none(temp)) return AN_ERR_NOMEM;
    const uint32_t k = an_sched_kernel_new(s, temp, reason_of(s, p));
    if (k == UINT32_MAX) return AN_ERR_NOMEM;
    an_kern *kern = &s->kernels.data[k];
    const an_uop tuple = kern->tuple;
    for (uint32_t i = first; i < rank; i++) {
        at[i] = from[i] = p->loops.data[i - first];
        to[i] = an_uop_src(g, tuple, i);
    }
    for (uint32_t i = 0; i < first; i++) {
        const cut *c = &p->cuts[i];
        rest[i] = an_sched_range(s, an_index(g, c->n / c->count), temp, 0);
        from[i] = c->range;
        to[i] = an_idx_add(g, an_idx_mul(g, an_uop_src(g, tuple, i), an_index(g, c->n / c->count)), rest[i]);
        src[i + 1] = at[i] = an_sched_range(s, an_index(g, c->count), temp, 0);
        if (an_uop_is_none(to[i]) || an_uop_is_none(at[i])) return AN_ERR_NOMEM;
    }
    an_uop value = an_substitute(g, an_uop_src(g, p->reduce, 0), from, to, rank);
    if (!an_uop_is_none(value)) value = reduce_over(s, p, value, rest);
    if (an_uop_is_none(value)) return AN_ERR_NOMEM;
    const an_uop st = an_store(g, temp, an_tuple_flat(s, tuple, an_uop_shape(g, temp)), value, AN_UOP_NONE);
    if (an_uop_is_none(st) || !an_vec_push(s->ctx, &kern->stores, st) || !an_kern_refresh(s, kern)) return AN_ERR_NOMEM;

    const an_uop where = an_tuple_make(s, at, rank, an_const_int(g, AN_BOOL, 1));
    if (an_uop_is_none(where)) return AN_ERR_NOMEM;
    src[0] = an_load(g, temp, an_tuple_flat(s, where, an_uop_shape(g, temp)), AN_UOP_NONE);
    if (an_uop_is_none(src[0])) return AN_ERR_NOMEM;
    *becomes = first ? an_uop_new(g, AN_OP_REDUCE, an_uop_dtype(g, p->reduce), src, first + 1, an_uop_arg(g, p->reduce)) : src[0];
    return an_uop_is_none(*becomes) ? AN_ERR_NOMEM : AN_OK;
}

/* Does the kernel of the results stay within the buffers that the device binds? It reads one more, and no longer what it read for p alone. */
static bool fits(an_sched *s, const an_kern *kern, const parted *p)
{
    an_graph *g = s->g;
    an_uop_vec stores = {0}, order = {0}, bases = {0};
    const an_uop zero = an_const_like(g, p->reduce, 0);
    bool ok = !an_uop_is_none(zero);
    for (size_t i = 0; i < kern->stores.len && ok; i++) ok = an_vec_push(s->ctx, &stores, kern->stores.data[i]);
    ok = ok && !an_substitute_many(g, stores.data, stores.len, &p->reduce, &zero, 1) && an_toposort(g, stores.data, (uint32_t)stores.len, &order) == AN_OK;
    for (size_t i = 0; i < order.len && ok; i++) {
        const an_op op = an_uop_op(g, order.data[i]);
        if (op != AN_OP_LOAD && op != AN_OP_STORE) continue;
        const an_uop base = an_ptr_base(g, an_uop_src(g, order.data[i], 0));
        ok = an_vec_has(&bases, base) || an_vec_push(s->ctx, &bases, base);
    }
    ok = ok && bases.len + 1 <= s->cost->max_buffers;
    an_vec_fini(s->ctx, &stores);
    an_vec_fini(s->ctx, &order);
    an_vec_fini(s->ctx, &bases);
    return ok;
}

/* Each of its reductions sees what those before it became. */
static an_status kernel_in_parts(an_sched *s, uint32_t k)
{
    an_uop_vec reduces = {0};
    an_status st = outermost(s, &s->kernels.data[k], &reduces);
    size_t left = reduces.len;
    bool any = false;
    const an_phase before = an_graph_set_phase(s->g, (an_phase)an_node_of(s->g, s->kernels.data[k].node)->phase);
    for (size_t i = 0; i < reduces.len && !st; i++) {
        parted p;
        an_uop becomes = AN_UOP_NONE;
        const bool worth = plan(s, &s->kernels.data[k], reduces.data[i], left == 1, &p) && fits(s, &s->kernels.data[k], &p);
        if (worth) st = an_sched_bands_note(s);
        if (worth && !st && !an_idmap_get(&s->banded, k)) {
            any = true;
            left -= p.ncuts == 0;
            st = take_in_parts(s, &p, &becomes);
            an_kern *kern = &s->kernels.data[k];
            if (!st) st = an_substitute_many(s->g, kern->stores.data, kern->stores.len, &p.reduce, &becomes, 1);
            if (!st) st = an_substitute_many(s->g, reduces.data + i + 1, reduces.len - i - 1, &p.reduce, &becomes, 1);
        }
        an_vec_fini(s->ctx, &p.loops);
    }
    an_graph_set_phase(s->g, before);
    if (!st && any && !an_kern_refresh(s, &s->kernels.data[k])) st = AN_ERR_NOMEM;
    an_vec_fini(s->ctx, &reduces);
    return st;
}

an_status an_sched_parts(an_sched *s)
{
    const size_t n = s->kernels.len;
    an_status st = AN_OK;
    for (uint32_t k = 0; k < n && !st && !s->cost->no_fuse; k++)
        if (!s->kernels.data[k].dead && s->kernels.data[k].has_reduce) st = kernel_in_parts(s, k);
    return st;
}
