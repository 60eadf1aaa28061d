/* resnet9.c - a residual network of nine layers for CIFAR-10 (the shape of D. Page's DAWNBench entry, 2018). Pictures are moved and
 * flipped in the graph, each in its own way, in training only. */
#include "model.h"

enum { WIDTH = MODEL_OWN, AUGMENT, SIDE = 32, MARGIN = 4 };

static const model_value values[] = {
    {"width", "N", "channels of the first layer; the last has 8 times as many", 1, 1024, true},
    {"augment", "0|1", "move and flip the pictures of each step", 0, 1, true},
};

static const model_preset presets[] = {
    {.name = "cpu", .optimizer = "adamw", .schedule = "one-cycle",
     .values = {[MODEL_BATCH] = 64, [MODEL_EPOCHS] = 10, [MODEL_LR] = 8e-3, [MODEL_WEIGHT_DECAY] = 0.02, [WIDTH] = 8, [AUGMENT] = 1}},
    {.name = "gpu", .optimizer = "adamw", .schedule = "one-cycle", .precision = "auto",
     .values = {[MODEL_BATCH] = 512, [MODEL_EPOCHS] = 30, [MODEL_LR] = 8e-3, [MODEL_WEIGHT_DECAY] = 0.02, [WIDTH] = 64, [AUGMENT] = 1}},
};

/* --- augmentation ---------------------------------------------------------------------------------- */

typedef struct augmentation {
    an_rng *rng;
} augmentation;

/* Each picture of x (batch, 3, 32, 32) cut out of itself with a margin of 4 zeros, at a place of its own, and half of them
 * mirrored: a gather along rows and columns. */
static an_tensor *augment(an_module *m, an_tensor *x)
{
    const augmentation *a = an_module_data(m);
    if (!an_module_is_training(m)) return x;
    an_graph *g = an_tensor_graph(x);
    const int64_t batch = an_tensor_dim(x, 0), wide = SIDE + 2 * MARGIN;
    static const int64_t margin[4] = {0, 0, MARGIN, MARGIN};
    an_tensor *step = an_arange(g, AN_I32, 0, SIDE, 1), *back = an_arange(g, AN_I32, SIDE - 1, -1, -1);
    an_tensor *flip = an_bernoulli(a->rng, AN_DIMS(batch, 1), 0.5);
    an_tensor *col = an_add(an_where(flip, back, step), an_randint(a->rng, AN_I32, AN_DIMS(batch, 1), 0, 2 * MARGIN + 1));
    an_tensor *row = an_add(step, an_randint(a->rng, AN_I32, AN_DIMS(batch, 1), 0, 2 * MARGIN + 1)); /* (batch, 32) */
    an_tensor *flat = an_add(an_mul_scalar(an_unsqueeze(row, 2), (double)wide), an_unsqueeze(col, 1)); /* (batch, 32, 32) */
    flat = an_expand(an_reshape(flat, AN_DIMS(batch, 1, SIDE * SIDE)), AN_DIMS(batch, 3, SIDE * SIDE));
    an_tensor *padded = an_reshape(an_pad(x, margin, margin, 4, 0), AN_DIMS(batch, 3, wide * wide));
    return an_contiguous(an_reshape(an_gather(padded, 2, flat), AN_DIMS(batch, 3, SIDE, SIDE)));
}

static an_module *make_augmentation(an_graph *g, an_rng *rng)
{
    augmentation *a = an_graph_alloc(g, sizeof *a);
    if (!a) return NULL;
    a->rng = rng;
    return an_module_create(g, "augment", augment, a);
}

/* --- the network ------------------------------------------------------------------------------------ */

/* Convolution of 3 x 3, batch norm, ReLU, and in three of them a max pool. */
static an_module *conv(an_init *init, int64_t in, int64_t out, bool pool)
{
    an_graph *g = init->graph;
    static const an_nn_conv_desc same = {.conv = {.pad_before = {1, 1}, .pad_after = {1, 1}}, .no_bias = true};
    static const an_pool_desc half = {.kernel = {2, 2}};
    an_module *parts[] = {an_nn_conv2d(init, in, out, 3, 3, &same), an_nn_batch_norm(init, out, 0, 0),
                          an_nn_function(g, "relu", an_relu), pool ? an_nn_max_pool2d(g, &half) : NULL};
    return an_nn_sequential(g, parts, pool ? 4 : 3);
}

static an_tensor *add_forward(an_module *m, an_tensor *x)
{
    return an_add(x, an_module_forward(an_module_child(m, "1"), an_module_forward(an_module_child(m, "0"), x)));
}

/* x + conv(conv(x)) */
static an_module *residual(an_init *init, int64_t channels)
{
    an_module *m = an_module_create(init->graph, "residual", add_forward, NULL);
    if (!an_module_add_child(m, "0", conv(init, channels, channels, false))) return NULL;
    return an_module_add_child(m, "1", conv(init, channels, channels, false)) ? m : NULL;
}

static an_tensor *as_image(an_tensor *x)
{
    return an_reshape(x, AN_DIMS(an_tensor_dim(x, 0), 3, SIDE, SIDE));
}

static an_module *net(an_init *init, an_rng *rng, const model_options *o)
{
    an_graph *g = init->graph;
    const int64_t w = model_size(o, WIDTH);
    static const an_pool_desc all = {.kernel = {4, 4}};
    an_module *augmented = o->values[AUGMENT] > 0 ? make_augmentation(g, rng) : an_nn_sequential(g, NULL, 0);
    return an_nn_sequential(g, AN_MODULES(an_nn_function(g, "image", as_image), augmented,
                                          conv(init, 3, w, false),          /* (batch, w, 32, 32) */
                                          conv(init, w, 2 * w, true),       /* (batch, 2w, 16, 16) */
                                          residual(init, 2 * w),
                                          conv(init, 2 * w, 4 * w, true),   /* (batch, 4w, 8, 8) */
                                          conv(init, 4 * w, 8 * w, true),   /* (batch, 8w, 4, 4) */
                                          residual(init, 8 * w),
                                          an_nn_max_pool2d(g, &all), an_nn_flatten(g), an_nn_linear(init, 8 * w, 10, NULL)));
}

const model model_resnet9 = {
    .name = "resnet9",
    .title = "a residual network of nine layers for 32 x 32 pictures in colour",
    .about = "Four convolutions with batch norm and ReLU, three of them halving the sides; after the second and the fourth a\n"
             "residual pair of the same; a max pool over what is left, and a linear layer. --width 64 is the full network of 6.6\n"
             "million parameters, 8 has 104,000. Each picture of a step is moved by up to 4 pixels and flipped at random.\n"
             "--preset=gpu multiplies in f16 where a GPU has matrix units; --precision=f32 does not.\n",
    .data = MODEL_IMAGES,
    .dataset = "cifar10",
    .features = 3072,
    .classes = 10,
    .is_classifier = true,
    .values = values,
    .nvalues = 2,
    .presets = presets,
    .npresets = 2,
    .net = net,
    .build = model_build_classifier,
};
