/* dag.h - what the passes share: a kernel in order with the ranges each node depends on, and ranges replaced in it.
 * For src/codegen only.
 *
 * Until linearize.c a kernel is a pure expression: a REDUCE binds its ranges, an UPCAST or VECTOR range is free in the
 * stores that use it, and no node knows its place. So every pass is a substitution, and hash-consing merges what the
 * copies have in common. */
#ifndef AN_CODEGEN_DAG_H
#define AN_CODEGEN_DAG_H

#include "base/idmap.h"
#include "ir/uop.h"

enum { AN_RANGESET_WORDS = 4, AN_RANGES_MAX = 64 * AN_RANGESET_WORDS };

/* A set of ranges of one kernel, by their index in an_dag.ranges. */
typedef struct an_rangeset {
    uint64_t w[AN_RANGESET_WORDS];
} an_rangeset;

static inline bool an_rangeset_has(const an_rangeset *s, size_t i)
{
    return (s->w[i / 64] >> (i % 64) & 1u) != 0;
}
static inline void an_rangeset_add(an_rangeset *s, size_t i)
{
    s->w[i / 64] |= (uint64_t)1 << (i % 64);
}
static inline void an_rangeset_drop(an_rangeset *s, size_t i)
{
    s->w[i / 64] &= ~((uint64_t)1 << (i % 64));
}
static inline void an_rangeset_join(an_rangeset *s, const an_rangeset *t)
{
    for (int i = 0; i < AN_RANGESET_WORDS; i++) s->w[i] |= t->w[i];
}
static inline bool an_rangeset_meets(const an_rangeset *s, const an_rangeset *t)
{
    for (int i = 0; i < AN_RANGESET_WORDS; i++)
        if (s->w[i] & t->w[i]) return true;
    return false;
}
static inline bool an_rangeset_eq(const an_rangeset *s, const an_rangeset *t)
{
    for (int i = 0; i < AN_RANGESET_WORDS; i++)
        if (s->w[i] != t->w[i]) return false;
    return true;
}
static inline bool an_rangeset_is_empty(const an_rangeset *s)
{
    for (int i = 0; i < AN_RANGESET_WORDS; i++)
        if (s->w[i]) return false;
    return true;
}

/* The nodes below some roots. Positions are indices into order.
 *   ranges  every RANGE met, ascending by id: outer loops first
 *   deps    by position: the ranges a node's value varies with; a REDUCE does not with those it binds */
typedef struct an_dag {
    an_graph *g;
    an_uop_vec order;
    an_idmap pos; /* node id -> 1 + position */
    an_uop_vec ranges;
    an_rangeset *deps;
} an_dag;

/* Fills d; an_dag_fini also after a failure. Errors: AN_ERR_NOMEM; AN_ERR_LIMIT over AN_RANGES_MAX ranges. */
an_status an_dag_init(an_dag *d, an_graph *g, const an_uop *roots, uint32_t n);
void an_dag_fini(an_dag *d);

static inline size_t an_dag_pos(const an_dag *d, an_uop u)
{
    return an_idmap_get(&d->pos, u.id) - 1u;
}
static inline const an_rangeset *an_dag_deps(const an_dag *d, an_uop u)
{
    return &d->deps[an_dag_pos(d, u)];
}
/* Index of a RANGE in d->ranges, or AN_RANGES_MAX. */
size_t an_dag_range_at(const an_dag *d, an_uop range);

/* How much each index expression grows when range (an index into d->ranges) does by one: coef[position], AN_COEF_NONE
 * where that is not one constant, and for nodes that are no index. coef has room for d->order.len. */
#define AN_COEF_NONE INT64_MIN
void an_dag_coefs(const an_dag *d, size_t range, int64_t *coef);

/* The bound of a RANGE where it is a constant, else -1. */
int64_t an_range_bound(const an_graph *g, an_uop range);

/* u over other sources. Index sums and products fold; a REDUCE (whose number of sources may have changed) drops sources
 * that are no ranges any more, is its value when none is left, and its identity when a range is empty. */
an_uop an_cg_rebuild(an_graph *g, an_uop u, const an_uop *src, uint32_t nsrc);
an_uop an_cg_reduce(an_graph *g, an_op op, an_uop value, const an_uop *ranges, uint32_t n);

/* A range and what stands for it from now on; a REDUCE that bound it binds ranges[0..nranges-1] instead. */
typedef struct an_range_sub {
    an_uop from, to;
    an_uop ranges[2];
    uint32_t nranges;
} an_range_sub;

/* Replaces ranges below the roots, in place. Errors: AN_ERR_NOMEM. */
an_status an_replace_ranges(an_graph *g, an_uop *roots, size_t nroots, const an_range_sub *subs, size_t nsubs);
/* The same, but a REDUCE below that binds them all keeps them: within it they are its own. */
an_status an_replace_free_ranges(an_graph *g, an_uop *roots, size_t nroots, const an_range_sub *subs, size_t nsubs);

/* A map of nodes, filled in topological order; what is not in it maps to itself. */
typedef struct an_nodemap {
    an_idmap ids;
} an_nodemap;
static inline an_uop an_nodemap_get(const an_nodemap *m, an_uop u)
{
    const uint32_t id = an_idmap_get(&m->ids, u.id);
    return (an_uop){id ? id : u.id};
}
bool an_nodemap_set(an_nodemap *m, an_ctx *ctx, an_uop from, an_uop to);
void an_nodemap_fini(an_nodemap *m, an_ctx *ctx);

/* The sources of u as m maps them, rebuilt if one changed. scratch is the caller's, reused. */
an_uop an_nodemap_rebuild(const an_nodemap *m, an_graph *g, an_uop u, an_uop_vec *scratch);

#endif
