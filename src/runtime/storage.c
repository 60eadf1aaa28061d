/* storage.c - the buffers of a graph: binding, and copies to and from the host. */
#include "runtime/state.h"

static const an_backend *backend_of(const an_device *dev)
{
    return ((const an_device_base *)dev)->backend;
}

static void runtime_destroy(an_graph *g, void *data)
{
    an_runtime *rt = data;
    an_ctx *ctx = an_graph_ctx(g);
    for (size_t i = 0; i < rt->at_end.len; i++) rt->at_end.data[i].fn(rt->at_end.data[i].data);
    an_vec_fini(ctx, &rt->at_end);
    for (size_t i = 0; i < rt->storages.len; i++) backend_of(rt->device)->buffer_destroy(rt->storages.data[i].buffer);
    an_vec_fini(ctx, &rt->storages);
    an_vec_fini(ctx, &rt->bindings);
    an_idmap_fini(&rt->storage_of, ctx);
    an_idmap_fini(&rt->result_of, ctx);
    an_idmap_fini(&rt->claimed, ctx);
    an_mem_free(ctx, rt, sizeof *rt);
}

static an_runtime *runtime_state(an_graph *g)
{
    an_runtime *rt = an_graph_runtime(g);
    if (rt) return rt;
    rt = an_mem_zalloc(an_graph_ctx(g), sizeof *rt);
    if (rt) an_graph_set_runtime(g, rt, runtime_destroy);
    return rt;
}

an_runtime *an_runtime_of(an_graph *g)
{
    an_runtime *rt = runtime_state(g);
    if (!rt) return NULL;
    if (!rt->device && an_device_get(an_graph_ctx(g), NULL, &rt->device)) return NULL;
    return rt;
}

an_status an_graph_set_device(an_graph *g, const char *name)
{
    an_device *dev = NULL;
    an_runtime *rt = runtime_state(g);
    if (!rt) return AN_ERR_NOMEM;
    const an_status st = an_device_get(an_graph_ctx(g), name, &dev);
    if (st) return st;
    if (rt->storages.len && rt->device != dev)
        return an_fail(an_graph_ctx(g), AN_ERR_ARG, "the graph has buffers on %s already; choose %s before the first tensor is made",
                       an_device_name(rt->device), an_device_name(dev));
    rt->device = dev;
    return AN_OK;
}

an_device *an_graph_device(an_graph *g)
{
    const an_runtime *rt = an_runtime_of(g);
    return rt ? rt->device : NULL;
}

an_storage *an_storage_of(an_runtime *rt, an_uop buffer)
{
    const uint32_t i = an_idmap_get(&rt->storage_of, buffer.id);
    return i ? &rt->storages.data[i - 1] : NULL;
}

an_status an_storage_bind(an_graph *g, an_runtime *rt, an_uop buffer)
{
    an_ctx *ctx = an_graph_ctx(g);
    an_storage s = {.node = buffer};
    if (!an_buffer_nbytes(g, buffer, &s.nbytes)) return an_ctx_status(ctx);
    s.nbytes_now = an_shape_static(g, an_uop_shape(g, buffer), NULL) ? s.nbytes : AN_NBYTES_ANY;
    if (!an_vec_reserve(ctx, &rt->storages, 1)) return AN_ERR_NOMEM;
    const an_status st = backend_of(rt->device)->buffer_create(rt->device, s.nbytes, &s.buffer);
    if (st) return st;
    if (!an_idmap_set(&rt->storage_of, ctx, buffer.id, (uint32_t)rt->storages.len + 1)) {
        backend_of(rt->device)->buffer_destroy(s.buffer);
        return AN_ERR_NOMEM;
    }
    rt->storages.data[rt->storages.len++] = s;
    return AN_OK;
}

an_uop an_runtime_from_host(an_graph *g, an_dtype dtype, const int64_t *dims, uint32_t rank, const void *data)
{
    an_uop d[AN_RANK_MAX];
    an_runtime *rt = an_runtime_of(g);
    if (!rt) return AN_UOP_NONE;
    for (uint32_t i = 0; i < rank; i++) d[i] = an_index(g, dims[i]);
    const an_uop b = an_buffer_node(g, dtype, d, rank);
    if (an_uop_is_none(b) || an_storage_bind(g, rt, b)) return AN_UOP_NONE;
    const an_storage *s = an_storage_of(rt, b);
    if (data && s->nbytes && backend_of(rt->device)->write(s->buffer, 0, data, s->nbytes)) return AN_UOP_NONE;
    return b;
}

an_uop an_runtime_from_host_uop(an_graph *g, an_dtype dtype, const an_uop *dims, uint32_t rank, const void *data)
{
    size_t nbytes = 0;
    if (an_runtime_check_bound(g, dims, rank)) return AN_UOP_NONE;
    const an_uop b = an_runtime_alloc(g, dtype, dims, rank);
    if (an_uop_is_none(b) || !an_runtime_nbytes(g, b, &nbytes)) return AN_UOP_NONE;
    an_runtime *rt = an_graph_runtime(g);
    an_storage *s = an_storage_of(rt, b);
    s->nbytes_now = nbytes;
    if (data && nbytes && backend_of(rt->device)->write(s->buffer, 0, data, nbytes)) return AN_UOP_NONE;
    return b;
}

static an_status find(an_graph *g, an_uop buffer, const char *verb, an_runtime **rt, an_storage **s)
{
    *rt = an_runtime_of(g);
    if (!*rt) return an_ctx_status(an_graph_ctx(g));
    const an_status st = an_runtime_refuse_capture(g, verb);
    if (st) return st;
    *s = an_version_is_place(g, *rt, buffer) ? an_storage_of(*rt, an_version_now(g, *rt, buffer)) : NULL;
    if (!*s) return an_fail(an_graph_ctx(g), AN_ERR_ARG, "%s: the tensor has no buffer yet; realize it first", verb);
    if ((*s)->is_stand_in) return an_runtime_refuse_stand_in(g);
    return AN_OK;
}

static an_status check_size(an_graph *g, size_t have, size_t nbytes, const char *verb)
{
    if (have == nbytes) return AN_OK;
    return an_fail(an_graph_ctx(g), AN_ERR_ARG, "%s: %zu bytes were given, the tensor has %zu", verb, nbytes, have);
}

an_status an_runtime_read(an_graph *g, an_uop buffer, void *dst, size_t nbytes)
{
    an_runtime *rt = NULL;
    an_storage *s = NULL;
    an_status st = find(g, buffer, "read", &rt, &s);
    size_t have = 0;
    if (!st) st = check_size(g, an_runtime_nbytes(g, s->node, &have) ? have : s->nbytes, nbytes, "read");
    if (st) return st;
    if (s->is_empty)
        return an_fail(an_graph_ctx(g), AN_ERR_ARG, "read: the plan that computes the tensor has not run yet; run it first");
    if (nbytes == 0) return AN_OK;
    an_profile *profile = an_profile_of(an_graph_ctx(g));
    const double t = profile ? an_clock() : 0;
    st = backend_of(rt->device)->read(s->buffer, 0, dst, nbytes);
    if (profile) an_profile_add(profile, (an_event){AN_EVENT_TRANSFER, "read", t, an_clock() - t, (double)nbytes, 0});
    return st;
}

an_status an_runtime_write(an_graph *g, an_uop buffer, const void *src, size_t nbytes)
{
    an_runtime *rt = NULL;
    an_storage *s = NULL;
    an_status st = find(g, buffer, "write", &rt, &s);
    if (st) return st;
    const bool is_static = an_shape_static(g, an_uop_shape(g, s->node), NULL);
    st = is_static ? check_size(g, s->nbytes, nbytes, "write") : an_runtime_check_write(g, s->node, nbytes);
    if (st) return st;
    st = an_version_next(g, rt, s);
    an_profile *profile = an_profile_of(an_graph_ctx(g));
    const double t = profile ? an_clock() : 0;
    if (!st && nbytes) st = backend_of(rt->device)->write(s->buffer, 0, src, nbytes);
    if (profile && !st) an_profile_add(profile, (an_event){AN_EVENT_TRANSFER, "write", t, an_clock() - t, (double)nbytes, 0});
    if (!st) s->nbytes_now = nbytes;
    if (!st) s->is_empty = false;
    return st;
}
