/* args.c - words of the command line into a verb's struct of arguments, by its table of options. Takes --name value and
 * --name=value, options and operand in any order, and -- before an operand that starts with a dash. */
#include "cli.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { OPTIONS_MAX = 80, CHOICES_MAX = 16 };

/* The rows in force: the verb's, then those of its operand. */
typedef struct table {
    const cli_verb *verb;
    cli_option rows[OPTIONS_MAX];
    size_t n;
} table;

static int say_range(const cli_option *o, const char *value)
{
    return cli_usage_error("--%s takes a %s from %.10g to %.10g, not '%s'", o->name,
                           o->kind == CLI_WHOLE || o->kind == CLI_SIZE ? "whole number" : "number", o->min, o->max, value);
}

static int set_whole(const cli_option *o, const char *value, void *field)
{
    char *end = NULL;
    errno = 0;
    const unsigned long long v = strtoull(value, &end, 10);
    if (value[0] < '0' || value[0] > '9' || *end || errno || (double)v < o->min || (double)v > o->max)
        return say_range(o, value);
    *(uint64_t *)field = v;
    return 0;
}

static int set_size(const cli_option *o, const char *value, void *field)
{
    uint64_t v = 0;
    const int code = set_whole(o, value, &v);
    if (!code) *(double *)field = (double)v;
    return code;
}

static int set_real(const cli_option *o, const char *value, void *field)
{
    char *end = NULL;
    errno = 0;
    const double v = strtod(value, &end);
    if (end == value || *end || errno || !(v >= o->min && v <= o->max)) return say_range(o, value);
    *(double *)field = v;
    return 0;
}

/* Splits "sgd adam" in a copy; the copy lives in room. */
static size_t split(const char *choices, char *room, size_t size, const char **words)
{
    size_t n = 0;
    snprintf(room, size, "%s", choices);
    char *at = room;
    while (*at && n < CHOICES_MAX) {
        words[n++] = at;
        at += strcspn(at, " ");
        if (*at) *at++ = '\0';
    }
    return n;
}

static int set_choice(const cli_option *o, const char *value, void *field)
{
    char room[256], what[64];
    const char *words[CHOICES_MAX];
    const size_t n = split(o->choices, room, sizeof room, words);
    for (size_t i = 0; i < n; i++) {
        if (strcmp(words[i], value) != 0) continue;
        *(const char **)field = value;
        return 0;
    }
    snprintf(what, sizeof what, "value of --%s", o->name);
    return cli_unknown(what, value, words, n);
}

static int set(const cli_option *o, const char *value, void *args)
{
    void *field = (char *)args + o->offset;
    switch (o->kind) {
    case CLI_FLAG: *(bool *)field = true; return 0;
    case CLI_WHOLE: return set_whole(o, value, field);
    case CLI_SIZE: return set_size(o, value, field);
    case CLI_REAL: return set_real(o, value, field);
    case CLI_TEXT: *(const char **)field = value; return 0;
    case CLI_CHOICE: return set_choice(o, value, field);
    }
    return 0;
}

static int unknown_option(const table *t, const char *typed, size_t len)
{
    const char *words[OPTIONS_MAX + 1] = {"help"}, *verb = t->verb->name;
    char name[80];
    size_t n = 1;
    for (size_t i = 0; i < t->n; i++) words[n++] = t->rows[i].name;
    snprintf(name, sizeof name, "%.*s", (int)(len < sizeof name ? len : sizeof name - 1), typed);
    const char *near = cli_suggest(name, words, n);
    if (near) return cli_usage_error("%s: unknown option '--%s'; did you mean '--%s'?", verb, name, near);
    return cli_usage_error("%s: unknown option '--%s'; 'anneal %s --help' lists what there is", verb, name, verb);
}

static const cli_option *find_option(const table *t, const char *word, size_t len)
{
    for (size_t k = 0; k < t->n; k++)
        if (strlen(t->rows[k].name) == len && memcmp(t->rows[k].name, word, len) == 0) return &t->rows[k];
    return NULL;
}

/* One option at argv[*i]; moves *i past a separate value. */
static int parse_option(const table *t, int argc, char *const *argv, int *i, void *args)
{
    const char *word = argv[*i] + 2;
    const size_t len = strcspn(word, "=");
    const cli_option *o = find_option(t, word, len);
    if (!o) return unknown_option(t, word, len);
    if (o->kind == CLI_FLAG) {
        if (word[len] == '=') return cli_usage_error("%s: --%s takes no value", t->verb->name, o->name);
        return set(o, NULL, args);
    }
    const char *value = NULL;
    if (word[len] == '=') {
        value = word + len + 1;
    } else {
        if (*i + 1 >= argc) return cli_usage_error("%s: --%s needs a value (%s)", t->verb->name, o->name, o->metavar);
        value = argv[++*i];
    }
    return set(o, value, args);
}

/* The operand, before its options are known: the first word that is no option and no value of one. A word after an option
 * that only an operand can explain is taken for its value if the operand, found later, is another. */
static const char *find_operand(const table *t, int argc, char *const *argv)
{
    const char *doubtful = NULL;
    for (int i = 0; i < argc; i++) {
        if (argv[i][0] != '-' || !argv[i][1]) return argv[i];
        if (strcmp(argv[i], "--") == 0) return i + 1 < argc ? argv[i + 1] : doubtful;
        if (strncmp(argv[i], "--", 2) != 0 || strchr(argv[i], '=') || strcmp(argv[i], "--help") == 0) continue;
        const cli_option *o = find_option(t, argv[i] + 2, strlen(argv[i] + 2));
        if (o && o->kind == CLI_FLAG) continue;
        if (!o && i + 1 < argc && argv[i + 1][0] != '-') doubtful = argv[i + 1];
        i++; /* its value */
    }
    return doubtful;
}

/* The operand's rows into the table. */
static int add_extra(table *t, int argc, char *const *argv, const char **operand, void *args)
{
    const cli_extra *extra = t->verb->extra;
    double *values = (double *)(void *)((char *)args + t->verb->extra_offset);
    if (!extra) return 0;
    for (size_t i = 0; i < t->verb->nextra; i++) values[i] = (double)NAN;
    *operand = find_operand(t, argc, argv);
    if (!*operand) return 0;
    const int code = extra->check(*operand);
    if (!code) t->n += extra->rows(*operand, t->verb->extra_offset, t->rows + t->n, OPTIONS_MAX - t->n);
    return code;
}

int cli_parse(const cli_verb *verb, int argc, char *const *argv, void *args)
{
    const char *operand = NULL, *named = NULL;
    bool options_ended = false;
    table t = {.verb = verb};
    memset(args, 0, verb->args_size);
    for (; t.n < verb->noptions && t.n < OPTIONS_MAX; t.n++) {
        const cli_option *o = &verb->options[t.n];
        const int code = o->preset ? set(o, o->preset, args) : 0;
        if (code) return code;
        t.rows[t.n] = *o;
    }
    for (int i = 0; i < argc; i++) /* help wins over whatever else is wrong */
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            if (verb->extra) named = find_operand(&t, argc, argv);
            const int code = named ? verb->extra->check(named) : 0;
            if (code) return code;
            cli_print_help(stdout, verb, named);
            return cli_finish(0);
        }
    const int wrong = add_extra(&t, argc, argv, &named, args);
    if (wrong) return wrong;
    for (int i = 0; i < argc; i++) {
        if (!options_ended && strcmp(argv[i], "--") == 0) {
            options_ended = true;
        } else if (!options_ended && strncmp(argv[i], "--", 2) == 0) {
            const int code = parse_option(&t, argc, argv, &i, args);
            if (code) return code;
        } else if (!options_ended && argv[i][0] == '-' && argv[i][1]) {
            return cli_usage_error("%s: unknown option '%s'; options have two dashes ('anneal %s --help')", verb->name,
                                   argv[i], verb->name);
        } else if (!verb->operand || operand) {
            return cli_usage_error("%s: '%s' is one word too many", verb->name, argv[i]);
        } else {
            operand = argv[i];
        }
    }
    if (verb->operand && !operand && !verb->operand_optional) {
        return cli_usage_error("%s: which %s? For example:\n%s", verb->name, verb->operand, verb->examples);
    }
    if (verb->operand) *(const char **)(void *)((char *)args + verb->operand_offset) = operand;
    return -1;
}

void cli_print_option(FILE *out, const char *name, const char *metavar, const char *help, const cli_option *o, const char *preset)
{
    char left[64];
    snprintf(left, sizeof left, "--%s%s%s", name, metavar ? " " : "", metavar ? metavar : "");
    fprintf(out, "  %-18s %s", left, help);
    if (o && o->kind == CLI_CHOICE) fprintf(out, " (one of: %s)", o->choices);
    if (!preset && o) preset = o->preset;
    if (preset) fprintf(out, " [%s]", preset);
    fputc('\n', out);
}

void cli_print_help(FILE *out, const cli_verb *verb, const char *operand)
{
    fprintf(out, "anneal %s", verb->name);
    if (verb->operand && operand) fprintf(out, " %s", operand);
    if (verb->operand && !operand) fprintf(out, verb->operand_optional ? " [%s]" : " %s", verb->operand);
    fprintf(out, " [options] - %s\n", verb->summary);
    if (verb->about) fprintf(out, "\n%s", verb->about);
    if (verb->extra) verb->extra->help(out, operand);
    fputs("\nOptions (defaults in brackets):\n", out);
    for (size_t i = 0; i < verb->noptions; i++) {
        const cli_option *o = &verb->options[i];
        cli_print_option(out, o->name, o->metavar, o->help, o, NULL);
    }
    cli_print_option(out, "help", NULL, "this text", NULL, NULL);
    fprintf(out, "\nExamples:\n%s", verb->examples);
    fputs("\nExit codes: 0 done; 1 a mistake on the command line; 130 interrupted; others: 'anneal --help'.\n", out);
}
