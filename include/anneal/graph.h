/* graph.h - a graph owns nodes and tensors. Handles are cheap; everything is freed together. */
#ifndef ANNEAL_GRAPH_H
#define ANNEAL_GRAPH_H

#include <anneal/ctx.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct an_graph an_graph;

/* A node of the graph, by value. id 0 is no node. */
typedef struct an_uop {
    uint32_t id;
} an_uop;
#define AN_UOP_NONE ((an_uop){0})

/* What a node was made for. Never part of its identity. */
typedef enum an_phase {
    AN_PHASE_FORWARD,
    AN_PHASE_BACKWARD, /* by reverse mode */
    AN_PHASE_UPDATE,
    AN_PHASE_TANGENT /* by forward mode */
} an_phase;
enum { AN_PHASE_COUNT = AN_PHASE_TANGENT + 1 };

/* Errors: AN_ERR_NOMEM. */
AN_API an_status an_graph_create(an_ctx *ctx, an_graph **out);
AN_API void an_graph_destroy(an_graph *g); /* its nodes and tensors with it; NULL is a no-op */
AN_API an_ctx *an_graph_ctx(const an_graph *g);

/* Zeroed memory that lives as long as the graph: for handles. NULL when memory is out. */
AN_API void *an_graph_alloc(an_graph *g, size_t nbytes);

/* The phase of nodes made from now on; returns the one before. */
AN_API an_phase an_graph_set_phase(an_graph *g, an_phase phase);

/* Arithmetic of dimensions (an_dim and an_symbol of tensor.h make them). Equal values are one node, so shapes made in different ways fit: n*4/4 is n, and (n + 1) - n is 1.
 * an_dim_div is exact: AN_UOP_NONE with AN_ERR_SHAPE where b may not divide a. */
AN_API an_uop an_dim_add(an_graph *g, an_uop a, an_uop b);
AN_API an_uop an_dim_sub(an_graph *g, an_uop a, an_uop b);
AN_API an_uop an_dim_mul(an_graph *g, an_uop a, an_uop b);
AN_API an_uop an_dim_div(an_graph *g, an_uop a, an_uop b);

#ifdef __cplusplus
}
#endif
#endif
