/* text.c - UTF-8 text as tokens, one a character. The alphabet is what occurs, in the order of code points, so equal texts
 * have equal alphabets. */
#include <anneal/io.h>

#include "base/base.h"

#include <stdlib.h>

enum { CODES = 0x110000 };

/* The character at s[0..n), its bytes in *size; -1 if there is none (Unicode 15, table 3-7). */
static int64_t decode(const uint8_t *s, size_t n, size_t *size)
{
    const uint8_t a = s[0];
    *size = a < 0x80 ? 1 : a < 0xc2 ? 0 : a < 0xe0 ? 2 : a < 0xf0 ? 3 : a < 0xf5 ? 4 : 0;
    if (*size == 0 || *size > n) return -1;
    if (*size == 1) return a;
    int64_t c = a & (0x7f >> *size);
    for (size_t i = 1; i < *size; i++) {
        if ((s[i] & 0xc0) != 0x80) return -1;
        c = c << 6 | (s[i] & 0x3f);
    }
    static const int64_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const bool ok = c >= least[*size] && c < CODES && !(c >= 0xd800 && c < 0xe000);
    return ok ? c : -1;
}

static an_status not_utf8(an_ctx *ctx, const char *name, size_t at)
{
    return an_fail(ctx, AN_ERR_FORMAT, "%s: is not UTF-8 text: byte %zu does not belong there; 'iconv -t UTF-8' may help", name, at);
}

/* How many characters there are, each marked in seen (one byte a code point). */
static an_status survey(an_ctx *ctx, const char *name, const uint8_t *s, size_t nbytes, uint8_t *seen, size_t *n)
{
    *n = 0;
    for (size_t at = 0, size = 0; at < nbytes; at += size, ++*n) {
        const int64_t c = decode(s + at, nbytes - at, &size);
        if (c < 0) return not_utf8(ctx, name, at);
        seen[c] = 1;
    }
    return *n ? AN_OK : an_fail(ctx, AN_ERR_FORMAT, "%s: is an empty text", name);
}

static an_status read_alphabet(an_ctx *ctx, const uint8_t *seen, an_text *t)
{
    uint32_t n = 0;
    for (size_t c = 0; c < CODES; c++) n += seen[c];
    t->chars = an_mem_alloc(ctx, n * sizeof *t->chars);
    if (!t->chars) return AN_ERR_NOMEM;
    for (uint32_t c = 0; c < CODES; c++)
        if (seen[c]) t->chars[t->nvocab++] = c;
    return AN_OK;
}

static int32_t token_of(const an_text *t, uint32_t c)
{
    uint32_t low = 0, high = t->nvocab;
    while (low < high) {
        const uint32_t mid = low + (high - low) / 2;
        if (t->chars[mid] < c)
            low = mid + 1;
        else
            high = mid;
    }
    return low < t->nvocab && t->chars[low] == c ? (int32_t)low : -1;
}

static an_status parse(an_ctx *ctx, const char *name, const void *utf8, size_t nbytes, bool alphabet_only, an_text *out)
{
    an_text t = {.ctx = ctx};
    const uint8_t *s = utf8;
    size_t n = 0;
    uint8_t *seen = an_mem_zalloc(ctx, CODES);
    an_status st = seen ? survey(ctx, name, s, nbytes, seen, &n) : AN_ERR_NOMEM;
    if (!st) st = read_alphabet(ctx, seen, &t);
    an_mem_free(ctx, seen, CODES);
    if (!st && !alphabet_only) {
        t.tokens = an_mem_alloc(ctx, n * sizeof *t.tokens);
        if (!t.tokens) st = AN_ERR_NOMEM;
        for (size_t at = 0, size = 0; at < nbytes && !st; at += size)
            t.tokens[t.n++] = token_of(&t, (uint32_t)decode(s + at, nbytes - at, &size));
    }
    if (st)
        an_text_fini(&t);
    else
        *out = t;
    return st;
}

an_status an_text_parse(an_ctx *ctx, const char *name, const void *utf8, size_t nbytes, an_text *out)
{
    return parse(ctx, name, utf8, nbytes, false, out);
}

an_status an_text_alphabet(an_ctx *ctx, const char *name, const void *utf8, size_t nbytes, an_text *out)
{
    return parse(ctx, name, utf8, nbytes, true, out);
}

an_status an_text_load(an_ctx *ctx, const char *path, size_t nbytes_max, an_text *out)
{
    an_bytes bytes = {0};
    an_status st = an_file_read(ctx, path, nbytes_max ? nbytes_max : (size_t)256 << 20, &bytes);
    if (!st) st = an_text_parse(ctx, path, bytes.data, bytes.nbytes, out);
    an_bytes_fini(&bytes);
    return st;
}

void an_text_fini(an_text *t)
{
    if (!t->ctx) return;
    an_mem_free(t->ctx, t->chars, t->nvocab * sizeof *t->chars);
    an_mem_free(t->ctx, t->tokens, t->n * sizeof *t->tokens);
    *t = (an_text){0};
}

an_status an_text_encode(const an_text *t, const char *utf8, int32_t *out, size_t *n)
{
    const uint8_t *s = (const uint8_t *)utf8;
    const size_t nbytes = strlen(utf8);
    size_t count = 0;
    for (size_t at = 0, size = 0; at < nbytes; at += size, count++) {
        const int64_t c = decode(s + at, nbytes - at, &size);
        if (c < 0) return not_utf8(t->ctx, "the text", at);
        const int32_t token = token_of(t, (uint32_t)c);
        if (token < 0)
            return an_fail(t->ctx, AN_ERR_ARG, "the character '%.*s' (U+%04X) does not occur in the text that was learnt from",
                           (int)size, utf8 + at, (unsigned)c);
        if (out) out[count] = token;
    }
    *n = count;
    return AN_OK;
}

size_t an_text_decode(const an_text *t, int32_t token, char out[5])
{
    out[0] = '\0';
    if (token < 0 || (uint32_t)token >= t->nvocab) return 0;
    const uint32_t c = t->chars[token];
    const size_t size = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const uint8_t lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    uint32_t rest = c;
    for (size_t i = size; i-- > 1; rest >>= 6) out[i] = (char)(0x80 | (rest & 0x3f));
    out[0] = (char)(lead[size == 1 ? 0 : size] | rest);
    out[size] = '\0';
    return size;
}
