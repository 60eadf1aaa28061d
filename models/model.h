/* model.h - what a model gives the command line: its options, its graphs for training and for evaluation, and what it has to
 * show at the end. Public headers only, as a user would write it.
 *
 * A step is one graph: inputs -> loss -> gradients -> update. Which inputs there are follows from the kind of data:
 *     MODEL_IMAGES   u8 (batch, features), i32 (batch)          bytes as the files have them, and labels
 *     MODEL_TEXT     i32 (batch, context), i32 (batch, context) tokens, and the tokens one further on
 *     MODEL_DRAWN    none: the graph draws what it trains on */
#ifndef MODEL_H
#define MODEL_H

#include <anneal/io.h>
#include <anneal/nn.h>

/* Places in model_options.values. */
enum {
#define VALUE(id, name, metavar, help, min, max, whole) MODEL_##id,
#include "values.def"
#undef VALUE
    MODEL_OWN, /* the first of the model's own */
    MODEL_CONTEXT = MODEL_OWN, /* of a model of text: tokens in a sequence */
    MODEL_VALUES_MAX = 48,
    MODEL_PRESETS_MAX = 4,
    MODEL_INPUTS_MAX = 2
};

typedef enum model_data { MODEL_IMAGES, MODEL_TEXT, MODEL_DRAWN } model_data;

/* A number that is an option of the command line. */
typedef struct model_value {
    const char *name, *metavar, *help;
    double min, max;
    bool is_whole;
} model_value;

/* A set of defaults; the first one of a model is taken where none is asked for. */
typedef struct model_preset {
    const char *name;                 /* "cpu", "gpu" */
    const char *optimizer, *schedule, *precision; /* NULL: "adam", "constant", "f32" */
    double values[MODEL_VALUES_MAX];
} model_preset;

/* What training needs to know before the graph is built. */
typedef struct model_options {
    double values[MODEL_VALUES_MAX];
    const char *optimizer; /* "adam", "adamw", "sgd" */
    const char *schedule;  /* "constant", "cosine", "linear", "one-cycle" */
    const char *precision; /* "f32", "bf16", "f16"; "auto" is f32 until it is known where it runs */
    uint64_t seed;
    int64_t eval_batch;
    int64_t vocab; /* MODEL_TEXT: how many tokens there are */
} model_options;

/* The graphs, all in one an_graph: they share the parameters. */
typedef struct model_graphs {
    an_module *net;
    an_optim *optim;
    an_rng *rng; /* of dropout, masks and the like */
    double lr; /* in force, or what the schedule starts from */
    /* training: write the inputs, run the plan of model_outputs, read the loss */
    an_tensor *inputs[MODEL_INPUTS_MAX];
    an_tensor *loss; /* f32 () */
    /* evaluation: logits, f32 (eval_batch, classes), of a classifier; else the mean loss of a batch, f32 () */
    an_tensor *eval_inputs[MODEL_INPUTS_MAX];
    an_tensor *eval;
} model_graphs;

/* What a model may look at when training has ended, and where it writes what it has to show: UTF-8 text, and escape sequences
 * only if colour is on. */
typedef struct model_ending {
    const model_options *options;
    const model_graphs *graphs;
    const an_text *text; /* MODEL_TEXT: the data */
    const uint8_t *images; /* MODEL_IMAGES: nimages test images of features bytes, and their labels */
    const uint8_t *labels;
    uint32_t nimages;
    bool colour, truecolour, utf8;
    void (*put)(void *user, const char *text);
    an_status (*show)(void *user, const an_picture *picture); /* in the terminal, and where --samples says */
    void *user;
} model_ending;

typedef struct model model;
struct model {
    const char *name, *title;
    const char *about; /* the architecture, in a paragraph or two of --help */
    model_data data;
    const char *dataset;         /* a name of the data set table; NULL for MODEL_DRAWN */
    uint32_t features, classes;  /* MODEL_IMAGES */
    bool is_classifier;          /* eval gives logits, and accuracy is what is told of them */
    int64_t max_batch;           /* MODEL_IMAGES: the batch is the symbol "batch", 1 to this; 0: it is a number */
    const model_value *values;   /* its own; the first one's place is MODEL_OWN */
    uint32_t nvalues;
    const model_preset *presets; /* at least one */
    uint32_t npresets;
    /* The network; NULL on failure. */
    an_module *(*net)(an_init *init, an_rng *rng, const model_options *options);
    /* Builds everything in g, with the help of this header's functions; parameters get their buffers, nothing is compiled. */
    an_status (*build)(const model *m, an_graph *g, const model_options *options, model_graphs *out);
    /* MODEL_IMAGES: makes up image i of the data set "synthetic", and its label. NULL: bright spots. */
    void (*synthesize)(uint64_t seed, uint32_t i, uint8_t *pixels, uint8_t *label);
    /* What is added to the loss of a model of text in training; NULL: nothing. */
    an_tensor *(*penalty)(an_module *net);
    /* n pictures that a trained model makes, f32 (n, channels, side, side), realized; NULL with the sentence in the context. A
     * model that makes none has no such function. */
    an_tensor *(*sample)(const model_options *options, const model_graphs *graphs, int64_t n);
    /* Shows what was learnt; NULL: nothing to show. */
    an_status (*finish)(const model *m, const model_ending *e);
};

/* The models there are, by number and by name (NULL if there is none). */
size_t model_count(void);
const model *model_get(size_t i);
const model *model_find(const char *name);

/* A model's options as rows: those of values.def, then its own. */
uint32_t model_nvalues(const model *m);
model_value model_get_value(const model *m, uint32_t i);

/* The defaults of a preset; NULL: the first. false if the model has none of that name. */
bool model_defaults(const model *m, const char *preset, model_options *out);

/* A whole-numbered option. */
int64_t model_size(const model_options *o, uint32_t i);

/* m->build. On failure the context has the sentence. */
an_status model_build(const model *m, an_graph *g, const model_options *options, model_graphs *out);
/* The plan of a step: the loss, every write of the optimiser, and the buffers that the network itself writes. */
an_status model_plan(const model_graphs *graphs, an_trace *trace, an_plan **out);

/* --- for the files of models --------------------------------------------------------------------- */

/* mlp's network, which dynmlp trains too; its width is the first of their own options. */
an_module *model_mlp_net(an_init *init, an_rng *rng, const model_options *options);

/* A classifier of images: net(x), x f32 (batch, features), gives logits (batch, classes); cross-entropy. */
an_status model_build_classifier(const model *m, an_graph *g, const model_options *options, model_graphs *out);
/* logits (batch, context, vocab) and targets (batch, context) -> the mean over all tokens, f32. */
an_tensor *model_token_loss(an_tensor *logits, an_tensor *targets);
/* An i32 (batch, context) for tokens. */
an_tensor *model_token_input(an_graph *g, int64_t batch, int64_t context);
/* Generates from the beginning of a line and shows it: the finish of models of text. */
an_status model_show_text(const model *m, const model_ending *e);
/* A model of text: net(tokens) gives logits (batch, context, vocab) for the token one further on; cross-entropy. */
an_status model_build_language(const model *m, an_graph *g, const model_options *options, model_graphs *out);

/* The dtype of the options' precision for net's products. Before the forward pass is built. */
void model_set_precision(const model_options *options, an_module *net);

/* Gives out->optim as the options ask, over out->net's parameters, and the update that makes out->loss smaller. */
an_status model_minimize(const model_options *options, model_graphs *out);

/* n layers, one after another, each made by make: named "0", "1", ... */
an_module *model_stack(an_init *init, an_rng *rng, const model_options *options, int64_t n,
                       an_module *(*make)(an_init *init, an_rng *rng, const model_options *options));

/* Bytes 0..255 to numbers of about mean 0 and deviation 1: MNIST's bytes have mean 33 and deviation 79, Fashion-MNIST's 73
 * and 90. Half a percent better after five epochs than 0..1. */
an_tensor *model_scaled(an_tensor *bytes);

#endif
