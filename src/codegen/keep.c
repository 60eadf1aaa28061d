/* keep.c - KEEP: what a reduction computes and a loop of as many elements computes again is computed once, into scratch.
 *
 *   for i                                        for i
 *     m = max over k of A[i, k]                    m = max over k of A[i, k]
 *     s = sum over k of exp(A[i, k] - m)  --KEEP-->  for l: L[l] = exp(A[i, l] - m)
 *     for j: B[i, j] = exp(A[i, j] - m) / s        s = sum over k of L[k]
 *                                                  for j: B[i, j] = L[j] / s
 *
 * Worth it for what costs more than a store and two loads that stay in L1: functions by polynomials. */
#include "codegen/opt.h"
#include "codegen/pass.h"

enum { TWINS_MAX = 8 };

/* Expression of: the same over another range. */
typedef struct twins {
    uint32_t n;
    an_uop expr[TWINS_MAX], range[TWINS_MAX];
} twins;

bool an_opt_is_dear(an_op op)
{
    return op == AN_OP_EXP2 || op == AN_OP_LOG2 || op == AN_OP_SIN || op == AN_OP_ERF;
}

/* By position: is something dear computed in each iteration of range r? */
static void mark_dear(const an_dag *d, size_t r, bool *dear)
{
    for (size_t i = 0; i < d->order.len; i++) {
        const an_uop u = d->order.data[i];
        dear[i] = false;
        if (!an_rangeset_has(&d->deps[i], r) || !an_op_has(an_uop_op(d->g, u), AN_TRAIT_ELEM)) continue;
        dear[i] = an_opt_is_dear(an_uop_op(d->g, u));
        for (uint32_t s = 0; s < an_uop_nsrc(d->g, u); s++) dear[i] = dear[i] || dear[an_dag_pos(d, an_uop_src(d->g, u, s))];
    }
}

/* Is what u computes part of stores that all run in these loops and no others around range r? */
static bool runs_in(const an_dag *d, an_uop sink, an_uop u, size_t r, const an_rangeset *outer, bool *seen)
{
    an_uop loops[AN_OPT_LOOPS_MAX];
    uint32_t n = 0;
    size_t end = 0, want = 0;
    for (size_t k = 0; k < d->ranges.len; k++)
        if (an_rangeset_has(outer, k)) {
            want++;
            end = k + 1;
        }
    if (r < end || !an_opt_outer_loops(d, sink, an_dag_pos(d, u), end, seen, loops, &n) || n != want) return false;
    for (uint32_t k = 0; k < n; k++)
        if (!an_rangeset_has(outer, an_dag_range_at(d, loops[k]))) return false;
    return true;
}

/* keys[position]: of what is computed there, whatever stands in the place of the range and on which side of a sum things are. */
static void keys_but_for(const an_dag *d, size_t range, an_key *keys)
{
    const an_graph *g = d->g;
    for (size_t i = 0; i < d->order.len; i++) {
        const an_uop u = d->order.data[i];
        const an_op op = an_uop_op(g, u);
        if (!an_rangeset_has(&d->deps[i], range)) {
            keys[i] = an_key_of(&u.id, sizeof u.id);
            continue;
        }
        keys[i] = an_key_mix(an_key_of("varies", 6), (uint64_t)op << 32 | (uint64_t)an_uop_dtype(g, u));
        if (an_uop_eq(u, d->ranges.data[range])) continue;
        keys[i] = an_key_mix(keys[i], an_uop_arg(g, u));
        an_key sum = {0};
        for (uint32_t s = 0; s < an_uop_nsrc(g, u); s++) {
            const an_key k = keys[an_dag_pos(d, an_uop_src(g, u, s))];
            if (an_op_has(op, AN_TRAIT_COMM))
                sum = (an_key){.lo = sum.lo + k.lo, .hi = sum.hi + k.hi};
            else
                sum = an_key_mix(an_key_mix(sum, k.lo), k.hi);
        }
        keys[i] = an_key_mix(an_key_mix(keys[i], sum.lo), sum.hi);
    }
}

/* The largest expression over REDUCE range r that is dear and is computed over range k too, into t as its first two. */
static void match(const an_dag *d, an_uop sink, size_t r, size_t k, const an_key *of_r, const an_key *of_k, const bool *dear, bool *seen, twins *t)
{
    for (size_t i = d->order.len; i-- > 0;) {
        an_rangeset outer = d->deps[i];
        const an_uop u = d->order.data[i];
        if (!dear[i] || an_uop_dtype(d->g, u) == AN_BOOL || (t->n && !an_uop_eq(u, t->expr[0]))) continue;
        an_rangeset_drop(&outer, r);
        if (!runs_in(d, sink, u, r, &outer, seen)) continue;
        for (size_t j = 0; j < d->order.len; j++) {
            const an_uop v = d->order.data[j];
            if (!an_rangeset_has(&d->deps[j], k) || !an_key_eq(of_k[j], of_r[i]) || !runs_in(d, sink, v, k, &outer, seen)) continue;
            if (!t->n) *t = (twins){.n = 1, .expr = {u}, .range = {d->ranges.data[r]}};
            t->expr[t->n] = v;
            t->range[t->n++] = d->ranges.data[k];
            return;
        }
    }
}

/* The same for each other range with as many elements. */
static an_status find_twins(const an_dag *d, an_uop sink, size_t r, twins *t)
{
    an_ctx *ctx = an_graph_ctx(d->g);
    const size_t n = d->order.len;
    an_status st = AN_ERR_NOMEM;
    bool *dear = an_mem_alloc(ctx, n * sizeof *dear), *seen = an_mem_alloc(ctx, n * sizeof *seen);
    an_key *of_r = an_mem_alloc(ctx, n * sizeof *of_r), *of_k = an_mem_alloc(ctx, n * sizeof *of_k);
    if (!dear || !seen || !of_r || !of_k) goto done;
    st = AN_OK;
    mark_dear(d, r, dear);
    keys_but_for(d, r, of_r);
    for (size_t k = 0; k < d->ranges.len && t->n < TWINS_MAX; k++) {
        const an_range_kind kind = an_range_kind_of(an_uop_arg(d->g, d->ranges.data[k]));
        if (k == r || (kind != AN_RANGE_LOOP && kind != AN_RANGE_REDUCE)) continue;
        if (!an_uop_eq(an_uop_src(d->g, d->ranges.data[k], 0), an_uop_src(d->g, d->ranges.data[r], 0))) continue;
        keys_but_for(d, k, of_k);
        match(d, sink, r, k, of_r, of_k, dear, seen, t);
    }
done:
    an_mem_free(ctx, dear, n * sizeof *dear);
    an_mem_free(ctx, seen, n * sizeof *seen);
    an_mem_free(ctx, of_r, n * sizeof *of_r);
    an_mem_free(ctx, of_k, n * sizeof *of_k);
    return st;
}

/* The scratch, the store that fills it, and what stands for each twin. */
static an_status make(const an_dag *d, const twins *t, int64_t nelem, an_uop *fill, an_uop *reads)
{
    an_graph *g = d->g;
    an_uop loops[AN_OPT_LOOPS_MAX];
    uint32_t n = 0, number = 0;
    int64_t nbytes = 0;
    const an_rangeset *deps = an_dag_deps(d, t->expr[0]);
    for (size_t k = 0; k < d->ranges.len; k++)
        if (an_rangeset_has(deps, k) && !an_uop_eq(d->ranges.data[k], t->range[0])) loops[n++] = d->ranges.data[k];
    an_opt_scratch_now(d, &nbytes, &number);
    const uint32_t id = an_range_id(an_uop_arg(g, d->ranges.data[d->ranges.len - 1])) + AN_RANGE_ID_STEP;
    const an_uop own = an_range(g, an_uop_src(g, t->range[0], 0), id, AN_RANGE_LOOP);
    const an_uop local = an_local(g, an_uop_dtype(g, t->expr[0]), (uint32_t)nelem, number, loops, n);
    if (an_uop_is_none(own) || an_uop_is_none(local)) return AN_ERR_NOMEM;
    const an_range_sub sub = {t->range[0], own, {own}, 1};
    an_uop value = t->expr[0];
    const an_status st = an_replace_free_ranges(g, &value, 1, &sub, 1);
    if (st) return st;
    *fill = an_store(g, local, own, value, AN_UOP_NONE);
    bool ok = !an_uop_is_none(*fill);
    for (uint32_t k = 0; k < t->n; k++) {
        reads[k] = an_load(g, local, t->range[k], AN_UOP_NONE);
        ok = ok && !an_uop_is_none(reads[k]);
    }
    return ok ? AN_OK : AN_ERR_NOMEM;
}

/* The sink with reads in place of the twins, and with fill. */
static an_status put(const an_dag *d, an_uop *sink, const twins *t, const an_uop *reads, an_uop fill)
{
    an_graph *g = d->g;
    an_ctx *ctx = an_graph_ctx(g);
    an_nodemap map = {0};
    an_uop_vec scratch = {0}, stores = {0};
    an_status st = AN_ERR_NOMEM;
    for (size_t i = 0; i < d->order.len; i++) {
        const an_uop u = d->order.data[i];
        an_uop v = an_nodemap_rebuild(&map, g, u, &scratch);
        for (uint32_t k = 0; k < t->n; k++)
            if (an_uop_eq(u, t->expr[k])) v = reads[k];
        if (an_uop_is_none(v) || !an_nodemap_set(&map, ctx, u, v)) goto done;
    }
    const an_uop now = an_nodemap_get(&map, *sink);
    for (uint32_t s = 0; s < an_uop_nsrc(g, now); s++)
        if (!an_vec_push(ctx, &stores, an_uop_src(g, now, s))) goto done;
    if (!an_vec_push(ctx, &stores, fill)) goto done;
    const an_uop whole = an_sink(g, stores.data, (uint32_t)stores.len);
    if (an_uop_is_none(whole)) goto done;
    *sink = whole;
    st = AN_OK;
done:
    an_nodemap_fini(&map, ctx);
    an_vec_fini(ctx, &scratch);
    an_vec_fini(ctx, &stores);
    return st;
}

an_status an_opt_keep(an_dag *d, an_uop *sink, size_t r, int64_t nbytes_max, const char **why)
{
    const int64_t n = an_range_bound(d->g, d->ranges.data[r]);
    an_uop reads[TWINS_MAX], fill = AN_UOP_NONE;
    twins t = {0};
    int64_t nbytes = 0;
    uint32_t number = 0;
    an_status st = find_twins(d, *sink, r, &t);
    if (st) return st;
    an_opt_scratch_now(d, &nbytes, &number);
    *why = t.n < 2                    ? "nothing dear that it computes is computed again over as many elements"
           : number == AN_LOCALS_MAX ? "there is no scratch left"
           : n > (nbytes_max - nbytes) / (int64_t)an_dtype_nbytes(an_uop_dtype(d->g, t.expr[0])) ? "the copy would be larger than that"
                                                                                                 : NULL;
    if (*why) return AN_OK;
    st = make(d, &t, n, &fill, reads);
    return st ? st : put(d, sink, &t, reads, fill);
}
