/* trainer.h - the loop of training without its looks: batches in, steps run, losses and results of tests out. */
#ifndef CLI_TRAINER_H
#define CLI_TRAINER_H

#include "feed.h"
#include "session.h"

typedef struct cli_trainer {
    const cli_session *session;
    cli_data *data;
    an_plan *plan, *eval_plan; /* eval_plan NULL: the model cannot be tested */
    uint32_t batch, eval_batch;
    int64_t context; /* of text */
    uint64_t step;   /* steps run so far */
    uint64_t steps;  /* to run */
    uint64_t steps_per_epoch; /* 0 where there are no epochs */
    cli_batcher batcher;
    cli_feed *feed;
    size_t sizes[MODEL_INPUTS_MAX]; /* bytes of the inputs, at the largest batch */
    size_t each[MODEL_INPUTS_MAX];  /* bytes of one example, where the batch is a symbol; else 0 */
    void *test[MODEL_INPUTS_MAX];   /* host copies of a test batch */
    float *logits;                  /* of a classifier */
} cli_trainer;

/* Compiles both plans while data loads, then takes it. Close whatever is returned. */
/* sizes: of the batches by epoch, for a model of any batch; NULL: --batch always. */
int cli_trainer_open(cli_trainer *t, const cli_session *s, cli_data *data, const uint32_t *sizes, uint32_t nsizes, cli_error *e);
void cli_trainer_close(cli_trainer *t);

/* One step on the next batch. Returns when it is queued. */
int cli_trainer_step(cli_trainer *t, cli_error *e);
/* The loss of the last step; waits for it. */
int cli_trainer_loss(cli_trainer *t, double *loss, cli_error *e);

/* Logits of test images first..first + n, n at most eval_batch, into t->logits (row-major, classes wide). */
int cli_trainer_logits(cli_trainer *t, uint32_t first, uint32_t n, cli_error *e);

/* What a test found. */
typedef struct cli_result {
    bool known, is_accuracy; /* else it is a mean loss */
    double value;
    uint32_t n, right; /* examples looked at, and classified rightly */
    uint64_t step;     /* when */
} cli_result;
/* Tests on the first n examples (0: all) that were not trained on. A model without a test is not known afterwards. */
int cli_trainer_test(cli_trainer *t, uint32_t n, cli_result *r, cli_error *e);
/* "test accuracy 87.50 %", "validation loss 1.8823". */
void cli_result_print(const cli_trainer *t, const cli_result *r, char *text, size_t size);
const char *cli_result_name(const cli_trainer *t); /* "test_accuracy", "validation_loss" */

/* The first greatest of n numbers. */
uint32_t cli_argmax(const float *x, uint32_t n);

#endif
