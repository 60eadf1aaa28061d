/* conv.c - two convolutions and a linear layer: what MNIST's relatives need. */
#include "model.h"

enum { WIDTH = MODEL_OWN };

static const model_value values[] = {
    {"width", "N", "channels of the first convolution; the second has twice as many", 1, 4096, true},
};

static const model_preset presets[] = {
    {.name = "cpu", .values = {[MODEL_BATCH] = 64, [MODEL_EPOCHS] = 3, [MODEL_LR] = 2e-3, [WIDTH] = 16}},
    {.name = "gpu", .values = {[MODEL_BATCH] = 256, [MODEL_EPOCHS] = 10, [MODEL_LR] = 3e-3, [WIDTH] = 64}},
};

static an_tensor *as_image(an_tensor *x)
{
    return an_reshape(x, AN_DIMS(an_tensor_dim(x, 0), 1, 28, 28));
}

static an_module *net(an_init *init, an_rng *rng, const model_options *o)
{
    (void)rng;
    an_graph *g = init->graph;
    const int64_t width = model_size(o, WIDTH);
    static const an_nn_conv_desc same = {.conv = {.pad_before = {1, 1}, .pad_after = {1, 1}}};
    static const an_pool_desc half = {.kernel = {2, 2}};
    return an_nn_sequential(g, AN_MODULES(an_nn_function(g, "image", as_image),          /* (batch, 1, 28, 28) */
                                          an_nn_conv2d(init, 1, width, 3, 3, &same),
                                          an_nn_function(g, "relu", an_relu),
                                          an_nn_max_pool2d(g, &half),                    /* (batch, width, 14, 14) */
                                          an_nn_conv2d(init, width, 2 * width, 3, 3, &same),
                                          an_nn_function(g, "relu", an_relu),
                                          an_nn_max_pool2d(g, &half),                    /* (batch, 2 width, 7, 7) */
                                          an_nn_flatten(g),
                                          an_nn_linear(init, 2 * width * 49, 10, NULL)));
}

const model model_conv = {
    .name = "conv",
    .title = "a small convolutional network for 28 x 28 images",
    .about = "Two convolutions of 3 x 3 (16 and 32 channels), each with ReLU and a max pool that halves the sides; a linear\n"
             "layer. 20,490 parameters. Cross-entropy.\n",
    .data = MODEL_IMAGES,
    .dataset = "fashion-mnist",
    .features = 784,
    .classes = 10,
    .is_classifier = true,
    .values = values,
    .nvalues = 1,
    .presets = presets,
    .npresets = 2,
    .net = net,
    .build = model_build_classifier,
};
