/* test_nn.c - modules, initialisers and optimisers. The optimisers are held to what PyTorch's update rules give in f64
 * (tests/golden/nn/optim.txt), run as a plan: compiled once, replayed with new gradients. */
#include "an_test.h"
#include "eval_graph.h"
#include "ir/uop.h"
#include <anneal/device.h>
#include <anneal/nn.h>

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static an_graph *graph(an_test *t)
{
    an_graph *g = an_test_graph(t);
    CHECK_OK(t, an_graph_set_device(g, "interp"));
    return g;
}

/* --- modules ------------------------------------------------------------------------------------- */

static an_module *mlp(an_init *init)
{
    an_graph *g = init->graph;
    return an_nn_sequential(g, AN_MODULES(an_nn_linear(init, 4, 3, NULL), an_nn_function(g, "relu", an_relu),
                                          an_nn_linear(init, 3, 2, &(an_nn_linear_desc){.no_bias = true})));
}

static void parameters_are_named_as_in_pytorch_state_dicts(an_test *t)
{
    an_init init = {.graph = graph(t)};
    an_module *net = mlp(&init);
    const an_params p = an_module_parameters(net);
    CHECK_EQ(t, p.n, 3);
    CHECK_STR(t, p.items[0].name, "0.weight");
    CHECK_STR(t, p.items[1].name, "0.bias");
    CHECK_STR(t, p.items[2].name, "2.weight");
    CHECK_EQ(t, an_module_nparams(net), 4 * 3 + 3 + 3 * 2);
    CHECK(t, an_module_tensor(net, "0.bias") == p.items[1].tensor);
    CHECK(t, an_module_tensor(net, "0.weights") == NULL);
    CHECK(t, an_module_tensor(net, "2.bias") == NULL);
    CHECK(t, an_module_tensor(net, "7.weight") == NULL);
    CHECK_STR(t, an_module_kind(an_module_child(net, "1")), "relu");
    CHECK_EQ(t, an_tensor_dim(p.items[0].tensor, 0), 3);
    CHECK_EQ(t, an_tensor_dim(p.items[0].tensor, 1), 4);
}

typedef struct block {
    an_module *fc1, *fc2;
} block;

static an_tensor *block_forward(an_module *m, an_tensor *x)
{
    const block *b = an_module_data(m);
    return an_add(x, an_module_forward(b->fc2, an_relu(an_module_forward(b->fc1, x))));
}

static void modules_of_ones_own_nest(an_test *t)
{
    an_graph *g = graph(t);
    an_init init = {.graph = g};
    block b = {0};
    an_module *m = an_module_create(g, "block", block_forward, &b);
    b.fc1 = an_module_add_child(m, "fc1", an_nn_linear(&init, 3, 5, NULL));
    b.fc2 = an_module_add_child(m, "fc2", an_nn_linear(&init, 5, 3, NULL));
    an_module_add_buffer(m, "mean", an_init_constant(&init, AN_DIMS(3), 0.0));
    an_module *outer = an_nn_sequential(g, &m, 1);
    const an_params p = an_module_parameters(outer), s = an_module_state(outer);
    CHECK_EQ(t, p.n, 4);
    CHECK_STR(t, p.items[3].name, "0.fc2.bias");
    CHECK_EQ(t, s.n, 5);
    CHECK_STR(t, s.items[0].name, "0.mean");
    CHECK(t, an_module_tensor(outer, "0.fc1.weight") == p.items[0].tensor);
    an_tensor *y = an_module_forward(outer, an_zeros(g, AN_F32, AN_DIMS(2, 3)));
    CHECK_EQ(t, an_tensor_dim(y, 0), 2);
    CHECK_EQ(t, an_tensor_dim(y, 1), 3);
}

static void a_shared_tensor_is_one_parameter(an_test *t)
{
    an_graph *g = graph(t);
    an_init init = {.graph = g};
    an_module *embedding = an_nn_embedding(&init, 7, 4), *head = an_module_create(g, "head", block_forward, NULL);
    an_module_add_parameter(head, "weight", an_module_tensor(embedding, "weight"));
    an_module *net = an_nn_sequential(g, AN_MODULES(embedding, head));
    CHECK_EQ(t, an_module_parameters(net).n, 1);
    CHECK_EQ(t, an_module_state(net).n, 2);
    CHECK_EQ(t, an_module_nparams(net), 28);
}

static void mistakes_in_modules_are_sentences(an_test *t)
{
    an_graph *g = graph(t);
    an_init init = {.graph = g};
    an_module *m = an_module_create(g, "mine", block_forward, NULL), *child = an_nn_flatten(g);
    an_tensor *x = an_init_constant(&init, AN_DIMS(2), 1.0);
    CHECK(t, an_module_add_parameter(m, "w", x) == x);
    CHECK(t, an_module_add_parameter(m, "w", x) == NULL);
    CHECK_FAILS(t, an_ctx_status(t->ctx), AN_ERR_ARG, "'w' already");
    CHECK(t, an_module_add_parameter(m, "a.b", x) == NULL);
    CHECK_FAILS(t, an_ctx_status(t->ctx), AN_ERR_ARG, "'a.b'");
    CHECK(t, an_module_add_child(m, "c", child) == child);
    CHECK(t, an_module_add_child(m, "d", child) == NULL);
    CHECK_FAILS(t, an_ctx_status(t->ctx), AN_ERR_ARG, "a part of a module already");
    CHECK(t, an_module_add_child(m, "self", m) == NULL);
    CHECK_FAILS(t, an_ctx_status(t->ctx), AN_ERR_ARG, "part of itself");
    CHECK(t, an_nn_linear(&init, 0, 3, NULL) == NULL);
    CHECK_FAILS(t, an_ctx_status(t->ctx), AN_ERR_ARG, "an_nn_linear");
    CHECK(t, an_nn_sequential(g, AN_MODULES(an_nn_linear(NULL, 1, 1, NULL))) == NULL);
    CHECK(t, an_module_forward(NULL, x) == NULL);
    CHECK_EQ(t, an_module_parameters(NULL).n, 0);
    CHECK_OK(t, an_ctx_status(t->ctx));
}

static void dropout_is_off_outside_training(an_test *t)
{
    an_graph *g = graph(t);
    an_module *net = an_nn_sequential(g, AN_MODULES(an_nn_dropout(an_rng_from_seed(g, 1), g, 0.5)));
    an_tensor *x = an_ones(g, AN_F32, AN_DIMS(8));
    CHECK(t, an_module_forward(net, x) != x);
    an_module_train(net, false);
    CHECK(t, !an_module_is_training(an_module_child(net, "0")));
    CHECK(t, an_module_forward(net, x) == x);
    an_module_train(net, true);
    CHECK(t, an_module_forward(net, x) != x);
}

static void layers_give_the_shapes_of_pytorch(an_test *t)
{
    an_graph *g = graph(t);
    an_init init = {.graph = g};
    an_module *conv = an_nn_conv2d(&init, 4, 6, 3, 2, &(an_nn_conv_desc){.conv = {.groups = 2, .pad_before = {1}}});
    CHECK_EQ(t, an_tensor_dim(an_module_tensor(conv, "weight"), 1), 2);
    an_module *net = an_nn_sequential(
        g, AN_MODULES(conv, an_nn_max_pool2d(g, &(an_pool_desc){.kernel = {2, 2}}), an_nn_flatten(g),
                      an_nn_layer_norm(&init, AN_DIMS(6 * 3 * 3), NULL)));
    an_tensor *y = an_module_forward(net, an_zeros(g, AN_F32, AN_DIMS(5, 4, 7, 7)));
    CHECK_OK(t, an_ctx_status(t->ctx));
    CHECK_EQ(t, an_tensor_dim(y, 0), 5);
    CHECK_EQ(t, an_tensor_dim(y, 1), 6 * 3 * 3);
    CHECK(t, an_nn_conv2d(&init, 4, 6, 3, 3, &(an_nn_conv_desc){.conv = {.groups = 4}}) == NULL);
    CHECK_FAILS(t, an_ctx_status(t->ctx), AN_ERR_ARG, "4 groups");
}

/* --- initialisers -------------------------------------------------------------------------------- */

typedef struct moments {
    double min, max, mean, std;
} moments;

static moments moments_of(an_test *t, an_tensor *x)
{
    const size_t n = (size_t)an_tensor_numel(x);
    float *v = malloc(n * sizeof *v);
    moments m = {HUGE_VAL, -HUGE_VAL, 0.0, 0.0};
    CHECK_OK(t, an_tensor_read(x, v, n * sizeof *v));
    for (size_t i = 0; i < n; i++) {
        m.min = fmin(m.min, (double)v[i]);
        m.max = fmax(m.max, (double)v[i]);
        m.mean += (double)v[i] / (double)n;
    }
    for (size_t i = 0; i < n; i++) m.std += ((double)v[i] - m.mean) * ((double)v[i] - m.mean) / (double)n;
    m.std = sqrt(m.std);
    free(v);
    return m;
}

/* n draws of deviation std: their mean is within 5 std / sqrt(n), and so roughly is their deviation. */
static void check_moments(an_test *t, an_tensor *x, double bound, double std)
{
    const moments m = moments_of(t, x);
    const double slack = 5.0 / sqrt((double)an_tensor_numel(x));
    CHECK_NEAR(t, m.mean / std, 0.0, slack);
    CHECK_NEAR(t, m.std / std, 1.0, slack);
    CHECK(t, m.min >= -bound && m.max <= bound);
    if (isfinite(bound)) CHECK(t, m.max > 0.99 * bound && m.min < -0.99 * bound);
}

static void initialisers_follow_their_formulas(an_test *t)
{
    an_init init = {.graph = graph(t), .seed = 3};
    const double root3 = sqrt(3.0), in = 40 * 3, out = 60 * 3; /* of (60, 40, 3) */
    check_moments(t, an_init_uniform(&init, AN_DIMS(7200), -0.5, 0.5), 0.5, 0.5 / root3);
    check_moments(t, an_init_normal(&init, AN_DIMS(7200), 0.0, 2.0), HUGE_VAL, 2.0);
    check_moments(t, an_init_kaiming_uniform(&init, AN_DIMS(60, 40, 3), 0.0), sqrt(6 / in), sqrt(2 / in));
    check_moments(t, an_init_kaiming_uniform(&init, AN_DIMS(60, 40, 3), sqrt(5.0)), sqrt(1 / in), sqrt(1 / in) / root3);
    check_moments(t, an_init_kaiming_normal(&init, AN_DIMS(60, 40, 3), 0.0), HUGE_VAL, sqrt(2 / in));
    check_moments(t, an_init_xavier_uniform(&init, AN_DIMS(60, 40, 3), 2.0), 2 * sqrt(6 / (in + out)), 2 * sqrt(2 / (in + out)));
    check_moments(t, an_init_xavier_normal(&init, AN_DIMS(60, 40, 3), 1.0), HUGE_VAL, sqrt(2 / (in + out)));
    an_module *linear = an_nn_linear(&init, 100, 72, NULL);
    check_moments(t, an_module_tensor(linear, "weight"), 0.1, 0.1 / root3);
    const moments trunc = moments_of(t, an_init_trunc_normal(&init, AN_DIMS(7200), 1.0, 1.0, 0.0, 2.0));
    CHECK(t, trunc.min >= 0.0 && trunc.max <= 2.0);
    CHECK_NEAR(t, trunc.mean, 1.0, 0.05);
    CHECK_NEAR(t, trunc.std, 0.5396, 0.02); /* sqrt(1 - 2 phi(1) / (2 Phi(1) - 1)) */
    const moments ones = moments_of(t, an_init_constant(&init, AN_DIMS(3), 1.5));
    CHECK(t, ones.min == 1.5 && ones.max == 1.5);
}

static void a_seed_fixes_the_parameters_and_another_changes_them(an_test *t)
{
    an_graph *g = graph(t);
    float v[4][6];
    for (uint64_t i = 0; i < 3; i++) {
        an_init init = {.graph = g, .seed = i < 2 ? 5 : 6};
        CHECK_OK(t, an_tensor_read(an_init_uniform(&init, AN_DIMS(6), -1.0, 1.0), v[i], sizeof v[i]));
        if (i == 1) CHECK_OK(t, an_tensor_read(an_init_uniform(&init, AN_DIMS(6), -1.0, 1.0), v[3], sizeof v[3]));
    }
    CHECK(t, memcmp(v[0], v[1], sizeof v[0]) == 0);
    CHECK(t, memcmp(v[0], v[2], sizeof v[0]) != 0);
    CHECK(t, memcmp(v[0], v[3], sizeof v[0]) != 0); /* the next draw differs too */
}

static void bad_initialisers_are_refused(an_test *t)
{
    an_init init = {.graph = graph(t)};
    CHECK(t, an_init_uniform(&init, AN_DIMS(2), 1.0, -1.0) == NULL);
    CHECK_FAILS(t, an_ctx_status(t->ctx), AN_ERR_ARG, "an_init_uniform");
    CHECK(t, an_init_normal(&init, AN_DIMS(2), 0.0, -1.0) == NULL);
    CHECK_FAILS(t, an_ctx_status(t->ctx), AN_ERR_ARG, "an_init_normal");
    CHECK(t, an_init_trunc_normal(&init, AN_DIMS(2), 0.0, 1.0, 3.0, 5.0) == NULL);
    CHECK_FAILS(t, an_ctx_status(t->ctx), AN_ERR_ARG, "an_init_trunc_normal");
    CHECK(t, an_init_kaiming_normal(&init, AN_DIMS(2), 0.0) == NULL);
    CHECK_FAILS(t, an_ctx_status(t->ctx), AN_ERR_ARG, "rank 1");
    init.dtype = AN_I32;
    CHECK(t, an_init_constant(&init, AN_DIMS(2), 0.0) == NULL);
    CHECK_FAILS(t, an_ctx_status(t->ctx), AN_ERR_DTYPE, "i32");
}

/* --- optimisers ---------------------------------------------------------------------------------- */

enum { SIZE = 7, STEPS = 5 };

typedef struct golden {
    char kind[16];
    an_sgd_desc sgd;
    an_adam_desc adam;
    double start[SIZE], grad[STEPS][SIZE], want[STEPS][SIZE];
} golden;

static void read_row(an_test *t, FILE *file, const char *word, double *out)
{
    char got[16] = "";
    CHECK_EQ(t, fscanf(file, "%15s", got), 1);
    CHECK_STR(t, got, word);
    for (int i = 0; i < SIZE; i++) CHECK_EQ(t, fscanf(file, "%lf", &out[i]), 1);
}

static void read_option(an_test *t, golden *c, const char *text)
{
    char key[32] = "";
    double v = 0.0;
    CHECK_EQ(t, sscanf(text, "%31[a-z0-9_]=%lf", key, &v), 2);
    const struct {
        const char *key;
        double *sgd, *adam;
    } numbers[] = {
        {"lr", &c->sgd.lr, &c->adam.lr},
        {"momentum", &c->sgd.momentum, NULL},
        {"dampening", &c->sgd.dampening, NULL},
        {"weight_decay", &c->sgd.weight_decay, &c->adam.weight_decay},
        {"beta1", NULL, &c->adam.beta1},
        {"beta2", NULL, &c->adam.beta2},
        {"eps", NULL, &c->adam.eps},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (strcmp(key, numbers[i].key) != 0) continue;
        if (numbers[i].sgd) *numbers[i].sgd = v;
        if (numbers[i].adam) *numbers[i].adam = v;
        return;
    }
    if (strcmp(key, "nesterov") == 0)
        c->sgd.nesterov = v != 0.0;
    else if (strcmp(key, "amsgrad") == 0)
        c->adam.amsgrad = v != 0.0;
    else
        an_test_fail(__FILE__, __LINE__, "optim.txt: unknown option '%s'", key);
}

/* The next case, or false at the end. */
static bool read_case(an_test *t, FILE *file, golden *c)
{
    char line[512], *at = NULL;
    do {
        if (!fgets(line, sizeof line, file)) return false;
    } while (strncmp(line, "case ", 5) != 0);
    *c = (golden){0};
    at = strtok(line + 5, " \n");
    snprintf(c->kind, sizeof c->kind, "%s", at);
    while ((at = strtok(NULL, " \n")) != NULL) read_option(t, c, at);
    read_row(t, file, "start", c->start);
    for (int s = 0; s < STEPS; s++) {
        read_row(t, file, "grad", c->grad[s]);
        read_row(t, file, "want", c->want[s]);
    }
    return true;
}

static an_optim *make_optim(const golden *c, an_params params)
{
    if (strcmp(c->kind, "sgd") == 0) return an_optim_sgd(params, &c->sgd);
    if (strcmp(c->kind, "adam") == 0) return an_optim_adam(params, &c->adam);
    return an_optim_adamw(params, &c->adam);
}

/* Two parameters, (2, 3) and a number, whose gradients are inputs that are written before each step. */
typedef struct training {
    an_tensor *p[2], *grad[2];
    an_optim *optim;
} training;

static training begin_training(an_test *t, an_graph *g, an_dtype dtype, const golden *c)
{
    training r = {0};
    an_module *m = an_module_create(g, "two", block_forward, NULL);
    double start[SIZE];
    for (int i = 0; i < SIZE; i++) an_scalar_store(dtype, (an_scalar){.f = c->start[i]}, (char *)start + (size_t)i * an_dtype_nbytes(dtype));
    const char *second = (const char *)start + 6 * an_dtype_nbytes(dtype);
    r.p[0] = an_module_add_parameter(m, "a", an_tensor_from_host(g, dtype, AN_DIMS(2, 3), start));
    r.p[1] = an_module_add_parameter(m, "b", an_tensor_from_host(g, dtype, AN_SCALAR, second));
    r.grad[0] = an_tensor_from_host(g, dtype, AN_DIMS(2, 3), NULL);
    r.grad[1] = an_tensor_from_host(g, dtype, AN_SCALAR, NULL);
    r.optim = make_optim(c, an_module_parameters(m));
    CHECK(t, r.optim && r.grad[0] && r.grad[1]);
    return r;
}

static void run_golden_on(an_test *t, const char *device, an_dtype dtype, double tolerance)
{
    FILE *file = fopen("tests/golden/nn/optim.txt", "r");
    CHECK(t, file != NULL);
    golden c;
    int cases = 0;
    for (; read_case(t, file, &c); cases++) {
        an_graph *g = NULL;
        an_plan *plan = NULL;
        const size_t size = an_dtype_nbytes(dtype);
        CHECK_OK(t, an_graph_create(t->ctx, &g));
        CHECK_OK(t, an_graph_set_device(g, device));
        training r = begin_training(t, g, dtype, &c);
        CHECK_OK(t, an_optim_step(r.optim, r.grad));
        CHECK_OK(t, an_optim_plan(r.optim, NULL, 0, NULL, &plan));
        for (int s = 0; s < STEPS; s++) {
            double bytes[SIZE];
            char *at = (char *)bytes;
            for (int i = 0; i < SIZE; i++) an_scalar_store(dtype, (an_scalar){.f = c.grad[s][i]}, at + (size_t)i * size);
            CHECK_OK(t, an_tensor_write(r.grad[0], at, 6 * size));
            CHECK_OK(t, an_tensor_write(r.grad[1], at + 6 * size, size));
            CHECK_OK(t, an_plan_run(plan));
            CHECK_OK(t, an_tensor_read(r.p[0], at, 6 * size));
            CHECK_OK(t, an_tensor_read(r.p[1], at + 6 * size, size));
            for (int i = 0; i < SIZE; i++) {
                const double got = an_scalar_load(dtype, at + (size_t)i * size).f, want = c.want[s][i];
                if (!(fabs(got - want) <= tolerance * fmax(1.0, fabs(want))))
                    an_test_fail(__FILE__, __LINE__, "%s, case %d (%s), step %d, element %d: %.17g, PyTorch's rule gives %.17g",
                                 device, cases, c.kind, s + 1, i, got, want);
            }
        }
        an_plan_destroy(plan);
        an_graph_destroy(g);
    }
    fclose(file);
    CHECK_EQ(t, cases, 10);
}

static void run_golden(an_test *t, an_dtype dtype, double tolerance)
{
    size_t n = 0;
    const an_backend *const *backends = an_test_backends(&n);
    CHECK(t, n > 0);
    for (size_t i = 0; i < n; i++) run_golden_on(t, backends[i]->name, dtype, tolerance);
}

/* A step rounds some ten times: 5 steps stay within 64 ulp of the largest numbers on the way, about 10. */
static void optimisers_follow_pytorch_in_f64(an_test *t)
{
    run_golden(t, AN_F64, 64 * 10 * DBL_EPSILON);
}

static void optimisers_follow_pytorch_in_f32(an_test *t)
{
    run_golden(t, AN_F32, 64 * 10 * (double)FLT_EPSILON);
}

/* 1 - beta^t loses digits when it is computed as written: at the first step in f32 Adam moves each parameter by lr. */
static void adams_first_step_is_lr_in_f32(an_test *t)
{
    an_graph *g = graph(t);
    an_init init = {.graph = g};
    an_module *m = an_module_create(g, "one", block_forward, NULL);
    an_tensor *p = an_module_add_parameter(m, "p", an_init_constant(&init, AN_DIMS(3), 0.0));
    an_optim *o = an_optim_adam(an_module_parameters(m), &(an_adam_desc){.lr = 1.0});
    an_tensor *grad = an_full(g, AN_F32, AN_DIMS(3), 0.25);
    CHECK_OK(t, an_optim_step(o, &grad));
    float v[3];
    CHECK_OK(t, an_tensor_read(p, v, sizeof v));
    CHECK_NEAR(t, v[0], -1.0, 4 * (double)FLT_EPSILON);
}

/* --- a whole step -------------------------------------------------------------------------------- */

static void minimizing_a_quadratic_reaches_its_minimum_and_lr_changes_at_once(an_test *t)
{
    an_graph *g = graph(t);
    an_init init = {.graph = g};
    an_module *m = an_module_create(g, "one", block_forward, NULL);
    an_tensor *p = an_module_add_parameter(m, "p", an_init_constant(&init, AN_DIMS(3), 1.0));
    an_optim *o = an_optim_sgd(an_module_parameters(m), &(an_sgd_desc){.lr = 0.25});
    an_tensor *loss = an_sum(an_square(an_sub_scalar(p, 3.0)), AN_ALL, false); /* p - 3 halves in each step */
    CHECK_OK(t, an_optim_minimize(o, loss));
    an_plan *plan = NULL;
    CHECK_OK(t, an_optim_plan(o, &loss, 1, NULL, &plan));
    const double want[3] = {12.0, 3.0, 0.75};
    for (int i = 0; i < 3; i++) {
        double v = 0.0;
        CHECK_OK(t, an_plan_run(plan));
        CHECK_OK(t, an_item_f64(loss, &v)); /* of the parameters before the step */
        CHECK(t, v == want[i]);
    }
    CHECK_OK(t, an_optim_set_lr(o, 0.0));
    CHECK(t, an_optim_lr(o) == 0.0);
    CHECK_OK(t, an_plan_run(plan));
    float v[3];
    CHECK_OK(t, an_tensor_read(p, v, sizeof v));
    CHECK(t, v[0] == 2.75f); /* 3 - 2/8, and no further */
    an_plan_destroy(plan);
}

static void update_nodes_have_the_update_phase(an_test *t)
{
    an_graph *g = graph(t);
    an_init init = {.graph = g};
    an_module *m = an_module_create(g, "one", block_forward, NULL);
    an_tensor *p = an_module_add_parameter(m, "p", an_init_constant(&init, AN_DIMS(3), 1.0));
    an_optim *o = an_optim_adamw(an_module_parameters(m), &(an_adam_desc){.weight_decay = 0.1});
    CHECK_OK(t, an_optim_minimize(o, an_sum(an_square(p), AN_ALL, false)));
    CHECK_EQ(t, an_node_of(g, an_tensor_uop(p))->phase, AN_PHASE_UPDATE);
    CHECK_EQ(t, an_node_of(g, an_tensor_uop(an_neg(p)))->phase, AN_PHASE_FORWARD);
    const an_params s = an_optim_state(o);
    CHECK_EQ(t, s.n, 4);
    CHECK_STR(t, s.items[0].name, "exp_avg.p");
    CHECK_STR(t, s.items[1].name, "exp_avg_sq.p");
    CHECK_STR(t, s.items[2].name, "step");
    CHECK_STR(t, s.items[3].name, "lr");
    CHECK_EQ(t, an_optim_writes(o).n, 4);
    CHECK_STR(t, an_optim_writes(o).items[0].name, "p");
}

static void clipping_scales_to_the_norm_and_leaves_smaller_ones(an_test *t)
{
    an_graph *g = graph(t);
    const float a[2] = {3.0f, 0.0f}, b[1] = {4.0f};
    for (int large = 0; large < 2; large++) {
        an_tensor *grads[3] = {an_tensor_from_host(g, AN_F32, AN_DIMS(2), a), NULL,
                               an_tensor_from_host(g, AN_F32, AN_DIMS(1), b)};
        an_tensor *norm = an_clip_grad_norm(grads, 3, large ? 10.0 : 1.0);
        double v = 0.0;
        float x[2];
        CHECK_OK(t, an_item_f64(norm, &v));
        CHECK(t, v == 5.0);
        CHECK_OK(t, an_tensor_read(grads[0], x, sizeof x));
        CHECK_NEAR(t, x[0], large ? 3.0 : 3.0 / (5.0 + 1e-6), 2 * (double)FLT_EPSILON);
        CHECK_OK(t, an_item_f64(grads[2], &v));
        CHECK_NEAR(t, v, large ? 4.0 : 4.0 / (5.0 + 1e-6), 2 * (double)FLT_EPSILON);
        CHECK(t, grads[1] == NULL);
    }
    an_tensor *grad = an_zeros(g, AN_F32, AN_DIMS(2));
    CHECK(t, an_clip_grad_norm(&grad, 1, 0.0) == NULL);
    CHECK_FAILS(t, an_ctx_status(t->ctx), AN_ERR_ARG, "an_clip_grad_norm");
}

static void bad_optimisers_are_refused(an_test *t)
{
    an_graph *g = graph(t);
    an_init init = {.graph = g};
    an_module *m = an_module_create(g, "one", block_forward, NULL);
    const an_params none = an_module_parameters(m);
    CHECK(t, an_optim_sgd(none, NULL) == NULL);
    CHECK_FAILS(t, an_ctx_status(t->ctx), AN_ERR_ARG, "no parameters");
    an_module_add_parameter(m, "p", an_init_constant(&init, AN_DIMS(3), 1.0));
    const an_params params = an_module_parameters(m);
    CHECK(t, an_optim_sgd(params, &(an_sgd_desc){.lr = -1.0}) == NULL);
    CHECK_FAILS(t, an_ctx_status(t->ctx), AN_ERR_ARG, "lr is -1");
    CHECK(t, an_optim_sgd(params, &(an_sgd_desc){.nesterov = true}) == NULL);
    CHECK_FAILS(t, an_ctx_status(t->ctx), AN_ERR_ARG, "nesterov");
    CHECK(t, an_optim_adam(params, &(an_adam_desc){.beta1 = 1.0}) == NULL);
    CHECK_FAILS(t, an_ctx_status(t->ctx), AN_ERR_ARG, "beta1");
    an_optim *o = an_optim_sgd(params, NULL);
    an_tensor *wrong = an_zeros(g, AN_F32, AN_DIMS(4));
    CHECK_FAILS(t, an_optim_step(o, &wrong), AN_ERR_SHAPE, "parameter p");
    CHECK_FAILS(t, an_optim_set_lr(o, (double)NAN), AN_ERR_ARG, "lr");
    CHECK_FAILS(t, an_optim_minimize(o, wrong), AN_ERR_SHAPE, "(4,)");
    CHECK_EQ(t, an_optim_minimize(o, NULL), AN_ERR_ARG);
}

/* --- gradients as tensors ------------------------------------------------------------------------ */

static void backward_checks_its_arguments(an_test *t)
{
    an_graph *g = graph(t);
    an_tensor *x = an_ones(g, AN_F32, AN_DIMS(3)), *loss = an_sum(x, AN_ALL, false), *grad = NULL, *none = NULL;
    an_tensor *i = an_zeros(g, AN_I32, AN_DIMS(3)), *c = an_ones(g, AN_F32, AN_DIMS(2)), *d = an_ones(g, AN_F64, AN_DIMS(3));
    CHECK_FAILS(t, an_backward(x, &x, 1, &grad), AN_ERR_SHAPE, "(3,)");
    CHECK_FAILS(t, an_backward(loss, &i, 1, &grad), AN_ERR_DTYPE, "i32");
    CHECK_FAILS(t, an_backward(loss, &none, 1, &grad), AN_ERR_ARG, "NULL");
    CHECK_FAILS(t, an_backward_from(x, c, &x, 1, &grad), AN_ERR_SHAPE, "cotangent (2,)");
    CHECK_FAILS(t, an_backward_from(x, d, &x, 1, &grad), AN_ERR_DTYPE, "f64");
    CHECK_EQ(t, an_backward(NULL, &x, 1, &grad), AN_ERR_ARG);
    CHECK(t, grad == NULL);
    CHECK_OK(t, an_ctx_status(t->ctx));
}

static void relu_and_abs_have_gradient_zero_at_zero(an_test *t)
{
    an_graph *g = graph(t);
    const float values[4] = {-2.0f, 0.0f, -0.0f, 3.0f};
    an_tensor *x = an_tensor_from_host(g, AN_F32, AN_DIMS(4), values);
    an_tensor *ys[3] = {an_relu(x), an_abs(x), an_maximum_scalar(x, 0.0)}, *grad = NULL;
    const float want[3][4] = {{0, 0, 0, 1}, {-1, 0, 0, 1}, {0, 0.5f, 0.5f, 1}};
    for (int i = 0; i < 3; i++) {
        float v[4];
        CHECK_OK(t, an_backward(an_sum(ys[i], AN_ALL, false), &x, 1, &grad));
        CHECK_OK(t, an_test_eval(g, an_tensor_uop(grad), v, sizeof v));
        for (int k = 0; k < 4; k++) CHECK(t, v[k] == want[i][k]);
    }
}

/* --- out of memory ------------------------------------------------------------------------------- */

static an_status build_step(an_ctx *ctx, void *arg)
{
    (void)arg;
    an_graph *g = NULL;
    an_status st = an_graph_create(ctx, &g);
    if (st) return st;
    st = an_graph_set_device(g, "interp");
    if (!st) {
        an_init init = {.graph = g};
        an_module *net = mlp(&init);
        an_optim *o = an_optim_adam(an_module_parameters(net), &(an_adam_desc){.amsgrad = true});
        an_tensor *y = an_module_forward(net, an_ones(g, AN_F32, AN_DIMS(2, 4)));
        an_tensor *loss = an_cross_entropy(y, an_zeros(g, AN_I32, AN_DIMS(2)), NULL);
        const an_params p = an_module_parameters(net);
        an_tensor *tensors[3] = {NULL}, *grads[3] = {NULL};
        for (size_t i = 0; i < p.n && i < 3; i++) tensors[i] = p.items[i].tensor;
        if (!o || !loss || p.n != 3) {
            st = AN_ERR_NOMEM;
        } else {
            st = an_backward(loss, tensors, 3, grads);
            if (!st && !an_clip_grad_norm(grads, 3, 1.0)) st = AN_ERR_NOMEM;
            if (!st) st = an_optim_step(o, grads);
            if (!st && an_optim_writes(o).n != 3 + 3 * 3 + 1) st = AN_ERR_NOMEM;
        }
    }
    an_graph_destroy(g);
    return st;
}

static void every_failing_allocation_of_a_step_is_a_clean_error(an_test *t)
{
    an_test_every_alloc_failure(t, build_step, NULL);
}

AN_TEST_MAIN(AN_CASE(parameters_are_named_as_in_pytorch_state_dicts),
             AN_CASE(modules_of_ones_own_nest),
             AN_CASE(a_shared_tensor_is_one_parameter),
             AN_CASE(mistakes_in_modules_are_sentences),
             AN_CASE(dropout_is_off_outside_training),
             AN_CASE(layers_give_the_shapes_of_pytorch),
             AN_CASE(initialisers_follow_their_formulas),
             AN_CASE(a_seed_fixes_the_parameters_and_another_changes_them),
             AN_CASE(bad_initialisers_are_refused),
             AN_CASE(optimisers_follow_pytorch_in_f64),
             AN_CASE(optimisers_follow_pytorch_in_f32),
             AN_CASE(adams_first_step_is_lr_in_f32),
             AN_CASE(minimizing_a_quadratic_reaches_its_minimum_and_lr_changes_at_once),
             AN_CASE(update_nodes_have_the_update_phase),
             AN_CASE(clipping_scales_to_the_norm_and_leaves_smaller_ones),
             AN_CASE(bad_optimisers_are_refused),
             AN_CASE(backward_checks_its_arguments),
             AN_CASE(relu_and_abs_have_gradient_zero_at_zero),
             AN_CASE(every_failing_allocation_of_a_step_is_a_clean_error))
