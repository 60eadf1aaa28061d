/* The folder of packs: values on disk by key, whatever happens to the files. */
#define _XOPEN_SOURCE 700 /* utimes, fork */
#include "an_test.h"
#include "base/disk.h"
#include "folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { FILES = 64 };
static char files[FILES][TEST_PATH_SIZE];

static an_key key(uint64_t n)
{
    return an_key_mix(an_key_of("test", 4), n);
}

typedef struct sandbox {
    char base[TEST_PATH_SIZE], folder[TEST_PATH_SIZE + 16];
    an_disk *store;
} sandbox;

static void reopen(an_test *t, sandbox *b, uint64_t limit)
{
    an_disk_close(b->store);
    b->store = NULL;
    CHECK_OK(t, an_disk_open(t->ctx, b->folder, limit, &b->store));
    CHECK_OK(t, an_disk_refresh(b->store));
}

static void open_sandbox(an_test *t, sandbox *b, uint64_t limit)
{
    b->store = NULL;
    an_test_folder(b->base);
    (void)snprintf(b->folder, sizeof b->folder, "%s/a/b", b->base);
    reopen(t, b, limit);
}

static void close_sandbox(sandbox *b)
{
    an_disk_close(b->store);
    an_test_folder_remove(b->base);
}

/* The value under key n is that text; NULL: there is none. */
static void check_value(an_test *t, sandbox *b, uint64_t n, const char *want)
{
    void *data = NULL;
    size_t nbytes = 0;
    CHECK_OK(t, an_disk_get(b->store, key(n), &data, &nbytes));
    CHECK(t, (data != NULL) == (want != NULL));
    if (!want) return;
    CHECK_EQ(t, nbytes, strlen(want));
    CHECK(t, memcmp(data, want, nbytes) == 0);
    an_mem_free(t->ctx, data, nbytes);
}

static void put(an_test *t, sandbox *b, uint64_t n, const char *text)
{
    const an_disk_item item = {key(n), text, strlen(text)};
    CHECK_OK(t, an_disk_put(b->store, &item, 1));
}

static void what_is_put_is_got_by_the_next_process(an_test *t)
{
    sandbox b;
    open_sandbox(t, &b, 1 << 20);
    check_value(t, &b, 1, NULL);
    const an_disk_item items[3] = {{key(1), "one", 3}, {key(2), "", 0}, {key(3), "three", 5}};
    CHECK_OK(t, an_disk_put(b.store, items, 3));
    reopen(t, &b, 1 << 20);
    check_value(t, &b, 1, "one");
    check_value(t, &b, 2, "");
    check_value(t, &b, 3, "three");
    check_value(t, &b, 4, NULL);
    CHECK_EQ(t, an_test_files(b.folder, ".pack", files, FILES), 1);
    CHECK_EQ(t, an_test_files(b.folder, "", files, FILES), 3); /* . and .. */
    struct stat info;
    CHECK(t, stat(b.folder, &info) == 0 && (info.st_mode & 0777) == 0700);
    close_sandbox(&b);
}

static void what_is_put_is_got_without_a_look_at_the_folder(an_test *t)
{
    sandbox b;
    open_sandbox(t, &b, 1 << 20);
    put(t, &b, 1, "one");
    CHECK_OK(t, an_disk_refresh(b.store));
    for (uint64_t i = 2; i < 5; i++) {
        put(t, &b, i, "more");
        check_value(t, &b, i, "more");
    }
    check_value(t, &b, 1, "one");
    close_sandbox(&b);
}

/* Each counts the folder now and then only; together they stay near the limit. */
static void two_that_put_in_turn_stay_near_the_limit(an_test *t)
{
    enum { SIZE = 1000, LIMIT = 20 * (SIZE + 100) };
    static char value[SIZE];
    sandbox b;
    an_disk *other = NULL;
    memset(value, 'x', SIZE);
    open_sandbox(t, &b, LIMIT);
    CHECK_OK(t, an_disk_open(t->ctx, b.folder, LIMIT, &other));
    for (uint64_t i = 0; i < 200; i++) {
        const an_disk_item item = {key(i), value, SIZE};
        CHECK_OK(t, an_disk_put(i % 2 ? other : b.store, &item, 1));
        CHECK(t, an_test_files(b.folder, ".pack", files, FILES) <= 20 + 20 / 4);
    }
    an_disk_close(other);
    close_sandbox(&b);
}

static void refresh_sees_what_others_put(an_test *t)
{
    sandbox b;
    an_disk *other = NULL;
    open_sandbox(t, &b, 1 << 20);
    CHECK_OK(t, an_disk_open(t->ctx, b.folder, 1 << 20, &other));
    for (uint64_t i = 0; i < 300; i++) {
        char text[16];
        const an_disk_item item = {key(i), text, (size_t)snprintf(text, sizeof text, "v%llu", (unsigned long long)i)};
        CHECK_OK(t, an_disk_put(other, &item, 1));
        if (i % 60) continue;
        CHECK_OK(t, an_disk_refresh(b.store));
        check_value(t, &b, i, text);
    }
    an_disk_close(other);
    reopen(t, &b, 1 << 20);
    for (uint64_t i = 0; i < 300; i++) {
        char text[16];
        (void)snprintf(text, sizeof text, "v%llu", (unsigned long long)i);
        check_value(t, &b, i, text);
    }
    close_sandbox(&b);
}

/* Warnings, counted. */
static void count_warning(void *user, const char *text)
{
    CHECK_CONTAINS((an_test *)NULL, text, "cache: ");
    ++*(int *)user;
}

static void no_damage_gives_a_wrong_value(an_test *t)
{
    static unsigned char good[4096], bad[4096];
    sandbox b;
    open_sandbox(t, &b, 1 << 20);
    const an_disk_item items[2] = {{key(1), "the first value", 15}, {key(2), "the second", 10}};
    CHECK_OK(t, an_disk_put(b.store, items, 2));
    CHECK_EQ(t, an_test_files(b.folder, ".pack", files, FILES), 1);
    const size_t n = an_test_file_read(files[0], good, sizeof good);
    /* one bit of each byte; then every length; then another kind of file */
    for (size_t i = 0; i < 2 * n + 1; i++) {
        int warned = 0;
        an_test u = {0};
        const an_ctx_desc desc = {.warn = count_warning, .warn_user = &warned};
        size_t len = n;
        memcpy(bad, good, n);
        if (i < n)
            bad[i] = (unsigned char)(bad[i] ^ 1 << i % 8);
        else if (i < 2 * n)
            len = i - n;
        else
            len = (size_t)snprintf((char *)bad, sizeof bad, "%s", "{\"this\": \"is not a pack\"}");
        an_test_file_write(files[0], bad, len);
        CHECK_OK(t, an_ctx_create(&desc, &u.ctx));
        an_disk *s = NULL;
        CHECK_OK(t, an_disk_open(u.ctx, b.folder, 1 << 20, &s));
        CHECK_OK(t, an_disk_refresh(s));
        size_t found = 0;
        for (size_t k = 0; k < 2; k++) {
            void *data = NULL;
            size_t nbytes = 0;
            CHECK_OK(t, an_disk_get(s, items[k].key, &data, &nbytes));
            if (!data) continue;
            CHECK(t, nbytes == items[k].nbytes && memcmp(data, items[k].data, nbytes) == 0);
            an_mem_free(u.ctx, data, nbytes);
            found++;
        }
        CHECK(t, found < 2); /* some value is gone */
        CHECK_EQ(t, warned, 1);
        CHECK_EQ(t, an_test_files(b.folder, ".pack", files, FILES), 0); /* deleted */
        CHECK_OK(t, an_disk_put(s, items, 2));                         /* and made again */
        CHECK_EQ(t, an_test_files(b.folder, ".pack", files, FILES), 1);
        CHECK_EQ(t, an_test_file_read(files[0], bad, sizeof bad), n);
        CHECK(t, memcmp(good, bad, n) == 0);
        an_disk_close(s);
        an_ctx_destroy(u.ctx);
    }
    close_sandbox(&b);
}

static void the_oldest_go_when_there_is_too_much(an_test *t)
{
    enum { N = 12, SIZE = 10000 };
    static char value[SIZE + 1];
    sandbox b;
    memset(value, 'x', SIZE);
    open_sandbox(t, &b, 8 * SIZE);
    for (uint64_t i = 0; i < N; i++) {
        value[0] = (char)('a' + i);
        put(t, &b, i, value);
        /* ages as if a minute lay between them */
        const size_t n = an_test_files(b.folder, ".pack", files, FILES);
        CHECK(t, n * SIZE <= 8 * SIZE);
        CHECK_OK(t, an_disk_refresh(b.store));
        for (size_t k = 0; k < n; k++) {
            struct timeval when[2] = {{0}};
            struct stat info;
            CHECK(t, stat(files[k], &info) == 0);
            if (time(NULL) - info.st_mtime > 100000) continue; /* has its age */
            when[0].tv_sec = when[1].tv_sec = time(NULL) - 10000000 + 60 * (time_t)i;
            CHECK(t, utimes(files[k], when) == 0);
        }
    }
    reopen(t, &b, 8 * SIZE);
    value[0] = 'a';
    check_value(t, &b, 0, NULL);
    value[0] = (char)('a' + N - 1);
    check_value(t, &b, N - 1, value);
    close_sandbox(&b);
}

static void using_a_value_makes_it_young(an_test *t)
{
    sandbox b;
    struct stat info;
    const struct timeval old[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    open_sandbox(t, &b, 1 << 20);
    put(t, &b, 1, "value");
    CHECK_EQ(t, an_test_files(b.folder, ".pack", files, FILES), 1);
    CHECK(t, utimes(files[0], old) == 0);
    CHECK_OK(t, an_disk_refresh(b.store));
    check_value(t, &b, 1, "value");
    CHECK(t, stat(files[0], &info) == 0 && info.st_mtime > 1500000000);
    close_sandbox(&b);
}

static void a_value_larger_than_all_is_not_kept(an_test *t)
{
    static char value[2001];
    sandbox b;
    memset(value, 'x', 2000);
    open_sandbox(t, &b, 1000);
    put(t, &b, 1, value);
    CHECK_EQ(t, an_test_files(b.folder, ".pack", files, FILES), 0);
    close_sandbox(&b);
}

static void what_a_dead_process_left_is_removed(an_test *t)
{
    sandbox b;
    char path[TEST_PATH_SIZE + 40];
    const struct timeval old[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    open_sandbox(t, &b, 1 << 20);
    put(t, &b, 1, "value");
    for (int i = 0; i < 2; i++) {
        (void)snprintf(path, sizeof path, "%s/.new-%d", b.folder, i);
        an_test_file_write(path, "half a pa", 9);
        if (i == 0) CHECK(t, utimes(path, old) == 0);
    }
    reopen(t, &b, 1 << 20); /* the first put of a process looks */
    put(t, &b, 2, "another");
    CHECK_EQ(t, access(path, F_OK), 0); /* this one may be written just now */
    (void)snprintf(path, sizeof path, "%s/.new-0", b.folder);
    CHECK(t, access(path, F_OK) != 0);
    close_sandbox(&b);
}

static void a_folder_others_can_write_is_not_used(an_test *t)
{
    sandbox b;
    int warned = 0;
    an_ctx *ctx = NULL;
    const an_ctx_desc desc = {.warn = count_warning, .warn_user = &warned};
    open_sandbox(t, &b, 1 << 20);
    put(t, &b, 1, "value");
    CHECK(t, chmod(b.folder, 0777) == 0);
    CHECK_OK(t, an_ctx_create(&desc, &ctx));
    an_disk *s = NULL;
    void *data = NULL;
    size_t nbytes = 0;
    const an_disk_item item = {key(2), "more", 4};
    CHECK_OK(t, an_disk_open(ctx, b.folder, 1 << 20, &s));
    CHECK_OK(t, an_disk_refresh(s));
    CHECK_OK(t, an_disk_get(s, key(1), &data, &nbytes));
    CHECK(t, !data);
    CHECK_OK(t, an_disk_put(s, &item, 1));
    CHECK_EQ(t, an_test_files(b.folder, ".pack", files, FILES), 1);
    CHECK_EQ(t, warned, 1);
    an_disk_close(s);
    an_ctx_destroy(ctx);
    close_sandbox(&b);
}

static void processes_share_a_folder(an_test *t)
{
    enum { PROCESSES = 4, VALUES = 40 };
    sandbox b;
    open_sandbox(t, &b, 40000); /* small: they evict while others read */
    pid_t child[PROCESSES];
    for (int c = 0; c < PROCESSES; c++) {
        child[c] = fork();
        if (child[c]) continue;
        static char value[1001];
        int wrong = 0;
        for (uint64_t i = 0; i < VALUES; i++) {
            void *data = NULL;
            size_t nbytes = 0;
            memset(value, 'a' + (int)(i % 26), 1000);
            const an_disk_item item = {key(i), value, 1000};
            if (an_disk_refresh(b.store) || an_disk_get(b.store, key(i), &data, &nbytes)) wrong++;
            if (data && (nbytes != 1000 || memcmp(data, value, 1000) != 0)) wrong++;
            if (!data && an_disk_put(b.store, &item, 1)) wrong++;
            an_mem_free(t->ctx, data, nbytes);
        }
        _exit(wrong ? 1 : 0);
    }
    for (int c = 0; c < PROCESSES; c++) {
        int status = -1;
        CHECK(t, child[c] > 0 && waitpid(child[c], &status, 0) == child[c]);
        CHECK_EQ(t, status, 0);
    }
    CHECK(t, an_test_files(b.folder, ".pack", files, FILES) > 0);
    close_sandbox(&b);
}

static an_status round_trip(an_ctx *ctx, void *arg)
{
    an_disk *s = NULL;
    void *data = NULL;
    size_t nbytes = 0;
    const an_disk_item item = {key(7), "seven", 5};
    an_status st = an_disk_open(ctx, arg, 1 << 20, &s);
    if (!st) st = an_disk_put(s, &item, 1);
    if (!st) st = an_disk_refresh(s);
    if (!st) st = an_disk_get(s, key(7), &data, &nbytes);
    an_mem_free(ctx, data, nbytes);
    an_disk_close(s);
    return st;
}

static void every_failing_allocation_is_an_error(an_test *t)
{
    sandbox b;
    open_sandbox(t, &b, 1 << 20);
    an_test_every_alloc_failure(t, round_trip, b.folder);
    close_sandbox(&b);
}

AN_TEST_MAIN(AN_CASE(what_is_put_is_got_by_the_next_process), AN_CASE(what_is_put_is_got_without_a_look_at_the_folder),
             AN_CASE(two_that_put_in_turn_stay_near_the_limit), AN_CASE(refresh_sees_what_others_put),
             AN_CASE(no_damage_gives_a_wrong_value), AN_CASE(the_oldest_go_when_there_is_too_much),
             AN_CASE(using_a_value_makes_it_young), AN_CASE(a_value_larger_than_all_is_not_kept),
             AN_CASE(what_a_dead_process_left_is_removed), AN_CASE(a_folder_others_can_write_is_not_used),
             AN_CASE(processes_share_a_folder), AN_CASE(every_failing_allocation_is_an_error))
