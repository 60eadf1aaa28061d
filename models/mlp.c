/* mlp.c - 784-128-10 with ReLU: the smallest network worth training. */
#include "model.h"

enum { HIDDEN = MODEL_OWN };

static const model_value values[] = {
    {"hidden", "N", "width of the hidden layer", 1, 65536, true},
};

static const model_preset presets[] = {
    {.name = "cpu", .values = {[MODEL_BATCH] = 64, [MODEL_EPOCHS] = 5, [HIDDEN] = 128}},
};

an_module *model_mlp_net(an_init *init, an_rng *rng, const model_options *o)
{
    (void)rng;
    an_graph *g = init->graph;
    const int64_t hidden = model_size(o, HIDDEN);
    return an_nn_sequential(g, AN_MODULES(an_nn_linear(init, 784, hidden, NULL), /* (batch, 784) -> (batch, hidden) */
                                          an_nn_function(g, "relu", an_relu),
                                          an_nn_linear(init, hidden, 10, NULL))); /* -> (batch, 10) */
}

const model model_mlp = {
    .name = "mlp",
    .title = "a perceptron with one hidden layer, 784-128-10",
    .about = "An image of 28 x 28 bytes becomes 784 numbers; a layer of 128 with ReLU; a layer of 10, one a class.\n"
             "101,770 parameters. Cross-entropy.\n",
    .data = MODEL_IMAGES,
    .dataset = "fashion-mnist",
    .features = 784,
    .classes = 10,
    .is_classifier = true,
    .values = values,
    .nvalues = 1,
    .presets = presets,
    .npresets = 1,
    .net = model_mlp_net,
    .build = model_build_classifier,
};
