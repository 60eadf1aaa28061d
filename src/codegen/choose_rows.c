/* choose_rows.c - reductions over long ranges, or several made one, on a GPU: gpu_choose.c says which. */
#include "codegen/choose.h"

enum { ROW_MIN = 64, ROWS_MAX = 1 << 16, COLUMN_LANES = 32, JOIN_MAX = 1024, JOIN_ROWS_MAX = 1 << 14 };

/* The longest range of a reduction that no other one is around. */
static size_t long_range(const an_chooser *c, size_t i)
{
    const an_uop u = c->d.order.data[i];
    size_t best = AN_RANGES_MAX;
    for (size_t r = 0; r < c->d.ranges.len; r++)
        if (an_rangeset_has(&c->d.deps[i], r) && an_choose_kind_at(c, r) != AN_RANGE_LOOP) return AN_RANGES_MAX;
    for (uint32_t s = 1; s < an_uop_nsrc(c->g, u); s++) {
        const size_t r = an_dag_range_at(&c->d, an_uop_src(c->g, u, s));
        const int64_t n = an_choose_bound_at(c, r);
        if (n >= 0 && n < ROW_MIN) continue;
        if (best == AN_RANGES_MAX || n < 0 || (an_choose_bound_at(c, best) >= 0 && n > an_choose_bound_at(c, best))) best = r;
    }
    return best;
}

static bool is_joined(const an_chooser *c, size_t r)
{
    for (uint32_t i = 0; i < c->njoined; i++)
        if (c->joined[i] == an_choose_id_at(c, r)) return true;
    return false;
}

/* Lanes of four along a range, if that is how memory runs; then its iterations are dealt to the threads. */
static an_status deal(an_chooser *c, uint32_t id)
{
    const size_t r = an_choose_find(c, id);
    bool done = false;
    an_status st = AN_OK;
    if (r == AN_RANGES_MAX) return AN_OK;
    if (!is_joined(c, r) && an_choose_bound_at(c, r) % 4 == 0 && an_choose_bound_at(c, r) >= 4 * ROW_MIN) st = an_choose_apply(c, AN_OPT_VECTOR, id, 4, NULL, &done);
    return st ? st : an_choose_mark(c, id, AN_OPT_DEAL, id);
}

/* Ranges of the reduction at position i that can become one, the one along memory last; 0 where there is nothing to join. */
static an_status joinable(const an_chooser *c, size_t i, an_uop *out, uint32_t *nout, size_t *fast)
{
    const an_uop u = c->d.order.data[i];
    const uint32_t n = an_uop_nsrc(c->g, u) - 1;
    int64_t longest = 0, all = 1;
    *nout = 0;
    *fast = AN_RANGES_MAX;
    if (n < 2 || n > AN_RANK_MAX) return AN_OK;
    for (size_t r = 0; r < c->d.ranges.len; r++)
        if (an_rangeset_has(&c->d.deps[i], r) && an_choose_kind_at(c, r) != AN_RANGE_LOOP) return AN_OK;
    for (uint32_t s = 1; s <= n; s++) {
        const size_t r = an_dag_range_at(&c->d, an_uop_src(c->g, u, s));
        const int64_t bound = an_choose_bound_at(c, r);
        if (bound < 1 || an_choose_kind_at(c, r) != AN_RANGE_REDUCE || all > INT32_MAX / bound) return AN_OK;
        all *= bound;
        if (bound > longest) longest = bound;
        for (size_t k = 0; k < c->d.order.len; k++) { /* whoever binds it binds them all */
            const an_uop other = c->d.order.data[k];
            bool mine = false;
            for (uint32_t o = 1; an_uop_op(c->g, other) == AN_OP_REDUCE && o < an_uop_nsrc(c->g, other); o++)
                mine = mine || an_uop_eq(an_uop_src(c->g, other, o), c->d.ranges.data[r]);
            if (mine && an_uop_nsrc(c->g, other) != n + 1) return AN_OK;
            for (uint32_t o = 1; mine && o <= n; o++)
                if (!an_uop_eq(an_uop_src(c->g, other, o), an_uop_src(c->g, u, o))) return AN_OK;
        }
        bool along_k = false;
        size_t along = AN_RANGES_MAX;
        const an_status st = an_choose_walk_of(c, u, r, &along_k, &along);
        if (st) return st;
        if (along_k) *fast = r;
    }
    if (all < ROW_MIN || longest >= JOIN_MAX) return AN_OK;
    for (uint32_t s = 1; s <= n; s++)
        if (an_dag_range_at(&c->d, an_uop_src(c->g, u, s)) != *fast) out[(*nout)++] = an_uop_src(c->g, u, s);
    if (*fast != AN_RANGES_MAX) out[(*nout)++] = c->d.ranges.data[*fast];
    return AN_OK;
}

/* Reductions over several ranges go over one: there are more iterations to deal to threads. */
static an_status join(an_chooser *c)
{
    an_status st = AN_OK;
    for (size_t i = 0; i < c->d.order.len && !st; i++) {
        an_uop ranges[AN_RANK_MAX];
        uint32_t n = 0;
        size_t fast = AN_RANGES_MAX;
        if (an_uop_op(c->g, c->d.order.data[i]) != AN_OP_REDUCE) continue;
        st = joinable(c, i, ranges, &n, &fast);
        if (st || !n) continue;
        bool lanes = false;
        if (c->njoined == AN_CHOOSE_JOINED_MAX) break;
        const uint32_t id = an_range_id(an_uop_arg(c->g, ranges[0])), fast_id = fast == AN_RANGES_MAX ? 0 : an_choose_id_at(c, fast);
        if (fast != AN_RANGES_MAX && an_choose_bound_at(c, fast) % 4 == 0) {
            st = an_choose_apply(c, AN_OPT_VECTOR, fast_id, 4, NULL, &lanes);
            if (st) return st;
            const size_t rest = an_choose_find(c, fast_id);
            if (rest == AN_RANGES_MAX || an_choose_kind_at(c, rest) != AN_RANGE_REDUCE)
                n--;
            else
                ranges[n - 1] = c->d.ranges.data[rest];
        }
        for (uint32_t k = 1; k < n && !st; k++) st = an_choose_apply(c, AN_OPT_JOIN, id, an_range_id(an_uop_arg(c->g, ranges[k])), NULL, &lanes);
        an_trace_note(c->trace, "%u ranges of a reduction are one, %u", n, id);
        if (fast != AN_RANGES_MAX && c->njoined < AN_CHOOSE_JOINED_MAX) c->joined[c->njoined++] = n > 1 ? id : an_range_id(an_uop_arg(c->g, ranges[0]));
        i = (size_t)-1; /* positions are new */
    }
    return st;
}

/* In place: may these loops be workgroups? Other elements are read before any is written only in reductions, whose threads are joined
 * before they go on. */
static bool are_apart(const an_chooser *c, const uint32_t *ids, uint32_t n, const an_rangeset *dealt)
{
    an_rangeset same = {0};
    for (uint32_t i = 0; i < n; i++) {
        if (!an_gpu_is_apart(&c->d, *c->sink, an_choose_find(c, ids[i]), &same)) return false;
        an_rangeset_add(&same, an_choose_find(c, ids[i]));
    }
    for (uint32_t s = 0; s < an_uop_nsrc(c->g, *c->sink); s++)
        for (size_t i = 0; i < c->d.order.len; i++) {
            const an_uop load = c->d.order.data[i], store = an_uop_src(c->g, *c->sink, s);
            if (an_uop_op(c->g, load) != AN_OP_LOAD || !an_uop_eq(an_uop_src(c->g, load, 0), an_uop_src(c->g, store, 0))) continue;
            if (!an_uop_eq(an_uop_src(c->g, load, 1), an_uop_src(c->g, store, 1)) && !an_rangeset_meets(&c->d.deps[i], dealt)) return false;
        }
    return true;
}

static an_status rows(an_chooser *c, bool *done)
{
    an_rangeset outer = {0}, dealt = {0};
    bool any = false, straight = false;
    size_t columns = AN_RANGES_MAX;
    *done = false;
    for (size_t i = 0; i < c->d.order.len; i++) {
        bool along_k = false;
        size_t along = AN_RANGES_MAX;
        if (an_uop_op(c->g, c->d.order.data[i]) != AN_OP_REDUCE) continue;
        const size_t k = long_range(c, i);
        an_rangeset_join(&outer, &c->d.deps[i]);
        if (k == AN_RANGES_MAX) continue;
        const an_status st = an_choose_walk_of(c, c->d.order.data[i], k, &along_k, &along);
        if (st) return st;
        an_rangeset_add(&dealt, k);
        any = true;
        straight = straight || along_k || is_joined(c, k);
        if (along != AN_RANGES_MAX) columns = along;
    }
    double count = 1;
    uint32_t ids[AN_CHOOSE_LOOPS_MAX], inner[AN_CHOOSE_LOOPS_MAX], group[AN_RANGES_MAX], n = 0, ninner = 0, ngroup = 0, global = AN_GPU_GLOBAL_ID;
    bool shared = false;
    for (size_t r = 0; r < c->d.ranges.len; r++) {
        if (an_choose_kind_at(c, r) != AN_RANGE_LOOP) {
            if (an_rangeset_has(&dealt, r)) group[ngroup++] = an_choose_id_at(c, r);
            continue;
        }
        if (!an_rangeset_has(&outer, r)) {
            if (ninner < AN_CHOOSE_LOOPS_MAX) inner[ninner++] = an_choose_id_at(c, r);
            continue;
        }
        if (n < AN_CHOOSE_LOOPS_MAX) ids[n++] = an_choose_id_at(c, r);
        count *= an_choose_bound_at(c, r) < 0 ? 64.0 : (double)an_choose_bound_at(c, r);
        for (size_t k = 0; k < c->d.ranges.len; k++) shared = shared || (an_rangeset_has(&dealt, k) && an_choose_is_shared(c, k, r));
    }
    if (!any || n == AN_CHOOSE_LOOPS_MAX || ninner == AN_CHOOSE_LOOPS_MAX || !are_apart(c, ids, n, &dealt)) return AN_OK;
    if (count > (shared ? ROWS_MAX / 4 : ROWS_MAX * 64)) return AN_OK; /* threads enough, and what they read is read by others too */
    if (!straight && (columns == AN_RANGES_MAX || count > ROWS_MAX || an_choose_bound_at(c, columns) < COLUMN_LANES)) return AN_OK;
    an_status st = AN_OK;
    uint32_t local = 0;
    if (!straight) { /* threads along memory */
        bool ok = false;
        const uint32_t id = an_choose_id_at(c, columns);
        st = an_choose_apply(c, AN_OPT_PADTO, id, COLUMN_LANES, &local, &ok);
        if (!st && !ok) return AN_OK;
        if (!st) st = an_choose_mark(c, local, AN_OPT_LOCAL, AN_GPU_LOCAL_ID);
    }
    for (uint32_t o = 0; o < n && !st; o++) st = an_choose_mark(c, ids[o], AN_OPT_GLOBAL, global++);
    for (uint32_t o = 0; o < ngroup && !st; o++) st = straight ? deal(c, group[o]) : an_choose_mark(c, group[o], AN_OPT_DEAL, group[o]);
    size_t longest = AN_RANGES_MAX; /* of what is stored for each row */
    for (uint32_t o = 0; o < ninner && !st; o++) {
        const size_t r = an_choose_find(c, inner[o]);
        if (longest == AN_RANGES_MAX || an_choose_bound_at(c, r) < 0 || an_choose_bound_at(c, r) > an_choose_bound_at(c, longest)) longest = r;
    }
    if (!st && longest < AN_RANGES_MAX) st = deal(c, an_choose_id_at(c, longest));
    *done = !st;
    return st;
}

/* The same, several ranges joined first where there are few rows. */
an_status an_choose_rows(an_chooser *c, bool *done)
{
    const an_uop before = *c->sink;
    const size_t nlist = c->list->len;
    double count = 1;
    for (size_t r = 0; r < c->d.ranges.len; r++)
        if (an_choose_kind_at(c, r) == AN_RANGE_LOOP) count *= an_choose_bound_at(c, r) > 0 ? (double)an_choose_bound_at(c, r) : 64.0;
    an_status st = count <= JOIN_ROWS_MAX ? join(c) : AN_OK;
    if (!st) st = rows(c, done);
    if (st || *done || !c->njoined) return st;
    *c->sink = before; /* as if it had not been tried */
    c->list->len = nlist;
    c->njoined = 0;
    return an_choose_refresh(c);
}
