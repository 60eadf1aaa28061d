/* object.h - kernels to object files: what code generation makes, and what is kept on disk. */
#ifndef AN_BACKEND_CPU_OBJECT_H
#define AN_BACKEND_CPU_OBJECT_H

#include "backend/cpu/pool.h"
#include <llvm-c/TargetMachine.h>

extern const char cpu_passes[]; /* what is done to the IR; part of the key of what comes out */

enum { CPU_SYMBOL_SIZE = 48, CPU_COMPILERS_MAX = 64 };

/* A kernel on its way to machine code.
 *   symbol  of its entry: the caller's choice, in
 *   buffer  the object file, out; in LLVM's memory
 *   parts   how many it can be cut into, out */
typedef struct cpu_object {
    char symbol[CPU_SYMBOL_SIZE];
    LLVMMemoryBufferRef buffer;
    char *error; /* a message of LLVM's, or NULL */
    int64_t parts;
} cpu_object;
void cpu_object_fini(cpu_object *o);

/* What compiling needs, made when the first kernel is compiled. host and pool (may be NULL) are borrowed. */
typedef struct cpu_compiler cpu_compiler;
an_status cpu_compiler_create(an_ctx *ctx, const cpu_host *host, cpu_pool *pool, int threads, cpu_compiler **out);
void cpu_compiler_destroy(cpu_compiler *c); /* NULL is a no-op */

/* All or none: out[i] of kernels[i]. */
an_status cpu_compile_objects(cpu_compiler *c, const an_kernel *const *kernels, size_t n, cpu_object *out);

#endif
