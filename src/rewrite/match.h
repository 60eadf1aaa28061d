/* match.h - reading nodes, inline: for the C that upatc writes, and nothing else. Matching is most of what rewriting does, and
 * nearly all of it is looking at an op and moving on. */
#ifndef AN_REWRITE_MATCH_H
#define AN_REWRITE_MATCH_H

#include "ir/graph.h"
#include "rewrite/rules.h"

static inline an_op an_at_op(const an_graph *g, an_uop u)
{
    return (an_op)an_graph_node(g, u.id)->op;
}
static inline an_dtype an_at_dtype(const an_graph *g, an_uop u)
{
    return (an_dtype)an_graph_node(g, u.id)->dtype;
}
static inline uint32_t an_at_nsrc(const an_graph *g, an_uop u)
{
    return an_graph_node(g, u.id)->nsrc;
}
static inline an_uop an_at_src(const an_graph *g, an_uop u, uint32_t i)
{
    return g->srcs.data[an_graph_node(g, u.id)->src + i];
}
static inline bool an_rule_is_dtype(const an_graph *g, an_uop u, uint32_t mask)
{
    return mask >> an_at_dtype(g, u) & 1u;
}
static inline bool an_rule_is_op(const an_graph *g, an_uop u, uint64_t mask)
{
    return mask >> an_at_op(g, u) & 1u;
}

/* Could u be a constant, as an_rule_const_of sees it? Mostly not, and then there is no need to ask. */
static inline bool an_at_maybe_const(const an_graph *g, an_uop u)
{
    const uint64_t through = UINT64_C(1) << AN_OP_CONST | UINT64_C(1) << AN_OP_BROADCAST | UINT64_C(1) << AN_OP_RESHAPE |
                             UINT64_C(1) << AN_OP_EXPAND | UINT64_C(1) << AN_OP_PERMUTE | UINT64_C(1) << AN_OP_SHRINK |
                             UINT64_C(1) << AN_OP_FLIP;
    return through >> an_at_op(g, u) & 1u;
}
static inline bool an_at_is_const(const an_graph *g, an_uop u)
{
    return an_at_maybe_const(g, u) && an_rule_is_const(g, u);
}
static inline bool an_at_is_number(const an_graph *g, an_uop u, double v)
{
    return an_at_maybe_const(g, u) && an_rule_is_number(g, u, v);
}

#endif
