/* session.c - see session.h. */
#include "session.h"

#include <anneal/io.h>
#include <anneal/settings.h>
#include <math.h>
#include <string.h>

enum { NAMES_MAX = 32, EVAL_BATCH = 500, EVAL_SEQUENCES = 32, SHAKESPEARE_TOKENS = 65 };

/* "unknown device 'cpuu'; did you mean 'cpu'?" as an error value. */
static int unknown(cli_error *e, const char *what, const char *typed, const char *const *words, size_t n)
{
    char list[512] = "";
    const char *near = cli_suggest(typed, words, n);
    if (near) return cli_fail(e, AN_ERR_ARG, "unknown %s '%s'; did you mean '%s'?", what, typed, near);
    for (size_t i = 0, at = 0; i < n && at < sizeof list; i++)
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", i ? ", " : "", words[i]);
    return cli_fail(e, AN_ERR_ARG, "unknown %s '%s'; there is: %s", what, typed, list);
}

static int check_device(const char *name, cli_error *e)
{
    const char *words[NAMES_MAX];
    size_t count = 0, n = 0;
    const an_backend *const *backends = an_backends(&count);
    for (size_t i = 0; i < count && n < NAMES_MAX; i++) {
        if (strcmp(backends[i]->name, name) == 0) return 0;
        words[n++] = backends[i]->name;
    }
    return unknown(e, "device", name, words, n);
}

/* The preset, and over it what was typed. */
static int resolve(const model *m, const cli_model_args *a, const cli_data *data, model_options *o, cli_error *e)
{
    if (!model_defaults(m, a->preset, o)) {
        const char *words[MODEL_PRESETS_MAX];
        for (uint32_t i = 0; i < m->npresets; i++) words[i] = m->presets[i].name;
        return unknown(e, "preset", a->preset, words, m->npresets);
    }
    for (uint32_t i = 0; i < MODEL_VALUES_MAX; i++)
        if (!isnan(a->values[i])) o->values[i] = a->values[i];
    if (!isnan(a->values[MODEL_EPOCHS]) && isnan(a->values[MODEL_STEPS])) o->values[MODEL_STEPS] = 0;
    if (a->optimizer && strcmp(a->optimizer, o->optimizer) != 0) {
        o->optimizer = a->optimizer;
        if (isnan(a->values[MODEL_LR])) o->values[MODEL_LR] = 0; /* the preset's is for another */
    }
    if (a->schedule) o->schedule = a->schedule;
    if (a->precision) o->precision = a->precision;
    o->seed = a->seed;
    o->eval_batch = m->data == MODEL_TEXT ? EVAL_SEQUENCES : EVAL_BATCH;
    o->vocab = data && data->text.nvocab ? data->text.nvocab : SHAKESPEARE_TOKENS;
    return 0;
}

/* Up to the device. */
static int begin(cli_session *s, const cli_model_args *a, const cli_data *data, cli_error *e)
{
    memset(s, 0, sizeof *s);
    s->model = cli_find_model(a->model, e);
    if (!s->model) return e->code;
    if (a->device && check_device(a->device, e)) return e->code;
    if (resolve(s->model, a, data, &s->options, e)) return e->code;
    if (s->model->max_batch && model_size(&s->options, MODEL_BATCH) > s->model->max_batch)
        return cli_fail(e, AN_ERR_ARG, "--batch %lld: %s takes up to %lld", (long long)model_size(&s->options, MODEL_BATCH), s->model->name,
                        (long long)s->model->max_batch);
    if (an_ctx_create(NULL, &s->ctx)) return cli_fail(e, AN_ERR_NOMEM, "out of memory");
    an_settings settings = an_ctx_settings(s->ctx);
    if (a->memory_budget) settings.memory_budget = a->memory_budget;
    if (an_ctx_set_settings(s->ctx, settings)) return cli_fail_ctx(e, s->ctx);
    s->profile_path = a->profile;
    if (a->profile) s->profile = an_profile_start(s->ctx);
    if (a->profile && !s->profile) return cli_fail_ctx(e, s->ctx);
    if (an_graph_create(s->ctx, &s->graph)) return cli_fail_ctx(e, s->ctx);
    if (an_graph_set_device(s->graph, a->device)) return cli_fail_ctx(e, s->ctx);
    const an_device *opened = an_graph_device(s->graph);
    if (!opened) return cli_fail_ctx(e, s->ctx);
    s->device = an_device_name(opened);
    if (strcmp(s->options.precision, "auto") == 0) s->options.precision = an_device_has_matrix(opened) ? "f16" : "f32";
    return 0;
}

int cli_session_open_net(cli_session *s, const cli_model_args *a, int64_t vocab, cli_error *e)
{
    if (begin(s, a, NULL, e)) return e->code;
    an_init init = {.graph = s->graph, .seed = a->seed};
    s->options.vocab = vocab;
    s->m.rng = an_rng_from_seed(s->graph, a->seed);
    s->m.net = s->model->net(&init, s->m.rng, &s->options);
    return s->m.net ? 0 : cli_fail_ctx(e, s->ctx);
}

int cli_session_open(cli_session *s, const cli_model_args *a, const cli_data *data, cli_error *e)
{
    if (begin(s, a, data, e)) return e->code;
    if (model_build(s->model, s->graph, &s->options, &s->m)) return cli_fail_ctx(e, s->ctx);
    return 0;
}

static void put_piece(void *user, const char *text)
{
    an_atomic_file *f = user;
    (void)an_atomic_write(f, text, strlen(text)); /* a failure shows at the commit */
}

int cli_session_finish(cli_session *s, cli_error *e)
{
    an_atomic_file *f = NULL;
    if (!s->profile || e->code) return e->code;
    an_profile_stop(s->profile);
    if (an_atomic_open(s->ctx, s->profile_path, &f)) return cli_fail_ctx(e, s->ctx);
    const an_status st = an_profile_print(s->profile, put_piece, f);
    if (st) an_atomic_abort(f);
    if (st || an_atomic_commit(f)) return cli_fail_ctx(e, s->ctx);
    if (!an_profile_is_whole(s->profile)) cli_note("the profile has its first %zu events; the rest did not fit", an_profile_count(s->profile));
    return 0;
}

void cli_session_close(cli_session *s)
{
    an_profile_destroy(s->profile);
    an_graph_destroy(s->graph);
    an_ctx_destroy(s->ctx);
    memset(s, 0, sizeof *s);
}

void cli_session_recipe(const cli_session *s, char *text, size_t size)
{
    const model_options *o = &s->options;
    const bool constant = strcmp(o->schedule, "constant") == 0, f32 = strcmp(o->precision, "f32") == 0;
    snprintf(text, size, "%s, lr %g%s%s, batch %lld, %s%sseed %llu", o->optimizer, s->m.lr, constant ? "" : " ",
             constant ? "" : o->schedule, (long long)model_size(o, MODEL_BATCH), f32 ? "" : o->precision, f32 ? "" : ", ",
             (unsigned long long)o->seed);
}
