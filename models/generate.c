/* generate.c - see generate.h. */
#include "generate.h"

#include <anneal/io.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct generator {
    an_ctx *ctx;
    an_kv_cache *cache;
    an_tensor *token, *logits;
    an_plan *plan;
    int64_t vocab, length, n; /* n tokens are in the cache */
    int32_t *tokens;          /* those */
    float *row;
};

/* The plan of one token: logits, and what it leaves in the cache. */
static an_status make_plan(generator *g, an_graph *graph)
{
    const an_params writes = an_kv_cache_writes(g->cache);
    an_tensor **outs = malloc((writes.n + 1) * sizeof(an_tensor *));
    if (!outs) return an_fail(g->ctx, AN_ERR_NOMEM, "out of memory");
    outs[0] = g->logits;
    for (size_t i = 0; i < writes.n; i++) outs[1 + i] = writes.items[i].tensor;
    const an_status st = an_plan_create(graph, outs, writes.n + 1, NULL, &g->plan);
    free(outs);
    return st;
}

an_status generator_create(an_module *net, int64_t length, int64_t vocab, generator **out)
{
    an_graph *graph = an_module_graph(net);
    an_ctx *ctx = an_graph_ctx(graph);
    generator *g = calloc(1, sizeof *g);
    if (!g) return an_fail(ctx, AN_ERR_NOMEM, "out of memory");
    *g = (generator){.ctx = ctx, .length = length, .vocab = vocab, .tokens = calloc((size_t)length, sizeof *g->tokens),
                     .row = calloc((size_t)vocab, sizeof *g->row)};
    g->cache = an_kv_cache_create(net, 1, length);
    g->token = an_tensor_from_host(graph, AN_I32, AN_DIMS(1, 1), NULL);
    g->logits = an_cast(an_kv_cache_forward(g->cache, g->token), AN_F32);
    an_status st = g->logits ? AN_OK : an_ctx_status(ctx);
    if (!g->tokens || !g->row) st = an_fail(ctx, AN_ERR_NOMEM, "out of memory");
    if (!st) st = make_plan(g, graph);
    if (st)
        generator_destroy(g);
    else
        *out = g;
    return st;
}

void generator_destroy(generator *g)
{
    if (!g) return;
    an_plan_destroy(g->plan);
    free(g->tokens);
    free(g->row);
    free(g);
}

static an_status put_token(generator *g, int32_t token)
{
    const int32_t position = (int32_t)g->n;
    an_status st = an_tensor_write(g->token, &token, sizeof token);
    if (!st) st = an_tensor_write(an_kv_cache_position(g->cache), &position, sizeof position);
    if (!st) st = an_plan_run(g->plan);
    if (!st) g->tokens[g->n++] = token;
    return st;
}

an_status generator_feed(generator *g, int32_t token, const float **logits)
{
    an_status st = AN_OK;
    if (g->n == g->length) {
        const int64_t keep = g->length / 2, from = g->length - keep;
        g->n = 0;
        for (int64_t i = 0; i < keep && !st; i++) st = put_token(g, g->tokens[from + i]);
    }
    if (!st) st = put_token(g, token);
    if (!st) st = an_tensor_read(g->logits, g->row, (size_t)g->vocab * sizeof *g->row);
    if (!st) *logits = g->row;
    return st;
}

/* --- drawing ------------------------------------------------------------------------------------- */

typedef struct candidate {
    float logit;
    int32_t token;
} candidate;

/* Likeliest first; of equals the lower number. */
static int by_logit(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    if (x->logit != y->logit) return x->logit < y->logit ? 1 : -1;
    return (x->token > y->token) - (x->token < y->token);
}

static int32_t likeliest(const float *logits, int64_t vocab)
{
    int64_t best = 0;
    for (int64_t i = 1; i < vocab; i++)
        if (logits[i] > logits[best]) best = i;
    return (int32_t)best;
}

int32_t sample_token(const sampling *how, const float *logits, int64_t vocab, uint64_t i)
{
    candidate *c = how->temperature > 0 ? malloc((size_t)vocab * sizeof *c) : NULL;
    if (!c) return likeliest(logits, vocab);
    int64_t n = vocab;
    for (int64_t k = 0; k < vocab; k++) c[k] = (candidate){logits[k], (int32_t)k};
    qsort(c, (size_t)vocab, sizeof *c, by_logit);
    if (how->top_k > 0 && how->top_k < n) n = how->top_k;
    double total = 0;
    for (int64_t k = 0; k < n; k++) total += exp(((double)c[k].logit - (double)c[0].logit) / how->temperature);
    if (how->top_p > 0 && how->top_p < 1) { /* as many as reach top_p, the one that does so included */
        double sum = 0;
        int64_t k = 0;
        while (k < n && sum < how->top_p * total) sum += exp(((double)c[k++].logit - (double)c[0].logit) / how->temperature);
        n = k;
        total = sum;
    }
    double at = ((double)an_sample(how->seed, i, 0, UINT32_MAX) + 0.5) / (double)UINT32_MAX * total;
    int64_t k = 0;
    for (; k < n - 1; k++) {
        at -= exp(((double)c[k].logit - (double)c[0].logit) / how->temperature);
        if (at < 0) break;
    }
    const int32_t token = c[k].token;
    free(c);
    return token;
}
