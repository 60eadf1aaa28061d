/* eval_graph.h - an independent oracle for tensor-level graphs: node by node, on host arrays, as the op table says, with no
 * scheduler, no code generation and no device but for reading buffers. */
#ifndef EVAL_GRAPH_H
#define EVAL_GRAPH_H

#include "ir/uop.h"

/* The values of root, row-major, in its dtype: nbytes must be all of them. BUFFERs are read as they are now; an ASSIGN has its
 * value and writes nothing. Shapes must be numbers. Memory is malloc's, not the context's.
 * Errors: AN_ERR_UNSUPPORTED for a node that is no tensor-level op, AN_ERR_ARG for a wrong nbytes, AN_ERR_NOMEM. */
an_status an_test_eval(an_graph *g, an_uop root, void *dst, size_t nbytes);

/* --- many roots of one graph, and how far a right answer may be from the oracle's --------------------------------- */

/* What a node is worth. error (with errors only) is how far each element may be from the oracle's on a device that keeps to
 * docs/SEMANTICS.md: sums in another order, a multiplication inside a sum not rounded, the last bits of exp2, log2, sin and
 * erf, and what follows from these. 0: this very value (two NaN count as one). Infinite: anything may come, as behind a
 * comparison of two numbers that may be equal. */
typedef struct eval_value {
    an_scalar *data;
    double *error;
    double *slack; /* of products: what rounding took from each; NULL for none */
    size_t n;
    uint32_t rank;
    int64_t dims[AN_RANK_MAX];
    bool known;
} eval_value;

typedef struct evaluation {
    an_graph *g;
    bool errors;
    eval_value *values; /* by node id */
    uint32_t len;
} evaluation;

/* The value of u, computed once: until evaluation_fini, buffers count as they were. NULL with a sentence on failure. */
const eval_value *evaluation_of(evaluation *e, an_uop u);
void evaluation_fini(evaluation *e);

/* eval_error.c: fills v->error (and slack) of a node whose values and sources are there. Errors: AN_ERR_NOMEM. */
an_status eval_error(evaluation *e, an_uop u, eval_value *v);
/* eval_graph.c: the position in source 0 of the position idx of u, a movement; -1 where u pads. */
int64_t eval_moved(evaluation *e, an_uop u, const int64_t *idx);
/* Where in the place element i of what an ASSIGN writes goes, or -1: nowhere. */
int64_t eval_written(evaluation *e, an_uop u, size_t i);
/* Steps row-major coordinates by one. */
void eval_step(int64_t *idx, const int64_t *dims, uint32_t rank);

#endif
