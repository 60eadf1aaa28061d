/* cli.h - what the verbs of the command line share: the shape of a verb, its table of options, and how errors are said.
 *
 * An option is one row of a table; parsing, --help and "did you mean" all read that row. The program sees public headers
 * only. */
#ifndef CLI_H
#define CLI_H

#include <anneal/ctx.h>
#include <stdio.h>

/* --- options -------------------------------------------------------------------------------------- */
typedef enum cli_kind {
    CLI_FLAG,  /* bool, no value */
    CLI_WHOLE, /* uint64_t within min..max */
    CLI_SIZE,  /* the same in a double */
    CLI_REAL,  /* double within min..max */
    CLI_TEXT,  /* const char *, borrowed from argv */
    CLI_CHOICE /* const char *, one of the words in choices */
} cli_kind;

typedef struct cli_option {
    const char *name; /* without the dashes */
    cli_kind kind;
    size_t offset;       /* of the field in the verb's struct of arguments */
    const char *metavar; /* "N"; NULL for a flag */
    const char *preset;  /* the default, as text, parsed like a value; NULL: the field stays zero */
    const char *help;
    double min, max;     /* CLI_WHOLE and CLI_REAL, bounds included */
    const char *choices; /* CLI_CHOICE: "sgd adam" */
} cli_option;

enum { CLI_EXIT_INTERRUPTED = 130 };

/* Options that an operand brings with it, as a model does. Their fields are doubles, NAN unless given. */
typedef struct cli_extra {
    int (*check)(const char *operand); /* 0; or it is no such thing, which was said: the exit code */
    /* Fills rows, of at most max, for fields that begin at offset; returns how many there are. */
    size_t (*rows)(const char *operand, size_t offset, cli_option *rows, size_t max);
    void (*help)(FILE *out, const char *operand); /* what --help says of it; NULL: of all there are */
} cli_extra;

typedef struct cli_verb {
    const char *name;
    const char *operand; /* "MODEL", what must follow the verb; NULL: nothing may */
    bool operand_optional;
    size_t operand_offset; /* of its const char * in the arguments */
    const char *summary;   /* one line */
    const char *about;     /* paragraphs of --help; may be NULL */
    const char *examples;  /* lines of "  anneal train mlp", kept as they are */
    const cli_option *options;
    size_t noptions;
    size_t args_size;
    const cli_extra *extra; /* may be NULL */
    size_t extra_offset, nextra; /* the fields of its rows */
    int (*run)(const void *args); /* returns the exit code */
} cli_verb;

/* Fills args (args_size bytes) from the defaults and the words after the verb. Returns -1 to go on, else the exit code:
 * --help was printed (0), or a mistake was said on stderr. */
int cli_parse(const cli_verb *verb, int argc, char *const *argv, void *args);

void cli_print_help(FILE *out, const cli_verb *verb, const char *operand); /* operand NULL: in general */
/* One row of --help. preset stands for o's; both may be NULL. */
void cli_print_option(FILE *out, const char *name, const char *metavar, const char *help, const cli_option *o, const char *preset);

/* --- errors as values ------------------------------------------------------------------------------ */
/* What a function of this program found wrong; code 0 is nothing. It is said once, where the verb ends. */
typedef struct cli_error {
    int code;
    char text[1536];
} cli_error;
int cli_fail(cli_error *e, int code, const char *fmt, ...) AN_PRINTF(3, 4); /* keeps the first; returns code */
int cli_fail_ctx(cli_error *e, const an_ctx *ctx);                          /* the same with the context's error */
int cli_say(const cli_error *e);                                            /* on stderr; returns the code */

/* --- saying what is wrong -------------------------------------------------------------------------- */
/* "anneal: sentence" on stderr; returns AN_ERR_ARG. */
int cli_usage_error(const char *fmt, ...) AN_PRINTF(1, 2);
/* "anneal: note: sentence" on stderr. */
void cli_note(const char *fmt, ...) AN_PRINTF(1, 2);

/* The word of words[0..n) nearest to what was typed, NULL if none is near. */
const char *cli_suggest(const char *typed, const char *const *words, size_t n);
/* "unknown model 'x'; did you mean 'mlp'?" or "...; there are: mlp, gpt". Returns AN_ERR_ARG. */
int cli_unknown(const char *what, const char *typed, const char *const *words, size_t n);

/* Flushes stdout; a write that failed (a full disk) turns code 0 into AN_ERR_IO with a sentence. */
int cli_finish(int code);

/* A row that most verbs have; s is the verb's struct of arguments. */
#define CLI_OPTION_JSON(s, what) {"json", CLI_FLAG, offsetof(s, json), NULL, NULL, what, 0, 0, NULL}

#define CLI_COUNT(a) (sizeof(a) / sizeof(a)[0])

#endif
