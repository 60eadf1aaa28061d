/* session.h - a context and a graph with a model in it: how every verb about a model begins. */
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include "cli.h"
#include "data.h"
#include "model.h"

#include <anneal/device.h>
#include <anneal/profile.h>

/* What the command line says about a model; part of a verb's arguments. */
typedef struct cli_model_args {
    const char *model, *device, *data, *preset, *optimizer, *schedule, *precision;
    const char *profile;    /* a file for the trace of the run, or NULL */
    uint64_t memory_budget; /* 0: none */
    uint64_t seed;
    double values[MODEL_VALUES_MAX]; /* NAN: as the preset has it */
} cli_model_args;

typedef struct cli_session {
    an_ctx *ctx;
    an_graph *graph;
    const model *model;
    const char *device;
    model_options options;
    model_graphs m;
    an_profile *profile;
    const char *profile_path;
} cli_session;

/* Checks names ("did you mean"), opens the device and builds the model's graphs. data, which may be NULL, tells how many
 * tokens there are. Returns 0, or a code with the sentence in e; close whatever is returned. */
int cli_session_open(cli_session *s, const cli_model_args *args, const cli_data *data, cli_error *e);
/* Writes the profile, if one was asked for: what a verb does last. An error in e already stays the one. */
int cli_session_finish(cli_session *s, cli_error *e);
/* The same with the network alone, for weights that come from a file: nothing to train or test with, vocab tokens. */
int cli_session_open_net(cli_session *s, const cli_model_args *args, int64_t vocab, cli_error *e);
void cli_session_close(cli_session *s);

/* The model of that name, or NULL with the sentence in e. */
const model *cli_find_model(const char *name, cli_error *e);

/* "adam, lr 0.001, batch 64, seed 0". */
void cli_session_recipe(const cli_session *s, char *text, size_t size);

/* What --help and the parser know of models. */
extern const cli_extra cli_models;

/* A verb about a model: s is its struct of arguments, which has a cli_model_args m. */
#define CLI_VERB_OF_MODEL(s)                                                                                           \
    .operand = "MODEL", .operand_offset = offsetof(s, m.model), .extra = &cli_models,                                  \
    .extra_offset = offsetof(s, m.values), .nextra = MODEL_VALUES_MAX, .args_size = sizeof(s)
#define CLI_OPTIONS_OF_MODEL(s)                                                                                        \
    {"preset", CLI_TEXT, offsetof(s, m.preset), "NAME", NULL, "the model's sizes and recipe: see above", 0, 0, NULL},  \
        {"optimizer", CLI_CHOICE, offsetof(s, m.optimizer), "NAME", NULL, "how parameters are updated", 0, 0,          \
         "adam adamw sgd"},                                                                                            \
        {"memory-budget", CLI_WHOLE, offsetof(s, m.memory_budget), "BYTES", "0",                                          \
         "what a step may hold between kernels; the rest is computed again (0: no limit)", 0, 9007199254740992.0, NULL},     \
        {"profile", CLI_TEXT, offsetof(s, m.profile), "FILE", NULL,                                                    \
         "write a trace of the run, for Perfetto or chrome://tracing", 0, 0, NULL},                                      \
        {"schedule", CLI_CHOICE, offsetof(s, m.schedule), "NAME", NULL, "how the learning rate goes", 0, 0,            \
         "constant cosine linear one-cycle"},                                                                          \
        {"precision", CLI_CHOICE, offsetof(s, m.precision), "NAME", NULL,                                              \
         "of products, forward and backward; parameters stay f32. auto: f16 where a GPU has matrix units", 0, 0, "f32 bf16 f16 auto"}, \
        {"seed", CLI_WHOLE, offsetof(s, m.seed), "N", "0", "of parameters, order and draws: same seed, same numbers",  \
         0, 9007199254740992.0, NULL},                                                                                 \
        {"device", CLI_TEXT, offsetof(s, m.device), "NAME", NULL,                                                      \
         "where it runs: cpu (the default), interp (slow: the oracle)", 0, 0, NULL},                                   \
        {"data", CLI_TEXT, offsetof(s, m.data), "PATH", NULL,                                                          \
         "images: a folder of IDX files, CIFAR-10's archive or folder, or fashion-mnist, mnist, cifar10, synthetic; " \
         "text: a file, or tinyshakespeare", 0, 0, NULL}

#endif
