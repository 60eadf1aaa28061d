/* gpu_choose.c - which opts a kernel gets on a GPU, from shapes and strides alone.
 *
 *   product    one sum over k of loads that are shared along two output ranges: a tile of the output a workgroup, 8 x 8 or 4 x 4
 *              elements a thread, the operands staged 16 steps of k at a time
 *   rows       reductions over long ranges: a workgroup for each of the values they give, its threads share the range; what is
 *              stored along other ranges is shared likewise. Where memory runs along an output range instead, 32 of these
 *              are the threads of a row, so that neighbours read neighbours
 *   elements   else a thread for each element, or for four of them side by side
 *
 * Tiles were measured on an NVIDIA H200 (docs/PERFORMANCE.md); rate is f32 TF/s where there are workgroups enough. */
#include "codegen/gpu.h"

enum { K_STEP = 16, ROW_MIN = 64, ROWS_MAX = 1 << 16, COLUMN_LANES = 32, LOOPS_MAX = 12, JOIN_MAX = 1024, JOINED_MAX = 16, JOIN_ROWS_MAX = 1 << 14 };

static const struct shape {
    int64_t m, n, tm, tn;
    double rate;
} shapes[] = {
    {128, 128, 8, 8, 43}, {64, 128, 8, 8, 39}, {128, 64, 8, 8, 39}, {64, 64, 8, 8, 38},
    {64, 32, 8, 4, 24},   {32, 64, 4, 8, 24},  {32, 32, 4, 4, 18},
};

typedef struct chooser {
    an_graph *g;
    an_ctx *ctx;
    an_uop *sink;
    const an_codegen_opts *opts;
    an_trace *trace;
    an_opt_vec *list;
    an_dag d;
    uint32_t joined[JOINED_MAX], njoined; /* ids of ranges that several were joined to, memory along them */
} chooser;

static an_status refresh(chooser *c)
{
    an_dag_fini(&c->d);
    return an_dag_init(&c->d, c->g, c->sink, 1);
}

static size_t find(const chooser *c, uint32_t id)
{
    for (size_t r = 0; r < c->d.ranges.len; r++)
        if (an_range_id(an_uop_arg(c->g, c->d.ranges.data[r])) == id) return r;
    return AN_RANGES_MAX;
}

static an_range_kind kind_at(const chooser *c, size_t r)
{
    return an_range_kind_of(an_uop_arg(c->g, c->d.ranges.data[r]));
}

static int64_t bound_at(const chooser *c, size_t r)
{
    return an_range_bound(c->g, c->d.ranges.data[r]);
}

static uint32_t id_at(const chooser *c, size_t r)
{
    return an_range_id(an_uop_arg(c->g, c->d.ranges.data[r]));
}

/* Applies an opt; *inner: the id of the part split off. done false: refused, nothing changed. */
static an_status apply(chooser *c, an_opt_kind kind, uint32_t id, int64_t amount, uint32_t *inner, bool *done)
{
    const char *why = NULL;
    const an_opt opt = {kind, id, amount};
    const uint32_t next = an_opt_new_id(&c->d, opt);
    an_status st = an_opt_apply(c->g, c->sink, opt, &why);
    *done = !st && !why;
    if (why)
        an_trace_note(c->trace, "%s of range %u by %lld refused: %s", an_opt_name(kind), id, (long long)amount, why);
    else
        an_trace_note(c->trace, "%s of range %u by %lld", an_opt_name(kind), id, (long long)amount);
    if (*done && !an_vec_push(c->ctx, c->list, opt)) st = AN_ERR_NOMEM;
    if (inner) *inner = next;
    return st ? st : refresh(c);
}

static an_status mark(chooser *c, uint32_t id, an_range_kind kind, uint32_t to)
{
    const size_t r = find(c, id);
    if (r == AN_RANGES_MAX) return AN_OK; /* of one element: gone */
    an_trace_note(c->trace, "range %u is %s", id, kind == AN_RANGE_GLOBAL ? "GLOBAL" : kind == AN_RANGE_LOCAL ? "LOCAL" : "GROUP");
    const an_status st = an_gpu_mark(c->g, c->sink, c->d.ranges.data[r], kind, to);
    return st ? st : refresh(c);
}

/* --- products -------------------------------------------------------------------------------------- */

/* The only reduction of the kernel; none if there are more, or none. */
static an_uop lone_reduce(const chooser *c)
{
    an_uop found = AN_UOP_NONE;
    for (size_t i = 0; i < c->d.order.len; i++) {
        if (an_uop_op(c->g, c->d.order.data[i]) != AN_OP_REDUCE) continue;
        if (!an_uop_is_none(found)) return AN_UOP_NONE;
        found = c->d.order.data[i];
    }
    return found;
}

/* Does a load that varies with k not vary with r? */
static bool is_shared(const chooser *c, size_t k, size_t r)
{
    for (size_t i = 0; i < c->d.order.len; i++)
        if (an_uop_op(c->g, c->d.order.data[i]) == AN_OP_LOAD && an_rangeset_has(&c->d.deps[i], k) && !an_rangeset_has(&c->d.deps[i], r))
            return true;
    return false;
}

/* Which loads see a buffer that the kernel writes: none, some (of the very elements), or some that vary with range k. */
typedef enum writes_seen { NONE_SEEN, OWN_SEEN, OTHERS_SEEN } writes_seen;

static writes_seen reads_what_it_writes(const chooser *c, size_t k)
{
    writes_seen seen = NONE_SEEN;
    for (uint32_t s = 0; s < an_uop_nsrc(c->g, *c->sink); s++)
        for (size_t i = 0; i < c->d.order.len; i++) {
            const an_uop u = c->d.order.data[i];
            if (an_uop_op(c->g, u) != AN_OP_LOAD || !an_uop_eq(an_uop_src(c->g, u, 0), an_uop_src(c->g, an_uop_src(c->g, *c->sink, s), 0))) continue;
            if (an_rangeset_has(&c->d.deps[i], k)) return OTHERS_SEEN;
            seen = OWN_SEEN;
        }
    return seen;
}

/* Do all stores vary with the same ranges? */
static bool stores_agree(const chooser *c)
{
    const an_rangeset *first = an_dag_deps(&c->d, an_uop_src(c->g, *c->sink, 0));
    for (uint32_t s = 1; s < an_uop_nsrc(c->g, *c->sink); s++)
        if (memcmp(first, an_dag_deps(&c->d, an_uop_src(c->g, *c->sink, s)), sizeof *first) != 0) return false;
    return true;
}

/* How much the index of an access grows with range r. */
static an_status coef_of(const chooser *c, an_uop access, size_t r, int64_t *out)
{
    const size_t nbytes = c->d.order.len * sizeof(int64_t);
    int64_t *coef = an_mem_alloc(c->ctx, nbytes);
    if (!coef) return AN_ERR_NOMEM;
    an_dag_coefs(&c->d, r, coef);
    *out = coef[an_dag_pos(&c->d, an_uop_src(c->g, access, 1))];
    an_mem_free(c->ctx, coef, nbytes);
    return AN_OK;
}

/* whole: no element may be computed twice. */
static const struct shape *choose_shape(const chooser *c, int64_t m, int64_t n, double batch, bool whole)
{
    const struct shape *best = NULL;
    double most = 0;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const struct shape *s = &shapes[i];
        if (4 * K_STEP * (s->m + s->n + 8) > (int64_t)c->opts->gpu.local_nbytes) continue; /* f32, with padding */
        if (s->m > m || s->n > n || s->m / s->tm * (s->n / s->tn) > (int64_t)c->opts->gpu.threads) continue;
        if (whole && (m % s->m || n % s->n)) continue;
        const double a = (double)((m + s->m - 1) / s->m), b = (double)((n + s->n - 1) / s->n), blocks = a * b * batch;
        double score = s->rate * (double)m * (double)n / (a * b * (double)s->m * (double)s->n);
        if (blocks < c->opts->gpu.units) score *= blocks / c->opts->gpu.units;
        if (score > most) {
            most = score;
            best = s;
        }
    }
    return best;
}

/* A LOOP range of a tile's side: GLOBAL blocks of size, in them `copies` / 4 rows of `threads` threads with 4 elements each. The
 * threads come as two LOCAL ranges, the inner one of `inner` threads. */
static an_status cut_side(chooser *c, uint32_t id, int64_t size, int64_t each, bool lanes, int64_t inner, uint32_t local, uint32_t global)
{
    uint32_t block = id, quad = 0, thread = 0, low = 0;
    const int64_t threads = size / each;
    bool done = false;
    an_status st = apply(c, AN_OPT_PADTO, id, size, &block, &done);
    if (!st && each > 4) {
        st = apply(c, AN_OPT_CUT, block, 4 * threads, &quad, &done);
        if (!st) st = apply(c, AN_OPT_UPCAST, block, each / 4, NULL, &done);
    } else {
        quad = block;
    }
    thread = quad;
    if (!st) st = apply(c, lanes ? AN_OPT_VECTOR : AN_OPT_UPCAST, quad, 4, NULL, &done);
    if (!st && threads > inner) {
        st = apply(c, AN_OPT_CUT, thread, inner, &low, &done);
        if (!st) st = mark(c, low, AN_RANGE_LOCAL, local + 2);
        if (!st) st = mark(c, thread, AN_RANGE_LOCAL, local);
    } else if (!st) {
        st = mark(c, thread, AN_RANGE_LOCAL, local + 2);
    }
    return st ? st : mark(c, id, AN_RANGE_GLOBAL, global);
}

static an_status product(chooser *c, bool *done)
{
    const an_uop reduce = lone_reduce(c);
    *done = false;
    if (an_uop_is_none(reduce) || an_reduce_op(an_uop_arg(c->g, reduce)) != AN_OP_ADD || an_uop_nsrc(c->g, reduce) != 2 || !stores_agree(c)) return AN_OK;
    const an_uop store = an_uop_src(c->g, *c->sink, 0);
    const size_t k = an_dag_range_at(&c->d, an_uop_src(c->g, reduce, 1));
    const writes_seen seen = reads_what_it_writes(c, k);
    if (seen == OTHERS_SEEN) return AN_OK;
    const int64_t nk = bound_at(c, k);
    if (nk <= K_STEP) return AN_OK;
    size_t i = AN_RANGES_MAX, j = AN_RANGES_MAX;
    double batch = 1;
    for (size_t r = 0; r < c->d.ranges.len; r++) { /* j: along memory, or the innermost; i: the longest other one */
        if (kind_at(c, r) != AN_RANGE_LOOP || !an_rangeset_has(an_dag_deps(&c->d, store), r)) continue;
        int64_t coef = 0;
        const an_status st = coef_of(c, store, r, &coef);
        if (st) return st;
        if (bound_at(c, r) > 0 && is_shared(c, k, r) && coef == 1) j = r;
    }
    for (size_t r = 0; r < c->d.ranges.len && j < AN_RANGES_MAX; r++) {
        const bool mine = kind_at(c, r) == AN_RANGE_LOOP && an_rangeset_has(an_dag_deps(&c->d, store), r) && r != j;
        if (mine && bound_at(c, r) > 0 && is_shared(c, k, r) && (i == AN_RANGES_MAX || bound_at(c, r) > bound_at(c, i))) i = r;
    }
    if (i == AN_RANGES_MAX || j == AN_RANGES_MAX) return AN_OK;
    for (size_t r = 0; r < c->d.ranges.len; r++)
        if (kind_at(c, r) == AN_RANGE_LOOP && r != i && r != j) batch *= bound_at(c, r) > 0 ? (double)bound_at(c, r) : 16.0;
    const struct shape *s = choose_shape(c, bound_at(c, i), bound_at(c, j), batch, seen == OWN_SEEN);
    if (!s) return AN_OK;

    const uint32_t id_i = id_at(c, i), id_j = id_at(c, j), id_k = id_at(c, k);
    const an_uop before = *c->sink;
    const size_t nlist = c->list->len;
    uint32_t others[LOOPS_MAX], n = 0, global = AN_GPU_GLOBAL_ID, inner = 0;
    const char *why = NULL;
    bool ok = true;
    for (size_t r = 0; r < c->d.ranges.len; r++)
        if (kind_at(c, r) == AN_RANGE_LOOP && r != i && r != j && n < LOOPS_MAX) others[n++] = id_at(c, r);
    an_status st = AN_OK;
    for (uint32_t o = 0; o < n && !st; o++) st = mark(c, others[o], AN_RANGE_GLOBAL, global++);
    if (!st) st = cut_side(c, id_i, s->m, s->tm, false, 4, AN_GPU_LOCAL_ID, global++);
    if (!st) st = cut_side(c, id_j, s->n, s->tn, true, 8, AN_GPU_LOCAL_ID + 1, global++);
    if (!st && nk % K_STEP) {
        st = an_gpu_fill(c->g, c->sink, id_k, K_STEP, &why);
        if (!st) st = refresh(c);
    }
    if (!st && !why) st = apply(c, AN_OPT_CUT, id_k, K_STEP, &inner, &ok);
    if (!st && !why && ok && !c->opts->gpu.small_code) st = apply(c, AN_OPT_UNROLL, inner, K_STEP, NULL, &ok);
    if (!st && !why && ok) st = an_gpu_tile(c->g, c->sink, id_k, c->opts->gpu.local_nbytes, &why);
    if (!st && (why || !ok)) { /* as if it had not been tried */
        an_trace_note(c->trace, "no tile: %s", why ? why : "its reduction cannot be cut");
        *c->sink = before;
        c->list->len = nlist;
        return refresh(c);
    }
    *done = !st;
    an_trace_note(c->trace, "tiles of %lld x %lld, %lld x %lld a thread", (long long)s->m, (long long)s->n, (long long)s->tm, (long long)s->tn);
    return st;
}

/* --- rows -------------------------------------------------------------------------------------------- */

/* How often a value is another one: the iterations of the ranges that it varies with. */
static double iterations(const chooser *c, const an_rangeset *deps)
{
    double n = 1;
    for (size_t r = 0; r < c->d.ranges.len; r++)
        if (an_rangeset_has(deps, r)) n *= bound_at(c, r) > 0 ? (double)bound_at(c, r) : 64.0;
    return n;
}

/* How memory is walked by the loads inside reduction u, over range k: along k (1), along a LOOP range (r), neither (0). Where they
 * differ, those that read the most decide. */
static an_status walk_of(const chooser *c, an_uop u, size_t k, bool *along_k, size_t *along)
{
    const size_t nbytes = c->d.order.len * sizeof(int64_t), value = an_dag_pos(&c->d, an_uop_src(c->g, u, 0));
    int64_t *coef = an_mem_alloc(c->ctx, nbytes);
    if (!coef) return AN_ERR_NOMEM;
    double most = 0;
    *along_k = false;
    *along = AN_RANGES_MAX;
    for (size_t r = 0; r < c->d.ranges.len; r++) {
        if (r != k && kind_at(c, r) != AN_RANGE_LOOP) continue;
        an_dag_coefs(&c->d, r, coef);
        for (size_t i = 0; i <= value; i++) {
            const an_uop load = c->d.order.data[i];
            if (an_uop_op(c->g, load) != AN_OP_LOAD || !an_rangeset_has(&c->d.deps[i], k)) continue;
            if (coef[an_dag_pos(&c->d, an_uop_src(c->g, load, 1))] != 1) continue;
            const double n = iterations(c, &c->d.deps[i]);
            if (n < most || (n == most && *along_k)) continue;
            most = n;
            *along_k = r == k;
            *along = r == k ? AN_RANGES_MAX : r;
        }
    }
    an_mem_free(c->ctx, coef, nbytes);
    return AN_OK;
}

/* The longest range of a reduction that no other one is around. */
static size_t long_range(const chooser *c, size_t i)
{
    const an_uop u = c->d.order.data[i];
    size_t best = AN_RANGES_MAX;
    for (size_t r = 0; r < c->d.ranges.len; r++)
        if (an_rangeset_has(&c->d.deps[i], r) && kind_at(c, r) != AN_RANGE_LOOP) return AN_RANGES_MAX;
    for (uint32_t s = 1; s < an_uop_nsrc(c->g, u); s++) {
        const size_t r = an_dag_range_at(&c->d, an_uop_src(c->g, u, s));
        const int64_t n = bound_at(c, r);
        if (n >= 0 && n < ROW_MIN) continue;
        if (best == AN_RANGES_MAX || n < 0 || (bound_at(c, best) >= 0 && n > bound_at(c, best))) best = r;
    }
    return best;
}

static bool is_joined(const chooser *c, size_t r)
{
    for (uint32_t i = 0; i < c->njoined; i++)
        if (c->joined[i] == id_at(c, r)) return true;
    return false;
}

/* Lanes of four along a range, if that is how memory runs; then its iterations are dealt to the threads. */
static an_status deal(chooser *c, uint32_t id)
{
    const size_t r = find(c, id);
    bool done = false;
    an_status st = AN_OK;
    if (r == AN_RANGES_MAX) return AN_OK;
    if (!is_joined(c, r) && bound_at(c, r) % 4 == 0 && bound_at(c, r) >= 4 * ROW_MIN) st = apply(c, AN_OPT_VECTOR, id, 4, NULL, &done);
    return st ? st : mark(c, id, AN_RANGE_GROUP, id);
}

/* Ranges of the reduction at position i that can become one, the one along memory last; 0 where there is nothing to join. */
static an_status joinable(const chooser *c, size_t i, an_uop *out, uint32_t *nout, size_t *fast)
{
    const an_uop u = c->d.order.data[i];
    const uint32_t n = an_uop_nsrc(c->g, u) - 1;
    int64_t longest = 0, all = 1;
    *nout = 0;
    *fast = AN_RANGES_MAX;
    if (n < 2 || n > AN_RANK_MAX) return AN_OK;
    for (size_t r = 0; r < c->d.ranges.len; r++)
        if (an_rangeset_has(&c->d.deps[i], r) && kind_at(c, r) != AN_RANGE_LOOP) return AN_OK;
    for (uint32_t s = 1; s <= n; s++) {
        const size_t r = an_dag_range_at(&c->d, an_uop_src(c->g, u, s));
        const int64_t bound = bound_at(c, r);
        if (bound < 1 || kind_at(c, r) != AN_RANGE_REDUCE || all > INT32_MAX / bound) return AN_OK;
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
        const an_status st = walk_of(c, u, r, &along_k, &along);
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
static an_status join(chooser *c)
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
        if (c->njoined == JOINED_MAX) break;
        const uint32_t id = an_range_id(an_uop_arg(c->g, ranges[0])), fast_id = fast == AN_RANGES_MAX ? 0 : id_at(c, fast);
        if (fast != AN_RANGES_MAX && bound_at(c, fast) % 4 == 0) {
            st = apply(c, AN_OPT_VECTOR, fast_id, 4, NULL, &lanes);
            if (st) return st;
            const size_t rest = find(c, fast_id);
            if (rest == AN_RANGES_MAX || kind_at(c, rest) != AN_RANGE_REDUCE)
                n--;
            else
                ranges[n - 1] = c->d.ranges.data[rest];
        }
        if (n > 1) st = an_gpu_join(c->g, c->sink, ranges, n, id);
        if (!st) st = refresh(c);
        an_trace_note(c->trace, "%u ranges of a reduction are one, %u", n, id);
        if (fast != AN_RANGES_MAX && c->njoined < JOINED_MAX) c->joined[c->njoined++] = n > 1 ? id : an_range_id(an_uop_arg(c->g, ranges[0]));
        i = (size_t)-1; /* positions are new */
    }
    return st;
}

static an_status rows(chooser *c, bool *done)
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
        const an_status st = walk_of(c, c->d.order.data[i], k, &along_k, &along);
        if (st) return st;
        an_rangeset_add(&dealt, k);
        any = true;
        straight = straight || along_k || is_joined(c, k);
        if (along != AN_RANGES_MAX) columns = along;
    }
    double count = 1;
    uint32_t ids[LOOPS_MAX], inner[LOOPS_MAX], group[AN_RANGES_MAX], n = 0, ninner = 0, ngroup = 0, global = AN_GPU_GLOBAL_ID;
    bool shared = false;
    for (size_t r = 0; r < c->d.ranges.len; r++) {
        if (kind_at(c, r) != AN_RANGE_LOOP) {
            if (an_rangeset_has(&dealt, r)) group[ngroup++] = id_at(c, r);
            continue;
        }
        if (!an_rangeset_has(&outer, r)) {
            if (ninner < LOOPS_MAX) inner[ninner++] = id_at(c, r);
            continue;
        }
        if (n < LOOPS_MAX) ids[n++] = id_at(c, r);
        count *= bound_at(c, r) < 0 ? 64.0 : (double)bound_at(c, r);
        for (size_t k = 0; k < c->d.ranges.len; k++) shared = shared || (an_rangeset_has(&dealt, k) && is_shared(c, k, r));
    }
    if (!any || n == LOOPS_MAX || ninner == LOOPS_MAX) return AN_OK;
    if (count > (shared ? ROWS_MAX / 4 : ROWS_MAX * 64)) return AN_OK; /* threads enough, and what they read is read by others too */
    if (!straight && (columns == AN_RANGES_MAX || count > ROWS_MAX || bound_at(c, columns) < COLUMN_LANES)) return AN_OK;
    an_status st = AN_OK;
    uint32_t local = 0;
    if (!straight) { /* threads along memory */
        bool ok = false;
        const uint32_t id = id_at(c, columns);
        st = apply(c, AN_OPT_PADTO, id, COLUMN_LANES, &local, &ok);
        if (!st && !ok) return AN_OK;
        if (!st) st = mark(c, local, AN_RANGE_LOCAL, AN_GPU_LOCAL_ID);
    }
    for (uint32_t o = 0; o < n && !st; o++) st = mark(c, ids[o], AN_RANGE_GLOBAL, global++);
    for (uint32_t o = 0; o < ngroup && !st; o++) st = straight ? deal(c, group[o]) : mark(c, group[o], AN_RANGE_GROUP, group[o]);
    size_t longest = AN_RANGES_MAX; /* of what is stored for each row */
    for (uint32_t o = 0; o < ninner && !st; o++) {
        const size_t r = find(c, inner[o]);
        if (longest == AN_RANGES_MAX || bound_at(c, r) < 0 || bound_at(c, r) > bound_at(c, longest)) longest = r;
    }
    if (!st && longest < AN_RANGES_MAX) st = deal(c, id_at(c, longest));
    *done = !st;
    return st;
}

/* The same, several ranges joined first where there are few rows. */
static an_status joined_rows(chooser *c, bool *done)
{
    const an_uop before = *c->sink;
    const size_t nlist = c->list->len;
    double count = 1;
    for (size_t r = 0; r < c->d.ranges.len; r++)
        if (kind_at(c, r) == AN_RANGE_LOOP) count *= bound_at(c, r) > 0 ? (double)bound_at(c, r) : 64.0;
    an_status st = count <= JOIN_ROWS_MAX ? join(c) : AN_OK;
    if (!st) st = rows(c, done);
    if (st || *done || !c->njoined) return st;
    *c->sink = before; /* as if it had not been tried */
    c->list->len = nlist;
    c->njoined = 0;
    return refresh(c);
}

an_status an_gpu_choose(an_graph *g, an_uop *sink, const an_codegen_opts *opts, an_trace *trace, an_opt_vec *list)
{
    an_uop now = *sink;
    chooser c = {.g = g, .ctx = an_graph_ctx(g), .sink = &now, .opts = opts, .trace = trace, .list = list};
    bool done = false;
    an_status st = refresh(&c);
    if (!st) st = product(&c, &done);
    if (!st && !done) st = joined_rows(&c, &done);
    if (!st && !done) st = an_opt_choose_lanes(g, &now, opts, trace, list);
    an_dag_fini(&c.d);
    if (!st) *sink = now;
    return st;
}
