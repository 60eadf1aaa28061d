/* matrix.c - products of fragments, by subgroups of threads.
 *
 * FRAGMENT, MATRIX and the sums of these are subgroup_matrix values: who holds which element is not known. After the loop a sum
 * goes through workgroup memory, where each thread takes the elements that the list means: of thread t of a subgroup row
 * t / 2 and columns 4 * (t % 2) on. Several sums share the wait. */
#include "backend/webgpu/wgsl/emit.h"

#include <stdio.h>

enum { ROWS = 16, COLUMNS = 8, DEPTH = 16, LANES = 4, THREADS = ROWS * COLUMNS / LANES, SUMS_MAX = 4 };

static bool is_held(const wgsl_emit *e, an_uop u)
{
    return e->held[wgsl_place(e, u)] != WGSL_OWN;
}

bool wgsl_is_matrix(const wgsl_emit *e, an_uop u)
{
    const an_op op = an_uop_op(e->g, u);
    if (op == AN_OP_ACC_SET || op == AN_OP_ACC_GET) return is_held(e, an_uop_src(e->g, u, 0));
    return is_held(e, u);
}

static an_status note(wgsl_emit *e, an_uop u, wgsl_holding how, uint32_t rows, uint32_t columns)
{
    const an_fragment f = an_fragment_of(an_uop_arg(e->g, u));
    wgsl_holding *held = &e->held[wgsl_place(e, u)];
    if (f.rows != rows || f.columns != columns || (f.row_step != 1 && f.column_step != 1)) return wgsl_unsupported(e, u, "no matrix units take such a fragment");
    if (*held != WGSL_OWN && *held != how) return wgsl_unsupported(e, u, "it is a left and a right factor");
    *held = how;
    return AN_OK;
}

static an_status note_held(wgsl_emit *e, an_uop u)
{
    const an_op op = an_uop_op(e->g, u);
    an_status st = AN_OK;
    switch (op) {
    case AN_OP_MATRIX:
        st = note(e, an_uop_src(e->g, u, 0), WGSL_LEFT, ROWS, DEPTH);
        if (!st) st = note(e, an_uop_src(e->g, u, 1), WGSL_RIGHT, DEPTH, COLUMNS);
        if (!st && an_uop_lanes(e->g, u) != LANES) st = wgsl_unsupported(e, u, "its lanes are not those of a thread");
        e->held[wgsl_place(e, u)] = WGSL_PRODUCT;
        break;
    case AN_OP_ADD:
        for (uint32_t s = 0; s < 2; s++)
            if (e->held[wgsl_place(e, an_uop_src(e->g, u, s))] == WGSL_PRODUCT) e->held[wgsl_place(e, u)] = WGSL_SUM;
        break;
    case AN_OP_ACC_SET:
        if (is_held(e, an_uop_src(e->g, u, 1))) e->held[wgsl_place(e, an_uop_src(e->g, u, 0))] = WGSL_SUM;
        break;
    default: break;
    }
    return st;
}

/* Products go into sums, sums into accumulators that begin with 0, and nowhere else. */
static an_status check_user(wgsl_emit *e, an_uop u)
{
    const an_op op = an_uop_op(e->g, u);
    for (uint32_t s = 0; s < an_uop_nsrc(e->g, u); s++) {
        const an_uop x = an_uop_src(e->g, u, s);
        if (an_uop_op(e->g, x) == AN_OP_END || an_uop_op(e->g, u) == AN_OP_VAR || !is_held(e, x)) continue;
        const wgsl_holding how = e->held[wgsl_place(e, x)];
        const bool ok = how == WGSL_LEFT || how == WGSL_RIGHT ? op == AN_OP_MATRIX : op == AN_OP_ADD ? e->held[wgsl_place(e, u)] == WGSL_SUM : op == AN_OP_ACC_SET ? how == WGSL_SUM : op == AN_OP_ACC_GET;
        if (!ok) return wgsl_unsupported(e, x, "a product of fragments is used before its sum is done");
    }
    if (op == AN_OP_ADD && is_held(e, u) && (e->held[wgsl_place(e, an_uop_src(e->g, u, 0))] == WGSL_PRODUCT) == (e->held[wgsl_place(e, an_uop_src(e->g, u, 1))] == WGSL_PRODUCT))
        return wgsl_unsupported(e, u, "it is no product onto a sum");
    if (op != AN_OP_ACC || !is_held(e, u)) return AN_OK;
    an_uop first = an_uop_src(e->g, u, 0);
    if (an_uop_op(e->g, first) == AN_OP_BROADCAST) first = an_uop_src(e->g, first, 0);
    if (!an_uop_is_number(e->g, first, 0.0)) return wgsl_unsupported(e, u, "a sum of fragments begins with 0");
    return AN_OK;
}

an_status wgsl_scan_matrix(wgsl_emit *e)
{
    an_status st = AN_OK;
    for (size_t i = 0; i < e->kernel->nlinear && !st; i++) {
        st = note_held(e, e->kernel->linear[i]);
        e->out->uses_matrix = e->out->uses_matrix || an_uop_op(e->g, e->kernel->linear[i]) == AN_OP_MATRIX;
    }
    for (size_t i = 0; i < e->kernel->nlinear && !st && e->out->uses_matrix; i++) st = check_user(e, e->kernel->linear[i]);
    if (st || !e->out->uses_matrix) return st;
    e->out->uses_f16 = e->out->uses_subgroups = true;
    if (!e->caps->has_matrix) return an_fail(e->ctx, AN_ERR_UNSUPPORTED, "webgpu: kernel %s is for matrix units, which this device does not have", e->kernel->name);
    if (e->nthreads % THREADS) return an_fail(e->ctx, AN_ERR_UNSUPPORTED, "webgpu: kernel %s has %u threads, which are no subgroups", e->kernel->name, e->nthreads);
    return AN_OK;
}

static void name_of(const wgsl_emit *e, an_uop u, char *text)
{
    (void)snprintf(text, WGSL_OPERAND_MAX, "v%u", wgsl_place(e, u));
}

static void emit_fragment(wgsl_emit *e, an_uop u)
{
    const an_fragment f = an_fragment_of(an_uop_arg(e->g, u));
    const bool left = e->held[wgsl_place(e, u)] == WGSL_LEFT, across = f.column_step == 1;
    char at[WGSL_OPERAND_MAX];
    wgsl_operand(e, an_uop_src(e->g, u, 1), 0, at);
    wgsl_line(e, "let v%u = subgroupMatrixLoad<subgroup_matrix_%s<f16, %u, %u>, %s>(&s%u, u32(%s), %uu);", wgsl_place(e, u), left ? "left" : "right", f.columns,
              f.rows, across ? "row_major" : "col_major", (unsigned)(an_uop_arg(e->g, an_uop_src(e->g, u, 0)) >> 32), at, across ? f.row_step : f.column_step);
}

static void emit_sum(wgsl_emit *e, an_uop u)
{
    const bool second = e->held[wgsl_place(e, an_uop_src(e->g, u, 1))] == WGSL_PRODUCT;
    const an_uop product = an_uop_src(e->g, u, second), sum = an_uop_src(e->g, u, !second);
    char a[WGSL_OPERAND_MAX], b[WGSL_OPERAND_MAX], c[WGSL_OPERAND_MAX];
    name_of(e, an_uop_src(e->g, product, 0), a);
    name_of(e, an_uop_src(e->g, product, 1), b);
    name_of(e, sum, c);
    wgsl_line(e, "let v%u = subgroupMatrixMultiplyAccumulate(%s, %s, %s);", wgsl_place(e, u), a, b, c);
}

/* The workgroup memory that sums go through, and how many do at a time. */
static uint32_t sums_at_a_time(wgsl_emit *e)
{
    if (e->matrix_sums) return e->matrix_sums;
    const uint32_t each = e->nthreads / THREADS * ROWS * COLUMNS * (uint32_t)sizeof(float), used = wgsl_locals_nbytes(e);
    e->matrix_sums = SUMS_MAX;
    while (e->matrix_sums > 1 && used + e->matrix_sums * each > e->caps->max_local_nbytes) e->matrix_sums--;
    e->out->local_nbytes += e->matrix_sums * each;
    an_str_printf(&e->shared, "var<workgroup> m: array<f32, %u>;\n", e->matrix_sums * each / (uint32_t)sizeof(float));
    return e->matrix_sums;
}

/* From place i on, the sums that loop has ended with and that are not handed over yet: at most max. */
static uint32_t sums_of(const wgsl_emit *e, size_t i, an_uop end, an_uop *out, uint32_t max)
{
    uint32_t n = 0;
    for (; i < e->kernel->nlinear && n < max; i++) {
        const an_uop u = e->kernel->linear[i];
        if (an_uop_op(e->g, u) == AN_OP_ACC_GET && an_uop_eq(an_uop_src(e->g, u, 1), end) && wgsl_is_matrix(e, u)) out[n++] = u;
    }
    return n;
}

/* A sum, as each thread's own elements; others of its loop with it. */
static void hand_over(wgsl_emit *e, an_uop u)
{
    an_uop sums[SUMS_MAX];
    const uint32_t place = wgsl_place(e, u), size = ROWS * COLUMNS;
    if (e->held[place] != WGSL_OWN) return; /* done with an earlier one */
    const uint32_t n = sums_of(e, place, an_uop_src(e->g, u, 1), sums, sums_at_a_time(e));
    char acc[WGSL_OPERAND_MAX], value[64];
    wgsl_line(e, "workgroupBarrier();");
    for (uint32_t k = 0; k < n; k++) {
        name_of(e, an_uop_src(e->g, sums[k], 0), acc);
        wgsl_line(e, "subgroupMatrixStore<row_major>(&m, lid / %uu * %uu + %uu, %s, %uu);", THREADS, e->matrix_sums * size, k * size, acc, COLUMNS);
    }
    wgsl_line(e, "workgroupBarrier();");
    for (uint32_t k = 0; k < n; k++) {
        for (uint32_t l = 0; l < LANES; l++) {
            (void)snprintf(value, sizeof value, "m[lid / %uu * %uu + lid %% %uu * %uu + %uu]", THREADS, e->matrix_sums * size, THREADS, LANES, k * size + l);
            wgsl_define(e, sums[k], l, value);
        }
        e->held[wgsl_place(e, sums[k])] = WGSL_TAKEN;
    }
}

an_status wgsl_emit_matrix(wgsl_emit *e, an_uop u)
{
    char a[WGSL_OPERAND_MAX], b[WGSL_OPERAND_MAX];
    switch (an_uop_op(e->g, u)) {
    case AN_OP_FRAGMENT: emit_fragment(e, u); break;
    case AN_OP_ADD: emit_sum(e, u); break;
    case AN_OP_ACC: wgsl_line(e, "var v%u = subgroup_matrix_result<f32, %u, %u>();", wgsl_place(e, u), COLUMNS, ROWS); break;
    case AN_OP_ACC_SET:
        name_of(e, an_uop_src(e->g, u, 0), a);
        name_of(e, an_uop_src(e->g, u, 1), b);
        wgsl_line(e, "%s = %s;", a, b);
        break;
    case AN_OP_ACC_GET: hand_over(e, u); break;
    default: break; /* MATRIX: with its sum */
    }
    return AN_OK;
}
