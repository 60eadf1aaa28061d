/* train.c - from a loss to a step: the optimiser that the options ask for, its schedule, and the plan of it all. */
#include "model.h"

#include <stdlib.h>
#include <string.h>

/* Where no learning rate is given: good for the small networks here. */
enum { ADAM, ADAMW, SGD };
static const double default_lr[] = {[ADAM] = 1e-3, [ADAMW] = 1e-3, [SGD] = 0.05};

static an_optim *make_optim(const model_options *o, an_params params, double *lr)
{
    const double *v = o->values;
    const int kind = strcmp(o->optimizer, "sgd") == 0 ? SGD : strcmp(o->optimizer, "adamw") == 0 ? ADAMW : ADAM;
    *lr = v[MODEL_LR] > 0 ? v[MODEL_LR] : default_lr[kind];
    if (kind == SGD)
        return an_optim_sgd(params, &(an_sgd_desc){.lr = *lr, .momentum = v[MODEL_MOMENTUM], .weight_decay = v[MODEL_WEIGHT_DECAY]});
    const an_adam_desc desc = {.lr = *lr, .beta1 = v[MODEL_BETA1], .beta2 = v[MODEL_BETA2], .weight_decay = v[MODEL_WEIGHT_DECAY]};
    return kind == ADAMW ? an_optim_adamw(params, &desc) : an_optim_adam(params, &desc);
}

an_status model_minimize(const model_options *o, model_graphs *out)
{
    if (!out->net || !out->loss) return an_ctx_status(an_graph_ctx(an_tensor_graph(out->inputs[0])));
    out->optim = make_optim(o, an_module_parameters(out->net), &out->lr);
    return an_optim_minimize(out->optim, out->loss);
}

/* Parameters come with the optimiser's writes; what else the network keeps is asked for, as it may be written too. */
static size_t buffers_of(const model_graphs *graphs, an_params state, an_tensor **out)
{
    const an_params params = an_module_parameters(graphs->net);
    size_t n = 0, next = 0;
    for (size_t i = 0; i < state.n; i++) {
        bool is_parameter = false;
        for (next = 0; next < params.n && !is_parameter; next++) is_parameter = params.items[next].tensor == state.items[i].tensor;
        if (!is_parameter) out[n++] = state.items[i].tensor;
    }
    return n;
}

an_status model_plan(const model_graphs *graphs, an_trace *trace, an_plan **out)
{
    const an_params state = an_module_state(graphs->net);
    an_tensor **more = malloc((state.n + 1) * sizeof(an_tensor *));
    if (!more) return AN_ERR_NOMEM;
    more[0] = graphs->loss;
    const size_t n = 1 + buffers_of(graphs, state, more + 1);
    const an_status st = an_optim_plan(graphs->optim, more, n, trace, out);
    free(more);
    return st;
}
