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

/* Marks in after what must run after kernel k. */
static bool mark_after(an_sched *s, const an_edge_vec *edges, uint32_t k, unsigned char *after)
{
    AN_VEC(uint32_t) stack = {0};
    bool ok = an_vec_push(s->ctx, &stack, k);
    memset(after, 0, s->kernels.len);
    while (ok && stack.len) {
        const uint32_t top = stack.data[--stack.len];
        for (size_t e = 0; ok && e < edges->len; e++) {
            const uint32_t next = edges->data[e].after;
            if (edges->data[e].before != top || after[next]) continue;
            after[next] = 1;
            ok = an_vec_push(s->ctx, &stack, next);
        }
    }
    an_vec_fini(s->ctx, &stack);
    return ok;
}

/* Finds a kernel that must run after an ASSIGN, but reads what that overwrites; it reads a copy from now on. Every circle has
 * one, as values alone depend on each other in no circle. Kernels from ncopies on are copies: in a circle they only stand for
 * what they copy. */
static an_status break_circle(an_sched *s, const unsigned char *done, size_t ncopies)
{
    an_edge_vec edges = {0};
    const size_t n = s->kernels.len;
    unsigned char *after = an_mem_alloc(s->ctx, n);
    an_status st = AN_ERR_NOMEM;
    if (!after || !an_sched_edges(s, &edges)) goto end;
    for (uint32_t w = 0; w < n; w++) {
        if (s->kernels.data[w].dead || done[w]) continue;
        bool marked = false;
        for (size_t i = 0; i < s->kernels.data[w].writes.len; i++) {
            const an_uop target = s->kernels.data[w].writes.data[i];
            if (an_uop_op(s->g, target) != AN_OP_ASSIGN) continue;
            const an_uop old = an_sched_target(s, target);
            if (!marked && !mark_after(s, &edges, w, after)) goto end;
            marked = true;
            for (uint32_t r = 0; r < ncopies; r++)
                if (r != w && after[r] && !s->kernels.data[r].dead && an_vec_has(&s->kernels.data[r].reads, old)) {
                    st = read_a_copy(s, r, old);
                    goto end;
                }
        }
    }
    st = an_fail(s->ctx, AN_ERR_INTERNAL, "schedule: kernels depend on each other in a circle");
end:
    an_mem_free(s->ctx, after, n);
    an_vec_fini(s->ctx, &edges);
    return st;
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

an_status an_sched_order_try(an_sched *s, uint32_t **order, size_t *n)
{
    const size_t count = s->kernels.len;
    size_t total = 0;
    unsigned char *done = an_mem_zalloc(s->ctx, count);
    *n = 0;
    *order = an_mem_alloc(s->ctx, count * sizeof **order);
    const an_status st = *order && done ? kahn(s, done, *order, n, &total) : AN_ERR_NOMEM;
    an_mem_free(s->ctx, done, count);
    return st;
}

an_status an_sched_order(an_sched *s, uint32_t **order, size_t *n)
{
    const size_t ncopies = s->kernels.len;
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
        if (!st && !whole) st = break_circle(s, done, ncopies);
        an_mem_free(s->ctx, done, count);
        if (!st && whole) {
            *order = list;
            return AN_OK; /* the caller frees kernels.len entries */
        }
        an_mem_free(s->ctx, list, count * sizeof *list);
        if (st) return st;
    }
}
