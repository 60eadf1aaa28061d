/* look.c - what there is: every library that opens, with its adapters. */
#include "backend/webgpu/library.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void tell_adapter(const gpu_library *lib, const gpu_adapter *a, an_webgpu_adapter *out)
{
    snprintf(out->name, sizeof out->name, "%s", a->name);
    snprintf(out->driver, sizeof out->driver, "%s", a->driver);
    out->backend = gpu_backend_name(a->backend);
    out->type = gpu_type_name(a->type);
    for (int f = 0; f < GPU_NFEATURES; f++) {
        if (a->features >> f & 1)
            out->features[out->nfeatures++] = gpu_feature_names[f];
        else if (lib->dialect.feature[f][0] || lib->dialect.feature[f][1])
            out->lacks[out->nlacks++] = gpu_feature_names[f];
    }
    out->buffer_nbytes = a->limits.buffer_nbytes;
    out->binding_nbytes = a->limits.storage_binding_nbytes;
    out->buffers = a->limits.storage_buffers;
    out->invocations = a->limits.workgroup_invocations;
    out->workgroup_nbytes = a->limits.workgroup_nbytes;
    out->subgroup_min = a->subgroup_min;
    out->subgroup_max = a->subgroup_max;
}

/* What went wrong goes into the row, and no further: looking is no failure. */
static an_status look_at(an_ctx *ctx, const gpu_library *lib, an_webgpu_library *row)
{
    gpu_host host;
    gpu_adapter list[AN_WEBGPU_ADAPTERS_MAX] = {{0}};
    an_status st = gpu_host_init(ctx, lib, &host);
    if (!st) st = gpu_adapters_list(&host, list, &row->nadapters);
    for (size_t i = 0; i < row->nadapters && !st; i++) tell_adapter(lib, &list[i], &row->adapters[i]);
    if (!st && !row->nadapters) snprintf(row->problem, sizeof row->problem, "it sees no GPU, nor a software adapter");
    if (st == AN_ERR_DEVICE || st == AN_ERR_LIMIT) {
        snprintf(row->problem, sizeof row->problem, "%.500s", an_ctx_error(ctx));
        an_ctx_clear_error(ctx);
        st = AN_OK;
    }
    gpu_adapters_free(&host, list, row->nadapters);
    gpu_host_fini(&host);
    return st;
}

an_status an_webgpu_look(an_ctx *ctx, an_webgpu_report *out)
{
    gpu_candidate paths[GPU_CANDIDATES_MAX];
    const size_t n = gpu_candidates(paths);
    const char *choice = getenv("ANNEAL_WEBGPU_ADAPTER");
    bool chosen = false;
    *out = (an_webgpu_report){0};
    for (size_t i = 0; i < n && out->nlibraries < AN_WEBGPU_LIBRARIES_MAX; i++) {
        gpu_library lib;
        an_webgpu_library *row = &out->libraries[out->nlibraries];
        const bool opens = gpu_library_open(paths[i], &lib, row->problem);
        /* One that is not there is no news, unless it was asked for by name. */
        if (!opens && n > 1 && access(paths[i], F_OK) != 0) {
            row->problem[0] = '\0';
            continue;
        }
        out->nlibraries++;
        snprintf(row->path, sizeof row->path, "%s", opens ? lib.path : paths[i]);
        if (!opens) continue;
        row->kind = lib.dialect.name;
        snprintf(row->version, sizeof row->version, "%s", lib.version);
        gpu_adapter names[AN_WEBGPU_ADAPTERS_MAX] = {{0}};
        const an_status st = look_at(ctx, &lib, row);
        if (st) return st;
        for (size_t k = 0; k < row->nadapters; k++) {
            snprintf(names[k].name, sizeof names[k].name, "%s", row->adapters[k].name);
            snprintf(names[k].driver, sizeof names[k].driver, "%s", row->adapters[k].driver);
        }
        const size_t at = gpu_adapter_choose(names, row->nadapters, choice);
        if (!chosen && at < row->nadapters) row->adapters[at].is_chosen = chosen = true;
    }
    return AN_OK;
}
