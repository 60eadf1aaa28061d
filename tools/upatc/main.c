/* main.c - upatc, the rule compiler:  upatc IN.upat -o OUT.c [--name SYMBOL] [--number N] | upatc IN.upat --table
 *
 * Exit status: 0 done, 1 the rules are wrong, 2 the command line or a file is. */
#include "upatc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: upatc IN.upat -o OUT.c [--name SYMBOL] [--number N]   rules to C\n"
    "       upatc IN.upat --table                                 one line a rule: line, name, text\n"
    "\n"
    "  --name SYMBOL  what the rule set is called in C (default an_rules_IN)\n"
    "  --number N     its number, for sets outside src/rewrite/rulesets.def\n"
    "\n"
    "example: upatc src/rewrite/rules/symbolic.upat -o symbolic_rules.c\n";

typedef struct options {
    const char *in, *out, *name;
    long number;
    bool table;
} options;

static bool parse_args(int argc, char **argv, options *o)
{
    o->number = -1;
    for (int i = 1; i < argc; i++) {
        const bool more = i + 1 < argc;
        if (strcmp(argv[i], "--table") == 0) {
            o->table = true;
        } else if (strcmp(argv[i], "-o") == 0 && more) {
            o->out = argv[++i];
        } else if (strcmp(argv[i], "--name") == 0 && more) {
            o->name = argv[++i];
        } else if (strcmp(argv[i], "--number") == 0 && more) {
            char *end = NULL;
            o->number = strtol(argv[++i], &end, 10);
            if (*end || o->number < 0 || o->number > 1000000) return false;
        } else if (argv[i][0] != '-' && !o->in) {
            o->in = argv[i];
        } else {
            return false;
        }
    }
    return o->in && (o->table || o->out);
}

static char *read_all(const char *path, size_t *len)
{
    FILE *file = fopen(path, "rb");
    char *data = NULL;
    size_t cap = 0;
    *len = 0;
    if (!file) return NULL;
    for (;;) {
        if (*len + 4096 > cap) {
            cap = 2 * cap + 8192;
            char *grown = realloc(data, cap);
            if (!grown) break;
            data = grown;
        }
        const size_t n = fread(data + *len, 1, cap - *len, file);
        *len += n;
        if (n == 0) break;
    }
    if (ferror(file)) {
        free(data);
        data = NULL;
    }
    fclose(file);
    return data;
}

/* "a/symbolic.upat" is the set "symbolic". */
static void set_name(const char *path, char *out, size_t size)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    size_t n = strcspn(base, ".");
    if (n >= size) n = size - 1;
    memcpy(out, base, n);
    out[n] = '\0';
}

int main(int argc, char **argv)
{
    options o = {0};
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        fputs(usage, stdout);
        return 0;
    }
    if (!parse_args(argc, argv, &o)) {
        fputs(usage, stderr);
        return 2;
    }
    size_t len = 0;
    char *text = read_all(o.in, &len);
    if (!text) {
        fprintf(stderr, "upatc: %s cannot be read\n", o.in);
        return 2;
    }
    char set[64], symbol[96];
    set_name(o.in, set, sizeof set);
    snprintf(symbol, sizeof symbol, "an_rules_%s", set);
    /* Messages and generated comments name the file, not where the build found it. */
    const char *src = strstr(o.in, "src/");
    up_file f;
    up_out out = {0};
    int rc = 1;
    up_file_init(&f, src ? src : o.in, text, len);
    if (up_parse(&f) && up_check(&f)) {
        rc = 0;
        if (f.nrules == 0) {
            fprintf(stderr, "upatc: %s holds no rule\n", o.in);
            rc = 1;
        } else if (o.table) {
            for (size_t i = 0; i < f.nrules; i++)
                printf("%u\t%s\t%s\n", f.rules[i]->pos.line, f.rules[i]->name, f.rules[i]->text);
        } else {
            const up_emit_options eo = {.symbol = o.name ? o.name : symbol, .set = set, .number = o.number};
            up_emit(&f, &eo, &out);
            FILE *file = fopen(o.out, "wb");
            if (!file || fwrite(out.data, 1, out.len, file) != out.len) rc = 2;
            if (file && fclose(file) != 0) rc = 2;
            if (rc) fprintf(stderr, "upatc: %s cannot be written\n", o.out);
        }
    }
    if (f.messages) fputs(f.messages, stderr);
    up_out_fini(&out);
    up_file_fini(&f);
    free(text);
    return rc;
}
