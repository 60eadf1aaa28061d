/* parts.c - see parts.h. */
#include "parts.h"

#include <math.h>

an_module *model_attention(an_init *init, int64_t dim, int64_t heads)
{
    return an_nn_attention(init, dim, &(an_nn_attention_desc){.heads = heads, .packed = "qkv", .out = "proj"});
}

an_module *model_feed_forward(an_init *init, int64_t dim, int64_t hidden)
{
    an_graph *g = init->graph;
    return an_nn_sequential(g, AN_MODULES(an_nn_linear(init, dim, hidden, NULL), an_nn_function(g, "gelu", an_gelu_tanh),
                                          an_nn_linear(init, hidden, dim, NULL)));
}

an_tensor *model_patches(an_tensor *x, int64_t patch)
{
    const int64_t batch = an_tensor_dim(x, 0), channels = an_tensor_dim(x, 1), n = an_tensor_dim(x, 2) / patch;
    x = an_reshape(x, AN_DIMS(batch, channels, n, patch, n, patch));
    x = an_permute(x, AN_DIMS(0, 2, 4, 1, 3, 5));
    return an_reshape(x, AN_DIMS(batch, n * n, channels * patch * patch));
}

an_tensor *model_unpatched(an_tensor *tokens, int64_t channels, int64_t side, int64_t patch)
{
    const int64_t batch = an_tensor_dim(tokens, 0), n = side / patch;
    an_tensor *x = an_reshape(tokens, AN_DIMS(batch, n, n, channels, patch, patch));
    x = an_permute(x, AN_DIMS(0, 3, 1, 4, 2, 5));
    return an_reshape(x, AN_DIMS(batch, channels, side, side));
}

an_tensor *model_time_embedding(an_tensor *t, int64_t dim, double most_period)
{
    const int64_t half = dim / 2;
    an_graph *g = an_tensor_graph(t);
    an_tensor *exponent = an_mul_scalar(an_arange(g, AN_F32, 0, (double)half, 1), -log(most_period) / (double)half);
    an_tensor *angle = an_mul(an_unsqueeze(t, -1), an_exp(exponent)); /* (batch, half) */
    return an_cat((an_tensor *const[]){an_cos(angle), an_sin(angle)}, 2, 1);
}

/* --- made-up pictures ------------------------------------------------------------------------------------------ */

/* SplitMix64 (Steele, Lea, Flood 2014): a stream from any seed. */
static uint64_t draw(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

enum { SIDE = 32, KINDS = 5, NOISE = 48 };

/* Is (x, y) in the first colour? */
static int is_first(unsigned kind, int x, int y, int period)
{
    const int half = period / 2;
    switch (kind) {
    case 0: return x % period < half;
    case 1: return y % period < half;
    case 2: return (x + y) % period < half;
    case 3: return (x + 4 * period - y % period) % period < half;
    default: return (x % period < half) == (y % period < half);
    }
}

void model_synthesize_textures(uint64_t seed, uint32_t i, uint8_t *pixels, uint8_t *label)
{
    uint64_t state = seed * 1000003u + i;
    const unsigned class = (unsigned)(draw(&state) % 10);
    const int period = class < KINDS ? 6 : 12, dx = (int)(draw(&state) % 12), dy = (int)(draw(&state) % 12);
    *label = (uint8_t)class;
    for (int c = 0; c < 3; c++) {
        const int low = (int)(draw(&state) % 100), high = low + 60 + (int)(draw(&state) % 60);
        const int flipped = (int)(draw(&state) % 2);
        for (int y = 0; y < SIDE; y++)
            for (int x = 0; x < SIDE; x++) {
                const int first = is_first(class % KINDS, x + dx, y + dy, period) ^ flipped;
                const int v = (first ? high : low) + (int)(draw(&state) % NOISE) - NOISE / 2;
                pixels[(c * SIDE + y) * SIDE + x] = (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
            }
    }
}
