/* opt.c - see opt.h. All but SPLIT cut a range of n into outer * amount + inner, the inner part of another kind:
 *
 *   r: LOOP 0..63   --UPCAST 4-->   r: LOOP 0..15, r': UPCAST 0..3; r is r * 4 + r' wherever it was used
 *
 * expand.c and vector.c then do away with the inner part, but for a CUT. */
#include "codegen/gpu.h"

static const struct {
    const char *name, *what;
} infos[AN_OPT_COUNT] = {
#define AN_OPT(id, name, amount, what) {name, what},
#include "codegen/opts.def"
#undef AN_OPT
};

const char *an_opt_name(an_opt_kind kind)
{
    return infos[kind].name;
}

const char *an_opt_help(an_opt_kind kind)
{
    return infos[kind].what;
}

/* An id between that of the range and the next one's: inner parts and tails nest as the range did. 0: there is no room. */
static uint32_t free_id(const an_dag *d, size_t range)
{
    const uint32_t id = an_range_id(an_uop_arg(d->g, d->ranges.data[range]));
    if (range + 1 == d->ranges.len) return id + AN_RANGE_ID_STEP / 2;
    const uint32_t gap = an_range_id(an_uop_arg(d->g, d->ranges.data[range + 1])) - id;
    return gap < 2 ? 0 : id + gap / 2;
}

/* A range of n elements, or index 0 where n is 1. */
static an_uop range_or_zero(an_graph *g, int64_t n, uint32_t id, an_range_kind kind)
{
    return n == 1 ? an_index(g, 0) : an_range(g, an_index(g, n), id, kind);
}

static an_range_sub sub_of(an_uop from, an_uop to, an_uop a, an_uop b)
{
    return (an_range_sub){from, to, {a, b}, an_uop_is_none(b) ? 1 : 2};
}

/* A value that varies with two VECTOR ranges would need lanes of two kinds. */
static bool meets_vector(const an_dag *d, size_t range)
{
    an_rangeset vectors = {0};
    for (size_t r = 0; r < d->ranges.len; r++)
        if (an_range_kind_of(an_uop_arg(d->g, d->ranges.data[r])) == AN_RANGE_VECTOR) an_rangeset_add(&vectors, r);
    for (size_t i = 0; i < d->order.len; i++) {
        const an_uop u = d->order.data[i];
        an_rangeset all = d->deps[i];
        if (an_uop_op(d->g, u) == AN_OP_SINK) continue;
        for (uint32_t s = 1; an_uop_op(d->g, u) == AN_OP_REDUCE && s < an_uop_nsrc(d->g, u); s++)
            an_rangeset_add(&all, an_dag_range_at(d, an_uop_src(d->g, u, s)));
        if (an_rangeset_has(&all, range) && an_rangeset_meets(&all, &vectors)) return true;
    }
    return false;
}

static an_status split_inner(an_dag *d, an_uop *sink, size_t r, int64_t n, int64_t amount, an_range_kind kind)
{
    an_graph *g = d->g;
    const an_uop range = d->ranges.data[r];
    const uint64_t arg = an_uop_arg(g, range);
    const an_uop inner = an_range(g, an_index(g, amount), free_id(d, r), kind);
    an_range_sub sub = sub_of(range, inner, inner, AN_UOP_NONE);
    if (n > amount) {
        const an_uop outer = an_range(g, an_index(g, n / amount), an_range_id(arg), an_range_kind_of(arg));
        sub = sub_of(range, an_idx_add(g, an_idx_mul(g, outer, an_index(g, amount)), inner), outer, inner);
        if (an_uop_is_none(outer)) return AN_ERR_NOMEM;
    }
    if (an_uop_is_none(inner) || an_uop_is_none(sub.to)) return AN_ERR_NOMEM;
    return an_replace_ranges(g, sink, 1, &sub, 1);
}

an_status an_opt_in_parts(an_dag *d, an_uop *sink, size_t r, const an_range_sub *subs, size_t nsubs)
{
    an_graph *g = d->g;
    an_ctx *ctx = an_graph_ctx(g);
    const an_uop range = d->ranges.data[r];
    an_uop_vec scratch = {0}, stores = {0};
    an_nodemap map = {0};
    an_status st = AN_ERR_NOMEM;
    for (size_t i = 0; i < d->order.len; i++) {
        const an_uop u = d->order.data[i];
        const an_op op = an_uop_op(g, u);
        an_uop v = an_nodemap_rebuild(&map, g, u, &scratch);
        if (an_uop_is_none(v)) goto done;
        bool binds = false;
        for (uint32_t s = 1; op == AN_OP_REDUCE && s < an_uop_nsrc(g, u); s++)
            binds = binds || an_uop_eq(an_uop_src(g, u, s), range);
        if (binds) {
            const an_uop whole = v;
            v = AN_UOP_NONE;
            for (size_t k = 0; k < nsubs; k++) {
                an_uop part = whole;
                st = an_replace_ranges(g, &part, 1, &subs[k], 1);
                if (st) goto done;
                v = k == 0 ? part : an_binary(g, an_reduce_op(an_uop_arg(g, u)), v, part);
            }
            st = AN_ERR_NOMEM;
        } else if (op == AN_OP_SINK && an_range_kind_of(an_uop_arg(g, range)) == AN_RANGE_LOOP) {
            for (uint32_t s = 0; s < an_uop_nsrc(g, v); s++) {
                const bool varies = an_rangeset_has(an_dag_deps(d, an_uop_src(g, u, s)), r);
                for (size_t k = 0; k < (varies ? nsubs : 1); k++) {
                    an_uop part = an_uop_src(g, v, s);
                    if (varies) st = an_replace_ranges(g, &part, 1, &subs[k], 1);
                    if (varies && st) goto done;
                    st = AN_ERR_NOMEM;
                    if (!an_vec_push(ctx, &stores, part)) goto done;
                }
            }
            v = an_sink(g, stores.data, (uint32_t)stores.len);
        }
        if (an_uop_is_none(v) || !an_nodemap_set(&map, ctx, u, v)) goto done;
    }
    *sink = an_nodemap_get(&map, *sink);
    st = AN_OK;
done:
    if (st && an_ctx_status(ctx)) st = an_ctx_status(ctx);
    an_nodemap_fini(&map, ctx);
    an_vec_fini(ctx, &scratch);
    an_vec_fini(ctx, &stores);
    return st;
}

/* Main part and tail of everything that depends on the range. */
static an_status split_tail(an_dag *d, an_uop *sink, size_t r, int64_t n, int64_t amount)
{
    an_graph *g = d->g;
    const uint64_t arg = an_uop_arg(g, d->ranges.data[r]);
    const an_uop range = d->ranges.data[r];
    const an_uop head = range_or_zero(g, amount, an_range_id(arg), an_range_kind_of(arg));
    const an_uop tail = range_or_zero(g, n - amount, free_id(d, r), an_range_kind_of(arg));
    const an_uop at_tail = an_idx_add(g, tail, an_index(g, amount));
    const an_range_sub subs[2] = {sub_of(range, head, head, AN_UOP_NONE), sub_of(range, at_tail, tail, AN_UOP_NONE)};
    if (an_uop_is_none(head) || an_uop_is_none(at_tail)) return AN_ERR_NOMEM;
    return an_opt_in_parts(d, sink, r, subs, 2);
}

/* Partial results: element c of each block of amount goes to the c-th accumulator. */
static an_status group(an_dag *d, an_uop *sink, size_t r, int64_t n, int64_t amount)
{
    an_graph *g = d->g;
    an_range_sub subs[AN_LANES_MAX];
    const an_uop range = d->ranges.data[r];
    const uint64_t arg = an_uop_arg(g, range);
    const an_uop outer = range_or_zero(g, n / amount, an_range_id(arg), AN_RANGE_REDUCE);
    const an_uop first = an_idx_mul(g, outer, an_index(g, amount));
    for (int64_t c = 0; c < amount; c++) {
        const an_uop at = an_idx_add(g, first, an_index(g, c));
        if (an_uop_is_none(at)) return AN_ERR_NOMEM;
        subs[c] = sub_of(range, at, outer, AN_UOP_NONE);
    }
    return an_opt_in_parts(d, sink, r, subs, (size_t)amount);
}

/* The range that amount names, or AN_RANGES_MAX. */
static size_t range_of_id(const an_dag *d, int64_t id)
{
    size_t r = 0;
    while (r < d->ranges.len && an_range_id(an_uop_arg(d->g, d->ranges.data[r])) != id) r++;
    return r < d->ranges.len ? r : AN_RANGES_MAX;
}

/* Half-way between the id of range t and the one before it. 0: there is no room. */
static uint32_t id_before(const an_dag *d, size_t t)
{
    const uint32_t id = an_range_id(an_uop_arg(d->g, d->ranges.data[t]));
    const uint32_t below = t == 0 ? 0 : an_range_id(an_uop_arg(d->g, d->ranges.data[t - 1]));
    return id - below < 2 ? 0 : below + (id - below) / 2;
}

static an_status reorder(an_dag *d, an_uop *sink, size_t r, size_t before)
{
    an_graph *g = d->g;
    const an_uop from = d->ranges.data[r];
    const an_uop to = an_range(g, an_uop_src(g, from, 0), id_before(d, before), an_range_kind_of(an_uop_arg(g, from)));
    const an_range_sub sub = sub_of(from, to, to, AN_UOP_NONE);
    return an_uop_is_none(to) ? AN_ERR_NOMEM : an_replace_ranges(g, sink, 1, &sub, 1);
}

/* Does the kernel read a buffer that a store varying with range r writes? Then elements must not be computed twice, nor in
 * another order unless each reads no element but its own. */
static bool reads_what_it_writes(const an_dag *d, size_t r, bool own_too)
{
    for (size_t i = 0; i < d->order.len; i++) {
        const an_uop store = d->order.data[i];
        if (an_uop_op(d->g, store) != AN_OP_STORE || !an_rangeset_has(&d->deps[i], r)) continue;
        if (an_uop_op(d->g, an_uop_src(d->g, store, 0)) == AN_OP_LOCAL) continue;
        for (size_t k = 0; k < d->order.len; k++) {
            const an_uop load = d->order.data[k];
            if (an_uop_op(d->g, load) != AN_OP_LOAD || !an_uop_eq(an_uop_src(d->g, load, 0), an_uop_src(d->g, store, 0))) continue;
            if (own_too || !an_uop_eq(an_uop_src(d->g, load, 1), an_uop_src(d->g, store, 1))) return true;
        }
    }
    return false;
}

/* r = min(outer * amount, n - amount) + inner. */
static an_status pad(an_dag *d, an_uop *sink, size_t r, int64_t n, int64_t amount)
{
    an_graph *g = d->g;
    const an_uop range = d->ranges.data[r];
    const uint64_t arg = an_uop_arg(g, range);
    const an_uop outer = range_or_zero(g, (n + amount - 1) / amount, an_range_id(arg), AN_RANGE_LOOP);
    const an_uop inner = an_range(g, an_index(g, amount), free_id(d, r), AN_RANGE_LOOP);
    an_uop at = an_idx_mul(g, outer, an_index(g, amount));
    if (an_uop_is_none(outer) || an_uop_is_none(inner) || an_uop_is_none(at)) return AN_ERR_NOMEM;
    const an_status st = n % amount && reads_what_it_writes(d, r, true) ? an_opt_overlap(d, sink, r, at) : AN_OK;
    if (st) return st;
    if (n % amount) at = an_binary(g, AN_OP_MIN, at, an_index(g, n - amount));
    const an_range_sub sub = sub_of(range, an_idx_add(g, at, inner), outer, inner);
    return an_uop_is_none(sub.to) ? AN_ERR_NOMEM : an_replace_ranges(g, sink, 1, &sub, 1);
}

uint32_t an_opt_new_id(const an_dag *d, an_opt opt)
{
    const size_t r = range_of_id(d, opt.kind == AN_OPT_ORDER ? opt.amount : opt.range);
    if (r == AN_RANGES_MAX) return 0;
    return opt.kind == AN_OPT_ORDER ? id_before(d, r) : free_id(d, r);
}

static bool has_scratch(const an_dag *d, an_uop range)
{
    for (size_t i = 0; i < d->order.len; i++)
        for (uint32_t s = 0; an_uop_op(d->g, d->order.data[i]) == AN_OP_LOCAL && s < an_uop_nsrc(d->g, d->order.data[i]); s++)
            if (an_uop_eq(an_uop_src(d->g, d->order.data[i], s), range)) return true;
    return false;
}

/* Does r decide what is in a tile of workgroup memory? */
static bool fills_tiles(const an_dag *d, size_t r)
{
    for (size_t i = 0; i < d->order.len; i++) {
        const an_uop u = d->order.data[i];
        if (an_uop_op(d->g, u) == AN_OP_REDUCE && an_reduce_op(an_uop_arg(d->g, u)) == AN_OP_BARRIER && an_rangeset_has(&d->deps[i], r)) return true;
    }
    return false;
}

/* Is r the loop over passes of a CARRY, which some store goes along with in one place? */
static bool is_carried(const an_dag *d, an_uop sink, size_t r)
{
    for (uint32_t s = 0; s < an_uop_nsrc(d->g, sink); s++) {
        const an_uop store = an_uop_src(d->g, sink, s);
        if (an_uop_op(d->g, an_uop_src(d->g, store, 0)) == AN_OP_LOCAL) continue;
        if (an_rangeset_has(an_dag_deps(d, store), r) && !an_rangeset_has(an_dag_deps(d, an_uop_src(d->g, store, 1)), r)) return true;
    }
    return false;
}

/* Does every reduction over one of the two ranges go over both? */
static bool are_bound_together(const an_dag *d, size_t a, size_t b)
{
    for (size_t i = 0; i < d->order.len; i++) {
        const an_uop u = d->order.data[i];
        bool has_a = false, has_b = false;
        for (uint32_t s = 1; an_uop_op(d->g, u) == AN_OP_REDUCE && s < an_uop_nsrc(d->g, u); s++) {
            has_a = has_a || an_uop_eq(an_uop_src(d->g, u, s), d->ranges.data[a]);
            has_b = has_b || an_uop_eq(an_uop_src(d->g, u, s), d->ranges.data[b]);
        }
        if (has_a != has_b) return false;
    }
    return true;
}

/* Is some range spread over a GPU, is there scratch? */
static bool is_spread(const an_dag *d)
{
    for (size_t r = 0; r < d->ranges.len; r++) {
        const an_range_kind kind = an_range_kind_of(an_uop_arg(d->g, d->ranges.data[r]));
        if (kind == AN_RANGE_GLOBAL || kind == AN_RANGE_LOCAL || kind == AN_RANGE_GROUP) return true;
    }
    return false;
}

static bool has_locals(const an_dag *d)
{
    for (size_t i = 0; i < d->order.len; i++)
        if (an_uop_op(d->g, d->order.data[i]) == AN_OP_LOCAL) return true;
    return false;
}

/* Of what spreads a kernel over a GPU. */
static const char *refusal_on_gpu(const an_dag *d, size_t r, an_opt opt, int64_t n)
{
    const an_range_kind kind = an_range_kind_of(an_uop_arg(d->g, d->ranges.data[r]));
    const int64_t first = opt.kind == AN_OPT_GLOBAL ? AN_GPU_GLOBAL_ID : AN_GPU_LOCAL_ID;
    const int64_t below = opt.kind == AN_OPT_GLOBAL ? AN_GPU_LOCAL_ID : 2 * AN_GPU_LOCAL_ID;
    const size_t other = range_of_id(d, opt.amount);
    if (has_locals(d)) return "the kernel has scratch, filled by its loops as they are";
    switch (opt.kind) {
    case AN_OPT_GLOBAL:
    case AN_OPT_LOCAL:
        if (kind != AN_RANGE_LOOP) return "that is for loops over outputs only";
        return opt.amount < first || opt.amount >= below || other != AN_RANGES_MAX ? "that id is not free for it" : NULL;
    case AN_OPT_DEAL: return kind != AN_RANGE_LOOP && kind != AN_RANGE_REDUCE ? "it is the inner part of an opt already" : other != r ? "that is not its id" : NULL;
    case AN_OPT_JOIN:
        if (other == AN_RANGES_MAX || other == r) return "there is no such range to make one with";
        if (kind != AN_RANGE_REDUCE && kind != AN_RANGE_LOOP) return "it is the inner part of an opt already";
        if (an_range_kind_of(an_uop_arg(d->g, d->ranges.data[other])) != kind) return "the other one is of another kind";
        if (kind == AN_RANGE_LOOP && (reads_what_it_writes(d, r, true) || reads_what_it_writes(d, other, true))) return "the kernel reads what it writes";
        if (n < 1 || an_range_bound(d->g, d->ranges.data[other]) < 1 || n > INT32_MAX / an_range_bound(d->g, d->ranges.data[other])) return "its bound is no constant";
        return are_bound_together(d, r, other) ? NULL : "a reduction goes over one of them alone";
    default: return NULL; /* TILE, FILL and MATRIX find out on the way */
    }
}

static const char *refusal(const an_dag *d, an_uop sink, size_t r, an_opt opt, int64_t n)
{
    if (r == AN_RANGES_MAX) return "there is no such range";
    const an_range_kind kind = an_range_kind_of(an_uop_arg(d->g, d->ranges.data[r]));
    const bool loop = kind == AN_RANGE_LOOP, reduce = kind == AN_RANGE_REDUCE, divides = n > 0 && opt.amount > 0 && n % opt.amount == 0;
    static const char only_loops[] = "that is for loops over outputs only", only_reduces[] = "that is for reductions only";
    static const char indivisible[] = "its bound is not divisible", two_kinds[] = "a value that depends on it is a vector already";
    static const char many_lanes[] = "that is more lanes than a vector may have", in_place[] = "the kernel reads what it writes";
    static const char no_room[] = "there is no id left beside it", spread[] = "the kernel is spread over workgroups and threads";
    if (opt.kind >= AN_OPT_GLOBAL && opt.kind <= AN_OPT_MATRIX) return refusal_on_gpu(d, r, opt, n);
    if (!loop && !reduce) return "it is the inner part of an opt already";
    if (has_scratch(d, d->ranges.data[r])) return "each of its iterations has a copy in scratch";
    if (fills_tiles(d, r)) return "each of its iterations fills tiles anew";
    if (opt.kind == AN_OPT_ORDER) {
        const size_t before = range_of_id(d, opt.amount);
        if (!loop) return only_loops;
        if (before == AN_RANGES_MAX || before == r) return "there is no such range to move it out of";
        if (id_before(d, before) == 0) return no_room;
        for (size_t k = before; k < r; k++) /* scratch is filled inside its loops and in no others */
            if (has_scratch(d, d->ranges.data[k])) return "a range that it would move out of has a copy in scratch in each iteration";
        return reads_what_it_writes(d, r, false) ? in_place : NULL;
    }
    if (n < 0) return "its bound is no constant";
    if (loop && is_carried(d, sink, r)) return "its iterations go on from one another";
    if (opt.kind != AN_OPT_PACK && opt.kind != AN_OPT_KEEP && opt.kind != AN_OPT_GROUP && free_id(d, r) == 0) return no_room;
    if (opt.amount < (opt.kind == AN_OPT_SPLIT ? 1 : 2)) return "there is nothing to cut";
    switch (opt.kind) {
    case AN_OPT_SPLIT: return opt.amount < n ? NULL : "there is no tail";
    case AN_OPT_UPCAST: return !loop ? only_loops : divides ? NULL : indivisible;
    case AN_OPT_UNROLL: return !reduce ? only_reduces : divides ? NULL : indivisible;
    case AN_OPT_GROUP:
        if (opt.amount > AN_LANES_MAX) return "that is more partial results than there may be";
        return !reduce ? only_reduces : divides ? NULL : indivisible;
    case AN_OPT_VECTOR: return !divides ? indivisible : opt.amount > AN_LANES_MAX ? many_lanes : meets_vector(d, r) ? two_kinds : NULL;
    case AN_OPT_CUT: return divides ? NULL : indivisible;
    case AN_OPT_PADTO:
        if (!loop) return only_loops;
        if (opt.amount > n) return "it has fewer elements";
        if (divides || !reads_what_it_writes(d, r, true)) return NULL;
        return reads_what_it_writes(d, r, false) || !an_opt_can_overlap(d, sink, r) ? in_place : NULL;
    case AN_OPT_CARRY: return !reduce ? only_reduces : is_spread(d) ? spread : divides ? NULL : indivisible;
    case AN_OPT_PACK: return !loop ? only_loops : is_spread(d) ? spread : NULL;
    case AN_OPT_KEEP: return !reduce ? only_reduces : is_spread(d) ? spread : NULL;
    case AN_OPT_GLOBAL:
    case AN_OPT_LOCAL:
    case AN_OPT_DEAL:
    case AN_OPT_JOIN:
    case AN_OPT_FILL:
    case AN_OPT_TILE:
    case AN_OPT_MATRIX:
    case AN_OPT_ORDER:
    case AN_OPT_COUNT: break;
    }
    return "there is no such opt";
}

an_status an_opt_apply(an_graph *g, an_uop *sink, an_opt opt, const char **why)
{
    an_dag d = {0};
    an_status st = an_dag_init(&d, g, sink, 1);
    if (st) goto done;
    const size_t r = range_of_id(&d, opt.range);
    const int64_t n = r == AN_RANGES_MAX ? -1 : an_range_bound(g, d.ranges.data[r]);
    *why = refusal(&d, *sink, r, opt, n);
    if (*why) goto done;
    switch (opt.kind) {
    case AN_OPT_UPCAST: st = split_inner(&d, sink, r, n, opt.amount, AN_RANGE_UPCAST); break;
    case AN_OPT_UNROLL: st = split_inner(&d, sink, r, n, opt.amount, AN_RANGE_UNROLL); break;
    case AN_OPT_GROUP: st = group(&d, sink, r, n, opt.amount); break;
    case AN_OPT_VECTOR: st = split_inner(&d, sink, r, n, opt.amount, AN_RANGE_VECTOR); break;
    case AN_OPT_CUT: st = split_inner(&d, sink, r, n, opt.amount, an_range_kind_of(an_uop_arg(g, d.ranges.data[r]))); break;
    case AN_OPT_PADTO: st = pad(&d, sink, r, n, opt.amount); break;
    case AN_OPT_SPLIT: st = split_tail(&d, sink, r, n, opt.amount); break;
    case AN_OPT_PACK: st = an_opt_pack(&d, sink, r, opt.amount, why); break;
    case AN_OPT_CARRY: st = an_opt_carry(&d, sink, r, free_id(&d, r), opt.amount, why); break;
    case AN_OPT_KEEP: st = an_opt_keep(&d, sink, r, opt.amount, why); break;
    case AN_OPT_ORDER: st = reorder(&d, sink, r, range_of_id(&d, opt.amount)); break;
    case AN_OPT_GLOBAL: st = an_gpu_mark(g, sink, d.ranges.data[r], AN_RANGE_GLOBAL, (uint32_t)opt.amount); break;
    case AN_OPT_LOCAL: st = an_gpu_mark(g, sink, d.ranges.data[r], AN_RANGE_LOCAL, (uint32_t)opt.amount); break;
    case AN_OPT_DEAL: st = an_gpu_mark(g, sink, d.ranges.data[r], AN_RANGE_GROUP, opt.range); break;
    case AN_OPT_JOIN: st = an_gpu_join(g, sink, d.ranges.data[r], d.ranges.data[range_of_id(&d, opt.amount)]); break;
    case AN_OPT_FILL: st = an_gpu_fill(g, sink, opt.range, opt.amount, why); break;
    case AN_OPT_TILE: st = an_gpu_tile(g, sink, opt.range, opt.amount, false, why); break;
    case AN_OPT_MATRIX: st = an_gpu_matrix(g, sink, opt.range, opt.amount, why); break;
    case AN_OPT_COUNT: break;
    }
done:
    an_dag_fini(&d);
    return st;
}
