/* bench_gpt.c - a training step of a small GPT: m sequences of n positions, width k, 4 layers of 4 heads, 65 characters,
 * LayerNorm, GELU, no biases, AdamW. */
#include "bench.h"

#include <math.h>
#include <stdlib.h>

enum { LAYERS = 4, HEADS = 4, VOCABULARY = 65 };

typedef struct gpt {
    an_init init;
    an_module *all; /* only to gather the parameters */
    int64_t batch, positions, width;
    int count;
} gpt;

static an_tensor *parameter(gpt *p, an_tensor *t)
{
    char name[16];
    snprintf(name, sizeof name, "p%d", p->count++);
    return an_module_add_parameter(p->all, name, t);
}

static an_tensor *weight(gpt *p, int64_t rows, int64_t cols)
{
    return parameter(p, an_init_normal(&p->init, AN_DIMS(rows, cols), 0, 0.02));
}

static an_tensor *norm(gpt *p, an_tensor *x)
{
    an_tensor *w = parameter(p, an_init_constant(&p->init, AN_DIMS(p->width), 1));
    return an_layer_norm(x, 1, w, parameter(p, an_init_constant(&p->init, AN_DIMS(p->width), 0)), 1e-5);
}

/* (batch, positions, width) to (batch, heads, positions, width / heads) */
static an_tensor *heads(const gpt *p, an_tensor *x)
{
    x = an_reshape(x, AN_DIMS(p->batch, p->positions, HEADS, p->width / HEADS));
    return an_transpose(x, 1, 2);
}

static an_tensor *attention(gpt *p, an_tensor *x)
{
    an_tensor *part[3];
    for (int i = 0; i < 3; i++) part[i] = heads(p, an_linear(x, weight(p, p->width, p->width), NULL));
    an_tensor *scores = an_mul_scalar(an_matmul(part[0], an_transpose(part[1], -1, -2)), 1 / sqrt((double)p->width / HEADS));
    an_tensor *seen = an_tril(an_ones(p->init.graph, AN_F32, AN_DIMS(p->positions, p->positions)), 0);
    an_tensor *hidden = an_broadcast_like(an_eq_scalar(seen, 0), scores);
    an_tensor *y = an_matmul(an_softmax(an_masked_fill(scores, hidden, -(double)INFINITY), -1), part[2]);
    y = an_reshape(an_transpose(y, 1, 2), AN_DIMS(p->batch, p->positions, p->width));
    return an_linear(y, weight(p, p->width, p->width), NULL);
}

static an_tensor *perceptron(gpt *p, an_tensor *x)
{
    an_tensor *h = an_gelu(an_linear(x, weight(p, 4 * p->width, p->width), NULL));
    return an_linear(h, weight(p, p->width, 4 * p->width), NULL);
}

static an_tensor *characters(const gpt *p, uint32_t step)
{
    const size_t n = (size_t)(p->batch * p->positions);
    int32_t *data = malloc(n * sizeof *data);
    if (!data) return NULL;
    for (size_t i = 0; i < n; i++) data[i] = (int32_t)(i * 2654435761u / step % VOCABULARY);
    an_tensor *t = an_tensor_from_host(p->init.graph, AN_I32, AN_DIMS(p->batch, p->positions), data);
    free(data);
    return t;
}

bool bench_gpt(an_graph *g, const bench_size *s, an_tensor **out, size_t *nout, double *flops, double *nbytes)
{
    gpt p = {.init = {.graph = g}, .all = an_module_create(g, "gpt", NULL, NULL), .batch = s->m, .positions = s->n, .width = s->k};
    an_tensor *x = an_embedding(weight(&p, VOCABULARY, p.width), characters(&p, 64));
    x = an_add(x, weight(&p, p.positions, p.width));
    for (int i = 0; i < LAYERS; i++) {
        x = an_add(x, attention(&p, norm(&p, x)));
        x = an_add(x, perceptron(&p, norm(&p, x)));
    }
    an_tensor *logits = an_linear(norm(&p, x), weight(&p, VOCABULARY, p.width), NULL);
    logits = an_reshape(logits, AN_DIMS(p.batch * p.positions, VOCABULARY));
    an_tensor *targets = an_reshape(characters(&p, 128), AN_DIMS(p.batch * p.positions));
    an_optim *opt = an_optim_adamw(an_module_parameters(p.all), &(an_adam_desc){.lr = 1e-5});
    out[0] = an_cross_entropy(logits, targets, NULL);
    if (an_optim_minimize(opt, out[0])) return false;
    const an_params writes = an_optim_writes(opt);
    *nout = 1;
    for (size_t i = 0; i < writes.n && *nout < BENCH_OUTS; i++) out[(*nout)++] = writes.items[i].tensor;
    const double tokens = (double)(s->m * s->n), w = (double)s->k;
    const double weights = LAYERS * 12 * w * w + VOCABULARY * w;
    *flops = tokens * (6 * weights + LAYERS * 12.0 * (double)s->n * w);
    *nbytes = 4.0 * 7 * (weights + (VOCABULARY + (double)s->n) * w);
    return true;
}
