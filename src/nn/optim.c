/* optim.c - optimisers: making one, what it is told before its first step, and the lists of what it holds. The step is in
 * update.c. */
#include "nn/optim.h"

#include "base/base.h"

#include <math.h>

enum { NSTATE = AN_OPTIM_NSTATE };
static const char *const state_names[][NSTATE] = {
    [AN_OPTIM_SGD] = {"momentum_buffer"},
    [AN_OPTIM_ADAM] = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"},
    [AN_OPTIM_ADAMW] = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"},
};

/* --- making one ---------------------------------------------------------------------------------- */

an_tensor *an_optim_zeros(an_tensor *x, an_dtype dtype)
{
    int64_t dims[16] = {0};
    const uint32_t rank = an_tensor_rank(x);
    for (uint32_t i = 0; i < rank && i < 16; i++) dims[i] = an_tensor_dim(x, (int)i);
    return an_tensor_from_host(an_tensor_graph(x), dtype, dims, rank, NULL);
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

static bool need_step(an_optim *o)
{
    if (!o->step) o->step = an_tensor_from_host(o->graph, AN_I32, AN_SCALAR, NULL);
    return o->step != NULL;
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
    o->decay = an_graph_alloc(g, params.n * sizeof *o->decay);
    o->lr_scale = an_graph_alloc(g, params.n * sizeof *o->lr_scale);
    if (!o->state || !o->written || !o->decay || !o->lr_scale) return NULL;
    o->accumulate = 1;
    for (size_t i = 0; i < params.n; i++) {
        o->decay[i] = o->kind == AN_OPTIM_SGD ? o->sgd.weight_decay : o->adam.weight_decay;
        o->lr_scale[i] = 1.0;
    }
    an_dtype scalar = AN_F32; /* of the learning rate */
    for (size_t i = 0; i < params.n; i++) {
        if (an_tensor_dtype(params.items[i].tensor) == AN_F64) scalar = AN_F64;
        for (size_t k = 0; k < nstate; k++) {
            an_tensor *zeros = an_optim_zeros(params.items[i].tensor, an_tensor_dtype(params.items[i].tensor));
            if (!zeros) return NULL;
            o->state[i * NSTATE + k] = zeros;
        }
    }
    if (has_step && !need_step(o)) return NULL;
    unsigned char bytes[8] = {0};
    an_scalar_store(scalar, (an_scalar){.f = o->lr_value}, bytes);
    o->lr = an_tensor_from_host(g, scalar, AN_SCALAR, bytes); /* not a write: what was built before stays current */
    return o->lr ? o : NULL;
}

an_optim *an_optim_sgd(an_params params, const an_sgd_desc *desc)
{
    an_optim o = {.kind = AN_OPTIM_SGD};
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

static an_optim *adam(const char *call, an_optim_kind which, an_params params, const an_adam_desc *desc)
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
    return adam("an_optim_adam", AN_OPTIM_ADAM, params, desc);
}

an_optim *an_optim_adamw(an_params params, const an_adam_desc *desc)
{
    return adam("an_optim_adamw", AN_OPTIM_ADAMW, params, desc);
}

/* --- what is told before the first step --------------------------------------------------------------- */

static an_status too_late(const an_optim *o, const char *call)
{
    if (!o->is_stepped) return AN_OK;
    return an_fail(an_graph_ctx(o->graph), AN_ERR_ARG, "%s: a step was built already; say this before", call);
}

bool an_parameter_is_vector(const an_parameter *p, void *user)
{
    (void)user;
    return an_tensor_rank(p->tensor) < 2;
}

an_status an_optim_group(an_optim *o, const an_param_group *group)
{
    if (!o || !group || !group->has) return AN_ERR_ARG;
    const double scale = group->lr_scale != 0.0 ? group->lr_scale : 1.0;
    const an_status st = too_late(o, "an_optim_group");
    if (st) return st;
    if (!check_number(o->graph, "an_optim_group", "lr_scale", scale, 0.0, HUGE_VAL) ||
        !check_number(o->graph, "an_optim_group", "weight_decay", group->weight_decay, 0.0, HUGE_VAL))
        return AN_ERR_ARG;
    for (size_t i = 0; i < o->params.n; i++) {
        if (!group->has(&o->params.items[i], group->user)) continue;
        o->lr_scale[i] = scale;
        o->decay[i] = group->weight_decay;
    }
    return AN_OK;
}

an_status an_optim_clip(an_optim *o, double max_norm)
{
    if (!o) return AN_ERR_ARG;
    const an_status st = too_late(o, "an_optim_clip");
    if (st) return st;
    if (!check_number(o->graph, "an_optim_clip", "max_norm", max_norm, 0.0, HUGE_VAL)) return AN_ERR_ARG;
    o->max_norm = max_norm;
    return AN_OK;
}

static void schedule_numbers(const an_optim *o, double warmup, double total, float out[3])
{
    out[0] = (float)warmup;
    out[1] = (float)total;
    out[2] = (float)(o->lr_value > 0.0 ? o->schedule_end / o->lr_value : 0.0);
}

an_status an_optim_schedule(an_optim *o, const an_lr_schedule *s)
{
    if (!o || !s) return AN_ERR_ARG;
    float numbers[3];
    const an_status st = too_late(o, "an_optim_schedule");
    if (st) return st;
    if (!check_number(o->graph, "an_optim_schedule", "warmup", s->warmup, 0.0, HUGE_VAL) ||
        !check_number(o->graph, "an_optim_schedule", "total", s->total, 0.0, HUGE_VAL) ||
        !check_number(o->graph, "an_optim_schedule", "lr_end", s->lr_end, 0.0, HUGE_VAL))
        return AN_ERR_ARG;
    o->schedule = s->kind;
    o->schedule_end = s->lr_end;
    schedule_numbers(o, s->warmup, s->total, numbers);
    o->schedule_numbers = an_tensor_from_host(o->graph, AN_F32, AN_DIMS(3), numbers);
    return o->schedule_numbers && need_step(o) ? AN_OK : AN_ERR_NOMEM;
}

an_status an_optim_set_total(an_optim *o, double warmup, double total)
{
    if (!o) return AN_ERR_ARG;
    float numbers[3];
    if (!o->schedule_numbers) return AN_OK;
    if (!check_number(o->graph, "an_optim_set_total", "warmup", warmup, 0.0, HUGE_VAL) ||
        !check_number(o->graph, "an_optim_set_total", "total", total, 0.0, HUGE_VAL))
        return AN_ERR_ARG;
    schedule_numbers(o, warmup, total, numbers);
    return an_tensor_write(o->schedule_numbers, numbers, sizeof numbers);
}

an_tensor *an_optim_rate(an_optim *o)
{
    return !o ? NULL : o->rate ? o->rate : o->lr;
}

/* A tensor of zeros for each parameter. */
static an_tensor **for_each(an_optim *o)
{
    an_tensor **list = an_graph_alloc(o->graph, o->params.n * sizeof(an_tensor *));
    for (size_t i = 0; list && i < o->params.n; i++) {
        list[i] = an_optim_zeros(o->params.items[i].tensor, an_tensor_dtype(o->params.items[i].tensor));
        if (!list[i]) return NULL;
    }
    return list;
}

an_status an_optim_accumulate(an_optim *o, int64_t n)
{
    if (!o) return AN_ERR_ARG;
    const an_status st = too_late(o, "an_optim_accumulate");
    if (st) return st;
    if (!check_number(o->graph, "an_optim_accumulate", "n", (double)n, 1.0, 1e9)) return AN_ERR_ARG;
    o->accumulate = n;
    if (n == 1) return AN_OK;
    o->micro = an_tensor_from_host(o->graph, AN_I32, AN_SCALAR, NULL);
    o->sums = for_each(o);
    return o->micro && o->sums ? AN_OK : AN_ERR_NOMEM;
}

an_status an_optim_scale_loss(an_optim *o, double scale, int64_t growth_interval)
{
    if (!o) return AN_ERR_ARG;
    const float start = (float)(scale != 0.0 ? scale : 65536.0);
    const an_status st = too_late(o, "an_optim_scale_loss");
    if (st) return st;
    if (!check_number(o->graph, "an_optim_scale_loss", "scale", (double)start, 1e-30, 1e30)) return AN_ERR_ARG;
    o->growth_interval = growth_interval > 0 ? growth_interval : 2000;
    o->scale = an_tensor_from_host(o->graph, AN_F32, AN_SCALAR, &start);
    o->good = an_tensor_from_host(o->graph, AN_I32, AN_SCALAR, NULL);
    return o->scale && o->good ? AN_OK : AN_ERR_NOMEM;
}

an_status an_optim_average(an_optim *o, double decay)
{
    if (!o) return AN_ERR_ARG;
    const an_status st = too_late(o, "an_optim_average");
    if (st) return st;
    if (!check_number(o->graph, "an_optim_average", "decay", decay, 0.0, 1.0)) return AN_ERR_ARG;
    o->ema = decay;
    o->averages = for_each(o);
    return o->averages && need_step(o) ? AN_OK : AN_ERR_NOMEM;
}

an_tensor *an_optim_averaged(an_optim *o, size_t i)
{
    return o && o->averages && i < o->params.n ? o->averages[i] : NULL;
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

/* Appends what every written (or every) parameter has of one kind. */
static bool append(an_optim *o, bool writes, an_tensor **tensors, size_t stride, const char *kind, an_parameter *items, size_t *len)
{
    for (size_t i = 0; tensors && i < o->params.n; i++) {
        if ((writes && !o->written[i]) || !tensors[i * stride]) continue;
        const char *name = joined(o->graph, kind, o->params.items[i].name);
        if (!name) return false;
        items[(*len)++] = (an_parameter){name, tensors[i * stride]};
    }
    return true;
}

static an_params list(an_optim *o, bool writes)
{
    const an_params none = {0};
    if (!o) return none;
    const size_t n = o->params.n;
    an_parameter *items = an_graph_alloc(o->graph, (n * (NSTATE + 3) + 6) * sizeof *items);
    if (!items) return none;
    size_t len = 0;
    for (size_t i = 0; i < n && writes; i++)
        if (o->written[i]) items[len++] = o->params.items[i];
    for (size_t k = 0; k < NSTATE; k++)
        if (!append(o, writes, o->state + k, NSTATE, state_names[o->kind][k], items, &len)) return none;
    if (!append(o, writes, o->sums, 1, "grad", items, &len)) return none;
    if (!append(o, writes, o->averages, 1, "ema", items, &len)) return none;
    const an_parameter numbers[] = {{"step", o->step}, {"micro_step", o->micro}, {"scale", o->scale}, {"good_steps", o->good}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].tensor) items[len++] = numbers[i];
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
