/* webgpu.h - which GPUs there are, for reports such as `anneal doctor`. Running on one needs device.h only. */
#ifndef ANNEAL_WEBGPU_H
#define ANNEAL_WEBGPU_H

#include <anneal/ctx.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { AN_WEBGPU_ADAPTERS_MAX = 8, AN_WEBGPU_LIBRARIES_MAX = 8, AN_WEBGPU_TEXT_MAX = 512, AN_WEBGPU_FEATURES_MAX = 8 };

typedef struct an_webgpu_adapter {
    char name[128], driver[128];
    const char *backend, *type;                     /* "Vulkan", "discrete GPU" */
    const char *features[AN_WEBGPU_FEATURES_MAX];   /* that we use and it has */
    const char *lacks[AN_WEBGPU_FEATURES_MAX];      /* that we use where there are */
    uint32_t nfeatures, nlacks;
    uint64_t buffer_nbytes, binding_nbytes;         /* limits */
    uint32_t buffers, invocations, workgroup_nbytes;
    uint32_t subgroup_min, subgroup_max;            /* lanes; 0: not known */
    bool is_chosen;                                 /* what opening "webgpu" now would take */
} an_webgpu_adapter;

typedef struct an_webgpu_library {
    char path[AN_WEBGPU_TEXT_MAX], version[64];
    const char *kind;                    /* "Dawn", "wgpu-native"; NULL if it could not be opened */
    char problem[AN_WEBGPU_TEXT_MAX];    /* a sentence, or "" */
    an_webgpu_adapter adapters[AN_WEBGPU_ADAPTERS_MAX];
    size_t nadapters;
} an_webgpu_library;

typedef struct an_webgpu_report {
    an_webgpu_library libraries[AN_WEBGPU_LIBRARIES_MAX];
    size_t nlibraries; /* that are on this machine, in the order in which they are tried */
} an_webgpu_report;

/* Looks, and changes nothing. What is missing is no error. Errors: AN_ERR_NOMEM. */
AN_API an_status an_webgpu_look(an_ctx *ctx, an_webgpu_report *out);

#ifdef __cplusplus
}
#endif
#endif
