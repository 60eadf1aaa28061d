/* trial.c - see trial.h. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include "search/trial.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

double an_search_clock(void)
{
    struct timespec t = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* --- buffers ------------------------------------------------------------------------------------------------------ */

/* Numbers around 0 for floats; 0 and 1 for bytes; 0 for wider integers, which may be indices. */
static void fill(unsigned char *data, an_dtype dtype, size_t nbytes)
{
    const size_t size = an_dtype_nbytes(dtype);
    const bool is_float = an_dtype_kind_of(dtype) == AN_KIND_FLOAT;
    for (size_t i = 0; i < nbytes / size; i++) {
        an_scalar v = {.u = size == 1 ? i % 2 : 0};
        if (is_float) v.f = (double)(i * 2654435761u % 1999) / 1000.0 - 0.9995;
        an_scalar_store(dtype, v, data + i * size);
    }
}

static int64_t middle(const an_graph *g, an_uop var)
{
    int64_t lo = 0, hi = 0;
    an_uop_int(g, an_uop_src(g, var, 0), &lo);
    an_uop_int(g, an_uop_src(g, var, 1), &hi);
    return lo + (hi - lo) / 2;
}

static an_status reset(an_trials *t)
{
    an_status st = AN_OK;
    for (uint32_t i = 0; i < t->kernel->nparams && !st; i++)
        if (t->kernel->params[i].is_written) st = t->desc->backend->write(t->buffers[i], 0, t->start[i], t->nbytes[i]);
    return st;
}

/* --- programs ----------------------------------------------------------------------------------------------------- */

/* The kernel in a graph of its own. */
static an_status copy_kernel(an_trials *t, an_graph **g, an_kernel *k)
{
    an_status st = an_graph_create(t->ctx, g);
    if (st) return st;
    *k = *t->kernel;
    k->key_lo = k->key_hi = 0;
    k->graph = *g;
    k->sink = an_uop_import(*g, t->kernel->graph, t->kernel->sink, NULL, NULL);
    if (an_uop_is_none(k->sink)) st = AN_ERR_NOMEM;
    for (uint32_t i = 0; i < k->nvars && !st; i++) {
        k->vars[i] = an_uop_import(*g, t->kernel->graph, t->kernel->vars[i], NULL, NULL);
        if (an_uop_is_none(k->vars[i])) st = AN_ERR_NOMEM;
    }
    return st;
}

/* Through codegen and the device's compiler; *out NULL where either refuses, or, unless always, where it is a program that was met before. */
static an_status make(an_trials *t, const an_codegen_opts *opts, bool always, an_program **out)
{
    an_graph *g = NULL;
    an_kernel k;
    an_uop_vec linear = {0};
    an_key key = {0};
    bool is_new = true;
    *out = NULL;
    an_status st = copy_kernel(t, &g, &k);
    if (!st && !an_codegen(g, k.sink, opts, NULL, &linear)) {
        st = an_uop_key(g, linear.data, (uint32_t)linear.len, &key);
        for (size_t i = 0; i < t->programs.len && !always; i++) is_new = is_new && !an_key_eq(t->programs.data[i], key);
        k.linear = linear.data;
        k.nlinear = linear.len;
        const an_kernel *one = &k;
        if (!st && is_new && t->desc->backend->compile(t->dev, &one, 1, out)) *out = NULL;
        if (!st && is_new && !an_vec_push(t->ctx, &t->programs, key)) st = AN_ERR_NOMEM;
    }
    if (an_ctx_status(t->ctx) != AN_ERR_NOMEM) an_ctx_clear_error(t->ctx);
    an_vec_fini(t->ctx, &linear);
    an_graph_destroy(g);
    return st;
}

static an_status run_once(an_trials *t, an_program *p, double *seconds)
{
    const an_launch l = {.buffers = t->buffers, .vars = t->vars};
    const an_search_timer *timer = t->desc->timer;
    return timer ? timer->run(timer->user, t->dev, p, &l, seconds) : t->desc->backend->time(p, &l, 1, seconds);
}

/* --- values ------------------------------------------------------------------------------------------------------- */

/* What another order of sums may change, relative to the greatest value of a buffer; 0: nothing. */
static double allowed(an_dtype dtype)
{
    switch (dtype) {
    case AN_F64: return 1e-9;
    case AN_F32: return 1e-4;
    case AN_F16: return 2e-3;
    case AN_BF16: return 1e-2;
    case AN_F8E4M3:
    case AN_F8E5M2: return 0.26;
    default: return 0;
    }
}

static bool same_values(an_dtype dtype, const unsigned char *a, const unsigned char *b, size_t nbytes)
{
    const size_t size = an_dtype_nbytes(dtype);
    const double part = allowed(dtype);
    double scale = 0;
    if (part == 0) return memcmp(a, b, nbytes) == 0;
    for (size_t i = 0; i + size <= nbytes; i += size) {
        const double y = fabs(an_scalar_load(dtype, b + i).f);
        if (y > scale && !isinf(y)) scale = y;
    }
    for (size_t i = 0; i + size <= nbytes; i += size) {
        const double x = an_scalar_load(dtype, a + i).f, y = an_scalar_load(dtype, b + i).f;
        if (isnan(x) || isnan(y) || isinf(x) || isinf(y)) {
            if (!(isnan(x) && isnan(y)) && x != y) return false;
            continue;
        }
        if (fabs(x - y) > part * scale) return false;
    }
    return true;
}

/* Runs p on the start values; *same: what it wrote is what is wanted, or, to begin with, becomes that. */
static an_status check(an_trials *t, an_program *p, bool to_begin_with, bool *same, double *seconds)
{
    *same = true;
    an_status st = reset(t);
    if (!st) st = run_once(t, p, seconds);
    for (uint32_t i = 0; i < t->kernel->nparams && !st; i++) {
        if (!t->kernel->params[i].is_written) continue;
        unsigned char *got = an_mem_alloc(t->ctx, t->nbytes[i]);
        if (!got) return AN_ERR_NOMEM;
        st = t->desc->backend->read(t->buffers[i], 0, got, t->nbytes[i]);
        if (to_begin_with) {
            t->want[i] = got;
            continue;
        }
        if (!st) *same = *same && same_values(t->kernel->params[i].dtype, got, t->want[i], t->nbytes[i]);
        an_mem_free(t->ctx, got, t->nbytes[i]);
    }
    return st;
}

static void close_device(an_trials *t)
{
    for (uint32_t i = 0; i < t->kernel->nparams; i++) {
        if (t->buffers[i]) t->desc->backend->buffer_destroy(t->buffers[i]);
        t->buffers[i] = NULL;
    }
    if (t->dev) t->desc->backend->close(t->dev);
    t->dev = NULL;
}

static an_status open_device(an_trials *t)
{
    const an_device_desc device = {.threads = t->desc->threads, .timeout_s = t->desc->candidate_seconds};
    an_status st = t->desc->backend->open(t->ctx, &device, &t->dev);
    for (uint32_t i = 0; i < t->kernel->nparams && !st; i++) {
        st = t->desc->backend->buffer_create(t->dev, t->nbytes[i], &t->buffers[i]);
        if (!st) st = t->desc->backend->write(t->buffers[i], 0, t->start[i], t->nbytes[i]);
    }
    return st;
}

void an_trials_close(an_trials *t)
{
    if (!t->kernel) return; /* it was not opened */
    close_device(t);
    for (uint32_t i = 0; i < t->kernel->nparams; i++) {
        an_mem_free(t->ctx, t->start[i], t->nbytes[i]);
        an_mem_free(t->ctx, t->want[i], t->nbytes[i]);
    }
    an_vec_fini(t->ctx, &t->programs);
}

an_status an_trials_open(an_ctx *ctx, const an_search_desc *desc, const an_kernel *kernel, const size_t *nbytes, an_trials *t)
{
    *t = (an_trials){.ctx = ctx, .desc = desc, .kernel = kernel, .nbytes = nbytes};
    for (uint32_t i = 0; i < kernel->nvars; i++) t->vars[i] = middle(kernel->graph, kernel->vars[i]);
    for (uint32_t i = 0; i < kernel->nparams; i++) {
        t->start[i] = an_mem_zalloc(ctx, nbytes[i]);
        if (!t->start[i]) return AN_ERR_NOMEM;
        fill(t->start[i], kernel->params[i].dtype, nbytes[i]);
    }
    an_status st = open_device(t);
    an_codegen_opts plain = desc->opts;
    plain.no_opt = true;
    an_program *p = NULL;
    bool same = false;
    double seconds = 0;
    if (!st) st = make(t, &plain, true, &p);
    if (!st && !p) st = an_fail(ctx, AN_ERR_DEVICE, "search: kernel %s does not compile without opts", kernel->name);
    if (!st) st = check(t, p, true, &same, &seconds);
    if (p) desc->backend->program_destroy(p);
    t->programs.len = 0; /* the plain kernel may be the fastest */
    return st;
}

/* --- a candidate -------------------------------------------------------------------------------------------------- */

/* The median of a few; of one where that was far slower than the best. */
static an_status time_it(an_trials *t, an_program *p, double best, double *seconds)
{
    enum { RUNS = 5 };
    static const double FAR = 3;
    double run[RUNS];
    size_t n = 0;
    an_status st = AN_OK;
    while (n < RUNS && !st) {
        double s = 0;
        st = run_once(t, p, &s);
        size_t at = n++;
        for (; at > 0 && run[at - 1] > s; at--) run[at] = run[at - 1];
        run[at] = s;
        if (best > 0 && run[0] > FAR * best) break;
    }
    *seconds = run[n / 2];
    return st;
}

/* The program of a list; *out NULL where there is none. */
static an_status make_listed(an_trials *t, const char *text, bool always, an_program **out)
{
    an_opt_vec list = {0};
    an_codegen_opts opts = t->desc->opts;
    *out = NULL;
    an_status st = an_opt_parse(t->ctx, text, &list);
    opts.by_hand = true;
    opts.list = list.data;
    opts.nlist = list.len;
    if (!st) st = make(t, &opts, always, out);
    an_vec_fini(t->ctx, &list);
    return st;
}

/* What a candidate refuses is no error of the search. */
static an_status forgive(an_trials *t)
{
    if (an_ctx_status(t->ctx) == AN_ERR_NOMEM) return AN_ERR_NOMEM;
    an_ctx_clear_error(t->ctx);
    return AN_OK;
}

/* After a failure: has the candidate taken the device with it? Then another one is opened. */
static an_status recover(an_trials *t, double started, an_known *k)
{
    enum { LOST_MAX = 16 };
    if (!t->desc->backend->wait(t->dev)) return AN_OK;
    k->fate = an_search_clock() - started < t->desc->candidate_seconds ? AN_SEARCH_DIED : AN_SEARCH_HUNG;
    const an_status st = forgive(t);
    if (st) return st;
    close_device(t);
    return t->nlost++ < LOST_MAX ? open_device(t) : an_fail(t->ctx, AN_ERR_DEVICE, "search: the device is lost again and again");
}

an_status an_trial(an_trials *t, double best, an_known *k)
{
    an_program *p = NULL;
    bool same = false;
    double seconds = 0;
    const double started = an_search_clock();
    k->fate = AN_SEARCH_REFUSED;
    if (!make_listed(t, k->list, false, &p) && p) {
        if (!check(t, p, false, &same, &seconds)) k->fate = same ? AN_SEARCH_TIMED : AN_SEARCH_WRONG;
        if (k->fate == AN_SEARCH_TIMED && time_it(t, p, best, &k->seconds)) k->fate = AN_SEARCH_REFUSED;
    }
    if (p) t->desc->backend->program_destroy(p);
    const an_status st = forgive(t);
    return st || k->fate != AN_SEARCH_REFUSED ? st : recover(t, started, k);
}

an_status an_trial_duel(an_trials *t, an_known *a, an_known *b)
{
    enum { ROUNDS = 7 };
    an_known *two[2] = {a, b};
    an_program *p[2] = {NULL, NULL};
    double run[2][ROUNDS];
    an_status st = make_listed(t, a->list, true, &p[0]);
    if (!st) st = make_listed(t, b->list, true, &p[1]);
    for (size_t i = 0; i < ROUNDS && p[0] && p[1] && !st; i++)
        for (size_t k = 0; k < 2 && !st; k++) {
            double s = 0;
            st = run_once(t, p[k], &s);
            size_t at = i;
            for (; at > 0 && run[k][at - 1] > s; at--) run[k][at] = run[k][at - 1];
            run[k][at] = s;
        }
    for (size_t k = 0; k < 2; k++) {
        if (p[0] && p[1] && !st) two[k]->seconds = run[k][ROUNDS / 2];
        two[k]->is_final = true;
        if (p[k]) t->desc->backend->program_destroy(p[k]);
    }
    return forgive(t);
}

/* --- lists -------------------------------------------------------------------------------------------------------- */

static an_status push(an_trials *t, const an_opt *list, size_t n, an_known_vec *out)
{
    an_known k = {.fate = AN_SEARCH_REFUSED};
    an_str text;
    an_str_init(&text, t->ctx);
    an_status st = an_opt_print(&text, list, n);
    if (!st && text.len < sizeof k.list) {
        memcpy(k.list, an_str_cstr(&text), text.len + 1);
        if (!an_vec_push(t->ctx, out, k)) st = AN_ERR_NOMEM;
    }
    an_str_fini(&text);
    return st;
}

an_status an_trials_first(an_trials *t, an_known_vec *out)
{
    an_graph *g = NULL;
    an_kernel k;
    an_opt_vec list = {0};
    bool more = true;
    an_status st = copy_kernel(t, &g, &k);
    if (!st) st = an_codegen_shape(g, &k.sink, &t->desc->opts, NULL);
    an_uop sink = k.sink;
    if (!st) st = an_opt_choose(g, &sink, &t->desc->opts, NULL, &list);
    if (!st) st = push(t, list.data, list.len, out);
    for (uint32_t i = 0; more && !st; i++) {
        list.len = 0;
        st = an_opt_choose_other(g, k.sink, &t->desc->opts, i, &list, &more);
        if (!st && list.len) st = push(t, list.data, list.len, out);
    }
    an_vec_fini(t->ctx, &list);
    an_graph_destroy(g);
    return st;
}

an_status an_trials_longer(an_trials *t, const char *text, an_known_vec *out)
{
    an_graph *g = NULL;
    an_kernel k;
    an_opt_vec list = {0}, next = {0};
    an_status st = copy_kernel(t, &g, &k);
    if (!st) st = an_opt_parse(t->ctx, text, &list);
    if (!st) st = an_codegen_shape(g, &k.sink, &t->desc->opts, NULL);
    if (!st) st = an_opt_apply_list(g, &k.sink, list.data, list.len);
    if (!st) st = an_opt_legal(g, k.sink, &t->desc->opts, &next);
    for (size_t i = 0; i < next.len && !st && list.len < AN_OPTS_MAX; i++) {
        if (!an_vec_push(t->ctx, &list, next.data[i])) st = AN_ERR_NOMEM;
        if (!st) st = push(t, list.data, list.len, out);
        if (!st) list.len--;
    }
    an_vec_fini(t->ctx, &list);
    an_vec_fini(t->ctx, &next);
    an_graph_destroy(g);
    return st;
}
