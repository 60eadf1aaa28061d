/* pass.h - the passes of codegen, one a file. Each takes the sink of a kernel and puts the new one in its place; on
 * failure the sink stays. For src/codegen only. */
#ifndef AN_CODEGEN_PASS_H
#define AN_CODEGEN_PASS_H

#include "codegen/dag.h"
#include "codegen/codegen.h"

/* Room between range ids, and below the first, so that a range split off another or moved gets an id where it belongs. */
enum { AN_RANGE_ID_STEP = 1024 };

/* Tags: of the ops that join the copies of an unrolled reduction; of an ADD(x, REDUCE) whose sum begins with x. */
enum { AN_TAG_UNROLLED = 1, AN_TAG_CARRIED = 2 };

/* reduce.c: ranges of one element go, and reductions and stores over none; narrow floats are widened, ids spread. */
an_status an_pass_prepare(an_graph *g, an_uop *sink);
/* merge.c: ranges used in parts are cut; nested loops that walk memory as one become one. */
an_status an_pass_cut(an_graph *g, an_uop *sink, bool may_split, an_trace *trace);
an_status an_pass_merge(an_graph *g, an_uop *sink);
an_status an_pass_merge_reductions(an_graph *g, an_uop *sink); /* what opts left of loops stays as they put it */
/* blocks.c: the same of ranges with symbolic bounds; then those in blocks of constant sizes, for opts. */
an_status an_pass_cut_symbolic(an_graph *g, an_uop *sink, an_trace *trace);
an_status an_pass_blocks(an_graph *g, an_uop *sink, const an_codegen_opts *opts, an_trace *trace);
/* heuristic.c: which opts; opt.c has them. */
an_status an_pass_opt(an_graph *g, an_uop *sink, const an_codegen_opts *opts, an_trace *trace);
/* expand.c: UNROLL and UPCAST ranges become copies. */
an_status an_pass_expand(an_graph *g, an_uop *sink);
/* vector.c: VECTOR ranges become lanes. */
an_status an_pass_vector(an_graph *g, an_uop *sink);
/* coalesce.c: among loads whose lane l is element base + l * step, those at neighbouring bases become loads of neighbours, and those of steps up to
 * AN_STRIDE_MAX lanes of whole vectors. */
enum { AN_STRIDE_MAX = 4 };
typedef struct an_strided {
    an_uop load, base;
    int64_t step;
} an_strided;
typedef AN_VEC(an_strided) an_strided_vec;
an_status an_coalesce(an_graph *g, an_uop *sink, const an_strided *list, size_t n);
/* thread.c: outermost loops become THREAD ranges. */
an_status an_pass_thread(an_graph *g, an_uop *sink);
/* linearize.c: loops, accumulators, order. */
an_status an_pass_linearize(an_graph *g, an_uop sink, an_uop_vec *linear);
/* prefetch.c: of rows that are read more than once, in a list. */
an_status an_linear_prefetch(an_graph *g, an_uop_vec *linear);

/* Why a constructor gave no node. */
static inline an_status an_cg_failed(const an_graph *g)
{
    const an_status st = an_ctx_status(an_graph_ctx(g));
    return st ? st : AN_ERR_NOMEM;
}

#endif
