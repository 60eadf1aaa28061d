/* say.c - sentences on stderr: errors as values, notes, and the end of the output. */
#include "cli.h"

#include <stdarg.h>

int cli_usage_error(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fputs("anneal: ", stderr);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
    return AN_ERR_ARG;
}

void cli_note(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fputs("anneal: note: ", stderr);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
}

int cli_fail(cli_error *e, int code, const char *fmt, ...)
{
    if (e->code) return code;
    va_list args;
    va_start(args, fmt);
    vsnprintf(e->text, sizeof e->text, fmt, args);
    va_end(args);
    e->code = code;
    return code;
}

int cli_fail_ctx(cli_error *e, const an_ctx *ctx)
{
    const an_status st = an_ctx_status(ctx);
    return st ? cli_fail(e, (int)st, "%s", an_ctx_error(ctx)) : cli_fail(e, AN_ERR_INTERNAL, "failed without saying why");
}

int cli_say(const cli_error *e)
{
    fprintf(stderr, "anneal: %s\n", e->text);
    return e->code;
}

int cli_finish(int code)
{
    const bool failed = fflush(stdout) != 0 || ferror(stdout);
    if (!failed || code != 0) return code;
    fputs("anneal: the output could not be written\n", stderr);
    return AN_ERR_IO;
}
