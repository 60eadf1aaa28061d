/* test_tensor_grad.c - gradients of what the tensor API builds, first and second, against differences. */
#include "autodiff/autodiff.h"
#include "check_grad.h"
#include "tensor/tensor.h"

#include <anneal/device.h>
#include <anneal/grad.h>
#include <math.h>
#include <stdlib.h>

/* The cases are functions of tensors, kept here while problem_check calls through nodes. */
typedef an_tensor *(*tensor_function)(an_tensor *const *x);
typedef struct tensor_case {
    const char *name;
    tensor_function f;
    uint32_t ninputs;
    shape in[INPUT_MAX];
    double low, high;
} tensor_case;

static tensor_function current;
static uint32_t current_ninputs;

static an_uop call(an_graph *g, const an_uop *x)
{
    an_tensor *tensors[INPUT_MAX] = {NULL};
    for (uint32_t i = 0; i < current_ninputs; i++) tensors[i] = an_tensor_wrap(g, x[i], NULL, 0);
    return an_tensor_uop(current(tensors));
}

static void run(an_test *t, const tensor_case *cases, size_t n, bool second)
{
    for (size_t c = 0; c < n; c++) {
        problem p = {.t = t, .g = problem_graph(t), .name = cases[c].name, .random = 1000 + c};
        for (uint32_t i = 0; i < cases[c].ninputs; i++) problem_input(&p, cases[c].in[i], cases[c].low, cases[c].high);
        current = cases[c].f;
        current_ninputs = cases[c].ninputs;
        problem_check(&p, call, second);
    }
}
#define RUN(t, cases, second) run(t, cases, sizeof(cases) / sizeof(cases)[0], second)

/* One input of shape (2, 3), values of low..high. */
#define ONE(fn, low, high) {#fn, fn, 1, {{2, {2, 3}}}, low, high}

/* --- elementwise --------------------------------------------------------------------------------- */

#define UNARY(fn) static an_tensor *t_##fn(an_tensor *const *x) { return an_##fn(x[0]); }
UNARY(exp) UNARY(expm1) UNARY(log) UNARY(log1p) UNARY(log10) UNARY(rsqrt) UNARY(reciprocal) UNARY(cos) UNARY(tan)
UNARY(sinh) UNARY(cosh) UNARY(tanh) UNARY(sigmoid) UNARY(log_sigmoid) UNARY(silu) UNARY(gelu) UNARY(gelu_tanh)
UNARY(softplus) UNARY(softsign) UNARY(mish) UNARY(selu) UNARY(hard_sigmoid) UNARY(hard_swish) UNARY(abs) UNARY(square)
UNARY(relu) UNARY(relu6)
static an_tensor *t_elu(an_tensor *const *x) { return an_elu(x[0], 1.5); }
static an_tensor *t_leaky_relu(an_tensor *const *x) { return an_leaky_relu(x[0], 0.1); }
static an_tensor *t_cube(an_tensor *const *x) { return an_pow_scalar(x[0], 3.0); }
static an_tensor *t_inverse_square(an_tensor *const *x) { return an_pow_scalar(x[0], -2.0); }
static an_tensor *t_pow_fraction(an_tensor *const *x) { return an_pow_scalar(x[0], 1.7); }
static an_tensor *t_rpow(an_tensor *const *x) { return an_rpow_scalar(x[0], 3.0); }
static an_tensor *t_rdiv(an_tensor *const *x) { return an_rdiv_scalar(x[0], 3.0); }
static an_tensor *t_clamp(an_tensor *const *x) { return an_clamp(x[0], -1.0, 1.25); }
static an_tensor *t_detached_part(an_tensor *const *x) { return an_mul(x[0], an_detach(an_full_like(x[0], 2.0))); }

static void functions_of_one_tensor(an_test *t)
{
    static const tensor_case cases[] = {
        ONE(t_exp, -2, 2), ONE(t_expm1, -2, 2), ONE(t_expm1, -0.1, 0.1), ONE(t_log, 0.3, 3), ONE(t_log1p, -0.5, 2),
        ONE(t_log1p, -0.1, 0.1), ONE(t_log10, 0.3, 3), ONE(t_rsqrt, 0.3, 3), ONE(t_reciprocal, 0.4, 2), ONE(t_cos, -3, 3),
        ONE(t_tan, -1, 1), ONE(t_sinh, -2, 2), ONE(t_cosh, -2, 2), ONE(t_tanh, -2, 2), ONE(t_sigmoid, -3, 3),
        ONE(t_log_sigmoid, -3, 3), ONE(t_silu, -3, 3), ONE(t_gelu, -2, 2), ONE(t_gelu_tanh, -2, 2), ONE(t_softplus, -3, 3),
        ONE(t_softsign, 0.1, 3), ONE(t_softsign, -3, -0.1), ONE(t_mish, -2, 2), ONE(t_selu, 0.1, 2), ONE(t_selu, -2, -0.1),
        ONE(t_hard_sigmoid, -2, 2), ONE(t_hard_swish, -2, 2), ONE(t_abs, 0.1, 2), ONE(t_abs, -2, -0.1),
        ONE(t_square, -2, 2), ONE(t_relu, 0.1, 2), ONE(t_relu, -2, -0.1), ONE(t_relu6, 5.0, 5.9), ONE(t_relu6, 6.1, 7.0),
        ONE(t_elu, 0.1, 2), ONE(t_elu, -2, -0.1), ONE(t_leaky_relu, -2, -0.1), ONE(t_leaky_relu, 0.1, 2),
        ONE(t_cube, -2, 2), ONE(t_inverse_square, 0.5, 2), ONE(t_pow_fraction, 0.3, 2), ONE(t_rpow, -2, 2),
        ONE(t_rdiv, 0.4, 2), ONE(t_clamp, -0.9, 1.2), ONE(t_clamp, 1.3, 2), ONE(t_detached_part, -1, 1),
    };
    RUN(t, cases, true);
}

static an_tensor *t_sub(an_tensor *const *x) { return an_sub(x[0], x[1]); }
static an_tensor *t_div(an_tensor *const *x) { return an_div(x[0], x[1]); }
static an_tensor *t_pow(an_tensor *const *x) { return an_pow(x[0], x[1]); }
static an_tensor *t_mod(an_tensor *const *x) { return an_mod(x[0], x[1]); }
static an_tensor *t_fmod(an_tensor *const *x) { return an_fmod(x[0], x[1]); }
static an_tensor *t_where(an_tensor *const *x) { return an_where(an_gt_scalar(x[2], 1.0), an_exp(x[0]), an_square(x[1])); }

static void operands_that_broadcast(an_test *t)
{
    static const tensor_case cases[] = {
        {"sub", t_sub, 2, {{2, {2, 3}}, {1, {3}}}, 0.5, 2},
        {"div", t_div, 2, {{2, {2, 1}}, {2, {1, 3}}}, 0.5, 2},
        {"div by a number", t_div, 2, {{3, {2, 1, 2}}, {0, {0}}}, 0.5, 2},
        {"a number div", t_div, 2, {{0, {0}}, {3, {2, 1, 2}}}, 0.5, 2},
        {"pow", t_pow, 2, {{2, {2, 3}}, {1, {3}}}, 0.5, 2},
        {"where", t_where, 3, {{2, {2, 1}}, {1, {3}}, {2, {2, 3}}}, 0.5, 1.5},
    };
    RUN(t, cases, true);
    static const tensor_case steps[] = {
        {"mod", t_mod, 2, {{2, {2, 3}}, {1, {3}}}, 0.7, 1.3},
        {"fmod", t_fmod, 2, {{2, {2, 3}}, {1, {3}}}, 0.7, 1.3},
    };
    RUN(t, steps, false);
}

/* --- reductions ---------------------------------------------------------------------------------- */

static an_tensor *t_mean(an_tensor *const *x) { return an_square(an_mean(x[0], AN_DIMS(-1), false)); }
static an_tensor *t_var(an_tensor *const *x) { return an_var(x[0], AN_DIMS(1), 1, false); }
static an_tensor *t_std(an_tensor *const *x) { return an_std(x[0], AN_ALL, 0, true); }
static an_tensor *t_logsumexp(an_tensor *const *x) { return an_logsumexp(x[0], AN_DIMS(0), false); }
static an_tensor *t_norm(an_tensor *const *x) { return an_norm(x[0], AN_DIMS(1), false); }
static an_tensor *t_prod(an_tensor *const *x) { return an_prod(x[0], AN_ALL, false); }
static an_tensor *t_max(an_tensor *const *x) { return an_square(an_max(x[0], AN_DIMS(1), true)); }
static an_tensor *t_min(an_tensor *const *x) { return an_square(an_min(x[0], AN_ALL, false)); }
static an_tensor *t_cumsum(an_tensor *const *x) { return an_square(an_cumsum(x[0], 1)); }
static an_tensor *t_softmax(an_tensor *const *x) { return an_softmax(x[0], 0); }
static an_tensor *t_log_softmax(an_tensor *const *x) { return an_log_softmax(x[0], -1); }
static an_tensor *t_layer_norm(an_tensor *const *x) { return an_layer_norm(x[0], 1, x[1], x[2], 1e-3); }
static an_tensor *t_rms_norm(an_tensor *const *x) { return an_rms_norm(x[0], 2, NULL, 1e-3); }

static void reductions(an_test *t)
{
    static const tensor_case cases[] = {
        ONE(t_mean, -2, 2), ONE(t_var, -2, 2), ONE(t_std, -2, 2), ONE(t_logsumexp, -2, 2), ONE(t_norm, 0.5, 2),
        ONE(t_prod, 0.5, 1.5), ONE(t_max, -2, 2), ONE(t_min, -2, 2), ONE(t_softmax, -2, 2), ONE(t_log_softmax, -2, 2),
        {"cumsum", t_cumsum, 1, {{2, {2, 70}}}, -1, 1}, ONE(t_rms_norm, -2, 2),
        {"layer norm", t_layer_norm, 3, {{2, {2, 4}}, {1, {4}}, {1, {4}}}, -2, 2},
    };
    RUN(t, cases, true);
}

/* --- movement ------------------------------------------------------------------------------------ */

static an_tensor *t_slice(an_tensor *const *x) { return an_square(an_slice(x[0], 1, -1, AN_NONE, -2)); }
static an_tensor *t_roll(an_tensor *const *x) { return an_mul(x[0], an_roll(x[0], 1, 1)); }
static an_tensor *t_repeat(an_tensor *const *x) { return an_square(an_repeat(x[0], AN_DIMS(2, 1, 2))); }
static an_tensor *t_interleave(an_tensor *const *x) { return an_square(an_repeat_interleave(x[0], 2, 1)); }
static an_tensor *t_cat(an_tensor *const *x) { return an_square(an_cat((an_tensor *const[]){x[0], x[1], x[0]}, 3, 1)); }
static an_tensor *t_stack(an_tensor *const *x) { return an_square(an_stack((an_tensor *const[]){x[0], x[1]}, 2, 1)); }
static an_tensor *t_tril(an_tensor *const *x) { return an_square(an_tril(x[0], 0)); }
static an_tensor *t_pad(an_tensor *const *x)
{
    return an_square(an_pad(x[0], (const int64_t[]){1, 0}, (const int64_t[]){0, 2}, 2, 3.0));
}
static an_tensor *t_diagonal(an_tensor *const *x) { return an_square(an_diagonal(an_slice(x[0], 1, 0, 2, 1))); }
static an_tensor *t_transposed(an_tensor *const *x) { return an_mul(an_flatten(an_transpose(x[0], 0, 1), 0, 1), an_flatten(x[0], 0, 1)); }

static void movement(an_test *t)
{
    static const tensor_case cases[] = {
        ONE(t_slice, -2, 2), ONE(t_roll, -2, 2), ONE(t_repeat, -2, 2), ONE(t_interleave, -2, 2), ONE(t_tril, -2, 2),
        ONE(t_pad, -2, 2), ONE(t_diagonal, -2, 2), ONE(t_transposed, -2, 2),
        {"cat", t_cat, 2, {{2, {2, 1}}, {2, {2, 3}}}, -2, 2},
        {"stack", t_stack, 2, {{2, {2, 3}}, {2, {2, 3}}}, -2, 2},
    };
    RUN(t, cases, true);
}

/* --- products, convolutions, pooling --------------------------------------------------------------- */

static an_tensor *t_matmul(an_tensor *const *x) { return an_matmul(x[0], x[1]); }
static an_tensor *t_linear(an_tensor *const *x) { return an_tanh(an_linear(x[0], x[1], x[2])); }
static an_tensor *t_conv1d(an_tensor *const *x)
{
    return an_conv1d(x[0], x[1], NULL, &(an_conv_desc){.stride = {2}, .pad_before = {1}});
}
static an_tensor *t_conv2d(an_tensor *const *x)
{
    const an_conv_desc d = {.stride = {1, 2}, .dilation = {2, 1}, .pad_before = {1, 0}, .pad_after = {0, 1}, .groups = 2};
    return an_conv2d(x[0], x[1], x[2], &d);
}
static an_tensor *t_max_pool(an_tensor *const *x)
{
    return an_square(an_max_pool2d(x[0], &(an_pool_desc){.kernel = {2, 2}, .stride = {1, 1}, .pad_before = {1, 0}}));
}
static an_tensor *t_avg_pool(an_tensor *const *x)
{
    return an_square(an_avg_pool2d(x[0], &(an_pool_desc){.kernel = {2, 3}, .pad_before = {1, 1}, .exclude_pad = true}));
}

static void products_and_windows(an_test *t)
{
    static const tensor_case cases[] = {
        {"matmul", t_matmul, 2, {{2, {2, 3}}, {2, {3, 4}}}, -1, 1},
        {"batched matmul", t_matmul, 2, {{3, {2, 2, 3}}, {2, {3, 2}}}, -1, 1},
        {"vector matmul", t_matmul, 2, {{1, {3}}, {2, {3, 2}}}, -1, 1},
        {"matmul over nothing", t_matmul, 2, {{2, {2, 0}}, {2, {0, 3}}}, -1, 1},
        {"linear", t_linear, 3, {{2, {2, 3}}, {2, {2, 3}}, {1, {2}}}, -1, 1},
        {"conv1d", t_conv1d, 2, {{3, {1, 2, 5}}, {3, {2, 2, 3}}}, -1, 1},
        {"conv2d", t_conv2d, 3, {{4, {1, 2, 4, 4}}, {4, {2, 1, 2, 2}}, {1, {2}}}, -1, 1},
        {"max pool", t_max_pool, 1, {{4, {1, 1, 3, 3}}}, -1, 1},
        {"average pool", t_avg_pool, 1, {{3, {1, 4, 5}}}, -1, 1},
    };
    RUN(t, cases, true);
}

/* --- by index, losses ------------------------------------------------------------------------------ */

static an_tensor *indices(an_tensor *x, const int64_t *dims, uint32_t rank, const int32_t *v)
{
    return an_tensor_from_host(an_tensor_graph(x), AN_I32, dims, rank, v);
}

static an_tensor *t_gather(an_tensor *const *x)
{
    return an_square(an_gather(x[0], 1, indices(x[0], AN_DIMS(2, 2), (const int32_t[]){2, 2, 0, 1})));
}
static an_tensor *t_embedding(an_tensor *const *x)
{
    return an_square(an_embedding(x[0], indices(x[0], AN_DIMS(2, 2), (const int32_t[]){1, 1, 0, 1})));
}
static an_tensor *t_scatter_add(an_tensor *const *x)
{
    return an_square(an_scatter_add(x[0], 1, indices(x[0], AN_DIMS(2, 2), (const int32_t[]){2, 2, 0, 1}), x[1]));
}
static an_tensor *t_cross_entropy(an_tensor *const *x)
{
    return an_cross_entropy(x[0], indices(x[0], AN_DIMS(2), (const int32_t[]){2, 0}), NULL);
}
static an_tensor *t_smoothed(an_tensor *const *x)
{
    const an_cross_entropy_desc d = {.label_smoothing = 0.1, .has_ignore_index = true, .ignore_index = 1};
    return an_cross_entropy(x[0], indices(x[0], AN_DIMS(2), (const int32_t[]){2, 1}), &d);
}
static an_tensor *t_mse(an_tensor *const *x) { return an_mse_loss(x[0], x[1], AN_REDUCE_MEAN); }
static an_tensor *t_l1(an_tensor *const *x) { return an_l1_loss(x[0], x[1], AN_REDUCE_SUM); }
static an_tensor *t_huber(an_tensor *const *x) { return an_huber_loss(x[0], x[1], 0.6, AN_REDUCE_NONE); }
static an_tensor *t_bce(an_tensor *const *x) { return an_bce_with_logits(x[0], an_sigmoid(x[1]), AN_REDUCE_MEAN); }

static void indices_and_losses(an_test *t)
{
    static const tensor_case cases[] = {
        ONE(t_gather, -2, 2), ONE(t_embedding, -2, 2), ONE(t_cross_entropy, -2, 2), ONE(t_smoothed, -2, 2),
        {"scatter_add", t_scatter_add, 2, {{2, {2, 3}}, {2, {2, 2}}}, -2, 2},
        {"mse", t_mse, 2, {{2, {2, 3}}, {1, {3}}}, -2, 2},
        {"l1", t_l1, 2, {{2, {2, 3}}, {2, {2, 3}}}, -2, 2},
        {"huber", t_huber, 2, {{2, {2, 3}}, {2, {2, 3}}}, -2, 2},
        {"bce with logits", t_bce, 2, {{2, {2, 3}}, {2, {2, 3}}}, -2, 2},
    };
    RUN(t, cases, true);
}

/* --- far out --------------------------------------------------------------------------------------- */

/* Activations promise gradients that are finite wherever the function is. */
static void activations_have_finite_gradients_far_out(an_test *t)
{
    static const tensor_function functions[] = {
        t_tanh, t_sigmoid, t_log_sigmoid, t_silu, t_gelu, t_gelu_tanh, t_softplus, t_softsign, t_mish, t_selu, t_hard_sigmoid,
        t_hard_swish, t_relu, t_relu6, t_elu, t_leaky_relu, t_log_softmax, t_softmax, t_logsumexp, t_bce,
    };
    static const double far[8] = {0.0, -0.0, 1e-300, 30.0, -30.0, 800.0, -800.0, 1e6};
    for (size_t f = 0; f < sizeof functions / sizeof *functions; f++) {
        problem p = {.t = t, .g = problem_graph(t), .name = "far out"};
        problem_input(&p, (shape){2, {1, 8}}, 0.0, 0.0);
        problem_input(&p, (shape){2, {1, 8}}, 0.0, 0.0);
        for (int i = 0; i < 8; i++) p.values[0][i] = far[i];
        problem_send(&p, 0);
        an_tensor *y = functions[f](p.tensors), *grad = NULL;
        CHECK_OK(t, an_backward_from(y, NULL, p.tensors, 1, &grad));
        size_t n = 0;
        double *v = problem_eval(&p, an_tensor_uop(grad), &n);
        for (size_t i = 0; i < n; i++)
            if (!isfinite(v[i])) an_test_fail(__FILE__, __LINE__, "function %zu at %g: gradient %g", f, far[i], v[i]);
        free(v);
    }
}

/* Its history is gone: zeros would be a silent lie. */
static void a_realized_loss_is_refused(an_test *t)
{
    an_graph *g = an_test_graph(t);
    CHECK_OK(t, an_graph_set_device(g, "interp"));
    const float three = 3.0f;
    an_tensor *x = an_tensor_from_host(g, AN_F32, AN_SCALAR, &three), *loss = an_mul(x, x), *grad = NULL;
    double value = 0;
    CHECK_OK(t, an_item_f64(loss, &value));
    CHECK_FAILS(t, an_backward(loss, &x, 1, &grad), AN_ERR_ARG, "differentiate first");
    CHECK_OK(t, an_backward(x, &x, 1, &grad)); /* a buffer by itself is well defined */
    CHECK_OK(t, an_item_f64(grad, &value));
    CHECK_NEAR(t, value, 1.0, 0.0);
}

static size_t count_ops(an_test *t, an_graph *g, an_uop root, an_op op)
{
    an_uop_vec order = {0};
    size_t n = 0;
    CHECK_OK(t, an_toposort(g, &root, 1, &order));
    for (size_t i = 0; i < order.len; i++) n += an_uop_op(g, order.data[i]) == op;
    an_vec_fini(t->ctx, &order);
    return n;
}

static an_tensor *normed(an_tensor *x)
{
    return an_layer_norm(x, 1, NULL, NULL, 1e-5);
}
static an_tensor *normed_gelu(an_tensor *x)
{
    return an_gelu_tanh(an_layer_norm(x, 1, NULL, NULL, 1e-5));
}
static an_tensor *attended(an_tensor *x)
{
    return an_matmul(an_softmax(an_matmul(normed(x), an_transpose(x, 0, 1)), -1), x);
}
static an_tensor *attended_from(an_tensor *x, int64_t first)
{
    an_graph *g = an_tensor_graph(x);
    an_tensor *keys = an_arange(g, AN_I32, 0, 8, 1), *queries = an_unsqueeze(an_arange(g, AN_I32, (double)first, (double)(first + 8), 1), -1);
    an_tensor *scores = an_matmul(normed(x), an_transpose(x, 0, 1));
    return an_matmul(an_softmax(an_where(an_ge(queries, keys), scores, an_full_like(scores, (double)-INFINITY)), -1), x);
}
static an_tensor *attended_causally(an_tensor *x)
{
    return an_gelu(attended_from(x, 0));
}
static an_tensor *attended_by_some(an_tensor *x) /* the first query sees no key */
{
    return attended_from(x, -1);
}
static an_tensor *root_mean_square(an_tensor *x)
{
    return an_silu(an_rms_norm(x, 1, NULL, 1e-6));
}
static an_tensor *log_of_square(an_tensor *x)
{
    return an_log(an_add_scalar(an_mul(x, x), 1.0));
}
static an_tensor *bare_root(an_tensor *x)
{
    return an_sqrt(an_mul(x, x));
}
static an_tensor *shifted_root(an_tensor *x)
{
    return an_sqrt(an_add_scalar(x, 1.0));
}
static an_tensor *plain_exponential(an_tensor *x)
{
    return an_mul(an_exp(x), x);
}
static an_tensor *masked_softmax(an_tensor *x)
{
    return an_softmax(an_where(an_lt_scalar(x, 0), x, an_full_like(x, (double)-INFINITY)), -1);
}

/* A zero cotangent is kept zero by a mask, which is built, forward and in reverse, where a derivative may be infinite and only there. */
static void masks_are_where_a_derivative_may_be_infinite(an_test *t)
{
    static const struct {
        const char *name;
        an_tensor *(*f)(an_tensor *x);
        bool is_masked;
    } cases[] = {
        {"layer norm", normed, false},          {"gelu of a layer norm", normed_gelu, false}, {"attention", attended, false},
        {"gelu of causal attention", attended_causally, false}, {"attention with a row that sees nothing", attended_by_some, true},
        {"silu of an rms norm", root_mean_square, false}, {"log(1 + x*x)", log_of_square, false},
        {"sqrt(x*x)", bare_root, true},         {"sqrt(1 + x)", shifted_root, true},          {"x*exp(x)", plain_exponential, true},
        {"softmax with -inf", masked_softmax, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        an_graph *g = an_test_graph(t);
        an_tensor *x = an_tensor_from_host(g, AN_F32, AN_DIMS(8, 8), NULL);
        const an_uop in = an_tensor_uop(x), y = an_tensor_uop(cases[i].f(x));
        const an_uop loss = an_reduce_axis(g, AN_OP_ADD, an_binary(g, AN_OP_MUL, y, y), 3);
        an_uop out[2] = {AN_UOP_NONE, AN_UOP_NONE};
        CHECK_OK(t, an_backward_uops(g, an_reshape_node(g, loss, NULL, 0), AN_UOP_NONE, &in, 1, &out[0]));
        CHECK_OK(t, an_jvp_uops(g, &(an_jvp_request){&y, 1, &in, &in, 1}, &out[1]));
        for (size_t k = 0; k < 2; k++)
            if ((count_ops(t, g, out[k], AN_OP_CMPNE) + count_ops(t, g, out[k], AN_OP_OR) > 0) != cases[i].is_masked)
                an_test_fail(__FILE__, __LINE__, "%s, %s: %s", cases[i].name, k ? "forward" : "reverse",
                             cases[i].is_masked ? "no mask, though a derivative may be infinite" : "a mask, though none can be");
    }
}

AN_TEST_MAIN(AN_CASE(masks_are_where_a_derivative_may_be_infinite), AN_CASE(a_realized_loss_is_refused),
             AN_CASE(functions_of_one_tensor),
             AN_CASE(operands_that_broadcast),
             AN_CASE(reductions),
             AN_CASE(movement),
             AN_CASE(products_and_windows),
             AN_CASE(indices_and_losses),
             AN_CASE(activations_have_finite_gradients_far_out))
