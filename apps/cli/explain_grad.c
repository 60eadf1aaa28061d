/* explain_grad.c - see explain_grad.h. A row of the table makes y from x (2, 3) and, for ops of two sources, z of the same
 * shape; the gradients of y weighted by g, and the tangent of y for tangents dx and dz, are then printed as expressions over these names. */
#include "explain_grad.h"

#include <anneal/grad.h>
#include <anneal/inspect.h>
#include <string.h>

enum { DEPTH = 10, UNKNOWNS = 5 };

static an_tensor *flip_of(an_tensor *x)
{
    return an_flip(x, AN_DIMS(1));
}

static an_tensor *reshape_of(an_tensor *x)
{
    return an_reshape(x, AN_DIMS(6));
}

static an_tensor *permute_of(an_tensor *x)
{
    return an_transpose(x, 0, 1);
}

static an_tensor *expand_of(an_tensor *x)
{
    return an_broadcast_to(an_reshape(x, AN_DIMS(2, 3, 1)), AN_DIMS(2, 3, 4));
}

static an_tensor *pad_of(an_tensor *x)
{
    static const int64_t before[] = {0, 1}, after[] = {0, 2};
    return an_pad(x, before, after, 2, 0);
}

static an_tensor *shrink_of(an_tensor *x)
{
    static const int64_t begin[] = {0, 1}, end[] = {2, 3};
    return an_shrink(x, begin, end, 2);
}

static an_tensor *sum_of(an_tensor *x)
{
    return an_sum(x, AN_DIMS(1), false);
}

static an_tensor *cast_of(an_tensor *x)
{
    return an_cast(x, AN_F64);
}

static const struct {
    const char *op;
    an_tensor *(*unary)(an_tensor *x);
    an_tensor *(*binary)(an_tensor *x, an_tensor *z);
} makers[] = {
    {"sqrt", an_sqrt, NULL},         {"exp2", an_exp2, NULL},     {"log2", an_log2, NULL},     {"sin", an_sin, NULL},
    {"erf", an_erf, NULL},           {"trunc", an_trunc, NULL},   {"cast", cast_of, NULL},     {"flip", flip_of, NULL},
    {"reshape", reshape_of, NULL},   {"permute", permute_of, NULL}, {"expand", expand_of, NULL}, {"pad", pad_of, NULL},
    {"shrink", shrink_of, NULL},     {"reduce_axis", sum_of, NULL}, {"detach", an_detach, NULL}, {"add", NULL, an_add},
    {"mul", NULL, an_mul},           {"div", NULL, an_div},       {"max", NULL, an_maximum},   {"min", NULL, an_minimum},
};

/* The printer calls unknowns buffer1, buffer2, ...; here they have names. */
typedef struct names {
    FILE *out;
    char buffers[UNKNOWNS][32];
    const char *names[UNKNOWNS];
} names;

static void take_name(void *user, const char *text)
{
    char *to = user;
    strncat(to, text, 31 - strlen(to));
}

static void put_named(void *user, const char *text)
{
    const names *n = user;
    while (*text) {
        size_t len = strcspn(text, "() "), i = 0;
        for (i = 0; len > 0 && i < UNKNOWNS; i++)
            if (strlen(n->buffers[i]) == len && strncmp(n->buffers[i], text, len) == 0) break;
        if (len == 0) {
            len = 1;
            fputc(*text, n->out);
        } else if (i < UNKNOWNS) {
            fputs(n->names[i], n->out);
        } else {
            fwrite(text, 1, len, n->out);
        }
        text += len;
    }
}

static void print_line(const char *left, an_tensor *t, names *n, const char *colour, const char *plain)
{
    fprintf(n->out, "  %s%-6s%s = ", colour, left, plain);
    an_expr_print(an_tensor_graph(t), an_tensor_uop(t), DEPTH, put_named, n);
    fputc('\n', n->out);
}

static int print(an_graph *g, size_t which, const cli_style *style, cli_error *e)
{
    names n = {.out = stdout, .names = {"x", "z", "g", "dx", "dz"}};
    an_tensor *x = an_tensor_from_host(g, AN_F32, AN_DIMS(2, 3), NULL), *z = an_tensor_from_host(g, AN_F32, AN_DIMS(2, 3), NULL);
    const bool is_binary = makers[which].binary != NULL;
    an_tensor *y = is_binary ? makers[which].binary(x, z) : makers[which].unary(x);
    an_tensor *wrt[2] = {x, z}, *grads[2] = {NULL, NULL};
    int64_t dims[4] = {0};
    const uint32_t rank = an_tensor_rank(y);
    if (!y || rank > CLI_COUNT(dims)) return cli_fail_ctx(e, an_graph_ctx(g));
    for (uint32_t i = 0; i < rank; i++) dims[i] = an_tensor_dim(y, (int)i);
    an_tensor *cotangent = an_tensor_from_host(g, an_tensor_dtype(y), dims, rank, NULL);
    if (an_backward_from(y, cotangent, wrt, is_binary ? 2 : 1, grads)) return cli_fail_ctx(e, an_graph_ctx(g));
    an_tensor *dx = an_tensor_from_host(g, AN_F32, AN_DIMS(2, 3), NULL), *dz = an_tensor_from_host(g, AN_F32, AN_DIMS(2, 3), NULL);
    an_tensor *tangents[2] = {dx, dz}, *dy = NULL;
    if (an_jvp(&y, 1, wrt, tangents, is_binary ? 2 : 1, &dy)) return cli_fail_ctx(e, an_graph_ctx(g));
    an_expr_print(g, an_tensor_uop(dx), 1, take_name, n.buffers[3]);
    an_expr_print(g, an_tensor_uop(dz), 1, take_name, n.buffers[4]);
    an_expr_print(g, an_tensor_uop(x), 1, take_name, n.buffers[0]);
    an_expr_print(g, an_tensor_uop(z), 1, take_name, n.buffers[1]);
    an_expr_print(g, an_tensor_uop(cotangent), 1, take_name, n.buffers[2]);
    print_line("y", y, &n, cli_paint(style, CLI_TEAL), cli_paint(style, CLI_PLAIN));
    print_line("grad x", grads[0], &n, cli_paint(style, CLI_EMBER), cli_paint(style, CLI_PLAIN));
    if (is_binary) print_line("grad z", grads[1], &n, cli_paint(style, CLI_EMBER), cli_paint(style, CLI_PLAIN));
    print_line("dy", dy, &n, cli_paint(style, CLI_TEAL), cli_paint(style, CLI_PLAIN));
    return 0;
}

int cli_explain_gradient(an_ctx *ctx, const char *op, const cli_style *style, bool *printed, cli_error *e)
{
    an_graph *g = NULL;
    *printed = false;
    for (size_t i = 0; i < CLI_COUNT(makers); i++) {
        if (strcmp(makers[i].op, op) != 0) continue;
        if (an_graph_create(ctx, &g)) return cli_fail_ctx(e, ctx);
        puts("\nDifferentiated, with g the gradient that arrives at y, and dx, dz the tangents that enter:");
        const int code = print(g, i, style, e);
        an_graph_destroy(g);
        *printed = true;
        return code;
    }
    return 0;
}
