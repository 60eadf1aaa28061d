/* cmd_graph.c - `anneal graph MODEL`: the graph of a training step, as text, for Graphviz, or as JSON. */
#include "print.h"
#include "session.h"

#include <anneal/view.h>
#include <stdlib.h>

typedef struct graph_args {
    cli_model_args m;
    bool forward, dot, json, memory;
} graph_args;

typedef struct writer {
    const graph_args *args;
    cli_style style;
    uint64_t nnodes[AN_PHASE_COUNT]; /* by phase */
} writer;

static void visit_text(void *user, const an_node_view *n)
{
    writer *w = user;
    printf("%s%%%-4u %-8s", cli_paint(&w->style, cli_phase_colour(n->phase)), n->number, cli_phase_name(n->phase));
    printf(" %s%s", n->op, cli_paint(&w->style, CLI_PLAIN));
    if (n->arg[0]) printf(" %s", n->arg);
    if (n->dtype != AN_DTYPE_NONE) printf(" %s%s", an_dtype_name(n->dtype), n->shape[0] == '(' && n->shape[1] == ')' ? "" : " ");
    if (!(n->shape[0] == '(' && n->shape[1] == ')')) fputs(n->shape, stdout);
    for (uint32_t i = 0; i < n->nsrcs; i++) printf(" %%%u", n->srcs[i]);
    if (n->rule[0]) printf("  %s# %s%s", cli_paint(&w->style, CLI_DIM), n->rule, cli_paint(&w->style, CLI_PLAIN));
    putchar('\n');
    w->nnodes[n->phase]++;
}

/* Forward teal and solid, backward ember and dashed, update gold and filled: never by colour alone. */
static void visit_dot(void *user, const an_node_view *n)
{
    static const char *const looks[] = {
        [AN_PHASE_FORWARD] = "color=\"#00ADD8\"",
        [AN_PHASE_BACKWARD] = "color=\"#FF7A45\", style=dashed",
        [AN_PHASE_TANGENT] = "color=\"#00ADD8\", style=dotted",
        [AN_PHASE_UPDATE] = "color=\"#a06b08\", fillcolor=\"#F2C57C\", style=filled",
    };
    (void)user;
    printf("  n%u [label=\"%s", n->number, n->op);
    if (n->arg[0]) {
        putchar(' ');
        cli_put_json(stdout, n->arg);
    }
    printf("\\n%s %s\", %s];\n", an_dtype_name(n->dtype), n->shape, looks[n->phase]);
    for (uint32_t i = 0; i < n->nsrcs; i++) {
        printf("  n%u -> n%u [%s];\n", n->srcs[i], n->number,
               n->phase == AN_PHASE_BACKWARD ? "color=\"#FF7A45\", style=dashed" : "color=\"#00ADD8\"");
    }
}

static void visit_json(void *user, const an_node_view *n)
{
    (void)user;
    printf("%s\n    {\"id\": %u, \"op\": \"%s\", \"arg\": ", n->number ? "," : "", n->number, n->op);
    cli_json_string(stdout, n->arg);
    printf(", \"dtype\": \"%s\", \"shape\": ", an_dtype_name(n->dtype));
    cli_json_string(stdout, n->shape);
    printf(", \"phase\": \"%s\", \"rule\": ", cli_phase_name(n->phase));
    cli_json_string(stdout, n->rule);
    fputs(", \"srcs\": [", stdout);
    for (uint32_t i = 0; i < n->nsrcs; i++) printf("%s%u", i ? ", " : "", n->srcs[i]);
    fputs("]}", stdout);
}

static int print_graph(const graph_args *a, cli_session *s, const an_uop *roots, uint32_t nroots, cli_error *e)
{
    writer w = {.args = a, .style = cli_style_of(stdout)};
    an_status st = AN_OK;
    if (a->dot) {
        printf("digraph %s {\n  rankdir=TB;\n  node [shape=box, fontname=\"monospace\"];\n", s->model->name);
        st = an_graph_walk(s->graph, roots, nroots, visit_dot, &w);
        puts("}");
    } else if (a->json) {
        printf("{\"model\": \"%s\", \"batch\": %llu, \"nodes\": [", s->model->name, (unsigned long long)model_size(&s->options, MODEL_BATCH));
        st = an_graph_walk(s->graph, roots, nroots, visit_json, &w);
        puts("\n]}");
    } else {
        st = an_graph_walk(s->graph, roots, nroots, visit_text, &w);
        printf("%s# forward %llu, backward %llu, update %llu nodes%s\n", cli_paint(&w.style, CLI_DIM),
               (unsigned long long)w.nnodes[AN_PHASE_FORWARD], (unsigned long long)w.nnodes[AN_PHASE_BACKWARD],
               (unsigned long long)w.nnodes[AN_PHASE_UPDATE], cli_paint(&w.style, CLI_PLAIN));
    }
    return st ? cli_fail_ctx(e, s->ctx) : 0;
}

/* --- memory ------------------------------------------------------------------------------------------------------ */

/* Bytes of temporaries that are in use at kernel c. */
static size_t held_at(const an_buffer_info *buffers, size_t n, size_t c)
{
    size_t held = 0;
    for (size_t i = 0; i < n; i++)
        if (buffers[i].is_temporary && buffers[i].first <= c && c <= buffers[i].last) held += buffers[i].nbytes;
    return held;
}

/* A line a buffer, a column a kernel (or several, so that it fits): # written, + held or read. */
static void draw_lives(const an_plan *plan, const an_buffer_info *buffers, size_t nbuffers, const cli_style *style)
{
    enum { WIDTH = 64 };
    const size_t n = an_plan_kernel_count(plan), each = (n + WIDTH - 1) / WIDTH, columns = n ? (n + each - 1) / each : 0;
    printf("%10s %10s  %-*s  kernel that writes it\n", "bytes", "offset", (int)columns, "life");
    for (size_t i = 0; i < nbuffers; i++) {
        const an_buffer_info b = buffers[i];
        if (!b.is_temporary) continue;
        printf("%10zu %10zu  %s", b.nbytes, b.offset, cli_paint(style, CLI_GOLD));
        for (size_t c = 0; c < columns; c++) {
            const size_t from = c * each, to = from + each - 1;
            putchar(b.last < from || b.first > to ? '.' : b.first >= from ? '#' : '+');
        }
        printf("%s  %s\n", cli_paint(style, CLI_PLAIN), b.name);
    }
}

static int print_memory(const graph_args *a, cli_session *s, cli_error *e)
{
    an_plan *plan = NULL;
    if (model_plan(&s->m, NULL, &plan)) return cli_fail_ctx(e, s->ctx);
    const cli_style style = cli_style_of(stdout);
    const size_t n = an_plan_kernel_count(plan), count = an_plan_buffer_count(plan), sum = an_plan_nbytes_unplanned(plan);
    size_t peak = 0, most = 0, ntemps = 0, others = 0;
    an_buffer_info *buffers = calloc(count + 1, sizeof *buffers);
    if (!buffers) {
        an_plan_destroy(plan);
        return cli_fail(e, AN_ERR_NOMEM, "out of memory");
    }
    for (size_t i = 0; i < count; i++) {
        buffers[i] = an_plan_buffer(plan, i);
        ntemps += buffers[i].is_temporary;
        if (!buffers[i].is_temporary) others += buffers[i].nbytes;
    }
    for (size_t c = 0; c < n; c++) {
        const size_t held = held_at(buffers, count, c);
        if (held > most) {
            most = held;
            peak = c;
        }
    }
    if (a->json) {
        printf("{\"model\": \"%s\", \"bytes\": %zu, \"bytes_unplanned\": %zu, \"bytes_live\": %zu, \"peak_kernel\": %zu, \"buffers\": [",
               s->model->name, an_plan_nbytes(plan), sum, most, peak);
        for (size_t i = 0; i < count; i++) {
            const an_buffer_info b = buffers[i];
            printf("%s\n  {\"temporary\": %s, \"written\": %s, \"dtype\": \"%s\", \"bytes\": %zu, \"offset\": %zu, \"first\": %zu, \"last\": %zu, "
                   "\"writer\": ", i ? "," : "", b.is_temporary ? "true" : "false", b.is_written ? "true" : "false", an_dtype_name(b.dtype),
                   b.nbytes, b.offset, b.first, b.last);
            cli_json_string(stdout, b.name);
            putchar('}');
        }
        puts("\n]}");
    } else {
        draw_lives(plan, buffers, count, &style);
        printf("%zu buffers between %zu kernels: %zu bytes apart, %zu shared (%.2f of it); most in use %zu, at kernel %zu, %s\n", ntemps, n, sum,
               an_plan_nbytes(plan), sum ? (double)an_plan_nbytes(plan) / (double)sum : 1.0, most, peak + 1, n ? an_plan_kernel(plan, peak).name : "");
        printf("%zu bytes of parameters, state, inputs and results\n", others);
    }
    free(buffers);
    an_plan_destroy(plan);
    return 0;
}

static int verb_run(const void *args)
{
    const graph_args *a = args;
    cli_error e = {0};
    cli_session s = {0};
    an_uop *roots = NULL;
    if (a->memory && (a->dot || a->forward)) return cli_usage_error("graph: --memory shows the kernels of a whole step; leave out --dot and --forward");
    if (a->dot && a->json) return cli_usage_error("graph: --dot and --json are two different outputs; take one");
    if (cli_session_open(&s, &a->m, NULL, &e)) goto done;
    if (a->memory) {
        print_memory(a, &s, &e);
        cli_session_finish(&s, &e);
        goto done;
    }
    const an_params writes = an_optim_writes(s.m.optim);
    roots = malloc((writes.n + 1) * sizeof *roots);
    if (!roots) {
        cli_fail(&e, AN_ERR_NOMEM, "out of memory");
        goto done;
    }
    uint32_t n = 0;
    roots[n++] = an_tensor_uop(s.m.loss);
    for (size_t i = 0; !a->forward && i < writes.n; i++) roots[n++] = an_tensor_uop(writes.items[i].tensor);
    print_graph(a, &s, roots, n, &e);
    cli_session_finish(&s, &e);
done:
    free(roots);
    cli_session_close(&s);
    return e.code ? cli_say(&e) : 0;
}

static const cli_option options[] = {
    {"forward", CLI_FLAG, offsetof(graph_args, forward), NULL, NULL, "only what the loss is computed from", 0, 0, NULL},
    {"memory", CLI_FLAG, offsetof(graph_args, memory), NULL, NULL, "instead: the buffers between kernels, their lives and places", 0, 0, NULL},
    {"dot", CLI_FLAG, offsetof(graph_args, dot), NULL, NULL, "for Graphviz", 0, 0, NULL},
    CLI_OPTION_JSON(graph_args, "an object with an array of nodes"),
    CLI_OPTIONS_OF_MODEL(graph_args),
};

const cli_verb cli_verb_graph = {
    .name = "graph",
    CLI_VERB_OF_MODEL(graph_args),
    .summary = "print the graph of a training step",
    .about = "A line is a node: number, phase, op, what it is of, dtype, shape, sources, and after # the rule that made it.\n"
             "Forward is teal, backward ember (dashed in --dot), update gold.\n",
    .examples = "  anneal graph mlp --forward\n"
                "  anneal graph mlp --dot | dot -Tsvg > mlp.svg\n"
                "  anneal graph mlp --memory\n"
                "  anneal graph mlp --json | jq '.nodes | length'\n",
    .options = options,
    .noptions = CLI_COUNT(options),
    .run = verb_run,
};
