/* classifier.c - the graphs that every classifier of images shares. Images go to the device as bytes and are scaled there. */
#include "model.h"

an_tensor *model_scaled(an_tensor *bytes)
{
    return an_mul_scalar(an_sub_scalar(an_cast(bytes, AN_F32), 64.0), 1.0 / 85.0);
}

an_status model_build_classifier(const model *m, an_graph *g, const model_options *o, model_graphs *out)
{
    an_init init = {.graph = g, .seed = o->seed};
    const an_uop batch = m->max_batch ? an_symbol(g, "batch", 1, m->max_batch) : an_dim(g, model_size(o, MODEL_BATCH));
    out->rng = an_rng_from_seed(g, o->seed);
    out->net = m->net(&init, out->rng, o);
    model_set_precision(o, out->net);
    out->eval_inputs[0] = an_tensor_from_host(g, AN_U8, AN_DIMS(o->eval_batch, m->features), NULL);
    an_module_train(out->net, false);
    out->eval = an_cast(an_module_forward(out->net, model_scaled(out->eval_inputs[0])), AN_F32); /* (eval_batch, classes) */
    out->inputs[0] = an_tensor_alloc_uop(g, AN_U8, (an_uop[]){batch, an_dim(g, m->features)}, 2);
    out->inputs[1] = an_tensor_alloc_uop(g, AN_I32, &batch, 1);
    an_module_train(out->net, true);
    out->loss = an_cross_entropy(an_cast(an_module_forward(out->net, model_scaled(out->inputs[0])), AN_F32), out->inputs[1], NULL);
    if (!out->eval || !out->loss) return an_ctx_status(an_graph_ctx(g));
    return model_minimize(o, out);
}
