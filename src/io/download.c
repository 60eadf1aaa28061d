/* download.c - one file over https, by libcurl. The bytes go to a file beside the final name and into a SHA-256 as they
 * arrive; only when that equals the pin does the file get its name. */
#define _POSIX_C_SOURCE 200809L
#include <anneal/io.h>

#include "io/sha256.h"

#include <ctype.h>
#include <curl/curl.h>
#include <stdlib.h>

enum { CONNECT_TIMEOUT_S = 10, STALL_TIMEOUT_S = 20, REDIRECTS_MAX = 5, NBYTES_MAX_DEFAULT = 1 << 30 };

typedef struct transfer {
    an_ctx *ctx;
    const an_download_desc *desc;
    an_atomic_file *file;
    an_sha256_state *sha;
    size_t nbytes, nbytes_max;
    bool cancelled;
} transfer;

static bool env_is_on(const char *name)
{
    const char *v = getenv(name);
    return v && v[0] && strcmp(v, "0") != 0;
}

bool an_download_is_offline(void)
{
    return env_is_on("ANNEAL_OFFLINE");
}

static size_t on_data(char *data, size_t size, size_t count, void *user)
{
    transfer *t = user;
    const size_t n = size * count;
    if (n > t->nbytes_max - t->nbytes) {
        an_fail(t->ctx, AN_ERR_LIMIT, "%s: sends more than the %zu bytes allowed", t->desc->url, t->nbytes_max);
        return 0;
    }
    t->nbytes += n;
    if (an_atomic_write(t->file, data, n)) return 0;
    if (!an_sha256_update(t->sha, data, n)) return 0;
    return n;
}

static int on_progress(void *user, curl_off_t total, curl_off_t done, curl_off_t up_total, curl_off_t up_done)
{
    transfer *t = user;
    (void)up_total;
    (void)up_done;
    if (!t->desc->progress) return 0;
    t->cancelled = !t->desc->progress(t->desc->user, (size_t)done, (size_t)total);
    return t->cancelled;
}

/* Loopback over plain http exists for the tests alone; the pin is checked there as everywhere. */
static an_status check_url(an_ctx *ctx, const char *url, const char **protocols)
{
    static const char https[] = "https://", loopback[] = "http://127.0.0.1";
    *protocols = "https";
    if (strncmp(url, https, sizeof https - 1) == 0) return AN_OK;
    if (env_is_on("ANNEAL_TEST_HTTP") && strncmp(url, loopback, sizeof loopback - 1) == 0 &&
        (url[sizeof loopback - 1] == ':' || url[sizeof loopback - 1] == '/')) {
        *protocols = "http";
        return AN_OK;
    }
    return an_fail(ctx, AN_ERR_ARG, "%s: only https is fetched", url);
}

static an_status check_pin(an_ctx *ctx, const an_download_desc *desc)
{
    size_t n = 0;
    while (isxdigit((unsigned char)desc->sha256[n]) && !isupper((unsigned char)desc->sha256[n])) n++;
    if (n == 64 && desc->sha256[n] == '\0') return AN_OK;
    return an_fail(ctx, AN_ERR_ARG, "%s: its SHA-256 must be given as 64 lower-case hex digits", desc->url);
}

static an_status perform(transfer *t, CURL *curl, const char *protocols)
{
    char why[CURL_ERROR_SIZE] = "";
    const char *url = t->desc->url;
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, protocols);
    curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, protocols);
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(curl, CURLOPT_MAXREDIRS, (long)REDIRECTS_MAX);
    curl_easy_setopt(curl, CURLOPT_FAILONERROR, 1L);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_TIMEOUT_S);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, (long)STALL_TIMEOUT_S);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "anneal");
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, why);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_data);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, t);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, t);
    const CURLcode code = curl_easy_perform(curl);
    if (code == CURLE_OK) return AN_OK;
    if (an_ctx_status(t->ctx)) return an_ctx_status(t->ctx); /* said by on_data */
    if (t->cancelled) return an_fail(t->ctx, AN_ERR_IO, "%s: the download was cancelled", url);
    return an_fail(t->ctx, AN_ERR_IO, "%s: cannot be fetched: %s", url, why[0] ? why : curl_easy_strerror(code));
}

an_status an_download(an_ctx *ctx, const an_download_desc *desc)
{
    char hex[AN_SHA256_HEX];
    const char *protocols = NULL;
    CURL *curl = NULL;
    transfer t = {.ctx = ctx, .desc = desc, .nbytes_max = desc->nbytes_max ? desc->nbytes_max : NBYTES_MAX_DEFAULT};
    an_status st = check_url(ctx, desc->url, &protocols);
    if (st) goto done;
    st = check_pin(ctx, desc);
    if (st) goto done;
    if (an_download_is_offline()) {
        st = an_fail(ctx, AN_ERR_UNSUPPORTED, "%s: not fetched, because ANNEAL_OFFLINE is set", desc->url);
        goto done;
    }
    curl = curl_easy_init();
    if (!curl) {
        st = an_fail(ctx, AN_ERR_NOMEM, "%s: libcurl cannot start", desc->url);
        goto done;
    }
    st = an_sha256_begin(ctx, &t.sha);
    if (st) goto done;
    st = an_atomic_open(ctx, desc->path, &t.file);
    if (st) goto done;
    st = perform(&t, curl, protocols);
    if (st) goto done;
    st = an_sha256_end(t.sha, hex);
    if (st) goto done;
    if (strcmp(hex, desc->sha256) != 0) {
        st = an_fail(ctx, AN_ERR_FORMAT,
                     "%s: what came is not the file that was asked for (SHA-256 %s, expected %s); nothing was kept",
                     desc->url, hex, desc->sha256);
        goto done;
    }
    st = an_atomic_commit(t.file);
    t.file = NULL;
done:
    an_atomic_abort(t.file);
    an_sha256_drop(t.sha);
    curl_easy_cleanup(curl);
    return st;
}
