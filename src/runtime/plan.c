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
    user = an_version_now(im->from, im->plan->rt, user);
    const uint32_t known = an_idmap_get(&im->buffer_of, user.id);
    if (known) return (an_uop){known};
    const an_shape shape = an_uop_shape(im->from, user);
    an_uop dims[AN_RANK_MAX];
    for (uint32_t i = 0; i < shape.rank; i++) dims[i] = an_uop_import(im->to, im->from, shape.dims[i], NULL, NULL);
    const an_bound b = {.mine = an_buffer_node(im->to, an_uop_dtype(im->from, user), dims, shape.rank),
                        .user = user,
                        .storage = an_idmap_get(&im->plan->rt->storage_of, user.id) - 1,
                        .first_write = SIZE_MAX};
    im->failed = im->failed || an_uop_is_none(b.mine) ||
                 !an_idmap_set(&im->buffer_of, an_graph_ctx(im->to), user.id, b.mine.id) ||
                 !an_vec_push(an_graph_ctx(im->to), im->bound, b);
    return b.mine;
}

/* Everything was walked: no version that is read is stale. */
static an_uop import_node(void *user, an_uop u)
{
    import *im = user;
    an_uop value = AN_UOP_NONE;
    if (an_version_is_place(im->from, im->plan->rt, u)) return plan_buffer(im, u);
    if (an_version_value(im->from, im->plan->rt, u, &value, NULL)) im->failed = true;
    return an_uop_is_none(value) ? value : plan_buffer(im, value);
}

/* --- making ------------------------------------------------------------------------------------ */

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

static an_bound *bound_of(const an_plan *p, an_uop mine)
{
    for (size_t i = 0; i < p->bound.len; i++)
        if (an_uop_eq(p->bound.data[i].mine, mine)) return &p->bound.data[i];
    return NULL;
}

/* The schedule in less memory. */
static an_status fit(an_plan *p, const an_cost *cost, an_trace *trace)
{
    an_ctx *ctx = an_graph_ctx(p->user);
    const an_settings settings = an_ctx_settings(ctx);
    const size_t budget = (size_t)settings.memory_budget == settings.memory_budget ? (size_t)settings.memory_budget : SIZE_MAX;
    an_uop_vec fixed = {0};
    an_status st = AN_OK;
    if (settings.no_reuse) return AN_OK;
    for (size_t i = 0; i < p->bound.len && !st; i++)
        if (!an_vec_push(ctx, &fixed, p->bound.data[i].mine)) st = AN_ERR_NOMEM;
    if (!st)
        st = an_schedule_fit(p->graph, &p->schedule, fixed.data, fixed.len, cost, AN_PLACE_ALIGN, budget, &p->nbytes_unplanned,
                             trace);
    an_vec_fini(ctx, &fixed);
    return st;
}

/* Buffers for the roots in the user's graph; the rest are temporaries, placed in the arena. */
static an_status place_buffers(an_plan *p, const an_uop *uops, size_t n)
{
    an_ctx *ctx = an_graph_ctx(p->user);
    an_status st = AN_OK;
    size_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        const an_uop mine = p->schedule.outputs.data[i];
        const an_bound *known = bound_of(p, mine);
        an_uop user = known ? known->user : AN_UOP_NONE;
        if (!known) {
            const an_shape shape = an_uop_shape(p->user, uops[i]);
            user = an_buffer_node(p->user, an_uop_dtype(p->user, uops[i]), shape.dims, shape.rank);
            if (an_uop_is_none(user)) return AN_ERR_NOMEM;
            st = an_storage_bind(p->user, p->rt, user);
            if (st) return st;
            const an_bound b = {.mine = mine, .user = user, .storage = (uint32_t)p->rt->storages.len - 1, .first_write = SIZE_MAX};
            p->rt->storages.data[b.storage].is_empty = true;
            if (!an_vec_push(ctx, &p->bound, b)) return AN_ERR_NOMEM;
        }
        if (!an_vec_push(ctx, &p->outputs, user)) return AN_ERR_NOMEM;
    }
    for (size_t c = 0; c < p->schedule.calls.len; c++)
        for (uint32_t b = 0; b < p->schedule.calls.data[c].nbuffers; b++) {
            const an_uop buf = p->schedule.calls.data[c].buffers[b];
            if (bound_of(p, buf) || an_idmap_get(&p->temp_of, buf.id)) continue;
            if (!an_vec_push(ctx, &p->temps, buf) || !an_idmap_set(&p->temp_of, ctx, buf.id, (uint32_t)p->temps.len))
                return AN_ERR_NOMEM;
        }
    p->offsets = an_mem_zalloc(ctx, p->temps.len * sizeof *p->offsets);
    if (!p->offsets) return AN_ERR_NOMEM;
    st = an_plan_memory(p->graph, &p->schedule.calls, p->temps.data, p->temps.len, AN_PLACE_ALIGN,
                        an_ctx_settings(ctx).no_reuse, p->offsets, &p->nbytes, &sum);
    if (an_ctx_settings(ctx).no_reuse) p->nbytes_unplanned = sum;
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
    p->buffer_nbytes = an_mem_zalloc(ctx, total * sizeof *p->buffer_nbytes);
    if (!p->launches || !p->buffers || !p->buffer_offsets || !p->buffer_nbytes) return AN_ERR_NOMEM;
    size_t at = 0;
    for (size_t c = 0; c < p->ncalls; c++) {
        const an_call *call = &p->schedule.calls.data[c];
        p->launches[c] = (an_launch){p->buffers + at, p->buffer_offsets + at, p->buffer_nbytes + at, NULL};
        for (uint32_t b = 0; b < call->nbuffers; b++, at++) {
            const uint32_t temp = an_idmap_get(&p->temp_of, call->buffers[b].id);
            if (!an_buffer_nbytes(p->graph, call->buffers[b], &p->buffer_nbytes[at])) return an_ctx_status(ctx);
            if (temp) {
                p->buffers[at] = p->arena;
                p->buffer_offsets[at] = p->offsets[temp - 1];
            } else {
                an_bound *bound = bound_of(p, call->buffers[b]);
                p->buffers[at] = p->rt->storages.data[bound->storage].buffer;
                if (!an_vec_push(ctx, &bound->at, (uint32_t)at)) return AN_ERR_NOMEM;
                if (call->is_read[b]) bound->last_read = c;
                if (call->is_written[b] && !bound->is_written) bound->first_write = c;
                bound->is_written = bound->is_written || call->is_written[b];
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

static an_status add_result(an_plan *p, an_uop node, uint32_t storage)
{
    an_ctx *ctx = an_graph_ctx(p->user);
    const an_computed r = {.node = node, .storage = storage};
    /* Room in the maps, so that a run has nothing to allocate. */
    return an_vec_push(ctx, &p->results, r) && an_idmap_set(&p->rt->result_of, ctx, node.id, an_idmap_get(&p->rt->result_of, node.id)) ?
               AN_OK : AN_ERR_NOMEM;
}

/* What the first run is to be remembered for: roots, and ASSIGNs, which from now on are this plan's to run. */
static an_status note_results(an_plan *p, const an_uop *uops, size_t n)
{
    an_ctx *ctx = an_graph_ctx(p->user);
    an_graph *g = p->user;
    an_status st = AN_OK;
    for (size_t i = 0; i < n && !st; i++) {
        an_uop value = AN_UOP_NONE;
        if (has_place(g, uops[i])) continue;
        bool varies = false; /* with a symbol: computed again whenever it is asked for */
        st = an_version_value(g, p->rt, uops[i], &value, NULL);
        if (!st && p->symbols.len) st = depends_on_symbol(g, uops[i], &varies);
        if (!st && !varies && an_uop_is_none(value)) st = add_result(p, uops[i], an_idmap_get(&p->rt->storage_of, p->outputs.data[i].id) - 1);
    }
    for (size_t i = 0; i < p->assigns.len && !st; i++) {
        const an_uop u = p->assigns.data[i];
        an_uop place = an_uop_src(g, u, 0);
        while (!an_version_is_place(g, p->rt, place)) place = an_uop_src(g, place, 0);
        st = add_result(p, u, an_idmap_get(&p->rt->storage_of, an_version_now(g, p->rt, place).id) - 1);
        for (size_t k = 0; k < p->assigns.len; k++)
            if (an_uop_eq(an_uop_src(g, p->assigns.data[k], 0), u)) p->results.data[p->results.len - 1].is_covered = true;
    }
    for (size_t i = 0; i < p->assigns.len && !st; i++)
        if (!an_idmap_set(&p->rt->claimed, ctx, p->assigns.data[i].id, 1)) st = AN_ERR_NOMEM;
    return st;
}

/* ASSIGNs of a plan that ran, or never will, are nobody's. */
static void unclaim(an_plan *p)
{
    for (size_t i = 0; !p->has_run && i < p->assigns.len; i++)
        if (an_idmap_get(&p->rt->claimed, p->assigns.data[i].id))
            (void)an_idmap_set(&p->rt->claimed, an_graph_ctx(p->user), p->assigns.data[i].id, 0); /* there is room */
}

size_t an_plan_find(const an_plan *p, an_uop user)
{
    for (size_t i = 0; i < p->bound.len; i++)
        if (an_uop_eq(p->bound.data[i].user, user)) return i;
    return SIZE_MAX;
}

bool an_plan_is_captured(const an_plan *p, size_t i)
{
    return i < p->nreads && !an_storage_of(p->rt, p->bound.data[i].user)->is_stand_in;
}

void an_plan_rebind(an_plan *p, size_t i, uint32_t storage)
{
    an_bound *b = &p->bound.data[i];
    if (b->storage == storage && (!b->at.len || p->buffers[b->at.data[0]])) return;
    b->storage = storage;
    for (size_t k = 0; k < b->at.len; k++) p->buffers[b->at.data[k]] = p->rt->storages.data[storage].buffer;
}

/* Bounds that a run writes: outputs and assigned buffers. */
static an_status find_written(an_plan *p)
{
    for (uint32_t i = 0; i < p->bound.len; i++)
        if (p->bound.data[i].is_written && !an_vec_push(an_graph_ctx(p->user), &p->written, i)) return AN_ERR_NOMEM;
    return AN_OK;
}

static void profile_build(an_profile *profile, const an_trace *trace, size_t first, const an_plan *p)
{
    if (!trace || !an_trace_is_whole(trace)) an_profile_cut(profile);
    for (size_t i = first; trace && i < an_trace_npasses(trace); i++) {
        const an_trace_pass pass = an_trace_get_pass(trace, i);
        an_profile_add(profile, (an_event){AN_EVENT_PASS, pass.name, pass.started, pass.seconds, 0, 0});
    }
    an_profile_add(profile, (an_event){AN_EVENT_COMPILE, "compile", an_clock() - p->times.compile, p->times.compile, 0, 0});
}

an_status an_plan_build(an_graph *g, an_uop *uops, size_t n, an_trace *trace, an_plan **out)
{
    an_ctx *ctx = an_graph_ctx(g);
    an_uop_vec roots = {0};
    an_trace *own = NULL;
    an_plan *p = an_mem_zalloc(ctx, sizeof *p);
    if (!p) return AN_ERR_NOMEM;
    p->user = g;
    p->rt = an_runtime_of(g);
    an_status st = p->rt ? an_graph_create(ctx, &p->graph) : an_ctx_status(ctx);
    if (st) goto done;
    p->device = p->rt->device;
    an_profile *profile = an_profile_of(ctx);
    if (profile && !trace) trace = own = an_trace_create(ctx); /* without it there are no passes in the profile */
    const double t = an_clock();
    const size_t before = trace ? an_trace_npasses(trace) : 0;
    st = an_version_walk(g, p->rt, uops, n, &p->assigns, &p->is_pending);
    if (!st) st = import_roots(p, uops, n, &roots);
    if (!st) st = an_plan_note_symbols(p, roots.data, roots.len);
    if (st) goto done;
    p->nreads = p->bound.len;
    an_cost cost = an_cost_for(backend_of(p));
    cost.vector_nbytes = ((const an_device_base *)p->device)->gpu_threads ? 0 : ((const an_device_base *)p->device)->vector_nbytes;
    cost.scratch_nbytes = ((const an_device_base *)p->device)->scratch_nbytes;
    const an_settings settings = an_ctx_settings(ctx);
    cost.no_fuse = settings.no_fuse;
    if (settings.band_nbytes) cost.band_nbytes = (double)settings.band_nbytes;
    if (settings.no_bands) cost.band_nbytes = 0;
    const uint32_t max_buffers = ((const an_device_base *)p->device)->max_buffers;
    if (max_buffers) cost.max_buffers = max_buffers < AN_KERNEL_PARAM_MAX ? max_buffers : AN_KERNEL_PARAM_MAX;
    bool found = false;
    st = an_schedule_key(p, roots.data, roots.len, &cost, &p->key);
    if (!st && (own || !trace)) st = an_schedules_find(p, roots.data, roots.len, p->key, &found); /* else it is to be seen how it is made */
    if (!st && !found) st = an_schedule_make(p->graph, roots.data, roots.len, &cost, trace, &p->schedule);
    if (!st && !found) st = fit(p, &cost, trace);
    if (!st && !found) st = an_schedules_keep(p, roots.data, roots.len, p->key);
    if (st) goto done;
    p->times.schedule = an_clock() - t;
    st = AN_ERR_NOMEM;
    p->kernels = an_mem_zalloc(ctx, p->schedule.calls.len * sizeof *p->kernels);
    p->reused = an_mem_zalloc(ctx, p->schedule.calls.len * sizeof *p->reused);
    if (!p->kernels || !p->reused) goto done;
    st = an_programs_get(p->graph, p->device, &p->schedule.calls, trace, p->kernels, p->reused, &p->times.codegen,
                         &p->times.compile);
    if (!st && profile) profile_build(profile, trace, before, p);
    if (!st) st = place_buffers(p, uops, n);
    if (!st) st = make_launches(p);
    if (!st) st = find_written(p);
    if (!st) st = an_plan_note_sizes(p);
    if (!st) st = note_results(p, uops, n);
    if (st) goto done;
    for (size_t i = 0; i < n; i++) uops[i] = p->outputs.data[i];
    *out = p;
    p = NULL;
done:
    an_vec_fini(ctx, &roots);
    an_trace_destroy(own);
    an_plan_destroy(p);
    return st;
}

void an_plan_destroy(an_plan *p)
{
    if (!p) return;
    an_ctx *ctx = an_graph_ctx(p->user);
    unclaim(p);
    for (size_t i = 0; i < p->bound.len; i++) an_vec_fini(ctx, &p->bound.data[i].at);
    if (p->arena) backend_of(p)->buffer_destroy(p->arena);
    an_mem_free(ctx, p->launches, p->ncalls * sizeof *p->launches);
    an_mem_free(ctx, p->buffers, p->nslots * sizeof *p->buffers);
    an_mem_free(ctx, p->buffer_offsets, p->nslots * sizeof *p->buffer_offsets);
    an_mem_free(ctx, p->buffer_nbytes, p->nslots * sizeof *p->buffer_nbytes);
    an_mem_free(ctx, p->offsets, p->temps.len * sizeof *p->offsets);
    an_mem_free(ctx, p->kernels, p->schedule.calls.len * sizeof *p->kernels);
    an_mem_free(ctx, p->reused, p->schedule.calls.len * sizeof *p->reused);
    an_vec_fini(ctx, &p->bound);
    an_vec_fini(ctx, &p->outputs);
    an_vec_fini(ctx, &p->assigns);
    an_vec_fini(ctx, &p->temps);
    an_vec_fini(ctx, &p->written);
    an_vec_fini(ctx, &p->results);
    an_vec_fini(ctx, &p->symbols);
    an_vec_fini(ctx, &p->conditions);
    an_vec_fini(ctx, &p->sized);
    an_idmap_fini(&p->temp_of, ctx);
    if (p->graph) an_schedule_fini(p->graph, &p->schedule);
    an_graph_destroy(p->graph);
    an_mem_free(ctx, p, sizeof *p);
}

/* --- running ----------------------------------------------------------------------------------- */

/* Is what the plan reads now what its nodes mean? Then the results are what they mean, too. */
static bool reads_what_was_meant(const an_plan *p)
{
    bool same = !p->is_pending;
    for (size_t i = 0; i < p->nreads && same; i++)
        same = an_uop_eq(p->rt->storages.data[p->bound.data[i].storage].node, p->bound.data[i].user);
    return same;
}

static void remember(an_plan *p, bool as_meant)
{
    an_ctx *ctx = an_graph_ctx(p->user);
    if (p->has_run) return;
    for (size_t i = p->nreads; i < p->bound.len; i++) p->rt->storages.data[p->bound.data[i].storage].is_empty = false;
    unclaim(p);
    p->has_run = true;
    for (size_t i = 0; i < p->results.len; i++) {
        const an_computed r = p->results.data[i];
        const bool is_assign = an_uop_op(p->user, r.node) == AN_OP_ASSIGN;
        an_uop version = p->rt->storages.data[r.storage].node;
        if (!as_meant && !is_assign) continue;
        if (r.is_covered) /* gone already: the version before it, which is stale */
            for (version = r.node; an_uop_op(p->user, version) == AN_OP_ASSIGN;) version = an_uop_src(p->user, version, 0);
        else
            an_buffer_note_read(p->user, version);
        (void)an_idmap_set(&p->rt->result_of, ctx, r.node.id, version.id); /* add_result made room */
    }
}

an_status an_plan_run(an_plan *p)
{
    an_status st = an_plan_begin(p);
    const an_backend *backend = backend_of(p);
    an_profile *profile = an_profile_of(an_graph_ctx(p->user));
    if (!st) st = an_runtime_refuse_capture(p->user, "an_plan_run");
    if (st) return st;
    const bool as_meant = !p->has_run && reads_what_was_meant(p);
    for (size_t i = 0; i < p->written.len && !st; i++)
        st = an_version_next(p->user, p->rt, &p->rt->storages.data[p->bound.data[p->written.data[i]].storage]);
    for (size_t c = 0; c < p->ncalls && !st; c++) {
        const an_cached_kernel *k = p->kernels[c];
        int64_t vars[AN_KERNEL_VAR_MAX] = {0};
        an_launch launch = p->launches[c];
        for (uint32_t v = 0; v < k->kernel.nvars && !st; v++) {
            const char *name = an_uop_name(k->graph, k->kernel.vars[v]);
            vars[v] = p->schedule.calls.data[c].band;
            if (strcmp(name, AN_BAND) != 0) st = an_plan_symbol(p, name, &vars[v]);
        }
        launch.vars = vars;
        if (!st && !profile) st = backend->launch(k->program, &launch);
        if (!st && profile) {
            const an_call *call = &p->schedule.calls.data[c];
            const double t = an_clock();
            double took = 0;
            st = backend->time(k->program, &launch, 1, &took);
            an_profile_add(profile, (an_event){AN_EVENT_KERNEL, call->name, t, took, call->nbytes_read + call->nbytes_written, call->flops});
        }
    }
    if (!st) st = backend->submit(p->device);
    if (!st) an_plan_end(p);
    if (!st) remember(p, as_meant);
    return st;
}

an_status an_realize_uops(an_graph *g, an_uop *uops, size_t n)
{
    an_plan *plan = NULL;
    an_status st = an_runtime_refuse_capture(g, "an_realize");
    if (!st) st = an_runtime_check_bound(g, uops, n);
    if (!st) st = an_plan_build(g, uops, n, NULL, &plan);
    if (!st && plan->is_pending)
        st = an_fail(an_graph_ctx(g), AN_ERR_ARG, "a lazy tensor reads what a plan writes that has not run yet; run the plan first");
    if (!st) st = an_plan_run(plan);
    an_plan_destroy(plan);
    return st;
}
