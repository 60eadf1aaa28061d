/* plan.h - what a plan is. For src/runtime, and the tensor layer's public face of it. */
#ifndef AN_RUNTIME_PLAN_H
#define AN_RUNTIME_PLAN_H

#include "runtime/state.h"
#include <anneal/plan.h>

typedef struct an_bound { /* a BUFFER of the plan's graph and the storage it stands for */
    an_uop mine, user; /* user: the version when the plan was made */
    uint32_t storage;  /* index into the runtime's; an_plan_rebind */
    AN_VEC(uint32_t) at; /* where in an_plan.buffers */
    bool is_written;
    size_t last_read, first_write; /* calls; SIZE_MAX for first_write: none */
} an_bound;
typedef AN_VEC(an_bound) an_bound_vec;

typedef struct an_computed { /* a node of the user's graph, and the storage that its value is in after a run */
    an_uop node;
    uint32_t storage;
    bool is_covered; /* an ASSIGN that another of the plan goes on top of */
} an_computed;

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
    size_t bound;
    size_t nbytes;
    bool is_read; /* what it held before the run */
} an_sized;

struct an_plan {
    an_graph *user;  /* the caller's */
    an_graph *graph; /* the plan's own */
    an_runtime *rt;
    an_device *device;
    an_schedule schedule;
    an_bound_vec bound;
    an_uop_vec outputs; /* in the user's graph, one a tensor */
    an_uop_vec assigns; /* in the user's graph: what a run writes in place */
    AN_VEC(uint32_t) written; /* bounds that a run writes */
    size_t nreads;            /* bounds from there on are the plan's own outputs */
    bool is_pending;          /* it reads what another plan has yet to write */
    bool has_run;
    AN_VEC(an_computed) results; /* what the first run computes, to be remembered */
    an_uop_vec temps;
    an_idmap temp_of; /* BUFFER of the plan's graph -> 1 + index into temps */
    size_t *offsets;  /* of temps in the arena */
    an_buffer *arena;
    size_t nbytes, nbytes_unplanned;
    an_cached_kernel **kernels; /* one a call */
    bool *reused;
    an_launch *launches;
    an_buffer **buffers; /* slots of all launches, one after the other */
    size_t *buffer_offsets, *buffer_nbytes;
    size_t ncalls, nslots;
    AN_VEC(an_symbol_value) symbols;
    AN_VEC(an_condition) conditions;
    AN_VEC(an_sized) sized;
    bool symbols_checked; /* all of it, at these values */
    uint64_t bound_at;
    an_plan_times times;
    an_key key;            /* of its schedule */
    bool is_schedule_kept; /* it was found by that key, not made */
};

enum { AN_PLACE_ALIGN = 256 }; /* of offsets in the arena: <anneal/backend.h> */

/* schedules.c: schedules by key. find fills the plan's if it is there; keep has one for later. Errors: AN_ERR_NOMEM. */
an_status an_schedule_key(an_plan *p, const an_uop *roots, size_t n, const an_cost *cost, an_key *key);
an_status an_schedules_find(an_plan *p, const an_uop *roots, size_t n, an_key key, bool *found);
an_status an_schedules_keep(an_plan *p, const an_uop *roots, size_t n, an_key key);

/* symbols.c. When roots are in the plan's graph: its symbols, and conditions on them. When buffers are placed: sizes. */
an_status an_plan_note_symbols(an_plan *p, const an_uop *roots, size_t nroots);
an_status an_plan_note_sizes(an_plan *p);
/* Before and after each run. Errors: AN_ERR_ARG for a symbol without a value or a buffer filled at another one; AN_ERR_SHAPE for a
 * broken condition. */
an_status an_plan_begin(an_plan *p);
void an_plan_end(an_plan *p);

/* The bound of a BUFFER of the user's graph, by the node it was when the plan was made; SIZE_MAX: the plan does not use it. */
size_t an_plan_find(const an_plan *p, an_uop user);
/* Bound i is a buffer that was there before the plan, and no stand-in. */
bool an_plan_is_captured(const an_plan *p, size_t i);
/* From now on storage takes the place of bound i. */
void an_plan_rebind(an_plan *p, size_t i, uint32_t storage);

/* The value a symbol is bound to. Errors: AN_ERR_ARG if it is not. */
an_status an_plan_symbol(an_plan *p, const char *name, int64_t *value);

#endif
