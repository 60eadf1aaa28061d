/* lin.h - sums of integer terms, c0 + c1*x1 + c2*x2 + ..., taken apart and put together: what the div/mod family,
 * comparisons and validity reason about.
 *
 * EXACT: the sum as an integer, true where nothing wraps. Of an index nothing does; of other ints only those adds and muls
 * are taken apart whose bounds show it. WRAPPING: modulo 2^bits, any add and mul. */
#ifndef AN_REWRITE_LIN_H
#define AN_REWRITE_LIN_H

#include "rewrite/rules.h"

enum { AN_LIN_MAX = 32 };
typedef enum an_lin_mode { AN_LIN_EXACT, AN_LIN_WRAPPING } an_lin_mode;
typedef struct an_lin_term {
    an_uop x;
    int64_t c;
} an_lin_term;
typedef struct an_lin {
    an_uop like; /* gives dtype and lanes */
    uint32_t n;
    an_lin_term term[AN_LIN_MAX]; /* different x, no c is 0; in canonical order of x */
    int64_t c;
} an_lin;

/* False when there are too many terms or a coefficient overflows. */
bool an_lin_of(an_rewriter *rw, an_uop u, an_lin_mode mode, an_lin *out);
/* a + scale*b. False likewise. */
bool an_lin_add(an_rewriter *rw, an_lin *a, const an_lin *b, int64_t scale);
bool an_lin_add_term(an_rewriter *rw, an_lin *a, an_uop x, int64_t c);
void an_lin_remove(an_lin *a, uint32_t i);

/* From now on a, an index, is at most 0, by knowledge from outside (a gate): so far as a is no single term. False when memory is out. */
bool an_lin_narrow(an_rewriter *rw, const an_lin *a);
/* The interval of the sum as an integer. */
an_interval an_lin_bounds(an_rewriter *rw, const an_lin *a);
/* Its greatest and least value, as an_lin_bounds or better: what symbols have in common cancels out (less.c). */
int64_t an_lin_most(an_rewriter *rw, const an_lin *a);
int64_t an_lin_least(an_rewriter *rw, const an_lin *a);
an_interval an_term_bounds(an_rewriter *rw, an_lin_term t);
/* All coefficients' common divisor; 0 for no terms. */
int64_t an_lin_gcd(an_rewriter *rw, const an_lin *a);

/* The sum as nodes, terms in canonical order, the constant last. In EXACT mode AN_UOP_NONE if the value may not fit the
 * dtype. */
an_uop an_lin_build(an_rewriter *rw, const an_lin *a, an_lin_mode mode);

int64_t an_int_floor_div(int64_t a, int64_t b); /* b > 0 */
int64_t an_int_floor_mod(int64_t a, int64_t b);
int64_t an_inf_add(int64_t a, int64_t b); /* INT64_MIN and INT64_MAX stay: infinities */
int64_t an_inf_mul(int64_t a, int64_t b);

#endif
