/* profile.c - see anneal/profile.h. The record is a slot of the context; without one nothing is measured. */
#include "runtime/state.h"

#include <anneal/profile.h>

enum { EVENTS_MAX = 1000000 };

typedef struct event {
    an_event e;
    char *name; /* its own */
} event;

struct an_profile {
    an_ctx *ctx;
    double begin;
    AN_VEC(event) events;
    AN_VEC(char *) names; /* each once */
    bool cut, running;
};

an_profile *an_profile_start(an_ctx *ctx)
{
    if (an_ctx_slot_get(ctx, AN_SLOT_PROFILE)) {
        an_fail(ctx, AN_ERR_ARG, "an_profile_start: the context records a profile already; stop that first");
        return NULL;
    }
    an_profile *p = an_mem_zalloc(ctx, sizeof *p);
    if (!p) return NULL;
    p->ctx = ctx;
    p->begin = an_clock();
    p->running = true;
    an_ctx_slot_set(ctx, AN_SLOT_PROFILE, p, NULL);
    return p;
}

void an_profile_stop(an_profile *p)
{
    if (!p || !p->running) return;
    p->running = false;
    an_ctx_slot_set(p->ctx, AN_SLOT_PROFILE, NULL, NULL);
}

void an_profile_destroy(an_profile *p)
{
    if (!p) return;
    an_profile_stop(p);
    for (size_t i = 0; i < p->names.len; i++) an_mem_free(p->ctx, p->names.data[i], strlen(p->names.data[i]) + 1);
    an_vec_fini(p->ctx, &p->names);
    an_vec_fini(p->ctx, &p->events);
    an_mem_free(p->ctx, p, sizeof *p);
}

static char *keep(an_profile *p, const char *name)
{
    for (size_t i = 0; i < p->names.len; i++)
        if (strcmp(p->names.data[i], name) == 0) return p->names.data[i];
    const size_t nbytes = strlen(name) + 1;
    char *copy = an_mem_alloc(p->ctx, nbytes);
    if (!copy || !an_vec_push(p->ctx, &p->names, copy)) {
        an_mem_free(p->ctx, copy, nbytes);
        return NULL;
    }
    memcpy(copy, name, nbytes);
    return copy;
}

void an_profile_add(an_profile *p, an_event e)
{
    if (!p) return;
    event made = {e, NULL};
    made.e.start -= p->begin;
    p->cut = p->cut || p->events.len >= EVENTS_MAX;
    if (!p->cut) made.name = keep(p, e.name);
    made.e.name = made.name;
    p->cut = p->cut || !made.name || !an_vec_push(p->ctx, &p->events, made);
}

void an_profile_cut(an_profile *p)
{
    if (p) p->cut = true;
}

an_profile *an_profile_of(an_ctx *ctx)
{
    return an_ctx_slot_get(ctx, AN_SLOT_PROFILE);
}

size_t an_profile_count(const an_profile *p)
{
    return p->events.len;
}

an_event an_profile_get(const an_profile *p, size_t i)
{
    return i < p->events.len ? p->events.data[i].e : (an_event){0};
}

void an_profile_clear(an_profile *p)
{
    p->events.len = 0;
    p->cut = false;
}

bool an_profile_is_whole(const an_profile *p)
{
    return !p->cut;
}

static void put_event(an_str *s, const an_event *e)
{
    static const struct {
        const char *category;
        int thread;
    } kinds[] = {[AN_EVENT_PASS] = {"pass", 1}, [AN_EVENT_COMPILE] = {"compile", 1}, [AN_EVENT_KERNEL] = {"kernel", 2},
                 [AN_EVENT_TRANSFER] = {"transfer", 3}};
    an_str_put(s, ",\n{\"name\": ");
    an_str_json(s, e->name);
    an_str_printf(s, ", \"cat\": \"%s\", \"ph\": \"X\", \"ts\": %.3f, \"dur\": %.3f, \"pid\": 1, \"tid\": %d, \"args\": {", kinds[e->kind].category,
                  e->start * 1e6, e->seconds * 1e6, kinds[e->kind].thread);
    if (e->kind == AN_EVENT_KERNEL || e->kind == AN_EVENT_TRANSFER) {
        const double ns = e->seconds * 1e9;
        an_str_printf(s, "\"bytes\": %.0f", e->nbytes);
        if (ns > 0) an_str_printf(s, ", \"GB/s\": %.4g", e->nbytes / ns);
        if (e->kind == AN_EVENT_KERNEL) an_str_printf(s, ", \"operations\": %.0f", e->flops);
        if (e->kind == AN_EVENT_KERNEL && ns > 0) an_str_printf(s, ", \"GF/s\": %.4g", e->flops / ns);
    }
    an_str_put(s, "}}");
}

an_status an_profile_print(const an_profile *p, an_put put, void *user)
{
    static const char *const threads[] = {"host", "kernels", "transfers"};
    an_str s;
    an_str_init(&s, p->ctx);
    an_str_put(&s, "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n"
                   "{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": 1, \"tid\": 1, \"args\": {\"name\": \"anneal\"}}");
    for (int i = 0; i < 3; i++)
        an_str_printf(&s, ",\n{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": 1, \"tid\": %d, \"args\": {\"name\": \"%s\"}}", i + 1, threads[i]);
    for (size_t i = 0; i < p->events.len && !s.failed; i++) {
        put_event(&s, &p->events.data[i].e);
        put(user, an_str_cstr(&s));
        an_str_clear(&s);
    }
    an_str_put(&s, "\n]}\n");
    const an_status st = s.failed ? AN_ERR_NOMEM : AN_OK;
    if (!st) put(user, an_str_cstr(&s));
    an_str_fini(&s);
    return st;
}
