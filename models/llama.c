/* llama.c - the Llama architecture: RMSNorm before each part, rotary positions, grouped-query attention, SwiGLU, the output tied
 * to the embedding. Names are those of Meta's checkpoints, and of llama2.c's. */
#include "model.h"

enum { CONTEXT = MODEL_CONTEXT, LAYERS, HEADS, GROUPS, DIM, HIDDEN, NVALUES = 6 };

static const model_value values[] = {
    {"context", "N", "tokens in a sequence", 1, 65536, true},
    {"layers", "N", "blocks", 1, 1000, true},
    {"heads", "N", "heads of queries; they divide --dim", 1, 1000, true},
    {"kv-heads", "N", "heads of keys and values; they divide --heads", 1, 1000, true},
    {"dim", "N", "width", 1, 65536, true},
    {"hidden", "N", "width within SwiGLU", 1, 1048576, true},
};

#define RECIPE(lr, warmup)                                                                                             \
    [MODEL_LR] = (lr), [MODEL_LR_MIN] = (lr) / 10, [MODEL_WARMUP] = (warmup), [MODEL_BETA2] = 0.95, [MODEL_WEIGHT_DECAY] = 0.1, [MODEL_CLIP] = 1

static const model_preset presets[] = {
    {.name = "cpu", .optimizer = "adamw", .schedule = "cosine",
     .values = {RECIPE(1e-3, 100), [MODEL_BATCH] = 12, [MODEL_STEPS] = 2000, [CONTEXT] = 64, [LAYERS] = 4, [HEADS] = 4, [GROUPS] = 2,
                [DIM] = 128, [HIDDEN] = 352}},
    {.name = "gpu", .optimizer = "adamw", .schedule = "cosine",
     .values = {RECIPE(1e-3, 100), [MODEL_BATCH] = 64, [MODEL_STEPS] = 5000, [CONTEXT] = 256, [LAYERS] = 6, [HEADS] = 6, [GROUPS] = 2,
                [DIM] = 384, [HIDDEN] = 1024}},
    {.name = "stories260k", .optimizer = "adamw", .schedule = "cosine",
     .values = {RECIPE(1e-3, 100), [MODEL_BATCH] = 12, [MODEL_STEPS] = 2000, [CONTEXT] = 512, [LAYERS] = 5, [HEADS] = 8, [GROUPS] = 4,
                [DIM] = 64, [HIDDEN] = 172}},
    {.name = "tiny", .optimizer = "adamw", .schedule = "cosine",
     .values = {RECIPE(3e-3, 20), [MODEL_BATCH] = 8, [MODEL_STEPS] = 200, [CONTEXT] = 32,
                [LAYERS] = 1, [HEADS] = 4, [GROUPS] = 2, [DIM] = 32, [HIDDEN] = 88}},
};

typedef struct block {
    an_module *attention_norm, *attention, *ffn_norm, *feed_forward;
} block;

static an_tensor *block_forward(an_module *m, an_tensor *x)
{
    const block *b = an_module_data(m);
    x = an_add(x, an_module_forward(b->attention, an_module_forward(b->attention_norm, x)));
    return an_add(x, an_module_forward(b->feed_forward, an_module_forward(b->ffn_norm, x)));
}

static an_module *make_block(an_init *init, an_rng *rng, const model_options *o)
{
    (void)rng;
    const int64_t dim = model_size(o, DIM);
    block *b = an_graph_alloc(init->graph, sizeof *b);
    an_module *m = b ? an_module_create(init->graph, "block", block_forward, b) : NULL;
    if (!m) return NULL;
    b->attention = an_module_add_child(m, "attention", an_nn_attention(init, dim, &(an_nn_attention_desc){
        .heads = model_size(o, HEADS), .groups = model_size(o, GROUPS), .causal = true, .no_bias = true, .rotary_theta = 10000,
        .context = model_size(o, CONTEXT), .q = "wq", .k = "wk", .v = "wv", .out = "wo"}));
    b->feed_forward = an_module_add_child(m, "feed_forward", an_nn_swiglu(init, dim, model_size(o, HIDDEN)));
    b->attention_norm = an_module_add_child(m, "attention_norm", an_nn_rms_norm(init, AN_DIMS(dim), 0));
    b->ffn_norm = an_module_add_child(m, "ffn_norm", an_nn_rms_norm(init, AN_DIMS(dim), 0));
    return b->attention && b->feed_forward && b->attention_norm && b->ffn_norm ? m : NULL;
}

typedef struct llama {
    an_module *tok_embeddings, *layers, *norm;
    an_tensor *output; /* tok_embeddings' weight */
} llama;

/* tokens (batch, t) -> logits (batch, t, vocab) */
static an_tensor *llama_forward(an_module *m, an_tensor *tokens)
{
    const llama *n = an_module_data(m);
    an_tensor *x = an_module_forward(n->layers, an_module_forward(n->tok_embeddings, tokens));
    return an_linear(an_module_forward(n->norm, x), n->output, NULL);
}

static an_module *net(an_init *init, an_rng *rng, const model_options *o)
{
    llama *n = an_graph_alloc(init->graph, sizeof *n);
    an_module *m = n ? an_module_create(init->graph, "llama", llama_forward, n) : NULL;
    init->std = 0.02;
    n->tok_embeddings = an_module_add_child(m, "tok_embeddings", an_nn_embedding(init, o->vocab, model_size(o, DIM)));
    n->layers = an_module_add_child(m, "layers", model_stack(init, rng, o, model_size(o, LAYERS), make_block));
    n->norm = an_module_add_child(m, "norm", an_nn_rms_norm(init, AN_DIMS(model_size(o, DIM)), 0));
    n->output = an_module_tensor(n->tok_embeddings, "weight");
    return n->output && n->layers && n->norm ? m : NULL;
}

const model model_llama = {
    .name = "llama",
    .title = "a Llama: RMSNorm, rotary positions, grouped-query attention, SwiGLU",
    .about = "Token embeddings; blocks of RMSNorm, causal attention with rotary positions whose keys and values are shared by\n"
             "groups of heads, RMSNorm and SwiGLU, each added to its input; RMSNorm; the output is the embedding transposed.\n"
             "746,752 parameters at the defaults (65 characters). Next-token cross-entropy; a sample is printed at the end.\n",
    .data = MODEL_TEXT,
    .dataset = "tinyshakespeare",
    .values = values,
    .nvalues = NVALUES,
    .presets = presets,
    .npresets = 4,
    .net = net,
    .build = model_build_language,
    .finish = model_show_text,
};
