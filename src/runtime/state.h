/* state.h - what the runtime keeps for a graph. For src/runtime only. */
#ifndef AN_RUNTIME_STATE_H
#define AN_RUNTIME_STATE_H

#include "base/idmap.h"
#include "runtime/runtime.h"
#include <anneal/settings.h>

typedef struct an_storage {
    an_uop node; /* the BUFFER it is bound to */
    an_buffer *buffer;
    size_t nbytes;     /* room: at the upper bounds of symbolic dims */
    size_t nbytes_now; /* of what it holds, by the values that its symbols had; AN_NBYTES_ANY: zeros, nothing was written yet */
    uint64_t written;  /* epoch of the last write */
} an_storage;
#define AN_NBYTES_ANY SIZE_MAX

/* A node that a plan computed: its value is in buffer, untouched as long as that was last written at epoch or before.
 * UINT64_MAX while the plan has not run.
 *   read_at  the epoch whose contents of buffers it was computed from */
typedef struct an_done {
    an_uop node, buffer;
    uint64_t epoch, read_at;
} an_done;

/* The last ASSIGN made on a buffer, run or not, and the epoch of the handle it was given to. */
typedef struct an_latest {
    an_uop assign;
    uint64_t epoch;
} an_latest;

typedef struct an_binding {
    const char *name; /* the graph's */
    int64_t value;
} an_binding;

typedef struct an_runtime {
    an_device *device;
    uint64_t epoch;
    an_idmap storage_of; /* BUFFER node -> 1 + index into storages */
    AN_VEC(an_storage) storages;
    an_idmap done_of; /* node -> 1 + index into done */
    AN_VEC(an_done) done;
    an_idmap latest_of; /* BUFFER -> 1 + index into latest */
    AN_VEC(an_latest) latest;
    AN_VEC(an_binding) bindings; /* an_graph_bind */
    uint64_t bound_at;           /* how often it was called */
} an_runtime;

/* The graph's runtime, its device open; NULL with a sentence. */
an_runtime *an_runtime_of(an_graph *g);
an_storage *an_storage_of(an_runtime *rt, an_uop buffer); /* NULL if u has none */
/* Storage for a BUFFER node, zeroed. */
an_status an_storage_bind(an_graph *g, an_runtime *rt, an_uop buffer);

/* --- kernel cache (programs.c) ------------------------------------------------------------------
 * Compiled kernels by structural key, for the life of the context. */
typedef struct an_cached_kernel {
    an_key key;
    an_graph *graph; /* owns the nodes of kernel */
    an_uop_vec linear;
    an_kernel kernel;
    an_program *program; /* NULL until compiled */
} an_cached_kernel;

/* out[i] for calls[i]; new ones are run through codegen and compiled together. reused[i]: an equal kernel was there. */
an_status an_programs_get(an_graph *g, an_device *device, const an_call_vec *calls, an_trace *trace,
                          an_cached_kernel **out, bool *reused, double *codegen_s, double *compile_s);

/* A host write of that many bytes into a BUFFER of symbolic shape. Errors: AN_ERR_ARG. */
an_status an_runtime_check_write(an_graph *g, an_uop buffer, size_t nbytes);

/* How many kernels were compiled in this context: for tests. */
size_t an_programs_count(an_ctx *ctx);

double an_clock(void); /* seconds, monotonic */

#endif
