/* sha256.c - SHA-256 of memory and of files, by libcrypto. */
#define _POSIX_C_SOURCE 200809L /* O_CLOEXEC */
#include "io/sha256.h"

#include <anneal/io.h>

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <unistd.h>

struct an_sha256_state {
    an_ctx *ctx;
    EVP_MD_CTX *md;
};

an_status an_sha256_begin(an_ctx *ctx, an_sha256_state **out)
{
    an_sha256_state *s = an_mem_zalloc(ctx, sizeof *s);
    if (!s) return AN_ERR_NOMEM;
    s->ctx = ctx;
    s->md = EVP_MD_CTX_new();
    if (!s->md || EVP_DigestInit_ex(s->md, EVP_sha256(), NULL) != 1) {
        an_sha256_drop(s);
        return an_fail(ctx, AN_ERR_NOMEM, "out of memory for a SHA-256");
    }
    *out = s;
    return AN_OK;
}

bool an_sha256_update(an_sha256_state *s, const void *data, size_t nbytes)
{
    return EVP_DigestUpdate(s->md, data, nbytes) == 1;
}

an_status an_sha256_end(an_sha256_state *s, char hex[AN_SHA256_HEX])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char raw[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    if (EVP_DigestFinal_ex(s->md, raw, &n) != 1 || n != 32)
        return an_fail(s->ctx, AN_ERR_INTERNAL, "libcrypto gave no SHA-256");
    for (unsigned i = 0; i < n; i++) {
        hex[2 * i] = digits[raw[i] >> 4];
        hex[2 * i + 1] = digits[raw[i] & 15];
    }
    hex[64] = '\0';
    return AN_OK;
}

void an_sha256_drop(an_sha256_state *s)
{
    if (!s) return;
    EVP_MD_CTX_free(s->md);
    an_mem_free(s->ctx, s, sizeof *s);
}

an_status an_sha256(an_ctx *ctx, const void *data, size_t nbytes, char hex[AN_SHA256_HEX])
{
    an_sha256_state *s = NULL;
    an_status st = an_sha256_begin(ctx, &s);
    if (st) return st;
    if (an_sha256_update(s, data, nbytes))
        st = an_sha256_end(s, hex);
    else
        st = an_fail(ctx, AN_ERR_INTERNAL, "libcrypto gave no SHA-256");
    an_sha256_drop(s);
    return st;
}

an_status an_sha256_file(an_ctx *ctx, const char *path, char hex[AN_SHA256_HEX])
{
    uint8_t block[16384];
    an_sha256_state *s = NULL;
    an_status st = AN_OK;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return an_fail(ctx, AN_ERR_IO, "%s: cannot open: %s", path, strerror(errno));
    st = an_sha256_begin(ctx, &s);
    if (st) goto done;
    for (;;) {
        const ssize_t n = read(fd, block, sizeof block);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            st = an_fail(ctx, AN_ERR_IO, "%s: cannot read: %s", path, strerror(errno));
            goto done;
        }
        if (n == 0) break;
        if (!an_sha256_update(s, block, (size_t)n)) {
            st = an_fail(ctx, AN_ERR_INTERNAL, "libcrypto gave no SHA-256");
            goto done;
        }
    }
    st = an_sha256_end(s, hex);
done:
    an_sha256_drop(s);
    close(fd);
    return st;
}
