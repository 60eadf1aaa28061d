/* pickle.c - a schedule as bytes and back, so that it need not be made again for a graph of the same structure.
 *
 *   u32 counts: nodes, temporaries, calls, outputs; u64 bytes of temporaries without reuse
 *   node       u8 op, dtype, lanes; u16 sources, tag; u64 arg; u32 a source (an earlier node). Of a VAR the arg is the length of its
 *              name, which follows
 *   temporary  u8 dtype, rank; u32 a dim (a node)
 *   call       u32 sink (a node); name and reason (u16 length, text); u8 phase; u32 band, buffers; f64 flops, bytes read and written;
 *              a buffer: u32 (2 i: the i-th external, 2 i + 1: the i-th temporary), u8 read | written << 1
 *   output     u32 a buffer
 *
 * Numbers are little-endian. External buffers are those of the graph, in the order in which they are met from the roots: the
 * order in which the structural key counts them. */
#include "schedule/schedule.h"

#include "base/idmap.h"

/* --- writing ----------------------------------------------------------------------------------------------------- */

typedef struct writer {
    an_ctx *ctx;
    an_blob *out;
    bool failed;
} writer;

static void put(writer *w, uint64_t v, uint32_t nbytes)
{
    w->failed = w->failed || !an_vec_reserve(w->ctx, w->out, nbytes);
    for (uint32_t i = 0; i < nbytes && !w->failed; i++) w->out->data[w->out->len++] = (uint8_t)(v >> (8 * i));
}

static void put_f64(writer *w, double v)
{
    uint64_t bits = 0;
    memcpy(&bits, &v, sizeof bits);
    put(w, bits, 8);
}

static void put_text(writer *w, const char *text, uint32_t length_nbytes)
{
    const size_t n = strlen(text);
    put(w, n, length_nbytes);
    for (size_t i = 0; i < n; i++) put(w, (uint8_t)text[i], 1);
}

static bool put_node(writer *w, const an_graph *g, an_uop u, const an_idmap *index)
{
    const an_op op = an_uop_op(g, u);
    const uint32_t n = an_uop_nsrc(g, u);
    if (an_op_has(op, AN_TRAIT_IDENT)) return false; /* not of a kernel */
    put(w, (uint64_t)op, 1);
    put(w, (uint64_t)an_uop_dtype(g, u), 1);
    put(w, an_uop_lanes(g, u), 1);
    put(w, n, 2);
    put(w, an_uop_tag(g, u), 2);
    if (op == AN_OP_VAR)
        put_text(w, an_uop_name(g, u), 8);
    else
        put(w, an_uop_arg(g, u), 8);
    for (uint32_t i = 0; i < n; i++) put(w, an_idmap_get(index, an_uop_src(g, u, i).id) - 1, 4);
    return true;
}

an_status an_schedule_save(an_graph *g, const an_schedule *s, const an_uop *externals, size_t n, size_t nbytes_sum, an_blob *out)
{
    an_ctx *ctx = an_graph_ctx(g);
    writer w = {.ctx = ctx, .out = out};
    an_uop_vec roots = {0}, order = {0}, temps = {0};
    an_idmap index = {0}, buffers = {0}; /* buffers: BUFFER -> 1 + its number in the format */
    bool ok = true;
    out->len = 0;
    for (size_t i = 0; i < n && ok; i++) ok = an_idmap_set(&buffers, ctx, externals[i].id, (uint32_t)(2 * i) + 1);
    for (size_t c = 0; c < s->calls.len && ok; c++) {
        const an_call *call = &s->calls.data[c];
        ok = an_vec_push(ctx, &roots, call->sink);
        for (uint32_t b = 0; b < call->nbuffers && ok; b++) {
            if (an_idmap_get(&buffers, call->buffers[b].id)) continue;
            ok = an_idmap_set(&buffers, ctx, call->buffers[b].id, (uint32_t)(2 * temps.len + 1) + 1) && an_vec_push(ctx, &temps, call->buffers[b]);
            const an_shape shape = an_uop_shape(g, call->buffers[b]);
            for (uint32_t d = 0; d < shape.rank && ok; d++) ok = an_vec_push(ctx, &roots, shape.dims[d]);
        }
    }
    for (size_t i = 0; i < s->outputs.len && ok; i++) { /* of no elements, so that no call meets it */
        const an_uop b = s->outputs.data[i];
        if (an_idmap_get(&buffers, b.id)) continue;
        ok = an_idmap_set(&buffers, ctx, b.id, (uint32_t)(2 * temps.len + 1) + 1) && an_vec_push(ctx, &temps, b);
        const an_shape shape = an_uop_shape(g, b);
        for (uint32_t d = 0; d < shape.rank && ok; d++) ok = an_vec_push(ctx, &roots, shape.dims[d]);
    }
    ok = ok && an_toposort(g, roots.data, (uint32_t)roots.len, &order) == AN_OK;
    for (size_t i = 0; i < order.len && ok; i++) ok = an_idmap_set(&index, ctx, order.data[i].id, (uint32_t)i + 1);
    an_status st = ok ? AN_OK : AN_ERR_NOMEM;
    if (st) goto done;
    put(&w, order.len, 4);
    put(&w, temps.len, 4);
    put(&w, s->calls.len, 4);
    put(&w, s->outputs.len, 4);
    put(&w, nbytes_sum, 8);
    for (size_t i = 0; i < order.len; i++) {
        if (put_node(&w, g, order.data[i], &index)) continue;
        out->len = 0; /* cannot be kept; the caller sees an empty blob */
        goto done;
    }
    for (size_t i = 0; i < temps.len; i++) {
        const an_shape shape = an_uop_shape(g, temps.data[i]);
        put(&w, (uint64_t)an_uop_dtype(g, temps.data[i]), 1);
        put(&w, shape.rank, 1);
        for (uint32_t d = 0; d < shape.rank; d++) put(&w, an_idmap_get(&index, shape.dims[d].id) - 1, 4);
    }
    for (size_t c = 0; c < s->calls.len; c++) {
        const an_call *call = &s->calls.data[c];
        put(&w, an_idmap_get(&index, call->sink.id) - 1, 4);
        put_text(&w, call->name, 2);
        put_text(&w, call->reason, 2);
        put(&w, (uint64_t)call->phase, 1);
        put(&w, call->band, 4);
        put(&w, call->nbuffers, 4);
        put_f64(&w, call->flops);
        put_f64(&w, call->nbytes_read);
        put_f64(&w, call->nbytes_written);
        for (uint32_t b = 0; b < call->nbuffers; b++) {
            put(&w, an_idmap_get(&buffers, call->buffers[b].id) - 1, 4);
            put(&w, (uint64_t)call->is_read[b] | (uint64_t)call->is_written[b] << 1, 1);
        }
    }
    for (size_t i = 0; i < s->outputs.len; i++) put(&w, an_idmap_get(&buffers, s->outputs.data[i].id) - 1, 4);
    st = w.failed ? AN_ERR_NOMEM : AN_OK;
done:
    an_vec_fini(ctx, &roots);
    an_vec_fini(ctx, &order);
    an_vec_fini(ctx, &temps);
    an_idmap_fini(&index, ctx);
    an_idmap_fini(&buffers, ctx);
    return st;
}

/* --- reading: nothing of it is trusted ---------------------------------------------------------------------------- */

typedef struct reader {
    an_graph *g;
    const uint8_t *at, *end;
    bool bad; /* it is no schedule */
    an_uop_vec nodes, temps;
    const an_uop *externals;
    size_t nexternals;
} reader;

static uint64_t get(reader *r, uint32_t nbytes)
{
    uint64_t v = 0;
    r->bad = r->bad || (size_t)(r->end - r->at) < nbytes;
    for (uint32_t i = 0; i < nbytes && !r->bad; i++) v |= (uint64_t)*r->at++ << (8 * i);
    return v;
}

static double get_f64(reader *r)
{
    const uint64_t bits = get(r, 8);
    double v = 0;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* A copy in the graph's arena; NULL when it is bad, or memory is out. */
static const char *get_text(reader *r, uint32_t length_nbytes)
{
    const uint64_t n = get(r, length_nbytes);
    r->bad = r->bad || n > (uint64_t)(r->end - r->at) || n > 4096 || memchr(r->at, 0, (size_t)n);
    char *text = r->bad ? NULL : an_graph_alloc(r->g, (size_t)n + 1);
    if (!text) return NULL;
    memcpy(text, r->at, (size_t)n);
    r->at += n;
    return text;
}

static an_uop get_node_ref(reader *r)
{
    const uint64_t i = get(r, 4);
    r->bad = r->bad || i >= r->nodes.len;
    return r->bad ? AN_UOP_NONE : r->nodes.data[i];
}

static an_uop get_buffer(reader *r)
{
    const uint64_t v = get(r, 4), i = v / 2;
    r->bad = r->bad || i >= (v % 2 ? r->temps.len : r->nexternals);
    return r->bad ? AN_UOP_NONE : v % 2 ? r->temps.data[i] : r->externals[i];
}

static an_status get_node(reader *r)
{
    an_uop src[256];
    const an_op op = (an_op)get(r, 1);
    const an_dtype dtype = (an_dtype)get(r, 1);
    const uint32_t lanes = (uint32_t)get(r, 1), n = (uint32_t)get(r, 2), tag = (uint32_t)get(r, 2);
    r->bad = r->bad || op <= AN_OP_NONE || op >= AN_OP_COUNT || dtype >= AN_DTYPE_COUNT || lanes < 1 || lanes > AN_LANES_MAX ||
             n > sizeof src / sizeof *src;
    if (r->bad) return AN_OK;
    const an_op_info *info = an_op_info_of(op);
    r->bad = (info->arity >= 0 && (uint32_t)info->arity != n) || an_op_has(op, AN_TRAIT_IDENT);
    const char *name = r->bad || op != AN_OP_VAR ? NULL : get_text(r, 8);
    const uint64_t arg = op == AN_OP_VAR ? 0 : get(r, 8);
    for (uint32_t i = 0; i < n && !r->bad; i++) src[i] = get_node_ref(r);
    if (r->bad) return AN_OK;
    an_uop u = AN_UOP_NONE;
    if (op == AN_OP_VAR) {
        int64_t min = 0, max = 0;
        r->bad = n != 2 || !an_uop_int(r->g, src[0], &min) || !an_uop_int(r->g, src[1], &max);
        if (r->bad) return AN_OK;
        u = name ? an_uop_var(r->g, name, min, max) : AN_UOP_NONE;
    } else {
        u = an_uop_new_full(r->g, op, dtype, lanes, src, n, arg, tag);
    }
    return !an_uop_is_none(u) && an_vec_push(an_graph_ctx(r->g), &r->nodes, u) ? AN_OK : AN_ERR_NOMEM;
}

static an_status get_temp(reader *r)
{
    an_uop dims[AN_RANK_MAX];
    const an_dtype dtype = (an_dtype)get(r, 1);
    const uint32_t rank = (uint32_t)get(r, 1);
    r->bad = r->bad || dtype <= AN_DTYPE_NONE || dtype >= AN_DTYPE_COUNT || dtype == AN_INDEX || rank > AN_RANK_MAX;
    for (uint32_t i = 0; i < rank && !r->bad; i++) {
        dims[i] = get_node_ref(r);
        r->bad = r->bad || an_uop_dtype(r->g, dims[i]) != AN_INDEX;
    }
    if (r->bad) return AN_OK;
    const an_uop b = an_buffer_node(r->g, dtype, dims, rank);
    return !an_uop_is_none(b) && an_vec_push(an_graph_ctx(r->g), &r->temps, b) ? AN_OK : AN_ERR_NOMEM;
}

static an_status get_call(reader *r, an_schedule *out)
{
    an_call c = {.sink = get_node_ref(r)};
    c.name = get_text(r, 2);
    c.reason = get_text(r, 2);
    if (!r->bad && (!c.name || !c.reason)) return AN_ERR_NOMEM;
    const uint64_t phase = get(r, 1);
    c.phase = (an_phase)phase;
    c.band = (uint32_t)get(r, 4);
    c.nbuffers = (uint32_t)get(r, 4);
    c.flops = get_f64(r);
    c.nbytes_read = get_f64(r);
    c.nbytes_written = get_f64(r);
    r->bad = r->bad || phase >= AN_PHASE_COUNT || c.nbuffers > AN_KERNEL_PARAM_MAX || an_uop_op(r->g, c.sink) != AN_OP_SINK;
    for (uint32_t b = 0; b < c.nbuffers && !r->bad; b++) {
        c.buffers[b] = get_buffer(r);
        const uint64_t flags = get(r, 1);
        c.is_read[b] = flags & 1;
        c.is_written[b] = flags >> 1 & 1;
        r->bad = r->bad || flags > 3;
    }
    if (r->bad) return AN_OK;
    return an_vec_push(an_graph_ctx(r->g), &out->calls, c) ? AN_OK : AN_ERR_NOMEM;
}

an_status an_schedule_load(an_graph *g, const void *data, size_t nbytes, const an_uop *externals, size_t n, size_t nroots,
                           an_schedule *out, size_t *nbytes_sum, bool *is_good)
{
    an_ctx *ctx = an_graph_ctx(g);
    reader r = {.g = g, .at = data, .end = (const uint8_t *)data + nbytes, .externals = externals, .nexternals = n};
    *out = (an_schedule){0};
    const uint64_t nnodes = get(&r, 4), ntemps = get(&r, 4), ncalls = get(&r, 4), noutputs = get(&r, 4);
    *nbytes_sum = (size_t)get(&r, 8);
    r.bad = r.bad || noutputs != nroots;
    an_status st = AN_OK;
    for (uint64_t i = 0; i < nnodes && !st && !r.bad; i++) st = get_node(&r);
    for (uint64_t i = 0; i < ntemps && !st && !r.bad; i++) st = get_temp(&r);
    for (uint64_t i = 0; i < ncalls && !st && !r.bad; i++) st = get_call(&r, out);
    for (uint64_t i = 0; i < noutputs && !st && !r.bad; i++) {
        const an_uop b = get_buffer(&r);
        if (!r.bad && !an_vec_push(ctx, &out->outputs, b)) st = AN_ERR_NOMEM;
    }
    r.bad = r.bad || (!st && r.at != r.end);
    an_vec_fini(ctx, &r.nodes);
    an_vec_fini(ctx, &r.temps);
    *is_good = !r.bad && !st;
    if (r.bad || st) an_schedule_fini(g, out);
    return st;
}
