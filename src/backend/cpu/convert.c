/* convert.c - casts, bitcasts, and the narrow floats.
 *
 * A narrow float lives in a register as the f32 of the same value. Encoding works on f32 bits, rounding to nearest even
 * once: normal numbers by adding half of the last place kept, subnormal ones by adding a number whose last place is
 * theirs. Formats as in src/ir/dtype.c. */
#include "backend/cpu/emit.h"

typedef struct format {
    uint32_t exp_bits, man_bits;
    bool has_inf; /* f8e4m3 has none: past 448 it stays there; all ones is NaN */
} format;

static format format_of(an_dtype d)
{
    switch (d) {
    case AN_F8E4M3: return (format){4, 3, false};
    case AN_F8E5M2: return (format){5, 2, true};
    case AN_F16: return (format){5, 10, true};
    default: return (format){8, 7, true}; /* bf16 */
    }
}

bool cpu_is_narrow(an_dtype dtype)
{
    return an_dtype_kind_of(dtype) == AN_KIND_FLOAT && an_dtype_nbytes(dtype) < 4;
}

static LLVMValueRef select(const cpu_emit *e, LLVMValueRef c, LLVMValueRef x, LLVMValueRef y)
{
    return LLVMBuildSelect(e->b, c, x, y, "");
}

/* 2^n as f32 bits. */
static uint32_t power_bits(int n)
{
    return (uint32_t)(n + 127) << 23;
}

/* f32 to the bits of a narrow format, in i32. */
static LLVMValueRef encode(const cpu_emit *e, format f, LLVMValueRef x)
{
    LLVMBuilderRef b = e->b;
    const LLVMTypeRef i32 = cpu_int_type(e, 32, LLVMTypeOf(x)), f32 = LLVMTypeOf(x);
    const int bias = (1 << (f.exp_bits - 1)) - 1;
    const uint32_t drop = 23 - f.man_bits, inf = ((1u << f.exp_bits) - 1) << f.man_bits;
    const uint32_t top = f.has_inf ? inf : inf | ((1u << f.man_bits) - 2);
    const uint32_t nan = f.has_inf ? inf | 1u << (f.man_bits - 1) : inf | ((1u << f.man_bits) - 1);
    const LLVMValueRef bits = LLVMBuildBitCast(b, x, i32, "");
    const LLVMValueRef mag = LLVMBuildAnd(b, bits, cpu_int(i32, 0x7fffffff), "");
    LLVMValueRef odd = LLVMBuildAnd(b, LLVMBuildLShr(b, mag, cpu_int(i32, drop), ""), cpu_int(i32, 1), "");
    LLVMValueRef r = LLVMBuildAdd(b, LLVMBuildAdd(b, mag, cpu_int(i32, (1u << (drop - 1)) - 1), ""), odd, "");
    r = LLVMBuildLShr(b, r, cpu_int(i32, drop), "");
    if (bias != 127) {
        r = LLVMBuildSub(b, r, cpu_int(i32, (uint32_t)(127 - bias) << f.man_bits), "");
        const uint32_t magic = power_bits(24 - bias - (int)f.man_bits); /* its last place: 2^(1 - bias - man_bits) */
        const LLVMValueRef m = LLVMBuildBitCast(b, cpu_int(i32, magic), f32, "");
        LLVMValueRef sub = LLVMBuildFAdd(b, LLVMBuildBitCast(b, mag, f32, ""), m, "");
        sub = LLVMBuildSub(b, LLVMBuildBitCast(b, sub, i32, ""), cpu_int(i32, magic), "");
        r = select(e, LLVMBuildICmp(b, LLVMIntULT, mag, cpu_int(i32, power_bits(1 - bias)), ""), sub, r);
    }
    r = select(e, LLVMBuildICmp(b, LLVMIntUGT, r, cpu_int(i32, top), ""), cpu_int(i32, top), r);
    const LLVMValueRef sign = LLVMBuildLShr(b, bits, cpu_int(i32, 31), "");
    r = LLVMBuildOr(b, r, LLVMBuildShl(b, sign, cpu_int(i32, f.exp_bits + f.man_bits), ""), "");
    return select(e, LLVMBuildFCmp(b, LLVMRealUNO, x, x, ""), cpu_int(i32, nan), r);
}

/* The bits of a narrow format, in i32, to f32: exact. */
static LLVMValueRef decode(const cpu_emit *e, format f, LLVMValueRef bits)
{
    LLVMBuilderRef b = e->b;
    const LLVMTypeRef i32 = LLVMTypeOf(bits), f32 = cpu_f32_type(e, i32);
    const uint32_t width = f.exp_bits + f.man_bits, bias = (1u << (f.exp_bits - 1)) - 1;
    if (f.exp_bits == 8) return LLVMBuildBitCast(b, LLVMBuildShl(b, bits, cpu_int(i32, 23 - f.man_bits), ""), f32, "");
    const uint32_t inf = ((1u << f.exp_bits) - 1) << f.man_bits, least_special = f.has_inf ? inf : inf | ((1u << f.man_bits) - 1);
    const LLVMValueRef mag = LLVMBuildAnd(b, bits, cpu_int(i32, (1u << width) - 1), "");
    const LLVMValueRef up = LLVMBuildShl(b, mag, cpu_int(i32, 23 - f.man_bits), "");
    const LLVMValueRef scale = LLVMBuildBitCast(b, cpu_int(i32, power_bits((int)(127 - bias))), f32, "");
    LLVMValueRef r = LLVMBuildFMul(b, LLVMBuildBitCast(b, up, f32, ""), scale, "");
    r = LLVMBuildBitCast(b, r, i32, "");
    const LLVMValueRef special = LLVMBuildOr(b, up, cpu_int(i32, 0x7f800000), "");
    r = select(e, LLVMBuildICmp(b, LLVMIntUGE, mag, cpu_int(i32, least_special), ""), special, r);
    const LLVMValueRef sign = LLVMBuildShl(b, LLVMBuildLShr(b, bits, cpu_int(i32, width), ""), cpu_int(i32, 31), "");
    return LLVMBuildBitCast(b, LLVMBuildOr(b, r, sign, ""), f32, "");
}

static bool by_hardware(const cpu_emit *e, an_dtype dtype)
{
    return dtype == AN_F16 && e->host->has_f16c;
}

static LLVMTypeRef half_type(const cpu_emit *e, LLVMTypeRef like)
{
    return cpu_with_elem(LLVMHalfTypeInContext(e->llvm), like);
}

/* bf16 is the upper half of an f32: rounding stays in place. */
static LLVMValueRef round_bf16(const cpu_emit *e, LLVMValueRef x)
{
    LLVMBuilderRef b = e->b;
    const LLVMTypeRef f32 = LLVMTypeOf(x), i32 = cpu_int_type(e, 32, f32);
    const LLVMValueRef bits = LLVMBuildBitCast(b, x, i32, "");
    const LLVMValueRef odd = LLVMBuildAnd(b, LLVMBuildLShr(b, bits, cpu_int(i32, 16), ""), cpu_int(i32, 1), "");
    LLVMValueRef r = LLVMBuildAdd(b, LLVMBuildAdd(b, bits, cpu_int(i32, 0x7fff), ""), odd, "");
    r = LLVMBuildBitCast(b, LLVMBuildAnd(b, r, cpu_int(i32, 0xffff0000), ""), f32, "");
    return select(e, LLVMBuildFCmp(b, LLVMRealUNO, x, x, ""), x, r); /* a NaN stays one: to_bits sees to its bits */
}

LLVMValueRef cpu_round(const cpu_emit *e, an_dtype dtype, LLVMValueRef x)
{
    if (!cpu_is_narrow(dtype)) return x;
    if (dtype == AN_BF16) return round_bf16(e, x);
    if (by_hardware(e, dtype)) {
        const LLVMValueRef half = LLVMBuildFPTrunc(e->b, x, half_type(e, LLVMTypeOf(x)), "");
        return LLVMBuildFPExt(e->b, half, LLVMTypeOf(x), "");
    }
    return decode(e, format_of(dtype), encode(e, format_of(dtype), x));
}

/* Of a value that bf16 holds: the upper half; a NaN whose payload is in the lower one stays a NaN. */
static LLVMValueRef bf16_bits(const cpu_emit *e, LLVMValueRef x)
{
    const LLVMTypeRef i32 = cpu_int_type(e, 32, LLVMTypeOf(x));
    const LLVMValueRef up = LLVMBuildLShr(e->b, LLVMBuildBitCast(e->b, x, i32, ""), cpu_int(i32, 16), "");
    return select(e, LLVMBuildFCmp(e->b, LLVMRealUNO, x, x, ""), LLVMBuildOr(e->b, up, cpu_int(i32, 0x40), ""), up);
}

LLVMValueRef cpu_to_bits(const cpu_emit *e, an_dtype dtype, LLVMValueRef x)
{
    if (dtype == AN_BOOL) return LLVMBuildZExt(e->b, x, cpu_int_type(e, 8, LLVMTypeOf(x)), "");
    if (!cpu_is_narrow(dtype)) return x;
    const LLVMTypeRef to = cpu_int_type(e, (uint32_t)(8 * an_dtype_nbytes(dtype)), LLVMTypeOf(x));
    if (by_hardware(e, dtype))
        return LLVMBuildBitCast(e->b, LLVMBuildFPTrunc(e->b, x, half_type(e, LLVMTypeOf(x)), ""), to, "");
    return LLVMBuildTrunc(e->b, dtype == AN_BF16 ? bf16_bits(e, x) : encode(e, format_of(dtype), x), to, "");
}

LLVMValueRef cpu_from_bits(const cpu_emit *e, an_dtype dtype, LLVMValueRef x)
{
    const LLVMTypeRef type = LLVMTypeOf(x);
    if (dtype == AN_BOOL) return LLVMBuildICmp(e->b, LLVMIntNE, x, cpu_int(type, 0), "");
    if (!cpu_is_narrow(dtype)) return x;
    if (by_hardware(e, dtype))
        return LLVMBuildFPExt(e->b, LLVMBuildBitCast(e->b, x, half_type(e, type), ""), cpu_f32_type(e, type), "");
    return decode(e, format_of(dtype), LLVMBuildZExt(e->b, x, cpu_int_type(e, 32, type), ""));
}

/* f64 to f32, to odd: towards zero, and the last bit set if that was not exact. A later rounding to a format with at least
 * two bits fewer is then as good as one rounding of the f64 (Boldo, Melquiond 2008). */
static LLVMValueRef to_odd(const cpu_emit *e, LLVMValueRef x)
{
    LLVMBuilderRef b = e->b;
    const LLVMTypeRef f64 = LLVMTypeOf(x), f32 = cpu_f32_type(e, f64), i32 = cpu_int_type(e, 32, f64);
    const LLVMValueRef near = LLVMBuildFPTrunc(b, x, f32, "");
    const LLVMValueRef back = LLVMBuildFPExt(b, near, f64, "");
    const LLVMValueRef away =
        LLVMBuildFCmp(b, LLVMRealOGT, cpu_unary(e, "llvm.fabs", back), cpu_unary(e, "llvm.fabs", x), "");
    LLVMValueRef bits = LLVMBuildBitCast(b, near, i32, "");
    bits = LLVMBuildSub(b, bits, LLVMBuildZExt(b, away, i32, ""), "");
    const LLVMValueRef inexact = LLVMBuildFCmp(b, LLVMRealONE, back, x, "");
    return LLVMBuildBitCast(b, LLVMBuildOr(b, bits, LLVMBuildZExt(b, inexact, i32, ""), ""), f32, "");
}

/* A double or float to a float dtype. */
static LLVMValueRef float_to_float(const cpu_emit *e, an_dtype to, LLVMValueRef x)
{
    const bool wide = LLVMGetTypeKind(cpu_elem(LLVMTypeOf(x))) == LLVMDoubleTypeKind;
    if (to == AN_F64) return wide ? x : LLVMBuildFPExt(e->b, x, cpu_f64_type(e, LLVMTypeOf(x)), "");
    if (to == AN_F32) return wide ? LLVMBuildFPTrunc(e->b, x, cpu_f32_type(e, LLVMTypeOf(x)), "") : x;
    return cpu_round(e, to, wide ? to_odd(e, x) : x);
}

static LLVMValueRef int_to_float(const cpu_emit *e, an_dtype from, an_dtype to, LLVMValueRef x)
{
    const an_dtype_kind kind = an_dtype_kind_of(from);
    const bool is_signed = kind == AN_KIND_INT || kind == AN_KIND_INDEX;
    /* A narrow float is rounded once from a double, or from a float that holds the integer. */
    const bool by_f32 = to == AN_F32 || (to != AN_F64 && an_dtype_nbytes(from) <= 2);
    const LLVMTypeRef type = by_f32 ? cpu_f32_type(e, LLVMTypeOf(x)) : cpu_f64_type(e, LLVMTypeOf(x));
    x = is_signed ? LLVMBuildSIToFP(e->b, x, type, "") : LLVMBuildUIToFP(e->b, x, type, "");
    return float_to_float(e, to, x);
}

static LLVMValueRef float_to_int(const cpu_emit *e, an_dtype to, LLVMValueRef x)
{
    const bool is_unsigned = an_dtype_kind_of(to) == AN_KIND_UINT;
    LLVMTypeRef types[2] = {cpu_reg_type(e, to, cpu_lanes(LLVMTypeOf(x))), LLVMTypeOf(x)};
    return cpu_intrinsic(e, is_unsigned ? "llvm.fptoui.sat" : "llvm.fptosi.sat", types, 2, &x, 1);
}

static LLVMValueRef int_to_int(const cpu_emit *e, an_dtype from, an_dtype to, LLVMValueRef x)
{
    const LLVMTypeRef type = cpu_reg_type(e, to, cpu_lanes(LLVMTypeOf(x)));
    const uint32_t a = cpu_bits(LLVMTypeOf(x)), b = cpu_bits(type);
    const an_dtype_kind kind = an_dtype_kind_of(from);
    if (a == b) return x;
    if (a > b) return LLVMBuildTrunc(e->b, x, type, "");
    return kind == AN_KIND_INT || kind == AN_KIND_INDEX ? LLVMBuildSExt(e->b, x, type, "") : LLVMBuildZExt(e->b, x, type, "");
}

LLVMValueRef cpu_cast(const cpu_emit *e, an_dtype from, an_dtype to, LLVMValueRef x)
{
    const LLVMTypeRef type = LLVMTypeOf(x);
    const bool from_float = an_dtype_kind_of(from) == AN_KIND_FLOAT, to_float = an_dtype_kind_of(to) == AN_KIND_FLOAT;
    if (from == to) return x;
    if (to == AN_BOOL)
        return from_float ? LLVMBuildFCmp(e->b, LLVMRealUNE, x, cpu_real(type, 0), "")
                          : LLVMBuildICmp(e->b, LLVMIntNE, x, cpu_int(type, 0), "");
    if (from_float) return to_float ? float_to_float(e, to, x) : float_to_int(e, to, x);
    return to_float ? int_to_float(e, from, to, x) : int_to_int(e, from, to, x);
}

LLVMValueRef cpu_bitcast(const cpu_emit *e, an_dtype from, an_dtype to, LLVMValueRef x)
{
    const LLVMTypeRef type = cpu_mem_type(e, to, cpu_lanes(LLVMTypeOf(x)));
    return cpu_from_bits(e, to, LLVMBuildBitCast(e->b, cpu_to_bits(e, from, x), type, ""));
}
