/* graph.c - a graph's life, its arena, and the interning of nodes. */
#include "ir/graph.h"

enum { TABLE_MIN = 1024, BLOCK_MIN = 16384 };

an_status an_graph_create(an_ctx *ctx, an_graph **out)
{
    an_graph *g = an_mem_zalloc(ctx, sizeof *g);
    if (!g) return AN_ERR_NOMEM;
    g->ctx = ctx;
    g->len = 1;
    g->table = an_mem_zalloc(ctx, TABLE_MIN * sizeof *g->table);
    g->table_cap = g->table ? TABLE_MIN : 0;
    const an_shape scalar = {0};
    an_node *chunk = an_mem_zalloc(ctx, AN_CHUNK * sizeof *chunk);
    bool ok = g->table && chunk && an_vec_push(ctx, &g->chunks, chunk);
    if (!ok && chunk) an_mem_free(ctx, chunk, AN_CHUNK * sizeof *chunk);
    ok = ok && an_vec_push(ctx, &g->shapes, scalar);
    if (!ok) {
        an_graph_destroy(g);
        return AN_ERR_NOMEM;
    }
    *out = g;
    return AN_OK;
}

void an_graph_destroy(an_graph *g)
{
    if (!g) return;
    an_ctx *ctx = g->ctx;
    if (g->runtime_destroy) g->runtime_destroy(g, g->runtime);
    for (size_t i = 0; i < g->chunks.len; i++)
        an_mem_free(ctx, g->chunks.data[i], AN_CHUNK * sizeof(an_node));
    an_vec_fini(ctx, &g->chunks);
    an_vec_fini(ctx, &g->srcs);
    an_vec_fini(ctx, &g->shapes);
    an_vec_fini(ctx, &g->names);
    an_vec_fini(ctx, &g->vars);
    an_mem_free(ctx, g->table, g->table_cap * sizeof *g->table);
    an_mem_free(ctx, g->shape_table, g->shape_cap * sizeof *g->shape_table);
    for (an_block *b = g->arena; b;) {
        an_block *next = b->next;
        an_mem_free(ctx, b, b->nbytes);
        b = next;
    }
    an_mem_free(ctx, g, sizeof *g);
}

void *an_graph_alloc(an_graph *g, size_t nbytes)
{
    const size_t align = _Alignof(max_align_t), head = (sizeof(an_block) + align - 1) / align * align;
    if (nbytes > SIZE_MAX / 2) {
        an_fail(g->ctx, AN_ERR_NOMEM, "out of memory: %zu bytes were asked for", nbytes);
        return NULL;
    }
    nbytes = (nbytes + align - 1) / align * align;
    an_block *b = g->arena;
    if (!b || b->nbytes - b->used < nbytes) {
        const size_t size = head + nbytes > BLOCK_MIN ? head + nbytes : BLOCK_MIN;
        b = an_mem_zalloc(g->ctx, size);
        if (!b) return NULL;
        *b = (an_block){g->arena, size, head};
        g->arena = b;
    }
    void *p = (char *)b + b->used;
    b->used += nbytes;
    return p;
}

an_ctx *an_graph_ctx(const an_graph *g)
{
    return g->ctx;
}

uint32_t an_graph_len(const an_graph *g)
{
    return g->len;
}

void *an_graph_runtime(const an_graph *g)
{
    return g->runtime;
}

void an_graph_set_runtime(an_graph *g, void *data, void (*destroy)(an_graph *g, void *data))
{
    g->runtime = data;
    g->runtime_destroy = destroy;
}

an_phase an_graph_set_phase(an_graph *g, an_phase phase)
{
    const an_phase before = g->phase;
    g->phase = phase;
    return before;
}

uint32_t an_graph_set_rule(an_graph *g, uint32_t rule)
{
    const uint32_t before = g->rule;
    g->rule = rule;
    return before;
}

void *an_graph_table(an_graph *g, size_t size, size_t *nbytes)
{
    if (!an_size_mul(g->len, size, nbytes)) return NULL;
    return an_mem_zalloc(g->ctx, *nbytes);
}

bool an_buffer_is_read(const an_graph *g, an_uop buffer)
{
    return an_graph_node(g, buffer.id)->is_read;
}

void an_buffer_note_read(an_graph *g, an_uop buffer)
{
    an_graph_node(g, buffer.id)->is_read = 1;
}

/* --- interning --------------------------------------------------------------------------------- */

/* From contents only: sources by their hash, names by their text. Nodes with identity differ by it. */
static uint64_t hash_of(const an_graph *g, const an_node *n, const an_uop *src)
{
    uint64_t arg = n->arg;
    if (n->op == AN_OP_VAR) arg = an_hash_bytes(0, g->names.data[arg], strlen(g->names.data[arg]));
    uint64_t h = an_mix64((uint64_t)n->op | (uint64_t)n->dtype << 8 | (uint64_t)n->lanes << 16 |
                              (uint64_t)n->nsrc << 24 | (uint64_t)n->tag << 40,
                          arg);
    for (uint32_t i = 0; i < n->nsrc; i++) h = an_mix64(h, an_graph_node(g, src[i].id)->hash);
    return h;
}

static bool same_node(const an_graph *g, const an_node *a, const an_node *b, const an_uop *bsrc)
{
    return a->hash == b->hash && a->op == b->op && a->dtype == b->dtype && a->lanes == b->lanes &&
           a->nsrc == b->nsrc && a->tag == b->tag && a->arg == b->arg &&
           (a->nsrc == 0 || memcmp(&g->srcs.data[a->src], bsrc, a->nsrc * sizeof *bsrc) == 0);
}

static bool table_grow(an_graph *g)
{
    const size_t cap = g->table_cap * 2;
    uint32_t *table = an_mem_zalloc(g->ctx, cap * sizeof *table);
    if (!table) return false;
    for (uint32_t id = 1; id < g->len; id++) {
        size_t i = an_graph_node(g, id)->hash & (cap - 1);
        while (table[i]) i = (i + 1) & (cap - 1);
        table[i] = id;
    }
    an_mem_free(g->ctx, g->table, g->table_cap * sizeof *g->table);
    g->table = table;
    g->table_cap = cap;
    return true;
}

an_uop an_graph_intern(an_graph *g, const an_node *fields, const an_uop *src)
{
    an_node n = *fields;
    n.hash = hash_of(g, &n, src);
    const size_t mask = g->table_cap - 1;
    size_t i = n.hash & mask;
    for (; g->table[i]; i = (i + 1) & mask)
        if (same_node(g, an_graph_node(g, g->table[i]), &n, src)) return (an_uop){g->table[i]};

    if (g->len == UINT32_MAX || g->srcs.len + n.nsrc > UINT32_MAX) {
        an_fail(g->ctx, AN_ERR_LIMIT, "the graph has %u nodes: no more fit in one graph; realize parts of it first",
                g->len);
        return AN_UOP_NONE;
    }
    if (g->len >> AN_CHUNK_BITS >= g->chunks.len) {
        an_node *chunk = an_mem_alloc(g->ctx, AN_CHUNK * sizeof *chunk);
        if (!chunk) return AN_UOP_NONE;
        if (!an_vec_push(g->ctx, &g->chunks, chunk)) {
            an_mem_free(g->ctx, chunk, AN_CHUNK * sizeof *chunk);
            return AN_UOP_NONE;
        }
    }
    /* src may point into g->srcs: keep it right when the array moves. */
    const an_uop *base = g->srcs.data;
    const bool inside = src && base && src >= base && src < base + g->srcs.len;
    const size_t at = inside ? (size_t)(src - base) : 0;
    if (!an_vec_reserve(g->ctx, &g->srcs, n.nsrc)) return AN_UOP_NONE;
    if (inside) src = g->srcs.data + at;
    n.src = (uint32_t)g->srcs.len;
    if (n.nsrc) memcpy(g->srcs.data + g->srcs.len, src, n.nsrc * sizeof *src);
    n.phase = (uint8_t)g->phase;
    n.rule = g->rule;
    if ((size_t)(g->len + 1) * 4 > g->table_cap * 3) {
        if (!table_grow(g)) return AN_UOP_NONE;
        i = n.hash & (g->table_cap - 1);
        while (g->table[i]) i = (i + 1) & (g->table_cap - 1);
    }
    for (uint32_t k = 0; k < n.nsrc; k++) {
        an_node *from = an_graph_node(g, g->srcs.data[n.src + k].id);
        if (from->op == AN_OP_BUFFER) from->is_read = 1;
    }
    g->srcs.len += n.nsrc;
    const uint32_t id = g->len++;
    *an_graph_node(g, id) = n;
    g->table[i] = id;
    return (an_uop){id};
}
