/* test_conv.c - convolution and its gradients, and batch norm, against PyTorch's numbers (tests/golden/image/make.py), on every
 * device; and no buffer that holds windows. */
#include "an_test.h"

#include "backend/backends.h"
#include <anneal/device.h>
#include <anneal/nn.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ELEMENTS_MAX = 4096, LINE_MAX_NBYTES = 1 << 16 };

/* make.py's whole(): whole numbers from -3 to 3, in no pattern. */
static void whole(double *out, size_t n, uint64_t salt)
{
    for (uint64_t i = 0; i < n; i++) out[i] = (double)((i * i * 7 + i * 13 + salt * 29) % 101 % 7) - 3.0;
}

static an_tensor *tensor(an_graph *g, const int64_t *dims, uint32_t rank, const double *values)
{
    float narrow[ELEMENTS_MAX];
    size_t n = 1;
    for (uint32_t i = 0; i < rank; i++) n *= (size_t)dims[i];
    if (n > ELEMENTS_MAX) an_test_fail(__FILE__, __LINE__, "too many elements");
    for (size_t i = 0; i < n; i++) narrow[i] = (float)values[i];
    return an_tensor_from_host(g, AN_F32, dims, rank, narrow);
}

static an_tensor *whole_tensor(an_graph *g, const int64_t *dims, uint32_t rank, uint64_t salt)
{
    double v[ELEMENTS_MAX];
    whole(v, ELEMENTS_MAX, salt);
    return tensor(g, dims, rank, v);
}

/* --- convolution --------------------------------------------------------------------------------- */

/* Every number of the line, which begins with name, is the tensor's: the sums are exact, so equal. */
static void check_line(an_test *t, const char *device, int number, FILE *file, const char *name, an_tensor *x)
{
    char *line = malloc(LINE_MAX_NBYTES), *at = line + strlen(name);
    float got[ELEMENTS_MAX];
    const size_t nbytes = an_tensor_nbytes(x), n = nbytes / sizeof *got;
    CHECK(t, line && fgets(line, LINE_MAX_NBYTES, file) && strncmp(line, name, strlen(name)) == 0 && nbytes <= sizeof got);
    CHECK_OK(t, an_tensor_read(x, got, nbytes));
    for (size_t i = 0; i < n; i++) {
        char *end = NULL;
        const double want = strtod(at, &end);
        CHECK(t, end != at);
        at = end;
        if ((double)got[i] != want)
            an_test_fail(__FILE__, __LINE__, "%s, case %d, %s, element %zu: %g, not %g", device, number, name, i, (double)got[i], want);
    }
    CHECK_STR(t, at, "\n");
    free(line);
}

static void check_case(an_test *t, const char *device, int number, FILE *file, const int64_t *s)
{
    const int64_t n = s[0], c = s[1], h = s[2], w = s[3], f = s[4], kh = s[5], kw = s[6], groups = s[15];
    an_graph *g = NULL;
    CHECK_OK(t, an_graph_create(t->ctx, &g));
    CHECK_OK(t, an_graph_set_device(g, device));
    const an_conv_desc desc = {.stride = {s[7], s[8]}, .pad_before = {s[9], s[10]}, .pad_after = {s[11], s[12]},
                               .dilation = {s[13], s[14]}, .groups = groups};
    const uint64_t salt = (uint64_t)number;
    an_tensor *x = whole_tensor(g, AN_DIMS(n, c, h, w), salt);
    an_tensor *weight = whole_tensor(g, AN_DIMS(f, c / groups, kh, kw), salt + 100), *bias = whole_tensor(g, AN_DIMS(f), salt + 200);
    an_tensor *y = an_conv2d(x, weight, bias, &desc), *wrt[3] = {x, weight, bias}, *out[4] = {y};
    CHECK(t, y != NULL);
    an_tensor *u = whole_tensor(g, AN_DIMS(n, f, an_tensor_dim(y, 2), an_tensor_dim(y, 3)), salt + 300);
    CHECK_OK(t, an_backward_from(y, u, wrt, 3, out + 1));
    CHECK_OK(t, an_realize(out, 4));
    static const char *const names[4] = {"y ", "dx ", "dw ", "db "};
    for (int i = 0; i < 4; i++) check_line(t, device, number, file, names[i], out[i]);
    an_graph_destroy(g);
}

static void convolutions_and_their_gradients_are_pytorchs(an_test *t)
{
    size_t ndevices = 0;
    const an_backend *const *backends = an_test_backends(&ndevices);
    for (size_t d = 0; d < ndevices; d++) {
        FILE *file = fopen("tests/golden/image/conv.txt", "r");
        char head[256];
        int number = 0;
        CHECK(t, file != NULL && fgets(head, sizeof head, file) != NULL);
        while (fgets(head, sizeof head, file)) {
            int64_t s[16];
            char *at = head + strlen("case");
            for (int i = 0; i < 16; i++) s[i] = strtoll(at, &at, 10);
            check_case(t, backends[d]->name, number++, file, s);
        }
        CHECK_EQ(t, number, 14);
        fclose(file);
    }
}

/* Windows of x would be as many times as large as x as a kernel has elements. Forward and in both gradients, no kernel writes more than
 * the greatest of x, y and the weight: with padding, groups, strides, dilations, kernels that are not square. By x where stride and
 * dilation have a common divisor it may: whole rows of x are in no window then, and to look for some would be as much work as the rest. */
static void no_buffer_holds_windows_of_the_input(an_test *t)
{
    enum { N = 4, C = 16, F = 24, SIDE = 20 };
    static const struct {
        int64_t kernel[2], stride, pad, dilation, groups;
    } cases[] = {
        {{3, 3}, 1, 1, 1, 1}, {{3, 3}, 1, 0, 1, 1}, {{5, 3}, 1, 2, 1, 1}, {{3, 3}, 1, 2, 2, 1},
        {{3, 3}, 1, 1, 1, 8}, {{2, 4}, 1, 1, 3, 4}, {{3, 3}, 2, 1, 1, 1}, {{4, 4}, 2, 1, 1, 2}, {{3, 3}, 3, 1, 1, 1},
        {{3, 3}, 3, 1, 2, 2}, {{3, 3}, 2, 3, 3, 1}, {{5, 4}, 3, 2, 1, 8}, {{2, 2}, 2, 0, 1, 1}, {{1, 1}, 2, 0, 1, 4},
        {{7, 7}, 2, 3, 1, 1}, {{3, 3}, 2, 1, 2, 2},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        an_graph *g = an_test_graph(t);
        const int64_t s = cases[c].stride, p = cases[c].pad, d = cases[c].dilation, groups = cases[c].groups;
        const an_conv_desc desc = {.stride = {s, s}, .pad_before = {p, p}, .pad_after = {p, p}, .dilation = {d, d}, .groups = groups};
        an_tensor *x = an_tensor_from_host(g, AN_F32, AN_DIMS(N, C, SIDE, SIDE), NULL);
        an_tensor *weight = an_tensor_from_host(g, AN_F32, AN_DIMS(F, C / groups, cases[c].kernel[0], cases[c].kernel[1]), NULL);
        for (int i = 0; i < 3; i++) {
            an_tensor *y = an_conv2d(x, weight, NULL, &desc), *operands[2] = {x, weight}, *out = y;
            an_tensor *u = an_tensor_from_host(g, AN_F32, AN_DIMS(N, F, an_tensor_dim(y, 2), an_tensor_dim(y, 3)), NULL);
            an_plan *plan = NULL;
            const double most = fmax(fmax((double)an_tensor_nbytes(x), (double)an_tensor_nbytes(weight)), (double)an_tensor_nbytes(y));
            if (i == 1 && s == 2 && d == 2) continue;
            if (i) CHECK_OK(t, an_backward_from(y, u, &operands[i - 1], 1, &out));
            CHECK_OK(t, an_plan_create(g, &out, 1, NULL, &plan));
            for (size_t k = 0; k < an_plan_kernel_count(plan); k++) {
                const an_kernel_info info = an_plan_kernel(plan, k);
                if (!(info.nbytes_written <= most))
                    an_test_fail(__FILE__, __LINE__, "case %zu, %s: kernel %zu, %s, writes %g bytes; the greatest tensor has %g (%s)", c,
                                 i == 0 ? "forward" : i == 1 ? "by x" : "by the weight", k, info.name, info.nbytes_written, most, info.reason);
            }
            an_plan_destroy(plan);
        }
    }
}

/* --- batch norm ---------------------------------------------------------------------------------- */

enum { BN = 3, BC = 4, BH = 2, BW = 5, BNUMEL = BN * BC * BH * BW, BSTEPS = 50 };

/* A line "step name numbers", looked for from the start of the file. */
static void check_named(an_test *t, const char *path, int step, const char *name, an_tensor *x)
{
    char *line = malloc(LINE_MAX_NBYTES), head[64];
    double got[BNUMEL];
    const size_t nbytes = an_tensor_nbytes(x);
    FILE *file = fopen(path, "r");
    bool found = false;
    snprintf(head, sizeof head, "%d %s ", step, name);
    CHECK(t, line && file && nbytes <= sizeof got);
    CHECK_OK(t, an_tensor_read(x, got, nbytes));
    while (!found && fgets(line, LINE_MAX_NBYTES, file)) found = strncmp(line, head, strlen(head)) == 0;
    CHECK(t, found);
    char *at = line + strlen(head);
    for (size_t i = 0; i < nbytes / sizeof *got; i++) {
        const double want = strtod(at, &at);
        if (!(fabs(got[i] - want) <= 1e-12 * (1.0 + fabs(want))))
            an_test_fail(__FILE__, __LINE__, "step %d, %s, element %zu: %.17g, not %.17g", step, name, i, got[i], want);
    }
    fclose(file);
    free(line);
}

static void batch_norm_is_pytorchs_over_fifty_steps(an_test *t)
{
    static const char path[] = "tests/golden/image/batch_norm.txt";
    an_graph *g = an_test_graph(t);
    an_init init = {.graph = g, .dtype = AN_F64};
    double values[BNUMEL];
    an_module *bn = an_nn_batch_norm(&init, BC, 1e-3, 0.2);
    an_tensor *x = an_tensor_from_host(g, AN_F64, AN_DIMS(BN, BC, BH, BW), NULL);
    whole(values, BNUMEL, 7);
    an_tensor *u = an_tensor_from_host(g, AN_F64, AN_DIMS(BN, BC, BH, BW), values);
    an_module_train(bn, false);
    an_tensor *eval = an_module_forward(bn, x);
    an_module_train(bn, true);
    an_tensor *y = an_module_forward(bn, x), *loss = an_mul_scalar(an_sum(an_mul(y, u), AN_ALL, false), 0.01);
    an_plan *test = NULL, *plan = NULL;
    CHECK_OK(t, an_plan_create(g, &eval, 1, NULL, &test));
    an_optim *opt = an_optim_sgd(an_module_parameters(bn), &(an_sgd_desc){.lr = 0.05});
    CHECK_OK(t, an_optim_minimize(opt, loss));
    an_tensor *more[] = {y, an_module_tensor(bn, "running_mean"), an_module_tensor(bn, "running_var"),
                         an_module_tensor(bn, "num_batches_tracked")};
    CHECK_OK(t, an_optim_plan(opt, more, 4, NULL, &plan));
    for (int step = 0; step < BSTEPS; step++) {
        whole(values, BNUMEL, (uint64_t)step);
        for (int i = 0; i < BNUMEL; i++) values[i] = values[i] * (0.5 + 0.01 * step) + 0.1 * step;
        CHECK_OK(t, an_tensor_write(x, values, sizeof values));
        CHECK_OK(t, an_plan_run(plan));
        if (step != 0 && step != 9 && step != 49) continue;
        CHECK_OK(t, an_plan_run(test));
        check_named(t, path, step, "y", y);
        check_named(t, path, step, "weight", an_module_tensor(bn, "weight"));
        check_named(t, path, step, "bias", an_module_tensor(bn, "bias"));
        check_named(t, path, step, "running_mean", more[1]);
        check_named(t, path, step, "running_var", more[2]);
        check_named(t, path, step, "eval", eval);
    }
    int64_t steps = 0;
    CHECK_OK(t, an_item_i64(more[3], &steps));
    CHECK_EQ(t, steps, BSTEPS);
    an_plan_destroy(plan);
    an_plan_destroy(test);
}

AN_TEST_MAIN(AN_CASE(convolutions_and_their_gradients_are_pytorchs), AN_CASE(no_buffer_holds_windows_of_the_input),
             AN_CASE(batch_norm_is_pytorchs_over_fifty_steps))
