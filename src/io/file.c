/* file.c - reading a whole file, with a limit. */
#define _POSIX_C_SOURCE 200809L /* O_CLOEXEC */
#include <anneal/io.h>

#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

void an_bytes_fini(an_bytes *b)
{
    if (b->ctx) an_mem_free(b->ctx, b->data, b->nbytes + 1);
    *b = (an_bytes){0};
}

static an_status read_all(an_ctx *ctx, const char *path, int fd, uint8_t *dst, size_t nbytes)
{
    size_t total = 0;
    while (total < nbytes) {
        const ssize_t n = read(fd, dst + total, nbytes - total);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return an_fail(ctx, AN_ERR_IO, "%s: cannot read at byte %zu: %s", path, total, strerror(errno));
        if (n == 0) return an_fail(ctx, AN_ERR_IO, "%s: ended at byte %zu of %zu while it was read", path, total, nbytes);
        total += (size_t)n;
    }
    return AN_OK;
}

an_status an_file_read(an_ctx *ctx, const char *path, size_t nbytes_max, an_bytes *out)
{
    struct stat info;
    an_bytes b = {0};
    an_status st = AN_OK;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return an_fail(ctx, AN_ERR_IO, "%s: cannot open: %s", path, strerror(errno));
    if (fstat(fd, &info) != 0) {
        st = an_fail(ctx, AN_ERR_IO, "%s: cannot read its size: %s", path, strerror(errno));
        goto done;
    }
    if (!S_ISREG(info.st_mode)) {
        st = an_fail(ctx, AN_ERR_IO, "%s: is not a file", path);
        goto done;
    }
    if ((uint64_t)info.st_size > nbytes_max || (uint64_t)info.st_size >= SIZE_MAX) {
        st = an_fail(ctx, AN_ERR_LIMIT, "%s: has %lld bytes, more than the %zu allowed", path, (long long)info.st_size,
                     nbytes_max);
        goto done;
    }
    const size_t nbytes = (size_t)info.st_size;
    b = (an_bytes){.ctx = ctx, .data = an_mem_alloc(ctx, nbytes + 1), .nbytes = nbytes};
    if (!b.data) {
        b = (an_bytes){0};
        st = AN_ERR_NOMEM;
        goto done;
    }
    st = read_all(ctx, path, fd, b.data, nbytes);
    if (st) goto done;
    b.data[nbytes] = 0;
    *out = b;
    b = (an_bytes){0};
done:
    an_bytes_fini(&b);
    close(fd);
    return st;
}
