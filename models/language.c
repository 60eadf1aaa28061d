/* language.c - the graphs that the models of text share: tokens in, the token one further on wanted. */
#include "model.h"

/* (batch, context, vocab) and (batch, context) -> the mean over all tokens. */
static an_tensor *next_token_loss(an_tensor *logits, an_tensor *targets)
{
    return an_cross_entropy(an_flatten(logits, 0, 1), an_flatten(targets, 0, 1), NULL);
}

static an_tensor *token_input(an_graph *g, int64_t batch, int64_t context)
{
    return an_tensor_from_host(g, AN_I32, AN_DIMS(batch, context), NULL);
}

an_status model_build_language(const model *m, an_graph *g, const model_options *o, model_graphs *out)
{
    an_init init = {.graph = g, .seed = o->seed};
    const int64_t batch = model_size(o, MODEL_BATCH), context = model_size(o, MODEL_CONTEXT);
    out->net = m->net(&init, an_rng_from_seed(g, o->seed), o);
    an_module_train(out->net, false);
    for (int i = 0; i < MODEL_INPUTS_MAX; i++) out->eval_inputs[i] = token_input(g, o->eval_batch, context);
    out->eval = next_token_loss(an_module_forward(out->net, out->eval_inputs[0]), out->eval_inputs[1]);
    an_module_train(out->net, true);
    for (int i = 0; i < MODEL_INPUTS_MAX; i++) out->inputs[i] = token_input(g, batch, context);
    out->loss = next_token_loss(an_module_forward(out->net, out->inputs[0]), out->inputs[1]);
    if (!out->eval || !out->loss) return an_ctx_status(an_graph_ctx(g));
    return model_minimize(o, out);
}
