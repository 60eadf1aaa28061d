/* base.c - growing arrays, strings, hashing and checked sizes. */
#include "base/base.h"

#include <stdio.h>

bool an_size_mul(size_t count, size_t size, size_t *out)
{
    if (size != 0 && count > SIZE_MAX / size) return false;
    *out = count * size;
    return true;
}

bool an_size_add(size_t a, size_t b, size_t *out)
{
    if (a > SIZE_MAX - b) return false;
    *out = a + b;
    return true;
}

bool an_vec_reserve_raw(an_ctx *ctx, void **data, size_t *cap, size_t len, size_t more, size_t size)
{
    size_t need = 0, nbytes = 0;
    if (!an_size_add(len, more, &need)) return false;
    if (need <= *cap) return true;
    size_t cap_new = *cap ? *cap + *cap / 2 : 8;
    if (cap_new < need) cap_new = need;
    if (!an_size_mul(cap_new, size, &nbytes)) {
        an_fail(ctx, AN_ERR_NOMEM, "out of memory: an array of %zu elements was asked for", need);
        return false;
    }
    void *p = an_mem_realloc(ctx, *data, *cap * size, nbytes);
    if (!p) return false;
    *data = p;
    *cap = cap_new;
    return true;
}

void an_str_init(an_str *s, an_ctx *ctx)
{
    *s = (an_str){.ctx = ctx};
}

void an_str_fini(an_str *s)
{
    if (s->ctx) an_mem_free(s->ctx, s->data, s->cap);
    *s = (an_str){.ctx = s->ctx};
}

void an_str_clear(an_str *s)
{
    s->len = 0;
    if (s->data) s->data[0] = '\0';
}

void an_str_putn(an_str *s, const char *text, size_t n)
{
    if (s->failed) return;
    if (!an_vec_reserve_raw(s->ctx, (void **)&s->data, &s->cap, s->len, n + 1, 1)) {
        s->failed = true;
        return;
    }
    memcpy(s->data + s->len, text, n);
    s->len += n;
    s->data[s->len] = '\0';
}

void an_str_put(an_str *s, const char *text)
{
    an_str_putn(s, text, strlen(text));
}

void an_str_putc(an_str *s, char c)
{
    an_str_putn(s, &c, 1);
}

void an_str_vprintf(an_str *s, const char *fmt, va_list args)
{
    if (s->failed) return;
    va_list again;
    va_copy(again, args);
    const int n = vsnprintf(NULL, 0, fmt, args);
    if (n < 0 || !an_vec_reserve_raw(s->ctx, (void **)&s->data, &s->cap, s->len, (size_t)n + 1, 1)) {
        s->failed = true;
    } else {
        vsnprintf(s->data + s->len, (size_t)n + 1, fmt, again);
        s->len += (size_t)n;
    }
    va_end(again);
}

void an_str_printf(an_str *s, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    an_str_vprintf(s, fmt, args);
    va_end(args);
}

void an_str_json(an_str *s, const char *text)
{
    an_str_putc(s, '"');
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        switch (*p) {
        case '"': an_str_put(s, "\\\""); break;
        case '\\': an_str_put(s, "\\\\"); break;
        case '\n': an_str_put(s, "\\n"); break;
        case '\t': an_str_put(s, "\\t"); break;
        default:
            if (*p < 0x20)
                an_str_printf(s, "\\u%04x", *p);
            else
                an_str_putc(s, (char)*p);
        }
    }
    an_str_putc(s, '"');
}

const char *an_str_cstr(const an_str *s)
{
    return s->data ? s->data : "";
}

uint64_t an_hash_bytes(uint64_t seed, const void *data, size_t nbytes)
{
    const unsigned char *p = data;
    uint64_t h = an_mix64(seed, nbytes);
    while (nbytes > 0) {
        uint64_t v = 0; /* little-endian whatever the machine, so that keys travel */
        const size_t n = nbytes < 8 ? nbytes : 8;
        for (size_t i = 0; i < n; i++) v |= (uint64_t)p[i] << (8 * i);
        h = an_mix64(h, v);
        p += n;
        nbytes -= n;
    }
    return h;
}

an_key an_key_of(const void *data, size_t nbytes)
{
    return (an_key){an_hash_bytes(0x616e6e65616c6c6fu, data, nbytes),
                    an_hash_bytes(0x616e6e65616c6869u, data, nbytes)};
}

an_key an_key_mix(an_key k, uint64_t v)
{
    return (an_key){an_mix64(k.lo, v), an_mix64(k.hi ^ 0xd6e8feb86659fd93u, v * 0x9fb21c651e98df25u)};
}
