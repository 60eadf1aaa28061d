/* loops.h - the loop tree of a kernel: where each range runs. For src/codegen only. */
#ifndef AN_CODEGEN_LOOPS_H
#define AN_CODEGEN_LOOPS_H

#include "codegen/dag.h"

/* loops.list.data[0] is the kernel itself and has no range; a parent comes before its children. */
typedef struct an_loop {
    an_uop range;
    uint32_t parent, depth;
} an_loop;
typedef struct an_loops {
    AN_VEC(an_loop) list;
    an_idmap at; /* range node id -> loop; 0 is none */
} an_loops;

void an_loops_fini(an_loops *l, an_ctx *ctx);

/* The ancestor of loop a (or a itself) at this depth. */
uint32_t an_loops_up(const an_loops *l, uint32_t a, uint32_t depth);

/* Gives every range one place: ranges that would run in two places get copies, reductions over equal bounds at the same
 * place share their loops, and ids are renumbered. Fills loops (finished by the caller) for the new sink.
 * Errors: AN_ERR_NOMEM, AN_ERR_LIMIT, AN_ERR_INTERNAL where no nest fits. */
an_status an_loops_place(an_graph *g, an_uop *sink, an_loops *loops);

/* REDUCE -> ACC, ACC_SET and ACC_GET (reduce.c). sets: the ACC_SETs, in order; places: where each ACC lives. */
typedef struct an_acc_place {
    an_uop acc;
    uint32_t home, inner; /* the loop around the reduction, and its innermost loop */
} an_acc_place;
typedef AN_VEC(an_acc_place) an_acc_places;
an_status an_reduce_lower(an_graph *g, an_uop *sink, const an_loops *loops, an_uop_vec *sets, an_acc_places *places);

#endif
