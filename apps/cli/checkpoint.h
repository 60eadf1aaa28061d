/* checkpoint.h - a run in a safetensors file: the network under its own names, as other programs read it; the optimiser under
 * "optim."; random streams under "rng."; the step, which fixes the order of the data; and what the run was, in the metadata. */
#ifndef CLI_CHECKPOINT_H
#define CLI_CHECKPOINT_H

#include "trainer.h"

/* Writes all of the run. The file is replaced whole or not at all. */
int cli_checkpoint_save(const cli_trainer *t, const char *path, cli_error *e);
/* Puts a saved run back: the next step is the one that would have come. Refused: another model, other sizes, another recipe or
 * seed, another text. Before the first step. */
int cli_checkpoint_resume(cli_trainer *t, const char *path, cli_error *e);

/* A checkpoint to take weights from: ours, or any with the network's names. */
typedef struct cli_weights {
    an_ctx *ctx;
    an_safetensors *file;
    an_text alphabet; /* empty if the file has none */
} cli_weights;
int cli_weights_open(cli_weights *w, const char *path, cli_error *e);
void cli_weights_close(cli_weights *w);
/* What a checkpoint of ours says of sizes and preset, where args do not. Refuses one of another model. */
int cli_weights_options(const cli_weights *w, cli_model_args *args, cli_error *e);
/* The network's state from the file. Every tensor must be there, in its shape; a float of another width is cast. */
int cli_weights_load(const cli_weights *w, const cli_session *s, cli_error *e);

#endif
