/* winners.c - the winners of searches, in a file.
 *
 *   {"anneal": "beam winners", "version": 1, "winners": {KEY: {"opts": "UPCAST:2048:4", "seconds": S, "first_seconds": S}}}
 *
 * KEY has 32 hexadecimal digits. */
#define _DEFAULT_SOURCE /* flock */
#include "search/search.h"

#include <anneal/io.h>

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

enum { PATH_SIZE = 4096, KEY_SIZE = 33, OPTS_LEN_MAX = 2047, FORMAT = 1 };
static const size_t NBYTES_MAX = (size_t)32 << 20;
static const char kind[] = "beam winners";

struct an_winners {
    an_ctx *ctx;
    char path[PATH_SIZE];
    json_t *all, *fresh; /* objects of KEY; fresh: added since the last save */
    bool warned;
};

static void key_text(an_key key, char text[KEY_SIZE])
{
    (void)snprintf(text, KEY_SIZE, "%016llx%016llx", (unsigned long long)key.hi, (unsigned long long)key.lo);
}

static void warn_once(an_winners *w, const char *what)
{
    if (!w->warned) an_warn(w->ctx, "beam cache: %s %s", w->path, what);
    w->warned = true;
}

static bool is_seconds(const json_t *v)
{
    return json_is_number(v) && isfinite(json_number_value(v)) && json_number_value(v) >= 0;
}

static bool is_winner(const char *key, const json_t *v)
{
    const json_t *opts = json_object_get(v, "opts");
    return strlen(key) == KEY_SIZE - 1 && strspn(key, "0123456789abcdef") == KEY_SIZE - 1 && json_is_string(opts) &&
           json_string_length(opts) <= OPTS_LEN_MAX && strlen(json_string_value(opts)) == json_string_length(opts) &&
           is_seconds(json_object_get(v, "seconds")) && is_seconds(json_object_get(v, "first_seconds"));
}

/* The winners of a file's text, or NULL if it is no such file. Entries that make no sense condemn the file. */
static json_t *parse(const an_bytes *text)
{
    json_error_t error;
    json_t *root = json_loadb((const char *)text->data, text->nbytes, JSON_REJECT_DUPLICATES, &error);
    const json_t *name = json_object_get(root, "anneal"), *version = json_object_get(root, "version");
    json_t *winners = json_object_get(root, "winners");
    bool good = json_is_string(name) && strcmp(json_string_value(name), kind) == 0 && json_is_integer(version) &&
                json_integer_value(version) == FORMAT && json_is_object(winners) && json_object_size(winners) <= AN_WINNERS_MAX;
    for (void *i = good ? json_object_iter(winners) : NULL; i && good; i = json_object_iter_next(winners, i))
        good = is_winner(json_object_iter_key(i), json_object_iter_value(i));
    json_t *out = good ? json_incref(winners) : NULL;
    json_decref(root);
    return out;
}

/* Adds the file's winners to all, those there are already stay. Errors: AN_ERR_NOMEM. */
static an_status read_file(an_winners *w)
{
    an_bytes text = {0};
    if (access(w->path, F_OK) != 0) return AN_OK;
    const an_status held = an_ctx_status(w->ctx);
    const an_status st = an_file_read(w->ctx, w->path, NBYTES_MAX, &text);
    if (st == AN_ERR_NOMEM) return st;
    json_t *winners = st ? NULL : parse(&text);
    if (!held) an_ctx_clear_error(w->ctx);
    an_bytes_fini(&text);
    if (!winners) {
        warn_once(w, "is damaged or of another kind or version; it is ignored, and replaced by what is found from now on");
        return AN_OK;
    }
    const int failed = json_object_update_missing(w->all, winners);
    json_decref(winners);
    return failed ? an_fail(w->ctx, AN_ERR_NOMEM, "out of memory for the beam cache") : AN_OK;
}

an_status an_winners_open(an_ctx *ctx, const char *path, an_winners **out)
{
    an_winners *w = an_mem_zalloc(ctx, sizeof *w);
    if (!w) return AN_ERR_NOMEM;
    w->ctx = ctx;
    w->all = json_object();
    w->fresh = json_object();
    const int n = snprintf(w->path, sizeof w->path, "%s", path ? path : "");
    an_status st = AN_OK;
    if (!w->all || !w->fresh)
        st = an_fail(ctx, AN_ERR_NOMEM, "out of memory for the beam cache");
    else if (n < 0 || (size_t)n >= sizeof w->path - sizeof ".lock")
        st = an_fail(ctx, AN_ERR_ARG, "beam cache: the path is too long: %.80s...", path);
    else if (path)
        st = read_file(w);
    if (st) {
        an_winners_close(w);
        return st;
    }
    *out = w;
    return AN_OK;
}

void an_winners_close(an_winners *w)
{
    if (!w) return;
    json_decref(w->all);
    json_decref(w->fresh);
    an_mem_free(w->ctx, w, sizeof *w);
}

const char *an_winners_find(const an_winners *w, an_key key)
{
    char text[KEY_SIZE];
    key_text(key, text);
    return json_string_value(json_object_get(json_object_get(w->all, text), "opts"));
}

an_status an_winners_add(an_winners *w, an_key key, const char *opts, double seconds, double first_seconds)
{
    char text[KEY_SIZE];
    key_text(key, text);
    json_t *v = strlen(opts) <= OPTS_LEN_MAX
                    ? json_pack("{s:s, s:f, s:f}", "opts", opts, "seconds", seconds, "first_seconds", first_seconds)
                    : NULL;
    if (!v || json_object_set(w->all, text, v) != 0 || json_object_set(w->fresh, text, v) != 0) {
        json_decref(v);
        return an_fail(w->ctx, AN_ERR_NOMEM, "out of memory for the beam cache");
    }
    json_decref(v);
    return AN_OK;
}

/* Under the lock: what others wrote, then ours. */
static an_status merge_and_write(an_winners *w)
{
    an_status st = read_file(w);
    if (st) return st;
    if (json_object_size(w->all) > AN_WINNERS_MAX) { /* begin anew with what this process found */
        json_decref(w->all);
        w->all = json_copy(w->fresh);
    }
    json_t *root = w->all ? json_pack("{s:s, s:i, s:O}", "anneal", kind, "version", FORMAT, "winners", w->all) : NULL;
    char *text = root ? json_dumps(root, JSON_INDENT(1) | JSON_SORT_KEYS) : NULL;
    json_decref(root);
    if (!text) return an_fail(w->ctx, AN_ERR_NOMEM, "out of memory for the beam cache");
    const an_status held = an_ctx_status(w->ctx);
    st = an_file_write(w->ctx, w->path, text, strlen(text));
    free(text);
    if (st == AN_ERR_NOMEM) return st;
    if (st) {
        warn_once(w, "cannot be written; winners are not kept");
        if (!held) an_ctx_clear_error(w->ctx);
        return AN_OK;
    }
    json_object_clear(w->fresh);
    return AN_OK;
}

static bool make_folder(an_winners *w)
{
    char folder[PATH_SIZE];
    const char *slash = strrchr(w->path, '/');
    if (!slash || slash == w->path) return true;
    (void)snprintf(folder, sizeof folder, "%.*s", (int)(slash - w->path), w->path);
    const an_status held = an_ctx_status(w->ctx);
    if (!an_dir_create(w->ctx, folder)) return true;
    if (!held) an_ctx_clear_error(w->ctx);
    warn_once(w, "cannot be made; winners are not kept");
    return false;
}

an_status an_winners_save(an_winners *w)
{
    char lock[PATH_SIZE];
    if (json_object_size(w->fresh) == 0 || !w->path[0]) return AN_OK;
    (void)snprintf(lock, sizeof lock, "%.*s.lock", PATH_SIZE - 16, w->path);
    if (!make_folder(w)) return AN_OK;
    const int fd = open(lock, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0) {
        warn_once(w, "cannot be locked; winners are not kept");
        return AN_OK;
    }
    while (flock(fd, LOCK_EX) != 0 && errno == EINTR) continue;
    const an_status st = merge_and_write(w);
    (void)close(fd); /* and the lock with it */
    return st;
}
