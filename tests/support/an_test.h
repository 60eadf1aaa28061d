/* an_test.h - what every test program uses: cases with a fresh context that is checked for leaks, checks that print what
 * they saw, and a walk over every failing allocation. cmocka runs the cases.
 *
 *     static void equal_nodes_are_one_node(an_test *t)
 *     {
 *         an_graph *g = an_test_graph(t);
 *         CHECK_SAME(t, an_uop_int(g, 1), an_uop_int(g, 1));
 *     }
 *     AN_TEST_MAIN(AN_CASE(equal_nodes_are_one_node))
 *
 * A case is a sentence. It ends at its first failed check. `test_ir deep` runs the cases whose name contains "deep". */
#ifndef AN_TEST_H
#define AN_TEST_H

#include <anneal/device.h>
#include <anneal/graph.h>

/* The allocator behind a test's context: checks that frees name the right sizes, counts what is live, and fails on demand. */
typedef struct an_test_memory {
    size_t calls;     /* allocations and growths so far */
    size_t fail_at;   /* the call that gets NULL, counted from 1; 0: none */
    bool fail_onward; /* every later call fails too */
    size_t failed;    /* calls that got NULL */
    size_t live_blocks, live_nbytes;
    bool wrong_size; /* a block was given back with a size it does not have */
} an_test_memory;
an_allocator an_test_allocator(an_test_memory *memory);

typedef struct an_test {
    an_ctx *ctx; /* made before the case, destroyed after it */
    an_graph *graph;
    an_test_memory memory;
} an_test;

/* A graph that the end of the case destroys; the same one each time. */
an_graph *an_test_graph(an_test *t);

/* The backends to test on, the default first; *n their number. webgpu, which comes last, only where AN_WEBGPU is set in the
 * environment: opening it is dear, and a machine may have no adapter. */
const an_backend *const *an_test_backends(size_t *n);

/* The folder of large files beside the repository (SHARED in the environment, else ../shared), or NULL after a line that
 * says the case is skipped. Use: if (!dir) return. */
const char *an_test_shared_dir(void);

/* Runs body with an allocator whose n-th call fails, for n = 1, 2, ..., until it passes without a failure, once with only
 * that call failing and once with every later one failing too. body makes nothing that outlives it but what hangs off ctx,
 * and returns what the library said. Checked each time: AN_ERR_NOMEM and nothing else, a sentence in the context, no block
 * left when the context is gone, right sizes. Past 200 the n grow by a fortieth each, to end in good time;
 * AN_TEST_EVERY in the environment takes them all. */
typedef an_status (*an_test_body)(an_ctx *ctx, void *arg);
void an_test_every_alloc_failure(an_test *t, an_test_body body, void *arg);

/* Whether times may be held against the code: it is optimised, no sanitizer slows it, and the machine has not much else to do
 * (a load of more than half its processors). */
#if defined(__has_feature)
#define AN_TEST_HAS_FEATURE(name) __has_feature(name)
#else
#define AN_TEST_HAS_FEATURE(name) 0
#endif
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && !AN_TEST_HAS_FEATURE(address_sanitizer)
#define AN_TEST_TIMES an_test_idle()
#else
#define AN_TEST_TIMES false
#endif
bool an_test_idle(void);

/* --- checks ------------------------------------------------------------------------------------------------------- */
void an_test_fail(const char *file, int line, const char *fmt, ...) AN_PRINTF(3, 4);
void an_test_check_status(an_test *t, an_status got, an_status want, const char *part, const char *call, const char *file,
                          int line);
void an_test_check_int(long long a, long long b, const char *text, const char *file, int line);
void an_test_check_near(double a, double b, double tolerance, const char *text, const char *file, int line);
void an_test_check_str(const char *a, const char *b, const char *text, const char *file, int line);
void an_test_check_contains(const char *text, const char *part, const char *file, int line);

/* The t is there to read well and to leave room: every check has it first. */
#define CHECK(t, cond) ((void)(t), (cond) ? (void)0 : an_test_fail(__FILE__, __LINE__, "not so: %s", #cond))
#define CHECK_EQ(t, a, b)                                                                                              \
    ((void)(t), an_test_check_int((long long)(a), (long long)(b), #a " == " #b, __FILE__, __LINE__))
#define CHECK_STR(t, a, b) ((void)(t), an_test_check_str((a), (b), #a " == " #b, __FILE__, __LINE__))
#define CHECK_CONTAINS(t, text, part) ((void)(t), an_test_check_contains((text), (part), __FILE__, __LINE__))
/* |a - b| <= tolerance * max(1, |b|); two NaN agree */
#define CHECK_NEAR(t, a, b, tolerance)                                                                                 \
    ((void)(t), an_test_check_near((double)(a), (double)(b), (double)(tolerance), #a " ~ " #b, __FILE__, __LINE__))
#define CHECK_SAME(t, a, b)                                                                                            \
    ((void)(t), an_test_check_int((long long)(a).id, (long long)(b).id, #a " is " #b, __FILE__, __LINE__))
#define CHECK_OK(t, call) an_test_check_status((t), (call), AN_OK, "", #call, __FILE__, __LINE__)
/* The call fails with this status and its sentence contains part; the error is then cleared. */
#define CHECK_FAILS(t, call, status, part) an_test_check_status((t), (call), (status), (part), #call, __FILE__, __LINE__)

/* --- the table of cases ------------------------------------------------------------------------------------------- */
typedef struct an_test_case {
    const char *name;
    void (*run)(an_test *t);
} an_test_case;
int an_test_main(const an_test_case *cases, size_t ncases, const char *part); /* cases whose name contains part; NULL: all */
#define AN_CASE(fn) {#fn, fn}
#define AN_TEST_MAIN(...)                                                                                              \
    int main(int argc, char **argv)                                                                                    \
    {                                                                                                                  \
        static const an_test_case cases[] = {__VA_ARGS__};                                                             \
        return an_test_main(cases, sizeof cases / sizeof cases[0], argc > 1 ? argv[1] : NULL);                         \
    }

#endif
