/* test_conformance_random.c - expressions made at random over all dtypes, on scalars and on lanes, inside a loop: every
 * backend gives the interpreter's bits. Ops that have a tolerance are left out; what one of them alone does is in
 * test_conformance_ops.c, what their combination becomes in a backend's optimiser is here. */
#include "conformance.h"

#include <stdio.h>
#include <stdlib.h>

enum { KERNELS = 150, KERNELS_GPU = 100, STEPS = 40, INPUTS = 4, OUTPUTS = 4, TRIPS = 5, LANES_TOP = 16, NELEM = TRIPS * LANES_TOP };

typedef struct maker {
    conf_list l;
    uint64_t state;
    an_uop pool[INPUTS + STEPS];
    size_t npool;
    uint32_t lanes, lanes_top;
    bool is_short; /* AN_SHORT_KERNELS: a compiler that takes minutes, and gigabytes, for many steps on lanes written out */
    bool flushes, flushes_div; /* some device does */
    const bool *has; /* by dtype: all devices have it */
} maker;

static uint32_t below(maker *m, uint32_t n)
{
    m->state = an_mix64(m->state, 1);
    return (uint32_t)((m->state >> 33) % n);
}

static an_dtype any_dtype(maker *m)
{
    an_dtype dtype = AN_DTYPE_NONE;
    do dtype = (an_dtype)(AN_BOOL + below(m, AN_F64 - AN_BOOL + 1));
    while (!m->has[dtype]);
    return dtype;
}

/* A value of the pool of this dtype, made by a cast of any if there is none. */
static an_uop any_of(maker *m, an_dtype dtype)
{
    const uint32_t from = below(m, (uint32_t)m->npool);
    for (size_t i = 0; i < m->npool; i++) {
        const an_uop u = m->pool[(from + i) % m->npool];
        if (an_uop_dtype(m->l.g, u) == dtype) return u;
    }
    return conf_cast(&m->l, dtype, m->pool[from]);
}

static const an_op ops[] = {AN_OP_ADD, AN_OP_MUL, AN_OP_DIV, AN_OP_IDIV, AN_OP_IMOD, AN_OP_FLOORDIV, AN_OP_FLOORMOD, AN_OP_MAX,
                            AN_OP_MIN, AN_OP_AND, AN_OP_OR, AN_OP_XOR, AN_OP_SHL, AN_OP_SHR, AN_OP_CMPLT, AN_OP_CMPEQ,
                            AN_OP_CMPNE, AN_OP_WHERE, AN_OP_MULACC, AN_OP_SQRT, AN_OP_TRUNC, AN_OP_CAST};

static bool has_op(an_dtype dtype, an_op op)
{
    const bool flt = an_dtype_kind_of(dtype) == AN_KIND_FLOAT;
    switch (op) {
    case AN_OP_DIV:
    case AN_OP_SQRT:
    case AN_OP_TRUNC: return flt;
    case AN_OP_IDIV:
    case AN_OP_IMOD:
    case AN_OP_FLOORDIV:
    case AN_OP_FLOORMOD:
    case AN_OP_SHL:
    case AN_OP_SHR: return !flt && dtype != AN_BOOL;
    case AN_OP_AND:
    case AN_OP_OR:
    case AN_OP_XOR: return !flt;
    default: return true;
    }
}

static an_uop constant(maker *m, an_dtype dtype, double v)
{
    const an_uop c = conf_put(&m->l, an_const_float(m->l.g, dtype, v));
    return m->lanes == 1 ? c : conf_vector_op(&m->l, AN_OP_BROADCAST, c, m->lanes, 0);
}

/* Zero for what is below the normal numbers, x for all else: comparisons and where do not flush. */
static an_uop without_tiny(maker *m, an_dtype dtype, an_uop x)
{
    const an_uop inside = conf_binary(&m->l, AN_OP_AND, conf_binary(&m->l, AN_OP_CMPLT, x, constant(m, dtype, 0x1p-126)),
                                      conf_binary(&m->l, AN_OP_CMPLT, constant(m, dtype, -0x1p-126), x));
    const an_uop s[3] = {inside, constant(m, dtype, 0), x};
    return conf_put(&m->l, an_uop_new_full(m->l.g, AN_OP_WHERE, dtype, m->lanes, s, 3, 0, 0));
}

/* Where a device may take such numbers as 0, and join a product with a sum, neither is asked of it. */
static bool is_loose(const maker *m, an_dtype dtype, an_op op)
{
    if (dtype != AN_F32 && dtype != AN_BF16) return false;
    return op == AN_OP_DIV || op == AN_OP_SQRT ? m->flushes_div : m->flushes && (op == AN_OP_ADD || op == AN_OP_MUL || op == AN_OP_MULACC);
}

static void step(maker *m)
{
    an_dtype dtype = any_dtype(m);
    const an_op op = ops[below(m, sizeof ops / sizeof ops[0])];
    while (!has_op(dtype, op)) dtype = any_dtype(m);
    an_uop u = AN_UOP_NONE;
    if (op == AN_OP_CAST) {
        u = conf_cast(&m->l, dtype, any_of(m, any_dtype(m)));
    } else {
        const uint32_t nsrc = (uint32_t)an_op_info_of(op)->arity;
        an_uop s[3];
        const bool loose = is_loose(m, dtype, op);
        for (uint32_t i = 0; i < nsrc; i++) {
            s[i] = any_of(m, op == AN_OP_WHERE && i == 0 ? AN_BOOL : dtype);
            if (loose) s[i] = without_tiny(m, dtype, s[i]);
        }
        u = conf_put(&m->l, an_uop_new_full(m->l.g, op, an_op_has(op, AN_TRAIT_CMP) ? AN_BOOL : dtype, m->lanes, s, nsrc, 0, 0));
        if (loose) u = without_tiny(m, dtype, u);
    }
    m->pool[m->npool++] = u;
}

/* Outputs are the values made last; inputs have random dtypes; a constant joins them. */
static void make(maker *m, an_test *t, uint64_t seed)
{
    conf_list *l = &m->l;
    conf_list_init(l, t);
    m->state = an_mix64(77, seed);
    m->npool = 0;
    m->lanes = seed % 3 == 0 ? 1 : seed % 3 == 1 ? m->lanes_top : 3;
    an_uop in[INPUTS], out[OUTPUTS];
    an_dtype to[OUTPUTS];
    for (size_t i = 0; i < INPUTS; i++) in[i] = conf_param(l, any_dtype(m), false);
    for (size_t i = 0; i < OUTPUTS; i++) out[i] = conf_param(l, to[i] = any_dtype(m), true);
    const an_uop r = conf_range(l, conf_index(l, TRIPS), 0);
    an_uop at = conf_binary(l, AN_OP_MUL, r, conf_index(l, m->lanes));
    if (m->lanes > 1) at = conf_vector_op(l, AN_OP_RAMP, at, m->lanes, 0);
    for (size_t i = 0; i < INPUTS; i++) m->pool[m->npool++] = conf_load(l, in[i], at, AN_UOP_NONE);
    const size_t nsteps = (STEPS - OUTPUTS) / (m->is_short ? m->lanes * m->lanes : 1);
    for (size_t i = 0; i < nsteps; i++) step(m);
    for (size_t i = 0; i < OUTPUTS; i++) conf_store(l, out[i], at, conf_cast(l, to[i], m->pool[m->npool - 1 - i]), AN_UOP_NONE);
    conf_end(l, r);
    conf_finish(l, "random");
}

/* Edges and random bits, other ones for each buffer. */
static void fill(const an_kernel *k, uint64_t seed, unsigned char data[][NELEM * 8], conf_buffer *buffers)
{
    for (uint32_t p = 0; p < k->nparams; p++) {
        const an_dtype dtype = k->params[p].dtype;
        const size_t size = an_dtype_nbytes(dtype);
        for (size_t i = 0; i < NELEM; i++) {
            size_t n = 0;
            (void)conf_value(dtype, 0, &n);
            an_scalar_store(dtype, conf_value(dtype, (size_t)(an_mix64(seed * 64 + p, i) >> 20) % (2 * n), &n), data[p] + i * size);
        }
        buffers[p] = (conf_buffer){data[p], NELEM * size};
    }
}

static void check(an_test *t, const conf_devices *d, const maker *m, size_t which, an_program *oracle, an_program *program,
                  uint64_t seed)
{
    static unsigned char want[INPUTS + OUTPUTS][NELEM * 8], got[INPUTS + OUTPUTS][NELEM * 8];
    conf_buffer w[INPUTS + OUTPUTS], g[INPUTS + OUTPUTS];
    const an_kernel *k = &m->l.kernel;
    fill(k, seed, want, w);
    fill(k, seed, got, g);
    CHECK_OK(t, conf_run(d, 0, oracle, w, k->nparams, NULL));
    CHECK_OK(t, conf_run(d, which, program, g, k->nparams, NULL));
    for (uint32_t p = INPUTS; p < k->nparams; p++) {
        const an_dtype dtype = k->params[p].dtype;
        const size_t size = an_dtype_nbytes(dtype);
        for (size_t i = 0; i < NELEM; i++) {
            if (conf_steps(dtype, got[p] + i * size, want[p] + i * size) == 0) continue;
            char a[80], b[80];
            conf_print_value(a, sizeof a, dtype, got[p] + i * size);
            conf_print_value(b, sizeof b, dtype, want[p] + i * size);
            an_str text;
            an_str_init(&text, t->ctx);
            CHECK_OK(t, an_linear_print(&text, m->l.g, k->linear, k->nlinear));
            printf("%s", an_str_cstr(&text));
            an_str_fini(&text);
            an_test_fail(__FILE__, __LINE__, "%s, kernel %llu: element %zu of buffer %u is %s, not %s", d->backend[which]->name,
                         (unsigned long long)seed, i, p, a, b);
        }
    }
}

static void random_expressions_are_the_same_bits(an_test *t)
{
    static maker makers[KERNELS];
    static const an_kernel *kernels[KERNELS];
    static an_program *programs[CONF_BACKENDS_MAX][KERNELS];
    conf_devices d;
    bool has[AN_DTYPE_COUNT];
    conf_open(t, &d);
    const size_t n = conf_has_gpu(&d) ? KERNELS_GPU : KERNELS;
    for (int dtype = AN_BOOL; dtype <= AN_F64; dtype++) {
        has[dtype] = true;
        for (size_t which = 0; which < d.n; which++) has[dtype] = has[dtype] && conf_has_dtype(t, &d, which, (an_dtype)dtype);
    }
    for (size_t i = 0; i < n; i++) {
        makers[i].has = has;
        for (size_t which = 0; which < d.n; which++) {
            makers[i].flushes = makers[i].flushes || conf_flushes(t, &d, which, AN_OP_ADD);
            makers[i].flushes_div = makers[i].flushes_div || conf_flushes(t, &d, which, AN_OP_DIV);
        }
        makers[i].lanes_top = conf_lanes(&d, 4);
        makers[i].is_short = getenv("AN_SHORT_KERNELS") != NULL;
        make(&makers[i], t, i);
        kernels[i] = &makers[i].l.kernel;
    }
    for (size_t which = 0; which < d.n; which++)
        CHECK_OK(t, d.backend[which]->compile(d.device[which], kernels, n, programs[which]));
    for (size_t which = 1; which < d.n; which++)
        for (size_t i = 0; i < n; i++)
            for (uint64_t again = 0; again < 4; again++)
                check(t, &d, &makers[i], which, programs[0][i], programs[which][i], i + again * n);
    for (size_t i = 0; i < n; i++) {
        for (size_t which = 0; which < d.n; which++) d.backend[which]->program_destroy(programs[which][i]);
        conf_list_fini(&makers[i].l);
    }
    conf_close(&d);
}

AN_TEST_MAIN(AN_CASE(random_expressions_are_the_same_bits))
