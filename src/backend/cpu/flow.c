/* flow.c - loops, and what crosses lanes. */
#include "backend/cpu/emit.h"

#include <llvm-c/DebugInfo.h>
#include <stdio.h>

LLVMValueRef cpu_alloca(cpu_emit *e, LLVMTypeRef type)
{
    const LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b);
    LLVMPositionBuilderAtEnd(e->b, e->entry);
    const LLVMValueRef cell = LLVMBuildAlloca(e->b, type, "");
    LLVMPositionBuilderAtEnd(e->b, here);
    return cell;
}

static bool is_positive(LLVMValueRef bound)
{
    return LLVMIsAConstantInt(bound) && LLVMConstIntGetSExtValue(bound) > 0;
}

/* bound * at / nparts: where a part begins, and the one before it ends. */
static LLVMValueRef part_of(const cpu_emit *e, LLVMValueRef bound, LLVMValueRef at)
{
    return LLVMBuildUDiv(e->b, LLVMBuildMul(e->b, bound, at, ""), e->nparts, "");
}

/*   here: --(first < bound)--> body: i = phi(first, i+1) ... i+1 < bound ? body : exit
 * first is 0, but for the part of an outermost THREAD loop. The test in front is left out where it is known to hold. */
an_status cpu_emit_range(cpu_emit *e, an_uop u)
{
    LLVMBuilderRef b = e->b;
    const LLVMTypeRef i64 = LLVMInt64TypeInContext(e->llvm);
    const LLVMBasicBlockRef here = LLVMGetInsertBlock(b);
    cpu_loop l = {.range = u,
                  .bound = cpu_value(e, an_uop_src(e->g, u, 0)),
                  .body = LLVMAppendBasicBlockInContext(e->llvm, e->fn, "loop"),
                  .exit = LLVMAppendBasicBlockInContext(e->llvm, e->fn, "exit")};
    LLVMValueRef first = LLVMConstInt(i64, 0, false);
    LLVMBasicBlockRef from = here;
    const bool in_parts = e->loops.len == 0 && an_range_kind_of(an_uop_arg(e->g, u)) == AN_RANGE_THREAD;
    if (in_parts) {
        const LLVMValueRef whole = l.bound;
        first = part_of(e, whole, e->part);
        l.bound = part_of(e, whole, LLVMBuildAdd(b, e->part, LLVMConstInt(i64, 1, false), ""));
    }
    if (!in_parts && is_positive(l.bound))
        LLVMBuildBr(b, l.body);
    else
        LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntSLT, first, l.bound, ""), l.body, l.exit);
    LLVMPositionBuilderAtEnd(b, l.body);
    char name[16];
    (void)snprintf(name, sizeof name, "r%u", an_range_id(an_uop_arg(e->g, u)));
    l.counter = LLVMBuildPhi(b, i64, name);
    LLVMAddIncoming(l.counter, &first, &from, 1);
    if (!an_vec_push(e->ctx, &e->loops, l)) return AN_ERR_NOMEM;
    return cpu_set_value(e, u, l.counter) ? AN_OK : AN_ERR_NOMEM;
}

/* Code of a loop that ends in this branch begins at a cache line. */
static void align_loop(const cpu_emit *e, LLVMValueRef branch)
{
    static const char name[] = "llvm.loop.align", kind[] = "llvm.loop";
    const LLVMTypeRef i32 = LLVMInt32TypeInContext(e->llvm);
    LLVMMetadataRef pair[2] = {LLVMMDStringInContext2(e->llvm, name, sizeof name - 1), LLVMValueAsMetadata(LLVMConstInt(i32, 64, false))};
    LLVMMetadataRef own = LLVMTemporaryMDNode(e->llvm, NULL, 0); /* the first of the list is the list itself */
    LLVMMetadataRef list[2] = {own, LLVMMDNodeInContext2(e->llvm, pair, 2)};
    const LLVMMetadataRef node = LLVMMDNodeInContext2(e->llvm, list, 2);
    LLVMMetadataReplaceAllUsesWith(own, node);
    LLVMSetMetadata(branch, LLVMGetMDKindIDInContext(e->llvm, kind, sizeof kind - 1), LLVMMetadataAsValue(e->llvm, node));
}

an_status cpu_emit_end(cpu_emit *e)
{
    const cpu_loop l = e->loops.data[--e->loops.len];
    LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b);
    LLVMValueRef next = LLVMBuildNSWAdd(e->b, l.counter, LLVMConstInt(LLVMTypeOf(l.counter), 1, false), "");
    LLVMAddIncoming(l.counter, &next, &here, 1);
    const LLVMValueRef branch = LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, next, l.bound, ""), l.body, l.exit);
    if (here == l.body) align_loop(e, branch);
    LLVMPositionBuilderAtEnd(e->b, l.exit);
    return AN_OK;
}

/* Lanes from..from+n-1 of x. */
static LLVMValueRef lanes_from(const cpu_emit *e, LLVMValueRef x, uint32_t from, uint32_t n)
{
    const LLVMTypeRef i32 = LLVMInt32TypeInContext(e->llvm);
    if (n == 1) return LLVMBuildExtractElement(e->b, x, LLVMConstInt(i32, from, false), "");
    LLVMValueRef mask[AN_LANES_MAX];
    for (uint32_t i = 0; i < n; i++) mask[i] = LLVMConstInt(i32, from + i, false);
    return LLVMBuildShuffleVector(e->b, x, LLVMGetPoison(LLVMTypeOf(x)), LLVMConstVector(mask, n), "");
}

static LLVMValueRef shuffle(const cpu_emit *e, LLVMValueRef a, LLVMValueRef b, const uint32_t *from, uint32_t n)
{
    LLVMValueRef mask[CPU_TURN_MAX];
    for (uint32_t l = 0; l < n; l++) mask[l] = LLVMConstInt(LLVMInt32TypeInContext(e->llvm), from[l], false);
    return LLVMBuildShuffleVector(e->b, a, b, LLVMConstVector(mask, n), "");
}

/* Swaps the off-diagonal quarters, then those of each quarter, and so on. */
void cpu_turn(const cpu_emit *e, LLVMValueRef *v, uint32_t n)
{
    uint32_t from[2][CPU_TURN_MAX];
    for (uint32_t l = 0; l < n; l++) from[0][l] = l;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t lanes = cpu_lanes(LLVMTypeOf(v[i]));
        for (uint32_t l = lanes; l < n; l++) from[0][l] = lanes; /* any: of the poison vector */
        if (lanes < n) v[i] = shuffle(e, v[i], LLVMGetPoison(LLVMTypeOf(v[i])), from[0], n);
    }
    for (uint32_t s = n / 2; s; s /= 2) {
        for (uint32_t l = 0; l < n; l++) {
            from[0][l] = l & s ? n + (l ^ s) : l;
            from[1][l] = l & s ? n + l : l | s;
        }
        for (uint32_t i = 0; i < n; i++) {
            if (i & s) continue;
            const LLVMValueRef a = v[i], b = v[i | s];
            v[i] = shuffle(e, a, b, from[0], n);
            v[i | s] = shuffle(e, a, b, from[1], n);
        }
    }
}

/* Lane l takes lane l + ceil(n/2), until one is left. While the lanes are even in number whole halves are joined; the rest
 * goes lane by lane. */
LLVMValueRef cpu_hreduce(const cpu_emit *e, an_op op, an_dtype dtype, LLVMValueRef x)
{
    uint32_t n = cpu_lanes(LLVMTypeOf(x));
    for (; n > 1 && n % 2 == 0; n /= 2) {
        const LLVMValueRef halves[3] = {lanes_from(e, x, 0, n / 2), lanes_from(e, x, n / 2, n / 2)};
        x = cpu_arith(e, op, dtype, halves);
        if (!x) return NULL;
    }
    if (n == 1) return x;
    LLVMValueRef lane[AN_LANES_MAX];
    for (uint32_t l = 0; l < n; l++) lane[l] = lanes_from(e, x, l, 1);
    for (; n > 1; n = (n + 1) / 2)
        for (uint32_t l = 0; l < n / 2; l++) {
            const LLVMValueRef pair[3] = {lane[l], lane[l + (n + 1) / 2]};
            lane[l] = cpu_arith(e, op, dtype, pair);
            if (!lane[l]) return NULL;
        }
    return lane[0];
}
