/* Compiled kernels on disk: the next process compiles nothing, and no file makes a result wrong. */
#define _XOPEN_SOURCE 700 /* setenv, fork */
#include "an_test.h"
#include <anneal/device.h>
#include <anneal/settings.h>
#include <anneal/tensor.h>

#include "runtime/plan.h"

#ifdef AN_HAVE_CPU
#include "folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { M = 23, K = 37, N = 19, FILES = 64, PACK_MAX = 1 << 18 };
static char files[FILES][TEST_PATH_SIZE];

typedef struct sandbox {
    char base[TEST_PATH_SIZE], folder[TEST_PATH_SIZE + 32];
    int warned;
} sandbox;

static void open_sandbox(an_test *t, sandbox *b)
{
    an_test_folder(b->base);
    (void)snprintf(b->folder, sizeof b->folder, "%s/anneal/kernels", b->base);
    b->warned = 0;
    CHECK(t, setenv("XDG_CACHE_HOME", b->base, 1) == 0);
}

static void count_warning(void *user, const char *text)
{
    (void)text;
    ++((sandbox *)user)->warned;
}

typedef struct outcome {
    float y[M * N], z[M];
    size_t kernels, lowered; /* lowered: went through codegen */
} outcome;

static an_tensor *numbers(an_graph *g, const int64_t *dims, uint32_t rank)
{
    static float data[4096];
    for (size_t i = 0; i < 4096; i++) data[i] = (float)((i * 7919) % 1013) / 506.5f - 1.0f;
    return an_tensor_from_host(g, AN_F32, dims, rank, data);
}

/* What a new process would do: a context of its own. */
static void compute(an_test *t, sandbox *b, an_settings settings, outcome *o)
{
    an_ctx *ctx = NULL;
    an_graph *g = NULL;
    an_plan *plan = NULL;
    const an_ctx_desc desc = {.warn = count_warning, .warn_user = b};
    CHECK_OK(t, an_ctx_create(&desc, &ctx));
    CHECK_OK(t, an_ctx_set_settings(ctx, settings));
    CHECK_OK(t, an_graph_create(ctx, &g));
    CHECK_OK(t, an_graph_set_device(g, "cpu"));
    an_tensor *x = numbers(g, AN_DIMS(M, K)), *w = numbers(g, AN_DIMS(K, N));
    an_tensor *y = an_gelu(an_matmul(x, w)), *out[2] = {y, an_sum(an_exp(y), AN_DIMS(1), false)};
    CHECK_OK(t, an_plan_create(g, out, 2, NULL, &plan));
    CHECK_OK(t, an_plan_run(plan));
    CHECK_OK(t, an_tensor_read(out[0], o->y, sizeof o->y));
    CHECK_OK(t, an_tensor_read(out[1], o->z, sizeof o->z));
    o->kernels = plan->ncalls;
    o->lowered = 0;
    for (size_t i = 0; i < plan->ncalls; i++) o->lowered += plan->kernels[i]->linear.len > 0;
    sandbox text = {.warned = 0};
    CHECK_OK(t, an_plan_kernel_print(plan, 0, AN_KERNEL_LINEAR, count_warning, &text)); /* it can be made when asked for */
    CHECK(t, text.warned > 0);
    an_plan_destroy(plan);
    an_graph_destroy(g);
    an_ctx_destroy(ctx);
}

static void check_same(an_test *t, const outcome *a, const outcome *b)
{
    CHECK(t, memcmp(a->y, b->y, sizeof a->y) == 0);
    CHECK(t, memcmp(a->z, b->z, sizeof a->z) == 0);
}

static void the_next_process_compiles_nothing(an_test *t)
{
    sandbox b;
    outcome off, first, second;
    open_sandbox(t, &b);
    compute(t, &b, (an_settings){.no_cache = true}, &off);
    CHECK_EQ(t, access(b.folder, F_OK), -1); /* off is off */
    compute(t, &b, (an_settings){0}, &first);
    CHECK_EQ(t, first.lowered, first.kernels);
    CHECK_EQ(t, an_test_files(b.folder, ".pack", files, FILES), 1);
    compute(t, &b, (an_settings){0}, &second);
    CHECK_EQ(t, second.lowered, 0);
    CHECK_EQ(t, an_test_files(b.folder, ".pack", files, FILES), 1);
    check_same(t, &off, &first);
    check_same(t, &first, &second);
    CHECK_EQ(t, b.warned, 0);
    compute(t, &b, (an_settings){.no_cache = true}, &off);
    CHECK_EQ(t, off.lowered, off.kernels); /* and does not read */
    an_test_folder_remove(b.base);
}

static void every_knob_is_in_the_key(an_test *t)
{
    static const an_settings knobs[] = {{0}, {.no_opt = true}, {.no_fuse = true}, {.no_opt = true, .no_fuse = true}};
    enum { KNOBS = sizeof knobs / sizeof knobs[0] };
    static outcome alone[KNOBS];
    sandbox b;
    outcome o;
    open_sandbox(t, &b);
    for (size_t i = 0; i < KNOBS; i++) {
        an_settings off = knobs[i];
        off.no_cache = true;
        compute(t, &b, off, &alone[i]);
    }
    CHECK(t, alone[0].kernels != alone[2].kernels);
    for (size_t i = 0; i < KNOBS; i++) {
        compute(t, &b, knobs[i], &o);
        CHECK_EQ(t, o.lowered, o.kernels); /* the others' code was not taken */
        check_same(t, &o, &alone[i]);
    }
    for (size_t i = 0; i < KNOBS; i++) {
        compute(t, &b, knobs[i], &o);
        CHECK_EQ(t, o.lowered, 0);
        check_same(t, &o, &alone[i]);
    }
    an_test_folder_remove(b.base);
}

/* A bit in each of many places, and files cut short: never a wrong value, never a crash, always made again. */
static void damaged_code_never_runs(an_test *t)
{
    static unsigned char good[PACK_MAX], bad[PACK_MAX];
    enum { TRIES = 60 };
    sandbox b;
    outcome want, o;
    open_sandbox(t, &b);
    compute(t, &b, (an_settings){0}, &want);
    CHECK_EQ(t, an_test_files(b.folder, ".pack", files, FILES), 1);
    const size_t n = an_test_file_read(files[0], good, sizeof good);
    CHECK(t, n > 1000 && n < PACK_MAX);
    char path[TEST_PATH_SIZE + 96];
    (void)snprintf(path, sizeof path, "%s/%032x.pack", b.folder, 1u);
    CHECK(t, unlink(files[0]) == 0);
    for (size_t i = 0; i < TRIES; i++) {
        size_t len = n;
        const size_t at = i * (n - 1) / (TRIES - 1);
        memcpy(bad, good, n);
        bad[at] ^= (unsigned char)(1u << i % 8);
        if (i % 6 == 5) len = at;
        an_test_file_write(path, bad, len);
        b.warned = 0;
        compute(t, &b, (an_settings){0}, &o);
        check_same(t, &o, &want);
        CHECK_EQ(t, b.warned, 1);
        CHECK(t, o.lowered > 0);
        compute(t, &b, (an_settings){0}, &o); /* what was whole in that pack went with it, if it had been read already */
        compute(t, &b, (an_settings){0}, &o);
        CHECK_EQ(t, b.warned, 1);
        CHECK_EQ(t, o.lowered, 0);
        check_same(t, &o, &want);
        const size_t packs = an_test_files(b.folder, ".pack", files, FILES);
        for (size_t k = 0; k < packs; k++) CHECK(t, unlink(files[k]) == 0);
    }
    an_test_folder_remove(b.base);
}

static void two_processes_compile_at_once(an_test *t)
{
    enum { PROCESSES = 3 };
    sandbox b;
    outcome want, o;
    pid_t child[PROCESSES];
    open_sandbox(t, &b);
    compute(t, &b, (an_settings){.no_cache = true}, &want);
    for (int i = 0; i < PROCESSES; i++) {
        child[i] = fork();
        if (child[i]) continue;
        compute(t, &b, (an_settings){0}, &o);
        _exit(memcmp(o.y, want.y, sizeof o.y) == 0 && memcmp(o.z, want.z, sizeof o.z) == 0 && !b.warned ? 0 : 1);
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status = -1;
        CHECK(t, child[i] > 0 && waitpid(child[i], &status, 0) == child[i]);
        CHECK_EQ(t, status, 0);
    }
    compute(t, &b, (an_settings){0}, &o);
    CHECK_EQ(t, o.lowered, 0);
    CHECK_EQ(t, b.warned, 0);
    an_test_folder_remove(b.base);
}

AN_TEST_MAIN(AN_CASE(the_next_process_compiles_nothing), AN_CASE(every_knob_is_in_the_key), AN_CASE(damaged_code_never_runs),
             AN_CASE(two_processes_compile_at_once))
#else
static void there_is_nothing_to_keep_without_the_cpu_backend(an_test *t)
{
    size_t n = 0;
    CHECK(t, an_test_backends(&n) != NULL && n > 0);
}

AN_TEST_MAIN(AN_CASE(there_is_nothing_to_keep_without_the_cpu_backend))
#endif
