/* library.h - a WebGPU library, opened at run time, and what it offers.
 *
 * State outside a context: the loaded library itself. It is not unloaded: drivers leave threads behind. */
#ifndef AN_WEBGPU_LIBRARY_H
#define AN_WEBGPU_LIBRARY_H

#include "backend/webgpu/abi.h"
#include "base/base.h"
#include <anneal/webgpu.h>

#include <stdatomic.h>

/* Features that are asked for where the adapter has them. Rows of a table in library.c. */
typedef enum gpu_feature { GPU_F16, GPU_TIMESTAMP, GPU_SUBGROUPS, GPU_MATRIX, GPU_NFEATURES } gpu_feature;

/* What differs between libraries. */
typedef struct gpu_dialect {
    const char *name;
    uint32_t feature[GPU_NFEATURES][2]; /* its numbers, any of them; 0: none */
    bool takes_toggles;                 /* Dawn's, and its cache of blobs */
    bool is_of_2026;                    /* Dawn, since it has tables of resources */
    bool enumerates;                    /* InstanceEnumerateAdapters */
    bool async_pipelines;               /* else made by threads of ours */
    bool names_subgroups;               /* shaders say `enable subgroups;` */
    bool has_ticks;                     /* timestamps in ticks of QueueGetTimestampPeriod, not ns */
} gpu_dialect;

enum { GPU_PATH_MAX = 512, GPU_TEXT_MAX = 2048 };

typedef struct gpu_library {
    wg_api api;
    gpu_dialect dialect;
    char path[GPU_PATH_MAX], version[64]; /* path: of the file itself, where that is known */
    char build[64];                       /* tells builds of a version apart: size and time of the file */
} gpu_library;

/* Libraries to try, best first: the usual names, then where scripts/fetch-webgpu.sh puts them. ANNEAL_WEBGPU_LIB, if it is set,
 * is a path, or "wgpu" or "dawn" for those of that kind alone. Returns how many. */
typedef char gpu_candidate[GPU_PATH_MAX];
enum { GPU_CANDIDATES_MAX = 8 };
size_t gpu_candidates(gpu_candidate list[GPU_CANDIDATES_MAX]);

/* Ours in the user's cache, where the script puts libraries: $XDG_CACHE_HOME/anneal/webgpu, else ~/.cache/anneal/webgpu. False
 * when neither is set. */
bool gpu_folder(char *out, size_t size);

/* False with a sentence in why (AN_WEBGPU_TEXT_MAX bytes) when there is no such file, or when it is no such library. */
bool gpu_library_open(const char *path, gpu_library *out, char *why);

/* --- an instance, and answers --------------------------------------------------------------------
 * Whatever takes time is answered through a callback, which may come after we have stopped waiting: so answers belong to the
 * host and live until it is gone. */
typedef struct gpu_answer {
    struct gpu_answer *next, *next_free;
    atomic_bool done;
    uint32_t status, error;
    void *object;
    char text[GPU_TEXT_MAX];
} gpu_answer;

typedef struct gpu_host {
    an_ctx *ctx;
    gpu_library lib;
    wg_instance instance;
    gpu_answer *all, *free;
    double timeout_s; /* of every wait */
} gpu_host;

/* Errors: AN_ERR_DEVICE when the library makes no instance; AN_ERR_NOMEM. The library comes with it. */
an_status gpu_host_init(an_ctx *ctx, const gpu_library *lib, gpu_host *out);
void gpu_host_fini(gpu_host *h); /* after everything made with it */

/* A fresh answer, or NULL when memory is out. */
gpu_answer *gpu_answer_new(gpu_host *h);
/* Processes events until it has come. False when the time is up: the answer must then be left alone. */
bool gpu_answer_wait(gpu_host *h, gpu_answer *a);
void gpu_answer_done(gpu_host *h, gpu_answer *a); /* for another use */
/* What the callbacks call: copies message, then says done. */
void gpu_answer_give(gpu_answer *a, uint32_t status, uint32_t error, void *object, wg_string message);

wg_string gpu_string(const char *text);
void gpu_string_copy(char *out, size_t size, wg_string s);
double gpu_clock(void); /* seconds, monotonic */

/* --- adapters ------------------------------------------------------------------------------------ */
typedef struct gpu_adapter {
    wg_adapter handle;
    wg_limits limits;
    uint32_t features;               /* bit f: gpu_feature f */
    uint32_t number[GPU_NFEATURES]; /* what the library calls it */
    uint32_t type, backend, subgroup_min, subgroup_max;
    char name[128], driver[128], vendor[64];
} gpu_adapter;

/* All that the library shows, best first. Errors: AN_ERR_NOMEM; AN_ERR_DEVICE when it does not answer. */
an_status gpu_adapters_list(gpu_host *h, gpu_adapter list[AN_WEBGPU_ADAPTERS_MAX], size_t *n);
void gpu_adapters_free(gpu_host *h, gpu_adapter *list, size_t n);
/* The one that choice means: "high", "low", its place in the list, part of its name; NULL or "": the first. n: none. */
size_t gpu_adapter_choose(const gpu_adapter *list, size_t n, const char *choice);

extern const char *const gpu_feature_names[GPU_NFEATURES];
const char *gpu_backend_name(uint32_t backend);
const char *gpu_type_name(uint32_t type);

#endif
