/* bounds.h - the least and greatest value of a bool, int, uint or index expression, by interval arithmetic over the graph:
 * sound, not tight. There is no solver (docs/ARCHITECTURE.md).
 *
 * Bounds are inclusive and saturate: INT64_MIN and INT64_MAX also stand for "no bound known". Ints that may wrap get the
 * bounds of their dtype; u64 above INT64_MAX, floats and everything not a number of these kinds are unbounded. */
#ifndef AN_REWRITE_BOUNDS_H
#define AN_REWRITE_BOUNDS_H

#include "base/idmap.h"
#include "ir/uop.h"

typedef struct an_interval {
    int64_t lo, hi;
} an_interval;

/* What has been worked out, by node. Nodes are immutable, so it stays right as the graph grows. */
typedef struct an_bounds_memo {
    an_graph *graph;
    an_idmap index; /* node id -> 1 + index of its interval */
    AN_VEC(an_interval) intervals;
    AN_VEC(an_uop) stack;
    AN_VEC(an_uop) narrowed;
    bool impossible; /* narrowed to nothing: what was said from outside cannot be so */
} an_bounds_memo;

void an_bounds_memo_init(an_bounds_memo *m, an_graph *g);
void an_bounds_memo_fini(an_bounds_memo *m);

/* The bounds of u; unbounded when memory is out (the context has the sentence). Iterative. */
an_interval an_bounds_get(an_bounds_memo *m, an_uop u);
/* From now on u lies in v too, by knowledge from outside (a gate): narrows what is known of u. Nodes already asked for
 * that use u keep their bounds: see restart. Where nothing is left the bounds stay and the memo becomes impossible. False
 * when memory is out. */
bool an_bounds_narrow(an_bounds_memo *m, an_uop u, an_interval v);

/* Forgets all but what was narrowed, so that bounds worked out before narrowing follow from the narrower ones. */
bool an_bounds_restart(an_bounds_memo *m);

/* Once, without a memo of the caller's: costs the size of the expression. */
void an_bounds(an_graph *g, an_uop u, int64_t *lo, int64_t *hi);

#endif
