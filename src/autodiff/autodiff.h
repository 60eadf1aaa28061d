/* autodiff.h - reverse and forward mode as passes over the graph. The rules are grad.upat and jvp.upat; what comes out is
 * ordinary graph, so it can be differentiated again, by either. */
#ifndef AN_AUTODIFF_AUTODIFF_H
#define AN_AUTODIFF_AUTODIFF_H

#include "ir/uop.h"

/* The gradients of loss with respect to nodes: buffers, leaves, or anything on the way.
 *   loss       a float node of any shape
 *   cotangent  what multiplies it, of its dtype and shape (or a scalar); AN_UOP_NONE: ones
 *   wrt        n float nodes; one that loss does not depend on gets zeros
 *   out        n nodes, out[i] of the dtype and shape of wrt[i]; written only on success
 * Nodes made here have phase AN_PHASE_BACKWARD and the rule that made them. The same graph gives the same gradient nodes,
 * in whatever order it was built: contributions to a node are added in reverse topological order from loss.
 * Errors: AN_ERR_DTYPE when loss or a wrt is not float, AN_ERR_UNSUPPORTED naming an op without a rule, AN_ERR_NOMEM. A
 * poisoned argument gives AN_ERR_ARG. */
an_status an_backward_uops(an_graph *g, an_uop loss, an_uop cotangent, const an_uop *wrt, size_t n, an_uop *out);

/* What an_jvp_uops is asked for: lists by node. Of the dtype and shape of its input, a tangent may also be a scalar, or
 * AN_UOP_NONE for zero. An input listed twice has the sum of both. */
typedef struct an_jvp_request {
    const an_uop *outputs;
    size_t noutputs;
    const an_uop *inputs, *tangents;
    size_t ninputs;
} an_jvp_request;

/* The tangents of the outputs: how they change when the inputs (buffers, leaves, or anything on the way) change as the
 * tangents say, other things fixed. out[i] has the dtype and shape of outputs[i], zeros where no input reaches it; written only
 * on success. Nodes made here have phase AN_PHASE_TANGENT and the rule that made them.
 * Errors: AN_ERR_DTYPE when an output or input is not float, AN_ERR_UNSUPPORTED naming an op without a rule, AN_ERR_NOMEM; a
 * poisoned output or input gives AN_ERR_ARG. */
an_status an_jvp_uops(an_graph *g, const an_jvp_request *r, an_uop *out);

/* Why no gradient and no tangent flows through op (nondiff.def), or NULL where rules say how they do. */
const char *an_nondiff_reason(an_op op);

#endif
