/* inspect.h - looking inside: which passes ran, which rules fired, why kernels were cut where they were, what the rules
 * are, and an expression rewritten step by step. Everything here only reads. */
#ifndef ANNEAL_INSPECT_H
#define ANNEAL_INSPECT_H

#include <anneal/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Takes text piece by piece. */
typedef void (*an_put)(void *user, const char *text);

/* --- the trace of a compilation ------------------------------------------------------------------ */
typedef struct an_trace an_trace;

/* An empty record, to be given to the calls that compile. Errors: NULL, AN_ERR_NOMEM in the context. */
AN_API an_trace *an_trace_create(an_ctx *ctx);
AN_API void an_trace_destroy(an_trace *t); /* NULL is a no-op */

/* False when memory ran out while recording: what is there is right, the rest is missing. */
AN_API bool an_trace_is_whole(const an_trace *t);

/* One pass, in the order in which passes began. Strings live as long as the trace.
 *   depth     0 for a pass of the pipeline, 1 for one run inside that, ...
 *   nodes_*   nodes of the graph before and after (or of the part the pass worked on)
 *   graph     where the ids of its rules live; borrowed, so gone when its owner destroyed it */
typedef struct an_trace_pass {
    const char *name;
    uint32_t depth;
    size_t nodes_in, nodes_out;
    double started, seconds; /* started: by the monotonic clock */
    an_graph *graph;
    size_t nfired, nnotes;
} an_trace_pass;

/* A rule that fired: before became after. */
typedef struct an_trace_fired {
    const char *rule, *file;
    uint32_t line;
    const char *text;
    an_uop before, after;
} an_trace_fired;

AN_API size_t an_trace_npasses(const an_trace *t);
AN_API an_trace_pass an_trace_get_pass(const an_trace *t, size_t pass);
AN_API an_trace_fired an_trace_get_fired(const an_trace *t, size_t pass, size_t i);
AN_API const char *an_trace_get_note(const an_trace *t, size_t pass, size_t i);

/* --- the rules ------------------------------------------------------------------------------------ */
typedef struct an_rule_view {
    const char *set; /* "symbolic", "grad", "jvp" */
    const char *name, *file;
    uint32_t line;
    const char *text; /* the whole rule on one line */
    bool is_grad, is_jvp; /* of reverse mode, of forward mode */
} an_rule_view;

/* All rules of the library, i from 0 to an_rule_count() - 1. */
AN_API size_t an_rule_count(void);
AN_API an_rule_view an_rule_get(size_t i);
/* Does rule i name op (its text in the op table, "add")? */
AN_API bool an_rule_mentions(size_t i, const char *op);

/* The op table, for listings: i from 0 to an_op_count() - 1, AN_OP order. arity -1: any. */
typedef struct an_op_view {
    const char *text;
    int arity;
    bool is_elementwise, is_commutative, is_movement, is_kernel_only;
} an_op_view;
AN_API size_t an_op_count(void);
AN_API an_op_view an_op_get(size_t i);

/* --- expressions ----------------------------------------------------------------------------------- */
/* Prints a node as an expression, "(add (mul x 3) 1)", to a depth. Errors: AN_ERR_NOMEM. */
AN_API an_status an_expr_print(const an_graph *g, an_uop u, uint32_t depth, an_put put, void *user);

/* Reads an expression as an_expr_print writes it, after lines that say what its names are:
 *     x = var 0..1023      an index variable
 *     y = i32 -8..8        an unknown of a dtype; bounds may be left out
 *     r = range 64         a loop of a kernel
 *     p = param f32        a buffer of a kernel
 *     z = add x 1          a name for an expression; its outer brackets may be left out
 *     (floordiv z 8)
 * The last line is what is returned. A number takes the dtype of the operand beside it. Ops are the elementwise ones, load
 * and store. '#' begins a comment. Errors: AN_ERR_FORMAT with line and column; *out stays. */
AN_API an_status an_expr_parse(an_graph *g, const char *text, an_uop *out);

/* Rewrites *root by the named set ("symbolic"), recording each rule in trace. Errors: AN_ERR_ARG for an unknown set; those
 * of rewriting. */
AN_API an_status an_expr_rewrite(an_graph *g, const char *set, an_uop *root, an_trace *trace);

#ifdef __cplusplus
}
#endif
#endif
