/* tune.c - see tune.h. */
#include "codegen/tune.h"

an_status an_tune_refresh(an_tuner *t)
{
    an_dag_fini(&t->d);
    return an_dag_init(&t->d, t->g, t->sink, 1);
}

an_status an_tune_apply(an_tuner *t, an_opt_kind kind, uint32_t range, int64_t amount, bool *done)
{
    const char *why = NULL;
    const an_status st = an_opt_apply(t->g, t->sink, (an_opt){kind, range, amount}, &why);
    if (st) return st;
    *done = why == NULL;
    if (why)
        an_trace_note(t->trace, "%s of range %u by %lld refused: %s", an_opt_name(kind), range, (long long)amount, why);
    else
        an_trace_note(t->trace, "%s of range %u by %lld", an_opt_name(kind), range, (long long)amount);
    if (why) return AN_OK;
    const an_opt opt = {kind, range, amount};
    return an_vec_push(t->ctx, t->list, opt) ? an_tune_refresh(t) : AN_ERR_NOMEM;
}

size_t an_tune_range_at(const an_tuner *t, uint32_t id)
{
    size_t r = 0;
    while (r < t->d.ranges.len && an_tune_id(t, r) != id) r++;
    return r < t->d.ranges.len ? r : AN_RANGES_MAX;
}

an_status an_tune_block(an_tuner *t, uint32_t id, int64_t amount, uint32_t *inner, bool *done)
{
    const int64_t n = an_tune_bound(t, an_tune_range_at(t, id));
    *inner = id;
    *done = true;
    if (n == amount) return AN_OK;
    const an_opt opt = {n % amount ? AN_OPT_PADTO : AN_OPT_CUT, id, amount};
    *inner = an_opt_new_id(&t->d, opt);
    return an_tune_apply(t, opt.kind, id, amount, done);
}

void an_tune_then(an_tune_chain *c, an_opt_kind kind, uint32_t range, int64_t amount)
{
    if (!c->st && c->ok) c->st = an_tune_apply(c->t, kind, range, amount, &c->ok);
}

void an_tune_then_block(an_tune_chain *c, uint32_t range, int64_t amount, uint32_t *inner)
{
    if (!c->st && c->ok) c->st = an_tune_block(c->t, range, amount, inner, &c->ok);
}

void an_tune_begin(an_tuner *t, an_tune_trial *trial)
{
    *trial = (an_tune_trial){t->sink, *t->sink, t->list->len};
    t->sink = &trial->now;
}

an_status an_tune_end(an_tuner *t, const an_tune_trial *trial, an_status st, bool done)
{
    t->sink = trial->sink;
    if (st) return st;
    if (done)
        *t->sink = trial->now;
    else
        t->list->len = trial->nlist;
    return an_tune_refresh(t);
}
