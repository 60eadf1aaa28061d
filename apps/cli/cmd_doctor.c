/* cmd_doctor.c - `anneal doctor`: devices, processor, data, caches and libraries; what is missing, and the command that
 * brings it. Findings are gathered as rows, then printed as text or JSON. */
#define _POSIX_C_SOURCE 200809L
#include "dataset.h"
#include "print.h"

#include <anneal/device.h>
#include <anneal/settings.h>
#include <anneal/webgpu.h>

#include "apps/cli/versions.h" /* made by Meson */

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct doctor_args {
    bool json;
} doctor_args;

/* OK: there. NOTE: fine, or not needed. MISSING: something does not work without it; fix says what to do. */
typedef enum verdict { OK, NOTE, MISSING } verdict;

enum { ROWS_MAX = 80 };

typedef struct row {
    const char *group;
    char name[48], text[512], fix[256];
    verdict verdict;
} row;

typedef struct report {
    row rows[ROWS_MAX];
    size_t n;
} report;

static row *add(report *r, const char *group, const char *name, verdict v)
{
    row *x = &r->rows[r->n < ROWS_MAX - 1 ? r->n++ : ROWS_MAX - 1];
    memset(x, 0, sizeof *x);
    x->group = group;
    x->verdict = v;
    snprintf(x->name, sizeof x->name, "%s", name);
    return x;
}

/* --- what is looked at -------------------------------------------------------------------------------------- */

static void look_at_devices(report *r, an_ctx *ctx)
{
    size_t n = 0;
    bool has_cpu = false;
    const an_backend *const *backends = an_backends(&n);
    for (size_t i = 0; i < n; i++) {
        an_device *dev = NULL;
        row *x = add(r, "devices", backends[i]->name, OK);
        has_cpu = has_cpu || strcmp(backends[i]->name, "cpu") == 0;
        if (an_device_get(ctx, backends[i]->name, &dev)) {
            x->verdict = MISSING;
            snprintf(x->text, sizeof x->text, "%.500s", an_ctx_error(ctx));
            if (strcmp(backends[i]->name, "webgpu") == 0) snprintf(x->fix, sizeof x->fix, "scripts/fetch-webgpu.sh wgpu, and `software` where there is no GPU");
            an_ctx_clear_error(ctx);
            continue;
        }
        const bool is_oracle = strcmp(backends[i]->name, "interp") == 0;
        snprintf(x->text, sizeof x->text, "%s%s", is_oracle ? "walks the instructions one by one: slow, the oracle" : "opens",
                 i == 0 ? "; the default" : "");
    }
    if (!has_cpu) {
        row *x = add(r, "devices", "cpu", MISSING);
        snprintf(x->text, sizeof x->text, "not in this build: LLVM 19 was not there");
        snprintf(x->fix, sizeof x->fix, "sudo apt-get install llvm-19-dev && make build");
    }
}

/* "a, b" at *at of a text. */
static void list_words(char *text, size_t size, const char *const *words, uint32_t n)
{
    size_t at = strlen(text);
    for (uint32_t i = 0; i < n && at < size; i++) at += (size_t)snprintf(text + at, size - at, "%s%s", i ? ", " : "", words[i]);
}

static void look_at_adapter(report *r, const an_webgpu_adapter *a, size_t place)
{
    static const double MIB = 1 << 20;
    char name[48], features[160] = "", lacks[160] = "";
    snprintf(name, sizeof name, "adapter %zu%s", place, a->is_chosen ? " *" : "");
    row *x = add(r, "webgpu", name, OK);
    snprintf(x->text, sizeof x->text, "%.120s (%.120s), %s, %s%s", a->name, a->driver, a->backend, a->type, a->is_chosen ? ": the one in use" : "");
    list_words(features, sizeof features, a->features, a->nfeatures);
    list_words(lacks, sizeof lacks, a->lacks, a->nlacks);
    x = add(r, "webgpu", "  features", a->nlacks ? NOTE : OK);
    snprintf(x->text, sizeof x->text, "%s%s%s", features[0] ? features : "none of those we use", lacks[0] ? "; not " : "", lacks);
    if (a->nlacks) snprintf(x->fix, sizeof x->fix, "another library or driver may have them: ANNEAL_WEBGPU_LIB=dawn or wgpu");
    x = add(r, "webgpu", "  limits", OK);
    snprintf(x->text, sizeof x->text, "%u buffers a kernel, %.0f MiB a tensor, %.0f MiB a buffer, %u threads and %.0f KiB a workgroup, subgroups of %u..%u",
             a->buffers, (double)a->binding_nbytes / MIB, (double)a->buffer_nbytes / MIB, a->invocations, a->workgroup_nbytes / 1024.0,
             a->subgroup_min, a->subgroup_max);
}

static void look_at_webgpu(report *r, an_ctx *ctx)
{
    an_webgpu_report *w = calloc(1, sizeof *w);
    if (!w || an_webgpu_look(ctx, w)) {
        free(w);
        an_ctx_clear_error(ctx);
        return;
    }
    for (size_t i = 0; i < w->nlibraries; i++) {
        const an_webgpu_library *l = &w->libraries[i];
        row *x = add(r, "webgpu", l->kind ? l->kind : "library", l->problem[0] ? MISSING : OK);
        snprintf(x->text, sizeof x->text, "%.200s%s%s%s%.200s", l->path, l->version[0] ? ", " : "", l->version, l->problem[0] ? ": " : "", l->problem);
        if (l->kind && !l->nadapters) {
            x->verdict = NOTE; /* another library may see more */
            snprintf(x->fix, sizeof x->fix, "install the GPU's Vulkan driver, or: scripts/fetch-webgpu.sh %s",
                     strcmp(l->kind, "Dawn") == 0 ? "swiftshader" : "software");
        }
        for (size_t k = 0; k < l->nadapters; k++) look_at_adapter(r, &l->adapters[k], k);
    }
    if (!w->nlibraries) {
        row *x = add(r, "webgpu", "library", MISSING);
        snprintf(x->text, sizeof x->text, "neither wgpu-native nor Dawn is here: no GPU can be used");
        snprintf(x->fix, sizeof x->fix, "scripts/fetch-webgpu.sh");
    }
    free(w);
}

static bool word_in(const char *line, const char *word)
{
    const size_t n = strlen(word);
    for (const char *p = line; (p = strstr(p, word)) != NULL; p += n)
        if (p[-1] == ' ' && (p[n] == ' ' || p[n] == '\n' || p[n] == '\0')) return true;
    return false;
}

static void look_at_processor(report *r)
{
    static const char *const features[] = {"sse4_2", "avx", "avx2", "fma", "avx512f", "amx_bf16", "amx_tile", "asimd", "sve"};
    char line[8192];
    row *x = add(r, "processor", "cores", OK);
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    const char *threads = getenv("ANNEAL_THREADS");
    snprintf(x->text, sizeof x->text, "%ld%s%s", cores, threads ? "; ANNEAL_THREADS=" : "", threads ? threads : "");
    FILE *f = fopen("/proc/cpuinfo", "r");
    if (!f) return;
    while (fgets(line, sizeof line, f)) {
        if (strncmp(line, "flags", 5) != 0 && strncmp(line, "Features", 8) != 0) continue;
        x = add(r, "processor", "features", OK);
        for (size_t i = 0, at = 0; i < CLI_COUNT(features); i++)
            if (word_in(line, features[i])) at += (size_t)snprintf(x->text + at, sizeof x->text - at, "%s ", features[i]);
        break;
    }
    fclose(f);
}

static void look_at_data(report *r)
{
    char cache[CLI_PATH_MAX], dir[CLI_PATH_MAX];
    const bool has_cache = cli_cache_dir(cache, sizeof cache);
    for (size_t i = 0; i < cli_dataset_count(); i++) {
        const cli_dataset_info *d = cli_dataset_get(i);
        row *x = add(r, "data", d->name, OK);
        if (cli_package_dir(d, dir, sizeof dir)) {
            snprintf(x->text, sizeof x->text, "%.500s", dir);
            continue;
        }
        const int n = has_cache ? snprintf(dir, sizeof dir, "%s/%s", cache, d->name) : -1;
        char archive[CLI_PATH_MAX];
        const bool is_here = d->archive ? cli_dataset_archive(d, dir, archive, sizeof archive) : cli_dataset_is_complete(dir, NULL);
        if (n > 0 && (size_t)n < sizeof dir && is_here) {
            snprintf(x->text, sizeof x->text, "%.500s", dir);
        } else {
            x->verdict = d->package ? MISSING : NOTE;
            snprintf(x->text, sizeof x->text, "not on this machine; %s",
                     an_download_is_offline() ? "ANNEAL_OFFLINE forbids to fetch it" : "fetched when it is asked for");
            if (d->package)
                snprintf(x->fix, sizeof x->fix, "sudo apt-get install %s", d->package);
            else
                snprintf(x->fix, sizeof x->fix, "anneal train %s --data %s", d->archive ? "resnet9" : "mlp", d->name);
        }
    }
}

static void look_at_caches(report *r)
{
    char cache[CLI_PATH_MAX];
    row *x = add(r, "caches", "downloads", OK);
    if (!cli_cache_dir(cache, sizeof cache)) {
        x->verdict = MISSING;
        snprintf(x->text, sizeof x->text, "neither XDG_CACHE_HOME nor HOME is set, so nothing can be kept");
        snprintf(x->fix, sizeof x->fix, "export HOME=...");
        return;
    }
    const bool exists = access(cache, F_OK) == 0;
    if (!exists) x->verdict = NOTE;
    if (exists && access(cache, W_OK) != 0) {
        x->verdict = MISSING;
        snprintf(x->fix, sizeof x->fix, "chown -R \"$USER\" '%.200s'", cache);
    }
    snprintf(x->text, sizeof x->text, "%.400s%s", cache,
             !exists ? " (not there yet: made when needed)" : x->verdict == MISSING ? " cannot be written" : "");
}

/* What is in the folder of compiled kernels. */
static void look_at_kept_kernels(report *r, const an_ctx *ctx)
{
    char cache[CLI_PATH_MAX], path[CLI_PATH_MAX];
    row *x = add(r, "caches", "kernels", OK);
    if (an_ctx_settings(ctx).no_cache) {
        x->verdict = NOTE;
        snprintf(x->text, sizeof x->text, "ANNEAL_CACHE=0: every process compiles anew");
        return;
    }
    const int n = cli_cache_dir(cache, sizeof cache) ? snprintf(path, sizeof path, "%s/kernels", cache) : -1;
    DIR *d = n > 0 && (size_t)n < sizeof path ? opendir(path) : NULL;
    size_t packs = 0;
    double total = 0;
    for (const struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
        struct stat info;
        if (e->d_name[0] == '.' || fstatat(dirfd(d), e->d_name, &info, 0) != 0) continue;
        packs++;
        total += (double)info.st_size;
    }
    if (d) {
        closedir(d);
        snprintf(x->text, sizeof x->text, "%.400s: %zu files, %.1f MB (ANNEAL_CACHE=0 turns it off)", path, packs, total * 1e-6);
    } else {
        x->verdict = NOTE;
        snprintf(x->text, sizeof x->text, "none kept yet: made by the first compilation");
    }
}

static void look_at_libraries(report *r)
{
    static const struct {
        const char *name, *version, *use, *package;
    } libraries[] = {
        {"LLVM", CLI_VERSION_LLVM, "compiles kernels for cpu", "llvm-19-dev"},
        {"zlib", CLI_VERSION_ZLIB, "reads .gz", "zlib1g-dev"},
        {"libcurl", CLI_VERSION_CURL, "fetches data sets", "libcurl4-openssl-dev"},
        {"libcrypto", CLI_VERSION_CRYPTO, "checks them (SHA-256)", "libssl-dev"},
    };
    for (size_t i = 0; i < CLI_COUNT(libraries); i++) {
        const bool has = libraries[i].version[0] != '\0';
        row *x = add(r, "libraries", libraries[i].name, has ? OK : MISSING);
        snprintf(x->text, sizeof x->text, "%s%s: %s", has ? "built with " : "not in this build", libraries[i].version,
                 libraries[i].use);
        if (!has) snprintf(x->fix, sizeof x->fix, "sudo apt-get install %s && make build", libraries[i].package);
    }
}

/* --- printing --------------------------------------------------------------------------------------------------- */

static void print_text(const report *r)
{
    static const char *const marks[] = {[OK] = "ok", [NOTE] = "-", [MISSING] = "MISSING"};
    static const cli_colour colours[] = {[OK] = CLI_TEAL, [NOTE] = CLI_DIM, [MISSING] = CLI_EMBER};
    const cli_style style = cli_style_of(stdout);
    const char *group = "";
    size_t missing = 0;
    puts("anneal " AN_VERSION);
    for (size_t i = 0; i < r->n; i++) {
        const row *x = &r->rows[i];
        if (strcmp(group, x->group) != 0) printf("\n%s\n", x->group);
        group = x->group;
        printf("  %s%-7s%s %-14s %s\n", cli_paint(&style, colours[x->verdict]), marks[x->verdict],
               cli_paint(&style, CLI_PLAIN), x->name, x->text);
        if (x->fix[0]) printf("  %-7s %-14s %s\n", "", "", x->fix);
        missing += x->verdict == MISSING;
    }
    if (missing > 0)
        printf("\n%zu missing; the command under each brings it.\n", missing);
    else
        puts("\nNothing is missing.");
}

static void print_json(const report *r)
{
    static const char *const words[] = {[OK] = "ok", [NOTE] = "note", [MISSING] = "missing"};
    printf("{\"version\": \"%s\", \"checks\": [", AN_VERSION);
    for (size_t i = 0; i < r->n; i++) {
        const row *x = &r->rows[i];
        printf("%s\n  {\"group\": \"%s\", \"name\": \"%s\", \"verdict\": \"%s\", \"text\": ", i ? "," : "", x->group, x->name,
               words[x->verdict]);
        cli_json_string(stdout, x->text);
        fputs(", \"fix\": ", stdout);
        cli_json_string(stdout, x->fix);
        putchar('}');
    }
    puts("\n]}");
}

static int verb_run(const void *args)
{
    const doctor_args *a = args;
    an_ctx *ctx = NULL;
    report *r = calloc(1, sizeof *r);
    if (!r || an_ctx_create(NULL, &ctx)) {
        free(r);
        return cli_usage_error("out of memory");
    }
    look_at_devices(r, ctx);
    look_at_webgpu(r, ctx);
    look_at_processor(r);
    look_at_data(r);
    look_at_caches(r);
    look_at_kept_kernels(r, ctx);
    look_at_libraries(r);
    if (a->json)
        print_json(r);
    else
        print_text(r);
    an_ctx_destroy(ctx);
    free(r);
    return 0;
}

static const cli_option options[] = {
    CLI_OPTION_JSON(doctor_args, "an object with an array of checks"),
};

const cli_verb cli_verb_doctor = {
    .name = "doctor",
    .summary = "devices, data, caches and libraries; what is missing and how to get it",
    .about = "Changes nothing. The exit code is 0 whatever is missing; --json has a verdict for each check.\n",
    .examples = "  anneal doctor\n"
                "  anneal doctor --json | jq '.checks[] | select(.verdict == \"missing\")'\n",
    .options = options,
    .noptions = CLI_COUNT(options),
    .args_size = sizeof(doctor_args),
    .run = verb_run,
};
