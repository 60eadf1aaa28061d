/* bert.c - an encoder trained by masking (Devlin et al. 2018): 15 % of the characters are to be told from what stands around them.
 * Of these, 80 % are replaced by a mask, 10 % by a character at random, 10 % stay. Drawn in the graph, anew in each step. */
#include "model.h"

#include <stdlib.h>
#include <string.h>

enum { CONTEXT = MODEL_CONTEXT, LAYERS, HEADS, DIM, NVALUES = 4 };
static const double masked = 0.15;

static const model_value values[] = {
    {"context", "N", "characters in a sequence", 1, 65536, true},
    {"layers", "N", "blocks", 1, 1000, true},
    {"heads", "N", "heads of attention; they divide --dim", 1, 1000, true},
    {"dim", "N", "width", 1, 65536, true},
};

#define RECIPE(lr, warmup)                                                                                             \
    [MODEL_LR] = (lr), [MODEL_LR_MIN] = (lr) / 10, [MODEL_WARMUP] = (warmup), [MODEL_WEIGHT_DECAY] = 0.01, [MODEL_CLIP] = 1

static const model_preset presets[] = {
    {.name = "cpu", .optimizer = "adamw", .schedule = "linear",
     .values = {RECIPE(1e-3, 100), [MODEL_BATCH] = 16, [MODEL_STEPS] = 3000, [CONTEXT] = 64, [LAYERS] = 4, [HEADS] = 4, [DIM] = 128}},
    {.name = "gpu", .optimizer = "adamw", .schedule = "linear",
     .values = {RECIPE(1e-3, 100), [MODEL_BATCH] = 128, [MODEL_STEPS] = 10000, [CONTEXT] = 128, [LAYERS] = 6, [HEADS] = 6, [DIM] = 384}},
    {.name = "tiny", .optimizer = "adamw", .schedule = "linear",
     .values = {RECIPE(5e-3, 20), [MODEL_BATCH] = 64, [MODEL_STEPS] = 200, [CONTEXT] = 16, [LAYERS] = 1, [HEADS] = 4, [DIM] = 64}},
};

typedef struct block {
    an_module *attention, *norm1, *fc1, *fc2, *norm2;
} block;

/* LayerNorm after each sum, as in the paper. */
static an_tensor *block_forward(an_module *m, an_tensor *x)
{
    const block *b = an_module_data(m);
    x = an_module_forward(b->norm1, an_add(x, an_module_forward(b->attention, x)));
    return an_module_forward(b->norm2, an_add(x, an_module_forward(b->fc2, an_gelu(an_module_forward(b->fc1, x)))));
}

static an_module *make_block(an_init *init, an_rng *rng, const model_options *o)
{
    (void)rng;
    const int64_t dim = model_size(o, DIM);
    block *b = an_graph_alloc(init->graph, sizeof *b);
    an_module *m = b ? an_module_create(init->graph, "block", block_forward, b) : NULL;
    if (!m) return NULL;
    b->attention = an_module_add_child(m, "attention", an_nn_attention(init, dim, &(an_nn_attention_desc){.heads = model_size(o, HEADS)}));
    b->norm1 = an_module_add_child(m, "norm1", an_nn_layer_norm(init, AN_DIMS(dim), NULL));
    b->fc1 = an_module_add_child(m, "fc1", an_nn_linear(init, dim, 4 * dim, NULL));
    b->fc2 = an_module_add_child(m, "fc2", an_nn_linear(init, 4 * dim, dim, NULL));
    b->norm2 = an_module_add_child(m, "norm2", an_nn_layer_norm(init, AN_DIMS(dim), NULL));
    return b->attention && b->norm1 && b->fc1 && b->fc2 && b->norm2 ? m : NULL;
}

typedef struct bert {
    an_module *embedding, *positions, *norm, *blocks;
    an_tensor *output; /* the embedding's weight */
} bert;

/* tokens (batch, t), the mask being number vocab -> logits (batch, t, vocab + 1) */
static an_tensor *bert_forward(an_module *m, an_tensor *tokens)
{
    const bert *n = an_module_data(m);
    an_tensor *x = an_module_forward(n->norm, an_module_forward(n->positions, an_module_forward(n->embedding, tokens)));
    return an_linear(an_module_forward(n->blocks, x), n->output, NULL);
}

static an_module *net(an_init *init, an_rng *rng, const model_options *o)
{
    const int64_t dim = model_size(o, DIM);
    bert *n = an_graph_alloc(init->graph, sizeof *n);
    an_module *m = n ? an_module_create(init->graph, "bert", bert_forward, n) : NULL;
    init->std = 0.02;
    n->embedding = an_module_add_child(m, "embedding", an_nn_embedding(init, o->vocab + 1, dim));
    n->positions = an_module_add_child(m, "positions", an_nn_positions(init, model_size(o, CONTEXT), dim));
    n->norm = an_module_add_child(m, "norm", an_nn_layer_norm(init, AN_DIMS(dim), NULL));
    n->blocks = an_module_add_child(m, "blocks", model_stack(init, rng, o, model_size(o, LAYERS), make_block));
    n->output = an_module_tensor(n->embedding, "weight");
    return n->output && n->blocks && n->norm ? m : NULL;
}

/* The mean over what is to be told. chosen: bool (batch, t). */
static an_tensor *loss_of(an_module *m, an_tensor *shown, an_tensor *tokens, an_tensor *chosen)
{
    an_tensor *logits = an_cast(an_flatten(an_module_forward(m, shown), 0, 1), AN_F32);
    an_tensor *each = an_cross_entropy(logits, an_flatten(tokens, 0, 1), &(an_cross_entropy_desc){.reduction = AN_REDUCE_NONE});
    an_tensor *weight = an_cast(an_flatten(chosen, 0, 1), AN_F32);
    return an_div(an_sum(an_mul(each, weight), AN_ALL, false), an_maximum_scalar(an_sum(weight, AN_ALL, false), 1));
}

/* The masks of validation are drawn once, on the host, so that two results can be compared. */
static an_tensor *fixed_mask(an_graph *g, const model_options *o, int64_t n, int64_t t)
{
    const size_t count = (size_t)(n * t);
    uint8_t *bytes = malloc(count);
    if (!bytes) return NULL;
    for (size_t i = 0; i < count; i++) bytes[i] = an_sample(o->seed, i, 1, 100) < (uint32_t)(masked * 100);
    an_tensor *mask = an_tensor_from_host(g, AN_BOOL, AN_DIMS(n, t), bytes);
    free(bytes);
    return mask;
}

static an_status build(const model *m, an_graph *g, const model_options *o, model_graphs *out)
{
    an_init init = {.graph = g, .seed = o->seed};
    const int64_t batch = model_size(o, MODEL_BATCH), t = model_size(o, CONTEXT), dims[2] = {batch, t};
    out->rng = an_rng_from_seed(g, o->seed);
    out->net = m->net(&init, out->rng, o);
    model_set_precision(o, out->net);
    an_tensor *mask = an_scalar_i64(g, AN_I32, o->vocab);

    out->eval_inputs[0] = model_token_input(g, o->eval_batch, t);
    an_tensor *chosen = fixed_mask(g, o, o->eval_batch, t);
    an_tensor *shown = an_where(chosen, mask, out->eval_inputs[0]);
    out->eval = loss_of(out->net, shown, out->eval_inputs[0], chosen);

    out->inputs[0] = model_token_input(g, batch, t);
    chosen = an_bernoulli(out->rng, dims, 2, masked);
    an_tensor *u = an_uniform(out->rng, AN_F32, dims, 2, 0, 1), *any = an_randint(out->rng, AN_I32, dims, 2, 0, o->vocab);
    shown = an_where(an_lt_scalar(u, 0.8), mask, an_where(an_lt_scalar(u, 0.9), any, out->inputs[0]));
    out->loss = loss_of(out->net, an_where(chosen, shown, out->inputs[0]), out->inputs[0], chosen);
    if (!out->eval || !out->loss) return an_ctx_status(an_graph_ctx(g));
    return model_minimize(o, out);
}

static void put_tokens(const model_ending *e, const char *title, const int32_t *tokens, int64_t n)
{
    e->put(e->user, title);
    for (int64_t i = 0; i < n; i++) {
        char text[5];
        const bool shown = an_text_decode(e->text, tokens[i], text) > 0 && strcmp(text, "\n") != 0;
        e->put(e->user, shown ? text : tokens[i] < e->options->vocab ? " " : "_");
    }
    e->put(e->user, "\n");
}

/* The beginning of the last tenth of the text with a seventh of it masked, and what the model makes of that. */
static an_status finish(const model *m, const model_ending *e)
{
    (void)m;
    const int64_t t = model_size(e->options, CONTEXT), classes = e->options->vocab + 1;
    an_graph *g = an_module_graph(e->graphs->net);
    const int32_t *text = e->text->tokens + e->text->n / 10 * 9;
    int32_t *tokens = malloc((size_t)t * sizeof *tokens), *filled = malloc((size_t)t * sizeof *filled);
    float *logits = malloc((size_t)(t * classes) * sizeof *logits);
    an_status st = AN_ERR_NOMEM;
    if (!tokens || !filled || !logits) goto done;
    for (int64_t i = 0; i < t; i++) filled[i] = tokens[i] = i % 7 == 3 ? (int32_t)e->options->vocab : text[i];
    an_module_train(e->graphs->net, false);
    an_tensor *y = an_cast(an_module_forward(e->graphs->net, an_tensor_from_host(g, AN_I32, AN_DIMS(1, t), tokens)), AN_F32);
    st = an_tensor_read(y, logits, (size_t)(t * classes) * sizeof *logits);
    if (st) goto done;
    for (int64_t i = 0; i < t; i++) {
        const float *row = logits + i * classes;
        if (tokens[i] < e->options->vocab) continue;
        filled[i] = 0;
        for (int32_t k = 1; k < classes - 1; k++)
            if (row[k] > row[filled[i]]) filled[i] = k;
    }
    put_tokens(e, "masked:        ", tokens, t);
    put_tokens(e, "reconstructed: ", filled, t);
    put_tokens(e, "the text:      ", text, t);
done:
    free(tokens);
    free(filled);
    free(logits);
    return st;
}

const model model_bert = {
    .name = "bert",
    .title = "an encoder of characters, trained by masking",
    .about = "Token and position embeddings, LayerNorm; blocks of attention in both directions and an MLP four times as wide with\n"
             "GELU, each added to its input and normalised; the output is the embedding transposed. 15 % of the characters are to\n"
             "be told: 80 % of these are masked, 10 % replaced, 10 % left. 809,984 parameters at the defaults (65 characters).\n"
             "Cross-entropy of what was chosen; a reconstruction is printed at the end.\n",
    .data = MODEL_TEXT,
    .dataset = "tinyshakespeare",
    .values = values,
    .nvalues = NVALUES,
    .presets = presets,
    .npresets = 3,
    .net = net,
    .build = build,
    .finish = finish,
};
