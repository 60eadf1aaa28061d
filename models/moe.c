/* moe.c - a GPT whose feed-forward layers are mixtures of experts with dense soft routing: each expert sees each token, and the
 * router's softmax weighs them. A load-balance loss keeps the router from liking one of them only. */
#include "model.h"

enum { CONTEXT = MODEL_CONTEXT, LAYERS, HEADS, DIM, EXPERTS, HIDDEN, NVALUES = 6 };
static const double balance_weight = 0.01;

static const model_value values[] = {
    {"context", "N", "characters in a sequence", 1, 65536, true},
    {"layers", "N", "blocks", 1, 1000, true},
    {"heads", "N", "heads of attention; they divide --dim", 1, 1000, true},
    {"dim", "N", "width", 1, 65536, true},
    {"experts", "N", "experts in each block", 1, 256, true},
    {"hidden", "N", "width within an expert", 1, 1048576, true},
};

#define RECIPE(lr, warmup)                                                                                             \
    [MODEL_LR] = (lr), [MODEL_LR_MIN] = (lr) / 10, [MODEL_WARMUP] = (warmup), [MODEL_BETA2] = 0.95, [MODEL_WEIGHT_DECAY] = 0.1, [MODEL_CLIP] = 1

static const model_preset presets[] = {
    {.name = "cpu", .optimizer = "adamw", .schedule = "cosine",
     .values = {RECIPE(1e-3, 100), [MODEL_BATCH] = 12, [MODEL_STEPS] = 2000, [CONTEXT] = 64, [LAYERS] = 3, [HEADS] = 4, [DIM] = 128,
                [EXPERTS] = 4, [HIDDEN] = 128}},
    {.name = "gpu", .optimizer = "adamw", .schedule = "cosine",
     .values = {RECIPE(1e-3, 100), [MODEL_BATCH] = 64, [MODEL_STEPS] = 5000, [CONTEXT] = 256, [LAYERS] = 6, [HEADS] = 6, [DIM] = 384,
                [EXPERTS] = 8, [HIDDEN] = 512}},
    {.name = "tiny", .optimizer = "adamw", .schedule = "cosine",
     .values = {RECIPE(3e-3, 20), [MODEL_BATCH] = 8, [MODEL_STEPS] = 200, [CONTEXT] = 32,
                [LAYERS] = 1, [HEADS] = 2, [DIM] = 32, [EXPERTS] = 3, [HIDDEN] = 32}},
};

typedef struct block {
    an_module *attention_norm, *attention, *ffn_norm, *mixture;
} block;

static an_tensor *block_forward(an_module *m, an_tensor *x)
{
    const block *b = an_module_data(m);
    x = an_add(x, an_module_forward(b->attention, an_module_forward(b->attention_norm, x)));
    return an_add(x, an_module_forward(b->mixture, an_module_forward(b->ffn_norm, x)));
}

static an_module *make_expert(an_init *init, an_rng *rng, const model_options *o)
{
    (void)rng;
    return an_nn_swiglu(init, model_size(o, DIM), model_size(o, HIDDEN));
}

static an_module *make_block(an_init *init, an_rng *rng, const model_options *o)
{
    const int64_t dim = model_size(o, DIM);
    block *b = an_graph_alloc(init->graph, sizeof *b);
    an_module *m = b ? an_module_create(init->graph, "block", block_forward, b) : NULL, *experts[256] = {NULL};
    if (!m) return NULL;
    for (int64_t i = 0; i < model_size(o, EXPERTS); i++) experts[i] = make_expert(init, rng, o);
    b->attention = an_module_add_child(m, "attention", an_nn_attention(init, dim, &(an_nn_attention_desc){
        .heads = model_size(o, HEADS), .causal = true, .no_bias = true, .rotary_theta = 10000, .context = model_size(o, CONTEXT)}));
    b->mixture = an_module_add_child(m, "mixture", an_nn_mixture(init, dim, experts, (size_t)model_size(o, EXPERTS)));
    b->attention_norm = an_module_add_child(m, "attention_norm", an_nn_rms_norm(init, AN_DIMS(dim), 0));
    b->ffn_norm = an_module_add_child(m, "ffn_norm", an_nn_rms_norm(init, AN_DIMS(dim), 0));
    return b->attention && b->mixture && b->attention_norm && b->ffn_norm ? m : NULL;
}

typedef struct moe {
    an_module *embedding, *blocks, *norm;
    an_tensor *output; /* the embedding's weight */
} moe;

/* tokens (batch, t) -> logits (batch, t, vocab) */
static an_tensor *moe_forward(an_module *m, an_tensor *tokens)
{
    const moe *n = an_module_data(m);
    an_tensor *x = an_module_forward(n->blocks, an_module_forward(n->embedding, tokens));
    return an_linear(an_module_forward(n->norm, x), n->output, NULL);
}

static an_module *net(an_init *init, an_rng *rng, const model_options *o)
{
    moe *n = an_graph_alloc(init->graph, sizeof *n);
    an_module *m = n ? an_module_create(init->graph, "moe", moe_forward, n) : NULL;
    init->std = 0.02;
    n->embedding = an_module_add_child(m, "embedding", an_nn_embedding(init, o->vocab, model_size(o, DIM)));
    n->blocks = an_module_add_child(m, "blocks", model_stack(init, rng, o, model_size(o, LAYERS), make_block));
    n->norm = an_module_add_child(m, "norm", an_nn_rms_norm(init, AN_DIMS(model_size(o, DIM)), 0));
    n->output = an_module_tensor(n->embedding, "weight");
    return n->output && n->blocks && n->norm ? m : NULL;
}

static an_tensor *penalty(an_module *m)
{
    return an_mul_scalar(an_nn_balance_loss(m), balance_weight);
}

const model model_moe = {
    .name = "moe",
    .title = "a mixture of experts: dense soft routing, load-balance loss",
    .about = "As llama, but in place of SwiGLU a mixture of several: a router's softmax weighs what each of them makes of a token.\n"
             "To the loss of training, 0.01 times the load-balance loss is added; validation is without it.\n"
             "797,184 parameters at the defaults (65 characters). Next-token cross-entropy; a sample is printed at the end.\n",
    .data = MODEL_TEXT,
    .dataset = "tinyshakespeare",
    .values = values,
    .nvalues = NVALUES,
    .presets = presets,
    .npresets = 3,
    .net = net,
    .build = model_build_language,
    .penalty = penalty,
    .finish = model_show_text,
};
