/* values.c - values worth trying, and the distance of two stored ones. */
#include "conformance.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static const double float_edges[] = {
    0.0,         -0.0,         1.0,           -1.0,          0.5,            2.0,            -3.0,      0.1,
    -1.5,        3.1415926,    -1e-3,         1e-7,          127.6,          -126.5,         -149.4,    -150.5,
    129.0,       448.0,        465.0,         57344.0,       65519.9,        65536.0,        1e10,      -3e12,
    3.1e38,      1e300,        0x1p-126,      -0x1p-149,     0x1.8p-133,     0x1p-14,        0x1p-24,   0x1p-16,
    0x1p-9,      0x1p-1022,    0x1p-1074,     2147483648.0,  4294967295.0,   -9.3e18,        1.9e19,    255.5,
    0x1.0020000001p0, 0x1.0100000001p0, 0x1.1000000001p0, 0x1.2000000001p0, /* past a tie by less than f32 tells */
    0x1.fffffep127, -0x1.fffffep127, 0x1.fffffffffffffp1023, (double)INFINITY, -(double)INFINITY, (double)NAN,
};

static const int64_t int_edges[] = {
    0, 1, -1, 2, -2, 3, 7, -7, 8, 15, 16, 31, 32, 33, 63, 64, 65, 100, -100, 127, -128, 255, 32767, -32768, 65535,
    INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, INT64_MAX - 1, INT64_MIN + 1, (int64_t)UINT32_MAX, 16777217,
    9007199254740993, 123456789,
};

static uint64_t random_bits(uint64_t i)
{
    return an_mix64(0x5bd1e995u, i * 2654435761u + 1);
}

an_scalar conf_value(an_dtype dtype, size_t i, size_t *n)
{
    const bool flt = an_dtype_kind_of(dtype) == AN_KIND_FLOAT;
    *n = dtype == AN_BOOL ? 2 : flt ? sizeof float_edges / sizeof float_edges[0] : sizeof int_edges / sizeof int_edges[0];
    if (i < *n) {
        if (flt) return an_scalar_round(dtype, (an_scalar){.f = float_edges[i]});
        return an_scalar_round(dtype, (an_scalar){.i = dtype == AN_BOOL ? (int64_t)i : int_edges[i]});
    }
    const uint64_t bits = random_bits(i);
    if (dtype == AN_BOOL || dtype == AN_INDEX || i % 2) { /* half of them of a moderate size */
        const int64_t small = (int64_t)(bits >> 40) - (1 << 23);
        if (flt) return an_scalar_round(dtype, (an_scalar){.f = (double)small / 65536.0});
        return an_scalar_round(dtype, (an_scalar){.i = dtype == AN_BOOL ? small & 1 : small >> (small & 15)});
    }
    return an_scalar_load(dtype, &bits);
}

static int64_t ordered(an_dtype dtype, const void *at)
{
    const size_t size = an_dtype_nbytes(dtype);
    uint64_t u = 0;
    memcpy(&u, at, size); /* little-endian, as stored values are */
    const uint64_t sign = (uint64_t)1 << (8 * size - 1);
    const int64_t mag = (int64_t)(u & (sign - 1));
    return u & sign ? -mag - 1 : mag; /* so that -0 is not 0 */
}

int64_t conf_steps(an_dtype dtype, const void *a, const void *b)
{
    if (memcmp(a, b, an_dtype_nbytes(dtype)) == 0) return 0;
    if (an_dtype_kind_of(dtype) != AN_KIND_FLOAT) return 1;
    const bool nan_a = isnan(an_scalar_load(dtype, a).f), nan_b = isnan(an_scalar_load(dtype, b).f);
    if (nan_a || nan_b) return nan_a && nan_b ? 0 : INT64_MAX;
    const int64_t x = ordered(dtype, a), y = ordered(dtype, b);
    if ((x < 0) != (y < 0)) return INT64_MAX; /* signs differ, of zeros too */
    return x > y ? x - y : y - x;
}

void conf_print_value(char *text, size_t size, an_dtype dtype, const void *at)
{
    const an_scalar v = an_scalar_load(dtype, at);
    if (an_dtype_kind_of(dtype) == AN_KIND_FLOAT)
        (void)snprintf(text, size, "%.17g (%a)", v.f, v.f);
    else if (an_dtype_kind_of(dtype) == AN_KIND_UINT)
        (void)snprintf(text, size, "%" PRIu64, v.u);
    else
        (void)snprintf(text, size, "%" PRId64, v.i);
}
