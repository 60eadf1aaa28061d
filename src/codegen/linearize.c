/* linearize.c - a kernel as a linear list.
 *
 * Every node is an item of the innermost loop that it depends on (so what does not vary in a loop is outside), and every
 * loop is an item of the loop around it. An edge between two nodes is an edge between the two items that hold them in the
 * loop around both:
 *
 *   for i                    items of i: loop k, loop j, the ACC and the ACC_GET of k
 *       for k: x             x is used inside k only: no edge in i
 *       for j: store(y)      y is in i and used in j: edge y -> loop j
 *
 * The order is Kahn's, ties by position in the toposort, so it depends on structure alone. A load of a buffer that the
 * kernel writes comes before the store: of the same element if there is one, else all. A load of scratch comes after
 * all stores to it. */
#include "codegen/loops.h"
#include "codegen/pass.h"

typedef struct edge {
    uint32_t to, next; /* next: 1 + index of the next edge from the same item */
} edge;

typedef struct lin {
    an_graph *g;
    an_ctx *ctx;
    an_loops loops;
    an_uop_vec order; /* items 0..order.len-1; after them, one for each loop */
    an_idmap pos;     /* node id -> 1 + position */
    an_acc_places accs;
    an_idmap acc_at; /* ACC id -> 1 + index in accs */
    uint32_t *home;  /* by item: the loop it is in */
    uint32_t *key;   /* by item: the smaller, the earlier, where there is a choice */
    uint32_t *waits; /* by item: edges into it from items not yet out */
    uint32_t *first; /* by item: 1 + its first edge */
    size_t nitems;
    AN_VEC(edge) edges;
} lin;

static uint32_t loop_item(const lin *l, uint32_t loop)
{
    return (uint32_t)l->order.len + loop;
}

static size_t pos_of(const lin *l, an_uop u)
{
    return an_idmap_get(&l->pos, u.id) - 1u;
}

static const an_acc_place *acc_place(const lin *l, an_uop u)
{
    const uint32_t i = an_idmap_get(&l->acc_at, u.id);
    return i ? &l->accs.data[i - 1] : NULL;
}

/* Loop headers and ends come with the loop, so they are no items. */
static bool is_item(an_op op)
{
    return op != AN_OP_RANGE && op != AN_OP_END && op != AN_OP_SINK;
}

/* The loop in which u has its value for a user: an accumulator is read in its innermost loop. */
static uint32_t loop_for_user(const lin *l, an_uop u)
{
    const an_acc_place *acc = acc_place(l, u);
    return acc ? acc->inner : l->home[pos_of(l, u)];
}

static void find_homes(lin *l)
{
    const an_loop *loops = l->loops.list.data;
    for (size_t i = 0; i < l->order.len; i++) {
        const an_uop u = l->order.data[i];
        const an_op op = an_uop_op(l->g, u);
        uint32_t home = 0;
        if (op == AN_OP_RANGE) {
            home = an_idmap_get(&l->loops.at, u.id);
        } else if (op == AN_OP_ACC) {
            home = acc_place(l, u)->home;
        } else if (op == AN_OP_LOCAL && an_uop_nsrc(l->g, u) && an_uop_op(l->g, an_uop_src(l->g, u, 0)) == AN_OP_END) {
            const uint32_t loop = an_idmap_get(&l->loops.at, an_uop_src(l->g, an_uop_src(l->g, u, 0), 0).id);
            home = loops[loop].parent; /* a tile, after the loop that fills it */
        } else if (op == AN_OP_ACC_GET) {
            home = acc_place(l, an_uop_src(l->g, u, 0))->home;
        } else if (is_item(op)) {
            for (uint32_t s = 0; s < an_uop_nsrc(l->g, u); s++) {
                const uint32_t at = loop_for_user(l, an_uop_src(l->g, u, s));
                if (loops[at].depth > loops[home].depth) home = at;
            }
        }
        l->home[i] = home;
    }
}

static an_status not_nested(const lin *l)
{
    return an_fail(l->ctx, AN_ERR_INTERNAL, "codegen: a value is used outside the loop that makes it");
}

/* An edge between the items that hold a and b in the loop around both; none where that is one item. */
static an_status add_edge(lin *l, uint32_t a, uint32_t b)
{
    const an_loop *loops = l->loops.list.data;
    uint32_t x = l->home[a], y = l->home[b];
    while (x != y) {
        if (loops[x].depth >= loops[y].depth) {
            a = loop_item(l, x);
            x = loops[x].parent;
        } else {
            b = loop_item(l, y);
            y = loops[y].parent;
        }
    }
    if (a == b) return AN_OK;
    const edge e = {b, l->first[a]};
    if (!an_vec_push(l->ctx, &l->edges, e)) return AN_ERR_NOMEM;
    l->first[a] = (uint32_t)l->edges.len;
    l->waits[b]++;
    return AN_OK;
}

static an_status add_source_edges(lin *l)
{
    const an_loop *loops = l->loops.list.data;
    for (size_t i = 0; i < l->order.len; i++) {
        const an_uop u = l->order.data[i];
        const an_op op = an_uop_op(l->g, u);
        if (!is_item(op)) continue;
        for (uint32_t s = 0; s < an_uop_nsrc(l->g, u); s++) {
            const an_uop v = an_uop_src(l->g, u, s);
            uint32_t from = (uint32_t)pos_of(l, v);
            if (an_uop_op(l->g, v) == AN_OP_END)
                from = loop_item(l, an_idmap_get(&l->loops.at, an_uop_src(l->g, v, 0).id));
            else if (!is_item(an_uop_op(l->g, v)))
                continue;
            const uint32_t around = l->home[from], inside = l->home[i];
            if (an_loops_up(&l->loops, inside, loops[around].depth) != around) return not_nested(l);
            const an_status st = add_edge(l, from, (uint32_t)i);
            if (st) return st;
        }
    }
    /* The bound of a loop is known before it. */
    for (uint32_t k = 1; k < l->loops.list.len; k++) {
        const an_uop bound = an_uop_src(l->g, loops[k].range, 0);
        const an_status st = add_edge(l, (uint32_t)pos_of(l, bound), loop_item(l, k));
        if (st) return st;
    }
    return AN_OK;
}

static an_status add_memory_edges(lin *l)
{
    an_uop_vec stores = {0};
    an_status st = AN_ERR_NOMEM;
    for (size_t i = 0; i < l->order.len; i++)
        if (an_uop_op(l->g, l->order.data[i]) == AN_OP_STORE && !an_vec_push(l->ctx, &stores, l->order.data[i])) goto done;
    for (size_t i = 0; i < l->order.len; i++) {
        const an_uop load = l->order.data[i];
        if (an_uop_op(l->g, load) != AN_OP_LOAD) continue;
        const an_uop ptr = an_uop_src(l->g, load, 0), index = an_uop_src(l->g, load, 1);
        bool same_element = false;
        for (size_t s = 0; s < stores.len; s++)
            same_element = same_element || (an_uop_eq(an_uop_src(l->g, stores.data[s], 0), ptr) &&
                                            an_uop_eq(an_uop_src(l->g, stores.data[s], 1), index));
        for (size_t s = 0; s < stores.len; s++) {
            if (!an_uop_eq(an_uop_src(l->g, stores.data[s], 0), ptr)) continue;
            const uint32_t store = (uint32_t)pos_of(l, stores.data[s]);
            const bool local = an_uop_op(l->g, ptr) == AN_OP_LOCAL;
            if (!local && same_element && !an_uop_eq(an_uop_src(l->g, stores.data[s], 1), index)) continue;
            st = local ? add_edge(l, store, (uint32_t)i) : add_edge(l, (uint32_t)i, store);
            if (st) goto done;
        }
    }
    st = AN_OK;
done:
    an_vec_fini(l->ctx, &stores);
    return st;
}

/* --- Kahn's order ------------------------------------------------------------------------------ */

typedef AN_VEC(uint32_t) item_heap; /* least key first */

static bool before(const lin *l, uint32_t a, uint32_t b)
{
    return l->key[a] != l->key[b] ? l->key[a] < l->key[b] : a < b;
}

static bool heap_push(const lin *l, item_heap *h, uint32_t item)
{
    if (!an_vec_push(l->ctx, h, item)) return false;
    for (size_t i = h->len - 1; i > 0 && before(l, item, h->data[(i - 1) / 2]); i = (i - 1) / 2) {
        h->data[i] = h->data[(i - 1) / 2];
        h->data[(i - 1) / 2] = item;
    }
    return true;
}

static uint32_t heap_pop(const lin *l, item_heap *h)
{
    const uint32_t top = h->data[0], last = h->data[--h->len];
    size_t i = 0;
    for (size_t c = 1; c < h->len; i = c, c = 2 * i + 1) {
        if (c + 1 < h->len && before(l, h->data[c + 1], h->data[c])) c++;
        if (!before(l, h->data[c], last)) break;
        h->data[i] = h->data[c];
    }
    if (h->len) h->data[i] = last;
    return top;
}

/* All items in an order in which each comes after what it waits for; edges join items of one loop only, so the items of
 * each loop, taken out of it, are in order too. */
static an_status sort_items(lin *l, item_heap *heap, uint32_t *sorted, size_t *nsorted)
{
    const size_t n = l->order.len;
    *nsorted = 0;
    for (size_t i = 0; i < n; i++) {
        l->key[i] = (uint32_t)i;
        if (!is_item(an_uop_op(l->g, l->order.data[i]))) continue;
        for (uint32_t k = l->home[i]; k; k = l->loops.list.data[k].parent)
            if (l->key[loop_item(l, k)] > i) l->key[loop_item(l, k)] = (uint32_t)i;
    }
    for (size_t i = 0; i < l->nitems; i++) {
        const bool item = i < n ? is_item(an_uop_op(l->g, l->order.data[i])) : i > n;
        if (item && l->waits[i] == 0 && !heap_push(l, heap, (uint32_t)i)) return AN_ERR_NOMEM;
    }
    while (heap->len) {
        const uint32_t item = heap_pop(l, heap);
        sorted[(*nsorted)++] = item;
        for (uint32_t e = l->first[item]; e; e = l->edges.data[e - 1].next)
            if (--l->waits[l->edges.data[e - 1].to] == 0 && !heap_push(l, heap, l->edges.data[e - 1].to))
                return AN_ERR_NOMEM;
    }
    for (size_t i = 0; i < l->nitems; i++)
        if (l->waits[i])
            return an_fail(l->ctx, AN_ERR_INTERNAL, "codegen: no order of loads and stores is right: a kernel reads what it "
                                                    "writes at another index");
    return AN_OK;
}

/* --- emission ---------------------------------------------------------------------------------- */

/* Walks the tree: next[loop] is the place in sorted up to which its items are out. */
static an_status emit(lin *l, const uint32_t *sorted, size_t nsorted, uint32_t *start, an_uop_vec *linear)
{
    const size_t n = l->order.len, nloops = l->loops.list.len;
    uint32_t *bucket = start + nloops + 1; /* sorted, by loop */
    for (size_t i = 0; i < nsorted; i++) start[l->home[sorted[i]] + 1]++;
    for (size_t k = 0; k < nloops; k++) start[k + 1] += start[k];
    uint32_t *at = bucket + nsorted; /* by loop: the next item to go out */
    for (size_t k = 0; k < nloops; k++) at[k] = start[k];
    for (size_t i = 0; i < nsorted; i++) bucket[at[l->home[sorted[i]]]++] = sorted[i];
    for (size_t k = 0; k < nloops; k++) at[k] = start[k];

    for (uint32_t loop = 0;;) {
        if (at[loop] == start[loop + 1]) {
            if (loop == 0) return AN_OK;
            const an_uop range = l->loops.list.data[loop].range;
            const an_uop end = an_uop_new(l->g, AN_OP_END, AN_DTYPE_NONE, &range, 1, 0);
            if (an_uop_is_none(end) || !an_vec_push(l->ctx, linear, end)) return AN_ERR_NOMEM;
            loop = l->loops.list.data[loop].parent;
            continue;
        }
        const uint32_t item = bucket[at[loop]++];
        if (item < n) {
            if (!an_vec_push(l->ctx, linear, l->order.data[item])) return AN_ERR_NOMEM;
        } else {
            loop = item - (uint32_t)n;
            if (!an_vec_push(l->ctx, linear, l->loops.list.data[loop].range)) return AN_ERR_NOMEM;
        }
    }
}

/* What must be computed, in order: the new values of accumulators, then the stores. */
static an_status collect(lin *l, an_uop sink)
{
    an_uop_vec roots = {0};
    an_status st = an_reduce_lower(l->g, &sink, &l->loops, &roots, &l->accs);
    if (st) goto done;
    st = AN_ERR_NOMEM;
    for (size_t k = 1; k < l->loops.list.len; k++) /* of loops that no value depends on, too */
        if (!an_vec_push(l->ctx, &roots, an_uop_src(l->g, l->loops.list.data[k].range, 0))) goto done;
    for (uint32_t i = 0; i < an_uop_nsrc(l->g, sink); i++)
        if (!an_vec_push(l->ctx, &roots, an_uop_src(l->g, sink, i))) goto done;
    st = an_toposort(l->g, roots.data, (uint32_t)roots.len, &l->order);
    if (st) goto done;
    st = AN_ERR_NOMEM;
    for (size_t i = 0; i < l->order.len; i++)
        if (!an_idmap_set(&l->pos, l->ctx, l->order.data[i].id, (uint32_t)i + 1)) goto done;
    for (size_t i = 0; i < l->accs.len; i++)
        if (!an_idmap_set(&l->acc_at, l->ctx, l->accs.data[i].acc.id, (uint32_t)i + 1)) goto done;
    st = AN_OK;
done:
    an_vec_fini(l->ctx, &roots);
    return st;
}

an_status an_pass_linearize(an_graph *g, an_uop sink, an_uop_vec *linear)
{
    lin l = {.g = g, .ctx = an_graph_ctx(g)};
    item_heap heap = {0};
    uint32_t *sorted = NULL, *start = NULL;
    size_t nsorted = 0, nstart = 0;
    an_status st = an_loops_place(g, &sink, &l.loops);
    if (!st) st = collect(&l, sink);
    if (st) goto done;
    st = AN_ERR_NOMEM;
    const size_t n = l.order.len, nloops = l.loops.list.len;
    l.nitems = n + nloops;
    l.home = an_mem_zalloc(l.ctx, l.nitems * sizeof *l.home);
    l.key = an_mem_alloc(l.ctx, l.nitems * sizeof *l.key);
    l.waits = an_mem_zalloc(l.ctx, l.nitems * sizeof *l.waits);
    l.first = an_mem_zalloc(l.ctx, l.nitems * sizeof *l.first);
    sorted = an_mem_alloc(l.ctx, l.nitems * sizeof *sorted);
    nstart = nloops + 1 + l.nitems + nloops;
    start = an_mem_zalloc(l.ctx, nstart * sizeof *start);
    if (!l.home || !l.key || !l.waits || !l.first || !sorted || !start) goto done;
    find_homes(&l);
    for (size_t k = 0; k < nloops; k++) {
        l.home[n + k] = l.loops.list.data[k].parent;
        l.key[n + k] = UINT32_MAX;
    }
    st = add_source_edges(&l);
    if (!st) st = add_memory_edges(&l);
    if (!st) st = sort_items(&l, &heap, sorted, &nsorted);
    if (!st) st = emit(&l, sorted, nsorted, start, linear);
done:
    an_mem_free(l.ctx, l.home, l.nitems * sizeof *l.home);
    an_mem_free(l.ctx, l.key, l.nitems * sizeof *l.key);
    an_mem_free(l.ctx, l.waits, l.nitems * sizeof *l.waits);
    an_mem_free(l.ctx, l.first, l.nitems * sizeof *l.first);
    an_mem_free(l.ctx, sorted, l.nitems * sizeof *sorted);
    an_mem_free(l.ctx, start, nstart * sizeof *start);
    an_vec_fini(l.ctx, &heap);
    an_vec_fini(l.ctx, &l.edges);
    an_vec_fini(l.ctx, &l.accs);
    an_vec_fini(l.ctx, &l.order);
    an_idmap_fini(&l.pos, l.ctx);
    an_idmap_fini(&l.acc_at, l.ctx);
    an_loops_fini(&l.loops, l.ctx);
    return st;
}
