/* view.h - a graph as a list of nodes, for printing and drawing. Everything here only reads. */
#ifndef ANNEAL_VIEW_H
#define ANNEAL_VIEW_H

#include <anneal/dtype.h>
#include <anneal/graph.h>
#include <anneal/inspect.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A node, valid during the call that hands it out.
 *   number   its place in the walk, from 0: sources have smaller ones
 *   op       as in the op table
 *   arg      what the op's argument says: "0.5", "add 1"; "" where there is none
 *   shape    "(64, 10)", "()" for rank 0
 *   rule     the rule that made it; "" for none
 *   srcs     numbers of its sources */
typedef struct an_node_view {
    uint32_t number;
    an_uop uop;
    const char *op, *arg, *shape, *rule;
    an_dtype dtype;
    an_phase phase;
    uint32_t nsrcs;
    const uint32_t *srcs;
} an_node_view;

/* Visits everything below the roots, sources first, each node once, in an order that does not depend on how the graph was
 * built. The visitor builds no nodes. Errors: AN_ERR_NOMEM. */
AN_API an_status an_graph_walk(an_graph *g, const an_uop *roots, uint32_t n,
                               void (*visit)(void *user, const an_node_view *node), void *user);

/* The structural key of everything below the roots, 128 bits: equal in every process and for every order of building. Buffers
 * and leaves count by the order in which they are met. Errors: AN_ERR_NOMEM. */
AN_API an_status an_graph_key(an_graph *g, const an_uop *roots, uint32_t n, uint64_t *lo, uint64_t *hi);

#ifdef __cplusplus
}
#endif
#endif
