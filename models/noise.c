/* noise.c - see noise.h; the transformer is in dit_net.c. */
#include "noise.h"

#include <math.h>
#include <stdlib.h>

/* --- spots ---------------------------------------------------------------------------------------------------------- */

an_tensor *model_draw_spots(an_rng *rng, int64_t batch, an_tensor **label)
{
    static const double wide = 1.1;
    const int64_t side = MODEL_SPOT_SIDE;
    an_tensor *class = an_contiguous(an_randint(rng, AN_I32, AN_DIMS(batch), 0, MODEL_SPOT_CLASSES));
    an_tensor *right = an_cast(an_mod_scalar(class, 2), AN_F32), *low = an_cast(an_ge_scalar(class, 2), AN_F32);
    an_graph *g = an_tensor_graph(class);
    an_tensor *cx = an_add(an_mul_scalar(right, 4), an_uniform(rng, AN_F32, AN_DIMS(batch), 1, 2));
    an_tensor *cy = an_add(an_mul_scalar(low, 4), an_uniform(rng, AN_F32, AN_DIMS(batch), 1, 2));
    an_tensor *at = an_arange(g, AN_F32, 0, (double)side, 1);
    an_tensor *dx = an_square(an_sub(at, an_reshape(cx, AN_DIMS(batch, 1)))), *dy = an_square(an_sub(at, an_reshape(cy, AN_DIMS(batch, 1))));
    an_tensor *far = an_add(an_reshape(dy, AN_DIMS(batch, 1, side, 1)), an_reshape(dx, AN_DIMS(batch, 1, 1, side)));
    if (label) *label = class;
    return an_contiguous(an_sub_scalar(an_mul_scalar(an_exp(an_mul_scalar(far, -0.5 / (wide * wide))), 2), 1));
}

/* --- diffusion -------------------------------------------------------------------------------------------------------- */

/* keep falls as a squared cosine (Nichol, Dhariwal 2021), beta is cut at 0.999. */
bool model_noise_init(model_noise *n, an_graph *g, int64_t steps)
{
    const double pi = 3.14159265358979323846, offset = 0.008;
    float *v = malloc(2 * (size_t)steps * sizeof *v);
    double keep = 1.0;
    *n = (model_noise){.steps = steps};
    if (!v) return false;
    for (int64_t i = 0; i < steps; i++) {
        const double a = cos(((double)i / (double)steps + offset) / (1 + offset) * pi / 2);
        const double b = cos(((double)(i + 1) / (double)steps + offset) / (1 + offset) * pi / 2);
        const double beta = fmin(1 - b * b / (a * a), 0.999);
        keep *= 1 - beta;
        v[i] = (float)keep;
        v[steps + i] = (float)beta;
    }
    n->keep = an_tensor_from_host(g, AN_F32, &steps, 1, v);
    n->beta = an_tensor_from_host(g, AN_F32, &steps, 1, v + steps);
    free(v);
    return n->keep && n->beta;
}

/* table[t], to be multiplied with pictures. */
static an_tensor *at_step(an_tensor *table, an_tensor *t)
{
    return an_reshape(an_take(table, t, 0), AN_DIMS(-1, 1, 1, 1));
}

static an_tensor *normal_like(an_rng *rng, const an_tensor *x)
{
    int64_t dims[4];
    for (int i = 0; i < 4; i++) dims[i] = an_tensor_dim(x, i);
    return an_normal(rng, AN_F32, dims, 4, 0, 1);
}

an_tensor *model_noise_loss(const model_noise *n, an_rng *rng, model_denoise denoise, an_module *net, an_tensor *x, an_tensor *classes)
{
    an_tensor *t = an_contiguous(an_randint(rng, AN_I32, AN_DIMS(an_tensor_dim(x, 0)), 0, n->steps));
    an_tensor *noise = an_contiguous(normal_like(rng, x)), *keep = at_step(n->keep, t);
    an_tensor *mixed = an_add(an_mul(an_sqrt(keep), x), an_mul(an_sqrt(an_rsub_scalar(keep, 1)), noise));
    return an_mse_loss(denoise(net, an_contiguous(mixed), t, classes), noise, AN_REDUCE_MEAN);
}

/* The noise in x, guided: none + guidance * (class - none), both in one batch. */
static an_tensor *guided(model_denoise denoise, an_module *net, an_tensor *x, an_tensor *t, an_tensor *classes, int64_t nclasses,
                         double guidance)
{
    const int64_t batch = an_tensor_dim(x, 0);
    an_tensor *halves[2] = {NULL, NULL}, *none = an_full_like(classes, (double)nclasses);
    if (!classes || guidance == 1.0) return denoise(net, x, t, classes);
    an_tensor *both = denoise(net, an_cat((an_tensor *const[]){x, x}, 2, 0), an_cat((an_tensor *const[]){t, t}, 2, 0),
                              an_cat((an_tensor *const[]){classes, none}, 2, 0));
    if (an_split(both, (const int64_t[]){batch, batch}, 2, 0, halves)) return NULL;
    return an_add(halves[1], an_mul_scalar(an_sub(halves[0], halves[1]), guidance));
}

/* One step back: what the picture seems to be, kept within -1..1, and the mean of where it was before, with noise but at the
 * last step. */
static an_tensor *step_back(const model_noise *n, an_rng *rng, an_tensor *x, an_tensor *noise, an_tensor *t)
{
    an_tensor *keep = at_step(n->keep, t), *beta = at_step(n->beta, t), *rest = an_rsub_scalar(keep, 1);
    an_tensor *before = an_div(keep, an_rsub_scalar(beta, 1)), *rest_before = an_rsub_scalar(before, 1);
    an_tensor *clean = an_div(an_sub(x, an_mul(an_sqrt(rest), noise)), an_sqrt(keep));
    clean = an_clamp(clean, -1, 1);
    an_tensor *mean = an_add(an_mul(an_div(an_mul(an_sqrt(before), beta), rest), clean),
                             an_mul(an_div(an_mul(an_sqrt(an_rsub_scalar(beta, 1)), rest_before), rest), x));
    an_tensor *deviation = an_sqrt(an_maximum_scalar(an_div(an_mul(beta, rest_before), rest), 0));
    an_tensor *more = an_mul(deviation, normal_like(rng, x));
    an_tensor *is_last = an_reshape(an_eq_scalar(t, 0), AN_DIMS(-1, 1, 1, 1));
    return an_add(mean, an_where(is_last, an_full_like(more, 0), more));
}

an_tensor *model_noise_sample(const model_noise *n, an_rng *rng, model_denoise denoise, an_module *net, const int64_t dims[4],
                              an_tensor *classes, int64_t nclasses, double guidance)
{
    an_graph *g = an_module_graph(net);
    an_tensor *x = an_contiguous(an_normal(rng, AN_F32, dims, 4, 0, 1)), *step = an_tensor_from_host(g, AN_I32, AN_DIMS(1), NULL);
    an_plan *plan = NULL;
    if (!x || !step || an_realize(&x, 1)) return NULL;
    const bool was_training = an_module_is_training(net);
    an_module_train(net, false);
    an_tensor *t = an_expand(step, dims, 1);
    an_tensor *back = step_back(n, rng, x, guided(denoise, net, x, t, classes, nclasses, guidance), t);
    an_module_train(net, was_training);
    if (!back || an_assign(x, back)) return NULL;
    an_status st = an_plan_create(g, &x, 1, NULL, &plan);
    for (int64_t i = n->steps; i-- > 0 && !st;) {
        const int32_t now = (int32_t)i;
        st = an_tensor_write(step, &now, sizeof now);
        if (!st) st = an_plan_run(plan);
    }
    an_plan_destroy(plan);
    return st ? NULL : x;
}

/* --- showing ---------------------------------------------------------------------------------------------------------- */

an_picture model_grid(const uint8_t *planes, uint32_t n, uint32_t channels, uint32_t height, uint32_t width, uint32_t per_row)
{
    const uint32_t cols = n < per_row ? n : per_row, rows = (n + per_row - 1) / per_row;
    an_picture p = {.width = cols * (width + 1) - 1, .height = rows * (height + 1) - 1, .channels = channels};
    uint8_t *data = calloc((size_t)p.width * p.height, channels);
    if (!data) return (an_picture){0};
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t c = 0; c < channels; c++)
            for (uint32_t y = 0; y < height; y++)
                for (uint32_t x = 0; x < width; x++) {
                    const size_t row = i / per_row * (height + 1) + y, col = i % per_row * (width + 1) + x;
                    data[(row * p.width + col) * channels + c] = planes[(((size_t)i * channels + c) * height + y) * width + x];
                }
    p.data = data;
    return p;
}

an_status model_show_pictures(const model_ending *e, an_tensor *x, uint32_t per_row)
{
    if (!x) return AN_ERR_ARG;
    const int64_t count = an_tensor_dim(x, 0), channels = an_tensor_dim(x, 1), side = an_tensor_dim(x, 2);
    an_tensor *bytes = an_cast(an_round(an_clamp(an_add_scalar(an_mul_scalar(x, 127.5), 127.5), 0, 255)), AN_U8);
    const size_t nbytes = an_tensor_nbytes(bytes);
    uint8_t *planes = malloc(nbytes);
    if (!planes) return AN_ERR_NOMEM;
    an_status st = an_tensor_read(bytes, planes, nbytes);
    if (!st) {
        const an_picture p = model_grid(planes, (uint32_t)count, (uint32_t)channels, (uint32_t)side, (uint32_t)side, per_row);
        st = p.data ? e->show(e->user, &p) : AN_ERR_NOMEM;
        free((void *)(uintptr_t)p.data);
    }
    free(planes);
    return st;
}
