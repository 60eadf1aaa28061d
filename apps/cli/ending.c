/* ending.c - see ending.h. */
#include "ending.h"

#include "confusion.h"
#include "picture.h"
#include "term.h"

/* Where pictures go: the file that --samples names, and the terminal. */
typedef struct ending_user {
    an_ctx *ctx;
    const char *samples;
    cli_style style;
} ending_user;

static void put(void *user, const char *text)
{
    (void)user;
    fputs(text, stdout);
}

static an_status show(void *user, const an_picture *p)
{
    const ending_user *u = user;
    int cols = 0, rows = 0;
    cli_term_size(&cols, &rows);
    cli_picture_draw(stdout, p, cli_picture_way_of(stdout, &u->style), &u->style, cols);
    if (!u->samples) return AN_OK;
    const an_status st = an_png_write(u->ctx, u->samples, p);
    if (!st) printf("written to %s\n", u->samples);
    return st;
}

int cli_show_ending(cli_trainer *t, const char *samples, cli_error *e)
{
    const cli_session *s = t->session;
    ending_user user = {.ctx = s->ctx, .samples = samples, .style = cli_style_of(stdout)};
    model_ending ending = {.options = &s->options, .graphs = &s->m, .text = &t->data->text,
                           .colour = user.style.colour, .truecolour = user.style.truecolour, .utf8 = user.style.utf8,
                           .put = put, .show = show, .user = &user};
    if (s->model->is_classifier && cli_confusion_print(t, stdout, e)) return e->code;
    if (!s->model->finish) return 0;
    if (s->model->data == MODEL_IMAGES) {
        const cli_images *test = &t->data->images[CLI_SPLIT_TEST];
        ending.images = test->pixels;
        ending.labels = test->labels;
        ending.nimages = test->n;
    }
    return s->model->finish(s->model, &ending) ? cli_fail_ctx(e, s->ctx) : 0;
}
