/* trainer.h - the loop of training without its looks: batches in, steps run, losses and accuracies out. */
#ifndef CLI_TRAINER_H
#define CLI_TRAINER_H

#include "dataset.h"
#include "session.h"

typedef struct cli_trainer {
    const cli_session *session;
    const cli_images *data; /* CLI_SPLIT_COUNT of them */
    an_plan *plan, *eval_plan;
    uint32_t batch, eval_batch;
    uint64_t seed;
    uint64_t step; /* steps run so far */
    uint64_t steps_per_epoch;
    uint32_t *order; /* of this epoch */
    uint8_t *pixels; /* room for the greater of both batches */
    int32_t *labels;
    float *logits;
} cli_trainer;

/* Compiles both plans while the loader loads, then takes its data. Close whatever is returned. */
int cli_trainer_open(cli_trainer *t, const cli_session *s, const model_options *options, cli_loader *loader, cli_error *e);
void cli_trainer_close(cli_trainer *t);

/* One step on the next batch. The last images of an epoch that do not fill a batch sit it out; another order, another
 * epoch. Returns when the step is queued. */
int cli_trainer_step(cli_trainer *t, cli_error *e);
/* The loss of the last step; waits for it. */
int cli_trainer_loss(cli_trainer *t, double *loss, cli_error *e);

/* Logits of test images first..first + n, n at most eval_batch, into t->logits (row-major, classes wide). */
int cli_trainer_logits(cli_trainer *t, uint32_t first, uint32_t n, cli_error *e);
/* How many of the first n test images (0: all) are classified rightly; *n becomes the number looked at. */
int cli_trainer_evaluate(cli_trainer *t, uint32_t *n, uint32_t *right, cli_error *e);

/* The first greatest of n numbers. */
uint32_t cli_argmax(const float *x, uint32_t n);

#endif
