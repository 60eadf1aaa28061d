/* grad.h - derivatives: reverse mode (gradients) and forward mode (Jacobian times vector) over the graph. The result is
 * ordinary graph, so it fuses with the rest, and can be differentiated again, by either: an_jvp of a gradient is a Hessian
 * times a vector, and so is the gradient of a JVP. */
#ifndef ANNEAL_GRAD_H
#define ANNEAL_GRAD_H

#include <anneal/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The gradients of loss with respect to n tensors: parameters, or anything loss was computed from.
 *   loss   one number (rank 0, or any shape of one element), of a float dtype
 *   wrt    float tensors; one that loss does not depend on gets zeros
 *   grads  n handles, grads[i] of the shape and dtype of wrt[i]; written only on success
 * The same tensor as a constant in two places is one node: an_leaf_of tells them apart. After an_assign a parameter's
 * handle stands for its new value, on which an earlier loss does not depend: differentiate first.
 * So it is with a loss that was realized or read: only its buffer is left.
 * Errors: AN_ERR_SHAPE when loss has more elements than one (sum it, or use an_backward_from), AN_ERR_DTYPE when one is not
 * float, AN_ERR_ARG for a NULL, tensors of two graphs or a realized loss, AN_ERR_UNSUPPORTED, AN_ERR_NOMEM. */
AN_API an_status an_backward(an_tensor *loss, an_tensor *const *wrt, size_t n, an_tensor **grads);

/* The same from y of any shape, weighted by cotangent (its shape; NULL: ones): the gradient of sum(y * cotangent). */
AN_API an_status an_backward_from(an_tensor *y, an_tensor *cotangent, an_tensor *const *wrt, size_t n,
                                  an_tensor **grads);

/* Forward mode: how outputs change when inputs change. With J the Jacobian of outputs by inputs, out = J tangents.
 *   outputs   noutputs float tensors, of any shapes
 *   inputs    ninputs float tensors: parameters, or anything the outputs were computed from. What lies between an input and
 *             what it was computed from plays no part
 *   tangents  ninputs directions, tangents[i] of the shape and dtype of inputs[i]; NULL: zero, which is not computed with
 *   out       noutputs handles, out[i] of the shape and dtype of outputs[i]; zeros for one that no input reaches; written only
 *             on success
 * It costs about what the outputs do, whatever the number of inputs. What stops gradients (an_detach) stops tangents, ties and
 * zeros times infinities are as in reverse mode (docs/SEMANTICS.md). After an_assign and for realized outputs the same holds as
 * for an_backward.
 * Errors: AN_ERR_DTYPE when one is not float or a tangent is not of its input's dtype, AN_ERR_SHAPE when it is not of its shape,
 * AN_ERR_ARG for a NULL output or input, tensors of two graphs or a realized output, AN_ERR_UNSUPPORTED, AN_ERR_NOMEM. */
AN_API an_status an_jvp(an_tensor *const *outputs, size_t noutputs, an_tensor *const *inputs, an_tensor *const *tangents,
                        size_t ninputs, an_tensor **out);

#ifdef __cplusplus
}
#endif
#endif
