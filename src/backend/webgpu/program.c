/* program.c - kernels to WGSL to pipelines, all of a batch at once: Dawn compiles in the background, for wgpu-native we keep
 * the threads. A pipeline is shared by all programs whose shader reads the same. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include "backend/webgpu/device.h"

#include <stdio.h>
#include <unistd.h>

enum { THREADS_MAX = 8, SOURCE_MAX = 6000 /* bytes of it in an error */ };

/* A pipeline in the making. */
typedef struct job {
    gpu_pipeline *pipeline; /* not in the device's list yet */
    const char *name, *text;
    wg_module module;
    gpu_answer *answer;
} job;

typedef struct batch {
    gpu_device *d;
    job *jobs;
    size_t n;
    atomic_size_t next;
} batch;

an_key gpu_shader_key(const char *text)
{
    an_key key = an_key_of("wgsl", 4);
    for (const char *line = text; *line;) {
        const char *end = strchr(line, '\n'), *next = end ? end + 1 : line + strlen(line);
        if (!end) end = next;
        for (const char *p = line; p + 1 < end; p++)
            if (p[0] == '/' && p[1] == '/') end = p;
        while (line < end && (*line == ' ' || *line == '\t')) line++;
        while (end > line && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r')) end--;
        if (end > line) {
            const an_key k = an_key_of(line, (size_t)(end - line));
            key = an_key_mix(an_key_mix(key, k.lo), k.hi);
        }
        line = next;
    }
    return key;
}

/* --- making ------------------------------------------------------------------------------------------ */

/* What went wrong with a shader, with its text: a line number alone would help nobody. */
static an_status refused(gpu_device *d, const job *j, const char *why)
{
    an_str source;
    an_str_init(&source, d->base.ctx);
    size_t line = 1;
    for (const char *p = j->text; *p && source.len < SOURCE_MAX; line++) {
        const char *end = strchr(p, '\n');
        const size_t n = end ? (size_t)(end - p) : strlen(p);
        an_str_printf(&source, "%4zu  ", line);
        an_str_putn(&source, p, n);
        an_str_putc(&source, '\n');
        p += end ? n + 1 : n;
    }
    const an_status st = an_fail(d->base.ctx, AN_ERR_DEVICE, "webgpu: kernel %s: %s on %s refuses its shader: %.1500s\nThe shader:\n%s", j->name,
                                 d->host.lib.dialect.name, d->adapter.name, why, an_str_cstr(&source));
    an_str_fini(&source);
    return st;
}

static an_status make_module(gpu_device *d, job *j)
{
    const wg_api *api = &d->host.lib.api;
    wg_wgsl_source source = {{NULL, WG_TYPE_WGSL}, gpu_string(j->text)};
    const wg_module_desc desc = {&source.chain, gpu_string(j->name)};
    char text[GPU_TEXT_MAX];
    uint32_t error = 0;
    an_status st = gpu_check(d);
    if (st) return st;
    gpu_scope_begin(d);
    j->module = d->unchecked && api->DeviceCreateShaderModuleTrusted ? api->DeviceCreateShaderModuleTrusted(d->handle, &desc, 0)
                                                                     : api->DeviceCreateShaderModule(d->handle, &desc);
    st = gpu_scope_end(d, &error, text);
    if (!st) st = gpu_check(d);
    if (!st && (error || !j->module)) st = refused(d, j, text);
    return st;
}

static wg_pipeline_desc describe(const job *j)
{
    return (wg_pipeline_desc){.label = gpu_string(j->name), .compute = {.module = j->module, .entry = gpu_string("main")}};
}

static void on_pipeline(uint32_t status, wg_pipeline pipeline, wg_string message, void *user1, void *user2)
{
    (void)user2;
    gpu_answer_give(user1, status, 0, pipeline, message);
}

static an_status make_in_background(batch *b)
{
    gpu_device *d = b->d;
    an_status st = AN_OK;
    for (size_t i = 0; i < b->n && !st; i++) {
        job *j = &b->jobs[i];
        const wg_pipeline_desc desc = describe(j);
        j->answer = gpu_answer_new(&d->host);
        if (!j->answer)
            st = AN_ERR_NOMEM;
        else
            (void)d->host.lib.api.DeviceCreateComputePipelineAsync(d->handle, &desc, (wg_pipeline_call){NULL, WG_CALL_IN_PROCESS_EVENTS, on_pipeline, j->answer, NULL});
    }
    for (size_t i = 0; i < b->n; i++) { /* all, also after a failure: what has come must be released */
        job *j = &b->jobs[i];
        if (!j->answer) continue;
        if (d->weather.deaf || !gpu_answer_wait(&d->host, j->answer)) return gpu_gone(d, "compiling kernels");
        j->pipeline->handle = j->answer->object;
        if (!st && j->answer->status != WG_SUCCESS) {
            st = gpu_check(d);
            if (!st) st = refused(d, j, j->answer->text);
        }
        gpu_answer_done(&d->host, j->answer);
    }
    return st;
}

/* Touches no context: many run at once. */
static void *make_some(void *arg)
{
    batch *b = arg;
    for (;;) {
        const size_t i = atomic_fetch_add(&b->next, 1);
        if (i >= b->n) return NULL;
        const wg_pipeline_desc desc = describe(&b->jobs[i]);
        b->jobs[i].pipeline->handle = b->d->host.lib.api.DeviceCreateComputePipeline(b->d->handle, &desc);
    }
}

static an_status make_by_threads(batch *b)
{
    gpu_device *d = b->d;
    pthread_t threads[THREADS_MAX];
    size_t nthreads = 0;
    char text[GPU_TEXT_MAX];
    uint32_t error = 0;
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    gpu_scope_begin(d);
    while (nthreads + 1 < b->n && nthreads + 1 < THREADS_MAX && (long)nthreads + 1 < cores) {
        if (pthread_create(&threads[nthreads], NULL, make_some, b)) break;
        nthreads++;
    }
    (void)make_some(b);
    for (size_t i = 0; i < nthreads; i++) (void)pthread_join(threads[i], NULL);
    an_status st = gpu_scope_end(d, &error, text);
    if (st) return st;
    /* An error may have gone to our scope, or past it when it arose in another thread; it names the pipeline by its label. */
    (void)pthread_mutex_lock(&d->lock);
    if (!error && d->has_trouble && !d->is_lost) {
        error = WG_ERROR_VALIDATION;
        snprintf(text, sizeof text, "%s", d->trouble);
        d->has_trouble = false;
    }
    (void)pthread_mutex_unlock(&d->lock);
    st = gpu_check(d);
    for (size_t i = 0; i < b->n && error && !st; i++)
        if (strstr(text, b->jobs[i].name) || i + 1 == b->n) st = refused(d, &b->jobs[i], text);
    return st;
}

static void pipeline_free(gpu_device *d, gpu_pipeline *p)
{
    if (p->layout) d->host.lib.api.BindGroupLayoutRelease(p->layout);
    if (p->handle) d->host.lib.api.ComputePipelineRelease(p->handle);
    an_mem_free(d->base.ctx, p, sizeof *p);
}

/* All jobs to pipelines in the device's list, or none. */
static an_status make(batch *b)
{
    gpu_device *d = b->d;
    const wg_api *api = &d->host.lib.api;
    an_status st = an_vec_reserve(d->base.ctx, &d->pipelines, b->n) ? AN_OK : AN_ERR_NOMEM;
    for (size_t i = 0; i < b->n && !st; i++) st = make_module(d, &b->jobs[i]);
    if (!st) st = d->host.lib.dialect.async_pipelines ? make_in_background(b) : make_by_threads(b);
    for (size_t i = 0; i < b->n && !st; i++) {
        gpu_pipeline *p = b->jobs[i].pipeline;
        if (p->handle) p->layout = api->ComputePipelineGetBindGroupLayout(p->handle, 0);
        st = gpu_check(d);
        if (!st && !p->layout) st = refused(d, &b->jobs[i], "no pipeline came of it");
    }
    for (size_t i = 0; i < b->n; i++) {
        if (b->jobs[i].module) api->ShaderModuleRelease(b->jobs[i].module);
        if (st)
            pipeline_free(d, b->jobs[i].pipeline);
        else
            d->pipelines.data[d->pipelines.len++] = b->jobs[i].pipeline;
    }
    return st;
}

/* --- pipelines ---------------------------------------------------------------------------------------- */

static gpu_pipeline *find(const gpu_device *d, an_key key)
{
    for (size_t i = d->pipelines.len; i > 0; i--)
        if (an_key_eq(d->pipelines.data[i - 1]->key, key)) return d->pipelines.data[i - 1];
    return NULL;
}

/* Pipelines for n texts: known ones, and new ones made together. On failure no user is counted. */
static an_status pipelines_get(gpu_device *d, const char *const *names, const char *const *texts, size_t n, gpu_pipeline **out)
{
    an_ctx *ctx = d->base.ctx;
    batch b = {.d = d};
    b.jobs = an_mem_zalloc(ctx, n * sizeof *b.jobs);
    an_status st = b.jobs ? AN_OK : AN_ERR_NOMEM;
    for (size_t i = 0; i < n && !st; i++) {
        const an_key key = gpu_shader_key(texts[i]);
        out[i] = find(d, key);
        for (size_t k = 0; k < b.n && !out[i]; k++)
            if (an_key_eq(b.jobs[k].pipeline->key, key)) out[i] = b.jobs[k].pipeline;
        if (out[i]) continue;
        gpu_pipeline *p = an_mem_zalloc(ctx, sizeof *p);
        if (!p) {
            st = AN_ERR_NOMEM;
            break;
        }
        p->key = key;
        b.jobs[b.n++] = (job){.pipeline = p, .name = names[i], .text = texts[i]};
        out[i] = p;
    }
    if (st) {
        for (size_t i = 0; i < b.n; i++) pipeline_free(d, b.jobs[i].pipeline);
    } else if (b.n) {
        st = make(&b);
    }
    for (size_t i = 0; i < n; i++) {
        if (st)
            out[i] = NULL; /* it may be one of those that came to nothing */
        else
            out[i]->nusers++;
    }
    an_mem_free(ctx, b.jobs, n * sizeof *b.jobs);
    return st;
}

an_status gpu_pipeline_get(gpu_device *d, const char *name, const char *text, gpu_pipeline **out)
{
    return pipelines_get(d, &name, &text, 1, out);
}

void gpu_pipeline_release(gpu_device *d, gpu_pipeline *p)
{
    if (!p || --p->nusers) return;
    size_t idle = 0;
    for (size_t i = 0; i < d->pipelines.len; i++) idle += d->pipelines.data[i]->nusers == 0;
    for (size_t i = 0; i < d->pipelines.len && idle > GPU_PIPELINES_IDLE_MAX; i++) { /* the oldest goes */
        if (d->pipelines.data[i]->nusers) continue;
        pipeline_free(d, d->pipelines.data[i]);
        memmove(d->pipelines.data + i, d->pipelines.data + i + 1, (d->pipelines.len - i - 1) * sizeof *d->pipelines.data);
        d->pipelines.len--;
        break;
    }
}

void gpu_pipelines_free(gpu_device *d)
{
    for (size_t i = 0; i < d->pipelines.len; i++) pipeline_free(d, d->pipelines.data[i]);
    an_vec_fini(d->base.ctx, &d->pipelines);
}

/* --- programs ------------------------------------------------------------------------------------------- */

void gpu_program_destroy(an_program *prog)
{
    if (!prog) return;
    gpu_program *p = (gpu_program *)prog;
    gpu_device *d = gpu_of(p->base.device);
    an_ctx *ctx = d->base.ctx;
    gpu_groups_drop(p, 0);
    an_vec_fini(ctx, &p->groups);
    gpu_pipeline_release(d, p->pipeline);
    an_wgsl_fini(&p->wgsl);
    if (p->next) p->next->prev = p->prev;
    if (p->prev)
        p->prev->next = p->next;
    else if (d->programs == p)
        d->programs = p->next;
    an_mem_free(ctx, p->name, p->name_nbytes);
    an_mem_free(ctx, p, sizeof *p);
}

static an_status program_new(gpu_device *d, const an_kernel *kernel, an_program **out)
{
    an_ctx *ctx = d->base.ctx;
    gpu_program *p = an_mem_zalloc(ctx, sizeof *p);
    if (!p) return AN_ERR_NOMEM;
    p->base.device = (an_device *)d;
    p->wgsl.ctx = ctx;
    p->next = d->programs;
    if (p->next) p->next->prev = p;
    d->programs = p;
    *out = (an_program *)p;
    p->name_nbytes = strlen(kernel->name) + 1;
    p->name = an_mem_alloc(ctx, p->name_nbytes);
    if (!p->name) return AN_ERR_NOMEM;
    memcpy(p->name, kernel->name, p->name_nbytes);
    const an_status st = an_wgsl_render(ctx, kernel, &d->caps, &p->wgsl);
    if (!st && p->wgsl.nbindings > d->caps.max_buffers)
        return an_fail(ctx, AN_ERR_LIMIT, "webgpu: kernel %s uses %u buffers, this adapter allows %u in a kernel", kernel->name, p->wgsl.nbindings, d->caps.max_buffers);
    if (!st && p->wgsl.uniform_nbytes > GPU_UNIFORM_NBYTES)
        return an_fail(ctx, AN_ERR_LIMIT, "webgpu: kernel %s has %u symbolic dimensions, too many for %d bytes", kernel->name, p->wgsl.nvars, GPU_UNIFORM_NBYTES);
    return st;
}

static an_status compile_all(gpu_device *d, const an_kernel *const *kernels, size_t n, const char **texts, gpu_pipeline **pipelines, an_program **out)
{
    const char *const *names = texts + n;
    an_status st = AN_OK;
    for (size_t i = 0; i < n && !st; i++) {
        st = program_new(d, kernels[i], &out[i]);
        if (st) return st;
        texts[i] = d->weather.shader ? d->weather.shader : ((gpu_program *)out[i])->wgsl.text;
        texts[n + i] = ((gpu_program *)out[i])->name;
    }
    st = pipelines_get(d, names, texts, n, pipelines);
    for (size_t i = 0; i < n && !st; i++) ((gpu_program *)out[i])->pipeline = pipelines[i];
    return st;
}

an_status gpu_compile(an_device *dev, const an_kernel *const *kernels, size_t n, an_program **out)
{
    gpu_device *d = gpu_of(dev);
    an_ctx *ctx = d->base.ctx;
    if (n == 0) return AN_OK;
    const char **texts = an_mem_zalloc(ctx, 2 * n * sizeof *texts);
    gpu_pipeline **pipelines = an_mem_zalloc(ctx, n * sizeof *pipelines);
    an_status st = texts && pipelines ? gpu_check(d) : AN_ERR_NOMEM;
    for (size_t i = 0; i < n; i++) out[i] = NULL;
    if (!st) st = compile_all(d, kernels, n, texts, pipelines, out);
    for (size_t i = 0; i < n && st; i++) {
        gpu_program_destroy(out[i]);
        out[i] = NULL;
    }
    an_mem_free(ctx, texts, 2 * n * sizeof *texts);
    an_mem_free(ctx, pipelines, n * sizeof *pipelines);
    return st;
}

an_status gpu_load(an_device *dev, const an_kernel *const *kernels, size_t n, an_program **out)
{
    (void)dev, (void)kernels;
    for (size_t i = 0; i < n; i++) out[i] = NULL;
    return AN_OK;
}

an_status gpu_source(an_device *dev, const an_kernel *kernel, void (*put)(void *user, const char *text), void *user)
{
    gpu_device *d = gpu_of(dev);
    an_wgsl w = {.ctx = d->base.ctx};
    const an_status st = an_wgsl_render(d->base.ctx, kernel, &d->caps, &w);
    if (!st) put(user, w.text);
    an_wgsl_fini(&w);
    return st;
}
