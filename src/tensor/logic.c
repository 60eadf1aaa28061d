/* logic.c - comparisons, logic, bits, and choosing by a condition. The IR has cmplt, cmpeq and cmpne; the rest is made of
 * them so that NaN compares false with everything. */
#include "tensor/tensor.h"

#include <math.h>

/* The order of bools is that of 0 and 1: compared as u8. */
static an_dtype comparable(an_tensor *a, an_tensor *b)
{
    if (!a || !b) return AN_DTYPE_NONE;
    const an_dtype d = an_dtype_promote(an_tensor_dtype(a), an_tensor_dtype(b));
    return d == AN_BOOL ? AN_U8 : d;
}

static an_tensor *bit_flip(an_tensor *x) /* of a bool */
{
    return x ? an_tensor_wrap1(x, an_not(x->graph, an_tensor_node(x))) : NULL;
}

an_tensor *an_eq(an_tensor *a, an_tensor *b)
{
    return an_tensor_binary(__func__, AN_OP_CMPEQ, comparable(a, b), a, b);
}

an_tensor *an_ne(an_tensor *a, an_tensor *b)
{
    return an_tensor_binary(__func__, AN_OP_CMPNE, comparable(a, b), a, b);
}

an_tensor *an_lt(an_tensor *a, an_tensor *b)
{
    return an_tensor_binary(__func__, AN_OP_CMPLT, comparable(a, b), a, b);
}

/* a <= b: for floats less or equal, since "not greater" would hold for NaN. */
static an_tensor *less_or_equal(const char *call, an_tensor *a, an_tensor *b)
{
    const an_dtype d = comparable(a, b);
    if (!an_is_float(d)) return bit_flip(an_tensor_binary(call, AN_OP_CMPLT, d, b, a));
    an_tensor *less = an_tensor_binary(call, AN_OP_CMPLT, d, a, b);
    return less ? an_bit_or(less, an_tensor_binary(call, AN_OP_CMPEQ, d, a, b)) : NULL;
}

an_tensor *an_le(an_tensor *a, an_tensor *b)
{
    return less_or_equal(__func__, a, b);
}

an_tensor *an_gt(an_tensor *a, an_tensor *b)
{
    return an_tensor_binary(__func__, AN_OP_CMPLT, comparable(a, b), b, a);
}

an_tensor *an_ge(an_tensor *a, an_tensor *b)
{
    return less_or_equal(__func__, b, a);
}

an_tensor *an_eq_scalar(an_tensor *x, double s)
{
    an_tensor *c = NULL;
    x = an_weak_scalar(__func__, x, s, &c);
    return an_eq(x, c);
}

an_tensor *an_ne_scalar(an_tensor *x, double s)
{
    an_tensor *c = NULL;
    x = an_weak_scalar(__func__, x, s, &c);
    return an_ne(x, c);
}

an_tensor *an_lt_scalar(an_tensor *x, double s)
{
    an_tensor *c = NULL;
    x = an_weak_scalar(__func__, x, s, &c);
    return an_lt(x, c);
}

an_tensor *an_le_scalar(an_tensor *x, double s)
{
    an_tensor *c = NULL;
    x = an_weak_scalar(__func__, x, s, &c);
    return an_le(x, c);
}

an_tensor *an_gt_scalar(an_tensor *x, double s)
{
    an_tensor *c = NULL;
    x = an_weak_scalar(__func__, x, s, &c);
    return an_gt(x, c);
}

an_tensor *an_ge_scalar(an_tensor *x, double s)
{
    an_tensor *c = NULL;
    x = an_weak_scalar(__func__, x, s, &c);
    return an_ge(x, c);
}

/* --- logic ------------------------------------------------------------------------------------------------------- */

an_tensor *an_logical_and(an_tensor *a, an_tensor *b)
{
    return an_tensor_binary(__func__, AN_OP_AND, AN_BOOL, an_cast(a, AN_BOOL), an_cast(b, AN_BOOL));
}

an_tensor *an_logical_or(an_tensor *a, an_tensor *b)
{
    return an_tensor_binary(__func__, AN_OP_OR, AN_BOOL, an_cast(a, AN_BOOL), an_cast(b, AN_BOOL));
}

an_tensor *an_logical_xor(an_tensor *a, an_tensor *b)
{
    return an_tensor_binary(__func__, AN_OP_XOR, AN_BOOL, an_cast(a, AN_BOOL), an_cast(b, AN_BOOL));
}

an_tensor *an_logical_not(an_tensor *x)
{
    return bit_flip(an_cast(x, AN_BOOL));
}

/* No integer is NaN or infinite. */
static an_tensor *all_of(an_tensor *x, bool value)
{
    return an_full_like(an_cast(x, AN_BOOL), value ? 1.0 : 0.0);
}

an_tensor *an_isnan(an_tensor *x)
{
    return !x || an_is_float(an_tensor_dtype(x)) ? an_ne(x, x) : all_of(x, false);
}

an_tensor *an_isinf(an_tensor *x)
{
    if (!x || !an_is_float(an_tensor_dtype(x))) return x ? all_of(x, false) : NULL;
    if (an_tensor_dtype(x) == AN_F8E4M3) return all_of(x, false); /* it has none */
    return an_logical_or(an_eq_scalar(x, (double)INFINITY), an_eq_scalar(x, -(double)INFINITY));
}

an_tensor *an_isfinite(an_tensor *x)
{
    if (!x || !an_is_float(an_tensor_dtype(x))) return x ? all_of(x, true) : NULL;
    return an_logical_not(an_logical_or(an_isnan(x), an_isinf(x)));
}

/* --- bits -------------------------------------------------------------------------------------------------------- */

static an_tensor *bitwise(const char *call, an_op op, an_tensor *a, an_tensor *b, bool takes_bool)
{
    if (!a || !b) return NULL;
    const an_dtype d = an_dtype_promote(an_tensor_dtype(a), an_tensor_dtype(b));
    if (!an_is_integer(d) && !(takes_bool && d == AN_BOOL))
        return an_tensor_fail(a->graph, AN_ERR_DTYPE, "%s: of %s and %s: both must be integers%s", call,
                              an_dtype_name(an_tensor_dtype(a)), an_dtype_name(an_tensor_dtype(b)),
                              takes_bool ? " or bool" : "");
    return an_tensor_binary(call, op, d, a, b);
}

an_tensor *an_bit_and(an_tensor *a, an_tensor *b)
{
    return bitwise(__func__, AN_OP_AND, a, b, true);
}

an_tensor *an_bit_or(an_tensor *a, an_tensor *b)
{
    return bitwise(__func__, AN_OP_OR, a, b, true);
}

an_tensor *an_bit_xor(an_tensor *a, an_tensor *b)
{
    return bitwise(__func__, AN_OP_XOR, a, b, true);
}

an_tensor *an_shl(an_tensor *a, an_tensor *b)
{
    return bitwise(__func__, AN_OP_SHL, a, b, false);
}

an_tensor *an_shr(an_tensor *a, an_tensor *b)
{
    return bitwise(__func__, AN_OP_SHR, a, b, false);
}

an_tensor *an_bit_not(an_tensor *x)
{
    if (!x || an_tensor_dtype(x) == AN_BOOL) return bit_flip(x);
    if (!an_check_integer(x, __func__, "the operand")) return NULL;
    an_graph *g = x->graph;
    /* All bits set, in any width: -1 wraps to it. */
    return an_tensor_wrap1(x, an_binary(g, AN_OP_XOR, an_tensor_node(x), an_const_int(g, an_tensor_dtype(x), -1)));
}

/* --- choice ------------------------------------------------------------------------------------------------------ */

an_tensor *an_where(an_tensor *cond, an_tensor *a, an_tensor *b)
{
    if (!cond || !a || !b) return NULL;
    if (!an_check_graph(__func__, cond, a) || !an_check_graph(__func__, a, b)) return NULL;
    an_graph *g = cond->graph;
    an_tensor *xs[3] = {cond, a, b};
    const an_dtype d = an_dtype_promote(an_tensor_dtype(a), an_tensor_dtype(b));
    xs[0] = an_cast(cond, AN_BOOL);
    xs[1] = an_cast(a, d);
    xs[2] = an_cast(b, d);
    if (!xs[0] || !xs[1] || !xs[2]) return NULL;
    an_uop dims[AN_RANK_MAX], u[3];
    uint32_t rank = 0;
    if (!an_broadcast_shape(__func__, xs, 3, dims, &rank)) return NULL;
    for (int i = 0; i < 3; i++) u[i] = an_broadcast_node(g, an_tensor_node(xs[i]), dims, rank);
    return an_tensor_wrap(g, an_select(g, u[0], u[1], u[2]), xs, 3);
}

an_tensor *an_masked_fill(an_tensor *x, an_tensor *mask, double value)
{
    if (!x || !mask) return NULL;
    if (!an_dtype_holds(an_tensor_dtype(x), value))
        return an_tensor_fail(x->graph, AN_ERR_DTYPE, "%s: %.17g is no value of %s, the tensor's dtype", __func__, value,
                              an_dtype_name(an_tensor_dtype(x)));
    return an_where(mask, an_const_of(x, value), x);
}
