/* program.h - a linear list decoded for the interpreter: registers instead of nodes, jumps instead of loops. */
#ifndef AN_BACKEND_INTERP_PROGRAM_H
#define AN_BACKEND_INTERP_PROGRAM_H

#include "codegen/codegen.h"
#include "ir/eval.h"
#include <anneal/backend.h>

/* How an instruction is run: the scalar ones that make up nearly all of a kernel have a case of their own. */
typedef enum interp_how {
    INTERP_ANY, /* by op, lane by lane */
    INTERP_ADD_F32,
    INTERP_MUL_F32,
    INTERP_MULACC_F32,
    INTERP_ADD_INDEX,
    INTERP_MUL_INDEX,
    INTERP_LOAD_F32, /* without a gate */
    INTERP_SET,      /* an accumulator */
    INTERP_NEXT      /* the end of a loop */
} interp_how;

/* Each value has lanes registers in a row, each one an an_scalar; dst and src are the first of them. */
typedef struct interp_inst {
    uint8_t how;     /* interp_how */
    uint8_t op;      /* an_op */
    uint8_t dtype;   /* of the operands for elementwise ops and conversions' sources, else of the value */
    uint8_t to;      /* CAST, BITCAST: of the result */
    uint8_t lanes;
    uint32_t dst;
    uint32_t src[3]; /* registers; LOAD: index, gate; STORE: index, value, gate. No gate: NO_GATE */
    uint32_t arg;    /* param slot, lane, reduce op, or where to jump */
    uint32_t nsrc;
    uint32_t vec_src; /* VECTOR: first entry in program.lists. MATRIX: src are row and column, arg is how many products are summed */
} interp_inst;

/* Of each factor of a MATRIX, in program.lists: scratch, register of where it begins, steps between rows and between columns. */
enum { INTERP_FRAGMENT_NLIST = 4 };

static const uint32_t INTERP_NO_GATE = UINT32_MAX;

typedef struct interp_program {
    an_program_base base;
    char *name;
    size_t name_nbytes;
    AN_VEC(interp_inst) insts;
    AN_VEC(uint32_t) lists;   /* registers of VECTOR sources */
    AN_VEC(an_scalar) regs;   /* as they are before a launch: constants in place */
    an_kernel_param params[AN_KERNEL_PARAM_MAX + AN_LOCALS_MAX]; /* scratch arrays come after the params, at their numbers */
    int64_t local_count[AN_LOCALS_MAX]; /* elements; 0: there is none */
    uint32_t nparams;
    uint32_t var_regs[AN_KERNEL_VAR_MAX];
    uint32_t nvars;
} interp_program;

typedef struct interp_buffer {
    an_buffer_base base;
    unsigned char *data;
} interp_buffer;

an_status interp_decode(an_ctx *ctx, const an_kernel *kernel, interp_program *out);
void interp_program_fini(an_ctx *ctx, interp_program *p);
an_status interp_run(an_ctx *ctx, interp_program *p, const an_launch *launch);

#endif
