/* plan_view.c - looking inside a plan. */
#include "runtime/plan.h"

#include "codegen/codegen.h"

static const char *const phases[] = {"forward", "backward", "update", "tangent"};

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
    an_cached_kernel *k = p->kernels[i];
    an_status st = what == AN_KERNEL_DAG ? AN_OK : an_cached_kernel_lower(k, NULL);
    if (st) return st;
    if (what == AN_KERNEL_SOURCE)
        return ((const an_device_base *)p->device)->backend->source(p->device, &k->kernel, put, user);
    an_str text;
    an_str_init(&text, ctx);
    st = what == AN_KERNEL_LINEAR ? an_linear_print(&text, k->graph, k->linear.data, k->linear.len)
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

size_t an_plan_buffer_count(const an_plan *p)
{
    return p->temps.len + p->bound.len;
}

an_buffer_info an_plan_buffer(const an_plan *p, size_t i)
{
    if (i >= an_plan_buffer_count(p)) return (an_buffer_info){0};
    const bool is_temp = i < p->temps.len;
    const an_uop b = is_temp ? p->temps.data[i] : p->bound.data[i - p->temps.len].mine;
    an_buffer_info info = {.name = "", .dtype = an_uop_dtype(p->graph, b), .is_temporary = is_temp, .offset = is_temp ? p->offsets[i] : 0};
    (void)an_buffer_nbytes(p->graph, b, &info.nbytes); /* it was asked when the plan was made */
    bool used = false;
    for (size_t c = 0; c < p->ncalls; c++) {
        const an_call *call = &p->schedule.calls.data[c];
        for (uint32_t k = 0; k < call->nbuffers; k++) {
            if (!an_uop_eq(call->buffers[k], b)) continue;
            if (!used) info.first = c;
            used = true;
            info.last = c;
            if (call->is_written[k] && !info.is_written) info.name = call->name;
            info.is_written = info.is_written || call->is_written[k];
        }
    }
    return info;
}

an_plan_times an_plan_time(const an_plan *p)
{
    return p->times;
}
