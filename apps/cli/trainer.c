/* trainer.c - see trainer.h. */
#include "trainer.h"

#include <stdlib.h>
#include <string.h>

static int make_room(cli_trainer *t, cli_error *e)
{
    const model_graphs *m = &t->session->m;
    for (int i = 0; i < MODEL_INPUTS_MAX; i++) {
        t->sizes[i] = t->each[i] ? t->each[i] * t->batch : an_tensor_nbytes(m->inputs[i]);
        const size_t nbytes = an_tensor_nbytes(m->eval_inputs[i]);
        if (nbytes && !(t->test[i] = malloc(nbytes))) return cli_fail(e, AN_ERR_NOMEM, "out of memory");
    }
    /* the labels of a classifier's test images are looked up, not asked for by its graph */
    t->logits = malloc((size_t)t->eval_batch * (t->session->model->classes + 1) * sizeof *t->logits);
    return t->logits ? 0 : cli_fail(e, AN_ERR_NOMEM, "out of memory");
}

int cli_trainer_open(cli_trainer *t, const cli_session *s, cli_data *data, const uint32_t *sizes, uint32_t nsizes, cli_error *e)
{
    const model_options *o = &s->options;
    an_tensor *eval = s->m.eval;
    *t = (cli_trainer){.session = s, .data = data, .batch = (uint32_t)model_size(o, MODEL_BATCH), .eval_batch = (uint32_t)o->eval_batch};
    if (s->model->data == MODEL_TEXT) t->context = an_tensor_dim(s->m.inputs[0], 1);
    if (model_plan(&s->m, NULL, &t->plan)) return cli_fail_ctx(e, s->ctx);
    if (eval && an_plan_create(s->graph, &eval, 1, NULL, &t->eval_plan)) return cli_fail_ctx(e, s->ctx);
    if (cli_data_wait(data, e)) return e->code;
    if (cli_batcher_open(&t->batcher, data, t->batch, t->context, o->seed, e)) return e->code;
    if (s->model->max_batch) {
        if (cli_batcher_vary(&t->batcher, sizes ? sizes : &t->batch, sizes ? nsizes : 1, e)) return e->code;
        t->batch = t->batcher.batch;
        t->each[0] = s->model->features; /* bytes of an image, and of a label */
        t->each[1] = sizeof(int32_t);
    }
    t->steps_per_epoch = t->batcher.per_epoch;
    t->steps = (uint64_t)o->values[MODEL_STEPS];
    if (t->steps == 0) t->steps = cli_batcher_steps(&t->batcher, (uint64_t)o->values[MODEL_EPOCHS]);
    const double updates = o->values[MODEL_ACCUMULATE] > 1 ? (double)t->steps / o->values[MODEL_ACCUMULATE] : (double)t->steps;
    if (an_optim_set_total(s->m.optim, o->values[MODEL_WARMUP], updates)) return cli_fail_ctx(e, s->ctx);
    return make_room(t, e);
}

void cli_trainer_close(cli_trainer *t)
{
    cli_feed_close(t->feed);
    cli_batcher_close(&t->batcher);
    an_plan_destroy(t->plan);
    an_plan_destroy(t->eval_plan);
    for (int i = 0; i < MODEL_INPUTS_MAX; i++) free(t->test[i]);
    free(t->logits);
    *t = (cli_trainer){0};
}

int cli_trainer_step(cli_trainer *t, cli_error *e)
{
    const model_graphs *m = &t->session->m;
    if (!t->feed && cli_feed_open(&t->batcher, t->sizes, t->step, &t->feed, e)) return e->code;
    void *const *inputs = cli_feed_next(t->feed);
    const uint32_t n = t->each[0] ? cli_batcher_at(&t->batcher, t->step).n : 0;
    if (n && an_plan_bind(t->plan, "batch", n)) return cli_fail_ctx(e, t->session->ctx);
    for (int i = 0; i < MODEL_INPUTS_MAX; i++)
        if (m->inputs[i] && an_tensor_write(m->inputs[i], inputs[i], n ? n * t->each[i] : t->sizes[i]))
            return cli_fail_ctx(e, t->session->ctx);
    if (an_plan_run(t->plan)) return cli_fail_ctx(e, t->session->ctx);
    t->step++;
    return 0;
}

int cli_trainer_loss(cli_trainer *t, double *loss, cli_error *e)
{
    return an_item_f64(t->session->m.loss, loss) ? cli_fail_ctx(e, t->session->ctx) : 0;
}

/* Runs the test graph on examples first..first + n. */
static int run_test(cli_trainer *t, uint32_t first, uint32_t n, cli_error *e)
{
    const model_graphs *m = &t->session->m;
    cli_data_test(t->data, first, n, t->eval_batch, t->context, t->test);
    for (int i = 0; i < MODEL_INPUTS_MAX; i++)
        if (m->eval_inputs[i] && an_tensor_write(m->eval_inputs[i], t->test[i], an_tensor_nbytes(m->eval_inputs[i])))
            return cli_fail_ctx(e, t->session->ctx);
    return an_plan_run(t->eval_plan) ? cli_fail_ctx(e, t->session->ctx) : 0;
}

int cli_trainer_logits(cli_trainer *t, uint32_t first, uint32_t n, cli_error *e)
{
    if (run_test(t, first, n, e)) return e->code;
    const size_t nbytes = (size_t)t->eval_batch * t->session->model->classes * sizeof *t->logits;
    return an_tensor_read(t->session->m.eval, t->logits, nbytes) ? cli_fail_ctx(e, t->session->ctx) : 0;
}

uint32_t cli_argmax(const float *x, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

static int count_right(cli_trainer *t, uint32_t total, cli_result *r, cli_error *e)
{
    const cli_images *test = &t->data->images[CLI_SPLIT_TEST];
    const uint32_t classes = t->session->model->classes;
    for (uint32_t first = 0; first < total; first += t->eval_batch) {
        const uint32_t k = total - first < t->eval_batch ? total - first : t->eval_batch;
        if (cli_trainer_logits(t, first, k, e)) return e->code;
        for (uint32_t i = 0; i < k; i++)
            r->right += cli_argmax(t->logits + (size_t)i * classes, classes) == test->labels[first + i];
    }
    r->n = total;
    r->value = (double)r->right / total;
    return 0;
}

/* The mean over whole batches, so that examples count alike; at least one batch. */
static int mean_loss(cli_trainer *t, uint32_t total, cli_result *r, cli_error *e)
{
    const uint32_t nbatches = total < t->eval_batch ? 1 : total / t->eval_batch;
    double sum = 0;
    for (uint32_t b = 0; b < nbatches; b++) {
        double loss = 0;
        const uint32_t first = b * t->eval_batch, k = total - first < t->eval_batch ? total - first : t->eval_batch;
        if (run_test(t, first, k, e)) return e->code;
        if (an_item_f64(t->session->m.eval, &loss)) return cli_fail_ctx(e, t->session->ctx);
        sum += loss;
    }
    r->n = nbatches * t->eval_batch < total ? nbatches * t->eval_batch : total;
    r->value = sum / nbatches;
    return 0;
}

enum { DRAWN_BATCHES = 8 };

int cli_trainer_test(cli_trainer *t, uint32_t n, cli_result *r, cli_error *e)
{
    const model *m = t->session->model;
    cli_result found = {.known = t->eval_plan != NULL, .is_accuracy = m->is_classifier, .step = t->step};
    uint32_t all = m->data == MODEL_DRAWN ? t->eval_batch * DRAWN_BATCHES : cli_data_ntest(t->data, t->context);
    if (n > 0 && n < all) all = n;
    int code = 0;
    if (found.known) code = m->is_classifier ? count_right(t, all, &found, e) : mean_loss(t, all, &found, e);
    if (!code) *r = found;
    return code;
}

const char *cli_result_name(const cli_trainer *t)
{
    const model *m = t->session->model;
    return m->is_classifier ? "test_accuracy" : m->data == MODEL_TEXT ? "validation_loss" : "test_loss";
}

void cli_result_print(const cli_trainer *t, const cli_result *r, char *text, size_t size)
{
    if (!r->known)
        snprintf(text, size, "not tested");
    else if (r->is_accuracy)
        snprintf(text, size, "test accuracy %.2f %%", r->value * 100);
    else
        snprintf(text, size, "%s loss %.4f", t->session->model->data == MODEL_TEXT ? "validation" : "test", r->value);
}
