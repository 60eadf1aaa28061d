/* math.c - exp2, log2, sin and erf of f32 by polynomials, the same code for a scalar and for vector lanes. Everything is
 * branch-free but sin, which asks libm about arguments past 2^30.
 *
 * The coefficients are minimax fits of our own (weighted least squares, reweighted until the error is level), each rounded
 * to f32 before those of higher degree are fitted. Errors over all f32 are at most what tests/conformance/test_conformance_math.c
 * allows: exp2 and log2 0.9 ulp, sin 0.501, erf 1.2. */
#include "backend/cpu/emit.h"

#include <math.h>

typedef LLVMValueRef V;
typedef LLVMTypeRef T;

static V real(V like, double v)
{
    return cpu_real(LLVMTypeOf(like), v);
}

static V add(const cpu_emit *e, V x, V y)
{
    return LLVMBuildFAdd(e->b, x, y, "");
}

static V sub(const cpu_emit *e, V x, V y)
{
    return LLVMBuildFSub(e->b, x, y, "");
}

static V mul(const cpu_emit *e, V x, V y)
{
    return LLVMBuildFMul(e->b, x, y, "");
}

static V select(const cpu_emit *e, V c, V x, V y)
{
    return LLVMBuildSelect(e->b, c, x, y, "");
}

static V is(const cpu_emit *e, LLVMRealPredicate p, V x, double y)
{
    return LLVMBuildFCmp(e->b, p, x, real(x, y), "");
}

/* c[0] x^(n-1) + ... + c[n-1] */
static V poly(const cpu_emit *e, V x, const double *c, size_t n)
{
    V p = real(x, c[0]);
    for (size_t i = 1; i < n; i++) p = cpu_fma(e, p, x, real(x, c[i]));
    return p;
}
#define POLY(e, x, c) poly((e), (x), (c), sizeof(c) / sizeof(c)[0])

/* 2^n of an integer vector, -126 <= n <= 127, as f32. */
static V power(const cpu_emit *e, V n)
{
    const T i32 = LLVMTypeOf(n);
    const V bits = LLVMBuildShl(e->b, LLVMBuildAdd(e->b, n, cpu_int(i32, 127), ""), cpu_int(i32, 23), "");
    return LLVMBuildBitCast(e->b, bits, cpu_f32_type(e, i32), "");
}

/* 2^f, |f| <= 1/2. */
static V exp2_part(const cpu_emit *e, V f)
{
    static const double c[] = {0.00015329264, 0.00133909693, 0.00961849932, 0.0555035956, 0.240226477, 0.693147182, 1.0};
    return POLY(e, f, c);
}

/* x = n + f, |f| <= 1/2: n as bits, from which ROUND_BITS are to be taken, and 2^f. Adding 1.5 * 2^23 leaves n in the low bits. Of NaN n is
 * nonsense, but 2^f is NaN. */
enum { ROUND_BITS = 0x4b400000 };

static V exp2_parts(const cpu_emit *e, V x, V *bits)
{
    const double round = 0x1.8p23;
    const V n = add(e, x, real(x, round));
    *bits = LLVMBuildBitCast(e->b, n, cpu_int_type(e, 32, LLVMTypeOf(x)), "");
    return exp2_part(e, sub(e, x, sub(e, n, real(x, round))));
}

/* The same bits by instructions for the steps; NULL where there are none. */
static V exp2_scaled(const cpu_emit *e, V x)
{
    if (!cpu_x86_can_scale(e, x)) return NULL;
    return cpu_x86_scale(e, exp2_part(e, cpu_x86_fraction(e, x)), cpu_unary(e, "llvm.roundeven", x));
}

/* 2^n goes in as two factors, so that a result below the normal numbers is rounded once. */
V cpu_exp2(const cpu_emit *e, V x)
{
    V n = NULL;
    const V scaled = exp2_scaled(e, x);
    if (scaled) return scaled;
    V t = select(e, is(e, LLVMRealOLT, x, -160.0), real(x, -160.0), x);
    t = select(e, is(e, LLVMRealOGT, t, 130.0), real(x, 130.0), t);
    const V p = exp2_parts(e, t, &n);
    const T i32 = LLVMTypeOf(n);
    n = LLVMBuildSub(e->b, n, cpu_int(i32, ROUND_BITS), "");
    const V half = LLVMBuildAShr(e->b, n, cpu_int(i32, 1), "");
    return mul(e, mul(e, p, power(e, half)), power(e, LLVMBuildSub(e->b, n, half, "")));
}

/* The same where -125 <= x <= 126, or NaN: all is normal. */
static V exp2_normal(const cpu_emit *e, V x)
{
    V n = NULL;
    const V scaled = exp2_scaled(e, x);
    if (scaled) return scaled;
    const V p = exp2_parts(e, x, &n);
    return mul(e, p, power(e, LLVMBuildSub(e->b, n, cpu_int(LLVMTypeOf(n), ROUND_BITS), "")));
}

/* x = 2^n m, sqrt(1/2) <= m < sqrt(2), f = m - 1: n + f log2(e) + f^2 Q(f), the small parts first. */
V cpu_log2(const cpu_emit *e, V x)
{
    static const double c[] = {-0.110920765, 0.187390864,  -0.191296011, 0.204438806, -0.239571184,
                               0.288573653,  -0.36069864, 0.480898172,  -0.721347332};
    const double log2e = 1.4426950216293335, log2e_low = 1.92596303e-08;
    const T f32 = LLVMTypeOf(x), i32 = cpu_int_type(e, 32, f32);
    LLVMBuilderRef b = e->b;
    const V tiny = is(e, LLVMRealOLT, x, 0x1p-126);
    const V bits = LLVMBuildBitCast(b, select(e, tiny, mul(e, x, real(x, 0x1p23)), x), i32, "");
    const V root_half = cpu_int(i32, 0x3f3504f3);
    const V d = LLVMBuildSub(b, bits, root_half, "");
    V n = LLVMBuildAShr(b, d, cpu_int(i32, 23), "");
    n = LLVMBuildSub(b, n, select(e, tiny, cpu_int(i32, 23), cpu_int(i32, 0)), "");
    V m = LLVMBuildAdd(b, LLVMBuildAnd(b, d, cpu_int(i32, 0x7fffff), ""), root_half, "");
    const V f = sub(e, LLVMBuildBitCast(b, m, f32, ""), real(x, 1.0));
    V y = cpu_fma(e, mul(e, f, f), POLY(e, f, c), mul(e, f, real(x, log2e_low)));
    y = cpu_fma(e, f, real(x, log2e), y);
    y = add(e, LLVMBuildSIToFP(b, n, f32, ""), y);
    y = select(e, is(e, LLVMRealOEQ, x, (double)INFINITY), x, y);
    y = select(e, is(e, LLVMRealULT, x, 0.0), real(x, (double)NAN), y);
    return select(e, is(e, LLVMRealOEQ, x, 0.0), real(x, -(double)INFINITY), y);
}

/* In f64: x = n pi + r, |r| <= pi/2, by two parts of pi (|n| < 2^29 has room for it), then Taylor's series. */
static V sin_reduced(const cpu_emit *e, V x)
{
    static const double c[] = {-1 / 1307674368000.0, 1 / 6227020800.0, -1 / 39916800.0, 1 / 362880.0,
                               -1 / 5040.0,          1 / 120.0,        -1 / 6.0,        1.0};
    const double round = 0x1.8p52; /* adding it leaves an integer in the low bits */
    const T f64 = LLVMTypeOf(x), i64 = cpu_int_type(e, 64, f64);
    const V t = cpu_fma(e, x, real(x, 0x1.45f306dc9c883p-2), real(x, round));
    const V n = sub(e, t, real(x, round));
    V r = cpu_fma(e, n, real(x, -0x1.921fb54442d18p1), x);
    r = cpu_fma(e, n, real(x, -0x1.1a62633145c07p-53), r);
    const V y = mul(e, r, POLY(e, mul(e, r, r), c));
    const V sign = LLVMBuildShl(e->b, LLVMBuildBitCast(e->b, t, i64, ""), cpu_int(i64, 63), "");
    return LLVMBuildBitCast(e->b, LLVMBuildXor(e->b, LLVMBuildBitCast(e->b, y, i64, ""), sign, ""), f64, "");
}

V cpu_sin(const cpu_emit *e, V x)
{
    const T f32 = LLVMTypeOf(x), f64 = cpu_f64_type(e, f32);
    LLVMBuilderRef b = e->b;
    const V wide = LLVMBuildFPExt(b, x, f64, "");
    const V near = sin_reduced(e, wide);
    V huge = is(e, LLVMRealOGT, cpu_unary(e, "llvm.fabs", x), 0x1p30);
    V any = huge;
    if (cpu_lanes(f32) > 1) any = cpu_unary(e, "llvm.vector.reduce.or", huge);
    const LLVMBasicBlockRef before = LLVMGetInsertBlock(b);
    const LLVMBasicBlockRef far = LLVMAppendBasicBlockInContext(e->llvm, e->fn, "far");
    const LLVMBasicBlockRef after = LLVMAppendBasicBlockInContext(e->llvm, e->fn, "near");
    LLVMBuildCondBr(b, any, far, after);
    LLVMPositionBuilderAtEnd(b, far);
    const V exact = select(e, huge, cpu_call_libm(e, "sin", wide), near);
    const LLVMBasicBlockRef far_end = LLVMGetInsertBlock(b);
    LLVMBuildBr(b, after);
    LLVMPositionBuilderAtEnd(b, after);
    const V y = LLVMBuildPhi(b, f64, "");
    V values[2] = {near, exact};
    LLVMBasicBlockRef blocks[2] = {before, far_end};
    LLVMAddIncoming(y, values, blocks, 2);
    return LLVMBuildFPTrunc(b, y, f32, "");
}

/* Near 0: x + x P(x^2). Past 1: 1 - 2^Q(|x|), Q = log2(erfc); from 4 on that is 1. */
V cpu_erf(const cpu_emit *e, V x)
{
    static const double small[] = {7.80690389e-05, -0.00079978531, 0.0051871622, -0.0268533472,
                                   0.112835787,    -0.37612626,    0.128379166};
    static const double large[] = {-1.06283539e-06, -1.63292571e-05, 0.000546602125, -0.00576233026, 0.0357420966,
                                   -0.155606478,    -0.914182961,    -1.62935352,    0.000217289795};
    const V t = cpu_unary(e, "llvm.fabs", x);
    const V near = cpu_fma(e, x, POLY(e, mul(e, x, x), small), x);
    const V clamped = select(e, is(e, LLVMRealOLT, t, 4.0), t, real(x, 4.0));
    const V far = sub(e, real(x, 1.0), exp2_normal(e, POLY(e, clamped, large))); /* Q(4) is about -26 */
    T type = LLVMTypeOf(x);
    V args[2] = {far, x};
    const V signed_far = cpu_intrinsic(e, "llvm.copysign", &type, 1, args, 2);
    return select(e, is(e, LLVMRealULT, t, 1.0), near, signed_far); /* NaN: near keeps it */
}
