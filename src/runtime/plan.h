/* plan.h - what a plan is. For src/runtime, and the tensor layer's public face of it. */
#ifndef AN_RUNTIME_PLAN_H
#define AN_RUNTIME_PLAN_H

#include "runtime/state.h"
#include <anneal/plan.h>

typedef struct an_bound { /* a BUFFER of the plan's graph and the one it stands for */
    an_uop mine, user;
} an_bound;
typedef AN_VEC(an_bound) an_bound_vec;

typedef struct an_symbol_value {
    const char *name; /* in the plan's graph */
    int64_t min, max, value;
    bool is_bound;
} an_symbol_value;

struct an_plan {
    an_graph *user;  /* the caller's */
    an_graph *graph; /* the plan's own */
    an_runtime *rt;
    an_device *device;
    an_schedule schedule;
    an_bound_vec bound;
    an_idmap usable; /* node of the user's graph that was computed before: 1 its result still holds, 2 it does not */
    uint64_t oldest, newest; /* epochs of the tensors asked for, but of those that read no buffer */
    an_uop_vec outputs; /* in the user's graph, one a tensor */
    an_uop_vec assigns; /* in the user's graph: what a run writes in place */
    an_uop_vec written; /* BUFFERs of the user's graph that a run writes */
    an_uop_vec fresh;   /* those of them that are the plan's own: its first run overwrites nothing there */
    bool has_run;
    AN_VEC(uint32_t) pending; /* done records that get their epoch from the first run */
    an_uop_vec temps;
    an_idmap temp_of; /* BUFFER of the plan's graph -> 1 + index into temps */
    size_t *offsets;  /* of temps in the arena */
    an_buffer *arena;
    size_t nbytes, nbytes_unplanned;
    an_cached_kernel **kernels; /* one a call */
    bool *reused;
    an_launch *launches;
    an_buffer **buffers; /* slots of all launches, one after the other */
    size_t *buffer_offsets;
    size_t ncalls, nslots;
    AN_VEC(an_symbol_value) symbols;
    an_plan_times times;
};

/* The value a symbol is bound to. Errors: AN_ERR_ARG if it is not. */
an_status an_plan_symbol(an_plan *p, const char *name, int64_t *value);

#endif
