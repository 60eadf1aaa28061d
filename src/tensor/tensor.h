/* tensor.h - what a tensor handle is, and what the files of the tensor API share. */
#ifndef AN_TENSOR_TENSOR_H
#define AN_TENSOR_TENSOR_H

#include "ir/uop.h"
#include <anneal/tensor.h>

/* Lives in the graph's arena.
 *   uop  the node it stands for; an_realize, an_assign and plans replace it. A BUFFER (or an ASSIGN) only in the handle of
 *        that place: it then means whatever the place holds now (runtime/runtime.h) */
struct an_tensor {
    an_graph *graph;
    an_uop uop;
};

/* --- handles (handle.c) ------------------------------------------------------------------------------------------ */

/* A handle for node u, built from the n operands; without any, u may be a place. NULL if u is none or an operand NULL. */
an_tensor *an_tensor_wrap(an_graph *g, an_uop u, an_tensor *const *operands, size_t n);
an_tensor *an_tensor_wrap1(an_tensor *x, an_uop u); /* of one operand */
/* A handle of its own for x's values: what a call returns that has nothing to do. Were it x itself, a write into x would be
 * seen through it. */
an_tensor *an_tensor_same(an_tensor *x);
/* Equal nodes of different handles become different nodes, so that each gets a buffer. False when memory is out. */
bool an_tensor_separate(an_tensor *const *tensors, an_uop *uops, size_t n);

/* A tensor in a buffer, as an_tensor_from_host, in a capture as well. */
an_tensor *an_tensor_place(an_graph *g, an_dtype dtype, const int64_t *dims, uint32_t rank, const void *data);

/* The node x stands for at present: of an in-place write that has run, the buffer. */
an_uop an_tensor_node(an_tensor *x);
an_shape an_tensor_shape(const an_tensor *x);

/* --- sentences --------------------------------------------------------------------------------------------------- */

/* Short texts by value: "(2, 3)". Valid in the expression that made them. */
typedef struct an_text {
    char s[200];
} an_text;
an_text an_text_shape(const an_tensor *x);
an_text an_text_dims(const int64_t *dims, uint32_t n);

an_text an_text_uops(an_graph *g, const an_uop *dims, uint32_t n);
an_text an_text_dim(an_graph *g, an_uop u);

/* Records the sentence; NULL. */
an_tensor *an_tensor_fail(an_graph *g, an_status status, const char *fmt, ...) AN_PRINTF(3, 4);

/* --- checks: false, with the sentence recorded. call is the public function's name ------------------------------- */

bool an_check_axis(an_tensor *x, const char *call, int64_t axis, uint32_t *out);
/* The axes as a bit mask; n 0 is all of them. */
bool an_check_axes(an_tensor *x, const char *call, const int64_t *axes, uint32_t n, uint32_t *mask);
bool an_check_graph(const char *call, const an_tensor *a, const an_tensor *b);
/* Dims of a new tensor: not negative, rank in bounds, and the size in bytes fits. */
bool an_check_dims(an_graph *g, const char *call, an_dtype dtype, const int64_t *dims, uint32_t rank);
bool an_check_dtype(an_graph *g, const char *call, an_dtype dtype);  /* one that tensors can have */
bool an_check_float(an_graph *g, const char *call, an_dtype dtype);
/* The same of symbolic dims, at the most they can be; false without a sentence for a dim that is none. */
bool an_check_dims_uop(an_graph *g, const char *call, an_dtype dtype, const an_uop *dims, uint32_t rank);
bool an_check_static(an_tensor *x, const char *call, int64_t dims[AN_RANK_MAX]);
bool an_check_integer(an_tensor *x, const char *call, const char *what);

/* --- symbolic dims (dims.c): what holds for every value of the symbols ---------------------------------------------- */

typedef enum an_truth { AN_NO, AN_MAYBE, AN_YES } an_truth;
an_truth an_dims_le(an_graph *g, an_uop a, an_uop b); /* a <= b; AN_NO when memory is out, as below: the call fails anyway */
an_truth an_dims_equal(an_graph *g, an_uop a, an_uop b);
an_uop an_dims_min(an_graph *g, an_uop a, an_uop b);
an_uop an_dims_max(an_graph *g, an_uop a, an_uop b);
an_uop an_dims_ceil_div(an_graph *g, an_uop a, int64_t by); /* by >= 1 */
int64_t an_dims_most(an_graph *g, an_uop u);               /* the upper bound; INT64_MAX when memory is out, or it has none */

/* --- nodes (broadcast.c) ----------------------------------------------------------------------------------------- */

void an_dims_to_uops(an_graph *g, const int64_t *dims, uint32_t rank, an_uop *out);

/* The common shape of n operands by numpy's rules, into dims; false with a sentence. */
bool an_broadcast_shape(const char *call, an_tensor *const *xs, uint32_t n, an_uop dims[AN_RANK_MAX], uint32_t *rank);
/* u stretched to that shape (which it broadcasts to). A CONST stays a scalar: the IR broadcasts it. */
an_uop an_broadcast_node(an_graph *g, an_uop u, const an_uop *dims, uint32_t rank);
/* The same, a CONST too. */
an_uop an_expand_to(an_graph *g, an_uop u, const an_uop *dims, uint32_t rank);

/* x broadcast to that shape, checked, with a sentence in call's name. */
an_tensor *an_tensor_stretch(an_tensor *x, const char *call, const an_uop *dims, uint32_t rank);

/* op over operands cast to dtype, broadcast together. */
an_tensor *an_tensor_binary(const char *call, an_op op, an_dtype dtype, an_tensor *a, an_tensor *b);
an_tensor *an_tensor_unary(an_op op, an_tensor *x); /* x is a float */

/* --- dtypes ------------------------------------------------------------------------------------------------------ */

static inline bool an_is_float(an_dtype d)
{
    return an_dtype_kind_of(d) == AN_KIND_FLOAT;
}
static inline bool an_is_integer(an_dtype d)
{
    return an_dtype_kind_of(d) == AN_KIND_INT || an_dtype_kind_of(d) == AN_KIND_UINT;
}
/* What sums and products of d are taken in: f32 for narrower floats, else d. */
an_dtype an_dtype_accumulate(an_dtype d);
/* x as it is if a float, else as f32. */
an_tensor *an_to_float(an_tensor *x);
/* f(x) computed in f32 where x is narrower, and rounded once at the end: for formulas of several steps. */
an_tensor *an_in_wide(an_tensor *(*f)(an_tensor *x), an_tensor *x);
/* The rank-0 constant of x's dtype: value must fit it. */
an_tensor *an_const_of(an_tensor *x, double value);
/* The weak scalar s beside x: *out is the constant; returns x, cast if s makes it. */
an_tensor *an_weak_scalar(const char *call, an_tensor *x, double s, an_tensor **out);
/* Can dtype hold value exactly (integers) or at all (floats)? */
bool an_dtype_holds(an_dtype dtype, double value);
/* The least value of a dtype, -inf for floats: what padding of a max is. Greatest likewise. */
double an_dtype_least(an_dtype dtype);
double an_dtype_greatest(an_dtype dtype);

/* 0..n-1 as a vector node. */
an_uop an_iota_node(an_graph *g, an_dtype dtype, an_uop n);
/* 0..dims[axis]-1 along axis of a tensor of x's rank: shape (1, .., n, .., 1), so that it broadcasts against x. */
an_tensor *an_iota_along(an_tensor *x, an_dtype dtype, uint32_t axis);

/* --- captured functions (jit.c) ---------------------------------------------------------------------------------- */

/* assign, made on place, is what target and the place stand for from now on; a capture that is on can take it back. False, and
 * nothing has changed, when memory is out. */
bool an_jit_note_assign(an_tensor *target, an_uop place, an_uop assign);

/* --- random (random.c) ------------------------------------------------------------------------------------------- */

/* One Threefry-2x32 block, 20 rounds, as graph on u32 nodes (scalars or of one shape). On the host: base/threefry.h. */
void an_threefry2x32_nodes(an_graph *g, const an_uop key[2], const an_uop counter[2], an_uop out[2]);

#endif
