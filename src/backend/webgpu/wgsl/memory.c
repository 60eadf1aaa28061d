/* memory.c - loads and stores: of vectors of four, of packed words, behind gates.
 *
 * A dtype narrower than a word is packed, little-endian as it is stored. A store of whole words is one assignment. A store of
 * less needs the rest of its word: where another thread may be writing that, the buffer is declared atomic, and the store
 * clears its bits and then sets them: nobody else touches these, so the result is the same whatever the order. */
#include "backend/webgpu/wgsl/emit.h"

#include <stdio.h>

enum { EXPR_MAX = 512, LOCALS_MAX = 16 };

typedef struct place {
    an_dtype dtype;
    uint32_t lanes;
    wgsl_access access;
    bool vector;        /* whole vectors of four, or whole words */
    bool raw;           /* its value is held as f16 */
    bool in_group;      /* workgroup memory */
    char name[16];
    an_uop index, gate; /* gate may be none */
} place;

static wgsl_local *local_of(wgsl_emit *e, an_uop ptr)
{
    for (size_t i = 0; i < e->locals.len; i++)
        if (an_uop_arg(e->g, e->locals.data[i].node) >> 32 == an_uop_arg(e->g, ptr) >> 32) return &e->locals.data[i];
    return NULL;
}

static uint32_t shift_of(const wgsl_emit *e, an_uop u)
{
    if (an_uop_op(e->g, u) == AN_OP_BROADCAST) u = an_uop_src(e->g, u, 0);
    return e->shift[wgsl_place(e, u)];
}

static bool is_uniform(const wgsl_emit *e, an_uop gate)
{
    return an_uop_is_none(gate) || an_uop_lanes(e->g, gate) == 1 || an_uop_op(e->g, gate) == AN_OP_BROADCAST;
}

static void parts(const wgsl_emit *e, an_uop u, an_uop *ptr, an_uop *index, an_uop *gate)
{
    const uint32_t gate_at = an_uop_op(e->g, u) == AN_OP_STORE ? 3 : 2;
    *ptr = an_uop_src(e->g, u, 0);
    *index = an_uop_src(e->g, u, 1);
    *gate = an_uop_nsrc(e->g, u) > gate_at ? an_uop_src(e->g, u, gate_at) : AN_UOP_NONE;
}

/* Is this access whole units of `unit` elements, aligned? */
static bool in_units(const wgsl_emit *e, an_uop index, an_uop gate, uint32_t unit)
{
    uint32_t shift = 0;
    if (an_uop_op(e->g, index) != AN_OP_RAMP || an_uop_lanes(e->g, index) % unit || !is_uniform(e, gate)) return false;
    while (1u << shift < unit) shift++;
    return shift_of(e, an_uop_src(e->g, index, 0)) >= shift;
}

static uint32_t unit_of(an_dtype dtype)
{
    const size_t size = an_dtype_nbytes(dtype);
    return size < 4 ? (uint32_t)(4 / size) : size == 4 ? 4 : 0;
}

static an_status scan_one(wgsl_emit *e, an_uop u)
{
    an_uop ptr, index, gate;
    parts(e, u, &ptr, &index, &gate);
    const an_dtype dtype = an_uop_dtype(e->g, ptr);
    const uint32_t unit = unit_of(dtype);
    const bool store = an_uop_op(e->g, u) == AN_OP_STORE;
    if (dtype == AN_F64) return wgsl_unsupported(e, u, "WGSL has no f64; use f32, or another device");
    if (an_uop_op(e->g, ptr) == AN_OP_LOCAL) {
        wgsl_local *l = local_of(e, ptr);
        const wgsl_local fresh = {ptr, dtype, (int64_t)(uint32_t)an_uop_arg(e->g, ptr), false, false};
        if (!l && !an_vec_push(e->ctx, &e->locals, fresh)) return AN_ERR_NOMEM;
        l = local_of(e, ptr);
        const wgsl_class class = wgsl_class_of(dtype);
        if (class != WGSL_BOOL && class != WGSL_I64 && class != WGSL_U64 && l->nelem % 4 == 0 && in_units(e, index, gate, 4))
            l->vec4 = true;
        return AN_OK;
    }
    wgsl_param *p = &e->params[an_uop_arg(e->g, ptr)];
    const bool whole = unit && in_units(e, index, gate, unit);
    if (whole)
        p->nvec++;
    else
        p->nscalar++;
    if (in_units(e, index, gate, 4)) p->nfour++;
    if (store && !whole && an_dtype_nbytes(dtype) < 4) p->sub_word = true;
    p->used = true;
    p->dtype = dtype;
    p->read = p->read || !store;
    p->written = p->written || store;
    return AN_OK;
}

/* Is u an f16 that can be held as one: loaded, rounded where f16() rounds as it should, or one of these or 0? Sources come before it. */
static bool can_be_raw(const wgsl_emit *e, an_uop u)
{
    if (an_uop_dtype(e->g, u) != AN_F16) return false;
    const an_op op = an_uop_op(e->g, u);
    if (op == AN_OP_LOAD) return an_uop_op(e->g, an_uop_src(e->g, u, 0)) == AN_OP_PARAM;
    if (op == AN_OP_CAST) return e->caps->exact_f16 && an_uop_dtype(e->g, an_uop_src(e->g, u, 0)) == AN_F32;
    if (op != AN_OP_WHERE || !e->raw[wgsl_place(e, an_uop_src(e->g, u, 1))]) return false;
    an_uop other = an_uop_src(e->g, u, 2);
    if (an_uop_op(e->g, other) == AN_OP_BROADCAST) other = an_uop_src(e->g, other, 0);
    return an_uop_is_number(e->g, other, 0.0);
}

/* Does u take its source s as an f16? A store to an array of these does. */
static bool takes_raw(wgsl_emit *e, an_uop u, uint32_t s)
{
    if (an_uop_op(e->g, u) == AN_OP_WHERE) return s == 1 && e->raw[wgsl_place(e, u)];
    if (an_uop_op(e->g, u) != AN_OP_STORE || s != 2) return false;
    const an_uop ptr = an_uop_src(e->g, u, 0);
    if (an_uop_op(e->g, ptr) == AN_OP_LOCAL) return local_of(e, ptr)->half;
    const wgsl_access access = e->params[an_uop_arg(e->g, ptr)].access;
    return access == WGSL_HALF || access == WGSL_HALF4;
}

/* What is raw: what can be and is taken so by all its users, last ones first; of a WHERE what it chooses must be, too. */
static void find_raw(wgsl_emit *e)
{
    for (size_t i = 0; i < e->kernel->nlinear; i++) e->raw[i] = can_be_raw(e, e->kernel->linear[i]);
    for (size_t i = e->kernel->nlinear; i-- > 0;) {
        const an_uop u = e->kernel->linear[i];
        const an_op op = an_uop_op(e->g, u);
        for (uint32_t s = 0; s < an_uop_nsrc(e->g, u) && op != AN_OP_VAR && op != AN_OP_END; s++) {
            const an_uop x = an_uop_src(e->g, u, s);
            if (an_uop_dtype(e->g, x) == AN_F16 && an_uop_op(e->g, x) != AN_OP_END && !takes_raw(e, u, s)) e->raw[wgsl_place(e, x)] = false;
        }
    }
    for (size_t i = 0; i < e->kernel->nlinear; i++) {
        const an_uop u = e->kernel->linear[i];
        if (an_uop_op(e->g, u) == AN_OP_WHERE && e->raw[i]) e->raw[i] = e->raw[wgsl_place(e, an_uop_src(e->g, u, 1))];
    }
}

an_status wgsl_scan_memory(wgsl_emit *e)
{
    an_status st = AN_OK;
    for (size_t i = 0; i < e->kernel->nlinear && !st; i++) {
        const an_op op = an_uop_op(e->g, e->kernel->linear[i]);
        if (op == AN_OP_LOAD || op == AN_OP_STORE) st = scan_one(e, e->kernel->linear[i]);
    }
    for (size_t i = 0; i < e->kernel->nlinear && !st; i++) {
        const an_uop u = e->kernel->linear[i];
        if (an_uop_op(e->g, u) == AN_OP_FRAGMENT) local_of(e, an_uop_src(e->g, u, 0))->half = true;
    }

    for (uint32_t s = 0; s < e->kernel->nparams; s++) {
        wgsl_param *p = &e->params[s];
        if (!p->used) continue;
        const size_t size = an_dtype_nbytes(p->dtype);
        if (size == 4 && p->nvec)
            p->access = WGSL_VEC4;
        else if (size >= 4)
            p->access = WGSL_PLAIN;
        else if (p->dtype == AN_F16 && e->caps->has_f16)
            p->access = p->nfour == p->nvec + p->nscalar ? WGSL_HALF4 : WGSL_HALF;
        else
            p->access = p->sub_word && (e->nthreads > 1 || e->has_global) ? WGSL_ATOMIC : WGSL_PACKED;
        if (p->access == WGSL_HALF || p->access == WGSL_HALF4) e->out->uses_f16 = true;
    }
    if (!st && e->out->uses_f16) find_raw(e);
    return st;
}

void wgsl_declare_memory(wgsl_emit *e, an_str *out)
{
    for (uint32_t b = 0; b < e->out->nbindings; b++) {
        an_wgsl_binding *w = &e->out->bindings[b];
        const wgsl_param *p = &e->params[w->slot];
        const char *type = wgsl_type_name(w->dtype);
        const bool write = w->is_written || e->caps->read_write_all;
        char elem[32];
        w->word_nbytes = (uint32_t)an_dtype_nbytes(w->dtype);
        switch (p->access) {
        case WGSL_PLAIN: (void)snprintf(elem, sizeof elem, "%s", type); break;
        case WGSL_VEC4:
            (void)snprintf(elem, sizeof elem, "vec4<%s>", type);
            w->word_nbytes = 16;
            break;
        case WGSL_HALF: (void)snprintf(elem, sizeof elem, "f16"); break;
        case WGSL_HALF4:
            (void)snprintf(elem, sizeof elem, "vec4<f16>");
            w->word_nbytes = 8;
            break;
        case WGSL_PACKED:
        case WGSL_ATOMIC:
            (void)snprintf(elem, sizeof elem, p->access == WGSL_ATOMIC ? "atomic<u32>" : "u32");
            w->word_nbytes = 4;
            break;
        }
        an_str_printf(out, "@group(0) @binding(%u) var<storage, %s> b%u: array<%s>;\n", b, write ? "read_write" : "read",
                      w->slot, elem);
    }
    for (size_t i = 0; i < e->locals.len; i++) {
        const wgsl_local *l = &e->locals.data[i];
        const char *type = wgsl_type_name(l->dtype);
        const unsigned number = (unsigned)(an_uop_arg(e->g, l->node) >> 32);
        if (l->vec4 && !l->half)
            an_str_printf(out, "var<workgroup> s%u: array<vec4<%s>, %lld>;\n", number, type, (long long)l->nelem / 4);
        else
            an_str_printf(out, "var<workgroup> s%u: array<%s, %lld>;\n", number, l->half ? "f16" : type, (long long)l->nelem);
    }
    e->out->local_nbytes += wgsl_locals_nbytes(e);
}

uint32_t wgsl_locals_nbytes(const wgsl_emit *e)
{
    uint32_t nbytes = 0;
    for (size_t i = 0; i < e->locals.len; i++) {
        const wgsl_local *l = &e->locals.data[i];
        const wgsl_class class = wgsl_class_of(l->dtype);
        nbytes += (uint32_t)l->nelem * (l->half ? 2u : class == WGSL_I64 || class == WGSL_U64 ? 8u : 4u);
    }
    return nbytes;
}

const char *wgsl_value_type(const wgsl_emit *e, an_uop u)
{
    return e->raw[wgsl_place(e, u)] ? "f16" : wgsl_type_name(an_uop_dtype(e->g, u));
}

static place place_of(wgsl_emit *e, an_uop u)
{
    an_uop ptr;
    place p = {.gate = AN_UOP_NONE};
    parts(e, u, &ptr, &p.index, &p.gate);
    p.dtype = an_uop_dtype(e->g, ptr);
    p.lanes = an_uop_lanes(e->g, p.index);
    p.in_group = an_uop_op(e->g, ptr) == AN_OP_LOCAL;
    if (p.in_group) {
        const wgsl_local *l = local_of(e, ptr);
        p.access = l->half ? WGSL_HALF : l->vec4 ? WGSL_VEC4 : WGSL_PLAIN;
        (void)snprintf(p.name, sizeof p.name, "s%u", (unsigned)(an_uop_arg(e->g, ptr) >> 32));
    } else {
        p.access = e->params[an_uop_arg(e->g, ptr)].access;
        (void)snprintf(p.name, sizeof p.name, "b%u", (unsigned)an_uop_arg(e->g, ptr));
    }
    p.raw = e->raw[wgsl_place(e, an_uop_op(e->g, u) == AN_OP_STORE ? an_uop_src(e->g, u, 2) : u)];
    uint32_t unit = p.access == WGSL_VEC4 || p.access == WGSL_HALF4 ? 4 : p.access == WGSL_PACKED || p.access == WGSL_ATOMIC ? unit_of(p.dtype) : 0;
    p.vector = unit > 0 && in_units(e, p.index, p.gate, unit);
    return p;
}

/* The index of lane l, as an operand. What is below 0 is behind a gate that is false; WGSL refuses it as a constant. */
static void index_text(wgsl_emit *e, const place *p, uint32_t l, char *text)
{
    wgsl_operand(e, p->index, l, text);
    if (text[0] == '-' || (text[0] == '(' && text[1] == '-')) memcpy(text, "0", 2);
}

/* The bits of a packed element, given its word and its index. */
static const char *unpack_name(an_dtype dtype)
{
    return an_dtype_nbytes(dtype) == 1 ? "an_byte" : "an_short";
}

static const char *from_bits(an_dtype dtype)
{
    switch (dtype) {
    case AN_BOOL: return "%s != 0u";
    case AN_I8: return "i32((%s) << 24u) >> 24u";
    case AN_I16: return "i32((%s) << 16u) >> 16u";
    case AN_F8E4M3: return "an_from_f8e4m3(%s)";
    case AN_F8E5M2: return "an_from_f8e5m2(%s)";
    case AN_F16: return "an_from_f16(%s)";
    case AN_BF16: return "an_from_bf16(%s)";
    default: return "%s";
    }
}

static const char *to_bits(an_dtype dtype)
{
    switch (dtype) {
    case AN_BOOL: return "select(0u, 1u, %s)";
    case AN_I8: return "u32(%s) & 0xffu";
    case AN_I16: return "u32(%s) & 0xffffu";
    case AN_F8E4M3: return "an_bits_f8e4m3(%s)";
    case AN_F8E5M2: return "an_bits_f8e5m2(%s)";
    case AN_F16: return "an_bits_f16(%s)";
    case AN_BF16: return "an_bits_bf16(%s)";
    default: return "%s";
    }
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral" /* the two tables above are the formats */
static void apply_form(const char *form, const char *x, char *out)
{
    (void)snprintf(out, EXPR_MAX, form, x);
}
#pragma GCC diagnostic pop

/* One element, as an expression of its register type. */
static void element(wgsl_emit *e, const place *p, uint32_t l, char *expr)
{
    char at[WGSL_OPERAND_MAX], word[EXPR_MAX / 2];
    index_text(e, p, l, at);
    const char *shift = an_dtype_nbytes(p->dtype) == 1 ? "2u" : "1u";
    switch (p->access) {
    case WGSL_PLAIN: (void)snprintf(expr, EXPR_MAX, "%s[%s]", p->name, at); return;
    case WGSL_VEC4: (void)snprintf(expr, EXPR_MAX, "%s[u32(%s) >> 2u][u32(%s) & 3u]", p->name, at, at); return;
    case WGSL_HALF: (void)snprintf(expr, EXPR_MAX, p->raw ? "%s[%s]" : "f32(%s[%s])", p->name, at); return;
    case WGSL_HALF4: return; /* whole units only */
    case WGSL_PACKED:
        (void)snprintf(word, sizeof word, "%s(%s[u32(%s) >> %s], u32(%s))", unpack_name(p->dtype), p->name, at, shift, at);
        break;
    case WGSL_ATOMIC:
        (void)snprintf(word, sizeof word, "%s(atomicLoad(&%s[u32(%s) >> %s]), u32(%s))", unpack_name(p->dtype), p->name, at,
                       shift, at);
        break;
    }
    apply_form(from_bits(p->dtype), word, expr);
}

/* Unit c of a vector access, as an index: what is constant is kept apart, so that it becomes an offset of the machine's. */
static void unit_text(wgsl_emit *e, const place *p, uint32_t unit, uint32_t c, char *text, size_t size)
{
    char base[WGSL_OPERAND_MAX];
    an_uop x = an_uop_src(e->g, p->index, 0);
    int64_t offset = 0;
    if (an_uop_op(e->g, x) == AN_OP_ADD)
        for (uint32_t s = 0; s < 2; s++) {
            const an_uop rest = an_uop_src(e->g, x, 1 - s);
            if (!an_uop_int(e->g, an_uop_src(e->g, x, s), &offset) || offset < 0 || offset % unit || (1u << shift_of(e, rest)) % unit) {
                offset = 0;
                continue;
            }
            wgsl_operand(e, rest, 0, base);
            (void)snprintf(text, size, "(u32(%s) >> %s) + %lluu", base, unit == 4 ? "2u" : "1u", (unsigned long long)offset / unit + c);
            return;
        }
    index_text(e, p, 0, base);
    (void)snprintf(text, size, "(u32(%s) >> %s) + %uu", base, unit == 4 ? "2u" : "1u", c);
}

/* A gated load without a branch: element 0 is read instead, and the gate decides what counts. */
static bool is_branchless(const place *p)
{
    const bool four = p->access == WGSL_VEC4 || p->access == WGSL_HALF4, one = p->access == WGSL_PLAIN || p->access == WGSL_HALF;
    return !an_uop_is_none(p->gate) && !p->in_group && (p->vector ? four : one);
}

bool wgsl_is_branchless(wgsl_emit *e, an_uop u)
{
    const place p = place_of(e, u);
    return is_branchless(&p);
}

/* The value of lane l of a gated load of which x is what was read. */
void wgsl_gated(wgsl_emit *e, an_uop u, uint32_t l, const char *x, char *out, size_t size)
{
    char gate[WGSL_OPERAND_MAX];
    wgsl_operand(e, an_uop_src(e->g, u, 2), l, gate);
    (void)snprintf(out, size, "select(%s(), %s, %s)", wgsl_value_type(e, u), x, gate);
}

/* All lanes by whole vectors or words; the gate is one for all. */
static void load_units(wgsl_emit *e, const place *p, an_uop u)
{
    const bool four = p->access == WGSL_VEC4 || p->access == WGSL_HALF4, branchless = is_branchless(p);
    const uint32_t unit = four ? 4 : unit_of(p->dtype), id = e->ntemps++;
    char at[EXPR_MAX / 2], gate[WGSL_OPERAND_MAX], cell[EXPR_MAX], expr[EXPR_MAX], value[EXPR_MAX + 2 * WGSL_OPERAND_MAX];
    if (!an_uop_is_none(p->gate)) wgsl_operand(e, p->gate, 0, gate);
    for (uint32_t c = 0; c < p->lanes / unit; c++) {
        unit_text(e, p, unit, c, at, sizeof at);
        if (branchless)
            (void)snprintf(cell, sizeof cell, "%s[select(0u, %s, %s)]", p->name, at, gate);
        else
            (void)snprintf(cell, sizeof cell, p->access == WGSL_ATOMIC ? "atomicLoad(&%s[%s])" : "%s[%s]", p->name, at);
        if (an_uop_is_none(p->gate) || branchless) {
            wgsl_line(e, "let w%u_%u = %s;", id, c, cell);
        } else {
            wgsl_line(e, four ? "var w%u_%u = vec4<%s>();" : "var w%u_%u = %s();", id, c, p->access == WGSL_VEC4 ? wgsl_type_name(p->dtype) : four ? "f16" : "u32");
            wgsl_line(e, "if (%s) { w%u_%u = %s; }", gate, id, c, cell);
        }
    }
    for (uint32_t l = 0; l < p->lanes; l++) {
        char word[64];
        if (four) {
            (void)snprintf(expr, sizeof expr, p->access == WGSL_VEC4 || p->raw ? "w%u_%u.%c" : "f32(w%u_%u.%c)", id, l / 4, "xyzw"[l % 4]);
        } else {
            (void)snprintf(word, sizeof word, "%s(w%u_%u, %uu)", unpack_name(p->dtype), id, l / unit, l % unit);
            apply_form(from_bits(p->dtype), word, expr);
        }
        if (branchless && !e->keeps) wgsl_gated(e, u, l, expr, value, sizeof value);
        wgsl_define(e, u, l, branchless && !e->keeps ? value : expr);
    }
}

an_status wgsl_emit_load(wgsl_emit *e, an_uop u)
{
    const place p = place_of(e, u);
    char expr[EXPR_MAX], cell[EXPR_MAX / 2], gate[WGSL_OPERAND_MAX], name[WGSL_OPERAND_MAX];
    if (p.vector) {
        load_units(e, &p, u);
        return AN_OK;
    }
    for (uint32_t l = 0; l < p.lanes; l++) {
        if (is_branchless(&p)) {
            char at[WGSL_OPERAND_MAX];
            wgsl_operand(e, p.gate, l, gate);
            index_text(e, &p, l, at);
            (void)snprintf(cell, sizeof cell, p.access == WGSL_HALF && !p.raw ? "f32(%s[select(0, %s, %s)])" : "%s[select(0, %s, %s)]", p.name, at, gate);
            if (!e->keeps) wgsl_gated(e, u, l, cell, expr, sizeof expr);
            wgsl_define(e, u, l, e->keeps ? cell : expr);
            continue;
        }
        element(e, &p, l, expr);
        if (an_uop_is_none(p.gate)) {
            wgsl_define(e, u, l, expr);
            continue;
        }
        wgsl_operand(e, p.gate, l, gate);
        wgsl_name(e, u, l, name);
        wgsl_line(e, "var %s = %s();", name, wgsl_value_type(e, u)); /* written out: not every library clears it each time */
        wgsl_line(e, "if (%s) { %s = %s; }", gate, name, expr);
    }
    return AN_OK;
}

/* Who runs this statement: every thread of the workgroup, or those of one LOCAL iteration, would all store the same. */
static const char *lone_thread(const wgsl_emit *e)
{
    if (e->nthreads == 1) return NULL;
    if (e->by_group) {
        bool local = false, dealt = false;
        for (size_t i = 0; i < e->loops.len; i++) {
            const an_range_kind kind = an_range_kind_of(an_uop_arg(e->g, e->loops.data[i].range));
            local = local || kind == AN_RANGE_LOCAL;
            dealt = dealt || kind == AN_RANGE_GROUP || kind == AN_RANGE_STAGE;
        }
        if (dealt) return NULL;
        if (local) return e->lanes > 1 ? "lane == 0" : NULL;
        return e->nglobal_open ? "lid == 0" : "lid == 0 && group == 0";
    }
    return e->nglobal_open ? NULL : "tid == 0";
}

static void store_units(wgsl_emit *e, const place *p, an_uop value)
{
    const uint32_t unit = p->access == WGSL_VEC4 || p->access == WGSL_HALF4 ? 4 : unit_of(p->dtype);
    char at[EXPR_MAX / 2], cell[EXPR_MAX], x[4][WGSL_OPERAND_MAX];
    for (uint32_t c = 0; c < p->lanes / unit; c++) {
        for (uint32_t i = 0; i < unit; i++) wgsl_operand(e, value, c * unit + i, x[i]);
        unit_text(e, p, unit, c, at, sizeof at);
        (void)snprintf(cell, sizeof cell, "%s[%s]", p->name, at);
        if (p->access == WGSL_VEC4) {
            wgsl_line(e, "%s = vec4<%s>(%s, %s, %s, %s);", cell, wgsl_type_name(p->dtype), x[0], x[1], x[2], x[3]);
            continue;
        }
        if (p->access == WGSL_HALF4) {
            wgsl_line(e, p->raw ? "%s = vec4<f16>(%s, %s, %s, %s);" : "%s = vec4<f16>(vec4<f32>(%s, %s, %s, %s));", cell, x[0], x[1], x[2], x[3]);
            continue;
        }
        char bits[4][EXPR_MAX];
        for (uint32_t i = 0; i < unit; i++) apply_form(to_bits(p->dtype), x[i], bits[i]);
        const uint32_t word = e->ntemps++;
        if (unit == 4)
            wgsl_line(e, "let t%u = (%s) | ((%s) << 8u) | ((%s) << 16u) | ((%s) << 24u);", word, bits[0], bits[1], bits[2], bits[3]);
        else
            wgsl_line(e, "let t%u = (%s) | ((%s) << 16u);", word, bits[0], bits[1]);
        if (p->access == WGSL_ATOMIC)
            wgsl_line(e, "atomicStore(&%s, t%u);", cell, word);
        else
            wgsl_line(e, "%s = t%u;", cell, word);
    }
}

static void store_element(wgsl_emit *e, const place *p, uint32_t l, const char *value)
{
    char at[WGSL_OPERAND_MAX], bits[EXPR_MAX];
    index_text(e, p, l, at);
    const bool byte = an_dtype_nbytes(p->dtype) == 1;
    switch (p->access) {
    case WGSL_PLAIN: wgsl_line(e, "%s[%s] = %s;", p->name, at, value); return;
    case WGSL_VEC4: wgsl_line(e, "%s[u32(%s) >> 2u][u32(%s) & 3u] = %s;", p->name, at, at, value); return;
    case WGSL_HALF: wgsl_line(e, p->raw ? "%s[%s] = %s;" : "%s[%s] = f16(%s);", p->name, at, value); return;
    default: break;
    }
    apply_form(to_bits(p->dtype), value, bits);
    const uint32_t t = e->ntemps++;
    wgsl_line(e, byte ? "let t%u = (u32(%s) & 3u) * 8u;" : "let t%u = (u32(%s) & 1u) * 16u;", t, at);
    const char *mask = byte ? "0xffu" : "0xffffu", *shift = byte ? "2u" : "1u";
    if (p->access == WGSL_ATOMIC) {
        wgsl_line(e, "atomicAnd(&%s[u32(%s) >> %s], ~(%s << t%u));", p->name, at, shift, mask, t);
        wgsl_line(e, "atomicOr(&%s[u32(%s) >> %s], (%s) << t%u);", p->name, at, shift, bits, t);
    } else {
        wgsl_line(e, "%s[u32(%s) >> %s] = (%s[u32(%s) >> %s] & ~(%s << t%u)) | ((%s) << t%u);", p->name, at, shift, p->name, at,
                  shift, mask, t, bits, t);
    }
}

/* Opens `if (a && b) {` where there is a condition; closes it again. */
static bool open_gate(wgsl_emit *e, const char *a, const char *b)
{
    if (!a && !b) return false;
    wgsl_line(e, a && b ? "if (%s && %s) {" : "if (%s) {", a ? a : b, b);
    e->depth++;
    return true;
}

static void close_gate(wgsl_emit *e, bool open)
{
    if (!open) return;
    e->depth--;
    wgsl_line(e, "}");
}

an_status wgsl_emit_store(wgsl_emit *e, an_uop u)
{
    const place p = place_of(e, u);
    const an_uop value = an_uop_src(e->g, u, 2);
    const bool gated = !an_uop_is_none(p.gate);
    const char *alone = p.in_group ? NULL : lone_thread(e);
    char x[WGSL_OPERAND_MAX], gate[WGSL_OPERAND_MAX];
    if (p.vector || is_uniform(e, p.gate)) {
        if (gated) wgsl_operand(e, p.gate, 0, gate);
        const bool open = open_gate(e, alone, gated ? gate : NULL);
        if (p.vector) store_units(e, &p, value);
        for (uint32_t l = 0; l < p.lanes && !p.vector; l++) {
            wgsl_operand(e, value, l, x);
            store_element(e, &p, l, x);
        }
        close_gate(e, open);
        return AN_OK;
    }
    for (uint32_t l = 0; l < p.lanes; l++) {
        wgsl_operand(e, p.gate, l, gate);
        const bool open = open_gate(e, alone, gate);
        wgsl_operand(e, value, l, x);
        store_element(e, &p, l, x);
        close_gate(e, open);
    }
    return AN_OK;
}
