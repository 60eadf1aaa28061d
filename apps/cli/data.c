/* data.c - see data.h. */
#define _POSIX_C_SOURCE 200809L
#include "data.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const cli_text_info texts[] = {
#include "texts.def"
};

/* --- text ------------------------------------------------------------------------------------------- */

static const cli_text_info *find_text(const char *name)
{
    for (size_t i = 0; i < CLI_COUNT(texts); i++)
        if (strcmp(texts[i].name, name) == 0) return &texts[i];
    return NULL;
}

/* The path of a text by name: the cache, or a download into it. */
static int place_text(an_ctx *ctx, const cli_text_info *info, char *path, size_t size, cli_error *e)
{
    char dir[CLI_PATH_MAX];
    struct stat st;
    if (!cli_cache_dir(dir, sizeof dir))
        return cli_fail(e, AN_ERR_IO, "%s cannot be kept: neither XDG_CACHE_HOME nor HOME is set", info->title);
    if (cli_join(path, size, dir, info->file, e)) return e->code;
    if (stat(path, &st) == 0) return 0;
    if (!an_download_is_offline() && an_dir_create(ctx, dir)) return cli_fail_ctx(e, ctx);
    cli_fetch_desc d = {.title = info->title, .name = info->file, .path = path, .sha256 = info->sha256, .nbytes_max = 64u << 20};
    memcpy(d.urls, info->mirrors, sizeof d.urls);
    cli_error why = {0};
    if (cli_fetch(ctx, &d, &why) == 0) return 0;
    return cli_fail(e, why.code, "%s%s", why.text, why.code < 128 ? "; --data FILE uses a text of your own" : "");
}

static int open_text(cli_data *d, const char *arg, cli_error *e)
{
    char path[CLI_PATH_MAX];
    struct stat st;
    const cli_text_info *info = find_text(arg ? arg : d->model->dataset);
    if (!info && arg && stat(arg, &st) != 0) {
        const char *words[CLI_COUNT(texts)];
        for (size_t i = 0; i < CLI_COUNT(texts); i++) words[i] = texts[i].name;
        const char *near = cli_suggest(arg, words, CLI_COUNT(texts));
        if (near) return cli_fail(e, AN_ERR_ARG, "--data: there is no file '%s'; did you mean '%s'?", arg, near);
        return cli_fail(e, AN_ERR_IO, "--data: there is no file '%s'; it takes a UTF-8 text", arg);
    }
    if (info) {
        if (place_text(d->ctx, info, path, sizeof path, e)) return e->code;
        snprintf(d->title, sizeof d->title, "%s", info->title);
    } else {
        snprintf(path, sizeof path, "%s", arg);
        snprintf(d->title, sizeof d->title, "the text %.100s", arg);
        for (char *c = d->title; *c; c++)
            if ((unsigned char)*c < 0x20) *c = '?'; /* a name may hold anything, terminals obey it */
    }
    return an_text_load(d->ctx, path, 0, &d->text) ? cli_fail_ctx(e, d->ctx) : 0;
}

/* Where the last tenth begins. */
static size_t split_at(const cli_data *d)
{
    return d->text.n / 10 * 9 + d->text.n % 10 * 9 / 10;
}

/* --- both ------------------------------------------------------------------------------------------- */

int cli_data_open(cli_data *d, const model *m, const char *arg, cli_error *e)
{
    *d = (cli_data){.model = m};
    if (an_ctx_create(NULL, &d->ctx)) return cli_fail(e, AN_ERR_NOMEM, "out of memory");
    if (m->data == MODEL_TEXT) return open_text(d, arg, e);
    if (m->data == MODEL_DRAWN) {
        if (arg) return cli_fail(e, AN_ERR_ARG, "--data: the model %s draws what it is trained on", m->name);
        snprintf(d->title, sizeof d->title, "data drawn in the graph");
        d->synthetic = true;
        return 0;
    }
    if (cli_dataset_place(d->ctx, m->dataset, arg, &d->place, e)) return e->code;
    d->synthetic = d->place.synthetic;
    snprintf(d->title, sizeof d->title, "%s", d->place.title);
    return cli_loader_start(&d->place, (cli_want){m->features, m->classes, m->synthesize}, &d->loader, e);
}

int cli_data_wait(cli_data *d, cli_error *e)
{
    return d->loader ? cli_loader_wait(d->loader, &d->images, e) : 0;
}

void cli_data_close(cli_data *d)
{
    cli_loader_destroy(d->loader);
    an_text_fini(&d->text);
    an_ctx_destroy(d->ctx);
    *d = (cli_data){0};
}

uint64_t cli_data_count(const cli_data *d, cli_split split, int64_t context)
{
    if (d->model->data == MODEL_IMAGES) return d->images[split].n;
    if (d->model->data == MODEL_DRAWN) return 0;
    const size_t n = split == CLI_SPLIT_TRAIN ? split_at(d) : d->text.n - split_at(d);
    return n > (size_t)context ? n - (size_t)context : 0;
}

uint32_t cli_data_ntest(const cli_data *d, int64_t context)
{
    const uint64_t n = cli_data_count(d, CLI_SPLIT_TEST, context);
    const uint64_t each = d->model->data == MODEL_TEXT ? (n + (uint64_t)context - 1) / (uint64_t)context : n;
    return each > UINT32_MAX ? UINT32_MAX : (uint32_t)each;
}

void cli_data_describe(const cli_data *d, char *text, size_t size)
{
    if (d->model->data == MODEL_IMAGES)
        snprintf(text, size, "%u images, %u to test", d->images[CLI_SPLIT_TRAIN].n, d->images[CLI_SPLIT_TEST].n);
    else if (d->model->data == MODEL_TEXT)
        snprintf(text, size, "%zu characters, %u different ones, the last tenth to test", d->text.n, d->text.nvocab);
    else
        snprintf(text, size, "new in each step");
}

/* --- batches ---------------------------------------------------------------------------------------- */

int cli_batcher_open(cli_batcher *b, const cli_data *d, uint32_t batch, int64_t context, uint64_t seed, cli_error *e)
{
    const uint64_t n = cli_data_count(d, CLI_SPLIT_TRAIN, context);
    *b = (cli_batcher){.data = d, .batch = batch, .context = context, .seed = seed};
    if (d->model->data == MODEL_DRAWN) return 0;
    if (d->model->data == MODEL_TEXT) {
        if (n == 0 || cli_data_count(d, CLI_SPLIT_TEST, context) == 0)
            return cli_fail(e, AN_ERR_ARG, "%s has %zu characters; for a context of %lld it takes more than %lld", d->title, d->text.n,
                            (long long)context, (long long)(context + 1) * 10);
        if (n > UINT32_MAX) return cli_fail(e, AN_ERR_LIMIT, "%s: a text of more than 2^32 characters", d->title);
        b->per_epoch = n / ((uint64_t)context * batch);
        if (b->per_epoch == 0) b->per_epoch = 1;
        return 0;
    }
    if (n < batch) return cli_fail(e, AN_ERR_ARG, "--batch %u is more than the %u images for training", batch, (unsigned)n);
    b->per_epoch = n / batch;
    b->order = malloc(n * sizeof *b->order);
    return b->order ? 0 : cli_fail(e, AN_ERR_NOMEM, "out of memory");
}

void cli_batcher_close(cli_batcher *b)
{
    free(b->order);
    *b = (cli_batcher){0};
}

int cli_batcher_vary(cli_batcher *b, const uint32_t *sizes, uint32_t n, cli_error *e)
{
    const uint32_t count = b->data->images[CLI_SPLIT_TRAIN].n;
    const int64_t most = b->data->model->max_batch;
    b->batch = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (sizes[i] > most)
            return cli_fail(e, AN_ERR_ARG, "a batch of %u: %s takes up to %lld", sizes[i], b->data->model->name, (long long)most);
        if (sizes[i] > count) return cli_fail(e, AN_ERR_ARG, "a batch of %u is more than the %u images for training", sizes[i], count);
        if (sizes[i] > b->batch) b->batch = sizes[i];
        b->sizes[i] = sizes[i];
    }
    b->nsizes = n;
    b->per_epoch = (count + sizes[0] - 1) / sizes[0];
    return 0;
}

static uint64_t steps_in(const cli_batcher *b, uint64_t epoch)
{
    const uint32_t size = b->sizes[epoch < b->nsizes ? epoch : b->nsizes - 1];
    return (b->data->images[CLI_SPLIT_TRAIN].n + size - 1) / size;
}

cli_share cli_batcher_at(const cli_batcher *b, uint64_t step)
{
    if (b->nsizes == 0) return (cli_share){step / b->per_epoch, (uint32_t)(step % b->per_epoch) * b->batch, b->batch};
    cli_share at = {0};
    for (; at.epoch + 1 < b->nsizes && step >= steps_in(b, at.epoch); at.epoch++) step -= steps_in(b, at.epoch);
    const uint64_t each = steps_in(b, at.epoch);
    const uint32_t count = b->data->images[CLI_SPLIT_TRAIN].n;
    at.epoch += step / each;
    const uint32_t size = b->sizes[at.epoch < b->nsizes ? at.epoch : b->nsizes - 1];
    at.first = (uint32_t)(step % each) * size;
    at.n = size < count - at.first ? size : count - at.first;
    return at;
}

uint64_t cli_batcher_steps(const cli_batcher *b, uint64_t epochs)
{
    if (b->nsizes == 0) return epochs * b->per_epoch;
    uint64_t n = 0, e = 0;
    for (; e < epochs && e < b->nsizes; e++) n += steps_in(b, e);
    return n + (epochs - e) * steps_in(b, e);
}

/* Sequence i of a batch, from where it begins in the text; a model may not ask for targets. */
static void put_sequence(const int32_t *from, int64_t context, uint32_t i, void *const inputs[MODEL_INPUTS_MAX])
{
    const size_t nbytes = (size_t)context * sizeof *from;
    for (int k = 0; k < MODEL_INPUTS_MAX; k++)
        if (inputs[k]) memcpy((char *)inputs[k] + i * nbytes, from + k, nbytes);
}

void cli_batcher_fill(cli_batcher *b, uint64_t step, void *const inputs[MODEL_INPUTS_MAX])
{
    const cli_data *d = b->data;
    if (d->model->data == MODEL_TEXT) {
        const uint32_t n = (uint32_t)cli_data_count(d, CLI_SPLIT_TRAIN, b->context);
        for (uint32_t i = 0; i < b->batch; i++)
            put_sequence(d->text.tokens + an_sample(b->seed, step, i, n), b->context, i, inputs);
    } else if (d->model->data == MODEL_IMAGES) {
        const cli_images *train = &d->images[CLI_SPLIT_TRAIN];
        const cli_share at = cli_batcher_at(b, step);
        if (b->epoch != at.epoch + 1) an_shuffle(b->seed, (uint32_t)at.epoch, train->n, b->order);
        b->epoch = at.epoch + 1;
        cli_batch(train, b->order + at.first, at.n, b->batch, inputs[0], inputs[1]);
    }
}

void cli_data_test(const cli_data *d, uint32_t first, uint32_t n, uint32_t batch, int64_t context,
                   void *const inputs[MODEL_INPUTS_MAX])
{
    if (d->model->data == MODEL_TEXT) {
        const size_t last = d->text.n - 1 - (size_t)context; /* the last sequence overlaps the one before it */
        for (uint32_t i = 0; i < batch; i++) {
            size_t at = split_at(d) + (size_t)(first + (i < n ? i : 0)) * (size_t)context;
            if (at > last) at = last;
            put_sequence(d->text.tokens + at, context, i, inputs);
        }
    } else if (d->model->data == MODEL_IMAGES) {
        const cli_images *test = &d->images[CLI_SPLIT_TEST];
        const size_t f = test->features;
        uint8_t *pixels = inputs[0];
        int32_t *labels = inputs[1];
        memcpy(pixels, test->pixels + (size_t)first * f, (size_t)n * f);
        memset(pixels + (size_t)n * f, 0, (size_t)(batch - n) * f);
        for (uint32_t i = 0; i < batch && labels; i++) labels[i] = i < n ? test->labels[first + i] : 0;
    }
}
