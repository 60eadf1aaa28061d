/* base.h - memory, errors, strings and growing arrays, all through the context. Knows nothing of
 * tensors. */
#ifndef AN_BASE_BASE_H
#define AN_BASE_BASE_H

#include <anneal/ctx.h>
#include <stdarg.h>
#include <string.h>

/* --- memory ------------------------------------------------------------------------------------
 * Failing sets AN_ERR_NOMEM in the context and returns NULL. Sizes are known to the caller at
 * freeing, so no header is kept. */
void *an_mem_alloc(an_ctx *ctx, size_t nbytes);  /* not cleared; nbytes 0 gives a unique pointer */
void *an_mem_zalloc(an_ctx *ctx, size_t nbytes); /* cleared */
void *an_mem_realloc(an_ctx *ctx, void *ptr, size_t old_nbytes, size_t new_nbytes);
void an_mem_free(an_ctx *ctx, void *ptr, size_t nbytes); /* NULL is a no-op */
/* Allocations that failed so far: a pass whose helpers return plain values compares it before and after. */
size_t an_mem_failures(const an_ctx *ctx);

/* count * size, or false on overflow. */
bool an_size_mul(size_t count, size_t size, size_t *out);
bool an_size_add(size_t a, size_t b, size_t *out);

/* Something the user may want to know though nothing failed: to the context's warn, by default a line on stderr. */
void an_warn(an_ctx *ctx, const char *fmt, ...) AN_PRINTF(2, 3);

/* --- things that hang off a context ------------------------------------------------------------
 * A module that keeps state for the life of a context puts it in its slot; destroy runs from
 * an_ctx_destroy, last slot first. */
typedef enum an_ctx_slot_id {
    AN_SLOT_GRAPHS,   /* graph.c: count of live graphs, for the leak check */
    AN_SLOT_DEVICES,  /* backend: open devices */
    AN_SLOT_PROGRAMS, /* runtime: compiled kernels by key */
    AN_SLOT_SCHEDULES, /* runtime: schedules by key */
    AN_SLOT_PROFILE,  /* runtime: the record of a profile; its owner's */
    AN_SLOT_WINNERS,  /* runtime: the winners of searches */
    AN_SLOT_SETTINGS, /* knobs that change output (settings.h) */
    AN_SLOT_COUNT
} an_ctx_slot_id;
void *an_ctx_slot_get(const an_ctx *ctx, an_ctx_slot_id id);
void an_ctx_slot_set(an_ctx *ctx, an_ctx_slot_id id, void *data,
                     void (*destroy)(an_ctx *ctx, void *data));

/* --- growing arrays ----------------------------------------------------------------------------
 * A vec is three fields in the caller's struct: data, len, cap. */
#define AN_VEC(type)                                                                               \
    struct {                                                                                       \
        type *data;                                                                                \
        size_t len, cap;                                                                           \
    }
/* Room for one more (or n more); false when memory is out. Then v.data[v.len++] = x. */
bool an_vec_reserve_raw(an_ctx *ctx, void **data, size_t *cap, size_t len, size_t more, size_t size);
#define an_vec_reserve(ctx, v, more)                                                               \
    an_vec_reserve_raw((ctx), (void **)&(v)->data, &(v)->cap, (v)->len, (more), sizeof *(v)->data)
#define an_vec_push(ctx, v, x)                                                                     \
    (an_vec_reserve((ctx), (v), 1) ? ((v)->data[(v)->len++] = (x), true) : false)
#define an_vec_fini(ctx, v)                                                                        \
    (an_mem_free((ctx), (v)->data, (v)->cap * sizeof *(v)->data), (v)->data = NULL,                \
     (v)->len = (v)->cap = 0)

/* --- strings -----------------------------------------------------------------------------------
 * A builder that remembers a failed allocation, so a chain of appends needs one check at its end:
 * an_str_cstr is never NULL, failed says whether it is whole. */
typedef struct an_str {
    an_ctx *ctx;
    char *data;
    size_t len, cap;
    bool failed;
} an_str;
void an_str_init(an_str *s, an_ctx *ctx);
void an_str_fini(an_str *s);
void an_str_put(an_str *s, const char *text);
void an_str_putn(an_str *s, const char *text, size_t n);
void an_str_putc(an_str *s, char c);
void an_str_printf(an_str *s, const char *fmt, ...) AN_PRINTF(2, 3);
void an_str_vprintf(an_str *s, const char *fmt, va_list args) AN_PRINTF(2, 0);
void an_str_json(an_str *s, const char *text); /* quoted and escaped */
void an_str_clear(an_str *s);
const char *an_str_cstr(const an_str *s); /* "" when empty */

/* --- hashing ----------------------------------------------------------------------------------- */
static inline uint64_t an_mix64(uint64_t h, uint64_t v)
{
    /* Multiply-xorshift, the finaliser of MurmurHash3 (public domain) over a running state. */
    h ^= v + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
    h ^= h >> 33;
    h *= 0xff51afd7ed558ccdu;
    h ^= h >> 33;
    return h;
}
uint64_t an_hash_bytes(uint64_t seed, const void *data, size_t nbytes);

/* A 128-bit structural key: equal in every process, for every build order. */
typedef struct an_key {
    uint64_t lo, hi;
} an_key;
static inline bool an_key_eq(an_key a, an_key b)
{
    return a.lo == b.lo && a.hi == b.hi;
}
an_key an_key_of(const void *data, size_t nbytes);
an_key an_key_mix(an_key k, uint64_t v);

#endif
