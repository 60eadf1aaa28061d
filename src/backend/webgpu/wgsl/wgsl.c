/* wgsl.c - the walk over a linear list, and what stands around its body. */
#include "backend/webgpu/wgsl/emit.h"

#include <stdio.h>

an_wgsl_caps an_wgsl_caps_default(void)
{
    return (an_wgsl_caps){.max_invocations = 256,
                          .max_size = {256, 256, 64},
                          .max_groups = 65535,
                          .max_local_nbytes = 16384,
                          .max_buffers = 8,
                          .max_binding_nbytes = 128u << 20};
}

/* By how much an index is a multiple of two, from its sources (which come before it). */
static uint32_t shift_of(const wgsl_emit *e, an_uop u)
{
    enum { ALL = 62 };
    int64_t v = 0;
    uint32_t s[3] = {0, 0, 0};
    const uint32_t nsrc = an_uop_nsrc(e->g, u);
    if (an_uop_dtype(e->g, u) != AN_INDEX) return 0;
    if (an_uop_op(e->g, u) == AN_OP_VAR) return 0; /* its sources are bounds, not of the list */
    if (an_uop_int(e->g, u, &v)) return v == 0 ? ALL : (uint32_t)__builtin_ctzll((uint64_t)v);
    for (uint32_t i = 0; i < nsrc && i < 3; i++) s[i] = e->shift[wgsl_place(e, an_uop_src(e->g, u, i))];
    switch (an_uop_op(e->g, u)) {
    case AN_OP_ADD:
    case AN_OP_MAX:
    case AN_OP_MIN: return s[0] < s[1] ? s[0] : s[1];
    case AN_OP_WHERE: return s[1] < s[2] ? s[1] : s[2];
    case AN_OP_MUL: return s[0] + s[1] < ALL ? s[0] + s[1] : ALL;
    case AN_OP_SHL:
        return an_uop_int(e->g, an_uop_src(e->g, u, 1), &v) && v >= 0 && v < ALL && s[0] + v < ALL ? s[0] + (uint32_t)v : s[0];
    case AN_OP_SHR: return an_uop_int(e->g, an_uop_src(e->g, u, 1), &v) && v >= 0 && v < s[0] ? s[0] - (uint32_t)v : 0;
    default: return 0;
    }
}

static an_status note_places(wgsl_emit *e)
{
    for (size_t i = 0; i < e->kernel->nlinear; i++) {
        const an_uop u = e->kernel->linear[i];
        if (!an_idmap_set(&e->at, e->ctx, u.id, (uint32_t)i + 1)) return AN_ERR_NOMEM;
    }
    for (size_t i = 0; i < e->kernel->nlinear; i++) e->shift[i] = shift_of(e, e->kernel->linear[i]);
    return AN_OK;
}

static an_status emit_acc(wgsl_emit *e, an_uop u)
{
    char init[WGSL_OPERAND_MAX], name[WGSL_OPERAND_MAX];
    for (uint32_t l = 0; l < an_uop_lanes(e->g, u); l++) {
        wgsl_operand(e, an_uop_src(e->g, u, 0), l, init);
        wgsl_operand(e, u, l, name);
        wgsl_line(e, "var %s: %s = %s;", name, wgsl_type_name(an_uop_dtype(e->g, u)), init);
    }
    return AN_OK;
}

/* Values that only name others, unless what they name changes. */
static void emit_copy(wgsl_emit *e, an_uop u)
{
    bool changes = an_uop_op(e->g, u) == AN_OP_ACC_GET;
    for (uint32_t i = 0; i < an_uop_nsrc(e->g, u); i++)
        changes = changes || an_uop_op(e->g, an_uop_src(e->g, u, i)) == AN_OP_ACC;
    char x[WGSL_OPERAND_MAX];
    for (uint32_t l = 0; changes && l < an_uop_lanes(e->g, u); l++) {
        an_uop src = an_uop_src(e->g, u, 0);
        uint32_t at = l;
        if (an_uop_op(e->g, u) == AN_OP_BROADCAST) at = 0;
        if (an_uop_op(e->g, u) == AN_OP_LANE) at = (uint32_t)an_uop_arg(e->g, u);
        if (an_uop_op(e->g, u) == AN_OP_VECTOR) src = an_uop_src(e->g, u, l), at = 0;
        wgsl_operand(e, src, at, x);
        wgsl_define(e, u, l, x);
    }
}

static an_status emit_set(wgsl_emit *e, an_uop u)
{
    char x[WGSL_OPERAND_MAX], y[WGSL_OPERAND_MAX];
    const an_uop acc = an_uop_src(e->g, u, 0), value = an_uop_src(e->g, u, 1);
    for (uint32_t l = 0; l < an_uop_lanes(e->g, acc); l++) {
        wgsl_operand(e, acc, l, x);
        wgsl_operand(e, value, l, y);
        wgsl_line(e, "%s = %s;", x, y);
    }
    wgsl_set set = {u, false};
    for (size_t i = 0; i < e->loops.len; i++) {
        const an_uop range = e->loops.data[i].range;
        set.is_dealt = set.is_dealt || (an_range_kind_of(an_uop_arg(e->g, range)) == AN_RANGE_GROUP && wgsl_place(e, range) > wgsl_place(e, acc));
    }
    return an_vec_push(e->ctx, &e->sets, set) ? AN_OK : AN_ERR_NOMEM;
}

static an_status emit_var(wgsl_emit *e, an_uop u)
{
    for (uint32_t i = 0; i < e->kernel->nvars; i++)
        if (an_uop_eq(e->kernel->vars[i], u)) wgsl_line(e, "let v%u = i32(vars.n%u);", wgsl_place(e, u), i);
    return AN_OK;
}

/* A CAST or WHERE that is held as an f16. */
static void emit_half(wgsl_emit *e, an_uop u)
{
    char x[WGSL_OPERAND_MAX], c[WGSL_OPERAND_MAX], value[2 * WGSL_OPERAND_MAX + 24];
    const bool where = an_uop_op(e->g, u) == AN_OP_WHERE;
    for (uint32_t l = 0; l < an_uop_lanes(e->g, u); l++) {
        wgsl_operand(e, an_uop_src(e->g, u, where), l, x);
        wgsl_operand(e, an_uop_src(e->g, u, 0), l, c);
        if (where)
            (void)snprintf(value, sizeof value, "select(f16(), %s, %s)", x, c);
        else
            (void)snprintf(value, sizeof value, "f16(%s)", x);
        wgsl_define(e, u, l, value);
    }
}

an_status wgsl_emit_one(wgsl_emit *e, an_uop u)
{
    if (e->out->uses_matrix && an_uop_op(e->g, u) != AN_OP_END && wgsl_is_matrix(e, u)) return wgsl_emit_matrix(e, u);
    switch (an_uop_op(e->g, u)) {
    case AN_OP_PARAM:
    case AN_OP_CONST:
    case AN_OP_LOCAL: return AN_OK;
    case AN_OP_VAR: return emit_var(e, u);
    case AN_OP_RANGE: return wgsl_emit_range(e, u);
    case AN_OP_END: return wgsl_emit_end(e, u);
    case AN_OP_LOAD: return wgsl_emit_load(e, u);
    case AN_OP_STORE: return wgsl_emit_store(e, u);
    case AN_OP_ACC: return emit_acc(e, u);
    case AN_OP_ACC_SET: return emit_set(e, u);
    case AN_OP_HREDUCE: return wgsl_emit_hreduce(e, u);
    case AN_OP_RAMP: {
        const an_uop base = an_uop_src(e->g, u, 0);
        return an_uop_op(e->g, base) == AN_OP_ACC ? wgsl_unsupported(e, u, "an index that changes") : AN_OK;
    }
    case AN_OP_CAST:
    case AN_OP_WHERE:
        if (!e->raw[wgsl_place(e, u)]) return wgsl_emit_elementwise(e, u);
        emit_half(e, u);
        return AN_OK;
    case AN_OP_ACC_GET:
    case AN_OP_BROADCAST:
    case AN_OP_LANE:
    case AN_OP_VECTOR: emit_copy(e, u); return AN_OK;
    default: return wgsl_emit_elementwise(e, u);
    }
}

static an_status list_bindings(wgsl_emit *e)
{
    an_wgsl *w = e->out;
    for (uint32_t s = 0; s < e->kernel->nparams; s++) {
        const wgsl_param *p = &e->params[s];
        if (!p->used) continue;
        w->bindings[w->nbindings++] = (an_wgsl_binding){s, p->dtype, p->read, p->written, 0};
    }
    w->nvars = e->kernel->nvars;
    w->uniform_nbytes = (4 * w->nvars + 15) / 16 * 16;
    if (w->nbindings > e->caps->max_buffers)
        return an_fail(e->ctx, AN_ERR_LIMIT, "webgpu: kernel %s reads and writes %u buffers; the device binds %u at most",
                       e->kernel->name, w->nbindings, e->caps->max_buffers);
    return AN_OK;
}

static void put_entry(wgsl_emit *e, an_str *text)
{
    an_str_printf(text, "@compute @workgroup_size(%u)\n", e->nthreads);
    an_str_put(text, "fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>,\n"
                     "        @builtin(local_invocation_index) lid: u32) {\n"
                     "  let group = wg.x + nwg.x * (wg.y + nwg.y * wg.z);\n");
    if (e->uses_zero) an_str_put(text, "  an_zero = u32(wg.x >= nwg.x);\n"); /* a bound of nwg.x alone is known to compilers */
    if (!e->by_group) an_str_printf(text, "  let tid = group * %uu + lid;\n", e->nthreads);
    if (e->lanes > 1 && e->lanes != e->nthreads)
        an_str_printf(text, "  let lane = lid / %uu;\n  let row = lid %% %uu;\n", e->nthreads / e->lanes, e->nthreads / e->lanes);
    an_str_put(text, an_str_cstr(&e->body));
    an_str_put(text, "}\n");
}

static void assemble(wgsl_emit *e, an_str *text)
{
    an_wgsl *w = e->out;
    w->uses_f16 = w->uses_f16 || (e->caps->exact_f16 && strstr(an_str_cstr(&e->body), "an_round_f16("));
    if (w->uses_f16) an_str_put(text, "enable f16;\n");
    if (w->uses_subgroups && e->caps->names_subgroups) an_str_put(text, "enable subgroups;\n");
    if (w->uses_matrix) an_str_put(text, "enable chromium_experimental_subgroup_matrix;\ndiagnostic(off, chromium.subgroup_matrix_uniformity);\n");
    wgsl_declare_memory(e, text);
    if (w->nvars) {
        an_str_put(text, "struct an_vars {");
        for (uint32_t i = 0; i < w->nvars; i++) an_str_printf(text, " n%u: u32,", i);
        an_str_printf(text, " };\n@group(0) @binding(%u) var<uniform> vars: an_vars;\n", w->nbindings);
    }
    an_str_put(text, an_str_cstr(&e->shared));
    wgsl_prelude(e, an_str_cstr(&e->body), text);
    put_entry(e, text);
}

static void emit_fini(wgsl_emit *e)
{
    an_mem_free(e->ctx, e->shift, e->kernel->nlinear * sizeof *e->shift);
    an_mem_free(e->ctx, e->same, e->kernel->nlinear * sizeof *e->same);
    an_mem_free(e->ctx, e->held, e->kernel->nlinear * sizeof *e->held);
    an_mem_free(e->ctx, e->raw, e->kernel->nlinear * sizeof *e->raw);
    an_mem_free(e->ctx, e->is_kept, e->kernel->nlinear * sizeof *e->is_kept);
    an_str_fini(&e->body);
    an_str_fini(&e->shared);
    an_idmap_fini(&e->at, e->ctx);
    an_bounds_memo_fini(&e->bounds);
    an_vec_fini(e->ctx, &e->loops);
    an_vec_fini(e->ctx, &e->locals);
    an_vec_fini(e->ctx, &e->sets);
}

an_status an_wgsl_render(an_ctx *ctx, const an_kernel *kernel, const an_wgsl_caps *caps, an_wgsl *out)
{
    wgsl_emit e = {.ctx = ctx, .kernel = kernel, .g = kernel->graph, .caps = caps, .out = out, .depth = 1};
    an_str text;
    *out = (an_wgsl){.ctx = ctx};
    an_str_init(&e.body, ctx);
    an_str_init(&e.shared, ctx);
    an_str_init(&text, ctx);
    an_bounds_memo_init(&e.bounds, e.g);
    e.shift = an_mem_zalloc(ctx, kernel->nlinear * sizeof *e.shift);
    e.same = an_mem_zalloc(ctx, kernel->nlinear * sizeof *e.same);
    e.held = an_mem_zalloc(ctx, kernel->nlinear * sizeof *e.held);
    e.raw = an_mem_zalloc(ctx, kernel->nlinear * sizeof *e.raw);
    e.is_kept = an_mem_zalloc(ctx, kernel->nlinear * sizeof *e.is_kept);
    an_status st = e.shift && e.same && e.held && e.raw && e.is_kept ? note_places(&e) : AN_ERR_NOMEM;
    if (!st) wgsl_find_kept(&e);
    if (!st) st = wgsl_plan_flow(&e);
    if (!st) st = wgsl_scan_matrix(&e);
    if (!st) st = wgsl_scan_memory(&e);
    if (!st) st = list_bindings(&e);
    for (size_t i = 0; i < kernel->nlinear && !st;) {
        size_t next = i;
        st = wgsl_emit_dealt(&e, i, &next);
        if (!st && next == i) st = wgsl_emit_ahead(&e, i, &next);
        if (!st && next == i) st = wgsl_emit_stages(&e, i, &next);
        if (!st && next == i) st = wgsl_emit_one(&e, kernel->linear[next++]);
        i = next;
    }
    if (!st) assemble(&e, &text);
    if (!st && out->local_nbytes > caps->max_local_nbytes)
        st = an_fail(ctx, AN_ERR_LIMIT, "webgpu: kernel %s needs %u bytes of workgroup memory; the device has %u", kernel->name,
                     out->local_nbytes, caps->max_local_nbytes);
    if (!st && (text.failed || e.body.failed || e.shared.failed)) st = AN_ERR_NOMEM;
    if (!st) {
        out->text_nbytes = strlen(an_str_cstr(&text)) + 1;
        out->text = an_mem_alloc(ctx, out->text_nbytes);
        if (out->text)
            memcpy(out->text, an_str_cstr(&text), out->text_nbytes);
        else
            st = AN_ERR_NOMEM;
    }
    an_str_fini(&text);
    emit_fini(&e);
    return st;
}

void an_wgsl_fini(an_wgsl *w)
{
    if (!w || !w->ctx) return;
    an_mem_free(w->ctx, w->text, w->text_nbytes);
    *w = (an_wgsl){0};
}

/* --- dispatch ---------------------------------------------------------------------------------- */

static int64_t floor_div(int64_t a, int64_t b)
{
    if (b == 0) return 0;
    const int64_t q = a / b;
    return a % b != 0 && (a % b < 0) != (b < 0) ? q - 1 : q;
}

static int64_t apply(an_op op, int64_t a, int64_t b)
{
    switch (op) {
    case AN_OP_ADD: return a + b;
    case AN_OP_MUL: return a * b;
    case AN_OP_FLOORDIV: return floor_div(a, b);
    case AN_OP_FLOORMOD: return b ? a - b * floor_div(a, b) : 0;
    case AN_OP_IDIV: return b ? a / b : 0;
    case AN_OP_IMOD: return b ? a % b : 0;
    case AN_OP_MAX: return a > b ? a : b;
    case AN_OP_MIN: return a < b ? a : b;
    case AN_OP_SHR: return b >= 0 && b < 63 ? a >> b : 0;
    default: return 0;
    }
}

bool an_wgsl_dispatch(const an_wgsl *w, const an_wgsl_caps *caps, const int64_t *vars, uint32_t out[3])
{
    int64_t stack[AN_WGSL_CODE_MAX];
    size_t n = 0;
    for (uint32_t i = 0; i < w->ngroups_code; i++) {
        const an_wgsl_code c = w->groups[i];
        if (c.op == AN_OP_CONST)
            stack[n++] = c.value;
        else if (c.op == AN_OP_VAR)
            stack[n++] = vars[c.value];
        else
            stack[n - 2] = apply((an_op)c.op, stack[n - 2], stack[n - 1]), n--;
    }
    const int64_t total = n ? stack[0] : 0, most = caps->max_groups;
    out[0] = out[1] = out[2] = total > 0 ? 1 : 0;
    if (total <= 0) return true;
    int64_t y = (total + most - 1) / most, z = (y + most - 1) / most;
    y = (y + z - 1) / z;
    const int64_t x = (total + y * z - 1) / (y * z);
    out[0] = (uint32_t)x;
    out[1] = (uint32_t)y;
    out[2] = (uint32_t)z;
    return x <= most && y <= most && z <= most;
}
