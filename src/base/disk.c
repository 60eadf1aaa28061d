/* disk.c - see disk.h. A pack: a header, a table of rows, the values; in this machine's byte order, which the header
 * tells. Its name is the checksum of its table. */
#define _POSIX_C_SOURCE 200809L /* openat, futimens, mkstemp */
#include "base/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    NAME_LEN = 32 + 5, /* digits and .pack */
    PATH_SIZE = 4096,
    YOUNG_SECONDS = 3600,      /* a pack used within that is not marked again */
    LEFTOVER_SECONDS = 3600,   /* a file being written that is older was left by a process that died */
};
static const char pack_suffix[] = ".pack", temp_prefix[] = ".new-";

typedef struct pack_header {
    char magic[8];
    uint32_t order, nrows;
    an_key sum; /* of the rows */
} pack_header;
static const char pack_magic[8] = {'a', 'n', 'n', 'p', 'a', 'c', 'k', '1'};
enum { ORDER = 0x01020304 };

typedef struct pack_row {
    an_key key, sum;
    uint64_t offset, nbytes;
} pack_row;

typedef struct pack {
    char name[NAME_LEN + 1];
    uint64_t nbytes;
    int64_t used; /* seconds: its modification time */
    bool gone;
} pack;

typedef struct place {
    pack_row row;
    size_t pack;
} place;

struct an_disk {
    an_ctx *ctx;
    char folder[PATH_SIZE];
    uint64_t nbytes_max;
    bool warned, off; /* off: the folder cannot be trusted */
    int64_t seen_s, seen_ns; /* modification of the folder at the last refresh */
    AN_VEC(pack) packs;
    AN_VEC(place) places;
    uint32_t *slots; /* open addressing over places: 1 + index; ncap is a power of two */
    size_t ncap;
    int fd; /* of packs[fd_pack], or -1 */
    size_t fd_pack;
    uint64_t room; /* bytes and packs that may be put before the folder is counted again */
    size_t room_packs;
};

bool an_cache_folder(char *path, size_t size)
{
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    const bool by_xdg = xdg && xdg[0] == '/', by_home = home && home[0] == '/'; /* relative ones are to be ignored, says the standard */
    if (!by_xdg && !by_home) return false;
    const int n = by_xdg ? snprintf(path, size, "%s/anneal", xdg) : snprintf(path, size, "%s/.cache/anneal", home);
    return n > 0 && (size_t)n < size;
}

static void warn_once(an_disk *s, const char *what, const char *name)
{
    if (!s->warned) an_warn(s->ctx, "cache: %s/%s %s", s->folder, name, what);
    s->warned = true;
}

static bool path_of(const an_disk *s, const char *name, char *path)
{
    const int n = snprintf(path, PATH_SIZE, "%s/%s", s->folder, name);
    return n > 0 && n < PATH_SIZE;
}

static void drop_fd(an_disk *s)
{
    if (s->fd >= 0) close(s->fd);
    s->fd = -1;
}

an_status an_disk_open(an_ctx *ctx, const char *folder, uint64_t nbytes_max, an_disk **out)
{
    an_disk *s = an_mem_zalloc(ctx, sizeof *s);
    if (!s) return AN_ERR_NOMEM;
    *s = (an_disk){.ctx = ctx, .nbytes_max = nbytes_max, .fd = -1};
    const int n = snprintf(s->folder, sizeof s->folder, "%s", folder);
    s->off = n < 0 || (size_t)n >= sizeof s->folder - NAME_LEN - 2;
    *out = s;
    return AN_OK;
}

void an_disk_close(an_disk *s)
{
    if (!s) return;
    drop_fd(s);
    an_vec_fini(s->ctx, &s->packs);
    an_vec_fini(s->ctx, &s->places);
    an_mem_free(s->ctx, s->slots, s->ncap * sizeof *s->slots);
    an_mem_free(s->ctx, s, sizeof *s);
}

/* --- the index --------------------------------------------------------------------------------------------------- */

static uint32_t *slot_of(an_disk *s, an_key key)
{
    size_t i = (size_t)key.lo & (s->ncap - 1);
    while (s->slots[i] && !an_key_eq(s->places.data[s->slots[i] - 1].row.key, key)) i = (i + 1) & (s->ncap - 1);
    return &s->slots[i];
}

static an_status grow_index(an_disk *s)
{
    const size_t old = s->ncap, cap = old ? 2 * old : 256;
    uint32_t *slots = an_mem_zalloc(s->ctx, cap * sizeof *slots);
    if (!slots) return AN_ERR_NOMEM;
    an_mem_free(s->ctx, s->slots, old * sizeof *slots);
    s->slots = slots;
    s->ncap = cap;
    for (size_t i = 0; i < s->places.len; i++) *slot_of(s, s->places.data[i].row.key) = (uint32_t)(i + 1);
    return AN_OK;
}

static an_status add_place(an_disk *s, const pack_row *row, size_t at)
{
    const place p = {*row, at};
    if (2 * (s->places.len + 1) > s->ncap && grow_index(s)) return AN_ERR_NOMEM;
    uint32_t *slot = slot_of(s, row->key);
    if (*slot) { /* another process kept it too */
        place *old = &s->places.data[*slot - 1];
        if (s->packs.data[old->pack].gone) *old = p;
        return AN_OK;
    }
    if (!an_vec_push(s->ctx, &s->places, p)) return AN_ERR_NOMEM;
    *slot = (uint32_t)s->places.len;
    return AN_OK;
}

static place *find(an_disk *s, an_key key)
{
    if (!s->ncap) return NULL;
    const uint32_t at = *slot_of(s, key);
    if (!at || s->packs.data[s->places.data[at - 1].pack].gone) return NULL;
    return &s->places.data[at - 1];
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

static bool read_all(int fd, void *data, size_t nbytes, uint64_t offset)
{
    unsigned char *p = data;
    while (nbytes > 0) {
        const ssize_t n = pread(fd, p, nbytes, (off_t)offset);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        p += n;
        nbytes -= (size_t)n;
        offset += (uint64_t)n;
    }
    return true;
}

static void delete_pack(an_disk *s, pack *p)
{
    char path[PATH_SIZE];
    if (s->fd >= 0 && &s->packs.data[s->fd_pack] == p) drop_fd(s);
    if (path_of(s, p->name, path)) (void)unlink(path);
    p->gone = true;
}

static void reject(an_disk *s, pack *p)
{
    warn_once(s, "is damaged or not ours; it was deleted, and what it held is made again", p->name);
    delete_pack(s, p);
}

/* The table of an open pack, checked; false if it is none. */
static bool check_header(const pack *p, int fd, pack_header *h)
{
    return p->nbytes >= sizeof *h && read_all(fd, h, sizeof *h, 0) && memcmp(h->magic, pack_magic, sizeof pack_magic) == 0 &&
           h->order == ORDER && h->nrows > 0 && h->nrows <= AN_DISK_ITEMS_MAX &&
           sizeof *h + h->nrows * sizeof(pack_row) <= p->nbytes;
}

static bool check_rows(const pack *p, const pack_header *h, const pack_row *rows)
{
    const uint64_t first = sizeof *h + h->nrows * sizeof *rows;
    if (!an_key_eq(an_key_of(rows, h->nrows * sizeof *rows), h->sum)) return false;
    for (uint32_t i = 0; i < h->nrows; i++)
        if (rows[i].offset < first || rows[i].offset > p->nbytes || rows[i].nbytes > p->nbytes - rows[i].offset) return false;
    return true;
}

/* A pack that we have not seen: into the index. */
static an_status load_pack(an_disk *s, const char *name)
{
    char path[PATH_SIZE];
    struct stat info;
    pack_header h;
    an_status st = AN_OK;
    if (!path_of(s, name, path)) return AN_OK;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        if (fd >= 0) close(fd);
        return AN_OK; /* deleted meanwhile, or no file at all */
    }
    pack p = {.nbytes = (uint64_t)info.st_size, .used = info.st_mtime};
    memcpy(p.name, name, NAME_LEN + 1);
    pack_row *rows = NULL;
    const bool whole = check_header(&p, fd, &h);
    const size_t nbytes = whole ? h.nrows * sizeof *rows : 0;
    if (whole && !(rows = an_mem_alloc(s->ctx, nbytes))) st = AN_ERR_NOMEM;
    if (!st && !an_vec_push(s->ctx, &s->packs, p)) st = AN_ERR_NOMEM;
    if (!st && (!whole || !read_all(fd, rows, nbytes, sizeof h) || !check_rows(&p, &h, rows)))
        reject(s, &s->packs.data[s->packs.len - 1]);
    else
        for (uint32_t i = 0; i < h.nrows && !st; i++) st = add_place(s, &rows[i], s->packs.len - 1);
    close(fd);
    an_mem_free(s->ctx, rows, nbytes);
    return st;
}

static bool is_pack_name(const char *name)
{
    return strlen(name) == NAME_LEN && strspn(name, "0123456789abcdef") == 32 && strcmp(name + 32, pack_suffix) == 0;
}

static bool is_known(const an_disk *s, const char *name)
{
    for (size_t i = 0; i < s->packs.len; i++)
        if (!s->packs.data[i].gone && strcmp(s->packs.data[i].name, name) == 0) return true;
    return false;
}

/* Only a folder that nobody else can write into is trusted: what is in it runs. */
static bool folder_is_ours(an_disk *s, struct stat *info)
{
    if (s->off || stat(s->folder, info) != 0) return false;
    if (S_ISDIR(info->st_mode) && info->st_uid == geteuid() && !(info->st_mode & (S_IWGRP | S_IWOTH))) return true;
    warn_once(s, "is not a folder that only you can write; nothing is kept there", "");
    s->off = true;
    return false;
}

/* A pack of ours goes into the index at once, so that the folder need not be read again for it unless others wrote, too. */
static an_status note_own(an_disk *s, const pack_row *rows, size_t n, const char *name, uint64_t nbytes, const struct stat *before)
{
    struct stat info;
    pack p = {.nbytes = nbytes};
    memcpy(p.name, name, NAME_LEN + 1);
    if (before->st_mtim.tv_sec != s->seen_s || before->st_mtim.tv_nsec != s->seen_ns || !folder_is_ours(s, &info)) return AN_OK;
    an_status st = an_vec_push(s->ctx, &s->packs, p) ? AN_OK : AN_ERR_NOMEM;
    for (size_t i = 0; i < n && !st; i++) st = add_place(s, &rows[i], s->packs.len - 1);
    s->seen_s = info.st_mtim.tv_sec;
    s->seen_ns = info.st_mtim.tv_nsec;
    return st;
}

an_status an_disk_refresh(an_disk *s)
{
    struct stat info;
    an_status st = AN_OK;
    if (!folder_is_ours(s, &info)) return AN_OK;
    if (info.st_mtim.tv_sec == s->seen_s && info.st_mtim.tv_nsec == s->seen_ns) return AN_OK;
    DIR *d = opendir(s->folder);
    if (!d) return AN_OK;
    for (const struct dirent *e = readdir(d); e && !st; e = readdir(d))
        if (is_pack_name(e->d_name) && !is_known(s, e->d_name)) st = load_pack(s, e->d_name);
    closedir(d);
    s->seen_s = info.st_mtim.tv_sec;
    s->seen_ns = info.st_mtim.tv_nsec;
    return st;
}

/* Opens packs[at], unless it is open; a pack in use is young. */
static bool open_pack(an_disk *s, size_t at)
{
    char path[PATH_SIZE];
    pack *p = &s->packs.data[at];
    struct stat info;
    if (s->fd >= 0 && s->fd_pack == at) return true;
    drop_fd(s);
    s->fd = path_of(s, p->name, path) ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
    if (s->fd < 0 || fstat(s->fd, &info) != 0) {
        drop_fd(s);
        p->gone = true;
        return false;
    }
    s->fd_pack = at;
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) == 0 && now.tv_sec - info.st_mtime > YOUNG_SECONDS) (void)futimens(s->fd, NULL);
    return true;
}

an_status an_disk_get(an_disk *s, an_key key, void **data, size_t *nbytes)
{
    const place *p = find(s, key);
    *data = NULL;
    *nbytes = 0;
    if (!p || p->row.nbytes > SIZE_MAX || !open_pack(s, p->pack)) return AN_OK;
    const size_t n = (size_t)p->row.nbytes;
    void *value = an_mem_alloc(s->ctx, n);
    if (!value) return AN_ERR_NOMEM;
    if (!read_all(s->fd, value, n, p->row.offset) || !an_key_eq(an_key_of(value, n), p->row.sum)) {
        an_mem_free(s->ctx, value, n);
        reject(s, &s->packs.data[p->pack]);
        return AN_OK;
    }
    *data = value;
    *nbytes = n;
    return AN_OK;
}

void an_disk_reject(an_disk *s, an_key key)
{
    const place *p = find(s, key);
    if (p) reject(s, &s->packs.data[p->pack]);
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

static bool write_all(int fd, const void *data, size_t nbytes)
{
    const unsigned char *p = data;
    while (nbytes > 0) {
        const ssize_t n = write(fd, p, nbytes);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return false;
        p += n;
        nbytes -= (size_t)n;
    }
    return true;
}

static bool make_folder(const char *folder)
{
    char part[PATH_SIZE];
    const size_t n = strlen(folder);
    memcpy(part, folder, n + 1);
    for (size_t i = 1; i <= n; i++) {
        if (part[i] != '/' && part[i] != '\0') continue;
        const char kept = part[i];
        part[i] = '\0';
        if (mkdir(part, i == n ? 0700 : 0777) != 0 && errno != EEXIST) return false;
        part[i] = kept;
    }
    return true;
}

static bool write_pack(an_disk *s, const pack_header *h, const pack_row *rows, const an_disk_item *items, const char *name)
{
    char temp[PATH_SIZE], path[PATH_SIZE], temp_name[sizeof temp_prefix + 6];
    (void)snprintf(temp_name, sizeof temp_name, "%sXXXXXX", temp_prefix);
    if (!path_of(s, temp_name, temp) || !path_of(s, name, path)) return false;
    const int fd = mkstemp(temp);
    if (fd < 0) return false;
    bool good = write_all(fd, h, sizeof *h) && write_all(fd, rows, h->nrows * sizeof *rows);
    for (uint32_t i = 0; i < h->nrows && good; i++) good = write_all(fd, items[i].data, items[i].nbytes);
    good = good && fsync(fd) == 0;
    good = close(fd) == 0 && good;
    good = good && rename(temp, path) == 0;
    if (!good) {
        const int why = errno;
        (void)unlink(temp);
        errno = why;
    }
    return good;
}

static int by_age(const void *a, const void *b)
{
    const pack *x = a, *y = b;
    return (x->used > y->used) - (x->used < y->used);
}

/* Removes what a process left that died in the middle of a pack. */
static void remove_leftover(an_disk *s, const char *name, int64_t now)
{
    char path[PATH_SIZE];
    struct stat info;
    if (strncmp(name, temp_prefix, sizeof temp_prefix - 1) != 0 || !path_of(s, name, path)) return;
    if (lstat(path, &info) == 0 && S_ISREG(info.st_mode) && now - info.st_mtime > LEFTOVER_SECONDS) (void)unlink(path);
}

static void forget(an_disk *s, const char *name)
{
    for (size_t i = 0; i < s->packs.len; i++)
        if (strcmp(s->packs.data[i].name, name) == 0) s->packs.data[i].gone = true;
}

/* Down to three quarters of the limit, the oldest first. Counting a full folder takes longer than a put: it is done when a quarter
 * of what was free is used, so that processes that share the folder stay near the limit. */
static an_status evict(an_disk *s, uint64_t nbytes)
{
    AN_VEC(pack) all = {0};
    uint64_t total = 0;
    struct timespec now = {0};
    an_status st = AN_OK;
    if (s->room_packs > 0 && s->room >= nbytes) {
        s->room_packs--;
        s->room -= nbytes;
        return AN_OK;
    }
    (void)clock_gettime(CLOCK_REALTIME, &now);
    DIR *d = opendir(s->folder);
    if (!d) return AN_OK;
    for (const struct dirent *e = readdir(d); e && !st; e = readdir(d)) {
        char path[PATH_SIZE];
        struct stat info;
        remove_leftover(s, e->d_name, now.tv_sec);
        if (!is_pack_name(e->d_name) || !path_of(s, e->d_name, path) || lstat(path, &info) != 0) continue;
        pack p = {.nbytes = (uint64_t)info.st_size, .used = info.st_mtime};
        memcpy(p.name, e->d_name, NAME_LEN + 1);
        if (!an_vec_push(s->ctx, &all, p)) st = AN_ERR_NOMEM;
        total += p.nbytes;
    }
    closedir(d);
    if (all.len) qsort(all.data, all.len, sizeof *all.data, by_age);
    const bool over = total > s->nbytes_max || all.len > AN_DISK_PACKS_MAX;
    size_t left = all.len;
    for (size_t i = 0; i + 1 < all.len && over && !st; i++) {
        if (total <= s->nbytes_max / 4 * 3 && left <= AN_DISK_PACKS_MAX / 4 * 3) break;
        total -= all.data[i].nbytes;
        left--;
        forget(s, all.data[i].name);
        delete_pack(s, &all.data[i]);
    }
    s->room = total < s->nbytes_max ? (s->nbytes_max - total) / 4 : 0;
    s->room_packs = left < AN_DISK_PACKS_MAX ? (AN_DISK_PACKS_MAX - left) / 4 : 0;
    an_vec_fini(s->ctx, &all);
    return st;
}

an_status an_disk_put(an_disk *s, const an_disk_item *items, size_t n)
{
    struct stat info;
    char name[NAME_LEN + 1];
    if (n == 0 || n > AN_DISK_ITEMS_MAX || s->off) return AN_OK;
    if (!make_folder(s->folder)) {
        warn_once(s, "cannot be made; nothing is kept", "");
        s->off = true;
    }
    if (!folder_is_ours(s, &info)) return AN_OK;
    pack_row *rows = an_mem_zalloc(s->ctx, n * sizeof *rows);
    if (!rows) return AN_ERR_NOMEM;
    uint64_t at = sizeof(pack_header) + n * sizeof *rows;
    for (size_t i = 0; i < n; i++) {
        rows[i] = (pack_row){items[i].key, an_key_of(items[i].data, items[i].nbytes), at, items[i].nbytes};
        at += items[i].nbytes;
    }
    pack_header h = {.order = ORDER, .nrows = (uint32_t)n, .sum = an_key_of(rows, n * sizeof *rows)};
    memcpy(h.magic, pack_magic, sizeof h.magic);
    (void)snprintf(name, sizeof name, "%016llx%016llx%s", (unsigned long long)h.sum.hi, (unsigned long long)h.sum.lo, pack_suffix);
    const bool good = at <= s->nbytes_max && write_pack(s, &h, rows, items, name);
    if (!good && at <= s->nbytes_max) warn_once(s, strerror(errno), name);
    an_status st = good ? note_own(s, rows, n, name, at, &info) : AN_OK;
    an_mem_free(s->ctx, rows, n * sizeof *rows);
    return good && !st ? evict(s, at) : st;
}
