/* parts.h - what models of pictures share: blocks of a transformer, pictures cut into tokens and put together again, the embedding
 * of a time, and made-up pictures. */
#ifndef MODEL_PARTS_H
#define MODEL_PARTS_H

#include <anneal/nn.h>

/* x (batch, tokens, dim) -> the same: heads of dim / heads features, no mask. */
an_module *model_attention(an_init *init, int64_t dim, int64_t heads);
/* x (..., dim) -> the same, through hidden features and GELU. */
an_module *model_feed_forward(an_init *init, int64_t dim, int64_t hidden);

/* x (batch, channels, side, side) -> (batch, (side / patch)^2, channels * patch^2), and back. */
an_tensor *model_patches(an_tensor *x, int64_t patch);
an_tensor *model_unpatched(an_tensor *tokens, int64_t channels, int64_t side, int64_t patch);

/* Sinusoids of t (batch) at dim / 2 frequencies: (batch, dim), cosines first. */
an_tensor *model_time_embedding(an_tensor *t, int64_t dim, double most_period);

/* Textures of 32 x 32 in colour, in ten classes: stripes across, down, and along both diagonals, and squares, each coarse or fine;
 * their place and two colours are drawn, with noise. For model.synthesize. */
void model_synthesize_textures(uint64_t seed, uint32_t i, uint8_t *pixels, uint8_t *label);

#endif
