/* random_program.h - small random tensor programs over the public API, from a seed: made, run in every way there is, compared
 * with the oracle (eval_graph.h), made smaller, and printed as C.
 *
 * A program is a list of calls. Call i makes value i from values before it; the value of an_assign and an_realize is their
 * operand again; so is that of an assignment to a part. */
#ifndef RANDOM_PROGRAM_H
#define RANDOM_PROGRAM_H

#include "eval_graph.h"
#include <anneal/settings.h>
#include <anneal/tensor.h>

typedef enum random_op {
#define RANDOM_OP(id, form, weight, text, call) RANDOM_##id,
#include "random_ops.def"
#undef RANDOM_OP
    RANDOM_OP_COUNT
} random_op;

static inline bool random_writes(random_op op)
{
    return op == RANDOM_ASSIGN || op == RANDOM_ASSIGN_PART;
}

enum { RANDOM_CALLS = 40, RANDOM_INTS = 12, RANDOM_TEXT = 8192 };

typedef struct random_call {
    random_op op;
    int src[3]; /* values; -1: none */
    int64_t p[RANDOM_INTS];
    uint32_t n;
    double f;
    an_dtype dtype;
    uint64_t seed; /* INPUT: of its contents */
    int64_t below; /* INPUT of integers: 0..below-1, if not 0 */
    bool output;
} random_call;

typedef struct random_program {
    uint64_t seed;
    random_call call[RANDOM_CALLS];
    int n;
    bool lazy; /* an_realize is left out: for the oracle, which is to compute all itself */
    int64_t symbol; /* not 0: axes of inputs of that size are the symbol "s", which has that value */
} random_program;

uint64_t random_next(uint64_t *state); /* splitmix64 */

/* random_make.c: the program of a seed. Errors: as the library's. */
an_status random_make(an_ctx *ctx, uint64_t seed, random_program *out);

/* random_call.c: value i in v, from those before it. NULL with a sentence if the library refuses. */
an_tensor *random_apply(an_graph *g, const random_program *p, int i, an_tensor *const *v);
void random_print(const random_program *p, char *text, size_t size);

/* random_check.c: what is wrong with it, in words; "" if nothing. kind tells faults apart: smaller programs are to have the
 * same. thorough: every way to run it, else a choice that depends on the seed. seconds gets the most that one plan took to make. */
typedef struct random_verdict {
    char kind[64];
    char text[1024];
    double seconds;
    size_t compared, open; /* elements: held to the oracle, and those where anything may come */
    size_t symbolic;       /* ways in which it ran over a symbol ... */
    size_t within;         /* ... with less memory between kernels than it would take ... */
    size_t kept;           /* ... and with a schedule from disk */
} random_verdict;
typedef struct random_lab random_lab; /* contexts, which keep compiled kernels; from malloc */
random_lab *random_lab_create(void);
void random_lab_destroy(random_lab *lab);
void random_check(random_lab *lab, const random_program *p, bool thorough, random_verdict *out);

/* random_shrink.c: a smaller program for which fails(user, p) still holds. */
void random_shrink(random_program *p, bool (*fails)(void *user, const random_program *p), void *user);

#endif
