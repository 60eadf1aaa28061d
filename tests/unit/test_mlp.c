/* test_mlp.c - a perceptron 784-128-10 on a batch of 64: what every device computes of it is as near to the interpreter as the published
 * reference's GPU is to its own: 1.2e-7 forward, 3e-8 in the gradients. webgpu where AN_WEBGPU is set. */
#include "an_test.h"

#include "ir/uop.h"
#include <anneal/device.h>
#include <anneal/grad.h>
#include <anneal/tensor.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 64, IN = 784, HIDDEN = 128, OUT = 10, NVALUES = 5 };

static const struct {
    const char *name;
    size_t n;
    double most; /* of differences from the interpreter */
} values[NVALUES] = {
    {"probabilities", BATCH * OUT, 1.2e-7},
    {"gradient of the first weights", HIDDEN *IN, 3e-8},
    {"gradient of the first bias", HIDDEN, 3e-8},
    {"gradient of the second weights", OUT *HIDDEN, 3e-8},
    {"gradient of the second bias", OUT, 3e-8},
};

static float *uniform(size_t n, uint64_t seed, double lo, double hi)
{
    float *x = malloc(n * sizeof *x);
    for (size_t i = 0; x && i < n; i++) x[i] = (float)(lo + (hi - lo) * (double)(an_mix64(an_mix64(seed, i), 1) >> 40) / 16777216.0);
    return x;
}

/* Fills y[v] for each of the values. Weights as nn makes them, pixels from 0 to 1. The order of sums differs from device to device, which
 * shows in logits, being sums of 128, as up to 3e-7. */
static void compute(an_test *t, const char *device, float *const *y)
{
    const double first = 1 / sqrt(IN), second = 1 / sqrt(HIDDEN);
    float *data[5] = {uniform(BATCH * IN, 1, 0, 1), uniform(HIDDEN * IN, 2, -first, first), uniform(HIDDEN, 3, -first, first),
                      uniform(OUT * HIDDEN, 4, -second, second), uniform(OUT, 5, -second, second)};
    int32_t labels[BATCH];
    an_graph *g = NULL;
    an_tensor *out[NVALUES] = {NULL};
    CHECK(t, data[0] && data[1] && data[2] && data[3] && data[4]);
    for (size_t i = 0; i < BATCH * IN; i++)
        if (data[0][i] < 0.5f) data[0][i] = 0; /* half of a picture is background */
    for (size_t i = 0; i < BATCH; i++) labels[i] = (int32_t)(i * 7 % OUT);
    CHECK_OK(t, an_graph_create(t->ctx, &g));
    CHECK_OK(t, an_graph_set_device(g, device));
    an_tensor *x = an_tensor_from_host(g, AN_F32, AN_DIMS(BATCH, IN), data[0]);
    an_tensor *const w[4] = {an_tensor_from_host(g, AN_F32, AN_DIMS(HIDDEN, IN), data[1]), an_tensor_from_host(g, AN_F32, AN_DIMS(HIDDEN), data[2]),
                             an_tensor_from_host(g, AN_F32, AN_DIMS(OUT, HIDDEN), data[3]), an_tensor_from_host(g, AN_F32, AN_DIMS(OUT), data[4])};
    an_tensor *logits = an_linear(an_relu(an_linear(x, w[0], w[1])), w[2], w[3]);
    an_tensor *loss = an_cross_entropy(logits, an_tensor_from_host(g, AN_I32, AN_DIMS(BATCH), labels), NULL);
    out[0] = an_softmax(logits, -1);
    CHECK_OK(t, an_backward(loss, w, 4, out + 1));
    CHECK_OK(t, an_realize(out, NVALUES));
    for (size_t v = 0; v < NVALUES; v++) CHECK_OK(t, an_tensor_read(out[v], y[v], values[v].n * sizeof(float)));
    an_graph_destroy(g);
    for (size_t i = 0; i < 5; i++) free(data[i]);
}

static void devices_are_near_the_interpreter(an_test *t)
{
    size_t n = 0;
    const an_backend *const *backends = an_test_backends(&n);
    float *want[NVALUES], *got[NVALUES];
    for (size_t v = 0; v < NVALUES; v++) {
        want[v] = malloc(values[v].n * sizeof(float));
        got[v] = malloc(values[v].n * sizeof(float));
        CHECK(t, want[v] && got[v]);
    }
    compute(t, "interp", want);
    for (size_t b = 0; b < n; b++) {
        compute(t, backends[b]->name, got);
        for (size_t v = 0; v < NVALUES; v++) {
            double most = 0;
            for (size_t i = 0; i < values[v].n; i++) most = fmax(most, fabs((double)got[v][i] - (double)want[v][i]));
            printf("%s: %s: at most %.3g from the interpreter, %.3g allowed\n", backends[b]->name, values[v].name, most, values[v].most);
            CHECK(t, most <= values[v].most);
        }
    }
    for (size_t v = 0; v < NVALUES; v++) {
        free(want[v]);
        free(got[v]);
    }
}

AN_TEST_MAIN(AN_CASE(devices_are_near_the_interpreter))
