/* arith.c - elementwise operations, to the letter of docs/SEMANTICS.md.
 *
 * A table gives each op of each class of register an expression; $0, $1, $2 are its operands. Results narrower than their
 * register are wrapped or rounded after it. */
#include "backend/webgpu/wgsl/emit.h"

#include <stdio.h>
#include <stdlib.h>

enum { EXPR_MAX = 512 };

/* Of ops that keep the class, and comparisons. By class: bool, i32, u32, i64, u64, f32. NULL: there is none. */
static const struct {
    an_op op;
    const char *text[WGSL_NCLASSES];
} rows[] = {
    {AN_OP_ADD, {"$0 | $1", "$0 + $1", "$0 + $1", "an_add64($0, $1)", "an_add64($0, $1)", "$0 + $1"}},
    {AN_OP_MUL, {"$0 & $1", "$0 * $1", "$0 * $1", "an_mul64($0, $1)", "an_mul64($0, $1)", "$0 * $1"}},
    {AN_OP_MULACC,
     {"($0 & $1) | $2", "$0 * $1 + $2", "$0 * $1 + $2", "an_add64(an_mul64($0, $1), $2)", "an_add64(an_mul64($0, $1), $2)",
      "an_fma($0, $1, $2)"}},
    {AN_OP_DIV, {NULL, NULL, NULL, NULL, NULL, "an_div($0, $1)"}},
    {AN_OP_IDIV, {NULL, "an_div_i32($0, $1)", "an_div_u32($0, $1)", "an_div_i64($0, $1)", "an_div_u64($0, $1)", NULL}},
    {AN_OP_IMOD, {NULL, "an_mod_i32($0, $1)", "an_mod_u32($0, $1)", "an_mod_i64($0, $1)", "an_mod_u64($0, $1)", NULL}},
    {AN_OP_FLOORDIV, {NULL, "an_floordiv_i32($0, $1)", "an_div_u32($0, $1)", "an_floordiv_i64($0, $1)", "an_div_u64($0, $1)", NULL}},
    {AN_OP_FLOORMOD, {NULL, "an_floormod_i32($0, $1)", "an_mod_u32($0, $1)", "an_floormod_i64($0, $1)", "an_mod_u64($0, $1)", NULL}},
    {AN_OP_MAX,
     {"$0 | $1", "max($0, $1)", "max($0, $1)", "select($0, $1, an_less_i64($0, $1))", "select($0, $1, an_less_u64($0, $1))",
      "an_max($0, $1)"}},
    {AN_OP_MIN,
     {"$0 & $1", "min($0, $1)", "min($0, $1)", "select($0, $1, an_less_i64($1, $0))", "select($0, $1, an_less_u64($1, $0))",
      "an_min($0, $1)"}},
    {AN_OP_AND, {"$0 & $1", "$0 & $1", "$0 & $1", "$0 & $1", "$0 & $1", NULL}},
    {AN_OP_OR, {"$0 | $1", "$0 | $1", "$0 | $1", "$0 | $1", "$0 | $1", NULL}},
    {AN_OP_XOR, {"$0 != $1", "$0 ^ $1", "$0 ^ $1", "$0 ^ $1", "$0 ^ $1", NULL}},
    {AN_OP_SHL, {NULL, "an_shl_i32($0, $1)", "an_shl_u32($0, $1)", "an_shl64($0, $1)", "an_shl64($0, $1)", NULL}},
    {AN_OP_SHR, {NULL, "an_shr_i32($0, $1)", "an_shr_u32($0, $1)", "an_shr_i64($0, $1)", "an_shr_u64($0, $1)", NULL}},
    {AN_OP_CMPLT,
     {"!$0 & $1", "$0 < $1", "$0 < $1", "an_less_i64($0, $1)", "an_less_u64($0, $1)", "an_less($0, $1)"}},
    {AN_OP_CMPEQ, {"$0 == $1", "$0 == $1", "$0 == $1", "all($0 == $1)", "all($0 == $1)", "an_equal($0, $1)"}},
    {AN_OP_CMPNE, {"$0 != $1", "$0 != $1", "$0 != $1", "any($0 != $1)", "any($0 != $1)", "!an_equal($0, $1)"}},
    {AN_OP_WHERE,
     {"select($2, $1, $0)", "select($2, $1, $0)", "select($2, $1, $0)", "select($2, $1, $0)", "select($2, $1, $0)",
      "select($2, $1, $0)"}},
    {AN_OP_SQRT, {NULL, NULL, NULL, NULL, NULL, "an_sqrt($0)"}},
    {AN_OP_EXP2, {NULL, NULL, NULL, NULL, NULL, "an_exp2($0)"}},
    {AN_OP_LOG2, {NULL, NULL, NULL, NULL, NULL, "an_log2($0)"}},
    {AN_OP_SIN, {NULL, NULL, NULL, NULL, NULL, "an_sin($0)"}},
    {AN_OP_ERF, {NULL, NULL, NULL, NULL, NULL, "an_erf($0)"}},
    {AN_OP_TRUNC, {NULL, NULL, NULL, NULL, NULL, "an_trunc($0)"}},
};

/* From the class of a source to that of a cast's result. */
static const char *const casts[WGSL_NCLASSES][WGSL_NCLASSES] = {
    [WGSL_BOOL] = {"$0", "select(0, 1, $0)", "select(0u, 1u, $0)", "vec2<u32>(select(0u, 1u, $0), 0u)",
                   "vec2<u32>(select(0u, 1u, $0), 0u)", "select(0.0f, 1.0f, $0)"},
    [WGSL_I32] = {"$0 != 0", "$0", "u32($0)", "an_widen_i32($0)", "an_widen_i32($0)", "an_f32_of_i32($0)"},
    [WGSL_U32] = {"$0 != 0u", "i32($0)", "$0", "vec2<u32>($0, 0u)", "vec2<u32>($0, 0u)", "an_f32_of_u32($0)"},
    [WGSL_I64] = {"any($0 != vec2<u32>(0u, 0u))", "i32($0.x)", "$0.x", "$0", "$0", "an_f32_of_i64($0)"},
    [WGSL_U64] = {"any($0 != vec2<u32>(0u, 0u))", "i32($0.x)", "$0.x", "$0", "$0", "an_f32_of_u64($0)"},
    [WGSL_F32] = {"!an_equal($0, 0.0f)", "an_i32_of_f32($0)", "an_u32_of_f32($0)", "an_i64_of_f32($0)", "an_u64_of_f32($0)", "$0"},
};

/* Replaces $0, $1, $2. A plain binary expression is put in parentheses by whoever nests it: nobody does, each is a let. */
static bool fill(char *out, size_t size, const char *text, const char *const *s)
{
    size_t n = 0;
    for (; *text; text++) {
        const char *from = text;
        size_t len = 1;
        if (*text == '$') {
            from = s[*++text - '0'];
            len = strlen(from);
        }
        if (n + len + 1 > size) return false;
        memcpy(out + n, from, len);
        n += len;
    }
    out[n] = '\0';
    return true;
}

/* A value of dtype from one that its register can hold. */
static void wrap(an_dtype dtype, char *expr)
{
    static const struct {
        an_dtype dtype;
        const char *text;
    } wraps[] = {
        {AN_I8, "(($0) << 24u) >> 24u"},       {AN_I16, "(($0) << 16u) >> 16u"},     {AN_U8, "($0) & 0xffu"},
        {AN_U16, "($0) & 0xffffu"},            {AN_F16, "an_round_f16($0)"},         {AN_BF16, "an_round_bf16($0)"},
        {AN_F8E4M3, "an_round_f8e4m3($0)"},    {AN_F8E5M2, "an_round_f8e5m2($0)"},
    };
    char before[EXPR_MAX];
    const char *s[1] = {before};
    for (size_t i = 0; i < sizeof wraps / sizeof wraps[0]; i++) {
        if (wraps[i].dtype != dtype) continue;
        memcpy(before, expr, strlen(expr) + 1);
        (void)fill(expr, EXPR_MAX, wraps[i].text, s);
    }
}

static const char *row_text(an_op op, wgsl_class class)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].op == op) return rows[i].text[class];
    return NULL;
}

/* Can the result lie outside of a dtype narrower than its register? */
static bool needs_wrap(an_op op)
{
    switch (op) {
    case AN_OP_MAX:
    case AN_OP_MIN:
    case AN_OP_WHERE:
    case AN_OP_TRUNC:
    case AN_OP_AND:
    case AN_OP_OR:
    case AN_OP_XOR:
    case AN_OP_CMPLT:
    case AN_OP_CMPEQ:
    case AN_OP_CMPNE: return false;
    default: return true;
    }
}

static bool expression(an_op op, an_dtype dtype, const char *const *s, char *expr)
{
    const char *text = row_text(op, wgsl_class_of(dtype));
    if (!text || !fill(expr, EXPR_MAX, text, s)) return false;
    if (needs_wrap(op)) wrap(dtype, expr);
    return true;
}

bool wgsl_binary(wgsl_emit *e, an_op op, an_dtype dtype, const char *x, const char *y, char *expr, size_t size)
{
    char text[EXPR_MAX];
    const char *const s[3] = {x, y, ""};
    (void)e;
    if (!expression(op, dtype, s, text) || strlen(text) >= size) return false;
    memcpy(expr, text, strlen(text) + 1);
    return true;
}

/* Forms of ops where what is known of the operands allows cheaper ones, or asks for others: compilers take x * 0 for 0, which it is not
 * where x is infinite or NaN. */
static const char *shortcut(wgsl_emit *e, an_uop u)
{
    const an_op op = an_uop_op(e->g, u);
    const wgsl_class class = wgsl_class_of(an_uop_dtype(e->g, u));
    if (class == WGSL_F32 && (op == AN_OP_MUL || op == AN_OP_MULACC))
        for (uint32_t i = 0; i < 2; i++) {
            const an_uop s = an_uop_src(e->g, u, i);
            if (!an_uop_is_number(e->g, an_uop_op(e->g, s) == AN_OP_BROADCAST ? an_uop_src(e->g, s, 0) : s, 0.0)) continue;
            if (op == AN_OP_MULACC) return i ? "an_fma($0, an_keep($1), $2)" : "an_fma(an_keep($0), $1, $2)";
            return i ? "$0 * an_keep($1)" : "an_keep($0) * $1";
        }
    if (class != WGSL_I32 && class != WGSL_U32) return NULL;
    const bool is_signed = class == WGSL_I32;
    int64_t c = 0;
    if (an_uop_nsrc(e->g, u) != 2) return NULL;
    const an_uop x = an_uop_src(e->g, u, 0);
    an_uop y = an_uop_src(e->g, u, 1);
    if (an_uop_op(e->g, y) == AN_OP_BROADCAST) y = an_uop_src(e->g, y, 0);
    if (!an_uop_int(e->g, y, &c) || c <= 0) return NULL;
    const bool natural = is_signed && an_bounds_get(&e->bounds, x).lo >= 0;
    switch (op) {
    case AN_OP_IDIV:
    case AN_OP_FLOORDIV:
        if (!is_signed || (op == AN_OP_IDIV && !natural)) return "$0 / $1";
        return natural ? "i32(u32($0) / u32($1))" : NULL;
    case AN_OP_IMOD:
    case AN_OP_FLOORMOD:
        if (!is_signed || (op == AN_OP_IMOD && !natural)) return "$0 % $1";
        return natural ? "i32(u32($0) % u32($1))" : NULL;
    case AN_OP_SHL: return c < 32 ? (is_signed ? "$0 << u32($1)" : "$0 << $1") : NULL;
    case AN_OP_SHR: return c < 32 ? (is_signed ? "$0 >> u32($1)" : "$0 >> $1") : NULL;
    default: return NULL;
    }
}

/* i32 and u32 values that a bitcast of a type narrower than its register goes through. */
static bool bitcast(an_dtype from, an_dtype to, const char *x, char *expr)
{
    static const struct {
        an_dtype dtype;
        const char *bits, *value; /* to u32 bits, and back */
    } forms[] = {
        {AN_BOOL, "select(0u, 1u, $0)", "$0 != 0u"},
        {AN_I8, "u32($0) & 0xffu", "i32(($0) << 24u) >> 24u"},
        {AN_I16, "u32($0) & 0xffffu", "i32(($0) << 16u) >> 16u"},
        {AN_I32, "bitcast<u32>($0)", "bitcast<i32>($0)"},
        {AN_U8, "$0", "$0"},
        {AN_U16, "$0", "$0"},
        {AN_U32, "$0", "$0"},
        {AN_I64, "$0", "$0"},
        {AN_U64, "$0", "$0"},
        {AN_F8E4M3, "an_bits_f8e4m3($0)", "an_from_f8e4m3($0)"},
        {AN_F8E5M2, "an_bits_f8e5m2($0)", "an_from_f8e5m2($0)"},
        {AN_F16, "an_bits_f16($0)", "an_from_f16($0)"},
        {AN_BF16, "an_bits_bf16($0)", "an_from_bf16($0)"},
        {AN_F32, "bitcast<u32>($0)", "bitcast<f32>($0)"},
    };
    const char *bits = NULL, *value = NULL;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (forms[i].dtype == from) bits = forms[i].bits;
        if (forms[i].dtype == to) value = forms[i].value;
    }
    char middle[EXPR_MAX];
    const char *const s[1] = {x}, *const m[1] = {middle};
    return bits && value && fill(middle, sizeof middle, bits, s) && fill(expr, EXPR_MAX, value, m);
}

static bool cast(an_dtype from, an_dtype to, const char *x, char *expr)
{
    const wgsl_class a = wgsl_class_of(from), b = wgsl_class_of(to);
    const char *const s[1] = {x};
    const char *text = casts[a][b];
    const bool wide = a == WGSL_I64 || a == WGSL_U64;
    if (to == AN_INDEX && wide) text = a == WGSL_I64 ? "an_index_of_i64($0)" : "an_index_of_u64($0)"; /* far out stays far out */
    if (to == AN_INDEX && from == AN_U32) text = "i32(min($0, 0x7fffffffu))";
    if (a == WGSL_F32 && (b == WGSL_I32 || b == WGSL_U32) && an_dtype_nbytes(to) < 4) { /* saturates at the ends of the type */
        static const struct {
            an_dtype dtype;
            const char *text;
        } narrow[] = {{AN_I8, "clamp(an_i32_of_f32($0), -128, 127)"},
                      {AN_I16, "clamp(an_i32_of_f32($0), -32768, 32767)"},
                      {AN_U8, "min(an_u32_of_f32($0), 255u)"},
                      {AN_U16, "min(an_u32_of_f32($0), 65535u)"}};
        for (size_t i = 0; i < sizeof narrow / sizeof narrow[0]; i++)
            if (narrow[i].dtype == to) return fill(expr, EXPR_MAX, narrow[i].text, s);
    }
    if (wgsl_is_narrow(to) && a != WGSL_F32 && a != WGSL_BOOL && an_dtype_nbytes(from) > 2) { /* one rounding, by way of odd */
        static const char *const odd[WGSL_NCLASSES] = {[WGSL_I32] = "an_odd_of_i64(an_widen_i32($0))",
                                                       [WGSL_U32] = "an_odd_of_u64(vec2<u32>($0, 0u))",
                                                       [WGSL_I64] = "an_odd_of_i64($0)",
                                                       [WGSL_U64] = "an_odd_of_u64($0)"};
        text = odd[a];
    }
    if (!text || !fill(expr, EXPR_MAX, text, s)) return false;
    if (from != to) wrap(to, expr);
    return true;
}

/* With nothing but constants to work on, WGSL would compute at compile time, and refuse what overflows: the first operand
 * goes through a variable. */
static void hide_constant(wgsl_emit *e, const char *type, char *operand)
{
    wgsl_line(e, "var k%u: %s = %s;", e->ntemps, type, operand);
    (void)snprintf(operand, WGSL_OPERAND_MAX, "k%u", e->ntemps++);
}

static bool is_const(const wgsl_emit *e, an_uop u)
{
    if (an_uop_op(e->g, u) == AN_OP_BROADCAST) u = an_uop_src(e->g, u, 0);
    return an_uop_op(e->g, u) == AN_OP_CONST || an_uop_op(e->g, u) == AN_OP_RAMP || an_uop_op(e->g, u) == AN_OP_VECTOR;
}

/* Sums and products of index constants, lane by lane: what is left of strides. */
static bool index_of_constants(an_op op, an_dtype dtype, const char *x, const char *y, char *expr)
{
    if (dtype != AN_INDEX || (op != AN_OP_ADD && op != AN_OP_MUL) || x[0] < '0' || x[0] > '9' || y[0] < '0' || y[0] > '9') return false;
    const long long a = strtoll(x, NULL, 10), b = strtoll(y, NULL, 10), v = op == AN_OP_ADD ? a + b : a * b;
    if (v > INT32_MAX) return false;
    (void)snprintf(expr, EXPR_MAX, "%lld", v);
    return true;
}

/* Lanes of x y + z by fours, where fma is a function of ours that is not to be written out for each. */
static an_status fma_by_fours(wgsl_emit *e, an_uop u)
{
    const uint32_t lanes = an_uop_lanes(e->g, u);
    const an_dtype dtype = an_uop_dtype(e->g, u);
    for (uint32_t first = 0; first < lanes; first += 4) {
        const uint32_t n = lanes - first < 4 ? lanes - first : 4, temp = e->ntemps++;
        char v[3][4][WGSL_OPERAND_MAX];
        for (uint32_t i = 0; i < 3; i++)
            for (uint32_t l = 0; l < 4; l++) wgsl_operand(e, an_uop_src(e->g, u, i), first + (l < n ? l : n - 1), v[i][l]);
        wgsl_line(e, "let t%u = an_fma4(%u, vec4<f32>(%s, %s, %s, %s), vec4<f32>(%s, %s, %s, %s), vec4<f32>(%s, %s, %s, %s));", temp, n,
                  v[0][0], v[0][1], v[0][2], v[0][3], v[1][0], v[1][1], v[1][2], v[1][3], v[2][0], v[2][1], v[2][2], v[2][3]);
        for (uint32_t l = 0; l < n; l++) {
            char expr[EXPR_MAX];
            (void)snprintf(expr, sizeof expr, "t%u[%u]", temp, l);
            wrap(dtype, expr);
            wgsl_define(e, u, first + l, expr);
        }
    }
    return AN_OK;
}

/* Products by a power of two: exact, whatever is done with them. */
static bool is_exact(const wgsl_emit *e, an_uop product)
{
    static const double powers[] = {-1.0, 1.0, 0.5, -0.5, 2.0, -2.0};
    for (uint32_t s = 0; s < 2; s++) {
        an_uop x = an_uop_src(e->g, product, s);
        if (an_uop_op(e->g, x) == AN_OP_BROADCAST) x = an_uop_src(e->g, x, 0);
        for (size_t i = 0; i < sizeof powers / sizeof powers[0]; i++)
            if (an_uop_is_number(e->g, x, powers[i])) return true;
    }
    return false;
}

static bool is_sum_or_product(const wgsl_emit *e, an_uop u)
{
    return (an_uop_op(e->g, u) == AN_OP_ADD || an_uop_op(e->g, u) == AN_OP_MUL) && wgsl_class_of(an_uop_dtype(e->g, u)) == WGSL_F32;
}

/* x is an operand of a sum or product: where it is one itself it is kept, looked for behind one factor that is exact. An accumulator goes on. */
static void keep_operand(wgsl_emit *e, an_uop x)
{
    for (bool again = true; again;) {
        again = false;
        while (an_uop_op(e->g, x) == AN_OP_BROADCAST || an_uop_op(e->g, x) == AN_OP_LANE) x = an_uop_src(e->g, x, 0);
        if (!is_sum_or_product(e, x)) return;
        const an_uop a = an_uop_src(e->g, x, 0), b = an_uop_src(e->g, x, 1);
        if (an_uop_op(e->g, a) == AN_OP_ACC || an_uop_op(e->g, b) == AN_OP_ACC) return;
        again = an_uop_op(e->g, x) == AN_OP_MUL && is_exact(e, x);
        if (!again) e->is_kept[wgsl_place(e, x)] = true;
        x = is_const(e, a) ? b : a;
    }
}

/* Compilers take a * b + c for one instruction, which rounds once, and (a * b) * c for a * (b * c): here and not there, so that one value,
 * computed in two kernels, is two, and what is compared with its maximum is not found. So what is rounded on the way is kept (prelude.c). */
void wgsl_find_kept(wgsl_emit *e)
{
    for (size_t i = 0; i < e->kernel->nlinear; i++)
        for (uint32_t s = 0; s < 2 && is_sum_or_product(e, e->kernel->linear[i]); s++) keep_operand(e, an_uop_src(e->g, e->kernel->linear[i], s));
}

an_status wgsl_emit_elementwise(wgsl_emit *e, an_uop u)
{
    const an_op op = an_uop_op(e->g, u);
    const uint32_t nsrc = an_uop_nsrc(e->g, u), lanes = an_uop_lanes(e->g, u);
    if (!an_op_has(op, AN_TRAIT_ELEM) || nsrc < 1 || nsrc > 3) return wgsl_unsupported(e, u, "no shader has this op");
    const an_dtype from = an_uop_dtype(e->g, an_uop_src(e->g, u, op == AN_OP_WHERE ? 1 : 0)), to = an_uop_dtype(e->g, u);
    if (from == AN_F64 || to == AN_F64) return wgsl_unsupported(e, u, "WGSL has no f64; use f32, or another device");
    char expr[EXPR_MAX], kept[EXPR_MAX + 16], s[3][WGSL_OPERAND_MAX];
    const char *const operands[3] = {s[0], s[1], s[2]};
    const char *quick = shortcut(e, u);
    bool all_const = true;
    for (uint32_t i = 0; i < nsrc; i++) all_const = all_const && is_const(e, an_uop_src(e->g, u, i));
    if (op == AN_OP_MULACC && wgsl_class_of(to) == WGSL_F32 && e->caps->inexact_fma && lanes > 1 && !all_const && !quick) return fma_by_fours(e, u);
    for (uint32_t l = 0; l < lanes; l++) {
        bool ok = true;
        for (uint32_t i = 0; i < nsrc; i++) wgsl_operand(e, an_uop_src(e->g, u, i), l, s[i]);
        if (all_const && index_of_constants(op, from, s[0], s[1], expr)) {
            wgsl_define(e, u, l, expr);
            continue;
        }
        if (all_const) hide_constant(e, op == AN_OP_WHERE ? "bool" : wgsl_type_name(from), s[0]);
        if (op == AN_OP_CAST)
            ok = cast(from, to, s[0], expr);
        else if (op == AN_OP_BITCAST)
            ok = bitcast(from, to, s[0], expr);
        else if (quick) {
            ok = fill(expr, sizeof expr, quick, operands);
            if (ok && needs_wrap(op)) wrap(to, expr);
        } else {
            ok = expression(op, from, operands, expr);
        }
        if (!ok) return wgsl_unsupported(e, u, "no shader has this op of this dtype");
        (void)snprintf(kept, sizeof kept, "an_keep(%s)", expr);
        wgsl_define(e, u, l, e->is_kept[wgsl_place(e, u)] ? kept : expr);
    }
    return AN_OK;
}

/* Lane l takes lane l + ceil(n/2), until one is left. */
an_status wgsl_emit_hreduce(wgsl_emit *e, an_uop u)
{
    const an_uop x = an_uop_src(e->g, u, 0);
    const an_op op = an_reduce_op(an_uop_arg(e->g, u));
    const an_dtype dtype = an_uop_dtype(e->g, u);
    uint32_t n = an_uop_lanes(e->g, x);
    char lane[AN_LANES_MAX][WGSL_OPERAND_MAX], expr[EXPR_MAX];
    if (dtype == AN_F64) return wgsl_unsupported(e, u, "WGSL has no f64; use f32, or another device");
    for (uint32_t l = 0; l < n; l++) wgsl_operand(e, x, l, lane[l]);
    for (; n > 1; n = (n + 1) / 2)
        for (uint32_t l = 0; l < n / 2; l++) {
            if (!wgsl_binary(e, op, dtype, lane[l], lane[l + (n + 1) / 2], expr, sizeof expr))
                return wgsl_unsupported(e, u, "no shader has this op of this dtype");
            wgsl_line(e, "let t%u = %s;", e->ntemps, expr);
            (void)snprintf(lane[l], sizeof lane[l], "t%u", e->ntemps++);
        }
    wgsl_define(e, u, 0, lane[0]);
    return AN_OK;
}
