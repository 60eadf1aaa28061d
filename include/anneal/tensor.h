/* tensor.h - lazy tensors: building them, and reading their values.
 *
 * A call builds graph and checks shape and dtype at once; nothing is computed until an_realize, a read or a plan asks.
 * What holds for every call here, unless it says otherwise:
 *   ownership     the result belongs to the graph of its operands and goes with it; operands are only read
 *   errors        NULL (or a status), and an_ctx_error has a sentence that names the call, the shapes or dtypes, and
 *                 what to do: AN_ERR_SHAPE, AN_ERR_DTYPE, AN_ERR_ARG (an axis or number out of range, operands of two
 *                 graphs), AN_ERR_LIMIT (a rank above 12), AN_ERR_NOMEM. A NULL operand gives NULL without a new error,
 *                 so a chain of calls needs one check, at its end
 *   axes          count from 0, or from the end when negative: -1 is the last
 *   broadcasting  numpy's: shapes are aligned at their last axes; an axis of 1, or one that is missing, stretches
 *   dtypes        two operands meet in an_dtype_promote of both. A scalar argument is weak: it takes the tensor's dtype,
 *                 but a number with a fraction makes an integer tensor f32, and a whole one makes a bool tensor i32
 *                 (NaN and the infinities count as having a fraction). Maths on integers and bool gives f32
 *   sizes         rank 0 (one element) and axes of size 0 are legal everywhere
 * Lists of dims or axes are a pointer and a count; AN_DIMS(2, 3) writes both in C, AN_ALL is "every axis":
 *     an_tensor *y = an_sum(an_ones(g, AN_F32, AN_DIMS(2, 3)), AN_DIMS(-1), true);      shape (2, 1) */
#ifndef ANNEAL_TENSOR_H
#define ANNEAL_TENSOR_H

#include <anneal/dtype.h>
#include <anneal/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct an_tensor an_tensor;

#define AN_DIMS(...)                                                                                                   \
    (const int64_t[]){__VA_ARGS__}, (uint32_t)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))
#define AN_ALL NULL, 0
#define AN_SCALAR NULL, 0    /* as a list of dims: rank 0 */
#define AN_NONE INT64_MIN    /* in an_slice: this bound is left out */

/* --- what a tensor is -------------------------------------------------------------------------------------------- */

/* NULL gives NULL, AN_UOP_NONE, AN_DTYPE_NONE, 0, 0 and -1. */
AN_API an_graph *an_tensor_graph(const an_tensor *x);
AN_API an_uop an_tensor_uop(const an_tensor *x); /* the node it stands for now, for inspection */
AN_API an_dtype an_tensor_dtype(const an_tensor *x);
AN_API uint32_t an_tensor_rank(const an_tensor *x);
AN_API int64_t an_tensor_dim(const an_tensor *x, int axis); /* -1 if symbolic, or if there is no such axis */
AN_API an_uop an_tensor_dim_uop(const an_tensor *x, int axis); /* a constant or an expression over symbols */
AN_API int64_t an_tensor_numel(const an_tensor *x);            /* -1 if an axis is symbolic */
AN_API size_t an_tensor_nbytes(const an_tensor *x); /* of its values on the host. With symbolic axes: of what its buffer holds, or by
                                                       the values of an_graph_bind; 0 if neither says */

/* --- creation ---------------------------------------------------------------------------------------------------- */

/* A tensor in a buffer of the graph's device, filled from data: numel * an_dtype_nbytes bytes, row-major, copied. data
 * NULL: zeros. Errors: AN_ERR_DEVICE as well. */
AN_API an_tensor *an_tensor_from_host(an_graph *g, an_dtype dtype, const int64_t *dims, uint32_t rank,
                                      const void *data);

/* Constants. They take no memory, so a parameter that is to be written with an_assign starts as an_contiguous of one, or
 * from the host. */
AN_API an_tensor *an_full(an_graph *g, an_dtype dtype, const int64_t *dims, uint32_t rank, double value);
AN_API an_tensor *an_full_i64(an_graph *g, an_dtype dtype, const int64_t *dims, uint32_t rank, int64_t value);
AN_API an_tensor *an_zeros(an_graph *g, an_dtype dtype, const int64_t *dims, uint32_t rank);
AN_API an_tensor *an_ones(an_graph *g, an_dtype dtype, const int64_t *dims, uint32_t rank);
AN_API an_tensor *an_full_like(an_tensor *x, double value); /* shape and dtype of x */
AN_API an_tensor *an_zeros_like(an_tensor *x);
AN_API an_tensor *an_ones_like(an_tensor *x);
AN_API an_tensor *an_scalar_f64(an_graph *g, an_dtype dtype, double value); /* rank 0 */
AN_API an_tensor *an_scalar_i64(an_graph *g, an_dtype dtype, int64_t value);

/* start, start + step, ... before stop; empty if there is none. step is not 0. */
AN_API an_tensor *an_arange(an_graph *g, an_dtype dtype, double start, double stop, double step);
/* n numbers from start to stop, both included; n 1 gives start. dtype is a float. */
AN_API an_tensor *an_linspace(an_graph *g, an_dtype dtype, double start, double stop, int64_t n);
/* (rows, cols): 1 on the k-th diagonal (0 the main one, positive above it), else 0. */
AN_API an_tensor *an_eye(an_graph *g, an_dtype dtype, int64_t rows, int64_t cols, int64_t k);
/* The lower or upper triangle of the last two axes, the k-th diagonal included; 0 elsewhere. */
AN_API an_tensor *an_tril(an_tensor *x, int64_t k);
AN_API an_tensor *an_triu(an_tensor *x, int64_t k);

/* A symbolic dimension, min <= value <= max; the same name is the same symbol. A graph with symbolic shapes is compiled once for
 * all values; an_graph_bind gives them, or an_plan_bind for one plan. Values fit 32 bits, as some devices count so.
 * Errors: AN_UOP_NONE with AN_ERR_ARG if min < 0, max < min or max > 2^31 - 1, the name has other bounds already, or begins with #. */
AN_API an_uop an_symbol(an_graph *g, const char *name, int64_t min, int64_t max);
/* The value of a symbol for what is computed, read, written and run in the graph from now on, but by plans that an_plan_bind gave
 * another. Errors: AN_ERR_ARG for an unknown name or a value outside its bounds. */
AN_API an_status an_graph_bind(an_graph *g, const char *name, int64_t value);
/* A node as a dimension: an integer constant. an_dim_add and its like (graph.h) calculate with them. */
AN_API an_uop an_dim(an_graph *g, int64_t value);

/* With symbolic dims. an_tensor_alloc_uop: a buffer with room for the largest, zeros at first: an input of symbolic shape, for
 * an_tensor_write. It is packed: what is written has the size at the symbols' values, and a run at other values is AN_ERR_ARG until it is
 * written again. */
AN_API an_tensor *an_tensor_alloc_uop(an_graph *g, an_dtype dtype, const an_uop *dims, uint32_t rank);
/* The same, filled: data has the size at the values of an_graph_bind. Errors: AN_ERR_ARG for a symbol that has none. */
AN_API an_tensor *an_tensor_from_host_uop(an_graph *g, an_dtype dtype, const an_uop *dims, uint32_t rank, const void *data);
AN_API an_tensor *an_full_uop(an_graph *g, an_dtype dtype, const an_uop *dims, uint32_t rank, double value);
AN_API an_tensor *an_arange_uop(an_graph *g, an_dtype dtype, an_uop n); /* 0..n-1 */

/* --- values, in place and out ------------------------------------------------------------------------------------ */

/* Computes the tensors, in one schedule; each handle then refers to its buffer. All belong to one graph.
 * Errors: AN_ERR_ARG for a NULL among them, or a symbol that has no value (an_graph_bind); AN_ERR_STALE if one would read a buffer
 * overwritten since it was built; AN_ERR_SHAPE where shapes do not fit at the symbols' values; AN_ERR_NOMEM, AN_ERR_DEVICE. */
AN_API an_status an_realize(an_tensor *const *tensors, size_t n);

/* Writes value into the buffer of target when it is next realized: target keeps its shape and dtype, and from now on
 * stands for its new contents. value broadcasts to target's shape and is cast to its dtype if that loses no kind (a float
 * is not written into integers). Tensors built from target before keep meaning the old contents: once the write has run, to
 * compute them is AN_ERR_STALE.
 * target may be a view: a buffer sliced (with a step too, or from a symbolic begin by an_shrink_uop), reshaped, permuted,
 * flipped. Then only the elements it shows are written; what it shows as padding is written nowhere. The tensor that owns the
 * buffer stands for the new contents too: realize that one, or what is computed from it.
 *     an_assign(an_slice(cache, 0, 3, 4, 1), row);      an_realize(&cache, 1);
 * Errors: AN_ERR_ARG if target has no buffer (realize it, or an_contiguous, first), or is a broadcast one. */
AN_API an_status an_assign(an_tensor *target, an_tensor *value);

/* Copies all values to the host, row-major, realizing x first if need be; nbytes must be an_tensor_nbytes(x). */
AN_API an_status an_tensor_read(an_tensor *x, void *dst, size_t nbytes);
/* Replaces the contents of x's buffer: the way to give a plan its next input. x must be realized. */
AN_API an_status an_tensor_write(an_tensor *x, const void *src, size_t nbytes);
/* The value of a tensor with one element, of any rank. *out stays on failure. */
AN_API an_status an_item_f64(an_tensor *x, double *out);
AN_API an_status an_item_i64(an_tensor *x, int64_t *out);

AN_API an_tensor *an_contiguous(an_tensor *x); /* the same values in a buffer of their own, once realized */
AN_API an_tensor *an_detach(an_tensor *x);     /* the same values; no gradient flows through */
/* The same values with an identity of their own: what to differentiate by, when x is shared or a constant. */
AN_API an_tensor *an_leaf_of(an_tensor *x);

/* --- dtype ------------------------------------------------------------------------------------------------------- */

/* To a float rounds to nearest even; float to int truncates and saturates, NaN gives 0; to bool is value != 0. */
AN_API an_tensor *an_cast(an_tensor *x, an_dtype dtype);
AN_API an_tensor *an_bitcast(an_tensor *x, an_dtype dtype); /* the same bits; equal element size, neither is bool */

/* --- movement: no data is copied --------------------------------------------------------------------------------- */

AN_API an_tensor *an_reshape(an_tensor *x, const int64_t *dims, uint32_t rank); /* one dim may be -1: inferred */
AN_API an_tensor *an_flatten(an_tensor *x, int first, int last);                /* axes first..last become one */
AN_API an_tensor *an_permute(an_tensor *x, const int64_t *axes, uint32_t rank); /* axis i of the result is axes[i] of x */
AN_API an_tensor *an_transpose(an_tensor *x, int a, int b);                     /* swaps two axes */
AN_API an_tensor *an_broadcast_to(an_tensor *x, const int64_t *dims, uint32_t rank);
AN_API an_tensor *an_expand(an_tensor *x, const int64_t *dims, uint32_t rank); /* as broadcast_to; -1 keeps x's dim */
AN_API an_tensor *an_broadcast_like(an_tensor *x, an_tensor *y);               /* to the shape of y */
AN_API an_tensor *an_squeeze(an_tensor *x, int axis);   /* the axis must be 1 */
AN_API an_tensor *an_squeeze_all(an_tensor *x);         /* drops every axis that is 1; symbolic ones stay */
AN_API an_tensor *an_unsqueeze(an_tensor *x, int axis); /* new axis of 1, in front of axis; -1: at the end */
/* n (the rank) sizes >= 0 of new elements around each axis. value as a weak scalar that must fit x's dtype. */
AN_API an_tensor *an_pad(an_tensor *x, const int64_t *before, const int64_t *after, uint32_t n, double value);
AN_API an_tensor *an_flip(an_tensor *x, const int64_t *axes, uint32_t naxes);
/* Python's x[begin:end:step] along an axis: negative bounds count from the end, bounds beyond it are clipped, AN_NONE
 * leaves one out; step is not 0 and may be negative. */
AN_API an_tensor *an_slice(an_tensor *x, int axis, int64_t begin, int64_t end, int64_t step);
AN_API an_tensor *an_shrink(an_tensor *x, const int64_t *begin, const int64_t *end, uint32_t n); /* all axes, exact */
AN_API an_tensor *an_pick(an_tensor *x, int axis, int64_t index); /* x[..., index, ...]: the axis goes */
AN_API an_tensor *an_cat(an_tensor *const *xs, size_t n, int axis);   /* n >= 1; other axes equal; dtypes promote */
AN_API an_tensor *an_stack(an_tensor *const *xs, size_t n, int axis); /* along a new axis; equal shapes */
/* Parts of the given sizes, which add up to the axis. out has n places, written only on success. */
AN_API an_status an_split(an_tensor *x, const int64_t *sizes, uint32_t n, int axis, an_tensor **out);
/* n parts of ceil(dim / n), the last ones smaller or empty. */
AN_API an_status an_chunk(an_tensor *x, uint32_t n, int axis, an_tensor **out);
AN_API an_tensor *an_repeat(an_tensor *x, const int64_t *times, uint32_t n); /* numpy's tile: n >= rank */
AN_API an_tensor *an_repeat_interleave(an_tensor *x, int64_t times, int axis); /* numpy's repeat */
AN_API an_tensor *an_roll(an_tensor *x, int64_t shift, int axis);
/* The diagonal of the last two axes, which are equal. */
AN_API an_tensor *an_diagonal(an_tensor *x);
/* With symbolic dims: an_dim, an_symbol, and sums and products of them (an_dim_add and its like). What can never fit is AN_ERR_SHAPE
 * or AN_ERR_ARG at once; what depends on the symbols' values is checked when they are known, before anything runs. An axis that is
 * symbolic never stretches, even if its value is 1. */
AN_API an_tensor *an_reshape_uop(an_tensor *x, const an_uop *dims, uint32_t rank);
AN_API an_tensor *an_broadcast_to_uop(an_tensor *x, const an_uop *dims, uint32_t rank);
AN_API an_tensor *an_shrink_uop(an_tensor *x, const an_uop *begin, const an_uop *end, uint32_t n);
AN_API an_tensor *an_pad_uop(an_tensor *x, const an_uop *before, const an_uop *after, uint32_t n, double value);

/* --- elementwise: arithmetic ------------------------------------------------------------------------------------- */

AN_API an_tensor *an_add(an_tensor *a, an_tensor *b); /* bool: or */
AN_API an_tensor *an_sub(an_tensor *a, an_tensor *b); /* not for two bools: use an_ne */
AN_API an_tensor *an_mul(an_tensor *a, an_tensor *b); /* bool: and */
AN_API an_tensor *an_div(an_tensor *a, an_tensor *b); /* true division: integers give f32 */
/* Python's // and %: towards -inf, the remainder has the sign of b. Integers by 0 give 0 for both; floats follow numpy,
 * with an error of one b where the quotient has more digits than the dtype. */
AN_API an_tensor *an_floor_div(an_tensor *a, an_tensor *b);
AN_API an_tensor *an_mod(an_tensor *a, an_tensor *b);
/* C's: towards zero, the remainder has the sign of a. */
AN_API an_tensor *an_trunc_div(an_tensor *a, an_tensor *b);
AN_API an_tensor *an_fmod(an_tensor *a, an_tensor *b);
/* Integers are exact (wrapping); a negative exponent gives 0 but for base 1 and -1. Floats: exp2(b * log2(|a|)) with
 * the sign and special values of C's pow; relative error about |b * log2(|a|)| * 2^-24 in f32. The gradient by a is 0
 * at a = 0; an_pow_scalar has the right one. */
AN_API an_tensor *an_pow(an_tensor *a, an_tensor *b);
AN_API an_tensor *an_maximum(an_tensor *a, an_tensor *b); /* NaN wins; a tie shares the gradient evenly */
AN_API an_tensor *an_minimum(an_tensor *a, an_tensor *b);
AN_API an_tensor *an_neg(an_tensor *x); /* not for bool: use an_logical_not */
AN_API an_tensor *an_abs(an_tensor *x);
AN_API an_tensor *an_sign(an_tensor *x);
AN_API an_tensor *an_square(an_tensor *x);
AN_API an_tensor *an_clamp(an_tensor *x, double min, double max); /* either may be infinite: no bound; NaN stays */

AN_API an_tensor *an_add_scalar(an_tensor *x, double s);
AN_API an_tensor *an_sub_scalar(an_tensor *x, double s);
AN_API an_tensor *an_rsub_scalar(an_tensor *x, double s); /* s - x */
AN_API an_tensor *an_mul_scalar(an_tensor *x, double s);
AN_API an_tensor *an_div_scalar(an_tensor *x, double s);
AN_API an_tensor *an_rdiv_scalar(an_tensor *x, double s); /* s / x */
AN_API an_tensor *an_floor_div_scalar(an_tensor *x, double s);
AN_API an_tensor *an_mod_scalar(an_tensor *x, double s);
AN_API an_tensor *an_maximum_scalar(an_tensor *x, double s);
AN_API an_tensor *an_minimum_scalar(an_tensor *x, double s);
/* Whole exponents up to 64 in size by repeated multiplication (at 0 too), 0.5 and -0.5 by square root. */
AN_API an_tensor *an_pow_scalar(an_tensor *x, double s);
AN_API an_tensor *an_rpow_scalar(an_tensor *x, double s); /* s to the power of x, s > 0 */

/* --- elementwise: comparison, logic, bits ------------------------------------------------------------------------ */

/* Give bool. With NaN all but an_ne are false. */
AN_API an_tensor *an_eq(an_tensor *a, an_tensor *b);
AN_API an_tensor *an_ne(an_tensor *a, an_tensor *b);
AN_API an_tensor *an_lt(an_tensor *a, an_tensor *b);
AN_API an_tensor *an_le(an_tensor *a, an_tensor *b);
AN_API an_tensor *an_gt(an_tensor *a, an_tensor *b);
AN_API an_tensor *an_ge(an_tensor *a, an_tensor *b);
AN_API an_tensor *an_eq_scalar(an_tensor *x, double s);
AN_API an_tensor *an_ne_scalar(an_tensor *x, double s);
AN_API an_tensor *an_lt_scalar(an_tensor *x, double s);
AN_API an_tensor *an_le_scalar(an_tensor *x, double s);
AN_API an_tensor *an_gt_scalar(an_tensor *x, double s);
AN_API an_tensor *an_ge_scalar(an_tensor *x, double s);

/* Operands of any dtype count as value != 0; the result is bool. */
AN_API an_tensor *an_logical_and(an_tensor *a, an_tensor *b);
AN_API an_tensor *an_logical_or(an_tensor *a, an_tensor *b);
AN_API an_tensor *an_logical_xor(an_tensor *a, an_tensor *b);
AN_API an_tensor *an_logical_not(an_tensor *x);
AN_API an_tensor *an_isnan(an_tensor *x);
AN_API an_tensor *an_isinf(an_tensor *x);
AN_API an_tensor *an_isfinite(an_tensor *x);

/* Integers and bool. A shift by a count outside 0..bits-1 gives 0, or -1 for a negative number shifted right. */
AN_API an_tensor *an_bit_and(an_tensor *a, an_tensor *b);
AN_API an_tensor *an_bit_or(an_tensor *a, an_tensor *b);
AN_API an_tensor *an_bit_xor(an_tensor *a, an_tensor *b);
AN_API an_tensor *an_bit_not(an_tensor *x);
AN_API an_tensor *an_shl(an_tensor *a, an_tensor *b);
AN_API an_tensor *an_shr(an_tensor *a, an_tensor *b); /* keeps the sign of signed integers */

/* cond ? a : b, all three broadcast. cond of any dtype counts as value != 0. */
AN_API an_tensor *an_where(an_tensor *cond, an_tensor *a, an_tensor *b);
AN_API an_tensor *an_masked_fill(an_tensor *x, an_tensor *mask, double value); /* value where mask is true */

/* --- elementwise: maths ------------------------------------------------------------------------------------------ */

/* f32 errors beside the last bit or two: exp and all made of it |x| * 2^-24 relative; cos 2^-23 absolute. */
AN_API an_tensor *an_exp(an_tensor *x);
AN_API an_tensor *an_exp2(an_tensor *x);
AN_API an_tensor *an_expm1(an_tensor *x); /* exact near 0 */
AN_API an_tensor *an_log(an_tensor *x);
AN_API an_tensor *an_log2(an_tensor *x);
AN_API an_tensor *an_log10(an_tensor *x);
AN_API an_tensor *an_log1p(an_tensor *x); /* exact near 0 */
AN_API an_tensor *an_sqrt(an_tensor *x);
AN_API an_tensor *an_rsqrt(an_tensor *x);
AN_API an_tensor *an_reciprocal(an_tensor *x);
AN_API an_tensor *an_sin(an_tensor *x);
AN_API an_tensor *an_cos(an_tensor *x);
AN_API an_tensor *an_tan(an_tensor *x);
AN_API an_tensor *an_sinh(an_tensor *x);
AN_API an_tensor *an_cosh(an_tensor *x);
AN_API an_tensor *an_tanh(an_tensor *x);
AN_API an_tensor *an_erf(an_tensor *x);
/* Integers stay as they are. round: halves go to the even neighbour. */
AN_API an_tensor *an_floor(an_tensor *x);
AN_API an_tensor *an_ceil(an_tensor *x);
AN_API an_tensor *an_round(an_tensor *x);
AN_API an_tensor *an_trunc(an_tensor *x);

/* Activations. Their gradients are finite wherever the function is, at 0 and far out too. */
AN_API an_tensor *an_relu(an_tensor *x); /* gradient 0 at 0; NaN stays; integers too */
AN_API an_tensor *an_relu6(an_tensor *x);
AN_API an_tensor *an_leaky_relu(an_tensor *x, double slope); /* x > 0 ? x : slope * x */
AN_API an_tensor *an_elu(an_tensor *x, double alpha);        /* x > 0 ? x : alpha * expm1(x) */
AN_API an_tensor *an_selu(an_tensor *x);
AN_API an_tensor *an_sigmoid(an_tensor *x);
AN_API an_tensor *an_log_sigmoid(an_tensor *x);
AN_API an_tensor *an_hard_sigmoid(an_tensor *x); /* clamp(x / 6 + 1/2, 0, 1) */
AN_API an_tensor *an_silu(an_tensor *x);         /* x * sigmoid(x) */
AN_API an_tensor *an_hard_swish(an_tensor *x);   /* x * hard_sigmoid(x) */
AN_API an_tensor *an_gelu(an_tensor *x);         /* x/2 * (1 + erf(x / sqrt 2)) */
AN_API an_tensor *an_gelu_tanh(an_tensor *x);    /* the tanh approximation, GPT-2's */
AN_API an_tensor *an_softplus(an_tensor *x);     /* log(1 + exp(x)), without overflow */
AN_API an_tensor *an_softsign(an_tensor *x);     /* x / (1 + |x|) */
AN_API an_tensor *an_mish(an_tensor *x);         /* x * tanh(softplus(x)) */

/* --- reductions -------------------------------------------------------------------------------------------------- */

/* axes are distinct; AN_ALL reduces all. keepdim leaves the reduced axes as 1. f16 and bf16 accumulate in f32. Over no
 * elements: sum 0, prod 1, any false, all true, mean NaN; the others are AN_ERR_SHAPE.
 * sum and prod of bool, i8, i16 give i32, of u8 and u16 u32 (one step up, so that no device needs 64-bit integers). */
AN_API an_tensor *an_sum(an_tensor *x, const int64_t *axes, uint32_t naxes, bool keepdim);
AN_API an_tensor *an_prod(an_tensor *x, const int64_t *axes, uint32_t naxes, bool keepdim);
AN_API an_tensor *an_max(an_tensor *x, const int64_t *axes, uint32_t naxes, bool keepdim); /* NaN wins; a tie shares the
                                                                                              gradient evenly */
AN_API an_tensor *an_min(an_tensor *x, const int64_t *axes, uint32_t naxes, bool keepdim);
AN_API an_tensor *an_mean(an_tensor *x, const int64_t *axes, uint32_t naxes, bool keepdim); /* integers give f32 */
/* Sum of squared distances from the mean over (count - correction): 1 for PyTorch's default, 0 for numpy's. */
AN_API an_tensor *an_var(an_tensor *x, const int64_t *axes, uint32_t naxes, int64_t correction, bool keepdim);
AN_API an_tensor *an_std(an_tensor *x, const int64_t *axes, uint32_t naxes, int64_t correction, bool keepdim);
AN_API an_tensor *an_any(an_tensor *x, const int64_t *axes, uint32_t naxes, bool keepdim);
AN_API an_tensor *an_all(an_tensor *x, const int64_t *axes, uint32_t naxes, bool keepdim);
AN_API an_tensor *an_logsumexp(an_tensor *x, const int64_t *axes, uint32_t naxes, bool keepdim);
/* The 2-norm, sqrt(sum(x^2)). */
AN_API an_tensor *an_norm(an_tensor *x, const int64_t *axes, uint32_t naxes, bool keepdim);
/* i32 index of the first greatest (least) element along the axis; the first NaN, if there is one. */
AN_API an_tensor *an_argmax(an_tensor *x, int axis, bool keepdim);
AN_API an_tensor *an_argmin(an_tensor *x, int axis, bool keepdim);
/* Running sum along the axis, dtype as an_sum. In blocks of 32 past 64 elements: work and kernels grow like
 * n * 32 and log n. */
AN_API an_tensor *an_cumsum(an_tensor *x, int axis);
AN_API an_tensor *an_softmax(an_tensor *x, int axis); /* floats; integers give f32 */
AN_API an_tensor *an_log_softmax(an_tensor *x, int axis);

/* --- products ---------------------------------------------------------------------------------------------------- */

/* Matrix product of the last two dimensions; leading dimensions broadcast.
 *   a        (..., M, K), or (K,) as a row that is dropped again
 *   b        (..., K, N), or (K,) as a column that is dropped again
 *   returns  (..., M, N), in the promoted dtype; integers wrap in it, f16 and bf16 accumulate in f32
 * Errors: AN_ERR_SHAPE if K differs, the leading dimensions do not broadcast, or an operand has rank 0. */
AN_API an_tensor *an_matmul(an_tensor *a, an_tensor *b);
AN_API an_tensor *an_dot(an_tensor *a, an_tensor *b);   /* of two vectors; rank 0 */
AN_API an_tensor *an_outer(an_tensor *a, an_tensor *b); /* of two vectors; (N, M) */
AN_API an_tensor *an_linear(an_tensor *x, an_tensor *weight, an_tensor *bias); /* x @ weight^T + bias, PyTorch's layout:
                                           x (..., in), weight (out, in), bias (out,) or NULL */

/* --- convolution and pooling ------------------------------------------------------------------------------------- */

/* All zero is the default; arrays go by spatial axis, outermost first. */
typedef struct an_conv_desc {
    int64_t stride[3];     /* 0: 1 */
    int64_t dilation[3];   /* 0: 1 */
    int64_t pad_before[3]; /* zeros in front of each axis */
    int64_t pad_after[3];  /* and behind it */
    int64_t groups;        /* 0: 1 */
} an_conv_desc;

/* Cross-correlation, as every framework's convolution.
 *   x        (N, C, in...)               1, 2 or 3 spatial axes
 *   weight   (F, C / groups, kernel...)
 *   bias     (F,), or NULL
 *   desc     NULL for the default
 *   returns  (N, F, out...)  out = (in + pads - dilation * (kernel - 1) - 1) / stride + 1
 * It is windows made by movement, a product and a sum: no buffer holds the windows. Errors: AN_ERR_SHAPE if ranks or
 * channels do not fit, or the kernel is larger than the padded input; AN_ERR_ARG for a bad desc. */
AN_API an_tensor *an_conv1d(an_tensor *x, an_tensor *weight, an_tensor *bias, const an_conv_desc *desc);
AN_API an_tensor *an_conv2d(an_tensor *x, an_tensor *weight, an_tensor *bias, const an_conv_desc *desc);
AN_API an_tensor *an_conv3d(an_tensor *x, an_tensor *weight, an_tensor *bias, const an_conv_desc *desc);

typedef struct an_pool_desc {
    int64_t kernel[3];
    int64_t stride[3];   /* 0: the kernel */
    int64_t dilation[3]; /* 0: 1 */
    int64_t pad_before[3], pad_after[3]; /* at most half the kernel, so that each window meets the input */
    bool exclude_pad; /* averages: divide by the number of elements that are not padding */
} an_pool_desc;

/* Over the last 1, 2 or 3 axes of x. Outputs are counted as in a convolution (no ceil mode). Padding never wins a max. */
AN_API an_tensor *an_max_pool1d(an_tensor *x, const an_pool_desc *desc);
AN_API an_tensor *an_max_pool2d(an_tensor *x, const an_pool_desc *desc);
AN_API an_tensor *an_max_pool3d(an_tensor *x, const an_pool_desc *desc);
AN_API an_tensor *an_avg_pool1d(an_tensor *x, const an_pool_desc *desc); /* floats; integers give f32 */
AN_API an_tensor *an_avg_pool2d(an_tensor *x, const an_pool_desc *desc);
AN_API an_tensor *an_avg_pool3d(an_tensor *x, const an_pool_desc *desc);

/* Windows of the last n axes: (..., out_0.., kernel_0..). stride and dilation may be NULL: 1. */
AN_API an_tensor *an_windows(an_tensor *x, uint32_t n, const int64_t *kernel, const int64_t *stride,
                             const int64_t *dilation);

/* --- by index ---------------------------------------------------------------------------------------------------- */

/* Indices are integers, 0..n-1. One outside reads 0, or writes nowhere: it cannot be known before the values are. */

/* As PyTorch's gather: result[i][j] = x[index[i][j]][j] for axis 0. Ranks equal; other axes of index at most x's. */
AN_API an_tensor *an_gather(an_tensor *x, int axis, an_tensor *index);
/* As numpy's take: the axis is replaced by the axes of index. index of rank 1 is PyTorch's index_select. */
AN_API an_tensor *an_take(an_tensor *x, an_tensor *index, int axis);
AN_API an_tensor *an_index_select(an_tensor *x, int axis, an_tensor *index);
/* As PyTorch's: result = x, then result[index[i][j]][j] += src[i][j] for axis 0. Equal shapes of index and src. */
AN_API an_tensor *an_scatter_add(an_tensor *x, int axis, an_tensor *index, an_tensor *src);
/* index.shape + (n,): 1 where the last axis equals the index, else 0. */
AN_API an_tensor *an_one_hot(an_tensor *index, int64_t n, an_dtype dtype);
/* Rows of table (n, dim): index.shape + (dim,). */
AN_API an_tensor *an_embedding(an_tensor *table, an_tensor *index);

/* --- normalisation and losses ------------------------------------------------------------------------------------ */

/* Over the last naxes axes; weight and bias have their shape, or are NULL. */
AN_API an_tensor *an_layer_norm(an_tensor *x, uint32_t naxes, an_tensor *weight, an_tensor *bias, double eps);
AN_API an_tensor *an_rms_norm(an_tensor *x, uint32_t naxes, an_tensor *weight, double eps);

typedef enum an_reduction { AN_REDUCE_MEAN, AN_REDUCE_SUM, AN_REDUCE_NONE } an_reduction;

typedef struct an_cross_entropy_desc {
    an_reduction reduction;
    bool has_ignore_index; /* targets equal to ignore_index count for nothing, nor in the mean */
    int64_t ignore_index;
    double label_smoothing; /* 0..1: this much of the target is spread evenly over the classes */
} an_cross_entropy_desc;

/* -log softmax of the target class, computed stably. desc NULL for the default.
 *   logits   (C,), or (N, C, ...)
 *   target   the shape of logits without C; integers, 0..C-1
 *   returns  rank 0, or target's shape for AN_REDUCE_NONE */
AN_API an_tensor *an_cross_entropy(an_tensor *logits, an_tensor *target, const an_cross_entropy_desc *desc);
/* The same on log-probabilities (label_smoothing too). */
AN_API an_tensor *an_nll_loss(an_tensor *logp, an_tensor *target, const an_cross_entropy_desc *desc);
AN_API an_tensor *an_mse_loss(an_tensor *x, an_tensor *target, an_reduction reduction); /* shapes broadcast */
AN_API an_tensor *an_l1_loss(an_tensor *x, an_tensor *target, an_reduction reduction);
AN_API an_tensor *an_huber_loss(an_tensor *x, an_tensor *target, double delta, an_reduction reduction);
AN_API an_tensor *an_bce_with_logits(an_tensor *x, an_tensor *target, an_reduction reduction);

/* --- random numbers ---------------------------------------------------------------------------------------------- */

/* A stream of random tensors from a seed: Threefry-2x32 with 20 rounds (Salmon et al., 2011). Draw number j has the key
 * threefry(seed, j), and a counter on the device that is advanced whenever the draw is computed: a plan that is run again
 * draws fresh numbers, and the same program with the same seed draws the same ones on every device. A draw that was
 * computed is not drawn again by what else uses it. */
typedef struct an_rng an_rng;

/* Belongs to the graph; there is nothing to destroy. */
AN_API an_rng *an_rng_from_seed(an_graph *g, uint64_t seed);
/* The draws made so far, and the state of each, u32 (3): key and count. Saved and written back, a stream goes on where it was. */
AN_API uint32_t an_rng_count(const an_rng *rng);
AN_API an_tensor *an_rng_state(const an_rng *rng, uint32_t i);

/* low <= x < high; a float dtype. f32 has 24 random bits, f64 53, f16 11, bf16 8. */
AN_API an_tensor *an_uniform(an_rng *rng, an_dtype dtype, const int64_t *dims, uint32_t rank, double low, double high);
/* Box-Muller, one block a number. f32 reaches 5.8 standard deviations, f64 8.6. */
AN_API an_tensor *an_normal(an_rng *rng, an_dtype dtype, const int64_t *dims, uint32_t rank, double mean, double std);
/* low <= x < high; an integer dtype that holds both; high - low at most 2^32. Uneven by at most (high - low) / 2^32. */
AN_API an_tensor *an_randint(an_rng *rng, an_dtype dtype, const int64_t *dims, uint32_t rank, int64_t low, int64_t high);
/* true with probability p. */
AN_API an_tensor *an_bernoulli(an_rng *rng, const int64_t *dims, uint32_t rank, double p);
/* 0..n-1 in random order; i32. Each number's rank among n random keys: n^2 comparisons, in one kernel. */
AN_API an_tensor *an_permutation(an_rng *rng, int64_t n);
/* Zeroes each element with probability p and scales the rest by 1 / (1 - p). 0 <= p < 1. */
AN_API an_tensor *an_dropout(an_rng *rng, an_tensor *x, double p);

#ifdef __cplusplus
}
#endif
#endif
