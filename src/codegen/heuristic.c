/* heuristic.c - which opts a kernel gets, from shapes and strides alone: the same kernel always gets the same.
 *
 *   0. A product of two operands gets tiles, and scratch (product.c).
 *      A sum down the columns of a large matrix walks some rows side by side (stream.c).
 *      What reads along one output range and writes along another is turned in blocks (turn.c).
 *   1. Lanes over outputs: a LOOP range that every store and load which depends on it walks with stride 1.
 *   2. Lanes over a reduction: for reductions that 1 left scalar, a range that all their loads walk with stride 1.
 *      Then lanes over outputs again, where only stores are strided: of long reductions, and of transposes; and where loads go in
 *      steps of a few elements: those are read whole (coalesce.c). Of windows, which are short reductions, before 2.
 *      A bound that is no multiple of the lanes is SPLIT into a main part and a tail.
 *   3. Register tile: where a load inside the dominant reduction does not depend on an output range, copies along that
 *      range share the load. Two ranges and their factors are chosen by the cost of a step of the loop below.
 *   4. Reductions over a few elements are unrolled (3x3 convolutions).
 * Other strided and gathering loads keep their range scalar: a vector of them costs as much as the scalars do. */
#include "codegen/gpu.h"
#include "codegen/tune.h"

enum {
    TAILS_MAX = 400,       /* of a kernel that may still get a tail of a tail */
    UNROLL_MAX = 4,        /* elements of a reduction written out */
    FACTOR_MAX = 8,
    L1_NBYTES = 32 << 10, L2_NBYTES = 512 << 10, /* where the device does not say */
    WIDE = 4               /* vectors side by side that hide the latency of an add */
};

typedef an_tuner tuner;

/* SPLIT where the bound is no multiple, then the opt on the main part. A tail of one element would have no loop, and what is outside of loops
 * keeps threads from sharing the rest: then the last block begins early, if it may. */
static an_status apply_with_tail(tuner *t, an_opt_kind kind, uint32_t range, int64_t n, int64_t amount, bool *done)
{
    if (kind == AN_OPT_UPCAST && n % amount == 1 && t->gpu_threads == 0) {
        uint32_t inner = 0;
        bool blocked = false;
        const an_status st = an_tune_block(t, range, amount, &inner, &blocked);
        if (st || blocked) return st ? st : an_tune_apply(t, kind, inner, amount, done);
    }
    if (n % amount) {
        const an_status st = an_tune_apply(t, AN_OPT_SPLIT, range, n - n % amount, done);
        if (st || !*done) return st;
    }
    return an_tune_apply(t, kind, range, amount, done);
}

/* The last block begins early where the bound is no multiple, if it may. */
static an_status apply_in_blocks(tuner *t, uint32_t range, int64_t lanes, bool *done)
{
    uint32_t inner = 0;
    const int64_t n = an_tune_bound(t, an_tune_range_at(t, range));
    const an_status st = an_tune_block(t, range, lanes, &inner, done);
    if (st) return st;
    return *done ? an_tune_apply(t, AN_OPT_VECTOR, inner, lanes, done) : apply_with_tail(t, AN_OPT_VECTOR, range, n, lanes, done);
}

double an_tune_nodes(const an_tuner *t, size_t a, double fa, size_t b, double fb)
{
    double sum = 0;
    for (size_t i = 0; i < t->d.order.len; i++) {
        const an_rangeset *deps = &t->d.deps[i];
        double n = 1;
        for (size_t r = 0; r < t->d.ranges.len; r++) {
            if (!an_rangeset_has(deps, r)) continue;
            if (an_tune_kind(t, r) == AN_RANGE_UPCAST || an_tune_kind(t, r) == AN_RANGE_UNROLL)
                n *= (double)an_range_bound(t->g, t->d.ranges.data[r]);
            if (r == a) n *= fa;
            if (r == b) n *= fb;
        }
        sum += n;
    }
    return sum;
}

/* Lanes of the native vector for what depends on range r: by the widest element moved. 0: no element is. */
static int64_t native_lanes(const tuner *t, size_t r)
{
    size_t widest = 0;
    for (size_t i = 0; i < t->d.order.len; i++) {
        const an_uop u = t->d.order.data[i];
        const an_op op = an_uop_op(t->g, u);
        if (!an_rangeset_has(&t->d.deps[i], r) || (op != AN_OP_LOAD && op != AN_OP_STORE)) continue;
        const size_t nbytes = an_dtype_nbytes(an_uop_dtype(t->g, an_uop_src(t->g, u, 0)));
        if (nbytes > widest) widest = nbytes;
    }
    const int64_t lanes = widest ? (int64_t)(t->vector_nbytes / widest) : 0;
    return lanes > AN_LANES_MAX ? AN_LANES_MAX : lanes;
}

static int64_t power_below(int64_t n)
{
    int64_t p = 1;
    while (p * 2 <= n) p *= 2;
    return p;
}

/* Lanes for a range of n: up to wide native vectors where that divides or leaves a short tail, else one, else what fits. */
static int64_t choose_lanes(int64_t n, int64_t native, int64_t wide)
{
    if (n < native) return power_below(n);
    const int64_t half = wide > 1 ? native * wide / 2 : native;
    for (int64_t lanes = native * wide; lanes >= half; lanes /= 2)
        if (lanes <= AN_LANES_MAX && n % lanes == 0) return lanes;
    for (int64_t lanes = native * wide; lanes > native; lanes /= 2)
        if (lanes <= AN_LANES_MAX && n >= 8 * lanes) return lanes;
    for (int64_t lanes = half; lanes >= native; lanes /= 2)
        if (lanes <= AN_LANES_MAX && n % lanes == 0) return lanes;
    if (n % (native / 2) == 0 && native / 2 >= AN_TUNE_LANES_MIN && n < 4 * native) return native / 2;
    return native;
}

/* --- 1 and 2: lanes ---------------------------------------------------------------------------- */

/* Which accesses have to walk a range with stride 1 for it to become lanes. */
typedef enum walk {
    ALL_ACCESSES,
    IN_REDUCTIONS, /* loads that vary with what long reductions bind: they pay for a strided store */
    ALL_LOADS,     /* of a kernel without reductions: a transpose, whose stores touch the same cache lines again and again */
    ALL_STORES,    /* loads may have steps of a few elements */
    IN_WINDOWS     /* likewise, where all that is reduced along is short: lanes along that would be few */
} walk;

static bool is_stepping(walk which)
{
    return which == ALL_STORES || which == IN_WINDOWS;
}

static bool may_step(const tuner *t, an_uop u, int64_t step, walk which)
{
    return is_stepping(which) && an_uop_op(t->g, u) == AN_OP_LOAD && an_uop_nsrc(t->g, u) == 2 && step > 1 && step <= AN_STRIDE_MAX;
}

/* Every access that which names among the nodes that vary with range r walks it with stride 1, and there is one.
 * inside: the ranges that IN_REDUCTIONS speaks of. */
static bool is_contiguous(const tuner *t, size_t r, walk which, const an_rangeset *inside, int64_t *coef)
{
    bool any = false;
    an_dag_coefs(&t->d, r, coef);
    for (size_t i = 0; i < t->d.order.len; i++) {
        const an_uop u = t->d.order.data[i];
        const an_op op = an_uop_op(t->g, u);
        if (!an_rangeset_has(&t->d.deps[i], r)) continue;
        if (which == ALL_LOADS && op == AN_OP_REDUCE) return false;
        if (op != AN_OP_LOAD && (op != AN_OP_STORE || which == ALL_LOADS)) continue;
        if (which == IN_REDUCTIONS && !an_rangeset_meets(&t->d.deps[i], inside)) continue;
        const int64_t step = coef[an_dag_pos(&t->d, an_uop_src(t->g, u, 1))];
        if (step != 1 && !may_step(t, u, step, which)) return false;
        any = true;
    }
    return any;
}

static bool binds(const tuner *t, an_uop u, an_uop range)
{
    if (an_uop_op(t->g, u) != AN_OP_REDUCE) return false;
    for (uint32_t s = 1; s < an_uop_nsrc(t->g, u); s++)
        if (an_uop_eq(an_uop_src(t->g, u, s), range)) return true;
    return false;
}

bool an_tune_is_load_inside(const an_tuner *t, size_t i, an_uop reduce)
{
    if (an_uop_op(t->g, t->d.order.data[i]) != AN_OP_LOAD) return false;
    for (uint32_t s = 1; s < an_uop_nsrc(t->g, reduce); s++)
        if (an_rangeset_has(&t->d.deps[i], an_dag_range_at(&t->d, an_uop_src(t->g, reduce, s)))) return true;
    return false;
}

/* A LOOP range that some load inside a reduction over range r does not vary with, but the reduction does: copies along
 * it would share that load. */
static bool is_shared_along(const tuner *t, an_uop reduce, size_t loop)
{
    const size_t value = an_dag_pos(&t->d, an_uop_src(t->g, reduce, 0));
    if (an_tune_kind(t, loop) != AN_RANGE_LOOP || !an_rangeset_has(&t->d.deps[value], loop)) return false;
    for (size_t i = 0; i <= value; i++)
        if (an_tune_is_load_inside(t, i, reduce) && !an_rangeset_has(&t->d.deps[i], loop)) return true;
    return false;
}

static bool may_tile(const tuner *t, an_uop range)
{
    for (size_t i = 0; i < t->d.order.len; i++)
        if (binds(t, t->d.order.data[i], range))
            for (size_t r = 0; r < t->d.ranges.len; r++)
                if (is_shared_along(t, t->d.order.data[i], r)) return true;
    return false;
}

/* Is a function by polynomials computed in each iteration of range r? Then there is no latency left to hide, and wider vectors would only
 * take registers. */
static bool is_dear_in(const tuner *t, size_t r)
{
    for (size_t i = 0; i < t->d.order.len; i++)
        if (an_opt_is_dear(an_uop_op(t->g, t->d.order.data[i])) && an_rangeset_has(&t->d.deps[i], r)) return true;
    return false;
}

/* Is there a reduction inside what varies with LOOP range r, that copies along another range would not serve? Then wide
 * vectors have to hide its latency. */
static bool wants_width(const tuner *t, size_t r)
{
    bool reduces = false;
    for (size_t i = 0; i < t->d.order.len; i++) {
        const an_uop u = t->d.order.data[i];
        if (an_uop_op(t->g, u) != AN_OP_REDUCE || !an_rangeset_has(&t->d.deps[i], r)) continue;
        reduces = true;
        for (size_t k = 0; k < t->d.ranges.len; k++)
            if (is_shared_along(t, u, k)) return false;
    }
    return reduces;
}

/* Does the kernel do next to nothing with what it loads? Then memory is what it waits for, and wider steps fetch more of it at
 * once. */
static bool is_light(const tuner *t)
{
    enum { LIGHT = 3 };
    int n = 0;
    for (size_t i = 0; i < t->d.order.len; i++) {
        const an_uop u = t->d.order.data[i];
        const an_op op = an_uop_op(t->g, u);
        n += (an_op_has(op, AN_TRAIT_ELEM) && an_uop_dtype(t->g, u) != AN_INDEX) || op == AN_OP_REDUCE;
    }
    return n <= LIGHT;
}

/* The REDUCE ranges of the kernel, if every reduction that varies with LOOP range r is long; empty otherwise. */
static an_rangeset long_reductions(const tuner *t, size_t r)
{
    enum { LONG = 16 };
    an_rangeset all = {0};
    for (size_t i = 0; i < t->d.order.len; i++) {
        const an_uop u = t->d.order.data[i];
        if (an_uop_op(t->g, u) != AN_OP_REDUCE || !an_rangeset_has(&t->d.deps[i], r)) continue;
        int64_t steps = 1;
        for (uint32_t s = 1; s < an_uop_nsrc(t->g, u); s++) {
            const int64_t n = an_range_bound(t->g, an_uop_src(t->g, u, s));
            an_rangeset_add(&all, an_dag_range_at(&t->d, an_uop_src(t->g, u, s)));
            if (n > 0 && steps < LONG) steps *= n;
        }
        if (steps < LONG) return (an_rangeset){0};
    }
    return all;
}

/* Does something that varies with LOOP range r reduce, along ranges of less than n elements only? */
static bool reduces_shortly(const tuner *t, size_t r, int64_t n)
{
    bool any = false;
    for (size_t i = 0; i < t->d.order.len; i++) {
        const an_uop u = t->d.order.data[i];
        if (an_uop_op(t->g, u) != AN_OP_REDUCE || !an_rangeset_has(&t->d.deps[i], r)) continue;
        any = true;
        for (uint32_t s = 1; s < an_uop_nsrc(t->g, u); s++) {
            const int64_t bound = an_range_bound(t->g, an_uop_src(t->g, u, s));
            if (bound < 0 || bound >= n) return false;
        }
    }
    return any;
}

/* The most iterations of LOOP ranges around a store that varies with range r. */
static double iterations(const tuner *t, size_t r)
{
    double most = 0;
    for (uint32_t s = 0; s < an_uop_nsrc(t->g, *t->sink); s++) {
        const an_rangeset *deps = an_dag_deps(&t->d, an_uop_src(t->g, *t->sink, s));
        double n = an_rangeset_has(deps, r) ? 1 : 0;
        for (size_t k = 0; k < t->d.ranges.len; k++)
            if (an_rangeset_has(deps, k) && an_tune_kind(t, k) == AN_RANGE_LOOP) n *= an_tune_bound(t, k) < 0 ? 64.0 : (double)an_tune_bound(t, k);
        if (n > most) most = n;
    }
    return most;
}

/* Tries LOOP ranges from the innermost out, or REDUCE ranges, tails of splits included, until none takes lanes. */
static an_status vectorize(tuner *t, an_range_kind kind, walk which)
{
    an_status st = an_tune_refresh(t);
    bool again = true;
    while (again && !st && t->d.ranges.len <= AN_RANGES_MAX / 4) { /* splits make more */
        again = false;
        int64_t *coef = an_mem_alloc(t->ctx, t->d.order.len * sizeof *coef);
        const size_t coef_nbytes = t->d.order.len * sizeof *coef;
        if (!coef) return AN_ERR_NOMEM;
        for (size_t r = t->d.ranges.len; r-- > 0 && !again && !st;) {
            const an_uop range = t->d.ranges.data[r];
            const int64_t n = an_range_bound(t->g, range), native = native_lanes(t, r);
            if (an_tune_kind(t, r) != kind || n < AN_TUNE_LANES_MIN || native < AN_TUNE_LANES_MIN) continue;
            const an_rangeset inside = which == IN_REDUCTIONS ? long_reductions(t, r) : (an_rangeset){0};
            if (which == IN_WINDOWS && !reduces_shortly(t, r, native)) continue;
            if (!is_contiguous(t, r, which, &inside, coef)) continue;
            if (which == ALL_LOADS && n < native) continue;
            if (t->gpu_threads > 0 && iterations(t, r) < (double)native * t->gpu_threads) continue; /* a thread for each hides more */
            const bool wide = t->gpu_threads > 0 ? false : kind == AN_RANGE_REDUCE ? !may_tile(t, range) && !is_dear_in(t, r) : wants_width(t, r);
            const int64_t lanes = choose_lanes(n, native, !wide || is_stepping(which) ? 1 : kind == AN_RANGE_LOOP && is_light(t) ? 2 * WIDE : WIDE);
            if (t->gpu_threads > 0 && n % lanes && !an_uop_is_none(an_tune_dominant(t))) continue; /* the rest would be one thread's */
            /* A body like that of a random number is worth lanes, and one tail, but not tails of tails. */
            if (n % lanes && n < native && t->d.order.len > TAILS_MAX) continue;
            const char *why = NULL;
            an_uop trial = *t->sink; /* a split is worth it only if lanes follow */
            if (n % lanes == 0) {
                st = an_opt_apply(t->g, &trial, (an_opt){AN_OPT_VECTOR, an_tune_id(t, r), lanes}, &why);
            } else {
                st = an_opt_apply(t->g, &trial, (an_opt){AN_OPT_SPLIT, an_tune_id(t, r), n - n % lanes}, &why);
                if (!st && !why) st = an_opt_apply(t->g, &trial, (an_opt){AN_OPT_VECTOR, an_tune_id(t, r), lanes}, &why);
            }
            if (st || why) continue;
            st = is_stepping(which) ? apply_in_blocks(t, an_tune_id(t, r), lanes, &again) : apply_with_tail(t, AN_OPT_VECTOR, an_tune_id(t, r), n, lanes, &again);
        }
        an_mem_free(t->ctx, coef, coef_nbytes);
    }
    return st;
}

/* --- 3: the register tile ---------------------------------------------------------------------- */

an_uop an_tune_dominant(const an_tuner *t)
{
    an_uop best = AN_UOP_NONE;
    double most = 0;
    for (size_t i = 0; i < t->d.order.len; i++) {
        const an_uop u = t->d.order.data[i];
        if (an_uop_op(t->g, u) != AN_OP_REDUCE) continue;
        const an_rangeset *deps = an_dag_deps(&t->d, an_uop_src(t->g, u, 0));
        double cost = 1;
        for (size_t r = 0; r < t->d.ranges.len; r++) {
            const int64_t n = an_range_bound(t->g, t->d.ranges.data[r]);
            if (an_rangeset_has(deps, r)) cost *= n < 0 ? 64.0 : (double)n;
        }
        if (cost > most) {
            most = cost;
            best = u;
        }
    }
    return best;
}

/* Cycles per element of a tile of fa x fb accumulators, a around b: two multiply-adds a cycle, four cycles of latency, a
 * share of the loop itself, and loads. What varies with b passes by once for each step of a, mostly from L2: 1.5 cycles a
 * vector; the rest stays in L1: half a cycle. (Measured: 8 x 3 beats 2 x 8 by a third at 64 x 784 x 128, twice at 512.) */
static double tile_cost(const tuner *t, an_uop reduce, size_t a, int64_t fa, size_t b, int64_t fb)
{
    const size_t value = an_dag_pos(&t->d, an_uop_src(t->g, reduce, 0));
    double kept = 0, passing = 0;
    const double accs = (double)(fa * fb);
    for (size_t i = 0; i <= value; i++) {
        if (!an_tune_is_load_inside(t, i, reduce)) continue;
        const bool with_a = a != AN_RANGES_MAX && an_rangeset_has(&t->d.deps[i], a);
        const bool with_b = b != AN_RANGES_MAX && an_rangeset_has(&t->d.deps[i], b);
        const double n = (with_a ? (double)fa : 1) * (with_b ? (double)fb : 1);
        if (with_b)
            passing += n;
        else
            kept += n;
    }
    double cycles = 4;
    if (accs / 2 > cycles) cycles = accs / 2;
    if (kept * 0.5 + passing * 1.5 > cycles) cycles = kept * 0.5 + passing * 1.5;
    return (cycles + 1 + passing * 0.1) / accs;
}

/* The cost of a range of n cut by f, whose tail costs tail. */
static double with_tail(double main, double tail, int64_t n, int64_t f)
{
    const double share = (double)(n % f) / (double)n;
    return share > 0 ? main * (1 - share) + tail * share + 0.02 : main;
}

/* Factors of two ranges (indices into dag.ranges; AN_RANGES_MAX: none). */
typedef struct tile_choice {
    size_t a, b;
    int64_t fa, fb;
    double cost;
} tile_choice;

/* The cheapest factors of a and b, if they beat *best. */
static void try_factors(const tuner *t, an_uop reduce, size_t a, size_t b, tile_choice *best)
{
    const int64_t na = an_tune_bound(t, a), nb = an_tune_bound(t, b);
    const int64_t accs_max = t->vector_nbytes >= 64 ? 24 : 12; /* of 32 or 16 registers */
    for (int64_t fa = 1; fa <= FACTOR_MAX && fa <= na; fa++)
        for (int64_t fb = 1; fb <= FACTOR_MAX && fb <= nb; fb++) {
            if (fa * fb > accs_max || (na % fa && na < 4 * fa) || (nb % fb && nb < 4 * fb)) continue;
            double cost = with_tail(tile_cost(t, reduce, a, fa, b, fb), tile_cost(t, reduce, a, 1, b, fb), na, fa);
            cost = with_tail(cost, tile_cost(t, reduce, a, fa, b, 1), nb, fb);
            const bool inner = best->a != AN_RANGES_MAX && a > best->a; /* of two equal ones the inner range: neighbours */
            if (cost >= best->cost + (inner ? 1e-9 : -1e-9)) continue;
            const double tails = (na % fa ? 1.25 : 1.0) * (nb % fb ? 1.25 : 1.0);
            if (an_tune_nodes(t, a, (double)fa, b, (double)fb) * tails > AN_TUNE_NODES_MAX) continue;
            *best = (tile_choice){a, b, fa, fb, cost};
        }
}

static an_status tile(tuner *t)
{
    const an_uop reduce = an_tune_dominant(t);
    size_t axes[AN_RANGES_MAX], n = 0;
    if (an_uop_is_none(reduce)) return AN_OK;
    for (size_t r = 0; r < t->d.ranges.len; r++)
        if (an_tune_bound(t, r) >= 2 && is_shared_along(t, reduce, r)) axes[n++] = r;
    tile_choice best = {AN_RANGES_MAX, AN_RANGES_MAX, 1, 1, 0};
    best.cost = tile_cost(t, reduce, AN_RANGES_MAX, 1, AN_RANGES_MAX, 1) * 0.95; /* what a tile must be worth */
    for (size_t i = 0; i < n; i++) {
        try_factors(t, reduce, axes[i], AN_RANGES_MAX, &best);
        for (size_t j = i + 1; j < n; j++) try_factors(t, reduce, axes[i], axes[j], &best);
    }
    if (best.a == AN_RANGES_MAX) return AN_OK;
    const uint32_t id_a = an_tune_id(t, best.a), id_b = best.b == AN_RANGES_MAX ? 0 : an_tune_id(t, best.b);
    const int64_t na = an_tune_bound(t, best.a), nb = an_tune_bound(t, best.b);
    bool done = false;
    an_status st = AN_OK;
    if (best.fa > 1) st = apply_with_tail(t, AN_OPT_UPCAST, id_a, na, best.fa, &done);
    if (!st && best.fb > 1) st = apply_with_tail(t, AN_OPT_UPCAST, id_b, nb, best.fb, &done);
    return st;
}

/* --- functions by polynomials ------------------------------------------------------------------ */

static an_status keep(tuner *t)
{
    an_status st = an_tune_refresh(t);
    for (size_t r = 0; r < t->d.ranges.len && !st && t->scratch_nbytes; r++) {
        bool done = false;
        if (an_tune_kind(t, r) != AN_RANGE_REDUCE || an_tune_bound(t, r) < AN_TUNE_LANES_MIN || !is_dear_in(t, r)) continue;
        st = an_tune_apply(t, AN_OPT_KEEP, an_tune_id(t, r), t->scratch_nbytes, &done);
    }
    return st;
}

/* --- 4: short reductions ----------------------------------------------------------------------- */

static an_status unroll(tuner *t)
{
    an_status st = AN_OK;
    bool again = true;
    while (again && !st) {
        again = false;
        for (size_t r = t->d.ranges.len; r-- > 0 && !again && !st;) {
            const int64_t n = an_range_bound(t->g, t->d.ranges.data[r]);
            if (an_tune_kind(t, r) != AN_RANGE_REDUCE || n < 2 || n > UNROLL_MAX) continue;
            if (an_tune_nodes(t, r, (double)n, AN_RANGES_MAX, 1) > 0.5 * AN_TUNE_NODES_MAX) continue;
            st = an_tune_apply(t, AN_OPT_UNROLL, an_tune_id(t, r), n, &again);
        }
    }
    return st;
}

/* Steps of a light reduction whose lanes are outputs: each is a row far from the one before. */
static an_status unroll_light(tuner *t)
{
    bool done = false;
    for (size_t r = 0; r < t->d.ranges.len; r++)
        if (an_tune_kind(t, r) == AN_RANGE_REDUCE && is_light(t) && an_tune_bound(t, r) >= 64 && an_tune_bound(t, r) % UNROLL_MAX == 0)
            for (size_t v = 0; v < t->d.ranges.len; v++)
                if (an_tune_kind(t, v) == AN_RANGE_VECTOR) return an_tune_apply(t, AN_OPT_UNROLL, an_tune_id(t, r), UNROLL_MAX, &done);
    return AN_OK;
}

an_status an_opt_choose(an_graph *g, an_uop *sink, const an_codegen_opts *opts, an_trace *trace, an_opt_vec *list)
{
    if (opts->gpu.threads > 0) return an_gpu_choose(g, sink, opts, 0, trace, list);
    if (opts->vector_nbytes == 0) return AN_OK;
    an_uop now = *sink;
    tuner t = {.g = g, .ctx = an_graph_ctx(g), .sink = &now, .trace = trace, .vector_nbytes = opts->vector_nbytes, .scratch_nbytes = opts->scratch_nbytes,
               .l1_nbytes = opts->l1_nbytes ? opts->l1_nbytes : L1_NBYTES, .l2_nbytes = opts->l2_nbytes ? opts->l2_nbytes : L2_NBYTES,
               .threads = opts->threads, .list = list};
    bool is_product = false;
    an_status st = an_tune_product(&t, &is_product);
    bool is_turned = false, is_stream = false;
    if (!st && !is_product) st = an_tune_stream(&t, &is_stream);
    if (!st && !is_product) st = an_tune_turn(&t, &is_turned);
    if (!st && !is_product && !is_turned) st = keep(&t);
    if (!st) st = vectorize(&t, AN_RANGE_LOOP, ALL_ACCESSES);
    if (!st) st = vectorize(&t, AN_RANGE_LOOP, IN_WINDOWS);
    if (!st) st = vectorize(&t, AN_RANGE_REDUCE, ALL_ACCESSES);
    if (!st) st = vectorize(&t, AN_RANGE_LOOP, IN_REDUCTIONS);
    if (!st) st = vectorize(&t, AN_RANGE_LOOP, ALL_LOADS);
    if (!st) st = vectorize(&t, AN_RANGE_LOOP, ALL_STORES);
    if (!st && !is_product && !is_stream) st = tile(&t);
    if (!st && !is_product && !is_stream) st = unroll_light(&t);
    if (!st && !is_product && !is_stream) st = unroll(&t); /* the steps of a product become one loop */
    an_dag_fini(&t.d);
    if (!st) *sink = now;
    return st;
}

an_status an_opt_choose_other(an_graph *g, an_uop sink, const an_codegen_opts *opts, uint32_t number, an_opt_vec *list, bool *more)
{
    *more = opts->gpu.threads > 0 && number + 1 < an_gpu_nways();
    return *more ? an_gpu_choose(g, &sink, opts, number + 1, NULL, list) : AN_OK;
}

an_status an_opt_choose_lanes(an_graph *g, an_uop *sink, const an_codegen_opts *opts, an_trace *trace, an_opt_vec *list)
{
    if (opts->vector_nbytes == 0) return AN_OK;
    an_uop now = *sink;
    enum { UNIT_THREADS = 64 };
    tuner t = {.g = g, .ctx = an_graph_ctx(g), .sink = &now, .trace = trace, .vector_nbytes = opts->vector_nbytes, .list = list,
               .gpu_threads = (double)opts->gpu.units * UNIT_THREADS};
    const an_status st = vectorize(&t, AN_RANGE_LOOP, ALL_ACCESSES);
    an_dag_fini(&t.d);
    if (!st) *sink = now;
    return st;
}

an_status an_pass_opt(an_graph *g, an_uop *sink, const an_codegen_opts *opts, an_trace *trace)
{
    an_opt_vec list = {0};
    an_trace_pass_begin(trace, "opt", g);
    const an_status st = opts->by_hand ? an_opt_apply_list(g, sink, opts->list, opts->nlist) : an_opt_choose(g, sink, opts, trace, &list);
    an_trace_pass_end(trace);
    an_vec_fini(an_graph_ctx(g), &list);
    return st;
}
