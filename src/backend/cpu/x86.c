/* x86.c - instructions of x86 that LLVM's own language has no word for, on whole registers of f32. */
#include "backend/cpu/emit.h"

typedef LLVMValueRef V;

enum { PIECES_MAX = 16, ARGS_MAX = 5 };

/* Lanes from first on, n of them; those of b come after a's. */
static V lanes_of(const cpu_emit *e, V a, V b, uint32_t first, uint32_t n)
{
    const LLVMTypeRef i32 = LLVMInt32TypeInContext(e->llvm);
    V at[AN_LANES_MAX];
    for (uint32_t i = 0; i < n; i++) at[i] = LLVMConstInt(i32, first + i, 0);
    return LLVMBuildShuffleVector(e->b, a, b, LLVMConstVector(at, n), "");
}

/* The lanes of a register, or 0 where x does not fill whole registers with f32. */
static uint32_t register_lanes(const cpu_emit *e, V x)
{
    const uint32_t lanes = cpu_lanes(LLVMTypeOf(x)), n = e->host->vector_nbytes / 4;
    const bool fills = lanes >= n && lanes % n == 0 && lanes / n <= PIECES_MAX && ((lanes / n) & (lanes / n - 1)) == 0;
    return e->host->is_x86 && LLVMGetTypeKind(cpu_elem(LLVMTypeOf(x))) == LLVMFloatTypeKind && fills ? n : 0;
}

/* The intrinsic of nx vectors and whatever arguments come after them, a register at a time. */
static V in_registers(const cpu_emit *e, const char *name, const V *x, uint32_t nx, uint32_t lanes, const V *more, uint32_t nmore)
{
    uint32_t n = cpu_lanes(LLVMTypeOf(x[0])) / lanes;
    V out[PIECES_MAX];
    for (uint32_t i = 0; i < n; i++) {
        V args[ARGS_MAX];
        for (uint32_t k = 0; k < nx; k++) args[k] = n == 1 ? x[k] : lanes_of(e, x[k], x[k], i * lanes, lanes);
        for (uint32_t k = 0; k < nmore; k++) args[nx + k] = more[k];
        out[i] = cpu_intrinsic(e, name, NULL, 0, args, nx + nmore);
    }
    for (; n > 1; n /= 2, lanes *= 2)
        for (uint32_t i = 0; i < n / 2; i++) out[i] = lanes_of(e, out[2 * i], out[2 * i + 1], 0, 2 * lanes);
    return out[0];
}

/* The arguments that say which lanes, all of them, and which rounding, the one that the processor is set to. */
typedef struct masked {
    V old, lanes, rounding;
} masked;

static masked all_of(const cpu_emit *e)
{
    return (masked){LLVMConstNull(LLVMVectorType(LLVMFloatTypeInContext(e->llvm), 16)), LLVMConstAllOnes(LLVMInt16TypeInContext(e->llvm)),
                    LLVMConstInt(LLVMInt32TypeInContext(e->llvm), 4, 0)};
}

bool cpu_x86_can_scale(const cpu_emit *e, V x)
{
    return e->host->has_scale && register_lanes(e, x) == 16;
}

V cpu_x86_scale(const cpu_emit *e, V x, V n)
{
    const masked m = all_of(e);
    return in_registers(e, "llvm.x86.avx512.mask.scalef.ps.512", (V[]){x, n}, 2, 16, (V[]){m.old, m.lanes, m.rounding}, 3);
}

V cpu_x86_fraction(const cpu_emit *e, V x)
{
    const masked m = all_of(e);
    const V to_nearest = LLVMConstInt(LLVMInt32TypeInContext(e->llvm), 8, 0);
    return in_registers(e, "llvm.x86.avx512.mask.reduce.ps.512", &x, 1, 16, (V[]){to_nearest, m.old, m.lanes, m.rounding}, 4);
}

V cpu_x86_extreme(const cpu_emit *e, bool max, V x, V y)
{
    const V both[2] = {x, y}, rounding = all_of(e).rounding;
    switch (register_lanes(e, x)) {
    case 4: return in_registers(e, max ? "llvm.x86.sse.max.ps" : "llvm.x86.sse.min.ps", both, 2, 4, NULL, 0);
    case 8: return in_registers(e, max ? "llvm.x86.avx.max.ps.256" : "llvm.x86.avx.min.ps.256", both, 2, 8, NULL, 0);
    case 16: return in_registers(e, max ? "llvm.x86.avx512.max.ps.512" : "llvm.x86.avx512.min.ps.512", both, 2, 16, &rounding, 1);
    default: return NULL;
    }
}
