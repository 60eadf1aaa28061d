/* noise.h - what the models that make pictures share: made-up pictures of 8 x 8 to learn from, the noise of a diffusion (Ho et
 * al. 2020) and the way back from it, the backbone of a diffusion transformer (Peebles, Xie 2022), and showing what came out. */
#ifndef MODEL_NOISE_H
#define MODEL_NOISE_H

#include "model.h"

/* --- made-up pictures: a bright spot on black, in one of the four quarters, its class --------------------------- */
enum { MODEL_SPOT_SIDE = 8, MODEL_SPOT_CLASSES = 4 };
/* f32 (batch, 1, 8, 8) from -1 to 1; *label, unless NULL, gets i32 (batch). Fresh ones at each run. */
an_tensor *model_draw_spots(an_rng *rng, int64_t batch, an_tensor **label);

/* --- diffusion ---------------------------------------------------------------------------------------------------- */
/* Step t, from 0, keeps keep[t] of the variance of what there was: x_t = sqrt(keep_t) x + sqrt(1 - keep_t) noise. */
typedef struct model_noise {
    int64_t steps;
    an_tensor *keep;     /* f32 (steps) */
    an_tensor *beta;     /* f32 (steps): what a step adds */
} model_noise;
bool model_noise_init(model_noise *n, an_graph *g, int64_t steps);

/* The noise in x (batch, channels, side, side) at steps t, i32 (batch). classes: i32 (batch), or NULL. */
typedef an_tensor *(*model_denoise)(an_module *net, an_tensor *x, an_tensor *t, an_tensor *classes);

/* The mean squared error of the noise that net finds in x at steps of their own. f32 (). */
an_tensor *model_noise_loss(const model_noise *n, an_rng *rng, model_denoise denoise, an_module *net, an_tensor *x, an_tensor *classes);

/* Pictures from noise, all steps back, in the buffer that is returned. guidance 1: as the network has it; else away from what it
 * says of no class, which is class nclasses. dims are of x. NULL with the sentence in the context. */
an_tensor *model_noise_sample(const model_noise *n, an_rng *rng, model_denoise denoise, an_module *net, const int64_t dims[4],
                              an_tensor *classes, int64_t nclasses, double guidance);

/* --- the transformer ------------------------------------------------------------------------------------------------ */
typedef struct dit_desc {
    int64_t side, channels, patch, dim, depth, heads;
    int64_t nclasses; /* one more is "no class" */
    int64_t ntimes;   /* numbers of time that it is told */
    double fastest, slowest; /* radians by which the first and the last of their sinusoids turn while a time goes from 0 to 1 */
} dit_desc;

an_module *dit_create(an_init *init, const dit_desc *desc);
/* x (batch, channels, side, side), times f32 (batch) each, from 0 to 1, classes i32 (batch): the same shape as x. */
an_tensor *dit_forward(an_module *m, an_tensor *x, an_tensor *const *times, an_tensor *classes);

/* --- showing -------------------------------------------------------------------------------------------------------- */
/* n pictures of planes beside each other, (n, channels, height, width), as one picture of rows of per_row, a line of 1 pixel
 * between. data is malloc's, NULL when memory is out. */
an_picture model_grid(const uint8_t *planes, uint32_t n, uint32_t channels, uint32_t height, uint32_t width, uint32_t per_row);
/* Shows x, f32 (n, channels, side, side) from -1 to 1, in rows of per_row. */
an_status model_show_pictures(const model_ending *e, an_tensor *x, uint32_t per_row);

#endif
