/* device.c - opening a WebGPU device with all it has, closing it, and what went wrong in between. */
#include "backend/webgpu/device.h"

#include "backend/backends.h"
#include "ir/uop.h"
#include <anneal/settings.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* --- errors ---------------------------------------------------------------------------------------- */

static void on_error(const wg_device *device, uint32_t error, wg_string message, void *user1, void *user2)
{
    gpu_device *d = user1;
    (void)device, (void)user2;
    (void)pthread_mutex_lock(&d->lock);
    if (!d->has_trouble && !d->is_closing) { /* the first says most: others follow from it */
        d->has_trouble = true;
        d->trouble_is_memory = error == WG_ERROR_MEMORY;
        gpu_string_copy(d->trouble, sizeof d->trouble, message);
    }
    (void)pthread_mutex_unlock(&d->lock);
}

static void on_lost(const wg_device *device, uint32_t reason, wg_string message, void *user1, void *user2)
{
    gpu_device *d = user1;
    (void)device, (void)user2, (void)reason;
    (void)pthread_mutex_lock(&d->lock);
    if (!d->is_lost) {
        d->is_lost = true;
        gpu_string_copy(d->lost_text, sizeof d->lost_text, message);
    }
    (void)pthread_mutex_unlock(&d->lock);
}

static an_status fail_lost(gpu_device *d)
{
    return an_fail(d->base.ctx, AN_ERR_DEVICE,
                   "webgpu: the device %s is lost (%.300s); what its buffers held is gone with it. Start again, from the last checkpoint if "
                   "there is one",
                   d->adapter.name, d->lost_text[0] ? d->lost_text : "the driver gives no reason");
}

an_status gpu_check(gpu_device *d)
{
    an_status st = AN_OK;
    (void)pthread_mutex_lock(&d->lock);
    const bool lost = d->is_lost, trouble = d->has_trouble && !lost;
    if (trouble) {
        st = an_fail(d->base.ctx, d->trouble_is_memory ? AN_ERR_NOMEM : AN_ERR_DEVICE, "webgpu: %s%.900s",
                     d->trouble_is_memory ? "no memory on the device: " : "", d->trouble);
        d->has_trouble = false;
    }
    (void)pthread_mutex_unlock(&d->lock);
    return lost ? fail_lost(d) : st;
}

an_status gpu_gone(gpu_device *d, const char *what)
{
    (void)pthread_mutex_lock(&d->lock);
    if (!d->is_lost) {
        d->is_lost = true;
        snprintf(d->lost_text, sizeof d->lost_text, "no answer within %g s while %s; ANNEAL_WEBGPU_TIMEOUT sets another limit", d->host.timeout_s, what);
    }
    (void)pthread_mutex_unlock(&d->lock);
    gpu_drop(d);
    return fail_lost(d);
}

static void on_scope(uint32_t status, uint32_t error, wg_string message, void *user1, void *user2)
{
    (void)user2;
    gpu_answer_give(user1, status, error, NULL, message);
}

void gpu_scope_begin(gpu_device *d)
{
    d->host.lib.api.DevicePushErrorScope(d->handle, WG_SCOPE_MEMORY);
    d->host.lib.api.DevicePushErrorScope(d->handle, WG_SCOPE_VALIDATION);
}

an_status gpu_scope_end(gpu_device *d, uint32_t *error, char *text)
{
    an_status st = AN_OK;
    *error = 0;
    text[0] = '\0';
    for (int i = 0; i < 2 && !st; i++) { /* validation, then memory */
        gpu_answer *a = gpu_answer_new(&d->host);
        if (!a) return AN_ERR_NOMEM;
        (void)d->host.lib.api.DevicePopErrorScope(d->handle, (wg_scope_call){NULL, WG_CALL_IN_PROCESS_EVENTS, on_scope, a, NULL});
        if (!gpu_answer_wait(&d->host, a)) return gpu_gone(d, "checking a call");
        if (a->status == WG_SUCCESS && a->error > WG_ERROR_NONE) {
            *error = a->error;
            snprintf(text, GPU_TEXT_MAX, "%s", a->text);
        }
        gpu_answer_done(&d->host, a);
    }
    return st;
}

/* --- opening --------------------------------------------------------------------------------------- */

static void device_close(an_device *dev)
{
    if (!dev) return;
    gpu_device *d = gpu_of(dev);
    const wg_api *api = &d->host.lib.api;
    an_ctx *ctx = d->base.ctx;
    d->is_closing = true;
    gpu_drop(d);
    gpu_pipelines_free(d);
    wg_buffer *const buffers[] = {&d->uniforms, &d->nothing, &d->staging, &d->query_buffer};
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
        if (*buffers[i]) {
            api->BufferDestroy(*buffers[i]);
            api->BufferRelease(*buffers[i]);
        }
    if (d->queries) api->QuerySetRelease(d->queries);
    if (d->queue) api->QueueRelease(d->queue);
    if (d->handle) {
        api->DeviceDestroy(d->handle);
        api->InstanceProcessEvents(d->host.instance);
        api->DeviceRelease(d->handle);
    }
    if (d->adapter.handle) api->AdapterRelease(d->adapter.handle);
    gpu_host_fini(&d->host);
    an_mem_free(ctx, d->uniform_data, (size_t)GPU_UNIFORM_SLOTS * GPU_UNIFORM_NBYTES);
    if (d->has_lock) (void)pthread_mutex_destroy(&d->lock);
    an_mem_free(ctx, d, sizeof *d);
}

static void on_device(uint32_t status, wg_device device, wg_string message, void *user1, void *user2)
{
    (void)user2;
    gpu_answer_give(user1, status, 0, device, message);
}

static size_t load_blob(size_t key_nbytes, const uint8_t *key, size_t value_nbytes, uint8_t *value, void *user, void *unused)
{
    (void)unused;
    return gpu_blobs_load(key, key_nbytes, value, value_nbytes, user);
}

static void store_blob(size_t key_nbytes, const uint8_t *key, size_t value_nbytes, const uint8_t *value, void *user, void *unused)
{
    (void)unused;
    gpu_blobs_store(key, key_nbytes, value, value_nbytes, user);
}

/* A device with those features. *handle stays NULL, and text says why, when the library refuses. */
static an_status request(gpu_device *d, uint32_t features, const wg_limits *limits, char *text)
{
    static const char *const on[] = {"allow_unsafe_apis", "vulkan_enable_f16_on_nvidia", "use_vulkan_memory_model", "disable_robustness"};
    static const char *const off[] = {"timestamp_quantization"}; /* to 0.1 ms: against fingerprints, of no use here */
    /* Not every build of Dawn puts its version into its keys, and what one keeps may crash another. */
    const wg_string isolation = gpu_string(d->host.lib.build);
    wg_dawn_cache cache = {.chain = {NULL, WG_TYPE_DAWN_CACHE}, .isolation = isolation, .load = gpu_blobs_load, .store = gpu_blobs_store, .user = &d->blobs};
    wg_dawn_cache_2026 cache_2026 = {.chain = {NULL, WG_TYPE_DAWN_CACHE},
                                     .isolation = isolation,
                                     .load = {NULL, load_blob, &d->blobs, NULL},
                                     .store = {NULL, store_blob, &d->blobs, NULL}};
    wg_chain *kept = d->host.lib.dialect.is_of_2026 ? &cache_2026.chain : &cache.chain;
    wg_dawn_toggles toggles = {.chain = {d->blobs.folder[0] ? kept : NULL, WG_TYPE_DAWN_TOGGLES}, .nenabled = d->unchecked ? 4 : 3, .enabled = on, .ndisabled = 1, .disabled = off};
    uint32_t numbers[GPU_NFEATURES];
    wg_device_desc desc = {.next = d->host.lib.dialect.takes_toggles ? &toggles.chain : NULL,
                           .label = gpu_string("anneal"),
                           .features = numbers,
                           .limits = limits,
                           .lost = {NULL, WG_CALL_IN_PROCESS_EVENTS, on_lost, d, NULL},
                           .error = {NULL, on_error, d, NULL}};
    for (int f = 0; f < GPU_NFEATURES; f++)
        if (features >> f & 1) numbers[desc.nfeatures++] = d->adapter.number[f];
    gpu_answer *a = gpu_answer_new(&d->host);
    if (!a) return AN_ERR_NOMEM;
    (void)d->host.lib.api.AdapterRequestDevice(d->adapter.handle, &desc, (wg_device_call){NULL, WG_CALL_IN_PROCESS_EVENTS, on_device, a, NULL});
    if (!gpu_answer_wait(&d->host, a)) return gpu_gone(d, "opening it");
    if (a->status == WG_SUCCESS) d->handle = a->object;
    snprintf(text, GPU_TEXT_MAX, "%s", a->text);
    gpu_answer_done(&d->host, a);
    return AN_OK;
}

static bool is_set(const char *name, const char *value)
{
    const char *set = getenv(name);
    return set && strcmp(set, value) == 0;
}

/* Compiled shaders are kept beside the libraries, unless ANNEAL_CACHE=0. */
static an_status open_blobs(gpu_device *d)
{
    enum { MIB = 1 << 20, MOST = 256 };
    char folder[GPU_PATH_MAX - 8], blobs[GPU_PATH_MAX];
    if (!d->host.lib.dialect.takes_toggles || an_ctx_settings(d->base.ctx).no_cache || !gpu_folder(folder, sizeof folder)) return AN_OK;
    snprintf(blobs, sizeof blobs, "%s/blobs", folder);
    return gpu_blobs_open(d->base.ctx, &d->blobs, blobs, (uint64_t)MOST * MIB);
}

/* All that the adapter has; an experimental feature that is refused after all is done without. */
static an_status open_handle(gpu_device *d)
{
    const uint32_t all = d->adapter.features, tries[] = {all, all & ~(1u << GPU_MATRIX), all & (1u << GPU_F16 | 1u << GPU_TIMESTAMP), 0};
    const bool least = is_set("ANNEAL_WEBGPU_LIMITS", "least");
    char text[GPU_TEXT_MAX] = "";
    wg_limits limits = d->adapter.limits;
    limits.immediate_nbytes = 0;
    const an_status blobs = open_blobs(d);
    if (blobs) return blobs;
    d->unchecked = !is_set("ANNEAL_WEBGPU_CHECKS", "1");
    for (size_t i = 0; i < sizeof tries / sizeof tries[0] && !d->handle; i++) {
        if (i && tries[i] == tries[i - 1]) continue;
        const an_status st = request(d, tries[i], least ? NULL : &limits, text);
        if (st) return st;
        d->adapter.features = tries[i];
    }
    if (!d->handle)
        return an_fail(d->base.ctx, AN_ERR_DEVICE, "webgpu: the adapter %s gives no device: %.600s", d->adapter.name, text);
    d->queue = d->host.lib.api.DeviceGetQueue(d->handle);
    d->limits = d->adapter.limits;
    const an_wgsl_caps floor = an_wgsl_caps_default();
    if (least) {
        d->limits.buffer_nbytes = 256 << 20;
        d->limits.storage_binding_nbytes = floor.max_binding_nbytes;
        d->limits.storage_buffers = floor.max_buffers;
        d->limits.workgroup_nbytes = floor.max_local_nbytes;
        d->limits.workgroup_invocations = floor.max_invocations;
        memcpy(d->limits.workgroup_size, floor.max_size, sizeof floor.max_size);
        d->limits.workgroups = floor.max_groups;
    }
    d->caps = (an_wgsl_caps){.max_invocations = d->limits.workgroup_invocations,
                             .max_size = {d->limits.workgroup_size[0], d->limits.workgroup_size[1], d->limits.workgroup_size[2]},
                             .max_groups = d->limits.workgroups,
                             .max_local_nbytes = d->limits.workgroup_nbytes,
                             .max_buffers = d->limits.storage_buffers,
                             .max_binding_nbytes = d->limits.storage_binding_nbytes,
                             .names_subgroups = d->host.lib.dialect.names_subgroups,
                             .has_f16 = d->adapter.features >> GPU_F16 & 1,
                             .read_write_all = true};
    if (d->adapter.features >> GPU_SUBGROUPS & 1 && d->adapter.subgroup_min == d->adapter.subgroup_max)
        d->caps.subgroup_nlanes = d->adapter.subgroup_min;
    return AN_OK;
}

/* Runs a shader, one workgroup, on a buffer x of nbytes that it reads and writes. ran: NULL, or false when the shader is refused. */
static an_status run_check(gpu_device *d, const char *what, const char *text, void *x, size_t nbytes, bool *ran)
{
    gpu_program p = {.base = {(an_device *)d}, .wgsl = {.nbindings = 1, .ngroups_code = 1, .groups = {{.op = AN_OP_CONST, .value = 1}}}};
    char name[64];
    an_buffer *b = NULL;
    (void)snprintf(name, sizeof name, "the check of %s", what);
    p.name = name;
    an_status st = gpu_pipeline_get(d, name, text, &p.pipeline);
    if (st && ran && an_ctx_status(d->base.ctx) == AN_ERR_DEVICE && !d->is_lost) { /* the feature is not there after all */
        an_ctx_clear_error(d->base.ctx);
        *ran = false;
        return AN_OK;
    }
    if (st) st = an_ctx_status(d->base.ctx); /* the first failure: memory that ran out while the refusal was written is no refusal */
    if (!st) st = gpu_buffer_create((an_device *)d, nbytes, &b);
    if (!st) st = gpu_write(b, 0, x, nbytes);
    if (!st) st = gpu_launch((an_program *)&p, &(an_launch){.buffers = &b});
    if (!st) st = gpu_read(b, 0, x, nbytes);
    if (ran) *ran = !st;
    if (st == AN_ERR_DEVICE && ran && !d->is_lost) { /* nor does it run */
        an_ctx_clear_error(d->base.ctx);
        st = AN_OK;
    }
    gpu_groups_drop(&p, 0);
    an_vec_fini(d->base.ctx, &p.groups);
    gpu_pipeline_release(d, p.pipeline);
    gpu_buffer_destroy(b);
    return st;
}

/* Whether fma() rounds twice here: (1 + 2^-12)^2 - (1 + 2^-11) is 2^-24, or 0 if the square was rounded first. */
static an_status probe_fma(gpu_device *d)
{
    static const char text[] = "@group(0) @binding(0) var<storage, read_write> x: array<f32>;\n"
                               "@compute @workgroup_size(1) fn main() { x[3] = fma(x[0], x[1], x[2]); }\n";
    float x[4] = {1.000244140625f, 1.000244140625f, -1.00048828125f, 7};
    const an_status st = run_check(d, "fma", text, x, sizeof x, NULL);
    d->caps.inexact_fma = x[3] < 0x1p-25f;
    return st;
}

/* Whether f16() rounds to nearest, ties to even, keeps what is below the normal numbers, and overflows to infinity as it should: of what
 * goes to memory, and as wgsl/math.c has it. */
static an_status probe_f16(gpu_device *d)
{
    enum { N = 12 };
    static const char text[] = "enable f16;\n@group(0) @binding(0) var<storage, read_write> x: array<f32>;\nvar<workgroup> w: array<f16, 12>;\n"
                               "@compute @workgroup_size(1) fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>) {\n"
                               "  let zero = u32(wg.x >= nwg.x);\n"
                               "  for (var i = 0u; i < 12u; i++) { w[i] = f16(x[i]); }\n"
                               "  workgroupBarrier();\n"
                               "  for (var i = 0u; i < 12u; i++) {\n"
                               "    x[i] = f32(w[i]);\n"
                               "    x[i + 12u] = f32(bitcast<vec2<f16>>(bitcast<u32>(vec2<f16>(f16(x[i + 12u]), 0.0h)) ^ zero).x); } }\n";
    static const float in[N] = {0x1.002p0f, 0x1.006p0f, 0x1.001p0f, -0x1.003p0f, 0x1.ffdffep15f, 0x1.ffep15f, -65504, 0x1p-25f, 0x1.8p-25f, 0x1.8p-24f, 0x1.ff2p-15f, 1e30f};
    static const float want[N] = {0x1p0f, 0x1.008p0f, 0x1p0f, -0x1.004p0f, 65504, INFINITY, -65504, 0, 0x1p-24f, 0x1p-23f, 0x1.ffp-15f, INFINITY};
    float x[2 * N];
    bool ran = false;
    memcpy(x, in, sizeof in);
    memcpy(x + N, in, sizeof in);
    const an_status st = d->caps.has_f16 ? run_check(d, "f16", text, x, sizeof x, &ran) : AN_OK;
    d->caps.exact_f16 = ran && memcmp(x, want, sizeof want) == 0 && memcmp(x + N, want, sizeof want) == 0;
    return st;
}

/* Whether the threads of each subgroup are neighbours, and exchange values: of 256 threads, each its place and the next one's number. */
static an_status probe_subgroups(gpu_device *d)
{
    enum { THREADS = 256 };
    static const char body[] = "@group(0) @binding(0) var<storage, read_write> x: array<vec2<u32>>;\n"
                               "@compute @workgroup_size(256) fn main(@builtin(local_invocation_index) lid: u32, @builtin(subgroup_invocation_id) at: u32) {\n"
                               "  x[lid] = vec2<u32>(at, subgroupShuffleXor(lid, 1u)); }\n";
    char text[sizeof body + 32];
    uint32_t out[2 * THREADS] = {0};
    bool ran = false;
    const uint32_t n = d->caps.subgroup_nlanes;
    (void)snprintf(text, sizeof text, "%s%s", d->caps.names_subgroups ? "enable subgroups;\n" : "", body);
    const an_status st = n >= 2 && d->caps.max_invocations >= THREADS ? run_check(d, "subgroups", text, out, sizeof out, &ran) : AN_OK;
    for (uint32_t i = 0; i < THREADS && ran; i++) ran = out[2 * i] == i % n && out[2 * i + 1] == (i ^ 1);
    if (!ran) d->caps.subgroup_nlanes = 0;
    return st;
}

/* Whether subgroups multiply fragments as wgsl/matrix.c has them: a product of small whole numbers. */
static an_status probe_matrix(gpu_device *d)
{
    enum { ROWS = 16, COLUMNS = 8, DEPTH = 16 };
    static const char text[] = "enable f16;\nenable subgroups;\nenable chromium_experimental_subgroup_matrix;\n"
                               "diagnostic(off, chromium.subgroup_matrix_uniformity);\n"
                               "@group(0) @binding(0) var<storage, read_write> x: array<f32>;\n"
                               "var<workgroup> a: array<f16, 256>;\nvar<workgroup> b: array<f16, 128>;\nvar<workgroup> c: array<f32, 128>;\n"
                               "@compute @workgroup_size(32) fn main(@builtin(local_invocation_index) lid: u32) {\n"
                               "  for (var i = lid; i < 256u; i += 32u) { a[i] = f16(i % 7u); }\n"
                               "  for (var i = lid; i < 128u; i += 32u) { b[i] = f16(i % 5u); }\n"
                               "  workgroupBarrier();\n"
                               "  let l = subgroupMatrixLoad<subgroup_matrix_left<f16, 16, 16>, row_major>(&a, 0u, 16u);\n"
                               "  let r = subgroupMatrixLoad<subgroup_matrix_right<f16, 8, 16>, row_major>(&b, 0u, 8u);\n"
                               "  var s: subgroup_matrix_result<f32, 8, 16>;\n"
                               "  s = subgroupMatrixMultiplyAccumulate(l, r, s);\n"
                               "  subgroupMatrixStore<row_major>(&c, 0u, s, 8u);\n"
                               "  workgroupBarrier();\n"
                               "  for (var i = lid; i < 128u; i += 32u) { x[i] = c[i]; } }\n";
    float out[ROWS * COLUMNS] = {0};
    const uint32_t needs = 1u << GPU_F16 | 1u << GPU_MATRIX;
    bool ran = false;
    an_status st = AN_OK;
    if ((d->adapter.features & needs) == needs && d->caps.subgroup_nlanes == 32 && d->caps.names_subgroups)
        st = run_check(d, "matrix units", text, out, sizeof out, &ran);
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        int want = 0;
        for (int k = 0; k < DEPTH; k++) want += (i / COLUMNS * DEPTH + k) % 7 * ((k * COLUMNS + i % COLUMNS) % 5);
        ran = ran && out[i] == (float)want;
    }
    d->caps.has_matrix = ran;
    return st;
}

/* Everything that decides what is made of a kernel. */
static uint64_t key_of(const gpu_device *d)
{
    const an_wgsl_caps *c = &d->caps;
    uint64_t h = an_hash_bytes(0, d->host.lib.dialect.name, strlen(d->host.lib.dialect.name));
    h = an_hash_bytes(h, d->host.lib.version, strlen(d->host.lib.version));
    const uint64_t fields[] = {c->max_invocations, c->max_size[0],     c->max_size[1],        c->max_size[2],  c->max_groups,
                               c->max_local_nbytes, c->max_buffers,    c->max_binding_nbytes, c->subgroup_nlanes, c->has_f16, c->exact_f16, c->has_matrix,
                               c->read_write_all,   c->inexact_fma,    c->exact_div,        d->unchecked};
    return an_hash_bytes(h, fields, sizeof fields);
}

/* And everything that decides how fast that is. */
static uint64_t identity_of(const gpu_device *d)
{
    const char *const texts[] = {d->adapter.name, d->adapter.driver, d->adapter.vendor};
    uint64_t h = key_of(d);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) h = an_hash_bytes(h, texts[i], strlen(texts[i]));
    return h;
}

static an_status make_common(gpu_device *d)
{
    an_status st = gpu_raw_buffer(d, WG_USE_UNIFORM | WG_USE_COPY_DST, (uint64_t)GPU_UNIFORM_SLOTS * GPU_UNIFORM_NBYTES, "uniforms", &d->uniforms);
    if (!st)
        st = gpu_raw_buffer(d, WG_USE_STORAGE, (uint64_t)AN_KERNEL_PARAM_MAX * GPU_UNIFORM_NBYTES, "empty tensors", &d->nothing);
    if (st) return st;
    d->uniform_data = an_mem_zalloc(d->base.ctx, (size_t)GPU_UNIFORM_SLOTS * GPU_UNIFORM_NBYTES);
    return d->uniform_data ? AN_OK : AN_ERR_NOMEM;
}

static an_status open_adapter(an_ctx *ctx, gpu_host *host, const gpu_adapter *adapter, an_device **out)
{
    gpu_device *d = an_mem_zalloc(ctx, sizeof *d);
    if (!d) {
        host->lib.api.AdapterRelease(adapter->handle);
        gpu_host_fini(host);
        return AN_ERR_NOMEM;
    }
    d->base = (an_device_base){.backend = &an_backend_webgpu, .ctx = ctx};
    d->host = *host;
    d->adapter = *adapter;
    d->has_lock = pthread_mutex_init(&d->lock, NULL) == 0;
    an_status st = d->has_lock ? open_handle(d) : an_fail(ctx, AN_ERR_DEVICE, "webgpu: no lock can be made");
    if (!st) st = make_common(d);
    if (!st) st = probe_fma(d);
    if (!st) st = probe_f16(d);
    if (!st) st = probe_subgroups(d);
    if (!st) st = probe_matrix(d);
    if (st) {
        device_close((an_device *)d);
        return st;
    }
    const bool software = d->adapter.type == WG_ADAPTER_CPU;
    d->caps.exact_div = software; /* the processor's own */
    d->base.vector_nbytes = 16;
    d->base.gpu_threads = d->caps.max_invocations < d->caps.max_size[0] ? d->caps.max_invocations : d->caps.max_size[0];
    d->base.gpu_local_nbytes = d->caps.max_local_nbytes;
    d->base.gpu_units = software ? 4 : 128;
    d->base.gpu_small_code = software || d->caps.inexact_fma;
    d->base.gpu_has_matrix = d->caps.has_matrix;
    d->base.key = key_of(d);
    d->base.identity = identity_of(d);
    d->base.no_fork = true;
    d->base.max_buffers = d->caps.max_buffers;
    *out = (an_device *)d;
    return AN_OK;
}

/* Opens the adapter that is wanted, if this library has it. timeout_s: 0: what is usual. *found: how many it has; 0 and no failure: none. */
static an_status try_library(an_ctx *ctx, const gpu_library *lib, const char *choice, double timeout_s, size_t *found, an_device **out)
{
    gpu_host host;
    gpu_adapter list[AN_WEBGPU_ADAPTERS_MAX] = {{0}};
    an_status st = gpu_host_init(ctx, lib, &host);
    if (timeout_s > 0) host.timeout_s = timeout_s;
    *found = 0;
    if (!st) st = gpu_adapters_list(&host, list, found);
    const size_t at = st ? 0 : gpu_adapter_choose(list, *found, choice);
    if (st || at == *found) {
        gpu_adapters_free(&host, list, *found);
        gpu_host_fini(&host);
        return st;
    }
    gpu_adapter chosen = list[at];
    list[at].handle = NULL;
    gpu_adapters_free(&host, list, *found);
    return open_adapter(ctx, &host, &chosen, out);
}

static an_status device_open(an_ctx *ctx, const an_device_desc *desc, an_device **out)
{
    gpu_candidate paths[GPU_CANDIDATES_MAX];
    const size_t n = gpu_candidates(paths);
    const char *choice = desc && desc->adapter ? desc->adapter : getenv("ANNEAL_WEBGPU_ADAPTER");
    char why[AN_WEBGPU_TEXT_MAX] = "";
    size_t nlibraries = 0, nadapters = 0;
    *out = NULL;
    for (size_t i = 0; i < n && !*out; i++) {
        gpu_library lib;
        size_t found = 0;
        if (!gpu_library_open(paths[i], &lib, why)) continue;
        nlibraries++;
        const an_status st = try_library(ctx, &lib, choice, desc ? desc->timeout_s : 0, &found, out);
        if (st) return st;
        nadapters += found;
    }
    if (*out) return AN_OK;
    if (!nlibraries && getenv("ANNEAL_WEBGPU_LIB")) return an_fail(ctx, AN_ERR_DEVICE, "webgpu: ANNEAL_WEBGPU_LIB: %s", why);
    if (!nlibraries)
        return an_fail(ctx, AN_ERR_DEVICE, "webgpu: there is no WebGPU library on this machine; scripts/fetch-webgpu.sh brings one, or "
                                           "ANNEAL_WEBGPU_LIB names one");
    if (!nadapters)
        return an_fail(ctx, AN_ERR_DEVICE, "webgpu: no GPU is seen, nor a software adapter; is its Vulkan driver installed? "
                                           "`scripts/fetch-webgpu.sh software` brings a driver that needs no GPU");
    return an_fail(ctx, AN_ERR_DEVICE, "webgpu: no adapter is called '%s'; `anneal doctor` lists those there are", choice ? choice : "");
}

const an_backend an_backend_webgpu = {
    .name = "webgpu",
    .open = device_open,
    .close = device_close,
    .buffer_create = gpu_buffer_create,
    .buffer_destroy = gpu_buffer_destroy,
    .write = gpu_write,
    .read = gpu_read,
    .compile = gpu_compile,
    .load = gpu_load,
    .program_destroy = gpu_program_destroy,
    .launch = gpu_launch,
    .submit = gpu_submit,
    .wait = gpu_wait,
    .time = gpu_time,
    .source = gpu_source,
};
