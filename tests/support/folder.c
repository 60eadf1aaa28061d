/* folder.c - see folder.h. */
#define _XOPEN_SOURCE 700 /* nftw, mkdtemp */
#include "folder.h"

#include "an_test.h"

#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void an_test_folder(char path[TEST_PATH_SIZE])
{
    const char *base = getenv("TMPDIR");
    (void)snprintf(path, TEST_PATH_SIZE, "%s/an_test_XXXXXX", base && *base ? base : "/tmp");
    if (!mkdtemp(path)) an_test_fail(__FILE__, __LINE__, "no folder %s can be made", path);
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *at)
{
    (void)info;
    (void)kind;
    (void)at;
    return remove(path);
}

void an_test_folder_remove(const char *path)
{
    (void)nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

size_t an_test_files(const char *path, const char *suffix, char found[][TEST_PATH_SIZE], size_t max)
{
    size_t n = 0;
    DIR *d = opendir(path);
    if (!d) return 0;
    for (const struct dirent *e = readdir(d); e && n < max; e = readdir(d)) {
        const size_t len = strlen(e->d_name), tail = strlen(suffix);
        if (len < tail || strcmp(e->d_name + len - tail, suffix) != 0) continue;
        if ((size_t)snprintf(found[n], TEST_PATH_SIZE, "%s/%s", path, e->d_name) < TEST_PATH_SIZE) n++;
    }
    closedir(d);
    if (n) qsort(found, n, TEST_PATH_SIZE, by_name);
    return n;
}

size_t an_test_file_read(const char *path, unsigned char *data, size_t max)
{
    FILE *f = fopen(path, "rb");
    const size_t n = f ? fread(data, 1, max, f) : 0;
    if (f) fclose(f);
    if (!f) an_test_fail(__FILE__, __LINE__, "%s cannot be read", path);
    return n;
}

void an_test_file_write(const char *path, const void *data, size_t nbytes)
{
    FILE *f = fopen(path, "wb");
    const bool good = f && fwrite(data, 1, nbytes, f) == nbytes;
    if (!f || fclose(f) != 0 || !good) an_test_fail(__FILE__, __LINE__, "%s cannot be written", path);
}
