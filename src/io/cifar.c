/* cifar.c - CIFAR-10 in its binary form. A record is a label byte and 3,072 bytes of pixels: the red, the green and the blue
 * plane of 32 x 32. Files data_batch_1.bin to data_batch_5.bin are trained on, test_batch.bin is not (A. Krizhevsky, "The
 * CIFAR-10 dataset", binary version). They lie in a folder, or in the archive as it is published. */
#include <anneal/io.h>

#include "io/tar.h"

#include <stdio.h>

enum { RECORD = 1 + AN_CIFAR_PIXELS, FILES = 6, TEST = 5, RECORDS_MAX = 100000, AT_ONCE = 64 };

static const char *const names[FILES] = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                         "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"};

typedef struct batch {
    uint8_t *data; /* pixels, then labels */
    size_t n;
    bool is_there;
} batch;

typedef struct reader {
    an_ctx *ctx;
    batch batches[FILES];
} reader;

static void batch_fini(an_ctx *ctx, batch *b)
{
    an_mem_free(ctx, b->data, b->n * RECORD);
    *b = (batch){0};
}

/* Where the records come from: a file of the folder, or an entry of the archive. */
typedef struct source {
    an_stream *s;
    an_tar *tar; /* or NULL */
    const char *path, *entry;
} source;

static an_status read_bytes(source *from, void *dst, size_t nbytes)
{
    size_t got = 0;
    if (from->tar) return an_tar_read(from->tar, dst, nbytes);
    const an_status st = an_stream_read(from->s, dst, nbytes, &got);
    if (st || got == nbytes) return st;
    return an_fail(from->s->ctx, AN_ERR_FORMAT, "%s: ended while it was read", from->path);
}

/* Reads and checks nbytes of records: pixels and labels apart. */
static an_status read_batch(reader *r, source *from, uint64_t nbytes, batch *b)
{
    uint8_t records[AT_ONCE * RECORD];
    if (nbytes == 0 || nbytes % RECORD || nbytes / RECORD > RECORDS_MAX)
        return an_fail(r->ctx, AN_ERR_FORMAT, "%s: %s has %llu bytes; whole records of %d, at most %d of them, are wanted", from->path,
                       from->entry, (unsigned long long)nbytes, RECORD, RECORDS_MAX);
    const size_t n = (size_t)(nbytes / RECORD);
    batch made = {.data = an_mem_alloc(r->ctx, n * RECORD), .n = n, .is_there = true};
    if (!made.data) return AN_ERR_NOMEM;
    an_status st = AN_OK;
    for (size_t at = 0; at < n && !st; at += AT_ONCE) {
        const size_t now = n - at < AT_ONCE ? n - at : AT_ONCE;
        st = read_bytes(from, records, now * RECORD);
        for (size_t i = 0; i < now && !st; i++) {
            const uint8_t *record = records + i * RECORD;
            if (record[0] >= AN_CIFAR_CLASSES)
                st = an_fail(r->ctx, AN_ERR_FORMAT, "%s: %s: record %zu has the label %u; CIFAR-10 has 0 to %d", from->path, from->entry,
                             at + i, record[0], AN_CIFAR_CLASSES - 1);
            memcpy(made.data + (at + i) * AN_CIFAR_PIXELS, record + 1, AN_CIFAR_PIXELS);
            made.data[n * AN_CIFAR_PIXELS + at + i] = record[0];
        }
    }
    if (st)
        batch_fini(r->ctx, &made);
    else
        *b = made;
    return st;
}

/* Which of the files a path names, -1 for none. */
static int file_of(const char *path)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    for (int f = 0; f < FILES; f++)
        if (strcmp(base, names[f]) == 0) return f;
    return -1;
}

static an_status read_archive(reader *r, an_stream *s)
{
    an_tar tar = {.s = s};
    an_tar_entry e;
    bool more = false;
    an_status st = an_tar_next(&tar, &e, &more);
    for (; !st && more; st = an_tar_next(&tar, &e, &more)) {
        const int f = e.is_file ? file_of(e.name) : -1;
        if (f < 0) continue;
        if (r->batches[f].is_there) return an_fail(r->ctx, AN_ERR_FORMAT, "%s: holds %s twice", s->name, names[f]);
        source from = {.s = s, .tar = &tar, .path = s->name, .entry = names[f]};
        st = read_batch(r, &from, e.nbytes, &r->batches[f]);
        if (st) return st;
    }
    return st;
}

static an_status read_file(reader *r, const char *path, int f)
{
    an_stream s = {0};
    an_status st = an_stream_open(r->ctx, path, &s);
    if (st) return st;
    source from = {.s = &s, .path = path, .entry = "it"};
    if (s.gzip)
        st = an_fail(r->ctx, AN_ERR_FORMAT, "%s: is gzip where records are expected; give the whole .tar.gz, or unpack it", path);
    else
        st = read_batch(r, &from, s.nbytes, &r->batches[f]);
    an_stream_close(&s);
    return st;
}

/* Training batches one after another, then the test batch. */
static an_status join(reader *r, const char *path, an_cifar *out)
{
    an_cifar c = {.ctx = r->ctx};
    for (int f = 0; f < FILES; f++) {
        if (!r->batches[f].is_there)
            return an_fail(r->ctx, AN_ERR_IO, "%s: has no %s; CIFAR-10's binary version has data_batch_1.bin to data_batch_5.bin and "
                                              "test_batch.bin", path, names[f]);
        *(f == TEST ? &c.ntest : &c.ntrain) += r->batches[f].n;
    }
    const size_t n = c.ntrain + c.ntest;
    c.data = an_mem_alloc(r->ctx, n * RECORD);
    if (!c.data) return AN_ERR_NOMEM;
    c.pixels = c.data;
    c.labels = c.data + n * AN_CIFAR_PIXELS;
    size_t at = 0;
    for (int f = 0; f < FILES; f++) {
        const batch *b = &r->batches[f];
        memcpy(c.data + at * AN_CIFAR_PIXELS, b->data, b->n * AN_CIFAR_PIXELS);
        memcpy(c.data + n * AN_CIFAR_PIXELS + at, b->data + b->n * AN_CIFAR_PIXELS, b->n);
        at += b->n;
    }
    *out = c;
    return AN_OK;
}

static void reader_fini(reader *r)
{
    for (int f = 0; f < FILES; f++) batch_fini(r->ctx, &r->batches[f]);
}

an_status an_cifar_load(an_ctx *ctx, const char *path, an_cifar *out)
{
    reader r = {.ctx = ctx};
    an_stream s = {0};
    an_status st = an_stream_open(ctx, path, &s);
    if (!st) st = read_archive(&r, &s);
    an_stream_close(&s);
    if (!st) st = join(&r, path, out);
    reader_fini(&r);
    return st;
}

an_status an_cifar_load_dir(an_ctx *ctx, const char *dir, an_cifar *out)
{
    reader r = {.ctx = ctx};
    an_status st = AN_OK;
    for (int f = 0; f < FILES && !st; f++) {
        char path[4096];
        const int n = snprintf(path, sizeof path, "%s/%s", dir, names[f]);
        if (n < 0 || (size_t)n >= sizeof path)
            st = an_fail(ctx, AN_ERR_ARG, "%.100s...: the path is too long", dir);
        else
            st = read_file(&r, path, f);
    }
    if (!st) st = join(&r, dir, out);
    reader_fini(&r);
    return st;
}

an_status an_cifar_parse(an_ctx *ctx, const char *name, const void *data, size_t nbytes, an_cifar *out)
{
    reader r = {.ctx = ctx};
    an_stream s = {0};
    an_status st = an_stream_open_mem(ctx, name, data, nbytes, &s);
    if (!st) st = read_archive(&r, &s);
    an_stream_close(&s);
    if (!st) st = join(&r, name, out);
    reader_fini(&r);
    return st;
}

void an_cifar_fini(an_cifar *c)
{
    if (c->ctx) an_mem_free(c->ctx, c->data, (c->ntrain + c->ntest) * RECORD);
    *c = (an_cifar){0};
}
