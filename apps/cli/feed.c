/* feed.c - see feed.h. Two batches: one being used, one being made. */
#define _POSIX_C_SOURCE 200809L
#include "feed.h"

#include <pthread.h>
#include <stdlib.h>

typedef struct slot {
    void *inputs[MODEL_INPUTS_MAX];
    bool is_full;
} slot;

struct cli_feed {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool has_thread, is_closing;
    cli_batcher *batcher;
    uint64_t step; /* of the next batch to make */
    slot slots[2];
    int making, using; /* using is -1 before the first */
};

static void *work(void *user)
{
    cli_feed *f = user;
    pthread_mutex_lock(&f->lock);
    while (!f->is_closing) {
        slot *s = &f->slots[f->making];
        if (s->is_full) {
            pthread_cond_wait(&f->changed, &f->lock);
            continue;
        }
        const uint64_t step = f->step++;
        pthread_mutex_unlock(&f->lock);
        cli_batcher_fill(f->batcher, step, s->inputs);
        pthread_mutex_lock(&f->lock);
        s->is_full = true;
        f->making = 1 - f->making;
        pthread_cond_broadcast(&f->changed);
    }
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

int cli_feed_open(cli_batcher *b, const size_t sizes[MODEL_INPUTS_MAX], uint64_t first, cli_feed **out, cli_error *e)
{
    cli_feed *f = calloc(1, sizeof *f);
    if (!f) return cli_fail(e, AN_ERR_NOMEM, "out of memory");
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->changed, NULL);
    f->batcher = b;
    f->step = first;
    f->using = -1;
    for (int s = 0; s < 2; s++) {
        for (int i = 0; i < MODEL_INPUTS_MAX; i++) {
            if (sizes[i] && !(f->slots[s].inputs[i] = malloc(sizes[i]))) {
                cli_feed_close(f);
                return cli_fail(e, AN_ERR_NOMEM, "out of memory");
            }
        }
    }
    f->has_thread = pthread_create(&f->thread, NULL, work, f) == 0; /* with none, batches are made when asked for */
    *out = f;
    return 0;
}

void *const *cli_feed_next(cli_feed *f)
{
    if (!f->has_thread) {
        cli_batcher_fill(f->batcher, f->step++, f->slots[0].inputs);
        return f->slots[0].inputs;
    }
    pthread_mutex_lock(&f->lock);
    if (f->using >= 0) {
        f->slots[f->using].is_full = false;
        pthread_cond_broadcast(&f->changed);
    }
    f->using = f->using < 0 ? 0 : 1 - f->using;
    while (!f->slots[f->using].is_full) pthread_cond_wait(&f->changed, &f->lock);
    pthread_mutex_unlock(&f->lock);
    return f->slots[f->using].inputs;
}

void cli_feed_close(cli_feed *f)
{
    if (!f) return;
    if (f->has_thread) {
        pthread_mutex_lock(&f->lock);
        f->is_closing = true;
        pthread_cond_broadcast(&f->changed);
        pthread_mutex_unlock(&f->lock);
        pthread_join(f->thread, NULL);
    }
    for (int s = 0; s < 2; s++)
        for (int i = 0; i < MODEL_INPUTS_MAX; i++) free(f->slots[s].inputs[i]);
    pthread_cond_destroy(&f->changed);
    pthread_mutex_destroy(&f->lock);
    free(f);
}
