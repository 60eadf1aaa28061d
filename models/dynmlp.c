/* dynmlp.c - mlp's network over a batch of any size: the batch is a symbol, so one compilation serves them all. */
#include "model.h"

enum { HIDDEN = MODEL_OWN };

static const model_value values[] = {
    {"hidden", "N", "width of the hidden layer", 1, 65536, true},
};

static const model_preset presets[] = {
    {.name = "cpu", .values = {[MODEL_BATCH] = 64, [MODEL_EPOCHS] = 5, [HIDDEN] = 128}},
};

const model model_dynmlp = {
    .name = "dynmlp",
    .title = "mlp over batches of any size, compiled once",
    .about = "The network of mlp, 784-128-10. Its batch is the symbol 'batch', 1 to 4096: a step may have any number of\n"
             "examples, and none of them compiles anything. The last batch of an epoch takes what is left, and\n"
             "--batch-schedule changes the size from epoch to epoch.\n",
    .data = MODEL_IMAGES,
    .dataset = "fashion-mnist",
    .features = 784,
    .classes = 10,
    .is_classifier = true,
    .max_batch = 4096,
    .values = values,
    .nvalues = 1,
    .presets = presets,
    .npresets = 1,
    .net = model_mlp_net,
    .build = model_build_classifier,
};
