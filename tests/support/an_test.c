/* an_test.c - cases, checks and the allocator that fails on demand. */
#define _DEFAULT_SOURCE /* getloadavg, setenv */
#include "an_test.h"

#include <anneal/ctx.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* --- times --- */

bool an_test_idle(void)
{
    double load = 0;
    const long n = sysconf(_SC_NPROCESSORS_ONLN);
    if (getloadavg(&load, 1) != 1 || load <= 0.5 * (double)n) return true;
    printf("    a load of %.1f on %ld processors: no time is held against the code\n", load, n);
    return false;
}

/* --- memory --- */

/* Before each block: its size, and alignment for any type. */
typedef union block {
    size_t nbytes;
    max_align_t align;
} block;

static void *block_realloc(void *user, void *ptr, size_t old_size, size_t new_size)
{
    an_test_memory *m = user;
    block *old = ptr ? (block *)ptr - 1 : NULL;
    if (old && old->nbytes != old_size) m->wrong_size = true;
    if (new_size == 0) {
        if (old) {
            m->live_blocks--;
            m->live_nbytes -= old->nbytes;
            memset(old, 0xdd, sizeof *old + old->nbytes); /* a use after free should not look right */
            free(old);
        }
        return NULL;
    }
    m->calls++;
    if (m->fail_at && (m->calls == m->fail_at || (m->fail_onward && m->calls > m->fail_at))) {
        m->failed++;
        return NULL;
    }
    block *fresh = malloc(sizeof *fresh + new_size); /* always moves, so a stale pointer shows */
    if (!fresh) return NULL;
    fresh->nbytes = new_size;
    memset(fresh + 1, 0xcd, new_size);
    m->live_blocks++;
    m->live_nbytes += new_size;
    if (old) {
        memcpy(fresh + 1, old + 1, old->nbytes < new_size ? old->nbytes : new_size);
        m->live_blocks--;
        m->live_nbytes -= old->nbytes;
        free(old);
    }
    return fresh + 1;
}

an_allocator an_test_allocator(an_test_memory *memory)
{
    return (an_allocator){.realloc = block_realloc, .user = memory};
}

/* One run of body; a sentence in why when it did not end as it should. Returns whether body passed without a failure. */
static bool run_failing(an_test_body body, void *arg, size_t fail_at, bool onward, char *why, size_t size)
{
    an_test_memory m = {.fail_at = fail_at, .fail_onward = onward};
    const an_allocator a = an_test_allocator(&m);
    an_ctx *ctx = NULL;
    an_status st = an_ctx_create(&(an_ctx_desc){.allocator = &a}, &ctx);
    if (!st) st = body(ctx, arg);
    if (m.failed == 0 && st)
        snprintf(why, size, "fails without a failed allocation: %s: %s", an_status_text(st), an_ctx_error(ctx));
    if (m.failed > 0 && st != AN_ERR_NOMEM)
        snprintf(why, size, "returns '%s' (%s), not out of memory", an_status_text(st), ctx ? an_ctx_error(ctx) : "");
    if (m.failed > 0 && ctx && an_ctx_status(ctx) != AN_ERR_NOMEM)
        snprintf(why, size, "leaves '%s' (%s) in the context", an_status_text(an_ctx_status(ctx)), an_ctx_error(ctx));
    an_ctx_destroy(ctx);
    if (m.live_blocks) snprintf(why, size, "leaks %zu blocks, %zu bytes", m.live_blocks, m.live_nbytes);
    if (m.wrong_size) snprintf(why, size, "frees a block with a size that it does not have");
    return m.failed == 0;
}

void an_test_every_alloc_failure(an_test *t, an_test_body body, void *arg)
{
    (void)t;
    const bool every = getenv("AN_TEST_EVERY") != NULL;
    for (int onward = 0; onward < 2; onward++) {
        char why[1024] = "";
        for (size_t n = 1;; n += n < 200 || every ? 1 : n / 40) {
            const bool passed = run_failing(body, arg, n, onward, why, sizeof why);
            if (why[0])
                an_test_fail(__FILE__, __LINE__, "allocation %zu %s fails: the call %s", n, onward ? "and every later one" : "alone",
                             why);
            if (passed) break;
        }
    }
}

/* --- checks --- */

void an_test_fail(const char *file, int line, const char *fmt, ...)
{
    char text[2048];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    print_error("%s\n", text);
    _fail(file, line);
}

void an_test_check_status(an_test *t, an_status got, an_status want, const char *part, const char *call, const char *file,
                          int line)
{
    const char *text = an_ctx_error(t->ctx);
    if (got != want)
        an_test_fail(file, line, "%s gives '%s' (%s), not '%s'", call, an_status_text(got), text, an_status_text(want));
    if (want == AN_OK) return;
    if (!strstr(text, part)) an_test_fail(file, line, "%s fails with \"%s\", which lacks \"%s\"", call, text, part);
    an_ctx_clear_error(t->ctx);
}

void an_test_check_int(long long a, long long b, const char *text, const char *file, int line)
{
    if (a != b) an_test_fail(file, line, "not so: %s: %lld and %lld", text, a, b);
}

void an_test_check_near(double a, double b, double tolerance, const char *text, const char *file, int line)
{
    if (isnan(a) && isnan(b)) return;
    if (isinf(a) && isinf(b) && (a > 0) == (b > 0)) return;
    if (!(fabs(a - b) <= tolerance * fmax(1, fabs(b))))
        an_test_fail(file, line, "not so: %s: %.17g and %.17g, more than %g apart", text, a, b, tolerance);
}

void an_test_check_str(const char *a, const char *b, const char *text, const char *file, int line)
{
    if (!a || !b || strcmp(a, b) != 0)
        an_test_fail(file, line, "not so: %s:\n\"%s\"\n\"%s\"", text, a ? a : "NULL", b ? b : "NULL");
}

void an_test_check_contains(const char *text, const char *part, const char *file, int line)
{
    if (!text || !strstr(text, part)) an_test_fail(file, line, "\"%s\" does not contain \"%s\"", text ? text : "NULL", part);
}

/* --- cases --- */

an_graph *an_test_graph(an_test *t)
{
    if (!t->graph) CHECK_OK(t, an_graph_create(t->ctx, &t->graph));
    return t->graph;
}

const an_backend *const *an_test_backends(size_t *n)
{
    const an_backend *const *list = an_backends(n);
    if (*n && strcmp(list[*n - 1]->name, "webgpu") == 0 && !getenv("AN_WEBGPU")) --*n;
    return list;
}

const char *an_test_shared_dir(void)
{
    const char *dir = getenv("SHARED");
    struct stat st;
    if (!dir) dir = "../shared";
    if (stat(dir, &st) == 0 && S_ISDIR(st.st_mode)) return dir;
    print_message("skipped: there is no folder %s\n", dir);
    return NULL;
}

static void run_case(void **state)
{
    const an_test_case *c = *state;
    an_test t = {0};
    const an_allocator a = an_test_allocator(&t.memory);
    if (an_ctx_create(&(an_ctx_desc){.allocator = &a}, &t.ctx)) an_test_fail(__FILE__, __LINE__, "no context");
    c->run(&t);
    if (an_ctx_status(t.ctx)) an_test_fail(__FILE__, __LINE__, "the case leaves an error behind: %s", an_ctx_error(t.ctx));
    an_graph_destroy(t.graph);
    an_ctx_destroy(t.ctx);
    if (t.memory.live_blocks)
        an_test_fail(__FILE__, __LINE__, "leaked: %zu blocks, %zu bytes", t.memory.live_blocks, t.memory.live_nbytes);
    if (t.memory.wrong_size) an_test_fail(__FILE__, __LINE__, "a block was freed with a size that it does not have");
}

int an_test_main(const an_test_case *cases, size_t ncases, const char *part)
{
    if (setenv("ANNEAL_CACHE", "0", 0) != 0) return 1; /* nothing of another run, and nothing in the user's folder */
    struct CMUnitTest *tests = calloc(ncases, sizeof *tests);
    an_test_case *copies = calloc(ncases, sizeof *copies); /* cmocka takes void *, so not the const ones */
    if (!tests || !copies) return 1;
    size_t n = 0;
    for (size_t i = 0; i < ncases; i++) {
        if (part && !strstr(cases[i].name, part)) continue;
        copies[n] = cases[i];
        tests[n] = (struct CMUnitTest){.name = cases[i].name, .test_func = run_case, .initial_state = &copies[n]};
        n++;
    }
    const int failed = n > 0 ? _cmocka_run_group_tests("", tests, n, NULL, NULL) : 1;
    free(tests);
    free(copies);
    return failed != 0;
}
