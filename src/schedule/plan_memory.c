/* plan_memory.c - where temporaries live: offsets in one arena, reused when the last reader has run.
 *
 * Largest first, each at the lowest offset free for the whole of its life (greedy by size: Pisarchyk & Lee, "Efficient
 * Memory Management for Deep Neural Net Inference", 2020). */
#include "schedule/schedule.h"

#include "rewrite/rewrite.h"

typedef struct life {
    size_t index, nbytes, first, last, offset;
    bool used, placed;
} life;

bool an_buffer_nbytes(an_graph *g, an_uop buffer, size_t *nbytes)
{
    const an_shape shape = an_uop_shape(g, buffer);
    size_t n = an_dtype_nbytes(an_uop_dtype(g, buffer));
    bool fits = true;
    for (uint32_t i = 0; i < shape.rank; i++) {
        int64_t lo = 0, hi = 0;
        an_bounds(g, shape.dims[i], &lo, &hi);
        fits = fits && (hi <= 0 || an_size_mul(n, (size_t)hi, &n));
        if (hi <= 0) n = 0;
    }
    if (fits && n <= PTRDIFF_MAX) {
        *nbytes = n;
        return true;
    }
    an_str text;
    an_str_init(&text, an_graph_ctx(g));
    an_shape_print(&text, g, shape);
    an_fail(an_graph_ctx(g), AN_ERR_NOMEM, "a buffer of shape %s is larger than memory can be", an_str_cstr(&text));
    an_str_fini(&text);
    return false;
}

/* Larger first; of equal ones, the one that lives earlier. */
static bool goes_before(const life *a, const life *b)
{
    if (a->nbytes != b->nbytes) return a->nbytes > b->nbytes;
    if (a->first != b->first) return a->first < b->first;
    return a->index < b->index;
}

static size_t lowest_offset(const life *lives, size_t n, const life *want)
{
    size_t offset = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (size_t i = 0; i < n; i++) {
            const life *o = &lives[i];
            if (!o->placed || o->last < want->first || want->last < o->first) continue;
            if (offset < o->offset + o->nbytes && o->offset < offset + want->nbytes) {
                offset = o->offset + o->nbytes;
                moved = true;
            }
        }
    }
    return offset;
}

an_status an_plan_memory(an_graph *g, const an_call_vec *calls, const an_uop *buffers, size_t n, size_t align, bool no_reuse,
                         size_t *offsets, size_t *nbytes, size_t *nbytes_sum)
{
    an_ctx *ctx = an_graph_ctx(g);
    an_idmap index = {0};
    *nbytes = *nbytes_sum = 0;
    if (n == 0) return AN_OK;
    an_status st = AN_ERR_NOMEM;
    life *lives = an_mem_zalloc(ctx, n * sizeof *lives);
    if (!lives) goto done;
    for (size_t i = 0; i < n; i++) {
        lives[i].index = i;
        if (!an_buffer_nbytes(g, buffers[i], &lives[i].nbytes)) goto done;
        lives[i].nbytes = (lives[i].nbytes + align - 1) / align * align;
        if (!an_size_add(*nbytes_sum, lives[i].nbytes, nbytes_sum)) goto done;
        if (!an_idmap_set(&index, ctx, buffers[i].id, (uint32_t)i + 1)) goto done;
    }
    for (size_t c = 0; c < calls->len; c++)
        for (uint32_t b = 0; b < calls->data[c].nbuffers; b++) {
            const uint32_t i = an_idmap_get(&index, calls->data[c].buffers[b].id);
            if (!i) continue;
            life *l = &lives[i - 1];
            if (!l->used) l->first = c;
            l->used = true;
            l->last = c;
        }
    for (size_t i = 0; no_reuse && i < n; i++) {
        lives[i].first = 0;
        lives[i].last = calls->len;
    }
    for (size_t round = 0; round < n; round++) {
        life *best = NULL;
        for (size_t i = 0; i < n; i++)
            if (!lives[i].placed && (!best || goes_before(&lives[i], best))) best = &lives[i];
        best->offset = best->used ? lowest_offset(lives, n, best) : 0;
        best->placed = true;
        if (!best->used) best->nbytes = 0;
        offsets[best->index] = best->offset;
        if (best->offset + best->nbytes > *nbytes) *nbytes = best->offset + best->nbytes;
    }
    st = AN_OK;
done:
    an_mem_free(ctx, lives, n * sizeof *lives);
    an_idmap_fini(&index, ctx);
    return st;
}
