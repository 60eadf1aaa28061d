/* choose.c - opts applied and noted one by one, and how a kernel walks memory. */
#include "codegen/choose.h"

an_status an_choose_refresh(an_chooser *c)
{
    an_dag_fini(&c->d);
    return an_dag_init(&c->d, c->g, c->sink, 1);
}

size_t an_choose_find(const an_chooser *c, uint32_t id)
{
    for (size_t r = 0; r < c->d.ranges.len; r++)
        if (an_range_id(an_uop_arg(c->g, c->d.ranges.data[r])) == id) return r;
    return AN_RANGES_MAX;
}

an_range_kind an_choose_kind_at(const an_chooser *c, size_t r)
{
    return an_range_kind_of(an_uop_arg(c->g, c->d.ranges.data[r]));
}

int64_t an_choose_bound_at(const an_chooser *c, size_t r)
{
    return an_range_bound(c->g, c->d.ranges.data[r]);
}

uint32_t an_choose_id_at(const an_chooser *c, size_t r)
{
    return an_range_id(an_uop_arg(c->g, c->d.ranges.data[r]));
}

an_status an_choose_apply(an_chooser *c, an_opt_kind kind, uint32_t id, int64_t amount, uint32_t *inner, bool *done)
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
    return st ? st : an_choose_refresh(c);
}

an_status an_choose_mark(an_chooser *c, uint32_t id, an_opt_kind kind, uint32_t to)
{
    bool done = false;
    return an_choose_find(c, id) == AN_RANGES_MAX ? AN_OK : an_choose_apply(c, kind, id, to, NULL, &done); /* of one element: gone */
}

bool an_choose_is_shared(const an_chooser *c, size_t k, size_t r)
{
    for (size_t i = 0; i < c->d.order.len; i++)
        if (an_uop_op(c->g, c->d.order.data[i]) == AN_OP_LOAD && an_rangeset_has(&c->d.deps[i], k) && !an_rangeset_has(&c->d.deps[i], r))
            return true;
    return false;
}

an_status an_choose_coef_of(const an_chooser *c, an_uop access, size_t r, int64_t *out)
{
    const size_t nbytes = c->d.order.len * sizeof(int64_t);
    int64_t *coef = an_mem_alloc(c->ctx, nbytes);
    if (!coef) return AN_ERR_NOMEM;
    an_dag_coefs(&c->d, r, coef);
    *out = coef[an_dag_pos(&c->d, an_uop_src(c->g, access, 1))];
    an_mem_free(c->ctx, coef, nbytes);
    return AN_OK;
}

/* How often a value is another one: the iterations of the ranges that it varies with. */
static double iterations(const an_chooser *c, const an_rangeset *deps)
{
    double n = 1;
    for (size_t r = 0; r < c->d.ranges.len; r++)
        if (an_rangeset_has(deps, r)) n *= an_choose_bound_at(c, r) > 0 ? (double)an_choose_bound_at(c, r) : 64.0;
    return n;
}

an_status an_choose_walk_of(const an_chooser *c, an_uop u, size_t k, bool *along_k, size_t *along)
{
    const size_t nbytes = c->d.order.len * sizeof(int64_t), value = an_dag_pos(&c->d, an_uop_src(c->g, u, 0));
    int64_t *coef = an_mem_alloc(c->ctx, nbytes);
    if (!coef) return AN_ERR_NOMEM;
    double most = 0;
    *along_k = false;
    *along = AN_RANGES_MAX;
    for (size_t r = 0; r < c->d.ranges.len; r++) {
        if (r != k && an_choose_kind_at(c, r) != AN_RANGE_LOOP) continue;
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
