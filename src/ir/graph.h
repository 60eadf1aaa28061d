/* graph.h - the memory of a graph. For src/ir only.
 *
 *   nodes   chunks of CHUNK nodes; id i is nodes[i / CHUNK][i % CHUNK], and never moves
 *   srcs    one growing array; a node's sources are nsrc ids from srcs[node.src]
 *   table   open addressing, ids by structural hash; 0 is an empty slot
 *   shapes  interned lists of dims; dims live in the arena
 *   arena   blocks freed together */
#ifndef AN_IR_GRAPH_H
#define AN_IR_GRAPH_H

#include "ir/uop.h"

enum { AN_CHUNK_BITS = 12, AN_CHUNK = 1 << AN_CHUNK_BITS };

typedef struct an_block {
    struct an_block *next;
    size_t nbytes, used;
} an_block;

struct an_graph {
    an_ctx *ctx;
    AN_VEC(an_node *) chunks;
    uint32_t len; /* ids in use, 0 (no node) included */
    AN_VEC(an_uop) srcs;
    uint32_t *table;
    size_t table_cap; /* a power of two */
    AN_VEC(an_shape) shapes;
    uint32_t *shape_table;
    size_t shape_cap;
    AN_VEC(const char *) names; /* of VARs */
    AN_VEC(an_uop) vars;        /* the first of each name */
    an_block *arena;
    uint64_t unique; /* last identity given */
    an_phase phase;
    uint32_t rule;
    void *runtime;
    void (*runtime_destroy)(an_graph *g, void *data);
};

static inline an_node *an_graph_node(const an_graph *g, uint32_t id)
{
    return &g->chunks.data[id >> AN_CHUNK_BITS][id & (AN_CHUNK - 1)];
}

/* The node with these fields, new or existing; shape is in g->shapes. */
an_uop an_graph_intern(an_graph *g, const an_node *fields, const an_uop *src);

/* The shape of a node with these fields; false when memory is out. */
bool an_shape_infer(an_graph *g, an_op op, const an_uop *src, uint32_t nsrc, uint64_t arg, uint32_t *shape);
bool an_shape_id(an_graph *g, const an_uop *dims, uint32_t rank, uint32_t *id);

#endif
