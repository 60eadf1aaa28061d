/* versions.c - which contents of a buffer a node means, and whether they are still there (runtime.h). */
#include "runtime/state.h"

static an_storage *storage_below(an_graph *g, an_runtime *rt, an_uop u)
{
    while (an_uop_op(g, u) == AN_OP_ASSIGN) u = an_uop_src(g, u, 0);
    return an_storage_of(rt, u);
}

an_uop an_version_now(an_graph *g, an_runtime *rt, an_uop u)
{
    const an_storage *s = storage_below(g, rt, u);
    return s ? s->node : u;
}

an_uop an_runtime_resolve(an_graph *g, an_uop u)
{
    an_runtime *rt = an_graph_runtime(g);
    if (!rt || an_uop_is_none(u) || (an_uop_op(g, u) != AN_OP_BUFFER && an_uop_op(g, u) != AN_OP_ASSIGN)) return u;
    const an_storage *s = storage_below(g, rt, u);
    if (!s) return u;
    return an_uop_is_none(s->latest) || an_version_is_place(g, rt, s->latest) ? s->node : s->latest;
}

an_uop an_runtime_note_assign(an_graph *g, an_uop place, an_uop assign)
{
    an_storage *s = storage_below(g, an_graph_runtime(g), place);
    const an_uop before = s->latest;
    s->latest = assign;
    return before;
}

bool an_runtime_is_bound(an_graph *g, an_uop u)
{
    an_runtime *rt = an_graph_runtime(g);
    return rt && !an_uop_is_none(u) && an_storage_of(rt, u);
}

an_status an_version_next(an_graph *g, an_runtime *rt, an_storage *s)
{
    if (s->is_empty || !an_buffer_is_read(g, s->node)) return AN_OK;
    const an_shape shape = an_uop_shape(g, s->node);
    const an_uop next = an_buffer_node(g, an_uop_dtype(g, s->node), shape.dims, shape.rank);
    if (an_uop_is_none(next)) return AN_ERR_NOMEM;
    if (!an_idmap_set(&rt->storage_of, an_graph_ctx(g), next.id, (uint32_t)(s - rt->storages.data) + 1)) return AN_ERR_NOMEM;
    s->node = next;
    return AN_OK;
}

bool an_version_is_place(an_graph *g, an_runtime *rt, an_uop u)
{
    const an_op op = an_uop_op(g, u);
    return op == AN_OP_BUFFER ||
           (op == AN_OP_ASSIGN && (an_idmap_get(&rt->result_of, u.id) || an_idmap_get(&rt->claimed, u.id)));
}

static an_status stale(an_graph *g, an_uop u)
{
    an_str shape;
    an_str_init(&shape, an_graph_ctx(g));
    an_shape_print(&shape, g, an_uop_shape(g, u));
    const an_status st = an_fail(an_graph_ctx(g), AN_ERR_STALE,
                                 "a lazy tensor reads a buffer of shape %s that has been overwritten since the tensor was "
                                 "built; realize it before the write, or build it again",
                                 an_str_cstr(&shape));
    an_str_fini(&shape);
    return st;
}

an_status an_version_value(an_graph *g, an_runtime *rt, an_uop u, an_uop *value, bool *pending)
{
    const an_op op = an_uop_op(g, u);
    const an_uop result = {an_idmap_get(&rt->result_of, u.id)};
    *value = op == AN_OP_BUFFER ? u : result;
    if (op == AN_OP_ASSIGN && an_idmap_get(&rt->claimed, u.id)) {
        *value = an_version_now(g, rt, u);
        if (pending) *pending = true;
        return AN_OK;
    }
    if (an_uop_is_none(*value)) return AN_OK;
    const an_storage *s = an_storage_of(rt, *value);
    if (!s) return an_fail(an_graph_ctx(g), AN_ERR_INTERNAL, "a buffer of the graph has no storage");
    if (s->is_stand_in && !rt->capture) return an_runtime_refuse_stand_in(g);
    if (pending && s->is_empty) *pending = true;
    if (an_uop_eq(s->node, *value)) return AN_OK;
    *value = AN_UOP_NONE;
    return op == AN_OP_BUFFER || op == AN_OP_ASSIGN ? stale(g, u) : AN_OK;
}

an_status an_version_walk(an_graph *g, an_runtime *rt, const an_uop *roots, size_t n, an_uop_vec *assigns, bool *pending)
{
    an_ctx *ctx = an_graph_ctx(g);
    an_uop_vec stack = {0};
    an_idmap seen = {0};
    an_status st = AN_OK;
    for (size_t i = n; i-- > 0 && !st;)
        if (!an_vec_push(ctx, &stack, roots[i])) st = AN_ERR_NOMEM;
    while (stack.len && !st) {
        const an_uop u = stack.data[--stack.len];
        an_uop value = AN_UOP_NONE;
        if (an_idmap_get(&seen, u.id)) continue;
        if (!an_idmap_set(&seen, ctx, u.id, 1)) st = AN_ERR_NOMEM;
        if (!st) st = an_version_value(g, rt, u, &value, pending);
        if (st || !an_uop_is_none(value)) continue;
        const an_op op = an_uop_op(g, u);
        if (op == AN_OP_ASSIGN && assigns && !an_vec_push(ctx, assigns, u)) st = AN_ERR_NOMEM;
        /* Dims are not read, nor the view that says where an ASSIGN writes. Nor its target, if it writes all of that and no
         * ASSIGN below is to run first. */
        uint32_t first = 0, end = an_uop_nsrc(g, u);
        if (op == AN_OP_ASSIGN && end == 2 && an_version_is_place(g, rt, an_uop_src(g, u, 0))) first = 1;
        if (an_op_has(op, AN_TRAIT_MOVE)) end = 1;
        if (op == AN_OP_ASSIGN) end = 2;
        for (uint32_t i = first; i < end && !st; i++)
            if (!an_vec_push(ctx, &stack, an_uop_src(g, u, i))) st = AN_ERR_NOMEM;
    }
    an_idmap_fini(&seen, ctx);
    an_vec_fini(ctx, &stack);
    return st;
}

an_status an_runtime_check(an_graph *g, an_uop u)
{
    an_runtime *rt = an_graph_runtime(g);
    return rt ? an_version_walk(g, rt, &u, 1, NULL, NULL) : AN_OK;
}
