/* jit.h - kernels to machine code, through LLVM's ORC. */
#ifndef AN_BACKEND_CPU_JIT_H
#define AN_BACKEND_CPU_JIT_H

#include "backend/cpu/emit.h"
#include <llvm-c/TargetMachine.h>

typedef struct cpu_jit cpu_jit;
typedef struct cpu_code cpu_code; /* machine code that equal kernels share */
/* Runs part `part` of nparts of a kernel's outermost loops; 0 of 1 is all of it. scratch: CPU_SCRATCH_NBYTES of the thread's own. */
typedef void (*cpu_entry)(void *const *params, const int64_t *vars, int64_t part, int64_t nparts, void *scratch);

/* What a kernel became; its code lives until each of its kernels was released.
 *   parts  how many it can be cut into: 1 where anything but THREAD loops is outermost */
typedef struct cpu_function {
    cpu_entry entry;
    int64_t parts;
    cpu_code *code;
} cpu_function;

/* The machine we run on. Errors: AN_ERR_UNSUPPORTED if this LLVM has no code generator for it. */
an_status cpu_host_init(an_ctx *ctx, cpu_host *host);
void cpu_host_fini(cpu_host *host);
an_status cpu_host_machine(an_ctx *ctx, const cpu_host *host, LLVMTargetMachineRef *out);

/* pool (NULL: none) and threads: how many at most compile at once, the caller included. host and pool are borrowed. */
struct cpu_pool;
an_status cpu_jit_create(an_ctx *ctx, const cpu_host *host, struct cpu_pool *pool, int threads, cpu_jit **out);
void cpu_jit_destroy(cpu_jit *jit); /* NULL is a no-op; every function has been released */

/* Code by the kernels' keys alone, from this process or from disk; out[i] is all zero where there is none. */
an_status cpu_jit_load(cpu_jit *jit, const an_kernel *const *kernels, size_t n, cpu_function *out);

/* All or none: out[i] for kernels[i]. What has a key is kept on disk. */
an_status cpu_jit_compile(cpu_jit *jit, const an_kernel *const *kernels, size_t n, cpu_function *out);
void cpu_function_release(cpu_jit *jit, cpu_function *f); /* no-op on a zeroed one */

/* The LLVM IR of a kernel as it is emitted, before any pass. */
an_status cpu_jit_source(an_ctx *ctx, const cpu_host *host, const an_kernel *kernel,
                         void (*put)(void *user, const char *text), void *user);

#endif
