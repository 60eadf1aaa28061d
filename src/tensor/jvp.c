/* jvp.c - forward mode as tensors: checks, and handles around src/autodiff. */
#include "tensor/tensor.h"

#include "autodiff/autodiff.h"
#include <anneal/grad.h>

static an_status check_tensor(an_ctx *ctx, const an_graph *g, const an_tensor *x, const char *what, size_t i)
{
    if (!x) return an_fail(ctx, AN_ERR_ARG, "an_jvp: %s %zu is NULL", what, i);
    if (x->graph != g)
        return an_fail(ctx, AN_ERR_ARG, "an_jvp: %s %zu and output 0 belong to two graphs", what, i);
    if (an_dtype_kind_of(an_tensor_dtype(x)) == AN_KIND_FLOAT) return AN_OK;
    return an_fail(ctx, AN_ERR_DTYPE, "an_jvp: %s %zu is of dtype %s; only floats have tangents", what, i,
                   an_dtype_name(an_tensor_dtype(x)));
}

static an_status check_tangent(an_ctx *ctx, const an_graph *g, const an_tensor *x, const an_tensor *d, size_t i)
{
    if (!d) return AN_OK;
    if (d->graph != g) return an_fail(ctx, AN_ERR_ARG, "an_jvp: input %zu and its tangent belong to two graphs", i);
    if (an_tensor_dtype(d) != an_tensor_dtype(x))
        return an_fail(ctx, AN_ERR_DTYPE, "an_jvp: input %zu is of dtype %s, its tangent of dtype %s; cast one", i,
                       an_dtype_name(an_tensor_dtype(x)), an_dtype_name(an_tensor_dtype(d)));
    const an_shape xs = an_uop_shape(g, x->uop), ds = an_uop_shape(g, d->uop);
    if (an_shape_eq(xs, ds)) return AN_OK;
    an_str text;
    an_str_init(&text, ctx);
    an_str_printf(&text, "an_jvp: input %zu has the shape ", i);
    an_shape_print(&text, g, xs);
    an_str_put(&text, ", its tangent ");
    an_shape_print(&text, g, ds);
    an_fail(ctx, AN_ERR_SHAPE, "%s; broadcast the tangent first", an_str_cstr(&text));
    an_str_fini(&text);
    return AN_ERR_SHAPE;
}

/* Of a realized tensor only the buffer is left: its tangent would be zero, and silently wrong. */
static an_status check_history(an_ctx *ctx, const an_graph *g, const an_jvp_request *r)
{
    for (size_t i = 0; i < r->noutputs; i++) {
        bool has_history = an_uop_op(g, r->outputs[i]) != AN_OP_BUFFER;
        for (size_t k = 0; k < r->ninputs; k++) has_history = has_history || an_uop_eq(r->inputs[k], r->outputs[i]);
        if (!has_history)
            return an_fail(ctx, AN_ERR_ARG, "an_jvp: output %zu is a buffer: it was realized or read before, and how it was computed "
                                            "is no longer known; differentiate first, then realize", i);
    }
    return AN_OK;
}

an_status an_jvp(an_tensor *const *outputs, size_t noutputs, an_tensor *const *inputs, an_tensor *const *tangents, size_t ninputs,
                 an_tensor **out)
{
    if (noutputs == 0) return AN_OK;
    if (!outputs[0]) return AN_ERR_ARG;
    an_graph *g = outputs[0]->graph;
    an_ctx *ctx = an_graph_ctx(g);
    AN_VEC(an_uop) nodes = {0}; /* of outputs, inputs and tangents, then of the result */
    AN_VEC(an_tensor *) handles = {0};
    an_status st = AN_OK;
    for (size_t i = 0; i < noutputs && !st; i++) st = check_tensor(ctx, g, outputs[i], "output", i);
    for (size_t i = 0; i < ninputs && !st; i++) {
        st = check_tensor(ctx, g, inputs[i], "input", i);
        if (!st) st = check_tangent(ctx, g, inputs[i], tangents[i], i);
    }
    if (st) return st;
    st = AN_ERR_NOMEM;
    if (!an_vec_reserve(ctx, &nodes, 2 * (noutputs + ninputs)) || !an_vec_reserve(ctx, &handles, noutputs + ninputs + 1)) goto done;
    an_uop *out_nodes = nodes.data, *in_nodes = out_nodes + noutputs, *tangent_nodes = in_nodes + ninputs;
    an_uop *result = tangent_nodes + ninputs;
    size_t noperands = 1; /* what a result was built from: its output, and the tangents */
    an_tensor **operands = handles.data + noutputs;
    for (size_t i = 0; i < noutputs; i++) out_nodes[i] = an_tensor_node(outputs[i]);
    for (size_t i = 0; i < ninputs; i++) {
        in_nodes[i] = an_tensor_node(inputs[i]);
        tangent_nodes[i] = tangents[i] ? an_tensor_node(tangents[i]) : AN_UOP_NONE;
        if (tangents[i]) operands[noperands++] = tangents[i];
    }
    const an_jvp_request request = {
        .outputs = out_nodes, .noutputs = noutputs, .inputs = in_nodes, .tangents = tangent_nodes, .ninputs = ninputs};
    st = check_history(ctx, g, &request);
    if (!st) st = an_jvp_uops(g, &request, result);
    if (st) goto done;
    st = AN_ERR_NOMEM;
    for (size_t i = 0; i < noutputs; i++) {
        operands[0] = outputs[i];
        handles.data[i] = an_tensor_wrap(g, result[i], operands, noperands);
        if (!handles.data[i]) goto done;
    }
    memcpy(out, handles.data, noutputs * sizeof *out);
    st = AN_OK;
done:
    an_vec_fini(ctx, &nodes);
    an_vec_fini(ctx, &handles);
    return st;
}
