/* test_random_graphs.c - random tensor programs, each run on every backend, with and without fusion, optimisation and reuse of memory, directly and
 * replayed by a jit, within a budget of memory, from schedules and kernels on disk, against an oracle that has no scheduler and no code generation (tests/support/random_program.h).
 *
 *     AN_RANDOM_GRAPHS=100000 test_random_graphs      how many (2000)
 *     AN_RANDOM_SEED=17 ...                           the first seed (1)
 *     AN_RANDOM_THOROUGH=1                            each program in every way; else two ways and some of the others
 *
 * Programs run in a child process, so that one that crashes or does not end is a difference like any other: it is made smaller
 * and printed with its seed. */
#define _DEFAULT_SOURCE /* strsignal, MAP_ANONYMOUS */
#include "an_test.h"
#include "folder.h"
#include "random_program.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifdef SANITIZED
enum { PROGRAMS = 300 }; /* everything is slower */
#else
enum { PROGRAMS = 2000 };
#endif

enum { LIMIT_S = 60, WAIT_S = 900 }; /* of work, and of waiting, for one program before it counts as endless: others may use the machine */
static const double SLOW_S = 1.0; /* a plan that takes longer to make is reported */

/* What a child tells, as it goes. */
typedef struct report {
    uint64_t seed; /* at work on */
    bool done, failed;
    random_verdict verdict;
    size_t compared, open, symbolic, within, kept, programs, slow;
    double slowest;
    uint64_t slowest_seed;
} report;

static uint64_t setting(const char *name, uint64_t fallback)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : fallback;
}

static bool make(uint64_t seed, random_program *p, random_verdict *v)
{
    an_ctx *ctx = NULL;
    an_status st = an_ctx_create(NULL, &ctx);
    if (!st) st = random_make(ctx, seed, p);
    if (st) {
        snprintf(v->kind, sizeof v->kind, "making");
        snprintf(v->text, sizeof v->text, "%s", an_ctx_error(ctx));
    }
    an_ctx_destroy(ctx);
    return !st;
}

/* cmocka catches these to end a test; a child is to die of them. */
static void die_of_signals(void)
{
    static const int all[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) (void)signal(all[i], SIG_DFL);
}

/* The process dies if it has not called this again within seconds of work. */
static void limit_to(int seconds)
{
    const struct itimerval work = {.it_value = {.tv_sec = seconds}};
    (void)setitimer(ITIMER_PROF, &work, NULL);
    (void)alarm(WAIT_S);
}

/* In a child: programs from r->seed up to end, to the first fault. */
static void run_many(report *r, uint64_t end, bool thorough)
{
    random_lab *lab = random_lab_create();
    for (; r->seed < end && !r->failed; r->seed++) {
        random_program p;
        limit_to(LIMIT_S);
        r->verdict = (random_verdict){0};
        if (make(r->seed, &p, &r->verdict)) random_check(lab, &p, thorough, &r->verdict);
        r->failed = r->verdict.kind[0] != 0;
        r->compared += r->verdict.compared;
        r->open += r->verdict.open;
        r->symbolic += r->verdict.symbolic;
        r->within += r->verdict.within;
        r->kept += r->verdict.kept;
        r->programs++;
        if (r->verdict.seconds > SLOW_S) {
            r->slow++;
            printf("seed %llu: a plan took %.1f s to make\n", (unsigned long long)r->seed, r->verdict.seconds);
            (void)fflush(stdout);
        }
        if (r->verdict.seconds > r->slowest) {
            r->slowest = r->verdict.seconds;
            r->slowest_seed = r->seed;
        }
        if (r->failed) break;
        if (r->programs % 5000 == 0) {
            printf("%zu programs, at seed %llu\n", r->programs, (unsigned long long)r->seed);
            (void)fflush(stdout);
        }
    }
    random_lab_destroy(lab);
    r->done = true;
}

/* Waits for a child; a crash becomes a verdict. */
static void collect(pid_t child, report *r)
{
    int status = 0;
    (void)waitpid(child, &status, 0);
    if (r->done) return;
    r->failed = true;
    const bool in_time = !WIFSIGNALED(status) || (WTERMSIG(status) != SIGALRM && WTERMSIG(status) != SIGPROF);
    snprintf(r->verdict.kind, sizeof r->verdict.kind, "%s", in_time ? "crash" : "does not end");
    snprintf(r->verdict.text, sizeof r->verdict.text, "%s", WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "it exits");
}

typedef struct hunt {
    report *r;
    char kind[64];
} hunt;

/* Has p the fault that is hunted? */
static bool same_fault(void *user, const random_program *p)
{
    hunt *h = user;
    *h->r = (report){0};
    const pid_t child = fork();
    if (child == 0) {
        die_of_signals();
        limit_to(LIMIT_S / 4);
        random_lab *lab = random_lab_create();
        random_check(lab, p, true, &h->r->verdict);
        random_lab_destroy(lab);
        h->r->done = true;
        _exit(0);
    }
    collect(child, h->r);
    return strcmp(h->r->verdict.kind, h->kind) == 0;
}

static void explain(an_test *t, report *r)
{
    static char text[RANDOM_TEXT];
    random_program p = {0};
    random_verdict v = r->verdict;
    const uint64_t seed = r->seed;
    if (!make(seed, &p, &v)) an_test_fail(__FILE__, __LINE__, "seed %llu: %s", (unsigned long long)seed, v.text);
    hunt h = {.r = r};
    memcpy(h.kind, v.kind, sizeof h.kind);
    if (same_fault(&h, &p)) {
        random_shrink(&p, same_fault, &h);
        if (same_fault(&h, &p)) v = h.r->verdict;
    } else {
        printf("seed %llu: the fault does not show by itself\n", (unsigned long long)seed);
    }
    random_print(&p, text, sizeof text);
    CHECK(t, v.kind[0]);
    printf("\nseed %llu: %s: %s\n%s\n", (unsigned long long)seed, v.kind, v.text, text);
    (void)fflush(stdout);
}

static void every_way_gives_what_the_oracle_gives(an_test *t)
{
    const uint64_t count = setting("AN_RANDOM_GRAPHS", PROGRAMS), first = setting("AN_RANDOM_SEED", 1);
    const bool thorough = getenv("AN_RANDOM_THOROUGH") != NULL;
    report *r = mmap(NULL, sizeof *r, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(t, r != MAP_FAILED);
    size_t faults = 0, compared = 0, open = 0, symbolic = 0, within = 0, kept = 0, programs = 0;
    char cache[TEST_PATH_SIZE];
    an_test_folder(cache);
    CHECK_EQ(t, setenv("XDG_CACHE_HOME", cache, 1), 0);
    double slowest = 0;
    uint64_t slowest_seed = 0;
    for (uint64_t seed = first; seed < first + count;) {
        *r = (report){.seed = seed};
        (void)fflush(stdout);
        const pid_t child = fork();
        CHECK(t, child >= 0);
        if (child == 0) {
            die_of_signals();
            run_many(r, first + count, thorough);
            _exit(0);
        }
        collect(child, r);
        compared += r->compared;
        open += r->open;
        symbolic += r->symbolic;
        within += r->within;
        kept += r->kept;
        programs += r->programs;
        if (r->slowest > slowest) {
            slowest = r->slowest;
            slowest_seed = r->slowest_seed;
        }
        seed = r->seed + 1;
        if (!r->failed) break;
        explain(t, r);
        if (++faults >= setting("AN_RANDOM_FAULTS", 3)) break;
    }
    printf("%zu programs, %zu elements held to the oracle, %zu open; %zu times over a symbol, %zu within a budget, %zu from disk; slowest plan %.2f s (seed %llu)\n",
           programs, compared, open, symbolic, within, kept, slowest, (unsigned long long)slowest_seed);
    (void)munmap(r, sizeof *r);
    an_test_folder_remove(cache);
    CHECK_EQ(t, faults, 0);
    if (programs < 1000) return; /* of few, shares are luck */
    CHECK(t, compared > 10 * open); /* else the programs say little */
    CHECK(t, symbolic > programs / 8);
    CHECK(t, within > programs / 100 && kept > programs / 100);
}

AN_TEST_MAIN(AN_CASE(every_way_gives_what_the_oracle_gives))
