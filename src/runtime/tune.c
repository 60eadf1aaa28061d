/* tune.c - the winners of searches for kernels: from this context, from beam_cache.json, or by searching now. */
#include "runtime/state.h"

#ifdef __wasi__ /* no processes, no files */
an_status an_tune(an_graph *g, const an_call *call, an_device *dev, const an_cached_kernel *k, an_opt_vec *list, bool *found)
{
    (void)g;
    (void)call;
    (void)dev;
    (void)k;
    (void)list;
    *found = false;
    return AN_OK;
}
#else
#include "base/disk.h"
#include "search/search.h"

#include <stdio.h>

enum { DEPTH = 8, SECONDS = 20, CANDIDATE_SECONDS = 5 };

static void winners_close(an_ctx *ctx, void *data)
{
    (void)ctx;
    an_winners_close(data);
}

/* Those of this context; without a folder, or with no_cache, in memory only. */
static an_winners *winners_of(an_ctx *ctx, bool no_cache)
{
    static const char name[] = "/beam_cache.json";
    char path[4000];
    an_winners *w = an_ctx_slot_get(ctx, AN_SLOT_WINNERS);
    if (w) return w;
    const bool has_folder = !no_cache && an_cache_folder(path, sizeof path - sizeof name);
    if (has_folder) strcat(path, name);
    if (an_winners_open(ctx, has_folder ? path : NULL, &w)) return NULL;
    an_ctx_slot_set(ctx, AN_SLOT_WINNERS, w, winners_close);
    return w;
}

/* What decides which list is fastest: the kernel with its knobs, the device, and how this library makes code. */
static an_key key_of(an_key kernel, const an_device_base *dev)
{
    const an_key k = an_key_mix(an_key_mix(kernel, dev->identity), (uint64_t)dev->threads);
    return an_key_mix(k, an_source_id());
}

/* A setting, within what makes sense; 0 is the preset. */
static unsigned at_most(uint64_t n, unsigned preset)
{
    enum { MOST = 9999 };
    return n == 0 ? preset : n > MOST ? MOST : (unsigned)n;
}

static an_status search(an_graph *g, const an_call *call, const an_device_base *dev, const an_cached_kernel *k, an_search_result *r)
{
    const an_settings s = an_ctx_settings(an_graph_ctx(g));
    size_t nbytes[AN_KERNEL_PARAM_MAX];
    const an_search_desc desc = {.backend = dev->backend,
                                 .threads = dev->threads,
                                 .opts = k->opts,
                                 .width = at_most(s.beam_width, 0),
                                 .depth = at_most(s.beam_depth, DEPTH),
                                 .seconds = at_most(s.beam_seconds, SECONDS),
                                 .candidate_seconds = CANDIDATE_SECONDS,
                                 .no_child = dev->no_fork};
    for (uint32_t i = 0; i < call->nbuffers; i++)
        if (!an_buffer_nbytes(g, call->buffers[i], &nbytes[i])) return an_ctx_status(an_graph_ctx(g));
    return an_search(an_graph_ctx(g), &desc, &k->kernel, nbytes, r);
}

an_status an_tune(an_graph *g, const an_call *call, an_device *dev, const an_cached_kernel *k, an_opt_vec *list, bool *found)
{
    an_ctx *ctx = an_graph_ctx(g);
    const an_device_base *base = (const an_device_base *)dev;
    an_search_result r = {0};
    *found = false;
    if (base->identity == 0) return AN_OK;
    const an_key key = key_of(k->key, base);
    an_winners *w = winners_of(ctx, an_ctx_settings(ctx).no_cache);
    if (!w) return AN_ERR_NOMEM;
    const char *text = an_winners_find(w, key);
    if (text) {
        const bool had_error = an_ctx_status(ctx) != AN_OK;
        const an_status st = an_opt_parse(ctx, text, list);
        *found = st == AN_OK;
        if (*found || st == AN_ERR_NOMEM) return st;
        an_warn(ctx, "beam cache: %s; the search is made again", an_ctx_error(ctx));
        if (!had_error) an_ctx_clear_error(ctx);
        list->len = 0;
    }
    an_str opts;
    an_str_init(&opts, ctx);
    an_status st = search(g, call, base, k, &r);
    if (!st && r.found) st = an_opt_print(&opts, r.list.data, r.list.len);
    if (!st && r.found) st = an_winners_add(w, key, an_str_cstr(&opts), r.seconds, r.first_seconds);
    if (!st && r.found) st = an_winners_save(w);
    if (!st && r.found) {
        an_vec_fini(ctx, list);
        list->data = r.list.data;
        list->len = r.list.len;
        list->cap = r.list.cap;
        r = (an_search_result){0};
        *found = true;
    }
    an_str_fini(&opts);
    an_search_result_fini(ctx, &r);
    return st;
}
#endif
