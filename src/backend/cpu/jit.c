/* jit.c - object files to code in this process, through LLVM's ORC: compiled now, or kept on disk by an earlier process.
 *
 * Code is shared: kernels of one key are one symbol. What is on disk is found by the kernel's key, this library's sources,
 * the machine and the version of LLVM; a value is the number of parts, then the object file. */
#include "backend/cpu/jit.h"

#include "backend/cpu/object.h"
#include "base/disk.h"
#include <anneal/settings.h>

#include <llvm-c/Error.h>
#include <llvm-c/LLJIT.h>
#include <math.h>
#include <stdio.h>

enum { KEPT_MB_MAX = 256 };

struct cpu_code {
    an_key key; /* all zero: not shared, not kept */
    LLVMOrcResourceTrackerRef tracker;
    cpu_entry entry;
    int64_t parts;
    size_t users;
};

struct cpu_jit {
    an_ctx *ctx;
    const cpu_host *host;
    cpu_pool *pool;
    int threads;
    LLVMOrcLLJITRef orc;
    cpu_compiler *compiler; /* made by the first compile */
    an_disk *disk;        /* NULL: nothing is kept */
    an_key machine;         /* what every key on disk begins with */
    uint64_t serial;        /* of the next kernel without a key: its symbol */
    AN_VEC(cpu_code *) codes;
};

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
    an_status st = cpu_host_machine(jit->ctx, jit->host, &machine);
    if (st) return st;
    const LLVMOrcLLJITBuilderRef builder = LLVMOrcCreateLLJITBuilder(); /* takes the machine; create takes it */
    LLVMOrcLLJITBuilderSetJITTargetMachineBuilder(builder, LLVMOrcJITTargetMachineBuilderCreateFromTargetMachine(machine));
    const LLVMErrorRef error = LLVMOrcCreateLLJIT(&jit->orc, builder);
    if (error) return orc_failed(jit->ctx, "LLJIT", error);
    LLVMOrcExecutionSessionSetErrorReporter(LLVMOrcLLJITGetExecutionSession(jit->orc), be_silent, NULL);
    return define_symbols(jit->ctx, jit->orc);
}

/* Everything but the kernel that decides what its object file is. */
static an_key machine_key(const cpu_host *host)
{
    unsigned major = 0, minor = 0, patch = 0;
    LLVMGetVersion(&major, &minor, &patch);
    const char *const texts[] = {host->triple, host->cpu, host->features, cpu_passes};
    an_key k = an_key_mix(an_key_of("cpu", 3), an_source_id());
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) k = an_key_mix(k, an_hash_bytes(0, texts[i], strlen(texts[i])));
    k = an_key_mix(k, (uint64_t)major << 32 | minor << 16 | patch);
    return an_key_mix(k, host->vector_nbytes);
}

static an_status open_disk(cpu_jit *jit)
{
    char folder[4000];
    const size_t room = sizeof folder - sizeof "/kernels";
    if (an_ctx_settings(jit->ctx).no_cache || !an_cache_folder(folder, room)) return AN_OK;
    strcat(folder, "/kernels");
    an_status st = an_disk_open(jit->ctx, folder, (uint64_t)KEPT_MB_MAX << 20, &jit->disk);
    return st;
}

void cpu_jit_destroy(cpu_jit *jit)
{
    if (!jit) return;
    cpu_compiler_destroy(jit->compiler);
    if (jit->orc) LLVMConsumeError(LLVMOrcDisposeLLJIT(jit->orc));
    an_disk_close(jit->disk);
    an_vec_fini(jit->ctx, &jit->codes);
    an_mem_free(jit->ctx, jit, sizeof *jit);
}

an_status cpu_jit_create(an_ctx *ctx, const cpu_host *host, cpu_pool *pool, int threads, cpu_jit **out)
{
    cpu_jit *jit = an_mem_zalloc(ctx, sizeof *jit);
    if (!jit) return AN_ERR_NOMEM;
    jit->ctx = ctx;
    jit->host = host;
    jit->pool = pool;
    jit->threads = threads;
    jit->machine = machine_key(host);
    an_status st = create_orc(jit);
    if (!st) st = open_disk(jit);
    if (st) {
        cpu_jit_destroy(jit);
        return st;
    }
    *out = jit;
    return AN_OK;
}

/* --- code -------------------------------------------------------------------------------------- */

static bool has_key(an_key key)
{
    return key.lo || key.hi;
}

static an_key key_of(const cpu_jit *jit, const an_kernel *k)
{
    const an_key zero = {0};
    if (!k->key_lo && !k->key_hi) return zero;
    return an_key_mix(an_key_mix(jit->machine, k->key_lo), k->key_hi);
}

static void symbol_of(cpu_jit *jit, an_key key, char symbol[CPU_SYMBOL_SIZE])
{
    if (has_key(key))
        (void)snprintf(symbol, CPU_SYMBOL_SIZE, "an_%016llx%016llx", (unsigned long long)key.hi, (unsigned long long)key.lo);
    else
        (void)snprintf(symbol, CPU_SYMBOL_SIZE, "an_serial_%llu", (unsigned long long)jit->serial++);
}

static void code_destroy(cpu_jit *jit, cpu_code *code)
{
    if (code->tracker) {
        LLVMConsumeError(LLVMOrcResourceTrackerRemove(code->tracker));
        LLVMOrcReleaseResourceTracker(code->tracker);
    }
    an_mem_free(jit->ctx, code, sizeof *code);
}

static bool share(cpu_jit *jit, an_key key, cpu_function *out)
{
    if (!has_key(key)) return false;
    for (size_t i = 0; i < jit->codes.len; i++) {
        cpu_code *c = jit->codes.data[i];
        if (!an_key_eq(c->key, key)) continue;
        c->users++;
        *out = (cpu_function){c->entry, c->parts, c};
        return true;
    }
    return false;
}

/* Links object, which it takes; failed is LLVM's, for the caller to report or swallow. */
static an_status link_object(cpu_jit *jit, an_key key, const char *symbol, LLVMMemoryBufferRef object, int64_t parts,
                             cpu_function *out, LLVMErrorRef *failed)
{
    LLVMOrcExecutorAddress at = 0;
    *failed = NULL;
    cpu_code *code = an_vec_reserve(jit->ctx, &jit->codes, 1) ? an_mem_zalloc(jit->ctx, sizeof *code) : NULL;
    if (!code) {
        LLVMDisposeMemoryBuffer(object);
        return AN_ERR_NOMEM;
    }
    *code = (cpu_code){.key = key, .parts = parts, .users = 1};
    code->tracker = LLVMOrcJITDylibCreateResourceTracker(LLVMOrcLLJITGetMainJITDylib(jit->orc));
    *failed = LLVMOrcLLJITAddObjectFileWithRT(jit->orc, code->tracker, object);
    if (!*failed) *failed = LLVMOrcLLJITLookup(jit->orc, &at, symbol);
    if (*failed) {
        code_destroy(jit, code);
        return AN_OK;
    }
    code->entry = (cpu_entry)(uintptr_t)at;
    jit->codes.data[jit->codes.len++] = code;
    *out = (cpu_function){code->entry, parts, code};
    return AN_OK;
}

void cpu_function_release(cpu_jit *jit, cpu_function *f)
{
    cpu_code *code = f->code;
    *f = (cpu_function){0};
    if (!code || --code->users > 0) return;
    for (size_t i = 0; i < jit->codes.len; i++)
        if (jit->codes.data[i] == code) {
            jit->codes.data[i] = jit->codes.data[--jit->codes.len];
            break;
        }
    code_destroy(jit, code);
}

/* --- what is kept ------------------------------------------------------------------------------- */

static an_status load_one(cpu_jit *jit, an_key key, cpu_function *out)
{
    void *data = NULL;
    size_t nbytes = 0;
    int64_t parts = 0;
    char symbol[CPU_SYMBOL_SIZE];
    LLVMErrorRef failed = NULL;
    an_status st = an_disk_get(jit->disk, key, &data, &nbytes);
    if (st || !data) return st;
    bool good = nbytes > sizeof parts;
    if (good) {
        memcpy(&parts, data, sizeof parts);
        good = parts >= 1;
    }
    if (good) {
        symbol_of(jit, key, symbol);
        const LLVMMemoryBufferRef object =
            LLVMCreateMemoryBufferWithMemoryRangeCopy((const char *)data + sizeof parts, nbytes - sizeof parts, symbol);
        st = link_object(jit, key, symbol, object, parts, out, &failed);
        if (failed) LLVMConsumeError(failed);
        good = !failed;
    }
    if (!good) an_disk_reject(jit->disk, key);
    an_mem_free(jit->ctx, data, nbytes);
    return st;
}

an_status cpu_jit_load(cpu_jit *jit, const an_kernel *const *kernels, size_t n, cpu_function *out)
{
    an_status st = jit->disk ? an_disk_refresh(jit->disk) : AN_OK;
    size_t i = 0;
    for (; i < n && !st; i++) {
        const an_key key = key_of(jit, kernels[i]);
        out[i] = (cpu_function){0};
        if (!has_key(key) || share(jit, key, &out[i]) || !jit->disk) continue;
        st = load_one(jit, key, &out[i]);
    }
    while (st && i > 0) cpu_function_release(jit, &out[--i]);
    return st;
}

/* What was compiled just now, as one pack. */
static an_status keep(cpu_jit *jit, const an_key *keys, const cpu_object *objects, size_t n)
{
    const size_t items_nbytes = n * sizeof(an_disk_item);
    size_t total = 0, nitems = 0;
    for (size_t i = 0; i < n; i++) total += sizeof objects[i].parts + LLVMGetBufferSize(objects[i].buffer);
    an_disk_item *items = an_mem_alloc(jit->ctx, items_nbytes);
    unsigned char *all = an_mem_alloc(jit->ctx, total), *at = all;
    an_status st = items && all ? AN_OK : AN_ERR_NOMEM;
    for (size_t i = 0; i < n && !st; i++) {
        const size_t nbytes = LLVMGetBufferSize(objects[i].buffer);
        if (!has_key(keys[i])) continue;
        memcpy(at, &objects[i].parts, sizeof objects[i].parts);
        memcpy(at + sizeof objects[i].parts, LLVMGetBufferStart(objects[i].buffer), nbytes);
        items[nitems++] = (an_disk_item){keys[i], at, sizeof objects[i].parts + nbytes};
        at += sizeof objects[i].parts + nbytes;
    }
    if (!st && nitems) st = an_disk_put(jit->disk, items, nitems);
    an_mem_free(jit->ctx, items, items_nbytes);
    an_mem_free(jit->ctx, all, total);
    return st;
}

/* --- compiling ----------------------------------------------------------------------------------- */

static an_status link_all(cpu_jit *jit, const an_key *keys, cpu_object *objects, size_t n, cpu_function *out)
{
    for (size_t i = 0; i < n; i++) {
        LLVMErrorRef failed = NULL;
        const LLVMMemoryBufferRef buffer = objects[i].buffer;
        if (share(jit, keys[i], &out[i])) continue; /* an equal one in this very call */
        objects[i].buffer = NULL;
        const an_status st = link_object(jit, keys[i], objects[i].symbol, buffer, objects[i].parts, &out[i], &failed);
        if (failed) return orc_failed(jit->ctx, "link", failed);
        if (st) return st;
    }
    return AN_OK;
}

an_status cpu_jit_compile(cpu_jit *jit, const an_kernel *const *kernels, size_t n, cpu_function *out)
{
    an_status st = AN_OK;
    cpu_object *objects = an_mem_zalloc(jit->ctx, n * sizeof *objects);
    an_key *keys = an_mem_zalloc(jit->ctx, n * sizeof *keys);
    if (!objects || !keys) st = AN_ERR_NOMEM;
    if (!st && !jit->compiler) st = cpu_compiler_create(jit->ctx, jit->host, jit->pool, jit->threads, &jit->compiler);
    for (size_t i = 0; i < n; i++) out[i] = (cpu_function){0};
    for (size_t i = 0; i < n && !st; i++) {
        keys[i] = key_of(jit, kernels[i]);
        symbol_of(jit, keys[i], objects[i].symbol);
    }
    if (!st) st = cpu_compile_objects(jit->compiler, kernels, n, objects);
    if (!st && jit->disk) st = keep(jit, keys, objects, n);
    if (!st) st = link_all(jit, keys, objects, n, out);
    for (size_t i = 0; i < n && objects; i++) cpu_object_fini(&objects[i]);
    for (size_t i = 0; i < n && st; i++) cpu_function_release(jit, &out[i]);
    an_mem_free(jit->ctx, objects, n * sizeof *objects);
    an_mem_free(jit->ctx, keys, n * sizeof *keys);
    return st;
}
