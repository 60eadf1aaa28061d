/* grad_rules.h - the conditions and helpers that grad.upat names. */
#ifndef AN_AUTODIFF_GRAD_RULES_H
#define AN_AUTODIFF_GRAD_RULES_H

#include "base/idmap.h"
#include "rewrite/rewrite.h"

/* rw->user of a gradient sweep: what is known of nodes asked about so far. */
typedef struct an_grad_memo {
    an_idmap wild; /* 1: finite wherever its inputs are; 2: may be infinite or NaN */
    AN_VEC(an_uop) stack;
} an_grad_memo;

void an_grad_memo_fini(an_grad_memo *memo, an_ctx *ctx);

/* What the reduce_axis n reduces by. */
bool an_rule_grad_reduces_add(an_rewriter *rw, an_uop n);
bool an_rule_grad_reduces_extreme(an_rewriter *rw, an_uop n);
bool an_rule_grad_reduces_mul(an_rewriter *rw, an_uop n);

/* g*d, or 0 where g is 0 and d is not finite. */
an_uop an_rule_grad_times(an_rewriter *rw, an_uop g, an_uop d, an_uop other);
/* g/y, or 0 where g is 0 and y is 0 or NaN. */
an_uop an_rule_grad_over(an_rewriter *rw, an_uop g, an_uop y);

/* g in the shape of x: by reshape; by summing axes that x has as 1; by repeating them. */
an_uop an_rule_grad_reshape(an_rewriter *rw, an_uop x, an_uop g);
an_uop an_rule_grad_sum_to(an_rewriter *rw, an_uop x, an_uop g);
an_uop an_rule_grad_expand_to(an_rewriter *rw, an_uop x, an_uop g);

/* The movement n undone on g. */
an_uop an_rule_grad_unpermute(an_rewriter *rw, an_uop n, an_uop g);
an_uop an_rule_grad_unpad(an_rewriter *rw, an_uop n, an_uop g);
an_uop an_rule_grad_unshrink(an_rewriter *rw, an_uop n, an_uop g);
an_uop an_rule_grad_flip(an_rewriter *rw, an_uop n, an_uop g);

/* g divided by how many elements equal the greatest or least one, n. */
an_uop an_rule_grad_share(an_rewriter *rw, an_uop n, an_uop g);
/* The whole rule of a product along axes: g times the product of the other elements. */
an_uop an_rule_grad_prod(an_rewriter *rw, an_uop n, an_uop g);

#endif
