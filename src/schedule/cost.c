/* cost.c - what evaluating costs on the device at hand, in ns: operations counted through the loops they sit in.
 *
 * A node at an index tuple is evaluated once for every iteration of the loops it sits in. Codegen puts it at the innermost
 * loop its tuple depends on; loops nest in order, so that loop and every LOOP outside it count, and a reduce range
 * brings the loops its own reduction sits in. Where loops are threads, all of the kernel's count. Index arithmetic, casts and masks are
 * counted as free. */
#include "schedule/sched.h"

#include <math.h>

/* Beyond this many visits a walk gives up and calls the expression dear. */
enum { WALK_MAX = 4096 };
/* A reduction inside another cannot be tiled or vectorised as well as one at output loops. */
static const double NESTED_REDUCE_PENALTY = 4.0;

an_cost an_cost_for(const an_backend *backend)
{
    an_cost c = {.bytes_per_ns = 12, .ops_per_ns = 32, .launch_ns = 1500, .max_buffers = 31, .max_nodes = 400, .cache_nbytes = 2e6,
                 .band_nbytes = 4 << 20, .riding = 3};
    if (backend && strcmp(backend->name, "webgpu") == 0)
        c = (an_cost){.bytes_per_ns = 300, .ops_per_ns = 5000, .launch_ns = 5000, .max_buffers = 8, .max_nodes = 400, .band_nbytes = 32 << 20,
                      .riding = 100, .carrying = 100, .crowding = 0.3, .threads = 8192};
    return c;
}

double an_op_weight(an_op op)
{
    switch (op) {
    case AN_OP_EXP2:
    case AN_OP_LOG2:
    case AN_OP_SIN:
    case AN_OP_ERF: return 8;
    case AN_OP_SQRT:
    case AN_OP_DIV:
    case AN_OP_IDIV:
    case AN_OP_IMOD:
    case AN_OP_FLOORDIV:
    case AN_OP_FLOORMOD: return 4;
    case AN_OP_CAST:
    case AN_OP_BITCAST: return 0;
    default: return an_op_has(op, AN_TRAIT_ELEM) ? 1 : 0;
    }
}

/* Of a symbolic bound the middle of its range, as factors go: for 1..4096 costs are those at 64. */
static double size_of(an_sched *s, an_uop bound)
{
    const an_interval b = an_bounds_get(&s->bounds, bound);
    if (b.hi <= 0) return 0;
    return b.lo == b.hi ? (double)b.hi : sqrt((double)(b.lo < 1 ? 1 : b.lo) * (double)b.hi);
}

double an_range_size(an_sched *s, an_uop range)
{
    return size_of(s, an_uop_src(s->g, range, 0));
}

double an_numel(an_sched *s, an_shape shape)
{
    double n = 1;
    for (uint32_t i = 0; i < shape.rank; i++) n *= size_of(s, shape.dims[i]);
    return n;
}

static bool add_ranges(an_sched *s, an_uop tuple, an_uop_vec *set)
{
    uint32_t n = 0;
    const uint32_t *ranges = an_tuple_ranges(s, tuple, &n);
    for (uint32_t i = 0; i < n; i++) {
        const an_uop r = {ranges[i]};
        if (!an_vec_has(set, r) && !an_vec_push(s->ctx, set, r)) return false;
    }
    return ranges != NULL;
}

/* Adds to set what the ranges in it nest in, in this kernel. */
static bool close_over(an_sched *s, uint32_t kernel, an_uop_vec *set)
{
    for (size_t i = 0; i < set->len; i++) {
        const uint32_t id = an_range_id(an_uop_arg(s->g, set->data[i]));
        const an_uop owner = s->range_owner.data[id];
        if (an_uop_is_none(owner)) {
            const an_uop_vec *loops = &s->kernels.data[kernel].loops;
            for (size_t k = 0; k < loops->len && !an_uop_eq(loops->data[k], set->data[i]); k++)
                if (!an_vec_has(set, loops->data[k]) && !an_vec_push(s->ctx, set, loops->data[k])) return false;
        } else {
            const an_info *info = &s->info[owner.id];
            const an_kern *kern = &s->kernels.data[kernel];
            if (an_uop_eq(kern->node, owner) && !add_ranges(s, kern->tuple, set)) return false;
            for (size_t c = 0; c < info->contexts.len; c++)
                if (info->contexts.data[c].kernel == kernel && !add_ranges(s, info->contexts.data[c].tuple, set))
                    return false;
        }
    }
    return true;
}

double an_sched_evals(an_sched *s, uint32_t kernel, an_uop tuple)
{
    uint32_t known = an_pairmap_get(&s->evals, kernel + 1, tuple.id);
    if (!known && s->on_trial) known = an_pairmap_get(&s->trial_evals, kernel + 1, tuple.id);
    if (known) return s->eval_counts.data[known - 1];
    an_uop_vec set = {0};
    double n = 1;
    const an_uop_vec *loops = &s->kernels.data[kernel].loops;
    bool ok = add_ranges(s, tuple, &set);
    for (size_t i = 0; i < loops->len && ok && s->cost->threads > 0; i++) /* iterations are threads: each has its own */
        ok = an_vec_has(&set, loops->data[i]) || an_vec_push(s->ctx, &set, loops->data[i]);
    if (ok && close_over(s, kernel, &set))
        for (size_t i = 0; i < set.len; i++) n *= an_range_size(s, set.data[i]);
    n *= an_residue_share(s, an_tuple_valid(s, tuple), &set);
    an_vec_fini(s->ctx, &set);
    if (an_vec_push(s->ctx, &s->eval_counts, n))
        (void)an_pairmap_set(s->on_trial ? &s->trial_evals : &s->evals, s->ctx, kernel + 1, tuple.id,
                             (uint32_t)s->eval_counts.len);
    return n;
}

double an_sched_crowding(an_sched *s, const an_kern *k, double more)
{
    enum { AFTER_MAX = 10 }; /* operations on each result that a product does not feel */
    double results = 1;
    if (s->cost->crowding == 0 || !k->has_reduce) return 0;
    for (size_t i = 0; i < k->loops.len; i++) results *= an_range_size(s, k->loops.data[i]);
    const double after = an_stores_ops(s, &k->stores, false) - an_stores_ops(s, &k->stores, true) + more;
    return after > AFTER_MAX * results ? s->cost->crowding * k->reduce_ops : 0;
}

bool an_sched_in_reduce(an_sched *s, an_uop tuple)
{
    uint32_t n = 0;
    const uint32_t *ranges = an_tuple_ranges(s, tuple, &n);
    for (uint32_t i = 0; i < n; i++)
        if (an_range_kind_of(an_uop_arg(s->g, (an_uop){ranges[i]})) == AN_RANGE_REDUCE) return true;
    return false;
}

double an_sched_cost(an_sched *s, an_uop n, const an_context *contexts, size_t ncontexts, double limit)
{
    /* Below n, walking adds contexts to REDUCE_AXIS nodes, so that evals knows the loops of their ranges: taken back at
     * the end, with the counts that came of them. */
    typedef struct step {
        an_uop u;
        an_context c;
    } step;
    AN_VEC(step) stack = {0};
    AN_VEC(uint32_t) touched = {0};
    an_pairmap seen = {0}; /* (node, tuple); a tuple belongs to one kernel by its LOOPs */
    double ops = 0, limit_ops = limit * s->cost->ops_per_ns;
    uint32_t visits = 0;
    s->on_trial = true;
    for (size_t i = 0; i < ncontexts; i++) {
        const step first = {n, contexts[i]};
        if (!an_vec_push(s->ctx, &stack, first)) break;
    }
    while (stack.len && ops <= limit_ops) {
        const step top = stack.data[--stack.len];
        const an_op op = an_uop_op(s->g, top.u);
        if (an_pairmap_get(&seen, top.u.id, top.c.tuple.id)) continue;
        if (!an_pairmap_set(&seen, s->ctx, top.u.id, top.c.tuple.id, 1)) break;
        if (++visits > WALK_MAX) {
            ops = limit_ops + 1;
            break;
        }
        if (op == AN_OP_CONST || op == AN_OP_VAR || op == AN_OP_IOTA) continue;
        const an_info *here = &s->info[top.u.id];
        const bool stored = !an_uop_eq(top.u, n) && (here->kernel || here->was_stored);
        if (stored || op == AN_OP_BUFFER || op == AN_OP_ASSIGN || (op == AN_OP_CONTIGUOUS && !an_uop_eq(top.u, n))) {
            ops += an_sched_evals(s, top.c.kernel, top.c.tuple);
            continue;
        }
        double weight = an_op_weight(op);
        if (weight > 0) ops += weight * an_sched_evals(s, top.c.kernel, top.c.tuple);
        if (op == AN_OP_REDUCE_AXIS) {
            an_info *info = &s->info[top.u.id];
            if (!an_vec_push(s->ctx, &info->contexts, top.c)) break;
            if (!an_vec_push(s->ctx, &touched, top.u.id)) {
                info->contexts.len--;
                break;
            }
            const an_uop inner = an_tuple_source(s, top.u, top.c.tuple, 0, NULL);
            if (an_uop_is_none(inner)) break;
            double evals = an_sched_evals(s, top.c.kernel, inner);
            if (an_sched_in_reduce(s, top.c.tuple) && !info->is_term) evals *= NESTED_REDUCE_PENALTY;
            ops += evals;
        }
        const uint32_t nsrc = an_sched_transparent(op) ? 1 : an_uop_nsrc(s->g, top.u);
        for (uint32_t i = 0; i < nsrc; i++) {
            const step next = {an_uop_src(s->g, top.u, i), {top.c.kernel, an_tuple_source(s, top.u, top.c.tuple, i, NULL)}};
            if (an_uop_is_none(next.c.tuple) || !an_vec_push(s->ctx, &stack, next)) break;
        }
    }
    for (size_t i = touched.len; i-- > 0;) s->info[touched.data[i]].contexts.len--;
    an_pairmap_fini(&s->trial_evals, s->ctx); /* small, and a fresh one clears faster than an old one that grew */
    s->on_trial = false;
    an_vec_fini(s->ctx, &stack);
    an_vec_fini(s->ctx, &touched);
    an_pairmap_fini(&seen, s->ctx);
    return ops / s->cost->ops_per_ns;
}
