/* png.c - pictures as PNG (ISO/IEC 15948): a signature, then chunks of length, name, data and CRC-32. IHDR says what it is;
 * IDAT holds the rows, each with a filter byte in front, as one zlib stream; IEND ends it. */
#include <anneal/io.h>

#include "base/base.h"

#include <stdlib.h>
#include <zlib.h>

enum { SIDE_MAX = 1 << 15, NFILTERS = 5 };

static void put32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++) p[i] = (uint8_t)(v >> (24 - 8 * i));
}

static an_status put_chunk(an_atomic_file *f, const char name[5], const uint8_t *data, size_t nbytes)
{
    uint8_t head[8], tail[4];
    put32(head, (uint32_t)nbytes);
    memcpy(head + 4, name, 4);
    uint32_t crc = (uint32_t)crc32(0, head + 4, 4);
    if (nbytes) crc = (uint32_t)crc32(crc, data, (uInt)nbytes);
    put32(tail, crc);
    an_status st = an_atomic_write(f, head, sizeof head);
    if (!st && nbytes) st = an_atomic_write(f, data, nbytes);
    return st ? st : an_atomic_write(f, tail, sizeof tail);
}

static int paeth(int a, int b, int c)
{
    const int p = a + b - c, pa = abs(p - a), pb = abs(p - b), pc = abs(p - c);
    return pa <= pb && pa <= pc ? a : pb <= pc ? b : c;
}

/* One row under filter: what is left of each byte after a guess from those to the left, above, and above to the left. */
static void filter_row(int filter, const uint8_t *row, const uint8_t *above, size_t n, size_t step, uint8_t *out)
{
    for (size_t i = 0; i < n; i++) {
        const int a = i >= step ? row[i - step] : 0, b = above ? above[i] : 0, c = above && i >= step ? above[i - step] : 0;
        const int guess[NFILTERS] = {0, a, b, (a + b) / 2, paeth(a, b, c)};
        out[i] = (uint8_t)(row[i] - guess[filter]);
    }
}

/* The filter that leaves the smallest sum, its bytes taken as signed: the usual rule of thumb. */
static void filter_best(const uint8_t *row, const uint8_t *above, size_t n, size_t step, uint8_t *tried, uint8_t *out)
{
    uint64_t least = UINT64_MAX;
    for (int filter = 0; filter < NFILTERS; filter++) {
        uint64_t sum = 0;
        filter_row(filter, row, above, n, step, tried);
        for (size_t i = 0; i < n; i++) sum += tried[i] < 128 ? tried[i] : 256u - tried[i];
        if (sum >= least) continue;
        least = sum;
        out[0] = (uint8_t)filter;
        memcpy(out + 1, tried, n);
    }
}

static an_status write_file(an_ctx *ctx, const char *path, const an_picture *p, const uint8_t *packed, size_t npacked)
{
    static const uint8_t signature[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    uint8_t head[13] = {0};
    put32(head, p->width);
    put32(head + 4, p->height);
    head[8] = 8;                          /* bits a channel */
    head[9] = p->channels == 3 ? 2 : 0;   /* RGB, or grey */
    an_atomic_file *f = NULL;
    an_status st = an_atomic_open(ctx, path, &f);
    if (st) return st;
    st = an_atomic_write(f, signature, sizeof signature);
    if (!st) st = put_chunk(f, "IHDR", head, sizeof head);
    if (!st) st = put_chunk(f, "IDAT", packed, npacked);
    if (!st) st = put_chunk(f, "IEND", NULL, 0);
    if (!st) return an_atomic_commit(f);
    an_atomic_abort(f);
    return st;
}

an_status an_png_write(an_ctx *ctx, const char *path, const an_picture *p)
{
    if (!p->width || !p->height || p->width > SIDE_MAX || p->height > SIDE_MAX || (p->channels != 1 && p->channels != 3))
        return an_fail(ctx, AN_ERR_ARG, "%s: a picture of %u x %u with %u channels cannot be written; sides of 1 to %d, 1 or 3 channels can",
                       path, p->width, p->height, p->channels, SIDE_MAX);
    const size_t row = (size_t)p->width * p->channels;
    size_t nrows = 0;
    if (!an_size_mul(row + 1, p->height, &nrows) || nrows > INT32_MAX)
        return an_fail(ctx, AN_ERR_LIMIT, "%s: a picture of %u x %u is too large", path, p->width, p->height);
    uLongf npacked = compressBound((uLong)nrows);
    const size_t room = npacked;
    uint8_t *rows = an_mem_alloc(ctx, nrows), *tried = an_mem_alloc(ctx, row), *packed = an_mem_alloc(ctx, room);
    an_status st = AN_ERR_NOMEM;
    if (!rows || !tried || !packed) goto done;
    for (size_t y = 0; y < p->height; y++) {
        const uint8_t *at = p->data + y * row;
        filter_best(at, y ? at - row : NULL, row, p->channels, tried, rows + y * (row + 1));
    }
    if (compress2(packed, &npacked, rows, (uLong)nrows, Z_DEFAULT_COMPRESSION) != Z_OK) {
        st = an_fail(ctx, AN_ERR_NOMEM, "%s: out of memory for compressing", path);
        goto done;
    }
    st = write_file(ctx, path, p, packed, npacked);
done:
    an_mem_free(ctx, rows, nrows);
    an_mem_free(ctx, tried, row);
    an_mem_free(ctx, packed, room);
    return st;
}
