/* order.c - launch order: Kahn's algorithm over the true dependencies. Of the kernels that are ready the one made last goes
 * first: kernels are made from users to sources in structural order, so this is deterministic for every build order.
 *
 * A kernel that needs both what a buffer held before an ASSIGN and something computed after it stands in a circle: it
 * gets a copy of the old contents, made before the ASSIGN runs. */
#include "schedule/sched.h"

/* Kernel k reads a copy of what ptr holds instead of ptr. */
static an_status read_a_copy(an_sched *s, uint32_t k, an_uop ptr)
{
    const an_uop base = an_ptr_base(s->g, ptr);
    const an_shape shape = an_uop_shape(s->g, base);
    const an_uop temp = an_buffer_node(s->g, an_uop_dtype(s->g, base), shape.dims, shape.rank);
    const uint32_t c = an_sched_kernel_new(s, base, "a copy of what the buffer held before it was assigned to");
    if (c == UINT32_MAX) return AN_ERR_NOMEM;
    const an_uop at = an_tuple_flat(s, s->kernels.data[c].tuple, shape);
    const an_uop copy = an_store(s->g, temp, at, an_load(s->g, ptr, at, AN_UOP_NONE), AN_UOP_NONE);
    if (an_uop_is_none(copy) || !an_vec_push(s->ctx, &s->kernels.data[c].stores, copy)) return AN_ERR_NOMEM;
    if (!an_kern_refresh(s, &s->kernels.data[c])) return AN_ERR_NOMEM;
    an_kern *kern = &s->kernels.data[k];
    an_uop_vec order = {0}, from = {0}, to = {0};
    an_status st = an_toposort(s->g, kern->stores.data, (uint32_t)kern->stores.len, &order);
    for (size_t i = 0; i < order.len && !st; i++) {
        const an_uop u = order.data[i];
        if (an_uop_op(s->g, u) != AN_OP_LOAD || !an_uop_eq(an_uop_src(s->g, u, 0), ptr)) continue;
        const an_uop gate = an_uop_nsrc(s->g, u) > 2 ? an_uop_src(s->g, u, 2) : AN_UOP_NONE;
        const an_uop other = an_load(s->g, temp, an_uop_src(s->g, u, 1), gate);
        if (!an_vec_push(s->ctx, &from, u) || !an_vec_push(s->ctx, &to, other)) st = AN_ERR_NOMEM;
    }
    if (!st) st = an_substitute_many(s->g, kern->stores.data, kern->stores.len, from.data, to.data, from.len);
    if (!st && !an_kern_refresh(s, kern)) st = AN_ERR_NOMEM;
    an_vec_fini(s->ctx, &order);
    an_vec_fini(s->ctx, &from);
    an_vec_fini(s->ctx, &to);
    return st;
}

/* Among kernels that did not get their turn, one that reads what a waiting ASSIGN is to overwrite. */
static an_status break_circle(an_sched *s, const unsigned char *done)
{
    for (uint32_t w = 0; w < s->kernels.len; w++) {
        if (s->kernels.data[w].dead || done[w]) continue;
        for (size_t i = 0; i < s->kernels.data[w].writes.len; i++) {
            const an_uop target = s->kernels.data[w].writes.data[i];
            if (an_uop_op(s->g, target) != AN_OP_ASSIGN) continue;
            const an_uop old = an_uop_src(s->g, target, 0);
            for (uint32_t r = 0; r < s->kernels.len; r++)
                if (r != w && !s->kernels.data[r].dead && !done[r] && an_vec_has(&s->kernels.data[r].reads, old))
                    return read_a_copy(s, r, old);
        }
    }
    return an_fail(s->ctx, AN_ERR_INTERNAL, "schedule: kernels depend on each other in a circle");
}

/* One attempt: order gets what could be ordered; *total is how many there are. */
static an_status kahn(an_sched *s, unsigned char *done, uint32_t *order, size_t *n, size_t *total)
{
    an_edge_vec edges = {0};
    const size_t count = s->kernels.len;
    uint32_t *waits = an_mem_zalloc(s->ctx, count * sizeof *waits);
    an_status st = AN_ERR_NOMEM;
    *n = *total = 0;
    if (!waits || !an_sched_edges(s, &edges)) goto end;
    for (size_t e = 0; e < edges.len; e++) waits[edges.data[e].after]++;
    for (size_t k = 0; k < count; k++) *total += !s->kernels.data[k].dead;
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t k = (uint32_t)count; k-- > 0 && !moved;) {
            if (done[k] || s->kernels.data[k].dead || waits[k]) continue;
            done[k] = 1;
            order[(*n)++] = k;
            moved = true;
            for (size_t e = 0; e < edges.len; e++)
                if (edges.data[e].before == k) waits[edges.data[e].after]--;
        }
    }
    st = AN_OK;
end:
    an_mem_free(s->ctx, waits, count * sizeof *waits);
    an_vec_fini(s->ctx, &edges);
    return st;
}

an_status an_sched_order(an_sched *s, uint32_t **order, size_t *n)
{
    *order = NULL;
    *n = 0;
    for (;;) {
        const size_t count = s->kernels.len;
        size_t total = 0;
        an_status st = AN_ERR_NOMEM;
        uint32_t *list = an_mem_alloc(s->ctx, count * sizeof *list);
        unsigned char *done = an_mem_zalloc(s->ctx, count);
        if (list && done) st = kahn(s, done, list, n, &total);
        const bool whole = *n == total;
        if (!st && !whole) st = break_circle(s, done);
        an_mem_free(s->ctx, done, count);
        if (!st && whole) {
            *order = list;
            return AN_OK; /* the caller frees kernels.len entries */
        }
        an_mem_free(s->ctx, list, count * sizeof *list);
        if (st) return st;
    }
}
