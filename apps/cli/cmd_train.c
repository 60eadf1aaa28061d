/* cmd_train.c - `anneal train MODEL`: the loop with its looks. Three of them: a live page on a terminal, plain lines
 * elsewhere, one JSON object a step with --json. The loss is read back only when one of them shows it. */
#define _POSIX_C_SOURCE 200809L
#include "checkpoint.h"
#include "dashboard.h"
#include "ending.h"
#include "trainer.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct train_args {
    cli_model_args m;
    uint64_t test_images;
    const char *samples, *save, *resume, *batch_schedule;
    uint64_t save_every;
    bool json, plain, timing;
} train_args;

enum { LINES = 20, QUICK_TEST = 1000 };
static const double frame_s = 0.1, quick_test_s = 1.0;

typedef struct run {
    const train_args *args;
    cli_trainer *t;
    cli_style style;
    cli_term term;
    cli_curve curve;
    cli_progress p;
    cli_result result;
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
    if (cli_trainer_test(r->t, n, &r->result, e)) return e->code;
    cli_result_print(r->t, &r->result, r->p.result, sizeof r->p.result);
    r->tested = cli_now();
    return 0;
}

/* The end of an epoch, where there are any; else every quarter of the run. */
static bool is_milestone(const run *r)
{
    if (r->t->session->model->data == MODEL_IMAGES) return cli_batcher_at(&r->t->batcher, r->t->step).first == 0;
    const uint64_t every = (r->t->steps + 3) / 4;
    return r->t->step % (every ? every : 1) == 0;
}

/* Texts are tested in full at the end only. */
static uint32_t milestone_size(const run *r)
{
    if (r->args->test_images || r->t->session->model->data != MODEL_TEXT) return (uint32_t)r->args->test_images;
    return r->t->eval_batch * 10;
}

static uint64_t epoch_of(const cli_trainer *t, uint64_t step)
{
    if (t->session->model->data == MODEL_IMAGES) return cli_batcher_at(&t->batcher, step).epoch;
    return t->steps_per_epoch ? step / t->steps_per_epoch : 0;
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
    r->p.epoch = done > 0 ? epoch_of(r->t, done - 1) + 1 : 1;
    const double pace = (double)done / (now - r->started);
    r->p.seconds_left = done > 0 && pace > 0 ? (double)(r->t->steps - done) / pace : -1;
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
    const bool is_end = r->t->step == r->t->steps || is_milestone(r);
    if (!is_end && cli_now() - r->shown < frame_s) return 0;
    if (read_loss(r, e)) return e->code;
    if (is_end && r->t->step < r->t->steps && test(r, milestone_size(r), e)) return e->code;
    if (r->t->session->model->is_classifier && cli_now() - r->tested > quick_test_s && test(r, QUICK_TEST, e)) return e->code;
    update_pace(r);
    draw(r);
    return 0;
}

static int show_line(run *r, cli_error *e)
{
    const uint64_t steps = r->t->steps, every = (steps + LINES - 1) / LINES, step = r->t->step;
    const bool is_end = is_milestone(r);
    if (step != 1 && step != steps && step % every != 0 && !is_end) return 0;
    if (read_loss(r, e)) return e->code;
    if (is_end && step != steps && test(r, milestone_size(r), e)) return e->code;
    update_pace(r);
    if (r->t->session->model->data == MODEL_IMAGES)
        printf("epoch %llu/%llu  ", (unsigned long long)r->p.epoch, (unsigned long long)r->p.epochs);
    printf("step %llu/%llu  loss %.4f", (unsigned long long)step, (unsigned long long)steps, r->p.loss);
    if (step > 1) printf("  %.*f steps/s", r->p.steps_per_second < 10 ? 1 : 0, r->p.steps_per_second);
    if (r->result.known && r->result.step == step) printf("  %s", r->p.result);
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
    while (r->t->step < r->t->steps && !is_over(r)) {
        if (cli_trainer_step(r->t, e)) return e->code;
        if (r->first_step == 0) { /* waits for it: this is what "cold start" means */
            if (read_loss(r, e)) return e->code;
            r->first_step = cli_now() - r->begun;
        }
        if (show(r, e)) return e->code;
        const uint64_t every = r->args->save_every;
        if (r->args->save && every && r->t->step % every == 0 && cli_checkpoint_save(r->t, r->args->save, e)) return e->code;
    }
    return r->args->save && r->t->step > 0 ? cli_checkpoint_save(r->t, r->args->save, e) : 0;
}

static void print_result(const run *r)
{
    const cli_result *x = &r->result;
    const bool images = r->t->session->model->data == MODEL_IMAGES;
    if (!x->known) return;
    fputs(r->p.result, stdout);
    if (x->is_accuracy) printf(" (%u of %u%s)", x->right, x->n, r->t->data->synthetic ? ", of SYNTHETIC data: no real images" : " images it was not trained on");
    else if (images) printf(" (%u%s)", x->n, r->t->data->synthetic ? ", of SYNTHETIC data: no real images" : " images it was not trained on");
    putchar('\n');
}

static void print_json_result(const run *r, double seconds)
{
    const cli_trainer *t = r->t;
    if (r->result.known)
        printf("{\"%s\": %.9g, \"test_%s\": %u, ", cli_result_name(t), r->result.value,
               t->session->model->data == MODEL_TEXT ? "sequences" : "images", r->result.n);
    else
        putchar('{');
    printf("\"steps\": %llu, \"model\": \"%s\", \"device\": \"%s\", \"synthetic\": %s", (unsigned long long)t->step,
           t->session->model->name, t->session->device, t->data->synthetic ? "true" : "false");
    if (r->args->timing)
        printf(", \"first_step_s\": %.6f, \"seconds\": %.6f, \"steps_per_s\": %.3f", r->first_step, seconds,
               (double)t->step / seconds);
    puts("}");
}

static int finish(run *r, cli_error *e)
{
    double loss = 0;
    if (r->t->step > 0 && cli_trainer_loss(r->t, &loss, e)) return e->code; /* waits for the last step */
    const double seconds = cli_now() - r->started;
    if (r->signal) {
        fprintf(stderr, "anneal: interrupted after step %llu of %llu\n", (unsigned long long)r->t->step,
                (unsigned long long)r->t->steps);
        return 128 + r->signal;
    }
    if (test(r, (uint32_t)r->args->test_images, e)) return e->code;
    if (r->args->save && !r->args->json) printf("saved to %s\n", r->args->save);
    if (r->args->json) {
        print_json_result(r, seconds);
        return 0;
    }
    if (r->t->step > 0) {
        const double pace = (double)r->t->step / seconds;
        printf("%llu steps in %.2f s, %.*f steps/s; first step %.2f s after the start; last loss %.4f\n",
               (unsigned long long)r->t->step, seconds, pace < 10 ? 1 : 0, pace, r->first_step, loss);
    }
    print_result(r);
    return cli_show_ending(r->t, r->args->samples, e);
}

static int train(const train_args *a, cli_trainer *t, double begun, cli_error *e)
{
    char recipe[200], about[160];
    const cli_session *s = t->session;
    run r = {.args = a, .t = t, .begun = begun, .style = cli_style_of(stdout)};
    cli_session_recipe(s, recipe, sizeof recipe);
    cli_data_describe(t->data, about, sizeof about);
    r.p = (cli_progress){.model = s->model->name, .data = t->data->title, .device = s->device, .recipe = recipe,
                         .steps = t->steps, .seconds_left = -1, .curve = &r.curve,
                         .epochs = t->steps ? epoch_of(t, t->steps - 1) + 1 : 0};
    r.started = r.shown = r.tested = cli_now();
    if (!a->json && !a->plain && cli_term_usable()) {
        cli_term_open(&r.term);
    } else if (!a->json) {
        printf("anneal train %s: %s (%s) on %s; %lld parameters; %s; %llu steps\n", s->model->name, t->data->title, about,
               s->device, (long long)an_module_nparams(s->m.net), recipe, (unsigned long long)t->steps);
        fflush(stdout);
    }
    const int code = loop(&r, e);
    cli_term_close(&r.term);
    return code ? code : finish(&r, e);
}

/* "64,128": batches by epoch. */
static int read_schedule(const model *m, const char *text, uint32_t sizes[CLI_SIZES_MAX], uint32_t *n, cli_error *e)
{
    *n = 0;
    if (!text) return 0;
    if (!m->max_batch) return cli_fail(e, AN_ERR_ARG, "--batch-schedule: %s is compiled for one size of batch; dynmlp takes any", m->name);
    for (const char *at = text;; at++) {
        char *end = NULL;
        const unsigned long size = at[0] >= '0' && at[0] <= '9' ? strtoul(at, &end, 10) : 0;
        if (size == 0 || size > (unsigned long)m->max_batch || (*end != ',' && *end != '\0'))
            return cli_fail(e, AN_ERR_ARG, "--batch-schedule %s: sizes from 1 to %lld with commas between them, as in 64,128", text,
                            (long long)m->max_batch);
        if (*n == CLI_SIZES_MAX) return cli_fail(e, AN_ERR_LIMIT, "--batch-schedule %s: at most %d sizes", text, CLI_SIZES_MAX);
        sizes[(*n)++] = (uint32_t)size;
        if (*end == '\0') return 0;
        at = end;
    }
}

static int verb_run(const void *args)
{
    const train_args *a = args;
    uint32_t sizes[CLI_SIZES_MAX], nsizes = 0;
    cli_error e = {0};
    cli_data data = {0};
    cli_session s = {0};
    cli_trainer t = {0};
    int code = 0;
    const double begun = cli_now();
    const model *m = cli_find_model(a->m.model, &e);
    if (!m || read_schedule(m, a->batch_schedule, sizes, &nsizes, &e)) return cli_say(&e);
    cli_signals_block(); /* before the first thread: none of them is to take a signal */
    code = cli_data_open(&data, m, a->m.data, &e);
    if (code) goto done;
    code = cli_session_open(&s, &a->m, &data, &e);
    if (code) goto done;
    code = cli_trainer_open(&t, &s, &data, nsizes ? sizes : NULL, nsizes, &e);
    if (code) goto done;
    if (a->resume) code = cli_checkpoint_resume(&t, a->resume, &e);
    if (code) goto done;
    code = train(a, &t, begun, &e);
    cli_session_finish(&s, &e);
done:
    cli_trainer_close(&t);
    cli_session_close(&s);
    cli_data_close(&data);
    return e.code ? cli_say(&e) : code;
}

static const cli_option options[] = {
    CLI_OPTIONS_OF_MODEL(train_args),
    {"test-images", CLI_WHOLE, offsetof(train_args, test_images), "N", NULL,
     "test on the first N examples only, when the device is slow", 1, 1e9, NULL},
    {"save", CLI_TEXT, offsetof(train_args, save), "FILE", NULL, "a checkpoint (safetensors), at the end, also after q or Ctrl-C", 0, 0, NULL},
    {"save-every", CLI_WHOLE, offsetof(train_args, save_every), "N", NULL, "and each N steps", 1, 1e12, NULL},
    {"resume", CLI_TEXT, offsetof(train_args, resume), "FILE", NULL, "go on with a saved run, to the same bits", 0, 0, NULL},
    {"batch-schedule", CLI_TEXT, offsetof(train_args, batch_schedule), "N,N,...", NULL,
     "of dynmlp: the batch of each epoch, the last one for the rest", 0, 0, NULL},
    {"samples", CLI_TEXT, offsetof(train_args, samples), "FILE", NULL, "where a model that makes pictures writes them", 0, 0, NULL},
    CLI_OPTION_JSON(train_args, "a JSON object a step, then one with the result of the test"),
    {"timing", CLI_FLAG, offsetof(train_args, timing), NULL, NULL, "with --json: times too, in the last object", 0, 0, NULL},
    {"plain", CLI_FLAG, offsetof(train_args, plain), NULL, NULL, "lines instead of the live page", 0, 0, NULL},
};

const cli_verb cli_verb_train = {
    .name = "train",
    CLI_VERB_OF_MODEL(train_args),
    .summary = "train a model on real data, with a live page, and test it",
    .about = "Images are taken from the first of: --data; the package dataset-fashion-mnist; ~/.cache/anneal; a download\n"
             "into it, checked by SHA-256; synthetic data, which is then said. Text: --data FILE, the cache, a download.\n"
             "ANNEAL_OFFLINE=1 forbids downloads.\n"
             "On the page, q quits; Ctrl-C quits with exit code 130. Without a terminal, lines are printed.\n",
    .examples = "  anneal train mlp\n"
                "  anneal train mlp --epochs 1 --optimizer sgd --lr 0.1\n"
                "  anneal train mlp --data path/to/mnist --seed 7\n"
                "  anneal train dynmlp --epochs 3 --batch-schedule 50,100,200\n"
                "  anneal train mlp --steps 100 --json > losses.jsonl\n"
                "  anneal train nanogpt --save gpt.safetensors --save-every 500\n",
    .options = options,
    .noptions = CLI_COUNT(options),
    .run = verb_run,
};
