/* idx.c - IDX arrays. The format: 0, 0, a type byte, the rank, then rank sizes of four bytes and the elements, all
 * big-endian (Y. LeCun, "the MNIST database", file formats).
 *
 *   0  0  type  rank | dim 0 (4 bytes) | ... | elements, row-major */
#include <anneal/io.h>

#include "io/stream.h"

#include <stdio.h>

enum { NBYTES_MAX_DEFAULT = 1 << 30 };

static an_dtype dtype_of(uint8_t type)
{
    switch (type) {
    case 0x08: return AN_U8;
    case 0x09: return AN_I8;
    case 0x0b: return AN_I16;
    case 0x0c: return AN_I32;
    case 0x0d: return AN_F32;
    case 0x0e: return AN_F64;
    default: return AN_DTYPE_NONE;
    }
}

static an_status read_exact(an_stream *s, void *dst, size_t nbytes, const char *what)
{
    size_t got = 0;
    const an_status st = an_stream_read(s, dst, nbytes, &got);
    if (st) return st;
    if (got < nbytes) {
        return an_fail(s->ctx, AN_ERR_FORMAT, "%s: is truncated: it ends at byte %llu, inside %s", s->name,
                       (unsigned long long)s->pos, what);
    }
    return AN_OK;
}

static void print_dims(char *text, size_t size, const an_idx *x)
{
    size_t at = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < x->rank && at < size; i++) /* ten digits at most each, so it always fits */
        at += (size_t)snprintf(text + at, size - at, "%s%zu", i ? " x " : "", x->dims[i]);
}

/* Reads the header and holds it against the limits and against the size of what is there. */
static an_status read_header(an_stream *s, const an_idx_desc *desc, an_idx *x)
{
    uint8_t head[4];
    char dims[128];
    size_t nbytes_header = sizeof head;
    an_status st = read_exact(s, head, sizeof head, "the four bytes that say what it is");
    if (st) return st;
    x->dtype = dtype_of(head[2]);
    if (head[0] || head[1] || x->dtype == AN_DTYPE_NONE) {
        return an_fail(s->ctx, AN_ERR_FORMAT,
                       "%s: is not an IDX file: it starts with %02x %02x %02x %02x where an array of bytes has 00 00 08 and its rank",
                       s->name, head[0], head[1], head[2], head[3]);
    }
    x->rank = head[3];
    if (x->rank == 0 || x->rank > AN_IDX_RANK_MAX) {
        return an_fail(s->ctx, AN_ERR_FORMAT, "%s: byte 3 claims %u dimensions; 1 to %d can be read", s->name,
                       (unsigned)x->rank, AN_IDX_RANK_MAX);
    }
    if (desc->dtype != AN_DTYPE_NONE && x->dtype != desc->dtype) {
        return an_fail(s->ctx, AN_ERR_DTYPE, "%s: holds %s where %s was expected (byte 2 is %02x)", s->name,
                       an_dtype_name(x->dtype), an_dtype_name(desc->dtype), head[2]);
    }
    if (desc->rank != 0 && x->rank != desc->rank) {
        return an_fail(s->ctx, AN_ERR_SHAPE, "%s: has %u dimension%s where %u were expected (byte 3)%s", s->name,
                       (unsigned)x->rank, x->rank == 1 ? "" : "s", (unsigned)desc->rank,
                       desc->rank == 3 && x->rank == 1 ? "; are images and labels swapped?" : "");
    }
    bool fits = true;
    x->nbytes = an_dtype_nbytes(x->dtype);
    for (uint32_t i = 0; i < x->rank; i++) {
        uint8_t d[4];
        st = read_exact(s, d, sizeof d, "its header");
        if (st) return st;
        nbytes_header += sizeof d;
        x->dims[i] = (size_t)d[0] << 24 | (size_t)d[1] << 16 | (size_t)d[2] << 8 | d[3];
    }
    for (uint32_t i = 0; i < x->rank; i++)
        if (x->dims[i] == 0) x->nbytes = 0;
    for (uint32_t i = 0; i < x->rank; i++) fits = fits && an_size_mul(x->nbytes, x->dims[i], &x->nbytes);
    print_dims(dims, sizeof dims, x);
    const size_t nbytes_max = desc->nbytes_max ? desc->nbytes_max : NBYTES_MAX_DEFAULT;
    const uint64_t bound = an_stream_nbytes_bound(s);
    if (!fits || x->nbytes > bound || bound - x->nbytes < nbytes_header) {
        return an_fail(s->ctx, AN_ERR_FORMAT, "%s: its header claims %s elements of %s, more than its %llu bytes can hold",
                       s->name, dims, an_dtype_name(x->dtype), (unsigned long long)s->nbytes);
    }
    if (x->nbytes > nbytes_max) {
        return an_fail(s->ctx, AN_ERR_LIMIT, "%s: its header claims %s elements of %s, more than the %zu bytes allowed",
                       s->name, dims, an_dtype_name(x->dtype), nbytes_max);
    }
    return AN_OK;
}

static bool is_big_endian(void)
{
    const uint16_t one = 1;
    uint8_t first;
    memcpy(&first, &one, 1);
    return first == 0;
}

static void swap_bytes(uint8_t *data, size_t nbytes, size_t size)
{
    for (size_t at = 0; at + size <= nbytes; at += size) {
        for (size_t i = 0; i < size / 2; i++) {
            const uint8_t t = data[at + i];
            data[at + i] = data[at + size - 1 - i];
            data[at + size - 1 - i] = t;
        }
    }
}

static an_status read_elements(an_stream *s, an_idx *x)
{
    uint8_t more;
    size_t got = 0;
    an_status st = an_stream_read(s, x->data, x->nbytes, &got);
    if (st) return st;
    if (got < x->nbytes) {
        return an_fail(s->ctx, AN_ERR_FORMAT, "%s: its header claims %zu bytes of elements, but only %zu are there (it ends at byte %llu)",
                       s->name, x->nbytes, got, (unsigned long long)s->pos);
    }
    st = an_stream_read(s, &more, 1, &got); /* also makes gzip check its checksum */
    if (st) return st;
    if (got != 0) {
        return an_fail(s->ctx, AN_ERR_FORMAT, "%s: goes on after the %zu bytes of elements that its header claims", s->name,
                       x->nbytes);
    }
    const size_t size = an_dtype_nbytes(x->dtype);
    if (size > 1 && !is_big_endian()) swap_bytes(x->data, x->nbytes, size);
    return AN_OK;
}

static an_status read_stream(an_stream *s, const an_idx_desc *desc, an_idx *out)
{
    static const an_idx_desc any = {0};
    an_idx x = {.ctx = s->ctx};
    an_status st = read_header(s, desc ? desc : &any, &x);
    if (st) goto done;
    x.data = an_mem_alloc(s->ctx, x.nbytes);
    if (!x.data) {
        st = AN_ERR_NOMEM;
        goto done;
    }
    st = read_elements(s, &x);
    if (st) goto done;
    *out = x;
    x = (an_idx){0};
done:
    an_idx_fini(&x);
    return st;
}

an_status an_idx_load(an_ctx *ctx, const char *path, const an_idx_desc *desc, an_idx *out)
{
    an_stream s = {0};
    an_status st = an_stream_open(ctx, path, &s);
    if (!st) st = read_stream(&s, desc, out);
    an_stream_close(&s);
    return st;
}

an_status an_idx_parse(an_ctx *ctx, const char *name, const void *data, size_t nbytes, const an_idx_desc *desc,
                       an_idx *out)
{
    an_stream s = {0};
    an_status st = an_stream_open_mem(ctx, name, data, nbytes, &s);
    if (!st) st = read_stream(&s, desc, out);
    an_stream_close(&s);
    return st;
}

void an_idx_fini(an_idx *idx)
{
    if (idx->ctx) an_mem_free(idx->ctx, idx->data, idx->nbytes);
    *idx = (an_idx){0};
}
