/* ending.c - see ending.h. */
#include "ending.h"

#include "term.h"

static void put(void *user, const char *text)
{
    fputs(text, user);
}

int cli_show_ending(cli_trainer *t, const char *samples, cli_error *e)
{
    const cli_session *s = t->session;
    const cli_style style = cli_style_of(stdout);
    model_ending ending = {.options = &s->options, .graphs = &s->m, .text = &t->data->text, .samples = samples,
                           .colour = style.colour, .truecolour = style.truecolour, .utf8 = style.utf8, .put = put, .user = stdout};
    if (!s->model->finish) return 0;
    if (s->model->data == MODEL_IMAGES) {
        const cli_images *test = &t->data->images[CLI_SPLIT_TEST];
        ending.images = test->pixels;
        ending.labels = test->labels;
        ending.nimages = test->n;
    }
    return s->model->finish(s->model, &ending) ? cli_fail_ctx(e, s->ctx) : 0;
}
