/* model.h - what a model gives the command line: its graphs for training and for evaluation. Public headers only, as a user
 * would write it.
 *
 * A step is one graph: inputs -> loss -> gradients -> update. Images go to the device as bytes and are scaled there. */
#ifndef MODEL_H
#define MODEL_H

#include <anneal/nn.h>

/* What training needs to know before the graph is built. All zero is the model's default. */
typedef struct model_options {
    int64_t batch;
    int64_t eval_batch;
    uint64_t seed;
    const char *optimizer; /* "adam", "adamw", "sgd" */
    double lr;             /* 0: the optimiser's default for this model */
    double momentum;       /* of sgd */
    double weight_decay;
} model_options;

/* The graphs, all in one an_graph: they share the parameters. */
typedef struct model_graphs {
    an_module *net;
    an_optim *optim;
    double lr; /* in force */
    /* training: write the inputs, run the plan of an_optim_plan(optim, &loss, 1, ...), read the loss */
    an_tensor *images; /* u8 (batch, features) */
    an_tensor *labels; /* i32 (batch) */
    an_tensor *loss;   /* f32 () */
    /* evaluation */
    an_tensor *eval_images; /* u8 (eval_batch, features) */
    an_tensor *eval_logits; /* f32 (eval_batch, classes) */
} model_graphs;

typedef struct model {
    const char *name, *title;
    const char *dataset; /* a name of the data set table */
    uint32_t features, classes;
    /* The network on x, f32 (batch, features). NULL on failure. */
    an_module *(*net)(an_init *init);
} model;

/* The models there are, by number and by name (NULL if there is none). */
size_t model_count(void);
const model *model_get(size_t i);
const model *model_find(const char *name);

/* Builds both graphs in g. Nothing is compiled; parameters get their buffers. On failure the context has the sentence. */
an_status model_build(const model *m, an_graph *g, const model_options *options, model_graphs *out);

#endif
