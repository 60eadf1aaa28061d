/* session.c - see session.h. */
#include "session.h"

#include <string.h>

enum { NAMES_MAX = 32 };

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

const model *cli_find_model(const char *name, cli_error *e)
{
    const char *words[NAMES_MAX];
    size_t n = 0;
    const model *m = model_find(name);
    if (m) return m;
    for (size_t i = 0; i < model_count() && n < NAMES_MAX; i++) words[n++] = model_get(i)->name;
    unknown(e, "model", name, words, n);
    return NULL;
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

int cli_session_open(cli_session *s, const char *name, const char *device, const model_options *options, cli_error *e)
{
    memset(s, 0, sizeof *s);
    s->model = cli_find_model(name, e);
    if (!s->model) return e->code;
    if (device && check_device(device, e)) return e->code;
    if (an_ctx_create(NULL, &s->ctx)) return cli_fail(e, AN_ERR_NOMEM, "out of memory");
    if (an_graph_create(s->ctx, &s->graph)) return cli_fail_ctx(e, s->ctx);
    if (an_graph_set_device(s->graph, device)) return cli_fail_ctx(e, s->ctx);
    const an_device *opened = an_graph_device(s->graph);
    if (!opened) return cli_fail_ctx(e, s->ctx);
    s->device = an_device_name(opened);
    if (model_build(s->model, s->graph, options, &s->m)) return cli_fail_ctx(e, s->ctx);
    return 0;
}

void cli_session_close(cli_session *s)
{
    an_graph_destroy(s->graph);
    an_ctx_destroy(s->ctx);
    memset(s, 0, sizeof *s);
}
