/* thread.c - outermost loops that may be split among threads become THREAD ranges.
 *
 * The outermost loop of a store is the first range it varies with. Its iterations store different elements and read none that
 * another one stores, so any of them can run at the same time; the order of sums does not change. A kernel that has
 * something outside such loops (a sum that all elements need) or too little work stays as it is. Scratch is each thread's own:
 * what fills it outside of those loops is done by every thread, in full. */
#include "codegen/dag.h"
#include "codegen/pass.h"
#include "rewrite/bounds.h"
#include "rewrite/rewrite.h"

/* Nodes evaluated, by which splitting is worth waking a thread: some 50 us. */
static const double WORK_MIN = 150e3;

static double work(const an_dag *d)
{
    double sum = 0;
    for (size_t i = 0; i < d->order.len; i++) {
        const an_op op = an_uop_op(d->g, d->order.data[i]);
        if (an_uop_dtype(d->g, d->order.data[i]) == AN_INDEX || op == AN_OP_CONST || op == AN_OP_SINK) continue;
        double n = 1;
        for (size_t r = 0; r < d->ranges.len; r++) {
            if (!an_rangeset_has(&d->deps[i], r)) continue;
            const int64_t bound = an_range_bound(d->g, d->ranges.data[r]);
            n *= bound < 0 ? 64.0 : (double)bound;
        }
        sum += n;
    }
    return sum;
}

/* The outermost ranges of the stores to buffers; false where something runs outside of them. */
static bool outermost(const an_dag *d, an_uop sink, an_rangeset *out)
{
    *out = (an_rangeset){0};
    for (uint32_t i = 0; i < an_uop_nsrc(d->g, sink); i++) {
        const an_uop store = an_uop_src(d->g, sink, i);
        const an_rangeset *deps = an_dag_deps(d, store);
        size_t r = 0;
        if (an_uop_op(d->g, an_uop_src(d->g, store, 0)) == AN_OP_LOCAL) continue;
        while (r < d->ranges.len && !an_rangeset_has(deps, r)) r++;
        if (r == d->ranges.len) return false;
        const an_range_kind kind = an_range_kind_of(an_uop_arg(d->g, d->ranges.data[r]));
        if (kind != AN_RANGE_LOOP && kind != AN_RANGE_THREAD) return false;
        an_rangeset_add(out, r);
    }
    for (size_t i = 0; i < d->order.len; i++)
        if (an_uop_op(d->g, d->order.data[i]) == AN_OP_REDUCE && !an_rangeset_meets(&d->deps[i], out)) return false;
    return true;
}

static bool reads(const an_dag *d, an_uop ptr)
{
    for (size_t i = 0; i < d->order.len; i++)
        if (an_uop_op(d->g, d->order.data[i]) == AN_OP_LOAD && an_uop_eq(an_uop_src(d->g, d->order.data[i], 0), ptr)) return true;
    return false;
}

/* Does u use a minimum that varies with range r: blocks of which the last begins early? */
static bool has_early_block(const an_dag *d, an_uop u, size_t r)
{
    an_uop_vec below = {0};
    bool any = an_toposort(d->g, &u, 1, &below) != AN_OK;
    for (size_t i = 0; i < below.len && !any; i++)
        any = an_uop_op(d->g, below.data[i]) == AN_OP_MIN && an_rangeset_has(an_dag_deps(d, below.data[i]), r);
    an_vec_fini(an_graph_ctx(d->g), &below);
    return any;
}

/* Do iterations of range r store different elements, and read none that another one stores? Elements that two blocks share are computed
 * twice, which is no harm unless they are read, too: then both blocks must lie in one iteration. */
static bool is_independent(const an_dag *d, an_uop store, size_t r)
{
    an_graph *g = d->g;
    const an_uop range = d->ranges.data[r];
    an_uop index = an_uop_src(g, store, 1);
    const int64_t n = an_range_bound(g, range);
    if (!an_rangeset_has(an_dag_deps(d, index), r)) return false;
    if (!reads(d, an_uop_src(g, store, 0)) || !has_early_block(d, index, r)) return true;
    const int64_t lanes = an_uop_op(g, index) == AN_OP_RAMP ? an_uop_lanes(g, index) : 1;
    if (an_uop_op(g, index) == AN_OP_RAMP) index = an_uop_src(g, index, 0);
    if (n < 2) return false;
    int64_t lo = 0, hi = 0, unused = 0;
    const an_uop last = an_index(g, n - 1), before = an_index(g, n - 2);
    const an_uop at_last = an_substitute(g, index, &range, &last, 1), at_before = an_substitute(g, index, &range, &before, 1);
    if (an_uop_is_none(at_last) || an_uop_is_none(at_before)) return false;
    an_bounds(g, at_before, &unused, &hi);
    an_bounds(g, at_last, &lo, &unused);
    return hi < INT64_MAX - lanes && hi + lanes - 1 < lo;
}

static bool are_independent(const an_dag *d, an_uop sink, const an_rangeset *outer)
{
    for (size_t r = 0; r < d->ranges.len; r++)
        for (uint32_t i = 0; an_rangeset_has(outer, r) && i < an_uop_nsrc(d->g, sink); i++) {
            const an_uop store = an_uop_src(d->g, sink, i);
            const bool varies = an_rangeset_has(an_dag_deps(d, store), r) && an_uop_op(d->g, an_uop_src(d->g, store, 0)) != AN_OP_LOCAL;
            if (varies && !is_independent(d, store, r)) return false;
        }
    return true;
}

an_status an_pass_thread(an_graph *g, an_uop *sink)
{
    an_dag d = {0};
    an_rangeset outer;
    an_range_sub subs[AN_RANGES_MAX];
    size_t n = 0;
    an_status st = an_dag_init(&d, g, sink, 1);
    if (!st && work(&d) >= WORK_MIN && outermost(&d, *sink, &outer) && are_independent(&d, *sink, &outer))
        for (size_t r = 0; r < d.ranges.len && !st; r++) {
            const an_uop from = d.ranges.data[r];
            if (!an_rangeset_has(&outer, r)) continue;
            const an_uop to = an_range(g, an_uop_src(g, from, 0), an_range_id(an_uop_arg(g, from)), AN_RANGE_THREAD);
            if (an_uop_is_none(to)) st = an_cg_failed(g);
            subs[n++] = (an_range_sub){from, to, {to, AN_UOP_NONE}, 1};
        }
    if (!st && n) st = an_replace_ranges(g, sink, 1, subs, n);
    an_dag_fini(&d);
    return st;
}
