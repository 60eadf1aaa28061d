/* gzip.c - the inflating half of a stream, over zlib. Memory goes through the context; checks are zlib's CRC-32 and length
 * of every member, and that nothing but further members follows. */
#include "io/stream.h"

#ifdef AN_NO_ZLIB

an_status an_gzip_open(an_stream *s)
{
    return an_fail(s->ctx, AN_ERR_UNSUPPORTED, "%s: is gzip, and this build has no zlib; give it unpacked", s->name);
}

an_status an_gzip_read(an_stream *s, void *dst, size_t nbytes, size_t *got)
{
    (void)dst;
    (void)nbytes;
    (void)got;
    return an_gzip_open(s);
}

void an_gzip_close(an_stream *s)
{
    (void)s;
}

#else

#include <limits.h>
#include <zlib.h>

enum { IN_NBYTES = 128 << 10 };

struct an_gzip {
    z_stream z;
    bool in_member;
    uint8_t in[IN_NBYTES];
};

/* zlib frees without a size, and the context wants one, so it is kept in front of the block. */
typedef union block_head {
    size_t nbytes;
    max_align_t align;
} block_head;

static voidpf gzip_alloc(voidpf user, uInt count, uInt size)
{
    size_t nbytes = 0;
    if (!an_size_mul(count, size, &nbytes) || !an_size_add(nbytes, sizeof(block_head), &nbytes)) return Z_NULL;
    block_head *head = an_mem_alloc(user, nbytes);
    if (!head) return Z_NULL;
    head->nbytes = nbytes;
    return head + 1;
}

static void gzip_free(voidpf user, voidpf ptr)
{
    if (!ptr) return;
    block_head *head = (block_head *)ptr - 1;
    an_mem_free(user, head, head->nbytes);
}

an_status an_gzip_open(an_stream *s)
{
    an_gzip *g = an_mem_zalloc(s->ctx, sizeof *g);
    if (!g) return AN_ERR_NOMEM;
    g->z.zalloc = gzip_alloc;
    g->z.zfree = gzip_free;
    g->z.opaque = s->ctx;
    g->in_member = true;
    if (inflateInit2(&g->z, MAX_WBITS + 16) != Z_OK) { /* + 16: gzip and nothing else */
        an_mem_free(s->ctx, g, sizeof *g);
        return an_fail(s->ctx, AN_ERR_NOMEM, "%s: out of memory for inflating", s->name);
    }
    s->gzip = g;
    return AN_OK;
}

void an_gzip_close(an_stream *s)
{
    if (!s->gzip) return;
    inflateEnd(&s->gzip->z);
    an_mem_free(s->ctx, s->gzip, sizeof *s->gzip);
    s->gzip = NULL;
}

static unsigned long long byte_at(const an_stream *s)
{
    return (unsigned long long)(s->pos - s->gzip->z.avail_in);
}

static an_status refill(an_stream *s)
{
    an_gzip *g = s->gzip;
    size_t got = 0;
    const an_status st = an_stream_read_raw(s, g->in, sizeof g->in, &got);
    g->z.next_in = g->in;
    g->z.avail_in = (uInt)got;
    return st;
}

/* Between members: another one starts, or the file ends, or it is not gzip any more. */
static an_status next_member(an_stream *s, bool *ended)
{
    an_gzip *g = s->gzip;
    if (g->z.avail_in == 0) {
        const an_status st = refill(s);
        if (st) return st;
    }
    *ended = g->z.avail_in == 0;
    if (*ended) return AN_OK;
    if (g->z.next_in[0] != 0x1f) {
        return an_fail(s->ctx, AN_ERR_FORMAT, "%s: something follows the gzip data at byte %llu", s->name, byte_at(s));
    }
    inflateReset(&g->z);
    g->in_member = true;
    return AN_OK;
}

static an_status corrupt(an_stream *s, int code)
{
    const char *why = s->gzip->z.msg ? s->gzip->z.msg : "no reason given";
    if (code == Z_MEM_ERROR) return an_fail(s->ctx, AN_ERR_NOMEM, "%s: out of memory for inflating", s->name);
    return an_fail(s->ctx, AN_ERR_FORMAT, "%s: the gzip data is corrupt at byte %llu (%s); fetch the file again", s->name,
                   byte_at(s), why);
}

an_status an_gzip_read(an_stream *s, void *dst, size_t nbytes, size_t *got)
{
    an_gzip *g = s->gzip;
    size_t total = 0;
    bool ended = false;
    an_status st = AN_OK;
    while (total < nbytes) {
        if (!g->in_member) {
            st = next_member(s, &ended);
            if (st) return st;
            if (ended) break;
        }
        if (g->z.avail_in == 0) {
            st = refill(s);
            if (st) return st;
            if (g->z.avail_in == 0) {
                return an_fail(s->ctx, AN_ERR_FORMAT,
                               "%s: is truncated: it ends at byte %llu in the middle of its gzip data; fetch the file again",
                               s->name, byte_at(s));
            }
        }
        const uInt room = nbytes - total < UINT_MAX ? (uInt)(nbytes - total) : UINT_MAX;
        g->z.next_out = (Bytef *)dst + total;
        g->z.avail_out = room;
        const int code = inflate(&g->z, Z_NO_FLUSH);
        total += room - g->z.avail_out;
        if (code == Z_STREAM_END)
            g->in_member = false;
        else if (code != Z_OK && !(code == Z_BUF_ERROR && g->z.avail_in == 0))
            return corrupt(s, code);
    }
    *got = total;
    return AN_OK;
}

#endif
