/* cmd_train.c - `anneal train MODEL`: the loop with its looks. Three of them: a live page on a terminal, plain lines
 * elsewhere, one JSON object a step with --json. The loss is read back only when one of them shows it. */
#define _POSIX_C_SOURCE 200809L
#include "dashboard.h"
#include "trainer.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct train_args {
    const char *model, *device, *data, *optimizer;
    uint64_t steps, epochs, batch, seed, test_images;
    double lr, momentum, weight_decay;
    bool json, plain, timing;
} train_args;

enum { LINES = 20, QUICK_TEST = 1000 };
static const double frame_s = 0.1, quick_test_s = 1.0;

typedef struct run {
    const train_args *args;
    const cli_place *place;
    cli_trainer *t;
    uint64_t steps;
    cli_style style;
    cli_term term;
    cli_curve curve;
    cli_progress p;
    double begun, first_step, started, shown, tested; /* cli_now's seconds */
    uint64_t steps_shown;
    int signal; /* that ended it */
    bool quit, said_nan;
} run;

/* --- the numbers ------------------------------------------------------------------------------------------ */

static size_t memory_nbytes(void)
{
    unsigned long pages = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r"); /* where there is none, 0 is shown */
    if (!f) return 0;
    if (fscanf(f, "%lu %lu", &pages, &resident) != 2) resident = 0;
    fclose(f);
    return (size_t)resident * (size_t)sysconf(_SC_PAGESIZE);
}

static int read_loss(run *r, cli_error *e)
{
    if (cli_trainer_loss(r->t, &r->p.loss, e)) return e->code;
    cli_curve_add(&r->curve, (double)r->t->step, r->p.loss);
    if (!isfinite(r->p.loss) && !r->said_nan && !r->term.is_open) {
        cli_note("the loss is not a number any more at step %llu; a smaller --lr may help", (unsigned long long)r->t->step);
        r->said_nan = true;
    }
    return 0;
}

static int test(run *r, uint32_t n, cli_error *e)
{
    uint32_t right = 0;
    if (cli_trainer_evaluate(r->t, &n, &right, e)) return e->code;
    r->p.accuracy = (double)right / n;
    r->p.accuracy_step = r->t->step;
    r->tested = cli_now();
    return 0;
}

static void update_pace(run *r)
{
    const double now = cli_now(), passed = now - r->shown;
    const uint64_t done = r->t->step;
    if (passed > 0 && done > r->steps_shown) {
        const double pace = (double)(done - r->steps_shown) / passed, old = r->p.steps_per_second;
        r->p.steps_per_second = old > 0 ? 0.7 * old + 0.3 * pace : pace;
    }
    r->p.step = done;
    r->p.epoch = done > 0 ? (done - 1) / r->t->steps_per_epoch + 1 : 1;
    const double pace = (double)done / (now - r->started);
    r->p.seconds_left = done > 0 && pace > 0 ? (double)(r->steps - done) / pace : -1;
    r->p.nbytes = memory_nbytes();
    r->shown = now;
    r->steps_shown = done;
}

/* --- the looks ---------------------------------------------------------------------------------------------- */

static void draw(run *r)
{
    int cols = 0, rows = 0;
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    if (!f) return;
    cli_term_size(&cols, &rows); /* asked for each frame, so a resize needs no signal */
    cli_dashboard_draw(f, &r->style, &r->p, cols, rows);
    fclose(f);
    cli_term_write(text, n);
    free(text);
}

static int show_page(run *r, cli_error *e)
{
    const bool is_end = r->t->step == r->steps || r->t->step % r->t->steps_per_epoch == 0;
    if (!is_end && cli_now() - r->shown < frame_s) return 0;
    if (read_loss(r, e)) return e->code;
    if (is_end && test(r, (uint32_t)r->args->test_images, e)) return e->code;
    if (cli_now() - r->tested > quick_test_s && test(r, QUICK_TEST, e)) return e->code;
    update_pace(r);
    draw(r);
    return 0;
}

static int show_line(run *r, cli_error *e)
{
    const uint64_t every = (r->steps + LINES - 1) / LINES, step = r->t->step;
    const bool is_epoch = step % r->t->steps_per_epoch == 0;
    if (step != 1 && step != r->steps && step % every != 0 && !is_epoch) return 0;
    if (read_loss(r, e)) return e->code;
    if (is_epoch && step != r->steps && test(r, (uint32_t)r->args->test_images, e)) return e->code;
    update_pace(r);
    printf("epoch %llu/%llu  step %llu/%llu  loss %.4f", (unsigned long long)r->p.epoch, (unsigned long long)r->p.epochs,
           (unsigned long long)step, (unsigned long long)r->steps, r->p.loss);
    if (step > 1) printf("  %.0f steps/s", r->p.steps_per_second);
    if (r->p.accuracy_step == step) printf("  test accuracy %.2f %%", r->p.accuracy * 100);
    putchar('\n');
    fflush(stdout);
    return 0;
}

static int show_json(run *r, cli_error *e)
{
    if (read_loss(r, e)) return e->code;
    if (isfinite(r->p.loss))
        printf("{\"step\": %llu, \"loss\": %.9g}\n", (unsigned long long)r->t->step, r->p.loss);
    else /* JSON has no such number */
        printf("{\"step\": %llu, \"loss\": null}\n", (unsigned long long)r->t->step);
    return ferror(stdout) ? cli_fail(e, AN_ERR_IO, "the output could not be written") : 0;
}

static int show(run *r, cli_error *e)
{
    if (r->args->json) return show_json(r, e);
    return r->term.is_open ? show_page(r, e) : show_line(r, e);
}

/* --- the loop -------------------------------------------------------------------------------------------------- */

/* Keys and signals; true when the run is to end. */
static bool is_over(run *r)
{
    const int key = cli_term_key(&r->term);
    if (key == 'q' || key == 'Q') r->quit = true;
    const int sig = cli_signal_pending();
    if (sig == SIGTSTP) {
        const bool was_open = r->term.is_open;
        cli_term_close(&r->term);
        raise(SIGSTOP);
        if (was_open && cli_term_usable()) cli_term_open(&r->term);
    } else if (sig) {
        r->signal = sig;
    }
    return r->quit || r->signal;
}

static int loop(run *r, cli_error *e)
{
    while (r->t->step < r->steps && !is_over(r)) {
        if (cli_trainer_step(r->t, e)) return e->code;
        if (r->t->step == 1) { /* waits for it: this is what "cold start" means */
            if (read_loss(r, e)) return e->code;
            r->first_step = cli_now() - r->begun;
        }
        if (show(r, e)) return e->code;
    }
    return 0;
}

static int finish(run *r, cli_error *e)
{
    uint32_t n = (uint32_t)r->args->test_images, right = 0;
    double loss = 0;
    if (r->t->step > 0 && cli_trainer_loss(r->t, &loss, e)) return e->code; /* waits for the last step */
    const double seconds = cli_now() - r->started;
    if (r->signal) {
        fprintf(stderr, "anneal: interrupted after step %llu of %llu\n", (unsigned long long)r->t->step,
                (unsigned long long)r->steps);
        return 128 + r->signal;
    }
    if (cli_trainer_evaluate(r->t, &n, &right, e)) return e->code;
    const double accuracy = (double)right / n;
    if (r->args->json) {
        printf("{\"test_accuracy\": %.9g, \"test_images\": %u, \"steps\": %llu, \"model\": \"%s\", \"device\": \"%s\", "
               "\"synthetic\": %s",
               accuracy, n, (unsigned long long)r->t->step, r->t->session->model->name, r->t->session->device,
               r->place->synthetic ? "true" : "false");
        if (r->args->timing)
            printf(", \"first_step_s\": %.6f, \"seconds\": %.6f, \"steps_per_s\": %.3f", r->first_step, seconds,
                   (double)r->t->step / seconds);
        puts("}");
        return 0;
    }
    if (r->t->step > 0) {
        printf("%llu steps in %.2f s, %.0f steps/s; first step %.2f s after the start; last loss %.4f\n",
               (unsigned long long)r->t->step, seconds, (double)r->t->step / seconds, r->first_step, loss);
    }
    printf("test accuracy %.2f %% (%u of %u%s)\n", accuracy * 100, right, n,
           r->place->synthetic ? ", of SYNTHETIC data: no real images" : " images it was not trained on");
    return 0;
}

static int train(const train_args *a, const cli_place *place, cli_trainer *t, double begun, cli_error *e)
{
    char recipe[160], lr[32];
    const cli_session *s = t->session;
    run r = {.args = a, .place = place, .t = t, .begun = begun, .style = cli_style_of(stdout)};
    r.steps = a->steps > 0 ? a->steps : a->epochs * t->steps_per_epoch;
    snprintf(lr, sizeof lr, "%g", s->m.lr);
    snprintf(recipe, sizeof recipe, "%s, lr %s, batch %llu, seed %llu", a->optimizer, lr, (unsigned long long)a->batch,
             (unsigned long long)a->seed);
    r.p = (cli_progress){.model = s->model->name, .data = place->title, .device = s->device, .recipe = recipe,
                         .steps = r.steps, .accuracy = -1, .seconds_left = -1, .curve = &r.curve,
                         .epochs = (r.steps + t->steps_per_epoch - 1) / t->steps_per_epoch};
    r.started = r.shown = r.tested = cli_now();
    if (!a->json && !a->plain && cli_term_usable()) {
        cli_term_open(&r.term);
    } else if (!a->json) {
        printf("anneal train %s: %s (%u images, %u to test) on %s; %s; %llu steps\n", s->model->name, place->title,
               t->data[CLI_SPLIT_TRAIN].n, t->data[CLI_SPLIT_TEST].n, s->device, recipe, (unsigned long long)r.steps);
    }
    const int code = loop(&r, e);
    cli_term_close(&r.term);
    return code ? code : finish(&r, e);
}

static int verb_run(const void *args)
{
    const train_args *a = args;
    cli_error e = {0};
    cli_place place;
    cli_session s = {0};
    cli_trainer t = {0};
    cli_loader *loader = NULL;
    an_ctx *ctx = NULL;
    int code = 0;
    const double begun = cli_now();
    const model_options options = {.batch = (int64_t)a->batch, .eval_batch = CLI_EVAL_BATCH, .seed = a->seed,
                                   .optimizer = a->optimizer, .lr = a->lr, .momentum = a->momentum,
                                   .weight_decay = a->weight_decay};
    const model *m = cli_find_model(a->model, &e);
    if (!m) return cli_say(&e);
    if (an_ctx_create(NULL, &ctx)) return cli_usage_error("out of memory");
    cli_signals_block(); /* before the first thread: none of them is to take a signal */
    code = cli_dataset_place(ctx, m->dataset, a->data, &place, &e);
    if (code) goto done;
    code = cli_loader_start(&place, (cli_want){m->features, m->classes}, &loader, &e);
    if (code) goto done;
    code = cli_session_open(&s, a->model, a->device, &options, &e);
    if (code) goto done;
    code = cli_trainer_open(&t, &s, &options, loader, &e);
    if (code) goto done;
    code = train(a, &place, &t, begun, &e);
done:
    cli_trainer_close(&t);
    cli_session_close(&s);
    cli_loader_destroy(loader);
    an_ctx_destroy(ctx);
    return e.code ? cli_say(&e) : code;
}

static const cli_option options[] = {
    {"steps", CLI_WHOLE, offsetof(train_args, steps), "N", NULL, "stop after N steps, whatever --epochs says", 1, 1e12, NULL},
    {"epochs", CLI_WHOLE, offsetof(train_args, epochs), "N", "5", "times through the training images", 1, 1e6, NULL},
    CLI_OPTION_BATCH(train_args),
    {"lr", CLI_REAL, offsetof(train_args, lr), "X", NULL, "learning rate [0.001 for adam and adamw, 0.05 for sgd]", 1e-12, 1e6,
     NULL},
    CLI_OPTION_OPTIMIZER(train_args),
    {"momentum", CLI_REAL, offsetof(train_args, momentum), "X", "0", "of sgd", 0, 0.999999, NULL},
    {"weight-decay", CLI_REAL, offsetof(train_args, weight_decay), "X", "0", "pull of parameters towards 0", 0, 1e3, NULL},
    CLI_OPTION_SEED(train_args),
    CLI_OPTION_DEVICE(train_args),
    CLI_OPTION_DATA(train_args),
    {"test-images", CLI_WHOLE, offsetof(train_args, test_images), "N", NULL, "test on the first N only, when the device is slow", 1,
     1e9, NULL},
    CLI_OPTION_JSON(train_args, "a JSON object a step, then one with test_accuracy"),
    {"timing", CLI_FLAG, offsetof(train_args, timing), NULL, NULL, "with --json: times too, in the last object", 0, 0, NULL},
    {"plain", CLI_FLAG, offsetof(train_args, plain), NULL, NULL, "lines instead of the live page", 0, 0, NULL},
};

const cli_verb cli_verb_train = {
    .name = "train",
    .operand = "MODEL",
    .operand_offset = offsetof(train_args, model),
    .summary = "train a model on real images, with a live page, and test it",
    .about = "Data is taken from the first of: --data; the package dataset-fashion-mnist; ~/.cache/anneal; a download\n"
             "into it, checked by SHA-256; synthetic data, which is then said. ANNEAL_OFFLINE=1 forbids the download.\n"
             "On the page, q quits; Ctrl-C quits with exit code 130. Without a terminal, lines are printed.\n"
             "Models: mlp.\n",
    .examples = "  anneal train mlp\n"
                "  anneal train mlp --epochs 1 --optimizer sgd --lr 0.1\n"
                "  anneal train mlp --data path/to/mnist --seed 7\n"
                "  anneal train mlp --steps 100 --json > losses.jsonl\n",
    .options = options,
    .noptions = CLI_COUNT(options),
    .args_size = sizeof(train_args),
    .run = verb_run,
};
