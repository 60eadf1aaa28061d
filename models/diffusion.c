/* diffusion.c - denoising diffusion (Ho et al. 2020) of pictures of 8 x 8 that the graph draws itself. */
#include "noise.h"
#include "parts.h"

enum { HIDDEN = MODEL_OWN, STEPS_OF_NOISE, TIMES = 64, PIXELS = MODEL_SPOT_SIDE * MODEL_SPOT_SIDE, SHOWN = 64, PER_ROW = 16 };

static const model_value values[] = {
    {"hidden", "N", "width of the hidden layers", 1, 65536, true},
    {"noise-steps", "N", "steps from a picture to noise", 2, 10000, true},
};

static const model_preset presets[] = {
    {.name = "cpu", .schedule = "cosine",
     .values = {[MODEL_BATCH] = 128, [MODEL_STEPS] = 2000, [MODEL_LR] = 2e-3, [HIDDEN] = 256, [STEPS_OF_NOISE] = 64}},
};

/* Three hidden layers, each told the time, the last two added to what they were given. */
typedef struct denoiser {
    an_module *in, *time, *hidden, *hidden2, *out;
} denoiser;

static an_tensor *denoise(an_module *m, an_tensor *x, an_tensor *t, an_tensor *classes)
{
    (void)classes;
    const denoiser *d = an_module_data(m);
    const int64_t batch = an_tensor_dim(x, 0), side = MODEL_SPOT_SIDE;
    an_tensor *time = an_module_forward(d->time, model_time_embedding(an_cast(t, AN_F32), TIMES, 1000)); /* (batch, hidden) */
    an_tensor *h = an_silu(an_add(an_module_forward(d->in, an_reshape(x, AN_DIMS(batch, PIXELS))), time));
    h = an_add(h, an_silu(an_add(an_module_forward(d->hidden, h), time)));
    h = an_add(h, an_silu(an_add(an_module_forward(d->hidden2, h), time)));
    return an_reshape(an_module_forward(d->out, h), AN_DIMS(batch, 1, side, side));
}

static an_module *net(an_init *init, an_rng *rng, const model_options *o)
{
    (void)rng;
    const int64_t hidden = model_size(o, HIDDEN);
    denoiser *d = an_graph_alloc(init->graph, sizeof *d);
    an_module *m = d ? an_module_create(init->graph, "denoiser", NULL, d) : NULL;
    if (!m) return NULL;
    d->in = an_module_add_child(m, "in", an_nn_linear(init, PIXELS, hidden, NULL));
    d->time = an_module_add_child(m, "time", an_nn_linear(init, TIMES, hidden, NULL));
    d->hidden = an_module_add_child(m, "hidden", an_nn_linear(init, hidden, hidden, NULL));
    d->hidden2 = an_module_add_child(m, "hidden2", an_nn_linear(init, hidden, hidden, NULL));
    d->out = an_module_add_child(m, "out", an_nn_linear(init, hidden, PIXELS, NULL));
    return d->in && d->time && d->hidden && d->hidden2 && d->out ? m : NULL;
}

static an_status build(const model *m, an_graph *g, const model_options *o, model_graphs *out)
{
    an_init init = {.graph = g, .seed = o->seed};
    model_noise noise;
    out->rng = an_rng_from_seed(g, o->seed);
    out->net = m->net(&init, out->rng, o);
    if (!out->net || !model_noise_init(&noise, g, model_size(o, STEPS_OF_NOISE))) return an_ctx_status(an_graph_ctx(g));
    out->eval = model_noise_loss(&noise, out->rng, denoise, out->net, model_draw_spots(out->rng, o->eval_batch, NULL), NULL);
    out->loss = model_noise_loss(&noise, out->rng, denoise, out->net, model_draw_spots(out->rng, model_size(o, MODEL_BATCH), NULL), NULL);
    if (!out->eval || !out->loss) return an_ctx_status(an_graph_ctx(g));
    return model_minimize(o, out);
}

static an_tensor *sample(const model_options *o, const model_graphs *graphs, int64_t n)
{
    model_noise noise;
    const int64_t dims[4] = {n, 1, MODEL_SPOT_SIDE, MODEL_SPOT_SIDE};
    if (!model_noise_init(&noise, an_module_graph(graphs->net), model_size(o, STEPS_OF_NOISE))) return NULL;
    return model_noise_sample(&noise, graphs->rng, denoise, graphs->net, dims, NULL, 0, 1);
}

static an_status finish(const model *m, const model_ending *e)
{
    (void)m;
    e->put(e->user, "\nmade from noise:\n");
    an_tensor *x = sample(e->options, e->graphs, SHOWN);
    return x ? model_show_pictures(e, x, PER_ROW) : an_ctx_status(an_graph_ctx(an_module_graph(e->graphs->net)));
}

const model model_diffusion = {
    .name = "diffusion",
    .title = "denoising diffusion of made-up pictures of 8 x 8",
    .about = "The graph draws a bright spot in one of four quarters and mixes it with noise; a perceptron that is told the time by\n"
             "sinusoids finds the noise. Pictures are made by taking it out again in 64 steps. 181,000 parameters. The loss is the\n"
             "mean squared error of the noise: 1 knows nothing.\n",
    .data = MODEL_DRAWN,
    .values = values,
    .nvalues = 2,
    .presets = presets,
    .npresets = 1,
    .net = net,
    .build = build,
    .sample = sample,
    .finish = finish,
};
