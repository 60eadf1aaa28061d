/* gpu.h - transforms and heuristics for GPUs: see gpu.c and gpu_choose.c. For src/codegen only. */
#ifndef AN_CODEGEN_GPU_H
#define AN_CODEGEN_GPU_H

#include "codegen/opt.h"
#include "codegen/pass.h"

/* The same range, of another kind, at another place in the nest: GLOBAL ranges have ids from 1, LOCAL ones from 32; both are
 * below all others. */
enum { AN_GPU_GLOBAL_ID = 1, AN_GPU_LOCAL_ID = 32 };
an_status an_gpu_mark(an_graph *g, an_uop *sink, an_uop range, an_range_kind kind, uint32_t id);

/* TILE: what varies with REDUCE or UNROLL range k, the innermost of a sum, and is read by several threads goes through workgroup memory,
 * all of its iterations at once. as_stored: laid out as it is in memory, narrow floats as they are. *why: the reason not to. */
an_status an_gpu_tile(an_graph *g, an_uop *sink, uint32_t k_id, int64_t nbytes_max, bool as_stored, const char **why);

/* MATRIX: TILE, and the sum over REDUCE or UNROLL range k of products of two f16 as one of products of fragments. The last two LOCAL ranges
 * must be the rows of one and the columns of the other, with a VECTOR range, and summing must go on outside of k. *why: the reason not to. */
an_status an_gpu_matrix(an_graph *g, an_uop *sink, uint32_t k_id, int64_t nbytes_max, const char **why);

/* FILL: REDUCE range k up to a multiple of amount; what lies beyond adds nothing. */
an_status an_gpu_fill(an_graph *g, an_uop *sink, uint32_t k_id, int64_t amount, const char **why);

/* JOIN: two constant REDUCE ranges, both bound wherever one is, or two LOOP ranges of a kernel that is not in place, as one range with the id of the outer. */
an_status an_gpu_join(an_graph *g, an_uop *sink, an_uop outer, an_uop inner);

/* Of what a kernel both writes and reads: do iterations of range r touch no element that another one writes? For those with the same
 * values of the ranges in same. */
bool an_gpu_is_apart(const an_dag *d, an_uop sink, size_t r, const an_rangeset *same);

/* The heuristics: gpu_choose.c. way: 0 is what the rules say is best; then those of an_opt_choose_other. */
uint32_t an_gpu_nways(void);
an_status an_gpu_choose(an_graph *g, an_uop *sink, const an_codegen_opts *opts, uint32_t way, an_trace *trace, an_opt_vec *list);

/* levels.c: the order of straight-line code with many sums. */
an_status an_linear_levels(an_graph *g, an_uop_vec *linear);
/* quads.c: scalar loads of neighbours become loads of four. */
an_status an_pass_quads(an_graph *g, an_uop *sink);
/* The outer loops of stores become GLOBAL ranges, unless there are some. */
an_status an_pass_global(an_graph *g, an_uop *sink);

#endif
