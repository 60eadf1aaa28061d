/* eval.h - the value of one elementwise op on one set of operands: the single definition that constant folding and the
 * interpreter share, and that docs/SEMANTICS.md states in words. */
#ifndef AN_IR_EVAL_H
#define AN_IR_EVAL_H

#include "ir/uop.h"

/* The result of an elementwise op (traits ELEM but CAST and BITCAST), rounded to its dtype.
 *   dtype  of the operands that are numbers (for WHERE: of the last two; for comparisons: of the operands)
 * f32 and narrower compute in f32-exact steps: correctly rounded where IEEE 754 says so, else within 1 ulp. */
an_scalar an_eval(an_op op, an_dtype dtype, const an_scalar *src);

/* BITCAST: same bits, another dtype of the same size. CAST is an_scalar_cast. */
an_scalar an_eval_bitcast(an_dtype from, an_dtype to, an_scalar x);

#endif
