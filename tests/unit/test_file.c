/* test_file.c - whole reads, atomic writes, SHA-256 and shuffling. */
#define _DEFAULT_SOURCE /* mkdtemp */
#include <anneal/io.h>

#include "base/threefry.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct room {
    an_ctx *ctx;
    char dir[64], path[96];
} room;

static int set_up(void **state)
{
    room *r = calloc(1, sizeof *r);
    snprintf(r->dir, sizeof r->dir, "/tmp/anneal-test-XXXXXX");
    if (!mkdtemp(r->dir) || an_ctx_create(NULL, &r->ctx)) return -1;
    snprintf(r->path, sizeof r->path, "%s/file", r->dir);
    *state = r;
    return 0;
}

static int tear_down(void **state)
{
    room *r = *state;
    unlink(r->path);
    const int left = rmdir(r->dir); /* fails when something else was left behind */
    an_ctx_destroy(r->ctx);
    free(r);
    return left;
}

static size_t files_in(const char *path)
{
    size_t n = 0;
    DIR *d = opendir(path);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;) n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static void what_is_written_is_read_back(void **state)
{
    room *r = *state;
    an_bytes b = {0};
    assert_int_equal(an_file_write(r->ctx, r->path, "one\0two", 7), AN_OK);
    assert_int_equal(an_file_read(r->ctx, r->path, 7, &b), AN_OK);
    assert_int_equal(b.nbytes, 7);
    assert_memory_equal(b.data, "one\0two", 8); /* the 0 byte behind it as well */
    an_bytes_fini(&b);
    assert_int_equal(an_file_read(r->ctx, r->path, 6, &b), AN_ERR_LIMIT);
    assert_non_null(strstr(an_ctx_error(r->ctx), "more than the 6 allowed"));
    an_ctx_clear_error(r->ctx);
    assert_int_equal(an_file_read(r->ctx, r->dir, 100, &b), AN_ERR_IO);
    assert_int_equal(files_in(r->dir), 1);
}

static void an_aborted_write_leaves_the_old_file(void **state)
{
    room *r = *state;
    an_atomic_file *f = NULL;
    an_bytes b = {0};
    assert_int_equal(an_file_write(r->ctx, r->path, "old", 3), AN_OK);
    assert_int_equal(an_atomic_open(r->ctx, r->path, &f), AN_OK);
    assert_int_equal(an_atomic_write(f, "half", 4), AN_OK);
    assert_int_equal(files_in(r->dir), 2); /* beside it */
    an_atomic_abort(f);
    assert_int_equal(files_in(r->dir), 1);
    assert_int_equal(an_file_read(r->ctx, r->path, 100, &b), AN_OK);
    assert_memory_equal(b.data, "old", 4);
    an_bytes_fini(&b);
}

static void a_commit_that_cannot_rename_leaves_nothing(void **state)
{
    room *r = *state;
    an_atomic_file *f = NULL;
    assert_int_equal(an_atomic_open(r->ctx, r->path, &f), AN_OK);
    assert_int_equal(an_atomic_write(f, "new", 3), AN_OK);
    assert_int_equal(mkdir(r->path, 0777), 0); /* a folder took the name */
    assert_int_equal(an_atomic_commit(f), AN_ERR_IO);
    assert_non_null(strstr(an_ctx_error(r->ctx), r->path));
    assert_int_equal(files_in(r->dir), 1);
    assert_int_equal(rmdir(r->path), 0);
}

static void a_folder_that_is_not_there_is_an_error(void **state)
{
    room *r = *state;
    char path[128];
    snprintf(path, sizeof path, "%s/no/file", r->dir);
    assert_int_equal(an_file_write(r->ctx, path, "x", 1), AN_ERR_IO);
    assert_non_null(strstr(an_ctx_error(r->ctx), path));
}

static void written_files_have_the_mode_of_the_umask(void **state)
{
    room *r = *state;
    struct stat info;
    const mode_t old = umask(027);
    assert_int_equal(an_file_write(r->ctx, r->path, "x", 1), AN_OK);
    umask(old);
    assert_int_equal(stat(r->path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640);
}

static void folders_are_made_with_those_above(void **state)
{
    room *r = *state;
    char deep[128], mid[128];
    snprintf(mid, sizeof mid, "%s/a", r->dir);
    snprintf(deep, sizeof deep, "%s/a/b/", r->dir);
    assert_int_equal(an_dir_create(r->ctx, deep), AN_OK);
    assert_int_equal(an_dir_create(r->ctx, deep), AN_OK); /* again */
    assert_int_equal(rmdir(deep), 0);
    assert_int_equal(rmdir(mid), 0);
    assert_int_equal(an_file_write(r->ctx, r->path, "x", 1), AN_OK);
    snprintf(deep, sizeof deep, "%s/below", r->path);
    assert_int_equal(an_dir_create(r->ctx, deep), AN_ERR_IO); /* a file is in the way */
}

/* FIPS 180-4's examples, and a million times 'a'. */
static void sha256_gives_the_published_digests(void **state)
{
    room *r = *state;
    static const struct {
        const char *text, *hex;
    } known[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };
    char hex[AN_SHA256_HEX];
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        assert_int_equal(an_sha256(r->ctx, known[i].text, strlen(known[i].text), hex), AN_OK);
        assert_string_equal(hex, known[i].hex);
    }
    char *many = malloc(1000000);
    memset(many, 'a', 1000000);
    assert_int_equal(an_file_write(r->ctx, r->path, many, 1000000), AN_OK);
    free(many);
    assert_int_equal(an_sha256_file(r->ctx, r->path, hex), AN_OK);
    assert_string_equal(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* Random123's kat_vectors, threefry2x32 20. */
static void threefry_gives_the_published_vectors(void **state)
{
    (void)state;
    static const struct {
        uint32_t ctr[2], key[2], out[2];
    } known[] = {
        {{0, 0}, {0, 0}, {0x6b200159u, 0x99ba4efeu}},
        {{0xffffffffu, 0xffffffffu}, {0xffffffffu, 0xffffffffu}, {0x1cb996fcu, 0xbb002be7u}},
        {{0x243f6a88u, 0x85a308d3u}, {0x13198a2eu, 0x03707344u}, {0xc4923a9cu, 0x483df7a0u}},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        uint32_t out[2];
        an_threefry(known[i].key, known[i].ctr, out);
        assert_int_equal(out[0], known[i].out[0]);
        assert_int_equal(out[1], known[i].out[1]);
    }
}

static void a_shuffle_is_a_permutation_that_depends_on_seed_and_epoch(void **state)
{
    (void)state;
    enum { N = 1000 };
    uint32_t a[N], b[N], seen[N] = {0};
    an_shuffle(7, 0, N, a);
    for (int i = 0; i < N; i++) {
        assert_true(a[i] < N);
        seen[a[i]]++;
    }
    for (int i = 0; i < N; i++) assert_int_equal(seen[i], 1);
    an_shuffle(7, 0, N, b);
    assert_memory_equal(a, b, sizeof a);
    an_shuffle(8, 0, N, b);
    assert_memory_not_equal(a, b, sizeof a);
    an_shuffle(7, 1, N, b);
    assert_memory_not_equal(a, b, sizeof a);
    an_shuffle(7, 0, 0, NULL);
}

/* Each of the 24 orders of four comes about as often as any other: chi-square, 23 degrees, 1 in 10^5 at 62. */
static void a_shuffle_favours_no_order(void **state)
{
    (void)state;
    enum { RUNS = 24000, EACH = RUNS / 24 };
    uint32_t count[256] = {0}, p[4], orders = 0;
    double chi = 0;
    for (uint32_t epoch = 0; epoch < RUNS; epoch++) {
        an_shuffle(3, epoch, 4, p);
        count[p[0] | p[1] << 2 | p[2] << 4 | p[3] << 6]++;
    }
    for (int i = 0; i < 256; i++) {
        const double d = (double)count[i] - (double)EACH;
        if (count[i] == 0) continue;
        chi += d * d / (double)EACH;
        orders++;
    }
    assert_int_equal(orders, 24);
    assert_true(chi < 62);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_written_is_read_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_aborted_write_leaves_the_old_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_commit_that_cannot_rename_leaves_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_folder_that_is_not_there_is_an_error, set_up, tear_down),
        cmocka_unit_test_setup_teardown(written_files_have_the_mode_of_the_umask, set_up, tear_down),
        cmocka_unit_test_setup_teardown(folders_are_made_with_those_above, set_up, tear_down),
        cmocka_unit_test_setup_teardown(sha256_gives_the_published_digests, set_up, tear_down),
        cmocka_unit_test(threefry_gives_the_published_vectors),
        cmocka_unit_test(a_shuffle_is_a_permutation_that_depends_on_seed_and_epoch),
        cmocka_unit_test(a_shuffle_favours_no_order),
    };
    return cmocka_run_group_tests_name("file", tests, NULL, NULL);
}
