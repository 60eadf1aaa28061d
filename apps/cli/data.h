/* data.h - what a model is trained on, whatever its kind: images with labels, or text. Found, loaded, described, and cut into
 * batches, each a function of (seed, step) alone, so that a run can be taken up anywhere. */
#ifndef CLI_DATA_H
#define CLI_DATA_H

#include "dataset.h"
#include "model.h"

/* A row of texts.def. */
typedef struct cli_text_info {
    const char *name, *title, *file, *sha256;
    const char *mirrors[CLI_MIRRORS];
} cli_text_info;

typedef struct cli_data {
    const model *model;
    bool synthetic;
    char title[128];          /* "Fashion-MNIST", "the text FILE" */
    cli_place place;          /* of images */
    cli_loader *loader;       /* of images; they load while kernels compile */
    const cli_images *images; /* CLI_SPLIT_COUNT of them, after cli_data_wait */
    an_ctx *ctx;
    an_text text; /* its last tenth is for testing */
} cli_data;

/* Finds data for m: what --data says, or m's own; may download, with progress on stderr. Text is read at once, since a model
 * of it needs to know its alphabet; images load in a thread. Close whatever is returned. */
int cli_data_open(cli_data *d, const model *m, const char *arg, cli_error *e);
int cli_data_wait(cli_data *d, cli_error *e);
void cli_data_close(cli_data *d);

/* Examples of a split: images; tokens of text that can begin a sequence; 0 where the graph draws its own. */
uint64_t cli_data_count(const cli_data *d, cli_split split, int64_t context);
/* "60000 images, 10000 to test". */
void cli_data_describe(const cli_data *d, char *text, size_t size);

/* What a step trains on: examples first..first + n of the epoch's order. */
typedef struct cli_share {
    uint64_t epoch;
    uint32_t first, n;
} cli_share;

enum { CLI_SIZES_MAX = 16 };

/* What fills batches: sizes, and the order of the epoch it was last in. */
typedef struct cli_batcher {
    const cli_data *data;
    uint32_t batch; /* the largest */
    uint32_t sizes[CLI_SIZES_MAX], nsizes; /* MODEL_IMAGES of any batch: by epoch, the last one for the rest; nsizes 0: batch always */
    int64_t context;
    uint64_t seed;
    uint64_t per_epoch; /* steps; 0 where there are no epochs. With sizes: of the first */
    uint64_t epoch;     /* of order, from 1; 0: none yet */
    uint32_t *order;
} cli_batcher;
int cli_batcher_open(cli_batcher *b, const cli_data *d, uint32_t batch, int64_t context, uint64_t seed, cli_error *e);
void cli_batcher_close(cli_batcher *b);
/* Epoch after epoch with batches of these sizes, the last batch of each being what is left. Errors: one that is larger than there are
 * examples, or than the model takes. */
int cli_batcher_vary(cli_batcher *b, const uint32_t *sizes, uint32_t n, cli_error *e);
/* Of MODEL_IMAGES. */
cli_share cli_batcher_at(const cli_batcher *b, uint64_t step);
uint64_t cli_batcher_steps(const cli_batcher *b, uint64_t epochs); /* in so many epochs */
/* The training batch of a step, from 0, into the model's inputs' host copies. */
void cli_batcher_fill(cli_batcher *b, uint64_t step, void *const inputs[MODEL_INPUTS_MAX]);

/* Test examples first..first + n, then nothing up to batch. Sequences of text follow each other without overlap. */
void cli_data_test(const cli_data *d, uint32_t first, uint32_t n, uint32_t batch, int64_t context,
                   void *const inputs[MODEL_INPUTS_MAX]);
/* How many there are. */
uint32_t cli_data_ntest(const cli_data *d, int64_t context);

#endif
