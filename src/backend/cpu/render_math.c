/* render_math.c - exp2, log2, sin, erf.
 *
 * For f32 and narrower: polynomials (minimax fits by Lawson's iteration, coefficients rounded to f32) over the whole
 * range, the same code for scalars and vectors, without branches but one: sin beyond SIN_LARGE asks libm. f64 asks libm
 * for every lane. The bounds on the error, held by tests/conformance: exp2 1 ulp, log2 2, sin 2, erf 2; measured over
 * every float in docs/PERFORMANCE.md.
 * NaN runs through: every comparison is written so that a NaN takes the way that keeps it. */
#include "backend/cpu/render.h"

#include <math.h>

/* --- C functions for what is not rendered ------------------------------------------------------- */

#define OVER_LANES(name, type, expression)                                                                             \
    static void name(const type *src, type *dst, int64_t n)                                                            \
    {                                                                                                                  \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const double x = (double)src[i];                                                                           \
            dst[i] = (type)(expression);                                                                               \
        }                                                                                                              \
    }
OVER_LANES(exp2_f64, double, exp2(x))
OVER_LANES(log2_f64, double, log2(x))
OVER_LANES(sin_f64, double, sin(x))
OVER_LANES(erf_f64, double, erf(x))
OVER_LANES(sin_f32, float, sin(x))
#undef OVER_LANES

typedef void (*over_lanes_f64)(const double *src, double *dst, int64_t n);
typedef void (*over_lanes_f32)(const float *src, float *dst, int64_t n);

/* ISO C has no conversion from a function to an object pointer; POSIX has, through the representation. */
static void *address_f64(over_lanes_f64 f)
{
    void *p = NULL;
    memcpy(&p, &f, sizeof p);
    return p;
}

static void *address_f32(over_lanes_f32 f)
{
    void *p = NULL;
    memcpy(&p, &f, sizeof p);
    return p;
}

/* Functions that LLVM's code generator may call by itself, for what the target has no instruction for. */
static void *address_of_libm(const char *name)
{
    double (*f1)(double) = NULL;
    float (*g1)(float) = NULL;
    double (*f3)(double, double, double) = NULL;
    float (*g3)(float, float, float) = NULL;
    void *(*m3)(void *, const void *, size_t) = NULL;
    void *(*s3)(void *, int, size_t) = NULL;
    void *p = NULL;
    return p;
}
