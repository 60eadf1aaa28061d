/* prefetch.c - rows that are read more than once: while one is read again, the next one is fetched.
 *
 *   for i                                  for i
 *     for k: m = max(m, A[i, k])             for k: m = max(m, A[i, k])
 *     for l: s = s + f(A[i, l] - m)          for l: s = s + f(A[i, l] - m), prefetch A[i + 1, l]
 *
 * The first loop over a row waits for memory, the others do not use it; hardware that fetches ahead stops at the end of a page, which
 * is where such rows end. (Measured: softmax over rows of a page, 1.3 times as fast.) What is past the last row is asked for in
 * vain, which is no fault. */
#include "codegen/pass.h"

enum { ROW_NBYTES_MIN = 1024, LOAD_NBYTES_MIN = 32, LINE_NBYTES = 64 };

/* A load in a loop that walks a row, element after element, and moves on by a row where the loop around it does. */
typedef struct walk {
    size_t at; /* in the list */
    an_uop ptr, loop, around;
    int64_t row; /* elements from a row to the next */
    int64_t extent;
} walk;
typedef AN_VEC(walk) walk_vec;

static an_uop base_of(const an_graph *g, an_uop load)
{
    const an_uop index = an_uop_src(g, load, 1);
    return an_uop_op(g, index) == AN_OP_RAMP ? an_uop_src(g, index, 0) : index;
}

/* How much index grows with range; 0: it does not, or not by a constant. */
static int64_t coef_of(const an_dag *d, an_uop index, an_uop range, int64_t *coefs)
{
    const size_t r = an_dag_range_at(d, range);
    if (r == AN_RANGES_MAX) return 0;
    an_dag_coefs(d, r, coefs);
    const int64_t c = coefs[an_dag_pos(d, index)];
    return c == AN_COEF_NONE ? 0 : c;
}

static an_status find_walks(an_graph *g, const an_uop_vec *linear, walk_vec *walks)
{
    an_ctx *ctx = an_graph_ctx(g);
    an_uop_vec open = {0}, roots = {0};
    an_dag d = {0};
    int64_t *coefs = NULL;
    an_status st = AN_ERR_NOMEM;
    for (size_t i = 0; i < linear->len; i++)
        if (an_uop_op(g, linear->data[i]) == AN_OP_LOAD && !an_vec_push(ctx, &roots, base_of(g, linear->data[i]))) goto done;
    st = an_dag_init(&d, g, roots.data, (uint32_t)roots.len);
    if (st) goto done;
    st = AN_ERR_NOMEM;
    coefs = an_mem_alloc(ctx, d.order.len * sizeof *coefs);
    if (!coefs) goto done;
    for (size_t i = 0; i < linear->len; i++) {
        const an_uop u = linear->data[i];
        const an_op op = an_uop_op(g, u);
        if (op == AN_OP_RANGE && !an_vec_push(ctx, &open, u)) goto done;
        if (op == AN_OP_END) open.len--;
        const int64_t lanes = (int64_t)an_uop_lanes(g, u);
        if (op != AN_OP_LOAD || open.len < 2 || an_uop_nsrc(g, u) > 2 || an_uop_op(g, an_uop_src(g, u, 0)) != AN_OP_PARAM) continue;
        if (lanes > 1 && an_uop_op(g, an_uop_src(g, u, 1)) != AN_OP_RAMP) continue;
        walk w = {.at = i, .ptr = an_uop_src(g, u, 0), .loop = open.data[open.len - 1], .around = open.data[open.len - 2]};
        w.extent = an_range_bound(g, w.loop) * lanes;
        if (w.extent < 0 || coef_of(&d, base_of(g, u), w.loop, coefs) != lanes) continue;
        w.row = coef_of(&d, base_of(g, u), w.around, coefs);
        if (w.row && !an_vec_push(ctx, walks, w)) goto done;
    }
    st = AN_OK;
done:
    an_mem_free(ctx, coefs, d.order.len * sizeof *coefs);
    an_dag_fini(&d);
    an_vec_fini(ctx, &open);
    an_vec_fini(ctx, &roots);
    return st;
}

static bool same_row(const walk *a, const walk *b)
{
    return an_uop_eq(a->ptr, b->ptr) && an_uop_eq(a->around, b->around) && a->row == b->row && a->extent == b->extent;
}

/* Is walk i in the second loop over its rows? */
static bool reads_again(const an_graph *g, const an_uop_vec *linear, const walk_vec *walks, size_t i)
{
    const walk *w = &walks->data[i];
    const int64_t nbytes = (int64_t)an_dtype_nbytes(an_uop_dtype(g, w->ptr));
    an_uop first = AN_UOP_NONE;
    if (w->row * nbytes < ROW_NBYTES_MIN || (int64_t)an_uop_lanes(g, linear->data[w->at]) * nbytes < LOAD_NBYTES_MIN) return false;
    for (size_t k = 0; k < i; k++) {
        const walk *v = &walks->data[k];
        if (!same_row(v, w) || an_uop_eq(v->loop, w->loop)) continue;
        if (!an_uop_is_none(first) && !an_uop_eq(v->loop, first)) return false;
        first = v->loop;
    }
    return !an_uop_is_none(first);
}

/* The list under way. */
typedef struct growing {
    an_graph *g;
    an_ctx *ctx;
    an_uop_vec list;
    an_idmap there, given; /* by node id: what is in list; what was in it to begin with */
} growing;

static an_status put(growing *p, an_uop u)
{
    if (an_uop_is_none(u)) return AN_ERR_NOMEM;
    if (an_idmap_get(&p->there, u.id)) return AN_OK;
    return an_idmap_set(&p->there, p->ctx, u.id, 1) && an_vec_push(p->ctx, &p->list, u) ? AN_OK : AN_ERR_NOMEM;
}

/* One for each line of what is loaded. Where the kernel computes the address of the next row itself, it takes rows several at a
 * time, and asks for them itself. */
static an_status put_prefetches(growing *p, an_uop load, int64_t row, bool constants)
{
    an_graph *g = p->g;
    const an_uop ptr = an_uop_src(g, load, 0), base = base_of(g, load);
    const int64_t step = LINE_NBYTES / (int64_t)an_dtype_nbytes(an_uop_dtype(g, ptr));
    an_status st = AN_OK;
    for (int64_t c = 0; c < (int64_t)an_uop_lanes(g, load) && !st; c += step) {
        const an_uop by = an_index(g, row + c);
        if (an_uop_is_none(by)) return AN_ERR_NOMEM;
        if (constants) {
            st = put(p, by);
            continue;
        }
        const an_uop at = an_uop_new(g, AN_OP_ADD, AN_INDEX, (const an_uop[]){base, by}, 2, 0);
        if (an_uop_is_none(at)) return AN_ERR_NOMEM;
        if (an_idmap_get(&p->given, at.id)) continue;
        st = put(p, at);
        if (!st) st = put(p, an_uop_new(g, AN_OP_PREFETCH, AN_DTYPE_NONE, (const an_uop[]){ptr, at}, 2, 0));
    }
    return st;
}

an_status an_linear_prefetch(an_graph *g, an_uop_vec *linear)
{
    an_ctx *ctx = an_graph_ctx(g);
    walk_vec walks = {0};
    growing p = {.g = g, .ctx = ctx};
    an_status st = find_walks(g, linear, &walks);
    for (size_t i = 0; i < linear->len && !st; i++)
        if (!an_idmap_set(&p.given, ctx, linear->data[i].id, 1)) st = AN_ERR_NOMEM;
    for (size_t w = 0; w < walks.len && !st; w++) /* constants are known before all loops */
        if (reads_again(g, linear, &walks, w)) st = put_prefetches(&p, linear->data[walks.data[w].at], walks.data[w].row, true);
    if (p.list.len == 0) goto done;
    for (size_t i = 0, w = 0; i < linear->len && !st; i++) {
        st = put(&p, linear->data[i]);
        if (st || w == walks.len || walks.data[w].at != i) continue;
        if (reads_again(g, linear, &walks, w)) st = put_prefetches(&p, linear->data[i], walks.data[w].row, false);
        w++;
    }
    if (!st) {
        const an_uop_vec old = *linear;
        *linear = p.list;
        p.list = old;
    }
done:
    an_vec_fini(ctx, &p.list);
    an_idmap_fini(&p.there, ctx);
    an_idmap_fini(&p.given, ctx);
    an_vec_fini(ctx, &walks);
    return st;
}
