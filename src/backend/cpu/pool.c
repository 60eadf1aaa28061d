/* pool.c - see pool.h.
 *
 * One word holds the run's number, its number of parts and the next part to be taken: a thread takes a part by counting it
 * up, which fails when the run is over. So a thread that comes late does nothing, and a caller whose helpers get no
 * processor does all parts itself.
 *
 * Between runs a helper watches the number for a while, yielding, then sleeps. A run that is worth it rings the bell for one
 * sleeper; who wakes up and finds parts left rings for the next, so the caller pays for one wake at most. A caller whose
 * parts are done waits the same way for those that others took.
 *
 * State outside a context: none. Threads touch no allocator. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* syscall, madvise */
#endif
#include "backend/cpu/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>
#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

enum { HELPERS_MAX = 255, SPIN_NS = 50000, CACHE_LINE = 64, PAGE = 2 << 20 };

/* A word to sleep on until it changes. */
typedef struct bell {
    _Atomic uint32_t word;
#ifndef __linux__
    pthread_mutex_t lock;
    pthread_cond_t cond;
#endif
} bell;

/* A helper's own. */
typedef struct helper {
    struct cpu_pool *pool;
    pthread_t thread;
    unsigned char *scratch;
} helper;

struct cpu_pool {
    an_ctx *ctx;
    void *block; /* of scratch, the caller's first */
    size_t block_nbytes;
    unsigned char *scratch; /* aligned, within block */
    int nwanted, nhelpers; /* helpers: threads besides the caller's */
    bool started;
    helper helpers[HELPERS_MAX];
    char apart[CACHE_LINE]; /* from what other threads write */
    _Atomic uint64_t ticket; /* run << 32 | parts << 16 | next part */
    _Atomic(cpu_entry) entry;
    _Atomic(void *const *) params;
    _Atomic(const int64_t *) vars;
    char between[CACHE_LINE];
    bell ended; /* parts of this run */
    _Atomic bool is_awaited;
    char after[CACHE_LINE];
    bell wake;
    _Atomic uint32_t sleepers;
    _Atomic bool quit;
};

/* --- bells --------------------------------------------------------------------------------------------------------- */

#ifdef __linux__
static bool bell_init(bell *b)
{
    atomic_init(&b->word, 0);
    return true;
}

static void bell_fini(bell *b)
{
    (void)b;
}

/* Returns when the word is not seen any more, or now and then without reason. */
static void bell_wait(bell *b, uint32_t seen)
{
    (void)syscall(SYS_futex, &b->word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void bell_ring(bell *b, int n)
{
    (void)syscall(SYS_futex, &b->word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}
#else
static bool bell_init(bell *b)
{
    atomic_init(&b->word, 0);
    if (pthread_mutex_init(&b->lock, NULL) != 0) return false;
    if (pthread_cond_init(&b->cond, NULL) == 0) return true;
    (void)pthread_mutex_destroy(&b->lock);
    return false;
}

static void bell_fini(bell *b)
{
    (void)pthread_cond_destroy(&b->cond);
    (void)pthread_mutex_destroy(&b->lock);
}

static void bell_wait(bell *b, uint32_t seen)
{
    (void)pthread_mutex_lock(&b->lock);
    while (atomic_load(&b->word) == seen) (void)pthread_cond_wait(&b->cond, &b->lock);
    (void)pthread_mutex_unlock(&b->lock);
}

static void bell_ring(bell *b, int n)
{
    (void)pthread_mutex_lock(&b->lock);
    (void)(n == 1 ? pthread_cond_signal(&b->cond) : pthread_cond_broadcast(&b->cond));
    (void)pthread_mutex_unlock(&b->lock);
}
#endif

/* --- parts --------------------------------------------------------------------------------------------------------- */

static uint32_t run_of(uint64_t ticket)
{
    return (uint32_t)(ticket >> 32);
}

static uint32_t parts_of(uint64_t ticket)
{
    return ticket >> 16 & 0xffff;
}

static uint32_t next_of(uint64_t ticket)
{
    return ticket & 0xffff;
}

static void relax(void)
{
#if defined(__x86_64__) && defined(__GNUC__)
    __builtin_ia32_pause();
#endif
}

/* Takes parts of that run until none is left. What is read before a part is taken belongs to that run, or taking fails. */
static void take_parts(cpu_pool *p, uint32_t run, void *scratch)
{
    for (;;) {
        uint64_t t = atomic_load_explicit(&p->ticket, memory_order_acquire);
        const uint32_t next = next_of(t), nparts = parts_of(t);
        if (run_of(t) != run || next >= nparts) return;
        const cpu_entry entry = atomic_load_explicit(&p->entry, memory_order_relaxed);
        void *const *params = atomic_load_explicit(&p->params, memory_order_relaxed);
        const int64_t *vars = atomic_load_explicit(&p->vars, memory_order_relaxed);
        if (!atomic_compare_exchange_strong_explicit(&p->ticket, &t, t + 1, memory_order_acq_rel, memory_order_relaxed)) continue;
        entry(params, vars, next, nparts, scratch);
        (void)atomic_fetch_add(&p->ended.word, 1);
        if (atomic_load(&p->is_awaited)) bell_ring(&p->ended, 1);
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

static bool has_ended(cpu_pool *p, uint32_t nparts)
{
    return atomic_load(&p->ended.word) >= nparts;
}

/* Watches for a while; false: in vain. */
static bool watch(cpu_pool *p, bool (*is_so)(cpu_pool *p, uint32_t n), uint32_t n)
{
    enum { BETWEEN = 64 }; /* looks at the word for one yield */
    for (int64_t end = 0;;) {
        for (int i = 0; i < BETWEEN; i++) {
            if (is_so(p, n)) return true;
            relax();
        }
        const int64_t now = now_ns();
        if (end && now > end) return false;
        if (!end) end = now + SPIN_NS;
        (void)sched_yield();
    }
}

/* One sleeper, if there is one. */
static void wake_one(cpu_pool *p)
{
    if (!atomic_load(&p->sleepers)) return;
    (void)atomic_fetch_add(&p->wake.word, 1);
    bell_ring(&p->wake, 1);
}

static void wait_for_run(cpu_pool *p, uint32_t seen)
{
    if (watch(p, is_new, seen)) return;
    for (;;) {
        const uint32_t rung = atomic_load(&p->wake.word);
        (void)atomic_fetch_add(&p->sleepers, 1); /* from here on, who starts a run rings; what it rang before is_new sees */
        const bool now = is_new(p, seen);
        if (!now) bell_wait(&p->wake, rung);
        (void)atomic_fetch_sub(&p->sleepers, 1);
        if (now || is_new(p, seen)) break;
    }
    const uint64_t t = atomic_load(&p->ticket);
    if (next_of(t) < parts_of(t)) wake_one(p);
}

static void *help(void *data)
{
    const helper *h = data;
    cpu_pool *p = h->pool;
    uint32_t seen = 0;
    for (;;) {
        wait_for_run(p, seen);
        if (atomic_load(&p->quit)) return NULL;
        seen = run_of(atomic_load(&p->ticket));
        take_parts(p, seen, h->scratch);
    }
}

/* As many as the system gives: none is an answer too. */
static void start(cpu_pool *p)
{
    p->started = true;
    for (; p->nhelpers < p->nwanted; p->nhelpers++) {
        helper *h = &p->helpers[p->nhelpers];
        *h = (helper){.pool = p, .scratch = p->scratch + (size_t)(p->nhelpers + 1) * CPU_SCRATCH_NBYTES};
        if (pthread_create(&h->thread, NULL, help, h) != 0) return;
    }
}

void cpu_pool_run(cpu_pool *p, cpu_entry entry, void *const *params, const int64_t *vars, uint32_t nparts, bool wake)
{
    if (!p->started && wake && nparts > 1) start(p);
    if (p->nhelpers == 0 || nparts < 2) {
        entry(params, vars, 0, 1, p->scratch);
        return;
    }
    const uint32_t run = run_of(atomic_load_explicit(&p->ticket, memory_order_relaxed)) + 1;
    atomic_store_explicit(&p->entry, entry, memory_order_relaxed);
    atomic_store_explicit(&p->params, params, memory_order_relaxed);
    atomic_store_explicit(&p->vars, vars, memory_order_relaxed);
    atomic_store_explicit(&p->ended.word, 0, memory_order_relaxed);
    atomic_store(&p->ticket, (uint64_t)run << 32 | (uint64_t)nparts << 16);
    if (wake) wake_one(p);
    take_parts(p, run, p->scratch);
    if (watch(p, has_ended, nparts)) return;
    atomic_store(&p->is_awaited, true);
    for (uint32_t n = atomic_load(&p->ended.word); n < nparts; n = atomic_load(&p->ended.word)) bell_wait(&p->ended, n);
    atomic_store(&p->is_awaited, false);
}

/* Untouched until it is used. */
static bool take_scratch(cpu_pool *p)
{
    const size_t nbytes = (size_t)(p->nwanted + 1) * CPU_SCRATCH_NBYTES, whole = (nbytes + PAGE - 1) / PAGE * PAGE;
    p->block_nbytes = whole + PAGE;
    p->block = an_mem_alloc(p->ctx, p->block_nbytes);
    if (!p->block) return false;
    const size_t past = (uintptr_t)p->block % PAGE;
    p->scratch = (unsigned char *)p->block + (past ? PAGE - past : 0);
#ifdef MADV_HUGEPAGE
    (void)madvise(p->scratch, whole, MADV_HUGEPAGE); /* a no is no harm */
#endif
    return true;
}

an_status cpu_pool_create(an_ctx *ctx, int threads, cpu_pool **out)
{
    cpu_pool *p = an_mem_zalloc(ctx, sizeof *p);
    if (!p) return AN_ERR_NOMEM;
    p->ctx = ctx;
    p->nwanted = threads < 1 ? 0 : threads > HELPERS_MAX ? HELPERS_MAX : threads - 1;
    if (!take_scratch(p)) {
        an_mem_free(ctx, p, sizeof *p);
        return AN_ERR_NOMEM;
    }
    if (bell_init(&p->ended)) {
        if (bell_init(&p->wake)) {
            *out = p;
            return AN_OK;
        }
        bell_fini(&p->ended);
    }
    an_mem_free(ctx, p->block, p->block_nbytes);
    an_mem_free(ctx, p, sizeof *p);
    return an_fail(ctx, AN_ERR_DEVICE, "cpu: the system has no lock to give");
}

void cpu_pool_destroy(cpu_pool *p)
{
    if (!p) return;
    atomic_store(&p->quit, true);
    (void)atomic_fetch_add(&p->wake.word, 1);
    bell_ring(&p->wake, HELPERS_MAX);
    for (int i = 0; i < p->nhelpers; i++) (void)pthread_join(p->helpers[i].thread, NULL);
    bell_fini(&p->wake);
    bell_fini(&p->ended);
    an_mem_free(p->ctx, p->block, p->block_nbytes);
    an_mem_free(p->ctx, p, sizeof *p);
}
