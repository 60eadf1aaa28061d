/* eval_graph.h - an independent oracle for tensor-level graphs: node by node, on host arrays, as the op table says, with no
 * scheduler, no code generation and no device but for reading buffers. */
#ifndef EVAL_GRAPH_H
#define EVAL_GRAPH_H

#include "ir/uop.h"

/* The values of root, row-major, in its dtype: nbytes must be all of them. BUFFERs are read as they are now; an ASSIGN has its
 * value and writes nothing. Shapes must be numbers. Memory is malloc's, not the context's.
 * Errors: AN_ERR_UNSUPPORTED for a node that is no tensor-level op, AN_ERR_ARG for a wrong nbytes, AN_ERR_NOMEM. */
an_status an_test_eval(an_graph *g, an_uop root, void *dst, size_t nbytes);

#endif
