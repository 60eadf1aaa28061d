/* test_png.c - pictures written, read back by a reader of this test's own: chunks, CRC, inflating, filters undone. */
#include "an_test.h"

#include "base/base.h"
#include <anneal/io.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

static uint32_t get32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static int guess(int filter, int a, int b, int c)
{
    if (filter == 0) return 0;
    if (filter == 1) return a;
    if (filter == 2) return b;
    if (filter == 3) return (a + b) / 2;
    const int p = a + b - c, pa = abs(p - a), pb = abs(p - b), pc = abs(p - c);
    if (pa <= pb && pa <= pc) return a;
    return pb <= pc ? b : c;
}

/* Checks the file against p, byte for byte; returns a bit set of the filters it used. */
static unsigned check_png(an_test *t, const char *path, const an_picture *p)
{
    an_bytes b = {0};
    unsigned used = 0;
    CHECK_OK(t, an_file_read(t->ctx, path, 1 << 24, &b));
    CHECK(t, b.nbytes > 8 && memcmp(b.data, "\x89PNG\r\n\x1a\n", 8) == 0);
    const size_t row = (size_t)p->width * p->channels;
    uint8_t *rows = malloc((row + 1) * p->height);
    uLongf nrows = (uLongf)((row + 1) * p->height);
    int chunk = 0;
    for (size_t at = 8; at < b.nbytes; chunk++) {
        static const char *const order[] = {"IHDR", "IDAT", "IEND"};
        const uint32_t n = get32(b.data + at);
        const uint8_t *name = b.data + at + 4, *data = name + 4;
        CHECK(t, at + 12 + n <= b.nbytes && chunk < 3 && memcmp(name, order[chunk], 4) == 0);
        CHECK(t, get32(data + n) == (uint32_t)crc32(0, name, n + 4));
        if (chunk == 0) {
            CHECK_EQ(t, get32(data), p->width);
            CHECK_EQ(t, get32(data + 4), p->height);
            CHECK_EQ(t, data[8], 8);
            CHECK_EQ(t, data[9], p->channels == 3 ? 2 : 0);
        }
        if (chunk == 1) CHECK_EQ(t, uncompress(rows, &nrows, data, n), Z_OK);
        at += 12 + n;
    }
    CHECK_EQ(t, chunk, 3);
    CHECK_EQ(t, nrows, (row + 1) * p->height);
    for (size_t y = 0; y < p->height; y++) {
        uint8_t *now = rows + y * (row + 1) + 1, *above = now - row - 1;
        const int filter = now[-1];
        used |= 1u << filter;
        for (size_t i = 0; i < row; i++) {
            const size_t c = p->channels;
            const int left = i >= c ? now[i - c] : 0, up = y ? above[i] : 0, corner = y && i >= c ? above[i - c] : 0;
            now[i] = (uint8_t)(now[i] + guess(filter, left, up, corner));
        }
        CHECK(t, memcmp(now, p->data + y * row, row) == 0);
    }
    free(rows);
    an_bytes_fini(&b);
    return used;
}

static void pictures_come_back_as_they_were(an_test *t)
{
    static const uint32_t sizes[][2] = {{1, 1}, {7, 3}, {64, 50}, {3, 129}};
    const char *path = "/tmp/an_test_png.png";
    unsigned used = 0;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (uint32_t channels = 1; channels <= 3; channels += 2)
            for (int kind = 0; kind < 3; kind++) {
                const uint32_t w = sizes[s][0], h = sizes[s][1];
                uint8_t *data = malloc((size_t)w * h * channels);
                uint32_t noise = 1;
                for (uint32_t i = 0; i < w * h * channels; i++) {
                    const uint32_t x = i / channels % w, y = i / channels / w;
                    noise = noise * 1664525u + 1013904223u;
                    data[i] = (uint8_t)(kind == 0 ? noise >> 24 : kind == 1 ? 3 * x + 2 * y + (noise >> 30) : y * y);
                }
                const an_picture p = {w, h, channels, data};
                CHECK_OK(t, an_png_write(t->ctx, path, &p));
                used |= check_png(t, path, &p);
                free(data);
            }
    unlink(path);
    CHECK(t, (used & (used - 1)) != 0); /* the rows are not all of one filter: the choice is made */
}

static void pictures_that_cannot_be_are_refused(an_test *t)
{
    const uint8_t data[4] = {0};
    CHECK_FAILS(t, an_png_write(t->ctx, "/tmp/x.png", &(an_picture){0, 1, 1, data}), AN_ERR_ARG, "0 x 1");
    CHECK_FAILS(t, an_png_write(t->ctx, "/tmp/x.png", &(an_picture){1, 1, 2, data}), AN_ERR_ARG, "2 channels");
    CHECK_FAILS(t, an_png_write(t->ctx, "/tmp/x.png", &(an_picture){1, 70000, 1, data}), AN_ERR_ARG, "70000");
    CHECK_FAILS(t, an_png_write(t->ctx, "/nowhere/x.png", &(an_picture){1, 1, 1, data}), AN_ERR_IO, "/nowhere/x.png");
}

static an_status write_one(an_ctx *ctx, void *arg)
{
    const uint8_t data[12] = {1, 2, 3};
    return an_png_write(ctx, arg, &(an_picture){2, 2, 3, data});
}

static void every_failing_allocation_is_a_clean_error(an_test *t)
{
    char path[] = "/tmp/an_test_png2.png";
    an_test_every_alloc_failure(t, write_one, path);
    unlink(path);
}

AN_TEST_MAIN(AN_CASE(pictures_come_back_as_they_were), AN_CASE(pictures_that_cannot_be_are_refused),
             AN_CASE(every_failing_allocation_is_a_clean_error))
