/* test_nn_layers.c - every layer against PyTorch's numbers (tests/golden/nn/layers.txt), forward and backward, and its gradients
 * against central differences; what an optimiser is told, against PyTorch's schedules and AdamW, and by what must follow. */
#include "an_test.h"
#include <anneal/device.h>
#include <anneal/nn.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WRT_MAX = 12, VALUES_MAX = 512, PARTS_MAX = 48, LINE_NBYTES = 16384 };

/* A line of the file: kind, name, shape, values. */
typedef struct part {
    char kind[12], name[32];
    uint32_t rank;
    int64_t dims[4];
    size_t n;
    double v[VALUES_MAX];
} part;
typedef struct golden {
    char name[40];
    part *parts;
    size_t n;
} golden;

static bool read_part(an_test *t, char *line, part *p)
{
    int at = 0, used = 0;
    CHECK_EQ(t, sscanf(line, "%11s %31s %u%n", p->kind, p->name, &p->rank, &at), 3);
    p->n = 1;
    for (uint32_t i = 0; i < p->rank; i++, at += used) {
        long long dim = 0;
        CHECK_EQ(t, sscanf(line + at, "%lld%n", &dim, &used), 1);
        p->dims[i] = dim;
        p->n *= (size_t)dim;
    }
    CHECK(t, p->n <= VALUES_MAX);
    char *text = strchr(line + at, ':') + 1;
    for (size_t i = 0; i < p->n; i++) p->v[i] = strtod(text, &text);
    return true;
}

/* The case of that name; parts are to be freed. */
static golden find_case(an_test *t, const char *name)
{
    static const char path[] = "tests/golden/nn/layers.txt";
    char *line = malloc(LINE_NBYTES), want[64];
    golden g = {.parts = calloc(PARTS_MAX, sizeof *g.parts)};
    FILE *f = fopen(path, "r");
    CHECK(t, f && line && g.parts);
    snprintf(want, sizeof want, "case %s\n", name);
    snprintf(g.name, sizeof g.name, "%s", name);
    bool found = false;
    while (fgets(line, LINE_NBYTES, f)) {
        if (found && strncmp(line, "end", 3) == 0) break;
        if (found && g.n < PARTS_MAX) read_part(t, line, &g.parts[g.n++]);
        found = found || strcmp(line, want) == 0;
    }
    fclose(f);
    free(line);
    if (!found) an_test_fail(__FILE__, __LINE__, "%s has no case '%s'", path, name);
    return g;
}

static const part *part_of(const golden *g, const char *kind, const char *name)
{
    for (size_t i = 0; i < g->n; i++)
        if (strcmp(g->parts[i].kind, kind) == 0 && (!name || strcmp(g->parts[i].name, name) == 0)) return &g->parts[i];
    return NULL;
}

static void check_values(an_test *t, const golden *g, const part *want, an_tensor *got, double tolerance)
{
    double v[VALUES_MAX];
    CHECK_OK(t, an_ctx_status(t->ctx));
    CHECK_EQ(t, an_tensor_numel(got), (long long)want->n);
    CHECK_OK(t, an_tensor_read(an_cast(got, AN_F64), v, want->n * sizeof *v));
    for (size_t i = 0; i < want->n; i++)
        if (!(fabs(v[i] - want->v[i]) <= tolerance * fmax(1.0, fabs(want->v[i]))))
            an_test_fail(__FILE__, __LINE__, "%s: %s %s, element %zu: %.12g, PyTorch has %.12g", g->name, want->kind, want->name, i, v[i], want->v[i]);
}

/* --- the layers ---------------------------------------------------------------------------------- */

static an_module *make(an_init *init, const char *name)
{
    an_graph *g = init->graph;
    const an_pool_desc pool = {.kernel = {2, 2}};
    if (strcmp(name, "linear") == 0) return an_nn_linear(init, 4, 5, NULL);
    if (strcmp(name, "embedding") == 0) return an_nn_embedding(init, 7, 4);
    if (strcmp(name, "layer_norm") == 0) return an_nn_layer_norm(init, AN_DIMS(6), NULL);
    if (strcmp(name, "rms_norm") == 0) return an_nn_rms_norm(init, AN_DIMS(6), 0);
    if (strcmp(name, "group_norm") == 0) return an_nn_group_norm(init, 3, 6, 0);
    if (strcmp(name, "batch_norm") == 0) return an_nn_batch_norm(init, 3, 0, 0);
    if (strcmp(name, "conv2d") == 0)
        return an_nn_conv2d(init, 4, 6, 3, 2, &(an_nn_conv_desc){.conv = {.stride = {2, 1}, .pad_before = {1}, .pad_after = {1}, .groups = 2}});
    if (strcmp(name, "max_pool") == 0) return an_nn_max_pool2d(g, &pool);
    if (strcmp(name, "avg_pool") == 0) return an_nn_avg_pool2d(g, &pool);
    if (strcmp(name, "gelu") == 0) return an_nn_function(g, "gelu", an_gelu);
    if (strcmp(name, "gelu_tanh") == 0) return an_nn_function(g, "gelu_tanh", an_gelu_tanh);
    if (strcmp(name, "silu") == 0) return an_nn_function(g, "silu", an_silu);
    if (strcmp(name, "swiglu") == 0) return an_nn_swiglu(init, 4, 6);
    if (strcmp(name, "attention") == 0) return an_nn_attention(init, 6, &(an_nn_attention_desc){.heads = 2});
    if (strcmp(name, "attention_causal") == 0) return an_nn_attention(init, 6, &(an_nn_attention_desc){.heads = 2, .causal = true});
    return an_nn_attention(init, 16, &(an_nn_attention_desc){.heads = 4, .groups = 2, .causal = true, .no_bias = true, .rotary_theta = 100,
                                                             .context = 8, .q = "wq", .k = "wk", .v = "wv", .out = "wo"});
}

static const char *const layers[] = {
    "linear", "embedding", "layer_norm", "rms_norm", "group_norm", "batch_norm", "conv2d", "max_pool", "avg_pool", "gelu", "gelu_tanh",
    "silu", "swiglu", "attention", "attention_causal", "attention_grouped_rotary",
};

/* A layer with the golden parameters, on the golden x: its output, and the loss whose gradients are looked at. */
typedef struct subject {
    an_module *m;
    an_tensor *x, *y, *loss, *wrt[WRT_MAX], *grads[WRT_MAX];
    const part *names[WRT_MAX]; /* of wrt */
    size_t n;
} subject;

static subject set_up(an_test *t, an_graph *g, const golden *c)
{
    an_init init = {.graph = g, .dtype = AN_F64};
    subject s = {.m = make(&init, c->name)};
    const part *x = part_of(c, "x", NULL), *w = part_of(c, "w", NULL);
    CHECK(t, s.m != NULL);
    if (strcmp(x->name, "int") == 0) {
        int32_t tokens[VALUES_MAX];
        for (size_t i = 0; i < x->n; i++) tokens[i] = (int32_t)x->v[i];
        s.x = an_tensor_from_host(g, AN_I32, x->dims, x->rank, tokens);
    } else {
        s.x = an_tensor_from_host(g, AN_F64, x->dims, x->rank, x->v);
        s.names[s.n] = part_of(c, "grad", "x");
        s.wrt[s.n++] = s.x;
    }
    for (size_t i = 0; i < c->n; i++) {
        if (strcmp(c->parts[i].kind, "param") != 0) continue;
        an_tensor *p = an_module_tensor(s.m, c->parts[i].name);
        if (!p) an_test_fail(__FILE__, __LINE__, "%s has no parameter '%s'", c->name, c->parts[i].name);
        CHECK_OK(t, an_tensor_write(p, c->parts[i].v, c->parts[i].n * sizeof(double)));
        s.names[s.n] = part_of(c, "grad", c->parts[i].name);
        s.wrt[s.n++] = p;
    }
    s.y = an_module_forward(s.m, s.x);
    s.loss = an_sum(an_mul(s.y, an_tensor_from_host(g, AN_F64, w->dims, w->rank, w->v)), AN_ALL, false);
    CHECK_OK(t, an_ctx_status(t->ctx));
    CHECK_OK(t, an_backward(s.loss, s.wrt, s.n, s.grads));
    return s;
}

/* Rotary tables are f32, so 1e-6; the others hold far more. */
static void layers_follow_pytorch_forward_and_backward(an_test *t)
{
    size_t ndevices = 0;
    const an_backend *const *backends = an_test_backends(&ndevices);
    for (size_t d = 0; d < ndevices; d++) {
        if (strcmp(backends[d]->name, "cpu") != 0 && strcmp(backends[d]->name, "interp") != 0) continue;
        for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
            an_graph *g = NULL;
            CHECK_OK(t, an_graph_create(t->ctx, &g));
            CHECK_OK(t, an_graph_set_device(g, backends[d]->name));
            golden c = find_case(t, layers[i]);
            const subject s = set_up(t, g, &c);
            const double tolerance = strstr(c.name, "rotary") ? 1e-6 : 1e-9;
            an_tensor *outs[16] = {s.y};
            size_t n = 1;
            for (size_t k = 0; k < s.n; k++) outs[n++] = s.grads[k];
            for (size_t k = 0; k < c.n; k++)
                if (strcmp(c.parts[k].kind, "buffer") == 0) outs[n++] = an_module_tensor(s.m, c.parts[k].name);
            CHECK_OK(t, an_realize(outs, n));
            check_values(t, &c, part_of(&c, "y", NULL), s.y, tolerance);
            for (size_t k = 0; k < s.n; k++) check_values(t, &c, s.names[k], s.grads[k], tolerance);
            for (size_t k = 0; k < c.n; k++)
                if (strcmp(c.parts[k].kind, "buffer") == 0)
                    check_values(t, &c, &c.parts[k], an_module_tensor(s.m, c.parts[k].name), tolerance);
            free(c.parts);
            an_graph_destroy(g);
        }
    }
}

/* (L(x + h) - L(x - h)) / 2h for every third element, by a plan run again. */
static void gradients_of_layers_are_differences(an_test *t)
{
    const double h = 1e-5;
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        an_graph *g = NULL;
        an_plan *plan = NULL;
        CHECK_OK(t, an_graph_create(t->ctx, &g));
        CHECK_OK(t, an_graph_set_device(g, "interp"));
        golden c = find_case(t, layers[i]);
        const subject s = set_up(t, g, &c);
        CHECK_OK(t, an_plan_create(g, &s.loss, 1, NULL, &plan));
        for (size_t k = 0; k < s.n; k++) {
            const part *p = strcmp(s.names[k]->name, "x") == 0 ? part_of(&c, "x", NULL) : part_of(&c, "param", s.names[k]->name);
            for (size_t j = 0; j < p->n; j += 3) {
                double v[VALUES_MAX], loss[2] = {0};
                for (int side = 0; side < 2; side++) {
                    memcpy(v, p->v, p->n * sizeof *v);
                    v[j] += side ? -h : h;
                    CHECK_OK(t, an_tensor_write(s.wrt[k], v, p->n * sizeof *v));
                    CHECK_OK(t, an_plan_run(plan));
                    CHECK_OK(t, an_item_f64(s.loss, &loss[side]));
                }
                CHECK_OK(t, an_tensor_write(s.wrt[k], p->v, p->n * sizeof *v));
                const double slope = (loss[0] - loss[1]) / (2 * h), want = s.names[k]->v[j];
                if (!(fabs(slope - want) <= 1e-5 * fmax(1.0, fabs(want))))
                    an_test_fail(__FILE__, __LINE__, "%s: d/d%s[%zu] is %.9g by differences, %.9g by PyTorch", c.name, s.names[k]->name, j, slope, want);
            }
        }
        an_plan_destroy(plan);
        free(c.parts);
        an_graph_destroy(g);
    }
}

/* --- batch norm outside training ----------------------------------------------------------------- */

static void batch_norm_outside_training_uses_what_it_gathered(an_test *t)
{
    an_graph *g = an_test_graph(t);
    CHECK_OK(t, an_graph_set_device(g, "interp"));
    an_init init = {.graph = g};
    an_module *m = an_nn_batch_norm(&init, 2, 0, 0.5);
    const float x[8] = {1, 3, 10, 10, 5, 7, 30, 30};
    an_module_train(m, false);
    an_tensor *in = an_tensor_from_host(g, AN_F32, AN_DIMS(2, 2, 2), x), *before = an_module_forward(m, in);
    float v[8];
    CHECK_OK(t, an_tensor_read(before, v, sizeof v)); /* mean 0, variance 1 at first */
    CHECK_NEAR(t, v[1], 3.0, 1e-4);
    an_module_train(m, true);
    an_tensor *outs[4] = {an_module_forward(m, in), an_module_tensor(m, "running_mean"), an_module_tensor(m, "running_var"),
                          an_module_tensor(m, "num_batches_tracked")};
    CHECK_OK(t, an_realize(outs, 4));
    double mean[2];
    CHECK_OK(t, an_tensor_read(an_cast(outs[1], AN_F64), mean, sizeof mean));
    CHECK_NEAR(t, mean[0], 2.0, 1e-6);
    CHECK_NEAR(t, mean[1], 10.0, 1e-6);
    an_module_train(m, false);
    CHECK_OK(t, an_tensor_read(an_module_forward(m, in), v, sizeof v));
    /* variance of 1 3 5 7 is 20/3 by n - 1; half of 1 and half of that */
    CHECK_NEAR(t, v[1], (3.0 - 2.0) / sqrt(0.5 + 10.0 / 3.0 + 1e-5), 1e-5);
}

/* Halves are normalised in f32, where their sums have room, and come back as halves. */
static void norms_of_halves_have_room_for_their_sums(an_test *t)
{
    enum { N = 64, C = 2, SIDE = 8, NUMEL = N * C * SIDE * SIDE };
    static float x[NUMEL], y[NUMEL];
    an_graph *g = an_test_graph(t);
    an_init init = {.graph = g};
    for (int i = 0; i < NUMEL; i++) x[i] = i % 3 ? 40 : -80;
    an_module *const norms[] = {an_nn_batch_norm(&init, C, 0, 0), an_nn_group_norm(&init, 1, C, 0)};
    for (int i = 0; i < 2; i++) {
        an_module_train(norms[i], true);
        an_tensor *out = an_module_forward(norms[i], an_cast(an_tensor_from_host(g, AN_F32, AN_DIMS(N, C, SIDE, SIDE), x), AN_F16));
        CHECK(t, out && an_tensor_dtype(out) == AN_F16);
        CHECK_OK(t, an_tensor_read(an_cast(out, AN_F32), y, sizeof y));
        for (int k = 0; k < NUMEL; k++) CHECK_NEAR(t, y[k], k % 3 ? 0.707 : -1.414, 0.02);
    }
}

/* --- optimisers ---------------------------------------------------------------------------------- */

static an_tensor *nothing(an_module *m, an_tensor *x)
{
    (void)m;
    return x;
}

/* A module with a parameter for each part named. */
static an_module *parameters(an_test *t, an_graph *g, const golden *c, const char *const *names, size_t n)
{
    an_module *m = an_module_create(g, "some", nothing, NULL);
    for (size_t i = 0; i < n; i++) {
        const part *p = part_of(c, "param", names[i]);
        CHECK(t, an_module_add_parameter(m, names[i], an_tensor_from_host(g, AN_F64, p->dims, p->rank, p->v)));
    }
    return m;
}

static void adamw_with_groups_and_clipping_follows_pytorch(an_test *t)
{
    static const char *const names[2] = {"a", "b"};
    an_graph *g = an_test_graph(t);
    CHECK_OK(t, an_graph_set_device(g, "interp"));
    golden c = find_case(t, "adamw_groups_clip");
    an_module *m = parameters(t, g, &c, names, 2);
    an_tensor *grads[2];
    an_plan *plan = NULL;
    an_optim *o = an_optim_adamw(an_module_parameters(m), &(an_adam_desc){.lr = 0.1, .beta2 = 0.99, .weight_decay = 0.1});
    CHECK_OK(t, an_optim_group(o, &(an_param_group){.has = an_parameter_is_vector}));
    CHECK_OK(t, an_optim_clip(o, 1.0));
    for (int k = 0; k < 2; k++) {
        const part *p = part_of(&c, "param", names[k]);
        grads[k] = an_tensor_from_host(g, AN_F64, p->dims, p->rank, NULL);
    }
    CHECK_OK(t, an_optim_step(o, grads));
    CHECK_FAILS(t, an_optim_clip(o, 2.0), AN_ERR_ARG, "built already");
    CHECK_OK(t, an_optim_plan(o, NULL, 0, NULL, &plan));
    size_t steps = 0;
    for (size_t i = 2; i + 3 < c.n; i += 4, steps++) { /* grad a, grad b, want a, want b */
        for (size_t k = 0; k < 2; k++) CHECK_OK(t, an_tensor_write(grads[k], c.parts[i + k].v, c.parts[i + k].n * sizeof(double)));
        CHECK_OK(t, an_plan_run(plan));
        for (size_t k = 0; k < 2; k++) check_values(t, &c, &c.parts[i + 2 + k], an_module_tensor(m, names[k]), 1e-6);
    }
    CHECK_EQ(t, steps, 4);
    an_plan_destroy(plan);
    free(c.parts);
}

/* A parameter p (1) with a gradient that is written before each run. */
typedef struct single {
    an_module *m;
    an_tensor *p, *grad;
} single;
static single one_parameter(an_graph *g)
{
    an_init init = {.graph = g};
    single s = {.m = an_module_create(g, "one", nothing, NULL)};
    s.p = an_module_add_parameter(s.m, "p", an_init_constant(&init, AN_DIMS(1), 0.0));
    s.grad = an_tensor_from_host(g, AN_F32, AN_DIMS(1), NULL);
    return s;
}

static void check_schedule(an_test *t, const char *name, const an_lr_schedule *how)
{
    char line[4096];
    part *want = calloc(1, sizeof *want);
    FILE *f = fopen("tests/golden/nn/layers.txt", "r");
    CHECK(t, f && want);
    while (strcmp(want->name, name) != 0 && fgets(line, sizeof line, f))
        if (strncmp(line, "schedule ", 9) == 0) read_part(t, line, want);
    fclose(f);
    CHECK_EQ(t, want->n, 20);
    an_graph *g = NULL;
    an_plan *plan = NULL;
    CHECK_OK(t, an_graph_create(t->ctx, &g));
    CHECK_OK(t, an_graph_set_device(g, "interp"));
    single s = one_parameter(g);
    an_optim *o = an_optim_sgd(an_module_parameters(s.m), &(an_sgd_desc){.lr = 0.5});
    CHECK_OK(t, an_optim_schedule(o, how));
    CHECK_OK(t, an_optim_step(o, &s.grad));
    an_tensor *rate = an_optim_rate(o);
    CHECK_OK(t, an_optim_plan(o, &rate, 1, NULL, &plan));
    CHECK_OK(t, an_optim_set_total(o, how->warmup, how->total));
    for (size_t i = 0; i < want->n; i++) {
        double v = 0;
        CHECK_OK(t, an_plan_run(plan));
        CHECK_OK(t, an_item_f64(rate, &v));
        CHECK_NEAR(t, v, want->v[i], 1e-6);
    }
    free(want);
    an_plan_destroy(plan);
    an_graph_destroy(g);
}

static void schedules_follow_pytorch_and_nanogpt(an_test *t)
{
    check_schedule(t, "one_cycle", &(an_lr_schedule){.kind = AN_LR_ONE_CYCLE, .total = 20, .lr_end = 0.5 / 25 / 1e4});
    check_schedule(t, "cosine", &(an_lr_schedule){.kind = AN_LR_COSINE, .warmup = 4, .total = 16, .lr_end = 0.05});
}

/* Writes the gradient, runs, and gives p. */
static double run_with(an_test *t, const single *s, an_plan *plan, float grad)
{
    double v = 0;
    CHECK_OK(t, an_tensor_write(s->grad, &grad, sizeof grad));
    CHECK_OK(t, an_plan_run(plan));
    CHECK_OK(t, an_item_f64(s->p, &v));
    return v;
}

static void accumulation_changes_parameters_in_every_nth_run_only(an_test *t)
{
    an_graph *g = an_test_graph(t);
    CHECK_OK(t, an_graph_set_device(g, "interp"));
    single s = one_parameter(g);
    an_plan *plan = NULL;
    an_optim *o = an_optim_sgd(an_module_parameters(s.m), &(an_sgd_desc){.lr = 1.0, .momentum = 0.5});
    CHECK_OK(t, an_optim_accumulate(o, 3));
    CHECK_OK(t, an_optim_minimize(o, an_sum(an_mul(s.p, s.grad), AN_ALL, false)));
    CHECK_OK(t, an_optim_plan(o, NULL, 0, NULL, &plan));
    CHECK(t, run_with(t, &s, plan, 3) == 0);
    CHECK(t, run_with(t, &s, plan, 6) == 0);
    CHECK_NEAR(t, run_with(t, &s, plan, 9), -6.0, 1e-6); /* the mean */
    CHECK_NEAR(t, run_with(t, &s, plan, 3), -6.0, 1e-6);
    CHECK_NEAR(t, run_with(t, &s, plan, 3), -6.0, 1e-6);
    CHECK_NEAR(t, run_with(t, &s, plan, 3), -12.0, 1e-6); /* momentum: 0.5 * 6 + 3 */
    an_plan_destroy(plan);
}

static void a_scaled_loss_skips_what_is_not_finite_and_grows_again(an_test *t)
{
    an_graph *g = an_test_graph(t);
    CHECK_OK(t, an_graph_set_device(g, "interp"));
    single s = one_parameter(g);
    an_plan *plan = NULL;
    an_optim *o = an_optim_sgd(an_module_parameters(s.m), &(an_sgd_desc){.lr = 1.0});
    CHECK_OK(t, an_optim_scale_loss(o, 8.0, 2));
    CHECK_OK(t, an_optim_minimize(o, an_sum(an_mul(s.p, s.grad), AN_ALL, false)));
    CHECK_OK(t, an_optim_plan(o, NULL, 0, NULL, &plan));
    const an_params state = an_optim_state(o);
    an_tensor *scale = NULL;
    for (size_t i = 0; i < state.n; i++)
        if (strcmp(state.items[i].name, "scale") == 0) scale = state.items[i].tensor;
    const struct {
        float grad;
        double p, scale;
    } steps[] = {{1, -1, 8}, {INFINITY, -1, 4}, {1, -2, 4}, {1, -3, 8}, {NAN, -3, 4}, {1, -4, 4}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        double v = 0;
        CHECK_NEAR(t, run_with(t, &s, plan, steps[i].grad), steps[i].p, 1e-6);
        CHECK_OK(t, an_item_f64(scale, &v));
        CHECK(t, v == steps[i].scale);
    }
    an_plan_destroy(plan);
}

static void averages_follow_parameters(an_test *t)
{
    an_graph *g = an_test_graph(t);
    CHECK_OK(t, an_graph_set_device(g, "interp"));
    single s = one_parameter(g);
    an_plan *plan = NULL;
    an_optim *o = an_optim_sgd(an_module_parameters(s.m), &(an_sgd_desc){.lr = 1.0});
    CHECK_OK(t, an_optim_average(o, 0.75));
    CHECK_OK(t, an_optim_step(o, &s.grad));
    CHECK_OK(t, an_optim_plan(o, NULL, 0, NULL, &plan));
    const double want[3] = {-4, -5, -6.75}; /* p: -4, -8, -12 */
    for (int i = 0; i < 3; i++) {
        double v = 0;
        run_with(t, &s, plan, 4);
        CHECK_OK(t, an_item_f64(an_optim_averaged(o, 0), &v));
        CHECK_NEAR(t, v, want[i], 1e-6);
    }
    an_plan_destroy(plan);
}

/* Products in bf16, parameters in f32: updates far below bf16's steps are not lost. */
static void masters_stay_f32_under_mixed_precision(an_test *t)
{
    an_graph *g = an_test_graph(t);
    CHECK_OK(t, an_graph_set_device(g, "interp"));
    an_init init = {.graph = g};
    an_module *m = an_nn_linear(&init, 2, 1, &(an_nn_linear_desc){.no_bias = true});
    const float one[2] = {1, 1};
    an_tensor *weight = an_module_tensor(m, "weight");
    CHECK_OK(t, an_tensor_write(weight, one, sizeof one));
    an_module_set_compute(m, AN_BF16);
    an_tensor *y = an_module_forward(m, an_ones(g, AN_F32, AN_DIMS(1, 2)));
    CHECK_EQ(t, an_tensor_dtype(y), AN_BF16);
    an_optim *o = an_optim_sgd(an_module_parameters(m), &(an_sgd_desc){.lr = 1e-4});
    CHECK_OK(t, an_optim_minimize(o, an_sum(an_cast(y, AN_F32), AN_ALL, false)));
    float v[2];
    CHECK_OK(t, an_tensor_read(weight, v, sizeof v));
    CHECK_NEAR(t, v[0], 1.0 - 1e-4, 1e-7);
}

/* --- mixtures, attention, caches ------------------------------------------------------------------ */

static void a_mixture_weighs_its_experts_and_its_loss_is_1_when_balanced(an_test *t)
{
    an_graph *g = an_test_graph(t);
    CHECK_OK(t, an_graph_set_device(g, "interp"));
    an_init init = {.graph = g};
    an_module *m = an_nn_mixture(&init, 4, AN_MODULES(an_nn_linear(&init, 4, 4, NULL), an_nn_linear(&init, 4, 4, NULL)));
    CHECK_STR(t, an_module_parameters(m).items[0].name, "gate.weight");
    CHECK(t, an_module_tensor(m, "experts.1.bias") != NULL);
    CHECK(t, an_nn_balance_loss(m) == NULL); /* no forward yet */
    const float even[8] = {0};
    CHECK_OK(t, an_tensor_write(an_module_tensor(m, "gate.weight"), even, sizeof even));
    an_tensor *x = an_normal(an_rng_from_seed(g, 1), AN_F32, AN_DIMS(3, 4), 0, 1);
    CHECK_OK(t, an_realize(&x, 1));
    an_tensor *y = an_module_forward(m, x);
    an_tensor *half = an_mul_scalar(an_add(an_module_forward(an_module_child(m, "experts.0"), x), an_module_forward(an_module_child(m, "experts.1"), x)), 0.5);
    double gap = 1, balance = 0;
    CHECK_OK(t, an_item_f64(an_max(an_abs(an_sub(y, half)), AN_ALL, false), &gap));
    CHECK_NEAR(t, gap, 0.0, 1e-6);
    CHECK_OK(t, an_item_f64(an_nn_balance_loss(m), &balance));
    CHECK_NEAR(t, balance, 1.0, 1e-6);
}

/* Token by token with a cache, and all at once: the same. */
static void a_cache_gives_what_the_whole_sequence_gives(an_test *t)
{
    enum { T = 6, DIM = 16 };
    an_graph *g = an_test_graph(t);
    CHECK_OK(t, an_graph_set_device(g, "interp"));
    an_init init = {.graph = g, .seed = 3};
    an_module *net = an_nn_sequential(
        g, AN_MODULES(an_nn_embedding(&init, 9, DIM), an_nn_positions(&init, T, DIM),
                      an_nn_attention(&init, DIM, &(an_nn_attention_desc){.heads = 4, .groups = 2, .causal = true, .rotary_theta = 100, .context = T})));
    const int32_t tokens[T] = {3, 1, 4, 1, 5, 8};
    float all[T * DIM], one[DIM];
    CHECK_OK(t, an_tensor_read(an_module_forward(net, an_tensor_from_host(g, AN_I32, AN_DIMS(1, T), tokens)), all, sizeof all));
    an_kv_cache *c = an_kv_cache_create(net, 1, T);
    an_tensor *token = an_tensor_from_host(g, AN_I32, AN_DIMS(1, 1), NULL), *y = an_kv_cache_forward(c, token);
    const an_params writes = an_kv_cache_writes(c);
    an_tensor *outs[3] = {y};
    an_plan *plan = NULL;
    CHECK_EQ(t, writes.n, 2);
    for (size_t i = 0; i < writes.n; i++) outs[1 + i] = writes.items[i].tensor;
    CHECK_OK(t, an_plan_create(g, outs, 3, NULL, &plan));
    for (int32_t i = 0; i < T; i++) {
        CHECK_OK(t, an_tensor_write(token, &tokens[i], sizeof tokens[i]));
        CHECK_OK(t, an_tensor_write(an_kv_cache_position(c), &i, sizeof i));
        CHECK_OK(t, an_plan_run(plan));
        CHECK_OK(t, an_tensor_read(y, one, sizeof one));
        for (int k = 0; k < DIM; k++) CHECK_NEAR(t, one[k], all[i * DIM + k], 2e-6);
    }
    an_plan_destroy(plan);
    CHECK(t, an_kv_cache_create(net, 1, T + 1) == NULL);
    CHECK_FAILS(t, an_ctx_status(t->ctx), AN_ERR_ARG, "positions");
}

/* What docs/ARCHITECTURE.md says. Fewer is fine: the page is then to be told. */
static void attention_takes_so_many_kernels(an_test *t)
{
    static const struct {
        an_nn_attention_desc desc;
        size_t forward, both;
    } cases[] = {
        {{.heads = 4, .causal = true, .no_bias = true, .packed = "c_attn"}, 5, 16},
        {{.heads = 4, .groups = 2, .causal = true, .no_bias = true, .rotary_theta = 10000, .context = 32}, 9, 23},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        for (int backward = 0; backward < 2; backward++) {
            an_graph *g = NULL;
            an_plan *plan = NULL;
            CHECK_OK(t, an_graph_create(t->ctx, &g));
            CHECK_OK(t, an_graph_set_device(g, "interp"));
            an_init init = {.graph = g};
            an_module *m = an_nn_attention(&init, 64, &cases[c].desc);
            an_tensor *x = an_tensor_from_host(g, AN_F32, AN_DIMS(2, 32, 64), NULL), *outs[8] = {an_module_forward(m, x)}, *wrt[8] = {x};
            const an_params p = an_module_parameters(m);
            size_t n = 1;
            for (size_t i = 0; i < p.n; i++) wrt[1 + i] = p.items[i].tensor;
            if (backward) {
                CHECK_OK(t, an_backward_from(outs[0], an_tensor_from_host(g, AN_F32, AN_DIMS(2, 32, 64), NULL), wrt, 1 + p.n, outs + 1));
                n += 1 + p.n;
            }
            CHECK_OK(t, an_plan_create(g, outs, n, NULL, &plan));
            const size_t got = an_plan_kernel_count(plan), most = backward ? cases[c].both : cases[c].forward;
            if (got == 0 || got > most) an_test_fail(__FILE__, __LINE__, "case %zu, backward %d: %zu kernels, and %zu are said", c, backward, got, most);
            an_plan_destroy(plan);
            an_graph_destroy(g);
        }
    }
}

static void mistakes_in_layers_are_sentences(an_test *t)
{
    an_graph *g = an_test_graph(t);
    CHECK_OK(t, an_graph_set_device(g, "interp"));
    an_init init = {.graph = g};
    CHECK(t, an_nn_attention(&init, 10, &(an_nn_attention_desc){.heads = 3}) == NULL);
    CHECK_FAILS(t, an_ctx_status(t->ctx), AN_ERR_ARG, "3 heads");
    CHECK(t, an_nn_group_norm(&init, 4, 6, 0) == NULL);
    CHECK_FAILS(t, an_ctx_status(t->ctx), AN_ERR_ARG, "4 groups");
    an_tensor *q = an_zeros(g, AN_F32, AN_DIMS(1, 4, 2, 2)), *k = an_zeros(g, AN_F32, AN_DIMS(1, 3, 2, 2));
    CHECK(t, an_attention(q, k, k, NULL) == NULL);
    CHECK_FAILS(t, an_ctx_status(t->ctx), AN_ERR_SHAPE, "3 groups");
    an_module *norm = an_nn_batch_norm(&init, 3, 0, 0);
    CHECK(t, an_module_forward(norm, an_zeros(g, AN_F32, AN_DIMS(2, 4))) == NULL);
    CHECK_FAILS(t, an_ctx_status(t->ctx), AN_ERR_SHAPE, "axis 1");
    an_module *p = an_nn_positions(&init, 3, 2);
    CHECK(t, an_module_forward(p, an_zeros(g, AN_F32, AN_DIMS(1, 4, 2))) == NULL);
    CHECK_FAILS(t, an_ctx_status(t->ctx), AN_ERR_SHAPE, "only 3");
    single s = one_parameter(g);
    an_optim *o = an_optim_sgd(an_module_parameters(s.m), NULL);
    CHECK_FAILS(t, an_optim_accumulate(o, 0), AN_ERR_ARG, "an_optim_accumulate");
    CHECK_FAILS(t, an_optim_average(o, 1.5), AN_ERR_ARG, "decay");
    CHECK_FAILS(t, an_optim_schedule(o, &(an_lr_schedule){.warmup = -1}), AN_ERR_ARG, "warmup");
}

AN_TEST_MAIN(AN_CASE(layers_follow_pytorch_forward_and_backward), AN_CASE(gradients_of_layers_are_differences),
             AN_CASE(batch_norm_outside_training_uses_what_it_gathered), AN_CASE(norms_of_halves_have_room_for_their_sums), AN_CASE(adamw_with_groups_and_clipping_follows_pytorch),
             AN_CASE(schedules_follow_pytorch_and_nanogpt), AN_CASE(accumulation_changes_parameters_in_every_nth_run_only),
             AN_CASE(a_scaled_loss_skips_what_is_not_finite_and_grows_again), AN_CASE(averages_follow_parameters),
             AN_CASE(masters_stay_f32_under_mixed_precision), AN_CASE(a_mixture_weighs_its_experts_and_its_loss_is_1_when_balanced),
             AN_CASE(a_cache_gives_what_the_whole_sequence_gives), AN_CASE(attention_takes_so_many_kernels), AN_CASE(mistakes_in_layers_are_sentences))
