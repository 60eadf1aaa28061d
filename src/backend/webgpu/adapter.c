/* adapter.c - the adapters that a library shows, in an order, and which one is meant. */
#include "backend/webgpu/library.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

enum { VENDOR_NVIDIA = 0x10de, VENDOR_APPLE = 0x106b };

const char *gpu_backend_name(uint32_t backend)
{
    static const char *const names[] = {[WG_BACKEND_NULL] = "no backend", [WG_BACKEND_WEBGPU] = "WebGPU",
                                        [WG_BACKEND_D3D11] = "D3D11",     [WG_BACKEND_D3D12] = "D3D12",
                                        [WG_BACKEND_METAL] = "Metal",     [WG_BACKEND_VULKAN] = "Vulkan"};
    return backend < sizeof names / sizeof names[0] && names[backend] ? names[backend] : "another backend";
}

const char *gpu_type_name(uint32_t type)
{
    static const char *const names[] = {[WG_ADAPTER_DISCRETE] = "discrete GPU", [WG_ADAPTER_INTEGRATED] = "integrated GPU",
                                        [WG_ADAPTER_CPU] = "software"};
    return type < sizeof names / sizeof names[0] && names[type] ? names[type] : "adapter";
}

static void on_adapter(uint32_t status, wg_adapter adapter, wg_string message, void *user1, void *user2)
{
    (void)user2;
    gpu_answer_give(user1, status, 0, adapter, message);
}

/* An adapter by power preference, or NULL. */
static an_status request(gpu_host *h, uint32_t power, bool software, wg_adapter *out)
{
    static const char *const toggles[] = {"allow_unsafe_apis", "vulkan_enable_f16_on_nvidia"};
    wg_dawn_toggles t = {.chain = {NULL, WG_TYPE_DAWN_TOGGLES}, .nenabled = 2, .enabled = toggles};
    const wg_adapter_options options = {.next = h->lib.dialect.takes_toggles ? &t.chain : NULL,
                                        .level = WG_LEVEL_CORE,
                                        .power = power,
                                        .force_fallback = software,
#if defined(__APPLE__)
                                        .backend = WG_BACKEND_METAL};
#elif defined(_WIN32)
                                        .backend = WG_BACKEND_D3D12};
#else
                                        .backend = WG_BACKEND_VULKAN};
#endif
    gpu_answer *a = gpu_answer_new(h);
    *out = NULL;
    if (!a) return AN_ERR_NOMEM;
    (void)h->lib.api.InstanceRequestAdapter(h->instance, &options, (wg_adapter_info_call){NULL, WG_CALL_IN_PROCESS_EVENTS, on_adapter, a, NULL});
    if (!gpu_answer_wait(h, a))
        return an_fail(h->ctx, AN_ERR_DEVICE, "webgpu: %s gave no adapter within %g s", h->lib.dialect.name, h->timeout_s);
    if (a->status == WG_SUCCESS) *out = a->object;
    gpu_answer_done(h, a);
    return AN_OK;
}

static void know(gpu_host *h, gpu_adapter *a)
{
    const wg_api *api = &h->lib.api;
    wg_adapter_info info = {0};
    wg_features features = {0};
    (void)api->AdapterGetInfo(a->handle, &info);
    gpu_string_copy(a->name, sizeof a->name, info.device);
    gpu_string_copy(a->driver, sizeof a->driver, info.description);
    gpu_string_copy(a->vendor, sizeof a->vendor, info.vendor);
    a->backend = info.backend;
    a->type = info.type;
    a->subgroup_min = info.subgroup_min;
    a->subgroup_max = info.subgroup_max;
    /* wgpu-native does not tell; of these makers it is known. */
    if (a->subgroup_max == 0 && (info.vendor_id == VENDOR_NVIDIA || info.vendor_id == VENDOR_APPLE)) a->subgroup_min = a->subgroup_max = 32;
    api->AdapterInfoFreeMembers(info);
    api->AdapterGetFeatures(a->handle, &features);
    for (size_t i = 0; i < features.n; i++)
        for (int f = 0; f < GPU_NFEATURES; f++)
            for (int k = 0; k < 2; k++)
                if (features.list[i] == h->lib.dialect.feature[f][k]) {
                    a->features |= 1u << f;
                    a->number[f] = features.list[i];
                }
    api->SupportedFeaturesFreeMembers(features);
    memset(&a->limits, 0xff, sizeof a->limits); /* all ones: the library's own default */
    a->limits.next = NULL;
    (void)api->AdapterGetLimits(a->handle, &a->limits);
}

static int order(const gpu_adapter *a)
{
    return a->type == WG_ADAPTER_DISCRETE ? 0 : a->type == WG_ADAPTER_INTEGRATED ? 1 : a->type == WG_ADAPTER_UNKNOWN ? 2 : 3;
}

/* Keeps it at its place in the order, if it is one that can compute and is not there already. */
static void keep(gpu_host *h, gpu_adapter *list, size_t *n, wg_adapter handle)
{
    gpu_adapter a = {.handle = handle};
    know(h, &a);
    bool wanted = a.backend >= WG_BACKEND_D3D12 && a.backend <= WG_BACKEND_VULKAN && *n < AN_WEBGPU_ADAPTERS_MAX;
    for (size_t i = 0; i < *n && wanted && !h->lib.dialect.enumerates; i++) /* asked thrice, it may answer with one thrice */
        wanted = strcmp(list[i].name, a.name) != 0 || list[i].backend != a.backend;
    if (!wanted) {
        h->lib.api.AdapterRelease(handle);
        return;
    }
    size_t at = *n;
    for (; at > 0 && order(&list[at - 1]) > order(&a); at--) list[at] = list[at - 1];
    list[at] = a;
    ++*n;
}

an_status gpu_adapters_list(gpu_host *h, gpu_adapter list[AN_WEBGPU_ADAPTERS_MAX], size_t *n)
{
    *n = 0;
    if (h->lib.dialect.enumerates) {
        enum { MAX = 64 };
        wg_adapter found[MAX];
        const size_t count = h->lib.api.InstanceEnumerateAdapters(h->instance, NULL, NULL);
        if (count > MAX) return an_fail(h->ctx, AN_ERR_LIMIT, "webgpu: %s has %zu adapters, more than %d", h->lib.path, count, MAX);
        (void)h->lib.api.InstanceEnumerateAdapters(h->instance, NULL, found);
        for (size_t i = 0; i < count; i++) keep(h, list, n, found[i]);
        return AN_OK;
    }
    static const struct {
        uint32_t power;
        bool software;
    } asked[] = {{WG_POWER_HIGH, false}, {WG_POWER_LOW, false}, {WG_POWER_ANY, true}};
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        wg_adapter a = NULL;
        const an_status st = request(h, asked[i].power, asked[i].software, &a);
        if (st) return st;
        if (a) keep(h, list, n, a);
    }
    return AN_OK;
}

void gpu_adapters_free(gpu_host *h, gpu_adapter *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (list[i].handle) h->lib.api.AdapterRelease(list[i].handle);
}

static bool contains(const char *text, const char *part)
{
    const size_t n = strlen(part);
    for (; strlen(text) >= n; text++) {
        size_t i = 0;
        while (i < n && tolower((unsigned char)text[i]) == tolower((unsigned char)part[i])) i++;
        if (i == n) return true;
    }
    return false;
}

size_t gpu_adapter_choose(const gpu_adapter *list, size_t n, const char *choice)
{
    char *end = NULL;
    if (!choice || !*choice || strcmp(choice, "high") == 0) return 0;
    if (strcmp(choice, "low") == 0) {
        for (size_t i = 0; i < n; i++)
            if (list[i].type == WG_ADAPTER_INTEGRATED) return i;
        return 0;
    }
    const unsigned long place = strtoul(choice, &end, 10);
    if (!*end) return place < n ? (size_t)place : n;
    for (size_t i = 0; i < n; i++)
        if (contains(list[i].name, choice) || contains(list[i].driver, choice) || contains(list[i].vendor, choice) ||
            contains(gpu_backend_name(list[i].backend), choice))
            return i;
    return n;
}
