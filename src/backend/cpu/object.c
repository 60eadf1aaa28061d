/* object.c - kernels to object files, each a module of its own.
 *
 * The caller's thread writes the IR, for our allocator belongs to one thread; then threads of the pool take modules, the
 * heaviest first, each with its own LLVM context, and a target machine of the thread's own. */
#include "backend/cpu/object.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/Error.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <stdatomic.h>
#include <stdlib.h>

/* Bare instcombine aborts the process where it does not reach a fixpoint at once. */
const char cpu_passes[] = "function(sroa,early-cse,instcombine<no-verify-fixpoint>,simplifycfg)";

typedef struct job {
    LLVMContextRef llvm;
    LLVMModuleRef module;
    size_t weight; /* instructions in it */
    cpu_object *out;
} job;

struct cpu_compiler {
    an_ctx *ctx;
    const cpu_host *host;
    cpu_pool *pool;
    uint32_t nmachines;
    LLVMTargetMachineRef machines[CPU_COMPILERS_MAX];
    atomic_flag taken[CPU_COMPILERS_MAX];
};

void cpu_compiler_destroy(cpu_compiler *c)
{
    if (!c) return;
    for (uint32_t i = 0; i < c->nmachines; i++)
        if (c->machines[i]) LLVMDisposeTargetMachine(c->machines[i]);
    an_mem_free(c->ctx, c, sizeof *c);
}

an_status cpu_compiler_create(an_ctx *ctx, const cpu_host *host, cpu_pool *pool, int threads, cpu_compiler **out)
{
    cpu_compiler *c = an_mem_zalloc(ctx, sizeof *c);
    if (!c) return AN_ERR_NOMEM;
    c->ctx = ctx;
    c->host = host;
    c->pool = pool;
    const int n = threads < 1 ? 1 : threads > CPU_COMPILERS_MAX ? CPU_COMPILERS_MAX : threads;
    an_status st = AN_OK;
    for (; c->nmachines < (uint32_t)n && !st; c->nmachines++) {
        atomic_flag_clear(&c->taken[c->nmachines]);
        st = cpu_host_machine(ctx, host, &c->machines[c->nmachines]);
    }
    if (st) {
        cpu_compiler_destroy(c);
        return st;
    }
    *out = c;
    return AN_OK;
}

static void prepare_module(LLVMModuleRef module, LLVMTargetMachineRef machine, const char *triple)
{
    const LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine);
    LLVMSetTarget(module, triple);
    LLVMSetModuleDataLayout(module, layout);
    LLVMDisposeTargetData(layout);
}

/* On any thread: touches nothing but its job and the machine. */
static void run_job(job *j, LLVMTargetMachineRef machine)
{
    cpu_object *o = j->out;
    char *error = NULL;
    if (LLVMVerifyModule(j->module, LLVMReturnStatusAction, &error)) {
        o->error = error;
        return;
    }
    LLVMDisposeMessage(error);
    error = NULL;
    const LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    const LLVMErrorRef failed = LLVMRunPasses(j->module, cpu_passes, machine, options);
    LLVMDisposePassBuilderOptions(options);
    if (failed) {
        char *text = LLVMGetErrorMessage(failed);
        o->error = LLVMCreateMessage(text);
        LLVMDisposeErrorMessage(text);
        return;
    }
    if (LLVMTargetMachineEmitToMemoryBuffer(machine, j->module, LLVMObjectFile, &error, &o->buffer)) o->error = error;
}

typedef struct work {
    cpu_compiler *compiler;
    job *jobs;
    size_t njobs;
} work;

/* A free machine; threads that compile are never more than there are machines, but for those of a larger pool. */
static uint32_t take_machine(cpu_compiler *c)
{
    for (uint32_t i = 0;; i = (i + 1) % c->nmachines)
        if (!atomic_flag_test_and_set_explicit(&c->taken[i], memory_order_acquire)) return i;
}

/* A cpu_entry. */
static void run_part(void *const *params, const int64_t *vars, int64_t part, int64_t nparts, void *scratch)
{
    (void)vars;
    (void)scratch;
    const work *w = params[0];
    const uint32_t m = take_machine(w->compiler);
    for (size_t i = (size_t)part; i < w->njobs; i += (size_t)nparts) run_job(&w->jobs[i], w->compiler->machines[m]);
    atomic_flag_clear_explicit(&w->compiler->taken[m], memory_order_release);
}

static int by_weight(const void *a, const void *b)
{
    const job *x = a, *y = b;
    return (x->weight < y->weight) - (x->weight > y->weight);
}

static an_status emit_all(cpu_compiler *c, job *jobs, const an_kernel *const *kernels, size_t n, cpu_object *out)
{
    for (size_t i = 0; i < n; i++) {
        jobs[i] = (job){.llvm = LLVMContextCreate(), .weight = kernels[i]->nlinear, .out = &out[i]};
        jobs[i].module = LLVMModuleCreateWithNameInContext("anneal", jobs[i].llvm);
        prepare_module(jobs[i].module, c->machines[0], c->host->triple);
        const an_status st = cpu_emit_kernel(c->ctx, c->host, jobs[i].llvm, jobs[i].module, kernels[i], out[i].symbol);
        if (st) return st;
        out[i].parts = cpu_kernel_parts(kernels[i]);
    }
    return AN_OK;
}

void cpu_object_fini(cpu_object *o)
{
    if (o->buffer) LLVMDisposeMemoryBuffer(o->buffer);
    if (o->error) LLVMDisposeMessage(o->error);
    o->buffer = NULL;
    o->error = NULL;
}

an_status cpu_compile_objects(cpu_compiler *c, const an_kernel *const *kernels, size_t n, cpu_object *out)
{
    job *jobs = an_mem_zalloc(c->ctx, n * sizeof *jobs);
    if (!jobs) return AN_ERR_NOMEM;
    an_status st = emit_all(c, jobs, kernels, n, out);
    if (!st) {
        qsort(jobs, n, sizeof *jobs, by_weight);
        work w = {c, jobs, n};
        void *params[1] = {&w};
        if (c->pool && n > 1 && c->nmachines > 1)
            cpu_pool_run(c->pool, run_part, params, NULL, (uint32_t)(n < CPU_PARTS_MAX ? n : CPU_PARTS_MAX), true);
        else
            run_part(params, NULL, 0, 1, NULL);
    }
    for (size_t i = 0; i < n; i++) {
        if (jobs[i].module) LLVMDisposeModule(jobs[i].module);
        if (jobs[i].llvm) LLVMContextDispose(jobs[i].llvm);
    }
    an_mem_free(c->ctx, jobs, n * sizeof *jobs);
    for (size_t i = 0; i < n && !st; i++)
        if (out[i].error) st = an_fail(c->ctx, AN_ERR_INTERNAL, "cpu: LLVM: %s", out[i].error);
    for (size_t i = 0; i < n && st; i++) cpu_object_fini(&out[i]);
    return st;
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
