/* tar.c - see tar.h. A header is one block of 512 bytes, numbers in octal text (POSIX.1-1988, ustar):
 *
 *   0 name[100] | 124 size[12] | 148 checksum[8] | 156 type | 257 "ustar" | 345 prefix[155]
 *
 * then the data, filled up to whole blocks; two blocks of zeros end the archive. */
#include "io/tar.h"

enum { BLOCK = 512, SKIP_NBYTES = 1 << 14 };

static an_status read_exact(an_tar *t, void *dst, size_t nbytes)
{
    size_t got = 0;
    const an_status st = an_stream_read(t->s, dst, nbytes, &got);
    if (st || got == nbytes) return st;
    return an_fail(t->s->ctx, AN_ERR_FORMAT, "%s: the archive is truncated: it ends inside an entry", t->s->name);
}

static an_status skip(an_tar *t)
{
    uint8_t sink[SKIP_NBYTES];
    for (uint64_t left = t->left + t->padded; left > 0;) {
        const size_t n = left < sizeof sink ? (size_t)left : sizeof sink;
        const an_status st = read_exact(t, sink, n);
        if (st) return st;
        left -= n;
    }
    t->left = t->padded = 0;
    return AN_OK;
}

/* Octal digits, then spaces or zero bytes to the end of the field. */
static bool octal(const uint8_t *field, size_t n, uint64_t *out)
{
    size_t i = 0;
    uint64_t v = 0;
    while (i < n && field[i] == ' ') i++;
    const size_t first = i;
    for (; i < n && field[i] >= '0' && field[i] <= '7'; i++) v = v * 8 + (uint64_t)(field[i] - '0');
    if (i == first) return false;
    for (; i < n; i++)
        if (field[i] != ' ' && field[i] != '\0') return false;
    *out = v;
    return true;
}

/* The checksum is the sum of all bytes, its own field counted as spaces. */
static bool is_header(const uint8_t *b)
{
    uint64_t want = 0, sum = 0;
    for (size_t i = 0; i < BLOCK; i++) sum += i >= 148 && i < 156 ? ' ' : b[i];
    return octal(b + 148, 8, &want) && want == sum;
}

static bool is_zero(const uint8_t *b)
{
    for (size_t i = 0; i < BLOCK; i++)
        if (b[i]) return false;
    return true;
}

static void name_of(const uint8_t *b, char *out)
{
    size_t at = 0;
    const bool has_prefix = memcmp(b + 257, "ustar", 5) == 0 && b[345];
    for (size_t i = 0; has_prefix && i < 155 && b[345 + i]; i++) out[at++] = (char)b[345 + i];
    if (has_prefix) out[at++] = '/';
    for (size_t i = 0; i < 100 && b[i]; i++) out[at++] = (char)b[i];
    out[at] = '\0';
}

an_status an_tar_next(an_tar *t, an_tar_entry *e, bool *more)
{
    uint8_t b[BLOCK];
    size_t got = 0;
    *more = false;
    if (t->ended) return AN_OK;
    an_status st = skip(t);
    if (!st) st = an_stream_read(t->s, b, sizeof b, &got);
    if (st) return st;
    t->ended = got == 0 || (got == sizeof b && is_zero(b));
    if (t->ended) return AN_OK;
    if (got < sizeof b || !is_header(b))
        return an_fail(t->s->ctx, AN_ERR_FORMAT, "%s: is not a tar archive, or is corrupt: the checksum of an entry's header is wrong",
                       t->s->name);
    *e = (an_tar_entry){.is_file = b[156] == '0' || b[156] == '\0'};
    name_of(b, e->name);
    if (!octal(b + 124, 12, &e->nbytes))
        return an_fail(t->s->ctx, AN_ERR_FORMAT, "%s: the size of an entry is no octal number", t->s->name);
    t->left = e->nbytes;
    t->padded = (BLOCK - e->nbytes % BLOCK) % BLOCK;
    *more = true;
    return AN_OK;
}

an_status an_tar_read(an_tar *t, void *dst, size_t nbytes)
{
    if (nbytes > t->left) return an_fail(t->s->ctx, AN_ERR_INTERNAL, "%s: read beyond an entry of the archive", t->s->name);
    t->left -= nbytes;
    return read_exact(t, dst, nbytes);
}
