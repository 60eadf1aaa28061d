/* srcid - a number for the sources of a build, so that what one build keeps on disk is never taken by another.
 *   srcid OUT.h OUT.d FILE...
 * Writes a header with the number, and a make rule that names the files and every .h and .def beside them. */
#include <dirent.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_SIZE = 4096, FILES_MAX = 8192 };

typedef struct list {
    char *path[FILES_MAX];
    size_t n;
} list;

static int fail(const char *what, const char *path)
{
    fprintf(stderr, "srcid: %s: %s\n", path, what);
    return 1;
}

static int add(list *l, const char *path)
{
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->path[i], path) == 0) return 0;
    if (l->n == FILES_MAX) return fail("too many files", path);
    l->path[l->n] = malloc(strlen(path) + 1);
    if (!l->path[l->n]) return fail("out of memory", path);
    strcpy(l->path[l->n++], path);
    return 0;
}

static int is_header(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot && (strcmp(dot, ".h") == 0 || strcmp(dot, ".def") == 0);
}

/* The headers beside a source file. */
static int add_headers(list *l, const char *source)
{
    char folder[PATH_SIZE], path[2 * PATH_SIZE];
    const char *slash = strrchr(source, '/');
    const int n = slash ? (int)(slash - source) : 1;
    if ((size_t)n >= sizeof folder) return fail("a long path", source);
    snprintf(folder, sizeof folder, "%.*s", n, slash ? source : ".");
    DIR *d = opendir(folder);
    if (!d) return fail("cannot be listed", folder);
    int bad = 0;
    for (const struct dirent *e = readdir(d); e && !bad; e = readdir(d)) {
        if (!is_header(e->d_name)) continue;
        const int len = snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        bad = len < 0 || (size_t)len >= sizeof path ? fail("a long path", folder) : add(l, path);
    }
    closedir(d);
    return bad;
}

/* FNV-1a, 64 bits. The name counts, without the folders above the source tree. */
static int hash_file(const char *path, uint64_t *sum)
{
    unsigned char data[65536];
    uint64_t h = 0xcbf29ce484222325u;
    FILE *f = fopen(path, "rb");
    if (!f) return fail("cannot be read", path);
    const char *name = strrchr(path, '/');
    for (name = name ? name + 1 : path; *name; name++) h = (h ^ (unsigned char)*name) * 0x100000001b3u;
    for (size_t n = fread(data, 1, sizeof data, f); n > 0; n = fread(data, 1, sizeof data, f))
        for (size_t i = 0; i < n; i++) h = (h ^ data[i]) * 0x100000001b3u;
    const int bad = ferror(f) ? fail("cannot be read", path) : 0;
    fclose(f);
    h ^= h >> 32;
    *sum += h * 0x9e3779b97f4a7c15u; /* a sum: the order of files does not count */
    return bad;
}

int main(int argc, char **argv)
{
    static list l;
    uint64_t sum = 0;
    int bad = 0;
    if (argc < 4) return fail("usage: srcid OUT.h OUT.d FILE...", argv[0]);
    for (int i = 3; i < argc && !bad; i++) bad = add(&l, argv[i]) || add_headers(&l, argv[i]);
    for (size_t i = 0; i < l.n && !bad; i++) bad = hash_file(l.path[i], &sum);
    FILE *out = bad ? NULL : fopen(argv[1], "w");
    if (!bad && !out) bad = fail("cannot be written", argv[1]);
    if (out) {
        fprintf(out, "#define AN_SOURCE_ID UINT64_C(0x%016" PRIx64 ")\n", sum);
        if (fclose(out) != 0) bad = fail("cannot be written", argv[1]);
    }
    out = bad ? NULL : fopen(argv[2], "w");
    if (!bad && !out) bad = fail("cannot be written", argv[2]);
    if (out) {
        fprintf(out, "%s:", argv[1]);
        for (size_t i = 0; i < l.n; i++) fprintf(out, " \\\n  %s", l.path[i]);
        fputc('\n', out);
        if (fclose(out) != 0) bad = fail("cannot be written", argv[2]);
    }
    for (size_t i = 0; i < l.n; i++) free(l.path[i]);
    return bad;
}
