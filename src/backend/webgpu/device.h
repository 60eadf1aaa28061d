/* device.h - a WebGPU device: what the files of this folder share.
 *
 *   device.c    opening, closing, errors        buffer.c   memory, uploads, reads
 *   program.c   kernels to pipelines            launch.c   bind groups, uniforms, recording and submitting
 *
 * Launches are recorded into one command buffer, which submit, a read, a write or a wait sends off: one submit for a run of a
 * plan. A launch that fails drops what was recorded since, so a step is done whole or not at all.
 *
 * A library says that something is wrong in one of three ways: an error scope of ours, the callback for what no scope caught,
 * or the callback for a lost device. All of them end as the sentence of the call at hand, or of the next one. */
#ifndef AN_WEBGPU_DEVICE_H
#define AN_WEBGPU_DEVICE_H

#include "backend/webgpu/blobs.h"
#include "backend/webgpu/library.h"
#include "backend/webgpu/wgsl/wgsl.h"

#include <pthread.h>
#include <stdio.h>

enum {
    GPU_UNIT = 16,              /* bytes: sizes of buffers and bindings are multiples */
    GPU_UNIFORM_NBYTES = 256,   /* of a slot: as much as an offset must be aligned, and all variables fit */
    GPU_UNIFORM_SLOTS = 256,
    GPU_GROUPS_MAX = 256,       /* bind groups kept for a program */
    GPU_PIPELINES_IDLE_MAX = 256,
    GPU_PENDING_MAX = 4096      /* launches before they are sent off anyway */
};

typedef struct gpu_buffer {
    an_buffer_base base;
    wg_buffer handle;
    uint64_t serial; /* never used again: names it in the keys of bind groups */
    size_t size;     /* of handle: base.nbytes in whole units */
} gpu_buffer;

/* A compiled shader, shared by the programs with its text. */
typedef struct gpu_pipeline {
    an_key key;
    wg_pipeline handle;
    wg_layout layout;
    uint32_t nusers;
} gpu_pipeline;

typedef struct gpu_group {
    wg_group handle;
    uint64_t *words; /* serial, offset, size of each binding; then the uniform slot */
} gpu_group;

typedef struct gpu_program {
    an_program_base base;
    struct gpu_program *next, *prev; /* all of a device */
    char *name;
    size_t name_nbytes;
    an_wgsl wgsl;
    gpu_pipeline *pipeline;
    AN_VEC(gpu_group) groups;
    size_t last; /* group used last: a replay's next is the one after it */
} gpu_program;

/* Tests put the library into bad weather by these. */
typedef struct gpu_weather {
    uint64_t memory_nbytes;  /* 0: what there is; else buffers beyond it are refused as by a driver without memory */
    const char *shader;      /* compiled instead of what was rendered */
    bool deaf;               /* answers do not come */
} gpu_weather;

typedef struct gpu_device {
    an_device_base base;
    gpu_host host;
    gpu_adapter adapter;
    wg_device handle;
    wg_queue queue;
    wg_limits limits; /* of the device: what was asked for and given */
    an_wgsl_caps caps;
    bool unchecked;   /* shaders without bounds checks of the library's */
    gpu_weather weather;
    gpu_blobs blobs;

    pthread_mutex_t lock; /* of the five below: callbacks may come from other threads */
    bool has_lock;
    bool is_lost, is_closing;
    char lost_text[GPU_TEXT_MAX];
    bool has_trouble; /* an error that no scope caught, kept until it is told */
    bool trouble_is_memory;
    char trouble[GPU_TEXT_MAX];

    wg_encoder encoder; /* what is recorded; NULL: nothing is */
    wg_pass pass;
    const gpu_pipeline *set; /* in pass */
    uint32_t npending;
    uint64_t nsubmits; /* ever */

    wg_buffer uniforms; /* GPU_UNIFORM_SLOTS slots */
    unsigned char *uniform_data;
    uint32_t uniform_size[GPU_UNIFORM_SLOTS], nuniforms; /* in use by what is recorded */
    wg_buffer nothing;  /* what stands in for buffers of no elements: a unit a slot */

    wg_buffer staging; /* reads come through it */
    size_t staging_size;
    uint64_t nbytes; /* of all buffers */
    uint64_t serials;
    gpu_program *programs;
    AN_VEC(gpu_pipeline *) pipelines;
    wg_queries queries; /* time stamps, and where they go; made when first used */
    wg_buffer query_buffer;
} gpu_device;

static inline gpu_device *gpu_of(an_device *dev)
{
    return (gpu_device *)dev;
}

/* --- device.c: errors ---------------------------------------------------------------------------- */
/* AN_OK, or what went wrong since the last call: a lost device (for good), an error that was not expected. */
an_status gpu_check(gpu_device *d);
/* A wait that ended without an answer, by the time or by loss: the device counts as lost from then on. */
an_status gpu_gone(gpu_device *d, const char *what);

/* Errors of the calls between begin and end are told by end: their kind, 0 for none, and text (GPU_TEXT_MAX bytes).
 * Errors of end itself: AN_ERR_DEVICE, AN_ERR_NOMEM. */
void gpu_scope_begin(gpu_device *d);
an_status gpu_scope_end(gpu_device *d, uint32_t *error, char *text);

/* A storage buffer, or one of another use. Errors: AN_ERR_NOMEM, AN_ERR_DEVICE, with what in the sentence. */
an_status gpu_raw_buffer(gpu_device *d, uint64_t usage, uint64_t nbytes, const char *what, wg_buffer *out);

/* --- launch.c ------------------------------------------------------------------------------------- */
an_status gpu_launch(an_program *prog, const an_launch *launch);
an_status gpu_submit(an_device *dev); /* sends off what is recorded */
an_status gpu_wait(an_device *dev);
an_status gpu_time(an_program *prog, const an_launch *launch, uint32_t n, double *seconds);
void gpu_drop(gpu_device *d);         /* forgets what is recorded */
an_status gpu_encoder(gpu_device *d); /* there is one after it, outside a pass */
void gpu_groups_drop(gpu_program *p, uint64_t serial); /* those with that buffer; 0: all */

/* --- buffer.c ------------------------------------------------------------------------------------- */
an_status gpu_buffer_create(an_device *dev, size_t nbytes, an_buffer **out);
void gpu_buffer_destroy(an_buffer *buf);
an_status gpu_write(an_buffer *dst, size_t offset, const void *src, size_t nbytes);
an_status gpu_read(an_buffer *src, size_t offset, void *dst, size_t nbytes);
/* nbytes (a multiple of 4) of a buffer, recorded behind what is recorded, then waited for. */
an_status gpu_fetch(gpu_device *d, wg_buffer src, uint64_t offset, void *dst, size_t nbytes);

/* --- program.c ------------------------------------------------------------------------------------ */
an_status gpu_compile(an_device *dev, const an_kernel *const *kernels, size_t n, an_program **out);
an_status gpu_load(an_device *dev, const an_kernel *const *kernels, size_t n, an_program **out); /* none: the library keeps them */
void gpu_program_destroy(an_program *prog);
an_status gpu_source(an_device *dev, const an_kernel *kernel, void (*put)(void *user, const char *text), void *user);
/* The pipeline of a shader; each get wants a release (NULL is a no-op). Idle ones are kept for a while.
 * Errors: AN_ERR_DEVICE with name and text in the sentence; AN_ERR_NOMEM. */
an_status gpu_pipeline_get(gpu_device *d, const char *name, const char *text, gpu_pipeline **out);
void gpu_pipeline_release(gpu_device *d, gpu_pipeline *p);
void gpu_pipelines_free(gpu_device *d);
/* The key of a shader's text: comments, and blanks at the ends of lines, are left out. */
an_key gpu_shader_key(const char *text);

#endif
