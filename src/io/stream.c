/* stream.c - raw bytes from a file or memory, and the choice between plain and gzip. */
#define _POSIX_C_SOURCE 200809L /* O_CLOEXEC */
#include "io/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READ_MAX = 1 << 30 }; /* a single read(2) takes less than 2^31 bytes */

static an_status set_name(an_stream *s, const char *name)
{
    const size_t n = strlen(name) + 1;
    s->name = an_mem_alloc(s->ctx, n);
    if (!s->name) return AN_ERR_NOMEM;
    memcpy(s->name, name, n);
    return AN_OK;
}

/* Gzip is known by its first two bytes, which no plain format read here starts with. */
static an_status sniff(an_stream *s)
{
    uint8_t magic[2] = {0};
    size_t got = 0;
    an_status st = an_stream_read_raw(s, magic, sizeof magic, &got);
    if (st) return st;
    if (s->fd >= 0 && lseek(s->fd, 0, SEEK_SET) != 0)
        return an_fail(s->ctx, AN_ERR_IO, "%s: cannot seek: %s", s->name, strerror(errno));
    s->pos = 0;
    if (got == 2 && magic[0] == 0x1f && magic[1] == 0x8b) return an_gzip_open(s);
    return AN_OK;
}

static an_status open_file(an_stream *s, const char *path)
{
    struct stat info;
    s->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (s->fd < 0) return an_fail(s->ctx, AN_ERR_IO, "%s: cannot open: %s", path, strerror(errno));
    if (fstat(s->fd, &info) != 0)
        return an_fail(s->ctx, AN_ERR_IO, "%s: cannot read its size: %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode)) {
        return an_fail(s->ctx, AN_ERR_IO, "%s: is %s, not a file", path,
                       S_ISDIR(info.st_mode) ? "a directory" : "a device or pipe");
    }
    s->nbytes = (uint64_t)info.st_size;
    return AN_OK;
}

an_status an_stream_open(an_ctx *ctx, const char *path, an_stream *s)
{
    an_stream made = {.ctx = ctx, .fd = -1};
    an_status st = set_name(&made, path);
    if (st) goto done;
    st = open_file(&made, path);
    if (st) goto done;
    st = sniff(&made);
    if (st) goto done;
    *s = made;
    made = (an_stream){0};
done:
    an_stream_close(&made);
    return st;
}

an_status an_stream_open_mem(an_ctx *ctx, const char *name, const void *data, size_t nbytes, an_stream *s)
{
    an_stream made = {.ctx = ctx, .fd = -1, .mem = data, .nbytes = nbytes};
    an_status st = set_name(&made, name);
    if (st) goto done;
    st = sniff(&made);
    if (st) goto done;
    *s = made;
    made = (an_stream){0};
done:
    an_stream_close(&made);
    return st;
}

void an_stream_close(an_stream *s)
{
    if (!s->ctx) return;
    an_gzip_close(s);
    if (s->fd >= 0) close(s->fd);
    if (s->name) an_mem_free(s->ctx, s->name, strlen(s->name) + 1);
    *s = (an_stream){0};
}

an_status an_stream_read_raw(an_stream *s, void *dst, size_t nbytes, size_t *got)
{
    uint8_t *p = dst;
    size_t total = 0;
    if (s->fd < 0) {
        const uint64_t left = s->nbytes - s->pos;
        total = left < nbytes ? (size_t)left : nbytes;
        if (total > 0) memcpy(p, s->mem + s->pos, total);
        s->pos += total;
        *got = total;
        return AN_OK;
    }
    while (total < nbytes) {
        const size_t want = nbytes - total < READ_MAX ? nbytes - total : READ_MAX;
        const ssize_t n = read(s->fd, p + total, want);
        if (n == 0) break;
        if (n < 0) {
            if (errno == EINTR) continue;
            return an_fail(s->ctx, AN_ERR_IO, "%s: cannot read at byte %llu: %s", s->name,
                           (unsigned long long)s->pos, strerror(errno));
        }
        total += (size_t)n;
        s->pos += (uint64_t)n;
    }
    *got = total;
    return AN_OK;
}

an_status an_stream_read(an_stream *s, void *dst, size_t nbytes, size_t *got)
{
    return s->gzip ? an_gzip_read(s, dst, nbytes, got) : an_stream_read_raw(s, dst, nbytes, got);
}

uint64_t an_stream_nbytes_bound(const an_stream *s)
{
    if (!s->gzip) return s->nbytes;
    return s->nbytes > UINT64_MAX / 1032 ? UINT64_MAX : s->nbytes * 1032;
}
