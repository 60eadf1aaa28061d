/* check_grad.h - gradients by rule against differences of the function itself.
 *
 * A function f of one to three f64 tensors is reduced to a number L = sum(w * f) with fixed weights w. The derivative by each
 * element x is taken from differences D(h) = (L(x+h) - L(x-h)) / 2h, improved by Richardson: R(h) = (4 D(h) - D(2h)) / 3. Its
 * error falls like h^4, so it is below |R(h) - R(2h)|, plus rounding: a few ulp of the terms of L, divided by h. That sum is
 * the tolerance. Second derivatives are tested as the gradient of sum(u * grad f) in the same way.
 * Forward mode, first and second order and mixed with reverse mode, is held against these gradients along random directions. */
#ifndef CHECK_GRAD_H
#define CHECK_GRAD_H

#include "an_test.h"
#include "ir/uop.h"
#include <anneal/tensor.h>

enum { INPUT_MAX = 3, BUFFER_MAX = 32, ELEMENT_MAX = 256 };

/* A shape; rank 0 is a number. */
typedef struct shape {
    uint32_t rank;
    int64_t d[4];
} shape;

/* A function and where it is looked at. Begin with .t, .g = problem_graph(t), .name and .random (a seed). */
typedef struct problem {
    an_test *t;
    an_graph *g;
    const char *name;
    uint64_t random;
    an_tensor *tensors[BUFFER_MAX];
    an_uop buffers[BUFFER_MAX];
    double values[BUFFER_MAX][ELEMENT_MAX];
    size_t nelements[BUFFER_MAX], nbuffers;
} problem;

/* The test's graph, on the reference device: it has buffers and needs no compiler. */
an_graph *problem_graph(an_test *t);

/* An input with random values of low..high; after values were changed by hand, problem_send copies them to its buffer. */
an_uop problem_input(problem *p, shape s, double low, double high);
void problem_send(problem *p, size_t input);

/* The values of u, *n of them, to be freed; and of a number. */
double *problem_eval(problem *p, an_uop u, size_t *n);
double problem_value(problem *p, an_uop u);

/* First and, if asked, second derivatives of f at the inputs that are there. */
typedef an_uop (*function)(an_graph *g, const an_uop *x);
void problem_check(problem *p, function f, bool second);

#endif
