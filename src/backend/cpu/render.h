/* render.h - a linear list (codegen.h) as LLVM IR, one function a kernel.
 *
 *   render.c          the list: a table of handlers by op, the function around the body
 *   render_type.c     types, constants, narrow floats, casts
 *   render_alu.c      elementwise ops and reductions over lanes, by table
 *   render_math.c     exp2, log2, sin, erf
 *   render_memory.c   loads and stores
 *   render_control.c  loops and accumulators
 *
 * How a value is held: bool as i1, integers as they are, index as i64, f32 and f64 as they are; f16, bf16 and f8 as
 * float, already rounded to their type. A value of n > 1 lanes is a vector of n of these. In memory a bool is a byte.
 * The builder folds constants, so the code here is written for the general case only. */
#ifndef AN_BACKEND_CPU_RENDER_H
#define AN_BACKEND_CPU_RENDER_H

#include "base/idmap.h"
#include "ir/uop.h"
#include <anneal/backend.h>
#include <llvm-c/Core.h>

typedef LLVMValueRef cpu_value;

/* A loop that is open: body begins at head. */
typedef struct cpu_loop {
    LLVMBasicBlockRef head, exit;
    cpu_value phi, bound;
} cpu_loop;

typedef struct cpu_render {
    an_ctx *ctx;
    LLVMContextRef llvm;
    LLVMModuleRef module;
    LLVMBuilderRef b;
    bool has_half;          /* conversions between f16 and f32 are instructions of the target */
    uint32_t vector_nbytes; /* native */

    /* of the kernel being rendered */
    const an_kernel *kernel;
    const an_graph *g;
    cpu_value fn;
    LLVMBasicBlockRef entry; /* allocas only; runs into the body */
    an_idmap at;             /* node -> 1 + its place in values */
    AN_VEC(cpu_value) values;
    AN_VEC(cpu_loop) loops;
} cpu_render;

/* Renders kernel into r->module as `name`, a function of (void *const *buffers, const int64_t *vars).
 * Errors: AN_ERR_NOMEM; AN_ERR_UNSUPPORTED names the op. */
an_status cpu_render_kernel(cpu_render *r, const an_kernel *kernel, const char *name);

/* --- types ------------------------------------------------------------------------------------- */
LLVMTypeRef cpu_type(cpu_render *r, an_dtype dtype, uint32_t lanes);        /* how a value is held */
LLVMTypeRef cpu_stored_type(cpu_render *r, an_dtype dtype, uint32_t lanes); /* how it lies in memory: integers for narrow floats */
LLVMTypeRef cpu_like(LLVMTypeRef scalar, cpu_value like);      /* scalar, in as many lanes as like */
uint32_t cpu_lanes(cpu_value v);
bool cpu_is_narrow(an_dtype dtype); /* f16, bf16, f8: held as float */

cpu_value cpu_const(cpu_render *r, an_dtype dtype, an_scalar v);
cpu_value cpu_int(LLVMTypeRef type, int64_t v);  /* type may be a vector: in every lane */
cpu_value cpu_real(LLVMTypeRef type, double v);
cpu_value cpu_splat(cpu_render *r, cpu_value x, uint32_t lanes);
cpu_value cpu_as(cpu_render *r, cpu_value x, LLVMTypeRef scalar); /* the same bits as another type, lane by lane */

cpu_value cpu_to_stored(cpu_render *r, an_dtype dtype, cpu_value x);
cpu_value cpu_from_stored(cpu_render *r, an_dtype dtype, cpu_value x);
cpu_value cpu_round(cpu_render *r, an_dtype dtype, cpu_value x); /* a float to the values of a narrow dtype; else x */
cpu_value cpu_cast(cpu_render *r, an_dtype from, an_dtype to, cpu_value x);
cpu_value cpu_bitcast(cpu_render *r, an_dtype from, an_dtype to, cpu_value x);

/* --- values ------------------------------------------------------------------------------------ */
cpu_value cpu_intrinsic(cpu_render *r, const char *name, cpu_value *args, uint32_t nargs); /* overloaded on args[0] */
cpu_value cpu_select(cpu_render *r, cpu_value c, cpu_value x, cpu_value y);
cpu_value cpu_alloca(cpu_render *r, LLVMTypeRef type); /* in the entry block */

/* An elementwise op but CAST and BITCAST; NULL: there is none for this dtype. dtype is that of the last source. */
cpu_value cpu_alu(cpu_render *r, an_op op, an_dtype dtype, const cpu_value *src);
/* Over the lanes of x, in the order that docs/SEMANTICS.md gives. */
cpu_value cpu_reduce_lanes(cpu_render *r, an_op op, an_dtype dtype, cpu_value x);

cpu_value cpu_exp2(cpu_render *r, an_dtype dtype, const cpu_value *src);
cpu_value cpu_log2(cpu_render *r, an_dtype dtype, const cpu_value *src);
cpu_value cpu_sin(cpu_render *r, an_dtype dtype, const cpu_value *src);
cpu_value cpu_erf(cpu_render *r, an_dtype dtype, const cpu_value *src);

/* --- nodes of the list: NULL on failure, with the sentence in the context ---------------------- */
cpu_value cpu_value_of(const cpu_render *r, an_uop u);
cpu_value cpu_load(cpu_render *r, an_uop u);
cpu_value cpu_store(cpu_render *r, an_uop u);
cpu_value cpu_range(cpu_render *r, an_uop u);
cpu_value cpu_end(cpu_render *r, an_uop u);
cpu_value cpu_acc(cpu_render *r, an_uop u);
cpu_value cpu_acc_set(cpu_render *r, an_uop u);
cpu_value cpu_acc_get(cpu_render *r, an_uop u);

/* The C functions that kernels may call, by name. */
typedef struct cpu_symbol {
    const char *name;
    void (*fn)(void); /* of another type: only its address counts */
} cpu_symbol;
const cpu_symbol *cpu_symbols(size_t *n);

#endif
