/* trace.c - see trace.h; the readers of <anneal/inspect.h> that concern a trace. */
#define _POSIX_C_SOURCE 200809L
#include "rewrite/trace.h"

#include "rewrite/rewrite.h"

#include <time.h>

typedef struct fired {
    const an_rule_info *rule;
    an_uop before, after;
} fired;

typedef struct note {
    char *text;
    size_t nbytes;
} note;

typedef struct pass {
    char *name;
    size_t name_nbytes;
    uint32_t depth;
    size_t nodes_in, nodes_out;
    double started, seconds;
    an_graph *graph;
    AN_VEC(fired) fired;
    AN_VEC(note) notes;
} pass;

struct an_trace {
    an_ctx *ctx;
    AN_VEC(pass) passes;
    AN_VEC(size_t) open; /* the passes now running, outermost first */
    uint32_t lost;       /* passes that began without a record, still running */
    bool cut;
};

static double now(void)
{
    struct timespec t = {0};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

an_trace *an_trace_create(an_ctx *ctx)
{
    an_trace *t = an_mem_zalloc(ctx, sizeof *t);
    if (t) t->ctx = ctx;
    return t;
}

void an_trace_destroy(an_trace *t)
{
    if (!t) return;
    for (size_t i = 0; i < t->passes.len; i++) {
        pass *p = &t->passes.data[i];
        an_mem_free(t->ctx, p->name, p->name_nbytes);
        for (size_t n = 0; n < p->notes.len; n++) an_mem_free(t->ctx, p->notes.data[n].text, p->notes.data[n].nbytes);
        an_vec_fini(t->ctx, &p->fired);
        an_vec_fini(t->ctx, &p->notes);
    }
    an_vec_fini(t->ctx, &t->passes);
    an_vec_fini(t->ctx, &t->open);
    an_mem_free(t->ctx, t, sizeof *t);
}

bool an_trace_is_whole(const an_trace *t)
{
    return !t->cut;
}

/* ---- recording ---------------------------------------------------------------------------------- */

static char *copy_text(an_ctx *ctx, const char *text, size_t *nbytes)
{
    *nbytes = strlen(text) + 1;
    char *copy = an_mem_alloc(ctx, *nbytes);
    if (copy) memcpy(copy, text, *nbytes);
    return copy;
}

static pass *innermost(an_trace *t)
{
    if (!t || t->lost || t->open.len == 0) return NULL;
    return &t->passes.data[t->open.data[t->open.len - 1]];
}

void an_trace_pass_begin(an_trace *t, const char *name, an_graph *g)
{
    if (!t) return;
    pass p = {.depth = (uint32_t)t->open.len, .graph = g, .nodes_in = an_graph_len(g) - 1};
    p.name = copy_text(t->ctx, name, &p.name_nbytes);
    if (t->lost || !p.name || !an_vec_reserve(t->ctx, &t->passes, 1) || !an_vec_reserve(t->ctx, &t->open, 1)) {
        an_mem_free(t->ctx, p.name, p.name_nbytes);
        t->lost++;
        t->cut = true;
        return;
    }
    p.started = now();
    t->open.data[t->open.len++] = t->passes.len;
    t->passes.data[t->passes.len++] = p;
}

void an_trace_pass_end(an_trace *t)
{
    if (!t) return;
    if (t->lost) {
        t->lost--;
        return;
    }
    pass *p = innermost(t);
    if (!p) return;
    p->seconds = now() - p->started;
    if (!p->nodes_out) p->nodes_out = an_graph_len(p->graph) - 1;
    t->open.len--;
}

void an_trace_pass_nodes(an_trace *t, size_t nodes_in, size_t nodes_out)
{
    pass *p = innermost(t);
    if (!p) return;
    p->nodes_in = nodes_in;
    p->nodes_out = nodes_out;
}

void an_trace_fire(an_trace *t, const an_rule_info *rule, an_uop before, an_uop after)
{
    pass *p = innermost(t);
    const fired f = {rule, before, after};
    if (p && !an_vec_push(t->ctx, &p->fired, f)) t->cut = true;
}

void an_trace_note(an_trace *t, const char *fmt, ...)
{
    pass *p = innermost(t);
    if (!p) return;
    an_str s;
    va_list args;
    note n = {0};
    an_str_init(&s, t->ctx);
    va_start(args, fmt);
    an_str_vprintf(&s, fmt, args);
    va_end(args);
    n.text = s.failed ? NULL : copy_text(t->ctx, an_str_cstr(&s), &n.nbytes);
    an_str_fini(&s);
    if (n.text && an_vec_push(t->ctx, &p->notes, n)) return;
    an_mem_free(t->ctx, n.text, n.nbytes);
    t->cut = true;
}

/* ---- reading ------------------------------------------------------------------------------------ */

size_t an_trace_npasses(const an_trace *t)
{
    return t->passes.len;
}

an_trace_pass an_trace_get_pass(const an_trace *t, size_t i)
{
    const pass *p = &t->passes.data[i];
    return (an_trace_pass){.name = p->name,
                           .depth = p->depth,
                           .nodes_in = p->nodes_in,
                           .nodes_out = p->nodes_out,
                           .started = p->started,
                           .seconds = p->seconds,
                           .graph = p->graph,
                           .nfired = p->fired.len,
                           .nnotes = p->notes.len};
}

an_trace_fired an_trace_get_fired(const an_trace *t, size_t i, size_t k)
{
    const fired *f = &t->passes.data[i].fired.data[k];
    return (an_trace_fired){.rule = f->rule->name,
                            .file = f->rule->file,
                            .line = f->rule->line,
                            .text = f->rule->text,
                            .before = f->before,
                            .after = f->after};
}

const char *an_trace_get_note(const an_trace *t, size_t i, size_t k)
{
    return t->passes.data[i].notes.data[k].text;
}
