/* jit.h - a function captured once and replayed.
 *
 * The function builds results from its arguments, lazily. The first call runs it, with stand-ins for the argument tensors, and
 * compiles what it built; every call launches that on the tensors given then. A call replays the truth or fails with a sentence:
 *
 *   arguments  tensors in a struct of the caller's, listed by offset; so inside nested structs and arrays as well. At each call
 *              their shape, dtype and graph must be those of the first. Numbers in the struct must be listed too, and be what
 *              they were: they are part of what was captured. The function sees nothing of the struct but what is listed
 *   results    likewise. A result that is NULL in the struct when the call is made gets a new tensor, which nobody else writes:
 *              it stays what it is. A tensor that is there is written into, and the struct stays as it is: give the same struct
 *              again and nothing is allocated. A result that is a captured tensor (a parameter) is that tensor. With symbolic
 *              axes it has the size that the symbols' values (an_graph_bind) give it at the call
 *   in place   all that the function gives to an_assign is written by each call: captured tensors, and arguments themselves.
 *              Reads of what was there come before
 *   captured   tensors of other structs that the function reads mean what they hold at each call. List them in captured, and a
 *              call fails when another tensor has taken the place of one since. A lazy tensor from outside is computed anew by
 *              every call: realize it first if what it is now is meant
 *   random     each call draws new numbers, as each run of a plan does
 *   aliases    an argument that shares its buffer with a result, with something that is written, or with an argument that is
 *              written, is copied first (through the host: correct, not fast). Two results in one buffer are an error, and so
 *              is one tensor given for two arguments that are both written
 *
 * Inside the function nothing can be read, written or run, and no data taken from the host: it would be the same in every
 * replay. A call of another jit is captured along. If the function fails nothing is captured, what it had assigned to is as
 * before, and the next call tries again.
 *
 *     typedef struct step_args { an_tensor *x, *y; } step_args;
 *     typedef struct step_results { an_tensor *loss; } step_results;
 *     static const an_jit_slot in[] = {AN_JIT_SLOT(step_args, x), AN_JIT_SLOT(step_args, y)};
 *     static const an_jit_slot out[] = {AN_JIT_SLOT(step_results, loss)};
 *     an_jit_desc desc = {.name = "step", .fn = step, .user = model, .args = AN_JIT_SLOTS(step_args, in),
 *                         .results = AN_JIT_SLOTS(step_results, out)};
 *     st = an_jit_create(g, &desc, &jit);
 *     for (...) { an_tensor_write(a.x, ...); an_jit_call(jit, &a, &r); an_item_f64(r.loss, &loss); } */
#ifndef ANNEAL_JIT_H
#define ANNEAL_JIT_H

#include <anneal/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct an_jit an_jit;

/* count tensors in a row at an offset of a struct. */
typedef struct an_jit_slot {
    const char *name; /* for sentences; lives as long as the jit */
    size_t offset, count;
    bool donate; /* an argument: its buffer may become that of a new result; the tensor is then used up, and errors say so */
} an_jit_slot;
#define AN_JIT_SLOT(type, member) {#member, offsetof(type, member), sizeof(((type *)0)->member) / sizeof(an_tensor *), false}
#define AN_JIT_DONATED(type, member) {#member, offsetof(type, member), sizeof(((type *)0)->member) / sizeof(an_tensor *), true}

/* Plain bytes of a struct: a number, a flag. */
typedef struct an_jit_value {
    const char *name;
    size_t offset, nbytes;
} an_jit_value;
#define AN_JIT_VALUE(type, member) {#member, offsetof(type, member), sizeof(((type *)0)->member)}

typedef struct an_jit_struct { /* the struct's size and what is in it; copied */
    size_t nbytes;
    const an_jit_slot *slots;
    size_t nslots;
    const an_jit_value *values;
    size_t nvalues;
} an_jit_struct;
#define AN_JIT_SLOTS(type, table) {sizeof(type), (table), sizeof(table) / sizeof *(table), NULL, 0}

/* Builds results from args. A tensor of args may be NULL, if it is in every call. */
typedef an_status (*an_jit_fn)(void *user, an_graph *g, const void *args, void *results);

/* All zero but fn is legal: no arguments and no results. */
typedef struct an_jit_desc {
    const char *name; /* for sentences; NULL: "the function" */
    an_jit_fn fn;
    void *user;
    an_jit_struct args, results;
    an_jit_struct captured; /* slots of the struct at captured_at: tensors that are to stay the same ones */
    const void *captured_at;
} an_jit_desc;

/* Nothing is captured yet. Errors: AN_ERR_ARG for a NULL function or a slot that does not lie in its struct; AN_ERR_NOMEM. */
AN_API an_status an_jit_create(an_graph *g, const an_jit_desc *desc, an_jit **out);
/* Before or after its graph, before its context. NULL is a no-op. */
AN_API void an_jit_destroy(an_jit *jit);

/* One call, captured if it is the first. results may be NULL if there are none. On failure results stay as they were.
 * Errors: AN_ERR_ARG, AN_ERR_SHAPE, AN_ERR_DTYPE for arguments that are not like the first; AN_ERR_STALE; what the function
 * returned; those of an_plan_create and an_plan_run. */
AN_API an_status an_jit_call(an_jit *jit, const void *args, void *results);

/* Forgets what was captured: the next call captures anew. */
AN_API void an_jit_reset(an_jit *jit);

/* What a call launches, for looking inside; NULL before the first. It lives until the jit is reset or destroyed. */
AN_API an_plan *an_jit_plan(an_jit *jit);

#ifdef __cplusplus
}
#endif
#endif
