/* test_grad.c - the value of every gradient rule: against differences, and where those do not exist (ties, masks) exactly. */
#include "autodiff/autodiff.h"
#include "check_grad.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

/* --- elementwise --------------------------------------------------------------------------------- */

static an_uop f_sqrt(an_graph *g, const an_uop *x) { return an_unary(g, AN_OP_SQRT, x[0]); }
static an_uop f_exp2(an_graph *g, const an_uop *x) { return an_unary(g, AN_OP_EXP2, x[0]); }
static an_uop f_log2(an_graph *g, const an_uop *x) { return an_unary(g, AN_OP_LOG2, x[0]); }
static an_uop f_sin(an_graph *g, const an_uop *x) { return an_unary(g, AN_OP_SIN, x[0]); }
static an_uop f_erf(an_graph *g, const an_uop *x) { return an_unary(g, AN_OP_ERF, x[0]); }
static an_uop f_contiguous(an_graph *g, const an_uop *x) { return an_unary(g, AN_OP_CONTIGUOUS, f_sin(g, x)); }
static an_uop f_leaf(an_graph *g, const an_uop *x) { return an_leaf(g, f_sin(g, x)); }
static an_uop f_add(an_graph *g, const an_uop *x) { return an_binary(g, AN_OP_ADD, x[0], x[1]); }
static an_uop f_mul(an_graph *g, const an_uop *x) { return an_binary(g, AN_OP_MUL, x[0], x[1]); }
static an_uop f_square(an_graph *g, const an_uop *x) { return an_binary(g, AN_OP_MUL, x[0], x[0]); }
static an_uop f_div(an_graph *g, const an_uop *x) { return an_binary(g, AN_OP_DIV, x[0], x[1]); }
static an_uop f_max(an_graph *g, const an_uop *x) { return an_binary(g, AN_OP_MAX, x[0], f_sin(g, x + 1)); }
static an_uop f_min(an_graph *g, const an_uop *x) { return an_binary(g, AN_OP_MIN, x[0], f_sin(g, x + 1)); }
static an_uop f_where(an_graph *g, const an_uop *x)
{
    return an_select(g, an_binary(g, AN_OP_CMPLT, x[0], x[1]), f_sin(g, x), f_exp2(g, x + 1));
}
static an_uop f_mulacc(an_graph *g, const an_uop *x) { return an_uop_new(g, AN_OP_MULACC, AN_F64, x, 3, 0); }
static an_uop f_assign(an_graph *g, const an_uop *x) { return an_binary(g, AN_OP_ASSIGN, x[0], f_sin(g, x + 1)); }
/* Sources that are used many times, and powers of one another. */
static an_uop f_shared(an_graph *g, const an_uop *x)
{
    const an_uop a = f_sin(g, x), b = an_binary(g, AN_OP_MUL, a, x[1]);
    const an_uop c = an_binary(g, AN_OP_DIV, b, an_binary(g, AN_OP_ADD, a, an_const_float(g, AN_F64, 3.0)));
    return an_binary(g, AN_OP_ADD, an_binary(g, AN_OP_MUL, c, b), an_binary(g, AN_OP_MUL, a, an_unary(g, AN_OP_EXP2, c)));
}

typedef struct elementwise_case {
    const char *name;
    function f;
    uint32_t ninputs;
    double low, high;
} elementwise_case;

static const elementwise_case elementwise_cases[] = {
    {"sqrt", f_sqrt, 1, 0.3, 3.0},       {"exp2", f_exp2, 1, -2.0, 2.0},     {"log2", f_log2, 1, 0.3, 3.0},
    {"sin", f_sin, 1, -3.0, 3.0},        {"erf", f_erf, 1, -2.0, 2.0},       {"contiguous", f_contiguous, 1, -2.0, 2.0},
    {"leaf", f_leaf, 1, -2.0, 2.0},      {"add", f_add, 2, -2.0, 2.0},       {"mul", f_mul, 2, -2.0, 2.0},
    {"square", f_square, 1, -2.0, 2.0},  {"div", f_div, 2, 0.4, 2.0},        {"max", f_max, 2, -2.0, 2.0},
    {"min", f_min, 2, -2.0, 2.0},        {"where", f_where, 2, -2.0, 2.0},   {"mulacc", f_mulacc, 3, -2.0, 2.0},
    {"assign", f_assign, 2, -2.0, 2.0},  {"shared", f_shared, 2, -1.0, 1.0},
};

static const shape shapes[] = {{0, {0}}, {1, {1}}, {1, {7}}, {2, {2, 3}}, {3, {3, 1, 2}}, {3, {2, 0, 3}}, {4, {1, 2, 1, 3}}};

/* Every shape; and with more than one input, each in turn of rank 0 beside shaped ones. */
static void elementwise_ops_match_differences_in_every_shape(an_test *t)
{
    const size_t ncases = sizeof elementwise_cases / sizeof *elementwise_cases, nshapes = sizeof shapes / sizeof *shapes;
    for (size_t c = 0; c < ncases; c++) {
        const elementwise_case *e = &elementwise_cases[c];
        for (size_t s = 0; s < nshapes; s++) {
            const uint32_t last = e->ninputs > 1 && e->f != f_assign ? e->ninputs : 0;
            for (uint32_t scalar = 0; scalar <= last; scalar++) { /* 0: none of rank 0 */
                problem p = {.t = t, .g = problem_graph(t), .name = e->name, .random = 17 * c + s};
                for (uint32_t i = 0; i < e->ninputs; i++)
                    problem_input(&p, scalar == i + 1 ? shapes[0] : shapes[s], e->low, e->high);
                problem_check(&p, e->f, e->f != f_assign);
            }
        }
    }
}

/* --- movement ------------------------------------------------------------------------------------ */

static an_uop index_list(an_graph *g, an_uop *out, const int64_t *v, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) out[i] = an_index(g, v[i]);
    return out[0];
}

static an_uop f_reshape(an_graph *g, const an_uop *x)
{
    an_uop dims[3];
    index_list(g, dims, (const int64_t[]){3, 1, 4}, 3);
    return an_reshape_node(g, f_sin(g, x), dims, 3);
}

static an_uop f_reshape_scalar(an_graph *g, const an_uop *x)
{
    an_uop dims[2];
    index_list(g, dims, (const int64_t[]){1, 1}, 2);
    return an_reshape_node(g, f_sin(g, x), dims, 2);
}

static an_uop f_expand(an_graph *g, const an_uop *x)
{
    an_uop dims[3];
    index_list(g, dims, (const int64_t[]){3, 2, 4}, 3);
    return an_expand_node(g, f_sin(g, x), dims, 3);
}

static an_uop f_expand_to_nothing(an_graph *g, const an_uop *x)
{
    an_uop dims[3];
    index_list(g, dims, (const int64_t[]){3, 0, 1}, 3);
    return an_expand_node(g, f_sin(g, x), dims, 3);
}

static an_uop f_permute(an_graph *g, const an_uop *x)
{
    return an_permute_node(g, f_sin(g, x), (const uint32_t[]){1, 2, 0}, 3);
}

static an_uop f_pad(an_graph *g, const an_uop *x)
{
    an_uop before[2], after[2];
    index_list(g, before, (const int64_t[]){1, 0}, 2);
    index_list(g, after, (const int64_t[]){2, 3}, 2);
    return an_unary(g, AN_OP_EXP2, an_pad_node(g, f_sin(g, x), before, after));
}

static an_uop f_shrink(an_graph *g, const an_uop *x)
{
    an_uop begin[2], end[2];
    index_list(g, begin, (const int64_t[]){1, 0}, 2);
    index_list(g, end, (const int64_t[]){3, 2}, 2);
    return an_shrink_node(g, f_sin(g, x), begin, end);
}

static an_uop f_flip(an_graph *g, const an_uop *x)
{
    return an_binary(g, AN_OP_MUL, an_flip_node(g, f_sin(g, x), 5), x[0]);
}

typedef struct shaped_case {
    const char *name;
    function f;
    shape in;
    bool second;
} shaped_case;

static void run_shaped(an_test *t, const shaped_case *cases, size_t n)
{
    for (size_t c = 0; c < n; c++) {
        problem p = {.t = t, .g = problem_graph(t), .name = cases[c].name, .random = 100 + c};
        problem_input(&p, cases[c].in, -1.5, 1.5);
        problem_check(&p, cases[c].f, cases[c].second);
    }
}

static void movement_matches_differences(an_test *t)
{
    static const shaped_case cases[] = {
        {"reshape", f_reshape, {2, {2, 6}}, true},
        {"reshape of a scalar", f_reshape_scalar, {0, {0}}, true},
        {"expand", f_expand, {3, {3, 1, 1}}, true},
        {"expand to nothing", f_expand_to_nothing, {3, {3, 1, 1}}, true},
        {"permute", f_permute, {3, {2, 3, 4}}, true},
        {"pad", f_pad, {2, {2, 3}}, true},
        {"pad of nothing", f_pad, {2, {0, 3}}, true},
        {"shrink", f_shrink, {2, {4, 3}}, true},
        {"flip", f_flip, {3, {2, 3, 2}}, true},
    };
    run_shaped(t, cases, sizeof cases / sizeof *cases);
}

/* --- reductions ---------------------------------------------------------------------------------- */

static an_uop squared_reduce(an_graph *g, an_op op, an_uop x, uint32_t mask)
{
    const an_uop r = an_reduce_axis(g, op, an_unary(g, AN_OP_SIN, x), mask);
    return an_binary(g, AN_OP_MUL, r, r);
}

static an_uop f_sum_first(an_graph *g, const an_uop *x) { return squared_reduce(g, AN_OP_ADD, x[0], 1); }
static an_uop f_sum_last(an_graph *g, const an_uop *x) { return squared_reduce(g, AN_OP_ADD, x[0], 4); }
static an_uop f_sum_two(an_graph *g, const an_uop *x) { return squared_reduce(g, AN_OP_ADD, x[0], 5); }
static an_uop f_max_two(an_graph *g, const an_uop *x) { return squared_reduce(g, AN_OP_MAX, x[0], 5); }
static an_uop f_max_one(an_graph *g, const an_uop *x) { return squared_reduce(g, AN_OP_MAX, x[0], 2); }
static an_uop f_min_two(an_graph *g, const an_uop *x) { return squared_reduce(g, AN_OP_MIN, x[0], 6); }
static an_uop f_prod_first(an_graph *g, const an_uop *x) { return an_reduce_axis(g, AN_OP_MUL, x[0], 1); }
static an_uop f_prod_two(an_graph *g, const an_uop *x) { return an_reduce_axis(g, AN_OP_MUL, x[0], 5); }
static an_uop f_prod_middle(an_graph *g, const an_uop *x) { return squared_reduce(g, AN_OP_MUL, x[0], 2); }

static void reductions_match_differences(an_test *t)
{
    static const shaped_case cases[] = {
        {"sum of the first axis", f_sum_first, {3, {2, 3, 2}}, true},
        {"sum of the last axis", f_sum_last, {3, {2, 3, 2}}, true},
        {"sum of two axes", f_sum_two, {3, {2, 3, 2}}, true},
        {"sum of an axis of 1", f_sum_first, {3, {1, 3, 2}}, true},
        {"sum of nothing", f_sum_first, {3, {0, 3, 2}}, true},
        {"max of two axes", f_max_two, {3, {2, 3, 2}}, true},
        {"max of one axis", f_max_one, {3, {2, 5, 2}}, true},
        {"min of two axes", f_min_two, {3, {2, 3, 2}}, true},
        {"prod of the first axis", f_prod_first, {3, {5, 1, 2}}, true},
        {"prod of two axes", f_prod_two, {3, {2, 2, 3}}, true},
        {"prod of the middle axis", f_prod_middle, {3, {2, 4, 1}}, true},
        {"prod of an axis of 1", f_prod_first, {3, {1, 2, 2}}, true},
        {"prod of nothing", f_prod_first, {3, {0, 2, 2}}, true},
    };
    run_shaped(t, cases, sizeof cases / sizeof *cases);
}

/* One zero, two zeros, three: differences are exact for a product, however it is made. */
static void products_with_zeros_have_the_right_first_and_second_derivatives(an_test *t)
{
    for (size_t zeros = 1; zeros <= 3; zeros++) {
        problem p = {.t = t, .g = problem_graph(t), .name = "prod with zeros", .random = zeros};
        problem_input(&p, (shape){3, {5, 1, 1}}, 0.5, 1.5);
        for (size_t i = 0; i < zeros; i++) p.values[0][2 * i] = 0.0;
        problem_send(&p, 0);
        problem_check(&p, f_prod_first, true);
    }
}

/* --- compositions -------------------------------------------------------------------------------- */

static an_uop f_softmax(an_graph *g, const an_uop *x)
{
    const an_shape s = an_uop_shape(g, x[0]);
    const an_uop m = an_unary(g, AN_OP_DETACH, an_reduce_axis(g, AN_OP_MAX, x[0], 2));
    const an_uop e = an_unary(g, AN_OP_EXP2, an_uop_sub(g, x[0], an_expand_node(g, m, s.dims, s.rank)));
    return an_binary(g, AN_OP_DIV, e, an_expand_node(g, an_reduce_axis(g, AN_OP_ADD, e, 2), s.dims, s.rank));
}

/* (2, 3) @ (3, 4), as movement, product and sum */
static an_uop f_matmul(an_graph *g, const an_uop *x)
{
    an_uop left[3], right[3], all[3];
    index_list(g, left, (const int64_t[]){2, 3, 1}, 3);
    index_list(g, right, (const int64_t[]){1, 3, 4}, 3);
    index_list(g, all, (const int64_t[]){2, 3, 4}, 3);
    const an_uop a = an_expand_node(g, an_reshape_node(g, f_sin(g, x), left, 3), all, 3);
    const an_uop b = an_expand_node(g, an_reshape_node(g, f_exp2(g, x + 1), right, 3), all, 3);
    return an_reduce_axis(g, AN_OP_ADD, an_binary(g, AN_OP_MUL, a, b), 2);
}

static an_uop f_normalise(an_graph *g, const an_uop *x)
{
    const an_shape s = an_uop_shape(g, x[0]);
    const an_uop third = an_const_float(g, AN_F64, 1.0 / 3.0), eps = an_const_float(g, AN_F64, 1e-3);
    const an_uop mean = an_binary(g, AN_OP_MUL, an_reduce_axis(g, AN_OP_ADD, x[0], 2), third);
    const an_uop d = an_uop_sub(g, x[0], an_expand_node(g, mean, s.dims, s.rank));
    const an_uop var = an_binary(g, AN_OP_MUL, an_reduce_axis(g, AN_OP_ADD, an_binary(g, AN_OP_MUL, d, d), 2), third);
    const an_uop root = an_unary(g, AN_OP_SQRT, an_binary(g, AN_OP_ADD, var, eps));
    return an_binary(g, AN_OP_DIV, d, an_expand_node(g, root, s.dims, s.rank));
}

static void compositions_match_differences(an_test *t)
{
    static const shaped_case cases[] = {
        {"softmax", f_softmax, {2, {2, 3}}, true},
        {"normalisation", f_normalise, {2, {2, 3}}, true},
    };
    run_shaped(t, cases, sizeof cases / sizeof *cases);
    problem p = {.t = t, .g = problem_graph(t), .name = "matmul", .random = 5};
    problem_input(&p, (shape){2, {2, 3}}, -1.0, 1.0);
    problem_input(&p, (shape){2, {3, 4}}, -1.0, 1.0);
    problem_check(&p, f_matmul, true);
}

/* --- exact values: ties, masks, casts -------------------------------------------------------------- */

/* The sum of the tangent of y when element i of x changes by 1: the same number by forward mode. */
static double forward_exact(problem *p, an_uop y, size_t i, size_t n)
{
    double one[ELEMENT_MAX] = {0}, sum = 0.0;
    const int64_t dim = (int64_t)n;
    one[i] = 1.0;
    an_tensor *direction = an_tensor_from_host(p->g, AN_F64, &dim, 1, one);
    CHECK(p->t, direction != NULL);
    const an_uop d = an_tensor_uop(direction);
    an_uop out = AN_UOP_NONE;
    CHECK_OK(p->t, an_jvp_uops(p->g, &(an_jvp_request){&y, 1, p->buffers, &d, 1}, &out));
    size_t numel = 0;
    double *v = problem_eval(p, out, &numel);
    for (size_t k = 0; k < numel; k++) sum += v[k];
    free(v);
    return sum;
}

/* The gradient of sum(f(x)) by x, a vector of the given values, is exactly want, by reverse and by forward mode. */
static void check_exact(an_test *t, const char *name, function f, const double *x, const double *want, size_t n)
{
    problem p = {.t = t, .g = problem_graph(t), .name = name};
    problem_input(&p, (shape){1, {(int64_t)n}}, 0.0, 0.0);
    for (size_t i = 0; i < n; i++) p.values[0][i] = x[i];
    problem_send(&p, 0);
    an_uop grad = AN_UOP_NONE;
    const an_uop y = f(p.g, p.buffers);
    CHECK_OK(t, an_backward_uops(p.g, y, AN_UOP_NONE, p.buffers, 1, &grad));
    size_t numel = 0;
    double *v = problem_eval(&p, grad, &numel);
    CHECK_EQ(t, numel, n);
    for (size_t i = 0; i < n; i++)
        if (v[i] != want[i])
            an_test_fail(__FILE__, __LINE__, "%s at %g: %.17g, not %.17g", name, x[i], v[i], want[i]);
    for (size_t i = 0; i < n; i++) {
        const double forward = forward_exact(&p, y, i, n);
        if (forward != want[i])
            an_test_fail(__FILE__, __LINE__, "%s at %g: %.17g by forward mode, not %.17g", name, x[i], forward, want[i]);
    }
    free(v);
}

static an_uop f_max_zero(an_graph *g, const an_uop *x)
{
    return an_binary(g, AN_OP_MAX, x[0], an_const_float(g, AN_F64, 0.0));
}
static an_uop f_min_zero(an_graph *g, const an_uop *x)
{
    return an_binary(g, AN_OP_MIN, an_const_float(g, AN_F64, 0.0), x[0]);
}
static an_uop f_reduce_max(an_graph *g, const an_uop *x) { return an_reduce_axis(g, AN_OP_MAX, x[0], 1); }
static an_uop f_reduce_min(an_graph *g, const an_uop *x) { return an_reduce_axis(g, AN_OP_MIN, x[0], 1); }

static void ties_share_evenly(an_test *t)
{
    check_exact(t, "max(x, 0)", f_max_zero, (const double[]){-1, 0, 1}, (const double[]){0, 0.5, 1}, 3);
    check_exact(t, "min(0, x)", f_min_zero, (const double[]){-1, 0, 1}, (const double[]){1, 0.5, 0}, 3);
    check_exact(t, "reduce max", f_reduce_max, (const double[]){2, 5, 5, 1, 5, 5}, (const double[]){0, .25, .25, 0, .25, .25}, 6);
    check_exact(t, "reduce min", f_reduce_min, (const double[]){2, 5, 2, 7}, (const double[]){.5, 0, .5, 0}, 4);
}

/* where(x > 0, f(x), 1): f is infinite or not a number in the branch that is not taken. */
static an_uop masked(an_graph *g, const an_uop *x, an_uop y)
{
    const an_uop zero = an_const_float(g, AN_F64, 0.0);
    return an_select(g, an_binary(g, AN_OP_CMPLT, zero, x[0]), y, an_const_float(g, AN_F64, 1.0));
}
static an_uop f_masked_sqrt(an_graph *g, const an_uop *x) { return masked(g, x, f_sqrt(g, x)); }
static an_uop f_masked_inverse(an_graph *g, const an_uop *x)
{
    return masked(g, x, an_binary(g, AN_OP_DIV, an_const_float(g, AN_F64, 1.0), x[0]));
}
static an_uop f_masked_log(an_graph *g, const an_uop *x)
{
    return masked(g, x, an_binary(g, AN_OP_MUL, f_log2(g, x), an_const_float(g, AN_F64, 0.69314718055994531)));
}
static an_uop f_masked_entropy(an_graph *g, const an_uop *x) { return masked(g, x, an_binary(g, AN_OP_MUL, x[0], f_log2(g, x))); }
static an_uop f_masked_quotient(an_graph *g, const an_uop *x) { return masked(g, x, an_binary(g, AN_OP_DIV, x[0], x[0])); }
static an_uop f_masked_sqrt_of_log(an_graph *g, const an_uop *x)
{
    return masked(g, x, an_unary(g, AN_OP_SQRT, f_log2(g, x)));
}
/* where(x > 0, 1, exp2(-1000 x)): overflows where it is not taken */
static an_uop f_masked_exp(an_graph *g, const an_uop *x)
{
    const an_uop big = an_unary(g, AN_OP_EXP2, an_binary(g, AN_OP_MUL, x[0], an_const_float(g, AN_F64, -1e4)));
    return masked(g, x, an_select(g, an_binary(g, AN_OP_CMPLT, an_const_float(g, AN_F64, 0.0), x[0]), x[0], big));
}

static void a_zero_cotangent_wins_over_an_infinite_derivative(an_test *t)
{
    const double x[3] = {0.0, -1.0, 4.0};
    check_exact(t, "masked sqrt", f_masked_sqrt, x, (const double[]){0, 0, 0.25}, 3);
    check_exact(t, "masked 1/x", f_masked_inverse, x, (const double[]){0, 0, -0.0625}, 3);
    check_exact(t, "masked log", f_masked_log, x, (const double[]){0, 0, 0.25}, 3);
    check_exact(t, "masked x/x", f_masked_quotient, x, (const double[]){0, 0, 0}, 3);
    check_exact(t, "masked x log x", f_masked_entropy, x, (const double[]){0, 0, 2.0 + 1.4426950408889634}, 3);
    check_exact(t, "masked sqrt(log x)", f_masked_sqrt_of_log, (const double[]){0.0, -1.0}, (const double[]){0, 0}, 2);
    check_exact(t, "masked exp", f_masked_exp, x, (const double[]){0, 0, 1}, 3);
}

/* The mask must not cost the second derivative: d/dc of the gradient of c*f(x) by x is f'(x) at c = 0 too. */
static void masks_leave_second_derivatives_at_zero_cotangents_right(an_test *t)
{
    static const function functions[] = {f_sqrt, f_log2, f_exp2};
    const double x = 2.0, want[] = {0.5 / sqrt(2.0), 1.4426950408889634 / 2.0, 4.0 * 0.69314718055994531};
    for (size_t i = 0; i < 3; i++) {
        problem p = {.t = t, .g = problem_graph(t), .name = "second derivative"};
        problem_input(&p, (shape){0, {0}}, x, x);
        problem_input(&p, (shape){0, {0}}, 0.0, 0.0);
        const an_uop y = an_binary(p.g, AN_OP_MUL, p.buffers[1], functions[i](p.g, p.buffers));
        an_uop first = AN_UOP_NONE, second = AN_UOP_NONE;
        CHECK_OK(t, an_backward_uops(p.g, y, AN_UOP_NONE, &p.buffers[0], 1, &first));
        CHECK_OK(t, an_backward_uops(p.g, first, AN_UOP_NONE, &p.buffers[1], 1, &second));
        CHECK_NEAR(t, problem_value(&p, second), want[i], 4 * DBL_EPSILON);
    }
}

/* A cast hands the cotangent over in the other dtype: rounded to it. */
static void a_cast_casts_the_cotangent_back(an_test *t)
{
    problem p = {.t = t, .g = problem_graph(t), .name = "cast"};
    problem_input(&p, (shape){0, {0}}, 0.1, 0.1);
    const an_uop c = an_const_float(p.g, AN_F64, 1.0 / 3.0);
    const an_uop narrow = an_cast_to(p.g, AN_F32, p.buffers[0]);
    an_uop grad = AN_UOP_NONE;
    CHECK_OK(t, an_backward_uops(p.g, an_cast_to(p.g, AN_F64, narrow), c, p.buffers, 1, &grad));
    CHECK(t, problem_value(&p, grad) == (double)(float)(1.0 / 3.0));
}

/* A tangent is cast as its value is: rounded, and then wide again. */
static void a_cast_casts_the_tangent(an_test *t)
{
    problem p = {.t = t, .g = problem_graph(t), .name = "cast"};
    problem_input(&p, (shape){0, {0}}, 0.1, 0.1);
    const an_uop d = an_const_float(p.g, AN_F64, 1.0 / 3.0);
    const an_uop narrow = an_cast_to(p.g, AN_F32, p.buffers[0]), wide = an_cast_to(p.g, AN_F64, narrow);
    an_uop out[2] = {AN_UOP_NONE, AN_UOP_NONE};
    const an_uop outputs[2] = {narrow, wide};
    CHECK_OK(t, an_jvp_uops(p.g, &(an_jvp_request){outputs, 2, p.buffers, &d, 1}, out));
    CHECK_EQ(t, an_uop_dtype(p.g, out[0]), AN_F32);
    CHECK(t, problem_value(&p, out[1]) == (double)(float)(1.0 / 3.0));
}

AN_TEST_MAIN(AN_CASE(elementwise_ops_match_differences_in_every_shape),
             AN_CASE(movement_matches_differences),
             AN_CASE(reductions_match_differences),
             AN_CASE(products_with_zeros_have_the_right_first_and_second_derivatives),
             AN_CASE(compositions_match_differences),
             AN_CASE(ties_share_evenly),
             AN_CASE(a_zero_cotangent_wins_over_an_infinite_derivative),
             AN_CASE(masks_leave_second_derivatives_at_zero_cotangents_right),
             AN_CASE(a_cast_casts_the_cotangent_back),
             AN_CASE(a_cast_casts_the_tangent))
