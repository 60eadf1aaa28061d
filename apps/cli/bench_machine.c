/* bench_machine.c - what to measure against: the machine's own peak, and OpenBLAS. */
#define _GNU_SOURCE
#include "bench.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

double bench_clock(void)
{
    struct timespec t = {0};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* --- peak -------------------------------------------------------------------------------------- */

/* A loop of multiply-adds on vectors of nbytes: as many accumulators as hide the latency of one and leave registers for the operands. */
enum { ACCS = 12, ROUNDS = 400000 };

#define FMA_LOOP(nbytes)                                                                                                   \
    typedef float lanes __attribute__((vector_size(nbytes)));                                                              \
    lanes acc[ACCS], x, y;                                                                                                 \
    for (size_t i = 0; i < sizeof x / sizeof(float); i++) x[i] = 0.999f, y[i] = 0.001f;                                    \
    for (int i = 0; i < ACCS; i++) acc[i] = x * (float)i; /* equal ones would be made one */                               \
    for (int r = 0; r < ROUNDS; r++)                                                                                       \
        for (int i = 0; i < ACCS; i++) acc[i] = acc[i] * x + y;                                                            \
    for (int i = 1; i < ACCS; i++) acc[0] += acc[i];                                                                       \
    memcpy(out, &acc[0], sizeof(float))

#if defined(__x86_64__) && defined(__GNUC__)
/* The compiler may fuse here, and only here: it is what is measured. */
#ifdef __clang__
#define FUSING(isa) __attribute__((target(isa), noinline))
#define FUSE _Pragma("clang fp contract(fast)")
#else
#define FUSING(isa) __attribute__((target(isa), optimize("O3", "fp-contract=fast"), noinline))
#define FUSE
#endif
FUSING("avx512f") static void fma_avx512(float *out)
{
    FUSE
    FMA_LOOP(64);
}
FUSING("avx2,fma") static void fma_avx2(float *out)
{
    FUSE
    FMA_LOOP(32);
}
#endif

__attribute__((noinline)) static void fma_plain(float *out)
{
    FMA_LOOP(16);
}

/* The loop for this processor, and lanes of its vectors. */
typedef struct fma_loop {
    void (*run)(float *out);
    int lanes;
} fma_loop;

static fma_loop choose_fma_loop(void)
{
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("avx512f")) return (fma_loop){fma_avx512, 16};
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return (fma_loop){fma_avx2, 8};
#endif
    return (fma_loop){fma_plain, 4};
}

/* A thread that works for a while and notes its rate; all of them at the same time. */
typedef struct worker {
    pthread_t id;
    bool started;
    double (*work)(struct worker *w);
    char *from, *to;
    size_t nbytes;
    double rate;
} worker;
enum { WORKERS_MAX = 256 };

static double work_fma(worker *w)
{
    float sink = 0;
    (void)w;
    const fma_loop loop = choose_fma_loop();
    const double t = bench_clock();
    loop.run(&sink);
    const double rate = 2.0 * loop.lanes * ACCS * ROUNDS / (bench_clock() - t);
    return sink > 1e30f ? 0 : rate;
}

/* Bytes, read plus written, a second, over some hundredths of one. */
static double work_copy(worker *w)
{
    static const double SECONDS = 0.01;
    const double start = bench_clock();
    double now = start, done = 0;
    while (now - start < SECONDS) {
        memcpy(w->to, w->from, w->nbytes);
        __asm__ __volatile__("" : : "r"(w->to) : "memory"); /* the copy is wanted */
        done += 2.0 * (double)w->nbytes;
        now = bench_clock();
    }
    return done / (now - start);
}

static void *run_worker(void *data)
{
    worker *w = data;
    w->rate = w->work(w);
    return NULL;
}

static double run_workers(worker *w, int n)
{
    double sum = 0;
    for (int i = 1; i < n; i++) w[i].started = pthread_create(&w[i].id, NULL, run_worker, &w[i]) == 0;
    run_worker(&w[0]);
    for (int i = 1; i < n; i++)
        if (w[i].started) (void)pthread_join(w[i].id, NULL);
    for (int i = 0; i < n; i++) sum += w[i].rate;
    return sum;
}

double bench_peak_flops(int threads)
{
    static worker w[WORKERS_MAX];
    const int n = threads < 1 ? 1 : threads > WORKERS_MAX ? WORKERS_MAX : threads;
    double best = 0;
    for (int i = 0; i < n; i++) w[i] = (worker){.work = work_fma};
    for (int r = 0; r < 7; r++) {
        const double rate = run_workers(w, n);
        if (rate > best) best = rate;
    }
    return best;
}

double bench_copy_rate(size_t nbytes, int threads)
{
    static worker w[WORKERS_MAX];
    const size_t half = nbytes / 2 < 64 ? 64 : nbytes / 2;
    int n = threads < 1 ? 1 : threads > WORKERS_MAX ? WORKERS_MAX : threads;
    if (half < (size_t)n * 4096) n = 1;
    char *from = malloc(half), *to = malloc(half);
    double rate = 0;
    if (from && to) {
        memset(from, 1, half);
        memset(to, 2, half);
        for (int i = 0; i < n; i++) {
            const size_t begin = half / (size_t)n * (size_t)i, end = i + 1 == n ? half : half / (size_t)n * (size_t)(i + 1);
            w[i] = (worker){.work = work_copy, .from = from + begin, .to = to + begin, .nbytes = end - begin};
        }
        rate = run_workers(w, n);
    }
    free(from);
    free(to);
    return rate;
}

/* --- OpenBLAS ---------------------------------------------------------------------------------- */

typedef void sgemm_fn(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b,
                      int ldb, float beta, float *c, int ldc);

struct bench_blas {
    void *lib;
    sgemm_fn *sgemm;
    const char *name;
};

/* Old versions do not know new processors and take the slowest kernels; the newest core type they do know is right. */
static void choose_core_type(void)
{
#if defined(__x86_64__) && defined(__GNUC__)
    const char *type = NULL;
    if (__builtin_cpu_supports("avx512bf16"))
        type = "SAPPHIRERAPIDS";
    else if (__builtin_cpu_supports("avx512f"))
        type = "SKYLAKEX";
    else if (__builtin_cpu_supports("avx2"))
        type = "HASWELL";
    if (type) setenv("OPENBLAS_CORETYPE", type, 0);
#endif
}

/* A function by name; ISO C has no cast from an object pointer to a function's, POSIX says the bits are the same. */
static bool find(void *lib, const char *name, void *fn, size_t size)
{
    void *p = dlsym(lib, name);
    if (p) memcpy(fn, &p, size);
    return p != NULL;
}

bench_blas *bench_blas_open(int threads, cli_error *e)
{
    char count[16];
    static const char *const names[] = {"libopenblas.so.0", "libopenblas.so"};
    bench_blas *b = calloc(1, sizeof *b);
    if (!b) {
        cli_fail(e, AN_ERR_NOMEM, "out of memory");
        return NULL;
    }
    choose_core_type();
    snprintf(count, sizeof count, "%d", threads);
    setenv("OPENBLAS_NUM_THREADS", count, 1);
    /* Its threads watch for work for 2^26 ticks of a clock, some 100 ms, in which they take processors from what is timed next. */
    setenv("OPENBLAS_THREAD_TIMEOUT", "20", 0);
    for (size_t i = 0; i < CLI_COUNT(names) && !b->lib; i++) b->lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!b->lib || !find(b->lib, "cblas_sgemm", &b->sgemm, sizeof b->sgemm)) {
        cli_fail(e, AN_ERR_UNSUPPORTED, "bench: OpenBLAS is not installed; on Debian and Ubuntu: apt-get install libopenblas0-pthread");
        bench_blas_close(b);
        return NULL;
    }
    char *(*config)(void) = NULL;
    b->name = find(b->lib, "openblas_get_config", &config, sizeof config) ? config() : "OpenBLAS";
    return b;
}

void bench_blas_close(bench_blas *b)
{
    if (!b) return;
    if (b->lib) dlclose(b->lib);
    free(b);
}

const char *bench_blas_name(const bench_blas *b)
{
    return b->name;
}

void bench_blas_matmul(const bench_blas *b, const bench_size *s, const float *x, const float *y, float *out)
{
    enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 };
    const bool ta = s->layout[0] == 't', tb = s->layout[1] == 't';
    const int m = (int)s->m, n = (int)s->n, k = (int)s->k;
    b->sgemm(ROW_MAJOR, ta ? TRANS : NO_TRANS, tb ? TRANS : NO_TRANS, m, n, k, 1, x, ta ? m : k, y, tb ? k : n, 0, out, n);
}
