/* confusion.c - see confusion.h. */
#include "confusion.h"

#include "noise.h"
#include "picture.h"
#include "term.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WORST = 8 };

/* An image, and how sure the model is of what it takes it for. */
typedef struct mistake {
    uint32_t image, guess;
    double loss; /* -log of the probability of what it is */
    double sure; /* the probability of the guess */
} mistake;

typedef struct confusion {
    const cli_data *data;
    uint32_t classes;
    uint32_t count[CLI_CLASSES_MAX][CLI_CLASSES_MAX]; /* [is][taken for] */
    mistake worst[WORST]; /* the worst first */
    uint32_t nworst;
} confusion;

static const char *class_name(const confusion *c, uint32_t k, char text[16])
{
    const cli_dataset_info *info = c->data->place.info;
    if (info && info->classes[k]) return info->classes[k];
    snprintf(text, 16, "%u", k);
    return text;
}

static void add_mistake(confusion *c, const mistake *m)
{
    uint32_t at = c->nworst < WORST ? c->nworst++ : WORST;
    while (at > 0 && (at == WORST || c->worst[at - 1].loss < m->loss)) {
        if (at == WORST && c->worst[WORST - 1].loss >= m->loss) return;
        if (at < WORST) c->worst[at] = c->worst[at - 1];
        at--;
    }
    c->worst[at] = *m;
}

static void add(confusion *c, uint32_t image, uint32_t is, const float *logits)
{
    const uint32_t guess = cli_argmax(logits, c->classes);
    double sum = 0;
    for (uint32_t k = 0; k < c->classes; k++) sum += exp((double)logits[k] - (double)logits[guess]);
    c->count[is][guess]++;
    if (guess == is) return;
    const mistake m = {image, guess, log(sum) + (double)logits[guess] - (double)logits[is], 1 / sum};
    add_mistake(c, &m);
}

static int fill(confusion *c, cli_trainer *t, cli_error *e)
{
    const cli_images *test = &t->data->images[CLI_SPLIT_TEST];
    for (uint32_t first = 0; first < test->n; first += t->eval_batch) {
        const uint32_t n = test->n - first < t->eval_batch ? test->n - first : t->eval_batch;
        if (cli_trainer_logits(t, first, n, e)) return e->code;
        for (uint32_t i = 0; i < n; i++) add(c, first + i, test->labels[first + i], t->logits + (size_t)i * c->classes);
    }
    return 0;
}

static void print_table(const confusion *c, FILE *out, const cli_style *style)
{
    char text[16];
    fprintf(out, "\nwhat it is, and what it is taken for (in %% of each row):\n%14s", "");
    for (uint32_t k = 0; k < c->classes; k++) fprintf(out, " %5.5s", class_name(c, k, text));
    fputs("\n", out);
    for (uint32_t is = 0; is < c->classes; is++) {
        uint32_t sum = 0;
        for (uint32_t k = 0; k < c->classes; k++) sum += c->count[is][k];
        fprintf(out, "%14.14s", class_name(c, is, text));
        for (uint32_t k = 0; k < c->classes; k++) {
            const double percent = sum ? 100.0 * c->count[is][k] / sum : 0;
            const cli_colour colour = k == is ? CLI_TEAL : percent >= 5 ? CLI_EMBER : CLI_DIM;
            if (c->count[is][k] == 0)
                fprintf(out, " %5s", ".");
            else
                fprintf(out, " %s%5.1f%s", cli_paint(style, colour), percent, cli_paint(style, CLI_PLAIN));
        }
        fputs("\n", out);
    }
}

/* Height and width of an image, and its channels: square, or three squares. */
static bool image_shape(uint32_t features, uint32_t *side, uint32_t *channels)
{
    for (*channels = 1; *channels <= 3; *channels += 2) {
        *side = (uint32_t)lround(sqrt((double)features / *channels));
        if (*side * *side * *channels == features) return true;
    }
    return false;
}

static int print_worst(const confusion *c, FILE *out, const cli_style *style, cli_error *e)
{
    const cli_images *test = &c->data->images[CLI_SPLIT_TEST];
    uint32_t side = 0, channels = 0;
    char a[16], b[16];
    int cols = 0, rows = 0;
    if (c->nworst == 0 || !image_shape(test->features, &side, &channels)) return 0;
    uint8_t *planes = malloc((size_t)c->nworst * test->features);
    if (!planes) return cli_fail(e, AN_ERR_NOMEM, "out of memory for pictures");
    for (uint32_t i = 0; i < c->nworst; i++)
        memcpy(planes + (size_t)i * test->features, test->pixels + (size_t)c->worst[i].image * test->features, test->features);
    cli_term_size(&cols, &rows);
    const uint32_t fit = (uint32_t)cols / (side + 1), per_row = fit < 1 ? 1 : fit < WORST ? fit : WORST;
    const an_picture p = model_grid(planes, c->nworst, channels, side, side, per_row);
    free(planes);
    if (!p.data) return cli_fail(e, AN_ERR_NOMEM, "out of memory for pictures");
    fputs("\nmost wrong about:\n", out);
    cli_picture_draw(out, &p, cli_picture_way_of(out, style), style, cols);
    free((void *)(uintptr_t)p.data);
    for (uint32_t i = 0; i < c->nworst; i++) {
        const mistake *m = &c->worst[i];
        fprintf(out, "image %-6u is %-12s taken for %-12s with %5.1f %%\n", m->image, class_name(c, test->labels[m->image], a),
                class_name(c, m->guess, b), 100 * m->sure);
    }
    return 0;
}

int cli_confusion_print(cli_trainer *t, FILE *out, cli_error *e)
{
    confusion c = {.data = t->data, .classes = t->session->model->classes};
    const cli_style style = cli_style_of(out);
    if (c.classes > CLI_CLASSES_MAX) return 0;
    if (fill(&c, t, e)) return e->code;
    print_table(&c, out, &style);
    return print_worst(&c, out, &style, e);
}
