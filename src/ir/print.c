/* print.c - nodes as text: expressions, and lists of a whole graph. */
#include "ir/graph.h"

#include <math.h>

static void print_const(an_str *out, an_dtype dtype, an_scalar v)
{
    switch (an_dtype_kind_of(dtype)) {
    case AN_KIND_BOOL: an_str_put(out, v.i ? "true" : "false"); return;
    case AN_KIND_UINT: an_str_printf(out, "%llu", (unsigned long long)v.u); return;
    case AN_KIND_INT:
    case AN_KIND_INDEX: an_str_printf(out, "%lld", (long long)v.i); return;
    case AN_KIND_FLOAT:
        if (isnan(v.f))
            an_str_put(out, "nan");
        else if (isinf(v.f))
            an_str_put(out, v.f > 0 ? "inf" : "-inf");
        else {
            an_str_printf(out, dtype == AN_F64 ? "%.17g" : "%.9g", v.f);
            if (v.f == floor(v.f) && fabs(v.f) < 1e9) an_str_put(out, ".0");
        }
        return;
    case AN_KIND_NONE: an_str_put(out, "none"); return;
    }
}

static const char *const range_kinds[] = {"", "r", "u", "n", "v", "t"};

void an_uop_print_arg(an_str *out, const an_graph *g, an_uop u)
{
    const uint64_t arg = an_uop_arg(g, u);
    const uint32_t rank = an_uop_nsrc(g, u) ? an_uop_shape(g, an_uop_src(g, u, 0)).rank : 0;
    switch (an_uop_op(g, u)) {
    case AN_OP_CONST:
        an_str_putc(out, ' ');
        print_const(out, an_uop_dtype(g, u), an_uop_const_value(g, u));
        return;
    case AN_OP_VAR: an_str_printf(out, " %s", an_uop_name(g, u)); return;
    case AN_OP_PERMUTE:
        for (uint32_t i = 0; i < rank; i++) an_str_printf(out, i ? ",%u" : " %u", an_permute_axis(arg, i));
        return;
    case AN_OP_REDUCE_AXIS: {
        const char *sep = " ";
        an_str_printf(out, " %s", an_op_info_of(an_reduce_op(arg))->text);
        for (uint32_t i = 0; i < rank; i++)
            if (an_reduce_mask(arg) >> i & 1u) {
                an_str_printf(out, "%s%u", sep, i);
                sep = ",";
            }
        return;
    }
    case AN_OP_REDUCE:
    case AN_OP_HREDUCE: an_str_printf(out, " %s", an_op_info_of(an_reduce_op(arg))->text); return;
    case AN_OP_RANGE:
        an_str_printf(out, " %s%u", range_kinds[an_range_kind_of(arg)], an_range_id(arg));
        return;
    default:
        if (arg) an_str_printf(out, " %llu", (unsigned long long)arg);
    }
}

/* Nodes that read better as one word than in brackets. */
static bool print_atom(an_str *out, const an_graph *g, an_uop u)
{
    const uint64_t arg = an_uop_arg(g, u);
    switch (an_uop_op(g, u)) {
    case AN_OP_CONST: print_const(out, an_uop_dtype(g, u), an_uop_const_value(g, u)); return true;
    case AN_OP_VAR: an_str_put(out, an_uop_name(g, u)); return true;
    case AN_OP_PARAM: an_str_printf(out, "p%llu", (unsigned long long)arg); return true;
    case AN_OP_BUFFER: an_str_printf(out, "buffer%llu", (unsigned long long)arg); return true;
    case AN_OP_RANGE: an_str_printf(out, "%s%u", an_range_kind_of(arg) == AN_RANGE_LOOP ? "i" : range_kinds[an_range_kind_of(arg)], an_range_id(arg)); return true;
    default: return false;
    }
}

void an_uop_print(an_str *out, const an_graph *g, an_uop u, uint32_t depth)
{
    enum { DEPTH_MAX = 64 };
    struct {
        an_uop u;
        uint32_t next;
    } stack[DEPTH_MAX];
    uint32_t n = 0;
    if (depth > DEPTH_MAX) depth = DEPTH_MAX;
    if (an_uop_is_none(u)) {
        an_str_put(out, "none");
        return;
    }
    if (print_atom(out, g, u)) return;
    if (depth == 0) {
        an_str_put(out, "...");
        return;
    }
    stack[n].u = u;
    stack[n++].next = 0;
    while (n) {
        const an_uop top = stack[n - 1].u;
        const uint32_t i = stack[n - 1].next++;
        if (i == 0) {
            an_str_printf(out, "(%s", an_op_info_of(an_uop_op(g, top))->text);
            if (an_op_info_of(an_uop_op(g, top))->result == AN_RESULT_ARG)
                an_str_printf(out, ":%s", an_dtype_name(an_uop_dtype(g, top)));
            an_uop_print_arg(out, g, top);
        }
        if (i == an_uop_nsrc(g, top)) {
            an_str_putc(out, ')');
            n--;
            continue;
        }
        an_str_putc(out, ' ');
        const an_uop child = an_uop_src(g, top, i);
        if (print_atom(out, g, child)) continue;
        if (n == depth) {
            an_str_put(out, "...");
            continue;
        }
        stack[n].u = child;
        stack[n++].next = 0;
    }
}

an_status an_graph_print(an_str *out, an_graph *g, const an_uop *roots, uint32_t n)
{
    an_uop_vec order = {0};
    size_t nbytes = 0;
    uint32_t *number = NULL;
    an_status st = an_toposort(g, roots, n, &order);
    if (st) goto done;
    number = an_graph_table(g, sizeof *number, &nbytes);
    st = AN_ERR_NOMEM;
    if (!number) goto done;
    for (size_t i = 0; i < order.len; i++) {
        const an_uop u = order.data[i];
        number[u.id] = (uint32_t)i;
        an_str_printf(out, "%%%zu = %s", i, an_op_info_of(an_uop_op(g, u))->text);
        if (an_uop_dtype(g, u) != AN_DTYPE_NONE) an_str_printf(out, " %s", an_dtype_name(an_uop_dtype(g, u)));
        if (an_uop_lanes(g, u) > 1) an_str_printf(out, "x%u", an_uop_lanes(g, u));
        if (an_uop_shape(g, u).rank) {
            an_str_putc(out, ' ');
            an_shape_print(out, g, an_uop_shape(g, u));
        }
        an_uop_print_arg(out, g, u);
        for (uint32_t s = 0; s < an_uop_nsrc(g, u); s++) an_str_printf(out, " %%%u", number[an_uop_src(g, u, s).id]);
        an_str_putc(out, '\n');
    }
    st = out->failed ? AN_ERR_NOMEM : AN_OK;
done:
    an_mem_free(g->ctx, number, nbytes);
    an_vec_fini(g->ctx, &order);
    return st;
}
