/* dtype.c - facts of dtypes.def, promotion, and the conversion of single values.
 *
 * Small floats are decoded exactly into double and encoded with one rounding to nearest even, from parameters of the
 * format (IEEE 754-2019; f8 as in "FP8 Formats for Deep Learning", Micikevicius et al. 2022). */
#include "ir/uop.h"

#include <math.h>

static const struct {
    const char *name;
    an_dtype_kind kind;
    uint32_t bits;
    const char *numpy;
} dtypes[AN_DTYPE_COUNT] = {
    [AN_DTYPE_NONE] = {"none", AN_KIND_NONE, 0, ""},
#define AN_DTYPE(id, text, kind, bits, numpy) [AN_##id] = {text, AN_KIND_##kind, bits, numpy},
#include <anneal/dtypes.def>
#undef AN_DTYPE
};

static an_dtype known(an_dtype d)
{
    return (unsigned)d < AN_DTYPE_COUNT ? d : AN_DTYPE_NONE;
}

const char *an_dtype_name(an_dtype dtype)
{
    return dtypes[known(dtype)].name;
}

an_dtype_kind an_dtype_kind_of(an_dtype dtype)
{
    return dtypes[known(dtype)].kind;
}

size_t an_dtype_nbytes(an_dtype dtype)
{
    return dtypes[known(dtype)].bits / 8;
}

const char *an_dtype_numpy(an_dtype dtype)
{
    return dtypes[known(dtype)].numpy;
}

an_dtype an_dtype_parse(const char *name)
{
    for (int d = 1; d < AN_DTYPE_COUNT; d++)
        if (strcmp(dtypes[d].name, name) == 0) return (an_dtype)d;
    return AN_DTYPE_NONE;
}

/* --- promotion --------------------------------------------------------------------------------- */

an_dtype an_dtype_promote(an_dtype a, an_dtype b)
{
    if (a == b) return a;
    an_dtype_kind ka = an_dtype_kind_of(a), kb = an_dtype_kind_of(b);
    if (ka == AN_KIND_NONE || kb == AN_KIND_NONE) return AN_DTYPE_NONE;
    if (ka > kb) { /* BOOL < INT < UINT < FLOAT < INDEX */
        const an_dtype t = a;
        const an_dtype_kind k = ka;
        a = b;
        b = t;
        ka = kb;
        kb = k;
    }
    if (kb == AN_KIND_INDEX) return ka == AN_KIND_FLOAT ? a : ka == AN_KIND_BOOL ? b : AN_I64;
    if (ka == AN_KIND_BOOL || (kb == AN_KIND_FLOAT && ka != AN_KIND_FLOAT)) return b;
    const size_t na = an_dtype_nbytes(a), nb = an_dtype_nbytes(b);
    if (ka == AN_KIND_FLOAT) { /* equal sizes of two kinds: the next larger that holds both */
        if (na != nb) return na > nb ? a : b;
        return na == 1 ? AN_F16 : AN_F32;
    }
    if (ka == kb) return na > nb ? a : b;
    if (na > nb) return a; /* int wider than uint */
    static const an_dtype wider[9] = {[1] = AN_I16, [2] = AN_I32, [4] = AN_I64, [8] = AN_F32};
    return wider[nb]; /* a u64 with an int has no integer home: f32, as the float default */
}

/* --- small floats ------------------------------------------------------------------------------ */

typedef struct format {
    int exp_bits, man_bits;
    bool has_inf; /* f8e4m3 has none: its top exponent holds numbers, all ones is NaN */
} format;

static format format_of(an_dtype d)
{
    switch (d) {
    case AN_F8E4M3: return (format){4, 3, false};
    case AN_F8E5M2: return (format){5, 2, true};
    case AN_F16: return (format){5, 10, true};
    default: return (format){8, 7, true}; /* bf16 */
    }
}

static double decode(an_dtype d, uint32_t bits)
{
    const format f = format_of(d);
    const int bias = (1 << (f.exp_bits - 1)) - 1, exp_max = (1 << f.exp_bits) - 1;
    const int exp = (int)(bits >> f.man_bits) & exp_max;
    const int man = (int)(bits & ((1u << f.man_bits) - 1u));
    const double sign = bits >> (f.exp_bits + f.man_bits) & 1u ? -1.0 : 1.0;
    if (exp == exp_max && f.has_inf) return man ? (double)NAN : sign * (double)INFINITY;
    if (exp == exp_max && man == (1 << f.man_bits) - 1) return (double)NAN;
    if (exp == 0) return sign * ldexp(man, 1 - bias - f.man_bits);
    return sign * ldexp((1 << f.man_bits) + man, exp - bias - f.man_bits);
}

static uint32_t encode(an_dtype d, double x)
{
    const format f = format_of(d);
    const int bias = (1 << (f.exp_bits - 1)) - 1, exp_max = (1 << f.exp_bits) - 1;
    const uint32_t sign = signbit(x) ? 1u << (f.exp_bits + f.man_bits) : 0;
    const uint32_t inf = (uint32_t)exp_max << f.man_bits;
    if (isnan(x)) return f.has_inf ? inf | 1u << (f.man_bits - 1) : inf | ((1u << f.man_bits) - 1u);
    const uint32_t top = f.has_inf ? inf : inf | ((1u << f.man_bits) - 2u); /* infinity, or the largest number: 448 */
    const double a = fabs(x);
    if (a == 0) return sign;
    if (isinf(x)) return sign | top;
    int e = 0;
    (void)frexp(a, &e);
    e -= 1; /* a = 1.m * 2^e */
    if (e < 1 - bias) e = 1 - bias;
    /* a in units of the last place; nearbyint rounds to nearest even (the default mode, which nothing here changes). */
    const double ulps = nearbyint(ldexp(a, f.man_bits - e));
    if (ldexp(ulps, e - f.man_bits) >= ldexp(2, exp_max - bias)) return sign | top;
    const uint32_t n = (uint32_t)ulps;
    uint32_t bits;
    if (n < 1u << f.man_bits) /* below the least normal number */
        bits = n;
    else if (n == 2u << f.man_bits) /* rounded up to the next power of two */
        bits = (uint32_t)(e + 1 + bias) << f.man_bits;
    else
        bits = (uint32_t)(e + bias) << f.man_bits | (n - (1u << f.man_bits));
    return sign | (bits > top ? top : bits);
}

/* --- values ------------------------------------------------------------------------------------ */

static int64_t wrap(an_dtype d, uint64_t u)
{
    const uint32_t bits = dtypes[known(d)].bits;
    if (bits >= 64) return (int64_t)u;
    u &= ((uint64_t)1 << bits) - 1;
    if (an_dtype_kind_of(d) == AN_KIND_INT && u >> (bits - 1)) u |= ~(uint64_t)0 << bits;
    return (int64_t)u;
}

an_scalar an_scalar_round(an_dtype dtype, an_scalar v)
{
    switch (an_dtype_kind_of(dtype)) {
    case AN_KIND_BOOL: return (an_scalar){.i = v.i != 0};
    case AN_KIND_FLOAT:
        if (dtype == AN_F32)
            v.f = (double)(float)v.f;
        else if (dtype != AN_F64)
            v.f = decode(dtype, encode(dtype, v.f));
        if (isnan(v.f)) v.u = (uint64_t)0x7ff8 << 48;
        return v;
    default: return (an_scalar){.i = wrap(dtype, v.u)};
    }
}

an_scalar an_scalar_load(an_dtype dtype, const void *src)
{
    an_scalar v = {.u = 0};
    if (dtype == AN_F64) {
        memcpy(&v.f, src, 8);
    } else if (dtype == AN_F32) {
        float f = 0;
        memcpy(&f, src, 4);
        v.f = (double)f;
    } else {
        uint8_t b[8] = {0};
        memcpy(b, src, an_dtype_nbytes(dtype));
        uint64_t u = 0;
        for (int i = 0; i < 8; i++) u |= (uint64_t)b[i] << (8 * i); /* stored values are little-endian */
        if (an_dtype_kind_of(dtype) == AN_KIND_FLOAT)
            v.f = decode(dtype, (uint32_t)u);
        else if (dtype == AN_BOOL)
            v.i = u != 0;
        else
            v.i = wrap(dtype, u);
    }
    return v;
}

void an_scalar_store(an_dtype dtype, an_scalar v, void *dst)
{
    if (dtype == AN_F64) {
        memcpy(dst, &v.f, 8);
    } else if (dtype == AN_F32) {
        const float f = (float)v.f;
        memcpy(dst, &f, 4);
    } else {
        const bool flt = an_dtype_kind_of(dtype) == AN_KIND_FLOAT;
        const uint64_t u = flt ? encode(dtype, v.f) : dtype == AN_BOOL ? v.i != 0 : v.u;
        uint8_t b[8];
        for (int i = 0; i < 8; i++) b[i] = (uint8_t)(u >> (8 * i));
        memcpy(dst, b, an_dtype_nbytes(dtype));
    }
}

/* Truncates and saturates; NaN gives 0. */
static an_scalar float_to_int(an_dtype to, double f)
{
    const uint32_t bits = dtypes[known(to)].bits;
    if (isnan(f)) return (an_scalar){.i = 0};
    f = trunc(f);
    if (an_dtype_kind_of(to) == AN_KIND_UINT) {
        if (f <= 0) return (an_scalar){.u = 0};
        if (f >= ldexp(1, (int)bits)) return (an_scalar){.u = UINT64_MAX >> (64 - bits)};
        return (an_scalar){.u = (uint64_t)f};
    }
    const int64_t max = (int64_t)(((uint64_t)1 << (bits - 1)) - 1);
    if (f >= ldexp(1, (int)bits - 1)) return (an_scalar){.i = max};
    if (f < -ldexp(1, (int)bits - 1)) return (an_scalar){.i = -max - 1};
    return (an_scalar){.i = (int64_t)f};
}

/* An integer to f32 with one rounding; others go through double, exact up to 2^53 and then rounded twice only for values
 * that no narrower float tells apart. */
static double int_to_float(an_dtype from, an_dtype to, an_scalar v)
{
    if (from == AN_U64) return to == AN_F32 ? (double)(float)v.u : (double)v.u;
    return to == AN_F32 ? (double)(float)v.i : (double)v.i;
}

an_scalar an_scalar_cast(an_dtype from, an_dtype to, an_scalar v)
{
    const bool from_float = an_dtype_kind_of(from) == AN_KIND_FLOAT;
    switch (an_dtype_kind_of(to)) {
    case AN_KIND_BOOL: return (an_scalar){.i = from_float ? v.f != 0 : v.i != 0};
    case AN_KIND_FLOAT:
        if (!from_float) v.f = int_to_float(from, to, v);
        return an_scalar_round(to, v);
    default:
        if (from_float) return float_to_int(to, v.f);
        return (an_scalar){.i = wrap(to, v.u)};
    }
}
