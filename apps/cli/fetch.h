/* fetch.h - one pinned file into the cache, from the first mirror that has it, with a bar on stderr. */
#ifndef CLI_FETCH_H
#define CLI_FETCH_H

#include "cli.h"

#include <anneal/io.h>

enum { CLI_PATH_MAX = 4096, CLI_MIRRORS = 2 };

typedef struct cli_fetch_desc {
    const char *title; /* what it belongs to: "Fashion-MNIST" */
    const char *name;  /* of the file, in the bar and at ANNEAL_MIRROR */
    const char *path;  /* where it goes */
    const char *sha256;
    const char *urls[CLI_MIRRORS]; /* NULLs at the end */
    size_t nbytes_max;
} cli_fetch_desc;

/* With ANNEAL_MIRROR set, MIRROR/name stands for all urls. What a mirror sends but the pin refuses ends it: that is no lack of
 * network. Returns 0, or a code with the sentence in e: AN_ERR_UNSUPPORTED when offline. */
int cli_fetch(an_ctx *ctx, const cli_fetch_desc *desc, cli_error *e);

/* The folder for downloads: $XDG_CACHE_HOME/anneal or ~/.cache/anneal; false without a home. */
bool cli_cache_dir(char *out, size_t size);
/* dir/name, or a code. */
int cli_join(char *out, size_t size, const char *dir, const char *name, cli_error *e);

#endif
