/* test_jit_train.c - training steps replayed and not: a multilayer perceptron and a small GPT, 200 steps each. The losses are
 * equal bit for bit, under a budget of memory too, and replaying allocates nothing from the third step on: neither the library from its
 * context, nor anything in the process from malloc. */
#include "an_test.h"

#include <anneal/device.h>
#include <anneal/grad.h>
#include <anneal/jit.h>
#include <anneal/settings.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 200, PARAMS_MAX = 32 };

/* Every call of malloc and its kin in the process, whoever makes it. */
static atomic_size_t mallocs;
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !AN_TEST_HAS_FEATURE(address_sanitizer)
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *ptr, size_t size);

void *malloc(size_t size)
{
    mallocs++;
    return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    mallocs++;
    return __libc_calloc(n, size);
}

void *realloc(void *ptr, size_t size)
{
    mallocs++;
    return __libc_realloc(ptr, size);
}
enum { COUNTS_MALLOCS = 1 };
#else
enum { COUNTS_MALLOCS = 0 };
#endif

typedef struct model model;
struct model {
    an_tensor *p[PARAMS_MAX], *m[PARAMS_MAX]; /* parameters and momenta */
    size_t n;
    an_tensor *(*loss)(const model *m, an_tensor *x, an_tensor *y);
};

typedef struct args {
    an_tensor *x, *y;
} args;
typedef struct results {
    an_tensor *loss;
} results;

static uint64_t next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static an_tensor *param(model *m, an_graph *g, uint64_t *rng, double scale, const int64_t *dims, uint32_t rank)
{
    size_t numel = 1;
    for (uint32_t i = 0; i < rank; i++) numel *= (size_t)dims[i];
    float *data = malloc(numel * sizeof *data);
    for (size_t i = 0; data && i < numel; i++) data[i] = (float)(scale * ((double)(next(rng) >> 11) / 4503599627370496.0 - 1.0));
    m->m[m->n] = an_tensor_from_host(g, AN_F32, dims, rank, NULL);
    an_tensor *p = m->p[m->n++] = an_tensor_from_host(g, AN_F32, dims, rank, data);
    free(data);
    return p;
}

/* --- the models -------------------------------------------------------------------------------------------------- */

enum { BATCH = 8, FEATURES = 12, HIDDEN = 16, CLASSES = 4 };

static an_tensor *mlp_loss(const model *m, an_tensor *x, an_tensor *y)
{
    an_tensor *h = an_relu(an_linear(x, m->p[0], m->p[1]));
    return an_cross_entropy(an_linear(h, m->p[2], m->p[3]), y, NULL);
}

static void make_mlp(model *m, an_graph *g)
{
    uint64_t rng = 7;
    *m = (model){.loss = mlp_loss};
    param(m, g, &rng, 0.3, AN_DIMS(HIDDEN, FEATURES));
    param(m, g, &rng, 0.3, AN_DIMS(HIDDEN));
    param(m, g, &rng, 0.3, AN_DIMS(CLASSES, HIDDEN));
    param(m, g, &rng, 0.3, AN_DIMS(CLASSES));
}

enum { SEQ = 16, DIM = 32, HEADS = 2, VOCAB = 11, GPT_BATCH = 4 };

static an_tensor *heads(an_tensor *x) /* (B, T, D) -> (B, H, T, D/H) */
{
    return an_permute(an_reshape(x, AN_DIMS(GPT_BATCH, SEQ, HEADS, DIM / HEADS)), AN_DIMS(0, 2, 1, 3));
}

static an_tensor *gpt_loss(const model *m, an_tensor *x, an_tensor *y)
{
    an_tensor *const *p = m->p;
    an_graph *g = an_tensor_graph(x);
    an_tensor *h = an_add(an_embedding(p[0], x), p[1]);
    an_tensor *n = an_layer_norm(h, 1, p[2], p[3], 1e-5), *qkv[3];
    if (!n || an_chunk(an_linear(n, p[4], NULL), 3, -1, qkv)) return NULL;
    an_tensor *scores = an_mul_scalar(an_matmul(heads(qkv[0]), an_transpose(heads(qkv[1]), 2, 3)), 0.25);
    an_tensor *later = an_eq_scalar(an_tril(an_ones(g, AN_F32, AN_DIMS(SEQ, SEQ)), 0), 0);
    an_tensor *a = an_matmul(an_softmax(an_masked_fill(scores, later, -1e9), -1), heads(qkv[2]));
    a = an_reshape(an_permute(a, AN_DIMS(0, 2, 1, 3)), AN_DIMS(GPT_BATCH, SEQ, DIM));
    h = an_add(h, an_linear(a, p[5], NULL));
    n = an_layer_norm(h, 1, p[6], p[7], 1e-5);
    h = an_add(h, an_linear(an_gelu_tanh(an_linear(n, p[8], p[9])), p[10], p[11]));
    an_tensor *logits = an_linear(an_layer_norm(h, 1, p[12], p[13], 1e-5), p[0], NULL);
    return an_cross_entropy(an_reshape(logits, AN_DIMS(GPT_BATCH *SEQ, VOCAB)), an_reshape(y, AN_DIMS(GPT_BATCH *SEQ)), NULL);
}

static void make_gpt(model *m, an_graph *g)
{
    uint64_t rng = 11;
    *m = (model){.loss = gpt_loss};
    param(m, g, &rng, 0.2, AN_DIMS(VOCAB, DIM));
    param(m, g, &rng, 0.2, AN_DIMS(SEQ, DIM));
    param(m, g, &rng, 1.0, AN_DIMS(DIM));
    param(m, g, &rng, 0.1, AN_DIMS(DIM));
    param(m, g, &rng, 0.2, AN_DIMS(3 * DIM, DIM));
    param(m, g, &rng, 0.2, AN_DIMS(DIM, DIM));
    param(m, g, &rng, 1.0, AN_DIMS(DIM));
    param(m, g, &rng, 0.1, AN_DIMS(DIM));
    param(m, g, &rng, 0.2, AN_DIMS(4 * DIM, DIM));
    param(m, g, &rng, 0.1, AN_DIMS(4 * DIM));
    param(m, g, &rng, 0.2, AN_DIMS(DIM, 4 * DIM));
    param(m, g, &rng, 0.1, AN_DIMS(DIM));
    param(m, g, &rng, 1.0, AN_DIMS(DIM));
    param(m, g, &rng, 0.1, AN_DIMS(DIM));
}

/* --- a step ------------------------------------------------------------------------------------------------------ */

/* m = 0.9 m + grad;  p = p - 0.05 m. */
static an_status step(void *user, an_graph *g, const void *in, void *out)
{
    model *m = user;
    const args *a = in;
    an_tensor *grads[PARAMS_MAX], *loss = m->loss(m, a->x, a->y);
    (void)g;
    if (!loss || an_backward(loss, m->p, m->n, grads)) return AN_ERR_ARG;
    for (size_t i = 0; i < m->n; i++)
        if (an_assign(m->m[i], an_add(an_mul_scalar(m->m[i], 0.9), grads[i])) ||
            an_assign(m->p[i], an_sub(m->p[i], an_mul_scalar(m->m[i], 0.05))))
            return AN_ERR_ARG;
    ((results *)out)->loss = loss;
    return AN_OK;
}

typedef struct data {
    float x[BATCH * FEATURES];
    int32_t tokens[GPT_BATCH * SEQ], targets[GPT_BATCH * SEQ], labels[BATCH];
} data;

static void fill(data *d, int i)
{
    uint64_t rng = 1000 + (uint64_t)i % 10;
    for (int k = 0; k < BATCH * FEATURES; k++) d->x[k] = (float)(next(&rng) % 1000) / 500 - 1;
    for (int k = 0; k < BATCH; k++) d->labels[k] = (int32_t)(next(&rng) % CLASSES);
    for (int k = 0; k < GPT_BATCH * SEQ; k++) {
        d->tokens[k] = (int32_t)(next(&rng) % VOCAB);
        d->targets[k] = (d->tokens[k] * 3 + 1) % VOCAB;
    }
}

static an_status feed(const args *a, bool gpt, int i)
{
    data d;
    fill(&d, i);
    const an_status st = gpt ? an_tensor_write(a->x, d.tokens, sizeof d.tokens) : an_tensor_write(a->x, d.x, sizeof d.x);
    if (st) return st;
    return gpt ? an_tensor_write(a->y, d.targets, sizeof d.targets) : an_tensor_write(a->y, d.labels, sizeof d.labels);
}

typedef struct memory {
    size_t planned, apart;
} memory;

/* Losses of STEPS steps. budget: bytes between kernels, 0 for no limit; used (may be NULL) gets what the plan takes. */
static void train(an_test *t, bool gpt, bool replay, size_t budget, double *losses, memory *used)
{
    static const an_jit_slot in[] = {AN_JIT_SLOT(args, x), AN_JIT_SLOT(args, y)};
    static const an_jit_slot out[] = {AN_JIT_SLOT(results, loss)};
    an_graph *g = NULL;
    an_jit *jit = NULL;
    model m;
    CHECK_OK(t, an_ctx_set_settings(t->ctx, (an_settings){.memory_budget = budget}));
    CHECK_OK(t, an_graph_create(t->ctx, &g));
    (gpt ? make_gpt : make_mlp)(&m, g);
    args a = {gpt ? an_tensor_from_host(g, AN_I32, AN_DIMS(GPT_BATCH, SEQ), NULL) : an_tensor_from_host(g, AN_F32, AN_DIMS(BATCH, FEATURES), NULL),
              gpt ? an_tensor_from_host(g, AN_I32, AN_DIMS(GPT_BATCH, SEQ), NULL) : an_tensor_from_host(g, AN_I32, AN_DIMS(BATCH), NULL)};
    results r = {NULL};
    const an_jit_desc desc = {.name = "step", .fn = step, .user = &m, .args = AN_JIT_SLOTS(args, in), .results = AN_JIT_SLOTS(results, out)};
    CHECK_OK(t, an_jit_create(g, &desc, &jit));
    size_t calls = 0, all_calls = 0;
    for (int i = 0; i < STEPS; i++) {
        CHECK_OK(t, feed(&a, gpt, i));
        if (replay) {
            CHECK_OK(t, an_jit_call(jit, &a, &r));
        } else {
            an_tensor *all[2 * PARAMS_MAX + 1];
            CHECK_OK(t, step(&m, g, &a, &r));
            memcpy(all, m.p, m.n * sizeof *all);
            memcpy(all + m.n, m.m, m.n * sizeof *all);
            all[2 * m.n] = r.loss;
            CHECK_OK(t, an_realize(all, 2 * m.n + 1));
        }
        CHECK_OK(t, an_item_f64(r.loss, &losses[i]));
        if (i > 1) continue;
        calls = t->memory.calls;
        all_calls = mallocs;
    }
    if (replay && strcmp(an_device_name(an_graph_device(g)), "cpu") == 0) {
        CHECK_EQ(t, t->memory.calls, calls);
        CHECK_EQ(t, mallocs, all_calls);
        CHECK(t, !COUNTS_MALLOCS || all_calls > calls / 2); /* they are counted */
    }
    if (replay && used) {
        const an_plan *p = an_jit_plan(jit);
        *used = (memory){an_plan_nbytes(p), an_plan_nbytes_unplanned(p)};
        printf("    %zu kernels, %zu bytes between them, %zu without reuse\n", an_plan_kernel_count(p), used->planned, used->apart);
    }
    an_jit_destroy(jit);
    an_graph_destroy(g);
}

static double direct[STEPS], replayed[STEPS];

static void check_equal_losses(an_test *t)
{
    for (int i = 0; i < STEPS; i++) CHECK(t, memcmp(&direct[i], &replayed[i], sizeof *direct) == 0);
    printf("    loss %.6f -> %.6f\n", direct[0], direct[STEPS - 1]);
    CHECK(t, direct[STEPS - 1] < 0.6 * direct[0]); /* it learns something to compare */
}

static void a_perceptron_learns_the_same_when_replayed(an_test *t)
{
    memory used;
    train(t, false, true, 0, replayed, &used);
    train(t, false, false, 0, direct, NULL);
    check_equal_losses(t);
}

static void a_gpt_learns_the_same_when_replayed_and_within_a_budget(an_test *t)
{
    memory free_of, tight;
    train(t, true, false, 0, direct, NULL);
    train(t, true, true, 0, replayed, &free_of);
    check_equal_losses(t);
    CHECK(t, free_of.planned < free_of.apart);
    const size_t budget = free_of.apart / 2; /* half of what it takes without a plan */
    CHECK(t, budget < free_of.planned);      /* so that something has to go */
    train(t, true, true, budget, replayed, &tight);
    CHECK(t, tight.planned <= budget);
    check_equal_losses(t);
}

AN_TEST_MAIN(AN_CASE(a_perceptron_learns_the_same_when_replayed), AN_CASE(a_gpt_learns_the_same_when_replayed_and_within_a_budget))
