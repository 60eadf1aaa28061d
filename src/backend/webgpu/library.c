/* library.c - see library.h: finding a library, opening it, and knowing which it is. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* dladdr */
#endif
#include "backend/webgpu/library.h"

#include "base/disk.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#if defined(__APPLE__)
#define LIB_SUFFIX ".dylib"
#else
#define LIB_SUFFIX ".so"
#endif

/* --- where they are ------------------------------------------------------------------------------ */

bool gpu_folder(char *out, size_t size)
{
    char cache[GPU_PATH_MAX];
    const int n = an_cache_folder(cache, sizeof cache) ? snprintf(out, size, "%s/webgpu", cache) : -1;
    return n > 0 && (size_t)n < size;
}

size_t gpu_candidates(gpu_candidate list[GPU_CANDIDATES_MAX])
{
    static const struct {
        const char *name, *file;
    } known[] = {{"wgpu", "libwgpu_native" LIB_SUFFIX}, {"dawn", "libwebgpu_dawn" LIB_SUFFIX}, {"webgpu", "libwebgpu" LIB_SUFFIX}};
    enum { NKNOWN = sizeof known / sizeof known[0] };
    char folder[GPU_PATH_MAX];
    const bool has_folder = gpu_folder(folder, sizeof folder);
    const char *chosen = getenv("ANNEAL_WEBGPU_LIB");
    size_t n = 0;
    if (chosen && !*chosen) chosen = NULL;
    for (size_t i = 0; i < NKNOWN; i++)
        if (!chosen || strcmp(chosen, known[i].name) == 0) snprintf(list[n++], sizeof list[0], "%s", known[i].file);
    for (size_t i = 0; i < NKNOWN && has_folder; i++)
        if (!chosen || strcmp(chosen, known[i].name) == 0) snprintf(list[n++], sizeof list[0], "%.400s/%s", folder, known[i].file);
    if (n == 0) snprintf(list[n++], sizeof list[0], "%s", chosen ? chosen : "");
    return n;
}

/* --- which it is --------------------------------------------------------------------------------- */

const char *const gpu_feature_names[GPU_NFEATURES] = {
    [GPU_F16] = "shader-f16",
    [GPU_TIMESTAMP] = "timestamp-query",
    [GPU_SUBGROUPS] = "subgroups",
    [GPU_MATRIX] = "subgroup-matrix",
};

/* webgpu.h numbered its features anew in the summer of 2025: early and late. The others are a library's own. */
static const struct {
    uint32_t early, late, dawn, dawn_2026, native;
} feature_numbers[GPU_NFEATURES] = {
    [GPU_F16] = {0x0a, 0x0b, 0, 0, 0},
    [GPU_TIMESTAMP] = {0x03, 0x09, 0, 0, 0},
    [GPU_SUBGROUPS] = {0x11, 0x12, 0, 0, 0x00030021},
    [GPU_MATRIX] = {0, 0, 0x00050038, 0x00050034, 0x0003003b},
};

static void know_dialect(gpu_library *lib)
{
    const bool native = lib->api.GetVersion && lib->api.InstanceEnumerateAdapters, late = lib->api.GetInstanceFeatures != NULL;
    gpu_dialect *d = &lib->dialect;
    *d = (gpu_dialect){.name = native ? "wgpu-native" : "Dawn",
                       .takes_toggles = !native,
                       .is_of_2026 = !native && lib->api.DeviceCreateResourceTable,
                       .names_subgroups = !native,
                       .enumerates = native,
                       .async_pipelines = !native,
                       .has_ticks = native && lib->api.QueueGetTimestampPeriod};
    for (int f = 0; f < GPU_NFEATURES; f++) {
        d->feature[f][0] = late ? feature_numbers[f].late : feature_numbers[f].early;
        d->feature[f][1] = native         ? feature_numbers[f].native
                           : d->is_of_2026 ? feature_numbers[f].dawn_2026
                                           : feature_numbers[f].dawn;
    }
    if (native) {
        const uint32_t v = lib->api.GetVersion();
        snprintf(lib->version, sizeof lib->version, "%u.%u.%u.%u", v >> 24, v >> 16 & 255, v >> 8 & 255, v & 255);
    } else {
        snprintf(lib->version, sizeof lib->version, "%s", d->is_of_2026 ? "interface of 2026" : late ? "interface of 2025-08 or later" : "interface before 2025-08");
    }
}

/* dlsym's object pointer as a function pointer, which C has no cast for. */
static bool find(void *handle, const char *name, void *slot)
{
    void *p = dlsym(handle, name);
    memcpy(slot, &p, sizeof p);
    return p != NULL;
}

/* The file behind a name that the loader looked up, or behind a link: its name may have a version in it. */
static void know_file(const char *path, gpu_library *lib)
{
    char real[PATH_MAX];
    Dl_info info = {0};
    void *inside;
    struct stat s = {0};
    memcpy(&inside, &lib->api.CreateInstance, sizeof inside);
    const bool is_known = dladdr(inside, &info) && info.dli_fname && realpath(info.dli_fname, real) && strlen(real) < sizeof lib->path;
    snprintf(lib->path, sizeof lib->path, "%s", is_known ? real : path);
    (void)stat(lib->path, &s);
    snprintf(lib->build, sizeof lib->build, "%lld bytes of %lld", (long long)s.st_size, (long long)s.st_mtime);
}

bool gpu_library_open(const char *path, gpu_library *out, char *why)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const char *missing = NULL;
    if (!handle) {
        const char *e = dlerror();
        snprintf(why, AN_WEBGPU_TEXT_MAX, "%.200s cannot be opened: %.250s", path, e ? e : "no reason was given");
        return false;
    }
    *out = (gpu_library){0};
#define WG(ret, name, ...)                                                                                             \
    if (!find(handle, "wgpu" #name, &out->api.name)) missing = "wgpu" #name;
#define WG_OPTIONAL(ret, name, ...) (void)find(handle, "wgpu" #name, &out->api.name);
#include "backend/webgpu/abi.def"
    if (missing) {
        snprintf(why, AN_WEBGPU_TEXT_MAX, "%.300s has no function %s: it is not a WebGPU library, or one older than 2025", path, missing);
        (void)dlclose(handle);
        return false;
    }
    know_file(path, out);
    know_dialect(out);
    return true;
}

/* --- instance and answers ------------------------------------------------------------------------ */

wg_string gpu_string(const char *text)
{
    return (wg_string){text, strlen(text)};
}

void gpu_string_copy(char *out, size_t size, wg_string s)
{
    size_t n = !s.data ? 0 : s.length == SIZE_MAX ? strlen(s.data) : s.length;
    if (n > size - 1) n = size - 1;
    if (n) memcpy(out, s.data, n);
    while (n && (out[n - 1] == '\n' || out[n - 1] == ' ')) n--;
    out[n] = '\0';
}

double gpu_clock(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ANNEAL_WEBGPU_TIMEOUT in seconds, else two minutes: software adapters are slow, and a hung GPU is to be noticed. */
static an_status default_timeout(an_ctx *ctx, double *out)
{
    const char *text = getenv("ANNEAL_WEBGPU_TIMEOUT");
    char *end = NULL;
    *out = 120;
    if (!text || !*text) return AN_OK;
    *out = strtod(text, &end);
    if (!*end && *out > 0 && *out < 1e6) return AN_OK;
    return an_fail(ctx, AN_ERR_ARG, "ANNEAL_WEBGPU_TIMEOUT is '%.40s' in the environment; it takes seconds, more than 0 and less than a million", text);
}

an_status gpu_host_init(an_ctx *ctx, const gpu_library *lib, gpu_host *out)
{
    *out = (gpu_host){.ctx = ctx, .lib = *lib};
    const an_status st = default_timeout(ctx, &out->timeout_s);
    if (st) return st;
    /* OpenGL is left out: it lacks what kernels need, and drivers print when they are asked for it. */
    wg_native_instance native = {.chain = {NULL, WG_TYPE_NATIVE_INSTANCE},
                                 .backends = WG_NATIVE_VULKAN | WG_NATIVE_METAL | WG_NATIVE_DX12,
                                 .flags = WG_NATIVE_ALLOW_NONCOMPLIANT};
    const wg_instance_desc desc = {.next = lib->dialect.enumerates ? &native.chain : NULL};
    out->instance = lib->api.CreateInstance(&desc);
    if (!out->instance) return an_fail(ctx, AN_ERR_DEVICE, "webgpu: %s (%s) makes no instance", lib->path, lib->dialect.name);
    return AN_OK;
}

void gpu_host_fini(gpu_host *h)
{
    if (h->instance) h->lib.api.InstanceRelease(h->instance);
    while (h->all) {
        gpu_answer *a = h->all;
        h->all = a->next;
        an_mem_free(h->ctx, a, sizeof *a);
    }
    *h = (gpu_host){0};
}

gpu_answer *gpu_answer_new(gpu_host *h)
{
    gpu_answer *a = h->free;
    if (a) {
        h->free = a->next_free;
    } else {
        a = an_mem_zalloc(h->ctx, sizeof *a);
        if (!a) return NULL;
        a->next = h->all;
        h->all = a;
    }
    a->status = a->error = 0;
    a->object = NULL;
    a->text[0] = '\0';
    atomic_store(&a->done, false);
    return a;
}

void gpu_answer_done(gpu_host *h, gpu_answer *a)
{
    a->next_free = h->free;
    h->free = a;
}

void gpu_answer_give(gpu_answer *a, uint32_t status, uint32_t error, void *object, wg_string message)
{
    a->status = status;
    a->error = error;
    a->object = object;
    gpu_string_copy(a->text, sizeof a->text, message);
    atomic_store(&a->done, true);
}

bool gpu_answer_wait(gpu_host *h, gpu_answer *a)
{
    static const double SPIN_S = 100e-6;
    const double start = gpu_clock();
    long pause_ns = 20000; /* a short wait is spun through, a long one costs no processor */
    for (;;) {
        if (atomic_load(&a->done)) return true;
        h->lib.api.InstanceProcessEvents(h->instance);
        if (atomic_load(&a->done)) return true;
        const double waited = gpu_clock() - start;
        if (waited > h->timeout_s) return false;
        if (waited < SPIN_S) continue;
        const struct timespec t = {0, pause_ns};
        (void)nanosleep(&t, NULL);
        if (pause_ns < 1000000) pause_ns += pause_ns / 4;
    }
}
