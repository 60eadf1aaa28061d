/* names.c - dtypes, constants and operands as WGSL text. */
#include "backend/webgpu/wgsl/emit.h"

#include <math.h>
#include <stdio.h>

wgsl_class wgsl_class_of(an_dtype dtype)
{
    const bool wide = dtype != AN_INDEX && an_dtype_nbytes(dtype) == 8;
    switch (an_dtype_kind_of(dtype)) {
    case AN_KIND_BOOL: return WGSL_BOOL;
    case AN_KIND_INT: return wide ? WGSL_I64 : WGSL_I32;
    case AN_KIND_UINT: return wide ? WGSL_U64 : WGSL_U32;
    case AN_KIND_INDEX: return WGSL_I32;
    default: return WGSL_F32;
    }
}

const char *wgsl_type_name(an_dtype dtype)
{
    static const char *const names[WGSL_NCLASSES] = {"bool", "i32", "u32", "vec2<u32>", "vec2<u32>", "f32"};
    return names[wgsl_class_of(dtype)];
}

bool wgsl_is_narrow(an_dtype dtype)
{
    return an_dtype_kind_of(dtype) == AN_KIND_FLOAT && an_dtype_nbytes(dtype) < 4;
}

/* Infinities and NaN are no constants in WGSL, and what a constant bitcast to one does is an error: they come from bits in a
 * variable. Numbers below the normal ones and -0 are written as bits, since a parser may round them away. */
static void float_literal(wgsl_emit *e, double v, char *text)
{
    const float f = (float)v;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (!isfinite(f)) {
        e->uses_inf = true;
        (void)snprintf(text, WGSL_OPERAND_MAX, "bitcast<f32>(an_inf ^ 0x%08xu)", bits ^ 0x7f800000u);
    } else if (f != 0 ? fabsf(f) < 0x1p-126f : bits != 0) {
        (void)snprintf(text, WGSL_OPERAND_MAX, "bitcast<f32>(0x%08xu)", bits);
    } else {
        char digits[32];
        (void)snprintf(digits, sizeof digits, "%.9g", v);
        const bool whole = !strpbrk(digits, ".e");
        (void)snprintf(text, WGSL_OPERAND_MAX, v < 0 ? "(%s%sf)" : "%s%sf", digits, whole ? ".0" : "");
    }
}

void wgsl_literal(wgsl_emit *e, an_dtype dtype, an_scalar v, char *text)
{
    switch (wgsl_class_of(dtype)) {
    case WGSL_BOOL: (void)snprintf(text, WGSL_OPERAND_MAX, v.i ? "true" : "false"); break;
    case WGSL_I32:
        if (v.i == INT32_MIN)
            (void)snprintf(text, WGSL_OPERAND_MAX, "i32(-2147483648)");
        else
            (void)snprintf(text, WGSL_OPERAND_MAX, v.i < 0 ? "(%lld)" : "%lld", (long long)v.i);
        break;
    case WGSL_U32: (void)snprintf(text, WGSL_OPERAND_MAX, "%lluu", (unsigned long long)v.u); break;
    case WGSL_I64:
    case WGSL_U64:
        (void)snprintf(text, WGSL_OPERAND_MAX, "vec2<u32>(%uu, %uu)", (uint32_t)v.u, (uint32_t)(v.u >> 32));
        break;
    default: float_literal(e, v.f, text); break;
    }
}

uint32_t wgsl_place(const wgsl_emit *e, an_uop u)
{
    return an_idmap_get(&e->at, u.id) - 1;
}

/* A source that is only another name of one lane of something: the thing, and the lane. What is behind an accumulator changes,
 * so that a lane or a copy of one is a value of its own. */
static bool is_alias(const wgsl_emit *e, an_uop u)
{
    const an_op op = an_uop_op(e->g, u);
    if (op != AN_OP_BROADCAST && op != AN_OP_LANE && op != AN_OP_VECTOR) return false;
    for (uint32_t i = 0; i < an_uop_nsrc(e->g, u); i++)
        if (an_uop_op(e->g, an_uop_src(e->g, u, i)) == AN_OP_ACC) return false;
    return true;
}

static void source_of_lane(const wgsl_emit *e, an_uop *u, uint32_t *lane)
{
    switch (an_uop_op(e->g, *u)) {
    case AN_OP_BROADCAST:
        *u = an_uop_src(e->g, *u, 0);
        *lane = 0;
        break;
    case AN_OP_LANE: {
        const uint32_t at = (uint32_t)an_uop_arg(e->g, *u);
        *u = an_uop_src(e->g, *u, 0);
        *lane = at;
        break;
    }
    default:
        *u = an_uop_src(e->g, *u, *lane);
        *lane = 0;
        break;
    }
}

void wgsl_name(const wgsl_emit *e, an_uop u, uint32_t lane, char *text)
{
    uint32_t place = wgsl_place(e, u);
    char copy[16] = "";
    if (e->same[place]) place = e->same[place] - 1;
    for (uint32_t i = 0; i < e->ndealt; i++)
        if (place >= e->dealt[i].first && place < e->dealt[i].end) (void)snprintf(copy, sizeof copy, "c%u", e->copy);
    for (uint32_t i = 0; i < e->nstages; i++)
        if (place >= e->stages[i].first && place < e->stages[i].end) (void)snprintf(copy, sizeof copy, "c%u", e->copy);
    if (an_uop_lanes(e->g, u) > 1)
        (void)snprintf(text, WGSL_OPERAND_MAX - 16, "v%u%s_%u", place, copy, lane);
    else
        (void)snprintf(text, WGSL_OPERAND_MAX - 16, "v%u%s", place, copy);
}

void wgsl_operand(wgsl_emit *e, an_uop u, uint32_t lane, char *text)
{
    char base[WGSL_OPERAND_MAX - 16];
    while (is_alias(e, u)) source_of_lane(e, &u, &lane);
    const an_op op = an_uop_op(e->g, u);
    if (op == AN_OP_CONST) {
        wgsl_literal(e, an_uop_dtype(e->g, u), an_uop_const_value(e->g, u), text);
        return;
    }
    if (op == AN_OP_RAMP) { /* of a scalar, which is no ramp */
        an_uop x = an_uop_src(e->g, u, 0);
        uint32_t at = 0;
        int64_t first = 0;
        while (is_alias(e, x)) source_of_lane(e, &x, &at);
        if (an_uop_int(e->g, x, &first)) {
            (void)snprintf(text, WGSL_OPERAND_MAX, "%lld", (long long)first + lane);
            return;
        }
        wgsl_name(e, x, at, base);
        (void)snprintf(text, WGSL_OPERAND_MAX, lane ? "(%s + %u)" : "%s", base, lane);
        return;
    }
    wgsl_name(e, u, lane, text);
}

void wgsl_line(wgsl_emit *e, const char *fmt, ...)
{
    va_list args;
    for (uint32_t i = 0; i < e->depth; i++) an_str_put(&e->body, "  ");
    va_start(args, fmt);
    an_str_vprintf(&e->body, fmt, args);
    va_end(args);
    an_str_putc(&e->body, '\n');
}

void wgsl_define(wgsl_emit *e, an_uop u, uint32_t lane, const char *expr)
{
    char name[WGSL_OPERAND_MAX];
    wgsl_name(e, u, lane, name);
    wgsl_line(e, "let %s = %s;", name, expr);
}

an_status wgsl_unsupported(wgsl_emit *e, an_uop u, const char *why)
{
    return an_fail(e->ctx, AN_ERR_UNSUPPORTED, "webgpu: kernel %s: %s of %s: %s", e->kernel->name,
                   an_op_info_of(an_uop_op(e->g, u))->text, an_dtype_name(an_uop_dtype(e->g, u)), why);
}
