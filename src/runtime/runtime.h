/* runtime.h - devices, buffers and plans: what lies between a lazy graph and launched kernels.
 *
 * Each graph has one default device. A BUFFER node of the user's graph is bound to storage on it. Computing roots makes a
 * plan: a schedule, programs for its kernels, memory for what lies between; running it launches them.
 *
 * In-place writes and truth. A BUFFER node is one version of what its storage holds. A write (from the host, by an ASSIGN, or
 * by a plan that is run again) puts a new BUFFER node in its place if anything in the graph reads the old one; the old one is
 * then overwritten, and whatever would read it is refused with AN_ERR_STALE. So a lazy tensor means what it read when it was
 * built, exactly, and only handles of the place itself move on to the newest version.
 * ASSIGN(target, value) writes value into the storage of target, once, in the first plan that reaches it and is run.
 * Nodes that a plan has computed (its roots and every ASSIGN it ran) are remembered with the version that holds them: later
 * plans read that instead of computing, or writing, again. */
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

/* Copies between host and what the storage of a BUFFER node (any version of it), or of an ASSIGN node that has run, holds
 * now; nbytes is all of it. Errors: AN_ERR_ARG when there is no storage, or when the plan that fills it has not run. */
an_status an_runtime_read(an_graph *g, an_uop buffer, void *dst, size_t nbytes);
an_status an_runtime_write(an_graph *g, an_uop buffer, const void *src, size_t nbytes);

/* A BUFFER of symbolic dims, zeroed, with room for the largest. AN_UOP_NONE with a sentence on failure. */
an_uop an_runtime_alloc(an_graph *g, an_dtype dtype, const an_uop *dims, uint32_t rank);
/* The same holding data, row-major, at the values that an_graph_bind gave. */
an_uop an_runtime_from_host_uop(an_graph *g, an_dtype dtype, const an_uop *dims, uint32_t rank, const void *data);
/* Bytes of u: of what its buffer holds, or by the values that an_graph_bind gave; false if neither says. */
bool an_runtime_nbytes(an_graph *g, an_uop u, size_t *nbytes);
/* Every symbol below uops has a value by an_graph_bind. Errors: AN_ERR_ARG, naming one that has none. */
an_status an_runtime_check_bound(an_graph *g, const an_uop *uops, size_t n);

/* What the handle of a place, a BUFFER or an ASSIGN, stands for now: the latest ASSIGN made on it, while that waits for a plan
 * to take it on, else the newest version; another u stands for itself. The tensor layer calls it whenever it reads a handle,
 * so "the parameter" means its present contents. */
an_uop an_runtime_resolve(an_graph *g, an_uop u);
/* assign, which may be none, is the latest from now on; returns what was. */
an_uop an_runtime_note_assign(an_graph *g, an_uop place, an_uop assign);
/* True if u is a BUFFER with storage. */
bool an_runtime_is_bound(an_graph *g, an_uop u);

/* Whether what u reads still is there. Errors: AN_ERR_STALE. */
an_status an_runtime_check(an_graph *g, an_uop u);

/* --- captures (src/tensor/jit.c) ----------------------------------------------------------------
 * While one is on, nothing of the graph is read, written or run: what would be is AN_ERR_ARG with a sentence. capture is
 * the capturer's own; NULL: none is on. */
an_status an_runtime_set_capture(an_graph *g, void *capture);
void *an_runtime_capture(const an_graph *g);
/* A BUFFER whose storage has no memory: what an argument is while it is captured. */
an_uop an_runtime_stand_in(an_graph *g, an_dtype dtype, an_shape shape);
/* A BUFFER with storage, for a result. */
an_uop an_runtime_new_buffer(an_graph *g, an_dtype dtype, an_shape shape, uint32_t *storage);
/* Copies contents from one storage into a stand-in's own memory, made on first use; *to is its storage. */
an_status an_runtime_copy(an_graph *g, uint32_t from, an_uop stand_in, uint32_t *to);
/* fn(data) runs when the graph is destroyed, before anything of it is. */
an_status an_runtime_at_end(an_graph *g, void (*fn)(void *data), void *data);
void an_runtime_not_at_end(an_graph *g, void *data);

/* Computes uops[i] and replaces each by the BUFFER that holds it. */
an_status an_realize_uops(an_graph *g, an_uop *uops, size_t n);

/* --- plans ------------------------------------------------------------------------------------- */
struct an_plan;

/* Schedules and compiles uops, and replaces each by the BUFFER that will hold it after each run. Nothing has run yet. */
an_status an_plan_build(an_graph *g, an_uop *uops, size_t n, an_trace *trace, struct an_plan **out);

#endif
