/* codegen.c - the passes, in order. */
#include "codegen/gpu.h"
#include "codegen/pass.h"

#include "rewrite/rewrite.h"

static an_status rewrite(an_graph *g, an_uop *sink, const an_ruleset *set, an_trace *trace, const char *name)
{
    return an_rewrite(g, &set, 1, sink, 1, trace, NULL, name);
}

static an_status run(an_graph *g, an_uop *sink, an_trace *trace, const char *name,
                     an_status (*pass)(an_graph *g, an_uop *sink))
{
    an_trace_pass_begin(trace, name, g);
    const an_status st = pass(g, sink);
    an_trace_pass_end(trace);
    return st;
}

static an_status linearize_and_verify(an_graph *g, an_uop sink, const an_codegen_opts *opts, an_trace *trace, an_uop_vec *linear)
{
    an_trace_pass_begin(trace, "linearize", g);
    an_status st = an_pass_linearize(g, sink, linear);
    if (!st && !opts->no_opt) st = opts->gpu.threads > 0 ? an_linear_levels(g, linear) : an_linear_prefetch(g, linear);
    an_trace_pass_end(trace);
    if (st) return st;
    an_trace_pass_begin(trace, "verify", g);
    st = an_linear_verify(g, linear->data, linear->len, "linearize");
    an_trace_pass_nodes(trace, linear->len, linear->len);
    an_trace_pass_end(trace);
    return st;
}

static an_status prepare(an_graph *g, an_uop *sink, an_trace *trace)
{
    const an_status st = run(g, sink, trace, "prepare", an_pass_prepare);
    return st ? st : rewrite(g, sink, &an_rules_symbolic, trace, "simplify");
}

static an_status shape(an_graph *g, an_uop *sink, const an_codegen_opts *opts, an_trace *trace)
{
    an_trace_pass_begin(trace, "cut", g);
    an_status st = an_pass_cut(g, sink, opts->gpu.threads == 0, trace);
    if (!st) st = an_pass_cut_symbolic(g, sink, trace);
    an_trace_pass_end(trace);
    if (!st) st = run(g, sink, trace, "merge", an_pass_merge);
    an_trace_pass_begin(trace, "blocks", g);
    if (!st && opts->gpu.threads == 0) st = an_pass_blocks(g, sink, opts, trace);
    an_trace_pass_end(trace);
    return st;
}

an_status an_codegen_shape(an_graph *g, an_uop *sink, const an_codegen_opts *opts, an_trace *trace)
{
    an_uop now = *sink;
    an_status st = prepare(g, &now, trace);
    if (!st) st = shape(g, &now, opts, trace);
    if (!st) *sink = now;
    return st;
}

an_status an_codegen(an_graph *g, an_uop sink, const an_codegen_opts *opts, an_trace *trace, an_uop_vec *linear)
{
    const size_t len = linear->len;
    const bool gpu = opts->gpu.threads > 0;
    an_status st = prepare(g, &sink, trace);
    if (!st && !opts->no_opt) st = shape(g, &sink, opts, trace);
    if (!st && !opts->no_opt) st = an_pass_opt(g, &sink, opts, trace);
    if (!st && !gpu && !opts->no_opt) st = run(g, &sink, trace, "merge again", an_pass_merge_reductions); /* scratch is walked as one */
    if (!st) st = run(g, &sink, trace, "expand", an_pass_expand);
    if (!st) st = rewrite(g, &sink, &an_rules_symbolic, trace, "simplify copies");
    if (!st) st = rewrite(g, &sink, &an_rules_late, trace, "late");
    if (!st) st = run(g, &sink, trace, "vector", an_pass_vector);
    if (!st && gpu && !opts->no_opt) st = run(g, &sink, trace, "quads", an_pass_quads);
    if (!st && gpu) st = run(g, &sink, trace, "global", an_pass_global);
    if (!st && !gpu && !opts->no_opt) st = run(g, &sink, trace, "thread", an_pass_thread);
    if (!st) st = linearize_and_verify(g, sink, opts, trace, linear);
    if (st) linear->len = len;
    return st;
}
