/* merge.c - kernels with several outputs.
 *
 * Two kernels become one when their loops agree (or those of one are the outer loops of the other), no third has to run
 * between them, and the model gains: a launch, and what both read. If one reads what the other stores, it must be at the
 * very element stored, and takes the value instead. So m, v and the parameter of Adam are one kernel, and a bias's
 * gradient rides with its weight's. */
#include "schedule/sched.h"

#include <stdlib.h>

typedef struct merger {
    an_sched *s;
    uint64_t *reach; /* row k: kernels that must run after k, directly or not */
    size_t words, reach_nbytes;
    an_edge_vec edges;
} merger;

static const double REUSE_MIN = 4;    /* how often each element is read, in a product */
static const double RIDING_LIGHT = 3; /* slowdown of other reductions */

static bool reaches(const merger *m, uint32_t a, uint32_t b)
{
    return m->reach[a * m->words + b / 64] >> (b % 64) & 1u;
}

/* Kernels are made from users to sources: by the kernel that goes first, edges to users come before those to sources. */
static int by_before(const void *a, const void *b)
{
    const an_edge *x = a, *y = b;
    const int c = (x->before > y->before) - (x->before < y->before);
    return c ? c : (x->after > y->after) - (x->after < y->after);
}

/* Recomputes edges and reach. Sound also when edges form a cycle (order.c deals with it): iterates to a fixpoint. */
static bool refresh(merger *m)
{
    m->edges.len = 0;
    if (!an_sched_edges(m->s, &m->edges)) return false;
    memset(m->reach, 0, m->reach_nbytes);
    if (m->edges.len) qsort(m->edges.data, m->edges.len, sizeof *m->edges.data, by_before);
    bool changed = true;
    while (changed) {
        changed = false;
        for (size_t e = 0; e < m->edges.len; e++) {
            const uint32_t a = m->edges.data[e].before, b = m->edges.data[e].after;
            for (size_t w = 0; w < m->words; w++) {
                uint64_t *row = &m->reach[a * m->words + w];
                uint64_t add = m->reach[b * m->words + w];
                if (w == b / 64) add |= (uint64_t)1 << (b % 64);
                changed = changed || (*row | add) != *row;
                *row |= add;
            }
        }
    }
    return true;
}

static bool has_edge(const merger *m, uint32_t a, uint32_t b)
{
    for (size_t i = 0; i < m->edges.len; i++)
        if (m->edges.data[i].before == a && m->edges.data[i].after == b) return true;
    return false;
}

/* A third kernel must run after a and before b. */
static bool between(const merger *m, uint32_t a, uint32_t b)
{
    for (uint32_t c = 0; c < m->s->kernels.len; c++)
        if (c != a && c != b && reaches(m, a, c) && reaches(m, c, b)) return true;
    return false;
}

static bool loops_agree(const an_sched *s, const an_kern *outer, const an_kern *inner)
{
    for (size_t i = 0; i < outer->loops.len; i++)
        if (!an_uop_eq(an_uop_src(s->g, outer->loops.data[i], 0), an_uop_src(s->g, inner->loops.data[i], 0))) return false;
    return true;
}

/* Buffers of both, and how many bytes of reads they share. */
static uint32_t count_buffers(an_sched *s, const an_kern *a, const an_kern *b, double *shared)
{
    an_uop_vec all = {0};
    const an_uop_vec *lists[4] = {&a->reads, &a->writes, &b->reads, &b->writes};
    *shared = 0;
    for (int l = 0; l < 4; l++)
        for (size_t i = 0; i < lists[l]->len; i++) {
            const an_uop base = an_ptr_base(s->g, lists[l]->data[i]);
            if (!an_vec_has(&all, base)) {
                if (!an_vec_push(s->ctx, &all, base)) return UINT32_MAX;
            } else if (l == 2) {
                *shared += an_numel(s, an_uop_shape(s->g, base)) * (double)an_dtype_nbytes(an_uop_dtype(s->g, base));
            }
        }
    const uint32_t n = (uint32_t)all.len;
    an_vec_fini(s->ctx, &all);
    return n;
}

/* Looks at every load in stores of something the stores of writer write: at the element written, neither gated? Collects those that
 * see the new value, with what they stand for. */
static bool loads_match(an_sched *s, const an_uop_vec *stores, const an_uop_vec *writer, an_uop_vec *from, an_uop_vec *to,
                        bool *match)
{
    an_uop_vec order = {0};
    bool ok = an_toposort(s->g, stores->data, (uint32_t)stores->len, &order) == AN_OK;
    *match = true;
    for (size_t i = 0; ok && *match && i < order.len; i++) {
        const an_uop load = order.data[i];
        if (an_uop_op(s->g, load) != AN_OP_LOAD) continue;
        const an_uop ptr = an_uop_src(s->g, load, 0);
        for (size_t w = 0; ok && w < writer->len; w++) {
            const an_uop st = writer->data[w], target = an_uop_src(s->g, st, 0);
            if (!an_uop_eq(an_ptr_base(s->g, ptr), an_ptr_base(s->g, target))) continue;
            if (an_uop_nsrc(s->g, load) != 2 || an_uop_nsrc(s->g, st) != 3 || !an_uop_eq(an_uop_src(s->g, load, 1), an_uop_src(s->g, st, 1))) {
                *match = false;
            } else if (an_uop_eq(ptr, target)) {
                ok = an_vec_push(s->ctx, from, load) && an_vec_push(s->ctx, to, an_uop_src(s->g, st, 2));
            }
        }
    }
    an_vec_fini(s->ctx, &order);
    return ok;
}

/* Iterations of the reduction of a kernel that has the most: over what it varies with, and its own. */
static double iterations(an_sched *s, const an_kern *k)
{
    an_uop_vec order = {0}, below = {0};
    double most = 0;
    (void)an_toposort(s->g, k->stores.data, (uint32_t)k->stores.len, &order);
    for (size_t i = 0; i < order.len; i++) {
        double n = 1;
        if (an_uop_op(s->g, order.data[i]) != AN_OP_REDUCE) continue;
        below.len = 0;
        (void)an_ranges_below(s, an_uop_src(s->g, order.data[i], 0), &below);
        for (size_t r = 0; r < below.len; r++) n *= an_range_size(s, below.data[r]);
        if (n > most) most = n;
    }
    an_vec_fini(s->ctx, &order);
    an_vec_fini(s->ctx, &below);
    return most;
}

/* Has the kernel a reduction that varies with a loop further in than the first n? */
static bool reduces_within(an_sched *s, const an_kern *k, size_t n)
{
    an_uop_vec order = {0}, below = {0};
    bool found = an_toposort(s->g, k->stores.data, (uint32_t)k->stores.len, &order) != AN_OK;
    for (size_t i = 0; i < order.len && !found; i++) {
        if (an_uop_op(s->g, order.data[i]) != AN_OP_REDUCE) continue;
        below.len = 0;
        found = !an_ranges_below(s, an_uop_src(s->g, order.data[i], 0), &below);
        for (size_t l = n; l < k->loops.len && !found; l++) found = an_vec_has(&below, k->loops.data[l]);
    }
    an_vec_fini(s->ctx, &order);
    an_vec_fini(s->ctx, &below);
    return found;
}

/* Slowdown of the reductions of a kernel when they share one: those that use what they read again and again lose their tiles. */
static double riding(an_sched *s, const an_kern *k)
{
    double read = 0;
    for (size_t i = 0; i < k->reads.len; i++) read += an_numel(s, an_uop_shape(s->g, an_ptr_base(s->g, k->reads.data[i])));
    return iterations(s, k) > REUSE_MIN * read ? s->cost->riding : RIDING_LIGHT;
}

/* Are the loops of a kernel iterations enough where these are threads, or rows of threads? */
static bool fills(an_sched *s, const an_kern *k)
{
    enum { ROW = 8 };
    double n = 1;
    for (size_t i = 0; i < k->loops.len; i++) n *= an_range_size(s, k->loops.data[i]);
    return s->cost->threads == 0 || (k->has_reduce && n >= s->cost->threads / ROW);
}

static bool worth_it(an_sched *s, const an_kern *shorter, const an_kern *longer, bool dependent)
{
    double shared = 0;
    const bool equal = shorter->loops.len == longer->loops.len;
    if (count_buffers(s, shorter, longer, &shared) > s->cost->max_buffers) return false;
    for (size_t i = 0; i < shorter->writes.len; i++) /* the order of two writes would be lost */
        for (size_t k = 0; k < longer->writes.len; k++)
            if (an_uop_eq(an_ptr_base(s->g, shorter->writes.data[i]), an_ptr_base(s->g, longer->writes.data[k]))) return false;
    const bool updates = an_node_of(s->g, shorter->node)->phase == AN_PHASE_UPDATE &&
                         an_node_of(s->g, longer->node)->phase == AN_PHASE_UPDATE;
    if (!equal && (shorter->loops.len == 0 || !fills(s, shorter))) return false;
    if (shared <= 0 && !dependent && !(equal && updates && !shorter->has_reduce && !longer->has_reduce)) return false;
    /* The smaller of two reductions rides along; one alone keeps its kernel, unless it moves to outer loops of another. */
    double loss = 0;
    const double ride[2] = {riding(s, shorter), riding(s, longer)};
    if (shorter->has_reduce && (longer->has_reduce || !equal)) loss = ride[0] * shorter->reduce_ops;
    if (longer->has_reduce && shorter->has_reduce && equal) {
        const double other = ride[1] * longer->reduce_ops;
        if (ride[0] > RIDING_LIGHT || ride[1] > RIDING_LIGHT)
            loss += other;
        else if (other < loss)
            loss = other;
    }
    if (!equal && reduces_within(s, longer, shorter->loops.len)) loss += s->cost->carrying * longer->reduce_ops;
    if (equal && ride[0] > RIDING_LIGHT && !longer->has_reduce) loss += an_sched_crowding(s, shorter, an_stores_ops(s, &longer->stores, false));
    if (equal && ride[1] > RIDING_LIGHT && !shorter->has_reduce) loss += an_sched_crowding(s, longer, an_stores_ops(s, &shorter->stores, false));
    return loss / s->cost->ops_per_ns < s->cost->launch_ns + shared / s->cost->bytes_per_ns;
}

static const char *merged_reason(an_sched *s, const an_kern *into, const an_kern *from)
{
    an_str text;
    an_str_init(&text, s->ctx);
    an_str_printf(&text, "%s; with it %s of ", into->reason, an_op_info_of(an_uop_op(s->g, from->node))->text);
    an_shape_print(&text, s->g, an_uop_shape(s->g, from->node));
    an_str_put(&text, ": same loops, one launch");
    char *copy = an_graph_alloc(s->g, text.len + 1);
    if (copy) memcpy(copy, an_str_cstr(&text), text.len);
    an_str_fini(&text);
    return copy ? copy : into->reason;
}

/* Merges the two if that is legal and gains. */
static an_status try_merge(merger *m, uint32_t a, uint32_t b, bool *merged)
{
    an_sched *s = m->s;
    an_uop_vec moved = {0}, from = {0}, to = {0}, stays = {0};
    an_status st = AN_OK;
    const bool a_first = reaches(m, a, b), b_first = reaches(m, b, a);
    *merged = false;
    if (a_first && b_first) return AN_OK;
    if (s->kernels.data[a].loops.len > s->kernels.data[b].loops.len ||
        (s->kernels.data[a].loops.len == s->kernels.data[b].loops.len && b_first)) {
        const uint32_t t = a;
        a = b;
        b = t;
    }
    /* a is the shorter, or the earlier of two equal ones. */
    an_kern *shorter = &s->kernels.data[a], *longer = &s->kernels.data[b];
    const bool equal = shorter->loops.len == longer->loops.len;
    const bool after = reaches(m, b, a);
    if (after && !equal) return AN_OK;
    if (!loops_agree(s, shorter, longer) || between(m, a, b) || between(m, b, a)) return AN_OK;
    if (!worth_it(s, shorter, longer, has_edge(m, a, b) || has_edge(m, b, a))) return AN_OK;

    st = AN_ERR_NOMEM;
    for (size_t i = 0; i < shorter->stores.len; i++)
        if (!an_vec_push(s->ctx, &moved, shorter->stores.data[i])) goto done;
    for (size_t i = 0; i < longer->stores.len; i++)
        if (!an_vec_push(s->ctx, &stays, longer->stores.data[i])) goto done;
    if (an_substitute_many(s->g, moved.data, moved.len, shorter->loops.data, longer->loops.data, shorter->loops.len)) goto done;
    bool match = false;
    if (!loads_match(s, &stays, &moved, &from, &to, &match)) goto done;
    st = AN_OK;
    if (!match) goto done;
    st = AN_ERR_NOMEM;
    if (from.len && an_substitute_many(s->g, stays.data, stays.len, from.data, to.data, from.len)) goto done;
    from.len = to.len = 0;
    if (!loads_match(s, &moved, &stays, &from, &to, &match)) goto done;
    st = AN_OK;
    if (!match) goto done;
    st = AN_ERR_NOMEM;
    if (from.len && an_substitute_many(s->g, moved.data, moved.len, from.data, to.data, from.len)) goto done;

    /* Producers first. */
    const an_uop_vec *first = after ? &stays : &moved, *second = after ? &moved : &stays;
    longer->stores.len = 0;
    for (size_t i = 0; i < first->len; i++)
        if (!an_vec_push(s->ctx, &longer->stores, first->data[i])) goto done;
    for (size_t i = 0; i < second->len; i++)
        if (!an_vec_push(s->ctx, &longer->stores, second->data[i])) goto done;
    longer->reason = merged_reason(s, longer, shorter);
    shorter->dead = true;
    shorter->stores.len = shorter->reads.len = shorter->writes.len = 0;
    if (!an_kern_refresh(s, longer) || !refresh(m)) goto done;
    *merged = true;
    st = AN_OK;
done:
    an_vec_fini(s->ctx, &moved);
    an_vec_fini(s->ctx, &stays);
    an_vec_fini(s->ctx, &from);
    an_vec_fini(s->ctx, &to);
    return st;
}

/* Stores of temporaries that nothing reads any more, their reader having taken the value, go. */
static bool drop_unread(an_sched *s)
{
    for (uint32_t k = 0; k < s->kernels.len; k++) {
        an_kern *kern = &s->kernels.data[k];
        size_t kept = 0;
        for (size_t i = 0; i < kern->stores.len; i++) {
            const an_uop ptr = an_uop_src(s->g, kern->stores.data[i], 0);
            bool used = an_uop_op(s->g, ptr) == AN_OP_ASSIGN || an_vec_has(&s->outputs, ptr);
            for (uint32_t r = 0; r < s->kernels.len && !used; r++)
                used = !s->kernels.data[r].dead && an_vec_has(&s->kernels.data[r].reads, ptr);
            if (used) kern->stores.data[kept++] = kern->stores.data[i];
        }
        if (kept == kern->stores.len) continue;
        kern->stores.len = kept;
        if (!an_kern_refresh(s, kern)) return false;
    }
    return true;
}

an_status an_sched_merge(an_sched *s)
{
    const size_t n = s->kernels.len;
    merger m = {.s = s, .words = (n + 63) / 64};
    an_status st = AN_ERR_NOMEM;
    if (s->cost->no_fuse || n < 2) return AN_OK;
    m.reach_nbytes = n * m.words * sizeof *m.reach;
    m.reach = an_mem_alloc(s->ctx, m.reach_nbytes);
    if (!m.reach || !refresh(&m)) goto done;
    st = AN_OK;
    bool again = true;
    while (again && !st) {
        again = false;
        for (uint32_t b = 0; b < n && !st; b++)
            for (uint32_t a = b + 1; a < n && !st; a++) {
                bool merged = false;
                if (s->kernels.data[a].dead || s->kernels.data[b].dead) continue;
                st = try_merge(&m, a, b, &merged);
                again = again || merged;
            }
    }
    if (!st && !drop_unread(s)) st = AN_ERR_NOMEM;
done:
    an_mem_free(s->ctx, m.reach, m.reach_nbytes);
    an_vec_fini(s->ctx, &m.edges);
    return st;
}
