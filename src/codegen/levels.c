/* levels.c - in straight-line code with many sums side by side, the first step of all sums comes before the second of any, and
 * what a step needs comes just before it: a step's operands are then the only ones that registers have to hold. The toposort
 * has them sum by sum. */
#include "codegen/gpu.h"

#include <stdlib.h>

enum { SUMS_MIN = 32 };

typedef struct entry {
    an_uop u;
    uint32_t level, place;
} entry;

static int by_level(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->level != y->level) return x->level < y->level ? -1 : 1;
    return x->place < y->place ? -1 : x->place > y->place;
}

/* Where straight-line code ends: what is on one side of these stays there. */
static bool is_bound(an_op op)
{
    return op == AN_OP_RANGE || op == AN_OP_END || op == AN_OP_STORE;
}

/* What a step adds to: the sum so far; none if u is no step of a sum. */
static an_uop sum_before(const an_graph *g, an_uop u)
{
    if (an_uop_op(g, u) == AN_OP_MULACC) return an_uop_src(g, u, 2);
    for (uint32_t s = 0; s < 2 && an_uop_op(g, u) == AN_OP_ADD; s++)
        if (an_uop_op(g, an_uop_src(g, u, s)) == AN_OP_MATRIX) return an_uop_src(g, u, 1 - s);
    return AN_UOP_NONE;
}

static bool is_step(const an_graph *g, an_uop u)
{
    return !an_uop_is_none(sum_before(g, u));
}

/* The entries of e[0..n-1], by node id in at (1 + index), in order of levels. */
static void level(const an_graph *g, entry *e, uint32_t n, const an_idmap *at)
{
    const uint32_t last = UINT32_MAX;
    for (uint32_t i = 0; i < n; i++) {
        e[i].level = last - 1;
        if (an_uop_op(g, e[i].u) == AN_OP_ACC_SET) e[i].level = last;
        if (!is_step(g, e[i].u)) continue;
        const uint32_t before = an_idmap_get(at, sum_before(g, e[i].u).id);
        e[i].level = before && is_step(g, e[before - 1].u) ? e[before - 1].level + 1 : 1;
    }
    for (uint32_t i = n; i-- > 0;) /* as late as its first user */
        for (uint32_t s = 0; s < an_uop_nsrc(g, e[i].u); s++) {
            const uint32_t src = an_idmap_get(at, an_uop_src(g, e[i].u, s).id);
            if (src && !is_step(g, e[src - 1].u) && e[src - 1].level > e[i].level) e[src - 1].level = e[i].level;
        }
    for (uint32_t i = 0; i < n; i++) /* and never before what it needs */
        for (uint32_t s = 0; s < an_uop_nsrc(g, e[i].u); s++) {
            const uint32_t src = an_idmap_get(at, an_uop_src(g, e[i].u, s).id);
            if (src && e[src - 1].level > e[i].level) e[i].level = e[src - 1].level;
        }
    qsort(e, n, sizeof *e, by_level);
}

an_status an_linear_levels(an_graph *g, an_uop_vec *linear)
{
    an_ctx *ctx = an_graph_ctx(g);
    const size_t nbytes = linear->len * sizeof(entry);
    entry *e = an_mem_alloc(ctx, nbytes);
    an_status st = e ? AN_OK : AN_ERR_NOMEM;
    for (size_t i = 0; i < linear->len && !st;) {
        an_idmap at = {0};
        uint32_t n = 0, sums = 0;
        const size_t first = i;
        for (; i < linear->len && !is_bound(an_uop_op(g, linear->data[i])) && !st; i++) {
            e[n] = (entry){linear->data[i], 0, n};
            sums += is_step(g, linear->data[i]);
            if (!an_idmap_set(&at, ctx, linear->data[i].id, ++n)) st = AN_ERR_NOMEM;
        }
        if (!st && sums >= SUMS_MIN) {
            level(g, e, n, &at);
            for (uint32_t k = 0; k < n; k++) linear->data[first + k] = e[k].u;
        }
        an_idmap_fini(&at, ctx);
        if (i < linear->len) i++;
    }
    an_mem_free(ctx, e, nbytes);
    return st;
}
