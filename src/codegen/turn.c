/* turn.c - opts for kernels that read along one output range and write along another: transposes, and what mixes layouts.
 *
 *   out[i, j] = f(x[j, i], y[i, j])      j: lanes; i: as many copies, so that blocks of x are read in rows and turned
 *
 * Blocks go in groups along i, so that whole cache lines of x are read together. Kernels without reductions only. */
#include "codegen/tune.h"

enum { GROUP = 8 }; /* blocks */

typedef struct pair {
    size_t lanes, copies; /* ranges */
    int64_t n;            /* lanes */
} pair;

/* Are stores walked along v with stride 1, and loads along v or in blocks of v and w? coef: of v, and of w. */
static bool is_turned(const an_tuner *t, size_t v, const int64_t *cv, const int64_t *cw)
{
    bool any = false;
    for (size_t i = 0; i < t->d.order.len; i++) {
        const an_uop u = t->d.order.data[i];
        const an_op op = an_uop_op(t->g, u);
        if (op == AN_OP_REDUCE || op == AN_OP_LOCAL) return false;
        if ((op != AN_OP_LOAD && op != AN_OP_STORE) || !an_rangeset_has(&t->d.deps[i], v)) continue;
        const size_t index = an_dag_pos(&t->d, an_uop_src(t->g, u, 1));
        if (cv[index] == 1) continue;
        if (op == AN_OP_STORE || cv[index] == AN_COEF_NONE || cw[index] != 1 || an_uop_nsrc(t->g, u) > 2) return false;
        any = true;
    }
    return any;
}

static int64_t lanes_for(const an_tuner *t, size_t v, size_t w)
{
    size_t widest = 0;
    for (size_t i = 0; i < t->d.order.len; i++) {
        const an_op op = an_uop_op(t->g, t->d.order.data[i]);
        if (op != AN_OP_LOAD && op != AN_OP_STORE) continue;
        const size_t nbytes = an_dtype_nbytes(an_uop_dtype(t->g, an_uop_src(t->g, t->d.order.data[i], 0)));
        if (nbytes > widest) widest = nbytes;
    }
    int64_t n = widest ? (int64_t)(t->vector_nbytes / widest) : 0;
    const int64_t nv = an_range_bound(t->g, t->d.ranges.data[v]), nw = an_range_bound(t->g, t->d.ranges.data[w]);
    if (n > 16) n = 16;
    while (n > 1 && (n > nv || n > nw)) n /= 2;
    return n;
}

static an_status find(const an_tuner *t, pair *p, bool *found)
{
    const size_t nbytes = t->d.order.len * sizeof(int64_t);
    int64_t *cv = an_mem_alloc(t->ctx, nbytes), *cw = an_mem_alloc(t->ctx, nbytes);
    *found = false;
    for (size_t v = t->d.ranges.len; v-- > 0 && cv && cw && !*found;) {
        if (an_tune_kind(t, v) != AN_RANGE_LOOP) continue;
        an_dag_coefs(&t->d, v, cv);
        for (size_t w = 0; w < t->d.ranges.len && !*found; w++) {
            if (w == v || an_tune_kind(t, w) != AN_RANGE_LOOP) continue;
            an_dag_coefs(&t->d, w, cw);
            *p = (pair){v, w, lanes_for(t, v, w)};
            *found = p->n >= AN_TUNE_LANES_MIN && is_turned(t, v, cv, cw) &&
                     an_tune_nodes(t, w, (double)p->n, AN_RANGES_MAX, 1) <= AN_TUNE_NODES_MAX;
        }
    }
    const bool ok = cv && cw;
    an_mem_free(t->ctx, cv, nbytes);
    an_mem_free(t->ctx, cw, nbytes);
    return ok ? AN_OK : AN_ERR_NOMEM;
}

an_status an_tune_turn(an_tuner *t, bool *done)
{
    pair p;
    *done = false;
    an_status st = an_tune_refresh(t);
    bool found = false;
    if (!st) st = find(t, &p, &found);
    if (st || !found) return st;
    const uint32_t lanes = an_tune_id(t, p.lanes), copies = an_tune_id(t, p.copies);
    const int64_t blocks = (an_range_bound(t->g, t->d.ranges.data[p.copies]) + p.n - 1) / p.n;
    const bool outside = p.copies < p.lanes;
    an_tune_chain c = {t, AN_OK, true};
    an_tune_trial trial;
    uint32_t in_lanes = 0, in_copies = 0, group = 0;
    an_tune_begin(t, &trial);
    an_tune_then_block(&c, lanes, p.n, &in_lanes);
    an_tune_then_block(&c, copies, p.n, &in_copies);
    if (outside && blocks >= 2 * GROUP && in_lanes != lanes) {
        an_tune_then_block(&c, copies, GROUP, &group);
        an_tune_then(&c, AN_OPT_ORDER, lanes, group);
    }
    an_tune_then(&c, AN_OPT_VECTOR, in_lanes, p.n);
    an_tune_then(&c, AN_OPT_UPCAST, in_copies, p.n);
    *done = !c.st && c.ok;
    return an_tune_end(t, &trial, c.st, c.ok);
}
