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
#include "codegen/gpu.h"

#include <math.h>

enum { K_STEP = 16, HELD_THREADS = 512, ROW_MIN = 64, ROWS_MAX = 1 << 16, COLUMN_LANES = 32, LOOPS_MAX = 12, JOIN_MAX = 1024, JOINED_MAX = 16, JOIN_ROWS_MAX = 1 << 14 };

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

typedef struct chooser {
    an_graph *g;
    an_ctx *ctx;
    an_uop *sink;
    const an_codegen_opts *opts;
    const struct shape *only; /* of the tiles; NULL: whichever is best */
    const struct matrix_shape *only_matrix;
    bool no_matrix;
    an_trace *trace;
    an_opt_vec *list;
    an_dag d;
    uint32_t joined[JOINED_MAX], njoined; /* ids of ranges that several were joined to, memory along them */
} chooser;

static an_status refresh(chooser *c)
{
    an_dag_fini(&c->d);
    return an_dag_init(&c->d, c->g, c->sink, 1);
}

static size_t find(const chooser *c, uint32_t id)
{
    for (size_t r = 0; r < c->d.ranges.len; r++)
        if (an_range_id(an_uop_arg(c->g, c->d.ranges.data[r])) == id) return r;
    return AN_RANGES_MAX;
}

static an_range_kind kind_at(const chooser *c, size_t r)
{
    return an_range_kind_of(an_uop_arg(c->g, c->d.ranges.data[r]));
}

static int64_t bound_at(const chooser *c, size_t r)
{
    return an_range_bound(c->g, c->d.ranges.data[r]);
}

static uint32_t id_at(const chooser *c, size_t r)
{
    return an_range_id(an_uop_arg(c->g, c->d.ranges.data[r]));
}

/* Applies an opt; *inner: the id of the part split off. done false: refused, nothing changed. */
static an_status apply(chooser *c, an_opt_kind kind, uint32_t id, int64_t amount, uint32_t *inner, bool *done)
{
    const char *why = NULL;
    const an_opt opt = {kind, id, amount};
    const uint32_t next = an_opt_new_id(&c->d, opt);
    an_status st = an_opt_apply(c->g, c->sink, opt, &why);
    *done = !st && !why;
    if (why)
        an_trace_note(c->trace, "%s of range %u by %lld refused: %s", an_opt_name(kind), id, (long long)amount, why);
    else
        an_trace_note(c->trace, "%s of range %u by %lld", an_opt_name(kind), id, (long long)amount);
    if (*done && !an_vec_push(c->ctx, c->list, opt)) st = AN_ERR_NOMEM;
    if (inner) *inner = next;
    return st ? st : refresh(c);
}

static an_status mark(chooser *c, uint32_t id, an_opt_kind kind, uint32_t to)
{
    bool done = false;
    return find(c, id) == AN_RANGES_MAX ? AN_OK : apply(c, kind, id, to, NULL, &done); /* of one element: gone */
}

/* --- products -------------------------------------------------------------------------------------- */

/* The only reduction of the kernel; none if there are more, or none. */
static an_uop lone_reduce(const chooser *c)
{
    an_uop found = AN_UOP_NONE;
    for (size_t i = 0; i < c->d.order.len; i++) {
        if (an_uop_op(c->g, c->d.order.data[i]) != AN_OP_REDUCE) continue;
        if (!an_uop_is_none(found)) return AN_UOP_NONE;
        found = c->d.order.data[i];
    }
    return found;
}

/* Does a load that varies with k not vary with r? */
static bool is_shared(const chooser *c, size_t k, size_t r)
{
    for (size_t i = 0; i < c->d.order.len; i++)
        if (an_uop_op(c->g, c->d.order.data[i]) == AN_OP_LOAD && an_rangeset_has(&c->d.deps[i], k) && !an_rangeset_has(&c->d.deps[i], r))
            return true;
    return false;
}

/* Which loads see a buffer that the kernel writes: none, some (of the very elements), or some that vary with range k. */
typedef enum writes_seen { NONE_SEEN, OWN_SEEN, OTHERS_SEEN } writes_seen;

static writes_seen reads_what_it_writes(const chooser *c, size_t k)
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
static bool stores_agree(const chooser *c)
{
    const an_rangeset *first = an_dag_deps(&c->d, an_uop_src(c->g, *c->sink, 0));
    for (uint32_t s = 1; s < an_uop_nsrc(c->g, *c->sink); s++)
        if (memcmp(first, an_dag_deps(&c->d, an_uop_src(c->g, *c->sink, s)), sizeof *first) != 0) return false;
    return true;
}

/* How much the index of an access grows with range r. */
static an_status coef_of(const chooser *c, an_uop access, size_t r, int64_t *out)
{
    const size_t nbytes = c->d.order.len * sizeof(int64_t);
    int64_t *coef = an_mem_alloc(c->ctx, nbytes);
    if (!coef) return AN_ERR_NOMEM;
    an_dag_coefs(&c->d, r, coef);
    *out = coef[an_dag_pos(&c->d, an_uop_src(c->g, access, 1))];
    an_mem_free(c->ctx, coef, nbytes);
    return AN_OK;
}

/* How often a value is another one: the iterations of the ranges that it varies with. */
static double iterations(const chooser *c, const an_rangeset *deps)
{
    double n = 1;
    for (size_t r = 0; r < c->d.ranges.len; r++)
        if (an_rangeset_has(deps, r)) n *= bound_at(c, r) > 0 ? (double)bound_at(c, r) : 64.0;
    return n;
}

/* How memory is walked by the loads inside reduction u, over range k: along k (1), along a LOOP range (r), neither (0). Where they
 * differ, those that read the most decide. */
static an_status walk_of(const chooser *c, an_uop u, size_t k, bool *along_k, size_t *along)
{
    const size_t nbytes = c->d.order.len * sizeof(int64_t), value = an_dag_pos(&c->d, an_uop_src(c->g, u, 0));
    int64_t *coef = an_mem_alloc(c->ctx, nbytes);
    if (!coef) return AN_ERR_NOMEM;
    double most = 0;
    *along_k = false;
    *along = AN_RANGES_MAX;
    for (size_t r = 0; r < c->d.ranges.len; r++) {
        if (r != k && kind_at(c, r) != AN_RANGE_LOOP) continue;
        an_dag_coefs(&c->d, r, coef);
        for (size_t i = 0; i <= value; i++) {
            const an_uop load = c->d.order.data[i];
            if (an_uop_op(c->g, load) != AN_OP_LOAD || !an_rangeset_has(&c->d.deps[i], k)) continue;
            if (coef[an_dag_pos(&c->d, an_uop_src(c->g, load, 1))] != 1) continue;
            const double n = iterations(c, &c->d.deps[i]);
            if (n < most || (n == most && *along_k)) continue;
            most = n;
            *along_k = r == k;
            *along = r == k ? AN_RANGES_MAX : r;
        }
    }
    an_mem_free(c->ctx, coef, nbytes);
    return AN_OK;
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

static const struct shape *choose_shape(const chooser *c, side *i, side *j, double batch, int64_t step, bool whole, bool plain)
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
static an_status cut_loop(chooser *c, const side *s, uint32_t at, int64_t threads, int64_t v, bool lanes, int64_t inner, uint32_t high, uint32_t low)
{
    const uint32_t id = s->ids[at];
    const int64_t copies = s->take[at] / (threads * v);
    uint32_t block = id, quad = 0, last = 0;
    bool done = false;
    an_status st = apply(c, AN_OPT_PADTO, id, s->take[at], &block, &done);
    quad = block;
    if (!st && copies > 1) {
        if (threads * v > 1) st = apply(c, AN_OPT_CUT, block, threads * v, &quad, &done);
        if (!st) st = apply(c, AN_OPT_UPCAST, block, copies, NULL, &done);
    }
    if (!st && v > 1) st = apply(c, lanes ? AN_OPT_VECTOR : AN_OPT_UPCAST, quad, v, NULL, &done);
    if (st || threads == 1) return st;
    if (threads <= inner) return mark(c, quad, AN_OPT_LOCAL, low);
    st = apply(c, AN_OPT_CUT, quad, inner, &last, &done);
    if (!st) st = mark(c, last, AN_OPT_LOCAL, low);
    return st ? st : mark(c, quad, AN_OPT_LOCAL, high);
}

static an_status cut_side(chooser *c, const side *s, int64_t size, int64_t each, bool lanes, int64_t inner, uint32_t local, uint32_t *global)
{
    int64_t threads = size / each;
    an_status st = AN_OK;
    for (uint32_t i = 0; i < s->count && !st; i++) {
        const int64_t v = i == 0 ? 4 : 1, t = smaller(s->take[i] / v, threads);
        const uint32_t outer = local - 2 * i; /* further out */
        st = cut_loop(c, s, i, t, v, i == 0 && lanes, i == 0 ? inner : t, outer, i == 0 ? local + 2 : outer);
        if (!st) st = mark(c, s->ids[i], AN_OPT_GLOBAL, (*global)++);
        threads /= t;
    }
    return st;
}

/* Which loads of the reduction's value vary with range r: bits. */
static uint64_t loads_with(const chooser *c, an_uop reduce, size_t r)
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
static bool steps_over(const chooser *c, an_uop reduce, size_t k, size_t r, int64_t times, int64_t *coef)
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
static an_status join_short(chooser *c, an_uop *reduce)
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
            if (bound_at(c, r) < 1 || bound_at(c, r) >= K_STEP) continue;
            st = walk_of(c, *reduce, r, &along_k, &along);
            if (along_k) k = r;
        }
        if (st || k == AN_RANGES_MAX) break;
        const size_t nbytes = 2 * c->d.order.len * sizeof(int64_t);
        int64_t *coef = an_mem_alloc(c->ctx, nbytes);
        if (!coef) return AN_ERR_NOMEM;
        for (uint32_t s = 1; s <= n && next == AN_RANGES_MAX; s++) {
            const size_t r = an_dag_range_at(&c->d, an_uop_src(c->g, *reduce, s));
            if (r != k && bound_at(c, r) > 1 && steps_over(c, *reduce, k, r, bound_at(c, k), coef)) next = r;
        }
        an_mem_free(c->ctx, coef, nbytes);
        if (next == AN_RANGES_MAX) break;
        st = apply(c, AN_OPT_JOIN, id_at(c, next), id_at(c, k), NULL, &again);
        if (!st) *reduce = lone_reduce(c);
        again = again && !st && !an_uop_is_none(*reduce);
    }
    return st;
}

/* The range to sum along: the one that memory runs along where its length allows, else the longest. */
static an_status choose_k(const chooser *c, factors *p)
{
    p->k = AN_RANGES_MAX;
    p->only = an_uop_nsrc(c->g, p->reduce) == 2;
    bool best_along = false;
    for (uint32_t s = 1; s < an_uop_nsrc(c->g, p->reduce); s++) {
        const size_t r = an_dag_range_at(&c->d, an_uop_src(c->g, p->reduce, s));
        const int64_t n = bound_at(c, r), step = p->only || n % K_STEP == 0 ? K_STEP : K_STEP / 2;
        bool along_k = false;
        size_t along = AN_RANGES_MAX;
        if (p->only ? n <= K_STEP : n < 1 || n % step) continue;
        const an_status st = walk_of(c, p->reduce, r, &along_k, &along);
        if (st) return st;
        if (p->k != AN_RANGES_MAX && (best_along || (!along_k && n <= bound_at(c, p->k)))) continue;
        p->k = r;
        p->step = step;
        best_along = along_k;
    }
    return AN_OK;
}

static bool is_output(const chooser *c, const factors *p, size_t r)
{
    return kind_at(c, r) == AN_RANGE_LOOP && bound_at(c, r) > 0 && an_rangeset_has(an_dag_deps(&c->d, p->store), r) && loads_with(c, p->reduce, r) != 0 &&
           is_shared(c, p->k, r);
}

/* j: along memory, or the innermost; i: the longest one that only other loads vary with, if there is such a one. */
static an_status choose_sides(const chooser *c, factors *p)
{
    p->i = p->j = AN_RANGES_MAX;
    for (size_t r = 0; r < c->d.ranges.len; r++) {
        int64_t coef = 0;
        if (!is_output(c, p, r)) continue;
        const an_status st = coef_of(c, p->store, r, &coef);
        if (st) return st;
        if (coef == 1) p->j = r;
    }
    for (int apart = 1; apart >= 0 && p->i == AN_RANGES_MAX && p->j < AN_RANGES_MAX; apart--)
        for (size_t r = 0; r < c->d.ranges.len; r++) {
            if (!is_output(c, p, r) || r == p->j || (apart && (loads_with(c, p->reduce, r) & loads_with(c, p->reduce, p->j)))) continue;
            if (p->i == AN_RANGES_MAX || bound_at(c, r) > bound_at(c, p->i)) p->i = r;
        }
    return AN_OK;
}

/* Are tiles copied by vectors, of one operand at least as they lie? */
static an_status is_plain(const chooser *c, const factors *p, bool *plain)
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
    *plain = !gated && !across && bound_at(c, p->k) % p->step == 0;
    return AN_OK;
}

/* The loops of the side that begins with range r: r, and as long as it is shorter than most what lies next to it in memory and the loads
 * that vary with range `opposite` do not vary with. */
static an_status gather_side(const chooser *c, const factors *p, size_t first, size_t opposite, int64_t most, side *s)
{
    const uint64_t other = loads_with(c, p->reduce, opposite);
    int64_t all = bound_at(c, first), last = 0;
    *s = (side){.ids = {id_at(c, first)}, .count = 1, .n = {all}};
    an_status begin = coef_of(c, p->store, first, &last);
    if (begin) return begin;
    while (all < most && s->count < SIDE_MAX) {
        size_t next = AN_RANGES_MAX;
        int64_t next_coef = 0;
        for (size_t r = 0; r < c->d.ranges.len; r++) {
            int64_t coef = 0;
            if (!is_output(c, p, r) || r == first || r == opposite || (loads_with(c, p->reduce, r) & other)) continue;
            const an_status st = coef_of(c, p->store, r, &coef);
            if (st) return st;
            if (coef == AN_COEF_NONE || coef <= last || (next != AN_RANGES_MAX && coef > next_coef)) continue;
            next = r;
            next_coef = coef;
        }
        if (next == AN_RANGES_MAX) break;
        s->ids[s->count] = id_at(c, next);
        s->n[s->count++] = bound_at(c, next);
        all *= bound_at(c, next);
        last = next_coef;
    }
    return AN_OK;
}

static an_status plan_product(const chooser *c, factors *p, side *i, side *j, bool whole, const struct shape **shape)
{
    bool plain = false;
    an_status st = choose_sides(c, p);
    *shape = NULL;
    if (!st) st = is_plain(c, p, &plain);
    if (st || p->i == AN_RANGES_MAX || p->j == AN_RANGES_MAX) return st;
    *i = (side){.ids = {id_at(c, p->i)}, .count = 1, .n = {bound_at(c, p->i)}};
    st = gather_side(c, p, p->j, p->i, shapes[0].n, j);
    for (int again = 0; again < 2 && !st && !*shape; again++) {
        double batch = 1;
        for (size_t r = 0; r < c->d.ranges.len; r++) {
            bool mine = r == p->i;
            for (uint32_t k = 0; k < j->count; k++) mine = mine || j->ids[k] == id_at(c, r);
            if (kind_at(c, r) == AN_RANGE_LOOP && !mine) batch *= bound_at(c, r) > 0 ? (double)bound_at(c, r) : 16.0;
        }
        *shape = choose_shape(c, i, j, batch, p->step, whole, plain);
        if (*shape || again) break;
        const uint64_t other = loads_with(c, p->reduce, p->i); /* the longest loop of that side instead */
        for (size_t r = 0; r < c->d.ranges.len; r++)
            if (is_output(c, p, r) && r != p->i && !(loads_with(c, p->reduce, r) & other) && bound_at(c, r) > bound_at(c, p->j)) p->j = r;
        *j = (side){.ids = {id_at(c, p->j)}, .count = 1, .n = {bound_at(c, p->j)}};
    }
    return st;
}

/* The loops that are left around the tiles as one, in which the next tile can always be loaded while one is computed. */
static an_status join_outer(chooser *c)
{
    const an_uop reduce = lone_reduce(c);
    uint32_t ids[AN_RANK_MAX], n = 0;
    int64_t all = 1;
    for (size_t r = 0; r < c->d.ranges.len; r++) {
        bool bound = false;
        for (uint32_t s = 1; s < an_uop_nsrc(c->g, reduce); s++) bound = bound || an_dag_range_at(&c->d, an_uop_src(c->g, reduce, s)) == r;
        if (!bound || kind_at(c, r) != AN_RANGE_REDUCE) continue;
        if (bound_at(c, r) < 1 || all > INT32_MAX / bound_at(c, r) || n == AN_RANK_MAX) return AN_OK;
        all *= bound_at(c, r);
        ids[n++] = id_at(c, r);
    }
    an_status st = AN_OK;
    bool ok = true;
    for (uint32_t k = 1; k < n && ok && !st; k++) st = apply(c, AN_OPT_JOIN, ids[0], ids[k], NULL, &ok);
    return st;
}

/* --- products for matrix units ----------------------------------------------------------------------- */

/* Is what is summed a product of two f16, in f32? */
static bool multiplies_halves(const chooser *c, an_uop reduce)
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
static bool all_wide(const chooser *c, const factors *p)
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
static int64_t tiles_nbytes(const chooser *c, const struct matrix_shape *s)
{
    return (int64_t)c->opts->gpu.local_nbytes - s->m * s->n / (s->own_m * s->own_n) * FRAGMENT_ROWS * FRAGMENT_COLUMNS * (int64_t)sizeof(float);
}

/* How many elements of k are staged at a time: the sum must go on outside of them. Of what is not copied by vectors, as much as threads hold
 * in registers while they compute. */
static int64_t matrix_step(const chooser *c, const factors *p, const struct matrix_shape *s)
{
    const int64_t nk = bound_at(c, p->k);
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

static const struct matrix_shape *choose_matrix(const chooser *c, const factors *p, const side *i, const side *j, bool whole)
{
    const struct matrix_shape *best = NULL;
    double most = 0, batch = 1;
    for (size_t r = 0; r < c->d.ranges.len; r++) {
        bool mine = r == p->i;
        for (uint32_t k = 0; k < j->count; k++) mine = mine || j->ids[k] == id_at(c, r);
        if (kind_at(c, r) == AN_RANGE_LOOP && !mine) batch *= bound_at(c, r) > 0 ? (double)bound_at(c, r) : 16.0;
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
static an_status cut_as_dealt(chooser *c, uint32_t id, const dealing *d, uint32_t group_id, uint32_t lane_id, uint32_t *global)
{
    uint32_t at = id, marks[2] = {0, 0}, block = 0;
    int64_t left = d->take;
    bool done = false;
    an_status st = apply(c, AN_OPT_PADTO, id, d->take, &block, &done);
    at = block;
    for (int k = 0; k < DEALT_TO && !st; k++) {
        uint32_t inner = at;
        if (d->parts[k] == 1) continue;
        left /= d->parts[k];
        if (left > 1) st = apply(c, AN_OPT_CUT, at, left, &inner, &done);
        if (!st && k == 1) st = apply(c, AN_OPT_UPCAST, at, d->parts[k], NULL, &done);
        if (!st && k == 3) st = apply(c, AN_OPT_VECTOR, at, d->parts[k], NULL, &done);
        if (k == 0 || k == 2) marks[k / 2] = at;
        at = inner;
    }
    if (!st && marks[0]) st = mark(c, marks[0], AN_OPT_LOCAL, group_id);
    if (!st && marks[1]) st = mark(c, marks[1], AN_OPT_LOCAL, lane_id);
    return st ? st : mark(c, id, AN_OPT_GLOBAL, (*global)++);
}

/* The sides, and the tile that is best for them. */
static an_status plan_matrix(const chooser *c, factors *p, side *i, side *j, bool whole, const struct matrix_shape **shape)
{
    an_status st = choose_sides(c, p);
    *shape = NULL;
    if (st || p->i == AN_RANGES_MAX || p->j == AN_RANGES_MAX) return st;
    *i = (side){.ids = {id_at(c, p->i)}, .count = 1, .n = {bound_at(c, p->i)}};
    st = gather_side(c, p, p->j, p->i, shapes[0].n, j);
    if (st) return st;
    *shape = choose_matrix(c, p, i, j, whole);
    if (*shape) return AN_OK;
    const uint64_t other = loads_with(c, p->reduce, p->i); /* the longest loop of that side instead */
    for (size_t r = 0; r < c->d.ranges.len; r++)
        if (is_output(c, p, r) && r != p->i && !(loads_with(c, p->reduce, r) & other) && bound_at(c, r) > bound_at(c, p->j)) p->j = r;
    *j = (side){.ids = {id_at(c, p->j)}, .count = 1, .n = {bound_at(c, p->j)}};
    *shape = choose_matrix(c, p, i, j, whole);
    return AN_OK;
}

/* Short ranges summed over, none long enough for a fragment, as one: those of a convolution of few channels. */
static an_status join_summed(chooser *c, an_uop *reduce)
{
    const uint32_t n = an_uop_nsrc(c->g, *reduce) - 1;
    uint32_t ids[AN_RANK_MAX];
    int64_t all = 1;
    bool ok = true;
    if (n < 2 || n > AN_RANK_MAX || !c->opts->gpu.has_matrix || c->no_matrix || !multiplies_halves(c, *reduce)) return AN_OK;
    for (uint32_t i = 0; i < n; i++) {
        const size_t r = an_dag_range_at(&c->d, an_uop_src(c->g, *reduce, i + 1));
        if (bound_at(c, r) < 1 || bound_at(c, r) >= K_STEP) return AN_OK;
        ids[i] = id_at(c, r);
        all *= bound_at(c, r);
    }
    an_status st = AN_OK;
    for (uint32_t i = 1; i < n && all > K_STEP && ok && !st; i++) st = apply(c, AN_OPT_JOIN, ids[0], ids[i], NULL, &ok);
    if (!st) *reduce = lone_reduce(c);
    return st;
}

/* The loops of a side none of which fills a fragment of size, opposite that of range `other`, as one. */
static an_status join_loops(chooser *c, factors *p, size_t longest, size_t opposite, int64_t size)
{
    const uint64_t loads = loads_with(c, p->reduce, opposite);
    const uint32_t id_k = id_at(c, p->k);
    size_t first = longest;
    int64_t least = INT64_MAX, coef = 0;
    side s = {.count = 0};
    bool ok = true;
    an_status st = AN_OK;
    if (bound_at(c, longest) >= size) return AN_OK;
    for (size_t r = 0; r < c->d.ranges.len && !st; r++) { /* from the one that memory runs along, or nearly */
        if (!is_output(c, p, r) || r == opposite || (loads_with(c, p->reduce, r) & loads)) continue;
        st = coef_of(c, p->store, r, &coef);
        if (coef == AN_COEF_NONE || coef >= least) continue;
        least = coef;
        first = r;
    }
    if (!st) st = gather_side(c, p, first, opposite, 2 * size, &s);
    for (uint32_t k = s.count; k-- > 1 && !st && ok;) st = apply(c, AN_OPT_JOIN, s.ids[s.count - 1], s.ids[k - 1], NULL, &ok);
    if (st) return st;
    p->reduce = lone_reduce(c);
    p->store = an_uop_src(c->g, *c->sink, 0);
    p->k = find(c, id_k);
    return AN_OK;
}

static an_status join_short_sides(chooser *c, factors *p)
{
    an_status st = choose_sides(c, p);
    if (!st && p->i < AN_RANGES_MAX && p->j < AN_RANGES_MAX) st = join_loops(c, p, p->j, p->i, 2 * FRAGMENT_COLUMNS);
    if (!st) st = choose_sides(c, p);
    if (!st && p->i < AN_RANGES_MAX && p->j < AN_RANGES_MAX) st = join_loops(c, p, p->i, p->j, FRAGMENT_ROWS);
    return st;
}

static an_status try_matrix(chooser *c, factors *p, bool whole, bool *done)
{
    const struct matrix_shape *s = NULL;
    side i, j;
    dealing di[SIDE_MAX], dj[SIDE_MAX];
    an_status st = join_short_sides(c, p);
    if (!st) st = plan_matrix(c, p, &i, &j, whole, &s);
    if (st || !s || !deal_sides(s, &i, &j, whole, di, dj)) return st;
    const int64_t nk = bound_at(c, p->k), step = matrix_step(c, p, s);
    const uint32_t id_k = id_at(c, p->k), lane = AN_GPU_LOCAL_ID + 16;
    uint32_t others[LOOPS_MAX], n = 0, global = AN_GPU_GLOBAL_ID, inner = id_k, written = 0;
    for (size_t r = 0; r < c->d.ranges.len; r++) {
        bool mine = r == p->i;
        for (uint32_t k = 0; k < j.count; k++) mine = mine || j.ids[k] == id_at(c, r);
        if (kind_at(c, r) == AN_RANGE_LOOP && !mine && n < LOOPS_MAX) others[n++] = id_at(c, r);
    }
    bool ok = true;
    for (uint32_t o = 0; o < n && !st; o++) st = mark(c, others[o], AN_OPT_GLOBAL, global++);
    if (!st) st = cut_as_dealt(c, i.ids[0], di, lane - 1 - SIDE_MAX, lane, &global);
    for (uint32_t k = j.count; k-- > 0 && !st;) st = cut_as_dealt(c, j.ids[k], &dj[k], lane - 1 - k, lane + SIDE_MAX - k, &global);
    if (!st && nk % step) st = apply(c, AN_OPT_FILL, id_k, step, NULL, &ok);
    if (!st && ok && nk > step) st = apply(c, AN_OPT_CUT, id_k, step, &inner, &ok);
    if (!st && ok) st = apply(c, AN_OPT_UNROLL, inner, step, &written, &ok);
    if (!st && ok) st = join_outer(c);
    if (!st && ok) st = apply(c, AN_OPT_MATRIX, written, tiles_nbytes(c, s), NULL, &ok);
    *done = !st && ok;
    if (*done)
        an_trace_note(c->trace, "tiles of %lld x %lld for matrix units, %lld x %lld a subgroup", (long long)s->m, (long long)s->n, (long long)s->own_m, (long long)s->own_n);
    return st;
}

static an_status matrix_product(chooser *c, factors *p, bool whole, bool *done)
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
    return refresh(c);
}

static an_status tile_product(chooser *c, bool *done)
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

    const int64_t nk = bound_at(c, p.k);
    const uint32_t id_k = id_at(c, p.k);
    uint32_t others_ids[LOOPS_MAX], n = 0, global = AN_GPU_GLOBAL_ID, inner = id_k, written = 0;
    bool ok = true;
    for (size_t r = 0; r < c->d.ranges.len; r++) {
        bool mine = id_at(c, r) == i.ids[0];
        for (uint32_t k = 0; k < j.count; k++) mine = mine || j.ids[k] == id_at(c, r);
        if (kind_at(c, r) == AN_RANGE_LOOP && !mine && n < LOOPS_MAX) others_ids[n++] = id_at(c, r);
    }
    for (uint32_t o = 0; o < n && !st; o++) st = mark(c, others_ids[o], AN_OPT_GLOBAL, global++);
    if (!st) st = cut_side(c, &i, s->m, s->tm, false, 4, AN_GPU_LOCAL_ID + 8, &global);
    if (!st) st = cut_side(c, &j, s->n, s->tn, true, 8, AN_GPU_LOCAL_ID + 9, &global);
    if (!st && nk % p.step) st = apply(c, AN_OPT_FILL, id_k, p.step, NULL, &ok);
    if (!st && ok && nk > p.step) st = apply(c, AN_OPT_CUT, id_k, p.step, &inner, &ok);
    if (!st && ok && !c->opts->gpu.small_code) {
        st = apply(c, AN_OPT_UNROLL, inner, p.step, &written, &ok);
        inner = written;
        if (!st && ok) st = join_outer(c);
    }
    if (!st && ok) st = apply(c, AN_OPT_TILE, inner, c->opts->gpu.local_nbytes, NULL, &ok);
    if (st || !ok) return st;
    *done = true;
    an_trace_note(c->trace, "tiles of %lld x %lld, %lld x %lld a thread", (long long)s->m, (long long)s->n, (long long)s->tm, (long long)s->tn);
    return st;
}

static an_status product(chooser *c, bool *done)
{
    const an_uop before = *c->sink;
    const size_t nlist = c->list->len;
    const an_status st = tile_product(c, done);
    if (st || *done) return st;
    *c->sink = before; /* as if it had not been tried */
    c->list->len = nlist;
    return refresh(c);
}

/* --- rows -------------------------------------------------------------------------------------------- */

/* The longest range of a reduction that no other one is around. */
static size_t long_range(const chooser *c, size_t i)
{
    const an_uop u = c->d.order.data[i];
    size_t best = AN_RANGES_MAX;
    for (size_t r = 0; r < c->d.ranges.len; r++)
        if (an_rangeset_has(&c->d.deps[i], r) && kind_at(c, r) != AN_RANGE_LOOP) return AN_RANGES_MAX;
    for (uint32_t s = 1; s < an_uop_nsrc(c->g, u); s++) {
        const size_t r = an_dag_range_at(&c->d, an_uop_src(c->g, u, s));
        const int64_t n = bound_at(c, r);
        if (n >= 0 && n < ROW_MIN) continue;
        if (best == AN_RANGES_MAX || n < 0 || (bound_at(c, best) >= 0 && n > bound_at(c, best))) best = r;
    }
    return best;
}

static bool is_joined(const chooser *c, size_t r)
{
    for (uint32_t i = 0; i < c->njoined; i++)
        if (c->joined[i] == id_at(c, r)) return true;
    return false;
}

/* Lanes of four along a range, if that is how memory runs; then its iterations are dealt to the threads. */
static an_status deal(chooser *c, uint32_t id)
{
    const size_t r = find(c, id);
    bool done = false;
    an_status st = AN_OK;
    if (r == AN_RANGES_MAX) return AN_OK;
    if (!is_joined(c, r) && bound_at(c, r) % 4 == 0 && bound_at(c, r) >= 4 * ROW_MIN) st = apply(c, AN_OPT_VECTOR, id, 4, NULL, &done);
    return st ? st : mark(c, id, AN_OPT_DEAL, id);
}

/* Ranges of the reduction at position i that can become one, the one along memory last; 0 where there is nothing to join. */
static an_status joinable(const chooser *c, size_t i, an_uop *out, uint32_t *nout, size_t *fast)
{
    const an_uop u = c->d.order.data[i];
    const uint32_t n = an_uop_nsrc(c->g, u) - 1;
    int64_t longest = 0, all = 1;
    *nout = 0;
    *fast = AN_RANGES_MAX;
    if (n < 2 || n > AN_RANK_MAX) return AN_OK;
    for (size_t r = 0; r < c->d.ranges.len; r++)
        if (an_rangeset_has(&c->d.deps[i], r) && kind_at(c, r) != AN_RANGE_LOOP) return AN_OK;
    for (uint32_t s = 1; s <= n; s++) {
        const size_t r = an_dag_range_at(&c->d, an_uop_src(c->g, u, s));
        const int64_t bound = bound_at(c, r);
        if (bound < 1 || kind_at(c, r) != AN_RANGE_REDUCE || all > INT32_MAX / bound) return AN_OK;
        all *= bound;
        if (bound > longest) longest = bound;
        for (size_t k = 0; k < c->d.order.len; k++) { /* whoever binds it binds them all */
            const an_uop other = c->d.order.data[k];
            bool mine = false;
            for (uint32_t o = 1; an_uop_op(c->g, other) == AN_OP_REDUCE && o < an_uop_nsrc(c->g, other); o++)
                mine = mine || an_uop_eq(an_uop_src(c->g, other, o), c->d.ranges.data[r]);
            if (mine && an_uop_nsrc(c->g, other) != n + 1) return AN_OK;
            for (uint32_t o = 1; mine && o <= n; o++)
                if (!an_uop_eq(an_uop_src(c->g, other, o), an_uop_src(c->g, u, o))) return AN_OK;
        }
        bool along_k = false;
        size_t along = AN_RANGES_MAX;
        const an_status st = walk_of(c, u, r, &along_k, &along);
        if (st) return st;
        if (along_k) *fast = r;
    }
    if (all < ROW_MIN || longest >= JOIN_MAX) return AN_OK;
    for (uint32_t s = 1; s <= n; s++)
        if (an_dag_range_at(&c->d, an_uop_src(c->g, u, s)) != *fast) out[(*nout)++] = an_uop_src(c->g, u, s);
    if (*fast != AN_RANGES_MAX) out[(*nout)++] = c->d.ranges.data[*fast];
    return AN_OK;
}

/* Reductions over several ranges go over one: there are more iterations to deal to threads. */
static an_status join(chooser *c)
{
    an_status st = AN_OK;
    for (size_t i = 0; i < c->d.order.len && !st; i++) {
        an_uop ranges[AN_RANK_MAX];
        uint32_t n = 0;
        size_t fast = AN_RANGES_MAX;
        if (an_uop_op(c->g, c->d.order.data[i]) != AN_OP_REDUCE) continue;
        st = joinable(c, i, ranges, &n, &fast);
        if (st || !n) continue;
        bool lanes = false;
        if (c->njoined == JOINED_MAX) break;
        const uint32_t id = an_range_id(an_uop_arg(c->g, ranges[0])), fast_id = fast == AN_RANGES_MAX ? 0 : id_at(c, fast);
        if (fast != AN_RANGES_MAX && bound_at(c, fast) % 4 == 0) {
            st = apply(c, AN_OPT_VECTOR, fast_id, 4, NULL, &lanes);
            if (st) return st;
            const size_t rest = find(c, fast_id);
            if (rest == AN_RANGES_MAX || kind_at(c, rest) != AN_RANGE_REDUCE)
                n--;
            else
                ranges[n - 1] = c->d.ranges.data[rest];
        }
        for (uint32_t k = 1; k < n && !st; k++) st = apply(c, AN_OPT_JOIN, id, an_range_id(an_uop_arg(c->g, ranges[k])), NULL, &lanes);
        an_trace_note(c->trace, "%u ranges of a reduction are one, %u", n, id);
        if (fast != AN_RANGES_MAX && c->njoined < JOINED_MAX) c->joined[c->njoined++] = n > 1 ? id : an_range_id(an_uop_arg(c->g, ranges[0]));
        i = (size_t)-1; /* positions are new */
    }
    return st;
}

/* In place: may these loops be workgroups? Other elements are read before any is written only in reductions, whose threads are joined
 * before they go on. */
static bool are_apart(const chooser *c, const uint32_t *ids, uint32_t n, const an_rangeset *dealt)
{
    an_rangeset same = {0};
    for (uint32_t i = 0; i < n; i++) {
        if (!an_gpu_is_apart(&c->d, *c->sink, find(c, ids[i]), &same)) return false;
        an_rangeset_add(&same, find(c, ids[i]));
    }
    for (uint32_t s = 0; s < an_uop_nsrc(c->g, *c->sink); s++)
        for (size_t i = 0; i < c->d.order.len; i++) {
            const an_uop load = c->d.order.data[i], store = an_uop_src(c->g, *c->sink, s);
            if (an_uop_op(c->g, load) != AN_OP_LOAD || !an_uop_eq(an_uop_src(c->g, load, 0), an_uop_src(c->g, store, 0))) continue;
            if (!an_uop_eq(an_uop_src(c->g, load, 1), an_uop_src(c->g, store, 1)) && !an_rangeset_meets(&c->d.deps[i], dealt)) return false;
        }
    return true;
}

static an_status rows(chooser *c, bool *done)
{
    an_rangeset outer = {0}, dealt = {0};
    bool any = false, straight = false;
    size_t columns = AN_RANGES_MAX;
    *done = false;
    for (size_t i = 0; i < c->d.order.len; i++) {
        bool along_k = false;
        size_t along = AN_RANGES_MAX;
        if (an_uop_op(c->g, c->d.order.data[i]) != AN_OP_REDUCE) continue;
        const size_t k = long_range(c, i);
        an_rangeset_join(&outer, &c->d.deps[i]);
        if (k == AN_RANGES_MAX) continue;
        const an_status st = walk_of(c, c->d.order.data[i], k, &along_k, &along);
        if (st) return st;
        an_rangeset_add(&dealt, k);
        any = true;
        straight = straight || along_k || is_joined(c, k);
        if (along != AN_RANGES_MAX) columns = along;
    }
    double count = 1;
    uint32_t ids[LOOPS_MAX], inner[LOOPS_MAX], group[AN_RANGES_MAX], n = 0, ninner = 0, ngroup = 0, global = AN_GPU_GLOBAL_ID;
    bool shared = false;
    for (size_t r = 0; r < c->d.ranges.len; r++) {
        if (kind_at(c, r) != AN_RANGE_LOOP) {
            if (an_rangeset_has(&dealt, r)) group[ngroup++] = id_at(c, r);
            continue;
        }
        if (!an_rangeset_has(&outer, r)) {
            if (ninner < LOOPS_MAX) inner[ninner++] = id_at(c, r);
            continue;
        }
        if (n < LOOPS_MAX) ids[n++] = id_at(c, r);
        count *= bound_at(c, r) < 0 ? 64.0 : (double)bound_at(c, r);
        for (size_t k = 0; k < c->d.ranges.len; k++) shared = shared || (an_rangeset_has(&dealt, k) && is_shared(c, k, r));
    }
    if (!any || n == LOOPS_MAX || ninner == LOOPS_MAX || !are_apart(c, ids, n, &dealt)) return AN_OK;
    if (count > (shared ? ROWS_MAX / 4 : ROWS_MAX * 64)) return AN_OK; /* threads enough, and what they read is read by others too */
    if (!straight && (columns == AN_RANGES_MAX || count > ROWS_MAX || bound_at(c, columns) < COLUMN_LANES)) return AN_OK;
    an_status st = AN_OK;
    uint32_t local = 0;
    if (!straight) { /* threads along memory */
        bool ok = false;
        const uint32_t id = id_at(c, columns);
        st = apply(c, AN_OPT_PADTO, id, COLUMN_LANES, &local, &ok);
        if (!st && !ok) return AN_OK;
        if (!st) st = mark(c, local, AN_OPT_LOCAL, AN_GPU_LOCAL_ID);
    }
    for (uint32_t o = 0; o < n && !st; o++) st = mark(c, ids[o], AN_OPT_GLOBAL, global++);
    for (uint32_t o = 0; o < ngroup && !st; o++) st = straight ? deal(c, group[o]) : mark(c, group[o], AN_OPT_DEAL, group[o]);
    size_t longest = AN_RANGES_MAX; /* of what is stored for each row */
    for (uint32_t o = 0; o < ninner && !st; o++) {
        const size_t r = find(c, inner[o]);
        if (longest == AN_RANGES_MAX || bound_at(c, r) < 0 || bound_at(c, r) > bound_at(c, longest)) longest = r;
    }
    if (!st && longest < AN_RANGES_MAX) st = deal(c, id_at(c, longest));
    *done = !st;
    return st;
}

/* The same, several ranges joined first where there are few rows. */
static an_status joined_rows(chooser *c, bool *done)
{
    const an_uop before = *c->sink;
    const size_t nlist = c->list->len;
    double count = 1;
    for (size_t r = 0; r < c->d.ranges.len; r++)
        if (kind_at(c, r) == AN_RANGE_LOOP) count *= bound_at(c, r) > 0 ? (double)bound_at(c, r) : 64.0;
    an_status st = count <= JOIN_ROWS_MAX ? join(c) : AN_OK;
    if (!st) st = rows(c, done);
    if (st || *done || !c->njoined) return st;
    *c->sink = before; /* as if it had not been tried */
    c->list->len = nlist;
    c->njoined = 0;
    return refresh(c);
}

enum { NSHAPES = sizeof shapes / sizeof shapes[0], BEST = 0, FIRST_SHAPE = 1, ROWS = FIRST_SHAPE + NSHAPES, ELEMENTS, FIRST_MATRIX, NWAYS = FIRST_MATRIX + sizeof matrix_shapes / sizeof matrix_shapes[0] };

uint32_t an_gpu_nways(void)
{
    return NWAYS;
}

an_status an_gpu_choose(an_graph *g, an_uop *sink, const an_codegen_opts *opts, uint32_t way, an_trace *trace, an_opt_vec *list)
{
    an_uop now = *sink;
    chooser c = {.g = g, .ctx = an_graph_ctx(g), .sink = &now, .opts = opts, .trace = trace, .list = list};
    bool done = false;
    if (way >= FIRST_SHAPE && way < ROWS) c.only = &shapes[way - FIRST_SHAPE];
    if (way >= FIRST_MATRIX && way < NWAYS) c.only_matrix = &matrix_shapes[way - FIRST_MATRIX];
    c.no_matrix = c.only != NULL;
    an_status st = refresh(&c);
    if (!st && (way == BEST || c.only || c.only_matrix)) st = product(&c, &done);
    if (!st && !done && (way == BEST || way == ROWS)) st = joined_rows(&c, &done);
    if (!st && !done && (way == BEST || way == ELEMENTS)) st = an_opt_choose_lanes(g, &now, opts, trace, list);
    an_dag_fini(&c.d);
    if (!st) *sink = now;
    return st;
}
