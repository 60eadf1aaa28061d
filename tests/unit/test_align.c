/* test_align.c - products whose operands lie at odd places get copies at multiples of four on a GPU: which do, and that values stay. Schedules
 * for the device's cost model, without a device: what they list is run by the interpreter. */
#include "an_test.h"
#include "run_schedule.h"

#include <anneal/device.h>
#include <anneal/plan.h>

#include "backend/backends.h"
#include "codegen/codegen.h"
#include "schedule/schedule.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char word[] = "at multiples of four";

static an_tensor *some(an_graph *g, const int64_t *dims, uint32_t rank)
{
    return an_tensor_from_host(g, AN_F32, dims, rank, NULL);
}

/* How many there are, some of them perhaps in one kernel. */
static size_t copies_of(const an_schedule *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->calls.len; i++)
        for (uint32_t b = 0; strstr(s->calls.data[i].reason, word) && b < s->calls.data[i].nbuffers; b++) n += s->calls.data[i].is_written[b];
    return n;
}

/* How many operands are copied on a device; *nkernels: of all. */
static size_t copies_on(an_test *t, an_graph *g, const char *device, an_tensor *const *outs, uint32_t n, size_t *nkernels)
{
    const an_cost cost = an_cost_for(&(an_backend){.name = device});
    an_schedule s = {0};
    an_uop roots[4];
    for (uint32_t i = 0; i < n; i++) roots[i] = an_tensor_uop(outs[i]);
    CHECK_OK(t, an_schedule_make(g, roots, n, &cost, NULL, &s));
    const size_t copies = copies_of(&s);
    if (nkernels) *nkernels = s.calls.len;
    an_schedule_fini(g, &s);
    return copies;
}

static size_t copies_of_product(an_test *t, const char *device, int64_t m, int64_t n, int64_t k)
{
    an_graph *g = an_test_graph(t);
    an_tensor *y = an_matmul(some(g, AN_DIMS(m, k)), some(g, AN_DIMS(k, n)));
    return copies_on(t, g, device, &y, 1, NULL);
}

static void large_products_of_odd_sizes_read_copies_on_a_gpu(an_test *t)
{
    CHECK_EQ(t, copies_of_product(t, "webgpu", 4095, 4095, 4095), 2);
    CHECK_EQ(t, copies_of_product(t, "webgpu", 1001, 1001, 1001), 2);
    CHECK_EQ(t, copies_of_product(t, "webgpu", 4095, 4096, 4096), 0); /* rows may be of any number */
    CHECK_EQ(t, copies_of_product(t, "webgpu", 4096, 4095, 4096), 1); /* one operand has rows of 4095 */
    CHECK_EQ(t, copies_of_product(t, "webgpu", 4096, 4096, 4095), 2); /* zeros on both sides, whatever is infinite */
    CHECK_EQ(t, copies_of_product(t, "webgpu", 4096, 4096, 4096), 0);
    CHECK_EQ(t, copies_of_product(t, "webgpu", 101, 101, 101), 0);    /* a launch costs more */
    CHECK_EQ(t, copies_of_product(t, "webgpu", 9, 4095, 4095), 0);    /* so do the bytes */
    CHECK_EQ(t, copies_of_product(t, "cpu", 1001, 1001, 1001), 0);
}

static void symbolic_products_read_their_operands_as_they_are(an_test *t)
{
    an_graph *g = an_test_graph(t);
    const an_uop n = an_symbol(g, "n", 1, 2047);
    an_tensor *a = an_tensor_alloc_uop(g, AN_F32, (const an_uop[]){n, an_dim(g, 2047)}, 2), *y = an_matmul(a, some(g, AN_DIMS(2047, 2047)));
    CHECK_EQ(t, copies_on(t, g, "webgpu", &y, 1, NULL), 0);
}

/* Of x @ w and its gradients: x, w and the gradient that comes are copied once each. */
static void products_of_the_same_operands_share_copies(an_test *t)
{
    an_graph *g = an_test_graph(t);
    an_tensor *x = some(g, AN_DIMS(2047, 2047)), *w = some(g, AN_DIMS(2047, 2047)), *dy = some(g, AN_DIMS(2047, 2047));
    an_tensor *outs[3] = {an_matmul(x, w), an_matmul(an_transpose(x, 0, 1), dy), an_matmul(dy, an_transpose(w, 0, 1))};
    size_t nkernels = 0;
    CHECK_EQ(t, copies_on(t, g, "webgpu", outs, 3, &nkernels), 3);
    CHECK_EQ(t, nkernels, 5); /* two of the copies by one */
}

/* A product of a product waits for it; its other operand does not. */
static void copies_of_what_is_computed_wait_alone(an_test *t)
{
    an_graph *g = an_test_graph(t);
    an_tensor *a = some(g, AN_DIMS(2047, 2047)), *b = some(g, AN_DIMS(2047, 2047));
    an_tensor *y = an_matmul(a, an_matmul(a, b));
    size_t nkernels = 0;
    CHECK_EQ(t, copies_on(t, g, "webgpu", &y, 1, &nkernels), 3);
    CHECK_EQ(t, nkernels, 5);
}

/* Prime numbers of steps have no parts; padded ones do, and whole tiles of them. */
static void padded_sums_have_parts_of_whole_tiles(an_test *t)
{
    an_graph *g = an_test_graph(t);
    an_tensor *y = an_matmul(some(g, AN_DIMS(1009, 1009)), some(g, AN_DIMS(1009, 1009))), *z = an_matmul(some(g, AN_DIMS(1008, 1008)), some(g, AN_DIMS(1008, 1008)));
    const an_cost cost = an_cost_for(&(an_backend){.name = "webgpu"});
    const an_uop roots[2] = {an_tensor_uop(y), an_tensor_uop(z)};
    an_schedule s = {0};
    CHECK_OK(t, an_schedule_make(g, roots, 2, &cost, NULL, &s));
    size_t whole = 0;
    for (size_t i = 0; i < s.calls.len; i++)
        whole += strcmp(s.calls.data[i].name, "reduce_4x1009x1012_r256") == 0 || strcmp(s.calls.data[i].name, "reduce_7x1008x1008_r144") == 0;
    CHECK_EQ(t, whole, 2);
    an_schedule_fini(g, &s);
}

/* --- values ---------------------------------------------------------------------------------------- */

enum { INPUTS_MAX = 4, NUMEL_MAX = 8192 };

typedef an_test_input input;

/* What out is by the schedule for this cost model; the number of copies in it. */
static size_t values(an_test *t, an_graph *g, const an_cost *cost, an_codegen_opts opts, const input *in, uint32_t nin, an_tensor *out, void *data)
{
    an_schedule s = {0};
    an_test_run_schedule(t, g, cost, opts, in, nin, out, data, &s);
    const size_t copies = copies_of(&s);
    an_schedule_fini(g, &s);
    return copies;
}

/* With copies, made for products of any size, to the bit what it is without; and near it in tiles. */
static void check_same(an_test *t, an_graph *g, const char *what, const input *in, uint32_t nin, an_tensor *out, size_t ncopies)
{
    static float want[NUMEL_MAX], got[NUMEL_MAX];
    const an_cost plain = an_cost_for(NULL);
    an_cost eager = an_cost_for(&(an_backend){.name = "webgpu"});
    eager.launch_ns = 0;
    eager.bytes_per_ns = 1e9;
    const size_t n = an_tensor_nbytes(out) / sizeof *got;
    CHECK(t, n <= NUMEL_MAX);
    CHECK_EQ(t, values(t, g, &plain, (an_codegen_opts){.no_opt = true}, in, nin, out, want), 0);
    const size_t copies = values(t, g, &eager, (an_codegen_opts){.no_opt = true}, in, nin, out, got);
    if (copies != ncopies) an_test_fail(__FILE__, __LINE__, "%s: %zu copies, not %zu", what, copies, ncopies);
    if (memcmp(got, want, n * sizeof *got) != 0) an_test_fail(__FILE__, __LINE__, "%s: values differ", what);
    (void)values(t, g, &eager, (an_codegen_opts){.vector_nbytes = 16, .gpu = {256, 32768, 16, true, false}}, in, nin, out, got);
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(got[i] - want[i]) <= 1e-4f * fmaxf(1, fabsf(want[i]))) && !(isnan(got[i]) && isnan(want[i])) && got[i] != want[i])
            an_test_fail(__FILE__, __LINE__, "%s, in tiles: element %zu is %.9g, not %.9g", what, i, (double)got[i], (double)want[i]);
}

static float data[INPUTS_MAX][NUMEL_MAX];

static void fill(void)
{
    for (int p = 0; p < INPUTS_MAX; p++)
        for (int i = 0; i < NUMEL_MAX; i++) data[p][i] = (float)((i * 37 + p * 11) % 101) / 64 - 0.75f;
}

static void layouts_batches_and_what_follows_keep_their_values(an_test *t)
{
    an_graph *g = an_test_graph(t);
    fill();
    for (int layout = 0; layout < 4; layout++)
        for (int odd = 1; odd < 8; odd++) { /* which sizes are */
            const int64_t m = odd & 1 ? 33 : 36, n = odd & 2 ? 35 : 40, k = odd & 4 ? 37 : 32;
            an_tensor *a = layout & 1 ? some(g, AN_DIMS(k, m)) : some(g, AN_DIMS(m, k)), *b = layout & 2 ? some(g, AN_DIMS(n, k)) : some(g, AN_DIMS(k, n));
            an_tensor *bias = some(g, AN_DIMS(n)), *rest = some(g, AN_DIMS(m, n));
            an_tensor *y = an_matmul(layout & 1 ? an_transpose(a, 0, 1) : a, layout & 2 ? an_transpose(b, 0, 1) : b);
            const input in[4] = {{a, data[0]}, {b, data[1]}, {bias, data[2]}, {rest, data[3]}};
            const size_t copies = odd & 4 ? 2 : (size_t)((layout & 1 && odd & 1) + (!(layout & 2) && odd & 2));
            check_same(t, g, "a product", in, 2, y, copies);
            check_same(t, g, "a product and more", in, 4, an_add(an_relu(an_add(y, bias)), rest), copies);
        }
    an_tensor *a = some(g, AN_DIMS(3, 19, 21)), *b = some(g, AN_DIMS(21, 23)), *c = some(g, AN_DIMS(3, 21, 22));
    const input in[3] = {{a, data[0]}, {b, data[1]}, {c, data[2]}};
    check_same(t, g, "a batch by one", in, 2, an_matmul(a, b), 2);
    check_same(t, g, "a batch by a batch", in, 3, an_matmul(a, c), 2);
    an_tensor *wide = some(g, AN_DIMS(24, 40)), *tall = some(g, AN_DIMS(32, 24)); /* rows at multiples of four, a part that is not */
    const input parts[2] = {{wide, data[0]}, {tall, data[1]}};
    check_same(t, g, "a part of a matrix", parts, 2, an_matmul(an_slice(wide, 1, 3, 35, 1), tall), 1);
}

/* Zeros are multiplied with zeros: infinity and NaN go where they went, and -0 is no sum. */
static void what_is_no_number_keeps_its_place(an_test *t)
{
    an_graph *g = an_test_graph(t);
    an_tensor *a = some(g, AN_DIMS(33, 37)), *b = some(g, AN_DIMS(37, 35));
    const input in[2] = {{a, data[0]}, {b, data[1]}};
    fill();
    for (int i = 0; i < 35; i++) data[1][36 * 35 + i] = i % 2 ? INFINITY : NAN; /* the last row: what zeros alone must not meet */
    for (int i = 0; i < 33; i++) data[0][i * 37 + 36] = i % 3 ? 0.0f : -1.0f;
    check_same(t, g, "infinities at the end of b", in, 2, an_matmul(a, b), 2);
    fill();
    data[0][32 * 37 + 36] = INFINITY;
    for (int k = 0; k < 37; k++) data[0][5 * 37 + k] = -0.0f;
    check_same(t, g, "infinity at the end of a, and a row of -0", in, 2, an_matmul(a, b), 2);
}

/* Halves are copied as they are. */
static void narrow_operands_are_copied_too(an_test *t)
{
    enum { M = 33, N = 35, K = 37 };
    static uint16_t half[2][NUMEL_MAX], out[2][NUMEL_MAX];
    an_graph *g = an_test_graph(t);
    for (int p = 0; p < 2; p++)
        for (int i = 0; i < NUMEL_MAX; i++) half[p][i] = (uint16_t)(0x3800 + (i * 37 + p * 11) % 1024); /* 0.5 to 1 */
    an_tensor *a = an_tensor_from_host(g, AN_F16, AN_DIMS(M, K), NULL), *b = an_tensor_from_host(g, AN_F16, AN_DIMS(K, N), NULL), *y = an_matmul(a, b);
    const input in[2] = {{a, half[0]}, {b, half[1]}};
    const an_cost plain = an_cost_for(NULL);
    an_cost eager = an_cost_for(&(an_backend){.name = "webgpu"});
    eager.launch_ns = 0;
    eager.bytes_per_ns = 1e9;
    CHECK_EQ(t, values(t, g, &plain, (an_codegen_opts){.no_opt = true}, in, 2, y, out[0]), 0);
    CHECK_EQ(t, values(t, g, &eager, (an_codegen_opts){.no_opt = true}, in, 2, y, out[1]), 2);
    CHECK(t, memcmp(out[0], out[1], sizeof(uint16_t) * M * N) == 0);
}

/* A parameter less what is computed of it, written over it. */
static void writes_through_a_padded_loop_stay_inside(an_test *t)
{
    an_graph *g = an_test_graph(t);
    an_tensor *w = some(g, AN_DIMS(33, 35)), *x = some(g, AN_DIMS(37, 33)), *dy = some(g, AN_DIMS(37, 35));
    fill();
    const input of[3] = {{w, data[0]}, {x, data[1]}, {dy, data[2]}};
    an_tensor *next = an_sub(w, an_matmul(an_transpose(x, 0, 1), dy));
    check_same(t, g, "a step", of, 3, next, 2);
}

/* --- on a device ------------------------------------------------------------------------------------ */

static void a_device_has_the_values_of_a_plain_loop(an_test *t)
{
    enum { M = 769, N = 773, K = 787 };
    size_t n = 0;
    const an_backend *const *all = an_test_backends(&n);
    if (strcmp(all[n - 1]->name, "webgpu") != 0) return;
    an_graph *g = an_test_graph(t);
    float *a = malloc(sizeof(float) * M * K), *b = malloc(sizeof(float) * K * N), *got = malloc(sizeof(float) * M * N);
    double *want = calloc((size_t)M * N, sizeof *want);
    CHECK(t, a && b && got && want);
    for (int i = 0; i < M * K; i++) a[i] = (float)(i * 37 % 101) / 64 - 0.75f;
    for (int i = 0; i < K * N; i++) b[i] = (float)(i * 53 % 97) / 64 - 0.75f;
    for (int i = 0; i < M; i++)
        for (int k = 0; k < K; k++)
            for (int j = 0; j < N; j++) want[i * N + j] += (double)a[i * K + k] * (double)b[k * N + j];
    CHECK_OK(t, an_graph_set_device(g, "webgpu"));
    an_tensor *y = an_matmul(an_tensor_from_host(g, AN_F32, AN_DIMS(M, K), a), an_tensor_from_host(g, AN_F32, AN_DIMS(K, N), b));
    CHECK_EQ(t, copies_on(t, g, "webgpu", &y, 1, NULL), 2);
    CHECK_OK(t, an_tensor_read(y, got, sizeof(float) * M * N));
    for (int i = 0; i < M * N; i++)
        if (!(fabs((double)got[i] - want[i]) <= 1e-4 * fmax(1, fabs(want[i])))) an_test_fail(__FILE__, __LINE__, "element %d is %.9g, not %.9g", i, (double)got[i], want[i]);
    free(a);
    free(b);
    free(got);
    free(want);
}

static an_status schedule(an_ctx *ctx, void *arg)
{
    an_graph *g = NULL;
    an_schedule s = {0};
    an_cost eager = an_cost_for(&(an_backend){.name = "webgpu"});
    (void)arg;
    eager.launch_ns = 0;
    eager.bytes_per_ns = 1e9;
    if (an_graph_create(ctx, &g)) return an_ctx_status(ctx);
    an_tensor *y = an_matmul(some(g, AN_DIMS(17, 19)), some(g, AN_DIMS(19, 21)));
    const an_uop root = y ? an_tensor_uop(y) : AN_UOP_NONE;
    const an_status st = y ? an_schedule_make(g, &root, 1, &eager, NULL, &s) : an_ctx_status(ctx);
    an_schedule_fini(g, &s);
    an_graph_destroy(g);
    return st;
}

static void every_failing_allocation_is_a_clean_error(an_test *t)
{
    an_test_every_alloc_failure(t, schedule, NULL);
}

AN_TEST_MAIN(AN_CASE(large_products_of_odd_sizes_read_copies_on_a_gpu), AN_CASE(symbolic_products_read_their_operands_as_they_are),
             AN_CASE(products_of_the_same_operands_share_copies), AN_CASE(copies_of_what_is_computed_wait_alone),
             AN_CASE(padded_sums_have_parts_of_whole_tiles),
             AN_CASE(layouts_batches_and_what_follows_keep_their_values), AN_CASE(what_is_no_number_keeps_its_place),
             AN_CASE(narrow_operands_are_copied_too),
             AN_CASE(writes_through_a_padded_loop_stay_inside), AN_CASE(a_device_has_the_values_of_a_plain_loop), AN_CASE(every_failing_allocation_is_a_clean_error))
