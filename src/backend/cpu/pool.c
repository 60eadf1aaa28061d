/* pool.c - see pool.h.
 *
 * One word holds the run's number, its number of parts and the next part to be taken: a thread takes a part by counting it
 * up, which fails when the run is over. So a thread that comes late does nothing, and a caller whose helpers get no
 * processor does all parts itself. Between runs threads watch the number for a while, yielding, then sleep.
 *
 * State outside a context: none. Threads touch no allocator. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include "backend/cpu/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

enum { HELPERS_MAX = 255, SPIN_NS = 50000, CACHE_LINE = 64 };

struct cpu_pool {
    an_ctx *ctx;
    int nwanted, nhelpers; /* helpers: threads besides the caller's */
    bool started;
    pthread_t helpers[HELPERS_MAX];
    char apart[CACHE_LINE]; /* from what other threads write */
    _Atomic uint64_t ticket; /* run << 32 | parts << 16 | next part */
    _Atomic(cpu_entry) entry;
    _Atomic(void *const *) params;
    _Atomic(const int64_t *) vars;
    char between[CACHE_LINE];
    _Atomic uint32_t ended; /* parts of this run */
    char after[CACHE_LINE];
    _Atomic uint32_t sleepers;
    _Atomic bool quit;
    pthread_mutex_t lock; /* of sleeping */
    pthread_cond_t wake;
};

static uint32_t run_of(uint64_t ticket)
{
    return (uint32_t)(ticket >> 32);
}

static void relax(void)
{
#if defined(__x86_64__) && defined(__GNUC__)
    __builtin_ia32_pause();
#endif
}

/* Takes parts of that run until none is left. What is read before a part is taken belongs to that run, or taking fails. */
static void take_parts(cpu_pool *p, uint32_t run)
{
    for (;;) {
        uint64_t t = atomic_load_explicit(&p->ticket, memory_order_acquire);
        const uint32_t next = t & 0xffff, nparts = t >> 16 & 0xffff;
        if (run_of(t) != run || next >= nparts) return;
        const cpu_entry entry = atomic_load_explicit(&p->entry, memory_order_relaxed);
        void *const *params = atomic_load_explicit(&p->params, memory_order_relaxed);
        const int64_t *vars = atomic_load_explicit(&p->vars, memory_order_relaxed);
        if (!atomic_compare_exchange_strong_explicit(&p->ticket, &t, t + 1, memory_order_acq_rel, memory_order_relaxed)) continue;
        entry(params, vars, next, nparts);
        atomic_fetch_add_explicit(&p->ended, 1, memory_order_release);
    }
}

static int64_t now_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static bool is_new(cpu_pool *p, uint32_t seen)
{
    return run_of(atomic_load(&p->ticket)) != seen || atomic_load(&p->quit);
}

static void wait_for_run(cpu_pool *p, uint32_t seen)
{
    enum { BETWEEN = 64 }; /* looks at the word for one yield */
    const int64_t end = now_ns() + SPIN_NS;
    for (;;) {
        for (int i = 0; i < BETWEEN; i++) {
            if (is_new(p, seen)) return;
            relax();
        }
        if (now_ns() > end) break;
        (void)sched_yield();
    }
    (void)pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->sleepers, 1);
    while (!is_new(p, seen)) (void)pthread_cond_wait(&p->wake, &p->lock);
    atomic_fetch_sub(&p->sleepers, 1);
    (void)pthread_mutex_unlock(&p->lock);
}

static void *help(void *data)
{
    cpu_pool *p = data;
    uint32_t seen = 0;
    for (;;) {
        wait_for_run(p, seen);
        if (atomic_load(&p->quit)) return NULL;
        seen = run_of(atomic_load(&p->ticket));
        take_parts(p, seen);
    }
}

static void wake_sleepers(cpu_pool *p)
{
    if (!atomic_load(&p->sleepers)) return;
    (void)pthread_mutex_lock(&p->lock);
    (void)pthread_cond_broadcast(&p->wake);
    (void)pthread_mutex_unlock(&p->lock);
}

/* As many as the system gives: none is an answer too. */
static void start(cpu_pool *p)
{
    p->started = true;
    while (p->nhelpers < p->nwanted && pthread_create(&p->helpers[p->nhelpers], NULL, help, p) == 0) p->nhelpers++;
}

void cpu_pool_run(cpu_pool *p, cpu_entry entry, void *const *params, const int64_t *vars, uint32_t nparts)
{
    if (!p->started) start(p);
    if (p->nhelpers == 0 || nparts < 2) {
        entry(params, vars, 0, 1);
        return;
    }
    const uint32_t run = run_of(atomic_load_explicit(&p->ticket, memory_order_relaxed)) + 1;
    atomic_store_explicit(&p->entry, entry, memory_order_relaxed);
    atomic_store_explicit(&p->params, params, memory_order_relaxed);
    atomic_store_explicit(&p->vars, vars, memory_order_relaxed);
    atomic_store_explicit(&p->ended, 0, memory_order_relaxed);
    atomic_store(&p->ticket, (uint64_t)run << 32 | (uint64_t)nparts << 16);
    wake_sleepers(p);
    take_parts(p, run);
    for (int i = 1; atomic_load_explicit(&p->ended, memory_order_acquire) < nparts; i++) {
        if (i % 64 == 0) (void)sched_yield();
        relax();
    }
}

an_status cpu_pool_create(an_ctx *ctx, int threads, cpu_pool **out)
{
    cpu_pool *p = an_mem_zalloc(ctx, sizeof *p);
    if (!p) return AN_ERR_NOMEM;
    p->ctx = ctx;
    p->nwanted = threads < 1 ? 0 : threads > HELPERS_MAX ? HELPERS_MAX : threads - 1;
    if (pthread_mutex_init(&p->lock, NULL) == 0) {
        if (pthread_cond_init(&p->wake, NULL) == 0) {
            *out = p;
            return AN_OK;
        }
        (void)pthread_mutex_destroy(&p->lock);
    }
    an_mem_free(ctx, p, sizeof *p);
    return an_fail(ctx, AN_ERR_DEVICE, "cpu: the system has no lock to give");
}

void cpu_pool_destroy(cpu_pool *p)
{
    if (!p) return;
    (void)pthread_mutex_lock(&p->lock);
    atomic_store(&p->quit, true);
    (void)pthread_cond_broadcast(&p->wake);
    (void)pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->nhelpers; i++) (void)pthread_join(p->helpers[i], NULL);
    (void)pthread_cond_destroy(&p->wake);
    (void)pthread_mutex_destroy(&p->lock);
    an_mem_free(p->ctx, p, sizeof *p);
}
