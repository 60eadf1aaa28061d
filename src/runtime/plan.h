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

/* What must hold of the symbols' values: expr is 0, or not below 0. For the sentence: the movement node, its axis, what it needs. */
typedef struct an_condition {
    an_uop node, expr;
    const char *what;
    uint32_t axis;
    bool zero;
} an_condition;

/* A bound buffer of symbolic shape, and its bytes at the values now. */
typedef struct an_sized {
    an_uop mine, user;
    size_t nbytes;
    bool is_read, is_written; /* is_read: what it held before the run */
} an_sized;

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
    AN_VEC(an_condition) conditions;
    AN_VEC(an_sized) sized;
    bool symbols_checked; /* all of it, at these values */
    uint64_t bound_at;
    an_plan_times times;
};

/* symbols.c. When roots are in the plan's graph: its symbols, and conditions on them. When buffers are placed: sizes. */
an_status an_plan_note_symbols(an_plan *p, const an_uop *roots, size_t nroots);
an_status an_plan_note_sizes(an_plan *p);
/* Before and after each run. Errors: AN_ERR_ARG for a symbol without a value or a buffer filled at another one; AN_ERR_SHAPE for a
 * broken condition. */
an_status an_plan_begin(an_plan *p);
void an_plan_end(an_plan *p);

/* The value a symbol is bound to. Errors: AN_ERR_ARG if it is not. */
an_status an_plan_symbol(an_plan *p, const char *name, int64_t *value);

#endif
