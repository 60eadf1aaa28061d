/* cpu.c - the CPU as a device: kernels become machine code when they are compiled, a launch is a call. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* madvise */
#endif
#include "backend/backends.h"
#include "backend/cpu/pool.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    ALIGNMENT = 64, /* of a buffer: a cache line, and the widest vector */
    PAGE = 2 << 20, /* of buffers at least as large, where the system has such pages: walking a column of a matrix needs one for each row */
    THREADS_MAX = 1024,
    WAKE_NS = 20000 /* of work that pays for waking a thread */
};

typedef struct cpu_device {
    an_device_base base;
    cpu_host host;
    cpu_jit *jit; /* made by the first compile: a process that compiles nothing does not pay for it */
    cpu_pool *pool;
} cpu_device;

typedef struct cpu_buffer {
    an_buffer_base base;
    unsigned char *data; /* aligned, within block */
    void *block;
    size_t block_nbytes;
} cpu_buffer;

typedef struct cpu_program {
    an_program_base base;
    cpu_function function;
    uint32_t nparams, nparts;
    bool wake; /* worth waking threads for */
} cpu_program;

static an_ctx *ctx_of(const an_device *dev)
{
    return ((const an_device_base *)dev)->ctx;
}

static void device_close(an_device *dev)
{
    if (!dev) return;
    cpu_device *d = (cpu_device *)dev;
    cpu_jit_destroy(d->jit);
    cpu_pool_destroy(d->pool);
    cpu_host_fini(&d->host);
    an_mem_free(ctx_of(dev), d, sizeof *d);
}

/* What ANNEAL_THREADS says, else the number of processors. */
static an_status default_threads(an_ctx *ctx, int *out)
{
    const char *text = getenv("ANNEAL_THREADS");
    char *end = NULL;
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    if (text && *text) {
        n = strtol(text, &end, 10);
        if (*end || n < 1 || n > THREADS_MAX)
            return an_fail(ctx, AN_ERR_ARG, "ANNEAL_THREADS is '%s'; it takes a number from 1 to %d", text, THREADS_MAX);
    }
    *out = n < 1 ? 1 : n > THREADS_MAX ? THREADS_MAX : (int)n;
    return AN_OK;
}

#ifdef _SC_LEVEL2_CACHE_SIZE
/* 0: the system does not know. */
static uint32_t cache_nbytes(int name)
{
    const long n = sysconf(name);
    return n > 0 && n <= INT32_MAX ? (uint32_t)n : 0;
}
#endif

static an_status device_open(an_ctx *ctx, const an_device_desc *desc, an_device **out)
{
    cpu_device *d = an_mem_zalloc(ctx, sizeof *d);
    if (!d) return AN_ERR_NOMEM;
    d->base = (an_device_base){.backend = &an_backend_cpu, .ctx = ctx, .threads = desc ? desc->threads : 0};
    an_status st = d->base.threads > 0 ? AN_OK : default_threads(ctx, &d->base.threads);
    if (!st) st = cpu_host_init(ctx, &d->host);
    if (st) {
        an_mem_free(ctx, d, sizeof *d);
        return st;
    }
    d->base.vector_nbytes = d->host.vector_nbytes;
    d->base.scratch_nbytes = CPU_SCRATCH_NBYTES;
#ifdef _SC_LEVEL2_CACHE_SIZE
    d->base.l1_nbytes = cache_nbytes(_SC_LEVEL1_DCACHE_SIZE);
    d->base.l2_nbytes = cache_nbytes(_SC_LEVEL2_CACHE_SIZE);
#endif
    d->base.identity = an_hash_bytes(an_hash_bytes(1, d->host.cpu, strlen(d->host.cpu)), d->host.features, strlen(d->host.features));
    st = cpu_pool_create(ctx, d->base.threads, &d->pool);
    if (st) {
        device_close((an_device *)d);
        return st;
    }
    *out = (an_device *)d;
    return AN_OK;
}

/* --- buffers ----------------------------------------------------------------------------------- */

static an_status buffer_create(an_device *dev, size_t nbytes, an_buffer **out)
{
    an_ctx *ctx = ctx_of(dev);
    cpu_buffer *b = an_mem_zalloc(ctx, sizeof *b);
    if (!b) return AN_ERR_NOMEM;
    b->base = (an_buffer_base){dev, nbytes};
    const size_t alignment = nbytes >= PAGE ? PAGE : ALIGNMENT;
    an_status st = AN_OK;
    if (!an_size_add(nbytes, alignment, &b->block_nbytes))
        st = an_fail(ctx, AN_ERR_NOMEM, "cpu: a buffer of %zu bytes is more than memory can hold", nbytes);
    if (!st) {
        b->block = an_mem_alloc(ctx, b->block_nbytes);
        if (!b->block) st = AN_ERR_NOMEM;
    }
    if (st) {
        an_mem_free(ctx, b, sizeof *b);
        return st;
    }
    const size_t past = (uintptr_t)b->block % alignment;
    b->data = (unsigned char *)b->block + (past ? alignment - past : 0);
#ifdef MADV_HUGEPAGE
    if (alignment == PAGE) (void)madvise(b->data, nbytes - nbytes % PAGE, MADV_HUGEPAGE); /* before it is touched; a no is no harm */
#endif
    memset(b->data, 0, nbytes);
    *out = (an_buffer *)b;
    return AN_OK;
}

static void buffer_destroy(an_buffer *buf)
{
    if (!buf) return;
    cpu_buffer *b = (cpu_buffer *)buf;
    an_ctx *ctx = ctx_of(b->base.device);
    an_mem_free(ctx, b->block, b->block_nbytes);
    an_mem_free(ctx, b, sizeof *b);
}

static an_status check_span(const cpu_buffer *b, size_t offset, size_t nbytes)
{
    if (offset <= b->base.nbytes && nbytes <= b->base.nbytes - offset) return AN_OK;
    return an_fail(ctx_of(b->base.device), AN_ERR_ARG, "cpu: bytes %zu..%zu of a buffer that has %zu", offset, offset + nbytes,
                   b->base.nbytes);
}

static an_status buffer_write(an_buffer *dst, size_t offset, const void *src, size_t nbytes)
{
    cpu_buffer *b = (cpu_buffer *)dst;
    const an_status st = check_span(b, offset, nbytes);
    if (!st && nbytes) memcpy(b->data + offset, src, nbytes);
    return st;
}

static an_status buffer_read(an_buffer *src, size_t offset, void *dst, size_t nbytes)
{
    const cpu_buffer *b = (const cpu_buffer *)src;
    const an_status st = check_span(b, offset, nbytes);
    if (!st && nbytes) memcpy(dst, b->data + offset, nbytes);
    return st;
}

/* --- programs ---------------------------------------------------------------------------------- */

static void program_destroy(an_program *prog)
{
    if (!prog) return;
    cpu_program *p = (cpu_program *)prog;
    an_device *dev = p->base.device;
    cpu_function_release(((cpu_device *)dev)->jit, &p->function);
    an_mem_free(ctx_of(dev), p, sizeof *p);
}

/* Nanoseconds of one thread, by the cost model's counts and the rate of code that is neither good nor bad. */
static double estimate_ns(const an_kernel *k)
{
    return 0.1 * k->flops + 0.1 * (k->nbytes_read + k->nbytes_written);
}

/* More parts than threads: one that gets less of its processor takes fewer of them. A kernel that takes no longer than
 * handing out its parts is one part. */
static uint32_t parts_for(const cpu_device *d, const an_kernel *k, int64_t most)
{
    enum { PARTS_A_THREAD = 4, SMALL_NS = 2000 };
    if (estimate_ns(k) < SMALL_NS) return 1;
    const int64_t n = (int64_t)d->base.threads * PARTS_A_THREAD;
    return (uint32_t)(most < n ? most : n < CPU_PARTS_MAX ? n : CPU_PARTS_MAX);
}

static an_status program_create(cpu_device *d, const an_kernel *kernel, const cpu_function *f, an_program **out)
{
    cpu_program *p = an_mem_zalloc(d->base.ctx, sizeof *p);
    if (!p) return AN_ERR_NOMEM;
    *p = (cpu_program){.base = {(an_device *)d}, .function = *f, .nparams = kernel->nparams,
                       .nparts = parts_for(d, kernel, f->parts), .wake = estimate_ns(kernel) > WAKE_NS};
    *out = (an_program *)p;
    return AN_OK;
}

/* Programs of the functions that get makes; none on failure. */
static an_status programs(an_device *dev, const an_kernel *const *kernels, size_t n, an_program **out,
                          an_status (*get)(cpu_jit *jit, const an_kernel *const *kernels, size_t n, cpu_function *out))
{
    cpu_device *d = (cpu_device *)dev;
    an_ctx *ctx = d->base.ctx;
    size_t nbytes = 0;
    if (n == 0) return AN_OK;
    if (!an_size_mul(n, sizeof(cpu_function), &nbytes)) return an_fail(ctx, AN_ERR_NOMEM, "cpu: %zu kernels are too many", n);
    cpu_function *functions = an_mem_zalloc(ctx, nbytes);
    if (!functions) return AN_ERR_NOMEM;
    for (size_t i = 0; i < n; i++) out[i] = NULL;
    an_status st = d->jit ? AN_OK : cpu_jit_create(ctx, &d->host, d->pool, d->base.threads, &d->jit);
    if (!st) st = get(d->jit, kernels, n, functions);
    for (size_t i = 0; i < n && !st; i++) {
        if (!functions[i].entry) continue;
        st = program_create(d, kernels[i], &functions[i], &out[i]);
        if (!st) functions[i] = (cpu_function){0}; /* the program's now */
    }
    for (size_t i = 0; i < n && st; i++) {
        if (d->jit) cpu_function_release(d->jit, &functions[i]);
        program_destroy(out[i]);
        out[i] = NULL;
    }
    an_mem_free(ctx, functions, nbytes);
    return st;
}

static an_status compile(an_device *dev, const an_kernel *const *kernels, size_t n, an_program **out)
{
    return programs(dev, kernels, n, out, cpu_jit_compile);
}

static an_status load(an_device *dev, const an_kernel *const *kernels, size_t n, an_program **out)
{
    return programs(dev, kernels, n, out, cpu_jit_load);
}

static an_status launch(an_program *prog, const an_launch *l)
{
    const cpu_program *p = (const cpu_program *)prog;
    void *params[AN_KERNEL_PARAM_MAX];
    for (uint32_t i = 0; i < p->nparams; i++)
        params[i] = ((const cpu_buffer *)l->buffers[i])->data + (l->offsets ? l->offsets[i] : 0);
    cpu_pool_run(((cpu_device *)p->base.device)->pool, p->function.entry, params, l->vars, p->nparts, p->wake);
    return AN_OK;
}

static an_status submit(an_device *dev)
{
    (void)dev; /* launch has started it */
    return AN_OK;
}

static an_status wait(an_device *dev)
{
    (void)dev; /* launch returns when done */
    return AN_OK;
}

static an_status source(an_device *dev, const an_kernel *kernel, void (*put)(void *user, const char *text), void *user)
{
    return cpu_jit_source(ctx_of(dev), &((cpu_device *)dev)->host, kernel, put, user);
}

const an_backend an_backend_cpu = {
    .name = "cpu",
    .open = device_open,
    .close = device_close,
    .buffer_create = buffer_create,
    .buffer_destroy = buffer_destroy,
    .write = buffer_write,
    .read = buffer_read,
    .compile = compile,
    .load = load,
    .program_destroy = program_destroy,
    .launch = launch,
    .submit = submit,
    .wait = wait,
    .time = an_backend_time,
    .source = source,
};
