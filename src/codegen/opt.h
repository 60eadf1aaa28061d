/* opt.h - transforms of a kernel's ranges. Each keeps the meaning of the kernel (floats may be summed in another order) and
 * refuses, with a sentence, where it does not apply. For src/codegen only. */
#ifndef AN_CODEGEN_OPT_H
#define AN_CODEGEN_OPT_H

#include "codegen/dag.h"

typedef enum an_opt_kind {
    AN_OPT_UPCAST, /* a LOOP range: amount copies of its stores, side by side */
    AN_OPT_UNROLL, /* a REDUCE range: amount copies of the value in its loop */
    AN_OPT_VECTOR, /* a LOOP or REDUCE range: amount lanes */
    AN_OPT_CUT,    /* a LOOP or REDUCE range: two nested ones, the inner one of amount elements */
    AN_OPT_SPLIT   /* a LOOP or REDUCE range: 0..amount-1 and amount..n-1 apart */
} an_opt_kind;

/* range: the id of a RANGE. The outer part, and the main part of a split, keep it. */
typedef struct an_opt {
    an_opt_kind kind;
    uint32_t range;
    int64_t amount;
} an_opt;

/* Applies opt to the sink, or sets *why to the reason not to and leaves the sink. *why is NULL where it applied.
 * Errors: AN_ERR_NOMEM, AN_ERR_LIMIT. */
an_status an_opt_apply(an_graph *g, an_uop *sink, an_opt opt, const char **why);

const char *an_opt_name(an_opt_kind kind);

#endif
