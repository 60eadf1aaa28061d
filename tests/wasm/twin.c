/* twin.c - prints natively what the module of apps/wasm answers: twin model NAME BATCH STEPS SEED | twin rewrite TEXT */
#include "report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put(void *user, const char *text)
{
    fputs(text, user);
}

int main(int argc, char **argv)
{
    an_ctx *ctx = NULL;
    an_status st = an_ctx_create(NULL, &ctx);
    if (st) return 1;
    if (argc == 6 && strcmp(argv[1], "model") == 0)
        st = report_model(ctx, argv[2], atoi(argv[3]), atoi(argv[4]), (uint64_t)atoi(argv[5]), put, stdout);
    else if (argc == 3 && strcmp(argv[1], "rewrite") == 0)
        st = report_rewrite(ctx, argv[2], put, stdout);
    else
        st = an_fail(ctx, AN_ERR_ARG, "usage: twin model NAME BATCH STEPS SEED | twin rewrite TEXT");
    if (st) fprintf(stderr, "%s\n", an_ctx_error(ctx));
    an_ctx_destroy(ctx);
    return st != AN_OK;
}
