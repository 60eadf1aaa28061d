/* fit.c - the memory between kernels, made less: an order of the calls that frees early, and calls that write over what dies in
 * them (inplace.c); under a budget, calls that are made again when their result is next needed instead of keeping it
 * (rematerialisation: Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016, here greedily over a finished schedule).
 * The same expressions of the same values: no bit changes.
 *
 * What is fixed (buffers of the caller's, outputs) stays where it is; the rest are temporaries, each written by one call. */
#include "schedule/schedule.h"

#include "base/idmap.h"

typedef struct temp {
    an_uop buffer;
    size_t nbytes;  /* aligned */
    size_t first, last; /* calls */
    bool is_used;
} temp;

typedef struct fit {
    an_graph *g;
    an_ctx *ctx;
    an_schedule *s;
    const an_cost *cost;
    size_t align;
    an_idmap fixed;   /* BUFFER -> 1 */
    an_idmap temp_of; /* BUFFER -> 1 + index into temps */
    AN_VEC(temp) temps;
} fit;

static void fit_fini(fit *f)
{
    an_idmap_fini(&f->fixed, f->ctx);
    an_idmap_fini(&f->temp_of, f->ctx);
    an_vec_fini(f->ctx, &f->temps);
}

static an_status add_temp(fit *f, an_uop buffer)
{
    temp t = {.buffer = buffer};
    if (!an_buffer_nbytes(f->g, buffer, &t.nbytes)) return an_ctx_status(f->ctx);
    t.nbytes = (t.nbytes + f->align - 1) / f->align * f->align;
    return an_vec_push(f->ctx, &f->temps, t) && an_idmap_set(&f->temp_of, f->ctx, buffer.id, (uint32_t)f->temps.len) ? AN_OK : AN_ERR_NOMEM;
}

static temp *temp_at(fit *f, an_uop buffer)
{
    const uint32_t i = an_idmap_get(&f->temp_of, buffer.id);
    return i ? &f->temps.data[i - 1] : NULL;
}

static an_status find_temps(fit *f)
{
    an_status st = AN_OK;
    for (size_t c = 0; c < f->s->calls.len && !st; c++) {
        const an_call *call = &f->s->calls.data[c];
        for (uint32_t b = 0; b < call->nbuffers && !st; b++)
            if (!an_idmap_get(&f->fixed, call->buffers[b].id) && !temp_at(f, call->buffers[b])) st = add_temp(f, call->buffers[b]);
    }
    return st;
}

static void find_lives(fit *f)
{
    for (size_t i = 0; i < f->temps.len; i++) f->temps.data[i].is_used = false;
    for (size_t c = 0; c < f->s->calls.len; c++) {
        const an_call *call = &f->s->calls.data[c];
        for (uint32_t b = 0; b < call->nbuffers; b++) {
            temp *t = temp_at(f, call->buffers[b]);
            if (!t) continue;
            if (!t->is_used) t->first = c;
            t->is_used = true;
            t->last = c;
        }
    }
}

/* Bytes of the arena for these calls as they stand; in_place: with what they may write over joined, before that. */
static an_status planned(fit *f, bool in_place, size_t *nbytes, size_t *sum)
{
    const size_t n = f->temps.len;
    an_status st = AN_ERR_NOMEM;
    an_uop *buffers = an_mem_alloc(f->ctx, n * sizeof *buffers);
    size_t *offsets = an_mem_alloc(f->ctx, n * sizeof *offsets);
    if (buffers && offsets) {
        for (size_t i = 0; i < n; i++) buffers[i] = f->temps.data[i].buffer;
        st = in_place ? an_schedule_in_place(f->g, f->s, buffers, n) : AN_OK;
        if (!st) st = an_plan_memory(f->g, &f->s->calls, buffers, n, f->align, false, offsets, nbytes, sum);
    }
    an_mem_free(f->ctx, buffers, n * sizeof *buffers);
    an_mem_free(f->ctx, offsets, n * sizeof *offsets);
    return st;
}

/* --- order ----------------------------------------------------------------------------------------------------------- */

/* Calls that touch one buffer, and do not both only read it, keep their order. */
static bool conflict(const an_call *a, const an_call *b)
{
    for (uint32_t i = 0; i < a->nbuffers; i++)
        for (uint32_t k = 0; k < b->nbuffers; k++)
            if (an_uop_eq(a->buffers[i], b->buffers[k]) && (a->is_written[i] || b->is_written[k])) return true;
    return false;
}

enum { REORDER_MAX = 2048 }; /* calls: beyond that the table of edges is too large for what it brings */

/* Of the calls that are ready, always the one after which least is held; the earlier one where that is equal. */
static an_status frees_early(fit *f)
{
    const size_t n = f->s->calls.len;
    if (n > REORDER_MAX) return AN_OK;
    an_status st = AN_ERR_NOMEM;
    an_call *calls = an_mem_alloc(f->ctx, n * sizeof *calls);            /* as they were */
    uint32_t *waits = an_mem_zalloc(f->ctx, n * sizeof *waits);
    uint32_t *uses = an_mem_zalloc(f->ctx, f->temps.len * sizeof *uses); /* calls that are to come, of each temporary */
    unsigned char *edges = an_mem_zalloc(f->ctx, n * n);                 /* [a * n + b]: a before b */
    unsigned char *done = an_mem_zalloc(f->ctx, n);
    if (!calls || !waits || !uses || !edges || !done) goto end;
    if (n) memcpy(calls, f->s->calls.data, n * sizeof *calls);
    for (size_t b = 0; b < n; b++) {
        for (size_t a = 0; a < b; a++)
            if (conflict(&calls[a], &calls[b])) {
                edges[a * n + b] = 1;
                waits[b]++;
            }
        for (uint32_t k = 0; k < calls[b].nbuffers; k++) {
            const uint32_t t = an_idmap_get(&f->temp_of, calls[b].buffers[k].id);
            if (t) uses[t - 1]++;
        }
    }
    for (size_t round = 0; round < n; round++) {
        size_t best = n;
        double least = 0;
        for (size_t c = 0; c < n; c++) {
            if (done[c] || waits[c]) continue;
            double held = 0;
            for (uint32_t k = 0; k < calls[c].nbuffers; k++) {
                const temp *t = temp_at(f, calls[c].buffers[k]);
                if (!t) continue;
                const bool makes = calls[c].is_written[k] && !calls[c].is_read[k];
                const bool ends = uses[t - f->temps.data] == 1;
                held += makes ? (double)t->nbytes : 0;
                held -= ends ? (double)t->nbytes : 0;
            }
            if (best == n || held < least) {
                best = c;
                least = held;
            }
        }
        done[best] = 1;
        f->s->calls.data[round] = calls[best];
        for (uint32_t k = 0; k < calls[best].nbuffers; k++) {
            const uint32_t t = an_idmap_get(&f->temp_of, calls[best].buffers[k].id);
            if (t) uses[t - 1]--;
        }
        for (size_t b = 0; b < n; b++) waits[b] -= edges[best * n + b];
    }
    st = AN_OK;
end:
    an_mem_free(f->ctx, calls, n * sizeof *calls);
    an_mem_free(f->ctx, waits, n * sizeof *waits);
    an_mem_free(f->ctx, uses, f->temps.len * sizeof *uses);
    an_mem_free(f->ctx, edges, n * n);
    an_mem_free(f->ctx, done, n);
    return st;
}

/* Other calls for those there are: kept if they take less memory. What writes over what it reads is kept if it takes no more: it
 * touches fewer bytes, so that more of them are in a cache. (On a GPU it may be spread over fewer threads.) */
static an_status try_it(fit *f, an_status (*change)(fit *f), bool in_place, size_t *nbytes)
{
    an_call_vec *calls = &f->s->calls;
    const size_t n = calls->len;
    size_t with = 0, sum = 0;
    an_call *before = an_mem_alloc(f->ctx, n * sizeof *before);
    if (!before) return AN_ERR_NOMEM;
    if (n) memcpy(before, calls->data, n * sizeof *before);
    an_status st = change ? change(f) : AN_OK;
    if (!st) st = planned(f, in_place, &with, &sum);
    if (!st && (with < *nbytes || (in_place && f->cost->threads == 0 && with == *nbytes)))
        *nbytes = with;
    else if (n)
        memcpy(calls->data, before, n * sizeof *before);
    an_mem_free(f->ctx, before, n * sizeof *before);
    return st;
}

/* --- making again ---------------------------------------------------------------------------------------------------- */

/* The call at which most is held. */
static size_t find_peak(const fit *f)
{
    size_t peak = 0, most = 0;
    for (size_t c = 0; c < f->s->calls.len; c++) {
        size_t held = 0;
        for (size_t i = 0; i < f->temps.len; i++) {
            const temp *t = &f->temps.data[i];
            if (t->is_used && t->first <= c && c <= t->last) held += t->nbytes;
        }
        if (held > most) {
            most = held;
            peak = c;
        }
    }
    return peak;
}

static bool touches(const an_call *c, an_uop buffer)
{
    for (uint32_t b = 0; b < c->nbuffers; b++)
        if (an_uop_eq(c->buffers[b], buffer)) return true;
    return false;
}

static bool writes(const an_call *c, an_uop buffer)
{
    for (uint32_t b = 0; b < c->nbuffers; b++)
        if (an_uop_eq(c->buffers[b], buffer) && c->is_written[b]) return true;
    return false;
}

/* Modelled ns of one call. */
static double call_ns(const fit *f, const an_call *c)
{
    return f->cost->launch_ns + (c->nbytes_read + c->nbytes_written) / f->cost->bytes_per_ns + c->flops / f->cost->ops_per_ns;
}

/* What is gained at the peak if t, idle there, is dropped and made again before call next; 0 if that cannot be. */
static size_t gain_of(fit *f, const temp *t, size_t peak, size_t next)
{
    const an_call *maker = &f->s->calls.data[t->first];
    size_t gain = t->nbytes;
    for (uint32_t b = 0; b < maker->nbuffers; b++) {
        const an_uop buffer = maker->buffers[b];
        const temp *in = temp_at(f, buffer);
        if (maker->is_written[b]) {
            if (!in || maker->is_read[b]) return 0; /* it writes what is seen elsewhere, or over itself */
            continue;
        }
        for (size_t c = t->first + 1; c < next; c++)
            if (writes(&f->s->calls.data[c], buffer)) return 0; /* what it reads is no longer there */
        if (!in || in->last >= peak) continue;
        if (in->nbytes >= gain) return 0;
        gain -= in->nbytes;
    }
    for (size_t c = t->first + 1; c < f->s->calls.len; c++)
        if (writes(&f->s->calls.data[c], t->buffer)) return 0;
    return gain;
}

/* The maker of t is called again before call next, into buffers of its own, and calls from there on read that. */
static an_status make_again(fit *f, const temp *t, size_t next)
{
    an_call again = f->s->calls.data[t->first];
    const an_uop old = t->buffer;
    an_uop fresh = AN_UOP_NONE;
    again.reason = "made again, for what it gave would not have fitted the memory budget until now";
    for (uint32_t b = 0; b < again.nbuffers; b++) {
        if (!again.is_written[b]) continue;
        const an_shape shape = an_uop_shape(f->g, again.buffers[b]);
        const an_uop copy = an_buffer_node(f->g, an_uop_dtype(f->g, again.buffers[b]), shape.dims, shape.rank);
        if (an_uop_is_none(copy)) return AN_ERR_NOMEM;
        const bool is_it = an_uop_eq(again.buffers[b], old);
        again.buffers[b] = copy;
        if (is_it) fresh = copy;
        const an_status st = add_temp(f, copy);
        if (st) return st;
    }
    an_call_vec *calls = &f->s->calls;
    if (!an_vec_reserve(f->ctx, calls, 1)) return AN_ERR_NOMEM;
    memmove(calls->data + next + 1, calls->data + next, (calls->len - next) * sizeof *calls->data);
    calls->data[next] = again;
    calls->len++;
    for (size_t c = next + 1; c < calls->len; c++)
        for (uint32_t b = 0; b < calls->data[c].nbuffers; b++)
            if (an_uop_eq(calls->data[c].buffers[b], old)) calls->data[c].buffers[b] = fresh;
    return AN_OK;
}

/* One temporary less at the peak: the one that gives most bytes for the time. *found false: there is none. */
static an_status drop_one(fit *f, bool *found)
{
    const size_t peak = find_peak(f);
    const temp *best = NULL;
    size_t best_next = 0;
    double best_score = 0;
    for (size_t i = 0; i < f->temps.len; i++) {
        const temp *t = &f->temps.data[i];
        if (!t->is_used || t->first >= peak || t->last <= peak || touches(&f->s->calls.data[peak], t->buffer)) continue;
        size_t next = peak + 1;
        while (!touches(&f->s->calls.data[next], t->buffer)) next++;
        const size_t gain = gain_of(f, t, peak, next);
        const double score = (double)gain / call_ns(f, &f->s->calls.data[t->first]);
        if (gain == 0 || score <= best_score) continue;
        best = t;
        best_next = next;
        best_score = score;
    }
    *found = best != NULL;
    if (!best) return AN_OK;
    const temp copy = *best; /* temps grow */
    return make_again(f, &copy, best_next);
}

an_status an_schedule_fit(an_graph *g, an_schedule *s, const an_uop *fixed, size_t nfixed, const an_cost *cost, size_t align,
                          size_t budget, size_t *nbytes_sum, an_trace *trace)
{
    fit f = {.g = g, .ctx = an_graph_ctx(g), .s = s, .cost = cost, .align = align};
    size_t nbytes = 0, sum = 0;
    an_trace_pass_begin(trace, "fit", g);
    an_status st = AN_OK;
    for (size_t i = 0; i < nfixed + s->outputs.len && !st; i++)
        if (!an_idmap_set(&f.fixed, f.ctx, (i < nfixed ? fixed[i] : s->outputs.data[i - nfixed]).id, 1)) st = AN_ERR_NOMEM;
    if (!st) st = find_temps(&f);
    if (!st) st = planned(&f, false, &nbytes, nbytes_sum);
    if (!st) st = try_it(&f, frees_early, false, &nbytes);
    const size_t most = 4 * s->calls.len;
    size_t again = 0;
    bool found = true;
    while (!st && budget && nbytes > budget && found && again < most) {
        find_lives(&f);
        st = drop_one(&f, &found);
        again += found;
        if (!st) st = planned(&f, false, &nbytes, &sum);
    }
    if (!st) st = try_it(&f, NULL, true, &nbytes);
    if (!st && again) an_trace_note(trace, "%zu calls are made again to stay within %zu bytes between kernels", again, budget);
    if (!st && budget && nbytes > budget)
        st = an_fail(f.ctx, AN_ERR_LIMIT, "the memory budget of %zu bytes between kernels is too small: %zu is the least that was found; give "
                     "more, or make the batch smaller", budget, nbytes);
    an_trace_pass_end(trace);
    fit_fini(&f);
    return st;
}
