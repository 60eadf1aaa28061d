/* stream.c - opts for sums that read a matrix once, row by row, and nothing of it again:
 *
 *   out[j] = sum over k of f(x[k, j], y[k])      rows far apart, more of them than caches hold
 *
 * Walked down the columns, memory gives a piece of a row at a time and is slow. Here some rows at a time are walked side by side along j,
 * the sums so far kept in the output:
 *
 *   for j in chunks, split among threads: for kb in passes of 8 rows: for j in the chunk, lanes: 8 steps written out */
#include "codegen/tune.h"

enum {
    ROWS = 8,            /* of a pass, at most */
    STEP_NBYTES = 2048,  /* from row to row, at least */
    CHUNK_MAX = 2048,    /* elements of a chunk: the sums so far stay in the nearest cache */
    CHUNK_MIN = 128
};

typedef struct stream {
    size_t j, k;
    int64_t lanes, chunk, rows;
} stream;

/* Do loads that vary with j walk it with stride 1, and k in long steps? *nbytes: of what they read. */
static bool walks_rows(const an_tuner *t, an_uop reduce, size_t j, size_t k, int64_t *cj, int64_t *ck, size_t *widest, double *nbytes)
{
    const size_t value = an_dag_pos(&t->d, an_uop_src(t->g, reduce, 0));
    bool any = false;
    an_dag_coefs(&t->d, j, cj);
    an_dag_coefs(&t->d, k, ck);
    *widest = an_dtype_nbytes(an_uop_dtype(t->g, reduce));
    *nbytes = 0;
    for (size_t i = 0; i < t->d.order.len; i++) {
        const an_uop u = t->d.order.data[i];
        const an_op op = an_uop_op(t->g, u);
        if ((op != AN_OP_LOAD && op != AN_OP_STORE) || !an_rangeset_has(&t->d.deps[i], j)) continue;
        const size_t at = an_dag_pos(&t->d, an_uop_src(t->g, u, 1));
        const int64_t size = (int64_t)an_dtype_nbytes(an_uop_dtype(t->g, an_uop_src(t->g, u, 0)));
        if (cj[at] != 1) return false;
        if ((size_t)size > *widest) *widest = (size_t)size;
        if (op == AN_OP_STORE || i > value || !an_rangeset_has(&t->d.deps[i], k)) continue;
        if (ck[at] == AN_COEF_NONE || ck[at] > INT32_MAX || ck[at] * size < STEP_NBYTES) return false;
        any = true;
        *nbytes += (double)size * (double)an_tune_bound(t, j) * (double)an_tune_bound(t, k);
    }
    return any;
}

/* The greatest divisor of n that is at most `most`. */
static int64_t divisor(int64_t n, int64_t most)
{
    int64_t d = most < n ? most : n;
    while (d > 1 && n % d) d--;
    return d;
}

static bool fits(const an_tuner *t, an_uop reduce, int64_t *cj, int64_t *ck, stream *s)
{
    const int64_t parts = t->threads == 1 ? 1 : 2 * (t->threads ? t->threads : 2);
    for (size_t r = 0; r < t->d.ranges.len; r++) {
        size_t widest = 0;
        double nbytes = 0;
        const int64_t n = an_tune_bound(t, r);
        if (an_tune_kind(t, r) != AN_RANGE_LOOP || n < CHUNK_MIN) continue;
        if (!walks_rows(t, reduce, r, s->k, cj, ck, &widest, &nbytes) || nbytes <= (double)t->l2_nbytes) continue;
        s->j = r;
        s->lanes = (int64_t)(t->vector_nbytes / widest);
        s->chunk = divisor(n, n / parts < CHUNK_MAX ? n / parts : CHUNK_MAX);
        s->rows = divisor(an_tune_bound(t, s->k), ROWS);
        return s->lanes >= AN_TUNE_LANES_MIN && s->chunk >= CHUNK_MIN && s->chunk < n && s->rows >= ROWS / 2;
    }
    return false;
}

static an_status find(const an_tuner *t, an_uop reduce, stream *s, bool *found)
{
    const size_t nbytes = t->d.order.len * sizeof(int64_t);
    const an_rangeset *deps = an_dag_deps(&t->d, reduce);
    size_t loops = 0;
    for (size_t r = 0; r < t->d.ranges.len; r++) loops += an_rangeset_has(deps, r);
    *found = false;
    if (loops != 1 || an_uop_nsrc(t->g, reduce) != 2) return AN_OK;
    s->k = an_dag_range_at(&t->d, an_uop_src(t->g, reduce, 1));
    int64_t *cj = an_mem_alloc(t->ctx, nbytes), *ck = an_mem_alloc(t->ctx, nbytes);
    const bool ok = cj && ck;
    *found = ok && an_tune_bound(t, s->k) >= 2 * ROWS && fits(t, reduce, cj, ck, s);
    an_mem_free(t->ctx, cj, nbytes);
    an_mem_free(t->ctx, ck, nbytes);
    return ok ? AN_OK : AN_ERR_NOMEM;
}

an_status an_tune_stream(an_tuner *t, bool *done)
{
    stream s = {0};
    bool found = false;
    *done = false;
    an_status st = an_tune_refresh(t);
    const an_uop reduce = st ? AN_UOP_NONE : an_tune_dominant(t);
    if (!st && !an_uop_is_none(reduce)) st = find(t, reduce, &s, &found);
    if (st || !found) return st;
    const uint32_t j = an_tune_id(t, s.j), passes = an_tune_id(t, s.k);
    const uint32_t rows = an_opt_new_id(&t->d, (an_opt){AN_OPT_CARRY, passes, s.rows});
    uint32_t inner = 0;
    an_tune_chain c = {t, AN_OK, true};
    an_tune_trial trial;
    an_tune_begin(t, &trial);
    an_tune_then(&c, AN_OPT_CARRY, passes, s.rows);
    an_tune_then_block(&c, j, s.chunk, &inner);
    an_tune_then(&c, AN_OPT_ORDER, passes, inner);
    if (s.chunk % s.lanes) an_tune_then(&c, AN_OPT_SPLIT, inner, s.chunk - s.chunk % s.lanes);
    an_tune_then(&c, AN_OPT_VECTOR, inner, s.lanes);
    an_tune_then(&c, AN_OPT_UNROLL, rows, s.rows);
    *done = !c.st && c.ok;
    return an_tune_end(t, &trial, c.st, c.ok);
}
