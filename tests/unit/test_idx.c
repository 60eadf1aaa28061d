/* test_idx.c - IDX arrays, plain and gzip: good ones are read, and everything else is refused with a sentence. */
#define _POSIX_C_SOURCE 200809L /* mkstemp */
#include <anneal/io.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <zlib.h>

/* --- making files ------------------------------------------------------------------------------------- */

typedef struct buf {
    uint8_t *data;
    size_t n;
} buf;

/* An IDX array of bytes: 2 x 3 x 4, elements 0, 7, 14, ... */
static buf plain_idx(void)
{
    static const uint8_t head[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4};
    buf b = {malloc(sizeof head + 24), sizeof head + 24};
    memcpy(b.data, head, sizeof head);
    for (size_t i = 0; i < 24; i++) b.data[sizeof head + i] = (uint8_t)(7 * i);
    return b;
}

static buf gzipped(const void *data, size_t n)
{
    z_stream z = {0};
    union { /* zlib's next_in is not const */
        const void *in;
        Bytef *out;
    } from = {.in = data};
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 31, 9, Z_DEFAULT_STRATEGY), Z_OK);
    buf b = {malloc(deflateBound(&z, n) + 32), 0};
    z.next_in = from.out;
    z.avail_in = (uInt)n;
    z.next_out = b.data;
    z.avail_out = (uInt)(deflateBound(&z, n) + 32);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    b.n = z.total_out;
    deflateEnd(&z);
    return b;
}

static buf gzipped_idx(void)
{
    const buf p = plain_idx(), g = gzipped(p.data, p.n);
    free(p.data);
    return g;
}

static an_ctx *new_ctx(void)
{
    an_ctx *ctx = NULL;
    assert_int_equal(an_ctx_create(NULL, &ctx), AN_OK);
    return ctx;
}

static an_status parse(an_ctx *ctx, buf b, const an_idx_desc *desc, an_idx *x)
{
    an_ctx_clear_error(ctx);
    return an_idx_parse(ctx, "file", b.data, b.n, desc, x);
}

/* Refused with this status, and the sentence has these words. */
static void assert_refused(buf b, const an_idx_desc *desc, an_status status, const char *words)
{
    an_ctx *ctx = new_ctx();
    an_idx x = {0};
    const size_t before = an_ctx_nbytes(ctx);
    assert_int_equal(parse(ctx, b, desc, &x), status);
    assert_null(x.data);
    if (!strstr(an_ctx_error(ctx), words)) fail_msg("'%s' lacks '%s'", an_ctx_error(ctx), words);
    assert_int_equal(strncmp(an_ctx_error(ctx), "file: ", 6), 0);
    assert_int_equal(an_ctx_nbytes(ctx), before);
    an_ctx_destroy(ctx);
}

static void assert_is_sample(const an_idx *x)
{
    assert_int_equal(x->dtype, AN_U8);
    assert_int_equal(x->rank, 3);
    assert_int_equal(x->dims[0], 2);
    assert_int_equal(x->dims[1], 3);
    assert_int_equal(x->dims[2], 4);
    assert_int_equal(x->nbytes, 24);
    const uint8_t *p = x->data;
    for (size_t i = 0; i < 24; i++) assert_int_equal(p[i], (uint8_t)(7 * i));
}

/* --- good files ---------------------------------------------------------------------------------------- */

static void plain_and_gzip_give_the_same_array(void **state)
{
    (void)state;
    an_ctx *ctx = new_ctx();
    const buf p = plain_idx(), g = gzipped_idx();
    an_idx x = {0}, y = {0};
    assert_int_equal(parse(ctx, p, NULL, &x), AN_OK);
    assert_int_equal(parse(ctx, g, &(an_idx_desc){.dtype = AN_U8, .rank = 3}, &y), AN_OK);
    assert_is_sample(&x);
    assert_is_sample(&y);
    an_idx_fini(&x);
    an_idx_fini(&y);
    free(p.data);
    free(g.data);
    an_ctx_destroy(ctx);
}

static void a_file_on_disk_reads_like_memory(void **state)
{
    (void)state;
    an_ctx *ctx = new_ctx();
    const buf g = gzipped_idx();
    char path[] = "/tmp/anneal-test-idx-XXXXXX";
    const int fd = mkstemp(path);
    an_idx x = {0};
    assert_true(fd >= 0);
    assert_int_equal(write(fd, g.data, g.n), (ssize_t)g.n);
    close(fd);
    assert_int_equal(an_idx_load(ctx, path, NULL, &x), AN_OK);
    assert_is_sample(&x);
    an_idx_fini(&x);
    unlink(path);
    assert_int_equal(an_idx_load(ctx, path, NULL, &x), AN_ERR_IO);
    assert_non_null(strstr(an_ctx_error(ctx), path));
    an_ctx_clear_error(ctx);
    assert_int_equal(an_idx_load(ctx, "/tmp", NULL, &x), AN_ERR_IO);
    assert_non_null(strstr(an_ctx_error(ctx), "directory"));
    free(g.data);
    an_ctx_destroy(ctx);
}

static void wide_elements_come_in_the_byte_order_of_the_machine(void **state)
{
    (void)state;
    static uint8_t i16[] = {0, 0, 0x0b, 1, 0, 0, 0, 2, 0x12, 0x34, 0xff, 0xfe};
    static uint8_t f32[] = {0, 0, 0x0d, 1, 0, 0, 0, 1, 0x3f, 0xc0, 0, 0};
    static uint8_t f64[] = {0, 0, 0x0e, 1, 0, 0, 0, 1, 0xc0, 0x04, 0, 0, 0, 0, 0, 0};
    an_ctx *ctx = new_ctx();
    an_idx x = {0};
    assert_int_equal(parse(ctx, (buf){i16, sizeof i16}, NULL, &x), AN_OK);
    assert_int_equal(((int16_t *)x.data)[0], 0x1234);
    assert_int_equal(((int16_t *)x.data)[1], -2);
    an_idx_fini(&x);
    assert_int_equal(parse(ctx, (buf){f32, sizeof f32}, NULL, &x), AN_OK);
    assert_true(*(float *)x.data == 1.5f);
    an_idx_fini(&x);
    assert_int_equal(parse(ctx, (buf){f64, sizeof f64}, NULL, &x), AN_OK);
    assert_true(*(double *)x.data == -2.5);
    an_idx_fini(&x);
    an_ctx_destroy(ctx);
}

static void an_array_of_nothing_is_an_array(void **state)
{
    (void)state;
    static uint8_t none[] = {0, 0, 8, 2, 0, 0, 0, 0, 0, 0, 0, 9};
    an_ctx *ctx = new_ctx();
    an_idx x = {0};
    assert_int_equal(parse(ctx, (buf){none, sizeof none}, NULL, &x), AN_OK);
    assert_int_equal(x.nbytes, 0);
    an_idx_fini(&x);
    an_ctx_destroy(ctx);
}

static void gzip_members_one_after_another_are_one_file(void **state)
{
    (void)state;
    an_ctx *ctx = new_ctx();
    const buf p = plain_idx(), a = gzipped(p.data, 20), b = gzipped(p.data + 20, p.n - 20);
    buf both = {malloc(a.n + b.n), a.n + b.n};
    an_idx x = {0};
    memcpy(both.data, a.data, a.n);
    memcpy(both.data + a.n, b.data, b.n);
    assert_int_equal(parse(ctx, both, NULL, &x), AN_OK);
    assert_is_sample(&x);
    an_idx_fini(&x);
    free(p.data);
    free(a.data);
    free(b.data);
    free(both.data);
    an_ctx_destroy(ctx);
}

/* --- damage ----------------------------------------------------------------------------------------------- */

static void truncation_at_every_byte_is_refused(void **state)
{
    (void)state;
    const buf p = plain_idx(), g = gzipped_idx();
    char words[64];
    for (size_t n = 0; n < p.n; n++) {
        if (n < 16) /* inside the header */
            snprintf(words, sizeof words, "ends at byte %zu", n);
        else
            snprintf(words, sizeof words, "2 x 3 x 4");
        assert_refused((buf){p.data, n}, NULL, AN_ERR_FORMAT, words);
    }
    for (size_t n = 2; n < g.n; n++) {
        snprintf(words, sizeof words, "truncated: it ends at byte %zu", n);
        assert_refused((buf){g.data, n}, NULL, AN_ERR_FORMAT, words);
    }
    assert_refused((buf){g.data, 1}, NULL, AN_ERR_FORMAT, "truncated");
    free(p.data);
    free(g.data);
}

/* A flip in gzip's time stamp or in a flag that changes nothing does no harm; every other one must be noticed. */
static void no_flipped_bit_of_a_gzip_gives_wrong_data(void **state)
{
    (void)state;
    const buf g = gzipped_idx();
    an_ctx *ctx = new_ctx();
    size_t refused = 0;
    for (size_t bit = 0; bit < 8 * g.n; bit++) {
        an_idx x = {0};
        g.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        const an_status st = parse(ctx, g, NULL, &x);
        if (st == AN_OK)
            assert_is_sample(&x);
        else
            assert_int_equal(st, AN_ERR_FORMAT);
        refused += st != AN_OK;
        an_idx_fini(&x);
        g.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_true(refused > 8 * (g.n - 10)); /* all of the body and the checksums, and some of the header */
    free(g.data);
    an_ctx_destroy(ctx);
}

static void corruption_names_the_byte(void **state)
{
    (void)state;
    const buf g = gzipped_idx();
    g.data[g.n - 8] ^= 1; /* CRC-32 */
    assert_refused(g, NULL, AN_ERR_FORMAT, "corrupt at byte ");
    free(g.data);
}

static void what_follows_the_data_is_refused(void **state)
{
    (void)state;
    const buf p = plain_idx(), g = gzipped_idx();
    const buf longer = {realloc(p.data, p.n + 1), p.n + 1}, longer_gz = {realloc(g.data, g.n + 1), g.n + 1};
    longer.data[p.n] = 1;
    longer_gz.data[g.n] = 1;
    assert_refused(longer, NULL, AN_ERR_FORMAT, "goes on after the 24 bytes");
    assert_refused(longer_gz, NULL, AN_ERR_FORMAT, "something follows the gzip data");
    free(longer.data);
    free(longer_gz.data);
}

/* --- headers ------------------------------------------------------------------------------------------------ */

static void a_header_that_lies_is_refused(void **state)
{
    (void)state;
    const buf p = plain_idx();
    p.data[7] = 3; /* one more image than there is */
    assert_refused(p, NULL, AN_ERR_FORMAT, "3 x 3 x 4");
    const buf more_gz = gzipped(p.data, p.n);
    assert_refused(more_gz, NULL, AN_ERR_FORMAT, "claims 36 bytes of elements, but only 24");
    p.data[7] = 1; /* one less */
    assert_refused(p, NULL, AN_ERR_FORMAT, "goes on after the 12 bytes");
    const buf less_gz = gzipped(p.data, p.n);
    assert_refused(less_gz, NULL, AN_ERR_FORMAT, "goes on after the 12 bytes");
    memset(p.data + 4, 0xff, 12); /* a size that no machine has: the product overflows */
    assert_refused(p, NULL, AN_ERR_FORMAT, "more than its 40 bytes can hold");
    free(p.data);
    free(more_gz.data);
    free(less_gz.data);
}

static void a_wrong_magic_number_is_refused(void **state)
{
    (void)state;
    static const struct {
        size_t at;
        uint8_t value;
        const char *words;
    } cases[] = {{0, 1, "starts with 01 00 08 03"}, {1, 9, "starts with 00 09 08 03"}, {2, 7, "starts with 00 00 07 03"},
                 {3, 0, "byte 3 claims 0 dimensions"}, {3, 9, "byte 3 claims 9 dimensions"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const buf p = plain_idx();
        p.data[cases[i].at] = cases[i].value;
        assert_refused(p, NULL, AN_ERR_FORMAT, cases[i].words);
        free(p.data);
    }
}

static void another_dtype_or_rank_than_asked_for_is_refused(void **state)
{
    (void)state;
    const buf p = plain_idx();
    assert_refused(p, &(an_idx_desc){.dtype = AN_F32}, AN_ERR_DTYPE, "holds u8 where f32");
    assert_refused(p, &(an_idx_desc){.rank = 1}, AN_ERR_SHAPE, "3 dimensions where 1");
    free(p.data);
}

/* --- bombs and memory --------------------------------------------------------------------------------------- */

static void a_small_file_cannot_ask_for_much_memory(void **state)
{
    (void)state;
    static uint8_t claim[] = {0, 0, 8, 1, 0x3f, 0xff, 0xff, 0xff}; /* 1 GiB less a byte */
    const buf g = gzipped(claim, sizeof claim);
    an_ctx *ctx = new_ctx();
    an_idx x = {0};
    assert_int_equal(parse(ctx, g, NULL, &x), AN_ERR_FORMAT);
    assert_true(an_ctx_peak_nbytes(ctx) < 1 << 20);
    free(g.data);
    an_ctx_destroy(ctx);
}

static void a_bomb_stops_at_the_limit_or_at_its_header(void **state)
{
    (void)state;
    const size_t n = 20 << 20; /* 20 MiB of zeros: 20 kB of gzip */
    buf big = {calloc(1, n + 8), n + 8};
    const uint8_t head[] = {0, 0, 8, 1, 0x01, 0x40, 0, 0};
    memcpy(big.data, head, sizeof head);
    const buf honest = gzipped(big.data, big.n);
    assert_refused(honest, &(an_idx_desc){.nbytes_max = 1 << 20}, AN_ERR_LIMIT, "more than the 1048576 bytes allowed");
    memset(big.data + 4, 0, 4); /* claims nothing, sends all the same */
    const buf liar = gzipped(big.data, big.n);
    an_ctx *ctx = new_ctx();
    an_idx x = {0};
    assert_int_equal(parse(ctx, liar, NULL, &x), AN_ERR_FORMAT);
    assert_true(an_ctx_peak_nbytes(ctx) < 1 << 20);
    an_ctx_destroy(ctx);
    free(big.data);
    free(honest.data);
    free(liar.data);
}

typedef struct failing {
    size_t calls, fail_at, held;
} failing;

static void *failing_realloc(void *user, void *ptr, size_t old_size, size_t new_size)
{
    failing *f = user;
    if (new_size > 0 && ++f->calls == f->fail_at) return NULL;
    f->held += new_size - old_size;
    if (new_size == 0) {
        free(ptr);
        return NULL;
    }
    return realloc(ptr, new_size);
}

static void every_failing_allocation_is_a_clean_error(void **state)
{
    (void)state;
    const buf g = gzipped_idx();
    bool worked = false;
    for (size_t n = 2; !worked; n++) { /* the first makes the context */
        failing f = {.fail_at = n};
        an_ctx *ctx = NULL;
        an_idx x = {0};
        const an_allocator a = {failing_realloc, &f};
        assert_int_equal(an_ctx_create(&(an_ctx_desc){.allocator = &a}, &ctx), AN_OK);
        const an_status st = parse(ctx, g, NULL, &x);
        worked = st == AN_OK;
        if (!worked) {
            assert_int_equal(st, AN_ERR_NOMEM);
            assert_non_null(strstr(an_ctx_error(ctx), "memory"));
        }
        an_idx_fini(&x);
        an_ctx_destroy(ctx);
        assert_int_equal(f.held, 0);
        assert_true(n < 50);
    }
    free(g.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_and_gzip_give_the_same_array),
        cmocka_unit_test(a_file_on_disk_reads_like_memory),
        cmocka_unit_test(wide_elements_come_in_the_byte_order_of_the_machine),
        cmocka_unit_test(an_array_of_nothing_is_an_array),
        cmocka_unit_test(gzip_members_one_after_another_are_one_file),
        cmocka_unit_test(truncation_at_every_byte_is_refused),
        cmocka_unit_test(no_flipped_bit_of_a_gzip_gives_wrong_data),
        cmocka_unit_test(corruption_names_the_byte),
        cmocka_unit_test(what_follows_the_data_is_refused),
        cmocka_unit_test(a_header_that_lies_is_refused),
        cmocka_unit_test(a_wrong_magic_number_is_refused),
        cmocka_unit_test(another_dtype_or_rank_than_asked_for_is_refused),
        cmocka_unit_test(a_small_file_cannot_ask_for_much_memory),
        cmocka_unit_test(a_bomb_stops_at_the_limit_or_at_its_header),
        cmocka_unit_test(every_failing_allocation_is_a_clean_error),
    };
    return cmocka_run_group_tests_name("idx", tests, NULL, NULL);
}
