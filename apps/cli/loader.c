/* loader.c - a data set in memory: four files held against each other, or made-up data; loaded in a thread; batches. */
#define _POSIX_C_SOURCE 200809L
#include "dataset.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void cli_images_fini(cli_images *x)
{
    an_idx_fini(&x->files[0]);
    an_idx_fini(&x->files[1]);
    an_cifar_fini(&x->cifar);
    free(x->made);
    *x = (cli_images){0};
}

/* --- from files ---------------------------------------------------------------------------------------- */

static int check_labels(const cli_images *x, const char *path, uint32_t classes, cli_error *e)
{
    for (uint32_t i = 0; i < x->n; i++) {
        if (x->labels[i] < classes) continue;
        return cli_fail(e, AN_ERR_FORMAT, "%s: label %u is %u, and the model knows only 0 to %u", path, i, x->labels[i],
                        classes - 1);
    }
    return 0;
}

static int load_split(an_ctx *ctx, const char *dir, cli_file images, cli_file labels, cli_want want, cli_images *x,
                      cli_error *e)
{
    char path[CLI_PATH_MAX], path_labels[CLI_PATH_MAX];
    an_idx *im = &x->files[0], *la = &x->files[1];
    if (!cli_dataset_path(dir, labels, path_labels, sizeof path_labels) || !cli_dataset_path(dir, images, path, sizeof path))
        return cli_fail(e, AN_ERR_IO, "%s: its files went away", dir);
    if (an_idx_load(ctx, path_labels, &(an_idx_desc){.dtype = AN_U8, .rank = 1}, la)) return cli_fail_ctx(e, ctx);
    if (an_idx_load(ctx, path, &(an_idx_desc){.dtype = AN_U8, .rank = 3}, im)) return cli_fail_ctx(e, ctx);
    const size_t n = im->dims[0], height = im->dims[1], width = im->dims[2];
    if (n != la->dims[0]) {
        return cli_fail(e, AN_ERR_FORMAT, "%s has %zu images, but %s has %zu labels; they do not belong together", path, n,
                        path_labels, la->dims[0]);
    }
    if (n == 0 || n > INT32_MAX) return cli_fail(e, AN_ERR_FORMAT, "%s: has %zu images", path, n);
    if (height > UINT16_MAX || width > UINT16_MAX || height * width != want.features) {
        return cli_fail(e, AN_ERR_SHAPE, "%s: its images are %zu x %zu, which is not the %u numbers that the model takes", path,
                        height, width, want.features);
    }
    x->pixels = im->data;
    x->labels = la->data;
    x->n = (uint32_t)n;
    x->features = want.features;
    return check_labels(x, path_labels, want.classes, e);
}

/* Both splits of CIFAR-10, in one piece of memory. */
static int load_cifar(an_ctx *ctx, const char *path, cli_want want, cli_images *train, cli_images *test, cli_error *e)
{
    struct stat found;
    an_cifar *c = &train->cifar;
    if (want.features != AN_CIFAR_PIXELS || want.classes < AN_CIFAR_CLASSES)
        return cli_fail(e, AN_ERR_SHAPE, "%s: CIFAR-10's images are 32 x 32 in colour, %d numbers, which is not the %u numbers that the "
                                         "model takes", path, AN_CIFAR_PIXELS, want.features);
    const bool is_dir = stat(path, &found) == 0 && S_ISDIR(found.st_mode);
    if (is_dir ? an_cifar_load_dir(ctx, path, c) : an_cifar_load(ctx, path, c)) return cli_fail_ctx(e, ctx);
    train->pixels = c->pixels;
    train->labels = c->labels;
    train->n = (uint32_t)c->ntrain;
    test->pixels = c->pixels + c->ntrain * AN_CIFAR_PIXELS;
    test->labels = c->labels + c->ntrain;
    test->n = (uint32_t)c->ntest;
    train->features = test->features = AN_CIFAR_PIXELS;
    return 0;
}

/* --- made up --------------------------------------------------------------------------------------------- */

enum { SYNTHETIC_TRAIN = 12000, SYNTHETIC_TEST = 2000, SYNTHETIC_SPOTS = 40 };

/* SplitMix64 (Steele, Lea, Flood 2014): a stream from any seed. */
static uint64_t draw(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* A class is a fixed set of bright spots; an image of it shows most of them, dimmed, under noise. Easy to learn, and plainly
 * not real. The same data on every machine. */
static int make_split(uint64_t seed, uint32_t n, cli_want want, cli_images *x, cli_error *e)
{
    const uint32_t f = want.features;
    x->made = malloc((size_t)n * f + n);
    if (!x->made) return cli_fail(e, AN_ERR_NOMEM, "out of memory for synthetic data");
    uint8_t *pixels = x->made, *labels = x->made + (size_t)n * f;
    uint64_t state = seed;
    if (want.synthesize) {
        for (uint32_t i = 0; i < n; i++) want.synthesize(seed, i, pixels + (size_t)i * f, labels + i);
    } else {
        for (size_t i = 0; i < (size_t)n * f; i++) pixels[i] = (uint8_t)(draw(&state) % 90);
    }
    for (uint32_t i = 0; i < n && !want.synthesize; i++) {
        labels[i] = (uint8_t)(draw(&state) % want.classes);
        uint64_t pattern = labels[i]; /* its own stream: the same spots each time */
        for (int k = 0; k < SYNTHETIC_SPOTS; k++) {
            const size_t at = draw(&pattern) % f;
            const uint64_t r = draw(&state);
            if (r % 4 != 0) pixels[(size_t)i * f + at] = (uint8_t)(100 + (r >> 8) % 156);
        }
    }
    x->pixels = pixels;
    x->labels = labels;
    x->n = n;
    x->features = f;
    return 0;
}

/* --- both splits, and the thread -------------------------------------------------------------------------- */

int cli_dataset_load(an_ctx *ctx, const cli_place *place, cli_want want, cli_images out[CLI_SPLIT_COUNT], cli_error *e)
{
    cli_images *train = &out[CLI_SPLIT_TRAIN], *test = &out[CLI_SPLIT_TEST];
    *train = *test = (cli_images){0};
    if (place->synthetic) {
        if (make_split(1001, SYNTHETIC_TRAIN, want, train, e)) return e->code;
        return make_split(2002, SYNTHETIC_TEST, want, test, e);
    }
    if (place->is_cifar) return load_cifar(ctx, place->dir, want, train, test, e);
    if (load_split(ctx, place->dir, CLI_TEST_IMAGES, CLI_TEST_LABELS, want, test, e)) return e->code;
    return load_split(ctx, place->dir, CLI_TRAIN_IMAGES, CLI_TRAIN_LABELS, want, train, e);
}

struct cli_loader {
    pthread_t thread;
    bool is_joined;
    cli_place place;
    cli_want want;
    an_ctx *ctx;
    cli_images splits[CLI_SPLIT_COUNT];
    cli_error error;
};

static void *load(void *user)
{
    cli_loader *l = user;
    cli_dataset_load(l->ctx, &l->place, l->want, l->splits, &l->error);
    return NULL;
}

int cli_loader_start(const cli_place *place, cli_want want, cli_loader **out, cli_error *e)
{
    cli_loader *l = calloc(1, sizeof *l);
    if (!l || an_ctx_create(NULL, &l->ctx)) {
        free(l);
        return cli_fail(e, AN_ERR_NOMEM, "out of memory");
    }
    l->place = *place;
    l->want = want;
    if (pthread_create(&l->thread, NULL, load, l) != 0) { /* no thread to be had: load at once */
        l->is_joined = true;
        load(l);
    }
    *out = l;
    return 0;
}

static void join(cli_loader *l)
{
    if (!l->is_joined) pthread_join(l->thread, NULL);
    l->is_joined = true;
}

int cli_loader_wait(cli_loader *l, const cli_images **out, cli_error *e)
{
    join(l);
    if (l->error.code) return cli_fail(e, l->error.code, "%s", l->error.text);
    *out = l->splits;
    return 0;
}

void cli_loader_destroy(cli_loader *l)
{
    if (!l) return;
    join(l);
    for (int i = 0; i < CLI_SPLIT_COUNT; i++) cli_images_fini(&l->splits[i]);
    an_ctx_destroy(l->ctx);
    free(l);
}

void cli_batch(const cli_images *from, const uint32_t *order, uint32_t n, uint32_t batch, uint8_t *images, int32_t *labels)
{
    const size_t f = from->features;
    for (uint32_t i = 0; i < n; i++) {
        memcpy(images + i * f, from->pixels + order[i] * f, f);
        if (labels) labels[i] = from->labels[order[i]];
    }
    memset(images + n * f, 0, (batch - n) * f);
    if (labels) memset(labels + n, 0, (batch - n) * sizeof *labels);
}
