/* optim.c - optimisers as graph: a step reads gradients, parameters and state and writes the latter two in place.
 *
 * Numbers that change (the learning rate, the count of steps) are in buffers of rank 0. What Adam makes of them is computed
 * once a step into buffers, not once an element. */
#include <anneal/nn.h>

#include "base/base.h"

#include <math.h>

typedef enum kind { SGD, ADAM, ADAMW } kind;
enum { NSTATE = 3 }; /* state tensors of a parameter, at most */
static const char *const state_names[][NSTATE] = {
    [SGD] = {"momentum_buffer"},
    [ADAM] = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"},
    [ADAMW] = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"},
};

struct an_optim {
    an_graph *graph;
    kind kind;
    an_params params;
    an_sgd_desc sgd;
    an_adam_desc adam;
    an_tensor *lr;   /* rank 0 */
    double lr_value;
    an_tensor *step; /* rank 0, i32: steps done; NULL where nothing depends on it */
    an_tensor **state; /* NSTATE a parameter, NULL where there is none */
    bool *written;     /* a parameter that some step has written */
};

/* --- making one ---------------------------------------------------------------------------------- */

static an_tensor *zeros_like(an_tensor *x)
{
    int64_t dims[16] = {0};
    const uint32_t rank = an_tensor_rank(x);
    for (uint32_t i = 0; i < rank && i < 16; i++) dims[i] = an_tensor_dim(x, (int)i);
    return an_tensor_from_host(an_tensor_graph(x), an_tensor_dtype(x), dims, rank, NULL);
}

static bool check_number(an_graph *g, const char *call, const char *what, double v, double low, double high)
{
    if (v >= low && v < high) return true;
    an_fail(an_graph_ctx(g), AN_ERR_ARG, "%s: %s is %g; it must be at least %g and below %g", call, what, v, low, high);
    return false;
}

static bool check_params(const char *call, an_params params)
{
    an_ctx *ctx = an_graph_ctx(params.graph);
    if (params.n == 0) {
        an_fail(ctx, AN_ERR_ARG, "%s: there are no parameters to train", call);
        return false;
    }
    for (size_t i = 0; i < params.n; i++) {
        const an_dtype dtype = an_tensor_dtype(params.items[i].tensor);
        if (an_dtype_kind_of(dtype) == AN_KIND_FLOAT && an_tensor_numel(params.items[i].tensor) >= 0) continue;
        an_fail(ctx, AN_ERR_DTYPE, "%s: parameter %s is of dtype %s; a parameter is a float tensor of fixed shape", call,
                params.items[i].name, an_dtype_name(dtype));
        return false;
    }
    return true;
}

/* The optimiser with nstate tensors of zeros for each parameter. */
static an_optim *create(an_params params, const an_optim *fields, size_t nstate, bool has_step)
{
    an_graph *g = params.graph;
    an_optim *o = an_graph_alloc(g, sizeof *o);
    if (!o) return NULL;
    *o = *fields;
    o->graph = g;
    o->params = params;
    o->state = an_graph_alloc(g, params.n * NSTATE * sizeof *o->state);
    o->written = an_graph_alloc(g, params.n * sizeof *o->written);
    if (!o->state || !o->written) return NULL;
    an_dtype scalar = AN_F32; /* of the learning rate */
    for (size_t i = 0; i < params.n; i++) {
        if (an_tensor_dtype(params.items[i].tensor) == AN_F64) scalar = AN_F64;
        for (size_t k = 0; k < nstate; k++) {
            an_tensor *zeros = zeros_like(params.items[i].tensor);
            if (!zeros) return NULL;
            o->state[i * NSTATE + k] = zeros;
        }
    }
    if (has_step) {
        o->step = an_tensor_from_host(g, AN_I32, AN_SCALAR, NULL);
        if (!o->step) return NULL;
    }
    unsigned char bytes[8] = {0};
    an_scalar_store(scalar, (an_scalar){.f = o->lr_value}, bytes);
    o->lr = an_tensor_from_host(g, scalar, AN_SCALAR, bytes); /* not a write: what was built before stays current */
    return o->lr ? o : NULL;
}

an_optim *an_optim_sgd(an_params params, const an_sgd_desc *desc)
{
    an_optim o = {.kind = SGD};
    if (desc) o.sgd = *desc;
    if (o.sgd.lr == 0.0) o.sgd.lr = 1e-3;
    o.lr_value = o.sgd.lr;
    an_graph *g = params.graph;
    if (!g || !check_params("an_optim_sgd", params) ||
        !check_number(g, "an_optim_sgd", "lr", o.sgd.lr, 0.0, HUGE_VAL) ||
        !check_number(g, "an_optim_sgd", "momentum", o.sgd.momentum, 0.0, HUGE_VAL) ||
        !check_number(g, "an_optim_sgd", "weight_decay", o.sgd.weight_decay, 0.0, HUGE_VAL))
        return NULL;
    if (o.sgd.nesterov && (o.sgd.momentum == 0.0 || o.sgd.dampening != 0.0)) {
        an_fail(an_graph_ctx(g), AN_ERR_ARG, "an_optim_sgd: nesterov needs a momentum and no dampening");
        return NULL;
    }
    const bool has_momentum = o.sgd.momentum != 0.0;
    return create(params, &o, has_momentum ? 1 : 0, has_momentum && o.sgd.dampening != 0.0);
}

static an_optim *adam(const char *call, kind which, an_params params, const an_adam_desc *desc)
{
    an_optim o = {.kind = which};
    if (desc) o.adam = *desc;
    if (o.adam.lr == 0.0) o.adam.lr = 1e-3;
    if (o.adam.beta1 == 0.0) o.adam.beta1 = 0.9;
    if (o.adam.beta2 == 0.0) o.adam.beta2 = 0.999;
    if (o.adam.eps == 0.0) o.adam.eps = 1e-8;
    o.lr_value = o.adam.lr;
    an_graph *g = params.graph;
    if (!g || !check_params(call, params) || !check_number(g, call, "lr", o.adam.lr, 0.0, HUGE_VAL) ||
        !check_number(g, call, "beta1", o.adam.beta1, 0.0, 1.0) ||
        !check_number(g, call, "beta2", o.adam.beta2, 0.0, 1.0) ||
        !check_number(g, call, "eps", o.adam.eps, 0.0, HUGE_VAL) ||
        !check_number(g, call, "weight_decay", o.adam.weight_decay, 0.0, HUGE_VAL))
        return NULL;
    return create(params, &o, o.adam.amsgrad ? 3 : 2, true);
}

an_optim *an_optim_adam(an_params params, const an_adam_desc *desc)
{
    return adam("an_optim_adam", ADAM, params, desc);
}

an_optim *an_optim_adamw(an_params params, const an_adam_desc *desc)
{
    return adam("an_optim_adamw", ADAMW, params, desc);
}

/* --- a step -------------------------------------------------------------------------------------- */

/* What all parameters share in a step, rank 0. */
typedef struct shared {
    an_tensor *lr;
    an_tensor *is_first;  /* SGD with dampening: no step was done yet */
    an_tensor *step_size; /* Adam: lr / (1 - beta1^t) */
    an_tensor *root;      /* Adam: sqrt(1 - beta2^t) */
} shared;

/* 1 - beta^t without cancellation. */
static an_tensor *one_minus_power(double beta, an_tensor *t)
{
    return an_neg(an_expm1(an_mul_scalar(t, log(beta))));
}

static an_status begin_step(an_optim *o, shared *s)
{
    s->lr = o->lr;
    if (!o->step) return AN_OK;
    if (o->kind == SGD) {
        s->is_first = an_eq_scalar(o->step, 0.0);
    } else {
        an_tensor *t = an_cast(an_add_scalar(o->step, 1.0), an_tensor_dtype(o->lr));
        s->step_size = an_contiguous(an_div(o->lr, one_minus_power(o->adam.beta1, t)));
        s->root = an_contiguous(an_sqrt(one_minus_power(o->adam.beta2, t)));
    }
    return an_assign(o->step, an_add_scalar(o->step, 1.0));
}

static an_status sgd_update(an_optim *o, const shared *s, an_tensor *p, an_tensor *grad, an_tensor **state)
{
    const an_sgd_desc *c = &o->sgd;
    an_tensor *d = grad;
    if (c->weight_decay != 0.0) d = an_add(d, an_mul_scalar(p, c->weight_decay));
    if (c->momentum != 0.0) {
        an_tensor *m = an_add(an_mul_scalar(state[0], c->momentum), an_mul_scalar(d, 1.0 - c->dampening));
        if (s->is_first) m = an_where(s->is_first, d, m);
        const an_status st = an_assign(state[0], m);
        if (st) return st;
        d = c->nesterov ? an_add(d, an_mul_scalar(m, c->momentum)) : m;
    }
    return an_assign(p, an_sub(p, an_mul(an_cast(s->lr, an_tensor_dtype(p)), d)));
}

static an_status adam_update(an_optim *o, const shared *s, an_tensor *p, an_tensor *grad, an_tensor **state)
{
    const an_adam_desc *c = &o->adam;
    const an_dtype dtype = an_tensor_dtype(p);
    an_tensor *g = grad, *base = p;
    if (c->weight_decay != 0.0 && o->kind == ADAM) g = an_add(g, an_mul_scalar(p, c->weight_decay));
    if (c->weight_decay != 0.0 && o->kind == ADAMW)
        base = an_mul(p, an_cast(an_rsub_scalar(an_mul_scalar(s->lr, c->weight_decay), 1.0), dtype));
    an_tensor *m = an_add(an_mul_scalar(state[0], c->beta1), an_mul_scalar(g, 1.0 - c->beta1));
    an_tensor *v = an_add(an_mul_scalar(state[1], c->beta2), an_mul_scalar(an_square(g), 1.0 - c->beta2));
    an_tensor *over = v;
    if (c->amsgrad) over = an_maximum(state[2], v);
    an_status st = an_assign(state[0], m);
    if (!st) st = an_assign(state[1], v);
    if (!st && c->amsgrad) st = an_assign(state[2], over);
    if (st) return st;
    an_tensor *denominator = an_add_scalar(an_div(an_sqrt(over), an_cast(s->root, dtype)), c->eps);
    an_tensor *change = an_mul(an_cast(s->step_size, dtype), an_div(m, denominator));
    return an_assign(p, an_sub(base, change));
}

static an_status check_grads(const an_optim *o, an_tensor *const *grads)
{
    an_ctx *ctx = an_graph_ctx(o->graph);
    for (size_t i = 0; i < o->params.n; i++) {
        an_tensor *p = o->params.items[i].tensor;
        if (!grads[i]) continue;
        bool same = an_tensor_graph(grads[i]) == o->graph && an_tensor_rank(grads[i]) == an_tensor_rank(p);
        for (uint32_t k = 0; same && k < an_tensor_rank(p); k++)
            same = an_tensor_dim(grads[i], (int)k) == an_tensor_dim(p, (int)k);
        if (!same)
            return an_fail(ctx, AN_ERR_SHAPE,
                           "an_optim_step: gradient %zu is not of the shape and graph of parameter %s: give gradients in "
                           "the order of the parameters",
                           i, o->params.items[i].name);
    }
    return AN_OK;
}

/* A chain of calls that failed ends in a NULL, and so in AN_ERR_ARG: the context knows what it was. */
static an_status first_cause(const an_optim *o, an_status st)
{
    const an_status cause = an_ctx_status(an_graph_ctx(o->graph));
    return st == AN_ERR_ARG && cause ? cause : st;
}

an_status an_optim_step(an_optim *o, an_tensor *const *grads)
{
    if (!o || !grads) return AN_ERR_ARG;
    an_status st = check_grads(o, grads);
    if (st) return st;
    const an_phase phase = an_graph_set_phase(o->graph, AN_PHASE_UPDATE);
    shared s = {0};
    st = begin_step(o, &s);
    for (size_t i = 0; i < o->params.n && !st; i++) {
        an_tensor *p = o->params.items[i].tensor;
        if (!grads[i]) continue;
        an_tensor *grad = an_cast(grads[i], an_tensor_dtype(p));
        an_tensor **state = o->state + i * NSTATE;
        st = o->kind == SGD ? sgd_update(o, &s, p, grad, state) : adam_update(o, &s, p, grad, state);
        o->written[i] = true;
    }
    an_graph_set_phase(o->graph, phase);
    return first_cause(o, st);
}

an_status an_optim_minimize(an_optim *o, an_tensor *loss)
{
    if (!o) return AN_ERR_ARG;
    if (!loss) return first_cause(o, AN_ERR_ARG);
    an_ctx *ctx = an_graph_ctx(o->graph);
    const size_t n = o->params.n, nbytes = 2 * n * sizeof(an_tensor *);
    an_tensor **tensors = an_mem_zalloc(ctx, nbytes); /* parameters, then their gradients */
    if (!tensors) return AN_ERR_NOMEM;
    for (size_t i = 0; i < n; i++) tensors[i] = o->params.items[i].tensor;
    an_status st = an_backward(loss, tensors, n, tensors + n);
    if (!st) st = an_optim_step(o, tensors + n);
    an_mem_free(ctx, tensors, nbytes);
    return st;
}

/* --- what it writes, and its numbers --------------------------------------------------------------- */

static const char *joined(an_graph *g, const char *a, const char *b)
{
    const size_t na = strlen(a), nb = strlen(b);
    char *text = an_graph_alloc(g, na + nb + 2);
    if (!text) return NULL;
    memcpy(text, a, na);
    text[na] = '.';
    memcpy(text + na + 1, b, nb);
    return text;
}

static an_params list(an_optim *o, bool writes)
{
    const an_params none = {0};
    if (!o) return none;
    const size_t n = o->params.n;
    an_parameter *items = an_graph_alloc(o->graph, (n * (NSTATE + 1) + 2) * sizeof *items);
    if (!items) return none;
    size_t len = 0;
    for (size_t i = 0; i < n && writes; i++)
        if (o->written[i]) items[len++] = o->params.items[i];
    for (size_t i = 0; i < n; i++) {
        if (writes && !o->written[i]) continue;
        for (size_t k = 0; k < NSTATE; k++) {
            if (!o->state[i * NSTATE + k]) continue;
            const char *name = joined(o->graph, state_names[o->kind][k], o->params.items[i].name);
            if (!name) return none;
            items[len++] = (an_parameter){name, o->state[i * NSTATE + k]};
        }
    }
    if (o->step) items[len++] = (an_parameter){"step", o->step};
    if (!writes) items[len++] = (an_parameter){"lr", o->lr};
    return (an_params){o->graph, items, len};
}

an_params an_optim_writes(an_optim *o)
{
    return list(o, true);
}

an_params an_optim_state(an_optim *o)
{
    return list(o, false);
}

an_status an_optim_plan(an_optim *o, an_tensor *const *more, size_t nmore, an_trace *trace, an_plan **out)
{
    if (!o) return AN_ERR_ARG;
    an_ctx *ctx = an_graph_ctx(o->graph);
    const an_params writes = an_optim_writes(o);
    if (!writes.graph) return AN_ERR_NOMEM;
    const size_t n = nmore + writes.n, nbytes = n * sizeof(an_tensor *);
    an_tensor **tensors = an_mem_alloc(ctx, nbytes);
    if (!tensors) return AN_ERR_NOMEM;
    for (size_t i = 0; i < nmore; i++) tensors[i] = more[i];
    for (size_t i = 0; i < writes.n; i++) tensors[nmore + i] = writes.items[i].tensor;
    const an_status st = an_plan_create(o->graph, tensors, n, trace, out);
    an_mem_free(ctx, tensors, nbytes);
    return st;
}

an_status an_optim_set_lr(an_optim *o, double lr)
{
    if (!o) return AN_ERR_ARG;
    if (!check_number(o->graph, "an_optim_set_lr", "lr", lr, 0.0, HUGE_VAL)) return AN_ERR_ARG;
    const an_dtype dtype = an_tensor_dtype(o->lr);
    unsigned char bytes[8] = {0};
    an_scalar_store(dtype, (an_scalar){.f = lr}, bytes);
    const an_status st = an_tensor_write(o->lr, bytes, an_dtype_nbytes(dtype));
    if (!st) o->lr_value = lr;
    return st;
}

double an_optim_lr(const an_optim *o)
{
    return o ? o->lr_value : 0.0;
}

/* --- clipping ------------------------------------------------------------------------------------ */

static an_tensor *clip(an_tensor **grads, size_t n, double max_norm)
{
    an_tensor *total = NULL;
    for (size_t i = 0; i < n; i++) {
        if (!grads[i]) continue;
        const an_dtype wide = an_tensor_dtype(grads[i]) == AN_F64 ? AN_F64 : AN_F32;
        an_tensor *sum = an_sum(an_square(an_cast(grads[i], wide)), AN_ALL, false);
        total = total ? an_add(total, sum) : sum;
        if (!total) return NULL;
    }
    an_tensor *norm = an_contiguous(an_sqrt(total));
    an_tensor *scale = an_minimum_scalar(an_rdiv_scalar(an_add_scalar(norm, 1e-6), max_norm), 1.0);
    if (!scale) return NULL;
    for (size_t i = 0; i < n; i++) {
        if (!grads[i]) continue;
        grads[i] = an_mul(grads[i], an_cast(scale, an_tensor_dtype(grads[i])));
        if (!grads[i]) return NULL;
    }
    return norm;
}

an_tensor *an_clip_grad_norm(an_tensor **grads, size_t n, double max_norm)
{
    an_graph *g = NULL;
    for (size_t i = 0; i < n && !g; i++) g = an_tensor_graph(grads[i]);
    if (!g) return NULL;
    if (!(max_norm > 0.0)) {
        an_fail(an_graph_ctx(g), AN_ERR_ARG, "an_clip_grad_norm: the norm allowed is %g; it must be above 0", max_norm);
        return NULL;
    }
    const an_phase phase = an_graph_set_phase(g, AN_PHASE_UPDATE);
    an_tensor *norm = clip(grads, n, max_norm);
    an_graph_set_phase(g, phase);
    return norm;
}
