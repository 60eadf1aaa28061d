/* bands.c - causal attention over 4 heads and what comes before its gradients, in bands of rows and against the twin that keeps all: the
 * least of the times of each, in turn, in one process.
 *     ninja bench_bands && tests/bench_bands 32 1024 2048 4096      the width of a head, then lengths */
#define _POSIX_C_SOURCE 200809L
#include <anneal/device.h>
#include <anneal/grad.h>
#include <anneal/nn.h>
#include <anneal/plan.h>
#include <anneal/settings.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { HEADS = 4, ROUNDS = 5 };

typedef struct side {
    an_graph *g;
    an_plan *plan;
    an_tensor *outs[4];
    double best;
} side;

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void check(an_ctx *ctx, an_status st)
{
    if (!st) return;
    fprintf(stderr, "bench_bands: %s\n", an_ctx_error(ctx));
    exit(1);
}

static void make(an_ctx *ctx, int64_t n, int64_t dim, bool is_forward, bool no_bands, side *s)
{
    check(ctx, an_ctx_set_settings(ctx, (an_settings){.no_bands = no_bands}));
    check(ctx, an_graph_create(ctx, &s->g));
    an_rng *rng = an_rng_from_seed(s->g, 1);
    an_tensor *in[3], *w = an_normal(rng, AN_F32, AN_DIMS(HEADS * dim, HEADS * dim), 0.0, 0.1);
    for (int i = 0; i < 3; i++) in[i] = an_normal(rng, AN_F32, AN_DIMS(1, HEADS, n, dim), 0.0, 1.0);
    check(ctx, an_realize((an_tensor *[]){in[0], in[1], in[2], w}, 4));
    an_tensor *y = an_attention(in[0], in[1], in[2], &(an_attention_desc){.causal = true});
    y = an_matmul(an_reshape(an_transpose(y, 1, 2), AN_DIMS(n, HEADS * dim)), w);
    s->outs[0] = an_mean(an_square(y), AN_ALL, false);
    if (!is_forward) check(ctx, an_backward(s->outs[0], in, 3, s->outs + 1));
    check(ctx, an_plan_create(s->g, s->outs, is_forward ? 1 : 4, NULL, &s->plan));
    s->best = 1e9;
}

static void time_one(an_ctx *ctx, side *s)
{
    float loss = 0;
    const double begun = seconds();
    check(ctx, an_plan_run(s->plan));
    check(ctx, an_tensor_read(s->outs[0], &loss, sizeof loss));
    const double took = seconds() - begun;
    if (took < s->best) s->best = took;
}

int main(int argc, char **argv)
{
    const int64_t dim = argc > 1 ? atoi(argv[1]) : 32;
    an_ctx *ctx = NULL;
    if (an_ctx_create(NULL, &ctx)) return 1;
    for (int a = 2; a < argc; a++)
        for (int is_forward = 1; is_forward >= 0; is_forward--) {
            side sides[2] = {0};
            for (int i = 0; i < 2; i++) make(ctx, atoi(argv[a]), dim, is_forward, i == 0, &sides[i]);
            for (int r = 0; r < 2 * ROUNDS; r++) time_one(ctx, &sides[r % 2]);
            printf("%s %s: all at once %.1f ms, %.1f MB, %zu launches; in bands %.1f ms, %.1f MB, %zu launches; %.2f\n", argv[a], is_forward ? "forward" : "a step",
                   1e3 * sides[0].best, 1e-6 * (double)an_plan_nbytes(sides[0].plan), an_plan_kernel_count(sides[0].plan), 1e3 * sides[1].best,
                   1e-6 * (double)an_plan_nbytes(sides[1].plan), an_plan_kernel_count(sides[1].plan), sides[1].best / sides[0].best);
            for (int i = 0; i < 2; i++) {
                an_plan_destroy(sides[i].plan);
                an_graph_destroy(sides[i].g);
            }
        }
    an_ctx_destroy(ctx);
    return 0;
}
