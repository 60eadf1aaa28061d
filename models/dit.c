/* dit.c - a diffusion transformer (Peebles, Xie 2022) for 32 x 32 pictures in colour, told their class, with classifier-free
 * guidance (Ho, Salimans 2022): in training a tenth of the classes is withheld. */
#include "noise.h"
#include "parts.h"

enum { PATCH = MODEL_OWN, DIM, DEPTH, HEADS, STEPS_OF_NOISE, GUIDANCE, SIDE = 32, CLASSES = 10, PER_CLASS = 4, TIME_SCALE = 1000 };

static const model_value values[] = {
    {"patch", "N", "side of a patch; 32 is a multiple of it", 1, 32, true},
    {"dim", "N", "features of a token, a multiple of 4", 4, 65536, true},
    {"depth", "N", "blocks", 1, 64, true},
    {"heads", "N", "heads of attention; dim is a multiple of them", 1, 1024, true},
    {"noise-steps", "N", "steps from a picture to noise", 2, 10000, true},
    {"guidance", "X", "how far samples are pushed towards their class; 1: not", 0, 100, false},
};

static const model_preset presets[] = {
    {.name = "cpu", .optimizer = "adamw", .schedule = "cosine",
     .values = {[MODEL_BATCH] = 32, [MODEL_STEPS] = 1000, [MODEL_LR] = 2e-3, [PATCH] = 4, [DIM] = 64, [DEPTH] = 2, [HEADS] = 4,
                [STEPS_OF_NOISE] = 100, [GUIDANCE] = 2}},
    {.name = "gpu", .optimizer = "adamw",
     .values = {[MODEL_BATCH] = 256, [MODEL_EPOCHS] = 100, [MODEL_LR] = 2e-4, [PATCH] = 2, [DIM] = 384, [DEPTH] = 12, [HEADS] = 6,
                [STEPS_OF_NOISE] = 1000, [GUIDANCE] = 2}},
};

static an_tensor *denoise(an_module *m, an_tensor *x, an_tensor *t, an_tensor *classes)
{
    an_tensor *time = an_mul_scalar(an_cast(t, AN_F32), 1.0 / TIME_SCALE);
    return dit_forward(m, x, &time, classes);
}

static an_module *net(an_init *init, an_rng *rng, const model_options *o)
{
    (void)rng;
    return dit_create(init, &(dit_desc){.side = SIDE, .channels = 3, .patch = model_size(o, PATCH), .dim = model_size(o, DIM),
                                        .depth = model_size(o, DEPTH), .heads = model_size(o, HEADS), .nclasses = CLASSES, .ntimes = 1, .fastest = TIME_SCALE, .slowest = 0.1});
}

/* Bytes (batch, 3072) as pictures from -1 to 1. */
static an_tensor *as_pictures(an_tensor *bytes)
{
    an_tensor *x = an_sub_scalar(an_mul_scalar(an_cast(bytes, AN_F32), 1 / 127.5), 1);
    return an_reshape(x, AN_DIMS(an_tensor_dim(bytes, 0), 3, SIDE, SIDE));
}

static an_status build(const model *m, an_graph *g, const model_options *o, model_graphs *out)
{
    an_init init = {.graph = g, .seed = o->seed};
    model_noise noise;
    const int64_t batch = model_size(o, MODEL_BATCH);
    out->rng = an_rng_from_seed(g, o->seed);
    out->net = m->net(&init, out->rng, o);
    if (!out->net || !model_noise_init(&noise, g, model_size(o, STEPS_OF_NOISE))) return an_ctx_status(an_graph_ctx(g));
    out->eval_inputs[0] = an_tensor_from_host(g, AN_U8, AN_DIMS(o->eval_batch, m->features), NULL);
    out->eval_inputs[1] = an_tensor_from_host(g, AN_I32, AN_DIMS(o->eval_batch), NULL);
    out->inputs[0] = an_tensor_from_host(g, AN_U8, AN_DIMS(batch, m->features), NULL);
    out->inputs[1] = an_tensor_from_host(g, AN_I32, AN_DIMS(batch), NULL);
    out->eval = model_noise_loss(&noise, out->rng, denoise, out->net, as_pictures(out->eval_inputs[0]), out->eval_inputs[1]);
    an_tensor *withheld = an_bernoulli(out->rng, AN_DIMS(batch), 0.1);
    an_tensor *classes = an_contiguous(an_where(withheld, an_full_like(out->inputs[1], CLASSES), out->inputs[1]));
    out->loss = model_noise_loss(&noise, out->rng, denoise, out->net, as_pictures(out->inputs[0]), classes);
    if (!out->eval || !out->loss) return an_ctx_status(an_graph_ctx(g));
    return model_minimize(o, out);
}

/* Rows of PER_CLASS, a class each; n is cut to whole rows. */
static an_tensor *sample(const model_options *o, const model_graphs *graphs, int64_t n)
{
    model_noise noise;
    an_graph *g = an_module_graph(graphs->net);
    const int64_t dims[4] = {n, 3, SIDE, SIDE};
    an_tensor *classes = an_contiguous(an_mod_scalar(an_floor_div_scalar(an_arange(g, AN_I32, 0, (double)n, 1), PER_CLASS), CLASSES));
    if (!classes || !model_noise_init(&noise, g, model_size(o, STEPS_OF_NOISE))) return NULL;
    return model_noise_sample(&noise, graphs->rng, denoise, graphs->net, dims, classes, CLASSES, o->values[GUIDANCE]);
}

static an_status finish(const model *m, const model_ending *e)
{
    (void)m;
    e->put(e->user, "\nmade from noise, two classes a row:\n");
    an_tensor *x = sample(e->options, e->graphs, CLASSES * PER_CLASS);
    return x ? model_show_pictures(e, x, 2 * PER_CLASS) : an_ctx_status(an_graph_ctx(an_module_graph(e->graphs->net)));
}

const model model_dit = {
    .name = "dit",
    .title = "a diffusion transformer for 32 x 32 pictures in colour, told their class",
    .about = "Patches of 4 x 4 are 64 tokens; time and class say in each of 2 blocks how tokens are scaled, shifted and let through\n"
             "(adaLN-zero). It finds the noise in a picture; made pictures are guided towards their class. 173,000 parameters. The\n"
             "loss is the mean squared error of the noise: 1 knows nothing. --samples FILE keeps what it makes.\n",
    .data = MODEL_IMAGES,
    .dataset = "cifar10",
    .features = 3072,
    .classes = 10,
    .values = values,
    .nvalues = 6,
    .presets = presets,
    .npresets = 2,
    .net = net,
    .build = build,
    .synthesize = model_synthesize_textures,
    .sample = sample,
    .finish = finish,
};
