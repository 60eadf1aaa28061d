/* launch.c - recording launches and sending them off.
 *
 * Bind groups are kept by program, and found again by buffers, offsets and uniform slot. The variables of a launch stand in a
 * slot of one uniform buffer, written once before the submit; slots are dealt anew for each submit in the order of launches,
 * so a replay finds the same slots, and the same bind groups, though its values differ. */
#include "backend/backends.h"
#include "backend/webgpu/device.h"

void gpu_drop(gpu_device *d)
{
    const wg_api *api = &d->host.lib.api;
    if (d->pass) {
        api->ComputePassEncoderEnd(d->pass);
        api->ComputePassEncoderRelease(d->pass);
    }
    if (d->encoder) api->CommandEncoderRelease(d->encoder);
    d->pass = NULL;
    d->encoder = NULL;
    d->set = NULL;
    d->npending = d->nuniforms = 0;
}

an_status gpu_encoder(gpu_device *d)
{
    const wg_api *api = &d->host.lib.api;
    const wg_encoder_desc desc = {.label = gpu_string("anneal")};
    if (d->pass) {
        api->ComputePassEncoderEnd(d->pass);
        api->ComputePassEncoderRelease(d->pass);
        d->pass = NULL;
    }
    d->set = NULL;
    if (d->encoder) return AN_OK;
    const an_status st = gpu_check(d);
    if (st) return st;
    d->encoder = api->DeviceCreateCommandEncoder(d->handle, &desc);
    return d->encoder ? AN_OK : an_fail(d->base.ctx, AN_ERR_DEVICE, "webgpu: no command encoder can be made");
}

/* stamps: of the pass, which is then one of its own. May be NULL. */
static an_status open_pass(gpu_device *d, const wg_timestamps *stamps)
{
    const wg_pass_desc desc = {.label = gpu_string("anneal"), .timestamps = stamps};
    if (d->pass) return AN_OK;
    const an_status st = gpu_encoder(d);
    if (st) return st;
    d->pass = d->host.lib.api.CommandEncoderBeginComputePass(d->encoder, &desc);
    return d->pass ? AN_OK : an_fail(d->base.ctx, AN_ERR_DEVICE, "webgpu: no compute pass can be begun");
}

an_status gpu_submit(an_device *dev)
{
    gpu_device *d = gpu_of(dev);
    const wg_api *api = &d->host.lib.api;
    char text[GPU_TEXT_MAX];
    uint32_t error = 0;
    if (!d->encoder) return AN_OK;
    an_status st = gpu_check(d);
    if (!st) st = gpu_encoder(d); /* ends the pass */
    if (st) {
        gpu_drop(d);
        return st;
    }
    if (d->nuniforms) api->QueueWriteBuffer(d->queue, d->uniforms, 0, d->uniform_data, (size_t)d->nuniforms * GPU_UNIFORM_NBYTES);
    /* wgpu-native ends the process when it is given commands that it cannot run: so they are judged first. */
    gpu_scope_begin(d);
    const wg_commands commands = api->CommandEncoderFinish(d->encoder, NULL);
    st = gpu_scope_end(d, &error, text);
    if (!st) st = gpu_check(d);
    if (!st && (error || !commands)) st = an_fail(d->base.ctx, AN_ERR_DEVICE, "webgpu: the device refused a step of %u launches: %.600s", d->npending, text);
    if (!st) {
        api->QueueSubmit(d->queue, 1, &commands);
        d->nsubmits++;
    }
    if (commands) api->CommandBufferRelease(commands);
    api->CommandEncoderRelease(d->encoder);
    d->encoder = NULL;
    gpu_drop(d);
    return st;
}

static void on_done(uint32_t status, wg_string message, void *user1, void *user2)
{
    (void)user2;
    gpu_answer_give(user1, status, 0, NULL, message);
}

an_status gpu_wait(an_device *dev)
{
    gpu_device *d = gpu_of(dev);
    an_status st = gpu_submit(dev);
    if (!st) st = gpu_check(d);
    if (st) return st;
    gpu_answer *a = gpu_answer_new(&d->host);
    if (!a) return AN_ERR_NOMEM;
    (void)d->host.lib.api.QueueOnSubmittedWorkDone(d->queue, (wg_done_call){NULL, WG_CALL_IN_PROCESS_EVENTS, on_done, a, NULL});
    if (d->weather.deaf || !gpu_answer_wait(&d->host, a)) return gpu_gone(d, "waiting for kernels");
    st = gpu_check(d);
    if (!st && a->status != WG_SUCCESS) st = an_fail(d->base.ctx, AN_ERR_DEVICE, "webgpu: waiting for kernels failed: %.400s", a->text);
    gpu_answer_done(&d->host, a);
    return st;
}

/* --- bind groups ----------------------------------------------------------------------------------- */

static size_t nwords(const gpu_program *p)
{
    return (size_t)p->wgsl.nbindings * 3 + 1;
}

static void group_free(gpu_program *p, gpu_group *g)
{
    gpu_device *d = gpu_of(p->base.device);
    d->host.lib.api.BindGroupRelease(g->handle);
    an_mem_free(d->base.ctx, g->words, nwords(p) * sizeof *g->words);
}

void gpu_groups_drop(gpu_program *p, uint64_t serial)
{
    size_t kept = 0;
    for (size_t i = 0; i < p->groups.len; i++) {
        bool has = serial == 0;
        for (uint32_t b = 0; b < p->wgsl.nbindings && !has; b++) has = p->groups.data[i].words[b * 3] == serial;
        if (has)
            group_free(p, &p->groups.data[i]);
        else
            p->groups.data[kept++] = p->groups.data[i];
    }
    p->groups.len = kept;
    p->last = 0;
}

/* The slot with these variables, for a launch that is being recorded. */
static an_status uniform_slot(gpu_device *d, const gpu_program *p, const int64_t *vars, uint32_t *out)
{
    uint32_t fields[GPU_UNIFORM_NBYTES / sizeof(uint32_t)] = {0};
    const uint32_t nbytes = p->wgsl.uniform_nbytes;
    for (uint32_t v = 0; v < p->wgsl.nvars; v++) {
        if (vars[v] < 0 || vars[v] > UINT32_MAX)
            return an_fail(d->base.ctx, AN_ERR_LIMIT, "webgpu: kernel %s: a symbolic dimension of %lld does not fit 32 bits", p->name, (long long)vars[v]);
        fields[v] = (uint32_t)vars[v];
    }
    for (uint32_t i = 0; i < d->nuniforms; i++) /* few: kernels of a step share their variables */
        if (d->uniform_size[i] == nbytes && memcmp(d->uniform_data + (size_t)i * GPU_UNIFORM_NBYTES, fields, nbytes) == 0) {
            *out = i;
            return AN_OK;
        }
    if (d->nuniforms == GPU_UNIFORM_SLOTS) {
        const an_status st = gpu_submit((an_device *)d);
        if (st) return st;
    }
    *out = d->nuniforms++;
    d->uniform_size[*out] = nbytes;
    memcpy(d->uniform_data + (size_t)*out * GPU_UNIFORM_NBYTES, fields, GPU_UNIFORM_NBYTES);
    return AN_OK;
}

/* What a binding covers, as three words. */
static an_status cover(gpu_device *d, const gpu_program *p, const an_launch *l, uint32_t slot, uint64_t *words)
{
    const gpu_buffer *b = (const gpu_buffer *)l->buffers[slot];
    const size_t offset = l->offsets ? l->offsets[slot] : 0;
    const size_t nbytes = l->nbytes ? l->nbytes[slot] : b->base.nbytes - offset;
    size_t size = (nbytes + GPU_UNIT - 1) / GPU_UNIT * GPU_UNIT;
    if (nbytes == 0) { /* a unit of its own: bindings may not overlap */
        words[0] = 0;
        words[1] = (uint64_t)slot * GPU_UNIFORM_NBYTES;
        words[2] = GPU_UNIT;
        return AN_OK;
    }
    if (offset + size > b->size) size = b->size - offset;
    if (size > d->caps.max_binding_nbytes)
        return an_fail(d->base.ctx, AN_ERR_LIMIT,
                       "webgpu: kernel %s uses a tensor of %zu bytes, this adapter lets a kernel see at most %llu of one; a smaller batch, or the "
                       "cpu device, has no such limit",
                       p->name, nbytes, (unsigned long long)d->caps.max_binding_nbytes);
    words[0] = b->serial;
    words[1] = offset;
    words[2] = size;
    return AN_OK;
}

static an_status make_group(gpu_device *d, gpu_program *p, const an_launch *l, const uint64_t *words, wg_group *out)
{
    wg_group_entry entries[AN_KERNEL_PARAM_MAX + 1] = {{0}};
    const uint32_t n = p->wgsl.nbindings;
    for (uint32_t b = 0; b < n; b++) {
        const gpu_buffer *buf = (const gpu_buffer *)l->buffers[p->wgsl.bindings[b].slot];
        entries[b] = (wg_group_entry){.binding = b, .buffer = words[b * 3] ? buf->handle : d->nothing, .offset = words[b * 3 + 1], .nbytes = words[b * 3 + 2]};
    }
    if (p->wgsl.nvars)
        entries[n] = (wg_group_entry){.binding = n, .buffer = d->uniforms, .offset = words[n * 3] * GPU_UNIFORM_NBYTES, .nbytes = p->wgsl.uniform_nbytes};
    const wg_group_desc desc = {.label = gpu_string(p->name), .layout = p->pipeline->layout, .nentries = n + (p->wgsl.nvars ? 1u : 0u), .entries = entries};
    char text[GPU_TEXT_MAX];
    uint32_t error = 0;
    gpu_scope_begin(d);
    *out = d->host.lib.api.DeviceCreateBindGroup(d->handle, &desc);
    an_status st = gpu_scope_end(d, &error, text);
    if (!st) st = gpu_check(d);
    if (!st && (error || !*out)) st = an_fail(d->base.ctx, AN_ERR_DEVICE, "webgpu: kernel %s: its buffers were refused: %.600s", p->name, text);
    if (st && *out) d->host.lib.api.BindGroupRelease(*out);
    return st;
}

static an_status find_group(gpu_device *d, gpu_program *p, const an_launch *l, uint32_t uniform, wg_group *out)
{
    uint64_t words[AN_KERNEL_PARAM_MAX * 3 + 1];
    const size_t n = nwords(p);
    words[n - 1] = uniform;
    for (uint32_t b = 0; b < p->wgsl.nbindings; b++) {
        const an_status st = cover(d, p, l, p->wgsl.bindings[b].slot, words + (size_t)b * 3);
        if (st) return st;
    }
    for (size_t i = 0; i < p->groups.len; i++) {
        const size_t at = (p->last + 1 + i) % p->groups.len;
        if (memcmp(p->groups.data[at].words, words, n * sizeof *words) != 0) continue;
        p->last = at;
        *out = p->groups.data[at].handle;
        return AN_OK;
    }
    gpu_group g = {.words = an_mem_alloc(d->base.ctx, n * sizeof *words)};
    if (!g.words) return AN_ERR_NOMEM;
    an_status st = p->groups.len == GPU_GROUPS_MAX || an_vec_reserve(d->base.ctx, &p->groups, 1) ? AN_OK : AN_ERR_NOMEM;
    if (!st) st = make_group(d, p, l, words, &g.handle);
    if (st) {
        an_mem_free(d->base.ctx, g.words, n * sizeof *words);
        return st;
    }
    memcpy(g.words, words, n * sizeof *words);
    if (p->groups.len == GPU_GROUPS_MAX) { /* the one after the last: the oldest, when they come in turns */
        p->last = (p->last + 1) % p->groups.len;
        group_free(p, &p->groups.data[p->last]);
        p->groups.data[p->last] = g;
    } else {
        p->last = p->groups.len;
        p->groups.data[p->groups.len++] = g;
    }
    *out = g.handle;
    return AN_OK;
}

static an_status record(gpu_device *d, gpu_program *p, const an_launch *l, const wg_timestamps *stamps)
{
    const wg_api *api = &d->host.lib.api;
    uint32_t groups[3], uniform = 0;
    wg_group group = NULL;
    an_status st = gpu_check(d);
    if (st) return st;
    if (!an_wgsl_dispatch(&p->wgsl, &d->caps, l->vars, groups))
        return an_fail(d->base.ctx, AN_ERR_LIMIT, "webgpu: kernel %s needs more workgroups than three dimensions of %u hold", p->name, d->caps.max_groups);
    if (!groups[0] || !groups[1] || !groups[2]) return AN_OK;
    if (d->npending >= GPU_PENDING_MAX) st = gpu_submit((an_device *)d);
    if (!st && p->wgsl.nvars) st = uniform_slot(d, p, l->vars, &uniform);
    if (!st) st = find_group(d, p, l, uniform, &group);
    if (!st && stamps) st = gpu_encoder(d);
    if (!st) st = open_pass(d, stamps);
    if (st) return st;
    if (d->set != p->pipeline) api->ComputePassEncoderSetPipeline(d->pass, p->pipeline->handle);
    d->set = p->pipeline;
    api->ComputePassEncoderSetBindGroup(d->pass, 0, group, 0, NULL);
    api->ComputePassEncoderDispatchWorkgroups(d->pass, groups[0], groups[1], groups[2]);
    d->npending++;
    return AN_OK;
}

an_status gpu_launch(an_program *prog, const an_launch *l)
{
    gpu_program *p = (gpu_program *)prog;
    gpu_device *d = gpu_of(p->base.device);
    const an_status st = record(d, p, l, NULL);
    if (st) gpu_drop(d);
    return st;
}

/* --- timing ------------------------------------------------------------------------------------------ */

enum { STAMPED_MAX = 32 }; /* launches of one submit that are timed */

static an_status make_queries(gpu_device *d)
{
    const wg_queries_desc desc = {.label = gpu_string("anneal"), .type = WG_QUERY_TIMESTAMP, .n = 2 * STAMPED_MAX};
    if (d->queries) return AN_OK;
    const an_status st = gpu_raw_buffer(d, WG_USE_RESOLVE | WG_USE_COPY_SRC, 2 * STAMPED_MAX * sizeof(uint64_t), "time stamps", &d->query_buffer);
    if (st) return st;
    d->queries = d->host.lib.api.DeviceCreateQuerySet(d->handle, &desc);
    return d->queries ? gpu_check(d) : an_fail(d->base.ctx, AN_ERR_DEVICE, "webgpu: no time stamps can be made");
}

an_status gpu_time(an_program *prog, const an_launch *l, uint32_t n, double *seconds)
{
    gpu_program *p = (gpu_program *)prog;
    gpu_device *d = gpu_of(p->base.device);
    const wg_api *api = &d->host.lib.api;
    uint64_t stamps[2 * STAMPED_MAX];
    if (!(d->adapter.features >> GPU_TIMESTAMP & 1)) return an_backend_time(prog, l, n, seconds);
    const double unit = 1e-9 * (d->host.lib.dialect.has_ticks ? (double)api->QueueGetTimestampPeriod(d->queue) : 1.0);
    an_status st = gpu_submit(p->base.device);
    if (!st) st = make_queries(d);
    *seconds = 0;
    for (uint32_t done = 0; done < n && !st;) {
        const uint32_t now = n - done < STAMPED_MAX ? n - done : STAMPED_MAX;
        for (uint32_t i = 0; i < now && !st; i++) {
            const wg_timestamps pair = {.queries = d->queries, .begin = 2 * i, .end = 2 * i + 1};
            st = record(d, p, l, &pair);
        }
        if (!st) st = gpu_encoder(d);
        if (!st) api->CommandEncoderResolveQuerySet(d->encoder, d->queries, 0, 2 * now, d->query_buffer, 0);
        if (!st) st = gpu_fetch(d, d->query_buffer, 0, stamps, 2 * now * sizeof *stamps);
        for (uint32_t i = 0; i < now && !st; i++) {
            const double took = unit * (double)(stamps[2 * i + 1] - stamps[2 * i]);
            if (done + i == 0 || took < *seconds) *seconds = took;
        }
        done += now;
    }
    if (st) gpu_drop(d);
    return st;
}
