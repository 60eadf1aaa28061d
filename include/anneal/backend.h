/* backend.h - what a new device fills in: one folder and one const struct.
 *
 * A kernel arrives as a linear list of UOps (docs/ARCHITECTURE.md, "linear list"); the backend
 * turns it into a program and launches it on buffers. */
#ifndef ANNEAL_BACKEND_H
#define ANNEAL_BACKEND_H

#include <anneal/dtype.h>
#include <anneal/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { AN_KERNEL_PARAM_MAX = 64, AN_KERNEL_VAR_MAX = 16 };

/* A buffer slot of a kernel. A param that is read and written is one slot. */
typedef struct an_kernel_param {
    an_dtype dtype;
    bool is_read, is_written;
} an_kernel_param;

/* A kernel ready for a backend. linear, name and everything below belong to whoever made it and
 * live until the plan is destroyed; a backend copies what its program needs.
 *   key      structural, of everything that decides linear: the kernel, the device's name, the knobs. 0, 0: it has none, and
 *            nothing made of it outlives the process
 *   graph    where the ids of linear live
 *   linear   legal by an_linear_verify; the slot-th PARAM is params[slot]
 *   vars     VAR nodes, in the order in which launch gives their values */
typedef struct an_kernel {
    const char *name;
    uint64_t key_lo, key_hi;
    an_graph *graph;
    an_uop sink; /* the kernel as a DAG, before linearising: for dumps */
    const an_uop *linear;
    size_t nlinear;
    an_kernel_param params[AN_KERNEL_PARAM_MAX];
    uint32_t nparams;
    an_uop vars[AN_KERNEL_VAR_MAX];
    uint32_t nvars;
    double flops, nbytes_read, nbytes_written; /* by the cost model, for reports */
} an_kernel;

typedef struct an_device an_device;   /* each backend has its own struct, starting with an_device_base */
typedef struct an_buffer an_buffer;   /* likewise, starting with an_buffer_base */
typedef struct an_program an_program; /* likewise, starting with an_program_base */
typedef struct an_backend an_backend;

/* The first member of every backend's device, buffer and program. */
typedef struct an_device_base {
    const an_backend *backend;
    an_ctx *ctx;
    uint32_t vector_nbytes; /* native vector width that codegen aims at, set by open; 0: scalar code only */
    uint32_t scratch_nbytes; /* a kernel may use for copies in its own loops, set by open; 0: none */
    uint32_t l1_nbytes, l2_nbytes; /* caches of one core, set by open; 0: unknown */
    int threads;            /* that a launch may use; 0 where that means nothing */
    uint32_t max_buffers;   /* that one kernel may use; 0: as many as there are slots */
    uint64_t key;           /* of all else about this device that decides what is made of a kernel: in every kernel's key */
    /* Of a device of workgroups and threads: threads of a workgroup (0: it is none), bytes of workgroup memory, how many workgroups
     * keep it busy, whether it has units that multiply fragments of f16 (16 x 16 by 16 x 8, for 32 threads), and whether its compiler is so
     * slow that loops are better not written out. */
    uint32_t gpu_threads, gpu_local_nbytes, gpu_units;
    bool gpu_has_matrix, gpu_small_code;
    uint64_t identity;      /* of what decides how fast code is there: processor or adapter, features, driver; 0: unknown */
    bool no_fork;           /* set by open: its library does not work in a forked process */
} an_device_base;
typedef struct an_buffer_base {
    an_device *device;
    size_t nbytes;
} an_buffer_base;
typedef struct an_program_base {
    an_device *device;
} an_program_base;

typedef struct an_launch {
    an_buffer *const *buffers; /* nparams of them, in slot order */
    const size_t *offsets;     /* byte offset of each within its buffer, a multiple of 256; NULL: all 0 */
    const size_t *nbytes;      /* that the kernel may touch from there, no two that overlap; NULL: to the end of each buffer */
    const int64_t *vars;       /* nvars of them */
} an_launch;

/* All zero is the default. */
typedef struct an_device_desc {
    int threads;         /* 0: as ANNEAL_THREADS or the machine says */
    const char *adapter; /* webgpu: "high" or "low" power, a place in the list of `anneal doctor`, part of a name. NULL: as
                          * ANNEAL_WEBGPU_ADAPTER says, else the first */
    double timeout_s;    /* webgpu: of every wait. 0: as ANNEAL_WEBGPU_TIMEOUT says */
} an_device_desc;

/* What a device can do. Every slot is required: there are no optional ones to test for.
 * A device is used from one thread at a time. Failures put their text in the context. */
struct an_backend {
    const char *name; /* "cpu", "interp", "webgpu": what --device takes */
    an_status (*open)(an_ctx *ctx, const an_device_desc *desc, an_device **out);
    void (*close)(an_device *dev); /* NULL is a no-op; frees what it created */
    an_status (*buffer_create)(an_device *dev, size_t nbytes, an_buffer **out); /* contents zero */
    void (*buffer_destroy)(an_buffer *buf);
    an_status (*write)(an_buffer *dst, size_t offset, const void *src, size_t nbytes);
    an_status (*read)(an_buffer *src, size_t offset, void *dst, size_t nbytes); /* waits */
    /* Compiles n kernels in one go, out[i] for kernels[i]; on failure none is made. */
    an_status (*compile)(an_device *dev, const an_kernel *const *kernels, size_t n, an_program **out);
    /* Programs by key that were compiled before, perhaps by another process: out[i] for kernels[i], NULL where the device has
     * none (always, if it keeps none). Looks at key, params and vars only; linear may be NULL. On failure none is made. */
    an_status (*load)(an_device *dev, const an_kernel *const *kernels, size_t n, an_program **out);
    void (*program_destroy)(an_program *prog);
    /* Returns at once; what was launched may wait for submit, wait, read or write. After a failure, nothing launched since the
     * last of these runs. */
    an_status (*launch)(an_program *prog, const an_launch *launch);
    an_status (*submit)(an_device *dev); /* starts what was launched: the end of a plan's run */
    an_status (*wait)(an_device *dev);
    /* Seconds of one launch by the device's own clock, where it has one: the least of n, each after the one before. */
    an_status (*time)(an_program *prog, const an_launch *launch, uint32_t n, double *seconds);
    /* The kernel in the device's own language, for `anneal kernels`: appended through put. */
    an_status (*source)(an_device *dev, const an_kernel *kernel,
                        void (*put)(void *user, const char *text), void *user);
};

#ifdef __cplusplus
}
#endif
#endif
