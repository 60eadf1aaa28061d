/* blocks.c - ranges whose bound is an expression over symbols.
 *
 *   r in 0..n   becomes   o in 0..n // 16, i in 0..16: r is o*16 + i;   and the rest, t in 0..n % 16: r is n // 16 * 16 + t
 *
 * The range over 16 is a constant one, so all that opts do to constants (lanes, register tiles) is done to it; the rest goes into
 * smaller blocks, and what is left one by one. Where the size divides the bound whatever the symbols are there is no rest. Which
 * ranges, and which sizes: those that lanes or tiles want, by how memory is walked; the sizes do not depend on the symbols' values,
 * so that one kernel serves them all. */
#include "codegen/opt.h"
#include "codegen/pass.h"

#include "rewrite/rewrite.h"

enum { LEVELS = 3, NODES_MAX = 500 /* of a kernel that gets another block: each doubles it */ };

/* An id between `from` and the next one that a range has: opts need room there, too. */
static uint32_t free_id_after(const an_dag *d, uint32_t from)
{
    uint32_t next = from + AN_RANGE_ID_STEP;
    for (size_t r = 0; r < d->ranges.len; r++) {
        const uint32_t id = an_range_id(an_uop_arg(d->g, d->ranges.data[r]));
        if (id > from && id < next) next = id;
    }
    return from + (next - from) / 2;
}

static bool is_symbolic(const an_graph *g, an_uop range)
{
    const an_range_kind kind = an_range_kind_of(an_uop_arg(g, range));
    return an_range_bound(g, range) < 0 && (kind == AN_RANGE_LOOP || kind == AN_RANGE_REDUCE);
}

/* The range in blocks of size. *rest: the id of the range over what is left, 0 where nothing is. */
static an_status in_blocks(an_dag *d, an_uop *sink, size_t r, int64_t size, uint32_t *rest)
{
    an_graph *g = d->g;
    const an_uop range = d->ranges.data[r], bound = an_uop_src(g, range, 0), by = an_index(g, size);
    const uint64_t arg = an_uop_arg(g, range);
    const uint32_t id = an_range_id(arg), inner_id = free_id_after(d, id), rest_id = free_id_after(d, inner_id);
    const an_range_kind kind = an_range_kind_of(arg);
    an_uop count = AN_UOP_NONE, left = an_index(g, 0);
    if (!an_dim_divides(g, bound, by, &count)) {
        count = an_simplify(g, an_binary(g, AN_OP_FLOORDIV, bound, by));
        left = an_simplify(g, an_binary(g, AN_OP_FLOORMOD, bound, by));
    }
    if (an_uop_is_none(count) || an_uop_is_none(left)) return an_cg_failed(g);
    const an_uop outer = an_range(g, count, id, kind), inner = an_range(g, by, inner_id, kind), over = an_range(g, left, rest_id, kind);
    const an_uop at = an_idx_add(g, an_idx_mul(g, outer, by), inner), behind = an_idx_add(g, an_idx_mul(g, count, by), over);
    const an_range_sub subs[2] = {{range, at, {outer, inner}, 2}, {range, behind, {over, AN_UOP_NONE}, 1}};
    if (an_uop_is_none(at) || an_uop_is_none(behind)) return an_cg_failed(g);
    const bool whole = an_uop_is_int(g, left, 0);
    *rest = whole ? 0 : rest_id;
    return whole ? an_replace_ranges(g, sink, 1, subs, 1) : an_opt_in_parts(d, sink, r, subs, 2);
}

/* --- cuts: a reshape was stored flat -------------------------------------------------------------------------------- */

/* A symbolic range whose quotient or remainder by a divisor of its bound is used. */
static bool find_cut(an_dag *d, size_t *r, int64_t *size)
{
    an_graph *g = d->g;
    for (size_t i = 0; i < d->order.len; i++) {
        const an_uop u = d->order.data[i];
        const an_op op = an_uop_op(g, u);
        an_uop q = AN_UOP_NONE;
        if ((op != AN_OP_FLOORDIV && op != AN_OP_FLOORMOD) || !an_uop_int(g, an_uop_src(g, u, 1), size) || *size < 2) continue;
        const an_uop range = an_uop_src(g, u, 0);
        if (an_uop_op(g, range) != AN_OP_RANGE || !is_symbolic(g, range)) continue;
        if (!an_dim_divides(g, an_uop_src(g, range, 0), an_index(g, *size), &q)) continue;
        *r = an_dag_range_at(d, range);
        return true;
    }
    return false;
}

an_status an_pass_cut_symbolic(an_graph *g, an_uop *sink, an_trace *trace)
{
    const an_ruleset *set = &an_rules_symbolic;
    an_uop now = *sink;
    an_status st = AN_OK;
    for (bool again = true; again && !st;) { /* each removes a division, and a bound has few divisors */
        an_dag d = {0};
        size_t r = 0;
        int64_t size = 0;
        uint32_t rest = 0;
        st = an_dag_init(&d, g, &now, 1);
        again = !st && find_cut(&d, &r, &size);
        if (again) st = in_blocks(&d, &now, r, size, &rest);
        an_dag_fini(&d);
        if (again && !st) st = an_rewrite(g, &set, 1, &now, 1, trace, NULL, "simplify");
    }
    if (!st) *sink = now;
    return st;
}

/* --- blocks ----------------------------------------------------------------------------------------------------------- */

/* How a range is used by what varies with it. */
typedef struct use {
    bool any_by_one, all_by_one; /* accesses step by one element */
    bool shares;       /* a load inside a reduction does not vary with it, and the reduction does: a tile would share the load */
    size_t widest;     /* bytes of an element accessed */
} use;

static bool is_inside(const an_dag *d, size_t i, an_uop reduce)
{
    for (uint32_t s = 1; s < an_uop_nsrc(d->g, reduce); s++)
        if (an_rangeset_has(&d->deps[i], an_dag_range_at(d, an_uop_src(d->g, reduce, s)))) return true;
    return false;
}

static use use_of(const an_dag *d, size_t r, int64_t *coef)
{
    const an_graph *g = d->g;
    use u = {.all_by_one = true};
    an_dag_coefs(d, r, coef);
    for (size_t i = 0; i < d->order.len; i++) {
        const an_uop x = d->order.data[i];
        const an_op op = an_uop_op(g, x);
        if (op == AN_OP_REDUCE && an_range_kind_of(an_uop_arg(g, d->ranges.data[r])) == AN_RANGE_LOOP && an_rangeset_has(&d->deps[i], r)) {
            for (size_t k = 0; k < i && !u.shares; k++)
                u.shares = an_uop_op(g, d->order.data[k]) == AN_OP_LOAD && !an_rangeset_has(&d->deps[k], r) && is_inside(d, k, x);
        }
        if ((op != AN_OP_LOAD && op != AN_OP_STORE) || !an_rangeset_has(&d->deps[i], r)) continue;
        const size_t nbytes = an_dtype_nbytes(an_uop_dtype(g, an_uop_src(g, x, 0)));
        if (nbytes > u.widest) u.widest = nbytes;
        const bool by_one = coef[an_dag_pos(d, an_uop_src(g, x, 1))] == 1;
        u.any_by_one = u.any_by_one || by_one;
        u.all_by_one = u.all_by_one && by_one;
    }
    return u;
}

/* Sizes for a range: blocks of the first, of what is left blocks of the next. 0: no more. */
static void choose_sizes(const use *u, bool reduces, uint32_t vector_nbytes, int64_t sizes[LEVELS])
{
    const int64_t native = u->widest ? (int64_t)(vector_nbytes / u->widest) : 0;
    for (int i = 0; i < LEVELS; i++) sizes[i] = 0;
    if ((reduces ? u->any_by_one && u->all_by_one : u->any_by_one) && native >= 4) {
        const int64_t few = native >= 16 ? native / 4 : native / 2;
        int level = 0;
        if (reduces) sizes[level++] = 4 * native; /* vectors side by side hide the latency of an add */
        sizes[level++] = u->shares ? 2 * native : native;
        if (few >= 4) sizes[level] = few;
    } else if (u->shares) {
        sizes[0] = vector_nbytes >= 64 ? 8 : 6; /* rows of a register tile */
    }
}

/* A range that waits for its next block. */
typedef struct waiting {
    uint32_t id;
    int64_t sizes[LEVELS];
} waiting;
typedef AN_VEC(waiting) waiting_vec;

static bool put_waiting(an_dag *d, uint32_t vector_nbytes, waiting_vec *out)
{
    an_ctx *ctx = an_graph_ctx(d->g);
    const size_t nbytes = d->order.len * sizeof(int64_t);
    int64_t *coef = an_mem_alloc(ctx, nbytes);
    bool ok = coef != NULL;
    for (size_t r = 0; ok && r < d->ranges.len; r++) {
        const an_uop range = d->ranges.data[r];
        if (!is_symbolic(d->g, range)) continue;
        const use u = use_of(d, r, coef);
        waiting w = {.id = an_range_id(an_uop_arg(d->g, range))};
        choose_sizes(&u, an_range_kind_of(an_uop_arg(d->g, range)) == AN_RANGE_REDUCE, vector_nbytes, w.sizes);
        ok = !w.sizes[0] || an_vec_push(ctx, out, w);
    }
    an_mem_free(ctx, coef, nbytes);
    return ok;
}

an_status an_pass_blocks(an_graph *g, an_uop *sink, const an_codegen_opts *opts, an_trace *trace)
{
    an_ctx *ctx = an_graph_ctx(g);
    an_uop now = *sink;
    waiting_vec list = {0};
    an_dag d = {0};
    an_status st = opts->vector_nbytes ? an_dag_init(&d, g, &now, 1) : AN_OK;
    if (!st && opts->vector_nbytes && !put_waiting(&d, opts->vector_nbytes, &list)) st = AN_ERR_NOMEM;
    an_dag_fini(&d);
    for (size_t i = 0; i < list.len && !st; i++) {
        const waiting w = list.data[i];
        int64_t lo = 0, hi = 0;
        size_t r = 0;
        uint32_t rest = 0;
        st = an_dag_init(&d, g, &now, 1);
        while (!st && r < d.ranges.len && an_range_id(an_uop_arg(g, d.ranges.data[r])) != w.id) r++;
        if (!st && r < d.ranges.len) an_bounds(g, an_uop_src(g, d.ranges.data[r], 0), &lo, &hi);
        int level = 0;
        /* At least two may be full: the loop over one alone is no loop to the rules, and what is inside would be loaded even if it
         * does not run. */
        while (level < LEVELS && w.sizes[level] > hi / 2) level++;
        const int64_t size = level < LEVELS ? w.sizes[level] : 0;
        if (!st && size >= 2 && r < d.ranges.len && d.order.len <= NODES_MAX) {
            st = in_blocks(&d, &now, r, size, &rest);
            an_trace_note(trace, "range %u in blocks of %lld", w.id, (long long)size);
        }
        waiting next = {.id = rest};
        for (int k = 0; k + level + 1 < LEVELS; k++) next.sizes[k] = w.sizes[k + level + 1];
        if (!st && rest && next.sizes[0] && !an_vec_push(ctx, &list, next)) st = AN_ERR_NOMEM;
        an_dag_fini(&d);
    }
    const an_ruleset *set = &an_rules_symbolic;
    if (!st && list.len) st = an_rewrite(g, &set, 1, &now, 1, trace, NULL, "simplify");
    an_vec_fini(ctx, &list);
    if (!st) *sink = now;
    return st;
}
