/* reduce.c - what a reduction starts from. */
#include "ir/uop.h"

#include <math.h>

static an_scalar least(an_dtype dtype)
{
    const uint32_t bits = (uint32_t)(8 * an_dtype_nbytes(dtype));
    if (an_dtype_kind_of(dtype) == AN_KIND_FLOAT) return an_scalar_round(dtype, (an_scalar){.f = (double)-INFINITY});
    if (an_dtype_kind_of(dtype) == AN_KIND_INT || an_dtype_kind_of(dtype) == AN_KIND_INDEX)
        return (an_scalar){.i = -(int64_t)(((uint64_t)1 << (bits - 1)) - 1) - 1};
    return (an_scalar){.u = 0};
}

static an_scalar greatest(an_dtype dtype)
{
    const uint32_t bits = (uint32_t)(8 * an_dtype_nbytes(dtype));
    switch (an_dtype_kind_of(dtype)) {
    case AN_KIND_FLOAT: return an_scalar_round(dtype, (an_scalar){.f = (double)INFINITY});
    case AN_KIND_BOOL: return (an_scalar){.u = 1};
    case AN_KIND_UINT: return (an_scalar){.u = UINT64_MAX >> (64 - bits)};
    default: return (an_scalar){.i = (int64_t)(((uint64_t)1 << (bits - 1)) - 1)};
    }
}

an_scalar an_reduce_identity(an_op op, an_dtype dtype)
{
    const bool flt = an_dtype_kind_of(dtype) == AN_KIND_FLOAT;
    switch (op) {
    case AN_OP_MUL: return flt ? (an_scalar){.f = 1.0} : (an_scalar){.i = 1};
    case AN_OP_MAX: return least(dtype);
    case AN_OP_MIN: return greatest(dtype);
    case AN_OP_AND: return an_scalar_round(dtype, (an_scalar){.u = UINT64_MAX});
    default: return flt ? (an_scalar){.f = 0.0} : (an_scalar){.i = 0}; /* ADD, OR, XOR */
    }
}
