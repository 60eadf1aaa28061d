/* ahead.c - loads that move on in long steps: what later iterations will read is asked for now.
 *
 * Processors see small steps by themselves, but not from page to page, and rows of a matrix are that far apart. */
#include "backend/cpu/emit.h"

enum {
    AHEAD = 16,         /* iterations */
    STEP_NBYTES = 2048, /* at least */
    LINE_NBYTES = 64
};

/* index is root + offset. */
static an_uop root_of(const an_graph *g, an_uop index, int64_t *offset)
{
    *offset = 0;
    if (an_uop_op(g, index) != AN_OP_ADD || !an_uop_int(g, an_uop_src(g, index, 1), offset)) return index;
    return an_uop_src(g, index, 0);
}

/* Is the line that begins there, or near, asked for already? Notes it if not. */
static bool is_known(cpu_emit *e, an_uop ptr, an_uop root, int64_t offset, int64_t nbytes)
{
    const LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b);
    if (e->asked.block != here) e->asked.n = 0;
    e->asked.block = here;
    for (uint32_t i = 0; i < e->asked.n; i++) {
        const int64_t apart = (offset - e->asked.offset[i]) * nbytes;
        if (an_uop_eq(e->asked.ptr[i], ptr) && an_uop_eq(e->asked.root[i], root) && apart < LINE_NBYTES && apart > -LINE_NBYTES) return true;
    }
    if (e->asked.n == CPU_ASKED_MAX) return true;
    e->asked.ptr[e->asked.n] = ptr;
    e->asked.root[e->asked.n] = root;
    e->asked.offset[e->asked.n++] = offset;
    return false;
}

an_status cpu_ask_ahead(cpu_emit *e, an_uop ptr, an_uop index, LLVMValueRef at)
{
    const an_graph *g = e->g;
    const int64_t nbytes = (int64_t)an_dtype_nbytes(an_uop_dtype(g, ptr));
    const LLVMTypeRef i32 = LLVMInt32TypeInContext(e->llvm);
    int64_t step = 0, offset = 0;
    if (e->loops.len == 0 || an_uop_op(g, ptr) != AN_OP_PARAM) return AN_OK;
    if (!an_index_step(e->kernel->graph, index, e->loops.data[e->loops.len - 1].range, &step))
        return an_ctx_status(an_graph_ctx(g)) == AN_ERR_NOMEM ? AN_ERR_NOMEM : AN_OK;
    if (step > INT32_MAX || step < INT32_MIN || (step * nbytes < STEP_NBYTES && step * nbytes > -STEP_NBYTES)) return AN_OK;
    const an_uop root = root_of(g, index, &offset);
    if (is_known(e, ptr, root, offset, nbytes)) return AN_OK;
    LLVMValueRef by = LLVMConstInt(LLVMInt64TypeInContext(e->llvm), (uint64_t)(AHEAD * step * nbytes), true);
    LLVMTypeRef type = LLVMTypeOf(at);
    LLVMValueRef args[4] = {LLVMBuildGEP2(e->b, LLVMInt8TypeInContext(e->llvm), at, &by, 1, ""), LLVMConstInt(i32, 0, false),
                            LLVMConstInt(i32, 3, false), LLVMConstInt(i32, 1, false)}; /* to be read, into the first cache, data */
    cpu_intrinsic(e, "llvm.prefetch", &type, 1, args, 4);
    return AN_OK;
}
