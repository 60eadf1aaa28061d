/* pool.h - the threads of a device: a kernel's outermost loops in parts, on whichever thread is free. */
#ifndef AN_BACKEND_CPU_POOL_H
#define AN_BACKEND_CPU_POOL_H

#include "backend/cpu/jit.h"

typedef struct cpu_pool cpu_pool;

/* A pool of threads in all, the caller's included; they start with the first run that wakes. */
an_status cpu_pool_create(an_ctx *ctx, int threads, cpu_pool **out);
void cpu_pool_destroy(cpu_pool *pool); /* joins them; NULL is a no-op */

/* Calls entry for every part of nparts (at most CPU_PARTS_MAX), each once, and returns when all have ended. Which thread runs
 * which part is open; what a part computes does not depend on it.
 * Each thread has CPU_SCRATCH_NBYTES, in large pages where there are such, which keep nothing from part to part.
 *   wake  threads that went to sleep are worth waking for it (some microseconds each); else those that are awake help */
enum { CPU_PARTS_MAX = 4096 };
void cpu_pool_run(cpu_pool *pool, cpu_entry entry, void *const *params, const int64_t *vars, uint32_t nparts, bool wake);

#endif
