/* device.c - the backends of this build, and the devices a context has open. */
#include "runtime/state.h"

#include "backend/backends.h"

static const an_backend *const backends[] = {
#ifdef AN_HAVE_CPU
    &an_backend_cpu,
#endif
    &an_backend_interp,
#ifdef AN_HAVE_WEBGPU
    &an_backend_webgpu,
#endif
};
enum { NBACKENDS = sizeof backends / sizeof backends[0] };

typedef struct open_devices {
    an_device *device[NBACKENDS];
} open_devices;

const an_backend *const *an_backends(size_t *n)
{
    *n = NBACKENDS;
    return backends;
}

static void close_all(an_ctx *ctx, void *data)
{
    open_devices *open = data;
    for (size_t i = 0; i < NBACKENDS; i++)
        if (open->device[i]) backends[i]->close(open->device[i]);
    an_mem_free(ctx, open, sizeof *open);
}

static const an_device_base *base_of(const an_device *dev)
{
    return (const an_device_base *)dev; /* the first member of every backend's device */
}

bool an_device_has_matrix(const an_device *dev)
{
    return base_of(dev)->gpu_has_matrix;
}

const char *an_device_name(const an_device *dev)
{
    return base_of(dev)->backend->name;
}

an_status an_device_get(an_ctx *ctx, const char *name, an_device **out)
{
    size_t i = 0;
    while (name && i < NBACKENDS && strcmp(backends[i]->name, name) != 0) i++;
    if (i == NBACKENDS) {
        an_str list;
        an_str_init(&list, ctx);
        for (size_t k = 0; k < NBACKENDS; k++) an_str_printf(&list, k ? ", %s" : "%s", backends[k]->name);
        const an_status st = an_fail(ctx, AN_ERR_ARG, "there is no device '%s'; this build has: %s", name, an_str_cstr(&list));
        an_str_fini(&list);
        return st;
    }
    open_devices *open = an_ctx_slot_get(ctx, AN_SLOT_DEVICES);
    if (!open) {
        open = an_mem_zalloc(ctx, sizeof *open);
        if (!open) return AN_ERR_NOMEM;
        an_ctx_slot_set(ctx, AN_SLOT_DEVICES, open, close_all);
    }
    if (!open->device[i]) {
        const an_device_desc desc = {0};
        an_status st = an_settings_check(ctx);
        if (!st) st = backends[i]->open(ctx, &desc, &open->device[i]);
        if (st) return st;
    }
    *out = open->device[i];
    return AN_OK;
}
