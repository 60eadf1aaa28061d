/* codegen.h - from a kernel as a DAG to a kernel as a linear list.
 *
 * In: what schedule/split.c makes. A SINK of STOREs. Each STORE(PARAM, index, value[, gate]) has an index over RANGEs
 * of kind LOOP, and a value built of LOAD(PARAM, index[, gate]), elementwise ops, CONST, VAR, RANGE and
 * REDUCE(value, range...) whose ranges have kind REDUCE and belong to that REDUCE (two copies of one reduction at different
 * indices may share them; never one nested in another). Everything is scalar. Index arithmetic is INDEX dtype
 * (64-bit exact), built of add, mul, floordiv, floormod, min, max, comparisons and where. Range ids
 * ascend from outer to inner; the ranges of two stores in one sink may share a prefix. Nodes:
 *   for i in range 0..64:                      STORE(PARAM 0, i*10 + j, mul(exp2(..), ..))
 *       m = reduce max over k ...              the loop over k depends on i only, so it sits inside i, before j
 *       for j in range 0..10: store
 *
 * Out: a linear list in execution order, which every backend can walk:
 *   PARAM, CONST, VAR, SPECIAL             values; before their first use
 *   LOCAL                                  scratch of the iteration it is in; stores to it come before loads of it
 *   RANGE ... END(range)                   a loop; properly nested; what is defined inside is used inside only
 *   ACC(init)                              a register, defined before its loop. As a source it means its value now
 *   ACC_SET(acc, x)                        inside the loop
 *   ACC_GET(acc, end)                      after the loop: the final value
 *   LOAD, STORE                            with a gate: nothing is touched where it is false, the load gives 0
 *   FRAGMENT, MATRIX                       products by matrix units, from scratch; on devices that have them only
 *   elementwise, VECTOR, LANE, RAMP, BROADCAST, HREDUCE
 * A vector value has lanes > 1. A LOAD or STORE whose index has lanes > 1 is one access per lane; index = RAMP(base)
 * is consecutive elements. All sources of an elementwise op have its lanes (BROADCAST makes them so); a gate has the lanes of
 * the index. No REDUCE and no SINK is left. */
#ifndef AN_CODEGEN_CODEGEN_H
#define AN_CODEGEN_CODEGEN_H

#include "ir/uop.h"
#include "rewrite/trace.h"
#include <anneal/backend.h>

/* A device of workgroups and threads, as the heuristics see it. All zero: it is none. */
typedef struct an_gpu_target {
    uint32_t threads;       /* of a workgroup, at most */
    uint32_t local_nbytes;  /* workgroup memory */
    uint32_t units;         /* workgroups that it takes to keep the device busy */
    bool small_code;        /* loops are not written out where that makes much code: software adapters compile slowly */
    bool has_matrix;        /* units that multiply fragments of f16, 16 x 16 by 16 x 8, for 32 threads side by side */
} an_gpu_target;

/* The knobs; part of every kernel's key. All zero: scalar, no opts. */
typedef struct an_codegen_opts {
    uint32_t vector_nbytes; /* native vector width, 0 for scalar code */
    bool no_opt;            /* the loop nest as it comes: the twin that opts are tested against */
    uint32_t scratch_nbytes; /* that a kernel may use for copies, 0 for none */
    uint32_t l1_nbytes, l2_nbytes; /* of data, of one core; 0: what most have */
    int threads;             /* that share what outermost loops do; 0: some */
    an_gpu_target gpu;
    bool by_hand;           /* list[0..nlist-1] instead of what the heuristics choose (opt.h) */
    const struct an_opt *list;
    size_t nlist;
} an_codegen_opts;

/* Scratch arrays of a kernel: their numbers are below it. */
enum { AN_LOCALS_MAX = 16 };

/* Runs the codegen passes over sink (in g, where new nodes go) and fills the caller's vec with the linear list.
 * trace may be NULL. Errors: AN_ERR_NOMEM; AN_ERR_INTERNAL with the verifier's sentence; AN_ERR_ARG for an opt by hand that does
 * not apply. */
an_status an_codegen(an_graph *g, an_uop sink, const an_codegen_opts *opts, an_trace *trace, an_uop_vec *linear);

/* The kernel as opts see it: prepared, simplified, its ranges cut and merged as memory is walked. */
an_status an_codegen_shape(an_graph *g, an_uop *sink, const an_codegen_opts *opts, an_trace *trace);

/* The rules for legal programs. what names the pass in the sentence. Errors: AN_ERR_INTERNAL. */
an_status an_linear_verify(an_graph *g, const an_uop *linear, size_t n, const char *what);

/* The linear list as text, indented by loop: dumps and golden files. */
an_status an_linear_print(an_str *out, an_graph *g, const an_uop *linear, size_t n);

#endif
