/* dataset.c - finding a data set: the table, the folders, the download. */
#define _POSIX_C_SOURCE 200809L
#include "dataset.h"


#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const cli_dataset_info datasets[] = {
#include "datasets.def"
};

static const char synthetic_name[] = "synthetic";

static const char *const file_names[CLI_FILE_COUNT] = {
    [CLI_TRAIN_IMAGES] = "train-images-idx3-ubyte",
    [CLI_TRAIN_LABELS] = "train-labels-idx1-ubyte",
    [CLI_TEST_IMAGES] = "t10k-images-idx3-ubyte",
    [CLI_TEST_LABELS] = "t10k-labels-idx1-ubyte",
};

size_t cli_dataset_count(void)
{
    return CLI_COUNT(datasets);
}

const cli_dataset_info *cli_dataset_get(size_t i)
{
    return &datasets[i];
}

const cli_dataset_info *cli_dataset_find(const char *name)
{
    for (size_t i = 0; i < CLI_COUNT(datasets); i++)
        if (strcmp(datasets[i].name, name) == 0) return &datasets[i];
    return NULL;
}

/* --- folders --------------------------------------------------------------------------------------- */

static bool is_dir(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

bool cli_dataset_path(const char *dir, cli_file file, char *out, size_t size)
{
    static const char *const endings[] = {"", ".gz"};
    for (size_t dotted = 0; dotted < 2; dotted++) { /* some copies are called train-images.idx3-ubyte */
        for (size_t i = 0; i < CLI_COUNT(endings); i++) {
            const int n = snprintf(out, size, "%s/%s%s", dir, file_names[file], endings[i]);
            if (n < 0 || (size_t)n >= size) return false;
            char *dash = strstr(out + strlen(dir), "-idx");
            if (dotted && dash) *dash = '.';
            if (access(out, F_OK) == 0) return true;
        }
    }
    return false;
}

bool cli_dataset_is_complete(const char *dir, const char **missing)
{
    char path[CLI_PATH_MAX];
    for (int f = 0; f < CLI_FILE_COUNT; f++) {
        if (cli_dataset_path(dir, (cli_file)f, path, sizeof path)) continue;
        if (missing) *missing = file_names[f];
        return false;
    }
    return true;
}

bool cli_dataset_archive(const cli_dataset_info *info, const char *dir, char *out, size_t size)
{
    if (!info->archive) return false;
    const int n = snprintf(out, size, "%s/%s", dir, info->archive);
    return n > 0 && (size_t)n < size && access(out, F_OK) == 0;
}

static bool is_cifar_dir(const char *dir)
{
    char path[CLI_PATH_MAX];
    const int n = snprintf(path, sizeof path, "%s/data_batch_1.bin", dir);
    return n > 0 && (size_t)n < sizeof path && access(path, F_OK) == 0;
}

bool cli_package_dir(const cli_dataset_info *info, char *out, size_t size)
{
    const char *root = getenv("ANNEAL_TEST_ROOT");
    if (!info->package_dir) return false;
    const int n = snprintf(out, size, "%s%s", root ? root : "", info->package_dir);
    return n > 0 && (size_t)n < size && cli_dataset_is_complete(out, NULL);
}

/* --- the download ------------------------------------------------------------------------------------ */

/* A file by its name at the mirrors. */
static int fetch_file(an_ctx *ctx, const cli_dataset_info *info, const char *dir, const char *name, const char *sha256, cli_error *e)
{
    char path[CLI_PATH_MAX], urls[CLI_MIRRORS][512];
    cli_fetch_desc d = {.title = info->title, .name = name, .path = path, .sha256 = sha256, .nbytes_max = 256u << 20};
    if (cli_join(path, sizeof path, dir, name, e)) return e->code;
    for (size_t i = 0; i < CLI_MIRRORS && info->mirrors[i]; i++) {
        snprintf(urls[i], sizeof urls[i], "%s/%s", info->mirrors[i], name);
        d.urls[i] = urls[i];
    }
    return cli_fetch(ctx, &d, e);
}

int cli_dataset_fetch(an_ctx *ctx, const cli_dataset_info *info, const char *dir, cli_error *e)
{
    char path[CLI_PATH_MAX];
    if (an_dir_create(ctx, dir)) return cli_fail_ctx(e, ctx);
    if (info->archive)
        return cli_dataset_archive(info, dir, path, sizeof path) ? 0 : fetch_file(ctx, info, dir, info->archive, info->sha256[0], e);
    for (int f = 0; f < CLI_FILE_COUNT; f++) {
        char name[64];
        if (cli_dataset_path(dir, (cli_file)f, path, sizeof path)) continue;
        snprintf(name, sizeof name, "%s.gz", file_names[f]);
        if (fetch_file(ctx, info, dir, name, info->sha256[f], e)) return e->code;
    }
    return 0;
}

/* --- the order of places ------------------------------------------------------------------------------- */

static void set_place(cli_place *p, const cli_dataset_info *info, const char *title, const char *dir)
{
    memset(p, 0, sizeof *p);
    p->info = info;
    snprintf(p->title, sizeof p->title, "%s", title);
    snprintf(p->dir, sizeof p->dir, "%s", dir);
    for (char *c = p->title; *c; c++)
        if ((unsigned char)*c < 0x20) *c = '?'; /* a folder's name may hold anything, terminals obey it */
}

static void set_synthetic(cli_place *p)
{
    set_place(p, NULL, "synthetic data", "");
    p->synthetic = true;
}

/* A folder or an archive given by --data. */
static int place_path(const char *dir, cli_place *out, cli_error *e)
{
    const char *missing = NULL;
    char title[128];
    struct stat found;
    const bool is_file = stat(dir, &found) == 0 && S_ISREG(found.st_mode);
    if (!is_file && !is_dir(dir)) {
        const char *words[CLI_COUNT(datasets) + 1];
        size_t n = 0;
        for (size_t i = 0; i < CLI_COUNT(datasets); i++) words[n++] = datasets[i].name;
        words[n++] = synthetic_name;
        const char *near = cli_suggest(dir, words, n);
        if (near) return cli_fail(e, AN_ERR_ARG, "--data: there is no folder '%s'; did you mean '%s'?", dir, near);
        return cli_fail(e, AN_ERR_IO, "--data: there is no folder '%s'", dir);
    }
    const bool is_cifar = is_file || is_cifar_dir(dir);
    if (!is_cifar && !cli_dataset_is_complete(dir, &missing))
        return cli_fail(e, AN_ERR_IO, "--data: the folder '%s' has no %s, plain or .gz", dir, missing);
    if (strlen(dir) >= sizeof out->dir) return cli_fail(e, AN_ERR_ARG, "--data: the path is too long");
    snprintf(title, sizeof title, is_file ? "the images in %.100s" : "the files in %.100s", dir);
    set_place(out, is_cifar ? cli_dataset_find("cifar10") : NULL, title, dir);
    out->is_cifar = is_cifar;
    return 0;
}

/* Package, cache, download. */
static int place_named(an_ctx *ctx, const cli_dataset_info *info, cli_place *out, cli_error *e)
{
    char cache[CLI_PATH_MAX], dir[CLI_PATH_MAX];
    if (cli_package_dir(info, dir, sizeof dir)) {
        set_place(out, info, info->title, dir);
        return 0;
    }
    if (!cli_cache_dir(cache, sizeof cache))
        return cli_fail(e, AN_ERR_IO, "%s cannot be kept: neither XDG_CACHE_HOME nor HOME is set", info->title);
    if (cli_join(dir, sizeof dir, cache, info->name, e)) return e->code;
    if (info->archive) {
        char path[CLI_PATH_MAX];
        if (!cli_dataset_archive(info, dir, path, sizeof path)) {
            if (cli_dataset_fetch(ctx, info, dir, e)) return e->code;
            if (cli_join(path, sizeof path, dir, info->archive, e)) return e->code;
        }
        set_place(out, info, info->title, path);
        out->is_cifar = true;
        return 0;
    }
    if (!cli_dataset_is_complete(dir, NULL) && cli_dataset_fetch(ctx, info, dir, e)) return e->code;
    set_place(out, info, info->title, dir);
    return 0;
}

/* What can be done about missing data, for the end of a sentence. */
static void print_advice(char *text, size_t size, const cli_dataset_info *info)
{
    if (info->package)
        snprintf(text, size, "'sudo apt-get install %s' installs it, --data DIR uses a copy, --data synthetic does without",
                 info->package);
    else
        snprintf(text, size, "--data DIR uses a copy, --data synthetic does without");
}

int cli_dataset_place(an_ctx *ctx, const char *preset, const char *data, cli_place *out, cli_error *e)
{
    char advice[256];
    cli_error why = {0};
    const cli_dataset_info *info = cli_dataset_find(data ? data : preset);
    if (strcmp(data ? data : preset, synthetic_name) == 0) {
        set_synthetic(out);
        return 0;
    }
    if (!info && data) return place_path(data, out, e);
    if (!info) return cli_fail(e, AN_ERR_INTERNAL, "the model names no known data set");
    if (place_named(ctx, info, out, &why) == 0) return 0;
    an_ctx_clear_error(ctx);
    if (why.code >= 128) return cli_fail(e, why.code, "%s", why.text);
    print_advice(advice, sizeof advice, info);
    /* Offline was asked for, a wrong file is no accident, and what --data names is meant: none of them is replaced. */
    if (data || why.code != AN_ERR_IO) return cli_fail(e, why.code, "%s; %s", why.text, advice);
    cli_note("%s", why.text);
    cli_note("training on SYNTHETIC data instead: made-up patterns, no real images; %s", advice);
    set_synthetic(out);
    return 0;
}
