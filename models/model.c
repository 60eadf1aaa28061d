/* model.c - the table of models, and the graphs that every classifier of images shares. */
#include "model.h"

#include <string.h>

#define MODEL(name) extern const model model_##name;
#include "models.def"
#undef MODEL

static const model *const models[] = {
#define MODEL(name) &model_##name,
#include "models.def"
#undef MODEL
};

size_t model_count(void)
{
    return sizeof models / sizeof models[0];
}

const model *model_get(size_t i)
{
    return models[i];
}

const model *model_find(const char *name)
{
    for (size_t i = 0; i < model_count(); i++)
        if (strcmp(models[i]->name, name) == 0) return models[i];
    return NULL;
}

/* Good for the small networks here: the accuracies of the README are with these. */
enum { ADAM, ADAMW, SGD };
static const double default_lr[] = {[ADAM] = 1e-3, [ADAMW] = 1e-3, [SGD] = 0.05};

static an_optim *make_optim(const model_options *o, an_params params, double *lr)
{
    const int kind = strcmp(o->optimizer, "sgd") == 0 ? SGD : strcmp(o->optimizer, "adamw") == 0 ? ADAMW : ADAM;
    *lr = o->lr > 0 ? o->lr : default_lr[kind];
    if (kind == SGD)
        return an_optim_sgd(params, &(an_sgd_desc){.lr = *lr, .momentum = o->momentum, .weight_decay = o->weight_decay});
    const an_adam_desc desc = {.lr = *lr, .weight_decay = o->weight_decay};
    return kind == ADAMW ? an_optim_adamw(params, &desc) : an_optim_adam(params, &desc);
}

/* Bytes 0..255 to numbers of about mean 0 and deviation 1: MNIST's bytes have mean 33 and deviation 79, Fashion-MNIST's 73
 * and 90. Half a percent better after five epochs than 0..1. */
static an_tensor *scaled(an_tensor *bytes)
{
    return an_mul_scalar(an_sub_scalar(an_cast(bytes, AN_F32), 64.0), 1.0 / 85.0);
}

an_status model_build(const model *m, an_graph *g, const model_options *o, model_graphs *out)
{
    an_ctx *ctx = an_graph_ctx(g);
    an_init init = {.graph = g, .seed = o->seed};
    model_graphs r = {.net = m->net(&init)};
    r.optim = make_optim(o, an_module_parameters(r.net), &r.lr); /* before the loss: it writes its learning rate */
    r.eval_images = an_tensor_from_host(g, AN_U8, AN_DIMS(o->eval_batch, m->features), NULL);
    r.eval_logits = an_module_forward(r.net, scaled(r.eval_images)); /* (eval_batch, classes) */
    r.images = an_tensor_from_host(g, AN_U8, AN_DIMS(o->batch, m->features), NULL);
    r.labels = an_tensor_from_host(g, AN_I32, AN_DIMS(o->batch), NULL);
    r.loss = an_cross_entropy(an_module_forward(r.net, scaled(r.images)), r.labels, NULL);
    if (!r.eval_logits || !r.loss) return an_ctx_status(ctx);
    const an_status st = an_optim_minimize(r.optim, r.loss);
    if (st) return st;
    *out = r;
    return AN_OK;
}
