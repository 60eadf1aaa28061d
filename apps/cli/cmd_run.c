/* cmd_run.c - `anneal run MODEL`: what a model does, on test images or as samples. Without weights to load it is trained a little
 * first, and that is said. */
#include "checkpoint.h"
#include "ending.h"
#include "trainer.h"

#include "term.h"

#include <math.h>

typedef struct run_args {
    cli_model_args m;
    uint64_t count;
    const char *samples, *checkpoint;
    bool json;
} run_args;

/* The probability of class k: softmax of the row, on the host. */
static double probability(const float *row, uint32_t classes, uint32_t k)
{
    double sum = 0;
    for (uint32_t i = 0; i < classes; i++) sum += exp((double)row[i] - (double)row[k]);
    return 1 / sum;
}

static void print_class(char *text, size_t size, const cli_data *data, uint32_t k)
{
    const char *name = data->place.info && k < CLI_CLASSES_MAX ? data->place.info->classes[k] : NULL;
    if (name)
        snprintf(text, size, "%s", name);
    else
        snprintf(text, size, "%u", k);
}

static void print_prediction(const run_args *a, const cli_style *style, const cli_data *data, uint32_t i, uint32_t guess,
                             uint32_t truth, double p)
{
    char text[2][32];
    print_class(text[0], sizeof text[0], data, guess);
    print_class(text[1], sizeof text[1], data, truth);
    if (a->json) {
        printf("{\"image\": %u, \"prediction\": %u, \"name\": \"%s\", \"probability\": %.9g, \"label\": %u, \"right\": %s}\n", i,
               guess, text[0], p, truth, guess == truth ? "true" : "false");
        return;
    }
    printf("image %-5u %-12s %5.1f %%   %s%s%s%s\n", i, text[0], p * 100,
           cli_paint(style, guess == truth ? CLI_TEAL : CLI_EMBER), guess == truth ? "right" : "wrong: it is ",
           guess == truth ? "" : text[1], cli_paint(style, CLI_PLAIN));
}

static int predict(const run_args *a, cli_trainer *t, cli_error *e)
{
    const cli_images *test = &t->data->images[CLI_SPLIT_TEST];
    const uint32_t classes = t->session->model->classes;
    const uint64_t count = a->count < test->n ? a->count : test->n;
    const cli_style style = cli_style_of(stdout);
    for (uint32_t first = 0; first < count; first += t->eval_batch) {
        const uint32_t n = count - first < t->eval_batch ? (uint32_t)count - first : t->eval_batch;
        if (cli_trainer_logits(t, first, n, e)) return e->code;
        for (uint32_t i = 0; i < n; i++) {
            const float *row = t->logits + (size_t)i * classes;
            const uint32_t guess = cli_argmax(row, classes);
            print_prediction(a, &style, t->data, first + i, guess, test->labels[first + i], probability(row, classes, guess));
        }
    }
    return 0;
}

static int run(const run_args *a, cli_trainer *t, cli_error *e)
{
    char text[64];
    cli_result result = {0};
    if (!a->json) {
        const char *title = t->data->title, *device = t->session->device;
        if (t->steps > 0)
            printf("anneal run %s: %s on %s; no weights are given, so it is trained first: %llu steps\n",
                   t->session->model->name, title, device, (unsigned long long)t->steps);
        else
            printf("anneal run %s: %s on %s; %s%s\n", t->session->model->name, title, device,
                   a->checkpoint ? "weights from " : "untrained: the weights are those of the seed", a->checkpoint ? a->checkpoint : "");
        fflush(stdout);
    }
    while (t->step < t->steps) {
        const int sig = cli_signal_pending();
        if (sig) return cli_fail(e, 128 + sig, "interrupted after step %llu", (unsigned long long)t->step);
        if (cli_trainer_step(t, e)) return e->code;
    }
    if (t->session->model->is_classifier && predict(a, t, e)) return e->code;
    if (cli_trainer_test(t, 0, &result, e)) return e->code;
    cli_result_print(t, &result, text, sizeof text);
    if (a->json) {
        putchar('{');
        if (result.known) printf("\"%s\": %.9g, \"test_images\": %u, ", cli_result_name(t), result.value, result.n);
        printf("\"steps\": %llu, \"synthetic\": %s}\n", (unsigned long long)t->step, t->data->synthetic ? "true" : "false");
        return 0;
    }
    fputs(text, stdout);
    if (result.is_accuracy)
        printf(" (%u of %u%s)", result.right, result.n, t->data->synthetic ? ", of SYNTHETIC data: no real images" : "");
    putchar('\n');
    return cli_show_ending(t, a->samples, e);
}

/* How long it is trained where nothing is said about it. */
enum { EPOCHS_OF_IMAGES = 1, STEPS_OF_OTHERS = 200 };

static int verb_run(const void *args)
{
    run_args a = *(const run_args *)args;
    cli_error e = {0};
    cli_data data = {0};
    cli_session s = {0};
    cli_trainer t = {0};
    cli_weights w = {0};
    const model *m = cli_find_model(a.m.model, &e);
    if (!m) return cli_say(&e);
    if (a.checkpoint) {
        if (cli_weights_open(&w, a.checkpoint, &e) || cli_weights_options(&w, &a.m, &e)) goto done;
        a.m.values[MODEL_STEPS] = a.m.values[MODEL_EPOCHS] = 0;
    }
    if (isnan(a.m.values[MODEL_STEPS]) && isnan(a.m.values[MODEL_EPOCHS])) {
        if (m->is_classifier)
            a.m.values[MODEL_EPOCHS] = EPOCHS_OF_IMAGES;
        else
            a.m.values[MODEL_STEPS] = STEPS_OF_OTHERS;
    }
    cli_signals_block();
    if (cli_data_open(&data, m, a.m.data, &e)) goto done;
    if (cli_session_open(&s, &a.m, &data, &e)) goto done;
    if (cli_trainer_open(&t, &s, &data, NULL, 0, &e)) goto done;
    if (a.checkpoint && cli_weights_load(&w, &s, &e)) goto done;
    run(&a, &t, &e);
    cli_session_finish(&s, &e);
done:
    cli_weights_close(&w);
    cli_trainer_close(&t);
    cli_session_close(&s);
    cli_data_close(&data);
    return e.code ? cli_say(&e) : 0;
}

static const cli_option options[] = {
    {"count", CLI_WHOLE, offsetof(run_args, count), "N", "10", "images to show, of a classifier", 0, 1e9, NULL},
    {"checkpoint", CLI_TEXT, offsetof(run_args, checkpoint), "FILE", NULL, "weights to use instead of training", 0, 0, NULL},
    {"samples", CLI_TEXT, offsetof(run_args, samples), "FILE", NULL, "where a model that makes pictures writes them", 0, 0, NULL},
    CLI_OPTIONS_OF_MODEL(run_args),
    CLI_OPTION_JSON(run_args, "a JSON object an image, then one with the result of the test"),
};

const cli_verb cli_verb_run = {
    .name = "run",
    CLI_VERB_OF_MODEL(run_args),
    .summary = "show what a model does: classes of test images, samples of text or pictures",
    .about = "Without --checkpoint the model is trained first: a classifier for --epochs [1], others for --steps [200]. Data is found as\n"
             "'anneal train' does.\n",
    .examples = "  anneal run mlp\n"
                "  anneal run mlp --count 100 --epochs 3\n"
                "  anneal run nanogpt --checkpoint gpt.safetensors\n",
    .options = options,
    .noptions = CLI_COUNT(options),
    .run = verb_run,
};
