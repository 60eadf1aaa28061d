/* session.h - a context and a graph with a model in it: how every verb about a model begins. */
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include "cli.h"
#include "model.h"

#include <anneal/device.h>

typedef struct cli_session {
    an_ctx *ctx;
    an_graph *graph;
    const model *model;
    const char *device;
    model_graphs m;
} cli_session;

/* Checks both names ("did you mean"), opens the device and builds the model's graphs. device NULL: the default. Returns 0, or
 * a code with the sentence in e; close whatever is returned. */
int cli_session_open(cli_session *s, const char *model, const char *device, const model_options *options, cli_error *e);
void cli_session_close(cli_session *s);

/* The model of that name, or NULL with the sentence in e. */
const model *cli_find_model(const char *name, cli_error *e);

/* The default batches. */
enum { CLI_BATCH = 64, CLI_EVAL_BATCH = 500 };

/* Rows of option tables that several verbs share; s is the verb's struct. */
#define CLI_OPTION_DEVICE(s)                                                                                           \
    {"device", CLI_TEXT, offsetof(s, device), "NAME", NULL, "where it runs: cpu (the default), interp (slow: the oracle)", 0, \
     0, NULL}
#define CLI_OPTION_DATA(s)                                                                                             \
    {"data", CLI_TEXT, offsetof(s, data), "DIR", NULL,                                                                 \
     "a folder with four IDX files, plain or .gz; or fashion-mnist, mnist, synthetic", 0, 0, NULL}
#define CLI_OPTION_BATCH(s)                                                                                            \
    {"batch", CLI_WHOLE, offsetof(s, batch), "N", "64", "images in a step", 1, 65536, NULL}
#define CLI_OPTION_SEED(s)                                                                                             \
    {"seed", CLI_WHOLE, offsetof(s, seed), "N", "0", "of parameters and shuffling: same seed, same numbers", 0,        \
     9007199254740992.0, NULL}
#define CLI_OPTION_OPTIMIZER(s)                                                                                        \
    {"optimizer", CLI_CHOICE, offsetof(s, optimizer), "NAME", "adam", "how parameters are updated", 0, 0, "adam adamw sgd"}

#endif
