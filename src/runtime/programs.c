/* programs.c - compiled kernels by structural key. Every knob of codegen and the device are in the key. */
#include "runtime/state.h"

#include "codegen/codegen.h"

typedef struct cache {
    AN_VEC(an_cached_kernel *) kernels;
} cache;

static void kernel_destroy(an_ctx *ctx, an_cached_kernel *k)
{
    if (!k) return;
    if (k->program) {
        const an_program_base *p = (const an_program_base *)k->program;
        ((const an_device_base *)p->device)->backend->program_destroy(k->program);
    }
    an_vec_fini(ctx, &k->linear);
    an_vec_fini(ctx, &k->list);
    an_graph_destroy(k->graph);
    an_mem_free(ctx, k, sizeof *k);
}

static void cache_destroy(an_ctx *ctx, void *data)
{
    cache *c = data;
    for (size_t i = 0; i < c->kernels.len; i++) kernel_destroy(ctx, c->kernels.data[i]);
    an_vec_fini(ctx, &c->kernels);
    an_mem_free(ctx, c, sizeof *c);
}

static cache *cache_of(an_ctx *ctx)
{
    cache *c = an_ctx_slot_get(ctx, AN_SLOT_PROGRAMS);
    if (c) return c;
    c = an_mem_zalloc(ctx, sizeof *c);
    if (c) an_ctx_slot_set(ctx, AN_SLOT_PROGRAMS, c, cache_destroy);
    return c;
}

size_t an_programs_count(an_ctx *ctx)
{
    const cache *c = cache_of(ctx);
    return c ? c->kernels.len : 0;
}

/* What codegen is to know of a device of workgroups and threads; one that does not say has what WebGPU promises everywhere. */
static an_gpu_target gpu_of(const an_device_base *d)
{
    const an_gpu_target least = {.threads = 256, .local_nbytes = 16384, .units = 128, .small_code = true};
    if (d->gpu_threads) return (an_gpu_target){d->gpu_threads, d->gpu_local_nbytes, d->gpu_units, d->gpu_small_code, d->gpu_has_matrix};
    return strcmp(d->backend->name, "webgpu") == 0 ? least : (an_gpu_target){0};
}

static an_status key_of(an_graph *g, const an_call *call, const an_device *dev, const an_codegen_opts *opts, an_key *key)
{
    const an_status st = an_uop_key(g, &call->sink, 1, key);
    const char *name = an_device_name(dev);
    *key = an_key_mix(*key, an_hash_bytes(0, name, strlen(name)));
    *key = an_key_mix(*key, ((const an_device_base *)dev)->key);
    *key = an_key_mix(*key, (uint64_t)opts->vector_nbytes << 1 | opts->no_opt);
    *key = an_key_mix(*key, opts->scratch_nbytes);
    *key = an_key_mix(*key, (uint64_t)opts->l1_nbytes << 32 | opts->l2_nbytes);
    *key = an_key_mix(*key, (uint64_t)opts->threads);
    *key = an_key_mix(*key, (uint64_t)opts->gpu.threads << 32 | opts->gpu.local_nbytes);
    *key = an_key_mix(*key, (uint64_t)opts->gpu.units << 2 | (uint64_t)opts->gpu.has_matrix << 1 | opts->gpu.small_code);
    return st;
}

static int by_name(const an_graph *g, an_uop a, an_uop b)
{
    return strcmp(an_uop_name(g, a), an_uop_name(g, b));
}

/* The symbols of the kernel by name: an order that does not depend on how the graph was built, for programs outlive it. */
static an_status gather_vars(an_kernel *k)
{
    an_ctx *ctx = an_graph_ctx(k->graph);
    an_uop_vec order = {0};
    an_status st = an_toposort(k->graph, &k->sink, 1, &order);
    for (size_t i = 0; i < order.len && !st; i++) {
        if (an_uop_op(k->graph, order.data[i]) != AN_OP_VAR) continue;
        if (k->nvars == AN_KERNEL_VAR_MAX) {
            st = an_fail(ctx, AN_ERR_LIMIT, "kernel %s uses more than %d symbolic dimensions", k->name, AN_KERNEL_VAR_MAX);
            break;
        }
        uint32_t at = k->nvars++;
        for (; at > 0 && by_name(k->graph, k->vars[at - 1], order.data[i]) > 0; at--) k->vars[at] = k->vars[at - 1];
        k->vars[at] = order.data[i];
    }
    an_vec_fini(ctx, &order);
    return st;
}

/* The kernel of a call, in a graph of its own; not lowered yet. */
static an_status make(an_graph *g, const an_call *call, an_key key, const an_codegen_opts *opts, an_cached_kernel **out)
{
    an_ctx *ctx = an_graph_ctx(g);
    an_status st = AN_ERR_NOMEM;
    an_cached_kernel *k = an_mem_zalloc(ctx, sizeof *k);
    if (!k) return st;
    k->key = key;
    k->opts = *opts;
    st = an_graph_create(ctx, &k->graph);
    if (st) goto done;
    k->kernel = (an_kernel){.graph = k->graph, .key_lo = key.lo, .key_hi = key.hi};
    k->kernel.sink = an_uop_import(k->graph, g, call->sink, NULL, NULL);
    const size_t len = strlen(call->name);
    char *name = an_graph_alloc(k->graph, len + 1);
    st = AN_ERR_NOMEM;
    if (an_uop_is_none(k->kernel.sink) || !name) goto done;
    memcpy(name, call->name, len);
    k->kernel.name = name;
    k->kernel.nparams = call->nbuffers;
    for (uint32_t i = 0; i < call->nbuffers; i++)
        k->kernel.params[i] = (an_kernel_param){an_uop_dtype(g, call->buffers[i]), call->is_read[i], call->is_written[i]};
    st = gather_vars(&k->kernel);
    if (st) goto done;
    k->kernel.flops = call->flops;
    k->kernel.nbytes_read = call->nbytes_read;
    k->kernel.nbytes_written = call->nbytes_written;
    *out = k;
    k = NULL;
done:
    kernel_destroy(ctx, k);
    return st;
}

an_status an_cached_kernel_lower(an_cached_kernel *k, an_trace *trace)
{
    an_ctx *ctx = an_graph_ctx(k->graph);
    if (k->linear.len) return AN_OK;
    const bool had_error = an_ctx_status(ctx) != AN_OK;
    an_status st = an_codegen(k->graph, k->kernel.sink, &k->opts, trace, &k->linear);
    if (st == AN_ERR_ARG && k->opts.by_hand && !had_error) {
        an_warn(ctx, "kernel %s: %s; the list of opts is not used", k->kernel.name, an_ctx_error(ctx));
        an_ctx_clear_error(ctx);
        k->opts.by_hand = false;
        st = an_codegen(k->graph, k->kernel.sink, &k->opts, trace, &k->linear);
    }
    k->kernel.linear = k->linear.data;
    k->kernel.nlinear = k->linear.len;
    return st;
}

/* Programs for some of the cache's kernels: what the device had from before, or what it compiles. */
static an_status get_programs(an_ctx *ctx, an_cached_kernel *const *some, size_t n, an_device *dev,
                              an_status (*get)(an_device *dev, const an_kernel *const *kernels, size_t n, an_program **out))
{
    const an_kernel **kernels = an_mem_alloc(ctx, n * sizeof *kernels);
    an_program **programs = an_mem_zalloc(ctx, n * sizeof *programs);
    an_status st = AN_ERR_NOMEM;
    if (kernels && programs) {
        for (size_t i = 0; i < n; i++) kernels[i] = &some[i]->kernel;
        st = get(dev, kernels, n, programs);
        for (size_t i = 0; i < n && !st; i++) some[i]->program = programs[i];
    }
    an_mem_free(ctx, kernels, n * sizeof *kernels);
    an_mem_free(ctx, programs, n * sizeof *programs);
    return st;
}

/* Gives every kernel of the cache from `from` on its program. What the device has need not be lowered, unless for the trace. */
static an_status fill(an_ctx *ctx, cache *c, size_t from, an_device *dev, an_trace *trace, double *codegen_s, double *compile_s)
{
    const an_backend *backend = ((const an_device_base *)dev)->backend;
    const size_t n = c->kernels.len - from;
    size_t nmissing = 0;
    an_cached_kernel **missing = an_mem_alloc(ctx, n * sizeof *missing);
    if (!missing) return AN_ERR_NOMEM;
    double t = an_clock();
    an_status st = get_programs(ctx, c->kernels.data + from, n, dev, backend->load);
    *compile_s += an_clock() - t;
    t = an_clock();
    for (size_t i = 0; i < n && !st; i++) {
        an_cached_kernel *k = c->kernels.data[from + i];
        if (!k->program) missing[nmissing++] = k;
        if (!k->program || trace) st = an_cached_kernel_lower(k, trace);
    }
    *codegen_s += an_clock() - t;
    t = an_clock();
    if (!st && nmissing) st = get_programs(ctx, missing, nmissing, dev, backend->compile);
    *compile_s += an_clock() - t;
    an_mem_free(ctx, missing, n * sizeof *missing);
    return st;
}

static an_cached_kernel *find(const cache *c, an_key key)
{
    for (size_t k = 0; k < c->kernels.len; k++)
        if (an_key_eq(c->kernels.data[k]->key, key)) return c->kernels.data[k];
    return NULL;
}

/* Gives a new kernel the list that a search found, and a key with it. */
static an_status tune(an_graph *g, const an_call *call, an_device *dev, an_cached_kernel *k)
{
    bool found = false;
    an_status st = an_tune(g, call, dev, k, &k->list, &found);
    if (st || !found) return st;
    k->opts.by_hand = true;
    k->opts.list = k->list.data;
    k->opts.nlist = k->list.len;
    k->key = an_key_mix(k->key, k->list.len + 1);
    for (size_t i = 0; i < k->list.len; i++) {
        const an_opt o = k->list.data[i];
        k->key = an_key_mix(an_key_mix(k->key, (uint64_t)o.kind << 32 | o.range), (uint64_t)o.amount);
    }
    k->kernel.key_lo = k->key.lo;
    k->kernel.key_hi = k->key.hi;
    return AN_OK;
}

/* The kernel of a call, from the cache or new in it; *is_new. */
static an_status get_one(an_graph *g, const an_call *call, an_device *dev, const an_codegen_opts *opts, cache *c, an_cached_kernel **out,
                         bool *is_new)
{
    an_ctx *ctx = an_graph_ctx(g);
    an_key key = {0};
    an_status st = key_of(g, call, dev, opts, &key);
    if (st) return st;
    const bool searches = an_ctx_settings(ctx).beam_width > 0 && !opts->no_opt;
    *is_new = false;
    *out = searches ? NULL : find(c, key);
    if (*out) return AN_OK;
    an_cached_kernel *k = NULL;
    st = make(g, call, key, opts, &k);
    if (!st && searches) st = tune(g, call, dev, k);
    *out = !st && searches ? find(c, k->key) : NULL;
    if (!st && !*out) {
        if (an_vec_push(ctx, &c->kernels, k)) {
            *out = k;
            k = NULL;
            *is_new = true;
        } else {
            st = AN_ERR_NOMEM;
        }
    }
    kernel_destroy(ctx, k);
    return st;
}

an_status an_programs_get(an_graph *g, an_device *device, const an_call_vec *calls, an_trace *trace,
                          an_cached_kernel **out, bool *reused, double *codegen_s, double *compile_s)
{
    an_ctx *ctx = an_graph_ctx(g);
    cache *c = cache_of(ctx);
    if (!c) return AN_ERR_NOMEM;
    const size_t from = c->kernels.len;
    const an_codegen_opts opts = {.vector_nbytes = ((const an_device_base *)device)->vector_nbytes,
                                  .scratch_nbytes = ((const an_device_base *)device)->scratch_nbytes,
                                  .l1_nbytes = ((const an_device_base *)device)->l1_nbytes,
                                  .l2_nbytes = ((const an_device_base *)device)->l2_nbytes,
                                  .threads = ((const an_device_base *)device)->threads,
                                  .gpu = gpu_of((const an_device_base *)device),
                                  .no_opt = an_ctx_settings(ctx).no_opt};
    an_status st = AN_OK;
    const double t = an_clock();
    for (size_t i = 0; i < calls->len && !st; i++) {
        bool is_new = false;
        out[i] = NULL;
        st = get_one(g, &calls->data[i], device, &opts, c, &out[i], &is_new);
        reused[i] = !is_new;
    }
    *codegen_s = an_clock() - t;
    *compile_s = 0;
    if (!st && c->kernels.len > from) st = fill(ctx, c, from, device, trace, codegen_s, compile_s);
    while (st && c->kernels.len > from) kernel_destroy(ctx, c->kernels.data[--c->kernels.len]);
    return st;
}
