/* update.c - the graph of an optimiser's step: reads gradients, parameters and state and writes the latter two in place.
 *
 * Numbers that change (the learning rate, the count of steps) are in buffers of rank 0. What Adam makes of them is computed
 * once a step into buffers, not once an element. Where a run may leave parameters alone (gradients still being summed up, or
 * not finite under a loss scale), every write keeps what was there unless `apply` is true. */
#include "nn/optim.h"

#include "base/base.h"

#include <math.h>

enum { NSTATE = AN_OPTIM_NSTATE };

/* What all parameters share in a step, rank 0. */
typedef struct shared {
    an_tensor *apply; /* bool: this run changes parameters; NULL: each does */
    an_tensor *lr;
    an_tensor *is_first;  /* SGD with dampening: no step was done yet */
    an_tensor *step_size; /* Adam: lr / (1 - beta1^t) */
    an_tensor *root;      /* Adam: sqrt(1 - beta2^t) */
    an_tensor *is_start;  /* averages: there is nothing to average with yet */
} shared;

/* target = apply ? value : target. */
static an_status put(const shared *s, an_tensor *target, an_tensor *value)
{
    return an_assign(target, s->apply ? an_where(s->apply, value, target) : value);
}

/* 1 - beta^t without cancellation. */
static an_tensor *one_minus_power(double beta, an_tensor *t)
{
    return an_neg(an_expm1(an_mul_scalar(t, log(beta))));
}

/* a + (b - a) (1 - cos(pi r)) / 2: half a wave from a to b. */
static an_tensor *wave(an_tensor *r, an_tensor *a, an_tensor *b)
{
    an_tensor *part = an_mul_scalar(an_rsub_scalar(an_cos(an_mul_scalar(r, 3.14159265358979323846)), 1.0), 0.5);
    return an_add(a, an_mul(an_sub(b, a), part));
}

/* What the learning rate is multiplied with at step s, of 0, 1, ...: nanoGPT's warmup, then down to the end; or PyTorch's
 * OneCycleLR. */
static an_tensor *schedule_factor(const an_optim *o, an_tensor *s)
{
    an_tensor *warmup = an_pick(o->schedule_numbers, 0, 0), *total = an_pick(o->schedule_numbers, 0, 1);
    an_tensor *end = an_pick(o->schedule_numbers, 0, 2), *one = an_ones_like(end);
    an_tensor *rising = NULL, *falling = NULL;
    if (o->schedule == AN_LR_ONE_CYCLE) {
        an_tensor *unset = an_sub_scalar(an_mul_scalar(total, 0.3), 1.0);
        warmup = an_where(an_gt_scalar(warmup, 0.0), warmup, unset);
        total = an_sub_scalar(total, 1.0);
        rising = wave(an_div(s, an_maximum_scalar(warmup, 1.0)), an_mul_scalar(one, 1.0 / 25.0), one);
    } else {
        rising = an_div(an_add_scalar(s, 1.0), an_add_scalar(warmup, 1.0));
    }
    an_tensor *r = an_clamp(an_div(an_sub(s, warmup), an_maximum_scalar(an_sub(total, warmup), 1.0)), 0.0, 1.0);
    if (o->schedule == AN_LR_CONSTANT)
        falling = one;
    else if (o->schedule == AN_LR_LINEAR)
        falling = an_add(one, an_mul(an_sub(end, one), r));
    else
        falling = wave(r, one, end);
    return an_where(an_lt(s, warmup), rising, falling);
}

static an_status begin_step(an_optim *o, shared *s)
{
    s->lr = o->lr;
    if (o->schedule_numbers) {
        an_tensor *factor = schedule_factor(o, an_cast(o->step, AN_F32));
        s->lr = o->rate = an_contiguous(an_mul(o->lr, factor));
    }
    if (!o->step) return AN_OK;
    if (o->averages) s->is_start = an_eq_scalar(o->step, 0.0);
    if (o->kind == AN_OPTIM_SGD) {
        if (o->sgd.momentum != 0.0 && o->sgd.dampening != 0.0) s->is_first = an_eq_scalar(o->step, 0.0);
    } else {
        an_tensor *t = an_cast(an_add_scalar(o->step, 1.0), an_tensor_dtype(o->lr));
        s->step_size = an_contiguous(an_div(s->lr, one_minus_power(o->adam.beta1, t)));
        s->root = an_contiguous(an_sqrt(one_minus_power(o->adam.beta2, t)));
    }
    return put(s, o->step, an_add_scalar(o->step, 1.0));
}

static an_status sgd_update(an_optim *o, const shared *s, size_t i, an_tensor *grad, an_tensor **state)
{
    an_tensor *p = o->params.items[i].tensor;
    const an_sgd_desc *c = &o->sgd;
    an_tensor *d = grad;
    if (o->decay[i] != 0.0) d = an_add(d, an_mul_scalar(p, o->decay[i]));
    if (c->momentum != 0.0) {
        an_tensor *m = an_add(an_mul_scalar(state[0], c->momentum), an_mul_scalar(d, 1.0 - c->dampening));
        if (s->is_first) m = an_where(s->is_first, d, m);
        const an_status st = put(s, state[0], m);
        if (st) return st;
        d = c->nesterov ? an_add(d, an_mul_scalar(m, c->momentum)) : m;
    }
    if (o->lr_scale[i] != 1.0) d = an_mul_scalar(d, o->lr_scale[i]);
    return put(s, p, an_sub(p, an_mul(an_cast(s->lr, an_tensor_dtype(p)), d)));
}

static an_status adam_update(an_optim *o, const shared *s, size_t i, an_tensor *grad, an_tensor **state)
{
    an_tensor *p = o->params.items[i].tensor;
    const double decay = o->decay[i], scale = o->lr_scale[i];
    const an_adam_desc *c = &o->adam;
    const an_dtype dtype = an_tensor_dtype(p);
    an_tensor *g = grad, *base = p;
    if (decay != 0.0 && o->kind == AN_OPTIM_ADAM) g = an_add(g, an_mul_scalar(p, decay));
    if (decay != 0.0 && o->kind == AN_OPTIM_ADAMW)
        base = an_mul(p, an_cast(an_rsub_scalar(an_mul_scalar(s->lr, decay * scale), 1.0), dtype));
    an_tensor *m = an_add(an_mul_scalar(state[0], c->beta1), an_mul_scalar(g, 1.0 - c->beta1));
    an_tensor *v = an_add(an_mul_scalar(state[1], c->beta2), an_mul_scalar(an_square(g), 1.0 - c->beta2));
    an_tensor *over = v;
    if (c->amsgrad) over = an_maximum(state[2], v);
    an_status st = put(s, state[0], m);
    if (!st) st = put(s, state[1], v);
    if (!st && c->amsgrad) st = put(s, state[2], over);
    if (st) return st;
    an_tensor *denominator = an_add_scalar(an_div(an_sqrt(over), an_cast(s->root, dtype)), c->eps);
    an_tensor *change = an_mul(an_cast(s->step_size, dtype), an_div(m, denominator));
    if (scale != 1.0) change = an_mul_scalar(change, scale);
    return put(s, p, an_sub(base, change));
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

/* Parameter i's moving average, after its update: the handle stands for the new value. */
static an_status average(an_optim *o, const shared *s, size_t i)
{
    an_tensor *p = o->params.items[i].tensor, *a = o->averages[i];
    an_tensor *mixed = an_add(an_mul_scalar(a, o->ema), an_mul_scalar(p, 1.0 - o->ema));
    return put(s, a, an_where(s->is_start, p, mixed));
}

static an_status update_all(an_optim *o, an_tensor *apply, an_tensor *const *grads)
{
    shared s = {.apply = apply};
    an_status st = begin_step(o, &s);
    for (size_t i = 0; i < o->params.n && !st; i++) {
        if (!grads[i]) continue;
        an_tensor *grad = an_cast(grads[i], an_tensor_dtype(o->params.items[i].tensor));
        an_tensor **state = o->state + i * NSTATE;
        st = o->kind == AN_OPTIM_SGD ? sgd_update(o, &s, i, grad, state) : adam_update(o, &s, i, grad, state);
        if (!st && o->averages) st = average(o, &s, i);
        o->written[i] = true;
    }
    o->is_stepped = true;
    return st;
}

/* Are all numbers of all gradients finite? Each one times 0 is 0 or NaN. */
static an_tensor *all_finite(an_tensor *const *grads, size_t n)
{
    an_tensor *total = NULL;
    for (size_t i = 0; i < n; i++) {
        if (!grads[i]) continue;
        an_tensor *sum = an_cast(an_sum(an_mul_scalar(grads[i], 0.0), AN_ALL, false), AN_F32);
        total = total ? an_add(total, sum) : sum;
    }
    return an_contiguous(an_eq_scalar(total, 0.0));
}

/* Sums gradients up over o->accumulate runs; *apply becomes true in the last of them. */
static an_status accumulate(an_optim *o, an_tensor **grads, an_tensor **apply)
{
    an_tensor *is_first = an_eq_scalar(o->micro, 0.0), *next = an_add_scalar(o->micro, 1.0);
    *apply = an_contiguous(an_eq_scalar(next, (double)o->accumulate));
    an_status st = AN_OK;
    for (size_t i = 0; i < o->params.n && !st; i++) {
        if (!grads[i]) continue;
        an_tensor *sum = an_where(is_first, grads[i], an_add(o->sums[i], grads[i]));
        st = an_assign(o->sums[i], sum);
        grads[i] = sum;
    }
    if (!st) st = an_assign(o->micro, an_mod_scalar(next, (double)o->accumulate));
    return st;
}

/* Doubles the scale after growth_interval good steps, halves it after a bad one; *apply becomes false then. */
static an_status adjust_scale(an_optim *o, an_tensor *const *grads, an_tensor **apply)
{
    an_tensor *finite = all_finite(grads, o->params.n), *next = an_add_scalar(o->good, 1.0);
    an_tensor *is_due = an_ge_scalar(next, (double)o->growth_interval), *zero = an_zeros_like(o->good);
    an_tensor *grown = an_where(is_due, an_mul_scalar(o->scale, 2.0), o->scale);
    const shared s = {.apply = *apply};
    an_tensor *scale = an_where(finite, grown, an_mul_scalar(o->scale, 0.5));
    an_tensor *good = an_where(an_logical_and(finite, an_logical_not(is_due)), next, zero);
    an_status st = put(&s, o->scale, scale);
    if (!st) st = put(&s, o->good, good);
    *apply = *apply ? an_logical_and(*apply, finite) : finite;
    return st;
}

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

/* The step from gradients of the loss as it is (scaled is false) or as an_optim_minimize scaled it. Replaces grads. */
static an_status step(an_optim *o, an_tensor **grads, an_tensor *unscale)
{
    an_tensor *apply = NULL;
    an_status st = AN_OK;
    for (size_t i = 0; i < o->params.n; i++) {
        if (!grads[i]) continue;
        const an_dtype d = an_tensor_dtype(o->params.items[i].tensor);
        grads[i] = an_cast(grads[i], d);
        if (unscale) grads[i] = an_mul(grads[i], an_cast(unscale, d));
        if (!grads[i]) return AN_ERR_ARG;
    }
    if (o->accumulate > 1) st = accumulate(o, grads, &apply);
    if (!st && o->scale) st = adjust_scale(o, grads, &apply);
    if (!st && o->max_norm > 0.0 && !clip(grads, o->params.n, o->max_norm)) st = AN_ERR_ARG;
    return st ? st : update_all(o, apply, grads);
}

an_status an_optim_step(an_optim *o, an_tensor *const *grads)
{
    if (!o || !grads) return AN_ERR_ARG;
    an_ctx *ctx = an_graph_ctx(o->graph);
    an_status st = check_grads(o, grads);
    if (st) return st;
    const size_t nbytes = o->params.n * sizeof(an_tensor *);
    an_tensor **own = an_mem_alloc(ctx, nbytes);
    if (!own) return AN_ERR_NOMEM;
    memcpy(own, grads, nbytes);
    const an_phase phase = an_graph_set_phase(o->graph, AN_PHASE_UPDATE);
    st = step(o, own, NULL);
    an_graph_set_phase(o->graph, phase);
    an_mem_free(ctx, own, nbytes);
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
    an_tensor *unscale = NULL;
    if (o->accumulate > 1) loss = an_mul_scalar(loss, 1.0 / (double)o->accumulate);
    if (o->scale) {
        loss = an_mul(loss, an_cast(o->scale, an_tensor_dtype(loss)));
        unscale = an_contiguous(an_reciprocal(o->scale));
    }
    an_status st = loss ? an_backward(loss, tensors, n, tensors + n) : AN_ERR_ARG;
    if (!st) {
        const an_phase phase = an_graph_set_phase(o->graph, AN_PHASE_UPDATE);
        st = step(o, tensors + n, unscale);
        an_graph_set_phase(o->graph, phase);
    }
    an_mem_free(ctx, tensors, nbytes);
    return first_cause(o, st);
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
