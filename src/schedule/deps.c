/* deps.c - the order kernels must keep, and what their stores cost. */
#include "schedule/sched.h"

static bool add_edge(an_sched *s, an_edge_vec *out, uint32_t before, uint32_t after)
{
    const an_edge e = {before, after};
    return before == after || an_vec_push(s->ctx, out, e);
}

an_uop an_sched_target(an_sched *s, an_uop assign)
{
    an_uop u = an_uop_src(s->g, assign, 0);
    while (an_uop_op(s->g, u) == AN_OP_ASSIGN && an_numel(s, an_store_shape(s, u)) == 0) u = an_uop_src(s->g, u, 0);
    return u;
}

bool an_sched_edges(an_sched *s, an_edge_vec *out)
{
    an_idmap writer = {0};       /* pointer -> 1 + kernel */
    an_idmap overwriter = {0};   /* pointer -> 1 + kernel that writes an ASSIGN on top of it */
    bool ok = true;
    for (uint32_t k = 0; ok && k < s->kernels.len; k++) {
        const an_kern *kern = &s->kernels.data[k];
        for (size_t i = 0; ok && !kern->dead && i < kern->writes.len; i++) {
            const an_uop w = kern->writes.data[i];
            ok = an_idmap_set(&writer, s->ctx, w.id, k + 1);
            if (ok && an_uop_op(s->g, w) == AN_OP_ASSIGN)
                ok = an_idmap_set(&overwriter, s->ctx, an_sched_target(s, w).id, k + 1);
        }
    }
    for (uint32_t k = 0; ok && k < s->kernels.len; k++) {
        const an_kern *kern = &s->kernels.data[k];
        if (kern->dead) continue;
        for (size_t i = 0; ok && i < kern->reads.len; i++) {
            const uint32_t w = an_idmap_get(&writer, kern->reads.data[i].id);
            const uint32_t over = an_idmap_get(&overwriter, kern->reads.data[i].id);
            if (w) ok = add_edge(s, out, w - 1, k);
            if (ok && over) ok = add_edge(s, out, k, over - 1);
        }
        for (size_t i = 0; ok && i < kern->writes.len; i++) {
            const an_uop w = kern->writes.data[i];
            const uint32_t earlier = an_uop_op(s->g, w) == AN_OP_ASSIGN ? an_idmap_get(&writer, an_sched_target(s, w).id) : 0;
            if (earlier) ok = add_edge(s, out, earlier - 1, k);
        }
    }
    an_idmap_fini(&writer, s->ctx);
    an_idmap_fini(&overwriter, s->ctx);
    return ok;
}

double an_stores_ops(an_sched *s, const an_uop_vec *stores, bool reduce_only)
{
    an_uop_vec order = {0}, ranges = {0};
    an_idmap set_of = {0}; /* node -> 1 + index into sets */
    AN_VEC(uint64_t) sets = {0}; /* bit i: ranges.data[i]; a kernel has few */
    double ops = 0;
    bool ok = an_toposort(s->g, stores->data, (uint32_t)stores->len, &order) == AN_OK;
    for (size_t i = 0; ok && i < order.len; i++) {
        const an_uop u = order.data[i];
        const an_op op = an_uop_op(s->g, u);
        uint64_t set = 0;
        for (uint32_t k = 0; k < an_uop_nsrc(s->g, u); k++)
            set |= sets.data[an_idmap_get(&set_of, an_uop_src(s->g, u, k).id) - 1];
        if (op == AN_OP_RANGE && ranges.len < 64) {
            set |= (uint64_t)1 << ranges.len;
            ok = an_vec_push(s->ctx, &ranges, u);
        }
        double n = op == AN_OP_REDUCE ? 1 : an_uop_dtype(s->g, u) == AN_INDEX ? 0 : an_op_weight(op);
        bool inside = op == AN_OP_REDUCE;
        for (size_t r = 0; n > 0 && r < ranges.len; r++) {
            if (!(set >> r & 1u)) continue;
            n *= an_range_size(s, ranges.data[r]);
            inside = inside || an_range_kind_of(an_uop_arg(s->g, ranges.data[r])) == AN_RANGE_REDUCE;
        }
        if (inside || !reduce_only) ops += n;
        if (op == AN_OP_REDUCE) /* its ranges end here */
            for (size_t r = 0; r < ranges.len; r++)
                for (uint32_t k = 1; k < an_uop_nsrc(s->g, u); k++)
                    if (an_uop_eq(an_uop_src(s->g, u, k), ranges.data[r])) set &= ~((uint64_t)1 << r);
        ok = ok && an_vec_push(s->ctx, &sets, set) && an_idmap_set(&set_of, s->ctx, u.id, (uint32_t)sets.len);
    }
    an_vec_fini(s->ctx, &order);
    an_vec_fini(s->ctx, &ranges);
    an_vec_fini(s->ctx, &sets);
    an_idmap_fini(&set_of, s->ctx);
    return ops;
}
