/* mlp.c - a network of two layers learns which of two interleaved half circles a point lies on.
 *
 * The whole step (forward, loss, backward, update) is one graph, compiled once as a plan; each run of the plan takes the
 * next batch from the input tensors and leaves new parameters on the device. */
#include <anneal/nn.h>

#include <math.h>
#include <stdio.h>

enum { BATCH = 64, STEPS = 400 };

/* Points of two half circles, the second one upside down and moved, with a little noise. */
static void draw_batch(unsigned *random, float x[BATCH][2], int32_t label[BATCH])
{
    for (int i = 0; i < BATCH; i++) {
        float u[3];
        for (int k = 0; k < 3; k++) {
            *random = *random * 1664525u + 1013904223u;
            u[k] = (float)(*random >> 8) / 16777216.0f;
        }
        const float angle = 3.14159265f * u[0], noise = 0.2f;
        label[i] = i % 2;
        x[i][0] = (i % 2 ? 1.0f - cosf(angle) : cosf(angle)) + noise * (u[1] - 0.5f);
        x[i][1] = (i % 2 ? 0.5f - sinf(angle) : sinf(angle)) + noise * (u[2] - 0.5f);
    }
}

static an_status train(an_graph *g, an_plan **plan)
{
    an_init init = {.graph = g, .seed = 0};
    an_module *net = an_nn_sequential(g, AN_MODULES(an_nn_linear(&init, 2, 32, NULL), an_nn_function(g, "relu", an_relu),
                                                    an_nn_linear(&init, 32, 2, NULL)));
    an_optim *opt = an_optim_adam(an_module_parameters(net), &(an_adam_desc){.lr = 0.02});

    an_tensor *x = an_tensor_from_host(g, AN_F32, AN_DIMS(BATCH, 2), NULL); /* (batch, 2) */
    an_tensor *y = an_tensor_from_host(g, AN_I32, AN_DIMS(BATCH), NULL);    /* (batch) */
    an_tensor *logits = an_module_forward(net, x);                          /* (batch, 2) */
    an_tensor *right = an_mean(an_cast(an_eq(an_argmax(logits, -1, false), y), AN_F32), AN_ALL, false);
    an_tensor *out[2] = {an_cross_entropy(logits, y, NULL), right};
    an_status st = an_optim_minimize(opt, out[0]);
    if (!st) st = an_optim_plan(opt, out, 2, NULL, plan);

    unsigned random = 1;
    float points[BATCH][2];
    int32_t labels[BATCH];
    double loss = 0.0, accuracy = 0.0;
    for (int step = 1; step <= STEPS && !st; step++) {
        draw_batch(&random, points, labels);
        st = an_tensor_write(x, points, sizeof points);
        if (!st) st = an_tensor_write(y, labels, sizeof labels);
        if (!st) st = an_plan_run(*plan);
        if (st || (step != 1 && step % 100)) continue;
        st = an_item_f64(out[0], &loss);
        if (!st) st = an_item_f64(out[1], &accuracy);
        if (!st) printf("step %3d  loss %.4f  accuracy %.0f %%\n", step, loss, 100.0 * accuracy);
    }
    if (!st && accuracy < 0.95) return AN_ERR_INTERNAL; /* it learns this every time */
    return st;
}

int main(void)
{
    an_ctx *ctx = NULL;
    an_graph *g = NULL;
    an_plan *plan = NULL;
    an_status st = an_ctx_create(NULL, &ctx);
    if (!st) st = an_graph_create(ctx, &g);
    if (!st) st = train(g, &plan);
    if (st) fprintf(stderr, "mlp: %s\n", ctx && *an_ctx_error(ctx) ? an_ctx_error(ctx) : an_status_text(st));
    an_plan_destroy(plan);
    an_graph_destroy(g);
    an_ctx_destroy(ctx);
    return st ? 1 : 0;
}
