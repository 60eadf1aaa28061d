/* stream.h - bytes from a file or from memory, inflated when they are gzip. The readers of src/io sit on this.
 *
 * What the caller sees is the plain bytes; positions in error sentences are those of the file as it lies on the disk. */
#ifndef AN_IO_STREAM_H
#define AN_IO_STREAM_H

#include "base/base.h"

typedef struct an_gzip an_gzip;

typedef struct an_stream {
    an_ctx *ctx;
    char *name; /* for sentences; a copy */
    int fd;     /* -1: from memory */
    const uint8_t *mem;
    uint64_t nbytes; /* of the file or memory as it lies there */
    uint64_t pos;    /* raw bytes taken so far */
    an_gzip *gzip;   /* NULL: plain */
} an_stream;

/* Opens a regular file, or memory that outlives the stream. On failure *s needs no close. */
an_status an_stream_open(an_ctx *ctx, const char *path, an_stream *s);
an_status an_stream_open_mem(an_ctx *ctx, const char *name, const void *data, size_t nbytes, an_stream *s);
void an_stream_close(an_stream *s); /* a zeroed one is a no-op */

/* Reads up to nbytes plain bytes; *got < nbytes only at the end. Truncated and corrupt gzip is AN_ERR_FORMAT, and so is
 * anything after its last member. */
an_status an_stream_read(an_stream *s, void *dst, size_t nbytes, size_t *got);

/* An upper bound for the plain bytes, from the size of the raw ones (deflate shrinks at most 1032:1). */
uint64_t an_stream_nbytes_bound(const an_stream *s);

/* --- between stream.c and gzip.c ------------------------------------------------------------------ */
an_status an_stream_read_raw(an_stream *s, void *dst, size_t nbytes, size_t *got);
an_status an_gzip_open(an_stream *s);
an_status an_gzip_read(an_stream *s, void *dst, size_t nbytes, size_t *got);
void an_gzip_close(an_stream *s);

#endif
