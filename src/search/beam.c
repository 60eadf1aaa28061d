/* beam.c - the search itself. It is a function of what candidates come to: started again with some of them known, it takes the same
 * way and tries the rest. */
#include "search/trial.h"

/* A depth must bring that much, or the search ends. Below that time of a run there is nothing to bring. */
static const double WORTH = 0.98, LEAST_SECONDS = 1e-6;

typedef struct beam {
    an_trials trials;
    const an_known_vec *known;
    an_known_vec tried; /* in this process */
    double best, until;
    const an_beam_report *report;
} beam;

static const an_known *find(const an_known_vec *v, const char *list)
{
    for (size_t i = 0; i < v->len; i++)
        if (strcmp(v->data[i].list, list) == 0) return &v->data[i];
    return NULL;
}

/* Settles the candidate: from what is known, or by trying it. False when the time is over. */
static an_status settle(beam *b, an_known *k, bool *in_time)
{
    const an_known *old = find(b->known, k->list);
    if (!old) old = find(&b->tried, k->list);
    *in_time = true;
    if (old) {
        *k = *old;
    } else {
        *in_time = an_search_clock() < b->until;
        if (!*in_time) return AN_OK;
        b->report->begin(b->report->user, k);
        const an_status st = an_trial(&b->trials, b->best, k);
        if (st) return st;
        b->report->end(b->report->user, k);
        if (!an_vec_push(b->trials.ctx, &b->tried, *k)) return AN_ERR_NOMEM;
    }
    if (k->fate == AN_SEARCH_TIMED && (b->best == 0 || k->seconds < b->best)) b->best = k->seconds;
    return AN_OK;
}

/* The fastest, width of them, in order; candidates that came to nothing go. */
static void keep_best(an_known_vec *v, uint32_t width)
{
    size_t n = 0;
    for (size_t i = 0; i < v->len; i++) {
        const an_known k = v->data[i];
        if (k.fate != AN_SEARCH_TIMED) continue;
        size_t at = n++;
        for (; at > 0 && v->data[at - 1].seconds > k.seconds; at--) v->data[at] = v->data[at - 1];
        v->data[at] = k;
    }
    v->len = n < width ? n : width;
}

static an_status settle_all(beam *b, an_known_vec *v, bool *in_time)
{
    an_status st = AN_OK;
    *in_time = true;
    for (size_t i = 0; i < v->len && !st; i++) {
        bool more = true;
        st = settle(b, &v->data[i], &more);
        *in_time = *in_time && more;
    }
    return st;
}

/* The one that won beside the heuristics' list, once more and in turn: what was measured minutes apart may be luck. */
static an_status duel(beam *b, an_known first, an_known winner)
{
    if (first.fate != AN_SEARCH_TIMED || strcmp(first.list, winner.list) == 0) return AN_OK;
    b->report->begin(b->report->user, &winner);
    const an_status st = an_trial_duel(&b->trials, &first, &winner);
    if (st) return st;
    b->report->end(b->report->user, &first);
    b->report->end(b->report->user, &winner);
    return AN_OK;
}

an_status an_beam(an_ctx *ctx, const an_search_desc *desc, const an_kernel *kernel, const size_t *nbytes, const an_known_vec *known,
                  double until, const an_beam_report *report)
{
    beam b = {.known = known, .until = until, .report = report};
    an_known_vec front = {0}, next = {0};
    bool in_time = true;
    an_status st = an_trials_open(ctx, desc, kernel, nbytes, &b.trials);
    const an_known none = {.list = ""};
    if (!st) st = an_trials_first(&b.trials, &front);
    if (!st && !an_vec_push(ctx, &front, none)) st = AN_ERR_NOMEM;
    if (!st) st = settle_all(&b, &front, &in_time);
    const an_known first = front.len ? front.data[0] : none;
    keep_best(&front, desc->width);
    for (uint32_t depth = 0; depth < desc->depth && front.len && in_time && b.best > LEAST_SECONDS && !st; depth++) {
        const double before = b.best;
        next.len = 0;
        for (size_t i = 0; i < front.len && !st; i++) st = an_trials_longer(&b.trials, front.data[i].list, &next);
        if (!st) st = settle_all(&b, &next, &in_time);
        for (size_t i = 0; i < next.len && !st; i++)
            if (!an_vec_push(ctx, &front, next.data[i])) st = AN_ERR_NOMEM;
        keep_best(&front, desc->width);
        if (b.best > WORTH * before) break;
    }
    if (!st && front.len) st = duel(&b, first, front.data[0]);
    an_vec_fini(ctx, &front);
    an_vec_fini(ctx, &next);
    an_vec_fini(ctx, &b.tried);
    an_trials_close(&b.trials);
    return st;
}
