/* generate.h - text from a model, a token at a time, with a cache of keys and values: one plan for every position. */
#ifndef GENERATE_H
#define GENERATE_H

#include <anneal/nn.h>

typedef struct generator generator;

/* Compiles the step of net, a module from tokens (1, 1) to logits (1, 1, vocab), for up to length positions. Parameters are
 * those of net at each step. Belongs to nobody: generator_destroy before the graph. */
an_status generator_create(an_module *net, int64_t length, int64_t vocab, generator **out);
void generator_destroy(generator *g); /* NULL is a no-op */

/* Puts a token after those before it; logits of what may come next into *logits (vocab of them, until the next call). When
 * all positions are taken, the latter half of the tokens is put in anew. */
an_status generator_feed(generator *g, int32_t token, const float **logits);

/* How the next token is drawn from logits. All zero but temperature is plain sampling. */
typedef struct sampling {
    double temperature; /* 0: the likeliest, the first of equals */
    int64_t top_k;      /* of the k likeliest only; 0: all */
    double top_p;       /* of the likeliest that have this much probability together; 0: all */
    uint64_t seed;
} sampling;
/* Draw number i: a function of its arguments alone. */
int32_t sample_token(const sampling *how, const float *logits, int64_t vocab, uint64_t i);

#endif
