/* ctx.c - the context: memory accounting, the first error, and the slots modules hang state on. */
#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>

enum { ERROR_TEXT_MAX = 2048 };

typedef struct ctx_slot {
    void *data;
    void (*destroy)(an_ctx *ctx, void *data);
} ctx_slot;

struct an_ctx {
    an_allocator allocator;
    size_t nbytes, peak_nbytes;
    size_t failures; /* allocations that failed */
    void (*warn)(void *user, const char *text);
    void *warn_user;
    an_status status;
    char error[ERROR_TEXT_MAX];
    ctx_slot slots[AN_SLOT_COUNT];
};

static void *default_realloc(void *user, void *ptr, size_t old_size, size_t new_size)
{
    (void)user;
    (void)old_size;
    if (new_size == 0) {
        free(ptr);
        return NULL;
    }
    return realloc(ptr, new_size);
}

static void warn_on_stderr(void *user, const char *text)
{
    (void)user;
    (void)text;
#ifndef __wasi__ /* the browser's module imports nothing */
    (void)fprintf(stderr, "anneal: warning: %s\n", text);
#endif
}

static const struct {
    an_status status;
    const char *text;
} status_texts[] = {
#define AN_STATUS(id, number, text) {AN_##id, text},
#include <anneal/status.def>
#undef AN_STATUS
};

const char *an_status_text(an_status status)
{
    for (size_t i = 0; i < sizeof status_texts / sizeof status_texts[0]; i++)
        if (status_texts[i].status == status) return status_texts[i].text;
    return "unknown status";
}

an_status an_ctx_create(const an_ctx_desc *desc, an_ctx **out)
{
    an_allocator a = {.realloc = default_realloc};
    if (desc && desc->allocator) a = *desc->allocator;
    an_ctx *ctx = a.realloc(a.user, NULL, 0, sizeof *ctx);
    if (!ctx) return AN_ERR_NOMEM;
    memset(ctx, 0, sizeof *ctx);
    ctx->allocator = a;
    ctx->warn = desc && desc->warn ? desc->warn : warn_on_stderr;
    ctx->warn_user = desc ? desc->warn_user : NULL;
    ctx->nbytes = ctx->peak_nbytes = sizeof *ctx;
    *out = ctx;
    return AN_OK;
}

void an_ctx_destroy(an_ctx *ctx)
{
    if (!ctx) return;
    for (size_t i = AN_SLOT_COUNT; i-- > 0;)
        if (ctx->slots[i].destroy) ctx->slots[i].destroy(ctx, ctx->slots[i].data);
    const an_allocator a = ctx->allocator;
    a.realloc(a.user, ctx, sizeof *ctx, 0);
}

const char *an_ctx_error(const an_ctx *ctx)
{
    return ctx->error;
}

an_status an_ctx_status(const an_ctx *ctx)
{
    return ctx->status;
}

void an_ctx_clear_error(an_ctx *ctx)
{
    ctx->status = AN_OK;
    ctx->error[0] = '\0';
}

size_t an_ctx_nbytes(const an_ctx *ctx)
{
    return ctx->nbytes;
}

size_t an_ctx_peak_nbytes(const an_ctx *ctx)
{
    return ctx->peak_nbytes;
}

an_status an_fail(an_ctx *ctx, an_status status, const char *fmt, ...)
{
    if (ctx->status != AN_OK) return status;
    ctx->status = status;
    va_list args;
    va_start(args, fmt);
    vsnprintf(ctx->error, sizeof ctx->error, fmt, args);
    va_end(args);
    return status;
}

void an_warn(an_ctx *ctx, const char *fmt, ...)
{
    char text[ERROR_TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    ctx->warn(ctx->warn_user, text);
}

void *an_ctx_slot_get(const an_ctx *ctx, an_ctx_slot_id id)
{
    return ctx->slots[id].data;
}

void an_ctx_slot_set(an_ctx *ctx, an_ctx_slot_id id, void *data,
                     void (*destroy)(an_ctx *ctx, void *data))
{
    ctx->slots[id] = (ctx_slot){data, destroy};
}

void *an_mem_realloc(an_ctx *ctx, void *ptr, size_t old_nbytes, size_t new_nbytes)
{
    if (new_nbytes == 0) new_nbytes = 1;
    if (ptr && old_nbytes == 0) old_nbytes = 1;
    void *p = NULL;
    if (new_nbytes <= PTRDIFF_MAX)
        p = ctx->allocator.realloc(ctx->allocator.user, ptr, old_nbytes, new_nbytes);
    if (!p) {
        ctx->failures++;
        an_fail(ctx, AN_ERR_NOMEM, "out of memory: %zu more bytes were asked for while %zu are held",
                new_nbytes, ctx->nbytes);
        return NULL;
    }
    ctx->nbytes += new_nbytes - (ptr ? old_nbytes : 0);
    if (ctx->nbytes > ctx->peak_nbytes) ctx->peak_nbytes = ctx->nbytes;
    return p;
}

size_t an_mem_failures(const an_ctx *ctx)
{
    return ctx->failures;
}

void *an_mem_alloc(an_ctx *ctx, size_t nbytes)
{
    return an_mem_realloc(ctx, NULL, 0, nbytes);
}

void *an_mem_zalloc(an_ctx *ctx, size_t nbytes)
{
    void *p = an_mem_alloc(ctx, nbytes);
    if (p) memset(p, 0, nbytes);
    return p;
}

void an_mem_free(an_ctx *ctx, void *ptr, size_t nbytes)
{
    if (!ptr) return;
    if (nbytes == 0) nbytes = 1;
    ctx->nbytes -= nbytes;
    ctx->allocator.realloc(ctx->allocator.user, ptr, nbytes, 0);
}
