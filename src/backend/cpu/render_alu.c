/* render_alu.c - elementwise ops by table: one column for floats, one for integers, one for bool. The values are those
 * of ir/eval.c, to the bit; integers never trap. */
#include "backend/cpu/render.h"

typedef cpu_value (*alu)(cpu_render *r, an_dtype dtype, const cpu_value *s);

static bool is_signed(an_dtype dtype)
{
    return an_dtype_kind_of(dtype) != AN_KIND_UINT && dtype != AN_BOOL;
}

static cpu_value zero_like(cpu_value x)
{
    return LLVMConstNull(LLVMTypeOf(x));
}

cpu_value cpu_select(cpu_render *r, cpu_value c, cpu_value x, cpu_value y)
{
    return LLVMBuildSelect(r->b, c, x, y, "");
}

cpu_value cpu_intrinsic(cpu_render *r, const char *name, cpu_value *args, uint32_t nargs)
{
    LLVMTypeRef type = LLVMTypeOf(args[0]);
    const unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    const cpu_value fn = LLVMGetIntrinsicDeclaration(r->module, id, &type, 1);
    return LLVMBuildCall2(r->b, LLVMIntrinsicGetType(r->llvm, id, &type, 1), fn, args, nargs, "");
}

/* --- floats ------------------------------------------------------------------------------------ */

static cpu_value f_add(cpu_render *r, an_dtype d, const cpu_value *s)
{
    (void)d;
    return LLVMBuildFAdd(r->b, s[0], s[1], "");
}

static cpu_value f_mul(cpu_render *r, an_dtype d, const cpu_value *s)
{
    (void)d;
    return LLVMBuildFMul(r->b, s[0], s[1], "");
}

static cpu_value f_div(cpu_render *r, an_dtype d, const cpu_value *s)
{
    (void)d;
    return LLVMBuildFDiv(r->b, s[0], s[1], "");
}

/* y where `y is better`, else x; then y where y is NaN. A NaN in x stays, as no comparison with it holds. */
static cpu_value f_pick(cpu_render *r, LLVMRealPredicate better, const cpu_value *s)
{
    const cpu_value v = cpu_select(r, LLVMBuildFCmp(r->b, better, s[0], s[1], ""), s[1], s[0]);
    return cpu_select(r, LLVMBuildFCmp(r->b, LLVMRealUNO, s[1], s[1], ""), s[1], v);
}

static cpu_value f_max(cpu_render *r, an_dtype d, const cpu_value *s)
{
    (void)d;
    return f_pick(r, LLVMRealOLT, s);
}

static cpu_value f_min(cpu_render *r, an_dtype d, const cpu_value *s)
{
    (void)d;
    return f_pick(r, LLVMRealOGT, s);
}

static cpu_value f_sqrt(cpu_render *r, an_dtype d, const cpu_value *s)
{
    (void)d;
    cpu_value x = s[0];
    return cpu_intrinsic(r, "llvm.sqrt", &x, 1);
}

static cpu_value f_trunc(cpu_render *r, an_dtype d, const cpu_value *s)
{
    (void)d;
    cpu_value x = s[0];
    return cpu_intrinsic(r, "llvm.trunc", &x, 1);
}

static cpu_value f_mulacc(cpu_render *r, an_dtype d, const cpu_value *s)
{
    (void)d;
    cpu_value args[3] = {s[0], s[1], s[2]};
    return cpu_intrinsic(r, "llvm.fma", args, 3);
}

static cpu_value f_cmplt(cpu_render *r, an_dtype d, const cpu_value *s)
{
    (void)d;
    return LLVMBuildFCmp(r->b, LLVMRealOLT, s[0], s[1], "");
}

static cpu_value f_cmpeq(cpu_render *r, an_dtype d, const cpu_value *s)
{
    (void)d;
    return LLVMBuildFCmp(r->b, LLVMRealOEQ, s[0], s[1], "");
}

static cpu_value f_cmpne(cpu_render *r, an_dtype d, const cpu_value *s)
{
    (void)d;
    return LLVMBuildFCmp(r->b, LLVMRealUNE, s[0], s[1], "");
}

/* --- integers ---------------------------------------------------------------------------------- */

/* index is exact (SEMANTICS): what overflows does not occur, and LLVM may know. */
static cpu_value i_add(cpu_render *r, an_dtype d, const cpu_value *s)
{
    return d == AN_INDEX ? LLVMBuildNSWAdd(r->b, s[0], s[1], "") : LLVMBuildAdd(r->b, s[0], s[1], "");
}

static cpu_value i_mul(cpu_render *r, an_dtype d, const cpu_value *s)
{
    return d == AN_INDEX ? LLVMBuildNSWMul(r->b, s[0], s[1], "") : LLVMBuildMul(r->b, s[0], s[1], "");
}

static cpu_value i_mulacc(cpu_render *r, an_dtype d, const cpu_value *s)
{
    const cpu_value pair[2] = {i_mul(r, d, s), s[2]};
    return i_add(r, d, pair);
}

/* What makes a division safe: a divisor that is neither 0 nor, for signed numbers, -1. */
typedef struct division {
    cpu_value by_zero, by_minus_one; /* the second NULL for unsigned numbers */
    cpu_value divisor;
} division;

static division guard(cpu_render *r, an_dtype d, cpu_value y)
{
    division v = {.by_zero = LLVMBuildICmp(r->b, LLVMIntEQ, y, zero_like(y), "")};
    cpu_value odd = v.by_zero;
    if (is_signed(d)) {
        v.by_minus_one = LLVMBuildICmp(r->b, LLVMIntEQ, y, cpu_int(LLVMTypeOf(y), -1), "");
        odd = LLVMBuildOr(r->b, odd, v.by_minus_one, "");
    }
    v.divisor = cpu_select(r, odd, cpu_int(LLVMTypeOf(y), 1), y);
    return v;
}

static cpu_value i_idiv(cpu_render *r, an_dtype d, const cpu_value *s)
{
    const division v = guard(r, d, s[1]);
    cpu_value q = is_signed(d) ? LLVMBuildSDiv(r->b, s[0], v.divisor, "") : LLVMBuildUDiv(r->b, s[0], v.divisor, "");
    if (v.by_minus_one) q = cpu_select(r, v.by_minus_one, LLVMBuildSub(r->b, zero_like(q), s[0], ""), q);
    return cpu_select(r, v.by_zero, zero_like(q), q);
}

/* By 0, 1 and -1 the remainder is 0, so the safe divisor gives it. */
static cpu_value i_imod(cpu_render *r, an_dtype d, const cpu_value *s)
{
    const division v = guard(r, d, s[1]);
    return is_signed(d) ? LLVMBuildSRem(r->b, s[0], v.divisor, "") : LLVMBuildURem(r->b, s[0], v.divisor, "");
}

/* Whether truncation went up: there is a remainder, and its sign is not that of the divisor. */
static cpu_value went_up(cpu_render *r, cpu_value rem, cpu_value y)
{
    const cpu_value differ = LLVMBuildICmp(r->b, LLVMIntSLT, LLVMBuildXor(r->b, rem, y, ""), zero_like(y), "");
    return LLVMBuildAnd(r->b, LLVMBuildICmp(r->b, LLVMIntNE, rem, zero_like(rem), ""), differ, "");
}

static cpu_value i_floordiv(cpu_render *r, an_dtype d, const cpu_value *s)
{
    const cpu_value q = i_idiv(r, d, s);
    if (!is_signed(d)) return q;
    const cpu_value up = went_up(r, i_imod(r, d, s), s[1]);
    return LLVMBuildSub(r->b, q, LLVMBuildZExt(r->b, up, LLVMTypeOf(q), ""), "");
}

static cpu_value i_floormod(cpu_render *r, an_dtype d, const cpu_value *s)
{
    const cpu_value m = i_imod(r, d, s);
    if (!is_signed(d)) return m;
    return cpu_select(r, went_up(r, m, s[1]), LLVMBuildAdd(r->b, m, s[1], ""), m);
}

static cpu_value i_max(cpu_render *r, an_dtype d, const cpu_value *s)
{
    cpu_value args[2] = {s[0], s[1]};
    return cpu_intrinsic(r, is_signed(d) ? "llvm.smax" : "llvm.umax", args, 2);
}

static cpu_value i_min(cpu_render *r, an_dtype d, const cpu_value *s)
{
    cpu_value args[2] = {s[0], s[1]};
    return cpu_intrinsic(r, is_signed(d) ? "llvm.smin" : "llvm.umin", args, 2);
}

static cpu_value i_and(cpu_render *r, an_dtype d, const cpu_value *s)
{
    (void)d;
    return LLVMBuildAnd(r->b, s[0], s[1], "");
}

static cpu_value i_or(cpu_render *r, an_dtype d, const cpu_value *s)
{
    (void)d;
    return LLVMBuildOr(r->b, s[0], s[1], "");
}

static cpu_value i_xor(cpu_render *r, an_dtype d, const cpu_value *s)
{
    (void)d;
    return LLVMBuildXor(r->b, s[0], s[1], "");
}

/* A negative count is a large one, as unsigned comparison has it. */
static cpu_value shift(cpu_render *r, an_dtype d, const cpu_value *s, bool left)
{
    const LLVMTypeRef type = LLVMTypeOf(s[1]);
    const int64_t bits = 8 * (int64_t)an_dtype_nbytes(d);
    const cpu_value in_range = LLVMBuildICmp(r->b, LLVMIntULT, s[1], cpu_int(type, bits), "");
    if (!left && is_signed(d)) return LLVMBuildAShr(r->b, s[0], cpu_select(r, in_range, s[1], cpu_int(type, bits - 1)), "");
    const cpu_value count = cpu_select(r, in_range, s[1], zero_like(s[1]));
    const cpu_value v = left ? LLVMBuildShl(r->b, s[0], count, "") : LLVMBuildLShr(r->b, s[0], count, "");
    return cpu_select(r, in_range, v, zero_like(v));
}

static cpu_value i_shl(cpu_render *r, an_dtype d, const cpu_value *s)
{
    return shift(r, d, s, true);
}

static cpu_value i_shr(cpu_render *r, an_dtype d, const cpu_value *s)
{
    return shift(r, d, s, false);
}

static cpu_value i_cmplt(cpu_render *r, an_dtype d, const cpu_value *s)
{
    return LLVMBuildICmp(r->b, is_signed(d) ? LLVMIntSLT : LLVMIntULT, s[0], s[1], "");
}

static cpu_value i_cmpeq(cpu_render *r, an_dtype d, const cpu_value *s)
{
    (void)d;
    return LLVMBuildICmp(r->b, LLVMIntEQ, s[0], s[1], "");
}

static cpu_value i_cmpne(cpu_render *r, an_dtype d, const cpu_value *s)
{
    (void)d;
    return LLVMBuildICmp(r->b, LLVMIntNE, s[0], s[1], "");
}

/* --- bool: and, or; the rest follows ----------------------------------------------------------- */

static cpu_value b_false(cpu_render *r, an_dtype d, const cpu_value *s)
{
    (void)r, (void)d;
    return zero_like(s[0]);
}

static cpu_value b_first(cpu_render *r, an_dtype d, const cpu_value *s)
{
    (void)r, (void)d;
    return s[0];
}

static cpu_value b_shr(cpu_render *r, an_dtype d, const cpu_value *s)
{
    (void)d;
    return LLVMBuildAnd(r->b, s[0], LLVMBuildNot(r->b, s[1], ""), "");
}

static cpu_value b_mulacc(cpu_render *r, an_dtype d, const cpu_value *s)
{
    (void)d;
    return LLVMBuildOr(r->b, LLVMBuildAnd(r->b, s[0], s[1], ""), s[2], "");
}

static cpu_value any_where(cpu_render *r, an_dtype d, const cpu_value *s)
{
    (void)d;
    return cpu_select(r, s[0], s[1], s[2]);
}

typedef struct alu_row {
    alu of_float, of_int, of_bool;
} alu_row;

static const alu_row rows[AN_OP_COUNT] = {
    [AN_OP_SQRT] = {f_sqrt, NULL, NULL},
    [AN_OP_EXP2] = {cpu_exp2, NULL, NULL},
    [AN_OP_LOG2] = {cpu_log2, NULL, NULL},
    [AN_OP_SIN] = {cpu_sin, NULL, NULL},
    [AN_OP_ERF] = {cpu_erf, NULL, NULL},
    [AN_OP_TRUNC] = {f_trunc, NULL, NULL},
    [AN_OP_ADD] = {f_add, i_add, i_or},
    [AN_OP_MUL] = {f_mul, i_mul, i_and},
    [AN_OP_DIV] = {f_div, NULL, NULL},
    [AN_OP_IDIV] = {NULL, i_idiv, i_and},
    [AN_OP_IMOD] = {NULL, i_imod, b_false},
    [AN_OP_FLOORDIV] = {NULL, i_floordiv, i_and},
    [AN_OP_FLOORMOD] = {NULL, i_floormod, b_false},
    [AN_OP_MAX] = {f_max, i_max, i_or},
    [AN_OP_MIN] = {f_min, i_min, i_and},
    [AN_OP_AND] = {NULL, i_and, i_and},
    [AN_OP_OR] = {NULL, i_or, i_or},
    [AN_OP_XOR] = {NULL, i_xor, i_xor},
    [AN_OP_SHL] = {NULL, i_shl, b_first},
    [AN_OP_SHR] = {NULL, i_shr, b_shr},
    [AN_OP_CMPLT] = {f_cmplt, i_cmplt, i_cmplt},
    [AN_OP_CMPEQ] = {f_cmpeq, i_cmpeq, i_cmpeq},
    [AN_OP_CMPNE] = {f_cmpne, i_cmpne, i_cmpne},
    [AN_OP_WHERE] = {any_where, any_where, any_where},
    [AN_OP_MULACC] = {f_mulacc, i_mulacc, b_mulacc},
};

cpu_value cpu_alu(cpu_render *r, an_op op, an_dtype dtype, const cpu_value *src)
{
    const bool is_float = an_dtype_kind_of(dtype) == AN_KIND_FLOAT;
    const alu f = is_float ? rows[op].of_float : dtype == AN_BOOL ? rows[op].of_bool : rows[op].of_int;
    if (!f) return NULL;
    const cpu_value v = f(r, dtype, src);
    return an_op_has(op, AN_TRAIT_CMP) || op == AN_OP_WHERE ? v : cpu_round(r, dtype, v);
}

/* --- over lanes -------------------------------------------------------------------------------- */

static cpu_value lanes_from(cpu_render *r, cpu_value x, uint32_t first, uint32_t n)
{
    const LLVMTypeRef i32 = LLVMInt32TypeInContext(r->llvm);
    if (n == 1) return LLVMBuildExtractElement(r->b, x, LLVMConstInt(i32, first, false), "");
    cpu_value mask[AN_LANES_MAX];
    for (uint32_t i = 0; i < n; i++) mask[i] = LLVMConstInt(i32, first + i, false);
    return LLVMBuildShuffleVector(r->b, x, LLVMGetPoison(LLVMTypeOf(x)), LLVMConstVector(mask, n), "");
}

/* halves and the middle one, behind each other, in a vector */
static cpu_value with_last(cpu_render *r, cpu_value x, uint32_t n, cpu_value last)
{
    const LLVMTypeRef i32 = LLVMInt32TypeInContext(r->llvm), wide = LLVMVectorType(LLVMTypeOf(last), n + 1);
    cpu_value v = LLVMGetPoison(wide);
    if (n == 1) {
        v = LLVMBuildInsertElement(r->b, v, x, LLVMConstInt(i32, 0, false), "");
    } else {
        cpu_value mask[AN_LANES_MAX];
        for (uint32_t i = 0; i <= n; i++) mask[i] = LLVMConstInt(i32, i < n ? i : 0, false);
        v = LLVMBuildShuffleVector(r->b, x, LLVMGetPoison(LLVMTypeOf(x)), LLVMConstVector(mask, n + 1), "");
    }
    return LLVMBuildInsertElement(r->b, v, last, LLVMConstInt(i32, n, false), "");
}

cpu_value cpu_reduce_lanes(cpu_render *r, an_op op, an_dtype dtype, cpu_value x)
{
    for (uint32_t n = cpu_lanes(x); n > 1; n = (n + 1) / 2) {
        const uint32_t half = n / 2, upper = n - half; /* an odd one has its middle lane left over */
        const cpu_value pair[2] = {lanes_from(r, x, 0, half), lanes_from(r, x, upper, half)};
        const cpu_value joined = cpu_alu(r, op, dtype, pair);
        if (!joined) return NULL;
        x = half == upper ? joined : with_last(r, joined, half, lanes_from(r, x, half, 1));
    }
    return x;
}
