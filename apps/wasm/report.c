/* report.c - what the compiler does with a model or an expression, as JSON. */
#include "report.h"

#include "model.h"

#include <anneal/device.h>
#include <anneal/nn.h>
#include <anneal/plan.h>
#include <anneal/view.h>

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- JSON --- */

typedef struct out {
    an_put put;
    void *user;
} out;

static void putf(const out *o, const char *fmt, ...) AN_PRINTF(2, 3);

/* Short pieces only. */
static void putf(const out *o, const char *fmt, ...)
{
    char text[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    o->put(o->user, text);
}

static void put_string(void *user, const char *text)
{
    const out *o = user;
    for (const char *p = text; *p; p++) {
        const unsigned char c = (unsigned char)*p;
        if (c == '"' || c == '\\')
            putf(o, "\\%c", c);
        else if (c < 0x20)
            putf(o, "\\u%04x", c);
        else
            putf(o, "%c", c);
    }
}

static void put_field(out *o, const char *name, const char *text)
{
    putf(o, "\"%s\": \"", name);
    put_string(o, text);
    putf(o, "\"");
}

/* --- a model --- */

typedef struct tally {
    size_t nodes[AN_PHASE_COUNT]; /* by phase */
} tally;

static void count_node(void *user, const an_node_view *node)
{
    tally *t = user;
    t->nodes[node->phase]++;
}

/* The graph of a step: its nodes by phase and its key. */
static an_status put_graph(out *o, an_graph *g, const model_graphs *m)
{
    const an_params writes = an_optim_writes(m->optim);
    an_uop roots[256];
    uint32_t n = 0;
    roots[n++] = an_tensor_uop(m->loss);
    for (size_t i = 0; i < writes.n && n < sizeof roots / sizeof roots[0]; i++) roots[n++] = an_tensor_uop(writes.items[i].tensor);
    tally t = {0};
    uint64_t lo = 0, hi = 0;
    an_status st = an_graph_walk(g, roots, n, count_node, &t);
    if (!st) st = an_graph_key(g, roots, n, &lo, &hi);
    if (st) return st;
    putf(o, "\"nodes\": {\"forward\": %zu, \"backward\": %zu, \"update\": %zu}, ", t.nodes[AN_PHASE_FORWARD],
         t.nodes[AN_PHASE_BACKWARD], t.nodes[AN_PHASE_UPDATE]);
    putf(o, "\"key\": \"%016" PRIx64 "%016" PRIx64 "\",\n", hi, lo);
    return AN_OK;
}

static void put_passes(out *o, const an_trace *trace)
{
    putf(o, "\"passes\": [");
    for (size_t i = 0; i < an_trace_npasses(trace); i++) {
        const an_trace_pass p = an_trace_get_pass(trace, i);
        putf(o, "%s\n  {", i ? "," : "");
        put_field(o, "name", p.name);
        putf(o, ", \"depth\": %u, \"nodes_in\": %zu, \"nodes_out\": %zu, \"fired\": %zu}", p.depth, p.nodes_in, p.nodes_out,
             p.nfired);
    }
    putf(o, "],\n");
}

static an_status put_kernels(out *o, an_plan *plan)
{
    putf(o, "\"kernels\": [");
    for (size_t i = 0; i < an_plan_kernel_count(plan); i++) {
        const an_kernel_info k = an_plan_kernel(plan, i);
        putf(o, "%s\n  {", i ? "," : "");
        put_field(o, "name", k.name);
        putf(o, ", ");
        put_field(o, "phase", k.phase);
        putf(o, ", \"key\": \"%016" PRIx64 "%016" PRIx64 "\", \"flops\": %.17g, \"read\": %.17g, \"written\": %.17g, ", k.key_hi,
             k.key_lo, k.flops, k.nbytes_read, k.nbytes_written);
        put_field(o, "reason", k.reason);
        putf(o, ", \"linear\": \"");
        const an_status st = an_plan_kernel_print(plan, i, AN_KERNEL_LINEAR, put_string, o);
        if (st) return st;
        putf(o, "\"}");
    }
    putf(o, "],\n\"nbytes\": %zu, \"nbytes_unplanned\": %zu,\n", an_plan_nbytes(plan), an_plan_nbytes_unplanned(plan));
    return AN_OK;
}

/* Images and labels that look like nothing, but the same everywhere. */
static an_status write_batch(const model *m, const model_graphs *gr, int64_t batch, int step)
{
    const size_t npixels = (size_t)batch * m->features, nlabels = (size_t)batch;
    uint8_t *pixels = malloc(npixels);
    int32_t *labels = malloc(nlabels * sizeof *labels);
    an_status st = AN_ERR_NOMEM;
    if (pixels && labels) {
        uint32_t state = 2463534242u + (uint32_t)step; /* xorshift32 */
        for (size_t i = 0; i < npixels; i++) {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            pixels[i] = (uint8_t)(state >> 24);
        }
        for (size_t i = 0; i < nlabels; i++) labels[i] = (int32_t)((i * 7 + (size_t)step) % m->classes);
        st = an_tensor_write(gr->inputs[0], pixels, npixels);
        if (!st) st = an_tensor_write(gr->inputs[1], labels, nlabels * sizeof *labels);
    }
    free(pixels);
    free(labels);
    return st;
}

/* FNV-1a over the bits of every parameter. */
static an_status hash_parameters(const model_graphs *gr, uint64_t *hash)
{
    const an_params params = an_module_parameters(gr->net);
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < params.n; i++) {
        const size_t nbytes = an_tensor_nbytes(params.items[i].tensor);
        unsigned char *data = malloc(nbytes);
        const an_status st = data ? an_tensor_read(params.items[i].tensor, data, nbytes) : AN_ERR_NOMEM;
        for (size_t b = 0; !st && b < nbytes; b++) h = (h ^ data[b]) * 1099511628211u;
        free(data);
        if (st) return st;
    }
    *hash = h;
    return AN_OK;
}

static an_status run_steps(out *o, const model *m, const model_graphs *gr, an_plan *plan, int64_t batch, int steps)
{
    putf(o, "\"loss\": [");
    for (int step = 0; step < steps; step++) {
        float loss = 0;
        an_status st = write_batch(m, gr, batch, step);
        if (!st) st = an_plan_run(plan);
        if (!st) st = an_tensor_read(gr->loss, &loss, sizeof loss);
        if (st) return st;
        putf(o, "%s%.9g", step ? ", " : "", (double)loss);
    }
    uint64_t hash = 0;
    const an_status st = hash_parameters(gr, &hash);
    if (st) return st;
    putf(o, "],\n\"parameters\": \"%016" PRIx64 "\"}\n", hash);
    return AN_OK;
}

an_status report_model(an_ctx *ctx, const char *name, int64_t batch, int steps, uint64_t seed, an_put put, void *user)
{
    out o = {put, user};
    const model *m = model_find(name);
    an_graph *g = NULL;
    an_trace *trace = NULL;
    an_plan *plan = NULL;
    model_graphs graphs = {0};
    if (!m) return an_fail(ctx, AN_ERR_ARG, "there is no model '%s'", name);
    model_options options = {0};
    if (m->data != MODEL_IMAGES) return an_fail(ctx, AN_ERR_UNSUPPORTED, "the model '%s' is not one of images", name);
    model_defaults(m, NULL, &options);
    options.values[MODEL_BATCH] = (double)batch;
    options.eval_batch = batch;
    options.seed = seed;
    an_status st = an_graph_create(ctx, &g);
    if (!st) st = an_graph_set_device(g, "interp");
    if (!st) st = model_build(m, g, &options, &graphs);
    if (st) goto done;
    st = AN_ERR_NOMEM;
    trace = an_trace_create(ctx);
    if (!trace) goto done;
    putf(&o, "{");
    put_field(&o, "model", name);
    putf(&o, ", \"parameter_count\": %" PRId64 ", ", an_module_nparams(graphs.net));
    st = put_graph(&o, g, &graphs);
    if (!st) st = model_plan(&graphs, trace, &plan);
    if (st) goto done;
    put_passes(&o, trace);
    st = put_kernels(&o, plan);
    if (!st) st = run_steps(&o, m, &graphs, plan, batch, steps);
done:
    an_plan_destroy(plan);
    an_trace_destroy(trace);
    an_graph_destroy(g);
    return st;
}

/* --- an expression --- */

static an_status put_expr(out *o, const char *name, an_graph *g, an_uop u)
{
    putf(o, "\"%s\": \"", name);
    const an_status st = an_expr_print(g, u, 64, put_string, o);
    putf(o, "\"");
    return st;
}

static an_status put_fired(out *o, an_graph *g, const an_trace *trace)
{
    bool first = true;
    putf(o, ", \"fired\": [");
    for (size_t p = 0; p < an_trace_npasses(trace); p++) {
        for (size_t i = 0; i < an_trace_get_pass(trace, p).nfired; i++) {
            const an_trace_fired f = an_trace_get_fired(trace, p, i);
            putf(o, "%s\n  {", first ? "" : ",");
            first = false;
            put_field(o, "rule", f.rule);
            putf(o, ", ");
            put_field(o, "text", f.text);
            putf(o, ", ");
            an_status st = put_expr(o, "before", g, f.before);
            putf(o, ", ");
            if (!st) st = put_expr(o, "after", g, f.after);
            if (st) return st;
            putf(o, "}");
        }
    }
    putf(o, "]}\n");
    return AN_OK;
}

an_status report_rewrite(an_ctx *ctx, const char *text, an_put put, void *user)
{
    out o = {put, user};
    an_graph *g = NULL;
    an_uop root = AN_UOP_NONE;
    an_trace *trace = an_trace_create(ctx);
    an_status st = trace ? an_graph_create(ctx, &g) : AN_ERR_NOMEM;
    if (!st) st = an_expr_parse(g, text, &root);
    if (st) goto done;
    putf(&o, "{");
    st = put_expr(&o, "before", g, root);
    if (!st) st = an_expr_rewrite(g, "symbolic", &root, trace);
    if (st) goto done;
    putf(&o, ", ");
    st = put_expr(&o, "after", g, root);
    if (!st) st = put_fired(&o, g, trace);
done:
    an_trace_destroy(trace);
    an_graph_destroy(g);
    return st;
}
