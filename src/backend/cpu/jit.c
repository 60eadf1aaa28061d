/* jit.c - modules to machine code.
 *
 * Kernels of one compile call are dealt to as many modules as threads help. The caller's thread writes the IR of each, for
 * our allocator belongs to one thread; then each module is optimised and becomes an object file on a thread of its own, with
 * its own LLVM context and target machine; then ORC links the objects into this process.
 *
 * State outside a context: LLVM's own registry of targets, filled by cpu_host_init. Each fill writes the same pointers. */
#include "backend/cpu/jit.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/Error.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>

enum { THREADS_MAX = 8 };

/* Bare instcombine aborts the process where it does not reach a fixpoint at once. */
static const char passes[] = "function(sroa,early-cse,instcombine<no-verify-fixpoint>,simplifycfg)";

struct cpu_jit {
    an_ctx *ctx;
    const cpu_host *host;
    LLVMOrcLLJITRef orc;
    LLVMTargetMachineRef machines[THREADS_MAX]; /* one a thread */
    uint32_t nthreads;
    uint64_t serial; /* of the next kernel: its symbol */
};

struct cpu_code {
    LLVMOrcResourceTrackerRef tracker;
    size_t users;
};

/* A module on its way to an object file. */
typedef struct job {
    LLVMContextRef llvm;
    LLVMModuleRef module;
    LLVMTargetMachineRef machine;
    LLVMMemoryBufferRef object; /* out */
    char *error;                /* out: a message of LLVM's, or NULL */
    size_t weight;              /* instructions in it */
    cpu_code *code;
    pthread_t thread;
    bool threaded;
} job;

/* --- the host ---------------------------------------------------------------------------------- */

/* name is "+avx2": on, in a list with commas. Names start others: avx512f, avx512fp16. */
static bool has_feature(const cpu_host *host, const char *name)
{
    const size_t len = strlen(name);
    for (const char *at = strstr(host->features, name); at; at = strstr(at + 1, name))
        if (at[len] == ',' || at[len] == '\0') return true;
    return false;
}

an_status cpu_host_init(an_ctx *ctx, cpu_host *host)
{
    if (LLVMInitializeNativeTarget() || LLVMInitializeNativeAsmPrinter())
        return an_fail(ctx, AN_ERR_UNSUPPORTED, "cpu: this LLVM has no code generator for this machine; use --device interp");
    *host = (cpu_host){.triple = LLVMGetDefaultTargetTriple(),
                       .cpu = LLVMGetHostCPUName(),
                       .features = LLVMGetHostCPUFeatures()};
    host->vector_nbytes = has_feature(host, "+avx512f") ? 64 : has_feature(host, "+avx2") ? 32 : 16;
    host->has_f16c = has_feature(host, "+f16c");
    return AN_OK;
}

void cpu_host_fini(cpu_host *host)
{
    LLVMDisposeMessage(host->triple);
    LLVMDisposeMessage(host->cpu);
    LLVMDisposeMessage(host->features);
    *host = (cpu_host){0};
}

static an_status create_machine(an_ctx *ctx, const cpu_host *host, LLVMTargetMachineRef *out)
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

/* --- ORC --------------------------------------------------------------------------------------- */

static an_status orc_failed(an_ctx *ctx, const char *what, LLVMErrorRef error)
{
    char *text = LLVMGetErrorMessage(error);
    const an_status st = an_fail(ctx, AN_ERR_INTERNAL, "cpu: %s: %s", what, text);
    LLVMDisposeErrorMessage(text);
    return st;
}

/* ORC reports here what it also returns. */
static void be_silent(void *user, LLVMErrorRef error)
{
    (void)user;
    LLVMConsumeError(error);
}

/* What code may call: libm for f64 and for machines without fma, and what LLVM itself falls back on. */
static an_status define_symbols(an_ctx *ctx, LLVMOrcLLJITRef orc)
{
    typedef void (*function)(void);
    static const struct {
        const char *name;
        function fn;
    } table[] = {
        {"exp2", (function)(double (*)(double))exp2},
        {"log2", (function)(double (*)(double))log2},
        {"sin", (function)(double (*)(double))sin},
        {"erf", (function)(double (*)(double))erf},
        {"fma", (function)(double (*)(double, double, double))fma},
        {"fmaf", (function)fmaf},
        {"trunc", (function)(double (*)(double))trunc},
        {"truncf", (function)truncf},
        {"rint", (function)(double (*)(double))rint},
        {"rintf", (function)rintf},
        {"memcpy", (function)memcpy},
        {"memmove", (function)memmove},
        {"memset", (function)memset},
    };
    enum { N = sizeof table / sizeof table[0] };
    LLVMOrcCSymbolMapPair pairs[N];
    for (size_t i = 0; i < N; i++) {
        pairs[i].Name = LLVMOrcLLJITMangleAndIntern(orc, table[i].name);
        pairs[i].Sym.Address = (LLVMOrcExecutorAddress)(uintptr_t)table[i].fn;
        pairs[i].Sym.Flags.GenericFlags = LLVMJITSymbolGenericFlagsExported | LLVMJITSymbolGenericFlagsCallable;
        pairs[i].Sym.Flags.TargetFlags = 0;
    }
    const LLVMErrorRef error = LLVMOrcJITDylibDefine(LLVMOrcLLJITGetMainJITDylib(orc), LLVMOrcAbsoluteSymbols(pairs, N));
    return error ? orc_failed(ctx, "symbols", error) : AN_OK;
}

static an_status create_orc(cpu_jit *jit)
{
    LLVMTargetMachineRef machine = NULL;
    an_status st = create_machine(jit->ctx, jit->host, &machine);
    if (st) return st;
    const LLVMOrcLLJITBuilderRef builder = LLVMOrcCreateLLJITBuilder(); /* takes the machine; create takes it */
    LLVMOrcLLJITBuilderSetJITTargetMachineBuilder(builder, LLVMOrcJITTargetMachineBuilderCreateFromTargetMachine(machine));
    const LLVMErrorRef error = LLVMOrcCreateLLJIT(&jit->orc, builder);
    if (error) return orc_failed(jit->ctx, "LLJIT", error);
    LLVMOrcExecutionSessionSetErrorReporter(LLVMOrcLLJITGetExecutionSession(jit->orc), be_silent, NULL);
    return define_symbols(jit->ctx, jit->orc);
}

void cpu_jit_destroy(cpu_jit *jit)
{
    if (!jit) return;
    for (uint32_t i = 0; i < jit->nthreads; i++)
        if (jit->machines[i]) LLVMDisposeTargetMachine(jit->machines[i]);
    if (jit->orc) LLVMConsumeError(LLVMOrcDisposeLLJIT(jit->orc));
    an_mem_free(jit->ctx, jit, sizeof *jit);
}

an_status cpu_jit_create(an_ctx *ctx, const cpu_host *host, int threads, cpu_jit **out)
{
    cpu_jit *jit = an_mem_zalloc(ctx, sizeof *jit);
    if (!jit) return AN_ERR_NOMEM;
    jit->ctx = ctx;
    jit->host = host;
    jit->nthreads = threads < 1 ? 1 : threads > THREADS_MAX ? THREADS_MAX : (uint32_t)threads;
    const an_status st = create_orc(jit);
    if (st) {
        cpu_jit_destroy(jit);
        return st;
    }
    *out = jit;
    return AN_OK;
}

/* --- compiling --------------------------------------------------------------------------------- */

static void prepare_module(LLVMModuleRef module, LLVMTargetMachineRef machine, const char *triple)
{
    const LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine);
    LLVMSetTarget(module, triple);
    LLVMSetModuleDataLayout(module, layout);
    LLVMDisposeTargetData(layout);
}

/* On any thread: touches nothing but its job. */
static void *run_job(void *data)
{
    job *j = data;
    if (LLVMVerifyModule(j->module, LLVMReturnStatusAction, &j->error)) return NULL;
    LLVMDisposeMessage(j->error);
    j->error = NULL;
    const LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    const LLVMErrorRef failed = LLVMRunPasses(j->module, passes, j->machine, options);
    LLVMDisposePassBuilderOptions(options);
    if (failed) {
        char *text = LLVMGetErrorMessage(failed);
        j->error = LLVMCreateMessage(text);
        LLVMDisposeErrorMessage(text);
        return NULL;
    }
    char *error = NULL;
    if (LLVMTargetMachineEmitToMemoryBuffer(j->machine, j->module, LLVMObjectFile, &error, &j->object)) j->error = error;
    return NULL;
}

static void run_jobs(job *jobs, size_t njobs)
{
    for (size_t i = 1; i < njobs; i++) jobs[i].threaded = pthread_create(&jobs[i].thread, NULL, run_job, &jobs[i]) == 0;
    for (size_t i = 0; i < njobs; i++)
        if (!jobs[i].threaded) run_job(&jobs[i]);
    for (size_t i = 1; i < njobs; i++)
        if (jobs[i].threaded) (void)pthread_join(jobs[i].thread, NULL);
}

static void symbol_of(char *text, size_t size, uint64_t serial)
{
    (void)snprintf(text, size, "an_kernel_%llu", (unsigned long long)serial);
}

static an_status begin_jobs(cpu_jit *jit, job *jobs, size_t njobs)
{
    for (size_t i = 0; i < njobs; i++) {
        if (!jit->machines[i]) {
            const an_status st = create_machine(jit->ctx, jit->host, &jit->machines[i]);
            if (st) return st;
        }
        jobs[i].code = an_mem_zalloc(jit->ctx, sizeof *jobs[i].code);
        if (!jobs[i].code) return AN_ERR_NOMEM;
        jobs[i].machine = jit->machines[i];
        jobs[i].llvm = LLVMContextCreate();
        jobs[i].module = LLVMModuleCreateWithNameInContext("anneal", jobs[i].llvm);
        prepare_module(jobs[i].module, jobs[i].machine, jit->host->triple);
    }
    return AN_OK;
}

/* Each kernel to the lightest job so far. */
static an_status deal(cpu_jit *jit, job *jobs, size_t njobs, const an_kernel *const *kernels, size_t n, cpu_function *out)
{
    for (size_t i = 0; i < n; i++) {
        job *j = jobs;
        for (size_t k = 1; k < njobs; k++)
            if (jobs[k].weight < j->weight) j = &jobs[k];
        char name[40];
        symbol_of(name, sizeof name, jit->serial + i);
        const an_status st = cpu_emit_kernel(jit->ctx, jit->host, j->llvm, j->module, kernels[i], name);
        if (st) return st;
        j->weight += kernels[i]->nlinear;
        out[i] = (cpu_function){.parts = cpu_kernel_parts(kernels[i]), .code = j->code};
    }
    return AN_OK;
}

static an_status link_job(cpu_jit *jit, job *j)
{
    if (j->error) return an_fail(jit->ctx, AN_ERR_INTERNAL, "cpu: LLVM: %s", j->error);
    j->code->tracker = LLVMOrcJITDylibCreateResourceTracker(LLVMOrcLLJITGetMainJITDylib(jit->orc));
    const LLVMMemoryBufferRef object = j->object;
    j->object = NULL; /* ORC takes it, also when it fails */
    const LLVMErrorRef error = LLVMOrcLLJITAddObjectFileWithRT(jit->orc, j->code->tracker, object);
    return error ? orc_failed(jit->ctx, "object", error) : AN_OK;
}

static void code_destroy(cpu_jit *jit, cpu_code *code)
{
    if (code->tracker) {
        LLVMConsumeError(LLVMOrcResourceTrackerRemove(code->tracker));
        LLVMOrcReleaseResourceTracker(code->tracker);
    }
    an_mem_free(jit->ctx, code, sizeof *code);
}

static void job_fini(cpu_jit *jit, job *j)
{
    if (j->object) LLVMDisposeMemoryBuffer(j->object);
    if (j->error) LLVMDisposeMessage(j->error);
    if (j->module) LLVMDisposeModule(j->module);
    if (j->llvm) LLVMContextDispose(j->llvm);
    if (j->code && j->code->users == 0) code_destroy(jit, j->code);
}

static an_status look_up(cpu_jit *jit, size_t n, cpu_function *out)
{
    for (size_t i = 0; i < n; i++) {
        char name[40];
        symbol_of(name, sizeof name, jit->serial + i);
        LLVMOrcExecutorAddress at = 0;
        const LLVMErrorRef error = LLVMOrcLLJITLookup(jit->orc, &at, name);
        if (error) return orc_failed(jit->ctx, "link", error);
        out[i].entry = (cpu_entry)(uintptr_t)at;
    }
    for (size_t i = 0; i < n; i++) out[i].code->users++;
    return AN_OK;
}

an_status cpu_jit_compile(cpu_jit *jit, const an_kernel *const *kernels, size_t n, cpu_function *out)
{
    job jobs[THREADS_MAX] = {0};
    const size_t njobs = n < jit->nthreads ? n : jit->nthreads;
    an_status st = begin_jobs(jit, jobs, njobs);
    if (!st) st = deal(jit, jobs, njobs, kernels, n, out);
    if (!st) {
        run_jobs(jobs, njobs);
        for (size_t i = 0; i < njobs && !st; i++) st = link_job(jit, &jobs[i]);
    }
    if (!st) st = look_up(jit, n, out);
    jit->serial += n;
    for (size_t i = 0; i < njobs; i++) job_fini(jit, &jobs[i]);
    if (st)
        for (size_t i = 0; i < n; i++) out[i] = (cpu_function){0};
    return st;
}

void cpu_function_release(cpu_jit *jit, cpu_function *f)
{
    if (f->code && --f->code->users == 0) code_destroy(jit, f->code);
    *f = (cpu_function){0};
}

an_status cpu_jit_source(an_ctx *ctx, const cpu_host *host, const an_kernel *kernel,
                         void (*put)(void *user, const char *text), void *user)
{
    const LLVMContextRef llvm = LLVMContextCreate();
    const LLVMModuleRef module = LLVMModuleCreateWithNameInContext(kernel->name, llvm);
    const an_status st = cpu_emit_kernel(ctx, host, llvm, module, kernel, kernel->name);
    if (!st) {
        char *text = LLVMPrintModuleToString(module);
        put(user, text);
        LLVMDisposeMessage(text);
    }
    LLVMDisposeModule(module);
    LLVMContextDispose(llvm);
    return st;
}
