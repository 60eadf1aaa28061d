/* runtime.h - devices, buffers and plans: what lies between a lazy graph and launched kernels.
 *
 * Each graph has one default device. A BUFFER node of the user's graph is bound to storage on it. Computing roots makes a
 * plan: a schedule, programs for its kernels, memory for what lies between; running it launches them.
 *
 * In-place writes and truth. ASSIGN(target, value) writes value into the storage of target when a plan that reaches it runs.
 * Each run that writes advances the graph's epoch, and the storage notes the epoch of its last write. A lazy tensor
 * remembers the epoch in which it was built (the least of its own and its operands'); a plan over it refuses, with
 * AN_ERR_STALE, to read a buffer written since: the value that it meant is gone. Nodes that a plan has computed (its roots and
 * every ASSIGN it ran) are remembered: later plans read the result instead of computing, or writing, again. */
#ifndef AN_RUNTIME_RUNTIME_H
#define AN_RUNTIME_RUNTIME_H

#include "ir/uop.h"
#include "rewrite/trace.h"
#include "schedule/schedule.h"
#include <anneal/backend.h>
#include <anneal/device.h>

/* --- buffers of a graph ------------------------------------------------------------------------ */

/* A BUFFER node on the graph's device holding data (NULL: zeros), row-major. AN_UOP_NONE with a sentence on failure. */
an_uop an_runtime_from_host(an_graph *g, an_dtype dtype, const int64_t *dims, uint32_t rank, const void *data);

/* Copies between host and the storage of a BUFFER node (or an ASSIGN node that has run); nbytes is all of it.
 * Writing from the host counts as an in-place write: it advances the epoch. */
an_status an_runtime_read(an_graph *g, an_uop buffer, void *dst, size_t nbytes);
an_status an_runtime_write(an_graph *g, an_uop buffer, const void *src, size_t nbytes);

/* A BUFFER of symbolic dims, zeroed, with room for the largest. AN_UOP_NONE with a sentence on failure. */
an_uop an_runtime_alloc(an_graph *g, an_dtype dtype, const an_uop *dims, uint32_t rank);
/* Bytes of u: of what its buffer holds, or by the values that an_graph_bind gave; false if neither says. */
bool an_runtime_nbytes(an_graph *g, an_uop u, size_t *nbytes);
/* Every symbol below uops has a value by an_graph_bind. Errors: AN_ERR_ARG, naming one that has none. */
an_status an_runtime_check_bound(an_graph *g, const an_uop *uops, size_t n);

/* The epoch now, for tensors being built. Handles of plain BUFFERs have epoch UINT64_MAX: always current. */
uint64_t an_runtime_epoch(an_graph *g);

/* What a handle of a place, a BUFFER or an ASSIGN, stands for now: the latest ASSIGN made on it, or the BUFFER, if that has
 * run; another u stands for itself. *epoch, which may be NULL, becomes that of the write, if there is one. The tensor
 * layer calls it whenever it reads a handle, so "the parameter" means its present contents. */
an_uop an_runtime_resolve(an_graph *g, an_uop u, uint64_t *epoch);
/* assign is from now on what its buffer's place stands for. Errors: AN_ERR_NOMEM. */
an_status an_runtime_note_assign(an_graph *g, an_uop assign, uint64_t epoch);
/* True if u is a BUFFER with storage. */
bool an_runtime_is_bound(an_graph *g, an_uop u);

/* Computes uops[i] (epochs[i]: see above) and replaces each by the BUFFER that holds it. */
an_status an_realize_uops(an_graph *g, an_uop *uops, const uint64_t *epochs, size_t n);

/* --- plans ------------------------------------------------------------------------------------- */
struct an_plan;

/* Schedules and compiles uops, and replaces each by the BUFFER that will hold it after each run. Nothing has run yet. */
an_status an_plan_build(an_graph *g, an_uop *uops, const uint64_t *epochs, size_t n, an_trace *trace,
                        struct an_plan **out);

#endif
