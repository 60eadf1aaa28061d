/* explain_grad.h - gradients before your eyes: an op applied to unknowns, and what the gradient rules made of it. */
#ifndef CLI_EXPLAIN_GRAD_H
#define CLI_EXPLAIN_GRAD_H

#include "cli.h"
#include "term.h"

/* Prints "y = ..." and "grad x = ..." for the op, if it is one that the tensor API makes; *printed says whether. */
int cli_explain_gradient(an_ctx *ctx, const char *op, const cli_style *style, bool *printed, cli_error *e);

#endif
