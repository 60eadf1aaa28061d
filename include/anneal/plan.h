/* plan.h - compile once, run many times.
 *
 * A training step is one graph: forward, loss, backward, update. an_plan_create schedules and compiles it; each
 * an_plan_run computes it again from what the buffers hold then. New inputs are written into buffers with an_tensor_write;
 * parameters are updated in place; results are read with an_tensor_read.
 *
 *     an_tensor *outs[] = {loss, w, b};            w and b were given to an_assign
 *     st = an_plan_create(g, outs, 3, NULL, &plan);
 *     for (...) { an_tensor_write(x, ...); an_plan_run(plan); an_tensor_read(loss, ...); } */
#ifndef ANNEAL_PLAN_H
#define ANNEAL_PLAN_H

#include <anneal/backend.h>
#include <anneal/inspect.h>
#include <anneal/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct an_plan an_plan;

/* Schedules and compiles everything the tensors need, assignments included. From then on each handle refers to the buffer
 * that holds it after a run; what is in it stays until the next run. Nothing runs yet. trace (NULL: none) records the
 * passes. Errors: those of the tensors' construction; AN_ERR_STALE if one reads a buffer overwritten since it was built;
 * AN_ERR_NOMEM, AN_ERR_DEVICE. */
AN_API an_status an_plan_create(an_graph *g, an_tensor *const *tensors, size_t n, an_trace *trace, an_plan **out);
AN_API void an_plan_destroy(an_plan *plan); /* before its graph; NULL is a no-op */

/* Launches every kernel, in order. Returns when they are queued; reads wait. Errors: AN_ERR_DEVICE; of symbolic shapes AN_ERR_ARG for a
 * symbol without a value or a buffer that was filled at another one, AN_ERR_SHAPE where shapes do not fit at the values. */
AN_API an_status an_plan_run(an_plan *plan);

/* The value of a symbolic dimension for the runs to come, before that of an_graph_bind. Nothing is compiled. Errors: AN_ERR_ARG for an unknown name or a value outside its
 * bounds. */
AN_API an_status an_plan_bind(an_plan *plan, const char *name, int64_t value);

/* The symbols that a plan runs over; the strings live as long as it. i beyond the count gives NULL and zeros. */
typedef struct an_symbol_info {
    const char *name;
    int64_t min, max;
} an_symbol_info;
AN_API size_t an_plan_symbol_count(const an_plan *plan);
AN_API an_symbol_info an_plan_symbol_get(const an_plan *plan, size_t i);

/* --- looking inside ---------------------------------------------------------------------------- */

/* One launched kernel of a plan, in launch order; strings live as long as the plan. */
typedef struct an_kernel_info {
    const char *name;
    const char *phase;              /* "forward", "backward", "update" or "tangent" of its last output */
    const char *reason;             /* why its boundary is where it is: the cost model's words */
    double flops;                   /* by count of operations, each elementwise op 1 */
    double nbytes_read, nbytes_written; /* each buffer once */
    uint32_t nbuffers;
    bool reused;                    /* an equal kernel came earlier: the same program */
    uint64_t key_lo, key_hi;        /* its structural key */
} an_kernel_info;
AN_API size_t an_plan_kernel_count(const an_plan *plan);
AN_API an_kernel_info an_plan_kernel(const an_plan *plan, size_t i);

/* Text of kernel i, given to put in pieces: the device's own language, the linear list, or the DAG before codegen. */
typedef enum an_kernel_text { AN_KERNEL_SOURCE, AN_KERNEL_LINEAR, AN_KERNEL_DAG } an_kernel_text;
AN_API an_status an_plan_kernel_print(an_plan *plan, size_t i, an_kernel_text what,
                                      void (*put)(void *user, const char *text), void *user);

/* Bytes of memory between kernels: sum if every intermediate had its own, and what the plan uses. */
AN_API size_t an_plan_nbytes_unplanned(const an_plan *plan);
AN_API size_t an_plan_nbytes(const an_plan *plan);

/* A buffer of a plan, in the order in which the kernels meet them. Temporaries share one arena. */
typedef struct an_buffer_info {
    const char *name;   /* of the kernel that writes it, "" if none does; lives as long as the plan */
    an_dtype dtype;
    size_t nbytes;
    size_t first, last; /* kernels that use it */
    size_t offset;      /* in the arena; 0 if it is no temporary */
    bool is_temporary, is_written;
} an_buffer_info;
AN_API size_t an_plan_buffer_count(const an_plan *plan);
AN_API an_buffer_info an_plan_buffer(const an_plan *plan, size_t i);

/* Seconds spent making the plan: in scheduling, in codegen passes, in the device's compiler. */
typedef struct an_plan_times {
    double schedule, codegen, compile;
} an_plan_times;
AN_API an_plan_times an_plan_time(const an_plan *plan);

#ifdef __cplusplus
}
#endif
#endif
