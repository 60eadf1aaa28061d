/* plan.c - plans: a schedule with its programs, its memory, and the buffers of the user's graph that it reads and writes. */
#include "runtime/plan.h"

static const an_backend *backend_of(const an_plan *p)
{
    return ((const an_device_base *)p->device)->backend;
}

/* --- copying what is to be computed into the plan's own graph ---------------------------------- */

typedef struct import {
    an_graph *from, *to;
    an_plan *plan;
    an_idmap buffer_of;   /* user's BUFFER -> the plan's */
    an_bound_vec *bound;
    bool failed;
} import;

static an_uop plan_buffer(import *im, an_uop user)
{
    const uint32_t known = an_idmap_get(&im->buffer_of, user.id);
    if (known) return (an_uop){known};
    const an_shape shape = an_uop_shape(im->from, user);
    an_uop dims[AN_RANK_MAX];
    for (uint32_t i = 0; i < shape.rank; i++) dims[i] = an_uop_import(im->to, im->from, shape.dims[i], NULL, NULL);
    const an_bound b = {an_buffer_node(im->to, an_uop_dtype(im->from, user), dims, shape.rank), user};
    im->failed = im->failed || an_uop_is_none(b.mine) ||
                 !an_idmap_set(&im->buffer_of, an_graph_ctx(im->to), user.id, b.mine.id) ||
                 !an_vec_push(an_graph_ctx(im->to), im->bound, b);
    return b.mine;
}

/* --- results of plans before ------------------------------------------------------------------- */

/* The latest write to a buffer that u reads. What comes of an ASSIGN is of that write: it does not change. */
static an_status latest_write(an_plan *p, an_uop u, uint64_t *latest)
{
    an_ctx *ctx = an_graph_ctx(p->user);
    an_uop_vec stack = {0};
    an_idmap seen = {0};
    an_status st = an_vec_push(ctx, &stack, u) ? AN_OK : AN_ERR_NOMEM;
    *latest = 0;
    while (stack.len && !st) {
        const an_uop x = stack.data[--stack.len];
        const an_op op = an_uop_op(p->user, x);
        if (op == AN_OP_ASSIGN || an_idmap_get(&seen, x.id)) continue;
        if (!an_idmap_set(&seen, ctx, x.id, 1)) st = AN_ERR_NOMEM;
        const an_storage *s = op == AN_OP_BUFFER ? an_storage_of(p->rt, x) : NULL;
        if (s && s->written > *latest) *latest = s->written;
        const uint32_t n = op == AN_OP_BUFFER ? 0 : an_op_has(op, AN_TRAIT_MOVE) ? 1 : an_uop_nsrc(p->user, x);
        for (uint32_t i = 0; i < n && !st; i++)
            if (!an_vec_push(ctx, &stack, an_uop_src(p->user, x, i))) st = AN_ERR_NOMEM;
    }
    an_idmap_fini(&seen, ctx);
    an_vec_fini(ctx, &stack);
    return st;
}

/* Does the result of u, computed before, still mean what u means to the tensors asked for? It does if nothing that u reads
 * was written since, or if they are all as old as it is. */
static an_status judge_done(an_plan *p, an_uop u)
{
    const uint32_t i = an_idmap_get(&p->rt->done_of, u.id);
    if (!i || an_idmap_get(&p->usable, u.id)) return AN_OK;
    const an_done d = p->rt->done.data[i - 1];
    uint64_t latest = 0;
    bool holds = an_uop_op(p->user, u) == AN_OP_ASSIGN || (p->oldest == d.read_at && p->newest == d.read_at);
    if (!holds) {
        const an_status st = latest_write(p, u, &latest);
        if (st) return st;
        holds = latest <= d.read_at;
    }
    return an_idmap_set(&p->usable, an_graph_ctx(p->user), u.id, holds ? 1 : 2) ? AN_OK : AN_ERR_NOMEM;
}

/* The result of u that a plan before computed, or NULL; judged already. */
static const an_done *done_for(const an_plan *p, an_uop u)
{
    if (an_idmap_get(&p->usable, u.id) != 1) return NULL;
    return &p->rt->done.data[an_idmap_get(&p->rt->done_of, u.id) - 1];
}

static an_uop import_node(void *user, an_uop u)
{
    import *im = user;
    const an_done *done = done_for(im->plan, u);
    if (done) return plan_buffer(im, done->buffer);
    if (an_uop_op(im->from, u) == AN_OP_BUFFER) return plan_buffer(im, u);
    return AN_UOP_NONE;
}

/* Every buffer that computing u would read still holds what it held at that epoch. Collects the ASSIGNs it would run. */
static an_status check_fresh(an_plan *p, an_uop root, uint64_t epoch, an_idmap *seen)
{
    an_graph *g = p->user;
    an_runtime *rt = p->rt;
    an_uop_vec *assigns = &p->assigns;
    an_ctx *ctx = an_graph_ctx(g);
    an_uop_vec stack = {0};
    an_status st = an_vec_push(ctx, &stack, root) ? AN_OK : AN_ERR_NOMEM;
    while (stack.len && !st) {
        const an_uop u = stack.data[--stack.len];
        if (an_idmap_get(seen, u.id)) continue;
        if (!an_idmap_set(seen, ctx, u.id, 1)) st = AN_ERR_NOMEM;
        if (!st) st = judge_done(p, u);
        if (st) break;
        const an_done *done = done_for(p, u);
        const an_op op = an_uop_op(g, u);
        if (done || op == AN_OP_BUFFER) {
            const an_uop b = done ? done->buffer : u;
            const uint64_t as_of = done ? done->epoch : epoch;
            const an_storage *s = an_storage_of(rt, b);
            if (!s) {
                st = an_fail(ctx, AN_ERR_INTERNAL, "plan: a buffer of the graph has no storage");
            } else if (s->written > as_of) {
                an_str shape;
                an_str_init(&shape, ctx);
                an_shape_print(&shape, g, an_uop_shape(g, b));
                st = an_fail(ctx, AN_ERR_STALE,
                             "a lazy tensor reads a buffer of shape %s that has been overwritten since the tensor was built; "
                             "realize it before the write, or build it again",
                             an_str_cstr(&shape));
                an_str_fini(&shape);
            }
            continue;
        }
        if (op == AN_OP_ASSIGN && !an_vec_has(assigns, u) && !an_vec_push(ctx, assigns, u)) st = AN_ERR_NOMEM;
        /* Dims are not read; the target of an ASSIGN is written, not read. */
        uint32_t first = 0, end = an_uop_nsrc(g, u);
        if (op == AN_OP_ASSIGN && an_uop_op(g, an_uop_src(g, u, 0)) == AN_OP_BUFFER) first = 1;
        if (an_op_has(op, AN_TRAIT_MOVE)) end = 1;
        if (op == AN_OP_ASSIGN) end = 2; /* its view says where */
        for (uint32_t i = first; i < end && !st; i++)
            if (!an_vec_push(ctx, &stack, an_uop_src(g, u, i))) st = AN_ERR_NOMEM;
    }
    an_vec_fini(ctx, &stack);
    return st;
}

/* --- making ------------------------------------------------------------------------------------ */

static an_status check_all(an_plan *p, const an_uop *uops, const uint64_t *epochs, size_t n)
{
    an_status st = AN_OK;
    an_ctx *ctx = an_graph_ctx(p->user);
    p->oldest = UINT64_MAX;
    for (size_t i = 0; i < n; i++) {
        if (epochs[i] < p->oldest) p->oldest = epochs[i];
        if (epochs[i] != UINT64_MAX && epochs[i] > p->newest) p->newest = epochs[i];
    }
    for (size_t i = 0; i < n && !st; i++) {
        if (an_uop_is_none(uops[i])) return an_fail(ctx, AN_ERR_ARG, "plan: tensor %zu is NULL", i);
        bool again = false; /* an earlier one of the same epoch: one walk for all of them */
        for (size_t k = 0; k < i && !again; k++) again = epochs[k] == epochs[i];
        if (again) continue;
        an_idmap seen = {0};
        for (size_t k = i; k < n && !st; k++)
            if (epochs[k] == epochs[i] && !an_uop_is_none(uops[k]) && an_uop_op(p->user, uops[k]) != AN_OP_BUFFER)
                st = check_fresh(p, uops[k], epochs[i], &seen);
        an_idmap_fini(&seen, ctx);
    }
    return st;
}

/* A buffer, or what is assigned to one. */
static bool has_place(const an_graph *g, an_uop u)
{
    return an_uop_op(g, u) == AN_OP_BUFFER || an_uop_op(g, u) == AN_OP_ASSIGN;
}

static an_status import_roots(an_plan *p, const an_uop *uops, size_t n, an_uop_vec *roots)
{
    an_ctx *ctx = an_graph_ctx(p->user);
    import im = {.from = p->user, .to = p->graph, .plan = p, .bound = &p->bound};
    an_status st = AN_ERR_NOMEM;
    const an_uop all = an_sink(p->user, uops, (uint32_t)n);
    const an_uop sink = an_uop_import(p->graph, p->user, all, import_node, &im);
    if (!an_uop_is_none(sink) && !im.failed) {
        st = AN_OK;
        for (size_t i = 0; i < n && !st; i++) {
            an_uop root = an_uop_src(p->graph, sink, (uint32_t)i);
            /* What an earlier plan computed is in a buffer that another handle may write into: a copy of it. */
            if (!has_place(p->user, uops[i]) && an_uop_op(p->graph, root) == AN_OP_BUFFER) root = an_uop_same(p->graph, root);
            if (an_uop_is_none(root) || !an_vec_push(ctx, roots, root)) st = AN_ERR_NOMEM;
        }
    }
    an_idmap_fini(&im.buffer_of, ctx);
    return st;
}

static an_uop bound_user(const an_plan *p, an_uop mine)
{
    for (size_t i = 0; i < p->bound.len; i++)
        if (an_uop_eq(p->bound.data[i].mine, mine)) return p->bound.data[i].user;
    return AN_UOP_NONE;
}

/* Buffers for the roots in the user's graph; the rest are temporaries, placed in the arena. */
static an_status place_buffers(an_plan *p, const an_uop *uops, size_t n)
{
    an_ctx *ctx = an_graph_ctx(p->user);
    an_status st = AN_OK;
    for (size_t i = 0; i < n; i++) {
        const an_uop mine = p->schedule.outputs.data[i];
        an_uop user = bound_user(p, mine);
        if (an_uop_is_none(user)) {
            const an_shape shape = an_uop_shape(p->user, uops[i]);
            user = an_buffer_node(p->user, an_uop_dtype(p->user, uops[i]), shape.dims, shape.rank);
            const an_bound b = {mine, user};
            if (an_uop_is_none(user) || !an_vec_push(ctx, &p->bound, b) || !an_vec_push(ctx, &p->fresh, user)) return AN_ERR_NOMEM;
            st = an_storage_bind(p->user, p->rt, user);
            if (st) return st;
        }
        if (!an_vec_push(ctx, &p->outputs, user)) return AN_ERR_NOMEM;
    }
    for (size_t c = 0; c < p->schedule.calls.len; c++)
        for (uint32_t b = 0; b < p->schedule.calls.data[c].nbuffers; b++) {
            const an_uop buf = p->schedule.calls.data[c].buffers[b];
            if (!an_uop_is_none(bound_user(p, buf)) || an_idmap_get(&p->temp_of, buf.id)) continue;
            if (!an_vec_push(ctx, &p->temps, buf) || !an_idmap_set(&p->temp_of, ctx, buf.id, (uint32_t)p->temps.len))
                return AN_ERR_NOMEM;
        }
    p->offsets = an_mem_zalloc(ctx, p->temps.len * sizeof *p->offsets);
    if (!p->offsets) return AN_ERR_NOMEM;
    st = an_plan_memory(p->graph, &p->schedule.calls, p->temps.data, p->temps.len, 256, p->offsets, &p->nbytes,
                        &p->nbytes_unplanned);
    /* Temporaries of no elements need a buffer to be in, too. */
    if (!st && p->temps.len) st = backend_of(p)->buffer_create(p->device, p->nbytes ? p->nbytes : 1, &p->arena);
    return st;
}

/* What each launch gets, worked out once. */
static an_status make_launches(an_plan *p)
{
    an_ctx *ctx = an_graph_ctx(p->user);
    size_t total = 0;
    p->ncalls = p->schedule.calls.len;
    for (size_t c = 0; c < p->ncalls; c++) total += p->schedule.calls.data[c].nbuffers;
    p->nslots = total;
    p->launches = an_mem_zalloc(ctx, p->ncalls * sizeof *p->launches);
    p->buffers = an_mem_zalloc(ctx, total * sizeof *p->buffers);
    p->buffer_offsets = an_mem_zalloc(ctx, total * sizeof *p->buffer_offsets);
    if (!p->launches || !p->buffers || !p->buffer_offsets) return AN_ERR_NOMEM;
    size_t at = 0;
    for (size_t c = 0; c < p->ncalls; c++) {
        const an_call *call = &p->schedule.calls.data[c];
        p->launches[c] = (an_launch){p->buffers + at, p->buffer_offsets + at, NULL};
        for (uint32_t b = 0; b < call->nbuffers; b++, at++) {
            const uint32_t temp = an_idmap_get(&p->temp_of, call->buffers[b].id);
            if (temp) {
                p->buffers[at] = p->arena;
                p->buffer_offsets[at] = p->offsets[temp - 1];
            } else {
                p->buffers[at] = an_storage_of(p->rt, bound_user(p, call->buffers[b]))->buffer;
            }
        }
    }
    return AN_OK;
}

static an_status depends_on_symbol(an_graph *g, an_uop u, bool *yes)
{
    an_uop_vec order = {0};
    const an_status st = an_toposort(g, &u, 1, &order);
    for (size_t i = 0; i < order.len; i++) *yes = *yes || an_uop_op(g, order.data[i]) == AN_OP_VAR;
    an_vec_fini(an_graph_ctx(g), &order);
    return st;
}

/* Remembers in the user's graph what the plan computes. */
static an_status note_done(an_plan *p, const an_uop *uops, size_t n)
{
    an_ctx *ctx = an_graph_ctx(p->user);
    for (size_t i = 0; i < n + p->assigns.len; i++) {
        const an_uop u = i < n ? uops[i] : p->assigns.data[i - n];
        if (an_uop_op(p->user, u) == AN_OP_BUFFER || done_for(p, u)) continue;
        an_uop b = i < n ? p->outputs.data[i] : u;
        while (an_uop_op(p->user, b) == AN_OP_ASSIGN) b = an_uop_src(p->user, b, 0);
        bool varies = false; /* with a symbol: computed again whenever it is asked for */
        if (p->symbols.len && an_uop_op(p->user, u) != AN_OP_ASSIGN && depends_on_symbol(p->user, u, &varies)) return AN_ERR_NOMEM;
        if (varies) continue;
        const an_done d = {u, b, UINT64_MAX, UINT64_MAX};
        if (!an_vec_push(ctx, &p->rt->done, d) || !an_vec_push(ctx, &p->pending, (uint32_t)p->rt->done.len - 1) ||
            !an_idmap_set(&p->rt->done_of, ctx, u.id, (uint32_t)p->rt->done.len))
            return AN_ERR_NOMEM;
    }
    return AN_OK;
}

/* Storages that a run writes: outputs and assigned buffers. */
static an_status find_written(an_plan *p)
{
    an_ctx *ctx = an_graph_ctx(p->user);
    for (size_t c = 0; c < p->ncalls; c++) {
        const an_call *call = &p->schedule.calls.data[c];
        for (uint32_t b = 0; b < call->nbuffers; b++) {
            const an_uop user = bound_user(p, call->buffers[b]);
            if (!call->is_written[b] || an_uop_is_none(user) || an_vec_has(&p->written, user)) continue;
            if (!an_vec_push(ctx, &p->written, user)) return AN_ERR_NOMEM;
        }
    }
    return AN_OK;
}

an_status an_plan_build(an_graph *g, an_uop *uops, const uint64_t *epochs, size_t n, an_trace *trace, an_plan **out)
{
    an_ctx *ctx = an_graph_ctx(g);
    an_uop_vec roots = {0};
    an_plan *p = an_mem_zalloc(ctx, sizeof *p);
    if (!p) return AN_ERR_NOMEM;
    p->user = g;
    p->rt = an_runtime_of(g);
    an_status st = p->rt ? an_graph_create(ctx, &p->graph) : an_ctx_status(ctx);
    if (st) goto done;
    p->device = p->rt->device;
    const double t = an_clock();
    st = check_all(p, uops, epochs, n);
    if (!st) st = import_roots(p, uops, n, &roots);
    if (!st) st = an_plan_note_symbols(p, roots.data, roots.len);
    if (st) goto done;
    an_cost cost = an_cost_for(backend_of(p));
    cost.vector_nbytes = ((const an_device_base *)p->device)->vector_nbytes;
    cost.scratch_nbytes = ((const an_device_base *)p->device)->scratch_nbytes;
    cost.no_fuse = an_ctx_settings(ctx).no_fuse;
    st = an_schedule_make(p->graph, roots.data, roots.len, &cost, trace, &p->schedule);
    if (st) goto done;
    p->times.schedule = an_clock() - t;
    st = AN_ERR_NOMEM;
    p->kernels = an_mem_zalloc(ctx, p->schedule.calls.len * sizeof *p->kernels);
    p->reused = an_mem_zalloc(ctx, p->schedule.calls.len * sizeof *p->reused);
    if (!p->kernels || !p->reused) goto done;
    st = an_programs_get(p->graph, p->device, &p->schedule.calls, trace, p->kernels, p->reused, &p->times.codegen,
                         &p->times.compile);
    if (!st) st = place_buffers(p, uops, n);
    if (!st) st = make_launches(p);
    if (!st) st = find_written(p);
    if (!st) st = an_plan_note_sizes(p);
    if (!st) st = note_done(p, uops, n);
    if (st) goto done;
    for (size_t i = 0; i < n; i++) uops[i] = p->outputs.data[i];
    *out = p;
    p = NULL;
done:
    an_vec_fini(ctx, &roots);
    an_plan_destroy(p);
    return st;
}

void an_plan_destroy(an_plan *p)
{
    if (!p) return;
    an_ctx *ctx = an_graph_ctx(p->user);
    if (p->arena) backend_of(p)->buffer_destroy(p->arena);
    an_mem_free(ctx, p->launches, p->ncalls * sizeof *p->launches);
    an_mem_free(ctx, p->buffers, p->nslots * sizeof *p->buffers);
    an_mem_free(ctx, p->buffer_offsets, p->nslots * sizeof *p->buffer_offsets);
    an_mem_free(ctx, p->offsets, p->temps.len * sizeof *p->offsets);
    an_mem_free(ctx, p->kernels, p->schedule.calls.len * sizeof *p->kernels);
    an_mem_free(ctx, p->reused, p->schedule.calls.len * sizeof *p->reused);
    an_vec_fini(ctx, &p->bound);
    an_vec_fini(ctx, &p->outputs);
    an_vec_fini(ctx, &p->assigns);
    an_vec_fini(ctx, &p->temps);
    an_vec_fini(ctx, &p->written);
    an_vec_fini(ctx, &p->fresh);
    an_vec_fini(ctx, &p->pending);
    an_vec_fini(ctx, &p->symbols);
    an_vec_fini(ctx, &p->conditions);
    an_vec_fini(ctx, &p->sized);
    an_idmap_fini(&p->temp_of, ctx);
    an_idmap_fini(&p->usable, ctx);
    if (p->graph) an_schedule_fini(p->graph, &p->schedule);
    an_graph_destroy(p->graph);
    an_mem_free(ctx, p, sizeof *p);
}

/* --- running ----------------------------------------------------------------------------------- */

an_status an_plan_run(an_plan *p)
{
    an_status st = an_plan_begin(p);
    const an_backend *backend = backend_of(p);
    if (st) return st;
    for (size_t c = 0; c < p->ncalls && !st; c++) {
        const an_cached_kernel *k = p->kernels[c];
        int64_t vars[AN_KERNEL_VAR_MAX] = {0};
        an_launch launch = p->launches[c];
        for (uint32_t v = 0; v < k->kernel.nvars && !st; v++)
            st = an_plan_symbol(p, an_uop_name(k->graph, k->kernel.vars[v]), &vars[v]);
        launch.vars = vars;
        if (!st) st = backend->launch(k->program, &launch);
    }
    for (size_t i = 0; i < p->pending.len; i++) p->rt->done.data[p->pending.data[i]].read_at = p->rt->epoch;
    if (p->written.len) p->rt->epoch++;
    for (size_t i = 0; i < p->written.len; i++)
        if (p->has_run || !an_vec_has(&p->fresh, p->written.data[i]))
            an_storage_of(p->rt, p->written.data[i])->written = p->rt->epoch;
    p->has_run = true;
    an_plan_end(p);
    for (size_t i = 0; i < p->pending.len; i++) p->rt->done.data[p->pending.data[i]].epoch = p->rt->epoch;
    p->pending.len = 0;
    return st;
}

/* A run that failed has computed nothing, and written nothing that counts. */
static void forget_pending(an_plan *p)
{
    for (size_t i = 0; i < p->pending.len; i++) /* each is there already: no memory is asked for */
        (void)an_idmap_set(&p->rt->done_of, an_graph_ctx(p->user), p->rt->done.data[p->pending.data[i]].node.id, 0);
    p->pending.len = 0;
}

an_status an_realize_uops(an_graph *g, an_uop *uops, const uint64_t *epochs, size_t n)
{
    an_plan *plan = NULL;
    an_status st = an_runtime_check_bound(g, uops, n);
    if (!st) st = an_plan_build(g, uops, epochs, n, NULL, &plan);
    if (!st) st = an_plan_run(plan);
    if (st && plan) forget_pending(plan);
    an_plan_destroy(plan);
    return st;
}
