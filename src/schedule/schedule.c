/* schedule.c - the scheduler's passes, in order. */
#include "schedule/sched.h"

void an_kern_fini(an_sched *s, an_kern *k)
{
    an_vec_fini(s->ctx, &k->loops);
    an_vec_fini(s->ctx, &k->stores);
    an_vec_fini(s->ctx, &k->reads);
    an_vec_fini(s->ctx, &k->writes);
}

static void sched_fini(an_sched *s)
{
    for (uint32_t i = 0; s->info && i < s->ninfo; i++) an_vec_fini(s->ctx, &s->info[i].contexts);
    an_mem_free(s->ctx, s->info, s->info_nbytes);
    for (size_t i = 0; i < s->kernels.len; i++) an_kern_fini(s, &s->kernels.data[i]);
    an_vec_fini(s->ctx, &s->kernels);
    an_vec_fini(s->ctx, &s->order);
    an_vec_fini(s->ctx, &s->range_owner);
    an_vec_fini(s->ctx, &s->range_kernel);
    an_vec_fini(s->ctx, &s->eval_counts);
    an_vec_fini(s->ctx, &s->ranges);
    an_idmap_fini(&s->ranges_at, s->ctx);
    an_pairmap_fini(&s->trial_evals, s->ctx);
    an_vec_fini(s->ctx, &s->outputs);
    an_bounds_memo_fini(&s->bounds);
    an_idmap_fini(&s->simplified, s->ctx);
    an_idmap_fini(&s->buffer_of, s->ctx);
    an_idmap_fini(&s->layout, s->ctx);
    an_idmap_fini(&s->outside, s->ctx);
    an_idmap_fini(&s->tight, s->ctx);
    an_idmap_fini(&s->banded, s->ctx);
    an_vec_fini(s->ctx, &s->aligned);
    an_pairmap_fini(&s->evals, s->ctx);
}

/* Two ASSIGNs of one buffer must form a chain, each on top of the other: else there is no saying which comes last. */
static an_status check_assigns(an_sched *s, an_schedule *out)
{
    an_idmap next = {0}; /* target (BUFFER or ASSIGN) -> the ASSIGN on top of it */
    an_status st = AN_OK;
    for (size_t i = 0; i < s->order.len && !st; i++) {
        const an_uop n = s->order.data[i];
        if (an_uop_op(s->g, n) != AN_OP_ASSIGN) continue;
        const an_uop target = an_uop_src(s->g, n, 0), base = an_ptr_base(s->g, target);
        if (an_uop_op(s->g, base) != AN_OP_BUFFER)
            st = an_fail(s->ctx, AN_ERR_ARG, "assign: the target is not a buffer; realize it first");
        else if (an_idmap_get(&next, target.id))
            st = an_fail(s->ctx, AN_ERR_ARG, "assign: one buffer is assigned twice from the same state, so which value it "
                                             "ends with is open; assign to the result of the first instead");
        else if (!an_idmap_set(&next, s->ctx, target.id, n.id) || !an_vec_push(s->ctx, &out->assigned, n) ||
                 !an_vec_push(s->ctx, &out->targets, base))
            st = AN_ERR_NOMEM;
    }
    an_idmap_fini(&next, s->ctx);
    return st;
}

/* Where each root is found after the calls. */
static an_status find_outputs(an_sched *s, const an_uop *roots, size_t nroots, an_uop_vec *outputs)
{
    outputs->len = 0;
    for (size_t i = 0; i < nroots; i++) {
        an_uop b = roots[i];
        if (an_uop_op(s->g, b) != AN_OP_BUFFER) b = an_ptr_base(s->g, (an_uop){an_idmap_get(&s->buffer_of, b.id)});
        if (!an_vec_push(s->ctx, outputs, b)) return AN_ERR_NOMEM;
    }
    return AN_OK;
}

/* Costs, bounds and index expressions are plain values: memory that ran out in one shows here, at the end of its pass. */
static an_status whole(an_sched *s, size_t failures, an_status st)
{
    return !st && an_mem_failures(s->ctx) != failures ? AN_ERR_NOMEM : st;
}

an_status an_schedule_make(an_graph *g, const an_uop *roots, size_t nroots, const an_cost *cost, an_trace *trace,
                           an_schedule *out)
{
    an_sched s = {.g = g, .ctx = an_graph_ctx(g), .cost = cost, .trace = trace};
    const size_t failures = an_mem_failures(s.ctx);
    uint32_t *order = NULL;
    size_t n = 0, norder = 0;
    an_entry_vec entries = {0};
    const an_status before = an_ctx_status(s.ctx);
    *out = (an_schedule){0};
    an_bounds_memo_init(&s.bounds, g);
    an_status st = an_toposort(g, roots, (uint32_t)nroots, &s.order);
    if (st) goto done;
    s.ninfo = an_graph_len(g);
    s.info = an_graph_table(g, sizeof *s.info, &s.info_nbytes);
    st = s.info ? check_assigns(&s, out) : AN_ERR_NOMEM;
    if (st) goto done;

    an_trace_pass_begin(trace, "fuse", g);
    st = whole(&s, failures, an_sched_fuse(&s, roots, nroots));
    an_trace_pass_end(trace);
    if (!st) st = find_outputs(&s, roots, nroots, &s.outputs);
    if (st) goto done;

    an_trace_pass_begin(trace, "layout", g);
    st = whole(&s, failures, an_sched_layout(&s));
    an_trace_pass_end(trace);
    if (st) goto done;

    an_trace_pass_begin(trace, "rangeify", g);
    st = whole(&s, failures, an_sched_build(&s));
    an_trace_pass_end(trace);
    if (st) goto done;

    an_trace_pass_begin(trace, "collapse", g);
    st = whole(&s, failures, an_sched_collapse(&s));
    an_trace_pass_end(trace);
    if (st) goto done;

    an_trace_pass_begin(trace, "align", g);
    st = whole(&s, failures, an_sched_align(&s));
    an_trace_pass_end(trace);
    if (st) goto done;

    an_trace_pass_begin(trace, "parts", g);
    st = whole(&s, failures, an_sched_parts(&s));
    if (!st) st = whole(&s, failures, an_sched_align(&s)); /* what is a product of its own now */
    an_trace_pass_end(trace);
    if (st) goto done;

    an_trace_pass_begin(trace, "merge", g);
    st = whole(&s, failures, an_sched_merge(&s));
    an_trace_pass_end(trace);
    if (st) goto done;

    an_trace_pass_begin(trace, "pack", g);
    st = whole(&s, failures, an_sched_pack(&s));
    an_trace_pass_end(trace);
    if (st) goto done;

    an_trace_pass_begin(trace, "order and bands", g);
    st = an_sched_order(&s, &order, &n);
    norder = s.kernels.len;
    if (!st) st = whole(&s, failures, an_sched_bands(&s, order, n, &entries));
    an_trace_pass_end(trace);
    if (st) goto done;

    an_trace_pass_begin(trace, "split", g);
    st = whole(&s, failures, an_sched_split(&s, &entries, out));
    an_trace_pass_end(trace);
    if (!st) st = find_outputs(&s, roots, nroots, &out->outputs);
    /* The cost model guesses on when memory is out; the call does not. */
    if (!st && before == AN_OK) st = an_ctx_status(s.ctx);
done:
    an_mem_free(s.ctx, order, norder * sizeof *order);
    an_vec_fini(s.ctx, &entries);
    sched_fini(&s);
    return st;
}

void an_schedule_fini(an_graph *g, an_schedule *s)
{
    an_ctx *ctx = an_graph_ctx(g);
    an_vec_fini(ctx, &s->calls);
    an_vec_fini(ctx, &s->outputs);
    an_vec_fini(ctx, &s->assigned);
    an_vec_fini(ctx, &s->targets);
}
