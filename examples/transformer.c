/* transformer.c - trains a transformer to sort digits, and lets it sort some: embedding, positions, attention, an optimiser and
 * its schedule, all of nn. A sequence is five digits, then the same five in order; the loss is of the latter. */
#include <anneal/nn.h>

#include <stdio.h>
#include <stdlib.h>

enum { DIGITS = 5, T = 2 * DIGITS - 1, BATCH = 32, VOCAB = 10, DIM = 32, STEPS = 400 };

typedef struct block {
    an_module *norm1, *attention, *norm2, *ffn;
} block;

static an_tensor *block_forward(an_module *m, an_tensor *x)
{
    const block *b = an_module_data(m);
    x = an_add(x, an_module_forward(b->attention, an_module_forward(b->norm1, x)));
    return an_add(x, an_module_forward(b->ffn, an_module_forward(b->norm2, x)));
}

static an_module *make_block(an_init *init, block *b)
{
    an_module *m = an_module_create(init->graph, "block", block_forward, b);
    b->norm1 = an_module_add_child(m, "norm1", an_nn_layer_norm(init, AN_DIMS(DIM), NULL));
    b->attention = an_module_add_child(m, "attention", an_nn_attention(init, DIM, &(an_nn_attention_desc){.heads = 2, .causal = true}));
    b->norm2 = an_module_add_child(m, "norm2", an_nn_layer_norm(init, AN_DIMS(DIM), NULL));
    b->ffn = an_module_add_child(m, "ffn", an_nn_swiglu(init, DIM, 2 * DIM));
    return m;
}

static int by_value(const void *a, const void *b)
{
    return *(const int32_t *)a - *(const int32_t *)b;
}

/* Digits and their order as one sequence: tokens, and the one after each. */
static void draw(unsigned *seed, int32_t *tokens, int32_t *targets)
{
    int32_t all[2 * DIGITS];
    for (int i = 0; i < DIGITS; i++) all[i] = all[DIGITS + i] = (int32_t)((*seed = *seed * 1664525u + 1013904223u) >> 16) % VOCAB;
    qsort(all + DIGITS, DIGITS, sizeof *all, by_value);
    for (int i = 0; i < T; i++) {
        tokens[i] = all[i];
        targets[i] = i + 1 < DIGITS ? -1 : all[i + 1]; /* the digits themselves cannot be foreseen */
    }
}

static an_status train(an_graph *g, double *right_part)
{
    an_init init = {.graph = g, .seed = 1};
    static block blocks[2];
    an_module *net = an_nn_sequential(g, AN_MODULES(an_nn_embedding(&init, VOCAB, DIM), an_nn_positions(&init, T, DIM),
                                                    make_block(&init, &blocks[0]), make_block(&init, &blocks[1]),
                                                    an_nn_layer_norm(&init, AN_DIMS(DIM), NULL), an_nn_linear(&init, DIM, VOCAB, NULL)));
    an_optim *opt = an_optim_adamw(an_module_parameters(net), &(an_adam_desc){.lr = 3e-3, .weight_decay = 0.01});
    an_status st = an_optim_clip(opt, 1.0);
    if (!st) st = an_optim_schedule(opt, &(an_lr_schedule){.kind = AN_LR_COSINE, .warmup = 20, .total = STEPS, .lr_end = 3e-4});
    an_tensor *x = an_tensor_from_host(g, AN_I32, AN_DIMS(BATCH, T), NULL), *y = an_tensor_from_host(g, AN_I32, AN_DIMS(BATCH, T), NULL);
    an_tensor *logits = an_flatten(an_module_forward(net, x), 0, 1); /* (BATCH * T, VOCAB) */
    an_tensor *loss = an_cross_entropy(logits, an_flatten(y, 0, 1), &(an_cross_entropy_desc){.has_ignore_index = true, .ignore_index = -1});
    an_plan *plan = NULL;
    if (!st) st = an_optim_minimize(opt, loss);
    an_tensor *guess = an_argmax(logits, -1, false);
    if (!st) st = an_optim_plan(opt, (an_tensor *const[]){loss, guess}, 2, NULL, &plan);
    static int32_t tokens[BATCH * T], targets[BATCH * T], guesses[BATCH * T];
    unsigned seed = 7;
    for (int step = 1; step <= STEPS && !st; step++) {
        double v = 0;
        for (int i = 0; i < BATCH; i++) draw(&seed, tokens + i * T, targets + i * T);
        st = an_tensor_write(x, tokens, sizeof tokens);
        if (!st) st = an_tensor_write(y, targets, sizeof targets);
        if (!st) st = an_plan_run(plan);
        if (!st && step % 100 == 0) st = an_item_f64(loss, &v);
        if (!st && step % 100 == 0) printf("step %d  loss %.4f\n", step, v);
    }
    if (!st) st = an_tensor_read(guess, guesses, sizeof guesses); /* of the last batch, before it was learnt from */
    int n = 0, hits = 0;
    for (int i = 0; i < BATCH * T; i++) {
        n += targets[i] >= 0;
        hits += targets[i] >= 0 && guesses[i] == targets[i];
    }
    *right_part = (double)hits / n;
    an_plan_destroy(plan);
    return st;
}

int main(void)
{
    an_ctx *ctx = NULL;
    an_graph *g = NULL;
    double right = 0;
    an_status st = an_ctx_create(NULL, &ctx);
    if (!st) st = an_graph_create(ctx, &g);
    if (!st) st = train(g, &right);
    if (st)
        fprintf(stderr, "%s\n", an_ctx_error(ctx));
    else
        printf("%.1f %% of the digits come in order\n", 100 * right);
    an_graph_destroy(g);
    an_ctx_destroy(ctx);
    return st || right < 0.9;
}
