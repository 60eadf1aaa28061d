/* plan.c - plans over tensors: handles in, nodes to the runtime, handles repointed. */
#include "runtime/plan.h"
#include "tensor/tensor.h"

an_status an_plan_create(an_graph *g, an_tensor *const *tensors, size_t n, an_trace *trace, an_plan **out)
{
    an_ctx *ctx = an_graph_ctx(g);
    an_status st = an_runtime_refuse_capture(g, "an_plan_create");
    if (st) return st;
    st = AN_ERR_NOMEM;
    an_uop *uops = an_mem_alloc(ctx, n * sizeof *uops);
    if (!uops) goto done;
    for (size_t i = 0; i < n; i++) {
        if (!tensors[i]) {
            st = an_fail(ctx, AN_ERR_ARG, "an_plan_create: tensor %zu of %zu is NULL", i, n);
            goto done;
        }
        if (tensors[i]->graph != g) {
            st = an_fail(ctx, AN_ERR_ARG, "an_plan_create: tensor %zu belongs to another graph", i);
            goto done;
        }
        uops[i] = an_tensor_node(tensors[i]);
    }
    if (!an_tensor_separate(tensors, uops, n)) goto done;
    st = an_plan_build(g, uops, n, trace, out);
    for (size_t i = 0; i < n && !st; i++) tensors[i]->uop = uops[i];
done:
    an_mem_free(ctx, uops, n * sizeof *uops);
    return st;
}
