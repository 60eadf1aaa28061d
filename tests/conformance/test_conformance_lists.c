/* test_conformance_lists.c - what linear lists are made of beside elementwise ops: loops, accumulators, lanes, gates,
 * gathers; and the kernels that codegen makes. Every backend against the interpreter. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "conformance.h"

#include "../unit/codegen_kernels.h"
#include "backend/backends.h"
#include "ir/eval.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { NELEM = 80, DATA_NBYTES = 1 << 16 };

/* Fills with numbers of a moderate size, the same each time. */
static void fill(an_dtype dtype, void *data, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++) {
        const int64_t v = (int64_t)(an_mix64(an_mix64(seed, i), 1) >> 50) - 8192;
        const bool flt = an_dtype_kind_of(dtype) == AN_KIND_FLOAT;
        const an_scalar s = flt ? (an_scalar){.f = (double)v / 2048} : (an_scalar){.i = v};
        an_scalar_store(dtype, an_scalar_round(dtype, s), (char *)data + i * an_dtype_nbytes(dtype));
    }
}

/* Runs one kernel on every device with the same data; each buffer must end within steps of the interpreter's; of numbers below 1, which
 * are left of others that were taken away, within as many of 2^-24. nelem: of each buffer. first_out: what the interpreter leaves in buffer 0, if not NULL. */
static void compare(an_test *t, const an_kernel *made, const size_t *nelem, const int64_t *vars, int64_t steps,
                    void *first_out)
{
    static unsigned char start[CONF_PARAMS_MAX][DATA_NBYTES], want[CONF_PARAMS_MAX][DATA_NBYTES], got[DATA_NBYTES * CONF_PARAMS_MAX];
    conf_devices d;
    conf_open(t, &d);
    for (uint32_t p = 0; p < made->nparams; p++) {
        CHECK(t, nelem[p] * an_dtype_nbytes(made->params[p].dtype) <= DATA_NBYTES);
        fill(made->params[p].dtype, start[p], nelem[p], p + 1);
    }
    for (size_t which = 0; which < d.n; which++) {
        an_program *program = NULL;
        conf_buffer b[CONF_PARAMS_MAX];
        for (uint32_t p = 0; p < made->nparams; p++) {
            const size_t nbytes = nelem[p] * an_dtype_nbytes(made->params[p].dtype);
            b[p] = (conf_buffer){which ? got + (size_t)p * DATA_NBYTES : want[p], nbytes};
            memcpy(b[p].data, start[p], nbytes);
        }
        bool has_all = true;
        for (uint32_t p = 0; p < made->nparams; p++) has_all = has_all && conf_has_dtype(t, &d, which, made->params[p].dtype);
        if (!has_all) continue;
        CHECK_OK(t, d.backend[which]->compile(d.device[which], &made, 1, &program));
        CHECK_OK(t, conf_run(&d, which, program, b, made->nparams, vars));
        d.backend[which]->program_destroy(program);
        for (uint32_t p = 0; which && p < made->nparams; p++) {
            const an_dtype dtype = made->params[p].dtype;
            const size_t size = an_dtype_nbytes(dtype);
            for (size_t i = 0; i < nelem[p]; i++) {
                const unsigned char *x = got + (size_t)p * DATA_NBYTES + i * size, *y = want[p] + i * size;
                if (conf_steps(dtype, x, y) <= steps) continue;
                if (steps && dtype == AN_F32 && fabs(an_scalar_load(dtype, x).f - an_scalar_load(dtype, y).f) <= 0x1p-24 * (double)steps) continue;
                char a[80], w[80];
                conf_print_value(a, sizeof a, dtype, x);
                conf_print_value(w, sizeof w, dtype, y);
                an_test_fail(__FILE__, __LINE__, "%s, kernel %s: element %zu of buffer %u is %s, not %s", d.backend[which]->name,
                             made->name, i, p, a, w);
            }
        }
    }
    if (first_out) memcpy(first_out, want[0], nelem[0] * an_dtype_nbytes(made->params[0].dtype));
    conf_close(&d);
}

/* A GPU may join a product with the sum that it goes into, and adds what its threads have (docs/SEMANTICS.md): so many steps are left of
 * it in sums of a few numbers. */
enum { JOINED = 16 };

static bool for_gpu(void)
{
    const char *only = getenv("AN_CONFORMANCE_ONLY");
    return only && strcmp(only, "webgpu") == 0;
}

/* --- lists by hand ------------------------------------------------------------------------------------------------ */

/* out[0] = op over the lanes of x[0..lanes-1], upper half onto lower. */
static void lanes_are_reduced_in_the_stated_order(an_test *t)
{
    static const an_op ops[] = {AN_OP_ADD, AN_OP_MUL, AN_OP_MAX, AN_OP_MIN};
    static const uint32_t lanes[] = {2, 3, 4, 5, 7, 8, 12, 16, 32, 61, 64};
    static const an_dtype dtypes[] = {AN_F32, AN_F16, AN_I32, AN_U8};
    for (size_t k = 0; k < sizeof ops / sizeof ops[0]; k++)
        for (size_t j = 0; j < sizeof dtypes / sizeof dtypes[0]; j++) {
            conf_list l;
            conf_list_init(&l, t);
            const an_uop out = conf_param(&l, dtypes[j], true), x = conf_param(&l, dtypes[j], false);
            for (size_t i = 0; i < sizeof lanes / sizeof lanes[0]; i++) {
                const an_uop v = conf_load(&l, x, conf_vector_op(&l, AN_OP_RAMP, conf_index(&l, (int64_t)i), lanes[i], 0), AN_UOP_NONE);
                conf_store(&l, out, conf_index(&l, (int64_t)i), conf_vector_op(&l, AN_OP_HREDUCE, v, 1, (uint64_t)ops[k]),
                           AN_UOP_NONE);
            }
            conf_finish(&l, "hreduce");
            const size_t nelem[2] = {sizeof lanes / sizeof lanes[0], NELEM};
            compare(t, &l.kernel, nelem, NULL, 0, NULL);
            conf_list_fini(&l);
        }
}

/* out[i] = sum over j < n of x[j] * (j + i), i < m, in a loop of a loop whose inner bound may be 0. */
static void loops_of_a_symbolic_bound_run_that_often(an_test *t)
{
    for (int64_t n = 0; n < 4; n++) {
        conf_list l;
        conf_list_init(&l, t);
        const an_uop out = conf_param(&l, AN_I64, true), x = conf_param(&l, AN_I64, false), m = conf_var(&l, "m"), nn = conf_var(&l, "n");
        const an_uop zero = conf_put(&l, an_const_int(l.g, AN_I64, 0));
        const an_uop i = conf_range(&l, m, 0);
        const an_uop acc = conf_acc(&l, zero);
        const an_uop j = conf_range(&l, nn, 1);
        const an_uop k = conf_cast(&l, AN_I64, conf_binary(&l, AN_OP_ADD, j, i));
        const an_uop product = conf_binary(&l, AN_OP_MUL, conf_load(&l, x, j, AN_UOP_NONE), k);
        conf_acc_set(&l, acc, conf_binary(&l, AN_OP_ADD, acc, product));
        const an_uop end = conf_end(&l, j);
        conf_store(&l, out, i, conf_acc_get(&l, acc, end), AN_UOP_NONE);
        conf_end(&l, i);
        conf_finish(&l, "loops");
        const size_t nelem[2] = {5, NELEM};
        const int64_t vars[2] = {5, n};
        int64_t got[5];
        compare(t, &l.kernel, nelem, vars, 0, got);
        if (n == 0) CHECK_EQ(t, got[4], 0);
        conf_list_fini(&l);
    }
}

/* out[p[i]] = x[q[i]] where 0 < p[i] and the lane is even, on lanes: indices loaded from memory. */
static void gathers_and_scatters_touch_what_their_gates_let_through(an_test *t)
{
    static const an_dtype dtypes[] = {AN_F32, AN_F64, AN_I8, AN_F16, AN_BOOL, AN_U16, AN_F8E4M3};
    for (size_t k = 0; k < sizeof dtypes / sizeof dtypes[0]; k++)
        for (int gated = 0; gated < 2; gated++) {
            conf_list l;
            conf_list_init(&l, t);
            const an_uop out = conf_param(&l, dtypes[k], true), x = conf_param(&l, dtypes[k], false), p = conf_param(&l, AN_I32, false);
            const uint32_t lanes = 16;
            const an_uop ramp = conf_vector_op(&l, AN_OP_RAMP, conf_index(&l, 0), lanes, 0);
            const an_uop raw = conf_cast(&l, AN_INDEX, conf_load(&l, p, ramp, AN_UOP_NONE));
            const an_uop size = conf_vector_op(&l, AN_OP_BROADCAST, conf_index(&l, NELEM), lanes, 0);
            const an_uop inside = conf_binary(&l, AN_OP_FLOORMOD, raw, size);
            const an_uop half = conf_vector_op(&l, AN_OP_BROADCAST, conf_index(&l, NELEM / 2), lanes, 0);
            const an_uop gate = gated ? conf_binary(&l, AN_OP_CMPLT, inside, half) : AN_UOP_NONE;
            /* Where the gate is false the index is far outside. */
            const an_uop far = conf_binary(&l, AN_OP_ADD, inside, conf_binary(&l, AN_OP_MUL, raw, raw));
            an_uop index = inside;
            if (gated) {
                const an_uop src[3] = {gate, inside, far};
                index = conf_put(&l, an_uop_new_full(l.g, AN_OP_WHERE, AN_INDEX, lanes, src, 3, 0, 0));
            }
            conf_store(&l, out, ramp, conf_load(&l, x, index, gate), AN_UOP_NONE);
            const an_uop upper = conf_vector_op(&l, AN_OP_RAMP, conf_index(&l, NELEM), lanes, 0);
            const an_uop shifted = conf_binary(&l, AN_OP_ADD, index, conf_vector_op(&l, AN_OP_BROADCAST, conf_index(&l, 2 * NELEM), lanes, 0));
            conf_store(&l, out, shifted, conf_load(&l, x, ramp, AN_UOP_NONE), gate);
            conf_store(&l, out, upper, conf_load(&l, x, upper, AN_UOP_NONE), AN_UOP_NONE);
            conf_finish(&l, "gather");
            const size_t nelem[3] = {3 * NELEM, 2 * NELEM, 16};
            compare(t, &l.kernel, nelem, NULL, 0, NULL);
            conf_list_fini(&l);
        }
}

/* out[i] = 0 <= i - 3 < 7 ? x[i - 3] : 0, and nothing is written where i is odd; a scalar at a time. */
static void a_scalar_gate_guards_load_and_store(an_test *t)
{
    conf_list l;
    conf_list_init(&l, t);
    const an_uop out = conf_param(&l, AN_F32, true), x = conf_param(&l, AN_F32, false);
    const an_uop i = conf_range(&l, conf_index(&l, 20), 0);
    const an_uop at = conf_binary(&l, AN_OP_ADD, i, conf_index(&l, -3));
    const an_uop gate = conf_binary(&l, AN_OP_AND, conf_binary(&l, AN_OP_CMPLT, conf_index(&l, -1), at),
                                    conf_binary(&l, AN_OP_CMPLT, at, conf_index(&l, 7)));
    const an_uop even = conf_binary(&l, AN_OP_CMPEQ, conf_binary(&l, AN_OP_FLOORMOD, i, conf_index(&l, 2)), conf_index(&l, 0));
    conf_store(&l, out, i, conf_load(&l, x, at, gate), even);
    conf_end(&l, i);
    conf_finish(&l, "gate");
    const size_t nelem[2] = {20, 7};
    float got[20];
    compare(t, &l.kernel, nelem, NULL, 0, got);
    CHECK(t, got[0] == 0.0f && got[2] == 0.0f && got[18] == 0.0f);
    CHECK(t, got[1] != 0.0f && got[4] != 0.0f);
    conf_list_fini(&l);
}

/* Vectors of single lanes, back to front, in an accumulator of lanes that is not a power of two. */
static void lanes_come_apart_and_together(an_test *t)
{
    conf_list l;
    conf_list_init(&l, t);
    const uint32_t lanes = 3;
    const an_uop out = conf_param(&l, AN_F32, true), x = conf_param(&l, AN_F32, false);
    const an_uop one = conf_put(&l, an_const_float(l.g, AN_F32, 1.0));
    const an_uop acc = conf_acc(&l, conf_vector_op(&l, AN_OP_BROADCAST, one, lanes, 0));
    const an_uop i = conf_range(&l, conf_index(&l, 5), 0);
    const an_uop v = conf_load(&l, x, conf_vector_op(&l, AN_OP_RAMP, i, lanes, 0), AN_UOP_NONE);
    an_uop parts[3];
    for (uint32_t k = 0; k < lanes; k++) parts[k] = conf_vector_op(&l, AN_OP_LANE, v, 1, lanes - 1 - k);
    const an_uop turned = conf_put(&l, an_uop_new_full(l.g, AN_OP_VECTOR, AN_F32, lanes, parts, lanes, 0, 0));
    const an_uop before = conf_binary(&l, AN_OP_MUL, acc, turned);
    conf_acc_set(&l, acc, conf_binary(&l, AN_OP_ADD, before, v));
    conf_store(&l, out, conf_vector_op(&l, AN_OP_RAMP, conf_binary(&l, AN_OP_MUL, i, conf_index(&l, 3)), lanes, 0), acc, AN_UOP_NONE);
    const an_uop end = conf_end(&l, i);
    conf_store(&l, out, conf_vector_op(&l, AN_OP_RAMP, conf_index(&l, 15), lanes, 0), conf_acc_get(&l, acc, end), AN_UOP_NONE);
    conf_finish(&l, "lanes");
    const size_t nelem[2] = {18, 10};
    compare(t, &l.kernel, nelem, NULL, for_gpu() ? JOINED : 0, NULL);
    conf_list_fini(&l);
}

/* A loop that threads share inside of one that each runs whole: what each has is joined once, at the end of both. */
static void parts_of_threads_are_joined_once(an_test *t)
{
    if (!for_gpu()) return;
    conf_list l;
    conf_list_init(&l, t);
    const an_uop out = conf_param(&l, AN_I32, true), x = conf_param(&l, AN_I32, false);
    const an_uop acc = conf_acc(&l, conf_put(&l, an_const_int(l.g, AN_I32, 0)));
    const an_uop o = conf_put(&l, an_range(l.g, conf_index(&l, 3), 0, AN_RANGE_REDUCE));
    const an_uop row = conf_binary(&l, AN_OP_MUL, o, conf_index(&l, 96));
    const an_uop i = conf_put(&l, an_range(l.g, conf_index(&l, 96), 1, AN_RANGE_GROUP));
    const an_uop v = conf_load(&l, x, conf_binary(&l, AN_OP_ADD, row, i), AN_UOP_NONE);
    conf_acc_set(&l, acc, conf_binary(&l, AN_OP_ADD, acc, v));
    (void)conf_end(&l, i);
    conf_store(&l, out, conf_index(&l, 0), conf_acc_get(&l, acc, conf_end(&l, o)), AN_UOP_NONE);
    conf_finish(&l, "joined");
    const size_t nelem[2] = {1, 288};
    compare(t, &l.kernel, nelem, NULL, 0, NULL);
    conf_list_fini(&l);
}

/* --- the kernels of codegen --------------------------------------------------------------------------------------- */

/* As codegen makes it for each; the processor's code does not know workgroups. */
static void check_kernel(an_test *t, const char *name, kernel k, int64_t steps)
{
    static const an_codegen_opts of_cpu[] = {{.no_opt = true}, {.vector_nbytes = 16}, {.vector_nbytes = 32}, {.vector_nbytes = 64}};
    static const an_codegen_opts of_gpu[] = {{.no_opt = true, .gpu = {256, 16384, 16, true, false}}, {.vector_nbytes = 16, .gpu = {256, 16384, 16, true, false}}};
    const bool gpu = for_gpu();
    for (size_t w = 0; w < (gpu ? sizeof of_gpu / sizeof *of_gpu : sizeof of_cpu / sizeof *of_cpu); w++) {
        an_uop_vec linear = {0};
        an_kernel lowered = {.name = name, .graph = an_test_graph(t), .sink = k.sink, .nparams = k.nparams};
        size_t nelem[CONF_PARAMS_MAX] = {0};
        CHECK_OK(t, an_codegen(lowered.graph, k.sink, gpu ? &of_gpu[w] : &of_cpu[w], NULL, &linear));
        lowered.linear = linear.data;
        lowered.nlinear = linear.len;
        for (uint32_t p = 0; p < k.nparams; p++) {
            lowered.params[p] = (an_kernel_param){.dtype = k.dtype[p], .is_read = true, .is_written = k.is_out[p]};
            nelem[p] = (size_t)k.nelem[p];
        }
        compare(t, &lowered, nelem, NULL, steps, NULL);
        an_vec_fini(t->ctx, &linear);
    }
}

static void kernels_without_exp2_are_the_same_bits(an_test *t)
{
    static const int64_t n[] = {1, 3, 17, 69};
    an_graph *g = an_test_graph(t);
    for (size_t i = 0; i < sizeof n / sizeof n[0]; i++) {
        check_kernel(t, "elementwise", kernel_elementwise(g, AN_F32, n[i]), for_gpu() ? JOINED : 0);
        check_kernel(t, "elementwise_f16", kernel_elementwise(g, AN_F16, n[i]), 0);
        check_kernel(t, "elementwise_bf16", kernel_elementwise(g, AN_BF16, n[i]), 0);
        check_kernel(t, "elementwise_i8", kernel_elementwise(g, AN_I8, n[i]), 0);
        check_kernel(t, "transpose", kernel_transpose(g, n[i], 5), 0);
        check_kernel(t, "matmul", kernel_matmul(g, AN_F32, n[i], 17, 35, false, false, true), 0);
        check_kernel(t, "matmul_ta", kernel_matmul(g, AN_F32, n[i], 33, 19, true, false, false), 0);
        check_kernel(t, "matmul_tb", kernel_matmul(g, AN_F32, 5, n[i], 48, false, true, false), 0);
        check_kernel(t, "sum", kernel_reduce(g, AN_OP_ADD, AN_F32, 3, n[i], false), 0);
        check_kernel(t, "max_columns", kernel_reduce(g, AN_OP_MAX, AN_F32, n[i], 7, true), 0);
        check_kernel(t, "sum_i32", kernel_reduce(g, AN_OP_ADD, AN_I32, 3, n[i], false), 0);
        check_kernel(t, "layernorm", kernel_layernorm(g, 3, n[i]), for_gpu() ? JOINED : 0);
        check_kernel(t, "nested", kernel_nested(g, n[i], 5), 0);
        check_kernel(t, "argmax", kernel_argmax(g, 4, n[i]), 0);
        check_kernel(t, "conv", kernel_conv(g, n[i]), 0);
        check_kernel(t, "prefix", kernel_prefix(g, 3, n[i]), 0);
        check_kernel(t, "update", kernel_update(g, n[i]), for_gpu() ? JOINED : 0);
        check_kernel(t, "in_place", kernel_normalize_in_place(g, 3, n[i]), 0);
        check_kernel(t, "gather", kernel_gather(g, n[i]), 0);
    }
}

static void a_softmax_is_the_same_to_a_few_steps(an_test *t)
{
    static const int64_t n[] = {1, 3, 17, 69};
    for (size_t i = 0; i < sizeof n / sizeof n[0]; i++) /* exp2 is within 1 step, a sum of them within 2, a quotient 4 */
        check_kernel(t, "softmax", kernel_softmax(an_test_graph(t), 3, n[i]), 4);
}

/* --- devices ------------------------------------------------------------------------------------------------------ */

static void a_program_outlives_those_compiled_with_it(an_test *t)
{
    conf_devices d;
    conf_open(t, &d);
    an_graph *g = an_test_graph(t);
    for (size_t which = 0; which < d.n; which++) {
        const an_backend *b = d.backend[which];
        kernel made[3] = {kernel_elementwise(g, AN_F32, 4), kernel_gather(g, 4), kernel_reduce(g, AN_OP_ADD, AN_F32, 1, 4, false)};
        an_uop_vec linear[3] = {0};
        an_kernel kernels[3];
        const an_kernel *list[3];
        an_program *programs[3];
        for (int i = 0; i < 3; i++) {
            CHECK_OK(t, an_codegen(g, made[i].sink, &(an_codegen_opts){0}, NULL, &linear[i]));
            kernels[i] = (an_kernel){.name = "k", .graph = g, .sink = made[i].sink, .linear = linear[i].data, .nlinear = linear[i].len,
                                     .nparams = made[i].nparams};
            for (uint32_t p = 0; p < made[i].nparams; p++) kernels[i].params[p].dtype = AN_F32;
            list[i] = &kernels[i];
        }
        CHECK_OK(t, b->compile(d.device[which], list, 3, programs));
        b->program_destroy(programs[0]);
        b->program_destroy(programs[1]);
        float out[1] = {0}, x[4] = {1, 2, 3, 4};
        const conf_buffer buffers[2] = {{out, sizeof out}, {x, sizeof x}};
        CHECK_OK(t, conf_run(&d, which, programs[2], buffers, 2, NULL));
        CHECK(t, out[0] == 10.0f);
        b->program_destroy(programs[2]);
        for (int i = 0; i < 3; i++) an_vec_fini(t->ctx, &linear[i]);
    }
    conf_close(&d);
}

static void offsets_move_a_launch_within_its_buffers(an_test *t)
{
    conf_devices d;
    conf_open(t, &d);
    an_graph *g = an_test_graph(t);
    for (size_t which = 0; which < d.n; which++) {
        const an_backend *b = d.backend[which];
        const kernel k = kernel_update(g, 3);
        an_uop_vec linear = {0};
        CHECK_OK(t, an_codegen(g, k.sink, &(an_codegen_opts){.vector_nbytes = 64}, NULL, &linear));
        an_kernel lowered = {.name = "update", .graph = g, .sink = k.sink, .linear = linear.data, .nlinear = linear.len, .nparams = 3};
        for (uint32_t p = 0; p < 3; p++) lowered.params[p].dtype = AN_F32;
        const an_kernel *list = &lowered;
        an_program *program = NULL;
        an_buffer *all = NULL;
        CHECK_OK(t, b->compile(d.device[which], &list, 1, &program));
        CHECK_OK(t, b->buffer_create(d.device[which], 1024, &all));
        float host[256];
        CHECK_OK(t, b->read(all, 0, host, sizeof host));
        for (size_t i = 0; i < 256; i++) CHECK(t, host[i] == 0.0f);
        for (size_t i = 0; i < 256; i++) host[i] = (float)(i / 64 + 1); /* p = 1, v = 2, d = 3, the rest 4 */
        CHECK_OK(t, b->write(all, 0, host, sizeof host));
        an_buffer *const buffers[3] = {all, all, all};
        const size_t offsets[3] = {0, 256, 512}, nbytes[3] = {12, 12, 12};
        CHECK_OK(t, b->launch(program, &(an_launch){.buffers = buffers, .offsets = offsets, .nbytes = nbytes}));
        CHECK_OK(t, b->read(all, 256, host, 4 * sizeof *host));
        CHECK_NEAR(t, host[0], 0.9 * 2 + 3, 1e-6);
        CHECK_NEAR(t, host[3], 2, 0);
        CHECK_FAILS(t, b->read(all, 1000, host, 28), AN_ERR_ARG, "1000..1028");
        CHECK_FAILS(t, b->write(all, 1025, host, 0), AN_ERR_ARG, "1024");
        b->buffer_destroy(all);
        b->program_destroy(program);
        an_vec_fini(t->ctx, &linear);
    }
    conf_close(&d);
}

static void the_cpu_uses_the_widest_vectors_of_the_machine(an_test *t)
{
    (void)t;
#if defined(AN_HAVE_CPU) && defined(__x86_64__)
    an_device *dev = NULL;
    const unsigned want = __builtin_cpu_supports("avx512f") ? 64 : __builtin_cpu_supports("avx2") ? 32 : 16;
    CHECK_OK(t, an_backend_cpu.open(t->ctx, NULL, &dev));
    CHECK_EQ(t, ((const an_device_base *)dev)->vector_nbytes, want);
    an_backend_cpu.close(dev);
#endif
}

static void a_wrong_number_of_threads_is_a_sentence(an_test *t)
{
    (void)t;
#ifdef AN_HAVE_CPU
    static const char *const wrong[] = {"two", "0", "-1", "3x", "99999999999999999999"};
    an_device *dev = NULL;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        CHECK(t, setenv("ANNEAL_THREADS", wrong[i], 1) == 0);
        CHECK_FAILS(t, an_backend_cpu.open(t->ctx, NULL, &dev), AN_ERR_ARG, wrong[i]);
    }
    CHECK(t, setenv("ANNEAL_THREADS", "1", 1) == 0);
    CHECK_OK(t, an_backend_cpu.open(t->ctx, NULL, &dev));
    an_backend_cpu.close(dev);
    CHECK(t, unsetenv("ANNEAL_THREADS") == 0);
#endif
}

/* Open, compile, run, close on every backend. */
static an_status whole_life(an_ctx *ctx, void *arg)
{
    (void)arg;
    an_graph *g = NULL;
    an_uop_vec linear = {0};
    an_status st = an_graph_create(ctx, &g);
    if (st) return st;
    const kernel k = kernel_softmax(g, 2, 5);
    st = an_uop_is_none(k.sink) ? AN_ERR_NOMEM : an_codegen(g, k.sink, &(an_codegen_opts){.vector_nbytes = 64}, NULL, &linear);
    an_kernel lowered = {.name = "k", .graph = g, .sink = k.sink, .linear = linear.data, .nlinear = linear.len, .nparams = 2};
    for (uint32_t p = 0; p < 2; p++) lowered.params[p].dtype = AN_F32;
    const an_kernel *list[2] = {&lowered, &lowered};
    size_t n = 0;
    const an_backend *const *backends = conf_backends(&n);
    for (size_t which = 0; which < n && !st; which++) {
        if (strcmp(backends[which]->name, "webgpu") == 0) continue; /* tests/unit/test_webgpu.c: opening it is dear */
        conf_devices d = {.n = 1};
        an_program *programs[2] = {NULL, NULL};
        float out[10], x[10] = {1, 2, 3};
        const conf_buffer buffers[2] = {{out, sizeof out}, {x, sizeof x}};
        memset(out, 0, sizeof out);
        d.backend[0] = backends[which];
        st = backends[which]->open(ctx, &(an_device_desc){.threads = 2}, &d.device[0]);
        if (!st) st = backends[which]->compile(d.device[0], list, 2, programs);
        if (!st) st = conf_run(&d, 0, programs[1], buffers, 2, NULL);
        for (int i = 0; i < 2; i++) backends[which]->program_destroy(programs[i]);
        backends[which]->close(d.device[0]);
    }
    an_vec_fini(ctx, &linear);
    an_graph_destroy(g);
    return st;
}

static void every_failing_allocation_is_a_clean_error(an_test *t)
{
    an_test_every_alloc_failure(t, whole_life, NULL);
}

AN_TEST_MAIN(AN_CASE(lanes_are_reduced_in_the_stated_order), AN_CASE(loops_of_a_symbolic_bound_run_that_often),
             AN_CASE(gathers_and_scatters_touch_what_their_gates_let_through), AN_CASE(a_scalar_gate_guards_load_and_store),
             AN_CASE(lanes_come_apart_and_together), AN_CASE(parts_of_threads_are_joined_once), AN_CASE(kernels_without_exp2_are_the_same_bits),
             AN_CASE(a_softmax_is_the_same_to_a_few_steps), AN_CASE(a_program_outlives_those_compiled_with_it),
             AN_CASE(a_wrong_number_of_threads_is_a_sentence), AN_CASE(the_cpu_uses_the_widest_vectors_of_the_machine),
             AN_CASE(offsets_move_a_launch_within_its_buffers), AN_CASE(every_failing_allocation_is_a_clean_error))
