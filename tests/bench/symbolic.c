/* symbolic.c - kernels over a symbol against their static twins: the least of the times of each, in turn, in one process.
 *     ninja bench_symbolic && ANNEAL_THREADS=1 tests/bench_symbolic 7 64 100 257      the values of n */
#define _POSIX_C_SOURCE 200809L
#include <anneal/device.h>
#include <anneal/plan.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static an_tensor *input(an_graph *g, an_uop rows, an_uop cols)
{
    return an_tensor_alloc_uop(g, AN_F32, (an_uop[]){rows, cols}, 2);
}

static an_tensor *product_rows(an_graph *g, an_uop n)
{
    return an_relu(an_matmul(input(g, n, an_dim(g, 784)), input(g, an_dim(g, 784), an_dim(g, 128))));
}

static an_tensor *product_columns(an_graph *g, an_uop n)
{
    return an_matmul(input(g, an_dim(g, 64), an_dim(g, 784)), input(g, an_dim(g, 784), n));
}

static an_tensor *product_depth(an_graph *g, an_uop n)
{
    return an_matmul(input(g, an_dim(g, 128), n), input(g, n, an_dim(g, 128)));
}

static an_tensor *elementwise(an_graph *g, an_uop n)
{
    an_tensor *x = input(g, an_dim(g, 1000), n);
    return an_add(an_mul(x, input(g, an_dim(g, 1000), n)), an_exp(x));
}

static an_tensor *row_sums(an_graph *g, an_uop n)
{
    return an_sum(input(g, an_dim(g, 1000), n), AN_DIMS(1), false);
}

static an_tensor *row_softmax(an_graph *g, an_uop n)
{
    return an_softmax(input(g, an_dim(g, 1000), n), 1);
}

static an_tensor *attention(an_graph *g, an_uop n)
{
    an_tensor *q = input(g, n, an_dim(g, 64)), *k = input(g, n, an_dim(g, 64)), *v = input(g, n, an_dim(g, 64));
    an_tensor *score = an_mul_scalar(an_matmul(q, an_transpose(k, 0, 1)), 0.125);
    an_tensor *seen = an_tril(an_ones_like(an_cast(score, AN_BOOL)), 0);
    return an_matmul(an_softmax(an_where(seen, score, an_full_like(score, -1e30)), -1), v);
}

static const struct {
    const char *name;
    an_tensor *(*make)(an_graph *g, an_uop n);
} cases[] = {{"(n,784) x (784,128), relu", product_rows}, {"(64,784) x (784,n)", product_columns}, {"(128,n) x (n,128)", product_depth},
             {"x*y + exp x, (1000,n)", elementwise}, {"row sums of (1000,n)", row_sums}, {"softmax of (1000,n)", row_softmax},
             {"causal attention, (n,64)", attention}};

int main(int argc, char **argv)
{
    an_ctx *ctx = NULL;
    if (an_ctx_create(NULL, &ctx)) return 1;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int a = 1; a < argc; a++) {
            const int64_t n = atoll(argv[a]);
            an_graph *g[2] = {NULL, NULL};
            an_plan *plan[2] = {NULL, NULL};
            double least[2] = {1e9, 1e9};
            for (int k = 0; k < 2; k++) {
                an_tensor *y = NULL;
                bool ok = !an_graph_create(ctx, &g[k]);
                const an_uop size = !ok ? AN_UOP_NONE : k ? an_symbol(g[k], "n", 1, 300) : an_dim(g[k], n);
                ok = ok && (k == 0 || !an_graph_bind(g[k], "n", n)) && (y = cases[i].make(g[k], size)) != NULL;
                if (!ok || an_plan_create(g[k], &y, 1, NULL, &plan[k]) || an_plan_run(plan[k])) {
                    (void)fprintf(stderr, "%s: %s\n", cases[i].name, an_ctx_error(ctx));
                    return 1;
                }
            }
            const double end = seconds() + 0.5;
            for (int runs = 0; runs < 5 || seconds() < end; runs++)
                for (int k = 0; k < 2; k++) {
                    const double start = seconds();
                    if (an_plan_run(plan[k])) return 1;
                    const double took = seconds() - start;
                    if (took < least[k]) least[k] = took;
                }
            printf("%-26s n = %-4lld static %9.1f us, symbolic %9.1f us, ratio %.2f\n", cases[i].name, (long long)n, least[0] * 1e6, least[1] * 1e6,
                   least[1] / least[0]);
            for (int k = 0; k < 2; k++) {
                an_plan_destroy(plan[k]);
                an_graph_destroy(g[k]);
            }
        }
    an_ctx_destroy(ctx);
    return 0;
}
