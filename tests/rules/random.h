/* random.h - random expressions, instances of rule patterns, and their values: what the tests of rules are made of. */
#ifndef AN_TESTS_RULES_RANDOM_H
#define AN_TESTS_RULES_RANDOM_H

#include "ir/uop.h"
#include "upatc/upatc.h"

typedef struct rng {
    uint64_t state;
} rng;
rng rng_seeded(uint64_t seed); /* and by AN_TEST_SEED in the environment, for long hunts */
uint64_t rng_next(rng *r);
uint32_t rng_below(rng *r, uint32_t n);  /* 0..n-1 */
bool rng_chance(rng *r, uint32_t percent);

/* An expression of that dtype, about as deep as depth: variables with bounds, constants that have something special, sums,
 * divisions, comparisons. AN_UOP_NONE only when memory is out. */
an_uop random_expr(an_graph *g, rng *r, an_dtype dtype, int depth);
an_dtype random_dtype(rng *r);

/* Something that the pattern of a rule matches, conditions apart; AN_UOP_NONE if this try came to nothing. */
an_uop random_instance(an_graph *g, rng *r, const up_rule *rule);

/* The value of u under an assignment of its variables that seed chooses within their bounds. False where an index is too
 * large to be one. Memory read by loads is a function of seed too. */
typedef struct value {
    an_scalar v;
    bool stored; /* of a store: whether it writes; at and v are what */
    int64_t at;
} value;
bool value_of(an_graph *g, an_uop u, uint64_t seed, value *out);
/* Bit for bit; any NaN is any NaN. */
bool value_same(an_dtype dtype, value a, value b);
void value_print(an_str *s, an_dtype dtype, value v);

#endif
