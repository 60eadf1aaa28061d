/* test_conformance_math.c - how far exp2, log2, sin and erf of f32 are from the true value, over numbers of every
 * exponent. The C library's double stands for the true value: its own error is below 1e-8 of these. */
#include "conformance.h"

#include <math.h>
#include <stdio.h>

/* Largest errors that are allowed, in ulp of the result, for every backend. docs/SEMANTICS.md points here. */
static const struct {
    an_op op;
    double (*truth)(double);
    double ulp;
} bounds[] = {
    {AN_OP_EXP2, exp2, 0.9},
    {AN_OP_LOG2, log2, 0.9},
    {AN_OP_SIN, sin, 0.501},
    {AN_OP_ERF, erf, 1.2},
};

enum { CHUNK = 1 << 14, STRIDE = 1021 }; /* of the 2^32 bit patterns; a prime, so that every exponent has all kinds */

static void build(conf_list *l, an_op op)
{
    const an_uop out = conf_param(l, AN_F32, true), x = conf_param(l, AN_F32, false);
    const an_uop i = conf_range(l, conf_index(l, CHUNK / 16), 0);
    const an_uop at = conf_vector_op(l, AN_OP_RAMP, conf_binary(l, AN_OP_MUL, i, conf_index(l, 16)), 16, 0);
    conf_store(l, out, at, conf_vector_op(l, op, conf_load(l, x, at, AN_UOP_NONE), 16, 0), AN_UOP_NONE);
    conf_end(l, i);
    conf_finish(l, an_op_info_of(op)->text);
}

/* |got - want| in ulp of want as an f32; both finite. */
static double ulps(float got, double want)
{
    int e = 0;
    (void)frexp(want, &e);
    const int last = e - 24 < -149 ? -149 : e - 24;
    return ldexp(fabs((double)got - want), -last);
}

static void check_values(const char *who, size_t row, const float *x, const float *y, double *worst, float *at)
{
    for (size_t i = 0; i < CHUNK; i++) {
        const double want = bounds[row].truth((double)x[i]);
        const float nearest = (float)want;
        if (isnan(nearest) || isinf(nearest) || isnan(y[i]) || isinf(y[i])) {
            const bool same = isnan(nearest) ? isnan(y[i]) : nearest == y[i];
            if (!same)
                an_test_fail(__FILE__, __LINE__, "%s: %s of %a is %a, not %a", who, an_op_info_of(bounds[row].op)->text, (double)x[i],
                             (double)y[i], want);
            continue;
        }
        const double u = ulps(y[i], want);
        if (u > *worst) {
            *worst = u;
            *at = x[i];
        }
    }
}

static void errors_are_within_their_bounds(an_test *t)
{
    static float x[CHUNK], y[CHUNK];
    conf_devices d;
    conf_open(t, &d);
    for (size_t row = 0; row < sizeof bounds / sizeof bounds[0]; row++) {
        conf_list l;
        conf_list_init(&l, t);
        build(&l, bounds[row].op);
        const an_kernel *list = &l.kernel;
        for (size_t which = 1; which < d.n; which++) {
            an_program *program = NULL;
            double worst = 0;
            float at = 0;
            CHECK_OK(t, d.backend[which]->compile(d.device[which], &list, 1, &program));
            for (uint64_t bits = 0; bits <= UINT32_MAX;) {
                for (size_t i = 0; i < CHUNK; i++, bits += STRIDE) {
                    const uint32_t b = bits <= UINT32_MAX ? (uint32_t)bits : 0;
                    memcpy(&x[i], &b, sizeof b);
                }
                const conf_buffer buffers[2] = {{y, sizeof y}, {x, sizeof x}};
                CHECK_OK(t, conf_run(&d, which, program, buffers, 2, NULL));
                check_values(d.backend[which]->name, row, x, y, &worst, &at);
            }
            printf("%s: %s: at most %.3f ulp (at %a), %.3f allowed\n", d.backend[which]->name, an_op_info_of(bounds[row].op)->text,
                   worst, (double)at, bounds[row].ulp);
            d.backend[which]->program_destroy(program);
            CHECK(t, worst <= bounds[row].ulp);
        }
        conf_list_fini(&l);
    }
    conf_close(&d);
}

AN_TEST_MAIN(AN_CASE(errors_are_within_their_bounds))
