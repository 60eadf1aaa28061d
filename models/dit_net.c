/* dit_net.c - the backbone of a diffusion transformer (Peebles, Xie 2022): times and class become one vector, which says in every
 * block how tokens are scaled, shifted and let through. What it says begins as zero ("adaLN-zero"), so that each block begins as the
 * identity, and the whole as zero. Positions are fixed sinusoids, as in the paper. */
#include "noise.h"
#include "parts.h"

enum { DEPTH_MAX = 64, TIMES_MAX = 2, FREQUENCIES = 64 };

/* A linear layer that begins as zero. */
typedef struct zero_linear {
    an_tensor *weight, *bias;
} zero_linear;

static an_tensor *zero_forward(an_module *m, an_tensor *x)
{
    const zero_linear *z = an_module_data(m);
    return an_linear(x, z->weight, z->bias);
}

static an_module *make_zero(an_init *init, int64_t in, int64_t out)
{
    zero_linear *z = an_graph_alloc(init->graph, sizeof *z);
    an_module *m = z ? an_module_create(init->graph, "linear", zero_forward, z) : NULL;
    if (!m) return NULL;
    z->weight = an_module_add_parameter(m, "weight", an_init_constant(init, AN_DIMS(out, in), 0));
    z->bias = an_module_add_parameter(m, "bias", an_init_constant(init, AN_DIMS(out), 0));
    return z->weight && z->bias ? m : NULL;
}

/* norm(x) (1 + scale) + shift; the six parts of what a block is told, each (batch, 1, dim). */
static an_tensor *modulated(an_tensor *x, an_tensor *shift, an_tensor *scale)
{
    return an_add(an_mul(an_layer_norm(x, 1, NULL, NULL, 1e-6), an_add_scalar(scale, 1)), shift);
}

static an_tensor *part(an_tensor *told, int64_t i, int64_t dim)
{
    return an_unsqueeze(an_slice(told, 1, i * dim, (i + 1) * dim, 1), 1);
}

typedef struct block {
    an_module *told, *attention, *mlp;
    int64_t dim;
} block;

static an_tensor *block_forward(an_module *m, an_tensor *x, an_tensor *condition)
{
    const block *b = an_module_data(m);
    an_tensor *told = an_contiguous(an_module_forward(b->told, condition));
    an_tensor *p[6];
    for (int i = 0; i < 6; i++) p[i] = part(told, i, b->dim);
    x = an_add(x, an_mul(p[2], an_module_forward(b->attention, modulated(x, p[0], p[1]))));
    return an_add(x, an_mul(p[5], an_module_forward(b->mlp, modulated(x, p[3], p[4]))));
}

static an_module *make_block(an_init *init, int64_t dim, int64_t heads)
{
    block *b = an_graph_alloc(init->graph, sizeof *b);
    an_module *m = b ? an_module_create(init->graph, "block", NULL, b) : NULL;
    if (!m) return NULL;
    b->dim = dim;
    b->told = an_module_add_child(m, "adaLN", make_zero(init, dim, 6 * dim));
    b->attention = an_module_add_child(m, "attn", model_attention(init, dim, heads));
    b->mlp = an_module_add_child(m, "mlp", model_feed_forward(init, dim, 4 * dim));
    return b->told && b->attention && b->mlp ? m : NULL;
}

typedef struct dit {
    dit_desc desc;
    an_tensor *positions;
    an_module *embed, *classes, *times[TIMES_MAX], *blocks[DEPTH_MAX], *told, *head;
} dit;

an_tensor *dit_forward(an_module *m, an_tensor *x, an_tensor *const *times, an_tensor *classes)
{
    const dit *d = an_module_data(m);
    const dit_desc *desc = &d->desc;
    an_tensor *condition = an_module_forward(d->classes, classes);
    for (int64_t i = 0; i < desc->ntimes; i++)
        condition = an_add(condition, an_module_forward(d->times[i], model_time_embedding(an_mul_scalar(times[i], desc->fastest), FREQUENCIES, desc->fastest / desc->slowest)));
    condition = an_contiguous(an_silu(condition)); /* (batch, dim) */
    x = an_add(an_module_forward(d->embed, model_patches(x, desc->patch)), d->positions);
    for (int64_t i = 0; i < desc->depth; i++) x = block_forward(d->blocks[i], x, condition);
    an_tensor *told = an_module_forward(d->told, condition);
    x = an_module_forward(d->head, modulated(x, part(told, 0, desc->dim), part(told, 1, desc->dim)));
    return model_unpatched(x, desc->channels, desc->side, desc->patch);
}

/* Where tokens are, (n * n, dim): sinusoids of the row, then of the column; not learnt. They are larger than what the patches begin
 * as, so that the norm over a token, which takes its length away, leaves how strong the noise in a patch is. */
static an_tensor *positions_of(an_graph *g, int64_t n, int64_t dim)
{
    const int64_t half = dim / 2, dims[3] = {n, n, half};
    an_tensor *at = an_arange(g, AN_F32, 0, (double)n, 1), *each = model_time_embedding(at, half, 1e4);
    an_tensor *row = an_expand(an_unsqueeze(each, 1), dims, 3), *column = an_expand(an_unsqueeze(each, 0), dims, 3);
    return an_contiguous(an_reshape(an_cat((an_tensor *const[]){row, column}, 2, 2), AN_DIMS(n * n, dim)));
}

an_module *dit_create(an_init *init, const dit_desc *desc)
{
    an_graph *g = init->graph;
    const int64_t dim = desc->dim, each = desc->channels * desc->patch * desc->patch, n = desc->side / desc->patch;
    if (desc->side % desc->patch || desc->depth > DEPTH_MAX || dim % 4) {
        an_fail(an_graph_ctx(g), AN_ERR_ARG,
                "dit: the side %lld is no multiple of the patch %lld, or dim %lld is none of 4, or there are more than %d blocks",
                (long long)desc->side, (long long)desc->patch, (long long)dim, DEPTH_MAX);
        return NULL;
    }
    dit *d = an_graph_alloc(g, sizeof *d);
    an_module *m = d ? an_module_create(g, "dit", NULL, d) : NULL;
    if (!m) return NULL;
    d->desc = *desc;
    d->embed = an_module_add_child(m, "x_embedder", an_nn_linear(init, each, dim, NULL));
    d->positions = positions_of(g, n, dim);
    d->classes = an_module_add_child(m, "y_embedder", an_nn_embedding(init, desc->nclasses + 1, dim));
    bool ok = d->embed && d->positions && d->classes;
    for (int64_t i = 0; i < desc->ntimes && ok; i++) {
        d->times[i] = an_nn_sequential(g, AN_MODULES(an_nn_linear(init, FREQUENCIES, dim, NULL), an_nn_function(g, "silu", an_silu),
                                                     an_nn_linear(init, dim, dim, NULL)));
        ok = an_module_add_child(m, i ? "t_embedder2" : "t_embedder", d->times[i]) != NULL;
    }
    an_module *blocks = an_module_create(g, "blocks", NULL, NULL);
    for (int64_t i = 0; i < desc->depth && ok; i++) {
        const char name[3] = {i < 10 ? (char)('0' + i) : (char)('0' + i / 10), i < 10 ? '\0' : (char)('0' + i % 10), '\0'};
        d->blocks[i] = an_module_add_child(blocks, name, make_block(init, dim, desc->heads));
        ok = d->blocks[i] != NULL;
    }
    d->told = make_zero(init, dim, 2 * dim);
    d->head = make_zero(init, dim, each);
    ok = ok && an_module_add_child(m, "blocks", blocks) && an_module_add_child(m, "final_adaLN", d->told) &&
         an_module_add_child(m, "final", d->head);
    return ok ? m : NULL;
}
