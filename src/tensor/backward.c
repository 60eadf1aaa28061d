/* backward.c - gradients as tensors: checks, and handles around src/autodiff. */
#include "tensor/tensor.h"

#include "autodiff/autodiff.h"
#include "runtime/runtime.h"
#include <anneal/grad.h>

static an_status check(an_ctx *ctx, an_tensor *y, an_tensor *cotangent, an_tensor *const *wrt, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!wrt[i]) return an_fail(ctx, AN_ERR_ARG, "an_backward: tensor %zu to differentiate by is NULL", i);
        if (wrt[i]->graph != y->graph)
            return an_fail(ctx, AN_ERR_ARG, "an_backward: the loss and tensor %zu belong to two graphs", i);
        if (an_dtype_kind_of(an_tensor_dtype(wrt[i])) != AN_KIND_FLOAT)
            return an_fail(ctx, AN_ERR_DTYPE, "an_backward: tensor %zu is of dtype %s; only floats have gradients", i,
                           an_dtype_name(an_tensor_dtype(wrt[i])));
    }
    if (!cotangent) return AN_OK;
    if (cotangent->graph != y->graph)
        return an_fail(ctx, AN_ERR_ARG, "an_backward_from: y and its cotangent belong to two graphs");
    if (an_tensor_dtype(cotangent) != an_tensor_dtype(y))
        return an_fail(ctx, AN_ERR_DTYPE, "an_backward_from: y is of dtype %s, its cotangent of dtype %s; cast one",
                       an_dtype_name(an_tensor_dtype(y)), an_dtype_name(an_tensor_dtype(cotangent)));
    const an_graph *g = y->graph;
    const an_shape ys = an_uop_shape(g, y->uop), cs = an_uop_shape(g, cotangent->uop);
    if (an_shape_eq(ys, cs)) return AN_OK;
    an_str text;
    an_str_init(&text, ctx);
    an_str_put(&text, "an_backward_from: y has the shape ");
    an_shape_print(&text, g, ys);
    an_str_put(&text, ", its cotangent ");
    an_shape_print(&text, g, cs);
    an_fail(ctx, AN_ERR_SHAPE, "%s; broadcast the cotangent first", an_str_cstr(&text));
    an_str_fini(&text);
    return AN_ERR_SHAPE;
}

an_status an_backward_from(an_tensor *y, an_tensor *cotangent, an_tensor *const *wrt, size_t n, an_tensor **grads)
{
    if (!y) return AN_ERR_ARG;
    an_graph *g = y->graph;
    an_ctx *ctx = an_graph_ctx(g);
    AN_VEC(an_uop) nodes = {0}; /* of wrt, then of the gradients */
    AN_VEC(an_tensor *) handles = {0};
    an_status st = check(ctx, y, cotangent, wrt, n);
    if (st) goto done;
    st = AN_ERR_NOMEM;
    if (!an_vec_reserve(ctx, &nodes, 2 * n + 1) || !an_vec_reserve(ctx, &handles, n + 1)) goto done;
    for (size_t i = 0; i < n; i++) nodes.data[i] = an_tensor_node(wrt[i]);
    /* Of a realized tensor only the buffer is left: every gradient through it would be zero, and silently wrong. */
    bool has_history = an_uop_op(g, an_tensor_node(y)) != AN_OP_BUFFER;
    for (size_t i = 0; i < n; i++) has_history = has_history || an_uop_eq(nodes.data[i], an_tensor_node(y));
    if (!has_history && n) {
        st = an_fail(ctx, AN_ERR_ARG, "an_backward: the loss is a buffer: it was realized or read before, and how it was computed "
                                      "is no longer known; differentiate first, then realize");
        goto done;
    }
    st = an_runtime_check(g, an_tensor_node(y)); /* else wrt may be a newer version than the loss reads, with gradients of zero */
    if (st) goto done;
    an_uop *grad = nodes.data + n;
    st = an_backward_uops(g, an_tensor_node(y), cotangent ? an_tensor_node(cotangent) : AN_UOP_NONE, nodes.data, n,
                          grad);
    if (st) goto done;
    st = AN_ERR_NOMEM;
    an_tensor *const operands[2] = {y, cotangent};
    for (size_t i = 0; i < n; i++) {
        handles.data[i] = an_tensor_wrap(g, grad[i], operands, cotangent ? 2 : 1);
        if (!handles.data[i]) goto done;
    }
    if (n) memcpy(grads, handles.data, n * sizeof *grads);
    st = AN_OK;
done:
    an_vec_fini(ctx, &nodes);
    an_vec_fini(ctx, &handles);
    return st;
}

an_status an_backward(an_tensor *loss, an_tensor *const *wrt, size_t n, an_tensor **grads)
{
    if (!loss) return AN_ERR_ARG;
    const an_graph *g = loss->graph;
    an_ctx *ctx = an_graph_ctx(g);
    const an_shape s = an_uop_shape(g, loss->uop);
    for (uint32_t i = 0; i < s.rank; i++) {
        if (an_uop_is_int(g, s.dims[i], 1)) continue;
        an_str text;
        an_str_init(&text, ctx);
        an_shape_print(&text, g, s);
        an_fail(ctx, AN_ERR_SHAPE,
                "an_backward: the loss has the shape %s, not one element; take its sum or mean, or use an_backward_from",
                an_str_cstr(&text));
        an_str_fini(&text);
        return AN_ERR_SHAPE;
    }
    return an_backward_from(loss, NULL, wrt, n, grads);
}
