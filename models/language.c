/* language.c - the graphs that the models of text share: tokens in, the token one further on wanted. */
#include "generate.h"
#include "model.h"

an_tensor *model_token_loss(an_tensor *logits, an_tensor *targets)
{
    return an_cross_entropy(an_cast(an_flatten(logits, 0, 1), AN_F32), an_flatten(targets, 0, 1), NULL);
}

an_tensor *model_token_input(an_graph *g, int64_t batch, int64_t context)
{
    return an_tensor_from_host(g, AN_I32, AN_DIMS(batch, context), NULL);
}

an_status model_build_language(const model *m, an_graph *g, const model_options *o, model_graphs *out)
{
    an_init init = {.graph = g, .seed = o->seed};
    const int64_t batch = model_size(o, MODEL_BATCH), context = model_size(o, MODEL_CONTEXT);
    out->rng = an_rng_from_seed(g, o->seed);
    out->net = m->net(&init, out->rng, o);
    model_set_precision(o, out->net);
    an_module_train(out->net, false);
    for (int i = 0; i < MODEL_INPUTS_MAX; i++) out->eval_inputs[i] = model_token_input(g, o->eval_batch, context);
    out->eval = model_token_loss(an_module_forward(out->net, out->eval_inputs[0]), out->eval_inputs[1]);
    an_module_train(out->net, true);
    for (int i = 0; i < MODEL_INPUTS_MAX; i++) out->inputs[i] = model_token_input(g, batch, context);
    out->loss = model_token_loss(an_module_forward(out->net, out->inputs[0]), out->inputs[1]);
    if (m->penalty) out->loss = an_add(out->loss, m->penalty(out->net));
    if (!out->eval || !out->loss) return an_ctx_status(an_graph_ctx(g));
    return model_minimize(o, out);
}

enum { SAMPLE_TOKENS = 500 };

an_status model_show_text(const model *m, const model_ending *e)
{
    (void)m;
    generator *gen = NULL;
    const sampling how = {.temperature = 0.8, .seed = e->options->seed};
    const int64_t vocab = e->options->vocab;
    size_t n = 0;
    int32_t token = 0;
    const float *logits = NULL;
    an_status st = generator_create(e->graphs->net, model_size(e->options, MODEL_CONTEXT), vocab, &gen);
    if (!st && an_text_encode(e->text, "\n", NULL, &n) == AN_OK) st = an_text_encode(e->text, "\n", &token, &n);
    e->put(e->user, "a sample, drawn at temperature 0.8:\n");
    for (uint64_t i = 0; i < SAMPLE_TOKENS && !st; i++) {
        char text[5];
        st = generator_feed(gen, token, &logits);
        if (st) break;
        token = sample_token(&how, logits, vocab, i);
        an_text_decode(e->text, token, text);
        e->put(e->user, text);
    }
    e->put(e->user, "\n");
    generator_destroy(gen);
    return st;
}
