/* Element types: conversions against NumPy and ml_dtypes (tests/golden/dtype), promotion, casts, and what ops compute. */
#include "an_test.h"
#include "ir/eval.h"

#include <math.h>
#include <stdio.h>

static double from_bits(const char *hex)
{
    an_scalar s = {.u = 0};
    unsigned long long u = 0;
    if (strcmp(hex, "nan") == 0) return (double)NAN;
    if (sscanf(hex, "%llx", &u) == 1) s.u = u;
    return s.f;
}

static void small_floats_agree_with_numpy(an_test *t)
{
    FILE *file = fopen("tests/golden/dtype/dtype.txt", "r");
    CHECK(t, file != NULL);
    char what[16], name[16], a[32], b[32];
    int n = 0;
    while (file && fscanf(file, "%15s %15s %31s %31s", what, name, a, b) == 4) {
        const an_dtype d = an_dtype_parse(name);
        CHECK(t, d != AN_DTYPE_NONE);
        unsigned bits = 0;
        if (strcmp(what, "decode") == 0) {
            CHECK_EQ(t, sscanf(a, "%x", &bits), 1);
            const unsigned char raw[2] = {(unsigned char)bits, (unsigned char)(bits >> 8)};
            const an_scalar got = an_scalar_load(d, raw), want = {.f = from_bits(b)};
            CHECK(t, isnan(want.f) ? isnan(got.f) : got.u == want.u);
        } else {
            unsigned char raw[2] = {0, 0};
            CHECK_EQ(t, sscanf(b, "%x", &bits), 1);
            an_scalar_store(d, (an_scalar){.f = from_bits(a)}, raw);
            CHECK_EQ(t, raw[0] | raw[1] << 8, bits);
        }
        n++;
    }
    if (file) fclose(file);
    CHECK(t, n > 4000);
}

/* Every pattern that is a number survives decode and encode. */
static void every_pattern_round_trips(an_test *t)
{
    const an_dtype types[4] = {AN_F8E4M3, AN_F8E5M2, AN_F16, AN_BF16};
    for (int k = 0; k < 4; k++)
        for (unsigned i = 0; i < (an_dtype_nbytes(types[k]) == 1 ? 256u : 65536u); i++) {
            const unsigned char raw[2] = {(unsigned char)i, (unsigned char)(i >> 8)};
            unsigned char out[2] = {0, 0};
            const an_scalar v = an_scalar_load(types[k], raw);
            if (isnan(v.f)) continue;
            an_scalar_store(types[k], v, out);
            CHECK_EQ(t, out[0] | out[1] << 8, i);
        }
}

static void f8e4m3_saturates_and_f8e5m2_overflows(an_test *t)
{
    CHECK(t, an_scalar_round(AN_F8E4M3, (an_scalar){.f = 1e9}).f == 448.0);
    CHECK(t, an_scalar_round(AN_F8E4M3, (an_scalar){.f = -(double)INFINITY}).f == -448.0);
    CHECK(t, isinf(an_scalar_round(AN_F8E5M2, (an_scalar){.f = 1e9}).f));
    CHECK(t, isinf(an_scalar_round(AN_F16, (an_scalar){.f = 65520.0}).f));
    CHECK(t, an_scalar_round(AN_F16, (an_scalar){.f = 65519.0}).f == 65504.0);
}

static void casts_saturate_wrap_and_send_nan_to_0(an_test *t)
{
    const struct {
        an_dtype to;
        double from;
        long long want;
    } cases[] = {{AN_I8, 300, 127},         {AN_I8, -300, -128},       {AN_U8, -1, 0},
                 {AN_U8, 255.9, 255},       {AN_I32, (double)NAN, 0},  {AN_I32, 3e9, 2147483647},
                 {AN_I64, 1e30, INT64_MAX}, {AN_I64, -1e30, INT64_MIN}, {AN_I16, -2.9, -2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK_EQ(t, an_scalar_cast(AN_F32, cases[i].to, (an_scalar){.f = cases[i].from}).i, cases[i].want);
    CHECK(t, an_scalar_cast(AN_F64, AN_U64, (an_scalar){.f = 1e30}).u == UINT64_MAX);
    CHECK_EQ(t, an_scalar_cast(AN_I32, AN_I8, (an_scalar){.i = 200}).i, -56);
    CHECK_EQ(t, an_scalar_cast(AN_I32, AN_U8, (an_scalar){.i = -1}).i, 255);
    CHECK_EQ(t, an_scalar_cast(AN_F32, AN_BOOL, (an_scalar){.f = (double)NAN}).i, 1);
    CHECK_EQ(t, an_scalar_cast(AN_F32, AN_BOOL, (an_scalar){.f = -0.0}).i, 0);
    /* 2^24 + 1 is a tie: to even. 2^60 + 2^36 + 1 is above the tie: rounding twice would lose that. */
    CHECK(t, an_scalar_cast(AN_I64, AN_F32, (an_scalar){.i = 16777217}).f == 16777216.0);
    CHECK(t, an_scalar_cast(AN_I64, AN_F32, (an_scalar){.i = ((int64_t)1 << 60) + ((int64_t)1 << 36) + 1}).f ==
                 (double)(((int64_t)1 << 60) + ((int64_t)1 << 37)));
}

static void promotion_is_commutative_and_goes_up(an_test *t)
{
    for (int a = 1; a < AN_DTYPE_COUNT; a++)
        for (int b = 1; b < AN_DTYPE_COUNT; b++) {
            const an_dtype p = an_dtype_promote((an_dtype)a, (an_dtype)b);
            CHECK_EQ(t, p, an_dtype_promote((an_dtype)b, (an_dtype)a));
            CHECK(t, p != AN_DTYPE_NONE);
            const bool ints = p == AN_I16 || p == AN_I32 || p == AN_I64; /* of an unsigned and a signed one */
            if (a != AN_INDEX && b != AN_INDEX) CHECK(t, ints || an_dtype_kind_of(p) >= an_dtype_kind_of((an_dtype)a));
        }
    CHECK_EQ(t, an_dtype_promote(AN_F16, AN_BF16), AN_F32);
    CHECK_EQ(t, an_dtype_promote(AN_U8, AN_I8), AN_I16);
    CHECK_EQ(t, an_dtype_promote(AN_I64, AN_F16), AN_F16);
    CHECK_EQ(t, an_dtype_promote(AN_BOOL, AN_U8), AN_U8);
    CHECK_EQ(t, an_dtype_promote(AN_U32, AN_I32), AN_I64);
}

static int64_t ev(an_op op, an_dtype d, int64_t x, int64_t y)
{
    const an_scalar s[2] = {{.i = x}, {.i = y}};
    return an_eval(op, d, s).i;
}

static void integer_ops_never_trap(an_test *t)
{
    CHECK_EQ(t, ev(AN_OP_IDIV, AN_I32, 7, 0), 0);
    CHECK_EQ(t, ev(AN_OP_IMOD, AN_I32, 7, 0), 0);
    CHECK_EQ(t, ev(AN_OP_IDIV, AN_I32, INT32_MIN, -1), INT32_MIN);
    CHECK_EQ(t, ev(AN_OP_IDIV, AN_I64, INT64_MIN, -1), INT64_MIN);
    CHECK_EQ(t, ev(AN_OP_IMOD, AN_I64, INT64_MIN, -1), 0);
    CHECK_EQ(t, ev(AN_OP_FLOORDIV, AN_U64, -1, 2), INT64_MAX);
    CHECK_EQ(t, ev(AN_OP_SHL, AN_U8, 1, 8), 0);
    CHECK_EQ(t, ev(AN_OP_SHL, AN_I32, 1, -1), 0);
    CHECK_EQ(t, ev(AN_OP_SHR, AN_I32, -8, 40), -1);
    CHECK_EQ(t, ev(AN_OP_SHR, AN_U32, 8, 40), 0);
    for (int64_t x = -7; x <= 7; x++)
        for (int64_t y = -3; y <= 3; y++) {
            if (y == 0) continue;
            const int64_t q = ev(AN_OP_FLOORDIV, AN_I32, x, y), r = ev(AN_OP_FLOORMOD, AN_I32, x, y);
            CHECK_EQ(t, q * y + r, x);
            CHECK(t, q == (int64_t)floor((double)x / (double)y));
            CHECK_EQ(t, ev(AN_OP_IDIV, AN_I32, x, y), x / y);
            CHECK_EQ(t, ev(AN_OP_IMOD, AN_I32, x, y), x % y);
        }
}

static void nan_wins_in_max_and_min(an_test *t)
{
    const double nan = (double)NAN;
    const an_scalar a[2] = {{.f = nan}, {.f = 1}}, b[2] = {{.f = 1}, {.f = nan}};
    CHECK(t, isnan(an_eval(AN_OP_MAX, AN_F32, a).f) && isnan(an_eval(AN_OP_MAX, AN_F32, b).f));
    CHECK(t, isnan(an_eval(AN_OP_MIN, AN_F32, a).f) && isnan(an_eval(AN_OP_MIN, AN_F32, b).f));
    CHECK_EQ(t, an_eval(AN_OP_CMPNE, AN_F32, a).i, 1);
    CHECK_EQ(t, an_eval(AN_OP_CMPEQ, AN_F32, a).i, 0);
    CHECK_EQ(t, an_eval(AN_OP_CMPLT, AN_F32, a).i, 0);
}

static void reductions_start_from_their_identity(an_test *t)
{
    for (int d = 1; d < AN_DTYPE_COUNT; d++) {
        const an_dtype dt = (an_dtype)d;
        const bool flt = an_dtype_kind_of(dt) == AN_KIND_FLOAT;
        const an_op ops[4] = {AN_OP_ADD, AN_OP_MUL, AN_OP_MAX, AN_OP_MIN};
        for (int k = 0; k < 4; k++) {
            const an_scalar one = flt ? (an_scalar){.f = 1} : (an_scalar){.i = 1};
            const an_scalar s[2] = {an_reduce_identity(ops[k], dt), one};
            CHECK_EQ(t, an_eval(ops[k], dt, s).i, one.i);
        }
    }
}

AN_TEST_MAIN(AN_CASE(small_floats_agree_with_numpy), AN_CASE(every_pattern_round_trips),
             AN_CASE(f8e4m3_saturates_and_f8e5m2_overflows), AN_CASE(casts_saturate_wrap_and_send_nan_to_0),
             AN_CASE(promotion_is_commutative_and_goes_up), AN_CASE(integer_ops_never_trap),
             AN_CASE(nan_wins_in_max_and_min), AN_CASE(reductions_start_from_their_identity))
