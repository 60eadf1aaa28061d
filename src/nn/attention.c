/* attention.c - attention over heads, rotary positions, learned positions, and the cache of keys and values with which text is
 * generated a token at a time.
 *
 * With a cache, the position is a number in a buffer: one plan serves every position. Keys and values of all positions so far
 * are in buffers of the cache's length; what is beyond the position is masked. */
#include <anneal/nn.h>

#include "base/base.h"

#include <math.h>

/* --- the function -------------------------------------------------------------------------------- */

/* (rows, cols) bool: may query i look at key j? The last query is at the last key. */
static an_tensor *causal_mask(an_graph *g, int64_t rows, int64_t cols)
{
    an_tensor *query = an_unsqueeze(an_arange(g, AN_I32, (double)(cols - rows), (double)cols, 1.0), -1);
    return an_ge(query, an_arange(g, AN_I32, 0.0, (double)cols, 1.0));
}

an_tensor *an_attention(an_tensor *q, an_tensor *k, an_tensor *v, const an_attention_desc *desc)
{
    const an_attention_desc none = {0}, *d = desc ? desc : &none;
    if (!q || !k || !v) return NULL;
    an_graph *g = an_tensor_graph(q);
    const int64_t heads = an_tensor_dim(q, 1), groups = an_tensor_dim(k, 1), rows = an_tensor_dim(q, 2), cols = an_tensor_dim(k, 2);
    if (an_tensor_rank(q) != 4 || an_tensor_rank(k) != 4 || an_tensor_rank(v) != 4 || groups < 1 || heads % groups != 0 ||
        an_tensor_dim(v, 1) != groups || an_tensor_dim(v, 2) != cols) {
        an_fail(an_graph_ctx(g), AN_ERR_SHAPE,
                "an_attention: q (batch, heads, rows, dim), k and v (batch, groups, cols, dim) with groups dividing heads: here "
                "there are %lld heads in %lld groups, and axes of rank %u, %u, %u",
                (long long)heads, (long long)groups, an_tensor_rank(q), an_tensor_rank(k), an_tensor_rank(v));
        return NULL;
    }
    const double scale = d->scale != 0.0 ? d->scale : 1.0 / sqrt((double)an_tensor_dim(q, 3));
    const int64_t batch = an_tensor_dim(q, 0), dim = an_tensor_dim(q, 3);
    if (groups != heads) { /* each group of queries shares a key: (batch, groups, heads / groups, rows, dim) */
        q = an_reshape(q, AN_DIMS(batch, groups, heads / groups, rows, dim));
        k = an_unsqueeze(k, 2);
        v = an_unsqueeze(v, 2);
    }
    an_tensor *scores = an_mul_scalar(an_matmul(q, an_transpose(k, -2, -1)), scale); /* (.., rows, cols) */
    if (d->mask) scores = an_where(d->mask, scores, an_full_like(scores, (double)-INFINITY));
    if (d->causal && rows > 1) scores = an_where(causal_mask(g, rows, cols), scores, an_full_like(scores, (double)-INFINITY));
    an_tensor *p = an_softmax(scores, -1);
    if (d->rng && d->dropout > 0.0) p = an_dropout(d->rng, p, d->dropout);
    an_tensor *y = an_matmul(p, v);
    return groups != heads ? an_reshape(y, AN_DIMS(batch, heads, rows, an_tensor_dim(v, -1))) : y;
}

/* --- rotary positions ---------------------------------------------------------------------------- */

/* cos and sin of position * theta^(-2i/dim), for pair i, as (n, dim) each: what x and x with its pairs swapped are multiplied
 * with. The sign of the rotation is in sin. */
static bool rotary_tables(an_graph *g, int64_t n, int64_t dim, double theta, bool halves, an_tensor *out[2])
{
    const size_t count = (size_t)(n * dim);
    float *tables = an_mem_alloc(an_graph_ctx(g), 2 * count * sizeof *tables);
    if (!tables) return false;
    for (int64_t pos = 0; pos < n; pos++) {
        for (int64_t j = 0; j < dim; j++) {
            const int64_t pair = halves ? j % (dim / 2) : j / 2, is_second = halves ? j / (dim / 2) : j % 2;
            const double angle = (double)pos * pow(theta, -2.0 * (double)pair / (double)dim);
            tables[pos * dim + j] = (float)cos(angle);
            tables[(size_t)(pos * dim + j) + count] = (float)(is_second ? sin(angle) : -sin(angle));
        }
    }
    out[0] = an_tensor_from_host(g, AN_F32, AN_DIMS(n, dim), tables);
    out[1] = an_tensor_from_host(g, AN_F32, AN_DIMS(n, dim), tables + count);
    an_mem_free(an_graph_ctx(g), tables, 2 * count * sizeof *tables);
    return out[0] && out[1];
}

/* x (batch, heads, t, dim) with the two numbers of each pair swapped. */
static an_tensor *swap_pairs(an_tensor *x, bool halves)
{
    const int64_t n = an_tensor_dim(x, 0), heads = an_tensor_dim(x, 1), t = an_tensor_dim(x, 2), dim = an_tensor_dim(x, 3);
    an_tensor *pairs = an_reshape(x, AN_DIMS(n, heads, t, halves ? 2 : dim / 2, halves ? dim / 2 : 2));
    return an_reshape(an_flip(pairs, AN_DIMS(halves ? 3 : 4)), AN_DIMS(n, heads, t, dim));
}

/* --- layers -------------------------------------------------------------------------------------- */

struct an_kv_cache {
    an_module *root;
    int64_t batch, length;
    an_tensor *position;     /* i32 () */
    an_parameter *writes;    /* keys and values of every layer */
    size_t nwrites;
    bool is_on;              /* forward means one token at position */
};

typedef struct attention {
    an_nn_attention_desc desc;
    int64_t dim, head_dim;
    an_module *packed, *q, *k, *v, *out; /* packed, or the three */
    an_tensor *tables[2];                /* rotary: cos, sin */
    an_kv_cache *cache;
    an_tensor *keys, *values; /* of the cache: (batch, groups, length, head_dim) */
} attention;

typedef struct positions {
    an_tensor *weight;
    an_kv_cache *cache;
} positions;

/* x (batch, t, n * head_dim) -> (batch, n, t, head_dim). */
static an_tensor *split_heads(an_tensor *x, int64_t n, int64_t head_dim)
{
    if (!x) return NULL;
    return an_transpose(an_reshape(x, AN_DIMS(an_tensor_dim(x, 0), an_tensor_dim(x, 1), n, head_dim)), 1, 2);
}

/* Rows of the tables: the first t, or the one at the position of a cache. */
static an_tensor *table_rows(const attention *a, int which, int64_t t)
{
    if (a->cache && a->cache->is_on) return an_unsqueeze(an_take(a->tables[which], a->cache->position, 0), 0);
    return an_slice(a->tables[which], 0, 0, t, 1);
}

static an_tensor *rotate(const attention *a, an_tensor *x)
{
    if (!a->tables[0] || !x) return x;
    const int64_t t = an_tensor_dim(x, 2);
    an_tensor *turned = an_mul(swap_pairs(x, a->desc.rotary_halves), table_rows(a, 1, t));
    return an_cast(an_add(an_mul(x, table_rows(a, 0, t)), turned), an_tensor_dtype(x));
}

/* Writes one token's keys or values into the cache at the position; gives all of them. */
static an_tensor *remember(const an_kv_cache *c, an_tensor *buffer, an_tensor *now)
{
    an_graph *g = an_tensor_graph(buffer);
    an_tensor *here = an_eq(an_arange(g, AN_I32, 0.0, (double)c->length, 1.0), c->position); /* (length) */
    if (an_assign(buffer, an_where(an_unsqueeze(here, -1), now, buffer))) return NULL;
    return buffer;
}

static an_tensor *attention_forward(an_module *m, an_tensor *x)
{
    attention *a = an_module_data(m);
    const an_nn_attention_desc *d = &a->desc;
    const int64_t heads = d->heads, groups = d->groups;
    an_tensor *q = NULL, *k = NULL, *v = NULL;
    if (a->packed) {
        an_tensor *parts[3] = {NULL};
        const int64_t sizes[3] = {heads * a->head_dim, groups * a->head_dim, groups * a->head_dim};
        an_tensor *all = an_module_forward(a->packed, x);
        if (!all || an_split(all, sizes, 3, -1, parts)) return NULL;
        q = parts[0];
        k = parts[1];
        v = parts[2];
    } else {
        q = an_module_forward(a->q, x);
        k = an_module_forward(a->k, x);
        v = an_module_forward(a->v, x);
    }
    q = rotate(a, split_heads(q, heads, a->head_dim));
    k = rotate(a, split_heads(k, groups, a->head_dim));
    v = split_heads(v, groups, a->head_dim);
    an_attention_desc how = {.causal = d->causal, .mask = d->mask};
    if (an_module_is_training(m)) {
        how.dropout = d->dropout;
        how.rng = d->rng;
    }
    if (a->cache && a->cache->is_on) {
        an_kv_cache *c = a->cache;
        k = remember(c, a->keys, k);
        v = remember(c, a->values, v);
        how.mask = an_le(an_arange(an_tensor_graph(x), AN_I32, 0.0, (double)c->length, 1.0), c->position); /* (length) */
    }
    an_tensor *y = an_transpose(an_attention(q, k, v, &how), 1, 2); /* (batch, t, heads, head_dim) */
    return an_module_forward(a->out, an_flatten(y, 2, 3));
}

static bool check_heads(const an_init *init, int64_t dim, const an_nn_attention_desc *d)
{
    if (!init || !init->graph || !d) return false;
    if (dim > 0 && d->heads > 0 && dim % d->heads == 0 && d->groups >= 0 && (d->groups == 0 || d->heads % d->groups == 0) &&
        (d->rotary_theta == 0.0 || (d->context > 0 && dim / d->heads % 2 == 0)))
        return true;
    an_fail(an_graph_ctx(init->graph), AN_ERR_ARG,
            "an_nn_attention: width %lld, %lld heads, %lld groups: heads divide the width, groups the heads; rotary positions "
            "take an even number of each head, and a context",
            (long long)dim, (long long)d->heads, (long long)d->groups);
    return false;
}

an_module *an_nn_attention(an_init *init, int64_t dim, const an_nn_attention_desc *desc)
{
    if (!check_heads(init, dim, desc)) return NULL;
    an_graph *g = init->graph;
    attention *a = an_graph_alloc(g, sizeof *a);
    if (!a) return NULL;
    *a = (attention){.desc = *desc, .dim = dim, .head_dim = dim / desc->heads};
    if (a->desc.groups == 0) a->desc.groups = a->desc.heads;
    const int64_t kv = a->desc.groups * a->head_dim;
    const an_nn_linear_desc linear = {.no_bias = desc->no_bias};
    an_module *m = an_module_create(g, "attention", attention_forward, a);
    if (desc->packed) {
        a->packed = an_module_add_child(m, desc->packed, an_nn_linear(init, dim, dim + 2 * kv, &linear));
        if (!a->packed) return NULL;
    } else {
        a->q = an_module_add_child(m, desc->q ? desc->q : "q_proj", an_nn_linear(init, dim, dim, &linear));
        a->k = an_module_add_child(m, desc->k ? desc->k : "k_proj", an_nn_linear(init, dim, kv, &linear));
        a->v = an_module_add_child(m, desc->v ? desc->v : "v_proj", an_nn_linear(init, dim, kv, &linear));
        if (!a->q || !a->k || !a->v) return NULL;
    }
    const double std = init->std;
    if (desc->out_std != 0.0) init->std = desc->out_std;
    a->out = an_module_add_child(m, desc->out ? desc->out : "out_proj", an_nn_linear(init, dim, dim, &linear));
    init->std = std;
    if (!a->out) return NULL;
    if (desc->rotary_theta != 0.0 &&
        !rotary_tables(g, desc->context, a->head_dim, desc->rotary_theta, desc->rotary_halves, a->tables))
        return NULL;
    return m;
}

static an_tensor *positions_forward(an_module *m, an_tensor *x)
{
    const positions *p = an_module_data(m);
    if (p->cache && p->cache->is_on) return an_add(x, an_take(p->weight, p->cache->position, 0));
    const int64_t t = an_tensor_dim(x, -2), n = an_tensor_dim(p->weight, 0);
    if (t > n) {
        an_fail(an_graph_ctx(an_tensor_graph(x)), AN_ERR_SHAPE, "a sequence of %lld, and only %lld positions were learnt",
                (long long)t, (long long)n);
        return NULL;
    }
    return an_add(x, an_slice(p->weight, 0, 0, t, 1));
}

an_module *an_nn_positions(an_init *init, int64_t n, int64_t dim)
{
    if (!init || !init->graph) return NULL;
    positions *p = an_graph_alloc(init->graph, sizeof *p);
    an_tensor *weight = an_init_normal(init, AN_DIMS(n, dim), 0.0, init->std > 0.0 ? init->std : 1.0);
    if (!p || !weight) return NULL;
    *p = (positions){.weight = weight};
    an_module *m = an_module_create(init->graph, "positions", positions_forward, p);
    return an_module_add_parameter(m, "weight", weight) ? m : NULL;
}

/* --- the cache ----------------------------------------------------------------------------------- */

/* Buffers for one layer of attention. */
static bool attach(an_kv_cache *c, an_module *m)
{
    an_graph *g = an_module_graph(m);
    attention *a = an_module_data(m);
    a->keys = an_tensor_from_host(g, AN_F32, AN_DIMS(c->batch, a->desc.groups, c->length, a->head_dim), NULL);
    a->values = an_tensor_from_host(g, AN_F32, AN_DIMS(c->batch, a->desc.groups, c->length, a->head_dim), NULL);
    if (!a->keys || !a->values) return false;
    a->cache = c;
    c->writes[c->nwrites++] = (an_parameter){"keys", a->keys};
    c->writes[c->nwrites++] = (an_parameter){"values", a->values};
    return true;
}

an_kv_cache *an_kv_cache_create(an_module *root, int64_t batch, int64_t length)
{
    if (!root) return NULL;
    an_graph *g = an_module_graph(root);
    an_kv_cache *c = an_graph_alloc(g, sizeof *c);
    size_t n = 0;
    for (an_module *m = root; m; m = an_module_next(root, m)) n += an_module_forward_is(m, attention_forward);
    if (!c) return NULL;
    *c = (an_kv_cache){.root = root, .batch = batch, .length = length};
    c->position = an_tensor_from_host(g, AN_I32, AN_SCALAR, NULL);
    c->writes = an_graph_alloc(g, (2 * n + 1) * sizeof *c->writes);
    if (!c->position || !c->writes) return NULL;
    for (an_module *m = root; m; m = an_module_next(root, m)) {
        const attention *a = an_module_data(m);
        if (an_module_forward_is(m, positions_forward)) {
            positions *p = an_module_data(m);
            p->cache = c;
        }
        if (!an_module_forward_is(m, attention_forward)) continue;
        if (a->tables[0] && an_tensor_dim(a->tables[0], 0) < length) {
            an_fail(an_graph_ctx(g), AN_ERR_ARG, "an_kv_cache_create: %lld positions, and the model has %lld", (long long)length,
                    (long long)an_tensor_dim(a->tables[0], 0));
            return NULL;
        }
        if (!attach(c, m)) return NULL;
    }
    return c;
}

an_tensor *an_kv_cache_forward(an_kv_cache *c, an_tensor *token)
{
    if (!c || !token) return NULL;
    const bool was_training = an_module_is_training(c->root);
    an_module_train(c->root, false);
    c->is_on = true;
    an_tensor *y = an_module_forward(c->root, token);
    c->is_on = false;
    an_module_train(c->root, was_training);
    return y;
}

an_tensor *an_kv_cache_position(an_kv_cache *c)
{
    return c ? c->position : NULL;
}

int64_t an_kv_cache_length(const an_kv_cache *c)
{
    return c ? c->length : 0;
}

an_params an_kv_cache_writes(an_kv_cache *c)
{
    const an_params none = {0};
    return c ? (an_params){an_module_graph(c->root), c->writes, c->nwrites} : none;
}
