/* The search for opts: what wins, what is refused, what is killed, and the file of winners. A backend that misbehaves on purpose stands in for
 * devices that do; its clock counts instead of measuring, so that these tests say the same each time. */
#define _XOPEN_SOURCE 700 /* setenv, fork */
#include "an_test.h"
#include "backend/backends.h"
#include "codegen_kernels.h"
#include "folder.h"
#include "search/search.h"
#include <anneal/device.h>
#include <anneal/settings.h>
#include <anneal/tensor.h>

#include "runtime/plan.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* --- the backend -------------------------------------------------------------------------------------------------- */

typedef enum fault { NO_FAULT, HANGS, DIES, IS_WRONG, REFUSES } fault;

/* What programs of so many lanes do. */
static fault fault_at[65];
static bool is_level; /* every program takes the same time */

enum { PROGRAMS = 4096 };
static struct {
    const an_program *program;
    uint32_t lanes;
    size_t n;
} made[PROGRAMS];
static size_t nmade;

static an_status fake_compile(an_device *dev, const an_kernel *const *kernels, size_t n, an_program **out)
{
    uint32_t lanes = 1;
    for (size_t i = 0; i < kernels[0]->nlinear; i++) {
        const uint32_t l = an_uop_lanes(kernels[0]->graph, kernels[0]->linear[i]);
        if (l > lanes && l <= 64) lanes = l;
    }
    if (fault_at[lanes] == REFUSES) return an_fail(((an_device_base *)dev)->ctx, AN_ERR_DEVICE, "no program of %u lanes", lanes);
    const an_status st = an_backend_interp.compile(dev, kernels, n, out);
    if (st) return st;
    made[nmade % PROGRAMS].program = out[0];
    made[nmade % PROGRAMS].lanes = lanes;
    made[nmade++ % PROGRAMS].n = kernels[0]->nlinear;
    return AN_OK;
}

static an_status fake_run(void *user, an_device *dev, an_program *prog, const an_launch *l, double *seconds)
{
    size_t at = nmade;
    (void)user;
    (void)dev;
    do at--;
    while (made[at % PROGRAMS].program != prog);
    const uint32_t lanes = made[at % PROGRAMS].lanes;
    if (fault_at[lanes] == HANGS) {
        for (;;) (void)pause();
    }
    if (fault_at[lanes] == DIES) abort();
    const an_status st = an_backend_interp.launch(prog, l);
    if (fault_at[lanes] == IS_WRONG && !st) {
        const float wrong = 77;
        (void)an_backend_interp.write(l->buffers[0], 8, &wrong, sizeof wrong);
    }
    *seconds = is_level ? 1e-3 : 1e-2 / lanes + 1e-6 * (double)made[at % PROGRAMS].n;
    return st;
}

static const an_search_timer timer = {.run = fake_run};

typedef struct trial {
    an_backend backend;
    an_search_desc desc;
    an_kernel kernel;
    size_t nbytes[AN_KERNEL_PARAM_MAX];
    an_search_result result;
    double took;
} trial;

static double now(void)
{
    struct timespec t = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void begin(an_test *t, trial *x)
{
    an_graph *g = an_test_graph(t);
    const kernel k = kernel_elementwise(g, AN_F32, 64);
    memset(fault_at, 0, sizeof fault_at);
    is_level = false;
    *x = (trial){.backend = an_backend_interp};
    x->backend.compile = fake_compile;
    x->desc = (an_search_desc){.opts = {.vector_nbytes = 32}, .width = 2, .depth = 3, .seconds = 60, .candidate_seconds = 5, .timer = &timer};
    x->kernel = (an_kernel){.name = "test", .graph = g, .sink = k.sink, .nparams = k.nparams};
    for (uint32_t i = 0; i < k.nparams; i++) {
        x->kernel.params[i] = (an_kernel_param){k.dtype[i], !k.is_out[i], k.is_out[i]};
        x->nbytes[i] = (size_t)k.nelem[i] * an_dtype_nbytes(k.dtype[i]);
    }
}

static void search(an_test *t, trial *x)
{
    x->desc.backend = &x->backend;
    an_search_result_fini(t->ctx, &x->result);
    const double start = now();
    CHECK_OK(t, an_search(t->ctx, &x->desc, &x->kernel, x->nbytes, &x->result));
    x->took = now() - start;
    CHECK_STR(t, an_ctx_error(t->ctx), "");
}

static uint32_t total(const trial *x)
{
    uint32_t n = 0;
    for (int i = 0; i <= AN_SEARCH_DIED; i++) n += x->result.count[i];
    return n;
}

/* The most lanes that the winner asks for; 1: none. */
static int64_t winner(an_test *t, const trial *x)
{
    int64_t lanes = 1;
    CHECK(t, x->result.found);
    for (size_t i = 0; i < x->result.list.len; i++)
        if (x->result.list.data[i].kind == AN_OPT_VECTOR && x->result.list.data[i].amount > lanes) lanes = x->result.list.data[i].amount;
    return lanes;
}

static void finish(an_test *t, trial *x)
{
    an_search_result_fini(t->ctx, &x->result);
}

static void the_fastest_list_wins(an_test *t)
{
    trial x;
    begin(t, &x);
    search(t, &x);
    CHECK_EQ(t, winner(t, &x), 32);
    CHECK(t, x.result.seconds < x.result.first_seconds);
    CHECK(t, x.result.count[AN_SEARCH_TIMED] > 4);
    CHECK_EQ(t, x.result.count[AN_SEARCH_WRONG] + x.result.count[AN_SEARCH_HUNG] + x.result.count[AN_SEARCH_DIED], 0);
    finish(t, &x);
}

static void wrong_values_never_win(an_test *t)
{
    trial x;
    begin(t, &x);
    fault_at[32] = fault_at[16] = IS_WRONG;
    search(t, &x);
    CHECK_EQ(t, winner(t, &x), 8);
    CHECK(t, x.result.count[AN_SEARCH_WRONG] >= 2);
    finish(t, &x);
}

static void a_candidate_that_hangs_is_killed_and_the_search_goes_on(an_test *t)
{
    trial x;
    begin(t, &x);
    fault_at[16] = HANGS;
    x.desc.candidate_seconds = 0.4;
    x.desc.depth = 1;
    search(t, &x);
    CHECK(t, x.result.count[AN_SEARCH_HUNG] >= 1);
    CHECK_EQ(t, winner(t, &x), 32);
    CHECK(t, x.took >= 0.4 && x.took < 30);
    finish(t, &x);
}

static void a_candidate_that_dies_takes_nothing_with_it(an_test *t)
{
    trial x;
    begin(t, &x);
    fault_at[16] = fault_at[4] = DIES;
    x.desc.depth = 1;
    search(t, &x);
    CHECK(t, x.result.count[AN_SEARCH_DIED] >= 2);
    CHECK_EQ(t, winner(t, &x), 32);
    finish(t, &x);
}

static void what_does_not_compile_is_left_out(an_test *t)
{
    trial x;
    begin(t, &x);
    fault_at[32] = REFUSES;
    search(t, &x);
    CHECK(t, x.result.count[AN_SEARCH_REFUSED] > 0);
    CHECK_EQ(t, winner(t, &x), 16);
    finish(t, &x);
}

static void a_kernel_that_hangs_without_opts_is_given_up(an_test *t)
{
    trial x;
    begin(t, &x);
    fault_at[1] = HANGS;
    x.desc.seconds = x.desc.candidate_seconds = 0.3;
    search(t, &x);
    CHECK(t, !x.result.found);
    CHECK_EQ(t, total(&x), 0);
    fault_at[1] = DIES;
    search(t, &x);
    CHECK(t, !x.result.found);
    finish(t, &x);
}

static void the_search_ends_when_a_depth_brings_nothing(an_test *t)
{
    trial x;
    begin(t, &x);
    is_level = true;
    x.desc.depth = 1;
    search(t, &x);
    const uint32_t one = total(&x);
    CHECK(t, one > 2);
    x.desc.depth = 8;
    search(t, &x);
    CHECK_EQ(t, total(&x), one);
    finish(t, &x);
}

static void depth_and_width_bound_the_search(an_test *t)
{
    trial x;
    begin(t, &x);
    x.desc.depth = 0;
    search(t, &x);
    CHECK(t, total(&x) >= 1 && total(&x) <= 2); /* the heuristics' list and none */
    uint32_t before = total(&x);
    for (uint32_t depth = 1; depth <= 2; depth++) {
        x.desc.depth = depth;
        search(t, &x);
        CHECK(t, total(&x) > before);
        before = total(&x);
    }
    x.desc.width = 1;
    search(t, &x);
    CHECK(t, total(&x) < before);
    x.desc.seconds = 0;
    search(t, &x);
    CHECK_EQ(t, total(&x), 0);
    CHECK(t, !x.result.found);
    finish(t, &x);
}

static void without_a_child_the_same_list_wins(an_test *t)
{
    trial x;
    begin(t, &x);
    search(t, &x);
    const an_search_result forked = x.result;
    x.result = (an_search_result){0};
    x.desc.no_child = true;
    search(t, &x);
    CHECK_EQ(t, x.result.list.len, forked.list.len);
    CHECK(t, memcmp(x.result.list.data, forked.list.data, forked.list.len * sizeof *forked.list.data) == 0);
    CHECK_EQ(t, x.result.count[AN_SEARCH_TIMED], forked.count[AN_SEARCH_TIMED]);
    an_search_result gone = forked;
    an_search_result_fini(t->ctx, &gone);
    finish(t, &x);
}

/* --- winners ------------------------------------------------------------------------------------------------------- */

enum { FILE_MAX = 1 << 16 };

typedef struct sandbox {
    char base[TEST_PATH_SIZE], path[TEST_PATH_SIZE + 64];
    int warned;
    an_ctx *ctx;
    an_winners *w;
} sandbox;

static void count_warning(void *user, const char *text)
{
    (void)text;
    ++((sandbox *)user)->warned;
}

static void reopen(an_test *t, sandbox *b)
{
    const an_ctx_desc desc = {.warn = count_warning, .warn_user = b};
    an_winners_close(b->w);
    an_ctx_destroy(b->ctx);
    b->w = NULL;
    b->ctx = NULL;
    b->warned = 0;
    CHECK_OK(t, an_ctx_create(&desc, &b->ctx));
    CHECK_OK(t, an_winners_open(b->ctx, b->path, &b->w));
    CHECK_STR(t, an_ctx_error(b->ctx), "");
}

static void open_sandbox(an_test *t, sandbox *b)
{
    *b = (sandbox){.warned = 0};
    an_test_folder(b->base);
    (void)snprintf(b->path, sizeof b->path, "%s/anneal/beam_cache.json", b->base);
    reopen(t, b);
}

static void close_sandbox(sandbox *b)
{
    an_winners_close(b->w);
    an_ctx_destroy(b->ctx);
    an_test_folder_remove(b->base);
}

static an_key key(uint64_t n)
{
    return an_key_mix(an_key_of("winner", 6), n);
}

static void winners_are_found_by_the_next_process(an_test *t)
{
    sandbox b;
    open_sandbox(t, &b);
    CHECK(t, !an_winners_find(b.w, key(1)));
    CHECK_OK(t, an_winners_add(b.w, key(1), "UPCAST:1024:4 VECTOR:2048:8", 1e-3, 2e-3));
    CHECK_OK(t, an_winners_add(b.w, key(2), "", 1e-3, 1e-3));
    CHECK_STR(t, an_winners_find(b.w, key(1)), "UPCAST:1024:4 VECTOR:2048:8");
    CHECK_OK(t, an_winners_save(b.w));
    reopen(t, &b);
    CHECK_STR(t, an_winners_find(b.w, key(1)), "UPCAST:1024:4 VECTOR:2048:8");
    CHECK_STR(t, an_winners_find(b.w, key(2)), "");
    CHECK(t, !an_winners_find(b.w, key(3)));
    CHECK_EQ(t, b.warned, 0);
    close_sandbox(&b);
}

static void a_corrupt_or_foreign_file_is_ignored_and_replaced(an_test *t)
{
    static const char *const texts[] = {
        "",
        "{",
        "not json at all",
        "[1, 2, 3]",
        "{\"anneal\": \"something else\", \"version\": 1, \"winners\": {}}",
        "{\"anneal\": \"beam winners\", \"version\": 2, \"winners\": {}}",
        "{\"anneal\": \"beam winners\", \"version\": 1, \"winners\": []}",
        "{\"anneal\": \"beam winners\", \"version\": 1, \"winners\": {\"short\": {\"opts\": \"\", \"seconds\": 1.0, \"first_seconds\": 1.0}}}",
        "{\"anneal\": \"beam winners\", \"version\": 1, \"winners\": {\"0123456789abcdef0123456789abcdef\": {\"opts\": 3, \"seconds\": 1.0, "
        "\"first_seconds\": 1.0}}}",
        "{\"anneal\": \"beam winners\", \"version\": 1, \"winners\": {\"0123456789abcdef0123456789abcdef\": {\"opts\": \"\", \"seconds\": -1.0, "
        "\"first_seconds\": 1.0}}}",
        "{\"anneal\": \"beam winners\", \"anneal\": \"beam winners\", \"version\": 1, \"winners\": {}}",
        "\xff\xfe\x00\x01",
    };
    static unsigned char good[FILE_MAX];
    sandbox b;
    open_sandbox(t, &b);
    CHECK_OK(t, an_winners_add(b.w, key(1), "UPCAST:1024:4", 1e-3, 2e-3));
    CHECK_OK(t, an_winners_save(b.w));
    const size_t n = an_test_file_read(b.path, good, sizeof good), ntexts = sizeof texts / sizeof texts[0];
    for (size_t i = 0; i < ntexts + n - 1; i++) { /* those, then the true one cut short anywhere */
        if (i < ntexts)
            an_test_file_write(b.path, texts[i], strlen(texts[i]));
        else
            an_test_file_write(b.path, good, i - ntexts);
        reopen(t, &b);
        CHECK_EQ(t, b.warned, 1);
        CHECK(t, !an_winners_find(b.w, key(1)));
        CHECK_OK(t, an_winners_add(b.w, key(2), "VECTOR:1024:8", 1e-3, 2e-3));
        CHECK_OK(t, an_winners_save(b.w));
        CHECK_EQ(t, b.warned, 1);
        reopen(t, &b);
        CHECK_EQ(t, b.warned, 0);
        CHECK_STR(t, an_winners_find(b.w, key(2)), "VECTOR:1024:8");
    }
    close_sandbox(&b);
}

static void processes_share_the_file(an_test *t)
{
    enum { PROCESSES = 4, KEYS = 12 };
    sandbox b;
    pid_t child[PROCESSES];
    open_sandbox(t, &b);
    for (uint64_t c = 0; c < PROCESSES; c++) {
        child[c] = fork();
        if (child[c]) continue;
        int bad = 0;
        for (uint64_t i = 0; i < KEYS; i++) {
            bad |= an_winners_add(b.w, key(100 * c + i), "UPCAST:1024:4", 1e-3, 2e-3) != AN_OK;
            bad |= an_winners_save(b.w) != AN_OK;
        }
        _exit(bad || b.warned);
    }
    for (int c = 0; c < PROCESSES; c++) {
        int status = -1;
        CHECK(t, child[c] > 0 && waitpid(child[c], &status, 0) == child[c]);
        CHECK_EQ(t, status, 0);
    }
    reopen(t, &b);
    for (uint64_t c = 0; c < PROCESSES; c++)
        for (uint64_t i = 0; i < KEYS; i++) CHECK(t, an_winners_find(b.w, key(100 * c + i)));
    close_sandbox(&b);
}

static void a_folder_that_cannot_be_written_is_a_warning(an_test *t)
{
    sandbox b;
    open_sandbox(t, &b);
    char file[TEST_PATH_SIZE + 16];
    (void)snprintf(file, sizeof file, "%s/anneal", b.base);
    an_test_file_write(file, "", 0); /* a file where the folder should be */
    CHECK_OK(t, an_winners_add(b.w, key(1), "", 1, 1));
    CHECK_OK(t, an_winners_save(b.w));
    CHECK_EQ(t, b.warned, 1);
    CHECK_STR(t, an_ctx_error(b.ctx), "");
    close_sandbox(&b);
}

/* --- the whole ------------------------------------------------------------------------------------------------------ */
#ifdef AN_HAVE_CPU

enum { M = 48, K = 64, N = 56 };

typedef struct outcome {
    float y[M * N];
    an_key key;
    bool by_hand;
    double seconds;
} outcome;

static void compute(an_test *t, sandbox *b, unsigned width, outcome *o)
{
    static float data[M * K + K * N];
    an_ctx *ctx = NULL;
    an_graph *g = NULL;
    an_plan *plan = NULL;
    const an_ctx_desc desc = {.warn = count_warning, .warn_user = b};
    for (size_t i = 0; i < M * K + K * N; i++) data[i] = (float)(i * 7919 % 1013) / 506.5f - 1.0f;
    const double start = now();
    CHECK_OK(t, an_ctx_create(&desc, &ctx));
    CHECK_OK(t, an_ctx_set_settings(ctx, (an_settings){.beam_width = width, .beam_depth = 2, .beam_seconds = 20}));
    CHECK_OK(t, an_graph_create(ctx, &g));
    CHECK_OK(t, an_graph_set_device(g, "cpu"));
    an_tensor *y = an_relu(an_matmul(an_tensor_from_host(g, AN_F32, AN_DIMS(M, K), data),
                                     an_tensor_from_host(g, AN_F32, AN_DIMS(K, N), data + M * K)));
    CHECK_OK(t, an_plan_create(g, &y, 1, NULL, &plan));
    CHECK_OK(t, an_plan_run(plan));
    CHECK_OK(t, an_tensor_read(y, o->y, sizeof o->y));
    o->key = plan->kernels[0]->key;
    o->by_hand = plan->kernels[0]->opts.by_hand;
    an_plan_destroy(plan);
    an_graph_destroy(g);
    an_ctx_destroy(ctx);
    o->seconds = now() - start;
}

static void check_near(an_test *t, const outcome *a, const outcome *b)
{
    for (size_t i = 0; i < M * N; i++) CHECK_NEAR(t, a->y[i], b->y[i], 1e-4);
}

static void plans_run_what_the_search_found(an_test *t)
{
    static unsigned char text[FILE_MAX], again[FILE_MAX];
    static outcome off, first, second, lied;
    sandbox b;
    open_sandbox(t, &b);
    CHECK(t, setenv("XDG_CACHE_HOME", b.base, 1) == 0);
    compute(t, &b, 0, &off);
    CHECK(t, !off.by_hand);
    CHECK(t, access(b.path, F_OK) != 0);
    compute(t, &b, 2, &first);
    CHECK(t, first.by_hand);
    CHECK(t, !an_key_eq(first.key, off.key)); /* the list is in the key */
    check_near(t, &first, &off);
    const size_t n = an_test_file_read(b.path, text, sizeof text - 1);
    compute(t, &b, 2, &second);
    CHECK(t, an_key_eq(second.key, first.key));
    CHECK(t, memcmp(first.y, second.y, sizeof first.y) == 0);
    CHECK(t, second.seconds < first.seconds); /* nothing was searched */
    CHECK_EQ(t, an_test_file_read(b.path, again, sizeof again), n);
    CHECK_EQ(t, b.warned, 0);
    /* lists that do not apply, in a file that is otherwise right */
    for (size_t i = 0; i + 8 < n; i++)
        if (memcmp(text + i, "\"opts\": \"", 9) == 0)
            for (size_t k = i + 9; text[k] != '"'; k++)
                if (text[k] == ':') text[k + 1] = '9';
    an_test_file_write(b.path, text, n);
    compute(t, &b, 2, &lied);
    CHECK(t, b.warned >= 1);
    check_near(t, &lied, &off);
    close_sandbox(&b);
}
#else
static void plans_run_what_the_search_found(an_test *t)
{
    (void)t; /* the interpreter is not searched */
}
#endif

AN_TEST_MAIN(AN_CASE(the_fastest_list_wins), AN_CASE(wrong_values_never_win),
             AN_CASE(a_candidate_that_hangs_is_killed_and_the_search_goes_on), AN_CASE(a_candidate_that_dies_takes_nothing_with_it),
             AN_CASE(what_does_not_compile_is_left_out), AN_CASE(a_kernel_that_hangs_without_opts_is_given_up),
             AN_CASE(the_search_ends_when_a_depth_brings_nothing), AN_CASE(depth_and_width_bound_the_search),
             AN_CASE(without_a_child_the_same_list_wins), AN_CASE(winners_are_found_by_the_next_process),
             AN_CASE(a_corrupt_or_foreign_file_is_ignored_and_replaced), AN_CASE(processes_share_the_file),
             AN_CASE(a_folder_that_cannot_be_written_is_a_warning), AN_CASE(plans_run_what_the_search_found))
