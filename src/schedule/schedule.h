/* schedule.h - from a tensor graph to kernels in launch order.
 *
 * In: a graph of tensor-level UOps (its BUFFER nodes are the caller's storage), and roots. Out: for every root and every
 * ASSIGN below it, a kernel that stores it; each kernel is a SINK as codegen.h describes, with its buffers as slots. The
 * passes are listed in schedule.c; docs/ARCHITECTURE.md tells the story. */
#ifndef AN_SCHEDULE_SCHEDULE_H
#define AN_SCHEDULE_SCHEDULE_H

#include "ir/uop.h"
#include "rewrite/trace.h"
#include <anneal/backend.h>

/* What the cost model knows of a device, and the knobs of the scheduler. All of it is in every schedule's key. */
typedef struct an_cost {
    double bytes_per_ns; /* memory bandwidth */
    double ops_per_ns;   /* elementwise throughput, vectorised */
    double launch_ns;    /* of one kernel */
    uint32_t max_buffers; /* hard limit of one kernel */
    uint32_t max_nodes;   /* hard limit on the tensor nodes fused into one kernel */
    uint32_t vector_nbytes; /* of the device; 0: no panels are made */
    uint32_t scratch_nbytes; /* of the device; 0: codegen makes no copies of its own */
    double cache_nbytes;    /* of one core */
    double band_nbytes;     /* of a band of what is large (bands.c); 0: there are no bands */
    double riding;        /* slowdown of a reduction that shares a kernel, and so has no tiles of its own */
    double carrying;      /* the same of one whose kernel takes in stores of fewer loops: iterations are threads on a GPU */
    double crowding;      /* part of a product's time lost where much is computed of each result: registers, of threads that sum */
    uint32_t threads;     /* side by side, to keep a device of workgroups busy; 0: it is none */
    bool no_fuse;         /* the unfused twin: every reduction and every elementwise node has its own kernel */
} an_cost;

an_cost an_cost_for(const an_backend *backend);

/* The number of a band, as a symbol: no name that a user can give. */
#define AN_BAND "#band"

/* One launch. sink is in the schedule's graph and equal (the same id) for equal kernels. */
typedef struct an_call {
    an_uop sink;
    const char *name;   /* from its loops: equal kernels have equal names */
    const char *reason; /* why its output is stored, in words; in the graph's arena */
    an_phase phase;
    an_uop buffers[AN_KERNEL_PARAM_MAX]; /* BUFFER nodes, by slot */
    bool is_read[AN_KERNEL_PARAM_MAX], is_written[AN_KERNEL_PARAM_MAX];
    uint32_t nbuffers;
    uint32_t band;      /* the value of the VAR of that name, AN_BAND, where the kernel has it */
    double flops, nbytes_read, nbytes_written;
} an_call;

typedef AN_VEC(an_call) an_call_vec;

/* What a root became. */
typedef struct an_schedule {
    an_call_vec calls;   /* in launch order */
    an_uop_vec outputs;  /* per root: the BUFFER that holds it after the calls */
    an_uop_vec assigned; /* every ASSIGN that is run ... */
    an_uop_vec targets;  /* ... and the BUFFER it writes */
} an_schedule;

/* Errors: AN_ERR_NOMEM; AN_ERR_ARG for a buffer assigned twice without order; AN_ERR_LIMIT. *out is zeroed first and to be
 * given to an_schedule_fini in any case. */
an_status an_schedule_make(an_graph *g, const an_uop *roots, size_t nroots, const an_cost *cost, an_trace *trace,
                           an_schedule *out);
void an_schedule_fini(an_graph *g, an_schedule *s);

/* Where each temporary lives in one shared arena: offsets by liveness over the calls, multiples of align.
 *   no_reuse   each has memory of its own
 *   buffers/n  the temporaries; offsets[i] is filled in; *nbytes is the arena's size, *nbytes_sum without reuse */
an_status an_plan_memory(an_graph *g, const an_call_vec *calls, const an_uop *buffers, size_t n, size_t align, bool no_reuse,
                         size_t *offsets, size_t *nbytes, size_t *nbytes_sum);

/* Puts the calls into an order in which the temporaries take less memory and, where the arena still takes more than budget bytes
 * (0: no limit), makes calls again instead of keeping what they gave, those that cost the least time for their bytes first (fit.c);
 * then lets calls write over what dies in them, if that makes the arena smaller.
 *   fixed  buffers that are the caller's; they and the outputs are no temporaries
 *   *nbytes_sum  of the temporaries, each with its own memory, before
 * Errors: AN_ERR_NOMEM; AN_ERR_LIMIT when the budget cannot be met. */
an_status an_schedule_fit(an_graph *g, an_schedule *s, const an_uop *fixed, size_t nfixed, const an_cost *cost, size_t align,
                          size_t budget, size_t *nbytes_sum, an_trace *trace);

/* Temporaries that are made in the call in which another of their kind dies, at the elements at which that is read, take its place
 * (inplace.c). Errors: AN_ERR_NOMEM. */
an_status an_schedule_in_place(an_graph *g, an_schedule *s, const an_uop *temps, size_t n);

/* A schedule as bytes, and back in a graph whose roots have the same structural key (pickle.c).
 *   externals   the BUFFERs below the roots, in the order in which they are met
 *   nbytes_sum  travels along: of an_schedule_fit
 * A schedule that cannot be kept gives an empty blob. Bytes that are no schedule: *is_good is false, and *out empty.
 * Errors: AN_ERR_NOMEM. */
typedef AN_VEC(uint8_t) an_blob;
an_status an_schedule_save(an_graph *g, const an_schedule *s, const an_uop *externals, size_t n, size_t nbytes_sum, an_blob *out);
an_status an_schedule_load(an_graph *g, const void *data, size_t nbytes, const an_uop *externals, size_t n, size_t nroots,
                           an_schedule *out, size_t *nbytes_sum, bool *is_good);

/* Bytes of a BUFFER node, by the upper bounds of symbolic dims. False on overflow, with the sentence in the context. */
bool an_buffer_nbytes(an_graph *g, an_uop buffer, size_t *nbytes);

#endif
