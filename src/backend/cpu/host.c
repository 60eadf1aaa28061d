/* host.c - the machine we run on.
 *
 * State outside a context: LLVM's own registry of targets, filled by cpu_host_init. Each fill writes the same pointers. */
#include "backend/cpu/jit.h"

#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>

/* name is "+avx2": on, in a list with commas. Names start others: avx512f, avx512fp16. */
static bool has_feature(const cpu_host *host, const char *name)
{
    const size_t len = strlen(name);
    for (const char *at = strstr(host->features, name); at; at = strstr(at + 1, name))
        if (at[len] == ',' || at[len] == '\0') return true;
    return false;
}

/* Of a comparison with halves in memory under a mask LLVM 19 takes the wrong side first (vcmpltph for both < and >). We compute in f32 anyway. */
static void leave_out_native_halves(char *features)
{
    char *at = strstr(features, "+avx512fp16");
    if (at) *at = '-';
}

an_status cpu_host_init(an_ctx *ctx, cpu_host *host)
{
    if (LLVMInitializeNativeTarget() || LLVMInitializeNativeAsmPrinter())
        return an_fail(ctx, AN_ERR_UNSUPPORTED, "cpu: this LLVM has no code generator for this machine; use --device interp");
    *host = (cpu_host){.triple = LLVMGetDefaultTargetTriple(),
                       .cpu = LLVMGetHostCPUName(),
                       .features = LLVMGetHostCPUFeatures()};
    leave_out_native_halves(host->features);
    host->vector_nbytes = has_feature(host, "+avx512f") ? 64 : has_feature(host, "+avx2") ? 32 : 16;
    host->has_f16c = has_feature(host, "+f16c");
    host->has_scale = has_feature(host, "+avx512f") && has_feature(host, "+avx512dq");
    host->is_x86 = strncmp(host->triple, "x86_64", 6) == 0;
    return AN_OK;
}

void cpu_host_fini(cpu_host *host)
{
    LLVMDisposeMessage(host->triple);
    LLVMDisposeMessage(host->cpu);
    LLVMDisposeMessage(host->features);
    *host = (cpu_host){0};
}

an_status cpu_host_machine(an_ctx *ctx, const cpu_host *host, LLVMTargetMachineRef *out)
{
    LLVMTargetRef target = NULL;
    char *error = NULL;
    if (LLVMGetTargetFromTriple(host->triple, &target, &error)) {
        const an_status st = an_fail(ctx, AN_ERR_UNSUPPORTED, "cpu: %s", error);
        LLVMDisposeMessage(error);
        return st;
    }
    *out = LLVMCreateTargetMachine(target, host->triple, host->cpu, host->features, LLVMCodeGenLevelDefault, LLVMRelocPIC,
                                   LLVMCodeModelJITDefault);
    return *out ? AN_OK : an_fail(ctx, AN_ERR_INTERNAL, "cpu: LLVM makes no target machine for %s", host->triple);
}
