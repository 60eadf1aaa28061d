/* atomic.c - writing a file so that its name never stands for half of it: write beside, fsync, rename, fsync the folder. */
#define _POSIX_C_SOURCE 200809L /* mkstemp, fchmod */
#include <anneal/io.h>

#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct an_atomic_file {
    an_ctx *ctx;
    int fd;
    char *path, *temp; /* temp is path + ".XXXXXX", made unique by mkstemp */
    size_t path_nbytes, temp_nbytes;
};

static void destroy(an_atomic_file *f)
{
    an_ctx *ctx = f->ctx;
    if (f->fd >= 0) close(f->fd);
    an_mem_free(ctx, f->path, f->path_nbytes);
    an_mem_free(ctx, f->temp, f->temp_nbytes);
    an_mem_free(ctx, f, sizeof *f);
}

an_status an_atomic_open(an_ctx *ctx, const char *path, an_atomic_file **out)
{
    static const char suffix[] = ".XXXXXX";
    an_atomic_file *f = an_mem_zalloc(ctx, sizeof *f);
    if (!f) return AN_ERR_NOMEM;
    f->ctx = ctx;
    f->fd = -1;
    f->path_nbytes = strlen(path) + 1;
    f->temp_nbytes = f->path_nbytes + sizeof suffix - 1;
    f->path = an_mem_alloc(ctx, f->path_nbytes);
    f->temp = an_mem_alloc(ctx, f->temp_nbytes);
    if (!f->path || !f->temp) {
        destroy(f);
        return AN_ERR_NOMEM;
    }
    memcpy(f->path, path, f->path_nbytes);
    snprintf(f->temp, f->temp_nbytes, "%s%s", path, suffix);
    f->fd = mkstemp(f->temp);
    if (f->fd < 0) {
        const an_status st = an_fail(ctx, AN_ERR_IO, "%s: cannot create a file there: %s", path, strerror(errno));
        destroy(f);
        return st;
    }
    const mode_t mask = umask(0); /* mkstemp makes it private; give it the mode a plain open would */
    umask(mask);
    (void)fchmod(f->fd, 0666 & ~mask);
    *out = f;
    return AN_OK;
}

an_status an_atomic_write(an_atomic_file *f, const void *data, size_t nbytes)
{
    const uint8_t *p = data;
    while (nbytes > 0) {
        const ssize_t n = write(f->fd, p, nbytes);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return an_fail(f->ctx, AN_ERR_IO, "%s: cannot write: %s", f->path, strerror(errno));
        p += n;
        nbytes -= (size_t)n;
    }
    return AN_OK;
}

/* The rename is on the disk only when the folder is. Some file systems cannot sync a folder: no error then. */
static void sync_folder(const char *path)
{
    char folder[4096];
    const char *slash = strrchr(path, '/');
    const size_t n = slash ? (size_t)(slash - path) : 0;
    if (n >= sizeof folder) return;
    if (slash)
        snprintf(folder, sizeof folder, "%.*s", n ? (int)n : 1, path);
    else
        snprintf(folder, sizeof folder, ".");
    const int fd = open(folder, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    (void)fsync(fd);
    close(fd);
}

an_status an_atomic_commit(an_atomic_file *f)
{
    an_status st = AN_OK;
    const int fd = f->fd;
    f->fd = -1;
    int failed = fsync(fd) != 0 ? errno : 0;
    if (close(fd) != 0 && !failed) failed = errno;
    if (failed) {
        st = an_fail(f->ctx, AN_ERR_IO, "%s: cannot write to the disk: %s", f->path, strerror(failed));
    } else if (rename(f->temp, f->path) != 0) {
        st = an_fail(f->ctx, AN_ERR_IO, "%s: cannot put the file in place: %s", f->path, strerror(errno));
    }
    if (st)
        unlink(f->temp);
    else
        sync_folder(f->path);
    destroy(f);
    return st;
}

void an_atomic_abort(an_atomic_file *f)
{
    if (!f) return;
    unlink(f->temp);
    destroy(f);
}

an_status an_file_write(an_ctx *ctx, const char *path, const void *data, size_t nbytes)
{
    an_atomic_file *f = NULL;
    an_status st = an_atomic_open(ctx, path, &f);
    if (st) return st;
    st = an_atomic_write(f, data, nbytes);
    if (st) {
        an_atomic_abort(f);
        return st;
    }
    return an_atomic_commit(f);
}

an_status an_dir_create(an_ctx *ctx, const char *path)
{
    char part[4096];
    const size_t n = strlen(path);
    if (n == 0 || n >= sizeof part) return an_fail(ctx, AN_ERR_ARG, "'%s': not a usable folder name", path);
    memcpy(part, path, n + 1);
    for (size_t i = 1; i <= n; i++) {
        if (part[i] != '/' && part[i] != '\0') continue;
        const char kept = part[i];
        part[i] = '\0';
        struct stat info;
        if (mkdir(part, 0777) != 0 && !(stat(part, &info) == 0 && S_ISDIR(info.st_mode)))
            return an_fail(ctx, AN_ERR_IO, "%s: cannot make the folder: %s", part, strerror(errno));
        part[i] = kept;
    }
    return AN_OK;
}
