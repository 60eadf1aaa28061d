/* moe.c - feed-forward layers beyond a plain one: SwiGLU, and a mixture of them with dense soft routing. */
#include <anneal/nn.h>

#include <stdio.h>

typedef struct swiglu {
    an_module *gate, *up, *down;
} swiglu;

static an_tensor *swiglu_forward(an_module *m, an_tensor *x)
{
    const swiglu *s = an_module_data(m);
    an_tensor *h = an_mul(an_silu(an_module_forward(s->gate, x)), an_module_forward(s->up, x));
    return an_module_forward(s->down, h);
}

an_module *an_nn_swiglu(an_init *init, int64_t dim, int64_t hidden)
{
    if (!init || !init->graph) return NULL;
    const an_nn_linear_desc no_bias = {.no_bias = true};
    swiglu *s = an_graph_alloc(init->graph, sizeof *s);
    if (!s) return NULL;
    an_module *m = an_module_create(init->graph, "swiglu", swiglu_forward, s);
    s->gate = an_module_add_child(m, "w1", an_nn_linear(init, dim, hidden, &no_bias));
    s->down = an_module_add_child(m, "w2", an_nn_linear(init, hidden, dim, &no_bias));
    s->up = an_module_add_child(m, "w3", an_nn_linear(init, dim, hidden, &no_bias));
    return s->gate && s->down && s->up ? m : NULL;
}

typedef struct mixture {
    an_module *gate;
    an_module **experts;
    size_t n;
    an_tensor *balance; /* of the last forward */
} mixture;

/* Switch Transformer's loss (Fedus, Zoph, Shazeer 2021): n times the sum over experts of the fraction of tokens that like it
 * best, times its mean probability; 1 if all are liked alike. p (.., n). */
static an_tensor *balance_loss(an_tensor *p, int64_t n)
{
    p = an_cast(an_reshape(p, AN_DIMS(-1, n)), AN_F32);
    an_tensor *best = an_detach(an_mean(an_one_hot(an_argmax(p, -1, false), n, AN_F32), AN_DIMS(0), false));
    return an_mul_scalar(an_sum(an_mul(best, an_mean(p, AN_DIMS(0), false)), AN_ALL, false), (double)n);
}

static an_tensor *mixture_forward(an_module *m, an_tensor *x)
{
    mixture *mix = an_module_data(m);
    an_tensor *p = an_softmax(an_module_forward(mix->gate, x), -1); /* (.., n) */
    an_tensor *y = NULL;
    for (size_t i = 0; i < mix->n; i++) {
        an_tensor *part = an_mul(an_module_forward(mix->experts[i], x), an_slice(p, -1, (int64_t)i, (int64_t)i + 1, 1));
        y = i ? an_add(y, part) : part;
    }
    mix->balance = p ? balance_loss(p, (int64_t)mix->n) : NULL;
    return y;
}

an_module *an_nn_mixture(an_init *init, int64_t dim, an_module *const *experts, size_t n)
{
    if (!init || !init->graph || n == 0 || n > 4096) return NULL;
    an_graph *g = init->graph;
    mixture *mix = an_graph_alloc(g, sizeof *mix);
    an_module *list = an_nn_sequential(g, experts, n);
    if (!mix || !list) return NULL;
    *mix = (mixture){.n = n, .experts = an_graph_alloc(g, n * sizeof(an_module *))};
    an_module *m = an_module_create(g, "mixture", mixture_forward, mix);
    mix->gate = an_module_add_child(m, "gate", an_nn_linear(init, dim, (int64_t)n, &(an_nn_linear_desc){.no_bias = true}));
    if (!mix->gate || !mix->experts || !an_module_add_child(m, "experts", list)) return NULL;
    for (size_t i = 0; i < n; i++) mix->experts[i] = experts[i];
    return m;
}

an_tensor *an_nn_balance_loss(an_module *root)
{
    an_tensor *sum = NULL;
    size_t n = 0;
    for (an_module *m = root; m; m = an_module_next(root, m)) {
        if (!an_module_forward_is(m, mixture_forward)) continue;
        const mixture *mix = an_module_data(m);
        if (!mix->balance) return NULL;
        sum = n++ ? an_add(sum, mix->balance) : mix->balance;
    }
    return sum ? an_mul_scalar(sum, 1.0 / (double)n) : NULL;
}
