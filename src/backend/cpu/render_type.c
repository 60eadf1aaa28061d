/* render_type.c - how values are held, stored and converted.
 *
 * Narrow floats are converted by integer arithmetic on the bits of an f32, one code for every format; f16 by the
 * target's instructions where it has them. */
#include "backend/cpu/render.h"

#include <math.h>

bool cpu_is_narrow(an_dtype dtype)
{
    return an_dtype_kind_of(dtype) == AN_KIND_FLOAT && dtype != AN_F32 && dtype != AN_F64;
}

uint32_t cpu_lanes(cpu_value v)
{
    const LLVMTypeRef t = LLVMTypeOf(v);
    return LLVMGetTypeKind(t) == LLVMVectorTypeKind ? LLVMGetVectorSize(t) : 1;
}

static LLVMTypeRef in_lanes(LLVMTypeRef scalar, uint32_t lanes)
{
    return lanes > 1 ? LLVMVectorType(scalar, lanes) : scalar;
}

LLVMTypeRef cpu_like(LLVMTypeRef scalar, cpu_value like)
{
    return in_lanes(scalar, cpu_lanes(like));
}

LLVMTypeRef cpu_type(cpu_render *r, an_dtype dtype, uint32_t lanes)
{
    LLVMTypeRef t = LLVMInt1TypeInContext(r->llvm);
    if (dtype == AN_F64)
        t = LLVMDoubleTypeInContext(r->llvm);
    else if (an_dtype_kind_of(dtype) == AN_KIND_FLOAT)
        t = LLVMFloatTypeInContext(r->llvm);
    else if (dtype != AN_BOOL)
        t = LLVMIntTypeInContext(r->llvm, (unsigned)(8 * an_dtype_nbytes(dtype)));
    return in_lanes(t, lanes);
}

LLVMTypeRef cpu_stored_type(cpu_render *r, an_dtype dtype, uint32_t lanes)
{
    if (dtype != AN_BOOL && !cpu_is_narrow(dtype)) return cpu_type(r, dtype, lanes);
    return in_lanes(LLVMIntTypeInContext(r->llvm, (unsigned)(8 * an_dtype_nbytes(dtype))), lanes);
}

/* --- constants --------------------------------------------------------------------------------- */

static LLVMTypeRef scalar_of(LLVMTypeRef type)
{
    return LLVMGetTypeKind(type) == LLVMVectorTypeKind ? LLVMGetElementType(type) : type;
}

static cpu_value in_every_lane(LLVMTypeRef type, cpu_value c)
{
    if (LLVMGetTypeKind(type) != LLVMVectorTypeKind) return c;
    cpu_value v[AN_LANES_MAX];
    const uint32_t lanes = LLVMGetVectorSize(type);
    for (uint32_t i = 0; i < lanes; i++) v[i] = c;
    return LLVMConstVector(v, lanes);
}

cpu_value cpu_int(LLVMTypeRef type, int64_t v)
{
    return in_every_lane(type, LLVMConstInt(scalar_of(type), (unsigned long long)v, true));
}

cpu_value cpu_real(LLVMTypeRef type, double v)
{
    return in_every_lane(type, LLVMConstReal(scalar_of(type), v));
}

cpu_value cpu_const(cpu_render *r, an_dtype dtype, an_scalar v)
{
    const LLVMTypeRef type = cpu_type(r, dtype, 1);
    return an_dtype_kind_of(dtype) == AN_KIND_FLOAT ? LLVMConstReal(type, v.f) : cpu_int(type, v.i);
}

cpu_value cpu_splat(cpu_render *r, cpu_value x, uint32_t lanes)
{
    if (lanes == 1) return x;
    const LLVMTypeRef type = LLVMVectorType(LLVMTypeOf(x), lanes), i32 = LLVMInt32TypeInContext(r->llvm);
    if (LLVMIsConstant(x)) return in_every_lane(type, x);
    const cpu_value one = LLVMBuildInsertElement(r->b, LLVMGetPoison(type), x, LLVMConstInt(i32, 0, false), "");
    return LLVMBuildShuffleVector(r->b, one, LLVMGetPoison(type), LLVMConstNull(LLVMVectorType(i32, lanes)), "");
}

cpu_value cpu_as(cpu_render *r, cpu_value x, LLVMTypeRef scalar)
{
    return LLVMBuildBitCast(r->b, x, cpu_like(scalar, x), "");
}

/* --- narrow floats ----------------------------------------------------------------------------- */

typedef struct format {
    int exp_bits, man_bits;
    bool has_inf; /* f8e4m3 has none: all ones is NaN, the rest of the top exponent holds numbers */
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

static int bias_of(format f)
{
    return (1 << (f.exp_bits - 1)) - 1;
}

/* The bits of a number of format f (an integer of its size) as a float. The bits are moved to where f32 has them: the
 * exponent is then off by a constant, which a multiplication sets right, denormals included. */
static cpu_value decode(cpu_render *r, format f, cpu_value stored)
{
    const LLVMTypeRef i32 = cpu_like(LLVMInt32TypeInContext(r->llvm), stored);
    const cpu_value bits = LLVMBuildZExt(r->b, stored, i32, "");
    if (f.exp_bits == 8)
        return cpu_as(r, LLVMBuildShl(r->b, bits, cpu_int(i32, 23 - f.man_bits), ""), LLVMFloatTypeInContext(r->llvm));
    const int64_t all = (1 << (f.exp_bits + f.man_bits)) - 1;
    const int64_t inf = all & ~(int64_t)((1 << f.man_bits) - 1);
    const cpu_value mag = LLVMBuildAnd(r->b, bits, cpu_int(i32, all), "");
    const cpu_value moved = LLVMBuildShl(r->b, mag, cpu_int(i32, 23 - f.man_bits), "");
    const cpu_value small = cpu_as(r, moved, LLVMFloatTypeInContext(r->llvm));
    const cpu_value value = LLVMBuildFMul(r->b, small, cpu_real(LLVMTypeOf(small), ldexp(1, 127 - bias_of(f))), "");
    const cpu_value is_special = LLVMBuildICmp(r->b, LLVMIntUGE, mag, cpu_int(i32, f.has_inf ? inf : all), "");
    const cpu_value special = LLVMBuildOr(r->b, moved, cpu_int(i32, 0x7f800000), "");
    const cpu_value sign = LLVMBuildShl(r->b, LLVMBuildSub(r->b, bits, mag, ""),
                                        cpu_int(i32, 31 - f.exp_bits - f.man_bits), "");
    const cpu_value v = cpu_select(r, is_special, special, cpu_as(r, value, LLVMInt32TypeInContext(r->llvm)));
    return cpu_as(r, LLVMBuildOr(r->b, v, sign, ""), LLVMFloatTypeInContext(r->llvm));
}

/* A float rounded to nearest even, as the bits of format f in i32. */
static cpu_value encode(cpu_render *r, format f, cpu_value x)
{
    const LLVMTypeRef i32 = cpu_like(LLVMInt32TypeInContext(r->llvm), x);
    const int shift = 23 - f.man_bits, bias = bias_of(f);
    const int64_t inf = (int64_t)((1 << f.exp_bits) - 1) << f.man_bits, all = inf | ((1 << f.man_bits) - 1);
    const cpu_value bits = cpu_as(r, x, LLVMInt32TypeInContext(r->llvm));
    const cpu_value mag = LLVMBuildAnd(r->b, bits, cpu_int(i32, 0x7fffffff), "");
    /* Half a place less one, and one more where the last place is odd; what carries over is right, to infinity too. */
    const cpu_value odd = LLVMBuildAnd(r->b, LLVMBuildLShr(r->b, mag, cpu_int(i32, shift), ""), cpu_int(i32, 1), "");
    const cpu_value up = LLVMBuildAdd(r->b, LLVMBuildAdd(r->b, mag, odd, ""),
                                      cpu_int(i32, (1 << (shift - 1)) - 1 - ((int64_t)(127 - bias) << 23)), "");
    cpu_value n = LLVMBuildLShr(r->b, up, cpu_int(i32, shift), "");
    if (f.exp_bits < 8) {
        /* Denormals: adding a number whose last place is the least denormal rounds to that place. */
        const double magic = ldexp(1, 1 - bias - f.man_bits + 23);
        const cpu_value a = cpu_as(r, mag, LLVMFloatTypeInContext(r->llvm));
        const LLVMTypeRef f32 = LLVMTypeOf(a);
        const cpu_value sum = cpu_as(r, LLVMBuildFAdd(r->b, a, cpu_real(f32, magic), ""), LLVMInt32TypeInContext(r->llvm));
        const cpu_value base = cpu_int(i32, (int64_t)(127 + 1 - bias - f.man_bits + 23) << 23);
        const cpu_value tiny = LLVMBuildFCmp(r->b, LLVMRealOLT, a, cpu_real(f32, ldexp(1, 1 - bias)), "");
        n = cpu_select(r, tiny, LLVMBuildSub(r->b, sum, base, ""), n);
        const cpu_value top = cpu_int(i32, f.has_inf ? inf : all - 1);
        const cpu_value over = LLVMBuildFCmp(r->b, LLVMRealOGE, a, cpu_real(f32, ldexp(2, (1 << f.exp_bits) - 1 - bias)), "");
        n = cpu_select(r, over, top, n);
        n = cpu_select(r, LLVMBuildICmp(r->b, LLVMIntUGT, n, top, ""), top, n);
    }
    const int64_t nan = f.has_inf ? inf | 1 << (f.man_bits - 1) : all;
    n = cpu_select(r, LLVMBuildFCmp(r->b, LLVMRealUNO, x, x, ""), cpu_int(i32, nan), n);
    const cpu_value sign = LLVMBuildAnd(r->b, LLVMBuildLShr(r->b, bits, cpu_int(i32, 31 - f.exp_bits - f.man_bits), ""),
                                        cpu_int(i32, (int64_t)1 << (f.exp_bits + f.man_bits)), "");
    return LLVMBuildOr(r->b, n, sign, "");
}

static bool by_instruction(const cpu_render *r, an_dtype dtype)
{
    return dtype == AN_F16 && r->has_half;
}

cpu_value cpu_to_stored(cpu_render *r, an_dtype dtype, cpu_value x)
{
    const LLVMTypeRef scalar = cpu_stored_type(r, dtype, 1);
    if (dtype == AN_BOOL) return LLVMBuildZExt(r->b, x, cpu_like(scalar, x), "");
    if (!cpu_is_narrow(dtype)) return x;
    if (by_instruction(r, dtype))
        return cpu_as(r, LLVMBuildFPTrunc(r->b, x, cpu_like(LLVMHalfTypeInContext(r->llvm), x), ""), scalar);
    return LLVMBuildTrunc(r->b, encode(r, format_of(dtype), x), cpu_like(scalar, x), "");
}

cpu_value cpu_from_stored(cpu_render *r, an_dtype dtype, cpu_value x)
{
    if (dtype == AN_BOOL) return LLVMBuildICmp(r->b, LLVMIntNE, x, LLVMConstNull(LLVMTypeOf(x)), "");
    if (!cpu_is_narrow(dtype)) return x;
    if (by_instruction(r, dtype))
        return LLVMBuildFPExt(r->b, cpu_as(r, x, LLVMHalfTypeInContext(r->llvm)),
                              cpu_like(LLVMFloatTypeInContext(r->llvm), x), "");
    return decode(r, format_of(dtype), x);
}

cpu_value cpu_round(cpu_render *r, an_dtype dtype, cpu_value x)
{
    return cpu_is_narrow(dtype) ? cpu_from_stored(r, dtype, cpu_to_stored(r, dtype, x)) : x;
}

/* --- casts ------------------------------------------------------------------------------------- */

/* A double to a float that a second rounding, to a narrower type, leaves right: where it is not exact, towards zero
 * with the last bit set ("round to odd": Boldo and Melquiond 2008). */
static cpu_value double_to_odd_float(cpu_render *r, cpu_value x)
{
    const LLVMTypeRef f32 = LLVMFloatTypeInContext(r->llvm), i32 = LLVMInt32TypeInContext(r->llvm);
    const cpu_value y = LLVMBuildFPTrunc(r->b, x, cpu_like(f32, x), "");
    const cpu_value back = LLVMBuildFPExt(r->b, y, LLVMTypeOf(x), "");
    cpu_value mag_x = x, mag_back = back;
    mag_x = cpu_intrinsic(r, "llvm.fabs", &mag_x, 1);
    mag_back = cpu_intrinsic(r, "llvm.fabs", &mag_back, 1);
    const cpu_value over = LLVMBuildFCmp(r->b, LLVMRealOGT, mag_back, mag_x, "");
    const cpu_value inexact = LLVMBuildFCmp(r->b, LLVMRealONE, back, x, "");
    const cpu_value bits = cpu_as(r, y, i32);
    const LLVMTypeRef type = LLVMTypeOf(bits);
    const cpu_value down = LLVMBuildSub(r->b, bits, LLVMBuildZExt(r->b, over, type, ""), "");
    return cpu_as(r, LLVMBuildOr(r->b, down, LLVMBuildZExt(r->b, inexact, type, ""), ""), f32);
}

static cpu_value int_to_float(cpu_render *r, an_dtype from, an_dtype to, cpu_value x)
{
    const bool is_signed = an_dtype_kind_of(from) == AN_KIND_INT || an_dtype_kind_of(from) == AN_KIND_INDEX;
    /* f32 holds every i16 and u16; for wider ones a narrow float is reached from a double. */
    const bool by_double = to == AN_F64 || (to != AN_F32 && an_dtype_nbytes(from) > 2);
    const LLVMTypeRef type = cpu_like(cpu_type(r, by_double ? AN_F64 : AN_F32, 1), x);
    const cpu_value y = is_signed ? LLVMBuildSIToFP(r->b, x, type, "") : LLVMBuildUIToFP(r->b, x, type, "");
    if (!cpu_is_narrow(to)) return y;
    return cpu_round(r, to, by_double ? double_to_odd_float(r, y) : y);
}

static cpu_value float_to_int(cpu_render *r, an_dtype to, cpu_value x)
{
    const char *name = an_dtype_kind_of(to) == AN_KIND_UINT ? "llvm.fptoui.sat" : "llvm.fptosi.sat";
    LLVMTypeRef types[2] = {cpu_like(cpu_type(r, to, 1), x), LLVMTypeOf(x)};
    const unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    const cpu_value fn = LLVMGetIntrinsicDeclaration(r->module, id, types, 2);
    return LLVMBuildCall2(r->b, LLVMIntrinsicGetType(r->llvm, id, types, 2), fn, &x, 1, "");
}

cpu_value cpu_cast(cpu_render *r, an_dtype from, an_dtype to, cpu_value x)
{
    if (from == to) return x;
    const bool from_float = an_dtype_kind_of(from) == AN_KIND_FLOAT;
    const LLVMTypeRef type = cpu_like(cpu_type(r, to, 1), x);
    switch (an_dtype_kind_of(to)) {
    case AN_KIND_BOOL:
        return from_float ? LLVMBuildFCmp(r->b, LLVMRealUNE, x, LLVMConstNull(LLVMTypeOf(x)), "")
                          : LLVMBuildICmp(r->b, LLVMIntNE, x, LLVMConstNull(LLVMTypeOf(x)), "");
    case AN_KIND_FLOAT:
        if (!from_float) return int_to_float(r, from, to, x);
        if (to == AN_F64) return LLVMBuildFPExt(r->b, x, type, "");
        if (from != AN_F64) return cpu_round(r, to, x);
        return to == AN_F32 ? LLVMBuildFPTrunc(r->b, x, type, "") : cpu_round(r, to, double_to_odd_float(r, x));
    default:
        if (from_float) return float_to_int(r, to, x);
        return LLVMBuildIntCast2(r->b, x, type,
                                 an_dtype_kind_of(from) == AN_KIND_INT || an_dtype_kind_of(from) == AN_KIND_INDEX, "");
    }
}

cpu_value cpu_bitcast(cpu_render *r, an_dtype from, an_dtype to, cpu_value x)
{
    return cpu_from_stored(r, to, cpu_as(r, cpu_to_stored(r, from, x), cpu_stored_type(r, to, 1)));
}
