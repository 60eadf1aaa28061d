/* wgsl.h - a linear list as a WGSL compute shader. Needs no WebGPU library: text in, text out.
 *
 * The shader has one entry point, "main", and one bind group, 0:
 *   binding b < nbindings   storage buffers, as bindings[b] says: bindings[b].slot is the slot of the kernel's PARAM
 *   binding nbindings       a uniform buffer of nvars u32 fields (the low words of the symbolic variables, in the kernel's
 *                           order), where nvars > 0; uniform_nbytes long
 * A buffer is bound in whole 16-byte units: its size rounded up, so that vec4 bindings see the last element.
 *
 * Which iteration runs where (range kinds: ir/uop.h):
 *   GLOBAL         outermost loops: one iteration a workgroup where the kernel has LOCAL, GROUP or STAGE ranges, one a thread
 *                  where it has none
 *   LOCAL          one iteration a thread of the workgroup
 *   GROUP          iterations dealt round-robin to the threads of the workgroup; an accumulator set inside and read after it
 *                  holds the join of all threads' values
 *   STAGE          likewise, and what it stores to workgroup memory is there for every thread after it
 * All other loops are run by each thread. A kernel without GLOBAL ranges is run by one thread. */
#ifndef AN_BACKEND_WGSL_H
#define AN_BACKEND_WGSL_H

#include "base/base.h"
#include <anneal/backend.h>

/* What the device allows and has. Part of the key of everything rendered. */
typedef struct an_wgsl_caps {
    uint32_t max_invocations;   /* threads of a workgroup */
    uint32_t max_size[3];       /* of a workgroup, by dimension */
    uint32_t max_groups;        /* of a dispatch, a dimension */
    uint32_t max_local_nbytes;  /* workgroup memory */
    uint32_t max_buffers;       /* storage buffers of one shader */
    uint64_t max_binding_nbytes;
    uint32_t subgroup_nlanes;   /* of every subgroup, where all are of one size, of threads side by side, and the feature is there; else 0 */
    bool names_subgroups;       /* a shader that uses subgroups must say so first; where not, it must not */
    bool has_f16;               /* shader-f16 */
    bool exact_f16;             /* and f16() of what goes to memory rounds as IEEE 754 says */
    bool has_matrix;            /* subgroup matrices: 16 x 16 by 16 x 8 of f16 to f32, of subgroups of 32 threads side by side */
    bool read_write_all;        /* declare every storage buffer read_write: parts of one buffer may then be bound side by side */
    bool inexact_fma;           /* fma() rounds twice here (software adapters do that): emulate it */
    bool exact_div;             /* division and sqrt() are rounded as IEEE 754 says, denormals too; most GPUs' are not */
} an_wgsl_caps;

/* The least that WebGPU promises: a fallback, and what golden tests render for. */
an_wgsl_caps an_wgsl_caps_default(void);

typedef struct an_wgsl_binding {
    uint32_t slot;       /* of the kernel's PARAM */
    an_dtype dtype;
    bool is_read, is_written;
    uint32_t word_nbytes; /* of one element of the WGSL array: 4 (packed, where dtype is narrower), 8 or 16; 2 for f16 */
} an_wgsl_binding;

enum { AN_WGSL_CODE_MAX = 64 };

/* A number that may depend on the variables, in postfix. */
typedef struct an_wgsl_code {
    uint8_t op; /* an_op: CONST pushes value, VAR pushes variable number value; else ADD, MUL, FLOORDIV, FLOORMOD, MIN, MAX */
    int64_t value;
} an_wgsl_code;

typedef struct an_wgsl {
    an_ctx *ctx;
    char *text; /* NUL-terminated */
    size_t text_nbytes;
    uint32_t size[3]; /* of a workgroup */
    an_wgsl_binding bindings[AN_KERNEL_PARAM_MAX];
    uint32_t nbindings, nvars, uniform_nbytes;
    an_wgsl_code groups[AN_WGSL_CODE_MAX]; /* how many workgroups */
    uint32_t ngroups_code;
    uint32_t local_nbytes; /* workgroup memory in use */
    bool uses_f16, uses_subgroups, uses_matrix;
} an_wgsl;

/* Renders the kernel's linear list. The result owns its text and outlives the kernel; an_wgsl_fini also after a failure.
 * Errors: AN_ERR_UNSUPPORTED with a sentence for what WGSL, or this device, cannot do (f64; more storage buffers or workgroup
 * memory than there are); AN_ERR_NOMEM; AN_ERR_INTERNAL for a list the verifier should have refused. */
an_status an_wgsl_render(an_ctx *ctx, const an_kernel *kernel, const an_wgsl_caps *caps, an_wgsl *out);
void an_wgsl_fini(an_wgsl *w);

/* The dispatch for these values of the variables: nowhere more than max_groups, 0 where nothing is to be done. False: the
 * kernel needs more workgroups than three dimensions hold. */
bool an_wgsl_dispatch(const an_wgsl *w, const an_wgsl_caps *caps, const int64_t *vars, uint32_t out[3]);

#endif
