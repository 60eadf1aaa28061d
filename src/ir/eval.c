/* eval.c - what each elementwise op computes. docs/SEMANTICS.md says the same in words. */
#include "ir/eval.h"

#include <math.h>

static an_scalar from_bool(bool b)
{
    return (an_scalar){.i = b};
}

/* Towards zero; by zero gives 0; the least number by -1 wraps. */
static int64_t idiv_i(int64_t a, int64_t b)
{
    if (b == 0) return 0;
    if (b == -1) return (int64_t)(0 - (uint64_t)a);
    return a / b;
}

static int64_t imod_i(int64_t a, int64_t b)
{
    return b == 0 || b == -1 ? 0 : a % b;
}

static int64_t floordiv_i(int64_t a, int64_t b)
{
    const int64_t q = idiv_i(a, b), r = imod_i(a, b);
    return r != 0 && (r < 0) != (b < 0) ? q - 1 : q;
}

static int64_t floormod_i(int64_t a, int64_t b)
{
    const int64_t r = imod_i(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static an_scalar integer(an_op op, an_dtype dtype, const an_scalar *s)
{
    const bool u = an_dtype_kind_of(dtype) == AN_KIND_UINT;
    const bool b = dtype == AN_BOOL;
    const uint64_t x = s[0].u, y = s[1].u;
    const uint64_t bits = 8 * an_dtype_nbytes(dtype);
    an_scalar r = {.u = 0};
    switch (op) {
    case AN_OP_ADD: r.u = b ? x | y : x + y; break;
    case AN_OP_MUL: r.u = x * y; break;
    case AN_OP_IDIV: r.i = u ? (int64_t)(y ? x / y : 0) : idiv_i(s[0].i, s[1].i); break;
    case AN_OP_IMOD: r.i = u ? (int64_t)(y ? x % y : 0) : imod_i(s[0].i, s[1].i); break;
    case AN_OP_FLOORDIV: r.i = u ? (int64_t)(y ? x / y : 0) : floordiv_i(s[0].i, s[1].i); break;
    case AN_OP_FLOORMOD: r.i = u ? (int64_t)(y ? x % y : 0) : floormod_i(s[0].i, s[1].i); break;
    case AN_OP_MAX: r.u = (u ? x < y : s[0].i < s[1].i) ? y : x; break;
    case AN_OP_MIN: r.u = (u ? y < x : s[1].i < s[0].i) ? y : x; break;
    case AN_OP_AND: r.u = x & y; break;
    case AN_OP_OR: r.u = x | y; break;
    case AN_OP_XOR: r.u = x ^ y; break;
    case AN_OP_SHL: r.u = y < bits ? x << y : 0; break;
    case AN_OP_SHR:
        if (u)
            r.u = y < bits ? x >> y : 0;
        else
            r.i = s[0].i >> (y < bits ? y : bits - 1); /* of the sign: gcc and clang shift arithmetically */
        break;
    case AN_OP_MULACC: r.u = x * y + s[2].u; break;
    default: break; /* float only ops of integers do not exist: verify.c */
    }
    return an_scalar_round(dtype, r);
}

static double max_f(double x, double y)
{
    if (isnan(x) || isnan(y)) return (double)NAN;
    return x < y ? y : x; /* ties: the first, so max(-0, 0) is -0 */
}

static double min_f(double x, double y)
{
    if (isnan(x) || isnan(y)) return (double)NAN;
    return y < x ? y : x;
}

/* Narrower floats than f32 compute as f32 does and round once more; f32 in double and round: for +, *, / and sqrt the
 * result is the correctly rounded one (double has more than 2p+2 bits: Figueroa 1995). fma of floats is not: f32 uses
 * fmaf. */
static an_scalar floating(an_op op, an_dtype dtype, const an_scalar *s)
{
    const double x = s[0].f, y = s[1].f;
    double r = 0;
    switch (op) {
    case AN_OP_SQRT: r = sqrt(x); break;
    case AN_OP_EXP2: r = exp2(x); break;
    case AN_OP_LOG2: r = log2(x); break;
    case AN_OP_SIN: r = sin(x); break;
    case AN_OP_ERF: r = erf(x); break;
    case AN_OP_TRUNC: r = trunc(x); break;
    case AN_OP_ADD: r = x + y; break;
    case AN_OP_MUL: r = x * y; break;
    case AN_OP_DIV: r = x / y; break;
    case AN_OP_MAX: r = max_f(x, y); break;
    case AN_OP_MIN: r = min_f(x, y); break;
    case AN_OP_MULACC: r = dtype == AN_F64 ? fma(x, y, s[2].f) : (double)fmaf((float)x, (float)y, (float)s[2].f); break;
    default: break;
    }
    if (dtype != AN_F64) r = (double)(float)r;
    return an_scalar_round(dtype, (an_scalar){.f = r});
}

an_scalar an_eval(an_op op, an_dtype dtype, const an_scalar *s)
{
    const an_dtype_kind kind = an_dtype_kind_of(dtype);
    const bool flt = kind == AN_KIND_FLOAT, u = kind == AN_KIND_UINT;
    switch (op) {
    case AN_OP_WHERE: return s[0].i ? s[1] : s[2];
    case AN_OP_CMPLT: return from_bool(flt ? s[0].f < s[1].f : u ? s[0].u < s[1].u : s[0].i < s[1].i);
    case AN_OP_CMPEQ: return from_bool(flt ? s[0].f == s[1].f : s[0].i == s[1].i);
    case AN_OP_CMPNE: return from_bool(flt ? s[0].f != s[1].f : s[0].i != s[1].i);
    default: {
        an_scalar src[3] = {s[0], {.u = 0}, {.u = 0}};
        for (int i = 1; i < an_op_info_of(op)->arity && i < 3; i++) src[i] = s[i];
        return flt ? floating(op, dtype, src) : integer(op, dtype, src);
    }
    }
}

an_scalar an_eval_bitcast(an_dtype from, an_dtype to, an_scalar x)
{
    unsigned char bits[8] = {0};
    an_scalar_store(from, x, bits);
    return an_scalar_load(to, bits);
}
