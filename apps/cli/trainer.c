/* trainer.c - see trainer.h. */
#include "trainer.h"

#include <stdlib.h>
#include <string.h>

static int make_room(cli_trainer *t, cli_error *e)
{
    const model *m = t->session->model;
    const cli_images *train = &t->data[CLI_SPLIT_TRAIN], *test = &t->data[CLI_SPLIT_TEST];
    const uint32_t batch = t->batch > t->eval_batch ? t->batch : t->eval_batch;
    const uint32_t n = train->n > test->n ? train->n : test->n;
    t->order = malloc(n * sizeof *t->order);
    t->pixels = malloc((size_t)batch * m->features);
    t->labels = malloc(batch * sizeof *t->labels);
    t->logits = malloc((size_t)t->eval_batch * m->classes * sizeof *t->logits);
    if (!t->order || !t->pixels || !t->labels || !t->logits) return cli_fail(e, AN_ERR_NOMEM, "out of memory");
    return 0;
}

int cli_trainer_open(cli_trainer *t, const cli_session *s, const model_options *o, cli_loader *loader, cli_error *e)
{
    an_tensor *loss = s->m.loss, *logits = s->m.eval_logits;
    *t = (cli_trainer){.session = s, .batch = (uint32_t)o->batch, .eval_batch = (uint32_t)o->eval_batch, .seed = o->seed};
    if (an_optim_plan(s->m.optim, &loss, 1, NULL, &t->plan)) return cli_fail_ctx(e, s->ctx);
    if (an_plan_create(s->graph, &logits, 1, NULL, &t->eval_plan)) return cli_fail_ctx(e, s->ctx);
    if (cli_loader_wait(loader, &t->data, e)) return e->code;
    const uint32_t n = t->data[CLI_SPLIT_TRAIN].n;
    if (n < t->batch) return cli_fail(e, AN_ERR_ARG, "--batch %u is more than the %u images for training", t->batch, n);
    t->steps_per_epoch = n / t->batch;
    return make_room(t, e);
}

void cli_trainer_close(cli_trainer *t)
{
    an_plan_destroy(t->plan);
    an_plan_destroy(t->eval_plan);
    free(t->order);
    free(t->pixels);
    free(t->labels);
    free(t->logits);
    *t = (cli_trainer){0};
}

int cli_trainer_step(cli_trainer *t, cli_error *e)
{
    const cli_images *train = &t->data[CLI_SPLIT_TRAIN];
    const model_graphs *m = &t->session->m;
    const uint64_t at = t->step % t->steps_per_epoch;
    if (at == 0) an_shuffle(t->seed, (uint32_t)(t->step / t->steps_per_epoch), train->n, t->order);
    cli_batch(train, t->order + at * t->batch, t->batch, t->batch, t->pixels, t->labels);
    if (an_tensor_write(m->images, t->pixels, (size_t)t->batch * train->features) ||
        an_tensor_write(m->labels, t->labels, t->batch * sizeof *t->labels) || an_plan_run(t->plan))
        return cli_fail_ctx(e, t->session->ctx);
    t->step++;
    return 0;
}

int cli_trainer_loss(cli_trainer *t, double *loss, cli_error *e)
{
    return an_item_f64(t->session->m.loss, loss) ? cli_fail_ctx(e, t->session->ctx) : 0;
}

int cli_trainer_logits(cli_trainer *t, uint32_t first, uint32_t n, cli_error *e)
{
    const cli_images *test = &t->data[CLI_SPLIT_TEST];
    const cli_session *s = t->session;
    const size_t nbytes = (size_t)test->features * t->eval_batch;
    memcpy(t->pixels, test->pixels + (size_t)first * test->features, (size_t)n * test->features);
    memset(t->pixels + (size_t)n * test->features, 0, nbytes - (size_t)n * test->features);
    if (an_tensor_write(s->m.eval_images, t->pixels, nbytes) || an_plan_run(t->eval_plan) ||
        an_tensor_read(s->m.eval_logits, t->logits, (size_t)t->eval_batch * s->model->classes * sizeof *t->logits))
        return cli_fail_ctx(e, s->ctx);
    return 0;
}

uint32_t cli_argmax(const float *x, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

int cli_trainer_evaluate(cli_trainer *t, uint32_t *n, uint32_t *right, cli_error *e)
{
    const cli_images *test = &t->data[CLI_SPLIT_TEST];
    const uint32_t classes = t->session->model->classes;
    const uint32_t total = *n == 0 || *n > test->n ? test->n : *n;
    uint32_t count = 0;
    for (uint32_t first = 0; first < total; first += t->eval_batch) {
        const uint32_t k = total - first < t->eval_batch ? total - first : t->eval_batch;
        if (cli_trainer_logits(t, first, k, e)) return e->code;
        for (uint32_t i = 0; i < k; i++) count += cli_argmax(t->logits + (size_t)i * classes, classes) == test->labels[first + i];
    }
    *n = total;
    *right = count;
    return 0;
}
