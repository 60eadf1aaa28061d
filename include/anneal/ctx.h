/* ctx.h - the context: allocator, first error, devices and caches. There is no other state.
 *
 * Ownership, for the whole API: a tensor or node belongs to its graph; data that outlives the
 * graph is an an_array or an an_buffer; whoever calls create or init calls destroy or fini;
 * arguments are borrowed. A context, and all that hangs off it, is used from one thread at a
 * time; two contexts share nothing. */
#ifndef ANNEAL_CTX_H
#define ANNEAL_CTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define AN_API __attribute__((visibility("default")))
#define AN_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define AN_API
#define AN_PRINTF(fmt, args)
#endif

typedef enum an_status {
#define AN_STATUS(id, number, text) AN_##id = number,
#include <anneal/status.def>
#undef AN_STATUS
} an_status;

typedef struct an_ctx an_ctx;

/* Memory for everything the library allocates (LLVM and the GPU driver keep their own).
 *   realloc  as C's: ptr NULL allocates, new_size 0 frees and returns NULL. NULL means no memory.
 *            Returned memory is aligned for any type of C. */
typedef struct an_allocator {
    void *(*realloc)(void *user, void *ptr, size_t old_size, size_t new_size);
    void *user;
} an_allocator;

/* All zero is the default. */
typedef struct an_ctx_desc {
    const an_allocator *allocator; /* NULL: malloc; copied */
    /* Gets a sentence when something was wrong that is no failure, such as a damaged cache. NULL: a line on stderr. */
    void (*warn)(void *user, const char *text);
    void *warn_user;
} an_ctx_desc;

/* Makes a context. desc may be NULL. Errors: AN_ERR_NOMEM, and *out stays as it was. */
AN_API an_status an_ctx_create(const an_ctx_desc *desc, an_ctx **out);

/* Destroys the context and what it caches; graphs, buffers and plans made with it go first.
 * NULL is a no-op. */
AN_API void an_ctx_destroy(an_ctx *ctx);

/* The first failure since the last clear, as a sentence: what was wrong, where, what to do.
 * "" when there was none. Valid until the next call that clears or destroys. */
AN_API const char *an_ctx_error(const an_ctx *ctx);
AN_API an_status an_ctx_status(const an_ctx *ctx);
AN_API void an_ctx_clear_error(an_ctx *ctx);

/* For code built on the library: records the sentence unless an earlier failure is still held, and returns status. */
AN_API an_status an_fail(an_ctx *ctx, an_status status, const char *fmt, ...) AN_PRINTF(3, 4);

/* The general text of a status, as in status.def. */
AN_API const char *an_status_text(an_status status);

/* Bytes now held through the context's allocator, and the most ever held. */
AN_API size_t an_ctx_nbytes(const an_ctx *ctx);
AN_API size_t an_ctx_peak_nbytes(const an_ctx *ctx);

#ifdef __cplusplus
}
#endif
#endif
