/* blobs.c - see blobs.h. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include "backend/webgpu/blobs.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_MAX_HERE = GPU_BLOBS_PATH_MAX + 64, FILES_MAX = 4096, PIECE = 4096 };
static const uint64_t VALUE_MAX = 64 << 20;

typedef struct header {
    char magic[8];
    uint64_t key_nbytes, value_nbytes;
    an_key sum; /* of key, then value */
} header;
static const char MAGIC[8] = {'A', 'N', 'B', 'L', 'O', 'B', '1', '\n'};

static an_key sum_of(const void *key, size_t key_nbytes, const void *value, size_t value_nbytes)
{
    const an_key v = an_key_of(value, value_nbytes);
    return an_key_mix(an_key_mix(an_key_of(key, key_nbytes), v.lo), v.hi);
}

static bool path_of(const gpu_blobs *b, const void *key, size_t key_nbytes, char *path)
{
    const an_key k = an_key_of(key, key_nbytes);
    const int n = snprintf(path, PATH_MAX_HERE, "%s/%016llx%016llx.blob", b->folder, (unsigned long long)k.hi, (unsigned long long)k.lo);
    return b->folder[0] && n > 0 && n < PATH_MAX_HERE;
}

/* The file is at its key: equal bytes follow. */
static bool is_key(FILE *f, const unsigned char *key, size_t nbytes)
{
    unsigned char piece[PIECE];
    for (size_t at = 0; at < nbytes;) {
        const size_t n = nbytes - at < sizeof piece ? nbytes - at : sizeof piece;
        if (fread(piece, 1, n, f) != n || memcmp(piece, key + at, n) != 0) return false;
        at += n;
    }
    return true;
}

size_t gpu_blobs_load(const void *key, size_t key_nbytes, void *value, size_t value_nbytes, void *user)
{
    char path[PATH_MAX_HERE];
    header h;
    size_t got = 0;
    if (!path_of(user, key, key_nbytes, path)) return 0;
    FILE *f = fopen(path, "rb");
    if (!f) return 0;
    if (fread(&h, sizeof h, 1, f) == 1 && memcmp(h.magic, MAGIC, sizeof MAGIC) == 0 && h.key_nbytes == key_nbytes &&
        h.value_nbytes <= VALUE_MAX && is_key(f, key, key_nbytes)) {
        const size_t n = (size_t)h.value_nbytes;
        if (!value)
            got = n;
        else if (n <= value_nbytes && fread(value, 1, n, f) == n && an_key_eq(sum_of(key, key_nbytes, value, n), h.sum))
            got = n;
    }
    (void)fclose(f);
    if (!got) (void)unlink(path); /* torn, foreign, or another key of the same hash: made again */
    return got;
}

void gpu_blobs_store(const void *key, size_t key_nbytes, const void *value, size_t value_nbytes, void *user)
{
    char path[PATH_MAX_HERE], beside[PATH_MAX_HERE + 8];
    header h = {.key_nbytes = key_nbytes, .value_nbytes = value_nbytes, .sum = sum_of(key, key_nbytes, value, value_nbytes)};
    if (value_nbytes > VALUE_MAX || !path_of(user, key, key_nbytes, path)) return;
    memcpy(h.magic, MAGIC, sizeof MAGIC);
    if (snprintf(beside, sizeof beside, "%s.XXXXXX", path) >= (int)sizeof beside) return;
    const int fd = mkstemp(beside);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "wb");
    if (!f) {
        if (fd >= 0) (void)close(fd);
        return;
    }
    bool ok = fwrite(&h, sizeof h, 1, f) == 1 && fwrite(key, 1, key_nbytes, f) == key_nbytes &&
              fwrite(value, 1, value_nbytes, f) == value_nbytes && fflush(f) == 0 && fsync(fd) == 0;
    ok = fclose(f) == 0 && ok;
    if (!ok || rename(beside, path) != 0) (void)unlink(beside);
}

/* --- the folder ------------------------------------------------------------------------------------ */

typedef struct file {
    char name[64];
    int64_t time;
    uint64_t nbytes;
} file;

static int by_time(const void *a, const void *b)
{
    const file *x = a, *y = b;
    return x->time < y->time ? -1 : x->time > y->time ? 1 : strcmp(x->name, y->name);
}

static an_status prune(an_ctx *ctx, const char *folder, uint64_t nbytes_max)
{
    const size_t size = FILES_MAX * sizeof(file);
    char path[PATH_MAX_HERE + 256];
    uint64_t total = 0;
    size_t n = 0;
    DIR *d = opendir(folder);
    file *files = d ? an_mem_alloc(ctx, size) : NULL;
    for (const struct dirent *e = files ? readdir(d) : NULL; e && n < FILES_MAX; e = readdir(d)) {
        struct stat s;
        if (e->d_name[0] == '.' || strlen(e->d_name) >= sizeof files->name || !strstr(e->d_name, ".blob")) continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (stat(path, &s)) continue;
        snprintf(files[n].name, sizeof files[n].name, "%s", e->d_name);
        files[n].time = (int64_t)s.st_mtime;
        files[n].nbytes = (uint64_t)s.st_size;
        total += files[n++].nbytes;
    }
    if (d) (void)closedir(d);
    if (total > nbytes_max || n == FILES_MAX) {
        qsort(files, n, sizeof *files, by_time);
        for (size_t i = 0; i < n && (total > nbytes_max / 2 || n - i > FILES_MAX / 2); i++) {
            snprintf(path, sizeof path, "%s/%s", folder, files[i].name);
            if (unlink(path) == 0) total -= files[i].nbytes;
        }
    }
    const an_status st = d && !files ? AN_ERR_NOMEM : AN_OK;
    an_mem_free(ctx, files, size);
    return st;
}

static bool make_folder(const char *folder)
{
    char part[GPU_BLOBS_PATH_MAX];
    for (size_t i = 1; folder[i]; i++) {
        if (folder[i] != '/') continue;
        snprintf(part, sizeof part, "%.*s", (int)i, folder);
        (void)mkdir(part, 0777);
    }
    (void)mkdir(folder, 0777);
    return access(folder, W_OK) == 0;
}

an_status gpu_blobs_open(an_ctx *ctx, gpu_blobs *b, const char *folder, uint64_t nbytes_max)
{
    b->folder[0] = '\0';
    if (strlen(folder) >= sizeof b->folder || !make_folder(folder)) return AN_OK;
    snprintf(b->folder, sizeof b->folder, "%s", folder);
    return prune(ctx, folder, nbytes_max);
}
