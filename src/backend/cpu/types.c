/* types.c - dtypes as LLVM types, constants, calls of intrinsics and of libm. */
#include "backend/cpu/emit.h"

LLVMTypeRef cpu_elem(LLVMTypeRef type)
{
    return LLVMGetTypeKind(type) == LLVMVectorTypeKind ? LLVMGetElementType(type) : type;
}

uint32_t cpu_lanes(LLVMTypeRef type)
{
    return LLVMGetTypeKind(type) == LLVMVectorTypeKind ? LLVMGetVectorSize(type) : 1;
}

uint32_t cpu_bits(LLVMTypeRef type)
{
    return LLVMGetIntTypeWidth(cpu_elem(type));
}

static LLVMTypeRef with_lanes(LLVMTypeRef elem, uint32_t lanes)
{
    return lanes == 1 ? elem : LLVMVectorType(elem, lanes);
}

LLVMTypeRef cpu_with_elem(LLVMTypeRef elem, LLVMTypeRef like)
{
    return with_lanes(elem, cpu_lanes(like));
}

LLVMTypeRef cpu_int_type(const cpu_emit *e, uint32_t bits, LLVMTypeRef like)
{
    return cpu_with_elem(LLVMIntTypeInContext(e->llvm, bits), like);
}

LLVMTypeRef cpu_f32_type(const cpu_emit *e, LLVMTypeRef like)
{
    return cpu_with_elem(LLVMFloatTypeInContext(e->llvm), like);
}

LLVMTypeRef cpu_f64_type(const cpu_emit *e, LLVMTypeRef like)
{
    return cpu_with_elem(LLVMDoubleTypeInContext(e->llvm), like);
}

LLVMTypeRef cpu_reg_type(const cpu_emit *e, an_dtype dtype, uint32_t lanes)
{
    LLVMTypeRef t = NULL;
    if (dtype == AN_BOOL)
        t = LLVMInt1TypeInContext(e->llvm);
    else if (dtype == AN_F64)
        t = LLVMDoubleTypeInContext(e->llvm);
    else if (an_dtype_kind_of(dtype) == AN_KIND_FLOAT)
        t = LLVMFloatTypeInContext(e->llvm);
    else
        t = LLVMIntTypeInContext(e->llvm, (unsigned)(8 * an_dtype_nbytes(dtype)));
    return with_lanes(t, lanes);
}

LLVMTypeRef cpu_mem_type(const cpu_emit *e, an_dtype dtype, uint32_t lanes)
{
    if (dtype == AN_F32 || dtype == AN_F64) return cpu_reg_type(e, dtype, lanes);
    return with_lanes(LLVMIntTypeInContext(e->llvm, (unsigned)(8 * an_dtype_nbytes(dtype))), lanes);
}

static LLVMValueRef in_every_lane(LLVMTypeRef type, LLVMValueRef c)
{
    LLVMValueRef all[AN_LANES_MAX];
    const uint32_t lanes = cpu_lanes(type);
    if (lanes == 1) return c;
    for (uint32_t i = 0; i < lanes; i++) all[i] = c;
    return LLVMConstVector(all, lanes);
}

LLVMValueRef cpu_int(LLVMTypeRef type, uint64_t v)
{
    return in_every_lane(type, LLVMConstInt(cpu_elem(type), v, 1));
}

LLVMValueRef cpu_real(LLVMTypeRef type, double v)
{
    return in_every_lane(type, LLVMConstReal(cpu_elem(type), v));
}

LLVMValueRef cpu_const(const cpu_emit *e, an_dtype dtype, an_scalar v)
{
    const LLVMTypeRef t = cpu_reg_type(e, dtype, 1);
    return an_dtype_kind_of(dtype) == AN_KIND_FLOAT ? cpu_real(t, v.f) : cpu_int(t, v.u);
}

LLVMValueRef cpu_splat(const cpu_emit *e, LLVMValueRef scalar, uint32_t lanes)
{
    if (lanes == 1) return scalar;
    const LLVMTypeRef t = LLVMVectorType(LLVMTypeOf(scalar), lanes), i32 = LLVMInt32TypeInContext(e->llvm);
    const LLVMValueRef v = LLVMBuildInsertElement(e->b, LLVMGetPoison(t), scalar, LLVMConstInt(i32, 0, 0), "");
    return LLVMBuildShuffleVector(e->b, v, LLVMGetPoison(t), LLVMConstNull(LLVMVectorType(i32, lanes)), "");
}

LLVMValueRef cpu_intrinsic(const cpu_emit *e, const char *name, LLVMTypeRef *types, size_t ntypes, LLVMValueRef *args,
                           uint32_t nargs)
{
    const unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    const LLVMValueRef fn = LLVMGetIntrinsicDeclaration(e->module, id, types, ntypes);
    return LLVMBuildCall2(e->b, LLVMIntrinsicGetType(e->llvm, id, types, ntypes), fn, args, nargs, "");
}

LLVMValueRef cpu_unary(const cpu_emit *e, const char *intrinsic, LLVMValueRef x)
{
    LLVMTypeRef t = LLVMTypeOf(x);
    return cpu_intrinsic(e, intrinsic, &t, 1, &x, 1);
}

LLVMValueRef cpu_fma(const cpu_emit *e, LLVMValueRef x, LLVMValueRef y, LLVMValueRef z)
{
    LLVMTypeRef t = LLVMTypeOf(x);
    LLVMValueRef args[3] = {x, y, z};
    return cpu_intrinsic(e, "llvm.fma", &t, 1, args, 3);
}

LLVMValueRef cpu_call_libm(const cpu_emit *e, const char *name, LLVMValueRef x)
{
    LLVMTypeRef f64 = LLVMDoubleTypeInContext(e->llvm);
    const LLVMTypeRef type = LLVMFunctionType(f64, &f64, 1, 0), i32 = LLVMInt32TypeInContext(e->llvm);
    LLVMValueRef fn = LLVMGetNamedFunction(e->module, name);
    if (!fn) fn = LLVMAddFunction(e->module, name, type);
    const uint32_t lanes = cpu_lanes(LLVMTypeOf(x));
    if (lanes == 1) return LLVMBuildCall2(e->b, type, fn, &x, 1, "");
    LLVMValueRef out = LLVMGetPoison(LLVMTypeOf(x));
    for (uint32_t i = 0; i < lanes; i++) {
        const LLVMValueRef at = LLVMConstInt(i32, i, 0);
        LLVMValueRef lane = LLVMBuildExtractElement(e->b, x, at, "");
        lane = LLVMBuildCall2(e->b, type, fn, &lane, 1, "");
        out = LLVMBuildInsertElement(e->b, out, lane, at, "");
    }
    return out;
}
