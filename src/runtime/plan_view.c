/* plan_view.c - symbols of a plan, and looking inside it. */
#include "runtime/plan.h"

#include "codegen/codegen.h"

static const char *const phases[] = {"forward", "backward", "update", "tangent"};

/* The symbols that kernels use, gathered on first use. */
static an_status gather_symbols(an_plan *p)
{
    an_ctx *ctx = an_graph_ctx(p->user);
    if (p->symbols.len) return AN_OK;
    for (size_t c = 0; c < p->ncalls; c++) {
        const an_kernel *k = &p->kernels[c]->kernel;
        for (uint32_t v = 0; v < k->nvars; v++) {
            an_symbol_value s = {.name = an_uop_name(k->graph, k->vars[v])};
            bool known = false;
            for (size_t i = 0; i < p->symbols.len && !known; i++) known = strcmp(p->symbols.data[i].name, s.name) == 0;
            if (known) continue;
            an_uop_int(k->graph, an_uop_src(k->graph, k->vars[v], 0), &s.min);
            an_uop_int(k->graph, an_uop_src(k->graph, k->vars[v], 1), &s.max);
            if (!an_vec_push(ctx, &p->symbols, s)) return AN_ERR_NOMEM;
        }
    }
    return AN_OK;
}

static an_symbol_value *find_symbol(an_plan *p, const char *name)
{
    for (size_t i = 0; i < p->symbols.len; i++)
        if (strcmp(p->symbols.data[i].name, name) == 0) return &p->symbols.data[i];
    return NULL;
}

an_status an_plan_symbol(an_plan *p, const char *name, int64_t *value)
{
    const an_status st = gather_symbols(p);
    const an_symbol_value *s = st ? NULL : find_symbol(p, name);
    if (s && s->is_bound) {
        *value = s->value;
        return AN_OK;
    }
    return st ? st : an_fail(an_graph_ctx(p->user), AN_ERR_ARG, "the symbolic dimension '%s' has no value; bind it with an_plan_bind", name);
}

an_status an_plan_bind(an_plan *p, const char *name, int64_t value)
{
    const an_status st = gather_symbols(p);
    if (st) return st;
    an_symbol_value *s = find_symbol(p, name);
    if (!s) return an_fail(an_graph_ctx(p->user), AN_ERR_ARG, "the plan has no symbolic dimension '%s'", name);
    if (value < s->min || value > s->max)
        return an_fail(an_graph_ctx(p->user), AN_ERR_ARG, "%s = %lld is outside its bounds %lld..%lld", name, (long long)value,
                       (long long)s->min, (long long)s->max);
    s->value = value;
    s->is_bound = true;
    return AN_OK;
}

size_t an_plan_kernel_count(const an_plan *p)
{
    return p->ncalls;
}

an_kernel_info an_plan_kernel(const an_plan *p, size_t i)
{
    if (i >= p->ncalls) return (an_kernel_info){0};
    const an_call *c = &p->schedule.calls.data[i];
    return (an_kernel_info){.name = c->name,
                            .phase = phases[c->phase],
                            .reason = c->reason,
                            .flops = c->flops,
                            .nbytes_read = c->nbytes_read,
                            .nbytes_written = c->nbytes_written,
                            .nbuffers = c->nbuffers,
                            .reused = p->reused[i],
                            .key_lo = p->kernels[i]->key.lo,
                            .key_hi = p->kernels[i]->key.hi};
}

an_status an_plan_kernel_print(an_plan *p, size_t i, an_kernel_text what, void (*put)(void *user, const char *text), void *user)
{
    an_ctx *ctx = an_graph_ctx(p->user);
    if (i >= p->ncalls) return an_fail(ctx, AN_ERR_ARG, "the plan has %zu kernels, there is no kernel %zu", p->ncalls, i);
    const an_cached_kernel *k = p->kernels[i];
    if (what == AN_KERNEL_SOURCE)
        return ((const an_device_base *)p->device)->backend->source(p->device, &k->kernel, put, user);
    an_str text;
    an_str_init(&text, ctx);
    const an_status st = what == AN_KERNEL_LINEAR ? an_linear_print(&text, k->graph, k->linear.data, k->linear.len)
                                                  : an_graph_print(&text, k->graph, &k->kernel.sink, 1);
    if (!st) put(user, an_str_cstr(&text));
    an_str_fini(&text);
    return st;
}

size_t an_plan_nbytes_unplanned(const an_plan *p)
{
    return p->nbytes_unplanned;
}

size_t an_plan_nbytes(const an_plan *p)
{
    return p->nbytes;
}

an_plan_times an_plan_time(const an_plan *p)
{
    return p->times;
}
