/* check_grad.c - see check_grad.h. */
#include "check_grad.h"

#include "autodiff/autodiff.h"
#include "eval_graph.h"
#include <anneal/device.h>

#include <float.h>
#include <math.h>
#include <stdlib.h>

an_graph *problem_graph(an_test *t)
{
    an_graph *g = an_test_graph(t);
    CHECK_OK(t, an_graph_set_device(g, "interp"));
    return g;
}

static double random_in(problem *p, double low, double high)
{
    p->random = p->random * 6364136223846793005u + 1442695040888963407u;
    return low + (high - low) * (double)(p->random >> 11) / 9007199254740992.0;
}

void problem_send(problem *p, size_t i)
{
    CHECK_OK(p->t, an_tensor_write(p->tensors[i], p->values[i], p->nelements[i] * sizeof(double)));
}

an_uop problem_input(problem *p, shape s, double low, double high)
{
    CHECK(p->t, p->nbuffers < BUFFER_MAX);
    const size_t i = p->nbuffers++;
    p->nelements[i] = 1;
    for (uint32_t k = 0; k < s.rank; k++) p->nelements[i] *= (size_t)s.d[k];
    CHECK(p->t, p->nelements[i] <= ELEMENT_MAX);
    for (size_t k = 0; k < p->nelements[i]; k++) p->values[i][k] = random_in(p, low, high);
    p->tensors[i] = an_tensor_from_host(p->g, AN_F64, s.d, s.rank, p->values[i]);
    CHECK(p->t, p->tensors[i] != NULL);
    return p->buffers[i] = an_tensor_uop(p->tensors[i]);
}

static shape shape_of(problem *p, an_uop u)
{
    const an_shape s = an_uop_shape(p->g, u);
    shape out = {.rank = s.rank};
    CHECK(p->t, s.rank <= 4 && an_shape_static(p->g, s, out.d));
    return out;
}

/* A buffer of weights in the shape of u, and the number sum(weights * u). */
static an_uop weighted_sum(problem *p, an_uop u)
{
    const an_shape s = an_uop_shape(p->g, u);
    const an_uop product = an_binary(p->g, AN_OP_MUL, problem_input(p, shape_of(p, u), 0.5, 1.5), u);
    if (s.rank == 0) return product;
    return an_reshape_node(p->g, an_reduce_axis(p->g, AN_OP_ADD, product, (1u << s.rank) - 1), NULL, 0);
}

double *problem_eval(problem *p, an_uop u, size_t *n)
{
    const shape s = shape_of(p, u);
    *n = 1;
    for (uint32_t i = 0; i < s.rank; i++) *n *= (size_t)s.d[i];
    double *v = malloc((*n + 1) * sizeof *v);
    CHECK_OK(p->t, an_test_eval(p->g, u, v, *n * sizeof *v));
    return v;
}

double problem_value(problem *p, an_uop u)
{
    size_t n = 0;
    double *v = problem_eval(p, u, &n);
    const double x = v[0];
    CHECK_EQ(p->t, n, 1);
    free(v);
    return x;
}

/* The gradients of loss by the first n buffers against differences. scale bounds the terms of the loss. */
static void check_gradients(problem *p, an_uop loss, const an_uop *grads, size_t n, double scale, const char *what)
{
    const double h = ldexp(1.0, -10);
    for (size_t i = 0; i < n; i++) {
        size_t numel = 0;
        double *grad = problem_eval(p, grads[i], &numel);
        CHECK_EQ(p->t, numel, p->nelements[i]);
        for (size_t k = 0; k < numel; k++) {
            const double x = p->values[i][k];
            double d[3], size = scale;
            for (int level = 0; level < 3; level++) {
                const double step = h * (1 << level);
                p->values[i][k] = x + step;
                problem_send(p, i);
                const double above = problem_value(p, loss);
                p->values[i][k] = x - step;
                problem_send(p, i);
                const double below = problem_value(p, loss);
                d[level] = (above - below) / (2.0 * step);
                size = fmax(size, fabs(above));
            }
            p->values[i][k] = x;
            problem_send(p, i);
            const double want = (4.0 * d[0] - d[1]) / 3.0, rough = (4.0 * d[1] - d[2]) / 3.0;
            const double tolerance = fabs(want - rough) + 32.0 * DBL_EPSILON * size / h;
            if (!(fabs(grad[k] - want) <= tolerance))
                an_test_fail(__FILE__, __LINE__, "%s: %s of input %zu, element %zu: %.15g by rule, %.15g by differences (+- %.2g)",
                             p->name, what, i, k, grad[k], want, tolerance);
        }
        free(grad);
    }
}

static double magnitude(problem *p, an_uop u)
{
    size_t n = 0;
    double sum = 1.0;
    double *v = problem_eval(p, u, &n);
    for (size_t i = 0; i < n; i++) sum += fabs(v[i]);
    free(v);
    return sum;
}

/* --- forward mode: the same derivatives, along one direction ------------------------------------- */

static an_uop tangent_of(problem *p, an_uop y, const an_uop *directions, size_t n)
{
    an_uop out = AN_UOP_NONE;
    CHECK_OK(p->t, an_jvp_uops(p->g, &(an_jvp_request){&y, 1, p->buffers, directions, n}, &out));
    CHECK_EQ(p->t, an_uop_dtype(p->g, out), an_uop_dtype(p->g, y));
    CHECK(p->t, an_shape_eq(an_uop_shape(p->g, out), an_uop_shape(p->g, y)));
    return out;
}

/* <a, b> of two lists of nodes, as a node. */
static an_uop inner(problem *p, const an_uop *a, const an_uop *b, size_t n)
{
    an_uop sum = an_const_float(p->g, AN_F64, 0.0);
    for (size_t i = 0; i < n; i++) {
        const uint32_t rank = an_uop_shape(p->g, a[i]).rank;
        an_uop product = an_binary(p->g, AN_OP_MUL, a[i], b[i]);
        if (rank) product = an_reshape_node(p->g, an_reduce_axis(p->g, AN_OP_ADD, product, (1u << rank) - 1), NULL, 0);
        sum = an_binary(p->g, AN_OP_ADD, sum, product);
    }
    return sum;
}

static void check_equal(problem *p, an_uop a, an_uop b, double scale, const char *what)
{
    const double x = problem_value(p, a), y = problem_value(p, b);
    if (!(fabs(x - y) <= 1e-12 * scale))
        an_test_fail(__FILE__, __LINE__, "%s: %s: %.17g and %.17g", p->name, what, x, y);
}

/* The JVP of loss, of its gradients and of itself, along random directions v: held against reverse mode, which differences have
 * checked. <grad, v> is the JVP of loss; H v is the JVP of grad, the gradient of the JVP and the gradient of <grad, v>; v H v is the
 * JVP of the JVP. */
static void check_forward(problem *p, an_uop y, an_uop loss, const an_uop *grads, size_t n, bool second)
{
    an_graph *g = p->g;
    an_uop v[INPUT_MAX], forward[INPUT_MAX], reverse[INPUT_MAX], both[INPUT_MAX];
    double scale = magnitude(p, y);
    for (size_t i = 0; i < n; i++) {
        v[i] = problem_input(p, shape_of(p, p->buffers[i]), -1.0, 1.0);
        scale += magnitude(p, grads[i]);
    }
    const an_uop along = tangent_of(p, loss, v, n);
    check_equal(p, along, inner(p, grads, v, n), scale, "the JVP and <gradient, v>");
    /* One direction alone: the zeros are no nodes, and the parts add up. */
    an_uop sum = an_const_float(g, AN_F64, 0.0);
    for (size_t i = 0; i < n; i++) {
        an_uop one[INPUT_MAX] = {AN_UOP_NONE};
        one[i] = v[i];
        sum = an_binary(g, AN_OP_ADD, sum, tangent_of(p, loss, one, n));
    }
    check_equal(p, along, sum, scale, "the JVP and the sum over its inputs");
    if (!second) return;
    for (size_t i = 0; i < n; i++) forward[i] = tangent_of(p, grads[i], v, n);
    CHECK_OK(p->t, an_backward_uops(g, inner(p, grads, v, n), AN_UOP_NONE, p->buffers, n, reverse));
    CHECK_OK(p->t, an_backward_uops(g, along, AN_UOP_NONE, p->buffers, n, both));
    for (size_t i = 0; i < n; i++) {
        const double size = scale + magnitude(p, reverse[i]);
        const an_uop w = problem_input(p, shape_of(p, p->buffers[i]), -1.0, 1.0);
        const an_uop want = inner(p, &reverse[i], &w, 1);
        check_equal(p, inner(p, &forward[i], &w, 1), want, size, "H v by forward over reverse and by reverse over reverse");
        check_equal(p, inner(p, &both[i], &w, 1), want, size, "H v by reverse over forward and by reverse over reverse");
        scale = size;
    }
    check_equal(p, tangent_of(p, along, v, n), inner(p, reverse, v, n), scale, "v H v by forward over forward and by reverse");
}

void problem_check(problem *p, function f, bool second)
{
    an_graph *g = p->g;
    const size_t n = p->nbuffers;
    const an_uop y = f(g, p->buffers);
    CHECK(p->t, !an_uop_is_none(y));
    const an_uop loss = weighted_sum(p, y);
    an_uop grads[INPUT_MAX] = {AN_UOP_NONE}, seconds[INPUT_MAX] = {AN_UOP_NONE};
    CHECK_OK(p->t, an_backward_uops(g, loss, AN_UOP_NONE, p->buffers, n, grads));
    check_gradients(p, loss, grads, n, magnitude(p, y), "gradient");
    check_forward(p, y, loss, grads, n, second);
    if (!second) return;
    an_uop loss2 = an_const_float(g, AN_F64, 0.0);
    double scale = 0.0;
    for (size_t i = 0; i < n; i++) {
        loss2 = an_binary(g, AN_OP_ADD, loss2, weighted_sum(p, grads[i]));
        scale += magnitude(p, grads[i]);
    }
    CHECK_OK(p->t, an_backward_uops(g, loss2, AN_UOP_NONE, p->buffers, n, seconds));
    check_gradients(p, loss2, seconds, n, scale, "second derivative");
}
