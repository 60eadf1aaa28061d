/* test_cifar.c - CIFAR-10 from an archive and from a folder: read in the right order, and everything wrong refused. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "an_test.h"

#include "base/base.h"
#include <anneal/io.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

enum { RECORD = 1 + AN_CIFAR_PIXELS, BLOCK = 512, ROOM = 1 << 20 };

static const char *const names[6] = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                     "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"};

/* An archive being made. */
typedef struct archive {
    uint8_t *data;
    size_t n;
} archive;

static void put_entry(archive *a, const char *name, char type, const uint8_t *data, size_t nbytes)
{
    uint8_t *h = a->data + a->n;
    unsigned sum = 0;
    memset(h, 0, BLOCK);
    snprintf((char *)h, 100, "%s", name);
    snprintf((char *)h + 100, 8, "%07o", 0644);
    snprintf((char *)h + 124, 12, "%011o", (unsigned)nbytes);
    h[156] = (uint8_t)type;
    memcpy(h + 257, "ustar\00000", 8);
    memset(h + 148, ' ', 8);
    for (int i = 0; i < BLOCK; i++) sum += h[i];
    snprintf((char *)h + 148, 8, "%06o", sum);
    a->n += BLOCK;
    if (nbytes) memcpy(a->data + a->n, data, nbytes);
    const size_t padded = (nbytes + BLOCK - 1) / BLOCK * BLOCK;
    memset(a->data + a->n + nbytes, 0, padded - nbytes);
    a->n += padded;
}

/* n records of batch b: label (b + i) % 10, pixel k of record i is b + i + k. */
static size_t records(uint8_t *out, unsigned b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        out[i * RECORD] = (uint8_t)((b + i) % 10);
        for (size_t k = 0; k < AN_CIFAR_PIXELS; k++) out[i * RECORD + 1 + k] = (uint8_t)(b + i + k);
    }
    return n * RECORD;
}

/* As the official archive is: a folder, a text, and the batches in no order; here batch b has 1 + b records. */
static archive good_archive(void)
{
    static const unsigned order[6] = {0, 2, 3, 5, 4, 1};
    archive a = {malloc(ROOM), 0};
    uint8_t *data = malloc(6 * RECORD);
    put_entry(&a, "cifar-10-batches-bin/", '5', NULL, 0);
    for (unsigned i = 0; i < 6; i++) {
        char name[64];
        snprintf(name, sizeof name, "cifar-10-batches-bin/%s", names[order[i]]);
        put_entry(&a, name, '0', data, records(data, order[i], 1 + order[i]));
        if (i == 0) put_entry(&a, "cifar-10-batches-bin/batches.meta.txt", '0', (const uint8_t *)"airplane\n", 9);
    }
    memset(a.data + a.n, 0, 2 * BLOCK);
    a.n += 2 * BLOCK;
    free(data);
    return a;
}

static void check_good(an_test *t, const an_cifar *c)
{
    CHECK_EQ(t, c->ntrain, 1 + 2 + 3 + 4 + 5);
    CHECK_EQ(t, c->ntest, 6);
    size_t at = 0;
    for (unsigned b = 0; b < 6; b++)
        for (unsigned i = 0; i < 1 + b; i++, at++) {
            CHECK_EQ(t, c->labels[at], (b + i) % 10);
            CHECK_EQ(t, c->pixels[at * AN_CIFAR_PIXELS], b + i);
            CHECK_EQ(t, c->pixels[at * AN_CIFAR_PIXELS + AN_CIFAR_PIXELS - 1], (b + i + AN_CIFAR_PIXELS - 1) % 256);
        }
}

static void an_archive_is_read_in_the_order_of_its_batches(an_test *t)
{
    an_cifar c = {0};
    archive a = good_archive();
    CHECK_OK(t, an_cifar_parse(t->ctx, "a.tar", a.data, a.n, &c));
    check_good(t, &c);
    an_cifar_fini(&c);
    /* and without the blocks of zeros at its end, as some programs leave it */
    CHECK_OK(t, an_cifar_parse(t->ctx, "a.tar", a.data, a.n - 2 * BLOCK, &c));
    check_good(t, &c);
    an_cifar_fini(&c);
    free(a.data);
}

static void a_folder_and_a_compressed_archive_are_read(an_test *t)
{
    char dir[] = "/tmp/an_cifar_XXXXXX", path[128];
    an_cifar c = {0};
    archive a = good_archive();
    uint8_t *data = malloc(6 * RECORD);
    CHECK(t, mkdtemp(dir) != NULL);
    snprintf(path, sizeof path, "%s/c.tar.gz", dir);
    gzFile f = gzopen(path, "wb");
    CHECK_EQ(t, gzwrite(f, a.data, (unsigned)a.n), a.n);
    gzclose(f);
    CHECK_OK(t, an_cifar_load(t->ctx, path, &c));
    check_good(t, &c);
    an_cifar_fini(&c);
    unlink(path);
    for (unsigned b = 0; b < 6; b++) {
        CHECK_FAILS(t, an_cifar_load_dir(t->ctx, dir, &c), AN_ERR_IO, names[b]);
        snprintf(path, sizeof path, "%s/%s", dir, names[b]);
        CHECK_OK(t, an_file_write(t->ctx, path, data, records(data, b, 1 + b)));
    }
    CHECK_OK(t, an_cifar_load_dir(t->ctx, dir, &c));
    check_good(t, &c);
    an_cifar_fini(&c);
    data[RECORD] = 10; /* the second record's label */
    CHECK_OK(t, an_file_write(t->ctx, path, data, 2 * RECORD));
    CHECK_FAILS(t, an_cifar_load_dir(t->ctx, dir, &c), AN_ERR_FORMAT, "record 1 has the label 10");
    CHECK_OK(t, an_file_write(t->ctx, path, data, 2 * RECORD - 1));
    CHECK_FAILS(t, an_cifar_load_dir(t->ctx, dir, &c), AN_ERR_FORMAT, "whole records of 3073");
    for (unsigned b = 0; b < 6; b++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[b]);
        unlink(path);
    }
    rmdir(dir);
    free(data);
    free(a.data);
}

static void wrong_archives_are_refused_with_a_sentence(an_test *t)
{
    an_cifar c = {0};
    archive a = good_archive();
    CHECK_FAILS(t, an_cifar_parse(t->ctx, "x", a.data, a.n - 3 * BLOCK, &c), AN_ERR_FORMAT, "ends inside an entry");
    a.data[0] ^= 1;
    CHECK_FAILS(t, an_cifar_parse(t->ctx, "x", a.data, a.n, &c), AN_ERR_FORMAT, "checksum");
    a.data[0] ^= 1;
    a.data[2 * BLOCK] = 200; /* the first label of the first batch */
    CHECK_FAILS(t, an_cifar_parse(t->ctx, "x", a.data, a.n, &c), AN_ERR_FORMAT, "data_batch_1.bin: record 0 has the label 200");
    free(a.data);
    archive some = {malloc(ROOM), 0};
    uint8_t *data = malloc(RECORD);
    put_entry(&some, "data_batch_1.bin", '0', data, records(data, 0, 1));
    CHECK_FAILS(t, an_cifar_parse(t->ctx, "x", some.data, some.n, &c), AN_ERR_IO, "has no data_batch_2.bin");
    put_entry(&some, "again/data_batch_1.bin", '0', data, RECORD);
    CHECK_FAILS(t, an_cifar_parse(t->ctx, "x", some.data, some.n, &c), AN_ERR_FORMAT, "holds data_batch_1.bin twice");
    CHECK_FAILS(t, an_cifar_parse(t->ctx, "x", "", 0, &c), AN_ERR_IO, "has no data_batch_1.bin");
    CHECK_FAILS(t, an_cifar_load(t->ctx, "/nowhere/c.tar.gz", &c), AN_ERR_IO, "cannot open");
    CHECK(t, c.data == NULL);
    free(data);
    free(some.data);
}

/* Cut anywhere, and with any byte of a header changed: an error or the same images, never a crash. */
static void damaged_archives_are_survived(an_test *t)
{
    archive a = good_archive();
    for (size_t n = 0; n < a.n; n += 331) {
        an_cifar c = {0};
        if (!an_cifar_parse(t->ctx, "cut", a.data, n, &c)) CHECK(t, c.ntrain == 15);
        an_cifar_fini(&c);
        an_ctx_clear_error(t->ctx);
    }
    for (size_t i = 0; i < BLOCK; i++) {
        an_cifar c = {0};
        uint8_t *at = &a.data[BLOCK + i];
        const uint8_t kept = *at;
        *at = (uint8_t)(kept + 1 + i % 200);
        an_cifar_parse(t->ctx, "bent", a.data, a.n, &c);
        an_cifar_fini(&c);
        an_ctx_clear_error(t->ctx);
        *at = kept;
    }
    free(a.data);
}

static an_status parse(an_ctx *ctx, void *arg)
{
    const archive *a = arg;
    an_cifar c = {0};
    const an_status st = an_cifar_parse(ctx, "a.tar", a->data, a->n, &c);
    an_cifar_fini(&c);
    return st;
}

static void every_failing_allocation_is_a_clean_error(an_test *t)
{
    archive a = good_archive();
    an_test_every_alloc_failure(t, parse, &a);
    free(a.data);
}

/* The real thing in small, where it is at hand. */
static void the_subset_has_a_hundred_of_each_class_in_each_batch(an_test *t)
{
    static const char path[] = "../shared/data/cifar10-subset/cifar-10-binary-subset.tar.gz";
    an_cifar c = {0};
    size_t count[AN_CIFAR_CLASSES] = {0};
    if (access(path, R_OK) != 0) {
        printf("skipped: %s is not there\n", path);
        return;
    }
    CHECK_OK(t, an_cifar_load(t->ctx, path, &c));
    CHECK_EQ(t, c.ntrain, 5000);
    CHECK_EQ(t, c.ntest, 1000);
    for (size_t i = 0; i < 1000; i++) count[c.labels[5000 + i]]++;
    for (int i = 0; i < AN_CIFAR_CLASSES; i++) CHECK_EQ(t, count[i], 100);
    an_cifar_fini(&c);
}

AN_TEST_MAIN(AN_CASE(an_archive_is_read_in_the_order_of_its_batches), AN_CASE(a_folder_and_a_compressed_archive_are_read),
             AN_CASE(wrong_archives_are_refused_with_a_sentence), AN_CASE(damaged_archives_are_survived),
             AN_CASE(every_failing_allocation_is_a_clean_error), AN_CASE(the_subset_has_a_hundred_of_each_class_in_each_batch))
