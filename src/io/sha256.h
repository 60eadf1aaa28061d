/* sha256.h - a running SHA-256, for data that arrives in pieces. */
#ifndef AN_IO_SHA256_H
#define AN_IO_SHA256_H

#include "base/base.h"
#include <anneal/io.h>

typedef struct an_sha256_state an_sha256_state;

an_status an_sha256_begin(an_ctx *ctx, an_sha256_state **out);
bool an_sha256_update(an_sha256_state *s, const void *data, size_t nbytes);
an_status an_sha256_end(an_sha256_state *s, char hex[AN_SHA256_HEX]);
void an_sha256_drop(an_sha256_state *s); /* NULL is a no-op */

#endif
