/* nanogpt.c - a GPT-2 of characters, as Karpathy's nanoGPT has it: learned positions, LayerNorm before each part, GELU, the
 * output tied to the embedding. Names are nanoGPT's. */
#include "model.h"

#include <math.h>

enum { CONTEXT = MODEL_CONTEXT, LAYERS, HEADS, DIM, DROPOUT, NVALUES = 5 };

static const model_value values[] = {
    {"context", "N", "characters in a sequence", 1, 65536, true},
    {"layers", "N", "blocks", 1, 1000, true},
    {"heads", "N", "heads of attention; they divide --dim", 1, 1000, true},
    {"dim", "N", "width", 1, 65536, true},
    {"dropout", "P", "probability", 0, 0.99, false},
};

/* Sizes and steps are nanoGPT's; its learning rate of 1e-3 is low for so few steps of so small a model: 1.90 after 2000, this one 1.77. */
static const model_preset presets[] = {
    {.name = "cpu", .optimizer = "adamw", .schedule = "cosine",
     .values = {[MODEL_BATCH] = 12, [MODEL_STEPS] = 2000, [MODEL_LR] = 3e-3, [MODEL_LR_MIN] = 1e-4, [MODEL_WARMUP] = 100,
                [MODEL_BETA2] = 0.99, [MODEL_WEIGHT_DECAY] = 0.1, [MODEL_CLIP] = 1,
                [CONTEXT] = 64, [LAYERS] = 4, [HEADS] = 4, [DIM] = 128}},
    {.name = "gpu", .optimizer = "adamw", .schedule = "cosine", .precision = "auto",
     .values = {[MODEL_BATCH] = 64, [MODEL_STEPS] = 5000, [MODEL_LR] = 1e-3, [MODEL_LR_MIN] = 1e-4, [MODEL_WARMUP] = 100,
                [MODEL_BETA2] = 0.99, [MODEL_WEIGHT_DECAY] = 0.1, [MODEL_CLIP] = 1,
                [CONTEXT] = 256, [LAYERS] = 6, [HEADS] = 6, [DIM] = 384, [DROPOUT] = 0.2}},
    {.name = "tiny", .optimizer = "adamw", .schedule = "cosine",
     .values = {[MODEL_BATCH] = 8, [MODEL_STEPS] = 200, [MODEL_LR] = 3e-3, [MODEL_LR_MIN] = 3e-4, [MODEL_WARMUP] = 20,
                [MODEL_BETA2] = 0.99, [MODEL_WEIGHT_DECAY] = 0.1, [MODEL_CLIP] = 1,
                [CONTEXT] = 32, [LAYERS] = 1, [HEADS] = 2, [DIM] = 32}},
};

static const an_nn_layer_norm_desc no_bias = {.no_bias = true};

typedef struct block {
    an_module *ln_1, *attn, *ln_2, *mlp, *drop;
} block;

static an_tensor *block_forward(an_module *m, an_tensor *x)
{
    const block *b = an_module_data(m);
    x = an_add(x, an_module_forward(b->drop, an_module_forward(b->attn, an_module_forward(b->ln_1, x))));
    return an_add(x, an_module_forward(b->drop, an_module_forward(b->mlp, an_module_forward(b->ln_2, x))));
}

typedef struct mlp {
    an_module *c_fc, *c_proj;
} mlp;

static an_tensor *mlp_forward(an_module *m, an_tensor *x)
{
    const mlp *f = an_module_data(m);
    return an_module_forward(f->c_proj, an_gelu(an_module_forward(f->c_fc, x)));
}

static an_module *make_mlp(an_init *init, int64_t dim, double out_std)
{
    const an_nn_linear_desc plain = {.no_bias = true};
    const double std = init->std;
    mlp *f = an_graph_alloc(init->graph, sizeof *f);
    an_module *m = f ? an_module_create(init->graph, "mlp", mlp_forward, f) : NULL;
    if (!m) return NULL;
    f->c_fc = an_module_add_child(m, "c_fc", an_nn_linear(init, dim, 4 * dim, &plain));
    init->std = out_std;
    f->c_proj = an_module_add_child(m, "c_proj", an_nn_linear(init, 4 * dim, dim, &plain));
    init->std = std;
    return m;
}

static an_module *make_block(an_init *init, an_rng *rng, const model_options *o)
{
    const int64_t dim = model_size(o, DIM);
    const double out_std = init->std / sqrt(2.0 * o->values[LAYERS]); /* so that the sum over blocks keeps its size */
    block *b = an_graph_alloc(init->graph, sizeof *b);
    an_module *m = b ? an_module_create(init->graph, "block", block_forward, b) : NULL;
    if (!m) return NULL;
    b->ln_1 = an_module_add_child(m, "ln_1", an_nn_layer_norm(init, AN_DIMS(dim), &no_bias));
    b->attn = an_module_add_child(m, "attn", an_nn_attention(init, dim, &(an_nn_attention_desc){
        .heads = model_size(o, HEADS), .causal = true, .no_bias = true, .packed = "c_attn", .out = "c_proj", .out_std = out_std,
        .dropout = o->values[DROPOUT], .rng = rng}));
    b->ln_2 = an_module_add_child(m, "ln_2", an_nn_layer_norm(init, AN_DIMS(dim), &no_bias));
    b->mlp = an_module_add_child(m, "mlp", make_mlp(init, dim, out_std));
    b->drop = an_module_add_child(m, "dropout", an_nn_dropout(rng, init->graph, o->values[DROPOUT]));
    return m;
}

typedef struct gpt {
    an_module *wte, *wpe, *drop, *h, *ln_f;
    an_tensor *head; /* wte's weight */
} gpt;

/* tokens (batch, t) -> logits (batch, t, vocab) */
static an_tensor *gpt_forward(an_module *m, an_tensor *tokens)
{
    const gpt *n = an_module_data(m);
    an_tensor *x = an_module_forward(n->wpe, an_module_forward(n->wte, tokens));
    x = an_module_forward(n->h, an_module_forward(n->drop, x));
    return an_linear(an_module_forward(n->ln_f, x), n->head, NULL);
}

static an_module *net(an_init *init, an_rng *rng, const model_options *o)
{
    an_graph *g = init->graph;
    const int64_t dim = model_size(o, DIM);
    gpt *n = an_graph_alloc(g, sizeof *n);
    an_module *top = an_module_create(g, "nanogpt", gpt_forward, n), *m = an_module_create(g, "transformer", gpt_forward, n);
    if (!n || !an_module_add_child(top, "transformer", m)) return NULL;
    init->std = 0.02;
    n->wte = an_module_add_child(m, "wte", an_nn_embedding(init, o->vocab, dim));
    n->wpe = an_module_add_child(m, "wpe", an_nn_positions(init, model_size(o, CONTEXT), dim));
    n->drop = an_module_add_child(m, "drop", an_nn_dropout(rng, g, o->values[DROPOUT]));
    n->h = an_module_add_child(m, "h", model_stack(init, rng, o, model_size(o, LAYERS), make_block));
    n->ln_f = an_module_add_child(m, "ln_f", an_nn_layer_norm(init, AN_DIMS(dim), &no_bias));
    n->head = an_module_tensor(n->wte, "weight");
    return n->head && n->ln_f ? top : NULL;
}

const model model_nanogpt = {
    .name = "nanogpt",
    .title = "a GPT of characters: learned positions, LayerNorm, GELU",
    .about = "Token and position embeddings; blocks of LayerNorm, causal attention, LayerNorm and an MLP four times as wide with\n"
             "GELU, each added to its input; LayerNorm; the output is the embedding transposed. No biases.\n"
             "804,096 parameters at the defaults (65 characters). Next-token cross-entropy; a sample is printed at the end.\n"
             "--preset=gpu multiplies in f16 where a GPU has matrix units, as nanoGPT does; --precision=f32 does not.\n",
    .data = MODEL_TEXT,
    .dataset = "tinyshakespeare",
    .values = values,
    .nvalues = NVALUES,
    .presets = presets,
    .npresets = 3,
    .net = net,
    .build = model_build_language,
    .finish = model_show_text,
};
