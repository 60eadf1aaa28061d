/* checkpoint.c - see checkpoint.h. */
#include "checkpoint.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DIMS_MAX = 12, NAME_MAX_NBYTES = 256, METADATA_MAX = MODEL_VALUES_MAX + 10, VALUE_NBYTES = 40 };

/* Everything of a run that has to be kept: names, and the tensors they stand for. */
typedef struct entry {
    char name[NAME_MAX_NBYTES];
    an_tensor *tensor;
    int64_t dims[DIMS_MAX];
    void *data;
} entry;
typedef struct entries {
    entry *items;
    size_t n;
} entries;

static void add(entries *x, const char *prefix, const char *name, an_tensor *tensor)
{
    entry *item = &x->items[x->n];
    for (size_t i = 0; i < x->n; i++) /* a tied weight once */
        if (x->items[i].tensor == tensor) return;
    *item = (entry){.tensor = tensor};
    snprintf(item->name, sizeof item->name, "%s%s", prefix, name);
    for (uint32_t i = 0; i < an_tensor_rank(tensor) && i < DIMS_MAX; i++) item->dims[i] = an_tensor_dim(tensor, (int)i);
    x->n++;
}

static int gather(const cli_session *s, bool whole_run, entries *x, cli_error *e)
{
    const an_params state = an_module_state(s->m.net), optim = an_optim_state(s->m.optim); /* none of a bare network */
    const uint32_t draws = an_rng_count(s->m.rng);
    *x = (entries){.items = calloc(state.n + optim.n + draws + 1, sizeof *x->items)};
    if (!x->items) return cli_fail(e, AN_ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < state.n; i++) add(x, "", state.items[i].name, state.items[i].tensor);
    for (size_t i = 0; i < optim.n && whole_run; i++) add(x, "optim.", optim.items[i].name, optim.items[i].tensor);
    for (uint32_t i = 0; i < draws && whole_run; i++) {
        char name[24];
        snprintf(name, sizeof name, "%u", i);
        add(x, "rng.", name, an_rng_state(s->m.rng, i));
    }
    return 0;
}

static void release(entries *x)
{
    for (size_t i = 0; i < x->n; i++) free(x->items[i].data);
    free(x->items);
    *x = (entries){0};
}

/* --- what the run was ----------------------------------------------------------------------------- */

typedef struct facts {
    an_metadata items[METADATA_MAX];
    size_t n;
    char values[METADATA_MAX][VALUE_NBYTES];
    char *alphabet;
} facts;

static void fact(facts *f, const char *key, const char *value)
{
    f->items[f->n++] = (an_metadata){key, value};
}

static void number(facts *f, const char *key, double value)
{
    char *text = f->values[f->n];
    snprintf(text, VALUE_NBYTES, "%.17g", value);
    fact(f, key, text);
}

/* The alphabet of a text, as text. */
static char *spell(const an_text *t)
{
    char *text = malloc((size_t)t->nvocab * 4 + 1);
    size_t at = 0;
    for (uint32_t i = 0; i < t->nvocab && text; i++) {
        char c[5];
        const size_t n = an_text_decode(t, (int32_t)i, c);
        memcpy(text + at, c, n + 1);
        at += n;
    }
    return text;
}

/* Everything but the step has to be the same for a run to go on. A 0 in an alphabet would end it: such texts have no checkpoint. */
static int list_facts(const cli_session *s, const cli_data *data, facts *f, cli_error *e)
{
    const model_options *o = &s->options;
    *f = (facts){0};
    fact(f, "format", "pt");
    fact(f, "anneal.model", s->model->name);
    fact(f, "anneal.optimizer", o->optimizer);
    fact(f, "anneal.schedule", o->schedule);
    fact(f, "anneal.precision", o->precision);
    number(f, "anneal.seed", (double)o->seed);
    for (uint32_t i = 0; i < model_nvalues(s->model); i++) number(f, model_get_value(s->model, i).name, o->values[i]);
    if (s->model->data != MODEL_TEXT) return 0;
    if (data->text.nvocab && data->text.chars[0] == 0)
        return cli_fail(e, AN_ERR_UNSUPPORTED, "%s has a character of code 0, which a checkpoint cannot hold", data->title);
    f->alphabet = spell(&data->text);
    if (!f->alphabet) return cli_fail(e, AN_ERR_NOMEM, "out of memory");
    fact(f, "anneal.alphabet", f->alphabet);
    number(f, "anneal.characters", (double)data->text.n);
    return 0;
}

/* --- saving --------------------------------------------------------------------------------------- */

int cli_checkpoint_save(const cli_trainer *t, const char *path, cli_error *e)
{
    const cli_session *s = t->session;
    entries x = {0};
    facts f = {0};
    an_array_view *views = NULL;
    if (gather(s, true, &x, e) || list_facts(s, t->data, &f, e)) goto done;
    number(&f, "anneal.step", (double)t->step);
    views = calloc(x.n + 1, sizeof *views);
    if (!views) {
        cli_fail(e, AN_ERR_NOMEM, "out of memory");
        goto done;
    }
    for (size_t i = 0; i < x.n; i++) {
        entry *item = &x.items[i];
        const size_t nbytes = an_tensor_nbytes(item->tensor);
        item->data = malloc(nbytes ? nbytes : 1);
        if (!item->data) {
            cli_fail(e, AN_ERR_NOMEM, "out of memory");
            goto done;
        }
        if (an_tensor_read(item->tensor, item->data, nbytes)) {
            cli_fail_ctx(e, s->ctx);
            goto done;
        }
        views[i] = (an_array_view){item->name, an_tensor_dtype(item->tensor), an_tensor_rank(item->tensor), item->dims, item->data, nbytes};
    }
    if (an_safetensors_write(s->ctx, path, views, x.n, f.items, f.n)) cli_fail_ctx(e, s->ctx);
done:
    free(views);
    free(f.alphabet);
    release(&x);
    return e->code;
}

/* --- taking from a file --------------------------------------------------------------------------- */

int cli_weights_open(cli_weights *w, const char *path, cli_error *e)
{
    *w = (cli_weights){0};
    if (an_ctx_create(NULL, &w->ctx)) return cli_fail(e, AN_ERR_NOMEM, "out of memory");
    if (an_safetensors_open(w->ctx, path, 0, &w->file)) return cli_fail_ctx(e, w->ctx);
    const char *alphabet = an_safetensors_metadata(w->file, "anneal.alphabet");
    if (alphabet && an_text_alphabet(w->ctx, path, alphabet, strlen(alphabet), &w->alphabet)) return cli_fail_ctx(e, w->ctx);
    return 0;
}

void cli_weights_close(cli_weights *w)
{
    an_safetensors_close(w->file);
    an_text_fini(&w->alphabet);
    an_ctx_destroy(w->ctx);
    *w = (cli_weights){0};
}

int cli_weights_options(const cli_weights *w, cli_model_args *args, cli_error *e)
{
    const char *name = an_safetensors_metadata(w->file, "anneal.model");
    const model *m = model_find(args->model);
    if (!name || !m) return 0;
    if (strcmp(name, args->model) != 0) return cli_fail(e, AN_ERR_ARG, "the checkpoint is of the model %s, not of %s", name, args->model);
    for (uint32_t i = 0; i < model_nvalues(m); i++) {
        const char *text = an_safetensors_metadata(w->file, model_get_value(m, i).name);
        if (text && isnan(args->values[i])) args->values[i] = strtod(text, NULL);
    }
    return 0;
}

/* One tensor from the file. */
static int put(const cli_weights *w, const cli_session *s, const entry *x, cli_error *e)
{
    an_array_view v = {0};
    const an_dtype d = an_tensor_dtype(x->tensor);
    const uint32_t rank = an_tensor_rank(x->tensor);
    if (!an_safetensors_find(w->file, x->name, &v)) return cli_fail(e, AN_ERR_FORMAT, "the checkpoint has no tensor '%s'", x->name);
    bool same = v.rank == rank;
    for (uint32_t i = 0; same && i < rank; i++) same = v.dims[i] == x->dims[i];
    if (!same)
        return cli_fail(e, AN_ERR_SHAPE, "the checkpoint's tensor '%s' has another shape than the model's: are the sizes the same?", x->name);
    if (v.dtype == d) return an_tensor_write(x->tensor, v.data, v.nbytes) ? cli_fail_ctx(e, s->ctx) : 0;
    if (an_dtype_kind_of(v.dtype) != AN_KIND_FLOAT || an_dtype_kind_of(d) != AN_KIND_FLOAT)
        return cli_fail(e, AN_ERR_DTYPE, "the checkpoint's tensor '%s' is of dtype %s, the model's of %s", x->name, an_dtype_name(v.dtype),
                        an_dtype_name(d));
    const size_t nbytes = an_tensor_nbytes(x->tensor), size = an_dtype_nbytes(d), from = an_dtype_nbytes(v.dtype);
    char *data = malloc(nbytes ? nbytes : 1);
    if (!data) return cli_fail(e, AN_ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < nbytes / size; i++)
        an_scalar_store(d, an_scalar_cast(v.dtype, d, an_scalar_load(v.dtype, (const char *)v.data + i * from)), data + i * size);
    const an_status st = an_tensor_write(x->tensor, data, nbytes);
    free(data);
    return st ? cli_fail_ctx(e, s->ctx) : 0;
}

static int put_all(const cli_weights *w, const cli_session *s, bool whole_run, cli_error *e)
{
    entries x = {0};
    int code = gather(s, whole_run, &x, e);
    for (size_t i = 0; i < x.n && !code; i++) code = put(w, s, &x.items[i], e);
    release(&x);
    return code;
}

int cli_weights_load(const cli_weights *w, const cli_session *s, cli_error *e)
{
    return put_all(w, s, false, e);
}

int cli_checkpoint_resume(cli_trainer *t, const char *path, cli_error *e)
{
    cli_weights w = {0};
    facts f = {0};
    if (cli_weights_open(&w, path, e) || list_facts(t->session, t->data, &f, e)) goto done;
    const char *step = an_safetensors_metadata(w.file, "anneal.step");
    if (!step) {
        cli_fail(e, AN_ERR_FORMAT, "%s: holds weights but no run to go on with; 'anneal generate' and 'anneal run' use such", path);
        goto done;
    }
    for (size_t i = 0; i < f.n; i++) {
        const char *was = an_safetensors_metadata(w.file, f.items[i].key), *now = f.items[i].value;
        if (was && strcmp(was, now) == 0) continue;
        const bool is_length = strcmp(f.items[i].key, "steps") == 0 || strcmp(f.items[i].key, "epochs") == 0;
        if (is_length && strcmp(t->session->options.schedule, "constant") == 0) continue; /* nothing depends on it */
        const char *key = strncmp(f.items[i].key, "anneal.", 7) == 0 ? f.items[i].key + 7 : f.items[i].key;
        cli_fail(e, AN_ERR_ARG, "%s: was saved by a run with another %s (%.60s, and now %.60s); a run goes on with the options it began with",
                 path, key, was ? was : "none", now);
        goto done;
    }
    if (put_all(&w, t->session, true, e)) goto done;
    t->step = (uint64_t)strtod(step, NULL);
    if (t->step >= t->steps)
        cli_fail(e, AN_ERR_ARG, "%s: that run is at its end, step %llu of %llu; one whose schedule is constant goes on with more --steps", path,
                 (unsigned long long)t->step, (unsigned long long)t->steps);
done:
    free(f.alphabet);
    cli_weights_close(&w);
    return e->code;
}
