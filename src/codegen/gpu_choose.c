/* gpu_choose.c - which opts a kernel gets on a GPU, from shapes and strides alone.
 *
 *   product    one sum of values that are shared along two output ranges: a tile of the output a workgroup, 8 x 8 or 4 x 4 elements a
 *              thread, the operands staged 16 steps of one range summed over at a time. A side of the tile may be several loops, as
 *              the rows and columns of a picture
 *   rows       reductions over long ranges, or several made one: a workgroup for each of the values they give, its threads share the range; what is
 *              stored along other ranges is shared likewise. Where memory runs along an output range instead, 32 of these
 *              are the threads of a row, so that neighbours read neighbours
 *   elements   else a thread for each element, or for four of them side by side
 *
 * A product of f16 is for matrix units where there are some: a subgroup has fragments of 16 x 8 of a part of the tile.
 *
 * Tiles were measured on an NVIDIA H200 (docs/PERFORMANCE.md); rate is f32 TF/s where there are workgroups enough. plain: where units get more
 * workgroups than they hold at a time, no load is gated, and memory does not run along the range summed over in all operands. */
#include "codegen/choose.h"

#include <math.h>

enum { K_STEP = 16, HELD_THREADS = 512 };

static const struct shape {
    int64_t m, n, tm, tn;
    double rate, plain;
} shapes[] = {
    {128, 128, 8, 8, 43, 43}, {64, 128, 8, 8, 39, 43.5}, {128, 64, 8, 8, 39, 39}, {64, 64, 8, 8, 38, 38},
    {64, 32, 8, 4, 24, 24},   {32, 64, 4, 8, 24, 24},    {32, 32, 4, 4, 18, 18},
};

/* Of products for matrix units: the tile, what a subgroup has of it, and TF/s likewise. */
enum { FRAGMENT_ROWS = 16, FRAGMENT_COLUMNS = 8, SUBGROUP = 32, MATRIX_STEP = 64, PADDING = 8 /* of a tile's rows: gpu.c */ };
static const struct matrix_shape {
    int64_t m, n, own_m, own_n;
    double rate;
} matrix_shapes[] = {{128, 128, 64, 32, 260}, {128, 64, 64, 32, 190}, {64, 128, 32, 64, 190}, {64, 64, 32, 32, 120}, {32, 32, 16, 16, 40},
                  {16, 64, 16, 16, 40},    {64, 16, 16, 16, 40}};


/* --- products -------------------------------------------------------------------------------------- */

/* The only reduction of the kernel; none if there are more, or none. */
static an_uop lone_reduce(const an_chooser *c)
{
    an_uop found = AN_UOP_NONE;
    for (size_t i = 0; i < c->d.order.len; i++) {
        if (an_uop_op(c->g, c->d.order.data[i]) != AN_OP_REDUCE) continue;
        if (!an_uop_is_none(found)) return AN_UOP_NONE;
        found = c->d.order.data[i];
    }
    return found;
}

/* Which loads see a buffer that the kernel writes: none, some (of the very elements), or some that vary with range k. */
typedef enum writes_seen { NONE_SEEN, OWN_SEEN, OTHERS_SEEN } writes_seen;

static writes_seen reads_what_it_writes(const an_chooser *c, size_t k)
{
    writes_seen seen = NONE_SEEN;
    for (uint32_t s = 0; s < an_uop_nsrc(c->g, *c->sink); s++)
        for (size_t i = 0; i < c->d.order.len; i++) {
            const an_uop u = c->d.order.data[i];
            if (an_uop_op(c->g, u) != AN_OP_LOAD || !an_uop_eq(an_uop_src(c->g, u, 0), an_uop_src(c->g, an_uop_src(c->g, *c->sink, s), 0))) continue;
            if (an_rangeset_has(&c->d.deps[i], k)) return OTHERS_SEEN;
            seen = OWN_SEEN;
        }
    return seen;
}

/* Do all stores vary with the same ranges? */
static bool stores_agree(const an_chooser *c)
{
    const an_rangeset *first = an_dag_deps(&c->d, an_uop_src(c->g, *c->sink, 0));
    for (uint32_t s = 1; s < an_uop_nsrc(c->g, *c->sink); s++)
        if (memcmp(first, an_dag_deps(&c->d, an_uop_src(c->g, *c->sink, s)), sizeof *first) != 0) return false;
    return true;
}

/* One side of a tile: loops, the one that memory runs along first, and how many elements of each the tile has. */
enum { SIDE_MAX = 4 };
typedef struct side {
    uint32_t ids[SIDE_MAX], count;
    int64_t n[SIDE_MAX], take[SIDE_MAX];
} side;

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Fills a side of size elements, `each` for a thread: from the first loop on, whole loops and a part of the last one. whole: no element
 * may be computed twice. */
static bool fill(side *s, int64_t size, int64_t each, bool whole)
{
    int64_t rest = size, threads = size / each, copies = each / 4;
    for (uint32_t i = 0; i < s->count; i++) {
        const int64_t v = i == 0 ? 4 : 1;
        s->take[i] = smaller(s->n[i], rest);
        if (rest % s->take[i] || s->take[i] % v || (whole && s->n[i] % s->take[i])) return false;
        const int64_t m = s->take[i] / v, t = smaller(m, threads);
        if (threads % t || m % t || copies % (m / t)) return false;
        rest /= s->take[i];
        threads /= t;
        copies /= m / t;
    }
    return rest == 1;
}

static const struct shape *choose_shape(const an_chooser *c, side *i, side *j, double batch, int64_t step, bool whole, bool plain)
{
    const struct shape *best = NULL;
    double most = 0, m = 1, n = 1;
    for (uint32_t k = 0; k < i->count; k++) m *= (double)i->n[k];
    for (uint32_t k = 0; k < j->count; k++) n *= (double)j->n[k];
    for (size_t x = 0; x < sizeof shapes / sizeof shapes[0]; x++) {
        const struct shape *s = &shapes[x];
        if (c->only && s != c->only) continue;
        if (4 * step * (s->m + s->n + 8) > (int64_t)c->opts->gpu.local_nbytes) continue; /* f32, with padding */
        if (!fill(i, s->m, s->tm, whole) || !fill(j, s->n, s->tn, whole) || s->m / s->tm * (s->n / s->tn) > (int64_t)c->opts->gpu.threads) continue;
        double blocks = batch;
        for (uint32_t k = 0; k < i->count; k++) blocks *= (double)((i->n[k] + i->take[k] - 1) / i->take[k]);
        for (uint32_t k = 0; k < j->count; k++) blocks *= (double)((j->n[k] + j->take[k] - 1) / j->take[k]);
        const double units = c->opts->gpu.units, each = ceil(blocks / units); /* the last ones wait for the busiest unit */
        const bool held = each * (double)(s->m / s->tm * (s->n / s->tn)) <= HELD_THREADS;
        const double score = (plain && !held ? s->plain : s->rate) * m * n * batch / (each * units * (double)s->m * (double)s->n);
        if (score > most) {
            most = score;
            best = s;
        }
    }
    return best && fill(i, best->m, best->tm, whole) && fill(j, best->n, best->tn, whole) ? best : NULL;
}

/* Loop number at of a side: GLOBAL blocks, in them copies of `threads` threads with v elements each. The threads come as two LOCAL
 * ranges where there are more than `inner`. */
static an_status cut_loop(an_chooser *c, const side *s, uint32_t at, int64_t threads, int64_t v, bool lanes, int64_t inner, uint32_t high, uint32_t low)
{
    const uint32_t id = s->ids[at];
    const int64_t copies = s->take[at] / (threads * v);
    uint32_t block = id, quad = 0, last = 0;
    bool done = false;
    an_status st = an_choose_apply(c, AN_OPT_PADTO, id, s->take[at], &block, &done);
    quad = block;
    if (!st && copies > 1) {
        if (threads * v > 1) st = an_choose_apply(c, AN_OPT_CUT, block, threads * v, &quad, &done);
        if (!st) st = an_choose_apply(c, AN_OPT_UPCAST, block, copies, NULL, &done);
    }
    if (!st && v > 1) st = an_choose_apply(c, lanes ? AN_OPT_VECTOR : AN_OPT_UPCAST, quad, v, NULL, &done);
    if (st || threads == 1) return st;
    if (threads <= inner) return an_choose_mark(c, quad, AN_OPT_LOCAL, low);
    st = an_choose_apply(c, AN_OPT_CUT, quad, inner, &last, &done);
    if (!st) st = an_choose_mark(c, last, AN_OPT_LOCAL, low);
    return st ? st : an_choose_mark(c, quad, AN_OPT_LOCAL, high);
}

static an_status cut_side(an_chooser *c, const side *s, int64_t size, int64_t each, bool lanes, int64_t inner, uint32_t local, uint32_t *global)
{
    int64_t threads = size / each;
    an_status st = AN_OK;
    for (uint32_t i = 0; i < s->count && !st; i++) {
        const int64_t v = i == 0 ? 4 : 1, t = smaller(s->take[i] / v, threads);
        const uint32_t outer = local - 2 * i; /* further out */
        st = cut_loop(c, s, i, t, v, i == 0 && lanes, i == 0 ? inner : t, outer, i == 0 ? local + 2 : outer);
        if (!st) st = an_choose_mark(c, s->ids[i], AN_OPT_GLOBAL, (*global)++);
        threads /= t;
    }
    return st;
}

/* Which loads of the reduction's value vary with range r: bits. */
static uint64_t loads_with(const an_chooser *c, an_uop reduce, size_t r)
{
    const size_t end = an_dag_pos(&c->d, reduce);
    uint64_t bits = 0;
    uint32_t n = 0;
    for (size_t i = 0; i < end; i++) {
        if (an_uop_op(c->g, c->d.order.data[i]) != AN_OP_LOAD) continue;
        bool inside = false;
        for (uint32_t s = 1; s < an_uop_nsrc(c->g, reduce); s++) inside = inside || an_rangeset_has(&c->d.deps[i], an_dag_range_at(&c->d, an_uop_src(c->g, reduce, s)));
        if (inside && n < 64 && an_rangeset_has(&c->d.deps[i], r)) bits |= (uint64_t)1 << n;
        n += inside;
    }
    return bits;
}

/* What a product is made of: indices of ranges. */
typedef struct factors {
    an_uop reduce, store;
    size_t i, j, k;
    int64_t step; /* of k, staged at a time */
    bool only;    /* k is all that is summed over */
} factors;

/* Is what every load of the reduction grows by with range r `times` what it grows by with k? */
static bool steps_over(const an_chooser *c, an_uop reduce, size_t k, size_t r, int64_t times, int64_t *coef)
{
    const size_t n = c->d.order.len, end = an_dag_pos(&c->d, reduce);
    bool ok = true;
    an_dag_coefs(&c->d, k, coef);
    an_dag_coefs(&c->d, r, coef + n);
    for (size_t i = 0; i < end && ok; i++) {
        if (an_uop_op(c->g, c->d.order.data[i]) != AN_OP_LOAD) continue;
        const size_t index = an_dag_pos(&c->d, an_uop_src(c->g, c->d.order.data[i], 1));
        const int64_t a = coef[index], b = coef[n + index];
        ok = a != AN_COEF_NONE && b != AN_COEF_NONE && a * times == b;
    }
    return ok;
}

/* Where memory runs along a range that is shorter than what is staged at a time, as in the rows of small pictures: that range and the
 * next one further out as one, while there is such a one. */
static an_status join_short(an_chooser *c, an_uop *reduce)
{
    an_status st = AN_OK;
    for (bool again = true; again && !st;) {
        const uint32_t n = an_uop_nsrc(c->g, *reduce) - 1;
        size_t k = AN_RANGES_MAX, next = AN_RANGES_MAX;
        again = false;
        for (uint32_t s = 1; s <= n && n > 1 && !st && k == AN_RANGES_MAX; s++) {
            const size_t r = an_dag_range_at(&c->d, an_uop_src(c->g, *reduce, s));
            bool along_k = false;
            size_t along = AN_RANGES_MAX;
            if (an_choose_bound_at(c, r) < 1 || an_choose_bound_at(c, r) >= K_STEP) continue;
            st = an_choose_walk_of(c, *reduce, r, &along_k, &along);
            if (along_k) k = r;
        }
        if (st || k == AN_RANGES_MAX) break;
        const size_t nbytes = 2 * c->d.order.len * sizeof(int64_t);
        int64_t *coef = an_mem_alloc(c->ctx, nbytes);
        if (!coef) return AN_ERR_NOMEM;
        for (uint32_t s = 1; s <= n && next == AN_RANGES_MAX; s++) {
            const size_t r = an_dag_range_at(&c->d, an_uop_src(c->g, *reduce, s));
            if (r != k && an_choose_bound_at(c, r) > 1 && steps_over(c, *reduce, k, r, an_choose_bound_at(c, k), coef)) next = r;
        }
        an_mem_free(c->ctx, coef, nbytes);
        if (next == AN_RANGES_MAX) break;
        st = an_choose_apply(c, AN_OPT_JOIN, an_choose_id_at(c, next), an_choose_id_at(c, k), NULL, &again);
        if (!st) *reduce = lone_reduce(c);
        again = again && !st && !an_uop_is_none(*reduce);
    }
    return st;
}

/* The range to sum along: the one that memory runs along where its length allows, else the longest. */
static an_status choose_k(const an_chooser *c, factors *p)
{
    p->k = AN_RANGES_MAX;
    p->only = an_uop_nsrc(c->g, p->reduce) == 2;
    bool best_along = false;
    for (uint32_t s = 1; s < an_uop_nsrc(c->g, p->reduce); s++) {
        const size_t r = an_dag_range_at(&c->d, an_uop_src(c->g, p->reduce, s));
        const int64_t n = an_choose_bound_at(c, r), step = p->only || n % K_STEP == 0 ? K_STEP : K_STEP / 2;
        bool along_k = false;
        size_t along = AN_RANGES_MAX;
        if (p->only ? n <= K_STEP : n < 1 || n % step) continue;
        const an_status st = an_choose_walk_of(c, p->reduce, r, &along_k, &along);
        if (st) return st;
        if (p->k != AN_RANGES_MAX && (best_along || (!along_k && n <= an_choose_bound_at(c, p->k)))) continue;
        p->k = r;
        p->step = step;
        best_along = along_k;
    }
    return AN_OK;
}

static bool is_output(const an_chooser *c, const factors *p, size_t r)
{
    return an_choose_kind_at(c, r) == AN_RANGE_LOOP && an_choose_bound_at(c, r) > 0 && an_rangeset_has(an_dag_deps(&c->d, p->store), r) && loads_with(c, p->reduce, r) != 0 &&
           an_choose_is_shared(c, p->k, r);
}

/* j: along memory, or the innermost; i: the longest one that only other loads vary with, if there is such a one. */
static an_status choose_sides(const an_chooser *c, factors *p)
{
    p->i = p->j = AN_RANGES_MAX;
    for (size_t r = 0; r < c->d.ranges.len; r++) {
        int64_t coef = 0;
        if (!is_output(c, p, r)) continue;
        const an_status st = an_choose_coef_of(c, p->store, r, &coef);
        if (st) return st;
        if (coef == 1) p->j = r;
    }
    for (int apart = 1; apart >= 0 && p->i == AN_RANGES_MAX && p->j < AN_RANGES_MAX; apart--)
        for (size_t r = 0; r < c->d.ranges.len; r++) {
            if (!is_output(c, p, r) || r == p->j || (apart && (loads_with(c, p->reduce, r) & loads_with(c, p->reduce, p->j)))) continue;
            if (p->i == AN_RANGES_MAX || an_choose_bound_at(c, r) > an_choose_bound_at(c, p->i)) p->i = r;
        }
    return AN_OK;
}

/* Are tiles copied by vectors, of one operand at least as they lie? */
static an_status is_plain(const an_chooser *c, const factors *p, bool *plain)
{
    const size_t nbytes = c->d.order.len * sizeof(int64_t), end = an_dag_pos(&c->d, p->reduce);
    int64_t *coef = an_mem_alloc(c->ctx, nbytes);
    if (!coef) return AN_ERR_NOMEM;
    bool gated = false, across = true;
    an_dag_coefs(&c->d, p->k, coef);
    for (size_t i = 0; i < end; i++) {
        const an_uop load = c->d.order.data[i];
        if (an_uop_op(c->g, load) != AN_OP_LOAD || !an_rangeset_has(&c->d.deps[i], p->k)) continue;
        gated = gated || an_uop_nsrc(c->g, load) > 2;
        across = across && coef[an_dag_pos(&c->d, an_uop_src(c->g, load, 1))] == 1;
    }
    an_mem_free(c->ctx, coef, nbytes);
    *plain = !gated && !across && an_choose_bound_at(c, p->k) % p->step == 0;
    return AN_OK;
}

/* The loops of the side that begins with range first: it, and as long as it is shorter than most what lies next to it in memory and the loads
 * that vary with range `opposite` do not vary with. */
static an_status gather_side(const an_chooser *c, const factors *p, size_t first, size_t opposite, int64_t most, side *s)
{
    const uint64_t other = loads_with(c, p->reduce, opposite);
    int64_t all = an_choose_bound_at(c, first), last = 0;
    *s = (side){.ids = {an_choose_id_at(c, first)}, .count = 1, .n = {all}};
    an_status begin = an_choose_coef_of(c, p->store, first, &last);
    if (begin) return begin;
    while (all < most && s->count < SIDE_MAX) {
        size_t next = AN_RANGES_MAX;
        int64_t next_coef = 0;
        for (size_t r = 0; r < c->d.ranges.len; r++) {
            int64_t coef = 0;
            if (!is_output(c, p, r) || r == first || r == opposite || (loads_with(c, p->reduce, r) & other)) continue;
            const an_status st = an_choose_coef_of(c, p->store, r, &coef);
            if (st) return st;
            if (coef == AN_COEF_NONE || coef <= last || (next != AN_RANGES_MAX && coef > next_coef)) continue;
            next = r;
            next_coef = coef;
        }
        if (next == AN_RANGES_MAX) break;
        s->ids[s->count] = an_choose_id_at(c, next);
        s->n[s->count++] = an_choose_bound_at(c, next);
        all *= an_choose_bound_at(c, next);
        last = next_coef;
    }
    return AN_OK;
}

static an_status plan_product(const an_chooser *c, factors *p, side *i, side *j, bool whole, const struct shape **shape)
{
    bool plain = false;
    an_status st = choose_sides(c, p);
    *shape = NULL;
    if (!st) st = is_plain(c, p, &plain);
    if (st || p->i == AN_RANGES_MAX || p->j == AN_RANGES_MAX) return st;
    *i = (side){.ids = {an_choose_id_at(c, p->i)}, .count = 1, .n = {an_choose_bound_at(c, p->i)}};
    st = gather_side(c, p, p->j, p->i, shapes[0].n, j);
    for (int again = 0; again < 2 && !st && !*shape; again++) {
        double batch = 1;
        for (size_t r = 0; r < c->d.ranges.len; r++) {
            bool mine = r == p->i;
            for (uint32_t k = 0; k < j->count; k++) mine = mine || j->ids[k] == an_choose_id_at(c, r);
            if (an_choose_kind_at(c, r) == AN_RANGE_LOOP && !mine) batch *= an_choose_bound_at(c, r) > 0 ? (double)an_choose_bound_at(c, r) : 16.0;
        }
        *shape = choose_shape(c, i, j, batch, p->step, whole, plain);
        if (*shape || again) break;
        const uint64_t other = loads_with(c, p->reduce, p->i); /* the longest loop of that side instead */
        for (size_t r = 0; r < c->d.ranges.len; r++)
            if (is_output(c, p, r) && r != p->i && !(loads_with(c, p->reduce, r) & other) && an_choose_bound_at(c, r) > an_choose_bound_at(c, p->j)) p->j = r;
        *j = (side){.ids = {an_choose_id_at(c, p->j)}, .count = 1, .n = {an_choose_bound_at(c, p->j)}};
    }
    return st;
}

/* The loops that are left around the tiles as one, in which the next tile can always be loaded while one is computed. */
static an_status join_outer(an_chooser *c)
{
    const an_uop reduce = lone_reduce(c);
    uint32_t ids[AN_RANK_MAX], n = 0;
    int64_t all = 1;
    for (size_t r = 0; r < c->d.ranges.len; r++) {
        bool bound = false;
        for (uint32_t s = 1; s < an_uop_nsrc(c->g, reduce); s++) bound = bound || an_dag_range_at(&c->d, an_uop_src(c->g, reduce, s)) == r;
        if (!bound || an_choose_kind_at(c, r) != AN_RANGE_REDUCE) continue;
        if (an_choose_bound_at(c, r) < 1 || all > INT32_MAX / an_choose_bound_at(c, r) || n == AN_RANK_MAX) return AN_OK;
        all *= an_choose_bound_at(c, r);
        ids[n++] = an_choose_id_at(c, r);
    }
    an_status st = AN_OK;
    bool ok = true;
    for (uint32_t k = 1; k < n && ok && !st; k++) st = an_choose_apply(c, AN_OPT_JOIN, ids[0], ids[k], NULL, &ok);
    return st;
}

/* --- products for matrix units ----------------------------------------------------------------------- */

/* Is what is summed a product of two f16, in f32? */
static bool multiplies_halves(const an_chooser *c, an_uop reduce)
{
    const an_uop value = an_uop_src(c->g, reduce, 0);
    if (an_uop_op(c->g, value) != AN_OP_MUL || an_uop_dtype(c->g, value) != AN_F32) return false;
    for (uint32_t s = 0; s < 2; s++) {
        const an_uop x = an_uop_src(c->g, value, s);
        if (an_uop_op(c->g, x) != AN_OP_CAST || an_uop_dtype(c->g, an_uop_src(c->g, x, 0)) != AN_F16) return false;
    }
    return true;
}

/* Does memory run along k or the first loop of a side for every load, behind no gate that varies with it? Then tiles are copied by vectors. */
static bool all_wide(const an_chooser *c, const factors *p)
{
    const size_t n = c->d.order.len, end = an_dag_pos(&c->d, p->reduce), along[3] = {p->k, p->i, p->j};
    int64_t *coef = an_mem_alloc(c->ctx, n * sizeof *coef);
    bool *wide = an_mem_zalloc(c->ctx, n * sizeof *wide), all = coef && wide;
    for (int a = 0; a < 3 && all; a++) {
        an_dag_coefs(&c->d, along[a], coef);
        for (size_t i = 0; i < end; i++) {
            const an_uop u = c->d.order.data[i];
            if (an_uop_op(c->g, u) != AN_OP_LOAD || coef[an_dag_pos(&c->d, an_uop_src(c->g, u, 1))] != 1) continue;
            wide[i] = wide[i] || an_uop_nsrc(c->g, u) == 2 || !an_rangeset_has(an_dag_deps(&c->d, an_uop_src(c->g, u, 2)), along[a]);
        }
    }
    for (size_t i = 0; i < end && all; i++)
        all = an_uop_op(c->g, c->d.order.data[i]) != AN_OP_LOAD || !an_rangeset_has(&c->d.deps[i], p->k) || wide[i];
    an_mem_free(c->ctx, coef, n * sizeof *coef);
    an_mem_free(c->ctx, wide, n * sizeof *wide);
    return all;
}

/* Workgroup memory for tiles: the rest is for handing sums over, one of each subgroup at a time at least. */
static int64_t tiles_nbytes(const an_chooser *c, const struct matrix_shape *s)
{
    return (int64_t)c->opts->gpu.local_nbytes - s->m * s->n / (s->own_m * s->own_n) * FRAGMENT_ROWS * FRAGMENT_COLUMNS * (int64_t)sizeof(float);
}

/* How many elements of k are staged at a time: the sum must go on outside of them. Of what is not copied by vectors, as much as threads hold
 * in registers while they compute. */
static int64_t matrix_step(const an_chooser *c, const factors *p, const struct matrix_shape *s)
{
    const int64_t nk = an_choose_bound_at(c, p->k);
    for (int64_t step = all_wide(c, p) ? MATRIX_STEP : MATRIX_STEP / 2; step >= K_STEP; step /= 2) {
        const int64_t across = step * (s->m + s->n + 2 * PADDING), along = (s->m + s->n) * (step + PADDING); /* as memory runs */
        if (2 * (across > along ? across : along) > tiles_nbytes(c, s)) continue;
        if (nk % step == 0 ? nk > step || !p->only : p->only && nk > (step > K_STEP ? 2 * step : step)) return step;
    }
    return 0;
}

/* How the elements of a loop that a tile takes are dealt, slowest first: subgroups, copies, lanes of a subgroup, elements of a vector. */
enum { DEALT_TO = 4 };
typedef struct dealing {
    int64_t take, parts[DEALT_TO];
} dealing;

/* Deals the loops of a side, the first one fastest, as want says in all; whole: no element may be computed twice. */
static bool deal_side(const side *s, const int64_t want[DEALT_TO], bool whole, dealing *out)
{
    int64_t rest[DEALT_TO];
    memcpy(rest, want, sizeof rest);
    for (uint32_t i = 0; i < s->count; i++) {
        int64_t left = smaller(s->n[i], rest[0] * rest[1] * rest[2] * rest[3]);
        out[i] = (dealing){.take = left, .parts = {1, 1, 1, 1}};
        for (int k = DEALT_TO; k-- > 0;) {
            const int64_t part = smaller(left, rest[k]);
            if (left % part || rest[k] % part) return false;
            out[i].parts[k] = part;
            rest[k] /= part;
            left /= part;
            if (rest[k] > 1) break; /* the next loop goes on with it */
        }
        if (rest[DEALT_TO - 1] > 1 && rest[DEALT_TO - 1] < want[DEALT_TO - 1]) return false; /* a vector of two loops is none */
        if (left != 1 || (whole && s->n[i] % out[i].take)) return false;
    }
    return rest[0] * rest[1] * rest[2] * rest[3] == 1;
}

static bool deal_sides(const struct matrix_shape *s, const side *i, const side *j, bool whole, dealing *di, dealing *dj)
{
    const int64_t rows[DEALT_TO] = {s->m / s->own_m, s->own_m / FRAGMENT_ROWS, FRAGMENT_ROWS, 1};
    const int64_t columns[DEALT_TO] = {s->n / s->own_n, s->own_n / FRAGMENT_COLUMNS, FRAGMENT_COLUMNS / 4, 4};
    return deal_side(i, rows, whole, di) && deal_side(j, columns, whole, dj);
}

static double blocks_of(const side *s, const dealing *d)
{
    double n = 1;
    for (uint32_t i = 0; i < s->count; i++) n *= (double)((s->n[i] + d[i].take - 1) / d[i].take);
    return n;
}

static double elements_of(const side *s)
{
    double n = 1;
    for (uint32_t i = 0; i < s->count; i++) n *= (double)s->n[i];
    return n;
}

static const struct matrix_shape *choose_matrix(const an_chooser *c, const factors *p, const side *i, const side *j, bool whole)
{
    const struct matrix_shape *best = NULL;
    double most = 0, batch = 1;
    for (size_t r = 0; r < c->d.ranges.len; r++) {
        bool mine = r == p->i;
        for (uint32_t k = 0; k < j->count; k++) mine = mine || j->ids[k] == an_choose_id_at(c, r);
        if (an_choose_kind_at(c, r) == AN_RANGE_LOOP && !mine) batch *= an_choose_bound_at(c, r) > 0 ? (double)an_choose_bound_at(c, r) : 16.0;
    }
    for (size_t x = 0; x < sizeof matrix_shapes / sizeof matrix_shapes[0]; x++) {
        const struct matrix_shape *s = &matrix_shapes[x];
        dealing di[SIDE_MAX], dj[SIDE_MAX];
        if ((c->only_matrix && s != c->only_matrix) || !deal_sides(s, i, j, whole, di, dj)) continue;
        if (s->m * s->n / (s->own_m * s->own_n) * SUBGROUP > (int64_t)c->opts->gpu.threads || !matrix_step(c, p, s)) continue;
        const double units = c->opts->gpu.units, blocks = batch * blocks_of(i, di) * blocks_of(j, dj);
        const double score = s->rate * elements_of(i) * elements_of(j) * batch / (ceil(blocks / units) * units * (double)s->m * (double)s->n);
        if (score <= most) continue;
        most = score;
        best = s;
    }
    return best;
}

/* Loop id as it is dealt: GLOBAL blocks, in them LOCAL subgroups (of that id), copies, LOCAL lanes and a vector. */
static an_status cut_as_dealt(an_chooser *c, uint32_t id, const dealing *d, uint32_t group_id, uint32_t lane_id, uint32_t *global)
{
    uint32_t at = id, marks[2] = {0, 0}, block = 0;
    int64_t left = d->take;
    bool done = false;
    an_status st = an_choose_apply(c, AN_OPT_PADTO, id, d->take, &block, &done);
    at = block;
    for (int k = 0; k < DEALT_TO && !st; k++) {
        uint32_t inner = at;
        if (d->parts[k] == 1) continue;
        left /= d->parts[k];
        if (left > 1) st = an_choose_apply(c, AN_OPT_CUT, at, left, &inner, &done);
        if (!st && k == 1) st = an_choose_apply(c, AN_OPT_UPCAST, at, d->parts[k], NULL, &done);
        if (!st && k == 3) st = an_choose_apply(c, AN_OPT_VECTOR, at, d->parts[k], NULL, &done);
        if (k == 0 || k == 2) marks[k / 2] = at;
        at = inner;
    }
    if (!st && marks[0]) st = an_choose_mark(c, marks[0], AN_OPT_LOCAL, group_id);
    if (!st && marks[1]) st = an_choose_mark(c, marks[1], AN_OPT_LOCAL, lane_id);
    return st ? st : an_choose_mark(c, id, AN_OPT_GLOBAL, (*global)++);
}

/* The sides, and the tile that is best for them. */
static an_status plan_matrix(const an_chooser *c, factors *p, side *i, side *j, bool whole, const struct matrix_shape **shape)
{
    an_status st = choose_sides(c, p);
    *shape = NULL;
    if (st || p->i == AN_RANGES_MAX || p->j == AN_RANGES_MAX) return st;
    *i = (side){.ids = {an_choose_id_at(c, p->i)}, .count = 1, .n = {an_choose_bound_at(c, p->i)}};
    st = gather_side(c, p, p->j, p->i, shapes[0].n, j);
    if (st) return st;
    *shape = choose_matrix(c, p, i, j, whole);
    if (*shape) return AN_OK;
    const uint64_t other = loads_with(c, p->reduce, p->i); /* the longest loop of that side instead */
    for (size_t r = 0; r < c->d.ranges.len; r++)
        if (is_output(c, p, r) && r != p->i && !(loads_with(c, p->reduce, r) & other) && an_choose_bound_at(c, r) > an_choose_bound_at(c, p->j)) p->j = r;
    *j = (side){.ids = {an_choose_id_at(c, p->j)}, .count = 1, .n = {an_choose_bound_at(c, p->j)}};
    *shape = choose_matrix(c, p, i, j, whole);
    return AN_OK;
}

/* Short ranges summed over, none long enough for a fragment, as one: those of a convolution of few channels. */
static an_status join_summed(an_chooser *c, an_uop *reduce)
{
    const uint32_t n = an_uop_nsrc(c->g, *reduce) - 1;
    uint32_t ids[AN_RANK_MAX];
    int64_t all = 1;
    bool ok = true;
    if (n < 2 || n > AN_RANK_MAX || !c->opts->gpu.has_matrix || c->no_matrix || !multiplies_halves(c, *reduce)) return AN_OK;
    for (uint32_t i = 0; i < n; i++) {
        const size_t r = an_dag_range_at(&c->d, an_uop_src(c->g, *reduce, i + 1));
        if (an_choose_bound_at(c, r) < 1 || an_choose_bound_at(c, r) >= K_STEP) return AN_OK;
        ids[i] = an_choose_id_at(c, r);
        all *= an_choose_bound_at(c, r);
    }
    an_status st = AN_OK;
    for (uint32_t i = 1; i < n && all > K_STEP && ok && !st; i++) st = an_choose_apply(c, AN_OPT_JOIN, ids[0], ids[i], NULL, &ok);
    if (!st) *reduce = lone_reduce(c);
    return st;
}

/* The loops of a side none of which fills a fragment of size, opposite that of range `other`, as one. */
static an_status join_loops(an_chooser *c, factors *p, size_t longest, size_t opposite, int64_t size)
{
    const uint64_t loads = loads_with(c, p->reduce, opposite);
    const uint32_t id_k = an_choose_id_at(c, p->k);
    size_t first = longest;
    int64_t least = INT64_MAX, coef = 0;
    side s = {.count = 0};
    bool ok = true;
    an_status st = AN_OK;
    if (an_choose_bound_at(c, longest) >= size) return AN_OK;
    for (size_t r = 0; r < c->d.ranges.len && !st; r++) { /* from the one that memory runs along, or nearly */
        if (!is_output(c, p, r) || r == opposite || (loads_with(c, p->reduce, r) & loads)) continue;
        st = an_choose_coef_of(c, p->store, r, &coef);
        if (coef == AN_COEF_NONE || coef >= least) continue;
        least = coef;
        first = r;
    }
    if (!st) st = gather_side(c, p, first, opposite, 2 * size, &s);
    for (uint32_t k = s.count; k-- > 1 && !st && ok;) st = an_choose_apply(c, AN_OPT_JOIN, s.ids[s.count - 1], s.ids[k - 1], NULL, &ok);
    if (st) return st;
    p->reduce = lone_reduce(c);
    p->store = an_uop_src(c->g, *c->sink, 0);
    p->k = an_choose_find(c, id_k);
    return AN_OK;
}

static an_status join_short_sides(an_chooser *c, factors *p)
{
    an_status st = choose_sides(c, p);
    if (!st && p->i < AN_RANGES_MAX && p->j < AN_RANGES_MAX) st = join_loops(c, p, p->j, p->i, 2 * FRAGMENT_COLUMNS);
    if (!st) st = choose_sides(c, p);
    if (!st && p->i < AN_RANGES_MAX && p->j < AN_RANGES_MAX) st = join_loops(c, p, p->i, p->j, FRAGMENT_ROWS);
    return st;
}

static an_status try_matrix(an_chooser *c, factors *p, bool whole, bool *done)
{
    const struct matrix_shape *s = NULL;
    side i, j;
    dealing di[SIDE_MAX], dj[SIDE_MAX];
    an_status st = join_short_sides(c, p);
    if (!st) st = plan_matrix(c, p, &i, &j, whole, &s);
    if (st || !s || !deal_sides(s, &i, &j, whole, di, dj)) return st;
    const int64_t nk = an_choose_bound_at(c, p->k), step = matrix_step(c, p, s);
    const uint32_t id_k = an_choose_id_at(c, p->k), lane = AN_GPU_LOCAL_ID + 16;
    uint32_t others[AN_CHOOSE_LOOPS_MAX], n = 0, global = AN_GPU_GLOBAL_ID, inner = id_k, written = 0;
    for (size_t r = 0; r < c->d.ranges.len; r++) {
        bool mine = r == p->i;
        for (uint32_t k = 0; k < j.count; k++) mine = mine || j.ids[k] == an_choose_id_at(c, r);
        if (an_choose_kind_at(c, r) == AN_RANGE_LOOP && !mine && n < AN_CHOOSE_LOOPS_MAX) others[n++] = an_choose_id_at(c, r);
    }
    bool ok = true;
    for (uint32_t o = 0; o < n && !st; o++) st = an_choose_mark(c, others[o], AN_OPT_GLOBAL, global++);
    if (!st) st = cut_as_dealt(c, i.ids[0], di, lane - 1 - SIDE_MAX, lane, &global);
    for (uint32_t k = j.count; k-- > 0 && !st;) st = cut_as_dealt(c, j.ids[k], &dj[k], lane - 1 - k, lane + SIDE_MAX - k, &global);
    if (!st && nk % step) st = an_choose_apply(c, AN_OPT_FILL, id_k, step, NULL, &ok);
    if (!st && ok && nk > step) st = an_choose_apply(c, AN_OPT_CUT, id_k, step, &inner, &ok);
    if (!st && ok) st = an_choose_apply(c, AN_OPT_UNROLL, inner, step, &written, &ok);
    if (!st && ok) st = join_outer(c);
    if (!st && ok) st = an_choose_apply(c, AN_OPT_MATRIX, written, tiles_nbytes(c, s), NULL, &ok);
    *done = !st && ok;
    if (*done)
        an_trace_note(c->trace, "tiles of %lld x %lld for matrix units, %lld x %lld a subgroup", (long long)s->m, (long long)s->n, (long long)s->own_m, (long long)s->own_n);
    return st;
}

static an_status matrix_product(an_chooser *c, factors *p, bool whole, bool *done)
{
    const an_uop before = *c->sink;
    const size_t nlist = c->list->len;
    const factors as_it_was = *p;
    *done = false;
    if (!c->opts->gpu.has_matrix || c->no_matrix || !multiplies_halves(c, p->reduce)) return AN_OK;
    const an_status st = try_matrix(c, p, whole, done);
    if (st || *done) return st;
    *c->sink = before; /* as if it had not been tried */
    c->list->len = nlist;
    *p = as_it_was;
    return an_choose_refresh(c);
}

static an_status tile_product(an_chooser *c, bool *done)
{
    factors p = {.reduce = lone_reduce(c)};
    const struct shape *s = NULL;
    side i, j;
    *done = false;
    if (an_uop_is_none(p.reduce) || an_reduce_op(an_uop_arg(c->g, p.reduce)) != AN_OP_ADD || an_uop_nsrc(c->g, p.reduce) < 2 || !stores_agree(c)) return AN_OK;
    an_status st = join_short(c, &p.reduce);
    p.store = an_uop_src(c->g, *c->sink, 0);
    if (!st) st = choose_k(c, &p);
    if (!st && p.k == AN_RANGES_MAX) {
        st = join_summed(c, &p.reduce);
        p.store = an_uop_src(c->g, *c->sink, 0);
        if (!st) st = choose_k(c, &p);
    }
    if (st || p.k == AN_RANGES_MAX) return st;
    bool own = false, others = false;
    for (uint32_t r = 1; r < an_uop_nsrc(c->g, p.reduce); r++) {
        const writes_seen seen = reads_what_it_writes(c, an_dag_range_at(&c->d, an_uop_src(c->g, p.reduce, r)));
        own = own || seen == OWN_SEEN;
        others = others || seen == OTHERS_SEEN;
    }
    if (others) return AN_OK;
    st = matrix_product(c, &p, own, done);
    if (st || *done || c->only_matrix) return st;
    st = plan_product(c, &p, &i, &j, own, &s);
    if (st || !s) return st;

    const int64_t nk = an_choose_bound_at(c, p.k);
    const uint32_t id_k = an_choose_id_at(c, p.k);
    uint32_t others_ids[AN_CHOOSE_LOOPS_MAX], n = 0, global = AN_GPU_GLOBAL_ID, inner = id_k, written = 0;
    bool ok = true;
    for (size_t r = 0; r < c->d.ranges.len; r++) {
        bool mine = an_choose_id_at(c, r) == i.ids[0];
        for (uint32_t k = 0; k < j.count; k++) mine = mine || j.ids[k] == an_choose_id_at(c, r);
        if (an_choose_kind_at(c, r) == AN_RANGE_LOOP && !mine && n < AN_CHOOSE_LOOPS_MAX) others_ids[n++] = an_choose_id_at(c, r);
    }
    for (uint32_t o = 0; o < n && !st; o++) st = an_choose_mark(c, others_ids[o], AN_OPT_GLOBAL, global++);
    if (!st) st = cut_side(c, &i, s->m, s->tm, false, 4, AN_GPU_LOCAL_ID + 8, &global);
    if (!st) st = cut_side(c, &j, s->n, s->tn, true, 8, AN_GPU_LOCAL_ID + 9, &global);
    if (!st && nk % p.step) st = an_choose_apply(c, AN_OPT_FILL, id_k, p.step, NULL, &ok);
    if (!st && ok && nk > p.step) st = an_choose_apply(c, AN_OPT_CUT, id_k, p.step, &inner, &ok);
    if (!st && ok && !c->opts->gpu.small_code) {
        st = an_choose_apply(c, AN_OPT_UNROLL, inner, p.step, &written, &ok);
        inner = written;
        if (!st && ok) st = join_outer(c);
    }
    if (!st && ok) st = an_choose_apply(c, AN_OPT_TILE, inner, c->opts->gpu.local_nbytes, NULL, &ok);
    if (st || !ok) return st;
    *done = true;
    an_trace_note(c->trace, "tiles of %lld x %lld, %lld x %lld a thread", (long long)s->m, (long long)s->n, (long long)s->tm, (long long)s->tn);
    return st;
}

static an_status product(an_chooser *c, bool *done)
{
    const an_uop before = *c->sink;
    const size_t nlist = c->list->len;
    const an_status st = tile_product(c, done);
    if (st || *done) return st;
    *c->sink = before; /* as if it had not been tried */
    c->list->len = nlist;
    return an_choose_refresh(c);
}

enum { NSHAPES = sizeof shapes / sizeof shapes[0], BEST = 0, FIRST_SHAPE = 1, ROWS = FIRST_SHAPE + NSHAPES, ELEMENTS, FIRST_MATRIX, NWAYS = FIRST_MATRIX + sizeof matrix_shapes / sizeof matrix_shapes[0] };

uint32_t an_gpu_nways(void)
{
    return NWAYS;
}

an_status an_gpu_choose(an_graph *g, an_uop *sink, const an_codegen_opts *opts, uint32_t way, an_trace *trace, an_opt_vec *list)
{
    an_uop now = *sink;
    an_chooser c = {.g = g, .ctx = an_graph_ctx(g), .sink = &now, .opts = opts, .trace = trace, .list = list};
    bool done = false;
    if (way >= FIRST_SHAPE && way < ROWS) c.only = &shapes[way - FIRST_SHAPE];
    if (way >= FIRST_MATRIX && way < NWAYS) c.only_matrix = &matrix_shapes[way - FIRST_MATRIX];
    c.no_matrix = c.only != NULL;
    an_status st = an_choose_refresh(&c);
    if (!st && (way == BEST || c.only || c.only_matrix)) st = product(&c, &done);
    if (!st && !done && (way == BEST || way == ROWS)) st = an_choose_rows(&c, &done);
    if (!st && !done && (way == BEST || way == ELEMENTS)) st = an_opt_choose_lanes(g, &now, opts, trace, list);
    an_dag_fini(&c.d);
    if (!st) *sink = now;
    return st;
}
