/* grad_rules.h - the conditions and helpers that grad.upat and jvp.upat name, and what both sweeps share. */
#ifndef AN_AUTODIFF_GRAD_RULES_H
#define AN_AUTODIFF_GRAD_RULES_H

#include "base/idmap.h"
#include "rewrite/rewrite.h"

/* rw->user of a gradient sweep: what is known of nodes asked about so far. */
typedef struct an_grad_memo {
    an_idmap facts; /* by node: see finite.c */
    AN_VEC(an_uop) stack;
} an_grad_memo;

void an_grad_memo_fini(an_grad_memo *memo, an_ctx *ctx);

/* The constant v in the dtype and shape of like. */
an_uop an_grad_full_like(an_graph *g, an_uop like, double v);
/* c in the shape of like. Elementwise ops broadcast scalars, so that one is of rank 0 or both have the same shape: sums over
 * what was broadcast, or repeats a scalar. */
an_uop an_grad_fit(an_graph *g, an_uop c, an_uop like);
bool an_grad_is_float(const an_graph *g, an_uop u);

/* finite.c: may u be infinite or NaN though every buffer below it is finite? Is its size, then, above some bound above 0? *ok is
 * false when memory ran out. */
bool an_grad_is_wild(an_rewriter *rw, an_uop u, bool *ok);
bool an_grad_is_away(an_rewriter *rw, an_uop u, bool *ok);

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

/* The movement n made on d, the tangent of its source. */
an_uop an_rule_jvp_move(an_rewriter *rw, an_uop n, an_uop d);
/* d summed along the axes that n reduces. */
an_uop an_rule_jvp_sum(an_rewriter *rw, an_uop n, an_uop d);

/* g divided by how many elements equal the greatest or least one, n. */
an_uop an_rule_grad_share(an_rewriter *rw, an_uop n, an_uop g);
/* The derivative of a product along axes, n: for each element the product of the others. */
an_uop an_rule_grad_others(an_rewriter *rw, an_uop n);

#endif
