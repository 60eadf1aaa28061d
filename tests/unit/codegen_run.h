/* codegen_run.h - kernels run and compared, and kernels drawn at random: for the tests of codegen. */
#ifndef AN_TEST_CODEGEN_RUN_H
#define AN_TEST_CODEGEN_RUN_H

#include "codegen_kernels.h"

#include "an_test.h"
#include "backend/backends.h"
#include "codegen/codegen.h"

#include <math.h>
#include <stdlib.h>

static const an_codegen_opts plain = {.no_opt = true};

static inline an_dtype_kind kind_of(an_dtype dtype)
{
    return an_dtype_kind_of(dtype);
}

static inline double next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 40) / 16777216.0;
}

/* Floats from 0.25 to 1.25, so that no sum cancels; integers from -20 to 19. */
static inline an_scalar input_value(an_dtype dtype, uint64_t *state)
{
    const double u = next_random(state);
    if (kind_of(dtype) == AN_KIND_FLOAT) return an_scalar_round(dtype, (an_scalar){.f = u + 0.25});
    return an_scalar_round(dtype, (an_scalar){.i = (int64_t)(u * 40) - 20});
}

static inline size_t nbytes_of(const kernel *k, uint32_t slot)
{
    return (size_t)k->nelem[slot] * an_dtype_nbytes(k->dtype[slot]);
}

/* The outputs of one run, all slots one after another, as doubles; the caller frees. */
static inline double *run_list(an_test *t, const an_backend *backend, an_graph *g, const kernel *k, const an_uop_vec *list, size_t *n)
{
    an_device *dev = NULL;
    an_program *prog = NULL;
    an_buffer *bufs[KERNEL_PARAMS_MAX] = {0};
    an_kernel desc = {.name = "test", .graph = g, .sink = k->sink, .linear = list->data, .nlinear = list->len, .nparams = k->nparams};
    uint64_t state = 1;
    *n = 0;
    if (!an_uop_is_none(k->var)) desc.vars[desc.nvars++] = k->var;
    CHECK_OK(t, backend->open(t->ctx, NULL, &dev));
    for (uint32_t s = 0; s < k->nparams; s++) {
        const size_t size = an_dtype_nbytes(k->dtype[s]);
        desc.params[s] = (an_kernel_param){k->dtype[s], true, k->is_out[s]};
        unsigned char *data = calloc((size_t)k->nelem[s] + 1, size);
        CHECK(t, data);
        for (int64_t i = 0; i < k->nelem[s]; i++)
            an_scalar_store(k->dtype[s], input_value(k->dtype[s], &state), data + (size_t)i * size);
        CHECK_OK(t, backend->buffer_create(dev, nbytes_of(k, s), &bufs[s]));
        if (nbytes_of(k, s)) CHECK_OK(t, backend->write(bufs[s], 0, data, nbytes_of(k, s)));
        if (k->is_out[s]) *n += (size_t)k->nelem[s];
        free(data);
    }
    const an_kernel *kernels[1] = {&desc};
    CHECK_OK(t, backend->compile(dev, kernels, 1, &prog));
    CHECK_OK(t, backend->launch(prog, &(an_launch){.buffers = bufs, .vars = &k->var_value}));
    CHECK_OK(t, backend->wait(dev));
    double *out = calloc(*n + 1, sizeof *out), *at = out;
    CHECK(t, out);
    for (uint32_t s = 0; s < k->nparams; s++) {
        const size_t size = an_dtype_nbytes(k->dtype[s]);
        unsigned char *data = calloc((size_t)k->nelem[s] + 1, size);
        CHECK(t, data);
        if (k->is_out[s] && nbytes_of(k, s)) CHECK_OK(t, backend->read(bufs[s], 0, data, nbytes_of(k, s)));
        for (int64_t i = 0; k->is_out[s] && i < k->nelem[s]; i++) {
            const an_scalar v = an_scalar_load(k->dtype[s], data + (size_t)i * size);
            *at++ = kind_of(k->dtype[s]) == AN_KIND_FLOAT ? v.f : (double)v.i;
        }
        free(data);
        backend->buffer_destroy(bufs[s]);
    }
    backend->program_destroy(prog);
    backend->close(dev);
    return out;
}

static inline double *run(an_test *t, an_graph *g, const kernel *k, an_codegen_opts opts, size_t *n)
{
    an_uop_vec list = {0};
    CHECK(t, !an_uop_is_none(k->sink));
    CHECK_OK(t, an_codegen(g, k->sink, &opts, NULL, &list));
    CHECK(t, list.len < 1500);
    double *out = run_list(t, &an_backend_interp, g, k, &list, n);
    an_vec_fini(t->ctx, &list);
    return out;
}

/* Sums of floats may differ by their order: n roundings of a sum of positive numbers. All else to the bit. */
static inline double tolerance_of(const kernel *k)
{
    switch (k->dtype[0]) {
    case AN_F16: return 2e-3;
    case AN_BF16: return 2e-2;
    case AN_F64: return 1e-13;
    case AN_F32: return 2e-5;
    default: return 0;
    }
}

static inline int pick(uint64_t *state, int n)
{
    return (int)(next_random(state) * n);
}

/* A sum of terms mul(load, load) and the like over one or two loops and up to two reductions, indices drawn at random. */
static inline kernel random_kernel(an_graph *g, uint64_t *state)
{
    static const int64_t bounds[] = {1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 20, 32, 33, 48};
    kernel k = {0};
    an_uop at[4];
    int64_t n[4];
    const int nloops = 1 + pick(state, 2), nreduces = pick(state, 3), nranges = nloops + nreduces;
    int64_t total = 1;
    for (int i = 0; i < nranges; i++) {
        n[i] = bounds[pick(state, i < nloops ? 14 : 10)];
        at[i] = i < nloops ? loop(g, n[i], (uint32_t)i) : reduce_range(g, n[i], (uint32_t)i);
        total *= n[i];
    }
    int64_t nout = 1;
    an_uop index = an_index(g, 0);
    for (int i = 0; i < nloops; i++) {
        index = at2(g, index, n[i], at[i]);
        nout *= n[i];
    }
    const an_uop out = kernel_param(g, &k, AN_F32, nout, true);
    an_uop in[2];
    for (int p = 0; p < 2; p++) in[p] = kernel_param(g, &k, AN_F32, total, false);
    an_uop value = an_const_float(g, AN_F32, 0.5);
    for (int term = 0; term < 3; term++) {
        an_uop ix = an_index(g, 0);
        int64_t most = 1;
        for (int i = 0; i < nranges; i++) { /* some of the ranges, row-major in an order drawn */
            const int r = pick(state, 2) ? i : nranges - 1 - i;
            if (pick(state, 3) == 0 || most * n[r] > total) continue;
            ix = at2(g, ix, n[r], at[r]);
            most *= n[r];
        }
        an_uop gate = AN_UOP_NONE;
        if (pick(state, 4) == 0) {
            ix = an_idx_add(g, ix, an_index(g, -1));
            gate = an_binary(g, AN_OP_CMPLT, an_index(g, -1), ix);
        }
        if (pick(state, 5) == 0) {
            ix = an_binary(g, AN_OP_FLOORDIV, an_idx_add(g, ix, at[pick(state, nranges)]), an_index(g, 1 + pick(state, 4)));
            ix = an_binary(g, AN_OP_FLOORMOD, ix, an_index(g, total));
            gate = AN_UOP_NONE;
        }
        an_uop v = an_load(g, in[pick(state, 2)], ix, gate);
        if (pick(state, 2)) v = mul(g, v, load(g, in[1], at[pick(state, nranges)]));
        value = pick(state, 3) ? add(g, value, v) : an_binary(g, AN_OP_MAX, value, v);
    }
    for (int i = nranges; i-- > nloops;) {
        if (pick(state, 2)) value = mul(g, value, load(g, in[0], at[i]));
        value = reduce(g, pick(state, 4) ? AN_OP_ADD : AN_OP_MAX, value, at[i]);
    }
    return one_store(g, k, out, index, value);
}

#endif
