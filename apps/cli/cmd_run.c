/* cmd_run.c - `anneal run MODEL`: forward on test images. There is nothing saved to load yet, so the network is trained a
 * little first, and that is said. */
#include "trainer.h"

#include "term.h"

#include <math.h>

typedef struct run_args {
    const char *model, *device, *data, *optimizer;
    uint64_t epochs, batch, seed, count;
    bool json;
} run_args;

/* The probability of class k: softmax of the row, on the host. */
static double probability(const float *row, uint32_t classes, uint32_t k)
{
    double sum = 0;
    for (uint32_t i = 0; i < classes; i++) sum += exp((double)row[i] - (double)row[k]);
    return 1 / sum;
}

static void print_class(char *text, size_t size, const cli_place *place, uint32_t k)
{
    const char *name = place->info && k < CLI_CLASSES_MAX ? place->info->classes[k] : NULL;
    if (name)
        snprintf(text, size, "%s", name);
    else
        snprintf(text, size, "%u", k);
}

static void print_prediction(const run_args *a, const cli_style *style, const cli_place *place, uint32_t i, uint32_t guess,
                             uint32_t truth, double p)
{
    char text[2][32];
    print_class(text[0], sizeof text[0], place, guess);
    print_class(text[1], sizeof text[1], place, truth);
    if (a->json) {
        printf("{\"image\": %u, \"prediction\": %u, \"name\": \"%s\", \"probability\": %.9g, \"label\": %u, \"right\": %s}\n", i,
               guess, text[0], p, truth, guess == truth ? "true" : "false");
        return;
    }
    printf("image %-5u %-12s %5.1f %%   %s%s%s%s\n", i, text[0], p * 100,
           cli_paint(style, guess == truth ? CLI_TEAL : CLI_EMBER), guess == truth ? "right" : "wrong: it is ",
           guess == truth ? "" : text[1], cli_paint(style, CLI_PLAIN));
}

static int predict(const run_args *a, const cli_place *place, cli_trainer *t, cli_error *e)
{
    const cli_images *test = &t->data[CLI_SPLIT_TEST];
    const uint32_t classes = t->session->model->classes;
    const uint64_t count = a->count < test->n ? a->count : test->n;
    const cli_style style = cli_style_of(stdout);
    for (uint32_t first = 0; first < count; first += t->eval_batch) {
        const uint32_t n = count - first < t->eval_batch ? (uint32_t)count - first : t->eval_batch;
        if (cli_trainer_logits(t, first, n, e)) return e->code;
        for (uint32_t i = 0; i < n; i++) {
            const float *row = t->logits + (size_t)i * classes;
            const uint32_t guess = cli_argmax(row, classes);
            print_prediction(a, &style, place, first + i, guess, test->labels[first + i], probability(row, classes, guess));
        }
    }
    return 0;
}

static int run(const run_args *a, const cli_place *place, cli_trainer *t, cli_error *e)
{
    uint32_t n = 0, right = 0;
    const uint64_t steps = a->epochs * t->steps_per_epoch;
    if (!a->json) {
        if (steps > 0)
            printf("anneal run %s: %s on %s; no weights are saved anywhere, so it is trained first: %llu steps\n",
                   t->session->model->name, place->title, t->session->device, (unsigned long long)steps);
        else
            printf("anneal run %s: %s on %s; untrained, with the weights of seed %llu\n", t->session->model->name, place->title,
                   t->session->device, (unsigned long long)a->seed);
        fflush(stdout);
    }
    while (t->step < steps) {
        const int sig = cli_signal_pending();
        if (sig) return cli_fail(e, 128 + sig, "interrupted after step %llu", (unsigned long long)t->step);
        if (cli_trainer_step(t, e)) return e->code;
    }
    if (predict(a, place, t, e)) return e->code;
    if (cli_trainer_evaluate(t, &n, &right, e)) return e->code;
    const double accuracy = (double)right / n;
    if (a->json)
        printf("{\"test_accuracy\": %.9g, \"test_images\": %u, \"steps\": %llu, \"synthetic\": %s}\n", accuracy, n,
               (unsigned long long)t->step, place->synthetic ? "true" : "false");
    else
        printf("test accuracy %.2f %% (%u of %u%s)\n", accuracy * 100, right, n,
               place->synthetic ? ", of SYNTHETIC data: no real images" : "");
    return 0;
}

static int verb_run(const void *args)
{
    const run_args *a = args;
    cli_error e = {0};
    cli_place place;
    cli_session s = {0};
    cli_trainer t = {0};
    cli_loader *loader = NULL;
    an_ctx *ctx = NULL;
    const model_options options = {.batch = (int64_t)a->batch, .eval_batch = CLI_EVAL_BATCH, .seed = a->seed,
                                   .optimizer = a->optimizer};
    const model *m = cli_find_model(a->model, &e);
    if (!m) return cli_say(&e);
    if (an_ctx_create(NULL, &ctx)) return cli_usage_error("out of memory");
    cli_signals_block();
    if (cli_dataset_place(ctx, m->dataset, a->data, &place, &e)) goto done;
    if (cli_loader_start(&place, (cli_want){m->features, m->classes}, &loader, &e)) goto done;
    if (cli_session_open(&s, a->model, a->device, &options, &e)) goto done;
    if (cli_trainer_open(&t, &s, &options, loader, &e)) goto done;
    run(a, &place, &t, &e);
done:
    cli_trainer_close(&t);
    cli_session_close(&s);
    cli_loader_destroy(loader);
    an_ctx_destroy(ctx);
    return e.code ? cli_say(&e) : 0;
}

static const cli_option options[] = {
    {"count", CLI_WHOLE, offsetof(run_args, count), "N", "10", "images to show", 0, 1e9, NULL},
    {"epochs", CLI_WHOLE, offsetof(run_args, epochs), "N", "1", "training before that; 0: none", 0, 1e6, NULL},
    CLI_OPTION_BATCH(run_args),
    CLI_OPTION_OPTIMIZER(run_args),
    CLI_OPTION_SEED(run_args),
    CLI_OPTION_DEVICE(run_args),
    CLI_OPTION_DATA(run_args),
    CLI_OPTION_JSON(run_args, "a JSON object an image, then one with test_accuracy"),
};

const cli_verb cli_verb_run = {
    .name = "run",
    .operand = "MODEL",
    .operand_offset = offsetof(run_args, model),
    .summary = "classify test images and say how sure the model is",
    .about = "Weights are not saved yet: the model is trained for --epochs first. Data is found as 'anneal train' does.\n",
    .examples = "  anneal run mlp\n"
                "  anneal run mlp --count 100 --epochs 3\n"
                "  anneal run mlp --epochs 0 --json\n",
    .options = options,
    .noptions = CLI_COUNT(options),
    .args_size = sizeof(run_args),
    .run = verb_run,
};
