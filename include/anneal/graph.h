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
typedef enum an_phase { AN_PHASE_FORWARD, AN_PHASE_BACKWARD, AN_PHASE_UPDATE } an_phase;

/* Errors: AN_ERR_NOMEM. */
AN_API an_status an_graph_create(an_ctx *ctx, an_graph **out);
AN_API void an_graph_destroy(an_graph *g); /* its nodes and tensors with it; NULL is a no-op */

#ifdef __cplusplus
}
#endif
#endif
