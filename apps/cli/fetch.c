/* fetch.c - see fetch.h. */
#define _POSIX_C_SOURCE 200809L
#include "fetch.h"

#include "term.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool cli_cache_dir(char *out, size_t size)
{
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n = -1;
    if (xdg && xdg[0] == '/') /* a relative one is to be ignored, says the XDG base directory specification */
        n = snprintf(out, size, "%s/anneal", xdg);
    else if (home && home[0])
        n = snprintf(out, size, "%s/.cache/anneal", home);
    return n > 0 && (size_t)n < size;
}

int cli_join(char *out, size_t size, const char *dir, const char *name, cli_error *e)
{
    const int n = snprintf(out, size, "%s/%s", dir, name);
    return n > 0 && (size_t)n < size ? 0 : cli_fail(e, AN_ERR_ARG, "%s: the path is too long", dir);
}

typedef struct bar {
    const char *name;
    cli_style style;
    double drawn; /* when, in cli_now's seconds */
    bool live;    /* stderr is a terminal */
    int signal;   /* that ended it; they are blocked, so that nothing half-written stays */
} bar;

static bool draw_bar(void *user, size_t done, size_t total)
{
    enum { WIDTH = 30 };
    bar *b = user;
    const double now = cli_now();
    const bool is_end = total > 0 && done == total;
    b->signal = cli_signal_pending();
    if (b->signal) return false;
    if (!b->live || (now - b->drawn < 0.1 && !is_end)) return true;
    b->drawn = now;
    const int full = total > 0 ? (int)((double)done / (double)total * (double)WIDTH) : 0;
    fprintf(stderr, "\r%s  %s", b->name, cli_paint(&b->style, CLI_TEAL));
    for (int i = 0; i < WIDTH; i++) fputs(i < full ? (b->style.utf8 ? "\u2588" : "#") : (b->style.utf8 ? "\u2591" : "."), stderr);
    fprintf(stderr, "%s  %5.1f of %.1f MB\x1b[K", cli_paint(&b->style, CLI_PLAIN), (double)done / 1e6, (double)total / 1e6);
    fflush(stderr);
    return true;
}

int cli_fetch(an_ctx *ctx, const cli_fetch_desc *d, cli_error *e)
{
    char url[1024];
    const char *mirror = getenv("ANNEAL_MIRROR");
    const bool mirrored = mirror && mirror[0];
    if (an_download_is_offline())
        return cli_fail(e, AN_ERR_UNSUPPORTED, "%s is not on this machine, and ANNEAL_OFFLINE forbids to fetch it", d->title);
    bar b = {.name = d->name, .style = cli_style_of(stderr), .live = isatty(STDERR_FILENO) == 1};
    an_status st = AN_ERR_IO;
    for (size_t i = 0; i < CLI_MIRRORS && d->urls[i]; i++) {
        if (mirrored && i > 0) break;
        if (mirrored)
            snprintf(url, sizeof url, "%s/%s", mirror, d->name);
        else
            snprintf(url, sizeof url, "%s", d->urls[i]);
        an_ctx_clear_error(ctx);
        if (!b.live) cli_note("fetching %s", url);
        st = an_download(ctx, &(an_download_desc){.url = url, .path = d->path, .sha256 = d->sha256,
                                                  .nbytes_max = d->nbytes_max, .progress = draw_bar, .user = &b});
        if (b.live) fputs("\r\x1b[K", stderr);
        if (b.signal) return cli_fail(e, 128 + b.signal, "%s: interrupted; nothing was kept of it", d->name);
        if (st != AN_ERR_IO) break;
    }
    return st ? cli_fail_ctx(e, ctx) : 0;
}
