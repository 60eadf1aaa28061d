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

static an_lr_kind schedule_of(const char *name)
{
    if (strcmp(name, "cosine") == 0) return AN_LR_COSINE;
    if (strcmp(name, "linear") == 0) return AN_LR_LINEAR;
    return strcmp(name, "one-cycle") == 0 ? AN_LR_ONE_CYCLE : AN_LR_CONSTANT;
}

static an_status tell(const model_options *o, an_optim *optim)
{
    const double *v = o->values;
    an_status st = AN_OK;
    if (v[MODEL_WEIGHT_DECAY] > 0) st = an_optim_group(optim, &(an_param_group){.has = an_parameter_is_vector});
    if (!st && v[MODEL_CLIP] > 0) st = an_optim_clip(optim, v[MODEL_CLIP]);
    if (!st && v[MODEL_ACCUMULATE] > 1) st = an_optim_accumulate(optim, model_size(o, MODEL_ACCUMULATE));
    if (!st && strcmp(o->precision, "f16") == 0) st = an_optim_scale_loss(optim, 0, 0);
    if (st || (schedule_of(o->schedule) == AN_LR_CONSTANT && v[MODEL_WARMUP] == 0)) return st;
    return an_optim_schedule(optim, &(an_lr_schedule){.kind = schedule_of(o->schedule), .warmup = v[MODEL_WARMUP],
                                                   .total = v[MODEL_STEPS], .lr_end = v[MODEL_LR_MIN]});
}

void model_set_precision(const model_options *o, an_module *net)
{
    an_module_set_compute(net, strcmp(o->precision, "bf16") == 0 ? AN_BF16 : strcmp(o->precision, "f16") == 0 ? AN_F16 : AN_DTYPE_NONE);
}

an_status model_minimize(const model_options *o, model_graphs *out)
{
    if (!out->net || !out->loss) return AN_ERR_ARG;
    out->optim = make_optim(o, an_module_parameters(out->net), &out->lr);
    const an_status st = tell(o, out->optim);
    return st ? st : an_optim_minimize(out->optim, out->loss);
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
    const uint32_t ndraws = an_rng_count(graphs->rng);
    an_tensor **more = malloc((state.n + ndraws + 2) * sizeof(an_tensor *));
    if (!more) return AN_ERR_NOMEM;
    more[0] = graphs->loss;
    size_t n = 1 + buffers_of(graphs, state, more + 1);
    for (uint32_t i = 0; i < ndraws; i++) more[n++] = an_rng_state(graphs->rng, i);
    const an_status st = an_optim_plan(graphs->optim, more, n, trace, out);
    free(more);
    return st;
}

an_module *model_stack(an_init *init, an_rng *rng, const model_options *o, int64_t n,
                       an_module *(*make)(an_init *init, an_rng *rng, const model_options *options))
{
    an_module **layers = malloc((size_t)n * sizeof(an_module *)), *m = NULL;
    bool ok = layers != NULL;
    for (int64_t i = 0; i < n && ok; i++) ok = (layers[i] = make(init, rng, o)) != NULL;
    if (ok) m = an_nn_sequential(init->graph, layers, (size_t)n);
    free(layers);
    return m;
}
