/* jit_cases.h - what the tests of captured functions share: a case on every device, small structs of arguments and results. */
#ifndef JIT_CASES_H
#define JIT_CASES_H

#include "an_test.h"

#include <anneal/device.h>
#include <anneal/grad.h>
#include <anneal/jit.h>
#include <anneal/settings.h>

#include <stdio.h>
#include <string.h>

#define CASE(name)                                                                                                     \
    static void name##_body(an_test *t, an_graph *g);                                                                  \
    static void name(an_test *t)                                                                                       \
    {                                                                                                                  \
        on_every_device(t, name##_body);                                                                               \
    }                                                                                                                  \
    static void name##_body(an_test *t, an_graph *g)

static inline void on_every_device(an_test *t, void (*body)(an_test *t, an_graph *g))
{
    size_t n = 0;
    const an_backend *const *backends = an_backends(&n);
    for (size_t i = 0; i < n; i++) {
        an_graph *g = NULL;
        if (strcmp(backends[i]->name, "cpu") != 0 && strcmp(backends[i]->name, "interp") != 0) continue;
        CHECK_OK(t, an_graph_create(t->ctx, &g));
        CHECK_OK(t, an_graph_set_device(g, backends[i]->name));
        body(t, g);
        an_graph_destroy(g);
    }
}

static inline an_tensor *vec3(an_graph *g, float a, float b, float c)
{
    return an_tensor_from_host(g, AN_F32, AN_DIMS(3), (const float[]){a, b, c});
}

#define CHECK_VEC3(t, x, a, b, c)                                                                                      \
    do {                                                                                                               \
        float vec3_[3] = {0};                                                                                          \
        CHECK_OK(t, an_tensor_read((x), vec3_, sizeof vec3_));                                                         \
        CHECK_NEAR(t, vec3_[0], a, 0);                                                                                 \
        CHECK_NEAR(t, vec3_[1], b, 0);                                                                                 \
        CHECK_NEAR(t, vec3_[2], c, 0);                                                                                 \
    } while (0)

/* The arguments, results and surroundings that most cases use. */
typedef struct args {
    an_tensor *x, *y;
    double factor;
} args;
typedef struct results {
    an_tensor *a, *b;
} results;
typedef struct world {
    an_test *t;
    an_tensor *w, *leaked;
    an_rng *rng;
    an_jit *inner;
    int calls;
    bool fails;
} world;

static const an_jit_slot one_in[] = {AN_JIT_SLOT(args, x)};
static const an_jit_slot two_in[] = {AN_JIT_SLOT(args, x), AN_JIT_SLOT(args, y)};
static const an_jit_slot one_out[] = {AN_JIT_SLOT(results, a)};
static const an_jit_slot two_out[] = {AN_JIT_SLOT(results, a), AN_JIT_SLOT(results, b)};

static inline an_jit *make(an_test *t, an_graph *g, an_jit_fn fn, world *w, size_t nin, size_t nout)
{
    an_jit *j = NULL;
    const an_jit_desc desc = {.name = "f", .fn = fn, .user = w,
                              .args = {sizeof(args), nin == 2 ? two_in : one_in, nin, NULL, 0},
                              .results = {sizeof(results), nout == 2 ? two_out : one_out, nout, NULL, 0}};
    CHECK_OK(t, an_jit_create(g, &desc, &j));
    return j;
}

#endif
