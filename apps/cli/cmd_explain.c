/* cmd_explain.c - `anneal explain OP`: what the op is, its gradient rule, every rule that mentions it, and an example
 * rewritten step by step. */
#include "print.h"

#include "explain_grad.h"

#include <anneal/inspect.h>
#include <stdlib.h>
#include <string.h>

typedef struct explain_args {
    const char *op;
    bool json;
} explain_args;

enum { DEPTH = 12, OPS_MAX = 256 };

static const struct {
    const char *op, *text;
} examples[] = {
#define EXAMPLE(op, text) {op, text},
#include "examples.def"
#undef EXAMPLE
};

static bool find_op(const char *name, an_op_view *out)
{
    for (size_t i = 0; i < an_op_count(); i++) {
        *out = an_op_get(i);
        if (out->text && strcmp(out->text, name) == 0) return true;
    }
    return false;
}

static int unknown_op(const char *name)
{
    const char *words[OPS_MAX];
    size_t n = 0;
    for (size_t i = 0; i < an_op_count() && n < OPS_MAX; i++) {
        const an_op_view op = an_op_get(i);
        if (op.text && op.text[0]) words[n++] = op.text;
    }
    return cli_unknown("op", name, words, n);
}

static int list_ops(void)
{
    puts("The ops; 'anneal explain OP' says more:");
    for (size_t i = 0; i < an_op_count(); i++) {
        const an_op_view op = an_op_get(i);
        size_t nrules = 0;
        if (!op.text || !op.text[0]) continue;
        for (size_t r = 0; r < an_rule_count(); r++) nrules += an_rule_mentions(r, op.text);
        printf("  %-12s %3zu rules%s\n", op.text, nrules, op.is_kernel_only ? "  only inside kernels" : "");
    }
    return 0;
}

static void print_op(const an_op_view *op, const cli_style *style)
{
    printf("%s%s%s: ", cli_paint(style, CLI_TEAL), op->text, cli_paint(style, CLI_PLAIN));
    if (op->arity < 0)
        fputs("any number of sources", stdout);
    else
        printf("%d source%s", op->arity, op->arity == 1 ? "" : "s");
    if (op->is_elementwise) fputs(", elementwise", stdout);
    if (op->is_commutative) fputs(", commutative", stdout);
    if (op->is_movement) fputs(", moves elements only: it becomes index arithmetic", stdout);
    if (op->is_kernel_only) fputs(", only inside kernels", stdout);
    fputs("\nWhat it means to the bit: docs/SEMANTICS.md\n", stdout);
}

typedef enum rule_kind { RULES_OF_REWRITING, RULES_OF_REVERSE_MODE, RULES_OF_FORWARD_MODE } rule_kind;

static size_t print_rules(const char *op, rule_kind kind, const cli_style *style)
{
    static const cli_colour colours[] = {CLI_GOLD, CLI_EMBER, CLI_TEAL};
    size_t n = 0;
    for (size_t i = 0; i < an_rule_count(); i++) {
        const an_rule_view r = an_rule_get(i);
        const rule_kind is = r.is_grad ? RULES_OF_REVERSE_MODE : r.is_jvp ? RULES_OF_FORWARD_MODE : RULES_OF_REWRITING;
        if (is != kind || !an_rule_mentions(i, op)) continue;
        printf("  %s%s%s  %s(%s:%u)%s\n    %s\n", cli_paint(style, colours[kind]), r.name,
               cli_paint(style, CLI_PLAIN), cli_paint(style, CLI_DIM), r.file, r.line, cli_paint(style, CLI_PLAIN), r.text);
        n++;
    }
    return n;
}

/* Every firing, in order, then the result. */
static int print_steps(an_ctx *ctx, const char *text, const cli_style *style, cli_error *e)
{
    an_graph *g = NULL;
    an_trace *trace = NULL;
    an_uop root = AN_UOP_NONE;
    size_t step = 0;
    int code = 0;
    if (an_graph_create(ctx, &g)) return cli_fail_ctx(e, ctx);
    trace = an_trace_create(ctx);
    if (!trace || an_expr_parse(g, text, &root)) {
        code = cli_fail_ctx(e, ctx);
        goto done;
    }
    for (const char *line = text; strchr(line, '\n'); line = strchr(line, '\n') + 1) /* the unknowns and their bounds */
        printf("  %s%.*s%s\n", cli_paint(style, CLI_DIM), (int)strcspn(line, "\n"), line, cli_paint(style, CLI_PLAIN));
    fputs("  ", stdout);
    an_expr_print(g, root, DEPTH, cli_put, stdout);
    putchar('\n');
    if (an_expr_rewrite(g, "symbolic", &root, trace)) {
        code = cli_fail_ctx(e, ctx);
        goto done;
    }
    for (size_t p = 0; p < an_trace_npasses(trace); p++) {
        const an_trace_pass pass = an_trace_get_pass(trace, p);
        for (size_t i = 0; i < pass.nfired; i++) {
            const an_trace_fired f = an_trace_get_fired(trace, p, i);
            printf("  %zu. ", ++step);
            an_expr_print(pass.graph, f.before, DEPTH, cli_put, stdout);
            fputs("  =>  ", stdout);
            an_expr_print(pass.graph, f.after, DEPTH, cli_put, stdout);
            printf("   %sby %s%s\n", cli_paint(style, CLI_GOLD), f.rule, cli_paint(style, CLI_PLAIN));
        }
    }
    printf("  %s= ", cli_paint(style, CLI_TEAL));
    an_expr_print(g, root, DEPTH, cli_put, stdout);
    printf("%s\n", cli_paint(style, CLI_PLAIN));
done:
    an_trace_destroy(trace);
    an_graph_destroy(g);
    return code;
}

static const char *example_of(const char *op)
{
    for (size_t i = 0; i < CLI_COUNT(examples); i++)
        if (strcmp(examples[i].op, op) == 0) return examples[i].text;
    return NULL;
}

static int print_text(const an_op_view *op, cli_error *e)
{
    an_ctx *ctx = NULL;
    bool printed = false;
    const cli_style style = cli_style_of(stdout);
    const char *example = example_of(op->text);
    if (an_ctx_create(NULL, &ctx)) return cli_fail(e, AN_ERR_NOMEM, "out of memory");
    print_op(op, &style);
    puts("\nGradient rules:");
    if (print_rules(op->text, RULES_OF_REVERSE_MODE, &style) == 0) puts("  none mentions it");
    puts("\nForward-mode rules:");
    if (print_rules(op->text, RULES_OF_FORWARD_MODE, &style) == 0) puts("  none mentions it");
    int code = cli_explain_gradient(ctx, op->text, &style, &printed, e);
    puts("\nRules that mention it:");
    if (print_rules(op->text, RULES_OF_REWRITING, &style) == 0) puts("  none");
    if (example && !code) {
        puts("\nAn example, rewritten:");
        code = print_steps(ctx, example, &style, e);
    }
    an_ctx_destroy(ctx);
    return code;
}

static void print_json(const an_op_view *op)
{
    bool any = false;
    printf("{\"op\": \"%s\", \"arity\": %d, \"elementwise\": %s, \"commutative\": %s, \"movement\": %s, \"kernel_only\": %s, "
           "\"rules\": [",
           op->text, op->arity, op->is_elementwise ? "true" : "false", op->is_commutative ? "true" : "false",
           op->is_movement ? "true" : "false", op->is_kernel_only ? "true" : "false");
    for (size_t i = 0; i < an_rule_count(); i++) {
        const an_rule_view r = an_rule_get(i);
        if (!an_rule_mentions(i, op->text)) continue;
        printf("%s\n  {\"name\": \"%s\", \"set\": \"%s\", \"file\": \"%s\", \"line\": %u, \"gradient\": %s, \"jvp\": %s, \"text\": ",
               any ? "," : "", r.name, r.set, r.file, r.line, r.is_grad ? "true" : "false",
               r.is_jvp ? "true" : "false");
        cli_json_string(stdout, r.text);
        putchar('}');
        any = true;
    }
    puts("\n]}");
}

static int verb_run(const void *args)
{
    const explain_args *a = args;
    cli_error e = {0};
    an_op_view op;
    if (!a->op) return list_ops();
    if (!find_op(a->op, &op)) return unknown_op(a->op);
    if (a->json) {
        print_json(&op);
        return 0;
    }
    return print_text(&op, &e) ? cli_say(&e) : 0;
}

static const cli_option options[] = {
    CLI_OPTION_JSON(explain_args, "an object with an array of rules"),
};

const cli_verb cli_verb_explain = {
    .name = "explain",
    .operand = "OP",
    .operand_optional = true,
    .operand_offset = offsetof(explain_args, op),
    .summary = "what an op is, its gradient, its rules, and an example rewritten",
    .about = "Without OP it lists the ops.\n",
    .examples = "  anneal explain floordiv\n"
                "  anneal explain exp2\n"
                "  anneal explain\n",
    .options = options,
    .noptions = CLI_COUNT(options),
    .args_size = sizeof(explain_args),
    .run = verb_run,
};
