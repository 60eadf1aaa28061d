/* report.h - what the compiler does with a model, as JSON: the same text in the browser and natively. */
#ifndef WASM_REPORT_H
#define WASM_REPORT_H

#include <anneal/inspect.h>

/* Builds a model's training step (graph, gradient, update), schedules and compiles it for interp, runs steps of it on made-up
 * images, and puts one JSON object: nodes and their keys by phase, passes, rules fired, kernels with their
 * structural keys and reasons, and the loss of each step. What takes time or depends on the machine is left out.
 * Errors: AN_ERR_ARG for an unknown model; those of the library. */
an_status report_model(an_ctx *ctx, const char *name, int64_t batch, int steps, uint64_t seed, an_put put, void *user);

/* Reads an expression (an_expr_parse), rewrites it by the symbolic rules, and puts one JSON object: before, after, and each
 * rule that fired with its text. Errors: AN_ERR_FORMAT with line and column; those of the library. */
an_status report_rewrite(an_ctx *ctx, const char *text, an_put put, void *user);

#endif
