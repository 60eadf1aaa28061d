/* emit.h - a linear list to LLVM IR. What the files of this folder share while they write one kernel.
 *
 * Values in registers: bool is i1; integers and index are iN; f64 is double; f32 and every narrower float are float, a
 * narrow one always holding a value its dtype can hold. In memory each dtype has its own size (bool a byte, 0 or 1).
 * Vectors are LLVM vectors of the same lanes. Helpers that take a type take it from a value, so scalar code and
 * vector lanes are the same code.
 *
 * LLVM keeps its own memory and aborts when that is out; what this folder allocates goes through the context. */
#ifndef AN_BACKEND_CPU_EMIT_H
#define AN_BACKEND_CPU_EMIT_H

#include "base/idmap.h"
#include "ir/uop.h"
#include <anneal/backend.h>
#include <llvm-c/Core.h>

typedef struct cpu_host {
    char *triple, *cpu, *features; /* of the machine we run on; LLVM's strings */
    uint32_t vector_nbytes;
    bool has_f16c; /* converts between half and float in one instruction */
    bool is_x86, has_scale; /* which multiplies by 2^n: AVX-512 */
} cpu_host;

/* An open loop. */
typedef struct cpu_loop {
    an_uop range;
    LLVMValueRef counter, bound;
    LLVMBasicBlockRef body, exit;
} cpu_loop;

enum {
    CPU_TURN_MAX = 16,
    CPU_SCRATCH_NBYTES = 1 << 20,    /* of each thread: in it are arrays of a kernel that take some pages; others are on the stack */
    CPU_IN_SCRATCH_NBYTES = 16 << 10 /* at least */
};

typedef struct cpu_emit {
    an_ctx *ctx;
    const cpu_host *host;
    const an_kernel *kernel;
    const an_graph *g;
    LLVMContextRef llvm;
    LLVMModuleRef module;
    LLVMBuilderRef b;
    LLVMValueRef fn;
    LLVMBasicBlockRef entry; /* allocas only; branches to what follows once the kernel is whole */
    LLVMValueRef params[AN_KERNEL_PARAM_MAX];
    LLVMValueRef vars;       /* pointer to their values */
    LLVMValueRef part, nparts; /* of the outermost THREAD loops, what is to be run */
    LLVMValueRef scratch;
    uint64_t scratch_nbytes;   /* of it, taken */
    an_idmap value_of;       /* node -> 1 + its value in values */
    AN_VEC(LLVMValueRef) values;
    AN_VEC(cpu_loop) loops;
    struct {
        an_uop rows[CPU_TURN_MAX];
        LLVMValueRef columns[CPU_TURN_MAX];
        uint32_t n;
        LLVMBasicBlockRef block; /* where they are */
    } turned; /* the block last transposed */
} cpu_emit;

/* kernel.c: adds to module a function `name`, a cpu_entry (jit.h). */
an_status cpu_emit_kernel(an_ctx *ctx, const cpu_host *host, LLVMContextRef llvm, LLVMModuleRef module,
                          const an_kernel *kernel, const char *name);
/* How many parts the kernel can be cut into: the most iterations of an outermost loop if all of them are THREAD loops, 1 if not. */
int64_t cpu_kernel_parts(const an_kernel *kernel);
LLVMValueRef cpu_value(const cpu_emit *e, an_uop u); /* of a node that came before; an ACC: its value now */
bool cpu_set_value(cpu_emit *e, an_uop u, LLVMValueRef v);
an_status cpu_unsupported(const cpu_emit *e, an_uop u);

/* types.c */
LLVMTypeRef cpu_reg_type(const cpu_emit *e, an_dtype dtype, uint32_t lanes);
LLVMTypeRef cpu_mem_type(const cpu_emit *e, an_dtype dtype, uint32_t lanes);
LLVMTypeRef cpu_with_elem(LLVMTypeRef elem, LLVMTypeRef like); /* elem, with as many lanes as like */
LLVMTypeRef cpu_elem(LLVMTypeRef type);
uint32_t cpu_lanes(LLVMTypeRef type);
uint32_t cpu_bits(LLVMTypeRef type); /* of an integer type or a vector of them */
LLVMTypeRef cpu_int_type(const cpu_emit *e, uint32_t bits, LLVMTypeRef like);
LLVMTypeRef cpu_f32_type(const cpu_emit *e, LLVMTypeRef like);
LLVMTypeRef cpu_f64_type(const cpu_emit *e, LLVMTypeRef like);
LLVMValueRef cpu_int(LLVMTypeRef type, uint64_t v); /* a constant in every lane */
LLVMValueRef cpu_real(LLVMTypeRef type, double v);
LLVMValueRef cpu_const(const cpu_emit *e, an_dtype dtype, an_scalar v);
LLVMValueRef cpu_splat(const cpu_emit *e, LLVMValueRef scalar, uint32_t lanes);
/* An intrinsic overloaded on types; as many arguments as it takes. */
LLVMValueRef cpu_intrinsic(const cpu_emit *e, const char *name, LLVMTypeRef *types, size_t ntypes, LLVMValueRef *args,
                           uint32_t nargs);
LLVMValueRef cpu_unary(const cpu_emit *e, const char *intrinsic, LLVMValueRef x); /* overloaded on the type of x */
LLVMValueRef cpu_fma(const cpu_emit *e, LLVMValueRef x, LLVMValueRef y, LLVMValueRef z);
/* x86.c, of f32 that fill whole vector registers. x 2^n, n a whole number, and x less the whole number next to it, of infinities 0,
 * where each is one instruction. */
bool cpu_x86_can_scale(const cpu_emit *e, LLVMValueRef x);
LLVMValueRef cpu_x86_fraction(const cpu_emit *e, LLVMValueRef x);
LLVMValueRef cpu_x86_scale(const cpu_emit *e, LLVMValueRef x, LLVMValueRef n);
/* x where it is more (max) or less than y, else y; NULL where that is no instruction. */
LLVMValueRef cpu_x86_extreme(const cpu_emit *e, bool max, LLVMValueRef x, LLVMValueRef y);
/* A C function of doubles, called for each lane. */
LLVMValueRef cpu_call_libm(const cpu_emit *e, const char *name, LLVMValueRef x);

/* convert.c */
bool cpu_is_narrow(an_dtype dtype);                                           /* a float narrower than f32 */
LLVMValueRef cpu_round(const cpu_emit *e, an_dtype dtype, LLVMValueRef x);    /* a float to the values of dtype */
LLVMValueRef cpu_to_bits(const cpu_emit *e, an_dtype dtype, LLVMValueRef x);  /* register to memory type */
LLVMValueRef cpu_from_bits(const cpu_emit *e, an_dtype dtype, LLVMValueRef x);
LLVMValueRef cpu_cast(const cpu_emit *e, an_dtype from, an_dtype to, LLVMValueRef x);
LLVMValueRef cpu_bitcast(const cpu_emit *e, an_dtype from, an_dtype to, LLVMValueRef x);

/* arith.c: an elementwise op on operands of dtype (but CAST and BITCAST); NULL if there is no such op of that dtype. */
LLVMValueRef cpu_arith(const cpu_emit *e, an_op op, an_dtype dtype, const LLVMValueRef *s);

/* math.c: f32 in any lanes. Errors and special values: docs/SEMANTICS.md. */
LLVMValueRef cpu_exp2(const cpu_emit *e, LLVMValueRef x);
LLVMValueRef cpu_log2(const cpu_emit *e, LLVMValueRef x);
LLVMValueRef cpu_sin(const cpu_emit *e, LLVMValueRef x);
LLVMValueRef cpu_erf(const cpu_emit *e, LLVMValueRef x);

/* memory.c */
an_status cpu_emit_load(cpu_emit *e, an_uop u);
an_status cpu_emit_store(cpu_emit *e, an_uop u);
void cpu_emit_prefetch(const cpu_emit *e, an_uop u);

/* flow.c */
LLVMValueRef cpu_alloca(cpu_emit *e, LLVMTypeRef type); /* in the entry block */
an_status cpu_emit_range(cpu_emit *e, an_uop u);
an_status cpu_emit_end(cpu_emit *e);
/* n vectors of at most n lanes, n a power of two: in place of vector i, lane i of each. */
void cpu_turn(const cpu_emit *e, LLVMValueRef *v, uint32_t n);
LLVMValueRef cpu_hreduce(const cpu_emit *e, an_op op, an_dtype dtype, LLVMValueRef x);

#endif
