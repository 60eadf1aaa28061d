/* test_tensor_errors.c - a user's mistake is a sentence: for every check of the tensor API, the status and what the
 * sentence says. Nothing is computed here, so no device matters. */
#include "an_test.h"

#include "tensor/tensor.h"
#include <anneal/device.h>

#include <math.h>

#define L(...) ((const int64_t[]){__VA_ARGS__})

/* The call gives NULL, this status, and a sentence with part in it; the error is then cleared. */
#define REFUSES(t, call, status, part)                                                                                 \
    do {                                                                                                               \
        CHECK(t, !(call));                                                                                             \
        CHECK_FAILS(t, an_ctx_status((t)->ctx), status, part);                                                         \
    } while (0)

static an_graph *graph(an_test *t)
{
    an_graph *g = an_test_graph(t);
    CHECK_OK(t, an_graph_set_device(g, "interp"));
    return g;
}

static an_tensor *f32(an_graph *g, const int64_t *dims, uint32_t rank)
{
    return an_tensor_from_host(g, AN_F32, dims, rank, NULL);
}

static an_tensor *i32(an_graph *g, const int64_t *dims, uint32_t rank)
{
    return an_tensor_from_host(g, AN_I32, dims, rank, NULL);
}

static void creation_says_what_is_wrong(an_test *t)
{
    an_graph *g = graph(t);
    const int64_t many[13] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    REFUSES(t, an_zeros(g, AN_F32, AN_DIMS(2, -3)), AN_ERR_SHAPE, "an_zeros: dim -3 in shape (2, -3): sizes are 0 or more");
    REFUSES(t, an_zeros(g, AN_F32, many, 13), AN_ERR_LIMIT, "an_zeros: a shape of 13 axes: at most 12 are supported");
    REFUSES(t, an_zeros(g, AN_F32, AN_DIMS(INT64_C(1) << 40, INT64_C(1) << 40)), AN_ERR_LIMIT, "takes more bytes than can be");
    REFUSES(t, an_zeros(g, AN_F32, AN_DIMS(0, INT64_C(1) << 40, INT64_C(1) << 40)), AN_ERR_LIMIT, "takes more bytes");
    REFUSES(t, an_ones(g, AN_INDEX, AN_DIMS(1)), AN_ERR_DTYPE, "an_ones: index is no dtype of a tensor");
    REFUSES(t, an_ones(g, AN_DTYPE_NONE, AN_DIMS(1)), AN_ERR_DTYPE, "is no dtype of a tensor");
    REFUSES(t, an_full(g, AN_U8, AN_DIMS(1), 256), AN_ERR_DTYPE, "an_full: 256 is no value of u8");
    REFUSES(t, an_full(g, AN_I32, AN_DIMS(1), 0.5), AN_ERR_DTYPE, "an_full: 0.5 is no value of i32");
    REFUSES(t, an_full(g, AN_I32, AN_DIMS(1), (double)NAN), AN_ERR_DTYPE, "nan is no value of i32");
    REFUSES(t, an_full(g, AN_I64, AN_DIMS(1), 9223372036854775808.0), AN_ERR_DTYPE, "is no value of i64");
    REFUSES(t, an_full_i64(g, AN_U64, AN_DIMS(1), -1), AN_ERR_DTYPE, "an_full_i64: -1 is no value of u64");
    REFUSES(t, an_full_i64(g, AN_I8, AN_DIMS(1), 128), AN_ERR_DTYPE, "an_full_i64: 128 is no value of i8");
    REFUSES(t, an_scalar_f64(g, AN_BOOL, 2), AN_ERR_DTYPE, "an_scalar_f64: 2 is no value of bool");
    REFUSES(t, an_full_like(i32(g, AN_DIMS(1)), 1.5), AN_ERR_DTYPE, "an_full_like: 1.5 is no value of i32");
    REFUSES(t, an_tensor_from_host(g, AN_F32, AN_DIMS(-1), NULL), AN_ERR_SHAPE, "an_tensor_from_host: dim -1");
    REFUSES(t, an_arange(g, AN_F32, 0, 1, 0), AN_ERR_ARG, "an_arange: from 0 to 1 by 0: they must be finite, and the step not 0");
    REFUSES(t, an_arange(g, AN_F32, 0, (double)INFINITY, 1), AN_ERR_ARG, "they must be finite");
    REFUSES(t, an_arange(g, AN_I32, 0, 1, 0.25), AN_ERR_DTYPE, "an_arange: from 0 to 1 by 0.25 does not fit i32");
    REFUSES(t, an_arange(g, AN_I8, 0, 200, 1), AN_ERR_DTYPE, "does not fit i8");
    REFUSES(t, an_arange(g, AN_BOOL, 0, 2, 1), AN_ERR_DTYPE, "an_arange: dtype bool has no numbers");
    REFUSES(t, an_arange(g, AN_F32, 0, 1e300, 1e-300), AN_ERR_LIMIT, "more bytes");
    REFUSES(t, an_linspace(g, AN_I32, 0, 1, 3), AN_ERR_DTYPE, "an_linspace: dtype i32: it must be a float");
    REFUSES(t, an_linspace(g, AN_F32, 0, 1, -3), AN_ERR_SHAPE, "dim -3");
    REFUSES(t, an_eye(g, AN_F32, -1, 2, 0), AN_ERR_SHAPE, "dim -1");
    REFUSES(t, an_tril(f32(g, AN_DIMS(3)), 0), AN_ERR_SHAPE, "an_tril: shape (3,): a matrix needs two axes");
    REFUSES(t, an_triu(f32(g, AN_SCALAR), 0), AN_ERR_SHAPE, "an_triu: shape (): a matrix needs two axes");
    CHECK(t, an_uop_is_none(an_symbol(g, "n", 5, 4)));
    CHECK_FAILS(t, an_ctx_status(t->ctx), AN_ERR_ARG, "an_symbol: n from 5 to 4");
    CHECK(t, an_uop_is_none(an_symbol(g, "n", -1, 4)));
    CHECK_FAILS(t, an_ctx_status(t->ctx), AN_ERR_ARG, "a dimension is 0 or more");
}

static void movement_says_what_is_wrong(an_test *t)
{
    an_graph *g = graph(t);
    an_tensor *x = f32(g, AN_DIMS(2, 3)), *e = f32(g, AN_DIMS(0, 3)), *parts[4];
    const int64_t many[13] = {2, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    an_tensor *full = an_reshape(x, many, 12);
    REFUSES(t, an_reshape(x, AN_DIMS(4, 2)), AN_ERR_SHAPE,
            "an_reshape: (2, 3) has 6 elements, which do not make shape (4, 2); one dim may be -1, to be inferred");
    REFUSES(t, an_reshape(x, AN_DIMS(4, -1)), AN_ERR_SHAPE, "do not make shape (4, -1)");
    REFUSES(t, an_reshape(x, AN_DIMS(-1, -1)), AN_ERR_SHAPE, "do not make shape (-1, -1)");
    REFUSES(t, an_reshape(x, AN_DIMS(-2, -3)), AN_ERR_SHAPE, "do not make shape (-2, -3)");
    REFUSES(t, an_reshape(e, AN_DIMS(0, -1)), AN_ERR_SHAPE, "do not make shape (0, -1)");
    REFUSES(t, an_reshape(x, many, 13), AN_ERR_LIMIT, "an_reshape: to 13 axes");
    REFUSES(t, an_reshape_uop(x, (an_uop[]){an_dim(g, 5)}, 1), AN_ERR_SHAPE, "an_reshape_uop: (2, 3) has 6 elements, and shape (5,) has 5: they are never equal");
    REFUSES(t, an_flatten(x, 1, 0), AN_ERR_ARG, "an_flatten: axes 1 to 0 of shape (2, 3)");
    REFUSES(t, an_squeeze(x, 1), AN_ERR_SHAPE, "an_squeeze: axis 1 of shape (2, 3) is not 1");
    REFUSES(t, an_squeeze(x, 2), AN_ERR_ARG, "an_squeeze: axis 2 of shape (2, 3): axes go from -2 to 1");
    REFUSES(t, an_squeeze(f32(g, AN_SCALAR), 0), AN_ERR_ARG, "an_squeeze: axis 0 of a tensor of rank 0: it has no axes");
    REFUSES(t, an_unsqueeze(x, 3), AN_ERR_ARG, "an_unsqueeze: axis 3 of shape (2, 3): the new axis goes to -3 to 2");
    REFUSES(t, an_unsqueeze(full, 0), AN_ERR_LIMIT, "has 12 axes, the most that are supported");
    REFUSES(t, an_permute(x, AN_DIMS(0)), AN_ERR_ARG, "an_permute: 1 axes given for shape (2, 3)");
    REFUSES(t, an_permute(x, AN_DIMS(0, -2)), AN_ERR_ARG, "an_permute: axis 0 of shape (2, 3) is given twice in (0, -2)");
    REFUSES(t, an_transpose(x, 0, 5), AN_ERR_ARG, "an_transpose: axis 5");
    REFUSES(t, an_flip(x, AN_DIMS(-3)), AN_ERR_ARG, "an_flip: axis -3");
    REFUSES(t, an_broadcast_to(x, AN_DIMS(4, 3)), AN_ERR_SHAPE, "an_broadcast_to: shape (2, 3) does not broadcast to (4, 3)");
    REFUSES(t, an_broadcast_to(x, AN_DIMS(3)), AN_ERR_SHAPE, "shape (2, 3) does not broadcast to (3,)");
    REFUSES(t, an_broadcast_to(x, AN_DIMS(2, -1)), AN_ERR_SHAPE, "dim -1");
    REFUSES(t, an_broadcast_like(x, f32(g, AN_DIMS(2, 4))), AN_ERR_SHAPE, "an_broadcast_like: shape (2, 3) does not");
    REFUSES(t, an_broadcast_to_uop(x, (an_uop[]){an_dim(g, 5)}, 1), AN_ERR_SHAPE, "an_broadcast_to_uop: shape (2, 3)");
    REFUSES(t, an_expand(x, AN_DIMS(3)), AN_ERR_SHAPE, "an_expand: shape (2, 3) to (3,): that has fewer axes");
    REFUSES(t, an_expand(x, AN_DIMS(-1, 2, 3)), AN_ERR_SHAPE, "an_expand: dim -1");
    REFUSES(t, an_pad(x, L(1), L(1), 1, 0), AN_ERR_ARG, "an_pad: 1 sizes for shape (2, 3): give one for each axis");
    REFUSES(t, an_pad(x, L(1, -1), L(1, 0), 2, 0), AN_ERR_ARG, "an_pad: -1 before and 0 after axis 1");
    REFUSES(t, an_pad(i32(g, AN_DIMS(1)), L(1), L(1), 1, 0.5), AN_ERR_DTYPE, "an_pad: 0.5 is no value of i32");
    REFUSES(t, an_pad(x, L(INT64_MAX, 0), L(0, 0), 2, 0), AN_ERR_LIMIT, "an_pad: axis 0 would have too many elements");
    REFUSES(t, an_slice(x, 0, 0, 1, 0), AN_ERR_ARG, "an_slice: step 0: it must be a number other than 0");
    REFUSES(t, an_slice(x, 4, 0, 1, 1), AN_ERR_ARG, "an_slice: axis 4");
    REFUSES(t, an_shrink(x, L(0, 1), L(2, 4), 2), AN_ERR_ARG, "an_shrink: from (0, 1) to (2, 4) does not lie in shape (2, 3)");
    REFUSES(t, an_shrink(x, L(0), L(2), 1), AN_ERR_ARG, "does not lie in shape (2, 3)");
    REFUSES(t, an_shrink_uop(x, (an_uop[]){an_dim(g, 0)}, (an_uop[]){an_dim(g, 1)}, 1), AN_ERR_ARG, "1 bounds for shape (2, 3)");
    REFUSES(t, an_pick(x, 1, 3), AN_ERR_ARG, "an_pick: index 3 on axis 1 of shape (2, 3): there is no such element");
    REFUSES(t, an_pick(x, 1, -4), AN_ERR_ARG, "an_pick: index -4");
    REFUSES(t, an_pick(e, 0, 0), AN_ERR_ARG, "an_pick: index 0 on axis 0 of shape (0, 3)");
    REFUSES(t, an_cat((an_tensor *[]){x, f32(g, AN_DIMS(3, 3))}, 2, 1), AN_ERR_SHAPE,
            "an_cat: shapes (2, 3) and (3, 3) (number 1) differ in more than axis 1");
    REFUSES(t, an_cat((an_tensor *[]){x}, 1, 2), AN_ERR_ARG, "an_cat: axis 2");
    REFUSES(t, an_stack((an_tensor *[]){x, e}, 2, 0), AN_ERR_SHAPE, "an_stack: shapes (2, 3) and (0, 3) (number 1) differ");
    CHECK_FAILS(t, an_split(x, L(2, 2), 2, 1, parts), AN_ERR_SHAPE, "an_split: sizes (2, 2) do not add up to axis 1 of shape (2, 3)");
    CHECK_FAILS(t, an_split(x, L(4, -1), 2, 1, parts), AN_ERR_SHAPE, "an_split: sizes (4, -1) do not add up");
    CHECK_FAILS(t, an_split(x, L(1), 1, 7, parts), AN_ERR_ARG, "an_split: axis 7");
    CHECK_FAILS(t, an_chunk(x, 0, 1, parts), AN_ERR_ARG, "an_chunk: into 0 parts");
    REFUSES(t, an_repeat(x, L(2), 1), AN_ERR_ARG, "an_repeat: 1 numbers for shape (2, 3)");
    REFUSES(t, an_repeat(x, L(2, -1), 2), AN_ERR_ARG, "an_repeat: -1 times");
    REFUSES(t, an_repeat(x, L(INT64_MAX, 1), 2), AN_ERR_LIMIT, "an_repeat: axis 0 would have too many elements");
    REFUSES(t, an_repeat_interleave(x, -2, 0), AN_ERR_ARG, "an_repeat_interleave: -2 times");
    REFUSES(t, an_roll(x, 1, 2), AN_ERR_ARG, "an_roll: axis 2");
    REFUSES(t, an_diagonal(x), AN_ERR_SHAPE, "an_diagonal: shape (2, 3): the last two axes must be equal");
}

static void elementwise_calls_say_what_is_wrong(an_test *t)
{
    an_graph *g = graph(t), *other = NULL;
    an_tensor *x = f32(g, AN_DIMS(2, 3)), *y = f32(g, AN_DIMS(2, 4)), *i = i32(g, AN_DIMS(3)), *b = an_cast(i, AN_BOOL);
    an_tensor *u = an_cast(i, AN_U8);
    REFUSES(t, an_add(x, y), AN_ERR_SHAPE,
            "an_add: shapes (2, 3) and (2, 4) do not broadcast; counted from the last, each axis must be equal or 1");
    REFUSES(t, an_mul(x, y), AN_ERR_SHAPE, "an_mul: shapes (2, 3) and (2, 4)");
    REFUSES(t, an_sub(x, y), AN_ERR_SHAPE, "an_sub: shapes (2, 3) and (2, 4)");
    REFUSES(t, an_div(x, y), AN_ERR_SHAPE, "an_div: shapes (2, 3) and (2, 4)");
    REFUSES(t, an_floor_div(i, i32(g, AN_DIMS(2))), AN_ERR_SHAPE, "an_floor_div: shapes (3,) and (2,)");
    REFUSES(t, an_mod(i, i32(g, AN_DIMS(2))), AN_ERR_SHAPE, "an_mod: shapes (3,) and (2,)");
    REFUSES(t, an_trunc_div(i, i32(g, AN_DIMS(2))), AN_ERR_SHAPE, "an_trunc_div: shapes");
    REFUSES(t, an_fmod(i, i32(g, AN_DIMS(2))), AN_ERR_SHAPE, "an_fmod: shapes");
    REFUSES(t, an_pow(x, y), AN_ERR_SHAPE, "an_pow: shapes (2, 3) and (2, 4)");
    REFUSES(t, an_maximum(x, y), AN_ERR_SHAPE, "an_maximum: shapes");
    REFUSES(t, an_minimum(x, y), AN_ERR_SHAPE, "an_minimum: shapes");
    REFUSES(t, an_eq(x, y), AN_ERR_SHAPE, "an_eq: shapes");
    REFUSES(t, an_lt(x, y), AN_ERR_SHAPE, "an_lt: shapes");
    REFUSES(t, an_le(x, y), AN_ERR_SHAPE, "an_le: shapes");
    REFUSES(t, an_ge(x, y), AN_ERR_SHAPE, "an_ge: shapes");
    REFUSES(t, an_logical_and(x, y), AN_ERR_SHAPE, "an_logical_and: shapes");
    REFUSES(t, an_where(an_pick(x, 0, 0), x, y), AN_ERR_SHAPE, "an_where: shapes (3,), (2, 3) and (2, 4) do not broadcast");
    REFUSES(t, an_sub(b, b), AN_ERR_DTYPE, "an_sub: of two bools: use an_ne");
    REFUSES(t, an_neg(b), AN_ERR_DTYPE, "an_neg: of a bool: use an_logical_not");
    REFUSES(t, an_relu(b), AN_ERR_DTYPE, "an_relu: of a bool");
    REFUSES(t, an_bit_and(x, i), AN_ERR_DTYPE, "an_bit_and: of f32 and i32: both must be integers or bool");
    REFUSES(t, an_bit_or(x, x), AN_ERR_DTYPE, "an_bit_or: of f32 and f32");
    REFUSES(t, an_bit_xor(x, x), AN_ERR_DTYPE, "an_bit_xor: of f32 and f32");
    REFUSES(t, an_shl(b, b), AN_ERR_DTYPE, "an_shl: of bool and bool: both must be integers");
    REFUSES(t, an_shr(i, x), AN_ERR_DTYPE, "an_shr: of i32 and f32");
    REFUSES(t, an_bit_not(x), AN_ERR_DTYPE, "an_bit_not: the operand has dtype f32: it must be an integer one");
    REFUSES(t, an_add_scalar(u, 300), AN_ERR_DTYPE, "an_add_scalar: 300 does not fit u8; an_cast the tensor to a wider dtype first");
    REFUSES(t, an_lt_scalar(u, -1), AN_ERR_DTYPE, "an_lt_scalar: -1 does not fit u8");
    REFUSES(t, an_masked_fill(i, b, 0.5), AN_ERR_DTYPE, "an_masked_fill: 0.5 is no value of i32");
    REFUSES(t, an_clamp(x, 2, 1), AN_ERR_ARG, "an_clamp: bounds 2 and 1: min must not be above max");
    REFUSES(t, an_clamp(x, (double)NAN, 1), AN_ERR_ARG, "an_clamp: bounds nan and 1");
    REFUSES(t, an_pow_scalar(i, -1), AN_ERR_ARG, "an_pow_scalar: i32 to the power of -1 is no integer");
    REFUSES(t, an_rpow_scalar(x, -2), AN_ERR_ARG, "an_rpow_scalar: base -2: it must be positive");
    REFUSES(t, an_cast(x, AN_INDEX), AN_ERR_DTYPE, "an_cast: index is no dtype of a tensor");
    REFUSES(t, an_bitcast(x, AN_I64), AN_ERR_DTYPE, "an_bitcast: f32 to i64: both need elements of one size");
    REFUSES(t, an_bitcast(u, AN_BOOL), AN_ERR_DTYPE, "an_bitcast: u8 to bool");
    CHECK_OK(t, an_graph_create(t->ctx, &other));
    an_tensor *far = an_ones(other, AN_F32, AN_DIMS(2, 3));
    REFUSES(t, an_add(x, far), AN_ERR_ARG, "an_add: the operands belong to two graphs; build both in one");
    REFUSES(t, an_where(x, x, far), AN_ERR_ARG, "an_where: the operands belong to two graphs");
    an_graph_destroy(other);
}

static void reductions_and_products_say_what_is_wrong(an_test *t)
{
    an_graph *g = graph(t);
    an_tensor *x = f32(g, AN_DIMS(2, 3)), *e = f32(g, AN_DIMS(0, 3)), *s = f32(g, AN_SCALAR);
    REFUSES(t, an_sum(x, AN_DIMS(2), false), AN_ERR_ARG, "an_sum: axis 2 of shape (2, 3): axes go from -2 to 1");
    REFUSES(t, an_prod(x, AN_DIMS(1, -1), false), AN_ERR_ARG, "an_prod: axis 1 of shape (2, 3) is given twice in (1, -1)");
    REFUSES(t, an_sum(s, AN_DIMS(0), false), AN_ERR_ARG, "an_sum: axis 0 of a tensor of rank 0");
    REFUSES(t, an_max(e, AN_DIMS(0), false), AN_ERR_SHAPE, "an_max: over no elements of shape (0, 3): there is none to choose");
    REFUSES(t, an_min(e, AN_ALL, false), AN_ERR_SHAPE, "an_min: over no elements of shape (0, 3)");
    REFUSES(t, an_argmax(e, 0, false), AN_ERR_SHAPE, "an_argmax: over no elements of shape (0, 3)");
    REFUSES(t, an_argmin(x, 2, false), AN_ERR_ARG, "an_argmin: axis 2");
    REFUSES(t, an_logsumexp(e, AN_DIMS(0), false), AN_ERR_SHAPE, "an_logsumexp: over no elements");
    REFUSES(t, an_mean(x, AN_DIMS(5), false), AN_ERR_ARG, "an_mean: axis 5");
    REFUSES(t, an_var(x, AN_DIMS(5), 1, false), AN_ERR_ARG, "an_var: axis 5");
    REFUSES(t, an_std(x, AN_DIMS(5), 1, false), AN_ERR_ARG, "an_std: axis 5");
    REFUSES(t, an_norm(x, AN_DIMS(5), false), AN_ERR_ARG, "an_norm: axis 5");
    REFUSES(t, an_any(x, AN_DIMS(5), false), AN_ERR_ARG, "an_any: axis 5");
    REFUSES(t, an_all(x, AN_DIMS(5), false), AN_ERR_ARG, "an_all: axis 5");
    REFUSES(t, an_cumsum(s, 0), AN_ERR_ARG, "an_cumsum: axis 0 of a tensor of rank 0");
    REFUSES(t, an_softmax(x, 2), AN_ERR_ARG, "an_softmax: axis 2");
    REFUSES(t, an_log_softmax(x, -3), AN_ERR_ARG, "an_log_softmax: axis -3");
    REFUSES(t, an_matmul(x, x), AN_ERR_SHAPE,
            "an_matmul: shapes (2, 3) and (2, 3): the last axis of the first and the last but one of the second must be equal");
    REFUSES(t, an_matmul(x, f32(g, AN_DIMS(2))), AN_ERR_SHAPE, "and the only one of the second must be equal");
    REFUSES(t, an_matmul(s, x), AN_ERR_SHAPE, "an_matmul: shapes () and (2, 3): each needs an axis to sum over");
    REFUSES(t, an_matmul(f32(g, AN_DIMS(2, 4, 3)), f32(g, AN_DIMS(5, 3, 4))), AN_ERR_SHAPE,
            "an_matmul: shapes (2, 4, 3) and (5, 3, 4): the axes before the last two do not broadcast");
    REFUSES(t, an_dot(x, x), AN_ERR_SHAPE, "an_dot: shapes (2, 3) and (2, 3): both must be vectors");
    REFUSES(t, an_outer(x, x), AN_ERR_SHAPE, "an_outer: shapes (2, 3) and (2, 3): both must be vectors");
    REFUSES(t, an_linear(x, x, f32(g, AN_DIMS(3))), AN_ERR_SHAPE, "an_linear: x (2, 3), weight (2, 3), bias (3,): they must be");
    REFUSES(t, an_linear(x, f32(g, AN_DIMS(3, 2)), NULL), AN_ERR_SHAPE, "bias none: they must be (..., in), (out, in) and (out,)");
}

static void convolution_says_what_is_wrong(an_test *t)
{
    an_graph *g = graph(t);
    an_tensor *x = f32(g, AN_DIMS(1, 4, 5, 5)), *w = f32(g, AN_DIMS(6, 4, 3, 3));
    REFUSES(t, an_conv1d(x, w, NULL, NULL), AN_ERR_SHAPE, "an_conv1d: x (1, 4, 5, 5) and weight (6, 4, 3, 3): both need 3 axes");
    REFUSES(t, an_conv2d(x, f32(g, AN_DIMS(6, 3, 3, 3)), NULL, NULL), AN_ERR_SHAPE,
            "an_conv2d: x (1, 4, 5, 5), weight (6, 3, 3, 3), 1 groups: groups must divide both channel counts");
    REFUSES(t, an_conv2d(x, w, NULL, &(an_conv_desc){.groups = 3}), AN_ERR_SHAPE, "3 groups: groups must divide");
    REFUSES(t, an_conv2d(x, w, f32(g, AN_DIMS(5)), NULL), AN_ERR_SHAPE, "an_conv2d: bias (5,): weight (6, 4, 3, 3) needs (6,)");
    REFUSES(t, an_conv2d(x, f32(g, AN_DIMS(6, 4, 6, 3)), NULL, NULL), AN_ERR_SHAPE,
            "a kernel that spans 6 elements does not fit axis 2 of shape (1, 4, 5, 5)");
    REFUSES(t, an_conv2d(x, w, NULL, &(an_conv_desc){.dilation = {1, 3}}), AN_ERR_SHAPE, "spans 7 elements does not fit axis 3");
    REFUSES(t, an_conv2d(x, w, NULL, &(an_conv_desc){.stride = {-1}}), AN_ERR_ARG, "an_conv2d: stride (-1, 0): none may be negative");
    REFUSES(t, an_conv2d(x, w, NULL, &(an_conv_desc){.pad_before = {-1}}), AN_ERR_ARG, "an_conv2d: pad_before (-1, 0)");
    REFUSES(t, an_conv2d(x, w, NULL, &(an_conv_desc){.groups = -1}), AN_ERR_ARG, "an_conv2d: groups (-1,)");
    REFUSES(t, an_conv3d(x, w, NULL, NULL), AN_ERR_SHAPE, "an_conv3d:");
    REFUSES(t, an_max_pool2d(x, NULL), AN_ERR_ARG, "an_max_pool2d: without a desc: its kernel sizes are needed");
    REFUSES(t, an_max_pool2d(x, &(an_pool_desc){.kernel = {2}}), AN_ERR_ARG, "an_max_pool2d: kernel (2, 0): each size must be 1");
    REFUSES(t, an_max_pool2d(x, &(an_pool_desc){.kernel = {2, 2}, .pad_before = {2}}), AN_ERR_ARG,
            "2 and 0 elements of padding for a kernel of 2: at most half the kernel");
    REFUSES(t, an_avg_pool2d(x, &(an_pool_desc){.kernel = {2, 2}, .stride = {-2}}), AN_ERR_ARG, "an_avg_pool2d: stride (-2, 0)");
    REFUSES(t, an_avg_pool3d(f32(g, AN_DIMS(3, 3)), &(an_pool_desc){.kernel = {1, 1, 1}}), AN_ERR_SHAPE, "it needs 3 axes or more");
    REFUSES(t, an_windows(x, 4, L(1, 1, 1, 1), NULL, NULL), AN_ERR_ARG, "an_windows: over 4 axes of shape (1, 4, 5, 5)");
    REFUSES(t, an_windows(x, 1, L(0), NULL, NULL), AN_ERR_ARG, "an_windows: kernel 0, stride 1, dilation 1: each must be 1");
}

static void indexing_and_losses_say_what_is_wrong(an_test *t)
{
    an_graph *g = graph(t);
    an_tensor *x = f32(g, AN_DIMS(2, 3)), *i = i32(g, AN_DIMS(2, 3)), *v = i32(g, AN_DIMS(2)), *fv = f32(g, AN_DIMS(2));
    REFUSES(t, an_gather(x, 0, fv), AN_ERR_DTYPE, "an_gather: index has dtype f32: it must be an integer one");
    REFUSES(t, an_gather(x, 0, v), AN_ERR_SHAPE, "an_gather: x (2, 3), index (2,), axis 0: both need the same number of axes");
    REFUSES(t, an_gather(x, 0, i32(g, AN_DIMS(1, 4))), AN_ERR_SHAPE, "off that axis index must not be larger");
    REFUSES(t, an_take(x, fv, 0), AN_ERR_DTYPE, "an_take: index has dtype f32");
    REFUSES(t, an_take(x, v, 2), AN_ERR_ARG, "an_take: axis 2");
    REFUSES(t, an_index_select(x, 0, i), AN_ERR_SHAPE, "an_index_select: index (2, 3): it must be a vector");
    REFUSES(t, an_embedding(fv, v), AN_ERR_SHAPE, "an_embedding: table (2,): it must be (rows, dim)");
    REFUSES(t, an_scatter_add(x, 0, i, fv), AN_ERR_SHAPE, "an_scatter_add: x (2, 3), index (2, 3), src (2,), axis 0");
    REFUSES(t, an_scatter_add(i, 0, i, x), AN_ERR_DTYPE, "an_scatter_add: src is f32 and x i32");
    REFUSES(t, an_one_hot(fv, 3, AN_F32), AN_ERR_DTYPE, "an_one_hot: index has dtype f32");
    REFUSES(t, an_one_hot(v, -1, AN_F32), AN_ERR_ARG, "an_one_hot: -1 classes");
    REFUSES(t, an_layer_norm(x, 3, NULL, NULL, 1e-5), AN_ERR_ARG, "an_layer_norm: over 3 axes of shape (2, 3)");
    REFUSES(t, an_layer_norm(x, 1, fv, NULL, 1e-5), AN_ERR_SHAPE, "an_layer_norm: weight (2,): it must have the last 1 axes of shape (2, 3)");
    REFUSES(t, an_rms_norm(x, 1, fv, 1e-5), AN_ERR_SHAPE, "an_rms_norm: weight (2,)");
    REFUSES(t, an_cross_entropy(x, i, NULL), AN_ERR_SHAPE, "an_cross_entropy: shapes (2, 3) and (2, 3): they must be (C,) and ()");
    REFUSES(t, an_cross_entropy(x, i32(g, AN_DIMS(3)), NULL), AN_ERR_SHAPE, "an_cross_entropy: shapes (2, 3) and (3,)");
    REFUSES(t, an_cross_entropy(x, fv, NULL), AN_ERR_DTYPE, "an_cross_entropy: target has dtype f32");
    REFUSES(t, an_cross_entropy(i, v, NULL), AN_ERR_DTYPE, "an_cross_entropy: the first operand has dtype i32");
    REFUSES(t, an_cross_entropy(x, v, &(an_cross_entropy_desc){.label_smoothing = 1.5}), AN_ERR_ARG, "label_smoothing 1.5");
    REFUSES(t, an_nll_loss(x, i, NULL), AN_ERR_SHAPE, "an_nll_loss: shapes (2, 3) and (2, 3)");
    REFUSES(t, an_mse_loss(x, fv, AN_REDUCE_MEAN), AN_ERR_SHAPE, "an_mse_loss: shapes (2, 3) and (2,) do not broadcast");
    REFUSES(t, an_l1_loss(x, x, (an_reduction)7), AN_ERR_ARG, "an_l1_loss: reduction 7");
    REFUSES(t, an_huber_loss(x, x, 0, AN_REDUCE_SUM), AN_ERR_ARG, "an_huber_loss: delta 0: it must be positive");
    REFUSES(t, an_bce_with_logits(x, fv, AN_REDUCE_MEAN), AN_ERR_SHAPE, "an_bce_with_logits: shapes (2, 3) and (2,)");
}

static void random_numbers_say_what_is_wrong(an_test *t)
{
    an_graph *g = graph(t), *other = NULL;
    an_rng *rng = an_rng_from_seed(g, 1);
    REFUSES(t, an_uniform(rng, AN_I32, AN_DIMS(2), 0, 1), AN_ERR_DTYPE, "an_uniform: dtype i32: it must be a float");
    REFUSES(t, an_uniform(rng, AN_F32, AN_DIMS(2), 1, 0), AN_ERR_ARG, "an_uniform: from 1 to 0");
    REFUSES(t, an_uniform(rng, AN_F32, AN_DIMS(-2), 0, 1), AN_ERR_SHAPE, "an_uniform: dim -2");
    REFUSES(t, an_uniform(rng, AN_F32, AN_DIMS(INT64_C(1) << 33), 0, 1), AN_ERR_LIMIT, "one draw has at most 2^32 - 1 elements");
    REFUSES(t, an_normal(rng, AN_F32, AN_DIMS(2), 0, -1), AN_ERR_ARG, "an_normal: mean 0, std -1");
    REFUSES(t, an_randint(rng, AN_F32, AN_DIMS(2), 0, 1), AN_ERR_DTYPE, "an_randint: dtype f32: it must be an integer one");
    REFUSES(t, an_randint(rng, AN_I32, AN_DIMS(2), 1, 1), AN_ERR_ARG, "an_randint: from 1 up to 1: 1 to 2^32 numbers are needed");
    REFUSES(t, an_randint(rng, AN_U8, AN_DIMS(2), -1, 1), AN_ERR_DTYPE, "an_randint: from -1 up to 1: not all are values of u8");
    REFUSES(t, an_bernoulli(rng, AN_DIMS(2), 1.5), AN_ERR_ARG, "an_bernoulli: probability 1.5");
    REFUSES(t, an_permutation(rng, -1), AN_ERR_ARG, "an_permutation: of -1 numbers");
    REFUSES(t, an_dropout(rng, f32(g, AN_DIMS(2)), 1), AN_ERR_ARG, "an_dropout: probability 1: it must be at least 0 and less than 1");
    CHECK_OK(t, an_graph_create(t->ctx, &other));
    REFUSES(t, an_dropout(rng, an_ones(other, AN_F32, AN_DIMS(2)), 0.5), AN_ERR_ARG, "an_dropout: the rng and the tensor belong to two graphs");
    an_graph_destroy(other);
}

static void reading_and_writing_say_what_is_wrong(an_test *t)
{
    an_graph *g = graph(t);
    an_tensor *x = f32(g, AN_DIMS(2, 3)), *lazy = an_add_scalar(x, 1), *i = i32(g, AN_DIMS(2, 3));
    float values[6];
    double v = 42;
    int64_t w = 42;
    CHECK_FAILS(t, an_tensor_read(x, values, 8), AN_ERR_ARG, "an_tensor_read: room for 8 bytes, but shape (2, 3) of f32 has 24");
    CHECK_FAILS(t, an_tensor_write(x, values, 8), AN_ERR_ARG, "an_tensor_write: room for 8 bytes");
    CHECK_FAILS(t, an_tensor_write(lazy, values, 24), AN_ERR_ARG,
                "an_tensor_write: shape (2, 3): it has no buffer to write into; an_realize it first");
    CHECK_FAILS(t, an_item_f64(x, &v), AN_ERR_SHAPE, "an_item_f64: shape (2, 3): it has not exactly one element");
    CHECK_FAILS(t, an_item_i64(x, &w), AN_ERR_SHAPE, "an_item_i64: shape (2, 3)");
    CHECK_EQ(t, v, 42);
    CHECK_EQ(t, w, 42);
    CHECK_FAILS(t, an_assign(lazy, x), AN_ERR_ARG, "an_assign: shape (2, 3): the target has no buffer to write into; an_realize it first");
    CHECK_FAILS(t, an_assign(x, f32(g, AN_DIMS(4))), AN_ERR_SHAPE, "an_assign: shape (4,) does not broadcast to (2, 3)");
    CHECK_FAILS(t, an_assign(i, x), AN_ERR_DTYPE, "an_assign: a value of f32 into a target of i32: an_cast says that it is meant");
    CHECK_FAILS(t, an_realize((an_tensor *[]){x, NULL}, 2), AN_ERR_ARG, "an_realize: 1 of 2 tensors are NULL");
    const an_uop n = an_symbol(g, "n", 1, 8);
    an_tensor *symbolic = an_broadcast_to_uop(an_ones(g, AN_F32, AN_DIMS(1)), &n, 1);
    CHECK_FAILS(t, an_realize(&symbolic, 1), AN_ERR_ARG, "the symbolic dimension 'n' has no value; bind it with an_graph_bind");
    REFUSES(t, an_reshape(symbolic, AN_DIMS(9)), AN_ERR_SHAPE, "an_reshape_uop: (n,) has n elements, and shape (9,) has 9: they are never equal");
    REFUSES(t, an_reshape(symbolic, AN_DIMS(-1, 2)), AN_ERR_SHAPE, "an_reshape: shape (n,) does not make shape (-1, 2) whatever its symbols are");
    REFUSES(t, an_shrink_uop(symbolic, (an_uop[]){an_dim(g, 0)}, (an_uop[]){an_dim_add(g, n, an_dim(g, 1))}, 1), AN_ERR_ARG,
            "an_shrink_uop: 0 to n + 1 does not lie in axis 0 of shape (n,)");

}

static void null_flows_through_without_a_new_error(an_test *t)
{
    an_graph *g = graph(t);
    an_tensor *x = an_ones(g, AN_F32, AN_DIMS(2)), *parts[2];
    an_tensor *bad = an_add(x, an_ones(g, AN_F32, AN_DIMS(3)));
    CHECK(t, !bad);
    an_tensor *y = an_softmax(an_matmul(an_relu(an_add(bad, x)), x), 0);
    y = an_where(an_lt_scalar(y, 0), y, an_cat((an_tensor *[]){y, x}, 2, 0));
    y = an_layer_norm(an_conv2d(y, y, NULL, NULL), 1, NULL, NULL, 1e-5);
    y = an_cross_entropy(an_pad(an_slice(y, 0, 0, 1, 1), L(0), L(0), 1, 0), y, NULL);
    y = an_gather(an_tanh(an_gelu(an_cumsum(an_argmax(y, 0, false), 0))), 0, y);
    y = an_dropout(NULL, an_pow(an_floor_div(y, y), an_mod(y, y)), 0.5);
    CHECK(t, !y);
    CHECK(t, an_split(bad, L(1, 1), 2, 0, parts) != AN_OK);
    CHECK(t, an_tensor_read(bad, NULL, 0) != AN_OK);
    CHECK(t, an_assign(x, bad) != AN_OK);
    CHECK_FAILS(t, an_ctx_status(t->ctx), AN_ERR_SHAPE, "an_add: shapes (2,) and (3,) do not broadcast");
    CHECK_EQ(t, an_tensor_rank(bad), 0);
    CHECK_EQ(t, an_tensor_dim(bad, 0), -1);
    CHECK_EQ(t, an_tensor_numel(bad), -1);
    CHECK_EQ(t, an_tensor_nbytes(bad), 0);
    CHECK_EQ(t, an_tensor_dtype(bad), AN_DTYPE_NONE);
    CHECK(t, !an_tensor_graph(bad));
    CHECK_EQ(t, an_tensor_uop(bad).id, 0);
    CHECK_EQ(t, an_tensor_dim_uop(bad, 0).id, 0);
}

AN_TEST_MAIN(AN_CASE(creation_says_what_is_wrong), AN_CASE(movement_says_what_is_wrong),
             AN_CASE(elementwise_calls_say_what_is_wrong), AN_CASE(reductions_and_products_say_what_is_wrong),
             AN_CASE(convolution_says_what_is_wrong), AN_CASE(indexing_and_losses_say_what_is_wrong),
             AN_CASE(random_numbers_say_what_is_wrong), AN_CASE(reading_and_writing_say_what_is_wrong),
             AN_CASE(null_flows_through_without_a_new_error))
