/* meanflow.c - mean flows (Geng et al. 2025): a network that knows the average velocity u(z, r, t) of the way from noise to a picture
 * between two times makes pictures in one step. What it should say follows from itself: with v the velocity at t,
 *     u = v - (t - r) du/dt,      du/dt = v du/dz + du/dt|z, the derivative along (v, 0, 1) by (z, r, t): one JVP
 * and that side of the equation is held fixed. The backbone is that of a diffusion transformer. */
#include "noise.h"
#include "parts.h"

enum { PATCH = MODEL_OWN, DIM, DEPTH, HEADS, SAME, PLAIN, SHOWN = 64, PER_ROW = 16 };

static const model_value values[] = {
    {"patch", "N", "side of a patch; 8 is a multiple of it", 1, 8, true},
    {"dim", "N", "features of a token, a multiple of 4", 4, 65536, true},
    {"depth", "N", "blocks", 1, 64, true},
    {"heads", "N", "heads of attention; dim is a multiple of them", 1, 1024, true},
    {"same", "P", "share of examples whose two times are one: the velocity itself", 0, 1, false},
    {"without-jvp", "0|1", "leave the derivative out, to see what it is good for", 0, 1, true},
};

static const model_preset presets[] = {
    {.name = "cpu", .optimizer = "adamw", .schedule = "cosine",
     .values = {[MODEL_BATCH] = 64, [MODEL_STEPS] = 2000, [MODEL_LR] = 2e-3, [MODEL_CLIP] = 1, [PATCH] = 2, [DIM] = 64, [DEPTH] = 2, [HEADS] = 2,
                [SAME] = 0.5}},
};

static an_module *net(an_init *init, an_rng *rng, const model_options *o)
{
    (void)rng;
    return dit_create(init, &(dit_desc){.side = MODEL_SPOT_SIDE, .channels = 1, .patch = model_size(o, PATCH), .dim = model_size(o, DIM),
                                        .depth = model_size(o, DEPTH), .heads = model_size(o, HEADS), .nclasses = MODEL_SPOT_CLASSES,
                                        .ntimes = 2, .fastest = 6, .slowest = 0.1});
}

/* u(z, r, t): the network is told t and how long the way is. r and t f32 (batch), from 0, the picture, to 1, noise. */
static an_tensor *velocity(an_module *m, an_tensor *z, an_tensor *r, an_tensor *t, an_tensor *classes)
{
    an_tensor *times[2] = {t, an_sub(t, r)};
    return dit_forward(m, z, times, classes);
}

static an_tensor *loss_of(an_module *m, an_rng *rng, const model_options *o, int64_t batch)
{
    an_tensor *classes = NULL, *x = model_draw_spots(rng, batch, &classes), *dudt = NULL;
    const int64_t dims[4] = {batch, 1, MODEL_SPOT_SIDE, MODEL_SPOT_SIDE};
    an_tensor *noise = an_contiguous(an_normal(rng, AN_F32, dims, 4, 0, 1));
    an_tensor *a = an_contiguous(an_uniform(rng, AN_F32, dims, 1, 0, 1)), *b = an_contiguous(an_uniform(rng, AN_F32, dims, 1, 0, 1));
    an_tensor *t = an_maximum(a, b);
    an_tensor *r = an_where(an_bernoulli(rng, dims, 1, o->values[SAME]), t, an_minimum(a, b));
    t = an_contiguous(t);
    r = an_contiguous(r);
    an_tensor *far = an_reshape(t, AN_DIMS(batch, 1, 1, 1)), *way = an_reshape(an_sub(t, r), AN_DIMS(batch, 1, 1, 1));
    an_tensor *z = an_contiguous(an_add(an_mul(an_rsub_scalar(far, 1), x), an_mul(far, noise))), *v = an_sub(noise, x);
    an_tensor *u = velocity(m, z, r, t, classes), *target = v;
    if (!u) return NULL;
    if (o->values[PLAIN] == 0) {
        if (an_jvp(&u, 1, (an_tensor *const[]){z, r, t}, (an_tensor *const[]){v, NULL, an_ones_like(t)}, 3, &dudt)) return NULL;
        target = an_sub(v, an_mul(way, dudt));
    }
    return an_mse_loss(u, an_detach(target), AN_REDUCE_MEAN);
}

static an_status build(const model *m, an_graph *g, const model_options *o, model_graphs *out)
{
    an_init init = {.graph = g, .seed = o->seed};
    out->rng = an_rng_from_seed(g, o->seed);
    out->net = m->net(&init, out->rng, o);
    if (!out->net) return an_ctx_status(an_graph_ctx(g));
    out->eval = loss_of(out->net, out->rng, o, o->eval_batch);
    out->loss = loss_of(out->net, out->rng, o, model_size(o, MODEL_BATCH));
    if (!out->eval || !out->loss) return an_ctx_status(an_graph_ctx(g));
    return model_minimize(o, out);
}

/* One step: from noise at 1 to the picture at 0. */
static an_tensor *sample(const model_options *o, const model_graphs *graphs, int64_t n)
{
    (void)o;
    an_graph *g = an_module_graph(graphs->net);
    const int64_t dims[4] = {n, 1, MODEL_SPOT_SIDE, MODEL_SPOT_SIDE};
    an_tensor *noise = an_contiguous(an_normal(graphs->rng, AN_F32, dims, 4, 0, 1));
    an_tensor *r = an_zeros(g, AN_F32, dims, 1), *t = an_ones(g, AN_F32, dims, 1);
    an_tensor *classes = an_mod_scalar(an_arange(g, AN_I32, 0, (double)n, 1), MODEL_SPOT_CLASSES);
    an_tensor *x = an_sub(noise, velocity(graphs->net, noise, r, t, classes));
    return !x || an_realize(&x, 1) ? NULL : x;
}

static an_status finish(const model *m, const model_ending *e)
{
    (void)m;
    e->put(e->user, "\nmade from noise in one step:\n");
    an_tensor *x = sample(e->options, e->graphs, SHOWN);
    return x ? model_show_pictures(e, x, PER_ROW) : an_ctx_status(an_graph_ctx(an_module_graph(e->graphs->net)));
}

const model model_meanflow = {
    .name = "meanflow",
    .title = "a mean flow: pictures of 8 x 8 from noise in one step",
    .about = "A transformer learns the average velocity of the way from noise to a picture between two times; the loss takes the\n"
             "derivative of the network along that way, by forward mode. It learns the same made-up pictures as diffusion, told their\n"
             "class, and needs one step to make one. 16 tokens of 64 features, 2 blocks, 175,000 parameters.\n",
    .data = MODEL_DRAWN,
    .values = values,
    .nvalues = 6,
    .presets = presets,
    .npresets = 1,
    .net = net,
    .build = build,
    .sample = sample,
    .finish = finish,
};
