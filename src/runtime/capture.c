/* capture.c - what the runtime does for captured functions (src/tensor/jit.c): stand-ins, copies, and no reads while one is on. */
#include "runtime/state.h"

static const an_backend *backend_of(const an_device *dev)
{
    return ((const an_device_base *)dev)->backend;
}

an_status an_runtime_set_capture(an_graph *g, void *capture)
{
    an_runtime *rt = an_runtime_of(g);
    if (!rt) return an_ctx_status(an_graph_ctx(g));
    rt->capture = capture;
    return AN_OK;
}

void *an_runtime_capture(const an_graph *g)
{
    const an_runtime *rt = an_graph_runtime(g);
    return rt ? rt->capture : NULL;
}

an_status an_runtime_refuse_capture(an_graph *g, const char *verb)
{
    if (!an_runtime_capture(g)) return AN_OK;
    return an_fail(an_graph_ctx(g), AN_ERR_ARG, "%s: a function is being captured, and what is read, written or run in it would not be "
                   "part of its replays; do it before the call, or after it with a result", verb);
}

an_status an_runtime_refuse_stand_in(an_graph *g)
{
    return an_fail(an_graph_ctx(g), AN_ERR_ARG, "a tensor is, or is made of, the stand-in of a captured function's argument, or was donated to one: "
                   "it has no value outside of the function; make it a result");
}

static an_uop new_storage(an_graph *g, an_dtype dtype, an_shape shape, bool stand_in)
{
    an_runtime *rt = an_runtime_of(g);
    const an_uop b = rt ? an_buffer_node(g, dtype, shape.dims, shape.rank) : AN_UOP_NONE;
    if (an_uop_is_none(b)) return AN_UOP_NONE;
    if (!stand_in) return an_storage_bind(g, rt, b) ? AN_UOP_NONE : b;
    an_ctx *ctx = an_graph_ctx(g);
    an_storage s = {.node = b, .is_stand_in = true};
    if (!an_buffer_nbytes(g, b, &s.nbytes)) return AN_UOP_NONE;
    s.nbytes_now = an_shape_static(g, shape, NULL) ? s.nbytes : AN_NBYTES_ANY;
    if (!an_vec_push(ctx, &rt->storages, s)) return AN_UOP_NONE;
    return an_idmap_set(&rt->storage_of, ctx, b.id, (uint32_t)rt->storages.len) ? b : AN_UOP_NONE;
}

an_uop an_runtime_stand_in(an_graph *g, an_dtype dtype, an_shape shape)
{
    return new_storage(g, dtype, shape, true);
}

an_uop an_runtime_new_buffer(an_graph *g, an_dtype dtype, an_shape shape, uint32_t *storage)
{
    const an_uop b = new_storage(g, dtype, shape, false);
    if (!an_uop_is_none(b)) *storage = (uint32_t)an_runtime_of(g)->storages.len - 1;
    return b;
}

an_status an_runtime_copy(an_graph *g, uint32_t from, an_uop stand_in, uint32_t *to)
{
    an_runtime *rt = an_runtime_of(g);
    an_ctx *ctx = an_graph_ctx(g);
    an_storage *dst = an_storage_of(rt, stand_in);
    const an_storage *src = &rt->storages.data[from];
    an_status st = dst->buffer ? AN_OK : backend_of(rt->device)->buffer_create(rt->device, dst->nbytes, &dst->buffer);
    if (st) return st;
    void *bytes = an_mem_alloc(ctx, src->nbytes);
    if (!bytes) return AN_ERR_NOMEM;
    if (src->nbytes) st = backend_of(rt->device)->read(src->buffer, 0, bytes, src->nbytes);
    if (!st && src->nbytes) st = backend_of(rt->device)->write(dst->buffer, 0, bytes, src->nbytes);
    an_mem_free(ctx, bytes, src->nbytes);
    dst->nbytes_now = src->nbytes_now;
    *to = (uint32_t)(dst - rt->storages.data);
    return st;
}

an_status an_runtime_at_end(an_graph *g, void (*fn)(void *data), void *data)
{
    an_runtime *rt = an_runtime_of(g);
    const an_at_end e = {fn, data};
    if (!rt) return an_ctx_status(an_graph_ctx(g));
    return an_vec_push(an_graph_ctx(g), &rt->at_end, e) ? AN_OK : AN_ERR_NOMEM;
}

void an_runtime_not_at_end(an_graph *g, void *data)
{
    an_runtime *rt = an_graph_runtime(g);
    size_t n = 0;
    for (size_t i = 0; rt && i < rt->at_end.len; i++)
        if (rt->at_end.data[i].data != data) rt->at_end.data[n++] = rt->at_end.data[i];
    if (rt) rt->at_end.len = n;
}
