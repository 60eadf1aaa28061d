/* print.c - the linear list as text, indented by loop:
 *
 *   for r0 in 0..64
 *     acc %1 = 0.0
 *     for r2 in 0..784
 *       %4 = load f32 p1[%3]
 *       acc %1 = mulacc ...
 *
 * A node is %n, n its place in the list; constants, params, ranges and variables are written out. */
#include "codegen/codegen.h"

#include "base/idmap.h"

typedef struct printer {
    an_str *out;
    an_graph *g;
    an_idmap at; /* node id -> 1 + place in the list */
} printer;

static bool is_atom(an_op op)
{
    return op == AN_OP_CONST || op == AN_OP_PARAM || op == AN_OP_VAR || op == AN_OP_RANGE;
}

static void put(printer *p, an_uop u)
{
    while (an_uop_op(p->g, u) == AN_OP_ACC_SET) u = an_uop_src(p->g, u, 0);
    const an_op op = an_uop_op(p->g, u);
    if (op == AN_OP_RANGE)
        an_str_printf(p->out, "r%u", an_range_id(an_uop_arg(p->g, u)));
    else if (is_atom(op))
        an_uop_print(p->out, p->g, u, 1);
    else
        an_str_printf(p->out, "%%%u", an_idmap_get(&p->at, u.id) - 1);
}

static void put_type(printer *p, an_uop u)
{
    an_str_printf(p->out, " %s", an_dtype_name(an_uop_dtype(p->g, u)));
    if (an_uop_lanes(p->g, u) > 1) an_str_printf(p->out, "x%u", an_uop_lanes(p->g, u));
}

static void put_access(printer *p, an_uop u)
{
    put(p, an_uop_src(p->g, u, 0));
    an_str_putc(p->out, '[');
    put(p, an_uop_src(p->g, u, 1));
    an_str_putc(p->out, ']');
}

static void put_gate(printer *p, an_uop u, uint32_t i)
{
    if (i >= an_uop_nsrc(p->g, u)) return;
    an_str_put(p->out, " if ");
    put(p, an_uop_src(p->g, u, i));
}

static void put_line(printer *p, an_uop u)
{
    an_graph *g = p->g;
    const an_op op = an_uop_op(g, u);
    switch (op) {
    case AN_OP_RANGE:
        an_str_put(p->out, "for ");
        put(p, u);
        an_str_put(p->out, " in 0..");
        put(p, an_uop_src(g, u, 0));
        break;
    case AN_OP_STORE:
        an_str_put(p->out, "store ");
        put_access(p, u);
        an_str_put(p->out, " = ");
        put(p, an_uop_src(g, u, 2));
        put_gate(p, u, 3);
        break;
    case AN_OP_PREFETCH:
        an_str_put(p->out, an_uop_arg(g, u) ? "prefetch to write " : "prefetch ");
        put_access(p, u);
        break;
    case AN_OP_ACC_SET:
        put(p, u);
        an_str_put(p->out, " = ");
        put(p, an_uop_src(g, u, 1));
        break;
    default:
        put(p, u);
        an_str_printf(p->out, " = %s", an_op_info_of(op)->text);
        if (op == AN_OP_HREDUCE) an_str_printf(p->out, " %s", an_op_info_of(an_reduce_op(an_uop_arg(g, u)))->text);
        if (op == AN_OP_LANE) an_str_printf(p->out, " %llu", (unsigned long long)an_uop_arg(g, u));
        put_type(p, u);
        if (op == AN_OP_FRAGMENT) {
            const an_fragment f = an_fragment_of(an_uop_arg(g, u));
            an_str_printf(p->out, " %u x %u in steps of %u, %u at ", f.rows, f.columns, f.row_step, f.column_step);
            put_access(p, u);
            break;
        }
        if (op == AN_OP_LOAD) {
            an_str_putc(p->out, ' ');
            put_access(p, u);
            put_gate(p, u, 2);
            break;
        }
        for (uint32_t i = 0; i < (op == AN_OP_ACC_GET ? 1 : an_uop_nsrc(g, u)); i++) {
            an_str_putc(p->out, ' ');
            put(p, an_uop_src(g, u, i));
        }
    }
    an_str_putc(p->out, '\n');
}

an_status an_linear_print(an_str *out, an_graph *g, const an_uop *linear, size_t n)
{
    an_ctx *ctx = an_graph_ctx(g);
    printer p = {.out = out, .g = g};
    an_status st = AN_ERR_NOMEM;
    uint32_t depth = 0;
    for (size_t i = 0; i < n; i++)
        if (!an_idmap_set(&p.at, ctx, linear[i].id, (uint32_t)i + 1)) goto done;
    for (size_t i = 0; i < n; i++) {
        const an_op op = an_uop_op(g, linear[i]);
        if (op == AN_OP_END && depth > 0) depth--;
        if (op == AN_OP_END || (is_atom(op) && op != AN_OP_RANGE)) continue;
        for (uint32_t k = 0; k < depth; k++) an_str_put(out, "  ");
        put_line(&p, linear[i]);
        if (op == AN_OP_RANGE) depth++;
    }
    st = out->failed ? AN_ERR_NOMEM : AN_OK;
done:
    an_idmap_fini(&p.at, ctx);
    return st;
}
