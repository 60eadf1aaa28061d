/* front.c - what the module exports. Text goes in and comes out as bytes that end with a 0: the caller gets room from
 * anneal_alloc, and gives back everything, results too, by anneal_free. A result is JSON; {"error": "..."} on failure.
 * No state is kept between calls. */
#include "report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT(name) __attribute__((export_name(#name)))

/* Text that grows. data is NULL once memory ran out. */
typedef struct text {
    char *data;
    size_t len, cap;
    bool failed;
} text;

static void append(void *user, const char *s)
{
    text *t = user;
    const size_t n = strlen(s);
    if (t->failed) return;
    if (t->len + n + 1 > t->cap) {
        const size_t cap = 2 * (t->len + n + 1);
        char *data = realloc(t->data, cap);
        if (!data) {
            t->failed = true;
            return;
        }
        t->data = data;
        t->cap = cap;
    }
    memcpy(t->data + t->len, s, n + 1);
    t->len += n;
}

/* The text, or the sentence of what failed. NULL when there is no memory even for that. */
static char *finish(an_ctx *ctx, an_status st, text *t)
{
    if (st || t->failed) {
        const char *why = ctx && an_ctx_error(ctx)[0] ? an_ctx_error(ctx) : an_status_text(st ? st : AN_ERR_NOMEM);
        t->len = 0;
        t->failed = false;
        append(t, "{\"error\": \"");
        for (; *why; why++) {
            char escaped[8];
            const unsigned char c = (unsigned char)*why;
            snprintf(escaped, sizeof escaped, c == '"' || c == '\\' ? "\\%c" : c < 0x20 ? "\\u%04x" : "%c", c);
            append(t, escaped);
        }
        append(t, "\"}\n");
    }
    an_ctx_destroy(ctx);
    if (!t->failed) return t->data;
    free(t->data);
    return NULL;
}

void *anneal_alloc(size_t nbytes);
void anneal_free(void *p);
char *anneal_model(const char *name, int batch, int steps, int seed);
char *anneal_rewrite(const char *expression);

EXPORT(anneal_alloc) void *anneal_alloc(size_t nbytes)
{
    return malloc(nbytes ? nbytes : 1);
}

EXPORT(anneal_free) void anneal_free(void *p)
{
    free(p);
}

/* report_model in a context of its own. */
EXPORT(anneal_model) char *anneal_model(const char *name, int batch, int steps, int seed)
{
    text t = {0};
    an_ctx *ctx = NULL;
    an_status st = an_ctx_create(NULL, &ctx);
    if (!st) st = report_model(ctx, name, batch, steps, (uint64_t)seed, append, &t);
    return finish(ctx, st, &t);
}

/* report_rewrite in a context of its own. */
EXPORT(anneal_rewrite) char *anneal_rewrite(const char *expression)
{
    text t = {0};
    an_ctx *ctx = NULL;
    an_status st = an_ctx_create(NULL, &ctx);
    if (!st) st = report_rewrite(ctx, expression, append, &t);
    return finish(ctx, st, &t);
}
