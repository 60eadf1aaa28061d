/* lists.c - linear lists by hand, node by node in execution order. */
#include "conformance.h"

void conf_list_init(conf_list *l, an_test *t)
{
    *l = (conf_list){.t = t, .g = an_test_graph(t)};
}

void conf_list_fini(conf_list *l)
{
    an_vec_fini(l->t->ctx, &l->linear);
}

an_uop conf_put(conf_list *l, an_uop u)
{
    CHECK(l->t, !an_uop_is_none(u));
    for (size_t i = 0; i < l->linear.len; i++)
        if (an_uop_eq(l->linear.data[i], u)) return u;
    CHECK(l->t, an_vec_push(l->t->ctx, &l->linear, u));
    return u;
}

an_uop conf_param(conf_list *l, an_dtype dtype, bool is_out)
{
    const uint32_t slot = l->kernel.nparams++;
    l->kernel.params[slot] = (an_kernel_param){.dtype = dtype, .is_read = true, .is_written = is_out};
    return conf_put(l, an_param(l->g, dtype, slot));
}

an_uop conf_var(conf_list *l, const char *name)
{
    const an_uop v = conf_put(l, an_uop_var(l->g, name, 0, 1 << 20));
    l->kernel.vars[l->kernel.nvars++] = v;
    return v;
}

an_uop conf_index(conf_list *l, int64_t v)
{
    return conf_put(l, an_index(l->g, v));
}

an_uop conf_binary(conf_list *l, an_op op, an_uop x, an_uop y)
{
    const an_uop src[2] = {x, y};
    const an_dtype dtype = an_op_has(op, AN_TRAIT_CMP) ? AN_BOOL : an_uop_dtype(l->g, x);
    return conf_put(l, an_uop_new_full(l->g, op, dtype, an_uop_lanes(l->g, x), src, 2, 0, 0));
}

an_uop conf_cast(conf_list *l, an_dtype dtype, an_uop x)
{
    if (an_uop_dtype(l->g, x) == dtype) return x;
    return conf_put(l, an_uop_new_full(l->g, AN_OP_CAST, dtype, an_uop_lanes(l->g, x), &x, 1, 0, 0));
}

an_uop conf_vector_op(conf_list *l, an_op op, an_uop x, uint32_t lanes, uint64_t arg)
{
    return conf_put(l, an_uop_new_full(l->g, op, an_uop_dtype(l->g, x), lanes, &x, 1, arg, 0));
}

an_uop conf_load(conf_list *l, an_uop param, an_uop index, an_uop gate)
{
    const an_uop src[3] = {param, index, gate};
    return conf_put(l, an_uop_new_full(l->g, AN_OP_LOAD, an_uop_dtype(l->g, param), an_uop_lanes(l->g, index), src,
                                       an_uop_is_none(gate) ? 2 : 3, 0, 0));
}

void conf_store(conf_list *l, an_uop param, an_uop index, an_uop value, an_uop gate)
{
    conf_put(l, an_store(l->g, param, index, value, gate));
}

an_uop conf_range(conf_list *l, an_uop bound, uint32_t id)
{
    return conf_put(l, an_range(l->g, bound, id, AN_RANGE_LOOP));
}

an_uop conf_end(conf_list *l, an_uop range)
{
    return conf_put(l, an_uop_new(l->g, AN_OP_END, AN_INDEX, &range, 1, 0));
}

an_uop conf_acc(conf_list *l, an_uop init)
{
    return conf_put(l, an_acc(l->g, init));
}

void conf_acc_set(conf_list *l, an_uop acc, an_uop x)
{
    const an_uop src[2] = {acc, x};
    conf_put(l, an_uop_new_full(l->g, AN_OP_ACC_SET, an_uop_dtype(l->g, acc), an_uop_lanes(l->g, acc), src, 2, 0, 0));
}

an_uop conf_acc_get(conf_list *l, an_uop acc, an_uop end)
{
    const an_uop src[2] = {acc, end};
    return conf_put(l, an_uop_new_full(l->g, AN_OP_ACC_GET, an_uop_dtype(l->g, acc), an_uop_lanes(l->g, acc), src, 2, 0, 0));
}

void conf_finish(conf_list *l, const char *name)
{
    CHECK_OK(l->t, an_linear_verify(l->g, l->linear.data, l->linear.len, name));
    l->kernel.name = name;
    l->kernel.graph = l->g;
    l->kernel.linear = l->linear.data;
    l->kernel.nlinear = l->linear.len;
}
