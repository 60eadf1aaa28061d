/* split.c - one SINK a kernel: pointers become slots, ranges are renumbered from 0, so equal kernels are the same node. */
#include "schedule/sched.h"

/* A symbol by its name, as far as that can stand in a name of code; an expression as n. */
static void put_bound(an_str *out, const an_graph *g, an_uop bound)
{
    const char *name = an_uop_op(g, bound) == AN_OP_VAR ? an_uop_name(g, bound) : "n";
    for (int i = 0; name[i] && i < 12; i++) {
        const bool plain = (name[i] >= 'a' && name[i] <= 'z') || (name[i] >= 'A' && name[i] <= 'Z') || (name[i] >= '0' && name[i] <= '9');
        an_str_putc(out, plain ? name[i] : '_');
    }
}

static const char *name_of(an_sched *s, const an_kern *k, const an_uop_vec *reduce)
{
    an_str text;
    an_str_init(&text, s->ctx);
    an_str_put(&text, k->has_reduce ? "reduce" : "elem");
    for (int part = 0; part < 2; part++) {
        const an_uop_vec *ranges = part ? reduce : &k->loops;
        for (size_t i = 0; i < ranges->len; i++) {
            int64_t n = 0;
            an_str_put(&text, i ? "x" : part ? "_r" : "_");
            if (an_uop_int(s->g, an_uop_src(s->g, ranges->data[i], 0), &n))
                an_str_printf(&text, "%lld", (long long)n);
            else
                put_bound(&text, s->g, an_uop_src(s->g, ranges->data[i], 0));
        }
    }
    if (text.len > 60) text.len = 60; /* a name, not a description */
    char *copy = an_graph_alloc(s->g, text.len + 1);
    if (copy) memcpy(copy, an_str_cstr(&text), text.len);
    an_str_fini(&text);
    return copy;
}

static int slot_of(const an_call *c, an_uop base)
{
    for (uint32_t i = 0; i < c->nbuffers; i++)
        if (an_uop_eq(c->buffers[i], base)) return (int)i;
    return -1;
}

static an_status add_slot(an_sched *s, an_call *c, an_uop ptr, bool write, an_uop_vec *from, an_uop_vec *to)
{
    const an_uop base = an_ptr_base(s->g, ptr);
    int slot = slot_of(c, base);
    if (slot < 0) {
        if (c->nbuffers == AN_KERNEL_PARAM_MAX)
            return an_fail(s->ctx, AN_ERR_LIMIT, "a kernel uses more than %d buffers; realize parts of the graph first",
                           AN_KERNEL_PARAM_MAX);
        slot = (int)c->nbuffers++;
        c->buffers[slot] = base;
    }
    bool *noted = write ? &c->is_written[slot] : &c->is_read[slot];
    if (!*noted) /* each buffer counts once in each direction */
        *(write ? &c->nbytes_written : &c->nbytes_read) +=
            an_numel(s, an_uop_shape(s->g, base)) * (double)an_dtype_nbytes(an_uop_dtype(s->g, base));
    *noted = true;
    if (an_vec_has(from, ptr)) return AN_OK;
    const an_uop param = an_param(s->g, an_uop_dtype(s->g, base), (uint32_t)slot);
    return an_vec_push(s->ctx, from, ptr) && an_vec_push(s->ctx, to, param) ? AN_OK : AN_ERR_NOMEM;
}

static an_uop renumbered(an_sched *s, an_uop range, uint32_t id)
{
    return an_range(s->g, an_uop_src(s->g, range, 0), id, an_range_kind_of(an_uop_arg(s->g, range)));
}

static an_status split_one(an_sched *s, const an_kern *k, an_call *out)
{
    an_uop_vec order = {0}, from = {0}, to = {0}, stores = {0}, reduce = {0};
    an_call c = {.reason = k->reason, .phase = (an_phase)an_node_of(s->g, k->node)->phase};
    an_status st = AN_OK;
    for (size_t i = 0; i < k->writes.len && !st; i++) st = add_slot(s, &c, k->writes.data[i], true, &from, &to);
    for (size_t i = 0; i < k->reads.len && !st; i++) st = add_slot(s, &c, k->reads.data[i], false, &from, &to);
    if (!st) st = an_toposort(s->g, k->stores.data, (uint32_t)k->stores.len, &order);
    if (st) goto done;
    st = AN_ERR_NOMEM;
    uint32_t id = 0;
    for (size_t i = 0; i < k->loops.len; i++) {
        const an_uop r = k->loops.data[i];
        if (!an_vec_push(s->ctx, &from, r) || !an_vec_push(s->ctx, &to, renumbered(s, r, id++)))
            goto done;
    }
    for (size_t i = 0; i < order.len; i++) { /* reduce ranges in the order of the expressions */
        const an_uop u = order.data[i];
        if (an_uop_op(s->g, u) != AN_OP_REDUCE) continue;
        for (uint32_t r = 1; r < an_uop_nsrc(s->g, u); r++) {
            const an_uop range = an_uop_src(s->g, u, r);
            if (an_vec_has(&reduce, range)) continue;
            const an_uop fresh = an_range(s->g, an_uop_src(s->g, range, 0), id++, AN_RANGE_REDUCE);
            if (!an_vec_push(s->ctx, &reduce, range) || !an_vec_push(s->ctx, &from, range) || !an_vec_push(s->ctx, &to, fresh))
                goto done;
        }
    }
    for (size_t i = 0; i < k->stores.len; i++)
        if (!an_vec_push(s->ctx, &stores, k->stores.data[i])) goto done;
    st = an_substitute_many(s->g, stores.data, stores.len, from.data, to.data, from.len);
    if (st) goto done;
    c.sink = an_sink(s->g, stores.data, (uint32_t)stores.len);
    c.name = name_of(s, k, &reduce);
    c.flops = an_stores_ops(s, &stores, false);
    st = an_uop_is_none(c.sink) || !c.name ? AN_ERR_NOMEM : AN_OK;
    if (!st) *out = c;
done:
    an_vec_fini(s->ctx, &order);
    an_vec_fini(s->ctx, &from);
    an_vec_fini(s->ctx, &to);
    an_vec_fini(s->ctx, &stores);
    an_vec_fini(s->ctx, &reduce);
    return st;
}

an_status an_sched_split(an_sched *s, const an_entry_vec *order, an_schedule *out)
{
    an_idmap first = {0}; /* kernel -> 1 + its first call */
    an_status st = AN_OK;
    for (size_t i = 0; i < order->len && !st; i++) {
        const an_entry e = order->data[i];
        const uint32_t known = an_idmap_get(&first, e.kernel);
        st = an_vec_reserve(s->ctx, &out->calls, 1) && (known || an_idmap_set(&first, s->ctx, e.kernel, (uint32_t)i + 1)) ? AN_OK : AN_ERR_NOMEM;
        if (st) break;
        an_call *call = &out->calls.data[i];
        if (known)
            *call = out->calls.data[known - 1];
        else
            st = split_one(s, &s->kernels.data[e.kernel], call);
        if (st) break;
        call->band = e.band;
        out->calls.len++;
    }
    an_idmap_fini(&first, s->ctx);
    return st;
}
