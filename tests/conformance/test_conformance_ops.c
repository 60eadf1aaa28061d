/* test_conformance_ops.c - each elementwise op, dtype and awkward size, on scalars, on lanes and on lanes behind a gate:
 * the interpreter against an_eval, every other backend against the interpreter. */
#include "conformance.h"

#include "ir/eval.h"

#include <math.h>
#include <stdio.h>

/* How far a backend may be from the interpreter, in steps between neighbours; what is not listed: 0. The interpreter rounds
 * the value of the C library in double once, so within 1 step is below 1 ulp plus its half. f64 is the C library's on both. */
static const struct {
    an_op op;
    int64_t steps;
} tolerances[] = {
    {AN_OP_EXP2, 1},
    {AN_OP_LOG2, 1},
    {AN_OP_SIN, 1},
    {AN_OP_ERF, 1},
};

static int64_t tolerance(an_op op, an_dtype dtype)
{
    for (size_t i = 0; i < sizeof tolerances / sizeof tolerances[0]; i++)
        if (tolerances[i].op == op) return dtype == AN_F64 ? 0 : tolerances[i].steps;
    return 0;
}

enum { CAPACITY = 69, TUPLES_RANDOM = 300 };
static const size_t sizes[] = {69, 17, 3, 1};

/* An op on operands of `from` with a result of `to`. */
typedef struct op_case {
    an_op op;
    an_dtype from, to;
    uint32_t nsrc, lanes, index_bits; /* lanes: as wide as the devices take them */
} op_case;

static an_dtype stored(an_dtype dtype) /* index has no storage */
{
    return dtype == AN_INDEX ? AN_I64 : dtype;
}

static an_dtype operand_dtype(const op_case *c, uint32_t i)
{
    return c->op == AN_OP_WHERE && i == 0 ? AN_BOOL : c->from;
}

static void body(conf_list *l, const op_case *c, an_uop out, const an_uop *in, an_uop index, an_uop gate)
{
    an_uop s[3];
    for (uint32_t i = 0; i < c->nsrc; i++) s[i] = conf_cast(l, operand_dtype(c, i), conf_load(l, in[i], index, gate));
    an_uop y = conf_put(l, an_uop_new_full(l->g, c->op, c->to, an_uop_lanes(l->g, index), s, c->nsrc, 0, 0));
    y = conf_cast(l, stored(c->to), y);
    conf_store(l, out, index, y, gate);
}

/* Slots: 0 results of the scalar loop, 1 those of lanes, 2.. operands.
 *   for i in 0..n: scalar;   for v in 0..n/lanes: lanes v*lanes + 0..;   once: the lanes after that, where below n */
static void build(conf_list *l, const op_case *c)
{
    const an_uop out = conf_param(l, stored(c->to), true), out_lanes = conf_param(l, stored(c->to), true);
    an_uop in[3] = {AN_UOP_NONE, AN_UOP_NONE, AN_UOP_NONE};
    for (uint32_t i = 0; i < c->nsrc; i++) in[i] = conf_param(l, stored(operand_dtype(c, i)), false);
    const an_uop n = conf_var(l, "n"), lanes = conf_index(l, c->lanes);
    const an_uop whole = conf_binary(l, AN_OP_FLOORDIV, n, lanes);
    const an_uop i = conf_range(l, n, 0);
    body(l, c, out, in, i, AN_UOP_NONE);
    conf_end(l, i);
    const an_uop v = conf_range(l, whole, 1);
    const an_uop at = conf_binary(l, AN_OP_MUL, v, lanes);
    body(l, c, out_lanes, in, conf_vector_op(l, AN_OP_RAMP, at, c->lanes, 0), AN_UOP_NONE);
    conf_end(l, v);
    const an_uop last = conf_vector_op(l, AN_OP_RAMP, conf_binary(l, AN_OP_MUL, whole, lanes), c->lanes, 0);
    const an_uop gate = conf_binary(l, AN_OP_CMPLT, last, conf_vector_op(l, AN_OP_BROADCAST, n, c->lanes, 0));
    body(l, c, out_lanes, in, last, gate);
    conf_finish(l, "op");
}

static an_scalar reference(const op_case *c, const an_scalar *s)
{
    if (c->op == AN_OP_CAST) return an_scalar_cast(c->from, c->to, s[0]);
    if (c->op == AN_OP_BITCAST) return an_eval_bitcast(c->from, c->to, s[0]);
    return an_eval(c->op, c->from, s);
}

/* The operands of the k-th try: all pairs of edges, then random ones. */
static void operands(const op_case *c, size_t k, an_scalar *s)
{
    size_t n = 0;
    (void)conf_value(c->from, 0, &n);
    const size_t pairs = c->nsrc == 1 ? n : n * n;
    for (uint32_t i = 0; i < c->nsrc; i++) {
        const an_dtype dtype = operand_dtype(c, i);
        size_t unused = 0, pick = k + i * 7919;
        if (k < pairs) pick = i == 0 ? k % n : i == 1 ? k / n : (k * 7 + k / n) % n;
        if (dtype != c->from) pick = k * 5 / 3;
        s[i] = conf_value(dtype, pick, &unused);
        if (dtype == AN_INDEX) s[i].i %= (int64_t)1 << (c->index_bits / 2 - 1); /* index arithmetic does not overflow */
    }
}

static size_t tries_of(const op_case *c)
{
    size_t n = 0;
    (void)conf_value(c->from, 0, &n);
    return (c->nsrc == 1 ? n : n * n) + TUPLES_RANDOM;
}

static void report(const op_case *c, const char *who, const char *how, const an_scalar *s, const void *got, const void *want)
{
    char a[3][80] = {"", "", ""}, g[80], w[80];
    for (uint32_t i = 0; i < c->nsrc; i++) {
        unsigned char bits[8];
        an_scalar_store(stored(operand_dtype(c, i)), s[i], bits);
        conf_print_value(a[i], sizeof a[i], stored(operand_dtype(c, i)), bits);
    }
    conf_print_value(g, sizeof g, stored(c->to), got);
    conf_print_value(w, sizeof w, stored(c->to), want);
    an_test_fail(__FILE__, __LINE__, "%s, %s: %s %s to %s of %s %s %s gives %s, not %s", who, how, an_op_info_of(c->op)->text,
                 an_dtype_name(c->from), an_dtype_name(c->to), a[0], a[1], a[2], g, w);
}

/* Is a number beyond 32 bits? */
static bool is_wide(an_dtype dtype, an_scalar v)
{
    switch (an_dtype_kind_of(dtype)) {
    case AN_KIND_FLOAT: return !(fabs(v.f) < 0x1p31);
    case AN_KIND_UINT: return v.u > INT32_MAX;
    default: return v.i != (int32_t)v.i;
    }
}

/* A NaN is a NaN: which bits a bitcast shows of it is not specified. Nor is an index beyond its bits. */
static bool is_open(const op_case *c, const an_scalar *s)
{
    if (c->index_bits == 32 && c->to == AN_INDEX && (is_wide(AN_INDEX, reference(c, s)) || (c->op == AN_OP_CAST && is_wide(c->from, s[0])))) return true;
    return c->op == AN_OP_BITCAST && an_dtype_kind_of(c->from) == AN_KIND_FLOAT && isnan(s[0].f);
}

static double flushed(double x)
{
    return fabs(x) < 0x1p-126 ? copysign(0, x) : x;
}

/* Where a device takes numbers below the normal ones as 0: is the result one that comes of it? Of operands, of the result, of a product
 * inside; a zero may have either sign. */
static bool is_flushed(const op_case *c, const an_scalar *s, const void *got)
{
    const double g = an_scalar_load(c->to, got).f;
    if (c->from != AN_F32 && c->from != AN_BF16) return false;
    for (int which = 0; which < 4; which++) {
        an_scalar x[3];
        for (uint32_t i = 0; i < c->nsrc; i++) x[i].f = which & 1 ? flushed(s[i].f) : s[i].f;
        if (which & 2 && c->op == AN_OP_MULACC && flushed(x[0].f * x[1].f) == 0) x[0].f = 0;
        const double y = reference(c, x).f;
        if (g == y || g == flushed(y) || (isnan(g) && isnan(y))) return true;
    }
    return false;
}

/* One launch of n elements starting with the first-th try, on every device. */
static void check_chunk(an_test *t, const conf_devices *d, an_program *const *programs, const op_case *c, size_t first, size_t n)
{
    static unsigned char in[3][CAPACITY * 8], out[2][CAPACITY * 8], oracle[CAPACITY * 8], fresh[CAPACITY * 8];
    an_scalar s[CAPACITY][3];
    const an_dtype to = stored(c->to);
    const size_t size = an_dtype_nbytes(to);
    memset(fresh, 0xab, sizeof fresh);
    for (size_t k = 0; k < n; k++) {
        operands(c, first + k, s[k]);
        for (uint32_t i = 0; i < c->nsrc; i++) {
            const an_dtype dtype = stored(operand_dtype(c, i));
            an_scalar_store(dtype, s[k][i], in[i] + k * an_dtype_nbytes(dtype));
        }
        const an_scalar r = reference(c, s[k]);
        an_scalar_store(to, r, oracle + k * size);
    }
    for (size_t which = 0; which < d->n; which++) {
        if (!programs[which]) continue; /* it lacks a dtype */
        memset(out, 0xab, sizeof out);
        conf_buffer b[5] = {{out[0], CAPACITY * size}, {out[1], CAPACITY * size}};
        for (uint32_t i = 0; i < c->nsrc; i++)
            b[2 + i] = (conf_buffer){in[i], CAPACITY * an_dtype_nbytes(stored(operand_dtype(c, i)))};
        const int64_t var = (int64_t)n;
        CHECK_OK(t, conf_run(d, which, programs[which], b, 2 + c->nsrc, &var));
        const int64_t most = which == 0 ? 0 : tolerance(c->op, c->from);
        const bool flushes = conf_flushes(t, d, which, c->op);
        for (int lanes = 0; lanes < 2; lanes++) {
            for (size_t k = 0; k < n; k++)
                if (!is_open(c, s[k]) && conf_steps(to, out[lanes] + k * size, oracle + k * size) > most && !(flushes && is_flushed(c, s[k], out[lanes] + k * size)))
                    report(c, d->backend[which]->name, lanes ? "lanes" : "scalar", s[k], out[lanes] + k * size, oracle + k * size);
            CHECK(t, memcmp(out[lanes] + n * size, fresh, (CAPACITY - n) * size) == 0); /* nothing past n is written */
        }
    }
}

enum { BATCH_MAX = 32 };

static uint32_t lanes_for(const conf_devices *d, an_dtype from, an_dtype to)
{
    const size_t a = an_dtype_nbytes(from), b = an_dtype_nbytes(to);
    return conf_lanes(d, a > b ? a : b);
}

/* Compiles cases in one go on a device; those with a dtype that it lacks are refused one by one, and have no program. */
static void compile_cases(an_test *t, const conf_devices *d, size_t which, const op_case *cases, const an_kernel *const *kernels, size_t n,
                          an_program **out)
{
    const an_kernel *had[BATCH_MAX];
    an_program *programs[BATCH_MAX];
    size_t at[BATCH_MAX], nhad = 0;
    for (size_t i = 0; i < n; i++) {
        const bool has_from = conf_has_dtype(t, d, which, stored(cases[i].from)), has_to = conf_has_dtype(t, d, which, stored(cases[i].to));
        out[i] = NULL;
        if (has_from && has_to) {
            at[nhad] = i;
            had[nhad++] = kernels[i];
        } else {
            CHECK_FAILS(t, d->backend[which]->compile(d->device[which], &kernels[i], 1, &out[i]), AN_ERR_UNSUPPORTED,
                        an_dtype_name(has_from ? cases[i].to : cases[i].from));
        }
    }
    CHECK_OK(t, d->backend[which]->compile(d->device[which], had, nhad, programs));
    for (size_t i = 0; i < nhad; i++) out[at[i]] = programs[i];
}

/* Compiles cases on every device and checks each. */
static void check_cases(an_test *t, op_case *cases, size_t n)
{
    conf_devices d;
    conf_list lists[BATCH_MAX];
    const an_kernel *kernels[BATCH_MAX];
    an_program *programs[CONF_BACKENDS_MAX][BATCH_MAX];
    CHECK(t, n <= BATCH_MAX);
    conf_open(t, &d);
    for (size_t i = 0; i < n; i++) {
        cases[i].index_bits = conf_has_gpu(&d) ? 32 : 64;
        cases[i].lanes = lanes_for(&d, cases[i].from, cases[i].to);
        conf_list_init(&lists[i], t);
        build(&lists[i], &cases[i]);
        kernels[i] = &lists[i].kernel;
    }
    for (size_t which = 0; which < d.n; which++) compile_cases(t, &d, which, cases, kernels, n, programs[which]);
    for (size_t i = 0; i < n; i++) {
        an_program *of[CONF_BACKENDS_MAX];
        for (size_t which = 0; which < d.n; which++) of[which] = programs[which][i];
        size_t first = 0;
        for (size_t k = 0; first < tries_of(&cases[i]); k++) {
            const size_t len = sizes[k % (sizeof sizes / sizeof sizes[0])];
            check_chunk(t, &d, of, &cases[i], first, len);
            first += len;
        }
        for (size_t which = 0; which < d.n; which++) d.backend[which]->program_destroy(of[which]);
        conf_list_fini(&lists[i]);
    }
    conf_close(&d);
}

/* --- which ops a dtype has ---------------------------------------------------------------------------------------- */

static const an_op float_ops[] = {AN_OP_ADD,  AN_OP_MUL,  AN_OP_DIV, AN_OP_MAX, AN_OP_MIN,   AN_OP_SQRT,  AN_OP_EXP2,  AN_OP_LOG2,
                                  AN_OP_SIN,  AN_OP_ERF,  AN_OP_TRUNC, AN_OP_CMPLT, AN_OP_CMPEQ, AN_OP_CMPNE, AN_OP_WHERE, AN_OP_MULACC};
static const an_op int_ops[] = {AN_OP_ADD, AN_OP_MUL, AN_OP_IDIV, AN_OP_IMOD, AN_OP_FLOORDIV, AN_OP_FLOORMOD,
                                AN_OP_MAX, AN_OP_MIN, AN_OP_AND,  AN_OP_OR,   AN_OP_XOR,      AN_OP_SHL,
                                AN_OP_SHR, AN_OP_CMPLT, AN_OP_CMPEQ, AN_OP_CMPNE, AN_OP_WHERE, AN_OP_MULACC};
static const an_op bool_ops[] = {AN_OP_ADD, AN_OP_MUL,   AN_OP_MAX,   AN_OP_MIN,   AN_OP_AND,   AN_OP_OR,
                                 AN_OP_XOR, AN_OP_CMPLT, AN_OP_CMPEQ, AN_OP_CMPNE, AN_OP_WHERE, AN_OP_MULACC};
#define LENGTH(a) (sizeof(a) / sizeof(a)[0])

static void check_dtype(an_test *t, an_dtype dtype)
{
    const bool flt = an_dtype_kind_of(dtype) == AN_KIND_FLOAT;
    const an_op *ops = dtype == AN_BOOL ? bool_ops : flt ? float_ops : int_ops;
    const size_t n = dtype == AN_BOOL ? LENGTH(bool_ops) : flt ? LENGTH(float_ops) : LENGTH(int_ops);
    op_case cases[BATCH_MAX];
    for (size_t i = 0; i < n; i++)
        cases[i] = (op_case){.op = ops[i],
                             .from = dtype,
                             .to = an_op_has(ops[i], AN_TRAIT_CMP) ? AN_BOOL : dtype,
                             .nsrc = (uint32_t)an_op_info_of(ops[i])->arity};
    check_cases(t, cases, n);
}

static void every_op_of_f32_is_the_same_everywhere(an_test *t)
{
    check_dtype(t, AN_F32);
}
static void every_op_of_f64_is_the_same_everywhere(an_test *t)
{
    check_dtype(t, AN_F64);
}
static void every_op_of_narrow_floats_is_the_same_everywhere(an_test *t)
{
    check_dtype(t, AN_F16);
    check_dtype(t, AN_BF16);
    check_dtype(t, AN_F8E4M3);
    check_dtype(t, AN_F8E5M2);
}
static void every_op_of_signed_integers_is_the_same_everywhere(an_test *t)
{
    check_dtype(t, AN_I8);
    check_dtype(t, AN_I16);
    check_dtype(t, AN_I32);
    check_dtype(t, AN_I64);
}
static void every_op_of_unsigned_integers_is_the_same_everywhere(an_test *t)
{
    check_dtype(t, AN_U8);
    check_dtype(t, AN_U16);
    check_dtype(t, AN_U32);
    check_dtype(t, AN_U64);
}
static void every_op_of_bool_and_index_is_the_same_everywhere(an_test *t)
{
    check_dtype(t, AN_BOOL);
    check_dtype(t, AN_INDEX);
}

static void every_cast_is_the_same_everywhere(an_test *t)
{
    for (int from = AN_BOOL; from < AN_DTYPE_COUNT; from++) {
        op_case cases[BATCH_MAX];
        size_t n = 0;
        for (int to = AN_BOOL; to < AN_DTYPE_COUNT; to++) {
            if (from == to) continue;
            cases[n++] = (op_case){.op = AN_OP_CAST, .from = (an_dtype)from, .to = (an_dtype)to, .nsrc = 1};
        }
        check_cases(t, cases, n);
    }
}

static void every_bitcast_is_the_same_everywhere(an_test *t)
{
    for (int from = AN_I8; from < AN_INDEX; from++) {
        op_case cases[BATCH_MAX];
        size_t n = 0;
        for (int to = AN_I8; to < AN_INDEX; to++)
            if (from != to && an_dtype_nbytes((an_dtype)from) == an_dtype_nbytes((an_dtype)to))
                cases[n++] = (op_case){.op = AN_OP_BITCAST, .from = (an_dtype)from, .to = (an_dtype)to, .nsrc = 1};
        check_cases(t, cases, n);
    }
}

AN_TEST_MAIN(AN_CASE(every_op_of_f32_is_the_same_everywhere), AN_CASE(every_op_of_f64_is_the_same_everywhere),
             AN_CASE(every_op_of_narrow_floats_is_the_same_everywhere),
             AN_CASE(every_op_of_signed_integers_is_the_same_everywhere),
             AN_CASE(every_op_of_unsigned_integers_is_the_same_everywhere),
             AN_CASE(every_op_of_bool_and_index_is_the_same_everywhere), AN_CASE(every_cast_is_the_same_everywhere),
             AN_CASE(every_bitcast_is_the_same_everywhere))
