/* arith.c - elementwise operations, to the letter of docs/SEMANTICS.md. */
#include "backend/cpu/emit.h"

/* The constant y is not 0 and not -1: division cannot trap. */
static bool safe_divisor(LLVMValueRef y)
{
    if (!LLVMIsAConstantInt(y)) return false;
    const long long v = LLVMConstIntGetSExtValue(y);
    return v != 0 && v != -1;
}

/* Quotient or remainder towards zero; by 0 gives 0, by -1 wraps (remainder 0). */
static LLVMValueRef divide(const cpu_emit *e, bool is_unsigned, bool mod, LLVMValueRef x, LLVMValueRef y)
{
    LLVMTypeRef t = LLVMTypeOf(x);
    LLVMValueRef zero = LLVMConstNull(t), one = cpu_int(t, 1), bad = NULL, minus = NULL, d = y;
    if (!safe_divisor(y)) {
        bad = LLVMBuildICmp(e->b, LLVMIntEQ, y, zero, "");
        d = LLVMBuildSelect(e->b, bad, one, y, "");
        if (!is_unsigned) {
            minus = LLVMBuildICmp(e->b, LLVMIntEQ, y, cpu_int(t, UINT64_MAX), "");
            d = LLVMBuildSelect(e->b, minus, one, d, "");
        }
    }
    LLVMValueRef q = NULL;
    if (is_unsigned)
        q = mod ? LLVMBuildURem(e->b, x, d, "") : LLVMBuildUDiv(e->b, x, d, "");
    else
        q = mod ? LLVMBuildSRem(e->b, x, d, "") : LLVMBuildSDiv(e->b, x, d, "");
    if (minus && !mod) q = LLVMBuildSelect(e->b, minus, LLVMBuildSub(e->b, zero, x, ""), q, "");
    if (bad && !mod) q = LLVMBuildSelect(e->b, bad, zero, q, ""); /* the remainder by 1 is 0 already */
    return q;
}

/* A scalar constant divisor that is a power of two, by its exponent; -1 otherwise. Index arithmetic has little else. */
static int power_of_two(LLVMValueRef y)
{
    if (!LLVMIsAConstantInt(y)) return -1;
    const long long v = LLVMConstIntGetSExtValue(y);
    if (v <= 0 || (v & (v - 1))) return -1;
    int n = 0;
    while (1LL << n < v) n++;
    return n;
}

/* Towards minus infinity: one less where there is a remainder whose sign is not the divisor's. */
static LLVMValueRef floor_divide(const cpu_emit *e, bool is_unsigned, bool mod, LLVMValueRef x, LLVMValueRef y)
{
    if (is_unsigned) return divide(e, true, mod, x, y);
    LLVMTypeRef t = LLVMTypeOf(x);
    const int power = power_of_two(y);
    if (power >= 0)
        return mod ? LLVMBuildAnd(e->b, x, cpu_int(t, (1ULL << power) - 1), "")
                   : LLVMBuildAShr(e->b, x, cpu_int(t, (uint64_t)power), "");
    LLVMValueRef zero = LLVMConstNull(t);
    LLVMValueRef rem = divide(e, false, true, x, y);
    LLVMValueRef some = LLVMBuildICmp(e->b, LLVMIntNE, rem, zero, "");
    LLVMValueRef differ = LLVMBuildICmp(e->b, LLVMIntSLT, LLVMBuildXor(e->b, rem, y, ""), zero, "");
    LLVMValueRef fix = LLVMBuildAnd(e->b, some, differ, "");
    if (mod) return LLVMBuildSelect(e->b, fix, LLVMBuildAdd(e->b, rem, y, ""), rem, "");
    LLVMValueRef q = divide(e, false, false, x, y);
    return LLVMBuildSelect(e->b, fix, LLVMBuildSub(e->b, q, cpu_int(t, 1), ""), q, "");
}

static LLVMValueRef shift(const cpu_emit *e, an_op op, an_dtype dtype, LLVMValueRef x, LLVMValueRef y)
{
    LLVMTypeRef t = LLVMTypeOf(x);
    const uint64_t bits = 8 * an_dtype_nbytes(dtype);
    LLVMValueRef in = LLVMBuildICmp(e->b, LLVMIntULT, y, cpu_int(t, bits), "");
    LLVMValueRef n = LLVMBuildSelect(e->b, in, y, cpu_int(t, bits - 1), "");
    if (op == AN_OP_SHR && an_dtype_kind_of(dtype) != AN_KIND_UINT) return LLVMBuildAShr(e->b, x, n, "");
    LLVMValueRef v = op == AN_OP_SHL ? LLVMBuildShl(e->b, x, n, "") : LLVMBuildLShr(e->b, x, n, "");
    return LLVMBuildSelect(e->b, in, v, LLVMConstNull(t), "");
}

/* NaN wins; of equal operands the first. */
static LLVMValueRef extreme(const cpu_emit *e, an_op op, an_dtype dtype, LLVMValueRef x, LLVMValueRef y)
{
    const bool max = op == AN_OP_MAX;
    if (dtype == AN_BOOL) return max ? LLVMBuildOr(e->b, x, y, "") : LLVMBuildAnd(e->b, x, y, "");
    LLVMValueRef a = max ? x : y, b = max ? y : x; /* y is taken where a < b */
    if (an_dtype_kind_of(dtype) == AN_KIND_FLOAT) {
        LLVMValueRef v = cpu_x86_extreme(e, max, y, x);
        if (!v) v = LLVMBuildSelect(e->b, LLVMBuildFCmp(e->b, LLVMRealOLT, a, b, ""), y, x, "");
        return LLVMBuildSelect(e->b, LLVMBuildFCmp(e->b, LLVMRealUNO, y, y, ""), y, v, "");
    }
    const LLVMIntPredicate less = an_dtype_kind_of(dtype) == AN_KIND_UINT ? LLVMIntULT : LLVMIntSLT;
    return LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, less, a, b, ""), y, x, "");
}

static LLVMValueRef compare(const cpu_emit *e, an_op op, an_dtype dtype, LLVMValueRef x, LLVMValueRef y)
{
    const an_dtype_kind kind = an_dtype_kind_of(dtype);
    if (kind == AN_KIND_FLOAT) {
        const LLVMRealPredicate p = op == AN_OP_CMPLT ? LLVMRealOLT : op == AN_OP_CMPEQ ? LLVMRealOEQ : LLVMRealUNE;
        return LLVMBuildFCmp(e->b, p, x, y, "");
    }
    const LLVMIntPredicate less = kind == AN_KIND_UINT || kind == AN_KIND_BOOL ? LLVMIntULT : LLVMIntSLT;
    return LLVMBuildICmp(e->b, op == AN_OP_CMPLT ? less : op == AN_OP_CMPEQ ? LLVMIntEQ : LLVMIntNE, x, y, "");
}

static LLVMValueRef binary(const cpu_emit *e, an_op op, an_dtype dtype, LLVMValueRef x, LLVMValueRef y)
{
    const an_dtype_kind kind = an_dtype_kind_of(dtype);
    const bool flt = kind == AN_KIND_FLOAT, is_unsigned = kind == AN_KIND_UINT, index = dtype == AN_INDEX;
    LLVMValueRef v = NULL;
    switch (op) {
    case AN_OP_ADD:
        if (dtype == AN_BOOL) return LLVMBuildOr(e->b, x, y, "");
        v = flt ? LLVMBuildFAdd(e->b, x, y, "") : index ? LLVMBuildNSWAdd(e->b, x, y, "") : LLVMBuildAdd(e->b, x, y, "");
        break;
    case AN_OP_MUL:
        if (dtype == AN_BOOL) return LLVMBuildAnd(e->b, x, y, "");
        v = flt ? LLVMBuildFMul(e->b, x, y, "") : index ? LLVMBuildNSWMul(e->b, x, y, "") : LLVMBuildMul(e->b, x, y, "");
        break;
    case AN_OP_DIV: v = LLVMBuildFDiv(e->b, x, y, ""); break;
    case AN_OP_IDIV: return divide(e, is_unsigned, false, x, y);
    case AN_OP_IMOD: return divide(e, is_unsigned, true, x, y);
    case AN_OP_FLOORDIV: return floor_divide(e, is_unsigned, false, x, y);
    case AN_OP_FLOORMOD: return floor_divide(e, is_unsigned, true, x, y);
    case AN_OP_MAX:
    case AN_OP_MIN: return extreme(e, op, dtype, x, y);
    case AN_OP_AND: return LLVMBuildAnd(e->b, x, y, "");
    case AN_OP_OR: return LLVMBuildOr(e->b, x, y, "");
    case AN_OP_XOR: return LLVMBuildXor(e->b, x, y, "");
    case AN_OP_SHL:
    case AN_OP_SHR: return shift(e, op, dtype, x, y);
    case AN_OP_CMPLT:
    case AN_OP_CMPEQ:
    case AN_OP_CMPNE: return compare(e, op, dtype, x, y);
    default: return NULL;
    }
    return cpu_round(e, dtype, v);
}

/* Of f32 by polynomials; of f64 by libm, lane by lane. */
static LLVMValueRef transcendental(const cpu_emit *e, an_op op, an_dtype dtype, LLVMValueRef x)
{
    const bool wide = dtype == AN_F64;
    switch (op) {
    case AN_OP_EXP2: return wide ? cpu_call_libm(e, "exp2", x) : cpu_round(e, dtype, cpu_exp2(e, x));
    case AN_OP_LOG2: return wide ? cpu_call_libm(e, "log2", x) : cpu_round(e, dtype, cpu_log2(e, x));
    case AN_OP_SIN: return wide ? cpu_call_libm(e, "sin", x) : cpu_round(e, dtype, cpu_sin(e, x));
    default: return wide ? cpu_call_libm(e, "erf", x) : cpu_round(e, dtype, cpu_erf(e, x));
    }
}

LLVMValueRef cpu_arith(const cpu_emit *e, an_op op, an_dtype dtype, const LLVMValueRef *s)
{
    const bool flt = an_dtype_kind_of(dtype) == AN_KIND_FLOAT;
    switch (op) {
    case AN_OP_WHERE: return LLVMBuildSelect(e->b, s[0], s[1], s[2], "");
    case AN_OP_SQRT: return flt ? cpu_round(e, dtype, cpu_unary(e, "llvm.sqrt", s[0])) : NULL;
    case AN_OP_TRUNC: return flt ? cpu_round(e, dtype, cpu_unary(e, "llvm.trunc", s[0])) : NULL;
    case AN_OP_EXP2:
    case AN_OP_LOG2:
    case AN_OP_SIN:
    case AN_OP_ERF: return flt ? transcendental(e, op, dtype, s[0]) : NULL;
    case AN_OP_MULACC:
        if (flt) return cpu_round(e, dtype, cpu_fma(e, s[0], s[1], s[2]));
        return binary(e, AN_OP_ADD, dtype, binary(e, AN_OP_MUL, dtype, s[0], s[1]), s[2]);
    case AN_OP_DIV: return flt ? binary(e, op, dtype, s[0], s[1]) : NULL;
    default: return an_op_has(op, AN_TRAIT_BINARY) ? binary(e, op, dtype, s[0], s[1]) : NULL;
    }
}
