/* schedules.c - schedules by structural key, in the context and, from one process to the next, on disk. The same computation, in
 * whatever order it was built, has one key; every knob, the cost model and the device are in it. */
#include "runtime/plan.h"

#include "base/disk.h"

#include <stdio.h>

enum { KEPT_NBYTES_MAX = 64 << 20, ONE_NBYTES_MAX = 4 << 20 };
#ifndef __wasi__
static const uint64_t DISK_NBYTES_MAX = 64 << 20;
#endif
enum { FORMAT = 2 };

typedef struct kept {
    an_key key;
    an_blob blob;
} kept;

typedef struct cache {
    AN_VEC(kept) items; /* oldest first */
    size_t nbytes;
    an_disk *disk; /* NULL: there is none */
    bool is_open;
} cache;

static void cache_destroy(an_ctx *ctx, void *data)
{
    cache *c = data;
    for (size_t i = 0; i < c->items.len; i++) an_vec_fini(ctx, &c->items.data[i].blob);
    an_vec_fini(ctx, &c->items);
#ifndef __wasi__
    an_disk_close(c->disk);
#endif
    an_mem_free(ctx, c, sizeof *c);
}

static cache *cache_of(an_ctx *ctx)
{
    cache *c = an_ctx_slot_get(ctx, AN_SLOT_SCHEDULES);
    if (!c) {
        c = an_mem_zalloc(ctx, sizeof *c);
        if (!c) return NULL;
        an_ctx_slot_set(ctx, AN_SLOT_SCHEDULES, c, cache_destroy);
    }
#ifndef __wasi__ /* where there are no files */
    char folder[4096], path[4096 + 16];
    if (c->is_open || an_ctx_settings(ctx).no_cache) return c;
    c->is_open = true;
    if (!an_cache_folder(folder, sizeof folder)) return c;
    snprintf(path, sizeof path, "%s/schedules", folder);
    if (an_disk_open(ctx, path, DISK_NBYTES_MAX, &c->disk) || an_disk_refresh(c->disk)) return NULL;
#endif
    return c;
}

an_status an_schedule_key(an_plan *p, const an_uop *roots, size_t n, const an_cost *cost, an_key *key)
{
    const an_settings settings = an_ctx_settings(an_graph_ctx(p->user));
    const an_status st = an_uop_key(p->graph, roots, (uint32_t)n, key);
    const char *device = an_device_name(p->device);
    const double numbers[] = {cost->bytes_per_ns, cost->ops_per_ns, cost->launch_ns, cost->cache_nbytes, cost->band_nbytes, cost->riding, cost->carrying, cost->crowding};
    const uint64_t limits[] = {cost->max_buffers, cost->max_nodes, cost->vector_nbytes, cost->no_fuse, cost->scratch_nbytes, cost->threads, FORMAT, AN_PLACE_ALIGN,
                               ((const an_device_base *)p->device)->key};
    *key = an_key_mix(*key, an_hash_bytes(0, device, strlen(device)));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        uint64_t bits = 0;
        memcpy(&bits, &numbers[i], sizeof bits);
        *key = an_key_mix(*key, bits);
    }
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) *key = an_key_mix(*key, limits[i]);
    *key = an_settings_mix(*key, &settings);
    return st;
}

/* The BUFFERs below the roots, in the order in which the key counts them. */
static an_status externals(an_plan *p, const an_uop *roots, size_t n, an_uop_vec *out)
{
    an_uop_vec order = {0};
    an_status st = an_toposort(p->graph, roots, (uint32_t)n, &order);
    for (size_t i = 0; i < order.len && !st; i++)
        if (an_uop_op(p->graph, order.data[i]) == AN_OP_BUFFER && !an_vec_push(an_graph_ctx(p->user), out, order.data[i])) st = AN_ERR_NOMEM;
    an_vec_fini(an_graph_ctx(p->user), &order);
    return st;
}

static an_status load(an_plan *p, const void *data, size_t nbytes, const an_uop_vec *ext, size_t nroots, bool *is_good)
{
    return an_schedule_load(p->graph, data, nbytes, ext->data, ext->len, nroots, &p->schedule, &p->nbytes_unplanned, is_good);
}

#ifndef __wasi__
/* From the disk: its key has the sources, too, for what makes a schedule is in them. */
static an_key disk_key(an_key key)
{
    return an_key_mix(key, an_source_id());
}
#endif

static an_status keep(an_ctx *ctx, cache *c, an_key key, const void *data, size_t nbytes)
{
    kept k = {.key = key};
    if (nbytes > ONE_NBYTES_MAX) return AN_OK;
    while (c->items.len && c->nbytes + nbytes > KEPT_NBYTES_MAX) { /* the oldest goes */
        c->nbytes -= c->items.data[0].blob.len;
        an_vec_fini(ctx, &c->items.data[0].blob);
        memmove(c->items.data, c->items.data + 1, --c->items.len * sizeof *c->items.data);
    }
    if (!an_vec_reserve(ctx, &c->items, 1) || !an_vec_reserve(ctx, &k.blob, nbytes)) return AN_ERR_NOMEM;
    memcpy(k.blob.data, data, nbytes);
    k.blob.len = nbytes;
    c->items.data[c->items.len++] = k;
    c->nbytes += nbytes;
    return AN_OK;
}

an_status an_schedules_find(an_plan *p, const an_uop *roots, size_t n, an_key key, bool *found)
{
    an_ctx *ctx = an_graph_ctx(p->user);
    cache *c = cache_of(ctx);
    an_uop_vec ext = {0};
    *found = false;
    if (!c) return AN_ERR_NOMEM;
    an_status st = externals(p, roots, n, &ext);
    for (size_t i = c->items.len; i-- > 0 && !st && !*found;)
        if (an_key_eq(c->items.data[i].key, key)) st = load(p, c->items.data[i].blob.data, c->items.data[i].blob.len, &ext, n, found);
#ifndef __wasi__
    if (!st && !*found && c->disk) {
        void *data = NULL;
        size_t nbytes = 0;
        st = an_disk_get(c->disk, disk_key(key), &data, &nbytes);
        if (!st && data) st = load(p, data, nbytes, &ext, n, found);
        if (!st && data && !*found) an_disk_reject(c->disk, disk_key(key));
        if (!st && *found) st = keep(ctx, c, key, data, nbytes);
        an_mem_free(ctx, data, nbytes);
    }
#endif
    p->is_schedule_kept = *found;
    an_vec_fini(ctx, &ext);
    return st;
}

an_status an_schedules_keep(an_plan *p, const an_uop *roots, size_t n, an_key key)
{
    an_ctx *ctx = an_graph_ctx(p->user);
    cache *c = cache_of(ctx);
    an_uop_vec ext = {0};
    an_blob blob = {0};
    if (!c) return AN_ERR_NOMEM;
    an_status st = externals(p, roots, n, &ext);
    if (!st) st = an_schedule_save(p->graph, &p->schedule, ext.data, ext.len, p->nbytes_unplanned, &blob);
    if (!st && blob.len) st = keep(ctx, c, key, blob.data, blob.len);
#ifndef __wasi__
    const an_disk_item item = {disk_key(key), blob.data, blob.len};
    if (!st && blob.len && blob.len <= ONE_NBYTES_MAX && c->disk) st = an_disk_put(c->disk, &item, 1);
#endif
    an_vec_fini(ctx, &blob);
    an_vec_fini(ctx, &ext);
    return st;
}
