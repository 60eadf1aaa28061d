/* memory.c - loads and stores: consecutive, gated, gathered, scattered.
 *
 * A gate that is false touches nothing: consecutive vectors go through LLVM's masked intrinsics, a scalar load reads a
 * constant zero instead, a scalar store branches. A gated address may lie outside its buffer where the gate is false, so it
 * is computed without inbounds. */
#include "backend/cpu/emit.h"

typedef struct place {
    an_dtype dtype;
    uint32_t lanes;
    LLVMTypeRef type;           /* in memory */
    LLVMValueRef base;          /* of the buffer */
    LLVMValueRef at;            /* address; of the first lane where they are consecutive; a vector of them otherwise */
    LLVMValueRef gate;          /* or NULL */
    bool scattered;
    unsigned align;
} place;

static LLVMValueRef address(const cpu_emit *e, const place *p, LLVMValueRef index)
{
    const LLVMTypeRef elem = cpu_elem(p->type);
    return p->gate ? LLVMBuildGEP2(e->b, elem, p->base, &index, 1, "") : LLVMBuildInBoundsGEP2(e->b, elem, p->base, &index, 1, "");
}

static place place_of(const cpu_emit *e, an_uop u, uint32_t gate_at)
{
    const an_graph *g = e->g;
    const an_uop param = an_uop_src(g, u, 0), index = an_uop_src(g, u, 1);
    place p = {.dtype = an_uop_dtype(g, param), .lanes = an_uop_lanes(g, index), .base = cpu_value(e, param)};
    p.type = cpu_mem_type(e, p.dtype, p.lanes);
    p.align = (unsigned)an_dtype_nbytes(p.dtype);
    if (an_uop_nsrc(g, u) > gate_at) p.gate = cpu_value(e, an_uop_src(g, u, gate_at));
    const bool ramp = an_uop_op(g, index) == AN_OP_RAMP;
    p.scattered = p.lanes > 1 && !ramp;
    p.at = address(e, &p, cpu_value(e, ramp ? an_uop_src(g, index, 0) : index));
    return p;
}

static LLVMTypeRef pointer_type(const cpu_emit *e, uint32_t lanes)
{
    const LLVMTypeRef ptr = LLVMPointerTypeInContext(e->llvm, 0);
    return lanes > 1 ? LLVMVectorType(ptr, lanes) : ptr;
}

static LLVMValueRef all_lanes(const cpu_emit *e, const place *p)
{
    if (p->gate) return p->gate;
    return cpu_int(cpu_int_type(e, 1, p->type), 1);
}

static LLVMValueRef i32_const(const cpu_emit *e, unsigned v)
{
    return LLVMConstInt(LLVMInt32TypeInContext(e->llvm), v, false);
}

/* Eight bytes of zero: what a scalar load reads where its gate is false. */
static LLVMValueRef zero_cell(const cpu_emit *e)
{
    static const char name[] = "zero";
    LLVMValueRef cell = LLVMGetNamedGlobal(e->module, name);
    if (cell) return cell;
    const LLVMTypeRef i64 = LLVMInt64TypeInContext(e->llvm);
    cell = LLVMAddGlobal(e->module, i64, name);
    LLVMSetInitializer(cell, LLVMConstInt(i64, 0, false));
    LLVMSetGlobalConstant(cell, true);
    LLVMSetLinkage(cell, LLVMPrivateLinkage);
    return cell;
}

static LLVMValueRef load(const cpu_emit *e, const place *p)
{
    LLVMTypeRef types[2] = {p->type, pointer_type(e, 1)};
    if (p->scattered) {
        types[1] = pointer_type(e, p->lanes);
        LLVMValueRef args[4] = {p->at, i32_const(e, p->align), all_lanes(e, p), LLVMConstNull(p->type)};
        return cpu_intrinsic(e, "llvm.masked.gather", types, 2, args, 4);
    }
    if (p->gate && p->lanes > 1) {
        LLVMValueRef args[4] = {p->at, i32_const(e, p->align), p->gate, LLVMConstNull(p->type)};
        return cpu_intrinsic(e, "llvm.masked.load", types, 2, args, 4);
    }
    LLVMValueRef at = p->at;
    if (p->gate) at = LLVMBuildSelect(e->b, p->gate, at, zero_cell(e), "");
    const LLVMValueRef v = LLVMBuildLoad2(e->b, p->type, at, "");
    LLVMSetAlignment(v, p->align);
    return v;
}

an_status cpu_emit_load(cpu_emit *e, an_uop u)
{
    const place p = place_of(e, u, 2);
    return cpu_set_value(e, u, cpu_from_bits(e, p.dtype, load(e, &p))) ? AN_OK : AN_ERR_NOMEM;
}

static void store_plain(const cpu_emit *e, const place *p, LLVMValueRef v)
{
    LLVMSetAlignment(LLVMBuildStore(e->b, v, p->at), p->align);
}

static void store_branching(const cpu_emit *e, const place *p, LLVMValueRef v)
{
    const LLVMBasicBlockRef then = LLVMAppendBasicBlockInContext(e->llvm, e->fn, "store");
    const LLVMBasicBlockRef after = LLVMAppendBasicBlockInContext(e->llvm, e->fn, "stored");
    LLVMBuildCondBr(e->b, p->gate, then, after);
    LLVMPositionBuilderAtEnd(e->b, then);
    store_plain(e, p, v);
    LLVMBuildBr(e->b, after);
    LLVMPositionBuilderAtEnd(e->b, after);
}

an_status cpu_emit_store(cpu_emit *e, an_uop u)
{
    const place p = place_of(e, u, 3);
    const LLVMValueRef v = cpu_to_bits(e, p.dtype, cpu_value(e, an_uop_src(e->g, u, 2)));
    if (p.lanes > 1 && (p.gate || p.scattered)) {
        LLVMTypeRef types[2] = {p.type, pointer_type(e, p.scattered ? p.lanes : 1)};
        LLVMValueRef args[4] = {v, p.at, i32_const(e, p.align), all_lanes(e, &p)};
        cpu_intrinsic(e, p.scattered ? "llvm.masked.scatter" : "llvm.masked.store", types, 2, args, 4);
    } else if (p.gate) {
        store_branching(e, &p, v);
    } else {
        store_plain(e, &p, v);
    }
    return AN_OK;
}

/* The address may lie past the end: it is computed without inbounds. */
void cpu_emit_prefetch(const cpu_emit *e, an_uop u)
{
    const LLVMTypeRef elem = cpu_elem(cpu_mem_type(e, an_uop_dtype(e->g, an_uop_src(e->g, u, 0)), 1));
    LLVMValueRef index = cpu_value(e, an_uop_src(e->g, u, 1));
    const LLVMValueRef at = LLVMBuildGEP2(e->b, elem, cpu_value(e, an_uop_src(e->g, u, 0)), &index, 1, "");
    enum { ALL_LEVELS = 3, DATA = 1 };
    LLVMTypeRef type = pointer_type(e, 1);
    LLVMValueRef args[4] = {at, i32_const(e, (uint32_t)an_uop_arg(e->g, u)), i32_const(e, ALL_LEVELS), i32_const(e, DATA)};
    cpu_intrinsic(e, "llvm.prefetch", &type, 1, args, 4);
}
