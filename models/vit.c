/* vit.c - a vision transformer (Dosovitskiy et al. 2020): a picture is a sequence of patches. The class is read off the mean of
 * the tokens. */
#include "model.h"
#include "parts.h"

enum { PATCH = MODEL_OWN, DIM, DEPTH, HEADS, DEPTH_MAX = 64 };

static const model_value values[] = {
    {"patch", "N", "side of a patch; 32 is a multiple of it", 1, 32, true},
    {"dim", "N", "features of a token", 1, 65536, true},
    {"depth", "N", "blocks", 1, DEPTH_MAX, true},
    {"heads", "N", "heads of attention; dim is a multiple of them", 1, 1024, true},
};

static const model_preset presets[] = {
    {.name = "cpu", .optimizer = "adamw",
     .values = {[MODEL_BATCH] = 64, [MODEL_EPOCHS] = 4, [MODEL_LR] = 1e-3, [MODEL_WEIGHT_DECAY] = 0.01, [PATCH] = 4, [DIM] = 64,
                [DEPTH] = 2, [HEADS] = 4}},
    {.name = "gpu", .optimizer = "adamw",
     .values = {[MODEL_BATCH] = 512, [MODEL_EPOCHS] = 30, [MODEL_LR] = 1e-3, [MODEL_WEIGHT_DECAY] = 0.05, [PATCH] = 4, [DIM] = 256,
                [DEPTH] = 6, [HEADS] = 8}},
};

/* x + attention(norm(x)), then x + mlp(norm(x)) */
typedef struct block {
    an_module *norm1, *attention, *norm2, *mlp;
} block;

static an_tensor *block_forward(an_module *m, an_tensor *x)
{
    const block *b = an_module_data(m);
    x = an_add(x, an_module_forward(b->attention, an_module_forward(b->norm1, x)));
    return an_add(x, an_module_forward(b->mlp, an_module_forward(b->norm2, x)));
}

static an_module *make_block(an_init *init, int64_t dim, int64_t heads)
{
    block *b = an_graph_alloc(init->graph, sizeof *b);
    an_module *m = b ? an_module_create(init->graph, "block", block_forward, b) : NULL;
    if (!m) return NULL;
    b->norm1 = an_module_add_child(m, "norm1", an_nn_layer_norm(init, AN_DIMS(dim), NULL));
    b->attention = an_module_add_child(m, "attn", model_attention(init, dim, heads));
    b->norm2 = an_module_add_child(m, "norm2", an_nn_layer_norm(init, AN_DIMS(dim), NULL));
    b->mlp = an_module_add_child(m, "mlp", model_feed_forward(init, dim, 4 * dim));
    return b->norm1 && b->attention && b->norm2 && b->mlp ? m : NULL;
}

typedef struct vit {
    int64_t patch;
    an_tensor *positions;
    an_module *embed, *norm, *head, *blocks;
} vit;

static an_tensor *forward(an_module *m, an_tensor *x)
{
    const vit *v = an_module_data(m);
    x = model_patches(an_reshape(x, AN_DIMS(an_tensor_dim(x, 0), 3, 32, 32)), v->patch);
    x = an_add(an_module_forward(v->embed, x), v->positions); /* (batch, tokens, dim) */
    x = an_module_forward(v->norm, an_module_forward(v->blocks, x));
    return an_module_forward(v->head, an_mean(x, AN_DIMS(1), false));
}

static an_module *net(an_init *init, an_rng *rng, const model_options *o)
{
    (void)rng;
    an_graph *g = init->graph;
    const int64_t patch = model_size(o, PATCH), dim = model_size(o, DIM), depth = model_size(o, DEPTH), n = 32 / patch;
    if (32 % patch) {
        an_fail(an_graph_ctx(g), AN_ERR_ARG, "vit: 32 is no multiple of the patch %lld; give --patch 2, 4 or 8", (long long)patch);
        return NULL;
    }
    vit *v = an_graph_alloc(g, sizeof *v);
    an_module *m = v ? an_module_create(g, "vit", forward, v) : NULL;
    if (!m) return NULL;
    v->patch = patch;
    v->embed = an_module_add_child(m, "patch_embed", an_nn_linear(init, 3 * patch * patch, dim, NULL));
    v->positions = an_module_add_parameter(m, "pos_embed", an_init_normal(init, AN_DIMS(n * n, dim), 0, 0.02));
    an_module *blocks[DEPTH_MAX] = {NULL};
    for (int64_t i = 0; i < depth; i++) blocks[i] = make_block(init, dim, model_size(o, HEADS));
    v->blocks = an_module_add_child(m, "blocks", an_nn_sequential(g, blocks, (size_t)depth));
    v->norm = an_module_add_child(m, "norm", an_nn_layer_norm(init, AN_DIMS(dim), NULL));
    v->head = an_module_add_child(m, "head", an_nn_linear(init, dim, 10, NULL));
    return v->embed && v->positions && v->blocks && v->norm && v->head ? m : NULL;
}

const model model_vit = {
    .name = "vit",
    .title = "a vision transformer for 32 x 32 pictures in colour",
    .about = "Patches of 4 x 4 become 64 tokens of 64 features with learned positions; 2 blocks of attention (4 heads) and a\n"
             "feed-forward layer, each behind a LayerNorm; the mean of the tokens, and a linear layer. 108,000 parameters. By\n"
             "default it learns made-up textures in ten classes; --data cifar10 takes real pictures.\n",
    .data = MODEL_IMAGES,
    .dataset = "synthetic",
    .features = 3072,
    .classes = 10,
    .is_classifier = true,
    .values = values,
    .nvalues = 4,
    .presets = presets,
    .npresets = 2,
    .net = net,
    .build = model_build_classifier,
    .synthesize = model_synthesize_textures,
};
