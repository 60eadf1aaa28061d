/* models.c - the registry of models as the command line sees it: names, options by model, help. */
#include "session.h"

#include <math.h>
#include <string.h>

enum { NAMES_MAX = 32 };

const model *cli_find_model(const char *name, cli_error *e)
{
    char list[512] = "";
    const char *words[NAMES_MAX];
    size_t n = 0;
    const model *m = model_find(name);
    if (m) return m;
    for (size_t i = 0; i < model_count() && n < NAMES_MAX; i++) words[n++] = model_get(i)->name;
    const char *near = cli_suggest(name, words, n);
    for (size_t i = 0, at = 0; i < n && at < sizeof list; i++)
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", i ? ", " : "", words[i]);
    if (near)
        cli_fail(e, AN_ERR_ARG, "unknown model '%s'; did you mean '%s'?", name, near);
    else
        cli_fail(e, AN_ERR_ARG, "unknown model '%s'; there is: %s", name, list);
    return NULL;
}

static int check(const char *operand)
{
    cli_error e = {0};
    return cli_find_model(operand, &e) ? 0 : cli_say(&e);
}

static size_t rows(const char *operand, size_t offset, cli_option *out, size_t max)
{
    const model *m = model_find(operand);
    const uint32_t n = m ? model_nvalues(m) : 0;
    for (uint32_t i = 0; i < n && i < max; i++) {
        const model_value v = model_get_value(m, i);
        out[i] = (cli_option){v.name, v.is_whole ? CLI_SIZE : CLI_REAL, offset + i * sizeof(double), v.metavar, NULL,
                              v.help, v.min, v.max, NULL};
    }
    return n < max ? n : max;
}

static void help_of_one(FILE *out, const model *m)
{
    fprintf(out, "\n%s: %s.\n%s\nOptions of %s (defaults in brackets", m->name, m->title, m->about, m->name);
    for (uint32_t p = 0; p < m->npresets && m->npresets > 1; p++)
        fprintf(out, "%s--preset=%s", p ? ", " : ": ", m->presets[p].name);
    fputs("):\n", out);
    for (uint32_t i = 0; i < model_nvalues(m); i++) {
        char text[128] = "";
        size_t at = 0;
        bool any = false;
        const model_value v = model_get_value(m, i);
        for (uint32_t p = 0; p < m->npresets && at < sizeof text; p++) {
            any = any || m->presets[p].values[i] != 0;
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%.12g", p ? ", " : "", m->presets[p].values[i]);
        }
        cli_print_option(out, v.name, v.metavar, v.help, NULL, any ? text : NULL);
    }
}

static void help(FILE *out, const char *operand)
{
    const model *m = operand ? model_find(operand) : NULL;
    if (m) {
        help_of_one(out, m);
        return;
    }
    fputs("\nModels, each with options of its own ('MODEL --help'):\n", out);
    for (size_t i = 0; i < model_count(); i++) fprintf(out, "  %-12s %s\n", model_get(i)->name, model_get(i)->title);
}

const cli_extra cli_models = {check, rows, help};
