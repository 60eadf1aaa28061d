/* state.h - what the runtime keeps for a graph. For src/runtime only. */
#ifndef AN_RUNTIME_STATE_H
#define AN_RUNTIME_STATE_H

#include "base/idmap.h"
#include "codegen/opt.h"
#include "runtime/runtime.h"
#include <anneal/profile.h>
#include <anneal/settings.h>

typedef struct an_storage {
    an_uop node; /* the BUFFER of the version it holds now */
    an_uop latest; /* the last ASSIGN made on it, run or not */
    an_buffer *buffer;
    size_t nbytes;     /* room: at the upper bounds of symbolic dims */
    size_t nbytes_now; /* of what it holds, by the values that its symbols had; AN_NBYTES_ANY: zeros, nothing was written yet */
    bool is_empty;     /* the output of a plan that has not run */
    bool is_stand_in;  /* of an argument in a capture; buffer is NULL, or a copy */
} an_storage;
#define AN_NBYTES_ANY SIZE_MAX

typedef struct an_at_end {
    void (*fn)(void *data);
    void *data;
} an_at_end;

typedef struct an_binding {
    const char *name; /* the graph's */
    int64_t value;
} an_binding;

typedef struct an_runtime {
    an_device *device;
    an_idmap storage_of; /* BUFFER node, of any version -> 1 + index into storages */
    AN_VEC(an_storage) storages;
    AN_VEC(an_binding) bindings; /* an_graph_bind */
    uint64_t bound_at;           /* how often it was called */
    an_idmap result_of; /* node that was computed -> the BUFFER, of the version that was its value */
    an_idmap claimed;   /* ASSIGN -> 1 while it belongs to a plan that has not run */
    void *capture;
    AN_VEC(an_at_end) at_end;
} an_runtime;

/* The graph's runtime, its device open; NULL with a sentence. */
an_runtime *an_runtime_of(an_graph *g);
an_storage *an_storage_of(an_runtime *rt, an_uop buffer); /* NULL if u has none */
/* Storage for a BUFFER node, zeroed. */
an_status an_storage_bind(an_graph *g, an_runtime *rt, an_uop buffer);

/* AN_ERR_ARG in a capture. */
an_status an_runtime_refuse_capture(an_graph *g, const char *verb);
/* The sentence for a stand-in that is used outside. */
an_status an_runtime_refuse_stand_in(an_graph *g);

/* --- versions (versions.c) ---------------------------------------------------------------------- */
/* To be called before the contents of s change: what reads the version it holds is stale from then on.
 * Errors: AN_ERR_NOMEM, and nothing has changed. */
an_status an_version_next(an_graph *g, an_runtime *rt, an_storage *s);

/* The version that the storage below a BUFFER, or a chain of ASSIGNs, holds now. */
an_uop an_version_now(an_graph *g, an_runtime *rt, an_uop u);

/* Whether u is a BUFFER, or an ASSIGN that a plan has taken on: as a target it is the place, whatever it holds. */
bool an_version_is_place(an_graph *g, an_runtime *rt, an_uop u);

/* Where the value of u is at hand, or AN_UOP_NONE if it is to be computed.
 *   *pending  (may be NULL) set when it is what a plan will write that has not run yet
 * Errors: AN_ERR_STALE when u is a version, or a write, that was overwritten. */
an_status an_version_value(an_graph *g, an_runtime *rt, an_uop u, an_uop *value, bool *pending);

/* What computing roots reads and does, each once: all the versions below them whose values are at hand are current.
 *   assigns  (may be NULL) gets the ASSIGNs that are to run
 *   *pending as above */
an_status an_version_walk(an_graph *g, an_runtime *rt, const an_uop *roots, size_t n, an_uop_vec *assigns, bool *pending);

/* --- kernel cache (programs.c) ------------------------------------------------------------------
 * Compiled kernels by structural key, for the life of the context. */
typedef struct an_cached_kernel {
    an_key key;
    an_graph *graph; /* owns the nodes of kernel */
    an_codegen_opts opts; /* of its codegen; opts.list is list */
    an_opt_vec list;
    an_uop_vec linear; /* empty until lowered */
    an_kernel kernel;
    an_program *program; /* NULL until there is one */
} an_cached_kernel;

/* Runs codegen on a kernel whose program came from elsewhere; no-op on one that was lowered. */
an_status an_cached_kernel_lower(an_cached_kernel *k, an_trace *trace);

/* out[i] for calls[i]; new ones the device has not kept are run through codegen and compiled together. reused[i]: an equal kernel was there. */
an_status an_programs_get(an_graph *g, an_device *device, const an_call_vec *calls, an_trace *trace,
                          an_cached_kernel **out, bool *reused, double *codegen_s, double *compile_s);

/* A host write of that many bytes into a BUFFER of symbolic shape. Errors: AN_ERR_ARG. */
an_status an_runtime_check_write(an_graph *g, an_uop buffer, size_t nbytes);

/* How many kernels were compiled in this context: for tests. */
size_t an_programs_count(an_ctx *ctx);

/* --- profiles (profile.c) ------------------------------------------------------------------------ */
an_profile *an_profile_of(an_ctx *ctx); /* NULL: nothing is recorded */
/* start is by an_clock; name is copied. p NULL is a no-op. */
void an_profile_add(an_profile *p, an_event e);
void an_profile_cut(an_profile *p); /* something could not be recorded */

/* What the environment sets can be read. Errors: AN_ERR_ARG with a sentence that names the variable. */
an_status an_settings_check(an_ctx *ctx);
/* Every field of the settings into a key. */
an_key an_settings_mix(an_key key, const an_settings *s);
/* tune.c: the list of opts for a kernel that is not lowered, by the winners on disk or a search; *found false: the heuristics
 * decide. key is the kernel's with all knobs, call where its buffers' sizes are. Errors: AN_ERR_NOMEM, AN_ERR_DEVICE. */
an_status an_tune(an_graph *g, const an_call *call, an_device *dev, const an_cached_kernel *k, an_opt_vec *list, bool *found);

double an_clock(void); /* seconds, monotonic */

#endif
