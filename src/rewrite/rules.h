/* rules.h - what compiled rules call: tests of nodes, checked arithmetic, the functions of conditions, and the helpers of the
 * rule files of src/rewrite. Other rule files declare theirs in a header of their own.
 *
 * A constant is seen through BROADCAST and through movement that only repeats or reorders elements (reshape, expand, permute,
 * shrink, flip), so the same rules hold for scalars, vectors and whole tensors. */
#ifndef AN_REWRITE_RULES_H
#define AN_REWRITE_RULES_H

#include "rewrite/rewrite.h"

/* --- tests of nodes (match.h has those of the matching path, inline) ------------------------------- */
/* The CONST whose value every element of u has, or AN_UOP_NONE. */
an_uop an_rule_const_of(const an_graph *g, an_uop u);
bool an_rule_is_const(const an_graph *g, an_uop u);
bool an_rule_is_number(const an_graph *g, an_uop u, double v);
/* The value of an integer, index or bool constant that an int64_t holds. */
bool an_rule_int(const an_graph *g, an_uop u, int64_t *out);
/* Every source from the first-th on is of these dtypes, and a constant if so wanted. */
bool an_rule_is_rest(const an_graph *g, an_uop u, uint32_t first, bool is_const, uint32_t dtypes);

/* --- arithmetic of conditions: *ok becomes false on overflow and division by zero ------------------ */
int64_t an_rule_add(int64_t a, int64_t b, bool *ok);
int64_t an_rule_sub(int64_t a, int64_t b, bool *ok);
int64_t an_rule_mul(int64_t a, int64_t b, bool *ok);
int64_t an_rule_div(int64_t a, int64_t b, bool *ok); /* floors */
int64_t an_rule_mod(int64_t a, int64_t b, bool *ok); /* sign of b */

/* --- building ------------------------------------------------------------------------------------ */
/* v in the dtype and lanes of like. */
an_uop an_rule_int_like(an_rewriter *rw, an_uop like, int64_t v);
/* op over src. dtype: AN_DTYPE_NONE for that of like, or, like being AN_UOP_NONE, what the op table says. arg and tag are
 * those of like if that has the same op. */
an_uop an_rule_build(an_rewriter *rw, an_op op, an_dtype dtype, an_uop like, const an_uop *src, uint32_t nsrc);
/* Ends a gradient rule: restores, and gives scalar cotangents the shape of their source. False on failure. */
bool an_rule_grad_done(an_rewriter *rw, const an_rule_info *rule, uint32_t saved, an_uop n, an_uop g, an_uop *out);
/* Ends a jvp rule: restores, and gives scalars the shape of n. False on failure. */
bool an_rule_jvp_done(an_rewriter *rw, const an_rule_info *rule, uint32_t saved, an_uop n, an_uop *out);

/* --- functions of conditions (docs/UPAT.md) -------------------------------------------------------- */
int64_t an_rule_min(an_rewriter *rw, an_uop x);
int64_t an_rule_max(an_rewriter *rw, an_uop x);
bool an_rule_is_int(an_rewriter *rw, an_uop x); /* int, uint and index */
bool an_rule_is_float(an_rewriter *rw, an_uop x);
bool an_rule_is_bool(an_rewriter *rw, an_uop x);
bool an_rule_is_index(an_rewriter *rw, an_uop x);
bool an_rule_same(an_rewriter *rw, an_uop x, an_uop y);
bool an_rule_less(an_rewriter *rw, an_uop x, an_uop y); /* x < y, by bounds, or whatever the symbols are (less.c) */
bool an_rule_is_pow2(an_rewriter *rw, int64_t c);
int64_t an_rule_log2(an_rewriter *rw, int64_t c); /* floor; 0 for c < 1 */
int64_t an_rule_abs(an_rewriter *rw, int64_t c);
int64_t an_rule_gcd(an_rewriter *rw, int64_t a, int64_t b);
/* A constant that divides x whatever its variables are; 0 for x = 0, 1 when nothing is known. */
int64_t an_rule_factor(an_rewriter *rw, an_uop x);

/* The integer op n (add, mul) of operands within their bounds stays within the dtype. */
bool an_rule_no_wrap(an_rewriter *rw, an_uop n);
/* x comes before y in the canonical order of operands, and is not y. */
bool an_rule_before(an_rewriter *rw, an_uop x, an_uop y);
/* Every value of the dtype of x converts to that of n and back unchanged. */
bool an_rule_is_lossless(an_rewriter *rw, an_uop x, an_uop n);
/* The bounds of x fit into the dtype of n. */
bool an_rule_fits(an_rewriter *rw, an_uop x, an_uop n);
bool an_rule_same_dtype(an_rewriter *rw, an_uop x, an_uop y);
int64_t an_rule_bits(an_rewriter *rw, an_uop x); /* of one element */
bool an_rule_is_sum(an_rewriter *rw, an_uop n);  /* an add of ints or index */
/* n, of a commutative op, is the same to the bit with its operands exchanged: not max and min of floats, where the first of
 * -0.0 and 0.0 wins. */
bool an_rule_commutes(an_rewriter *rw, an_uop n);
/* The dtype of x, an int, holds v. */
bool an_rule_holds(an_rewriter *rw, an_uop x, int64_t v);
/* No element of x, a float, is -0.0. */
bool an_rule_never_minus_zero(an_rewriter *rw, an_uop x);

/* --- helpers of symbolic.upat: AN_UOP_NONE where there is nothing to gain ---------------------------- */
/* fold.c */
an_uop an_rule_fold_alu(an_rewriter *rw, an_uop n); /* all sources are constants */
an_uop an_rule_to_bound(an_rewriter *rw, an_uop n); /* bounds that meet: the constant */
an_uop an_rule_order(an_rewriter *rw, an_uop n);    /* commutative operands in canonical order */
an_uop an_rule_recip(an_rewriter *rw, an_uop c);    /* 1/c, where that is exact */

/* divmod.c */
an_uop an_rule_sum(an_rewriter *rw, an_uop n);      /* add: like terms collected, x//c*c + x%c put together */
an_uop an_rule_div_sum(an_rewriter *rw, an_uop n);  /* floordiv by a constant > 1 */
an_uop an_rule_mod_sum(an_rewriter *rw, an_uop n);  /* floormod by a constant > 1 */
an_uop an_rule_cmp_sum(an_rewriter *rw, an_uop n);  /* cmplt, cmpeq, cmpne of sums */
an_uop an_rule_mod_below(an_rewriter *rw, an_uop n); /* cmplt of a floormod and a constant */

/* valid.c */
an_uop an_rule_valid_load(an_rewriter *rw, an_uop n);  /* index under the gate */
an_uop an_rule_valid_store(an_rewriter *rw, an_uop n);
an_uop an_rule_valid_where(an_rewriter *rw, an_uop n); /* index operands under the condition */
an_uop an_rule_valid_and(an_rewriter *rw, an_uop n);   /* clauses that others imply or rule out */

#endif
