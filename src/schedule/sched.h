/* sched.h - the scheduler's working state. For src/schedule only.
 *
 * A node of the tensor graph is evaluated at index tuples: SINK(index of axis 0, ..., index of the last axis, valid), one
 * index expression over RANGEs an axis, and the condition under which the element exists (PAD puts it there).
 * rangeify.c says which tuple of a source follows from a tuple of its user; movement ops are nothing but that.
 *
 * A node is either stored (it has a kernel that evaluates it once at its own LOOP ranges) or inlined into the kernels
 * of its users, at their tuples: its contexts. fuse.c decides, from users to sources. */
#ifndef AN_SCHEDULE_SCHED_H
#define AN_SCHEDULE_SCHED_H

#include "base/idmap.h"
#include "base/pairmap.h"
#include "rewrite/rewrite.h"
#include "schedule/schedule.h"

typedef struct an_context {
    uint32_t kernel; /* in sched.kernels */
    an_uop tuple;
} an_context;

typedef struct an_info { /* of a tensor node, by id */
    AN_VEC(an_context) contexts;
    uint32_t kernel;  /* 1 + the kernel that stores it, 0 if inlined */
    bool was_stored;  /* in the round before: a guess for nodes not yet decided */
    bool is_term;     /* a sum that is only moved and then summed: inlined, the two are one sum (collapse.c) */
    uint32_t nusers;  /* nodes of the order that have it as a source, each operand counted */
    an_uop ranges;    /* REDUCE_AXIS: SINK of its reduce ranges, one an axis; CONST 0 for axes not reduced or of size 1 */
} an_info;

typedef struct an_store_info {
    an_uop node; /* the tensor node stored */
    an_uop ptr;  /* BUFFER, or ASSIGN */
} an_store_info;

typedef struct an_kern {
    an_uop_vec loops; /* LOOP ranges, outer first, those of size 1 left out */
    an_uop tuple;     /* the output's index tuple */
    an_uop_vec stores; /* STORE nodes once built */
    an_uop_vec reads;  /* pointers loaded from: BUFFER or ASSIGN nodes, each once */
    an_uop_vec writes; /* pointers stored to */
    an_uop node;       /* the tensor node it was made for */
    const char *reason;
    uint32_t nnodes;   /* tensor nodes inlined */
    uint32_t npending; /* nodes it uses that are still to be decided: fuse.c */
    double reduce_ops; /* modelled operations inside reductions */
    bool has_reduce;
    bool dead;         /* merged into another */
} an_kern;

/* What a product reads along some ranges, and its copy at multiples of four (align.c). */
typedef struct an_aligned_axis {
    an_uop range;
    int64_t n, step, size; /* size: in the copy */
} an_aligned_axis;

typedef struct an_aligned {
    an_uop load, ptr, copy;            /* copy: none where it is read as it is */
    an_aligned_axis axes[AN_RANK_MAX]; /* by falling steps: memory runs along the last one */
    uint32_t naxes;
    int64_t offset;
} an_aligned;

typedef struct an_sched {
    an_graph *g;
    an_ctx *ctx;
    const an_cost *cost;
    an_trace *trace;
    an_info *info; /* ids below ninfo */
    uint32_t ninfo;
    size_t info_nbytes;
    an_uop_vec order; /* tensor nodes, sources first */
    AN_VEC(an_kern) kernels;
    AN_VEC(an_uop) range_owner; /* by range id: the REDUCE_AXIS node, or none for a LOOP */
    AN_VEC(uint32_t) range_kernel; /* by range id: 1 + kernel of a LOOP */
    an_bounds_memo bounds;
    an_idmap simplified; /* tuple -> simplified tuple */
    an_pairmap evals;    /* (kernel, tuple) -> 1 + index into eval_counts */
    an_pairmap trial_evals; /* the same for tuples below a node whose cost is being asked for: they hold while it is */
    bool on_trial;
    AN_VEC(double) eval_counts;
    an_idmap ranges_at;  /* tuple -> 1 + index into ranges: their number, then the RANGEs below it */
    AN_VEC(uint32_t) ranges;
    an_idmap tight;      /* nodes whose kernels have more buffers than the device binds: fuse.c */
    bool all_tight;
    an_idmap buffer_of;  /* stored node -> its BUFFER or ASSIGN */
    an_uop_vec outputs;  /* BUFFERs of the roots */
    an_idmap layout;     /* stored node -> its axes as they lie in memory, outermost first, 4 bits each; 0: as they are numbered */
    an_idmap outside;    /* ranges that walk axes which lie outside of others (layout.c) */
    AN_VEC(an_aligned) aligned; /* copies that are made */
    bool bands_noted;    /* banded is known */
    an_idmap banded;     /* kernels that bands.c is to run over bands of rows: they keep rows as one range */
} an_sched;

/* --- rangeify.c -------------------------------------------------------------------------------- */
an_uop an_tuple_make(an_sched *s, const an_uop *idx, uint32_t rank, an_uop valid);
an_uop an_tuple_valid(const an_sched *s, an_uop tuple);
/* The tuple of source i of n when n is evaluated at tuple. local (may be NULL): what PAD alone demands. */
an_uop an_tuple_source(an_sched *s, an_uop n, an_uop tuple, uint32_t i, an_uop *local);
/* A fresh RANGE over bound; the constant 0 where bound is 1. owner none: a LOOP of that kernel. */
an_uop an_sched_range(an_sched *s, an_uop bound, an_uop owner, uint32_t kernel);
/* SINK of the reduce ranges of a REDUCE_AXIS node, made on first use. */
an_uop an_sched_reduce_ranges(an_sched *s, an_uop n);
/* What an ASSIGN writes is its view, where it has one: the shape of a node's store, and where the element at tuple goes. gate
 * is none where every element of the view is one of the buffer (padding is not). False when memory is out. */
an_shape an_store_shape(const an_sched *s, an_uop n);
bool an_store_place(an_sched *s, an_uop n, an_uop tuple, an_uop *index, an_uop *gate);
/* Row-major position in a buffer of that shape. */
an_uop an_tuple_flat(an_sched *s, an_uop tuple, an_shape shape);
/* Position of the element at tuple in the buffer that stores n, in the order that layout.c gave it. */
an_uop an_stored_flat(an_sched *s, an_uop n, an_uop tuple);
/* The RANGEs below a tuple, each once; valid until the next call. NULL, and *n 0, when memory is out. */
const uint32_t *an_tuple_ranges(an_sched *s, an_uop tuple, uint32_t *n);
/* The RANGEs below u, each once, pushed onto out if not there. */
bool an_ranges_below(an_sched *s, an_uop u, an_uop_vec *out);
/* u is evaluated through: it is only its first source, moved or renamed. */
bool an_sched_transparent(an_op op);

/* --- cost.c ------------------------------------------------------------------------------------ */
double an_range_size(an_sched *s, an_uop range);
/* How many times a node at this tuple is evaluated in the kernel: the product of the loops it sits in. */
double an_sched_evals(an_sched *s, uint32_t kernel, an_uop tuple);
/* Modelled ns of evaluating n, and all that is inlined below it, at those contexts; stops beyond limit. */
double an_sched_cost(an_sched *s, an_uop n, const an_context *contexts, size_t ncontexts, double limit);
/* Operations' worth of time that a kernel whose reductions are products loses to what it computes of their results, and `more`. */
double an_sched_crowding(an_sched *s, const an_kern *k, double more);
/* The tuple depends on a reduce range. */
bool an_sched_in_reduce(an_sched *s, an_uop tuple);
double an_numel(an_sched *s, an_shape shape);
double an_op_weight(an_op op);

/* A launch: of a kernel, for the band of that number where it runs over bands. */
typedef struct an_entry {
    uint32_t kernel, band;
} an_entry;
typedef AN_VEC(an_entry) an_entry_vec;

/* --- residue.c: sums that take only what a remainder lets through --------------------------------- */
enum { AN_CONJUNCTS_MAX = 24 };
/* (a range + e) % m is 0; a and m have no common divisor, and inverse is that of a modulo m. sum is a range + e. */
typedef struct an_residue {
    int64_t m, a, inverse;
    an_uop sum, e;
} an_residue;
/* Does the condition say so of range? */
bool an_residue_of(an_sched *s, an_uop condition, an_uop range, an_residue *out);
/* The parts of an `and`, and their number; 0 if there are more than most. */
uint32_t an_conjuncts(const an_graph *g, an_uop c, an_uop *out, uint32_t most);
/* The share of the iterations over reduce ranges that a condition lets through, by remainders. */
double an_residue_share(an_sched *s, an_uop condition, const an_uop_vec *ranges);
/* The REDUCE with one such range stepped through, or none where there is none. */
an_uop an_residue_steps(an_sched *s, an_uop reduce);
/* collapse.c: x with range replaced by e, loads that depended on it gated by ok as well. */
an_uop an_at_element(an_sched *s, an_uop x, an_uop range, an_uop e, an_uop ok);
/* The same, and n nodes replaced besides: what is left of an index may not show that it depended on range. */
an_uop an_at_element_with(an_sched *s, an_uop x, an_uop range, an_uop e, an_uop ok, const an_uop *old, const an_uop *new, uint32_t n);
/* collapse.c: may the load leave its buffer, but for its gate? */
bool an_needs_gate(an_sched *s, an_uop load);

/* --- the passes, in order ---------------------------------------------------------------------- */
an_status an_sched_fuse(an_sched *s, const an_uop *roots, size_t nroots); /* fuse.c: kernels and contexts */
void an_kern_fini(an_sched *s, an_kern *k);
an_status an_sched_layout(an_sched *s);                                   /* layout.c: the order in which temporaries lie in memory */
an_status an_sched_build(an_sched *s);                                    /* build.c: stores as expressions */
an_status an_sched_collapse(an_sched *s);                                 /* collapse.c: reductions in closed form */
an_status an_sched_align(an_sched *s);                                     /* align.c: operands of products at multiples of four; before and after parts */
an_status an_sched_parts(an_sched *s);                                     /* parts.c: reductions with few results in two kernels */
an_status an_sched_merge(an_sched *s);                                    /* merge.c: kernels with several outputs */
an_status an_sched_pack(an_sched *s);                                     /* pack.c: operands of products in panels */
an_status an_sched_order(an_sched *s, uint32_t **order, size_t *n);       /* order.c: launch order */
/* parts.c: how busy a product with so many results keeps the device's units, its sum over n in parts as it would be. */
double an_parts_busy(const an_sched *s, int64_t n, double results);
/* order.c: the same as far as it goes, before all kernels are there: those in a circle, and after it, are left out. */
an_status an_sched_order_try(an_sched *s, uint32_t **order, size_t *n);
/* bands.c: notes in s->banded the kernels that would run over bands, were these all; once. */
an_status an_sched_bands_note(an_sched *s);
/* bands.c: what is large and short-lived, a band of rows at a time; kernels it runs over bands are in *out once a band. */
an_status an_sched_bands(an_sched *s, const uint32_t *order, size_t n, an_entry_vec *out);
an_status an_sched_split(an_sched *s, const an_entry_vec *order, an_schedule *out); /* split.c: slots, names */

/* --- deps.c ------------------------------------------------------------------------------------ */
/* The buffer, or the ASSIGN of it, that an ASSIGN is on top of: ASSIGNs of no element in between write nothing, and have no kernel. */
an_uop an_sched_target(an_sched *s, an_uop assign);

typedef struct an_edge {
    uint32_t before, after;
} an_edge;
typedef AN_VEC(an_edge) an_edge_vec;
/* What must run before what: a write before its reads, and reads of what a buffer held before the ASSIGN that overwrites
 * it. Dead kernels have none. */
bool an_sched_edges(an_sched *s, an_edge_vec *out);

/* --- kernels as nodes of a graph --------------------------------------------------------------- */
uint32_t an_sched_kernel_new(an_sched *s, an_uop node, const char *reason);
/* Fills reads, writes and what is known of reductions from stores. */
bool an_kern_refresh(an_sched *s, an_kern *k);
/* Modelled operations of these stores: each node's weight times the ranges it depends on. reduce_only: of those
 * inside reductions. */
double an_stores_ops(an_sched *s, const an_uop_vec *stores, bool reduce_only);
/* The BUFFER below a pointer (through ASSIGNs). */
an_uop an_ptr_base(const an_graph *g, an_uop ptr);

/* --- band_kernel.c: a kernel over a band of rows ------------------------------------------------ */
enum { AN_CUTS_MAX = 4 };
/* Rows of which a band has a part: size of n, from base on. */
typedef struct an_cut {
    an_uop range; /* the kernel's over the rows: a loop, or of the last cut a reduction's; none: it has none */
    int64_t n, size;
    an_uop base;
} an_cut;

/* A buffer, and what holds one band of it. step: by cut, elements from row to row, 0 where it has no such rows; outer cuts have larger ones. */
typedef struct an_rows {
    an_uop whole, band;
    int64_t step[AN_CUTS_MAX];
} an_rows;

typedef struct an_band {
    an_cut cuts[AN_CUTS_MAX];
    uint32_t ncuts;
    bool is_first;       /* sums over rows begin with it; later bands add to them */
    bool only_held;      /* of the stores only those into held buffers */
    const an_rows *held; /* buffers of which there is one band at a time */
    size_t nheld;
    const an_uop *sums;  /* the last range is a reduction's: where each store's sum goes; none: where the store went */
    const char *reason;
} an_band;

/* Is index a sum of step * range and of what names no row: n rows of step elements, and any number of such blocks? */
bool an_index_has_rows(an_sched *s, an_uop index, an_uop range, int64_t n, int64_t step);
/* The sum over range in the value of a store, where that is all that depends on range; else none. */
an_uop an_store_sum(an_sched *s, an_uop store, an_uop range);
/* The loops that u depends on. */
bool an_loops_below(an_sched *s, const an_kern *k, an_uop u, an_uop_vec *out);
/* Kernel k over a band: a new one. */
an_status an_band_kernel(an_sched *s, uint32_t k, const an_band *band, uint32_t *out);
/* What is left of k when sums have been made: its stores with each sum (by store; none: the store is done) loaded. */
an_status an_band_end(an_sched *s, uint32_t k, an_uop range, const an_uop *sums, const char *reason, uint32_t *out);

#endif
