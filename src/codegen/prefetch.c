/* prefetch.c - what is going to be read, and processors do not see coming, is asked for.
 *
 *   NEXT   what a loop copies to scratch: while one copy is used, what the next one is made of, a part in each iteration
 *   AFTER  what is loaded or stored after a loop: before it
 *   AGAIN  rows that are read more than once: while one is read again, the next one. The first loop over a row waits for memory, the
 *          others do not use it; hardware that fetches ahead stops at the end of a page, which is where such rows end
 *   ROOM   the row that a loop stores, in the loop over rows before it: stores wait for lines that are not there
 *   FAR    loads that move on in long steps: some iterations ahead, for from page to page hardware sees no steps
 *
 *   for j                                          for j
 *     for k: scratch[k] = B[k, j]                    for k: scratch[k] = B[k, j]
 *     for i                                          for i
 *                                         NEXT         prefetch B[i, j + 1]
 *                                         AFTER        prefetch C[i, j]
 *       for k: s = s + A[i, k] * scratch[k]            for k: s = s + A[i, k] * scratch[k]
 *       C[i, j] = C[i, j] + s                          C[i, j] = C[i, j] + s
 *
 * What is past the end of a buffer is asked for in vain, which is no fault. A request is a hint: where the list cannot hold its address
 * it is left out. */
#include "codegen/pass.h"

#include <stdlib.h>

enum {
    LINE_NBYTES = 64,
    ROW_NBYTES_MIN = 1024,  /* AGAIN: from row to row */
    LOAD_NBYTES_MIN = 32,
    STEP_NBYTES_MIN = 2048, /* FAR */
    AHEAD = 16,             /* iterations */
    LONG_LOOP = 16,         /* NEXT and AFTER: iterations of a loop worth asking before */
    ASKS_MAX = 16           /* NEXT: lines at one place */
};

typedef struct loop {
    an_uop range;
    size_t begin, end;   /* in the list */
    size_t parent, last; /* indices of loops; last: the last one inside, 0 for none */
    bool fills, writes;  /* scratch, and something else */
} loop;

/* A load or a store of consecutive elements of a buffer. */
typedef struct load {
    size_t at, loop; /* in the list; in loops */
    an_uop ptr, base;
    int64_t lanes;
    bool stores;
} load;

/* A line to ask for: before position `at` of the list, which is in that loop. */
typedef struct ask {
    size_t at, loop, nth;
    an_uop ptr, index;
    bool stores;
} ask;

typedef struct prefetcher {
    an_graph *g;
    an_ctx *ctx;
    const an_uop_vec *linear;
    AN_VEC(loop) loops; /* the first stands for the whole list */
    AN_VEC(load) loads;
    AN_VEC(ask) asks;
    an_dag d;
    int64_t *coefs;  /* for each range of d, by position */
    an_idmap given;  /* what is in the list, by node id: 1 + its place */
} prefetcher;

/* --- the list ----------------------------------------------------------------------------------- */

static an_uop base_of(const an_graph *g, an_uop u)
{
    const an_uop index = an_uop_src(g, u, 1);
    return an_uop_op(g, index) == AN_OP_RAMP ? an_uop_src(g, index, 0) : index;
}

static an_status add_load(prefetcher *p, size_t i, size_t open)
{
    const an_graph *g = p->g;
    const an_uop u = p->linear->data[i];
    const load w = {i, open, an_uop_src(g, u, 0), base_of(g, u), (int64_t)an_uop_lanes(g, an_uop_src(g, u, 1)), an_uop_op(g, u) == AN_OP_STORE};
    if (an_uop_op(g, w.ptr) != AN_OP_PARAM || (w.lanes > 1 && an_uop_op(g, an_uop_src(g, u, 1)) != AN_OP_RAMP)) return AN_OK;
    return an_vec_push(p->ctx, &p->loads, w) ? AN_OK : AN_ERR_NOMEM;
}

static an_status read_list(prefetcher *p)
{
    const an_graph *g = p->g;
    size_t open = 0;
    const loop all = {.range = AN_UOP_NONE, .end = p->linear->len};
    if (!an_vec_push(p->ctx, &p->loops, all)) return AN_ERR_NOMEM;
    for (size_t i = 0; i < p->linear->len; i++) {
        const an_uop u = p->linear->data[i];
        const an_op op = an_uop_op(g, u);
        if (!an_idmap_set(&p->given, p->ctx, u.id, (uint32_t)i + 1)) return AN_ERR_NOMEM;
        if (op == AN_OP_RANGE) {
            const loop l = {.range = u, .begin = i, .parent = open};
            p->loops.data[open].last = p->loops.len;
            open = p->loops.len;
            if (!an_vec_push(p->ctx, &p->loops, l)) return AN_ERR_NOMEM;
        } else if (op == AN_OP_END) {
            p->loops.data[open].end = i;
            open = p->loops.data[open].parent;
        } else if (op == AN_OP_STORE) {
            *(an_uop_op(g, an_uop_src(g, u, 0)) == AN_OP_LOCAL ? &p->loops.data[open].fills : &p->loops.data[open].writes) = true;
        }
        if (op == AN_OP_LOAD || op == AN_OP_STORE) {
            const an_status st = add_load(p, i, open);
            if (st) return st;
        }
    }
    return AN_OK;
}

static an_status read_indices(prefetcher *p)
{
    an_uop_vec roots = {0};
    an_status st = AN_OK;
    for (size_t i = 0; i < p->loads.len && !st; i++)
        if (!an_vec_push(p->ctx, &roots, p->loads.data[i].base)) st = AN_ERR_NOMEM;
    if (!st) st = an_dag_init(&p->d, p->g, roots.data, (uint32_t)roots.len);
    an_vec_fini(p->ctx, &roots);
    if (st) return st;
    p->coefs = an_mem_alloc(p->ctx, p->d.ranges.len * p->d.order.len * sizeof *p->coefs);
    if (!p->coefs) return AN_ERR_NOMEM;
    for (size_t r = 0; r < p->d.ranges.len; r++) an_dag_coefs(&p->d, r, p->coefs + r * p->d.order.len);
    return AN_OK;
}

/* By how many elements a load moves on in a loop; 0: it does not, or not by a constant. */
static int64_t step_of(const prefetcher *p, const load *w, size_t in)
{
    const size_t r = in ? an_dag_range_at(&p->d, p->loops.data[in].range) : AN_RANGES_MAX;
    if (r == AN_RANGES_MAX) return 0;
    const int64_t c = p->coefs[r * p->d.order.len + an_dag_pos(&p->d, w->base)];
    return c == AN_COEF_NONE ? 0 : c;
}

static bool varies(const prefetcher *p, const load *w, size_t in)
{
    const size_t r = in ? an_dag_range_at(&p->d, p->loops.data[in].range) : AN_RANGES_MAX;
    return r != AN_RANGES_MAX && an_rangeset_has(an_dag_deps(&p->d, w->base), r);
}

static int64_t nbytes_of(const prefetcher *p, const load *w)
{
    return (int64_t)an_dtype_nbytes(an_uop_dtype(p->g, w->ptr));
}

static int64_t bound_of(const prefetcher *p, size_t in)
{
    return an_range_bound(p->g, p->loops.data[in].range);
}

/* Does a nest run its innermost body often enough for something to arrive meanwhile? */
static bool is_long(const prefetcher *p, size_t in)
{
    int64_t n = bound_of(p, in);
    for (size_t i = p->loops.data[in].last; i && n > 0 && n < LONG_LOOP; i = p->loops.data[i].last) n *= bound_of(p, i);
    return n >= LONG_LOOP;
}

/* --- asking ------------------------------------------------------------------------------------- */

/* index is root + offset. */
static an_uop root_of(const an_graph *g, an_uop index, int64_t *offset)
{
    int64_t c = 0;
    *offset = 0;
    while (an_uop_op(g, index) == AN_OP_ADD && an_uop_int(g, an_uop_src(g, index, 1), &c)) {
        *offset += c;
        index = an_uop_src(g, index, 0);
    }
    return index;
}

/* Is that line, or one that overlaps it, asked for already in that loop? */
static bool is_asked(const prefetcher *p, const ask *a, int64_t nbytes)
{
    int64_t offset = 0, other = 0;
    const an_uop root = root_of(p->g, a->index, &offset);
    for (size_t i = p->asks.len; i-- > 0;) {
        const ask *b = &p->asks.data[i];
        if (b->loop != a->loop || !an_uop_eq(b->ptr, a->ptr) || !an_uop_eq(root_of(p->g, b->index, &other), root)) continue;
        if ((offset - other) * nbytes < LINE_NBYTES && (other - offset) * nbytes < LINE_NBYTES) return true;
    }
    return false;
}

/* Asks for the lines of a load whose first element would be at index. */
static an_status ask_lines(prefetcher *p, const load *w, size_t at, size_t in, an_uop index)
{
    const int64_t nbytes = nbytes_of(p, w), line = LINE_NBYTES / nbytes;
    for (int64_t c = 0; c < w->lanes; c += line) {
        const ask a = {at, in, p->asks.len, w->ptr, an_idx_add(p->g, index, an_index(p->g, c)), w->stores};
        if (an_uop_is_none(a.index)) return AN_ERR_NOMEM;
        if (!is_asked(p, &a, nbytes) && !an_vec_push(p->ctx, &p->asks, a)) return AN_ERR_NOMEM;
    }
    return AN_OK;
}

static an_status ask_further(prefetcher *p, const load *w, int64_t by)
{
    return ask_lines(p, w, w->at, w->loop, an_idx_add(p->g, w->base, an_index(p->g, by)));
}

/* NEXT. Places are in the loop next to the innermost of the last nest beside the copy: in the order in which they come up, each
 * has as many iterations of the copy as it takes. */
static an_status ask_next(prefetcher *p, const load *w, bool *done)
{
    const loop *l = &p->loops.data[w->loop];
    const size_t around = l->parent;
    an_graph *g = p->g;
    if (!l->fills || l->writes || l->last || !around || !varies(p, w, around)) return AN_OK;
    const int64_t n = bound_of(p, w->loop);
    int64_t places = 1, nlines = 0;
    an_uop place = an_index(g, 0);
    size_t in = p->loops.data[around].last;
    if (n < 1 || p->loops.data[in].begin < l->end || !p->loops.data[in].last) return AN_OK;
    for (;; in = p->loops.data[in].last) {
        const int64_t bound = bound_of(p, in);
        if (bound < 1 || __builtin_mul_overflow(places, bound, &places)) return AN_OK;
        place = an_idx_add(g, an_idx_mul(g, place, an_index(g, bound)), p->loops.data[in].range);
        if (an_uop_is_none(place)) return AN_ERR_NOMEM;
        if (!p->loops.data[p->loops.data[in].last].last) break;
    }
    if (!is_long(p, p->loops.data[in].last)) return AN_OK;
    for (size_t i = 0; i < p->loads.len; i++)
        if (p->loads.data[i].loop == w->loop && !p->loads.data[i].stores) nlines += p->loads.data[i].lanes * nbytes_of(p, &p->loads.data[i]);
    nlines = (nlines + LINE_NBYTES - 1) / LINE_NBYTES;
    const int64_t each = (n + places - 1) / places;
    if (each * nlines > ASKS_MAX) return AN_OK;
    *done = true;
    for (int64_t q = 0; q < each; q++) {
        an_uop k = an_idx_add(g, an_idx_mul(g, place, an_index(g, each)), an_index(g, q)), index = w->base;
        const an_uop last = an_index(g, n - 1), on = an_idx_add(g, p->loops.data[around].range, an_index(g, 1));
        if (each * places > n && !an_uop_is_none(k) && !an_uop_is_none(last)) k = an_uop_new(g, AN_OP_MIN, AN_INDEX, (const an_uop[]){k, last}, 2, 0);
        if (an_uop_is_none(k) || an_uop_is_none(on)) return AN_ERR_NOMEM;
        const an_range_sub subs[2] = {{l->range, k, {AN_UOP_NONE, AN_UOP_NONE}, 0}, {p->loops.data[around].range, on, {AN_UOP_NONE, AN_UOP_NONE}, 0}};
        an_status st = an_replace_ranges(g, &index, 1, subs, 2);
        if (!st) st = ask_lines(p, w, p->loops.data[in].begin + 1, in, index);
        if (st) return st;
    }
    return AN_OK;
}

static an_status ask_after(prefetcher *p, const load *w, bool *done)
{
    size_t before = 0;
    if (!w->loop || !varies(p, w, w->loop)) return AN_OK;
    for (size_t i = w->loop + 1; i < p->loops.len && p->loops.data[i].begin < w->at; i++)
        if (p->loops.data[i].parent == w->loop) before = i;
    if (!before || !is_long(p, before)) return AN_OK;
    *done = true;
    return ask_lines(p, w, p->loops.data[before].begin, w->loop, w->base);
}

/* Does a load walk rows: element after element in its loop, and on by a row in the one around? */
static bool is_walk(const prefetcher *p, const load *w)
{
    return w->loop && bound_of(p, w->loop) >= 0 && an_uop_nsrc(p->g, p->linear->data[w->at]) == (w->stores ? 3 : 2) && step_of(p, w, w->loop) == w->lanes &&
           step_of(p, w, p->loops.data[w->loop].parent) != 0;
}

static bool same_row(const prefetcher *p, const load *a, const load *b)
{
    const size_t around = p->loops.data[a->loop].parent;
    return !a->stores && is_walk(p, a) && an_uop_eq(a->ptr, b->ptr) && p->loops.data[b->loop].parent == around && step_of(p, a, around) == step_of(p, b, around) &&
           bound_of(p, a->loop) * a->lanes == bound_of(p, b->loop) * b->lanes;
}

/* AGAIN, in the second loop over rows. Where the kernel computes the address of the next row itself, it takes rows several at a
 * time, and asks for them itself. */
static an_status ask_again(prefetcher *p, const load *w, bool *done)
{
    size_t first = 0;
    if (!is_walk(p, w)) return AN_OK;
    const int64_t nbytes = nbytes_of(p, w), row = step_of(p, w, p->loops.data[w->loop].parent);
    if (row * nbytes < ROW_NBYTES_MIN || w->lanes * nbytes < LOAD_NBYTES_MIN) return AN_OK;
    for (const load *v = p->loads.data; v < w; v++) {
        if (v->loop == w->loop || !same_row(p, v, w)) continue;
        if (first && v->loop != first) return AN_OK;
        first = v->loop;
    }
    if (!first) return AN_OK;
    *done = true;
    const an_uop next = an_idx_add(p->g, w->base, an_index(p->g, row));
    if (an_uop_is_none(next)) return AN_ERR_NOMEM;
    return an_idmap_get(&p->given, next.id) ? AN_OK : ask_further(p, w, row);
}

/* ROOM, where the last loop before it loads rows that are as long. */
static an_status ask_room(prefetcher *p, const load *w, bool *done)
{
    const load *row = NULL;
    if (!is_walk(p, w)) return AN_OK;
    const size_t around = p->loops.data[w->loop].parent;
    const int64_t nbytes = nbytes_of(p, w);
    if (step_of(p, w, around) * nbytes < ROW_NBYTES_MIN || w->lanes * nbytes < LOAD_NBYTES_MIN) return AN_OK;
    for (const load *v = p->loads.data; v < w; v++)
        if (!v->stores && v->loop != w->loop && p->loops.data[v->loop].parent == around && is_walk(p, v) && v->lanes % w->lanes == 0 &&
            bound_of(p, v->loop) * v->lanes == bound_of(p, w->loop) * w->lanes)
            row = v;
    if (!row) return AN_OK;
    *done = true;
    an_uop index = w->base;
    const an_uop at = an_idx_mul(p->g, p->loops.data[row->loop].range, an_index(p->g, row->lanes / w->lanes));
    if (an_uop_is_none(at)) return AN_ERR_NOMEM;
    const an_range_sub sub = {p->loops.data[w->loop].range, at, {AN_UOP_NONE, AN_UOP_NONE}, 0};
    const an_status st = an_replace_ranges(p->g, &index, 1, &sub, 1);
    load as_wide = *w;
    as_wide.lanes = row->lanes;
    return st ? st : ask_lines(p, &as_wide, row->at, row->loop, index);
}

static an_status ask_far(prefetcher *p, const load *w, bool *done)
{
    const int64_t step = step_of(p, w, w->loop), nbytes = nbytes_of(p, w);
    if (step > INT32_MAX || step < INT32_MIN || (step * nbytes < STEP_NBYTES_MIN && step * nbytes > -STEP_NBYTES_MIN)) return AN_OK;
    *done = true;
    const size_t inside = p->loops.data[w->loop].last;
    return ask_further(p, w, (inside && is_long(p, inside) ? 1 : AHEAD) * step);
}

/* Each is asked for by the first rule that knows it. */
static an_status ask_all(prefetcher *p)
{
    enum { NRULES = 4 };
    an_status (*const of_loads[NRULES])(prefetcher *, const load *, bool *) = {ask_next, ask_after, ask_again, ask_far};
    an_status (*const of_stores[NRULES])(prefetcher *, const load *, bool *) = {ask_after, ask_room};
    an_status st = AN_OK;
    for (size_t i = 0; i < p->loads.len && !st; i++) {
        bool done = false;
        an_status (*const *rules)(prefetcher *, const load *, bool *) = p->loads.data[i].stores ? of_stores : of_loads;
        for (size_t r = 0; r < NRULES && rules[r] && !done && !st; r++) st = rules[r](p, &p->loads.data[i], &done);
    }
    return st;
}

/* --- the list with them ------------------------------------------------------------------------- */

/* The list under way. */
typedef struct growing {
    an_uop_vec list, below;
    an_idmap there;     /* what is in it, by node id: 1 + the loop it is in */
    AN_VEC(bool) is_open; /* of loops, the first of which stands for the whole list */
    AN_VEC(uint32_t) open;
} growing;

static an_status put(const prefetcher *p, growing *w, an_uop u)
{
    const an_op op = an_uop_op(p->g, u);
    if (an_idmap_get(&w->there, u.id)) return AN_OK;
    if (op == AN_OP_RANGE) {
        if (!an_vec_push(p->ctx, &w->open, (uint32_t)w->is_open.len) || !an_vec_push(p->ctx, &w->is_open, true)) return AN_ERR_NOMEM;
    } else if (op == AN_OP_END) {
        w->is_open.data[w->open.data[--w->open.len]] = false;
    }
    if (!an_idmap_set(&w->there, p->ctx, u.id, 1 + w->open.data[w->open.len - 1])) return AN_ERR_NOMEM;
    return an_vec_push(p->ctx, &w->list, u) ? AN_OK : AN_ERR_NOMEM;
}

/* May u be defined here: is it new, or defined further on in the loop that is open? Or is it there already? */
static bool may_define(const prefetcher *p, const growing *w, an_uop u, const ask *a)
{
    const uint32_t scope = an_idmap_get(&w->there, u.id), place = an_idmap_get(&p->given, u.id);
    if (scope) return w->is_open.data[scope - 1];
    const an_op op = an_uop_op(p->g, u);
    if (op == AN_OP_CONST) return true;
    if (an_uop_dtype(p->g, u) != AN_INDEX || !an_op_has(op, AN_TRAIT_ELEM)) return false;
    return !place || place - 1 < p->loops.data[a->loop].end;
}

static an_status put_ask(const prefetcher *p, growing *w, const ask *a)
{
    w->below.len = 0;
    an_status st = an_toposort(p->g, &a->index, 1, &w->below);
    for (size_t i = 0; i < w->below.len && !st; i++)
        if (!may_define(p, w, w->below.data[i], a)) return AN_OK;
    for (size_t i = 0; i < w->below.len && !st; i++) st = put(p, w, w->below.data[i]);
    if (st) return st;
    const an_uop u = an_uop_new(p->g, AN_OP_PREFETCH, AN_DTYPE_NONE, (const an_uop[]){a->ptr, a->index}, 2, a->stores);
    return an_uop_is_none(u) ? AN_ERR_NOMEM : put(p, w, u);
}

/* Constants are known before all loops. */
static an_status put_constants(const prefetcher *p, growing *w)
{
    an_status st = AN_OK;
    for (size_t i = 0; i < p->asks.len && !st; i++) {
        w->below.len = 0;
        st = an_toposort(p->g, &p->asks.data[i].index, 1, &w->below);
        for (size_t k = 0; k < w->below.len && !st; k++)
            if (an_uop_op(p->g, w->below.data[k]) == AN_OP_CONST) st = put(p, w, w->below.data[k]);
    }
    return st;
}

static int by_place(const void *a, const void *b)
{
    const ask *x = a, *y = b;
    return x->at != y->at ? (x->at > y->at) - (x->at < y->at) : (x->nth > y->nth) - (x->nth < y->nth);
}

static an_status rewrite_list(prefetcher *p, an_uop_vec *linear)
{
    growing w = {0};
    an_status st = an_vec_push(p->ctx, &w.open, 0u) && an_vec_push(p->ctx, &w.is_open, true) ? put_constants(p, &w) : AN_ERR_NOMEM;
    qsort(p->asks.data, p->asks.len, sizeof *p->asks.data, by_place);
    for (size_t i = 0, a = 0; i < linear->len && !st; i++) {
        for (; a < p->asks.len && p->asks.data[a].at == i && !st; a++) st = put_ask(p, &w, &p->asks.data[a]);
        if (!st) st = put(p, &w, linear->data[i]);
    }
    if (!st) {
        const an_uop_vec old = *linear;
        *linear = w.list;
        w.list = old;
    }
    an_vec_fini(p->ctx, &w.list);
    an_vec_fini(p->ctx, &w.below);
    an_vec_fini(p->ctx, &w.is_open);
    an_vec_fini(p->ctx, &w.open);
    an_idmap_fini(&w.there, p->ctx);
    return st;
}

an_status an_linear_prefetch(an_graph *g, an_uop_vec *linear)
{
    prefetcher p = {.g = g, .ctx = an_graph_ctx(g), .linear = linear};
    an_status st = read_list(&p);
    if (!st && p.loads.len) st = read_indices(&p);
    if (!st) st = ask_all(&p);
    if (!st && p.asks.len) st = rewrite_list(&p, linear);
    an_mem_free(p.ctx, p.coefs, p.d.ranges.len * p.d.order.len * sizeof *p.coefs);
    an_dag_fini(&p.d);
    an_vec_fini(p.ctx, &p.loops);
    an_vec_fini(p.ctx, &p.loads);
    an_vec_fini(p.ctx, &p.asks);
    an_idmap_fini(&p.given, p.ctx);
    return st;
}
