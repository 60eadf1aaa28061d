/* conformance.h - what the conformance programs share: the backends under test, kernels written as linear lists by hand,
 * values worth trying, and how far two results are apart.
 *
 * src/ir/eval.c holds the interpreter, the interpreter holds every other backend. */
#ifndef AN_TEST_CONFORMANCE_H
#define AN_TEST_CONFORMANCE_H

#include "an_test.h"
#include "codegen/codegen.h"
#include <anneal/device.h>

enum { CONF_BACKENDS_MAX = 8, CONF_PARAMS_MAX = 8 };

/* --- backends.c ---------------------------------------------------------------------------------------------------- */

/* The interpreter first. A new backend is a row in backends.c. */
const an_backend *const *conf_backends(size_t *n);

typedef struct conf_devices {
    const an_backend *backend[CONF_BACKENDS_MAX];
    an_device *device[CONF_BACKENDS_MAX];
    size_t n;
} conf_devices;
void conf_open(an_test *t, conf_devices *d);
void conf_close(conf_devices *d);

/* Lanes of vectors of such elements. With a GPU among the devices, four: compilers of software adapters take minutes for functions
 * that are written out sixteen times. */
uint32_t conf_lanes(const conf_devices *d, size_t nbytes);
/* Is a GPU among them? It counts in 32 bits, and its compilers, on software adapters, are slow. */
bool conf_has_gpu(const conf_devices *d);
/* A device may lack a dtype, and must then refuse it by a sentence with its name. */
bool conf_has_dtype(an_test *t, const conf_devices *d, size_t which, an_dtype dtype);

/* docs/SEMANTICS.md: a GPU may take numbers below the normal ones as 0 in add, mul and mulacc of f32 (and of bf16, whose exponents are
 * the same), and join a product with the sum that it goes into; a software adapter that does so does it in div and sqrt too. One that
 * does is known by 2^-149 + 0. */
bool conf_flushes(an_test *t, const conf_devices *d, size_t which, an_op op);

/* A buffer of a kernel, in and out. */
typedef struct conf_buffer {
    void *data;
    size_t nbytes;
} conf_buffer;

/* Runs a program once: data is written to fresh buffers, and read back into. */
an_status conf_run(const conf_devices *d, size_t which, an_program *program, const conf_buffer *buffers, size_t n,
                   const int64_t *vars);

/* --- lists.c ------------------------------------------------------------------------------------------------------- */

/* A kernel in the making. Each put returns its node and adds it to the list if it is not there. */
typedef struct conf_list {
    an_test *t;
    an_graph *g;
    an_uop_vec linear;
    an_kernel kernel; /* filled by finish; linear points into the vec above */
} conf_list;
void conf_list_init(conf_list *l, an_test *t);
void conf_list_fini(conf_list *l);
an_uop conf_put(conf_list *l, an_uop u);
an_uop conf_param(conf_list *l, an_dtype dtype, bool is_out);
an_uop conf_var(conf_list *l, const char *name);
an_uop conf_index(conf_list *l, int64_t v);
an_uop conf_binary(conf_list *l, an_op op, an_uop x, an_uop y);
an_uop conf_cast(conf_list *l, an_dtype dtype, an_uop x);
an_uop conf_vector_op(conf_list *l, an_op op, an_uop x, uint32_t lanes, uint64_t arg); /* RAMP, BROADCAST, LANE, HREDUCE */
an_uop conf_load(conf_list *l, an_uop param, an_uop index, an_uop gate);
void conf_store(conf_list *l, an_uop param, an_uop index, an_uop value, an_uop gate);
an_uop conf_range(conf_list *l, an_uop bound, uint32_t id);
an_uop conf_end(conf_list *l, an_uop range);
an_uop conf_acc(conf_list *l, an_uop init);
void conf_acc_set(conf_list *l, an_uop acc, an_uop x);
an_uop conf_acc_get(conf_list *l, an_uop acc, an_uop end);
void conf_finish(conf_list *l, const char *name); /* checks it against the verifier */

/* --- values.c ------------------------------------------------------------------------------------------------------ */

/* The i-th value worth trying of a dtype: edges first, then random bits. n: the number of edges. */
an_scalar conf_value(an_dtype dtype, size_t i, size_t *n);

/* Steps between two stored values: 0 for equal bits and for two NaN; ints differ by 1 step or none. */
int64_t conf_steps(an_dtype dtype, const void *a, const void *b);
void conf_print_value(char *text, size_t size, an_dtype dtype, const void *at);

#endif
